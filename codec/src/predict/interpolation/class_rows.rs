//! How values of a class_rows's rows become residuals: whole rows of the commonest length at a glance, others by parts.

use std::iter;
use std::ops::Range;

use super::PART;
use super::level::{Extents, has, index};
use super::slice_ring::ClassRows;
use crate::layout::ByteOrder;
use crate::number::value::Value;
use crate::quantize::bitmap::{Bitmap, ones};
use crate::quantize::fine_grid::FineGrid;
use crate::simd::{COMMON_ROW, ROW_GROUP};

/// The values of a level's grid.
pub(super) struct Source<'a> {
    pub values: &'a [u8],
    pub extents: Extents,
    /// How often the chunk was thinned out.
    pub depth: usize,
    /// Extents of the chunk.
    pub whole: Extents,
    pub order: ByteOrder,
}

/// What class_rows are encoded with, and room for a part.
pub(super) struct Encoder<'a, V> {
    fine: &'a FineGrid<V>,
    exceptions: &'a mut Bitmap,
    /// Rows that a glance leaves in doubt.
    doubtful: &'a mut Vec<usize>,
    were_masked: bool,
    values: [V; PART],
    predictions: [i32; PART],
    positions: [i32; PART],
}

impl<'a, V: Value> Encoder<'a, V> {
    /// `exceptions` gets a bit for each value that is one; `doubtful` has room for the rows of a class_rows.
    #[inline(always)]
    pub(super) fn new(
        fine: &'a FineGrid<V>,
        exceptions: &'a mut Bitmap,
        doubtful: &'a mut Vec<usize>,
        were_masked: bool,
    ) -> Self {
        Self {
            fine,
            exceptions,
            doubtful,
            were_masked,
            values: [V::default(); PART],
            predictions: [0; PART],
            positions: [0; PART],
        }
    }

    /// Writes residuals of a class_rows's values among those of the chunk, and turns predictions into positions.
    #[inline(always)]
    pub(super) fn encode(
        &mut self,
        source: &Source<'_>,
        class_rows: &ClassRows<'_>,
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) {
        let &ClassRows { class, len, .. } = class_rows;
        let residuals = &mut residuals[class.start + index(class.extents, class_rows.indices)..][..class_rows.rows * len];
        let rows = Rows::new::<V>(source, class_rows);
        if self.try_rows(&rows, class_rows, predictions, residuals, positions) {
            for at in 0..self.doubtful.len() {
                let row = self.doubtful[at];
                let (values, residuals, at) =
                    (&mut self.values[..len], &mut residuals[row * len..][..len], row * class_rows.stride);
                rows.read(row, 0, values);
                let (predictions, positions) = (&predictions[at..at + len], &mut positions[at..at + len]);
                let bits = self.fine.encode_after_fast_path(values, predictions, residuals, positions, &mut self.were_masked);
                self.mark(source, class_rows, row, 0, bits);
            }
            return;
        }
        // Short rows are put together, and others where whole parts go faster.
        let together = if len < PART || FineGrid::<V>::NEEDS_WHOLE_PARTS { residuals.len() } else { len };
        let mut rest = residuals;
        let mut next = 0;
        while !rest.is_empty() {
            let first = next;
            let count = PART.min(together - first % together);
            next += count;
            let (residuals, others) = rest.split_at_mut(count);
            rest = others;
            let (row, column) = (first / len, first % len);
            if column + count > len {
                self.encode_pieces(source, &rows, class_rows, first, predictions, residuals, positions);
                continue;
            }
            let (values, at) = (&mut self.values[..count], row * class_rows.stride + column);
            rows.read(row, column, values);
            let (predictions, positions) = (&predictions[at..at + count], &mut positions[at..at + count]);
            let bits = self.fine.encode(values, predictions, residuals, positions, &mut self.were_masked);
            self.mark(source, class_rows, row, column, bits);
        }
    }

    /// Encodes those rows of which a glance is certain, if they are of the commonest length, and says whether they are; the others are listed.
    #[inline(always)]
    fn try_rows(
        &mut self,
        rows: &Rows<'_>,
        class_rows: &ClassRows<'_>,
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) -> bool {
        let fit = rows.bytes.len() >= (class_rows.rows - 1) * rows.distance + 2 * COMMON_ROW * V::SIZE;
        if class_rows.len != COMMON_ROW || !fit {
            return false;
        }
        self.doubtful.clear();
        for (row, residuals) in residuals.as_chunks_mut::<COMMON_ROW>().0.iter_mut().enumerate() {
            // Slices of a length that the compiler knows: see `common_row`.
            let bytes = &rows.bytes[row * rows.distance..][..2 * COMMON_ROW * V::SIZE];
            let at = row * class_rows.stride..row * class_rows.stride + COMMON_ROW;
            let mut values = [V::default(); COMMON_ROW];
            V::read_alternate(bytes, rows.from_second, rows.order, &mut values);
            if !self.fine.glance(&values, &predictions[at.clone()][..COMMON_ROW], residuals, &mut positions[at][..COMMON_ROW]) {
                self.doubtful.push(row);
            }
        }
        true
    }

