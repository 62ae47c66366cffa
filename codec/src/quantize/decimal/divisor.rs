//! Finds the divisor of a chunk's decimals (FORMAT.md §11.1): 100 for values that were rounded to two decimals.

use crate::layout::ByteOrder;
use crate::number::value::Value;
use crate::quantize::decimal::Decimal;

/// The divisors that are tried, the least first.
const DIVISORS: [u64; 22] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];
/// Number of values of a chunk on which the divisors are tried.
const SAMPLE: usize = 128;
/// Distance from a sampled value to the next, as a 32-bit fraction of the chunk's length. The distance is the golden ratio, so that no row length puts all
/// sampled values in one column. Behind the chunk's end, the sample goes on from its start.
pub const SAMPLE_STRIDE: u32 = 0x9e37_79b9;
/// Fewest sampled values that a divisor must restore.
const LEAST_RESTORED: usize = 32;
/// A divisor must restore this share of the sampled values that count, in eighths. It is above one half, because a divisor of
/// half the right size restores half of all decimals.
const LEAST_EIGHTHS_RESTORED: usize = 5;
/// Let `n` be the greatest number of values that a divisor restores. The least divisor is taken of those that restore at least
/// `n - n / SLACK_DIVISOR` values.
const SLACK_DIVISOR: usize = 16;
/// A value counts for a divisor if its code is below [`Value::SAFE_CODE_LIMIT`], divided by this. By chance, larger codes restore
/// values that are no decimals.
pub const CHANCE: f64 = 8.0;

/// The grid of the divisor that restores the bits of most sampled values, if there is one. `spacing` is that of
/// [`crate::quantize::lattice::exact_spacing`]. There must be no such lattice, or its spacing must be less than the grid's step,
/// so that the grid's codes are smaller.
pub(crate) fn exact_grid<V: Value>(chunk: &[u8], order: ByteOrder, spacing: Option<f64>) -> Option<Decimal> {
    let count = chunk.len() / V::SIZE;
    let sampled = count.min(SAMPLE);
    let mut values = [V::default(); SAMPLE];
    for (number, value) in values[..sampled].iter_mut().enumerate() {
        *value = V::read(chunk, sampled_index(number, count), order);
    }
    let grids = DIVISORS.map(|divisor| Decimal { divisor: divisor as f64 });
    let restored = grids.map(|grid| restored(&values[..sampled], &grid));
    let most = restored.into_iter().max().filter(|&most| most >= LEAST_RESTORED)?;
    let enough = most - most / SLACK_DIVISOR;
    let (grid, _) = grids.into_iter().zip(restored).find(|&(_, restored)| restored >= enough)?;
    spacing.is_none_or(|spacing| spacing < grid.step()).then_some(grid)
}

/// Index of a sampled value, by its number in the sample, in a chunk of `count` values. The first values of a sample, however
/// many they are, are spread over the chunk.
#[inline]
pub(crate) fn sampled_index(number: usize, count: usize) -> usize {
    let fraction = SAMPLE_STRIDE.wrapping_mul(number as u32);
    ((u128::from(fraction) * count as u128) >> 32) as usize
}

/// Whether a code of this magnitude tells decimals from other values.
#[inline]
pub(crate) fn is_telling<V: Value>(code: f64) -> bool {
    code < V::SAFE_CODE_LIMIT / CHANCE
}

/// Number of sampled values that a grid restores; 0 if it restores too small a share of those that count. Zeros do not count: every grid restores them.
fn restored<V: Value>(sample: &[V], grid: &Decimal) -> usize {
    let (mut counted, mut missed) = (0, 0);
    for &value in sample {
        let code = (value.to_f64() * grid.divisor).abs();
        // False for NaN.
        if code > 0.0 && is_telling::<V>(code) {
            counted += 1;
            missed += usize::from(grid.code(value).is_none());
            if 8 * missed > (8 - LEAST_EIGHTHS_RESTORED) * sample.len() {
                return 0;
            }
        }
    }
    if 8 * (counted - missed) < LEAST_EIGHTHS_RESTORED * counted { 0 } else { counted - missed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::chunk_of;
    use crate::quantize::lattice;

    fn divisor_of<V: Value>(values: &[f64]) -> Option<u64> {
        let values: Vec<V> = values.iter().copied().map(V::round_from).collect();
        let chunk = chunk_of(&values, ByteOrder::Big);
        let spacing = lattice::exact_spacing::<V>(&chunk, ByteOrder::Big);
        exact_grid::<V>(&chunk, ByteOrder::Big, spacing).map(|grid| grid.divisor())
    }

    fn divisors_of(values: &[f64]) -> [Option<u64>; 2] {
        [divisor_of::<f32>(values), divisor_of::<f64>(values)]
    }

    /// Decimals: whole numbers without a pattern, over `divisor`.
    fn decimals(divisor: f64) -> Vec<f64> {
        (0..1000).map(|index| f64::from(index * index % 1009 - 400) / divisor).collect()
    }

    #[test]
    fn decimals_have_their_divisor() {
        for divisor in DIVISORS.into_iter().filter(|&divisor| divisor > 2) {
            assert_eq!(divisors_of(&decimals(divisor as f64)), [Some(divisor); 2]);
        }
        // With one value that is no half, the values have no lattice of 1/2.
        let mut halves = decimals(2.0);
        halves[500] = 0.3;
        assert_eq!(divisors_of(&halves), [Some(2); 2]);
    }

    #[test]
    fn other_values_have_none() {
        let irrational: Vec<f64> = (1..1000).map(|index| f64::from(index).sqrt() * 100.0).collect();
        assert_eq!(divisors_of(&irrational), [None; 2]);
        assert_eq!(divisors_of(&decimals(1e2)[..LEAST_RESTORED - 1]), [None; 2], "too few");
        for same in [0.0, -0.0, f64::NAN, f64::INFINITY, 1e35] {
            assert_eq!(divisors_of(&[same; 1000]), [None; 2], "{same}");
        }
        assert_eq!(divisors_of(&[]), [None; 2]);
        assert_eq!(divisors_of(&decimals(4.0)), [None; 2], "the lattice of 1/4 has smaller codes than the divisor 20");
    }

    #[test]
    fn values_that_are_no_decimals_do_not_count_where_they_are_rare() {
        let mut values = decimals(1e2);
        values.iter_mut().step_by(3).for_each(|value| *value = 1e34);
        values.iter_mut().skip(1).step_by(4).for_each(|value| *value = f64::NAN);
        values.iter_mut().skip(2).step_by(9).for_each(|value| *value *= 1.003_173_1);
        assert_eq!(divisors_of(&values), [Some(100); 2]);
    }
}
