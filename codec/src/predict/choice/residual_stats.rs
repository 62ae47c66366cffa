//! Statistics of residuals, and an estimate of the bits that they take when coded.

use super::sets_of;
use super::tile::COLUMNS;
use crate::layout::{MAX_RANK, Shape};
use crate::number::fixed_log2::{LOG_FRACTION, log2_fixed_of_all};
use crate::number::integer::Integer;
use crate::quantize::fine_grid::is_escape;
use crate::simd::widely_vectorized;

/// Larger magnitudes count as this one, so that a few spikes do not decide the choice.
pub const MAX_COUNTED_MAGNITUDE: u32 = 1 << 15;
/// Difference of an integer's exponent field, as a binary32, and its length in bits. It holds for integers above 0.
const EXPONENT_MINUS_BITS: u64 = 126;
/// Residuals of this magnitude or more take a whole bit for their sign (FORMAT.md §7: token classes).
pub const LARGE_MAGNITUDE: u32 = 16;
/// Estimated bits of a value that is an exception or an escape.
pub const OUTLIER_BITS: u64 = 40;
/// Estimated bits of an end of a row of zeros, where zeros are exceptions.
pub const EDGE_BITS: u64 = 8;
/// Ends of rows of zeros that would take as many bits as what the planes of exceptions have besides.
pub(super) const EDGES_OF_PLANES: usize = 128;
/// Where interpolation is no better than differences unless zeros are exceptions, its estimate must be below this / 16 of that of differences: neighbours of
/// zeros are predicted worse then, which the estimate does not see.
pub const MASKED_SIXTEENTHS: u128 = 13;
/// If cubic interpolation of tiles takes more than this many bits per value more than differences, in fixed point, no other kind is tried: 3/4 bit.
pub const CUBIC_MARGIN: u64 = 3 << (LOG_FRACTION - 2);

/// Counts over the residuals of one predictor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResidualStats {
    /// Number of residuals.
    pub values: u64,
    /// Number of residuals that are 0.
    pub zeros: u64,
    /// Number of residuals other than 0 that are directly behind a 0.
    pub rises: u64,
    /// Number of residuals that are 1 or -1.
    pub ones: u64,
    /// Number of residuals with a magnitude of 2 or 3.
    pub two_bits: u64,
    /// Number of residuals with a magnitude of 4 to 7.
    pub three_bits: u64,
    /// Number of residuals with a magnitude of [`LARGE_MAGNITUDE`] or more.
    pub large: u64,
    /// Number of residuals below 0 and above -[`LARGE_MAGNITUDE`].
    pub negative: u64,
    /// Sum of the lengths in bits of all magnitudes.
    pub magnitude_bits: u64,
    /// Number of values that are exceptions or escapes, but for those of `zero_escapes`.
    pub outliers: u64,
    /// Number of zeros that are escapes.
    pub zero_escapes: u64,
    /// Number of ends of rows of zeros, of which those at a row's ends do not count, and the share of [`EDGES_OF_PLANES`] of these residuals.
    pub zero_edges: u64,
}

/// Statistics of the differences along each set of axes.
pub(super) type StatsOfSets = [ResidualStats; 1 << MAX_RANK];

/// Sums over residuals, one for each lane of vector code. [`ResidualStats::add`] adds up the lanes once, after many residuals.
#[derive(Default)]
pub(super) struct ColumnSums {
    /// Numbers of residuals that are 0.
    zeros: [u32; COLUMNS],
    /// Numbers of residuals other than 0 behind a 0.
    rises: [u32; COLUMNS],
    /// Numbers of residuals that are 1 or -1.
    ones: [u32; COLUMNS],
    /// Numbers of residuals with a magnitude of 2 or 3.
    two_bits: [u32; COLUMNS],
    /// Numbers of residuals with a magnitude of 4 to 7.
    three_bits: [u32; COLUMNS],
    /// Numbers of residuals with a magnitude of [`LARGE_MAGNITUDE`] or more.
    large: [u32; COLUMNS],
    /// Numbers of residuals below 0 and above -[`LARGE_MAGNITUDE`].
    negative: [u32; COLUMNS],
    /// Sums of the exponent fields of the magnitudes as binary32. Each is [`EXPONENT_MINUS_BITS`] more than the magnitude's length in bits, and
    /// 0 for a zero.
    exponents: [u32; COLUMNS],
}

