//! The values of a chunk that count for its bound, finite values other than fills: their range, their number, and the noise that a bound leaves on
//! them.

use std::marker::PhantomData;

use crate::config::Config;
use crate::layout::{ByteOrder, Layout};
use crate::number::dispatch::{with_float, with_integer};
use crate::number::element::Element;
use crate::quantize::fills::{Fills, Span};
use crate::quantize::integer_steps::{IntegerElement, Steps};
use crate::simd::widely_vectorized;

/// Values that are read together.
pub(super) const VALUES_PER_GROUP: usize = 64;

/// The least and the greatest value that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Range {
    /// No value counts.
    Empty,
    /// Floating-point values.
    Float { least: f64, greatest: f64 },
    /// Integers, exactly.
    Integers { least: i128, greatest: i128 },
}

impl Range {
    pub(super) fn of(chunk: &[u8], layout: &Layout, config: &Config) -> Self {
        with_float!(
            layout.scalar,
            V => Groups::<V>::new(chunk, layout.byte_order, config).ends().map_or(Self::Empty, |Span { least, greatest }| Self::Float { least, greatest }),
            else with_integer!(layout.scalar, V => Self::of_integers::<V>(chunk, layout.byte_order, config), else unreachable!("a type is one or the other"))
        )
    }

    fn of_integers<V: IntegerElement>(chunk: &[u8], order: ByteOrder, config: &Config) -> Self {
        let fills = config.fills::<V>();
        let mut range = Self::Empty;
        for bytes in chunk.chunks(VALUES_PER_GROUP * V::SIZE) {
            let mut group = [V::default(); VALUES_PER_GROUP];
            V::read_all(bytes, order, &mut group);
            for value in group[..bytes.len() / V::SIZE].iter().filter(|&&value| !fills.has(value)) {
                let value = value.exactly();
                range = match range {
                    Self::Integers { least, greatest } => {
                        Self::Integers { least: least.min(value), greatest: greatest.max(value) }
                    }
                    _ => Self::Integers { least: value, greatest: value },
                };
            }
        }
        range
    }

    /// Greatest minus least value, at most the largest finite number; 0 without values. Of integers it is rounded to f64.
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Empty => 0.0,
            Self::Float { least, greatest } => (greatest - least).min(f64::MAX),
            Self::Integers { least, greatest } => (greatest - least) as f64,
        }
    }

    /// The largest magnitude.
    pub(super) fn magnitude(self) -> f64 {
        match self {
            Self::Empty => 0.0,
            Self::Float { least, greatest } => least.abs().max(greatest.abs()),
            Self::Integers { least, greatest } => least.unsigned_abs().max(greatest.unsigned_abs()) as f64,
        }
    }

    /// A share of the range of integers, rounded down; 0 for other values. Exact: f64 would round the range or the product.
    pub(super) fn integer_share(self, share: f64) -> u64 {
        let Self::Integers { least, greatest } = self else { return 0 };
        let exponent = (share.to_bits() >> 52) as i32 - 1075;
        let mantissa = u128::from(share.to_bits() & ((1 << 52) - 1) | 1 << 52);
        // A share of at most 1 has an exponent of -52 or less; the product has at most 117 bits.
        ((greatest - least).cast_unsigned() * mantissa).checked_shr(exponent.unsigned_abs()).unwrap_or(0) as u64
    }
}

/// The number if it is finite, else NaN.
#[inline(always)]
fn finite(value: f64) -> f64 {
    if value.abs() <= f64::MAX { value } else { f64::NAN }
}

/// Reads a chunk's values in groups of [`VALUES_PER_GROUP`]. NaN replaces values that do not count: infinities, fills, and the rest of the last group.
pub(super) struct Groups<'a, V> {
    chunk: &'a [u8],
    order: ByteOrder,
    fills: Fills,
    value: PhantomData<V>,
}

impl<'a, V: Element> Groups<'a, V> {
    pub(super) fn new(chunk: &'a [u8], order: ByteOrder, config: &Config) -> Self {
        Self { chunk, order, fills: config.fills::<V>(), value: PhantomData }
    }

