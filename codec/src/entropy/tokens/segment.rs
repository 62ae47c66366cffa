//! The tokens of one segment. Most tokens are literals, and vector code makes their symbols. The other tokens are runs and token
//! classes, which vector code finds as sets of bits. A table has the tokens of all runs and of differences up to 4095 in
//! magnitude; the tokens of larger differences are computed.

use std::ops::Range;

use super::bits::{BitString, BitWriter};
#[cfg(target_arch = "x86_64")]
use super::classes;
use super::table::{RUN_INDEX, TABLE_MAGNITUDE, TABLE_MISS, TABLE_MISS_INDEX, difference_index, entry, run_index};
use crate::entropy::alphabet::{ALPHABET, DIRECT_MAX, DIRECT_ZERO, SEGMENT, class_symbol};
use crate::error::Result;
use crate::fast_paths::{Path, is_open};
use crate::number::integer::Integer;
#[cfg(target_arch = "x86_64")]
use crate::simd::bytes::{Avx2, Avx512};
use crate::simd::bytes::{Masks, Portable, keep, list_ones};
use crate::simd::outlined;
#[cfg(target_arch = "x86_64")]
use crate::simd::with_avx512;

/// Number of elements of a buffer behind a segment's values or tokens. Code that handles several elements at once may read and
/// overwrite them.
pub(super) const SLACK: usize = 64;
#[cfg(target_arch = "x86_64")]
const _: () = assert!(classes::GROUP <= SLACK);
/// The byte of a difference of 0. Differences from -15 to 15 have the bytes 0 to 30.
const ZERO_BYTE: u8 = DIRECT_MAX as u8;
/// The byte of every difference that has a token class.
const CLASS_BYTE: u8 = 31;
/// Fills the bytes behind a segment that is shorter than [`SEGMENT`]. It is the byte of -15: no zero, no 1 or -1, no class.
const FILL_BYTE: u8 = 0;
/// A direct code's symbol minus its byte.
const BYTE_TO_SYMBOL: u8 = DIRECT_ZERO - DIRECT_MAX as u8;

/// Buffers of [`tokenize_segment`]. A segment's tokens do not depend on what earlier segments left in them.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Scratch {
    /// Each difference plus 15, or [`CLASS_BYTE`]. [`look_up_non_literals`] overwrites the bytes of classes and of runs' first
    /// values.
    bytes: [u8; SEGMENT + SLACK],
    /// Table index of each difference. [`look_up_non_literals`] may replace the index of a run's first value with the run's
    /// index.
    indices: [u16; SEGMENT + SLACK],
    /// Table indices of tokens: [`insert_runs`] writes those of all tokens, [`look_up_non_literals`] those of runs and classes.
    token_indices: [u16; SEGMENT + SLACK],
    /// Offset in the segment of each class, and of each run's first value.
    non_literals: [u16; SEGMENT + SLACK],
    /// Offset in the segment of each run's last zero.
    last_zeros: [u16; SEGMENT + SLACK],
    /// Symbols of the tokens at `non_literals`.
    non_literal_symbols: [u8; SEGMENT + SLACK],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            bytes: [0; SEGMENT + SLACK],
            indices: [0; SEGMENT + SLACK],
            token_indices: [0; SEGMENT + SLACK],
            non_literals: [0; SEGMENT + SLACK],
            last_zeros: [0; SEGMENT + SLACK],
            non_literal_symbols: [0; SEGMENT + SLACK],
        }
    }
}

/// Words of a bit set that has a bit for each value of a segment.
const WORDS: usize = SEGMENT / 64;

/// A segment with at least this many values for each run or class goes to [`copy_between_non_literals`].
const MIN_VALUES_PER_NON_LITERAL: usize = 16;
/// If fewer than one value in this many has a class, [`look_up_non_literals`] makes the tokens. Otherwise the tokens of all
/// values are looked up.
const MAX_VALUES_PER_CLASS: usize = 3;
/// If at least one value in this many has a class, and there are no runs, [`SegmentOps::compute_classes`] is tried.
const MAX_VALUES_PER_COMPUTED_CLASS: usize = 5;

