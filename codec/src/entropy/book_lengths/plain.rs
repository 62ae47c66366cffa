//! FORMAT.md §8, "Custom book", word for word, one bit at a time: writes and reads the lengths of a book.

use crate::entropy::alphabet::{CodeLengths, SYMBOLS};

/// Encoder: the bits of a book without their padding.
pub(super) fn bits(lengths: &CodeLengths) -> Vec<bool> {
    let mut bits = Vec::new();
    let mut before = 0;
    for &length in lengths {
        let difference = (-6..=6).find(|difference| (i32::from(before) + difference - i32::from(length)) % 13 == 0).unwrap();
        bits.extend((0..difference.abs()).map(|_| true));
        if difference.abs() < 6 {
            bits.push(false);
        }
        if difference != 0 {
            bits.push(difference < 0);
        }
        before = length;
    }
    bits
}

/// Encoder: the bytes of a book.
pub(super) fn write(lengths: &CodeLengths) -> Vec<u8> {
    let mut bits = bits(lengths);
    bits.resize(bits.len().next_multiple_of(32), false);
    bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
}

/// Decoder: the lengths of the book that `bytes` begin with, and its size in bytes. `None` if they begin with none.
pub(super) fn read(bytes: &[u8]) -> Option<(CodeLengths, usize)> {
    let mut bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).enumerate();
    let (mut lengths, mut before, mut used) = ([0; SYMBOLS], 0, 0);
    let mut next = || {
        let (index, bit) = bits.next()?;
        used = index + 1;
        Some(bit)
    };
    for length in &mut lengths {
        let mut magnitude = 0;
        while magnitude < 6 && next()? {
            magnitude += 1;
        }
        let is_negative = magnitude > 0 && next()?;
        let difference: i32 = if is_negative { -magnitude } else { magnitude };
        before = (before + difference).rem_euclid(13);
        *length = before as u8;
    }
    let padded = used.next_multiple_of(32);
    let padding_is_0 = 8 * bytes.len() >= padded && (used..padded).all(|at| bytes[at / 8] >> (at % 8) & 1 == 0);
    padding_is_0.then_some((lengths, padded / 8))
}
