//! Decompressing a batch of streams into resident chunks.
//!
//! ```text
//! streams on the host ─ parameters in front of each ─> one transfer ─┐
//!                                                                     ├─ runs ─> slots ─ launches for each variant ─> chunks ─ boxes ─> caller's array
//! streams on the device: parameters alone ───────────────────────────┘
//! ```

use std::ops::Range;

use quire_codec::stages::exceptions::most_listed;
use quire_codec::stages::plane::PLANE_HEADER_LEN;
use quire_codec::{Coding, Layout, Unverified, Workspace, memory};

use super::boxes::{Boxes, Way, copy_runs};
use super::packed::aligned;
use super::sets::{in_sets, set_len};
use super::{Failure, Fault, Resident, by_variant};
use crate::declare::Address;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::job::{CopiedBox, CopiedRun, DECODE_OK, DecodeParameters, DecodeState};
use crate::launch::Kernels;
use crate::memory::{bytes_of, upload};
use crate::parameters::decode_parameters;
use crate::plan::{DecodePlan, DecodeVariant, Key, Plan};
use crate::set_session::SetSession;

/// Most bytes of a stream's header and of a body's fixed part, with room to spare.
const FIXED: usize = 128;
/// Most variants of streams of one layout: exceptions, rows, columns, interpolation, ways of writing, tokens or bit planes.
const VARIANTS: usize = 2 * 2 * 3 * 2 * 2 * 3;

/// A stream to decompress.
#[derive(Debug, Clone, Copy)]
pub enum ResidentStream<'a> {
    /// In the host's memory.
    Host(&'a [u8]),
    /// In memory of the device that has the chunks.
    Device {
        /// Address of its first byte.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// No stream: the chunk's values as they are.
    Values(&'a [u8]),
    /// No stream: all values are this one, which is in the first bytes.
    Value([u8; 8]),
}

/// A batch that is being decompressed.
struct Decompressing<'a> {
    device: &'static Device,
    streams: &'a [ResidentStream<'a>],
    values: &'a Resident<'a>,
    layout: &'a Layout,
    is_for_kernels: bool,
    /// Bytes of a stream in device memory that the host looks at: all that is in front of the first plane, and that plane's header.
    head: usize,
}

/// What a chunk is made of.
enum Source<'a> {
    /// The kernels decode the stream.
    Kernels { stream: ResidentStream<'a>, parameters: DecodeParameters, variant: DecodeVariant },
    /// All values are this one.
    Constant(u64),
    /// The host has decoded the stream.
    Decoded(Vec<u8>),
}

