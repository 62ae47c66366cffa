//! Compares values with the original ones, in f64. The codec's arithmetic has a part in one thing alone: which values are far. `repack`, `estimate` and `verify`
//! use this one comparison.

mod difference;
mod extremes;

pub(crate) use difference::{Difference, Far};
use extremes::{Extremes, LANES};
use quire_codec::stages::element::Element;
use quire_codec::stages::fills::Span;
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::stages::span_of;
use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Shape};

/// Decibels by which the PSNR of a chunk may be below what was asked for, as the encoder promises (codec/src/bound/psnr.rs).
const PSNR_TOLERANCE: f64 = 0.05;
/// Decibels that a sum of squares in another order may change.
const ROUNDING_DB: f64 = 1e-9;
/// Values that are compared at once, in arrays that the compiler's vector instructions work on.
const PART: usize = 64;

/// What is known of the parts of a chunk, for each lane.
#[derive(Default)]
struct Sums {
    extremes: Extremes,
    /// The largest error.
    greatest: [f64; LANES],
    /// The sum of the squared errors.
    squares: [f64; LANES],
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, values: &[f64; PART], errors: &[f64; PART]) {
        self.extremes.add(values);
        for errors in errors.as_chunks::<LANES>().0 {
            for ((greatest, squares), &error) in self.greatest.iter_mut().zip(&mut self.squares).zip(errors) {
                *greatest = if error > *greatest { error } else { *greatest };
                *squares += error * error;
            }
        }
    }
}

/// The element type of a chunk, and its kept values: those that come back bit for bit whatever the bound. NaN and infinities are always kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements<'a> {
    pub(crate) scalar: Scalar,
    pub(crate) byte_order: ByteOrder,
    /// Bits of values that have no part in the chunk's range, as the fill value has none.
    pub(crate) fill: &'a [u64],
    /// Bits of values that count in the range.
    pub(crate) missing: &'a [u64],
}

/// Compares the original bytes of a chunk with those of a copy. `bound` is the error that is promised; without one only NaN, infinities, fill values and
/// missing values have to be equal.
pub(crate) fn compare(original: &[u8], read: &[u8], elements: Elements<'_>, bound: Option<ErrorBound>) -> Difference {
    let span = bound.filter(|&bound| depends_on_chunk(bound)).map_or(Span::ALL, |bound| span(original, elements, bound));
    let comparison = Comparison { original, read, elements, span };
    match elements.scalar {
        Scalar::F32 | Scalar::C64 => comparison.run::<f32>(bound),
        Scalar::F64 | Scalar::C128 => comparison.run::<f64>(bound),
        Scalar::F16 => comparison.run::<Binary16>(bound),
        Scalar::BF16 => comparison.run::<BFloat16>(bound),
        Scalar::I8 => comparison.run::<i8>(bound),
        Scalar::U8 => comparison.run::<u8>(bound),
        Scalar::I16 => comparison.run::<i16>(bound),
        Scalar::U16 => comparison.run::<u16>(bound),
        Scalar::I32 => comparison.run::<i32>(bound),
        Scalar::U32 => comparison.run::<u32>(bound),
        Scalar::I64 => comparison.run::<i64>(bound),
        Scalar::U64 => comparison.run::<u64>(bound),
    }
}

/// A number of a chunk.
trait Number: Element {
    /// The distance of two numbers in f64.
    fn distance(self, other: Self) -> f64;
}

macro_rules! numbers {
    ($distance:expr, $($type:ty),*) => {
        $(impl Number for $type {
            #[inline(always)]
            fn distance(self, other: Self) -> f64 {
                $distance(self, other)
            }
        })*
    };
}

numbers!(|one: Self, other: Self| (one.approximate() - other.approximate()).abs(), f32, f64, Binary16, BFloat16);
// Integers are subtracted before they are rounded to f64.
numbers!(|one: Self, other: Self| one.abs_diff(other) as f64, i8, u8, i16, u16, i32, u32, i64, u64);

