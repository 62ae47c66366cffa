//! Stage 5 (FORMAT.md §9.1): the codes of a block's symbols → 32 interleaved bit strings, the lanes. Back: lanes and extra bits → differences. The extra bits
//! are no part of the lanes; a block has them behind its lane words.
//!
//! Lane `l` has tokens `l`, `l + 32`, … of its block, so that 32 threads of a GPU, or the elements of vectors, decode side by side. A decoder holds the next
//! bits of each lane in a buffer of 32 bits. The 16-bit words of all lanes are stored in the order in which these buffers take them, so no list says where a
//! lane's words are:
//!
//! ```text
//! first word of each lane │ second word of each lane │ then, after each round of one token from each lane,
//!                                                     │ one word for every lane that has 16 bits or fewer left
//! ```
//!
//! Words of zeros at the block's end are cut off. Each lane leaves about a word of unused bits, so a plane of few bits has 8 lanes in place of 32.

mod decode;
mod encode;
mod expand;
mod extra_bits;
#[cfg(test)]
pub(crate) mod plain;
mod round;

pub use self::decode::{LANE_PADDING, decode};
pub use self::encode::Encoder;
pub use self::expand::KeepPatch;
pub use self::extra_bits::EXTRA_PADDING;

/// Number of lanes of most planes' blocks.
pub const LANES: usize = 32;
/// Number of lanes where a plane has few bits.
pub const FEW_LANES: usize = 8;

/// Number of lanes of a plane's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneCount {
    /// [`FEW_LANES`].
    Few,
    /// [`LANES`].
    All,
}

/// Most values in a block.
pub const MAX_BLOCK: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::codebook::{ENTRIES, PATCHED16_ENTRIES, canonical_codes, fill_decode_table, optimal_lengths};
    use crate::entropy::tokens::{Tokens, tokenize};

    #[test]
    fn blocks_come_back() {
        let mut encoder = Encoder::default();
        let mut table = [0; 4096];
        let mut tokens = Tokens::default();
        for len in [1usize, 7, 8, 9, 31, 32, 33, 64, 1000, 2048, 65_536] {
            for (spread, count) in [1, 3, 20, 3000, 40_000, 150_000]
                .into_iter()
                .flat_map(|spread| [(spread, LaneCount::Few), (spread, LaneCount::All)])
            {
                let differences: Vec<i32> =
                    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 12) as i32 % spread - spread / 3).collect();
                tokenize(&differences, &mut tokens).unwrap();
                let (_, histogram) = tokens.count();
                let lengths = optimal_lengths(&histogram);
                fill_decode_table(&lengths, &ENTRIES, &mut table).unwrap();
                let mut words = encoder.encode(tokens.symbols(), &canonical_codes(&lengths), count).unwrap().to_vec();
                words.extend([0; LANE_PADDING]);
                let extra = tokens.extra.words(0, tokens.segment_ends[tokens.segment_ends.len() - 1].extra_bits).unwrap();
                let mut extra: Vec<u8> = extra.iter().flat_map(|word| word.to_le_bytes()).collect();
                extra.extend([0; EXTRA_PADDING]);
                let mut decoded = vec![7; len];
                decode(&words, count, &extra, &table, &mut decoded, &mut |_, _| unreachable!("all fit")).unwrap();
                assert_eq!(decoded, differences);

                fill_decode_table(&lengths, &PATCHED16_ENTRIES, &mut table).unwrap();
                let (mut patched, mut patches) = (vec![7i16; len], Vec::new());
                decode(&words, count, &extra, &table, &mut patched, &mut |index, difference| patches.push((index, difference)))
                    .unwrap();
                let mut patches = patches.into_iter();
                for (index, (&difference, &value)) in differences.iter().zip(&patched).enumerate() {
                    if (-32_767..=32_767).contains(&difference) {
                        assert_eq!(i32::from(value), difference);
                    } else {
                        assert_eq!((value, patches.next()), (i16::MIN, Some((index, i64::from(difference)))));
                    }
                }
                assert_eq!(patches.next(), None);
            }
        }
    }
}
