//! The exception mask: a bit for each value of a chunk. Every operation takes a few instructions for 64 values: regions of fill values may be a third of a
//! chunk, and should take less time than its values.

use std::iter;
use std::ops::Range;

use crate::error::Result;
#[cfg(target_arch = "x86_64")]
use crate::fast_paths::{Path, is_open};
use crate::layout::Axes;
use crate::layout::Shape;
use crate::memory::resize;
use crate::simd::bytes::{self, Masks};
use crate::simd::vectorized;

/// Least length of a row, in bits, whose prefix sums are made row by row, up to the length of a word. Sums of shorter and longer rows are made word by word.
const SHORTEST_SINGLE_ROW: usize = 16;
/// Bits of a word.
pub const WORD: usize = u64::BITS as usize;

/// A bit for each value of a chunk, in the order of the values, with scratch space.
#[derive(Debug, Clone, Default)]
pub struct Bitmap {
    /// The first value is the lowest bit of the first word. Bits behind the last value are 0.
    words: Vec<u64>,
    /// Scratch space for new words.
    others: Vec<u64>,
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

    /// Sets a bit.
    pub fn set(&mut self, index: usize) {
        self.words[index / WORD] |= 1 << (index % WORD);
    }

    /// Sets those bits of a word that are set in `bits`. The lowest bit belongs to value `word * WORD`.
    pub fn set_word(&mut self, word: usize, bits: u64) {
        self.words[word] |= bits;
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

    /// Number of runs: maximal ranges of neighbouring bits that are set.
    #[must_use]
    pub fn run_count(&self) -> usize {
        let mut before = 0;
        let first_ones = self.words.iter().map(|&word| {
            let first_ones = word & !(word << 1 | before);
            before = word >> (WORD - 1);
            first_ones.count_ones() as usize
        });
        first_ones.sum()
    }

    /// Number of bits that are set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Indices of the bits that are set, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.runs().flatten()
    }

    /// Runs, maximal ranges of neighbouring bits that are set, in ascending order.
    #[inline]
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let words = &self.words[..];
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

