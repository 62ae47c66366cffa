//! `quire inspect`: lists how each chunk of a file was compressed, read from the headers of its stream.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use h5zquire::{FILTER_ID, cd_values};
use hdf5::Dataset;
use hdf5::filters::Filter;
use quire_codec::Coding;
use quire_codec::stages::inspect::{Description, PlaneCoding, Prediction};
use quire_codec::stages::predictor::LevelSteps;
use serde::Serialize;
use serde_json::json;

use crate::arguments::shape_text;
use crate::datasets::{Named, find};
use crate::filters::filter_name;
use crate::jobs::{self, Jobs};
use crate::library::chunks;
use crate::library::numbers::Numbers;
use crate::library::process::note_reading;
use crate::names::Name;
use crate::output::{Outcome, complain, grouped, or_dash, print_json, print_table, say};
use crate::small_chunks::{SMALL_CHUNK, SmallChunks};

/// Show how the chunks of a file were compressed
///
/// Prints one row per dataset, or with --chunks one row per chunk: bytes, compression ratio, predictor, coding and more. The values are not decoded and
/// the plugin is not needed. Verifies checksums: the row of a damaged chunk says what is wrong, and the exit code is then 1.
///
/// Example: quire inspect --chunks run.h5:/fields/u
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// HDF5 files, or a dataset or group in one, such as run.h5:/fields/u
    #[arg(required = true, value_name = "FILE[:/PATH]")]
    sources: Vec<OsString>,
    #[command(flatten)]
    jobs: Jobs,
    /// Print one row per chunk
    #[arg(long)]
    chunks: bool,
    /// Print datasets and chunks as one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// A dataset, as it is stored.
#[derive(Serialize)]
struct Inspected {
    name: Name,
    /// Advice, if the dataset has chunks that are small.
    small_chunks: Option<String>,
    compressed: bool,
    /// The names of its filters, or why they are not known.
    filters: String,
    /// What this filter has made of it.
    #[serde(flatten)]
    found: Option<Compressed>,
}

/// A dataset that this filter has compressed.
#[derive(Serialize)]
struct Compressed {
    options: String,
    #[serde(rename = "type")]
    type_name: String,
    shape: Vec<usize>,
    chunk_shape: Vec<usize>,
    bytes: u64,
    stored_bytes: u64,
    ratio: f64,
    damaged: usize,
    chunks: Vec<Chunk>,
}

/// A chunk. What its stream does not say, or a damaged one, is missing.
#[derive(Serialize, Default)]
struct Chunk {
    /// The chunk's first value in the dataset.
    corner: Vec<u64>,
    /// Stored bytes.
    bytes: u64,
    ratio: f64,
    /// What the values became.
    values: &'static str,
    /// How the first plane is coded, by which predictor, with which codebook. The other planes are those of many exceptions.
    coding: Option<&'static str>,
    predictor: Option<String>,
    codebook: Option<String>,
    /// The largest error that a value may have: in the data's units, or as a share of the value.
    bound: Option<f64>,
    bound_is_share_of_value: Option<bool>,
    half_step: Option<f64>,
    exceptions: Option<u64>,
    /// Why the chunk is damaged.
    error: Option<String>,
}

/// What the column `bound` means, printed below tables.
const BOUND: &str = "bound: no value of the chunk is off by more, in the data's units; |x|: times the value itself";

/// Runs the command.
///
/// # Errors
/// If a file or object does not exist, or HDF5 cannot read its description.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let threads = arguments.jobs.count()?;
    let mut inspected = Vec::new();
    for source in &arguments.sources {
        for Named { dataset, name, .. } in find(source)? {
            note_reading(&name);
            let small_chunks = dataset.as_ref().ok().and_then(small_chunks).map(|small| small.to_string());
            let (filters, found) = match dataset {
                Ok(dataset) => contents(&dataset, threads).with_context(|| name.clone())?,
                Err(reason) => (format!("{reason:#}"), None),
            };
            inspected.push(Inspected { name, small_chunks, compressed: found.is_some(), filters, found });
        }
    }
    let damaged: usize = inspected.iter().filter_map(|each| each.found.as_ref()).map(|found| found.damaged).sum();
    if arguments.json {
        print_json(json!({ "datasets": inspected, "damaged": damaged }));
    } else {
        if arguments.chunks {
            inspected.iter().for_each(print_chunks)
        } else {
            print_summary(&inspected)
        }
        let said = inspected.iter().filter_map(|each| Some((each.name.clone(), each.small_chunks.clone()?)));
        grouped("note:", &said.collect::<Vec<_>>()).iter().for_each(say);
    }
    if damaged == 0 {
        return Ok(Outcome::Done);
    }
    complain(format_args!("{damaged} damaged chunk{}", if damaged == 1 { "" } else { "s" }));
    Ok(Outcome::Wrong)
}

