//! FORMAT.md §9.1, word for word, one code at a time: writes blocks of tokens in lanes, and reads them.

use crate::entropy::alphabet::CodeLengths;
use crate::entropy::codebook::plain as book;
use crate::entropy::tokens::plain::{self as tokens, Token};

/// The lane words of a block's symbols, in `lanes` lanes.
pub(crate) fn words(symbols: &[usize], lengths: &CodeLengths, lanes: usize) -> Vec<u16> {
    let codes = book::codes(lengths);
    let mut strings = vec![Vec::new(); lanes];
    // Lane and number of each word, in the order in which the decoder asks for them.
    let mut order: Vec<(usize, usize)> = (0..2).flat_map(|number| (0..lanes).map(move |lane| (lane, number))).collect();
    for round in symbols.chunks(lanes) {
        for (lane, &symbol) in round.iter().enumerate() {
            let code = codes.iter().find(|&&(coded, _)| coded == symbol).unwrap().1;
            let filled = strings[lane].len() / 16;
            strings[lane].extend((0..code.length).rev().map(|bit| code.bits >> bit & 1 == 1));
            if strings[lane].len() / 16 > filled {
                order.push((lane, filled + 2));
            }
        }
    }
    let bit = |lane: usize, at: usize| u16::from(strings[lane].get(at) == Some(&true));
    let word = |(lane, number)| (0..16).fold(0, |word, at| word << 1 | bit(lane, 16 * number + at));
    let mut words: Vec<u16> = order.into_iter().map(word).collect();
    while words.last() == Some(&0) {
        words.pop();
    }
    words
}

/// The differences of a block of `len` integers, or `None` if a reader must refuse the block.
pub(crate) fn decode(words: &[u16], extra_words: &[u16], lengths: &CodeLengths, lanes: usize, len: usize) -> Option<Vec<i64>> {
    let codes = book::codes(lengths);
    let mut next = 0;
    let mut next_word = || {
        next += 1;
        u32::from(*words.get(next - 1).unwrap_or(&0))
    };
    let mut buffers = vec![0; lanes];
    buffers.iter_mut().for_each(|buffer| *buffer = next_word() << 16);
    buffers.iter_mut().for_each(|buffer| *buffer |= next_word());
    let mut available = vec![32; lanes];
    let mut extra = extra_words.iter().flat_map(|word| (0..16).map(move |bit| u64::from(word >> bit & 1)));
    let mut found: Vec<Token> = Vec::new();
    let mut encoded = 0;
    'rounds: while encoded < len {
        for lane in 0..lanes {
            let (symbol, length) = book::decode(&codes, buffers[lane] >> 20)?;
            buffers[lane] <<= length;
            available[lane] -= length;
            let mut bits = 0;
            for bit in 0..tokens::symbol(symbol).extra_bits {
                bits |= extra.next()? << bit;
            }
            found.push((symbol, bits));
            encoded += tokens::expand(&[(symbol, bits)]).len();
            if encoded >= len {
                break 'rounds;
            }
        }
        for lane in 0..lanes {
            if available[lane] <= 16 {
                buffers[lane] |= next_word() << (16 - available[lane]);
                available[lane] += 16;
            }
        }
    }
    let ends_well = encoded == len
        && buffers.iter().all(|&buffer| buffer == 0)
        && next >= words.len()
        && words.last() != Some(&0)
        && tokens::extra_words(&found) == extra_words;
    ends_well.then(|| tokens::expand(&found))
}
