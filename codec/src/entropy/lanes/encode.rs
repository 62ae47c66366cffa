//! Tokens of a block → words of its lanes (FORMAT.md §9.1).
//!
//! When a code fills word `w` of a lane, the decoder asks for the lane's word `w + 2` after the same round. So the encoder gives
//! word `w + 2` the next free index at this moment. It does so in a block's last round as well, in which the decoder of FORMAT.md
//! asks for no word. The words at these last indices are 0, and are cut off. The encoder keeps two indices for each lane: that of
//! the word that is being filled, and that of the lane's next word.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::{FEW_LANES, LANES, LaneCount, MAX_BLOCK};
use crate::entropy::alphabet::SYMBOLS;
use crate::entropy::codebook::MAX_CODE_BITS;
use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::fast_paths::{Path, is_open};
use crate::memory::HeapArray;
use crate::simd::vectorized;
#[cfg(target_arch = "x86_64")]
use crate::simd::with_avx512;

/// Number of elements of the buffer for a block's words. An index of 16 bits needs no bounds check.
const WORDS: usize = 1 << 16;
const _: () = assert!(MAX_BLOCK * MAX_CODE_BITS as usize / 16 + 2 * LANES <= WORDS, "the words of the largest block fit");

/// Encodes blocks. Keeps the memory for the words of a block.
#[derive(Debug, Default)]
pub struct Encoder {
    words: HeapArray<u16, WORDS>,
}

impl Encoder {
    /// Encodes the symbols of a block's tokens, at most [`MAX_BLOCK`]. Returns the block's words without the zeros at their end.
    /// `codes` are those of [`canonical_codes`](crate::entropy::codebook::canonical_codes).
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode(&mut self, symbols: &[u8], codes: &[u32; SYMBOLS], lanes: LaneCount) -> Result<&[u16]> {
        let mut padded = [0; 256];
        padded[..SYMBOLS].copy_from_slice(codes);
        let words = self.words.get()?;
        let end = encode_block(symbols, &padded, lanes, words);
        let used = words[..end].iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        Ok(&words[..used])
    }
}

/// Codes the symbols of a block and writes its words. Returns the number of words that the lanes ask for.
fn encode_block(symbols: &[u8], codes: &[u32; 256], lanes: LaneCount, words: &mut [u16; WORDS]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(v4) = pulp::x86::V4::try_new().filter(|_| lanes == LaneCount::All && is_open(Path::CodedLanesAvx512)) {
        return with_avx512(
            v4,
            #[inline(always)]
            || avx512::encode_lanes(v4, symbols, codes, words),
        );
    }
    vectorized(
        #[inline(always)]
        || match lanes {
            LaneCount::Few => encode_lanes::<FEW_LANES>(symbols, codes, words),
            LaneCount::All => encode_lanes::<LANES>(symbols, codes, words),
        },
    )
}

#[inline(always)]
fn encode_lanes<const COUNT: usize>(symbols: &[u8], codes: &[u32; 256], words: &mut [u16; WORDS]) -> usize {
    // Of each lane, `bits` is the number of bits that make no whole word yet, 0 to 15. These bits are the lowest ones of
    // `pending`. Higher bits of `pending` are left over from words that are written. The lower 16 bits of `word_indices` are the
    // index of the word for the pending bits, the upper 16 bits the index of the lane's next word.
    let mut pending = [0u32; COUNT];
    let mut bits = [0u32; COUNT];
    let mut word_indices: [u32; COUNT] = std::array::from_fn(|lane| (lane | (COUNT + lane) << 16) as u32);
    let mut end = 2 * COUNT as u32;
    words[..2 * COUNT].fill(0);

    let mut code_round = |symbols: &[u8]| {
        // In the last round, lanes without a token get a code of no bits.
        let mut entries = [0u32; COUNT];
        for (entry, &symbol) in entries.iter_mut().zip(symbols) {
            *entry = codes[usize::from(symbol)];
        }
        let mut full = 0u32;
        let mut finished = [0u32; COUNT];
        for lane in 0..COUNT {
            let length = entries[lane] >> 16;
            pending[lane] = pending[lane] << length | entries[lane] & 0xffff;
            let count = bits[lane] + length;
            // If `count` is 16 or more, the lowest 16 bits of `finished` are a whole word. Otherwise they mean nothing, and bit
            // `lane` of `full` stays 0.
            finished[lane] = pending[lane] >> (count.wrapping_sub(16) & 31);
            full |= (count >> 4) << lane;
            bits[lane] = count & 15;
        }
        while full != 0 {
            let lane = full.trailing_zeros() as usize % COUNT;
            let indices = word_indices[lane];
            words[usize::from(indices as u16)] = finished[lane] as u16;
            word_indices[lane] = indices >> 16 | end << 16;
            end += 1;
            full &= full - 1;
        }
    };
    let (rounds, rest) = symbols.as_chunks::<COUNT>();
    for round in rounds {
        code_round(round);
    }
    code_round(rest);
    for lane in 0..COUNT {
        words[usize::from(word_indices[lane] as u16)] = ((pending[lane] << 16) >> bits[lane]) as u16;
        words[(word_indices[lane] >> 16) as usize] = 0;
    }
    end as usize
}

