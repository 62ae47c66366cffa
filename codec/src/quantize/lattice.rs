//! Values on a binary lattice (whole numbers, multiples of 1/8): the spacing that they share, if it is wider than the bound's own grid.
//!
//! On a grid of the lattice's spacing such values are exact and their codes small, where the finer grid of a tight bound would spend bits
//! on digits that are always the same.

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::simd::vectorized;

/// Values looked at before the search may stop.
const GROUP: usize = 64;

/// The largest power of two of which all finite values but the fill value are multiples, if it is greater than `step`. Chunks off the
/// lattice are given up at the first group of values that shows it.
#[must_use]
pub fn spacing<V: Value>(chunk: &[u8], order: ByteOrder, step: f64, fill: Option<V>) -> Option<f64> {
    let needed = highest_bit(step)? + 1;
    let fill = fill.map(Element::to_bits);
    let mut lowest = i32::MAX;
    vectorized(
        #[inline(always)]
        || {
            for bytes in chunk.chunks(GROUP * V::SIZE) {
                let mut values = [V::default(); GROUP];
                V::read_all(bytes, order, &mut values);
                if let Some(fill) = fill {
                    values = values.map(|value| if value.to_bits() == fill { V::default() } else { value });
                }
                // Most groups have no bit below those before them.
                if power_of_two(lowest).is_some_and(|spacing| are_multiples(&values, spacing)) {
                    continue;
                }
                lowest = values.iter().map(|value| lowest_bit(value.to_f64())).fold(lowest, i32::min);
                if lowest < needed {
                    return None;
                }
            }
            power_of_two(lowest)
        },
    )
}

/// Whether all of some values are multiples of a spacing, infinite, or NaN, for certain.
#[inline(always)]
fn are_multiples<V: Value>(values: &[V; GROUP], spacing: f64) -> bool {
    let inverse = spacing.recip();
    let mut is_off = false;
    for value in values {
        // Above 0 the sum has no fraction, whatever is added.
        let value = value.to_f64().abs();
        let multiple = (value * inverse + ROUNDING - ROUNDING) * spacing;
        // What is infinite leaves NaN, which is above nothing.
        is_off |= (multiple - value).abs() > 0.0;
    }
    !is_off
}

/// A spacing. Those beyond the range of normal numbers are not worth their rounding.
pub(crate) fn power_of_two(exponent: i32) -> Option<f64> {
    (-1000..=1000).contains(&exponent).then(|| f64::from_bits(((exponent + 1023) as u64) << 52))
}

/// Whether some of a chunk's values already show that [`spacing`] finds no lattice for the whole of it.
#[must_use]
pub fn is_off<V: Value>(values: &[u8], order: ByteOrder, step: f64, fill: Option<V>) -> bool {
    let Some(needed) = highest_bit(step).map(|bit| bit + 1) else { return false };
    let fill = fill.map(Element::to_bits);
    (0..values.len() / V::SIZE)
        .map(|index| V::read(values, index, order))
        .any(|value| Some(value.to_bits()) != fill && lowest_bit(value.to_f64()) < needed)
}

/// The largest power of two of which all finite values are multiples, if a grid of that spacing gives all of them back bit for bit: where
/// it has codes for all, and none is -0.
#[must_use]
pub fn exact_spacing<V: Value>(chunk: &[u8], order: ByteOrder) -> Option<f64> {
    let code_bits = highest_bit(V::CODE_LIMIT)?;
    let (mut lowest, mut highest) = (i32::MAX, i32::MIN);
    for bytes in chunk.chunks(GROUP * V::SIZE) {
        let mut values = [V::default(); GROUP];
        V::read_all(bytes, order, &mut values);
        for value in values.iter().map(|value| value.to_f64()) {
            if value == 0.0 && value.is_sign_negative() {
                return None;
            }
            if let Some(highest_bit) = highest_bit(value).filter(|_| value.is_finite()) {
                lowest = lowest.min(lowest_bit(value));
                highest = highest.max(highest_bit);
            }
        }
        if highest >= lowest.saturating_add(code_bits) {
            return None;
        }
    }
    power_of_two(lowest)
}

