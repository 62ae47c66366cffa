//! Stage 5 (FORMAT.md §9): tokens of a block → 32 interleaved bit strings, and back.
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
use crate::alphabet::{ALPHABET, SYMBOLS, class_value};
use crate::codebook::{DecodeTable, MAX_CODE_BITS, RUN_ENTRY, SPECIAL_ENTRY, START_SHIFT, WIDE_ENTRY};
use crate::error::{Error, Result};
use crate::integer::Integer;
use crate::simd::vectorized;

/// Number of lanes.
pub const LANES: usize = 32;
/// Most values in a block.
pub const MAX_BLOCK: usize = 1 << 16;
/// Most words that the lanes of a block can ask for.
const MAX_WORDS: usize = MAX_BLOCK * MAX_CODE_BITS as usize / 16 + 2 * LANES;

/// Places for the words of one block, used again and again.
#[derive(Debug)]
pub struct Encoder {
    words: Box<[u16]>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { words: vec![0; 1 << 16].into_boxed_slice() }
    }
}

const _: () = assert!(MAX_WORDS <= 1 << 16);

impl Encoder {
    /// Codes the tokens of a block; returns its words without the zeros at the end. `codes` is [`crate::codebook::canonical_codes`]'s.
    pub fn encode(&mut self, symbols: &[u8], codes: &[u32; SYMBOLS]) -> &[u16] {
        let mut padded = [0; 256];
        padded[..SYMBOLS].copy_from_slice(codes);
        #[expect(clippy::unwrap_used, reason = "the length is fixed above")]
        let words: &mut [u16; 1 << 16] = (&mut *self.words).try_into().unwrap();
        let end = vectorized(
            #[inline(always)]
            || encode_lanes(symbols, &padded, words),
        );
        let used = words[..end].iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        &words[..used]
    }
}

#[inline(always)]
fn encode_lanes(symbols: &[u8], codes: &[u32; 256], words: &mut [u16; 1 << 16]) -> usize {
    // Pending bits of each lane, their number (below 16), and where the word in the making and the one after it will stand.
    let mut pending = [0u32; LANES];
    let mut bits = [0u32; LANES];
    let mut place: [u16; LANES] = std::array::from_fn(|lane| lane as u16);
    let mut next_place: [u16; LANES] = std::array::from_fn(|lane| (LANES + lane) as u16);
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
            words[usize::from(place[lane])] = finished[lane] as u16;
            place[lane] = next_place[lane];
            next_place[lane] = end as u16;
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
        words[usize::from(place[lane])] = ((pending[lane] << 16) >> bits[lane]) as u16;
        words[usize::from(next_place[lane])] = 0;
    }
    end as usize
}

/// Zero bytes that [`decode`] wants behind the extra bits: as many as a step of tokens that are not wide may take, and a window.
pub const EXTRA_PADDING: usize = MAX_NARROW_EXTRA as usize * LANES / 8 + 8;

/// Zero words that [`decode`] wants behind a block's lane words.
pub const LANE_PADDING: usize = REQUEST;

/// Decodes a block of `values.len()` differences. `lane_words` are the lanes' words followed by [`LANE_PADDING`] zeros; `extra` holds the extra
/// bits, followed by [`EXTRA_PADDING`] zero bytes.
///
/// # Errors
/// `Corrupt` if tokens or extra bits do not come out even with the block.
pub fn decode<C: Integer>(lane_words: &[u16], extra: &[u8], table: &DecodeTable, values: &mut [C]) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new() {
        return vectorized(
            #[inline(always)]
            || decode_lanes(step::Avx2(v3), lane_words, extra, table, values),
        );
    }
    vectorized(
        #[inline(always)]
        || decode_lanes(step::Portable, lane_words, extra, table, values),
    )
}

#[inline(always)]
fn decode_lanes<C: Integer>(
    step: impl Step,
    lane_words: &[u16],
    extra: &[u8],
    table: &DecodeTable,
    values: &mut [C],
) -> Result<()> {
    const SECTION: &str = "block";
    let zeros_at = lane_words.len().saturating_sub(LANE_PADDING);
    let word = |index: usize| u32::from(lane_words[index.min(zeros_at)]);
    let mut lanes = Lanes { buffers: std::array::from_fn(|lane| word(lane) << 16 | word(LANES + lane)), used: [0; LANES] };
    let mut next = (2 * LANES).min(zeros_at);
    let extra_bits = 8 * (extra.len() - EXTRA_PADDING);
    let mut extra_at = 0;
    values.fill(C::default());
    let mut at = 0;
    while at < values.len() {
        let request = lane_words[next..].first_chunk().unwrap_or(&[0; REQUEST]);
        let Found { entries, any, specials, taken } = step.step(&mut lanes, table, request);
        next = (next + taken).min(zeros_at);

        // What they stand for: a difference and the values it spans, computed for all lanes side by side.
        if any & WIDE_ENTRY != 0 || extra_at > extra_bits {
            at = expand_one_by_one(&entries, extra, &mut extra_at, values, at);
            continue;
        }
        if specials == 0 && values.len() - at >= LANES {
            for (value, entry) in values[at..at + LANES].iter_mut().zip(entries) {
                *value = C::from_i64(i64::from(entry.cast_signed() >> START_SHIFT));
            }
            at += LANES;
        } else if specials <= FEW {
            // A branch that is seldom wrong costs less than doing for all what few need.
            for entry in entries {
                let Some(value) = values.get_mut(at) else { break };
                if entry & SPECIAL_ENTRY == 0 {
                    *value = C::from_i64(i64::from(entry.cast_signed() >> START_SHIFT));
                    at += 1;
                } else {
                    let (difference, span) = expand_narrow(entry, read_window(extra, extra_at) as u32);
                    extra_at += extra_count(entry) as usize;
                    *value = C::from_i64(i64::from(difference));
                    at += span as usize;
                }
            }
        } else {
            let mut bits_here = [0u32; LANES];
            for (bits_here, entry) in bits_here.iter_mut().zip(entries) {
                *bits_here = read_window(extra, extra_at) as u32;
                extra_at += extra_count(entry) as usize;
            }
            let expanded: [(i32, u32); LANES] = std::array::from_fn(|lane| expand_narrow(entries[lane], bits_here[lane]));
            if any & RUN_ENTRY == 0 && values.len() - at >= LANES {
                for (value, (difference, _)) in values[at..at + LANES].iter_mut().zip(expanded) {
                    *value = C::from_i64(i64::from(difference));
                }
                at += LANES;
            } else {
                for (&entry, (difference, span)) in entries.iter().zip(expanded) {
                    if let Some(value) = values.get_mut(at) {
                        *value = C::from_i64(i64::from(difference));
                        at += span as usize;
                    } else {
                        extra_at -= extra_count(entry) as usize; // a void token, behind the block's end
                    }
                }
            }
        }
    }
    if at != values.len() {
        return Err(Error::corrupt(SECTION, format!("a zero run ends {} values behind the block", at - values.len())));
    }
    if extra_at.next_multiple_of(16) != extra_bits {
        return Err(Error::corrupt(SECTION, format!("its tokens need {extra_at} extra bits, it has {extra_bits}")));
    }
    Ok(())
}

