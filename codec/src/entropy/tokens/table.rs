//! Tokens of small differences and of runs, ready made: one look-up gives a token's symbol and extra bits.

use crate::entropy::alphabet::{ALPHABET, DIRECT_MAX, DIRECT_ZERO, FIRST_RUN, SEGMENT, class_symbol, run_symbol};
use crate::number::integer::Integer;

/// Differences of smaller magnitude have their token in [`TOKEN_TABLE`].
pub(super) const TABLE_MAGNITUDE: i64 = 4096;

/// Tokens of the differences -4095 to 4095 and, from [`RUN_INDEX`] on, of the runs of 2 to [`SEGMENT`] values that begin with -1,
/// 0 and 1. All other entries are [`TABLE_MISS`]. An entry has the number of extra bits in bits 0 to 7, the symbol in bits 8 to
/// 15 and the extra bits from bit 16 on. `& 63` of an entry, or of the sum of up to four entries, is a number of bits to shift
/// by. The mask costs nothing, as instructions that shift 64 bits look at six bits alone.
static TOKEN_TABLE: [u32; 1 << 14] = {
    let mut table = [TABLE_MISS; 1 << 14];
    let mut difference = 1 - TABLE_MAGNITUDE;
    while difference < TABLE_MAGNITUDE {
        table[(difference + TABLE_MAGNITUDE - 1) as usize] = if difference.abs() <= DIRECT_MAX {
            table_entry((DIRECT_ZERO as i64 + difference) as u8, 0)
        } else {
            let (symbol, extra) = class_symbol(difference);
            table_entry(symbol, extra)
        };
        difference += 1;
    }
    let mut first_plus_one = 0;
    while first_plus_one < FIRST_RUN.len() {
        let mut run = 2;
        while run <= SEGMENT {
            let (symbol, extra) = run_symbol(first_plus_one as i64 - 1, run);
            table[RUN_INDEX + first_plus_one * SEGMENT + run] = table_entry(symbol, extra);
            run += 1;
        }
        first_plus_one += 1;
    }
    table
};

const fn table_entry(symbol: u8, extra: u64) -> u32 {
    ALPHABET[symbol as usize].extra_bits as u32 | (symbol as u32) << 8 | (extra as u32) << 16
}

/// Entry for a difference that [`TOKEN_TABLE`] does not have. No other entry has this bit.
pub(super) const TABLE_MISS: u32 = 1 << 31;
/// Index of an entry that is [`TABLE_MISS`].
pub(super) const TABLE_MISS_INDEX: u16 = (1 << 14) - 1;
/// First index behind those of the differences. A run of `len` values that begins with -1 is at `RUN_INDEX + len`. Runs that
/// begin with 0 are [`SEGMENT`] entries behind these, and runs that begin with 1 follow after [`SEGMENT`] more. No two runs share
/// an entry, as lengths are from 2 to [`SEGMENT`].
pub(super) const RUN_INDEX: usize = 2 * TABLE_MAGNITUDE as usize - 1;
const _: () = assert!(RUN_INDEX + FIRST_RUN.len() * SEGMENT < TABLE_MISS_INDEX as usize);

/// Index of a difference in the table; [`RUN_INDEX`] or above if the table does not have it.
#[inline(always)]
pub(super) fn difference_index<C: Integer>(difference: C) -> usize {
    difference.to_i64().wrapping_add(TABLE_MAGNITUDE - 1).cast_unsigned() as usize
}

/// Index in the table of a run of `len` values. `first_plus_one` is 0, 1 or 2 for a run that begins with -1, 0 or 1.
#[inline(always)]
pub(super) fn run_index(first_plus_one: u8, len: usize) -> usize {
    RUN_INDEX + usize::from(first_plus_one) * SEGMENT + len
}

/// The table's entry at an index below 2^14.
#[inline(always)]
pub(super) fn entry(index: u16) -> u32 {
    TOKEN_TABLE[usize::from(index) % TOKEN_TABLE.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::alphabet::{Meaning, class_value};

    #[test]
    fn entries_mean_what_they_are_found_by() {
        for difference in 1 - TABLE_MAGNITUDE..TABLE_MAGNITUDE {
            let index = difference_index(difference);
            assert!(index < RUN_INDEX);
            let entry = entry(index as u16);
            let symbol = ALPHABET[usize::from((entry >> 8) as u8)];
            assert_eq!(entry & 0xff, u32::from(symbol.extra_bits));
            assert_eq!(class_value(symbol.start.cast_signed(), u64::from(entry >> 16)), difference);
        }
        for (first_plus_one, first) in [(0, -1), (1, 0), (2, 1)] {
            for len in 2..=SEGMENT {
                let entry = entry(run_index(first_plus_one, len) as u16);
                let symbol = ALPHABET[usize::from((entry >> 8) as u8)];
                assert_eq!((symbol.meaning, i16::from(symbol.first)), (Meaning::Run, first));
                assert_eq!(symbol.start + u64::from(entry >> 16), len as u64);
            }
        }
        for difference in [TABLE_MAGNITUDE, -TABLE_MAGNITUDE, i64::MAX, i64::MIN] {
            assert!(difference_index(difference) >= RUN_INDEX, "{difference}");
        }
        assert_eq!(entry(TABLE_MISS_INDEX), TABLE_MISS);
    }
}