/// The instructions of a CPU for segments: those of [`Masks`], and those that compute token classes.
pub(super) trait SegmentOps: Masks {
    /// Computes the tokens of a segment without runs: see [`classes`]. Returns false, and writes nothing, if there is no code for
    /// this CPU or for these differences.
    #[inline(always)]
    fn compute_classes<C: Integer>(self, _segment: &[C], _symbols: &mut [u8], _bits: &mut BitWriter<'_>) -> bool {
        false
    }
}

impl SegmentOps for Portable {}

#[cfg(target_arch = "x86_64")]
impl SegmentOps for Avx2 {}

#[cfg(target_arch = "x86_64")]
impl SegmentOps for Avx512 {
    #[inline(always)]
    fn compute_classes<C: Integer>(self, segment: &[C], symbols: &mut [u8], bits: &mut BitWriter<'_>) -> bool {
        with_avx512(
            self.0,
            #[inline(always)]
            || is_open(Path::ComputedClasses) && classes::write(self.0, segment, symbols, bits),
        )
    }
}

/// Makes the tokens of one segment of 1 to [`SEGMENT`] differences: writes their symbols to `symbols`, which is [`SLACK`] longer than the segment, and
/// appends their extra bits to `extra`. Returns the number of tokens.
///
/// Vector code first turns each difference into a byte, `difference + 15` or [`CLASS_BYTE`], and finds runs and classes as sets of bits. A direct code's symbol
/// is its byte plus a constant. The rest depends on how many runs and classes there are:
///
/// | runs and classes | method |
/// |---|---|
/// | few | copies 16 symbols at a time between them: [`copy_between_non_literals`] |
/// | more | looks their tokens up in a table and merges the symbols with the direct codes': [`look_up_non_literals`] |
/// | about a third of the values or more are classes | looks up all tokens, runs put in first: [`insert_runs`], [`look_up`] |
/// | no runs, about a fifth of the values or more are classes, AVX-512 | computes all tokens: [`classes`] |
#[inline(always)]
pub(super) fn tokenize_segment<C: Integer>(
    ops: impl SegmentOps,
    segment: &[C],
    symbols: &mut [u8],
    extra: &mut BitString,
    scratch: &mut Scratch,
) -> Result<usize> {
    let mut bits = BitWriter::new(extra, segment.len())?;
    let bytes = &mut scratch.bytes;
    for (byte, &difference) in bytes.iter_mut().zip(segment) {
        *byte = difference.direct_index().min(u32::from(CLASS_BYTE)) as u8;
    }
    // A longer segment before this one may have written there.
    bytes[segment.len()..].fill(FILL_BYTE);

    let mut sets = SegmentSets { zeros: [0; WORDS + 1], starts: [0; WORDS], in_run: [0; WORDS], classes: [0; WORDS] };
    let mut ones: BitSet<WORDS> = [0; WORDS];
    let mut class_count = 0;
    let used_words = segment.len().div_ceil(64);
    for (word, group) in bytes[..64 * used_words].as_chunks::<64>().0.iter().enumerate() {
        sets.zeros[word] = ops.equal(group, ZERO_BYTE);
        ones[word] = ops.equal(group, ZERO_BYTE - 1) | ops.equal(group, ZERO_BYTE + 1);
        sets.classes[word] = ops.equal(group, CLASS_BYTE);
        class_count += sets.classes[word].count_ones() as usize;
    }
    let runs = sets.find_runs(&ones);
    let are_few = class_count + runs <= segment.len() / MIN_VALUES_PER_NON_LITERAL;
    let written = if are_few && is_open(Path::CopiedTokens) {
        copy_between_non_literals(segment, bytes, &sets, symbols, &mut bits)
    } else if runs == 0
        && class_count >= segment.len() / MAX_VALUES_PER_COMPUTED_CLASS
        && ops.compute_classes(segment, symbols, &mut bits)
    {
        segment.len()
    } else if class_count < segment.len() / MAX_VALUES_PER_CLASS && is_open(Path::LookedUpNonLiterals) {
        look_up_non_literals(ops, segment, &sets, symbols, &mut bits, scratch)
    } else {
        find_indices(segment, &mut scratch.indices);
        let list = if runs == 0 {
            &scratch.indices[..segment.len()]
        } else {
            let count = insert_runs(segment.len(), bytes, &sets, &scratch.indices, &mut scratch.token_indices);
            &scratch.token_indices[..count]
        };
        look_up(segment, list, symbols, &mut bits);
        list.len()
    };
    let end = bits.finish();
    extra.bits = end;
    Ok(written)
}

