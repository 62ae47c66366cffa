//! The values of a chunk that a bound is settled by: finite ones other than the fill value.

use std::marker::PhantomData;

use crate::config::Config;
use crate::layout::{ByteOrder, Layout};
use crate::number::dispatch::{with_float, with_whole};
use crate::number::element::Element;
use crate::quantize::integer_steps::{Steps, Whole};
use crate::simd::vectorized;

/// Values that are read together.
pub(super) const GROUP: usize = 64;

/// Least and greatest of the values that count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Range {
    /// No value counts.
    Empty,
    /// Floating-point values.
    Float { least: f64, greatest: f64 },
    /// Integers, exactly.
    Whole { least: i128, greatest: i128 },
}

impl Range {
    pub(super) fn of(chunk: &[u8], layout: &Layout, config: &Config) -> Self {
        with_float!(
            layout.scalar,
            V => Self::of_floats::<V>(chunk, layout.byte_order, config),
            else with_whole!(layout.scalar, V => Self::of_whole::<V>(chunk, layout.byte_order, config), else unreachable!("a type is one or the other"))
        )
    }

    fn of_floats<V: Element>(chunk: &[u8], order: ByteOrder, config: &Config) -> Self {
        let (mut least, mut greatest) = ([f64::INFINITY; 8], [f64::NEG_INFINITY; 8]);
        vectorized(
            #[inline(always)]
            || {
                Groups::<V>::new(chunk, order, config).for_each(
                    1,
                    #[inline(always)]
                    |values| {
                        for eight in values.as_chunks::<8>().0 {
                            for ((least, greatest), &value) in least.iter_mut().zip(&mut greatest).zip(eight) {
                                *least = if value < *least { value } else { *least };
                                *greatest = if value > *greatest { value } else { *greatest };
                            }
                        }
                    },
                );
            },
        );
        let least = least.into_iter().fold(f64::INFINITY, f64::min);
        let greatest = greatest.into_iter().fold(f64::NEG_INFINITY, f64::max);
        if least <= greatest { Self::Float { least, greatest } } else { Self::Empty }
    }

    fn of_whole<V: Whole>(chunk: &[u8], order: ByteOrder, config: &Config) -> Self {
        let fill = config.fill::<V>().map(Element::to_bits_i64);
        let mut range = Self::Empty;
        for bytes in chunk.chunks(GROUP * V::SIZE) {
            let mut group = [V::default(); GROUP];
            V::read_all(bytes, order, &mut group);
            for value in group[..bytes.len() / V::SIZE].iter().filter(|value| Some(value.to_bits_i64()) != fill) {
                let value = value.exactly();
                range = match range {
                    Self::Whole { least, greatest } => Self::Whole { least: least.min(value), greatest: greatest.max(value) },
                    _ => Self::Whole { least: value, greatest: value },
                };
            }
        }
        range
    }

    /// Greatest minus least value, the largest finite number at most; 0 without values. Rounded for integers above 2^53.
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Empty => 0.0,
            Self::Float { least, greatest } => (greatest - least).min(f64::MAX),
            Self::Whole { least, greatest } => (greatest - least) as f64,
        }
    }

    /// Greatest minus least integer; 0 for floating-point values.
    fn whole_width(self) -> u64 {
        match self {
            Self::Whole { least, greatest } => (greatest - least) as u64,
            _ => 0,
        }
    }

    /// The largest magnitude.
    pub(super) fn magnitude(self) -> f64 {
        match self {
            Self::Empty => 0.0,
            Self::Float { least, greatest } => least.abs().max(greatest.abs()),
            Self::Whole { least, greatest } => least.unsigned_abs().max(greatest.unsigned_abs()) as f64,
        }
    }

    /// The integers that a share of the range of integers spans, rounded down: exactly, where f64 would round the range or the product.
    pub(super) fn whole_share(self, share: f64) -> u64 {
        let exponent = (share.to_bits() >> 52) as i32 - 1075;
        let mantissa = u128::from(share.to_bits() & ((1 << 52) - 1) | 1 << 52);
        // A share of at most 1 has an exponent of -52 or less; the product has at most 117 bits.
        (u128::from(self.whole_width()) * mantissa).checked_shr(exponent.unsigned_abs()).unwrap_or(0) as u64
    }
}

/// A number that counts, or NaN.
#[inline(always)]
fn finite(value: f64) -> f64 {
    if value.abs() <= f64::MAX { value } else { f64::NAN }
}

/// A chunk's values in groups of [`GROUP`]. NaN is in place of values that do not count: infinities, the fill value, and the rest of the last group.
pub(super) struct Groups<'a, V> {
    chunk: &'a [u8],
    order: ByteOrder,
    fill: Option<i64>,
    value: PhantomData<V>,
}

impl<'a, V: Element> Groups<'a, V> {
    pub(super) fn new(chunk: &'a [u8], order: ByteOrder, config: &Config) -> Self {
        Self { chunk, order, fill: config.fill::<V>().map(Element::to_bits_i64), value: PhantomData }
    }

