//! Stage 1 for an absolute bound or a lattice (FORMAT.md §5.1): values → quantization codes and exceptions, and back.
//!
//! The code of a value is `round_half_even(x / (2 * bound))`. Values are rounded before they are predicted, so that every later stage is exact (dual
//! quantization: Tian et al., cuSZ, PACT'20, section 3.1). The encoder decodes each code at once and compares in f64. A value that misses the bound, is not
//! finite or is beyond the grid becomes an exception: its own bits are kept.
//!
//! Values are rounded in groups, without branches. Each result has a mark, whose bit 63 is 1 where the value may be an exception; only these values are tested
//! one by one (`quantize_one`).

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::excluded::Excluded;
use crate::quantize::fast_f32::{FastF32, FastResult};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::lattice;
use crate::quantize::quantizer::Quantizer;
use crate::simd::vectorized;

/// Values that are rounded together, with one mark.
const VALUES_PER_GROUP: usize = 64;

/// Magnitude, in steps, from which on a fill value is an exception even if its code would restore it: as a code it would be a spike among its neighbours, where
/// an exception mask costs little. Smaller fill values, 0 above all, are often values among others.
pub const FAR_FILL: f64 = 32.0;

impl Quantizer {
    /// The grid for a chunk: the bound's grid, or a wider one, the lattice on which all of the chunk's values lie ([`lattice`]).
    #[must_use]
    pub fn for_chunk<V: Value>(chunk: &[u8], order: ByteOrder, bound: f64, fill: Option<V>) -> Self {
        let mut grid = Self::new(bound);
        if let Some(spacing) = lattice::spacing(chunk, order, grid.step(), fill) {
            grid = Self::with_step(grid.bound(), spacing);
        }
        grid.with_fill(fill.filter(|&fill| grid.masks(fill)).map(Element::to_bits_i64))
    }

    /// Whether values with the bits of a fill value become exceptions for that reason, on this grid and on its fine grid (FORMAT.md §5.1). A fill value beyond
    /// both grids is an exception anyway: the answer is no.
    fn masks<V: Value>(&self, fill: V) -> bool {
        let is_in_reach = (fill.to_f64() * self.inverse_step()).abs() < V::CODE_LIMIT;
        let is_restored = quantize_one(fill, self).is_some_and(|code| {
            let code = code.to_f64();
            V::round_from(code * self.step()).to_bits() == fill.to_bits() && code.abs() < FAR_FILL
        });
        is_in_reach && !is_restored
    }
}

/// Rounds one value. Returns the sum that has its code in the mantissa, the code in f64, and the error of the restored value.
#[inline(always)]
fn round<V: Value>(value: V, quantizer: &Quantizer) -> (f64, f64, f64) {
    let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
    let code = sum - ROUNDING;
    let error = (value.to_f64() - V::round_from(code * quantizer.step()).to_f64()).abs();
    (sum, code, error)
}

/// The code of a value, or `None` for an exception.
///
/// The last two conditions make the encoder idempotent: a decoded value gets its own code again, and a value that interpolation restored between two steps is
/// an exception here and keeps its bits. So HDF5 may decode a chunk, change a part and encode it again any number of times without drift.
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

/// Quantizes the values of a chunk: writes a code for each value, and sets a bit of `exceptions`, which is all zeros before, for each exception. Codes of
/// exceptions are left to [`fill_gaps`](crate::quantize::gaps::fill_gaps).
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

/// A grid with all that rounding groups of values needs.
struct Groups<'a, V> {
    quantizer: &'a Quantizer,
    fine: FineGrid<V>,
    fast: Option<FastF32>,
    /// Bits of the largest f64 below [`Value::SAFE_CODE_LIMIT`]; all ones where no code is safe.
    below_limit: u64,
    excluded: Excluded<V>,
}

impl<'a, V: Value> Groups<'a, V> {
    fn new(quantizer: &'a Quantizer) -> Self {
        // 0 where no code is safe: then every group is marked.
        let safe_limit = if quantizer.step() >= V::SMALLEST_SAFE_STEP { V::SAFE_CODE_LIMIT } else { 0.0 };
        let below_limit = safe_limit.to_bits().wrapping_sub(1);
        let excluded = Excluded::new(quantizer, V::CODE_LIMIT);
        Self { quantizer, fine: FineGrid::new(quantizer), fast: FastF32::new(quantizer), below_limit, excluded }
    }

