//! Grids of a chunk, and the classes of values that each adds to the next coarser one (FORMAT.md §6.2).

use crate::layout::MAX_RANK;

/// Extents or indices, fastest axis first.
pub(super) type Extents = [usize; MAX_RANK];

/// Sets of axes, by bits.
pub(super) const SETS: usize = 1 << MAX_RANK;

pub(super) fn count(extents: Extents) -> usize {
    extents.iter().product()
}

#[inline(always)]
pub(super) fn has(set: usize, axis: usize) -> bool {
    set >> axis & 1 == 1
}

/// The axes of a set.
#[inline(always)]
pub(super) fn axes_of(set: usize) -> impl Iterator<Item = usize> {
    (0..MAX_RANK).filter(
        #[inline(always)]
        move |&axis| has(set, axis),
    )
}

/// Index of a value in an array of these extents.
#[inline(always)]
pub(super) fn index(extents: Extents, at: Extents) -> usize {
    ((at[3] * extents[2] + at[2]) * extents[1] + at[1]) * extents[0] + at[0]
}

/// Indices of a value in an array of these extents: the inverse of [`index`].
pub(super) fn indices(extents: Extents, index: usize) -> Extents {
    let rows = index / extents[0];
    let sheets = rows / extents[1];
    [index % extents[0], rows % extents[1], sheets % extents[2], sheets / extents[2]]
}

/// The grid of every `2^depth`-th value of a shape along each axis, which has half as many values along each as the grid before, rounded up.
pub(super) fn grid(shape: Extents, depth: usize) -> Extents {
    shape.map(|extent| ((extent - 1) >> depth) + 1)
}

/// The depth of the finest grid of a shape with a property that a single value has.
pub(super) fn depth_of(shape: Extents, has_property: impl Fn(Extents) -> bool) -> usize {
    (0..usize::BITS as usize).find(|&depth| has_property(grid(shape, depth))).unwrap_or(0)
}

/// The values that a grid has and the next coarser one has not: a class for each set of axes along which they stand between the coarser
/// one's. Classes are coded one behind the other, behind all coarser levels, by the size of their sets and then by the sets' bits.
pub(super) struct Level {
    /// Extents of the grid.
    pub fine: Extents,
    /// Extents of the next coarser grid.
    pub coarse: Extents,
    /// Classes in their order; empty ones are left out.
    classes: [Class; SETS],
    class_count: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Class {
    /// Axes along which its values stand between those of the coarser grid.
    pub set: usize,
    pub extents: Extents,
    /// Where its values begin among all residuals.
    pub start: usize,
}

impl Level {
    pub(super) fn new(fine: Extents) -> Self {
        let coarse = fine.map(|extent| extent.div_ceil(2));
        let mut level = Self { fine, coarse, classes: [Class::default(); SETS], class_count: 0 };
        let mut start = count(coarse);
        for size in 1..=MAX_RANK as u32 {
            for set in (1..SETS).filter(|set| set.count_ones() == size) {
                let extents: Extents = std::array::from_fn(|axis| if has(set, axis) { fine[axis] / 2 } else { coarse[axis] });
                if count(extents) > 0 {
                    level.classes[level.class_count] = Class { set, extents, start };
                    level.class_count += 1;
                    start += count(extents);
                }
            }
        }
        level
    }

    pub(super) fn classes(&self) -> &[Class] {
        &self.classes[..self.class_count]
    }
}

impl Class {
    /// Where one of its values stands in the grid.
    #[inline(always)]
    pub(super) fn in_grid(&self, at: Extents) -> Extents {
        std::array::from_fn(|axis| 2 * at[axis] + usize::from(has(self.set, axis)))
    }
}