    /// Hands every `stride`-th group to `look`.
    #[inline(always)]
    pub(super) fn for_each(&self, stride: usize, mut look: impl FnMut(&[f64; GROUP])) {
        for bytes in self.chunk.chunks(GROUP * V::SIZE).step_by(stride) {
            look(&self.read(bytes));
        }
    }

    #[inline(always)]
    fn read(&self, bytes: &[u8]) -> [f64; GROUP] {
        let mut group = [V::default(); GROUP];
        V::read_all(bytes, self.order, &mut group);
        let mut values = match self.fill {
            None => group.map(
                #[inline(always)]
                |value| finite(value.approximate()),
            ),
            Some(fill) => group.map(
                #[inline(always)]
                |value| if value.to_bits_i64() == fill { f64::NAN } else { finite(value.approximate()) },
            ),
        };
        values[bytes.len() / V::SIZE..].fill(f64::NAN);
        values
    }
}

/// Mean square of what steps take off the integers of a chunk that count, in units of the data. Integers on the grid count as an even spread of errors, which earlier
/// steps may have left.
pub(super) fn noise_of_steps(steps: u64, chunk: &[u8], layout: &Layout, config: &Config) -> f64 {
    with_whole!(
        layout.scalar,
        V => {
            let steps = Steps::new::<V>(steps, None);
            let fill = config.fill::<V>().map(Element::to_bits_i64);
            let (mut sum, mut count) = (0.0, 0u64);
            let step = 2.0 * steps.bound() as f64 + 1.0;
            let even = (step * step - 1.0) / 12.0;
            for index in 0..chunk.len() / V::SIZE {
                let value = V::read(chunk, index, layout.byte_order);
                if Some(value.to_bits_i64()) != fill {
                    let error = (value.exactly() - V::multiple(value.nearest(&steps), &steps).exactly()) as f64;
                    sum += if error == 0.0 { even } else { error * error };
                    count += 1;
                }
            }
            sum / count.max(1) as f64
        },
        else 0.0
    )
}

/// Mean square of the differences between the values of a chunk that count and what a decoder returned, over `count` values. Differences are taken in a
/// `unit`, so that no square overflows.
pub(super) fn noise_of_decoded(chunk: &[u8], decoded: &[u8], layout: &Layout, config: &Config, count: u64, unit: f64) -> f64 {
    with_float!(
        layout.scalar,
        V => {
            let (order, mut sum) = (layout.byte_order, 0.0);
            let fill = config.fill::<V>().map(Element::to_bits_i64);
            for index in 0..chunk.len() / V::SIZE {
                let value = V::read(chunk, index, order);
                let error = (finite(value.approximate()) - V::read(decoded, index, order).approximate()) / unit;
                if !error.is_nan() && Some(value.to_bits_i64()) != fill {
                    sum += error * error;
                }
            }
            sum / count.max(1) as f64
        },
        else 0.0
    )
}

/// How many values of a chunk count.
pub(super) fn count_of(chunk: &[u8], layout: &Layout, config: &Config) -> u64 {
    let mut count = 0;
    with_float!(
        layout.scalar,
        V => Groups::<V>::new(chunk, layout.byte_order, config).for_each(1, |values| {
            count += values.iter().filter(|value| !value.is_nan()).count() as u64;
        }),
        else {}
    );
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Scalar, Shape};

    #[test]
    fn shares_of_integers_are_exact() {
        let width = |least, greatest| Range::Whole { least, greatest };
        let noon = 1_700_000_000_000_000_000;
        assert_eq!(width(noon, noon + 2997).whole_share(0.05), 149);
        assert_eq!(width(i128::from(i64::MIN), i128::from(i64::MAX)).whole_share(1.0), u64::MAX);
        assert_eq!(width(0, i128::from(u64::MAX)).whole_share(0.5), u64::MAX / 2);
        assert_eq!(width(0, 1000).whole_share(f64::MIN_POSITIVE), 0);
        assert_eq!(width(0, 1000).whole_share(1e-3), 1, "1e-3 in binary64 is a little more than a thousandth");
        assert_eq!(Range::Empty.whole_share(1.0), 0);
    }

    #[test]
    fn ranges_leave_the_fill_value_out() {
        let layout = Layout { scalar: Scalar::I64, byte_order: ByteOrder::Big, shape: Shape::new(&[4]).unwrap() };
        let chunk: Vec<u8> = [i64::MIN, i64::MAX, i64::MAX - 7, 5].into_iter().flat_map(i64::to_be_bytes).collect();
        let config = Config { fill_value: Some(i64::MIN.cast_unsigned()), ..Config::absolute(1.0).unwrap() };
        assert_eq!(
            Range::of(&chunk, &layout, &config),
            Range::Whole { least: 5, greatest: i128::from(i64::MAX) },
            "the fill value does not count"
        );
    }
}
