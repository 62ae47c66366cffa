//! `quire inspect`: lists how each chunk of a file was compressed, read from the headers of its stream.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::Args;
use h5zquire::{FILTER_ID, cd_values};
use hdf5::Dataset;
use hdf5::filters::Filter;
use quire_codec::stages::inspect::{Description, PlaneCoding, Prediction};
use quire_codec::stages::predictor::LevelSteps;
use quire_codec::{Coding, Scalar};
use serde_json::{Value, json};

use crate::advice::{SMALL_CHUNK, SmallChunks};
use crate::arguments::shape_text;
use crate::datasets::{Named, find};
use crate::filters::filter_name;
use crate::jobs::{self, Jobs};
use crate::library::numbers::Numbers;
use crate::library::process::note_reading;
use crate::library::{chunks, message};
use crate::names::Name;
use crate::output::{Outcome, Table, complain, grouped, number, print_json, say};

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

/// The findings about one dataset.
struct Report {
    name: Name,
    contents: Contents,
    /// Advice, if the dataset has chunks that are small.
    small_chunks: Option<String>,
}

enum Contents {
    /// The dataset is not compressed with this filter; the text names its own filters or layout.
    Other(String),
    Compressed(Compressed),
}

struct Compressed {
    options: String,
    scalar: Scalar,
    extents: Vec<usize>,
    chunk: Vec<usize>,
    rows: Vec<Row>,
}

/// A chunk: its first corner, its stored bytes, and its state or why it is damaged.
struct Row {
    corner: Vec<u64>,
    bytes: u64,
    state: Result<State, String>,
}

/// The largest error of a value: in the data's units, or as a share of the value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    Absolute(f64),
    Share(f64),
}

/// What the column `bound` means, printed below tables.
const BOUND: &str = "bound: no value of the chunk is off by more, in the data's units; |x|: times the value itself";

impl Bound {
    fn number(self) -> f64 {
        match self {
            Self::Absolute(bound) | Self::Share(bound) => bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Absolute(0.0) => "exact".to_owned(),
            Self::Absolute(bound) => format!("{bound:.2e}"),
            Self::Share(share) => format!("{share:.2e} |x|"),
        }
    }
}

enum State {
    /// HDF5 stored the chunk without the filter, which it may do if the filter is optional.
    Unfiltered,
    Described(Description),
}

/// Runs the command.
///
/// # Errors
/// If a file or object does not exist, or HDF5 cannot read its description.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let threads = arguments.jobs.count()?;
    let mut reports = Vec::new();
    for source in &arguments.sources {
        for named in find(source)? {
            reports.push(report(named, threads)?);
        }
    }
    let notes = || {
        let said: Vec<(Name, String)> =
            reports.iter().filter_map(|report| Some((report.name.clone(), report.small_chunks.clone()?))).collect();
        grouped("note:", &said).iter().for_each(say);
    };
    let damaged: usize = reports.iter().map(Report::damaged).sum();
    if arguments.json {
        let datasets: Vec<Value> = reports.iter().map(Report::json).collect();
        print_json(&json!({ "datasets": datasets, "damaged": damaged }));
    } else if arguments.chunks {
        reports.iter().for_each(print_chunks);
        notes();
    } else {
        print_summary(&reports);
        notes();
    }
    if damaged == 0 {
        return Ok(Outcome::Done);
    }
    complain(format_args!("{damaged} damaged chunk{}", if damaged == 1 { "" } else { "s" }));
    Ok(Outcome::Wrong)
}

