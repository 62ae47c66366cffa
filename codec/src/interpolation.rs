//! Stage 2' (FORMAT.md §6.2): values → steps along an interpolation from coarse to fine, and back.
//!
//! The chunk is a stack of grids: grid `l` has every `2^l`-th value along each axis. From the coarsest grid, a single value, each finer one
//! is predicted by cubic interpolation of what is known, level by level, as in SZ3 (Zhao et al., ICDE'21) and cuSZ-i (Liu et al., SC'24);
//! values that are new along several axes take the mean of the axes' predictions (as HPEZ does, Liu et al., SIGMOD'24).
//!
//! ```text
//! o known   1 new along one axis   2 new along two        o   1   o
//! first all 1 from the o around them along one axis,      1   2   1
//! then all 2 from the 1 around them along two             o   1   o
//! ```
//!
//! Unlike differences, predictions start from restored values, and a residual is a whole number of steps: a value that its neighbours
//! foretell to within the bound costs a zero, where rounding to a grid first would leave ±1. Restored values still lie on a grid of their own,
//! eight places a step ([`FineGrid`]): that is what lets a value that a decoder has returned keep its place for ever.

use crate::error::Result;
use crate::finegrid::FineGrid;
use crate::layout::{MAX_RANK, Shape};
use crate::memory::resize;
use crate::quantize::Value;
use crate::simd::vectorized;

/// Sets of axes, by bits.
const SETS: usize = 1 << MAX_RANK;
/// Residuals of this magnitude or more say a place instead of a number of steps.
pub const ESCAPE_FROM: i32 = 1 << 16;
/// The residual of an escape is its distance from the prediction, in places, plus this.
pub const ESCAPE_BASE: i32 = ESCAPE_FROM + ESCAPE_REACH;
/// Escapes reach places from `-ESCAPE_REACH` to `ESCAPE_REACH - 1` around the prediction.
pub const ESCAPE_REACH: i32 = 1 << 15;

/// Buffers of this stage.
#[derive(Debug, Default)]
pub struct Interpolation {
    /// Places of the values of a level's classes, in the order in which they are coded.
    places: Vec<i32>,
    /// Places on a whole grid, and room for the next one.
    grid: [Vec<i32>; 2],
    /// Predictions of a slab.
    sums: Vec<i32>,
}

/// Extents, fastest axis first.
type Extents = [usize; MAX_RANK];

fn count(extents: Extents) -> usize {
    extents.iter().product()
}

/// The grids of a shape from the finest, which is the shape, to the coarsest, a single value.
fn grids(mut extents: Extents) -> Vec<Extents> {
    let mut grids = vec![extents];
    while count(extents) > 1 {
        extents = extents.map(|extent| extent.div_ceil(2));
        grids.push(extents);
    }
    grids
}

/// The values that a grid has and the next coarser one has not: a class for each set of axes along which they stand between the coarser
/// one's. Classes are coded one behind the other, behind all coarser levels, by the size of their sets and then by the sets' bits.
struct Level {
    /// Extents of the next coarser grid.
    coarse: Extents,
    /// Classes in their order; empty ones are left out.
    classes: [Class; SETS],
    class_count: usize,
    /// Starts by set.
    starts: [usize; SETS],
}

#[derive(Clone, Copy, Default)]
struct Class {
    set: usize,
    extents: Extents,
    start: usize,
}

fn has(set: usize, axis: usize) -> bool {
    set >> axis & 1 == 1
}

impl Level {
    fn new(grid: Extents) -> Self {
        let coarse = grid.map(|extent| extent.div_ceil(2));
        let mut start = count(coarse);
        let mut starts = [0; SETS];
        let mut classes = [Class::default(); SETS];
        let mut class_count = 0;
        for size in 1..=MAX_RANK as u32 {
            for set in (1..SETS).filter(|set| set.count_ones() == size) {
                let extents: Extents = std::array::from_fn(|axis| if has(set, axis) { grid[axis] / 2 } else { coarse[axis] });
                if count(extents) > 0 {
                    starts[set] = start;
                    classes[class_count] = Class { set, extents, start };
                    class_count += 1;
                    start += count(extents);
                }
            }
        }
        Self { coarse, classes, class_count, starts }
    }

