//! Stage 3 (FORMAT.md §7): differences → tokens. The way back is one with stage 5's, in [`crate::entropy::lanes`].
//!
//! A token is a symbol of the alphabet and its extra bits. Zeros become one token together with a zero, 1 or -1 before them; the encoder ends these runs
//! at multiples of [`SEGMENT`], so that segments can be coded apart and put together into blocks of any size afterwards.

use std::ops::Range;

use crate::entropy::alphabet::{
    ALPHABET, DIRECT_MAX, DIRECT_ZERO, FIRST_RUN, Histogram, SEGMENT, SYMBOLS, class_symbol, run_symbol,
};
use crate::error::Result;
use crate::memory::{Boxed, lengthen, reserve, resize};
use crate::number::integer::Integer;
use crate::simd::bytes::{self, Masks, keep, list_ones};
use crate::simd::{outlined, vectorized};

/// The tokens of a plane, segment after segment. Kept from chunk to chunk.
#[derive(Debug, Default)]
pub struct Tokens {
    /// A symbol a token, and behind them what longer planes have left.
    room: Vec<u8>,
    /// Made with the first plane.
    scratch: Option<Boxed<Scratch>>,
    /// Extra bits of all tokens in their order, least significant first.
    pub extra: BitString,
    /// Where each segment ends.
    pub segment_ends: Vec<Place>,
}

/// A place in a plane's tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    /// Tokens before it.
    pub symbol: usize,
    /// Extra bits before it.
    pub extra_bit: usize,
}

/// Bits, least significant first.
#[derive(Debug, Default)]
pub struct BitString {
    words: Vec<u64>,
    bits: usize,
}

impl BitString {
    /// Appends the bits from place `from` to place `to` to 16-bit words, the last one filled up with zeros.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy_to(&self, from: usize, to: usize, words: &mut Vec<u16>) -> Result<()> {
        let Some(last) = to.checked_sub(from + 1) else { return Ok(()) };
        let start = words.len();
        let wholes = last / 64 + 1;
        resize(words, start + 4 * wholes)?;
        let shift = from % 64;
        let source = &self.words[from / 64..from / 64 + wholes + 1];
        for (four, source) in words[start..].as_chunks_mut::<4>().0.iter_mut().zip(source.windows(2)) {
            let whole = source[0] >> shift | source[1] << 1 << (63 - shift);
            *four = [whole as u16, (whole >> 16) as u16, (whole >> 32) as u16, (whole >> 48) as u16];
        }
        words.truncate(start + last / 16 + 1);
        let end = words.len() - 1;
        words[end] &= 0xffff >> (15 - last % 16);
        Ok(())
    }
}

/// Appends to a [`BitString`], with the state in registers.
struct BitWriter<'a> {
    words: &'a mut [u64],
    end: usize,
    buffer: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// A writer for at most `pushes` pushes.
    #[inline(always)]
    fn new(string: &'a mut BitString, pushes: usize) -> Result<Self> {
        let end = string.bits / 64;
        // Each push may fill a word; [`BitString::copy_to`] looks at one behind the last.
        let needed = end + pushes + 2;
        if string.words.len() < needed {
            resize(&mut string.words, needed.next_power_of_two())?;
        }
        let count = (string.bits % 64) as u32;
        let buffer = string.words[end] & ((1 << count) - 1);
        Ok(Self { words: &mut string.words, end, buffer, count })
    }

    /// Appends up to 64 bits; those of `value` above are 0.
    #[inline(always)]
    fn push(&mut self, value: u64, bits: u32) {
        let joined = self.buffer | value << self.count;
        self.words[self.end] = joined;
        let carried = value >> 1 >> (63 - self.count);
        let count = self.count + bits;
        self.buffer = if count < 64 { joined } else { carried };
        self.end += (count / 64) as usize;
        self.count = count % 64;
    }

    /// Appends the extra bits of a difference that is not 0 and returns its symbol.
    #[inline(always)]
    fn push_difference<C: Integer>(&mut self, difference: C) -> u8 {
        let index = table_index(difference);
        if index < RUNS_AT {
            return self.push_token(index);
        }
        let (symbol, value) = class_symbol(difference.to_i64());
        self.push(value, u32::from(ALPHABET[usize::from(symbol)].extra_bits));
        symbol
    }

    /// Appends the extra bits of a token of the table and returns its symbol.
    #[inline(always)]
    fn push_token(&mut self, index: usize) -> u8 {
        self.push_entry(TOKEN_TABLE[index])
    }

    /// The same for the table's entry.
    #[inline(always)]
    fn push_entry(&mut self, token: u32) -> u8 {
        self.push(u64::from(token >> 16), token & 0xff);
        (token >> 8) as u8
    }

    /// Stores the bits that are not a whole word yet; returns the string's length.
    #[inline(always)]
    fn finish(self) -> usize {
        self.words[self.end] = self.buffer;
        self.end * 64 + self.count as usize
    }
}

