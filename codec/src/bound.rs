//! What a bound that depends on the chunk comes to for it: the range's share, the bound that reaches a PSNR, or that which reaches a ratio.
//!
//! What is settled is an absolute bound, a point-wise relative one, or the exact bits, for which [`crate::grid::Grid`] has a grid. Nothing here
//! is part of the format, but both the CPU and a GPU call it, and its arithmetic is rounded alike everywhere: the same chunk and
//! configuration settle for the same bound on every machine.

use crate::config::{Config, ErrorBound, PredictorPolicy, is_absolute};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::grid::with_element;
use crate::integer::Integer as _;
use crate::layout::{ByteOrder, Layout, MAX_RANK, Scalar, Shape};
use crate::logarithm::{EXP_TERMS, LOG_TERMS, exp2, log2};
use crate::padding::without_padding;
use crate::quantize::ROUNDING;
use crate::simd::vectorized;
use crate::small_float::{BFloat16, Binary16};
use crate::workspace::Workspace;

/// Bits of a settled bound's fraction: the bound is at most 3 % below what was asked for, or up to a half for floating-point numbers of 16 bits ([`Spacing`]), and mostly
/// stays the same when HDF5 decodes a chunk, writes a part of it and encodes it again, where its range may be another by a rounding. Values on its grid are not
/// moved then.
const FRACTION_BITS: u32 = 5;

/// A ratio is reached if the stream's length is off by no more than this share.
const TOLERANCE: f64 = 0.03;
/// Most attempts to reach a ratio with the whole chunk, and with a sample of it.
const ATTEMPTS: usize = 8;
/// Chunks of so many values have a sample, of an eighth of them.
const SAMPLED_FROM: u64 = 1 << 16;
const SAMPLE: u64 = 8;
/// Most values that a PSNR is estimated from.
const PSNR_SAMPLE: usize = 1 << 16;
/// Values that are looked at together.
const GROUP: usize = 64;

/// Compresses a chunk with the bound that the configuration's comes to. `compress` is called with a settled bound, and again where a ratio is not
/// reached, or where a chunk does not shrink and is to be tried as exact bits; `length` says how many bytes came of it.
///
/// # Errors
/// Those of `compress`, and `InvalidArgument` for a bound that values of the type cannot have.
pub fn with_settled_bound<R, E: From<Error>>(
    chunk: &[u8],
    layout: &Layout,
    config: &Config,
    mut compress: impl FnMut(&Config) -> std::result::Result<R, E>,
    length: impl Fn(&R) -> usize,
) -> std::result::Result<R, E> {
    check(layout, config)?;
    // Bounds below the data's own precision leave chunks that do not shrink; their exact bits may.
    let mut compress_as = |predictor: PredictorPolicy, bound: ErrorBound| {
        let result = compress(&Config { predictor, ..config.with_bound(bound) })?;
        if bound == ErrorBound::Lossless || length(&result) <= chunk.len() {
            return Ok(result);
        }
        drop(result);
        compress(&config.with_bound(ErrorBound::Lossless))
    };
    let mut compress = |bound: ErrorBound| compress_as(config.predictor, bound);
    match config.bound {
        bound @ (ErrorBound::Absolute(_) | ErrorBound::PointwiseRelative(_) | ErrorBound::Lossless) => compress(bound),
        _ if layout.is_constant(chunk) => compress(ErrorBound::Lossless),
        ErrorBound::Relative(share) => {
            let (counted, counted_layout) = without_padding(chunk, layout)?;
            let bound = share * range_of(&counted, &counted_layout, config);
            compress(absolute(bound, Spacing::of(&counted, &counted_layout, config)))
        }
        ErrorBound::Psnr(decibels) => {
            let (counted, counted_layout) = without_padding(chunk, layout)?;
            let (bound, wider) = bounds_for_psnr(decibels, &counted, &counted_layout, config);
            drop(counted);
            let result = compress(bound)?;
            let Some(wider) = wider else { return Ok(result) };
            let as_asked = length(&result);
            drop(result);
            let wider = compress_as(PredictorPolicy::Differences, wider)?;
            if length(&wider) < as_asked {
                return Ok(wider);
            }
            drop(wider);
            compress_as(config.predictor, bound)
        }
        ErrorBound::Ratio { ratio, ceiling } => {
            let range = range_of(chunk, layout, config);
            let spacing = Spacing::of(chunk, layout, config);
            let search = Search::new(ratio, ceiling, range, spacing, layout);
            let start = search.on_sample(chunk, layout, config)?.unwrap_or_else(|| search.start());
            search.run(start, &mut compress, &length)
        }
    }
}

