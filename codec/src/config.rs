//! What the user asks of the encoder.

use crate::error::{Error, Result};

/// How far a decoded value may lie from the original.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ErrorBound {
    /// `|x - x'| <= bound`, in the data's own units, compared in f64.
    Absolute(f64),
}

/// How what the predictor leaves is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CodingPolicy {
    /// What promises the fewest bits.
    #[default]
    Auto,
    /// Runs, classes and Huffman codes.
    Huffman,
    /// Planes of bits, which a GPU codes faster. They are a fifth to a tenth larger, and interpolation is not tried for them.
    Bitshuffle,
}

/// Where the Huffman codebook of a chunk comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CodebookPolicy {
    /// The cheapest book of the dictionary, or a custom one where that wins by a margin (FORMAT.md, Encoder).
    #[default]
    Auto,
    /// Always the cheapest book of the dictionary. For measurements.
    Dictionary,
    /// Always a custom book. For measurements.
    Custom,
}

/// How the values of a chunk are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PredictorPolicy {
    /// What promises the fewest bits on a sample of the chunk (FORMAT.md, Encoder).
    #[default]
    Auto,
    /// Always differences along all axes. For measurements.
    Lorenzo,
    /// Always differences along these axes, bit 0 the fastest. For measurements.
    Axes(u8),
    /// Interpolation, where the grid is not a lattice. For measurements.
    Interpolation,
}

/// Everything that steers the encoder. A decoder needs none of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// How far a decoded value may lie from the original.
    pub bound: ErrorBound,
    /// How what the predictor leaves is coded.
    pub coding: CodingPolicy,
    /// Where codebooks come from.
    pub codebook: CodebookPolicy,
    /// How values are predicted.
    pub predictor: PredictorPolicy,
    /// IEEE bits of the dataset's fill value, in the low 32 bits for f32. Values with these bits come back with them even where the
    /// bound would allow a neighbour: a mask is found by comparing with the fill value.
    pub fill_value: Option<u64>,
}

impl Config {
    /// A configuration with an absolute error bound, in the data's own units.
    ///
    /// # Errors
    /// `InvalidArgument` unless `bound` is finite, positive, and so large that `1 / (2 bound)` is finite.
    pub fn absolute(bound: f64) -> Result<Self> {
        let step = 2.0 * bound;
        if !(bound > 0.0 && step.is_finite() && step.recip().is_finite()) {
            return Err(Error::InvalidArgument(format!(
                "absolute error bound is {bound:?}: it must be finite, greater than 0, and neither so small nor so large that 2*bound or 1/(2*bound) overflows"
            )));
        }
        Ok(Self {
            bound: ErrorBound::Absolute(bound),
            coding: CodingPolicy::Auto,
            codebook: CodebookPolicy::Auto,
            predictor: PredictorPolicy::Auto,
            fill_value: None,
        })
    }
}
