//! Tables with the numbers by which the defaults were chosen. Shah et al. (ICS'23) have similar tables in their figures 4, 6 and 7.

mod choice;
mod coding;

use std::collections::BTreeSet;
use std::io::IsTerminal;

use h5_samples::{Field, Size};

use crate::sample::{self, Sample};
use crate::table::{Table, geomean, percent, ratio};
use crate::targets;

pub use choice::{choice_of_criterion, choice_of_family, choice_of_model, loss_by_field, number_of_books};
pub use coding::{layout_overhead, length_limits, ways_to_code_zeros, without_tokens};

/// Error bounds as shares of a chunk's range.
pub const BOUNDS: [f64; 4] = [1e-1, 1e-2, 1e-3, 1e-4];
/// Seed of the fields.
const SEED: u64 = 1;

/// All tables, made from one set of samples.
#[must_use]
pub fn report() -> String {
    let samples = samples(h5_samples::all(SEED, Size::Medium));
    let targets = targets::targets();
    let mut text = preamble(samples.len());
    text.push_str(&number_of_books(&samples, &targets));
    text.push_str(&choice_of_criterion(&samples));
    text.push_str(&choice_of_family(&samples, &targets));
    text.push_str(&choice_of_model(&samples, &targets));
    for table in [length_limits, without_tokens, layout_overhead, loss_by_field, ways_to_code_zeros] {
        text.push_str(&table(&samples));
    }
    text
}

/// Samples of all fields at all bounds. Shows the name of the current field on a terminal.
pub fn samples(fields: impl IntoIterator<Item = Field>) -> Vec<Sample> {
    let watched = std::io::stderr().is_terminal();
    let mut samples = Vec::new();
    for field in fields {
        if watched {
            eprint!("\r\x1b[K{}", field.name);
        }
        for chunk in sample::chunks(&field) {
            samples.extend(BOUNDS.iter().filter_map(|&bound| sample::measure(&chunk, bound)));
        }
    }
    if watched {
        eprint!("\r\x1b[K");
    }
    samples
}

fn preamble(samples: usize) -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}
command: cargo run --release -p quire-trainer -- report > h5-samples/results/dictionary.txt
machine: {}, {threads} threads usable, one used; no figure here depends on it but for the last bit of sines in the generator
fields:  h5_samples::all({SEED}, Size::Medium), up to 8 chunks a field of 64^3, 512^2, 262144 or 4x16x64x64 values; {samples} samples,
         each predicted as the codec chooses; books are chosen on the fields of other seeds
bound:   1e-1 to 1e-4 of the chunk's range over finite values that are not fill; chunks of one value are left out
ratio:   bytes of the chunk / bytes of headers and codes plane; exceptions (NaN, fill values) lie in planes of their own and are not
         counted; geometric mean over chunks
loss:    1 - ratio / ratio of a book made for the chunk, whose lengths are in the stream; negative where the dictionary wins
book:    chosen by exact cost and of at most 12 bits a code unless a table says otherwise

",
        h5_samples::measured(),
        h5_samples::processor()
    )
}

/// A table with a column for each bound. `first` is the column in front of them, `last` are those behind.
fn columns(first: &str, last: &[&str]) -> Table {
    let bounds = BOUNDS.iter().map(|bound| format!("{bound:e}"));
    Table::new(first, bounds.chain(last.iter().map(|&name| name.to_owned())))
}

/// Geometric mean over the samples of each bound.
fn by_bound(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> [f64; BOUNDS.len()] {
    BOUNDS.map(|bound| geomean(samples.iter().filter(|sample| sample.bound == bound).map(&value)))
}

/// Names of the fields in the order of the samples, each once.
fn field_names(samples: &[Sample]) -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    samples.iter().map(|sample| sample.field).filter(|&name| seen.insert(name)).collect()
}

/// Geometric mean over the chunks of a field at a bound.
fn of_field(samples: &[Sample], field: &str, bound: f64, value: impl Fn(&Sample) -> f64) -> f64 {
    geomean(samples.iter().filter(|sample| sample.field == field && sample.bound == bound).map(value))
}

/// Cells of a row: the ratio at each bound and over all samples, then mean and worst loss against `reference` over all samples.
fn ratio_cells(samples: &[Sample], value: impl Fn(&Sample) -> f64, reference: impl Fn(&Sample) -> f64) -> Vec<String> {
    let mut cells: Vec<String> = by_bound(samples, &value).map(ratio).to_vec();
    cells.push(ratio(geomean(samples.iter().map(&value))));
    let kept = |sample: &Sample| value(sample) / reference(sample);
    cells.push(percent(1.0 - geomean(samples.iter().map(kept))));
    cells.push(percent(1.0 - samples.iter().map(kept).fold(f64::INFINITY, f64::min)));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::Target;

    #[test]
    fn every_table_has_its_rows_on_small_fields() {
        let samples = samples(h5_samples::all(SEED, Size::Small).take(4));
        assert!(samples.iter().all(|sample| sample.values <= 64 * 64 * 64));
        let targets: Vec<Target> = samples.iter().map(Target::from).collect();
        for (text, rows) in [
            (number_of_books(&samples, &targets), ["100", "entropy"]),
            (choice_of_criterion(&samples), ["exact cost", "entropy difference"]),
            (choice_of_family(&samples, &targets), ["Cauchy", "all three"]),
            (choice_of_model(&samples, &targets), ["one scale", "learned"]),
            (length_limits(&samples), ["10", "16"]),
            (without_tokens(&samples), ["turbulence_velocity", "geometric mean"]),
            (layout_overhead(&samples), ["turbulence_resolved", "cloud_water"]),
            (loss_by_field(&samples), ["turbulence_resolved", "all chunks"]),
            (ways_to_code_zeros(&samples), ["run tokens", "a flag a block of 64"]),
        ] {
            for row in rows {
                assert!(text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
            }
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn a_loss_is_against_the_reference() {
        let sample = crate::sample::tests::sample_of([1 << 10; quire_codec::stages::alphabet::SYMBOLS]);
        let cells = ratio_cells(&[sample], |_| 3.0, |_| 4.0);
        assert_eq!(cells[4..], ["3.00", "25.00 %", "25.00 %"]);
    }
}