    /// Calls `visit` with every `stride`-th group.
    #[inline(always)]
    pub(super) fn for_each(&self, stride: usize, mut visit: impl FnMut(&[f64; VALUES_PER_GROUP])) {
        // Whole groups have a constant length, with which they are read by vector loads.
        let groups = self.chunk.chunks_exact(VALUES_PER_GROUP * V::SIZE);
        let (rest, is_rest_visited) = (groups.remainder(), groups.len().is_multiple_of(stride));
        for bytes in groups.step_by(stride) {
            visit(&self.read(bytes));
        }
        if is_rest_visited && !rest.is_empty() {
            visit(&self.read(rest));
        }
    }

    /// Calls `visit` with every group, and with the group of `decoded` at the same indices. A decoded value that is not finite is NaN.
    #[inline(always)]
    fn for_each_beside(&self, decoded: &'a [u8], mut visit: impl FnMut(&[f64; VALUES_PER_GROUP], &[f64; VALUES_PER_GROUP])) {
        let decoded = Self { chunk: decoded, fills: Fills::NONE, ..*self };
        let groups = self.chunk.chunks_exact(VALUES_PER_GROUP * V::SIZE);
        let decoded_groups = decoded.chunk.chunks_exact(VALUES_PER_GROUP * V::SIZE);
        let (rest, decoded_rest) = (groups.remainder(), decoded_groups.remainder());
        for (bytes, decoded_bytes) in groups.zip(decoded_groups) {
            visit(&self.read(bytes), &decoded.read(decoded_bytes));
        }
        if !rest.is_empty() {
            visit(&self.read(rest), &decoded.read(decoded_rest));
        }
    }

    #[inline(always)]
    fn read(&self, bytes: &[u8]) -> [f64; VALUES_PER_GROUP] {
        let mut group = [V::default(); VALUES_PER_GROUP];
        V::read_all(bytes, self.order, &mut group);
        let mut values = match self.fills.value() {
            None => group.map(
                #[inline(always)]
                |value| finite(value.approximate()),
            ),
            Some(fill) => group.map(
                #[inline(always)]
                |value| if value.to_bits_i64() == fill { f64::NAN } else { finite(value.approximate()) },
            ),
        };
        let span = self.fills.span();
        if span != Span::ALL {
            values = values.map(
                #[inline(always)]
                |value| if span.is_far(value) { f64::NAN } else { value },
            );
        }
        values[bytes.len() / V::SIZE..].fill(f64::NAN);
        values
    }

    /// Calls `test` with one group after the other until it is false. Returns whether it is true for all groups.
    #[inline(always)]
    pub(super) fn all(&self, mut test: impl FnMut(&[f64; VALUES_PER_GROUP]) -> bool) -> bool {
        let groups = self.chunk.chunks_exact(VALUES_PER_GROUP * V::SIZE);
        let rest = groups.remainder();
        for bytes in groups {
            if !test(&self.read(bytes)) {
                return false;
            }
        }
        rest.is_empty() || test(&self.read(rest))
    }

    /// The least and the greatest value that counts.
    pub(super) fn ends(&self) -> Option<Span> {
        let (least, greatest) = widely_vectorized(
            #[inline(always)]
            || {
                // Declared here so that they stay in registers.
                let (mut least, mut greatest) = ([f64::INFINITY; 8], [f64::NEG_INFINITY; 8]);
                self.for_each(
                    1,
                    #[inline(always)]
                    |values| {
                        for eight in values.as_chunks::<8>().0 {
                            least = std::array::from_fn(|i| if eight[i] < least[i] { eight[i] } else { least[i] });
                            greatest = std::array::from_fn(|i| if eight[i] > greatest[i] { eight[i] } else { greatest[i] });
                        }
                    },
                );
                (least, greatest)
            },
        );
        let least = least.into_iter().fold(f64::INFINITY, f64::min);
        let greatest = greatest.into_iter().fold(f64::NEG_INFINITY, f64::max);
        (least <= greatest).then_some(Span { least, greatest })
    }
}

