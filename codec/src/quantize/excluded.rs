//! Values that are exceptions under every prediction: a masked fill value, far values, and values beyond the grid. [`crate::quantize::linear`] and
//! [`crate::quantize::fine_grid`] put other values in their place, so that the fast paths can encode the rest of a part.

use crate::number::integer::Integer as _;
use crate::number::value::Value;
use crate::quantize::bitmap::bits_where;
use crate::quantize::quantizer::Quantizer;

/// The values that a grid excludes. Every excluded value is an exception. Some values that are just beyond the grid are not
/// found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excluded<V> {
    /// Values of this magnitude or more are beyond the grid, and so is NaN. The magnitude is [`Quantizer::magnitude_of`] the limit of steps.
    beyond: V,
    /// The masked fill value. If there is none, this is `beyond`, so that it excludes nothing more.
    fill: V,
    /// Values below `least` or above `greatest` are far.
    least: V,
    greatest: V,
    /// The replacement of excluded values where values are rounded without a prediction. Its code is 0, and it is on no position of the fine grid.
    /// [`crate::quantize::fine_grid`] has replacements of its own.
    ordinary: V,
}

impl<V: Value> Excluded<V> {
    /// The excluded values of a grid that holds values of a magnitude below `steps` steps.
    #[must_use]
    pub(crate) fn new(quantizer: &Quantizer, steps: f64) -> Self {
        let beyond = quantizer.magnitude_of::<V>(steps);
        let fills = quantizer.fills();
        let fill = fills.value().map_or(beyond, |bits| V::from_bits(V::Code::from_i64(bits)));
        // Both ends are values of the type or infinite, so that rounding changes nothing.
        let [least, greatest] = [fills.span().least, fills.span().greatest].map(V::round_from);
        Self { beyond, fill, least, greatest, ordinary: V::round_from(quantizer.step() / 16.0) }
    }

    /// Whether a value is excluded.
    #[inline(always)]
    #[must_use]
    pub(crate) fn covers(&self, value: V) -> bool {
        !value.is_below(self.beyond) | (value.to_bits() == self.fill.to_bits()) | self.is_far(value)
    }

    #[inline(always)]
    fn is_far(&self, value: V) -> bool {
        value.is_less(self.least) | self.greatest.is_less(value)
    }

    /// A bit for each of at most 64 values, the first value's lowest: 1 where the value is excluded.
    #[inline(always)]
    #[must_use]
    pub(crate) fn bits(&self, values: &[V]) -> u64 {
        bits_where(
            values,
            #[inline(always)]
            |value| self.covers(value),
        )
    }

    /// Copies values to `replaced`, with the ordinary value in place of excluded ones.
    #[inline(always)]
    pub(crate) fn replace(&self, values: &[V], replaced: &mut [V]) {
        // A copy, which the compiler can keep in registers.
        let excluded = *self;
        for (replaced, &value) in replaced.iter_mut().zip(values) {
            *replaced = if excluded.covers(value) { excluded.ordinary } else { value };
        }
    }

    /// Whether any value is beyond the grid.
    #[inline(always)]
    #[must_use]
    pub(crate) fn has_beyond(&self, values: &[V]) -> bool {
        values.iter().fold(false, |any, value| any | !value.is_below(self.beyond))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::small_float::{BFloat16, Binary16};
    use crate::quantize::fills::{Fills, Span};

    /// A fill value is excluded by its bits, other values by their magnitude.
    fn check<V: Value>(bound: f64, fill: f64) {
        let fill: V = V::round_from(fill);
        let quantizer = Quantizer::new(bound).with_fills(Fills::new(Some(fill), Span::ALL));
        let excluded = Excluded::<V>::new(&quantizer, 512.0);
        // More than the 1 % of `magnitude_of`, so that rounding to the type does not matter.
        let beyond = 512.0 * 1.02 * 2.0 * bound;
        let numbers = [0.0, -0.0, 1e-40, bound, -500.0 * bound, 1023.0 * bound, beyond * 1.02, -beyond * 1.02, f64::MAX];
        let values: Vec<V> = numbers
            .into_iter()
            .chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 7.0 * bound, -7.0 * bound])
            .map(V::round_from)
            .chain([fill])
            .collect();
        let is_beyond = |value: &V| value.to_f64().is_nan() || value.to_f64().abs() >= beyond;
        let is_excluded = |value: &V| is_beyond(value) || value.to_bits() == fill.to_bits();
        for len in 0..=values.len() {
            let values = &values[..len];
            let expected = values.iter().enumerate().fold(0, |bits, (at, value)| bits | u64::from(is_excluded(value)) << at);
            assert_eq!(excluded.bits(values), expected, "{len} values at {bound}");
            assert_eq!(excluded.has_beyond(values), values.iter().any(is_beyond));
            let mut others = vec![V::default(); len];
            excluded.replace(values, &mut others);
            assert_eq!(excluded.bits(&others), 0);
            for (value, other) in values.iter().zip(&others) {
                assert!(is_excluded(value) || other.to_bits() == value.to_bits());
            }
        }
    }

    #[test]
    fn fill_values_go_by_their_bits_and_others_by_their_magnitude() {
        check::<f32>(1e-3, -0.0);
        check::<f32>(0.5, f64::NAN);
        check::<f64>(1e-3, 0.25);
        check::<f64>(0.5, -999.0);
        check::<Binary16>(0.125, -0.0);
        check::<BFloat16>(0.125, 3.0);
    }

    #[test]
    fn replacements_are_on_no_position() {
        for bound in [1e-3, 0.5, 7e-20] {
            let quantizer = Quantizer::new(bound);
            let mut values = [0.0];
            Excluded::new(&quantizer, 512.0).replace(&[f64::NAN], &mut values);
            assert!(values[0] * quantizer.inverse_step() < 0.5);
            assert_eq!(quantizer.fine::<f64>().unwrap().position(values[0]).map(|(_, exact)| exact), Some(false));
        }
    }

    #[test]
    fn without_a_fill_value_only_the_magnitude_counts() {
        let excluded = Excluded::<f32>::new(&Quantizer::new(0.5), 512.0);
        assert_eq!(excluded.bits(&[0.0, -0.0, 511.0, -511.0, 530.0, f32::NAN]), 0b11_0000);
        assert_eq!(excluded.bits(&[]), 0);
    }
}
