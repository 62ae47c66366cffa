//! `quire advise`: measures bounds and chunk shapes on a part of the user's data, and finds the largest bound that keeps what the user asks for.

/// A part of a dataset in memory, on which bounds are tried.
mod planes;
/// What a bound is to keep, and the search for it.
mod search;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use quire_codec::options::{self, Options};
use quire_report::{Precision, typical};
use serde_json::{Value, json};

use crate::arguments::{Bounds, Shape, refuse_arguments, shape, shape_text};
use crate::choice::Choice;
use crate::datasets::{Found, Source, file_and_path, open, open_dataset};
use crate::jobs::Jobs;
use crate::library::system;
use crate::names::Name;
use crate::output::{Outcome, complain, grouped, or_dash, print_json, print_table, progress, say};
use crate::small_chunks::{SMALL_CHUNK, SmallChunks};
use planes::{Planes, Trial};
use search::{How, Target, target};

/// Try bounds and chunk shapes on your data, and find the bound that keeps what you need
///
/// Takes evenly spaced planes of each dataset, whole datasets if they are small, and compresses and decompresses their chunks on the CPU. Prints the compression
/// ratio, the PSNR in dB, the least dSSIM of a plane, the error of gradients (root mean square, as a share of theirs), the largest error, and the speed of one
/// thread in MB/s; with --jobs 1 no other one slows it down. Checks every value against its bound. Writes no file.
///
/// Says how many digits the values have and how large their noise is, and finds the largest absolute bound that keeps the targets of --keep and --noise. Prints
/// the command that applies these bounds. All of it holds for the data that were tried: quire verify says what holds for the rest.
///
/// Bounds and shapes can be repeated: every bound is tried with every shape. One --ratio with one --abs counts as one bound. Without a bound, rel=1e-2,
/// rel=1e-3, rel=1e-4 and lossless are tried; without a target as well, the bound that keeps ssim=0.9995 is found.
///
/// Examples: quire advise run.h5
///
/// quire advise run.h5:/fields --keep ssim=0.99995 --keep gradient=1e-2 --noise
///
/// quire advise run.h5 --rel 1e-3 --rel 1e-4 --chunks 64x64x64 --chunks 32x64x128
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// HDF5 files, or a dataset or group in one, such as run.h5:/fields/u
    #[arg(required = true, value_name = "FILE[:/PATH]")]
    sources: Vec<OsString>,
    /// Find a bound of at most a fifth of the noise, which is estimated; or of the spread of an ensemble that FILE has, in datasets of the same paths: of the
    /// median of its values other than 0
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    noise: Option<Option<OsString>>,
    #[command(flatten)]
    bounds: Bounds,
    /// Chunk shape to try, slowest axis first, such as 64x64x64, for datasets of that rank; without one, each dataset's own chunk shape
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    chunks: Vec<Shape>,
    /// How much of each dataset to try, in MiB
    #[arg(long, default_value_t = 16, value_name = "MIB", value_parser = RangedU64ValueParser::<usize>::new().range(1..1 << 20))]
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
/// The largest bound as a share of the noise. Errors that are spread evenly over ± a fifth of its standard deviation make the noise larger by 0.7 %.
const SHARE_OF_NOISE: f64 = 0.2;

/// The trials of one dataset in one chunk shape, and the bound that they advise.
struct Advice<'a> {
    source: &'a Source,
    block: Vec<usize>,
    /// Number of chunks that were tried, and of all.
    chunks: [usize; 2],
    trials: Vec<(String, Trial)>,
    precision: Precision,
    /// Standard deviation of the noise, or the spread of the ensemble that is given.
    noise: Option<f64>,
    /// The options that are advised, if a bound was to be found, and why.
    advised: Option<(String, String)>,
}

