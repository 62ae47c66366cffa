//! Stage 3 (FORMAT.md §7): the integers of a plane, called differences here, → tokens.
//! [`crate::entropy::lanes`] has the inverse: it expands tokens as it decodes them.
//!
//! A token is a symbol of the alphabet and its extra bits. A run is one token: a 0, 1 or -1 and all zeros directly behind it, at
//! least one. A zero of a run begins no other run. A segment whose stretches of zeros are too short on average has no runs
//! ([`TWICE_MIN_ZEROS_PER_STRETCH`]): each of its values is a token of its own. No run goes on from one segment of [`SEGMENT`]
//! values into the next. So segments become tokens independently, and the tokens of any number of successive segments can make a
//! block.

mod bits;
#[cfg(target_arch = "x86_64")]
mod classes;
mod counts;
#[cfg(test)]
pub(crate) mod plain;
mod segment;
mod table;

pub use self::bits::BitString;
pub use self::segment::TWICE_MIN_ZEROS_PER_STRETCH;

use self::counts::Counts;
use self::segment::{SLACK, Scratch, SegmentOps, tokenize_segment};
use crate::entropy::alphabet::{Histogram, SEGMENT};
use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::fast_paths::{Path, is_open};
use crate::memory::{Boxed, lengthen, reserve};
use crate::number::integer::Integer;
use crate::simd::bytes;
use crate::simd::vectorized;
#[cfg(target_arch = "x86_64")]
use crate::simd::with_avx512;

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
    counts: Counts,
}

/// Where a segment's tokens end in the plane.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenOffset {
    /// Number of tokens up to here.
    pub tokens: usize,
    /// Number of extra bits up to here.
    pub extra_bits: usize,
}

impl Tokens {
    /// The symbol of each token.
    #[must_use]
    pub fn symbols(&self) -> &[u8] {
        &self.symbol_buffer[..self.segment_ends.last().map_or(0, |end| end.tokens)]
    }

    /// Greatest number of tokens of a block, if blocks have `segments` segments.
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
        (self.extra.bits as u64, *self.counts.histogram())
    }

    /// Begins with the tokens of a plane of `integers` integers: [`Tokens::append`] makes them.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn begin(&mut self, integers: usize) -> Result<()> {
        lengthen(&mut self.symbol_buffer, integers + SLACK)?;
        self.extra.bits = 0;
        if self.scratch.is_none() {
            self.scratch = Some(Boxed::new(Scratch::default())?);
        }
        self.segment_ends.clear();
        reserve(&mut self.segment_ends, integers.div_ceil(SEGMENT))?;
        self.counts.begin(integers);
        Ok(())
    }

    /// Appends the tokens of the plane's next integers, segment by segment. They are whole segments, except that the plane's last segment may be shorter.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn append<C: Integer>(&mut self, differences: &[C]) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if let Some(v4) = pulp::x86::V4::try_new().filter(|_| is_open(Path::TokensAvx512)) {
            return with_avx512(
                v4,
                #[inline(always)]
                || tokenize_segments(bytes::Avx512(v4), differences, self),
            );
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(v3) = pulp::x86::V3::try_new().filter(|_| is_open(Path::TokensAvx2)) {
            return vectorized(
                #[inline(always)]
                || tokenize_segments(bytes::Avx2(v3), differences, self),
            );
        }
        vectorized(
            #[inline(always)]
            || tokenize_segments(bytes::Portable, differences, self),
        )
    }

    /// Ends a plane: sums its counts.
    pub(crate) fn end(&mut self) {
        self.counts.finish();
    }
}

/// Replaces `tokens` with the tokens of `differences`, segment by segment.
///
/// # Errors
/// `OutOfMemory`.
pub fn tokenize<C: Integer>(differences: &[C], tokens: &mut Tokens) -> Result<()> {
    tokens.begin(differences.len())?;
    tokens.append(differences)?;
    tokens.end();
    Ok(())
}

#[inline(always)]
fn tokenize_segments<C: Integer>(ops: impl SegmentOps, differences: &[C], tokens: &mut Tokens) -> Result<()> {
    let mut token_end = tokens.segment_ends.last().map_or(0, |end| end.tokens);
    let Some(scratch) = tokens.scratch.as_deref_mut() else { unreachable!("`begin` makes it") };
    for segment in differences.chunks(SEGMENT) {
        let symbols = &mut tokens.symbol_buffer[token_end..token_end + segment.len() + SLACK];
        let count = tokenize_segment(ops, segment, symbols, &mut tokens.extra, scratch)?;
        tokens.counts.add(&symbols[..count])?;
        token_end += count;
        tokens.segment_ends.push(TokenOffset { tokens: token_end, extra_bits: tokens.extra.bits });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::plain::Token;
    use super::*;
    use crate::entropy::alphabet::ALPHABET;
    use crate::random::Random;

    /// The tokens with these symbols, whose extra bits are the whole of `extra`.
    pub(super) fn list(symbols: &[u8], extra: &BitString) -> Vec<Token> {
        let mut at = 0;
        let list = symbols.iter().map(|&symbol| {
            let begin = at;
            at += usize::from(ALPHABET[usize::from(symbol)].extra_bits);
            let words = extra.words(begin, at).unwrap();
            (usize::from(symbol), words.iter().rev().fold(0, |value, &word| value << 16 | u64::from(word)))
        });
        let list = list.collect();
        assert_eq!(at, extra.bits, "entropy/tokens: extra bits are left over");
        list
    }

    /// Compares a plane's tokens, extra words and counts with the plain ones, for each kind of CPU.
    fn check<C: Integer>(differences: &[i64], tokens: &mut Tokens) {
        let integers: Vec<C> = differences.iter().map(|&difference| C::from_i64(difference)).collect();
        let differences: Vec<i64> = integers.iter().map(|integer| integer.to_i64()).collect();
        let expected = plain::tokenize(&differences);
        assert_eq!(plain::expand(&expected), differences, "entropy/tokens: the plain definition is no inverse");
        for way in ["of this CPU", "with AVX2", "portable"] {
            tokens.begin(integers.len()).unwrap();
            match way {
                "of this CPU" => tokens.append(&integers).unwrap(),
                #[cfg(target_arch = "x86_64")]
                "with AVX2" => match pulp::x86::V3::try_new() {
                    Some(v3) => tokenize_segments(bytes::Avx2(v3), &integers, tokens).unwrap(),
                    None => continue,
                },
                _ => tokenize_segments(bytes::Portable, &integers, tokens).unwrap(),
            }
            tokens.end();
            let name = format!("entropy/tokens: {} integers, {way}", differences.len());
            assert!(list(tokens.symbols(), &tokens.extra) == expected, "{name}: {differences:?}");
            let words = tokens.extra.words(0, tokens.extra.bits).unwrap();
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
        let mut random = Random(1);
        let mut tokens = Tokens::default();
        for len in [0, 1, 2, 63, 64, 65, 2047, 2048, 2049, 5000] {
            for zero_in_16 in [0, 3, 8, 15, 16] {
                for spread in [2, 3, 31, 40, 1 << 20] {
                    let differences: Vec<i64> = (0..len)
                        .map(|_| if random.below(16) < zero_in_16 { 0 } else { random.below(spread) as i64 - spread as i64 / 2 })
                        .collect();
                    check::<i32>(&differences, &mut tokens);
                    check::<i64>(&differences, &mut tokens);
                }
            }
        }
        check::<i64>(&[i64::MIN, i64::MAX, 0, 0, 16, -16, 15, -15, 0], &mut tokens);
    }
}
