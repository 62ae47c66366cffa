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

use super::crew::{Crew, Fault, Fetched, Work as _};
use super::dataset::{Direction, Facts, Selection, Suitable};
use super::reading::Reading;
use super::resident::{Portions, ResidentReading, ResidentWriting};
use super::stored;
use super::strided::{Stores, Strided};
use super::touched::MOST_AXES;
use super::writing::Writing;
use super::{Outcome, threads_for};
use crate::backend::{self, resident};
use crate::c_api::check_readable;
use crate::fence::Failure;
use crate::h5api::Library;
use crate::h5api::chunks::ChunkFunctions;

/// Listing the chunks of a dataset takes about a sixteenth of the time that HDF5 takes to read them: where fewer are wanted, HDF5 reads those.
const LISTING_PAYS_FROM: u64 = 16;

/// A transfer on its way. Dropping it leaves the chunks that are not written yet as they were.
pub(crate) struct Transfer {
    // Dropped first: its threads use nothing of the rest, but the functions must not outlive the library.
    job: Job,
    functions: ChunkFunctions,
    library: Library,
    dataset: hid_t,
    /// A transfer that has failed is not taken up again.
    has_failed: bool,
}

enum Job {
    Write(Crew<Writing>),
    Read(Crew<Reading>),
    WriteResident(Crew<ResidentWriting>),
    ReadResident(Crew<ResidentReading>),
}

/// Most threads that hand portions to a GPU: one works on a portion while another waits for HDF5 or for the GPU.
const MOST_RESIDENT_THREADS: usize = 3;

