//! Stage 5 (FORMAT.md §9): tokens of a block → 32 interleaved bit strings, and back.
//!
//! Lane `l` of 32 codes tokens `l`, `l + 32`, … of its block, so that 32 threads, or the 32 slots of a loop, decode side by side. The
//! lanes' 16-bit words stand in the order in which a decoder with 32-bit buffers asks for them, and need no index:
//!
//! ```text
//! first word of each lane │ second word of each lane │ then, after each step of 32 tokens, one word
//!                                                     │ for every lane that has 16 bits or fewer left
//! ```
//!
//! An encoder crosses a 16-bit boundary in exactly the step after which the decoder asks for a word: it then knows where the word after
//! next will stand, and keeps two such places a lane. Words of zeros at the block's end are cut off.

use crate::alphabet::{ALPHABET, Meaning, SYMBOLS, class_value};
use crate::codebook::{DecodeTable, MAX_CODE_BITS};
use crate::error::{Error, Result};
use crate::integer::Integer;

/// Number of lanes.
pub const LANES: usize = 32;
/// Most values in a block.
pub const MAX_BLOCK: usize = 1 << 16;
/// Most words that the lanes of a block can ask for.
const MAX_WORDS: usize = MAX_BLOCK * MAX_CODE_BITS as usize / 16 + 2 * LANES;

/// Places for the words of one block, used again and again.
#[derive(Debug)]
pub struct Encoder {
    words: Box<[u16]>,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { words: vec![0; 1 << 16].into_boxed_slice() }
    }
}

const _: () = assert!(MAX_WORDS <= 1 << 16);

impl Encoder {
    /// Codes the tokens of a block; returns its words without the zeros at the end. `codes` is [`crate::codebook::canonical_codes`]'s.
    pub fn encode(&mut self, symbols: &[u8], codes: &[u32; SYMBOLS]) -> &[u16] {
        let mut padded = [0; 256];
        padded[..SYMBOLS].copy_from_slice(codes);
        #[expect(clippy::unwrap_used, reason = "the length is fixed above")]
        let words: &mut [u16; 1 << 16] = (&mut *self.words).try_into().unwrap();
        let end = pulp::Arch::new().dispatch(
            #[inline(always)]
            || encode_lanes(symbols, &padded, words),
        );
        let used = words[..end].iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        &words[..used]
    }
}

#[inline(always)]
fn encode_lanes(symbols: &[u8], codes: &[u32; 256], words: &mut [u16; 1 << 16]) -> usize {
    // Pending bits of each lane, their number (below 16), and where the word in the making and the one after it will stand.
    let mut pending = [0u32; LANES];
    let mut bits = [0u32; LANES];
    let mut place: [u16; LANES] = std::array::from_fn(|lane| lane as u16);
    let mut next_place: [u16; LANES] = std::array::from_fn(|lane| (LANES + lane) as u16);
    let mut end = 2 * LANES as u32;
    words[..2 * LANES].fill(0);

    let mut code_step = |symbols: &[u8]| {
        for (lane, &symbol) in symbols.iter().enumerate() {
            let entry = codes[usize::from(symbol)];
            let buffer = pending[lane] << (entry >> 16) | entry & 0xffff;
            let count = bits[lane] + (entry >> 16);
            let full = count >> 4;
            // While the word is not full, this writes something that a later step overwrites.
            words[usize::from(place[lane])] = (buffer >> (count.wrapping_sub(16) & 31)) as u16;
            if full != 0 {
                place[lane] = next_place[lane];
                next_place[lane] = end as u16;
            }
            end += full;
            pending[lane] = buffer;
            bits[lane] = count & 15;
        }
    };
    let (steps, rest) = symbols.as_chunks::<LANES>();
    for step in steps {
        code_step(step);
    }
    code_step(rest);
    for lane in 0..LANES {
        words[usize::from(place[lane])] = ((pending[lane] << 16) >> bits[lane]) as u16;
        words[usize::from(next_place[lane])] = 0;
    }
    end as usize
}

/// Reads bits, least significant first, from 16-bit words.
struct BitReader<'a> {
    words: &'a [u16],
    next: usize,
    buffer: u128,
    available: u32,
}

impl BitReader<'_> {
    /// Up to 64 bits; zeros after the end, which [`BitReader::over_read`] tells.
    #[inline(always)]
    fn read(&mut self, count: u32) -> u64 {
        while self.available < count {
            let word = self.words.get(self.next).copied().unwrap_or(0);
            self.buffer |= u128::from(word) << self.available;
            self.available += 16;
            self.next += 1;
        }
        let value = (self.buffer & ((1u128 << count) - 1)) as u64;
        self.buffer >>= count;
        self.available -= count;
        value
    }

    fn unread_words(&self) -> isize {
        self.words.len() as isize - self.next as isize
    }
}

