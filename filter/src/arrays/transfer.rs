//! A write or a read of a box of a dataset, step by step.
//!
//! HDF5 is called in [`Transfer::begin`] and [`Transfer::step`] alone, and neither waits for a chunk that a thread works on; [`Transfer::wait`] waits. So a
//! program that has a lock around HDF5, as Python has for h5py, need not hold it while chunks are compressed or decompressed. There is one exception: a step
//! compresses a chunk itself if only a part of the chunk is written and another thread of the program has changed the rest since it was read.

use std::fmt;
use std::time::Duration;

use hdf5_sys::h5i::hid_t;
use quire_codec::{Error, memory};
use quire_gpu::Device;

use super::crew::{Crew, Fault};
use super::dataset::{Direction, Facts, Selection, Suitable};
use super::portions::{InPortions, StoredChunks};
use super::reading::{Reading, Source};
use super::resident::{Portions, ResidentReading, ResidentWriting};
use super::stored;
use super::strided::{Stores, Strided};
use super::writing::Writing;
use super::{Outcome, threads_for};
use crate::backend::{self, resident};
use crate::c_api::check_readable;
use crate::fence::{Failure, try_box};
use crate::h5api::Library;
use crate::h5api::chunks::ChunkFunctions;

/// HDF5 lists all chunks of a dataset in about a sixteenth of the time in which it reads them. So the list pays if this share of the chunks, or more, is read.
const LISTING_PAYS_FROM: u64 = 16;

/// A transfer on its way. Dropping it leaves the chunks that are not written yet as they were.
pub(crate) struct Transfer {
    // Dropped first: its threads use nothing of the rest, but the functions must not outlive the library.
    job: Box<dyn Job>,
    functions: ChunkFunctions,
    library: Library,
    dataset: hid_t,
    direction: Direction,
    /// Chunks that a write has put into the file: the first ones.
    written: usize,
    /// A transfer that has failed is not taken up again.
    has_failed: bool,
}

/// The crew of a transfer.
trait Job {
    fn facts(&self) -> &Facts;
    /// Chunks of the portions that are done.
    fn chunks_drained(&self) -> usize;
    fn step(&mut self, stored: &StoredChunks<'_>, written: &mut usize) -> Result<(), Fault>;
    fn wait(&mut self, timeout: Option<Duration>);
}

impl<W: InPortions> Job for Crew<W> {
    fn facts(&self) -> &Facts {
        self.work().facts()
    }

    fn chunks_drained(&self) -> usize {
        self.work().chunks_of(self.drained()).start.min(self.facts().touched.count())
    }

    fn step(&mut self, stored: &StoredChunks<'_>, written: &mut usize) -> Result<(), Fault> {
        Crew::step(
            self,
            |work, portion, fetched| stored.fetch(work, portion, fetched),
            |work, portion, fetched, made| stored.store(work, portion, fetched, made, written),
        )
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        Crew::wait(self, timeout);
    }
}

/// Most threads that hand portions to a GPU: one works on a portion while another waits for HDF5 or for the GPU.
const MOST_RESIDENT_THREADS: usize = 3;

/// Bytes of the chunks that threads gather at once for a GPU. The threads share the memory's bandwidth: the more gather at once, the later is the first chunk
/// done, for which HDF5 waits.
const GATHERED_AT_ONCE: usize = 64 << 20;
/// Most threads that gather for a GPU. More would wait for trays, and to wake them takes the time of the thread that calls HDF5.
const MOST_THAT_GATHER: usize = 12;

/// How far a transfer is, in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) done: usize,
    pub(crate) total: usize,
}

/// Why a transfer has ended early, where, and what had been done by then.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) failure: Failure,
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    /// The first value of the chunk that failed.
    origin: Vec<u64>,
    progress: Progress,
    direction: Direction,
}

impl Transfer {
    /// Looks at a dataset, and gathers a crew for it. `memory` has values of the selection's type, in the memory of `gpu` if there is one.
    ///
    /// # Errors
    /// As [`Suitable::find`]; nothing has been read or written then.
    pub(crate) fn begin(
        library: Library,
        dataset: hid_t,
        selection: &Selection<'_>,
        memory: Strided,
        direction: Direction,
        threads: u32,
        gpu: Option<&'static Device>,
    ) -> Outcome<Self> {
        let found = Suitable::find(&library, dataset, selection, direction)?;
        let Suitable { facts, config, all_chunks, file } = found;
        let total = facts.touched.count();
        check_memory(&memory, selection.count, gpu.is_some())?;
        let functions = library.chunk_functions()?;
        let source = match direction {
            Direction::Write => None,
            Direction::Read => {
                if !memory.values_are_apart(selection.count) {
                    return Err(Error::invalid(
                        "the strides let values share bytes: read into an array whose values do not overlap",
                    )
                    .into());
                }
                match file.filter(|_| all_chunks / LISTING_PAYS_FROM <= total as u64) {
                    Some(file) => {
                        stored::locations(&library, dataset, &facts.touched)?.map(|locations| Source { file, locations })
                    }
                    None => None,
                }
            }
        };
        let job: Box<dyn Job> = match (direction, gpu) {
            (Direction::Write, Some(gpu)) => {
                let writing = ResidentWriting::new(Portions::new(facts, memory, gpu)?, &config)?;
                let portions = writing.portions.count();
                try_box(Crew::start(writing, portions, resident_threads(portions, threads)?)?)?
            }
            (Direction::Write, None) => {
                let threads = threads_for(total, threads, Some(&config))?.min(most_that_gather(facts.dense.bytes()));
                try_box(Crew::start(Writing { facts, source: memory, config }, total, threads)?)?
            }
            (Direction::Read, Some(gpu)) => {
                let reading = ResidentReading { portions: Portions::new(facts, memory, gpu)?, source };
                let portions = reading.portions.count();
                try_box(Crew::start(reading, portions, resident_threads(portions, threads)?)?)?
            }
            (Direction::Read, None) => {
                let threads = threads_for(total, threads, None)?;
                let value = facts.layout.scalar.element_size() as u64;
                let stores = Stores::for_bytes(selection.count.iter().fold(value, |bytes, &count| bytes.saturating_mul(count)));
                try_box(Crew::start(Reading { facts, target: memory, source, stores }, total, threads)?)?
            }
        };
        Ok(Self { job, functions, library, dataset, direction, written: 0, has_failed: false })
    }

