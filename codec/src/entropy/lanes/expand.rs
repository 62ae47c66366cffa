//! Tokens of a round → differences (FORMAT.md §7).
//!
//! Each kind of round has its own path, because mispredicted branches cost more than any other work here. Direct codes are written for all lanes at once; runs and
//! classes are added one by one where they are few, and in vector code where they are many.

use super::LANES;
use super::decode::{EXTRA_PADDING, KeepPatch};
use super::extra_bits::{
    RoundBits, expand_narrow, extra_count, narrow_difference, read_bits, read_window, run_first, run_length,
};
use super::round::{LaneDecoder, RoundTokens};
use crate::entropy::alphabet::{ALPHABET, SYMBOLS, class_value};
use crate::entropy::codebook::{RUN_ENTRY, START_SHIFT, WIDE_ENTRY};
use crate::number::integer::Integer;

/// Values of a round up to which its tokens are written without a branch, each at the sum of the values before it. A power of two: an offset needs a bit mask in
/// place of a bounds check.
const MAX_SCATTERED_VALUES: usize = 256;
/// Classes of a round without runs up to which they are written over direct codes one by one. With more, all lanes get their extra bits at once.
const MAX_OVERWRITTEN_CLASSES: u32 = 6;
/// Runs of a round without classes up to which their extra bits are read one by one.
const MAX_RUNS_ONE_BY_ONE: u32 = 12;
/// Runs and classes of a round that has both, up to which their extra bits are read one by one: a branch on the kind of token is often mispredicted. Bit operations
/// in place of that branch took up to 10 % longer on quiet planes.
const MAX_MIXED_ONE_BY_ONE: u32 = 3;
/// Runs of a round up to which all tokens are copied again behind each run. With more, each token is written at the sum of the spans before it.
const MAX_COPIED_RUNS: u32 = 1;

/// Writes the differences of a block, round after round.
pub(super) struct BlockWriter<'a, C> {
    /// The block.
    pub(super) values: &'a mut [C],
    /// Whether all values were 0 before the first round.
    pub(super) is_zero_filled: bool,
    /// Values written. More than the block has if a run reaches over its end.
    pub(super) written: usize,
    /// Extra bits of the block's tokens and [`EXTRA_PADDING`] bytes.
    pub(super) extra: &'a [u8],
    /// Offset in `extra` of the next bit.
    pub(super) extra_at: usize,
    /// See [`KeepPatch`].
    pub(super) keep_patch: KeepPatch<'a>,
}