fn report(Named { dataset, name, .. }: Named, threads: usize) -> Result<Report, String> {
    let refused = |error: &dyn std::fmt::Display| format!("{name}: {}", message(error));
    note_reading(&name);
    let dataset = match dataset {
        Ok(dataset) => dataset,
        Err(reason) => return Ok(Report { name, contents: Contents::Other(reason), small_chunks: None }),
    };
    let small_chunks = small_chunks(&dataset).map(|small| small.to_string());
    let properties = dataset.dcpl().map_err(|error| refused(&error))?;
    let filters = properties.get_filters().map_err(|error| refused(&error))?;
    let other =
        |reason: String| Ok(Report { name: name.clone(), contents: Contents::Other(reason), small_chunks: small_chunks.clone() });
    let Some(Filter::User(_, words)) = filters.iter().find(|filter| filter.id() == FILTER_ID) else {
        let names: Vec<String> = filters.iter().map(filter_name).collect();
        return other(if names.is_empty() { "no filter".to_owned() } else { names.join(", ") });
    };
    // Behind the filter a checksum can be taken off; what others made of a stream can not.
    let behind = match &filters[..] {
        [Filter::User(FILTER_ID, _)] => 0,
        [Filter::User(FILTER_ID, _), Filter::Fletcher32] => 4,
        filters => {
            let names: Vec<String> = filters.iter().map(filter_name).collect();
            return other(format!("{}: streams that other filters have changed are not read", names.join(", ")));
        }
    };
    let options = cd_values::to_options(words).map_err(|error| refused(&error))?;
    let scalar = Numbers::of(&dataset).map_err(|error| refused(&error))?.scalar;
    let chunk = dataset.chunk().ok_or_else(|| refused(&"it has the filter, but no chunks"))?;
    let chunk_bytes = (chunk.iter().product::<usize>() * scalar.element_size()) as u64;
    let describe = |stream: &[u8], left_out: u32| {
        if left_out & 1 != 0 {
            return Ok(State::Unfiltered);
        }
        let is_checked = left_out & 2 == 0;
        let end = stream.len().saturating_sub(if is_checked { behind } else { 0 });
        let description = Description::of(&stream[..end]).map_err(message)?;
        let found = description.header.layout.chunk_bytes();
        if found == chunk_bytes {
            Ok(State::Described(description))
        } else {
            Err(format!("its stream holds {found} bytes, a chunk of the dataset has {chunk_bytes}"))
        }
    };
    let mut corners = chunks::corners(&dataset).map_err(|error| refused(&error))?.into_iter();
    let mut rows = Vec::new();
    // The calling thread reads streams; others look at them.
    jobs::pipeline(
        threads,
        || {
            let Some(corner) = corners.next() else { return Ok(None) };
            let mut stream = Vec::new();
            let read = chunks::read(&dataset, &corner, &mut stream);
            Ok(Some((corner, stream, read)))
        },
        |(): &mut (), (corner, stream, read)| {
            let state = read.and_then(|left_out| describe(&stream, left_out));
            Row { corner, bytes: stream.len() as u64, state }
        },
        |row| {
            rows.push(row);
            Ok(())
        },
    )?;
    let extents = dataset.shape();
    Ok(Report { name, small_chunks, contents: Contents::Compressed(Compressed { options, scalar, extents, chunk, rows }) })
}

/// Advice for a dataset of numbers whose chunks are small.
pub(crate) fn small_chunks(dataset: &Dataset) -> Option<SmallChunks> {
    let each = Numbers::of(dataset).ok()?.scalar.element_size();
    SmallChunks::of(&dataset.chunk()?, &dataset.shape(), each, SMALL_CHUNK)
}

impl Report {
    fn damaged(&self) -> usize {
        match &self.contents {
            Contents::Compressed(compressed) => compressed.rows.iter().filter(|row| row.state.is_err()).count(),
            Contents::Other(_) => 0,
        }
    }

    fn json(&self) -> Value {
        match &self.contents {
            Contents::Other(reason) => {
                json!({ "name": self.name.json(), "compressed": false, "filters": reason, "small_chunks": self.small_chunks })
            }
            Contents::Compressed(compressed) => json!({
                "name": self.name.json(),
                "compressed": true,
                "options": compressed.options,
                "type": compressed.scalar.to_string(),
                "shape": compressed.extents,
                "chunk_shape": compressed.chunk,
                "bytes": compressed.chunk_bytes() * compressed.rows.len() as u64,
                "stored_bytes": compressed.stored(),
                "ratio": number(compressed.ratio()),
                "damaged": self.damaged(),
                "small_chunks": self.small_chunks,
                "chunks": compressed.rows.iter().map(|row| row.json(compressed)).collect::<Vec<_>>(),
            }),
        }
    }
}

impl Compressed {
    fn chunk_bytes(&self) -> u64 {
        (self.chunk.iter().product::<usize>() * self.scalar.element_size()) as u64
    }

