//! How values of a slab's rows become residuals: whole rows of the commonest length at a glance, others by parts.

use std::iter;
use std::ops::Range;

use super::PART;
use super::level::{Extents, has, index};
use super::sheets::Slab;
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

/// What slabs are encoded with, and room for a part.
pub(super) struct Encoder<'a, V> {
    fine: &'a FineGrid<V>,
    exceptions: &'a mut Bitmap,
    /// Rows that a glance leaves in doubt.
    doubtful: &'a mut Vec<usize>,
    were_masked: bool,
    values: [V; PART],
    predictions: [i32; PART],
    places: [i32; PART],
}

impl<'a, V: Value> Encoder<'a, V> {
    /// `exceptions` gets a bit for each value that is one; `doubtful` has room for the rows of a slab.
    #[inline(always)]
    pub(super) fn new(
        fine: &'a FineGrid<V>,
        exceptions: &'a mut Bitmap,
        doubtful: &'a mut Vec<usize>,
        were_masked: bool,
    ) -> Self {
        Self { fine, exceptions, doubtful, were_masked, values: [V::default(); PART], predictions: [0; PART], places: [0; PART] }
    }

    /// Writes residuals of a slab's values among those of the chunk, and turns predictions into places.
    #[inline(always)]
    pub(super) fn encode(
        &mut self,
        source: &Source<'_>,
        slab: &Slab<'_>,
        predictions: &[i32],
        residuals: &mut [i32],
        places: &mut [i32],
    ) {
        let &Slab { class, len, .. } = slab;
        let residuals = &mut residuals[class.start + index(class.extents, slab.indices)..][..slab.rows * len];
        let rows = Rows::new::<V>(source, slab);
        if self.glance_at_rows(&rows, slab, predictions, residuals, places) {
            for at in 0..self.doubtful.len() {
                let row = self.doubtful[at];
                let (values, residuals, at) = (&mut self.values[..len], &mut residuals[row * len..][..len], row * slab.stride);
                rows.read(row, 0, values);
                let (predictions, places) = (&predictions[at..at + len], &mut places[at..at + len]);
                let bits = self.fine.encode_after_glance(values, predictions, residuals, places, &mut self.were_masked);
                self.mark(source, slab, row, 0, bits);
            }
            return;
        }
        // Short rows are put together, and others where whole parts go faster.
        let together = if len < PART || FineGrid::<V>::LIKES_WHOLE_PARTS { residuals.len() } else { len };
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
                self.encode_pieces(source, &rows, slab, first, predictions, residuals, places);
                continue;
            }
            let (values, at) = (&mut self.values[..count], row * slab.stride + column);
            rows.read(row, column, values);
            let (predictions, places) = (&predictions[at..at + count], &mut places[at..at + count]);
            let bits = self.fine.encode(values, predictions, residuals, places, &mut self.were_masked);
            self.mark(source, slab, row, column, bits);
        }
    }

    /// Encodes those rows of which a glance is certain, if they are of the commonest length, and says whether they are; the others are listed.
    #[inline(always)]
    fn glance_at_rows(
        &mut self,
        rows: &Rows<'_>,
        slab: &Slab<'_>,
        predictions: &[i32],
        residuals: &mut [i32],
        places: &mut [i32],
    ) -> bool {
        let fit = rows.bytes.len() >= (slab.rows - 1) * rows.distance + 2 * COMMON_ROW * V::SIZE;
        if slab.len != COMMON_ROW || !fit {
            return false;
        }
        self.doubtful.clear();
        for (row, residuals) in residuals.as_chunks_mut::<COMMON_ROW>().0.iter_mut().enumerate() {
            // Slices of a length that the compiler knows: see `common_row`.
            let bytes = &rows.bytes[row * rows.distance..][..2 * COMMON_ROW * V::SIZE];
            let at = row * slab.stride..row * slab.stride + COMMON_ROW;
            let mut values = [V::default(); COMMON_ROW];
            V::read_alternate(bytes, rows.from_second, rows.order, &mut values);
            if !self.fine.glance(&values, &predictions[at.clone()][..COMMON_ROW], residuals, &mut places[at][..COMMON_ROW]) {
                self.doubtful.push(row);
            }
        }
        true
    }

    /// Encodes as many values as there are residuals, from the slab's `first` one on, which stand in several rows.
    #[expect(clippy::too_many_arguments, reason = "a part of a loop's body")]
    #[inline(always)]
    fn encode_pieces(
        &mut self,
        source: &Source<'_>,
        rows: &Rows<'_>,
        slab: &Slab<'_>,
        first: usize,
        predictions: &[i32],
        residuals: &mut [i32],
        places: &mut [i32],
    ) {
        let count = residuals.len();
        let values = &mut self.values[..count];
        for Piece { row, column, in_slab, in_part } in slab.pieces(first, count) {
            rows.read(row, column, &mut values[in_part.clone()]);
            copy(&predictions[in_slab], &mut self.predictions[in_part]);
        }
        let (part_predictions, part_places) = (&self.predictions[..count], &mut self.places[..count]);
        let mut bits = self.fine.encode(values, part_predictions, residuals, part_places, &mut self.were_masked);
        for Piece { row, column, in_slab, in_part } in slab.pieces(first, count) {
            // No piece is a whole part.
            self.mark(source, slab, row, column, bits & !(u64::MAX << in_part.len()));
            bits >>= in_part.len();
            copy(&self.places[in_part], &mut places[in_slab]);
        }
    }

    /// Marks exceptions: a bit for each value of a row from a column on, the first one's lowest.
    #[inline(always)]
    fn mark(&mut self, source: &Source<'_>, slab: &Slab<'_>, row: usize, column: usize, bits: u64) {
        if bits == 0 {
            return;
        }
        let [first, first_row, z, w] = slab.indices;
        let in_grid = slab.class.in_grid([first + column, first_row + row, z, w]);
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
    fn new<V: Value>(source: &Source<'a>, slab: &Slab<'_>) -> Self {
        let class = slab.class;
        let mut in_grid = class.in_grid(slab.indices);
        in_grid[0] = 2 * slab.indices[0];
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

/// Some of a slab's values that stand in one row.
struct Piece {
    row: usize,
    column: usize,
    /// Where they stand among predictions and places.
    in_slab: Range<usize>,
    /// Where they stand among those values of which this is a piece.
    in_part: Range<usize>,
}

impl Slab<'_> {
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
        for (target, &place) in target.iter_mut().zip(source) {
            *target = place;
        }
    }
}