/// Whether values of a type can have a bound.
///
/// # Errors
/// `InvalidArgument`.
pub fn check(layout: &Layout, config: &Config) -> Result<()> {
    match config.bound {
        ErrorBound::PointwiseRelative(_) if !layout.scalar.is_float() => Err(Error::invalid(format_args!(
            "a point-wise relative bound is for floating-point types, these are {:?}: give an absolute one, or one relative to the range",
            layout.scalar
        ))),
        _ => Ok(()),
    }
}

/// Settles a bound that was found for a chunk.
fn absolute(bound: f64, spacing: Option<Spacing>) -> ErrorBound {
    const LARGEST: f64 = 1e300;
    let bound = f64::from_bits(bound.clamp(0.0, LARGEST).to_bits() & !((1 << (MANTISSA_BITS - FRACTION_BITS)) - 1));
    let bound = spacing.map_or(bound, |spacing| spacing.below(2.0 * bound) / 2.0);
    if is_absolute(bound) { ErrorBound::Absolute(bound) } else { ErrorBound::Lossless }
}

const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// How far neighbouring numbers of 16 bits lie apart among the larger ones of a chunk, a power of two. On a grid of steps that are no multiples of it, values round once
/// more when they are restored, and many miss the bound. Over 40 arrays as binary16 and bfloat16 at shares of 3e-2 to 3e-4 of the range, streams with steps that are
/// such multiples are 0.90 to 0.96 times as long (geometric means by type and share; of one array from 0.38 to 1.29 times, the longest where the step shrinks most).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spacing(f64);

impl Spacing {
    /// One of so many values is a larger one. A 64th of them is worth the same, a half costs up to 3 %, and the largest one alone may be an outlier (1.45 times the
    /// length of one array's stream).
    const LARGER: u64 = 16;

    /// That of a chunk's values, or `None` for types of more bits and where all values are 0 or do not count.
    fn of(chunk: &[u8], layout: &Layout, config: &Config) -> Option<Self> {
        match layout.scalar {
            Scalar::F16 => Self::of_values::<Binary16>(chunk, layout.byte_order, config, Binary16::MANTISSA),
            Scalar::BF16 => Self::of_values::<BFloat16>(chunk, layout.byte_order, config, BFloat16::MANTISSA),
            _ => None,
        }
    }

    fn of_values<V: Element>(chunk: &[u8], order: ByteOrder, config: &Config, mantissa_bits: u32) -> Option<Self> {
        // Four counters for an exponent: equal neighbours do not wait for each other.
        let mut counts = [[0u64; 4]; 1 << 8];
        let fill = config.fill::<V>().map(Element::to_bits_i64);
        for index in 0..chunk.len() / V::SIZE {
            let value = V::read(chunk, index, order);
            let bits = value.to_bits_i64();
            let magnitude = bits as u16 & (u16::MAX >> 1);
            if magnitude > 0 && Some(bits) != fill {
                counts[usize::from(magnitude >> mantissa_bits)][index % 4] += 1;
            }
        }
        // Infinities and NaN have the highest exponent.
        let exponents = &counts[..(1 << (15 - mantissa_bits)) - 1];
        let all = exponents.as_flattened().iter().sum::<u64>();
        let mut larger = 0;
        let exponent = (0..exponents.len()).rev().find(|&exponent| {
            larger += exponents[exponent].iter().sum::<u64>();
            larger > 0 && larger * Self::LARGER >= all
        })?;
        let number = |bits: usize| V::from_bits(V::Code::from_i64(bits as i64)).approximate();
        let first = exponent << mantissa_bits;
        Some(Self(number(first + 1) - number(first)))
    }

    /// The greatest multiple up to a step or, if there is none, the greatest power of two, on which the smaller values can stand: bfloat16 at 1e-3 and 3e-4 of
    /// the range is 0.92 and 0.95 times as long by that, where it would be 0.98 and 1.00.
    fn below(self, step: f64) -> f64 {
        let multiples = (step / self.0).floor();
        if multiples >= 1.0 { multiples * self.0 } else { f64::from_bits(step.to_bits() >> MANTISSA_BITS << MANTISSA_BITS) }
    }
}

