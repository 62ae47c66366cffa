//! Finds the decimal lattice of a chunk (FORMAT.md §11.1): the multiples of 0.01 for values that were rounded to two decimals.
//!
//! No power of two divides such values, so they have no lattice of [`crate::quantize::lattice`]. But a code times 0.01, rounded to the type, gives back the bits
//! of most of them in binary64, and of all in narrower types. The codes are small, where the bits of the values differ in all digits.

use crate::layout::ByteOrder;
use crate::number::value::Value;
use crate::quantize::lattice;
use crate::quantize::linear::quantize_one;
use crate::quantize::quantizer::Quantizer;

/// The steps that are tried, the greatest first.
const STEPS: [f64; 27] = [
    50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6,
    2e-6, 1e-6, 5e-7, 2e-7, 1e-7,
];
/// Number of values of a chunk on which the steps are tried.
const SAMPLE: usize = 128;
/// Distance of two sampled values, in 2^-32 of the chunk, modulo the chunk: the golden ratio, so that no row length makes all of them values of one column.
const SAMPLE_STRIDE: u32 = 0x9e37_79b9;
/// Fewest sampled values that a step must restore.
const LEAST_RESTORED: usize = 32;
/// A step must restore this share of the sampled values that count, in eighths. A half of the multiples of any step are multiples of twice that step.
const LEAST_EIGHTHS_RESTORED: usize = 5;
/// Of the steps that restore the most values, or at most 1 / this fewer, the greatest is taken.
const SLACK_DIVISOR: usize = 16;
/// A value counts for a step if its code is below 1 / this of [`Value::SAFE_CODE_LIMIT`]. Larger codes restore values that are no multiples by chance.
const CHANCE: f64 = 8.0;

/// The grid of the decimal step that restores the bits of most values, if a sample shows one. On it -0 is an exception. `spacing` is that of the lattice of
/// [`lattice::exact_spacing`]: a step must be greater to be of use.
pub(crate) fn exact_grid<V: Value>(chunk: &[u8], order: ByteOrder, spacing: Option<f64>) -> Option<Quantizer> {
    let step = sampled_step::<V>(chunk, order).filter(|&step| spacing.is_none_or(|spacing| spacing < step))?;
    // The kernels would take the wider lattice.
    if spacing.is_none() && lattice::spacing::<V>(chunk, order, step, None).is_some() {
        return None;
    }
    let negative_zero = V::round_from(-0.0);
    let has_negative_zero =
        (0..chunk.len() / V::SIZE).any(|index| V::read(chunk, index, order).to_bits() == negative_zero.to_bits());
    Some(Quantizer::exact(step).with_fill(has_negative_zero.then(|| negative_zero.to_bits_i64())))
}

/// The greatest of the steps that restore about the most values of a sample.
fn sampled_step<V: Value>(chunk: &[u8], order: ByteOrder) -> Option<f64> {
    let count = chunk.len() / V::SIZE;
    let sampled = count.min(SAMPLE);
    let mut values = [V::default(); SAMPLE];
    for (number, value) in (0..).zip(&mut values[..sampled]) {
        let fraction = SAMPLE_STRIDE.wrapping_mul(number);
        *value = V::read(chunk, ((u128::from(fraction) * count as u128) >> 32) as usize, order);
    }
    let restored = STEPS.map(|step| restored(&values[..sampled], step));
    let most = restored.into_iter().max().filter(|&most| most >= LEAST_RESTORED)?;
    let enough = most - most / SLACK_DIVISOR;
    STEPS.into_iter().zip(restored).find(|&(_, restored)| restored >= enough).map(|(step, _)| step)
}

/// Number of sampled values that a step restores; 0 if it restores too small a share of those that count. Zeros do not count: every step restores them.
fn restored<V: Value>(sample: &[V], step: f64) -> usize {
    let quantizer = Quantizer::exact(step);
    let (mut counted, mut missed) = (0, 0);
    for &value in sample {
        let steps = (value.to_f64() * quantizer.inverse_step()).abs();
        // False for NaN.
        if steps > 0.0 && steps < V::SAFE_CODE_LIMIT / CHANCE {
            counted += 1;
            missed += usize::from(quantize_one(value, &quantizer).is_none());
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

    fn grid_of<V: Value>(values: &[f64]) -> Option<Quantizer> {
        let mut chunk = vec![0; values.len() * V::SIZE];
        V::write_all(values, V::round_from, ByteOrder::Big, &mut chunk);
        exact_grid::<V>(&chunk, ByteOrder::Big, lattice::exact_spacing::<V>(&chunk, ByteOrder::Big))
    }

    fn steps_of(values: &[f64]) -> [Option<f64>; 2] {
        [grid_of::<f32>(values), grid_of::<f64>(values)].map(|grid| grid.map(|grid| grid.step()))
    }

    /// Decimals: whole numbers without a pattern, over `inverse`.
    fn decimals(inverse: f64) -> Vec<f64> {
        (0..1000).map(|index| f64::from(index * index % 1009 - 400) / inverse).collect()
    }

    #[test]
    fn decimals_have_their_step() {
        assert_eq!(steps_of(&decimals(1e2)), [Some(0.01); 2]);
        assert_eq!(steps_of(&decimals(1e3)), [Some(1e-3); 2]);
        // In binary64 0.05 restores 65 % of its multiples, and 0.01 restores 86 % of them.
        assert_eq!(steps_of(&decimals(20.0)), [Some(0.05), Some(0.01)]);
        assert_eq!(steps_of(&decimals(0.1)), [Some(10.0); 2]);
    }

    #[test]
    fn other_values_have_none() {
        let irrational: Vec<f64> = (1..1000).map(|index| f64::from(index).sqrt() * 100.0).collect();
        assert_eq!(steps_of(&irrational), [None; 2]);
        assert_eq!(steps_of(&decimals(1e2)[..LEAST_RESTORED - 1]), [None; 2], "too few");
        for same in [0.0, -0.0, f64::NAN, f64::INFINITY, 1e35] {
            assert_eq!(steps_of(&[same; 1000]), [None; 2], "{same}");
        }
        assert_eq!(steps_of(&[]), [None; 2]);
        let fours: Vec<f64> = decimals(0.25);
        assert_eq!(steps_of(&fours), [None; 2], "2 divides all, but so does a wider power of two");
    }

    #[test]
    fn values_that_are_no_decimals_do_not_count_where_they_are_rare() {
        let mut values = decimals(1e2);
        values.iter_mut().step_by(3).for_each(|value| *value = 1e34);
        values.iter_mut().skip(1).step_by(4).for_each(|value| *value = f64::NAN);
        values.iter_mut().skip(2).step_by(9).for_each(|value| *value *= 1.003_173_1);
        assert_eq!(steps_of(&values), [Some(0.01); 2]);
        assert!(grid_of::<f32>(&values).unwrap().fill().is_none());
        values[17] = -0.0;
        assert_eq!(grid_of::<f32>(&values).unwrap().fill(), Some(i64::from(i32::MIN)), "-0 is an exception");
    }

    #[test]
    fn all_decimals_of_binary32_are_restored() {
        for step in STEPS {
            let grid = Quantizer::exact(step);
            for code in (0..1 << 19).step_by(37) {
                let value = (f64::from(code) * step) as f32;
                assert_eq!(quantize_one(value, &grid), Some(code), "{code} times {step}");
            }
        }
    }
}
