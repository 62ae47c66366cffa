//! Boxes whose values are in a GPU's memory. Chunks are taken in portions; each portion is a batch on that GPU.
//!
//! ```text
//!            calling thread: HDF5                       threads: no HDF5
//! write      old chunks, where parts of them stay ─> tray ─> compress on the GPU    ─> tray ─> H5Dwrite_chunk
//! read       H5Dread_chunk, or their addresses    ─> tray ─> decompress on the GPU  ─> the array
//! ```

use std::mem;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use quire_codec::{Config, MOST_ELEMENT_BYTES, Unverified, memory};
use quire_gpu::{ArrayAxes, Device, Part, Resident, ResidentStream};

use super::Outcome;
use super::crew::{Fault, Fetched, Work};
use super::dataset::Facts;
use super::portions::{InPortions, PerChunk};
use super::reading::Source;
use super::strided::Strided;
use crate::backend::resident;
use crate::callbacks::check_layout;
use crate::fence::with_kept_buffers;

/// Bytes of the values of a portion, unless a chunk has more: enough for kernels to be fast, and few enough for HDF5 to begin soon.
const PORTION_BYTES: u64 = 64 << 20;

/// The chunks of a box, cut into portions.
pub(super) struct Portions {
    pub(super) facts: Facts,
    values: Strided,
    axes: ArrayAxes,
    device: &'static Device,
    /// Chunks of a portion.
    chunks: usize,
}

/// A write from a GPU's memory.
pub(super) struct ResidentWriting {
    pub(super) portions: Portions,
    config: Config<'static>,
}

/// A read into a GPU's memory.
pub(super) struct ResidentReading {
    pub(super) portions: Portions,
    /// The file, if the threads read it; otherwise the calling thread fetches the chunks.
    pub(super) source: Option<Source>,
}

impl Portions {
    /// # Errors
    /// `InvalidArgument` for chunks with more axes than the kernels take, and for pairs.
    pub(super) fn new(facts: Facts, values: Strided, device: &'static Device) -> Outcome<Self> {
        resident::check_type(&facts.layout)?;
        let strides = memory::collect(values.strides().iter().map(|&stride| stride as i64))?;
        let axes = ArrayAxes::new(&facts.chunk, Some(&strides), facts.layout.scalar.size())?;
        let chunks = (PORTION_BYTES / facts.layout.chunk_bytes()).max(1) as usize;
        Ok(Self { facts, values, axes, device, chunks })
    }

    /// Number of portions.
    pub(super) fn count(&self) -> usize {
        self.facts.touched.count().div_ceil(self.chunks)
    }

    /// Numbers of a portion's chunks.
    fn chunks_of(&self, portion: usize) -> Range<usize> {
        portion * self.chunks..((portion + 1) * self.chunks).min(self.facts.touched.count())
    }

    fn part<'a>(&self, chunk: usize, under: Option<&'a [u8]>) -> Part<'a> {
        let overlap = self.facts.touched.overlap(chunk);
        let address = self.values.number_of(&overlap);
        self.axes.part(address, |axis| overlap.in_chunk[axis] as u64, |axis| overlap.lens[axis] as u64, under)
    }
}

/// A value of up to 8 bytes, of the room that pairs need.
fn first_bytes(filling: &[u8; MOST_ELEMENT_BYTES]) -> [u8; 8] {
    let mut value = [0; 8];
    value.copy_from_slice(&filling[..8]);
    value
}

/// A failure of a batch that begins with chunk `first`.
fn fault_behind(first: usize, failure: quire_gpu::Failure) -> Fault {
    let Fault { chunk, failure } = failure.into();
    Fault { chunk: chunk.map(|chunk| first + chunk), failure }
}

impl ResidentWriting {
    /// # Errors
    /// `Unsuitable` for chunks that depend on those before.
    pub(super) fn new(portions: Portions, config: &Config<'static>) -> Outcome<Self> {
        Ok(Self { portions, config: resident::config(config)? })
    }
}

impl InPortions for ResidentWriting {
    fn facts(&self) -> &Facts {
        &self.portions.facts
    }

    fn chunks_of(&self, portion: usize) -> Range<usize> {
        self.portions.chunks_of(portion)
    }

    fn is_fetched(&self, chunk: usize) -> bool {
        !self.portions.facts.touched.overlap(chunk).is_whole
    }

