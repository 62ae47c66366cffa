//! The exception mask: a bit for each value of a chunk. Every operation takes a few instructions for 64 values: regions of fill values may be a third of a
//! chunk, and should take less time than its values.

mod sums;

use std::iter;
use std::ops::Range;

use crate::error::Result;
use crate::memory::resize;
use crate::simd::widely_vectorized;

/// Bits of a word.
pub const WORD: usize = u64::BITS as usize;

/// A bit for each value of a chunk, in the order of the values, with scratch space.
#[derive(Debug, Clone, Default)]
pub struct Bitmap {
    /// The first value is the lowest bit of the first word. Bits behind the last value are 0.
    words: Vec<u64>,
    /// Scratch space for new words.
    scratch: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// Becomes a bitmap of `len` zeros.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn clear(&mut self, len: usize) -> Result<()> {
        self.words.clear();
        self.len = len;
        resize(&mut self.words, len.div_ceil(WORD))
    }

    /// A bitmap of `len` bits, of which those at some indices are set.
    #[cfg(test)]
    pub(crate) fn of(len: usize, indices: impl IntoIterator<Item = usize>) -> Self {
        let mut bitmap = Self::default();
        bitmap.clear(len).unwrap();
        indices.into_iter().for_each(|index| bitmap.set(index));
        bitmap
    }

    /// Sets a bit.
    pub fn set(&mut self, index: usize) {
        self.words[index / WORD] |= 1 << (index % WORD);
    }

    /// Sets those bits of a word that are set in `bits`. The lowest bit belongs to value `word * WORD`.
    pub fn set_word(&mut self, word: usize, bits: u64) {
        self.words[word] |= bits;
    }

    /// Replaces all bits of a word.
    pub(crate) fn replace_word(&mut self, word: usize, bits: u64) {
        self.words[word] = bits;
    }

    /// Sets bit `first + 2 i` for each bit `i` that is set in `bits`.
    #[inline(always)]
    pub fn set_every_other(&mut self, first: usize, bits: u64) {
        for (number, half) in [bits as u32, (bits >> 32) as u32].into_iter().enumerate() {
            let (word, shift) = ((first + number * WORD) / WORD, first % WORD);
            let bits = spread(half);
            if bits == 0 {
                continue;
            }
            self.words[word] |= bits << shift;
            let beyond = (bits >> 1) >> (WORD - 1 - shift);
            if beyond != 0 {
                self.words[word + 1] |= beyond;
            }
        }
    }

    /// The words. The first value has the lowest bit of the first word.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of bits that are set.
    #[must_use]
    pub fn count(&self) -> usize {
        widely_vectorized(
            #[inline(always)]
            || self.words.iter().map(|word| word.count_ones() as usize).sum(),
        )
    }

    /// Indices of the bits that are set, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.runs().flatten()
    }

    /// Runs, maximal ranges of neighbouring bits that are set, in ascending order.
    #[inline]
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        runs(&self.words)
    }

    /// Becomes a copy of another bitmap.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy_from(&mut self, other: &Self) -> Result<()> {
        self.clear(other.len)?;
        self.words.copy_from_slice(&other.words);
        Ok(())
    }

    /// Becomes the bitmap of the integers' lowest bits.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn read(&mut self, integers: &[i8]) -> Result<()> {
        self.clear(integers.len())?;
        widely_vectorized(
            #[inline(always)]
            || {
                for (word, group) in self.words.iter_mut().zip(integers.chunks(WORD)) {
                    *word = bits_where(group, |integer| integer & 1 == 1);
                }
            },
        );
        Ok(())
    }

    /// Writes the bits as integers: 1 for each bit that is set. `integers` has one element for each bit, all 0 before.
    pub fn write(&self, integers: &mut [i8]) {
        // Most differences of an exception mask are 0.
        for (&word, group) in self.words.iter().zip(integers.chunks_mut(WORD)) {
            ones(word).for_each(|at| group[at] = 1);
        }
    }
}

