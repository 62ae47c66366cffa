//! `quire repack`: writes a compressed copy of a file, verifies it against the original, and only then gives it its name.
//!
//! ```text
//! plan: which datasets, how ─> copy: groups, links, attributes, other datasets; chunks ─> verify: every value and all else ─> rename
//! ```
//!
//! h5repack is not used, because its versions have different faults. 1.10 exits with 0 although a filter has refused a dataset. The creation order of links is lost, on which netCDF-4
//! relies. A chunk is compressed twice if h5repack's buffer ends within it, and a bound relative to the chunk's range is then exceeded.

mod copy;
mod plan;
mod verify;

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use hdf5::File;
use hdf5::filters::Filter;
use hdf5::plist::FileAccess;
use serde_json::json;

use crate::arguments::{Bounds, Shape, shape, shape_text};
use crate::compare::Difference;
use crate::datasets;
use crate::library::{links, message, objects};
use crate::names::Name;
use crate::output::{Outcome, Table, complain, number, print_json, progress, say};
use crate::part;

/// Write a copy of a file with its datasets compressed
///
/// Compresses datasets of numbers and copies everything else unchanged: groups, links, attributes, other datasets, types and fill values. In compressed datasets this filter
/// replaces all others. Integers keep their exact bits unless --round-integers is given. Skipped datasets are listed with the reason.
///
/// The new file is read back and compared with IN: each compressed value against its bound in double precision, everything else for equality. Only then is it renamed to OUT. After an
/// error or an interruption there is no new OUT, and an existing one is unchanged. A killed program may leave a folder OUT.*.part; the next run that writes OUT removes it.
///
/// Example: quire repack run.h5 run-small.h5 --rel 1e-3
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The HDF5 file to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The HDF5 file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    bounds: Bounds,
    /// Chunk shape, slowest axis first, such as 64x64x64, for datasets of that rank. Can be given once per rank; datasets of other ranks keep their chunk shape
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    chunks: Vec<Shape>,
    /// Compress only this dataset, or the datasets in this group, such as /fields; can be repeated. A dataset named here is compressed even if it is small or a dimension scale
    #[arg(long, value_name = "PATH")]
    only: Vec<OsString>,
    /// Copy datasets smaller than this unchanged; uncompressed size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16384)]
    min_size: u64,
    /// Apply the bound to integers as well; without it they keep their exact bits
    #[arg(long)]
    round_integers: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// The result for one dataset: stored bytes and errors.
struct Done {
    stored: u64,
    difference: Difference,
}

impl Done {
    fn ratio(&self, task: &plan::Task) -> f64 {
        task.bytes() as f64 / self.stored as f64
    }
}

/// Runs the command.
///
/// # Errors
/// With what was wrong. There is no output then.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let options = arguments.bounds.text();
    refuse_output(arguments)?;
    let input = Name::from(&*arguments.input);
    let from = datasets::open(&arguments.input)?;
    if !Filter::get_info(h5zquire::FILTER_ID).is_available {
        return Err(format!(
            "HDF5 does not find the filter {}: name the folder of libh5zquire.so in HDF5_PLUGIN_PATH; `quire doctor` says more",
            h5zquire::FILTER_ID
        ));
    }
    let plan = plan::Plan::new(&input, arguments, &options)?;
    if plan.tasks.is_empty() {
        plan.skipped.iter().for_each(|(path, reason)| complain(format_args!("skipped {path}: {reason}")));
        return Err(format!("{input}: there is nothing to compress in it, and nothing is written"));
    }
    let written = part::begin(&arguments.output)?;
    let bar = progress(2 * plan.tasks.iter().map(plan::Task::bytes_written).sum::<u64>(), "bytes");
    let notes = write(&from, arguments, written.path(), &plan, &bar)?;
    let done = verify::verify(&from, written.path(), &plan, &bar)?;
    bar.finish_and_clear();
    // A damaged file can make HDF5 crash here as well; there is no output then.
    from.close().map_err(message)?;
    written.keep(&arguments.output, arguments.force)?;
    report(arguments, &plan, &done, &notes)
}

