//! Stage 1 (FORMAT.md §5): values → quantization codes and exceptions, and back.
//!
//! `k = round_half_even(x / (2 * bound))` turns the bound into an integer grid before anything is predicted, so that every later stage
//! is exact (dual quantization: Tian et al., cuSZ, PACT'20, section 3.1). The encoder decodes each code at once and compares in f64; a
//! value that misses the bound, is not finite or lies beyond the grid becomes an exception and is kept bit for bit.

use crate::bitmap::Bitmap;
use crate::element::Element;
use crate::finegrid::FineGrid;
use crate::glance::{Glance, Seen};
use crate::integer::Integer;
use crate::lattice;
use crate::layout::ByteOrder;
use crate::mask::Mask;
use crate::simd::{ROW_GROUP, vectorized};
use crate::small_float::{BFloat16, Binary16};

/// Adding this to `|p| < 2^51` leaves `p`, rounded half to even, in the low bits of the mantissa.
pub(crate) const ROUNDING: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// Values that are checked together before the slow path looks at each one.
const GROUP: usize = 64;

/// Grid on which values are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantizer {
    bound: f64,
    step: f64,
    inverse_step: f64,
    /// Bits of the fill value, sign extended, if values that have them must be told from others to become exceptions.
    fill: Option<i64>,
}

/// A fill value of as many steps is an exception even if the grid gives it back: as a code it would be a spike for its neighbours, where a mask
/// costs little. Smaller ones, 0 above all, may well be values among others.
pub const FAR_FILL: f64 = 32.0;

impl Quantizer {
    /// The grid of an absolute bound that has passed [`crate::Config::absolute`].
    #[must_use]
    pub fn new(bound: f64) -> Self {
        Self::with_step(bound, 2.0 * bound)
    }

    /// The grid for a chunk: that of the bound, or the lattice on which all of the chunk's values lie if it is wider ([`lattice`]).
    #[must_use]
    pub fn for_chunk<V: Value>(chunk: &[u8], order: ByteOrder, bound: f64, fill: Option<V>) -> Self {
        let mut grid = Self::new(bound);
        if let Some(spacing) = lattice::spacing(chunk, order, grid.step, fill) {
            grid = Self::with_step(grid.bound, spacing);
        }
        grid.fill = fill.filter(|&fill| grid.masks(fill)).map(Element::to_bits_i64);
        grid
    }

    /// Whether values with the bits of a fill value are exceptions on this grid and on its fine grid (FORMAT.md §5.1). Beyond the reach of both,
    /// every value is an exception, and the fill value needs no care.
    fn masks<V: Value>(&self, fill: V) -> bool {
        let is_in_reach = (fill.to_f64() * self.inverse_step).abs() < V::CODE_LIMIT;
        let comes_back = quantize_one(fill, self).is_some_and(|code| {
            let code = code.to_f64();
            V::round_from(code * self.step).to_bits() == fill.to_bits() && code.abs() < FAR_FILL
        });
        is_in_reach && !comes_back
    }

    /// The grid of a lattice that gives every number on it back as it is.
    #[must_use]
    pub fn exact(spacing: f64) -> Self {
        Self::with_step(0.0, spacing)
    }

    fn with_step(bound: f64, step: f64) -> Self {
        Self { bound, step, inverse_step: 1.0 / step, fill: None }
    }

    /// Half the distance of two neighbours on the grid, as the stream names it.
    #[must_use]
    pub fn half_step(&self) -> f64 {
        self.step / 2.0
    }

    pub(crate) fn bound(&self) -> f64 {
        self.bound
    }

    pub(crate) fn step(&self) -> f64 {
        self.step
    }

    pub(crate) fn inverse_step(&self) -> f64 {
        self.inverse_step
    }

    pub(crate) fn fill(&self) -> Option<i64> {
        self.fill
    }

    /// A magnitude from which on values are certain to be of as many steps or more; infinity where the type has no other that is close.
    pub(crate) fn magnitude_of<V: Value>(&self, steps: f64) -> V {
        // More than rounding takes away, but from subnormal numbers.
        let magnitude = V::round_from(1.01 * steps * self.step);
        if magnitude.to_f64() * self.inverse_step >= steps { magnitude } else { V::round_from(f64::INFINITY) }
    }

