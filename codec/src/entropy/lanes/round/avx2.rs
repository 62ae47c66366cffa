//! Rounds of the decoder in AVX2. Their definition is [`Portable`].

use std::arch::x86_64::{__m128i, __m256i};

use pulp::bytemuck::cast;
use pulp::x86::V3;

use super::super::LANES;
use super::super::extra_bits::{RoundBits, WINDOW_BITS};
use super::{Lanes, Portable, RoundTokens, VectorOps, WORDS_OFFERED};
use crate::entropy::codebook::{DecodeTable, MAX_CODE_BITS, NON_LITERAL_ENTRY, RUN_ENTRY, START_SHIFT, WIDE_ENTRY};

/// Hands out the words of eight lanes at a time, by a permutation.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2(pub(in super::super) V3);

impl Avx2 {
    /// Inclusive prefix sums within each group of four numbers.
    #[inline(always)]
    fn sums_in_fours(self, numbers: __m256i) -> __m256i {
        let avx2 = self.0.avx2;
        let pairs = avx2._mm256_add_epi32(numbers, avx2._mm256_slli_si256::<4>(numbers));
        avx2._mm256_add_epi32(pairs, avx2._mm256_slli_si256::<8>(pairs))
    }
}

/// `set` has a bit for each of eight lanes, 1 if the lane takes a word. `HAND_OUT[set][lane]` is the index of the lane's word
/// among the next eight words, or 0 if the lane takes none. The indices are bytes, because the decoding table needs much of the
/// L1 cache.
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

impl VectorOps for Avx2 {
    #[inline(always)]
    fn decode_rounds<const COUNT: usize>(
        self,
        lanes: &mut Lanes<COUNT>,
        table: &DecodeTable,
        next_words: &[u16; WORDS_OFFERED],
    ) -> RoundTokens {
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let mut tokens = RoundTokens { entries: [0; LANES], has_run: false, has_wide: false, non_literals: 0, taken: 0 };
        let fifteen: __m256i = cast([15u32; 8]);
        let mut any: __m256i = cast([0u32; 8]);
        let look_up = |buffer: u32| table[(buffer >> (32 - MAX_CODE_BITS)) as usize];
        // Where each lane has one token, look-ups for all lanes come before the first shift: this is faster.
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
    fn payloads(self, entries: &[u32; LANES]) -> [i32; LANES] {
        let mut payloads = [0; LANES];
        for (payloads, entries) in payloads.as_chunks_mut::<8>().0.iter_mut().zip(entries.as_chunks::<8>().0) {
            *payloads = cast(self.0.avx2._mm256_srai_epi32::<{ START_SHIFT as i32 }>(cast(*entries)));
        }
        payloads
    }

    #[inline(always)]
    fn sums(self, numbers: &[u32; LANES]) -> [u32; LANES] {
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

    /// Reads the extra bits of four tokens at once. If four tokens have more than [`WINDOW_BITS`] together, portable code reads
    /// the extra bits of all lanes again.
    #[inline(always)]
    fn take_extra_bits(self, entries: &[u32; LANES], bits: &mut RoundBits<'_>) -> [u32; LANES] {
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
    use super::*;
    use crate::entropy::lanes::FEW_LANES;
    use crate::entropy::lanes::extra_bits::{MAX_NARROW_EXTRA_BITS, narrow_extra};
    use crate::random::Random;

    /// Finds tokens in lanes of random bits, by portable code and by AVX2. The tokens must be equal.
    fn rounds_agree<const COUNT: usize>(v3: V3, table: &DecodeTable, random: &mut Random) -> RoundTokens {
        let mut one: Lanes<COUNT> = Lanes {
            buffers: std::array::from_fn(|_| random.next() as u32),
            empty: std::array::from_fn(|_| random.below(16) as u32),
        };
        let mut two = Lanes { buffers: one.buffers, empty: one.empty };
        let next_words = std::array::from_fn(|_| random.next() as u16);
        let a = Portable.decode_rounds(&mut one, table, &next_words);
        let b = Avx2(v3).decode_rounds(&mut two, table, &next_words);
        assert_eq!(
            (a.entries, a.has_run, a.has_wide, a.non_literals, a.taken),
            (b.entries, b.has_run, b.has_wide, b.non_literals, b.taken)
        );
        assert_eq!((one.buffers, one.empty), (two.buffers, two.empty));
        a
    }

    #[test]
    fn portable_code_and_avx2_agree() {
        let Some(v3) = V3::try_new() else {
            println!("skipped: this CPU has no AVX2");
            return;
        };
        let mut random = Random(1);
        let table = Box::new(std::array::from_fn(|_| random.next() as u32 & !15 | (1 + random.below(12) as u32)));
        for _ in 0..2000 {
            rounds_agree::<FEW_LANES>(v3, &table, &mut random);
            let a = rounds_agree::<LANES>(v3, &table, &mut random);
            assert_eq!(Portable.payloads(&a.entries), Avx2(v3).payloads(&a.entries));
            assert_eq!(Portable.sums(&a.entries), Avx2(v3).sums(&a.entries));
            // The extra bits of four tokens can exceed WINDOW_BITS.
            let most = 1 + random.below(MAX_NARROW_EXTRA_BITS.into());
            let entries = std::array::from_fn(|_| (random.below(most + 1) as u32) << 4);
            let bytes = std::array::from_fn(|_| random.next() as u8);
            let [mut one, mut two] = [(); 2].map(|()| RoundBits { bytes: &bytes, at: 5 });
            let (a, b) = (Portable.take_extra_bits(&entries, &mut one), Avx2(v3).take_extra_bits(&entries, &mut two));
            let own =
                |taken: [u32; LANES]| -> [u32; LANES] { std::array::from_fn(|lane| narrow_extra(entries[lane], taken[lane])) };
            assert_eq!((own(a), one.at), (own(b), two.at));
        }
    }
}
