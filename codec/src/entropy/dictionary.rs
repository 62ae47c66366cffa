//! The dictionary of precomputed codebooks: made by `codec/trainer`, embedded at build, never changed once a version is released.

use std::sync::LazyLock;

use crate::entropy::alphabet::{CodeLengths, Histogram, SYMBOLS};
use crate::simd::vectorized;

/// The dictionary file, in bincode. bincode is unmaintained (RUSTSEC-2025-0141). Here bincode reads this embedded file with a
/// limit of memory, and no byte of a stream.
const FILE: &[u8] = include_bytes!("../../dictionary/books.bin");
/// Limit of the memory, in bytes, that decoding a dictionary file may allocate.
const FILE_LIMIT: usize = 1 << 16;

/// Family of the probability density that a book started from, at scale `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Family {
    /// `1 / (1 + (x/s)^2)`
    Cauchy,
    /// `exp(-|x|/s)`
    Laplace,
    /// `exp(-(x/s)^2 / 2)`
    Gaussian,
}

/// A book and the density that it started from.
#[derive(Debug, Clone, PartialEq, bincode::Encode, bincode::Decode)]
pub struct Entry {
    /// Family of the density that the book started from. The trainer then made the book again for the chunks that the book fits.
    pub family: Family,
    /// The density's scale, in quantization steps.
    pub scale: f64,
    /// Standard deviation of the scale's natural logarithm within a chunk; 0 for a scale that does not vary.
    pub spread: f64,
    /// Code lengths by symbol; every symbol has a code.
    pub lengths: CodeLengths,
}

/// Contents of a dictionary file. The number of a book in a stream is its index.
#[derive(Debug, Clone, PartialEq, bincode::Encode, bincode::Decode)]
pub struct Dictionary {
    /// At most 255 books.
    pub entries: Vec<Entry>,
}

impl Dictionary {
    /// The bytes of a dictionary file.
    ///
    /// # Errors
    /// The text of bincode's error.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        bincode::encode_to_vec(self, bincode::config::standard()).map_err(|error| error.to_string())
    }

    /// Reads a dictionary file.
    ///
    /// # Errors
    /// A text that says why the file is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (dictionary, used): (Self, usize) =
            bincode::decode_from_slice(bytes, bincode::config::standard().with_limit::<FILE_LIMIT>())
                .map_err(|error| error.to_string())?;
        let count = dictionary.entries.len();
        if used != bytes.len() || count == 0 || count > 255 {
            return Err(format!("dictionary file has {count} books in {used} of {} bytes", bytes.len()));
        }
        Ok(dictionary)
    }
}

/// Number of the built-in books, the file's first byte.
const BOOKS: usize = FILE[0] as usize;
/// Number of bytes of a book in the file before its code lengths: family, scale and spread of its density.
const ORIGIN_BYTES: usize = 1 + 8 + 8;
const _: () = assert!(BOOKS < 251 && FILE.len() == 1 + BOOKS * (ORIGIN_BYTES + SYMBOLS));

/// Code lengths of the built-in books. They are read from the file when this crate is compiled: the first chunk takes no time or memory for them.
static BY_BOOK: [CodeLengths; BOOKS] = {
    let mut books = [[0; SYMBOLS]; BOOKS];
    let mut book = 0;
    while book < BOOKS {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            books[book][symbol] = FILE[1 + book * (ORIGIN_BYTES + SYMBOLS) + ORIGIN_BYTES + symbol];
            symbol += 1;
        }
        book += 1;
    }
    books
};

/// Code lengths of the built-in books, by symbol, then by book: [`cheapest`] adds a row for each symbol.
static BY_SYMBOL: [[u8; BOOKS]; SYMBOLS] = {
    let mut lengths = [[0; BOOKS]; SYMBOLS];
    let mut book = 0;
    while book < BOOKS {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            lengths[symbol][book] = BY_BOOK[book][symbol];
            symbol += 1;
        }
        book += 1;
    }
    lengths
};

/// The built-in dictionary with the densities of its books, for the trainer. The plugin does not call it, as it allocates memory.
#[must_use]
pub fn built_in() -> &'static Dictionary {
    static BUILT_IN: LazyLock<Dictionary> =
        LazyLock::new(|| Dictionary::from_bytes(FILE).unwrap_or_else(|error| panic!("embedded dictionary: {error}")));
    &BUILT_IN
}

/// Code lengths of the built-in books.
#[must_use]
pub fn books() -> &'static [CodeLengths] {
    &BY_BOOK
}

/// Number of the cheapest built-in book for a histogram and its cost in bits; ties go to the lowest number.
#[must_use]
pub fn cheapest(histogram: &Histogram) -> (u8, u64) {
    let mut costs = [0u64; BOOKS];
    vectorized(
        #[inline(always)]
        || {
            for (lengths, &occurrences) in BY_SYMBOL.iter().zip(histogram) {
                if occurrences > 0 {
                    for (cost, &length) in costs.iter_mut().zip(lengths) {
                        *cost += occurrences * u64::from(length);
                    }
                }
            }
        },
    );
    let best = (0..BOOKS).min_by_key(|&book| costs[book]).unwrap_or(0);
    (best as u8, costs[best])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::codebook;

    #[test]
    fn every_book_codes_every_symbol() {
        assert_eq!(built_in().entries.len(), 75);
        assert!(built_in().entries.iter().map(|entry| &entry.lengths).eq(books()));
        for lengths in books() {
            assert!(lengths.iter().all(|&length| length > 0));
            codebook::fill_decode_table(lengths, &codebook::ENTRIES, &mut [0; 4096]).unwrap();
        }
    }

    #[test]
    fn cheapest_is_the_least_exact_cost() {
        for book in [0, 20, 40, 60, 74] {
            let histogram: Histogram = std::array::from_fn(|symbol| 1 << (12 - books()[book][symbol]));
            let (best, cost) = cheapest(&histogram);
            let costs: Vec<u64> = books().iter().map(|lengths| codebook::cost(&histogram, lengths).unwrap()).collect();
            assert_eq!(cost, *costs.iter().min().unwrap());
            assert_eq!(usize::from(best), costs.iter().position(|&c| c == cost).unwrap());
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        for len in 0..FILE.len() {
            assert!(Dictionary::from_bytes(&FILE[..len]).is_err());
        }
        assert!(Dictionary::from_bytes(&[255; 64]).is_err());
    }
}
