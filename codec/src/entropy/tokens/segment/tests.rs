use super::super::plain::{self, Token};
use super::super::tests::list;
use super::*;
use crate::entropy::alphabet::Meaning;
use crate::random::Random;
use crate::simd::bytes;

/// Makes tokens of segments. Keeps its buffers, which must not matter to the next segment.
#[derive(Default)]
struct Tokenizer {
    scratch: Scratch,
    extra: BitString,
}

impl Tokenizer {
    fn tokens<C: Integer>(&mut self, ops: impl SegmentOps, segment: &[C]) -> Vec<Token> {
        self.extra.bits = 0;
        let mut symbols = vec![0xee; segment.len() + SLACK];
        let count = tokenize_segment(ops, segment, &mut symbols, &mut self.extra, &mut self.scratch).unwrap();
        list(&symbols[..count], &self.extra)
    }

    /// Compares the tokens with the plain ones.
    fn check<C: Integer>(&mut self, segment: &[i64]) {
        let integers: Vec<C> = segment.iter().map(|&difference| C::from_i64(difference)).collect();
        let differences: Vec<i64> = integers.iter().map(|difference| difference.to_i64()).collect();
        let expected = plain::tokenize_segment(&differences);
        let found = self.tokens(bytes::Portable, &integers);
        assert!(found == expected, "entropy/tokens: {differences:?}: {found:?}, not {expected:?}");
        #[cfg(target_arch = "x86_64")]
        if let Some(v3) = pulp::x86::V3::try_new() {
            assert!(self.tokens(bytes::Avx2(v3), &integers) == expected, "entropy/tokens: {differences:?} with AVX2");
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(v4) = pulp::x86::V4::try_new() {
            assert!(self.tokens(bytes::Avx512(v4), &integers) == expected, "entropy/tokens: {differences:?} with AVX-512");
        }
    }
}

#[test]
fn segments_of_any_content_have_the_plain_tokens() {
    let mut tokenizer = Tokenizer::default();
    let mut random = Random(1);
    let mut below = |limit| random.below(limit).cast_signed();
    // Of 64 values, how many are zeros, how many are 1 or -1, and how many have a class. Each way to write tokens gets some of
    // these segments.
    for [zeros, ones, classes] in
        [[0, 0, 0], [1, 1, 0], [60, 1, 1], [30, 5, 0], [30, 8, 4], [20, 8, 14], [20, 2, 30], [0, 0, 64], [62, 2, 0], [64, 0, 0]]
    {
        for len in [1, 2, 15, 63, 64, 65, 100, 127, 128, 129, 1000, 2047, 2048] {
            for most in [20, 4097, 60_000, 1 << 17, 1 << 40] {
                let mut difference = || {
                    let kind = below(64);
                    match [zeros, zeros + ones, zeros + ones + classes].iter().position(|&end| kind < end) {
                        Some(0) => 0,
                        Some(1) => 2 * below(2) - 1,
                        Some(_) => (16 + below(most)) * (2 * below(2) - 1),
                        None => below(31) - 15,
                    }
                };
                let segment: Vec<i64> = (0..len).map(|_| difference()).collect();
                tokenizer.check::<i64>(&segment);
                tokenizer.check::<i32>(&segment);
                tokenizer.check::<i16>(&segment);
            }
        }
    }
}

#[test]
fn tokens_of_each_kind_end_where_the_next_begin() {
    let mut tokenizer = Tokenizer::default();
    // The least and the greatest magnitude of each class, the ends of direct codes and of the table, and the greatest of all.
    let mut magnitudes: Vec<u64> = vec![0, 1, 15, 4095, 4096, 1 << 31, 1 << 63];
    magnitudes.extend(ALPHABET[46..76].iter().flat_map(|class| [class.start - 1, class.start, class.start + 1]));
    // Alone, in a segment of direct codes, among classes, and among runs.
    let surroundings: [&[i64]; 4] = [&[], &[3; 100], &[-70_000, 17, 5000], &[0, 0, 0, 1, 0, 20]];
    for magnitude in magnitudes {
        for difference in [magnitude.cast_signed(), magnitude.cast_signed().wrapping_neg()] {
            for around in surroundings {
                let segment = [around, &[difference], around].concat();
                tokenizer.check::<i64>(&segment);
                tokenizer.check::<i32>(&segment);
                tokenizer.check::<i16>(&segment);
                tokenizer.check::<i8>(&segment);
            }
        }
    }
}

#[test]
fn runs_of_each_length_end_where_the_next_begin() {
    let mut tokenizer = Tokenizer::default();
    let mut lengths: Vec<usize> =
        ALPHABET[..15].iter().flat_map(|run| [run.start - 1, run.start, run.start + 1]).map(|len| len as usize).collect();
    lengths.extend([62, 63, 65, 127, 129, 191, 1983, 1984, 2047]);
    for len in lengths.into_iter().filter(|&len| len <= SEGMENT) {
        for first in [0, 1, -1] {
            // From the segment's start, across groups of 64 values, and up to the segment's end.
            for before in [0, 1, 62, 63, 64, 100, SEGMENT - len].into_iter().filter(|before| before + len <= SEGMENT) {
                for (filler, after) in [(2, SEGMENT - len - before), (500, 40.min(SEGMENT - len - before)), (2, 0)] {
                    let mut segment = vec![filler; before];
                    segment.push(first);
                    segment.resize(before + len, 0);
                    segment.resize(before + len + after, filler);
                    tokenizer.check::<i32>(&segment);
                }
            }
        }
    }
}

#[test]
fn zeros_make_runs_from_three_in_two_stretches_on() {
    let mut tokenizer = Tokenizer::default();
    // Stretches of one zero and of two zeros. There are runs if at least half of the stretches have two.
    for (singles, pairs, has_runs) in
        [(0, 1, true), (1, 1, true), (2, 1, false), (1, 0, false), (7, 7, true), (8, 7, false), (200, 200, true)]
    {
        for one in [-1, 1, 5, 300] {
            let segment = [[one, 0, one].repeat(singles), [one, 0, 0].repeat(pairs)].concat();
            tokenizer.check::<i64>(&segment);
            let tokens = tokenizer.tokens(bytes::Portable, &segment);
            let runs = tokens.iter().filter(|&&(symbol, _)| ALPHABET[symbol].meaning == Meaning::Run).count();
            assert_eq!(runs > 0, has_runs, "{singles} zeros, {pairs} pairs, {one} before them");
        }
    }
}