impl Tokens {
    /// A symbol a token.
    #[must_use]
    pub fn symbols(&self) -> &[u8] {
        &self.room[..self.segment_ends.last().map_or(0, |end| end.symbol)]
    }

    /// Most tokens of so many segments that stand together.
    #[must_use]
    pub fn longest_group(&self, segments: usize) -> usize {
        let mut begin = 0;
        let tokens_of = |group: &[Place]| {
            let end = group.last().map_or(begin, |place| place.symbol);
            let tokens = end - begin;
            begin = end;
            tokens
        };
        self.segment_ends.chunks(segments).map(tokens_of).max().unwrap_or(0)
    }

    /// Sum of all extra bits, and how often each symbol occurs.
    #[must_use]
    pub fn count(&self) -> (u64, Histogram) {
        // Four counters a symbol: equal neighbours do not wait for each other's store.
        let mut lanes = [[0u32; 256]; 4];
        let mut histogram = [0; SYMBOLS];
        for part in self.symbols().chunks(1 << 30) {
            let (quads, rest) = part.as_chunks::<4>();
            for quad in quads {
                for lane in 0..4 {
                    lanes[lane][usize::from(quad[lane])] += 1;
                }
            }
            for &symbol in rest {
                lanes[0][usize::from(symbol)] += 1;
            }
            for (symbol, count) in histogram.iter_mut().enumerate() {
                *count += lanes.iter_mut().map(|lane| u64::from(std::mem::take(&mut lane[symbol]))).sum::<u64>();
            }
        }
        let extra_bits = histogram.iter().zip(&ALPHABET).map(|(&count, symbol)| count * u64::from(symbol.extra_bits)).sum();
        (extra_bits, histogram)
    }
}

/// Room that the scan over a segment may write beyond its tokens.
const SLACK: usize = 32;
/// The byte of a zero.
const ZERO: u8 = DIRECT_MAX as u8;
/// Marks a difference beyond the direct codes until its class is known.
const BEYOND: u8 = 31;
/// What stands behind a shorter segment: no zero, no 1 or -1, no class.
const BEHIND: u8 = 0;
/// The symbol of a direct code less its byte, which is `difference + 15`.
const BIAS: u8 = DIRECT_ZERO - DIRECT_MAX as u8;

/// What a segment's differences become on the way; only what a segment itself has written there counts.
#[derive(Debug)]
struct Scratch {
    /// `difference + 15`, or [`BEYOND`].
    bytes: [u8; SEGMENT + SLACK],
    /// Places in [`TOKEN_TABLE`].
    places: [u16; SEGMENT + SLACK],
    /// The same with runs put in.
    list: [u16; SEGMENT + SLACK],
    /// Indices of differences whose tokens are no direct codes, runs by their first values.
    non_literals: [u16; SEGMENT + SLACK],
    /// Indices of the last zeros of runs.
    run_ends: [u16; SEGMENT + SLACK],
    /// The symbols of those tokens.
    non_literal_symbols: [u8; SEGMENT + SLACK],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            bytes: [0; SEGMENT + SLACK],
            places: [0; SEGMENT + SLACK],
            list: [0; SEGMENT + SLACK],
            non_literals: [0; SEGMENT + SLACK],
            run_ends: [0; SEGMENT + SLACK],
            non_literal_symbols: [0; SEGMENT + SLACK],
        }
    }
}

