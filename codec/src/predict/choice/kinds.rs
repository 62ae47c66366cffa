//! The kinds of interpolation among which one is chosen.

use super::residual_stats::{ResidualStats, StatsOfSets};
use super::sets_of;
use crate::error::Result;
use crate::layout::{MAX_RANK, Shape};
use crate::predict::predictor::InterpolationKind;

/// The kinds of interpolation that a choice may try for a chunk: with any rough axes longer than 1, but not with all of them.
pub(super) fn possible_kinds(shape: &Shape) -> impl Iterator<Item = InterpolationKind> + use<> {
    let (sets, flat) = sets_of(shape);
    let all = (sets - 1) & !flat;
    let rough = (0..sets).filter(move |&rough| rough & flat == 0 && rough != all);
    rough.flat_map(|rough| [false, true].map(|is_linear| InterpolationKind::new(rough as u8, is_linear)))
}

/// Axes of a chunk that are longer than 1, the roughest first: the one along which differences have the greatest estimate. Of axes with equal estimates, the
/// slower one is the rougher one.
pub(super) struct Roughness {
    axes: [usize; MAX_RANK],
    count: usize,
}

impl Roughness {
    /// The axes of a chunk, from the statistics of its differences.
    pub(super) fn of(stats: &StatsOfSets, shape: &Shape) -> Self {
        let (_, flat) = sets_of(shape);
        let mut axes = [3, 2, 1, 0];
        let bits: [Option<u64>; MAX_RANK] = std::array::from_fn(|axis| (flat >> axis & 1 == 0).then(|| stats[1 << axis].bits()));
        // Flat axes go last, and a stable sort keeps the slower one of equals first.
        axes.sort_by_key(|&axis: &usize| std::cmp::Reverse(bits[axis]));
        Self { axes, count: shape.extents().iter().filter(|&&extent| extent > 1).count() }
    }

    /// The kind whose estimate is lowest, in bits, and its statistics. Cubic and linear interpolation without rough axes come first. Then come rough axes with the better
    /// one of these: the roughest axis, the two roughest ones, and so on, until one axis is left. Of kinds with equal estimates, the first one is taken.
    pub(super) fn best_kind(
        &self,
        mut measure: impl FnMut(InterpolationKind) -> Result<ResidualStats>,
    ) -> Result<(InterpolationKind, ResidualStats)> {
        let mut try_kind = |kind: InterpolationKind| measure(kind).map(|stats| (kind, stats));
        let cubic = try_kind(InterpolationKind::CUBIC)?;
        let mut best = better(cubic, try_kind(InterpolationKind::new(0, true))?);
        let (is_linear, mut rough) = (best.0.is_linear(), 0);
        for &axis in &self.axes[..self.count.saturating_sub(1)] {
            rough |= 1 << axis;
            best = better(best, try_kind(InterpolationKind::new(rough, is_linear))?);
        }
        Ok(best)
    }

    /// The better one of the best kind and of the kinds around it, the first of equals.
    pub(super) fn best_around(
        &self,
        mut best: (InterpolationKind, ResidualStats),
        mut measure: impl FnMut(InterpolationKind) -> Result<ResidualStats>,
    ) -> Result<(InterpolationKind, ResidualStats)> {
        for kind in self.kinds_around(best.0) {
            best = better(best, (kind, measure(kind)?));
        }
        Ok(best)
    }

    /// The kinds around one that has the roughest axes of the chunk: without each of these axes, then linear in place of cubic or the reverse. The kind without
    /// the last of these axes has been tried before.
    fn kinds_around(&self, kind: InterpolationKind) -> impl Iterator<Item = InterpolationKind> {
        let (rough, is_linear) = (kind.rough(), kind.is_linear());
        let last = (rough.count_ones() as usize).checked_sub(1).map(|number| self.axes[number]);
        let others = (0..MAX_RANK).filter(move |&axis| rough >> axis & 1 == 1 && Some(axis) != last);
        let without_one = others.map(move |axis| InterpolationKind::new(rough & !(1 << axis), is_linear));
        without_one.chain((rough != 0).then(|| InterpolationKind::new(rough, !is_linear)))
    }
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
    fn kinds_are_tried_with_the_roughest_axes_first() {
        let mut of_sets = StatsOfSets::default();
        for (set, outliers) in [(0b0001, 5), (0b0010, 7), (0b1000, 5)] {
            of_sets[set] = stats(outliers);
        }
        // Axis 2 is flat.
        let shape = Shape::new(&[3, 1, 4, 5]).unwrap();
        for (best, linear) in [(0b0000, false), (0b0010, true), (0b1010, false), (0b0000, true)] {
            let mut tried = Vec::new();
            let mut measure = |kind: InterpolationKind| {
                assert!(possible_kinds(&shape).any(|possible| possible == kind));
                tried.push((kind.rough(), kind.is_linear()));
                let is_best = kind.rough() == best && kind.is_linear() == linear;
                Ok(stats(1 + u64::from(!is_best) + u64::from(kind.is_linear() != linear)))
            };
            let roughness = Roughness::of(&of_sets, &shape);
            let found = roughness.best_kind(&mut measure).unwrap();
            let (kind, _) = roughness.best_around(found, &mut measure).unwrap();
            assert_eq!((kind.rough(), kind.is_linear()), (best, linear));
            let around: &[(u8, bool)] = match best {
                0b0000 => &[],
                0b0010 => &[(0b0010, !linear)],
                _ => &[(0b1000, linear), (0b1010, !linear)],
            };
            assert_eq!(tried, [&[(0, false), (0, true), (0b0010, linear), (0b1010, linear)], around].concat());
        }
    }

    #[test]
    fn of_equal_kinds_the_first_one_is_taken() {
        let shape = Shape::new(&[3, 4]).unwrap();
        let (kind, _) = Roughness::of(&StatsOfSets::default(), &shape).best_kind(|_| Ok(stats(1))).unwrap();
        assert_eq!(kind, InterpolationKind::CUBIC);
    }

    #[test]
    fn a_line_has_no_rough_axis() {
        for dims in [&[7][..], &[7, 1], &[1]] {
            let mut tried = Vec::new();
            let shape = Shape::new(dims).unwrap();
            let found = Roughness::of(&StatsOfSets::default(), &shape).best_kind(|kind| {
                tried.push((kind.rough(), kind.is_linear()));
                Ok(stats(0))
            });
            assert!(found.is_ok());
            assert_eq!(tried, [(0, false), (0, true)], "{dims:?}");
        }
    }
}
