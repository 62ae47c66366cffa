//! FORMAT.md §8, and §11.4 for the encoder, word for word, one code at a time: canonical codes, decoding, and the lengths of a book.

use crate::entropy::alphabet::{CodeLengths, Histogram, SYMBOLS};

/// A code: its bits as a number, and how many bits they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Code {
    pub(crate) bits: u32,
    pub(crate) length: u32,
}

/// Whether lengths make a complete code of at most 12 bits.
pub(super) fn is_book(lengths: &CodeLengths) -> bool {
    let sum: u32 = lengths.iter().filter(|&&length| (1..=12).contains(&length)).map(|length| 1 << (12 - length)).sum();
    lengths.iter().all(|&length| length <= 12) && sum == 1 << 12
}

/// The code of each symbol that has one, ordered by length, then by symbol number.
pub(crate) fn codes(lengths: &CodeLengths) -> Vec<(usize, Code)> {
    let mut symbols: Vec<usize> = (0..SYMBOLS).filter(|&symbol| lengths[symbol] > 0).collect();
    symbols.sort_by_key(|&symbol| (lengths[symbol], symbol));
    let mut codes: Vec<(usize, Code)> = Vec::new();
    for symbol in symbols {
        let length = u32::from(lengths[symbol]);
        let bits = codes.last().map_or(0, |(_, before)| (before.bits + 1) << (length - before.length));
        codes.push((symbol, Code { bits, length }));
    }
    codes
}

/// Decoder: the symbol of the code that 12 bits begin with, and the length of the code.
pub(crate) fn decode(codes: &[(usize, Code)], bits: u32) -> Option<(usize, u32)> {
    let found = codes.iter().find(|(_, code)| bits >> (12 - code.length) == code.bits)?;
    Some((found.0, found.1.length))
}

/// Encoder: the lengths of a book made for a plane, by package-merge with 12 levels.
pub(super) fn optimal_lengths(histogram: &Histogram) -> CodeLengths {
    let occurs = |&symbol: &usize| histogram[symbol] > 0;
    let mut symbols: Vec<usize> = (0..SYMBOLS).filter(occurs).collect();
    let missing = 2usize.saturating_sub(symbols.len());
    symbols.extend((0..SYMBOLS).filter(|symbol| !occurs(symbol)).take(missing));
    symbols.sort_by_key(|&symbol| (histogram[symbol], symbol));
    // An item is a weight and the symbols of its leaves.
    let leaves: Vec<(u64, Vec<usize>)> = symbols.iter().map(|&symbol| (histogram[symbol], vec![symbol])).collect();
    let mut items = leaves.clone();
    for _ in 1..12 {
        let pairs = items.as_chunks().0.iter().map(|[a, b]| (a.0 + b.0, [&a.1[..], &b.1].concat()));
        let mut merged: Vec<_> = leaves.iter().cloned().chain(pairs).collect();
        // Items of equal weight keep their order: leaves first.
        merged.sort_by_key(|item| item.0);
        items = merged;
    }
    let mut lengths = [0; SYMBOLS];
    for &symbol in items[..2 * leaves.len() - 2].iter().flat_map(|item| &item.1) {
        lengths[symbol] += 1;
    }
    lengths
}