    /// Becomes a copy of another bitmap.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy_from(&mut self, other: &Self) -> Result<()> {
        self.clear(other.len)?;
        self.words.copy_from_slice(&other.words);
        Ok(())
    }

    /// Becomes the lowest bits of integers.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn read(&mut self, integers: &[i8]) -> Result<()> {
        self.clear(integers.len())?;
        #[cfg(target_arch = "x86_64")]
        if let Some(v3) = pulp::x86::V3::try_new().filter(|_| is_open(Path::BitmapsAvx2)) {
            vectorized(
                #[inline(always)]
                || self.read_groups(bytes::Avx2(v3), integers),
            );
            return Ok(());
        }
        self.read_groups(bytes::Portable, integers);
        Ok(())
    }

    #[inline(always)]
    fn read_groups(&mut self, masks: impl Masks, integers: &[i8]) {
        let (groups, rest) = integers.as_chunks::<WORD>();
        for (word, group) in self.words.iter_mut().zip(groups) {
            *word = masks.lowest_bits(&group.map(i8::cast_unsigned));
        }
        for (at, &integer) in rest.iter().enumerate() {
            self.words[groups.len()] |= u64::from(integer.cast_unsigned() & 1) << at;
        }
    }

    /// Writes the bits as integers: 1 for each bit that is set. `integers` has one element for each bit, all 0 before.
    pub fn write(&self, integers: &mut [i8]) {
        // Most differences of an exception mask are 0.
        for (&word, group) in self.words.iter().zip(integers.chunks_mut(WORD)) {
            ones(word).for_each(|at| group[at] = 1);
        }
    }

    /// Becomes its own differences modulo 2 along axes: see [`crate::predict::lorenzo`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn predict(&mut self, shape: &Shape, axes: Axes) -> Result<()> {
        for (stride, extent) in axes_of(shape, axes) {
            self.flip_by_previous(stride * extent, stride)?;
        }
        Ok(())
    }

    /// Inverse of [`Bitmap::predict`]: along each axis, a bit becomes the sum modulo 2 of all bits up to it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn restore(&mut self, shape: &Shape, axes: Axes) -> Result<()> {
        let [row, rows, ..] = shape.extents();
        let goes_row_by_row = (SHORTEST_SINGLE_ROW..=WORD).contains(&row);
        if goes_row_by_row {
            self.sum_row_by_row(row, rows, axes);
        }
        for (stride, extent) in axes_of(shape, axes) {
            // The rows' sums include those along the two fastest axes.
            if goes_row_by_row && stride < row * rows {
                continue;
            }
            if stride == 1 {
                self.sum_rows(extent);
                continue;
            }
            if stride >= WORD {
                self.sum_wide_strides(stride * extent, stride);
                continue;
            }
            // Sums of 2, 4, 8 ... along the axis.
            let mut reach = 1;
            while reach < extent {
                self.flip_by_previous(stride * extent, stride * reach)?;
                reach *= 2;
            }
        }
        Ok(())
    }

    /// Flips each bit for which the bit `distance` before it is 1 and in the same block. Blocks have `block` bits.
    fn flip_by_previous(&mut self, block: usize, distance: usize) -> Result<()> {
        let Self { words, others, len } = self;
        resize(others, words.len())?;
        let (skipped, shift) = (distance / WORD, (distance % WORD) as u32);
        let skipped = skipped.min(words.len());
        others[..skipped].copy_from_slice(&words[..skipped]);
        vectorized(
            #[inline(always)]
            || {
                let mut carried = 0;
                for ((other, &word), &source) in others[skipped..].iter_mut().zip(&words[skipped..]).zip(&words[..]) {
                    *other = word ^ (source << shift | carried);
                    carried = source.unbounded_shr(WORD as u32 - shift);
                }
            },
        );
        // The first bits of a block have no bit of their block at that distance: they stay.
        if distance == 1 {
            let mut start = 0;
            for (number, (other, &word)) in others.iter_mut().zip(&*words).enumerate() {
                let mut starts = 0;
                while start / WORD == number {
                    starts |= 1 << (start % WORD);
                    start += block;
                }
                *other = *other & !starts | word & starts;
            }
        } else {
            for start in (0..*len).step_by(block) {
                copy_bits(words, others, start..(start + distance.min(block)).min(*len));
            }
        }
        std::mem::swap(words, others);
        self.trim();
        Ok(())
    }

    /// Prefix sums modulo 2 along an axis whose neighbours are `distance` bits from each other, a word or more. Blocks have `block` bits.
    fn sum_wide_strides(&mut self, block: usize, distance: usize) {
        let Self { words, len, .. } = self;
        for start in (0..*len).step_by(block) {
            // The bits before a word are sums already.
            for_each_part(start + distance..(*len).min(start + block), |word, bits| {
                let before = match (word * WORD).checked_sub(distance) {
                    Some(from) if from % WORD == 0 => words[from / WORD],
                    Some(from) => words[from / WORD] >> (from % WORD) | words[from / WORD + 1] << (WORD - from % WORD),
                    // The first word of the first block in which bits have neighbours: it begins with bits that have none.
                    None => words[0] << (distance - word * WORD),
                };
                words[word] ^= before & bits;
            });
        }
    }

    /// Sets the bits behind the last value to 0.
    fn trim(&mut self) {
        if let Some(last) = self.words.last_mut() {
            *last &= u64::MAX >> (self.len.wrapping_neg() % WORD);
        }
    }

    /// Prefix sums modulo 2 along rows of at most a word, and over the rows of each slice, as far as these two axes are in `axes`. Takes one row after the
    /// other.
    fn sum_row_by_row(&mut self, row: usize, rows: usize, axes: Axes) {
        let (along_rows, over_rows) = (axes.contains(0), axes.contains(1));
        if !along_rows && !over_rows {
            return;
        }
        let words = &mut self.words[..];
        let of_row = u64::MAX >> (WORD - row);
        // A row begins at bit `shift` of `word`. The sums that the word has before this bit are in `summed` until the word is full.
        let (mut word, mut shift, mut summed) = (0, 0, 0);
        for _ in 0..self.len / (row * rows) {
            let mut above = 0;
            for _ in 0..rows {
                let mut bits = words[word] >> shift;
                if shift + row > WORD {
                    bits |= words[word + 1] << (WORD - shift);
                }
                if along_rows {
                    bits = sum_word(bits);
                }
                bits = bits & of_row ^ above;
                if over_rows {
                    above = bits;
                }
                summed |= bits << shift;
                shift += row;
                if shift >= WORD {
                    words[word] = summed;
                    (word, shift) = (word + 1, shift - WORD);
                    summed = bits.unbounded_shr((row - shift) as u32);
                }
            }
        }
        if shift > 0 {
            words[word] = summed;
        }
    }

    /// Prefix sums modulo 2 along rows of `row` bits.
    fn sum_rows(&mut self, row: usize) {
        let mut carried = 0;
        for word in &mut self.words {
            *word = sum_word(*word) ^ carried;
            carried = (word.cast_signed() >> (WORD - 1)).cast_unsigned();
        }
        // These are sums from the chunk's start. The sum before each row is subtracted again, from the last row on.
        for start in (row..self.len).step_by(row).rev() {
            let before = start - 1;
            if self.words[before / WORD] >> (before % WORD) & 1 == 1 {
                for_each_part(start..start + row, |word, bits| self.words[word] ^= bits);
            }
        }
        self.trim();
    }
}

/// Prefix sums modulo 2 of a word's bits.
#[inline(always)]
fn sum_word(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(bits, |bits, shift| bits ^ bits << shift)
}

