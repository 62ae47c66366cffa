//! Stage 5 (FORMAT.md §9.1): tokens of a block → 32 interleaved bit strings, and back.
//!
//! Lane `l` of 32 codes tokens `l`, `l + 32`, … of its block, so that 32 threads, or the 32 slots of a loop, decode side by side. The
//! lanes' 16-bit words stand in the order in which a decoder with 32-bit buffers asks for them, and need no index:
//!
//! ```text
//! first word of each lane │ second word of each lane │ then, after each step of 32 tokens, one word
//!                                                     │ for every lane that has 16 bits or fewer left
//! ```
//!
//! An encoder crosses a 16-bit boundary in exactly the step after which the decoder asks for a word: it then knows where the word after
//! next will stand, and keeps two such places a lane. Words of zeros at the block's end are cut off.

mod step;

use self::step::{Found, Lanes, REQUEST, Step};
use crate::entropy::alphabet::{ALPHABET, SYMBOLS, class_value};
use crate::entropy::codebook::{DecodeTable, FIRST_SHIFT, MAX_CODE_BITS, RUN_ENTRY, START_SHIFT, WIDE_ENTRY};
use crate::error::{Error, Result};
use crate::memory::HeapArray;
use crate::number::integer::Integer;
use crate::simd::vectorized;

/// Number of lanes.
pub const LANES: usize = 32;
/// Most values in a block.
pub const MAX_BLOCK: usize = 1 << 16;
/// Most words that the lanes of a block can ask for.
const MAX_WORDS: usize = MAX_BLOCK * MAX_CODE_BITS as usize / 16 + 2 * LANES;

/// Places for the words of one block, used again and again.
#[derive(Debug, Default)]
pub struct Encoder {
    words: HeapArray<u16, { 1 << 16 }>,
}

const _: () = assert!(MAX_WORDS <= 1 << 16);

impl Encoder {
    /// Codes the tokens of a block; returns its words without the zeros at the end. `codes` is [`crate::entropy::codebook::canonical_codes`]'s.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode(&mut self, symbols: &[u8], codes: &[u32; SYMBOLS]) -> Result<&[u16]> {
        let mut padded = [0; 256];
        padded[..SYMBOLS].copy_from_slice(codes);
        let words = self.words.get()?;
        let end = vectorized(
            #[inline(always)]
            || encode_lanes(symbols, &padded, words),
        );
        let used = words[..end].iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        Ok(&words[..used])
    }
}

#[inline(always)]
fn encode_lanes(symbols: &[u8], codes: &[u32; 256], words: &mut [u16; 1 << 16]) -> usize {
    // Pending bits of each lane, their number (below 16), and where the word in the making and, in the upper half, the one after it will stand.
    let mut pending = [0u32; LANES];
    let mut bits = [0u32; LANES];
    let mut places: [u32; LANES] = std::array::from_fn(|lane| (lane | (LANES + lane) << 16) as u32);
    let mut end = 2 * LANES as u32;
    words[..2 * LANES].fill(0);

    let mut code_step = |symbols: &[u8]| {
        // Lanes without a token in the last step get an entry of no bits.
        let mut entries = [0u32; LANES];
        for (entry, &symbol) in entries.iter_mut().zip(symbols) {
            *entry = codes[usize::from(symbol)];
        }
        let mut full = 0u32;
        let mut finished = [0u32; LANES];
        for lane in 0..LANES {
            let length = entries[lane] >> 16;
            pending[lane] = pending[lane] << length | entries[lane] & 0xffff;
            let count = bits[lane] + length;
            finished[lane] = pending[lane] >> (count.wrapping_sub(16) & 31);
            full |= (count >> 4) << lane;
            bits[lane] = count & 15;
        }
        while full != 0 {
            let lane = full.trailing_zeros() as usize % LANES;
            let place = places[lane];
            words[usize::from(place as u16)] = finished[lane] as u16;
            places[lane] = place >> 16 | end << 16;
            end += 1;
            full &= full - 1;
        }
    };
    let (steps, rest) = symbols.as_chunks::<LANES>();
    for step in steps {
        code_step(step);
    }
    code_step(rest);
    for lane in 0..LANES {
        words[usize::from(places[lane] as u16)] = ((pending[lane] << 16) >> bits[lane]) as u16;
        words[(places[lane] >> 16) as usize] = 0;
    }
    end as usize
}

