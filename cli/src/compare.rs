//! Compares values with the original ones, in f64. The codec's arithmetic has a part in one thing alone: which values are far. `repack`, `advise` and `verify`
//! use this one comparison.

mod difference;

pub(crate) use difference::Difference;
use quire_codec::stages::element::Element;
use quire_codec::stages::fills::Span;
use quire_codec::stages::integer::Integer as _;
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::stages::span_of;
use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Shape};

/// Decibels by which the PSNR of a chunk may be below what was asked for, as the encoder promises (codec/src/bound/psnr.rs).
const PSNR_TOLERANCE: f64 = 0.05;
/// Decibels that a sum of squares in another order may change.
const ROUNDING_DB: f64 = 1e-9;
/// Values that are compared at once.
const PART: usize = 64;
/// Sums that are made side by side, so that additions do not wait for each other.
const LANES: usize = 8;

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
    if original.len() != read.len() {
        let broken = Some(format!("{} bytes were read where {} were written", read.len(), original.len()));
        return Difference { broken, ..Difference::default() };
    }
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

/// How a value of a copy may differ from the original value.
#[derive(PartialEq)]
enum Kind {
    /// It is within the bound.
    Bounded,
    /// It comes back bit for bit, and counts in the chunk's range.
    Missing,
    /// It comes back bit for bit, and has no part in the range.
    Outside,
}

/// Two chunks of as many bytes.
struct Comparison<'a> {
    original: &'a [u8],
    read: &'a [u8],
    elements: Elements<'a>,
    span: Span,
}

impl Comparison<'_> {
    /// Range, errors, and kept values that have changed, judged by the bound.
    fn run<V: Element>(&self, bound: Option<ErrorBound>) -> Difference {
        let values = self.original.len() / V::SIZE;
        let mut found = Difference { values: values as u64, ..Difference::default() };
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                for first in (0..values).step_by(PART) {
                    if first + PART > values || !self.add_part::<V>(first, &mut found) {
                        (first..values.min(first + PART)).for_each(|index| self.add::<V>(index, &mut found));
                    }
                }
            },
        );
        if let Some(bound) = bound {
            self.judge::<V>(&mut found, bound);
        }
        found
    }

    /// Adds [`PART`] values with the vector instructions of the CPU, if each of them is to be within the bound. Returns whether that is so.
    #[inline(always)]
    fn add_part<V: Element>(&self, first: usize, found: &mut Difference) -> bool {
        let Elements { fill, missing, byte_order, .. } = self.elements;
        let bytes = first * V::SIZE..(first + PART) * V::SIZE;
        let (mut before, mut after) = ([V::default(); PART], [V::default(); PART]);
        V::read_all(&self.original[bytes.clone()], byte_order, &mut before);
        V::read_all(&self.read[bytes], byte_order, &mut after);
        // Not `any` or `all`, which end early: vector instructions look at all values at once.
        let is_any = |is_so: &dyn Fn(V) -> bool| before.iter().fold(false, |found, &value| found | is_so(value));
        let is_far = |value: V| !value.approximate().is_finite() | self.span.is_far(value.approximate());
        let is_among = |list: &[u64]| list.iter().any(|&kept| is_any(&|value| bits(value) == kept & mask::<V>()));
        if is_any(&is_far) || is_among(fill) || is_among(missing) {
            return false;
        }
        let errors: [f64; PART] = std::array::from_fn(|index| self.error(before[index], after[index]));
        let mut squares = [0.0; LANES];
        for errors in errors.as_chunks::<LANES>().0 {
            squares.iter_mut().zip(errors).for_each(|(sum, error)| *sum += error * error);
        }
        found.squares += squares.iter().sum::<f64>();
        if errors.iter().fold(false, |found_any, &error| found_any | (error > found.greatest)) {
            found.greatest = errors.into_iter().fold(found.greatest, f64::max);
        }
        if is_any(&|value| !found.extremes.has(value.approximate())) {
            before.iter().for_each(|value| found.extremes.add(value.approximate()));
        }
        true
    }

    /// Adds a value.
    fn add<V: Element>(&self, index: usize, found: &mut Difference) {
        let [before, after] = self.pair::<V>(index);
        let kind = self.kind(before);
        if kind != Kind::Outside {
            found.extremes.add(before.approximate());
        }
        if kind == Kind::Bounded {
            let error = self.error(before, after);
            found.greatest = found.greatest.max(error);
            found.squares += error * error;
            return;
        }
        found.values -= 1;
        found.missing += u64::from(kind == Kind::Missing);
        if bits(before) != bits(after) {
            found.changed += 1;
            let promise = "fill values, missing values, far values and what is not finite are kept bit for bit";
            found.broken.get_or_insert_with(|| missed(index, before, after, promise));
        }
    }

    /// A value of both chunks.
    fn pair<V: Element>(&self, index: usize) -> [V; 2] {
        [self.original, self.read].map(|chunk| V::read(chunk, index, self.elements.byte_order))
    }

    fn kind<V: Element>(&self, value: V) -> Kind {
        let (bits, number) = (bits(value), value.approximate());
        let is_among = |list: &[u64]| list.iter().any(|&each| each & mask::<V>() == bits);
        if !number.is_finite() || self.span.is_far(number) || is_among(self.elements.fill) {
            Kind::Outside
        } else if is_among(self.elements.missing) {
            Kind::Missing
        } else {
            Kind::Bounded
        }
    }

    /// The distance of two values in f64, infinite if one became NaN. Integers are subtracted before they are rounded.
    #[inline(always)]
    fn error<V: Element>(&self, before: V, after: V) -> f64 {
        if !self.elements.scalar.is_float() {
            return before.to_code().to_i64().abs_diff(after.to_code().to_i64()) as f64;
        }
        let distance = (before.approximate() - after.approximate()).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    }

    /// Compares the errors with those that the bound allows.
    fn judge<V: Element>(&self, found: &mut Difference, bound: ErrorBound) {
        if depends_on_chunk(bound) {
            found.far = found.extremes.far();
        }
        let range = found.extremes.range();
        let allowed = |value: V| match bound {
            ErrorBound::Absolute(bound) => bound,
            ErrorBound::Relative(share) => share * range,
            ErrorBound::PointwiseRelative(share) => share * value.approximate().abs(),
            ErrorBound::Ratio { ceiling, .. } => ceiling.unwrap_or(f64::INFINITY),
            ErrorBound::Psnr(_) => f64::INFINITY,
            ErrorBound::Lossless => 0.0,
        };
        match bound {
            ErrorBound::Psnr(decibels) => {
                // Missing values that count in the range count in the mean of the squares, too.
                let psnr = found.psnr() + 10.0 * (1.0 + found.missing as f64 / found.values as f64).log10();
                if psnr < decibels - PSNR_TOLERANCE - ROUNDING_DB {
                    let reason = format!("the PSNR of a chunk is {psnr:.2} dB where {decibels} were asked for");
                    found.broken.get_or_insert(reason);
                }
                return;
            }
            ErrorBound::Lossless if self.original == self.read => return,
            ErrorBound::Lossless | ErrorBound::PointwiseRelative(_) => {}
            // The other bounds allow all values of a chunk the same error.
            _ => {
                found.share = share_of(found.greatest, allowed(V::default()));
                if found.share <= 1.0 {
                    return;
                }
            }
        }
        for index in 0..self.original.len() / V::SIZE {
            let [before, after] = self.pair::<V>(index);
            if self.kind(before) != Kind::Bounded {
                continue;
            }
            let is_lost = bound == ErrorBound::Lossless && bits(before) != bits(after);
            let share = if is_lost { f64::INFINITY } else { share_of(self.error(before, after), allowed(before)) };
            found.share = found.share.max(share);
            found.beyond += u64::from(share > 1.0);
            if share > 1.0 && found.broken.is_none() {
                let promise = format!("it may be off by {:e}", allowed(before));
                let promise = if is_lost { "the exact bits are to come back" } else { &promise };
                found.broken = Some(missed(index, before, after, promise));
            }
        }
    }
}

