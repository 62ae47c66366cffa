//! `quire verify`: compares the datasets of a copy with those of the original, whatever filter made it, and says which promises it breaks.

pub(crate) mod copies;
mod pixels;
mod reports;

use std::collections::BTreeSet;
use std::ffi::OsString;

use anyhow::{Error, Result, bail, ensure};
use clap::Args;
use h5zquire::{FILTER_ID, cd_values};
use hdf5::filters::Filter;
use hdf5::{Dataset, File};
use indicatif::ProgressBar;
use quire_codec::options;
use quire_report::Report;
use serde::Serialize;
use serde_json::json;

use crate::arguments::{Bounds, shape_text};
use crate::boxes::{self, Range, block_of};
use crate::compare::Difference;
use crate::datasets::{Named, Source, file_and_path, find, find_in, open, open_dataset, written_boxes};
use crate::filters::{NAME_ITS_FOLDER, filter_name, not_found};
use crate::inspect::corner_text;
use crate::jobs::Jobs;
use crate::library::links::{ObjectKind, object_by_name};
use crate::library::numbers::Numbers;
use crate::library::process::note_reading;
use crate::library::values::Values;
use crate::names::Name;
use crate::output::{Outcome, Skipped, or_dash, print_json, print_table, progress, say};
use crate::slabs::Chunks;
use copies::{Compared, Pair, compare_copies};
use reports::Wanted;

/// Compare a compressed copy of a file with the original
///
/// Finds each dataset of ORIGINAL by its path in COPY, and compares the values in double precision. Prints the largest error, that error as a share of the
/// promised bound, and PSNR. It counts values that are off by more than the bound, and values that changed though they must not: fill values, those that an
/// attribute missing_value or _FillValue names, NaN and infinities. The bound is the one that this filter's options in COPY promise. For copies by other
/// filters, which have to be installed, give one: it then holds for all datasets. Datasets of other types than numbers have to be equal.
///
/// The exit code is 1 if a promise is broken, or a dataset is missing or has another type or shape.
///
/// Examples: quire verify run.h5 run-small.h5
///
/// quire verify run.h5:/fields run-zfp.h5 --abs 1e-3 --chunks
///
/// quire verify run.h5:/t run-small.h5 --html report.html --plot report.png
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The original HDF5 file, or a dataset or group in it, such as run.h5:/fields/u
    #[arg(value_name = "ORIGINAL[:/PATH]")]
    original: OsString,
    /// The HDF5 file to compare with it
    #[arg(value_name = "COPY")]
    copy: OsString,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Print one row per chunk of the copy
    #[arg(long)]
    chunks: bool,
    /// List every dataset that is not compared, not one a reason
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// The result for one dataset of the original.
#[derive(Serialize)]
struct Verified {
    path: Name,
    /// `None` if the copy has no dataset of this name, or none whose values can be read.
    #[serde(flatten)]
    found: Option<Box<Findings>>,
    /// Why the copy is wrong.
    problem: Option<String>,
}

/// What the comparison of a dataset with its copy has found.
#[derive(Serialize)]
struct Findings {
    filters: String,
    /// The bound that is promised, as options.
    bound: Option<String>,
    #[serde(flatten)]
    difference: Difference,
    /// Statistics beside the bound, if they are to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
    /// One for each chunk, if they are to be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunks: Option<Vec<Chunk>>,
}

#[derive(Serialize)]
struct Chunk {
    corner: Vec<u64>,
    problem: Option<String>,
    #[serde(flatten)]
    difference: Difference,
}

