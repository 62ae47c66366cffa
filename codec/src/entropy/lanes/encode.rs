//! Tokens of a block → words of its 32 lanes (FORMAT.md §9.1).
//!
//! When the encoder fills word `w` of a lane, the decoder asks for the lane's word `w + 2` after the same round. So that is when
//! the encoder gives word `w + 2` the next free index. It does so in the block's last round too, where the decoder of FORMAT.md
//! asks for no word: these words are behind all others, are 0 and are cut off. The encoder keeps two indices for each lane: of the
//! word that is being filled, and of the one after it.

use super::{LANES, MAX_BLOCK};
use crate::entropy::alphabet::SYMBOLS;
use crate::entropy::codebook::MAX_CODE_BITS;
use crate::error::Result;
use crate::memory::HeapArray;
use crate::simd::vectorized;

/// Most words that the lanes of a block can ask for.
const MAX_WORDS: usize = MAX_BLOCK * MAX_CODE_BITS as usize / 16 + 2 * LANES;

/// Encodes blocks. Keeps the memory for the words of a block.
#[derive(Debug, Default)]
pub struct Encoder {
    words: HeapArray<u16, { 1 << 16 }>,
}

const _: () = assert!(MAX_WORDS <= 1 << 16);

impl Encoder {
    /// Encodes the symbols of a block's tokens, at most [`MAX_BLOCK`]; returns the block's words without the zeros at their end. `codes`
    /// come from [`crate::entropy::codebook::canonical_codes`]: the lower 16 bits are a symbol's code, the upper 16 its length in bits.
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
    // Of each lane: `bits`, 0 to 15, is the number of bits that make no whole word yet. They are the lowest bits of `pending`; those
    // above them are in earlier words already. The lower 16 bits of `word_indices` are the index of the word for the pending bits,
    // the upper 16 the index of the lane's word after that.
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
            // A whole word in the lowest 16 bits if `count` is 16 or more. Otherwise it is anything, and bit `lane` of `full` stays
            // 0.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::alphabet::CodeLengths;
    use crate::entropy::codebook::canonical_codes;
    use crate::entropy::dictionary;

    /// The first `count` symbols of a block, read as FORMAT.md §9.1 says. All of its words must be read then, and all buffers be 0.
    fn read(words: &[u16], codes: &[u32; SYMBOLS], count: usize) -> Vec<u8> {
        let mut next = 0;
        let mut next_word = || {
            next += 1;
            u32::from(words.get(next - 1).copied().unwrap_or(0))
        };
        let mut buffers = [0; LANES];
        buffers.iter_mut().for_each(|buffer| *buffer = next_word() << 16);
        buffers.iter_mut().for_each(|buffer| *buffer |= next_word());
        let mut available = [32; LANES];
        let mut symbols = Vec::new();
        while symbols.len() < count {
            for lane in 0..LANES.min(count - symbols.len()) {
                let buffer = &mut buffers[lane];
                let begins = |&symbol: &usize| {
                    let length = codes[symbol] >> 16;
                    length > 0 && *buffer >> (32 - length) == codes[symbol] & 0xffff
                };
                let symbol = (0..SYMBOLS).find(begins).unwrap();
                *buffer <<= codes[symbol] >> 16;
                available[lane] -= codes[symbol] >> 16;
                symbols.push(symbol as u8);
            }
            for lane in (0..LANES).filter(|_| symbols.len() < count) {
                if available[lane] <= 16 {
                    buffers[lane] |= next_word() << (16 - available[lane]);
                    available[lane] += 16;
                }
            }
        }
        assert_eq!((buffers, words.len().saturating_sub(next)), ([0; LANES], 0), "{count} tokens leave bits or words");
        symbols
    }

    #[test]
    fn the_decoder_of_the_format_reads_any_number_of_tokens() {
        // Codes of 1 to 12 bits.
        let mut skewed = [0; SYMBOLS];
        skewed[20..33].copy_from_slice(&[12, 11, 9, 7, 5, 3, 1, 2, 4, 6, 8, 10, 12]);
        let books: [CodeLengths; 3] = [skewed, dictionary::books()[8], dictionary::books()[70]];
        let mut encoder = Encoder::default();
        let mut state = 1u64;
        for codes in books.map(|lengths| canonical_codes(&lengths)) {
            let coded: Vec<u8> = (0..SYMBOLS as u8).filter(|&symbol| codes[usize::from(symbol)] > 0).collect();
            let first = *coded.iter().find(|&&symbol| codes[usize::from(symbol)] & 0xffff == 0).unwrap();
            let last = *coded.iter().max_by_key(|&&symbol| codes[usize::from(symbol)]).unwrap();
            let mut any = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                coded[(state >> 33) as usize % coded.len()]
            };
            // The longest block comes first: its words are left over for the others.
            for count in [MAX_BLOCK, 0, 1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 1000] {
                for symbols in [vec![last; count], (0..count).map(|_| any()).collect(), vec![first; count]] {
                    let words = encoder.encode(&symbols, &codes).unwrap();
                    assert!(words.last() != Some(&0), "words of 0 at the end are cut off");
                    assert_eq!(words.is_empty(), symbols.iter().all(|&symbol| symbol == first));
                    assert!(read(words, &codes, count) == symbols, "{count} tokens");
                }
            }
        }
    }

    #[test]
    fn the_words_of_the_example_are_those_of_the_format() {
        let codes = canonical_codes(&dictionary::books()[8]);
        let words = [0x5800, 0xcc00, 0x5800, 0xe200, 0x6000, 0xb000, 0xfd00, 0xbc00];
        assert_eq!(Encoder::default().encode(&[4, 47, 4, 25, 30, 95, 52, 5], &codes).unwrap(), words);
    }
}
