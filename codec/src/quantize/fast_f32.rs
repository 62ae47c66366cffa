//! Codes and residuals of binary32 values in binary32 arithmetic, which is faster than binary64. A result is accepted only where
//! it is certain that binary64 gives the same one. Binary64 decides all other results, so that no byte of a stream depends on
//! this module.
//!
//! Results are marked: bit 31 of a mark is 1 where binary64 must decide. The bits of two numbers that are not negative, read as
//! integers, compare as the numbers do. The bits of NaN are larger than those of every number. So two numbers are compared by the
//! difference of their bits: its highest bit is 1 if the second number is larger. Vector units gather such bits more easily than
//! truth values.
//!
//! Comments in this module give errors in steps. If a value has `x` steps, its product with the inverse step is off by up to `2^-23 x`: half of that comes from
//! rounding the inverse step, half from rounding the product. Rounding a restored value to binary32 adds up to `2^-24 x`.

use std::slice;

use crate::fast_paths::{Path, is_open};
use crate::number::integer::Integer as _;
use crate::number::rounding::ROUNDING_F32;
use crate::number::value::Value;
use crate::quantize::fine_grid::{ESCAPE_FROM, Worth};
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACING, SPACING_GROWS_FROM, SPACINGS_PER_STEP, without_low_bits};
use crate::quantize::quantizer::Quantizer;
use crate::simd::{ROW_GROUP, has_fused_multiply_add};

/// The least step, in the data's unit. Steps from this to its inverse, and their inverses, are well inside the range of binary32's normal numbers.
pub const SMALLEST_STEP: f64 = 1e-28;
/// Bound of the relative errors of product and restored value together: up to 2^-23 of the product, and up to 2^-24 of the restored value's rounding.
pub const MAX_RELATIVE_ERROR: f32 = 1.0 / 4_194_304.0; // 2^-22
/// A value of `x` steps may be on a position if its computed distance from the position is less than `x` times this, plus
/// [`POSITION_TOLERANCE`]. Distances are in spacings. Product and restored value together are off by up to `1.44e-6 x` spacings.
pub const POSITION_TOLERANCE_PER_STEP: f32 = 2e-6;
/// See [`POSITION_TOLERANCE_PER_STEP`]. This covers the error of converting a distance from steps to spacings, up to `4.8e-7`
/// spacings. It is above 0, so that the value 0 may be on position 0.
pub const POSITION_TOLERANCE: f32 = 1e-6;
/// Magnitude, in steps, from which on all positions of the fine grid are whole steps: no value is between two steps.
pub const MIN_STEPS_OF_WHOLE_STEPS: f32 = 4097.0;
/// Magnitude, in steps, from which on only every second position is on the fine grid. Used by kernels alone.
pub const MIN_STEPS_OF_HALF_POSITIONS: f32 = 1025.0;
/// [`POSITION_TOLERANCE_PER_STEP`] where the product has no rounding error. What is left is the rounding of the restored value to
/// binary32: up to `4.8e-7 x` spacings.
const EXACT_POSITION_TOLERANCE_PER_STEP: f32 = 5e-7;
/// A value of `x` steps, `d` steps from its prediction, has a certain residual on the near path only if `x + d` is at most this.
/// Then all positions within a step of the value and of its prediction are on the fine grid.
pub const MAX_STEPS_OF_ALL_POSITIONS: f32 = 1021.0;
/// The far path's limit of `x + d`, as [`MAX_STEPS_OF_ALL_POSITIONS`] is the near path's. Above it, too many residuals are near a tie.
const MAX_FAR_STEPS: f32 = 32_768.0;
/// The largest magnitude of a position that the near path may lead to.
const MAX_NEAR_POSITION: u32 = MAX_STEPS_OF_ALL_POSITIONS as u32 * POSITIONS_PER_STEP.unsigned_abs();
/// Binary logarithm of the magnitude, in steps, from which on only every second position is on the fine grid. The spacing doubles
/// again at twice and at four times this magnitude.
const COARSER_FROM_LOG2: i32 = {
    let [two, four, eight] = SPACING_GROWS_FROM;
    let steps = two / POSITIONS_PER_STEP;
    assert!(steps.count_ones() == 1 && four == 2 * two && eight == 4 * two);
    steps.ilog2().cast_signed()
};
/// The residual of a value of `x` steps, `d` steps from its prediction, is uncertain if its distance from a tie, in steps, is
/// less than `x + d` times this, plus [`TIE_MARGIN`]. All rounding errors together are at most `1.8e-7 (x + d) + 1.5e-7` steps.
pub const TIE_MARGIN_PER_STEP: f32 = 2.5e-7;
/// See [`TIE_MARGIN_PER_STEP`].
pub const TIE_MARGIN: f32 = 1e-6;

