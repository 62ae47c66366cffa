//! The constants that round a number to a whole number when they are added to it.

/// Adding this to `|p| < 2^51` leaves `p`, rounded half to even, in the low bits of the mantissa.
pub const ROUNDING: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Adding this to an f32 `|p| < 2^22` leaves `p`, rounded half to even, in the low bits of the mantissa.
pub const ROUNDING_F32: f32 = 12_582_912.0; // 1.5 * 2^23

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_round_half_to_even_up_to_their_limits() {
        let largest = 2f64.powi(51) - 0.5;
        for value in [largest, -largest, 0.499_999_999_999_999_94, -0.0, 5e-324, 2f64.powi(51) - 1.5] {
            assert_eq!(value + ROUNDING - ROUNDING, value.round_ties_even(), "{value}");
        }
        let largest = 2f32.powi(22) - 0.5;
        for value in [largest, -largest, 0.499_999_97, -0.0, 1e-45, 2f32.powi(22) - 1.5] {
            assert_eq!(value + ROUNDING_F32 - ROUNDING_F32, value.round_ties_even(), "{value}");
        }
    }

    #[test]
    fn sums_hold_the_nearest_even_whole_number() {
        for (value, nearest) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (2_097_151.5, 2_097_152), (-7.25, -7)] {
            let sum = value + ROUNDING;
            assert_eq!((sum.to_bits() as i32, sum - ROUNDING), (nearest, f64::from(nearest)), "{value}");
            let sum = value as f32 + ROUNDING_F32;
            assert_eq!(sum.to_bits().wrapping_sub(ROUNDING_F32.to_bits()).cast_signed(), nearest, "{value}");
        }
    }
}