/// Replaces `tokens` with the tokens of `differences`.
///
/// # Errors
/// `OutOfMemory`.
pub fn tokenize<C: Integer>(differences: &[C], tokens: &mut Tokens) -> Result<()> {
    lengthen(&mut tokens.room, differences.len() + SLACK)?;
    tokens.extra.bits = 0;
    if tokens.scratch.is_none() {
        tokens.scratch = Some(Boxed::new(Scratch::default())?);
    }
    tokens.segment_ends.clear();
    reserve(&mut tokens.segment_ends, differences.len().div_ceil(SEGMENT))?;
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new() {
        return vectorized(
            #[inline(always)]
            || tokenize_segments(bytes::Avx2(v3), differences, tokens),
        );
    }
    vectorized(
        #[inline(always)]
        || tokenize_segments(bytes::Portable, differences, tokens),
    )
}

#[inline(always)]
fn tokenize_segments<C: Integer>(masks: impl Masks, differences: &[C], tokens: &mut Tokens) -> Result<()> {
    let mut symbol_end = 0;
    let Some(scratch) = tokens.scratch.as_deref_mut() else { unreachable!("it is made before") };
    for segment in differences.chunks(SEGMENT) {
        let symbols = &mut tokens.room[symbol_end..symbol_end + segment.len() + SLACK];
        symbol_end += tokenize_segment(masks, segment, symbols, &mut tokens.extra, scratch)?;
        tokens.segment_ends.push(Place { symbol: symbol_end, extra_bit: tokens.extra.bits });
    }
    Ok(())
}

/// Magnitudes below this have their token in a table.
const TABLE_MAGNITUDE: i64 = 4096;

/// Tokens of the differences `-4095 ..= 4095`, and behind them, from [`RUNS_AT`] on, of runs of up to [`SEGMENT`] values that begin with -1, 0 and 1: number of
/// extra bits in the low byte, where shifts by it and sums of four need no mask, symbol in the next, the bits above. What stands behind them is [`WILD`].
static TOKEN_TABLE: [u32; 1 << 14] = {
    let mut table = [WILD; 1 << 14];
    let mut difference = 1 - TABLE_MAGNITUDE;
    while difference < TABLE_MAGNITUDE {
        table[(difference + TABLE_MAGNITUDE - 1) as usize] = if difference.abs() <= DIRECT_MAX {
            table_entry((DIRECT_ZERO as i64 + difference) as u8, 0)
        } else {
            let (symbol, extra) = class_symbol(difference);
            table_entry(symbol, extra)
        };
        difference += 1;
    }
    let mut first = 0;
    while first < FIRST_RUN.len() {
        let mut run = 2;
        while run <= SEGMENT {
            let (symbol, extra) = run_symbol(first as i64 - 1, run);
            table[RUNS_AT + first * SEGMENT + run] = table_entry(symbol, extra);
            run += 1;
        }
        first += 1;
    }
    table
};

const fn table_entry(symbol: u8, extra: u64) -> u32 {
    ALPHABET[symbol as usize].extra_bits as u32 | (symbol as u32) << 8 | (extra as u32) << 16
}

/// Entry of [`TOKEN_TABLE`] for differences that are not there. Its bit is in no other entry.
const WILD: u32 = 1 << 31;
/// Place of such an entry.
const WILD_AT: u16 = (1 << 14) - 1;
/// Where the runs stand in [`TOKEN_TABLE`], [`SEGMENT`] that begin with -1, as many with 0 and with 1.
const RUNS_AT: usize = 2 * TABLE_MAGNITUDE as usize - 1;
const _: () = assert!(RUNS_AT + FIRST_RUN.len() * SEGMENT < WILD_AT as usize);

/// Place of a difference in [`TOKEN_TABLE`]; at [`RUNS_AT`] or behind for one that is not there.
#[inline(always)]
fn table_index<C: Integer>(difference: C) -> usize {
    difference.to_i64().wrapping_add(TABLE_MAGNITUDE - 1).cast_unsigned() as usize
}

/// Place in [`TOKEN_TABLE`] of a run of so many values, from the byte of what it begins with.
#[inline(always)]
fn run_index(first: u8, run: usize) -> usize {
    RUNS_AT + usize::from(first.wrapping_sub(ZERO - 1)) * SEGMENT + run
}