/// Number of values that an AVX-512 register holds. Slices whose length is a multiple of this number are taken in groups of this
/// size.
const WIDE_GROUP: usize = 16;

/// The inverse step of a grid in binary32, and what a residual of 1 is worth.
#[derive(Debug, Clone, Copy)]
pub struct FastF32 {
    inverse_step: f32,
    /// The inverse step less [`FastF32::inverse_step`].
    inverse_rest: f32,
    /// In positions.
    worth: i32,
    /// Residuals per step.
    per_step: f32,
    /// [`TIE_MARGIN_PER_STEP`], in residuals.
    tie_margin_per_step: f32,
    /// Distance from the nearest whole residual up to which a residual may be certain: half a residual less [`TIE_MARGIN`].
    half_less_margin: f32,
}

/// What binary32 finds out about the values of one call.
#[derive(Debug, Clone, Copy)]
pub struct FastResult {
    /// Whether it is certain that all codes are those of binary64 and hold the bound. If false, codes may be wrong or unwritten.
    pub codes_are_certain: bool,
    /// Whether one of the values may be on a position of the fine grid between two steps.
    pub may_be_between_steps: bool,
}

impl FastResult {
    /// The result where binary32 was not tried.
    pub const NOTHING: Self = Self { codes_are_certain: false, may_be_between_steps: true };
}

impl FastF32 {
    /// The fast path of a grid. `None` for steps outside [`SMALLEST_STEP`] to its inverse, for lattices, whose step is not twice
    /// the bound, and where the processor does not multiply and add in one instruction.
    #[must_use]
    pub fn new(quantizer: &Quantizer) -> Option<Self> {
        let step = quantizer.step();
        let has_path = (SMALLEST_STEP..1.0 / SMALLEST_STEP).contains(&step) && step == 2.0 * quantizer.bound();
        (has_path && has_fused_multiply_add() && is_open(Path::FastF32)).then(|| {
            let inverse_step = quantizer.inverse_step() as f32;
            Self::with(inverse_step, (quantizer.inverse_step() - f64::from(inverse_step)) as f32, Worth::STEP)
        })
    }

    /// This grid with another worth of a residual.
    #[inline(always)]
    pub(crate) fn with_worth(self, worth: Worth) -> Self {
        Self::with(self.inverse_step, self.inverse_rest, worth)
    }

    #[inline(always)]
    fn with(inverse_step: f32, inverse_rest: f32, worth: Worth) -> Self {
        let (worth, per_step) = worth.parts();
        let per_step = per_step as f32;
        Self {
            inverse_step,
            inverse_rest,
            worth,
            per_step,
            tie_margin_per_step: TIE_MARGIN_PER_STEP * per_step,
            half_less_margin: 0.5 - TIE_MARGIN * per_step,
        }
    }

    /// Writes the codes of values. Values of other types than `f32` have no code here: the result is [`FastResult::NOTHING`].
    #[inline(always)]
    pub fn codes<V: Value>(self, values: &[V], codes: &mut [V::Code]) -> FastResult {
        match (V::as_f32(values), V::Code::as_i32(codes)) {
            (Some(values), Some(codes)) => self.codes_of_f32(values, codes),
            _ => FastResult::NOTHING,
        }
    }

