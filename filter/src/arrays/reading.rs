//! What a thread does with one chunk of a dataset that is read.

use std::fmt;
use std::fs::File;
use std::ops::Range;

use quire_codec::{Unverified, memory};
use quire_gpu::{ChunkRoom, Staging};

use super::Outcome;
use super::crew::{Fault, Fetched, Work};
use super::dataset::Facts;
use super::portions::{InPortions, PerChunk};
use super::strided::{Stores, Strided};
use crate::backend;
use crate::callbacks::check_layout;
use crate::fence::{Buffers, Failure, with_kept_buffers};
use crate::h5api::chunks::Location;
use crate::message::OsError;
use crate::platform;

/// A read: where chunks come from, and where their values go.
pub(super) struct Reading {
    pub(super) facts: Facts,
    pub(super) target: Strided,
    /// The file, if the threads read it; otherwise the calling thread fetches the chunks.
    pub(super) source: Option<Source>,
    /// How values are stored in the array.
    pub(super) stores: Stores,
}

/// A file that threads read beside HDF5.
pub(super) struct Source {
    pub(super) file: File,
    /// Where the file has the chunks, by their numbers.
    pub(super) locations: Vec<Option<Location>>,
}

impl Source {
    /// Reads chunks.
    pub(super) fn read(&self, chunks: Range<usize>, fetched: &mut PerChunk<Fetched>) -> Result<(), Fault> {
        for (chunk, fetched) in chunks.clone().zip(fetched.for_chunks(chunks.len())?) {
            match self.locations[chunk] {
                Some(location) => {
                    read_from(&self.file, location, fetched).map_err(|failure| Fault { chunk: Some(chunk), failure })?;
                }
                None => fetched.bytes.clear(),
            }
        }
        Ok(())
    }
}

impl Work for Reading {
    type Fetched = PerChunk<Fetched>;
    type Made = PerChunk<Vec<u8>>;

    fn compute(&self, chunk: usize, fetched: &mut PerChunk<Fetched>, _: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        if let Some(source) = &self.source {
            source.read(self.chunks_of(chunk), fetched)?;
        }
        Ok(self.decode_to_array(chunk, &fetched.0[0])?)
    }

    fn chunk_bytes(&self) -> usize {
        self.facts.dense.bytes()
    }

    fn is_of_threads_alone(&self) -> bool {
        self.source.is_some()
    }
}

impl InPortions for Reading {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn is_fetched(&self, _: usize) -> bool {
        self.source.is_none()
    }
}

impl Reading {
    fn decode_to_array(&self, chunk: usize, fetched: &Fetched) -> Outcome<()> {
        let overlap = self.facts.touched.overlap(chunk);
        let staging = backend::staging(self.facts.dense.bytes());
        with_kept_buffers(|kept| {
            if staging.is_none()
                // SAFETY: strides keep values apart (`Transfer::begin`), and the crew gives each chunk to one thread.
                && let Some(values) = unsafe { self.target.piece_mut(&overlap, &self.facts.dense) }
            {
                return self.facts.decode(fetched, values.into(), kept);
            }
            self.facts.with_room(staging, kept, |mut room, kept| {
                self.facts.decode(fetched, room.lend(), kept)?;
                // SAFETY: as above.
                unsafe { self.target.scatter(&self.facts.touched, &overlap, &self.facts.dense, room.bytes, self.stores) };
                Ok(())
            })
        })
    }
}

impl Facts {
    /// Lends room for a chunk beside the array: pinned memory if there is some, or the thread's own.
    pub(super) fn with_room(
        &self,
        staging: Option<Staging>,
        kept: &mut Buffers,
        body: impl FnOnce(ChunkRoom<'_>, &mut Buffers) -> Outcome<()>,
    ) -> Outcome<()> {
        if let Some(mut staging) = staging {
            return body(staging.room(), kept);
        }
        let length = self.dense.bytes();
        memory::lengthen(&mut kept.chunk, length)?;
        // Taken out, as the body needs the other buffers.
        let mut values = std::mem::take(&mut kept.chunk);
        let outcome = body((&mut values[..length]).into(), kept);
        kept.chunk = values;
        outcome
    }

    /// The values of a chunk as the file has it, or of one that the file does not have.
    pub(super) fn decode(&self, fetched: &Fetched, room: ChunkRoom<'_>, kept: &mut Buffers) -> Outcome<()> {
        if fetched.bytes.is_empty() {
            self.fill(room.bytes);
            return Ok(());
        }
        if fetched.mask & 1 == 1 {
            // HDF5 has stored the values without the filter.
            if fetched.bytes.len() != room.bytes.len() {
                return Err(Failure::hdf5(format_args!(
                    "it was stored without the filter and has {} bytes, but {} are expected: the file is damaged",
                    fetched.bytes.len(),
                    room.bytes.len()
                )));
            }
            room.bytes.copy_from_slice(&fetched.bytes);
            return Ok(());
        }
        let stream = Unverified::read(&fetched.bytes)?;
        check_layout(&stream.header().layout, &self.layout)?;
        Ok(backend::decompress(stream, room, &mut kept.workspace)?)
    }
}

fn read_from(file: &File, location: Location, fetched: &mut Fetched) -> Outcome<()> {
    let length = usize::try_from(location.bytes).map_err(|_| quire_codec::Error::OutOfMemory { bytes: location.bytes })?;
    memory::resize(&mut fetched.bytes, length)?;
    fetched.mask = location.mask;
    platform::read_exact_at(file, &mut fetched.bytes, location.address).map_err(|error| {
        let Location { address, bytes, .. } = location;
        let reason: &dyn fmt::Display =
            if error.raw_os_error().is_some() { &OsError::of(&error) } else { &"the file ends before" };
        Failure::hdf5(format_args!("its {bytes} bytes at {address} of the file cannot be read: {reason}"))
    })
}
