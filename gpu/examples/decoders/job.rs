//! What the kernels of `kernels/measure/decoders` work on. As in `src/job`, this is the only declaration: `build.rs` writes
//! `decoder_job.cuh` from it.

use super::declare::{ConstPointer, Pointer, shared_constants, shared_structs};

shared_constants! {
    /// Classes of sequences by the symbols that they hold: at most a quarter as many as bits, a third, half, or more.
    pub const CLASSES: usize = 4;

    /// Index in `counters`: blocks of a scan that are done.
    pub const TICKET: usize = 0;
    /// Index in `counters`: number of the last pass that changed something, plus 1.
    pub const CHANGED: usize = 1;
    /// Index in `counters`: sequences of the first class; those of the other classes follow.
    pub const FIRST_CLASS_COUNT: usize = 2;
    /// Index in `counters`: decoded symbols that differ from the encoded ones.
    pub const DIFFERENCES: usize = FIRST_CLASS_COUNT + CLASSES;
    /// Entries of `counters`.
    pub const COUNTERS: usize = DIFFERENCES + 1;

    /// Bit at which a symbol begins in an entry of the decoding table. With five bits below, a shift that looks at no more of its count takes
    /// the entry as it is.
    pub const LENGTH_BITS: u32 = 5;

    /// Threads of a block that compares symbols.
    pub const COMPARE_THREADS: u32 = 256;
    /// Threads of a block of a scan.
    pub const SCAN_THREADS: u32 = 1024;
    /// Numbers that a thread of a scan sums.
    pub const SCAN_EACH: u32 = 4;
    /// Numbers that a block of a scan sums.
    pub const SCAN_TILE: u32 = SCAN_THREADS * SCAN_EACH;
    /// Symbols of a tile of the encoder of one bit string.
    pub const STRING_TILE: u32 = 1024;
    /// Threads of a block that encodes a plain bit string, or lanes, a tile a warp.
    pub const ENCODER_THREADS: u32 = 128;
}

shared_structs! {
    /// What a launch works on.
    #[derive(Default)]
    pub struct DecoderJob {
        /// Symbols to encode.
        pub symbols: ConstPointer<u8>,
        /// Decoded symbols.
        pub decoded: Pointer<u8>,
        /// By symbol: code, length << 16.
        pub codes: ConstPointer<u32>,
        /// By the next MAX_CODE_BITS bits: length, symbol << LENGTH_BITS.
        pub table: ConstPointer<u16>,
        /// By length: the code behind the last one, 16 numbers; index of a code's symbol less the code, 16 numbers; then symbols by index.
        pub canonical: ConstPointer<u32>,
        /// Words of plain bit strings; the first bit is the most significant of the first word.
        pub words: Pointer<u32>,
        /// Words of lanes.
        pub lane_words: Pointer<u16>,
        /// Words of the lanes of each block, before they are brought together.
        pub slots: Pointer<u16>,
        /// Symbols before each block and before the end, or null where blocks hold `tile_len` each.
        pub block_starts: ConstPointer<u32>,
        /// The numbers to sum; after the scan, the sums of those before, within a tile of SCAN_TILE.
        pub sizes: Pointer<u32>,
        /// Sums of these tiles; after the scan, the sums of the tiles before, and of all tiles at the end.
        pub sums: Pointer<u32>,
        /// Offset of each block.
        pub index: Pointer<u32>,
        /// By subsequence: bits before its first code.
        pub gaps: Pointer<u8>,
        /// By subsequence: bits before its first code, number of its codes << 4.
        pub subsequences: Pointer<u16>,
        /// Bits of a sequence's last code that lie in the next sequence: [2][sequences].
        pub ends: Pointer<u32>,
        /// Indices of the sequences of each class, [CLASSES][sequences], or null.
        pub lists: Pointer<u32>,
        /// See TICKET to DIFFERENCES.
        pub counters: Pointer<u32>,
        /// Symbols in all.
        pub symbol_count: u32,
        /// Symbols of a block, or of what a warp encodes; a multiple of 128.
        pub tile_len: u32,
        /// Tiles, or blocks.
        pub tiles: u32,
        /// 1 if tiles begin at multiples of 32 bits.
        pub is_aligned: u32,
        /// Entries of `sizes`.
        pub scanned: u32,
        /// Bits of the bit string.
        pub total_bits: u32,
        /// Subsequences of the bit string.
        pub subsequence_count: u32,
        /// Log2 of a subsequence's bits.
        pub subsequence_log: u32,
        /// Sequences of the bit string.
        pub sequences: u32,
        /// Subsequences of a sequence.
        pub sequence_threads: u32,
        /// Number of the pass across sequences.
        pub pass: u32,
        /// 0.
        pub reserved: u32,
    }
}
