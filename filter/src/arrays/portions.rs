//! A transfer in portions of chunks, and what HDF5 does for each of them. In the host's memory, a portion is one chunk.

use std::ops::Range;

use hdf5_sys::h5i::hid_t;
use quire_codec::memory;

use super::Outcome;
use super::crew::{Fault, Fetched, Reused, Work};
use super::dataset::Facts;
use super::touched::MOST_AXES;
use crate::fence::Failure;
use crate::h5api::Library;
use crate::h5api::chunks::ChunkFunctions;

/// What belongs to the chunks of a portion, an element each. The memory of the elements serves one portion after another.
#[derive(Default)]
pub(super) struct PerChunk<T>(pub(super) Vec<T>);

impl<T: Reused> Reused for PerChunk<T> {
    fn empty(&mut self) {
        self.0.iter_mut().for_each(Reused::empty);
    }
}

impl<T: Default> PerChunk<T> {
    /// Has an element for each of `count` chunks.
    pub(super) fn for_chunks(&mut self, count: usize) -> quire_codec::Result<&mut [T]> {
        let more = count.saturating_sub(self.0.len());
        memory::reserve(&mut self.0, more)?;
        self.0.resize_with(count, T::default);
        Ok(&mut self.0)
    }
}

/// What threads do for a transfer. A write leaves a stream for each chunk, a read nothing.
pub(super) trait InPortions: Work<Fetched = PerChunk<Fetched>, Made = PerChunk<Vec<u8>>> {
    fn facts(&self) -> &Facts;

    /// Numbers of a portion's chunks.
    fn chunks_of(&self, portion: usize) -> Range<usize> {
        portion..portion + 1
    }

    /// Whether HDF5 reads a chunk, as it is in the file, for the thread that works on the chunk.
    fn is_fetched(&self, chunk: usize) -> bool;

    /// Compresses the chunks from `first` on, of a write. `fetched` has an element for each of them.
    fn compress(&self, first: usize, fetched: &[Fetched], made: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        let _ = (first, fetched, made);
        Ok(())
    }
}

/// The chunks in a dataset's file, as HDF5 reads and writes them in one step of a transfer.
pub(super) struct StoredChunks<'a> {
    library: &'a Library,
    functions: &'a ChunkFunctions,
    dataset: hid_t,
    /// Extents of the dataset at this step: the program may have shrunk the dataset since the last one.
    extents: Vec<u64>,
}

impl<'a> StoredChunks<'a> {
    pub(super) fn of(library: &'a Library, functions: &'a ChunkFunctions, dataset: hid_t) -> Outcome<Self> {
        Ok(Self { library, functions, dataset, extents: library.extents(dataset)? })
    }

    /// Refuses a chunk beyond the dataset's end. H5Dwrite_chunk takes one that begins at the end, and it would show up when the dataset grows again.
    fn check(&self, origin: &[u64; MOST_AXES]) -> Outcome<()> {
        let extents = &self.extents;
        if extents.iter().zip(origin).all(|(extent, first)| first < extent) {
            return Ok(());
        }
        Err(Failure::hdf5(format_args!("the dataset has been resized to {extents:?} meanwhile, and the chunk is beyond its end")))
    }

    fn read(&self, origin: &[u64; MOST_AXES], fetched: &mut Fetched) -> Outcome<()> {
        self.check(origin)?;
        fetched.mask = self.library.read_chunk(self.functions, self.dataset, origin, &mut fetched.bytes)?;
        Ok(())
    }

    fn write(&self, origin: &[u64; MOST_AXES], stream: &[u8]) -> Outcome<()> {
        self.check(origin)?;
        self.library.write_chunk(self.functions, self.dataset, origin, stream)
    }

    /// Reads the chunks of a portion that its thread has to know.
    pub(super) fn fetch<W: InPortions>(&self, work: &W, portion: usize, fetched: &mut PerChunk<Fetched>) -> Result<(), Fault> {
        let chunks = work.chunks_of(portion);
        for (chunk, fetched) in chunks.clone().zip(fetched.for_chunks(chunks.len())?) {
            if work.is_fetched(chunk) {
                let origin = work.facts().touched.overlap(chunk).origin;
                self.read(&origin, fetched).map_err(|failure| Fault { chunk: Some(chunk), failure })?;
            }
        }
        Ok(())
    }

    /// Writes the streams of a portion, and counts the chunks that are written.
    pub(super) fn store<W: InPortions>(
        &self,
        work: &W,
        portion: usize,
        fetched: &PerChunk<Fetched>,
        made: &mut PerChunk<Vec<u8>>,
        written: &mut usize,
    ) -> Result<(), Fault> {
        for (chunk, (fetched, stream)) in work.chunks_of(portion).zip(fetched.0.iter().zip(&mut made.0)) {
            let at = |failure| Fault { chunk: Some(chunk), failure };
            let origin = work.facts().touched.overlap(chunk).origin;
            if work.is_fetched(chunk) {
                // Since it was fetched, another thread of the program may have written to the rest of the chunk.
                let mut now = Fetched::default();
                self.read(&origin, &mut now).map_err(at)?;
                if now != *fetched {
                    let mut again = PerChunk::default();
                    work.compress(chunk, &[now], &mut again)?;
                    *stream = again.0.swap_remove(0);
                }
            }
            self.write(&origin, stream).map_err(at)?;
            *written = chunk + 1;
        }
        Ok(())
    }
}
