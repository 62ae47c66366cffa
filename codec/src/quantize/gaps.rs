//! Codes for exceptions (FORMAT.md §5.1). A decoder overwrites exceptions, so that an encoder is free to choose codes that are easily predicted.

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
    let mut row_end = 0;
    for run in bitmap::runs(exceptions) {
        let mut start = run.start;
        while start < run.end {
            if start >= row_end {
                row_end = start - start % row + row;
            }
            let end = run.end.min(row_end);
            let code =
                if start > row_end - row { codes[start - 1] } else { codes[end..row_end].first().copied().unwrap_or_default() };
            codes[start..end].fill(code);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// An exception has the code of the last value before it in its row that is no exception. Without such a value it has the
    /// code of the first one behind it, or 0.
    #[test]
    fn gaps_have_the_codes_of_the_definition() {
        let mut random = Random(1);
        for (rows, row) in [(1, 1), (1, 130), (130, 1), (7, 64), (5, 65), (3, 7), (11, 13)] {
            for share in [0, 1, 8, 15, 16] {
                let len = rows * row;
                let is_exception: Vec<bool> = (0..len).map(|_| random.below(16) < share).collect();
                let bitmap = Bitmap::of(len, (0..len).filter(|&index| is_exception[index]));
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
}
