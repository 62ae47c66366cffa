//! FORMAT.md §6.1 word for word, one axis after the other: differences along a set of axes, and prefix sums that undo them.

use crate::layout::{Axes, MAX_RANK, Shape};
use crate::number::integer::Integer;

/// For each axis of a set: the distance of two values that are neighbours along it, in values, and its extent.
fn lines(shape: &Shape, axes: Axes) -> impl Iterator<Item = (usize, usize)> {
    let extents = shape.extents();
    (0..MAX_RANK).filter(move |&axis| axes.contains(axis)).map(move |axis| (extents[..axis].iter().product(), extents[axis]))
}

/// Encoder: along each axis, each integer minus the one before it. Nothing is subtracted from the first one of a line.
pub(crate) fn differences<C: Integer>(integers: &[C], shape: &Shape, axes: Axes) -> Vec<C> {
    let mut differences = integers.to_vec();
    for (stride, extent) in lines(shape, axes) {
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
    for (stride, extent) in lines(shape, axes) {
        for i in 0..sums.len() {
            if i / stride % extent > 0 {
                sums[i] = sums[i].add(sums[i - stride]);
            }
        }
    }
    sums
}
