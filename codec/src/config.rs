//! The encoder's configuration: error bound, coding, codebooks and predictor.

use crate::entropy::alphabet::CodeLengths;
use crate::error::{Error, Result};
use crate::keep::Keep;
use crate::number::element::Element;
use crate::number::integer::Integer as _;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::fills::{Fills, Span};

/// The largest error of a decoded value, as a user asks for it. `docs/contributing.md` lists what a new bound touches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorBound {
    /// `|x - x'| <= bound`, in the data's own units, compared in f64. [`Config::new`] takes 0 for [`ErrorBound::Lossless`].
    Absolute(f64),
    /// `|x - x'| <= share * range`, where the range is that of the chunk's finite values without the fill value.
    Relative(f64),
    /// `|x - x'| <= bound * |x|`: zeros stay zeros, and signs are kept. For floating-point types.
    PointwiseRelative(f64),
    /// The chunk's peak signal-to-noise ratio in dB, `20 log10(range) - 10 log10(mean squared error)`, over its finite values without the fill value.
    Psnr(f64),
    /// The compression ratio: bytes of the chunk over bytes of its stream.
    Ratio {
        /// The ratio to reach.
        ratio: f64,
        /// The largest absolute bound that may be taken to reach it.
        ceiling: Option<f64>,
    },
    /// The exact bits.
    Lossless,
}

/// The largest error of a decoded value, as one chunk is encoded: what an [`ErrorBound`] comes down to for the chunk's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettledBound {
    /// See [`ErrorBound::Absolute`].
    Absolute(f64),
    /// See [`ErrorBound::PointwiseRelative`].
    PointwiseRelative(f64),
    /// See [`ErrorBound::Lossless`].
    Lossless,
}

/// How residuals are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CodingPolicy {
    /// [`CodingPolicy::Huffman`]. A later version may take another coding where that promises a shorter stream.
    #[default]
    Auto,
    /// Tokens and Huffman codes.
    Huffman,
    /// Bit planes, which a GPU codes faster. Streams are a tenth to a fifth longer, and interpolation is not tried.
    Bitshuffle,
}

/// Where the Huffman codebook of a chunk comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CodebookPolicy {
    /// The cheapest of the dictionary's books and [`Config::books`], or a book made for the plane if that is cheaper by a margin (FORMAT.md §11).
    #[default]
    Auto,
    /// Always the cheapest book of the dictionary. For measurements.
    Dictionary,
    /// Always a book made for the plane. For measurements.
    Custom,
}

/// Whether codebooks are kept from chunk to chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AdaptPolicy {
    /// A stream depends on its chunk and this configuration alone.
    #[default]
    None,
    /// Custom books of earlier chunks may be used again, so that a stream depends on these chunks and their order. The encoder itself keeps nothing:
    /// its caller keeps an [`AdaptiveDictionary`](crate::entropy::adaptive::AdaptiveDictionary).
    History,
}

/// How the values of a chunk are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PredictorPolicy {
    /// The predictor with the smallest estimate on a sample of the chunk (FORMAT.md §11).
    #[default]
    Auto,
    /// The set of axes of differences with the smallest estimate, never interpolation.
    Differences,
    /// Always differences along all axes. For measurements.
    Lorenzo,
    /// Always differences along these axes, bit 0 the fastest. For measurements.
    Axes(u8),
    /// Interpolation of this kind, where the grid is not a lattice. For measurements.
    Interpolation(InterpolationKind),
}

/// Configuration of the encoder. A decoder needs none of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config<'a, Bound = ErrorBound> {
    /// The largest error of a decoded value.
    pub bound: Bound,
    /// How residuals are coded.
    pub coding: CodingPolicy,
    /// Where codebooks come from.
    pub codebook: CodebookPolicy,
    /// Books to choose from besides the dictionary's, from an [`AdaptiveDictionary`]: at most [`MAX_BOOKS`]. A stream that uses one of them contains it as a
    /// custom book, so that any decoder reads the stream.
    ///
    /// [`AdaptiveDictionary`]: crate::entropy::adaptive::AdaptiveDictionary
    /// [`MAX_BOOKS`]: crate::entropy::adaptive::MAX_BOOKS
    pub books: &'a [CodeLengths],
    /// Whether `books` come from earlier chunks.
    pub adapt: AdaptPolicy,
    /// How values are predicted.
    pub predictor: PredictorPolicy,
    /// Whether the order of values, or the sides of thresholds, are kept as well as the bound.
    pub keep: Keep,
    /// Whether less noise is wanted rather than a shorter stream. True while a bound is sought for a PSNR or a ratio.
    pub for_less_noise: bool,
    /// Bits of the dataset's fill value, in the low bits for types of fewer than 64 bits. Values with these bits are restored exactly under every bound:
    /// readers find missing values by comparison with the fill value.
    pub fill_value: Option<u64>,
    /// The values that are not far. Far values are restored exactly and count for no range, like the fill value. The span is found while a bound that depends
    /// on the chunk is settled.
    pub span: Span,
}

