//! Tokens of a round → differences (FORMAT.md §7).
//!
//! A round here is the [`LANES`] tokens that the decoder finds at a time, or fewer at a block's end. Each kind of round has its own path, because mispredicted
//! branches cost more than any other work here. Direct codes are written for all lanes at once. Classes are added one by one where they are few, and in vector
//! code where they are many or where there are runs.

use super::LANES;
use super::extra_bits::{
    EXTRA_PADDING, RoundBits, expand_narrow, extra_count, narrow_difference, read_bits, read_window, run_first, run_length,
};
use super::round::{RoundTokens, VectorOps};
use crate::entropy::alphabet::{ALPHABET, SYMBOLS, class_value};
use crate::entropy::codebook::{RUN_ENTRY, START_SHIFT, WIDE_ENTRY};
use crate::fast_paths::{Path, is_open};
use crate::number::integer::Integer;

/// A round with runs and at most this many values is written without a branch for each token, if the block has room for this many
/// values. The number is a power of two, so that a bit mask replaces the bounds check of a token's offset.
const MAX_SCATTERED_VALUES: usize = 256;
/// In a round without runs and with at most this many classes, all tokens are written as if they were direct codes, and then the
/// classes are written over them. With more classes, all lanes get their extra bits at once.
const MAX_OVERWRITTEN_CLASSES: u32 = 6;

/// Called for each difference that integers with an [`Integer::PLACEHOLDER`] cannot hold, or that equals the placeholder. The arguments are the difference's
/// index in the block and its value; the block gets the placeholder. Integers without a placeholder have no such differences: those that do not fit wrap.
pub type KeepPatch<'a> = &'a mut dyn FnMut(usize, i64);

/// Writes the differences of a block, round after round.
pub(super) struct BlockWriter<'a, C> {
    /// The block.
    pub(super) values: &'a mut [C],
    /// Whether all values were 0 before the first round.
    pub(super) is_zero_filled: bool,
    /// Number of values that are written. It is more than the block has if a run reaches over the block's end.
    pub(super) written: usize,
    /// Extra bits of the block's tokens and [`EXTRA_PADDING`] bytes.
    pub(super) extra: &'a [u8],
    /// Offset in `extra` of the next bit.
    pub(super) extra_at: usize,
    /// See [`KeepPatch`].
    pub(super) keep_patch: KeepPatch<'a>,
}

