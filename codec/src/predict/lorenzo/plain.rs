//! FORMAT.md §6.1 word for word: differences along a set of axes, and the prefix sums that undo them. One axis follows the other.

use crate::layout::{Axes, MAX_RANK, Shape};
use crate::number::integer::Integer;

/// For each axis of a set, the distance of neighbours along the axis, in values, and its extent.
fn strides_and_extents(shape: &Shape, axes: Axes) -> impl Iterator<Item = (usize, usize)> {
    let extents = shape.extents();
    (0..MAX_RANK).filter(move |&axis| axes.contains(axis)).map(move |axis| (extents[..axis].iter().product(), extents[axis]))
}

/// Encoder: along each axis, each integer less the integer before it. Nothing is subtracted from the first integer of a line.
pub(crate) fn differences<C: Integer>(integers: &[C], shape: &Shape, axes: Axes) -> Vec<C> {
    let mut differences = integers.to_vec();
    for (stride, extent) in strides_and_extents(shape, axes) {
        for i in (0..differences.len()).rev() {
            if i / stride % extent > 0 {
                differences[i] = differences[i].sub(differences[i - stride]);
            }
        }
    }
    differences
}

/// Decoder: along each axis, each integer is the sum of the differences up to and including its own.
pub(crate) fn sums<C: Integer>(differences: &[C], shape: &Shape, axes: Axes) -> Vec<C> {
    let mut sums = differences.to_vec();
    for (stride, extent) in strides_and_extents(shape, axes) {
        for i in 0..sums.len() {
            if i / stride % extent > 0 {
                sums[i] = sums[i].add(sums[i - stride]);
            }
        }
    }
    sums
}
