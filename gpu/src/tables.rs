//! What the kernels look up, made once a device: the dictionary and the powers that the checksum needs.

use quire_codec::{codebook, dictionary};

use crate::job::{BOOKS, BOOKS_PADDED, CRC_TILE_ROWS, DECODE_TABLE_LEN, SYMBOLS, Tables};

/// CRC-32's polynomial, lowest power of x in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// 1 in the same order of bits.
const ONE: u32 = 0x8000_0000;

/// The tables, on the heap: they are 1.3 MB.
pub(crate) fn tables() -> Box<Tables> {
    let mut tables = Box::new(Tables {
        book_lengths: [[0; BOOKS_PADDED]; SYMBOLS],
        decode_tables: [[0; DECODE_TABLE_LEN]; BOOKS],
        crc_bytes: [[0; 256]; 4],
        crc_thread: [0; 256],
        crc_tile_low: [0; 256],
        crc_tile_high: [0; CRC_TILE_ROWS],
    });
    for (book, lengths) in dictionary::books().iter().enumerate() {
        for (symbol, &length) in lengths.iter().enumerate() {
            tables.book_lengths[symbol][book] = length;
        }
        // Books of the dictionary are complete: a test of the codec says so.
        let _ = codebook::fill_decode_table(lengths, &mut tables.decode_tables[book]);
    }
    for byte in 0..256 {
        let mut remainder = byte as u32;
        for zeros in 0..4 {
            remainder = times_x(remainder, 8);
            tables.crc_bytes[zeros][byte] = remainder;
        }
    }
    let thread = power_of_x(4 * 32);
    let tile = power_of_x(256 * 4 * 32);
    let row = (0..8).fold(tile, |power, _| multiply(power, power));
    fill_powers(tables.crc_thread.iter_mut().rev(), thread);
    fill_powers(tables.crc_tile_low.iter_mut(), tile);
    fill_powers(tables.crc_tile_high.iter_mut(), row);
    tables
}

fn fill_powers<'a>(places: impl Iterator<Item = &'a mut u32>, base: u32) {
    let mut power = ONE;
    for place in places {
        *place = power;
        power = multiply(power, base);
    }
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
    fn checksum(tables: &Tables, words: &[u32]) -> u32 {
        let mut joined = 0;
        for (from_end, tile) in words.rchunks(1024).enumerate() {
            for (thread, piece) in tile.rchunks(4).enumerate() {
                let mut remainder = 0u32;
                for (i, word) in piece.iter().enumerate() {
                    let first = std::ptr::eq(word, &words[0]) && i == 0;
                    let [a, b, c, d] = (remainder ^ if first { !word } else { *word }).to_le_bytes();
                    remainder = tables.crc_bytes[3][usize::from(a)]
                        ^ tables.crc_bytes[2][usize::from(b)]
                        ^ tables.crc_bytes[1][usize::from(c)]
                        ^ tables.crc_bytes[0][usize::from(d)];
                }
                let shifted = multiply(multiply(remainder, tables.crc_thread[255 - thread]), tables.crc_tile_low[from_end % 256]);
                joined ^= multiply(shifted, tables.crc_tile_high[from_end / 256]);
            }
        }
        !joined
    }

    #[test]
    fn pieces_join_to_crc_32() {
        let tables = tables();
        for len in [8, 9, 1023, 1024, 1025, 5000, 300_000] {
            let words: Vec<u32> = (0..len).map(|i: u32| i.wrapping_mul(2_654_435_761) ^ i >> 3).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(checksum(&tables, &words), crc32fast::hash(&bytes), "{len}");
        }
    }
}
