//! One level of the interpolation, a sheet at a time.
//!
//! A level is coded along its slowest axis: with each position of the coarser grid along it come the classes that stand on that grid there
//! (even sheets), and two positions later, when their neighbours on both sides are known, those that stand behind it (odd sheets). So few sheets
//! are in use at any time, and they stay in the cache. Where they would be small, or few, all are one sheet along an axis of length 1: a level of two
//! dimensions has rows for sheets, and with a call for each row and class chunks of 512x512 took 1.2 to 1.4 times as long to read, one of 40000x24 five times.
//!
//! ```text
//! position along the slowest axis    0       1       2       3
//! even sheets                     E0      E1      E2      E3    ...
//! odd sheets                          O0      O1      O2
//! order                           E0 E1 E2 O0 E3 O1 ...         O1 is predicted from E0, E1, E2 and E3
//! ```
//!
//! SliceRing have a position more at both ends of each axis. What stands there continues the known values as a parabola does, or a line where there are but two:
//! cubic interpolation from it is the quadratic interpolation that FORMAT.md §6.2 wants at the ends, and one loop does for all.

use super::level::{Class, Extents, Level, SETS, axes_of, count, has};
use crate::error::Result;
use crate::layout::MAX_RANK;
use crate::memory::lengthen;
use crate::simd::{ROW_GROUP, outlined};

/// Even sheets of a class that are known at a time.
const RING: usize = 4;
/// Odd sheets are coded behind so many even ones more.
const LAG: usize = 2;
/// When all sheets of a level are put into one.
struct Limits {
    /// Small sheets of up to so many values: what they cost one by one is more than memory does.
    small: usize,
    /// Larger ones of up to so many values, if the coarser grid has no more than `few`: then all stay in the nearer caches.
    large: usize,
    few: usize,
}

/// For levels of two dimensions, whose sheets are rows, and of three.
const LIMITS: [Limits; 2] = [Limits { small: 128, large: 1024, few: 1 << 18 }, Limits { small: 256, large: 1024, few: 1 << 13 }];
/// No sheet has room for more values that it need not have: where two axes have but two values, eight ninths are margins.
const MOST: usize = 1 << 20;

/// SliceRing of one level.
pub(super) struct SliceRing<'a> {
    level: &'a Level,
    /// The axis along which sheets follow each other: the slowest one that is longer than 1, or one of length 1 where all is one sheet.
    axis: usize,
    /// Distances of neighbours along the axes in a sheet.
    strides: Extents,
    /// Place of a sheet's first value.
    origin: usize,
    /// Length of a sheet.
    size: usize,
    /// Even sheets of a class in the ring.
    ring: usize,
    /// Number of each class's first sheet.
    first_sheet: [usize; SETS],
    positions: &'a mut [i32],
    predictions: &'a mut [i32],
}

/// The rows of a class at a position along each of the two slowest axes.
pub(super) struct ClassRows<'a> {
    pub class: &'a Class,
    /// Indices of its first value in the class.
    pub indices: Extents,
    /// Values of a row.
    pub len: usize,
    pub rows: usize,
    /// Distance of rows among predictions and positions, at least a row's length: where rows are sheets, there is one.
    pub stride: usize,
}

/// Whether a level of up to three dimensions is one sheet.
fn is_one_sheet(level: &Level) -> bool {
    let coarse = level.coarse;
    let (sheet, limits) = if coarse[2] == 1 { (coarse[0], &LIMITS[0]) } else { (coarse[0] * coarse[1], &LIMITS[1]) };
    let with_margins = (0..MAX_RANK - 1).map(|axis| coarse[axis] + 2 * margin(level, axis)).product::<usize>();
    with_margins <= MOST && (sheet <= limits.small || sheet <= limits.large && count(coarse) <= limits.few)
}

/// Places that a sheet has more at either end of an axis.
fn margin(level: &Level, axis: usize) -> usize {
    usize::from(level.fine[axis] > 1)
}

/// Places from which others are predicted along an axis: those at distances -3, -1, 1 and 3.
type Neighbours<'a> = [&'a [i32]; 4];