/// The names of a dataset's filters, and what this filter has made of it, if it is among them.
fn contents(dataset: &Dataset, threads: usize) -> Result<(String, Option<Compressed>)> {
    let filters = dataset.dcpl()?.get_filters()?;
    let names = filters.iter().map(filter_name).collect::<Vec<_>>().join(", ");
    // Behind the filter a checksum can be taken off; what others made of a stream can not.
    let (words, behind) = match &filters[..] {
        [] => return Ok(("no filter".to_owned(), None)),
        [Filter::User(FILTER_ID, words)] => (words, 0),
        [Filter::User(FILTER_ID, words), Filter::Fletcher32] => (words, 4),
        filters if filters.iter().any(|filter| filter.id() == FILTER_ID) => {
            return Ok((format!("{names}: streams that other filters have changed are not read"), None));
        }
        _ => return Ok((names, None)),
    };
    let options = cd_values::to_options(words)?;
    let scalar = Numbers::of(dataset)?.scalar;
    let chunk_shape = dataset.chunk().context("it has the filter, but no chunks")?;
    let chunk_bytes = (chunk_shape.iter().product::<usize>() * scalar.element_size()) as u64;
    let mut corners = chunks::corners(dataset)?.into_iter();
    let mut chunks = Vec::new();
    // The calling thread reads streams; others look at them.
    jobs::pipeline(
        threads,
        || {
            let Some(corner) = corners.next() else { return Ok(None) };
            let mut stream = Vec::new();
            let read = chunks::read(dataset, &corner, &mut stream);
            Ok(Some((corner, stream, read)))
        },
        |(): &mut (), (corner, stream, read)| {
            let described = read.and_then(|left_out| described(&stream, left_out, behind, chunk_bytes));
            let chunk = described.unwrap_or_else(|error| Chunk {
                values: "damaged",
                error: Some(format!("{error:#}")),
                ..Chunk::default()
            });
            let bytes = stream.len() as u64;
            Chunk { corner, bytes, ratio: chunk_bytes as f64 / bytes as f64, ..chunk }
        },
        |chunk| {
            chunks.push(chunk);
            Ok(())
        },
    )?;
    let (bytes, stored_bytes) = (chunk_bytes * chunks.len() as u64, chunks.iter().map(|chunk| chunk.bytes).sum());
    let found = Compressed {
        options,
        type_name: scalar.to_string(),
        shape: dataset.shape(),
        chunk_shape,
        bytes,
        stored_bytes,
        ratio: bytes as f64 / stored_bytes as f64,
        damaged: chunks.iter().filter(|chunk| chunk.error.is_some()).count(),
        chunks,
    };
    Ok((names, Some(found)))
}

/// Advice for a dataset of numbers whose chunks are small.
pub(crate) fn small_chunks(dataset: &Dataset) -> Option<SmallChunks> {
    let each = Numbers::of(dataset).ok()?.scalar.element_size();
    SmallChunks::of(&dataset.chunk()?, &dataset.shape(), each, SMALL_CHUNK)
}

/// What a chunk's stream says. `left_out` is HDF5's mask of the filters that were skipped, `behind` the bytes of a checksum behind the stream.
fn described(stream: &[u8], left_out: u32, behind: usize, chunk_bytes: u64) -> Result<Chunk> {
    if left_out & 1 != 0 {
        // HDF5 stored the chunk without the filter, which it may do if the filter is optional.
        let (bound, bound_is_share_of_value) = (Some(0.0), Some(false));
        return Ok(Chunk { values: "unfiltered", bound, bound_is_share_of_value, ..Chunk::default() });
    }
    let is_checked = left_out & 2 == 0;
    let end = stream.len().saturating_sub(if is_checked { behind } else { 0 });
    let description = Description::of(&stream[..end])?;
    let header = &description.header;
    let found = header.layout.chunk_bytes();
    ensure!(found == chunk_bytes, "its stream holds {found} bytes, a chunk of the dataset has {chunk_bytes}");
    let half_step = description.half_step.unwrap_or(0.0);
    // The grid is even in the binary logarithm.
    let is_share = header.coding == Coding::Logarithmic;
    let mut chunk = Chunk {
        values: header.coding.name(),
        bound: Some(if is_share { half_step.exp2() - 1.0 } else { half_step }),
        bound_is_share_of_value: Some(is_share),
        half_step: description.half_step,
        exceptions: Some(description.exceptions),
        ..Chunk::default()
    };
    if let Some(plane) = description.planes.first() {
        (chunk.coding, chunk.codebook) = match plane.coding {
            PlaneCoding::BitPlanes => (Some("bit planes"), None),
            PlaneCoding::Dictionary(book) => (Some("huffman"), Some(book.to_string())),
            PlaneCoding::Custom => (Some("huffman"), Some("custom".to_owned())),
        };
        chunk.predictor = Some(predictor(&plane.prediction, header.layout.shape.dims().len()));
    }
    Ok(chunk)
}

