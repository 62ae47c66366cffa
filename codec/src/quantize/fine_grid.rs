//! The grid on which interpolation restores values (FORMAT.md §5.2): [`POSITIONS_PER_STEP`] positions to a step of the bound's own grid, so that a value
//! need not be rounded to the nearest step before its neighbours have predicted it.
//!
//! ```text
//! positions  -4    -3    -2    -1     0     1     2     3     4   ...  8
//! values  -4s   -3s   -2s   -s     0     s     2s    3s  step-4s    step       s = (1 - 1/1021) step / 8
//! ```
//!
//! A prediction `p` and a number of steps `m` give position `p + 8 m`: the restored value misses by half a step, the bound, at most.
//!
//! A value that stands on the grid already must keep its position: it may be one that a decoder has returned, of which only neighbours were
//! written anew, and a second rounding would take it out of its bound. So other positions than multiples of eight stand where no number of
//! few decimals stands: what the grid's values have in common with a user's own should be chance.

use std::slice;

use crate::layout::ByteOrder;
use crate::number::integer::Integer as _;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::ones;
use crate::quantize::excluded::Mask;
use crate::quantize::fast_f32::FastF32;
use crate::quantize::positions::{POSITIONS_PER_STEP, SPACING, SPACINGS_PER_STEP};
use crate::quantize::quantizer::Quantizer;
use crate::simd::{COMMON_ROW, ROW_GROUP, common_row, vectorized};

/// With no more values in doubt, each is decided on its own.
const FEW_DOUBTS: u32 = 4;
/// A residual is certain if its distance is farther from a tie than this, and a value stands on no position if it is as far from all, in steps and positions.
const TIE: f64 = 1e-6;
/// Most values that [`FineGrid::encode`] takes.
pub const MOST_VALUES: usize = 64;
/// Residuals of this magnitude or more say a position instead of a number of steps.
pub const ESCAPE_FROM: i32 = 1 << 16;
/// The residual of an escape is its distance from the prediction, in positions, plus this.
pub const ESCAPE_BASE: i32 = ESCAPE_FROM + ESCAPE_REACH;
/// Escapes reach positions from `-ESCAPE_REACH` to `ESCAPE_REACH - 1` around the prediction.
pub const ESCAPE_REACH: i32 = 1 << 15;

/// A step's fine grid for values of a type.
#[derive(Debug, Clone, Copy)]
pub struct FineGrid<V> {
    bound: f64,
    step: f64,
    inverse_step: f64,
    glance: Option<FastF32>,
    /// Distance of neighbouring positions.
    spacing: f64,
    /// Values of fewer steps have positions; 0 where there is no fine grid.
    reach: f64,
    /// Whether all positions within reach restore finite values, so that nobody need look.
    is_finite: bool,
    /// Bits of the fill value, sign extended, if values that have them must be told from others to become exceptions.
    fill: Option<i64>,
    /// The values that are exceptions whatever is predicted.
    mask: Mask<V>,
}

impl<V: Value> FineGrid<V> {
    /// Whether [`FineGrid::glance`] is certain of [`MOST_VALUES`] values, or of a row of the commonest length, and of no other number.
    pub const NEEDS_WHOLE_PARTS: bool = V::SIZE == size_of::<f64>();

    /// The fine grid of a step. It reaches nothing where the grid is a lattice, or so narrow that values on it may be subnormal, and for types that have
    /// none.
    #[must_use]
    pub fn new(quantizer: &Quantizer) -> Self {
        let step = quantizer.step();
        let is_there = step == 2.0 * quantizer.bound() && step >= V::SMALLEST_SAFE_STEP;
        Self {
            bound: quantizer.bound(),
            step,
            inverse_step: quantizer.inverse_step(),
            glance: FastF32::new(quantizer).filter(|_| V::as_f32(&[]).is_some()),
            spacing: step * SPACING,
            reach: if is_there { V::STEPS_LIMIT } else { 0.0 },
            is_finite: V::round_from(V::STEPS_LIMIT * step).to_f64().is_finite(),
            fill: quantizer.fill(),
            mask: Mask::new(quantizer, V::STEPS_LIMIT),
        }
    }

