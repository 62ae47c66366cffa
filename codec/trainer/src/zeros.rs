//! Other ways to code stretches of zeros, for comparison with run tokens: flags for blocks of zeros, and a second pass over Huffman codes without runs. Every way
//! has a book made for the chunk, whose lengths do not count.

use std::collections::HashMap;

use quire_codec::stages::alphabet::{DIRECT_MAX, DIRECT_ZERO, Histogram, SEGMENT, SYMBOLS, class_symbol, run_symbol};
use quire_codec::stages::codebook::{MAX_CODE_BITS, canonical_codes, optimal_lengths};
use quire_codec::stages::tokens::{Tokens, tokenize};

use crate::criteria::entropy_bits;
use crate::lengths::{code_bits, extra_bits, limited_lengths};

/// A way to code zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeros {
    /// The codec's run tokens: a zero, 1 or -1 and the zeros behind it.
    Runs,
    /// Tokens for runs of zeros alone, which the codec had up to version 0.4 of the format.
    RunsOfZeros,
    /// The codec's run tokens at the entropy of single tokens: an ideal coder in place of Huffman's.
    RunsAtEntropy,
    /// The codec's run tokens at the entropy of a token given the token before it. The tables of such a coder do not count.
    RunsAtPairEntropy,
    /// A flag of one bit for each block of this number of values. Blocks of zeros are left out.
    Flags(usize),
    /// As [`Zeros::Flags`], with flags at their entropy.
    FlagsAtEntropy(usize),
    /// A code for each zero. Of the bytes of the codes, those of 0 are left out, and a flag for each byte says so. Then the same is done to the bytes of the flags.
    SecondPass,
}

/// The ways that are compared.
pub const ZEROS: [Zeros; 11] = [
    Zeros::Runs,
    Zeros::RunsOfZeros,
    Zeros::RunsAtEntropy,
    Zeros::RunsAtPairEntropy,
    Zeros::Flags(16),
    Zeros::Flags(32),
    Zeros::Flags(64),
    Zeros::FlagsAtEntropy(16),
    Zeros::FlagsAtEntropy(32),
    Zeros::FlagsAtEntropy(64),
    Zeros::SecondPass,
];

impl Zeros {
    /// Name in the report.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Runs => "run tokens".to_owned(),
            Self::RunsOfZeros => "run tokens for zeros alone".to_owned(),
            Self::RunsAtEntropy => "run tokens, at their entropy".to_owned(),
            Self::RunsAtPairEntropy => "run tokens, at the entropy after the token before".to_owned(),
            Self::Flags(block) => format!("a flag a block of {block}"),
            Self::FlagsAtEntropy(block) => format!("a flag a block of {block}, flags at their entropy"),
            Self::SecondPass => "zero bytes left out of codes without runs, twice".to_owned(),
        }
    }

    /// Number of bits of a plane.
    #[must_use]
    pub fn bits(self, residuals: &[i64]) -> u64 {
        match self {
            Self::Runs | Self::RunsAtEntropy | Self::RunsAtPairEntropy => {
                let mut tokens = Tokens::default();
                tokenize(residuals, &mut tokens).expect("memory for a chunk");
                let (extra_bits, histogram) = tokens.count();
                extra_bits
                    + match self {
                        Self::Runs => huffman(&histogram),
                        Self::RunsAtEntropy => entropy_bits(&histogram),
                        _ => pair_entropy_bits(tokens.symbols()),
                    }
            }
            Self::RunsOfZeros => runs_of_zeros(residuals),
            Self::Flags(block) => blocks_left(residuals, block) + residuals.len().div_ceil(block) as u64,
            Self::FlagsAtEntropy(block) => blocks_left(residuals, block) + flag_bits(residuals, block),
            Self::SecondPass => second_pass(residuals),
        }
    }
}

fn huffman(histogram: &Histogram) -> u64 {
    code_bits(histogram, &limited_lengths(histogram, usize::from(MAX_CODE_BITS)))
}

/// Number of bits of tokens at the entropy of a token given the token before it.
fn pair_entropy_bits(symbols: &[u8]) -> u64 {
    let mut after: HashMap<u8, Histogram> = HashMap::new();
    for pair in symbols.windows(2) {
        after.entry(pair[0]).or_insert([0; SYMBOLS])[usize::from(pair[1])] += 1;
    }
    after.values().map(entropy_bits).sum()
}

