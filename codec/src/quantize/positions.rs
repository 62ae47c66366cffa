//! Distances of the fine grid's positions (FORMAT.md §5.2): see [`fine_grid`](crate::quantize::fine_grid).

/// Positions per step. The value of a position that is a multiple of this is a whole number of steps.
pub const POSITIONS_PER_STEP: i32 = 8;
/// Distance of neighbouring positions that have the same nearest whole number of steps, in eighths of a step. It is less than 1, so that a number that a user
/// has rounded is on a position between two steps by chance only.
const SPACING_IN_EIGHTHS: f64 = 1020.0 / 1021.0;
/// The spacing in steps: the distance of neighbouring positions that have the same nearest whole number of steps.
pub const SPACING: f64 = SPACING_IN_EIGHTHS / POSITIONS_PER_STEP as f64;
/// The inverse of [`SPACING`]: a little more than 8.
pub const SPACINGS_PER_STEP: f64 = POSITIONS_PER_STEP as f64 / SPACING_IN_EIGHTHS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_the_bits_that_the_format_names() {
        assert_eq!(SPACING.to_bits(), 0x3fbf_f7f9_fb7c_9d76);
        assert_eq!(SPACINGS_PER_STEP.to_bits(), 0x4020_0404_0404_0404);
        assert_eq!(POSITIONS_PER_STEP, 8);
    }

    #[test]
    fn seven_positions_ascend_between_two_steps_and_none_is_an_eighth() {
        let from_lower = (1..=3).map(|rest| f64::from(rest) * SPACING);
        let from_upper = (-4..=-1).map(|rest| 1.0 + f64::from(rest) * SPACING);
        let between: Vec<f64> = from_lower.chain(from_upper).collect();
        assert!(between.is_sorted() && between[0] > 0.0 && between[6] < 1.0, "{between:?}");
        for (eighths, position) in (1..).zip(between) {
            let distance = (position - f64::from(eighths) / 8.0).abs();
            assert!(distance > 1e-4 && distance < 1e-3, "{eighths} eighths: {position}");
        }
    }
}
