//! `quire estimate`: measures ratio, error and speed of bounds and chunk shapes on a sample of the user's chunks.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, ensure};
use clap::Args;
use quire_codec::options::{self, Options};
use quire_codec::{Config, Workspace};
use serde_json::{Value, json};

use crate::advice::{SMALL_CHUNK, SmallChunks};
use crate::arguments::{Bounds, Shape, refuse_arguments, shape, shape_text};
use crate::choice::Choice;
use crate::compare::{Difference, compare};
use crate::datasets::{Found, Sample, Source};
use crate::jobs::Jobs;
use crate::kept;
use crate::names::Name;
use crate::output::{Outcome, complain, grouped, print_json, print_table, progress, say};
use crate::slabs::{ReadChunk, each_chunk};

/// Try bounds and chunk shapes on a sample of your data
///
/// Compresses and decompresses evenly spaced chunks of each dataset on the CPU. Prints the compression ratio, PSNR in dB, largest error and speed in MB/s, and
/// checks every value against its bound. The speed is that of one thread; with --jobs 1 no other one slows it down. No file is written. Bounds and shapes can
/// be repeated: every bound is tried with every shape. One --ratio with one --abs counts as one bound. Without a bound, rel=1e-2, rel=1e-3, rel=1e-4 and
/// lossless are tried.
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
    #[command(flatten)]
    jobs: Jobs,
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
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let mut bounds = arguments.bounds.texts();
    if bounds.is_empty() {
        bounds = BOUNDS.map(str::to_owned).to_vec();
    }
    let threads = arguments.jobs.count()?;
    let given: Vec<Options> = bounds.iter().map(|text| options::parse(text)).collect::<quire_codec::Result<_>>()?;
    let found = Found::of(&arguments.sources, |named| arguments.choice.source(named, false))?;
    found.skipped.lines(arguments.verbose).iter().for_each(complain);
    let is_any = !found.sources.is_empty();
    ensure!(is_any, "there is nothing to try: no dataset is left that `quire repack` would compress");
    let ranks: Vec<usize> = found.sources.iter().map(|source| source.extents.len()).collect();
    if let Some(shape) = arguments.chunks.iter().find(|shape| !ranks.contains(&shape.0.len())) {
        let text = shape_text(&shape.0);
        refuse_arguments(&format!("chunks of {text} have {} axes, which none of the datasets has", shape.0.len()));
    }
    let samples = found.sources.iter().flat_map(|source| samples(source, &arguments.chunks, arguments.sample));
    let tasks: Vec<(Vec<Options>, Sample<'_>)> =
        samples.map(|sample| (options_for(sample.source, &given, &arguments.choice), sample)).collect();
    let total: usize = tasks.iter().map(|(options, sample)| sample.boxes.len() * options.len()).sum();
    let bar = progress(total as u64, "chunks");
    let mut trials = Vec::new();
    for (all, sample) in &tasks {
        bar.set_message(sample.source.name.to_string());
        let tried = try_all(sample, all, threads, || bar.inc(all.len() as u64))?;
        trials.extend(all.iter().map(options::format).zip(tried).map(|(text, trial)| (sample, text, trial)));
    }
    bar.finish_and_clear();
    if arguments.json {
        let trials = trials.iter().map(|(sample, text, trial)| trial.json(sample, text));
        print_json(json!({ "trials": trials.collect::<Value>() }));
    } else {
        print(&trials);
    }
    Ok(if trials.iter().all(|(.., trial)| trial.problem.is_none()) { Outcome::Done } else { Outcome::Wrong })
}

/// The options to try for a dataset, each once.
fn options_for(source: &Source, given: &[Options], choice: &Choice) -> Vec<Options> {
    let of_source = |options: &Options| Options { config: choice.config(options.config, source), ..*options };
    let mut all: Vec<Options> = given.iter().map(of_source).collect();
    all.dedup_by_key(|options| options::format(options));
    all
}

/// Blocks of a dataset, of each shape that has its rank, or else of its own.
fn samples<'a>(source: &'a Source, shapes: &[Shape], most: usize) -> Vec<Sample<'a>> {
    let fitting = shapes.iter().filter(|shape| shape.0.len() == source.extents.len());
    let mut samples: Vec<Sample<'_>> = fitting.map(|shape| Sample::new(source, Some(&shape.0), most)).collect();
    if samples.is_empty() {
        samples.push(Sample::new(source, None, most));
    }
    samples
}

/// Tries all options on the sample of one dataset in one shape. Calls `done` after each chunk.
fn try_all(sample: &Sample<'_>, all: &[Options], threads: usize, done: impl Fn()) -> Result<Vec<Trial>> {
    let mut trials: Vec<Trial> = all.iter().map(|_| Trial::default()).collect();
    each_chunk(
        threads,
        [sample.chunks()],
        |_, _| Ok(()),
        |room: &mut Room, _, chunk, ()| room.try_chunk(sample, all, chunk),
        |_, _, of_chunk| {
            trials.iter_mut().zip(of_chunk).for_each(|(trial, of_chunk)| trial.add(of_chunk));
            done();
            Ok(())
        },
    )?;
    Ok(trials)
}

