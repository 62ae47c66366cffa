//! What arithmetic in f32 can tell for sure about values of type f32, in less than half the time that f64 takes. Where it cannot, it says so, and f64
//! decides: nothing of this reaches a stream.
//!
//! Errors below are in steps, for a value `x` of the given number of steps. Its product with the inverse step is off by up to `2^-23 x`, half of it for
//! the inverse step's own rounding; a value of type f32 is up to `2^-24 x` off what it was rounded from.

use std::slice;

use crate::number::integer::Integer as _;
use crate::number::rounding::ROUNDING_F32;
use crate::number::value::Value;
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACING, SPACINGS_PER_STEP};
use crate::quantize::quantizer::Quantizer;
use crate::simd::{ROW_GROUP, common_row, common_row_mut};

/// Steps from this to its inverse have all their digits in f32.
pub const SMALLEST_STEP: f64 = 1e-28;
/// Share of a value that errors of its product and of its restored value cannot reach.
pub const DOUBT_SHARE: f32 = 1.0 / 4_194_304.0; // 2^-22
/// A value that stands on a position is less than so many positions off it: errors of up to 2^-23 and 2^-24 of 513 steps, times eight positions a step, are below 0.000 8.
pub const STANDING: f32 = 1e-3;
/// Values of as many steps are certain to be out of the fine grid's reach,
pub const OUT_OF_REACH: f32 = 513.0;
/// and those of no more are certain to be in reach, together with any position within a step of them.
const IN_REACH: f32 = 509.0;
/// Distances from predictions are below 2048 steps, or no residual is certain; errors of the value's product and of two differences that long, and the
/// restored value's, are below 2^-14 + 2 * 2^-14 + 2^-15.
const FARTHEST: f32 = 2048.0;
/// A residual is certain if its distance is farther from a tie than this.
const TIE: f32 = 5e-4;

/// A grid's inverse step.
#[derive(Debug, Clone, Copy)]
pub struct FastF32 {
    inverse_step: f32,
}

/// What is known of some values.
#[derive(Debug, Clone, Copy)]
pub struct FastResult {
    /// Whether the codes are those that f64 finds, and hold the bound.
    pub codes_are_certain: bool,
    /// Whether one of the values may stand on a position of the fine grid between two steps.
    pub may_be_between_steps: bool,
}

impl FastResult {
    /// Where nobody has looked.
    pub const NOTHING: Self = Self { codes_are_certain: false, may_be_between_steps: true };
}

impl FastF32 {
    /// For the grid of a bound. `None` where f32 cannot hold its step with all digits, and for lattices, whose steps do not bound the error.
    #[must_use]
    pub fn new(quantizer: &Quantizer) -> Option<Self> {
        let step = quantizer.step();
        ((SMALLEST_STEP..1.0 / SMALLEST_STEP).contains(&step) && step == 2.0 * quantizer.bound())
            .then(|| Self { inverse_step: quantizer.inverse_step() as f32 })
    }

    /// Codes of values. Nothing is known of values of other types than `f32`.
    #[inline(always)]
    pub fn codes<V: Value>(self, values: &[V], codes: &mut [V::Code]) -> FastResult {
        match (V::as_f32(values), V::Code::as_i32(codes)) {
            (Some(values), Some(codes)) => self.codes_of_f32(values, codes),
            _ => FastResult::NOTHING,
        }
    }

    #[inline(always)]
    fn codes_of_f32(self, values: &[f32], codes: &mut [i32]) -> FastResult {
        let (mut doubts, mut standing) = (0u32, 0u32);
        for (value, code) in values.iter().zip(codes) {
            let scaled = value * self.inverse_step;
            let sum = scaled + ROUNDING_F32;
            let miss = scaled - (sum - ROUNDING_F32);
            *code = code_of(sum);
            doubts |= above(miss.abs() + scaled.abs() * DOUBT_SHARE, 0.5);
            standing |= may_be_between_steps(scaled, miss);
        }
        FastResult { codes_are_certain: doubts >> 31 == 0, may_be_between_steps: standing >> 31 == 1 }
    }

    /// Residuals of values and the positions that they lead to, if all are certain and no value may stand on another position.
    #[inline(always)]
    pub fn residuals<V: Value>(self, values: &[V], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        V::as_f32(values).is_some_and(
            #[inline(always)]
            |values| self.residuals_of_f32(values, predictions, residuals, positions),
        )
    }

    #[inline(always)]
    fn residuals_of_f32(self, values: &[f32], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        if let (Some(values), Some(predictions), Some(residuals), Some(positions)) =
            (common_row(values), common_row(predictions), common_row_mut(&mut *residuals), common_row_mut(&mut *positions))
        {
            return self.residuals_of_groups(values, predictions, residuals, positions) >> 31 == 0;
        }
        let mut doubts = self.residuals_of_groups(
            values.as_chunks().0,
            predictions.as_chunks().0,
            residuals.as_chunks_mut().0,
            positions.as_chunks_mut().0,
        );
        if values.len().is_multiple_of(ROW_GROUP) {
            return doubts >> 31 == 0;
        }
        if let (Some(values), Some(predictions), Some(residuals), Some(positions)) =
            (values.last_chunk(), predictions.last_chunk(), residuals.last_chunk_mut(), positions.last_chunk_mut())
        {
            // The last group ends with the last value and overlaps the group before it.
            let (residuals, positions) = (slice::from_mut(residuals), slice::from_mut(positions));
            doubts |= self.residuals_of_groups(slice::from_ref(values), slice::from_ref(predictions), residuals, positions);
        } else {
            for (((&value, &prediction), residual), position) in values.iter().zip(predictions).zip(residuals).zip(positions) {
                let doubt;
                (*residual, *position, doubt) = self.residual(value, prediction);
                doubts |= doubt;
            }
        }
        doubts >> 31 == 0
    }