impl<'a> SliceRing<'a> {
    /// SliceRing of a level; the vectors are their room.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline(always)]
    pub(super) fn new(level: &'a Level, positions: &'a mut Vec<i32>, predictions: &'a mut Vec<i32>) -> Result<Self> {
        let slowest = (1..MAX_RANK).rev().find(|&axis| level.fine[axis] > 1).unwrap_or(MAX_RANK - 1);
        let axis = if slowest < MAX_RANK - 1 && is_one_sheet(level) { MAX_RANK - 1 } else { slowest };
        let (mut strides, mut origin, mut size) = ([0; MAX_RANK], 0, 1);
        for other in (0..MAX_RANK).filter(|&other| other != axis) {
            let margin = margin(level, other);
            strides[other] = size;
            origin += margin * size;
            size *= level.coarse[other] + 2 * margin;
        }
        let ring = if level.coarse[axis] > 1 { RING } else { 1 };
        let (mut first_sheet, mut sheets) = ([0; SETS], 0);
        for set in std::iter::once(0).chain(level.classes().iter().map(|class| class.set)) {
            first_sheet[set] = sheets;
            sheets += if has(set, axis) { 1 } else { ring };
        }
        lengthen(positions, sheets * size)?;
        lengthen(predictions, size)?;
        Ok(Self { level, axis, strides, origin, size, ring, first_sheet, positions, predictions })
    }

    /// Goes through the level. `coarse` has the positions of the coarser grid. `code` is to turn a class_rows's predictions into positions; `merge` gets the index
    /// in the grid of a row's first value, and the row's even and odd positions.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        coarse: &[i32],
        mut code: impl FnMut(&ClassRows<'_>, &[i32], &mut [i32]),
        mut merge: impl FnMut(usize, &[i32], &[i32]),
    ) {
        let (level, axis) = (self.level, self.axis);
        let known = level.coarse[axis];
        for step in 0..known + LAG {
            if step < known {
                outlined(
                    #[inline(always)]
                    || self.take(coarse, step),
                );
            }
            // The classes on the coarser grid first, then those behind it.
            for odd in [false, true] {
                if odd && step == LAG.min(known - 1) {
                    self.continue_sheets([0, 1, 2], RING - 1);
                }
                if odd && step == known {
                    self.continue_sheets([known - 1, known.wrapping_sub(2), known.wrapping_sub(3)], known);
                }
                for class in level.classes().iter().filter(|class| has(class.set, axis) == odd) {
                    let position = step.wrapping_sub(if odd { LAG } else { 0 });
                    if position < class.extents[axis] {
                        self.code_sheet(class, position, &mut code);
                    }
                }
            }
            if step >= LAG {
                outlined(
                    #[inline(always)]
                    || self.merge_sheets(step - LAG, &mut merge),
                );
            }
        }
    }

    /// Hands on the rows of the grid at a position, and behind it.
    #[inline(always)]
    fn merge_sheets(&self, position: usize, merge: &mut impl FnMut(usize, &[i32], &[i32])) {
        let level = self.level;
        let (mut start, mut end) = ([0; MAX_RANK], level.fine);
        start[self.axis] = 2 * position;
        end[self.axis] = end[self.axis].min(2 * position + 2);
        for w in start[3]..end[3] {
            for z in start[2]..end[2] {
                let first = self.at([0, 0, z / 2, w / 2]);
                let slow = (z & 1) << 2 | (w & 1) << 3;
                let rows = [0, 1 << 1].map(|y| [0, 1].map(|x| &self.sheet(slow | y | x, position)[first..]));
                for y in start[1]..end[1] {
                    let at = y / 2 * self.strides[1];
                    let [evens, odds] = rows[y & 1];
                    merge(
                        ((w * level.fine[2] + z) * level.fine[1] + y) * level.fine[0],
                        &evens[at..][..level.coarse[0]],
                        &odds[at..][..level.fine[0] / 2],
                    );
                }
            }
        }
    }

    /// Where the value at some indices stands in its sheet.
    #[inline(always)]
    fn at(&self, indices: Extents) -> usize {
        (0..MAX_RANK).fold(self.origin, |at, axis| at + indices[axis] * self.strides[axis])
    }

    /// Number of a class's sheet at a position.
    #[inline(always)]
    fn number(&self, set: usize, position: usize) -> usize {
        self.first_sheet[set] + if has(set, self.axis) { 0 } else { position % self.ring }
    }

    #[inline(always)]
    fn sheet(&self, set: usize, position: usize) -> &[i32] {
        &self.positions[self.number(set, position) * self.size..][..self.size]
    }

