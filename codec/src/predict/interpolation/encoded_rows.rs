//! Residuals and positions of the rows of a parity class, from values and predictions, in parts of [`PART_LEN`] values.

use std::iter;
use std::ops::Range;

use super::PART_LEN;
use super::level::{Extents, has, index};
use super::slice_ring::ClassRows;
use crate::layout::ByteOrder;
use crate::number::value::Value;
use crate::quantize::bitmap::{Bitmap, ones};
use crate::quantize::fine_grid::{FineGrid, Worth};
use crate::simd::ROW_GROUP;

/// The values of one level.
pub(super) struct LevelValues<'a> {
    /// Bytes of the values, in C order.
    pub values: &'a [u8],
    /// Extents of the level.
    pub extents: Extents,
    /// The level's number `l`: it has every `2^l`-th value of the chunk along each axis.
    pub depth: usize,
    /// Extents of the chunk.
    pub whole: Extents,
    pub order: ByteOrder,
}

/// Encodes the rows of parity classes. The arrays are buffers for a part.
pub(super) struct RowEncoder<'a, V> {
    fine: FineGrid<V>,
    exceptions: &'a mut Bitmap,
    /// Whether the last search for excluded values found any: see [`FineGrid::encode`].
    had_excluded: bool,
    values: [V; PART_LEN],
    predictions: [i32; PART_LEN],
    positions: [i32; PART_LEN],
}

impl<'a, V: Value> RowEncoder<'a, V> {
    /// An encoder that marks exceptions of the chunk in `exceptions`.
    #[inline(always)]
    pub(super) fn new(fine: &'a FineGrid<V>, exceptions: &'a mut Bitmap) -> Self {
        Self {
            fine: *fine,
            exceptions,
            had_excluded: false,
            values: [V::default(); PART_LEN],
            predictions: [0; PART_LEN],
            positions: [0; PART_LEN],
        }
    }

    /// Sets what a residual of 1 is worth from here on.
    #[inline(always)]
    pub(super) fn set_worth(&mut self, worth: Worth) {
        self.fine = self.fine.with_worth(worth);
    }

    /// Writes the residual of the chunk's first value, which is the coarsest level, and returns its position.
    pub(super) fn encode_first(&mut self, value: V, residual: &mut i32) -> i32 {
        let mut position = [0];
        let exceptions = self.fine.encode(&[value], &[0], std::slice::from_mut(residual), &mut position, &mut self.had_excluded);
        if exceptions != 0 {
            self.exceptions.set(0);
        }
        position[0]
    }

    /// Writes the residuals of the rows' values into those of the chunk, and turns predictions into positions.
    #[inline(always)]
    pub(super) fn encode(
        &mut self,
        level: &LevelValues<'_>,
        class_rows: &ClassRows<'_>,
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) {
        let &ClassRows { class, len, .. } = class_rows;
        let residuals = &mut residuals[class.start + index(class.extents, class_rows.indices)..][..class_rows.rows * len];
        let rows = SourceRows::new::<V>(level, class_rows);
        // A part may hold the end of one row and the start of the next: if rows are shorter than a part, or if whole parts are faster for the type.
        let span = if len < PART_LEN || FineGrid::<V>::FAST_PATH_NEEDS_WHOLE_PARTS { residuals.len() } else { len };
        let mut rest = residuals;
        let mut next = 0;
        while !rest.is_empty() {
            let first = next;
            let count = PART_LEN.min(span - first % span);
            next += count;
            let (residuals, others) = rest.split_at_mut(count);
            rest = others;
            let (row, column) = (first / len, first % len);
            if column + count > len {
                self.encode_across_rows(&rows, first, predictions, residuals, positions);
                continue;
            }
            let (values, at) = (&mut self.values[..count], row * class_rows.stride + column);
            rows.read(row, column, values);
            let (predictions, positions) = (&predictions[at..at + count], &mut positions[at..at + count]);
            let bits = self.fine.encode(values, predictions, residuals, positions, &mut self.had_excluded);
            self.mark(&rows, row, column, bits);
        }
    }

