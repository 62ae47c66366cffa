//! Settles the bound that reaches a PSNR (FORMAT.md §11.2). Noise is the root mean square of the errors of the values that count.

use super::ladder::{MOST_WIDENING, Rounded, settle_integer};
use super::values::{Groups, Range, count_of, noise_of_decoded, noise_of_steps};
use super::{Compressor, Ladder, Settling};
use crate::bound::padding::without_padding;
use crate::config::{Config, PredictorPolicy, SettledBound};
use crate::layout::Layout;
use crate::memory::resize;
use crate::number::dispatch::with_element;
use crate::number::rounding::ROUNDING;
use crate::quantize::logarithm::{EXP_TERMS, exp2};
use crate::simd::widely_vectorized;

/// Largest number of values, about, from which noise is estimated.
const MAX_SAMPLE_VALUES: usize = 1 << 16;
/// Largest accepted mean square of errors, as a multiple of the allowed one: 0.05 dB more.
const ACCEPTED_MEAN_SQUARE: f64 = 1.011_579_454_259_899; // 10^0.005
/// Largest error over root mean square of errors that are spread evenly: the square root of 3.
const BOUND_TO_NOISE: f64 = 1.732_050_807_568_877_2;
/// Largest accepted mean square of new values in a chunk that was rounded with a wider bound before: 0.5 dB more.
const ACCEPTED_OF_NEW_VALUES: f64 = 1.122_018_454_301_963_3; // 10^0.05
/// A wider bound is tried if the mean square of errors is below this share of the allowed one: 1 dB less.
const ENOUGH_MEAN_SQUARE: f64 = 0.794_328_234_724_281_5; // 10^-0.1
/// The widest bound that is tried, as a multiple of the allowed noise.
const WIDEST: f64 = 16.0;
/// Number of attempts, each with another bound, before the exact bits are taken.
const MAX_ATTEMPTS: usize = 6;

impl<C: Compressor> Settling<'_, C> {
    /// Compresses a chunk with a PSNR, in dB. The mean square of evenly spread errors is a third of the bound's square. But errors are often not spread evenly:
    /// values gather between the grid's numbers, are rounded to their type, or are exact. So the noise is measured on the decoded chunk.
    pub(super) fn with_psnr(&mut self, decibels: f64) -> Result<C::Output, C::Error> {
        let (chunk, layout, config) = (self.chunk, self.layout, self.config);
        let (counted, counted_layout) = without_padding(chunk, layout)?;
        let range = Range::of(&counted, &counted_layout, config);
        // The allowed mean square as a share of the squared range: 10^(-dB / 10) = 2^(-dB log2(10) / 10).
        const BITS_PER_DECIBEL: f64 = 0.332_192_809_488_736_23; // log2(10) / 10
        let share = exp2(-decibels * BITS_PER_DECIBEL, EXP_TERMS.len());
        let noise = range.width() * share.sqrt();
        if !layout.scalar.is_float() {
            let bound = integer_bound(noise * noise, &counted, &counted_layout, config);
            return self.compress(bound);
        }
        let ladder = Ladder::new(&counted, &counted_layout, config, range);
        let even = noise * BOUND_TO_NOISE;
        let modelled = bound_by_model(noise, &counted, &counted_layout, config);
        let count = count_of(&counted, &counted_layout, config);
        let mut goal = Goal { ladder: &ladder, noise, count, decoded: Vec::new() };
        let asked = self.reach(&mut goal, even.min(modelled), config.predictor)?;
        // Where many values have no error, as zeros have none, a wider grid leaves the allowed noise. The wider grid is tried with differences. Values that
        // were rounded before have no error either, but only on their earlier grid. Where there may be such values, no wider grid is tried.
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

    /// Compresses with `bound`, then with smaller bounds until the noise is allowed, or with wider bounds as long as the noise is allowed. Errors of
    /// interpolation are often smaller than evenly spread ones.
    fn reach(&mut self, goal: &mut Goal<'_>, mut bound: f64, predictor: PredictorPolicy) -> Result<C::Output, C::Error> {
        let (widest, mut reached) = ((bound * MOST_WIDENING).min(WIDEST * goal.noise), None);
        let (mut settled, mut rounded) = goal.ladder.settle_for_noise(bound)?;
        for _ in 0..MAX_ATTEMPTS {
            let mut output = self.compress_as(predictor, settled)?;
            let SettledBound::Absolute(taken) = settled else { return Ok(output) };
            resize(&mut goal.decoded, self.chunk.len())?;
            self.compressor.decompress(&mut output, &mut goal.decoded)?;
            let (squares, changed) = noise_of_decoded(self.chunk, &goal.decoded, self.layout, self.config, goal.noise);
            if rounded == Rounded::ToWider {
                // Values that an earlier write rounded have no error now. They had one then, as new values have.
                if squares <= ACCEPTED_OF_NEW_VALUES * changed as f64 {
                    return Ok(output);
                }
                break;
            }
            let mean_square = squares / goal.count.max(1) as f64;
            // The mean square is about proportional to the bound's square. The next bound is the one that follows from this, less 2 %.
            let to_allowed = mean_square.sqrt().recip() * 0.98;
            if mean_square > ACCEPTED_MEAN_SQUARE {
                if reached.is_some() {
                    break;
                }
                bound = taken.min(bound) * to_allowed.clamp(0.25, 0.96);
                (settled, rounded) = goal.ladder.settle_for_noise(bound)?;
                continue;
            }
            if rounded != Rounded::Never || mean_square == 0.0 || mean_square > ENOUGH_MEAN_SQUARE {
                return Ok(output);
            }
            let wider = goal.ladder.settle_for_noise((taken * to_allowed.min(2.0)).min(widest))?;
            match wider {
                (SettledBound::Absolute(bound), Rounded::Never) if bound > taken => reached = Some(settled),
                _ => return Ok(output),
            }
            (settled, rounded) = wider;
        }
        self.compress_as(predictor, reached.unwrap_or(SettledBound::Lossless))
    }
}

