//! Stage 1 for an absolute bound or a lattice (FORMAT.md §5.1): values → quantization codes and exceptions, and back.
//!
//! The code of a value is `round_half_even(x / (2 * bound))`. Values are rounded before they are predicted, so that every later stage is exact (dual
//! quantization: Tian et al., cuSZ, PACT'20, section 3.1). The encoder decodes each code at once and compares in f64. A value that misses the bound, is not
//! finite or is beyond the grid becomes an exception: its own bits are kept.
//!
//! Values are rounded in groups, without branches. Each result has a mark, whose bit 63 is 1 where the value may be an exception.
//! Values with such a mark are tested one by one (`quantize_one`).

#[cfg(test)]
pub(crate) mod plain;

use crate::keep::{Keep, is_on_other_side};
use crate::layout::ByteOrder;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::{Bitmap, bits_where, ones};
use crate::quantize::excluded::Excluded;
use crate::quantize::fast_f32::{FastF32, FastResult};
use crate::quantize::fills::Fills;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::lattice;
use crate::quantize::quantizer::Quantizer;
use crate::simd::{vectorized, widely_vectorized};

/// Values that are rounded together, with one mark.
const VALUES_PER_GROUP: usize = 64;

/// Magnitude, in steps, from which on a fill value is an exception even if its code would restore it. Its code would be a spike
/// among its neighbours, and an exception mask costs little. Smaller fill values, 0 above all, often occur as data, too.
pub const FAR_FILL: f64 = 32.0;

impl Quantizer {
    /// The grid for a chunk: the bound's grid, or a wider one, the lattice on which all of the chunk's values lie ([`lattice`]).
    #[must_use]
    pub fn for_chunk<V: Value>(chunk: &[u8], order: ByteOrder, bound: f64, fills: Fills, keep: Keep) -> Self {
        let spacing = lattice::spacing::<V>(chunk, order, 2.0 * bound, fills);
        let step = spacing.unwrap_or(if keep.is_halved() { bound } else { 2.0 * bound });
        let grid = Self::with_step(bound, step).keeping(keep);
        let is_masked = fills.value().is_some_and(|bits| grid.must_mask(V::from_bits(V::Code::from_i64(bits))));
        grid.with_fills(if is_masked { fills } else { fills.far_values() })
    }

    /// Whether a fill value is masked (FORMAT.md §5.1): values with its bits are exceptions on this grid and on its fine grid. A
    /// fill value beyond both grids need not be masked, as it is an exception anyway.
    fn must_mask<V: Value>(&self, fill: V) -> bool {
        let is_in_reach = (fill.to_f64() * self.inverse_step()).abs() < V::CODE_LIMIT;
        let is_restored = quantize_one(fill, self).is_some_and(|code| {
            let code = code.to_f64();
            V::round_from(code * self.step()).to_bits() == fill.to_bits() && code.abs() < FAR_FILL
        });
        is_in_reach && !is_restored
    }
}

/// Rounds one value. Returns the sum that has its code in the mantissa, the code in f64, and the restored value.
#[inline(always)]
fn round<V: Value>(value: V, quantizer: &Quantizer) -> (f64, f64, V) {
    let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
    let code = sum - ROUNDING;
    (sum, code, V::round_from(code * quantizer.step()))
}

/// The code of a value, or `None` for an exception.
///
/// Two conditions make the encoder idempotent. A decoded value gets its own code again. A value that interpolation restored between
/// two steps is an exception here, and keeps its bits. So HDF5 may decode a chunk, change a part and encode it again any number of
/// times without drift.
#[inline]
pub(crate) fn quantize_one<V: Value>(value: V, quantizer: &Quantizer) -> Option<V::Code> {
    if quantizer.fills().has(value) {
        return None;
    }
    if quantizer.is_halved() {
        let (code, holds) = code_on_halves(value, quantizer);
        return holds.then_some(code);
    }
    let (sum, code, restored) = round(value, quantizer);
    let holds = (value.to_f64() - restored.to_f64()).abs() <= quantizer.bound() && code.abs() < quantizer.code_limit::<V>();
    let returns = || round(restored, quantizer).1 == code;
    let moves = || quantizer.fine::<V>().is_some_and(|fine| fine.is_between_steps(value));
    let is_exempt = || !quantizer.keep().thresholds().is_empty() && is_exempt(value, restored, quantizer);
    (holds && returns() && !moves() && !is_exempt()).then(|| V::code_from_sum(sum))
}