impl ColumnSums {
    /// Adds residuals. `before[i]` is the residual before `residuals[i]`, or any other number than 0 if there is none.
    #[inline(always)]
    pub(super) fn add(&mut self, residuals: &[i32; COLUMNS], before: &[i32; COLUMNS]) {
        for i in 0..COLUMNS {
            let magnitude = residuals[i].unsigned_abs().min(MAX_COUNTED_MAGNITUDE);
            self.zeros[i] += u32::from(magnitude == 0);
            self.rises[i] += u32::from((magnitude != 0) & (before[i] == 0));
            self.ones[i] += u32::from(magnitude == 1);
            self.two_bits[i] += u32::from(magnitude >> 1 == 1);
            self.three_bits[i] += u32::from(magnitude >> 2 == 1);
            self.large[i] += u32::from(magnitude >= LARGE_MAGNITUDE);
            self.negative[i] += residuals[i].cast_unsigned() >> 31 & u32::from(magnitude < LARGE_MAGNITUDE);
            self.exponents[i] += (magnitude as f32).to_bits() >> 23;
        }
    }
}

impl ResidualStats {
    /// Statistics of differences. Call it in a [`crate::simd::widely_vectorized`] body.
    #[inline(always)]
    pub(super) fn of_differences(differences: &[i32]) -> Self {
        Self::of(
            differences,
            #[inline(always)]
            |difference| difference,
        )
    }

    /// Statistics of residuals of interpolation. An escape counts as a zero and as an outlier. Call it in a [`crate::simd::widely_vectorized`] body.
    #[inline(always)]
    pub(super) fn of_residuals(residuals: &[i32]) -> Self {
        let mut stats = Self::of(
            residuals,
            #[inline(always)]
            |residual| if is_escape(residual) { 0 } else { residual },
        );
        stats.outliers = residuals.iter().map(|&residual| u64::from(is_escape(residual))).sum();
        stats
    }

    /// Statistics of residuals that `steps` turns into numbers of steps.
    #[inline(always)]
    fn of(residuals: &[i32], steps: impl Fn(i32) -> i32) -> Self {
        let mut stats = Self::default();
        let Some((&first, others)) = residuals.split_first() else { return stats };
        let mut columns = ColumnSums::default();
        let mut alone = [0; COLUMNS];
        alone[0] = steps(first);
        columns.add(&alone, &[1; COLUMNS]);
        let (groups, rest) = others.as_chunks::<COLUMNS>();
        let (before, before_rest) = residuals[..others.len()].as_chunks::<COLUMNS>();
        for (group, before) in groups.iter().zip(before) {
            columns.add(&std::array::from_fn(|i| steps(group[i])), &std::array::from_fn(|i| steps(before[i])));
        }
        // The last group is filled up, as the compiler makes vector code of loops with a constant length.
        let (mut last, mut before_last) = ([0; COLUMNS], [1; COLUMNS]);
        for (i, (&residual, &before)) in rest.iter().zip(before_rest).enumerate() {
            (last[i], before_last[i]) = (steps(residual), steps(before));
        }
        columns.add(&last, &before_last);
        stats.add(&columns, residuals.len(), COLUMNS - 1 + COLUMNS - rest.len());
        stats
    }

    /// Adds the sums over `values` residuals and `zeros` padding zeros. The padding does not count.
    #[inline(always)]
    pub(super) fn add(&mut self, columns: &ColumnSums, values: usize, zeros: usize) {
        let sum = |columns: &[u32; COLUMNS]| columns.iter().map(|&column| u64::from(column)).sum::<u64>();
        let zeros = sum(&columns.zeros) - zeros as u64;
        self.values += values as u64;
        self.zeros += zeros;
        self.rises += sum(&columns.rises);
        self.ones += sum(&columns.ones);
        self.two_bits += sum(&columns.two_bits);
        self.three_bits += sum(&columns.three_bits);
        self.large += sum(&columns.large);
        self.negative += sum(&columns.negative);
        self.magnitude_bits += sum(&columns.exponents) - EXPONENT_MINUS_BITS * (values as u64 - zeros);
    }

