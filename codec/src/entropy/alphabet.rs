//! The 106 symbols (FORMAT.md §7): runs, the differences -15 to 15 (direct codes), and classes of larger magnitudes. The kernels take
//! their tables from here, and `gpu/kernels/entropy/alphabet.cuh` computes symbols as [`run_symbol`] and [`class_symbol`] do.
//!
//! ```text
//!  0 ..  14  runs         of zeros: 2, 3, [4,6), [6,8), [8,12), .. [24,32), [32,64), .. [1024,2048), 2048 values
//! 15 ..  45  direct       -15 .. 15; symbol 30 is a single zero
//! 46 ..  57  half octaves |d| in [16,24), [24,32), .. [768,1024)
//! 58 ..  63  octaves      [1024,2048) .. [32768,65536)
//! 64 ..  75  4 octaves    [2^16,2^20) .. [2^56,2^60), [2^60,2^63]
//! 76 ..  90  runs         of -1 and the zeros behind it; lengths as those of 0 .. 14
//! 91 .. 105  runs         of 1 and the zeros behind it; lengths as those of 0 .. 14
//! ```
//!
//! A symbol for several run lengths or magnitudes is followed by extra bits. They hold the distance from the symbol's smallest
//! length or magnitude. In a class, the lowest extra bit is the sign, and the distance is above it. No difference costs more than
//! 64 extra bits and its symbol's code, so large differences need no list of their own. A token with a direct code is a literal.
//!
//! Why there are runs of 1 and -1: behind a run of zeros, the next value of the segment is never 0. A Huffman code cannot use
//! that, since it codes each token without regard to the token before. With runs of zeros alone, it would spend bits on whether a
//! run or a nonzero comes next. So a 1 or -1 and the zeros behind it are one token.

/// Number of symbols.
pub const SYMBOLS: usize = 106;

/// Number of occurrences of each symbol.
pub type Histogram = [u64; SYMBOLS];

/// Code lengths in bits by symbol; 0 for a symbol without a code.
pub type CodeLengths = [u8; SYMBOLS];

/// Number of values of a segment, and of the longest run that one symbol encodes. The encoder's runs do not cross from one segment into the next.
pub const SEGMENT: usize = 2048;
/// Largest magnitude of a direct code.
pub const DIRECT_MAX: i64 = 15;
/// Symbol of a single zero; direct difference `d` has symbol `DIRECT_ZERO + d`.
pub const DIRECT_ZERO: u8 = 30;
/// The first of the [`RUN_SYMBOLS`] symbols for runs that begin with 0, with -1 and with 1. It is the symbol of a run of two
/// values.
pub const FIRST_RUN: [usize; 3] = [0, 76, 91];
/// Symbol of the token class with the smallest magnitudes.
pub const FIRST_CLASS: usize = 46;
/// Number of symbols for runs with one first value.
pub const RUN_SYMBOLS: usize = 15;

/// The kinds of symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Encodes `start + extra` values: `first`, then zeros.
    Run,
    /// Encodes one difference, `start` itself as `i64`. There are no extra bits.
    Direct,
    /// Encodes one difference of magnitude `start + extra / 2`, which is negative if `extra` is odd.
    Class,
}

/// The parameters of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Kind of symbol.
    pub meaning: Meaning,
    /// First value of a run: -1, 0 or 1. It is 0 for other symbols.
    pub first: i8,
    /// Shortest length of a run, difference of a direct code (two's complement), or smallest magnitude of a class.
    pub start: u64,
    /// Number of extra bits, a class's sign included: 0 to 64.
    pub extra_bits: u8,
}

/// All symbols by number.
pub const ALPHABET: [Symbol; SYMBOLS] = alphabet();

