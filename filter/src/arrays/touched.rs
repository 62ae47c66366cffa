//! Which chunks a box of a dataset touches, and how much of each.
//!
//! ```text
//!         0        4        8        12       extents of chunks: 4
//!         │  ┌─────┼────────┼──┐     │
//!         │  │ 0   │ 1      │ 2│     │        a box from 1 on, of 8 values, touches three chunks: the first from 1 on, the last up to 9
//! ```

use quire_codec::{Error, Result, memory};

/// `H5S_MAX_RANK`
pub(crate) const MOST_AXES: usize = 32;

/// A box of a dataset along one axis, in values.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// Extent of the dataset.
    extent: u64,
    /// Extent of a chunk.
    chunk: u64,
    start: u64,
    count: u64,
}

/// A box of a dataset, cut by its chunks. The chunks that it touches are numbered in C order.
#[derive(Debug)]
pub(crate) struct TouchedChunks {
    axes: Vec<Axis>,
    chunks: usize,
}

/// What a box has of one chunk. Numbers are in values, slowest axis first, and valid along the box's axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    /// The chunk's first value, in the dataset.
    pub(crate) origin: [u64; MOST_AXES],
    /// The overlap's first value, in the chunk.
    pub(crate) in_chunk: [usize; MOST_AXES],
    /// The overlap's first value, in the box.
    pub(crate) in_box: [usize; MOST_AXES],
    /// Extents of the overlap.
    pub(crate) lens: [usize; MOST_AXES],
    /// Whether the overlap is the whole chunk.
    pub(crate) is_whole: bool,
}

impl Axis {
    fn first_chunk(self) -> u64 {
        self.start / self.chunk
    }

    /// Chunks that the box touches.
    fn chunks(self) -> u64 {
        if self.count == 0 { 0 } else { (self.start + self.count - 1) / self.chunk - self.first_chunk() + 1 }
    }
}

impl TouchedChunks {
    /// The chunks that a box touches.
    ///
    /// # Errors
    /// `InvalidArgument` for a box that is not inside the dataset.
    pub(crate) fn new(extents: &[u64], chunk: &[u64], start: &[u64], count: &[u64]) -> Result<Self> {
        let rank = extents.len();
        if start.len() != rank || count.len() != rank || rank > MOST_AXES {
            return Err(Error::invalid(format_args!("the selection has {} axes, the dataset has {rank}", count.len())));
        }
        let mut axes = Vec::new();
        for axis in 0..rank {
            let (extent, chunk, start, count) = (extents[axis], chunk[axis], start[axis], count[axis]);
            if start.checked_add(count).is_none_or(|end| end > extent) || chunk == 0 {
                return Err(Error::invalid(format_args!(
                    "the selection takes {count} values from {start} on along axis {axis}: the dataset has {extent} there"
                )));
            }
            memory::push(&mut axes, Axis { extent, chunk, start, count })?;
        }
        let chunks = axes.iter().try_fold(1u64, |product, axis| product.checked_mul(axis.chunks()));
        match chunks.and_then(|chunks| usize::try_from(chunks).ok()) {
            Some(chunks) => Ok(Self { axes, chunks }),
            None => Err(Error::invalid("the selection touches more chunks than this machine can count")),
        }
    }

    /// The number of chunks that the box touches.
    pub(crate) fn count(&self) -> usize {
        self.chunks
    }

    pub(crate) fn rank(&self) -> usize {
        self.axes.len()
    }

    /// What the box has of a chunk.
    pub(crate) fn overlap(&self, number: usize) -> Overlap {
        let zeros = [0; MOST_AXES];
        let mut overlap = Overlap { origin: [0; MOST_AXES], in_chunk: zeros, in_box: zeros, lens: zeros, is_whole: true };
        let mut number = number as u64;
        for (at, axis) in self.axes.iter().enumerate().rev() {
            let chunks = axis.chunks();
            let origin = (axis.first_chunk() + number % chunks) * axis.chunk;
            number /= chunks;
            let first = origin.max(axis.start);
            // A chunk at the edge of a dataset may end beyond 2^64.
            let last = origin.saturating_add(axis.chunk).min(axis.start + axis.count);
            overlap.origin[at] = origin;
            overlap.in_chunk[at] = (first - origin) as usize;
            overlap.in_box[at] = (first - axis.start) as usize;
            overlap.lens[at] = (last - first) as usize;
            overlap.is_whole &= last - first == axis.chunk;
        }
        overlap
    }

