//! Which boxes of an array are read, in which order, and their division into units that one thread takes.
//!
//! ```text
//! an array of planes [ny][nx]:  ┌──────┐┌──────┐┌──────┐     a box has whole planes, if a plane has at most `Lengths::unit` values;
//!                               │      ││      ││      │     else a band of rows, and of long rows a stretch. A band begins with the last row
//!                               └──────┘└──────┘└──────┘     of the band before, for the differences between rows; so does a stretch.
//! ```

use std::ops::Range;

use crate::Field;

/// Lengths in values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lengths {
    /// Most of a plane that is not cut.
    pub(crate) unit: usize,
    /// Below which neighbouring planes are one unit.
    pub(crate) small_unit: usize,
    /// Of a box, unless chunks are longer.
    pub(crate) window: usize,
    /// Most of a box, for the sake of whole chunks.
    pub(crate) most: usize,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { unit: 1 << 22, small_unit: 1 << 16, window: 1 << 23, most: 1 << 25 }
    }
}

/// The boxes of an array: blocks of one shape, clipped to the extents.
#[derive(Debug)]
pub(crate) struct Windows {
    /// At least two extents.
    shape: Vec<usize>,
    side: Vec<usize>,
    lengths: Lengths,
    /// Of the extents, the first ones that are no axes of the array.
    padding: usize,
}

/// A box, with the row and the column before it if there are any.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    lengths: Lengths,
    /// What is to be read.
    pub(crate) ranges: Vec<Range<usize>>,
    /// Planes of the box.
    pub(crate) layers: usize,
    /// Indices along z of an axis with `nz` planes: that of the first plane.
    pub(crate) first_z: usize,
    pub(crate) nz: usize,
    /// The number of the first plane among those of the array.
    pub(crate) first_layer: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

/// A part of a window: planes by their number in the window, rows and columns by their index in the array.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) layers: Range<usize>,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Windows {
    pub(crate) fn new(field: &Field, lengths: Lengths) -> Self {
        let padding = 2usize.saturating_sub(field.shape.len());
        let padded = |extents: &[usize]| [&vec![1; padding], extents].concat();
        let shape = padded(&field.shape);
        let chunk = field.chunk.as_deref().map_or_else(|| vec![1; shape.len()], padded);
        let (mut side, mut volume) = (vec![1; shape.len()], 1);
        for axis in (0..shape.len()).rev() {
            let most = (lengths.window / volume).max(1);
            if shape[axis] > most {
                let whole = if chunk[axis] > most && chunk[axis] * volume <= lengths.most { chunk[axis] } else { most };
                // All boxes have about as many planes or rows.
                let even = shape[axis].div_ceil(shape[axis].div_ceil(whole));
                side[axis] = if whole >= chunk[axis] { even.next_multiple_of(chunk[axis]).min(whole) } else { even };
                break;
            }
            side[axis] = shape[axis];
            volume *= shape[axis];
        }
        Self { padding, shape, side, lengths }
    }

    pub(crate) fn count(&self) -> usize {
        self.counts().into_iter().product()
    }

    fn counts(&self) -> Vec<usize> {
        self.shape.iter().zip(&self.side).map(|(extent, side)| extent.div_ceil(*side)).collect()
    }

    /// The number of planes, and the extents of a plane.
    pub(crate) fn planes(&self) -> (usize, (usize, usize)) {
        let (outer, plane) = self.shape.split_at(self.shape.len() - 2);
        (outer.iter().product(), (plane[0], plane[1]))
    }

    /// A window by its number. Windows of one band of rows follow each other along z.
    pub(crate) fn window(&self, number: usize) -> Window {
        let (counts, rank) = (self.counts(), self.shape.len());
        let mut order: Vec<usize> = (0..rank).collect();
        order[rank.saturating_sub(3)..].rotate_left(1);
        let (mut start, mut rest) = (vec![0; rank], number);
        // Of two axes, neither is z.
        let order = if rank == 2 { vec![0, 1] } else { order };
        for &axis in order.iter().rev() {
            start[axis] = rest % counts[axis] * self.side[axis];
            rest /= counts[axis];
        }
        let mut ranges: Vec<Range<usize>> =
            (0..rank).map(|axis| start[axis]..self.shape[axis].min(start[axis] + self.side[axis])).collect();
        let layers = ranges[..rank - 2].iter().map(Range::len).product();
        let first_layer =
            ranges[..rank - 2].iter().zip(&self.shape).fold(0, |layer, (range, extent)| layer * extent + range.start);
        let (first_z, nz) = if rank > 2 { (ranges[rank - 3].start, self.shape[rank - 3]) } else { (0, 1) };
        let [rows, columns] = [&ranges[rank - 2], &ranges[rank - 1]].map(Range::clone);
        for range in &mut ranges[rank - 2..] {
            range.start = range.start.saturating_sub(1);
        }
        ranges.drain(..self.padding);
        Window { lengths: self.lengths, ranges, layers, first_z, nz, first_layer, rows, columns }
    }
}

impl Window {
    /// The units, in the order in which what they find is added. It does not depend on the number of threads.
    pub(crate) fn units(&self) -> Vec<Unit> {
        let long = self.columns.len().min(self.lengths.unit);
        let high = self.rows.len().min(self.lengths.unit / long);
        let deep = self.lengths.small_unit.div_ceil(long * high);
        let mut units = Vec::new();
        for layers in pieces(&(0..self.layers), deep) {
            for rows in pieces(&self.rows, high) {
                units.extend(pieces(&self.columns, long).map(|columns| Unit {
                    layers: layers.clone(),
                    rows: rows.clone(),
                    columns,
                }));
            }
        }
        units
    }

    /// Extents of a plane as it is read.
    pub(crate) fn read_plane(&self) -> (usize, usize) {
        let lead = |range: &Range<usize>| range.len() + usize::from(range.start > 0);
        (lead(&self.rows), lead(&self.columns))
    }
}

/// Divides a range into pieces of about one length, at most `most`.
fn pieces(range: &Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let length = range.len().div_ceil(range.len().div_ceil(most));
    range.clone().step_by(length).map(move |start| start..range.end.min(start + length))
}
