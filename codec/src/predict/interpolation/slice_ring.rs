//! Interpolation of one level, slice by slice along the level's slowest axis. A ring has four slices of each parity class, so that they stay in the cache.
//!
//! A slice is even or odd by its index along the slowest axis. Slices `2k` and `2k + 1` have the coarse index `k`. Odd slice `2k + 1` is predicted from the
//! even slices at distances -3, -1, 1 and 3, and is coded after the last of them, `2k + 4`.
//!
//! ```text
//! even slices by coarse index     E0      E1      E2      E3    ...
//! odd slices                          O0      O1      O2
//! order                           E0 E1 E2 O0 E3 O1 ...         O1 is predicted from E0, E1, E2 and E3
//! ```
//!
//! If slices are small, or if all slices fit the cache, the level is a single slice along an axis of extent 1. With several slices, the calls for each row and
//! class would take longer than the accesses to memory.
//!
//! A slice has margins: one value more at both ends of each axis along which the level has several values. A margin continues the known values by a parabola,
//! or by a line if there are two. Cubic interpolation from a margin equals the quadratic interpolation that FORMAT.md §6.2 requires at the ends of an axis. So
//! one loop serves all values.

mod margins;

use super::level::{Extents, Level, ParityClass, SETS, axes_of, count, has};
use super::mean::{Neighbours, extrapolated, mean, mean_of};
use crate::error::Result;
use crate::fast_paths::{Path, is_open};
use crate::layout::MAX_RANK;
use crate::memory::lengthen;
use crate::predict::predictor::InterpolationKind;
use crate::simd::outlined;

/// Even slices of a parity class in the ring: the neighbours of an odd slice.
const RING_SLICES: usize = 4;
/// Odd slice `2k + 1` is coded after even slice `2(k + ODD_SLICE_LAG)`.
const ODD_SLICE_LAG: usize = 2;
/// Limits on the slices of a level. Within them the level becomes a single slice.
struct SingleSlice {
    /// Most coarse values of a slice in a level of any length.
    max_slice: usize,
    /// Most coarse values of a slice in a level whose next coarser level has at most `max_coarse_level` values.
    max_slice_of_short_level: usize,
    max_coarse_level: usize,
}

/// For levels of two dimensions, whose slices are rows.
const SINGLE_2D: SingleSlice = SingleSlice { max_slice: 128, max_slice_of_short_level: 1024, max_coarse_level: 1 << 18 };
/// For levels of three dimensions.
const SINGLE_3D: SingleSlice = SingleSlice { max_slice: 256, max_slice_of_short_level: 1024, max_coarse_level: 1 << 13 };
/// Most values of a single slice with its margins. Short axes have more margins than values.
const MAX_SLICE_VALUES: usize = 1 << 20;

/// The ring of slices of one level.
pub(super) struct SliceRing<'a> {
    level: &'a Level,
    kind: InterpolationKind,
    /// The axis along which slices follow each other: the slowest axis with several values. If the level is one slice, it is an axis with one value.
    axis: usize,
    /// Distance in a slice from a value to the next along each axis; 0 along `axis`.
    strides: Extents,
    /// Index of a slice's first value behind the margins.
    origin: usize,
    /// Values of a slice with its margins.
    size: usize,
    /// Even slices of a parity class that are kept: [`RING_SLICES`], or 1 if the level has one even slice.
    ring: usize,
    /// Number in `positions` of each parity class's first slice, by the class's set. Set 0 is the coarser level.
    first_slice: [usize; SETS],
    /// Positions, `[slice][value]`.
    positions: &'a mut [i32],
    /// Predictions of one slice.
    predictions: &'a mut [i32],
}

/// Rows of a parity class that have equal indices along the two slowest axes: `rows` by `len` values.
pub(super) struct ClassRows<'a> {
    pub class: &'a ParityClass,
    /// Indices in the class of the first value.
    pub indices: Extents,
    /// Values of a row.
    pub len: usize,
    /// Number of rows; 1 where each row is a slice.
    pub rows: usize,
    /// Distance from a row to the next among predictions and among positions, at least `len`.
    pub stride: usize,
}