/// Bytes of the chunks that threads gather at once for a GPU. HDF5 waits for the first chunk, which the others hold up: they share the memory's bandwidth.
const GATHERED_AT_ONCE: usize = 64 << 20;
/// Most threads that gather for a GPU. More of them wait for trays, and to wake them up takes the time of HDF5's thread: 1.3 of 36 ms with 16 threads.
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
        let job = match direction {
            Direction::Write => {
                if let Some(gpu) = gpu {
                    let writing = ResidentWriting::new(Portions::new(facts, memory, gpu)?, &config)?;
                    let portions = writing.portions.count();
                    let threads = threads_for(portions, threads, None)?.min(MOST_RESIDENT_THREADS);
                    Job::WriteResident(Crew::start(writing, portions, threads)?)
                } else {
                    let threads = threads_for(total, threads, Some(&config))?.min(most_that_gather(facts.dense.bytes()));
                    Job::Write(Crew::start(Writing { facts, source: memory, config }, total, threads)?)
                }
            }
            Direction::Read => {
                if !memory.values_are_apart(selection.count) {
                    return Err(Error::invalid(
                        "the strides let values share bytes: read into an array whose values do not overlap",
                    )
                    .into());
                }
                let list = file.filter(|_| all_chunks / LISTING_PAYS_FROM <= total as u64);
                let source = match list {
                    Some(file) => stored::locations(&library, dataset, &facts.touched)?.map(|locations| (file, locations)),
                    None => None,
                };
                if let Some(gpu) = gpu {
                    let reading = ResidentReading { portions: Portions::new(facts, memory, gpu)?, source };
                    let portions = reading.portions.count();
                    let threads = threads_for(portions, threads, None)?.min(MOST_RESIDENT_THREADS);
                    Job::ReadResident(Crew::start(reading, portions, threads)?)
                } else {
                    let threads = threads_for(total, threads, None)?;
                    let value = facts.layout.scalar.element_size() as u64;
                    let stores =
                        Stores::for_bytes(selection.count.iter().fold(value, |bytes, &count| bytes.saturating_mul(count)));
                    Job::Read(Crew::start(Reading { facts, target: memory, source, stores }, total, threads)?)
                }
            }
        };
        Ok(Self { job, functions, library, dataset, has_failed: false })
    }

    pub(crate) fn progress(&self) -> Progress {
        let done = match &self.job {
            Job::Write(crew) => crew.drained(),
            Job::Read(crew) => crew.drained(),
            Job::WriteResident(crew) => crew.work().written(),
            Job::ReadResident(crew) => crew.work().portions.chunks_in(crew.drained()),
        };
        Progress { done, total: self.facts().touched.count() }
    }

    fn facts(&self) -> &Facts {
        match &self.job {
            Job::Write(crew) => &crew.work().facts,
            Job::Read(crew) => &crew.work().facts,
            Job::WriteResident(crew) => &crew.work().portions.facts,
            Job::ReadResident(crew) => &crew.work().portions.facts,
        }
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
        // The program may have shrunk the dataset since the last step. H5Dwrite_chunk takes a chunk that begins where the dataset ends: it would show up when the
        // dataset grows again.
        let extents = match self.library.extents(self.dataset) {
            Ok(extents) => extents,
            Err(failure) => return Err(self.broken(failure.into())),
        };
        let check = |origin: &[u64; MOST_AXES]| -> Outcome<()> {
            if extents.iter().zip(origin).all(|(extent, first)| first < extent) {
                return Ok(());
            }
            Err(Failure::hdf5(format_args!(
                "the dataset has been resized to {extents:?} meanwhile, and the chunk is beyond its end"
            )))
        };
        let (library, functions, dataset) = (&self.library, &self.functions, self.dataset);
        let fetch = |origin: &[u64; MOST_AXES], fetched: &mut Fetched| -> Outcome<()> {
            check(origin)?;
            fetched.mask = library.read_chunk(functions, dataset, origin, &mut fetched.bytes)?;
            Ok(())
        };
        let outcome = match &mut self.job {
            Job::Write(crew) => crew.step(
                |work, chunk, fetched| {
                    let overlap = work.facts.touched.overlap(chunk);
                    if !overlap.is_whole {
                        fetch(&overlap.origin, fetched)?;
                    }
                    Ok(())
                },
                |work, chunk, fetched, made| {
                    let overlap = work.facts.touched.overlap(chunk);
                    if !overlap.is_whole {
                        // Since it was fetched, another thread of the program may have written to the rest of the chunk.
                        let mut now = Fetched::default();
                        fetch(&overlap.origin, &mut now)?;
                        if now != *fetched {
                            made.clear();
                            work.compute(chunk, &mut now, made)?;
                        }
                    }
                    check(&overlap.origin)?;
                    Ok(library.write_chunk(functions, dataset, &overlap.origin, made)?)
                },
            ),
            Job::WriteResident(crew) => crew.step(
                |work, portion, fetched| {
                    let touched = &work.portions.facts.touched;
                    for chunk in work.portions.chunks_of(portion) {
                        let (overlap, mut found) = (touched.overlap(chunk), Fetched::default());
                        if !overlap.is_whole {
                            fetch(&overlap.origin, &mut found).map_err(|failure| Fault { chunk: Some(chunk), failure })?;
                        }
                        memory::push(fetched, found)?;
                    }
                    Ok(())
                },
                |work, portion, fetched, made| {
                    let touched = &work.portions.facts.touched;
                    for (chunk, (fetched, made)) in work.portions.chunks_of(portion).zip(fetched.iter().zip(made)) {
                        let at = |failure| Fault { chunk: Some(chunk), failure };
                        let overlap = touched.overlap(chunk);
                        if !overlap.is_whole {
                            // As above.
                            let mut now = Fetched::default();
                            fetch(&overlap.origin, &mut now).map_err(at)?;
                            if now != *fetched {
                                *made = work.compress(chunk, &[now])?.swap_remove(0);
                            }
                        }
                        check(&overlap.origin).map_err(at)?;
                        library.write_chunk(functions, dataset, &overlap.origin, made).map_err(at)?;
                        work.note_written(chunk);
                    }
                    Ok(())
                },
            ),
            Job::Read(crew) => crew.step(
                |work, chunk, fetched| {
                    if work.source.is_none() {
                        fetch(&work.facts.touched.overlap(chunk).origin, fetched)?;
                    }
                    Ok(())
                },
                |_, _, _, _| Ok(()),
            ),
            Job::ReadResident(crew) => crew.step(
                |work, portion, fetched| {
                    let chunks = if work.source.is_none() { work.portions.chunks_of(portion) } else { 0..0 };
                    for chunk in chunks {
                        let mut found = Fetched::default();
                        let origin = work.portions.facts.touched.overlap(chunk).origin;
                        fetch(&origin, &mut found).map_err(|failure| Fault { chunk: Some(chunk), failure })?;
                        memory::push(fetched, found)?;
                    }
                    Ok(())
                },
                |_, _, _, _| Ok(()),
            ),
        };
        match outcome {
            Ok(()) => Ok(self.progress()),
            Err(fault) => Err(self.broken(fault)),
        }
    }

    /// Waits until there is something for [`Transfer::step`] to do, or the time is up.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        match &mut self.job {
            Job::Write(crew) => crew.wait(timeout),
            Job::Read(crew) => crew.wait(timeout),
            Job::WriteResident(crew) => crew.wait(timeout),
            Job::ReadResident(crew) => crew.wait(timeout),
        }
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
        let is_write = matches!(self.job, Job::Write(_) | Job::WriteResident(_));
        let direction = if is_write { Direction::Write } else { Direction::Read };
        let touched = &self.facts().touched;
        let place = fault.chunk.and_then(|chunk| {
            // Without memory for its place the failure is told all the same.
            let origin = memory::collect(touched.overlap(chunk).origin.into_iter().take(touched.rank())).ok()?;
            Some(Place { origin, progress: self.progress(), direction })
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
