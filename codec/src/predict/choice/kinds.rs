//! The kinds of interpolation among which one is chosen.

use super::residual_stats::{ResidualStats, StatsOfSets};
use super::sets_of;
use crate::error::Result;
use crate::layout::{MAX_RANK, Shape};
use crate::predict::predictor::InterpolationKind;

/// The kinds of interpolation that a choice may try for a chunk: without rough axes, or with one of its axes longer than 1, if there is another.
pub(super) fn possible_kinds(shape: &Shape) -> impl Iterator<Item = InterpolationKind> + use<> {
    let long = long_axes(shape);
    let rough = [0, 1, 2, 4, 8].into_iter().filter(move |&rough: &u8| rough == 0 || long & rough != 0 && long != rough);
    rough.flat_map(|rough| [false, true].map(|is_linear| InterpolationKind::new(rough, is_linear)))
}

/// The set of the axes longer than 1.
fn long_axes(shape: &Shape) -> u8 {
    let (sets, flat) = sets_of(shape);
    ((sets - 1) & !flat) as u8
}

/// The roughest axis of a chunk, as a set: of the axes longer than 1, the one along which differences have the greatest estimate. Of equals it is the slowest.
/// Empty if there is no other one.
pub(super) fn roughest_axis(stats: &StatsOfSets, shape: &Shape) -> u8 {
    let long = long_axes(shape);
    let axes = (0..MAX_RANK as u8).map(|axis| 1 << axis).filter(|axis| long & axis != 0 && long != *axis);
    axes.max_by_key(|&axis| stats[usize::from(axis)].bits()).unwrap_or(0)
}

/// The kind whose estimate is lowest, in bits, and its statistics. Cubic and linear interpolation without rough axes come first. Then the roughest axis is rough,
/// with the better one of these, and if that is better, with the other one. Of kinds with equal estimates, the first one is taken.
pub(super) fn best_kind(
    roughest: u8,
    mut measure: impl FnMut(InterpolationKind) -> Result<ResidualStats>,
) -> Result<(InterpolationKind, ResidualStats)> {
    let mut try_kind = |rough: u8, is_linear: bool| {
        let kind = InterpolationKind::new(rough, is_linear);
        measure(kind).map(|stats| (kind, stats))
    };
    let cubic = try_kind(0, false)?;
    let mut best = better(cubic, try_kind(0, true)?);
    if roughest != 0 {
        let is_linear = best.0.is_linear();
        best = better(best, try_kind(roughest, is_linear)?);
        if best.0.rough() != 0 {
            best = better(best, try_kind(roughest, !is_linear)?);
        }
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
    fn the_roughest_axis_is_tried_as_a_rough_one() {
        let mut of_sets = StatsOfSets::default();
        for (set, outliers) in [(0b0001, 7), (0b0010, 5), (0b1000, 7)] {
            of_sets[set] = stats(outliers);
        }
        // Axis 2 is flat. Of the axes with equal estimates, the slower one is the rougher one.
        let shape = Shape::new(&[3, 1, 4, 5]).unwrap();
        assert_eq!(roughest_axis(&of_sets, &shape), 0b1000);
        for (best, linear) in [(0b0000, false), (0b1000, true), (0b1000, false), (0b0000, true)] {
            let mut tried = Vec::new();
            let (kind, _) = best_kind(0b1000, |kind| {
                assert!(possible_kinds(&shape).any(|possible| possible == kind));
                tried.push((kind.rough(), kind.is_linear()));
                let is_best = kind.rough() == best && kind.is_linear() == linear;
                Ok(stats(1 + u64::from(!is_best) + u64::from(kind.is_linear() != linear)))
            })
            .unwrap();
            assert_eq!((kind.rough(), kind.is_linear()), (best, linear));
            let last: &[(u8, bool)] = if best == 0 { &[] } else { &[(0b1000, !linear)] };
            assert_eq!(tried, [&[(0, false), (0, true), (0b1000, linear)], last].concat());
        }
    }

    #[test]
    fn of_equal_kinds_the_first_one_is_taken() {
        assert_eq!(best_kind(0b01, |_| Ok(stats(1))).unwrap().0, InterpolationKind::CUBIC);
    }

    #[test]
    fn a_line_has_no_rough_axis() {
        for dims in [&[7][..], &[7, 1], &[1]] {
            let shape = Shape::new(dims).unwrap();
            assert_eq!(roughest_axis(&StatsOfSets::default(), &shape), 0);
            assert_eq!(possible_kinds(&shape).map(|kind| kind.to_byte()).collect::<Vec<_>>(), [0x80, 0x90], "{dims:?}");
        }
        let square = Shape::new(&[7, 7]).unwrap();
        assert_eq!(possible_kinds(&square).map(|kind| kind.to_byte()).collect::<Vec<_>>(), [0x80, 0x90, 0x81, 0x91, 0x82, 0x92]);
    }
}