    fn compress(&self, first: usize, fetched: &[Fetched], made: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        let Portions { facts, axes, device, .. } = &self.portions;
        let mut old = memory::collect(fetched.iter().map(|_| None))?;
        for (number, fetched) in fetched.iter().enumerate() {
            if self.is_fetched(first + number) {
                let at = |failure| Fault { chunk: Some(first + number), failure };
                let mut values = Vec::new();
                memory::resize(&mut values, facts.dense.bytes()).map_err(|error| at(error.into()))?;
                with_kept_buffers(|kept| facts.decode(fetched, values.as_mut_slice().into(), kept)).map_err(at)?;
                old[number] = Some(values);
            }
        }
        let parts =
            memory::collect(old.iter().enumerate().map(|(number, old)| self.portions.part(first + number, old.as_deref())))?;
        let streams = Mutex::new(made.for_chunks(fetched.len())?);
        let take = |chunk: usize, stream: &[u8]| {
            let lock = || streams.lock().unwrap_or_else(PoisonError::into_inner);
            let mut copy = mem::take(&mut lock()[chunk]);
            copy.clear();
            memory::extend(&mut copy, stream)?;
            lock()[chunk] = copy;
            Ok(())
        };
        let resident = Resident { axes, parts: &parts, stream: None };
        // SAFETY: the caller of `Strided::new` vouches for the values, whose stream was waited for when the transfer began.
        let outcome = unsafe { device.compress_resident(&resident, &facts.layout, &self.config, &take) };
        outcome.map_err(|failure| fault_behind(first, failure))
    }
}

impl From<quire_gpu::Failure> for Fault {
    fn from(quire_gpu::Failure { chunk, fault }: quire_gpu::Failure) -> Self {
        Self { chunk, failure: resident::failure(fault) }
    }
}

impl Work for ResidentWriting {
    type Fetched = PerChunk<Fetched>;
    type Made = PerChunk<Vec<u8>>;

    fn compute(&self, portion: usize, fetched: &mut PerChunk<Fetched>, made: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        self.compress(self.first_chunk(portion), &fetched.0, made)
    }

    fn chunk_bytes(&self) -> usize {
        self.portions.facts.dense.bytes()
    }

    fn first_chunk(&self, portion: usize) -> usize {
        self.portions.chunks_of(portion).start
    }
}

impl InPortions for ResidentReading {
    fn facts(&self) -> &Facts {
        &self.portions.facts
    }

    fn chunks_of(&self, portion: usize) -> Range<usize> {
        self.portions.chunks_of(portion)
    }

    fn is_fetched(&self, _: usize) -> bool {
        self.source.is_none()
    }
}

impl Work for ResidentReading {
    type Fetched = PerChunk<Fetched>;
    type Made = PerChunk<Vec<u8>>;

    fn compute(&self, portion: usize, fetched: &mut PerChunk<Fetched>, _: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        let Portions { facts, axes, device, .. } = &self.portions;
        let chunks = self.portions.chunks_of(portion);
        let first = chunks.start;
        if let Some(source) = &self.source {
            source.read(chunks.clone(), fetched)?;
        }
        let mut streams = Vec::new();
        memory::reserve(&mut streams, chunks.len())?;
        for (number, fetched) in fetched.0.iter().enumerate() {
            let stream = if fetched.bytes.is_empty() {
                ResidentStream::Value(first_bytes(&facts.filling))
            } else if fetched.mask & 1 == 1 {
                // HDF5 has stored the values without the filter.
                ResidentStream::Values(&fetched.bytes)
            } else {
                let checked =
                    Unverified::read(&fetched.bytes).and_then(|stream| check_layout(&stream.header().layout, &facts.layout));
                checked.map_err(|error| Fault { chunk: Some(first + number), failure: error.into() })?;
                ResidentStream::Host(&fetched.bytes)
            };
            streams.push(stream);
        }
        let parts = memory::collect(chunks.map(|chunk| self.portions.part(chunk, None)))?;
        let resident = Resident { axes, parts: &parts, stream: None };
        // SAFETY: as in `compress`; strides keep values apart (`Transfer::begin`), and the crew gives each chunk to one thread.
        let outcome = unsafe { device.decompress_resident(&streams, &resident, &facts.layout) };
        resident::note_refused(outcome.map_err(|failure| fault_behind(first, failure))?);
        Ok(())
    }

    fn chunk_bytes(&self) -> usize {
        self.portions.facts.dense.bytes()
    }

    fn is_of_threads_alone(&self) -> bool {
        self.source.is_some()
    }

    fn first_chunk(&self, portion: usize) -> usize {
        self.portions.chunks_of(portion).start
    }
}