/// A set of values of a segment: bit `i % 64` of word `i / 64` is for value `i`.
type BitSet<const N: usize> = [u64; N];

/// Which values of a segment are zeros, begin a run, are zeros inside a run, or have a token class.
struct SegmentSets {
    /// Zeros. There is one word more, which is 0, so that each word of the segment has a next one.
    zeros: BitSet<{ WORDS + 1 }>,
    /// First values of runs.
    starts: BitSet<WORDS>,
    /// Zeros in a run behind its first value. They have no token of their own.
    in_run: BitSet<WORDS>,
    /// Differences that have a token class.
    classes: BitSet<WORDS>,
}

/// A segment has runs if its stretches of adjacent zeros have 1.5 zeros or more on average. The constant is twice this average. A
/// single zero is a stretch too. With shorter stretches, runs hardly shorten a stream, and they take time to write and to read.
pub const TWICE_MIN_ZEROS_PER_STRETCH: u32 = 3;

impl SegmentSets {
    /// Fills `starts` and `in_run` from `zeros` and from `ones`, the set of 1 and -1. Returns the number of runs. There are none
    /// if the stretches of zeros are too short on average ([`TWICE_MIN_ZEROS_PER_STRETCH`]).
    #[inline(always)]
    fn find_runs(&mut self, ones: &BitSet<WORDS>) -> usize {
        let (mut zero_before, mut one_before) = (0, 0);
        let (mut zeros, mut zero_stretches, mut runs) = (0, 0, 0);
        for (word, &one) in ones.iter().enumerate() {
            let zero = self.zeros[word];
            let behind_zero = zero << 1 | zero_before;
            let before_zero = zero >> 1 | self.zeros[word + 1] << 63;
            self.in_run[word] = zero & (behind_zero | one << 1 | one_before);
            self.starts[word] = (one | zero & !self.in_run[word]) & before_zero;
            (zero_before, one_before) = (zero >> 63, one >> 63);
            zeros += zero.count_ones();
            zero_stretches += (zero & !behind_zero).count_ones();
            runs += self.starts[word].count_ones();
        }
        if 2 * zeros < TWICE_MIN_ZEROS_PER_STRETCH * zero_stretches {
            (self.starts, self.in_run, runs) = ([0; WORDS], [0; WORDS], 0);
        }
        runs as usize
    }
}