/// Zero bytes that [`decode`] wants behind the extra bits.
pub const EXTRA_PADDING: usize = STEP_BYTES;
/// Bytes from that of a step's first extra bit on that all of them lie in if no token is wide, and behind each of which there are as many as a window has.
const STEP_BYTES: usize = STEP_PLACES + 8;
/// The same without the window; a power of two, so that an index needs a mask where it would need a question.
const STEP_PLACES: usize = (MAX_NARROW_EXTRA as usize * LANES / 8 + 1).next_power_of_two();

/// Zero words that [`decode`] wants behind a block's lane words.
pub const LANE_PADDING: usize = REQUEST;

/// Takes the index of a difference that [`Integer::FAR`] stands for, and the difference.
pub type KeepFar<'a> = &'a mut dyn FnMut(usize, i64);

/// Decodes a block of `values.len()` differences. `lane_words` are the lanes' words followed by [`LANE_PADDING`] zeros; `extra` holds the extra
/// bits, followed by [`EXTRA_PADDING`] zero bytes. If `C` has an [`Integer::FAR`], all classes of `table` that are not wide fit the type.
///
/// # Errors
/// `Corrupt` if tokens or extra bits do not come out even with the block.
pub fn decode<C: Integer>(
    lane_words: &[u16],
    extra: &[u8],
    table: &DecodeTable,
    values: &mut [C],
    keep_far: KeepFar<'_>,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new() {
        return vectorized(
            #[inline(always)]
            || decode_lanes(step::Avx2(v3), lane_words, extra, table, values, keep_far),
        );
    }
    vectorized(
        #[inline(always)]
        || decode_lanes(step::Portable, lane_words, extra, table, values, keep_far),
    )
}

#[inline(always)]
fn decode_lanes<C: Integer>(
    step: impl Step,
    lane_words: &[u16],
    extra: &[u8],
    table: &DecodeTable,
    values: &mut [C],
    keep_far: KeepFar<'_>,
) -> Result<()> {
    const SECTION: &str = "block";
    let zeros_at = lane_words.len().saturating_sub(LANE_PADDING);
    let word = |index: usize| u32::from(lane_words[index.min(zeros_at)]);
    let mut lanes = Lanes { buffers: std::array::from_fn(|lane| word(lane) << 16 | word(LANES + lane)), used: [0; LANES] };
    let mut next = (2 * LANES).min(zeros_at);
    // Where most values are zeros of runs, runs are passed over. Else they are written when they come, and the others once.
    let is_zero = 16 * lane_words.len() < FILLED_BITS * values.len();
    if is_zero {
        values.fill(C::default());
    }
    let mut output = Output { values, is_zero, at: 0, extra, extra_at: 0, keep_far };
    let mut void_lanes_are_zero = true;
    while output.at < output.values.len() {
        let request = lane_words[next..].first_chunk().unwrap_or(&[0; REQUEST]);
        let found = step.step(&mut lanes, table, request);
        next = (next + found.taken).min(zeros_at);
        let tokens = output.expand(&found, step);
        // Zeros in a buffer read as the code of zeros; with the buffer 0 afterwards too, it was 0 before.
        void_lanes_are_zero = found.entries[tokens..].iter().all(|&entry| entry == table[0]);
    }

    let Output { values, at, extra_at, .. } = output;
    if at != values.len() {
        return Err(Error::corrupt(SECTION, format!("a run ends {} values behind the block", at - values.len())));
    }
    let extra_bits = 8 * (extra.len() - EXTRA_PADDING);
    if extra_at.next_multiple_of(16) != extra_bits {
        return Err(Error::corrupt(SECTION, format!("its tokens need {extra_at} extra bits, it has {extra_bits}")));
    }
    let last_is_zero = zeros_at > 0 && word(zeros_at - 1) == 0;
    if next != zeros_at
        || last_is_zero
        || !void_lanes_are_zero
        || lanes.buffers != [0; LANES]
        || read_window(extra, extra_at) != 0
    {
        return Err(Error::corrupt(
            SECTION,
            "bits stand behind its last token that are not 0, or words that should have been cut off",
        ));
    }
    Ok(())
}

