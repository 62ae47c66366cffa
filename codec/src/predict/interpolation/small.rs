//! Small grids, all their levels at once. Where rows have but a few values, going through [`super::sheets`] costs ten times as much. Here the values of a
//! class stand in a frame, which is as extensive as the next coarser grid for all classes of a level: so a neighbour along an axis stands at the same distance
//! from all of them, rows do not matter, and tables say what neighbours weigh, which is nothing where there are none. Tables are worth it where many
//! chunks, or tiles of one, have the same shape.
//!
//! Predictions are sums of positions times whole weights, modulo 2^32, so it is all one in which order they are taken, and what continues the known
//! values beyond the ends is itself such a sum.

use std::ops::Range;

use super::level::{Class, Extents, Level, axes_of, count, depth_of, grid, index};
use super::line::is_line;
use super::slice_ring::mean;
use super::{PART, restore_row};
use crate::error::Result;
use crate::layout::ByteOrder;
use crate::memory::{collect, push, reserve, resize};
use crate::number::patched16::Patched16;
use crate::number::value::Value;
use crate::quantize::bitmap::ones;
use crate::quantize::fine_grid::{FineGrid, position_of};
use crate::simd::ROW_GROUP;

/// Most values of a small grid.
const MOST: usize = 2048;
/// The same where all stand in a line: lines cost less otherwise.
const MOST_IN_LINE: usize = 64;

/// Neighbours of a value along an axis: one before the known value with its own index, that one, and two behind it.
const NEIGHBOURS: usize = 4;
/// Room before the first frame and behind the last, in frames, for neighbours that weigh nothing.
const ROOM_BEFORE: usize = 1;
const ROOM_BEHIND: usize = 2;
/// Room for the frames of any level, 5776 values at the most (of 3x3x3x75 values), rounded up to a power of two.
const ROOM: usize = 8192;

/// Whether a grid is small.
pub(super) fn is_small(extents: Extents) -> bool {
    count(extents) <= if is_line(extents) { MOST_IN_LINE } else { MOST }
}

/// A level of a small grid. The frame of the known values is its first; those of the classes follow in their order.
#[derive(Debug)]
struct SmallLevel {
    /// Values of the next coarser grid.
    known: usize,
    /// Length of a frame, a multiple of [`ROW_GROUP`].
    frame: usize,
    stages: Vec<Stage>,
    /// Where the level's values stand in the frames, in the order of the grid.
    slots: Vec<u16>,
}

/// Classes whose values are new along equally many axes: none is predicted from another.
#[derive(Debug)]
struct Stage {
    /// Their numbers among all values of the grid.
    values: Range<usize>,
    classes: Vec<SmallClass>,
}

/// A class, and what its values are predicted from.
#[derive(Debug)]
struct SmallClass {
    /// Where its frame begins.
    start: usize,
    /// The axes along which its values are new: where the neighbours' frame begins, and how far neighbours stand from one another.
    along: Vec<(usize, usize)>,
    /// Weights in sixteenths, [`NEIGHBOURS`] frames of them for each of those axes.
    weights: Vec<i8>,
    /// Along how many of them a value is predicted.
    axes: Vec<i32>,
}

/// The tables of a small grid, and room for its values.
#[derive(Debug, Default)]
pub(super) struct SmallGrid {
    extents: Extents,
    /// Where the values stand in the grid, in the order of the classes.
    order: Vec<u16>,
    /// Where they stand in the frames of their level, in the same order.
    slots: Vec<u16>,
    /// From the coarsest on.
    levels: Vec<SmallLevel>,
    /// [`ROOM`] values each.
    frames: Vec<i32>,
    predictions: Vec<i32>,
    /// The positions of the values of a level, in the order of its grid.
    positions: Vec<i32>,
}

