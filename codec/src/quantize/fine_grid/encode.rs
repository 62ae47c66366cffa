//! Values → residuals on the fine grid (FORMAT.md §5.2, rules 1 to 4 of the encoder), the positions that these lead to, and exceptions.
//!
//! A call takes a part of at most 64 values. There are three ways to encode. The first two take all values of a part at once,
//! without a branch for each value. The third takes one value by the rules. Where the first or the second way is certain of a
//! result, the third would give the same result.
//!
//! ```text
//! encode_fast      computes in the type of the values; returns false if a result is not certain, or if there is no fast path
//! encode_and_mark  computes in f64, as if no residual were an escape; marks results that may be wrong
//! encode_one       computes in f64, by the rules
//! ```
//!
//! `encode` takes these steps, and ends when all results are certain:
//!
//! 1. `encode_fast` encodes the part, unless `had_excluded` is set.
//! 2. If a value is a masked fill, or `had_excluded` is set, the part is searched for excluded values. If it has some, it is
//!    encoded with other values in their place, and no step follows. If it has none, `encode_fast` encodes it.
//! 3. `FastF32::mark_uncertain` marks results of a fast path in f32. Without such a path, `encode_and_mark` encodes the part.
//! 4. If more than [`MAX_MARKED_VALUES`] results are marked, the part is searched as in step 2. If it has no excluded values and
//!    the marks are those of f32, `encode_and_mark` encodes it.
//! 5. `encode_one` encodes the values of marked results.
//!
//! Bit 31 of a mark is 1 where a result may be wrong; the other bits mean nothing. Excluded values, such as masked fills, come in
//! regions. Without replacements, each of them would need `encode_one`.

use super::{
    ESCAPE_BASE, ESCAPE_FROM, FineGrid, aligned, is_escape, off_grid, on_grid_of, position_at, sign_unless_zero, to_grid,
};
use crate::fast_paths::{Path, is_open};
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::ones;
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACINGS_PER_STEP};
use crate::simd::{ROW_GROUP, vectorized};

/// If a part has more marked values than this, it is searched for excluded values before any value is encoded alone.
const MAX_MARKED_VALUES: u32 = 4;
/// The fast path in f64 is certain of a result only if a small error cannot change it. The value's distance from its prediction, in steps, must differ by at
/// least this from every tie (0.5, 1.5, and so on). The value must be on no position: its distance from its nearest whole number of steps, in spacings, must
/// differ by at least this from every whole number. Rounding errors are far smaller, as the value has fewer than 2^22 steps and the distance fewer than 65536.
const F64_MARGIN: f64 = 1e-6;
/// The largest number of values that one call of [`FineGrid::encode`] takes: each has a bit in the `u64` that it returns.
pub const MAX_VALUES_PER_CALL: usize = 64;

impl<V: Value> FineGrid<V> {
    /// Whether the fast path is for [`MAX_VALUES_PER_CALL`] values only, and not for fewer. This holds for types of 64 bits.
    pub const FAST_PATH_NEEDS_WHOLE_PARTS: bool = V::SIZE == size_of::<f64>();

    /// Encodes values against predictions on the fast path. Returns true if all results are certain and there is no exception; otherwise residuals and
    /// positions may be unwritten or wrong. All slices have one length.
    #[inline(always)]
    fn encode_fast(&self, values: &[V], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        !self.has_fills(values)
            && match self.fast_f32 {
                Some(fast_f32) => fast_f32.residuals(values, predictions, residuals, positions),
                None => self.encode_fast_in_f64(values, predictions, residuals, positions),
            }
    }

