//! Streams of a batch of resident chunks on their way to the caller.
//!
//! ```text
//! streams of a set, packed ─ one transfer ─> pinned memory ─> caller
//! streams of a set, where they were made ─ copies ─> behind those of the set before, in the caller's device memory
//! ```

use std::ops::Range;

use quire_codec::{Config, Layout, memory};

use super::boxes::copy_runs;
use super::compress::{Compressing, Stream};
use super::packed::{PackedStreams, aligned};
use super::sets::{Work, in_sets};
use super::{Failure, Resident};
use crate::device::Device;
use crate::job::CopiedRun;
use crate::launch::Kernels;
use crate::memory::{download, upload};
use crate::set_session::SetSession;

impl Device {
    /// Compresses chunks in device memory to streams in the host's. `take` gets the number of each chunk and its stream, on several threads and in any order.
    /// Returns when the values are no longer needed.
    ///
    /// # Errors
    /// The first failure, and its chunk.
    ///
    /// # Safety
    /// The parts lead to values in memory of this device that nobody changes meanwhile; the stream is one of the device's primary context.
    pub unsafe fn compress_resident(
        &'static self,
        values: &Resident<'_>,
        layout: &Layout,
        config: &Config<'_>,
        take: &(dyn Fn(usize, &[u8]) -> quire_codec::Result<()> + Sync),
    ) -> Result<(), Failure> {
        let batch = Compressing::new(self, values, layout, config)?;
        deliver(&batch, To::Host(take))
    }

    /// Compresses chunks in device memory to streams there, which are complete when this returns. [`Device::compress_resident`] writes them to the host.
    ///
    /// # Errors
    /// Those of [`Device::compress_resident`], and `InvalidArgument` if there is no room for the streams.
    ///
    /// # Safety
    /// The rules of [`Device::compress_resident`] hold, and the target is device memory of its capacity that nobody else uses meanwhile.
    pub unsafe fn compress_resident_to(
        &'static self,
        values: &Resident<'_>,
        layout: &Layout,
        config: &Config<'_>,
        packed: &PackedStreams<'_>,
    ) -> Result<(), Failure> {
        let batch = Compressing::new(self, values, layout, config)?;
        deliver(&batch, To::Device(packed))?;
        Ok(packed.check()?)
    }
}

/// Where streams go.
enum To<'a, 'p> {
    /// To the caller's function on the host.
    Host(&'a (dyn Fn(usize, &[u8]) -> quire_codec::Result<()> + Sync)),
    Device(&'a PackedStreams<'p>),
}

/// Makes the streams of a batch, a set at a time, and takes them where they go.
///
/// # Errors
/// The first failure, and its chunk.
fn deliver(batch: &Compressing<'_>, to: To<'_, '_>) -> Result<(), Failure> {
    let (count, stream) = (batch.values.parts.len(), batch.values.stream);
    in_sets(batch.device, count, batch.set_len(), stream, &Delivery { batch, to })
}

struct Delivery<'a, 'p> {
    batch: &'a Compressing<'a>,
    to: To<'a, 'p>,
}

impl Work for Delivery<'_, '_> {
    fn start_first(&self, session: &mut SetSession, chunks: usize) -> Result<bool, Failure> {
        Ok(self.batch.start_choosing(session, chunks)?)
    }

    fn end_first(&self, session: &mut SetSession, chunks: usize) -> Result<(), Failure> {
        Ok(self.batch.end_choosing(session, chunks)?)
    }

    fn run(&self, session: &mut SetSession, set: Range<usize>) -> Result<(), Failure> {
        let streams = self.batch.make(session, &set, matches!(self.to, To::Host(_)))?;
        match self.to {
            To::Host(take) => deliver_to_host(session, &set, &streams, take),
            To::Device(packed) => deliver_to_device(session, self.batch.kernels(), &set, &streams, packed),
        }
    }

    fn break_off(&self) {
        if let To::Device(packed) = self.to {
            packed.break_off();
        }
    }
}

/// Hands the packed streams of a set to the caller on the host.
fn deliver_to_host(
    session: &mut SetSession,
    set: &Range<usize>,
    streams: &[Stream],
    take: &(dyn Fn(usize, &[u8]) -> quire_codec::Result<()> + Sync),
) -> Result<(), Failure> {
    let base = session.streams.address();
    let end = |stream: &Stream| if let Stream::OnDevice { address, length } = stream { address - base + length } else { 0 };
    let packed_len = streams.iter().map(end).max().unwrap_or(0) as usize;
    if packed_len > 0 {
        session.on_host.grow(packed_len)?;
        download(&session.stream, base, session.on_host.address(), packed_len)?;
    }
    session.wait()?;
    for (chunk, stream) in set.clone().zip(streams) {
        let bytes = match stream {
            Stream::OnDevice { address, length } => {
                let at = (address - base) as usize;
                session.on_host.bytes(at..at + *length as usize)
            }
            Stream::OnHost(bytes) => bytes,
        };
        take(chunk, bytes).map_err(|error| Failure::of(chunk, error))?;
    }
    Ok(())
}

/// Copies the streams of a set to their places.
fn deliver_to_device(
    session: &mut SetSession,
    kernels: &Kernels,
    set: &Range<usize>,
    streams: &[Stream],
    packed: &PackedStreams<'_>,
) -> Result<(), Failure> {
    let on_host: u64 =
        streams.iter().map(|stream| if let Stream::OnHost(bytes) = stream { aligned(bytes.len() as u64) } else { 0 }).sum();
    session.on_host.grow(on_host as usize)?;
    let Some(target) = packed.place(set.start, streams.iter().map(Stream::len)) else {
        // The session's kernels still read the caller's values.
        return Ok(session.wait()?);
    };
    let (mut runs, mut to, mut sent) = (Vec::new(), target, 0);
    memory::reserve(&mut runs, streams.len())?;
    for stream in streams {
        match stream {
            Stream::OnDevice { address, length } => runs.push(CopiedRun { from: *address, to, bytes: *length }),
            Stream::OnHost(bytes) => {
                session.on_host.bytes_mut(sent..sent + bytes.len()).copy_from_slice(bytes);
                upload(&session.stream, session.on_host.address() + sent as u64, to, bytes.len())?;
                sent += aligned(bytes.len() as u64) as usize;
            }
        }
        to += aligned(stream.len());
    }
    copy_runs(session, kernels, &runs)?;
    Ok(session.wait()?)
}
