//! Checks in f64 that decompressed values keep their bound, without the codec's own arithmetic.

use quire_codec::stages::element::Element;
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::{ByteOrder, ErrorBound, Scalar};

/// Tolerance of a chunk's PSNR, in dB. The encoder sets its bound from the errors of rounding to the grid; interpolation distributes errors differently.
const PSNR_TOLERANCE_DB: f64 = 0.3;
/// Smallest number of values for which PSNR is checked: in smaller chunks a few large errors decide it.
const MIN_VALUES_FOR_PSNR: u64 = 4096;

/// Error statistics of decompressed values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference {
    /// Number of finite values, without fill values.
    pub(crate) values: u64,
    /// The largest error among them.
    pub(crate) greatest: f64,
    squares: f64,
    least: f64,
    most: f64,
}

impl Default for Difference {
    fn default() -> Self {
        Self { values: 0, greatest: 0.0, squares: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Difference {
    /// Adds the statistics of another chunk.
    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.greatest = self.greatest.max(other.greatest);
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// The largest minus the smallest value; 0 if there are none.
    pub(crate) fn range(&self) -> f64 {
        if self.least <= self.most { self.most - self.least } else { 0.0 }
    }

    /// PSNR in dB; infinite if no value differs, NaN if the sum of squared errors overflows f64.
    pub(crate) fn psnr(&self) -> f64 {
        if self.greatest == 0.0 {
            return f64::INFINITY;
        }
        let psnr = 20.0 * self.range().log10() - 10.0 * (self.squares / self.values as f64).log10();
        if psnr.is_finite() { psnr } else { f64::NAN }
    }

    /// The PSNR as text for tables.
    pub(crate) fn psnr_text(&self) -> String {
        match self.psnr() {
            f64::INFINITY => "exact".to_owned(),
            psnr if psnr.is_nan() => "-".to_owned(),
            psnr => format!("{psnr:.1}"),
        }
    }
}

/// A value in the type in which it is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Float(f64),
    Integer(i128),
}

impl Value {
    fn in_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Integer(value) => value as f64,
        }
    }

    /// The absolute difference to another value. Integers are subtracted before they are rounded to f64.
    fn error(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Integer(value), Self::Integer(other)) => value.abs_diff(other) as f64,
            _ => (self.in_f64() - other.in_f64()).abs(),
        }
    }
}

/// The element type of a chunk, and the fill value's bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) scalar: Scalar,
    pub(crate) byte_order: ByteOrder,
    pub(crate) fill_value: Option<u64>,
}

/// Compares the original bytes of a chunk with the decompressed ones.
///
/// # Errors
/// Reports the first value that breaks the bound, with its index in the chunk.
pub(crate) fn check(original: &[u8], read: &[u8], kind: Kind, bound: &ErrorBound) -> Result<Difference, String> {
    match kind.scalar {
        Scalar::F32 => check_as::<f32>(original, read, kind, bound, |value| Value::Float(f64::from(value))),
        Scalar::F64 => check_as::<f64>(original, read, kind, bound, Value::Float),
        Scalar::F16 => check_as::<Binary16>(original, read, kind, bound, |value| Value::Float(value.to_f64())),
        Scalar::BF16 => check_as::<BFloat16>(original, read, kind, bound, |value| Value::Float(value.to_f64())),
        Scalar::I8 => check_as::<i8>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::U8 => check_as::<u8>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::I16 => check_as::<i16>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::U16 => check_as::<u16>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::I32 => check_as::<i32>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::U32 => check_as::<u32>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::I64 => check_as::<i64>(original, read, kind, bound, |value| Value::Integer(value.into())),
        Scalar::U64 => check_as::<u64>(original, read, kind, bound, |value| Value::Integer(value.into())),
    }
}