impl<C: Integer> BlockWriter<'_, C> {
    /// Writes the values of a round's tokens. Returns the number of tokens that belong to the block: all, or fewer in the block's
    /// last round.
    #[inline(always)]
    pub(super) fn expand(&mut self, round: &RoundTokens, ops: impl VectorOps) -> usize {
        let &RoundTokens { ref entries, has_run, has_wide, non_literals, .. } = round;
        // `expand_any` writes rounds with wide tokens. It also writes a round if fewer than ROUND_BYTES bytes of `extra` are
        // left. This happens only if earlier rounds needed more extra bits than the block has.
        let Some(bytes) = self.extra.get(self.extra_at / 8..).and_then(<[u8]>::first_chunk).filter(|_| !has_wide) else {
            return self.expand_any(entries);
        };
        let mut bits = RoundBits { bytes, at: self.extra_at % 8 };
        let count = non_literals.count_ones();
        if !has_run && self.values.len() - self.written < LANES {
            return self.expand_last(entries);
        }
        if !has_run && count <= MAX_OVERWRITTEN_CLASSES && is_open(Path::OverwrittenClasses) {
            self.write_and_overwrite(ops, entries, non_literals, bits);
            return LANES;
        }
        // Many tokens are runs or classes, so that the extra bits of all 32 lanes are taken at once. A direct code has none to
        // take.
        let bits_here = ops.take_extra_bits(entries, &mut bits);
        self.advance(&bits);
        if !has_run {
            self.write_all(std::array::from_fn(|lane| narrow_difference(entries[lane], bits_here[lane])));
            return LANES;
        }
        let mut differences = [C::default(); LANES];
        let mut spans = [0; LANES];
        for (lane, (difference, span)) in differences.iter_mut().zip(&mut spans).enumerate() {
            let found;
            (found, *span) = expand_narrow(entries[lane], bits_here[lane]);
            *difference = C::from_i64(found.into());
        }
        self.write_runs(ops, entries, &differences, &spans)
    }

    /// Moves on behind the extra bits that a round has taken.
    #[inline(always)]
    fn advance(&mut self, bits: &RoundBits<'_>) {
        self.extra_at = self.extra_at / 8 * 8 + bits.at;
    }

    /// Writes the differences of a round with runs. Token `l` has `spans[l]` values, of which `differences[l]` is the first.
    /// `extra_at` must be behind the extra bits of the whole round. Tokens behind the block's end give their extra bits back.
    /// Returns the number of tokens before the block's end.
    #[inline(always)]
    fn write_runs(
        &mut self,
        ops: impl VectorOps,
        entries: &[u32; LANES],
        differences: &[C; LANES],
        spans: &[u32; LANES],
    ) -> usize {
        // A token's values begin where those of the tokens before it end.
        let ends = ops.sums(spans);
        let span = ends[LANES - 1] as usize;
        let values = self.values[self.written..].first_chunk_mut::<MAX_SCATTERED_VALUES>();
        if let Some(values) = values.filter(|_| span <= MAX_SCATTERED_VALUES && is_open(Path::ScatteredRuns)) {
            if !self.is_zero_filled {
                let (start, rest) = values.split_at_mut(2 * LANES);
                start.fill(C::default());
                if span > 2 * LANES {
                    rest.fill(C::default());
                }
            }
            // No branch depends on the number and the positions of the runs, which are hard to predict.
            values[0] = differences[0];
            for (&difference, &end) in differences[1..].iter().zip(&ends[..LANES - 1]) {
                values[end as usize % MAX_SCATTERED_VALUES] = difference;
            }
            self.written += span;
            return LANES;
        }
        if !self.is_zero_filled {
            let end = (self.written + span).min(self.values.len());
            self.values[self.written..end].fill(C::default());
        }
        for (token, (&difference, &span)) in differences.iter().zip(spans).enumerate() {
            let Some(value) = self.values.get_mut(self.written) else {
                self.extra_at -= entries[token..].iter().map(|&entry| extra_count(entry) as usize).sum::<usize>();
                return token;
            };
            *value = difference;
            self.written += span as usize;
        }
        LANES
    }

    /// Writes a round without runs and with few classes: first all tokens as if they were direct codes, then the classes over them.
    #[inline(always)]
    fn write_and_overwrite(
        &mut self,
        ops: impl VectorOps,
        entries: &[u32; LANES],
        mut non_literals: u32,
        mut bits: RoundBits<'_>,
    ) {
        let begin = self.written;
        self.write_all(ops.payloads(entries));
        let values = &mut self.values[begin..begin + LANES];
        while non_literals != 0 {
            let lane = non_literals.trailing_zeros() as usize % LANES;
            non_literals &= non_literals - 1;
            let difference = narrow_difference(entries[lane], bits.take(extra_count(entries[lane])) as u32);
            values[lane] = C::from_i64(i64::from(difference));
        }
        self.advance(&bits);
    }

    /// Writes the tokens of a round one by one up to the block's end. No entry may be wide or a run. Returns the number of tokens before the block's end.
    fn expand_last(&mut self, entries: &[u32; LANES]) -> usize {
        for (token, &entry) in entries.iter().enumerate() {
            if self.written >= self.values.len() {
                return token;
            }
            let bits_here = read_window(self.extra, self.extra_at) as u32;
            self.extra_at += extra_count(entry) as usize;
            self.write_any(narrow_difference(entry, bits_here).into());
        }
        LANES
    }

    /// Writes a round of any tokens, one by one. They may be wide, and the block may end within the round. Missing extra bits are
    /// read as 0; `decode` reports them after the last round. Returns the number of tokens before the block's end.
    #[inline(never)]
    fn expand_any(&mut self, entries: &[u32; LANES]) -> usize {
        let extra_bits = 8 * (self.extra.len() - EXTRA_PADDING);
        for (token, &entry) in entries.iter().enumerate() {
            if self.written >= self.values.len() {
                return token;
            }
            let payload = entry.cast_signed() >> START_SHIFT;
            let wide = entry & WIDE_ENTRY != 0;
            let start = if wide { ALPHABET[payload as usize % SYMBOLS].start.cast_signed() } else { i64::from(payload) };
            let bits = read_bits(self.extra, self.extra_at.min(extra_bits), extra_count(entry));
            self.extra_at += extra_count(entry) as usize;
            if entry & RUN_ENTRY != 0 {
                self.write_any(run_first(entry).into());
                self.fill_zeros(run_length(entry, bits as u32) as usize - 1);
            } else {
                self.write_any(class_value(start, bits));
            }
        }
        LANES
    }

    /// Writes a difference. If `C` has an [`Integer::PLACEHOLDER`], and the difference equals it or does not fit `C`, writes the placeholder and hands the
    /// difference to `keep_patch`. The block must not be full.
    #[inline(always)]
    fn write_any(&mut self, difference: i64) {
        let value = C::from_i64(difference);
        self.values[self.written] = match C::PLACEHOLDER {
            Some(placeholder) if value == placeholder || value.to_i64() != difference => {
                (self.keep_patch)(self.written, difference);
                placeholder
            }
            _ => value,
        };
        self.written += 1;
    }

    /// Moves `written` on by `zeros`, even over the block's end. Sets the values in between to 0 up to the block's end.
    #[inline(always)]
    fn fill_zeros(&mut self, zeros: usize) {
        let end = (self.written + zeros).min(self.values.len());
        self.values[self.written..end].fill(C::default());
        self.written += zeros;
    }

    /// Writes the differences of a round without runs.
    #[inline(always)]
    fn write_all(&mut self, differences: [i32; LANES]) {
        let differences: [C; LANES] = std::array::from_fn(|lane| C::from_i64(differences[lane].into()));
        self.values[self.written..self.written + LANES].copy_from_slice(&differences);
        self.written += LANES;
    }
}

#[cfg(test)]
mod tests;
