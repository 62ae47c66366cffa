//! What the kernels look up, made once a device: the dictionary and the powers that the checksum needs.

use quire_codec::stages::codebook::MAX_CODE_BITS;
use quire_codec::stages::{codebook, dictionary};
use quire_codec::{Result, memory};

use crate::job::{BOOKS_PADDED, CRC_PIECE_ROWS, DECODE_TABLE_LEN, SYMBOL_FOURS, Tables};

/// CRC-32's polynomial, lowest power of x in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// The polynomial 1 in this order of bits.
const ONE: u32 = 0x8000_0000;

/// The tables' bytes, as `Tables` has them. They are 700 kB, too many for a thread's stack.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn tables() -> Result<Vec<u8>> {
    let books = dictionary::books();
    let mut bytes = Vec::new();
    memory::reserve(&mut bytes, size_of::<Tables>())?;
    let mut table = Vec::new();
    for four in 0..SYMBOL_FOURS {
        let length = |book: usize, symbol: usize| books.get(book).and_then(|lengths| lengths.get(symbol)).copied().unwrap_or(0);
        bytes.extend((0..BOOKS_PADDED).flat_map(|book| [0, 1, 2, 3].map(|symbol| length(book, 4 * four + symbol))));
    }
    for lengths in books {
        table.clear();
        memory::resize(&mut table, DECODE_TABLE_LEN)?;
        for (symbol, code) in codebook::canonical_codes(lengths).into_iter().enumerate() {
            let (code, length) = ((code & 0xffff) as usize, code >> 16);
            let rest = u32::from(MAX_CODE_BITS) - length;
            table[code << rest..(code + 1) << rest].fill((symbol as u16) << 4 | length as u16);
        }
        bytes.extend(table.iter().flat_map(|entry| entry.to_le_bytes()));
    }
    for power in crc_tables()?.iter().flatten() {
        bytes.extend(power.to_le_bytes());
    }
    Ok(bytes)
}

/// Remainders of a byte followed by 0 to 3 zero bytes, then powers of x: for threads, for pieces, for rows of pieces.
fn crc_tables() -> Result<[Vec<u32>; 7]> {
    let bytes = |zeros: u32| memory::collect((0..256).map(|byte| times_x(byte, 8 * (zeros + 1))));
    let thread = power_of_x(4 * 32);
    let piece = power_of_x(256 * 4 * 32);
    let row = (0..8).fold(piece, |power, _| multiply(power, power));
    let mut threads = powers(thread, 256)?;
    threads.reverse();
    Ok([bytes(0)?, bytes(1)?, bytes(2)?, bytes(3)?, threads, powers(piece, 256)?, powers(row, CRC_PIECE_ROWS)?])
}

fn powers(base: u32, count: usize) -> Result<Vec<u32>> {
    memory::collect(std::iter::successors(Some(ONE), |&power| Some(multiply(power, base))).take(count))
}

fn times_x(value: u32, times: u32) -> u32 {
    (0..times).fold(value, |value, _| value >> 1 ^ (POLYNOMIAL & (value & 1).wrapping_neg()))
}

fn power_of_x(exponent: u32) -> u32 {
    times_x(ONE, exponent)
}

/// Product modulo the polynomial.
fn multiply(a: u32, b: u32) -> u32 {
    (0..32).fold((0, b), |(product, b), bit| (product ^ (b & (a >> (31 - bit) & 1).wrapping_neg()), times_x(b, 1))).0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's sum, on the host.
    fn checksum([zero, one, two, three, threads, pieces, rows]: &[Vec<u32>; 7], words: &[u32]) -> u32 {
        let mut joined = 0;
        for (from_end, piece) in words.rchunks(1024).enumerate() {
            for (thread, own) in piece.rchunks(4).enumerate() {
                let mut remainder = 0u32;
                for (i, word) in own.iter().enumerate() {
                    let first = std::ptr::eq(word, &words[0]) && i == 0;
                    let [a, b, c, d] = (remainder ^ if first { !word } else { *word }).to_le_bytes();
                    remainder = three[usize::from(a)] ^ two[usize::from(b)] ^ one[usize::from(c)] ^ zero[usize::from(d)];
                }
                let shifted = multiply(multiply(remainder, threads[255 - thread]), pieces[from_end % 256]);
                joined ^= multiply(shifted, rows[from_end / 256]);
            }
        }
        !joined
    }

    #[test]
    fn pieces_join_to_crc_32() {
        assert_eq!(tables().unwrap().len(), size_of::<Tables>());
        let tables = crc_tables().unwrap();
        for len in [8, 9, 1023, 1024, 1025, 5000, 300_000] {
            let words: Vec<u32> = (0..len).map(|i: u32| i.wrapping_mul(2_654_435_761) ^ i >> 3).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(checksum(&tables, &words), crc32fast::hash(&bytes), "{len}");
        }
    }
}
