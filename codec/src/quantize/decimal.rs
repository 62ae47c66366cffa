//! Stage 1 for the exact bits of decimals (FORMAT.md §5.6): values → whole numbers over a common divisor, and back.
//!
//! No power of two of a useful size divides values that were rounded to two decimals. So they have no lattice
//! ([`crate::quantize::lattice`]), and their bits differ in all digits. But each of them has the bits of a code divided by 100. A
//! quotient of whole numbers is rounded once, as a decimal is when it is parsed. A product with 0.01, which is no binary
//! fraction, would be rounded twice, and miss many of them.

pub mod divisor;
#[cfg(test)]
mod plain;

use crate::layout::ByteOrder;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::quantize::bitmap::Bitmap;
use crate::simd::vectorized;

/// Values that are quantized or restored together.
const VALUES_PER_GROUP: usize = 64;
/// binary32 holds all whole numbers up to this.
const F32_WHOLE_NUMBERS: f64 = 16_777_216.0; // 2^24

/// Whole numbers over a divisor. All values on this grid are exact; others are exceptions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decimal {
    /// A whole number.
    pub(super) divisor: f64,
}

impl Decimal {
    /// The greatest divisor: f64 holds all whole numbers up to it.
    pub const MAX_DIVISOR: u64 = 1 << 53;

    /// The grid of a divisor; `None` if it is not from 1 to [`Decimal::MAX_DIVISOR`].
    #[must_use]
    pub fn new(divisor: u64) -> Option<Self> {
        (1..=Self::MAX_DIVISOR).contains(&divisor).then_some(Self { divisor: divisor as f64 })
    }

    /// The divisor.
    #[must_use]
    pub fn divisor(&self) -> u64 {
        self.divisor as u64
    }

    /// Distance of two neighbours on the grid, in the data's unit, rounded.
    #[must_use]
    pub fn step(&self) -> f64 {
        1.0 / self.divisor
    }

    /// The value of a code.
    #[inline(always)]
    fn value<V: Value>(&self, code: f64) -> V {
        V::round_from(code / self.divisor)
    }

    /// Returns a sum with the nearest code of a value in its mantissa, and whether the code gives the value's bits back. The code
    /// of -0 is 0, which does not.
    #[inline(always)]
    fn nearest<V: Value>(&self, value: V) -> (f64, bool) {
        let sum = value.to_f64() * self.divisor + ROUNDING;
        let code = sum - ROUNDING;
        // The code of a NaN is a NaN, which may give these bits back but is not below the limit.
        (sum, (code.abs() < V::CODE_LIMIT) & (self.value::<V>(code).to_bits() == value.to_bits()))
    }

    /// The code of a value, or `None` for an exception.
    #[inline]
    pub(crate) fn code<V: Value>(&self, value: V) -> Option<V::Code> {
        let (sum, is_restored) = self.nearest(value);
        is_restored.then(|| V::code_from_sum(sum))
    }

    /// Writes the codes of a group of values. Returns a bit for each value, the first value's lowest, that is 1 for an exception.
    #[inline(always)]
    fn code_group<V: Value>(&self, values: &[V; VALUES_PER_GROUP], codes: &mut [V::Code; VALUES_PER_GROUP]) -> u64 {
        let mut restored = [false; VALUES_PER_GROUP];
        for ((&value, code), restored) in values.iter().zip(codes).zip(&mut restored) {
            let (sum, is_restored) = self.nearest(value);
            (*code, *restored) = (V::code_from_sum(sum), is_restored);
        }
        if restored == [true; VALUES_PER_GROUP] {
            return 0;
        }
        restored.iter().rev().fold(0, |bits, &is_restored| bits << 1 | u64::from(!is_restored))
    }
}

