//! Levels of a chunk, and the parity classes of values that each level adds to the next coarser one (FORMAT.md §6.2).
//!
//! A chunk `[nw][nz][ny][nx]` has x as axis 0. Level `l` holds the values whose indices are multiples of `2^l` along every axis.

use crate::layout::MAX_RANK;

/// Extents or indices, fastest axis first.
pub(in crate::predict) type Extents = [usize; MAX_RANK];

/// The number of sets of axes, with the empty one.
pub(in crate::predict) const SETS: usize = 1 << MAX_RANK;

/// Number of values of an array of these extents.
pub(in crate::predict) fn count(extents: Extents) -> usize {
    extents.iter().product()
}

/// Whether an axis is in a set.
#[inline(always)]
pub(in crate::predict) fn has(set: usize, axis: usize) -> bool {
    set >> axis & 1 == 1
}

/// The axes of a set.
#[inline(always)]
pub(in crate::predict) fn axes_of(set: usize) -> impl Iterator<Item = usize> {
    (0..MAX_RANK).filter(
        #[inline(always)]
        move |&axis| has(set, axis),
    )
}

/// Index of a value in an array of these extents.
#[inline(always)]
pub(in crate::predict) fn index(extents: Extents, at: Extents) -> usize {
    ((at[3] * extents[2] + at[2]) * extents[1] + at[1]) * extents[0] + at[0]
}

/// Indices of a value in an array of these extents: the inverse of [`index`].
pub(in crate::predict) fn indices(extents: Extents, index: usize) -> Extents {
    let rows = index / extents[0];
    let slices = rows / extents[1];
    [index % extents[0], rows % extents[1], slices % extents[2], slices / extents[2]]
}

/// Extents of level `depth`, which has every `2^depth`-th value of the chunk along each axis: `ceil(extent / 2^depth)`.
pub(in crate::predict) fn level_extents(shape: Extents, depth: usize) -> Extents {
    shape.map(|extent| ((extent - 1) >> depth) + 1)
}

/// Number of the coarsest level, which is a single value.
pub(in crate::predict) fn coarsest_depth(shape: Extents) -> usize {
    (0..usize::BITS as usize).find(|&depth| count(level_extents(shape, depth)) == 1).unwrap_or(0)
}

/// A level and its parity classes: the values that the next coarser level lacks. Each non-empty set of axes has a class. The residuals of a level follow those
/// of all coarser levels. The level's classes are ordered by the number of their axes, then by the numbers whose bits are the axes.
pub(in crate::predict) struct Level {
    /// Extents of the level.
    pub extents: Extents,
    /// Extents of the next coarser level.
    pub coarse_extents: Extents,
    /// Parity classes in the order of the stream, without empty ones.
    classes: [ParityClass; SETS],
    class_count: usize,
}

/// The values of a level whose indices are odd along one set of axes and even along all others.
#[derive(Clone, Copy, Default)]
pub(in crate::predict) struct ParityClass {
    /// Axes along which the indices of its values are odd, a bit for each.
    pub set: usize,
    /// Number of its values along each axis.
    pub extents: Extents,
    /// Index of its first value among all residuals of the chunk.
    pub start: usize,
}

impl Level {
    /// The level of these extents.
    pub(in crate::predict) fn new(extents: Extents) -> Self {
        let coarse_extents = extents.map(|extent| extent.div_ceil(2));
        let mut level = Self { extents, coarse_extents, classes: [ParityClass::default(); SETS], class_count: 0 };
        let mut start = count(coarse_extents);
        for size in 1..=MAX_RANK as u32 {
            for set in (1..SETS).filter(|set| set.count_ones() == size) {
                let of_class: Extents =
                    std::array::from_fn(|axis| if has(set, axis) { extents[axis] / 2 } else { coarse_extents[axis] });
                if count(of_class) > 0 {
                    level.classes[level.class_count] = ParityClass { set, extents: of_class, start };
                    level.class_count += 1;
                    start += count(of_class);
                }
            }
        }
        level
    }

    /// The parity classes that have values, in the order of the stream.
    pub(in crate::predict) fn classes(&self) -> &[ParityClass] {
        &self.classes[..self.class_count]
    }
}

impl ParityClass {
    /// Indices in the level of the value with these indices in the class.
    #[inline(always)]
    pub(in crate::predict) fn in_level(&self, at: Extents) -> Extents {
        std::array::from_fn(|axis| 2 * at[axis] + usize::from(has(self.set, axis)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SHAPES: [Extents; 8] =
        [[1, 1, 1, 1], [2, 1, 1, 1], [17, 1, 1, 1], [1, 7, 1, 1], [5, 3, 1, 1], [4, 1, 6, 1], [3, 5, 7, 1], [2, 3, 4, 5]];

    #[test]
    fn indices_are_the_inverse_of_index() {
        for shape in SHAPES {
            for at in 0..count(shape) {
                assert_eq!(index(shape, indices(shape, at)), at, "{shape:?}");
            }
        }
        // x is the fastest axis.
        assert_eq!(indices([2, 3, 4, 5], 2 * 3 * 4 * 4 + 2 * 3 * 3 + 2 * 2 + 1), [1, 2, 3, 4]);
    }

    #[test]
    fn a_level_has_the_values_at_multiples_of_its_stride() {
        for shape in SHAPES {
            for depth in 0..6 {
                let multiples = shape.map(|extent| (0..extent).step_by(1 << depth).count());
                assert_eq!(level_extents(shape, depth), multiples, "{shape:?} at depth {depth}");
            }
        }
    }

    #[test]
    fn the_coarsest_level_is_a_single_value() {
        assert_eq!(coarsest_depth([9, 5, 1, 1]), 4);
        assert_eq!(coarsest_depth([8, 5, 1, 1]), 3);
    }

    #[test]
    fn parity_classes_list_every_value_once_in_the_order_of_the_format() {
        for shape in SHAPES {
            let last = coarsest_depth(shape);
            let (mut seen, mut next) = (HashSet::from([[0; MAX_RANK]]), 1);
            for depth in (0..last).rev() {
                let level = Level::new(level_extents(shape, depth));
                assert_eq!(level.coarse_extents, level_extents(shape, depth + 1));
                let mut before = (0, 0);
                for class in level.classes() {
                    let order = (class.set.count_ones(), class.set);
                    assert!(before < order, "{shape:?}: {before:?} before {order:?}");
                    before = order;
                    assert_eq!(class.start, next, "{shape:?} at depth {depth}");
                    for at in 0..count(class.extents) {
                        let in_level = class.in_level(indices(class.extents, at));
                        for (axis, (index, extent)) in in_level.into_iter().zip(level.extents).enumerate() {
                            assert!(index < extent);
                            assert_eq!(index % 2 == 1, has(class.set, axis));
                        }
                        assert!(seen.insert(in_level.map(|index| index << depth)), "{shape:?}: a value is listed twice");
                    }
                    next += count(class.extents);
                }
            }
            assert_eq!((seen.len(), next), (count(shape), count(shape)));
        }
    }
}
