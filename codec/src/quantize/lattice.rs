//! Finds the lattice of a chunk (FORMAT.md §11.1): the largest power of two of which all values are multiples. It is 1 for whole
//! numbers and 1/8 for eighths.
//!
//! On a grid with the lattice's spacing, values are exact and their codes small. The finer grid of a tight bound would spend bits on digits that are equal in
//! all codes.

use crate::layout::ByteOrder;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::fills::Fills;
use crate::simd::widely_vectorized;

/// Values that are tested together; the search may stop after each group.
const VALUES_PER_GROUP: usize = 64;

/// The largest power of two of which all finite values but fills are multiples, if it is greater than `step`. The search ends at the first group that
/// has no such power of two.
#[must_use]
pub fn spacing<V: Value>(chunk: &[u8], order: ByteOrder, step: f64, fills: Fills) -> Option<f64> {
    let needed = highest_bit(step)? + 1;
    search::<V>(
        chunk,
        order,
        fills,
        #[inline(always)]
        |_, lowest| lowest >= needed,
    )
}

/// The spacing that [`spacing`] finds, if the type holds the sum of the spacing and the chunk's greatest magnitude. Then the
/// values' codes have no more digits than the type.
#[must_use]
pub fn spacing_of_type<V: Value>(chunk: &[u8], order: ByteOrder, step: f64, fills: Fills) -> Option<f64> {
    let needed = highest_bit(step)? + 1;
    let mut greatest = 0.0;
    search::<V>(
        chunk,
        order,
        fills,
        #[inline(always)]
        |values, lowest| {
            greatest = greatest_with(values, greatest);
            let is_of_type = |spacing: f64| V::round_from(greatest + spacing).to_f64() - greatest == spacing;
            lowest >= needed && power_of_two(lowest).is_none_or(is_of_type)
        },
    )
}

/// The largest power of two of which all finite values are multiples. `None` unless every finite value has a code, and none is -0: then the multiples have the
/// values' bits.
#[must_use]
pub fn exact_spacing<V: Value>(chunk: &[u8], order: ByteOrder) -> Option<f64> {
    let code_bits = highest_bit(V::CODE_LIMIT)?;
    let mut greatest = 0.0;
    search::<V>(
        chunk,
        order,
        Fills::NONE,
        #[inline(always)]
        |values, lowest| {
            greatest = greatest_with(values, greatest);
            let has_negative_zero =
                values.iter().fold(false, |has, value| has | (value.to_f64().to_bits() == (-0.0f64).to_bits()));
            !has_negative_zero && highest_bit(greatest).is_none_or(|highest| highest < lowest.saturating_add(code_bits))
        },
    )
}

/// The largest power of two of which all finite values but fills are multiples. `goes_on` gets the values of a group, with zeros
/// in place of fills, and the lowest bit of all groups up to this one. The search ends at the first group for which `goes_on` is
/// false.
#[inline(always)]
fn search<V: Value>(
    chunk: &[u8],
    order: ByteOrder,
    fills: Fills,
    mut goes_on: impl FnMut(&[V; VALUES_PER_GROUP], i32) -> bool,
) -> Option<f64> {
    let mut lowest = i32::MAX;
    widely_vectorized(
        #[inline(always)]
        || {
            for bytes in chunk.chunks(VALUES_PER_GROUP * V::SIZE) {
                let mut values = [V::default(); VALUES_PER_GROUP];
                V::read_all(bytes, order, &mut values);
                if !fills.is_none() {
                    values = values.map(|value| if fills.has(value) { V::default() } else { value });
                }
                lowest = lowest_bit_with(&values, lowest);
                if !goes_on(&values, lowest) {
                    return None;
                }
            }
            power_of_two(lowest)
        },
    )
}

/// The greatest magnitude of a group's finite values and of the groups before.
#[inline(always)]
fn greatest_with<V: Value>(values: &[V; VALUES_PER_GROUP], before: f64) -> f64 {
    // Lanes, so that no value waits for the value before it.
    const LANES: usize = 8;
    let mut greatest = [before; LANES];
    for values in values.as_chunks::<LANES>().0 {
        for (greatest, value) in greatest.iter_mut().zip(values) {
            let value = value.to_f64().abs();
            let value = if value.is_finite() { value } else { 0.0 };
            *greatest = if value > *greatest { value } else { *greatest };
        }
    }
    greatest.into_iter().fold(before, f64::max)
}

/// Whether all values of a group are multiples of a spacing. Infinities and NaN count as multiples. May be false for multiples
/// whose quotient overflows.
#[inline(always)]
fn are_multiples<V: Value>(values: &[V; VALUES_PER_GROUP], spacing: f64) -> bool {
    let inverse = spacing.recip();
    let mut is_off = false;
    for value in values {
        // A sum of ROUNDING and a number that is not negative is a whole number, also above 2^52.
        let value = value.to_f64().abs();
        let multiple = (value * inverse + ROUNDING - ROUNDING) * spacing;
        // An infinite value leaves NaN, which is not above 0.
        is_off |= (multiple - value).abs() > 0.0;
    }
    !is_off
}

/// 2 to the power of `exponent`; `None` outside -1000 to 1000, where multiples or inverses would not be normal numbers.
pub(crate) fn power_of_two(exponent: i32) -> Option<f64> {
    (-1000..=1000).contains(&exponent).then(|| f64::from_bits(((exponent + 1023) as u64) << 52))
}

/// Whether a part of a chunk shows that [`spacing`] finds no lattice for the whole chunk.
#[must_use]
pub fn is_off<V: Value>(part: &[u8], order: ByteOrder, step: f64, fills: Fills) -> bool {
    let Some(needed) = highest_bit(step).map(|bit| bit + 1) else { return false };
    (0..part.len() / V::SIZE)
        .map(|index| V::read(part, index, order))
        .any(|value| !fills.has(value) && lowest_bit(value.to_f64()) < needed)
}

