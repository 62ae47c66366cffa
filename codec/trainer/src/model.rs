//! The frequencies of tokens in a chunk whose differences follow a probability density.
//!
//! Shah et al. (ICS'23, section 4) discretise Cauchy, Laplace and Gaussian densities with location 0 over a sweep of scales. Our alphabet also has run tokens.
//! A density of single values does not give their frequencies: real fields have their zeros next to each other, where the field is quiet. So the model's scale
//! varies slowly over a chunk, and its logarithm is normally distributed. All values of a run have the same scale. The spread of the logarithm makes runs longer
//! and tails heavier.

use quire_codec::stages::alphabet::{ALPHABET, Histogram, Meaning, SEGMENT, SYMBOLS};
use quire_codec::stages::dictionary::Family;
use quire_codec::stages::tokens::TWICE_MIN_ZEROS_PER_STRETCH;

/// Number of scales that are sampled on either side of the middle scale.
const NODES: i32 = 8;
/// Distance of sampled scales, in standard deviations of the logarithm.
const NODE_DISTANCE: f64 = 0.375;

/// Probability that a value of the density is at most `x`, for `x <= 0`.
fn lower_tail(family: Family, scale: f64, x: f64) -> f64 {
    let z = x / scale;
    match family {
        // For z far below 0, 1/2 + atan(z)/pi is a difference of nearly equal numbers. atan(-1/z)/pi has the same value without a difference.
        Family::Cauchy if z < -1.0 => libm::atan(-1.0 / z) / std::f64::consts::PI,
        Family::Cauchy => 0.5 + libm::atan(z) / std::f64::consts::PI,
        Family::Laplace => 0.5 * libm::exp(z),
        Family::Gaussian => 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2),
    }
}

/// Probability that a rounded value has a magnitude of `start` or more; `start` is at least 1.
fn magnitude_at_least(family: Family, scale: f64, start: f64) -> f64 {
    2.0 * lower_tail(family, scale, 0.5 - start)
}

/// `integer_weights` of the tokens for a density whose scale varies with `spread`.
#[must_use]
pub fn token_weights(family: Family, scale: f64, spread: f64) -> Histogram {
    let mut weights = [0.0; SYMBOLS];
    if spread > 0.0 {
        for node in -NODES..=NODES {
            let deviation = NODE_DISTANCE * f64::from(node);
            let share = libm::exp(-0.5 * deviation * deviation);
            add_tokens(family, scale * libm::exp(spread * deviation), share, &mut weights);
        }
    } else {
        add_tokens(family, scale, 1.0, &mut weights);
    }
    integer_weights(&weights)
}

/// Weights as integers above 0 with a sum of about 2^40.
pub(crate) fn integer_weights(weights: &[f64; SYMBOLS]) -> Histogram {
    let total: f64 = weights.iter().sum();
    weights.map(|weight| (weight / total * libm::exp2(40.0)) as u64 + 1)
}

/// Adds the tokens of `values` independent values of one scale.
fn add_tokens(family: Family, scale: f64, values: f64, weights: &mut [f64; SYMBOLS]) {
    let at_least = |magnitude: u64| magnitude_at_least(family, scale, magnitude as f64);
    let runs = Runs::new(at_least(1), at_least(2));
    for (weight, symbol) in weights.iter_mut().zip(&ALPHABET) {
        let start = symbol.start;
        *weight += values
            * match symbol.meaning {
                Meaning::Run => runs.weight(symbol.first.into(), start, start + (1 << symbol.extra_bits)),
                Meaning::Direct => match start.cast_signed() {
                    first @ -1..=1 => runs.weight(first, 1, 2),
                    more => 0.5 * (at_least(more.unsigned_abs()) - at_least(more.unsigned_abs() + 1)),
                },
                // One extra bit of a class is the sign. The other extra bits say how many magnitudes the class has. The last class has all larger magnitudes.
                Meaning::Class if symbol.extra_bits == 64 => at_least(start),
                Meaning::Class => at_least(start) - at_least(start + (1 << (symbol.extra_bits - 1))),
            };
    }
}

