//! Floating-point types: how their values are rounded and restored, and the limits of each type's codes.

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::rounding::ROUNDING;
use crate::number::small_float::{BFloat16, Binary16};
use crate::simd::ROW_GROUP;

/// A floating-point type: how its values are rounded and restored. All arithmetic is IEEE f64 without contraction.
pub trait Value: Element {
    /// Codes are below this magnitude; a value whose code would not be is an exception.
    const CODE_LIMIT: f64;
    /// A code below this magnitude is safe: quantizing its decoded value is certain to give this code again, if the step is at least
    /// [`Value::SMALLEST_SAFE_STEP`].
    const SAFE_CODE_LIMIT: f64;
    /// The least step, in the data's unit, for which codes can be safe. With a smaller step decoded values may be subnormal.
    const SMALLEST_SAFE_STEP: f64;
    /// Reads every other value of a chunk, from the first or the second one on, until `values` is full.
    fn read_alternate(bytes: &[u8], from_second: bool, order: ByteOrder, values: &mut [Self]);
    /// Magnitude in steps, a power of two, below which values have positions on the fine grid; 0 where the type has no fine grid.
    const STEPS_LIMIT: f64;
    /// Whether positions of large magnitude are farther apart ([`SPACING_GROWS_FROM`](crate::quantize::positions::SPACING_GROWS_FROM)).
    const SPACING_GROWS: bool;
    /// The value in f64, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value of this type, ties to even.
    fn round_from(value: f64) -> Self;
    /// Whether this value has a smaller magnitude than `other`, which is positive. False for NaN.
    fn is_below(self, other: Self) -> bool;
    /// Whether this value is less than `other`. False for NaN.
    fn is_less(self, other: Self) -> bool;
    /// The code in the low bits of a sum with [`ROUNDING`].
    fn code_from_sum(sum: f64) -> Self::Code;
    /// The values, if the type is `f32`: the fast path ([`crate::quantize::fast_f32`]) is for that type alone.
    #[inline(always)]
    fn as_f32(_values: &[Self]) -> Option<&[f32]> {
        None
    }
}

/// [`Value::read_alternate`]: takes the lower or the upper half of each pair of values.
macro_rules! read_alternate {
    ($size:literal, $bits:ty, $pair:ty) => {
        #[inline(always)]
        fn read_alternate(bytes: &[u8], from_second: bool, order: ByteOrder, values: &mut [Self]) {
            let (pairs, last) = bytes.as_chunks::<{ 2 * $size }>();
            let whole = values.len().min(pairs.len());
            // A pair is read as one integer: its low half is the first value, its high half the second. A loop with a stride of two values would end in single
            // values, as vector code must not read beyond the last value.
            if from_second {
                pick(&pairs[..whole], &mut values[..whole], |pair| {
                    Self::from_bits((<$pair>::from_le_bytes(pair) >> <$bits>::BITS) as $bits)
                });
            } else {
                pick(&pairs[..whole], &mut values[..whole], |pair| Self::from_bits(<$pair>::from_le_bytes(pair) as $bits));
            }
            if order == ByteOrder::Big {
                for value in &mut values[..whole] {
                    *value = Self::from_bits(value.to_bits().swap_bytes());
                }
            }
            if let Some(value) = values.get_mut(pairs.len())
                && !last.is_empty()
            {
                *value = Self::read(last, 0, order);
            }
        }
    };
}

/// Reads one value of each pair. Both slices have one length.
#[inline(always)]
fn pick<P: Copy, V>(pairs: &[P], values: &mut [V], read: impl Fn(P) -> V + Copy) {
    let groups = values.as_chunks_mut::<ROW_GROUP>().0.iter_mut().zip(pairs.as_chunks::<ROW_GROUP>().0);
    for (values, &pairs) in groups {
        *values = pairs.map(read);
    }
    if values.len().is_multiple_of(ROW_GROUP) {
        return;
    }
    if let (Some(values), Some(&pairs)) = (values.last_chunk_mut::<ROW_GROUP>(), pairs.last_chunk()) {
        // The last group ends with the last value and overlaps the group before it.
        *values = pairs.map(read);
    } else {
        for (value, &pair) in values.iter_mut().zip(pairs) {
            *value = read(pair);
        }
    }
}

/// Definitions shared by all types whose codes have 32 bits.
macro_rules! narrow_codes {
    () => {
        const CODE_LIMIT: f64 = 2_147_483_648.0; // 2^31
        #[inline(always)]
        fn code_from_sum(sum: f64) -> i32 {
            sum.to_bits() as i32
        }
    };
}

impl Value for f32 {
    // The decoded value is k * step * (1 + d) with |d| <= 2^-24: divided by the step, it misses k by less than 2^22 * 2^-24 = 1/4.
    const SAFE_CODE_LIMIT: f64 = 4_194_304.0; // 2^22
    const SMALLEST_SAFE_STEP: f64 = 1e-28;
    const STEPS_LIMIT: f64 = 4_194_304.0; // 2^22
    const SPACING_GROWS: bool = true;
    narrow_codes!();
    read_alternate!(4, u32, u64);
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn round_from(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.abs() < other
    }
    #[inline(always)]
    fn is_less(self, other: Self) -> bool {
        self < other
    }
    #[inline(always)]
    fn as_f32(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }
}

