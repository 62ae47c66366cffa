//! Makes the dictionary of precomputed codebooks: probability densities → token frequencies → code lengths. And reports what was gained
//! and lost by each choice, on chunks of the generator's fields.

pub mod criteria;
pub mod learned;
pub mod lengths;
pub mod model;
pub mod plain;
pub mod planes;
pub mod report;
pub mod sample;
pub mod table;

use quire_codec::codebook;
use quire_codec::dictionary::{Dictionary, Entry, Family};

/// The families in the dictionary's order.
pub const FAMILIES: [Family; 3] = [Family::Cauchy, Family::Laplace, Family::Gaussian];
/// Books a family.
pub const BOOKS_PER_FAMILY: usize = 25;

/// Smallest and largest scale of a family, in quantization steps. The smallest Cauchy density leaves one difference in 40 000 that is not
/// zero, those of the other families one in a few thousand; the largest Gaussian one spreads over classes of 11 bits. Wider and narrower
/// ranges were tried on two seeds of the generator and on real fields: none was better on all three.
#[must_use]
pub fn scale_range(family: Family) -> (f64, f64) {
    match family {
        Family::Cauchy => (0.000_02, 100.0),
        Family::Laplace => (0.06, 400.0),
        Family::Gaussian => (0.15, 2000.0),
    }
}

/// A book for one density.
#[must_use]
pub fn book(family: Family, scale: f64, clustering: &[f64]) -> Entry {
    let lengths = codebook::optimal_lengths(&model::token_weights(family, scale, clustering));
    Entry { family, scale, lengths }
}

/// `count` books of a family, their scales evenly apart on a logarithmic axis.
#[must_use]
pub fn family_books(family: Family, count: usize, clustering: &[f64]) -> Vec<Entry> {
    let (smallest, largest) = scale_range(family);
    let span = libm::log(largest / smallest);
    (0..count)
        .map(|place| {
            let share = if count > 1 { place as f64 / (count - 1) as f64 } else { 0.5 };
            book(family, smallest * libm::exp(span * share), clustering)
        })
        .collect()
}

/// `count` books in all, as many of each family as can be.
#[must_use]
pub fn spread_books(count: usize, clustering: &[f64]) -> Vec<Entry> {
    // Where three does not divide the number, Laplace gets one more, then Gaussian: alone, Laplace does best (table (c)).
    FAMILIES.into_iter().zip([0, 2, 1]).flat_map(|(family, more)| family_books(family, (count + more) / 3, clustering)).collect()
}

/// The dictionary that the codec embeds.
#[must_use]
pub fn dictionary() -> Dictionary {
    Dictionary { entries: spread_books(3 * BOOKS_PER_FAMILY, model::CLUSTERING) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn embedded_dictionary_is_what_the_trainer_makes() {
        assert_eq!(&super::dictionary(), quire_codec::dictionary::built_in());
    }

    #[test]
    fn books_are_spread_over_the_families() {
        for count in [5, 10, 75, 100] {
            assert_eq!(super::spread_books(count, &[0.0]).len(), count);
        }
    }
}
