//! Tiles of a chunk, and differences of their codes along all sets of axes.

use super::sets_of;
use crate::error::Result;
use crate::layout::{MAX_RANK, Shape};
use crate::memory::resize;
use crate::number::integer::Integer;

/// Chunks with at least the values of this number of tiles are sampled. Of smaller chunks, all values are measured (docs/design-notes.md, "Choice of the
/// predictor").
const MIN_TILES_OF_SAMPLED_CHUNK: usize = 16;
/// Number of tiles of a sample.
pub(super) const SAMPLED_TILES: usize = 8;
/// Length of a tile's rows over the length of its other sides. Long rows take less time a value.
const ROW_LENGTH_TO_SIDE: usize = 2;
/// Number of values of a tile, about.
const TILE_VALUES: usize = 512;
/// Number of residuals that are counted at once, one for each lane of vector code.
pub(super) const COLUMNS: usize = 16;

/// The tiles of a chunk. All have equal extents.
#[derive(Debug)]
pub(super) struct Tiles {
    /// Extents of the chunk, fastest first.
    chunk_extents: [usize; MAX_RANK],
    /// Extents of a tile, fastest first.
    pub extents: [usize; MAX_RANK],
    /// Difference of the indices of neighbouring values of a tile, along each axis.
    strides: [usize; MAX_RANK],
    /// Set of the axes along which the chunk's extent is 1.
    pub flat: usize,
    /// Number of sets of axes of the chunk's rank.
    pub sets: usize,
    /// Number of values of a tile.
    pub len: usize,
    /// Number of elements before a tile's first value. The differences of its first values read them.
    lead: usize,
    /// Number of values of a tile, rounded up to a multiple of [`COLUMNS`].
    padded: usize,
}

impl Tiles {
    /// The tiles of a chunk of this shape.
    pub(super) fn new(shape: &Shape) -> Self {
        // A tile has more than one value along an axis wherever the chunk has.
        let (sets, flat) = sets_of(shape);
        let chunk_extents = shape.extents();
        let extents = tile_extents(chunk_extents);
        let mut strides = [1; MAX_RANK];
        for axis in 1..MAX_RANK {
            strides[axis] = strides[axis - 1] * extents[axis - 1];
        }
        let len: usize = extents.iter().product();
        let is_flat = |axis: &usize| extents[*axis] == 1;
        Self {
            chunk_extents,
            extents,
            strides,
            flat,
            sets,
            len,
            lead: (0..MAX_RANK).rfind(|axis| !is_flat(axis)).map_or(0, |axis| strides[axis]).next_multiple_of(COLUMNS),
            padded: len.next_multiple_of(COLUMNS),
        }
    }

    /// Whether the chunk is so small that all its values are measured.
    pub(super) fn is_chunk_small(&self) -> bool {
        self.chunk_extents.iter().product::<usize>() / self.len < MIN_TILES_OF_SAMPLED_CHUNK
    }