fn missed<V: Element>(index: usize, before: V, after: V, promise: &str) -> String {
    let (was, is) = (before.approximate(), after.approximate());
    format!("value {index} of a chunk was {was:e} (bits {:x}) and is {is:e} (bits {:x}): {promise}", bits(before), bits(after))
}

#[inline(always)]
fn bits<V: Element>(value: V) -> u64 {
    value.to_bits_i64().cast_unsigned() & mask::<V>()
}

/// The bits that an element has among the low ones of a u64.
#[inline(always)]
fn mask<V: Element>() -> u64 {
    u64::MAX >> (64 - 8 * V::SIZE)
}

/// An error as a share of the allowed one.
fn share_of(error: f64, allowed: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / allowed }
}

#[cfg(test)]
mod tests {
    use super::difference::Far;
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
        assert_eq!((found.values, found.greatest, found.extremes.range()), (2, 0.25, 10.0));
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
            assert_eq!(found.extremes.range(), range);
            read[140] += 1.0;
            let found = compare(&bytes(&original), &bytes(&read), elements, Some(ErrorBound::Relative(1e-3)));
            let is_kept = !fill.is_empty() || !missing.is_empty();
            assert_eq!((found.beyond, found.changed), if is_kept { (1, 1) } else { (2, 0) });
        }
        // A fill value has no part in the range, a missing value has.
        let far = [u64::from(1e30f32.to_bits())];
        let values = bytes(&[1.0, 2.0, 1e30]);
        let range = |fill, missing| compare(&values, &values, Elements { fill, missing, ..PLAIN }, None).extremes.range();
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
        assert!(found.extremes.range() == 9.0 && found.beyond == 0 && found.values == 63, "{found:?}");
        read[9] = 2e20;
        let found = compare(&bytes(&original), &bytes(&read), PLAIN, Some(ErrorBound::Psnr(60.0)));
        assert_eq!((found.changed, found.extremes.range()), (1, 9.0));
        assert_eq!(
            compare(&bytes(&original), &bytes(&original), PLAIN, Some(ErrorBound::Absolute(1.0))).extremes.range(),
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