    /// Copies the coarser grid's positions into their sheet.
    #[inline(always)]
    fn take(&mut self, coarse: &[i32], position: usize) {
        let extents = self.level.coarse;
        let sheet = self.number(0, position) * self.size;
        let (mut start, mut end) = ([0; MAX_RANK], extents);
        (start[self.axis], end[self.axis]) = (position, position + 1);
        for w in start[3]..end[3] {
            for z in start[2]..end[2] {
                for y in start[1]..end[1] {
                    let row = (w * extents[2] + z) * extents[1] + y;
                    let at = sheet + self.at([0, y, z, w]);
                    self.positions[at..at + extents[0]].copy_from_slice(&coarse[row * extents[0]..][..extents[0]]);
                }
            }
        }
        self.continue_axes(0, extents, sheet);
    }

    /// Predicts and codes a class's sheet at a position.
    #[inline(always)]
    fn code_sheet(&mut self, class: &Class, position: usize, code: &mut impl FnMut(&ClassRows<'_>, &[i32], &mut [i32])) {
        let sheet = self.number(class.set, position) * self.size;
        let mut extents = class.extents;
        extents[self.axis] = 1;
        let [len, rows, nz, _] = extents;
        outlined(
            #[inline(always)]
            || self.predict_sheet(class, extents, position),
        );
        for z in 0..nz {
            let mut indices = [0, 0, z, 0];
            indices[self.axis] = position;
            let at = sheet + self.at([0, 0, z, 0]);
            let stride = self.strides[1];
            let class_rows = ClassRows { class, indices, len, rows, stride: stride.max(len) };
            let (predictions, positions) =
                (&self.predictions[z * self.strides[2]..], &mut self.positions[at..at + (rows - 1) * stride + len]);
            outlined(
                #[inline(always)]
                || code(&class_rows, predictions, positions),
            );
        }
        outlined(
            #[inline(always)]
            || self.continue_axes(class.set, extents, sheet),
        );
    }

    /// The neighbours along an axis of what stands at `at` in a class's sheet at a position, and of all behind it.
    #[inline(always)]
    fn neighbours(&self, set: usize, axis: usize, position: usize, at: usize) -> Neighbours<'_> {
        let source = set & !(1 << axis);
        if axis == self.axis {
            // The one before the first is at the ring's end.
            [position + RING - 1, position, position + 1, position + 2].map(|position| &self.sheet(source, position)[at..])
        } else {
            let (sheet, stride) = (self.sheet(source, position), self.strides[axis]);
            [
                &sheet[at - stride..],
                &sheet[at..],
                &sheet[(at + stride).min(self.size)..],
                &sheet[(at + 2 * stride).min(self.size)..],
            ]
        }
    }

