//! Measures what a series of chunks gains from books that are kept from chunk to chunk. The codec's rule is compared with that of CEAZ (ICS'22, the experiment
//! with one dataset behind another). CEAZ keeps or renews a book by the change of the histogram's standard deviation.

use std::fmt::Write as _;

use h5_samples::{Field, Size, finite_range};
use quire_codec::stages::adaptive::{AdaptiveDictionary, MAX_USER_BOOKS};
use quire_codec::stages::alphabet::{CodeLengths, Histogram, SYMBOLS};
use quire_codec::stages::book_choice::{self, Choice};
use quire_codec::stages::books::token_counts;
use quire_codec::stages::{book_lengths, codebook, dictionary};
use quire_codec::{CodebookPolicy, CodingPolicy, Config, Layout, Result, Workspace};

use crate::criteria::shares;
use crate::lengths::{code_bits, custom_bits};
use crate::sample;
use crate::table::{Table, geomean, percent, ratio};
use crate::user_books::user_books;

/// Seed of the series.
const SEED: u64 = 1;
/// Seed of the fields that books for a domain are made from.
const TRAINING_SEED: u64 = 2;
/// Largest number of chunks of a field.
const CHUNKS: usize = 64;
/// Error bounds as shares of the field's range.
const BOUNDS: [f64; 3] = [1e-2, 1e-3, 1e-4];
/// Second field and bound of the series in the CSV. Both fields of that series are smooth, and their standard deviations hardly differ.
const SHOWN: (&str, f64) = ("ocean_height", 1e-3);

/// A chunk of a series: the tokens of its first plane, and its length.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Numbers of the tokens of the first plane.
    pub histogram: Histogram,
    /// Length before compression, in bytes.
    pub bytes: u64,
    /// Number of the stream's bits that do not depend on the book of the first plane.
    pub other_bits: u64,
}

impl Chunk {
    /// Compresses a chunk and measures its stream.
    ///
    /// # Errors
    /// Those of [`Workspace::compress`].
    pub fn new(chunk: &[u8], layout: &Layout, config: &Config, workspace: &mut Workspace) -> Result<Self> {
        let config = Config { coding: CodingPolicy::Huffman, codebook: CodebookPolicy::Dictionary, ..*config };
        let mut stream = Vec::new();
        workspace.compress(chunk, layout, &config, &mut stream)?;
        let histogram = token_counts(&stream)?;
        let other_bits = (8 * stream.len() as u64).saturating_sub(dictionary::cheapest(&histogram).1);
        Ok(Self { histogram, bytes: chunk.len() as u64, other_bits })
    }
}

/// The chunks of one dataset, then those of another.
#[derive(Debug, Clone)]
pub struct Series {
    names: [&'static str; 2],
    bound: f64,
    chunks: Vec<Chunk>,
}

/// A rule that gives each chunk of a series a book.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// A book made for each chunk. Its bytes do not count.
    Ideal,
    /// A book made for each chunk.
    Custom,
    /// A book of the dictionary.
    Dictionary,
    /// The encoder's default.
    Auto,
    /// The encoder's default with the books of earlier chunks: `adapt=history`.
    History,
    /// The encoder's default with books made for the fields of another seed: `QUIRE_DICTIONARY`.
    User,
    /// The encoder's default with the books of both [`Policy::History`] and [`Policy::User`].
    UserAndHistory,
    /// CEAZ's rule. It looks at the standard deviation of the symbols' shares, and at the deviation's relative change since the last book was made. Up to the first
    /// number, the book is kept. Up to the second number, a book is made for the chunk. Beyond the second number, a book of the dictionary codes the chunk, and
    /// the next chunk takes the book that is made for this chunk.
    Deviation(f64, f64),
}

impl Policy {
    fn name(self) -> String {
        match self {
            Self::Ideal => "ideal".to_owned(),
            Self::Custom => "a book for each".to_owned(),
            Self::Dictionary => "dictionary alone".to_owned(),
            Self::Auto => "auto".to_owned(),
            Self::History => "adapt=history".to_owned(),
            Self::User => "user's dictionary".to_owned(),
            Self::UserAndHistory => "both".to_owned(),
            Self::Deviation(keep, renew) => format!("deviation {keep} {renew}"),
        }
    }

    /// For each chunk, the bits of codes and book of the first plane; and the number of books that were built.
    fn run(self, chunks: &[Chunk], user: &[CodeLengths]) -> (Vec<u64>, usize) {
        match self {
            Self::Ideal => (chunks.iter().map(|chunk| custom_bits(&chunk.histogram)).collect(), chunks.len()),
            Self::Custom => (
                chunks.iter().map(|chunk| bits_with(&chunk.histogram, &codebook::optimal_lengths(&chunk.histogram))).collect(),
                chunks.len(),
            ),
            Self::Dictionary => (chunks.iter().map(|chunk| dictionary::cheapest(&chunk.histogram).1).collect(), 0),
            Self::Auto => choices(chunks, AdaptiveDictionary::new(&[]).expect("memory"), false),
            Self::History => choices(chunks, AdaptiveDictionary::new(&[]).expect("memory"), true),
            Self::User => choices(chunks, AdaptiveDictionary::new(user).expect("memory"), false),
            Self::UserAndHistory => choices(chunks, AdaptiveDictionary::new(user).expect("memory"), true),
            Self::Deviation(keep, renew) => by_deviation(chunks, keep, renew),
        }
    }

