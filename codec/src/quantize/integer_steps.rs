//! Stage 1 for integers (FORMAT.md §5.4): values → codes on a grid of equal steps, and back.
//!
//! With a bound of `e`, the step is `2 e + 1`. It is odd, so that every integer has one nearest multiple, at most `e` from it, and never a tie.

#[cfg(test)]
mod plain;

use crate::keep::Keep;
use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fills::Fills;
use crate::simd::vectorized;

/// A type of integers, as values of a chunk.
pub trait IntegerElement: Element {
    /// The largest bound of the type: larger ones are cut to it.
    const WIDEST: u64;
    /// The code of a value: the nearest whole number of steps.
    fn nearest(self, steps: &Steps) -> Self::Code;
    /// The value of a code: the code times the step, or the nearest end of the type's range.
    fn multiple(code: Self::Code, steps: &Steps) -> Self;
    /// The integer itself.
    fn exactly(self) -> i128;
}

/// The grid of a bound of integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    bound: u64,
    inverse_step: f64,
    fills: Fills,
    keep: Keep,
}

impl Steps {
    /// The grid of a bound; a bound above the type's largest is cut to it.
    #[must_use]
    pub fn new<V: IntegerElement>(bound: u64, fills: Fills) -> Self {
        let bound = bound.min(V::WIDEST);
        Self { inverse_step: 1.0 / (2.0 * bound as f64 + 1.0), bound, fills, keep: Keep::default() }
    }