    /// Predicts a class's sheet of these extents at a position.
    #[inline(always)]
    fn predict_sheet(&mut self, class: &Class, extents: Extents, position: usize) {
        let known = self.level.coarse;
        // The last value along an axis may have nothing behind it, and is predicted along the others then.
        let inner: Extents = std::array::from_fn(|axis| {
            if axis != self.axis && has(class.set, axis) { extents[axis].min(known[axis] - 1) } else { extents[axis] }
        });
        let is_last = position + 1 >= known[self.axis];
        let axes = if is_last { class.set & !(1 << self.axis) } else { class.set };
        let [len, rows, nz, _] = extents;
        // Where rows are sheets, one is predicted at a time.
        let (to_row, to_z) = (self.strides[1].max(1), self.strides[2]);
        let predictions = std::mem::take(&mut self.predictions);
        // All that is inside, then the last rows of what is inside along the third axis, then what is last along that.
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
            for (x, axes, step) in [(0..inner[0], axes, 1), (inner[0]..len, axes & !1, to_row)] {
                if x.is_empty() {
                    continue;
                }
                // What lies between two rows is predicted as well, and not used.
                let target = z.start * to_z + y.start * to_row + x.start..(z.end - 1) * to_z + (y.end - 1) * to_row + x.end;
                let at = self.origin + target.start;
                if axes == 0 {
                    self.extrapolate(class.set, position, at, &mut predictions[target], step);
                } else {
                    self.interpolate(class.set, axes, position, at, &mut predictions[target], step);
                }
            }
        }
        self.predictions = predictions;
    }

    /// Predicts every `step`-th value from its neighbours along the given axes, which exist on both sides.
    #[inline(always)]
    fn interpolate(&self, set: usize, axes: usize, position: usize, at: usize, target: &mut [i32], step: usize) {
        let mut neighbours: [Neighbours<'_>; MAX_RANK] = [[&[]; 4]; MAX_RANK];
        let mut used = 0;
        for axis in axes_of(axes) {
            neighbours[used] = self.neighbours(set, axis, position, at);
            used += 1;
        }
        match used {
            1 => mean_of::<1>(neighbours, target, step),
            2 => mean_of::<2>(neighbours, target, step),
            3 => mean_of::<3>(neighbours, target, step),
            _ => mean_of::<4>(neighbours, target, step),
        }
    }

    /// Predicts every `step`-th value from what lies before it along all axes of its class: behind it there is nothing along any.
    #[inline(always)]
    fn extrapolate(&self, set: usize, position: usize, at: usize, target: &mut [i32], step: usize) {
        let (mut neighbours, mut alone) = ([[&[][..]; 2]; MAX_RANK], [false; MAX_RANK]);
        let mut axes = 0;
        for axis in axes_of(set) {
            let [before, here, ..] = self.neighbours(set, axis, position, at);
            neighbours[axes] = [&before[..target.len()], &here[..target.len()]];
            alone[axes] = self.level.coarse[axis] == 1;
            axes += 1;
        }
        for (i, target) in target.iter_mut().enumerate().step_by(step) {
            let along = |axis: usize| {
                let [before, here] = neighbours[axis].map(|positions| positions[i]);
                predicted_from(before, here, alone[axis])
            };
            *target = mean((0..axes).fold(0i32, |sum, axis| sum.wrapping_add(along(axis))), axes);
        }
    }

    /// Continues a sheet along its axes, if something is predicted along them.
    #[inline(always)]
    fn continue_axes(&mut self, set: usize, extents: Extents, sheet: usize) {
        for axis in (0..self.axis).filter(|&axis| !has(set, axis) && self.level.coarse[axis] > 1) {
            let (known, stride) = (self.level.coarse[axis], self.strides[axis]);
            if axis == 0 {
                self.continue_rows(extents, sheet);
                continue;
            }
            // Slower axes than this one in a sheet: there is one at most.
            let (count, distance) =
                (axis + 1..self.axis).map(|slower| (extents[slower], self.strides[slower])).next().unwrap_or((1, 0));
            // Where blocks of all faster axes begin, margins and all.
            let origin = (axis..self.axis).map(|axis| usize::from(self.level.fine[axis] > 1) * self.strides[axis]).sum::<usize>();
            for block in 0..count {
                let start = |position: usize| (sheet + origin + block * distance).wrapping_add(position.wrapping_mul(stride));
                let last = known - 1;
                self.continue_block([start(0), start(1), start(2)], start(0) - stride, stride, known);
                self.continue_block([start(last), start(last - 1), start(last.wrapping_sub(2))], start(known), stride, known);
            }
        }
    }

    /// Continues the rows of a sheet on both sides.
    #[inline(always)]
    fn continue_rows(&mut self, extents: Extents, sheet: usize) {
        let known = self.level.coarse[0];
        for w in 0..if self.axis == 3 { 1 } else { extents[3] } {
            for z in 0..if self.axis == 2 { 1 } else { extents[2] } {
                let first = sheet + self.at([0, 0, z, w]) - 1;
                let (rows, stride) = if self.axis == 1 { (1, self.size) } else { (extents[1], self.strides[1]) };
                for row in self.positions[first..].chunks_mut(stride).take(rows) {
                    let row = &mut row[..known + 2];
                    if let Some([to, a, b, c]) = row.first_chunk_mut().filter(|_| known > 2) {
                        *to = continued(*a, *b, Some(*c));
                    } else if let Some([to, a, b]) = row.first_chunk_mut() {
                        *to = continued(*a, *b, None);
                    }
                    if let Some([c, b, a, to]) = row.last_chunk_mut().filter(|_| known > 2) {
                        *to = continued(*a, *b, Some(*c));
                    } else if let Some([b, a, to]) = row.last_chunk_mut() {
                        *to = continued(*a, *b, None);
                    }
                }
            }
        }
    }

    /// Continues all even sheets at positions that are known to a position before or behind them.
    #[inline(always)]
    fn continue_sheets(&mut self, positions: [usize; 3], to: usize) {
        let known = self.level.coarse[self.axis];
        if known < 2 {
            return;
        }
        for set in 0..SETS {
            if set == 0 || self.level.classes().iter().any(|class| class.set == set && !has(set, self.axis)) {
                let [a, b, c, to] =
                    [positions[0], positions[1], positions[2], to].map(|position| self.number(set, position % RING) * self.size);
                self.continue_block([a, b, c], to, self.size, known);
            }
        }
    }

    /// Writes the block at `to` that continues those at three positions, of which the third counts if as many are known.
    #[inline(always)]
    fn continue_block(&mut self, from: [usize; 3], to: usize, len: usize, known: usize) {
        // The positions read and those written are in one vector.
        let third = if known > 2 { from[2] } else { from[1] };
        let mut i = 0;
        while i + ROW_GROUP <= len {
            let some = |from: usize| *self.positions[from + i..].first_chunk::<ROW_GROUP>().unwrap_or(&[0; ROW_GROUP]);
            let (a, b, c) = (some(from[0]), some(from[1]), some(third));
            let continued: [i32; ROW_GROUP] = if known > 2 {
                std::array::from_fn(|j| continued(a[j], b[j], Some(c[j])))
            } else {
                std::array::from_fn(|j| continued(a[j], b[j], None))
            };
            self.positions[to + i..][..ROW_GROUP].copy_from_slice(&continued);
            i += ROW_GROUP;
        }
        for i in i..len {
            let third = (known > 2).then(|| self.positions[from[2] + i]);
            self.positions[to + i] = continued(self.positions[from[0] + i], self.positions[from[1] + i], third);
        }
    }
}