/// Whether a level of at most three dimensions is processed as one slice.
fn is_one_slice(level: &Level) -> bool {
    let coarse = level.coarse_extents;
    let (slice, most) = if coarse[2] == 1 { (coarse[0], SINGLE_2D) } else { (coarse[0] * coarse[1], SINGLE_3D) };
    let with_margins = (0..MAX_RANK - 1).map(|axis| coarse[axis] + 2 * margin(level, axis)).product::<usize>();
    with_margins <= MAX_SLICE_VALUES
        && (slice <= most.max_slice || slice <= most.max_slice_of_short_level && count(coarse) <= most.max_coarse_level)
        && is_open(Path::SingleSlices)
}

/// Width of a slice's margin at each end of an axis: 1, or 0 along an axis of one value.
fn margin(level: &Level, axis: usize) -> usize {
    usize::from(level.extents[axis] > 1)
}

impl<'a> SliceRing<'a> {
    /// The ring of a level, in two vectors. They grow if they are too short.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline(always)]
    pub(super) fn new(
        level: &'a Level,
        kind: InterpolationKind,
        positions: &'a mut Vec<i32>,
        predictions: &'a mut Vec<i32>,
    ) -> Result<Self> {
        let slowest = (1..MAX_RANK).rev().find(|&axis| level.extents[axis] > 1).unwrap_or(MAX_RANK - 1);
        let axis = if slowest < MAX_RANK - 1 && is_one_slice(level) { MAX_RANK - 1 } else { slowest };
        let (mut strides, mut origin, mut size) = ([0; MAX_RANK], 0, 1);
        for other in (0..MAX_RANK).filter(|&other| other != axis) {
            let margin = margin(level, other);
            strides[other] = size;
            origin += margin * size;
            size *= level.coarse_extents[other] + 2 * margin;
        }
        let ring = if level.coarse_extents[axis] > 1 { RING_SLICES } else { 1 };
        let (mut first_slice, mut slices) = ([0; SETS], 0);
        for set in std::iter::once(0).chain(level.classes().iter().map(|class| class.set)) {
            first_slice[set] = slices;
            slices += if has(set, axis) { 1 } else { ring };
        }
        lengthen(positions, slices * size)?;
        lengthen(predictions, size)?;
        Ok(Self { level, kind, axis, strides, origin, size, ring, first_slice, positions, predictions })
    }

    /// Codes the level slice by slice. `coarse` has the positions of the coarser level in C order. `code_rows` gets [`ClassRows`] and their predictions, and
    /// writes their positions. `merge` gets each row of the level: the index of its first value, its even positions and its odd positions.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        coarse: &[i32],
        mut code_rows: impl FnMut(&ClassRows<'_>, &[i32], &mut [i32]),
        mut merge: impl FnMut(usize, &[i32], &[i32]),
    ) {
        let (level, axis) = (self.level, self.axis);
        let known = level.coarse_extents[axis];
        for even in 0..known + ODD_SLICE_LAG {
            if even < known {
                outlined(
                    #[inline(always)]
                    || self.load_slice(coarse, even),
                );
            }
            // Parity classes of the even slice, then those of an earlier odd slice: all its neighbours are known now.
            for odd in [false, true] {
                if odd && even == ODD_SLICE_LAG.min(known - 1) {
                    self.fill_ring_margin([0, 1, 2], RING_SLICES - 1);
                }
                if odd && even == known {
                    self.fill_ring_margin([known - 1, known.wrapping_sub(2), known.wrapping_sub(3)], known);
                }
                for class in level.classes().iter().filter(|class| has(class.set, axis) == odd) {
                    let slice_index = even.wrapping_sub(if odd { ODD_SLICE_LAG } else { 0 });
                    if slice_index < class.extents[axis] {
                        self.code_slice(class, slice_index, &mut code_rows);
                    }
                }
            }
            if even >= ODD_SLICE_LAG {
                outlined(
                    #[inline(always)]
                    || self.merge_slices(even - ODD_SLICE_LAG, &mut merge),
                );
            }
        }
    }