    /// [`FastF32::codes`] for values of type `f32`. No code above 2^21 is certain: [`MAX_RELATIVE_ERROR`] times the code is more than half a step then.
    #[inline(always)]
    fn codes_of_f32(self, values: &[f32], codes: &mut [i32]) -> FastResult {
        let (mut uncertain, mut between) = (0u32, 0u32);
        for (value, code) in values.iter().zip(codes) {
            let scaled = value * self.inverse_step;
            let sum = scaled + ROUNDING_F32;
            let miss = scaled - (sum - ROUNDING_F32);
            *code = code_of(sum);
            uncertain |= above(miss.abs() + scaled.abs() * MAX_RELATIVE_ERROR, 0.5);
            // What the product lost by rounding.
            let lost = value.mul_add(self.inverse_rest, value.mul_add(self.inverse_step, -scaled));
            between |= may_be_between_steps(scaled.abs(), miss + lost);
        }
        FastResult { codes_are_certain: uncertain >> 31 == 0, may_be_between_steps: between >> 31 == 1 }
    }

    /// Writes residuals of values against predictions, and the positions that the residuals lead to. Returns whether all results
    /// are certain. All slices have one length. A value that may be on a position counts as uncertain;
    /// [`FastF32::mark_uncertain`] looks at it more closely. The far path is certain of more results than the near path, but
    /// takes longer. So the near path comes first, unless the first prediction is far.
    #[inline(always)]
    pub fn residuals<V: Value>(self, values: &[V], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        V::as_f32(values).is_some_and(
            #[inline(always)]
            |values| {
                // Neighbours have about equal magnitudes.
                let is_far = predictions.first().is_some_and(|first| first.unsigned_abs() > MAX_NEAR_POSITION);
                !is_far && self.residuals_of_f32::<false>(values, predictions, residuals, positions)
                    || self.residuals_of_f32::<true>(values, predictions, residuals, positions)
            },
        )
    }

    #[inline(always)]
    fn residuals_of_f32<const FAR: bool>(
        self,
        values: &[f32],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) -> bool {
        if values.len().is_multiple_of(WIDE_GROUP) {
            let (residuals, positions) = (residuals.as_chunks_mut().0, positions.as_chunks_mut().0);
            return self.residuals_of_groups::<FAR, WIDE_GROUP>(
                values.as_chunks().0,
                predictions.as_chunks().0,
                residuals,
                positions,
            ) >> 31
                == 0;
        }
        let mut mark = self.residuals_of_groups::<FAR, ROW_GROUP>(
            values.as_chunks().0,
            predictions.as_chunks().0,
            residuals.as_chunks_mut().0,
            positions.as_chunks_mut().0,
        );
        if values.len().is_multiple_of(ROW_GROUP) {
            return mark >> 31 == 0;
        }
        if let (Some(values), Some(predictions), Some(residuals), Some(positions)) =
            (values.last_chunk::<ROW_GROUP>(), predictions.last_chunk(), residuals.last_chunk_mut(), positions.last_chunk_mut())
        {
            // The last group ends with the last value and overlaps the group before it.
            let (residuals, positions) = (slice::from_mut(residuals), slice::from_mut(positions));
            mark |= self.residuals_of_groups::<FAR, ROW_GROUP>(
                slice::from_ref(values),
                slice::from_ref(predictions),
                residuals,
                positions,
            );
        } else {
            for (((&value, &prediction), residual), position) in values.iter().zip(predictions).zip(residuals).zip(positions) {
                let mark_of_value;
                (*residual, *position, mark_of_value) = self.residual::<FAR>(value, prediction);
                mark |= mark_of_value;
            }
        }
        mark >> 31 == 0
    }