/// Words of a bit for each value of a segment.
const WORDS: usize = SEGMENT / 64;

/// Share of a segment's values, as a divisor, up to which classes and runs are events between which symbols are copied.
const FEW: usize = 16;
/// The same from which classes are so many that all values are looked up.
const MANY: usize = 3;

/// Tokens of one segment; returns how many.
///
/// Differences become bytes first (`difference + 15`, or [`BEYOND`]), in vector code. Most bytes are symbols but for a constant. Runs
/// and classes are found in bit masks. Where these are few, symbols are copied 16 at a time from one to the next; where they are some, they are looked
/// up in a table, and their symbols put among the others; where classes are many, all tokens are looked up.
#[inline(always)]
fn tokenize_segment<C: Integer>(
    masks: impl Masks,
    segment: &[C],
    symbols: &mut [u8],
    extra: &mut BitString,
    scratch: &mut Scratch,
) -> Result<usize> {
    let mut bits = BitWriter::new(extra, segment.len())?;
    let bytes = &mut scratch.bytes;
    for (byte, &difference) in bytes.iter_mut().zip(segment) {
        *byte = difference.direct_index().min(u32::from(BEYOND)) as u8;
    }
    // What a longer segment has left.
    bytes[segment.len()..].fill(BEHIND);

    let mut marked = Marked { zeros: [0; WORDS + 1], starts: [0; WORDS], joined: [0; WORDS], classes: [0; WORDS] };
    let mut ones: Marks<WORDS> = [0; WORDS];
    let mut class_count = 0;
    let used_words = segment.len().div_ceil(64);
    for (word, group) in bytes[..64 * used_words].as_chunks::<64>().0.iter().enumerate() {
        marked.zeros[word] = masks.equal(group, ZERO);
        ones[word] = masks.equal(group, ZERO - 1) | masks.equal(group, ZERO + 1);
        marked.classes[word] = masks.equal(group, BEYOND);
        class_count += marked.classes[word].count_ones() as usize;
    }
    let runs = marked.find_runs(&ones);
    let written = if class_count + runs <= segment.len() / FEW {
        copy_between(segment, bytes, &marked, symbols, &mut bits)
    } else if class_count < segment.len() / MANY {
        look_up_non_literals(masks, segment, &marked, symbols, &mut bits, scratch)
    } else {
        find_places(segment, &mut scratch.places);
        let list = if runs == 0 {
            &scratch.places[..segment.len()]
        } else {
            let count = put_runs(segment.len(), bytes, &marked, &scratch.places, &mut scratch.list);
            &scratch.list[..count]
        };
        look_up(segment, list, symbols, &mut bits);
        list.len()
    };
    let end = bits.finish();
    extra.bits = end;
    Ok(written)
}

/// Differences of a segment that have something in common: bits of 64-bit words.
type Marks<const WORDS: usize> = [u64; WORDS];

/// What is marked of a segment's differences.
struct Marked {
    /// Those that are zero.
    zeros: Marks<{ WORDS + 1 }>,
    /// Those that begin a run.
    starts: Marks<WORDS>,
    /// Zeros of runs but those that begin one: they have no tokens.
    joined: Marks<WORDS>,
    /// Such as have classes.
    classes: Marks<WORDS>,
}

/// Zeros stand alone in a segment if fewer than so many halves of them stand together, on average: 1.5 zeros, as where a third of the values are zero and know nothing
/// of each other. Runs win next to nothing there, and cost time both ways. With 1.625, reading took 3 to 6 % less time, but streams were 0.1 to 0.3 % longer, one of 120
/// 4 %; with 1.75, 2 to 7 % less time, 0.1 to 0.2 % and 9 % longer.
pub const HALVES_TOGETHER: u32 = 3;