    fn classes(&self) -> &[Class] {
        &self.classes[..self.class_count]
    }

    /// Calls `row` with the start of each row of the finer grid, and where its even and its odd values stand: sets, and rows in their classes.
    #[inline(always)]
    fn rows(&self, grid: Extents, mut row: impl FnMut(usize, usize, usize)) {
        let [len, ny, nz, nw] = grid;
        let mut start = 0;
        for w in 0..nw {
            for z in 0..nz {
                for y in 0..ny {
                    let set = (y & 1) << 1 | (z & 1) << 2 | (w & 1) << 3;
                    let side = |axis: usize| if has(set, axis) { grid[axis] / 2 } else { self.coarse[axis] };
                    row(start, set, (w / 2 * side(2) + z / 2) * side(1) + y / 2);
                    start += len;
                }
            }
        }
    }
}

/// Weights of the four neighbours at distances -3, -1, 1 and 3, in sixteenths, by whether those at -3, 1 and 3 exist.
fn weights(before: bool, next: bool, after: bool) -> [i32; 4] {
    match (before, next, after) {
        (true, true, true) => [-1, 9, 9, -1],
        (false, true, true) => [0, 6, 12, -2],
        (true, true, false) => [-2, 12, 6, 0],
        (false, true, false) => [0, 8, 8, 0],
        (true, false, _) => [-8, 24, 0, 0],
        (false, false, _) => [0, 16, 0, 0],
    }
}

/// The rows from which a class's row is predicted.
struct Sources<'a> {
    level: &'a Level,
    class: &'a Class,
    indices: [usize; MAX_RANK],
    known: &'a [i32],
    grid: &'a [i32],
}

impl<'a> Sources<'a> {
    /// The values that a class is predicted from along an axis: the class that stands on the coarser grid along it, or that grid. Their
    /// extents, and the indices with `place` along the axis.
    #[inline(always)]
    fn along(&self, axis: usize, place: usize) -> (&'a [i32], Extents, [usize; MAX_RANK]) {
        let set = self.class.set & !(1 << axis);
        let source = if set == 0 { self.grid } else { &self.known[self.level.starts[set]..] };
        let (mut extents, mut at) = (self.class.extents, self.indices);
        extents[axis] = self.level.coarse[axis];
        at[axis] = place;
        (source, extents, at)
    }

    /// The known row at `place` along an axis.
    #[inline(always)]
    fn row(&self, axis: usize, place: usize) -> &'a [i32] {
        let (source, extents, at) = self.along(axis, place);
        let row = (at[3] * extents[2] + at[2]) * extents[1] + at[1];
        &source[row * extents[0]..(row + 1) * extents[0]]
    }

    /// The known slab at `place` along an axis: rows `[ny][nx]` at fixed places along the two slowest axes.
    #[inline(always)]
    fn slab(&self, axis: usize, place: usize) -> &'a [i32] {
        let (source, extents, at) = self.along(axis, place);
        let size = extents[0] * extents[1];
        &source[(at[3] * extents[2] + at[2]) * size..][..size]
    }
}

/// Neighbours along an axis that is not the fastest: rows, and their weights.
struct Stencil<'a> {
    rows: [&'a [i32]; 4],
    weights: [i32; 4],
}

impl<'a> Stencil<'a> {
    /// Neighbours along an axis of what stands behind `place` of those known, and whether it stands between two.
    #[inline(always)]
    fn new(place: usize, known: usize, at: impl Fn(usize) -> &'a [i32]) -> (Self, bool) {
        let (before, next, after) = (place > 0, place + 1 < known, place + 2 < known);
        let here = at(place);
        // Where there is no neighbour, its weight is 0.
        let rows = [
            if before { at(place - 1) } else { here },
            here,
            if next { at(place + 1) } else { here },
            if after { at(place + 2) } else { here },
        ];
        (Self { rows, weights: weights(before, next, after) }, next)
    }

