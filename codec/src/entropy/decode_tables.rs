//! Decoding tables (FORMAT.md §8). The tables of the dictionary's books are kept from plane to plane and from chunk to chunk:
//! filling a table takes much of the time of reading a small chunk.

use crate::entropy::book_choice::Choice;
use crate::entropy::codebook::{DecodeTable, ENTRIES, MAX_CODE_BITS, PATCHED16_ENTRIES, fill_decode_table};
use crate::entropy::dictionary;
use crate::error::Result;
use crate::memory::{HeapArray, push};

/// Largest number of tables that are kept. A chunk has at most three planes, so the tables of two chunks fit. All kept tables together have 128 KiB, which fit
/// the L2 cache.
const MOST_KEPT: usize = 8;

/// The tables that were filled last for books of the dictionary, and one table for custom books.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    kept: Vec<Kept>,
    /// Index in `kept` of the next table to fill. Once [`MOST_KEPT`] tables are kept, this is the table that was filled longest
    /// ago.
    next: usize,
    custom: Table,
}

/// Memory of a [`DecodeTable`].
type Table = HeapArray<u32, { 1 << MAX_CODE_BITS }>;

/// The table of a book of the dictionary.
#[derive(Debug, Default)]
struct Kept {
    /// Number of the book, and whether the table is for 16-bit residuals with patches. `None` until the table is filled.
    book: Option<(u8, bool)>,
    table: Table,
}

impl Tables {
    /// The table of a book. If `is_patched16`, the table is for decoding to integers of 16 bits, where residuals that do not fit
    /// become patches.
    ///
    /// # Errors
    /// `Corrupt` if a custom book's lengths make no complete prefix code, `OutOfMemory`.
    pub(crate) fn get(&mut self, choice: &Choice, is_patched16: bool) -> Result<&DecodeTable> {
        let entries = if is_patched16 { &PATCHED16_ENTRIES } else { &ENTRIES };
        let book = match choice {
            Choice::Dictionary(book) => *book,
            Choice::Custom(lengths) => {
                let table = self.custom.get()?;
                fill_decode_table(lengths, entries, table)?;
                return Ok(table);
            }
        };
        let number = match self.kept.iter().position(|kept| kept.book == Some((book, is_patched16))) {
            Some(number) => number,
            None => {
                let number = self.next;
                if number == self.kept.len() {
                    push(&mut self.kept, Kept::default())?;
                }
                let kept = &mut self.kept[number];
                kept.book = None;
                fill_decode_table(&dictionary::books()[usize::from(book)], entries, kept.table.get()?)?;
                kept.book = Some((book, is_patched16));
                self.next = (number + 1) % MOST_KEPT;
                number
            }
        };
        Ok(self.kept[number].table.get()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_tables_are_those_of_their_books() {
        let mut tables = Tables::default();
        let books = dictionary::books();
        // Books 0 and 1 come again and again; the other books, in between, replace all tables in time.
        for turn in 0..200 {
            let book = if turn % 3 == 0 { turn % 2 } else { turn * 7 % books.len() };
            for (is_patched16, entries) in [(false, &ENTRIES), (true, &PATCHED16_ENTRIES)] {
                let mut expected = [0; 1 << MAX_CODE_BITS];
                fill_decode_table(&books[book], entries, &mut expected).unwrap();
                let found = tables.get(&Choice::Dictionary(book as u8), is_patched16).unwrap();
                assert!(*found == expected, "book {book} in turn {turn}");
                let found = tables.get(&Choice::Custom(books[book]), is_patched16).unwrap();
                assert!(*found == expected, "book {book} as a custom one");
            }
        }
        assert!(tables.kept.len() <= MOST_KEPT);
        assert!(tables.get(&Choice::Custom([1; crate::entropy::alphabet::SYMBOLS]), false).is_err());
    }
}