/// Stride and extent of each axis of a shape that is in `axes` and longer than 1, the fastest first.
fn axes_of(shape: &Shape, axes: Axes) -> impl Iterator<Item = (usize, usize)> {
    let mut stride = 1;
    shape.extents().into_iter().enumerate().filter_map(move |(axis, extent)| {
        let of_axis = stride;
        stride *= extent;
        (axes.contains(axis) && extent > 1).then_some((of_axis, extent))
    })
}

/// Calls `visit` with the number of each word that has bits of a range, and with a word in which these bits are 1. The range is not empty.
#[inline(always)]
fn for_each_part(range: Range<usize>, mut visit: impl FnMut(usize, u64)) {
    let (first, last) = (range.start / WORD, (range.end - 1) / WORD);
    for word in first..=last {
        let from = if word == first { u64::MAX << (range.start % WORD) } else { u64::MAX };
        let to = if word == last { u64::MAX >> (range.end.wrapping_neg() % WORD) } else { u64::MAX };
        visit(word, from & to);
    }
}

/// Copies a range of bits that is not empty.
fn copy_bits(source: &[u64], target: &mut [u64], range: Range<usize>) {
    for_each_part(range, |word, bits| target[word] = target[word] & !bits | source[word] & bits);
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

/// A bit for each of at most 64 values, the first one's lowest: 1 where `is_so` returns true.
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
    use crate::predict::lorenzo;

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
            let mut bitmap = Bitmap::default();
            bitmap.clear(len).unwrap();
            assert_eq!((bitmap.count(), bitmap.run_count(), bitmap.runs().next()), (0, 0, None), "{len} zeros");
            (0..len).for_each(|index| bitmap.set(index));
            assert_eq!((bitmap.count(), bitmap.run_count()), (len, len.min(1)), "{len} ones");
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
            let mut bitmap = Bitmap::default();
            bitmap.clear(first + 2 * WORD).unwrap();
            bitmap.set_every_other(first, bits);
            let expected: Vec<usize> = (0..WORD).filter(|at| bits >> at & 1 == 1).map(|at| first + 2 * at).collect();
            assert_eq!(bitmap.indices().collect::<Vec<_>>(), expected, "{bits:#x} from {first} on");
        }
    }

    #[test]
    fn bits_are_what_integers_modulo_2_are() {
        let mut state = 5u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for dims in [
            &[4000u64][..],
            &[1],
            &[64],
            &[50, 70],
            &[7, 50, 18],
            &[30, 15],
            &[30, 16],
            &[33, 32],
            &[7, 1, 64],
            &[9, 20, 31],
            &[3, 4, 11, 13],
            &[700, 1, 3],
            &[5, 64, 64],
            &[4, 3, 3, 63],
            &[5, 1, 20],
            &[3, 2, 1, 16],
            &[9, 1, 1, 17],
            &[2, 5, 1, 63],
            &[3, 128, 65],
        ] {
            let shape = Shape::new(dims).unwrap();
            let elements = shape.elements() as usize;
            for ones in [0, 1, 2, 7, elements / 100, elements / 3, elements] {
                let mut integers = vec![0i8; elements];
                for _ in 0..ones {
                    integers[random(elements as u64) as usize] = 1;
                }
                // Runs too.
                let start = random(elements as u64) as usize;
                integers[start..(start + 3 * ones).min(elements)].fill(1);
                let mut bitmap = Bitmap::default();
                bitmap.read(&integers).unwrap();
                let expected: Vec<usize> = (0..elements).filter(|&index| integers[index] == 1).collect();
                assert_eq!(bitmap.count(), expected.len());
                assert!(bitmap.indices().eq(expected.iter().copied()));
                assert_eq!(bitmap.run_count(), bitmap.runs().count());
                for run in bitmap.runs() {
                    assert!(run.end == elements || integers[run.end] == 0);
                }
                let mut set = Bitmap::default();
                set.clear(elements).unwrap();
                expected.iter().for_each(|&index| set.set(index));
                assert_eq!(set.words, bitmap.words);

                for byte in 0..=Axes::all(&shape).to_byte() {
                    let axes = Axes::from_byte(byte, &shape).unwrap();
                    let mut differences = lorenzo::plain::differences(&integers, &shape, axes);
                    differences.iter_mut().for_each(|difference| *difference &= 1);
                    let mut predicted = Bitmap::default();
                    predicted.copy_from(&bitmap).unwrap();
                    predicted.predict(&shape, axes).unwrap();
                    let mut written = vec![0; elements];
                    predicted.write(&mut written);
                    assert_eq!(written, differences, "quantize/bitmap: {dims:?} axes {byte:b}");
                    predicted.restore(&shape, axes).unwrap();
                    assert_eq!(predicted.words, bitmap.words, "{dims:?} axes {byte:b}");
                }
            }
        }
    }
}
