//! The sample of a chunk on which predictors are compared: boxes of equal extents, here called tiles.

use crate::layout::{MAX_RANK, Shape};

/// Tiles of a sample, one for each lane of a vector.
pub const TILES: usize = 16;
/// A tile grows until it has this number of values, and then by a value along each axis.
const TILE_VALUES: usize = 512;
/// A small chunk has about the values of this number of tiles, so that its tiles overlap. Interpolation does too badly in smaller tiles.
const TILES_PER_SMALL_CHUNK: usize = 4;
/// Most values of a tile, `5 * 5 * 5 * 9`: one more along each side than in `TILE_VALUES`.
pub const MAX_TILE_VALUES: usize = 1125;
/// Tiles begin at multiples of this. So levels 0 and 1 of a tile are those of the chunk, and what interpolation has restored is interpolated equally again.
const ALIGNMENT: usize = 4;

/// Where tile `t` begins along an axis: at `frac((t + 1) s / SEQUENCE_UNIT + 1/2)` of all origins. With these numbers `s`, points fill a box evenly, however
/// many they are: powers of the plastic number's inverse (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018).
const SEQUENCE: [u64; MAX_RANK] = [49_472, 37_345, 28_191, 0];
const SEQUENCE_UNIT: u64 = 1 << 16;

/// The tiles of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Extents of the chunk, fastest first.
    chunk_extents: [usize; MAX_RANK],
    /// Extents of a tile, fastest first.
    pub extents: [usize; MAX_RANK],
    /// Number of values of a tile.
    pub len: usize,
}

impl Sample {
    /// The sample of chunks of this shape.
    #[must_use]
    pub fn of(shape: &Shape) -> Self {
        let chunk_extents = shape.extents();
        let extents = tile_extents(chunk_extents);
        Self { chunk_extents, extents, len: extents.iter().product() }
    }

    /// Number of a tile's values that have a neighbour before them along every axis longer than 1. The differences of these count.
    #[must_use]
    pub fn counted_len(&self) -> usize {
        self.extents.iter().map(|&extent| (extent - 1).max(1)).product()
    }

    /// Number of a tile's first residuals of interpolation that do not count. If three axes or more are longer than 1, the residuals of level 2 and of coarser
    /// levels do not count, as a chunk has a smaller share of them than a tile. Level 2 has every fourth value along each axis.
    #[must_use]
    pub fn uncounted_residuals(&self) -> usize {
        let long_axes = self.extents.iter().filter(|&&extent| extent > 1).count();
        if long_axes < 3 { 0 } else { self.extents.iter().map(|extent| extent.div_ceil(4)).product() }
    }

    /// Index of a tile's first value along each axis, fastest first. Along the slowest axis longer than 1 the tiles are evenly spaced. Along other axes they
    /// follow [`SEQUENCE`].
    fn origin(&self, tile: usize) -> [usize; MAX_RANK] {
        let slowest = (0..MAX_RANK).rfind(|&axis| self.chunk_extents[axis] > 1).unwrap_or(0);
        std::array::from_fn(|axis| {
            let origins = ((self.chunk_extents[axis] - self.extents[axis]) / ALIGNMENT + 1) as u64;
            let (numerator, denominator) = if axis == slowest {
                (2 * tile as u64 + 1, 2 * TILES as u64)
            } else {
                (((tile as u64 + 1) * SEQUENCE[axis] + SEQUENCE_UNIT / 2) % SEQUENCE_UNIT, SEQUENCE_UNIT)
            };
            (origins * numerator / denominator) as usize * ALIGNMENT
        })
    }

    /// Index in the chunk of a tile's first value.
    #[must_use]
    pub fn first_index(&self, tile: usize) -> usize {
        let [x, y, z, w] = self.origin(tile);
        let [nx, ny, nz, _] = self.chunk_extents;
        ((w * nz + z) * ny + y) * nx + x
    }

    /// Copies tile number `tile` of a chunk whose values have `size` bytes. `values` has room for a tile.
    pub fn copy(&self, chunk: &[u8], size: usize, tile: usize, values: &mut [u8]) {
        let [nx, ny, nz, _] = self.chunk_extents;
        let first = self.first_index(tile);
        for (row, values) in values.chunks_exact_mut(self.extents[0] * size).enumerate() {
            let (y, z, w) =
                (row % self.extents[1], row / self.extents[1] % self.extents[2], row / self.extents[1] / self.extents[2]);
            let from = (first + ((w * nz + z) * ny + y) * nx) * size;
            values.copy_from_slice(&chunk[from..][..values.len()]);
        }
    }
}

/// Extents of a tile, equal as far as the chunk allows: short sides would hide how well interpolation does along them. A side is a power of two plus one, or
/// the chunk's extent. With a power of two plus one, both ends of a side are values of coarser levels, between which interpolation predicts the others, as in
/// most of a chunk.
fn tile_extents(chunk_extents: [usize; MAX_RANK]) -> [usize; MAX_RANK] {
    let len = TILE_VALUES.min(chunk_extents.iter().product::<usize>() / TILES_PER_SMALL_CHUNK);
    let mut side = chunk_extents.map(|extent| extent.min(2));
    while side.iter().product::<usize>() < len {
        let growing = (0..MAX_RANK).filter(|&axis| side[axis] < chunk_extents[axis]).min_by_key(|&axis| side[axis]);
        let Some(axis) = growing else { break };
        side[axis] *= 2;
    }
    std::array::from_fn(|axis| if side[axis] == 1 { 1 } else { (side[axis] + 1).min(chunk_extents[axis]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [&[u64]; 8] =
        [&[100_000], &[300, 400], &[1, 50_000], &[40, 41, 43], &[2, 2, 9000], &[11, 12, 13, 17], &[3, 70_000], &[64, 64, 64]];

    #[test]
    fn tiles_have_about_their_number_of_values() {
        let of_small: [&[u64]; 8] = [&[1], &[2], &[3, 1], &[100], &[8, 8], &[3, 3, 3], &[2, 3, 2, 3], &[16, 16, 16]];
        for dims in SHAPES.into_iter().chain(of_small) {
            let shape = Shape::new(dims).unwrap();
            let (elements, sample) = (shape.elements() as usize, Sample::of(&shape));
            for (extent, chunk_extent) in sample.extents.into_iter().zip(shape.extents()) {
                assert!(extent <= chunk_extent && (extent == chunk_extent || (extent - 1).is_power_of_two()), "{dims:?}");
                assert_eq!(extent == 1, chunk_extent == 1, "{dims:?}: differences need two values along every axis that has two");
            }
            let len = TILE_VALUES.min(elements / TILES_PER_SMALL_CHUNK);
            assert!((len / 2..=MAX_TILE_VALUES).contains(&sample.len), "{dims:?}: {}", sample.len);
        }
    }

    #[test]
    fn tiles_are_spread_over_the_chunk() {
        for dims in [&[100_000][..], &[300, 400], &[64, 64, 64], &[20, 30, 20, 30]] {
            let shape = Shape::new(dims).unwrap();
            let sample = Sample::of(&shape);
            for (axis, &extent) in shape.extents().iter().enumerate() {
                // Both halves of an axis have a tile's beginning.
                let origins = extent - sample.extents[axis] + 1;
                let seen = (0..TILES).fold(0, |seen, tile| seen | 1 << (2 * sample.origin(tile)[axis] / origins));
                assert!(origins < 2 || seen == 0b11, "{dims:?} axis {axis}: {seen:b}");
                assert!((0..TILES).all(|tile| sample.origin(tile)[axis] < origins));
            }
        }
    }
}
