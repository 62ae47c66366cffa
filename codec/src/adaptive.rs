//! Books that an encoder chooses from besides the dictionary's: those of a user's own dictionary, made from files like the ones to come,
//! and those that chunks before this one got for themselves (both after CEAZ, ICS'22, which has codebooks for a domain, and renews a book
//! when data change).
//!
//! No stream needs them to be read: such a book travels as a custom one, in [`codebook::PACKED_LENGTHS`] bytes.
//! What is saved is the time to build one, and the margin by which a new one must win.

use crate::alphabet::SYMBOLS;
use crate::codebook::{self, Choice, CodeLengths, MAX_CODE_BITS};
use crate::error::{Error, Result};
use crate::format::Header;
use crate::inspect;
use crate::memory::{self, HeapArray, resize};
use crate::plane::{Head, PlaneWorkspace};
use crate::tokens::{Histogram, Tokens, tokenize};

/// Most books of a user's dictionary.
pub const MAX_USER_BOOKS: usize = 16;
/// Books that a history remembers.
pub const HISTORY: usize = 16;
/// Most books besides the dictionary's that an encoder chooses from.
pub const MAX_BOOKS: usize = MAX_USER_BOOKS + HISTORY;

/// What a user's dictionary file begins with.
const MAGIC: [u8; 8] = *b"QUIREBK2";
/// What one began with while there were fewer symbols.
const MAGIC_BEFORE: &[u8] = b"QUIREBK1";

/// A user's dictionary.
#[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct UserDictionary {
    /// What it was made from, for people.
    pub origin: String,
    /// Its books.
    pub books: Vec<CodeLengths>,
}

impl UserDictionary {
    /// The bytes of a dictionary file: eight that name it, then bincode.
    ///
    /// # Errors
    /// What bincode says, as text.
    pub fn to_bytes(&self) -> std::result::Result<Vec<u8>, String> {
        let contents = bincode::encode_to_vec(self, bincode::config::standard()).map_err(|error| error.to_string())?;
        Ok([&MAGIC[..], &contents].concat())
    }

    /// Reads a dictionary file.
    ///
    /// # Errors
    /// `InvalidArgument` with what is wrong with it, `OutOfMemory`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| {
            Error::invalid(if bytes.starts_with(MAGIC_BEFORE) {
                "its books are of streams of version 0.4: make it again with `quire train`"
            } else {
                "it is no dictionary of codebooks: `quire train` makes one"
            })
        })?;
        // By hand: bincode's own decoder allocates without a way to refuse.
        let short = || Error::invalid("it is damaged: it ends too early");
        let length = take_length(&mut rest).ok_or_else(short)?;
        let origin = rest.split_off(..length).ok_or_else(short)?;
        let origin = std::str::from_utf8(origin).map_err(|_| Error::invalid("it is damaged: its origin is no UTF-8"))?;
        let count = take_length(&mut rest).ok_or_else(short)?;
        let (books, behind) = rest.as_chunks::<SYMBOLS>();
        if count != books.len() || !behind.is_empty() || count == 0 || count > MAX_USER_BOOKS {
            return Err(Error::invalid(format_args!(
                "it is damaged: {count} books, where 1 to {MAX_USER_BOOKS} may be, in {} bytes",
                rest.len()
            )));
        }
        let mut table: HeapArray<u32, { 1 << MAX_CODE_BITS }> = HeapArray::default();
        for (number, book) in books.iter().enumerate() {
            codebook::fill_decode_table(book, &codebook::ENTRIES, table.get()?)
                .map_err(|error| error.reworded(|error| Error::invalid(format_args!("it is damaged: book {number}: {error}"))))?;
        }
        Ok(Self { origin: memory::text(origin)?, books: memory::collect(books.iter().copied())? })
    }
}

/// Takes a length as bincode writes it: a byte below 251, or 251, 252 or 253 and the length in 2, 4 or 8 bytes, the lowest first.
fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let first = *bytes.split_off_first()?;
    let width = match first {
        0..=250 => return Some(first.into()),
        251 => 2,
        252 => 4,
        253 => 8,
        _ => return None,
    };
    let number = bytes.split_off(..width)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    usize::try_from(number).ok()
}

/// The books of a user's dictionary and those learned from the streams of the chunks before, newest first.
///
/// With a history, the bytes of a stream depend on the chunks that the same encoder has met before, and on their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveDictionary {
    books: Vec<CodeLengths>,
    /// How many of them are the user's.
    fixed: usize,
}