/// The code of a value on a grid whose step is the bound, and whether the value has the code (FORMAT.md §11.5). Most codes are even: they are those of the bound's
/// own grid, doubled. Odd codes are for values beside a threshold.
#[inline(always)]
fn code_on_halves<V: Value>(value: V, quantizer: &Quantizer) -> (V::Code, bool) {
    let (x, keep) = (value.to_f64(), *quantizer.keep());
    let restored = |code: f64| V::round_from(code * quantizer.step()).to_f64();
    let nearest = |x: f64| x * quantizer.inverse_step() + ROUNDING - ROUNDING;
    let holds = |code: f64| {
        let restored = restored(code);
        let is_near = (x - restored).abs() <= quantizer.bound() && code.abs() < quantizer.code_limit::<V>();
        is_near && nearest(restored) == code && !keep.is_crossed(x, restored)
    };
    let even = 2.0 * (x * quantizer.inverse_step() * 0.5 + ROUNDING - ROUNDING);
    let odd = if x < restored(even) { even - 1.0 } else { even + 1.0 };
    let at = nearest(x);
    let code = if restored(at) == x && holds(at) {
        at
    } else if holds(even) {
        even
    } else {
        odd
    };
    (V::code_from_sum(code + ROUNDING), holds(code))
}

/// Whether a value is an exception beside thresholds: its restored value crosses one, or the value is an odd multiple of the bound, which must not move.
#[inline(always)]
fn is_exempt<V: Value>(value: V, restored: V, quantizer: &Quantizer) -> bool {
    quantizer.keep().is_crossed(value.to_f64(), restored.to_f64()) | is_on_half(value, quantizer)
}

/// Whether a value of the bound's own grid is an odd multiple of the bound, as a value beside a threshold is that a grid with half the step has restored.
#[inline(always)]
fn is_on_half<V: Value>(value: V, quantizer: &Quantizer) -> bool {
    let halves = 2.0 * (value.to_f64() * quantizer.inverse_step()) + ROUNDING - ROUNDING;
    let is_odd = 2.0 * (0.5 * halves + ROUNDING - ROUNDING) != halves;
    let is_on_it = V::round_from(halves * quantizer.bound()).to_f64() == value.to_f64();
    quantizer.step() == 2.0 * quantizer.bound() && is_odd & is_on_it
}

/// Quantizes the values of a chunk: writes a code for each value, and sets a bit of `exceptions`, which is all zeros before, for each exception. Codes of
/// exceptions are left to [`fill_gaps`](crate::quantize::gaps::fill_gaps).
pub fn quantize<V: Value>(chunk: &[u8], order: ByteOrder, quantizer: &Quantizer, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    Groups::<V>::new(quantizer).quantize(chunk, order, 0, codes, exceptions);
}

/// A grid, and what is computed from it once for all groups of values.
pub(crate) struct Groups<'a, V> {
    quantizer: &'a Quantizer,
    /// Where values may be on positions of it.
    fine: Option<FineGrid<V>>,
    fast: Option<FastF32>,
    marked: MarkedRounding,
    excluded: Excluded<V>,
}

/// Rounding with marks. Loops over values use a copy: with fields behind a reference, the compiler would make no vector code.
#[derive(Clone, Copy)]
struct MarkedRounding {
    quantizer: Quantizer,
    /// Bits of the largest f64 below the limit of codes without a mark: [`Quantizer::code_limit`] if [`Groups::MARKS_ARE_CERTAIN`],
    /// else [`Value::SAFE_CODE_LIMIT`]. All ones if every code has a mark.
    below_limit: u64,
}

impl<'a, V: Value> Groups<'a, V> {
    /// Whether [`MarkedRounding::round`] marks exactly the exceptions, apart from fills. For types of 16 bits it does: it rounds
    /// the restored value again. These types have no fine grid.
    const MARKS_ARE_CERTAIN: bool = V::SIZE == 2;

    pub(crate) fn new(quantizer: &'a Quantizer) -> Self {
        let limit = if Self::MARKS_ARE_CERTAIN {
            quantizer.code_limit::<V>()
        } else if quantizer.step() >= V::SMALLEST_SAFE_STEP {
            V::SAFE_CODE_LIMIT
        } else {
            // No code is safe: every group is marked.
            0.0
        };
        let marked = MarkedRounding { quantizer: *quantizer, below_limit: limit.to_bits().wrapping_sub(1) };
        let excluded = Excluded::new(quantizer, V::CODE_LIMIT);
        Self { quantizer, fine: quantizer.fine(), fast: FastF32::new(quantizer), marked, excluded }
    }