    /// Whether the dataset can have a chunk with this first value, touched or not.
    pub(crate) fn is_origin(&self, origin: &[u64]) -> bool {
        self.axes.iter().zip(origin).all(|(axis, &origin)| origin < axis.extent && origin % axis.chunk == 0)
    }

    /// The number of the chunk with this first value, if the box touches it.
    pub(crate) fn number_of(&self, origin: &[u64]) -> Option<usize> {
        if !self.is_origin(origin) {
            return None;
        }
        let mut number = 0;
        for (axis, &origin) in self.axes.iter().zip(origin) {
            let along = (origin / axis.chunk).checked_sub(axis.first_chunk()).filter(|&along| along < axis.chunks())?;
            number = number * axis.chunks() + along;
        }
        Some(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(touched: &TouchedChunks) -> Vec<Overlap> {
        (0..touched.count()).map(|number| touched.overlap(number)).collect()
    }

    #[test]
    fn the_overlaps_of_a_box_cover_it_once() {
        let boxes = [([0, 0, 0], [10, 7, 5]), ([3, 0, 4], [4, 7, 1]), ([9, 6, 0], [1, 1, 5]), ([0, 2, 1], [10, 3, 3])];
        for (start, count) in boxes {
            let touched = TouchedChunks::new(&[10, 7, 5], &[4, 3, 5], &start, &count).expect("a box");
            let mut seen = vec![0; count.iter().product::<u64>() as usize];
            for (number, overlap) in overlaps(&touched).iter().enumerate() {
                assert_eq!(touched.number_of(&overlap.origin[..3]), Some(number));
                let whole = (0..3).all(|axis| overlap.lens[axis] as u64 == [4, 3, 5][axis]);
                assert_eq!(overlap.is_whole, whole, "{overlap:?}");
                let same = (0..3).all(|axis| {
                    overlap.origin[axis] + overlap.in_chunk[axis] as u64 == start[axis] + overlap.in_box[axis] as u64
                });
                assert!(same, "{overlap:?}");
                for at in 0..overlap.lens[..3].iter().product() {
                    let z = at / (overlap.lens[1] * overlap.lens[2]) + overlap.in_box[0];
                    let y = at / overlap.lens[2] % overlap.lens[1] + overlap.in_box[1];
                    let x = at % overlap.lens[2] + overlap.in_box[2];
                    seen[(z * count[1] as usize + y) * count[2] as usize + x] += 1;
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{start:?} {count:?}");
        }
    }

    #[test]
    fn chunks_that_a_box_does_not_touch_have_no_number() {
        let touched = TouchedChunks::new(&[100, 100], &[10, 10], &[20, 30], &[20, 5]).expect("a box");
        assert_eq!(touched.count(), 2);
        let numbers = [[20, 30], [30, 30], [40, 30], [20, 40], [10, 30], [20, 31]].map(|origin| touched.number_of(&origin));
        assert_eq!(numbers, [Some(0), Some(1), None, None, None, None]);
        let can_be = [[40, 30], [20, 31], [100, 0], [90, 90]].map(|origin| touched.is_origin(&origin));
        assert_eq!(can_be, [true, false, false, true]);
    }

    #[test]
    fn an_empty_box_touches_nothing_and_one_outside_is_refused() {
        assert_eq!(TouchedChunks::new(&[5, 0], &[2, 2], &[0, 0], &[5, 0]).expect("empty").count(), 0);
        let reason =
            |start: &[u64], count: &[u64]| TouchedChunks::new(&[5], &[2], start, count).expect_err("refused").to_string();
        assert_eq!(reason(&[3], &[3]), "the selection takes 3 values from 3 on along axis 0: the dataset has 5 there");
        assert!(reason(&[u64::MAX], &[2]).contains("from 18446744073709551615 on"));
        assert_eq!(reason(&[0, 0], &[1, 1]), "the selection has 2 axes, the dataset has 1");
    }
}