    /// Shape of a tile.
    pub(super) fn shape(&self) -> Shape {
        let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| self.extents[MAX_RANK - 1 - axis] as u64);
        #[expect(clippy::unwrap_used, reason = "four small extents above 0")]
        Shape::new(&dims).unwrap()
    }

    /// Number of a tile's values in level 2 of interpolation, which has every fourth value along each axis.
    pub(super) fn coarse_values(&self) -> usize {
        self.extents.iter().map(|extent| extent.div_ceil(4)).product()
    }

    /// Copies tile number `tile` of a chunk whose values have `size` bytes.
    pub(super) fn copy(&self, chunk: &[u8], size: usize, tile: usize, values: &mut [u8]) {
        let Self { chunk_extents, extents, .. } = self;
        let origin: [usize; MAX_RANK] =
            std::array::from_fn(|axis| (chunk_extents[axis] - extents[axis]) * ORIGINS[tile][axis] / 3);
        let len = extents[0] * size;
        let mut rows = values.chunks_exact_mut(len);
        for w in origin[3]..origin[3] + extents[3] {
            for z in origin[2]..origin[2] + extents[2] {
                let first = ((w * chunk_extents[2] + z) * chunk_extents[1] + origin[1]) * chunk_extents[0] + origin[0];
                for (row, values) in rows.by_ref().take(extents[1]).enumerate() {
                    copy_row(&chunk[(first + row * chunk_extents[0]) * size..][..len], values);
                }
            }
        }
    }

    /// Length of the array `[set of axes][lead and values]` of a tile's differences. The differences along no axis are the codes.
    pub(super) fn room(&self) -> usize {
        self.sets * (self.lead + self.padded)
    }

    /// The codes in that array.
    pub(super) fn codes<'a, C>(&self, room: &'a mut [C]) -> &'a mut [C] {
        &mut room[self.lead..][..self.len]
    }

    /// Writes -1 for each value of a tile whose differences count, and 0 for the others. A value counts if it has a neighbour before it along every axis that
    /// is longer than 1. Returns the number of values that count.
    pub(super) fn mark_counted(&self, counted: &mut Vec<i32>) -> Result<usize> {
        counted.clear();
        resize(counted, self.padded)?;
        let [len, ny, nz, _] = self.extents;
        let first = self.extents.map(|extent| usize::from(extent > 1));
        let mut count = 0;
        for (row, counted) in counted[..self.len].chunks_exact_mut(len).enumerate() {
            if row % ny >= first[1] && row / ny % nz >= first[2] && row / ny / nz >= first[3] {
                counted[first[0]..].fill(-1);
                count += len - first[0];
            }
        }
        Ok(count)
    }

    /// Computes the differences of a tile's codes along every set of axes without flat ones. `add` gets the set and its differences, with arbitrary numbers
    /// as padding after the last one.
    #[inline(always)]
    pub(super) fn for_each_set<C: Integer>(&self, room: &mut [C], mut add: impl FnMut(usize, &[[C; COLUMNS]])) {
        let size = self.lead + self.padded;
        for set in (0..self.sets).filter(|set| set & self.flat == 0) {
            if set > 0 {
                let axis = set.ilog2() as usize;
                let (before, here) = room.split_at_mut(set * size);
                let parent = &before[(set ^ 1 << axis) * size..][..size];
                let (codes, others) = (&parent[self.lead..], &parent[self.lead - self.strides[axis]..]);
                for ((difference, &code), &other) in here[self.lead..size].iter_mut().zip(codes).zip(others) {
                    *difference = code.sub(other);
                }
            }
            add(set, room[set * size..][self.lead..size].as_chunks().0);
        }
    }
}

/// Copies a row. Rows are short, so that a call of `memcpy` would cost more.
#[inline(always)]
fn copy_row(source: &[u8], target: &mut [u8]) {
    const PIECE: usize = 16;
    let (pieces, targets) = (source.as_chunks::<PIECE>().0, target.as_chunks_mut::<PIECE>().0);
    for (target, piece) in targets.iter_mut().zip(pieces) {
        *target = *piece;
    }
    // The last group ends with the last value and overlaps the group before it.
    if let (Some(target), Some(piece)) = (target.last_chunk_mut::<PIECE>(), source.last_chunk()) {
        *target = *piece;
    } else {
        target.copy_from_slice(source);
    }
}

/// Extents of a tile of about [`TILE_VALUES`] values, whose sides are as equal as the chunk allows. A side is a power of two plus one, or the chunk's extent.
/// With a power of two plus one, interpolation knows a value at both ends of a side, as it does for most values of a chunk.
fn tile_extents(chunk_extents: [usize; MAX_RANK]) -> [usize; MAX_RANK] {
    let mut side = [1; MAX_RANK];
    while side.iter().product::<usize>() < TILE_VALUES {
        let growing = (0..MAX_RANK)
            .filter(|&axis| side[axis] < chunk_extents[axis])
            .min_by_key(|&axis| if axis == 0 { side[0] / ROW_LENGTH_TO_SIDE } else { side[axis] });
        let Some(axis) = growing else { break };
        side[axis] *= 2;
    }
    std::array::from_fn(|axis| if side[axis] == 1 { 1 } else { (side[axis] + 1).min(chunk_extents[axis]) })
}