/// The configuration for one chunk, whose bound is settled.
pub type SettledConfig<'a> = Config<'a, SettledBound>;

impl ErrorBound {
    /// Refuses a bound that no encoder can keep. The fields of a [`Config`] are public, so that its bound need not have passed [`Config::new`].
    ///
    /// # Errors
    /// `InvalidArgument` for a bound out of its type's limits, which the message states, and for an absolute bound of 0.
    pub(crate) fn check(self) -> Result<()> {
        let (is_kept, what, value, rule) = match self {
            Self::Absolute(0.0) => {
                return Err(Error::invalid(
                    "absolute error bound is 0: an encoder keeps the exact bits under ErrorBound::Lossless",
                ));
            }
            Self::Absolute(bound) => (is_absolute(bound), "absolute error bound", bound, ABSOLUTE_RULE),
            Self::Relative(share) => (share > 0.0 && share <= 1.0, "relative error bound", share, RELATIVE_RULE),
            Self::PointwiseRelative(share) => {
                (share > 0.0 && share < 1.0, "point-wise relative error bound", share, POINTWISE_RULE)
            }
            Self::Psnr(decibels) => (decibels > 0.0 && decibels <= MAX_PSNR, "PSNR", decibels, PSNR_RULE),
            Self::Ratio { ceiling: Some(ceiling), .. } if !is_absolute(ceiling) => {
                (false, "absolute error bound beside the ratio", ceiling, ABSOLUTE_RULE)
            }
            Self::Ratio { ratio, .. } => (ratio > 1.0 && ratio <= MAX_RATIO, "compression ratio", ratio, RATIO_RULE),
            Self::Lossless => return Ok(()),
        };
        if is_kept { Ok(()) } else { Err(Error::invalid(format_args!("{what} is {value:?}: it must be {rule}"))) }
    }
}

impl Config<'_> {
    /// A configuration with an error bound. An absolute bound of 0 becomes [`ErrorBound::Lossless`].
    ///
    /// # Errors
    /// `InvalidArgument` for a bound out of its type's limits, which the message states.
    pub fn new(bound: ErrorBound) -> Result<Self> {
        let bound = if bound == ErrorBound::Absolute(0.0) { ErrorBound::Lossless } else { bound };
        bound.check()?;
        Ok(Self::of(bound))
    }

    /// A configuration with an absolute error bound, in the data's own units; 0 asks for the exact bits.
    ///
    /// # Errors
    /// `InvalidArgument` unless `bound` is 0, or above 0 with finite `2 bound` and `1 / (2 bound)`.
    pub fn absolute(bound: f64) -> Result<Self> {
        Self::new(ErrorBound::Absolute(bound))
    }
}

impl<'a, Bound> Config<'a, Bound> {
    /// A configuration with a bound that is not checked: for stages. A user's bound goes to [`Config::new`].
    #[must_use]
    pub fn of(bound: Bound) -> Self {
        Self {
            bound,
            coding: CodingPolicy::Auto,
            codebook: CodebookPolicy::Auto,
            books: &[],
            adapt: AdaptPolicy::None,
            predictor: PredictorPolicy::Auto,
            keep: Keep::default(),
            for_less_noise: false,
            fill_value: None,
            span: Span::ALL,
        }
    }

    /// This configuration with another bound. An encoder refuses a bound that [`Config::new`] refuses, and an absolute bound of 0.
    #[must_use]
    pub fn with_bound<Other>(self, bound: Other) -> Config<'a, Other> {
        let Self { coding, codebook, books, adapt, predictor, keep, for_less_noise, fill_value, span, .. } = self;
        Config { bound, coding, codebook, books, adapt, predictor, keep, for_less_noise, fill_value, span }
    }

    /// This configuration with another span.
    #[must_use]
    pub(crate) fn with_span(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// The values of a chunk that stand for missing ones.
    #[must_use]
    pub fn fills<V: Element>(&self) -> Fills {
        Fills::new(self.fill::<V>(), self.span)
    }

    /// The fill value as an element.
    #[must_use]
    pub fn fill<V: Element>(&self) -> Option<V> {
        self.fill_value.map(|bits| V::from_bits(V::Code::from_i64(bits.cast_signed())))
    }
}

