//! Counts over the residuals of one predictor, and an estimate of the bits that they take when coded (FORMAT.md §11.3).

use super::sample::TILES;
use crate::number::fixed_log2::{LOG_FRACTION, log2_fixed};
use crate::number::integer::Integer;

/// Estimated bits of a value that is an exception or an escape.
pub const OUTLIER_BITS: u64 = 40;

/// Counts over the residuals of one predictor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Residuals.
    pub values: u32,
    /// Residuals that are 0.
    pub zeros: u32,
    /// Residuals other than 0 that are directly behind a 0.
    pub rises: u32,
    /// Residuals below 0.
    pub negative: u32,
    /// Sum of the lengths in bits of all magnitudes.
    pub lengths: u32,
    /// Values that need more than a residual: exceptions and escapes, without those of `zero_escapes`.
    pub outliers: u32,
    /// Zeros that are escapes.
    pub zero_escapes: u32,
}

impl Counts {
    /// Estimate of the bits that the residuals take, in fixed point with [`LOG_FRACTION`] fraction bits. `zero_bits`: bits of the zeros that are escapes, or
    /// are masked instead.
    pub(super) fn bits(&self, zero_bits: u64) -> u64 {
        let [values, zeros, rises, negative, lengths, outliers] =
            [self.values, self.zeros, self.rises, self.negative, self.lengths, self.outliers].map(u64::from);
        let nonzero = values - zeros;
        let rises = rises.min(nonzero).min(zeros);
        // Bits of the magnitudes below their highest ones.
        let low_bits = lengths - nonzero;
        // Whether a residual is 0 may depend on the one before.
        let of_zeros = split(zeros, nonzero).min(split(rises, zeros - rises) + split(rises, nonzero - rises));
        let of_signs = split(negative, nonzero - negative);
        // Lengths as if each had a geometric distribution: a bit is the last one of its magnitude, or it is not.
        let of_lengths = split(nonzero, low_bits);
        of_zeros + of_signs + of_lengths + ((low_bits + OUTLIER_BITS * outliers + zero_bits) << LOG_FRACTION)
    }
}

/// Bits, in fixed point, that say to which of two kinds each of `one + other` residuals belongs.
fn split(one: u64, other: u64) -> u64 {
    let weigh = |count: u64| if count == 0 { 0 } else { count * log2_fixed(count) };
    weigh(one + other).saturating_sub(weigh(one) + weigh(other))
}

/// Counts of each lane of a vector.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaneCounts {
    zeros: [u32; TILES],
    rises: [u32; TILES],
    negative: [u32; TILES],
    lengths: [u32; TILES],
    values: u32,
}

impl LaneCounts {
    /// Adds a residual of each lane. `follows_zero` is 1 where the residual before is 0, else 0. Returns `follows_zero` of the next residuals.
    #[inline(always)]
    pub(super) fn add<C: Integer>(&mut self, residuals: &[C; TILES], follows_zero: &[u32; TILES]) -> [u32; TILES] {
        let mut are_zero = [0; TILES];
        for i in 0..TILES {
            let length = residuals[i].length();
            are_zero[i] = u32::from(length == 0);
            self.zeros[i] += are_zero[i];
            self.rises[i] += follows_zero[i] & (are_zero[i] ^ 1);
            self.negative[i] += u32::from(residuals[i].to_i64() < 0);
            self.lengths[i] += length;
        }
        self.values += TILES as u32;
        are_zero
    }

    /// The counts over all lanes.
    pub(super) fn sum(&self) -> Counts {
        let sum = |lanes: &[u32; TILES]| lanes.iter().sum();
        Counts {
            values: self.values,
            zeros: sum(&self.zeros),
            rises: sum(&self.rises),
            negative: sum(&self.negative),
            lengths: sum(&self.lengths),
            ..Counts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_entropies() {
        for (zeros, rises, nonzero, negative, lengths, outliers) in [
            (1000, 0, 0, 0, 0, 0),
            (0, 0, 1000, 500, 1000, 0),
            (500, 20, 500, 10, 500, 3),
            (500, 500, 500, 250, 1700, 0),
            (100, 90, 3996, 40, 30_000, 0),
            (3, 2, 4, 1, 11, 7),
        ] {
            let counts = Counts { values: zeros + nonzero, zeros, rises, negative, lengths, outliers, zero_escapes: 9 };
            let entropy = |one: u32, other: u32| {
                let of_count = |count: u32| f64::from(count) * (f64::from(one + other) / f64::from(count)).log2();
                [one, other].into_iter().filter(|&count| count > 0).map(of_count).sum::<f64>()
            };
            let rises = rises.min(nonzero).min(zeros);
            let low_bits = lengths - nonzero;
            let expected = entropy(zeros, nonzero).min(entropy(rises, zeros - rises) + entropy(rises, nonzero - rises))
                + entropy(negative, nonzero - negative)
                + entropy(nonzero, low_bits)
                + f64::from(low_bits + 40 * outliers + 5);
            let bits = counts.bits(5) as f64 / f64::from(1 << LOG_FRACTION);
            assert!((bits - expected).abs() <= 1.0 + expected * 1e-3, "{bits} is not {expected}");
        }
        assert_eq!(Counts::default().bits(0), 0);
    }
}
