//! Stage 4 (FORMAT.md §8, §11): histogram → the book of a plane.
//!
//! Most planes take a book of the [dictionary], which was made before the encoder saw any of the user's data (Shah et al., Lightweight Huffman Coding for
//! Efficient GPU Compression, ICS'23). A plane that would lose too much by such a book gets a book of its own.

use crate::config::CodebookPolicy;
use crate::entropy::alphabet::{CodeLengths, Histogram, SYMBOLS};
use crate::entropy::book_lengths::{book_bytes, coded_len};
use crate::entropy::codebook::{cost, entropy_bits, optimal_lengths};
use crate::entropy::dictionary;

/// A custom book is expected to take this many bits for each symbol of the alphabet, and [`BOOK_BITS_A_CODE`] bits for each
/// symbol that occurs (FORMAT.md §11.4).
pub const BOOK_BITS_A_SYMBOL: usize = 1;
/// See [`BOOK_BITS_A_SYMBOL`].
pub const BOOK_BITS_A_CODE: usize = 2;
/// The margin by which a book made for the plane must win is the cost of the cheapest other book, divided by this (FORMAT.md
/// §11.4).
pub const CUSTOM_GAIN_DIVISOR: u64 = 64;
/// A book is made for the plane only if it is expected to win. The expected cost of its codes is the entropy, and the entropy
/// divided by this. Without this excess, more books would be built that do not win.
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
    // A book of the plane's own must win by a margin. It is not built where the entropy says that it can hardly win.
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