impl Marked {
    /// Marks what begins and what belongs to runs; returns how many there are.
    #[inline(always)]
    fn find_runs(&mut self, ones: &Marks<WORDS>) -> usize {
        let (mut zero_before, mut one_before) = (0, 0);
        let (mut zeros, mut stretches, mut runs) = (0, 0, 0);
        for (word, &one) in ones.iter().enumerate() {
            let zero = self.zeros[word];
            let behind_zero = zero << 1 | zero_before;
            let before_zero = zero >> 1 | self.zeros[word + 1] << 63;
            self.joined[word] = zero & (behind_zero | one << 1 | one_before);
            self.starts[word] = (one | zero & !self.joined[word]) & before_zero;
            (zero_before, one_before) = (zero >> 63, one >> 63);
            zeros += zero.count_ones();
            stretches += (zero & !behind_zero).count_ones();
            runs += self.starts[word].count_ones();
        }
        if 2 * zeros < HALVES_TOGETHER * stretches {
            (self.starts, self.joined, runs) = ([0; WORDS], [0; WORDS], 0);
        }
        runs as usize
    }
}

/// Tokens of a segment with few classes.
#[inline(always)]
fn copy_between<C: Integer>(
    segment: &[C],
    bytes: &[u8; SEGMENT + SLACK],
    Marked { zeros, starts, classes, .. }: &Marked,
    symbols: &mut [u8],
    bits: &mut BitWriter<'_>,
) -> usize {
    let (mut at, mut written) = (0, 0);
    for (word, (starts, class)) in starts.iter().zip(classes).enumerate() {
        let mut events = starts | class;
        while events != 0 {
            let event = 64 * word + events.trailing_zeros() as usize;
            events &= events - 1;
            copy_symbols(bytes, at..event, &mut symbols[written..]);
            written += event - at;
            // What comes next is hard to foretell: a choice between numbers costs less than a branch.
            let byte = bytes[event % SEGMENT];
            let is_class = byte == BEYOND;
            let after = if is_class { event + 1 } else { run_end(zeros, event + 1) };
            let difference = table_index(segment[event]);
            let index = if is_class { difference } else { run_index(byte, after - event) };
            let symbol =
                if is_class && difference >= RUNS_AT { bits.push_difference(segment[event]) } else { bits.push_token(index) };
            symbols[written] = symbol;
            written += 1;
            at = after;
        }
    }
    copy_symbols(bytes, at..segment.len(), &mut symbols[written..]);
    written + segment.len() - at
}

/// Writes the symbols of a range without events; up to 16 more are overwritten.
#[inline(always)]
fn copy_symbols(bytes: &[u8; SEGMENT + SLACK], range: Range<usize>, symbols: &mut [u8]) {
    // Mostly a copy or none will do, and one too many costs less than the question.
    let mut copies = symbols.as_chunks_mut::<16>().0.iter_mut();
    let mut from = range.start;
    loop {
        let bytes: &[u8; 16] = bytes[from..].first_chunk().unwrap_or(&[0; 16]);
        if let Some(sixteen) = copies.next() {
            *sixteen = bytes.map(|byte| byte.wrapping_add(BIAS));
        }
        from += 16;
        if from >= range.end {
            break;
        }
    }
}

/// Lists the places in the table of a segment's tokens, from those of its differences; returns how many there are.
#[inline(always)]
fn put_runs(
    len: usize,
    bytes: &[u8; SEGMENT + SLACK],
    Marked { zeros, starts, .. }: &Marked,
    places: &[u16; SEGMENT + SLACK],
    list: &mut [u16; SEGMENT + SLACK],
) -> usize {
    let (mut at, mut count) = (0, 0);
    let copy = |range: Range<usize>, list: &mut [u16]| {
        let mut copies = list.as_chunks_mut::<16>().0.iter_mut();
        let mut from = range.start;
        loop {
            let sixteen: &[u16; 16] = places[from..].first_chunk().unwrap_or(&[0; 16]);
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
            list[count] = run_index(bytes[start % SEGMENT], at - start) as u16;
            count += 1;
        }
    }
    copy(at..len, &mut list[count..]);
    count + len - at
}

/// Places in [`TOKEN_TABLE`] of differences.
#[inline(always)]
fn find_places<C: Integer>(segment: &[C], places: &mut [u16; SEGMENT + SLACK]) {
    for (place, &difference) in places.iter_mut().zip(segment) {
        let index = difference.biased(TABLE_MAGNITUDE as i32 - 1);
        *place = if index < RUNS_AT as u32 { index as u16 } else { WILD_AT };
    }
}

