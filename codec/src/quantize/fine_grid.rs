//! The grid on which interpolation restores values (FORMAT.md §5.2). Interpolation rounds a value's difference from its prediction, not the value: restored
//! values need not be multiples of the step. They lie on a grid with [`POSITIONS_PER_STEP`] positions per step. The module `encode` turns values into residuals
//! on this grid.
//!
//! ```text
//! position  -4    -3    -2    -1     0     1     2     3     4   ...  8
//! value    -4d   -3d   -2d   -d      0     d     2d    3d  step-4d    step       d, the spacing, is (1 - 1/1021) step / 8
//! ```
//!
//! A prediction `p`, which is a position, and a residual `m` give the position `p + S m`. `S` is what a residual of 1 is worth: a step, which is eight
//! positions, or less on coarse levels (`Worth`). The encoder writes `m` if this position's value is within the bound, half a step, of the encoded value, and
//! the encoded value is on no other position. Otherwise the encoder writes an escape, or the value is an exception.
//!
//! A value that is exactly on a position keeps that position, or becomes an exception. It may come from a decoder: HDF5 decodes a chunk, replaces a part of it
//! and encodes all of it again. A second rounding could move the value farther than the bound from the value that was written first.
//!
//! A value can also be on a position by chance. It is not rounded either, and often costs an escape. If the positions were exact
//! eighths of a step, many values that a user has rounded to a few decimals would be on one. So the spacing is less than an eighth
//! of a step, by one part in 1021.

mod encode;
#[cfg(test)]
pub(crate) mod plain;

use std::slice;

pub use self::encode::MAX_VALUES_PER_CALL;
use crate::layout::ByteOrder;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::excluded::Excluded;
use crate::quantize::fast_f32::FastF32;
use crate::quantize::fills::Fills;
use crate::quantize::limits::Limits;
use crate::quantize::positions::{
    POSITIONS_PER_STEP, SPACING, SPACING_GROWS_FROM, SPACINGS_PER_STEP, low_bits_at, on_grid, without_low_bits,
};
use crate::quantize::quantizer::Quantizer;
use crate::simd::ROW_GROUP;

/// The least magnitude of an escape. A residual of smaller magnitude counts steps; an escape counts positions. The encoder writes an escape (FORMAT.md §5.2,
/// rules 2 and 3) if the residual in steps would be too large, if it leads to a position that does not hold the value, or if it leads away from the position
/// that the value is on.
pub const ESCAPE_FROM: i32 = 1 << 16;
/// An escape is its position's distance from the prediction, in positions, plus this.
pub const ESCAPE_BASE: i32 = ESCAPE_FROM + (1 << 15);

/// The fine grid of a bound, for values of one type.
#[derive(Debug, Clone, Copy)]
pub struct FineGrid<V> {
    bound: f64,
    step: f64,
    inverse_step: f64,
    /// What a residual of 1 is worth.
    worth: Worth,
    /// The fast path for values of type `f32`; `None` for other types, lattices, and steps outside the range of [`FastF32`].
    fast_f32: Option<FastF32>,
    /// Distance of two neighbouring positions, in the data's unit. Only from position `8 s + 3` to `8 s + 4` the distance is larger. Positions from
    /// `8 s - 4` to `8 s + 3` have `s` as their nearest whole number of steps, the following ones `s + 1`.
    spacing: f64,
    /// [`Value::STEPS_LIMIT`]; 0 if there is no fine grid.
    steps_limit: f64,
    /// Whether [`Value::STEPS_LIMIT`] steps have a finite value. If so, every position of fewer steps has one, and the fast path in
    /// `f64` need not test whether restored values are finite.
    values_are_finite: bool,
    /// Values that are exceptions because they are fills.
    fills: Fills,
    /// Values that are exceptions under every prediction, apart from some just above the limit of steps.
    excluded: Excluded<V>,
    /// Values of the limits; infinities where there are none.
    least: V,
    greatest: V,
}