    /// Residuals and positions of whole groups, and one mark for all of their values.
    #[inline(always)]
    fn residuals_of_groups<const FAR: bool, const GROUP: usize>(
        self,
        values: &[[f32; GROUP]],
        predictions: &[[i32; GROUP]],
        residuals: &mut [[i32; GROUP]],
        positions: &mut [[i32; GROUP]],
    ) -> u32 {
        let mut marks = [0; GROUP];
        let targets = residuals.iter_mut().zip(positions);
        for ((values, predictions), (residuals, positions)) in values.iter().zip(predictions).zip(targets) {
            // A loop: `array::from_fn` may not be inlined, and would then be compiled for the baseline.
            for i in 0..GROUP {
                let mark;
                (residuals[i], positions[i], mark) = self.residual::<FAR>(values[i], predictions[i]);
                marks[i] |= mark;
            }
        }
        marks.into_iter().fold(0, |all, mark| all | mark)
    }

    /// Writes a mark for each value: bit 31 is 1 where the result of [`FastF32::residuals`] is uncertain. A value that may be on
    /// a position is not marked for that if its residual leads to the position.
    #[inline(always)]
    pub fn mark_uncertain<V: Value>(self, values: &[V], predictions: &[i32], marks: &mut [u32]) {
        match V::as_f32(values) {
            Some(values) => self.mark_uncertain_f32(values, predictions, marks),
            None => marks.fill(u32::MAX),
        }
    }

    #[inline(always)]
    fn mark_uncertain_f32(self, values: &[f32], predictions: &[i32], marks: &mut [u32]) {
        for ((&value, &prediction), mark) in values.iter().zip(predictions).zip(marks) {
            let found = self.residual_and_marks::<true>(value, prediction);
            // Only 0 is on position 0; other values are not, however close to 0 they are.
            let is_another =
                if found.nearest == 0 && value != 0.0 { 0 } else { sign_unless_zero(found.nearest.wrapping_sub(found.position)) };
            *mark = found.uncertain | found.may_be_on_nearest & is_another;
        }
    }

    /// Residual of a value, the position that it leads to, and the mark of both.
    #[inline(always)]
    fn residual<const FAR: bool>(self, value: f32, prediction: i32) -> (i32, i32, u32) {
        let found = self.residual_and_marks::<FAR>(value, prediction);
        (found.residual, found.position, found.uncertain | found.may_be_on_nearest)
    }

    /// Residual of a value, and what is known of it. The near path takes all positions to be on the fine grid. Its distances are
    /// too short for escapes.
    #[inline(always)]
    fn residual_and_marks<const FAR: bool>(self, value: f32, prediction: i32) -> Found {
        let scaled = value * self.inverse_step;
        let nearest_steps = scaled + ROUNDING_F32;
        let miss = scaled - (nearest_steps - ROUNDING_F32);
        let Zone { low_bits, share, is_beside_border } = if FAR { Zone::at(scaled.abs()) } else { Zone::NEAR };
        let aligned = without_low_bits(prediction, low_bits);
        let predicted = aligned.wrapping_add(POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP.trailing_zeros();
        let rest = aligned.wrapping_sub(predicted.wrapping_mul(POSITIONS_PER_STEP));
        let distance = scaled - predicted as f32 - rest as f32 * SPACING as f32;
        let is_step = FAR && prediction.unsigned_abs() >= SPACING_GROWS_FROM[0].unsigned_abs();
        let (worth, per_step) = if is_step { (POSITIONS_PER_STEP, 1.0) } else { (self.worth, self.per_step) };
        let in_residuals = distance * per_step;
        let sum = in_residuals + ROUNDING_F32;
        let residual = code_of(sum);
        let position = aligned.wrapping_add(residual.wrapping_mul(worth));
        let reach = scaled.abs() + distance.abs();
        let uncertain = above(reach, if FAR { MAX_FAR_STEPS } else { MAX_STEPS_OF_ALL_POSITIONS })
            | above((in_residuals - (sum - ROUNDING_F32)).abs() + reach * self.tie_margin_per_step, self.half_less_margin)
            | is_beside_border
            | if FAR { above(in_residuals.abs(), (ESCAPE_FROM - 1) as f32) } else { 0 }
            | sign_unless_zero(position & low_bits);
        // In units of the distance between neighbouring positions of the grid at the value.
        let rest = miss * (SPACINGS_PER_STEP as f32 * share);
        let nearest_rest = rest + ROUNDING_F32;
        let off = (rest - (nearest_rest - ROUNDING_F32)).abs();
        let may_be_on_nearest = above((scaled.abs() * POSITION_TOLERANCE_PER_STEP + POSITION_TOLERANCE) * share, off);
        let nearest = code_of(nearest_steps).wrapping_mul(POSITIONS_PER_STEP) + code_of(nearest_rest) * (low_bits + 1);
        Found { residual, position, uncertain, nearest, may_be_on_nearest }
    }
}

/// What binary32 finds of a value and its prediction. Bit 31 of the last two marks counts.
#[derive(Clone, Copy)]
struct Found {
    residual: i32,
    position: i32,
    /// The position of the fine grid that is nearest to the value.
    nearest: i32,
    /// The residual is uncertain.
    uncertain: u32,
    /// The value may be on its nearest position.
    may_be_on_nearest: u32,
}

/// Magnitudes at which the fine grid has equally distant positions.
#[derive(Clone, Copy)]
struct Zone {
    /// The distance of neighbouring positions, less 1.
    low_bits: i32,
    /// One over the distance.
    share: f32,
    /// Bit 31 is 1 within a step of another zone.
    is_beside_border: u32,
}

impl Zone {
    /// The zone of all positions, without its border.
    const NEAR: Self = Self { low_bits: 0, share: 1.0, is_beside_border: 0 };

