//! Floating-point numbers of 16 bits: IEEE 754 binary16, and bfloat16, which is the upper half of a binary32.
//!
//! Conversions use integers and additions, so that every machine rounds alike: their results reach the bytes of streams. They have no branches, so that compilers
//! make vector code of loops over values.

/// Width of the mantissa of f32, in bits, and the bias of its exponent.
const F32_MANTISSA: u32 = 23;
const F32_BIAS: i32 = 127;
/// Width of the mantissa of f64, in bits, and the bias of its exponent.
const F64_MANTISSA: u32 = 52;
const F64_BIAS: i32 = 1023;

macro_rules! small_float {
    ($(#[$doc:meta])* $name:ident, $mantissa:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name(u16);

        impl $name {
            /// Bits of the mantissa.
            pub const MANTISSA: u32 = $mantissa;
            const BIAS: i32 = (1 << (14 - $mantissa)) - 1;
            /// The bits of infinity.
            const INFINITY: u16 = ((1 << (15 - $mantissa)) - 1) << $mantissa;

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

            /// The number in f64, exactly.
            #[inline(always)]
            #[must_use]
            pub fn to_f64(self) -> f64 {
                // An f32 with the number's fields. Its exponent lacks the difference of the two biases.
                let fields = u32::from(self.0 & (u16::MAX >> 1)) << (F32_MANTISSA - $mantissa);
                let biases = (F32_BIAS - Self::BIAS).cast_unsigned() << F32_MANTISSA;
                let normal = fields + biases;
                let magnitude = if fields < 1 << F32_MANTISSA {
                    // A subnormal number has no implied bit: with the exponent of the least normal number, the f32 is too large by that number.
                    const LEAST: u32 = 1 << F32_MANTISSA;
                    (f32::from_bits(normal + LEAST) - f32::from_bits(biases + LEAST)).to_bits()
                } else if fields < u32::from(Self::INFINITY) << (F32_MANTISSA - $mantissa) {
                    normal
                } else {
                    normal + biases
                };
                f64::from(f32::from_bits(u32::from(self.0 >> 15) << 31 | magnitude))
            }

            /// The nearest number, ties to even; infinity beyond the range. Every NaN becomes a quiet NaN with its sign and no payload.
            #[inline(always)]
            #[must_use]
            pub fn from_f64(value: f64) -> Self {
                const fn power_of_two(exponent: i32) -> f64 {
                    f64::from_bits(((exponent + F64_BIAS) as u64) << F64_MANTISSA)
                }
                // Numbers from 2^(bias + 1) on, and NaN, become this power of two: all bits of its exponent are those of infinity.
                let beyond = const { power_of_two(Self::BIAS + 1) };
                let magnitude = if value.abs() < beyond { value.abs() } else { beyond };
                let least = const { power_of_two(1 - Self::BIAS) };
                let exponent = (if magnitude < least { least } else { magnitude }).to_bits() >> F64_MANTISSA;
                // A unit is the value of the mantissa's lowest bit. Adding 1.5 * 2^52 units rounds to whole units, which the sum has in its lowest bits.
                let rounding = f64::from_bits(((exponent + u64::from(F64_MANTISSA - $mantissa)) << 1 | 1) << (F64_MANTISSA - 1));
                let units = (magnitude + rounding).to_bits() & ((1 << ($mantissa + 2)) - 1);
                // The units include the implied bit, which adds 1 to the exponent. Rounding up to the next power of two carries into the exponent, up to that
                // of infinity.
                let number = ((exponent - (F64_BIAS - Self::BIAS + 1) as u64) << $mantissa) + units;
                let sign = value.to_bits() >> 63 << 15;
                let quiet = u64::from(value.is_nan()) << ($mantissa - 1);
                Self((sign | number | quiet) as u16)
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

    /// The definition of IEEE 754, for all bits.
    #[test]
    fn numbers_have_the_values_of_their_fields() {
        fn check(mantissa_bits: i32, bias: i32, to_f64: impl Fn(u16) -> f64) {
            for bits in 0..=u16::MAX {
                let exponent = i32::from(bits & 0x7fff) >> mantissa_bits;
                let fraction = f64::from(i32::from(bits & 0x7fff) - (exponent << mantissa_bits)) / 2f64.powi(mantissa_bits);
                let magnitude = if exponent == 2 * bias + 1 {
                    if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
                } else if exponent == 0 {
                    fraction * 2f64.powi(1 - bias)
                } else {
                    (1.0 + fraction) * 2f64.powi(exponent - bias)
                };
                let (found, expected) = (to_f64(bits), if bits >> 15 == 1 { -magnitude } else { magnitude });
                assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:04x}: {found:e}, not {expected:e}");
                assert_eq!(found.is_sign_negative(), bits >> 15 == 1, "{bits:04x}");
            }
        }
        check(10, 15, |bits| Binary16::from_bits(bits).to_f64());
        check(7, 127, |bits| BFloat16::from_bits(bits).to_f64());
    }

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
            assert!(to_f64(round(f64::NAN)).is_nan() && to_f64(round(-f64::NAN)).is_nan());
            assert_eq!(round(f64::NAN) ^ round(-f64::NAN), 0x8000, "a NaN keeps its sign");
        }
        check(0x7bff, |bits| Binary16::from_bits(bits).to_f64(), |value| Binary16::from_f64(value).to_bits());
        check(0x7f7f, |bits| BFloat16::from_bits(bits).to_f64(), |value| BFloat16::from_f64(value).to_bits());
    }
}