    /// Quantizes values of a chunk from a word of `exceptions` on: see [`quantize`].
    pub(crate) fn quantize(
        &self,
        values: &[u8],
        order: ByteOrder,
        first_word: usize,
        codes: &mut [V::Code],
        exceptions: &mut Bitmap,
    ) {
        if self.quantizer.is_halved() {
            return self.quantize_on_halves(values, order, first_word, codes, exceptions);
        }
        widely_vectorized(
            #[inline(always)]
            || match (order, self.quantizer.exempts_values()) {
                (ByteOrder::Little, false) => {
                    self.quantize_groups::<false>(values, ByteOrder::Little, first_word, codes, exceptions)
                }
                (ByteOrder::Big, false) => self.quantize_groups::<false>(values, ByteOrder::Big, first_word, codes, exceptions),
                (order, true) => self.quantize_groups::<true>(values, order, first_word, codes, exceptions),
            },
        );
    }

    /// [`Groups::quantize`] on a grid whose step is the bound. The bound's own grid has the codes of most values. Its exceptions, and values of so many steps that
    /// the doubled code may not come back, are looked at one by one.
    fn quantize_on_halves(
        &self,
        values: &[u8],
        order: ByteOrder,
        first_word: usize,
        codes: &mut [V::Code],
        exceptions: &mut Bitmap,
    ) {
        Groups::<V>::new(&self.quantizer.doubled()).quantize(values, order, first_word, codes, exceptions);
        let has_safe_codes = self.quantizer.step() >= V::SMALLEST_SAFE_STEP;
        let safe = if has_safe_codes { V::SAFE_CODE_LIMIT / 2.0 } else { 0.0 };
        let groups = codes.chunks_mut(VALUES_PER_GROUP).zip(values.chunks(VALUES_PER_GROUP * V::SIZE));
        for (word, (codes, bytes)) in (first_word..).zip(groups) {
            let mut left = exceptions.words()[word];
            let open = left
                | vectorized(
                    #[inline(always)]
                    || {
                        let unsafe_codes = bits_where(
                            codes,
                            #[inline(always)]
                            |code| code.to_f64().abs() >= safe,
                        );
                        codes.iter_mut().for_each(|code| *code = code.add(*code));
                        unsafe_codes
                    },
                );
            if open == 0 {
                continue;
            }
            let values = group_of::<V>(bytes, order);
            for at in ones(open) {
                let code = quantize_one(values[at], self.quantizer);
                codes[at] = code.unwrap_or_default();
                left = left & !(1 << at) | u64::from(code.is_none()) << at;
            }
            exceptions.replace_word(word, left);
        }
    }

    /// [`Groups::quantize`]. `EXEMPTS` is that of [`Quantizer::exempts_values`].
    #[inline(always)]
    fn quantize_groups<const EXEMPTS: bool>(
        &self,
        chunk: &[u8],
        order: ByteOrder,
        first_word: usize,
        codes: &mut [V::Code],
        exceptions: &mut Bitmap,
    ) {
        let (groups, rest) = codes.as_chunks_mut();
        let (group_bytes, rest_bytes) = chunk.split_at(groups.len() * VALUES_PER_GROUP * V::SIZE);
        let mut found = 0;
        for (word, (codes, bytes)) in
            (first_word..).zip(groups.iter_mut().zip(group_bytes.chunks_exact(VALUES_PER_GROUP * V::SIZE)))
        {
            found = self.quantize_group::<EXEMPTS>(bytes, order, found != 0, codes);
            if found != 0 {
                exceptions.set_word(word, found);
            }
        }
        if !rest.is_empty() {
            let mut padded = [V::Code::default(); VALUES_PER_GROUP];
            found = self.quantize_group::<EXEMPTS>(rest_bytes, order, found != 0, &mut padded);
            exceptions.set_word(first_word + groups.len(), found & ((1 << rest.len()) - 1));
            rest.copy_from_slice(&padded[..rest.len()]);
        }
    }