    /// Adds the predictions of the row's places from `first` on.
    #[inline(always)]
    fn add_to(&self, sums: &mut [i32], first: usize) {
        let [a, b, c, d] = self.rows.map(|row| &row[first..first + sums.len()]);
        let w = self.weights;
        if w == [-1, 9, 9, -1] {
            for (i, sum) in sums.iter_mut().enumerate() {
                let near = b[i].wrapping_add(c[i]).wrapping_mul(9);
                *sum = sum.wrapping_add(near.wrapping_sub(a[i].wrapping_add(d[i])));
            }
        } else {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(weigh([a[i], b[i], c[i], d[i]], w));
            }
        }
    }
}

#[inline(always)]
fn weigh(values: [i32; 4], weights: [i32; 4]) -> i32 {
    values.into_iter().zip(weights).fold(0, |sum, (value, weight): (i32, i32)| sum.wrapping_add(value.wrapping_mul(weight)))
}

/// Adds the prediction of place `at` of a row from a row of `known`'s length, its neighbours along the row.
#[inline(always)]
fn add_along_row(sum: &mut i32, known: &[i32], at: usize) {
    let (before, next, after) = (at > 0, at + 1 < known.len(), at + 2 < known.len());
    let value = |exists: bool, place: usize| if exists { known[place] } else { 0 };
    let values = [value(before, at.wrapping_sub(1)), known[at], value(next, at + 1), value(after, at + 2)];
    *sum = sum.wrapping_add(weigh(values, weights(before, next, after)));
}