/// Where the tokens of a block go.
struct Output<'a, C> {
    values: &'a mut [C],
    /// Whether all was 0 before.
    is_zero: bool,
    at: usize,
    extra: &'a [u8],
    extra_at: usize,
    keep_far: KeepFar<'a>,
}

impl<C: Integer> Output<'_, C> {
    /// Writes what the tokens of a step stand for; returns how many there were before the block's end. Those behind it are void.
    #[inline(always)]
    fn expand(&mut self, found: &Found, step: impl Step) -> usize {
        let &Found { ref entries, has_run, has_wide, non_literals, .. } = found;
        let Some(bytes) = self.extra.get(self.extra_at / 8..).and_then(<[u8]>::first_chunk).filter(|_| !has_wide) else {
            return self.expand_any(entries);
        };
        let mut bits = StepBits { bytes, at: self.extra_at % 8 };
        let count = non_literals.count_ones();
        let runs = if has_run { step.marked(entries, RUN_ENTRY) } else { 0 };
        if has_run && runs == non_literals && count <= MOST_RUNS {
            return self.expand_some::<true>(step, entries, non_literals, runs, bits);
        }
        if has_run && count <= MOST_MIXED {
            return self.expand_some::<false>(step, entries, non_literals, runs, bits);
        }
        if !has_run && self.values.len() - self.at < LANES {
            return self.expand_last(entries, 0);
        }
        if !has_run && count <= MOST_PATCHED {
            self.patch(step, entries, non_literals, bits);
            return LANES;
        }
        // For all lanes side by side.
        let bits_here = step.take_all(entries, &mut bits);
        self.pass(&bits);
        if !has_run {
            self.put_all(std::array::from_fn(|lane| narrow_difference(entries[lane], bits_here[lane])));
            return LANES;
        }
        let mut differences = [C::default(); 2 * LANES];
        let mut spans = [0; LANES];
        for (lane, (difference, span)) in differences.iter_mut().zip(&mut spans).enumerate() {
            let found;
            (found, *span) = expand_narrow(entries[lane], bits_here[lane]);
            *difference = C::from_i64(found.into());
        }
        self.put_runs(step, entries, &differences, runs, &spans)
    }

    /// Goes to where a step's bits have been taken.
    #[inline(always)]
    fn pass(&mut self, bits: &StepBits<'_>) {
        self.extra_at = self.extra_at / 8 * 8 + bits.at;
    }

    /// Goes back over the bits of tokens.
    fn unread(&mut self, entries: &[u32]) {
        self.extra_at -= entries.iter().map(|&entry| extra_count(entry) as usize).sum::<usize>();
    }

    /// Steps with runs, in which most tokens are direct codes, and all others may be runs.
    #[inline(always)]
    fn expand_some<const ARE_RUNS: bool>(
        &mut self,
        step: impl Step,
        entries: &[u32; LANES],
        mut non_literals: u32,
        runs: u32,
        mut bits: StepBits<'_>,
    ) -> usize {
        let mut differences = [C::default(); 2 * LANES];
        for (difference, payload) in differences.iter_mut().zip(step.payloads(entries)) {
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
        self.pass(&bits);
        self.put_runs(step, entries, &differences, runs, &spans)
    }

    /// Writes the differences of a step with runs. The bits of all tokens have been passed.
    #[inline(always)]
    fn put_runs(
        &mut self,
        step: impl Step,
        entries: &[u32; LANES],
        differences: &[C; 2 * LANES],
        runs: u32,
        spans: &[u32; LANES],
    ) -> usize {
        if runs.count_ones() <= FEW_RUNS {
            return self.copy_between(entries, differences, runs, spans);
        }
        let ends = step.sums(spans);
        let span = ends[LANES - 1] as usize;
        let room = self.values[self.at..].first_chunk_mut::<STEP_VALUES>();
        if let Some(values) = room.filter(|_| span <= STEP_VALUES) {
            if !self.is_zero {
                let (most, rest) = values.split_at_mut(2 * LANES);
                most.fill(C::default());
                if span > 2 * LANES {
                    rest.fill(C::default());
                }
            }
            // Without a question: how many runs there are, and where, is hard to foretell.
            values[0] = differences[0];
            for (&difference, &end) in differences[1..].iter().zip(&ends[..LANES - 1]) {
                values[end as usize % STEP_VALUES] = difference;
            }
            self.at += span;
            return LANES;
        }
        if !self.is_zero {
            let end = (self.at + span).min(self.values.len());
            self.values[self.at..end].fill(C::default());
        }
        for (token, (&difference, &span)) in differences.iter().zip(spans).enumerate() {
            let Some(value) = self.values.get_mut(self.at) else {
                self.unread(&entries[token..]);
                return token;
            };
            *value = difference;
            self.at += span as usize;
        }
        LANES
    }

    /// The same where runs are few: all is written as if there were none, then again behind each. Copies of a fixed length cost less than branches that are
    /// often wrong.
    #[inline(always)]
    fn copy_between(
        &mut self,
        entries: &[u32; LANES],
        differences: &[C; 2 * LANES],
        mut runs: u32,
        spans: &[u32; LANES],
    ) -> usize {
        let mut token = 0;
        while self.values.len() - self.at >= 2 * LANES {
            self.write(differences[token..].first_chunk().unwrap_or(&[C::default(); LANES]));
            if runs == 0 {
                self.at += LANES - token;
                return LANES;
            }
            let run = runs.trailing_zeros() as usize % LANES;
            runs &= runs - 1;
            self.at += run + 1 - token;
            token = run + 1;
            self.put_zeros(spans[run] as usize - 1);
            if self.at > self.values.len() {
                break;
            }
        }
        self.unread(&entries[token..]);
        if self.at > self.values.len() { token } else { self.expand_last(entries, token) }
    }

    /// Steps without runs, with few classes or none: all are written as if they were direct codes, then the classes over them.
    #[inline(always)]
    fn patch(&mut self, step: impl Step, entries: &[u32; LANES], mut non_literals: u32, mut bits: StepBits<'_>) {
        let begin = self.at;
        self.put_all(step.payloads(entries));
        let values = &mut self.values[begin..begin + LANES];
        while non_literals != 0 {
            let lane = non_literals.trailing_zeros() as usize % LANES;
            non_literals &= non_literals - 1;
            let difference = narrow_difference(entries[lane], bits.take(extra_count(entries[lane])) as u32);
            values[lane] = C::from_i64(i64::from(difference));
        }
        self.pass(&bits);
    }

    /// The tokens of a step from one on, near the block's end.
    fn expand_last(&mut self, entries: &[u32; LANES], first: usize) -> usize {
        for (token, &entry) in entries.iter().enumerate().skip(first) {
            if self.at >= self.values.len() {
                return token;
            }
            let bits_here = read_window(self.extra, self.extra_at) as u32;
            self.extra_at += extra_count(entry) as usize;
            let (difference, span) = expand_narrow(entry, bits_here);
            self.put_any(difference.into());
            self.skip(span as usize - 1);
        }
        LANES
    }

    /// Any token, anywhere in the block.
    #[inline(never)]
    fn expand_any(&mut self, entries: &[u32; LANES]) -> usize {
        let extra_bits = 8 * (self.extra.len() - EXTRA_PADDING);
        for (token, &entry) in entries.iter().enumerate() {
            if self.at >= self.values.len() {
                return token;
            }
            let payload = entry.cast_signed() >> START_SHIFT;
            let wide = entry & WIDE_ENTRY != 0;
            let start = if wide { ALPHABET[payload as usize % SYMBOLS].start.cast_signed() } else { i64::from(payload) };
            let bits = read_bits(self.extra, self.extra_at.min(extra_bits), extra_count(entry));
            self.extra_at += extra_count(entry) as usize;
            if entry & RUN_ENTRY != 0 {
                self.put_any(run_first(entry).into());
                self.skip(run_length(entry, bits as u32) as usize - 1);
            } else {
                self.put_any(class_value(start, bits));
            }
        }
        LANES
    }

    /// Writes a difference where there is room for one.
    #[inline(always)]
    fn put_any(&mut self, difference: i64) {
        let value = C::from_i64(difference);
        self.values[self.at] = match C::FAR {
            Some(far) if value == far || value.to_i64() != difference => {
                (self.keep_far)(self.at, difference);
                far
            }
            _ => value,
        };
        self.at += 1;
    }

    /// Writes zeros as far as there is room for them, and goes to their end.
    #[inline(always)]
    fn skip(&mut self, zeros: usize) {
        let end = (self.at + zeros).min(self.values.len());
        self.values[self.at..end].fill(C::default());
        self.at += zeros;
    }

    /// The same where there is room for [`LANES`] zeros, all of which are written.
    #[inline(always)]
    fn put_zeros(&mut self, zeros: usize) {
        self.write(&[C::default(); LANES]);
        let end = self.at + zeros;
        if self.is_zero {
            self.at = end;
            return;
        }
        self.at += LANES;
        while self.at < end && self.values.len() - self.at >= LANES {
            self.write(&[C::default(); LANES]);
            self.at += LANES;
        }
        if self.at < end {
            self.values[self.at..].fill(C::default());
        }
        self.at = end;
    }

    /// Writes the differences of a step without runs.
    #[inline(always)]
    fn put_all(&mut self, differences: [i32; LANES]) {
        self.write(&std::array::from_fn(|lane| C::from_i64(differences[lane].into())));
        self.at += LANES;
    }

    /// Writes differences where the next ones stand.
    #[inline(always)]
    fn write(&mut self, differences: &[C; LANES]) {
        self.values[self.at..self.at + LANES].copy_from_slice(differences);
    }
}