    pub(crate) fn progress(&self) -> Progress {
        let done = if self.direction == Direction::Write { self.written } else { self.job.chunks_drained() };
        Progress { done, total: self.job.facts().touched.count() }
    }

    /// Does what HDF5 has to do now: writes the streams that are made, reads those that will be wanted next.
    ///
    /// # Errors
    /// The first failure of a thread or of HDF5. What was written before stays written.
    pub(crate) fn step(&mut self) -> Result<Progress, Broken> {
        if self.has_failed {
            let failure = Error::invalid("the transfer has failed before: end it, and begin another one").into();
            return Err(Broken { failure, place: None });
        }
        let stored = StoredChunks::of(&self.library, &self.functions, self.dataset);
        match stored.map_err(Fault::from).and_then(|stored| self.job.step(&stored, &mut self.written)) {
            Ok(()) => Ok(self.progress()),
            Err(fault) => Err(self.broken(fault)),
        }
    }

    /// Waits until there is something for [`Transfer::step`] to do, or the time is up.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        self.job.wait(timeout);
    }

    /// Takes a transfer to its end.
    ///
    /// # Errors
    /// As [`Transfer::step`].
    pub(crate) fn finish(mut self) -> Result<(), Broken> {
        while { self.step()? }.is_under_way() {
            self.wait(None);
        }
        Ok(())
    }

    fn broken(&mut self, fault: Fault) -> Broken {
        self.has_failed = true;
        let touched = &self.job.facts().touched;
        let place = fault.chunk.and_then(|chunk| {
            // Without memory for its place the failure is told all the same.
            let origin = memory::collect(touched.overlap(chunk).origin.into_iter().take(touched.rank())).ok()?;
            Some(Place { origin, progress: self.progress(), direction: self.direction })
        });
        Broken { failure: fault.failure, place }
    }
}

impl Progress {
    pub(crate) fn is_under_way(self) -> bool {
        self.done < self.total
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Place { origin, progress: Progress { done, total }, direction }) = &self.place else {
            return self.failure.fmt(formatter);
        };
        let participle = if *direction == Direction::Write { "written" } else { "read" };
        write!(formatter, "chunk at {origin:?}: {}; of {total} chunks the first {done} are {participle}", self.failure)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self { failure, place: None }
    }
}

/// The number of threads for this number of portions, in a GPU's memory.
fn resident_threads(portions: usize, argument: u32) -> Outcome<usize> {
    Ok(threads_for(portions, argument, None)?.min(MOST_RESIDENT_THREADS))
}

/// Most threads for a write of chunks of this length.
fn most_that_gather(chunk_bytes: usize) -> usize {
    if backend::open_for_staging(chunk_bytes).is_some() { most_that_gather_for_a_gpu(chunk_bytes) } else { usize::MAX }
}

/// Most threads for a write to a GPU, of chunks of this length.
fn most_that_gather_for_a_gpu(chunk_bytes: usize) -> usize {
    (GATHERED_AT_ONCE / chunk_bytes).clamp(1, MOST_THAT_GATHER)
}

/// Whether all values of a box can be where they are said to be, as far as the lowest and the highest of them show it.
fn check_memory(memory: &Strided, count: &[u64], is_on_gpu: bool) -> Outcome<()> {
    if count.contains(&0) {
        return Ok(());
    }
    let strides = memory.strides();
    let Some((lowest, bytes)) = memory.span(count) else {
        return Err(Error::invalid(format_args!(
            "{count:?} values in strides of {strides:?} bytes are more than this machine can address"
        ))
        .into());
    };
    if !is_on_gpu {
        return Ok(check_readable(lowest, bytes as usize, "values")?);
    }
    memory.check_alignment(count)?;
    let (first, last) = (resident::gpu_of(lowest), resident::gpu_of(lowest + (bytes - 1)));
    if first.is_none() || first != last {
        return Err(Error::invalid(format_args!(
            "{count:?} values in strides of {strides:?} bytes reach from {lowest:#x} on beyond a GPU's memory"
        ))
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_says_how_many_threads_write_to_a_gpu() {
        let (document, eight) = (include_str!("../../../docs/c.md"), most_that_gather_for_a_gpu(8 << 20));
        let words: Vec<&str> = document.split_whitespace().collect();
        let text = format!(
            "A write to a GPU has at most {MOST_THAT_GATHER} threads, and no more than there are chunks in {} MiB: {eight} for chunks of 8 MiB. Arrays in a \
             GPU's memory have at most {MOST_RESIDENT_THREADS}.",
            GATHERED_AT_ONCE >> 20
        );
        assert!(words.join(" ").contains(&text), "docs/c.md lacks: {text}");
        assert_eq!([1, 96 << 10, 6 << 20].map(most_that_gather_for_a_gpu), [MOST_THAT_GATHER, MOST_THAT_GATHER, 10]);
        assert_eq!(most_that_gather_for_a_gpu(GATHERED_AT_ONCE + 1), 1);
    }
}
