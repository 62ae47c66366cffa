use super::super::encode::Encoder;
use super::super::plain;
use super::*;
use crate::entropy::alphabet::{ALPHABET, CodeLengths, SYMBOLS};
use crate::entropy::codebook::{ENTRIES, canonical_codes, fill_decode_table};
use crate::entropy::tokens::plain::{self as tokens, Token};
use crate::random::Random;

/// Code `0` is the difference 0, `10` a run of 4 or 5 zeros, `110` the class of magnitudes 16 to 23, `1110` a difference of 1,
/// `1111` the last class.
const BOOK: CodeLengths = {
    let mut lengths = [0; SYMBOLS];
    (lengths[30], lengths[2], lengths[46], lengths[31], lengths[75]) = (1, 2, 3, 4, 4);
    lengths
};

/// Lane words and extra bytes of a block of these tokens, symbols and their extra bits.
fn block(tokens: &[(u8, u64)], lanes: LaneCount) -> (Vec<u16>, Vec<u8>) {
    let symbols: Vec<u8> = tokens.iter().map(|&(symbol, _)| symbol).collect();
    let words = Encoder::default().encode(&symbols, &canonical_codes(&BOOK), lanes).unwrap().to_vec();
    let tokens: Vec<Token> = tokens.iter().map(|&(symbol, extra)| (symbol.into(), extra)).collect();
    (words, tokens::extra_words(&tokens).into_iter().flat_map(u16::to_le_bytes).collect())
}

/// A block's words, in few lanes or all.
#[derive(Clone, Copy)]
struct Block<'a> {
    words: &'a [u16],
    lanes: LaneCount,
    extra: &'a [u8],
}

impl Block<'_> {
    /// Decodes a block of `len` values with both decoders. They must agree with each other and with the plain definition.
    fn decoded(self, len: usize) -> Result<Vec<i64>> {
        let extra_words: Vec<u16> = self.extra.as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word)).collect();
        let lanes = if self.lanes == LaneCount::Few { 8 } else { 32 };
        let expected = plain::decode(self.words, &extra_words, &BOOK, lanes, len);
        let (words, extra) = ([self.words, &[0; LANE_PADDING]].concat(), [self.extra, &[0; EXTRA_PADDING]].concat());
        let mut table = [0; 4096];
        fill_decode_table(&BOOK, &ENTRIES, &mut table).unwrap();
        let (mut found, mut portable) = (vec![7; len], vec![8; len]);
        let outcome = decode(&words, self.lanes, &extra, &table, &mut found, &mut |_, _| unreachable!("all fit"));
        let keep_patch = &mut |_, _| unreachable!("all fit");
        let again = match self.lanes {
            LaneCount::Few => decode_block::<_, FEW_LANES>(round::Portable, &words, &extra, &table, &mut portable, keep_patch),
            LaneCount::All => decode_block::<_, LANES>(round::Portable, &words, &extra, &table, &mut portable, keep_patch),
        };
        assert_eq!(outcome, again);
        let found = outcome.map(|()| {
            assert_eq!(found, portable);
            found
        });
        assert!(found.as_ref().ok() == expected.as_ref(), "entropy/lanes: {found:?}, not {expected:?}");
        found
    }

    fn refused(self, len: usize, why: &str) {
        let error = self.decoded(len).unwrap_err().to_string();
        assert!(error.contains(why), "{error}, not {why}");
    }
}

/// The tokens of a block of 152 values, and the values.
fn example() -> (Vec<(u8, u64)>, Vec<i64>) {
    let (mut tokens, mut values) = (Vec::new(), Vec::new());
    for turn in 0..17 {
        tokens.extend([(2, 1), (46, 7), (30, 0), (31, 0)]);
        values.extend([0, 0, 0, 0, 0, -19, 0, 1]);
        if turn == 9 {
            tokens.extend([(75, u64::MAX - 1), (75, 1), (31, 0)]);
            values.extend([(1i64 << 60).wrapping_add(i64::MAX), -(1 << 60), 1]);
        }
    }
    tokens.extend([(31, 0), (2, 0), (46, 14), (31, 0), (31, 0), (31, 0), (31, 0)]);
    values.extend([1, 0, 0, 0, 0, 23, 1, 1, 1, 1]);
    values.extend([0; 3]);
    tokens.extend([(30, 0); 3]);
    (tokens, values)
}

const BEHIND: &str = "behind its last token are bits";

