//! `quire verify`: compares the datasets of a copy with those of the original, whatever filter made it, and says which promises it breaks.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use clap::Args;
use h5zquire::{FILTER_ID, cd_values};
use hdf5::Dataset;
use hdf5::filters::Filter;
use indicatif::ProgressBar;
use quire_codec::{ErrorBound, options};
use serde_json::{Value, json};

use crate::arguments::{Bounds, shape_text};
use crate::compare::{Difference, compare};
use crate::copied::{Buffers, Copied, Read};
use crate::datasets::{Named, Source, block_of, file_and_path, find, find_in, written_boxes};
use crate::filters::{NAME_ITS_FOLDER, filter_name, not_found};
use crate::inspect::corner_text;
use crate::jobs::{self, Jobs};
use crate::library::message;
use crate::library::numbers::Numbers;
use crate::library::objects::is_same_type;
use crate::library::process::note_reading;
use crate::library::values::{Part, Values};
use crate::names::Name;
use crate::output::{Outcome, Table, number, print_json, progress, say};
use crate::skipped::Skipped;
use crate::slabs::{ChunkReader, Range, ReadChunk};

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
struct Report {
    path: Name,
    /// The result of the comparison; `None` if the copy has no dataset of this name, or none whose values can be read.
    copy: Option<Compared>,
    /// Why the copy is wrong.
    problem: Option<String>,
}

struct Compared {
    filters: String,
    /// The bound that is promised, as options.
    bound: Option<String>,
    difference: Difference,
    chunks: Vec<Chunk>,
}

/// First corner and comparison of a chunk.
struct Chunk {
    corner: Vec<u64>,
    difference: Difference,
}

/// Runs the command.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let given = arguments.bounds.text_if_any();
    let threads = arguments.jobs.count()?;
    let (path, inside) = file_and_path(&arguments.original);
    let originals = find(&arguments.original)?;
    let copies = Copies::of(&arguments.copy)?;
    let total = originals.iter().filter_map(|named| named.dataset.as_ref().ok()).map(|dataset| dataset.size() as u64).sum();
    let bar = progress(total, "values");
    let (mut reports, mut skipped, mut equal) = (Vec::new(), Skipped::default(), 0);
    let paths: BTreeSet<Name> = originals.iter().map(|named| named.path.clone()).collect();
    for original in originals {
        bar.set_message(original.path.to_string());
        let (path, size) = (original.path.clone(), original.dataset.as_ref().map_or(0, |dataset| dataset.size()));
        let before = bar.position();
        match verify(original, &copies, given.as_deref(), threads, &bar)? {
            Found::Numbers(report) => reports.push(*report),
            Found::Equal => equal += 1,
            Found::Unknown(reason) => skipped.0.push((path, reason)),
        }
        bar.set_position(before + size as u64);
    }
    bar.finish_and_clear();
    // If a part of the original is verified, the copy may well have more.
    let is_whole = inside == b"/";
    let more: Vec<&Name> = copies.by_path.keys().filter(|path| is_whole && !paths.contains(path)).collect();
    let wrong = reports.iter().filter(|report| report.problem.is_some()).count();
    if arguments.json {
        print_json(&json!({
            "original": Name::from(path).json(), "copy": Name::from(&*arguments.copy).json(), "kept": wrong == 0,
            "datasets": reports.iter().map(|report| report.json(arguments.chunks)).collect::<Vec<_>>(), "equal": equal,
            "not_compared": skipped.0.iter().map(|(path, reason)| json!({ "path": path.json(), "reason": reason })).collect::<Vec<_>>(),
            "only_in_copy": more.iter().map(|path| path.json()).collect::<Vec<_>>(),
        }));
    } else {
        print(&reports, arguments.chunks);
        skipped.lines(arguments.verbose).iter().for_each(say);
        more.iter().for_each(|path| say(format_args!("note: {path} is in the copy alone")));
        if equal > 0 {
            say(format_args!("{equal} other dataset{} equal", if equal == 1 { " is" } else { "s are" }));
        }
        let count = reports.len();
        match wrong {
            0 => say(format_args!("{count} dataset{} compared: no promise is broken", if count == 1 { "" } else { "s" })),
            wrong => say(format_args!("{wrong} of {count} datasets are WRONG")),
        }
    }
    Ok(if wrong == 0 { Outcome::Done } else { Outcome::Wrong })
}