    /// Adds the differences of a tile's 64-bit codes that count, by [`ResidualStats::add_one`]. They wrap to the width of the type's codes. Before the first
    /// difference there is an arbitrary number, with a mask.
    #[inline(always)]
    pub(super) fn add_wide<C: Integer>(&mut self, differences: &[i64], counted: &[i32]) {
        let wrapped = |difference| C::from_i64(difference).to_i64();
        let pairs = differences[1..].iter().zip(differences);
        // Counts in a variable stay in registers.
        let mut stats = *self;
        for ((&here, &before), (&counts, &counts_before)) in pairs.zip(counted[1..].iter().zip(counted)) {
            stats.add_one(wrapped(here), counts_before != 0 && wrapped(before) == 0, counts != 0);
        }
        *self = stats;
    }

    /// Adds one difference if it counts. It has been wrapped to the width of its code and is not limited to [`MAX_COUNTED_MAGNITUDE`].
    #[inline(always)]
    pub(super) fn add_one(&mut self, difference: i64, is_behind_zero: bool, counts: bool) {
        let magnitude = difference.unsigned_abs();
        self.values += u64::from(counts);
        self.zeros += u64::from(counts & (magnitude == 0));
        self.rises += u64::from(counts & (magnitude != 0) & is_behind_zero);
        self.ones += u64::from(counts & (magnitude == 1));
        self.two_bits += u64::from(counts & (magnitude >> 1 == 1));
        self.three_bits += u64::from(counts & (magnitude >> 2 == 1));
        self.large += u64::from(counts & (magnitude >= LARGE_MAGNITUDE.into()));
        self.negative += u64::from(counts & (difference < 0) & (magnitude < LARGE_MAGNITUDE.into()));
        let bits = u64::from(u64::BITS - magnitude.leading_zeros());
        self.magnitude_bits += if counts { bits } else { 0 };
    }

    /// Whether zeros take fewer bits as exceptions than as escapes.
    pub(super) fn masks_zeros(&self) -> bool {
        EDGE_BITS * self.zero_edges < OUTLIER_BITS * self.zero_escapes
    }

    /// Whether these residuals of interpolation are estimated to take fewer bits per value than differences.
    pub(super) fn are_better_than(&self, differences: &Estimate) -> bool {
        let sixteenths = if self.masks_zeros() { MASKED_SIXTEENTHS } else { 16 };
        let as_escapes = Self { outliers: self.outliers + self.zero_escapes, zero_escapes: 0, ..*self };
        self.estimate().is_below(sixteenths, differences) || as_escapes.estimate().is_below(16, differences)
    }

    /// Bits below the highest one of all magnitudes: a lower bound of the estimate.
    fn low_bits(&self) -> u64 {
        self.magnitude_bits - (self.values - self.zeros)
    }

