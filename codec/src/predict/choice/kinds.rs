//! The kinds of interpolation among which one is chosen.

use super::residual_stats::ResidualStats;
use super::sets_of;
use crate::error::Result;
use crate::layout::Shape;
use crate::predict::predictor::InterpolationKind;

/// The kinds of interpolation that a choice may try for a chunk: without a rough axis, or with one, each cubic and linear.
pub(super) fn possible_kinds(shape: &Shape) -> impl Iterator<Item = InterpolationKind> + use<> {
    let rough = std::iter::once(0).chain(rough_axes(shape));
    rough.flat_map(|rough| [false, true].map(|is_linear| InterpolationKind::new(rough, is_linear)))
}

/// The set of the axes longer than 1.
pub(super) fn long_axes(shape: &Shape) -> u8 {
    let (sets, flat) = sets_of(shape);
    ((sets - 1) & !flat) as u8
}

/// The axes of a chunk of which one may be rough, each as a set: those longer than 1, the fastest first. None if there is only one.
fn rough_axes(shape: &Shape) -> impl Iterator<Item = u8> + use<> {
    let long = long_axes(shape);
    [1, 2, 4, 8].into_iter().filter(move |&axis| long & axis != 0 && long != axis)
}

/// The kind whose estimate is lowest, in bits, and its statistics. Cubic and linear interpolation without rough axes come first. Then each axis is rough, with
/// the better one of these. If a kind with a rough axis is better, it comes with the other one, too. Of kinds with equal estimates, the first one is taken.
/// Cubic interpolation is the only kind if its statistics are `hopeless`.
pub(super) fn best_kind(
    shape: &Shape,
    hopeless: impl Fn(&ResidualStats) -> bool,
    mut measure: impl FnMut(InterpolationKind) -> Result<ResidualStats>,
) -> Result<(InterpolationKind, ResidualStats)> {
    let mut try_kind = |rough: u8, is_linear: bool| {
        let kind = InterpolationKind::new(rough, is_linear);
        measure(kind).map(|stats| (kind, stats))
    };
    let cubic = try_kind(0, false)?;
    if hopeless(&cubic.1) {
        return Ok(cubic);
    }
    let mut best = better(cubic, try_kind(0, true)?);
    let is_linear = best.0.is_linear();
    for rough in rough_axes(shape) {
        best = better(best, try_kind(rough, is_linear)?);
    }
    if best.0.rough() != 0 {
        best = better(best, try_kind(best.0.rough(), !is_linear)?);
    }
    Ok(best)
}

/// The kind with the lower estimate, or the first one if both are equal.
fn better(
    one: (InterpolationKind, ResidualStats),
    other: (InterpolationKind, ResidualStats),
) -> (InterpolationKind, ResidualStats) {
    if other.1.bits() < one.1.bits() { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics with this number of bits of outliers.
    fn stats(outliers: u64) -> ResidualStats {
        ResidualStats { outliers, ..ResidualStats::default() }
    }

    #[test]
    fn each_axis_is_tried_as_a_rough_one() {
        // Axis 2 is flat.
        let shape = Shape::new(&[3, 1, 4, 5]).unwrap();
        for (best, linear) in [(0b0000, false), (0b1000, true), (0b0010, false), (0b0000, true)] {
            let mut tried = Vec::new();
            let (kind, _) = best_kind(
                &shape,
                |_| false,
                |kind| {
                    assert!(possible_kinds(&shape).any(|possible| possible == kind));
                    tried.push((kind.rough(), kind.is_linear()));
                    let is_best = kind.rough() == best && kind.is_linear() == linear;
                    Ok(stats(1 + u64::from(!is_best) + u64::from(kind.is_linear() != linear)))
                },
            )
            .unwrap();
            assert_eq!((kind.rough(), kind.is_linear()), (best, linear));
            let last: &[(u8, bool)] = if best == 0 { &[] } else { &[(best, !linear)] };
            let first = [(0, false), (0, true), (0b0001, linear), (0b0010, linear), (0b1000, linear)];
            assert_eq!(tried, [&first, last].concat());
        }
    }

    #[test]
    fn no_other_kind_is_tried_if_the_first_one_is_hopeless() {
        let mut tried = 0;
        let measure = |_| {
            tried += 1;
            Ok(stats(tried))
        };
        let (kind, _) = best_kind(&Shape::new(&[3, 4]).unwrap(), |cubic| cubic.outliers == 1, measure).unwrap();
        assert_eq!((kind, tried), (InterpolationKind::CUBIC, 1));
    }

    #[test]
    fn of_equal_kinds_the_first_one_is_taken() {
        let shape = Shape::new(&[3, 4]).unwrap();
        assert_eq!(best_kind(&shape, |_| false, |_| Ok(stats(1))).unwrap().0, InterpolationKind::CUBIC);
    }

    #[test]
    fn a_line_has_no_rough_axis() {
        for dims in [&[7][..], &[7, 1], &[1]] {
            let shape = Shape::new(dims).unwrap();
            assert_eq!(possible_kinds(&shape).map(|kind| kind.to_byte()).collect::<Vec<_>>(), [0x80, 0x90], "{dims:?}");
        }
        let square = Shape::new(&[7, 7]).unwrap();
        assert_eq!(possible_kinds(&square).map(|kind| kind.to_byte()).collect::<Vec<_>>(), [0x80, 0x90, 0x81, 0x91, 0x82, 0x92]);
    }
}