/// Mean square of the errors that a bound's steps leave on the integers of a chunk that count, in the data's unit. An integer on the grid counts with the mean
/// square of evenly spread errors, as an earlier write may have rounded the integer.
pub(super) fn noise_of_steps(steps: u64, chunk: &[u8], layout: &Layout, config: &Config) -> f64 {
    with_integer!(
        layout.scalar,
        V => {
            let steps = Steps::new::<V>(steps, Fills::NONE);
            let fills = config.fills::<V>();
            let (mut sum, mut count) = (0.0, 0u64);
            let step = 2.0 * steps.bound() as f64 + 1.0;
            let even = (step * step - 1.0) / 12.0;
            for index in 0..chunk.len() / V::SIZE {
                let value = V::read(chunk, index, layout.byte_order);
                if !fills.has(value) {
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

/// Sum of the squared errors of decoded values, and the number of values with an error. Errors are measured in `unit`, so that no square overflows.
pub(super) fn noise_of_decoded(chunk: &[u8], decoded: &[u8], layout: &Layout, config: &Config, unit: f64) -> (f64, u64) {
    with_float!(
        layout.scalar,
        V => {
            let originals = Groups::<V>::new(chunk, layout.byte_order, config);
            let (sums, changed) = widely_vectorized(
                #[inline(always)]
                || {
                    // Eight sums, so that no addition waits for the one before it.
                    let (mut sums, mut changed) = ([0.0; 8], [0u64; 8]);
                    originals.for_each_beside(
                        decoded,
                        #[inline(always)]
                        |values, decoded| {
                            for (values, decoded) in values.as_chunks::<8>().0.iter().zip(decoded.as_chunks::<8>().0) {
                                let sums = sums.iter_mut().zip(&mut changed);
                                for (((sum, changed), value), decoded) in sums.zip(values).zip(decoded) {
                                    let error = (value - decoded) / unit;
                                    let square = if error.is_nan() { 0.0 } else { error * error };
                                    *sum += square;
                                    *changed += u64::from(square > 0.0);
                                }
                            }
                        },
                    );
                    (sums, changed)
                },
            );
            (sums.iter().sum(), changed.iter().sum())
        },
        else (0.0, 0)
    )
}

/// Number of values of a chunk that count; 0 for integers.
pub(super) fn count_of(chunk: &[u8], layout: &Layout, config: &Config) -> u64 {
    with_float!(
        layout.scalar,
        V => {
            let counts = widely_vectorized(
                #[inline(always)]
                || {
                    let mut counts = [0u64; 8];
                    Groups::<V>::new(chunk, layout.byte_order, config).for_each(
                        1,
                        #[inline(always)]
                        |values| {
                            for eight in values.as_chunks::<8>().0 {
                                counts = std::array::from_fn(|i| counts[i] + u64::from(!eight[i].is_nan()));
                            }
                        },
                    );
                    counts
                },
            );
            counts.iter().sum()
        },
        else 0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Scalar, Shape};

    #[test]
    fn shares_of_integers_are_exact() {
        let width = |least, greatest| Range::Integers { least, greatest };
        let noon = 1_700_000_000_000_000_000;
        assert_eq!(width(noon, noon + 2997).integer_share(0.05), 149);
        assert_eq!(width(i128::from(i64::MIN), i128::from(i64::MAX)).integer_share(1.0), u64::MAX);
        assert_eq!(width(0, i128::from(u64::MAX)).integer_share(0.5), u64::MAX / 2);
        assert_eq!(width(0, 1000).integer_share(f64::MIN_POSITIVE), 0);
        assert_eq!(width(0, 1000).integer_share(1e-3), 1, "1e-3 in binary64 is a little more than a thousandth");
        assert_eq!(Range::Empty.integer_share(1.0), 0);
    }

    #[test]
    fn ranges_leave_the_fill_value_out() {
        let layout = Layout { scalar: Scalar::I64, byte_order: ByteOrder::Big, shape: Shape::new(&[4]).unwrap() };
        let chunk: Vec<u8> = [i64::MIN, i64::MAX, i64::MAX - 7, 5].into_iter().flat_map(i64::to_be_bytes).collect();
        let config = Config { fill_value: Some(i64::MIN.cast_unsigned()), ..Config::absolute(1.0).unwrap() };
        assert_eq!(
            Range::of(&chunk, &layout, &config),
            Range::Integers { least: 5, greatest: i128::from(i64::MAX) },
            "the fill value does not count"
        );
    }

    #[test]
    fn only_finite_values_other_than_the_fill_value_count() {
        let config = Config { fill_value: Some(u64::from((-999f32).to_bits())), ..Config::absolute(1.0).unwrap() };
        let edges = [f32::NAN, f32::INFINITY, -999.0, f32::NEG_INFINITY, -0.0, 1e-45, -2.5, 7.25];
        for len in [1, 63, 64, 65, 131, 640] {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let values: Vec<f32> = (0..len).map(|index| edges[index * 5 % 8]).collect();
                let mut chunk = vec![0; 4 * len];
                f32::write_all(&values, |value| value, order, &mut chunk);
                let layout = Layout { scalar: Scalar::F32, byte_order: order, shape: Shape::new(&[len as u64]).unwrap() };
                let counted: Vec<f64> =
                    values.iter().filter(|value| value.is_finite() && **value != -999.0).map(|&value| f64::from(value)).collect();
                assert_eq!(count_of(&chunk, &layout, &config), counted.len() as u64, "{len} values");
                let expected = counted.iter().fold(None, |range: Option<(f64, f64)>, &value| {
                    Some(range.map_or((value, value), |(least, greatest)| (least.min(value), greatest.max(value))))
                });
                let expected = expected.map_or(Range::Empty, |(least, greatest)| Range::Float { least, greatest });
                assert_eq!(Range::of(&chunk, &layout, &config), expected, "{len} values");
                // A decoder that adds 3 to all values has errors of 3, in a unit of 2.
                let mut decoded = chunk.clone();
                f32::write_all(&values, |value| value + 3.0, order, &mut decoded);
                let (squares, changed) = noise_of_decoded(&chunk, &decoded, &layout, &config, 2.0);
                assert_eq!(changed, counted.len() as u64);
                assert!((squares - 2.25 * counted.len() as f64).abs() < 1e-9 * len as f64, "{len} values: {squares}");
                assert_eq!(noise_of_decoded(&chunk, &chunk, &layout, &config, 2.0), (0.0, 0));
            }
        }
    }

    #[test]
    fn widths_and_magnitudes_of_edge_ranges() {
        let wide = Range::Float { least: f64::MIN, greatest: f64::MAX };
        assert_eq!((wide.width(), wide.magnitude()), (f64::MAX, f64::MAX), "no overflow");
        assert_eq!((Range::Empty.width(), Range::Empty.magnitude()), (0.0, 0.0));
        let integers = Range::Integers { least: i128::from(i64::MIN), greatest: -1 };
        assert_eq!((integers.width(), integers.magnitude()), (9_223_372_036_854_775_807.0, 9_223_372_036_854_775_808.0));
    }

    #[test]
    fn integers_on_the_grid_count_as_an_even_spread() {
        let layout = Layout { scalar: Scalar::I16, byte_order: ByteOrder::Little, shape: Shape::new(&[4]).unwrap() };
        let config = Config { fill_value: Some(77), ..Config::absolute(1.0).unwrap() };
        let chunk: Vec<u8> = [0i16, 1, 4, 77].into_iter().flat_map(i16::to_le_bytes).collect();
        // Steps of 3: 0 is on the grid and counts (9 - 1) / 12; 1 and 4 have errors of 1.
        assert!((noise_of_steps(1, &chunk, &layout, &config) - (8.0 / 12.0 + 2.0) / 3.0).abs() < 1e-12);
    }
}
