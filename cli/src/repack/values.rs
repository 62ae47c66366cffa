//! Writes the values of datasets, each chunk once and as a whole. A chunk that is written twice would be rounded twice.
//!
//! The calling thread reads chunks and writes streams. Other threads compress in between.

use anyhow::{Context as _, Result};
use hdf5::Dataset;
use indicatif::ProgressBar;
use quire_codec::{AdaptPolicy, Workspace};

use super::plan::Task;
use crate::boxes::{self, copy_common};
use crate::kept;
use crate::library::chunks;
use crate::library::codec::Codec;
use crate::slabs::{ReadChunk, each_chunk};

/// Writes datasets on `jobs` threads. Returns for each the number of chunks that keep the exact bits for the sake of missing values.
///
/// # Errors
/// HDF5's and the plugin's, with the dataset's path.
pub(super) fn write(tasks: &[(&Task, Dataset)], jobs: usize, bar: &ProgressBar) -> Result<Vec<usize>> {
    let has_history = |(task, _): &(&Task, Dataset)| task.config.adapt == AdaptPolicy::History;
    let mut exact = Vec::new();
    for group in tasks.chunk_by(|one, other| has_history(one) == has_history(other)) {
        // With a history each chunk depends on those that its thread has compressed before.
        let jobs = if has_history(&group[0]) { 1 } else { jobs };
        exact.extend(write_group(group, jobs, bar)?);
    }
    Ok(exact)
}

fn write_group(tasks: &[(&Task, Dataset)], jobs: usize, bar: &ProgressBar) -> Result<Vec<usize>> {
    let codec = Codec::get()?;
    let mut exact = vec![0; tasks.len()];
    each_chunk(
        jobs,
        tasks.iter().map(|(task, _)| task.chunks()),
        |_, _| Ok(()),
        |buffers: &mut Buffers, number, read, ()| stream(tasks[number].0, codec, buffers, read),
        |number, read, stream| {
            let (task, dataset) = &tasks[number];
            let written = stream.and_then(|(stream, is_exact)| {
                exact[number] += usize::from(is_exact);
                chunks::write(dataset, &boxes::corner(&read.ranges), &stream)
            });
            bar.set_message(format!("writing {}", task.path));
            bar.inc((boxes::values(&read.ranges) * task.layout.scalar.element_size()) as u64);
            written.with_context(|| task.path.clone())
        },
    )?;
    Ok(exact)
}

/// What a thread needs to compress a chunk.
#[derive(Default)]
struct Buffers {
    workspace: Workspace,
    values: Vec<u8>,
}

/// The stream of a chunk, and whether it keeps the exact bits for the sake of missing values, which the plugin does not know.
fn stream(task: &Task, codec: &Codec, buffers: &mut Buffers, read: &ReadChunk) -> Result<(Vec<u8>, bool)> {
    let Task { source, chunk, options, config, layout, .. } = task;
    let mut values = read.values(&mut buffers.values);
    let whole = boxes::with_extents(&read.ranges, chunk);
    let mut padded;
    if read.ranges != whole {
        // What lies beyond the dataset's extents has the fill value, as HDF5 does it.
        padded = source.filling.repeat(boxes::values(&whole));
        copy_common(&read.ranges, values, &whole, &mut padded);
        values = &padded;
    }
    if !source.missing.iter().any(|&bits| kept::occurs(bits, values, layout)) {
        let fill = source.fill_value.map(|_| &source.filling[..]);
        return Ok((codec.compress(options, &source.numbers, chunk, fill, values)?, false));
    }
    let mut stream = Vec::new();
    let is_exact = kept::compress(&mut buffers.workspace, values, layout, config, &source.missing, &mut stream)?;
    Ok((stream, is_exact))
}