impl Value for f64 {
    const CODE_LIMIT: f64 = 2_251_799_813_685_248.0; // 2^51
    // There are three roundings of 2^-53 each (product, inverse step, product): k is missed by less than 2^50 * 3 * 2^-53 = 3/8.
    const SAFE_CODE_LIMIT: f64 = 1_125_899_906_842_624.0; // 2^50
    const SMALLEST_SAFE_STEP: f64 = 1e-290;
    const STEPS_LIMIT: f64 = 4_194_304.0; // 2^22
    const SPACING_GROWS: bool = false;
    read_alternate!(8, u64, u128);
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn round_from(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.abs() < other
    }
    #[inline(always)]
    fn is_less(self, other: Self) -> bool {
        self < other
    }
    #[inline(always)]
    fn code_from_sum(sum: f64) -> i64 {
        sum.to_bits().wrapping_sub(ROUNDING.to_bits()).cast_signed()
    }
}

/// Types of 16 bits. They have no fine grid: so few of their values are between two steps of a useful bound that most values would be on a position by chance.
macro_rules! small_value {
    ($type:ty, $safe_code_limit:literal, $smallest_safe_step:literal) => {
        impl Value for $type {
            // As for f32, with |d| <= 2^-(mantissa bits + 1).
            const SAFE_CODE_LIMIT: f64 = $safe_code_limit;
            const SMALLEST_SAFE_STEP: f64 = $smallest_safe_step;
            const STEPS_LIMIT: f64 = 0.0;
            const SPACING_GROWS: bool = false;
            narrow_codes!();
            read_alternate!(2, u16, u32);
            #[inline(always)]
            fn to_f64(self) -> f64 {
                <$type>::to_f64(self)
            }
            #[inline(always)]
            fn round_from(value: f64) -> Self {
                Self::from_f64(value)
            }
            #[inline(always)]
            fn is_below(self, other: Self) -> bool {
                // The bits of numbers that are not negative compare as the numbers do; those of NaN are larger than all others.
                self.to_bits() & (u16::MAX >> 1) < other.to_bits()
            }
            #[inline(always)]
            fn is_less(self, other: Self) -> bool {
                <$type>::to_f64(self) < <$type>::to_f64(other)
            }
        }
    };
}

small_value!(Binary16, 512.0, 1e-4);
small_value!(BFloat16, 64.0, 1e-28);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_are_read_alternately() {
        fn are_read<V: Value>(value: impl Fn(usize) -> V) {
            for (len, order) in (1..70).flat_map(|len| [ByteOrder::Little, ByteOrder::Big].map(|order| (len, order))) {
                let mut row = vec![0; len * V::SIZE];
                for index in 0..len {
                    value(index).write(&mut row, index, order);
                }
                for (from_second, count) in [(false, len.div_ceil(2)), (true, len / 2)] {
                    let mut values = vec![V::default(); count];
                    V::read_alternate(&row, from_second, order, &mut values);
                    for (index, read) in values.iter().enumerate() {
                        let expected = value(2 * index + usize::from(from_second));
                        assert!(read.to_bits() == expected.to_bits(), "{index} of {len}");
                    }
                }
            }
        }
        are_read(|index| index as f32 + 0.5);
        are_read(|index| index as f64 - 0.5);
        are_read(|index| Binary16::from_f64(index as f64));
        are_read(|index| BFloat16::from_f64(-(index as f64)));
    }

    /// The promise of [`Value::SAFE_CODE_LIMIT`], at the largest safe codes and the least safe step.
    #[test]
    fn safe_codes_come_back() {
        fn check<V: Value>() {
            let largest = V::SAFE_CODE_LIMIT - 1.0;
            for factor in [1.0, 1.000_001, 1.37, std::f64::consts::PI, 1e4] {
                let step = V::SMALLEST_SAFE_STEP * factor;
                for code in (0..2000).map(|below| largest - f64::from(below)).filter(|&code| code > 0.0) {
                    for code in [code, -code] {
                        let decoded = V::round_from(code * step).to_f64();
                        assert_eq!((decoded * (1.0 / step)).round_ties_even(), code, "step {step:e}");
                    }
                }
            }
        }
        check::<f32>();
        check::<f64>();
        check::<Binary16>();
        check::<BFloat16>();
    }

    #[test]
    fn edge_values_round_and_compare() {
        fn check<V: Value>() {
            let of = |value: f64| V::round_from(value);
            assert!(of(f64::NAN).to_f64().is_nan() && of(f64::INFINITY).to_f64() == f64::INFINITY);
            assert!(of(-0.0).to_f64() == 0.0 && of(-0.0).to_f64().is_sign_negative());
            assert!(of(0.0).is_below(of(1.0)) && of(-0.5).is_below(of(1.0)) && of(0.5).is_below(of(f64::INFINITY)));
            assert!(!of(1.0).is_below(of(1.0)) && !of(-2.0).is_below(of(1.0)));
            assert!(!of(f64::NAN).is_below(of(1.0)) && !of(f64::NEG_INFINITY).is_below(of(f64::INFINITY)));
            for code in [0i32, 1, -1, 15, -16, 1 << 21, i32::MAX, i32::MIN] {
                let found = V::code_from_sum(f64::from(code) + ROUNDING);
                assert_eq!(crate::number::integer::Integer::to_i64(found), i64::from(code));
            }
        }
        check::<f32>();
        check::<f64>();
        check::<Binary16>();
        check::<BFloat16>();
        assert_eq!((f32::as_f32(&[1.5]), f64::as_f32(&[1.5])), (Some(&[1.5f32][..]), None));
    }
}
