//! Writes the values of datasets, each chunk once and as a whole: a bound relative to the chunk's range would differ for a read of the chunk.
//!
//! The calling thread reads chunks and writes streams; other threads compress in between.

use std::cell::RefCell;

use hdf5::Dataset;
use indicatif::ProgressBar;
use quire_codec::{AdaptPolicy, Workspace};

use super::plan::{Task, TaskReader};
use crate::jobs;
use crate::kept;
use crate::library::codec::Codec;
use crate::library::{chunks, message};
use crate::slabs::ReadChunk;

/// Writes datasets on `jobs` threads. Returns for each the number of chunks that keep the exact bits for the sake of missing values.
///
/// # Errors
/// HDF5's and the plugin's, with the dataset's path.
pub(super) fn write(tasks: &[(&Task, &Dataset)], jobs: usize, bar: &ProgressBar) -> Result<Vec<usize>, String> {
    let has_history = |(task, _): &(&Task, &Dataset)| task.config.adapt == AdaptPolicy::History;
    let mut exact = Vec::new();
    for group in tasks.chunk_by(|one, other| has_history(one) == has_history(other)) {
        // With a history each chunk depends on those that its thread has compressed before.
        let jobs = if has_history(&group[0]) { 1 } else { jobs };
        exact.extend(write_group(group, jobs, bar)?);
    }
    Ok(exact)
}

fn write_group(tasks: &[(&Task, &Dataset)], jobs: usize, bar: &ProgressBar) -> Result<Vec<usize>, String> {
    let at = |index: usize| move |error: String| format!("{}: {error}", tasks[index].0.path);
    let compressing = tasks.iter().enumerate().map(|(index, (task, _))| Compressing::new(task).map_err(at(index)));
    let compressing = compressing.collect::<Result<Vec<_>, _>>()?;
    let reader = RefCell::new(TaskReader::new(tasks.iter().map(|(task, _)| *task).collect()));
    let mut exact = vec![0; tasks.len()];
    jobs::pipeline(
        jobs,
        || reader.borrow_mut().next(),
        |buffers: &mut Buffers, (index, read)| (compressing[index].stream(buffers, &read), index, read),
        |(stream, index, read)| {
            let (stream, is_exact) = stream.map_err(at(index))?;
            let (task, dataset) = tasks[index];
            chunks::write(dataset, &read.corner(), &stream).map_err(at(index))?;
            exact[index] += usize::from(is_exact);
            bar.set_message(format!("writing {}", task.path));
            bar.inc((read.count() * task.layout.scalar.element_size()) as u64);
            reader.borrow_mut().give_back(read);
            Ok(())
        },
    )?;
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
