//! Tables (a) to (d): which books the dictionary holds, and how one is chosen.

use quire_codec::codebook::{self, PACKED_LENGTHS};
use quire_codec::dictionary::{Entry, Family};
use quire_codec::tokens::Histogram;

use super::{by_bound, columns, ratio_cells};
use crate::criteria::{Candidate, Criterion, entropy, shares};
use crate::learned::learned_books;
use crate::lengths::code_bits;
use crate::model::CLUSTERING;
use crate::sample::Sample;
use crate::table::{geomean, percent};
use crate::{BOOKS_PER_FAMILY, FAMILIES, dictionary, family_books, spread_books};

/// Bits of a histogram's codes with the cheapest of some books.
fn cheapest(histogram: &Histogram, books: &[Entry]) -> u64 {
    books.iter().map(|book| code_bits(histogram, &book.lengths)).min().unwrap_or(0)
}

/// Ratio with the cheapest of some books.
fn dictionary_ratio(sample: &Sample, books: &[Entry]) -> f64 {
    sample.ratio(cheapest(&sample.histogram, books) + sample.extra_bits)
}

/// Bits of a custom book's codes.
fn custom_bits(histogram: &Histogram) -> u64 {
    code_bits(histogram, &codebook::optimal_lengths(histogram))
}

/// Ratio with a custom book, whose lengths are in the stream.
fn custom_ratio(sample: &Sample) -> f64 {
    sample.ratio(custom_bits(&sample.histogram) + 8 * PACKED_LENGTHS as u64 + sample.extra_bits)
}

/// Ratio that no code of whole symbols passes.
fn entropy_ratio(sample: &Sample) -> f64 {
    let tokens: u64 = sample.histogram.iter().sum();
    sample.ratio((entropy(&shares(&sample.histogram)) * tokens as f64) as u64 + sample.extra_bits)
}

/// Table (a): ratio by number of books.
#[must_use]
pub fn number_of_books(samples: &[Sample]) -> String {
    let mut table = columns("books", &["all", "mean loss", "worst"]);
    for count in [5, 10, 15, 25, 50, 75, 100] {
        let books = spread_books(count, CLUSTERING);
        table.row(&count.to_string(), ratio_cells(samples, |sample| dictionary_ratio(sample, &books), custom_ratio));
    }
    table.row("75 or custom, by the codec", ratio_cells(samples, Sample::written_ratio_without_lanes, custom_ratio));
    table.row("custom", ratio_cells(samples, custom_ratio, custom_ratio));
    let free = |sample: &Sample| sample.ratio(custom_bits(&sample.histogram) + sample.extra_bits);
    table.row("custom, lengths for nothing", ratio_cells(samples, free, custom_ratio));
    table.row("entropy", ratio_cells(samples, entropy_ratio, custom_ratio));
    table.to_text("(a) Ratio by number of books, spread evenly over the three families, and by relative bound")
}

/// Table (b): ratio by the criterion that chooses among the books.
#[must_use]
pub fn choice_of_criterion(samples: &[Sample]) -> String {
    let books: Vec<Candidate> = dictionary().entries.iter().map(|entry| Candidate::new(entry, CLUSTERING)).collect();
    let mut table = columns("criterion", &["all", "mean loss", "worst", "finds cheapest"]);
    for criterion in Criterion::ALL {
        let bits = |sample: &Sample| {
            let book = criterion.choose(&sample.histogram, &books);
            code_bits(&sample.histogram, &books[book].lengths)
        };
        let least = |sample: &Sample| books.iter().map(|book| code_bits(&sample.histogram, &book.lengths)).min();
        let found = samples.iter().filter(|sample| Some(bits(sample)) == least(sample)).count();
        let mut cells = ratio_cells(samples, |sample| sample.ratio(bits(sample) + sample.extra_bits), custom_ratio);
        cells.push(percent(found as f64 / samples.len() as f64));
        table.row(criterion.name(), cells);
    }
    table.to_text("(b) Ratio by the criterion that chooses among the 75 books; q are a book's shares, p the chunk's")
}

/// Table (c): ratio by family.
#[must_use]
pub fn choice_of_family(samples: &[Sample]) -> String {
    let mut table = columns("books", &["all", "mean loss", "worst"]);
    let mut row = |name: &str, books: &[Entry]| {
        table.row(name, ratio_cells(samples, |sample| dictionary_ratio(sample, books), custom_ratio));
    };
    let count = BOOKS_PER_FAMILY;
    for family in FAMILIES {
        row(&format!("{family:?}, {count}"), &family_books(family, count, CLUSTERING));
    }
    for family in FAMILIES {
        row(&format!("{family:?}, {}", 3 * count), &family_books(family, 3 * count, CLUSTERING));
    }
    let pairs = [(Family::Cauchy, Family::Laplace), (Family::Cauchy, Family::Gaussian), (Family::Laplace, Family::Gaussian)];
    for (first, second) in pairs {
        let books = [first, second].map(|family| family_books(family, count, CLUSTERING)).concat();
        row(&format!("{first:?} and {second:?}, {count} each"), &books);
    }
    row(&format!("all three, {count} each"), &dictionary().entries);
    table.to_text("(c) Ratio by family of densities")
}

/// Table (d): loss by the model of run tokens.
#[must_use]
pub fn choice_of_run_model(samples: &[Sample]) -> String {
    let mut table = columns("clustering", &["all", "worst"]);
    let mut row = |name: &str, books: &[Entry]| {
        let kept = |sample: &Sample| dictionary_ratio(sample, books) / custom_ratio(sample);
        let worst = samples.iter().map(kept).fold(f64::INFINITY, f64::min);
        let means = by_bound(samples, kept).into_iter().chain([geomean(samples.iter().map(kept)), worst]);
        table.row(name, means.map(|kept| percent(1.0 - kept)));
    };
    for clustering in MIXTURES {
        let name = match clustering {
            [0.0] => "independent zeros: 0".to_owned(),
            [one] => format!("one: {one}"),
            many => format!("equal parts: {}{}", join(many), if *many == CLUSTERING { " (in use)" } else { "" }),
        };
        row(&name, &spread_books(3 * BOOKS_PER_FAMILY, clustering));
    }
    row("learned from these samples", &learned_books(&dictionary().entries, samples));
    table.to_text("(d) Mean loss of 75 books by the model of run tokens: clustering of zeros (see model.rs), and worst loss")
}

/// Mixtures of clusterings that table (d) compares.
const MIXTURES: &[&[f64]] = &[
    &[0.0],
    &[0.4],
    &[0.7],
    &[0.9],
    &[0.0, 0.7],
    &[0.0, 0.9],
    &[0.0, 0.0, 0.8],
    CLUSTERING,
    &[0.0, 0.0, 0.95],
    &[0.0, 0.0, 0.0, 0.9],
    &[0.0, 0.3, 0.9],
    &[0.0, 0.4, 0.7, 0.9],
    &[0.0, 0.5, 0.8, 0.95],
];

fn join(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}
