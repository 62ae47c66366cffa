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
/// Magnitudes of positions from which on only every second, every fourth and every eighth position is on the fine grid of
/// binary32. So at most one value of this type in 1024 is on a position by chance. Values of binary64 are so much closer together
/// that all positions are on their grid.
pub const SPACING_GROWS_FROM: [i32; 3] = [1 << 13, 1 << 14, 1 << 15];

/// Distance of neighbouring positions of the fine grid, less 1: 0, 1, 3 or 7 by the magnitude of `position`.
#[inline(always)]
#[must_use]
pub fn low_bits_at(position: i32) -> i32 {
    let magnitude = position.unsigned_abs();
    let [two, four, eight] = SPACING_GROWS_FROM.map(|from| i32::from(magnitude >= from.unsigned_abs()));
    two | four << 1 | eight << 2
}

/// The position of the fine grid of binary32 that is nearest to `position`; of two, the greater.
#[inline(always)]
#[must_use]
pub fn on_grid(position: i32) -> i32 {
    without_low_bits(position, low_bits_at(position))
}

/// The nearest position whose bits in `low_bits` are 0; of two, the greater. `low_bits` is 0, 1, 3 or 7.
#[inline(always)]
#[must_use]
pub fn without_low_bits(position: i32, low_bits: i32) -> i32 {
    position.wrapping_add((low_bits + 1) >> 1) & !low_bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::fine_grid::plain;

    #[test]
    fn positions_are_moved_to_the_nearest_one_on_the_grid() {
        for from in SPACING_GROWS_FROM.into_iter().chain([0, 1 << 20, i32::MAX - 40]) {
            for position in (from - 40..from + 40).flat_map(|position| [position, -position]) {
                assert_eq!(on_grid(position), plain::on_grid(position, true), "{position}");
                assert_eq!(position & low_bits_at(position) == 0, on_grid(position) == position, "{position}");
                assert_eq!(on_grid(on_grid(position)), on_grid(position));
            }
        }
    }

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
