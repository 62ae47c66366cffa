//! The margins of the ring: values that continue the known values of a slice beyond the ends of each axis, and slices that continue the known slices.

use super::super::level::{Extents, SETS, has};
use super::super::mean::margin_value;
use super::{RING_SLICES, SliceRing};
use crate::simd::ROW_GROUP;

impl SliceRing<'_> {
    /// Fills the margins of a class's slice along the axes along which it predicts other classes. The slice begins at index `slice`.
    #[inline(always)]
    pub(super) fn fill_margins(&mut self, set: usize, extents: Extents, slice: usize) {
        for axis in (0..self.axis).filter(|&axis| !has(set, axis) && self.level.coarse_extents[axis] > 1) {
            let (known, stride) = (self.level.coarse_extents[axis], self.strides[axis]);
            if axis == 0 {
                self.fill_row_margins(extents, slice);
                continue;
            }
            // A slice has at most one axis slower than this one.
            let (count, distance) =
                (axis + 1..self.axis).map(|slower| (extents[slower], self.strides[slower])).next().unwrap_or((1, 0));
            // Index of the first block. A block has the values along all faster axes, with margins.
            let origin =
                (axis..self.axis).map(|axis| usize::from(self.level.extents[axis] > 1) * self.strides[axis]).sum::<usize>();
            for block in 0..count {
                let start = |index: usize| (slice + origin + block * distance).wrapping_add(index.wrapping_mul(stride));
                let last = known - 1;
                self.fill_margin([start(0), start(1), start(2)], start(0) - stride, stride, known);
                self.fill_margin([start(last), start(last - 1), start(last.wrapping_sub(2))], start(known), stride, known);
            }
        }
    }

    /// Fills the margins at both ends of the rows of a slice.
    #[inline(always)]
    fn fill_row_margins(&mut self, extents: Extents, slice: usize) {
        let known = self.level.coarse_extents[0];
        for w in 0..if self.axis == 3 { 1 } else { extents[3] } {
            for z in 0..if self.axis == 2 { 1 } else { extents[2] } {
                let first = slice + self.at([0, 0, z, w]) - 1;
                let (rows, stride) = if self.axis == 1 { (1, self.size) } else { (extents[1], self.strides[1]) };
                for row in self.positions[first..].chunks_mut(stride).take(rows) {
                    let row = &mut row[..known + 2];
                    if let Some([to, a, b, c]) = row.first_chunk_mut().filter(|_| known > 2) {
                        *to = margin_value(*a, *b, Some(*c));
                    } else if let Some([to, a, b]) = row.first_chunk_mut() {
                        *to = margin_value(*a, *b, None);
                    }
                    if let Some([c, b, a, to]) = row.last_chunk_mut().filter(|_| known > 2) {
                        *to = margin_value(*a, *b, Some(*c));
                    } else if let Some([b, a, to]) = row.last_chunk_mut() {
                        *to = margin_value(*a, *b, None);
                    }
                }
            }
        }
    }

    /// Fills slice `to` of every even class: a margin that continues slices `from`, the nearest first.
    #[inline(always)]
    pub(super) fn fill_ring_margin(&mut self, from: [usize; 3], to: usize) {
        let known = self.level.coarse_extents[self.axis];
        if known < 2 {
            return;
        }
        for set in 0..SETS {
            if set == 0 || self.level.classes().iter().any(|class| class.set == set && !has(set, self.axis)) {
                let [a, b, c, to] =
                    [from[0], from[1], from[2], to].map(|slice_index| self.number(set, slice_index % RING_SLICES) * self.size);
                self.fill_margin([a, b, c], to, self.size, known);
            }
        }
    }

    /// Writes a block of `len` values at `to`, which continues the blocks at `from`, the nearest first. The third block is read if `known` is above 2.
    #[inline(always)]
    fn fill_margin(&mut self, from: [usize; 3], to: usize, len: usize, known: usize) {
        // Source and target are in one vector, so groups are copied out.
        let third = if known > 2 { from[2] } else { from[1] };
        let mut i = 0;
        while i + ROW_GROUP <= len {
            let group = |from: usize| *self.positions[from + i..].first_chunk::<ROW_GROUP>().unwrap_or(&[0; ROW_GROUP]);
            let (a, b, c) = (group(from[0]), group(from[1]), group(third));
            let values: [i32; ROW_GROUP] = if known > 2 {
                std::array::from_fn(|j| margin_value(a[j], b[j], Some(c[j])))
            } else {
                std::array::from_fn(|j| margin_value(a[j], b[j], None))
            };
            self.positions[to + i..][..ROW_GROUP].copy_from_slice(&values);
            i += ROW_GROUP;
        }
        for i in i..len {
            let third = (known > 2).then(|| self.positions[from[2] + i]);
            self.positions[to + i] = margin_value(self.positions[from[0] + i], self.positions[from[1] + i], third);
        }
    }
}
