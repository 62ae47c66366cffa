//! What the values of an array are worth by themselves: their digits, and an estimate of their noise.
//!
//! ```text
//! values ─> second differences along each axis in turn: what is linear along any axis is gone, noise is left and √6 times as large
//!        ─> the median of their magnitudes ─> standard deviation
//! ```
//!
//! The differences are those of Immerkær ("Fast Noise Variance Estimation", Computer Vision and Image Understanding 64(2), 1996), along up to three axes. The
//! median is that of Donoho and Johnstone ("Ideal spatial adaptation by wavelet shrinkage", Biometrika 81(3), 1994): edges and waves that are not resolved make
//! few of the differences larger.

use quire_codec::Scalar;
use serde::Serialize;

use crate::Field;
use crate::numbers::read_row;

/// The median magnitude of normally distributed values, in standard deviations.
const MEDIAN_OF_NORMAL: f64 = 0.674_489_750_196_081_7;
/// The greatest number of decimals that is tried.
const MOST_DECIMALS: i32 = 9;
/// Bits of the type that are to be left over. With fewer, digits may look so by chance.
const SPARE_BITS: i32 = 3;

/// What is known of an array's own precision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Precision {
    /// All values are multiples of this number, a power of ten or of two. `None` if there is none but what every value of the type has.
    pub unit: Option<f64>,
    /// Bits of fraction that each value does with, written as a number from 1 to 2 times a power of two. `None` if there is a unit, or if values need the bits of
    /// their type.
    pub bits: Option<i32>,
    /// Standard deviation of the noise, in the units of the data. `None` where none is seen.
    pub noise: Option<f64>,
}

impl Precision {
    /// Of an array in memory.
    #[must_use]
    pub fn of(field: &Field, bytes: &[u8]) -> Self {
        let mut values = numbers(field, bytes);
        let mut extents = [1; 3];
        field.shape.iter().rev().zip(extents.iter_mut().rev()).for_each(|(&from, to)| *to = from);
        let differences = values.chunks(extents.iter().product()).flat_map(|values| differences(values, extents)).collect();
        let noise = median(differences).filter(|&median| median > 0.0).map(|median| median / MEDIAN_OF_NORMAL);
        values.retain(|&value| value != 0.0 && !value.is_nan());
        let (unit, bits) = match field.scalar {
            Scalar::F32 | Scalar::C64 => digits(&values, f32::MANTISSA_DIGITS as i32, |value| f64::from(value as f32)),
            Scalar::F64 | Scalar::C128 => digits(&values, f64::MANTISSA_DIGITS as i32, |value| value),
            _ => (None, None),
        };
        Self { unit, bits, noise }
    }

    /// The bound that these digits are worth, as options: half a unit in the last place.
    #[must_use]
    pub fn options(&self) -> Option<String> {
        let of_bits = || self.bits.map(|bits| format!("pwrel={:e}", 0.5f64.powi(bits + 1)));
        self.unit.map(|unit| format!("abs={:e}", unit / 2.0)).or_else(of_bits)
    }
}

/// Unit, or else bits of fraction, of values other than 0. Their type has `type_bits` bits of significand and rounds by `rounded`.
fn digits(values: &[f64], type_bits: i32, rounded: impl Fn(f64) -> f64) -> (Option<f64>, Option<i32>) {
    let greatest = values.iter().fold(0.0, |greatest: f64, value| greatest.max(value.abs()));
    if greatest == 0.0 {
        return (None, None);
    }
    let is_telling = |unit: f64| greatest / unit < 2f64.powi(type_bits - SPARE_BITS);
    let is_decimal = |power: f64| values.iter().all(|&value| rounded((value * power).round() / power) == value);
    let mut powers = (0..=MOST_DECIMALS).map(|places| 10f64.powi(places)).take_while(|power| is_telling(1.0 / power));
    let decimal = powers.find(|&power| is_decimal(power)).map(f64::recip);
    let last_bit = values.iter().map(|&value| exponent(value) - fraction_bits(value)).fold(i32::MAX, i32::min);
    let bits = values.iter().map(|&value| fraction_bits(value)).fold(0, i32::max);
    let binary = 2f64.powi(last_bit);
    // Multiples of a power of two are decimals, too, of many places. Where each value has as few bits, the least values alone would decide that power.
    let is_unit = exponent(greatest) - last_bit <= bits && binary > 0.0 && is_telling(binary);
    match decimal.filter(|&unit| unit > binary).or(is_unit.then_some(binary)) {
        None => (None, Some(bits).filter(|bits| bits + SPARE_BITS < type_bits)),
        unit => (unit, None),
    }
}