/// Extra bits of a step without wide tokens.
struct StepBits<'a> {
    bytes: &'a [u8; STEP_BYTES],
    at: usize,
}

impl StepBits<'_> {
    /// A window of at least [`WINDOW`] bits, least significant first, of which the first `count` are taken.
    #[inline(always)]
    fn take(&mut self, count: u32) -> u64 {
        let window = self.bytes[self.at / 8 % STEP_PLACES..].first_chunk().map_or(0, |&window| u64::from_le_bytes(window));
        let window = window >> (self.at % 8);
        self.at += count as usize;
        window
    }
}

/// Bits that a window has at least.
const WINDOW: u32 = 57;
/// Most extra bits of an entry that is not wide.
const MAX_NARROW_EXTRA: u8 = 21;
/// A block of fewer bits a value is filled with zeros before it is decoded: how long a run is is hard to foretell.
const FILLED_BITS: usize = 2;
/// A step of so many values is written without a question. A power of two, so that a place needs a mask.
const STEP_VALUES: usize = 256;
/// So many tokens of a step may be other than direct codes before they are no longer treated as exceptions.
const MOST_PATCHED: u32 = 6;
/// So many, if all are runs.
const MOST_RUNS: u32 = 12;
/// So many, if runs are among them: which of them is one is hard to foretell. Bits in place of that branch cost more (up to 10 % of the time on quiet planes).
const MOST_MIXED: u32 = 3;
/// With more runs in a step, tokens are written one by one.
const FEW_RUNS: u32 = 1;

