//! Stage 3 (FORMAT.md §7): the integers of a plane, called differences here, → tokens.
//! [`crate::entropy::lanes`] has the inverse: it expands tokens as it decodes them.
//!
//! A token is a symbol of the alphabet and its extra bits. A run is one token: a 0, 1 or -1 and all zeros directly behind it, of which there is at
//! least one. A zero of a run begins no other run. A segment whose stretches of zeros are too short on average has no runs
//! ([`TWICE_MIN_ZEROS_PER_STRETCH`]): each of its values is a token of its own. No run goes on from one segment of [`SEGMENT`] values into the
//! next. So segments become tokens independently, and the tokens of any number of successive segments can make a block.

mod bits;
#[cfg(test)]
pub(crate) mod plain;
mod segment;
mod table;

pub use self::bits::BitString;
pub use self::segment::TWICE_MIN_ZEROS_PER_STRETCH;

use self::segment::{SLACK, Scratch, tokenize_segment};
use crate::entropy::alphabet::{ALPHABET, Histogram, SEGMENT, SYMBOLS};
use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::fast_paths::{Path, is_open};
use crate::memory::{Boxed, lengthen, reserve};
use crate::number::integer::Integer;
use crate::simd::bytes::{self, Masks};
use crate::simd::vectorized;

/// The tokens of a plane, segment after segment. The memory is kept from chunk to chunk.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The symbol of each token, and unused elements behind them: [`Tokens::symbols`] leaves those out.
    symbol_buffer: Vec<u8>,
    /// `None` until the first plane.
    scratch: Option<Boxed<Scratch>>,
    /// Extra bits of all tokens, in the order of the tokens.
    pub extra: BitString,
    /// End of each segment.
    pub segment_ends: Vec<TokenOffset>,
}

/// An offset into a plane's tokens, between two of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenOffset {
    /// Tokens before it.
    pub tokens: usize,
    /// Extra bits before it.
    pub extra_bits: usize,
}

impl Tokens {
    /// The symbol of each token.
    #[must_use]
    pub fn symbols(&self) -> &[u8] {
        &self.symbol_buffer[..self.segment_ends.last().map_or(0, |end| end.tokens)]
    }

    /// Number of tokens of the block that has most of them, if each block has `segments` segments.
    #[must_use]
    pub fn most_tokens_of_a_block(&self, segments: usize) -> usize {
        let mut begin = 0;
        let tokens_of = |block: &[TokenOffset]| {
            let end = block.last().map_or(begin, |end| end.tokens);
            let tokens = end - begin;
            begin = end;
            tokens
        };
        self.segment_ends.chunks(segments).map(tokens_of).max().unwrap_or(0)
    }

    /// Number of extra bits of all tokens, and the histogram of their symbols.
    #[must_use]
    pub fn count(&self) -> (u64, Histogram) {
        // Each symbol has four counters, used in turn. So when a symbol follows itself, the second increment does not wait for the
        // first one's store. A part has at most 2^30 symbols, so that no counter of 32 bits overflows.
        let mut counters = [[0u32; 256]; 4];
        let mut histogram = [0; SYMBOLS];
        for part in self.symbols().chunks(1 << 30) {
            let (quads, rest) = part.as_chunks::<4>();
            for quad in quads {
                for counter in 0..4 {
                    counters[counter][usize::from(quad[counter])] += 1;
                }
            }
            for &symbol in rest {
                counters[0][usize::from(symbol)] += 1;
            }
            for (symbol, count) in histogram.iter_mut().enumerate() {
                *count += counters.iter_mut().map(|counter| u64::from(std::mem::take(&mut counter[symbol]))).sum::<u64>();
            }
        }
        let extra_bits = histogram.iter().zip(&ALPHABET).map(|(&count, symbol)| count * u64::from(symbol.extra_bits)).sum();
        (extra_bits, histogram)
    }
}