    /// Encodes a part that is in several rows: `residuals.len()` values from number `first` of the rows on.
    #[inline(always)]
    fn encode_across_rows(
        &mut self,
        rows: &SourceRows<'_>,
        first: usize,
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) {
        let count = residuals.len();
        let values = &mut self.values[..count];
        for Piece { row, column, in_rows, in_part } in rows.class_rows.pieces(first, count) {
            rows.read(row, column, &mut values[in_part.clone()]);
            copy(&predictions[in_rows], &mut self.predictions[in_part]);
        }
        let (part_predictions, part_positions) = (&self.predictions[..count], &mut self.positions[..count]);
        let mut bits = self.fine.encode(values, part_predictions, residuals, part_positions, &mut self.had_excluded);
        for Piece { row, column, in_rows, in_part } in rows.class_rows.pieces(first, count) {
            // A piece of a part is shorter than the part, so the shift is below 64.
            self.mark(rows, row, column, bits & !(u64::MAX << in_part.len()));
            bits >>= in_part.len();
            copy(&self.positions[in_part], &mut positions[in_rows]);
        }
    }

    /// Marks exceptions of a row. Bit `i` of `bits` belongs to the value at `column + i` of the row.
    #[inline(always)]
    fn mark(&mut self, &SourceRows { level, class_rows, .. }: &SourceRows<'_>, row: usize, column: usize, bits: u64) {
        if bits == 0 {
            return;
        }
        let [first, first_row, z, w] = class_rows.indices;
        let in_level = class_rows.class.in_level([first + column, first_row + row, z, w]);
        let in_chunk = index(level.whole, in_level.map(|index| index << level.depth));
        if level.depth == 0 {
            return self.exceptions.set_every_other(in_chunk, bits);
        }
        for at in ones(bits) {
            self.exceptions.set(in_chunk + (at << (level.depth + 1)));
        }
    }
}

/// The rows of a parity class, as every other value of a level's rows.
struct SourceRows<'a> {
    level: &'a LevelValues<'a>,
    class_rows: &'a ClassRows<'a>,
    /// The level's bytes from the first row on.
    bytes: &'a [u8],
    /// Bytes from a row to the next.
    distance: usize,
    /// Whether the class has the values at odd indices of the rows.
    from_second: bool,
}

impl<'a> SourceRows<'a> {
    #[inline(always)]
    fn new<V: Value>(level: &'a LevelValues<'a>, class_rows: &'a ClassRows<'a>) -> Self {
        let class = class_rows.class;
        let mut in_level = class.in_level(class_rows.indices);
        in_level[0] = 2 * class_rows.indices[0];
        Self {
            level,
            class_rows,
            bytes: &level.values[index(level.extents, in_level) * V::SIZE..],
            distance: 2 * level.extents[0] * V::SIZE,
            from_second: has(class.set, 0),
        }
    }

    /// Reads the values of a row from index `from` on.
    #[inline(always)]
    fn read<V: Value>(&self, row: usize, from: usize, values: &mut [V]) {
        V::read_alternate(&self.bytes[row * self.distance + 2 * from * V::SIZE..], self.from_second, self.level.order, values);
    }
}

/// The values of a part that lie in the same row.
struct Piece {
    row: usize,
    column: usize,
    /// Indices of the values in the rows' predictions and positions.
    in_rows: Range<usize>,
    /// Indices of the values in the part.
    in_part: Range<usize>,
}

impl ClassRows<'_> {
    /// The pieces of a part, which has `count` values from number `first` of the rows on.
    #[inline(always)]
    fn pieces(&self, first: usize, count: usize) -> impl Iterator<Item = Piece> {
        let (mut row, mut column, mut done) = (first / self.len, first % self.len, 0);
        iter::from_fn(
            #[inline(always)]
            move || {
                let size = (self.len - column).min(count - done);
                let at = row * self.stride + column;
                let piece = Piece { row, column, in_rows: at..at + size, in_part: done..done + size };
                (row, column, done) = (row + 1, 0, done + size);
                (size > 0).then_some(piece)
            },
        )
    }
}

