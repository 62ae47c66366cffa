//! What predictors leave of values, counted, and the bits that this is likely to take.

use super::sets_of;
use super::tile::COLUMNS;
use crate::layout::{MAX_RANK, Shape};
use crate::number::fixed_log2::{LOG_FRACTION, log2_fixed};
use crate::quantize::fine_grid::ESCAPE_FROM;

/// Differences beyond this magnitude count as this one: a few spikes are not to decide.
const LARGEST: u32 = 1 << 15;
/// The bits of a whole number's magnitude are so much below a float's exponent.
const EXPONENT_OF_NO_BITS: u64 = 126;
/// Bits that a value costs which needs a position of its own: an exception or an escape.
const RARE_BITS: u64 = 40;

/// What is known of the values that a predictor leaves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ResidualStats {
    pub values: u64,
    pub zeros: u64,
    /// Bits of all magnitudes.
    pub lengths: u64,
    /// Values that need a position of their own.
    pub rare: u64,
}

/// What differences along each set of axes leave.
pub(super) type OfSets = [ResidualStats; 1 << MAX_RANK];

/// Counts of values, a column for each position in a vector: sums over the columns are taken once for many values.
#[derive(Default)]
pub(super) struct Columns {
    zeros: [u32; COLUMNS],
    /// Exponents of the magnitudes as floats, which tell their bits in vector code: [`EXPONENT_OF_NO_BITS`] more of each but of zeros.
    exponents: [u32; COLUMNS],
}

impl Columns {
    #[inline(always)]
    pub(super) fn add(&mut self, values: &[i32]) {
        for ((&value, zeros), exponents) in values.iter().zip(&mut self.zeros).zip(&mut self.exponents) {
            *zeros += u32::from(value == 0);
            let magnitude = value.unsigned_abs().min(LARGEST) as f32;
            *exponents += magnitude.to_bits() >> 23;
        }
    }
}

impl ResidualStats {
    /// Those of differences. To be called in a [`crate::simd::vectorized`] body.
    #[inline(always)]
    pub(super) fn of(differences: &[i32]) -> Self {
        let (mut columns, mut left) = (Columns::default(), Self::default());
        let (groups, rest) = differences.as_chunks::<COLUMNS>();
        groups.iter().for_each(
            #[inline(always)]
            |group| columns.add(group),
        );
        columns.add(rest);
        left.add(&columns, differences.len(), 0);
        left
    }

    /// Those of what interpolation leaves. To be called in a [`crate::simd::vectorized`] body.
    #[inline(always)]
    pub(super) fn of_residuals(residuals: &[i32]) -> Self {
        let (mut columns, mut escapes) = (Columns::default(), [0; COLUMNS]);
        // Groups of one length: where the length is not known, compilers take one value at a time.
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
        let mut left = Self::default();
        left.add(&columns, residuals.len(), COLUMNS - rest.len());
        left.rare = escapes.iter().map(|&escapes| u64::from(escapes)).sum();
        left
    }

    /// Adds what was counted of so many values, and of some zeros more.
    #[inline(always)]
    pub(super) fn add(&mut self, columns: &Columns, values: usize, zeros: usize) {
        let sum = |columns: &[u32; COLUMNS]| columns.iter().map(|&column| u64::from(column)).sum::<u64>();
        let zeros = sum(&columns.zeros) - zeros as u64;
        self.values += values as u64;
        self.zeros += zeros;
        self.lengths += sum(&columns.exponents) - EXPONENT_OF_NO_BITS * (values as u64 - zeros);
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            zeros: self.zeros + other.zeros,
            lengths: self.lengths + other.lengths,
            rare: self.rare + other.rare,
        }
    }

    /// Adds a difference that wraps in no more bits than it is to.
    #[inline(always)]
    pub(super) fn add_one(&mut self, difference: i64) {
        let magnitude = difference.unsigned_abs();
        self.values += 1;
        self.zeros += u64::from(magnitude == 0);
        self.lengths += u64::from(u64::BITS - magnitude.leading_zeros());
    }

    /// Estimate of the bits, in fixed point: the entropy of being zero or not; for others a sign, their bits below the highest, and the
    /// entropy of a geometric distribution of their lengths.
    pub(super) fn bits(&self) -> u64 {
        let weighted = |count: u64| if count == 0 { 0 } else { count * log2_fixed(count) };
        let nonzero = self.values - self.zeros;
        let of_nonzero = weighted(nonzero);
        let whether = weighted(self.values).saturating_sub(weighted(self.zeros) + of_nonzero);
        let lengths = weighted(self.lengths).saturating_sub(weighted(self.lengths - nonzero) + of_nonzero);
        // A sign takes the position of the highest bit.
        whether + lengths + ((self.lengths + RARE_BITS * self.rare) << LOG_FRACTION)
    }

    pub(super) fn estimate(&self) -> Estimate {
        Estimate { bits: self.bits(), values: self.values }
    }
}

/// The estimate of the bits of so many values, in fixed point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub bits: u64,
    pub values: u64,
}

impl Estimate {
    /// Whether it is less a value than so many sixteenths of another.
    pub(super) fn is_below(&self, sixteenths: u128, other: &Self) -> bool {
        16 * u128::from(self.bits) * u128::from(other.values) < sixteenths * u128::from(other.bits) * u128::from(self.values)
    }
}

/// The set of axes whose differences have the least estimate, of equals the one with the higher bits.
pub(super) fn best_set(left: &OfSets, shape: &Shape) -> (usize, Estimate) {
    let (sets, flat) = sets_of(shape);
    let mut of_sets = (0..sets).rev().filter(|set| set & flat == 0);
    let first = of_sets.next().unwrap_or(0);
    let mut best = (first, left[first].estimate());
    for set in of_sets {
        // Logarithms take time: a set of which the magnitudes alone are too much needs none.
        if left[set].lengths << LOG_FRACTION < best.1.bits {
            let estimate = left[set].estimate();
            best = if estimate.bits < best.1.bits { (set, estimate) } else { best };
        }
    }
    best
}