/// The extra bits of an entry that is not wide, from those that follow it.
#[inline(always)]
fn narrow_extra(entry: u32, bits_here: u32) -> u32 {
    bits_here & ((1 << (extra_count(entry) & 31)) - 1)
}

/// Difference of an entry that is neither wide nor a run, without a branch.
#[inline(always)]
fn narrow_difference(entry: u32, bits_here: u32) -> i32 {
    let extra = narrow_extra(entry, bits_here);
    let sign = (extra & 1).cast_signed();
    (((entry.cast_signed() >> START_SHIFT) + (extra >> 1).cast_signed()) ^ -sign) + sign
}

/// Difference and span of an entry that is not wide. The difference of a run is what it begins with.
#[inline(always)]
fn expand_narrow(entry: u32, bits_here: u32) -> (i32, u32) {
    if entry & RUN_ENTRY == 0 {
        (narrow_difference(entry, bits_here), 1)
    } else {
        (run_first(entry), run_length(entry, bits_here))
    }
}

/// What a run begins with.
#[inline(always)]
fn run_first(entry: u32) -> i32 {
    entry.cast_signed() >> FIRST_SHIFT
}

/// Values of a run, from the bits that follow it.
#[inline(always)]
fn run_length(entry: u32, bits_here: u32) -> u32 {
    (entry >> START_SHIFT & ((1 << (FIRST_SHIFT - START_SHIFT)) - 1)) + narrow_extra(entry, bits_here)
}

