//! `quire train`: makes a dictionary of codebooks from the user's files. CEAZ (ICS'22) makes codebooks for a domain offline, too.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, ensure};
use clap::Args;
use quire_codec::options::{self, Options};
use quire_codec::stages::adaptive::{AdaptiveDictionary, MAX_USER_BOOKS, UserDictionary};
use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::{Config, Workspace};
use quire_trainer::adaptive::{Chunk, choices};
use quire_trainer::user_books::user_books;

use crate::arguments::{Shape, shape};
use crate::datasets::{Found, Sample, Source};
use crate::names::Name;
use crate::output::{Outcome, complain, progress, say};
use crate::part;
use crate::slabs::{ReadChunk, each_chunk};

/// Make a dictionary of Huffman codebooks from your own data
///
/// Compresses a sample of the chunks and makes the codebooks that save the most bits when added to the built-in ones. A program that writes through the plugin
/// uses them if the environment has QUIRE_DICTIONARY=OUTPUT. Readers do not need OUTPUT: each chunk that uses such a codebook stores it.
///
/// Example: quire train run1.h5 run2.h5:/fields --options rel=1e-3 --output climate.books
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// HDF5 files, or a dataset or group in one, such as run.h5:/fields/u
    #[arg(required = true, value_name = "FILE[:/PATH]")]
    sources: Vec<OsString>,
    /// Options that the data will be written with, such as rel=1e-3 or abs=0.5,coding=huffman; can be repeated for more bounds
    #[arg(long = "options", required = true, value_name = "OPTIONS")]
    options: Vec<String>,
    /// The dictionary file to write, such as climate.books
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Largest number of codebooks to make
    #[arg(long, default_value_t = MAX_USER_BOOKS, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_USER_BOOKS as u64))]
    books: usize,
    /// Chunk shape that the data will be written in, slowest axis first, such as 64x64x64, for datasets of that rank; other datasets are read in their own
    /// chunk shape
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    chunks: Option<Shape>,
    /// Largest number of chunks to sample per dataset; they are evenly spaced
    #[arg(long, default_value_t = 64, value_name = "COUNT")]
    sample: usize,
    /// List every skipped dataset, not one a reason
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the command.
///
/// # Errors
/// A message that names the file, dataset or option and says what is wrong with it.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let given: Vec<Options> = arguments.options.iter().map(|text| options::parse(text)).collect::<Result<_, _>>()?;
    let found = Found::of(&arguments.sources, |named| {
        let dataset = named.dataset?;
        ensure!(dataset.size() >= 2, "it has fewer than two values");
        Source::new(dataset, named.name)
    })?;
    found.skipped.lines(arguments.verbose).iter().for_each(complain);
    let chunks = chunks(&found, &given, arguments)?;
    let books = books_for(&chunks.iter().collect::<Vec<_>>(), arguments.books);
    let datasets = found.sources.len();
    // A damaged file can make HDF5 crash when it is closed; there is no output then.
    drop(found);
    let plural = if datasets == 1 { "" } else { "s" };
    say(format_args!("{datasets} dataset{plural}, {} chunks at {}", chunks.len(), arguments.options.join(" and ")));
    if books.is_empty() {
        say(format_args!("the built-in codebooks suit these data: others would save nothing, and none are written"));
        return Ok(Outcome::Done);
    }
    let sources: Vec<String> = arguments.sources.iter().map(|source| Name::from(source).to_string()).collect();
    let origin = format!("{} at {}", sources.join(", "), arguments.options.join(" and "));
    write(&UserDictionary { origin, books: books.clone() }, &arguments.output)?;
    let output = Name::from(&arguments.output);
    say(format_args!("{} codebooks in {output}, to be used with QUIRE_DICTIONARY={output}", books.len()));
    report(&chunks, arguments.books);
    Ok(Outcome::Done)
}

/// Compresses the sampled chunks of all sources at every bound.
fn chunks(found: &Found, given: &[Options], arguments: &Arguments) -> Result<Vec<Chunk>> {
    let shape = arguments.chunks.as_ref().map(|Shape(sides)| &sides[..]);
    let samples: Vec<Sample<'_>> = found.sources.iter().map(|source| Sample::new(source, shape, arguments.sample)).collect();
    let progress = progress(samples.iter().map(|sample| sample.boxes.len() as u64).sum(), "chunks");
    let (mut workspace, mut chunks, mut buffer) = (Workspace::default(), Vec::new(), Vec::new());
    for sample in &samples {
        let source = sample.source;
        progress.set_message(source.name.to_string());
        let take = |_, read: &ReadChunk, ()| {
            for Options { config, brick } in given {
                let config = Config { fill_value: source.fill_value, ..*config };
                let layout = sample.layout(&read.ranges, *brick)?;
                chunks.push(Chunk::new(read.values(&mut buffer), &layout, &config, &mut workspace)?);
            }
            progress.inc(1);
            Ok(())
        };
        each_chunk(1, [sample.chunks()], |_, _| Ok(()), |(): &mut (), _, _, ()| (), take).with_context(|| source.name.clone())?;
    }
    progress.finish_and_clear();
    ensure!(!chunks.is_empty(), "there is nothing to learn from: no dataset of numbers, or none of its chunks");
    Ok(chunks)
}

/// Up to `count` codebooks that save the most bits of these chunks.
fn books_for(chunks: &[&Chunk], count: usize) -> Vec<CodeLengths> {
    user_books(&chunks.iter().map(|chunk| chunk.histogram).collect::<Vec<_>>(), count)
}

/// Writes the dictionary file. After an error there is no partial file.
fn write(dictionary: &UserDictionary, path: &Path) -> Result<()> {
    let bytes = dictionary.to_bytes().map_err(Error::msg)?;
    let part = part::begin(path)?;
    fs::write(part.path(), &bytes).with_context(|| Name::from(path))?;
    part.keep(path, true)
}

/// Prints the compression ratio on chunks that the codebooks were not made from. Books made from the even chunks are tried on the odd ones, and the reverse.
fn report(chunks: &[Chunk], count: usize) {
    let halves = [0, 1].map(|first| chunks.iter().skip(first).step_by(2).collect::<Vec<_>>());
    let (mut bytes, mut before, mut after) = (0, (0, 0), (0, 0));
    for (made_from, tried) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
        let tried: Vec<Chunk> = tried.iter().map(|&chunk| chunk.clone()).collect();
        let other: u64 = tried.iter().map(|chunk| chunk.other_bits).sum();
        bytes += tried.iter().map(|chunk| chunk.bytes).sum::<u64>();
        for (sums, books) in [(&mut before, vec![]), (&mut after, books_for(made_from, count))] {
            let (bits, built) = choices(&tried, AdaptiveDictionary::new(&books).expect("memory"), false);
            sums.0 += bits.iter().sum::<u64>() + other;
            sums.1 += built;
        }
    }
    let ratio = |bits: u64| 8.0 * bytes as f64 / bits as f64;
    say(format_args!("tried on chunks that they were not made from:"));
    say(format_args!(
        "  built-in codebooks alone  ratio {:8.3}, {:5} of {} chunks build a codebook of their own",
        ratio(before.0),
        before.1,
        chunks.len()
    ));
    say(format_args!("  with such a dictionary    ratio {:8.3}, {:5}", ratio(after.0), after.1));
}