fn predictor(prediction: &Prediction, rank: usize) -> String {
    const AXES: [char; 4] = ['x', 'y', 'z', 'w'];
    let along = |set: u8| (0..rank).filter(|axis| set >> axis & 1 != 0).map(|axis| AXES[axis]).collect::<String>();
    match *prediction {
        Prediction::Interpolation(kind) => {
            let name = if kind.is_linear() { "linear" } else { "cubic" };
            let steps = match kind.steps() {
                LevelSteps::Equal => "",
                LevelSteps::Finer => ", finer steps",
                LevelSteps::Halved => ", halved steps",
            };
            format!("{name} interpolation {}{steps}", along(!kind.rough()))
        }
        Prediction::Differences(0) => "none".to_owned(),
        Prediction::Differences(set) => format!("differences {}", along(set)),
    }
}

impl Compressed {
    /// The smallest and the largest bound of the chunks.
    fn bounds(&self) -> String {
        let mut known: Vec<&Chunk> = self.chunks.iter().filter(|chunk| chunk.bound.is_some()).collect();
        known.sort_by(|one, other| one.bound.unwrap_or(0.0).total_cmp(&other.bound.unwrap_or(0.0)));
        let (least, most) = (known.first().map(|chunk| chunk.bound_text()), known.last().map(|chunk| chunk.bound_text()));
        if least == most { or_dash(least) } else { format!("{} to {}", or_dash(least), or_dash(most)) }
    }

    /// How many chunks say the same, as `name` or `name 3, other 5`.
    fn tally<'a>(&'a self, word: impl Fn(&'a Chunk) -> Option<&'a str>) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for word in self.chunks.iter().filter_map(word) {
            *counts.entry(word).or_default() += 1;
        }
        match &counts.iter().collect::<Vec<_>>()[..] {
            [] => "-".to_owned(),
            [(word, count)] if **count == self.chunks.len() => (**word).to_owned(),
            words => words.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Chunk {
    fn bound_text(&self) -> String {
        match (self.bound, self.bound_is_share_of_value) {
            (None, _) => "-".to_owned(),
            (Some(share), Some(true)) => format!("{share:.2e} |x|"),
            (Some(0.0), _) => "exact".to_owned(),
            (Some(bound), _) => format!("{bound:.2e}"),
        }
    }
}

fn print_summary(inspected: &[Inspected]) {
    let heading =
        ["dataset", "options", "bound", "chunks", "ratio", "values", "coding", "predictor", "custom books", "exceptions"];
    let row = |Inspected { name, filters, found, .. }: &Inspected| match found {
        None => vec![name.to_string(), format!("({filters})")],
        Some(found) => vec![
            name.to_string(),
            found.options.clone(),
            found.bounds(),
            found.chunks.len().to_string(),
            format!("{:.2}", found.ratio),
            found.tally(|chunk| Some(chunk.values)),
            found.tally(|chunk| chunk.coding),
            found.tally(|chunk| chunk.predictor.as_deref()),
            found.chunks.iter().filter(|chunk| chunk.codebook.as_deref() == Some("custom")).count().to_string(),
            found.chunks.iter().filter_map(|chunk| chunk.exceptions).sum::<u64>().to_string(),
        ],
    };
    print_table(&heading, inspected.iter().map(row).collect());
    if inspected.iter().any(|each| each.compressed) {
        say(BOUND);
    }
    for Inspected { name, found, .. } in inspected {
        for chunk in found.iter().flat_map(|found| &found.chunks) {
            if let Some(reason) = &chunk.error {
                say(format_args!("{name}: the chunk at {} is damaged: {reason}", corner_text(&chunk.corner)));
            }
        }
    }
}

fn print_chunks(Inspected { name, filters, found, .. }: &Inspected) {
    let Some(Compressed { options, type_name, shape, chunk_shape, chunks, .. }) = found else {
        return say(format_args!("{name}: not compressed by this filter ({filters})"));
    };
    say(format_args!("{name}: {type_name} {} in chunks of {}, {options}", shape_text(shape), shape_text(chunk_shape)));
    let row = |chunk: &Chunk| match &chunk.error {
        Some(reason) => vec![corner_text(&chunk.corner), chunk.values.to_owned(), reason.clone()],
        None => vec![
            corner_text(&chunk.corner),
            chunk.values.to_owned(),
            chunk.bound_text(),
            or_dash(chunk.coding),
            or_dash(chunk.predictor.as_ref()),
            or_dash(chunk.codebook.as_ref()),
            chunk.bytes.to_string(),
            format!("{:.2}", chunk.ratio),
            or_dash(chunk.exceptions),
        ],
    };
    let heading = ["chunk at", "values", "bound", "coding", "predictor", "codebook", "bytes", "ratio", "exceptions"];
    print_table(&heading, chunks.iter().map(row).collect());
    say(BOUND);
    say("");
}

/// A chunk's first corner for tables and messages.
pub(crate) fn corner_text(corner: &[u64]) -> String {
    format!("({})", corner.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}