    /// Calls `merge` for the rows of the even slice with a coarse index, and of the next odd slice.
    #[inline(always)]
    fn merge_slices(&self, slice_index: usize, merge: &mut impl FnMut(usize, &[i32], &[i32])) {
        let level = self.level;
        let (mut start, mut end) = ([0; MAX_RANK], level.extents);
        start[self.axis] = 2 * slice_index;
        end[self.axis] = end[self.axis].min(2 * slice_index + 2);
        for w in start[3]..end[3] {
            for z in start[2]..end[2] {
                let first = self.at([0, 0, z / 2, w / 2]);
                let slow = (z & 1) << 2 | (w & 1) << 3;
                let rows = [0, 1 << 1].map(|y| [0, 1].map(|x| &self.slice(slow | y | x, slice_index)[first..]));
                for y in start[1]..end[1] {
                    let at = y / 2 * self.strides[1];
                    let [evens, odds] = rows[y & 1];
                    merge(
                        ((w * level.extents[2] + z) * level.extents[1] + y) * level.extents[0],
                        &evens[at..][..level.coarse_extents[0]],
                        &odds[at..][..level.extents[0] / 2],
                    );
                }
            }
        }
    }

    /// Index in a slice of the value with these indices; the index along the ring's axis does not count.
    #[inline(always)]
    fn at(&self, indices: Extents) -> usize {
        (0..MAX_RANK).fold(self.origin, |at, axis| at + indices[axis] * self.strides[axis])
    }

    /// Number in `positions` of a class's slice. `slice_index` is the slice's coarse index.
    #[inline(always)]
    fn number(&self, set: usize, slice_index: usize) -> usize {
        self.first_slice[set] + if has(set, self.axis) { 0 } else { slice_index % self.ring }
    }

    /// A class's slice with this coarse index.
    #[inline(always)]
    fn slice(&self, set: usize, slice_index: usize) -> &[i32] {
        &self.positions[self.number(set, slice_index) * self.size..][..self.size]
    }

    /// Copies a slice of the coarser level's positions into the ring, with its margins.
    #[inline(always)]
    fn load_slice(&mut self, coarse: &[i32], slice_index: usize) {
        let extents = self.level.coarse_extents;
        let slice = self.number(0, slice_index) * self.size;
        let (mut start, mut end) = ([0; MAX_RANK], extents);
        (start[self.axis], end[self.axis]) = (slice_index, slice_index + 1);
        for w in start[3]..end[3] {
            for z in start[2]..end[2] {
                for y in start[1]..end[1] {
                    let row = (w * extents[2] + z) * extents[1] + y;
                    let at = slice + self.at([0, y, z, w]);
                    self.positions[at..at + extents[0]].copy_from_slice(&coarse[row * extents[0]..][..extents[0]]);
                }
            }
        }
        self.fill_margins(0, extents, slice);
    }

    /// Predicts and codes a class's slice with this coarse index, and fills its margins.
    #[inline(always)]
    fn code_slice(
        &mut self,
        class: &ParityClass,
        slice_index: usize,
        code_rows: &mut impl FnMut(&ClassRows<'_>, &[i32], &mut [i32]),
    ) {
        let slice = self.number(class.set, slice_index) * self.size;
        let mut extents = class.extents;
        extents[self.axis] = 1;
        let [len, rows, nz, _] = extents;
        outlined(
            #[inline(always)]
            || self.predict_slice(class, extents, slice_index),
        );
        for z in 0..nz {
            let mut indices = [0, 0, z, 0];
            indices[self.axis] = slice_index;
            let at = slice + self.at([0, 0, z, 0]);
            let stride = self.strides[1];
            let class_rows = ClassRows { class, indices, len, rows, stride: stride.max(len) };
            let (predictions, positions) =
                (&self.predictions[z * self.strides[2]..], &mut self.positions[at..at + (rows - 1) * stride + len]);
            outlined(
                #[inline(always)]
                || code_rows(&class_rows, predictions, positions),
            );
        }
        outlined(
            #[inline(always)]
            || self.fill_margins(class.set, extents, slice),
        );
    }

    /// The neighbours along an axis of a class's values. The values begin at index `at` of the class's slice.
    #[inline(always)]
    fn neighbours(&self, set: usize, axis: usize, slice_index: usize, at: usize) -> Neighbours<'_> {
        let source = set & !(1 << axis);
        if axis == self.axis {
            // The margin before slice 0 is the last slice of the ring.
            [slice_index + RING_SLICES - 1, slice_index, slice_index + 1, slice_index + 2]
                .map(|slice_index| &self.slice(source, slice_index)[at..])
        } else {
            let (slice, stride) = (self.slice(source, slice_index), self.strides[axis]);
            [
                &slice[at - stride..],
                &slice[at..],
                &slice[(at + stride).min(self.size)..],
                &slice[(at + 2 * stride).min(self.size)..],
            ]
        }
    }

