//! Books for a user's data. Together with the dictionary, they code the user's chunks in about the fewest bits.

use quire_codec::stages::alphabet::{CodeLengths, Histogram};
use quire_codec::stages::{book_lengths, codebook, dictionary};

use crate::selection::best_addition;

/// Most chunks whose own books are candidates.
const CANDIDATES: usize = 512;
/// Number of rounds of [`refine`].
const ROUNDS: usize = 8;
/// A book must save more than this share of all bits.
const MIN_SAVED_SHARE: f64 = 2e-4;

/// At most `count` books for chunks with these tokens. Each book saves enough bits. There is no book if the dictionary's books are as good.
///
/// Most books have a code for every symbol, as the rare symbols of chunks differ. If chunks have few symbols, codes for all symbols would make the codes of these
/// few longer. Then a book has codes only for symbols that occur.
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
        if before - least.iter().sum::<f64>() <= MIN_SAVED_SHARE * before {
            break;
        }
        books.push(candidates[best]);
    }
    refine(&mut books, histograms, &dictionary);
    books
}

/// In several rounds, gives each chunk its cheapest book, and makes each book again for its chunks. A chunk with a cheaper book in the dictionary does not count.
fn refine(books: &mut [CodeLengths], histograms: &[Histogram], dictionary: &[f64]) {
    for _ in 0..ROUNDS {
        let mut sums: Vec<Histogram> = vec![[0; _]; books.len()];
        for (histogram, &dictionary) in histograms.iter().zip(dictionary) {
            let costs = books.iter().enumerate().map(|(index, book)| (index, cost(histogram, book)));
            let cheapest = costs.min_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((index, _)) = cheapest.filter(|&(_, cost)| cost < dictionary) {
                sums[index].iter_mut().zip(histogram).for_each(|(sum, count)| *sum += count);
            }
        }
        for (book, sum) in books.iter_mut().zip(&sums) {
            *book = book_for(sum, !book.contains(&0));
        }
    }
}

/// The book that costs a histogram least. If `complete`, it has a code for every symbol, otherwise only for symbols that occur.
fn book_for(histogram: &Histogram, complete: bool) -> CodeLengths {
    codebook::optimal_lengths(&histogram.map(|count| count + u64::from(complete)))
}

/// Number of bits of a chunk's codes and of the book, as the book is in the stream. Infinite if a symbol that occurs has no code.
fn cost(histogram: &Histogram, book: &CodeLengths) -> f64 {
    codebook::cost(histogram, book).map_or(f64::INFINITY, |bits| (bits + 8 * book_lengths::coded_len(book) as u64) as f64)
}

#[cfg(test)]
mod tests {
    use quire_codec::CodebookPolicy;
    use quire_codec::stages::alphabet::SYMBOLS;
    use quire_codec::stages::book_choice::{Choice, choose};

    use super::*;

    /// Chunks of two kinds that follow no density: with every second symbol alone, and with long runs between 1 and -1.
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