/// Refuses an output that is the input, or that is there and not to be replaced.
fn refuse_output(arguments: &Arguments) -> Result<(), String> {
    let (input, output) = (&arguments.input, &arguments.output);
    let shown = Name::from(&**output);
    if is_same_file(input, output) {
        return Err(format!("{shown} is the file that is to be read: name another to write"));
    }
    if output.is_dir() {
        return Err(format!("{shown} is a folder: name a file in it"));
    }
    if output.symlink_metadata().is_ok() && !arguments.force {
        return Err(format!("{shown} is there already: name another file, or give --force to replace it"));
    }
    Ok(())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Writes the whole file, and gives notes on what could not be kept.
fn write(
    from: &File,
    arguments: &Arguments,
    path: &Path,
    plan: &plan::Plan,
    bar: &indicatif::ProgressBar,
) -> Result<Vec<String>, String> {
    let said = |reason: String| format!("{}: {reason}", Name::from(&*arguments.output));
    let failed = |error: hdf5::Error| said(message(error));
    let properties = objects::file_properties(from)?;
    let is_old = objects::superblock_version(from)? < 2;
    let mut access = FileAccess::build();
    let access = if is_old { access.libver_earliest() } else { access.libver_v18() }.finish().map_err(failed)?;
    let to = links::create_file(path, &properties, &access).map_err(said)?;
    let notes = copy::copy(from, &to, plan, bar)?;
    // What is only written when the file is closed would have no way to say that it failed.
    to.flush().map_err(failed)?;
    to.close().map_err(failed)?;
    copy_user_block(&arguments.input, path, from.userblock())?;
    Ok(notes)
}

/// Bytes in front of what is HDF5's, which are the user's own.
fn copy_user_block(from: &Path, to: &Path, length: u64) -> Result<(), String> {
    let mut block = Vec::new();
    let failed = |error: std::io::Error| format!("{}: {error}", Name::from(to));
    fs::File::open(from).and_then(|file| file.take(length).read_to_end(&mut block)).map_err(failed)?;
    fs::OpenOptions::new().write(true).open(to).and_then(|mut file| file.write_all(&block)).map_err(failed)
}

fn report(arguments: &Arguments, plan: &plan::Plan, done: &[Done], notes: &[String]) -> Result<Outcome, String> {
    let size =
        |path: &Path| fs::metadata(path).map(|found| found.len()).map_err(|error| format!("{}: {error}", Name::from(path)));
    let (before, after) = (size(&arguments.input)?, size(&arguments.output)?);
    if arguments.json {
        let datasets = plan.tasks.iter().zip(done).map(|(task, done)| {
            json!({
                "path": task.path.json(), "options": task.options, "chunk_shape": task.chunk, "bytes": task.bytes(), "stored_bytes": done.stored,
                "ratio": number(done.ratio(task)), "greatest_error": number(done.difference.greatest),
                "psnr": number(done.difference.psnr()),
            })
        });
        let skipped = plan.skipped.iter().map(|(path, reason)| json!({ "path": path.json(), "reason": reason }));
        print_json(&json!({
            "input": Name::from(&*arguments.input).json(), "output": Name::from(&*arguments.output).json(),
            "input_bytes": before, "output_bytes": after, "verified": true,
            "datasets": datasets.collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>(), "notes": notes,
        }));
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&["dataset", "options", "chunks", "bytes", "stored", "ratio", "PSNR/dB", "largest error"]);
    for (task, done) in plan.tasks.iter().zip(done) {
        // What was never written takes no bytes.
        let ratio = if done.stored == 0 { "-".to_owned() } else { format!("{:.2}", done.ratio(task)) };
        table.push(vec![
            task.path.to_string(),
            task.options.clone(),
            shape_text(&task.chunk),
            task.bytes().to_string(),
            done.stored.to_string(),
            ratio,
            done.difference.psnr_text(),
            format!("{:.3e}", done.difference.greatest),
        ]);
    }
    table.print();
    plan.skipped.iter().for_each(|(path, reason)| say(format_args!("skipped {path}: {reason}")));
    notes.iter().for_each(|note| say(format_args!("note: {note}")));
    say(format_args!("{before} bytes -> {after} bytes, verified: {}", Name::from(&*arguments.output)));
    Ok(Outcome::Done)
}