    /// Estimate of the bits that the residuals take, in fixed point (FORMAT.md §11.3).
    pub(super) fn bits(&self) -> u64 {
        let nonzero = self.values - self.zeros;
        let rises = self.rises.min(nonzero).min(self.zeros);
        let small = nonzero - self.large;
        let from_two_bits = nonzero - self.ones;
        let from_three_bits = from_two_bits - self.two_bits;
        let from_four_bits = from_three_bits - self.three_bits;
        // Bits of longer magnitudes, from the fourth one below the highest on: each either is the last one or is not.
        let further = self.low_bits() - self.two_bits - 2 * self.three_bits - 3 * from_four_bits;
        const COUNTS: usize = 17;
        let counts: [u64; COUNTS] = [
            self.values,
            self.zeros,
            nonzero,
            rises,
            self.zeros - rises,
            nonzero - rises,
            small,
            self.negative,
            small - self.negative,
            self.ones,
            from_two_bits,
            self.two_bits,
            from_three_bits,
            self.three_bits,
            from_four_bits,
            further,
            from_four_bits + further,
        ];
        let logarithms = widely_vectorized(
            #[inline(always)]
            || log2_fixed_of_all(counts),
        );
        // `count * log2(count)`.
        let weighted: [u64; COUNTS] = std::array::from_fn(|i| counts[i] * logarithms[i]);
        let [of_values, of_zeros, of_nonzero, of_rises, of_other_zeros, of_others, of_small, of_negative, of_positive, ..] =
            weighted;
        let [.., of_ones, of_two_up, of_two, of_three_up, of_three, of_four_up, of_further, of_all_further] = weighted;
        // Bits that say to which of two kinds each of a number of residuals belongs.
        let split = |both: u64, first: u64, second: u64| both.saturating_sub(first + second);
        let zeros = split(of_values, of_zeros, of_nonzero)
            .min(split(of_zeros, of_rises, of_other_zeros) + split(of_nonzero, of_rises, of_others));
        let signs = split(of_small, of_negative, of_positive);
        let short = split(of_nonzero, of_ones, of_two_up)
            + split(of_two_up, of_two, of_three_up)
            + split(of_three_up, of_three, of_four_up);
        let long = split(of_all_further, of_four_up, of_further);
        let of_zeros = if self.masks_zeros() { EDGE_BITS * self.zero_edges } else { OUTLIER_BITS * self.zero_escapes };
        let whole = self.large + self.low_bits() + OUTLIER_BITS * self.outliers + of_zeros;
        zeros + signs + short + long + (whole << LOG_FRACTION)
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
    /// The estimate with `numerator / denominator` times the bits, rounded down; as it is if the denominator is 0.
    pub(super) fn times(self, numerator: u64, denominator: u64) -> Self {
        let product = u128::from(self.bits) * u128::from(numerator);
        Self { bits: product.checked_div(denominator.into()).map_or(self.bits, |bits| bits as u64), ..self }
    }

    /// Whether another estimate has more bits per value, by more than `margin`.
    pub(super) fn is_exceeded_by(&self, margin: u64, other: &Self) -> bool {
        let most = u128::from(self.bits) + u128::from(margin) * u128::from(self.values);
        u128::from(other.bits) * u128::from(self.values) > most * u128::from(other.values)
    }

    /// Whether the bits per value are below `sixteenths` / 16 of those of another estimate.
    pub(super) fn is_below(&self, sixteenths: u128, other: &Self) -> bool {
        16 * u128::from(self.bits) * u128::from(other.values) < sixteenths * u128::from(other.bits) * u128::from(self.values)
    }
}

/// [`best_set`] of a chunk, from statistics of values that have a neighbour before them along every axis. A value that is the first one along some axes of a
/// set has the differences along the other axes of the set. Returns the set and its estimate, for the number of values
/// that were measured.
pub(super) fn best_set_with_edges(stats: &StatsOfSets, shape: &Shape) -> (usize, u64) {
    let (sets, flat) = sets_of(shape);
    let mut bits = bits_of_sets(stats, shape);
    for (axis, extent) in shape.extents().into_iter().enumerate() {
        for set in (0..sets).filter(|set| set & flat == 0 && set >> axis & 1 == 1) {
            bits[set] = (bits[set] * (extent as u128 - 1) + bits[set ^ 1 << axis]) / extent as u128;
        }
    }
    let set = least_set(&bits, shape);
    (set, bits[set] as u64)
}

/// The set of axes whose differences have the least estimate ([`least_set`]), and the estimate.
pub(super) fn best_set(stats: &StatsOfSets, shape: &Shape) -> (usize, Estimate) {
    let bits = bits_of_sets(stats, shape);
    let set = least_set(&bits, shape);
    (set, Estimate { bits: bits[set] as u64, values: stats[set].values })
}

/// The estimates of the sets of axes longer than 1; 0 for other sets.
fn bits_of_sets(stats: &StatsOfSets, shape: &Shape) -> [u128; 1 << MAX_RANK] {
    let (sets, flat) = sets_of(shape);
    std::array::from_fn(|set| if set < sets && set & flat == 0 { stats[set].bits().into() } else { 0 })
}

/// The set of axes with the least number of bits, of sets with equal numbers the first one. But the empty set is the last one of those without bits: a sample
/// whose codes are all 0 says nothing of other values, and codes that change slowly take many times as long without a prediction.
fn least_set(bits: &[u128; 1 << MAX_RANK], shape: &Shape) -> usize {
    let (sets, flat) = sets_of(shape);
    let of_sets = (0..sets).filter(|set| set & flat == 0);
    of_sets.min_by_key(|&set| (bits[set], set == 0 && bits[set] == 0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_by_one(values: &[i32]) -> ResidualStats {
        let mut stats = ResidualStats::default();
        for (i, &value) in values.iter().enumerate() {
            stats.add_one(value.into(), i > 0 && values[i - 1] == 0, true);
        }
        stats
    }

    fn counts(stats: &ResidualStats) -> [u64; 10] {
        let &ResidualStats {
            values, zeros, rises, ones, two_bits, three_bits, large, negative, magnitude_bits, outliers, ..
        } = stats;
        [values, zeros, rises, ones, two_bits, three_bits, large, negative, magnitude_bits, outliers]
    }

    #[test]
    fn differences_are_counted_at_any_length() {
        let values: Vec<i32> = (0..200)
            .map(|i: i32| [0, 1, -1, 2, -3, 0, 255, -256, 32_767, -32_768, 7, -4, 15, -16][(i * i % 14) as usize])
            .collect();
        for len in 0..values.len() {
            let values = &values[..len];
            assert_eq!(counts(&ResidualStats::of_differences(values)), counts(&one_by_one(values)), "{len} values");
            assert_eq!(counts(&ResidualStats::of_residuals(values)), counts(&one_by_one(values)), "{len} values");
        }
    }

    #[test]
    fn magnitudes_have_their_length_in_bits_up_to_16() {
        for (value, bits) in
            [(0, 0), (1, 1), (-1, 1), (2, 2), (3, 2), (4, 3), (-32_767, 15), (32_768, 16), (i32::MAX, 16), (i32::MIN, 16)]
        {
            assert_eq!(ResidualStats::of_differences(&[value]).magnitude_bits, bits, "{value}");
        }
        let mut wide = ResidualStats::default();
        wide.add_one(i64::MIN, true, true);
        assert_eq!((wide.magnitude_bits, wide.rises, wide.large, wide.negative), (64, 1, 1, 0));
    }

    #[test]
    fn escapes_are_outliers_and_otherwise_zeros() {
        let residuals = [65_535, -65_535, 65_536, -65_536, i32::MIN, i32::MAX, 0, 1];
        assert_eq!(counts(&ResidualStats::of_residuals(&residuals)), [8, 5, 1, 1, 0, 0, 2, 0, 16 + 16 + 1, 4]);
    }

    #[test]
    fn estimates_are_entropies() {
        // Zeros, ones, magnitudes of 2 bits, of 3 bits, of more bits; large ones, negative small ones, rises, bits of all magnitudes, outliers.
        for (zeros, of_length, large, negative, rises, magnitude_bits, outliers) in [
            (1000, [0, 0, 0, 0], 0, 0, 0, 0, 0),
            (0, [1000, 0, 0, 0], 0, 500, 0, 1000, 0),
            (500, [500, 0, 0, 0], 0, 10, 20, 500, 3),
            (500, [100, 100, 100, 200], 150, 250, 500, 1700, 0),
            (100, [5, 7, 0, 3984], 3900, 40, 90, 30_000, 0),
            (3, [2, 0, 1, 1], 1, 2, 1, 11, 7),
        ] {
            let [ones, two_bits, three_bits, longer] = of_length;
            let nonzero: u64 = of_length.iter().sum();
            let stats = ResidualStats {
                values: zeros + nonzero,
                zeros,
                rises,
                ones,
                two_bits,
                three_bits,
                large,
                negative,
                magnitude_bits,
                outliers,
                ..ResidualStats::default()
            };
            let entropy = |counts: &[u64]| {
                let total: u64 = counts.iter().sum();
                let of_count = |count: u64| count as f64 * (total as f64 / count as f64).log2();
                counts.iter().filter(|&&count| count > 0).map(|&count| of_count(count)).sum::<f64>()
            };
            // Zeros are drawn one by one, or depend on whether the residual before is 0.
            let (behind_zeros, others) = (rises.min(nonzero).min(zeros), rises.min(nonzero).min(zeros));
            let of_zeros = entropy(&[zeros, nonzero])
                .min(entropy(&[behind_zeros, zeros - behind_zeros]) + entropy(&[others, nonzero - others]));
            // Lengths of four bits and more are distributed geometrically: each further bit is a draw whether the length ends with it.
            let further = magnitude_bits - ones - 2 * two_bits - 3 * three_bits - 4 * longer;
            let low_bits = magnitude_bits - nonzero;
            let expected = of_zeros
                + entropy(&[negative, nonzero - large - negative])
                + entropy(&of_length)
                + entropy(&[longer, further])
                + (large + low_bits + 40 * outliers) as f64;
            let bits = stats.bits() as f64 / f64::from(1 << LOG_FRACTION);
            assert!((bits - expected).abs() <= 1.0 + expected * 1e-3, "{bits} is not {expected}");
        }
        assert_eq!(ResidualStats::default().bits(), 0);
    }

    #[test]
    fn first_values_along_an_axis_have_the_differences_along_the_others() {
        // In a chunk [4][5], set {x} leaves 1 bit a value, {y} 2, both 1, and none 10.
        let shape = Shape::new(&[4, 5]).unwrap();
        let of =
            |bits_a_value: u64| ResidualStats { values: 60, zeros: 60, outliers: 60 * bits_a_value, ..ResidualStats::default() };
        let stats: StatsOfSets = std::array::from_fn(|set| of([10, 1, 2, 1][set % 4]));
        // In fortieths of the bits of one outlier: 4 of 5 values have a neighbour along x, 3 of 4 along y.
        let whole = |set: usize| -> f64 {
            [10.0, 0.8 + 0.2 * 10.0, 0.75 * 2.0 + 0.25 * 10.0, 0.75 * (0.8 + 0.2 * 2.0) + 0.25 * (0.8 + 2.0)][set]
        };
        let (set, bits) = best_set_with_edges(&stats, &shape);
        let best = (0..4).min_by(|&a, &b| whole(a).total_cmp(&whole(b))).unwrap();
        assert_eq!(set, best);
        let expected = whole(set) * ((60 * OUTLIER_BITS) << LOG_FRACTION) as f64;
        assert!((bits as f64 - expected).abs() < 4.0, "{bits} is not {expected}");
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
    fn estimates_are_multiplied_by_fractions() {
        let of = |bits| Estimate { bits, values: 7 };
        assert_eq!((of(100).times(3, 7).bits, of(100).times(3, 7).values), (42, 7));
        assert_eq!((of(u64::MAX).times(5, 5).bits, of(9).times(5, 0).bits), (u64::MAX, 9));
    }

    #[test]
    fn the_best_set_has_the_least_bits_and_no_flat_axis() {
        let shape = Shape::new(&[4, 1, 5]).unwrap();
        let of = |magnitude_bits| ResidualStats { values: 100, magnitude_bits, ..ResidualStats::default() };
        for best in [0b000, 0b001, 0b100, 0b101] {
            let mut stats: StatsOfSets = std::array::from_fn(|set| of(if set == best { 300 } else { 500 + set as u64 }));
            // Axis 1 is flat: its sets are not taken, however small their estimates.
            [0b010, 0b011, 0b110, 0b111].into_iter().for_each(|set| stats[set] = of(100));
            assert_eq!((best_set(&stats, &shape).0, best_set_with_edges(&stats, &shape).0), (best, best));
        }
        let zeros = ResidualStats { values: 100, zeros: 100, ..ResidualStats::default() };
        let point = Shape::new(&[1, 1]).unwrap();
        for (stats, shape, set, why) in [
            (of(300), shape, 0, "of equal sets the first one"),
            (zeros, shape, 1, "without bits the empty set is the last one"),
            (zeros, point, 0, "there is no other set"),
        ] {
            assert_eq!((best_set(&[stats; 16], &shape).0, best_set_with_edges(&[stats; 16], &shape).0), (set, set), "{why}");
        }
    }
}