/// Writes the tokens of a segment with few runs and classes. Copies the symbols of the literals between them. Returns the number
/// of tokens.
#[inline(always)]
fn copy_between_non_literals<C: Integer>(
    segment: &[C],
    bytes: &[u8; SEGMENT + SLACK],
    SegmentSets { zeros, starts, classes, .. }: &SegmentSets,
    symbols: &mut [u8],
    bits: &mut BitWriter<'_>,
) -> usize {
    let (mut at, mut written) = (0, 0);
    for (word, (starts, class)) in starts.iter().zip(classes).enumerate() {
        let mut non_literals = starts | class;
        while non_literals != 0 {
            let offset = 64 * word + non_literals.trailing_zeros() as usize;
            non_literals &= non_literals - 1;
            copy_symbols(bytes, at..offset, &mut symbols[written..]);
            written += offset - at;
            // A branch on the kind of token would often be mispredicted. `offset` is below SEGMENT, so that `% SEGMENT` only
            // spares the bounds check.
            let byte = bytes[offset % SEGMENT];
            let is_class = byte == CLASS_BYTE;
            let after = if is_class { offset + 1 } else { run_end(zeros, offset + 1) };
            let difference = difference_index(segment[offset]);
            let index = if is_class { difference } else { run_index(first_plus_one(byte), after - offset) };
            let symbol = if is_class && difference >= RUN_INDEX {
                push_class(bits, segment[offset])
            } else {
                push_entry(bits, entry(index as u16))
            };
            symbols[written] = symbol;
            written += 1;
            at = after;
        }
    }
    copy_symbols(bytes, at..segment.len(), &mut symbols[written..]);
    written + segment.len() - at
}

/// Writes the symbols of a range of literals, and up to 16 bytes of any contents behind them.
#[inline(always)]
fn copy_symbols(bytes: &[u8; SEGMENT + SLACK], range: Range<usize>, symbols: &mut [u8]) {
    // Most ranges need one copy or none. A copy that is not needed costs less than a branch.
    let mut copies = symbols.as_chunks_mut::<16>().0.iter_mut();
    let mut from = range.start;
    loop {
        let bytes: &[u8; 16] = bytes[from..].first_chunk().unwrap_or(&[0; 16]);
        if let Some(sixteen) = copies.next() {
            *sixteen = bytes.map(|byte| byte.wrapping_add(BYTE_TO_SYMBOL));
        }
        from += 16;
        if from >= range.end {
            break;
        }
    }
}

/// Writes the table indices of a segment's tokens to `list`. `indices` are those of its differences. Returns the number of
/// tokens.
#[inline(always)]
fn insert_runs(
    len: usize,
    bytes: &[u8; SEGMENT + SLACK],
    SegmentSets { zeros, starts, .. }: &SegmentSets,
    indices: &[u16; SEGMENT + SLACK],
    list: &mut [u16; SEGMENT + SLACK],
) -> usize {
    let (mut at, mut count) = (0, 0);
    let copy = |range: Range<usize>, list: &mut [u16]| {
        let mut copies = list.as_chunks_mut::<16>().0.iter_mut();
        let mut from = range.start;
        loop {
            let sixteen: &[u16; 16] = indices[from..].first_chunk().unwrap_or(&[0; 16]);
            if let Some(copied) = copies.next() {
                *copied = *sixteen;
            }
            from += 16;
            if from >= range.end {
                break;
            }
        }
    };
    for (word, &starts) in starts.iter().enumerate() {
        let mut runs = starts;
        while runs != 0 {
            let start = 64 * word + runs.trailing_zeros() as usize;
            runs &= runs - 1;
            copy(at..start, &mut list[count..]);
            count += start - at;
            at = run_end(zeros, start + 1);
            list[count] = run_index(first_plus_one(bytes[start % SEGMENT]), at - start) as u16;
            count += 1;
        }
    }
    copy(at..len, &mut list[count..]);
    count + len - at
}

/// Writes the table index of each difference, or [`TABLE_MISS_INDEX`] if the table does not have it.
#[inline(always)]
fn find_indices<C: Integer>(segment: &[C], indices: &mut [u16; SEGMENT + SLACK]) {
    for (table_index, &difference) in indices.iter_mut().zip(segment) {
        let index = difference.biased(TABLE_MAGNITUDE as i32 - 1);
        *table_index = if index < RUN_INDEX as u32 { index as u16 } else { TABLE_MISS_INDEX };
    }
}