/// Quantizes the values of a chunk: writes a code for each value, and sets a bit of `exceptions`, which is all zeros before, for each exception.
pub fn quantize<V: Value>(chunk: &[u8], order: ByteOrder, grid: &Decimal, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    vectorized(
        #[inline(always)]
        || quantize_groups::<V>(chunk, order, grid, codes, exceptions),
    );
}

#[inline(always)]
fn quantize_groups<V: Value>(chunk: &[u8], order: ByteOrder, grid: &Decimal, codes: &mut [V::Code], exceptions: &mut Bitmap) {
    for (group, (codes, bytes)) in codes.chunks_mut(VALUES_PER_GROUP).zip(chunk.chunks(VALUES_PER_GROUP * V::SIZE)).enumerate() {
        // The last group is filled up with zeros, which are no exceptions.
        let mut values = [V::default(); VALUES_PER_GROUP];
        V::read_all(bytes, order, &mut values);
        let mut of_group = [V::Code::default(); VALUES_PER_GROUP];
        let exceptions_of_group = grid.code_group(&values, &mut of_group);
        codes.copy_from_slice(&of_group[..codes.len()]);
        if exceptions_of_group != 0 {
            exceptions.set_word(group, exceptions_of_group);
        }
    }
}

/// Restores the values of a chunk from their codes, which may be integers of any type. Exceptions are overwritten afterwards.
pub fn restore<V: Value, C: Integer>(codes: &[C], grid: &Decimal, order: ByteOrder, chunk: &mut [u8]) {
    vectorized(
        #[inline(always)]
        || restore_values::<V, C>(codes, grid, order, chunk),
    );
}

#[inline(always)]
fn restore_values<V: Value, C: Integer>(codes: &[C], grid: &Decimal, order: ByteOrder, chunk: &mut [u8]) {
    if V::as_f32(&[]).is_some() && size_of::<C>() == size_of::<i32>() && grid.divisor < F32_WHOLE_NUMBERS {
        return restore_f32::<V, C>(codes, grid, order, chunk);
    }
    V::write_all(
        codes,
        #[inline(always)]
        |code| grid.value::<V>(code.to_f64()),
        order,
        chunk,
    );
}

