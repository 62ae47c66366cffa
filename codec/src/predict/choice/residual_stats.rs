//! Statistics of residuals, and an estimate of the bits that they take when coded.

use super::sets_of;
use super::tile::COLUMNS;
use crate::layout::{MAX_RANK, Shape};
use crate::number::fixed_log2::{LOG_FRACTION, log2_fixed};
use crate::quantize::fine_grid::ESCAPE_FROM;

/// Larger magnitudes count as this one, so that a few spikes do not decide the choice.
const MAX_COUNTED_MAGNITUDE: u32 = 1 << 15;
/// Difference of an integer's exponent field, as a binary32, and its length in bits. It holds for integers above 0.
const EXPONENT_MINUS_BITS: u64 = 126;
/// Estimated bits of a value that is an exception or an escape.
const OUTLIER_BITS: u64 = 40;

/// Counts over the residuals of one predictor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResidualStats {
    /// Number of residuals.
    pub values: u64,
    /// Number of residuals that are 0.
    pub zeros: u64,
    /// Sum of the lengths in bits of all magnitudes.
    pub magnitude_bits: u64,
    /// Number of values that are exceptions or escapes.
    pub outliers: u64,
}

/// Statistics of the differences along each set of axes.
pub(super) type StatsOfSets = [ResidualStats; 1 << MAX_RANK];

/// Sums over residuals, one for each lane of vector code. [`ResidualStats::add`] adds up the lanes once, after many residuals.
#[derive(Default)]
pub(super) struct ColumnSums {
    /// Numbers of residuals that are 0.
    zeros: [u32; COLUMNS],
    /// Sums of the exponent fields of the magnitudes as binary32. Each is [`EXPONENT_MINUS_BITS`] more than the magnitude's length in bits, and
    /// 0 for a zero.
    exponents: [u32; COLUMNS],
}

impl ColumnSums {
    /// Adds at most [`COLUMNS`] residuals.
    #[inline(always)]
    pub(super) fn add(&mut self, values: &[i32]) {
        for ((&value, zeros), exponents) in values.iter().zip(&mut self.zeros).zip(&mut self.exponents) {
            *zeros += u32::from(value == 0);
            let magnitude = value.unsigned_abs().min(MAX_COUNTED_MAGNITUDE) as f32;
            *exponents += magnitude.to_bits() >> 23;
        }
    }
}

impl ResidualStats {
    /// Statistics of differences. Call it in a [`crate::simd::vectorized`] body.
    #[inline(always)]
    pub(super) fn of_differences(differences: &[i32]) -> Self {
        let (mut columns, mut stats) = (ColumnSums::default(), Self::default());
        let (groups, rest) = differences.as_chunks::<COLUMNS>();
        groups.iter().for_each(
            #[inline(always)]
            |group| columns.add(group),
        );
        columns.add(rest);
        stats.add(&columns, differences.len(), 0);
        stats
    }

    /// Statistics of residuals of interpolation. Call it in a [`crate::simd::vectorized`] body.
    #[inline(always)]
    pub(super) fn of_residuals(residuals: &[i32]) -> Self {
        let (mut columns, mut escapes) = (ColumnSums::default(), [0; COLUMNS]);
        // The last group is filled up with zeros, as the compiler makes vector code of loops with a constant length.
        let (groups, rest) = residuals.as_chunks();
        let mut last = [0; COLUMNS];
        last[..rest.len()].copy_from_slice(rest);
        for group in groups.iter().chain([&last]) {
            let mut steps = *group;
            for (step, escapes) in steps.iter_mut().zip(&mut escapes) {
                let is_escape = step.unsigned_abs() >= ESCAPE_FROM.unsigned_abs();
                *escapes += u32::from(is_escape);
                *step = if is_escape { 0 } else { *step };
            }
            columns.add(&steps);
        }
        let mut stats = Self::default();
        stats.add(&columns, residuals.len(), COLUMNS - rest.len());
        stats.outliers = escapes.iter().map(|&escapes| u64::from(escapes)).sum();
        stats
    }

