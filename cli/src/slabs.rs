//! The chunks of a dataset one after the other, read a slab at a time: a box of whole chunks.
//!
//! ```text
//! chunks of a dataset, 4 x 4 x 4:    ┌─┬─┬─┬─┐
//! a slab has as many as SLAB_BYTES   ├─┼─┼─┼─┤   first rows along the fastest axis, then layers of such rows, and so on:
//! hold, such as 1 x 2 x 4            └─┴─┴─┴─┘   whole rows lie in one piece in a dataset that is not chunked, and HDF5 reads them at once
//! ```

use std::sync::Arc;

use crate::datasets::{Grid, Source};

/// Start and count along each axis.
pub(crate) type Range = (usize, usize);

/// Bytes of a slab of several chunks.
const SLAB_BYTES: usize = 16 << 20;

/// Values of a dataset, which the chunks in it share.
pub(crate) struct Slab {
    ranges: Vec<Range>,
    bytes: Vec<u8>,
}

/// A chunk of a dataset, clipped to the extents, with the slab that has its values.
pub(crate) struct ReadChunk {
    pub(crate) ranges: Vec<Range>,
    slab: Arc<Slab>,
}

impl ReadChunk {
    /// The values in C order; `buffer` is room for them. `each` is a value's size in bytes.
    pub(crate) fn values<'a>(&'a self, each: usize, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if self.slab.ranges == self.ranges {
            return &self.slab.bytes;
        }
        gather(&self.slab.ranges, &self.slab.bytes, &self.ranges, each, buffer);
        buffer
    }

    /// Index of the first value along each axis.
    pub(crate) fn corner(&self) -> Vec<u64> {
        corner(&self.ranges)
    }

    /// Number of values.
    pub(crate) fn count(&self) -> usize {
        values(&self.ranges)
    }
}

pub(crate) fn corner(ranges: &[Range]) -> Vec<u64> {
    ranges.iter().map(|&(start, _)| start as u64).collect()
}

/// Reads the chunks of a dataset in their order.
pub(crate) struct ChunkReader<'a> {
    source: &'a Source,
    /// The shape of the chunks.
    chunk: &'a [usize],
    slabs: std::vec::IntoIter<Vec<Range>>,
    slab: Option<Arc<Slab>>,
    ranges: std::vec::IntoIter<Vec<Range>>,
    /// Memory of a slab that nobody needs any more.
    spare: Vec<u8>,
}

impl<'a> ChunkReader<'a> {
    /// `boxes` are chunks of the given shape in the order of their indices. Chunks that are not among them are not read.
    pub(crate) fn new(source: &'a Source, chunk: &'a [usize], boxes: &[Vec<Range>]) -> Self {
        // Where the dataset has these chunks itself, HDF5 reads each in one piece.
        let most =
            if source.dataset.chunk().as_deref() == Some(chunk) { 0 } else { SLAB_BYTES / source.numbers.scalar.element_size() };
        Self {
            source,
            chunk,
            slabs: joined(boxes, most).into_iter(),
            slab: None,
            ranges: Vec::new().into_iter(),
            spare: Vec::new(),
        }
    }

    /// The next chunk.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn next(&mut self) -> Result<Option<ReadChunk>, String> {
        loop {
            if let (Some(slab), Some(ranges)) = (&self.slab, self.ranges.next()) {
                return Ok(Some(ReadChunk { ranges, slab: Arc::clone(slab) }));
            }
            let Some(ranges) = self.slabs.next() else { return Ok(None) };
            self.slab = None;
            let mut bytes = std::mem::take(&mut self.spare);
            self.source.numbers.read(&self.source.dataset, &ranges, &mut bytes)?;
            self.ranges = chunks(&ranges, self.chunk).into_iter();
            self.slab = Some(Arc::new(Slab { ranges, bytes }));
        }
    }

    /// Takes a chunk back that is done, for its memory.
    pub(crate) fn give_back(&mut self, part: ReadChunk) {
        if let Some(slab) = Arc::into_inner(part.slab) {
            self.spare = slab.bytes;
        }
    }
}

/// Joins neighbouring boxes of chunks, which come in the order of their indices, into boxes of at most `most_values` values, or of one chunk.
fn joined(boxes: &[Vec<Range>], most_values: usize) -> Vec<Vec<Range>> {
    let mut slabs = boxes.to_vec();
    for axis in (0..boxes.first().map_or(0, Vec::len)).rev() {
        let mut joined: Vec<Vec<Range>> = Vec::new();
        for next in slabs {
            match joined.last_mut() {
                Some(last) if follows(last, &next, axis) && values(last) + values(&next) <= most_values => {
                    last[axis].1 += next[axis].1;
                }
                _ => joined.push(next),
            }
        }
        slabs = joined;
    }
    slabs
}