/// The datasets of the copy.
struct Copies<'a> {
    file: &'a OsStr,
    by_path: HashMap<Name, Named>,
}

impl<'a> Copies<'a> {
    fn of(file: &'a OsStr) -> Result<Self, String> {
        let by_path = find_in(file.as_ref(), &"/".into(), &Name::from(file))?
            .into_iter()
            .map(|named| (named.path.clone(), named))
            .collect();
        Ok(Self { file, by_path })
    }

    /// The dataset with this path, which may be another path of an object than the one that was found first.
    fn get(&self, path: &Name) -> Result<Option<Dataset>, String> {
        let opened = |named: &Named| named.dataset.clone().map_err(|reason| format!("{}: {reason}", named.name));
        if let Some(named) = self.by_path.get(path) {
            return opened(named).map(Some);
        }
        match find_in(self.file.as_ref(), path, path) {
            Ok(found) => found.iter().find(|named| named.is_named).map(opened).transpose(),
            Err(_) => Ok(None),
        }
    }
}

/// What came of a dataset of the original.
enum Found {
    /// A report on numbers, or on a dataset that is not in the copy or is another there.
    Numbers(Box<Report>),
    /// Values without a promise, and values that are no numbers, which are equal.
    Equal,
    /// It cannot be compared, for this reason.
    Unknown(String),
}

fn verify(original: Named, copies: &Copies<'_>, given: Option<&str>, threads: usize, bar: &ProgressBar) -> Result<Found, String> {
    let Named { dataset, path, name, .. } = original;
    let dataset = match dataset {
        Ok(dataset) => dataset,
        Err(reason) => return Ok(Found::Unknown(reason)),
    };
    let wrong = |problem: String| Ok(Found::Numbers(Box::new(Report { path: path.clone(), copy: None, problem: Some(problem) })));
    let Some(copy) = copies.get(&path)? else { return wrong("the copy has no such dataset".to_owned()) };
    if copy.shape() != dataset.shape() {
        return wrong(format!("its shape is {}, the original's is {}", shape_text(&copy.shape()), shape_text(&dataset.shape())));
    }
    // A scalar and a null dataspace have no axes both.
    let (count, copied) = (values_of(&dataset)?, values_of(&copy)?);
    if copied != count {
        return wrong(format!("its number of values is {copied}, the original's is {count}"));
    }
    if count == 0 {
        return match has_same_type(&dataset, &copy) {
            Ok(true) => Ok(Found::Equal),
            Ok(false) => wrong(OTHER_TYPE.to_owned()),
            Err(reason) => Ok(Found::Unknown(reason)),
        };
    }
    note_reading(&name);
    let sources = (Source::new(dataset.clone(), name.clone(), None), Source::new(copy.clone(), path.clone(), None));
    match sources {
        (Ok(original), Ok(copy)) if original.numbers.scalar == copy.numbers.scalar => {
            numbers(path, &original, &copy, given, threads, bar)
        }
        (Err(_), _) => match others(&dataset, &copy) {
            Ok(true) => Ok(Found::Equal),
            Ok(false) => wrong("its values are not those of the original, or its type is another".to_owned()),
            Err(reason) => Ok(Found::Unknown(reason)),
        },
        (Ok(_), _) => wrong(OTHER_TYPE.to_owned()),
    }
}

/// The number of a dataset's values. `Dataset::size` counts one in a null dataspace.
fn values_of(dataset: &Dataset) -> Result<usize, String> {
    dataset.space().and_then(|space| space.extents()).map(|extents| extents.size()).map_err(message)
}

const OTHER_TYPE: &str = "its type is not that of the original";

/// Whether two datasets have one type, numbers in any byte order.
///
/// # Errors
/// Why that cannot be said.
fn has_same_type(original: &Dataset, copy: &Dataset) -> Result<bool, String> {
    if let (Ok(original), Ok(copy)) = (Numbers::of(original), Numbers::of(copy)) {
        return Ok(original.scalar == copy.scalar);
    }
    Ok(is_same_type(&original.dtype().map_err(message)?, &copy.dtype().map_err(message)?))
}