/// The buffers with which a thread tries chunks.
#[derive(Default)]
struct Room {
    workspace: Workspace,
    values: Vec<u8>,
    decoded: Vec<u8>,
    /// Whether a chunk was tried. The first try allocates the buffers, so it is repeated before its time counts.
    is_made: bool,
}

impl Room {
    /// Tries all options on one chunk. Where options do not hold for it, their trial says why.
    fn try_chunk(&mut self, sample: &Sample<'_>, all: &[Options], chunk: &ReadChunk) -> Vec<Trial> {
        let mut trials = Vec::new();
        for options in all {
            if !self.is_made {
                let _ = self.try_once(sample, options, chunk);
            }
            let failed = |problem: Error| Trial { problem: Some(format!("{problem:#}")), ..Trial::default() };
            trials.push(self.try_once(sample, options, chunk).unwrap_or_else(failed));
        }
        self.is_made = true;
        trials
    }

    fn try_once(&mut self, sample: &Sample<'_>, options: &Options, chunk: &ReadChunk) -> Result<Trial> {
        let source = sample.source;
        let config = Config { fill_value: source.fill_value, ..options.config };
        let layout = sample.layout(&chunk.ranges, options.brick)?;
        let values = chunk.values(&mut self.values);
        self.decoded.resize(values.len(), 0);
        let start = Instant::now();
        let on_the_cpu = |config: &Config<'_>| {
            let mut stream = Vec::new();
            self.workspace.compress(values, &layout, config, &mut stream).map(|()| stream)
        };
        let (stream, _) = kept::compress(values, &layout, &config, &source.missing, on_the_cpu)?;
        let compressing = start.elapsed();
        let start = Instant::now();
        self.workspace.decompress(&stream, &mut self.decoded)?;
        let decompressing = start.elapsed();
        let difference = compare(values, &self.decoded, source.elements(), Some(config.bound)).kept()?;
        let (bytes, stored) = (values.len() as u64, stream.len() as u64);
        Ok(Trial { chunks: 1, bytes, stored, compressing, decompressing, difference, problem: None })
    }
}

impl Trial {
    /// Adds the trial of another chunk, unless a chunk before it has a problem.
    fn add(&mut self, other: Self) {
        if self.problem.is_some() {
            return;
        }
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.stored += other.stored;
        self.compressing += other.compressing;
        self.decompressing += other.decompressing;
        self.difference.add(&other.difference);
        self.problem = other.problem;
    }

    fn ratio(&self) -> f64 {
        self.bytes as f64 / self.stored as f64
    }

    /// Megabytes of values a second.
    fn speed(&self, time: Duration) -> f64 {
        self.bytes as f64 / 1e6 / time.as_secs_f64()
    }

    fn json(&self, sample: &Sample<'_>, options: &str) -> Value {
        let Sample { source, block, of_blocks, .. } = sample;
        json!({
            "dataset": source.name,
            "type": source.numbers.scalar.to_string(),
            "options": options,
            "chunk_shape": block,
            "chunks": self.chunks,
            "of_chunks": of_blocks,
            "bytes": self.bytes,
            "stored_bytes": self.stored,
            "ratio": self.ratio(),
            "psnr": self.difference.psnr(),
            "greatest_error": self.difference.greatest,
            "compress_mb_s": self.speed(self.compressing),
            "decompress_mb_s": self.speed(self.decompressing),
            "small_chunks": small_chunks(sample).map(|small| small.to_string()),
            "far_value": self.difference.far.map(|far| far.to_string()),
            "problem": self.problem,
        })
    }
}

fn small_chunks(Sample { source, block, .. }: &Sample<'_>) -> Option<SmallChunks> {
    SmallChunks::of(block, &source.extents, source.numbers.scalar.element_size(), SMALL_CHUNK)
}

fn print(trials: &[(&Sample<'_>, String, Trial)]) {
    let heading = ["dataset", "type", "chunks", "tried", "options", "ratio", "PSNR/dB", "largest error", "in MB/s", "out MB/s"];
    let row = |(Sample { source, block, of_blocks, .. }, options, trial): &(&Sample<'_>, String, Trial)| {
        let type_name = source.numbers.scalar.to_string().to_lowercase();
        let tried = format!("{} of {}", trial.chunks, of_blocks);
        let mut row = vec![source.name.to_string(), type_name, shape_text(block), tried, options.clone()];
        if trial.problem.is_none() {
            row.extend([
                format!("{:.2}", trial.ratio()),
                trial.difference.psnr_text(),
                format!("{:.3e}", trial.difference.greatest),
                format!("{:.0}", trial.speed(trial.compressing)),
                format!("{:.0}", trial.speed(trial.decompressing)),
            ]);
        }
        row
    };
    print_table(&heading, trials.iter().map(row).collect());
    let mut small: Vec<(Name, String)> =
        trials.iter().filter_map(|(sample, ..)| Some((sample.source.name.clone(), small_chunks(sample)?.to_string()))).collect();
    small.dedup();
    grouped("note:", &small).iter().for_each(say);
    for (Sample { source, .. }, options, trial) in trials {
        if let Some(problem) = &trial.problem {
            say(format_args!("{} at {options}: {problem}", source.name));
        }
        if let Some(far) = &trial.difference.far {
            say(format_args!("note: {} at {options}: {far}", source.name));
        }
    }
}