    /// Encodes at most [`MAX_VALUES_PER_CALL`] values against predictions. Writes residuals and positions, and returns a bit for each value: 1 for an
    /// exception. The first value's bit is the lowest. An exception has residual 0, and its prediction as position, moved to the grid. All slices have
    /// one length.
    ///
    /// `had_excluded` goes from one call to the next. It is set if a search found excluded values, and cleared if it found none. If it is set,
    /// the next call searches first.
    #[inline(always)]
    pub fn encode(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        had_excluded: &mut bool,
    ) -> u64 {
        if !*had_excluded && self.encode_fast(values, predictions, residuals, positions) {
            return 0;
        }
        if *had_excluded || self.has_fills(values) {
            let excluded = self.search_excluded(values, had_excluded);
            if excluded != 0 {
                return self.encode_with_excluded(values, excluded, predictions, residuals, positions);
            }
            // No value is excluded, and so none is a masked fill: step 1 was left out.
            if self.encode_fast(values, predictions, residuals, positions) {
                return 0;
            }
        }
        let mut marks = [0; MAX_VALUES_PER_CALL];
        let marks = &mut marks[..values.len()];
        match self.fast_f32 {
            Some(fast_f32) => fast_f32.mark_uncertain(values, predictions, marks),
            None => self.encode_and_mark(values, predictions, residuals, positions, marks),
        }
        // A value without a mark has its result already, from `encode_and_mark` or from `encode_fast`. Most parts that come here
        // have one marked value.
        if count(marks) > MAX_MARKED_VALUES {
            let excluded = self.search_excluded(values, had_excluded);
            if excluded != 0 {
                return self.encode_with_excluded(values, excluded, predictions, residuals, positions);
            }
            // f64 marks fewer values than f32.
            if self.fast_f32.is_some() {
                self.encode_and_mark(values, predictions, residuals, positions, marks);
            }
        }
        self.encode_marked(values, predictions, residuals, positions, marks)
    }

    /// Returns a bit for each value, the first value's lowest: 1 for an excluded value. Sets `had_excluded` if there is one, and clears it if not.
    #[inline(always)]
    fn search_excluded(&self, values: &[V], had_excluded: &mut bool) -> u64 {
        let excluded = self.excluded.bits(values);
        *had_excluded = excluded != 0;
        excluded
    }

    /// Encodes values of which some are excluded. `excluded` has a bit for each value, 1 for an excluded value. Excluded values
    /// are exceptions.
    #[inline(never)]
    fn encode_with_excluded(
        &self,
        values: &[V],
        excluded: u64,
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) -> u64 {
        let mut replaced = [V::default(); MAX_VALUES_PER_CALL];
        let replaced = &mut replaced[..values.len()];
        let mut marks = [0; MAX_VALUES_PER_CALL];
        let marks = &mut marks[..values.len()];
        vectorized(
            #[inline(always)]
            || {
                if excluded == u64::MAX >> (MAX_VALUES_PER_CALL - values.len()) {
                    residuals.fill(0);
                    positions.copy_from_slice(predictions);
                    to_grid::<V>(positions);
                    return;
                }
                // A replacement is about a quarter of a spacing above its prediction, and on no position. So its residual is 0,
                // and the fast path is certain of it unless the prediction is near the limit. If `encode_fast` returns false, the
                // loop below sets the results of all replacements.
                let eighth = self.step / f64::from(POSITIONS_PER_STEP);
                for ((other, &value), &prediction) in replaced.iter_mut().zip(values).zip(predictions) {
                    let replacement = V::round_from((f64::from(prediction) + 0.25) * eighth);
                    *other = if self.excluded.covers(value) { replacement } else { value };
                }
                if !self.encode_fast(replaced, predictions, residuals, positions) {
                    self.encode_and_mark(replaced, predictions, residuals, positions, marks);
                    for at in ones(excluded) {
                        (residuals[at], positions[at], marks[at]) = (0, on_grid_of::<V>(predictions[at]), 0);
                    }
                }
            },
        );
        let mut exceptions = excluded;
        if count(marks) > 0 {
            exceptions |= self.encode_marked(replaced, predictions, residuals, positions, marks);
        }
        exceptions
    }

    /// Encodes the marked values, one by one, and returns a bit for each exception among them.
    #[inline(always)]
    fn encode_marked(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        marks: &[u32],
    ) -> u64 {
        let mut exceptions = 0;
        for at in (0..values.len()).filter(|&at| marks[at] >> 31 == 1) {
            (residuals[at], positions[at]) = self.encode_one(values[at], predictions[at]).unwrap_or_else(|| {
                exceptions |= 1 << at;
                (0, on_grid_of::<V>(predictions[at]))
            });
        }
        exceptions
    }

