//! Stage 1 for a point-wise relative bound (FORMAT.md §5.5): values → codes on a grid of equal steps of the logarithm, and back.
//!
//! ```text
//! code      -2             -1          0       1             2       ...     s: step of log2 |x|
//! value  -2^((2+o)s)  -2^((1+o)s)     0   2^((1+o)s)    2^((2+o)s)           o: offset, in steps
//! ```
//!
//! The offset puts code 1 just below the chunk's smallest magnitude. Codes order as the values do, so that one plane of integers holds magnitudes, signs and
//! zeros. The logarithm alone would need planes of their own for signs and zeros (SZ: Liang et al., CLUSTER'18). The logarithm and its inverse are polynomials
//! in f64, so that every machine finds the same codes; the encoder decodes each code and compares.

#[cfg(test)]
mod plain;

use crate::keep::Keep;
use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::Bitmap;
use crate::simd::vectorized;

/// Values that are quantized together.
const VALUES_PER_GROUP: usize = 64;
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
/// Number of terms of the logarithm and of the power that types of up to 32 bits need. Their errors are far below the finest step
/// of these types.
pub const NARROW_TERMS: (usize, usize) = (6, 9);

/// Error of a computed logarithm as a share of its magnitude and of 1, with a margin.
pub const TIE_MARGIN: f64 = 1.0 / (1u64 << 50) as f64;

/// Whether a bound is so fine that the chunk gets the exact bits: rounding to the type is about as coarse, and the exact bits take no more space.
#[must_use]
pub fn is_too_fine(bound: f64, scalar_size: usize) -> bool {
    bound < if scalar_size == 8 { 1e-11 } else { 1.2e-7 }
}

/// log2 of a positive number that is not subnormal.
#[inline(always)]
pub(crate) fn log2(value: f64, terms: usize) -> f64 {
    let bits = value.to_bits();
    // The exponent is raised to a positive number, as AVX2 cannot shift negative numbers of 64 bits to the right.
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

/// The grid of a point-wise relative bound: multiples of a step of log2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logarithm {
    bound: f64,
    step: f64,
    inverse_step: f64,
    offset: i64,
    /// Bits of the fill value, sign extended.
    fill: Option<i64>,
    keep: Keep,
}

impl Logarithm {
    /// The grid for a chunk: its offset depends on the chunk's smallest magnitude, its step on the bound alone.
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

    /// The grid of a stream that is decoded. It has no bound.
    #[must_use]
    pub fn new(half_step: f64, offset: i64) -> Self {
        let step = 2.0 * half_step;
        Self { bound: 0.0, step, inverse_step: 1.0 / step, offset, fill: None, keep: Keep::default() }
    }