fn runs_of_zeros(residuals: &[i64]) -> u64 {
    let mut histogram = [0; SYMBOLS];
    for segment in residuals.chunks(SEGMENT) {
        for stretch in segment.chunk_by(|&a, &b| a == 0 && b == 0) {
            let symbol = if stretch.len() > 1 { run_symbol(0, stretch.len()).0 } else { symbol(stretch[0]) };
            histogram[usize::from(symbol)] += 1;
        }
    }
    huffman(&histogram) + extra_bits(&histogram)
}

fn symbol(residual: i64) -> u8 {
    if residual.abs() <= DIRECT_MAX { (i64::from(DIRECT_ZERO) + residual) as u8 } else { class_symbol(residual).0 }
}

/// Histogram of tokens without runs, and the number of their extra bits.
fn count(residuals: impl Iterator<Item = i64>) -> (Histogram, u64) {
    let mut histogram = [0; SYMBOLS];
    residuals.for_each(|residual| histogram[usize::from(symbol(residual))] += 1);
    (histogram, extra_bits(&histogram))
}

/// Number of bits of the blocks that are not all zero.
fn blocks_left(residuals: &[i64], block: usize) -> u64 {
    let left = residuals.chunks(block).filter(|block| !is_zero(block)).flatten();
    let (histogram, extra_bits) = count(left.copied());
    huffman(&histogram) + extra_bits
}

fn flag_bits(residuals: &[i64], block: usize) -> u64 {
    let mut histogram = [0; SYMBOLS];
    residuals.chunks(block).for_each(|block| histogram[usize::from(is_zero(block))] += 1);
    entropy_bits(&histogram)
}

fn is_zero<C: Default + PartialEq>(block: &[C]) -> bool {
    block.iter().all(|value| *value == C::default())
}

fn second_pass(residuals: &[i64]) -> u64 {
    let (histogram, extra_bits) = count(residuals.iter().copied());
    // An exclusive or changes all codes, so that the most frequent symbol's code becomes 0. That code is one of the shortest.
    let codes = canonical_codes(&optimal_lengths(&histogram));
    let most_frequent = (0..SYMBOLS).max_by_key(|&symbol| histogram[symbol]).map_or(0, |symbol| codes[symbol]);
    let longest = u32::from(MAX_CODE_BITS);
    let mask = (most_frequent & 0xffff) << (longest - (most_frequent >> 16));
    let mut bytes = Vec::new();
    let (mut buffer, mut filled) = (0u64, 0);
    for &residual in residuals {
        let code = codes[usize::from(symbol(residual))];
        let length = code >> 16;
        buffer = buffer << length | u64::from(code & 0xffff ^ mask >> (longest - length));
        filled += length;
        while filled >= 8 {
            filled -= 8;
            bytes.push((buffer >> filled) as u8);
        }
    }
    bytes.push((buffer << (8 - filled)) as u8);
    let flags = without_zero_bytes(&bytes);
    let flags_of_flags = without_zero_bytes(&flags.0);
    extra_bits + 8 * (flags.1 + flags_of_flags.1 + flags_of_flags.0.len() as u64)
}

/// Flags that say which bytes are not 0, eight flags in a byte, and the number of bytes that are not 0.
fn without_zero_bytes(bytes: &[u8]) -> (Vec<u8>, u64) {
    let flags = bytes.chunks(8).map(|eight| eight.iter().fold(0, |flags, &byte| flags << 1 | u8::from(byte != 0))).collect();
    (flags, bytes.iter().filter(|&&byte| byte != 0).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_alone_take_few_bits_in_any_way() {
        let zeros = vec![0; 1 << 16];
        assert_eq!(Zeros::Flags(64).bits(&zeros), 1 << 10);
        assert_eq!(Zeros::FlagsAtEntropy(64).bits(&zeros), 0);
        assert_eq!(Zeros::SecondPass.bits(&zeros), (1 << 16) / 64 + 8);
        assert_eq!(Zeros::Runs.bits(&zeros), 32);
        assert_eq!(Zeros::RunsOfZeros.bits(&zeros), 32);
    }

    #[test]
    fn without_zeros_only_flags_are_added() {
        let ones: Vec<i64> = (0..1 << 12).map(|index| if index % 2 == 0 { 1 } else { -1 }).collect();
        assert_eq!(Zeros::Runs.bits(&ones), 1 << 12);
        assert_eq!(Zeros::Flags(32).bits(&ones), (1 << 12) + (1 << 7));
        assert_eq!(Zeros::RunsAtPairEntropy.bits(&ones), 0);
    }
}