/// The noise that a chunk may have, and a buffer for the decoded chunk.
struct Goal<'a> {
    ladder: &'a Ladder<'a>,
    /// Allowed root mean square of errors, in the data's unit.
    noise: f64,
    /// Number of values that count.
    count: u64,
    decoded: Vec<u8>,
}

/// The largest bound of integers whose errors have at most the mean square `allowed`. This must hold for evenly spread errors, as steps of earlier writes leave
/// them. It must also hold for the errors of these values plus the errors of an earlier step, which is a third as wide.
fn integer_bound(allowed: f64, chunk: &[u8], layout: &Layout, config: &Config) -> SettledBound {
    let widest = (12.0 * allowed + 1.0).sqrt();
    let mut settled = settle_integer(((widest - 1.0) / 2.0).min(1e18) as u64);
    while let SettledBound::Absolute(bound) = settled {
        let third = (2.0 * bound + 1.0) / 3.0;
        if noise_of_steps(bound as u64, chunk, layout, config) + (third * third - 1.0) / 12.0 <= allowed {
            break;
        }
        settled = settle_integer((bound as u64 - 1) / 3);
    }
    settled
}

/// The largest bound whose grid leaves errors with a root mean square of at most `noise`. Bisection finds the bound for a sample of the values. Then the bound
/// is lowered until it holds for all values. It is never below `noise`: with a bound of `noise` no error is larger than `noise`.
fn bound_by_model(noise: f64, chunk: &[u8], layout: &Layout, config: &Config) -> f64 {
    const QUARTER_OF_A_BIT: f64 = 1.189_207_115_002_721; // 2^(1/4)
    const EIGHTH_OF_A_BIT: f64 = 1.090_507_732_665_257_7; // 2^(1/8)
    const MAX_QUARTERS: usize = 16;
    // Odd, so that a sample's groups are in different columns.
    let stride = (layout.shape.elements() as usize).div_ceil(MAX_SAMPLE_VALUES) | 1;
    let holds_noise_in = |stride: usize, bound: f64| {
        let allowed = noise / (2.0 * bound);
        mean_square(bound, chunk, layout, config, stride) <= allowed * allowed
    };
    let holds_noise = |bound: f64| holds_noise_in(stride, bound);
    let (mut least, mut most) = (noise, noise * WIDEST);
    let mut bound = noise * BOUND_TO_NOISE;
    // The greatest bound is 2^4 times the least, so that 16 factors of 2^(1/4) lead from the first bound to either.
    if holds_noise(bound) {
        for _ in 0..MAX_QUARTERS {
            least = bound;
            bound *= QUARTER_OF_A_BIT;
            if bound >= most || !holds_noise(bound) {
                most = most.min(bound);
                break;
            }
        }
    } else {
        for _ in 0..MAX_QUARTERS {
            most = bound;
            bound /= QUARTER_OF_A_BIT;
            if bound <= least || holds_noise(bound) {
                least = least.max(bound);
                break;
            }
        }
    }
    for _ in 0..3 {
        let middle = least + (most - least) / 2.0;
        if holds_noise(middle) {
            least = middle;
        } else {
            most = middle;
        }
    }
    // The bound of the sample is checked with all values.
    for _ in 0..2 * MAX_QUARTERS {
        if stride == 1 || least <= noise || holds_noise_in(1, least) {
            break;
        }
        least = (least / EIGHTH_OF_A_BIT).max(noise);
    }
    least
}