/// How far the finite values of a chunk but the fill value lie apart; 0 without values.
fn range_of(chunk: &[u8], layout: &Layout, config: &Config) -> f64 {
    let (mut least, mut greatest) = ([f64::INFINITY; 8], [f64::NEG_INFINITY; 8]);
    with_element!(layout.scalar, V => vectorized(
        #[inline(always)]
        || for_each_group::<V>(chunk, layout.byte_order, config, 1, #[inline(always)] |values| {
            for eight in values.as_chunks::<8>().0 {
                for ((least, greatest), &value) in least.iter_mut().zip(&mut greatest).zip(eight) {
                    *least = if value < *least { value } else { *least };
                    *greatest = if value > *greatest { value } else { *greatest };
                }
            }
        })
    ));
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    let greatest = greatest.into_iter().fold(f64::NEG_INFINITY, f64::max);
    if least <= greatest { (greatest - least).min(f64::MAX) } else { 0.0 }
}

/// A number that counts, or NaN.
#[inline(always)]
fn finite(value: f64) -> f64 {
    if value.abs() <= f64::MAX { value } else { f64::NAN }
}

/// Hands every `stride`-th group of a chunk's values to `look`. NaN stands for those that do not count: what is not finite, the fill value, and what fills
/// up the last group.
#[inline(always)]
fn for_each_group<V: Element>(
    chunk: &[u8],
    order: ByteOrder,
    config: &Config,
    stride: usize,
    mut look: impl FnMut(&[f64; GROUP]),
) {
    let fill = config.fill::<V>().map(Element::to_bits_i64);
    for bytes in chunk.chunks(GROUP * V::SIZE).step_by(stride) {
        let mut group = [V::default(); GROUP];
        V::read_all(bytes, order, &mut group);
        let mut values = match fill {
            None => group.map(
                #[inline(always)]
                |value| finite(value.approximate()),
            ),
            Some(fill) => group.map(
                #[inline(always)]
                |value| if value.to_bits_i64() == fill { f64::NAN } else { finite(value.approximate()) },
            ),
        };
        values[bytes.len() / V::SIZE..].fill(f64::NAN);
        look(&values);
    }
}

/// The largest bound whose rounding leaves a chunk no more noise than a PSNR allows, however it is predicted, and a wider one, if there is one that does
/// where differences are coded.
///
/// Errors that are spread evenly, as interpolation spreads them, have a mean square of a third of the bound's. Where values gather between the points of the grid of
/// differences, the bound must be smaller: at the square root of the allowed mean square, no values are too far off. Where most are on that grid
/// anyway, zeros above all, differences can have a wider one.
fn bounds_for_psnr(decibels: f64, chunk: &[u8], layout: &Layout, config: &Config) -> (ErrorBound, Option<ErrorBound>) {
    const QUARTER_OF_A_BIT: f64 = 1.189_207_115_002_721; // 2^(1/4)
    const EIGHTH_OF_A_BIT: f64 = 1.090_507_732_665_257_7; // 2^(1/8)
    const STEPS: usize = 16;
    let range = range_of(chunk, layout, config);
    // A tenth of log2 10 for each decibel.
    let share = exp2(-decibels * 0.332_192_809_488_736_23, EXP_TERMS.len());
    let noise = range * share.sqrt();
    // Odd, so that the groups of a sample do not stand in columns.
    let stride = (layout.shape.elements() as usize).div_ceil(PSNR_SAMPLE) | 1;
    // Whole numbers with a bound of e have steps of 2 e + 1, not 2 e.
    let spacing = Spacing::of(chunk, layout, config);
    let settled = |bound: f64| absolute(if layout.scalar.is_float() { bound } else { bound - 0.5 }, spacing);
    let is_quiet_in = |stride: usize, bound: f64| {
        let half_step = match settled(bound) {
            ErrorBound::Absolute(bound) if layout.scalar.is_float() => bound,
            ErrorBound::Absolute(bound) if bound >= 1.0 => bound.floor() + 0.5,
            _ => return true,
        };
        let allowed = noise / (2.0 * half_step);
        mean_square(half_step, chunk, layout, config, stride) <= allowed * allowed
    };
    let is_quiet = |bound: f64| is_quiet_in(stride, bound);
    let (mut least, mut most) = (noise, noise * 16.0);
    let even = noise * 1.732_050_807_568_877_2;
    let mut bound = even;
    // Sixteen quarters of a bit lead to the greatest bound from the least, and a few less from here.
    if is_quiet(bound) {
        for _ in 0..STEPS {
            least = bound;
            bound *= QUARTER_OF_A_BIT;
            if bound >= most || !is_quiet(bound) {
                most = most.min(bound);
                break;
            }
        }
    } else {
        for _ in 0..STEPS {
            most = bound;
            bound /= QUARTER_OF_A_BIT;
            if bound <= least || is_quiet(bound) {
                least = least.max(bound);
                break;
            }
        }
    }
    for _ in 0..3 {
        let middle = least + (most - least) / 2.0;
        if is_quiet(middle) {
            least = middle;
        } else {
            most = middle;
        }
    }
    // What the sample has said is checked with all values.
    for _ in 0..2 * STEPS {
        if stride == 1 || least <= noise || is_quiet_in(1, least) {
            break;
        }
        least = (least / EIGHTH_OF_A_BIT).max(noise);
    }
    match (settled(even), settled(least)) {
        (even_spread, wider) if least > even && wider != even_spread => (even_spread, Some(wider)),
        (_, bound) => (bound, None),
    }
}