/// Replaces `tokens` with the tokens of `differences`, segment by segment.
///
/// # Errors
/// `OutOfMemory`.
pub fn tokenize<C: Integer>(differences: &[C], tokens: &mut Tokens) -> Result<()> {
    lengthen(&mut tokens.symbol_buffer, differences.len() + SLACK)?;
    tokens.extra.bits = 0;
    if tokens.scratch.is_none() {
        tokens.scratch = Some(Boxed::new(Scratch::default())?);
    }
    tokens.segment_ends.clear();
    reserve(&mut tokens.segment_ends, differences.len().div_ceil(SEGMENT))?;
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new().filter(|_| is_open(Path::TokensAvx2)) {
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
    let mut token_end = 0;
    let Some(scratch) = tokens.scratch.as_deref_mut() else { unreachable!("it is made before") };
    for segment in differences.chunks(SEGMENT) {
        let symbols = &mut tokens.symbol_buffer[token_end..token_end + segment.len() + SLACK];
        token_end += tokenize_segment(masks, segment, symbols, &mut tokens.extra, scratch)?;
        tokens.segment_ends.push(TokenOffset { tokens: token_end, extra_bits: tokens.extra.bits });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::plain::Token;
    use super::*;

    /// The tokens of a plane, each extra of which is read from the string of all extra bits.
    fn list(tokens: &Tokens) -> Vec<Token> {
        let mut at = 0;
        let list = tokens.symbols().iter().map(|&symbol| {
            let (begin, mut words) = (at, Vec::new());
            at += usize::from(ALPHABET[usize::from(symbol)].extra_bits);
            tokens.extra.copy_to(begin, at, &mut words).unwrap();
            (usize::from(symbol), words.iter().rev().fold(0, |value, &word| value << 16 | u64::from(word)))
        });
        let list = list.collect();
        assert_eq!(at, tokens.extra.bits, "entropy/tokens: extra bits are left over");
        list
    }

    /// Compares tokens, extra words and differences of a plane with the plain ones, on this CPU and on any.
    fn check<C: Integer>(differences: &[i64], tokens: &mut Tokens) {
        let integers: Vec<C> = differences.iter().map(|&difference| C::from_i64(difference)).collect();
        let differences: Vec<i64> = integers.iter().map(|integer| integer.to_i64()).collect();
        let expected = plain::tokenize(&differences);
        assert_eq!(plain::expand(&expected), differences, "entropy/tokens: the plain definition is no inverse");
        for is_portable in [false, true] {
            tokenize(&integers, tokens).unwrap();
            if is_portable {
                tokens.segment_ends.clear();
                tokens.extra.bits = 0;
                tokenize_segments(bytes::Portable, &integers, tokens).unwrap();
            }
            let name = format!("entropy/tokens: {} integers, portable: {is_portable}", differences.len());
            assert!(list(tokens) == expected, "{name}: {differences:?}");
            let mut words = Vec::new();
            tokens.extra.copy_to(0, tokens.extra.bits, &mut words).unwrap();
            assert_eq!(words, plain::extra_words(&expected), "{name}: extra words");
            assert_eq!(tokens.segment_ends.len(), differences.len().div_ceil(SEGMENT), "{name}");
            let (bits, histogram) = tokens.count();
            assert_eq!(bits, plain::extra_bits(&expected).len() as u64, "{name}");
            for (symbol, &count) in histogram.iter().enumerate() {
                assert_eq!(count, expected.iter().filter(|token| token.0 == symbol).count() as u64, "{name}: symbol {symbol}");
            }
        }
    }

    #[test]
    fn planes_have_the_plain_tokens() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64
        };
        let mut tokens = Tokens::default();
        for len in [0, 1, 2, 63, 64, 65, 2047, 2048, 2049, 5000] {
            for zero_in_16 in [0, 3, 8, 15, 16] {
                for spread in [2, 3, 31, 40, 1 << 20] {
                    let differences: Vec<i64> =
                        (0..len).map(|_| if random() % 16 < zero_in_16 { 0 } else { random() % spread - spread / 2 }).collect();
                    check::<i32>(&differences, &mut tokens);
                    check::<i64>(&differences, &mut tokens);
                }
            }
        }
        check::<i64>(&[i64::MIN, i64::MAX, 0, 0, 16, -16, 15, -15, 0], &mut tokens);
    }

    #[test]
    fn symbols_are_those_of_the_table() {
        for (symbol, &found) in ALPHABET.iter().enumerate() {
            assert_eq!(found, plain::symbol(symbol), "entropy/alphabet: symbol {symbol}");
        }
    }
}
