//! What the decoded values of a chunk must hold, by the kind of its bound. The tests of this folder and the fuzz targets call it.
//!
//! Differences of integers, and shares of their range, are taken exactly in 128 bits. Differences of floating-point numbers are taken in f64, in which bounds
//! are defined. The code shares nothing with the encoder but the reading of 16-bit numbers.

use std::cmp::Ordering;

use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::{ByteOrder, Config, ErrorBound, Keep, Layout, Scalar};

/// A value of a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number {
    /// The value's bits, in the low bits.
    pub(crate) bits: u64,
    /// The value, rounded if it is an integer of more than 53 bits.
    pub(crate) value: f64,
    /// The exact value of an integer.
    pub(crate) whole: Option<i128>,
}

impl Number {
    /// The value of a type that has these bits.
    pub(crate) fn from_bits(scalar: Scalar, bits: u64) -> Self {
        let whole = match scalar {
            Scalar::I8 => Some(i128::from(bits as i8)),
            Scalar::I16 => Some(i128::from(bits as i16)),
            Scalar::I32 => Some(i128::from(bits as i32)),
            Scalar::I64 => Some(i128::from(bits as i64)),
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => Some(i128::from(bits)),
            _ => None,
        };
        let value = match scalar.of_values() {
            Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
            Scalar::F64 => f64::from_bits(bits),
            Scalar::F16 => Binary16::from_bits(bits as u16).to_f64(),
            Scalar::BF16 => BFloat16::from_bits(bits as u16).to_f64(),
            _ => whole.unwrap_or(0) as f64,
        };
        Self { bits, value, whole }
    }

    /// Whether this is no farther from another value than a bound.
    pub(crate) fn is_within(&self, bound: f64, other: &Self) -> bool {
        match (self.whole, other.whole) {
            // A comparison in f64 would be a rounded one.
            (Some(one), Some(other)) => one.abs_diff(other) <= bound.min(1e30) as u128,
            _ => self.value.is_finite() && (self.value - other.value).abs() <= bound,
        }
    }
}

/// The bits of a value, from its bytes.
pub(crate) fn bits(value: &[u8], order: ByteOrder) -> u64 {
    let add = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
    match order {
        ByteOrder::Big => value.iter().fold(0, add),
        ByteOrder::Little => value.iter().rev().fold(0, add),
    }
}

/// The values of a chunk.
pub(crate) fn numbers(chunk: &[u8], layout: &Layout) -> Vec<Number> {
    chunk.chunks(layout.scalar.size()).map(|value| Number::from_bits(layout.scalar, bits(value, layout.byte_order))).collect()
}

/// How far a value may be off.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// Floating-point numbers: an absolute error, in f64.
    Absolute(f64),
    /// Integers: an absolute error.
    Integer(u128),
    /// A share of the value's magnitude, in f64.
    Share(f64),
    /// Any finite value will do: what the mode promises is checked for the chunk as a whole.
    Finite,
    /// Nothing may change.
    Bits,
}

/// What a configuration promises of a chunk's values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Promise {
    limit: Limit,
    /// What an error above the limit is called.
    above: &'static str,
    fill: Option<u64>,
    decibels: Option<f64>,
    /// The absolute bound of floating-point values.
    lattice_bound: Option<f64>,
    keep: Keep,
}

impl Promise {
    /// The promise for a chunk with these values.
    pub(crate) fn new(original: &[Number], layout: &Layout, config: &Config) -> Self {
        let fill = config.fill_value;
        let absolute = |bound: f64| {
            if layout.scalar.is_float() { Limit::Absolute(bound) } else { Limit::Integer(bound.min(1e30) as u128) }
        };
        let (limit, above) = match config.bound {
            ErrorBound::Absolute(bound) => (absolute(bound), "error above the bound"),
            ErrorBound::Relative(share) => {
                let counted = counted(original, layout, fill);
                let limit = match range(&counted) {
                    Range::Integer(range) => Limit::Integer(share_of(share, range)),
                    Range::Float(range) => Limit::Absolute(share * range),
                };
                (limit, "error above the share of the range")
            }
            ErrorBound::PointwiseRelative(share) => (Limit::Share(share), "error above the share of the value"),
            ErrorBound::Ratio { ceiling: Some(ceiling), .. } => (absolute(ceiling), "error above the ceiling"),
            // No bound wider than the range is of use; its last digits may be another by a rounding.
            ErrorBound::Ratio { ceiling: None, .. } => match range(&finite(original, fill)) {
                Range::Integer(range) => (Limit::Integer(range.saturating_add(range / 32)), "error above the range"),
                Range::Float(range) => (Limit::Absolute(range * (1.0 + 1.0 / 32.0)), "error above the range"),
            },
            ErrorBound::Psnr(_) => (Limit::Finite, ""),
            ErrorBound::Lossless => (Limit::Bits, "lossless value changed"),
        };
        let decibels = if let ErrorBound::Psnr(decibels) = config.bound { Some(decibels) } else { None };
        let lattice_bound = match (config.bound, limit) {
            (ErrorBound::Absolute(_), Limit::Absolute(bound)) => Some(bound),
            _ => None,
        };
        Self { limit, above, fill, decibels, lattice_bound, keep: config.keep }
    }