/// Decodes a block of `values.len()` differences. `lane_words` are the lanes' words followed by [`LANES`] zeros or more; `extra_words`
/// hold the extra bits.
///
/// # Errors
/// `Corrupt` if tokens or extra bits do not come out even with the block.
pub fn decode<C: Integer>(lane_words: &[u16], extra_words: &[u16], table: &DecodeTable, values: &mut [C]) -> Result<()> {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || decode_lanes(lane_words, extra_words, table, values),
    )
}

#[inline(always)]
fn decode_lanes<C: Integer>(lane_words: &[u16], extra_words: &[u16], table: &DecodeTable, values: &mut [C]) -> Result<()> {
    const SECTION: &str = "block";
    let zeros_at = lane_words.len().saturating_sub(LANES);
    let word = |index: usize| u32::from(lane_words[index.min(zeros_at)]);
    let mut buffers: [u32; LANES] = std::array::from_fn(|lane| word(lane) << 16 | word(LANES + lane));
    let mut available = [32u32; LANES];
    let mut next = (2 * LANES).min(zeros_at);
    let mut extra = BitReader { words: extra_words, next: 0, buffer: 0, available: 0 };
    values.fill(C::default());
    let mut at = 0;
    while at < values.len() {
        // One token a lane.
        let mut entries = [0u32; LANES];
        for lane in 0..LANES {
            entries[lane] = table[(buffers[lane] >> (32 - MAX_CODE_BITS)) as usize];
        }
        let mut wants = 0u32;
        let mut markers = 0;
        for lane in 0..LANES {
            let length = entries[lane] & 15;
            buffers[lane] <<= length;
            available[lane] -= length;
            wants |= u32::from(available[lane] <= 16) << lane;
            markers |= entries[lane];
        }
        let request = &lane_words[next..next + LANES];
        let mut taken = 0;
        while wants != 0 {
            let lane = wants.trailing_zeros() as usize % LANES;
            buffers[lane] |= u32::from(request[taken]) << (16 - available[lane]);
            available[lane] += 16;
            taken += 1;
            wants &= wants - 1;
        }
        next = (next + taken).min(zeros_at);

        // The values they stand for.
        if markers >> 24 == 0 {
            for entry in entries {
                let Some(value) = values.get_mut(at) else { break };
                *value = C::from_i64(i64::from((entry >> 16) as u8 as i8));
                at += (entry >> 4 & 0xfff) as usize;
            }
        } else {
            for entry in entries {
                let Some(value) = values.get_mut(at) else { break };
                if entry >> 24 == 0 {
                    *value = C::from_i64(i64::from((entry >> 16) as u8 as i8));
                    at += (entry >> 4 & 0xfff) as usize;
                    continue;
                }
                let symbol = ALPHABET[((entry >> 24) - 1) as usize % SYMBOLS];
                let bits = extra.read(u32::from(symbol.extra_bits));
                if symbol.meaning == Meaning::Run {
                    at += (symbol.start + bits) as usize;
                } else {
                    *value = C::from_i64(class_value(symbol, bits));
                    at += 1;
                }
            }
        }
    }
    if at != values.len() {
        return Err(Error::corrupt(SECTION, format!("a zero run ends {} values behind the block", at - values.len())));
    }
    if extra.unread_words() != 0 {
        return Err(Error::corrupt(SECTION, format!("{} words of extra bits are left over", extra.unread_words())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codebook::{canonical_codes, fill_decode_table, optimal_lengths};
    use crate::tokens::{Tokens, tokenize};

    #[test]
    fn blocks_come_back() {
        let mut encoder = Encoder::default();
        let mut table = [0; 4096];
        let mut tokens = Tokens::default();
        for len in [1usize, 31, 32, 33, 64, 1000, 2048, 65_536] {
            for spread in [1, 3, 20] {
                let differences: Vec<i32> =
                    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as i32 % spread - spread / 3).collect();
                tokenize(&differences, &mut tokens);
                let (_, histogram) = tokens.count();
                let lengths = optimal_lengths(&histogram);
                fill_decode_table(&lengths, &mut table).unwrap();
                let mut words = encoder.encode(&tokens.symbols, &canonical_codes(&lengths)).to_vec();
                words.extend([0; LANES]);
                let mut extras = Vec::new();
                crate::plane::pack_extras(&tokens.extras, &mut extras);
                let mut decoded = vec![7; len];
                decode(&words, &extras, &table, &mut decoded).unwrap();
                assert_eq!(decoded, differences);
            }
        }
    }
}
