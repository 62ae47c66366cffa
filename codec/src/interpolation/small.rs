//! Small grids, all their levels at once: a table says from which values each one is foretold, and with what weights. Where rows have but a few
//! values, going through [`super::sheets`] costs ten times as much; a table is worth it where many chunks, or tiles of one, have the same shape.
//!
//! Predictions are sums of places times whole weights, modulo 2^32, so it is all one in which order they are taken, and what continues the known
//! values beyond the ends is itself such a sum.

use super::level::{Class, Extents, Level, count, grids, has, index};
use super::line::is_line;
use super::sheets::mean;
use super::{PART, Residuals, restore_row};
use crate::bitmap::ones;
use crate::finegrid::FineGrid;
use crate::layout::{ByteOrder, MAX_RANK};
use crate::quantize::Value;

/// Most values of a small grid, a power of two.
pub(super) const MOST: usize = 2048;
/// The same where all stand in a line: lines cost less otherwise.
const MOST_IN_LINE: usize = 64;

/// Whether a grid is small.
pub(super) fn is_small(extents: Extents) -> bool {
    count(extents) <= if is_line(extents) { MOST_IN_LINE } else { MOST }
}

/// A place that others are foretold from, by its index in the grid, and its weight in sixteenths.
#[derive(Debug, Clone, Copy, Default)]
struct Neighbour {
    at: u16,
    weight: i16,
}

/// The neighbours along an axis; some may weigh nothing.
type Along = [Neighbour; 4];

/// Values that are new along equally many axes at one level: none is foretold from another.
#[derive(Debug, Default)]
struct Stage {
    /// How many values come before it, and behind it.
    start: usize,
    end: usize,
    /// Those that are foretold along one axis, two, three and four.
    groups: [Group; MAX_RANK],
}

#[derive(Debug, Default)]
struct Group {
    /// Which values of the stage.
    members: Vec<u16>,
    /// For each of them, its neighbours along as many axes.
    neighbours: Vec<Along>,
}

/// The table of a small grid, and room for its values.
#[derive(Debug, Default)]
pub(super) struct SmallGrid {
    extents: Extents,
    /// Where the values stand in the grid, in the order of the classes.
    order: Vec<u16>,
    stages: Vec<Stage>,
    places: Vec<i32>,
    predictions: Vec<i32>,
}

impl SmallGrid {
    /// Makes the table of a small grid, if it is not there yet.
    pub(super) fn become_of(&mut self, extents: Extents) {
        if self.extents == extents {
            return;
        }
        let grids = grids(extents);
        self.order.clear();
        self.order.push(0);
        self.stages.clear();
        for (depth, &fine) in grids.iter().enumerate().rev().skip(1) {
            let level = Level::new(fine);
            // Classes come by the sizes of their sets.
            for classes in level.classes().chunk_by(|one, other| one.set.count_ones() == other.set.count_ones()) {
                let start = self.order.len();
                let mut stage = Stage { start, ..Stage::default() };
                for class in classes {
                    for_each(class.extents, |at| {
                        let in_grid = class.in_grid(at).map(|index| index << depth);
                        let member = (self.order.len() - start) as u16;
                        self.order.push(index(extents, in_grid) as u16);
                        stage
                            .add(member, class, at, &level, |in_grid| index(extents, in_grid.map(|index| index << depth)) as u16);
                    });
                }
                stage.end = self.order.len();
                self.stages.push(stage);
            }
        }
        self.places.resize(MOST, 0);
        self.predictions.resize(MOST, 0);
        self.extents = extents;
    }

