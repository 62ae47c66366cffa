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

use crate::advice::{SMALL_CHUNK, SmallChunks};
use crate::arguments::shape_text;
use crate::datasets::{Named, find};
use crate::filters::filter_name;
use crate::jobs::{self, Jobs};
use crate::library::chunks;
use crate::library::numbers::Numbers;
use crate::library::process::note_reading;
use crate::names::Name;
use crate::output::{Outcome, Table, complain, grouped, print_json, say};

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
    #[serde(flatten)]
    contents: Contents,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Contents {
    /// The dataset is not compressed with this filter. The text names its own filters or layout.
    Other {
        filters: String,
    },
    Compressed(Compressed),
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
            let contents = match dataset {
                Ok(dataset) => contents(&dataset, threads).with_context(|| name.clone())?,
                Err(reason) => Contents::Other { filters: format!("{reason:#}") },
            };
            let compressed = matches!(contents, Contents::Compressed(_));
            inspected.push(Inspected { name, small_chunks, compressed, contents });
        }
    }
    let compressed = |found: &Inspected| if let Contents::Compressed(found) = &found.contents { found.damaged } else { 0 };
    let damaged: usize = inspected.iter().map(compressed).sum();
    if arguments.json {
        print_json(json!({ "datasets": inspected, "damaged": damaged }));
    } else {
        if arguments.chunks {
            inspected.iter().for_each(print_chunks)
        } else {
            print_summary(&inspected)
        }
        let said = inspected.iter().filter_map(|found| Some((found.name.clone(), found.small_chunks.clone()?)));
        grouped("note:", &said.collect::<Vec<_>>()).iter().for_each(say);
    }
    if damaged == 0 {
        return Ok(Outcome::Done);
    }
    complain(format_args!("{damaged} damaged chunk{}", if damaged == 1 { "" } else { "s" }));
    Ok(Outcome::Wrong)
}

fn contents(dataset: &Dataset, threads: usize) -> Result<Contents> {
    let filters = dataset.dcpl()?.get_filters()?;
    let names = filters.iter().map(filter_name).collect::<Vec<_>>().join(", ");
    let Some(Filter::User(_, words)) = filters.iter().find(|filter| filter.id() == FILTER_ID) else {
        return Ok(Contents::Other { filters: if names.is_empty() { "no filter".to_owned() } else { names } });
    };
    // Behind the filter a checksum can be taken off; what others made of a stream can not.
    let behind = match &filters[..] {
        [Filter::User(FILTER_ID, _)] => 0,
        [Filter::User(FILTER_ID, _), Filter::Fletcher32] => 4,
        _ => return Ok(Contents::Other { filters: format!("{names}: streams that other filters have changed are not read") }),
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
    Ok(Contents::Compressed(Compressed {
        options,
        type_name: scalar.to_string(),
        shape: dataset.shape(),
        chunk_shape,
        bytes,
        stored_bytes,
        ratio: bytes as f64 / stored_bytes as f64,
        damaged: chunks.iter().filter(|chunk| chunk.error.is_some()).count(),
        chunks,
    }))
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
        let bounds = || self.chunks.iter().filter(|chunk| chunk.bound.is_some());
        let by_bound = |one: &&Chunk, other: &&Chunk| one.bound.unwrap_or(0.0).total_cmp(&other.bound.unwrap_or(0.0));
        let texts = [bounds().min_by(by_bound), bounds().max_by(by_bound)].map(|chunk| chunk.map(Chunk::bound_text));
        match texts {
            [Some(least), Some(most)] if least == most => most,
            [Some(least), Some(most)] => format!("{least} to {most}"),
            _ => "-".to_owned(),
        }
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
    let mut table = Table::new(&heading);
    let mut damaged = Vec::new();
    for Inspected { name, contents, .. } in inspected {
        let compressed = match contents {
            Contents::Other { filters } => {
                table.push_with_text(vec![name.to_string()], format!("({filters})"));
                continue;
            }
            Contents::Compressed(compressed) => compressed,
        };
        let chunks = &compressed.chunks;
        table.push(vec![
            name.to_string(),
            compressed.options.clone(),
            compressed.bounds(),
            chunks.len().to_string(),
            format!("{:.2}", compressed.ratio),
            compressed.tally(|chunk| Some(chunk.values)),
            compressed.tally(|chunk| chunk.coding),
            compressed.tally(|chunk| chunk.predictor.as_deref()),
            chunks.iter().filter(|chunk| chunk.codebook.as_deref() == Some("custom")).count().to_string(),
            chunks.iter().filter_map(|chunk| chunk.exceptions).sum::<u64>().to_string(),
        ]);
        let errors = chunks.iter().filter_map(|chunk| Some((corner_text(&chunk.corner), chunk.error.as_ref()?)));
        damaged.extend(errors.map(|(corner, reason)| format!("{name}: the chunk at {corner} is damaged: {reason}")));
    }
    table.print();
    if inspected.iter().any(|found| found.compressed) {
        say(BOUND);
    }
    damaged.iter().for_each(say);
}

fn print_chunks(Inspected { name, contents, .. }: &Inspected) {
    let compressed = match contents {
        Contents::Other { filters } => {
            say(format_args!("{name}: not compressed by this filter ({filters})"));
            say("");
            return;
        }
        Contents::Compressed(compressed) => compressed,
    };
    let Compressed { options, type_name, shape, chunk_shape, chunks, .. } = compressed;
    say(format_args!("{name}: {type_name} {} in chunks of {}, {options}", shape_text(shape), shape_text(chunk_shape)));
    let mut table =
        Table::new(&["chunk at", "values", "bound", "coding", "predictor", "codebook", "bytes", "ratio", "exceptions"]);
    let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    for chunk in chunks {
        let mut cells = vec![corner_text(&chunk.corner), chunk.values.to_owned()];
        if let Some(reason) = &chunk.error {
            table.push_with_text(cells, reason.clone());
            continue;
        }
        cells.extend([
            chunk.bound_text(),
            or_dash(chunk.coding),
            or_dash(chunk.predictor.as_deref()),
            or_dash(chunk.codebook.as_deref()),
            chunk.bytes.to_string(),
            format!("{:.2}", chunk.ratio),
            chunk.exceptions.map_or("-".to_owned(), |count| count.to_string()),
        ]);
        table.push(cells);
    }
    table.print();
    say(BOUND);
    say("");
}

/// A chunk's first corner for tables and messages.
pub(crate) fn corner_text(corner: &[u64]) -> String {
    format!("({})", corner.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
}