impl<C: Integer> BlockWriter<'_, C> {
    /// Writes the values of a round's tokens; returns the number of tokens before the block's end. The lanes left have no token.
    #[inline(always)]
    pub(super) fn expand(&mut self, round: &RoundTokens, decoder: impl LaneDecoder) -> usize {
        let &RoundTokens { ref entries, has_run, has_wide, non_literals, .. } = round;
        let Some(bytes) = self.extra.get(self.extra_at / 8..).and_then(<[u8]>::first_chunk).filter(|_| !has_wide) else {
            return self.expand_any(entries);
        };
        let mut bits = RoundBits { bytes, at: self.extra_at % 8 };
        let count = non_literals.count_ones();
        let runs = if has_run { decoder.marked(entries, RUN_ENTRY) } else { 0 };
        if has_run && runs == non_literals && count <= MAX_RUNS_ONE_BY_ONE {
            return self.expand_one_by_one::<true>(decoder, entries, non_literals, runs, bits);
        }
        if has_run && count <= MAX_MIXED_ONE_BY_ONE {
            return self.expand_one_by_one::<false>(decoder, entries, non_literals, runs, bits);
        }
        if !has_run && self.values.len() - self.written < LANES {
            return self.expand_last(entries, 0);
        }
        if !has_run && count <= MAX_OVERWRITTEN_CLASSES {
            self.write_and_overwrite(decoder, entries, non_literals, bits);
            return LANES;
        }
        // Many tokens have extra bits: all lanes in vector code.
        let bits_here = decoder.take_extra_bits(entries, &mut bits);
        self.advance(&bits);
        if !has_run {
            self.write_all(std::array::from_fn(|lane| narrow_difference(entries[lane], bits_here[lane])));
            return LANES;
        }
        let mut differences = [C::default(); 2 * LANES];
        let mut spans = [0; LANES];
        for (lane, (difference, span)) in differences.iter_mut().zip(&mut spans).enumerate() {
            let found;
            (found, *span) = expand_narrow(entries[lane], bits_here[lane]);
            *difference = C::from_i64(found.into());
        }
        self.write_runs(decoder, entries, &differences, runs, &spans)
    }

    /// Moves on behind the extra bits that a round has taken.
    #[inline(always)]
    fn advance(&mut self, bits: &RoundBits<'_>) {
        self.extra_at = self.extra_at / 8 * 8 + bits.at;
    }

    /// Moves back before the extra bits of tokens.
    fn unread(&mut self, entries: &[u32]) {
        self.extra_at -= entries.iter().map(|&entry| extra_count(entry) as usize).sum::<usize>();
    }

    /// Writes a round with runs in which most tokens are direct codes. If `ARE_RUNS`, all others are runs.
    #[inline(always)]
    fn expand_one_by_one<const ARE_RUNS: bool>(
        &mut self,
        decoder: impl LaneDecoder,
        entries: &[u32; LANES],
        mut non_literals: u32,
        runs: u32,
        mut bits: RoundBits<'_>,
    ) -> usize {
        let mut differences = [C::default(); 2 * LANES];
        for (difference, payload) in differences.iter_mut().zip(decoder.payloads(entries)) {
            *difference = C::from_i64(payload.into());
        }
        let mut spans = [1; LANES];
        while non_literals != 0 {
            let lane = non_literals.trailing_zeros() as usize % LANES;
            non_literals &= non_literals - 1;
            let entry = entries[lane];
            let bits_here = bits.take(extra_count(entry)) as u32;
            let difference;
            (difference, spans[lane]) =
                if ARE_RUNS { (run_first(entry), run_length(entry, bits_here)) } else { expand_narrow(entry, bits_here) };
            differences[lane] = C::from_i64(difference.into());
        }
        self.advance(&bits);
        self.write_runs(decoder, entries, &differences, runs, &spans)
    }

    /// Writes the differences of a round with runs; `spans` are the numbers of values of its tokens. `extra_at` is behind the round already. Returns the number of tokens
    /// before the block's end.
    #[inline(always)]
    fn write_runs(
        &mut self,
        decoder: impl LaneDecoder,
        entries: &[u32; LANES],
        differences: &[C; 2 * LANES],
        runs: u32,
        spans: &[u32; LANES],
    ) -> usize {
        if runs.count_ones() <= MAX_COPIED_RUNS {
            return self.copy_between_runs(entries, differences, runs, spans);
        }
        let ends = decoder.sums(spans);
        let span = ends[LANES - 1] as usize;
        let room = self.values[self.written..].first_chunk_mut::<MAX_SCATTERED_VALUES>();
        if let Some(values) = room.filter(|_| span <= MAX_SCATTERED_VALUES) {
            if !self.is_zero_filled {
                let (most, rest) = values.split_at_mut(2 * LANES);
                most.fill(C::default());
                if span > 2 * LANES {
                    rest.fill(C::default());
                }
            }
            // No branch depends on number and position of the runs, which are hard to predict.
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
                self.unread(&entries[token..]);
                return token;
            };
            *value = difference;
            self.written += span as usize;
        }
        LANES
    }

    /// Writes a round with few runs: first all tokens as if none were a run, then, behind each run, the tokens after it again. Copies of a fixed length cost less than
    /// mispredicted branches. Returns the number of tokens before the block's end.
    #[inline(always)]
    fn copy_between_runs(
        &mut self,
        entries: &[u32; LANES],
        differences: &[C; 2 * LANES],
        mut runs: u32,
        spans: &[u32; LANES],
    ) -> usize {
        let mut token = 0;
        while self.values.len() - self.written >= 2 * LANES {
            self.write(differences[token..].first_chunk().unwrap_or(&[C::default(); LANES]));
            if runs == 0 {
                self.written += LANES - token;
                return LANES;
            }
            let run = runs.trailing_zeros() as usize % LANES;
            runs &= runs - 1;
            self.written += run + 1 - token;
            token = run + 1;
            self.write_zeros(spans[run] as usize - 1);
            if self.written > self.values.len() {
                break;
            }
        }
        self.unread(&entries[token..]);
        if self.written > self.values.len() { token } else { self.expand_last(entries, token) }
    }

    /// Writes a round without runs and with few classes: first all tokens as if they were direct codes, then the classes over them.
    #[inline(always)]
    fn write_and_overwrite(
        &mut self,
        decoder: impl LaneDecoder,
        entries: &[u32; LANES],
        mut non_literals: u32,
        mut bits: RoundBits<'_>,
    ) {
        let begin = self.written;
        self.write_all(decoder.payloads(entries));
        let values = &mut self.values[begin..begin + LANES];
        while non_literals != 0 {
            let lane = non_literals.trailing_zeros() as usize % LANES;
            non_literals &= non_literals - 1;
            let difference = narrow_difference(entries[lane], bits.take(extra_count(entries[lane])) as u32);
            values[lane] = C::from_i64(i64::from(difference));
        }
        self.advance(&bits);
    }

    /// Writes the tokens of a round from token `first` on, near the block's end and none of them wide. Returns the number of tokens before the block's end.
    fn expand_last(&mut self, entries: &[u32; LANES], first: usize) -> usize {
        for (token, &entry) in entries.iter().enumerate().skip(first) {
            if self.written >= self.values.len() {
                return token;
            }
            let bits_here = read_window(self.extra, self.extra_at) as u32;
            self.extra_at += extra_count(entry) as usize;
            let (difference, span) = expand_narrow(entry, bits_here);
            self.write_any(difference.into());
            self.skip(span as usize - 1);
        }
        LANES
    }

    /// Writes a round of any tokens, at any offset of the block. Returns the number of tokens before the block's end.
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
                self.skip(run_length(entry, bits as u32) as usize - 1);
            } else {
                self.write_any(class_value(start, bits));
            }
        }
        LANES
    }

    /// Writes a difference, or hands it to `keep_patch` if the type cannot hold it. The block is not full.
    #[inline(always)]
    fn write_any(&mut self, difference: i64) {
        let value = C::from_i64(difference);
        self.values[self.written] = match C::FAR {
            Some(far) if value == far || value.to_i64() != difference => {
                (self.keep_patch)(self.written, difference);
                far
            }
            _ => value,
        };
        self.written += 1;
    }

    /// Writes zeros up to the block's end at most, and moves on behind all of them.
    #[inline(always)]
    fn skip(&mut self, zeros: usize) {
        let end = (self.written + zeros).min(self.values.len());
        self.values[self.written..end].fill(C::default());
        self.written += zeros;
    }

    /// Writes zeros as [`Self::skip`] does. There is room for [`LANES`] values, which it overwrites even for fewer zeros.
    #[inline(always)]
    fn write_zeros(&mut self, zeros: usize) {
        self.write(&[C::default(); LANES]);
        let end = self.written + zeros;
        if self.is_zero_filled {
            self.written = end;
            return;
        }
        self.written += LANES;
        while self.written < end && self.values.len() - self.written >= LANES {
            self.write(&[C::default(); LANES]);
            self.written += LANES;
        }
        if self.written < end {
            self.values[self.written..].fill(C::default());
        }
        self.written = end;
    }

    /// Writes the differences of a round without runs.
    #[inline(always)]
    fn write_all(&mut self, differences: [i32; LANES]) {
        self.write(&std::array::from_fn(|lane| C::from_i64(differences[lane].into())));
        self.written += LANES;
    }

    /// Writes differences and does not move on.
    #[inline(always)]
    fn write(&mut self, differences: &[C; LANES]) {
        self.values[self.written..self.written + LANES].copy_from_slice(differences);
    }
}
