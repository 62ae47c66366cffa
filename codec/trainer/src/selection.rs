//! Which densities' books the dictionary holds: those that together cost the generator's fields least.
//!
//! Real data is kept out of the choice, so that it can tell what the dictionary is worth. The generator has few fields, though, and a
//! choice made for them alone would leave gaps between the books; a chunk of each density stands in for the unseen.

use h5_samples::{Size, finite_range};
use quire_codec::Config;
use quire_codec::alphabet::{ALPHABET, Meaning};
use quire_codec::codebook::{self, PACKED_LENGTHS};
use quire_codec::dictionary::Entry;
use quire_codec::tokens::Histogram;

use crate::density::Density;
use crate::lengths::code_bits;
use crate::model;
use crate::planes::planes;
use crate::sample::{self, HEADER_BYTES, Sample};

/// Seeds of the fields that the choice is made on; the report's figures are of another.
const SEEDS: [u64; 3] = [2, 3, 4];
/// Relative bounds of the chunks that the choice is made on.
const BOUNDS: [f64; 9] = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5];
/// Values of a chunk that stands for a density.
const DENSITY_VALUES: f64 = 262_144.0;
/// Times that each chosen book may be exchanged for a better one once all are chosen.
const EXCHANGES: usize = 2;

/// Tokens that books are to code.
#[derive(Debug, Clone)]
pub struct Target {
    /// How often each occurs.
    pub histogram: Histogram,
    /// Bits that depend on no book: headers and extra bits.
    pub other_bits: u64,
}

impl Target {
    /// Bits of everything with a book made for these tokens.
    #[must_use]
    pub fn custom_bits(&self) -> f64 {
        let codes = code_bits(&self.histogram, &codebook::optimal_lengths(&self.histogram));
        (codes + 8 * PACKED_LENGTHS as u64 + self.other_bits) as f64
    }

    /// What a chunk of a density would be.
    #[must_use]
    pub fn of_density(density: Density) -> Self {
        let Entry { family, scale, spread, .. } = density.book();
        let weights = model::token_weights(family, scale, spread);
        let values_of = |symbol: usize| match ALPHABET[symbol].meaning {
            Meaning::Run => ALPHABET[symbol].start as f64 + (libm::exp2(f64::from(ALPHABET[symbol].extra_bits)) - 1.0) / 2.0,
            _ => 1.0,
        };
        let values: f64 = weights.iter().enumerate().map(|(symbol, &weight)| weight as f64 * values_of(symbol)).sum();
        let histogram = weights.map(|weight| (weight as f64 / values * DENSITY_VALUES) as u64);
        let extra_bits: u64 = histogram.iter().zip(&ALPHABET).map(|(&count, symbol)| count * u64::from(symbol.extra_bits)).sum();
        Self { histogram, other_bits: extra_bits + 8 * HEADER_BYTES.0 }
    }
}

impl From<&Sample> for Target {
    fn from(sample: &Sample) -> Self {
        Self { histogram: sample.histogram, other_bits: sample.extra_bits + 8 * sample.header_bytes }
    }
}

/// What the dictionary's books are chosen on.
#[must_use]
pub fn training_targets() -> Vec<Target> {
    let mut targets: Vec<Target> = Density::all().map(Target::of_density).collect();
    for field in SEEDS.into_iter().flat_map(|seed| h5_samples::all(seed, Size::Medium)) {
        for chunk in sample::chunks(&field) {
            let (bytes, layout) = sample::bytes_and_layout(&chunk);
            for bound in BOUNDS {
                let Ok(config) = Config::absolute(bound * finite_range(&chunk)) else { continue };
                let config = Config { fill_value: sample::fill_bits(&chunk), ..config };
                let planes = planes(&bytes, &layout, &config).expect("memory for a chunk");
                let (histogram, extra_bits) = planes[0].count().expect("memory for a chunk");
                targets.push(Target { histogram, other_bits: extra_bits + 8 * HEADER_BYTES.0 });
            }
        }
    }
    targets
}

/// The densities of a number of books that together cost the targets about least, each target in proportion to what its own book
/// would cost: one after the other that helps most, then each exchanged for a better one. Ascending.
#[must_use]
pub fn select(targets: &[Target], pool: &[Density], count: usize) -> Vec<Density> {
    let weights: Vec<f64> = targets.iter().map(|target| target.custom_bits().recip()).collect();
    let costs: Vec<Vec<f32>> = pool
        .iter()
        .map(|density| {
            let lengths = density.book().lengths;
            targets
                .iter()
                .zip(&weights)
                .map(|(target, weight)| (code_bits(&target.histogram, &lengths) as f64 * weight) as f32)
                .collect()
        })
        .collect();
    let mut chosen = Vec::new();
    for _ in 0..count {
        chosen.push(best_addition(&costs, &least(&costs, &chosen, targets.len())));
    }
    for place in (0..count).cycle().take(EXCHANGES * count) {
        chosen.swap_remove(place);
        let other = best_addition(&costs, &least(&costs, &chosen, targets.len()));
        chosen.push(other);
        chosen.swap(place, count - 1);
    }
    let mut chosen: Vec<Density> = chosen.into_iter().map(|place| pool[place]).collect();
    chosen.sort_unstable();
    chosen
}

/// Cost of each target with the cheapest of the chosen books.
fn least(costs: &[Vec<f32>], chosen: &[usize], targets: usize) -> Vec<f32> {
    let mut least = vec![f32::INFINITY; targets];
    for &book in chosen {
        for (least, &cost) in least.iter_mut().zip(&costs[book]) {
            *least = least.min(cost);
        }
    }
    least
}

/// Place of the book that lowers the sum of the least costs most.
fn best_addition(costs: &[Vec<f32>], least: &[f32]) -> usize {
    let sum = |book: &Vec<f32>| -> f64 { book.iter().zip(least).map(|(&cost, &least)| f64::from(cost.min(least))).sum() };
    let sums: Vec<f64> = costs.iter().map(sum).collect();
    (0..sums.len()).min_by(|&a, &b| sums[a].total_cmp(&sums[b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_densities_that_targets_came_from_are_chosen() {
        let pool: Vec<Density> = Density::all().step_by(11).collect();
        let own = [pool[3], pool[30], pool[60]];
        let targets: Vec<Target> = own.into_iter().map(Target::of_density).collect();
        let cost = |books: &[Density]| -> u64 {
            let cheapest = |target: &Target| books.iter().map(|book| code_bits(&target.histogram, &book.book().lengths)).min();
            targets.iter().filter_map(cheapest).sum()
        };
        assert!(cost(&select(&targets, &pool, 3)) <= cost(&own));
    }
}