#[test]
fn a_block_takes_exactly_its_words_and_extra_bits() {
    for lanes in [LaneCount::Few, LaneCount::All] {
        let (tokens, values) = example();
        let (words, mut extra) = block(&tokens, lanes);
        let len = values.len();
        let refused = |words: &[u16], extra: &[u8], why| Block { words, lanes, extra }.refused(len, why);
        assert_eq!(Block { words: &words, lanes, extra: &extra }.decoded(len), Ok(values));
        for word in [0, 1, 0x8000] {
            refused(&[&words[..], &[word]].concat(), &extra, BEHIND);
            refused(&[&words[..], &[0; 100], &[word]].concat(), &extra, BEHIND);
        }
        refused(&words, &extra[..extra.len() - 2], "extra bits, it has");
        refused(&words, &[&extra[..], &[0, 0]].concat(), "extra bits, it has");
        let used = tokens.iter().map(|&(symbol, _)| usize::from(ALPHABET[usize::from(symbol)].extra_bits)).sum::<usize>();
        assert!(used % 16 != 0, "{used} bits leave some of the last word");
        for bit in used..8 * extra.len() {
            extra[bit / 8] ^= 1 << (bit % 8);
            refused(&words, &extra, BEHIND);
            extra[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn each_bit_of_the_words_counts() {
    for lanes in [LaneCount::Few, LaneCount::All] {
        let (tokens, values) = example();
        let (mut words, extra) = block(&tokens, lanes);
        for bit in 0..16 * words.len() {
            words[bit / 16] ^= 1 << (bit % 16);
            assert_ne!(Block { words: &words, lanes, extra: &extra }.decoded(values.len()), Ok(values.clone()), "bit {bit}");
            words[bit / 16] ^= 1 << (bit % 16);
        }
        for len in 0..words.len() {
            let block = Block { words: &words[..len], lanes, extra: &extra };
            assert_ne!(block.decoded(values.len()), Ok(values.clone()), "{len} words");
        }
    }
}

#[test]
fn any_words_are_what_the_plain_definition_reads() {
    let mut random = Random(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let lanes = if random.below(2) == 0 { LaneCount::Few } else { LaneCount::All };
        // Few bits are 1, so that blocks end within the words.
        let mut words: Vec<u16> =
            (0..random.below(100)).map(|_| if random.below(4) == 0 { 1 << random.below(16) } else { 0 }).collect();
        if random.below(2) == 0 {
            words.truncate(words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1));
        }
        let extra = vec![0; 2 * random.below(3) as usize];
        accepted += usize::from(Block { words: &words, lanes, extra: &extra }.decoded(random.below(120) as usize).is_ok());
    }
    assert!(accepted > 100, "{accepted} blocks were accepted");
}

#[test]
fn bits_behind_the_tokens_of_each_lane_are_zeros() {
    // Each lane has one token of four bits, or none.
    let (few, all) = (LaneCount::Few, LaneCount::All);
    for (lanes, count_of_lanes, count) in
        [(few, 8, 1), (few, 8, 2), (few, 8, 7), (few, 8, 8), (all, 32, 1), (all, 32, 2), (all, 32, 31), (all, 32, 32)]
    {
        let (mut words, extra) = block(&vec![(31, 0); count], lanes);
        assert_eq!(Block { words: &words, lanes, extra: &extra }.decoded(count), Ok(vec![1; count]));
        words.resize(2 * count_of_lanes, 0);
        for lane in 0..2 * count_of_lanes {
            for bit in 0..if lane < count { 12 } else { 16 } {
                words[lane] ^= 1 << bit;
                let end = words.iter().rposition(|&word| word != 0).unwrap() + 1;
                Block { words: &words[..end], lanes, extra: &extra }.refused(count, BEHIND);
                words[lane] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn blocks_of_other_lengths_are_refused() {
    for lanes in [LaneCount::Few, LaneCount::All] {
        let (tokens, values) = example();
        let (words, extra) = block(&tokens, lanes);
        // Shorter blocks leave bits or words behind their last token. But the codes of the last three values are a bit of 0 each,
        // which leaves no trace.
        for len in 0..values.len() - 3 {
            assert!(Block { words: &words, lanes, extra: &extra }.decoded(len).is_err(), "{len} values");
        }
        let (words, extra) = block(&[(46, 0), (2, 1)], lanes);
        let block = Block { words: &words, lanes, extra: &extra };
        assert_eq!(block.decoded(6), Ok(vec![16, 0, 0, 0, 0, 0]));
        block.refused(5, "a run ends 1 values behind the block");
        block.refused(2, "a run ends 4 values behind the block");
        block.refused(1, BEHIND);
        // Missing words are read as zeros, and a code of zeros is the difference 0.
        assert_eq!(block.decoded(9), Ok(vec![16, 0, 0, 0, 0, 0, 0, 0, 0]));
        let empty = Block { words: &[], lanes, extra: &[] };
        assert_eq!(empty.decoded(3000), Ok(vec![0; 3000]));
        assert_eq!(empty.decoded(0), Ok(vec![]));
        Block { words: &[1], ..empty }.refused(0, BEHIND);
        Block { extra: &[0, 0], ..empty }.refused(0, "0 extra bits, it has 16");
    }
}
