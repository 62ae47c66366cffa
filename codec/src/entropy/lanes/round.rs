//! Rounds of the decoder, in portable code and in AVX2. A round is one token from each lane (FORMAT.md §9.1). [`LANES`] tokens
//! are found at a time, in one round of [`LANES`] lanes or in several rounds of fewer lanes.

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(target_arch = "x86_64")]
pub(super) use self::avx2::Avx2;

use super::LANES;
use super::extra_bits::{MAX_NARROW_EXTRA_BITS, RoundBits, WINDOW_BITS, extra_count};
use crate::entropy::codebook::{DecodeTable, MAX_CODE_BITS, NON_LITERAL_ENTRY, RUN_ENTRY, START_SHIFT, WIDE_ENTRY};

/// Number of words that are offered for [`LANES`] tokens. At most [`LANES`] of them are taken, one for each token. The last 8
/// words are there for loads of eight words, which need no bounds check then.
pub(super) const WORDS_OFFERED: usize = LANES + 8;

/// State of the `COUNT` lanes of a block.
pub(super) struct Lanes<const COUNT: usize> {
    /// Next bits of each lane, the first one most significant.
    pub(super) buffers: [u32; COUNT],
    /// Number of each buffer's lowest bits that are empty, because codes were shifted out of its top. It is 0 to 15 between
    /// rounds, and 32 less `available` of FORMAT.md §9.1.
    pub(super) empty: [u32; COUNT],
}

/// Tokens that follow each other in a block.
pub(super) struct RoundTokens {
    /// Table entry of each token.
    pub(super) entries: [u32; LANES],
    /// Whether one of the tokens is a run.
    pub(super) has_run: bool,
    /// Whether one of the entries has [`WIDE_ENTRY`].
    pub(super) has_wide: bool,
    /// Bit `t` is set if token `t` is no direct code.
    pub(super) non_literals: u32,
    /// Words that the lanes have taken.
    pub(super) taken: usize,
}

/// The vector operations of a decoder.
pub(super) trait VectorOps: Copy {
    /// Finds [`LANES`] tokens, in one round of [`LANES`] lanes or in several rounds of fewer. A round looks up one token in each lane. Then each lane with 16
    /// bits or fewer left in its buffer gets the next word of `next_words`, in the order of the lanes.
    fn decode_rounds<const COUNT: usize>(
        self,
        lanes: &mut Lanes<COUNT>,
        table: &DecodeTable,
        next_words: &[u16; WORDS_OFFERED],
    ) -> RoundTokens;
    /// Bits of the entries from [`START_SHIFT`] on, two's complement: the differences of direct codes.
    fn payloads(self, entries: &[u32; LANES]) -> [i32; LANES];
    /// Inclusive prefix sums, modulo 2^32.
    fn sums(self, numbers: &[u32; LANES]) -> [u32; LANES];
    /// Takes the extra bits of a round without wide tokens. The lowest bits of a lane's number are its extra bits; the bits above
    /// them mean nothing.
    fn take_extra_bits(self, entries: &[u32; LANES], bits: &mut RoundBits<'_>) -> [u32; LANES];
}

/// Portable code. It has no branch that depends on which lanes take a word.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl VectorOps for Portable {
    #[inline(always)]
    fn decode_rounds<const COUNT: usize>(
        self,
        lanes: &mut Lanes<COUNT>,
        table: &DecodeTable,
        next_words: &[u16; WORDS_OFFERED],
    ) -> RoundTokens {
        let mut tokens = RoundTokens { entries: [0; LANES], has_run: false, has_wide: false, non_literals: 0, taken: 0 };
        let mut any = 0;
        for token in 0..LANES {
            let lane = token % COUNT;
            let entry = table[(lanes.buffers[lane] >> (32 - MAX_CODE_BITS)) as usize];
            let length = entry & 15;
            let count = lanes.empty[lane] + length;
            let takes = count >> 4;
            let word = u32::from(next_words[tokens.taken % LANES]) & takes.wrapping_neg();
            lanes.empty[lane] = count & 15;
            lanes.buffers[lane] = lanes.buffers[lane] << length | word << (count & 15);
            tokens.taken += takes as usize;
            tokens.entries[token] = entry;
            any |= entry;
            tokens.non_literals |= (entry / NON_LITERAL_ENTRY % 2) << token;
        }
        (tokens.has_run, tokens.has_wide) = (any & RUN_ENTRY != 0, any & WIDE_ENTRY != 0);
        tokens
    }

    #[inline(always)]
    fn payloads(self, entries: &[u32; LANES]) -> [i32; LANES] {
        entries.map(|entry| entry.cast_signed() >> START_SHIFT)
    }

    #[inline(always)]
    fn sums(self, numbers: &[u32; LANES]) -> [u32; LANES] {
        let mut sum = 0u32;
        numbers.map(|number| {
            sum = sum.wrapping_add(number);
            sum
        })
    }

    #[inline(always)]
    fn take_extra_bits(self, entries: &[u32; LANES], bits: &mut RoundBits<'_>) -> [u32; LANES] {
        const { assert!(2 * MAX_NARROW_EXTRA_BITS as u32 <= WINDOW_BITS, "`take` returns the extra bits of two tokens") };
        let mut taken = [0u32; LANES];
        for (taken, &[first, second]) in taken.as_chunks_mut::<2>().0.iter_mut().zip(entries.as_chunks::<2>().0) {
            let window = bits.take(extra_count(first) + extra_count(second));
            *taken = [window as u32, (window >> extra_count(first)) as u32];
        }
        taken
    }
}
