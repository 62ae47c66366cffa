//! The distance of neighbouring numbers of a 16-bit type at a chunk's larger values.

use super::MANTISSA_BITS;
use crate::config::Config;
use crate::layout::{ByteOrder, Layout, Scalar};
use crate::number::element::Element;
use crate::number::integer::Integer as _;
use crate::number::small_float::{BFloat16, Binary16};

/// The distance of neighbouring numbers at the larger values of a chunk, a power of two. If the step is no multiple of it, values are rounded once more when
/// they are restored, and many miss the bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spacing(pub(super) f64);

impl Spacing {
    /// At least 1 / this of all values are larger values. The largest value alone may be an outlier.
    const VALUES_PER_LARGER: u64 = 16;

    /// The spacing of a chunk; `None` for other types, and where all values are 0, infinite, NaN or the fill value.
    pub(super) fn of(chunk: &[u8], layout: &Layout, config: &Config) -> Option<Self> {
        match layout.scalar {
            Scalar::F16 => Self::of_values::<Binary16>(chunk, layout.byte_order, config, Binary16::MANTISSA),
            Scalar::BF16 => Self::of_values::<BFloat16>(chunk, layout.byte_order, config, BFloat16::MANTISSA),
            _ => None,
        }
    }

    fn of_values<V: Element>(chunk: &[u8], order: ByteOrder, config: &Config, mantissa_bits: u32) -> Option<Self> {
        // Four counters per exponent: increments of one counter wait for each other.
        let mut counts = [[0u64; 4]; 1 << 8];
        let fills = config.fills::<V>();
        for index in 0..chunk.len() / V::SIZE {
            let value = V::read(chunk, index, order);
            let bits = value.to_bits_i64();
            let magnitude = bits as u16 & (u16::MAX >> 1);
            if magnitude > 0 && !fills.has(value) {
                counts[usize::from(magnitude >> mantissa_bits)][index % 4] += 1;
            }
        }
        // Infinities and NaN have the highest exponent.
        let exponents = &counts[..(1 << (15 - mantissa_bits)) - 1];
        let all = exponents.as_flattened().iter().sum::<u64>();
        let mut larger = 0;
        let exponent = exponents.iter().rposition(|counts| {
            larger += counts.iter().sum::<u64>();
            larger > 0 && larger * Self::VALUES_PER_LARGER >= all
        })?;
        let number = |bits: usize| V::from_bits(V::Code::from_i64(bits as i64)).approximate();
        let first = exponent << mantissa_bits;
        Some(Self(number(first + 1) - number(first)))
    }

    /// The greatest multiple of the spacing up to a step. If there is none, the greatest power of two up to the step, of which smaller values of the type are
    /// multiples.
    pub(super) fn below(self, step: f64) -> f64 {
        let multiples = (step / self.0).floor();
        if multiples >= 1.0 { multiples * self.0 } else { f64::from_bits(step.to_bits() >> MANTISSA_BITS << MANTISSA_BITS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ErrorBound;
    use crate::layout::Shape;

    #[test]
    fn spacing_is_that_of_the_larger_values() {
        let spacing = |scalar, bits: &[u16], fill: Option<u16>| {
            let layout = Layout { scalar, byte_order: ByteOrder::Big, shape: Shape::new(&[bits.len() as u64]).unwrap() };
            let config = Config { fill_value: fill.map(u64::from), ..Config::new(ErrorBound::Relative(0.1)).unwrap() };
            let chunk: Vec<u8> = bits.iter().flat_map(|bits| bits.to_be_bytes()).collect();
            Spacing::of(&chunk, &layout, &config).map(|spacing| spacing.0)
        };
        // 1 and -2048, the latter once, then in one of 16 values.
        let mut values = [0x3c00; 32];
        values[3] = 0xe800;
        assert_eq!(spacing(Scalar::F16, &values, None), Some(2f64.powi(-10)));
        values[4] = 0xe800;
        assert_eq!(spacing(Scalar::F16, &values, None), Some(2.0));
        assert_eq!(spacing(Scalar::F16, &values, Some(0xe800)), Some(2f64.powi(-10)));
        assert_eq!(spacing(Scalar::F16, &values, Some(0x6800)), Some(2.0));
        // Zeros of both signs, infinity and NaN do not count; subnormal numbers have the spacing of the least normal ones.
        assert_eq!(spacing(Scalar::F16, &[0, 0x8000, 0x7c00, 0xfe00], None), None);
        assert_eq!(spacing(Scalar::F16, &[0, 0x8000, 0x7c00, 0xfe00, 0x8001], None), Some(2f64.powi(-24)));
        assert_eq!(spacing(Scalar::F16, &[0x0400], None), Some(2f64.powi(-24)));
        assert_eq!(spacing(Scalar::F16, &[0x7bff], None), Some(32.0));
        assert_eq!(spacing(Scalar::BF16, &[0x3f80, 0, 0x7f80], None), Some(2f64.powi(-7)));
        assert_eq!(spacing(Scalar::BF16, &[1], None), Some(2f64.powi(-133)));
        assert_eq!(spacing(Scalar::I16, &[1000, 7], None), None);
    }
}