/// Tokens of a segment with some classes or runs. All of these are looked up; their symbols are put among the bytes of the others, from which then the zeros that
/// runs join are left out.
#[inline(always)]
fn look_up_non_literals<C: Integer>(
    masks: impl Masks,
    segment: &[C],
    Marked { zeros, starts, joined, classes }: &Marked,
    symbols: &mut [u8],
    bits: &mut BitWriter<'_>,
    scratch: &mut Scratch,
) -> usize {
    let Scratch { bytes, places, list: non_literal_indices, non_literals, run_ends, non_literal_symbols } = scratch;
    let found = if classes.iter().all(|&classes| classes == 0) {
        // Each run has a last zero, in the order of their first values.
        let (mut found, mut ended) = (0, 0);
        for word in (0..WORDS).filter(|&word| starts[word] | joined[word] != 0) {
            let ends = joined[word] & !(zeros[word] >> 1 | zeros[word + 1] << 63);
            found += list_ones(starts[word], (64 * word) as u16, &mut non_literals[found..]);
            ended += list_ones(ends, (64 * word) as u16, &mut run_ends[ended..]);
        }
        for ((place, &start), &end) in non_literal_indices.iter_mut().zip(&non_literals[..found]).zip(&run_ends[..ended]) {
            *place = run_index(bytes[usize::from(start) % SEGMENT], usize::from(end.wrapping_sub(start)) + 1) as u16;
        }
        found
    } else {
        find_places(segment, places);
        let mut found = 0;
        for (word, (&starts, classes)) in starts.iter().zip(classes).enumerate() {
            let mut runs = starts;
            while runs != 0 {
                let start = 64 * word + runs.trailing_zeros() as usize;
                runs &= runs - 1;
                places[start] = run_index(bytes[start % SEGMENT], run_end(zeros, start + 1) - start) as u16;
            }
            if starts | classes != 0 {
                found += list_ones(starts | classes, (64 * word) as u16, &mut non_literals[found..]);
            }
        }
        for (place, &special) in non_literal_indices.iter_mut().zip(&non_literals[..found]) {
            *place = places[usize::from(special) % SEGMENT];
        }
        found
    };
    look_up(segment, &non_literal_indices[..found], non_literal_symbols, bits);
    for (&symbol, &special) in non_literal_symbols.iter().zip(&non_literals[..found]) {
        bytes[usize::from(special) % SEGMENT] = symbol.wrapping_sub(BIAS);
    }

    let mut written = 0;
    for (word, group) in bytes[..64 * segment.len().div_ceil(64)].as_chunks::<64>().0.iter().enumerate() {
        let kept = !joined[word] & (u64::MAX >> (64 - (segment.len() - 64 * word).min(64)));
        if kept != 0 {
            written += keep(masks, group, kept, &mut symbols[written..]);
        }
    }
    for symbol in &mut symbols[..written] {
        *symbol = symbol.wrapping_add(BIAS);
    }
    written
}

/// Tokens of places on a list, which has all that are table_miss: four tokens at a time, whatever they are. The bit string's state is what the loop
/// waits for, and the bits of four (at most 13 each) fit one push.
#[inline(always)]
fn look_up<C: Integer>(segment: &[C], list: &[u16], symbols: &mut [u8], bits: &mut BitWriter<'_>) {
    let count = list.len();
    let mut table_miss = segment.iter().filter(|&&difference| table_index(difference) >= RUNS_AT);
    let mut done = 0;
    loop {
        done += outlined(
            #[inline(always)]
            || push_fours(&list[done..count], &mut symbols[done..count], bits),
        );
        // The last ones, or four among which there is a table_miss one.
        for at in done..count.min(done + 4) {
            let entry = entry(list[at]);
            symbols[at] = match (entry & WILD != 0).then(|| table_miss.next()).flatten() {
                Some(&difference) => bits.push_difference(difference),
                None => bits.push_entry(entry),
            };
        }
        done += 4;
        if done >= count {
            return;
        }
    }
}