/// Runs the command.
///
/// # Errors
/// If there is no dataset of numbers, or data cannot be read.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let bounds = arguments.bounds.texts_or(&BOUNDS);
    let target = |text: &String| target(text).unwrap_or_else(|error| refuse_arguments(&format!("{error:#}")));
    let mut targets: Vec<Target> = arguments.bounds.measures().map(target).collect();
    if arguments.bounds.texts().is_empty() {
        targets.extend((targets.is_empty() && arguments.noise.is_none()).then_some(search::USUAL));
    }
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
    let how = How { beside: given[0], choice: &arguments.choice, threads: arguments.jobs.count()? };
    let adviser = Adviser { arguments, given, targets, how };
    let bar = progress(found.sources.len() as u64, "datasets");
    let mut advice = Vec::new();
    for source in &found.sources {
        bar.set_message(source.name.to_string());
        let fitting: Vec<Option<&[usize]>> = arguments
            .chunks
            .iter()
            .map(|shape| &shape.0[..])
            .filter(|shape| shape.len() == source.extents.len())
            .map(Some)
            .collect();
        for shape in if fitting.is_empty() { vec![None] } else { fitting } {
            advice.push(adviser.advise(source, shape)?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let commands = commands(&advice, &arguments.chunks);
    if arguments.json {
        let trials = advice.iter().flat_map(|advice| advice.trials.iter().map(|trial| advice.trial_json(trial)));
        let datasets: Value = advice.iter().map(Advice::json).collect();
        print_json(json!({ "trials": trials.collect::<Value>(), "datasets": datasets, "commands": commands }));
    } else {
        print(&advice);
        commands.iter().for_each(say);
    }
    let is_wrong = advice.iter().flat_map(|advice| &advice.trials).any(|(_, trial)| trial.problem.is_some());
    Ok(if is_wrong { Outcome::Wrong } else { Outcome::Done })
}

/// What all datasets are advised by.
struct Adviser<'a> {
    arguments: &'a Arguments,
    given: Vec<Options>,
    targets: Vec<Target>,
    how: How<'a>,
}

impl Adviser<'_> {
    /// Tries all bounds on a dataset in one chunk shape.
    ///
    /// # Errors
    /// HDF5's, and those of a trial.
    fn advise<'a>(&self, source: &'a Source, shape: Option<&[usize]>) -> Result<Advice<'a>> {
        let planes = Planes::read(source, shape, self.arguments.sample << 20)?;
        let precision = Precision::of(&planes.field, &planes.bytes);
        let noise = match &self.arguments.noise {
            Some(Some(file)) => self.spread(source, file)?,
            _ => precision.noise,
        };
        let mut all: Vec<Options> = self.given.iter().map(|&options| self.how.options(options, source)).collect();
        all.dedup_by_key(|options| options::format(options));
        let trials = all.iter().map(|options| Ok((options::format(options), planes.try_options(options, self.how.threads)?)));
        let mut trials = trials.collect::<Result<Vec<_>>>()?;
        let is_asked = !self.targets.is_empty() || self.arguments.noise.is_some();
        let advised = if is_asked { Some(self.search(&planes, noise, &mut trials)?) } else { None };
        let chunks = [planes.sample.boxes.len(), planes.sample.of_blocks];
        Ok(Advice { source, block: planes.sample.block, chunks, trials, precision, noise, advised })
    }

    /// The options that are advised, and why. Adds the trial of the bound that is found.
    fn search(&self, planes: &Planes<'_>, noise: Option<f64>, trials: &mut Vec<(String, Trial)>) -> Result<(String, String)> {
        let most = self.arguments.noise.as_ref().map(|_| SHARE_OF_NOISE * noise.unwrap_or(0.0));
        let mut asked: Vec<String> = self.targets.iter().map(Target::to_string).collect();
        asked.extend(most.map(|most| format!("a fifth of the noise, {most:.2e}")));
        let asked = asked.join(" and ");
        let range = trials.iter().map(|(_, trial)| trial.difference.range()).fold(0.0, f64::max);
        let lossless = |reason: String| Ok(("lossless".to_owned(), reason));
        match self.how.largest(planes, &self.targets, range, most.unwrap_or(f64::INFINITY))? {
            None => lossless(format!("no bound that was tried keeps {asked}")),
            Some((options, trial)) if trial.difference.greatest == 0.0 => lossless(format!(
                "{} is the largest bound of those tried that keeps {asked}, and it leaves all values exact",
                options::format(&options)
            )),
            Some((options, trial)) => {
                let found: Vec<String> = self.targets.iter().map(|target| target.found(&trial)).collect();
                let found = if found.is_empty() { String::new() } else { format!(": {}", found.join(", ")) };
                trials.push((options::format(&options), trial));
                Ok((options::format(&options), format!("the largest bound of those tried that keeps {asked}{found}")))
            }
        }
    }

    /// The typical spread of an ensemble, in the dataset of the same path in `file`.
    fn spread(&self, source: &Source, file: &OsStr) -> Result<Option<f64>> {
        let (_, path) = file_and_path(system::os_str(source.name.as_bytes()));
        let (file, path) = (Path::new(file), Name::new(path));
        let dataset = open_dataset(&open(file)?, &path).with_context(|| path.in_file(file))?;
        let spread = Source::new(dataset, path.in_file(file))?;
        let planes = Planes::read(&spread, None, self.arguments.sample << 20)?;
        Ok(typical(&planes.field, &planes.bytes))
    }
}