    /// The fine grid for interpolation, if there is one.
    #[must_use]
    pub fn fine<V: Value>(&self) -> Option<FineGrid<V>> {
        Some(FineGrid::new(self)).filter(FineGrid::is_there)
    }
}

/// A floating-point type: how its values are rounded and restored. All arithmetic is IEEE f64 without contraction.
pub trait Value: Element {
    /// Codes of at least this magnitude are exceptions.
    const CODE_LIMIT: f64;
    /// Below this magnitude, decoding and quantizing again is certain to give the same code,
    /// unless the step is below [`Value::SMALLEST_SAFE_STEP`], where results may be subnormal.
    const SAFE_CODE_LIMIT: f64;
    /// See [`Value::SAFE_CODE_LIMIT`].
    const SMALLEST_SAFE_STEP: f64;
    /// Reads every other value, from the first or the second one on, as many as `values` has room for.
    fn read_alternate(bytes: &[u8], from_second: bool, order: ByteOrder, values: &mut [Self]);
    /// Interpolation restores values of fewer steps than this, a power of two, or 0 for none. Chance lets a value of type f32 stand on the fine grid with
    /// a probability of up to `7 STEPS_LIMIT / 2^23`, and such values cost more than others.
    const STEPS_LIMIT: f64;
    /// The value in f64, exactly.
    fn to_f64(self) -> f64;
    /// Nearest value of this type, ties to even.
    fn round_from(value: f64) -> Self;
    /// Whether this is a number of a smaller magnitude than a positive one.
    fn is_below(self, other: Self) -> bool;
    /// Extracts the code from the low bits of a value to which 1.5 * 2^52 was added.
    fn code_from_sum(sum: f64) -> Self::Code;
    /// Whether its values are looked at in f32.
    const GLANCES: bool;
    /// See [`Glance::codes`].
    fn glance_codes(glance: Glance, values: &[Self], codes: &mut [Self::Code]) -> Seen;
    /// See [`Glance::residuals`].
    fn glance_residuals(glance: Glance, values: &[Self], predictions: &[i32], residuals: &mut [i32], places: &mut [i32]) -> bool;
    /// See [`Glance::doubts`].
    fn glance_doubts(glance: Glance, values: &[Self], predictions: &[i32], doubts: &mut [u32]);
}

/// Values by pairs, of which one is picked out by a loop of its own.
macro_rules! read_alternate {
    ($size:literal, $bits:ty, $pair:ty) => {
        #[inline(always)]
        fn read_alternate(bytes: &[u8], from_second: bool, order: ByteOrder, values: &mut [Self]) {
            let (pairs, last) = bytes.as_chunks::<{ 2 * $size }>();
            let whole = values.len().min(pairs.len());
            // A pair is one integer, of which a shift and a truncation leave either: strided copies in vector code end in single values, because they must
            // not read beyond the last.
            if from_second {
                pick(&pairs[..whole], &mut values[..whole], |pair| {
                    Self::from_bits((<$pair>::from_le_bytes(pair) >> <$bits>::BITS) as $bits)
                });
            } else {
                pick(&pairs[..whole], &mut values[..whole], |pair| Self::from_bits(<$pair>::from_le_bytes(pair) as $bits));
            }
            if order == ByteOrder::Big {
                for value in &mut values[..whole] {
                    *value = Self::from_bits(value.to_bits().swap_bytes());
                }
            }
            if let Some(value) = values.get_mut(pairs.len())
                && !last.is_empty()
            {
                *value = Self::read(last, 0, order);
            }
        }
    };
}

/// Makes values of as many pairs.
#[inline(always)]
fn pick<P: Copy, V>(pairs: &[P], values: &mut [V], read: impl Fn(P) -> V + Copy) {
    let groups = values.as_chunks_mut::<ROW_GROUP>().0.iter_mut().zip(pairs.as_chunks::<ROW_GROUP>().0);
    for (values, &pairs) in groups {
        *values = pairs.map(read);
    }
    if values.len().is_multiple_of(ROW_GROUP) {
        return;
    }
    if let (Some(values), Some(&pairs)) = (values.last_chunk_mut::<ROW_GROUP>(), pairs.last_chunk()) {
        // What is left goes together with what stands before it.
        *values = pairs.map(read);
    } else {
        for (value, &pair) in values.iter_mut().zip(pairs) {
            *value = read(pair);
        }
    }
}