    /// Encodes as many values as there are residuals, from the class_rows's `first` one on, which stand in several rows.
    #[expect(clippy::too_many_arguments, reason = "a part of a loop's body")]
    #[inline(always)]
    fn encode_pieces(
        &mut self,
        source: &Source<'_>,
        rows: &Rows<'_>,
        class_rows: &ClassRows<'_>,
        first: usize,
        predictions: &[i32],
        residuals: &mut [i32],
        positions: &mut [i32],
    ) {
        let count = residuals.len();
        let values = &mut self.values[..count];
        for Piece { row, column, in_slab, in_part } in class_rows.pieces(first, count) {
            rows.read(row, column, &mut values[in_part.clone()]);
            copy(&predictions[in_slab], &mut self.predictions[in_part]);
        }
        let (part_predictions, part_positions) = (&self.predictions[..count], &mut self.positions[..count]);
        let mut bits = self.fine.encode(values, part_predictions, residuals, part_positions, &mut self.were_masked);
        for Piece { row, column, in_slab, in_part } in class_rows.pieces(first, count) {
            // No piece is a whole part.
            self.mark(source, class_rows, row, column, bits & !(u64::MAX << in_part.len()));
            bits >>= in_part.len();
            copy(&self.positions[in_part], &mut positions[in_slab]);
        }
    }

    /// Marks exceptions: a bit for each value of a row from a column on, the first one's lowest.
    #[inline(always)]
    fn mark(&mut self, source: &Source<'_>, class_rows: &ClassRows<'_>, row: usize, column: usize, bits: u64) {
        if bits == 0 {
            return;
        }
        let [first, first_row, z, w] = class_rows.indices;
        let in_grid = class_rows.class.in_grid([first + column, first_row + row, z, w]);
        let in_chunk = index(source.whole, in_grid.map(|index| index << source.depth));
        if source.depth == 0 {
            return self.exceptions.set_every_other(in_chunk, bits);
        }
        for at in ones(bits) {
            self.exceptions.set(in_chunk + (at << (source.depth + 1)));
        }
    }
}

/// Rows of every other value of a grid's rows.
struct Rows<'a> {
    bytes: &'a [u8],
    /// Bytes from one row's first value of the grid to the next one's.
    distance: usize,
    from_second: bool,
    order: ByteOrder,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn new<V: Value>(source: &Source<'a>, class_rows: &ClassRows<'_>) -> Self {
        let class = class_rows.class;
        let mut in_grid = class.in_grid(class_rows.indices);
        in_grid[0] = 2 * class_rows.indices[0];
        Self {
            bytes: &source.values[index(source.extents, in_grid) * V::SIZE..],
            distance: 2 * source.extents[0] * V::SIZE,
            from_second: has(class.set, 0),
            order: source.order,
        }
    }

    /// Reads values of a row from one on.
    #[inline(always)]
    fn read<V: Value>(&self, row: usize, from: usize, values: &mut [V]) {
        V::read_alternate(&self.bytes[row * self.distance + 2 * from * V::SIZE..], self.from_second, self.order, values);
    }
}

/// Some of a class_rows's values that stand in one row.
struct Piece {
    row: usize,
    column: usize,
    /// Where they stand among predictions and positions.
    in_slab: Range<usize>,
    /// Where they stand among those values of which this is a piece.
    in_part: Range<usize>,
}

impl ClassRows<'_> {
    /// The pieces of `count` values from the `first` one on, in the order of the rows.
    #[inline(always)]
    fn pieces(&self, first: usize, count: usize) -> impl Iterator<Item = Piece> {
        let (mut row, mut column, mut done) = (first / self.len, first % self.len, 0);
        iter::from_fn(
            #[inline(always)]
            move || {
                let size = (self.len - column).min(count - done);
                let at = row * self.stride + column;
                let piece = Piece { row, column, in_slab: at..at + size, in_part: done..done + size };
                (row, column, done) = (row + 1, 0, done + size);
                (size > 0).then_some(piece)
            },
        )
    }
}

/// Copies a piece of a row, mostly a short one, that is as long.
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
