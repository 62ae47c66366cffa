//! The chunks of a dataset one after the other, read a slab at a time: a box of whole chunks.
//!
//! ```text
//! chunks of a dataset, 4 x 4 x 4:    ┌─┬─┬─┬─┐
//! a slab has as many as SLAB_BYTES   ├─┼─┼─┼─┤   first rows along the fastest axis, then layers of such rows, and so on:
//! hold, such as 1 x 2 x 4            └─┴─┴─┴─┘   whole rows lie in one piece in a dataset that is not chunked, and HDF5 reads them at once
//! ```

use std::sync::Arc;

use crate::datasets::{Grid, Source};
use crate::library::chunks;

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
    /// The values in C order; `buffer` is room for them.
    pub(crate) fn values<'a>(&'a self, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if self.slab.ranges == self.ranges {
            return &self.slab.bytes;
        }
        gather(&self.slab.ranges, &self.slab.bytes, &self.ranges, buffer);
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
    /// Whether the dataset stores these chunks as plain values, which need not go through HDF5's chunk cache.
    is_plain: bool,
    slabs: std::vec::IntoIter<Vec<Range>>,
    slab: Option<Arc<Slab>>,
    ranges: std::vec::IntoIter<Vec<Range>>,
    /// Memory of slabs that nobody needs any more.
    spare: Vec<Vec<u8>>,
}

impl<'a> ChunkReader<'a> {
    /// `boxes` are chunks of the given shape in the order of their indices. Chunks that are not among them are not read.
    pub(crate) fn new(source: &'a Source, chunk: &'a [usize], boxes: &[Vec<Range>]) -> Self {
        // Where the dataset has these chunks itself, HDF5 reads each in one piece.
        let is_chunked = source.chunk.as_deref() == Some(chunk);
        let most = if is_chunked { 0 } else { SLAB_BYTES / source.numbers.scalar.element_size() };
        Self {
            source,
            chunk,
            is_plain: is_chunked && source.is_plain,
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
            let mut bytes = self.spare.pop().unwrap_or_default();
            self.read(&ranges, &mut bytes)?;
            self.ranges = chunks_of(&ranges, self.chunk).into_iter();
            self.slab = Some(Arc::new(Slab { ranges, bytes }));
        }
    }

    fn read(&self, ranges: &[Range], bytes: &mut Vec<u8>) -> Result<(), String> {
        let Source { dataset, numbers, .. } = self.source;
        let is_whole = ranges.iter().zip(self.chunk).all(|(range, &side)| range.1 == side);
        // A damaged file may have another length for a chunk: HDF5 then says what is wrong.
        if self.is_plain
            && is_whole
            && chunks::read(dataset, &corner(ranges), bytes).is_ok()
            && bytes.len() == values(ranges) * numbers.scalar.size()
        {
            return Ok(());
        }
        numbers.read(dataset, ranges, bytes)
    }

    /// Takes a chunk back that is done, for its memory.
    pub(crate) fn give_back(&mut self, part: ReadChunk) {
        if let Some(slab) = Arc::into_inner(part.slab) {
            self.spare.push(slab.bytes);
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
fn chunks_of(slab: &[Range], chunk: &[usize]) -> Vec<Vec<Range>> {
    let extents: Vec<usize> = slab.iter().map(|&(_, count)| count).collect();
    let grid = Grid { extents: &extents, block: chunk };
    let in_dataset = |ranges: Vec<Range>| ranges.iter().zip(slab).map(|(inside, slab)| (slab.0 + inside.0, inside.1)).collect();
    (0..grid.blocks()).map(|number| in_dataset(grid.ranges(number))).collect()
}

/// Puts the values of a box within a slab into `bytes`, in C order.
pub(crate) fn gather(slab: &[Range], slab_bytes: &[u8], wanted: &[Range], bytes: &mut Vec<u8>) {
    bytes.clear();
    append(slab, slab_bytes, wanted, bytes);
}

fn append(slab: &[Range], slab_bytes: &[u8], wanted: &[Range], bytes: &mut Vec<u8>) {
    let (Some((slab, slab_rest)), Some((wanted, rest))) = (slab.split_first(), wanted.split_first()) else {
        return bytes.extend_from_slice(slab_bytes);
    };
    let layer = slab_bytes.len() / slab.1;
    let layers = &slab_bytes[(wanted.0 - slab.0) * layer..][..wanted.1 * layer];
    if slab_rest == rest {
        bytes.extend_from_slice(layers);
    } else {
        layers.chunks_exact(layer).for_each(|layer| append(slab_rest, layer, rest, bytes));
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
        let again: Vec<Vec<Range>> = slabs.iter().flat_map(|slab| chunks_of(slab, &[2, 2])).collect();
        assert_eq!(again, some);
    }

    #[test]
    fn a_box_is_gathered_from_its_slab() {
        let slab = [(10, 2), (0, 3), (4, 4)];
        let bytes: Vec<u8> = (0..48).collect();
        let mut gathered = Vec::new();
        gather(&slab, &bytes, &[(10, 2), (1, 2), (6, 2)], &mut gathered);
        assert_eq!(gathered, [12, 13, 14, 15, 20, 21, 22, 23, 36, 37, 38, 39, 44, 45, 46, 47]);
        // Rows that lie in one piece, all of the slab, and a scalar.
        gather(&slab, &bytes, &[(10, 2), (1, 1), (4, 4)], &mut gathered);
        assert_eq!(gathered, [8, 9, 10, 11, 12, 13, 14, 15, 32, 33, 34, 35, 36, 37, 38, 39]);
        gather(&slab, &bytes, &slab, &mut gathered);
        assert_eq!(gathered, bytes);
        gather(&[], &bytes[..2], &[], &mut gathered);
        assert_eq!(gathered, [0, 1]);
    }
}
