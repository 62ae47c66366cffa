//! `quire repack`: writes a compressed copy of a file, verifies it against the original, and only then gives it its name.
//!
//! ```text
//! plan: which datasets, how ─> copy: groups, links, attributes, other datasets; chunks ─> check: every value and all else ─> rename
//! ```
//!
//! h5repack is not used, because its versions have different faults. 1.10 exits with 0 although a filter has refused a dataset. The creation order of links is
//! lost, on which netCDF-4 relies. A chunk is compressed twice if h5repack's buffer ends within it, and a bound relative to the chunk's range is then exceeded.

mod annotate;
mod check;
mod copy;
mod plan;
mod selection;

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use h5zquire::FILTER_ID;
use hdf5::File;
use hdf5::filters::Filter;
use hdf5::plist::FileAccess;
use serde_json::{Value, json};

use crate::arguments::{Bounds, Shape, refuse_arguments, shape, shape_text};
use crate::choice::Choice;
use crate::compare::Difference;
use crate::datasets;
use crate::jobs::Jobs;
use crate::library::{links, objects, system};
use crate::names::Name;
use crate::output::{Outcome, complain, grouped, or_dash, print_json, print_table, progress, say};
use crate::part;
use selection::Setting;

/// Write a copy of a file with its datasets compressed
///
/// Compresses datasets of numbers and copies everything else unchanged: groups, links, attributes, other datasets, types and fill values. In compressed
/// datasets this filter replaces all others. Integers keep their exact bits unless --round-integers is given. Values that an attribute missing_value or
/// _FillValue names come back bit for bit, as fill values do. Skipped datasets are listed with the reason; among them are those that would need more bytes
/// than before.
///
/// The new file is read back and compared with IN: each compressed value against its bound in double precision, everything else for equality. Only then is it
/// renamed to OUT. After an error or an interruption there is no new OUT, and an existing one is unchanged. A killed program may leave a folder OUT.*.part;
/// the next run that writes OUT removes it.
///
/// Examples: quire repack run.h5 run-small.h5 --rel 1e-3
///
/// quire repack day*.nc small/ --rel 1e-3 --set /pressure:abs=10 --set '/flag_*:none'
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The HDF5 files to read; last the HDF5 file to write, or an existing folder for files of the same names
    // One list: clap does not take options between two lists of positional arguments.
    #[arg(value_name = "IN... OUT", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    bounds: Bounds,
    /// Options for a dataset, for the datasets in a group, or for those that a pattern matches, such as /t:abs=0.01 or '/flux_*:rel=1e-4'; PATH:none copies
    /// them unchanged. `*` is any part of a name, `**` any part of a path, `?` one character. Can be repeated; of several for a dataset the last one holds.
    /// Options for a dataset's own path hold for integers, too
    #[arg(long = "set", value_name = "PATH:OPTIONS", value_parser = OsStringValueParser::new().try_map(|text| selection::setting(&text).map_err(|error| format!("{error:#}"))))]
    settings: Vec<Setting>,
    /// Chunk shape, slowest axis first, such as 64x64x64, for datasets of that rank. Can be given once per rank; datasets of other ranks keep their chunk
    /// shape, unless their chunks have fewer than 2 KiB
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    chunks: Vec<Shape>,
    /// Compress only this dataset, or the datasets in this group, such as /fields, or those that a pattern matches, as for --set; can be repeated. A dataset
    /// named here is compressed even if it is small or a dimension scale
    #[arg(long, value_name = "PATH")]
    only: Vec<OsString>,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    jobs: Jobs,
    /// Write attributes to each compressed dataset: quire_options, quire_largest_error and quire_psnr
    #[arg(long)]
    annotate: bool,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// List every skipped dataset, not one a reason
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// The note on a dataset whose missing values only its attributes name.
const MISSING_IS_NOT_FILL: &str = "its attribute names missing values that are not its fill value. This copy keeps them bit for bit; programs that write to it, \
                                   or compress it anew, take them for numbers like others";

/// The result for one dataset: stored bytes and errors.
struct Done {
    stored: u64,
    difference: Difference,
}

impl Done {
    fn ratio(&self, task: &plan::Task) -> f64 {
        task.source.bytes() as f64 / self.stored as f64
    }
}

/// A file to read, and the one to write from it.
struct Job<'a> {
    input: &'a Path,
    output: PathBuf,
}

/// The result for one file.
struct Repacked {
    plan: plan::Plan,
    /// One for each task of the plan; none for a dry run.
    done: Vec<Done>,
    notes: Vec<String>,
    /// Bytes of both files; none for a dry run.
    sizes: Option<(u64, u64)>,
}

impl Arguments {
    /// The files that are written.
    pub(crate) fn outputs(&self) -> Vec<PathBuf> {
        self.jobs().into_iter().map(|job| job.output).collect()
    }