    /// Predicts a class's slice, which has these extents.
    #[inline(always)]
    fn predict_slice(&mut self, class: &ParityClass, extents: Extents, slice_index: usize) {
        let known = self.level.coarse_extents;
        // The last value along an axis may have no neighbour at distance +1. Then this axis does not count for the value, unless no other axis is left.
        let inner: Extents = std::array::from_fn(|axis| {
            if axis != self.axis && has(class.set, axis) { extents[axis].min(known[axis] - 1) } else { extents[axis] }
        });
        let is_last = slice_index + 1 >= known[self.axis];
        let all_axes = self.kind.axes_of(class.set);
        let axes = if is_last { all_axes & !(1 << self.axis) } else { all_axes };
        let [len, rows, nz, _] = extents;
        // If each row is a slice, there is one row, and the distance to the next row does not matter.
        let (to_row, to_z) = (self.strides[1].max(1), self.strides[2]);
        let predictions = std::mem::take(&mut self.predictions);
        // The slice is cut into regions, whose values have the same axes that count. First comes the inside, then the last row of each layer of the inside. Then
        // come the last layer's other rows, and its last row.
        let last_rows = if inner[1] < rows { inner[2] } else { 0 };
        for region in 0..last_rows + 3 {
            let (z, y, axes) = if region == 0 {
                (0..inner[2], 0..inner[1], axes)
            } else if region <= last_rows {
                (region - 1..region, inner[1]..rows, axes & !(1 << 1))
            } else if region == last_rows + 1 {
                (inner[2]..nz, 0..inner[1], axes & !(1 << 2))
            } else {
                (inner[2]..nz, inner[1]..rows, axes & !(1 << 1 | 1 << 2))
            };
            if z.is_empty() || y.is_empty() {
                continue;
            }
            for (x, axes, stride) in [(0..inner[0], axes, 1), (inner[0]..len, axes & !1, to_row)] {
                if x.is_empty() {
                    continue;
                }
                // The margins between rows get predictions, too, which nobody reads.
                let target = z.start * to_z + y.start * to_row + x.start..(z.end - 1) * to_z + (y.end - 1) * to_row + x.end;
                let at = self.origin + target.start;
                if axes == 0 {
                    self.extrapolate(class.set, all_axes, slice_index, at, &mut predictions[target], stride);
                } else {
                    self.interpolate(class.set, axes, slice_index, at, &mut predictions[target], stride);
                }
            }
        }
        self.predictions = predictions;
    }