/// Mean square, in steps, of what a bound's grid takes off the values of every `stride`-th group.
fn mean_square(bound: f64, chunk: &[u8], layout: &Layout, config: &Config, stride: usize) -> f64 {
    let inverse_step = 1.0 / (2.0 * bound);
    let (mut sums, mut counts) = ([0.0; 8], [0u64; 8]);
    with_element!(layout.scalar, V => vectorized(
        #[inline(always)]
        || for_each_group::<V>(chunk, layout.byte_order, config, stride, #[inline(always)] |values| {
            for eight in values.as_chunks::<8>().0 {
                for ((sum, count), &value) in sums.iter_mut().zip(&mut counts).zip(eight) {
                    let scaled = value * inverse_step;
                    let error = scaled - (scaled + ROUNDING - ROUNDING);
                    // Values beyond the reach of the rounding are exceptions.
                    *sum += if error.abs() <= 0.5 { error * error } else { 0.0 };
                    *count += u64::from(!value.is_nan());
                }
            }
        })
    ));
    sums.iter().sum::<f64>() / counts.iter().sum::<u64>().max(1) as f64
}

/// The search for the bound that gives a stream a length.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// log2 of the length to reach.
    wanted: f64,
    values: f64,
    /// log2 of the least bound, below which the exact bits are as good, and of the greatest.
    least: f64,
    greatest: f64,
    spacing: Option<Spacing>,
}

/// Bounds between which the right one lies, as log2, with log2 of the lengths that they give.
#[derive(Debug, Clone, Copy, Default)]
struct Bracket {
    too_long: Option<(f64, f64)>,
    too_short: Option<(f64, f64)>,
    /// The one that was tried last.
    last: Option<(f64, f64)>,
}

/// Bounds that were tried, and the lengths of their streams: where steps are few, more than one way leads to a bound.
#[derive(Debug, Default)]
struct Tried {
    found: [Option<(ErrorBound, usize)>; ATTEMPTS],
    count: usize,
}

impl Tried {
    fn length(&self, bound: ErrorBound) -> Option<usize> {
        self.found.iter().flatten().find(|(tried, _)| *tried == bound).map(|&(_, length)| length)
    }

    fn add(&mut self, bound: ErrorBound, length: usize) {
        self.found[self.count] = Some((bound, length));
        self.count += 1;
    }
}

impl Search {
    fn new(ratio: f64, ceiling: Option<f64>, range: f64, spacing: Option<Spacing>, layout: &Layout) -> Self {
        // Beyond half the range there is nothing to gain, and below the type's own precision nothing to lose.
        let digits =
            if layout.scalar.is_float() { [10.0, 17.0, 25.0, 54.0][layout.scalar.size().ilog2() as usize] } else { 65.0 };
        let range = range.clamp(f64::MIN_POSITIVE, 1e300);
        let greatest = log2(range.min(ceiling.unwrap_or(range)).max(f64::MIN_POSITIVE), LOG_TERMS.len());
        let bytes = layout.chunk_bytes() as f64;
        Self {
            wanted: log2(bytes / ratio, LOG_TERMS.len()),
            values: layout.shape.elements() as f64,
            least: (log2(range, LOG_TERMS.len()) - digits).min(greatest),
            greatest,
            spacing,
        }
    }