impl SmallGrid {
    /// Makes the tables of a small grid, if they are not there yet.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn become_of(&mut self, extents: Extents) -> Result<()> {
        if self.extents == extents {
            return Ok(());
        }
        // No grid has such extents: without memory for all tables there are none.
        self.extents = Extents::default();
        self.order.clear();
        self.slots.clear();
        self.levels.clear();
        reserve(&mut self.order, count(extents))?;
        reserve(&mut self.slots, count(extents))?;
        self.order.push(0);
        self.slots.push(0);
        for depth in (0..depth_of(extents, |grid| count(grid) == 1)).rev() {
            let level = self.tables_of(&Level::new(grid(extents, depth)), |in_grid| {
                index(extents, in_grid.map(|index| index << depth)) as u16
            })?;
            push(&mut self.levels, level)?;
        }
        assert!(self.levels.iter().all(|level| level.room() <= ROOM));
        resize(&mut self.frames, ROOM)?;
        resize(&mut self.predictions, ROOM)?;
        resize(&mut self.positions, count(extents))?;
        self.extents = extents;
        Ok(())
    }

    /// The tables of a level; `index_in_whole` tells where a value of the level stands in the whole grid.
    fn tables_of(&mut self, level: &Level, index_in_whole: impl Fn(Extents) -> u16) -> Result<SmallLevel> {
        let known = count(level.coarse);
        let frame = known.next_multiple_of(ROW_GROUP);
        let start_of = |number: usize| (ROOM_BEFORE + number) * frame;
        let mut slots = zeros(count(level.fine))?;
        for_each(level.coarse, |at| {
            slots[index(level.fine, at.map(|index| 2 * index))] = (start_of(0) + index(level.coarse, at)) as u16;
        });
        // The frame of the class with a set of axes.
        let number_of = |set: usize| level.classes().iter().position(|class| class.set == set).map_or(0, |number| 1 + number);
        let mut stages: Vec<Stage> = Vec::new();
        for classes in level.classes().chunk_by(|one, other| one.set.count_ones() == other.set.count_ones()) {
            let before = self.order.len();
            let mut of_stage = Vec::new();
            for class in classes {
                let start = start_of(number_of(class.set));
                for_each(class.extents, |at| {
                    let slot = (start + index(level.coarse, at)) as u16;
                    self.order.push(index_in_whole(class.in_grid(at)));
                    self.slots.push(slot);
                    slots[index(level.fine, class.in_grid(at))] = slot;
                });
                let along = collect(
                    axes_of(class.set)
                        .map(|axis| (start_of(number_of(class.set & !(1 << axis))), level.coarse[..axis].iter().product())),
                )?;
                let (weights, axes) = weights_of(class, level, frame)?;
                push(&mut of_stage, SmallClass { start, along, weights, axes })?;
            }
            push(&mut stages, Stage { values: before..self.order.len(), classes: of_stage })?;
        }
        Ok(SmallLevel { known, frame, stages, slots })
    }

    /// The positions of the grid's values, after [`SmallGrid::forward`] or [`SmallGrid::inverse`].
    pub(super) fn positions(&mut self) -> &[i32] {
        if let Some(finest) = self.levels.last() {
            finest.merge(&self.frames, &mut self.positions);
        }
        &self.positions
    }

    /// Residuals of the grid's values; calls `exception` with the indices in the grid of those that must be kept bit for bit.
    #[inline(always)]
    pub(super) fn forward<V: Value>(
        &mut self,
        values: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
        residuals: &mut [i32],
        were_masked: &mut bool,
        mut exception: impl FnMut(usize),
    ) {
        self.go(
            #[inline(always)]
            |start, order_of_part, predictions, positions| {
                let len = order_of_part.len();
                let mut part = [V::default(); PART];
                // The question of the byte order stays out of the loop.
                match order {
                    ByteOrder::Little => pick(values, order_of_part, ByteOrder::Little, &mut part[..len]),
                    ByteOrder::Big => pick(values, order_of_part, ByteOrder::Big, &mut part[..len]),
                }
                let exceptions = fine.encode(
                    &part[..len],
                    &predictions[..len],
                    &mut residuals[start..start + len],
                    &mut positions[..len],
                    were_masked,
                );
                ones(exceptions).for_each(|at| exception(usize::from(order_of_part[at])));
            },
        );
    }

    /// The positions that residuals lead to.
    #[inline(always)]
    pub(super) fn inverse(&mut self, residuals: &Patched16<'_>) {
        self.go(
            #[inline(always)]
            |start, order, predictions, positions| {
                let (predictions, positions) = (&predictions[..order.len()], &mut positions[..order.len()]);
                let part = start..start + order.len();
                if restore_row(predictions, &residuals.near[part.clone()], positions) {
                    for &(index, residual) in residuals.far_in(part) {
                        positions[index - start] = position_of(predictions[index - start], residual as i32);
                    }
                }
            },
        );
    }

    /// Hands parts of the values to `code`, which turns predictions into positions: the number of values before the part, their indices in the grid, their
    /// predictions, and room for their positions. Of the latter two, only as many count as there are indices.
    #[inline(always)]
    fn go(&mut self, mut code: impl FnMut(usize, &[u16], &[i32; PART], &mut [i32; PART])) {
        let Self { order, slots, levels, positions, .. } = self;
        let (Some(frames), Some(predictions)) =
            (self.frames.first_chunk_mut::<ROOM>(), self.predictions.first_chunk_mut::<ROOM>())
        else {
            unreachable!("room is made with the tables")
        };
        let (mut predicted, mut coded) = ([0; PART], [0; PART]);
        code(0, &order[..1], &predicted, &mut coded);
        positions[0] = coded[0];
        let mut coarser: Option<&SmallLevel> = None;
        for level in &*levels {
            if let Some(coarser) = coarser.replace(level) {
                coarser.merge(frames, positions);
            }
            let SmallLevel { known, frame, stages, .. } = level;
            frames[ROOM_BEFORE * *frame..][..*known].copy_from_slice(&positions[..*known]);
            for Stage { values, classes } in stages {
                for class in classes {
                    let predictions = predictions[class.start..][..*frame].as_chunks_mut().0;
                    match class.along.len() {
                        1 => class.predict::<1>(frames, predictions),
                        2 => class.predict::<2>(frames, predictions),
                        3 => class.predict::<3>(frames, predictions),
                        _ => class.predict::<4>(frames, predictions),
                    }
                }
                let parts = order[values.clone()].chunks(PART).zip(slots[values.clone()].chunks(PART));
                for (part, (order, slots)) in parts.enumerate() {
                    for (predicted, &slot) in predicted.iter_mut().zip(slots) {
                        *predicted = predictions[usize::from(slot) % ROOM];
                    }
                    code(values.start + part * PART, order, &predicted, &mut coded);
                    for (&slot, &position) in slots.iter().zip(&coded) {
                        frames[usize::from(slot) % ROOM] = position;
                    }
                }
            }
        }
    }
}