    /// Whether any value has a position.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.reach > 0.0
    }

    /// The same grid, as if it reached nothing.
    #[must_use]
    pub fn out_of_reach(self) -> Self {
        Self { reach: 0.0, ..self }
    }

    /// Value of a position, before it is rounded to its type.
    #[inline(always)]
    #[must_use]
    pub fn value(&self, position: i32) -> f64 {
        let (steps, beyond) = self.parts(position);
        steps * self.step + beyond
    }

    /// Steps of a position, and how far its value lies beyond theirs.
    #[inline(always)]
    fn parts(&self, position: i32) -> (f64, f64) {
        let steps = position.wrapping_add(POSITIONS_PER_STEP / 2) >> POSITIONS_PER_STEP.trailing_zeros();
        let rest = position.wrapping_sub(steps.wrapping_mul(POSITIONS_PER_STEP));
        (f64::from(steps), f64::from(rest) * self.spacing)
    }

    /// Value of a position.
    #[inline(always)]
    #[must_use]
    pub fn restore(&self, position: i32) -> V {
        V::round_from(self.value(position))
    }

    /// Value of so many steps and what lies beyond them.
    #[inline(always)]
    fn restore_parts(&self, steps: f64, beyond: f64) -> V {
        V::round_from(steps * self.step + beyond)
    }

    /// Writes the values of a row's even and odd positions to a chunk.
    #[inline(always)]
    pub(crate) fn restore_row(self, evens: &[i32], odds: &[i32], order: ByteOrder, row: &mut [u8]) {
        if let (Some(evens), Some(odds)) = (common_row(evens), common_row(odds)) {
            return self.restore_pairs(evens, odds, order, &mut row[..2 * COMMON_ROW * V::SIZE]);
        }
        let (pairs, last) = evens.split_at(odds.len());
        self.restore_pairs(pairs.as_chunks().0, odds.as_chunks().0, order, row);
        if !odds.len().is_multiple_of(ROW_GROUP) {
            if let (Some(evens), Some(odds)) = (pairs.last_chunk(), odds.last_chunk()) {
                // The last group ends with the last value and overlaps the group before it.
                let from = 2 * (pairs.len() - ROW_GROUP) * V::SIZE;
                self.restore_pairs(slice::from_ref(evens), slice::from_ref(odds), order, &mut row[from..]);
            } else {
                for (at, (&even, &odd)) in pairs.iter().zip(odds).enumerate() {
                    self.restore(even).write(row, 2 * at, order);
                    self.restore(odd).write(row, 2 * at + 1, order);
                }
            }
        }
        if let Some(&even) = last.first() {
            self.restore(even).write(row, 2 * odds.len(), order);
        }
    }

    /// Writes the values of pairs of positions.
    #[inline(always)]
    fn restore_pairs(self, evens: &[[i32; ROW_GROUP]], odds: &[[i32; ROW_GROUP]], order: ByteOrder, row: &mut [u8]) {
        for ((pairs, evens), odds) in row.chunks_exact_mut(2 * ROW_GROUP * V::SIZE).zip(evens).zip(odds) {
            let evens = std::array::from_fn(|i| self.restore(evens[i]));
            let odds = std::array::from_fn(|i| self.restore(odds[i]));
            V::write_pairs(evens, odds, order, pairs);
        }
    }

    /// Nearest steps and rest of a value, and the value of that position.
    #[inline(always)]
    fn nearest(&self, value: f64) -> (f64, f64, f64) {
        let scaled = value * self.inverse_step;
        let steps = scaled + ROUNDING - ROUNDING;
        let rest = (scaled - steps) * SPACINGS_PER_STEP + ROUNDING - ROUNDING;
        (steps, rest, self.restore_parts(steps, rest * self.spacing).to_f64())
    }

    /// The position nearest to a value, and whether the value stands there exactly. `None` for values that are out of the grid's reach.
    #[must_use]
    pub fn position(&self, value: V) -> Option<(i32, bool)> {
        let (steps, rest, restored) = self.nearest(value.to_f64());
        (steps.abs() < V::STEPS_LIMIT)
            .then(|| ((steps * f64::from(POSITIONS_PER_STEP) + rest) as i32, restored == value.to_f64()))
    }

    /// Whether a value stands on a position that is no multiple of eight, where the bound's own grid would move it.
    #[must_use]
    pub fn is_between_steps(&self, value: V) -> bool {
        self.position(value).is_some_and(|(position, exact)| exact && position % POSITIONS_PER_STEP != 0)
    }

    /// The highest bit says what [`FineGrid::is_between_steps`] says, for a value and its nearest number of steps.
    #[inline(always)]
    pub(crate) fn between_steps_sign(&self, value: V, steps: f64) -> u64 {
        let x = value.to_f64();
        let rest = (x * self.inverse_step - steps) * SPACINGS_PER_STEP + ROUNDING - ROUNDING;
        let restored = self.restore_parts(steps, rest * self.spacing).to_f64();
        steps.abs().to_bits().wrapping_sub(self.reach.to_bits())
            & (restored - x).abs().to_bits().wrapping_sub(1)
            & 0u64.wrapping_sub(rest.abs().to_bits())
    }

    /// Whether a value is within reach, and not the fill value where that would not come back as it is.
    #[inline(always)]
    fn is_in_reach(&self, value: V) -> bool {
        self.fill != Some(value.to_bits_i64()) && (value.to_f64() * self.inverse_step).abs() < V::STEPS_LIMIT
    }

    /// Whether a position restores a value to within the bound.
    fn holds(&self, value: V, position: i32) -> bool {
        let limit = position_limit::<V>();
        (-limit..limit).contains(&position) && (value.to_f64() - self.restore(position).to_f64()).abs() <= self.bound
    }

    /// Residuals and positions of values with the given predictions, all equally many, as [`FineGrid::encode`] gives them, if a glance is certain of all.
    #[inline(always)]
    pub fn glance(&self, values: &[V], predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> bool {
        !self.has_fill(values)
            && match self.glance {
                Some(glance) => glance.residuals(values, predictions, residuals, positions),
                None => {
                    self.encode_fast_in_f64::<MOST_VALUES>(values, predictions, residuals, positions)
                        || self.encode_fast_in_f64::<COMMON_ROW>(values, predictions, residuals, positions)
                }
            }
    }

    fn has_fill(&self, values: &[V]) -> bool {
        self.fill.is_some_and(|fill| values.iter().fold(false, |any, value| any | (value.to_bits() == V::Code::from_i64(fill))))
    }

    /// Residuals and positions of values with the given predictions, all equally many and at most [`MOST_VALUES`]; returns a bit for each value, the first one's
    /// lowest, that says whether it must be kept bit for bit. Those take the position of their prediction. `were_masked` says, and is told, whether some values
    /// are masked: where it was so before, a mask is looked for first.
    #[inline(always)]
    pub fn encode(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        were_masked: &mut bool,
    ) -> u64 {
        if !*were_masked && self.glance(values, predictions, residuals, positions) {
            return 0;
        }
        self.encode_after_fast_path(values, predictions, residuals, positions, were_masked)
    }

    /// The same where a glance was not certain of all, and has left residuals and positions.
    #[inline(always)]
    pub fn encode_after_fast_path(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        were_masked: &mut bool,
    ) -> u64 {
        if *were_masked || self.has_fill(values) {
            let masked = self.mask.bits(values);
            *were_masked = masked != 0;
            if *were_masked {
                return self.encode_masked(values, masked, predictions, residuals, positions);
            }
            // Where nobody has glanced yet, somebody must.
            if self.glance(values, predictions, residuals, positions) {
                return 0;
            }
        }
        let mut doubts = [0; MOST_VALUES];
        let doubts = &mut doubts[..values.len()];
        match self.glance {
            Some(glance) => glance.doubts(values, predictions, doubts),
            None => self.encode_in_doubt(values, predictions, residuals, positions, doubts),
        }
        // Mostly one value is in doubt, and the others are as they should be.
        if count(doubts) > FEW_DOUBTS {
            let masked = self.mask.bits(values);
            *were_masked = masked != 0;
            if *were_masked {
                return self.encode_masked(values, masked, predictions, residuals, positions);
            }
            if self.glance.is_some() {
                self.encode_in_doubt(values, predictions, residuals, positions, doubts);
            }
        }
        self.decide_doubts(values, predictions, residuals, positions, doubts)
    }

    /// Encodes values some of which are masked, as `masked` has it from [`Mask::bits`].
    #[inline(never)]
    fn encode_masked(&self, values: &[V], masked: u64, predictions: &[i32], residuals: &mut [i32], positions: &mut [i32]) -> u64 {
        let mut others = [V::default(); MOST_VALUES];
        let others = &mut others[..values.len()];
        let mut doubts = [0; MOST_VALUES];
        let doubts = &mut doubts[..values.len()];
        vectorized(
            #[inline(always)]
            || {
                if masked == u64::MAX >> (MOST_VALUES - values.len()) {
                    residuals.fill(0);
                    positions.copy_from_slice(predictions);
                    return;
                }
                // A value about half a position off its prediction, which stands nowhere, takes the prediction's position for certain.
                let position = self.step / f64::from(POSITIONS_PER_STEP);
                for ((other, &value), &prediction) in others.iter_mut().zip(values).zip(predictions) {
                    let masked = V::round_from((f64::from(prediction) + 0.5) * position);
                    *other = if self.mask.covers(value) { masked } else { value };
                }
                if !self.glance(others, predictions, residuals, positions) {
                    self.encode_in_doubt(others, predictions, residuals, positions, doubts);
                    for at in ones(masked) {
                        (residuals[at], positions[at], doubts[at]) = (0, predictions[at], 0);
                    }
                }
            },
        );
        let mut exceptions = masked;
        if count(doubts) > 0 {
            exceptions |= self.decide_doubts(others, predictions, residuals, positions, doubts);
        }
        exceptions
    }

    /// Residuals and positions of those values that are in doubt, and a bit for each that is an exception.
    #[inline(always)]
    fn decide_doubts(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        doubts: &[u32],
    ) -> u64 {
        let mut exceptions = 0;
        for at in (0..values.len()).filter(|&at| doubts[at] >> 31 == 1) {
            (residuals[at], positions[at]) = self.encode_one(values[at], predictions[at]).unwrap_or_else(|| {
                exceptions |= 1 << at;
                (0, predictions[at])
            });
        }
        exceptions
    }

    /// Residuals and positions of values as if all could be given by a number of steps; the highest bits of `doubts` say which may have to be given otherwise.
    #[inline(always)]
    fn encode_in_doubt(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
        doubts: &mut [u32],
    ) {
        let len = values.len();
        let mut start = 0;
        while start < len {
            // What is left of a row goes together with what stands before it.
            let from = if start + ROW_GROUP > len { len.saturating_sub(ROW_GROUP) } else { start };
            if let (Some(values), Some(predictions), Some(residuals), Some(positions), Some(doubts)) = (
                values[from..].first_chunk(),
                predictions[from..].first_chunk(),
                residuals[from..].first_chunk_mut(),
                positions[from..].first_chunk_mut(),
                doubts[from..].first_chunk_mut(),
            ) {
                self.encode_group::<ROW_GROUP>(values, predictions, residuals, positions, doubts);
                start += ROW_GROUP;
            } else {
                for at in start..len {
                    let (mut residual, mut position, mut doubt) = ([0], [0], [0]);
                    self.encode_group(&[values[at]], &[predictions[at]], &mut residual, &mut position, &mut doubt);
                    ([residuals[at]], [positions[at]], [doubts[at]]) = (residual, position, doubt);
                }
                start = len;
            }
        }
    }

    /// What [`FastF32::residuals`] says, for so many values of a type that needs f64 and is not rounded when values are restored.
    #[inline(always)]
    fn encode_fast_in_f64<const LEN: usize>(
        &self,
        values: &[V],
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) -> bool {
        let (true, Ok(values), Ok(predictions), Ok(residuals), Ok(positions)) = (
            Self::NEEDS_WHOLE_PARTS && self.is_finite,
            <&[V; LEN]>::try_from(values),
            <&[i32; LEN]>::try_from(predictions),
            <&mut [i32; LEN]>::try_from(residuals),
            <&mut [i32; LEN]>::try_from(positions),
        ) else {
            return false;
        };
        // One width a loop: in loops of 32 and 64 bits compilers lose themselves in moves between lanes.
        let mut predicted = [0.0; LEN];
        for (predicted, &prediction) in predicted.iter_mut().zip(predictions) {
            *predicted = self.value(prediction);
        }
        let mut doubts = 0;
        let mut sums = [0u64; LEN];
        for ((sum_bits, value), predicted) in sums.iter_mut().zip(values).zip(&predicted) {
            let distance = (value.to_f64() - predicted) * self.inverse_step;
            let sum = distance + ROUNDING;
            let taken = sum - ROUNDING;
            *sum_bits = sum.to_bits();
            let scaled = value.to_f64() * self.inverse_step;
            let rest = (scaled - (scaled + ROUNDING - ROUNDING)) * SPACINGS_PER_STEP;
            doubts |= above((distance - taken).abs(), 0.5 - TIE)
                | above(taken.abs(), f64::from(ESCAPE_FROM - 1))
                | above(scaled.abs(), V::STEPS_LIMIT - 2.0)
                | above(TIE, (rest - (rest + ROUNDING - ROUNDING)).abs());
        }
        for (((residual, position), &prediction), &sum) in residuals.iter_mut().zip(positions).zip(predictions).zip(&sums) {
            *residual = sum as i32;
            *position = prediction.wrapping_add(residual.wrapping_mul(POSITIONS_PER_STEP));
        }
        doubts >> 63 == 0
    }

    /// What [`FineGrid::encode_in_doubt`] does, for a group.
    #[inline(always)]
    fn encode_group<const LEN: usize>(
        &self,
        values: &[V; LEN],
        predictions: &[i32; LEN],
        residuals: &mut [i32; LEN],
        positions: &mut [i32; LEN],
        doubts: &mut [u32; LEN],
    ) {
        let below_escapes = f64::from(ESCAPE_FROM).to_bits() - 1;
        let mut in_doubt = [0; LEN];
        for at in 0..LEN {
            let (x, prediction) = (values[at].to_f64(), predictions[at]);
            // The prediction's position and that of the result are whole steps apart.
            let (predicted, beyond) = self.parts(prediction);
            let sum = (x - (predicted * self.step + beyond)) * self.inverse_step + ROUNDING;
            let taken = sum - ROUNDING;
            residuals[at] = sum.to_bits() as i32;
            positions[at] = prediction.wrapping_add(residuals[at].wrapping_mul(POSITIONS_PER_STEP));
            let error = (x - self.restore_parts(predicted + taken, beyond).to_f64()).abs();
            // As where codes are rounded: the sign of a difference of bits is the comparison.
            in_doubt[at] = self.bound.to_bits().wrapping_sub(error.to_bits()) | below_escapes.wrapping_sub(taken.abs().to_bits());
        }
        for at in 0..LEN {
            doubts[at] = ((in_doubt[at] | self.doubt_of_position(values[at], positions[at])) >> 32) as u32;
        }
    }

    /// The highest bit says whether a value is out of reach, or its position, or whether it stands on another position.
    #[inline(always)]
    fn doubt_of_position(&self, value: V, position: i32) -> u64 {
        let below_limit = V::STEPS_LIMIT.to_bits().wrapping_sub(1);
        let below_position_limit = f64::from(position_limit::<V>()).to_bits() - 1;
        let (x, position) = (value.to_f64(), f64::from(position));
        let (steps, rest, restored) = self.nearest(x);
        let moved = steps * f64::from(POSITIONS_PER_STEP) + rest - position;
        below_position_limit.wrapping_sub(position.abs().to_bits())
            | below_limit.wrapping_sub(steps.abs().to_bits())
            | (restored - x).abs().to_bits().wrapping_sub(1) & 0u64.wrapping_sub(moved.abs().to_bits())
    }

    /// Residual and position of a value, or `None` for an exception.
    fn encode_one(&self, value: V, prediction: i32) -> Option<(i32, i32)> {
        if !self.is_in_reach(value) {
            return None;
        }
        let (nearest, exact) = self.position(value)?;
        let steps = (value.to_f64() - self.value(prediction)) * self.inverse_step + ROUNDING - ROUNDING;
        if steps.abs() < f64::from(ESCAPE_FROM) {
            let position = prediction.wrapping_add((steps as i32).wrapping_mul(POSITIONS_PER_STEP));
            if self.holds(value, position) && (!exact || position == nearest) {
                return Some((steps as i32, position));
            }
        }
        let distance = nearest.wrapping_sub(prediction);
        let reached = (-ESCAPE_REACH..ESCAPE_REACH).contains(&distance);
        (reached && self.holds(value, nearest)).then(|| (distance + ESCAPE_BASE, nearest))
    }
}

