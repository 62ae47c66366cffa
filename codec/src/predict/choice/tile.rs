//! Tiles of a chunk, and differences of their codes along all sets of axes.

use super::sets_of;
use crate::error::Result;
use crate::layout::{MAX_RANK, Shape};
use crate::memory::resize;
use crate::number::integer::Integer;

/// Number of tiles of which differences are measured. Many small tiles show more of a chunk than few large ones.
pub const DIFFERENCE_TILES: usize = 64;
/// About the number of values of such a tile whose differences count.
const DIFFERENCE_VALUES: usize = 64;
/// Number of tiles that are interpolated.
pub const INTERPOLATED_TILES: usize = 16;
/// About the number of values of such a tile. It is larger, since next to a tile's faces interpolation has fewer neighbours than in the chunk.
const INTERPOLATED_VALUES: usize = 512;
/// Length of a tile's rows over the length of its other sides: long rows take less time per value.
const ROW_TO_SIDE: usize = 4;
/// Most values of a tile. Its sides multiply to 512 at most before each gets one value more: `3 * 3 * 3 * 65` values are the most.
pub const MAX_TILE_VALUES: usize = 1755;
/// Number of residuals that are counted at once, one for each lane of vector code.
pub(super) const COLUMNS: usize = 16;

/// The tiles of a chunk. All have equal extents.
#[derive(Debug, Clone, Copy)]
pub struct Tiles {
    /// Extents of the chunk, fastest first.
    chunk_extents: [usize; MAX_RANK],
    /// Extents of a tile, fastest first.
    pub extents: [usize; MAX_RANK],
    /// Difference of the indices of neighbouring values of a tile, along each axis.
    strides: [usize; MAX_RANK],
    /// Set of the axes along which the chunk's extent is 1.
    flat: usize,
    /// Number of sets of axes of the chunk's rank.
    sets: usize,
    /// Number of tiles.
    pub count: usize,
    /// Number of values of a tile.
    pub len: usize,
    /// Number of elements before a tile's first value. The differences of its first values read them.
    lead: usize,
    /// Number of values of a tile, rounded up to a multiple of [`COLUMNS`].
    padded: usize,
}

impl Tiles {
    /// The tiles of which differences are measured.
    pub(super) fn for_differences(shape: &Shape) -> Self {
        Self::new(shape, DIFFERENCE_TILES, DIFFERENCE_VALUES)
    }

    /// The tiles that are interpolated. A chunk with fewer values than all of them together gets fewer tiles.
    pub(super) fn for_interpolation(shape: &Shape) -> Self {
        let tiles = Self::new(shape, INTERPOLATED_TILES, INTERPOLATED_VALUES);
        let fitting = tiles.chunk_extents.iter().product::<usize>() / tiles.len;
        Self { count: tiles.count.min(fitting).max(1), ..tiles }
    }