/// Writes the tokens of a segment with many runs and classes, but with few classes among its values. Returns the number of
/// tokens.
///
/// The symbols of runs and classes are looked up first. They are put in `bytes` in place of the class or the run's first value,
/// less [`BYTE_TO_SYMBOL`]. Then the segment's bytes without `in_run` are copied to `symbols`, and [`BYTE_TO_SYMBOL`] is added to
/// each.
#[inline(always)]
fn look_up_non_literals<C: Integer>(
    masks: impl Masks,
    segment: &[C],
    SegmentSets { zeros, starts, in_run, classes }: &SegmentSets,
    symbols: &mut [u8],
    bits: &mut BitWriter<'_>,
    scratch: &mut Scratch,
) -> usize {
    let Scratch { bytes, indices, token_indices, non_literals, last_zeros, non_literal_symbols } = scratch;
    let found = if classes.iter().all(|&classes| classes == 0) {
        // Lists the first values of runs, and in a second list their last zeros. Entry n of each list belongs to run n.
        let (mut found, mut found_last) = (0, 0);
        for word in (0..WORDS).filter(|&word| starts[word] | in_run[word] != 0) {
            let last = in_run[word] & !(zeros[word] >> 1 | zeros[word + 1] << 63);
            found += list_ones(starts[word], (64 * word) as u16, &mut non_literals[found..]);
            found_last += list_ones(last, (64 * word) as u16, &mut last_zeros[found_last..]);
        }
        for ((index, &start), &last) in token_indices.iter_mut().zip(&non_literals[..found]).zip(&last_zeros[..found_last]) {
            *index =
                run_index(first_plus_one(bytes[usize::from(start) % SEGMENT]), usize::from(last.wrapping_sub(start)) + 1) as u16;
        }
        found
    } else {
        find_indices(segment, indices);
        let mut found = 0;
        for (word, (&starts, classes)) in starts.iter().zip(classes).enumerate() {
            let mut runs = starts;
            while runs != 0 {
                let start = 64 * word + runs.trailing_zeros() as usize;
                runs &= runs - 1;
                indices[start] = run_index(first_plus_one(bytes[start % SEGMENT]), run_end(zeros, start + 1) - start) as u16;
            }
            if starts | classes != 0 {
                found += list_ones(starts | classes, (64 * word) as u16, &mut non_literals[found..]);
            }
        }
        for (index, &offset) in token_indices.iter_mut().zip(&non_literals[..found]) {
            *index = indices[usize::from(offset) % SEGMENT];
        }
        found
    };
    look_up(segment, &token_indices[..found], non_literal_symbols, bits);
    for (&symbol, &offset) in non_literal_symbols.iter().zip(&non_literals[..found]) {
        bytes[usize::from(offset) % SEGMENT] = symbol.wrapping_sub(BYTE_TO_SYMBOL);
    }

    let mut written = 0;
    for (word, group) in bytes[..64 * segment.len().div_ceil(64)].as_chunks::<64>().0.iter().enumerate() {
        let kept = !in_run[word] & (u64::MAX >> (64 - (segment.len() - 64 * word).min(64)));
        if kept != 0 {
            written += keep(masks, group, kept, &mut symbols[written..]);
        }
    }
    for symbol in &mut symbols[..written] {
        *symbol = symbol.wrapping_add(BYTE_TO_SYMBOL);
    }
    written
}

