//! Whole arrays, on all cores, beside HDF5's filter pipeline and into the same files.
//!
//! HDF5 hands a filter one chunk at a time, on one thread. Here threads take chunks from a shared counter and make the streams that the filter
//! would have made; the calling thread puts them into the file with H5Dwrite_chunk. Reading goes the other way round.
//!
//! ```text
//!            calling thread: HDF5                          threads: no HDF5
//! write      old chunk, where parts of it stay ─> tray ─> overlay, backend::compress ─> tray ─> H5Dwrite_chunk
//! read       H5Dread_chunk, or its address     ─> tray ─> backend::decompress ─> the array
//! ```
//!
//! | module | |
//! |---|---|
//! | [`crew`] | threads, the counter, and the trays between them and the calling thread |
//! | [`touched`] | which chunks a box touches, and how much of each |
//! | [`strided`] | values of an array in memory, in any strides |
//! | [`batch`] | many chunks of one layout, without HDF5 |
//! | [`dataset`] | what a dataset has to be, and is |
//! | [`stored`] | which chunks a dataset has in its file, and where |
//! | [`portions`] | portions of chunks, and what HDF5 does for each of them |
//! | [`writing`], [`reading`] | what a thread does with one chunk of a dataset |
//! | [`resident`] | boxes whose values are in a GPU's memory |
//! | [`transfer`] | a write or a read, step by step |
//!
//! # Memory
//!
//! A transfer has [`TRAYS_A_THREAD`] trays for each thread. A tray has at most one stream from the file and one for the file, each at most 16 bytes longer than
//! its chunk. Where the values are in a GPU's memory, a tray has the streams of a portion of chunks. Besides, a thread takes what the filter takes
//! (`docs/guide.md`, memory), and room for a chunk if the chunk does not lie in one piece in the array.
//!
//! A thread that ends leaves its buffers to one of the next transfer (`fence::leave_buffers`). Chunks that go to a GPU are gathered and scattered in pinned
//! memory (`backend::staging`), where there is some; then they take no memory of the thread.
//!
//! # Order
//!
//! Chunks are written in the order of their indices. So a write that ends early has written the first chunks, and the file does not depend on the threads.

pub(crate) mod batch;
pub(crate) mod crew;
pub(crate) mod dataset;
mod portions;
mod reading;
mod resident;
pub(crate) mod stored;
pub(crate) mod strided;
pub(crate) mod touched;
pub(crate) mod transfer;
mod writing;

use std::num::NonZero;

use quire_codec::{AdaptPolicy, Config, Error};

use crate::backend::{self, MOST_THREADS};
use crate::fence::Failure;

/// A result of the functions of whole arrays.
pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

/// Chunks that may be on their way, for each thread: one that it works on, one that waits for it, one that waits for HDF5.
const TRAYS_A_THREAD: usize = 3;

/// The number of threads for this number of chunks: the argument, `QUIRE_THREADS`, or what the process may use by its affinity and its control group.
///
/// # Errors
/// `InvalidArgument` for a number that cannot be, or an environment that makes no sense.
pub(crate) fn threads_for(chunks: usize, argument: u32, config: Option<&Config<'_>>) -> Outcome<usize> {
    let argument = argument as usize;
    if argument > MOST_THREADS {
        return Err(Error::invalid(format_args!(
            "threads is {argument}: give 1 to {MOST_THREADS}, or 0 to let the library choose"
        ))
        .into());
    }
    let from_environment = backend::threads_of_environment()?;
    if config.is_some_and(|config| config.adapt == AdaptPolicy::History) {
        backend::log_once(format_args!(
            "adapt=history: one thread takes all chunks of an array, as each depends on those before"
        ));
        return Ok(1);
    }
    let wanted = NonZero::new(argument).or(from_environment);
    let threads = wanted.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get);
    Ok(threads.min(MOST_THREADS).min(chunks).max(1))
}

#[cfg(test)]
mod tests;