    /// Bits of the streams of a series, and the number of books that were built.
    fn total(self, series: &Series, user: &[CodeLengths]) -> (u64, usize) {
        let (bits, built) = self.run(&series.chunks, user);
        (bits.iter().sum::<u64>() + series.chunks.iter().map(|chunk| chunk.other_bits).sum::<u64>(), built)
    }
}

/// Number of bits of a plane's codes with a book that is in the stream, and of the book.
fn bits_with(histogram: &Histogram, book: &CodeLengths) -> u64 {
    code_bits(histogram, book) + 8 * book_lengths::coded_len(book) as u64
}

/// Runs the codec's choice of books. For each chunk, the bits of codes and book of the first plane; and the number of books that were built.
#[must_use]
pub fn choices(chunks: &[Chunk], mut books: AdaptiveDictionary, learns: bool) -> (Vec<u64>, usize) {
    let mut built = 0;
    let bits =
        chunks.iter().map(|Chunk { histogram, .. }| match book_choice::choose(histogram, CodebookPolicy::Auto, books.books()) {
            Choice::Dictionary(book) => code_bits(histogram, &dictionary::books()[usize::from(book)]),
            Choice::Custom(lengths) => {
                built += usize::from(!books.books().contains(&lengths));
                if learns {
                    books.learn_book(&lengths);
                }
                bits_with(histogram, &lengths)
            }
        });
    (bits.collect(), built)
}

/// See [`Policy::Deviation`].
fn by_deviation(chunks: &[Chunk], keep: f64, renew: f64) -> (Vec<u64>, usize) {
    let mut kept: Option<(f64, CodeLengths)> = None;
    let mut built = 0;
    let mut bits = Vec::new();
    for Chunk { histogram, .. } in chunks {
        let deviation = standard_deviation(histogram);
        let change = kept.map_or(f64::INFINITY, |(before, _)| (deviation / before - 1.0).abs());
        if let Some((_, book)) = kept.filter(|_| change <= keep) {
            bits.push(bits_with(histogram, &book));
            continue;
        }
        // A kept book may code any chunk, so that every symbol needs a code.
        let book = codebook::optimal_lengths(&histogram.map(|count| count + 1));
        built += 1;
        kept = Some((deviation, book));
        bits.push(if change <= renew { bits_with(histogram, &book) } else { dictionary::cheapest(histogram).1 });
    }
    (bits, built)
}

/// Standard deviation of the symbols' shares of a histogram.
fn standard_deviation(histogram: &Histogram) -> f64 {
    let mean = 1.0 / SYMBOLS as f64;
    (shares(histogram).iter().map(|share| (share - mean).powi(2)).sum::<f64>() * mean).sqrt()
}

/// The chunks of a field at a bound, in the order in which HDF5 would write them.
fn chunks_of(field: &Field, bound: f64) -> Vec<Chunk> {
    let Ok(config) = Config::absolute(bound * finite_range(field)) else { return Vec::new() };
    let config = Config { fill_value: sample::fill_bits(field), ..config };
    let mut workspace = Workspace::default();
    sample::small_chunks(field, CHUNKS)
        .map(|chunk| {
            let (bytes, layout) = sample::bytes_and_layout(&chunk);
            Chunk::new(&bytes, &layout, &config, &mut workspace).expect("memory for a chunk")
        })
        .collect()
}

/// A series for each field and the next field, at each bound. With each series come the books made for both fields of another seed.
fn all_series() -> Vec<(Series, Vec<CodeLengths>)> {
    let fields: Vec<[Field; 2]> =
        h5_samples::all(SEED, Size::Medium).zip(h5_samples::all(TRAINING_SEED, Size::Medium)).map(Into::into).collect();
    let mut all = Vec::new();
    for bound in BOUNDS {
        let chunks: Vec<[Vec<Chunk>; 2]> =
            fields.iter().map(|pair| pair.each_ref().map(|field| chunks_of(field, bound))).collect();
        for first in 0..fields.len() {
            let second = (first + 1) % fields.len();
            let both = |seed: usize| [chunks[first][seed].clone(), chunks[second][seed].clone()].concat();
            let histograms: Vec<Histogram> = both(1).iter().map(|chunk| chunk.histogram).collect();
            let names = [fields[first][0].name, fields[second][0].name];
            all.push((Series { names, bound, chunks: both(0) }, user_books(&histograms, MAX_USER_BOOKS)));
        }
    }
    all
}