    /// This grid, with values as exceptions that would not be kept.
    #[must_use]
    pub(crate) fn keeping(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// The bound: a value's largest error.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// The fills of the chunk.
    #[must_use]
    pub fn fills(&self) -> &Fills {
        &self.fills
    }
}

/// Types of up to 32 bits: f64 holds their values and steps exactly.
macro_rules! narrow {
    ($type:ty) => {
        impl IntegerElement for $type {
            const WIDEST: u64 = (u32::MAX >> 1) as u64;
            #[inline(always)]
            fn nearest(self, steps: &Steps) -> i32 {
                let (bound, step) = (steps.bound.cast_signed(), 2 * steps.bound.cast_signed() + 1);
                let shifted = i64::from(self) + bound;
                // The product differs from the quotient by far less than 1, so that its floor is at most 1 off.
                let estimate = (shifted as f64 * steps.inverse_step).floor() as i64;
                let rest = shifted - estimate * step;
                (estimate + i64::from(rest >= step) - i64::from(rest < 0)) as i32
            }
            #[inline(always)]
            fn multiple(code: i32, steps: &Steps) -> Self {
                let multiple = i64::from(code) * (2 * steps.bound.cast_signed() + 1);
                multiple.clamp(i64::from(<$type>::MIN), i64::from(<$type>::MAX)) as Self
            }
            #[inline(always)]
            fn exactly(self) -> i128 {
                i128::from(self)
            }
        }
    };
}

narrow!(i8);
narrow!(u8);
narrow!(i16);
narrow!(u16);
narrow!(i32);
narrow!(u32);

/// Types of 64 bits: integers of 128 bits hold their products and sums.
macro_rules! wide {
    ($type:ty) => {
        impl IntegerElement for $type {
            const WIDEST: u64 = u64::MAX >> 1;
            #[inline(always)]
            fn nearest(self, steps: &Steps) -> i64 {
                let bound = i128::from(steps.bound);
                (i128::from(self) + bound).div_euclid(2 * bound + 1) as i64
            }
            #[inline(always)]
            fn multiple(code: i64, steps: &Steps) -> Self {
                let multiple = i128::from(code) * (2 * i128::from(steps.bound) + 1);
                multiple.clamp(i128::from(<$type>::MIN), i128::from(<$type>::MAX)) as Self
            }
            #[inline(always)]
            fn exactly(self) -> i128 {
                i128::from(self)
            }
        }
    };
}

wide!(i64);
wide!(u64);

/// Quantizes the values of a chunk: writes a code for each value, and sets a bit of `exceptions`, which is all zeros before, for
/// each exception. Only fills and values that would cross a threshold can be exceptions.
pub fn quantize<V: IntegerElement>(
    chunk: &[u8],
    order: ByteOrder,
    steps: &Steps,
    codes: &mut [V::Code],
    exceptions: &mut Bitmap,
) {
    vectorized(
        #[inline(always)]
        || codes.iter_mut().enumerate().for_each(|(index, code)| *code = V::read(chunk, index, order).nearest(steps)),
    );
    if steps.fills.is_none() && steps.keep.thresholds().is_empty() {
        return;
    }
    for index in 0..codes.len() {
        let value = V::read(chunk, index, order);
        let restored = V::multiple(value.nearest(steps), steps);
        let is_lost_fill = steps.fills.has(value) && restored.to_bits() != value.to_bits();
        if is_lost_fill || steps.keep.is_crossed(value.approximate(), restored.approximate()) {
            exceptions.set(index);
        }
    }
}

/// Restores the values of a chunk from their codes. Exceptions are overwritten afterwards.
pub fn restore<V: IntegerElement>(codes: &[V::Code], steps: &Steps, order: ByteOrder, chunk: &mut [u8]) {
    vectorized(
        #[inline(always)]
        || {
            V::write_all(
                codes,
                #[inline(always)]
                |code| V::multiple(code, steps),
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
    use crate::number::integer::Integer;
    use crate::quantize::chunk_of;
    use crate::quantize::fills::Span;
    use crate::random::Random;

    /// Compares codes, exceptions and restored values with the plain ones.
    fn compare<V: IntegerElement>(values: &[V], bound: u64, fills: Fills, keep: Keep, order: ByteOrder) {
        let len = values.len();
        let steps = Steps::new::<V>(bound, fills).keeping(keep);
        let plain = Plain { bound: steps.bound(), fills, keep };
        let mut chunk = chunk_of(values, order);
        let (mut codes, mut exceptions) = (vec![V::Code::default(); len], Bitmap::of(len, []));
        quantize::<V>(&chunk, order, &steps, &mut codes, &mut exceptions);
        restore::<V>(&codes, &steps, order, &mut chunk);
        let mut indices = exceptions.indices().peekable();
        for (index, &value) in values.iter().enumerate() {
            let x = value.exactly();
            let name = format!("quantize/integer_steps: {x} of {len} values at a bound of {bound}");
            let found = codes[index].to_i64();
            assert_eq!((found, indices.next_if_eq(&index).is_some()), plain.code(value), "{name}");
            let restored = V::read(&chunk, index, order);
            assert_eq!(restored.exactly(), plain.value::<V>(found), "{name}, restored");
            assert!((x - restored.exactly()).unsigned_abs() <= u128::from(bound), "{name}: out of bound");
            assert_eq!(plain.code(restored).0, found, "{name}: another code when encoded again");
        }
    }

    /// The ends of the type's range, small numbers of both signs, and random numbers.
    fn check<V: IntegerElement>() {
        let mut random = Random(1);
        let of_bits = |bits: u64| V::from_bits(V::Code::from_i64(bits.cast_signed()));
        let least_of_sign = 1u64 << (8 * V::SIZE - 1);
        let edges = [0, 1, 2, 3, u64::MAX, u64::MAX - 1, u64::MAX - 2, least_of_sign, least_of_sign - 1, least_of_sign + 1];
        let sides = Keep::default().and_side_of(0.0).and_then(|keep| keep.and_side_of(99.5)).unwrap();
        for bound in [1, 2, 3, 100, 127, 128, 40_000, 1 << 30, 1 << 31, 1 << 33, u64::MAX >> 1, u64::MAX] {
            for len in [0, 1, 2, 7, 64, 301] {
                let values: Vec<V> = (0..len)
                    .map(|index| of_bits(if index % 3 == 1 { edges[index % 10] } else { random.next() >> (random.next() >> 58) }))
                    .collect();
                for fill in [None, values.last().copied(), Some(of_bits(1)), Some(of_bits(least_of_sign))] {
                    for span in [Span::ALL, Span { least: -1.0, greatest: 1e5 }] {
                        compare(&values, bound, Fills::new(fill, span), Keep::default(), ByteOrder::Little);
                        compare(&values, bound, Fills::new(fill, span), sides, ByteOrder::Big);
                    }
                }
            }
            // A decoder may get codes that no encoder writes.
            let codes: Vec<V::Code> =
                (0..301).map(|_| V::Code::from_i64(random.next().cast_signed() >> (random.next() >> 58))).collect();
            let (steps, mut chunk) = (Steps::new::<V>(bound, Fills::NONE), vec![0; codes.len() * V::SIZE]);
            restore::<V>(&codes, &steps, ByteOrder::Big, &mut chunk);
            for (index, code) in codes.iter().map(|code| code.to_i64()).enumerate() {
                let expected = Plain { bound: steps.bound(), fills: Fills::NONE, keep: Keep::default() }.value::<V>(code);
                let found = V::read(&chunk, index, ByteOrder::Big).exactly();
                assert_eq!(found, expected, "quantize/integer_steps: {code} at a bound of {bound} restored");
            }
        }
    }

    #[test]
    fn chunks_are_quantized_and_restored_by_the_plain_definition() {
        check::<i8>();
        check::<u8>();
        check::<i16>();
        check::<u16>();
        check::<i32>();
        check::<u32>();
        check::<i64>();
        check::<u64>();
        compare(
            &(i8::MIN..=i8::MAX).collect::<Vec<_>>(),
            3,
            Fills::new(Some(1i8), Span::ALL),
            Keep::default(),
            ByteOrder::Little,
        );
        compare(&(u16::MIN..=u16::MAX).collect::<Vec<_>>(), 100, Fills::NONE, Keep::default(), ByteOrder::Big);
        assert_eq!(Steps::new::<i32>(u64::MAX, Fills::NONE).bound(), i32::MAX as u64, "a bound is cut to the type's largest");
    }
}