    /// The same for groups; the highest bit says whether there is a doubt.
    #[inline(always)]
    fn residuals_of_groups(
        self,
        values: &[[f32; ROW_GROUP]],
        predictions: &[[i32; ROW_GROUP]],
        residuals: &mut [[i32; ROW_GROUP]],
        positions: &mut [[i32; ROW_GROUP]],
    ) -> u32 {
        let mut doubts = [0; ROW_GROUP];
        let targets = residuals.iter_mut().zip(positions);
        for ((values, predictions), (residuals, positions)) in values.iter().zip(predictions).zip(targets) {
            let found: [(i32, i32, u32); ROW_GROUP] = std::array::from_fn(|i| self.residual(values[i], predictions[i]));
            *residuals = found.map(|(residual, ..)| residual);
            *positions = found.map(|(_, position, _)| position);
            doubts = std::array::from_fn(|i| doubts[i] | found[i].2);
        }
        doubts.into_iter().fold(0, |doubts, doubt| doubts | doubt)
    }

    /// Which of these values are in doubt: the highest bits say so. Looks closer than [`FastF32::residuals`], at values that stand where they are to stand.
    #[inline(always)]
    pub fn doubts<V: Value>(self, values: &[V], predictions: &[i32], doubts: &mut [u32]) {
        match V::as_f32(values) {
            Some(values) => self.doubts_of_f32(values, predictions, doubts),
            None => doubts.fill(u32::MAX),
        }
    }

    #[inline(always)]
    fn doubts_of_f32(self, values: &[f32], predictions: &[i32], doubts: &mut [u32]) {
        for ((&value, &prediction), doubt) in values.iter().zip(predictions).zip(doubts) {
            let (_, position, uncertain, standing) = self.look(value, prediction);
            let scaled = value * self.inverse_step;
            let steps = scaled + ROUNDING_F32;
            let rest = (scaled - (steps - ROUNDING_F32)) * SPACINGS_PER_STEP as f32 + ROUNDING_F32;
            let nearest = code_of(steps).wrapping_mul(POSITIONS_PER_STEP).wrapping_add(code_of(rest));
            // On position 0 stands 0 alone, however close to it others are.
            let stands_elsewhere = if nearest == 0 && value != 0.0 { 0 } else { sign_of_any(nearest.wrapping_sub(position)) };
            *doubt = uncertain | standing & stands_elsewhere;
        }
    }

    /// Residual of a value, the position that it leads to, and, in the highest bit, whether they are in doubt.
    #[inline(always)]
    fn residual(self, value: f32, prediction: i32) -> (i32, i32, u32) {
        let (residual, position, uncertain, standing) = self.look(value, prediction);
        // Values out of reach stand nowhere, and are in doubt anyway.
        (residual, position, uncertain | standing)
    }

    /// The same, with what is in doubt in two: whether the residual is uncertain, and whether the value may stand on a position.
    #[inline(always)]
    fn look(self, value: f32, prediction: i32) -> (i32, i32, u32, u32) {
        let scaled = value * self.inverse_step;
        let miss = scaled - (scaled + ROUNDING_F32 - ROUNDING_F32);
        let predicted = prediction.wrapping_add(POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP.trailing_zeros();
        let beyond = prediction.wrapping_sub(predicted.wrapping_mul(POSITIONS_PER_STEP));
        let distance = scaled - predicted as f32 - beyond as f32 * SPACING as f32;
        let sum = distance + ROUNDING_F32;
        let residual = code_of(sum);
        let uncertain = above(scaled.abs(), IN_REACH)
            | above(distance.abs(), FARTHEST)
            | above((distance - (sum - ROUNDING_F32)).abs(), 0.5 - TIE);
        (residual, prediction.wrapping_add(residual.wrapping_mul(POSITIONS_PER_STEP)), uncertain, stands(miss))
    }
}

/// The highest bit says whether a number is not 0: it or its opposite is negative.
#[inline(always)]
fn sign_of_any(number: i32) -> u32 {
    (number | number.wrapping_neg()).cast_unsigned()
}

/// The code in the low bits of a sum.
#[inline(always)]
fn code_of(sum: f32) -> i32 {
    sum.to_bits().wrapping_sub(ROUNDING_F32.to_bits()).cast_signed()
}

/// The highest bit says whether a number that is not negative, or NaN, is above a limit: bits of such numbers order as the numbers do, NaN above all, and
/// vector units gather signs more easily than truth values.
#[inline(always)]
fn above(number: f32, limit: f32) -> u32 {
    limit.to_bits().wrapping_sub(number.to_bits())
}

/// The highest bit says whether a value of so many steps, off the nearest whole number by `miss`, may stand on a position of the fine grid between two whole
/// numbers.
#[inline(always)]
fn may_be_between_steps(scaled: f32, miss: f32) -> u32 {
    stands(miss) & above(miss.abs() * SPACINGS_PER_STEP as f32, 0.5) & above(OUT_OF_REACH, scaled.abs())
}

/// The highest bit says whether a value within reach, off the nearest whole number of steps by `miss`, may stand on a position of the fine grid.
#[inline(always)]
fn stands(miss: f32) -> u32 {
    let rest = miss * SPACINGS_PER_STEP as f32;
    let off = (rest - (rest + ROUNDING_F32 - ROUNDING_F32)).abs();
    above(STANDING, off)
}
