use super::super::encode::Encoder;
use super::*;
use crate::entropy::alphabet::{ALPHABET, CodeLengths, SYMBOLS};
use crate::entropy::codebook::{ENTRIES, canonical_codes, fill_decode_table};

/// Codes: `0` the difference 0, `10` a run of 4 or 5 zeros, `110` the class of magnitudes 16 to 23, `1110` a difference of 1, `1111` the last class.
const BOOK: CodeLengths = {
    let mut lengths = [0; SYMBOLS];
    (lengths[30], lengths[2], lengths[46], lengths[31], lengths[75]) = (1, 2, 3, 4, 4);
    lengths
};

/// Lane words and extra bytes of a block of these tokens, symbols and their extra bits.
fn block(tokens: &[(u8, u64)]) -> (Vec<u16>, Vec<u8>) {
    let symbols: Vec<u8> = tokens.iter().map(|&(symbol, _)| symbol).collect();
    let words = Encoder::default().encode(&symbols, &canonical_codes(&BOOK)).unwrap().to_vec();
    let bits =
        tokens.iter().flat_map(|&(symbol, extra)| (0..ALPHABET[usize::from(symbol)].extra_bits).map(move |bit| extra >> bit & 1));
    let bits: Vec<u64> = bits.collect();
    let word = |bits: &[u64]| bits.iter().rev().fold(0, |word, &bit| word << 1 | bit as u16).to_le_bytes();
    (words, bits.chunks(16).flat_map(word).collect())
}

/// Decodes a block of `len` values with both decoders, which must agree.
fn decoded(words: &[u16], extra: &[u8], len: usize) -> Result<Vec<i64>> {
    let (words, extra) = ([words, &[0; LANE_PADDING]].concat(), [extra, &[0; EXTRA_PADDING]].concat());
    let mut table = [0; 4096];
    fill_decode_table(&BOOK, &ENTRIES, &mut table).unwrap();
    let (mut found, mut portable) = (vec![7; len], vec![8; len]);
    let outcome = decode(&words, &extra, &table, &mut found, &mut |_, _| unreachable!("all fit"));
    let again = decode_block(round::Portable, &words, &extra, &table, &mut portable, &mut |_, _| unreachable!("all fit"));
    assert_eq!(outcome, again);
    outcome?;
    assert_eq!(found, portable);
    Ok(found)
}

fn refused(words: &[u16], extra: &[u8], len: usize, why: &str) {
    let error = decoded(words, extra, len).unwrap_err().to_string();
    assert!(error.contains(why), "{error}, not {why}");
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

#[test]
fn a_block_takes_exactly_its_words_and_extra_bits() {
    let (tokens, values) = example();
    let (words, extra) = block(&tokens);
    let len = values.len();
    assert_eq!(decoded(&words, &extra, len), Ok(values));
    let behind = "behind its last token are bits";
    for word in [0, 1, 0x8000] {
        refused(&[&words[..], &[word]].concat(), &extra, len, behind);
        refused(&[&words[..], &[0; 100], &[word]].concat(), &extra, len, behind);
    }
    refused(&words, &extra[..extra.len() - 2], len, "extra bits, it has");
    refused(&words, &[&extra[..], &[0, 0]].concat(), len, "extra bits, it has");
    let mut filled = extra.clone();
    let used = tokens.iter().map(|&(symbol, _)| usize::from(ALPHABET[usize::from(symbol)].extra_bits)).sum::<usize>();
    assert!(used % 16 != 0, "{used} bits leave some of the last word");
    for bit in used..8 * extra.len() {
        filled[bit / 8] ^= 1 << (bit % 8);
        refused(&words, &filled, len, behind);
        filled[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn each_bit_of_the_words_counts() {
    let (tokens, values) = example();
    let (mut words, extra) = block(&tokens);
    for bit in 0..16 * words.len() {
        words[bit / 16] ^= 1 << (bit % 16);
        assert_ne!(decoded(&words, &extra, values.len()), Ok(values.clone()), "bit {bit}");
        words[bit / 16] ^= 1 << (bit % 16);
    }
    for len in 0..words.len() {
        assert_ne!(decoded(&words[..len], &extra, values.len()), Ok(values.clone()), "{len} words");
    }
}

#[test]
fn bits_behind_the_tokens_of_each_lane_are_zeros() {
    // Each lane has one token of four bits, or none.
    for count in [1, 2, 31, 32] {
        let (mut words, extra) = block(&vec![(31, 0); count]);
        assert_eq!(decoded(&words, &extra, count), Ok(vec![1; count]));
        words.resize(64, 0);
        for lane in 0..64 {
            for bit in 0..if lane < count { 12 } else { 16 } {
                words[lane] ^= 1 << bit;
                let end = words.iter().rposition(|&word| word != 0).unwrap() + 1;
                refused(&words[..end], &extra, count, "behind its last token are bits");
                words[lane] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn blocks_of_other_lengths_are_refused() {
    let (tokens, values) = example();
    let (words, extra) = block(&tokens);
    // Shorter blocks leave bits or words behind their last token. A block that is up to three values shorter need not: the codes of
    // the last three values are a bit of 0 each.
    for len in 0..values.len() - 3 {
        assert!(decoded(&words, &extra, len).is_err(), "{len} values");
    }
    let (words, extra) = block(&[(46, 0), (2, 1)]);
    assert_eq!(decoded(&words, &extra, 6), Ok(vec![16, 0, 0, 0, 0, 0]));
    refused(&words, &extra, 5, "a run ends 1 values behind the block");
    refused(&words, &extra, 2, "a run ends 4 values behind the block");
    refused(&words, &extra, 1, "behind its last token are bits");
    // Words that are missing are zeros, and so are all codes behind the last word.
    assert_eq!(decoded(&words, &extra, 9), Ok(vec![16, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(decoded(&[], &[], 3000), Ok(vec![0; 3000]));
    assert_eq!(decoded(&[], &[], 0), Ok(vec![]));
    refused(&[1], &[], 0, "behind its last token are bits");
    refused(&[], &[0, 0], 0, "0 extra bits, it has 16");
}
