//! What a thread does with one chunk of a dataset that is read.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use quire_codec::{Unverified, memory};
use quire_gpu::{ChunkRoom, Staging};

use super::Outcome;
use super::crew::{Fault, Fetched, Work};
use super::dataset::Facts;
use super::strided::{Stores, Strided};
use crate::backend;
use crate::callbacks::check_layout;
use crate::fence::{Buffers, Failure, with_kept_buffers};
use crate::h5api::chunks::Location;
use crate::message::OsError;

/// A read: where chunks come from, and where their values go.
pub(super) struct Reading {
    pub(super) facts: Facts,
    pub(super) target: Strided,
    /// Where the file has the chunks, by their numbers, if the threads read it; without that, the calling thread fetches them.
    pub(super) source: Option<(File, Vec<Option<Location>>)>,
    /// How values are stored in the array.
    pub(super) stores: Stores,
}

impl Work for Reading {
    type Fetched = Fetched;
    type Made = ();

    fn compute(&self, chunk: usize, fetched: &mut Fetched, (): &mut ()) -> Result<(), Fault> {
        Ok(self.read(chunk, fetched)?)
    }

    fn chunk_bytes(&self) -> usize {
        self.facts.dense.bytes()
    }

    fn is_of_threads_alone(&self) -> bool {
        self.source.is_some()
    }
}

impl Reading {
    fn read(&self, chunk: usize, fetched: &mut Fetched) -> Outcome<()> {
        if let Some((file, locations)) = &self.source {
            match locations[chunk] {
                Some(location) => read_from(file, location, fetched)?,
                None => fetched.bytes.clear(),
            }
        }
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

pub(super) fn read_from(file: &File, location: Location, fetched: &mut Fetched) -> Outcome<()> {
    let length = usize::try_from(location.bytes).map_err(|_| quire_codec::Error::OutOfMemory { bytes: location.bytes })?;
    memory::resize(&mut fetched.bytes, length)?;
    fetched.mask = location.mask;
    file.read_exact_at(&mut fetched.bytes, location.address).map_err(|error| {
        let Location { address, bytes, .. } = location;
        match error.raw_os_error() {
            Some(number) => {
                Failure::hdf5(format_args!("its {bytes} bytes at {address} of the file cannot be read: {}", OsError(number)))
            }
            None => {
                Failure::hdf5(format_args!("its {bytes} bytes at {address} of the file cannot be read: the file ends before"))
            }
        }
    })
}