    fn stored(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    fn ratio(&self) -> f64 {
        (self.chunk_bytes() * self.rows.len() as u64) as f64 / self.stored() as f64
    }

    /// The smallest and the largest bound of the chunks.
    fn bounds(&self) -> String {
        let bounds = || self.rows.iter().filter_map(Row::bound);
        let by_number = |one: &Bound, other: &Bound| one.number().total_cmp(&other.number());
        match (bounds().min_by(by_number), bounds().max_by(by_number)) {
            (Some(least), Some(most)) if least == most => most.text(),
            (Some(least), Some(most)) => format!("{} to {}", least.text(), most.text()),
            _ => "-".to_owned(),
        }
    }

    /// How many chunks say the same, as `name` or `name 3, other 5`.
    fn tally(&self, word: impl Fn(&Row) -> Option<String>) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for word in self.rows.iter().filter_map(word) {
            *counts.entry(word).or_default() += 1;
        }
        match &counts.iter().collect::<Vec<_>>()[..] {
            [] => "-".to_owned(),
            [(word, count)] if **count == self.rows.len() => (*word).clone(),
            words => words.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Row {
    fn description(&self) -> Option<&Description> {
        match &self.state {
            Ok(State::Described(description)) => Some(description),
            _ => None,
        }
    }

    /// What the values became.
    fn values(&self) -> String {
        match self.description() {
            Some(description) => description.header.coding.name(),
            None if self.state.is_ok() => "unfiltered",
            None => "damaged",
        }
        .to_owned()
    }

    /// How the first plane is coded, by which predictor, with which book; the others are those of many exceptions.
    fn coding(&self) -> Option<String> {
        let plane = self.description()?.planes.first()?;
        Some(if plane.coding == PlaneCoding::BitPlanes { "bit planes" } else { "huffman" }.to_owned())
    }

    fn predictor(&self) -> Option<String> {
        const AXES: [char; 4] = ['x', 'y', 'z', 'w'];
        let description = self.description()?;
        let rank = description.header.layout.shape.dims().len();
        let along = |set: u8| (0..rank).filter(|axis| set >> axis & 1 != 0).map(|axis| AXES[axis]).collect::<String>();
        Some(match description.planes.first()?.prediction {
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
        })
    }

    fn codebook(&self) -> Option<String> {
        match self.description()?.planes.first()?.coding {
            PlaneCoding::Dictionary(book) => Some(book.to_string()),
            PlaneCoding::Custom => Some("custom".to_owned()),
            PlaneCoding::BitPlanes => None,
        }
    }

    /// The largest error that a value of the chunk may have.
    fn bound(&self) -> Option<Bound> {
        let Ok(state) = &self.state else { return None };
        let State::Described(description) = state else { return Some(Bound::Absolute(0.0)) };
        let half_step = description.half_step.unwrap_or(0.0);
        // The grid is even in the binary logarithm.
        let is_share = description.header.coding == Coding::Logarithmic;
        Some(if is_share { Bound::Share(half_step.exp2() - 1.0) } else { Bound::Absolute(half_step) })
    }

    fn ratio(&self, compressed: &Compressed) -> f64 {
        compressed.chunk_bytes() as f64 / self.bytes as f64
    }

    fn json(&self, compressed: &Compressed) -> Value {
        let description = self.description();
        json!({
            "corner": self.corner,
            "bytes": self.bytes,
            "ratio": number(self.ratio(compressed)),
            "values": self.values(),
            "coding": self.coding(),
            "predictor": self.predictor(),
            "codebook": self.codebook(),
            "bound": self.bound().map(|bound| number(bound.number())),
            "bound_is_share_of_value": self.bound().map(|bound| matches!(bound, Bound::Share(_))),
            "half_step": description.and_then(|description| description.half_step),
            "exceptions": description.map(|description| description.exceptions),
            "error": self.state.as_ref().err(),
        })
    }
}

fn print_summary(reports: &[Report]) {
    let mut table = Table::new(&[
        "dataset",
        "options",
        "bound",
        "chunks",
        "ratio",
        "values",
        "coding",
        "predictor",
        "custom books",
        "exceptions",
    ]);
    for Report { name, contents, .. } in reports {
        let compressed = match contents {
            Contents::Other(reason) => {
                table.push_with_text(vec![name.to_string()], format!("({reason})"));
                continue;
            }
            Contents::Compressed(compressed) => compressed,
        };
        let exceptions: u64 = compressed.rows.iter().filter_map(Row::description).map(|found| found.exceptions).sum();
        let custom = compressed.rows.iter().filter(|row| row.codebook().is_some_and(|book| book == "custom")).count();
        table.push(vec![
            name.to_string(),
            compressed.options.clone(),
            compressed.bounds(),
            compressed.rows.len().to_string(),
            format!("{:.2}", compressed.ratio()),
            compressed.tally(|row| Some(row.values())),
            compressed.tally(Row::coding),
            compressed.tally(Row::predictor),
            custom.to_string(),
            exceptions.to_string(),
        ]);
    }
    table.print();
    if reports.iter().any(|report| matches!(report.contents, Contents::Compressed(_))) {
        say(BOUND);
    }
    for Report { name, contents, .. } in reports {
        let Contents::Compressed(compressed) = contents else { continue };
        for row in &compressed.rows {
            if let Err(reason) = &row.state {
                say(format_args!("{name}: the chunk at {} is damaged: {reason}", corner_text(&row.corner)));
            }
        }
    }
}

fn print_chunks(report: &Report) {
    let compressed = match &report.contents {
        Contents::Other(reason) => {
            say(format_args!("{}: not compressed by this filter ({reason})", report.name));
            say("");
            return;
        }
        Contents::Compressed(compressed) => compressed,
    };
    let (extents, chunk) = (shape_text(&compressed.extents), shape_text(&compressed.chunk));
    say(format_args!("{}: {} {extents} in chunks of {chunk}, {}", report.name, compressed.scalar, compressed.options));
    let mut table =
        Table::new(&["chunk at", "values", "bound", "coding", "predictor", "codebook", "bytes", "ratio", "exceptions"]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for row in &compressed.rows {
        let mut cells = vec![corner_text(&row.corner), row.values()];
        if let Err(reason) = &row.state {
            table.push_with_text(cells, reason.clone());
            continue;
        }
        cells.extend([
            or_dash(row.bound().map(Bound::text)),
            or_dash(row.coding()),
            or_dash(row.predictor()),
            or_dash(row.codebook()),
            row.bytes.to_string(),
            format!("{:.2}", row.ratio(compressed)),
            or_dash(row.description().map(|description| description.exceptions.to_string())),
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
