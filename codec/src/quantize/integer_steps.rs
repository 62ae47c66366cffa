//! Stage 1 for integers (FORMAT.md §5.4): values → codes on a grid of even steps, and back.
//!
//! With a bound of `e`, the step is `2 e + 1`. It is odd, so that every integer has one nearest multiple, at most `e` from it, and never a tie.

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::quantize::bitmap::Bitmap;
use crate::simd::vectorized;

/// A type of integers, as values of a chunk.
pub trait IntegerElement: Element {
    /// The largest bound of the type: larger ones are cut to it.
    const WIDEST: u64;
    /// The code of a value: the nearest multiple of the step, as a number of steps.
    fn nearest(self, steps: &Steps) -> Self::Code;
    /// The value of a code: that multiple of the step, or the nearest end of the type's range.
    fn multiple(code: Self::Code, steps: &Steps) -> Self;
    /// The integer itself.
    fn exactly(self) -> i128;
}

/// The grid of a bound of integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    bound: u64,
    inverse_step: f64,
    /// Bits of the fill value, sign extended.
    fill: Option<i64>,
}

impl Steps {
    /// The grid of a bound; a bound above the type's largest is cut to it.
    #[must_use]
    pub fn new<V: IntegerElement>(bound: u64, fill: Option<V>) -> Self {
        let bound = bound.min(V::WIDEST);
        Self { inverse_step: 1.0 / (2.0 * bound as f64 + 1.0), bound, fill: fill.map(Element::to_bits_i64) }
    }

    /// The bound: a value's largest error.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// Bits of the fill value, sign extended.
    #[must_use]
    pub fn fill(&self) -> Option<i64> {
        self.fill
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

/// Quantizes the values of a chunk: writes a code for each value, and sets a bit of `exceptions`, which is all zeros before, for each exception. Only values
/// with the bits of the fill value can be exceptions.
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
    let Some(fill) = steps.fill.map(|bits| V::from_bits(V::Code::from_i64(bits))) else { return };
    if V::multiple(fill.nearest(steps), steps).to_bits() == fill.to_bits() {
        return;
    }
    for index in (0..codes.len()).filter(|&index| V::read(chunk, index, order).to_bits() == fill.to_bits()) {
        exceptions.set(index);
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
    use super::*;

    fn holds<V: IntegerElement>(values: &[V], to_i128: impl Fn(V) -> i128) {
        for bound in [1, 2, 3, 100, 127, 128, 40_000, 1 << 31, 1 << 33, u64::MAX >> 1, u64::MAX] {
            let steps = Steps::new::<V>(bound, None);
            for &value in values {
                let code = value.nearest(&steps);
                let restored = V::multiple(code, &steps);
                assert!((to_i128(value) - to_i128(restored)).unsigned_abs() <= u128::from(bound));
                assert!(restored.nearest(&steps) == code, "{} at a bound of {bound} gets another code", to_i128(value));
            }
            assert!(V::default().nearest(&steps) == V::Code::default());
        }
    }

    #[test]
    fn multiples_are_within_the_bound_and_stay() {
        holds(&(i8::MIN..=i8::MAX).collect::<Vec<_>>(), i128::from);
        holds(&(u8::MIN..=u8::MAX).collect::<Vec<_>>(), i128::from);
        holds(&(i16::MIN..=i16::MAX).collect::<Vec<_>>(), i128::from);
        holds(&(u16::MIN..=u16::MAX).collect::<Vec<_>>(), i128::from);
        let mut state = 1u64;
        let random: Vec<u64> = (0..20_000)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                [state, u64::MAX - (state >> 59), state >> 60, state >> 20, (1 << 63) - (state >> 60)][i % 5]
            })
            .collect();
        holds(&random.iter().map(|&bits| bits as i32).collect::<Vec<_>>(), i128::from);
        holds(&random.iter().map(|&bits| bits as u32).collect::<Vec<_>>(), i128::from);
        holds(&random.iter().map(|&bits| bits as i64).collect::<Vec<_>>(), i128::from);
        holds(&random, i128::from);
    }

    /// FORMAT.md §5.4 in 128 bits: `code = floor((x + e) / step)`, and a fill value that its code does not restore is an exception.
    #[test]
    fn chunks_are_quantized_by_the_rules_of_the_format() {
        fn check<V: IntegerElement>(values: &[V], fill: V, bounds: &[u64]) {
            for (&bound, order) in bounds.iter().flat_map(|bound| [ByteOrder::Little, ByteOrder::Big].map(|order| (bound, order)))
            {
                let (e, step) = (i128::from(bound), 2 * i128::from(bound) + 1);
                let mut chunk = vec![0; values.len() * V::SIZE];
                V::write_all(values, |value| value, order, &mut chunk);
                let steps = Steps::new(bound, Some(fill));
                let (mut codes, mut exceptions) = (vec![V::Code::default(); values.len()], Bitmap::default());
                exceptions.clear(values.len()).unwrap();
                quantize::<V>(&chunk, order, &steps, &mut codes, &mut exceptions);
                let mut restored = vec![0; chunk.len()];
                restore::<V>(&codes, &steps, order, &mut restored);
                let fill_stays = (fill.exactly() + e).div_euclid(step) * step == fill.exactly();
                let expected = values.iter().enumerate().filter(|(_, value)| !fill_stays && value.exactly() == fill.exactly());
                assert!(exceptions.indices().eq(expected.map(|(index, _)| index)), "{bound}");
                for (index, value) in values.iter().enumerate() {
                    let code = (value.exactly() + e).div_euclid(step);
                    assert!(codes[index] == V::Code::from_i64(code as i64), "{} at {bound}", value.exactly());
                    let multiple = V::read(&restored, index, order).exactly();
                    let in_range = (value.exactly() - multiple).abs() <= e;
                    assert!(in_range && (multiple == code * step || multiple != 0), "{} at {bound}", value.exactly());
                }
            }
        }
        check::<i8>(&[i8::MIN, -3, -1, 0, 1, 2, i8::MAX], 2, &[1, 2, 100, 127]);
        check::<u16>(&[0, 1, 2, 40_000, u16::MAX], 1, &[1, 2, 40_000]);
        check::<i32>(&[i32::MIN, -7, 0, 9, i32::MAX], 9, &[1, 4, 1 << 30]);
        check::<u64>(&[0, 1, 1 << 63, u64::MAX - 1, u64::MAX], u64::MAX, &[1, 2, u64::MAX >> 1]);
        check::<i64>(&[], 0, &[1]);
        assert_eq!(Steps::new::<i32>(u64::MAX, None).bound(), i32::MAX as u64, "a bound is cut to the type's largest");
    }
}
