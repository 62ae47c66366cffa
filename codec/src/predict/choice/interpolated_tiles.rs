//! The tiles of a chunk that are interpolated, so that interpolation is compared with differences on equal values.

use super::axes_of;
use super::kinds::possible_kinds;
use super::residual_stats::{ColumnSums, ResidualStats};
use super::tile_counts::InterpolatedCounts;
use super::tile_lanes::TileLanes;
use super::tiles::{Outliers, TileChoice, add_counted, quantize_tile};
use crate::error::Result;
use crate::layout::{ByteOrder, Layout};
use crate::memory::{reserve, resize};
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::take_left_neighbours;
use crate::simd::widely_vectorized;

/// Buffers for the tiles that are interpolated.
#[derive(Debug, Default)]
pub(super) struct InterpolatedTiles {
    lanes: TileLanes,
    /// The bytes of a tile's values.
    values: Vec<u8>,
    /// `[tile][value]`: the codes of all tiles, modulo 2^32.
    codes: Vec<i32>,
    /// Outliers of each tile.
    outliers: Vec<Outliers>,
    /// Differences of a tile's codes.
    differences: Vec<i32>,
    /// A mask of the values whose differences count.
    counted: Vec<i32>,
    /// The values of a tile that have no code.
    without_code: Bitmap,
}

impl InterpolatedTiles {
    /// Copies the tiles from the chunk and makes their codes. Returns false if too many values of a tile are out of the fine grid's reach: then interpolation
    /// is no candidate.
    pub(super) fn load<V: Value>(
        &mut self,
        choice: &TileChoice,
        chunk: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
    ) -> Result<bool> {
        let Some(tiles) = choice.interpolated_tiles() else { return Ok(false) };
        resize(&mut self.values, tiles.len * V::SIZE)?;
        resize(&mut self.codes, tiles.count * tiles.len)?;
        self.outliers.clear();
        reserve(&mut self.outliers, tiles.count)?;
        self.lanes.clear(tiles)?;
        for (tile, codes) in self.codes.chunks_exact_mut(tiles.len).enumerate().take(tiles.count) {
            tiles.copy(chunk, V::SIZE, tile, &mut self.values);
            self.without_code.clear(tiles.len)?;
            let outliers = quantize_tile::<V>(&self.values, order, choice.quantizer(), fine, codes, &mut self.without_code);
            take_left_neighbours(codes, self.without_code.runs(), tiles.extents[0], |_| 0);
            if outliers.out_of_fine_reach > choice.most_out_of_reach() {
                return Ok(false);
            }
            self.lanes.load::<V>(tile, &self.values, order, fine, &self.without_code);
            self.outliers.push(outliers);
        }
        // Two values cannot be masked.
        if fine.masks_fill_value() {
            self.lanes.close_zeros();
        } else {
            self.lanes.count_zero_edges(tiles.extents[0], choice.edges_of_planes());
        }
        Ok(true)
    }

    /// Interpolates the tiles, each as a chunk of its own, and measures the residuals that count.
    pub(super) fn residuals(&mut self, choice: &TileChoice, kind: InterpolationKind) -> Result<ResidualStats> {
        choice.interpolated_tiles().map_or(Ok(ResidualStats::default()), |tiles| self.lanes.measure(tiles, kind))
    }

    /// Number of values between steps, in all tiles.
    fn between_steps(&self) -> u64 {
        self.outliers.iter().map(|outliers| outliers.between_steps).sum()
    }

    /// Statistics of the differences along a set of axes, over all values of the tiles.
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
            widely_vectorized(
                #[inline(always)]
                || add_counted(&mut columns, &self.differences, &self.counted),
            );
        }
        let counted = tiles.counted_len();
        stats.add(&columns, tiles.count * counted, tiles.count * (self.counted.len() - 1 - counted));
        stats.outliers = tiles.among_counted(self.between_steps());
        Ok(stats)
    }

    /// The counts of residuals of all kinds, and of differences along all sets of axes. `None` if interpolation is no candidate.
    pub(super) fn count_all<V: Value>(
        &mut self,
        choice: &TileChoice,
        chunk: &[u8],
        layout: &Layout,
        fine: &FineGrid<V>,
    ) -> Result<Option<InterpolatedCounts>> {
        let (Some(tiles), true) = (choice.interpolated_tiles(), self.load::<V>(choice, chunk, layout.byte_order, fine)?) else {
            return Ok(None);
        };
        let mut counts = InterpolatedCounts { between_steps: self.between_steps() as u32, ..InterpolatedCounts::default() };
        for set in tiles.sets() {
            counts.differences[set] = self.differences(choice, set)?.into();
        }
        for kind in possible_kinds(&layout.shape) {
            let stats = self.residuals(choice, kind)?;
            counts.residuals[kind.number()] = stats.into();
            counts.outliers[kind.number()] = stats.outliers as u32;
            counts.zero_escapes[kind.number()] = stats.zero_escapes as u32;
            counts.zero_edges = stats.zero_edges as u32;
        }
        Ok(Some(counts))
    }
}
