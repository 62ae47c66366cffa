//! The ways of decoding, and their parameters.

/// A layout, a decoder, and their parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// A thread a block.
    Coarse { table: bool, block: u32, threads: u32 },
    /// Subsequences of a bit string; with gaps or without.
    Subsequences { gaps: bool, threads: u32, words: u32, sized: bool },
    /// Blocks of 32 lanes: of `block` symbols, or the stream's own.
    Lanes { block: Option<u32>, warps: u32, kernel: &'static str },
}

/// What ways are compared: the rows of a table.
pub(crate) const FAMILIES: [&str; 6] =
    ["coarse, bit by bit", "coarse, table", "self-synchronising", "gap array", "lanes, stream's blocks", "lanes, fixed blocks"];
/// Places in [`FAMILIES`].
pub(crate) const COARSE_BITS: usize = 0;
pub(crate) const COARSE_TABLE: usize = 1;
pub(crate) const STREAM_LANES: usize = 4;

impl Way {
    /// Place in [`FAMILIES`].
    pub(crate) fn family(self) -> usize {
        match self {
            Self::Coarse { table, .. } => usize::from(table),
            Self::Subsequences { gaps, .. } => 2 + usize::from(gaps),
            Self::Lanes { block: None, .. } => STREAM_LANES,
            Self::Lanes { .. } => STREAM_LANES + 1,
        }
    }

    pub(crate) fn parameters(self) -> String {
        match self {
            Self::Coarse { block, threads, .. } => format!("blocks of {block}, {threads} threads"),
            Self::Subsequences { threads, words, sized, .. } => {
                let room = if sized { "room by class" } else { "room for most" };
                format!("{threads} of {} bits, {room}", 32 * words)
            }
            Self::Lanes { block, warps, kernel } => {
                let block = block.map_or("stream's".to_owned(), |block| block.to_string());
                format!("{block}, {warps} warps, {}", kernel.trim_start_matches("lanes_"))
            }
        }
    }

    /// All that are tried.
    pub(crate) fn all() -> Vec<Self> {
        let mut ways = Vec::new();
        for table in [false, true] {
            for block in [256, 512, 1024, 2048, 4096] {
                ways.extend([32, 128].map(|threads| Self::Coarse { table, block, threads }));
            }
        }
        for gaps in [false, true] {
            for (threads, words) in [(128, 4), (256, 4), (128, 8)] {
                ways.extend([true, false].map(|sized| Self::Subsequences { gaps, threads, words, sized }));
            }
        }
        for block in [None, Some(1024), Some(2048), Some(4096), Some(8192)] {
            for kernel in ["lanes_cache", "lanes_ring", "lanes_banked"] {
                ways.extend([1, 2, 4, 8, 16].map(|warps| Self::Lanes { block, warps, kernel }));
            }
        }
        ways
    }
}