    /// Quantizes all values of a chunk. `FILL` is whether a fill value is an exception.
    #[inline(always)]
    fn quantize<const FILL: bool>(&self, chunk: &[u8], order: ByteOrder, codes: &mut [V::Code], exceptions: &mut Bitmap) {
        let fill = V::Code::from_i64(self.quantizer.fill().unwrap_or(0));
        let mut had_excluded = false;
        for (group, (codes, bytes)) in
            codes.chunks_mut(VALUES_PER_GROUP).zip(chunk.chunks(VALUES_PER_GROUP * V::SIZE)).enumerate()
        {
            // The last group is filled up with zeros, which are no exceptions.
            let mut values = [V::default(); VALUES_PER_GROUP];
            V::read_all(bytes, order, &mut values);
            let mut rounded = [V::Code::default(); VALUES_PER_GROUP];
            let has_fill = FILL && values.iter().fold(false, |any, value| any | (value.to_bits() == fill));
            // After a group with excluded values, the next one is searched for them before it is rounded.
            let has_beyond = had_excluded && self.excluded.has_beyond(&values);
            if has_fill || has_beyond || self.round(&values, &mut rounded) >> 63 == 1 {
                let of_group = self.quantize_marked(&values, codes);
                had_excluded = of_group != 0;
                exceptions.set_word(group, of_group);
            } else {
                had_excluded = false;
                codes.copy_from_slice(&rounded[..codes.len()]);
            }
        }
    }

    /// Rounds a group as if it had no exception. Returns a mark for the group: bit 63 is 1 where a value may be one.
    #[inline(always)]
    fn round(&self, values: &[V; VALUES_PER_GROUP], rounded: &mut [V::Code; VALUES_PER_GROUP]) -> u64 {
        let result = self.fast.map_or(FastResult::NOTHING, |fast| fast.codes(values, rounded));
        let mut mark = 0;
        if !result.codes_are_certain {
            for (code, &value) in rounded.iter_mut().zip(values) {
                let mark_of_value;
                (*code, mark_of_value) = self.round_one(value);
                mark |= mark_of_value;
            }
        }
        if result.may_be_between_steps && self.fine.is_enabled() {
            for &value in values {
                mark |= self.between_steps(value);
            }
        }
        mark
    }

    /// Quantizes a group that is marked: writes its codes, and returns a bit for each value, the first one's lowest, that is 1 for an exception.
    #[inline(never)]
    fn quantize_marked(&self, values: &[V; VALUES_PER_GROUP], codes: &mut [V::Code]) -> u64 {
        // Most groups are marked because of excluded values alone: the others are rounded again without them.
        let mut others = [V::default(); VALUES_PER_GROUP];
        let mut rounded = [V::Code::default(); VALUES_PER_GROUP];
        let mut marks = [0; VALUES_PER_GROUP];
        let (excluded, is_certain) = vectorized(
            #[inline(always)]
            || {
                let excluded = self.excluded.bits(values);
                self.excluded.replace(values, &mut others);
                if excluded == u64::MAX || excluded != 0 && self.round(&others, &mut rounded) >> 63 == 0 {
                    return (excluded, true);
                }
                for ((&value, code), mark) in others.iter().zip(&mut rounded).zip(&mut marks) {
                    (*code, *mark) = self.round_one(value);
                }
                if self.fine.is_enabled() {
                    for (&value, mark) in others.iter().zip(&mut marks) {
                        *mark |= self.between_steps(value);
                    }
                }
                (excluded, false)
            },
        );
        codes.copy_from_slice(&rounded[..codes.len()]);
        if is_certain {
            return excluded;
        }
        let mut exceptions = excluded;
        for at in (0..codes.len()).filter(|&at| marks[at] >> 63 == 1) {
            match quantize_one(others[at], self.quantizer) {
                Some(code) => codes[at] = code,
                None => exceptions |= 1 << at,
            }
        }
        exceptions
    }

    /// The code of a value and its mark: bit 63 is 1 where the value may miss the bound, or the code is not safe ([`Value::SAFE_CODE_LIMIT`]).
    #[inline(always)]
    fn round_one(&self, value: V) -> (V::Code, u64) {
        let (sum, code, error) = round(value, self.quantizer);
        // Comparisons by the sign of a difference of bits: see `fast_f32`.
        let misses = self.quantizer.bound().to_bits().wrapping_sub(error.to_bits());
        (V::code_from_sum(sum), misses | self.below_limit.wrapping_sub(code.abs().to_bits()))
    }

    /// Bit 63 is 1 where a value is exactly on a position of the fine grid between two steps.
    #[inline(always)]
    fn between_steps(&self, value: V) -> u64 {
        self.fine.between_steps_sign(value, round(value, self.quantizer).1)
    }
}