    fn jobs(&self) -> Vec<Job<'_>> {
        let Some((last, inputs)) = self.files.split_last() else { return Vec::new() };
        let is_folder = last.is_dir();
        let output = |input: &Path| match input.file_name() {
            Some(name) if is_folder => last.join(name),
            _ => last.clone(),
        };
        inputs.iter().map(|input| Job { input, output: output(input) }).collect()
    }
}

/// Runs the command. Of several files, those that fail do not keep the others from being written.
///
/// # Errors
/// With what was wrong, before any file is read.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let given = if arguments.settings.is_empty() { Some(arguments.bounds.text()) } else { arguments.bounds.text_if_any() };
    let jobs = arguments.jobs();
    match (&jobs[..], &arguments.files[..]) {
        ([], files) => {
            let files = files.iter().map(|file| Name::from(file).to_string()).collect::<Vec<_>>().join(" ");
            refuse_arguments(&format!("{files} is all that is named: name the file to read, and after it the one to write, OUT"));
        }
        ([_, _, ..], [.., output]) if !output.is_dir() => {
            let (count, output) = (jobs.len(), Name::from(output));
            refuse_arguments(&format!("{count} files to read, and {output} is no folder: name one that exists"));
        }
        _ => {}
    }
    for (number, job) in jobs.iter().enumerate() {
        if jobs[..number].iter().any(|other| other.output == job.output) {
            refuse_arguments(&format!("{} would be written twice: rename one of the files to read", Name::from(&job.output)));
        }
    }
    ensure!(
        Filter::get_info(FILTER_ID).is_available,
        "HDF5 does not find the filter {FILTER_ID}: name the folder of libh5zquire.so in HDF5_PLUGIN_PATH; `quire doctor` says more"
    );
    let threads = arguments.jobs.count()?;
    let (mut values, mut outcome, mut totals) = (Vec::new(), Outcome::Done, (0, 0));
    for job in &jobs {
        match repack(job, arguments, given.as_deref(), threads) {
            Ok(report) if arguments.json => values.push(report.json(job)),
            Ok(report) => {
                report.print(job, arguments.verbose);
                let (before, after) = report.sizes.unwrap_or_default();
                totals = (totals.0 + before, totals.1 + after);
            }
            Err(error) if jobs.len() == 1 => return Err(error),
            Err(error) => {
                complain(format_args!("error: {error:#}"));
                values.push(json!({ "input": Name::from(job.input), "error": format!("{error:#}") }));
                outcome = Outcome::Wrong;
            }
        }
    }
    if arguments.json {
        print_json(json!({ "files": values }));
    } else if jobs.len() > 1 && !arguments.dry_run {
        say(format_args!("{} of {} files: {} bytes -> {} bytes", jobs.len() - values.len(), jobs.len(), totals.0, totals.1));
    }
    Ok(outcome)
}

/// Plans, copies and verifies one file, and gives it its name.
fn repack(job: &Job<'_>, arguments: &Arguments, given: Option<&str>, threads: usize) -> Result<Repacked> {
    refuse_output(job, arguments.force)?;
    let from = datasets::open(job.input)?;
    let mut plan = plan::Plan::new(job.input, arguments, given)?;
    if arguments.dry_run {
        return Ok(Repacked { plan, done: Vec::new(), notes: Vec::new(), sizes: None });
    }
    let (written, bar, copied) = loop {
        if plan.tasks.is_empty() {
            plan.skipped.lines(arguments.verbose).iter().for_each(complain);
            bail!("{}: there is nothing to compress in it, and nothing is written", Name::from(job.input));
        }
        let written = part::begin(&job.output)?;
        let bar = progress(2 * plan.tasks.iter().map(plan::Task::bytes_written).sum::<u64>(), "bytes");
        let copied = write(&from, job, written.path(), &plan, threads, &bar)?;
        // A dataset whose copy is larger keeps its original form. HDF5 cannot replace a dataset in a file and keep its attributes in place, so the whole copy
        // is made anew without it.
        if !plan.leave_out_grown(&copied.stored) {
            break (written, bar, copied);
        }
        bar.finish_and_clear();
    };
    let done = check::check(&from, written.path(), &plan, threads, &bar)?;
    bar.finish_and_clear();
    if arguments.annotate {
        annotate::annotate(written.path(), &plan, &done)?;
    }
    // A damaged file can make HDF5 crash here as well; there is no output then.
    from.close()?;
    written.keep(&job.output, arguments.force)?;
    let size = |path: &Path| anyhow::Ok(fs::metadata(path).with_context(|| Name::from(path))?.len());
    let sizes = Some((size(job.input)?, size(&job.output)?));
    Ok(Repacked { plan, done, notes: copied.notes, sizes })
}

