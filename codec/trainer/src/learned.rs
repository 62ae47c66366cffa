//! Makes the books of densities again for the tokens of chunks. Each round gives every chunk its cheapest book. Then each book is made again, for its chunks and
//! for a share of its density.

use quire_codec::stages::alphabet::SYMBOLS;
use quire_codec::stages::codebook;
use quire_codec::stages::dictionary::Entry;

use crate::criteria::shares;
use crate::lengths::code_bits;
use crate::model;
use crate::targets::Target;

/// Number of rounds.
const ROUNDS: usize = 12;
/// Weight of a book's density, as a number of chunks. The density gives code lengths to symbols that no chunk of the book has.
const DENSITY_WEIGHT: f64 = 1.0;

/// The books of densities in `start`, made again for the targets.
#[must_use]
pub fn learned_books(start: &[Entry], targets: &[Target]) -> Vec<Entry> {
    let mut books = start.to_vec();
    for _ in 0..ROUNDS {
        let mut sums: Vec<[f64; SYMBOLS]> = start
            .iter()
            .map(|book| shares(&model::token_weights(book.family, book.scale, book.spread)).map(|share| DENSITY_WEIGHT * share))
            .collect();
        for target in targets {
            let cheapest = (0..books.len()).min_by_key(|&book| code_bits(&target.histogram, &books[book].lengths)).unwrap_or(0);
            // Bits that a book wastes count as a share of the target's bits. So a target with few bits a token has more weight.
            let tokens: u64 = target.histogram.iter().sum();
            let tokens_a_bit = tokens as f64 / target.custom_bits();
            for (sum, share) in sums[cheapest].iter_mut().zip(shares(&target.histogram)) {
                *sum += tokens_a_bit * share;
            }
        }
        for (book, sum) in books.iter_mut().zip(&sums) {
            book.lengths = codebook::optimal_lengths(&model::integer_weights(sum));
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
        histogram[12] = 1000; // long runs between ones: no density has these
        histogram[31] = 500;
        histogram[29] = 500;
        let targets = vec![Target { histogram, other_bits: 0 }; 100];
        let start: Vec<Entry> = Density::all().step_by(40).map(|density| density.book()).collect();
        let least = |books: &[Entry]| books.iter().filter_map(|book| codebook::cost(&histogram, &book.lengths)).min();
        assert!(least(&learned_books(&start, &targets)) < least(&start));
    }
}
