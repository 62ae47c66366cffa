//! Criteria that choose a book for a histogram. Shah et al. (ICS'23) compare entropy, Kullback-Leibler divergence and cross entropy of the densities. The codec
//! takes the exact cost in bits, an integer sum. Only the report uses the other criteria.

use quire_codec::stages::alphabet::{CodeLengths, Histogram, SYMBOLS};
use quire_codec::stages::dictionary::Entry;
use quire_codec::stages::fixed_log2::{LOG_FRACTION, log2_fixed};

use crate::lengths::code_bits;
use crate::model;

/// Gives each book a number. The book with the least number is chosen, or the first of equal books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Criterion {
    /// Bits of the codes: the sum of `count × length`.
    ExactCost,
    /// `-sum p log2 q` in integers of 16 fraction bits, with `q = 2^-length`. It is the exact cost with `p` rounded.
    CrossEntropyOfLengths,
    /// `-sum p log2 q` in integers of 16 fraction bits, with `q` from the book's density.
    CrossEntropyOfDensity,
    /// `sum p log2 (p/q)`, `q` from the book's density.
    Divergence,
    /// `|H(p) - H(q)|`, `q` from the book's density.
    EntropyDifference,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ExactCost, Self::CrossEntropyOfLengths, Self::CrossEntropyOfDensity, Self::Divergence, Self::EntropyDifference];

    /// Name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ExactCost => "exact cost, integers",
            Self::CrossEntropyOfLengths => "cross entropy Q16, q = 2^-length",
            Self::CrossEntropyOfDensity => "cross entropy Q16, q of the density",
            Self::Divergence => "Kullback-Leibler divergence",
            Self::EntropyDifference => "entropy difference",
        }
    }

    /// Index of the book that this criterion chooses.
    #[must_use]
    pub fn choose(self, histogram: &Histogram, books: &[Candidate]) -> usize {
        let shares = shares(histogram);
        let score = |book: &Candidate| match self {
            Self::ExactCost => code_bits(histogram, &book.lengths) as f64,
            Self::CrossEntropyOfLengths => {
                cross_entropy_fixed(histogram, &book.lengths.map(|length| u64::from(length) << LOG_FRACTION)) as f64
            }
            Self::CrossEntropyOfDensity => cross_entropy_fixed(histogram, &book.surprise) as f64,
            Self::Divergence => divergence(&shares, &book.shares),
            Self::EntropyDifference => (entropy(&shares) - entropy(&book.shares)).abs(),
        };
        let scores: Vec<f64> = books.iter().map(score).collect();
        (0..books.len()).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
    }
}

/// A book, and the shares of tokens in its density, which the criteria need.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Code lengths.
    pub lengths: CodeLengths,
    /// Share of each token in the density.
    pub shares: [f64; SYMBOLS],
    /// `-log2` of each share, with 16 fraction bits.
    pub surprise: [u64; SYMBOLS],
}

impl Candidate {
    /// The candidate of a book of the dictionary. Its density is the one that the book started from.
    #[must_use]
    pub fn new(entry: &Entry) -> Self {
        let weights = model::token_weights(entry.family, entry.scale, entry.spread);
        let log_total = log2_fixed(weights.iter().sum());
        Self {
            lengths: entry.lengths,
            shares: shares(&weights),
            surprise: weights.map(|weight| log_total.saturating_sub(log2_fixed(weight))),
        }
    }
}

/// Counts as shares of their sum. All shares are 0 if the sum is 0.
#[must_use]
pub fn shares(histogram: &Histogram) -> [f64; SYMBOLS] {
    let total = histogram.iter().sum::<u64>().max(1) as f64;
    histogram.map(|count| count as f64 / total)
}

/// Entropy in bits a token.
#[must_use]
pub fn entropy(shares: &[f64; SYMBOLS]) -> f64 {
    -shares.iter().filter(|&&p| p > 0.0).map(|&p| p * libm::log2(p)).sum::<f64>()
}

/// Number of bits of a histogram's tokens at their entropy.
#[must_use]
pub fn entropy_bits(histogram: &Histogram) -> u64 {
    (entropy(&shares(histogram)) * histogram.iter().sum::<u64>() as f64) as u64
}

/// Kullback-Leibler divergence in bits a token: what tokens with the shares `p` lose in a code for the shares `q`.
#[must_use]
pub fn divergence(p: &[f64; SYMBOLS], q: &[f64; SYMBOLS]) -> f64 {
    p.iter().zip(q).filter(|&(&p, _)| p > 0.0).map(|(&p, &q)| p * libm::log2(p / q)).sum()
}

/// Cross entropy in bits a token, an integer with 32 fraction bits. It is made of integers alone: the shares have 16 fraction bits.
#[must_use]
pub fn cross_entropy_fixed(histogram: &Histogram, surprise: &[u64; SYMBOLS]) -> u64 {
    let total = histogram.iter().sum::<u64>().max(1);
    histogram.iter().zip(surprise).map(|(&count, &surprise)| (count << LOG_FRACTION) / total * surprise).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::Density;

    /// Books of densities, not made for targets.
    fn books() -> Vec<Entry> {
        Density::all().step_by(9).map(|density| density.book()).collect()
    }

    #[test]
    fn a_book_is_at_distance_0_from_its_own_density() {
        for entry in &books() {
            let histogram = model::token_weights(entry.family, entry.scale, entry.spread).map(|weight| weight >> 16);
            let own = Candidate::new(entry);
            let p = shares(&histogram);
            assert!(divergence(&p, &own.shares).abs() < 1e-4);
            assert!((entropy(&p) - entropy(&own.shares)).abs() < 1e-3);
            let fixed = cross_entropy_fixed(&histogram, &own.surprise) as f64 / libm::exp2(32.0);
            assert!((fixed - entropy(&p)).abs() < 0.02, "{fixed} {}", entropy(&p));
        }
    }

    #[test]
    fn every_criterion_finds_the_book_that_a_histogram_came_from() {
        let entries = books();
        let books: Vec<Candidate> = entries.iter().map(Candidate::new).collect();
        for index in [3, 30, 60] {
            let entry = &entries[index];
            let histogram = model::token_weights(entry.family, entry.scale, entry.spread).map(|weight| weight >> 16);
            for criterion in Criterion::ALL {
                let chosen = criterion.choose(&histogram, &books);
                let (own, best) = (code_bits(&histogram, &books[index].lengths), code_bits(&histogram, &books[chosen].lengths));
                assert!(best as f64 <= 1.01 * own as f64, "{criterion:?} chose {chosen} for {index}");
            }
        }
    }

    #[test]
    fn entropy_of_equal_shares_is_their_logarithm() {
        let mut histogram = [0; SYMBOLS];
        histogram[..8].fill(5);
        assert!((entropy(&shares(&histogram)) - 3.0).abs() < 1e-12);
        // Against twice as many equal shares, one bit a token is wasted.
        histogram[8..16].fill(5);
        let wide = shares(&histogram);
        histogram[8..16].fill(0);
        assert!((divergence(&shares(&histogram), &wide) - 1.0).abs() < 1e-12);
    }
}
