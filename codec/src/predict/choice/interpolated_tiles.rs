//! The tiles of a chunk that are interpolated, so that interpolation is compared with differences on equal values.

use super::axes_of;
use super::residual_stats::{ColumnSums, ResidualStats, StatsOfSets};
use super::tile_counts::InterpolatedCounts;
use super::tiles::{TileChoice, add_counted, quantize_tile};
use crate::error::Result;
use crate::layout::ByteOrder;
use crate::memory::resize;
use crate::number::value::Value;
use crate::predict::interpolation::Interpolation;
use crate::predict::lorenzo;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::take_left_neighbours;
use crate::simd::vectorized;

/// Buffers for the tiles that are interpolated.
#[derive(Debug, Default)]
pub(super) struct InterpolatedTiles {
    interpolation: Interpolation,
    /// The bytes of a tile's values.
    tile: Vec<u8>,
    /// `[tile][value]`: the codes of all tiles, modulo 2^32.
    codes: Vec<i32>,
    /// Differences of a tile's codes.
    differences: Vec<i32>,
    /// A mask of the values whose differences count.
    counted: Vec<i32>,
    residuals: Vec<i32>,
    exceptions: Bitmap,
    /// Number of values between steps, in all tiles.
    between_steps: u64,
}

impl InterpolatedTiles {
    /// Interpolates the tiles, each as a chunk of its own, and keeps their codes. The residuals of levels 2 and up do not count: their share is small in a
    /// chunk, but large in a tile. `None` if too many values of a tile are out of the fine grid's reach: then interpolation is no candidate.
    pub(super) fn measure<V: Value>(
        &mut self,
        choice: &TileChoice,
        chunk: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
    ) -> Result<Option<ResidualStats>> {
        let Some(tiles) = choice.interpolated_tiles() else { return Ok(None) };
        let shape = tiles.shape();
        resize(&mut self.tile, tiles.len * V::SIZE)?;
        resize(&mut self.codes, tiles.count * tiles.len)?;
        self.between_steps = 0;
        let mut stats = ResidualStats::default();
        for (tile, codes) in self.codes.chunks_exact_mut(tiles.len).enumerate().take(tiles.count) {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            self.exceptions.clear(tiles.len)?;
            let outliers = quantize_tile::<V>(&self.tile, order, choice.quantizer(), fine, codes, &mut self.exceptions);
            take_left_neighbours(codes, &self.exceptions, tiles.extents[0], |_| 0);
            if outliers.out_of_fine_reach > choice.most_out_of_reach() {
                return Ok(None);
            }
            self.between_steps += outliers.between_steps;
            self.exceptions.clear(tiles.len)?;
            let Self { interpolation, tile, residuals, exceptions, .. } = self;
            interpolation.forward(tile, order, &shape, fine, residuals, exceptions)?;
            let residuals = &residuals[tiles.coarse_values()..tiles.len];
            let mut of_tile = vectorized(
                #[inline(always)]
                || ResidualStats::of_residuals(residuals),
            );
            of_tile.outliers += outliers.with_code(exceptions.count());
            stats = stats.plus(of_tile);
        }
        Ok(Some(stats))
    }

    /// Statistics of the differences along a set of axes, over all values of the tiles that [`InterpolatedTiles::measure`] has interpolated.
    pub(super) fn differences(&mut self, choice: &TileChoice, set: usize) -> Result<ResidualStats> {
        let mut stats = ResidualStats::default();
        let Some(tiles) = choice.interpolated_tiles() else { return Ok(stats) };
        tiles.mark_counted(&mut self.counted)?;
        // As in a tile's differences, one element before the first one, and padding.
        resize(&mut self.differences, self.counted.len())?;
        let shape = tiles.shape();
        let mut columns = ColumnSums::default();
        for codes in self.codes.chunks_exact(tiles.len).take(tiles.count) {
            lorenzo::predict(codes, &shape, axes_of(set, &shape), &mut self.differences[1..][..tiles.len]);
            vectorized(
                #[inline(always)]
                || add_counted(&mut columns, &self.differences, &self.counted),
            );
        }
        let counted = tiles.counted_len();
        stats.add(&columns, tiles.count * counted, tiles.count * (self.counted.len() - 1 - counted));
        stats.outliers = tiles.among_counted(self.between_steps);
        Ok(stats)
    }

    /// The counts of residuals, and of differences along all sets of axes. `None` where [`InterpolatedTiles::measure`] gives none.
    pub(super) fn count_all<V: Value>(
        &mut self,
        choice: &TileChoice,
        chunk: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
    ) -> Result<Option<InterpolatedCounts>> {
        let (Some(tiles), Some(residuals)) = (choice.interpolated_tiles(), self.measure::<V>(choice, chunk, order, fine)?) else {
            return Ok(None);
        };
        let mut differences = StatsOfSets::default();
        for set in tiles.sets() {
            differences[set] = self.differences(choice, set)?;
        }
        Ok(Some(InterpolatedCounts {
            residuals: residuals.into(),
            outliers: residuals.outliers as u32,
            differences: differences.map(Into::into),
            between_steps: self.between_steps as u32,
        }))
    }
}
