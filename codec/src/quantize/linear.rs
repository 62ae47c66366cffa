//! Stage 1 (FORMAT.md §5): values → quantization codes and exceptions, and back.
//!
//! `k = round_half_even(x / (2 * bound))` turns the bound into an integer grid before anything is predicted, so that every later stage
//! is exact (dual quantization: Tian et al., cuSZ, PACT'20, section 3.1). The encoder decodes each code at once and compares in f64; a
//! value that misses the bound, is not finite or lies beyond the grid becomes an exception and is kept bit for bit.

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::excluded::Mask;
use crate::quantize::fast_f32::{FastF32, FastResult};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::lattice;
use crate::quantize::quantizer::Quantizer;
use crate::simd::vectorized;

/// Values that are checked together before the slow path looks at each one.
const GROUP: usize = 64;

/// A fill value of as many steps is an exception even if the grid gives it back: as a code it would be a spike for its neighbours, where a mask
/// costs little. Smaller ones, 0 above all, may well be values among others.
pub const FAR_FILL: f64 = 32.0;

impl Quantizer {
    /// The grid for a chunk: that of the bound, or the lattice on which all of the chunk's values lie if it is wider ([`lattice`]).
    #[must_use]
    pub fn for_chunk<V: Value>(chunk: &[u8], order: ByteOrder, bound: f64, fill: Option<V>) -> Self {
        let mut grid = Self::new(bound);
        if let Some(spacing) = lattice::spacing(chunk, order, grid.step(), fill) {
            grid = Self::with_step(grid.bound(), spacing);
        }
        grid.with_fill(fill.filter(|&fill| grid.masks(fill)).map(Element::to_bits_i64))
    }

    /// Whether values with the bits of a fill value are exceptions on this grid and on its fine grid (FORMAT.md §5.1). Beyond the reach of both,
    /// every value is an exception, and the fill value needs no care.
    fn masks<V: Value>(&self, fill: V) -> bool {
        let is_in_reach = (fill.to_f64() * self.inverse_step()).abs() < V::CODE_LIMIT;
        let comes_back = quantize_one(fill, self).is_some_and(|code| {
            let code = code.to_f64();
            V::round_from(code * self.step()).to_bits() == fill.to_bits() && code.abs() < FAR_FILL
        });
        is_in_reach && !comes_back
    }
}

/// Rounds one value: its code in the sum's mantissa, the code in f64, and how far the restored value is off.
#[inline(always)]
fn round<V: Value>(value: V, quantizer: &Quantizer) -> (f64, f64, f64) {
    let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
    let code = sum - ROUNDING;
    let error = (value.to_f64() - V::round_from(code * quantizer.step()).to_f64()).abs();
    (sum, code, error)
}

/// The code of a value, or `None` for an exception. The last two conditions make the encoder idempotent: a decoded value has its own code
/// again, and one that interpolation has restored keeps its position between this grid's, so that HDF5 may decode and encode a partly written
/// chunk any number of times without drift.
#[inline]
fn quantize_one<V: Value>(value: V, quantizer: &Quantizer) -> Option<V::Code> {
    if quantizer.fill() == Some(value.to_bits_i64()) {
        return None;
    }
    let (sum, code, error) = round(value, quantizer);
    let holds = error <= quantizer.bound() && code.abs() < V::CODE_LIMIT;
    let returns = || round(V::round_from(code * quantizer.step()), quantizer).1 == code;
    let moves = || quantizer.fine::<V>().is_some_and(|fine| fine.is_between_steps(value));
    (holds && returns() && !moves()).then(|| V::code_from_sum(sum))
}

/// Quantizes the values of a chunk. `codes` has one entry a value; exceptions are marked in `exceptions`, zeros so far. The codes of exceptions are left to
/// [`fill_gaps`](crate::quantize::gaps::fill_gaps).
pub fn quantize<V: Value>(chunk: &[u8], order: ByteOrder, quantizer: &Quantizer, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    let groups = Groups::<V>::new(quantizer);
    vectorized(
        #[inline(always)]
        || match (order, quantizer.fill()) {
            (ByteOrder::Little, None) => groups.quantize::<false>(chunk, ByteOrder::Little, codes, exceptions),
            (ByteOrder::Big, None) => groups.quantize::<false>(chunk, ByteOrder::Big, codes, exceptions),
            (order, Some(_)) => groups.quantize::<true>(chunk, order, codes, exceptions),
        },
    );
}

