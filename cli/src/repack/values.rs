//! Writes the values of a dataset, each chunk once and as a whole: a bound relative to the chunk's range would differ for a read of the chunk.
//!
//! The calling thread reads chunks and writes streams; other threads compress in between.

use std::cell::RefCell;

use hdf5::Dataset;
use indicatif::ProgressBar;
use quire_codec::{AdaptPolicy, Workspace};

use super::plan::Task;
use crate::jobs;
use crate::kept;
use crate::library::codec::Codec;
use crate::library::{chunks, message};
use crate::slabs::{ChunkReader, ReadChunk};

/// Writes a dataset on `jobs` threads. Returns the number of chunks that keep the exact bits for the sake of missing values.
///
/// # Errors
/// HDF5's and the plugin's.
pub(super) fn write(task: &Task, dataset: &Dataset, jobs: usize, bar: &ProgressBar) -> Result<usize, String> {
    let compressing = Compressing::new(task)?;
    let each = task.layout.scalar.element_size();
    // With a history each chunk depends on those that its thread has compressed before.
    let jobs = if task.config.adapt == AdaptPolicy::History { 1 } else { jobs };
    let reader = RefCell::new(ChunkReader::new(&task.source, &task.chunk, &task.boxes));
    let mut exact = 0;
    jobs::pipeline(
        jobs,
        || reader.borrow_mut().next(),
        |buffers: &mut Buffers, read| (compressing.stream(buffers, &read), read),
        |(stream, read)| {
            let (stream, is_exact) = stream?;
            chunks::write(dataset, &read.corner(), &stream)?;
            exact += usize::from(is_exact);
            bar.inc((read.count() * each) as u64);
            reader.borrow_mut().give_back(read);
            Ok(())
        },
    )?;
    dataset.flush().map_err(message)?;
    Ok(exact)
}

/// What all threads need to know.
struct Compressing<'a> {
    task: &'a Task,
    codec: &'static Codec,
    fill: Option<Vec<u8>>,
    /// What a chunk holds beyond the dataset's extents.
    padding: Vec<u8>,
}

/// What a thread needs to compress a chunk.
#[derive(Default)]
struct Buffers {
    workspace: Workspace,
    values: Vec<u8>,
}

impl<'a> Compressing<'a> {
    fn new(task: &'a Task) -> Result<Self, String> {
        Ok(Self {
            task,
            codec: Codec::get()?,
            fill: task.source.fill_value.map(|_| task.source.filling.clone()),
            padding: task.source.filling.clone(),
        })
    }

    /// The stream of a chunk, and whether it keeps the exact bits for the sake of missing values, which the plugin does not know.
    fn stream(&self, buffers: &mut Buffers, read: &ReadChunk) -> Result<(Vec<u8>, bool), String> {
        let Task { source, chunk, options, config, layout, .. } = self.task;
        let mut values = read.values(&mut buffers.values);
        let counts: Vec<usize> = read.ranges.iter().map(|&(_, count)| count).collect();
        let padded;
        if counts != *chunk {
            padded = kept::pad(values, &counts, chunk, &self.padding);
            values = &padded;
        }
        if !kept::occur(&source.missing, values, layout) {
            let stream = self.codec.compress(options, &source.numbers, chunk, self.fill.as_deref(), values)?;
            return Ok((stream, false));
        }
        let mut stream = Vec::new();
        let is_exact = kept::compress(&mut buffers.workspace, values, layout, config, &source.missing, &mut stream);
        is_exact.map(|is_exact| (stream, is_exact)).map_err(message)
    }
}