/// Whether `next` begins along one axis where `last` ends, and has the same ranges along all others.
fn follows(last: &[Range], next: &[Range], axis: usize) -> bool {
    let mut pairs = last.iter().zip(next).enumerate();
    pairs.all(|(number, (last, next))| if number == axis { last.0 + last.1 == next.0 } else { last == next })
}

/// The number of values in a box.
pub(crate) fn values(ranges: &[Range]) -> usize {
    ranges.iter().map(|&(_, count)| count).product()
}

/// The chunks of a slab, each clipped to it. `chunk` is the shape of the chunks that the slab was made of.
fn chunks(slab: &[Range], chunk: &[usize]) -> Vec<Vec<Range>> {
    let extents: Vec<usize> = slab.iter().map(|&(_, count)| count).collect();
    let grid = Grid { extents: &extents, block: chunk };
    let in_dataset = |ranges: Vec<Range>| ranges.iter().zip(slab).map(|(inside, slab)| (slab.0 + inside.0, inside.1)).collect();
    (0..grid.blocks()).map(|number| in_dataset(grid.ranges(number))).collect()
}

/// Puts the values of a box within a slab into `bytes`, in C order. `each` is a value's size in bytes.
pub(crate) fn gather(slab: &[Range], slab_bytes: &[u8], wanted: &[Range], each: usize, bytes: &mut Vec<u8>) {
    bytes.clear();
    let (Some(&(first, row)), Some(&(slab_first, slab_row))) = (wanted.last(), slab.last()) else {
        bytes.extend_from_slice(slab_bytes);
        return;
    };
    for number in 0..values(wanted) / row {
        let (mut rest, mut index, mut stride) = (number, first - slab_first, slab_row);
        for (&(start, count), &(slab_start, slab_count)) in wanted.iter().zip(slab).rev().skip(1) {
            index += (start - slab_start + rest % count) * stride;
            rest /= count;
            stride *= slab_count;
        }
        bytes.extend_from_slice(&slab_bytes[index * each..][..row * each]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(extents: &[usize], chunk: &[usize]) -> Vec<Vec<Range>> {
        let grid = Grid { extents, block: chunk };
        (0..grid.blocks()).map(|number| grid.ranges(number)).collect()
    }

    #[test]
    fn neighbours_are_joined_up_to_the_limit() {
        let all = boxes(&[5, 6, 7], &[2, 2, 4]);
        assert_eq!(joined(&all, usize::MAX), [[(0, 5), (0, 6), (0, 7)]]);
        assert_eq!(joined(&all, 2 * 6 * 7), [[(0, 2), (0, 6), (0, 7)], [(2, 2), (0, 6), (0, 7)], [(4, 1), (0, 6), (0, 7)]]);
        assert_eq!(joined(&all, 2 * 4 * 7)[..2], [[(0, 2), (0, 4), (0, 7)], [(0, 2), (4, 2), (0, 7)]]);
        assert_eq!(joined(&all, 1), all);
        assert_eq!(joined(&[vec![]], 1), [vec![]]);
        assert_eq!(joined(&[], 1), Vec::<Vec<Range>>::new());
    }

    #[test]
    fn chunks_that_are_not_there_stay_away() {
        let mut some = boxes(&[4, 6], &[2, 2]);
        some.remove(1);
        let slabs = joined(&some, usize::MAX);
        assert_eq!(slabs, [[(0, 2), (0, 2)], [(0, 2), (4, 2)], [(2, 2), (0, 6)]]);
        let again: Vec<Vec<Range>> = slabs.iter().flat_map(|slab| chunks(slab, &[2, 2])).collect();
        assert_eq!(again, some);
    }

    #[test]
    fn a_box_is_gathered_from_its_slab() {
        let slab = [(10, 2), (0, 3), (4, 4)];
        let bytes: Vec<u8> = (0..48).collect();
        let mut gathered = Vec::new();
        gather(&slab, &bytes, &[(10, 2), (1, 2), (6, 2)], 2, &mut gathered);
        assert_eq!(gathered, [12, 13, 14, 15, 20, 21, 22, 23, 36, 37, 38, 39, 44, 45, 46, 47]);
        gather(&[], &bytes[..2], &[], 2, &mut gathered);
        assert_eq!(gathered, [0, 1]);
    }
}
