//! The arithmetic of interpolation (FORMAT.md §6.2): predictions along one axis, means of predictions, and margins. A margin makes a cubic prediction quadratic
//! at the end of an axis.

use crate::layout::MAX_RANK;

/// Positions of the neighbours along one axis, at distances -3, -1, 1 and 3, for consecutive values of a class.
pub(super) type Neighbours<'a> = [&'a [i32]; 4];

/// The value that continues a line through two values, or a parabola through three. `first` is the nearest value.
#[inline(always)]
pub(super) fn margin_value(first: i32, second: i32, third: Option<i32>) -> i32 {
    match third {
        Some(third) => first.wrapping_sub(second).wrapping_mul(3).wrapping_add(third),
        None => first.wrapping_mul(2).wrapping_sub(second),
    }
}

/// The prediction, in sixteenths, of a value that is the last along an axis (FORMAT.md §6.2). `a` and `b` are its neighbours at distances -3 and -1. If
/// `is_constant`, the prediction is `b`: interpolation is linear, or `a` does not exist.
#[inline(always)]
pub(super) fn extrapolated(a: i32, b: i32, is_constant: bool) -> i32 {
    if is_constant { b.wrapping_mul(16) } else { b.wrapping_mul(24).wrapping_sub(a.wrapping_mul(8)) }
}

/// Weights, in sixteenths, of the neighbours at distances -3, -1, 1 and 3: `a`, `b`, `c` and `d` of FORMAT.md §6.2. The first array says which of them exist;
/// `b` always does. The others have the weight 0.
pub(in crate::predict) fn weights([has_a, _, has_c, has_d]: [bool; 4], is_linear: bool) -> [i8; 4] {
    match (has_a, has_c, has_d) {
        (_, true, _) if is_linear => [0, 8, 8, 0],
        (_, false, _) if is_linear => [0, 16, 0, 0],
        (true, true, true) => [-1, 9, 9, -1],
        (false, true, true) => [0, 6, 12, -2],
        (true, true, false) => [-2, 12, 6, 0],
        (false, true, false) => [0, 8, 8, 0],
        (true, false, _) => [-8, 24, 0, 0],
        (false, false, _) => [0, 16, 0, 0],
    }
}

/// Predicts every `stride`-th value of `target`: the mean of the predictions along the first `AXES` axes of `neighbours`.
#[inline(always)]
pub(super) fn mean_of<const AXES: usize>(
    neighbours: [Neighbours<'_>; MAX_RANK],
    is_linear: bool,
    target: &mut [i32],
    stride: usize,
) {
    let len = target.len();
    let neighbours: [Neighbours<'_>; AXES] = std::array::from_fn(|axis| neighbours[axis].map(|positions| &positions[..len]));
    if is_linear {
        for_every(
            target,
            stride,
            #[inline(always)]
            |i| linear_mean_at(&neighbours, i),
        );
    } else {
        for_every(
            target,
            stride,
            #[inline(always)]
            |i| cubic_mean_at(&neighbours, i),
        );
    }
}

/// Sets every `stride`-th value of `target` to `value(index)`.
#[inline(always)]
fn for_every(target: &mut [i32], stride: usize, value: impl Fn(usize) -> i32) {
    if stride == 1 {
        for (i, target) in target.iter_mut().enumerate() {
            *target = value(i);
        }
    } else {
        for (i, target) in target.iter_mut().enumerate().step_by(stride) {
            *target = value(i);
        }
    }
}

/// The mean of the linear predictions of value `i`.
#[inline(always)]
fn linear_mean_at<const AXES: usize>(neighbours: &[Neighbours<'_>; AXES], i: usize) -> i32 {
    let mut sum = 0i32;
    for [_, b, c, _] in neighbours {
        sum = sum.wrapping_add(b[i].wrapping_add(c[i]).wrapping_mul(8));
    }
    mean(sum, AXES)
}

/// The mean of the cubic predictions of value `i`.
#[inline(always)]
fn cubic_mean_at<const AXES: usize>(neighbours: &[Neighbours<'_>; AXES], i: usize) -> i32 {
    let mut sum = 0i32;
    for [a, b, c, d] in neighbours {
        let inner = b[i].wrapping_add(c[i]).wrapping_mul(9);
        sum = sum.wrapping_add(inner.wrapping_sub(a[i].wrapping_add(d[i])));
    }
    mean(sum, AXES)
}

/// The mean of the predictions along `axes` axes, rounded half up. `sum` is the sum of the predictions in sixteenths.
#[inline(always)]
pub(super) fn mean(sum: i32, axes: usize) -> i32 {
    match axes {
        1 => sum.wrapping_add(8) >> 4,
        2 => sum.wrapping_add(16) >> 5,
        3 => third(sum.wrapping_add(24) >> 4),
        _ => sum.wrapping_add(32) >> 6,
    }
}

/// A third of a signed number of 28 bits, rounded down. The offset makes the number positive: vector code multiplies numbers without a sign.
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
    fn margins_continue_lines_and_parabolas() {
        for (a, b, c) in [(3, -7, 11), (0, 5, -2), (-1, 0, 1 << 20)] {
            let at = |x: i32| a * x * x + b * x + c;
            assert_eq!(margin_value(at(0), at(1), Some(at(2))), at(-1));
            let at = |x: i32| b * x + c;
            assert_eq!(margin_value(at(0), at(1), None), at(-1));
        }
        assert_eq!(margin_value(i32::MAX, 0, None), -2);
    }

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
