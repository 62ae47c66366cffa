//! Extra bits of tokens, and the differences and runs that they make with an entry of the decoding table (FORMAT.md §7).
//!
//! [`DecodeTable`](crate::entropy::codebook::DecodeTable) says what each bit of an entry is. The bits from `START_SHIFT` on are
//! the entry's payload. Entries without `WIDE_ENTRY` are narrow: their payload is a difference, a start, or the start and the
//! first value of a run. The payload of a wide entry is the symbol, of which the alphabet has the start.

use super::LANES;
use crate::entropy::codebook::{FIRST_SHIFT, RUN_ENTRY, START_SHIFT};

/// Largest number of extra bits of a token with a narrow entry.
pub(super) const MAX_NARROW_EXTRA_BITS: u8 = 21;
/// Number of bytes that [`RoundBits`] needs, from the byte with a round's first extra bit on. [`RoundBits::take`] reads 8 bytes
/// from an offset below [`ROUND_OFFSETS`].
pub(super) const ROUND_BYTES: usize = ROUND_OFFSETS + 8;
/// Number of zero bytes that [`decode`](super::decode) needs behind a block's extra bits.
pub const EXTRA_PADDING: usize = ROUND_BYTES;
/// The extra bits of a round without wide tokens lie in at most this many bytes. The number is a power of two, so that a bit mask
/// replaces the bounds check of an offset.
const ROUND_OFFSETS: usize = (MAX_NARROW_EXTRA_BITS as usize * LANES / 8 + 1).next_power_of_two();

/// Reads the extra bits of a round without wide tokens.
pub(super) struct RoundBits<'a> {
    /// Bytes of the block's extra bits. The first of them has the round's first extra bit.
    pub(super) bytes: &'a [u8; ROUND_BYTES],
    /// Offset of the next bit in `bytes`.
    pub(super) at: usize,
}

impl RoundBits<'_> {
    /// Returns at least [`WINDOW_BITS`] bits from the next one on, least significant first, and moves on by `count` bits.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        let window = self.bytes[self.at / 8 % ROUND_OFFSETS..].first_chunk().map_or(0, |&window| u64::from_le_bytes(window));
        let window = window >> (self.at % 8);
        self.at += count as usize;
        window
    }
}

/// Least number of bits that [`RoundBits::take`] and [`read_window`] return. They read the 8 bytes from the byte with the first
/// bit on, and drop up to 7 bits before it.
pub(super) const WINDOW_BITS: u32 = 57;

/// The extra bits of a token with a narrow entry. `bits_here` are the bits from the token's first extra bit on.
#[inline(always)]
pub(super) fn narrow_extra(entry: u32, bits_here: u32) -> u32 {
    bits_here & ((1 << (extra_count(entry) & 31)) - 1)
}

/// Difference of a token with a narrow entry that is not a run, without a branch. The lowest extra bit of a class is the sign,
/// and the other bits are added to the class's start. A direct code has no extra bits.
#[inline(always)]
pub(super) fn narrow_difference(entry: u32, bits_here: u32) -> i32 {
    let extra = narrow_extra(entry, bits_here);
    let sign = (extra & 1).cast_signed();
    (((entry.cast_signed() >> START_SHIFT) + (extra >> 1).cast_signed()) ^ -sign) + sign
}

/// Difference of a token with a narrow entry, and the number of its values. The difference of a run is its first value.
#[inline(always)]
pub(super) fn expand_narrow(entry: u32, bits_here: u32) -> (i32, u32) {
    if entry & RUN_ENTRY == 0 {
        (narrow_difference(entry, bits_here), 1)
    } else {
        (run_first(entry), run_length(entry, bits_here))
    }
}

/// First value of a run: -1, 0 or 1.
#[inline(always)]
pub(super) fn run_first(entry: u32) -> i32 {
    entry.cast_signed() >> FIRST_SHIFT
}

/// Number of values of a run.
#[inline(always)]
pub(super) fn run_length(entry: u32, bits_here: u32) -> u32 {
    (entry >> START_SHIFT & ((1 << (FIRST_SHIFT - START_SHIFT)) - 1)) + narrow_extra(entry, bits_here)
}

/// Number of extra bits of a token.
#[inline(always)]
pub(super) fn extra_count(entry: u32) -> u32 {
    entry >> 4 & 127
}

/// At least [`WINDOW_BITS`] bits from bit `at` on, least significant first. `bytes` has 8 bytes or more from the byte with bit
/// `at` on.
#[inline(always)]
pub(super) fn read_window(bytes: &[u8], at: usize) -> u64 {
    bytes[at / 8..].first_chunk().map_or(0, |&window| u64::from_le_bytes(window)) >> (at % 8)
}

/// `count` bits (0 to 64) from bit `at` on, least significant first. `bytes` has 9 bytes or more from the byte with bit `at` on.
#[inline(always)]
pub(super) fn read_bits(bytes: &[u8], at: usize, count: u32) -> u64 {
    let low = read_window(bytes, at);
    if count <= 56 {
        return low & ((1 << count) - 1);
    }
    let high = u64::from(bytes[at / 8 + 8]).checked_shl(64 - (at % 8) as u32).unwrap_or(0);
    (low | high) & (u64::MAX >> (64 - count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::alphabet::{ALPHABET, FIRST_CLASS, Meaning, SYMBOLS, Symbol, class_value};
    use crate::entropy::codebook::{ENTRIES, WIDE_ENTRY};

    #[test]
    fn tokens_of_narrow_entries_have_few_extra_bits() {
        for symbol in ALPHABET {
            assert!(symbol.extra_bits <= MAX_NARROW_EXTRA_BITS || symbol.start >= 1 << (31 - START_SHIFT));
        }
        assert!(ALPHABET[FIRST_CLASS..].iter().any(|symbol| symbol.extra_bits == MAX_NARROW_EXTRA_BITS));
    }

    #[test]
    fn entries_expand_to_the_meanings_of_their_symbols() {
        for symbol in (0..SYMBOLS).filter(|&symbol| ENTRIES[symbol] & WIDE_ENTRY == 0) {
            let Symbol { meaning, first, start, extra_bits } = ALPHABET[symbol];
            let most = (1u64 << extra_bits) - 1;
            for extra in [0, 1, most / 2, most].map(|extra| extra & most) {
                let plain = match meaning {
                    Meaning::Run => (i64::from(first), start + extra),
                    Meaning::Direct | Meaning::Class => (class_value(start.cast_signed(), extra), 1),
                };
                // The bits above are those of the next token.
                let bits_here = (extra | u64::MAX << extra_bits) as u32;
                let (difference, span) = expand_narrow(ENTRIES[symbol], bits_here);
                assert_eq!((i64::from(difference), u64::from(span)), plain, "symbol {symbol}, extra bits {extra}");
            }
        }
    }

    #[test]
    fn bits_are_read_from_any_bit_and_in_any_number() {
        let bytes: Vec<u8> = (0..24u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect();
        for at in 0..64 {
            for count in 0..=64 {
                let plain =
                    (0..count).rev().fold(0u64, |bits, bit| bits << 1 | u64::from(bytes[(at + bit) / 8] >> ((at + bit) % 8) & 1));
                assert_eq!(read_bits(&bytes, at, count as u32), plain, "{count} bits from {at}");
            }
        }
    }
}