/// Runs the command.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let (given, threads) = (arguments.bounds.text_if_any(), arguments.jobs.count()?);
    arguments.wanted.check()?;
    let (path, inside) = file_and_path(&arguments.original);
    let originals = find(&arguments.original)?;
    let copies = find_in(arguments.copy.as_ref(), &"/".into(), &Name::from(&arguments.copy))?;
    let total: u64 = originals.iter().filter_map(|named| named.dataset.as_ref().ok()).map(|dataset| dataset.size() as u64).sum();
    let total = if arguments.wanted.any() { 2 * total } else { total };
    let verifier = Verifier { arguments, copy: open(arguments.copy.as_ref())?, given, threads, bar: progress(total, "values") };
    let (mut verified, mut skipped, mut equal) = (Vec::new(), Skipped::default(), 0);
    let paths: BTreeSet<Name> = originals.iter().map(|named| named.path.clone()).collect();
    for original in originals {
        verifier.bar.set_message(original.path.to_string());
        let path = original.path.clone();
        match verifier.verify(original) {
            Ok(Verdict::Numbers(found, problem)) => verified.push(Verified { path, found, problem }),
            Ok(Verdict::Equal) => equal += 1,
            Ok(Verdict::Unknown(reason)) => skipped.add(path, &reason),
            Err(problem) => verified.push(Verified { path, found: None, problem: Some(format!("{problem:#}")) }),
        }
    }
    verifier.bar.finish_and_clear();
    let reports: Vec<(String, &Report)> = verified
        .iter()
        .filter_map(|verified| Some((verified.path.to_string(), verified.found.as_ref()?.report.as_ref()?)))
        .collect();
    let names = [&arguments.original, &arguments.copy].map(|name| Name::from(name).to_string());
    arguments.wanted.write(&names.join(" and its copy "), &reports)?;
    // If a part of the original is verified, the copy may well have more.
    let is_whole = inside == b"/";
    let more: Vec<&Name> = copies.iter().map(|named| &named.path).filter(|path| is_whole && !paths.contains(path)).collect();
    let wrong = verified.iter().filter(|report| report.problem.is_some()).count();
    if arguments.json {
        print_json(json!({
            "original": Name::from(path), "copy": Name::from(&arguments.copy), "kept": wrong == 0, "datasets": verified,
            "equal": equal, "not_compared": skipped.json(), "only_in_copy": more,
        }));
    } else {
        print(&verified, arguments.chunks);
        for (path, report) in reports.into_iter().filter(|_| arguments.wanted.report) {
            say(path);
            report.to_string().lines().for_each(|line| say(format_args!("  {line}")));
        }
        skipped.lines(arguments.verbose).iter().for_each(say);
        more.iter().for_each(|path| say(format_args!("note: {path} is in the copy alone")));
        if equal > 0 {
            say(format_args!("{equal} other dataset{} equal", if equal == 1 { " is" } else { "s are" }));
        }
        let count = verified.len();
        match wrong {
            0 => say(format_args!("{count} dataset{} compared: no promise is broken", if count == 1 { "" } else { "s" })),
            wrong => say(format_args!("{wrong} of {count} datasets are WRONG")),
        }
    }
    Ok(if wrong == 0 { Outcome::Done } else { Outcome::Wrong })
}

/// What came of a dataset of the original.
enum Verdict {
    /// How two arrays of numbers differ, and the promise that the copy breaks.
    Numbers(Option<Box<Findings>>, Option<String>),
    /// Values without a promise, and values that are no numbers, which are equal.
    Equal,
    /// It cannot be compared, for this reason.
    Unknown(Error),
}

impl Verdict {
    /// That of values without a promise.
    ///
    /// # Errors
    /// If they are not equal, this problem.
    fn of(is_equal: Result<bool>, problem: &'static str) -> Result<Self> {
        match is_equal {
            Ok(true) => Ok(Self::Equal),
            Ok(false) => bail!(problem),
            Err(reason) => Ok(Self::Unknown(reason)),
        }
    }
}

const OTHER_TYPE: &str = "its type is not that of the original";

/// What every dataset is verified by.
struct Verifier<'a> {
    arguments: &'a Arguments,
    copy: File,
    /// The bound that the user gives.
    given: Option<String>,
    threads: usize,
    bar: ProgressBar,
}

