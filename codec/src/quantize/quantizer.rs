//! The grid of an absolute bound, or of a lattice: the multiples of a step.

use crate::keep::Keep;
use crate::number::integer::Integer as _;
use crate::number::value::Value;
use crate::quantize::fills::{Fills, Span};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::limits::Limits;

/// The multiples of a step, and what the encoder knows besides: the bound, the fills that are exceptions, what is kept, and the limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantizer {
    /// The error bound; 0 for a lattice that holds its values exactly.
    bound: f64,
    step: f64,
    inverse_step: f64,
    /// Values that are exceptions because they are fills.
    fills: Fills,
    keep: Keep,
    limits: Limits,
}

impl Quantizer {
    /// The grid of an absolute bound that has passed [`crate::Config::absolute`]: the step is twice the bound.
    #[must_use]
    pub fn new(bound: f64) -> Self {
        Self::with_step(bound, 2.0 * bound)
    }

    /// The grid of a lattice for exact bits: the step is the lattice's spacing and the bound 0.
    #[must_use]
    pub fn exact(spacing: f64) -> Self {
        Self::with_step(0.0, spacing)
    }

    /// The grid of a bound and a step. On a lattice, the step is more than twice the bound.
    pub(crate) fn with_step(bound: f64, step: f64) -> Self {
        Self { bound, step, inverse_step: 1.0 / step, fills: Fills::NONE, keep: Keep::default(), limits: Limits::NONE }
    }

    /// Half the distance of two neighbours on the grid, as the stream stores it (FORMAT.md §4).
    #[must_use]
    pub fn half_step(&self) -> f64 {
        self.step / 2.0
    }