impl<V: Value> FineGrid<V> {
    /// The fine grid that has the quantizer's step. There is none for types of 16 bits, for a step that is not twice the bound (as on a lattice), and
    /// for a step below [`Value::SMALLEST_SAFE_STEP`]. With such small steps restored values could be subnormal. Where there is no fine grid,
    /// [`FineGrid::is_enabled`] is false.
    #[must_use]
    pub fn new(quantizer: &Quantizer) -> Self {
        let step = quantizer.step();
        let is_enabled = step == 2.0 * quantizer.bound() && step >= V::SMALLEST_SAFE_STEP;
        let without_limits = Self {
            bound: quantizer.bound(),
            step,
            inverse_step: quantizer.inverse_step(),
            worth: Worth::STEP,
            fast_f32: FastF32::new(quantizer).filter(|_| V::as_f32(&[]).is_some()),
            spacing: step * SPACING,
            steps_limit: if is_enabled { V::STEPS_LIMIT } else { 0.0 },
            values_are_finite: V::round_from(V::STEPS_LIMIT * step).to_f64().is_finite(),
            fills: *quantizer.fills(),
            excluded: Excluded::new(quantizer, V::STEPS_LIMIT),
            least: V::round_from(f64::NEG_INFINITY),
            greatest: V::round_from(f64::INFINITY),
        };
        let (Limits { lower, upper }, grid) = (quantizer.limits(), without_limits);
        Self {
            least: if lower == Limits::NONE.lower { grid.least } else { grid.restore(lower) },
            greatest: if upper == Limits::NONE.upper { grid.greatest } else { grid.restore(upper) },
            ..grid
        }
    }

    /// The values of the limits; infinities where there are none.
    pub(crate) fn limit_values(&self) -> (V, V) {
        (self.least, self.greatest)
    }

    /// A restored value, or the limit that it is beyond.
    #[inline(always)]
    pub(crate) fn limited(&self, value: V) -> V {
        let value = if value.is_less(self.least) { self.least } else { value };
        if self.greatest.is_less(value) { self.greatest } else { value }
    }

    /// Value of a position within the limits.
    #[inline(always)]
    pub(crate) fn restore_limited(&self, position: i32) -> V {
        self.limited(self.restore(position))
    }