/// The lowest bit of a group's values and of the groups before.
#[inline(always)]
fn lowest_bit_with<V: Value>(values: &[V; VALUES_PER_GROUP], before: i32) -> i32 {
    // In most groups no value has a lower bit than the groups before.
    if power_of_two(before).is_some_and(|spacing| are_multiples(values, spacing)) {
        return before;
    }
    values.iter().map(|value| lowest_bit(value.to_f64())).fold(before, i32::min)
}

/// Exponent of the value's lowest bit that is 1. It is the greatest number for 0, which is on every lattice, and for infinities
/// and NaN, which do not count.
pub(crate) fn lowest_bit(value: f64) -> i32 {
    let (exponent, mantissa) = parts(value);
    if mantissa == 0 || !value.is_finite() { i32::MAX } else { exponent + mantissa.trailing_zeros() as i32 }
}

/// Exponent of the value's highest bit that is 1; `None` for 0.
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
    use crate::quantize::chunk_of;
    use crate::quantize::fills::Span;

    fn spacing_of(values: &[f64], step: f64) -> Option<f64> {
        spacing::<f64>(&chunk_of(values, ByteOrder::Little), ByteOrder::Little, step, Fills::new(Some(-99.99), Span::ALL))
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
    fn groups_have_the_lattice_of_their_values() {
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
            // Halves of 3 * 2^bits spacings, up to magnitudes where binary64 has no halves.
            let halves = (40..55).flat_map(|bits| [0.5, -0.5, 1.0].map(|half| first * (3.0 * 2f64.powi(bits) + half)));
            for value in special.into_iter().chain(halves.flat_map(|value| [value, -value])) {
                for step in [f64::MIN_POSITIVE, 1e-3] {
                    let mut values = vec![first; 4 * VALUES_PER_GROUP];
                    values[3 * VALUES_PER_GROUP + 5] = value;
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

    #[test]
    fn codes_on_a_spacing_of_the_type_have_no_more_digits_than_the_type() {
        let spacing_of = |values: &[f32], step| {
            spacing_of_type::<f32>(
                &chunk_of(values, ByteOrder::Little),
                ByteOrder::Little,
                step,
                Fills::new(Some(-999.25_f32), Span::ALL),
            )
        };
        assert_eq!(spacing_of(&[1.0, 16_777_215.0, f32::NAN, f32::INFINITY, -0.0], 0.5), Some(1.0), "24 digits");
        assert_eq!(spacing_of(&[1.0, -16_777_216.0], 0.5), None, "25 digits");
        assert_eq!(spacing_of(&[1.0, 3.0], 1.0), None, "the step is no smaller");
        assert_eq!(spacing_of(&[0.0, 8_388_607.0, -999.25, 0.5], 0.25), Some(0.5), "the fill value does not count");
        assert_eq!(spacing_of(&[0.0, f32::NAN], 1e-3), None);
        let mut long = vec![1.0; 1000];
        long[999] = 3e7;
        assert_eq!(spacing_of(&long, 0.5), None, "the last group's value is too large");
    }

    #[test]
    fn exact_spacings_restore_every_bit() {
        let spacing_of = |values: &[f32]| exact_spacing::<f32>(&chunk_of(values, ByteOrder::Big), ByteOrder::Big);
        assert_eq!(spacing_of(&[0.5, -3.0, 0.0, f32::NAN, f32::INFINITY]), Some(0.5));
        assert_eq!(spacing_of(&[0.5, -0.0]), None, "code 0 has no sign");
        assert_eq!(spacing_of(&[1.0, 1_073_741_824.0]), Some(1.0), "the code is 2^30");
        assert_eq!(spacing_of(&[1.0, 2_147_483_648.0]), None, "the code would be 2^31");
        assert_eq!((spacing_of(&[]), spacing_of(&[0.0]), spacing_of(&[f32::NAN])), (None, None, None));
        assert_eq!(spacing_of(&[1e-45]), Some(2f64.powi(-149)), "a denormal number");
    }

    #[test]
    fn values_off_every_lattice_are_seen_in_a_part() {
        let is_off = |values: &[f64], step| {
            is_off::<f64>(&chunk_of(values, ByteOrder::Little), ByteOrder::Little, step, Fills::new(Some(0.1), Span::ALL))
        };
        assert!(is_off(&[1.0, 0.3], 1e-3) && is_off(&[1.0], 1.0));
        assert!(!is_off(&[1.0, 0.1, f64::NAN, 0.0], 1e-3), "neither the fill value nor NaN counts");
        assert!(!is_off(&[], 1e-3) && !is_off(&[0.3], 0.0));
    }

    #[test]
    fn bits_of_edge_values() {
        for (value, lowest, highest) in [
            (1.0, 0, Some(0)),
            (-12.0, 2, Some(3)),
            (5e-324, -1074, Some(-1074)),
            (f64::MIN_POSITIVE, -1022, Some(-1022)),
            (f64::MAX, 971, Some(1023)),
            (0.0, i32::MAX, None),
            (-0.0, i32::MAX, None),
        ] {
            assert_eq!((lowest_bit(value), highest_bit(value)), (lowest, highest), "{value:e}");
        }
        assert_eq!((lowest_bit(f64::NAN), lowest_bit(f64::INFINITY)), (i32::MAX, i32::MAX));
        assert_eq!((power_of_two(-1000), power_of_two(1000)), (Some(2f64.powi(-1000)), Some(2f64.powi(1000))));
        assert_eq!((power_of_two(-1001), power_of_two(1001), power_of_two(i32::MAX)), (None, None, None));
    }
}
