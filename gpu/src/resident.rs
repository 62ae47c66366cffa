//! Chunks whose values are in device memory, compressed and decompressed in batches.
//!
//! ```text
//! caller's array ─ boxes: chunks in C order, unless they are ─┐                              ┌─> streams in pinned memory ─> caller
//!                                                              ├─ compress: a set at a time ─┤
//! caller's chunks, read where they are ───────────────────────┘                              └─> streams in device memory
//!
//! streams ─ decompress: a set at a time ─> caller's chunks, or chunks in C order ─ boxes ─> caller's array
//! ```
//!
//! A batch is cut into sets, whose memory is bounded: see [`sets`]. A few threads, up to [`MAX_SET_SESSIONS`](crate::set_session::MAX_SET_SESSIONS), take the
//! sets in their order. Each thread has a session of its own. A set is a sequence of launches and waits. Sets overlap because their threads do. The predictors
//! of the first sets are chosen together, before these sets begin.
//!
//! # Which chunks the host looks at
//!
//! | chunks | the host gets |
//! |---|---|
//! | floating-point numbers with an absolute bound, whose predictor is chosen on tiles and that have no lattice; constant chunks | their predictors: nothing of their values |
//! | on a lattice; small ones; all others whose bound needs no stream to be settled: `rel`, `pwrel`, exact bits, integers | the values, to choose bound, grid and predictor; they are compressed where they are |
//! | `psnr`, `ratio`; streams longer than their chunks, which are made again with the exact bits; layouts that are not for the GPU | the values, to compress them |
//! | to decompress: stored ones, and streams that the GPU refuses | the stream, to verify and to decode it |

mod axes;
mod boxes;
mod choosing;
mod compress;
mod decompress;
mod deliver;
mod packed;
mod sets;

use std::fmt;
use std::ops::Range;

use quire_codec::{Layout, memory};

pub use axes::{ArrayAxes, Part};
pub use decompress::ResidentStream;
pub use packed::PackedStreams;

use crate::declare::Address;
use crate::device::Device;
use crate::error::{Error, Result, reason};
use crate::launch::{CallersEvent, ThreadGuard};
use crate::set_session::SetSession;

/// Chunks of one layout whose values are in device memory.
#[derive(Clone, Copy)]
pub struct Resident<'a> {
    /// Axes of the chunks and of the arrays that have them.
    pub axes: &'a ArrayAxes,
    /// Where each chunk is.
    pub parts: &'a [Part<'a>],
    /// The caller's `CUstream` as a number: the batch waits for the work that it has. `None` for no wait.
    pub stream: Option<u64>,
}

impl Resident<'_> {
    /// Whether the kernels can work on a chunk where it is: all of it, in C order.
    fn is_dense(&self, part: &Part<'_>) -> bool {
        part.is_whole && self.axes.are_dense()
    }

    /// The addresses of a set's chunks in C order: where the caller has them, or in memory of the session.
    fn dense_addresses(&self, session: &mut SetSession, set: &Range<usize>, chunk_len: usize) -> Result<Vec<Address>> {
        let parts = &self.parts[set.clone()];
        let stride = chunk_len.next_multiple_of(256);
        session.chunks.grow(parts.iter().filter(|part| !self.is_dense(part)).count() * stride)?;
        let mut next = session.chunks.address();
        let mut slot = || {
            next += stride as u64;
            next - stride as u64
        };
        Ok(memory::collect(parts.iter().map(|part| if self.is_dense(part) { part.address } else { slot() }))?)
    }
}

impl Device {
    /// Waits for the work that a caller's stream has, a `CUstream` as a number.
    ///
    /// # Errors
    /// `Unsupported` for a stream that cannot be waited for.
    ///
    /// # Safety
    /// The stream is one of the device's primary context.
    pub unsafe fn wait_for(&'static self, stream: u64) -> Result<()> {
        let _thread = ThreadGuard::new();
        CallersEvent::record(&self.loaded().context, stream)?.wait()
    }

    /// Whether values of a type are compressed and decompressed in the device's memory.
    ///
    /// # Errors
    /// `Unsupported` for pairs, which the host splits into their parts.
    pub fn check_resident(layout: &Layout) -> Result<()> {
        if layout.scalar.is_pair() {
            return Err(Error::Unsupported(reason!(
                "{} values in a GPU's memory: only single numbers are compressed there; copy the array to the host",
                layout.scalar
            )));
        }
        Ok(())
    }
}

/// Groups things by their variant, in the order of each group's first thing.
fn by_variant<T, V: PartialEq>(things: impl IntoIterator<Item = T>, variant: impl Fn(&T) -> V) -> Result<Vec<Vec<T>>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for thing in things {
        match groups.iter_mut().find(|group| variant(&group[0]) == variant(&thing)) {
            Some(group) => memory::push(group, thing)?,
            None => memory::push(&mut groups, memory::collect([thing])?)?,
        }
    }
    Ok(groups)
}

/// Why a batch came to nothing.
#[derive(Debug)]
pub struct Failure {
    /// The first chunk that failed, if it was one.
    pub chunk: Option<usize>,
    /// What went wrong.
    pub fault: Fault,
}

/// What went wrong.
#[derive(Debug)]
pub enum Fault {
    /// The GPU's part.
    Gpu(Error),
    /// What the codec says of a bound, a layout or a stream, and a lack of the host's memory.
    Codec(quire_codec::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::NoHostMemory(bytes) => Self::Codec(quire_codec::Error::OutOfMemory { bytes }),
            error => Self::Gpu(error),
        }
    }
}

impl From<quire_codec::Error> for Fault {
    fn from(error: quire_codec::Error) -> Self {
        Self::Codec(error)
    }
}

impl<E> From<E> for Failure
where
    Fault: From<E>,
{
    fn from(error: E) -> Self {
        Self { chunk: None, fault: error.into() }
    }
}

impl Failure {
    /// The failure of one chunk.
    pub(crate) fn of(chunk: usize, error: impl Into<Fault>) -> Self {
        Self { chunk: Some(chunk), fault: error.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu(error) => error.fmt(formatter),
            Self::Codec(error) => error.fmt(formatter),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chunk) = self.chunk {
            write!(formatter, "chunk {chunk}: ")?;
        }
        self.fault.fmt(formatter)
    }
}