/// Most extra bits of an entry that is not wide.
const MAX_NARROW_EXTRA: u8 = 21;
/// So many tokens of a step may be other than direct codes before they are no longer treated as exceptions.
const FEW: u32 = 6;

/// Difference and span of an entry that is not wide, from the bits that follow it, without a branch. The difference of a run is 0.
#[inline(always)]
fn expand_narrow(entry: u32, bits_here: u32) -> (i32, u32) {
    let kept = bits_here & ((1 << (extra_count(entry) & 31)) - 1);
    let start = entry.cast_signed() >> START_SHIFT;
    let sign = (kept & 1).cast_signed();
    let difference = ((start + (kept >> 1).cast_signed()) ^ -sign) + sign;
    if entry & RUN_ENTRY == 0 { (difference, 1) } else { (0, start.cast_unsigned().wrapping_add(kept)) }
}

#[inline(always)]
fn extra_count(entry: u32) -> u32 {
    entry >> 4 & 127
}

/// Expands the tokens of a step, any token, anywhere in the block. Returns the place behind them.
#[inline(never)]
fn expand_one_by_one<C: Integer>(
    entries: &[u32; LANES],
    extra: &[u8],
    extra_at: &mut usize,
    values: &mut [C],
    mut at: usize,
) -> usize {
    let extra_bits = 8 * (extra.len() - EXTRA_PADDING);
    for &entry in entries {
        let Some(value) = values.get_mut(at) else { break };
        let payload = entry.cast_signed() >> START_SHIFT;
        let start =
            if entry & WIDE_ENTRY == 0 { i64::from(payload) } else { ALPHABET[payload as usize % SYMBOLS].start.cast_signed() };
        let bits = read_bits(extra, (*extra_at).min(extra_bits), extra_count(entry));
        *extra_at += extra_count(entry) as usize;
        if entry & RUN_ENTRY == 0 {
            *value = C::from_i64(class_value(start, bits));
            at += 1;
        } else {
            at += start as usize + bits as usize;
        }
    }
    at
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
    use crate::alphabet::FIRST_CLASS;

    #[test]
    fn narrow_entries_have_few_extra_bits() {
        for symbol in ALPHABET {
            assert!(symbol.extra_bits <= MAX_NARROW_EXTRA || symbol.start >= 1 << (31 - START_SHIFT));
        }
        assert!(ALPHABET[FIRST_CLASS..].iter().any(|symbol| symbol.extra_bits == MAX_NARROW_EXTRA));
    }
    use crate::codebook::{canonical_codes, fill_decode_table, optimal_lengths};
    use crate::tokens::{Tokens, tokenize};

    #[test]
    fn blocks_come_back() {
        let mut encoder = Encoder::default();
        let mut table = [0; 4096];
        let mut tokens = Tokens::default();
        for len in [1usize, 31, 32, 33, 64, 1000, 2048, 65_536] {
            for spread in [1, 3, 20, 3000] {
                let differences: Vec<i32> =
                    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as i32 % spread - spread / 3).collect();
                tokenize(&differences, &mut tokens);
                let (_, histogram) = tokens.count();
                let lengths = optimal_lengths(&histogram);
                fill_decode_table(&lengths, &mut table).unwrap();
                let mut words = encoder.encode(&tokens.symbols, &canonical_codes(&lengths)).to_vec();
                words.extend([0; LANE_PADDING]);
                let mut extra = Vec::new();
                tokens.extra.copy_to(0, tokens.segment_ends[tokens.segment_ends.len() - 1].extra_bit, &mut extra);
                let mut extra: Vec<u8> = extra.iter().flat_map(|word| word.to_le_bytes()).collect();
                extra.extend([0; EXTRA_PADDING]);
                let mut decoded = vec![7; len];
                decode(&words, &extra, &table, &mut decoded).unwrap();
                assert_eq!(decoded, differences);
            }
        }
    }
}