    /// What is wrong if `x` comes back as `y`.
    pub(crate) fn breach(&self, x: &Number, y: &Number) -> Option<&'static str> {
        if x.bits == y.bits {
            return None;
        }
        if Some(x.bits) == self.fill {
            return Some("fill value changed");
        }
        if !x.value.is_finite() {
            return Some("NaN or infinity changed");
        }
        if !y.value.is_finite() {
            return Some("finite value became NaN or infinite");
        }
        let difference = (x.value - y.value).abs();
        let holds = match (self.limit, x.whole, y.whole) {
            (Limit::Integer(bound), Some(x), Some(y)) => x.abs_diff(y) <= bound,
            (Limit::Absolute(bound), ..) => difference <= bound,
            (Limit::Share(share), ..) => {
                difference <= share * x.value.abs() && x.value.is_sign_negative() == y.value.is_sign_negative()
            }
            (Limit::Finite, ..) => true,
            _ => false,
        };
        (!holds).then_some(self.above)
    }

    /// Whether all finite values other than the fill value are multiples of a power of two above twice the absolute bound, so that they are exact (FORMAT.md
    /// §11).
    fn is_lattice_kept(&self, original: &[Number]) -> bool {
        let Some(bound) = self.lattice_bound else { return false };
        let exponents = finite(original, self.fill).into_iter().filter(|x| x.value != 0.0).map(|x| {
            let exponent = (x.value.to_bits() >> 52 & 0x7ff) as i32;
            let mantissa = x.value.to_bits() & ((1 << 52) - 1) | u64::from(exponent > 0) << 52;
            exponent.max(1) - 1075 + mantissa.trailing_zeros().cast_signed()
        });
        exponents.min().is_some_and(|least| least >= -1000 && 2f64.powi(least.min(1000)) > 2.0 * bound)
    }

    /// The ranges of a chunk's finite values before and after, if a value left it that may not (FORMAT.md §11.3).
    fn leaves_range(&self, original: &[Number], decoded: &[Number], layout: &Layout) -> Option<String> {
        let ends = |numbers: &mut dyn Iterator<Item = &Number>| {
            let values = numbers.map(|number| number.value).filter(|value| value.is_finite());
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), value| (value.min(least), value.max(greatest)))
        };
        let (before, after) = (ends(&mut original.iter()), ends(&mut decoded.iter()));
        // Values that changed have codes. If they are half a step apart, a position of the fine grid is among them.
        let changed = ends(&mut original.iter().zip(decoded).filter(|(x, y)| x.bits != y.bits).map(|(x, _)| x));
        let keeps = |end: f64| {
            self.keep.is_nothing()
                && self.lattice_bound.is_some_and(|bound| changed.1 - changed.0 >= bound && Self::keeps_end(end, bound, layout))
        };
        let falls_below = after.0 < before.0 && (keeps(before.0) || before.0 >= 0.0 && after.0 < 0.0);
        let rises_above = after.1 > before.1 && (keeps(before.1) || before.1 <= 0.0 && after.1 > 0.0);
        (falls_below || rises_above).then(|| format!("{before:?} became {after:?}"))
    }

    /// Whether no value may go beyond this end of a chunk's range: it has fewer than 2048 steps, and they are no smaller than a fine grid's may be.
    fn keeps_end(end: f64, bound: f64, layout: &Layout) -> bool {
        let least_step = match layout.scalar.of_values() {
            Scalar::F32 => 1e-28,
            Scalar::F64 => 1e-290,
            _ => return false,
        };
        end.abs() < 2000.0 * (2.0 * bound) && 2.0 * bound >= least_step
    }

    /// Two values whose order is another one, or a value that is on another side of a threshold.
    fn is_not_kept(&self, original: &[Number], decoded: &[Number]) -> Option<String> {
        let is_kept = |(x, _): &(&Number, &Number)| !x.value.is_nan() && Some(x.bits) != self.fill;
        let mut pairs: Vec<(&Number, &Number)> = original.iter().zip(decoded).filter(is_kept).collect();
        for &threshold in self.keep.thresholds() {
            let side = |number: &Number| number.value.partial_cmp(&threshold);
            if let Some((x, y)) = pairs.iter().find(|(x, y)| side(x) != side(y)) {
                return Some(format!("{x:?} became {y:?}, on another side of {threshold:?}"));
            }
        }
        if !self.keep.has_order() {
            return None;
        }
        let order = |one: &Number, other: &Number| match (one.whole, other.whole) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.value.partial_cmp(&other.value).unwrap_or(Ordering::Equal),
        };
        pairs.sort_by(|(one, _), (other, _)| order(one, other));
        let is_inverted = |pair: &&[(&Number, &Number)]| {
            let (before, after) = (order(pair[0].0, pair[1].0), order(pair[0].1, pair[1].1));
            after == Ordering::Greater || before == Ordering::Equal && after != Ordering::Equal
        };
        pairs.windows(2).find(is_inverted).map(|pair| format!("{pair:?}: the order is another one"))
    }

    /// What is wrong with a chunk: the first value that breaks the promise, with the number of those that do, or a PSNR that is not reached.
    pub(crate) fn check(&self, original: &[Number], decoded: &[Number], layout: &Layout) -> Result<(), Breach> {
        let mut breaches =
            original.iter().zip(decoded).enumerate().filter_map(|(index, (x, y))| Some((index, self.breach(x, y)?)));
        if let Some((index, kind)) = breaches.next() {
            let (x, y) = (&original[index], &decoded[index]);
            let detail = format!("value {index}: {x:?} became {y:?} ({} values more), limit {:?}", breaches.count(), self.limit);
            return Err(Breach { kind, detail });
        }
        let on_lattice = |(_, (x, y)): &(usize, (&Number, &Number))| x.value.is_finite() && x.value != y.value;
        if self.is_lattice_kept(original)
            && let Some((index, (x, y))) = original.iter().zip(decoded).enumerate().find(on_lattice)
        {
            return Err(Breach { kind: "value on a lattice changed", detail: format!("value {index}: {x:?} became {y:?}") });
        }
        if let Some(detail) = self.leaves_range(original, decoded, layout) {
            return Err(Breach { kind: "value left the range", detail });
        }
        if let Some(detail) = self.is_not_kept(original, decoded) {
            return Err(Breach { kind: "order or side of a value was not kept", detail });
        }
        let Some(asked) = self.decibels else { return Ok(()) };
        let Some(Noise { reached, of_type }) = noise(original, decoded, layout, self.fill) else { return Ok(()) };
        // No other values of the type are nearer than these on average.
        if reached >= asked - 0.1 || reached >= of_type {
            return Ok(());
        }
        // A fourth of the asked noise is a clear margin.
        let kind = if of_type > asked + 6.0 { "PSNR too low" } else { "PSNR too low near the type's own noise" };
        Err(Breach { kind, detail: format!("{reached:.2} dB of {asked:.2} dB, rounding to the type gives {of_type:.2} dB") })
    }
}

