//! Tables of small levels: which neighbours predict each value, with which weights. They depend on a level's extents and on the kind of interpolation alone.

use std::ops::Range;

use super::super::level::{Extents, Level, ParityClass, axes_of, count, finest_depth_where, index, level_extents};
use super::super::mean::weights as weights_of_axis;
use crate::error::Result;
use crate::memory::{collect, push, reserve, resize};
use crate::predict::predictor::InterpolationKind;
use crate::simd::ROW_GROUP;

/// Number of neighbours of a value along an axis. Their distances are -3, -1, 1 and 3 in the level, and -1, 0, 1 and 2 in a section.
pub(super) const NEIGHBOURS: usize = 4;
/// Empty sections in front of the first section and behind the last, for neighbours with a weight of 0.
pub(super) const SECTIONS_BEFORE: usize = 1;
const SECTIONS_AFTER: usize = 2;
/// Slots of a level's buffer: enough for every level, and a power of two.
pub(super) const SLOTS: usize = 32_768;

/// The tables of one level. The section of the coarser level comes first. The sections of the parity classes follow in their order.
#[derive(Debug)]
pub(super) struct SmallLevel {
    /// Values of the next coarser level.
    pub(super) known: usize,
    /// Values of a section, a multiple of [`ROW_GROUP`].
    pub(super) section_len: usize,
    pub(super) stages: Vec<Stage>,
    /// Slot of each value of the level, in C order.
    pub(super) slots: Vec<u16>,
}

/// Parity classes with the same number of odd axes. No class of a stage is predicted from another.
#[derive(Debug)]
pub(super) struct Stage {
    /// Indices of the classes' residuals among all residuals of the chunk.
    pub(super) values: Range<usize>,
    pub(super) classes: Vec<SmallParityClass>,
}

/// A parity class, and the neighbours from which its values are predicted.
#[derive(Debug)]
pub(super) struct SmallParityClass {
    /// First slot of the class's section.
    pub(super) start: usize,
    /// For each axis along which the class is interpolated: the first slot of the neighbours' section, and the distance of neighbours, in slots.
    pub(super) along: Vec<(usize, usize)>,
    /// Weights in sixteenths, `[axis][neighbour][slot of the section]`.
    pub(super) weights: Vec<i8>,
    /// Number of axes along which each slot is predicted.
    pub(super) axes: Vec<i32>,
}

/// The tables of a chunk's small levels for a kind of interpolation.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Extents of the finest small level.
    pub(super) extents: Extents,
    pub(super) kind: InterpolationKind,
    /// Index in the finest small level of each value, in the order of the residuals.
    pub(super) order: Vec<u16>,
    /// Slot of each value, in the order of the residuals.
    pub(super) slots: Vec<u16>,
    /// Levels from the coarsest to the finest.
    pub(super) levels: Vec<SmallLevel>,
}

impl Tables {
    /// Makes the tables.
    pub(super) fn new(extents: Extents, kind: InterpolationKind) -> Result<Self> {
        let mut tables = Self { extents, kind, ..Self::default() };
        reserve(&mut tables.order, count(extents))?;
        reserve(&mut tables.slots, count(extents))?;
        tables.order.push(0);
        tables.slots.push(0);
        for depth in (0..finest_depth_where(extents, |level| count(level) == 1)).rev() {
            let level = tables.make_level(&Level::new(level_extents(extents, depth)), |in_level| {
                index(extents, in_level.map(|index| index << depth)) as u16
            })?;
            push(&mut tables.levels, level)?;
        }
        assert!(tables.levels.iter().all(|level| level.buffer_len() <= SLOTS));
        Ok(tables)
    }