    /// Encodes values as if no residual were an escape. Bit 31 of a value's mark is 1 if the result may be wrong. Masked fills
    /// get no mark: callers pass none, or overwrite their results.
    #[inline(always)]
    fn encode_and_mark(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        marks: &mut [u32],
    ) {
        let len = values.len();
        let mut start = 0;
        while start < len {
            // The last group ends with the last value and overlaps the group before it.
            let from = if start + ROW_GROUP > len { len.saturating_sub(ROW_GROUP) } else { start };
            if let (Some(values), Some(predictions), Some(residuals), Some(positions), Some(marks)) = (
                values[from..].first_chunk(),
                predictions[from..].first_chunk(),
                residuals[from..].first_chunk_mut(),
                positions[from..].first_chunk_mut(),
                marks[from..].first_chunk_mut(),
            ) {
                self.encode_group::<ROW_GROUP>(values, predictions, residuals, positions, marks);
                start += ROW_GROUP;
            } else {
                for at in start..len {
                    let (mut residual, mut position, mut mark) = ([0], [0], [0]);
                    self.encode_group(&[values[at]], &[predictions[at]], &mut residual, &mut position, &mut mark);
                    ([residuals[at]], [positions[at]], [marks[at]]) = (residual, position, mark);
                }
                start = len;
            }
        }
    }

    /// The fast path for values of type `f64`. Returns whether the results of all values are certain. Returns false for fewer
    /// than [`MAX_VALUES_PER_CALL`] values, for other types, and where the value of a position may be infinite.
    ///
    /// The error is not compared with the bound, which is half a step: it is less where the distance from the prediction differs
    /// from every tie by [`F64_MARGIN`]. The position is not compared with its limit: the value has at most
    /// [`Value::STEPS_LIMIT`] - 2 steps, and its position is less than a step away.
    #[inline(always)]
    fn encode_fast_in_f64(&self, values: &[V], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        const LEN: usize = MAX_VALUES_PER_CALL;
        let (true, Ok(values), Ok(predictions), Ok(residuals), Ok(positions)) = (
            Self::FAST_PATH_NEEDS_WHOLE_PARTS && self.values_are_finite && is_open(Path::FastF64),
            <&[V; LEN]>::try_from(values),
            <&[i32; LEN]>::try_from(predictions),
            <&mut [i32; LEN]>::try_from(residuals),
            <&mut [i32; LEN]>::try_from(positions),
        ) else {
            return false;
        };
        // Three loops: the first makes 64-bit values of 32-bit predictions, the second computes in 64 bits, the third in 32. A single loop that mixes the
        // widths compiles to many moves between vector lanes.
        let (worth, per_step) = self.worth.parts();
        let mut predicted_values = [0.0; LEN];
        for (predicted_value, &prediction) in predicted_values.iter_mut().zip(predictions) {
            *predicted_value = self.value(prediction);
        }
        let mut mark = 0;
        let mut sums = [0u64; LEN];
        for ((sum_bits, value), predicted_value) in sums.iter_mut().zip(values).zip(&predicted_values) {
            let distance = (value.to_f64() - predicted_value) * self.inverse_step * per_step;
            let sum = distance + ROUNDING;
            let steps = sum - ROUNDING;
            *sum_bits = sum.to_bits();
            let scaled = value.to_f64() * self.inverse_step;
            let rest = (scaled - (scaled + ROUNDING - ROUNDING)) * SPACINGS_PER_STEP;
            // Types of 64 bits have the same spacing everywhere.
            mark |= above((distance - steps).abs(), 0.5 - F64_MARGIN)
                | above(steps.abs(), f64::from(ESCAPE_FROM - 1))
                | above(scaled.abs(), V::STEPS_LIMIT - 2.0)
                | above(F64_MARGIN, (rest - (rest + ROUNDING - ROUNDING)).abs());
        }
        for (((residual, position), &prediction), &sum) in residuals.iter_mut().zip(positions).zip(predictions).zip(&sums) {
            *residual = sum as i32;
            *position = prediction.wrapping_add(residual.wrapping_mul(worth));
        }
        mark >> 63 == 0
    }