/// What is the same for all types of 32-bit codes.
macro_rules! narrow_codes {
    () => {
        const CODE_LIMIT: f64 = 2_147_483_648.0; // 2^31
        #[inline(always)]
        fn code_from_sum(sum: f64) -> i32 {
            sum.to_bits() as i32
        }
    };
}

/// For types that are never looked at in f32, where the arithmetic of values is too short to help.
macro_rules! no_glance {
    () => {
        const GLANCES: bool = false;
        #[inline(always)]
        fn glance_codes(_glance: Glance, _values: &[Self], _codes: &mut [Self::Code]) -> Seen {
            Seen::NOTHING
        }
        #[inline(always)]
        fn glance_residuals(
            _: Glance,
            _values: &[Self],
            _predictions: &[i32],
            _residuals: &mut [i32],
            _places: &mut [i32],
        ) -> bool {
            false
        }
        #[inline(always)]
        fn glance_doubts(_glance: Glance, _values: &[Self], _predictions: &[i32], doubts: &mut [u32]) {
            doubts.fill(u32::MAX);
        }
    };
}

impl Value for f32 {
    // r = k * step * (1 + d) with |d| <= 2^-24, so r / step misses k by less than 2^22 * 2^-24 = 1/4.
    const SAFE_CODE_LIMIT: f64 = 4_194_304.0; // 2^22
    const SMALLEST_SAFE_STEP: f64 = 1e-28;
    const STEPS_LIMIT: f64 = 512.0;
    const GLANCES: bool = true;
    narrow_codes!();
    read_alternate!(4, u32, u64);
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn round_from(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.abs() < other
    }
    #[inline(always)]
    fn glance_codes(glance: Glance, values: &[Self], codes: &mut [i32]) -> Seen {
        glance.codes(values, codes)
    }
    #[inline(always)]
    fn glance_residuals(glance: Glance, values: &[Self], predictions: &[i32], residuals: &mut [i32], places: &mut [i32]) -> bool {
        glance.residuals(values, predictions, residuals, places)
    }
    #[inline(always)]
    fn glance_doubts(glance: Glance, values: &[Self], predictions: &[i32], doubts: &mut [u32]) {
        glance.doubts(values, predictions, doubts);
    }
}

impl Value for f64 {
    const CODE_LIMIT: f64 = 2_251_799_813_685_248.0; // 2^51
    // Three roundings of 2^-53 each (product, inverse step, product): k is missed by less than 2^50 * 3 * 2^-53 = 3/8.
    const SAFE_CODE_LIMIT: f64 = 1_125_899_906_842_624.0; // 2^50
    const SMALLEST_SAFE_STEP: f64 = 1e-290;
    const STEPS_LIMIT: f64 = 32_768.0;
    no_glance!();
    read_alternate!(8, u64, u128);
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn round_from(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.abs() < other
    }
    #[inline(always)]
    fn code_from_sum(sum: f64) -> i64 {
        sum.to_bits().wrapping_sub(ROUNDING.to_bits()).cast_signed()
    }
}

/// Types of 16 bits. So few of their values lie between two steps of a useful bound that most would stand on a fine grid by chance.
macro_rules! small_value {
    ($type:ty, $safe_code_limit:literal, $smallest_safe_step:literal) => {
        impl Value for $type {
            // As for f32, with |d| <= 2^-(mantissa bits + 1).
            const SAFE_CODE_LIMIT: f64 = $safe_code_limit;
            const SMALLEST_SAFE_STEP: f64 = $smallest_safe_step;
            const STEPS_LIMIT: f64 = 0.0;
            narrow_codes!();
            no_glance!();
            read_alternate!(2, u16, u32);
            #[inline(always)]
            fn to_f64(self) -> f64 {
                <$type>::to_f64(self)
            }
            #[inline(always)]
            fn round_from(value: f64) -> Self {
                Self::from_f64(value)
            }
            #[inline(always)]
            fn is_below(self, other: Self) -> bool {
                <$type>::to_f64(self).abs() < <$type>::to_f64(other)
            }
        }
    };
}

