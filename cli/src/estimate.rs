//! `quire estimate`: measures ratio, error and speed of bounds and chunk shapes on a sample of the user's chunks, one chunk in memory at a time.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use clap::Args;
use quire_codec::{Config, Workspace, options};
use serde_json::{Value, json};

use crate::advice::{SMALL_CHUNK, SmallChunks};
use crate::arguments::{Bounds, Shape, refuse_arguments, shape, shape_text};
use crate::choice::Choice;
use crate::compare::{Difference, compare};
use crate::datasets::{Found, Named, Source};
use crate::kept;
use crate::library::message;
use crate::names::Name;
use crate::output::{Outcome, Table, complain, grouped, number, print_json, progress, say};

/// Try bounds and chunk shapes on a sample of your data
///
/// Compresses and decompresses evenly spaced chunks of each dataset on one CPU thread. Prints the compression ratio, PSNR in dB, largest error and speed in
/// MB/s, and checks every value against its bound. No file is written. Bounds and shapes can be repeated: every bound is tried with every shape. One --ratio
/// with one --abs counts as one bound. Without a bound, rel=1e-2, rel=1e-3, rel=1e-4 and lossless are tried.
///
/// Example: quire estimate run.h5:/fields --rel 1e-3 --rel 1e-4 --chunks 64x64x64
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// HDF5 files, or a dataset or group in one, such as run.h5:/fields/u
    #[arg(required = true, value_name = "FILE[:/PATH]")]
    sources: Vec<OsString>,
    #[command(flatten)]
    bounds: Bounds,
    /// Chunk shape to try, slowest axis first, such as 64x64x64, for datasets of that rank; without one, each dataset's own chunk shape
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    chunks: Vec<Shape>,
    /// Largest number of chunks to try per dataset
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    sample: usize,
    #[command(flatten)]
    choice: Choice,
    /// List every skipped dataset, not one a reason
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON value instead of text
    #[arg(long)]
    json: bool,
}

/// The bounds to try if the user gives none.
const BOUNDS: [&str; 4] = ["rel=1e-2", "rel=1e-3", "rel=1e-4", "lossless"];

/// The measurements of one dataset at one bound and chunk shape.
#[derive(Debug, Default)]
struct Trial {
    chunks: usize,
    bytes: u64,
    stored: u64,
    compressing: Duration,
    decompressing: Duration,
    difference: Difference,
    /// Why the bound does not hold or is not allowed for this type.
    problem: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// If there is no dataset of numbers, or data cannot be read.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let mut bounds = arguments.bounds.texts();
    if bounds.is_empty() {
        bounds = BOUNDS.map(str::to_owned).to_vec();
    }
    let configs: Vec<Config> =
        bounds.iter().map(|text| options::parse(text)).collect::<quire_codec::Result<_>>().map_err(message)?;
    let mut found = Found::default();
    let choose = |named: Named| {
        let is_named = named.is_named;
        arguments.choice.source(named, is_named)
    };
    for name in &arguments.sources {
        found.add(name, choose)?;
    }
    found.skipped.lines(arguments.verbose).iter().for_each(complain);
    if found.sources.is_empty() {
        return Err("there is nothing to try: no dataset is left that `quire repack` would compress".to_owned());
    }
    let ranks: Vec<usize> = found.sources.iter().map(|source| source.extents.len()).collect();
    if let Some(shape) = arguments.chunks.iter().find(|shape| !ranks.contains(&shape.0.len())) {
        let text = shape_text(&shape.0);
        refuse_arguments(&format!("chunks of {text} have {} axes, which none of the datasets has", shape.0.len()));
    }
    let tasks: Vec<Source> = found.sources.iter().flat_map(|source| blocks(source, &arguments.chunks)).collect();
    let tasks: Vec<(Source, Vec<Config>)> = tasks
        .into_iter()
        .map(|source| {
            let mut own: Vec<Config> = configs.iter().map(|config| arguments.choice.config(*config, &source)).collect();
            own.dedup_by_key(|config| options::format(config));
            (source, own)
        })
        .collect();
    let total: usize = tasks.iter().map(|(source, configs)| source.sample(arguments.sample).len() * configs.len()).sum();
    let bar = progress(total as u64, "chunks");
    let mut workspace = Workspace::default();
    let mut trials = Vec::new();
    for (source, configs) in &tasks {
        bar.set_message(source.name.to_string());
        let tried = try_all(source, configs, arguments.sample, &mut workspace, || bar.inc(1))?;
        trials.extend(configs.iter().map(options::format).zip(tried).map(|(text, trial)| (source, text, trial)));
    }
    bar.finish_and_clear();
    if arguments.json {
        print_json(&json!({ "trials": trials.iter().map(|(source, text, trial)| trial.json(source, text)).collect::<Vec<_>>() }));
    } else {
        print(&trials);
    }
    Ok(if trials.iter().all(|(.., trial)| trial.problem.is_none()) { Outcome::Done } else { Outcome::Wrong })
}