/// Whether a bound comes down to an error that depends on the chunk.
fn depends_on_chunk(bound: ErrorBound) -> bool {
    match bound {
        ErrorBound::Relative(_) | ErrorBound::Psnr(_) | ErrorBound::Ratio { .. } => true,
        ErrorBound::Absolute(_) | ErrorBound::PointwiseRelative(_) | ErrorBound::Lossless => false,
    }
}

/// The values of a chunk that are not far. Far values have no part in its range, and come back bit for bit.
fn span(original: &[u8], elements: Elements<'_>, bound: ErrorBound) -> Span {
    let values = (original.len() / elements.scalar.size()) as u64;
    let (Ok(shape), Ok(config)) = (Shape::new(&[values]), Config::new(bound)) else { return Span::ALL };
    let layout = Layout { scalar: elements.scalar.of_values(), byte_order: elements.byte_order, shape };
    span_of(original, &layout, &Config { fill_value: elements.fill.first().copied(), ..config })
}

/// Two chunks of one element type.
struct Comparison<'a> {
    original: &'a [u8],
    read: &'a [u8],
    elements: Elements<'a>,
    span: Span,
}

impl Comparison<'_> {
    /// The statistics, judged by the bound.
    fn run<V: Number>(&self, bound: Option<ErrorBound>) -> Difference {
        let mut difference = Difference::default();
        if self.original.len() != self.read.len() {
            difference.broken = Some(format!("{} bytes were read where {} were written", self.read.len(), self.original.len()));
            return difference;
        }
        let extremes = vectorized(
            #[inline(always)]
            || self.measure::<V>(&mut difference),
        );
        if let Some(bound) = bound {
            self.judge::<V>(&mut difference, &extremes, bound);
        }
        difference
    }

    #[inline(always)]
    fn order(&self) -> ByteOrder {
        self.elements.byte_order
    }

    #[inline(always)]
    fn bits<V: Number>(value: V) -> u64 {
        value.to_bits_i64().cast_unsigned() & mask::<V>()
    }

    /// Whether a value is kept bit for bit, and whether it is no part of the range.
    #[inline(always)]
    fn is_kept<V: Number>(&self, value: V) -> (bool, bool) {
        let bits = Self::bits(value);
        let is_among = |list: &[u64]| list.iter().any(|&each| each & mask::<V>() == bits);
        let is_outside =
            !value.approximate().is_finite() || self.span.is_far(value.approximate()) || is_among(self.elements.fill);
        (is_outside || is_among(self.elements.missing), is_outside)
    }

    /// Values in f64, and whether none of them is a kept value. A value that has no part in the range becomes NaN, which no extreme counts.
    #[inline(always)]
    fn in_range<V: Number>(&self, part: &[V]) -> ([f64; PART], bool) {
        let mut values = [f64::NAN; PART];
        let mut is_finite = true;
        for (value, &element) in values.iter_mut().zip(part) {
            *value = element.approximate();
            is_finite &= value.is_finite() & !self.span.is_far(*value);
        }
        let occurs = |bits: u64| part.iter().fold(false, |found, &element| found | (Self::bits(element) == bits & mask::<V>()));
        let is_plain = is_finite && !self.elements.fill.iter().chain(self.elements.missing).any(|&bits| occurs(bits));
        if !is_plain {
            for (value, _) in values.iter_mut().zip(part).filter(|&(_, &element)| self.is_kept(element).1) {
                *value = f64::NAN;
            }
        }
        (values, is_plain)
    }

    /// Range, errors, and kept values that have changed. A value that became NaN has an infinite error. Returns the extremes.
    #[inline(always)]
    fn measure<V: Number>(&self, difference: &mut Difference) -> Extremes {
        let mut sums = Sums::default();
        let (mut before, mut after) = ([V::default(); PART], [V::default(); PART]);
        for first in (0..self.original.len() / V::SIZE).step_by(PART) {
            let bytes = first * V::SIZE..((first + PART) * V::SIZE).min(self.original.len());
            let length = bytes.len() / V::SIZE;
            V::read_all(&self.original[bytes.clone()], self.order(), &mut before[..length]);
            V::read_all(&self.read[bytes], self.order(), &mut after[..length]);
            // The loops over a whole part have a constant length.
            if length == PART {
                self.add_part(first, &before, &after, &mut sums, difference);
            } else {
                self.add_part(first, &before[..length], &after[..length], &mut sums, difference);
            }
        }
        let Sums { extremes, greatest, squares } = sums;
        difference.least = extremes.least();
        difference.most = extremes.most();
        difference.greatest = greatest.into_iter().fold(0.0, f64::max);
        difference.squares = squares.into_iter().sum();
        extremes
    }

    /// Adds a part, of which `first` is the index of the first value.
    #[inline(always)]
    fn add_part<V: Number>(&self, first: usize, before: &[V], after: &[V], sums: &mut Sums, difference: &mut Difference) {
        let (values, is_plain) = self.in_range(before);
        let mut errors = [0f64; PART];
        for ((error, &before), &after) in errors.iter_mut().zip(before).zip(after) {
            let distance = before.distance(after);
            *error = if distance.is_nan() { f64::INFINITY } else { distance };
        }
        difference.values += before.len() as u64;
        if !is_plain {
            self.leave_out_kept(first, before, after, &mut errors, difference);
        }
        sums.add(&values, &errors);
    }

    /// Takes kept values out, and counts the kept values that have changed.
    fn leave_out_kept<V: Number>(
        &self,
        first: usize,
        before: &[V],
        after: &[V],
        errors: &mut [f64; PART],
        difference: &mut Difference,
    ) {
        for index in (0..before.len()).filter(|&index| self.is_kept(before[index]).0) {
            difference.values -= 1;
            errors[index] = 0.0;
            if Self::bits(before[index]) != Self::bits(after[index]) {
                difference.changed += 1;
                difference.broken.get_or_insert_with(|| {
                    let promise = "fill values, missing values, far values and what is not finite are kept bit for bit";
                    self.missed(first + index, before[index], after[index], promise)
                });
            }
        }
    }

    /// Compares the errors with those that the bound allows.
    fn judge<V: Number>(&self, difference: &mut Difference, extremes: &Extremes, bound: ErrorBound) {
        if depends_on_chunk(bound) {
            difference.far = self.far::<V>(extremes);
        }
        let allowed = match bound {
            ErrorBound::Absolute(bound) => bound,
            ErrorBound::Relative(share) => share * difference.range(),
            ErrorBound::Ratio { ceiling: Some(ceiling), .. } => ceiling,
            ErrorBound::Lossless => {
                let share = |before: V, after: V| if Self::bits(before) == Self::bits(after) { 0.0 } else { f64::INFINITY };
                if self.original != self.read {
                    self.judge_each(difference, share, |_| "the exact bits are to come back".to_owned());
                }
                return;
            }
            ErrorBound::PointwiseRelative(share) => {
                let allowed = |before: V| share * before.approximate().abs();
                let share = |before: V, after| share_of(before.distance(after), allowed(before));
                return self.judge_each(difference, share, |before| format!("it may be off by {:e}", allowed(before)));
            }
            ErrorBound::Psnr(decibels) => {
                // Missing values that count in the range count in the mean of the squares, too.
                let psnr = difference.psnr() + 10.0 * (1.0 + self.missing::<V>() as f64 / difference.values as f64).log10();
                if psnr < decibels - PSNR_TOLERANCE - ROUNDING_DB {
                    let reason = format!("the PSNR of a chunk is {psnr:.2} dB where {decibels} were asked for");
                    difference.broken.get_or_insert(reason);
                }
                return;
            }
            ErrorBound::Ratio { ceiling: None, .. } => return,
        };
        difference.share = share_of(difference.greatest, allowed);
        if difference.share > 1.0 {
            let share = |before: V, after| share_of(before.distance(after), allowed);
            self.judge_each(difference, share, |_| format!("it may be off by {allowed:e}"));
        }
    }

    /// Number of kept values that count in the range.
    fn missing<V: Number>(&self) -> u64 {
        if self.elements.missing.is_empty() {
            return 0;
        }
        let values = (0..self.original.len() / V::SIZE).map(|index| V::read(self.original, index, self.order()));
        values.filter(|&value| self.is_kept(value) == (true, false)).count() as u64
    }

    /// The value without which the range would be much narrower, if there is one.
    fn far<V: Number>(&self, extremes: &Extremes) -> Option<Far> {
        let (least, most) = (extremes.least(), extremes.most());
        let within = |value: f64| if least < value && value < most { value } else { f64::NAN };
        // The extremes of other lanes are values, too. Mostly they show that the range is nearly as wide without one value.
        let mut others = Extremes::default();
        others.add(&extremes.least.map(within));
        others.add(&extremes.most.map(within));
        if !others.is_empty() && others.far(least, most).is_none() {
            return None;
        }
        vectorized(
            #[inline(always)]
            || {
                let mut before = [V::default(); PART];
                for bytes in self.original.chunks(PART * V::SIZE) {
                    let before = &mut before[..bytes.len() / V::SIZE];
                    V::read_all(bytes, self.order(), before);
                    others.add(&self.in_range(before).0.map(within));
                }
            },
        );
        others.far(least, most)
    }

    /// Judges each value that counts by its error as a share of the error that is allowed. Above 1, the promise is broken.
    fn judge_each<V: Number>(&self, difference: &mut Difference, share: impl Fn(V, V) -> f64, promise: impl Fn(V) -> String) {
        for index in 0..self.original.len() / V::SIZE {
            let (before, after) = (V::read(self.original, index, self.order()), V::read(self.read, index, self.order()));
            if self.is_kept(before).0 {
                continue;
            }
            let share = share(before, after);
            difference.share = difference.share.max(share);
            if share > 1.0 {
                difference.beyond += 1;
                difference.broken.get_or_insert_with(|| self.missed(index, before, after, &promise(before)));
            }
        }
    }

    fn missed<V: Number>(&self, index: usize, before: V, after: V, promise: &str) -> String {
        let (before_bits, after_bits) = (Self::bits(before), Self::bits(after));
        let (before, after) = (before.approximate(), after.approximate());
        format!(
            "value {index} of a chunk was {before:e} (bits {before_bits:x}) and is {after:e} (bits {after_bits:x}): {promise}"
        )
    }
}

