//! Books that an encoder chooses from besides the dictionary's. `quire train` makes a user's own dictionary of books from files
//! like those to be compressed. The other books are custom books of earlier chunks. Both ideas are CEAZ's (ICS'22): CEAZ has
//! codebooks for a domain, and renews a book when data change.
//!
//! A stream carries such a book as a custom book ([`book_lengths`](super::book_lengths)), so that readers need no dictionary. The
//! encoder need not build such a book. So the book may win by a single bit, where a new book must win by a margin.

use crate::entropy::alphabet::{CodeLengths, SYMBOLS};
use crate::entropy::codebook::{self, MAX_CODE_BITS};
use crate::error::{Error, Result};
use crate::memory::{self, HeapArray};

/// Largest number of books of a user's dictionary.
pub const MAX_USER_BOOKS: usize = 16;
/// Largest number of custom books of earlier chunks that are kept.
pub const HISTORY: usize = 16;
/// Largest number of books, besides the dictionary's, that an encoder chooses from.
pub const MAX_BOOKS: usize = MAX_USER_BOOKS + HISTORY;

/// The first bytes of a user's dictionary file.
const MAGIC: [u8; 8] = *b"QUIREBK2";
/// The first bytes of a dictionary file for streams of version 0.4, which had fewer symbols.
const MAGIC_BEFORE: &[u8] = b"QUIREBK1";

/// A user's dictionary.
#[derive(Debug, Clone, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct UserDictionary {
    /// A text for people that says from which data the books were made.
    pub origin: String,
    /// The books.
    pub books: Vec<CodeLengths>,
}

impl UserDictionary {
    /// The bytes of a dictionary file: the file's first bytes, then the contents in bincode.
    ///
    /// # Errors
    /// The text of bincode's error.
    pub fn to_bytes(&self) -> std::result::Result<Vec<u8>, String> {
        let contents = bincode::encode_to_vec(self, bincode::config::standard()).map_err(|error| error.to_string())?;
        Ok([&MAGIC[..], &contents].concat())
    }

    /// Reads a dictionary file.
    ///
    /// # Errors
    /// `InvalidArgument` with the reason why the file is refused, `OutOfMemory`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| {
            Error::invalid(if bytes.starts_with(MAGIC_BEFORE) {
                "its books are of streams of version 0.4: make it again with `quire train`"
            } else {
                "it is not a dictionary of codebooks: `quire train` makes one"
            })
        })?;
        // The contents are read by hand: where memory is short, bincode's decoder ends the process.
        let short = || Error::invalid("it is damaged: it ends too early");
        let length = take_length(&mut rest).ok_or_else(short)?;
        let origin = rest.split_off(..length).ok_or_else(short)?;
        let origin = std::str::from_utf8(origin).map_err(|_| Error::invalid("it is damaged: its origin is not UTF-8"))?;
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

/// Takes a length in bincode's form off the front: one byte up to 250, or 251, 252 or 253 and the length in 2, 4 or 8 bytes, the lowest byte first.
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

/// The books of a user's dictionary, then the custom books of earlier chunks. Of these, the book that was used last comes first.
///
/// With a history, the bytes of a stream depend on the chunks that the encoder compressed before, and on their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveDictionary {
    books: Vec<CodeLengths>,
    /// Number of the user's books, which are the first ones.
    user_books: usize,
}

impl AdaptiveDictionary {
    /// A dictionary with a user's books and an empty history. Of more than [`MAX_USER_BOOKS`] books it takes the first ones.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(user: &[CodeLengths]) -> Result<Self> {
        let user_books = user.len().min(MAX_USER_BOOKS);
        let mut books = Vec::new();
        // Memory for all books that the dictionary can ever have, so that `learn_book` cannot fail.
        memory::reserve(&mut books, user_books + HISTORY)?;
        books.extend_from_slice(&user[..user_books]);
        Ok(Self { books, user_books })
    }

    /// Books for [`Config::books`](crate::Config::books).
    #[must_use]
    pub fn books(&self) -> &[CodeLengths] {
        &self.books
    }

    /// Puts a book at the start of the history, unless it is a user's book. A full history loses the book that was used longest
    /// ago.
    pub fn learn_book(&mut self, book: &CodeLengths) {
        match self.books.iter().position(|known| known == book) {
            Some(index) if index < self.user_books => {}
            Some(index) => self.books[self.user_books..=index].rotate_right(1),
            None => {
                self.books.truncate(self.user_books + HISTORY - 1);
                self.books.insert(self.user_books, *book);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A book in which the length of a symbol's code depends on a number.
    fn book(number: u64) -> CodeLengths {
        codebook::optimal_lengths(&std::array::from_fn(|symbol| 1 + (symbol as u64 * 2_654_435_761 + number) % 97))
    }

    fn dictionary_of(books: usize) -> UserDictionary {
        UserDictionary { origin: "made by hand".to_owned(), books: (0..books as u64).map(book).collect() }
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
        assert!(UserDictionary::from_bytes(b"\x89HDF\r\n\x1a\n").unwrap_err().to_string().contains("not a dictionary"));
    }

    /// FORMAT.md §11.4: numbers of the books of a dictionary that has `user` books and learned books in this order. The book
    /// learned last comes first.
    fn plain(user: u64, learned: &[u64]) -> Vec<u64> {
        let mut history: Vec<u64> = Vec::new();
        for &number in learned.iter().filter(|&&number| number >= user) {
            history.retain(|&known| known != number);
            history.insert(0, number);
        }
        (0..user).chain(history.into_iter().take(HISTORY)).collect()
    }

    #[test]
    fn the_history_has_the_books_taken_last_first_and_no_book_twice() {
        let mut random = Random(1);
        for user in [0, 1, MAX_USER_BOOKS as u64] {
            let user_books: Vec<CodeLengths> = (0..user).map(book).collect();
            let mut dictionary = AdaptiveDictionary::new(&user_books).unwrap();
            let (memory, mut learned) = (dictionary.books.as_ptr(), Vec::new());
            for turn in 0..300 {
                // The number of one of a user's books, of the history's, of a forgotten book or of a new one.
                learned.push(random.below(user + HISTORY as u64 + turn / 10));
                dictionary.learn_book(&book(learned[learned.len() - 1]));
                let expected: Vec<CodeLengths> = plain(user, &learned).into_iter().map(book).collect();
                assert!(dictionary.books() == expected, "{user} books of a user, then {learned:?}");
            }
            assert_eq!(dictionary.books().len() as u64, user + HISTORY as u64);
            assert_eq!(dictionary.books.as_ptr(), memory, "learning allocates nothing");
        }
    }

    #[test]
    fn a_user_has_sixteen_books_at_most() {
        let books: Vec<CodeLengths> = (0..20).map(book).collect();
        let mut dictionary = AdaptiveDictionary::new(&books).unwrap();
        assert_eq!(dictionary.books(), &books[..16]);
        (100..200).for_each(|number| dictionary.learn_book(&book(number)));
        assert_eq!((dictionary.books().len(), &dictionary.books()[..16]), (MAX_BOOKS, &books[..16]));
    }
}