/// A dataset in blocks of each shape that has its rank, or else of its own.
fn blocks(source: &Source, shapes: &[Shape]) -> Vec<Source> {
    let fitting = shapes.iter().filter(|shape| shape.0.len() == source.extents.len());
    let mut sources: Vec<Source> = fitting.map(|shape| source.with_block(&shape.0)).collect();
    if sources.is_empty() {
        sources.push(source.with_block(&source.block));
    }
    sources
}

/// Tries all bounds on the sample of one dataset in one shape.
fn try_all(
    source: &Source,
    configs: &[Config],
    sample: usize,
    workspace: &mut Workspace,
    done: impl Fn(),
) -> Result<Vec<Trial>, String> {
    let mut trials: Vec<Trial> = configs.iter().map(|_| Trial::default()).collect();
    let (mut chunk, mut stream, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    for (index, number) in source.sample(sample).enumerate() {
        let layout = source.read(number, &mut chunk)?;
        decoded.resize(chunk.len(), 0);
        for (config, trial) in configs.iter().zip(&mut trials).filter(|(_, trial)| trial.problem.is_none()) {
            let config = Config { fill_value: source.fill_value, ..*config };
            // The first chunk of all makes room in the workspace, which is no part of what a chunk takes.
            for _ in 0..if index == 0 { 2 } else { 1 } {
                let start = Instant::now();
                if let Err(error) = kept::compress(workspace, &chunk, &layout, &config, &source.missing, &mut stream) {
                    trial.problem = Some(error.to_string());
                    break;
                }
                trial.compressing = start.elapsed() + if index == 0 { Duration::ZERO } else { trial.compressing };
                let start = Instant::now();
                let decompressed = workspace.decompress(&stream, &mut decoded);
                trial.decompressing = start.elapsed() + if index == 0 { Duration::ZERO } else { trial.decompressing };
                decompressed.map_err(|error| format!("{}: {error}", source.name))?;
            }
            if trial.problem.is_none() {
                match compare(&chunk, &decoded, source.kind(), Some(config.bound)).kept() {
                    Ok(difference) => trial.difference.add(&difference),
                    Err(reason) => trial.problem = Some(reason),
                }
                trial.chunks += 1;
                trial.bytes += chunk.len() as u64;
                trial.stored += stream.len() as u64;
            }
            done();
        }
    }
    Ok(trials)
}

impl Trial {
    fn ratio(&self) -> f64 {
        self.bytes as f64 / self.stored as f64
    }

    /// Megabytes of values a second.
    fn speed(&self, time: Duration) -> f64 {
        self.bytes as f64 / 1e6 / time.as_secs_f64()
    }

    fn json(&self, source: &Source, options: &str) -> Value {
        json!({
            "dataset": source.name.json(),
            "type": source.numbers.scalar.to_string(),
            "options": options,
            "chunk_shape": source.block,
            "chunks": self.chunks,
            "of_chunks": source.blocks(),
            "bytes": self.bytes,
            "stored_bytes": self.stored,
            "ratio": number(self.ratio()),
            "psnr": number(self.difference.psnr()),
            "greatest_error": number(self.difference.greatest),
            "compress_mb_s": number(self.speed(self.compressing)),
            "decompress_mb_s": number(self.speed(self.decompressing)),
            "small_chunks": small_chunks(source).map(|small| small.to_string()),
            "far_value": self.difference.far.map(|far| far.to_string()),
            "problem": self.problem,
        })
    }
}

fn small_chunks(source: &Source) -> Option<SmallChunks> {
    SmallChunks::of(&source.block, &source.extents, source.numbers.scalar.element_size(), SMALL_CHUNK)
}

fn print(trials: &[(&Source, String, Trial)]) {
    let mut table = Table::new(&[
        "dataset",
        "type",
        "chunks",
        "tried",
        "options",
        "ratio",
        "PSNR/dB",
        "largest error",
        "in MB/s",
        "out MB/s",
    ]);
    for (source, options, trial) in trials {
        let tried = format!("{} of {}", trial.chunks, source.blocks());
        let type_name = source.numbers.scalar.to_string().to_lowercase();
        let mut row = vec![source.name.to_string(), type_name, shape_text(&source.block), tried, options.clone()];
        if trial.problem.is_none() {
            row.extend([
                format!("{:.2}", trial.ratio()),
                trial.difference.psnr_text(),
                format!("{:.3e}", trial.difference.greatest),
                format!("{:.0}", trial.speed(trial.compressing)),
                format!("{:.0}", trial.speed(trial.decompressing)),
            ]);
        }
        table.push(row);
    }
    table.print();
    let mut small: Vec<(Name, String)> =
        trials.iter().filter_map(|(source, ..)| Some((source.name.clone(), small_chunks(source)?.to_string()))).collect();
    small.dedup();
    grouped("note:", &small).iter().for_each(say);
    for (source, options, trial) in trials {
        if let Some(problem) = &trial.problem {
            say(format_args!("{} at {options}: {problem}", source.name));
        }
        if let Some(far) = &trial.difference.far {
            say(format_args!("note: {} at {options}: {far}", source.name));
        }
    }
}