/// The options whose bound a copy promises: the given ones, or those of this filter among the copy's filters.
fn promised(given: Option<&str>, filters: &[Filter]) -> Result<Option<String>, String> {
    if given.is_some() {
        return Ok(given.map(str::to_owned));
    }
    let own = filters.iter().find_map(|filter| match filter {
        Filter::User(FILTER_ID, words) => Some(cd_values::to_options(words)),
        _ => None,
    });
    own.transpose().map_err(message)
}

/// Compares numbers, chunk by chunk of the copy.
fn numbers(
    path: Name,
    original: &Source,
    copy: &Source,
    given: Option<&str>,
    threads: usize,
    bar: &ProgressBar,
) -> Result<Found, String> {
    let filters = copy.dataset.dcpl().and_then(|properties| properties.get_filters()).map_err(message)?;
    let bound = promised(given, &filters)?;
    let promise: Option<ErrorBound> =
        bound.as_deref().map(options::parse).transpose().map_err(message)?.map(|options| options.config.bound);
    let names: Vec<String> = filters.iter().map(filter_name).collect();
    let mut compared = Compared {
        filters: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        bound,
        difference: Difference::default(),
        chunks: Vec::new(),
    };
    let mut problem = None;
    // Chunks that neither file has hold fill values alone.
    if original.fill_value.unwrap_or(0) != copy.fill_value.unwrap_or(0) {
        problem = Some("its fill value is not that of the original".to_owned());
    }
    let block = copy.dataset.chunk().unwrap_or_else(|| block_of(&copy.extents));
    let mut boxes: BTreeSet<Vec<(usize, usize)>> = written_boxes(&copy.dataset, &block)?.into_iter().collect();
    boxes.extend(written_boxes(&original.dataset, &block)?);
    let boxes: Vec<Vec<Range>> = boxes.into_iter().collect();
    let (mut is_equal, mut is_unread) = (true, false);
    // A filter counts missing values in a chunk's range. A copy by `repack` keeps the smaller bound of a range without them.
    let kinds = [original.kind(), original.kind_for_filters()];
    let reader = RefCell::new(ChunkReader::new(original, &block, &boxes));
    let copied = Copied::new(&copy.dataset, original)?;
    jobs::pipeline(
        threads,
        || Ok(reader.borrow_mut().next()?.map(|chunk| (copied.read(&chunk.ranges), chunk))),
        |Buffers { before, after }: &mut Buffers, (read, chunk): (Result<Read, String>, ReadChunk)| {
            let compared = read.and_then(|read| {
                let (before, after) = (chunk.values(before), copied.values(&read, &chunk.ranges, after)?);
                let [first, second] = kinds.map(|kind| move || compare(before, after, kind, promise));
                let difference = first();
                let may_be_of_a_filter = difference.beyond > 0 || difference.broken.is_some() && difference.changed == 0;
                Ok((before == after, if may_be_of_a_filter { second() } else { difference }))
            });
            (compared, chunk)
        },
        |(found, chunk)| {
            let corner = chunk.corner();
            match found {
                Ok((is_same, difference)) => {
                    is_equal &= is_same;
                    if let Some(reason) = &difference.broken {
                        problem.get_or_insert_with(|| format!("{reason}; the chunk is at {}", corner_text(&corner)));
                    }
                    is_unread = false;
                    compared.difference.add(&difference);
                    compared.chunks.push(Chunk { corner, difference });
                }
                Err(reason) => {
                    // HDF5's own reason names the last folder that it has searched, and not the filter.
                    let reason = not_found(&filters).map_or(reason, |absent| format!("{absent}: {NAME_ITS_FOLDER}"));
                    problem.get_or_insert_with(|| format!("its chunk at {} cannot be read: {reason}", corner_text(&corner)));
                    is_unread = compared.chunks.is_empty();
                }
            }
            bar.inc(chunk.count() as u64);
            reader.borrow_mut().give_back(chunk);
            Ok(())
        },
    )?;
    // Without a promise there is nothing to say about values that are the same.
    if is_equal && compared.bound.is_none() && problem.is_none() {
        return Ok(Found::Equal);
    }
    // Of values that cannot be read, there is no error to be shown.
    Ok(Found::Numbers(Box::new(Report { path, copy: (!is_unread).then_some(compared), problem })))
}