    fn new(shape: &Shape, count: usize, values: usize) -> Self {
        // A tile has more than one value along an axis wherever the chunk has.
        let (sets, flat) = sets_of(shape);
        let chunk_extents = shape.extents();
        let extents = tile_extents(chunk_extents, values);
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
            count,
            len,
            lead: (0..MAX_RANK).rfind(|axis| !is_flat(axis)).map_or(1, |axis| strides[axis]).next_multiple_of(COLUMNS),
            padded: len.next_multiple_of(COLUMNS),
        }
    }

    /// Whether the chunk has fewer values than these tiles together: then all its values are measured.
    pub(super) fn is_chunk_small(&self) -> bool {
        self.chunk_extents.iter().product::<usize>() / self.count < self.len
    }

    /// The sets of axes along which differences are measured: those without flat axes.
    pub(super) fn sets(&self) -> impl Iterator<Item = usize> + use<> {
        let flat = self.flat;
        (0..self.sets).filter(move |set| set & flat == 0)
    }

    /// Shape of a tile.
    pub(super) fn shape(&self) -> Shape {
        let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| self.extents[MAX_RANK - 1 - axis] as u64);
        #[expect(clippy::unwrap_used, reason = "four small extents above 0")]
        Shape::new(&dims).unwrap()
    }

    /// Number of a tile's values that have a neighbour before them along every axis that is longer than 1. The differences of these count.
    #[must_use]
    pub fn counted_len(&self) -> usize {
        self.extents.iter().map(|&extent| (extent - 1).max(1)).product()
    }

    /// The number of values expected among those that count, where `values` were found among all values of the tiles.
    pub(super) fn among_counted(&self, values: u64) -> u64 {
        values * self.counted_len() as u64 / self.len as u64
    }

    /// Number of a tile's residuals of interpolation, from the first one on, that do not count. If three axes are longer than 1, these are the residuals of
    /// level 2, which has every fourth value along each axis, and of coarser levels: a chunk has a smaller share of them than a tile.
    #[must_use]
    pub fn uncounted_residuals(&self) -> usize {
        let long_axes = self.extents.iter().filter(|&&extent| extent > 1).count();
        if long_axes < 3 { 0 } else { self.extents.iter().map(|extent| extent.div_ceil(4)).product() }
    }

    /// Index of a tile's first value along each axis, fastest first. Along the slowest axis longer than 1 the tiles are evenly spaced, along the others they
    /// follow [`SEQUENCE`].
    fn origin(&self, tile: usize) -> [usize; MAX_RANK] {
        let slowest = (0..MAX_RANK).rfind(|&axis| self.chunk_extents[axis] > 1).unwrap_or(0);
        std::array::from_fn(|axis| {
            let origins = (self.chunk_extents[axis] - self.extents[axis] + 1) as u64;
            let (numerator, denominator) = if axis == slowest {
                (2 * tile as u64 + 1, 2 * self.count as u64)
            } else {
                (((tile as u64 + 1) * SEQUENCE[axis] + SEQUENCE_UNIT / 2) % SEQUENCE_UNIT, SEQUENCE_UNIT)
            };
            (origins * numerator / denominator) as usize
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
        let Self { chunk_extents, extents, .. } = self;
        let origin = self.origin(tile);
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

    /// Makes a mask of a tile's values whose differences count ([`Tiles::counted_len`]): -1 for each of them, 0 for the others, for the padding, and for one
    /// element before the first value.
    pub(super) fn mark_counted(&self, counted: &mut Vec<i32>) -> Result<()> {
        counted.clear();
        resize(counted, 1 + self.padded)?;
        let [len, ny, nz, _] = self.extents;
        let first = self.extents.map(|extent| usize::from(extent > 1));
        for (row, counted) in counted[1..][..self.len].chunks_exact_mut(len).enumerate() {
            if row % ny >= first[1] && row / ny % nz >= first[2] && row / ny / nz >= first[3] {
                counted[first[0]..].fill(-1);
            }
        }
        Ok(())
    }

    /// Computes the differences of a tile's codes along every set of axes without flat ones. `add` gets the set and its differences, with an arbitrary number
    /// before the first one and others as padding after the last one.
    #[inline(always)]
    pub(super) fn for_each_set<C: Integer>(&self, room: &mut [C], mut add: impl FnMut(usize, &[C])) {
        let size = self.lead + self.padded;
        for set in self.sets() {
            if set > 0 {
                let axis = set.ilog2() as usize;
                let (before, here) = room.split_at_mut(set * size);
                let parent = &before[(set ^ 1 << axis) * size..][..size];
                let (codes, others) = (&parent[self.lead..], &parent[self.lead - self.strides[axis]..]);
                for ((difference, &code), &other) in here[self.lead..size].iter_mut().zip(codes).zip(others) {
                    *difference = code.sub(other);
                }
            }
            add(set, &room[set * size..][self.lead - 1..size]);
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

/// Extents of a tile of about `values` values, whose rows are [`ROW_TO_SIDE`] times as long as its other sides, as far as the chunk allows. A side is a power
/// of two plus one, or the chunk's extent. With a power of two plus one, both ends of a side are values of coarser levels, between which interpolation predicts
/// the others, as it does in most of a chunk.
fn tile_extents(chunk_extents: [usize; MAX_RANK], values: usize) -> [usize; MAX_RANK] {
    let mut side = [1; MAX_RANK];
    while side.iter().product::<usize>() < values {
        let growing = (0..MAX_RANK)
            .filter(|&axis| side[axis] < chunk_extents[axis])
            .min_by_key(|&axis| if axis == 0 { side[0] / ROW_TO_SIDE } else { side[axis] });
        let Some(axis) = growing else { break };
        side[axis] *= 2;
    }
    std::array::from_fn(|axis| if side[axis] == 1 { 1 } else { (side[axis] + 1).min(chunk_extents[axis]) })
}

/// Where tile `t` begins along an axis: at `frac((t + 1) s / SEQUENCE_UNIT + 1/2)` of all origins. With these numbers `s`, any number of points of few
/// dimensions fills a box evenly (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018: the powers of the plastic number's inverse).
const SEQUENCE: [u64; MAX_RANK] = [49_472, 37_345, 28_191, 0];
const SEQUENCE_UNIT: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [&[u64]; 9] =
        [&[1], &[511], &[100_000], &[300, 400], &[1, 5000], &[40, 41, 43], &[2, 2, 9000], &[11, 12, 13, 17], &[3, 70_000]];

    /// The tiles of both kinds.
    fn kinds(shape: &Shape) -> [Tiles; 2] {
        [Tiles::for_differences(shape), Tiles::for_interpolation(shape)]
    }

    #[test]
    fn tiles_have_about_their_number_of_values() {
        for dims in SHAPES {
            let shape = Shape::new(dims).unwrap();
            for (tiles, values) in kinds(&shape).into_iter().zip([DIFFERENCE_VALUES, INTERPOLATED_VALUES]) {
                for (extent, chunk_extent) in tiles.extents.into_iter().zip(shape.extents()) {
                    assert!(extent <= chunk_extent && (extent == chunk_extent || (extent - 1).is_power_of_two()), "{dims:?}");
                    assert_eq!(
                        extent == 1,
                        chunk_extent == 1,
                        "{dims:?}: differences need two values along every axis that has two"
                    );
                }
                assert!(2 * tiles.len as u64 >= shape.elements().min(values as u64), "{dims:?}: {}", tiles.len);
                assert!(tiles.len <= MAX_TILE_VALUES.min(4 * values), "{dims:?}: {}", tiles.len);
                assert!((1..=DIFFERENCE_TILES).contains(&tiles.count), "{dims:?}");
            }
        }
        for (dims, is_small) in
            [(&[1][..], true), (&[16, 16, 16], true), (&[64, 64, 64], false), (&[4096], true), (&[10_000], false)]
        {
            assert_eq!(Tiles::for_differences(&Shape::new(dims).unwrap()).is_chunk_small(), is_small, "{dims:?}");
        }
    }

    #[test]
    fn fewer_tiles_are_interpolated_where_all_would_be_more_than_the_chunk() {
        for (dims, count) in [(&[13, 13, 9][..], 3), (&[64, 64, 64], 16), (&[10], 1)] {
            assert_eq!(Tiles::for_interpolation(&Shape::new(dims).unwrap()).count, count, "{dims:?}");
        }
    }

    #[test]
    fn tiles_are_spread_over_the_chunk() {
        for dims in [&[100_000][..], &[300, 400], &[64, 64, 64], &[20, 30, 20, 30]] {
            let shape = Shape::new(dims).unwrap();
            for tiles in kinds(&shape) {
                let origins: Vec<_> = (0..tiles.count).map(|tile| tiles.origin(tile)).collect();
                for (axis, &extent) in shape.extents().iter().enumerate() {
                    // Every part of an axis has a tile's beginning: an eighth if there are many tiles, else a half.
                    let origins_of_axis = extent - tiles.extents[axis] + 1;
                    let parts = if tiles.count > INTERPOLATED_TILES { 8 } else { 2 };
                    let seen = origins.iter().fold(0, |seen, origin| seen | 1u32 << (parts * origin[axis] / origins_of_axis));
                    assert!(origins_of_axis < parts || seen == (1 << parts) - 1, "{dims:?} axis {axis}: {seen:b}");
                    assert!(origins.iter().all(|origin| origin[axis] < origins_of_axis));
                }
            }
        }
    }

    #[test]
    fn tiles_are_copied_from_inside_the_chunk() {
        for dims in SHAPES {
            let shape = Shape::new(dims).unwrap();
            let [nx, ny, nz, _] = shape.extents();
            let chunk: Vec<u8> = (0..shape.elements() as u32).flat_map(u32::to_le_bytes).collect();
            for (tiles, tile) in kinds(&shape).iter().flat_map(|tiles| (0..tiles.count).map(move |tile| (tiles, tile))) {
                let mut values = vec![0; 4 * tiles.len];
                tiles.copy(&chunk, 4, tile, &mut values);
                let values: Vec<usize> = values.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value) as usize).collect();
                let mut at = values.iter();
                let origin = tiles.first_index(tile);
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
            let tiles = Tiles::for_differences(&shape);
            let mut room = vec![12_345i32; tiles.room()];
            let codes: Vec<i32> = (0..tiles.len).map(|i| (i as i32).wrapping_mul(0x9e37_79b9_u32 as i32)).collect();
            tiles.codes(&mut room).copy_from_slice(&codes);
            let mut counted = Vec::new();
            tiles.mark_counted(&mut counted).unwrap();
            assert_eq!(counted[0], 0, "the element before the first value");
            let counted: Vec<usize> = (0..counted.len() - 1).filter(|&i| counted[i + 1] == -1).collect();
            let inner: usize = tiles.extents.iter().map(|&extent| extent.max(2) - 1).product();
            assert_eq!((counted.len(), tiles.counted_len()), (inner, inner), "{dims:?}");
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
                    assert_eq!(differences[i + 1], expected, "{dims:?} set {set:b} value {i}");
                }
            });
            let (all, flat) = sets_of(&shape);
            assert_eq!(sets, (0..all).filter(|set| set & flat == 0).collect::<Vec<_>>());
        }
    }
}
