//! Stage 1 for a point-wise relative bound (FORMAT.md §5.5): values → codes on a grid of even steps of the logarithm, and back.
//!
//! ```text
//! code  -2    -1     0     1     2    ...      distance from 0 counts steps of log2 |x| from just below the chunk's smallest magnitude;
//! value  -2^(2s+o) -2^(s+o)  0  2^(s+o)  2^(2s+o)     zero has code 0, and the sign of a value is that of its code
//! ```
//!
//! One plane of integers that order as the values do carries magnitude, sign and zeros, where the logarithm alone would need planes of their
//! own for the latter two (SZ: Liang et al., CLUSTER'18). The logarithm and its inverse are polynomials in f64, so that every machine
//! finds the same codes; the encoder decodes each one and compares.

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::Bitmap;
use crate::simd::vectorized;

/// Values that are looked at together.
const GROUP: usize = 64;
const MANTISSA: u32 = 52;
const BIAS: i32 = 1023;
/// Bits of the square root of 1/2: mantissas are taken from there to the square root of 2.
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;

/// 2 / (ln 2 (2i + 1)), for log2 m = s (C0 + C1 s^2 + C2 s^4 ...) with s = (m - 1) / (m + 1), below 0.172.
pub const LOG_TERMS: [f64; 11] = {
    let mut terms = [0.0; 11];
    let mut i = 0;
    while i < 11 {
        terms[i] = 2.0 * std::f64::consts::LOG2_E / (2 * i + 1) as f64;
        i += 1;
    }
    terms
};
/// (ln 2)^i / i!, for 2^f with f from -1/2 to 1/2.
pub const EXP_TERMS: [f64; 15] = {
    let mut terms = [1.0; 15];
    let mut i = 1;
    while i < 15 {
        terms[i] = terms[i - 1] * std::f64::consts::LN_2 / i as f64;
        i += 1;
    }
    terms
};
/// Terms that types of up to 32 bits need: they leave errors of 3e-11 and 2e-10, where their finest step is 1e-7.
pub const NARROW_TERMS: (usize, usize) = (6, 9);

/// Finest bounds: below them, rounding to the type's own digits is as close, and the exact bits are as short.
#[must_use]
pub fn is_too_fine(bound: f64, scalar_size: usize) -> bool {
    bound < if scalar_size == 8 { 1e-11 } else { 1.2e-7 }
}

/// log2 of a positive number that is not subnormal.
#[inline(always)]
pub(crate) fn log2(value: f64, terms: usize) -> f64 {
    let bits = value.to_bits();
    // Made positive first: vector units shift such numbers more easily.
    const RAISED: u64 = 1 << 62;
    let raised = bits.wrapping_sub(SQRT_HALF).wrapping_add(RAISED) >> MANTISSA;
    let exponent = raised as i32 - (RAISED >> MANTISSA) as i32;
    let mantissa = f64::from_bits(bits.wrapping_sub(raised << MANTISSA).wrapping_add(RAISED));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let mut sum = LOG_TERMS[terms - 1];
    for &term in LOG_TERMS[..terms - 1].iter().rev() {
        sum = sum * z + term;
    }
    f64::from(exponent) + s * sum
}

/// 2^exponent; 0 below 2^-1022.5 and infinity from 2^1023.5 on.
#[inline(always)]
pub(crate) fn exp2(exponent: f64, terms: usize) -> f64 {
    let exponent = exponent.clamp(-2000.0, 2000.0);
    let sum = exponent + ROUNDING;
    let whole = sum - ROUNDING;
    let f = exponent - whole;
    let mut power = EXP_TERMS[terms - 1];
    for &term in EXP_TERMS[..terms - 1].iter().rev() {
        power = power * f + term;
    }
    let biased = (sum.to_bits() as i32).clamp(-BIAS, BIAS + 1) + BIAS;
    power * f64::from_bits(u64::from(biased.cast_unsigned()) << MANTISSA)
}

/// The grid of a point-wise relative bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logarithm {
    bound: f64,
    step: f64,
    inverse_step: f64,
    offset: i64,
    /// Bits of the fill value, sign extended, if it is an exception.
    fill: Option<i64>,
}

impl Logarithm {
    /// The grid for a chunk.
    #[must_use]
    pub fn for_chunk<V: Value>(chunk: &[u8], order: ByteOrder, bound: f64, fill: Option<V>) -> Self {
        let half_step = log2(1.0 + bound, LOG_TERMS.len());
        let mut grid = Self { bound, ..Self::new(half_step, 0) };
        let smallest = smallest_magnitude::<V>(chunk, order);
        if smallest.is_finite() {
            grid.offset = (log2(smallest, terms::<V>().0) * grid.inverse_step).floor() as i64 - 1;
        }
        grid.fill = fill.map(Element::to_bits_i64);
        grid
    }

