//! Tiles of a chunk, and differences of their codes along all sets of axes.

use super::sets_of;
use crate::error::Result;
use crate::layout::{MAX_RANK, Shape};
use crate::memory::resize;
use crate::number::integer::Integer;

/// Chunks with room for fewer tiles are small: tried as a whole, those of 8192 values are 1.3 % shorter, and not compressed slower. Those of 16384 are as much shorter,
/// but take a twentieth longer.
const FEW_TILES: usize = 16;
/// Tiles of other chunks that are tried.
pub(super) const TILES: usize = 8;
/// How much longer than its other sides a tile's rows are: long rows go faster.
const LONGER: usize = 2;
/// About so many values a tile.
const TILE_VALUES: usize = 512;
/// Values that are counted together: see [`Tiles::differ`].
pub(super) const COLUMNS: usize = 16;

/// The tiles of a chunk: all have the same extents.
#[derive(Debug)]
pub(super) struct Tiles {
    whole: [usize; MAX_RANK],
    pub extents: [usize; MAX_RANK],
    /// Distances of neighbours along the axes.
    strides: [usize; MAX_RANK],
    /// Axes along which there is but one value.
    pub flat: usize,
    /// Number of sets of axes of the chunk's rank.
    pub sets: usize,
    /// Values of a tile.
    pub len: usize,
    /// Room before a tile's first value, which differences of the first values read.
    margin: usize,
    /// Values of a tile, rounded up to whole columns.
    padded: usize,
}

impl Tiles {
    pub(super) fn new(shape: &Shape) -> Self {
        // A tile has more than one value along an axis wherever the chunk has.
        let (sets, flat) = sets_of(shape);
        let whole = shape.extents();
        let extents = tile_extents(whole);
        let mut strides = [1; MAX_RANK];
        for axis in 1..MAX_RANK {
            strides[axis] = strides[axis - 1] * extents[axis - 1];
        }
        let len: usize = extents.iter().product();
        let is_flat = |axis: &usize| extents[*axis] == 1;
        Self {
            whole,
            extents,
            strides,
            flat,
            sets,
            len,
            margin: (0..MAX_RANK).rfind(|axis| !is_flat(axis)).map_or(0, |axis| strides[axis]).next_multiple_of(COLUMNS),
            padded: len.next_multiple_of(COLUMNS),
        }
    }

    /// Whether the chunk is so small that it is better tried as a whole.
    pub(super) fn are_few(&self) -> bool {
        self.whole.iter().product::<usize>() / self.len < FEW_TILES
    }

    pub(super) fn shape(&self) -> Shape {
        let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| self.extents[MAX_RANK - 1 - axis] as u64);
        #[expect(clippy::unwrap_used, reason = "four small extents above 0")]
        Shape::new(&dims).unwrap()
    }

    /// Values of a tile's grid of every fourth value.
    pub(super) fn coarse_values(&self) -> usize {
        self.extents.iter().map(|extent| extent.div_ceil(4)).product()
    }

    /// Copies a tile's values of so many bytes.
    pub(super) fn copy(&self, chunk: &[u8], size: usize, tile: usize, values: &mut [u8]) {
        let Self { whole, extents, .. } = self;
        let origin: [usize; MAX_RANK] = std::array::from_fn(|axis| (whole[axis] - extents[axis]) * ORIGINS[tile][axis] / 3);
        let len = extents[0] * size;
        let mut rows = values.chunks_exact_mut(len);
        for w in origin[3]..origin[3] + extents[3] {
            for z in origin[2]..origin[2] + extents[2] {
                let first = ((w * whole[2] + z) * whole[1] + origin[1]) * whole[0] + origin[0];
                for (row, values) in rows.by_ref().take(extents[1]).enumerate() {
                    copy_row(&chunk[(first + row * whole[0]) * size..][..len], values);
                }
            }
        }
    }

    /// Length of the room for a tile's codes and its differences along all sets of axes.
    pub(super) fn room(&self) -> usize {
        self.sets * (self.margin + self.padded)
    }

    /// The part of that room that is for the codes.
    pub(super) fn codes<'a, C>(&self, room: &'a mut [C]) -> &'a mut [C] {
        &mut room[self.margin..][..self.len]
    }

    /// Which values count, those that have neighbours before them along all axes: all bits are set for them, and none for others. Their number is
    /// returned.
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

    /// Differences of a tile's codes along all sets of axes; `add` gets those of each set, and behind them some numbers that mean nothing.
    #[inline(always)]
    pub(super) fn differ<C: Integer>(&self, room: &mut [C], mut add: impl FnMut(usize, &[[C; COLUMNS]])) {
        let size = self.margin + self.padded;
        for set in (0..self.sets).filter(|set| set & self.flat == 0) {
            if set > 0 {
                let axis = set.ilog2() as usize;
                let (before, here) = room.split_at_mut(set * size);
                let parent = &before[(set ^ 1 << axis) * size..][..size];
                let (codes, others) = (&parent[self.margin..], &parent[self.margin - self.strides[axis]..]);
                for ((difference, &code), &other) in here[self.margin..size].iter_mut().zip(codes).zip(others) {
                    *difference = code.sub(other);
                }
            }
            add(set, room[set * size..][self.margin..size].as_chunks().0);
        }
    }
}

/// Copies a row, which is mostly too short to be worth a call.
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

/// Extents of a tile: about [`TILE_VALUES`] values, as even as the chunk allows. One value more than a power of two lets interpolation end
/// on a known value, as most of a chunk's values see it.
fn tile_extents(whole: [usize; MAX_RANK]) -> [usize; MAX_RANK] {
    let mut side = [1; MAX_RANK];
    while side.iter().product::<usize>() < TILE_VALUES {
        let growing = (0..MAX_RANK)
            .filter(|&axis| side[axis] < whole[axis])
            .min_by_key(|&axis| if axis == 0 { side[0] / LONGER } else { side[axis] });
        let Some(axis) = growing else { break };
        side[axis] *= 2;
    }
    std::array::from_fn(|axis| if side[axis] == 1 { 1 } else { (side[axis] + 1).min(whole[axis]) })
}

/// Where tiles begin along the axes, in thirds of the way.
const ORIGINS: [[usize; MAX_RANK]; TILES] =
    [[0, 1, 2, 3], [1, 3, 0, 2], [2, 0, 3, 1], [3, 2, 1, 0], [0, 3, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 0, 0, 1]];
