//! Codes and residuals of binary32 values in binary32 arithmetic, in less than half the time that binary64 takes. A result is accepted only where it is certain
//! that binary64 gives the same one; binary64 decides all others, so that no byte of a stream depends on this module.
//!
//! Results are marked: bit 31 of a mark is 1 where binary64 must decide. The bits of two numbers that are not negative, read as integers, compare as the
//! numbers do; those of NaN are larger than all others. So two numbers are compared by subtracting their bits: the difference has the sign bit 1 if the second
//! is larger. Vector units gather sign bits more easily than truth values.
//!
//! Comments in this module give errors in steps. If a value has `x` steps, its product with the inverse step is off by up to `2^-23 x`: half of that comes from
//! rounding the inverse step, half from rounding the product. Rounding a restored value to binary32 adds up to `2^-24 x`.

use std::slice;

use crate::fast_paths::{Path, is_open};
use crate::number::integer::Integer as _;
use crate::number::rounding::ROUNDING_F32;
use crate::number::value::Value;
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACING, SPACINGS_PER_STEP};
use crate::quantize::quantizer::Quantizer;
use crate::simd::ROW_GROUP;

/// The least step, in the data's unit. Steps from this to its inverse, and their inverses, are well inside the range of binary32's normal numbers.
pub const SMALLEST_STEP: f64 = 1e-28;
/// Bound of the relative errors of product and restored value together: up to 2^-23 of the product, and up to 2^-24 of the restored value's rounding.
pub const MAX_RELATIVE_ERROR: f32 = 1.0 / 4_194_304.0; // 2^-22
/// A value of `x` steps may be on a position if its computed distance from it, in spacings, is less than `x` times this, plus [`POSITION_TOLERANCE`]. Product and
/// restored value together are off by up to `1.44e-6 x` spacings.
pub const POSITION_TOLERANCE_PER_STEP: f32 = 2e-6;
/// See [`POSITION_TOLERANCE_PER_STEP`]. Converting the distance from the nearest whole number of steps to spacings adds up to `4.8e-7` spacings. Not 0, so that
/// the value 0 may be on position 0.
pub const POSITION_TOLERANCE: f32 = 1e-6;
/// Magnitude, in steps, from which on a value is certain to be on no position between two steps.
pub const MIN_STEPS_OF_WHOLE_STEPS: f32 = 4097.0;
/// Magnitude, in steps, from which on a value is certain to be on no position but each second one; from twice this on, on no position but each fourth one.
pub const MIN_STEPS_OF_HALF_POSITIONS: f32 = 1025.0;
/// Magnitude, in steps, up to which every position within a step of a value is certain to be on the fine grid.
pub const MAX_STEPS_OF_ALL_POSITIONS: f32 = 1021.0;
/// Distance from the prediction, in steps, above which no residual is accepted.
pub const MAX_DISTANCE: f32 = 2048.0;
/// The residual of a value of `x` steps, `d` steps from its prediction, is not certain if its distance from a tie, in steps, is less than `x + d` times this, plus
/// [`TIE_MARGIN`]. Product and restored value together are off by up to `1.8e-7 x + 3e-8` steps, the two differences by up to `1.2e-7 (d + 1)`.
pub const TIE_MARGIN_PER_STEP: f32 = 2.5e-7;
/// See [`TIE_MARGIN_PER_STEP`].
pub const TIE_MARGIN: f32 = 1e-6;

/// Values of a group in slices whose length is a multiple of it: those that an AVX-512 register holds.
const WIDE_GROUP: usize = 16;