    /// Quantizes a group. If `bytes` has fewer values, zeros follow them. Writes the codes; the codes of exceptions mean nothing.
    /// Returns a bit for each value, the first value's lowest: 1 for an exception. The bits of the added zeros mean nothing.
    #[inline(always)]
    fn quantize_group<const EXEMPTS: bool>(
        &self,
        bytes: &[u8],
        order: ByteOrder,
        had_excluded: bool,
        codes: &mut [V::Code; VALUES_PER_GROUP],
    ) -> u64 {
        let values = group_of(bytes, order);
        let has_exempt = EXEMPTS && (self.quantizer.fills().has_any::<V>(&values) || self.exempt(&values) != 0);
        // After a group with excluded values, the next one is searched for them before it is rounded.
        let has_beyond = had_excluded && self.excluded.has_beyond(&values);
        if has_exempt || has_beyond || is_marked(self.round(&values, codes)) {
            // `quantize_marked` reads the bytes again. With a reference to `values`, the compiler would store the values of all
            // groups in memory.
            self.quantize_marked(bytes, order, codes)
        } else {
            0
        }
    }

    /// Rounds a group as if it had no exception. Bit 63 of the result is 1 if a value of the group may be an exception.
    #[inline(always)]
    fn round(&self, values: &[V; VALUES_PER_GROUP], rounded: &mut [V::Code; VALUES_PER_GROUP]) -> u64 {
        let result = self.fast.map_or(FastResult::NOTHING, |fast| fast.codes(values, rounded));
        let mut mark = 0;
        if !result.codes_are_certain {
            let marked = self.marked;
            for (code, &value) in rounded.iter_mut().zip(values) {
                let mark_of_value;
                (*code, mark_of_value) = marked.round(value);
                mark |= mark_of_value;
            }
        }
        if let Some(fine) = self.fine.as_ref().filter(|_| result.may_be_between_steps) {
            for &value in values {
                mark |= self.between_steps(fine, value);
            }
        }
        mark
    }

    /// [`Groups::quantize_group`] for a group that is marked.
    #[inline(never)]
    fn quantize_marked(&self, bytes: &[u8], order: ByteOrder, codes: &mut [V::Code; VALUES_PER_GROUP]) -> u64 {
        let values = &group_of(bytes, order);
        // Most groups are marked because of excluded values alone. So the group is rounded again with other values in their
        // place.
        let mut replaced = [V::default(); VALUES_PER_GROUP];
        let mut marks = [0; VALUES_PER_GROUP];
        let (excluded, is_certain) = vectorized(
            #[inline(always)]
            || {
                let excluded = self.excluded.bits(values) | self.exempt(values);
                self.excluded.replace(values, &mut replaced);
                if excluded == u64::MAX || excluded != 0 && !is_marked(self.round(&replaced, codes)) {
                    return (excluded, true);
                }
                let marked = self.marked;
                for ((&value, code), mark) in replaced.iter().zip(&mut *codes).zip(&mut marks) {
                    (*code, *mark) = marked.round(value);
                }
                if Self::MARKS_ARE_CERTAIN {
                    return (excluded | bits_where(&marks, is_marked), true);
                }
                if let Some(fine) = &self.fine {
                    for (&value, mark) in replaced.iter().zip(&mut marks) {
                        *mark |= self.between_steps(fine, value);
                    }
                }
                (excluded, false)
            },
        );
        if is_certain {
            return excluded;
        }
        let mut exceptions = excluded;
        for at in (0..VALUES_PER_GROUP).filter(|&at| is_marked(marks[at])) {
            match quantize_one(replaced[at], self.quantizer) {
                Some(code) => codes[at] = code,
                None => exceptions |= 1 << at,
            }
        }
        exceptions
    }

    /// Bit 63 is 1 where a value is exactly on a position of the fine grid between two steps.
    #[inline(always)]
    fn between_steps(&self, fine: &FineGrid<V>, value: V) -> u64 {
        fine.between_steps_sign(value, round(value, self.quantizer).1)
    }

    /// A bit for each value, the first value's lowest: 1 where a value is an exception for the sake of thresholds.
    #[inline(always)]
    fn exempt(&self, values: &[V; VALUES_PER_GROUP]) -> u64 {
        let quantizer = *self.quantizer;
        let thresholds = quantizer.keep().thresholds();
        if thresholds.is_empty() {
            return 0;
        }
        let on_half = bits_where(
            values,
            #[inline(always)]
            |value| is_on_half(value, &quantizer),
        );
        thresholds.iter().fold(on_half, |bits, &threshold| {
            bits | bits_where(
                values,
                #[inline(always)]
                |value| is_on_other_side(threshold, value.to_f64(), round(value, &quantizer).2.to_f64()),
            )
        })
    }
}

