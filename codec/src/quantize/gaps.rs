//! Codes for exceptions, which have none of their own: such that they are easily predicted.

use crate::number::integer::Integer;
use crate::quantize::bitmap::Bitmap;

/// Gives exceptions the code of their left neighbour in the row, those at a row's start the code of the row's first value that is none,
/// and those of a row without such a value 0: regions of fill values then have no differences inside and no spikes at their borders.
///
/// `row` is the extent of the fastest axis. The decoder does not depend on this choice.
pub fn fill_gaps<C: Integer>(codes: &mut [C], exceptions: &Bitmap, row: usize) {
    take_left_neighbours(codes, exceptions, row, |behind| behind.first().copied().unwrap_or_default());
}

/// Gives exceptions the code of their left neighbour in the row, and those at a row's start what `at_start` says of the codes behind them in the row.
pub fn take_left_neighbours<C: Integer>(codes: &mut [C], exceptions: &Bitmap, row: usize, at_start: impl Fn(&[C]) -> C) {
    let mut row_end = 0;
    for run in exceptions.runs() {
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
