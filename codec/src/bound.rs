//! Settles bounds that depend on the chunk (FORMAT.md §11.2): a share of the chunk's range, or the bound that reaches a PSNR or a compression ratio.
//!
//! ```text
//! far values are left out ─┬─> rel: range of the values ───────────────┐
//!                          ├─> psnr: bound by a model of the noise ────┤─> ladder of steps ─> compress ─> psnr: measure the noise, try again
//!                          └─> ratio: search by the length of a stream ┘                               └> ratio: compare the length, try again
//! ```
//!
//! A user's bound is an [`ErrorBound`], a settled one a [`SettledBound`]. A decoder needs neither. The encoders of the CPU and of the GPU call this code, and
//! its arithmetic rounds alike on every machine: a chunk and a configuration have one settled bound everywhere.

/// Finds the grid on which a part of a chunk was rounded before.
mod earlier;
/// Finds values far away from all others, which do not count.
mod far;
/// The steps that settled bounds may have.
mod ladder;
/// Leaves out the zeros with which HDF5 fills partial chunks.
mod padding;
/// The bounds that reach a PSNR.
mod psnr;
/// The search for the bound with which a stream has a wanted length.
mod ratio;
/// The distance of neighbouring numbers of a 16-bit type at a chunk's larger values.
mod spacing;
/// The values of a chunk that count for its bound.
mod values;

use self::ladder::{Ladder, bound_of, settle_integer};
use self::ratio::{Sample, Search};
use self::spacing::Spacing;
use self::values::Range;
use crate::bound::padding::without_padding;
use crate::config::{Config, ErrorBound, PredictorPolicy, SettledBound, SettledConfig};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::number::dispatch::with_float;
use crate::quantize::decimal::divisor;
use crate::quantize::last_digit;
use crate::quantize::lattice;
pub use far::span_of;

/// The largest bound that can be settled, in the data's unit.
const LARGEST_BOUND: f64 = 1e300;

const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// Compresses one chunk with settled bounds, on the CPU or a GPU.
pub trait Compressor {
    /// A stream, in the memory of the CPU or of a GPU.
    type Output;
    /// The processor's type of errors.
    type Error: From<Error>;
    /// Compresses the chunk. May overwrite the streams that this compressor made before.
    ///
    /// # Errors
    /// Those of the processor.
    fn compress(&mut self, config: &SettledConfig) -> std::result::Result<Self::Output, Self::Error>;
    /// The last stream but one, which was made with `config`. A compressor that has overwritten this stream makes it again.
    ///
    /// # Errors
    /// Those of the processor.
    fn stream_before(&mut self, config: &SettledConfig) -> std::result::Result<Self::Output, Self::Error> {
        self.compress(config)
    }
    /// Length of a stream, in bytes.
    fn length(&self, output: &Self::Output) -> usize;
    /// Length, in bytes, of the stream that the CPU's codec makes of a sample of the chunk. The CPU makes the streams of samples for every processor, so that
    /// all of them search alike.
    ///
    /// # Errors
    /// Those of the codec.
    fn sample_len(&mut self, sample: &[u8], layout: &Layout, config: &SettledConfig) -> std::result::Result<usize, Self::Error>;
    /// Decompresses the stream that this compressor made last.
    ///
    /// # Errors
    /// Those of the processor.
    fn decompress(&mut self, output: &mut Self::Output, chunk: &mut [u8]) -> std::result::Result<(), Self::Error>;
}

/// A compressor's stream, or its error.
type Made<C> = std::result::Result<<C as Compressor>::Output, <C as Compressor>::Error>;

/// Settles the configuration's bound and compresses a chunk with it. Compresses the chunk again where a ratio or a PSNR is not reached, and with the exact bits
/// where the chunk does not shrink.
///
/// # Errors
/// Those of the compressor, `OutOfMemory`, and `InvalidArgument` for a bound that values of the type cannot have.
pub fn with_settled_bound<C: Compressor>(chunk: &[u8], layout: &Layout, config: &Config, compressor: &mut C) -> Made<C> {
    if let Some(settled) = settled(chunk, layout, config)? {
        let config = &settled.with_bound(config.bound);
        return Settling { chunk, layout, config, compressor }.compress(settled.bound);
    }
    let config = &Config { for_less_noise: true, ..config.with_span(far::span_of(chunk, layout, config)) };
    let mut settling = Settling { chunk, layout, config, compressor };
    match config.bound {
        ErrorBound::Psnr(decibels) => settling.with_psnr(decibels),
        ErrorBound::Ratio { ratio, ceiling } => settling.with_ratio(ratio, ceiling),
        ErrorBound::Absolute(_) | ErrorBound::Relative(_) | ErrorBound::PointwiseRelative(_) | ErrorBound::Lossless => {
            unreachable!("these are settled without a stream")
        }
    }
}

