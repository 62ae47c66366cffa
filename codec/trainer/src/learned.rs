//! Books made for the tokens of chunks, from books of densities, by turns of giving chunks to their cheapest books and making the books
//! again for their chunks and a share of the density.

use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::codebook;
use quire_codec::stages::dictionary::Entry;

use crate::criteria::shares;
use crate::lengths::code_bits;
use crate::model;
use crate::training::Target;

/// Turns.
const ROUNDS: usize = 12;
/// Chunks that the density counts for with which a book starts: what no chunk of the book has shown still has a code.
const DENSITY: f64 = 1.0;

/// Books learned from the targets, from the books of densities.
#[must_use]
pub fn learned_books(start: &[Entry], targets: &[Target]) -> Vec<Entry> {
    let mut books = start.to_vec();
    for _ in 0..ROUNDS {
        let mut sums: Vec<[f64; SYMBOLS]> = start
            .iter()
            .map(|book| shares(&model::token_weights(book.family, book.scale, book.spread)).map(|share| DENSITY * share))
            .collect();
        for target in targets {
            let cheapest = (0..books.len()).min_by_key(|&book| code_bits(&target.histogram, &books[book].lengths)).unwrap_or(0);
            // A bit wasted counts by its share of what is spent: the fewer a token takes, the more.
            let tokens: u64 = target.histogram.iter().sum();
            let tokens_a_bit = tokens as f64 / target.custom_bits();
            for (sum, share) in sums[cheapest].iter_mut().zip(shares(&target.histogram)) {
                *sum += tokens_a_bit * share;
            }
        }
        for (book, sum) in books.iter_mut().zip(&sums) {
            let total: f64 = sum.iter().sum();
            book.lengths = codebook::optimal_lengths(&sum.map(|share| (share / total * libm::exp2(40.0)) as u64 + 1));
        }
    }
    books
}

#[cfg(test)]
mod tests {
    use quire_codec::stages::alphabet::Histogram;

    use super::*;
    use crate::density::Density;

    #[test]
    fn learned_books_cost_their_targets_no_more() {
        let mut histogram: Histogram = [0; SYMBOLS];
        histogram[12] = 1000; // long runs between ones, as no density has them
        histogram[31] = 500;
        histogram[29] = 500;
        let targets = vec![Target { histogram, other_bits: 0 }; 100];
        let start: Vec<Entry> = Density::all().step_by(40).map(|density| density.book()).collect();
        let least = |books: &[Entry]| books.iter().filter_map(|book| codebook::cost(&histogram, &book.lengths)).min();
        assert!(least(&learned_books(&start, &targets)) < least(&start));
    }
}