/// Writes the tokens at the table indices of `list`. Each [`TABLE_MISS_INDEX`] stands for a difference that the table does not
/// have. These differences follow in the order of the segment.
///
/// A push waits for the push before it. So four tokens of the table, which have at most 12 extra bits each, go into one push.
#[inline(always)]
fn look_up<C: Integer>(segment: &[C], list: &[u16], symbols: &mut [u8], bits: &mut BitWriter<'_>) {
    let count = list.len();
    let mut table_misses = segment.iter().filter(|&&difference| difference_index(difference) >= RUN_INDEX);
    let mut done = 0;
    loop {
        done += outlined(
            #[inline(always)]
            || push_by_fours(&list[done..count], &mut symbols[done..count], bits),
        );
        // Four tokens of which one at least is not in the table, or the last tokens if fewer than four are left.
        for at in done..count.min(done + 4) {
            let entry = entry(list[at]);
            symbols[at] = match (entry & TABLE_MISS != 0).then(|| table_misses.next()).flatten() {
                Some(&difference) => push_class(bits, difference),
                None => push_entry(bits, entry),
            };
        }
        done += 4;
        if done >= count {
            return;
        }
    }
}

/// Writes tokens of the table, four at a time. Stops at four of which at least one is not in the table, and where fewer than four
/// are left. Returns the number of tokens written.
#[inline(always)]
fn push_by_fours(list: &[u16], symbols: &mut [u8], bits: &mut BitWriter<'_>) -> usize {
    let fours = list.as_chunks::<4>().0;
    // A copy, which the compiler can keep in registers.
    let mut writer = BitWriter { words: &mut *bits.words, ..*bits };
    let mut pushed = 4 * fours.len();
    for (done, (symbols, four)) in symbols.as_chunks_mut::<4>().0.iter_mut().zip(fours).enumerate() {
        let entries = four.map(entry);
        let [a, b, c, d] = entries;
        if (a | b | c | d) & TABLE_MISS != 0 {
            pushed = 4 * done;
            break;
        }
        *symbols = entries.map(|entry| (entry >> 8) as u8);
        // The lowest byte of an entry is its number of extra bits, at most 12. The sum of four such numbers fits six bits, so
        // that `& 63` takes it out of the sum of the entries.
        let (first, second, first_bits) = (concat_bits(a, b), concat_bits(c, d), a.wrapping_add(b));
        writer.push(first | second << (first_bits & 63), first_bits.wrapping_add(c).wrapping_add(d) & 63);
    }
    (bits.end, bits.buffer, bits.count) = (writer.end, writer.buffer, writer.count);
    pushed
}

/// A run's first value plus 1, as [`run_index`] takes it, from the value's byte.
#[inline(always)]
fn first_plus_one(byte: u8) -> u8 {
    byte.wrapping_sub(ZERO_BYTE - 1)
}

/// Appends the extra bits of a difference that has a token class; returns its symbol.
#[inline(always)]
fn push_class<C: Integer>(bits: &mut BitWriter<'_>, difference: C) -> u8 {
    let (symbol, value) = class_symbol(difference.to_i64());
    bits.push(value, u32::from(ALPHABET[usize::from(symbol)].extra_bits));
    symbol
}

/// Appends the extra bits of an entry of the table; returns its symbol.
#[inline(always)]
fn push_entry(bits: &mut BitWriter<'_>, entry: u32) -> u8 {
    bits.push(u64::from(entry >> 16), entry & 0xff);
    (entry >> 8) as u8
}

/// The extra bits of two entries of the table, one number behind the other.
#[inline(always)]
fn concat_bits(first: u32, second: u32) -> u64 {
    u64::from(first >> 16) | u64::from(second >> 16) << (first & 63)
}

/// Offset of the first value from `start` on that is not zero, or the segment's length if there is none. `start` is at most
/// [`SEGMENT`].
#[inline(always)]
fn run_end(zeros: &[u64], start: usize) -> usize {
    let adjacent = (!(zeros[start / 64] >> (start % 64))).trailing_zeros() as usize;
    if start % 64 + adjacent < 64 {
        return start + adjacent;
    }
    let whole = zeros[start / 64 + 1..].iter().take_while(|&&word| word == u64::MAX).count();
    let word = start / 64 + 1 + whole;
    64 * word + zeros.get(word).map_or(0, |word| word.trailing_ones() as usize)
}

#[cfg(test)]
mod tests;
