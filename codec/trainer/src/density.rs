//! Densities that books are made from. Their parameters are integers: half octaves of the scale, halves of the spread.

use quire_codec::stages::codebook;
use quire_codec::stages::dictionary::{Entry, Family};

use crate::model;

/// The families in the dictionary's order.
pub const FAMILIES: [Family; 3] = [Family::Cauchy, Family::Laplace, Family::Gaussian];
/// Largest spread that a density may have, in halves.
pub const MAX_SPREAD: u8 = 5;

/// A density.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Density {
    /// Index of the family in [`FAMILIES`].
    pub family: u8,
    /// Twice the spread: standard deviation of the scale's natural logarithm over a chunk.
    pub spread: u8,
    /// Twice the binary logarithm of the scale in quantization steps.
    pub scale: i8,
}

impl Density {
    /// The densities that a dictionary chooses from. A Cauchy density has heavy tails at any scale, so that smaller scales are of use. The other families get heavy
    /// tails from their spread.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..FAMILIES.len() as u8).flat_map(|family| {
            let smallest = if FAMILIES[usize::from(family)] == Family::Cauchy { -31 } else { -13 };
            (0..=MAX_SPREAD).flat_map(move |spread| (smallest..=23).map(move |scale| Self { family, spread, scale }))
        })
    }

    /// The density's family.
    #[must_use]
    pub fn family(&self) -> Family {
        FAMILIES[usize::from(self.family)]
    }

    /// The book for this density.
    #[must_use]
    pub fn book(&self) -> Entry {
        let (family, scale, spread) = (self.family(), libm::exp2(f64::from(self.scale) / 2.0), f64::from(self.spread) / 2.0);
        Entry { family, scale, spread, lengths: codebook::optimal_lengths(&model::token_weights(family, scale, spread)) }
    }
}
