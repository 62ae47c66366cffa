//! `quire train`: a dictionary of codebooks from the user's own files, after CEAZ (ICS'22), which makes books for a domain offline.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use quire_codec::stages::adaptive::{AdaptiveDictionary, MAX_USER_BOOKS, UserDictionary};
use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::{Config, Workspace, options};
use quire_trainer::adaptive::{Chunk, choices};
use quire_trainer::user_books::user_books;

use crate::arguments::{Shape, shape};
use crate::datasets::Found;
use crate::library::message;
use crate::names::Name;
use crate::output::{Outcome, complain, progress, say};
use crate::part;

/// Make a dictionary of codebooks from your own data
///
/// Compresses a sample of the chunks and makes the codebooks that, beside the built-in ones, would code them in the fewest bits. With QUIRE_DICTIONARY=OUTPUT
/// in its environment a program that writes through the plugin chooses from them as well. Files stay readable without OUTPUT: a book travels with the chunk.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Files, or FILE:/path of a dataset or group in one
    #[arg(required = true, value_name = "FILE[:/PATH]")]
    sources: Vec<OsString>,
    /// What the data will be written with, such as rel=1e-3 or abs=0.5,coding=huffman; give it again for other bounds
    #[arg(long = "options", required = true, value_name = "OPTIONS")]
    options: Vec<String>,
    /// The dictionary to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Most books
    #[arg(long, default_value_t = MAX_USER_BOOKS, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_USER_BOOKS as u64))]
    books: usize,
    /// Shape of the chunks to be written, such as 64x64x64, for datasets of that rank; others have the chunks that they have
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    chunks: Option<Shape>,
    /// Most chunks of a dataset to look at, spread evenly over it
    #[arg(long, default_value_t = 64, value_name = "COUNT")]
    sample: usize,
}

/// Runs the command.
///
/// # Errors
/// With what was wrong and where.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let configs: Vec<Config> =
        arguments.options.iter().map(|text| options::parse(text)).collect::<Result<_, _>>().map_err(message)?;
    let mut found = Found::default();
    for name in &arguments.sources {
        found.add(name, arguments.chunks.as_ref().map(|Shape(sides)| &sides[..]))?;
    }
    found.skipped.iter().for_each(|reason| complain(format_args!("skipped {reason}")));
    let chunks = chunks(&found, &configs, arguments.sample)?;
    let books = make(&chunks.iter().collect::<Vec<_>>(), arguments.books);
    let datasets = found.sources.len();
    // A damaged file can make HDF5 crash when it is closed; there is no output then.
    drop(found);
    let plural = if datasets == 1 { "" } else { "s" };
    say(format_args!("{datasets} dataset{plural}, {} chunks at {}", chunks.len(), arguments.options.join(" and ")));
    if books.is_empty() {
        say(format_args!("the built-in codebooks suit these data: others would save nothing, and none are written"));
        return Ok(Outcome::Done);
    }
    let sources: Vec<String> = arguments.sources.iter().map(|source| Name::from(&**source).to_string()).collect();
    let origin = format!("{} at {}", sources.join(", "), arguments.options.join(" and "));
    write(&UserDictionary { origin, books: books.clone() }, &arguments.output)?;
    let output = Name::from(&*arguments.output);
    say(format_args!("{} codebooks in {output}, to be used with QUIRE_DICTIONARY={output}", books.len()));
    report(&chunks, arguments.books);
    Ok(Outcome::Done)
}

/// Chunks of all sources, each at all bounds.
fn chunks(found: &Found, configs: &[Config], sample: usize) -> Result<Vec<Chunk>, String> {
    let total: usize = found.sources.iter().map(|source| source.sample(sample).len()).sum();
    let progress = progress(total as u64, "chunks");
    let mut workspace = Workspace::default();
    let (mut chunks, mut bytes) = (Vec::new(), Vec::new());
    for source in &found.sources {
        progress.set_message(source.name.to_string());
        for number in source.sample(sample) {
            let layout = source.read(number, &mut bytes)?;
            for config in configs {
                let config = Config { fill_value: source.fill_value, ..*config };
                let chunk = Chunk::new(&bytes, &layout, &config, &mut workspace);
                chunks.push(chunk.map_err(|error| format!("{}: {error}", source.name))?);
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    if chunks.is_empty() {
        return Err("there is nothing to learn from: no dataset of numbers, or none of its chunks".to_owned());
    }
    Ok(chunks)
}

fn make(chunks: &[&Chunk], count: usize) -> Vec<CodeLengths> {
    user_books(&chunks.iter().map(|chunk| chunk.histogram).collect::<Vec<_>>(), count)
}

/// Writes the file, whole or not at all.
fn write(dictionary: &UserDictionary, path: &Path) -> Result<(), String> {
    let bytes = dictionary.to_bytes()?;
    let part = part::begin(path)?;
    fs::write(part.path(), &bytes).map_err(|error| format!("{}: {error}", Name::from(path)))?;
    part.keep(path, true)
}

/// Says what such books do for chunks that they were not made from: those of every other chunk for the ones between.
fn report(chunks: &[Chunk], count: usize) {
    let halves = [0, 1].map(|first| chunks.iter().skip(first).step_by(2).collect::<Vec<_>>());
    let (mut bytes, mut before, mut after) = (0, (0, 0), (0, 0));
    for (made_from, tried) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
        let tried: Vec<Chunk> = tried.iter().map(|&chunk| chunk.clone()).collect();
        let other: u64 = tried.iter().map(|chunk| chunk.other_bits).sum();
        bytes += tried.iter().map(|chunk| chunk.bytes).sum::<u64>();
        for (sums, books) in [(&mut before, vec![]), (&mut after, make(made_from, count))] {
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