/// [`restore_values`] for values of type `f32`. A group whose codes are small is divided in binary32, which is faster.
///
/// Both quotients are equal. A quotient that is no midpoint of two values of binary32 differs from every midpoint by more than 2^-49 of itself, since a
/// midpoint has 25 bits and the divisor 24. The quotient in binary64 is off by at most 2^-53 of itself, so that both round to the same side. A midpoint needs a
/// code of 2^24 or more.
#[inline(always)]
fn restore_f32<V: Value, C: Integer>(codes: &[C], grid: &Decimal, order: ByteOrder, chunk: &mut [u8]) {
    let divisor = grid.divisor as f32;
    for (codes, bytes) in codes.chunks(VALUES_PER_GROUP).zip(chunk.chunks_mut(VALUES_PER_GROUP * V::SIZE)) {
        let magnitude_bits = codes.iter().map(|code| code.to_i64() as i32).fold(0, |bits, code| bits | code ^ code >> 31);
        if magnitude_bits < F32_WHOLE_NUMBERS as i32 {
            V::write_all(
                codes,
                #[inline(always)]
                |code| {
                    let quotient = code.to_i64() as i32 as f32 / divisor;
                    V::from_bits(V::Code::from_i64(i64::from(quotient.to_bits().cast_signed())))
                },
                order,
                bytes,
            );
        } else {
            V::write_all(
                codes,
                #[inline(always)]
                |code| grid.value::<V>(code.to_f64()),
                order,
                bytes,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain::Plain;
    use super::*;
    use crate::number::element::Element;
    use crate::number::small_float::{BFloat16, Binary16};
    use crate::quantize::{check_restored, chunk_of};
    use crate::random::Random;

    const DIVISORS: [u64; 9] = [1, 3, 10, 100, 20_000, 10_000_000, 1_000_000_007, (1 << 53) - 1, 1 << 53];

    #[test]
    fn divisors_are_whole_numbers_that_binary64_holds() {
        for divisor in DIVISORS {
            assert_eq!(Decimal::new(divisor).map(|grid| grid.divisor()), Some(divisor));
        }
        for divisor in [0, (1 << 53) + 1, u64::MAX] {
            assert_eq!(Decimal::new(divisor), None);
        }
    }

    /// Compares a chunk's codes, exceptions and restored values with the plain ones, with vector instructions and without.
    fn compare<V: Value + std::fmt::Debug>(values: &[V], divisor: u64, order: ByteOrder) {
        let (len, grid, plain) = (values.len(), Decimal::new(divisor).unwrap(), Plain { divisor });
        let chunk = chunk_of(values, order);
        for is_vectorized in [true, false] {
            let (mut codes, mut exceptions) = (vec![V::Code::default(); len], Bitmap::of(len, []));
            let mut restored = vec![0; chunk.len()];
            if is_vectorized {
                quantize::<V>(&chunk, order, &grid, &mut codes, &mut exceptions);
                restore::<V, _>(&codes, &grid, order, &mut restored);
            } else {
                quantize_groups::<V>(&chunk, order, &grid, &mut codes, &mut exceptions);
                restore_values::<V, _>(&codes, &grid, order, &mut restored);
            }
            let exceptions: Vec<usize> = exceptions.indices().collect();
            for (index, &value) in values.iter().enumerate() {
                let name = format!("quantize/decimal: {:e} of {len} values over {divisor}", value.to_f64());
                let found = (!exceptions.contains(&index)).then_some(codes[index].to_i64());
                assert_eq!(found, plain.code(value), "{name}");
                assert_eq!(grid.code(value).map(Integer::to_i64), found, "{name}, alone");
                let restored = V::read(&restored, index, order).to_bits();
                assert!(restored == plain.value::<V>(codes[index].to_i64()).to_bits(), "{name}, restored");
                assert!(found.is_none() || restored == value.to_bits(), "{name}: other bits");
            }
        }
    }

    fn check<V: Value + std::fmt::Debug>() {
        let mut random = Random(1);
        let limit = V::CODE_LIMIT;
        for (divisor, len) in DIVISORS.into_iter().flat_map(|divisor| [1, 7, 63, 64, 65, 131, 640].map(|len| (divisor, len))) {
            for largest in [100.0, 1e5, limit] {
                let values: Vec<V> = (0..len)
                    .map(|_| {
                        let bits = random.next();
                        let unit = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
                        let edges = [f64::NAN, f64::INFINITY, 0.0, 5e-324, 1e-310, f64::MIN_POSITIVE, f64::MAX, 1e-40, unit];
                        // The greatest code, and numbers that are too large for a code.
                        let ends = [limit - 1.0, limit, limit + 1.0, 2.0 * limit].map(|code| code / divisor as f64);
                        V::round_from(match (bits >> 33) % 40 {
                            rare @ 0..9 => edges[rare as usize].copysign(unit),
                            rare @ 9..13 => ends[rare as usize - 9].copysign(unit),
                            13 => return V::from_bits(V::Code::from_i64(random.next().cast_signed())),
                            14 => return V::from_bits(V::Code::from_i64((bits >> 40).cast_signed() % 3 + 1)),
                            _ => (unit * largest).trunc() / divisor as f64,
                        })
                    })
                    .collect();
                for order in [ByteOrder::Little, ByteOrder::Big] {
                    compare(&values, divisor, order);
                }
            }
        }
        compare::<V>(&[], 10, ByteOrder::Little);
    }

    #[test]
    fn chunks_are_quantized_by_the_plain_definition() {
        check::<f32>();
        check::<f64>();
        check::<Binary16>();
        check::<BFloat16>();
    }

    #[test]
    fn values_are_restored_by_the_plain_definition() {
        fn check<V: Value, C: Integer>() {
            for divisor in DIVISORS {
                let grid = Decimal::new(divisor).unwrap();
                let restore = |codes: &[C], order, chunk: &mut [u8]| restore::<V, C>(codes, &grid, order, chunk);
                check_restored::<V, C>(&format!("decimal over {divisor}"), restore, |code| Plain { divisor }.value(code));
            }
        }
        check::<f32, i32>();
        check::<f32, i16>();
        check::<f64, i64>();
        check::<f64, i32>();
        check::<Binary16, i32>();
        check::<BFloat16, i32>();
    }

    /// Codes at the limit of the division in binary32, and quotients that are midpoints of two values of binary32 or next to one.
    #[test]
    fn quotients_in_binary32_are_those_of_binary64() {
        let limit = F32_WHOLE_NUMBERS as i64;
        for divisor in [1, 2, 3, 5, 10, 64, 1000, 10_000_000, limit as u64 - 1, limit as u64, limit as u64 + 1] {
            let (grid, plain) = (Decimal::new(divisor).unwrap(), Plain { divisor });
            let near_half = |index: i64| (limit + 2 * index + 1) * divisor as i64 / (2 << divisor.ilog2()) + index % 3 - 1;
            for last in [1, limit - 1, limit, limit + 1, limit + 2, i64::from(i32::MAX), i64::from(i32::MIN)] {
                // The last code of a group decides how the group is divided.
                let codes: Vec<i32> =
                    (0..640).map(|index| if index % 32 == 31 { last } else { near_half(index % 320) } as i32).collect();
                let codes: Vec<i32> = codes.into_iter().flat_map(|code| [code, code.wrapping_neg()]).collect();
                let mut chunk = vec![0; 4 * codes.len()];
                restore::<f32, i32>(&codes, &grid, ByteOrder::Little, &mut chunk);
                for (index, &code) in codes.iter().enumerate() {
                    let found = f32::read(&chunk, index, ByteOrder::Little);
                    assert_eq!(
                        found.to_bits(),
                        plain.value::<f32>(code.into()).to_bits(),
                        "quantize/decimal: {code} over {divisor}"
                    );
                }
            }
        }
        let mut random = Random(1);
        for _ in 0..200_000 {
            let (code, divisor) = ((random.next() >> 40) as i64, random.next() >> (40 + random.next() % 20) | 1);
            let quotient = code as f32 / divisor as f32;
            assert_eq!(quotient.to_bits(), Plain { divisor }.value::<f32>(code).to_bits(), "{code} over {divisor}");
        }
    }

    /// Values that were parsed have their code: no digit of a decimal of up to seven places is lost.
    #[test]
    fn parsed_decimals_are_restored() {
        let mut random = Random(1);
        for places in 0..=7 {
            let divisor = 10u64.pow(places);
            let grid = Decimal::new(divisor).unwrap();
            let check = |code: i64, bits_of_f32: bool| {
                let (whole, part) = (code.unsigned_abs() / divisor, code.unsigned_abs() % divisor);
                let sign = if code < 0 { "-" } else { "" };
                let text = format!("{sign}{whole}.{part:0width$}", width = places as usize);
                assert_eq!(grid.code(text.parse::<f64>().unwrap()), Some(code), "{text}");
                if bits_of_f32 {
                    let value: f32 = text.parse().unwrap();
                    assert_eq!(grid.value::<f32>(code as f64).to_bits(), value.to_bits(), "{text}");
                    // A binary32 holds six digits of any number.
                    assert!(code.abs() > 999_999 || grid.code(value) == Some(code as i32), "{text}");
                }
            };
            for code in (1..1_000_000).step_by(37).flat_map(|code| [code, -code]) {
                check(code, true);
            }
            for _ in 0..20_000 {
                check(random.next().cast_signed() >> 33 | 1, true);
                check(random.next().cast_signed() >> 13 | 1, false);
            }
        }
    }
}
