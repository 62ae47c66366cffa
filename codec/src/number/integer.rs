//! The types of a plane's integers: `i32` for codes of values of up to four bytes, `i64` for other codes, `i8` for the exception mask.
//!
//! A decoder takes narrower types where it can: `i16` for residuals of interpolation and for differences of f64 chunks ([`super::patched16`]), and `i32` for
//! codes of f64 chunks if all sums of their differences fit.

/// An integer in two's complement that wraps around, so that sums do not depend on the order of additions.
pub trait Integer: Copy + Default + PartialEq + Send + Sync + 'static {
    /// What a decoder writes in place of an integer that the type cannot hold. The integer itself goes to a list of patches
    /// ([`crate::entropy::lanes::decode`]). `None` for types without patches, whose integers wrap.
    const PLACEHOLDER: Option<Self>;
    /// Sum modulo 2^bits.
    fn add(self, other: Self) -> Self;
    /// Difference modulo 2^bits.
    fn sub(self, other: Self) -> Self;
    /// The value, sign extended.
    fn to_i64(self) -> i64;
    /// The value in f64, rounded to nearest if it is beyond 2^53.
    fn to_f64(self) -> f64;
    /// The low bits of `value`.
    fn from_i64(value: i64) -> Self;
    /// Number of binary digits of the magnitude; 0 for 0.
    fn length(self) -> u32;
    /// `value + 15` if that is from 0 to 30, else a number of 31 or more.
    fn direct_index(self) -> u32;
    /// `value + bias` if that is from 0 to below 2^31, else a number of 2^31 or more. `bias` is from 1 to 2^30.
    fn biased(self, bias: i32) -> u32;
    /// The slice, if the type is `i32`: some vector code is for that type alone.
    #[inline(always)]
    fn as_i32(_integers: &mut [Self]) -> Option<&mut [i32]> {
        None
    }
}

macro_rules! integer {
    ($type:ty, $placeholder:expr, $index:expr, $biased:expr $(, $as_i32:item)?) => {
        impl Integer for $type {
            const PLACEHOLDER: Option<Self> = $placeholder;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::from(self)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn length(self) -> u32 {
                Self::BITS - self.unsigned_abs().leading_zeros()
            }
            #[inline(always)]
            fn direct_index(self) -> u32 {
                $index(self.wrapping_add(15).cast_unsigned())
            }
            #[inline(always)]
            fn biased(self, bias: i32) -> u32 {
                $biased(self, bias)
            }
            $($as_i32)?
        }
    };
}

integer!(i8, None, u32::from, |value: i8, bias: i32| (i32::from(value) + bias).cast_unsigned());
integer!(i16, Some(i16::MIN), u32::from, |value: i16, bias: i32| (i32::from(value) + bias).cast_unsigned());
integer!(
    i32,
    None,
    u32::from,
    |value: i32, bias: i32| value.wrapping_add(bias).cast_unsigned(),
    #[inline(always)]
    fn as_i32(integers: &mut [Self]) -> Option<&mut [i32]> {
        Some(integers)
    }
);
integer!(i64, None, |index: u64| index.min(31) as u32, |value: i64, bias: i32| {
    value.wrapping_add(i64::from(bias)).cast_unsigned().min(1 << 31) as u32
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and differences modulo 2^bits, and both indices, against 128 bits.
    fn check<I: Integer + std::fmt::Debug>(bits: u32, numbers: &[i64]) {
        let wrapped = |number: i128| I::from_i64((number << (128 - bits) >> (128 - bits)) as i64);
        for &a in numbers {
            let value = I::from_i64(a);
            let exact = i128::from(value.to_i64());
            assert_eq!(exact, i128::from(a) << (128 - bits) >> (128 - bits), "the low {bits} bits of {a}");
            assert_eq!(value.to_f64(), exact as f64);
            assert_eq!(value.length(), 128 - exact.unsigned_abs().leading_zeros());
            for &b in numbers {
                let other = i128::from(I::from_i64(b).to_i64());
                assert_eq!(value.add(I::from_i64(b)), wrapped(exact + other), "{a} + {b}");
                assert_eq!(value.sub(I::from_i64(b)), wrapped(exact - other), "{a} - {b}");
            }
            let index = value.direct_index();
            assert!(if (-15..=15).contains(&exact) { i128::from(index) == exact + 15 } else { index > 30 }, "{a}: {index}");
            for bias in [1, 15, 1023, 1 << 30] {
                let biased = value.biased(bias);
                let sum = exact + i128::from(bias);
                assert!(if (0..1 << 31).contains(&sum) { i128::from(biased) == sum } else { biased >= 1 << 31 }, "{a} + {bias}");
            }
        }
        assert_eq!(I::as_i32(&mut [I::default()]).is_some(), bits == 32);
    }

    #[test]
    fn arithmetic_is_modulo_the_width() {
        let mut numbers = vec![0, 1, -1, 14, 15, 16, -15, -16, -17, 1023, -1023, -1024, 257, 1 << 40, -(1 << 40)];
        numbers.extend([7, 8, 15, 16, 31, 32, 63].into_iter().flat_map(|bits| [(1i64 << bits).wrapping_sub(1), 1i64 << bits]));
        numbers.extend([i64::MIN + 1, i64::from(i32::MIN), i64::from(i16::MIN), i64::from(i8::MIN)]);
        check::<i8>(8, &numbers);
        check::<i16>(16, &numbers);
        check::<i32>(32, &numbers);
        check::<i64>(64, &numbers);
        assert_eq!((i16::PLACEHOLDER, i32::PLACEHOLDER, i64::PLACEHOLDER, i8::PLACEHOLDER), (Some(i16::MIN), None, None, None));
    }
}