    /// Predicts every `stride`-th value from its neighbours along these axes. Neighbours exist at distances -1 and +1.
    #[inline(always)]
    fn interpolate(&self, set: usize, axes: usize, slice_index: usize, at: usize, target: &mut [i32], stride: usize) {
        let mut neighbours: [Neighbours<'_>; MAX_RANK] = [[&[]; 4]; MAX_RANK];
        let mut used = 0;
        for axis in axes_of(axes) {
            neighbours[used] = self.neighbours(set, axis, slice_index, at);
            used += 1;
        }
        let is_linear = self.kind.is_linear();
        match used {
            1 => mean_of::<1>(neighbours, is_linear, target, stride),
            2 => mean_of::<2>(neighbours, is_linear, target, stride),
            3 => mean_of::<3>(neighbours, is_linear, target, stride),
            _ => mean_of::<4>(neighbours, is_linear, target, stride),
        }
    }

    /// Predicts every `stride`-th value from its neighbours along `all_axes` that come before it. It has none at distance +1 along any of these axes.
    #[inline(always)]
    fn extrapolate(&self, set: usize, all_axes: usize, slice_index: usize, at: usize, target: &mut [i32], stride: usize) {
        let (mut neighbours, mut constant) = ([[&[][..]; 2]; MAX_RANK], [false; MAX_RANK]);
        let mut axes = 0;
        for axis in axes_of(all_axes) {
            let [before, here, ..] = self.neighbours(set, axis, slice_index, at);
            neighbours[axes] = [&before[..target.len()], &here[..target.len()]];
            constant[axes] = self.kind.is_linear() || self.level.coarse_extents[axis] == 1;
            axes += 1;
        }
        for (i, target) in target.iter_mut().enumerate().step_by(stride) {
            let along = |axis: usize| {
                let [before, here] = neighbours[axis].map(|positions| positions[i]);
                extrapolated(before, here, constant[axis])
            };
            *target = mean((0..axes).fold(0i32, |sum, axis| sum.wrapping_add(along(axis))), axes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::level::index;
    use super::super::plain;
    use super::*;

    /// Restores a level through a ring.
    fn restore(level: &Level, kind: InterpolationKind, coarse: &[i32], residuals: &[i32]) -> Vec<i32> {
        let known = count(level.coarse_extents);
        let mut restored = vec![0; count(level.extents)];
        let (mut positions, mut predictions) = (vec![-77; 50], vec![99; 10]);
        SliceRing::new(level, kind, &mut positions, &mut predictions).unwrap().run(
            coarse,
            |rows, predictions, positions| {
                let first = rows.class.start + index(rows.class.extents, rows.indices) - known;
                for row in 0..rows.rows {
                    for x in 0..rows.len {
                        let at = row * rows.stride + x;
                        positions[at] = plain::position(predictions[at], residuals[first + row * rows.len + x], 8);
                    }
                }
            },
            |first, evens, odds| {
                evens.iter().enumerate().for_each(|(i, &even)| restored[first + 2 * i] = even);
                odds.iter().enumerate().for_each(|(i, &odd)| restored[first + 2 * i + 1] = odd);
            },
        );
        restored
    }

    #[test]
    fn levels_of_any_extents_are_restored_as_the_format_says() {
        let mut levels: Vec<Extents> = Vec::new();
        for y in 1..=9 {
            for x in [1, 2, 3, 4, 5, 7, 11, 16, 17] {
                levels.extend([[x, y, 1, 1], [x, y, 2, 1], [x, 3, y, 1], [x, 2, y, 5], [x, y, 3, 2], [x, 1, y, 1], [x, 1, 1, y]]);
            }
        }
        // Single slices and several ones, on both sides of [`SINGLE_2D`] and [`SINGLE_3D`].
        levels.extend([[255, 7, 1, 1], [257, 7, 1, 1], [259, 7, 1, 1], [2050, 9, 1, 1], [31, 33, 9, 1], [33, 37, 9, 1]]);
        let mut single = [0; 2];
        for extents in levels {
            let level = Level::new(extents);
            let known = count(level.coarse_extents);
            let coarse = plain::some_residuals(known, 7);
            let residuals = plain::some_residuals(count(extents) - known, 11);
            for kind in plain::some_kinds() {
                let mut rest = residuals.iter();
                let expected = plain::positions_of_level(extents, &coarse, kind, |_, prediction| {
                    plain::position(prediction, *rest.next().unwrap(), 8)
                });
                assert_eq!(restore(&level, kind, &coarse, &residuals), expected, "{extents:?}, {kind:?}");
            }
            single[usize::from(is_one_slice(&level))] += 1;
        }
        assert!(single[0] > 0 && single[1] > 0);
    }
}
