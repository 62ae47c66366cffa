//! Differences of an exception mask modulo 2 along axes, and prefix sums, which undo them. [`crate::predict::lorenzo`] has the differences and sums of other
//! integers.

use std::ops::Range;

use super::{Bitmap, WORD};
use crate::error::Result;
use crate::layout::{Axes, Shape};
use crate::memory::resize;
use crate::simd::vectorized;

/// Rows of this many bits up to a word are summed row by row. Shorter and longer rows are summed word by word.
const SHORTEST_SINGLE_ROW: usize = 16;

impl Bitmap {
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
            // `sum_row_by_row` has summed along the two fastest axes.
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
        let Self { words, scratch, len } = self;
        resize(scratch, words.len())?;
        let (skipped, shift) = (distance / WORD, (distance % WORD) as u32);
        let skipped = skipped.min(words.len());
        scratch[..skipped].copy_from_slice(&words[..skipped]);
        vectorized(
            #[inline(always)]
            || {
                let mut carried = 0;
                for ((other, &word), &source) in scratch[skipped..].iter_mut().zip(&words[skipped..]).zip(&words[..]) {
                    *other = word ^ (source << shift | carried);
                    carried = source.unbounded_shr(WORD as u32 - shift);
                }
            },
        );
        // The first bits of a block have no bit of this block at that distance: they stay.
        if distance == 1 {
            let mut start = 0;
            for (number, (other, &word)) in scratch.iter_mut().zip(&*words).enumerate() {
                let mut starts = 0;
                while start / WORD == number {
                    starts |= 1 << (start % WORD);
                    start += block;
                }
                *other = *other & !starts | word & starts;
            }
        } else {
            for start in (0..*len).step_by(block) {
                copy_bits(words, scratch, start..(start + distance.min(block)).min(*len));
            }
        }
        std::mem::swap(words, scratch);
        self.trim();
        Ok(())
    }

    /// Prefix sums modulo 2 along an axis. Its neighbours are `distance` bits apart, which is a word or more. Blocks have `block`
    /// bits.
    fn sum_wide_strides(&mut self, block: usize, distance: usize) {
        let Self { words, len, .. } = self;
        for start in (0..*len).step_by(block) {
            // The bits before a word are sums already.
            for_each_part(start + distance..(*len).min(start + block), |word, bits| {
                let before = match (word * WORD).checked_sub(distance) {
                    Some(from) if from % WORD == 0 => words[from / WORD],
                    Some(from) => words[from / WORD] >> (from % WORD) | words[from / WORD + 1] << (WORD - from % WORD),
                    // The word begins with bits of the block that have no bit at that distance.
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

    /// Prefix sums modulo 2 along rows of at most a word if axis 0 is in `axes`, and over the rows of each slice if axis 1 is in
    /// `axes`.
    fn sum_row_by_row(&mut self, row: usize, rows: usize, axes: Axes) {
        let (along_rows, over_rows) = (axes.contains(0), axes.contains(1));
        if !along_rows && !over_rows {
            return;
        }
        let words = &mut self.words[..];
        let of_row = u64::MAX >> (WORD - row);
        // A row begins at bit `shift` of `word`. The sums of the word's earlier bits wait in `summed` until the word is full.
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
        // The words now have sums from the chunk's start. To get those from a row's start, the sum before each row is taken out of it, from the last row on.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::lorenzo;
    use crate::random::Random;

    #[test]
    fn bits_are_what_integers_modulo_2_are() {
        let mut random = Random(1);
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
                    integers[random.below(elements as u64) as usize] = 1;
                }
                // A run of ones as well.
                let start = random.below(elements as u64) as usize;
                integers[start..(start + 3 * ones).min(elements)].fill(1);
                let mut bitmap = Bitmap::default();
                bitmap.read(&integers).unwrap();
                let expected: Vec<usize> = (0..elements).filter(|&index| integers[index] == 1).collect();
                assert_eq!(bitmap.count(), expected.len());
                assert!(bitmap.indices().eq(expected.iter().copied()));
                for run in bitmap.runs() {
                    assert!(run.end == elements || integers[run.end] == 0);
                }
                assert_eq!(Bitmap::of(elements, expected).words, bitmap.words);

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
