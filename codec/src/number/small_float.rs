//! Floating-point numbers of 16 bits: IEEE 754 binary16, and bfloat16, which is the upper half of a binary32.
//!
//! Conversions use integers and additions in f64, so that every machine rounds alike: their results reach the bytes of streams.

/// Width of the mantissa of f64, in bits, and the bias of its exponent.
const WIDE_MANTISSA: u32 = 52;
const WIDE_BIAS: i32 = 1023;

macro_rules! small_float {
    ($(#[$doc:meta])* $name:ident, $mantissa:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name(u16);

        impl $name {
            /// Bits of the mantissa.
            pub const MANTISSA: u32 = $mantissa;
            const BIAS: i32 = (1 << (14 - $mantissa)) - 1;
            const LARGEST_EXPONENT: u16 = (1 << (15 - $mantissa)) - 1;

            /// The number with these bits.
            #[must_use]
            pub const fn from_bits(bits: u16) -> Self {
                Self(bits)
            }

            /// The number's bits.
            #[must_use]
            pub const fn to_bits(self) -> u16 {
                self.0
            }

            #[inline(always)]
            pub(crate) fn from_le_bytes(bytes: [u8; 2]) -> Self {
                Self(u16::from_le_bytes(bytes))
            }

            #[inline(always)]
            pub(crate) fn from_be_bytes(bytes: [u8; 2]) -> Self {
                Self(u16::from_be_bytes(bytes))
            }

            #[inline(always)]
            pub(crate) fn to_le_bytes(self) -> [u8; 2] {
                self.0.to_le_bytes()
            }

            #[inline(always)]
            pub(crate) fn to_be_bytes(self) -> [u8; 2] {
                self.0.to_be_bytes()
            }

            /// The number in f64, exactly; NaNs keep their payload.
            #[inline]
            #[must_use]
            pub fn to_f64(self) -> f64 {
                let sign = u64::from(self.0 >> 15) << 63;
                let exponent = self.0 >> $mantissa & Self::LARGEST_EXPONENT;
                let mantissa = u64::from(self.0) & ((1 << $mantissa) - 1);
                let magnitude = if exponent == 0 {
                    // 2^(1 - bias - mantissa bits) is normal in f64.
                    let unit = f64::from_bits(((WIDE_BIAS + 1 - Self::BIAS - $mantissa) as u64) << WIDE_MANTISSA);
                    (mantissa as f64 * unit).to_bits()
                } else {
                    let exponent = if exponent == Self::LARGEST_EXPONENT {
                        0x7ff
                    } else {
                        (i32::from(exponent) - Self::BIAS + WIDE_BIAS) as u64
                    };
                    exponent << WIDE_MANTISSA | mantissa << (WIDE_MANTISSA - $mantissa)
                };
                f64::from_bits(sign | magnitude)
            }

            /// The nearest number, ties to even; infinity beyond the range. Every NaN becomes a quiet NaN with its sign and no payload.
            #[inline]
            #[must_use]
            pub fn from_f64(value: f64) -> Self {
                let sign = ((value.to_bits() >> 63) as u16) << 15;
                let infinity = Self::LARGEST_EXPONENT << $mantissa;
                if value.is_nan() {
                    return Self(sign | infinity | 1 << ($mantissa - 1));
                }
                let magnitude = value.abs();
                let exponent = ((magnitude.to_bits() >> WIDE_MANTISSA) as i32 - WIDE_BIAS).max(1 - Self::BIAS);
                if exponent > Self::BIAS {
                    return Self(sign | infinity);
                }
                // A unit is the value of the mantissa's lowest bit. Adding 1.5 * 2^52 units rounds to whole units, which the sum has in its lowest bits.
                let lowest_bit = exponent - $mantissa;
                let unit = f64::from_bits(((lowest_bit + WIDE_BIAS) as u64) << WIDE_MANTISSA);
                let rounding = crate::number::rounding::ROUNDING * unit;
                let units = (magnitude + rounding).to_bits() & ((1 << ($mantissa + 2)) - 1);
                // The units include the implied bit, which adds 1 to the exponent. Rounding up to the next power of two carries into the exponent, up to that
                // of infinity.
                let biased = (exponent + Self::BIAS) as u64;
                Self(sign | (((biased - 1) << $mantissa) + units) as u16)
            }
        }
    };
}

small_float!(
    /// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa.
    Binary16,
    10
);
small_float!(
    /// bfloat16: 8 bits of exponent, 7 of mantissa.
    BFloat16,
    7
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (Binary16::from_bits(bits), BFloat16::from_bits(bits));
            if !half.to_f64().is_nan() {
                assert_eq!(Binary16::from_f64(half.to_f64()), half);
            }
            let as_f32 = f32::from_bits(u32::from(bits) << 16);
            if as_f32.is_nan() {
                assert!(brain.to_f64().is_nan());
            } else {
                assert_eq!(brain.to_f64(), f64::from(as_f32));
                assert_eq!(BFloat16::from_f64(brain.to_f64()), brain);
            }
        }
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 2f64.powi(-14)),
            (1, 2f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
        ] {
            assert_eq!(Binary16::from_bits(bits).to_f64(), value);
        }
        assert_eq!(Binary16::from_bits(0xfc00).to_f64(), f64::NEG_INFINITY);
    }

    /// The middle of two neighbours goes to the even one, a number on either side of the middle to the neighbour on that side.
    #[test]
    fn rounding_is_to_nearest_even() {
        fn check(largest: u16, to_f64: impl Fn(u16) -> f64, round: impl Fn(f64) -> u16) {
            for lower in 0..largest {
                let (a, b) = (to_f64(lower), to_f64(lower + 1));
                let middle = a / 2.0 + b / 2.0;
                let even = lower + lower % 2;
                assert_eq!(round(middle), even, "{middle:e}");
                assert_eq!(round(middle.next_down()), lower);
                assert_eq!(round(middle.next_up()), lower + 1);
                assert_eq!(round(-middle), even | 0x8000);
            }
            let beyond = to_f64(largest) + (to_f64(largest) - to_f64(largest - 1)) / 2.0;
            assert_eq!((round(beyond.next_down()), round(beyond)), (largest, largest + 1));
            assert_eq!(
                (round(f64::MAX), round(f64::INFINITY), round(f64::MIN)),
                (largest + 1, largest + 1, (largest + 1) | 0x8000)
            );
            assert_eq!((round(1e-310), round(0.0), round(-0.0)), (0, 0, 0x8000));
            assert!(to_f64(round(f64::NAN)).is_nan());
        }
        check(0x7bff, |bits| Binary16::from_bits(bits).to_f64(), |value| Binary16::from_f64(value).to_bits());
        check(0x7f7f, |bits| BFloat16::from_bits(bits).to_f64(), |value| BFloat16::from_f64(value).to_bits());
    }
}