const fn alphabet() -> [Symbol; SYMBOLS] {
    let mut table = [Symbol { meaning: Meaning::Direct, first: 0, start: 0, extra_bits: 0 }; SYMBOLS];
    let mut range = 0;
    while range < FIRST_RUN.len() {
        let mut symbol = FIRST_RUN[range];
        let mut start = 2;
        while start <= SEGMENT as u64 {
            let extra_bits = if start < 4 || start == SEGMENT as u64 {
                0
            } else if start < 32 {
                start.ilog2() as u8 - 1
            } else {
                start.ilog2() as u8
            };
            table[symbol] = Symbol { meaning: Meaning::Run, first: [0, -1, 1][range], start, extra_bits };
            start += 1 << extra_bits;
            symbol += 1;
        }
        assert!(symbol == FIRST_RUN[range] + RUN_SYMBOLS);
        range += 1;
    }
    let mut next = RUN_SYMBOLS;
    let mut direct = -DIRECT_MAX;
    while direct <= DIRECT_MAX {
        table[next] = Symbol { meaning: Meaning::Direct, first: 0, start: direct.cast_unsigned(), extra_bits: 0 };
        direct += 1;
        next += 1;
    }
    assert!(next == FIRST_CLASS);
    let mut start = DIRECT_MAX as u64 + 1;
    while next < FIRST_RUN[1] {
        let octave = start.ilog2();
        // Number of bits of the distance from `start`, without the sign. A class spans half an octave, one octave or four. The last class starts at
        // 2^60; its greatest distance, 2^63 - 2^60, has 63 bits.
        let bits = match octave {
            0..10 => octave - 1,
            10..16 => octave,
            16..60 => octave + 4,
            _ => 63,
        };
        table[next] = Symbol { meaning: Meaning::Class, first: 0, start, extra_bits: bits as u8 + 1 };
        start = match octave {
            0..16 => start + (1 << bits),
            16..60 => 1 << (octave + 4),
            _ => start,
        };
        next += 1;
    }
    table
}

/// Symbol and distance from its start for a run of 2 to [`SEGMENT`] values that begins with -1, 0 or 1.
#[must_use]
pub const fn run_symbol(first: i64, run: usize) -> (u8, u64) {
    let octave = run.ilog2() as usize;
    let index = if octave < 5 { 2 * (octave - 1) + (run >> (octave - 1) & 1) } else { octave + 3 };
    let first_run = match first {
        0 => FIRST_RUN[0],
        ..0 => FIRST_RUN[1],
        1.. => FIRST_RUN[2],
    };
    let symbol = first_run + index;
    (symbol as u8, run as u64 - ALPHABET[symbol].start)
}

/// Symbol and extra bits of a difference beyond the direct codes.
#[inline(always)]
#[must_use]
pub const fn class_symbol(difference: i64) -> (u8, u64) {
    let magnitude = difference.unsigned_abs();
    let octave = magnitude.ilog2();
    let symbol = FIRST_CLASS as u32
        + match octave {
            0..10 => 2 * (octave - 4) + (magnitude >> (octave - 1) & 1) as u32,
            10..16 => 12 + octave - 10,
            16..60 => 18 + (octave - 16) / 4,
            _ => 29,
        };
    let start = ALPHABET[symbol as usize].start;
    (symbol as u8, (magnitude - start) << 1 | (difference < 0) as u64)
}

/// The difference of a class with this start and these extra bits. The result for a direct code's start and no extra bits is the
/// direct code's difference.
#[inline(always)]
#[must_use]
pub fn class_value(start: i64, extra: u64) -> i64 {
    let sign = (extra & 1).cast_signed();
    (start.wrapping_add((extra >> 1).cast_signed()) ^ -sign).wrapping_add(sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::tokens::plain;

    #[test]
    fn runs_tile_two_to_segment() {
        for first in [-1, 0, 1] {
            for run in 2..=SEGMENT {
                let (symbol, extra) = run_symbol(first, run);
                let found = ALPHABET[usize::from(symbol)];
                assert_eq!((found.meaning, i64::from(found.first), found.start + extra), (Meaning::Run, first, run as u64));
                assert!(extra < 1 << found.extra_bits);
            }
        }
    }

    #[test]
    fn classes_tile_all_magnitudes() {
        let mut samples: Vec<i64> = (16..70_000).collect();
        for shift in 4..63 {
            let power = 1i64 << shift;
            samples.extend([power, power + 1, (power - 1).max(16), power + power / 2, power | 0x15]);
        }
        samples.extend([i64::MAX, i64::MIN + 1, i64::MIN]);
        for sample in samples {
            for difference in [sample, sample.wrapping_neg()] {
                let (symbol, extra) = class_symbol(difference);
                let found = ALPHABET[usize::from(symbol)];
                assert_eq!(found.meaning, Meaning::Class);
                assert!(found.extra_bits == 64 || extra < 1 << found.extra_bits, "{difference}");
                assert_eq!(class_value(found.start.cast_signed(), extra), difference, "symbol {symbol}");
            }
        }
    }

    #[test]
    fn symbols_are_those_of_the_plain_definition() {
        for (symbol, &found) in ALPHABET.iter().enumerate() {
            assert_eq!(found, plain::symbol(symbol), "entropy/alphabet: symbol {symbol}");
        }
    }
}