    /// Makes the tables of a level. `index_in_finest` maps a value's indices in the level to its index in the finest small level.
    fn make_level(&mut self, level: &Level, index_in_finest: impl Fn(Extents) -> u16) -> Result<SmallLevel> {
        let known = count(level.coarse_extents);
        let section_len = known.next_multiple_of(ROW_GROUP);
        let start_of = |number: usize| (SECTIONS_BEFORE + number) * section_len;
        let mut slots = zeros(count(level.extents))?;
        for_each_index(level.coarse_extents, |at| {
            slots[index(level.extents, at.map(|index| 2 * index))] = (start_of(0) + index(level.coarse_extents, at)) as u16;
        });
        // Number of the section of the class with a set of odd axes. Section 0 is the coarser level's.
        let number_of = |set: usize| level.classes().iter().position(|class| class.set == set).map_or(0, |number| 1 + number);
        let mut stages: Vec<Stage> = Vec::new();
        for classes in level.classes().chunk_by(|one, other| one.set.count_ones() == other.set.count_ones()) {
            let before = self.order.len();
            let mut of_stage = Vec::new();
            for class in classes {
                let start = start_of(number_of(class.set));
                for_each_index(class.extents, |at| {
                    let slot = (start + index(level.coarse_extents, at)) as u16;
                    self.order.push(index_in_finest(class.in_level(at)));
                    self.slots.push(slot);
                    slots[index(level.extents, class.in_level(at))] = slot;
                });
                let along =
                    collect(axes_of(self.kind.axes_of(class.set)).map(|axis| {
                        (start_of(number_of(class.set & !(1 << axis))), level.coarse_extents[..axis].iter().product())
                    }))?;
                let (weights, axes) = weights_of(class, level, self.kind, section_len)?;
                push(&mut of_stage, SmallParityClass { start, along, weights, axes })?;
            }
            push(&mut stages, Stage { values: before..self.order.len(), classes: of_stage })?;
        }
        Ok(SmallLevel { known, section_len, stages, slots })
    }
}

impl SmallLevel {
    /// Slots of the level's buffer, with its empty sections.
    fn buffer_len(&self) -> usize {
        let classes: usize = self.stages.iter().map(|stage| stage.classes.len()).sum();
        (SECTIONS_BEFORE + 1 + classes + SECTIONS_AFTER) * self.section_len
    }

    /// Copies the positions of the level's values from the buffer, in C order.
    #[inline(always)]
    pub(super) fn merge(&self, level_buffer: &[i32], positions: &mut [i32]) {
        for (position, &slot) in positions.iter_mut().zip(&self.slots) {
            *position = level_buffer[usize::from(slot)];
        }
    }
}

/// Fields `weights` and `axes` of a [`SmallParityClass`].
fn weights_of(class: &ParityClass, level: &Level, kind: InterpolationKind, section_len: usize) -> Result<(Vec<i8>, Vec<i32>)> {
    let all_axes = kind.axes_of(class.set);
    let mut weights = zeros(all_axes.count_ones() as usize * NEIGHBOURS * section_len)?;
    let mut axes = zeros(section_len)?;
    for_each_index(class.extents, |at| {
        let slot = index(level.coarse_extents, at);
        // If any axis has a neighbour at distance +1, axes without such a neighbour do not count (FORMAT.md §6.2).
        let is_between = |axis: &usize| at[*axis] + 1 < level.coarse_extents[*axis];
        let is_alone = axes_of(all_axes).all(|axis| !is_between(&axis));
        for (number, axis) in axes_of(all_axes).enumerate().filter(|(_, axis)| is_alone || is_between(axis)) {
            axes[slot] += 1;
            let exists = [at[axis] > 0, true, is_between(&axis), at[axis] + 2 < level.coarse_extents[axis]];
            for (neighbour, weight) in weights_of_axis(exists, kind.is_linear()).into_iter().enumerate() {
                weights[(number * NEIGHBOURS + neighbour) * section_len + slot] = weight;
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

/// Calls `body` with the indices of every value, in C order.
fn for_each_index(extents: Extents, mut body: impl FnMut(Extents)) {
    for w in 0..extents[3] {
        for z in 0..extents[2] {
            for y in 0..extents[1] {
                (0..extents[0]).for_each(|x| body([x, y, z, w]));
            }
        }
    }
}