    /// Whether there is a fine grid. If there is none, callers must not encode values, and what
    /// [`FineGrid::position`] returns means nothing.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.steps_limit > 0.0
    }

    /// This grid, where a residual of 1 is worth this many positions.
    #[inline(always)]
    #[must_use]
    pub(crate) fn with_worth(self, worth: Worth) -> Self {
        Self { worth, fast_f32: self.fast_f32.map(|fast| fast.with_worth(worth)), ..self }
    }

    /// Value of a position, before it is rounded to the type.
    #[inline(always)]
    #[must_use]
    pub fn value(&self, position: i32) -> f64 {
        let (steps, offset) = self.steps_and_offset(position);
        steps * self.step + offset
    }

    /// Splits a position into its nearest whole number of steps and a rest. Returns the number of steps, and the offset: the rest times the spacing, in the
    /// data's unit.
    #[inline(always)]
    fn steps_and_offset(&self, position: i32) -> (f64, f64) {
        let steps = position.wrapping_add(POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP.trailing_zeros();
        let rest = position.wrapping_sub(steps.wrapping_mul(POSITIONS_PER_STEP));
        (f64::from(steps), f64::from(rest) * self.spacing)
    }

    /// Value of a position, rounded to the type.
    #[inline(always)]
    #[must_use]
    pub fn restore(&self, position: i32) -> V {
        V::round_from(self.value(position))
    }

    /// Value of a whole number of steps and an offset, rounded to the type.
    #[inline(always)]
    fn restore_steps(&self, steps: f64, offset: f64) -> V {
        V::round_from(steps * self.step + offset)
    }

    /// Restores the values of a row and writes them to `row`. `evens` has the positions of the values at even indices, `odds` of
    /// those at odd indices; `evens` is as long as `odds` or one longer. `row` is a slice of the chunk's bytes. It begins with the
    /// first value, and bytes behind the last value do not change.
    #[inline(always)]
    pub(crate) fn write_values(self, evens: &[i32], odds: &[i32], order: ByteOrder, row: &mut [u8]) {
        let (pairs, last) = evens.split_at(odds.len());
        self.write_groups(pairs.as_chunks().0, odds.as_chunks().0, order, row);
        if !odds.len().is_multiple_of(ROW_GROUP) {
            if let (Some(evens), Some(odds)) = (pairs.last_chunk(), odds.last_chunk()) {
                // The last group ends with the last pair and overlaps the group before it.
                let from = 2 * (pairs.len() - ROW_GROUP) * V::SIZE;
                self.write_groups(slice::from_ref(evens), slice::from_ref(odds), order, &mut row[from..]);
            } else {
                for (at, (&even, &odd)) in pairs.iter().zip(odds).enumerate() {
                    self.restore_limited(even).write(row, 2 * at, order);
                    self.restore_limited(odd).write(row, 2 * at + 1, order);
                }
            }
        }
        if let Some(&even) = last.first() {
            self.restore_limited(even).write(row, 2 * odds.len(), order);
        }
    }

    /// Writes the values of whole groups, alternately from `evens` and `odds`.
    #[inline(always)]
    fn write_groups(self, evens: &[[i32; ROW_GROUP]], odds: &[[i32; ROW_GROUP]], order: ByteOrder, row: &mut [u8]) {
        for ((pairs, evens), odds) in row.chunks_exact_mut(2 * ROW_GROUP * V::SIZE).zip(evens).zip(odds) {
            let evens = std::array::from_fn(|i| self.restore_limited(evens[i]));
            let odds = std::array::from_fn(|i| self.restore_limited(odds[i]));
            V::write_alternate(evens, odds, order, pairs);
        }
    }

    /// The numbers `s` and `r` of FORMAT.md §5.2, and the value of `s` steps and `r` spacings, rounded to the type. For `r = 4`
    /// this value is not that of position `8 s + 4`.
    #[inline(always)]
    fn nearest(&self, value: f64) -> (f64, f64, f64) {
        let scaled = value * self.inverse_step;
        let steps = scaled + ROUNDING - ROUNDING;
        let rest = (scaled - steps) * SPACINGS_PER_STEP + ROUNDING - ROUNDING;
        (steps, rest, self.restore_steps(steps, rest * self.spacing).to_f64())
    }

    /// Position `8 s + r` of `value` (FORMAT.md §5.2), and whether `value` is on it. `None` for infinities and NaN, and if `s` is
    /// not below [`Value::STEPS_LIMIT`] in magnitude.
    #[must_use]
    pub fn position(&self, value: V) -> Option<(i32, bool)> {
        let (steps, rest, restored) = self.nearest(value.to_f64());
        let position = position_at(steps, rest);
        let is_on_it = restored == value.to_f64() && off_grid::<V>(position) == 0;
        (steps.abs() < V::STEPS_LIMIT).then_some((position, is_on_it))
    }

    /// Position `8 s + r` of `value` (FORMAT.md §5.2), and two marks. Bit 63 of the first mark is 1 if `s` is below
    /// [`Value::STEPS_LIMIT`] in magnitude. Otherwise the position and the second mark mean nothing. Bit 63 of the second mark is
    /// 1 if `value` is on the position. [`fast_f32`](crate::quantize::fast_f32) explains marks.
    #[inline(always)]
    pub(crate) fn nearest_position(&self, value: V) -> (i32, u64, u64) {
        let x = value.to_f64();
        let (steps, rest, restored) = self.nearest(x);
        let position = position_at(steps, rest);
        let is_near = steps.abs().to_bits().wrapping_sub(V::STEPS_LIMIT.to_bits());
        let is_on_it = (restored - x).abs().to_bits().wrapping_sub(1) & !sign_unless_zero(off_grid::<V>(position));
        (position, is_near, is_on_it)
    }

    /// Whether a value is on a position between two whole numbers of steps. [`FineGrid::position`] decides whether it is on a
    /// position. Rounding to whole steps would move such a value.
    #[must_use]
    pub fn is_between_steps(&self, value: V) -> bool {
        self.position(value).is_some_and(|(position, exact)| exact && position % POSITIONS_PER_STEP != 0)
    }

    /// Bit 63 is 1 where [`FineGrid::is_enabled`] and [`FineGrid::is_between_steps`] are true; the other bits mean nothing.
    /// `steps` is the value's nearest whole number of steps. Four tests have their results in bit 63: the steps are below the
    /// limit, the restored value equals the value, the position is on the grid, and the rest is not 0.
    /// [`fast_f32`](crate::quantize::fast_f32) explains such tests.
    #[inline(always)]
    pub(crate) fn between_steps_sign(&self, value: V, steps: f64) -> u64 {
        let x = value.to_f64();
        let rest = (x * self.inverse_step - steps) * SPACINGS_PER_STEP + ROUNDING - ROUNDING;
        let restored = self.restore_steps(steps, rest * self.spacing).to_f64();
        steps.abs().to_bits().wrapping_sub(self.steps_limit.to_bits())
            & (restored - x).abs().to_bits().wrapping_sub(1)
            & !sign_unless_zero(off_grid::<V>(position_at(steps, rest)))
            & 0u64.wrapping_sub(rest.abs().to_bits())
    }
}