    /// The grid of a stream.
    #[must_use]
    pub fn new(half_step: f64, offset: i64) -> Self {
        let step = 2.0 * half_step;
        Self { bound: 0.0, step, inverse_step: 1.0 / step, offset, fill: None }
    }

    /// Half a step of log2.
    #[must_use]
    pub fn half_step(&self) -> f64 {
        self.step / 2.0
    }

    /// The share of its magnitude that a value may be off.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Bits of the fill value, sign extended.
    #[must_use]
    pub fn fill(&self) -> Option<i64> {
        self.fill
    }

    /// Steps from 1 to where codes begin to count.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Steps from the offset to a magnitude.
    #[inline(always)]
    fn steps<V: Value>(&self, magnitude: f64) -> f64 {
        log2(magnitude, terms::<V>().0) * self.inverse_step + ROUNDING - ROUNDING - self.offset as f64
    }

    /// The value of a code.
    #[inline(always)]
    fn value<V: Value>(&self, code: V::Code) -> V {
        let code = code.to_i64();
        let steps = code.unsigned_abs().cast_signed().wrapping_add(self.offset) as f64;
        let magnitude = exp2(steps * self.step, terms::<V>().1);
        V::round_from(if code == 0 {
            0.0
        } else if code < 0 {
            -magnitude
        } else {
            magnitude
        })
    }

    /// The code of a value that is so many steps from the offset, and whether the value has one at all.
    #[inline(always)]
    fn code_at<V: Value>(&self, x: f64, steps: f64) -> (V::Code, bool) {
        // No branches: values are looked at many at a time.
        let is_in = (steps >= 1.0) & (steps < V::CODE_LIMIT) & (x.abs() <= f64::MAX) & (x.abs() >= f64::MIN_POSITIVE);
        (V::code_from_sum((if is_in { steps } else { 0.0 }).copysign(x) + ROUNDING), is_in)
    }

    /// The code of a value, whether or not it holds the bound.
    #[inline(always)]
    pub(crate) fn nearest<V: Value>(&self, value: V) -> V::Code {
        let x = value.to_f64();
        self.code_at::<V>(x, self.steps::<V>(x.abs())).0
    }

    /// Codes of values, and whether each holds the bound and gives itself back: a step after the other for all of them, as compilers make vector code of short
    /// loops.
    #[inline(always)]
    fn code_group<V: Value>(&self, values: &[V; GROUP]) -> ([V::Code; GROUP], [bool; GROUP]) {
        let x = values.map(
            #[inline(always)]
            |value| value.to_f64(),
        );
        let mut steps = [0.0; GROUP];
        for (steps, x) in steps.iter_mut().zip(&x) {
            *steps = self.steps::<V>(x.abs());
        }
        let mut codes = [V::Code::default(); GROUP];
        let mut in_range = [0u64; GROUP];
        for (((code, in_range), &x), &steps) in codes.iter_mut().zip(&mut in_range).zip(&x).zip(&steps) {
            let (of_value, is_in) = self.code_at::<V>(x, steps);
            (*code, *in_range) = (of_value, u64::from(is_in));
        }
        let mut restored = [0.0; GROUP];
        for (restored, &code) in restored.iter_mut().zip(&codes) {
            *restored = self.value::<V>(code).to_f64();
        }
        let mut again = [0.0; GROUP];
        for (again, restored) in again.iter_mut().zip(&restored) {
            *again = self.steps::<V>(restored.abs());
        }
        let mut holds = in_range;
        for ((((holds, &x), &restored), &again), &steps) in holds.iter_mut().zip(&x).zip(&restored).zip(&again).zip(&steps) {
            *holds &= u64::from(((x - restored).abs() <= self.bound * x.abs()) & (again == steps));
        }
        let held = std::array::from_fn(|index| holds[index] == 1 || values[index].to_bits_i64() == 0);
        (codes, held)
    }
}

#[inline(always)]
fn terms<V: Value>() -> (usize, usize) {
    if V::SIZE == 8 { (LOG_TERMS.len(), EXP_TERMS.len()) } else { NARROW_TERMS }
}

/// The smallest magnitude of a chunk's values that are normal numbers in f64; infinity if there is none.
fn smallest_magnitude<V: Value>(chunk: &[u8], order: ByteOrder) -> f64 {
    let mut smallest = [f64::INFINITY; 8];
    vectorized(
        #[inline(always)]
        || {
            for bytes in chunk.chunks(GROUP * V::SIZE) {
                let mut values = [V::default(); GROUP];
                V::read_all(bytes, order, &mut values);
                for eight in values.as_chunks::<8>().0 {
                    for (smallest, value) in smallest.iter_mut().zip(eight) {
                        let magnitude = value.to_f64().abs();
                        let counts = magnitude >= f64::MIN_POSITIVE && magnitude < *smallest;
                        *smallest = if counts { magnitude } else { *smallest };
                    }
                }
            }
        },
    );
    smallest.into_iter().fold(f64::INFINITY, f64::min)
}

