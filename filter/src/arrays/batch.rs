//! Many chunks of one layout, without HDF5.

use quire_codec::{Config, Error, Unverified, memory};

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

/// Whether two ranges of bytes overlap.
pub(crate) fn share_bytes(left: u64, left_len: usize, right: u64, right_len: usize) -> bool {
    let begins_in = |at: u64, start: u64, len: usize| at.wrapping_sub(start) < len as u64;
    left_len > 0 && right_len > 0 && (begins_in(left, right, right_len) || begins_in(right, left, left_len))
}

/// Refuses arrays of `length` bytes that share bytes with one another, and streams, each an address and a length, that share bytes with an array. Threads write to
/// the arrays.
///
/// # Errors
/// `InvalidArgument`, which names both.
pub(crate) fn check_apart(
    arrays: impl Iterator<Item = u64>,
    length: usize,
    streams: impl Iterator<Item = (u64, usize)>,
) -> quire_codec::Result<()> {
    if isize::try_from(length).is_err() {
        // No array has that many bytes: each chunk's own check says so.
        return Ok(());
    }
    let mut sorted: Vec<(u64, usize)> = memory::collect(arrays.enumerate().map(|(chunk, address)| (address, chunk)))?;
    sorted.sort_unstable();
    for pair in sorted.windows(2) {
        if share_bytes(pair[0].0, length, pair[1].0, length) {
            let (first, second) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
            return Err(Error::invalid(format_args!("the arrays of the chunks {first} and {second} share bytes")));
        }
    }
    for (chunk, (address, stream_len)) in streams.enumerate() {
        // Arrays are apart: those that the stream may touch begin before its end, and the last of them reaches furthest.
        let behind = sorted.partition_point(|&(array, _)| array < address.saturating_add(stream_len as u64));
        if let Some(&(array, other)) = sorted[..behind].last()
            && share_bytes(array, length, address, stream_len)
        {
            return Err(Error::invalid(format_args!("the stream of chunk {chunk} and the array of chunk {other} share bytes")));
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_streams_that_share_bytes_are_found() {
        let check = |arrays: &[u64], streams: &[(u64, usize)]| {
            check_apart(arrays.iter().copied(), 100, streams.iter().copied()).map_err(|error| error.to_string())
        };
        assert!(check(&[300, 100, 200], &[(50, 50), (400, 9), (150, 0)]).is_ok());
        let said = |arrays: &[u64], streams: &[(u64, usize)]| check(arrays, streams).expect_err("refused");
        assert_eq!(said(&[300, 100, 201, 102], &[]), "the arrays of the chunks 1 and 3 share bytes");
        assert_eq!(said(&[100, 100], &[]), "the arrays of the chunks 0 and 1 share bytes");
        for stream in [(50, 51), (199, 1), (150, 20), (0, 1000), (u64::MAX, 2)] {
            let outcome = check(&[300, 100], &[(0, 50), stream]);
            assert_eq!(outcome.is_err(), stream.0 != u64::MAX, "{stream:?}: {outcome:?}");
        }
        assert_eq!(said(&[300, 100], &[(0, 9), (199, 1)]), "the stream of chunk 1 and the array of chunk 1 share bytes");
    }
}
