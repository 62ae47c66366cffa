//! Stage 4 (FORMAT.md §8, §11): histogram → the book of a plane.
//!
//! Most chunks take a book of the [dictionary], made before any data was seen (Shah et al., Lightweight Huffman
//! Coding for Efficient GPU Compression, ICS'23); a chunk that loses too much by it gets a book of its own.

use crate::config::CodebookPolicy;
use crate::entropy::alphabet::{CodeLengths, Histogram};
use crate::entropy::codebook::{PACKED_LENGTHS, cost, entropy_bits, optimal_lengths};
use crate::entropy::dictionary;

/// Bits that a custom book's code lengths take in the stream.
const BOOK_BITS: u64 = 8 * PACKED_LENGTHS as u64;
/// Denominator of the share that a custom book must win before it is preferred (FORMAT.md §11).
pub const CUSTOM_MARGIN: u64 = 64;
/// A custom book is not built unless it would win with a cost of this share above the entropy (denominator). Over 40 arrays at three bounds, books cost 1.04 %
/// more than the entropy in the median; of 607 built for the entropy alone 405 won, of 450 built for this 395.
pub const CUSTOM_EXCESS: u64 = 128;

/// Which book codes a plane.
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

/// Chooses the book for a histogram, from the dictionary and from `books` besides. Exact integers only, so that every machine chooses alike.
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
        if let Some(cost) = cost(histogram, lengths).map(|cost| cost + BOOK_BITS).filter(|&cost| cost < bits) {
            (choice, bits) = (Choice::Custom(*lengths), cost);
        }
    }
    // A book of the plane's own must win a margin; where it hardly can, none has to be built.
    let margin = bits / CUSTOM_MARGIN + BOOK_BITS;
    let entropy = entropy_bits(histogram);
    if entropy + entropy / CUSTOM_EXCESS + margin < bits {
        let lengths = optimal_lengths(histogram);
        if cost(histogram, &lengths).is_some_and(|custom| custom + margin < bits) {
            return Choice::Custom(lengths);
        }
    }
    choice
}

#[cfg(test)]
mod tests;
