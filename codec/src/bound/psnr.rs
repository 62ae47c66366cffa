//! The bounds that reach a PSNR.

use super::values::{Groups, Range, count_of, noise_of_decoded, noise_of_steps};
use super::{Compressor, Ladder, Settling};
use crate::bound::padding::without_padding;
use crate::config::{Config, ErrorBound, PredictorPolicy};
use crate::layout::Layout;
use crate::memory::resize;
use crate::number::dispatch::with_element;
use crate::number::rounding::ROUNDING;
use crate::quantize::logarithm::{EXP_TERMS, exp2};
use crate::simd::vectorized;

/// Most values that noise is estimated from.
const SAMPLE: usize = 1 << 16;
/// Noise that is accepted beyond the allowed mean square: a twentieth of a decibel.
const ACCEPTED: f64 = 1.011_579_454_259_899; // 10^0.005
/// Attempts, each with a smaller bound, before the exact bits are taken.
const ATTEMPTS: usize = 6;

impl<C: Compressor> Settling<'_, C> {
    /// Compresses a chunk with a PSNR. Errors that are spread evenly have a mean square of a third of the bound's. What a stream really leaves is measured on the decoded
    /// chunk, as values gather between the points of a grid, are rounded to their type, or are exact.
    pub(super) fn with_psnr(&mut self, decibels: f64) -> Result<C::Output, C::Error> {
        let (chunk, layout, config) = (self.chunk, self.layout, self.config);
        let (counted, counted_layout) = without_padding(chunk, layout)?;
        let range = Range::of(&counted, &counted_layout, config);
        // A tenth of log2 10 for each decibel.
        let share = exp2(-decibels * 0.332_192_809_488_736_23, EXP_TERMS.len());
        let noise = range.width() * share.sqrt();
        if !layout.scalar.is_float() {
            let bound = whole_bound(noise * noise, &counted, &counted_layout, config);
            return self.compress(bound);
        }
        let ladder = Ladder::new(&counted, &counted_layout, config, range);
        let even = noise * 1.732_050_807_568_877_2;
        let modelled = bound_by_model(noise, &counted, &counted_layout, config);
        let count = count_of(&counted, &counted_layout, config);
        let mut goal = Goal { ladder: &ladder, noise, count, decoded: Vec::new() };
        let asked = self.reach(&mut goal, even.min(modelled), config.predictor)?;
        // Where most values are on the grid anyway, zeros above all, differences can have a wider one. Values that were rounded before look so, too.
        if modelled <= even * 1.05 || ladder.may_have_earlier_values(even)? {
            return Ok(asked);
        }
        let length = self.compressor.length(&asked);
        drop(asked);
        let wider = self.reach(&mut goal, modelled, PredictorPolicy::Differences)?;
        if self.compressor.length(&wider) < length {
            return Ok(wider);
        }
        drop(wider);
        self.reach(&mut goal, even.min(modelled), config.predictor)
    }

    /// Compresses with the largest bound from `bound` down that leaves no more noise than is allowed.
    fn reach(&mut self, goal: &mut Goal<'_>, mut bound: f64, predictor: PredictorPolicy) -> Result<C::Output, C::Error> {
        for _ in 0..ATTEMPTS {
            let settled = goal.ladder.settle(bound)?;
            let mut output = self.compress_as(predictor, settled)?;
            let ErrorBound::Absolute(taken) = settled else { return Ok(output) };
            resize(&mut goal.decoded, self.chunk.len())?;
            self.compressor.decompress(&mut output, &mut goal.decoded)?;
            let noise = noise_of_decoded(self.chunk, &goal.decoded, self.layout, self.config, goal.count, goal.noise);
            if noise <= ACCEPTED {
                return Ok(output);
            }
            drop(output);
            // A little less than what would do if noise grew with the bound's square.
            bound = taken.min(bound) * noise.sqrt().recip().clamp(0.25, 0.98) * 0.98;
        }
        self.compress_as(predictor, ErrorBound::Lossless)
    }
}

/// The noise that a chunk may have.
struct Goal<'a> {
    ladder: &'a Ladder<'a>,
    /// Square root of the mean square of errors.
    noise: f64,
    /// Values that count.
    count: u64,
    decoded: Vec<u8>,
}

/// The largest bound of integers whose steps leave no more than a mean square: if errors are spread evenly, as those are that earlier steps have left, and of these
/// values, together with what steps of a third may have left before.
fn whole_bound(allowed: f64, chunk: &[u8], layout: &Layout, config: &Config) -> ErrorBound {
    let widest = (12.0 * allowed + 1.0).sqrt();
    let mut settled = super::ladder::settle_whole(((widest - 1.0) / 2.0).min(1e18) as u64);
    while let ErrorBound::Absolute(bound) = settled {
        let third = (2.0 * bound + 1.0) / 3.0;
        if noise_of_steps(bound as u64, chunk, layout, config) + (third * third - 1.0) / 12.0 <= allowed {
            break;
        }
        settled = super::ladder::settle_whole((bound as u64 - 1) / 3);
    }
    settled
}

/// The largest of some bounds whose grid of differences leaves values no more than `noise` off, in the square root of the mean square; at least `noise`.
fn bound_by_model(noise: f64, chunk: &[u8], layout: &Layout, config: &Config) -> f64 {
    const QUARTER_OF_A_BIT: f64 = 1.189_207_115_002_721; // 2^(1/4)
    const EIGHTH_OF_A_BIT: f64 = 1.090_507_732_665_257_7; // 2^(1/8)
    const STEPS: usize = 16;
    // Odd, so that the groups of a sample are not all in the same columns.
    let stride = (layout.shape.elements() as usize).div_ceil(SAMPLE) | 1;
    let is_quiet_in = |stride: usize, bound: f64| {
        let allowed = noise / (2.0 * bound);
        mean_square(bound, chunk, layout, config, stride) <= allowed * allowed
    };
    let is_quiet = |bound: f64| is_quiet_in(stride, bound);
    let (mut least, mut most) = (noise, noise * 16.0);
    let mut bound = noise * 1.732_050_807_568_877_2;
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
    least
}

/// Mean square, in steps, of what a bound's grid takes off the values of every `stride`-th group.
fn mean_square(bound: f64, chunk: &[u8], layout: &Layout, config: &Config, stride: usize) -> f64 {
    let inverse_step = 1.0 / (2.0 * bound);
    let (mut sums, mut counts) = ([0.0; 8], [0u64; 8]);
    with_element!(layout.scalar, V => vectorized(
        #[inline(always)]
        || Groups::<V>::new(chunk, layout.byte_order, config).for_each(stride, #[inline(always)] |values| {
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