/// The configuration with the settled bound of a chunk, and with the span of its values that are not far. `None` if the bound can only be found by compressing
/// the chunk. If the bound's stream is longer than the chunk, the caller compresses the chunk again with [`SettledBound::Lossless`], as [`with_settled_bound`]
/// does.
///
/// # Errors
/// `OutOfMemory`, and `InvalidArgument` for a bound that values of the type cannot have.
pub fn settled<'a>(chunk: &[u8], layout: &Layout, config: &Config<'a>) -> Result<Option<SettledConfig<'a>>> {
    check(layout, config)?;
    let bound = match config.bound {
        ErrorBound::Absolute(bound) => SettledBound::Absolute(bound),
        ErrorBound::PointwiseRelative(share) => SettledBound::PointwiseRelative(share),
        ErrorBound::Lossless => SettledBound::Lossless,
        _ if layout.is_constant(chunk) => SettledBound::Lossless,
        ErrorBound::Relative(share) => return Ok(Some(relative(share, chunk, layout, config)?)),
        ErrorBound::Psnr(_) | ErrorBound::Ratio { .. } => return Ok(None),
    };
    Ok(Some(config.with_bound(bound)))
}

/// Checks that the configuration's bound is within its limits, and that values of the layout's type can have it.
///
/// # Errors
/// `InvalidArgument`.
pub fn check(layout: &Layout, config: &Config) -> Result<()> {
    config.bound.check()?;
    const WHOLE_IN_F64: f64 = 9_007_199_254_740_992.0; // 2^53
    let is_too_far = |threshold: &&f64| threshold.abs() >= WHOLE_IN_F64 && !layout.scalar.is_float();
    if let Some(threshold) = config.keep.thresholds().iter().find(is_too_far) {
        return Err(Error::invalid(format_args!(
            "the threshold {threshold:?} is 2^53 or more: integers are kept beside smaller ones"
        )));
    }
    match config.bound {
        ErrorBound::PointwiseRelative(_) if !layout.scalar.is_float() => Err(Error::invalid(format_args!(
            "a point-wise relative bound is for floating-point types, these are {:?}: give an absolute one, or one relative to the range",
            layout.scalar
        ))),
        ErrorBound::PointwiseRelative(_) | ErrorBound::Absolute(_) | ErrorBound::Relative(_) => Ok(()),
        ErrorBound::Psnr(_) | ErrorBound::Ratio { .. } | ErrorBound::Lossless => Ok(()),
    }
}

/// Settles a share of the range.
fn relative<'a>(share: f64, chunk: &[u8], layout: &Layout, config: &Config<'a>) -> Result<SettledConfig<'a>> {
    let (counted, layout) = without_padding(chunk, layout)?;
    let config = config.with_span(far::span_of(&counted, &layout, config));
    let range = Range::of(&counted, &layout, &config);
    Ok(config.with_bound(if layout.scalar.is_float() {
        Ladder::new(&counted, &layout, &config, range).settle(share * range.width())?
    } else {
        settle_integer(range.integer_share(share))
    }))
}