/// Adds the predictions along slow axes, of all of them or only of those along which there are known values on both sides.
#[inline(always)]
fn add_all(stencils: &[Option<(Stencil<'_>, bool)>; MAX_RANK], sums: &mut [i32], first: usize, between_only: bool) {
    for (stencil, between) in stencils.iter().flatten() {
        if *between || !between_only {
            stencil.add_to(sums, first);
        }
    }
}

/// Turns sums of `axes` predictions in sixteenths into their means, rounded half up.
#[inline(always)]
fn divide(sums: &mut [i32], axes: usize) {
    #[inline(always)]
    fn each(sums: &mut [i32], mean: impl Fn(i32) -> i32) {
        for sum in sums {
            *sum = mean(*sum);
        }
    }
    match axes {
        1 => each(
            sums,
            #[inline(always)]
            |sum: i32| sum.wrapping_add(8) >> 4,
        ),
        2 => each(
            sums,
            #[inline(always)]
            |sum: i32| sum.wrapping_add(16) >> 5,
        ),
        3 => each(
            sums,
            #[inline(always)]
            |sum: i32| sum.wrapping_add(24).div_euclid(48),
        ),
        _ => each(
            sums,
            #[inline(always)]
            |sum: i32| sum.wrapping_add(32) >> 6,
        ),
    }
}

/// Predicts the row at `indices` of a class. `known` holds the places of all that is coded before the class, `grid` those of the coarser grid.
#[inline(always)]
fn predict_row(level: &Level, class: &Class, indices: [usize; MAX_RANK], known: &[i32], grid: &[i32], sums: &mut [i32]) {
    let sources = Sources { level, class, indices, known, grid };
    // Interpolations count where there are any, and extrapolations only elsewhere.
    let mut stencils: [Option<(Stencil<'_>, bool)>; MAX_RANK] = [None, None, None, None];
    let (mut between, mut all) = (0, 0);
    for axis in (1..MAX_RANK).filter(|&axis| has(class.set, axis)) {
        let stencil = Stencil::new(
            indices[axis],
            level.coarse[axis],
            #[inline(always)]
            |place| sources.row(axis, place),
        );
        between += usize::from(stencil.1);
        all += 1;
        stencils[axis] = Some(stencil);
    }
    sums.fill(0);
    if !has(class.set, 0) {
        add_all(&stencils, sums, 0, between > 0);
        return divide(sums, if between > 0 { between } else { all });
    }
    // Along the row, all places but perhaps the last stand between two known ones.
    let along = sources.row(0, 0);
    let inside = sums.len().min(along.len() - 1);
    let (inner, last) = sums.split_at_mut(inside);
    add_all(&stencils, inner, 0, true);
    add_along(inner, along);
    divide(inner, between + 1);
    if !last.is_empty() {
        add_all(&stencils, last, inside, between > 0);
        finish_last(&mut last[0], along, if between > 0 { between } else { all }, between == 0);
    }
}

/// Adds the predictions along a row to all its places that stand between two known ones.
#[inline(always)]
fn add_along(inner: &mut [i32], along: &[i32]) {
    let inside = inner.len();
    let full = 1..inside.min(along.len().saturating_sub(2)).max(1);
    if inside > 0 {
        add_along_row(&mut inner[0], along, 0);
    }
    for (at, sum) in inner.iter_mut().enumerate().skip(full.end) {
        add_along_row(sum, along, at);
    }
    if !full.is_empty() {
        let len = full.len();
        let (before, here, next, after) = (&along[..len], &along[1..][..len], &along[2..][..len], &along[3..][..len]);
        for (i, sum) in inner[full].iter_mut().enumerate() {
            let near = here[i].wrapping_add(next[i]).wrapping_mul(9);
            *sum = sum.wrapping_add(near.wrapping_sub(before[i].wrapping_add(after[i])));
        }
    }
}

/// Ends the sum of `axes` slow axes at a row's last place, behind which nothing is known; `extrapolate` where none of them has known
/// values on both sides either.
#[inline(always)]
fn finish_last(sum: &mut i32, along: &[i32], axes: usize, extrapolate: bool) {
    if extrapolate {
        add_along_row(sum, along, along.len() - 1);
    }
    divide(std::slice::from_mut(sum), axes + usize::from(extrapolate));
}

/// Predicts a slab of a class: its rows at fixed places along the two slowest axes. The same as [`predict_row`] for each of them, with
/// longer loops.
#[inline(always)]
fn predict_slab(level: &Level, class: &Class, [z, w]: [usize; 2], known: &[i32], grid: &[i32], sums: &mut [i32]) {
    let [len, ny, ..] = class.extents;
    let row_alone =
        |y: usize, sums: &mut [i32]| predict_row(level, class, [0, y, z, w], known, grid, &mut sums[y * len..(y + 1) * len]);
    let sources = Sources { level, class, indices: [0, 0, z, w], known, grid };
    let mut stencils: [Option<(Stencil<'_>, bool)>; MAX_RANK] = [None, None, None, None];
    let mut axes = 0;
    for (axis, place) in [(2, z), (3, w)].into_iter().filter(|&(axis, _)| has(class.set, axis)) {
        if place + 1 == level.coarse[axis] {
            // Extrapolations count or not, row by row.
            (0..ny).for_each(|y| row_alone(y, sums));
            return;
        }
        stencils[axis] = Some(Stencil::new(
            place,
            level.coarse[axis],
            #[inline(always)]
            |place| sources.slab(axis, place),
        ));
        axes += 1;
    }
    sums.fill(0);
    add_all(&stencils, sums, 0, true);
    let mut inside = ny;
    if has(class.set, 1) {
        let known_rows = level.coarse[1];
        inside = ny.min(known_rows - 1);
        let first = sources.slab(1, 0);
        let full = 1..inside.min(known_rows.saturating_sub(2)).max(1);
        for y in (0..inside.min(1)).chain(full.end..inside) {
            let stencil = Stencil::new(
                y,
                known_rows,
                #[inline(always)]
                |place| &first[place * len..(place + 1) * len],
            );
            stencil.0.add_to(&mut sums[y * len..(y + 1) * len], 0);
        }
        if !full.is_empty() {
            let size = full.len() * len;
            let rows = [&first[..size], &first[len..][..size], &first[2 * len..][..size], &first[3 * len..][..size]];
            Stencil { rows, weights: weights(true, true, true) }.add_to(&mut sums[full.start * len..full.end * len], 0);
        }
        axes += 1;
    }
    if has(class.set, 0) {
        let along = sources.slab(0, 0);
        for (sums, along) in sums.chunks_exact_mut(len).zip(along.chunks_exact(level.coarse[0])).take(inside) {
            let (inner, last) = sums.split_at_mut(len.min(along.len() - 1));
            add_along(inner, along);
            divide(inner, axes + 1);
            if let Some(sum) = last.first_mut() {
                finish_last(sum, along, axes, axes == 0);
            }
        }
    } else {
        divide(&mut sums[..inside * len], axes);
    }
    (inside..ny).for_each(|y| row_alone(y, sums));
}

impl Class {
    /// Calls `slab` with the start of each slab among the class's values, and its places along the two slowest axes.
    #[inline(always)]
    fn slabs(&self, mut slab: impl FnMut(usize, [usize; 2])) {
        let [len, ny, nz, nw] = self.extents;
        let mut start = 0;
        for w in 0..nw {
            for z in 0..nz {
                slab(start, [z, w]);
                start += len * ny;
            }
        }
    }
}

impl Interpolation {
    /// Residuals of a chunk's values, in the order of the classes. `values` has the IEEE bits of the chunk's values in C order, and is
    /// overwritten; `ordered` is room for as many. Indices of exceptions are appended to `exceptions` in no order.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn forward<V: Value>(
        &mut self,
        values: &mut [V::Code],
        ordered: &mut [V::Code],
        shape: &Shape,
        fine: &FineGrid<V>,
        residuals: &mut Vec<i32>,
        exceptions: &mut Vec<usize>,
    ) -> Result<()> {
        let grids = grids(shape.extents());
        resize(residuals, values.len())?;
        resize(&mut self.sums, slab_len(grids[0]))?;
        resize(&mut self.places, values.len())?;
        for grid in &mut self.grid {
            resize(grid, values.len().div_ceil(2).max(1))?;
        }
        vectorized(
            #[inline(always)]
            || {
                split(values, ordered, &grids);
                let mut places = [0];
                fine.encode(&[V::from_bits(ordered[0])], &[0], residuals, &mut places, |_| exceptions.push(0));
                self.grid[0][0] = places[0];
                for (depth, extents) in grids.iter().enumerate().rev().skip(1) {
                    let level = Level::new(*extents);
                    self.forward_level(&level, depth, shape, ordered, fine, residuals, exceptions);
                    if depth > 0 {
                        let [from, to] = &mut self.grid;
                        merge(&level, *extents, from, &self.places, to);
                        self.grid.swap(0, 1);
                    }
                }
            },
        );
        Ok(())
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "a loop's body, for one level")]
    fn forward_level<V: Value>(
        &mut self,
        level: &Level,
        depth: usize,
        shape: &Shape,
        ordered: &[V::Code],
        fine: &FineGrid<V>,
        residuals: &mut [i32],
        exceptions: &mut Vec<usize>,
    ) {
        let mut part_values = [V::default(); PART];
        for class in level.classes() {
            let [len, ny, ..] = class.extents;
            let size = len * ny;
            let (known, places) = self.places.split_at_mut(class.start);
            class.slabs(
                #[inline(always)]
                |start, at| {
                    let sums = &mut self.sums[..size];
                    predict_slab(level, class, at, known, &self.grid[0], sums);
                    for from in (0..size).step_by(PART) {
                        let part = from..size.min(from + PART);
                        let first = class.start + start + from;
                        let bits = &ordered[first..first + part.len()];
                        let part_values = &mut part_values[..part.len()];
                        for (value, &bits) in part_values.iter_mut().zip(bits) {
                            *value = V::from_bits(bits);
                        }
                        let residuals = &mut residuals[first..first + part.len()];
                        let places = &mut places[start + from..start + from + part.len()];
                        fine.encode(part_values, &sums[part], residuals, places, |place| {
                            let place = from + place;
                            exceptions.push(index_in_chunk(class.set, [place % len, place / len, at[0], at[1]], depth, shape));
                        });
                    }
                },
            );
        }
    }

    /// Places of a chunk's values in C order, from their residuals.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn inverse(&mut self, residuals: &[i32], shape: &Shape) -> Result<&[i32]> {
        let grids = grids(shape.extents());
        resize(&mut self.places, residuals.len())?;
        resize(&mut self.sums, slab_len(grids[0]))?;
        for grid in &mut self.grid {
            resize(grid, residuals.len())?;
        }
        vectorized(
            #[inline(always)]
            || {
                self.grid[0][0] = restore(0, residuals[0]);
                for extents in grids.iter().rev().skip(1) {
                    let level = Level::new(*extents);
                    for class in level.classes() {
                        let size = class.extents[0] * class.extents[1];
                        let (known, places) = self.places.split_at_mut(class.start);
                        class.slabs(
                            #[inline(always)]
                            |start, at| {
                                let sums = &mut self.sums[..size];
                                predict_slab(&level, class, at, known, &self.grid[0], sums);
                                let residuals = &residuals[class.start + start..][..size];
                                for ((place, &prediction), &residual) in
                                    places[start..][..size].iter_mut().zip(&*sums).zip(residuals)
                                {
                                    *place = restore(prediction, residual);
                                }
                            },
                        );
                    }
                    let [from, to] = &mut self.grid;
                    merge(&level, *extents, from, &self.places, to);
                    self.grid.swap(0, 1);
                }
            },
        );
        Ok(&self.grid[0][..residuals.len()])
    }
}

/// Values that are quantized together.
const PART: usize = 64;

/// Most values of a slab of a grid's classes: at most half of each row, and of the rows, round up.
fn slab_len(grid: Extents) -> usize {
    grid[0].div_ceil(2) * grid[1].div_ceil(2)
}

/// The place that a residual leads to.
#[inline(always)]
#[must_use]
pub fn restore(prediction: i32, residual: i32) -> i32 {
    let distance = if residual.unsigned_abs() < ESCAPE_FROM.unsigned_abs() {
        residual.wrapping_mul(crate::finegrid::PLACES)
    } else {
        residual.wrapping_sub(ESCAPE_BASE)
    };
    prediction.wrapping_add(distance)
}

/// Index in the chunk of a class's value, whose grid has every `2^depth`-th value.
fn index_in_chunk(set: usize, indices: [usize; MAX_RANK], depth: usize, shape: &Shape) -> usize {
    let extents = shape.extents();
    (0..MAX_RANK).rev().fold(0, |index, axis| {
        let along = (2 * indices[axis] + usize::from(has(set, axis))) << depth;
        index * extents[axis] + along
    })
}

/// Puts values in the order of the classes. `values` is overwritten.
#[inline(always)]
fn split<T: Copy>(values: &mut [T], ordered: &mut [T], grids: &[Extents]) {
    for &extents in &grids[..grids.len() - 1] {
        let level = Level::new(extents);
        let len = extents[0];
        level.rows(
            extents,
            #[inline(always)]
            |start, set, row| {
                let (even, odd) = (level.coarse[0], len / 2);
                let to = level.starts[set | 1] + row * odd;
                for (target, pair) in ordered[to..to + odd].iter_mut().zip(values[start..start + len].as_chunks::<2>().0) {
                    *target = pair[1];
                }
                if set == 0 {
                    // The coarser grid takes the front of the finer one's room: no value is written before it was read.
                    for i in 0..even {
                        values[row * even + i] = values[start + 2 * i];
                    }
                } else {
                    let to = level.starts[set] + row * even;
                    for (target, pair) in ordered[to..to + even].iter_mut().zip(values[start..start + len].chunks(2)) {
                        *target = pair[0];
                    }
                }
            },
        );
    }
    ordered[0] = values[0];
}

/// Puts a coarser grid and a level's classes together to the finer grid.
#[inline(always)]
fn merge(level: &Level, extents: Extents, coarse: &[i32], places: &[i32], fine: &mut [i32]) {
    let len = extents[0];
    let (even, odd) = (level.coarse[0], len / 2);
    level.rows(
        extents,
        #[inline(always)]
        |start, set, row| {
            let evens = if set == 0 { &coarse[row * even..] } else { &places[level.starts[set] + row * even..] };
            let odds = &places[level.starts[set | 1] + row * odd..][..odd];
            let target = &mut fine[start..start + len];
            for ((pair, &even), &odd) in target.as_chunks_mut::<2>().0.iter_mut().zip(evens).zip(odds) {
                *pair = [even, odd];
            }
            if len % 2 == 1 {
                target[len - 1] = evens[even - 1];
            }
        },
    );
}
