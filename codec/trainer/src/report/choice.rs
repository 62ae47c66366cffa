//! Tables (a) to (d) and (h): the books of the dictionary, the choice of a book for a chunk, and what that choice loses.

use quire_codec::stages::alphabet::Histogram;
use quire_codec::stages::book_lengths::coded_len;
use quire_codec::stages::codebook;
use quire_codec::stages::dictionary::{Entry, Family};

use super::{BOUNDS, by_bound, columns, field_names, of_field, ratio_cells};
use crate::criteria::{Candidate, Criterion, entropy_bits};
use crate::density::{Density, FAMILIES, MAX_SPREAD};
use crate::learned::learned_books;
use crate::lengths::{code_bits, custom_bits};
use crate::sample::Sample;
use crate::selection::select;
use crate::table::{Table, geomean, percent};
use crate::targets::Target;
use crate::{BOOKS, dictionary, trained_books};

/// Number of bits of a histogram's codes with the cheapest of some books.
fn cheapest(histogram: &Histogram, books: &[Entry]) -> u64 {
    books.iter().map(|book| code_bits(histogram, &book.lengths)).min().unwrap_or(0)
}

/// Ratio with the cheapest of some books.
fn dictionary_ratio(sample: &Sample, books: &[Entry]) -> f64 {
    sample.ratio(cheapest(&sample.histogram, books) + sample.extra_bits)
}

/// Ratio with a custom book. Its code lengths are part of the stream.
fn custom_ratio(sample: &Sample) -> f64 {
    let book_bits = 8 * coded_len(&codebook::optimal_lengths(&sample.histogram)) as u64;
    sample.ratio(custom_bits(&sample.histogram) + book_bits + sample.extra_bits)
}

/// Ratio at the entropy of the tokens. No code with a whole number of bits for each symbol has a higher ratio.
fn entropy_ratio(sample: &Sample) -> f64 {
    sample.ratio(entropy_bits(&sample.histogram) + sample.extra_bits)
}

/// Table (a): ratio by number of books.
#[must_use]
pub fn number_of_books(samples: &[Sample], targets: &[Target]) -> String {
    let mut table = columns("books", &["all", "mean loss", "worst"]);
    let all: Vec<Density> = Density::all().collect();
    for count in [5, 10, 15, 25, 50, 75, 100] {
        let books = trained_books(targets, &all, count);
        table.row(&count.to_string(), ratio_cells(samples, |sample| dictionary_ratio(sample, &books), custom_ratio));
    }
    table.row("75 or custom, by the codec", ratio_cells(samples, Sample::written_ratio_without_lanes, custom_ratio));
    table.row("custom", ratio_cells(samples, custom_ratio, custom_ratio));
    let free = |sample: &Sample| sample.ratio(custom_bits(&sample.histogram) + sample.extra_bits);
    table.row("custom, lengths for nothing", ratio_cells(samples, free, custom_ratio));
    table.row("entropy", ratio_cells(samples, entropy_ratio, custom_ratio));
    table.to_text("(a) Ratio by number of books, made anew for each number, and by relative bound")
}

/// Table (b): ratio by the criterion that chooses among the books.
#[must_use]
pub fn choice_of_criterion(samples: &[Sample]) -> String {
    let books: Vec<Candidate> = dictionary().entries.iter().map(Candidate::new).collect();
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
pub fn choice_of_family(samples: &[Sample], targets: &[Target]) -> String {
    let mut table = columns("families", &["all", "mean loss", "worst"]);
    let mut row = |name: &str, families: &[Family]| {
        let pool: Vec<Density> = Density::all().filter(|density| families.contains(&density.family())).collect();
        let books = trained_books(targets, &pool, BOOKS);
        table.row(name, ratio_cells(samples, |sample| dictionary_ratio(sample, &books), custom_ratio));
    };
    for family in FAMILIES {
        row(&format!("{family:?}"), &[family]);
    }
    let pairs = [(Family::Cauchy, Family::Laplace), (Family::Cauchy, Family::Gaussian), (Family::Laplace, Family::Gaussian)];
    for (first, second) in pairs {
        row(&format!("{first:?} and {second:?}"), &[first, second]);
    }
    row("all three", &FAMILIES);
    table.to_text("(c) Ratio by family of densities, 75 books that start from each set of families")
}

/// Table (d): loss by the model that books are made from.
#[must_use]
pub fn choice_of_model(samples: &[Sample], targets: &[Target]) -> String {
    let all: Vec<Density> = Density::all().collect();
    let books_of = |densities: &[Density]| densities.iter().map(Density::book).collect::<Vec<Entry>>();
    let mut table = columns("books", &["all", "worst"]);
    let mut row = |name: &str, books: &[Entry]| {
        let kept = |sample: &Sample| dictionary_ratio(sample, books) / custom_ratio(sample);
        let worst = samples.iter().map(kept).fold(f64::INFINITY, f64::min);
        let means = by_bound(samples, kept).into_iter().chain([geomean(samples.iter().map(kept)), worst]);
        table.row(name, means.map(|kept| percent(1.0 - kept)));
    };
    for most in 0..=MAX_SPREAD {
        let name = match most {
            0 => "one scale a book".to_owned(),
            _ => format!("spread up to {}", f64::from(most) / 2.0),
        };
        let pool: Vec<Density> = Density::all().filter(|density| density.spread <= most).collect();
        row(&name, &books_of(&select(targets, &pool, BOOKS)));
    }
    row(&format!("all {} densities", all.len()), &books_of(&all));
    row("learned, in use", &dictionary().entries);
    let own: Vec<Target> = samples.iter().map(Target::from).collect();
    row("learned from these samples", &learned_books(&dictionary().entries, &own));
    table.to_text(
        "(d) Mean loss by how books are made, and worst loss: 75 books of densities whose scale varies up to some spread; books of all densities;
    75 books of densities, made again for the chunks that they fit: those of another seed, and the very chunks of this table",
    )
}

/// Table (h): loss by field and bound.
#[must_use]
pub fn loss_by_field(samples: &[Sample]) -> String {
    let names = BOUNDS.iter().flat_map(|bound| ["mean", "worst"].map(|name| format!("{bound:e} {name}")));
    let mut table = Table::new("field", names);
    let books = dictionary().entries;
    let kept = |sample: &Sample| dictionary_ratio(sample, &books) / custom_ratio(sample);
    for field in field_names(samples) {
        let cells = BOUNDS.iter().flat_map(|&bound| {
            let here = samples.iter().filter(|sample| sample.field == field && sample.bound == bound);
            let worst = here.map(kept).fold(f64::INFINITY, f64::min);
            [of_field(samples, field, bound, kept), worst].map(|kept| percent(1.0 - kept))
        });
        table.row(field, cells);
    }
    let all = BOUNDS.iter().flat_map(|&bound| {
        let here = || samples.iter().filter(|sample| sample.bound == bound).map(kept);
        [geomean(here()), here().fold(f64::INFINITY, f64::min)].map(|kept| percent(1.0 - kept))
    });
    table.row("all chunks", all);
    table.to_text("(h) Loss of the dictionary's cheapest book by field and bound")
}
