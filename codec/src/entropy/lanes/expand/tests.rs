use std::fmt::Debug;
use std::ops::Range;

use super::super::round::Portable;
use super::*;
use crate::entropy::codebook::{ENTRIES, NON_LITERAL_ENTRY, PATCHED16_ENTRIES, SymbolEntries};
use crate::entropy::tokens::plain::{self, Token};
use crate::random::Random;

/// The extra bits of tokens, and their padding.
fn extra_bytes(tokens: &[Token]) -> (usize, Vec<u8>) {
    let mut bytes: Vec<u8> = plain::extra_words(tokens).into_iter().flat_map(u16::to_le_bytes).collect();
    bytes.resize(bytes.len() + EXTRA_PADDING, 0);
    (plain::extra_bits(tokens).len(), bytes)
}

/// The tokens of a round as a decoder finds them. Lanes without a token have a `filler`, which must leave no trace.
fn round(tokens: &[Token], entries: &SymbolEntries, filler: usize) -> RoundTokens {
    let entries = std::array::from_fn(|lane| entries[tokens.get(lane).map_or(filler, |token| token.0)] | 1);
    let has = |bit| entries.iter().any(|entry| entry & bit != 0);
    RoundTokens {
        entries,
        has_run: has(RUN_ENTRY),
        has_wide: has(WIDE_ENTRY),
        non_literals: entries
            .iter()
            .enumerate()
            .fold(0, |set, (lane, entry)| set | u32::from(entry & NON_LITERAL_ENTRY != 0) << lane),
        taken: 0,
    }
}

/// Expands the tokens of a block, round after round, and compares values, patches, and what is read, with the plain ones.
fn check<C: Integer + Debug>(ops: impl VectorOps, tokens: &[Token], filler: usize, is_zero_filled: bool) {
    let entries = if C::PLACEHOLDER.is_some() { &PATCHED16_ENTRIES } else { &ENTRIES };
    let (mut expected, mut expected_patches) = (Vec::new(), Vec::new());
    for (index, difference) in plain::expand(tokens).into_iter().enumerate() {
        let value = C::from_i64(difference);
        let is_patched = |placeholder| value == placeholder || value.to_i64() != difference;
        if let Some(placeholder) = C::PLACEHOLDER.filter(|&placeholder| is_patched(placeholder)) {
            expected_patches.push((index, difference));
            expected.push(placeholder);
        } else {
            expected.push(value);
        }
    }
    let (bits, extra) = extra_bytes(tokens);
    let mut values = vec![C::from_i64(if is_zero_filled { 0 } else { 7 }); expected.len()];
    let mut patches = Vec::new();
    let keep_patch = &mut |index, difference| patches.push((index, difference));
    let mut writer = BlockWriter { values: &mut values, is_zero_filled, written: 0, extra: &extra, extra_at: 0, keep_patch };
    for tokens in tokens.chunks(LANES) {
        assert_eq!(writer.expand(&round(tokens, entries, filler), ops), tokens.len(), "tokens of a round");
    }
    assert_eq!((writer.written, writer.extra_at), (expected.len(), bits), "values and extra bits");
    assert!(values == expected, "entropy/lanes/expand: {tokens:?}");
    assert_eq!(patches, expected_patches);
}

fn check_all(tokens: &[Token], filler: usize) {
    for is_zero_filled in [false, true] {
        check::<i64>(Portable, tokens, filler, is_zero_filled);
        check::<i32>(Portable, tokens, filler, is_zero_filled);
        check::<i16>(Portable, tokens, filler, is_zero_filled);
        #[cfg(target_arch = "x86_64")]
        if let Some(v3) = pulp::x86::V3::try_new() {
            let ops = super::super::round::Avx2(v3);
            check::<i64>(ops, tokens, filler, is_zero_filled);
            check::<i32>(ops, tokens, filler, is_zero_filled);
            check::<i16>(ops, tokens, filler, is_zero_filled);
        }
    }
}

