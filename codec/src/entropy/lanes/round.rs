//! Rounds of the decoder: one token from each lane in each of them (FORMAT.md §9.1), in portable code and in AVX2. [`LANES`] tokens are found at a time, by one
//! round of as many lanes or by several rounds of fewer.

use super::LANES;
use super::extra_bits::{RoundBits, WINDOW_BITS, extra_count};
use crate::entropy::codebook::{DecodeTable, MAX_CODE_BITS, NON_LITERAL_ENTRY, RUN_ENTRY, START_SHIFT, WIDE_ENTRY};

/// Number of words that are offered for [`LANES`] tokens. At most [`LANES`] of them are taken, one for each token. The other 8 are never taken. They are there
/// so that a load of eight words needs no bounds check, but only an offset modulo LANES + 1.
pub(super) const WORDS_OFFERED: usize = LANES + 8;

/// State of the `COUNT` lanes of a block.
pub(super) struct Lanes<const COUNT: usize> {
    /// Next bits of each lane, the first one most significant.
    pub(super) buffers: [u32; COUNT],
    /// Number of each buffer's lowest bits that are empty, because codes were shifted out of its top: 0 to 15 between rounds. It is
    /// 32 − `available` of FORMAT.md §9.1.
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
    /// Finds [`LANES`] tokens by as many rounds as that takes. A round looks up one token in each lane. Then each lane with 16 bits or fewer left in its buffer
    /// gets the next word of `next_words`, in the order of the lanes.
    fn decode_rounds<const COUNT: usize>(
        self,
        lanes: &mut Lanes<COUNT>,
        table: &DecodeTable,
        next_words: &[u16; WORDS_OFFERED],
    ) -> RoundTokens;
    /// Bit `t` of the result is set if entry `t` has `bit`, a number with one bit set.
    fn lanes_with(self, entries: &[u32; LANES], bit: u32) -> u32;
    /// Bits of the entries from [`START_SHIFT`] on, two's complement: the differences of direct codes.
    fn payloads(self, entries: &[u32; LANES]) -> [i32; LANES];
    /// Inclusive prefix sums, modulo 2^32.
    fn sums(self, numbers: &[u32; LANES]) -> [u32; LANES];
    /// Takes the extra bits of a round without wide tokens. The lowest bits of a lane's number are its extra bits; those above them can be anything.
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
    fn lanes_with(self, entries: &[u32; LANES], bit: u32) -> u32 {
        entries.iter().enumerate().fold(0, |found, (lane, entry)| found | u32::from(entry & bit != 0) << lane)
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
        let mut taken = [0u32; LANES];
        // Two tokens have at most 2 * 21 extra bits, less than the WINDOW_BITS that `take` returns.
        for (taken, &[first, second]) in taken.as_chunks_mut::<2>().0.iter_mut().zip(entries.as_chunks::<2>().0) {
            let window = bits.take(extra_count(first) + extra_count(second));
            *taken = [window as u32, (window >> extra_count(first)) as u32];
        }
        taken
    }
}

/// AVX2: a permutation hands out the words of eight lanes at a time.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(pub(super) pulp::x86::V3);

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// Inclusive prefix sums within each group of four numbers.
    #[inline(always)]
    fn sums_in_fours(self, numbers: std::arch::x86_64::__m256i) -> std::arch::x86_64::__m256i {
        let avx2 = self.0.avx2;
        let pairs = avx2._mm256_add_epi32(numbers, avx2._mm256_slli_si256::<4>(numbers));
        avx2._mm256_add_epi32(pairs, avx2._mm256_slli_si256::<8>(pairs))
    }
}

