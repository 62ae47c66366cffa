//! The integers that planes hold: `i32` for the codes of f32 chunks, `i64` for those of f64 chunks, `i8` for the exception mask. On their way out, residuals of
//! interpolation and differences of f64 chunks are `i16`, and codes of f64 chunks `i32` if the sums of their differences fit.

/// An integer with two's complement wrap-around, so that the order of additions never matters.
pub trait Integer: Copy + Default + PartialEq + Send + Sync + 'static {
    /// What stands for integers that the type cannot hold, if those are kept apart: see [`crate::entropy::lanes::decode`].
    const FAR: Option<Self>;
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
    /// `value + 15` where that lies in `0..=30`, else a number of 31 or more.
    fn direct_index(self) -> u32;
    /// `value + bias` where that is not negative and below 2^31, else a number of 2^31 or more. `bias` is positive.
    fn biased(self, bias: i32) -> u32;
    /// The same slice, where the type is `i32`: for what vector code does with that type alone.
    #[inline(always)]
    fn as_i32(_integers: &mut [Self]) -> Option<&mut [i32]> {
        None
    }
}

macro_rules! integer {
    ($type:ty, $far:expr, $index:expr, $biased:expr $(, $as_i32:item)?) => {
        impl Integer for $type {
            const FAR: Option<Self> = $far;
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