/// `[tile][axis]`: a tile's origin, in thirds of the largest possible origin, fastest axis first.
const ORIGINS: [[usize; MAX_RANK]; SAMPLED_TILES] =
    [[0, 1, 2, 3], [1, 3, 0, 2], [2, 0, 3, 1], [3, 2, 1, 0], [0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 0, 0, 1]];

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [&[u64]; 9] =
        [&[1], &[511], &[100_000], &[300, 400], &[1, 5000], &[40, 41, 43], &[2, 2, 9000], &[11, 12, 13, 17], &[3, 70_000]];

    #[test]
    fn tiles_have_about_their_number_of_values() {
        for dims in SHAPES {
            let shape = Shape::new(dims).unwrap();
            let tiles = Tiles::new(&shape);
            for (extent, chunk_extent) in tiles.extents.into_iter().zip(shape.extents()) {
                assert!(extent <= chunk_extent && (extent == chunk_extent || (extent - 1).is_power_of_two()), "{dims:?}");
                assert_eq!(extent == 1, chunk_extent == 1, "{dims:?}: differences need two values along every axis that has two");
            }
            assert!(tiles.len as u64 >= shape.elements().min(TILE_VALUES as u64 / 2), "{dims:?}");
            assert!(tiles.len <= 4 * TILE_VALUES, "{dims:?}");
        }
        assert!(Tiles::new(&Shape::new(&[1]).unwrap()).is_chunk_small());
        assert!(Tiles::new(&Shape::new(&[16, 16, 16]).unwrap()).is_chunk_small());
        assert!(!Tiles::new(&Shape::new(&[64, 64, 64]).unwrap()).is_chunk_small());
    }

    #[test]
    fn tiles_are_copied_from_inside_the_chunk() {
        for dims in SHAPES {
            let shape = Shape::new(dims).unwrap();
            let (tiles, [nx, ny, nz, _]) = (Tiles::new(&shape), shape.extents());
            let chunk: Vec<u8> = (0..shape.elements() as u32).flat_map(u32::to_le_bytes).collect();
            for tile in 0..SAMPLED_TILES {
                let mut values = vec![0; 4 * tiles.len];
                tiles.copy(&chunk, 4, tile, &mut values);
                let values: Vec<usize> = values.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value) as usize).collect();
                let mut at = values.iter();
                let origin = values[0];
                for w in 0..tiles.extents[3] {
                    for z in 0..tiles.extents[2] {
                        for y in 0..tiles.extents[1] {
                            for x in 0..tiles.extents[0] {
                                let index = origin + ((w * nz + z) * ny + y) * nx + x;
                                assert_eq!(*at.next().unwrap(), index, "{dims:?} tile {tile}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn differences_of_counted_values_are_those_of_the_format() {
        for dims in SHAPES {
            let shape = Shape::new(dims).unwrap();
            let tiles = Tiles::new(&shape);
            let mut room = vec![12_345i32; tiles.room()];
            let codes: Vec<i32> = (0..tiles.len).map(|i| (i as i32).wrapping_mul(0x9e37_79b9_u32 as i32)).collect();
            tiles.codes(&mut room).copy_from_slice(&codes);
            let mut counted = Vec::new();
            let count = tiles.mark_counted(&mut counted).unwrap();
            let counted: Vec<usize> = (0..counted.len()).filter(|&i| counted[i] == -1).collect();
            let inner: usize = tiles.extents.iter().map(|&extent| extent.max(2) - 1).product();
            assert_eq!((count, counted.len()), (inner, inner), "{dims:?}");
            let mut sets = Vec::new();
            tiles.for_each_set(&mut room, |set, differences| {
                sets.push(set);
                for &i in &counted {
                    // Each axis of the set subtracts the neighbour before.
                    let expected = (0..1usize << MAX_RANK).filter(|subset| subset & !set == 0).fold(0i32, |sum, subset| {
                        let back: usize =
                            (0..MAX_RANK).filter(|axis| subset >> axis & 1 == 1).map(|axis| tiles.strides[axis]).sum();
                        let sign = if subset.count_ones() % 2 == 0 { 1 } else { -1 };
                        sum.wrapping_add(codes[i - back].wrapping_mul(sign))
                    });
                    assert_eq!(differences.as_flattened()[i], expected, "{dims:?} set {set:b} value {i}");
                }
            });
            let (all, flat) = sets_of(&shape);
            assert_eq!(sets, (0..all).filter(|set| set & flat == 0).collect::<Vec<_>>());
        }
    }
}