#[inline(always)]
fn extra_count(entry: u32) -> u32 {
    entry >> 4 & 127
}

/// At least 57 bits from bit `at`, least significant first. At least [`EXTRA_PADDING`] bytes follow `at`.
#[inline(always)]
fn read_window(bytes: &[u8], at: usize) -> u64 {
    bytes[at / 8..].first_chunk().map_or(0, |&window| u64::from_le_bytes(window)) >> (at % 8)
}

/// Up to 64 bits from bit `at`, as [`read_window`].
#[inline(always)]
fn read_bits(bytes: &[u8], at: usize, count: u32) -> u64 {
    let low = read_window(bytes, at);
    if count <= 56 {
        return low & ((1 << count) - 1);
    }
    let high = u64::from(bytes[at / 8 + 8]).checked_shl(64 - (at % 8) as u32).unwrap_or(0);
    (low | high) & (u64::MAX >> (64 - count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::alphabet::FIRST_CLASS;

    #[test]
    fn narrow_entries_have_few_extra_bits() {
        for symbol in ALPHABET {
            assert!(symbol.extra_bits <= MAX_NARROW_EXTRA || symbol.start >= 1 << (31 - START_SHIFT));
        }
        assert!(ALPHABET[FIRST_CLASS..].iter().any(|symbol| symbol.extra_bits == MAX_NARROW_EXTRA));
    }
    use crate::entropy::codebook::{ENTRIES, NARROW_ENTRIES, canonical_codes, fill_decode_table, optimal_lengths};
    use crate::entropy::tokens::{Tokens, tokenize};

    #[test]
    fn blocks_come_back() {
        let mut encoder = Encoder::default();
        let mut table = [0; 4096];
        let mut tokens = Tokens::default();
        for len in [1usize, 31, 32, 33, 64, 1000, 2048, 65_536] {
            for spread in [1, 3, 20, 3000, 40_000, 150_000] {
                let differences: Vec<i32> =
                    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 12) as i32 % spread - spread / 3).collect();
                tokenize(&differences, &mut tokens).unwrap();
                let (_, histogram) = tokens.count();
                let lengths = optimal_lengths(&histogram);
                fill_decode_table(&lengths, &ENTRIES, &mut table).unwrap();
                let mut words = encoder.encode(tokens.symbols(), &canonical_codes(&lengths)).unwrap().to_vec();
                words.extend([0; LANE_PADDING]);
                let mut extra = Vec::new();
                tokens.extra.copy_to(0, tokens.segment_ends[tokens.segment_ends.len() - 1].extra_bit, &mut extra).unwrap();
                let mut extra: Vec<u8> = extra.iter().flat_map(|word| word.to_le_bytes()).collect();
                extra.extend([0; EXTRA_PADDING]);
                let mut decoded = vec![7; len];
                decode(&words, &extra, &table, &mut decoded, &mut |_, _| unreachable!("all fit")).unwrap();
                assert_eq!(decoded, differences);

                fill_decode_table(&lengths, &NARROW_ENTRIES, &mut table).unwrap();
                let (mut narrow, mut far) = (vec![7i16; len], Vec::new());
                decode(&words, &extra, &table, &mut narrow, &mut |index, difference| far.push((index, difference))).unwrap();
                let mut far = far.into_iter();
                for (index, (&difference, &narrow)) in differences.iter().zip(&narrow).enumerate() {
                    if (-32_767..=32_767).contains(&difference) {
                        assert_eq!(i32::from(narrow), difference);
                    } else {
                        assert_eq!((narrow, far.next()), (i16::MIN, Some((index, i64::from(difference)))));
                    }
                }
                assert_eq!(far.next(), None);
            }
        }
    }
}