/// Reads the values at some indices.
#[inline(always)]
fn pick<V: Value>(values: &[u8], indices: &[u16], order: ByteOrder, picked: &mut [V]) {
    for (value, &index) in picked.iter_mut().zip(indices) {
        *value = V::read(values, usize::from(index), order);
    }
}

impl SmallLevel {
    /// Length of the room for all frames.
    fn room(&self) -> usize {
        let classes: usize = self.stages.iter().map(|stage| stage.classes.len()).sum();
        (ROOM_BEFORE + 1 + classes + ROOM_BEHIND) * self.frame
    }

    /// Takes the positions of the level's values out of the frames.
    #[inline(always)]
    fn merge(&self, frames: &[i32], positions: &mut [i32]) {
        for (position, &slot) in positions.iter_mut().zip(&self.slots) {
            *position = frames[usize::from(slot)];
        }
    }
}

impl SmallClass {
    /// Predictions of all values of the class, and numbers that mean nothing where its frame has none.
    #[inline(always)]
    fn predict<const AXES: usize>(&self, frames: &[i32], predictions: &mut [[i32; ROW_GROUP]]) {
        let groups = predictions.len();
        let weights = self.weights.as_chunks().0;
        let mut known: [[&[[i32; ROW_GROUP]]; NEIGHBOURS]; AXES] = [[&[]; NEIGHBOURS]; AXES];
        let mut weighing: [[&[[i8; ROW_GROUP]]; NEIGHBOURS]; AXES] = [[&[]; NEIGHBOURS]; AXES];
        for (axis, &(start, stride)) in self.along.iter().enumerate().take(AXES) {
            for neighbour in 0..NEIGHBOURS {
                known[axis][neighbour] = &frames[start + neighbour * stride - stride..].as_chunks().0[..groups];
                weighing[axis][neighbour] = &weights[(axis * NEIGHBOURS + neighbour) * groups..][..groups];
            }
        }
        for (group, predictions) in predictions.iter_mut().enumerate() {
            let mut sums = [0i32; ROW_GROUP];
            for (known, weights) in known.iter().zip(&weighing) {
                for (known, weights) in known.iter().zip(weights) {
                    for ((sum, known), &weight) in sums.iter_mut().zip(&known[group]).zip(&weights[group]) {
                        *sum = sum.wrapping_add(known.wrapping_mul(i32::from(weight)));
                    }
                }
            }
            *predictions = sums;
        }
        for (prediction, &axes) in predictions.as_flattened_mut().iter_mut().zip(&self.axes) {
            let sum = *prediction;
            *prediction = mean(sum, 1);
            for count in 2..=AXES {
                *prediction = if axes == count as i32 { mean(sum, count) } else { *prediction };
            }
        }
    }
}