    /// Where to begin if nothing is known.
    fn start(&self) -> f64 {
        (self.least.max(self.greatest - 10.0)).min(self.greatest)
    }

    fn bound(&self, logarithm: f64) -> ErrorBound {
        if logarithm <= self.least && self.least < self.greatest {
            ErrorBound::Lossless
        } else {
            absolute(exp2(logarithm, EXP_TERMS.len()), self.spacing)
        }
    }

    /// The bound that gives a sample of the chunk its share of the length, as log2; `None` if there is no sample, or none is better than another.
    ///
    /// # Errors
    /// `OutOfMemory`: the search would begin elsewhere without the sample, and the stream be another.
    fn on_sample(&self, chunk: &[u8], layout: &Layout, config: &Config) -> Result<Option<f64>> {
        let dims = layout.shape.dims();
        if layout.shape.elements() < SAMPLED_FROM || dims[0] < SAMPLE {
            return Ok(None);
        }
        let mut sample_dims = [1; MAX_RANK];
        let sample_dims = &mut sample_dims[..dims.len()];
        sample_dims.copy_from_slice(dims);
        sample_dims[0] = dims[0] / SAMPLE;
        let sample_layout = Layout { shape: Shape::new(sample_dims)?, ..*layout };
        let row = layout.chunk_bytes() as usize / dims[0] as usize;
        let first = (dims[0] - sample_dims[0]) as usize / 2 * row;
        let sample = &chunk[first..first + sample_layout.chunk_bytes() as usize];
        let share = sample_dims[0] as f64 / dims[0] as f64;
        let search = Self { wanted: self.wanted + log2(share, LOG_TERMS.len()), values: self.values * share, ..*self };
        let (mut workspace, mut stream) = (Workspace::default(), Vec::new());
        let (mut at, mut bracket, mut tried) = (search.start(), Bracket::default(), Tried::default());
        for _ in 0..ATTEMPTS {
            let bound = search.bound(at);
            if tried.length(bound).is_none() {
                match workspace.compress(sample, &sample_layout, &config.with_bound(bound), &mut stream) {
                    Err(error @ Error::OutOfMemory { .. }) => return Err(error),
                    Err(_) => return Ok(None),
                    Ok(()) => {}
                }
                tried.add(bound, stream.len());
            }
            let length = tried.length(bound);
            let Some(next) = length.and_then(|length| search.next(at, length, &mut bracket)) else { return Ok(None) };
            if (next - at).abs() < 0.05 {
                return Ok(Some(next));
            }
            at = next;
        }
        Ok(Some(at))
    }

    /// Where to try next; `None` if the length is reached, or cannot be.
    fn next(&self, at: f64, length: usize, bracket: &mut Bracket) -> Option<f64> {
        let found = log2(length as f64, LOG_TERMS.len());
        let off = found - self.wanted;
        if off.abs() <= log2(1.0 + TOLERANCE, LOG_TERMS.len()) {
            return None;
        }
        if off > 0.0 {
            bracket.too_long = Some((at, off))
        } else {
            bracket.too_short = Some((at, off))
        }
        let last = bracket.last.replace((at, off));
        let next = match (bracket.too_long, bracket.too_short) {
            (Some((low, above)), Some((high, below))) => {
                // Straight between the two, but never so close to either that the bracket hardly shrinks.
                let share = (above / (above - below)).clamp(0.1, 0.9);
                low + (high - low) * share
            }
            // A bit a value less for each doubling of the bound (CEAZ: Zhang et al., ICS'22, section 4.3); once there are two lengths, what they say of it, and a
            // little beyond, so that the right bound lies between the two.
            _ => {
                let bits = 8.0 * (length as f64 - exp2(self.wanted, EXP_TERMS.len())) / self.values;
                let by_last = last.map(|(last_at, last_off)| 1.2 * off * (at - last_at) / (last_off - off));
                let doublings = by_last.filter(|step| step.is_finite() && step * off > 0.0).unwrap_or(bits).abs().clamp(0.5, 6.0);
                at + if off > 0.0 { doublings } else { -doublings }
            }
        };
        let next = next.clamp(self.least, self.greatest);
        ((next - at).abs() > 0.01).then_some(next)
    }