small_value!(Binary16, 512.0, 1e-4);
small_value!(BFloat16, 64.0, 1e-28);

/// Rounds one value: its code in the sum's mantissa, the code in f64, and how far the restored value is off.
#[inline(always)]
fn round<V: Value>(value: V, quantizer: &Quantizer) -> (f64, f64, f64) {
    let sum = value.to_f64() * quantizer.inverse_step + ROUNDING;
    let code = sum - ROUNDING;
    let error = (value.to_f64() - V::round_from(code * quantizer.step).to_f64()).abs();
    (sum, code, error)
}

/// The code of a value, or `None` for an exception. The last two conditions make the encoder idempotent: a decoded value has its own code
/// again, and one that interpolation has restored keeps its place between this grid's, so that HDF5 may decode and encode a partly written
/// chunk any number of times without drift.
#[inline]
fn quantize_one<V: Value>(value: V, quantizer: &Quantizer) -> Option<V::Code> {
    if quantizer.fill == Some(value.to_bits_i64()) {
        return None;
    }
    let (sum, code, error) = round(value, quantizer);
    let holds = error <= quantizer.bound && code.abs() < V::CODE_LIMIT;
    let returns = || round(V::round_from(code * quantizer.step), quantizer).1 == code;
    let moves = || quantizer.fine::<V>().is_some_and(|fine| fine.is_between_steps(value));
    (holds && returns() && !moves()).then(|| V::code_from_sum(sum))
}