impl Quantizer {
    /// The fine grid for interpolation and limits, if there is one: it keeps neither the order of values nor the sides of thresholds.
    #[must_use]
    pub fn fine<V: Value>(&self) -> Option<FineGrid<V>> {
        Some(FineGrid::new(self)).filter(|fine| fine.is_enabled() && self.keep().is_nothing())
    }
}

/// The position of `steps` steps and `rest` spacings, which are whole numbers.
#[inline(always)]
fn position_at(steps: f64, rest: f64) -> i32 {
    // The low bits of the sum are the integer.
    (steps * f64::from(POSITIONS_PER_STEP) + rest + ROUNDING).to_bits() as i32
}

/// 0 if the fine grid of type `V` has this position, else another number.
#[inline(always)]
fn off_grid<V: Value>(position: i32) -> i32 {
    if V::SPACING_GROWS { position & low_bits_at(position) } else { 0 }
}

/// Bit 63 is 1 where a number is not 0.
#[inline(always)]
fn sign_unless_zero(number: i32) -> u64 {
    u64::from((number | number.wrapping_neg()).cast_unsigned()) << 32
}

/// The position of the fine grid of type `V` that is nearest to `position`.
#[inline(always)]
pub(crate) fn on_grid_of<V: Value>(position: i32) -> i32 {
    if V::SPACING_GROWS { on_grid(position) } else { position }
}

/// Moves positions to the nearest ones of the fine grid of type `V`.
#[inline(always)]
pub(crate) fn to_grid<V: Value>(positions: &mut [i32]) {
    if !V::SPACING_GROWS {
        return;
    }
    // Few chunks have such large positions.
    let magnitudes = positions.iter().fold(0, |all, &position| all | position.unsigned_abs());
    if magnitudes >= SPACING_GROWS_FROM[0].unsigned_abs() {
        for position in positions {
            *position = on_grid(*position);
        }
    }
}

/// A prediction, moved to the nearest multiple of the distance that positions have at `nearest`. `nearest` is the position of the
/// value. So a value on the grid is a whole number of these distances away.
#[inline(always)]
pub(crate) fn aligned<V: Value>(prediction: i32, nearest: i32) -> i32 {
    if V::SPACING_GROWS { without_low_bits(prediction, low_bits_at(nearest)) } else { prediction }
}

/// Whether a residual of interpolation is an escape.
#[inline(always)]
pub(crate) fn is_escape(residual: i32) -> bool {
    residual.unsigned_abs() >= ESCAPE_FROM.unsigned_abs()
}