#[cfg(test)]
mod tests {
    use super::super::plain;
    use super::*;
    use crate::entropy::alphabet::CodeLengths;
    use crate::entropy::codebook::canonical_codes;
    use crate::entropy::dictionary;
    use crate::random::Random;

    #[test]
    fn blocks_have_the_plain_words() {
        // Codes of 1 to 12 bits.
        let mut skewed = [0; SYMBOLS];
        skewed[20..33].copy_from_slice(&[12, 11, 9, 7, 5, 3, 1, 2, 4, 6, 8, 10, 12]);
        let books: [CodeLengths; 3] = [skewed, dictionary::books()[8], dictionary::books()[70]];
        let mut encoder = Encoder::default();
        let mut random = Random(1);
        for lengths in books {
            let codes = canonical_codes(&lengths);
            let mut padded = [0; 256];
            padded[..SYMBOLS].copy_from_slice(&codes);
            let coded: Vec<usize> = (0..SYMBOLS).filter(|&symbol| lengths[symbol] > 0).collect();
            let first = *coded.iter().find(|&&symbol| codes[symbol] & 0xffff == 0).unwrap();
            let last = *coded.iter().max_by_key(|&&symbol| codes[symbol]).unwrap();
            let mut any = || coded[random.below(coded.len() as u64) as usize];
            // The longest block comes first: its words must leave no trace in the next blocks.
            for count in [MAX_BLOCK, 0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 1000] {
                for symbols in [vec![last; count], (0..count).map(|_| any()).collect(), vec![first; count]] {
                    let bytes: Vec<u8> = symbols.iter().map(|&symbol| symbol as u8).collect();
                    for (count_of_lanes, lanes) in [(LaneCount::Few, 8), (LaneCount::All, 32)] {
                        let words = encoder.encode(&bytes, &codes, count_of_lanes).unwrap();
                        let expected = plain::words(&symbols, &lengths, lanes);
                        assert!(words == expected, "entropy/lanes: {count} tokens, {lanes} lanes");
                        let words = encoder.words.get().unwrap();
                        let end = match count_of_lanes {
                            LaneCount::Few => encode_lanes::<FEW_LANES>(&bytes, &padded, words),
                            LaneCount::All => encode_lanes::<LANES>(&bytes, &padded, words),
                        };
                        let (words, zeros) = words[..end].split_at(expected.len());
                        assert!(words == expected, "entropy/lanes: {count} tokens, {lanes} lanes, portable");
                        assert!(zeros.iter().all(|&word| word == 0), "entropy/lanes: {count} tokens, {lanes} lanes, portable");
                    }
                }
            }
        }
    }

    #[test]
    fn the_words_of_the_example_are_those_of_the_format() {
        let codes = canonical_codes(&dictionary::books()[8]);
        let words = [0x5800, 0xcc00, 0x5800, 0xe200, 0x6000, 0xb000, 0xfd00, 0xbc00];
        for lanes in [LaneCount::Few, LaneCount::All] {
            assert_eq!(Encoder::default().encode(&[4, 47, 4, 25, 30, 95, 52, 5], &codes, lanes).unwrap(), words);
        }
    }
}
