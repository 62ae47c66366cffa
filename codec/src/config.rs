//! What the user asks of the encoder.

use crate::entropy::alphabet::CodeLengths;
use crate::error::{Error, Result};
use crate::number::element::Element;
use crate::number::integer::Integer as _;

/// How far a decoded value may lie from the original.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ErrorBound {
    /// `|x - x'| <= bound`, in the data's own units, compared in f64. 0 asks for the exact bits.
    Absolute(f64),
    /// The same with this share of the range of the chunk's finite values but the fill value.
    Relative(f64),
    /// `|x - x'| <= bound * |x|`: zeros stay zeros, and signs are kept. For floating-point types.
    PointwiseRelative(f64),
    /// The chunk's peak signal-to-noise ratio in dB, `20 log10(range) - 10 log10(mean squared error)`, over its finite values but the fill value.
    Psnr(f64),
    /// The chunk's bytes over its stream's.
    Ratio {
        /// The ratio to reach.
        ratio: f64,
        /// An absolute bound that is not exceeded for it.
        ceiling: Option<f64>,
    },
    /// The exact bits.
    Lossless,
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
    /// The cheapest of the dictionary's books and [`Config::books`], or one made for the plane where that wins by a margin (FORMAT.md, Encoder).
    #[default]
    Auto,
    /// Always the cheapest book of the dictionary. For measurements.
    Dictionary,
    /// Always one made for the plane. For measurements.
    Custom,
}

/// Whether books are kept from chunk to chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AdaptPolicy {
    /// A chunk's bytes depend on nothing but the chunk and this configuration.
    #[default]
    None,
    /// Custom books of the chunks before may be taken again, so that bytes depend on these and their order. For whoever calls the encoder, who keeps
    /// an [`AdaptiveDictionary`](crate::entropy::adaptive::AdaptiveDictionary): the encoder itself keeps nothing.
    History,
}

/// How the values of a chunk are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PredictorPolicy {
    /// What promises the fewest bits on a sample of the chunk (FORMAT.md, Encoder).
    #[default]
    Auto,
    /// The same, without interpolation.
    Differences,
    /// Always differences along all axes. For measurements.
    Lorenzo,
    /// Always differences along these axes, bit 0 the fastest. For measurements.
    Axes(u8),
    /// Interpolation, where the grid is not a lattice. For measurements.
    Interpolation,
}

/// Everything that steers the encoder. A decoder needs none of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config<'a> {
    /// How far a decoded value may lie from the original.
    pub bound: ErrorBound,
    /// How what the predictor leaves is coded.
    pub coding: CodingPolicy,
    /// Where codebooks come from.
    pub codebook: CodebookPolicy,
    /// Books to choose from besides the dictionary's, as an [`AdaptiveDictionary`] has them: at most [`MAX_BOOKS`]. Those that are used travel in
    /// the stream as custom books do, so that any decoder reads it.
    ///
    /// [`AdaptiveDictionary`]: crate::entropy::adaptive::AdaptiveDictionary
    /// [`MAX_BOOKS`]: crate::entropy::adaptive::MAX_BOOKS
    pub books: &'a [CodeLengths],
    /// Whether these come from the chunks before.
    pub adapt: AdaptPolicy,
    /// How values are predicted.
    pub predictor: PredictorPolicy,
    /// Bits of the dataset's fill value, in the low bits for types of fewer than 64. Values with these bits come back with them even where the
    /// bound would allow a neighbour: a mask is found by comparing with the fill value.
    pub fill_value: Option<u64>,
}

impl Config<'_> {
    /// A configuration with an error bound.
    ///
    /// # Errors
    /// `InvalidArgument` for a bound that makes no sense.
    pub fn new(bound: ErrorBound) -> Result<Self> {
        let refuse =
            |what: &str, value: f64, rule: &str| Err(Error::invalid(format_args!("{what} is {value:?}: it must be {rule}")));
        let bound = match bound {
            ErrorBound::Absolute(0.0) => ErrorBound::Lossless,
            ErrorBound::Absolute(bound) if !is_absolute(bound) => return refuse("absolute error bound", bound, ABSOLUTE_RULE),
            ErrorBound::Ratio { ceiling: Some(ceiling), .. } if !is_absolute(ceiling) => {
                return refuse("absolute error bound beside the ratio", ceiling, ABSOLUTE_RULE);
            }
            ErrorBound::Relative(share) if !(share > 0.0 && share <= 1.0) => {
                return refuse("relative error bound", share, "a share of the range, greater than 0 and at most 1");
            }
            ErrorBound::PointwiseRelative(share) if !(share > 0.0 && share < 1.0) => {
                return refuse("point-wise relative error bound", share, "a share of each value, greater than 0 and less than 1");
            }
            ErrorBound::Psnr(decibels) if !(decibels > 0.0 && decibels <= MAX_PSNR) => {
                return refuse("PSNR", decibels, "in dB, greater than 0 and at most 1000");
            }
            ErrorBound::Ratio { ratio, .. } if !(ratio > 1.0 && ratio <= MAX_RATIO) => {
                return refuse("compression ratio", ratio, "greater than 1 and at most 1e6");
            }
            bound => bound,
        };
        Ok(Self {
            bound,
            coding: CodingPolicy::Auto,
            codebook: CodebookPolicy::Auto,
            books: &[],
            adapt: AdaptPolicy::None,
            predictor: PredictorPolicy::Auto,
            fill_value: None,
        })
    }

    /// A configuration with an absolute error bound, in the data's own units; 0 asks for the exact bits.
    ///
    /// # Errors
    /// `InvalidArgument` unless `bound` is finite and not negative, and so large, if it is not 0, that `1 / (2 bound)` is finite.
    pub fn absolute(bound: f64) -> Result<Self> {
        Self::new(ErrorBound::Absolute(bound))
    }

    /// The same configuration with another bound, which has passed [`Config::new`].
    #[must_use]
    pub fn with_bound(self, bound: ErrorBound) -> Self {
        Self { bound, ..self }
    }

    /// The fill value as an element.
    #[must_use]
    pub fn fill<V: Element>(&self) -> Option<V> {
        self.fill_value.map(|bits| V::from_bits(V::Code::from_i64(bits.cast_signed())))
    }
}

/// Most decibels that make sense: f64 has a dynamic range of some 12 000, but digits for 320.
const MAX_PSNR: f64 = 1000.0;
/// Largest ratio that may be asked for; the header alone keeps a stream from more.
const MAX_RATIO: f64 = 1e6;

const ABSOLUTE_RULE: &str = "finite, 0 or greater, and neither so small nor so large that 2*bound or 1/(2*bound) overflows";

/// Whether a number can be the half step of a grid.
#[must_use]
pub(crate) fn is_absolute(bound: f64) -> bool {
    let step = 2.0 * bound;
    bound > 0.0 && step.is_finite() && step.recip().is_finite()
}