    fn run<R, E>(
        &self,
        start: f64,
        mut compress: impl FnMut(ErrorBound) -> std::result::Result<R, E>,
        length: impl Fn(&R) -> usize,
    ) -> std::result::Result<R, E> {
        let (mut at, mut bracket, mut tried) = (start, Bracket::default(), Tried::default());
        let mut best = (f64::INFINITY, start);
        for _ in 0..ATTEMPTS {
            let bound = self.bound(at);
            let (length, result) = match tried.length(bound) {
                Some(length) => (length, None),
                None => {
                    let result = compress(bound)?;
                    tried.add(bound, length(&result));
                    (length(&result), Some(result))
                }
            };
            let off = (log2(length as f64, LOG_TERMS.len()) - self.wanted).abs();
            if off < best.0 {
                best = (off, at);
            }
            match (self.next(at, length, &mut bracket), result) {
                (Some(next), _) => at = next,
                (None, Some(result)) if best.1 == at => return Ok(result),
                (None, _) => break,
            }
        }
        compress(self.bound(best.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_is_that_of_the_larger_values() {
        let spacing = |scalar, bits: &[u16], fill: Option<u16>| {
            let layout = Layout { scalar, byte_order: ByteOrder::Big, shape: Shape::new(&[bits.len() as u64]).unwrap() };
            let config = Config { fill_value: fill.map(u64::from), ..Config::new(ErrorBound::Relative(0.1)).unwrap() };
            let chunk: Vec<u8> = bits.iter().flat_map(|bits| bits.to_be_bytes()).collect();
            Spacing::of(&chunk, &layout, &config).map(|spacing| spacing.0)
        };
        // 1 and -2048, the latter once, then in one of 16 values.
        let mut values = [0x3c00; 32];
        values[3] = 0xe800;
        assert_eq!(spacing(Scalar::F16, &values, None), Some(2f64.powi(-10)));
        values[4] = 0xe800;
        assert_eq!(spacing(Scalar::F16, &values, None), Some(2.0));
        assert_eq!(spacing(Scalar::F16, &values, Some(0xe800)), Some(2f64.powi(-10)));
        assert_eq!(spacing(Scalar::F16, &values, Some(0x6800)), Some(2.0));
        // Zeros of both signs, infinity and NaN do not count; the least numbers are as far apart as the least normal ones.
        assert_eq!(spacing(Scalar::F16, &[0, 0x8000, 0x7c00, 0xfe00], None), None);
        assert_eq!(spacing(Scalar::F16, &[0, 0x8000, 0x7c00, 0xfe00, 0x8001], None), Some(2f64.powi(-24)));
        assert_eq!(spacing(Scalar::F16, &[0x0400], None), Some(2f64.powi(-24)));
        assert_eq!(spacing(Scalar::F16, &[0x7bff], None), Some(32.0));
        assert_eq!(spacing(Scalar::BF16, &[0x3f80, 0, 0x7f80], None), Some(2f64.powi(-7)));
        assert_eq!(spacing(Scalar::BF16, &[1], None), Some(2f64.powi(-133)));
        assert_eq!(spacing(Scalar::I16, &[1000, 7], None), None);
    }

    #[test]
    fn steps_are_multiples_of_the_spacing_or_powers_of_two() {
        let spacing = Spacing(0.25);
        for (step, below) in
            [(0.25, 0.25), (0.49, 0.25), (0.5, 0.5), (1.99, 1.75), (1e5, 1e5), (0.2499, 0.125), (1e-9, 2f64.powi(-30))]
        {
            assert_eq!(spacing.below(step), below);
            assert_eq!(spacing.below(below), below, "a second time changes nothing");
        }
        assert_eq!(Spacing(2f64.powi(-133)).below(2f64.powi(129)), 2f64.powi(129));
        for nothing in [0.0, 5e-324] {
            assert_eq!(absolute(nothing, Some(spacing)), ErrorBound::Lossless);
        }
    }
}