/// Codes of a chunk's values; exceptions are marked in `exceptions`, zeros so far.
pub fn quantize<V: Value>(chunk: &[u8], order: ByteOrder, grid: &Logarithm, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    for (group, (codes, bytes)) in codes.chunks_mut(GROUP).zip(chunk.chunks(GROUP * V::SIZE)).enumerate() {
        let mut values = [V::default(); GROUP];
        V::read_all(bytes, order, &mut values);
        let (rounded, mut held) = vectorized(
            #[inline(always)]
            || grid.code_group(&values),
        );
        if let Some(fill) = grid.fill {
            for ((value, &code), held) in values.into_iter().zip(&rounded).zip(&mut held) {
                *held &= value.to_bits_i64() != fill || grid.value::<V>(code).to_bits_i64() == fill;
            }
        }
        codes.copy_from_slice(&rounded[..codes.len()]);
        if held.contains(&false) {
            (0..codes.len()).filter(|&index| !held[index]).for_each(|index| exceptions.set(group * GROUP + index));
        }
    }
}

/// Restores the values of a chunk from their codes. Exceptions are overwritten afterwards.
pub fn restore<V: Value>(codes: &[V::Code], grid: &Logarithm, order: ByteOrder, chunk: &mut [u8]) {
    vectorized(
        #[inline(always)]
        || {
            V::write_all(
                codes,
                #[inline(always)]
                |code| grid.value::<V>(code),
                order,
                chunk,
            );
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of a value among zeros, and whether it holds.
    fn code<V: Value>(grid: &Logarithm, value: V) -> (V::Code, bool) {
        let mut values = [V::default(); GROUP];
        values[5] = value;
        let (codes, held) = grid.code_group(&values);
        (codes[5], held[5])
    }

    #[test]
    fn polynomials_are_as_close_as_the_finest_bounds_need() {
        let mut x = 1e-300;
        while x < 1e300 {
            for ((log_terms, exp_terms), limit) in [(NARROW_TERMS, 5e-10), ((LOG_TERMS.len(), EXP_TERMS.len()), 3e-13)] {
                let logarithm = log2(x, log_terms);
                assert!((logarithm - x.log2()).abs() <= limit, "log2 {x:e}");
                assert!((exp2(logarithm, exp_terms) / x - 1.0).abs() <= limit, "2^ {logarithm}");
            }
            x *= 1.000_7 + x.fract() * 1e-3;
        }
        assert_eq!((exp2(-1e300, 9), exp2(1e300, 9), exp2(f64::NAN, 9).is_nan()), (0.0, f64::INFINITY, true));
        assert_eq!((log2(1.0, 6), log2(8.0, 6), log2(0.25, 6)), (0.0, 3.0, -2.0));
    }

    #[test]
    fn a_group_is_coded_value_by_value() {
        let mut state = 1u64;
        let values: [f32; GROUP] = std::array::from_fn(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            [f32::from_bits((state >> 32) as u32), 0.0, -0.0, f32::NAN, f32::NEG_INFINITY, 1e-40, (state >> 40) as f32][i % 7]
        });
        let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let grid = Logarithm::for_chunk::<f32>(&chunk, ByteOrder::Little, 1e-3, None);
        let (codes, held) = grid.code_group(&values);
        for (i, &value) in values.iter().enumerate() {
            assert_eq!(codes[i], grid.nearest(value), "{value}");
            assert_eq!((codes[i], held[i]), code(&grid, value), "{value}");
        }
    }

    #[test]
    fn zeros_have_code_0_and_signs_are_kept() {
        let chunk: Vec<u8> = [0.0f32, 1e-6, -1e-6, 5.0, -5.0, 3e38].iter().flat_map(|value| value.to_le_bytes()).collect();
        let grid = Logarithm::for_chunk::<f32>(&chunk, ByteOrder::Little, 1e-3, None);
        assert_eq!(code(&grid, 0.0f32), (0, true));
        assert!(!code(&grid, -0.0f32).1, "its sign would be lost");
        // Where steps are wide, the smallest number is not far from what the logarithm of 0 would be.
        let wide = Logarithm::for_chunk::<f64>(&f64::MIN_POSITIVE.to_le_bytes(), ByteOrder::Little, 0.9, None);
        assert_eq!(code(&wide, 0.0f64), (0, true));
        // A share of such a number may round up to the number itself.
        assert!(!code(&wide, 5e-324f64).1);
        let (small, holds) = code(&grid, 1e-6f32);
        assert!(holds && (1..=3).contains(&small), "{small}");
        assert_eq!(code(&grid, -1e-6f32), (-small, true));
        assert_eq!(code(&grid, 5.0f32).0, -code(&grid, -5.0f32).0);
        for value in [f32::NAN, f32::INFINITY, 1e-30] {
            assert!(!code(&grid, value).1, "{value}");
        }
    }
}
