//! The code lengths of a custom book in a stream (FORMAT.md §8): a prefix code of the differences of successive lengths.
//!
//! ```text
//! lengths       0  0  5  4  4  0 …
//! differences   0  0  5 -1  0 -4 …   modulo 13, from -6 to 6
//! bits          0  0  1111100  ⟵ five ones, a zero, the sign: 0 for positive
//! ```
//!
//! Symbols of similar meaning have codes of similar lengths, and most symbols have none. A plain four bits a symbol would take 53 bytes, too
//! many for a chunk of 16 KiB.
//!
//! The prefix code of the differences is complete, and lengths count modulo 13. So every bit string that is long enough gives one
//! array of lengths, and every array has one string. Only some arrays are complete Huffman codes:
//! [`fill_decode_table`](crate::entropy::codebook::fill_decode_table) refuses the others.

#[cfg(test)]
mod plain;

use crate::entropy::alphabet::{CodeLengths, SYMBOLS};
use crate::entropy::codebook::MAX_CODE_BITS;
use crate::error::{Error, Result};
use crate::memory::extend;
use crate::reader::take;

/// Number of different lengths.
const LENGTHS: i32 = MAX_CODE_BITS as i32 + 1;
/// Largest magnitude of a difference modulo 13.
pub const MAX_MAGNITUDE: u32 = LENGTHS as u32 / 2;
/// Most bits of a difference: as many ones as its magnitude, and its sign.
const MAX_BITS: usize = MAX_MAGNITUDE as usize + 1;
/// Most bytes of a book.
pub const MAX_BOOK_LEN: usize = book_bytes(SYMBOLS * MAX_BITS);
const _: () = assert!(LENGTHS == 2 * MAX_MAGNITUDE as i32 + 1, "positive and negative differences reach equally far");

/// The code of the difference between two successive lengths: its number of bits, and the bits, of which the first is the lowest.
fn code(before: u8, length: u8) -> (u32, u32) {
    let difference = (i32::from(length) - i32::from(before)).rem_euclid(LENGTHS);
    let is_negative = difference > MAX_MAGNITUDE as i32;
    let magnitude = if is_negative { LENGTHS - difference } else { difference } as u32;
    let ones = (1 << magnitude) - 1;
    // The largest magnitude needs no zero behind its ones, and 0 has no sign.
    let sign_at = magnitude + u32::from(magnitude < MAX_MAGNITUDE);
    if magnitude == 0 { (1, 0) } else { (sign_at + 1, ones | u32::from(is_negative) << sign_at) }
}

/// The bits of all differences of a book.
fn codes(lengths: &CodeLengths) -> impl Iterator<Item = (u32, u32)> {
    let before = std::iter::once(0).chain(lengths.iter().copied());
    before.zip(lengths).map(|(before, &length)| code(before, length))
}

/// Bytes that a book takes in a stream, a multiple of 4.
#[must_use]
pub fn coded_len(lengths: &CodeLengths) -> usize {
    book_bytes(codes(lengths).map(|(count, _)| count as usize).sum())
}

/// Bytes of a book whose differences take this many bits.
#[must_use]
pub const fn book_bytes(bits: usize) -> usize {
    bits.div_ceil(32) * 4
}

/// Appends a book to a stream.
///
/// # Errors
/// `OutOfMemory`.
pub fn write(lengths: &CodeLengths, stream: &mut Vec<u8>) -> Result<()> {
    let mut words = [0u32; MAX_BOOK_LEN / 4];
    let mut at = 0;
    for (count, bits) in codes(lengths) {
        let both = u64::from(bits) << (at % 32);
        words[at / 32] |= both as u32;
        if both >> 32 != 0 {
            words[at / 32 + 1] |= (both >> 32) as u32;
        }
        at += count as usize;
    }
    extend(stream, words.map(u32::to_le_bytes)[..at.div_ceil(32)].as_flattened())
}

