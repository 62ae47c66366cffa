//! The chunks of datasets one after the other, read a slab at a time: a box of whole chunks. Threads work on them.
//!
//! ```text
//! chunks of a dataset, 4 x 4 x 4:    ┌─┬─┬─┬─┐
//! a slab has as many as SLAB_BYTES   ├─┼─┼─┼─┤   first rows along the fastest axis, then layers of such rows, and so on:
//! hold, such as 1 x 2 x 4            └─┴─┴─┴─┘   whole rows lie in one piece in a dataset that is not chunked, and HDF5 reads them at once
//! ```

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
    let read = |(number, chunks): (usize, Chunks<'a>)| read_chunks(chunks).map(move |chunk| (number, chunks.name, chunk));
    let mut chunks = datasets.into_iter().enumerate().flat_map(read);
    jobs::pipeline(
        jobs,
        || {
            let Some((number, name, chunk)) = chunks.next() else { return Ok(None) };
            let chunk = chunk.with_context(|| name.clone())?;
            Ok(Some((number, fetch(number, &chunk)?, chunk)))
        },
        |state, (number, fetched, chunk)| (number, work(state, number, &chunk, fetched), chunk),
        |(number, done, chunk)| take(number, &chunk, done),
    )
}

/// Reads the chunks of a dataset in their order, slab by slab.
fn read_chunks(chunks: Chunks<'_>) -> impl Iterator<Item = Result<ReadChunk>> {
    let Chunks { source, shape, boxes, .. } = chunks;
    // Where the dataset has these chunks itself, HDF5 reads each in one piece.
    let most = if chunks.are_stored() { 0 } else { SLAB_BYTES / source.numbers.scalar.element_size() };
    joined(boxes, most).into_iter().flat_map(move |ranges| {
        let slab = chunks.read(&ranges).map(|bytes| Arc::new(Slab { ranges: ranges.clone(), bytes }));
        match slab {
            Ok(slab) => {
                chunks_of(&ranges, shape).into_iter().map(|ranges| Ok(ReadChunk { ranges, slab: Arc::clone(&slab) })).collect()
            }
            Err(error) => vec![Err(error)],
        }
    })
}

impl Chunks<'_> {
    /// Whether the dataset has these chunks itself.
    fn are_stored(&self) -> bool {
        self.source.chunk.as_deref() == Some(self.shape)
    }

    fn read(&self, ranges: &[Range]) -> Result<Vec<u8>> {
        let Source { dataset, numbers, is_plain, .. } = self.source;
        let (mut bytes, is_whole) = (Vec::new(), boxes::with_extents(ranges, self.shape) == ranges);
        // Plain values need not go through HDF5's chunk cache. A damaged file may have another length for a chunk: HDF5 then says what is wrong.
        if *is_plain
            && self.are_stored()
            && is_whole
            && chunks::read(dataset, &boxes::corner(ranges), &mut bytes).is_ok()
            && bytes.len() == boxes::values(ranges) * numbers.scalar.size()
        {
            return Ok(bytes);
        }
        numbers.read(dataset, ranges, &mut bytes)?;
        Ok(bytes)
    }
}