impl Verifier<'_> {
    /// Compares a dataset with its copy.
    ///
    /// # Errors
    /// Why the copy is wrong, or cannot be read.
    fn verify(&self, Named { dataset, path, name, .. }: Named) -> Result<Verdict> {
        let dataset = match dataset {
            Ok(dataset) => dataset,
            Err(reason) => return Ok(Verdict::Unknown(reason)),
        };
        // The path may be another one of the dataset than that which is found first.
        let Ok((ObjectKind::Dataset, _)) = object_by_name(&self.copy, path.as_c()) else {
            bail!("the copy has no such dataset");
        };
        let copy = open_dataset(&self.copy, &path)?;
        let [copied, shape] = [copy.shape(), dataset.shape()].map(|shape| shape_text(&shape));
        ensure!(copied == shape, "its shape is {copied}, the original's is {shape}");
        // Neither a scalar nor a null dataspace has axes, but a scalar has a value.
        let [copied, count] = [values_of(&copy)?, values_of(&dataset)?];
        ensure!(copied == count, "its number of values is {copied}, the original's is {count}");
        if count == 0 {
            return Verdict::of(has_same_type(&dataset, &copy), OTHER_TYPE);
        }
        note_reading(&name);
        match (Source::new(dataset.clone(), name), Source::new(copy.clone(), path.clone())) {
            (Ok(original), Ok(copy)) if original.numbers.scalar == copy.numbers.scalar => self.numbers(&path, &original, &copy),
            (Err(_), _) => {
                Verdict::of(others(&dataset, &copy), "its values are not those of the original, or its type is another")
            }
            (Ok(_), _) => bail!(OTHER_TYPE),
        }
    }

    /// Compares numbers, chunk by chunk of the copy.
    fn numbers(&self, path: &Name, original: &Source, copy: &Source) -> Result<Verdict> {
        let filters = copy.dataset.dcpl()?.get_filters()?;
        let bound = self.promised(&filters)?;
        let promise = bound.as_deref().map(options::parse).transpose()?.map(|options| options.config.bound);
        // Chunks that neither file has hold fill values alone.
        let is_filled_alike = original.fill_value.unwrap_or(0) == copy.fill_value.unwrap_or(0);
        let mut problem = (!is_filled_alike).then(|| "its fill value is not that of the original".to_owned());
        let shape = copy.dataset.chunk().unwrap_or_else(|| block_of(&copy.extents));
        let mut boxes: BTreeSet<Vec<Range>> = written_boxes(&copy.dataset, &shape)?.into_iter().collect();
        boxes.extend(written_boxes(&original.dataset, &shape)?);
        let boxes: Vec<Vec<Range>> = boxes.into_iter().collect();
        let (mut is_all_equal, mut read) = (true, 0);
        let (mut sum, mut chunks) = (Difference::default(), self.arguments.chunks.then(Vec::new));
        let pair = Pair {
            original: Chunks { name: path, source: original, shape: &shape, boxes: &boxes },
            copy: &copy.dataset,
            promise,
            may_be_of_a_filter: true,
        };
        compare_copies(&[pair], self.threads, |_, chunk, found| {
            let corner = boxes::corner(&chunk.ranges);
            match found {
                Ok(Compared { is_equal, difference }) => {
                    is_all_equal &= is_equal;
                    read += 1;
                    if let Some(reason) = &difference.broken {
                        problem.get_or_insert_with(|| format!("{reason}; the chunk is at {}", corner_text(&corner)));
                    }
                    sum.add(&difference);
                    if let Some(chunks) = &mut chunks {
                        chunks.push(Chunk { corner, problem: difference.broken.clone(), difference });
                    }
                }
                Err(reason) => {
                    // HDF5's own reason names the last folder that it has searched, and not the filter.
                    let reason =
                        not_found(&filters).map_or(format!("{reason:#}"), |absent| format!("{absent}: {NAME_ITS_FOLDER}"));
                    problem.get_or_insert_with(|| format!("its chunk at {} cannot be read: {reason}", corner_text(&corner)));
                }
            }
            self.bar.inc(boxes::values(&chunk.ranges) as u64);
            Ok(())
        })?;
        // Without a promise there is nothing to say about values that are the same.
        if is_all_equal && bound.is_none() && problem.is_none() {
            return Ok(Verdict::Equal);
        }
        let names: Vec<String> = filters.iter().map(filter_name).collect();
        let filters = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        // Of values that cannot be read, there is no error to be shown.
        let is_wanted = self.arguments.wanted.any() && read == boxes.len();
        let report = is_wanted.then(|| reports::report(original, &copy.dataset, promise, self.threads, &self.bar)).transpose()?;
        let found =
            (read > 0 || boxes.is_empty()).then(|| Box::new(Findings { filters, bound, difference: sum, report, chunks }));
        Ok(Verdict::Numbers(found, problem))
    }

    /// The options whose bound a copy promises: the given ones, or those of this filter among the copy's filters.
    fn promised(&self, filters: &[Filter]) -> Result<Option<String>> {
        let own = filters.iter().find_map(|filter| match filter {
            Filter::User(FILTER_ID, words) => Some(words),
            _ => None,
        });
        match (&self.given, own) {
            (Some(given), _) => Ok(Some(given.clone())),
            (None, own) => Ok(own.map(|words| cd_values::to_options(words)).transpose()?),
        }
    }
}