/// Tokens of entries in the table, four at a time until one of them is table_miss or there are fewer; returns how many.
#[inline(always)]
fn push_fours(list: &[u16], symbols: &mut [u8], bits: &mut BitWriter<'_>) -> usize {
    let fours = list.as_chunks::<4>().0;
    let mut writer = BitWriter { words: &mut *bits.words, ..*bits };
    let mut pushed = 4 * fours.len();
    for (done, (symbols, four)) in symbols.as_chunks_mut::<4>().0.iter_mut().zip(fours).enumerate() {
        let entries = four.map(entry);
        let [a, b, c, d] = entries;
        if (a | b | c | d) & WILD != 0 {
            pushed = 4 * done;
            break;
        }
        *symbols = entries.map(|entry| (entry >> 8) as u8);
        // Four times 13 bits and their sum fit the low six bits, by which a shift goes.
        let (first, second, first_bits) = (join(a, b), join(c, d), a.wrapping_add(b));
        writer.push(first | second << (first_bits & 63), first_bits.wrapping_add(c).wrapping_add(d) & 63);
    }
    (bits.end, bits.buffer, bits.count) = (writer.end, writer.buffer, writer.count);
    pushed
}

/// What [`TOKEN_TABLE`] has at a place.
#[inline(always)]
fn entry(place: u16) -> u32 {
    TOKEN_TABLE[usize::from(place) % TOKEN_TABLE.len()]
}

/// The bits of two tokens of the table.
#[inline(always)]
fn join(first: u32, second: u32) -> u64 {
    u64::from(first >> 16) | u64::from(second >> 16) << (first & 63)
}

/// First place behind `start`, where a zero stands, that has none.
#[inline(always)]
fn run_end(zeros: &[u64], start: usize) -> usize {
    let ones = (!(zeros[start / 64] >> (start % 64))).trailing_zeros() as usize;
    if start % 64 + ones < 64 {
        return start + ones;
    }
    let whole = zeros[start / 64 + 1..].iter().take_while(|&&word| word == u64::MAX).count();
    let word = start / 64 + 1 + whole;
    64 * word + zeros.get(word).map_or(0, |word| word.trailing_ones() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::alphabet::{Meaning, class_value};

    /// The plain definition of a segment's differences from its tokens.
    fn expand(tokens: &Tokens) -> Vec<i64> {
        let mut at = 0;
        let mut differences = Vec::new();
        for &symbol in tokens.symbols() {
            let symbol = ALPHABET[usize::from(symbol)];
            let mut words = Vec::new();
            tokens.extra.copy_to(at, at + usize::from(symbol.extra_bits), &mut words).unwrap();
            at += usize::from(symbol.extra_bits);
            let extra = words.iter().rev().fold(0u64, |value, &word| value << 16 | u64::from(word));
            match symbol.meaning {
                Meaning::Run => {
                    differences.push(symbol.first.into());
                    differences.extend((1..symbol.start + extra).map(|_| 0));
                }
                Meaning::Direct => differences.push(symbol.start.cast_signed()),
                Meaning::Class => differences.push(class_value(symbol.start.cast_signed(), extra)),
            }
        }
        assert_eq!(at, tokens.extra.bits);
        differences
    }

    #[test]
    fn tokens_stand_for_their_differences() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64
        };
        let mut tokens = Tokens::default();
        for len in [1, 2, 63, 64, 65, 2047, 2048, 2049, 5000] {
            for zero_in_16 in [0, 3, 8, 15, 16] {
                for spread in [2, 3, 31, 40, 1 << 20] {
                    let differences: Vec<i32> = (0..len)
                        .map(|_| if random() % 16 < zero_in_16 { 0 } else { (random() % spread - spread / 2) as i32 })
                        .collect();
                    tokenize(&differences, &mut tokens).unwrap();
                    let expected: Vec<i64> = differences.iter().map(|&d| i64::from(d)).collect();
                    assert_eq!(expand(&tokens), expected);
                    assert_eq!(tokens.segment_ends.len(), (len as usize).div_ceil(SEGMENT));
                    let (bits, histogram) = tokens.count();
                    assert_eq!(histogram.iter().sum::<u64>(), tokens.symbols().len() as u64);
                    assert_eq!(bits, tokens.extra.bits as u64);
                }
            }
        }
        let table_miss = [i64::MIN, i64::MAX, 0, 0, 16, -16, 15, -15, 0];
        tokenize(&table_miss, &mut tokens).unwrap();
        assert_eq!(expand(&tokens), table_miss);
    }
}