/// The report, and one of its series as CSV: the ratio of each chunk by policy, in the order of the chunks.
#[must_use]
pub fn report() -> (String, String) {
    let mut policies = vec![
        Policy::Ideal,
        Policy::Custom,
        Policy::Dictionary,
        Policy::Auto,
        Policy::History,
        Policy::User,
        Policy::UserAndHistory,
    ];
    for keep in [0.01, 0.02, 0.05, 0.1, 0.2] {
        policies.extend(
            [0.2, 0.5, f64::INFINITY].into_iter().filter(|&renew| renew > keep).map(|renew| Policy::Deviation(keep, renew)),
        );
    }
    let all = all_series();
    let chunks: usize = all.iter().map(|(series, _)| series.chunks.len()).sum();
    let mut table = Table::new("policy", ["longer than ideal", "worst series", "ratio", "books built", "of chunks"]);
    for policy in &policies {
        let (mut losses, mut ratios, mut built) = (Vec::new(), Vec::new(), 0);
        for (series, user) in &all {
            let ((total, books), (ideal, _)) = (policy.total(series, user), Policy::Ideal.total(series, user));
            losses.push(total as f64 / ideal as f64 - 1.0);
            ratios.push(8.0 * series.chunks.iter().map(|chunk| chunk.bytes).sum::<u64>() as f64 / total as f64);
            built += books;
        }
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        let worst = losses.iter().copied().fold(0.0, f64::max);
        let cells =
            [percent(mean), percent(worst), ratio(geomean(ratios)), built.to_string(), percent(built as f64 / chunks as f64)];
        table.row(&policy.name(), cells);
    }
    let mut text = preamble();
    text.push_str(&table.to_text(&format!("(a) {} series of two fields at three bounds, {chunks} chunks", all.len())));
    text.push_str(&by_series(&all));
    let shown = all.iter().find(|(series, _)| (series.names[1], series.bound) == SHOWN);
    (text, shown.map(|(series, user)| csv(series, user)).unwrap_or_default())
}

/// The policies that are compared for each series.
const COMPARED: [Policy; 6] =
    [Policy::Dictionary, Policy::Auto, Policy::History, Policy::User, Policy::Deviation(0.02, 0.5), Policy::Deviation(0.1, 0.5)];

fn by_series(all: &[(Series, Vec<CodeLengths>)]) -> String {
    let mut table = Table::new("series at 1e-3", COMPARED.map(Policy::name));
    for (series, user) in all.iter().filter(|(series, _)| series.bound == 1e-3) {
        let (ideal, _) = Policy::Ideal.total(series, user);
        let cells = COMPARED.map(|policy| {
            let (bits, built) = policy.total(series, user);
            format!("{} {built:3}", percent(bits as f64 / ideal as f64 - 1.0))
        });
        table.row(&series.names.join(", "), cells);
    }
    table.to_text("(b) Longer than ideal, and books built, by series")
}

/// The command that makes both files.
const COMMAND: &str =
    "cargo run --release -p quire-trainer -- adaptive h5-samples/results/adaptive.csv > h5-samples/results/adaptive.txt";

fn preamble() -> String {
    format!(
        "{}
command: {COMMAND}
series:  for each field of h5_samples::all({SEED}, Size::Medium) its first chunks, up to {CHUNKS} of 32^3 values spread over it, then those of the next field; \
         absolute bounds of 1e-2 to 1e-4 of each field's range
ideal:   a book for each chunk, whose bytes are not counted; the first plane of each stream, whose lanes and index are as in the stream with the \
         dictionary's book, everything else included
books:   of the dictionary they cost nothing, others their bytes in each chunk; \"user's\" ones, up to {MAX_USER_BOOKS}, are made for the same two fields of seed {TRAINING_SEED}
deviation k r: CEAZ's rule (ICS'22). The last book is kept while the standard deviation of the symbols' shares is within k of what it was when the book was made; up to
         r it is made anew; beyond, the dictionary's codes the chunk, and the next chunk has a book made for this one

",
        h5_samples::measured()
    )
}

fn csv(series: &Series, user: &[CodeLengths]) -> String {
    let policies: Vec<Policy> = [Policy::Ideal].into_iter().chain(COMPARED).collect();
    let bits: Vec<Vec<u64>> = policies.iter().map(|policy| policy.run(&series.chunks, user).0).collect();
    let names: Vec<String> = policies.iter().map(|policy| policy.name()).collect();
    let mut text = format!("# {}; command: {COMMAND}\nchunk,{}\n", h5_samples::measured(), names.join(","));
    for (index, chunk) in series.chunks.iter().enumerate() {
        let ratios: Vec<String> =
            bits.iter().map(|bits| ratio(8.0 * chunk.bytes as f64 / (bits[index] + chunk.other_bits) as f64)).collect();
        let _ = writeln!(text, "{index},{}", ratios.join(","));
    }
    text
}