impl Device {
    /// Decompresses streams into chunks in device memory. Returns when the values are there, and how many streams the GPU refused that the CPU decodes: a bug,
    /// if it is not 0. After an error the values are unspecified.
    ///
    /// # Errors
    /// The first failure, and its chunk.
    ///
    /// # Panics
    /// If there are more streams than chunks, or fewer.
    ///
    /// # Safety
    /// The parts lead to memory of this device that nobody else uses meanwhile, and so do the addresses of streams; the stream is one of the device's primary
    /// context.
    pub unsafe fn decompress_resident(
        &'static self,
        streams: &[ResidentStream<'_>],
        values: &Resident<'_>,
        layout: &Layout,
    ) -> std::result::Result<usize, Failure> {
        Self::check_resident(layout)?;
        let count = streams.len();
        assert_eq!(count, values.parts.len(), "a stream for each chunk");
        let is_for_kernels = Self::check_layout(layout).is_ok();
        let listed = most_listed(layout.shape.elements()) as usize * (size_of::<u32>() + layout.scalar.size());
        let head = (FIXED + listed + PLANE_HEADER_LEN).next_multiple_of(256);
        let batch = Decompressing { device: self, streams, values, layout, is_for_kernels, head };
        let job_len = DecodePlan::needed(&batch.key(1, DecodeVariant::LARGEST));
        let refused = std::sync::atomic::AtomicUsize::new(0);
        let work = |session: &mut SetSession, set: Range<usize>| {
            let found = batch.decompress(session, &set)?;
            refused.fetch_add(found, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        in_sets(self, count, set_len(count, layout.chunk_bytes(), job_len), values.stream, &work)?;
        Ok(refused.into_inner())
    }
}

impl<'a> Decompressing<'a> {
    fn kernels(&self) -> &'static Kernels {
        &self.device.loaded().kernels
    }

    fn chunk_len(&self) -> usize {
        self.layout.chunk_bytes() as usize
    }

    fn key(&self, chunks: usize, variant: DecodeVariant) -> Key<DecodeVariant> {
        Key { layout: *self.layout, chunks, variant }
    }

    /// Decompresses a set. Returns how many streams the GPU refused and the CPU decoded.
    fn decompress(&self, session: &mut SetSession, set: &Range<usize>) -> std::result::Result<usize, Failure> {
        let count = set.len();
        // A chunk needs its address, boxes to fill and to scatter it, and runs for its stream's head, its parameters, its stream, and values that the host
        // decodes.
        let table_len = size_of::<Address>() + 2 * size_of::<CopiedBox>() + 4 * size_of::<CopiedRun>();
        // Each variant has tables of addresses and runs. The rest are tables of the whole set.
        session.reserve_tables(count * table_len, 2 * count.min(VARIANTS) + 8)?;
        session.results.grow(count * self.head.max(size_of::<DecodeState>()))?;
        let sources = self.sources(session, set)?;
        let targets = self.values.dense_addresses(session, set, self.chunk_len())?;
        let staged = self.stage(session, &sources)?;
        let coded = sources.iter().enumerate().filter_map(|(chunk, source)| match source {
            Source::Kernels { stream, variant, .. } => Some((chunk, *stream, *variant)),
            _ => None,
        });
        let mut refused = Vec::new();
        for group in by_variant(coded, |&(.., variant)| variant)? {
            self.decode_group(session, &group, &staged, &targets, &mut refused)?;
        }
        for &chunk in &refused {
            // The CPU's decoder finds the reason and has the words for it.
            let decoded = self
                .decode_on_host(session, self.streams[set.start + chunk])
                .map_err(|fault| Failure::of(set.start + chunk, fault))?;
            session.ring.send(&session.stream, &[], &decoded, targets[chunk])?;
            session.wait()?;
        }
        self.place(session, set, &sources, &staged, &targets)?;
        session.wait()?;
        Ok(refused.len())
    }

    /// Looks at the streams' headers.
    fn sources(&self, session: &mut SetSession, set: &Range<usize>) -> std::result::Result<Vec<Source<'a>>, Failure> {
        let streams = &self.streams[set.clone()];
        let mut heads = Vec::new();
        memory::reserve(&mut heads, streams.len())?;
        for (chunk, stream) in streams.iter().enumerate() {
            if let ResidentStream::Device { address, length } = *stream {
                heads.push(CopiedRun {
                    from: address,
                    to: session.results.address() + (chunk * self.head) as u64,
                    bytes: length.min(self.head as u64),
                });
            }
        }
        copy_runs(session, self.kernels(), &heads)?;
        if !heads.is_empty() {
            session.wait()?;
        }
        let mut sources = Vec::new();
        memory::reserve(&mut sources, streams.len())?;
        for (chunk, &stream) in streams.iter().enumerate() {
            let source = self.source(session, chunk, stream).map_err(|fault| Failure::of(set.start + chunk, fault))?;
            sources.push(source);
        }
        Ok(sources)
    }

    fn source(
        &self,
        session: &mut SetSession,
        chunk: usize,
        stream: ResidentStream<'a>,
    ) -> std::result::Result<Source<'a>, Fault> {
        let (head, length) = match stream {
            ResidentStream::Value(value) => return Ok(Source::Constant(u64::from_le_bytes(value))),
            ResidentStream::Values(values) => return Ok(Source::Decoded(self.copy_of(values)?)),
            ResidentStream::Host(bytes) => (bytes, bytes.len()),
            ResidentStream::Device { length, .. } => {
                let length = usize::try_from(length).map_err(|_| quire_codec::Error::OutOfMemory { bytes: length })?;
                (session.results.bytes(chunk * self.head..chunk * self.head + length.min(self.head)), length)
            }
        };
        let found = match Unverified::read(head) {
            // The header of a stored stream says how long that is.
            Err(_) if length > head.len() => return Ok(Source::Decoded(self.decode_on_host(session, stream)?)),
            found => found?,
        };
        let header = found.header();
        let is_right = header.layout == *self.layout;
        if is_right && self.is_for_kernels && header.coding.has_planes() {
            match decode_parameters(found, length) {
                // The launches are planned by the header of the first plane.
                Ok((_, parameters, variant))
                    if length <= head.len() || parameters.body as usize + PLANE_HEADER_LEN <= head.len() =>
                {
                    return Ok(Source::Kernels { stream, parameters, variant: variant.of_batch() });
                }
                Ok(_) | Err(Error::Refused | Error::Unsupported(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let is_constant = is_right && header.coding == Coding::Constant;
        let size = self.layout.scalar.size();
        if is_constant && length <= head.len() {
            let verified = found.verify()?;
            if let Some(value) = verified.body().get(..size) {
                let mut bytes = [0; 8];
                bytes[..size].copy_from_slice(value);
                return Ok(Source::Constant(u64::from_le_bytes(bytes)));
            }
        }
        Ok(Source::Decoded(self.decode_on_host(session, stream)?))
    }

    fn copy_of(&self, values: &[u8]) -> quire_codec::Result<Vec<u8>> {
        let mut copy = Vec::new();
        if values.len() != self.chunk_len() {
            let text = format_args!("there are {} bytes of values, the chunk has {}", values.len(), self.chunk_len());
            return Err(quire_codec::Error::invalid(text));
        }
        memory::extend(&mut copy, values)?;
        Ok(copy)
    }

    /// Verifies a stream and decodes it on the CPU.
    fn decode_on_host(&self, session: &mut SetSession, stream: ResidentStream<'_>) -> std::result::Result<Vec<u8>, Fault> {
        let mut fetched = Vec::new();
        let bytes = match stream {
            ResidentStream::Value(_) | ResidentStream::Values(_) => unreachable!("there is no stream to decode"),
            ResidentStream::Host(bytes) => bytes,
            ResidentStream::Device { address, length } => {
                let length = usize::try_from(length).map_err(|_| quire_codec::Error::OutOfMemory { bytes: length })?;
                memory::resize(&mut fetched, length)?;
                session.ring.receive(&session.stream, address, &mut fetched)?;
                &fetched
            }
        };
        let verified = Unverified::read(bytes)?.verify()?;
        let found = verified.header().layout;
        // A stream of another shape is accepted if it has the same type and length.
        let bytes_of = |layout: &Layout| (layout.scalar, layout.byte_order, layout.chunk_bytes());
        if bytes_of(&found) != bytes_of(self.layout) {
            let text = format_args!("the stream holds {found:?}, the chunk is {:?}", self.layout);
            return Err(quire_codec::Error::invalid(text).into());
        }
        let mut values = Vec::new();
        memory::resize(&mut values, self.chunk_len())?;
        session.reserve_workspaces(1)?;
        let workspace: &mut Workspace = &mut session.workspaces[0];
        workspace.decompress_verified(&verified, &mut values)?;
        Ok(values)
    }

    /// Sends the parameters, streams and values that the host has, in one piece. Returns the address of each chunk's part.
    fn stage(&self, session: &mut SetSession, sources: &[Source<'_>]) -> Result<Vec<Address>> {
        let staged_len = |source: &Source<'_>| -> usize {
            match source {
                Source::Kernels { stream: ResidentStream::Host(bytes), .. } => size_of::<DecodeParameters>() + bytes.len(),
                Source::Kernels { .. } => size_of::<DecodeParameters>(),
                Source::Constant(_) => size_of::<u64>(),
                Source::Decoded(values) => values.len(),
            }
        };
        let total: u64 = sources.iter().map(|source| aligned(staged_len(source) as u64)).sum();
        session.on_host.grow(total as usize)?;
        session.streams.grow(total as usize)?;
        let mut at = 0;
        let staged = memory::collect(sources.iter().map(|source| {
            let place = at;
            at += aligned(staged_len(source) as u64) as usize;
            place
        }))?;
        for (source, &at) in sources.iter().zip(&staged) {
            let mut put = |at: usize, bytes: &[u8]| session.on_host.bytes_mut(at..at + bytes.len()).copy_from_slice(bytes);
            match source {
                Source::Kernels { stream, parameters, .. } => {
                    put(at, bytes_of(parameters));
                    if let ResidentStream::Host(bytes) = stream {
                        put(at + size_of::<DecodeParameters>(), bytes);
                    }
                }
                Source::Constant(value) => put(at, bytes_of(value)),
                Source::Decoded(values) => put(at, values),
            }
        }
        if total > 0 {
            upload(&session.stream, session.on_host.address(), session.streams.address(), total as usize)?;
        }
        let base = session.streams.address();
        Ok(memory::collect(staged.into_iter().map(|at| base + at as u64))?)
    }

    /// Decodes streams of one variant. Adds the chunks that the kernels refuse to `refused`.
    fn decode_group(
        &self,
        session: &mut SetSession,
        group: &[(usize, ResidentStream<'_>, DecodeVariant)],
        staged: &[Address],
        targets: &[Address],
        refused: &mut Vec<usize>,
    ) -> Result<()> {
        const HEAD_LEN: u64 = size_of::<DecodeParameters>() as u64;
        let loaded = self.device.loaded();
        let targets = memory::collect(group.iter().map(|&(chunk, ..)| targets[chunk]))?;
        let plan: DecodePlan = session.place(loaded, &self.key(group.len(), group[0].2), &targets)?;
        let mut runs = Vec::new();
        memory::reserve(&mut runs, 2 * group.len())?;
        for (slot, &(chunk, stream, _)) in group.iter().enumerate() {
            let to = plan.job.input.address() + slot as u64 * plan.job.input_stride;
            let bytes = if let ResidentStream::Host(bytes) = stream { bytes.len() as u64 } else { 0 };
            runs.push(CopiedRun { from: staged[chunk], to, bytes: HEAD_LEN + bytes });
            if let ResidentStream::Device { address, length } = stream {
                runs.push(CopiedRun { from: address, to: to + HEAD_LEN, bytes: length });
            }
        }
        copy_runs(session, &loaded.kernels, &runs)?;
        plan.enqueue(&session.stream, loaded)?;
        session.wait()?;
        for (slot, &(chunk, ..)) in group.iter().enumerate() {
            let state: DecodeState = session.result(slot);
            if state.error != DECODE_OK {
                memory::push(refused, chunk)?;
            }
        }
        Ok(())
    }

    /// Starts writing constant chunks and those that the host has decoded, and copying chunks to where the caller wants them.
    fn place(
        &self,
        session: &mut SetSession,
        set: &Range<usize>,
        sources: &[Source<'_>],
        staged: &[Address],
        targets: &[Address],
    ) -> Result<()> {
        let Resident { axes, parts, .. } = *self.values;
        let kernels = self.kernels().of_type(self.layout.scalar);
        let (mut filled, mut scattered, mut decoded) = (Boxes::new(Way::Fill), Boxes::new(Way::Scatter), Vec::new());
        for ((source, part), (&staged, &target)) in sources.iter().zip(&parts[set.clone()]).zip(staged.iter().zip(targets)) {
            match source {
                Source::Kernels { .. } => {}
                Source::Constant(_) => filled.add_filled(axes, staged, target)?,
                Source::Decoded(values) => {
                    memory::push(&mut decoded, CopiedRun { from: staged, to: target, bytes: values.len() as u64 })?;
                }
            }
            if target != part.address && !part.is_empty() {
                scattered.add(part, target)?;
            }
        }
        copy_runs(session, self.kernels(), &decoded)?;
        filled.launch(session, kernels, axes)?;
        scattered.launch(session, kernels, axes)
    }
}