fn check_as<V: Element>(
    original: &[u8],
    read: &[u8],
    kind: Kind,
    bound: &ErrorBound,
    value: impl Fn(V) -> Value,
) -> Result<Difference, String> {
    if original.len() != read.len() {
        return Err(format!("{} bytes were read where {} were written", read.len(), original.len()));
    }
    let bytes_of = |bytes: &[u8], index: usize| V::read(bytes, index, kind.byte_order);
    let count = original.len() / V::SIZE;
    let mask = u64::MAX >> (64 - 8 * V::SIZE);
    let bits = |element: V| element.to_bits_i64().cast_unsigned() & mask;
    let fill = kind.fill_value.map(|fill| fill & mask);
    let counts = |element: V| value(element).in_f64().is_finite() && Some(bits(element)) != fill;
    let mut difference = Difference::default();
    for index in 0..count {
        let before = bytes_of(original, index);
        if counts(before) {
            let number = value(before).in_f64();
            difference.least = difference.least.min(number);
            difference.most = difference.most.max(number);
        }
    }
    let range = difference.range();
    let missed = |index: usize, before: V, after: V, promise: &str| {
        let (before_bits, after_bits) = (bits(before), bits(after));
        let (before, after) = (value(before).in_f64(), value(after).in_f64());
        format!(
            "value {index} of a chunk was {before:e} (bits {before_bits:x}) and is {after:e} (bits {after_bits:x}): {promise}"
        )
    };
    for index in 0..count {
        let (before, after) = (bytes_of(original, index), bytes_of(read, index));
        if !counts(before) {
            if bits(before) != bits(after) {
                return Err(missed(index, before, after, "fill values and what is not finite are kept bit for bit"));
            }
            continue;
        }
        let error = value(before).error(value(after));
        let allowed = match *bound {
            ErrorBound::Lossless if bits(before) == bits(after) => 0.0,
            ErrorBound::Lossless => return Err(missed(index, before, after, "the exact bits are to come back")),
            ErrorBound::Absolute(bound) => bound,
            ErrorBound::Relative(share) => share * range,
            ErrorBound::PointwiseRelative(share) => share * value(before).in_f64().abs(),
            ErrorBound::Ratio { ceiling: Some(ceiling), .. } => ceiling,
            _ => f64::MAX,
        };
        // A NaN among the decompressed values makes `error` NaN, for which `error <= allowed` is false.
        let is_kept = error <= allowed;
        if !is_kept {
            return Err(missed(index, before, after, &format!("it may be off by {allowed:e}")));
        }
        difference.values += 1;
        difference.greatest = difference.greatest.max(error);
        difference.squares += error * error;
    }
    if let ErrorBound::Psnr(decibels) = *bound
        && difference.values >= MIN_VALUES_FOR_PSNR
        && V::SIZE >= 4
        && difference.psnr() < decibels - PSNR_TOLERANCE_DB
    {
        return Err(format!("the PSNR of a chunk is {:.2} dB where {decibels} were asked for", difference.psnr()));
    }
    Ok(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    const KIND: Kind = Kind { scalar: Scalar::F32, byte_order: ByteOrder::Little, fill_value: None };

    #[test]
    fn a_promise_that_is_kept_gives_error_and_psnr() {
        let found = check(&bytes(&[0.0, 10.0, f32::NAN]), &bytes(&[0.25, 10.0, f32::NAN]), KIND, &ErrorBound::Absolute(0.25));
        let found = found.expect("kept");
        assert_eq!((found.values, found.greatest, found.range()), (2, 0.25, 10.0));
        assert!((found.psnr() - (20.0 - 10.0 * (0.0625f64 / 2.0).log10())).abs() < 1e-9);
    }

    #[test]
    fn each_promise_that_is_broken_is_found() {
        let fill = Kind { fill_value: Some(u64::from(5f32.to_bits())), ..KIND };
        for (before, after, kind, bound, reason) in [
            (0.0, 0.5, KIND, ErrorBound::Absolute(0.25), "may be off by 2.5e-1"),
            (0.0, f32::NAN, KIND, ErrorBound::Absolute(0.25), "may be off by"),
            (f32::INFINITY, 1e30, KIND, ErrorBound::Absolute(0.25), "bit for bit"),
            (5.0, 5.1, fill, ErrorBound::Absolute(0.25), "bit for bit"),
            (0.0, -0.0, KIND, ErrorBound::Lossless, "the exact bits"),
            (2.0, 2.3, KIND, ErrorBound::PointwiseRelative(0.1), "may be off by 2e-1"),
            (2.0, 3.0, KIND, ErrorBound::Relative(0.1), "may be off by 8e-1"),
            (2.0, 3.0, KIND, ErrorBound::Ratio { ratio: 9.0, ceiling: Some(0.5) }, "may be off by 5e-1"),
        ] {
            let error = check(&bytes(&[before, 10.0]), &bytes(&[after, 10.0]), kind, &bound).expect_err("broken");
            assert!(error.contains(reason) && error.starts_with("value 0 "), "{error}");
        }
    }

    #[test]
    fn large_whole_numbers_are_not_rounded_before_they_are_compared() {
        let kind = Kind { scalar: Scalar::I64, byte_order: ByteOrder::Big, fill_value: None };
        let value = |value: i64| value.to_be_bytes();
        let bound = ErrorBound::Absolute(1.0);
        assert!(check(&value(i64::MAX), &value(i64::MAX - 1), kind, &bound).is_ok());
        assert!(check(&value(i64::MAX), &value(i64::MAX - 2), kind, &bound).is_err());
    }
}
