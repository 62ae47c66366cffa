//! The chunks of datasets one after the other, read a slab at a time: a box of whole chunks. Threads work on them.
//!
//! ```text
//! chunks of a dataset, 4 x 4 x 4:    ┌─┬─┬─┬─┐
//! a slab has as many as SLAB_BYTES   ├─┼─┼─┼─┤   first rows along the fastest axis, then layers of such rows, and so on:
//! hold, such as 1 x 2 x 4            └─┴─┴─┴─┘   whole rows lie in one piece in a dataset that is not chunked, and HDF5 reads them at once
//! ```

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context as _, Result};

use crate::boxes::{self, Range, chunks_of, copy_common, joined};
use crate::datasets::Source;
use crate::jobs;
use crate::library::chunks;
use crate::names::Name;

/// Bytes of a slab of several chunks.
const SLAB_BYTES: usize = 16 << 20;

/// The chunks to read of a dataset, in the order of their indices.
#[derive(Clone, Copy)]
pub(crate) struct Chunks<'a> {
    /// How errors name the dataset.
    pub(crate) name: &'a Name,
    pub(crate) source: &'a Source,
    /// The shape of the chunks.
    pub(crate) shape: &'a [usize],
    /// The chunks, clipped to the extents.
    pub(crate) boxes: &'a [Vec<Range>],
}

/// Values of a dataset, which the chunks in it share.
struct Slab {
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
        let Slab { ranges, bytes } = &*self.slab;
        if *ranges == self.ranges {
            return bytes;
        }
        buffer.resize(bytes.len() / boxes::values(ranges) * boxes::values(&self.ranges), 0);
        copy_common(ranges, bytes, &self.ranges, buffer);
        buffer
    }
}

/// Reads the chunks of datasets, dataset after dataset, and gives them to `jobs` threads. So threads need not wait for the end of a dataset.
///
/// `fetch` gets the number of the dataset and the chunk, and reads what goes with the chunk. `take` gets the results of `work` in the order of the chunks. The
/// calling thread reads the chunks and calls `fetch` and `take`. It alone calls HDF5.
///
/// # Errors
/// HDF5's, with the dataset's name, and those of `fetch` and `take`.
pub(crate) fn each_chunk<'a, State: Default, Fetched: Send, Done: Send>(
    jobs: usize,
    datasets: impl IntoIterator<Item = Chunks<'a>>,
    mut fetch: impl FnMut(usize, &ReadChunk) -> Result<Fetched>,
    work: impl Fn(&mut State, usize, &ReadChunk, Fetched) -> Done + Sync,
    mut take: impl FnMut(usize, &ReadChunk, Done) -> Result<()>,
) -> Result<()> {
    let mut readers = datasets.into_iter().map(Reader::new).enumerate();
    let mut reader = readers.next();
    // Memory of slabs that nobody needs any more.
    let spare = RefCell::new(Vec::new());
    jobs::pipeline(
        jobs,
        || {
            while let Some((number, current)) = &mut reader {
                let read = current.next(&mut spare.borrow_mut());
                if let Some(chunk) = read.with_context(|| current.chunks.name.clone())? {
                    return Ok(Some((*number, fetch(*number, &chunk)?, chunk)));
                }
                reader = readers.next();
            }
            Ok(None)
        },
        |state, (number, fetched, chunk)| (number, work(state, number, &chunk, fetched), chunk),
        |(number, done, chunk)| {
            take(number, &chunk, done)?;
            spare.borrow_mut().extend(Arc::into_inner(chunk.slab).map(|slab| slab.bytes));
            Ok(())
        },
    )
}

/// Reads the chunks of a dataset in their order.
struct Reader<'a> {
    chunks: Chunks<'a>,
    /// Whether the dataset stores these chunks as plain values, which need not go through HDF5's chunk cache.
    is_plain: bool,
    slabs: std::vec::IntoIter<Vec<Range>>,
    slab: Option<Arc<Slab>>,
    ranges: std::vec::IntoIter<Vec<Range>>,
}

impl<'a> Reader<'a> {
    fn new(chunks: Chunks<'a>) -> Self {
        let Chunks { source, shape, boxes, .. } = chunks;
        // Where the dataset has these chunks itself, HDF5 reads each in one piece.
        let is_chunked = source.chunk.as_deref() == Some(shape);
        let most = if is_chunked { 0 } else { SLAB_BYTES / source.numbers.scalar.element_size() };
        let slabs = joined(boxes, most).into_iter();
        Self { chunks, is_plain: is_chunked && source.is_plain, slabs, slab: None, ranges: Vec::new().into_iter() }
    }

    fn next(&mut self, spare: &mut Vec<Vec<u8>>) -> Result<Option<ReadChunk>> {
        loop {
            if let (Some(slab), Some(ranges)) = (&self.slab, self.ranges.next()) {
                return Ok(Some(ReadChunk { ranges, slab: Arc::clone(slab) }));
            }
            let Some(ranges) = self.slabs.next() else { return Ok(None) };
            self.slab = None;
            let mut bytes = spare.pop().unwrap_or_default();
            self.read(&ranges, &mut bytes)?;
            self.ranges = chunks_of(&ranges, self.chunks.shape).into_iter();
            self.slab = Some(Arc::new(Slab { ranges, bytes }));
        }
    }

    fn read(&self, ranges: &[Range], bytes: &mut Vec<u8>) -> Result<()> {
        let Source { dataset, numbers, .. } = self.chunks.source;
        let is_whole = boxes::with_extents(ranges, self.chunks.shape) == ranges;
        // A damaged file may have another length for a chunk: HDF5 then says what is wrong.
        if self.is_plain
            && is_whole
            && chunks::read(dataset, &boxes::corner(ranges), bytes).is_ok()
            && bytes.len() == boxes::values(ranges) * numbers.scalar.size()
        {
            return Ok(());
        }
        numbers.read(dataset, ranges, bytes)
    }
}