/// Runs of bits of some words, maximal ranges of neighbouring bits that are set, in ascending order.
#[inline]
pub(crate) fn runs(words: &[u64]) -> impl Iterator<Item = Range<usize>> {
    // The word at which the search is, and those of its bits that are not in a run yet.
    let (mut number, mut left) = (0, words.first().copied().unwrap_or(0));
    iter::from_fn(
        #[inline(always)]
        move || {
            while left == 0 {
                number += 1;
                left = *words.get(number)?;
            }
            let at = left.trailing_zeros() as usize;
            let start = number * WORD + at;
            // Adding the run's lowest bit carries through the run to the bit behind it.
            let (after, goes_on) = left.overflowing_add(1 << at);
            if !goes_on {
                let end = number * WORD + after.trailing_zeros() as usize;
                left &= after;
                return Some(start..end);
            }
            number += 1;
            while words.get(number) == Some(&u64::MAX) {
                number += 1;
            }
            left = words.get(number).copied().unwrap_or(0);
            let end = number * WORD + left.trailing_ones() as usize;
            left &= left.wrapping_add(1);
            Some(start..end)
        },
    )
}

/// Indices of the bits of a word that are set, the lowest first.
#[inline(always)]
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    iter::from_fn(
        #[inline(always)]
        move || {
            let at = bits.trailing_zeros() as usize;
            (bits != 0).then(|| {
                bits &= bits - 1;
                at
            })
        },
    )
}

/// A bit for each of at most 64 values, the first value's lowest: 1 where `is_so` returns true.
#[inline(always)]
pub fn bits_where<T: Copy>(values: &[T], is_so: impl Fn(T) -> bool) -> u64 {
    // Halves of 32 values: vector units gather 32 bits at once.
    const HALF: usize = WORD / 2;
    let (halves, rest) = values.as_chunks::<HALF>();
    match halves {
        [low, high, ..] => half_where(low, &is_so) | half_where(high, &is_so) << HALF,
        [low] => half_where(low, &is_so) | half_where(rest, &is_so) << HALF,
        [] => half_where(rest, &is_so),
    }
}

#[inline(always)]
fn half_where<T: Copy>(values: &[T], is_so: &impl Fn(T) -> bool) -> u64 {
    let mut bits = 0u32;
    for (at, &value) in values.iter().enumerate() {
        bits |= u32::from(is_so(value)) << at;
    }
    u64::from(bits)
}

/// Moves bit `i` to bit `2 i`.
#[inline(always)]
fn spread(bits: u32) -> u64 {
    // The upper halves move up, then the upper quarters of each half, and so on.
    let moved = |bits: u64, by: u32, kept: u64| (bits | bits << by) & kept;
    let bits = moved(u64::from(bits), 16, 0x0000_ffff_0000_ffff);
    let bits = moved(bits, 8, 0x00ff_00ff_00ff_00ff);
    let bits = moved(bits, 4, 0x0f0f_0f0f_0f0f_0f0f);
    let bits = moved(bits, 2, 0x3333_3333_3333_3333);
    moved(bits, 1, 0x5555_5555_5555_5555)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_say_where_something_is_so() {
        let values: Vec<u32> = (0..WORD as u32).map(|index| index.wrapping_mul(0x9e37_79b9) >> 24).collect();
        for len in [0, 1, 31, 32, 33, 63, 64] {
            let expected = (0..len).filter(|&at| values[at] > 100).fold(0, |bits, at| bits | 1 << at);
            assert_eq!(bits_where(&values[..len], |value| value > 100), expected, "{len} values");
        }
    }

    #[test]
    fn empty_and_full_bitmaps_have_no_run_and_one_run() {
        for len in [0, 1, 63, 64, 65, 128, 1009] {
            let zeros = Bitmap::of(len, []);
            assert_eq!((zeros.count(), zeros.runs().next()), (0, None), "{len} zeros");
            let mut bitmap = Bitmap::of(len, 0..len);
            assert_eq!(bitmap.count(), len, "{len} ones");
            assert!(bitmap.runs().eq((len > 0).then_some(0..len)), "{len} ones");
            bitmap.clear(len).unwrap();
            assert_eq!(bitmap.count(), 0, "bits are cleared");
        }
    }

    #[test]
    fn every_other_bit_is_set() {
        for (first, bits) in
            [(0, u64::MAX), (1, 0x8000_0001_8000_0001), (63, 3), (64, 0xdead_beef_0123_4567), (100, 1 << 63), (127, u64::MAX)]
        {
            let mut bitmap = Bitmap::of(first + 2 * WORD, []);
            bitmap.set_every_other(first, bits);
            let expected: Vec<usize> = (0..WORD).filter(|at| bits >> at & 1 == 1).map(|at| first + 2 * at).collect();
            assert_eq!(bitmap.indices().collect::<Vec<_>>(), expected, "{bits:#x} from {first} on");
        }
    }
}
