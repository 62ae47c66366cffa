//! The tiles of a chunk that are interpolated, so that interpolation is compared with differences on equal values.

use super::residual_stats::{ColumnSums, ResidualStats};
use super::tile::Tiles;
use super::tiles::{Outliers, add_counted, quantize_tile};
use super::{VALUES_PER_VALUE_OUT_OF_REACH, axes_of};
use crate::error::Result;
use crate::layout::{Layout, Shape};
use crate::memory::{reserve, resize};
use crate::number::value::Value;
use crate::predict::interpolation::Interpolation;
use crate::predict::lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::take_left_neighbours;
use crate::quantize::quantizer::Quantizer;
use crate::simd::vectorized;

/// Buffers for the tiles that are interpolated.
#[derive(Debug, Default)]
pub(super) struct InterpolatedTiles {
    interpolation: Interpolation,
    /// The bytes of all tiles' values.
    values: Vec<u8>,
    /// `[tile][value]`: the codes of all tiles, modulo 2^32.
    codes: Vec<i32>,
    /// Outliers of each tile.
    outliers: Vec<Outliers>,
    /// Differences of a tile's codes.
    differences: Vec<i32>,
    /// A mask of the values whose differences count.
    counted: Vec<i32>,
    residuals: Vec<i32>,
    exceptions: Bitmap,
}

impl InterpolatedTiles {
    /// Copies the tiles from the chunk and makes their codes. Returns false if too many values of a tile are out of the fine grid's reach: then interpolation is
    /// no candidate.
    pub(super) fn load<V: Value>(
        &mut self,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        fine: &FineGrid<V>,
    ) -> Result<bool> {
        resize(&mut self.values, tiles.count * tiles.len * V::SIZE)?;
        resize(&mut self.codes, tiles.count * tiles.len)?;
        self.outliers.clear();
        reserve(&mut self.outliers, tiles.count)?;
        let of_tiles = self.values.chunks_exact_mut(tiles.len * V::SIZE).zip(self.codes.chunks_exact_mut(tiles.len));
        for (tile, (values, codes)) in of_tiles.enumerate().take(tiles.count) {
            tiles.copy(chunk, V::SIZE, tile, values);
            self.exceptions.clear(tiles.len)?;
            let outliers = quantize_tile::<V>(values, layout.byte_order, quantizer, fine, codes, &mut self.exceptions);
            take_left_neighbours(codes, &self.exceptions, tiles.extents[0], |_| 0);
            if outliers.out_of_fine_reach > tiles.len / VALUES_PER_VALUE_OUT_OF_REACH {
                return Ok(false);
            }
            self.outliers.push(outliers);
        }
        Ok(true)
    }

    /// Interpolates the tiles, each as a chunk of its own. The residuals of levels 2 and up do not count: their share is small in a chunk, but large in a tile.
    pub(super) fn residuals<V: Value>(
        &mut self,
        tiles: &Tiles,
        layout: &Layout,
        fine: &FineGrid<V>,
        kind: InterpolationKind,
    ) -> Result<ResidualStats> {
        let Self { interpolation, values, outliers, residuals, exceptions, .. } = self;
        let layout = Layout { shape: tiles.shape(), ..*layout };
        let mut stats = ResidualStats::default();
        for (values, outliers) in values.chunks_exact(tiles.len * V::SIZE).zip(outliers) {
            exceptions.clear(tiles.len)?;
            interpolation.forward(values, &layout, fine, kind, residuals, exceptions)?;
            let residuals = &residuals[tiles.coarse_values()..tiles.len];
            let mut of_tile = vectorized(
                #[inline(always)]
                || ResidualStats::of_residuals(residuals),
            );
            of_tile.outliers += outliers.with_code(exceptions.count());
            stats = stats.plus(of_tile);
        }
        Ok(stats)
    }

    /// Statistics of the differences along a set of axes, over all values of the tiles.
    pub(super) fn differences(&mut self, tiles: &Tiles, set: usize, shape: &Shape) -> Result<ResidualStats> {
        let counted = tiles.mark_counted(&mut self.counted)?;
        // As in a tile's differences, one element before the first one, and padding.
        resize(&mut self.differences, self.counted.len())?;
        let (tile_shape, axes) = (tiles.shape(), axes_of(set, shape));
        let mut columns = ColumnSums::default();
        for codes in self.codes.chunks_exact(tiles.len).take(tiles.count) {
            lorenzo::predict(codes, &tile_shape, axes, &mut self.differences[1..][..tiles.len]);
            vectorized(
                #[inline(always)]
                || add_counted(&mut columns, &self.differences, &self.counted),
            );
        }
        let mut stats = ResidualStats::default();
        stats.add(&columns, tiles.count * counted, tiles.count * (self.counted.len() - 1 - counted));
        let between_steps: u64 = self.outliers.iter().map(|outliers| outliers.between_steps).sum();
        stats.outliers = between_steps * counted as u64 / tiles.len as u64;
        Ok(stats)
    }
}