/// Largest PSNR in dB that may be asked for: the digits of an f64 are worth about 320 dB.
const MAX_PSNR: f64 = 1000.0;
/// Largest compression ratio that may be asked for.
const MAX_RATIO: f64 = 1e6;

const RELATIVE_RULE: &str = "a share of the range, greater than 0 and at most 1";
const POINTWISE_RULE: &str = "a share of each value, greater than 0 and less than 1";
const PSNR_RULE: &str = "in dB, greater than 0 and at most 1000";
const RATIO_RULE: &str = "greater than 1 and at most 1e6";
const ABSOLUTE_RULE: &str = "finite, 0 or greater, and neither so small nor so large that 2*bound or 1/(2*bound) overflows";

/// Whether a number can be the half step of a rounding grid.
#[must_use]
pub(crate) fn is_absolute(bound: f64) -> bool {
    let step = 2.0 * bound;
    bound > 0.0 && step.is_finite() && step.recip().is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_accepted_up_to_their_limits() {
        for bound in [
            ErrorBound::Absolute(f64::MIN_POSITIVE),
            ErrorBound::Absolute(f64::MAX / 4.0),
            ErrorBound::Relative(f64::from_bits(1)),
            ErrorBound::Relative(1.0),
            ErrorBound::PointwiseRelative(1.0 - f64::EPSILON),
            ErrorBound::Psnr(1000.0),
            ErrorBound::Ratio { ratio: 1e6, ceiling: None },
            ErrorBound::Ratio { ratio: 1.0 + f64::EPSILON, ceiling: Some(1e-3) },
            ErrorBound::Lossless,
        ] {
            assert_eq!(Config::new(bound).map(|config| config.bound), Ok(bound));
        }
        for zero in [0.0, -0.0] {
            assert_eq!(Config::absolute(zero).map(|config| config.bound), Ok(ErrorBound::Lossless));
        }
    }

    #[test]
    fn bounds_beyond_their_limits_are_refused() {
        // 1 / (2 bound) overflows below 2^-1025, and 2 bound above half of the largest number.
        for bound in [-1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::from_bits(1), -f64::MIN_POSITIVE] {
            assert!(Config::absolute(bound).is_err(), "{bound:e}");
            let with_ceiling = ErrorBound::Ratio { ratio: 10.0, ceiling: Some(bound) };
            assert!(Config::new(with_ceiling).is_err(), "{bound:e}");
        }
        for wrong in [0.0, -0.5, f64::NAN, f64::INFINITY] {
            for bound in [
                ErrorBound::Relative(wrong),
                ErrorBound::PointwiseRelative(wrong),
                ErrorBound::Psnr(wrong),
                ErrorBound::Ratio { ratio: wrong, ceiling: None },
            ] {
                assert!(Config::new(bound).is_err(), "{bound:?}");
            }
        }
        for bound in [
            ErrorBound::Relative(1.0 + f64::EPSILON),
            ErrorBound::PointwiseRelative(1.0),
            ErrorBound::Psnr(1000.1),
            ErrorBound::Ratio { ratio: 1.0, ceiling: None },
            ErrorBound::Ratio { ratio: 1e6 + 1.0, ceiling: None },
            ErrorBound::Ratio { ratio: 10.0, ceiling: Some(0.0) },
        ] {
            assert!(Config::new(bound).is_err(), "{bound:?}");
        }
    }

    #[test]
    fn fill_values_keep_their_bits() {
        let config = |bits| Config { fill_value: Some(bits), ..Config::absolute(1.0).unwrap() };
        assert_eq!(config(0x7fc0_1234).fill::<f32>().map(f32::to_bits), Some(0x7fc0_1234));
        assert_eq!(config(0x8000_0000_0000_0000).fill::<f64>().map(f64::to_bits), Some(1 << 63));
        assert_eq!(Config::absolute(1.0).unwrap().fill::<f64>(), None);
        assert_eq!(config(5).with_bound(ErrorBound::Lossless), Config { bound: ErrorBound::Lossless, ..config(5) });
    }
}