    /// [`FineGrid::encode_and_mark`] for `LEN` values.
    #[inline(always)]
    fn encode_group<const LEN: usize>(
        &self,
        values: &[V; LEN],
        predictions: &[i32; LEN],
        residuals: &mut [i32; LEN],
        positions: &mut [i32; LEN],
        marks: &mut [u32; LEN],
    ) {
        let below_escapes = f64::from(ESCAPE_FROM).to_bits() - 1;
        let below_limit = V::STEPS_LIMIT.to_bits() - 1;
        let mut wide_marks = [0; LEN];
        for at in 0..LEN {
            let (x, prediction) = (values[at].to_f64(), predictions[at]);
            let (steps, rest, of_nearest) = self.nearest(x);
            let nearest = position_at(steps, rest);
            let (worth, per_step) = self.worth.at::<V>(prediction).parts();
            let sum = (x - self.value(aligned::<V>(prediction, nearest))) * self.inverse_step * per_step + ROUNDING;
            residuals[at] = sum.to_bits() as i32;
            let position = on_grid_of::<V>(prediction.wrapping_add(residuals[at].wrapping_mul(worth)));
            positions[at] = position;
            let error = (x - self.restore(position).to_f64()).abs();
            let leaves_nearest = (of_nearest - x).abs().to_bits().wrapping_sub(1)
                & !sign_unless_zero(off_grid::<V>(nearest))
                & sign_unless_zero(nearest.wrapping_sub(position));
            // Bit 63 is 1 where the value is NaN, misses the bound, or leaves the position that it is on. It is also 1 where the
            // residual, the steps or the position are too large. The position `-position_limit` is marked, though it is allowed.
            wide_marks[at] = self.bound.to_bits().wrapping_sub(error.to_bits())
                | below_escapes.wrapping_sub((sum - ROUNDING).abs().to_bits())
                | below_limit.wrapping_sub(steps.abs().to_bits())
                | u64::from((position_limit::<V>() - 1).cast_unsigned().wrapping_sub(position.unsigned_abs())) << 32
                | leaves_nearest;
        }
        for (mark, wide) in marks.iter_mut().zip(wide_marks) {
            *mark = (wide >> 32) as u32;
        }
    }

    /// Residual and position of a value by the rules of FORMAT.md §5.2; `None` for an exception.
    fn encode_one(&self, value: V, prediction: i32) -> Option<(i32, i32)> {
        if self.fills.has(value) {
            return None;
        }
        let (nearest, exact) = self.position(value)?;
        let (_, per_step) = self.worth.at::<V>(prediction).parts();
        let distance = (value.to_f64() - self.value(aligned::<V>(prediction, nearest))) * self.inverse_step * per_step;
        let residual = distance + ROUNDING - ROUNDING;
        if residual.abs() < f64::from(ESCAPE_FROM) {
            let residual = residual as i32;
            let position = on_grid_of::<V>(self.worth.position_from::<V>(prediction, residual));
            if self.holds(value, position) && (!exact || position == nearest) {
                return Some((residual, position));
            }
        }
        let position = on_grid_of::<V>(nearest);
        let escape = position.wrapping_sub(prediction).wrapping_add(ESCAPE_BASE);
        (self.holds(value, position) && is_escape(escape)).then_some((escape, position))
    }

    /// Whether any value is an exception because it is a fill.
    #[inline(always)]
    fn has_fills(&self, values: &[V]) -> bool {
        !self.fills.is_none() && self.fills.has_any(values)
    }

    /// Whether a position has few enough steps, and its restored value differs from `value` by the bound at most.
    pub(crate) fn holds(&self, value: V, position: i32) -> bool {
        let limit = position_limit::<V>();
        (-limit..limit).contains(&position) && (value.to_f64() - self.restore(position).to_f64()).abs() <= self.bound
    }
}

/// Bit 63 is 1 if `number` is above `limit`, or NaN. Neither may be negative.
#[inline(always)]
fn above(number: f64, limit: f64) -> u64 {
    limit.to_bits().wrapping_sub(number.to_bits())
}

/// The number of values that are marked.
#[inline(always)]
fn count(marks: &[u32]) -> u32 {
    marks.iter().map(|mark| mark >> 31).sum()
}

/// The limit of positions: those from `-limit` to `limit - 1`, and no others, have fewer than [`Value::STEPS_LIMIT`] steps.
fn position_limit<V: Value>() -> i32 {
    V::STEPS_LIMIT as i32 * POSITIONS_PER_STEP - POSITIONS_PER_STEP / 2
}

#[cfg(test)]
mod tests;
