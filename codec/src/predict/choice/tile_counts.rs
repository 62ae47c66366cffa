//! Counts over the residuals of tiles, as a device hands them over, and the statistics that follow from them.

use super::residual_stats::ResidualStats;
use crate::layout::MAX_RANK;

/// Number of sets of axes.
pub const SETS: usize = 1 << MAX_RANK;
/// Number of kinds of interpolation, by their numbers.
pub const KINDS: usize = 2 << MAX_RANK;

/// Counts over residuals of one predictor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidualCounts {
    /// Number of residuals that are 0.
    pub zeros: u32,
    /// Number of residuals other than 0 that are directly behind a 0.
    pub rises: u32,
    /// Number of residuals that are 1 or -1.
    pub ones: u32,
    /// Number of residuals with a magnitude of 2 or 3.
    pub two_bits: u32,
    /// Number of residuals with a magnitude of 4 to 7.
    pub three_bits: u32,
    /// Number of residuals with a magnitude of [`LARGE_MAGNITUDE`](super::residual_stats::LARGE_MAGNITUDE) or more.
    pub large: u32,
    /// Number of residuals below 0 whose magnitude is smaller.
    pub negative: u32,
    /// Sum of the lengths in bits of all magnitudes, each at most [`MAX_COUNTED_MAGNITUDE`](super::residual_stats::MAX_COUNTED_MAGNITUDE).
    pub magnitude_bits: u32,
}

/// Counts over all tiles of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TileCounts {
    /// Differences along each set of axes, of the tiles of differences. Only values that have a neighbour before them along every axis longer than 1 count.
    pub differences: [ResidualCounts; SETS],
    /// Number of these tiles' values that are between steps.
    pub between_steps: u32,
    /// Number of these tiles' values with a code that are out of the fine grid's reach.
    pub out_of_reach: u32,
    /// Counts over the interpolated tiles. `None` if interpolation is no candidate, or too many values of one of them are out of the fine grid's reach.
    pub interpolated: Option<InterpolatedCounts>,
}

/// Counts over interpolated tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InterpolatedCounts {
    /// By the number of the kind of interpolation: residuals that count ([`Tiles::uncounted_residuals`](super::tile::Tiles::uncounted_residuals)).
    /// An escape counts as a 0.
    pub residuals: [ResidualCounts; KINDS],
    /// By kind: number of values with one of these residuals that are escapes, or exceptions that have a code; zeros do not count.
    pub outliers: [u32; KINDS],
    /// By kind: number of zeros with one of these residuals that are escapes.
    pub zero_escapes: [u32; KINDS],
    /// Number of neighbours along a row of which one is a zero, and the other is not.
    pub zero_edges: u32,
    /// Differences along each set of axes, of the values that have a neighbour before them along every axis longer than 1.
    pub differences: [ResidualCounts; SETS],
    /// Number of values that are between steps.
    pub between_steps: u32,
}

impl From<ResidualStats> for ResidualCounts {
    fn from(stats: ResidualStats) -> Self {
        Self {
            zeros: stats.zeros as u32,
            rises: stats.rises as u32,
            ones: stats.ones as u32,
            two_bits: stats.two_bits as u32,
            three_bits: stats.three_bits as u32,
            large: stats.large as u32,
            negative: stats.negative as u32,
            magnitude_bits: stats.magnitude_bits as u32,
        }
    }
}

impl ResidualCounts {
    /// The statistics of `values` residuals with these counts.
    pub(super) fn of(self, values: usize, outliers: u64) -> ResidualStats {
        ResidualStats {
            values: values as u64,
            zeros: self.zeros.into(),
            rises: self.rises.into(),
            ones: self.ones.into(),
            two_bits: self.two_bits.into(),
            three_bits: self.three_bits.into(),
            large: self.large.into(),
            negative: self.negative.into(),
            magnitude_bits: self.magnitude_bits.into(),
            outliers,
            ..ResidualStats::default()
        }
    }
}