    /// Adds the sums over `values` residuals and `zeros` padding zeros. The padding does not count.
    #[inline(always)]
    pub(super) fn add(&mut self, columns: &ColumnSums, values: usize, zeros: usize) {
        let sum = |columns: &[u32; COLUMNS]| columns.iter().map(|&column| u64::from(column)).sum::<u64>();
        let zeros = sum(&columns.zeros) - zeros as u64;
        self.values += values as u64;
        self.zeros += zeros;
        self.magnitude_bits += sum(&columns.exponents) - EXPONENT_MINUS_BITS * (values as u64 - zeros);
    }

    /// The sum of two statistics.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            zeros: self.zeros + other.zeros,
            magnitude_bits: self.magnitude_bits + other.magnitude_bits,
            outliers: self.outliers + other.outliers,
        }
    }

    /// Adds one difference, which has been wrapped to the width of its code and is not limited to [`MAX_COUNTED_MAGNITUDE`].
    #[inline(always)]
    pub(super) fn add_one(&mut self, difference: i64) {
        let magnitude = difference.unsigned_abs();
        self.values += 1;
        self.zeros += u64::from(magnitude == 0);
        self.magnitude_bits += u64::from(u64::BITS - magnitude.leading_zeros());
    }

    /// Estimate of the bits that the residuals take, in fixed point. It is the sum of the entropy of which residuals are zero, the entropy of the lengths of the
    /// other magnitudes as if they had a geometric distribution, the signs, the bits below the highest one of each magnitude, and [`OUTLIER_BITS`] for each outlier.
    pub(super) fn bits(&self) -> u64 {
        let weighted = |count: u64| if count == 0 { 0 } else { count * log2_fixed(count) };
        let nonzero = self.values - self.zeros;
        let of_nonzero = weighted(nonzero);
        let zero_or_not = weighted(self.values).saturating_sub(weighted(self.zeros) + of_nonzero);
        let of_lengths = weighted(self.magnitude_bits).saturating_sub(weighted(self.magnitude_bits - nonzero) + of_nonzero);
        // A magnitude of n bits takes n - 1 bits and a sign.
        zero_or_not + of_lengths + ((self.magnitude_bits + OUTLIER_BITS * self.outliers) << LOG_FRACTION)
    }

    /// The estimate of the bits, with the number of residuals.
    pub(super) fn estimate(&self) -> Estimate {
        Estimate { bits: self.bits(), values: self.values }
    }
}

/// An estimate of the bits of `values` residuals, in fixed point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub bits: u64,
    pub values: u64,
}

impl Estimate {
    /// Whether the bits per value are below `sixteenths` / 16 of those of another estimate.
    pub(super) fn is_below(&self, sixteenths: u128, other: &Self) -> bool {
        16 * u128::from(self.bits) * u128::from(other.values) < sixteenths * u128::from(other.bits) * u128::from(self.values)
    }
}