impl MarkedRounding {
    /// The code of a value and its mark: bit 63 is 1 where the value misses the bound, or its code may not come back.
    #[inline(always)]
    fn round<V: Value>(self, value: V) -> (V::Code, u64) {
        let (sum, code, restored) = round(value, &self.quantizer);
        // Comparisons by the sign of a difference of bits: see `fast_f32`.
        let error = (value.to_f64() - restored.to_f64()).abs();
        let misses = self.quantizer.bound().to_bits().wrapping_sub(error.to_bits());
        let is_large = self.below_limit.wrapping_sub(code.abs().to_bits());
        let changes = if Groups::<V>::MARKS_ARE_CERTAIN {
            0u64.wrapping_sub((round(restored, &self.quantizer).1 - code).abs().to_bits())
        } else {
            0
        };
        (V::code_from_sum(sum), misses | is_large | changes)
    }
}

/// Whether bit 63 of a mark is 1.
#[inline(always)]
fn is_marked(mark: u64) -> bool {
    mark >> 63 == 1
}

/// The values of a group, and zeros behind those that `bytes` has.
#[inline(always)]
fn group_of<V: Value>(bytes: &[u8], order: ByteOrder) -> [V; VALUES_PER_GROUP] {
    let mut values = [V::default(); VALUES_PER_GROUP];
    V::read_all(bytes, order, &mut values);
    values
}