/// What a residual of 1 is worth on a level of a chunk (FORMAT.md §6.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Worth {
    /// In positions.
    positions: i32,
    /// Residuals per step.
    per_step: f64,
}

impl Worth {
    /// A step.
    pub(crate) const STEP: Self = Self::of(POSITIONS_PER_STEP);

    /// This many positions.
    #[inline(always)]
    pub(crate) const fn of(positions: i32) -> Self {
        Self { positions, per_step: POSITIONS_PER_STEP as f64 / positions as f64 }
    }

    /// Whether this is a step.
    #[inline(always)]
    pub(crate) fn is_step(self) -> bool {
        self.positions == POSITIONS_PER_STEP
    }

    /// Positions that a residual of 1 is worth, and residuals per step.
    #[inline(always)]
    pub(crate) fn parts(self) -> (i32, f64) {
        (self.positions, self.per_step)
    }

    /// What a residual of 1 is worth at a prediction: a step where not all positions are on the grid of type `V`.
    #[inline(always)]
    pub(crate) fn at<V: Value>(self, prediction: i32) -> Self {
        let is_coarse = V::SPACING_GROWS && prediction.unsigned_abs() >= SPACING_GROWS_FROM[0].unsigned_abs();
        if is_coarse { Self::STEP } else { self }
    }

    /// The position to which a residual leads from a prediction. The residual is no escape. The position is not moved to the fine
    /// grid yet.
    #[inline(always)]
    pub(crate) fn position_from<V: Value>(self, prediction: i32, residual: i32) -> i32 {
        prediction.wrapping_add(residual.wrapping_mul(self.at::<V>(prediction).positions))
    }

