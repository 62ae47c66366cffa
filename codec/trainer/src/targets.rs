//! The targets that the dictionary's books are made for: chunks of the generator's fields, and a chunk of each density, for data that the generator does not
//! make. Real data measure the dictionary, so that they are no targets.
//!
//! A file has the tokens' counts in the generator's chunks. The last bits of the generator's sines differ between machines, and the dictionary must not.

use h5_samples::Size;
use quire_codec::stages::alphabet::{ALPHABET, Histogram, Meaning, SYMBOLS};
use quire_codec::stages::dictionary::Entry;

use crate::density::Density;
use crate::lengths::{custom_bits, extra_bits};
use crate::model;
use crate::planes::planes;
use crate::sample::{self, Sample};

/// The file that [`sample_fields`] made. It has a byte for each symbol of each chunk at each bound. The byte is 0 for a symbol that does not occur. Otherwise it
/// is 1 + [`LOG_STEPS`] × the binary logarithm of the symbol's count.
static FILE: &[u8] = include_bytes!("../training.bin");
/// Steps of an octave of the counts in [`FILE`].
const LOG_STEPS: f64 = 8.0;
/// Seed of the fields of [`FILE`]. The report uses fields of another seed.
const SEED: u64 = 2;
/// Bounds of the chunks of [`FILE`], as shares of their ranges.
const BOUNDS: [f64; 9] = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5];
/// Number of values of the chunk of a density.
const DENSITY_VALUES: f64 = 262_144.0;

/// Bytes of all headers without extents, in a stream of version 0.5. The dictionary was made for that version.
const HEADER_BYTES: u64 = 48;
/// Bytes of a custom book in a stream of version 0.5.
const BOOK_BYTES: u64 = 56;

/// A chunk whose tokens books are made for.
#[derive(Debug, Clone)]
pub struct Target {
    /// Numbers of the chunk's tokens.
    pub histogram: Histogram,
    /// Number of bits that do not depend on the book: headers and extra bits.
    pub other_bits: u64,
}

impl Target {
    fn new(histogram: Histogram) -> Self {
        Self { histogram, other_bits: extra_bits(&histogram) + 8 * HEADER_BYTES }
    }

    /// Number of bits of the chunk with a book made for its tokens, the book included.
    #[must_use]
    pub fn custom_bits(&self) -> f64 {
        (custom_bits(&self.histogram) + 8 * BOOK_BYTES + self.other_bits) as f64
    }

    /// A chunk of `DENSITY_VALUES` values whose differences follow a density.
    #[must_use]
    pub fn of_density(density: Density) -> Self {
        let Entry { family, scale, spread, .. } = density.book();
        let weights = model::token_weights(family, scale, spread);
        let values_of = |symbol: usize| match ALPHABET[symbol].meaning {
            Meaning::Run => ALPHABET[symbol].start as f64 + (libm::exp2(f64::from(ALPHABET[symbol].extra_bits)) - 1.0) / 2.0,
            _ => 1.0,
        };
        let values: f64 = weights.iter().enumerate().map(|(symbol, &weight)| weight as f64 * values_of(symbol)).sum();
        Self::new(weights.map(|weight| (weight as f64 / values * DENSITY_VALUES) as u64))
    }
}

impl From<&Sample> for Target {
    fn from(sample: &Sample) -> Self {
        Self { histogram: sample.histogram, other_bits: sample.extra_bits + 8 * sample.header_bytes }
    }
}

/// The targets that the dictionary's books are made for.
#[must_use]
pub fn targets() -> Vec<Target> {
    let sampled = FILE.as_chunks::<SYMBOLS>().0.iter().map(|logs| Target::new(logs.map(count)));
    Density::all().map(Target::of_density).chain(sampled).collect()
}

fn count(log: u8) -> u64 {
    if log == 0 { 0 } else { libm::round(libm::exp2(f64::from(log - 1) / LOG_STEPS)) as u64 }
}

fn log(count: u64) -> u8 {
    if count == 0 { 0 } else { 1 + libm::round(LOG_STEPS * libm::log2(count as f64)) as u8 }
}

/// Contents of `codec/trainer/training.bin`.
#[must_use]
pub fn sample_fields() -> Vec<u8> {
    let mut file = Vec::new();
    for chunk in h5_samples::all(SEED, Size::Medium).flat_map(|field| sample::chunks(&field).collect::<Vec<_>>()) {
        let (bytes, layout) = sample::bytes_and_layout(&chunk);
        for bound in BOUNDS {
            let Some(config) = sample::config(&chunk, bound) else { continue };
            let planes = planes(&bytes, &layout, &config).expect("memory for a chunk");
            file.extend(planes[0].count().expect("memory for a chunk").0.map(log));
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_nearly() {
        for occurrences in [0, 1, 2, 3, 100, 262_144, 1 << 30] {
            let back = count(log(occurrences));
            assert!(occurrences.abs_diff(back) * 20 <= occurrences, "{occurrences} {back}");
        }
    }

    #[test]
    fn a_density_has_the_values_of_a_chunk() {
        for density in Density::all().step_by(50) {
            let target = Target::of_density(density);
            let values = |symbol: usize| match ALPHABET[symbol].meaning {
                Meaning::Run => target.histogram[symbol] * ALPHABET[symbol].start,
                _ => target.histogram[symbol],
            };
            let values: u64 = (0..SYMBOLS).map(values).sum();
            assert!(values as f64 <= DENSITY_VALUES && values as f64 > 0.4 * DENSITY_VALUES, "{density:?}: {values}");
        }
    }
}