/// Restores the values of a chunk from their codes, which may be integers of any type. Exceptions are overwritten afterwards.
pub fn restore<V: Value, C: Integer>(codes: &[C], quantizer: &Quantizer, order: ByteOrder, chunk: &mut [u8]) {
    let step = quantizer.step();
    if quantizer.limits().is_none() {
        return vectorized(
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
    let fine = FineGrid::<V>::new(quantizer);
    vectorized(
        #[inline(always)]
        || {
            V::write_all(
                codes,
                #[inline(always)]
                |code| fine.limited(V::round_from(code.to_f64() * step)),
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
    use crate::quantize::fills::Span;
    use crate::quantize::{check_restored, chunk_of};
    use crate::random::Random;

    #[test]
    fn rounds_half_to_even() {
        let quantizer = Quantizer::new(0.5);
        for (value, code) in [(0.5f32, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.499, 0)] {
            assert_eq!(quantize_one(value, &quantizer), Some(code), "{value}");
            assert_eq!(quantize_one(f64::from(value), &quantizer), Some(i64::from(code)), "{value}");
        }
    }

    /// Compares a chunk's codes, exceptions and restored values with the plain ones, with vector instructions and without.
    fn compare<V: Value + std::fmt::Debug>(values: &[V], quantizer: &Quantizer, plain: &Plain, order: ByteOrder) {
        let len = values.len();
        let chunk = chunk_of(values, order);
        for is_vectorized in [true, false] {
            let (mut codes, mut exceptions) = (vec![V::Code::default(); len], Bitmap::of(len, []));
            match (is_vectorized || quantizer.is_halved(), quantizer.exempts_values()) {
                (true, _) => quantize::<V>(&chunk, order, quantizer, &mut codes, &mut exceptions),
                (false, false) => {
                    Groups::<V>::new(quantizer).quantize_groups::<false>(&chunk, order, 0, &mut codes, &mut exceptions)
                }
                (false, true) => {
                    Groups::<V>::new(quantizer).quantize_groups::<true>(&chunk, order, 0, &mut codes, &mut exceptions)
                }
            }
            let mut restored = vec![0; chunk.len()];
            restore::<V, _>(&codes, quantizer, order, &mut restored);
            let exceptions: Vec<usize> = exceptions.indices().collect();
            for (index, &value) in values.iter().enumerate() {
                let name = format!("quantize/linear: {:e} of {len} values, {plain:?}", value.to_f64());
                let found = (!exceptions.contains(&index)).then_some(codes[index].to_i64());
                assert_eq!(found, plain.code(value), "{name}");
                assert_eq!(quantize_one(value, quantizer).map(Integer::to_i64), found, "{name}, alone");
                let restored = V::read(&restored, index, order);
                assert_eq!(restored.to_bits_i64(), plain.value::<V>(codes[index].to_i64()).to_bits_i64(), "{name}, restored");
                assert!(found.is_none() || (value.to_f64() - restored.to_f64()).abs() <= plain.bound, "{name}: out of bound");
            }
        }
    }

    /// The order, and the sides of 0, of a value, and of a number within the bound.
    fn sides_of<V: Value>(values: &[V], bound: f64) -> Keep {
        let thresholds =
            [0.0, values[values.len() / 2].to_f64(), 0.3 * bound].into_iter().filter(|threshold| threshold.is_finite());
        thresholds.fold(Keep::default().and_order(), |keep, threshold| keep.and_side_of(threshold).unwrap())
    }

    fn check<V: Value + std::fmt::Debug>(bounds: &[f64], fill: Option<V>) {
        let mut random = Random(1);
        for (&bound, len) in bounds.iter().flat_map(|bound| [1, 7, 63, 64, 65, 131, 640].map(|len| (bound, len))) {
            for kind in 0..4 {
                let values: Vec<V> = (0..len)
                    .map(|index| {
                        let bits = random.next();
                        let unit = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
                        let steps = unit * [5.0, 600.0, 1e7, 3e9][kind];
                        let edges = [f64::NAN, f64::INFINITY, -0.0, 1e-310, f64::MAX, (steps.trunc() + 0.5) * 2.0 * bound];
                        let of_type = V::round_from(steps * 2.0 * bound);
                        match (bits >> 33) % 16 {
                            rare @ 0..6 if kind > 0 => V::round_from(edges[rare as usize].copysign(unit)),
                            6 => fill.unwrap_or(of_type),
                            7 => V::round_from((steps.trunc() * 8.0 + (index % 8) as f64) / 8.0 * 1020.0 / 1021.0 * 2.0 * bound),
                            8 => V::from_bits(V::Code::from_i64((bits >> 40).cast_signed() % 3 + 1)),
                            _ => of_type,
                        }
                    })
                    .collect();
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    let chunk = chunk_of(&values, order);
                    for span in [Span::ALL, Span { least: -3.0 * bound, greatest: 500.0 * bound }] {
                        let span =
                            Span { greatest: V::round_from(span.greatest).to_f64(), least: V::round_from(span.least).to_f64() };
                        let fills = Fills::new(fill, span);
                        let sides = sides_of(&values, bound);
                        for keep in [Keep::default(), Keep::default().and_order(), sides, sides.halved()] {
                            let quantizer = Quantizer::for_chunk::<V>(&chunk, order, bound, fills, keep);
                            compare(&values, &quantizer, &Plain { half_step: quantizer.half_step(), bound, fills, keep }, order);
                        }
                    }
                    let exact = Quantizer::exact(0.25);
                    compare(
                        &values,
                        &exact,
                        &Plain { half_step: 0.125, bound: 0.0, fills: Fills::NONE, keep: Keep::default() },
                        order,
                    );
                }
            }
        }
    }

    #[test]
    fn chunks_are_quantized_by_the_plain_definition() {
        check::<f32>(&[1e-3, 0.5, 0.1, 1e-30, 4e27], None);
        check::<f32>(&[1e-3, 0.043_21], Some(-999.0));
        check::<f32>(&[0.1], Some(0.0));
        check::<f32>(&[0.1], Some(-0.0));
        check::<f32>(&[0.1], Some(f32::NAN));
        check::<f32>(&[0.5], Some(31.0));
        check::<f64>(&[0.5], Some(-32.0));
        check::<f64>(&[1e-3, 0.5, 1e-300, 3e100], None);
        check::<f64>(&[1e-3], Some(1e20));
        check::<Binary16>(&[1e-7, 1e-3, 0.5, 0.3, 20.0, 7e4], None);
        check::<Binary16>(&[1e-3, 0.5], Some(Binary16::from_f64(2.0)));
        check::<BFloat16>(&[1e-40, 1e-3, 0.5, 0.3, 1e30, 1e300], None);
        check::<BFloat16>(&[1e-3, 0.3], Some(BFloat16::from_f64(-999.0)));
    }

    #[test]
    fn values_are_restored_by_the_plain_definition() {
        fn check<V: Value, C: Integer>() {
            for half_step in [1e-3, 0.5, 1e-300, 3e100] {
                let plain = Plain { half_step, bound: half_step, fills: Fills::NONE, keep: Keep::default() };
                let grid = Quantizer::new(half_step);
                let restore = |codes: &[C], order, chunk: &mut [u8]| restore::<V, C>(codes, &grid, order, chunk);
                check_restored::<V, C>(&format!("linear at {half_step:e}"), restore, |code| plain.value(code));
            }
        }
        check::<f32, i32>();
        check::<f32, i16>();
        check::<f64, i64>();
        check::<f64, i32>();
        check::<Binary16, i32>();
        check::<BFloat16, i32>();
    }
}