/// What groups of values are quantized with.
struct Groups<'a, V> {
    quantizer: &'a Quantizer,
    fine: FineGrid<V>,
    glance: Option<FastF32>,
    /// Bits of the largest number below which codes are safe, all ones if none is.
    below_limit: u64,
    mask: Mask<V>,
}

impl<'a, V: Value> Groups<'a, V> {
    fn new(quantizer: &'a Quantizer) -> Self {
        // 0 when no code is safe: then every group is in doubt.
        let safe_limit = if quantizer.step() >= V::SMALLEST_SAFE_STEP { V::SAFE_CODE_LIMIT } else { 0.0 };
        let below_limit = safe_limit.to_bits().wrapping_sub(1);
        let mask = Mask::new(quantizer, V::CODE_LIMIT);
        Self { quantizer, fine: FineGrid::new(quantizer), glance: FastF32::new(quantizer), below_limit, mask }
    }

    /// Quantizes all values.
    #[inline(always)]
    fn quantize<const FILL: bool>(&self, chunk: &[u8], order: ByteOrder, codes: &mut [V::Code], exceptions: &mut Bitmap) {
        let fill = V::Code::from_i64(self.quantizer.fill().unwrap_or(0));
        let mut were_masked = false;
        for (group, (codes, bytes)) in codes.chunks_mut(GROUP).zip(chunk.chunks(GROUP * V::SIZE)).enumerate() {
            // Zeros fill up the last group: they are never exceptions.
            let mut values = [V::default(); GROUP];
            V::read_all(bytes, order, &mut values);
            let mut rounded = [V::Code::default(); GROUP];
            let has_fill = FILL && values.iter().fold(false, |any, value| any | (value.to_bits() == fill));
            // Where values were masked, others are looked for first.
            let is_masked = were_masked && self.mask.has_beyond(&values);
            if has_fill || is_masked || self.round(&values, &mut rounded) >> 63 == 1 {
                let marked = self.look_again(&values, codes);
                were_masked = marked != 0;
                exceptions.set_word(group, marked);
            } else {
                were_masked = false;
                codes.copy_from_slice(&rounded[..codes.len()]);
            }
        }
    }

    /// Rounds values as if none of them were an exception; the highest bit says whether one may be.
    #[inline(always)]
    fn round(&self, values: &[V; GROUP], rounded: &mut [V::Code; GROUP]) -> u64 {
        let seen = self.glance.map_or(FastResult::NOTHING, |glance| glance.codes(values, rounded));
        let mut doubts = 0;
        if !seen.codes_are_certain {
            for (slot, &value) in rounded.iter_mut().zip(values) {
                let doubt;
                (*slot, doubt) = self.round_one(value);
                doubts |= doubt;
            }
        }
        if seen.may_be_between_steps && self.fine.is_there() {
            for &value in values {
                doubts |= self.between_steps(value);
            }
        }
        doubts
    }

    /// Codes of those values of a group that are no exceptions, and a bit for each that is one.
    #[inline(never)]
    fn look_again(&self, values: &[V; GROUP], codes: &mut [V::Code]) -> u64 {
        // Mostly what is in doubt is a mask.
        let mut others = [V::default(); GROUP];
        let mut rounded = [V::Code::default(); GROUP];
        let mut doubts = [0; GROUP];
        let (masked, is_certain) = vectorized(
            #[inline(always)]
            || {
                let masked = self.mask.bits(values);
                self.mask.replace(values, &mut others);
                if masked == u64::MAX || masked != 0 && self.round(&others, &mut rounded) >> 63 == 0 {
                    return (masked, true);
                }
                for ((&value, slot), doubt) in others.iter().zip(&mut rounded).zip(&mut doubts) {
                    (*slot, *doubt) = self.round_one(value);
                }
                if self.fine.is_there() {
                    for (&value, doubt) in others.iter().zip(&mut doubts) {
                        *doubt |= self.between_steps(value);
                    }
                }
                (masked, false)
            },
        );
        codes.copy_from_slice(&rounded[..codes.len()]);
        if is_certain {
            return masked;
        }
        let mut exceptions = masked;
        for at in (0..codes.len()).filter(|&at| doubts[at] >> 63 == 1) {
            match quantize_one(others[at], self.quantizer) {
                Some(code) => codes[at] = code,
                None => exceptions |= 1 << at,
            }
        }
        exceptions
    }