impl AdaptiveDictionary {
    /// Starts with a user's books, of which there are at most [`MAX_USER_BOOKS`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(user: &[CodeLengths]) -> Result<Self> {
        let fixed = user.len().min(MAX_USER_BOOKS);
        let mut books = Vec::new();
        // All that it can ever hold: learning never fails.
        memory::reserve(&mut books, fixed + HISTORY)?;
        books.extend_from_slice(&user[..fixed]);
        Ok(Self { books, fixed })
    }

    /// Books for [`Config::books`](crate::Config::books).
    #[must_use]
    pub fn books(&self) -> &[CodeLengths] {
        &self.books
    }

    /// Learns from a stream that the encoder has just made: the book of its first plane comes to the front of the history if it is a custom one.
    /// It stays as it is, without codes for the symbols that its chunk lacks: with them, fewer books had to be built over the series of
    /// `h5-samples/results/adaptive.txt`, but for each of them one more was, and streams were longer.
    pub fn learn(&mut self, stream: &[u8]) {
        if let Some(book) = custom_book(stream) {
            self.learn_book(&book);
        }
    }

    /// Learns a book.
    pub fn learn_book(&mut self, book: &CodeLengths) {
        match self.books.iter().position(|known| known == book) {
            Some(place) if place < self.fixed => {}
            Some(place) => self.books[self.fixed..=place].rotate_right(1),
            None => {
                self.books.truncate(self.fixed + HISTORY - 1);
                self.books.insert(self.fixed, *book);
            }
        }
    }
}

/// The custom book of a stream's first plane.
#[must_use]
pub fn custom_book(stream: &[u8]) -> Option<CodeLengths> {
    let header = Header::read_from(stream).ok()?;
    let (_, mut planes) = inspect::planes(stream, &header).ok()??;
    match Head::read(&mut planes).ok()?.choice {
        Some(Choice::Custom(lengths)) => Some(lengths),
        _ => None,
    }
}