    /// The error bound; 0 for a lattice that holds its values exactly.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Distance of two neighbours on the grid.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.step
    }

    /// 1 / [`Quantizer::step`].
    #[must_use]
    pub fn inverse_step(&self) -> f64 {
        self.inverse_step
    }

    /// This grid with fills that are exceptions.
    pub(crate) fn with_fills(self, fills: Fills) -> Self {
        Self { fills, ..self }
    }

    /// This grid with zeros masked: values with the bits of +0 are exceptions.
    #[must_use]
    pub(crate) fn masking_zeros(self) -> Self {
        self.with_fills(Fills::from_bits(Some(0), self.fills.span()))
    }

    /// Whether zeros are masked. A fill value of 0 is not, as its code restores it.
    #[must_use]
    pub fn masks_zeros(&self) -> bool {
        self.fills.value() == Some(0)
    }

    /// Values that are exceptions because they are fills.
    #[must_use]
    pub fn fills(&self) -> &Fills {
        &self.fills
    }

    /// This grid, with values as exceptions that would not be kept.
    #[must_use]
    pub(crate) fn keeping(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// The order of values and the sides of thresholds, where they are kept.
    #[must_use]
    pub fn keep(&self) -> &Keep {
        &self.keep
    }

    /// Whether values may be exceptions that have a code: because they are fills, or would cross a threshold.
    #[must_use]
    pub(crate) fn exempts_values(&self) -> bool {
        !self.fills.is_none() || !self.keep.thresholds().is_empty()
    }

    /// Whether the step is the bound, for values beside thresholds.
    #[must_use]
    pub(crate) fn is_halved(&self) -> bool {
        self.keep.is_halved() && self.step == self.bound
    }

    /// The bound's own grid.
    pub(crate) fn doubled(&self) -> Self {
        Self::with_step(self.bound, 2.0 * self.bound).with_fills(self.fills).keeping(self.keep)
    }

    /// The magnitude from which on there is no code. Where the order is kept it is a half of the type's: of larger codes, rounding in f64 may restore a number
    /// below a smaller exception.
    #[must_use]
    pub(crate) fn code_limit<V: Value>(&self) -> f64 {
        if self.keep.has_order() { V::CODE_LIMIT / 2.0 } else { V::CODE_LIMIT }
    }

    /// This grid with limits.
    #[must_use]
    pub(crate) fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The limits of restored values.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The values of the limits, rounded to the type; infinities where there are none.
    #[must_use]
    pub fn limit_values<V: Value>(&self) -> Span {
        let (least, greatest) = FineGrid::<V>::new(self).limit_values();
        Span { least: least.to_f64(), greatest: greatest.to_f64() }
    }

    /// The least positive number of the type that has too many steps for a code; infinity if every finite number has few enough.
    pub(crate) fn first_beyond_codes<V: Value>(&self) -> V {
        let is_beyond = |number: V| number.to_f64() * self.inverse_step >= V::CODE_LIMIT;
        let beside = |number: V, by: i64| V::from_bits(V::Code::from_i64(number.to_bits_i64() + by));
        let mut number = V::round_from(V::CODE_LIMIT * self.step);
        while !is_beyond(number) {
            number = beside(number, 1);
        }
        while is_beyond(beside(number, -1)) {
            number = beside(number, -1);
        }
        number
    }

    /// The magnitude of `steps` steps and 1 % more, rounded to the type. Values of this magnitude or more are certain to have at
    /// least `steps` steps. It is infinity if the rounded number has fewer steps, as a subnormal number may have.
    pub(crate) fn magnitude_of<V: Value>(&self, steps: f64) -> V {
        let magnitude = V::round_from(1.01 * steps * self.step);
        if magnitude.to_f64() * self.inverse_step >= steps { magnitude } else { V::round_from(f64::INFINITY) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::is_absolute;
    use crate::number::small_float::{BFloat16, Binary16};

    #[test]
    fn half_steps_are_bounds_or_half_spacings() {
        for bound in [1e-3, 0.1, 0.5, f64::MIN_POSITIVE, 1e300] {
            let grid = Quantizer::new(bound);
            assert_eq!((grid.half_step(), grid.bound(), grid.step()), (bound, bound, 2.0 * bound));
            assert_eq!(grid.inverse_step(), 1.0 / (2.0 * bound));
        }
        let lattice = Quantizer::exact(0.25);
        assert_eq!((lattice.half_step(), lattice.bound(), lattice.step(), lattice.inverse_step()), (0.125, 0.0, 0.25, 4.0));
        let wider = Quantizer::with_step(0.1, 1.0);
        assert_eq!((wider.half_step(), wider.bound()), (0.5, 0.1));
    }

    #[test]
    fn the_first_number_beyond_codes_is_the_least() {
        fn check<V: Value>() {
            for exponent in -28..30 {
                let grid = Quantizer::new(1.3 * 10f64.powi(exponent));
                let first = grid.first_beyond_codes::<V>();
                let steps = |number: V| number.to_f64() * grid.inverse_step();
                assert!(steps(first) >= V::CODE_LIMIT, "1e{exponent}");
                assert!(steps(V::from_bits(V::Code::from_i64(first.to_bits_i64() - 1))) < V::CODE_LIMIT, "1e{exponent}");
            }
            assert!(Quantizer::new(1e300).first_beyond_codes::<f64>().to_f64().is_infinite());
        }
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn magnitudes_have_their_steps_and_hardly_more() {
        fn check<V: Value>(least_exponent: i32) {
            for exponent in -320..300 {
                for digit in [1.0, 1.7, 3.1] {
                    let bound = digit * 10f64.powi(exponent);
                    if !is_absolute(bound) {
                        continue;
                    }
                    let grid = Quantizer::new(bound);
                    for steps in [512.0, V::CODE_LIMIT] {
                        let magnitude: f64 = grid.magnitude_of::<V>(steps).to_f64();
                        assert!(magnitude * grid.inverse_step() >= steps, "{steps} steps of {bound:e}: {magnitude:e}");
                        let is_finite = magnitude.is_finite() && exponent > least_exponent;
                        assert!(
                            !is_finite || magnitude * grid.inverse_step() < 1.02 * steps,
                            "{steps} steps of {bound:e}: {magnitude:e}"
                        );
                    }
                }
            }
        }
        check::<f32>(-38);
        check::<f64>(-305);
        check::<Binary16>(-4);
        check::<BFloat16>(-38);
        let magnitude: f32 = Quantizer::new(0.5).magnitude_of(512.0);
        assert!((512.0..523.0).contains(&magnitude), "{magnitude}");
        let magnitude: Binary16 = Quantizer::new(1000.0).magnitude_of(512.0);
        assert!(magnitude.to_f64().is_infinite(), "no finite number of the type has 512 steps");
    }
}