/// The set of axes whose differences have the least estimate, and the estimate. Of sets with equal estimates, the one with the greatest number is taken.
pub(super) fn best_set(stats: &StatsOfSets, shape: &Shape) -> (usize, Estimate) {
    let (sets, flat) = sets_of(shape);
    let mut of_sets = (0..sets).rev().filter(|set| set & flat == 0);
    let first = of_sets.next().unwrap_or(0);
    let mut best = (first, stats[first].estimate());
    for set in of_sets {
        // Logarithms take time, and magnitudes alone are a lower bound of the estimate.
        if stats[set].magnitude_bits << LOG_FRACTION < best.1.bits {
            let estimate = stats[set].estimate();
            best = if estimate.bits < best.1.bits { (set, estimate) } else { best };
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_by_one(values: &[i32]) -> ResidualStats {
        let mut stats = ResidualStats::default();
        values.iter().for_each(|&value| stats.add_one(value.into()));
        stats
    }

    fn counts(stats: &ResidualStats) -> [u64; 4] {
        [stats.values, stats.zeros, stats.magnitude_bits, stats.outliers]
    }

    #[test]
    fn differences_are_counted_at_any_length() {
        let values: Vec<i32> =
            (0..200).map(|i: i32| [0, 1, -1, 2, -3, 0, 255, -256, 32_767, -32_768][(i * i % 10) as usize]).collect();
        for len in 0..values.len() {
            let values = &values[..len];
            assert_eq!(counts(&ResidualStats::of_differences(values)), counts(&one_by_one(values)), "{len} values");
            assert_eq!(counts(&ResidualStats::of_residuals(values)), counts(&one_by_one(values)), "{len} values");
        }
        let (first, second) = values.split_at(77);
        assert_eq!(counts(&one_by_one(first).plus(one_by_one(second))), counts(&one_by_one(&values)));
    }

    #[test]
    fn magnitudes_have_their_length_in_bits_up_to_16() {
        for (value, bits) in
            [(0, 0), (1, 1), (-1, 1), (2, 2), (3, 2), (4, 3), (-32_767, 15), (32_768, 16), (i32::MAX, 16), (i32::MIN, 16)]
        {
            assert_eq!(ResidualStats::of_differences(&[value]).magnitude_bits, bits, "{value}");
        }
        let mut wide = ResidualStats::default();
        wide.add_one(i64::MIN);
        assert_eq!(wide.magnitude_bits, 64);
    }

    #[test]
    fn escapes_are_outliers_and_otherwise_zeros() {
        let residuals = [65_535, -65_535, 65_536, -65_536, i32::MIN, i32::MAX, 0, 1];
        assert_eq!(counts(&ResidualStats::of_residuals(&residuals)), [8, 5, 16 + 16 + 1, 4]);
    }

    #[test]
    fn estimates_are_entropies() {
        for (values, zeros, magnitude_bits, outliers) in
            [(1000, 1000, 0, 0), (1000, 0, 1000, 0), (1000, 500, 500, 3), (4096, 100, 30_000, 0), (7, 3, 9, 7)]
        {
            let stats = ResidualStats { values, zeros, magnitude_bits, outliers };
            let [n, z, l, o] = [values, zeros, magnitude_bits, outliers].map(|count| count as f64);
            // Entropy of `total` draws, `part` of which are of one of two kinds.
            let entropy = |part: f64, total: f64| {
                [part, total - part]
                    .iter()
                    .filter(|&&count| count > 0.0)
                    .map(|count| -count * (count / total).log2())
                    .sum::<f64>()
            };
            // Lengths are distributed geometrically: each bit is a draw whether the length ends with it.
            let expected = entropy(z, n) + entropy(n - z, l.max(1.0)) + l + 40.0 * o;
            let bits = stats.bits() as f64 / f64::from(1 << LOG_FRACTION);
            assert!((bits - expected).abs() <= 1.0 + expected * 1e-3, "{bits} is not {expected}");
        }
        assert_eq!(ResidualStats::default().bits(), 0);
    }

    #[test]
    fn estimates_are_compared_by_value() {
        let of = |bits, values| Estimate { bits, values };
        assert!(of(100, 10).is_below(16, &of(1010, 100)));
        assert!(!of(100, 10).is_below(16, &of(1000, 100)));
        assert!(of(100, 10).is_below(17, &of(1000, 100)));
        assert!(!of(u64::MAX, 1).is_below(16, &of(u64::MAX - 1, 1)));
    }

    #[test]
    fn the_best_set_has_the_least_bits_and_no_flat_axis() {
        let shape = Shape::new(&[4, 1, 5]).unwrap();
        let of = |magnitude_bits| ResidualStats { values: 100, zeros: 0, magnitude_bits, outliers: 0 };
        for best in [0b000, 0b001, 0b100, 0b101] {
            let mut stats: StatsOfSets = std::array::from_fn(|set| of(if set == best { 300 } else { 500 + set as u64 }));
            // Axis 1 is flat: its sets are not taken, however small their estimates.
            [0b010, 0b011, 0b110, 0b111].into_iter().for_each(|set| stats[set] = of(100));
            assert_eq!(best_set(&stats, &shape).0, best);
        }
        assert_eq!(best_set(&[of(300); 16], &shape).0, 0b101, "of equal sets the greatest number");
    }
}