/// Takes a book off the front of `stream`. Whether its code is complete is not checked.
///
/// # Errors
/// `Truncated`, or `Corrupt` if its padding is not 0.
pub fn read(stream: &mut &[u8]) -> Result<CodeLengths> {
    const SECTION: &str = "codebook";
    let mut bytes = stream.iter();
    // The bits that have been read but not decoded, the first one lowest; zeros behind the end of the stream.
    let (mut buffer, mut available, mut used) = (0u64, 0, 0);
    let mut lengths = [0; SYMBOLS];
    let mut length = 0;
    for next in &mut lengths {
        while available < MAX_BITS as u32 {
            buffer |= u64::from(*bytes.next().unwrap_or(&0)) << available;
            available += 8;
        }
        let magnitude = buffer.trailing_ones().min(MAX_MAGNITUDE);
        let sign_at = magnitude + u32::from(magnitude < MAX_MAGNITUDE);
        let is_negative = buffer >> sign_at & 1 == 1;
        let count = if magnitude == 0 { 1 } else { sign_at + 1 };
        let difference = if is_negative && magnitude > 0 { -(magnitude as i32) } else { magnitude as i32 };
        length = (length + difference).rem_euclid(LENGTHS);
        *next = length as u8;
        buffer >>= count;
        available -= count;
        used += count as usize;
    }
    let coded = take(stream, book_bytes(used) as u64, SECTION)?;
    let behind = &coded[used / 8..];
    if behind.first().is_some_and(|&byte| byte >> (used % 8) != 0) || behind.iter().skip(1).any(|&byte| byte != 0) {
        return Err(Error::corrupt(SECTION, "the padding behind its code lengths is not 0"));
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::codebook::optimal_lengths;
    use crate::entropy::dictionary;
    use crate::random::Random;

    fn written(lengths: &CodeLengths) -> Vec<u8> {
        let mut stream = Vec::new();
        write(lengths, &mut stream).unwrap();
        stream
    }

    /// Books of the dictionary, books for few symbols, and lengths that no book has.
    fn books() -> Vec<CodeLengths> {
        let mut random = Random(1);
        let mut books = dictionary::books().to_vec();
        books.extend([[0; SYMBOLS], [12; SYMBOLS], std::array::from_fn(|symbol| (symbol % 2 * 6) as u8)]);
        books.push(std::array::from_fn(|symbol| ((symbol + 1) * 6 % 13) as u8));
        for rarity in 1..40 {
            books.push(optimal_lengths(&std::array::from_fn(|_| {
                if random.next().is_multiple_of(rarity) { random.next() % 1000 } else { 0 }
            })));
            books.push(std::array::from_fn(|_| (random.next() % 13) as u8));
        }
        books
    }

    /// The book that bytes begin with, and its size in bytes, in the form of [`plain::read`].
    fn read_from(bytes: &[u8]) -> Option<(CodeLengths, usize)> {
        let mut rest = bytes;
        read(&mut rest).ok().map(|lengths| (lengths, bytes.len() - rest.len()))
    }

    #[test]
    fn books_are_those_of_the_plain_definition() {
        let mut longest = 0;
        for lengths in books() {
            let mut stream = written(&lengths);
            assert_eq!(stream, plain::write(&lengths), "entropy/book_lengths: {lengths:?}");
            longest = longest.max(stream.len());
            assert_eq!(stream.len(), coded_len(&lengths));
            let expected = Some((lengths, stream.len()));
            stream.extend([0xee; 9]);
            assert_eq!(read_from(&stream), expected, "entropy/book_lengths: {lengths:?}");
            assert_eq!(plain::read(&stream), expected, "entropy/book_lengths: the plain definition is no inverse");
        }
        assert_eq!(longest, MAX_BOOK_LEN, "the longest book is among them");
    }

    #[test]
    fn a_book_that_is_cut_off_is_refused() {
        for lengths in books() {
            let stream = written(&lengths);
            for len in 0..stream.len() {
                let mut rest = &stream[..len];
                assert!(matches!(read(&mut rest), Err(Error::Truncated { .. })), "{len} of {} bytes", stream.len());
            }
        }
    }

    #[test]
    fn bits_behind_a_book_are_refused() {
        for lengths in books() {
            let stream = written(&lengths);
            for bit in plain::bits(&lengths).len()..8 * stream.len() {
                let mut damaged = stream.clone();
                damaged[bit / 8] |= 1 << (bit % 8);
                let error = read(&mut &damaged[..]).unwrap_err();
                assert!(error.to_string().contains("padding"), "{error}");
            }
        }
    }

    #[test]
    fn any_bytes_are_what_the_plain_definition_reads() {
        let mut random = Random(1);
        let (mut read_back, mut refused) = (0, 0);
        for _ in 0..20_000 {
            // Mostly zeros, so that the padding behind a book often is 0.
            let sparse = random.next() % 4;
            let bytes: Vec<u8> =
                (0..random.next() % 120).map(|_| if random.next() % 4 < sparse { 0 } else { random.next() as u8 }).collect();
            let found = read_from(&bytes);
            assert_eq!(found, plain::read(&bytes), "entropy/book_lengths: {bytes:?}");
            match found {
                Some((lengths, len)) => {
                    assert!(lengths.iter().all(|&length| length <= MAX_CODE_BITS));
                    assert_eq!(written(&lengths), bytes[..len], "a book has one form");
                    read_back += 1;
                }
                None => refused += 1,
            }
        }
        assert!(read_back > 200 && refused > 200, "{read_back} read, {refused} refused");
    }
}