/// Quantizes the values of a chunk. `codes` has one entry a value; exceptions are marked in `exceptions`, zeros so far. The codes of exceptions are left to
/// [`fill_gaps`].
pub fn quantize<V: Value>(chunk: &[u8], order: ByteOrder, quantizer: &Quantizer, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    let groups = Groups::<V>::new(quantizer);
    vectorized(
        #[inline(always)]
        || match (order, quantizer.fill) {
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
    glance: Option<Glance>,
    /// Bits of the largest number below which codes are safe, all ones if none is.
    below_limit: u64,
    mask: Mask<V>,
}

impl<'a, V: Value> Groups<'a, V> {
    fn new(quantizer: &'a Quantizer) -> Self {
        // 0 when no code is safe: then every group is in doubt.
        let safe_limit = if quantizer.step >= V::SMALLEST_SAFE_STEP { V::SAFE_CODE_LIMIT } else { 0.0 };
        let below_limit = safe_limit.to_bits().wrapping_sub(1);
        let mask = Mask::new(quantizer, V::CODE_LIMIT);
        Self { quantizer, fine: FineGrid::new(quantizer), glance: Glance::new(quantizer), below_limit, mask }
    }

    /// Quantizes all values.
    #[inline(always)]
    fn quantize<const FILL: bool>(&self, chunk: &[u8], order: ByteOrder, codes: &mut [V::Code], exceptions: &mut Bitmap) {
        let fill = V::Code::from_i64(self.quantizer.fill.unwrap_or(0));
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
        let seen = self.glance.map_or(Seen::NOTHING, |glance| V::glance_codes(glance, values, rounded));
        let mut doubts = 0;
        if !seen.codes_are_certain {
            for (slot, &value) in rounded.iter_mut().zip(values) {
                let doubt;
                (*slot, doubt) = self.round_one(value);
                doubts |= doubt;
            }
        }
        if seen.may_stand_between && self.fine.is_there() {
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
        let misses = self.quantizer.bound.to_bits().wrapping_sub(error.to_bits());
        (V::code_from_sum(sum), misses | self.below_limit.wrapping_sub(code.abs().to_bits()))
    }

    /// The highest bit says whether a value stands between steps.
    #[inline(always)]
    fn between_steps(&self, value: V) -> u64 {
        self.fine.between_steps_sign(value, round(value, self.quantizer).1)
    }
}

/// Gives exceptions the code of their left neighbour in the row, those at a row's start the code of the row's first value that is none,
/// and those of a row without such a value 0: regions of fill values then have no differences inside and no spikes at their borders.
///
/// `row` is the extent of the fastest axis. The decoder does not depend on this choice.
pub fn fill_gaps<C: Integer>(codes: &mut [C], exceptions: &Bitmap, row: usize) {
    take_left_neighbours(codes, exceptions, row, |behind| behind.first().copied().unwrap_or_default());
}

/// Gives exceptions the code of their left neighbour in the row, and those at a row's start what `at_start` says of the codes behind them in the row.
pub fn take_left_neighbours<C: Integer>(codes: &mut [C], exceptions: &Bitmap, row: usize, at_start: impl Fn(&[C]) -> C) {
    let mut row_end = 0;
    for run in exceptions.runs() {
        let mut start = run.start;
        while start < run.end {
            if start >= row_end {
                row_end = start - start % row + row;
            }
            let end = run.end.min(row_end);
            let code = if start > row_end - row { codes[start - 1] } else { at_start(&codes[end..row_end]) };
            codes[start..end].fill(code);
            start = end;
        }
    }
}

/// Restores the values of a chunk from their codes, in integers of any type that holds them. Exceptions are overwritten afterwards.
pub fn restore<V: Value, C: Integer>(codes: &[C], quantizer: &Quantizer, order: ByteOrder, chunk: &mut [u8]) {
    let step = quantizer.step;
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

    #[test]
    fn rows_of_any_length_are_taken_apart() {
        fn are_read<V: Value>(value: impl Fn(usize) -> V) {
            for (len, order) in (1..70).flat_map(|len| [ByteOrder::Little, ByteOrder::Big].map(|order| (len, order))) {
                let mut row = vec![0; len * V::SIZE];
                for index in 0..len {
                    value(index).write(&mut row, index, order);
                }
                for (from_second, count) in [(false, len.div_ceil(2)), (true, len / 2)] {
                    let mut values = vec![V::default(); count];
                    V::read_alternate(&row, from_second, order, &mut values);
                    for (index, read) in values.iter().enumerate() {
                        let expected = value(2 * index + usize::from(from_second));
                        assert!(read.to_bits() == expected.to_bits(), "{index} of {len}");
                    }
                }
            }
        }
        are_read(|index| index as f32 + 0.5);
        are_read(|index| index as f64 - 0.5);
        are_read(|index| Binary16::from_f64(index as f64));
        are_read(|index| BFloat16::from_f64(-(index as f64)));
    }

    #[test]
    fn rounds_half_to_even() {
        let quantizer = Quantizer::new(0.5);
        for (value, code) in [(0.5f32, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.499, 0)] {
            assert_eq!(quantize_one(value, &quantizer), Some(code), "{value}");
            assert_eq!(quantize_one(f64::from(value), &quantizer), Some(i64::from(code)), "{value}");
        }
    }

    #[test]
    fn a_glance_decides_as_f64_does() {
        let mut state = 1u64;
        for bound in [1e-3, 0.5, 123.456, 7e-28, 4e27, 3.3e-12] {
            let quantizer = Quantizer::new(bound);
            let glance = Glance::new(&quantizer).unwrap();
            let (mut code, mut certain) = ([0], 0);
            for i in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let spread = [1.0, 100.0, 1e4, 1e7][i % 4];
                let mut steps = (f64::from((state >> 32) as u32) / f64::from(u32::MAX) * 2.0 - 1.0) * spread;
                if i % 3 == 0 {
                    steps = steps.trunc() + 0.5;
                }
                let value = (steps * quantizer.step) as f32;
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
        assert!(Glance::new(&Quantizer::with_step(0.5, 3.0)).is_none(), "a lattice's step does not bound the error");
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

    #[test]
    fn gaps_continue_their_row() {
        let marked = |indices: &[usize], len| {
            let mut bitmap = Bitmap::default();
            bitmap.clear(len).unwrap();
            indices.iter().for_each(|&index| bitmap.set(index));
            bitmap
        };
        let mut codes = [9, 9, 5, 9, 7, 9, 9, 9, 1, 9, 9, 9];
        fill_gaps(&mut codes, &marked(&[0, 1, 3, 5, 6, 7, 9, 10, 11], 12), 4);
        assert_eq!(codes, [5, 5, 5, 5, 7, 7, 7, 7, 1, 1, 1, 1]);
        let mut codes = [9; 4];
        fill_gaps(&mut codes, &marked(&[0, 1, 2, 3], 4), 2);
        assert_eq!(codes, [0; 4]);
    }
}
