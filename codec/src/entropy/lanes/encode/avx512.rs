//! Coding of 32 lanes with AVX-512. Their definition is [`super::encode_lanes`].
//!
//! A register has 16 bits of each lane. The pending bits of a lane are the highest ones of its 16 bits, and so are those of a
//! code in the table. The words that a round fills go to a queue, with their indices. A loop over the words of each round would
//! end after a number of words that a CPU cannot predict.

use std::arch::x86_64::__m512i;

use pulp::bytemuck::cast;
use pulp::x86::V4;

use super::super::LANES;
use super::WORDS;
use crate::entropy::codebook::MAX_CODE_BITS;

/// Number of symbols of the table. Symbols without a code have an entry of 0.
const TABLE: usize = 128;
/// A symbol without a code, which changes no lane.
const NO_SYMBOL: u8 = 127;
/// Rounds whose words are in the queue at a time.
const QUEUED_ROUNDS: usize = 32;
/// Number of an entry's lowest bits that hold the code's length. The code is in the bits above them, from the highest bit down.
const LENGTH_BITS: u32 = 4;
const _: () = assert!(MAX_CODE_BITS as u32 + LENGTH_BITS <= u16::BITS);
/// The odd elements of 16 bits: the upper halves of elements of 32 bits.
const UPPER_HALVES: u32 = 0xaaaa_aaaa;

/// The lanes between two rounds.
struct Lanes {
    /// Bits of each lane that make no whole word yet, 16 bits a lane. The first bit is the highest; bits behind the last are 0.
    pending: __m512i,
    /// Number of each lane's pending bits, 0 to 15. 16 bits a lane.
    bits: __m512i,
    /// Indices of each half of the lanes, 32 bits a lane. The lower 16 bits are the index of the word for the pending bits, the
    /// upper 16 bits that of the lane's next word.
    indices: [__m512i; 2],
}

/// Whole words, each with its index in the lower 16 bits and the word in the upper 16. A round adds at most [`LANES`] words. It
/// writes up to 16 elements behind them.
struct Queue {
    words: [u32; QUEUED_ROUNDS * LANES + 16],
    len: usize,
}

/// Codes the symbols of a block and writes its words. Returns the number of words that the lanes ask for. `codes` are those of [`super::Encoder::encode`].
#[inline(always)]
pub(super) fn encode_lanes(v4: V4, symbols: &[u8], codes: &[u32; 256], words: &mut [u16; WORDS]) -> usize {
    let table = table(codes);
    words[..2 * LANES].fill(0);
    let indices: [u32; LANES] = std::array::from_fn(|lane| (lane | (LANES + lane) << 16) as u32);
    let [low_half, high_half]: [[u32; 16]; 2] = cast(indices);
    let mut lanes = Lanes { pending: cast([0u16; LANES]), bits: cast([0u16; LANES]), indices: [cast(low_half), cast(high_half)] };
    let mut queue = Queue { words: [0; QUEUED_ROUNDS * LANES + 16], len: 0 };
    let mut end = 2 * LANES as u32;
    for part in symbols.chunks(QUEUED_ROUNDS * LANES) {
        let (rounds, rest) = part.as_chunks::<LANES>();
        for round in rounds {
            lanes.code(v4, &table, round, &mut end, &mut queue);
        }
        if !rest.is_empty() {
            let mut last = [NO_SYMBOL; LANES];
            last[..rest.len()].copy_from_slice(rest);
            lanes.code(v4, &table, &last, &mut end, &mut queue);
        }
        for &entry in &queue.words[..queue.len] {
            words[usize::from(entry as u16)] = (entry >> 16) as u16;
        }
        queue.len = 0;
    }
    let pending: [u16; LANES] = cast(lanes.pending);
    for (&indices, &pending) in lanes.indices.map(cast::<_, [u32; 16]>).as_flattened().iter().zip(&pending) {
        words[usize::from(indices as u16)] = pending;
        words[(indices >> 16) as usize] = 0;
    }
    end as usize
}

/// The entries of all symbols, 64 of them in two registers.
#[inline(always)]
fn table(codes: &[u32; 256]) -> [[__m512i; 2]; 2] {
    let mut entries = [0u16; TABLE];
    for (entry, code) in entries.iter_mut().zip(codes) {
        let length = code >> 16;
        *entry = ((code & 0xffff) << (16 - length) | length) as u16;
    }
    let [a, b, c, d]: [[u16; LANES]; 4] = cast(entries);
    [[cast(a), cast(b)], [cast(c), cast(d)]]
}

impl Lanes {
    /// Codes a token of each lane. Words that become full go into the queue. For each of them the lane gets a next word with the
    /// index `end`, which grows by 1.
    #[inline(always)]
    fn code(&mut self, v4: V4, table: &[[__m512i; 2]; 2], symbols: &[u8; LANES], end: &mut u32, queue: &mut Queue) {
        let (f, bw) = (v4.avx512f, v4.avx512bw);
        let symbols = bw._mm512_cvtepu8_epi16(cast(*symbols));
        let [lower, upper] = table.map(|[first, second]| bw._mm512_permutex2var_epi16(first, symbols, second));
        let is_upper = bw._mm512_test_epi16_mask(symbols, cast([64u16; LANES]));
        let entries = bw._mm512_mask_blend_epi16(is_upper, lower, upper);
        let lengths = f._mm512_and_si512(entries, cast([(1u16 << LENGTH_BITS) - 1; LANES]));
        let codes = f._mm512_xor_si512(entries, lengths);
        let words = f._mm512_or_si512(self.pending, bw._mm512_srlv_epi16(codes, self.bits));
        let counts = bw._mm512_add_epi16(self.bits, lengths);
        // Counts are below 32, so that bit 4 says that a word is full.
        let full = bw._mm512_test_epi16_mask(counts, cast([16u16; LANES]));
        // Bits of the code behind the word's end. A shift by 16 leaves none.
        let beyond = bw._mm512_sllv_epi16(codes, bw._mm512_sub_epi16(cast([16u16; LANES]), self.bits));
        self.pending = bw._mm512_mask_blend_epi16(full, words, beyond);
        self.bits = f._mm512_and_si512(counts, cast([15u16; LANES]));

        let [low_words, high_words]: [_; 2] = cast::<__m512i, [[u16; 16]; 2]>(words);
        for (indices, (words, full)) in self.indices.iter_mut().zip([(low_words, full as u16), (high_words, (full >> 16) as u16)])
        {
            let words = f._mm512_slli_epi32::<16>(f._mm512_cvtepu16_epi32(cast(words)));
            let queued = f._mm512_maskz_compress_epi32(full, bw._mm512_mask_blend_epi16(UPPER_HALVES, *indices, words));
            if let Some(target) = queue.words[queue.len..].first_chunk_mut::<16>() {
                *target = cast(queued);
            }
            let count = full.count_ones();
            queue.len += count as usize;
            let free: __m512i = cast(std::array::from_fn::<u32, 16, _>(|i| (i as u32) << 16));
            let free = f._mm512_add_epi32(f._mm512_set1_epi32((*end << 16).cast_signed()), free);
            let next = f._mm512_maskz_expand_epi32(full, free);
            *indices = f._mm512_mask_or_epi32(*indices, full, f._mm512_srli_epi32::<16>(*indices), next);
            *end += count;
        }
    }
}
