//! The integers that planes hold: `i32` for the codes of f32 chunks, `i64` for those of f64 chunks, `i8` for the exception mask.

/// An integer with two's complement wrap-around, so that the order of additions never matters.
pub trait Integer: Copy + Default + PartialEq + Send + Sync + 'static {
    /// Sum modulo 2^bits.
    fn add(self, other: Self) -> Self;
    /// Difference modulo 2^bits.
    fn sub(self, other: Self) -> Self;
    /// The value, sign extended.
    fn to_i64(self) -> i64;
    /// The low bits of `value`.
    fn from_i64(value: i64) -> Self;
    /// `value + 15` where that lies in `0..=30`, else a number of 31 or more.
    fn direct_index(self) -> u32;
}

macro_rules! integer {
    ($type:ty, $index:expr) => {
        impl Integer for $type {
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
            fn from_i64(value: i64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn direct_index(self) -> u32 {
                $index(self.wrapping_add(15).cast_unsigned())
            }
        }
    };
}

integer!(i8, u32::from);
integer!(i32, u32::from);
integer!(i64, |index: u64| index.min(31) as u32);
