//! Books whose share of zeros and runs is learned from the samples themselves. They know the answers, so what they lose is about what is
//! left to lose when only the model of run tokens is changed. They never become a dictionary, which must be made before any data is seen.

use quire_codec::alphabet::{DIRECT_ZERO, RUN_SYMBOLS, SYMBOLS};
use quire_codec::codebook;
use quire_codec::dictionary::Entry;
use quire_codec::tokens::Histogram;

use crate::criteria::{Candidate, Criterion, shares};
use crate::model::{self, CLUSTERING};
use crate::sample::Sample;

/// Times that samples are given to their cheapest books and the books made again for their samples.
const ROUNDS: usize = 4;

/// The books with shares of zeros and runs learned from the samples.
#[must_use]
pub fn learned_books(start: &[Entry], samples: &[Sample]) -> Vec<Entry> {
    let mut books = start.to_vec();
    for _ in 0..ROUNDS {
        let candidates: Vec<Candidate> = books.iter().map(|entry| Candidate::new(entry, CLUSTERING)).collect();
        let mut sums = vec![[0.0; SYMBOLS]; books.len()];
        for sample in samples {
            let book = Criterion::ExactCost.choose(&sample.histogram, &candidates);
            for (sum, share) in sums[book].iter_mut().zip(shares(&sample.histogram)) {
                *sum += share;
            }
        }
        for (book, sum) in books.iter_mut().zip(&sums).filter(|(_, sum)| sum.iter().any(|&share| share > 0.0)) {
            book.lengths = codebook::optimal_lengths(&with_zeros(book, sum));
        }
    }
    books
}

/// Token weights of a book's density, with those of zeros and runs replaced by their shares in `learned`.
fn with_zeros(book: &Entry, learned: &[f64; SYMBOLS]) -> Histogram {
    let mut weights = model::token_weights(book.family, book.scale, CLUSTERING).map(|weight| weight as f64);
    let is_zero = |symbol: usize| symbol < RUN_SYMBOLS || symbol == usize::from(DIRECT_ZERO);
    let sum_of_others = |values: &[f64; SYMBOLS]| -> f64 { (0..SYMBOLS).filter(|&s| !is_zero(s)).map(|s| values[s]).sum() };
    let scale = sum_of_others(&weights) / sum_of_others(learned).max(1e-9);
    for symbol in (0..SYMBOLS).filter(|&symbol| is_zero(symbol)) {
        weights[symbol] = learned[symbol] * scale;
    }
    let total: f64 = weights.iter().sum();
    weights.map(|weight| (weight / total * libm::exp2(40.0)) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary;
    use crate::sample::tests::sample_of;

    #[test]
    fn learned_books_cost_their_samples_no_more() {
        let mut histogram = [0; SYMBOLS];
        histogram[12] = 1000; // long runs between ones, as no geometric law has them
        histogram[31] = 500;
        histogram[29] = 500;
        let samples = [sample_of(histogram)];
        let start = dictionary().entries;
        let least = |books: &[Entry]| books.iter().filter_map(|book| codebook::cost(&histogram, &book.lengths)).min();
        assert!(least(&learned_books(&start, &samples)) < least(&start));
    }
}