/// Mean square, in steps, of the errors that a bound's grid leaves on the values of every `stride`-th group.
fn mean_square(bound: f64, chunk: &[u8], layout: &Layout, config: &Config, stride: usize) -> f64 {
    let inverse_step = 1.0 / (2.0 * bound);
    let (sums, counts) = with_element!(layout.scalar, V => widely_vectorized(
        #[inline(always)]
        || {
            // Declared here so that they stay in registers.
            let (mut sums, mut counts) = ([0.0; 8], [0u64; 8]);
            Groups::<V>::new(chunk, layout.byte_order, config).for_each(stride, #[inline(always)] |values| {
                for eight in values.as_chunks::<8>().0 {
                    for ((sum, count), &value) in sums.iter_mut().zip(&mut counts).zip(eight) {
                        let scaled = value * inverse_step;
                        let error = scaled - (scaled + ROUNDING - ROUNDING);
                        // Values of 2^51 steps or more are exceptions, without an error.
                        *sum += if error.abs() <= 0.5 { error * error } else { 0.0 };
                        *count += u64::from(!value.is_nan());
                    }
                }
            });
            (sums, counts)
        }
    ));
    sums.iter().sum::<f64>() / counts.iter().sum::<u64>().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar, Shape};
    use crate::random::Random;

    fn chunk(values: &[f64]) -> (Vec<u8>, Layout) {
        let layout =
            Layout { scalar: Scalar::F64, byte_order: ByteOrder::Little, shape: Shape::new(&[values.len() as u64]).unwrap() };
        (values.iter().flat_map(|value| value.to_le_bytes()).collect(), layout)
    }

    fn random(len: usize, scale: f64) -> Vec<f64> {
        let mut random = Random(1);
        (0..len).map(|_| scale * random.share()).collect()
    }

    #[test]
    fn mean_squares_are_those_of_rounding() {
        let config = Config::absolute(1.0).unwrap();
        for len in [1, 7, 63, 64, 65, 1000] {
            let mut values = random(len, 100.0);
            let expected = values.iter().map(|value| (value - value.round_ties_even()).powi(2)).sum::<f64>() / len as f64;
            let (bytes, layout) = chunk(&values);
            let found = mean_square(0.5, &bytes, &layout, &config, 1);
            assert!((found - expected).abs() < 1e-12, "{len} values: {found}, not {expected}");
            // Exceptions have no error, and NaN does not count.
            values.extend([1e300, f64::NAN, f64::INFINITY]);
            let (bytes, layout) = chunk(&values);
            let found = mean_square(0.5, &bytes, &layout, &config, 1);
            assert!((found - expected * len as f64 / (len + 1) as f64).abs() < 1e-12, "{len} values");
        }
        assert_eq!(mean_square(0.5, &f64::NAN.to_le_bytes(), &chunk(&[0.0]).1, &config, 1), 0.0);
    }

    #[test]
    fn modelled_bounds_leave_the_noise_that_is_allowed() {
        let config = Config::absolute(1.0).unwrap();
        let noise = 1e-3;
        let even = noise * 3f64.sqrt();
        for len in [65usize, 10_007, 200_003] {
            let (bytes, layout) = chunk(&random(len, 10.0));
            let bound = bound_by_model(noise, &bytes, &layout, &config);
            assert!((0.8 * even..1.25 * even).contains(&bound), "even spread of {len} values: {bound}, not {even}");
            let rms = mean_square(bound, &bytes, &layout, &config, 1).sqrt() * 2.0 * bound;
            assert!(rms <= noise * 1.000_001, "{len} values: {rms}");
        }
        // Nine of ten values are 0 and have no error: the bound may be wider.
        let sparse: Vec<f64> =
            random(5000, 10.0).into_iter().enumerate().map(|(i, value)| if i % 10 == 0 { value } else { 0.0 }).collect();
        let (bytes, layout) = chunk(&sparse);
        assert!(bound_by_model(noise, &bytes, &layout, &config) > 2.0 * even);
    }

    #[test]
    fn bounds_of_integers_are_powers_of_three_with_little_noise() {
        let config = Config::absolute(1.0).unwrap();
        let values: Vec<i32> = random(2000, 1e6).into_iter().map(|value| value as i32).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        let layout = Layout { scalar: Scalar::I32, byte_order: ByteOrder::Big, shape: Shape::new(&[2000]).unwrap() };
        for (rms, widest) in [(0.1, 0), (0.9, 0), (0.95, 1), (5.0, 4), (100.0, 121)] {
            match integer_bound(rms * rms, &bytes, &layout, &config) {
                SettledBound::Absolute(bound) => {
                    assert!(bound as u64 == widest && (1..34).any(|k| 3u64.pow(k) == 2 * bound as u64 + 1), "{rms}: {bound}");
                    let errors = noise_of_steps(bound as u64, &bytes, &layout, &config);
                    assert!(errors <= rms * rms, "{rms}: {errors}");
                }
                bound => assert!(bound == SettledBound::Lossless && widest == 0, "{rms}: {bound:?}"),
            }
        }
    }
}