/// Restores the values of a chunk from their codes, which may be integers of any type. Exceptions are overwritten afterwards.
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
    use crate::number::small_float::{BFloat16, Binary16};

    #[test]
    fn rounds_half_to_even() {
        let quantizer = Quantizer::new(0.5);
        for (value, code) in [(0.5f32, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.499, 0)] {
            assert_eq!(quantize_one(value, &quantizer), Some(code), "{value}");
            assert_eq!(quantize_one(f64::from(value), &quantizer), Some(i64::from(code)), "{value}");
        }
    }

    /// Rules 1 to 5 of FORMAT.md §5.1, word for word.
    fn plain<V: Value>(value: V, bound: f64, step: f64, fill: Option<V>) -> Option<V::Code> {
        let (x, inverse_step) = (value.to_f64(), 1.0 / step);
        let code = (x * inverse_step).round_ties_even();
        let restored = V::round_from(code * step);
        let is_masked = fill.is_some_and(|fill| fill.to_bits() == value.to_bits())
            && !(restored.to_bits() == value.to_bits() && code.abs() < 32.0);
        let limit = 2f64.powi(if V::SIZE == 8 { 51 } else { 31 });
        let is_between =
            step == 2.0 * bound && Quantizer::new(bound).fine::<V>().is_some_and(|fine| fine.is_between_steps(value));
        ((x - restored.to_f64()).abs() <= bound
            && code.abs() < limit
            && (restored.to_f64() * inverse_step).round_ties_even() == code
            && !is_masked
            && !is_between)
            .then(|| V::Code::from_i64(code as i64))
    }

    fn check<V: Value>(bounds: &[f64], fill: Option<V>) {
        let mut state = 1u64;
        for (&bound, len) in bounds.iter().flat_map(|bound| [1, 7, 63, 64, 65, 131, 640].map(|len| (bound, len))) {
            for kind in 0..4 {
                let values: Vec<V> = (0..len)
                    .map(|index| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let unit = (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
                        let steps = unit * [5.0, 600.0, 1e7, 3e9][kind];
                        let edges = [f64::NAN, f64::INFINITY, -0.0, 1e-310, f64::MAX, (steps.trunc() + 0.5) * 2.0 * bound];
                        let of_type = V::round_from(steps * 2.0 * bound);
                        match (state >> 33) % 16 {
                            rare @ 0..6 if kind > 0 => V::round_from(edges[rare as usize]),
                            6 => fill.unwrap_or(of_type),
                            7 => V::round_from((steps.trunc() * 8.0 + (index % 8) as f64) / 8.0 * 1020.0 / 1021.0 * 2.0 * bound),
                            _ => of_type,
                        }
                    })
                    .collect();
                let mut chunk = vec![0; len * V::SIZE];
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    V::write_all(&values, |value| value, order, &mut chunk);
                    let quantizer = Quantizer::for_chunk(&chunk, order, bound, fill);
                    let (mut codes, mut exceptions) = (vec![V::Code::default(); len], Bitmap::default());
                    exceptions.clear(len).unwrap();
                    quantize::<V>(&chunk, order, &quantizer, &mut codes, &mut exceptions);
                    let is_exception: Vec<bool> = (0..len)
                        .map(|index| exceptions.words()[index / VALUES_PER_GROUP] >> (index % VALUES_PER_GROUP) & 1 == 1)
                        .collect();
                    for (index, &value) in values.iter().enumerate() {
                        let found = (!is_exception[index]).then_some(codes[index].to_i64());
                        let expected = plain(value, bound, quantizer.step(), fill).map(Integer::to_i64);
                        assert_eq!(found, expected, "{:e} at {bound:e}, {len} values", value.to_f64());
                    }
                    let mut restored = vec![0; chunk.len()];
                    restore::<V, _>(&codes, &quantizer, order, &mut restored);
                    for index in (0..len).filter(|&index| !is_exception[index]) {
                        let error = (V::read(&restored, index, order).to_f64() - values[index].to_f64()).abs();
                        assert!(error <= bound, "{:e} is {error:e} off at {bound:e}", values[index].to_f64());
                    }
                }
            }
        }
    }

    #[test]
    fn chunks_are_quantized_by_the_rules_of_the_format() {
        check::<f32>(&[1e-3, 0.5, 0.1, 1e-30, 4e27], None);
        check::<f32>(&[1e-3, 0.043_21], Some(-999.0));
        check::<f32>(&[0.1], Some(0.0));
        check::<f32>(&[0.1], Some(f32::NAN));
        check::<f64>(&[1e-3, 0.5, 1e-300, 3e100], None);
        check::<f64>(&[1e-3], Some(1e20));
        check::<Binary16>(&[1e-3, 0.5], Some(Binary16::from_f64(2.0)));
        check::<BFloat16>(&[1e-3, 0.5], None);
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