/// A promise that was broken.
#[derive(Debug, Clone)]
pub(crate) struct Breach {
    /// What kind of promise.
    pub(crate) kind: &'static str,
    /// Which value, and what became of it.
    pub(crate) detail: String,
}

/// The finite values other than the fill value.
fn finite(values: &[Number], fill: Option<u64>) -> Vec<Number> {
    values.iter().filter(|x| x.value.is_finite() && Some(x.bits) != fill).copied().collect()
}

/// Values of an element, and extents of the chunk in elements.
pub(crate) fn elements_of(layout: &Layout) -> (u64, Vec<u64>) {
    let each = if layout.scalar.is_pair() { 2 } else { 1 };
    let mut dims = layout.shape.dims().to_vec();
    dims[0] /= each;
    (each, dims)
}

/// Where along each axis the values end that count for a range: behind it all bytes of the chunk are 0 (FORMAT.md §11).
fn counted_extents(values: &[Number], each: u64, dims: &[u64]) -> Vec<u64> {
    let mut ends = vec![1; dims.len()];
    for (index, _) in values.iter().enumerate().filter(|(_, x)| x.bits != 0) {
        let mut rest = index as u64 / each;
        for (end, &extent) in ends.iter_mut().zip(dims).rev() {
            *end = (*end).max(rest % extent + 1);
            rest /= extent;
        }
    }
    ends
}

