//! Stage 4 (FORMAT.md §8, §11): histogram → the book of a plane.
//!
//! Most planes take a book of the [dictionary], which was made before the encoder saw any of the user's data (Shah et al., Lightweight Huffman Coding for
//! Efficient GPU Compression, ICS'23). A plane that would lose too much by it gets a book of its own.

use crate::config::CodebookPolicy;
use crate::entropy::alphabet::{CodeLengths, Histogram, SYMBOLS};
use crate::entropy::book_lengths::{book_bytes, coded_len};
use crate::entropy::codebook::{cost, entropy_bits, optimal_lengths};
use crate::entropy::dictionary;

/// Bits that a custom book which has not been built is expected to take in the stream for each symbol of the alphabet (FORMAT.md §11.4).
pub const BOOK_BITS_A_SYMBOL: usize = 1;
/// Bits that such a book is expected to take beyond these for each symbol that occurs. Books for the 13 fields that `h5-samples` generates took 2.1 in
/// chunks of 16 KiB and 2.0 in chunks of 1 MiB.
pub const BOOK_BITS_A_CODE: usize = 2;
/// A book made for the plane must save its own length and more than 1 / this of the cheapest other book's cost (FORMAT.md §11.4).
pub const CUSTOM_GAIN_DIVISOR: u64 = 64;
/// With `CodebookPolicy::Auto`, a book is made only if it would win with the expected length and a cost of entropy + entropy / this. Over 40
/// arrays at three bounds, custom books cost 1.04 % more than the entropy in the median. Without this excess 607 books were built, of which 405 won; with it
/// 450 were built, of which 395 won.
pub const ENTROPY_EXCESS_DIVISOR: u64 = 128;

/// The book that codes a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Book of the dictionary.
    Dictionary(u8),
    /// Book whose lengths travel in the stream.
    Custom(CodeLengths),
}

impl Choice {
    /// The book's code lengths.
    #[must_use]
    pub fn lengths(&self) -> CodeLengths {
        match self {
            Self::Dictionary(book) => dictionary::books()[usize::from(*book)],
            Self::Custom(lengths) => *lengths,
        }
    }
}

/// Chooses the book for a histogram: from the dictionary, from `books`, or one that is made for the histogram. All costs are exact integers, so that every
/// machine chooses alike.
#[must_use]
pub fn choose(histogram: &Histogram, policy: CodebookPolicy, books: &[CodeLengths]) -> Choice {
    if policy == CodebookPolicy::Custom {
        return Choice::Custom(optimal_lengths(histogram));
    }
    let (book, mut bits) = dictionary::cheapest(histogram);
    let mut choice = Choice::Dictionary(book);
    if policy == CodebookPolicy::Dictionary {
        return choice;
    }
    for lengths in books {
        if let Some(cost) = cost(histogram, lengths).map(|cost| cost + book_bits(lengths)).filter(|&cost| cost < bits) {
            (choice, bits) = (Choice::Custom(*lengths), cost);
        }
    }
    // A book of the plane's own must win by a margin. Where the entropy says that it hardly can, it is not built.
    let margin = bits / CUSTOM_GAIN_DIVISOR;
    let entropy = entropy_bits(histogram);
    if entropy + entropy / ENTROPY_EXCESS_DIVISOR + expected_book_bits(histogram) + margin < bits {
        let lengths = optimal_lengths(histogram);
        if cost(histogram, &lengths).is_some_and(|custom| custom + book_bits(&lengths) + margin < bits) {
            return Choice::Custom(lengths);
        }
    }
    choice
}

/// Bits that a custom book takes in the stream.
fn book_bits(lengths: &CodeLengths) -> u64 {
    8 * coded_len(lengths) as u64
}

/// Bits that a book for this histogram is expected to take in the stream.
fn expected_book_bits(histogram: &Histogram) -> u64 {
    let occurring = histogram.iter().filter(|&&count| count > 0).count();
    book_bytes(BOOK_BITS_A_SYMBOL * SYMBOLS + BOOK_BITS_A_CODE * occurring) as u64 * 8
}

#[cfg(test)]
mod tests;