fn exponent(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

fn fraction_bits(value: f64) -> i32 {
    52 - (value.to_bits() | 1 << 52).trailing_zeros() as i32
}

/// The second differences of a box along all axes that have three values, as large as the noise is.
fn differences(values: &[f64], mut extents: [usize; 3]) -> Vec<f64> {
    let (mut values, mut scale) = (values.to_vec(), 1.0);
    for axis in 0..3 {
        let stride: usize = extents[axis + 1..].iter().product();
        if extents[axis] < 3 {
            continue;
        }
        let of_layer = |layer: &[f64]| {
            let pairs = layer.iter().zip(&layer[stride..]).zip(&layer[2 * stride..]);
            pairs.map(|((before, value), after)| before - 2.0 * value + after).collect::<Vec<_>>()
        };
        values = values.chunks(stride * extents[axis]).flat_map(of_layer).collect();
        extents[axis] -= 2;
        scale *= 6f64.sqrt();
    }
    values.retain(|value| scale > 1.0 && !value.is_nan());
    values.into_iter().map(|value| value.abs() / scale).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The median magnitude of an array's values other than 0: what is typical of an ensemble's spread.
#[must_use]
pub fn typical(field: &Field, bytes: &[u8]) -> Option<f64> {
    median(numbers(field, bytes).into_iter().map(f64::abs).filter(|&value| value > 0.0).collect())
}

/// All values; of pairs first the one parts, then the other parts.
fn numbers(field: &Field, bytes: &[u8]) -> Vec<f64> {
    let parts = if field.scalar.is_pair() { 2 } else { 1 };
    let count = bytes.len() / field.scalar.element_size();
    let mut values = vec![0.0; parts * count];
    values.chunks_mut(count).enumerate().for_each(|(part, values)| read_row(field, bytes, part, values));
    values
}

#[cfg(test)]
mod tests {
    use quire_codec::ByteOrder;

    use super::*;

    /// Evenly distributed numbers from 0 to 1.
    fn random(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn precision(shape: &[usize], values: &[f64]) -> [Precision; 2] {
        let narrow: Vec<u8> = values.iter().flat_map(|&value| (value as f32).to_be_bytes()).collect();
        let wide: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let field = |scalar, order| Field { missing: vec![u64::from((-99f32).to_bits())], ..Field::new(shape, scalar, order) };
        let of_wide = Field { missing: vec![(-99f64).to_bits()], ..field(Scalar::F64, ByteOrder::Little) };
        [Precision::of(&field(Scalar::F32, ByteOrder::Big), &narrow), Precision::of(&of_wide, &wide)]
    }

    #[test]
    fn noise_is_told_from_waves() {
        let mut random = random(1);
        let mut normal = |deviation: f64| deviation * ((0..12).map(|_| random()).sum::<f64>() - 6.0);
        for shape in [&[20_000][..], &[150, 150], &[20, 30, 40], &[3, 2, 60, 70]] {
            for deviation in [0.01, 1.0] {
                let columns = shape[shape.len() - 1];
                let wave = |index: usize| 280.0 + 30.0 * ((index % columns) as f64 / 9.0).sin() + (index / columns) as f64 / 7.0;
                let mut values: Vec<f64> = (0..shape.iter().product()).map(|index| wave(index) + normal(deviation)).collect();
                values.iter_mut().step_by(50).for_each(|value| *value = -99.0);
                for found in precision(shape, &values) {
                    let noise = found.noise.expect("noise");
                    // Along one axis, a part of the waves is left.
                    let most = if shape.len() > 1 { 1.05 } else { 20.0 };
                    assert!(noise > 0.95 * deviation && noise < most * deviation, "{noise} for {deviation} in {shape:?}");
                }
            }
        }
        for flat in
            [vec![3.0; 1000], (0..1000).map(|index| f64::from(index / 100)).collect(), vec![f64::NAN; 1000], vec![-99.0; 1000]]
        {
            assert_eq!(precision(&[1000], &flat).map(|found| found.noise), [None; 2]);
        }
        assert_eq!(precision(&[2, 2], &[1.0, 5.0, 3.0, 7.0]).map(|found| found.noise), [None; 2]);
    }

    #[test]
    fn digits_are_counted() {
        let mut random = random(2);
        let numbers: Vec<f64> = (0..1000).map(|_| 250.0 + 60.0 * random()).collect();
        let of = |round: &dyn Fn(f64) -> f64| {
            let mut values: Vec<f64> = numbers.iter().map(|&value| round(value)).collect();
            values[7] = -99.0;
            precision(&[10, 100], &values).map(|found| found.options())
        };
        for (unit, bound) in [(1.0, "abs=5e-1"), (0.1, "abs=5e-2"), (0.01, "abs=5e-3"), (0.125, "abs=6.25e-2"), (8.0, "abs=4e0")]
        {
            assert_eq!(
                of(&|value| (value / unit).round() / unit.recip()),
                [Some(bound.to_owned()), Some(bound.to_owned())],
                "{unit}"
            );
        }
        // Numbers of a type have its digits.
        assert_eq!(of(&|value| value), [None, None]);
        assert_eq!(of(&|value| f64::from(value as f32)), [None, Some("pwrel=5.960464477539063e-8".to_owned())]);
        // Ten bits of fraction, of numbers over many decades.
        let short = |value: f64| f64::from_bits(value.to_bits() & !((1 << 42) - 1));
        for scale in [1.0, 0.3] {
            let bits = of(&|value| short((scale * (value - 250.0)).exp2()));
            assert_eq!(bits, [Some("pwrel=4.8828125e-4".to_owned()), Some("pwrel=4.8828125e-4".to_owned())]);
        }
    }
}