    /// The position to which a residual or an escape leads from a prediction. The position is not moved to the fine grid yet.
    #[inline(always)]
    pub(crate) fn position_of<V: Value>(self, prediction: i32, residual: i32) -> i32 {
        if is_escape(residual) {
            prediction.wrapping_add(residual.wrapping_sub(ESCAPE_BASE))
        } else {
            self.position_from::<V>(prediction, residual)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain::Plain;
    use super::*;

    fn in_both_types(check_f32: impl Fn(FineGrid<f32>, Plain, i32), check_f64: impl Fn(FineGrid<f64>, Plain, i32)) {
        for bound in [1e-3, 0.5, 0.1, 123.456, 7e-20, 1e27] {
            check_f32(FineGrid::new(&Quantizer::new(bound)), Plain { bound, steps_limit: 1 << 22 }, (1 << 25) - 4);
            check_f64(FineGrid::new(&Quantizer::new(bound)), Plain { bound, steps_limit: 1 << 22 }, (1 << 25) - 4);
        }
    }

    #[test]
    fn positions_have_the_values_of_the_format_and_keep_them() {
        fn check<V: Value>(fine: FineGrid<V>, plain: Plain, limit: i32) {
            for position in
                (-limit..limit).step_by(limit as usize / 1000).chain(-20..20).chain([i32::MIN, i32::MAX - 3, i32::MAX])
            {
                assert_eq!(fine.value(position), plain.value(position), "{position} at {plain:?}");
                // From 2^18 on, rounding to binary32 may hide that a value is on its position.
                let is_found = !V::SPACING_GROWS || on_grid(position) == position && position.unsigned_abs() < 1 << 18;
                if position.unsigned_abs() <= limit.unsigned_abs() && is_found {
                    let value = fine.restore(position);
                    assert_eq!(fine.position(value), Some((position, true)), "{position} at {plain:?}");
                    assert_eq!(fine.is_between_steps(value), position % 8 != 0, "{position} at {plain:?}");
                }
            }
        }
        in_both_types(check, check);
    }

    #[test]
    fn edge_values_are_on_the_positions_that_the_format_says() {
        fn check<V: Value>(fine: FineGrid<V>, plain: Plain, limit: i32) {
            let numbers =
                [0.0, -0.0, 5e-324, -1e-40, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 1e30];
            let edges =
                [limit, limit + 3, limit + 4].into_iter().flat_map(|position| [plain.value(position), plain.value(-position)]);
            let between = [0.25, 0.5, 4.5 / 8.0 * 1020.0 / 1021.0].into_iter().map(|steps| steps * 2.0 * plain.bound);
            for value in numbers.into_iter().chain(edges).chain(between).map(V::round_from) {
                assert_eq!(fine.position(value), plain.position(value), "{:e} at {plain:?}", value.to_f64());
                let steps = (value.to_f64() * (1.0 / (2.0 * plain.bound))).round_ties_even();
                let sign = fine.between_steps_sign(value, steps) >> 63 == 1;
                assert_eq!(sign, fine.is_between_steps(value), "{:e} at {plain:?}", value.to_f64());
            }
        }
        in_both_types(check, check);
    }

    #[test]
    fn only_wide_types_and_safe_steps_have_a_fine_grid() {
        use crate::number::small_float::{BFloat16, Binary16};
        assert!(Quantizer::new(0.5).fine::<f32>().is_some() && Quantizer::new(0.5).fine::<f64>().is_some());
        assert!(Quantizer::new(0.5).fine::<Binary16>().is_none() && Quantizer::new(0.5).fine::<BFloat16>().is_none());
        assert!(Quantizer::exact(1.0).fine::<f32>().is_none(), "a lattice's");
        assert!(Quantizer::new(0.4e-28).fine::<f32>().is_none() && Quantizer::new(0.6e-28).fine::<f32>().is_some());
        assert!(Quantizer::new(0.4e-290).fine::<f64>().is_none() && Quantizer::new(0.6e-290).fine::<f64>().is_some());
        let none = FineGrid::<f32>::new(&Quantizer::exact(1.0));
        assert!(!none.is_enabled());
        assert_eq!(none.between_steps_sign(none.restore(3), 0.0) >> 63, 0, "no value is on a position");
    }

    #[test]
    fn residuals_lead_to_the_positions_of_the_format() {
        for (prediction, residual, position) in [
            (5, 0, 5),
            (5, -3, -19),
            (0, 65_535, 524_280),
            (0, -65_535, -524_280),
            (10, 65_536, 10 - 32_768),
            (10, 98_304, 10),
            (10, 98_304 + 32_767, 10 + 32_767),
            (i32::MAX, 1, i32::MIN + 7),
            (0, -65_536, -163_840),
        ] {
            assert_eq!(Worth::STEP.position_of::<f32>(prediction, residual), position, "{residual} from {prediction}");
        }
        for (prediction, in_f32, in_f64) in [(8191, 8197, 8197), (-8191, -8185, -8185), (8192, 8208, 8198), (-8192, -8176, -8186)]
        {
            assert_eq!(Worth::of(3).position_of::<f32>(prediction, 2), in_f32);
            assert_eq!(Worth::of(3).position_of::<f64>(prediction, 2), in_f64);
            assert_eq!(Worth::of(3).position_of::<f32>(prediction, -98_304), prediction - 196_608);
        }
    }

    #[test]
    fn rows_of_any_length_are_restored() {
        fn check<V: Value>() {
            let fine = FineGrid::<V>::new(&Quantizer::new(1e-3));
            for (len, order) in (0..70).flat_map(|len| [ByteOrder::Little, ByteOrder::Big].map(|order| (len, order))) {
                let positions: Vec<i32> = (0..len as i32).map(|index| 37 * index - 1000).collect();
                let [evens, odds] = [0, 1].map(|from| positions.iter().copied().skip(from).step_by(2).collect::<Vec<i32>>());
                // The value behind a row keeps its bytes.
                let mut row = vec![7; (len + 1) * V::SIZE];
                fine.write_values(&evens, &odds, order, &mut row);
                for (index, &position) in positions.iter().enumerate() {
                    assert!(V::read(&row, index, order).to_bits() == fine.restore(position).to_bits(), "{index} of {len}");
                }
                assert_eq!(row[len * V::SIZE..], vec![7; V::SIZE], "{len} values");
            }
        }
        check::<f32>();
        check::<f64>();
    }
}