impl Advice<'_> {
    fn small_chunks(&self) -> Option<SmallChunks> {
        SmallChunks::of(&self.block, &self.source.extents, self.source.numbers.scalar.element_size(), SMALL_CHUNK)
    }

    /// The digits and the noise of the values, as a text.
    fn digits(&self) -> String {
        let Precision { unit, bits, .. } = self.precision;
        let digits = unit.map(|unit| format!("values are multiples of {unit}"));
        let digits = digits.or_else(|| bits.map(|bits| format!("values have {bits} bits of fraction")));
        let digits = digits.zip(self.precision.options()).map(|(digits, worth)| format!("{digits}, worth {worth}; "));
        let noise = self.noise.map_or_else(|| "no noise is seen".to_owned(), |noise| format!("noise is about {noise:.2e}"));
        digits.unwrap_or_default() + &noise
    }

    fn trial_json(&self, (options, trial): &(String, Trial)) -> Value {
        json!({
            "dataset": self.source.name,
            "type": self.source.numbers.scalar.to_string(),
            "options": options,
            "chunk_shape": self.block,
            "chunks": self.chunks[0],
            "of_chunks": self.chunks[1],
            "bytes": trial.bytes,
            "stored_bytes": trial.stored,
            "ratio": trial.ratio(),
            "psnr": trial.difference.psnr(),
            "dssim": trial.dssim(),
            "gradient_error": trial.gradient_error(),
            "greatest_error": trial.difference.greatest,
            "compress_mb_s": trial.speed(trial.compressing),
            "decompress_mb_s": trial.speed(trial.decompressing),
            "small_chunks": self.small_chunks().map(|small| small.to_string()),
            "far_value": trial.difference.far.map(|far| far.to_string()),
            "problem": trial.problem,
        })
    }

    fn json(&self) -> Value {
        let Precision { unit, bits, .. } = self.precision;
        let (advised, reason) = self.advised.clone().unzip();
        json!({
            "dataset": self.source.name, "chunk_shape": self.block, "unit": unit, "bits": bits, "digits_are_worth": self.precision.options(),
            "noise": self.noise, "advised": advised, "reason": reason,
        })
    }
}

/// For each file, the command that compresses its datasets as advised; the first chunk shape counts.
fn commands(advice: &[Advice<'_>], shapes: &[Shape]) -> Vec<String> {
    let mut files: BTreeMap<&Path, BTreeMap<&[u8], &str>> = BTreeMap::new();
    for Advice { source, advised, .. } in advice {
        let (file, path) = file_and_path(system::os_str(source.name.as_bytes()));
        if let Some((options, _)) = advised {
            files.entry(file).or_default().entry(path).or_insert(options);
        }
    }
    let shapes: String = shapes.iter().take(1).map(|Shape(sides)| format!(" --chunks {}", shape_text(sides))).collect();
    let command = |(file, settings): (&Path, BTreeMap<&[u8], &str>)| {
        let end = file.extension().map(|end| [".".as_bytes(), end.as_encoded_bytes()].concat()).unwrap_or_default();
        let small = [file.with_extension("").as_os_str().as_encoded_bytes(), b"-small", &end].concat();
        let set =
            settings.iter().map(|(path, options)| format!(" --set {}", quoted(&[*path, b":", options.as_bytes()].concat())));
        format!(
            "quire repack {} {}{shapes}{}",
            quoted(file.as_os_str().as_encoded_bytes()),
            quoted(&small),
            set.collect::<String>()
        )
    };
    files.into_iter().map(command).collect()
}

/// A word for a shell.
fn quoted(bytes: &[u8]) -> String {
    let text = Name::new(bytes).to_string();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-:=,+".contains(&byte));
    if is_plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn print(advice: &[Advice<'_>]) {
    let heading = [
        "dataset",
        "type",
        "chunks",
        "tried",
        "options",
        "ratio",
        "PSNR/dB",
        "dSSIM",
        "gradients",
        "largest error",
        "in MB/s",
        "out MB/s",
    ];
    let row = |advice: &Advice<'_>, (options, trial): &(String, Trial)| {
        let type_name = advice.source.numbers.scalar.to_string().to_lowercase();
        let tried = format!("{} of {}", advice.chunks[0], advice.chunks[1]);
        let mut row = vec![advice.source.name.to_string(), type_name, shape_text(&advice.block), tried, options.clone()];
        if trial.problem.is_none() {
            row.extend([
                format!("{:.2}", trial.ratio()),
                trial.difference.psnr_text(),
                or_dash(trial.dssim().map(|dssim| format!("{dssim:.6}"))),
                or_dash(trial.gradient_error().map(|error| format!("{error:.1e}"))),
                format!("{:.3e}", trial.difference.greatest),
                format!("{:.0}", trial.speed(trial.compressing)),
                format!("{:.0}", trial.speed(trial.decompressing)),
            ]);
        }
        row
    };
    print_table(&heading, advice.iter().flat_map(|advice| advice.trials.iter().map(move |trial| row(advice, trial))).collect());
    let mut small: Vec<(Name, String)> =
        advice.iter().filter_map(|advice| Some((advice.source.name.clone(), advice.small_chunks()?.to_string()))).collect();
    small.dedup();
    grouped("note:", &small).iter().for_each(say);
    for advice in advice {
        let name = &advice.source.name;
        for (options, trial) in &advice.trials {
            trial.problem.iter().for_each(|problem| say(format_args!("{name} at {options}: {problem}")));
            trial.difference.far.iter().for_each(|far| say(format_args!("note: {name} at {options}: {far}")));
        }
        say(format_args!("{name}: {}", advice.digits()));
        advice.advised.iter().for_each(|(options, reason)| say(format_args!("{name}: {options} is advised: {reason}")));
    }
}