/// Whether the exact bits of a chunk are tried beside its settled bound, as they may take less space. On a lattice the bound's stream restores the exact bits
/// anyway.
#[must_use]
pub fn tries_exact_bits(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> bool {
    has_few_digits(chunk, layout, config) && !is_on_lattice(chunk, layout, config)
}

/// Whether a chunk's grid under an absolute bound is a lattice whose spacing is at least that of the type at the largest value. The exact bits have no fewer
/// digits than multiples of this spacing.
fn is_on_lattice(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> bool {
    let SettledBound::Absolute(bound) = config.bound else { return false };
    let order = layout.byte_order;
    with_float!(
        layout.scalar,
        V => lattice::spacing_of_type::<V>(chunk, order, 2.0 * bound, config.fills::<V>())
            .is_some_and(|spacing| divisor::exact_grid::<V>(chunk, order, Some(spacing)).is_none()),
        else false
    )
}

/// Whether the bound is below the last digit of most values.
fn has_few_digits(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> bool {
    matches!(config.predictor, PredictorPolicy::Auto | PredictorPolicy::Differences)
        && with_float!(layout.scalar, V => last_digit::is_above_bound::<V>(chunk, layout.byte_order, config), else false)
}

/// A chunk whose bound is being settled.
struct Settling<'a, C> {
    chunk: &'a [u8],
    layout: &'a Layout,
    config: &'a Config<'a>,
    compressor: &'a mut C,
}

impl<C: Compressor> Settling<'_, C> {
    fn compress(&mut self, bound: SettledBound) -> Made<C> {
        self.compress_as(self.config.predictor, bound)
    }

    /// Compresses with a settled bound, or with the exact bits where they take no more space.
    fn compress_as(&mut self, predictor: PredictorPolicy, bound: SettledBound) -> Made<C> {
        let config = self.beside_thresholds(Config { predictor, ..self.config.with_bound(bound) })?;
        let are_tried = tries_exact_bits(self.chunk, self.layout, &config);
        let Some(expected) = (if are_tried { self.length_of_exact_bits(&config)? } else { None }) else {
            let output = self.compressor.compress(&config)?;
            return self.or_exact_bits(output, &config, are_tried);
        };
        let exactly = self.config.with_bound(SettledBound::Lossless);
        let exact = self.compressor.compress(&exactly)?;
        let length = self.compressor.length(&exact);
        if length <= expected {
            return Ok(exact);
        }
        drop(exact);
        let output = self.compressor.compress(&config)?;
        if self.compressor.length(&output) < length {
            return Ok(output);
        }
        drop(output);
        self.compressor.stream_before(&exactly)
    }

    /// The configuration, on a grid with half the step if it has thresholds and a sample takes less space so. On the bound's own grid, values that would cross
    /// a threshold are exceptions. With half the step they have codes, but large differences take a bit more.
    fn beside_thresholds<'b>(&mut self, config: SettledConfig<'b>) -> std::result::Result<SettledConfig<'b>, C::Error> {
        let is_rounded = matches!(config.bound, SettledBound::Absolute(_)) && self.layout.scalar.is_float();
        if config.keep.thresholds().is_empty() || !is_rounded {
            return Ok(config);
        }
        let halved = Config { keep: config.keep.halved(), ..config };
        let sample = Sample::of(self.chunk, self.layout)?;
        let (bytes, layout) = sample.as_ref().map_or((self.chunk, self.layout), |sample| (sample.bytes, &sample.layout));
        let length = self.compressor.sample_len(bytes, layout, &config)?;
        Ok(if self.compressor.sample_len(bytes, layout, &halved)? < length { halved } else { config })
    }

    /// Compresses a sample with the settled bound and with the exact bits. If the exact bits take no more space, returns the greatest length that is expected
    /// of the chunk's exact bits. A chunk that is like its sample then needs no stream with the bound.
    fn length_of_exact_bits(&mut self, config: &SettledConfig) -> std::result::Result<Option<usize>, C::Error> {
        let Some(Sample { bytes, layout }) = Sample::of(self.chunk, self.layout)? else { return Ok(None) };
        let exact = self.compressor.sample_len(bytes, &layout, &self.config.with_bound(SettledBound::Lossless))?;
        let is_shorter = exact <= self.compressor.sample_len(bytes, &layout, config)?;
        const SLACK: f64 = 1.125;
        Ok(is_shorter.then_some((exact as f64 * SLACK * (self.chunk.len() as f64 / bytes.len() as f64)) as usize))
    }

    /// The last stream, `output`, which was made with `config`, or the stream of the exact bits. A bound below the data's own precision makes longer streams
    /// than the exact bits. So the exact bits replace a stream that is longer than the chunk. If they are tried anyway, the shorter stream stays.
    fn or_exact_bits(&mut self, output: C::Output, config: &SettledConfig, are_tried: bool) -> Made<C> {
        let length = self.compressor.length(&output);
        let is_longer_than_chunk = length > self.chunk.len();
        if config.bound == SettledBound::Lossless || !is_longer_than_chunk && !are_tried {
            return Ok(output);
        }
        drop(output);
        let exact = self.compressor.compress(&self.config.with_bound(SettledBound::Lossless))?;
        if is_longer_than_chunk || self.compressor.length(&exact) <= length {
            return Ok(exact);
        }
        drop(exact);
        self.compressor.stream_before(config)
    }

    /// Compresses with a ratio. Without a ceiling a ratio promises nothing of single values, so that its bounds need not be on the ladder.
    fn with_ratio(&mut self, ratio: f64, ceiling: Option<f64>) -> Made<C> {
        let (chunk, layout, config) = (self.chunk, self.layout, self.config);
        let range = Range::of(chunk, layout, config);
        if range.width() < f64::MIN_POSITIVE {
            return self.compress(SettledBound::Lossless);
        }
        // Values of few digits may have the ratio with their exact bits. Where the chunk has a sample, the sample must have the ratio first.
        const SMALLEST_DIGIT: f64 = 1.0 / 1_048_576.0; // 2^-20
        let digit = SettledBound::Absolute(range.magnitude() * SMALLEST_DIGIT);
        if has_few_digits(chunk, layout, &config.with_bound(digit)) {
            let exactly = &config.with_bound(SettledBound::Lossless);
            let has_ratio = |length: usize, of: &[u8]| length as f64 * ratio <= of.len() as f64;
            let is_promising = match Sample::of(chunk, layout)? {
                Some(Sample { bytes, layout }) => has_ratio(self.compressor.sample_len(bytes, &layout, exactly)?, bytes),
                None => true,
            };
            if is_promising {
                let exact = self.compress(SettledBound::Lossless)?;
                if has_ratio(self.compressor.length(&exact), chunk) {
                    return Ok(exact);
                }
            }
        }
        let ladder = Ladder::new(chunk, layout, config, range);
        let earlier = match ceiling {
            Some(ceiling) => ladder.earlier_step(ceiling.min(range.width()) / 1e9, 2.0 * ceiling)?,
            None => None,
        };
        let spacing = Spacing::of(chunk, layout, config);
        let settle = |bound: f64| match ceiling {
            None => round_down(bound, spacing),
            Some(ceiling) if layout.scalar.is_float() => ladder.settle_within(bound, ceiling, earlier),
            Some(ceiling) => settle_integer(bound.min(ceiling) as u64),
        };
        let search = Search::new(ratio, ceiling, range, layout, &settle);
        let on_sample = search.on_sample(chunk, layout, |sample, layout, bound| {
            self.compressor.sample_len(sample, layout, &config.with_bound(bound))
        })?;
        let start = on_sample.unwrap_or_else(|| search.start());
        let (output, config) = search.run(start, |bound| {
            let config = self.beside_thresholds(config.with_bound(bound))?;
            let output = self.compressor.compress(&config)?;
            let length = self.compressor.length(&output);
            Ok::<_, C::Error>(((output, config), length))
        })?;
        // The search tries no exact bits beside its bounds, as the chunk does not have the ratio with the exact bits.
        if search.is_too_long(self.compressor.length(&output)) {
            return self.or_exact_bits(output, &config, tries_exact_bits(chunk, layout, &config));
        }
        Ok(output)
    }
}

