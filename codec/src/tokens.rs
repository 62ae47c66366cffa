//! Stage 3 (FORMAT.md §7): differences → tokens, and back.
//!
//! A token is a symbol of the alphabet and its extra bits. Runs of zeros become one token; the encoder ends them at multiples of
//! [`SEGMENT`], so that segments can be coded apart and put together into blocks of any size afterwards.

use crate::alphabet::{ALPHABET, DIRECT_MAX, DIRECT_ZERO, SEGMENT, SYMBOLS, class_symbol, run_symbol};
use crate::integer::Integer;

/// How often each symbol occurs.
pub type Histogram = [u64; SYMBOLS];

/// The tokens of a plane, segment after segment. Kept from chunk to chunk.
#[derive(Debug, Default)]
pub struct Tokens {
    /// A symbol a token.
    pub symbols: Vec<u8>,
    /// Extra bits of those tokens that have some, in their order.
    pub extras: Vec<Extra>,
    /// Where each segment ends in `symbols` and `extras`.
    pub segment_ends: Vec<(usize, usize)>,
}

/// Extra bits of one token.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra {
    /// The bits.
    pub value: u64,
    /// How many.
    pub bits: u8,
}

impl Tokens {
    /// Sum of all extra bits, and how often each symbol occurs.
    #[must_use]
    pub fn count(&self) -> (u64, Histogram) {
        // Four counters a symbol: equal neighbours do not wait for each other's store.
        let mut lanes = [[0u32; 256]; 4];
        let mut histogram = [0; SYMBOLS];
        for part in self.symbols.chunks(1 << 30) {
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
/// Marks a difference beyond the direct codes until its class is known.
const BEYOND: u8 = 31;

/// Replaces `tokens` with the tokens of `differences`.
pub fn tokenize<C: Integer>(differences: &[C], tokens: &mut Tokens) {
    let segments = differences.len().div_ceil(SEGMENT);
    tokens.symbols.resize(differences.len() + SLACK, 0);
    tokens.extras.resize(differences.len() + 1, Extra::default());
    tokens.segment_ends.clear();
    tokens.segment_ends.reserve(segments);
    let (mut symbol_end, mut extra_end) = (0, 0);
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            for segment in differences.chunks(SEGMENT) {
                let symbols = &mut tokens.symbols[symbol_end..symbol_end + segment.len() + SLACK];
                let extras = &mut tokens.extras[extra_end..];
                let (new_symbols, new_extras) = tokenize_segment(segment, symbols, extras);
                symbol_end += new_symbols;
                extra_end += new_extras;
                tokens.segment_ends.push((symbol_end, extra_end));
            }
        },
    );
    tokens.symbols.truncate(symbol_end);
    tokens.extras.truncate(extra_end);
}

/// Tokens of one segment; returns how many symbols and extras were written.
///
/// Differences become bytes first (`difference + 15`, or [`BEYOND`]), in vector code. The edges of zero runs are found 64 at a time in
/// a bit mask; what lies between two runs is copied 16 bytes at a time and only looked at where it holds a class.
#[inline(always)]
fn tokenize_segment<C: Integer>(segment: &[C], symbols: &mut [u8], extras: &mut [Extra]) -> (usize, usize) {
    const ZERO: u8 = DIRECT_MAX as u8;
    let mut bytes = [ZERO ^ 1; SEGMENT + SLACK];
    let mut has_class = false;
    for (byte, &difference) in bytes[..segment.len()].iter_mut().zip(segment) {
        let index = difference.direct_index().min(u32::from(BEYOND)) as u8;
        *byte = index;
        has_class |= index == BEYOND;
    }

    // Places at which zeros start or stop, alternately.
    let mut edges = [0u16; SEGMENT + 65];
    let mut count = 0;
    let mut carry = 0;
    for (word, group) in bytes[..SEGMENT].as_chunks::<64>().0.iter().enumerate().take(segment.len().div_ceil(64)) {
        let zeros = mask_of(group, ZERO);
        let mut changes = zeros ^ (zeros << 1 | carry);
        carry = zeros >> 63;
        while changes != 0 {
            edges[count] = (word * 64) as u16 + changes.trailing_zeros() as u16;
            count += 1;
            changes &= changes - 1;
        }
    }
    if count % 2 == 1 {
        edges[count] = segment.len() as u16;
        count += 1;
    }

    let (mut at, mut written, mut written_extras) = (0, 0, 0);
    let shift = DIRECT_ZERO - ZERO;
    for pair in 0..=count / 2 {
        let (start, stop) = if pair < count / 2 {
            (usize::from(edges[2 * pair]), usize::from(edges[2 * pair + 1]))
        } else {
            (segment.len(), segment.len())
        };
        if has_class {
            for index in at..start {
                let byte = bytes[index & (SEGMENT - 1)];
                if byte == BEYOND {
                    let (symbol, value) = class_symbol(segment[index].to_i64());
                    symbols[written] = symbol;
                    extras[written_extras] = Extra { value, bits: ALPHABET[usize::from(symbol)].extra_bits };
                    written_extras += 1;
                } else {
                    symbols[written] = byte + shift;
                }
                written += 1;
            }
        } else {
            let mut from = at;
            while from < start {
                let sixteen: [u8; 16] = std::array::from_fn(|i| bytes[from + i].wrapping_add(shift));
                symbols[written + (from - at)..][..16].copy_from_slice(&sixteen);
                from += 16;
            }
            written += start - at;
        }
        if start < stop {
            let (symbol, value) = run_symbol(stop - start);
            let bits = ALPHABET[usize::from(symbol)].extra_bits;
            symbols[written] = symbol;
            written += 1;
            extras[written_extras] = Extra { value, bits };
            written_extras += usize::from(bits > 0);
        }
        at = stop;
    }
    (written, written_extras)
}

/// Bit `i` says whether `group[i]` is `wanted`. All bytes are below 128.
#[inline(always)]
fn mask_of(group: &[u8; 64], wanted: u8) -> u64 {
    let mut mask = 0;
    for (index, eight) in group.as_chunks::<8>().0.iter().enumerate() {
        let differs = u64::from_le_bytes(*eight) ^ (0x0101_0101_0101_0101 * u64::from(wanted));
        // The top bit of each byte becomes 1 where the byte differs; the product gathers the inverse's top bits in its highest byte.
        let equal = !(differs + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080;
        let bits = (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * index);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alphabet::{Meaning, class_value};

    /// The plain definition of a segment's differences from its tokens.
    fn expand(tokens: &Tokens) -> Vec<i64> {
        let mut extras = tokens.extras.iter();
        let mut differences = Vec::new();
        for &symbol in &tokens.symbols {
            let symbol = ALPHABET[usize::from(symbol)];
            let extra = if symbol.extra_bits > 0 {
                let extra = extras.next().unwrap();
                assert_eq!(extra.bits, symbol.extra_bits);
                extra.value
            } else {
                0
            };
            match symbol.meaning {
                Meaning::Run => differences.extend((0..symbol.start + extra).map(|_| 0)),
                Meaning::Direct => differences.push(symbol.start.cast_signed()),
                Meaning::Class => differences.push(class_value(symbol, extra)),
            }
        }
        assert!(extras.next().is_none());
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
                for spread in [2, 31, 40, 1 << 20] {
                    let differences: Vec<i32> = (0..len)
                        .map(|_| if random() % 16 < zero_in_16 { 0 } else { (random() % spread - spread / 2) as i32 })
                        .collect();
                    tokenize(&differences, &mut tokens);
                    let expected: Vec<i64> = differences.iter().map(|&d| i64::from(d)).collect();
                    assert_eq!(expand(&tokens), expected);
                    assert_eq!(tokens.segment_ends.len(), (len as usize).div_ceil(SEGMENT));
                    let (bits, histogram) = tokens.count();
                    assert_eq!(histogram.iter().sum::<u64>(), tokens.symbols.len() as u64);
                    assert_eq!(bits, tokens.extras.iter().map(|extra| u64::from(extra.bits)).sum::<u64>());
                }
            }
        }
        let wild = [i64::MIN, i64::MAX, 0, 0, 16, -16, 15, -15, 0];
        tokenize(&wild, &mut tokens);
        assert_eq!(expand(&tokens), wild);
    }
}