    /// The places of the grid's values.
    pub(super) fn places(&self) -> &[i32] {
        &self.places[..self.order.len()]
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
            |start, order_of_part, predictions, places| {
                let len = order_of_part.len();
                let mut part = [V::default(); PART];
                let part = &mut part[..len];
                // The question of the byte order stays out of the loop.
                match order {
                    ByteOrder::Little => pick(values, order_of_part, ByteOrder::Little, part),
                    ByteOrder::Big => pick(values, order_of_part, ByteOrder::Big, part),
                }
                let exceptions = fine.encode(part, predictions, &mut residuals[start..start + len], places, were_masked);
                ones(exceptions).for_each(|at| exception(usize::from(order_of_part[at])));
            },
        );
    }

    /// The places that residuals lead to.
    #[inline(always)]
    pub(super) fn inverse(&mut self, residuals: &Residuals<'_>) {
        self.go(
            #[inline(always)]
            |start, order, predictions, places| {
                if restore_row(predictions, &residuals.near[start..start + order.len()], places) {
                    residuals.restore_far(start, predictions, places);
                }
            },
        );
    }

    /// Hands parts of the values to `code`, which turns predictions into places: the number of values before the part, their indices in the grid, their
    /// predictions, and room for their places.
    #[inline(always)]
    fn go(&mut self, mut code: impl FnMut(usize, &[u16], &[i32], &mut [i32])) {
        let (Some(places), Some(predictions)) = (self.places.first_chunk_mut(), self.predictions.first_chunk_mut()) else {
            unreachable!("room is made with the table")
        };
        let mut code = |start: usize, end: usize, predictions: &[i32], places: &mut [i32; MOST]| {
            let order = &self.order[start..end];
            for (part, (order, predictions)) in order.chunks(PART).zip(predictions.chunks(PART)).enumerate() {
                let mut coded = [0; PART];
                let coded = &mut coded[..order.len()];
                code(start + part * PART, order, predictions, coded);
                for (&at, &place) in order.iter().zip(&*coded) {
                    places[usize::from(at) % MOST] = place;
                }
            }
        };
        code(0, 1, &[0], places);
        for stage in &self.stages {
            let [one, two, three, four] = &stage.groups;
            one.predict::<1>(places, predictions);
            two.predict::<2>(places, predictions);
            three.predict::<3>(places, predictions);
            four.predict::<4>(places, predictions);
            code(stage.start, stage.end, &predictions[..stage.end - stage.start], places);
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

impl Group {
    #[inline(always)]
    fn predict<const AXES: usize>(&self, places: &[i32; MOST], predictions: &mut [i32; MOST]) {
        for (&member, along) in self.members.iter().zip(self.neighbours.as_chunks::<AXES>().0) {
            let mut sum = 0i32;
            for &Neighbour { at, weight } in along.as_flattened() {
                sum = sum.wrapping_add(places[usize::from(at) % MOST].wrapping_mul(i32::from(weight)));
            }
            predictions[usize::from(member) % MOST] = mean(sum, AXES);
        }
    }
}

impl Stage {
    /// Adds a value of a class to those that are foretold along as many axes. `index` is that of a value of the level.
    fn add(&mut self, member: u16, class: &Class, at: Extents, level: &Level, index: impl Fn(Extents) -> u16) {
        // Only axes along which there is something known on both sides count, if there are any.
        let between = (0..MAX_RANK)
            .filter(|&axis| has(class.set, axis) && at[axis] + 1 < level.coarse[axis])
            .fold(0, |axes, axis| axes | 1 << axis);
        let axes = if between == 0 { class.set } else { between };
        let group = &mut self.groups[axes.count_ones() as usize - 1];
        group.members.push(member);
        for axis in (0..MAX_RANK).filter(|&axis| has(axes, axis)) {
            let weights = if between == 0 { from_one_side(at[axis]) } else { from_both_sides(at[axis], level.coarse[axis]) };
            group.neighbours.push(weights.map(|(known, weight)| {
                let mut in_grid = class.in_grid(at);
                in_grid[axis] = 2 * known;
                Neighbour { at: index(in_grid), weight }
            }));
        }
    }
}

/// Weights, in sixteenths, of values before a place with nothing behind it, by their numbers along an axis.
fn from_one_side(at: usize) -> [(usize, i16); 4] {
    if at == 0 { [(0, 16), (0, 0), (0, 0), (0, 0)] } else { [(at, 24), (at - 1, -8), (at, 0), (at, 0)] }
}

/// Weights, in sixteenths, of values around a place between values `at` and `at + 1` of so many.
fn from_both_sides(at: usize, known: usize) -> [(usize, i16); 4] {
    // What continues the known values is a line, or a parabola where there are three.
    let line = known == 2;
    match (at == 0, at + 2 == known) {
        (false, false) => [(at - 1, -1), (at, 9), (at + 1, 9), (at + 2, -1)],
        (true, _) if line => [(at, 8), (at + 1, 8), (at, 0), (at, 0)],
        (true, false) => [(at, 6), (at + 1, 12), (at + 2, -2), (at, 0)],
        (false, true) => [(at + 1, 6), (at, 12), (at - 1, -2), (at, 0)],
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