/// The inverse step of a grid, in binary32.
#[derive(Debug, Clone, Copy)]
pub struct FastF32 {
    inverse_step: f32,
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
    /// For the grid of a bound. `None` for steps outside [`SMALLEST_STEP`] to its inverse, and for lattices, whose bound is 0 and not half a step.
    #[must_use]
    pub fn new(quantizer: &Quantizer) -> Option<Self> {
        let step = quantizer.step();
        let has_path = (SMALLEST_STEP..1.0 / SMALLEST_STEP).contains(&step) && step == 2.0 * quantizer.bound();
        (has_path && is_open(Path::FastF32)).then(|| Self { inverse_step: quantizer.inverse_step() as f32 })
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
            between |= may_be_between_steps(scaled, miss);
        }
        FastResult { codes_are_certain: uncertain >> 31 == 0, may_be_between_steps: between >> 31 == 1 }
    }

    /// Writes residuals of values against predictions, and the positions that they lead to. Returns whether all results are certain. A value that may be
    /// on a position counts as uncertain here; [`FastF32::mark_uncertain`] looks at those more closely. All slices have one length.
    #[inline(always)]
    pub fn residuals<V: Value>(self, values: &[V], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        V::as_f32(values).is_some_and(
            #[inline(always)]
            |values| self.residuals_of_f32(values, predictions, residuals, positions),
        )
    }

    #[inline(always)]
    fn residuals_of_f32(self, values: &[f32], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        if values.len().is_multiple_of(WIDE_GROUP) {
            let (residuals, positions) = (residuals.as_chunks_mut().0, positions.as_chunks_mut().0);
            return self.residuals_of_groups::<WIDE_GROUP>(values.as_chunks().0, predictions.as_chunks().0, residuals, positions)
                >> 31
                == 0;
        }
        let mut mark = self.residuals_of_groups::<ROW_GROUP>(
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
            mark |= self.residuals_of_groups(slice::from_ref(values), slice::from_ref(predictions), residuals, positions);
        } else {
            for (((&value, &prediction), residual), position) in values.iter().zip(predictions).zip(residuals).zip(positions) {
                let mark_of_value;
                (*residual, *position, mark_of_value) = self.residual(value, prediction);
                mark |= mark_of_value;
            }
        }
        mark >> 31 == 0
    }

    /// Residuals and positions of whole groups, and one mark for all of their values.
    #[inline(always)]
    fn residuals_of_groups<const GROUP: usize>(
        self,
        values: &[[f32; GROUP]],
        predictions: &[[i32; GROUP]],
        residuals: &mut [[i32; GROUP]],
        positions: &mut [[i32; GROUP]],
    ) -> u32 {
        let mut marks = [0; GROUP];
        let targets = residuals.iter_mut().zip(positions);
        for ((values, predictions), (residuals, positions)) in values.iter().zip(predictions).zip(targets) {
            let found: [(i32, i32, u32); GROUP] = std::array::from_fn(|i| self.residual(values[i], predictions[i]));
            *residuals = found.map(|(residual, ..)| residual);
            *positions = found.map(|(_, position, _)| position);
            marks = std::array::from_fn(|i| marks[i] | found[i].2);
        }
        marks.into_iter().fold(0, |all, mark| all | mark)
    }

    /// Writes a mark for each value: bit 31 is 1 where the result of [`FastF32::residuals`] is not certain. A value that may be on a position is certain here
    /// if its residual leads to that position.
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
            let (_, position, uncertain, may_be_on_position) = self.residual_and_marks(value, prediction);
            let scaled = value * self.inverse_step;
            let steps = scaled + ROUNDING_F32;
            let rest = (scaled - (steps - ROUNDING_F32)) * SPACINGS_PER_STEP as f32 + ROUNDING_F32;
            let nearest = code_of(steps).wrapping_mul(POSITIONS_PER_STEP).wrapping_add(code_of(rest));
            // Only 0 is on position 0; other values are not, however close to 0 they are.
            let is_another = if nearest == 0 && value != 0.0 { 0 } else { sign_unless_zero(nearest.wrapping_sub(position)) };
            *mark = uncertain | may_be_on_position & is_another;
        }
    }

    /// Residual of a value, the position that it leads to, and the mark of both.
    #[inline(always)]
    fn residual(self, value: f32, prediction: i32) -> (i32, i32, u32) {
        let (residual, position, uncertain, may_be_on_position) = self.residual_and_marks(value, prediction);
        // Beyond `MAX_STEPS_OF_ALL_POSITIONS` the value is uncertain already.
        (residual, position, uncertain | may_be_on_position)
    }

    /// Residual of a value, the position that it leads to, and two marks: the residual is uncertain; the value may be on a position.
    #[inline(always)]
    fn residual_and_marks(self, value: f32, prediction: i32) -> (i32, i32, u32, u32) {
        let scaled = value * self.inverse_step;
        let miss = scaled - (scaled + ROUNDING_F32 - ROUNDING_F32);
        let predicted = prediction.wrapping_add(POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP.trailing_zeros();
        let rest = prediction.wrapping_sub(predicted.wrapping_mul(POSITIONS_PER_STEP));
        let distance = scaled - predicted as f32 - rest as f32 * SPACING as f32;
        let sum = distance + ROUNDING_F32;
        let residual = code_of(sum);
        let uncertain = above(scaled.abs(), MAX_STEPS_OF_ALL_POSITIONS)
            | above(distance.abs(), MAX_DISTANCE)
            | above(
                (distance - (sum - ROUNDING_F32)).abs() + (scaled.abs() + distance.abs()) * TIE_MARGIN_PER_STEP,
                0.5 - TIE_MARGIN,
            );
        let position = prediction.wrapping_add(residual.wrapping_mul(POSITIONS_PER_STEP));
        (residual, position, uncertain, may_be_on_position(scaled, miss))
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

/// Bit 31 is 1 where a value of `scaled` steps may be on a position of the fine grid between two steps. `miss` is its distance from the nearest whole number of
/// steps.
#[inline(always)]
fn may_be_between_steps(scaled: f32, miss: f32) -> u32 {
    // Far from 0 positions are farther apart, and values that are on one by chance are as rare.
    let apart = if scaled.abs() < MIN_STEPS_OF_HALF_POSITIONS { 1.0 } else { 0.5 };
    let apart = if scaled.abs() < 2.0 * MIN_STEPS_OF_HALF_POSITIONS { apart } else { 0.25 };
    may_be_on_position(scaled, miss * apart)
        & above(miss.abs() * SPACINGS_PER_STEP as f32, 0.5)
        & above(MIN_STEPS_OF_WHOLE_STEPS, scaled.abs())
}

/// Bit 31 is 1 where a value of `scaled` steps may be on a position, which may be one that the fine grid does not have. `miss` is its
/// distance from the nearest whole number of steps.
#[inline(always)]
fn may_be_on_position(scaled: f32, miss: f32) -> u32 {
    let rest = miss * SPACINGS_PER_STEP as f32;
    let off = (rest - (rest + ROUNDING_F32 - ROUNDING_F32)).abs();
    above(scaled.abs() * POSITION_TOLERANCE_PER_STEP + POSITION_TOLERANCE, off)
}

#[cfg(test)]
mod tests;