/// Probabilities of runs of independent values.
struct Runs {
    /// Probability that a value is not zero.
    not_zero: f64,
    /// Probability that a value is 1, which is also the probability that it is -1.
    one: f64,
    /// Probability that a run of zeros begins at a value: the value is 0, and the value before it is beyond 1 and -1 or belongs to the previous segment.
    zero_begins: f64,
}

impl Runs {
    fn new(not_zero: f64, beyond_one: f64) -> Self {
        let zero = 1.0 - not_zero;
        let zero_begins = zero * (beyond_one + (1.0 - beyond_one) / SEGMENT as f64);
        Self { not_zero, one: 0.5 * (not_zero - beyond_one), zero_begins }
    }

    /// Whether stretches of zeros are too short for the codec to make runs. On average a stretch has `1 / not_zero` zeros.
    fn has_no_runs(&self) -> bool {
        2.0 < f64::from(TWICE_MIN_ZEROS_PER_STRETCH) * self.not_zero
    }

    /// Probability that a run of `from` to `below - 1` values starts at a value. A run of one value is a direct symbol. A run over several segments counts once for
    /// each segment.
    fn weight(&self, first: i64, from: u64, below: u64) -> f64 {
        let begins = if first == 0 { self.zero_begins } else { self.one };
        if self.has_no_runs() {
            let all = if first == 0 { 1.0 - self.not_zero } else { self.one };
            return if from == 1 { all } else { 0.0 };
        }
        let log_zero = libm::log1p(-self.not_zero);
        let at_least = |run: u64| libm::exp(log_zero * (run - 1) as f64);
        if from == SEGMENT as u64 {
            // All values of the segment are zero, or all but the first one.
            let begins = if first == 0 { 1.0 - self.not_zero } else { self.one };
            begins * at_least(from) / SEGMENT as f64
        } else {
            begins * (at_least(from) - at_least(below))
        }
    }
}

#[cfg(test)]
mod tests {
    use quire_codec::stages::alphabet::FIRST_CLASS;

    use super::*;

    #[test]
    fn weights_follow_the_density() {
        for family in [Family::Cauchy, Family::Laplace, Family::Gaussian] {
            for scale in [0.2, 1.0, 10.0, 300.0] {
                let weights = token_weights(family, scale, 0.0);
                let total: f64 = weights.iter().map(|&weight| weight as f64).sum();
                let runs = Runs::new(magnitude_at_least(family, scale, 1.0), magnitude_at_least(family, scale, 2.0));
                // Weights times values of a token add up to all values. Among the runs of a symbol, longer runs are rarer.
                let mut values = 0.0;
                for (&weight, symbol) in weights.iter().zip(&ALPHABET) {
                    let span = match symbol.meaning {
                        Meaning::Run => {
                            let lengths = symbol.start..symbol.start + (1 << symbol.extra_bits);
                            let rarity = |run: u64| (1.0 - runs.not_zero).powi((run - symbol.start) as i32);
                            let all: f64 = lengths.clone().map(rarity).sum();
                            lengths.map(|run| run as f64 * rarity(run)).sum::<f64>() / all
                        }
                        _ => 1.0,
                    };
                    values += weight as f64 * span;
                }
                let tokens = if runs.has_no_runs() { 1.0 } else { runs.not_zero + runs.zero_begins };
                assert!((values / total * tokens - 1.0).abs() < 0.1, "{family:?} {scale}: {}", values / total * tokens);
            }
        }
    }

    #[test]
    fn spread_makes_runs_longer_and_tails_heavier() {
        let (even, uneven) = (token_weights(Family::Laplace, 0.5, 0.0), token_weights(Family::Laplace, 0.5, 1.0));
        assert!(uneven[8] > 4 * even[8]);
        assert!(uneven[FIRST_CLASS] > 4 * even[FIRST_CLASS]);
    }
}
