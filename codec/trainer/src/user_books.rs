//! Books for a user's own data: those that, beside the dictionary, together cost the tokens of his chunks least.

use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::stages::alphabet::Histogram;
use quire_codec::stages::codebook::{self, PACKED_LENGTHS};
use quire_codec::stages::dictionary;

use crate::selection::best_addition;

/// Most chunks whose own books are candidates.
const CANDIDATES: usize = 512;
/// Turns of giving chunks to their cheapest books and making the books again for their chunks.
const ROUNDS: usize = 8;
/// Share of all bits that a book must save to be worth its place in the choice.
const WORTH: f64 = 2e-4;
/// Bits of a book in the stream.
const BOOK_BITS: u64 = 8 * PACKED_LENGTHS as u64;

/// At most `count` books for chunks with these tokens, and none that would not pay: where the dictionary's cost no more, there are none at all.
///
/// Most have a code for every symbol, as no two chunks have the same rare ones; those for chunks of few symbols, to which that would cost a bit
/// for each, have not.
#[must_use]
pub fn user_books(histograms: &[Histogram], count: usize) -> Vec<CodeLengths> {
    let dictionary: Vec<f64> = histograms.iter().map(|histogram| dictionary::cheapest(histogram).1 as f64).collect();
    let step = histograms.len().div_ceil(CANDIDATES).max(1);
    let candidates: Vec<CodeLengths> = histograms
        .iter()
        .step_by(step)
        .flat_map(|histogram| [true, false].map(|complete| book_for(histogram, complete)))
        .collect();
    let costs: Vec<Vec<f64>> =
        candidates.iter().map(|book| histograms.iter().map(|histogram| cost(histogram, book)).collect()).collect();

    let mut least = dictionary.clone();
    let mut books = Vec::new();
    while books.len() < count && !costs.is_empty() {
        let best = best_addition(&costs, &least);
        let before: f64 = least.iter().sum();
        least.iter_mut().zip(&costs[best]).for_each(|(least, &cost)| *least = least.min(cost));
        if before - least.iter().sum::<f64>() <= WORTH * before {
            break;
        }
        books.push(candidates[best]);
    }
    refine(&mut books, histograms, &dictionary);
    books
}

/// Makes the books again for the chunks that take them.
fn refine(books: &mut [CodeLengths], histograms: &[Histogram], dictionary: &[f64]) {
    for _ in 0..ROUNDS {
        let mut sums: Vec<Histogram> = vec![[0; _]; books.len()];
        for (histogram, &dictionary) in histograms.iter().zip(dictionary) {
            let costs = books.iter().enumerate().map(|(place, book)| (place, cost(histogram, book)));
            let cheapest = costs.min_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((place, _)) = cheapest.filter(|&(_, cost)| cost < dictionary) {
                sums[place].iter_mut().zip(histogram).for_each(|(sum, count)| *sum += count);
            }
        }
        for (book, sum) in books.iter_mut().zip(&sums) {
            *book = book_for(sum, !book.contains(&0));
        }
    }
}

/// The book that costs a histogram least, with a code for each of its symbols or for all that there are.
fn book_for(histogram: &Histogram, complete: bool) -> CodeLengths {
    codebook::optimal_lengths(&histogram.map(|count| count + u64::from(complete)))
}

/// Bits of a chunk's codes and of the book, which travels with them; without end where a code is missing.
fn cost(histogram: &Histogram, book: &CodeLengths) -> f64 {
    codebook::cost(histogram, book).map_or(f64::INFINITY, |bits| (bits + BOOK_BITS) as f64)
}

#[cfg(test)]
mod tests {
    use quire_codec::CodebookPolicy;
    use quire_codec::stages::alphabet::SYMBOLS;
    use quire_codec::stages::book_choice::{Choice, choose};

    use super::*;

    /// Chunks of two kinds that no density has: every value a few even steps, and long runs between two values.
    fn odd_chunks() -> Vec<Histogram> {
        (0..40u64)
            .map(|chunk| {
                let mut histogram = [0; SYMBOLS];
                if chunk % 2 == 0 {
                    (20..60).step_by(2).for_each(|symbol| histogram[symbol] = 900 + 10 * chunk);
                } else {
                    (histogram[12], histogram[31], histogram[29]) = (9000, 5000 + chunk, 5000);
                }
                histogram
            })
            .collect()
    }

    #[test]
    fn books_take_the_place_of_custom_ones() {
        let histograms = odd_chunks();
        let books = user_books(&histograms, 16);
        assert!((1..=16).contains(&books.len()), "{}", books.len());
        for histogram in &histograms {
            assert!(matches!(choose(histogram, CodebookPolicy::Auto, &[]), Choice::Custom(_)));
            let Choice::Custom(taken) = choose(histogram, CodebookPolicy::Auto, &books) else { panic!("a book is there") };
            assert!(books.contains(&taken));
        }
    }

    #[test]
    fn what_the_dictionary_codes_well_needs_no_books() {
        let histograms: Vec<Histogram> = dictionary::books().iter().map(|book| book.map(|length| 1 << (14 - length))).collect();
        assert_eq!(user_books(&histograms, 16), Vec::<CodeLengths>::new());
        assert_eq!(user_books(&[], 16), Vec::<CodeLengths>::new());
    }
}