/// `set` has a bit for each of eight lanes, 1 if the lane takes a word. `HAND_OUT[set][lane]` is the index of the lane's word among the next eight words, or 0
/// if it takes none. In bytes, because the decoding table needs much of the L1 cache.
#[cfg(target_arch = "x86_64")]
static HAND_OUT: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut next) = (0, 0);
        while lane < 8 {
            if set >> lane & 1 == 1 {
                table[set][lane] = next;
                next += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

#[cfg(target_arch = "x86_64")]
impl VectorOps for Avx2 {
    #[inline(always)]
    fn decode_rounds<const COUNT: usize>(
        self,
        lanes: &mut Lanes<COUNT>,
        table: &DecodeTable,
        next_words: &[u16; WORDS_OFFERED],
    ) -> RoundTokens {
        use pulp::bytemuck::cast;
        use std::arch::x86_64::{__m128i, __m256i};
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let mut tokens = RoundTokens { entries: [0; LANES], has_run: false, has_wide: false, non_literals: 0, taken: 0 };
        let fifteen: __m256i = cast([15u32; 8]);
        let mut any: __m256i = cast([0u32; 8]);
        let look_up = |buffer: u32| table[(buffer >> (32 - MAX_CODE_BITS)) as usize];
        // The look-ups of all lanes before the first lane's shift: it is faster where each lane has one token.
        let looked_up = lanes.buffers.map(look_up);
        let (buffers, empty) = (lanes.buffers.as_chunks_mut::<8>().0, lanes.empty.as_chunks_mut::<8>().0);
        for (eight, found_entries) in tokens.entries.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let (buffers, empty) = (&mut buffers[eight % (COUNT / 8)], &mut empty[eight % (COUNT / 8)]);
            *found_entries = if COUNT == LANES { looked_up.as_chunks::<8>().0[eight] } else { buffers.map(look_up) };
            let entries: __m256i = cast(*found_entries);
            let length = avx2._mm256_and_si256(entries, fifteen);
            let count = avx2._mm256_add_epi32(cast(*empty), length);
            let takes = avx2._mm256_cmpgt_epi32(count, fifteen);
            let kept = avx2._mm256_and_si256(count, fifteen);
            let set = avx._mm256_movemask_ps(cast(takes)) as usize % 256;
            let words: [u16; 8] = *next_words[tokens.taken % (LANES + 1)..].first_chunk().unwrap_or(&[0; 8]);
            let words = avx2._mm256_cvtepu16_epi32(cast::<[u16; 8], __m128i>(words));
            let order = avx2._mm256_cvtepu8_epi32(cast([HAND_OUT[set], [0; 8]]));
            let words = avx2._mm256_and_si256(avx2._mm256_permutevar8x32_epi32(words, order), takes);
            *empty = cast(kept);
            *buffers =
                cast(avx2._mm256_or_si256(avx2._mm256_sllv_epi32(cast(*buffers), length), avx2._mm256_sllv_epi32(words, kept)));
            tokens.taken += set.count_ones() as usize;
            any = avx2._mm256_or_si256(any, entries);
            // Shifts the entry's bit into the sign, which movemask collects.
            let signs = avx2._mm256_slli_epi32::<{ NON_LITERAL_ENTRY.leading_zeros() as i32 }>(entries);
            tokens.non_literals |= avx._mm256_movemask_ps(cast(signs)).cast_unsigned() << (8 * eight);
        }
        let runs = avx2._mm256_slli_epi32::<{ RUN_ENTRY.leading_zeros() as i32 }>(any);
        let wides = avx2._mm256_slli_epi32::<{ WIDE_ENTRY.leading_zeros() as i32 }>(any);
        tokens.has_run = avx._mm256_movemask_ps(cast(runs)) != 0;
        tokens.has_wide = avx._mm256_movemask_ps(cast(wides)) != 0;
        tokens
    }

    #[inline(always)]
    fn lanes_with(self, entries: &[u32; LANES], bit: u32) -> u32 {
        use pulp::bytemuck::cast;
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let bit = cast([bit; 8]);
        entries.as_chunks::<8>().0.iter().enumerate().fold(0, |found, (eight, entries)| {
            let has_bit = avx2._mm256_cmpeq_epi32(avx2._mm256_and_si256(cast(*entries), bit), bit);
            found | avx._mm256_movemask_ps(cast(has_bit)).cast_unsigned() << (8 * eight)
        })
    }

    #[inline(always)]
    fn payloads(self, entries: &[u32; LANES]) -> [i32; LANES] {
        use pulp::bytemuck::cast;
        let mut payloads = [0; LANES];
        for (payloads, entries) in payloads.as_chunks_mut::<8>().0.iter_mut().zip(entries.as_chunks::<8>().0) {
            *payloads = cast(self.0.avx2._mm256_srai_epi32::<{ START_SHIFT as i32 }>(cast(*entries)));
        }
        payloads
    }

    #[inline(always)]
    fn sums(self, numbers: &[u32; LANES]) -> [u32; LANES] {
        use pulp::bytemuck::cast;
        use std::arch::x86_64::__m256i;
        let avx2 = self.0.avx2;
        let mut sums = [0; LANES];
        let mut before: __m256i = cast([0u32; 8]);
        for (sums, numbers) in sums.as_chunks_mut::<8>().0.iter_mut().zip(numbers.as_chunks::<8>().0) {
            let fours = self.sums_in_fours(cast(*numbers));
            // The sum of the lower four goes to the upper four.
            let lower = avx2._mm256_shuffle_epi32::<0xff>(avx2._mm256_permute2x128_si256::<0x08>(fours, fours));
            let eight = avx2._mm256_add_epi32(avx2._mm256_add_epi32(fours, lower), before);
            before = avx2._mm256_permutevar8x32_epi32(eight, cast([7u32; 8]));
            *sums = cast(eight);
        }
        sums
    }

    /// Reads the extra bits of four tokens at once. If four tokens together have more than [`WINDOW_BITS`], reads the extra bits of all
    /// lanes again in portable code.
    #[inline(always)]
    fn take_extra_bits(self, entries: &[u32; LANES], bits: &mut RoundBits<'_>) -> [u32; LANES] {
        use pulp::bytemuck::cast;
        use std::arch::x86_64::__m256i;
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let begin = bits.at;
        let mut taken = [0; LANES];
        let zero: __m256i = cast([0u32; 8]);
        let mut most = zero;
        for (taken, entries) in taken.as_chunks_mut::<8>().0.iter_mut().zip(entries.as_chunks::<8>().0) {
            let counts = avx2._mm256_and_si256(avx2._mm256_srli_epi32::<4>(cast(*entries)), cast([127u32; 8]));
            let sums = self.sums_in_fours(counts);
            let before = avx2._mm256_sub_epi32(sums, counts);
            most = avx2._mm256_max_epi32(most, sums);
            let sums: [u32; 8] = cast(sums);
            let (low, high) = (bits.take(sums[3]), bits.take(sums[7]));
            let windows: __m256i = cast([low, low, high, high]);
            let first = avx2._mm256_srlv_epi64(windows, avx2._mm256_unpacklo_epi32(before, zero));
            let second = avx2._mm256_srlv_epi64(windows, avx2._mm256_unpackhi_epi32(before, zero));
            *taken = cast(avx._mm256_shuffle_ps::<0b10_00_10_00>(cast(first), cast(second)));
        }
        let is_long = avx2._mm256_cmpgt_epi32(most, cast([WINDOW_BITS; 8]));
        if avx._mm256_movemask_ps(cast(is_long)) == 0 {
            return taken;
        }
        bits.at = begin;
        Portable.take_extra_bits(entries, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::super::FEW_LANES;
    use super::super::extra_bits::{MAX_NARROW_EXTRA_BITS, narrow_extra};
    use super::*;

    /// Finds tokens in lanes of random bits by both, which must agree.
    #[cfg(target_arch = "x86_64")]
    fn rounds_agree<const COUNT: usize>(v3: pulp::x86::V3, table: &DecodeTable, random: &mut impl FnMut() -> u32) -> RoundTokens {
        let mut one: Lanes<COUNT> =
            Lanes { buffers: std::array::from_fn(|_| random()), empty: std::array::from_fn(|_| random() % 16) };
        let mut two = Lanes { buffers: one.buffers, empty: one.empty };
        let next_words = std::array::from_fn(|_| random() as u16);
        let a = Portable.decode_rounds(&mut one, table, &next_words);
        let b = Avx2(v3).decode_rounds(&mut two, table, &next_words);
        assert_eq!(
            (a.entries, a.has_run, a.has_wide, a.non_literals, a.taken),
            (b.entries, b.has_run, b.has_wide, b.non_literals, b.taken)
        );
        assert_eq!((one.buffers, one.empty), (two.buffers, two.empty));
        a
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn portable_code_and_avx2_agree() {
        let Some(v3) = pulp::x86::V3::try_new() else {
            println!("skipped: this CPU has no AVX2");
            return;
        };
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 32) as u32
        };
        let mut table = Box::new([0; 4096]);
        for entry in table.iter_mut() {
            *entry = random() & !15 | (1 + random() % 12);
        }
        for _ in 0..2000 {
            rounds_agree::<FEW_LANES>(v3, &table, &mut random);
            let a = rounds_agree::<LANES>(v3, &table, &mut random);
            for bit in [RUN_ENTRY, WIDE_ENTRY, NON_LITERAL_ENTRY] {
                assert_eq!(Portable.lanes_with(&a.entries, bit), Avx2(v3).lanes_with(&a.entries, bit));
            }
            assert_eq!(Portable.payloads(&a.entries), Avx2(v3).payloads(&a.entries));
            assert_eq!(Portable.sums(&a.entries), Avx2(v3).sums(&a.entries));
            // Up to 21 extra bits a token, so that those of four can exceed WINDOW_BITS.
            let most = 1 + random() % u32::from(MAX_NARROW_EXTRA_BITS);
            let entries = std::array::from_fn(|_| (random() % (most + 1)) << 4);
            let bytes = std::array::from_fn(|_| random() as u8);
            let [mut one, mut two] = [(); 2].map(|()| RoundBits { bytes: &bytes, at: 5 });
            let (a, b) = (Portable.take_extra_bits(&entries, &mut one), Avx2(v3).take_extra_bits(&entries, &mut two));
            let own =
                |taken: [u32; LANES]| -> [u32; LANES] { std::array::from_fn(|lane| narrow_extra(entries[lane], taken[lane])) };
            assert_eq!((own(a), one.at), (own(b), two.at));
        }
    }
}