/// Whether other values are equal.
///
/// # Errors
/// Why that cannot be said.
fn others(original: &Dataset, copy: &Dataset) -> Result<bool, String> {
    let (one, other) = (original.dtype().map_err(message)?, copy.dtype().map_err(message)?);
    if !is_same_type(&one, &other) {
        return Ok(false);
    }
    let block = original.chunk().unwrap_or_else(|| block_of(&original.shape()));
    for ranges in written_boxes(original, &block)? {
        if contents(Values::of_box(original, &ranges)?)? != contents(Values::of_box(copy, &ranges)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Values as bytes, without addresses in memory.
fn contents(mut values: Values) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    values.visit(|part| {
        match part {
            Part::Bytes(bytes) => contents.extend_from_slice(bytes),
            Part::Text(None) => contents.push(0),
            Part::Text(Some(text)) => {
                contents.push(1);
                contents.extend_from_slice(text.to_bytes_with_nul());
            }
            Part::Length(length) => contents.extend_from_slice(&length.to_le_bytes()),
            Part::Reference(..) => return Err("references, whose addresses differ from file to file".to_owned()),
        }
        Ok(())
    })?;
    Ok(contents)
}

/// The largest error as a share of the bound, if there is one.
fn share_text(difference: &Difference, bound: Option<&String>) -> String {
    match bound {
        Some(_) if difference.share.is_finite() => format!("{:.1} %", difference.share * 100.0),
        Some(_) => "beyond".to_owned(),
        None => "-".to_owned(),
    }
}

fn difference_json(difference: &Difference) -> Value {
    json!({
        "values": difference.values, "greatest_error": number(difference.greatest), "share_of_bound": number(difference.share),
        "psnr": number(difference.psnr()), "beyond_bound": difference.beyond, "changed": difference.changed, "problem": difference.broken,
    })
}

impl Report {
    fn json(&self, with_chunks: bool) -> Value {
        let mut value = json!({ "path": self.path.json(), "problem": self.problem });
        let Some(compared) = &self.copy else { return value };
        let Value::Object(found) = difference_json(&compared.difference) else { return value };
        for (key, found) in found.into_iter().filter(|(key, _)| key != "problem") {
            value[key] = found;
        }
        value["filters"] = compared.filters.clone().into();
        value["bound"] = compared.bound.clone().into();
        if with_chunks {
            let chunk = |chunk: &Chunk| {
                let mut value = difference_json(&chunk.difference);
                value["corner"] = chunk.corner.clone().into();
                value
            };
            value["chunks"] = compared.chunks.iter().map(chunk).collect();
        }
        value
    }
}

fn print(reports: &[Report], with_chunks: bool) {
    let cells = |difference: &Difference, bound: Option<&String>| {
        let share = share_text(difference, bound);
        let (error, psnr) = (format!("{:.3e}", difference.greatest), difference.psnr_text());
        [error, share, psnr, difference.beyond.to_string(), difference.changed.to_string()]
    };
    let mut heading = vec!["dataset"];
    heading.extend(if with_chunks { &["chunk at"][..] } else { &["filters", "bound"] });
    heading.extend(["largest error", "of the bound", "PSNR/dB", "beyond", "changed"]);
    let mut table = Table::new(&heading);
    for Report { path, copy, .. } in reports {
        let Some(Compared { filters, bound, difference, chunks }) = copy else { continue };
        if with_chunks {
            for chunk in chunks {
                let mut row = vec![path.to_string(), corner_text(&chunk.corner)];
                row.extend(cells(&chunk.difference, bound.as_ref()));
                table.push(row);
            }
            continue;
        }
        let mut row = vec![path.to_string(), filters.clone(), bound.clone().unwrap_or_else(|| "-".to_owned())];
        row.extend(cells(difference, bound.as_ref()));
        table.push(row);
    }
    table.print();
    for Report { path, problem, .. } in reports {
        if let Some(problem) = problem {
            say(format_args!("WRONG {path}: {problem}"));
        }
    }
}