    /// The zone of a magnitude, in steps.
    #[inline(always)]
    fn at(magnitude: f32) -> Self {
        const FRACTION_BITS: u32 = f32::MANTISSA_DIGITS - 1;
        const BIAS: i32 = 127;
        let logarithm = (magnitude.to_bits() >> FRACTION_BITS).cast_signed() - BIAS;
        let doublings = (logarithm - (COARSER_FROM_LOG2 - 1)).clamp(0, 3);
        let share = f32::from_bits((BIAS - doublings).cast_unsigned() << FRACTION_BITS);
        // Borders are powers of two. A comparison of logarithms is in bit 31 of their difference.
        let power = f32::from_bits(magnitude.to_bits() >> FRACTION_BITS << FRACTION_BITS);
        let has_border_below = (COARSER_FROM_LOG2 - 1 - logarithm).cast_unsigned();
        let has_border_above = (COARSER_FROM_LOG2 - 2 - logarithm).cast_unsigned();
        let is_beside_border =
            above(1.0, magnitude - power) & has_border_below | above(1.0, 2.0 * power - magnitude) & has_border_above;
        Self { low_bits: (1 << doublings) - 1, share, is_beside_border }
    }
}

/// Bit 31 is 1 where a number is not 0: then it or its opposite is negative.
#[inline(always)]
fn sign_unless_zero(number: i32) -> u32 {
    (number | number.wrapping_neg()).cast_unsigned()
}

/// The integer to which a number has been rounded by adding [`ROUNDING_F32`] to it: the bits of the sum minus those of [`ROUNDING_F32`].
#[inline(always)]
fn code_of(sum: f32) -> i32 {
    sum.to_bits().wrapping_sub(ROUNDING_F32.to_bits()).cast_signed()
}

/// Bit 31 is 1 if `number` is above `limit`, or NaN. Neither may be negative.
#[inline(always)]
fn above(number: f32, limit: f32) -> u32 {
    limit.to_bits().wrapping_sub(number.to_bits())
}

/// Bit 31 is 1 where a value may be on a position of the fine grid between two steps. `magnitude` is the value's magnitude in
/// steps, `miss` its distance from the nearest whole number of steps.
#[inline(always)]
fn may_be_between_steps(magnitude: f32, miss: f32) -> u32 {
    let rest = miss * SPACINGS_PER_STEP as f32;
    let off = (rest - (rest + ROUNDING_F32 - ROUNDING_F32)).abs();
    above(magnitude * EXACT_POSITION_TOLERANCE_PER_STEP + POSITION_TOLERANCE, off)
        & above(rest.abs(), 0.5)
        & above(MIN_STEPS_OF_WHOLE_STEPS, magnitude)
}

#[cfg(test)]
mod tests;