/// Calls `body`, compiled for the vector instructions that the CPU has; what it calls is to be inlined.
#[inline(always)]
fn vectorized<R>(body: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(body)
}

/// The bits that an element has among the low ones of a u64.
#[inline(always)]
fn mask<V: Number>() -> u64 {
    u64::MAX >> (64 - 8 * V::SIZE)
}

/// An error as a share of the allowed one. A NaN error, of a value that became NaN, is infinitely more than allowed.
fn share_of(error: f64, allowed: f64) -> f64 {
    match error {
        0.0 => 0.0,
        error if error.is_nan() => f64::INFINITY,
        error => error / allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    const PLAIN: Elements<'_> = Elements { scalar: Scalar::F32, byte_order: ByteOrder::Little, fill: &[], missing: &[] };

    fn check(original: &[u8], read: &[u8], elements: Elements<'_>, bound: ErrorBound) -> anyhow::Result<Difference> {
        compare(original, read, elements, Some(bound)).kept()
    }

    #[test]
    fn a_promise_that_is_kept_gives_error_and_psnr() {
        let found = check(&bytes(&[0.0, 10.0, f32::NAN]), &bytes(&[0.25, 10.0, f32::NAN]), PLAIN, ErrorBound::Absolute(0.25));
        let found = found.expect("kept");
        assert_eq!((found.values, found.greatest, found.range()), (2, 0.25, 10.0));
        assert!((found.psnr() - (20.0 - 10.0 * (0.0625f64 / 2.0).log10())).abs() < 1e-9);
    }

    #[test]
    fn each_promise_that_is_broken_is_found() {
        let five = [u64::from(5f32.to_bits())];
        let (fill, missing) = (Elements { fill: &five, ..PLAIN }, Elements { missing: &five, ..PLAIN });
        for (before, after, elements, bound, reason) in [
            (0.0, 0.5, PLAIN, ErrorBound::Absolute(0.25), "may be off by 2.5e-1"),
            (0.0, f32::NAN, PLAIN, ErrorBound::Absolute(0.25), "may be off by"),
            (f32::INFINITY, 1e30, PLAIN, ErrorBound::Absolute(0.25), "bit for bit"),
            (5.0, 5.1, fill, ErrorBound::Absolute(0.25), "bit for bit"),
            (5.0, 5.1, missing, ErrorBound::Absolute(0.25), "bit for bit"),
            (f32::NAN, 5.1, PLAIN, ErrorBound::Lossless, "bit for bit"),
            (0.0, -0.0, PLAIN, ErrorBound::Lossless, "the exact bits"),
            (2.0, 2.3, PLAIN, ErrorBound::PointwiseRelative(0.1), "may be off by 2e-1"),
            (2.0, 3.0, PLAIN, ErrorBound::Relative(0.1), "may be off by 8e-1"),
            (2.0, 3.0, PLAIN, ErrorBound::Ratio { ratio: 9.0, ceiling: Some(0.5) }, "may be off by 5e-1"),
        ] {
            let error = check(&bytes(&[before, 10.0]), &bytes(&[after, 10.0]), elements, bound).expect_err("broken").to_string();
            assert!(error.contains(reason) && error.starts_with("value 0 "), "{error}");
        }
    }

    #[test]
    fn a_psnr_may_lack_what_the_codec_says_and_no_more() {
        // The mean of the squares is 0.005 of a squared range of 100: 43.01 dB.
        let (before, after) = (bytes(&[0.0, 10.0]), bytes(&[0.1, 10.0]));
        assert!(check(&before, &after, PLAIN, ErrorBound::Psnr(43.01 + 0.9 * PSNR_TOLERANCE)).is_ok());
        let error =
            check(&before, &after, PLAIN, ErrorBound::Psnr(43.01 + 1.1 * PSNR_TOLERANCE)).expect_err("broken").to_string();
        assert!(error.contains("43.01 dB"), "{error}");
        // Two missing values halve the mean of the squares: 3.01 dB more.
        let missing = [u64::from(5f32.to_bits())];
        let (before, after) = (bytes(&[0.0, 10.0, 5.0, 5.0]), bytes(&[0.1, 10.0, 5.0, 5.0]));
        let elements = Elements { missing: &missing, ..PLAIN };
        assert!(check(&before, &after, elements, ErrorBound::Psnr(46.02)).is_ok());
        assert!(check(&before, &after, elements, ErrorBound::Psnr(46.1)).is_err());
    }

    #[test]
    fn values_in_any_place_of_a_chunk_are_counted_once() {
        // Parts of 64 values are compared at once: here are two whole ones and a short one.
        let original: Vec<f32> = (0..150u8).map(f32::from).collect();
        let kept = [u64::from(140f32.to_bits())];
        for (index, fill, missing, range) in [(0, &[][..], &[][..], 149.0), (149, &kept, &[], 149.0), (64, &[], &kept, 149.0)] {
            let elements = Elements { fill, missing, ..PLAIN };
            let mut read = original.clone();
            read[index] += 0.5;
            let found = compare(&bytes(&original), &bytes(&read), elements, Some(ErrorBound::Absolute(0.25)));
            let counted = 150 - fill.len() as u64 - missing.len() as u64;
            assert_eq!((found.values, found.greatest, found.share, found.beyond, found.changed), (counted, 0.5, 2.0, 1, 0));
            assert_eq!(found.range(), range);
            read[140] += 1.0;
            let found = compare(&bytes(&original), &bytes(&read), elements, Some(ErrorBound::Relative(1e-3)));
            let is_kept = !fill.is_empty() || !missing.is_empty();
            assert_eq!((found.beyond, found.changed), if is_kept { (1, 1) } else { (2, 0) });
        }
        // A fill value has no part in the range, a missing value has.
        let far = [u64::from(1e30f32.to_bits())];
        let values = bytes(&[1.0, 2.0, 1e30]);
        let range = |fill, missing| compare(&values, &values, Elements { fill, missing, ..PLAIN }, None).range();
        assert_eq!((range(&far, &[]), range(&[], &far)), (1.0, f64::from(1e30f32) - 1.0));
    }

    #[test]
    fn one_far_value_is_told_where_bound_or_psnr_depend_on_the_range() {
        let far = |values: &[f32], bound| {
            let values = bytes(values);
            compare(&values, &values, PLAIN, Some(bound)).far.map(|far| (far.value, far.times))
        };
        let relative = ErrorBound::Relative(0.01);
        assert_eq!(far(&[0.0, 1.0, 0.5, -99.0, f32::NAN, -99.0], relative), Some((-99.0, 100.0)));
        assert_eq!(far(&[0.0, 50.0, 1.0], ErrorBound::Psnr(60.0)), Some((50.0, 50.0)));
        assert_eq!(far(&[0.0, 50.0, 1.0], ErrorBound::Ratio { ratio: 9.0, ceiling: None }), Some((50.0, 50.0)));
        assert_eq!(far(&[0.0, 1.0, -99.0], ErrorBound::Absolute(0.01)), None);
        for near in [&[0.0, 1.0, 2.0, 5.0][..], &[0.0, 1.0], &[3.0], &[0.0, 1.0, -99.0, -98.0]] {
            assert_eq!(far(near, relative), None, "{near:?}");
        }
        // All lanes have the same extremes, which say nothing of the values between.
        let mut many: Vec<f32> = (0..150u8).map(|index| f32::from(index / 8 % 10)).collect();
        assert_eq!(far(&many, relative), None);
        many[77] = 450.0;
        assert_eq!(far(&many, relative), Some((450.0, 50.0)));
        many[78] = 449.0;
        assert_eq!(far(&many, relative), None);
        let mut sum = Difference::default();
        for times in [20.0, 30.0] {
            sum.add(&Difference { far: Some(Far { value: times, times, chunks: 1 }), ..Difference::default() });
        }
        assert_eq!(sum.far, Some(Far { value: 30.0, times: 30.0, chunks: 2 }));
    }

    #[test]
    fn far_values_have_no_part_in_a_range() {
        let original: Vec<f32> = (0..64u8).map(|index| if index == 9 { 1e20 } else { f32::from(index) / 7.0 }).collect();
        let mut read = original.clone();
        read[0] += 0.008;
        let found = compare(&bytes(&original), &bytes(&read), PLAIN, Some(ErrorBound::Relative(1e-3)));
        assert!(found.range() == 9.0 && found.beyond == 0 && found.values == 63, "{found:?}");
        read[9] = 2e20;
        let found = compare(&bytes(&original), &bytes(&read), PLAIN, Some(ErrorBound::Psnr(60.0)));
        assert_eq!((found.changed, found.range()), (1, 9.0));
        assert_eq!(
            compare(&bytes(&original), &bytes(&original), PLAIN, Some(ErrorBound::Absolute(1.0))).range(),
            f64::from(1e20f32)
        );
    }

    #[test]
    fn large_whole_numbers_are_not_rounded_before_they_are_compared() {
        let elements = Elements { scalar: Scalar::I64, byte_order: ByteOrder::Big, ..PLAIN };
        let value = |value: i64| value.to_be_bytes();
        let bound = ErrorBound::Absolute(1.0);
        assert!(check(&value(i64::MAX), &value(i64::MAX - 1), elements, bound).is_ok());
        assert!(check(&value(i64::MAX), &value(i64::MAX - 2), elements, bound).is_err());
    }
}