/// Refuses an output that is the input, or that is there and not to be replaced.
fn refuse_output(Job { input, output }: &Job<'_>, force: bool) -> Result<()> {
    let shown = Name::from(output);
    ensure!(!is_same_file(input, output), "{shown} is the file that is to be read: name another to write");
    ensure!(!output.is_dir(), "{shown} is a folder: name a file in it");
    let is_free = force || output.symlink_metadata().is_err();
    ensure!(is_free, "{shown} is there already: name another file, or give --force to replace it");
    Ok(())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((system::identity(one), system::identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Writes the whole file, and gives notes on what could not be kept.
fn write(
    from: &File,
    job: &Job<'_>,
    path: &Path,
    plan: &plan::Plan,
    threads: usize,
    bar: &indicatif::ProgressBar,
) -> Result<copy::Copied> {
    let of_output = || Name::from(&job.output);
    let properties = objects::file_properties(from)?;
    let is_old = objects::superblock_version(from)? < 2;
    let mut access = FileAccess::build();
    let access = if is_old { access.libver_earliest() } else { access.libver_v18() }.finish().with_context(of_output)?;
    let to = links::create_file(path, &properties, &access).with_context(of_output)?;
    let copied = copy::copy(from, &to, plan, threads, bar)?;
    // What is only written when the file is closed would have no way to say that it failed.
    to.flush().and_then(|()| to.close()).with_context(of_output)?;
    copy_user_block(job.input, path, from.userblock()).with_context(|| Name::from(path))?;
    Ok(copied)
}

/// Bytes in front of what is HDF5's, which are the user's own.
fn copy_user_block(from: &Path, to: &Path, length: u64) -> std::io::Result<()> {
    let mut block = Vec::new();
    fs::File::open(from)?.take(length).read_to_end(&mut block)?;
    fs::OpenOptions::new().write(true).open(to)?.write_all(&block)
}

impl Repacked {
    /// Notes on the chunks of datasets, and on missing values of which HDF5 does not know.
    fn notes_on_datasets(&self) -> Vec<(Name, String)> {
        let chunks = self.plan.tasks.iter().filter_map(|task| Some((task.path.clone(), task.note.clone()?)));
        let missing = self.plan.tasks.iter().filter(|task| task.has_unknown_missing_values());
        chunks.chain(missing.map(|task| (task.path.clone(), MISSING_IS_NOT_FILL.to_owned()))).collect()
    }

    /// Notes on what could not be kept, and on bounds.
    fn other_notes(&self) -> Vec<String> {
        let far = self.plan.tasks.iter().zip(&self.done);
        let far = far.filter_map(|(task, done)| Some(format!("{}: {}", task.path, done.difference.far?)));
        self.notes.iter().cloned().chain(far).collect()
    }

    fn json(&self, job: &Job<'_>) -> Value {
        let datasets = self.plan.tasks.iter().enumerate().map(|(index, task)| {
            let mut value =
                json!({ "path": task.path, "options": task.options, "chunk_shape": task.chunk, "bytes": task.source.bytes() });
            if let Some(done) = self.done.get(index) {
                value["stored_bytes"] = done.stored.into();
                value["ratio"] = done.ratio(task).into();
                value["greatest_error"] = done.difference.greatest.into();
                value["psnr"] = done.difference.psnr().into();
            }
            value
        });
        let notes = self.notes_on_datasets().into_iter().map(|(path, note)| format!("{path}: {note}"));
        let notes: Vec<String> = notes.chain(self.other_notes()).collect();
        json!({
            "input": Name::from(job.input), "output": Name::from(&job.output),
            "input_bytes": self.sizes.map(|(before, _)| before), "output_bytes": self.sizes.map(|(_, after)| after), "verified": self.sizes.is_some(),
            "datasets": datasets.collect::<Vec<_>>(), "skipped": self.plan.skipped.json(), "notes": notes,
        })
    }

    fn print(&self, job: &Job<'_>, is_verbose: bool) {
        let mut heading = vec!["dataset", "options", "chunks", "bytes"];
        if self.sizes.is_some() {
            heading.extend(["stored", "ratio", "PSNR/dB", "largest error"]);
        }
        let row = |(index, task): (usize, &plan::Task)| {
            let bytes = task.source.bytes().to_string();
            let mut row = vec![task.path.to_string(), task.options.clone(), shape_text(&task.chunk), bytes];
            if let Some(done) = self.done.get(index) {
                // A dataset that was never written takes no bytes.
                let ratio = or_dash((done.stored > 0).then(|| format!("{:.2}", done.ratio(task))));
                let error = format!("{:.3e}", done.difference.greatest);
                row.extend([done.stored.to_string(), ratio, done.difference.psnr_text(), error]);
            }
            row
        };
        print_table(&heading, self.plan.tasks.iter().enumerate().map(row).collect());
        self.plan.skipped.lines(is_verbose).iter().for_each(say);
        grouped("note:", &self.notes_on_datasets()).iter().for_each(say);
        self.other_notes().iter().for_each(|note| say(format_args!("note: {note}")));
        let output = Name::from(&job.output);
        match self.sizes {
            Some((before, after)) => say(format_args!("{before} bytes -> {after} bytes, verified: {output}")),
            None => say(format_args!("nothing is written: without --dry-run these would be compressed in {output}")),
        }
    }
}