/// Counts the tokens of a stream's first plane, for making books for its like. All 0 for a stream without planes.
///
/// # Errors
/// `InvalidArgument` for a stream of bit planes, otherwise as [`Workspace::decompress`](crate::Workspace::decompress).
pub fn token_counts(stream: &[u8]) -> Result<Histogram> {
    let header = Header::read_verified(stream)?;
    let Some((_, mut planes)) = inspect::planes(stream, &header)? else { return Ok([0; SYMBOLS]) };
    if Head::read(&mut &*planes)?.choice.is_none() {
        return Err(Error::invalid("a stream of bit planes has no tokens: compress with Huffman codes"));
    }
    let mut differences: Vec<i64> = Vec::new();
    resize(&mut differences, header.layout.shape.elements() as usize)?;
    PlaneWorkspace::default().decode_differences(&mut planes, &mut differences)?;
    let mut tokens = Tokens::default();
    tokenize(&differences, &mut tokens)?;
    Ok(tokens.count().1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteOrder, CodebookPolicy, CodingPolicy, Config, Layout, Scalar, Shape, Workspace, dictionary};

    /// A book in which the length of a symbol's code depends on a number.
    fn book(number: u64) -> CodeLengths {
        codebook::optimal_lengths(&std::array::from_fn(|symbol| 1 + (symbol as u64 * 2_654_435_761 + number) % 97))
    }

    fn dictionary_of(books: usize) -> UserDictionary {
        UserDictionary { origin: "made by hand".to_owned(), books: (0..books as u64).map(book).collect() }
    }

    /// A chunk whose differences only take a few values, each as often as the others, which no density has.
    fn odd_chunk(steps: u64) -> (Vec<u8>, Layout) {
        let shape = Shape::new(&[30_000]).unwrap();
        let mut state = 1u64;
        let chunk = (0..shape.elements()).flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (0.37 * ((state >> 33) % 5 * steps) as f32).to_le_bytes()
        });
        (chunk.collect(), Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape })
    }

    fn compress(steps: u64, config: &Config) -> Vec<u8> {
        let (chunk, layout) = odd_chunk(steps);
        let mut stream = Vec::new();
        Workspace::default().compress(&chunk, &layout, config, &mut stream).unwrap();
        stream
    }

    #[test]
    fn files_come_back_and_damaged_ones_are_refused() {
        let dictionary = dictionary_of(3);
        let bytes = dictionary.to_bytes().unwrap();
        assert_eq!(UserDictionary::from_bytes(&bytes), Ok(dictionary));
        for len in 0..bytes.len() {
            assert!(UserDictionary::from_bytes(&bytes[..len]).is_err(), "{len}");
        }
        assert!(UserDictionary::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        for books in [0, MAX_USER_BOOKS + 1] {
            let error = UserDictionary::from_bytes(&dictionary_of(books).to_bytes().unwrap()).unwrap_err().to_string();
            assert!(error.contains(&format!("{books} books, where 1 to 16")), "{error}");
        }
        let mut bad = dictionary_of(2);
        bad.books[1][5] += 1;
        let error = UserDictionary::from_bytes(&bad.to_bytes().unwrap()).unwrap_err().to_string();
        assert!(error.contains("book 1: "), "{error}");
        assert!(UserDictionary::from_bytes(b"\x89HDF\r\n\x1a\n").unwrap_err().to_string().contains("no dictionary"));
    }

    #[test]
    fn what_a_stream_has_built_the_next_one_takes() {
        let config = Config::absolute(0.01).unwrap();
        let mut books = AdaptiveDictionary::new(&[book(1)]).unwrap();
        let first = compress(1, &config);
        let built = custom_book(&first).expect("a book of its own");
        books.learn(&first);
        assert_eq!(books.books(), [book(1), built]);

        // A chunk of the same kind takes it, and nothing is learned from that. Its own would be as long.
        let second = compress(1, &Config { books: books.books(), ..config });
        assert_eq!(custom_book(&second), Some(built));
        books.learn(&second);
        assert_eq!(books.books(), [book(1), built]);

        // Another kind gets a book that comes before it; what is used again comes back to the front.
        let other = compress(7, &Config { books: books.books(), ..config });
        let other_built = custom_book(&other).expect("a book of its own");
        books.learn(&other);
        assert_eq!(books.books(), [book(1), other_built, built]);
        books.learn(&second);
        assert_eq!(books.books(), [book(1), built, other_built]);

        // The history is no longer than it may be; the user's books stay.
        (10..100).for_each(|number| books.learn_book(&book(number)));
        assert_eq!(books.books().len(), 1 + HISTORY);
        assert_eq!(books.books()[..2], [book(1), book(99)]);
    }

    #[test]
    fn a_book_pays_for_its_bytes_and_needs_all_codes() {
        let config = Config::absolute(0.01).unwrap();
        let histogram = token_counts(&compress(1, &config)).unwrap();
        let best = codebook::optimal_lengths(&histogram);
        let choose = |books: &[CodeLengths]| codebook::choose(&histogram, CodebookPolicy::Auto, books);
        assert_eq!(choose(&[book(3), best]), codebook::Choice::Custom(best));
        // A book of a dictionary is in the dictionary for nothing.
        let (place, _) = dictionary::cheapest(&dictionary::books()[7].map(|length| 1 << (12 - length)));
        let typical = dictionary::books()[usize::from(place)].map(|length| 1 << (12 - length));
        let same = [dictionary::books()[usize::from(place)]];
        assert_eq!(codebook::choose(&typical, CodebookPolicy::Auto, &same), codebook::Choice::Dictionary(place));
        // Without a code for a symbol that occurs, a book cannot be taken.
        let rarest = (0..SYMBOLS).filter(|&symbol| histogram[symbol] > 0).min_by_key(|&symbol| histogram[symbol]).unwrap();
        let mut others = histogram;
        others[rarest] = 0;
        assert_ne!(choose(&[codebook::optimal_lengths(&others)]), codebook::Choice::Custom(codebook::optimal_lengths(&others)));
    }

    #[test]
    fn tokens_of_a_stream_are_counted() {
        let config = Config::absolute(0.01).unwrap();
        let counts = token_counts(&compress(1, &config)).unwrap();
        assert!(counts.iter().sum::<u64>() > 10_000);
        assert!(token_counts(&compress(1, &Config { coding: CodingPolicy::Bitshuffle, ..config })).is_err());
        assert_eq!(token_counts(&compress(0, &config)), Ok([0; SYMBOLS]));
        assert!(token_counts(&compress(1, &config)[..90]).is_err());
    }
}
