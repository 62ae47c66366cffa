//! Code lengths of least cost for any limit and any number of symbols. The codec's function is for its own alphabet and limit.

use quire_codec::stages::alphabet::{ALPHABET, Histogram};
use quire_codec::stages::codebook;

/// A symbol, or a pair of neighbouring items of the level below. A pair's `symbol` is `None`.
#[derive(Clone, Copy)]
struct Item {
    weight: u64,
    symbol: Option<usize>,
}

/// A limit that no code reaches: Huffman codes for fewer than 2^44 tokens are shorter.
pub const UNLIMITED: usize = 63;

/// Code lengths of least cost among those of at most `limit` bits, by package-merge (Larmore and Hirschberg, JACM 37(3), 1990). Symbols with a weight of 0 have
/// no code. If only one symbol has a weight, its code has one bit.
#[must_use]
pub fn limited_lengths(weights: &[u64], limit: usize) -> Vec<u8> {
    let mut lengths = vec![0; weights.len()];
    let mut leaves: Vec<Item> = (0..weights.len())
        .filter(|&symbol| weights[symbol] > 0)
        .map(|symbol| Item { weight: weights[symbol], symbol: Some(symbol) })
        .collect();
    if let [lone] = leaves[..] {
        lengths[lone.symbol.unwrap_or(0)] = 1;
    }
    if leaves.len() < 2 {
        return lengths;
    }
    leaves.sort_by_key(|item| (item.weight, item.symbol));
    let levels = merge(&leaves, limit);
    // The code of n symbols takes the cheapest 2n - 2 items of the top level. Each pair among them takes two more items of the level below.
    let mut taken = 2 * leaves.len() - 2;
    for level in levels.iter().rev() {
        let (mut pairs, cheapest) = (0, &level[..taken.min(level.len())]);
        for item in cheapest {
            match item.symbol {
                Some(symbol) => lengths[symbol] += 1,
                None => pairs += 1,
            }
        }
        taken = 2 * pairs;
    }
    lengths
}

/// A level for each bit of the limit. A level has the leaves, and the pairs of the level below, by weight. Of equal weights, leaves come first.
fn merge(leaves: &[Item], limit: usize) -> Vec<Vec<Item>> {
    let mut levels = vec![leaves.to_vec()];
    for below in 0..limit - 1 {
        let pairs = levels[below].chunks_exact(2).map(|pair| Item { weight: pair[0].weight + pair[1].weight, symbol: None });
        let mut level: Vec<Item> = leaves.iter().copied().chain(pairs).collect();
        level.sort_by_key(|item| item.weight);
        levels.push(level);
    }
    levels
}

/// Number of bits that a histogram's codes take. Symbols that occur must have a code.
#[must_use]
pub fn code_bits(histogram: &[u64], lengths: &[u8]) -> u64 {
    histogram.iter().zip(lengths).map(|(&count, &length)| count * u64::from(length)).sum()
}

/// Number of bits of a histogram's codes in the codec's book for the histogram. The book's lengths do not count.
#[must_use]
pub fn custom_bits(histogram: &Histogram) -> u64 {
    code_bits(histogram, &codebook::optimal_lengths(histogram))
}

/// Number of extra bits of a histogram's tokens.
#[must_use]
pub fn extra_bits(histogram: &Histogram) -> u64 {
    histogram.iter().zip(&ALPHABET).map(|(&count, symbol)| count * u64::from(symbol.extra_bits)).sum()
}

#[cfg(test)]
mod tests {
    use quire_codec::stages::alphabet::SYMBOLS;

    use super::*;

    #[test]
    fn limit_of_the_codec_gives_the_lengths_of_the_codec() {
        for ratio in [1usize, 2, 5, 30] {
            let histogram = std::array::from_fn::<u64, SYMBOLS, _>(|symbol| 1 << (40 / ratio).saturating_sub(symbol / ratio));
            let limit = usize::from(codebook::MAX_CODE_BITS);
            assert_eq!(limited_lengths(&histogram, limit), codebook::optimal_lengths(&histogram));
        }
    }

    #[test]
    fn a_wider_limit_never_costs_more() {
        let weights: Vec<u64> = (0..200).map(|symbol| 1 + (1 << 20) / (1 + symbol * symbol)).collect();
        let costs = [8, 9, 12, 16, UNLIMITED].map(|limit| code_bits(&weights, &limited_lengths(&weights, limit)));
        assert!(costs.is_sorted_by(|shorter, longer| shorter >= longer), "{costs:?}");
    }

    #[test]
    fn few_symbols_have_short_codes() {
        assert_eq!(limited_lengths(&[0, 0], 16), [0, 0]);
        assert_eq!(limited_lengths(&[0, 7], 16), [0, 1]);
        assert_eq!(limited_lengths(&[1, 1, 2, 4, 8], UNLIMITED), [4, 4, 3, 2, 1]);
    }
}