/// Power of two of the least significant bit that is 1; the greatest number for 0, infinities and NaN, which lie on any lattice or on none.
pub(crate) fn lowest_bit(value: f64) -> i32 {
    let (exponent, mantissa) = parts(value);
    if mantissa == 0 || !value.is_finite() { i32::MAX } else { exponent + mantissa.trailing_zeros() as i32 }
}

/// Power of two of the most significant bit that is 1; `None` for 0.
#[must_use]
pub fn highest_bit(value: f64) -> Option<i32> {
    let (exponent, mantissa) = parts(value);
    mantissa.checked_ilog2().map(|bit| exponent + bit as i32)
}

/// Exponent and mantissa with `|value| = mantissa * 2^exponent`.
fn parts(value: f64) -> (i32, u64) {
    let bits = value.to_bits();
    let (biased, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if biased == 0 { (-1074, fraction) } else { (biased - 1075, fraction | 1 << 52) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spacing_of(values: &[f64], step: f64) -> Option<f64> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        spacing::<f64>(&bytes, ByteOrder::Little, step, Some(-99.99))
    }

    #[test]
    fn spacing_is_the_largest_power_of_two_that_divides_all() {
        assert_eq!(spacing_of(&[3.0, -7.0, 12.0], 1e-3), Some(1.0));
        assert_eq!(spacing_of(&[6.0, -12.0, 0.0], 1.0), Some(2.0));
        assert_eq!(spacing_of(&[0.125, 3.0, 1e35], 1e-3), Some(0.125));
        assert_eq!(spacing_of(&[4.0, -99.99, 8.0], 1e-3), Some(4.0));
        assert_eq!(spacing_of(&[f64::NAN, 0.25, f64::INFINITY, -0.0], 1e-3), Some(0.25));
        let mut long = vec![0.5; 1000];
        assert_eq!(spacing_of(&long, 0.1), Some(0.5));
        long[999] = 0.1;
        assert_eq!(spacing_of(&long, 0.1), None);
    }

    #[test]
    fn groups_are_looked_at_as_one_by_one() {
        let special = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
            -1e-300,
            5e-324,
            0.125,
            0.25,
            3.0,
            -1024.0,
            -99.99,
            9_007_199_254_740_994.0,
            4_503_599_627_370_497.5,
            2_251_799_813_685_249.25,
            f64::MAX,
            f64::MIN_POSITIVE,
        ];
        for first in [0.25, 1024.0, 1e30, 2f64.powi(-900), 2f64.powi(900)] {
            // Halves of so many spacings, up to where doubles have none.
            let halves = (40..55).flat_map(|bits| [0.5, -0.5, 1.0].map(|half| first * (3.0 * 2f64.powi(bits) + half)));
            for value in special.into_iter().chain(halves.flat_map(|value| [value, -value])) {
                for step in [f64::MIN_POSITIVE, 1e-3] {
                    let mut values = vec![first; 4 * GROUP];
                    values[3 * GROUP + 5] = value;
                    let lowest = values.iter().filter(|&&value| value != -99.99).map(|&value| lowest_bit(value)).min().unwrap();
                    let needed = highest_bit(step).unwrap() + 1;
                    let expected = power_of_two(lowest).filter(|_| lowest >= needed);
                    assert_eq!(spacing_of(&values, step), expected, "{value:e} among {first:e}");
                }
            }
        }
    }

    #[test]
    fn spacing_must_be_wider_than_the_step() {
        assert_eq!(spacing_of(&[1.0, 2.0], 1.0), None);
        assert_eq!(spacing_of(&[1.0, 2.0], 0.999), Some(1.0));
        assert_eq!(spacing_of(&[1.0, 2.0], 1.5), None);
        assert_eq!(spacing_of(&[0.0, -0.0, f64::NAN], 1e-3), None);
        assert_eq!(spacing_of(&[1e-310, 3e-310], 1e-320), None);
        assert_eq!(spacing_of(&[2f64.powi(1023)], 1e-3), None);
    }
}