/// Copies a piece of a row. Pieces are short: a call of `memcpy` would take longer.
#[inline(always)]
fn copy(source: &[i32], target: &mut [i32]) {
    let (groups, rest) = source.as_chunks::<ROW_GROUP>();
    for (group, target) in groups.iter().zip(target.as_chunks_mut().0) {
        *target = *group;
    }
    if rest.is_empty() {
        return;
    }
    if let (Some(group), Some(target)) = (source.last_chunk::<ROW_GROUP>(), target.last_chunk_mut()) {
        // The last group ends with the last value and overlaps the group before it.
        *target = *group;
    } else {
        for (target, &position) in target.iter_mut().zip(source) {
            *target = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::level::{Level, count};
    use super::super::plain;
    use super::*;
    use crate::quantize::quantizer::Quantizer;

    const BOUND: f64 = 0.25;

    /// Encodes the rows of a level's parity classes, with `padding` values between rows. Checks every residual, position and exception.
    fn check<V: Value>(extents: Extents, depth: usize, padding: usize, is_special: impl Fn(usize) -> bool) {
        let quantizer = Quantizer::new(BOUND);
        let fine = quantizer.fine::<V>().unwrap();
        let whole = extents.map(|extent| ((extent - 1) << depth) + 1);
        let order = ByteOrder::Big;
        let special = |i: usize| V::round_from([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30][i % 4]);
        let value = |i: usize| if is_special(i) { special(i) } else { V::round_from((i * i % 997) as f64 * 0.2 - 100.0) };
        let mut bytes = vec![0; count(extents) * V::SIZE];
        (0..count(extents)).for_each(|i| value(i).write(&mut bytes, i, order));
        let level = LevelValues { values: &bytes, extents, depth, whole, order };
        let mut exceptions = Bitmap::default();
        exceptions.clear(count(whole)).unwrap();
        let mut encoder = RowEncoder::<V>::new(&fine, &mut exceptions);
        let mut residuals = vec![0; count(extents)];
        let mut expected = BTreeSet::new();
        for class in Level::new(extents).classes() {
            let [len, rows, nz, _] = class.extents;
            for z in 0..nz {
                let class_rows = ClassRows { class, indices: [0, 0, z, 0], len, rows, stride: len + padding };
                let predictions: Vec<i32> = (0..rows * (len + padding)).map(|i| (i * 7919 % 5000) as i32 - 2500).collect();
                let mut positions = vec![-7; (rows - 1) * (len + padding) + len];
                encoder.encode(&level, &class_rows, &predictions, &mut residuals, &mut positions);
                for (at, &position) in positions.iter().enumerate() {
                    let (row, x) = (at / (len + padding), at % (len + padding));
                    if x >= len {
                        assert_eq!(position, -7, "values between rows are left alone");
                        continue;
                    }
                    let in_level = class.in_level([x, row, z, 0]);
                    let i = index(extents, in_level);
                    if is_special(i) {
                        expected.insert(index(whole, in_level.map(|index| index << depth)));
                        continue;
                    }
                    let residual = residuals[class.start + index(class.extents, [x, row, z, 0])];
                    assert_eq!(position, plain::position(predictions[at], residual, 8), "{extents:?} value {i}");
                    let error = value(i).to_f64() - fine.restore(position).to_f64();
                    assert!(error.abs() <= BOUND, "{extents:?} value {i} is off by {error}");
                }
            }
        }
        assert_eq!(exceptions.indices().collect::<BTreeSet<_>>(), expected, "{extents:?} at depth {depth}");
    }

    #[test]
    fn rows_of_any_length_are_encoded_within_the_bound() {
        for nx in (1..40).chain([63, 64, 65, 66, 127, 128, 129, 130, 131, 257]) {
            for (depth, padding) in [(0, 0), (0, 2), (1, 2), (3, 0)] {
                for every in [usize::MAX, 5, 41] {
                    let is_special = |i: usize| i % every == every / 2;
                    check::<f32>([nx, 5, 1, 1], depth, padding, is_special);
                    check::<f64>([nx, 4, 3, 1], depth, padding, is_special);
                }
            }
        }
    }

    #[test]
    fn rows_of_exceptions_alone_are_marked() {
        check::<f32>([64, 6, 1, 1], 0, 0, |_| true);
        check::<f64>([64, 6, 1, 1], 1, 1, |_| true);
        check::<f32>([64, 6, 1, 1], 0, 1, |i| i / 64 == 3);
    }
}
