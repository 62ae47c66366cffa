//! Many chunks of one layout, without HDF5.

use quire_codec::{Config, Error, Unverified};

use super::crew::{Crew, Fault, Work};
use super::{Outcome, threads_for};
use crate::backend;
use crate::fence::{Buffers, with_kept_buffers};

/// Chunks by their numbers. The calling thread has nothing to fetch or to store.
struct Batch<F> {
    work_on: F,
    chunk_bytes: usize,
}

impl<F: Fn(usize, &mut Buffers) -> Outcome<()> + Send + Sync + 'static> Work for Batch<F> {
    type Fetched = ();
    type Made = ();

    fn compute(&self, chunk: usize, (): &mut (), (): &mut ()) -> Result<(), Fault> {
        Ok(with_kept_buffers(|kept| (self.work_on)(chunk, kept))?)
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn is_of_threads_alone(&self) -> bool {
        true
    }
}

/// Works on the chunks 0 to `count`, of `chunk_bytes` bytes each, once, on any thread. `config` says whether they depend on each other.
///
/// # Errors
/// The first failure, and its chunk.
pub(crate) fn run(
    count: usize,
    chunk_bytes: usize,
    threads: u32,
    config: Option<&Config<'_>>,
    work_on: impl Fn(usize, &mut Buffers) -> Outcome<()> + Send + Sync + 'static,
) -> Result<(), Fault> {
    let threads = threads_for(count, threads, config)?;
    Crew::start(Batch { work_on, chunk_bytes }, count, threads)?.finish()
}

/// Decompresses a stream into values of a length that must be the stream's.
///
/// # Errors
/// As [`backend::decompress`], and `InvalidArgument` for another length.
pub(crate) fn decompress(stream: &[u8], values: &mut [u8], kept: &mut Buffers) -> quire_codec::Result<()> {
    let stream = Unverified::read(stream)?;
    let length = stream.header().layout.chunk_bytes();
    if length != values.len() as u64 {
        // A damaged extent is not the caller's mistake.
        stream.verify()?;
        return Err(Error::invalid(format_args!(
            "the stream holds an array of {length} bytes, there is room for {}: ask quire_read_layout first",
            values.len()
        )));
    }
    backend::decompress(stream, values.into(), &mut kept.workspace)
}