/// The weights of a class's neighbours, and along how many axes its values are predicted, as [`SmallClass`] has them.
fn weights_of(class: &Class, level: &Level, frame: usize) -> Result<(Vec<i8>, Vec<i32>)> {
    let mut weights = zeros(class.set.count_ones() as usize * NEIGHBOURS * frame)?;
    let mut axes = zeros(frame)?;
    for_each(class.extents, |at| {
        let slot = index(level.coarse, at);
        // Only axes along which there is something known on both sides count, if there are any.
        let is_between = |axis: &usize| at[*axis] + 1 < level.coarse[*axis];
        let is_alone = axes_of(class.set).all(|axis| !is_between(&axis));
        for (number, axis) in axes_of(class.set).enumerate().filter(|(_, axis)| is_alone || is_between(axis)) {
            axes[slot] += 1;
            let of_axis = if is_alone { from_one_side(at[axis]) } else { from_both_sides(at[axis], level.coarse[axis]) };
            for (neighbour, weight) in of_axis.into_iter().enumerate() {
                weights[(number * NEIGHBOURS + neighbour) * frame + slot] = weight;
            }
        }
    });
    Ok((weights, axes))
}

/// A vector of zeros.
fn zeros<T: Copy + Default>(len: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    resize(&mut vector, len)?;
    Ok(vector)
}

/// Weights, in sixteenths, of the neighbours of a position with nothing behind it, by its index along the axis.
fn from_one_side(at: usize) -> [i8; NEIGHBOURS] {
    if at == 0 { [0, 16, 0, 0] } else { [-8, 24, 0, 0] }
}

/// Weights, in sixteenths, of the neighbours of a position between values `at` and `at + 1` of so many.
fn from_both_sides(at: usize, known: usize) -> [i8; NEIGHBOURS] {
    // What continues the known values is a line, or a parabola where there are three.
    let line = known == 2;
    match (at == 0, at + 2 == known) {
        (false, false) => [-1, 9, 9, -1],
        (true, _) if line => [0, 8, 8, 0],
        (true, false) => [0, 6, 12, -2],
        (false, true) => [-2, 12, 6, 0],
        (true, true) => unreachable!("two known values are a line"),
    }
}

/// Calls `body` with all indices, fastest axis first.
fn for_each(extents: Extents, mut body: impl FnMut(Extents)) {
    for w in 0..extents[3] {
        for z in 0..extents[2] {
            for y in 0..extents[1] {
                (0..extents[0]).for_each(|x| body([x, y, z, w]));
            }
        }
    }
}
