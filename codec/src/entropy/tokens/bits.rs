//! The extra bits of tokens as one string of bits (FORMAT.md §7): each number with its least significant bit first.

use crate::error::Result;
use crate::memory::{lengthen, resize};

/// A string of bits. Its first bit is the least significant bit of the first word.
#[derive(Debug, Default)]
pub struct BitString {
    /// Words behind the last bit may hold anything.
    words: Vec<u64>,
    /// Number of bits.
    pub(super) bits: usize,
}

impl BitString {
    /// Writes bits `from..to` to `words` from index `at` on, 16 bits a word. Bits of the last word behind bit `to - 1` are 0. Returns the index behind the last
    /// word. `words` is lengthened where it is too short. Up to 3 words behind the returned index may be overwritten.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy_to(&self, from: usize, to: usize, words: &mut Vec<u16>, at: usize) -> Result<usize> {
        let Some(last) = to.checked_sub(from + 1) else { return Ok(at) };
        let whole_words = last / 64 + 1;
        lengthen(words, at + 4 * whole_words)?;
        let shift = from % 64;
        let source = &self.words[from / 64..from / 64 + whole_words + 1];
        for (four, source) in words[at..].as_chunks_mut::<4>().0.iter_mut().zip(source.windows(2)) {
            let whole = source[0] >> shift | source[1] << 1 << (63 - shift);
            *four = [whole as u16, (whole >> 16) as u16, (whole >> 32) as u16, (whole >> 48) as u16];
        }
        let end = at + last / 16 + 1;
        words[end - 1] &= 0xffff >> (15 - last % 16);
        Ok(end)
    }

    /// The words of bits `from..to`, as [`BitString::copy_to`] writes them.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn words(&self, from: usize, to: usize) -> Result<Vec<u16>> {
        let mut words = Vec::new();
        let end = self.copy_to(from, to, &mut words, 0)?;
        words.truncate(end);
        Ok(words)
    }
}

/// Appends to a [`BitString`]. The last, partial word is in `buffer`, which can stay in a register. Each push stores the word
/// that it adds to, even if the word is not full: so no branch decides on the store. Bits that a push carries into the next word
/// stay in `buffer` until the next push, or [`BitWriter::finish`].
pub(super) struct BitWriter<'a> {
    pub(super) words: &'a mut [u64],
    /// Index of the partial word.
    pub(super) end: usize,
    /// The partial word; bits that are not written yet are 0.
    pub(super) buffer: u64,
    /// Bits in the partial word, 0 to 63.
    pub(super) count: u32,
}

impl<'a> BitWriter<'a> {
    /// A writer for at most `pushes` pushes.
    #[inline(always)]
    pub(super) fn new(string: &'a mut BitString, pushes: usize) -> Result<Self> {
        let end = string.bits / 64;
        // Each push may fill a word; [`BitString::copy_to`] reads one word behind the last.
        let needed = end + pushes + 2;
        if string.words.len() < needed {
            resize(&mut string.words, needed.next_power_of_two())?;
        }
        let count = (string.bits % 64) as u32;
        let buffer = string.words[end] & ((1 << count) - 1);
        Ok(Self { words: &mut string.words, end, buffer, count })
    }

    /// Appends the low `bits` bits of `value`; `bits` is 0 to 64, and the bits of `value` above them must be 0.
    #[inline(always)]
    pub(super) fn push(&mut self, value: u64, bits: u32) {
        let word = self.buffer | value << self.count;
        self.words[self.end] = word;
        let carried = value >> 1 >> (63 - self.count);
        let count = self.count + bits;
        self.buffer = if count < 64 { word } else { carried };
        self.end += (count / 64) as usize;
        self.count = count % 64;
    }

    /// Stores the partial word and returns the string's length in bits. The caller must store this length in [`BitString::bits`].
    #[inline(always)]
    pub(super) fn finish(self) -> usize {
        self.words[self.end] = self.buffer;
        self.end * 64 + self.count as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The words of a string, bit by bit.
    fn words_of(bits: &[bool]) -> Vec<u16> {
        bits.chunks(16).map(|word| word.iter().rev().fold(0, |word, &bit| word << 1 | u16::from(bit))).collect()
    }

    #[test]
    fn any_range_of_the_pushed_bits_can_be_copied() {
        let mut random = Random(1);
        let (mut string, mut plain) = (BitString::default(), Vec::new());
        // Lengths of 0 and 64, and writers that begin within a word.
        for _ in 0..20 {
            let mut writer = BitWriter::new(&mut string, 13).unwrap();
            for _ in 0..13 {
                let bits = [0, 1, 13, 63, 64, 52][random.below(6) as usize];
                let value = random.next().unbounded_shr(64 - bits);
                plain.extend((0..bits).map(|bit| value >> bit & 1 == 1));
                writer.push(value, bits);
            }
            let end = writer.finish();
            string.bits = end;
        }
        assert_eq!(string.bits, plain.len());
        for from in (0..plain.len()).step_by(37) {
            for to in [from, from + 1, from + 15, from + 16, from + 17, from + 64, from + 65, plain.len()] {
                let to = to.min(plain.len());
                let mut words = vec![7; 40];
                let end = string.copy_to(from, to, &mut words, 1).unwrap();
                assert_eq!(words[1..end], words_of(&plain[from..to]), "{from}..{to}");
                assert_eq!(words[0], 7);
            }
        }
    }
}
