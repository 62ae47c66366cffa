//! Tokens of a block → words of its 32 lanes (FORMAT.md §9.1).
//!
//! When the encoder fills word `w` of a lane, the decoder asks for the lane's word `w + 2` after the same round. So that is when the encoder gives word `w + 2`
//! the next free index. It keeps two indices for each lane: of the word that is being filled, and of the one after it.

use super::{LANES, MAX_BLOCK};
use crate::entropy::alphabet::SYMBOLS;
use crate::entropy::codebook::MAX_CODE_BITS;
use crate::error::Result;
use crate::memory::HeapArray;
use crate::simd::vectorized;

/// Most words that the lanes of a block can ask for.
const MAX_WORDS: usize = MAX_BLOCK * MAX_CODE_BITS as usize / 16 + 2 * LANES;

/// Codes blocks. Keeps the memory for the words of a block.
#[derive(Debug, Default)]
pub struct Encoder {
    words: HeapArray<u16, { 1 << 16 }>,
}

const _: () = assert!(MAX_WORDS <= 1 << 16);

impl Encoder {
    /// Codes the tokens of a block; returns the block's words without the zeros at their end. `codes` come from
    /// [`crate::entropy::codebook::canonical_codes`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode(&mut self, symbols: &[u8], codes: &[u32; SYMBOLS]) -> Result<&[u16]> {
        let mut padded = [0; 256];
        padded[..SYMBOLS].copy_from_slice(codes);
        let words = self.words.get()?;
        let end = vectorized(
            #[inline(always)]
            || encode_lanes(symbols, &padded, words),
        );
        let used = words[..end].iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        Ok(&words[..used])
    }
}

#[inline(always)]
fn encode_lanes(symbols: &[u8], codes: &[u32; 256], words: &mut [u16; 1 << 16]) -> usize {
    // Of each lane: `pending` ends in the bits that make no whole word yet, and `bits` is their number, 0 to 15. The lower 16 bits of `word_indices` are the
    // index of the word for these bits, the upper 16 the index of the lane's word after that.
    let mut pending = [0u32; LANES];
    let mut bits = [0u32; LANES];
    let mut word_indices: [u32; LANES] = std::array::from_fn(|lane| (lane | (LANES + lane) << 16) as u32);
    let mut end = 2 * LANES as u32;
    words[..2 * LANES].fill(0);

    let mut code_round = |symbols: &[u8]| {
        // In the last round, lanes without a token get a code of no bits.
        let mut entries = [0u32; LANES];
        for (entry, &symbol) in entries.iter_mut().zip(symbols) {
            *entry = codes[usize::from(symbol)];
        }
        let mut full = 0u32;
        let mut finished = [0u32; LANES];
        for lane in 0..LANES {
            let length = entries[lane] >> 16;
            pending[lane] = pending[lane] << length | entries[lane] & 0xffff;
            let count = bits[lane] + length;
            finished[lane] = pending[lane] >> (count.wrapping_sub(16) & 31);
            full |= (count >> 4) << lane;
            bits[lane] = count & 15;
        }
        while full != 0 {
            let lane = full.trailing_zeros() as usize % LANES;
            let indices = word_indices[lane];
            words[usize::from(indices as u16)] = finished[lane] as u16;
            word_indices[lane] = indices >> 16 | end << 16;
            end += 1;
            full &= full - 1;
        }
    };
    let (rounds, rest) = symbols.as_chunks::<LANES>();
    for round in rounds {
        code_round(round);
    }
    code_round(rest);
    for lane in 0..LANES {
        words[usize::from(word_indices[lane] as u16)] = ((pending[lane] << 16) >> bits[lane]) as u16;
        words[(word_indices[lane] >> 16) as usize] = 0;
    }
    end as usize
}
