//! Codes for exceptions (FORMAT.md §5.1). A decoder overwrites exceptions, so that an encoder is free to choose codes that are easily predicted.

use std::ops::Range;

use crate::number::integer::Integer;
use crate::quantize::bitmap::{self, Bitmap};

/// Gives exceptions the code of their left neighbour in the row. Exceptions at a row's start get the code of the row's first value that is no exception, or 0
/// if all of the row's values are exceptions. Regions of fill values then have no differences inside and no spikes at their borders.
///
/// `row` is the extent of the fastest axis.
pub fn fill_gaps<C: Integer>(codes: &mut [C], exceptions: &Bitmap, row: usize) {
    fill_gaps_of_words(codes, exceptions.words(), row);
}

/// [`fill_gaps`] of whole rows. The first code's bit is the lowest of the first word.
pub(crate) fn fill_gaps_of_words<C: Integer>(codes: &mut [C], exceptions: &[u64], row: usize) {
    take_left_neighbours(codes, bitmap::runs(exceptions), row, |behind| behind.first().copied().unwrap_or_default());
}

/// Gives exceptions the code of their left neighbour in the row. Exceptions at a row's start get the code that `at_start` chooses from the row's codes behind
/// them.
pub fn take_left_neighbours<C: Integer>(
    codes: &mut [C],
    exceptions: impl Iterator<Item = Range<usize>>,
    row: usize,
    at_start: impl Fn(&[C]) -> C,
) {
    let mut row_end = 0;
    for run in exceptions {
        let mut start = run.start;
        while start < run.end {
            if start >= row_end {
                row_end = start - start % row + row;
            }
            let end = run.end.min(row_end);
            let code = if start > row_end - row { codes[start - 1] } else { at_start(&codes[end..row_end]) };
            codes[start..end].fill(code);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each code by the definition: of the last value in the row up to it that is no exception, else of the first one behind it, else 0.
    #[test]
    fn gaps_have_the_codes_of_the_definition() {
        let mut state = 1u64;
        for (rows, row) in [(1, 1), (1, 130), (130, 1), (7, 64), (5, 65), (3, 7), (11, 13)] {
            for share in [0, 1, 8, 15, 16] {
                let len = rows * row;
                let mut bitmap = Bitmap::default();
                bitmap.clear(len).unwrap();
                let is_exception: Vec<bool> = (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        state >> 60 < share
                    })
                    .collect();
                (0..len).filter(|&index| is_exception[index]).for_each(|index| bitmap.set(index));
                let codes: Vec<i32> = (1..=len as i32).collect();
                let mut filled = codes.clone();
                fill_gaps(&mut filled, &bitmap, row);
                for (index, &code) in filled.iter().enumerate() {
                    let (start, end) = (index / row * row, index / row * row + row);
                    let before = (start..=index).rfind(|&index| !is_exception[index]);
                    let first = before.or_else(|| (index..end).find(|&index| !is_exception[index]));
                    assert_eq!(code, first.map_or(0, |index| codes[index]), "{index} of {rows} rows of {row}");
                }
            }
        }
    }

    #[test]
    fn gaps_continue_their_row() {
        let marked = |indices: &[usize], len| {
            let mut bitmap = Bitmap::default();
            bitmap.clear(len).unwrap();
            indices.iter().for_each(|&index| bitmap.set(index));
            bitmap
        };
        let mut codes = [9, 9, 5, 9, 7, 9, 9, 9, 1, 9, 9, 9];
        fill_gaps(&mut codes, &marked(&[0, 1, 3, 5, 6, 7, 9, 10, 11], 12), 4);
        assert_eq!(codes, [5, 5, 5, 5, 7, 7, 7, 7, 1, 1, 1, 1]);
        let mut codes = [9; 4];
        fill_gaps(&mut codes, &marked(&[0, 1, 2, 3], 4), 2);
        assert_eq!(codes, [0; 4]);
    }
}