/// What continues two or three values, the nearest first.
#[inline(always)]
pub(super) fn continued(first: i32, second: i32, third: Option<i32>) -> i32 {
    match third {
        Some(third) => first.wrapping_sub(second).wrapping_mul(3).wrapping_add(third),
        None => first.wrapping_mul(2).wrapping_sub(second),
    }
}

/// The prediction, in sixteenths, from two values before a position or, where it is alone, from one.
#[inline(always)]
pub(super) fn predicted_from(before: i32, here: i32, is_alone: bool) -> i32 {
    if is_alone { here.wrapping_mul(16) } else { here.wrapping_mul(24).wrapping_sub(before.wrapping_mul(8)) }
}

/// Means of the predictions from the first `AXES` neighbours, of every `step`-th value.
#[inline(always)]
pub(super) fn mean_of<const AXES: usize>(neighbours: [Neighbours<'_>; MAX_RANK], target: &mut [i32], step: usize) {
    let len = target.len();
    let neighbours: [Neighbours<'_>; AXES] = std::array::from_fn(|axis| neighbours[axis].map(|positions| &positions[..len]));
    if step == 1 {
        for (i, target) in target.iter_mut().enumerate() {
            *target = mean_at(&neighbours, i);
        }
    } else {
        for (i, target) in target.iter_mut().enumerate().step_by(step) {
            *target = mean_at(&neighbours, i);
        }
    }
}

#[inline(always)]
fn mean_at<const AXES: usize>(neighbours: &[Neighbours<'_>; AXES], i: usize) -> i32 {
    let mut sum = 0i32;
    for [a, b, c, d] in neighbours {
        let near = b[i].wrapping_add(c[i]).wrapping_mul(9);
        sum = sum.wrapping_add(near.wrapping_sub(a[i].wrapping_add(d[i])));
    }
    mean(sum, AXES)
}

/// The mean of predictions along so many axes from their sum in sixteenths, rounded half up.
#[inline(always)]
pub(super) fn mean(sum: i32, axes: usize) -> i32 {
    match axes {
        1 => sum.wrapping_add(8) >> 4,
        2 => sum.wrapping_add(16) >> 5,
        3 => third(sum.wrapping_add(24) >> 4),
        _ => sum.wrapping_add(32) >> 6,
    }
}

/// A third of a number of 28 bits, rounded down. By way of numbers that are not negative, for which vector code has no question of signs to ask.
#[inline(always)]
fn third(number: i32) -> i32 {
    const OFFSET: i32 = 1 << 26;
    const RECIPROCAL: u64 = 0x5555_5556;
    ((u64::from((number + 3 * OFFSET).cast_unsigned()) * RECIPROCAL) >> u32::BITS) as i32 - OFFSET
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_rounded_half_up() {
        let edges = [i32::MIN, i32::MIN + 25, -(1 << 30), -97, -25, 0, 23, 1 << 30, i32::MAX - 24, i32::MAX];
        for sum in edges.into_iter().flat_map(|edge| (0..100).map(move |more: i32| edge.wrapping_add(more))) {
            for axes in 1..=4 {
                let sixteenths = 16 * axes as i32;
                assert_eq!(mean(sum, axes), sum.wrapping_add(sixteenths / 2).div_euclid(sixteenths), "{sum} of {axes}");
            }
        }
    }
}