/// The number of a dataset's values. `Dataset::size` counts one in a null dataspace.
fn values_of(dataset: &Dataset) -> Result<usize> {
    Ok(dataset.space()?.extents()?.size())
}

/// Whether two datasets have one type, numbers in any byte order.
///
/// # Errors
/// Why that cannot be said.
fn has_same_type(original: &Dataset, copy: &Dataset) -> Result<bool> {
    if let (Ok(original), Ok(copy)) = (Numbers::of(original), Numbers::of(copy)) {
        return Ok(original.scalar == copy.scalar);
    }
    Ok(original.dtype()? == copy.dtype()?)
}

/// Whether other values are equal.
///
/// # Errors
/// Why that cannot be said.
fn others(original: &Dataset, copy: &Dataset) -> Result<bool> {
    if original.dtype()? != copy.dtype()? {
        return Ok(false);
    }
    let block = original.chunk().unwrap_or_else(|| block_of(&original.shape()));
    let contents = |dataset: &Dataset, ranges: &[Range]| {
        Values::of_box(dataset, ranges)?.contents(|_, _, _| bail!("references, whose addresses differ from file to file"))
    };
    for ranges in written_boxes(original, &block)? {
        if contents(original, &ranges)? != contents(copy, &ranges)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn print(verified: &[Verified], with_chunks: bool) {
    let mut heading = vec!["dataset"];
    heading.extend(if with_chunks { &["chunk at"][..] } else { &["filters", "bound"] });
    heading.extend(["largest error", "of the bound", "PSNR/dB", "beyond", "changed"]);
    let row = |mut cells: Vec<String>, difference: &Difference, bound: Option<&String>| {
        let share = format!("{:.1} %", difference.share * 100.0);
        let share = bound.map(|_| if difference.share.is_finite() { &share } else { "beyond" });
        let (error, psnr) = (format!("{:.3e}", difference.greatest), difference.psnr_text());
        cells.extend([error, or_dash(share), psnr, difference.beyond.to_string(), difference.changed.to_string()]);
        cells
    };
    let mut rows = Vec::new();
    for Verified { path, found, .. } in verified {
        let Some(Findings { filters, bound, difference, chunks, .. }) = found.as_deref() else { continue };
        match chunks {
            None => rows.push(row(vec![path.to_string(), filters.clone(), or_dash(bound.as_ref())], difference, bound.as_ref())),
            Some(chunks) => rows.extend(
                chunks
                    .iter()
                    .map(|chunk| row(vec![path.to_string(), corner_text(&chunk.corner)], &chunk.difference, bound.as_ref())),
            ),
        }
    }
    print_table(&heading, rows);
    for Verified { path, problem, .. } in verified {
        if let Some(problem) = problem {
            say(format_args!("WRONG {path}: {problem}"));
        }
    }
}