/// Whether each value is before the padding of the chunk.
fn is_counted(values: &[Number], layout: &Layout) -> Vec<bool> {
    let (each, dims) = elements_of(layout);
    let ends = counted_extents(values, each, &dims);
    if ends == dims {
        return vec![true; values.len()];
    }
    let is_inside = |index: usize| {
        let mut rest = index as u64 / each;
        ends.iter().zip(&dims).rev().all(|(&end, &extent)| {
            let at = rest % extent;
            rest /= extent;
            at < end
        })
    };
    (0..values.len()).map(is_inside).collect()
}

/// The values that count for a share of the range and for a PSNR.
fn counted(values: &[Number], layout: &Layout, fill: Option<u64>) -> Vec<Number> {
    let is_counted = is_counted(values, layout);
    let kept: Vec<Number> = values.iter().zip(is_counted).filter(|(_, is_counted)| *is_counted).map(|(x, _)| *x).collect();
    finite(&kept, fill)
}

/// Greatest value less the least one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Range {
    Integer(u128),
    Float(f64),
}

fn range(values: &[Number]) -> Range {
    let whole = values.iter().filter_map(|x| x.whole);
    if let (Some(least), Some(greatest)) = (whole.clone().min(), whole.max()) {
        return Range::Integer(greatest.abs_diff(least));
    }
    let ends = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, x| (ends.0.min(x.value), ends.1.max(x.value)));
    Range::Float(if ends.0 <= ends.1 { (ends.1 - ends.0).min(f64::MAX) } else { 0.0 })
}

/// The greatest integer up to a share, at most 1, of a range of at most 64 bits.
pub(crate) fn share_of(share: f64, range: u128) -> u128 {
    if share == 0.0 {
        return 0;
    }
    let exponent = (share.to_bits() >> 52) as i32;
    let mantissa = share.to_bits() & ((1 << 52) - 1) | u64::from(exponent > 0) << 52;
    // share = mantissa × 2^-shift, and the product has at most 117 bits.
    let shift = 1075 - exponent.max(1);
    if shift > 127 { 0 } else { (u128::from(mantissa) * range) >> shift }
}

/// PSNRs, in dB.
pub(crate) struct Noise {
    /// Of the decoded values; infinite if they are the original ones.
    pub(crate) reached: f64,
    /// Of values that are rounded to the type: errors spread evenly up to half the distance to the next value. Infinite for integers.
    of_type: f64,
}

/// Noise of a chunk's values; `None` if none of them counts.
pub(crate) fn noise(original: &[Number], decoded: &[Number], layout: &Layout, fill: Option<u64>) -> Option<Noise> {
    let is_counted = is_counted(original, layout);
    let (mut errors, mut roundings, mut count) = (0.0, 0.0, 0.0);
    let range = match range(&counted(original, layout, fill)) {
        Range::Integer(range) => range as f64,
        Range::Float(range) => range,
    };
    for ((x, y), is_counted) in original.iter().zip(decoded).zip(is_counted) {
        if !is_counted || !x.value.is_finite() || Some(x.bits) == fill {
            continue;
        }
        count += 1.0;
        let error = match (x.whole, y.whole) {
            (Some(x), Some(y)) => x.abs_diff(y) as f64,
            _ => x.value - y.value,
        };
        // Relative to the range, so that squares neither overflow nor vanish.
        if error != 0.0 {
            errors += (error / range).powi(2);
        }
        if x.whole.is_none() && range > 0.0 {
            let next = Number::from_bits(layout.scalar, x.bits ^ 1);
            if next.value.is_finite() {
                roundings += ((next.value - x.value) / range).powi(2) / 12.0;
            }
        }
    }
    let decibels = |sum: f64| if sum > 0.0 { -10.0 * (sum / count).log10() } else { f64::INFINITY };
    (count > 0.0).then(|| Noise { reached: decibels(errors), of_type: decibels(roundings) })
}
