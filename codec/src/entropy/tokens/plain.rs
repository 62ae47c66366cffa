//! FORMAT.md §7, and §11.4 for the encoder, word for word, one token at a time: makes tokens and expands them.

use crate::entropy::alphabet::{Meaning, SYMBOLS, Symbol};

/// A token: its symbol and the value of its extra bits.
pub(crate) type Token = (usize, u64);

/// Starts and extra bits of the runs of zeros, symbols 0 to 14.
const RUN_STARTS: [u64; 15] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024, 2048];
const RUN_EXTRA_BITS: [usize; 15] = [0, 0, 1, 1, 2, 2, 3, 3, 5, 6, 7, 8, 9, 10, 0];

/// A symbol, by the table of §7.
pub(crate) fn symbol(number: usize) -> Symbol {
    let run = |first: i8, number: usize| (Meaning::Run, first, RUN_STARTS[number], RUN_EXTRA_BITS[number]);
    let class = |start: u64, extra_bits: usize| (Meaning::Class, 0, start, extra_bits);
    let (meaning, first, start, extra_bits) = match number {
        0..15 => run(0, number),
        15..46 => (Meaning::Direct, 0, (number as i64 - 30).cast_unsigned(), 0),
        46..58 => {
            let (o, h) = ((number - 46) / 2 + 4, (number - 46) as u64 % 2);
            class((1 << o) + h * (1 << (o - 1)), o)
        }
        58..64 => class(1 << (number - 48), number - 47),
        64..75 => class(1 << (16 + 4 * (number - 64)), 21 + 4 * (number - 64)),
        75 => class(1 << 60, 64),
        76..91 => run(-1, number - 76),
        _ => run(1, number - 91),
    };
    Symbol { meaning, first, start, extra_bits: extra_bits as u8 }
}

/// The symbol with the greatest start up to `size`, among those of a meaning, and what is left of `size`.
fn symbol_up_to(meaning: Meaning, first: i64, size: u64) -> Token {
    let start = |&number: &usize| symbol(number).start;
    let fits =
        |number: &usize| symbol(*number).meaning == meaning && i64::from(symbol(*number).first) == first && start(number) <= size;
    let number = (0..SYMBOLS).filter(fits).max_by_key(start).unwrap();
    (number, size - start(&number))
}

/// Encoder: the tokens of a plane, segment by segment.
pub(crate) fn tokenize(differences: &[i64]) -> Vec<Token> {
    differences.chunks(2048).flat_map(tokenize_segment).collect()
}

/// Encoder: the tokens of a segment.
pub(super) fn tokenize_segment(segment: &[i64]) -> Vec<Token> {
    let zeros = segment.iter().filter(|&&difference| difference == 0).count();
    let stretches = (0..segment.len()).filter(|&at| segment[at] == 0 && (at == 0 || segment[at - 1] != 0)).count();
    let has_runs = 2 * zeros >= 3 * stretches;
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < segment.len() {
        let difference = segment[at];
        let zeros_behind = segment[at + 1..].iter().take_while(|&&difference| difference == 0).count();
        if has_runs && difference.unsigned_abs() <= 1 && zeros_behind > 0 {
            tokens.push(symbol_up_to(Meaning::Run, difference, zeros_behind as u64 + 1));
            at += 1 + zeros_behind;
            continue;
        }
        tokens.push(if difference.unsigned_abs() <= 15 {
            ((30 + difference) as usize, 0)
        } else {
            let (number, distance) = symbol_up_to(Meaning::Class, 0, difference.unsigned_abs());
            (number, distance << 1 | u64::from(difference < 0))
        });
        at += 1;
    }
    tokens
}

/// Decoder: the differences that tokens encode.
pub(crate) fn expand(tokens: &[Token]) -> Vec<i64> {
    let mut differences = Vec::new();
    for &(number, extra) in tokens {
        let Symbol { meaning, first, start, .. } = symbol(number);
        match meaning {
            Meaning::Run => {
                differences.push(first.into());
                differences.resize(differences.len() + (start + extra) as usize - 1, 0);
            }
            Meaning::Direct => differences.push(number as i64 - 30),
            Meaning::Class => {
                let magnitude = start.wrapping_add(extra / 2).cast_signed();
                differences.push(if extra % 2 == 1 { magnitude.wrapping_neg() } else { magnitude });
            }
        }
    }
    differences
}

/// The extra bits of tokens, one after the other.
pub(crate) fn extra_bits(tokens: &[Token]) -> Vec<bool> {
    tokens.iter().flat_map(|&(number, extra)| (0..symbol(number).extra_bits).map(move |bit| extra >> bit & 1 == 1)).collect()
}

/// The extra words of tokens: their extra bits, filled up with 0.
pub(crate) fn extra_words(tokens: &[Token]) -> Vec<u16> {
    extra_bits(tokens).chunks(16).map(|word| word.iter().rev().fold(0, |word, &bit| word << 1 | u16::from(bit))).collect()
}