    /// This grid, with values as exceptions that would not be kept.
    #[must_use]
    pub(crate) fn keeping(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// Half a step, in units of log2 |x|.
    #[must_use]
    pub fn half_step(&self) -> f64 {
        self.step / 2.0
    }

    /// The bound: a value's largest error as a share of its magnitude.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Bits of the fill value, sign extended.
    #[must_use]
    pub fn fill(&self) -> Option<i64> {
        self.fill
    }

    /// The offset of codes, in steps of log2: the magnitude of code `c` is `|c|` steps above it.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Number of steps from the offset to a magnitude, a whole number.
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

    /// The code of a value `x` that is `steps` steps from the offset, and whether `x` has a code. It has none if it is 0,
    /// subnormal in f64, infinite or NaN, or if it has less than one step or too many.
    #[inline(always)]
    fn code_at<V: Value>(&self, x: f64, steps: f64) -> (V::Code, bool) {
        // No branches, so that the compiler makes vector code of loops over values.
        let is_in = (steps >= 1.0) & (steps < V::CODE_LIMIT) & (x.abs() <= f64::MAX) & (x.abs() >= f64::MIN_POSITIVE);
        (V::code_from_sum((if is_in { steps } else { 0.0 }).copysign(x) + ROUNDING), is_in)
    }

    /// Whether a value may have a code for what is kept beside the bound. Where the order is kept, it must not be near a tie, as the computed logarithm is not
    /// quite monotonic there.
    fn keeps<V: Value>(&self, value: V, code: V::Code) -> bool {
        let (x, restored) = (value.to_f64(), self.value::<V>(code).to_f64());
        let steps = log2(x.abs(), terms::<V>().0) * self.inverse_step;
        let off = (steps - (steps + ROUNDING - ROUNDING)).abs();
        let is_near_tie = self.keep.has_order() && off + TIE_MARGIN * (steps.abs() + self.inverse_step) > 0.5;
        x == 0.0 || !is_near_tie && !self.keep.is_crossed(x, restored)
    }

    /// The code of a value, whether or not the restored value is within the bound.
    #[inline(always)]
    pub(crate) fn nearest<V: Value>(&self, value: V) -> V::Code {
        let x = value.to_f64();
        self.code_at::<V>(x, self.steps::<V>(x.abs())).0
    }

    /// Codes of a group of values, and whether each value has its code. +0 always has. The restored value of others must be
    /// within the bound, must not be subnormal in f64, and must get the same code. Each operation has a loop of its own over the
    /// group, as compilers make vector code of short loops only.
    #[inline(always)]
    fn code_group<V: Value>(&self, values: &[V; VALUES_PER_GROUP]) -> ([V::Code; VALUES_PER_GROUP], [bool; VALUES_PER_GROUP]) {
        let x = values.map(
            #[inline(always)]
            |value| value.to_f64(),
        );
        let mut steps = [0.0; VALUES_PER_GROUP];
        for (steps, x) in steps.iter_mut().zip(&x) {
            *steps = self.steps::<V>(x.abs());
        }
        let mut codes = [V::Code::default(); VALUES_PER_GROUP];
        let mut in_range = [0u64; VALUES_PER_GROUP];
        for (((code, in_range), &x), &steps) in codes.iter_mut().zip(&mut in_range).zip(&x).zip(&steps) {
            let (of_value, is_in) = self.code_at::<V>(x, steps);
            (*code, *in_range) = (of_value, u64::from(is_in));
        }
        let mut restored = [0.0; VALUES_PER_GROUP];
        for (restored, &code) in restored.iter_mut().zip(&codes) {
            *restored = self.value::<V>(code).to_f64();
        }
        let mut again = [0.0; VALUES_PER_GROUP];
        for (again, restored) in again.iter_mut().zip(&restored) {
            *again = self.steps::<V>(restored.abs());
        }
        let mut holds = in_range;
        for ((((holds, &x), &restored), &again), &steps) in holds.iter_mut().zip(&x).zip(&restored).zip(&again).zip(&steps) {
            let is_near = (x - restored).abs() <= self.bound * x.abs();
            *holds &= u64::from(is_near & (restored.abs() >= f64::MIN_POSITIVE) & (again == steps));
        }
        let held = std::array::from_fn(|index| holds[index] == 1 || values[index].to_bits_i64() == 0);
        (codes, held)
    }
}

#[inline(always)]
fn terms<V: Value>() -> (usize, usize) {
    if V::SIZE == 8 { (LOG_TERMS.len(), EXP_TERMS.len()) } else { NARROW_TERMS }
}

/// The smallest magnitude among the values of a chunk that are normal numbers in f64; infinity if there is none.
fn smallest_magnitude<V: Value>(chunk: &[u8], order: ByteOrder) -> f64 {
    let mut smallest = [f64::INFINITY; 8];
    vectorized(
        #[inline(always)]
        || {
            for bytes in chunk.chunks(VALUES_PER_GROUP * V::SIZE) {
                let mut values = [V::default(); VALUES_PER_GROUP];
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

/// Quantizes the values of a chunk: writes a code for each value, and sets a bit of `exceptions`, which is all zeros before, for each exception.
pub fn quantize<V: Value>(chunk: &[u8], order: ByteOrder, grid: &Logarithm, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    for (group, (codes, bytes)) in codes.chunks_mut(VALUES_PER_GROUP).zip(chunk.chunks(VALUES_PER_GROUP * V::SIZE)).enumerate() {
        let mut values = [V::default(); VALUES_PER_GROUP];
        V::read_all(bytes, order, &mut values);
        let (rounded, mut held) = vectorized(
            #[inline(always)]
            || grid.code_group(&values),
        );
        if !grid.keep.is_nothing() {
            for ((value, &code), held) in values.into_iter().zip(&rounded).zip(&mut held) {
                *held &= grid.keeps(value, code);
            }
        }
        if let Some(fill) = grid.fill {
            for ((value, &code), held) in values.into_iter().zip(&rounded).zip(&mut held) {
                *held &= value.to_bits_i64() != fill || grid.value::<V>(code).to_bits_i64() == fill;
            }
        }
        codes.copy_from_slice(&rounded[..codes.len()]);
        if held.contains(&false) {
            (0..codes.len()).filter(|&index| !held[index]).for_each(|index| exceptions.set(group * VALUES_PER_GROUP + index));
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
    use super::plain::Plain;
    use super::*;
    use crate::number::small_float::{BFloat16, Binary16};
    use crate::quantize::{check_restored, chunk_of};
    use crate::random::Random;

    #[test]
    fn polynomials_are_as_close_as_the_finest_bounds_need() {
        let mut x = 1e-300;
        while x < 1e300 {
            for ((log_terms, exp_terms), limit) in [(NARROW_TERMS, 5e-10), ((LOG_TERMS.len(), EXP_TERMS.len()), 3e-13)] {
                let logarithm = log2(x, log_terms);
                assert_eq!(logarithm, plain::log2(x, log_terms as u32 - 1), "quantize/logarithm: log2 {x:e}");
                assert_eq!(
                    exp2(logarithm, exp_terms),
                    plain::exp2(logarithm, exp_terms as u32 - 1),
                    "quantize/logarithm: 2^ {logarithm}"
                );
                assert!((logarithm - x.log2()).abs() <= limit, "log2 {x:e}");
                assert!((exp2(logarithm, exp_terms) / x - 1.0).abs() <= limit, "2^ {logarithm}");
            }
            x *= 1.000_7 + x.fract() * 1e-3;
        }
        assert_eq!((exp2(-1e300, 9), exp2(1e300, 9), exp2(f64::NAN, 9).is_nan()), (0.0, f64::INFINITY, true));
        assert_eq!((log2(1.0, 6), log2(8.0, 6), log2(0.25, 6)), (0.0, 3.0, -2.0));
    }

    /// Compares a chunk's grid, codes, exceptions and restored values with the plain ones, with vector instructions and without.
    fn compare<V: Value + std::fmt::Debug>(values: &[V], bound: f64, fill: Option<V>, keep: Keep, order: ByteOrder) {
        let len = values.len();
        let mut chunk = chunk_of(values, order);
        let plain = Plain::for_chunk(values, bound, fill, keep);
        let grid = Logarithm::for_chunk(&chunk, order, bound, fill).keeping(keep);
        assert_eq!((grid.half_step(), grid.offset()), (plain.half_step, plain.offset), "quantize/logarithm: the grid of {bound}");
        let (mut codes, mut exceptions) = (vec![V::Code::default(); len], Bitmap::of(len, []));
        quantize::<V>(&chunk, order, &grid, &mut codes, &mut exceptions);
        restore::<V>(&codes, &Logarithm::new(plain.half_step, plain.offset), order, &mut chunk);
        let exceptions: Vec<usize> = exceptions.indices().collect();
        for (index, &value) in values.iter().enumerate() {
            let x = value.to_f64();
            let name = format!("quantize/logarithm: {x:e} of {len} values, {plain:?}");
            let found = (!exceptions.contains(&index)).then_some(codes[index].to_i64());
            assert!(found == plain.code(value), "{name}: {found:?}, not {:?}", plain.code(value));
            assert!(found.is_none_or(|code| grid.nearest(value).to_i64() == code), "{name}, alone");
            let (portable, held) = grid.code_group(&[value; VALUES_PER_GROUP]);
            let may_be_masked = !keep.is_nothing() || fill.is_some_and(|fill| fill.to_bits() == value.to_bits());
            assert!(held[3] == found.is_some() || may_be_masked && found.is_none(), "{name}, without vectors");
            assert!(found.is_none_or(|code| portable[3].to_i64() == code), "{name}, without vectors");
            let restored = V::read(&chunk, index, order);
            assert_eq!(restored.to_bits_i64(), plain.value(codes[index].to_i64()).to_bits_i64(), "{name}, restored");
            assert!(found.is_none() || (x - restored.to_f64()).abs() <= bound * x.abs(), "{name}: out of bound");
        }
    }

    fn check<V: Value + std::fmt::Debug>(fills: &[f64]) {
        let mut random = Random(1);
        let mut values: Vec<V> = (0..301)
            .map(|index| {
                let bits = random.next();
                let x = 2f64.powi((bits >> 58) as i32 - 32) * (1.0 + (bits >> 12 & 0xffff) as f64 / 65_536.0);
                let edges = [x, -x, x, 0.0, x, -0.0, x, f64::NAN, f64::INFINITY, x, 777.0, f64::NEG_INFINITY, f64::MAX];
                V::round_from(edges[index % 13])
            })
            .collect();
        // Subnormal numbers of the type, its least normal one, its greatest one, and any bits.
        let edges = [1e-310, 5e-324, 1e-40, -1e-45, 6e-8, f64::MIN_POSITIVE, f64::from(f32::MIN_POSITIVE), 65_504.0, -3.3e38];
        values.extend(edges.map(V::round_from));
        let any_bits: Vec<V> = (0..200).map(|_| V::from_bits(V::Code::from_i64(random.next().cast_signed()))).collect();
        let kept = Keep::default().and_order().and_side_of(1.3).and_then(|keep| keep.and_side_of(-0.1)).unwrap();
        for bound in [0.9, 0.5, 0.1, 1e-3, 1e-6, 1e-10] {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                for fill in fills.iter().map(|&fill| Some(V::round_from(fill))).chain([None]) {
                    for len in [0, 1, 5, 64, 67, values.len()] {
                        compare(&values[..len], bound, fill, Keep::default(), order);
                        compare(&values[..len], bound, fill, kept, order);
                    }
                    compare(&any_bits, bound, fill, kept, order);
                    compare(&[V::round_from(f64::MIN_POSITIVE), V::default()], bound, fill, kept, order);
                }
            }
        }
    }

    #[test]
    fn chunks_are_quantized_by_the_plain_definition() {
        check::<f64>(&[777.0, 0.0, 1e300]);
        check::<f32>(&[777.0, -0.0, f64::NAN]);
        check::<Binary16>(&[777.0]);
        check::<BFloat16>(&[-999.0]);
    }

    /// A decoder may get steps and offsets that no encoder writes.
    #[test]
    fn values_are_restored_by_the_plain_definition() {
        fn check<V: Value + std::fmt::Debug>() {
            for half_step in [1e-11, 1e-3, 0.5, 1e300] {
                for offset in [0, -1, -1500, 40_000, i64::MAX, i64::MIN] {
                    let (mut plain, grid) =
                        (Plain::<V>::for_chunk(&[], 0.5, None, Keep::default()), Logarithm::new(half_step, offset));
                    (plain.half_step, plain.offset) = (half_step, offset);
                    let restore = |codes: &[V::Code], order, chunk: &mut [u8]| restore::<V>(codes, &grid, order, chunk);
                    check_restored(&format!("logarithm, {plain:?}"), restore, |code| plain.value(code));
                }
            }
        }
        check::<f64>();
        check::<f32>();
        check::<Binary16>();
        check::<BFloat16>();
    }
}