/// Bits of a bound's fraction in the search for a ratio. They leave 32 bounds per octave, so that the search soon repeats a bound and ends.
const FRACTION_BITS: u32 = 5;

/// Settles a bound that no later encoder has to recognise: cuts the bound's fraction, and rounds the step of 16-bit types down to a multiple of the spacing.
fn round_down(bound: f64, spacing: Option<Spacing>) -> SettledBound {
    let bound = f64::from_bits(bound.clamp(0.0, LARGEST_BOUND).to_bits() & !((1 << (MANTISSA_BITS - FRACTION_BITS)) - 1));
    bound_of(spacing.map_or(2.0 * bound, |spacing| spacing.below(2.0 * bound)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar, Shape};
    use crate::workspace::Workspace;

    /// The fields of a configuration are public: its bound need not have passed [`Config::new`].
    #[test]
    fn an_encoder_refuses_bounds_beyond_their_limits() {
        let values: Vec<u8> = (0..2000u32).flat_map(|index| (index.wrapping_mul(2_654_435_761) >> 3).to_le_bytes()).collect();
        let wrong = [0.0, -1.0, f64::NAN, f64::INFINITY].map(|number| {
            [
                ErrorBound::Absolute(number),
                ErrorBound::Relative(number),
                ErrorBound::PointwiseRelative(number),
                ErrorBound::Psnr(number),
                ErrorBound::Ratio { ratio: number, ceiling: None },
                ErrorBound::Ratio { ratio: 4.0, ceiling: Some(number) },
            ]
        });
        for bound in wrong.into_iter().flatten() {
            for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::I32] {
                let elements = (values.len() / scalar.size()) as u64;
                let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[elements]).unwrap() };
                let config = Config::new(ErrorBound::Lossless).unwrap().with_bound(bound);
                let error = Workspace::default().compress(&values, &layout, &config, &mut Vec::new()).unwrap_err();
                assert!(matches!(error, Error::InvalidArgument(_)), "{scalar} {bound:?}: {error}");
                assert_eq!(check(&layout, &config), Err(error));
            }
        }
    }

    #[test]
    fn steps_are_multiples_of_the_spacing_or_powers_of_two() {
        let spacing = Spacing(0.25);
        for (step, below) in
            [(0.25, 0.25), (0.49, 0.25), (0.5, 0.5), (1.99, 1.75), (1e5, 1e5), (0.2499, 0.125), (1e-9, 2f64.powi(-30))]
        {
            assert_eq!(spacing.below(step), below);
            assert_eq!(spacing.below(below), below, "a multiple stays");
        }
        assert_eq!(Spacing(2f64.powi(-133)).below(2f64.powi(129)), 2f64.powi(129));
        for nothing in [0.0, 5e-324] {
            assert_eq!(round_down(nothing, Some(spacing)), SettledBound::Lossless);
        }
    }
}