/// A token with one of a range of symbols. Every fourth has the greatest extra bits.
fn token(random: &mut Random, symbols: Range<usize>) -> Token {
    let symbol = symbols.start + random.below(symbols.len() as u64) as usize;
    let most = u64::MAX.checked_shr(64 - u32::from(ALPHABET[symbol].extra_bits)).unwrap_or(0);
    (symbol, if random.below(4) == 0 { most } else { most & (random.below(1 << 32) << 32 | random.below(1 << 32)) })
}

#[test]
fn rounds_of_every_mixture_have_the_plain_values() {
    let mut random = Random(1);
    // Of 32 tokens, how many are runs, classes, and classes that are wide for some or all types of integers, on average. Some
    // mixtures are near the limits between the paths of `expand`.
    for [runs, classes, wide] in [
        [0, 0, 0],
        [0, 3, 0],
        [0, 6, 0],
        [0, 12, 0],
        [0, 32, 0],
        [0, 0, 1],
        [0, 16, 16],
        [1, 0, 0],
        [1, 1, 0],
        [1, 8, 0],
        [2, 1, 0],
        [2, 2, 0],
        [2, 8, 0],
        [6, 0, 0],
        [12, 0, 0],
        [16, 0, 0],
        [32, 0, 0],
        [24, 8, 0],
        [10, 10, 1],
    ] {
        // Runs of two zeros, short runs of any first value, and runs of up to 2048 values.
        for longest in [1, 4, 15] {
            for count in [1, 2, 31, 32, 33, 63, 64, 65, 200] {
                for filler in [30, 13, 60, 70] {
                    let tokens: Vec<Token> = (0..count)
                        .map(|_| {
                            let kind = random.below(32);
                            let symbols = match [runs, runs + classes, runs + classes + wide].iter().position(|&end| kind < end) {
                                Some(0) => {
                                    let first = [0, 76, 91][random.below(3) as usize];
                                    first..first + longest
                                }
                                Some(1) => 46..62,
                                Some(_) => 62..76,
                                None => 15..46,
                            };
                            token(&mut random, symbols)
                        })
                        .collect();
                    check_all(&tokens, filler);
                }
            }
        }
    }
}

#[test]
fn runs_may_end_with_the_block_and_not_behind_it() {
    for filler in [30, 13, 60, 70] {
        for before in [0, 1, 5, 30, 31, 32, 40, 64, 200] {
            for (symbol, extra) in [(0, 0), (14, 0), (8, 31), (105, 0), (86, 3)] {
                let tokens: Vec<Token> = [&vec![(31, 0); before][..], &[(symbol, extra)]].concat();
                check_all(&tokens, filler);
                // In a block that is one value shorter, the run reaches over the end.
                let (bits, extra) = extra_bytes(&tokens);
                let len = plain::expand(&tokens).len();
                let mut values = vec![7i32; len - 1];
                let keep_patch = &mut |_, _| unreachable!("all fit");
                let mut writer = BlockWriter {
                    values: &mut values,
                    is_zero_filled: false,
                    written: 0,
                    extra: &extra,
                    extra_at: 0,
                    keep_patch,
                };
                for tokens in tokens.chunks(LANES) {
                    assert_eq!(writer.expand(&round(tokens, &ENTRIES, filler), Portable), tokens.len());
                }
                assert_eq!((writer.written, writer.extra_at), (len, bits), "{before} values before symbol {symbol}");
                assert_eq!(values, plain::expand(&tokens)[..len - 1].iter().map(|&value| value as i32).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_difference_that_equals_the_placeholder_is_a_patch() {
    // -32768 fits 16 bits, but it is the placeholder.
    let ends = [(63, 1), (63, 0), (62, (1 << 15) - 1), (62, (1 << 15) - 2), (63, 3)];
    assert_eq!(plain::expand(&ends), [-32_768, 32_768, -32_767, 32_767, -32_769]);
    for before in [0, 31, 40] {
        check_all(&[&vec![(31, 0); before][..], &ends].concat(), 30);
    }
}