impl Quantizer {
    /// The fine grid for interpolation, if there is one.
    #[must_use]
    pub fn fine<V: Value>(&self) -> Option<FineGrid<V>> {
        Some(FineGrid::new(self)).filter(FineGrid::is_there)
    }
}

/// The highest bit says whether a number that is not negative, or NaN, is above a limit.
#[inline(always)]
fn above(number: f64, limit: f64) -> u64 {
    limit.to_bits().wrapping_sub(number.to_bits())
}

/// How many of the highest bits are set.
#[inline(always)]
fn count(doubts: &[u32]) -> u32 {
    doubts.iter().map(|doubt| doubt >> 31).sum()
}

/// The position that a residual leads to.
#[inline(always)]
#[must_use]
pub fn position_of(prediction: i32, residual: i32) -> i32 {
    let distance = if residual.unsigned_abs() < ESCAPE_FROM.unsigned_abs() {
        residual.wrapping_mul(POSITIONS_PER_STEP)
    } else {
        residual.wrapping_sub(ESCAPE_BASE)
    };
    prediction.wrapping_add(distance)
}

/// Places from its negative on to below this one are of fewer steps than the reach: their values stand on the grid.
fn position_limit<V: Value>() -> i32 {
    V::STEPS_LIMIT as i32 * POSITIONS_PER_STEP - POSITIONS_PER_STEP / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same in each run.
    fn random() -> impl FnMut() -> u32 {
        let mut state = 1u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        }
    }

    #[test]
    fn places_keep_their_values() {
        fn keep<V: Value>(bound: f64, limit: i32) {
            let fine = FineGrid::<V>::new(&Quantizer::new(bound));
            for position in (-limit..limit).step_by(limit as usize / 1000).chain(-20..20) {
                let value = fine.restore(position);
                assert_eq!(fine.position(value), Some((position, true)), "{position} at {bound}");
                assert_eq!(fine.is_between_steps(value), position % POSITIONS_PER_STEP != 0);
                for prediction in [0, position, position + 3, position - 8, position + 801] {
                    if let Some((residual, kept)) = fine.encode_one(value, prediction) {
                        assert_eq!((kept, position_of(prediction, residual)), (position, position));
                    } else {
                        assert!((position - prediction).abs() > ESCAPE_REACH / 2);
                    }
                }
            }
        }
        for bound in [1e-3, 0.5, 0.1, 123.456, 7e-20, 1e27] {
            keep::<f32>(bound, 4092);
            keep::<f64>(bound, 262_140);
        }
    }

    #[test]
    fn rows_of_any_length_are_restored() {
        fn are_restored<V: Value>() {
            let fine = FineGrid::<V>::new(&Quantizer::new(1e-3));
            for (len, order) in (1..70).flat_map(|len| [ByteOrder::Little, ByteOrder::Big].map(|order| (len, order))) {
                let positions: Vec<i32> = (0..len as i32).map(|index| 37 * index - 1000).collect();
                let [evens, odds] = [0, 1].map(|from| positions.iter().copied().skip(from).step_by(2).collect::<Vec<i32>>());
                // What stands behind a row is not touched.
                let mut row = vec![7; (len + 1) * V::SIZE];
                fine.restore_row(&evens, &odds, order, &mut row[..len * V::SIZE]);
                for (index, &position) in positions.iter().enumerate() {
                    assert!(V::read(&row, index, order).to_bits() == fine.restore(position).to_bits(), "{index} of {len}");
                }
                assert_eq!(row[len * V::SIZE..], vec![7; V::SIZE], "{len} values");
            }
        }
        are_restored::<f32>();
        are_restored::<f64>();
    }

    #[test]
    fn the_fast_path_decides_as_f64_does() {
        let mut random = random();
        for bound in [1e-3, 0.5, 0.1, 123.456, 7e-28, 4e27, 3.3e-12, 0.043_21] {
            let quantizer = Quantizer::new(bound);
            let fine = FineGrid::<f32>::new(&quantizer);
            let glance = FastF32::new(&quantizer).unwrap();
            let (mut certain, mut standing, mut residual, mut kept) = (0, 0, [0], [0]);
            for position in -4096..4096 {
                let on_position = fine.restore(position);
                assert!(
                    position % POSITIONS_PER_STEP == 0 || glance.codes(&[on_position], &mut [0]).may_be_between_steps,
                    "{position} at {bound}"
                );
                let near = random() as i32 % 4000 + position;
                if glance.residuals(&[on_position], &[near], &mut residual, &mut kept) {
                    assert_eq!((fine.position(on_position), kept), (None, kept), "{position} at {bound}");
                }
            }
            for i in 0..20_000 {
                // In steps, most within reach, some at a tie.
                let spread = [1.0, 30.0, 600.0, 5000.0][i % 4];
                let mut steps = (f64::from(random()) / f64::from(u32::MAX) * 2.0 - 1.0) * spread;
                let prediction = (steps * 8.0) as i32 + random() as i32 % [3, 100, 30_000][i % 3];
                if i % 5 == 0 {
                    steps = (fine.value(prediction) / quantizer.step())
                        + f64::from(random() as i32 % 40)
                        + 0.5
                        + f64::from(random()) * 1e-14;
                }
                let value = (steps * quantizer.step()) as f32;
                for value in [value, fine.restore(prediction.clamp(-4000, 4000) + 8 * (i as i32 % 3))] {
                    let (mut doubts, mut found) = ([0], ([0], [0]));
                    certain += u32::from(glance.residuals(&[value], &[prediction], &mut found.0, &mut found.1));
                    glance.doubts(&[value], &[prediction], &mut doubts);
                    if doubts[0] >> 31 == 0 {
                        assert_eq!(fine.encode_one(value, prediction), Some((found.0[0], found.1[0])), "{value} at {bound}");
                        standing += u32::from(fine.position(value).is_some_and(|(_, stands)| stands));
                    }
                }
            }
            assert!(certain > 8000, "{certain} of 20 000 are certain");
            assert!(standing > 8000, "{standing} of 20 000 stand where they are to stand");
            for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
                assert!(!glance.residuals(&[value], &[0], &mut residual, &mut kept));
            }
        }
    }

    #[test]
    fn any_value_comes_back_within_the_bound() {
        let bound = 0.125;
        let fine = FineGrid::<f64>::new(&Quantizer::new(bound));
        for i in 0..5000 {
            let value = f64::from(i) * 0.017_3 - 40.0;
            for prediction in [-300, -1, 0, 5, 1234] {
                let (residual, position) = fine.encode_one(value, prediction).unwrap();
                assert_eq!(position, position_of(prediction, residual));
                assert!((fine.restore(position) - value).abs() <= bound);
            }
        }
    }

    #[test]
    fn values_whose_place_overflows_are_exceptions() {
        let values: [f64; MOST_VALUES] = std::array::from_fn(|index| 1.7e308 + index as f64 * 1e305);
        for bound in [1e303, 1e304, 3e307] {
            let fine = FineGrid::new(&Quantizer::new(bound));
            let (mut residuals, mut positions) = ([0; MOST_VALUES], [0; MOST_VALUES]);
            let exceptions = fine.encode(&values, &[0; MOST_VALUES], &mut residuals, &mut positions, &mut false);
            for (index, &value) in values.iter().enumerate().filter(|&(index, _)| exceptions >> index & 1 == 0) {
                let restored = fine.restore(positions[index]);
                assert!((restored - value).abs() <= bound, "{value:e} comes back as {restored:e} at {bound:e}");
            }
        }
    }

    #[test]
    fn what_has_no_place_is_an_exception() {
        let fine = FineGrid::<f32>::new(&Quantizer::new(1e-3));
        for value in [f32::NAN, f32::INFINITY, 1e35, -1e6] {
            assert!(fine.encode_one(value, 0).is_none());
        }
    }
}
