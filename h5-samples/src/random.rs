use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};
use std::f64::consts::TAU;

/// What SplitMix64 adds to its state before each number.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random numbers by xoshiro256++ (Blackman and Vigna, 2019), a fixed algorithm, so that no crate's upgrade changes the fields.
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A stream for one purpose. Streams of different names are independent, so that a new field leaves the others as they were.
    pub(crate) fn new(seed: u64, stream: &str) -> Self {
        // FNV-1a turns the name into a number.
        let name = stream
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mixed = SplitMix64::seed_from_u64(seed.wrapping_sub(GOLDEN_GAMMA)).next_u64();
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed ^ name))
    }

    /// Evenly distributed in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly distributed in [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Two independent normal variates of mean 0 and variance 1, by Box and Muller.
    pub(crate) fn normal_pair(&mut self) -> [f64; 2] {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sine, cosine) = (TAU * self.uniform()).sin_cos();
        [radius * cosine, radius * sine]
    }

    /// One normal variate of mean 0 and variance 1.
    pub(crate) fn normal(&mut self) -> f64 {
        self.normal_pair()[0]
    }

    /// Exponentially distributed with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// A Poisson count of the given mean.
    pub(crate) fn poisson(&mut self, mean: f64) -> f64 {
        // Far from zero the normal limit is indistinguishable, and counting events would take `mean` steps.
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let mut waited = self.exponential();
        let mut count = 0.0;
        while waited < mean {
            waited += self.exponential();
            count += 1.0;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variates_have_their_moments() {
        let mut random = Random::new(7, "moments");
        let count = 200_000;
        let normal: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let variance = normal.iter().map(|value| value * value).sum::<f64>() / f64::from(count);
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
        for mean in [0.3, 4.0, 200.0] {
            let counted = (0..count).map(|_| random.poisson(mean)).sum::<f64>() / f64::from(count);
            assert!((counted / mean - 1.0).abs() < 0.02, "mean {counted} of {mean}");
        }
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Random::new(1, "a").uniform(), Random::new(1, "b").uniform());
        assert_ne!(Random::new(1, "a").uniform(), Random::new(2, "a").uniform());
    }
}