    /// The code of a value; the highest bit says whether it may miss the bound or not be safe.
    #[inline(always)]
    fn round_one(&self, value: V) -> (V::Code, u64) {
        let (sum, code, error) = round(value, self.quantizer);
        // Bits of numbers that are not negative order as the numbers do, NaN above all: the sign of a difference is the comparison, and vector units gather
        // signs more easily than truth values.
        let misses = self.quantizer.bound().to_bits().wrapping_sub(error.to_bits());
        (V::code_from_sum(sum), misses | self.below_limit.wrapping_sub(code.abs().to_bits()))
    }

    /// The highest bit says whether a value stands between steps.
    #[inline(always)]
    fn between_steps(&self, value: V) -> u64 {
        self.fine.between_steps_sign(value, round(value, self.quantizer).1)
    }
}

/// Restores the values of a chunk from their codes, in integers of any type that holds them. Exceptions are overwritten afterwards.
pub fn restore<V: Value, C: Integer>(codes: &[C], quantizer: &Quantizer, order: ByteOrder, chunk: &mut [u8]) {
    let step = quantizer.step();
    vectorized(
        #[inline(always)]
        || {
            V::write_all(
                codes,
                #[inline(always)]
                |code| V::round_from(code.to_f64() * step),
                order,
                chunk,
            );
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::is_absolute;
    use crate::number::small_float::{BFloat16, Binary16};

    #[test]
    fn rounds_half_to_even() {
        let quantizer = Quantizer::new(0.5);
        for (value, code) in [(0.5f32, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.499, 0)] {
            assert_eq!(quantize_one(value, &quantizer), Some(code), "{value}");
            assert_eq!(quantize_one(f64::from(value), &quantizer), Some(i64::from(code)), "{value}");
        }
    }

    #[test]
    fn the_fast_path_decides_as_f64_does() {
        let mut state = 1u64;
        for bound in [1e-3, 0.5, 123.456, 7e-28, 4e27, 3.3e-12] {
            let quantizer = Quantizer::new(bound);
            let glance = FastF32::new(&quantizer).unwrap();
            let (mut code, mut certain) = ([0], 0);
            for i in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let spread = [1.0, 100.0, 1e4, 1e7][i % 4];
                let mut steps = (f64::from((state >> 32) as u32) / f64::from(u32::MAX) * 2.0 - 1.0) * spread;
                if i % 3 == 0 {
                    steps = steps.trunc() + 0.5;
                }
                let value = (steps * quantizer.step()) as f32;
                if glance.codes(&[value], &mut code).codes_are_certain {
                    let (_, expected, error) = round(value, &quantizer);
                    assert_eq!(f64::from(code[0]), expected, "{value} at {bound}");
                    assert!(error <= bound);
                    certain += 1;
                }
            }
            assert!(certain > 8000, "{certain} of 20 000 are certain");
            for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
                assert!(!glance.codes(&[value], &mut code).codes_are_certain);
            }
        }
        assert!(FastF32::new(&Quantizer::with_step(0.5, 3.0)).is_none(), "a lattice's step does not bound the error");
    }

    #[test]
    fn magnitudes_of_steps_are_never_too_small() {
        fn holds<V: Value>() {
            for exponent in -320..300 {
                for bound in
                    [1.0, 1.7, 3.1].map(|digit| digit * 10f64.powi(exponent)).into_iter().filter(|&bound| is_absolute(bound))
                {
                    let quantizer = Quantizer::new(bound);
                    let magnitude: V = quantizer.magnitude_of(V::CODE_LIMIT);
                    assert_eq!(quantize_one(magnitude, &quantizer).map(Integer::to_i64), None, "{bound}");
                    assert!(V::default().is_below(magnitude) && !V::round_from(f64::NAN).is_below(magnitude));
                }
            }
        }
        holds::<f32>();
        holds::<f64>();
        holds::<Binary16>();
        holds::<BFloat16>();
    }

    #[test]
    fn what_cannot_be_held_is_an_exception() {
        let quantizer = Quantizer::new(1e-3);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e35, f32::MAX, -9.97e36] {
            assert_eq!(quantize_one(value, &quantizer), None, "{value}");
            assert_eq!(quantize_one(f64::from(value), &quantizer), None, "{value}");
        }
        assert_eq!(quantize_one(1e300, &quantizer), None);
    }
}
