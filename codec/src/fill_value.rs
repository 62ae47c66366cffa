//! The fill value of a dataset, as the bits that the codec keeps.

use crate::config::ErrorBound;
use crate::error::{Error, Result};
use crate::layout::{ByteOrder, Scalar};

/// Bytes of the largest element: a pair of binary64.
pub const MOST_ELEMENT_BYTES: usize = 16;

/// Bits of the value that comes back bit for bit, from the bytes of one element in its byte order.
///
/// The codec knows one such value a chunk, and for it the parts of pairs are single values. So a pair has the bits of its parts, if both are alike. Otherwise
/// it has those of the part that needs it: NaN, infinities and +0 come back bit for bit in any case (FORMAT.md §10).
///
/// Under [`ErrorBound::Lossless`] all values come back bit for bit, so that either part will do.
///
/// # Errors
/// `InvalidArgument` for a pair of two different numbers other than 0, under any other bound.
pub fn fill_bits(element: &[u8], scalar: Scalar, byte_order: ByteOrder, bound: ErrorBound) -> Result<u64> {
    let size = scalar.size();
    let bits = |value: &[u8]| {
        let add = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
        match byte_order {
            ByteOrder::Big => value.iter().fold(0, add),
            ByteOrder::Little => value.iter().rev().fold(0, add),
        }
    };
    let first = bits(&element[..size]);
    if !scalar.is_pair() {
        return Ok(first);
    }
    let second = bits(&element[size..2 * size]);
    let number = |bits: u64| if size == 4 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) };
    let needs_no_care = |bits: u64| bits == 0 || !number(bits).is_finite();
    if first == second || needs_no_care(second) || bound == ErrorBound::Lossless {
        Ok(first)
    } else if needs_no_care(first) {
        Ok(second)
    } else {
        let (real, imaginary) = (number(first), number(second));
        Err(Error::invalid(format_args!(
            "the fill value ({real}, {imaginary}) has two different parts, of which only one can be kept bit for bit: choose a fill value whose \
             parts are equal, or of which one is 0 or NaN"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSOLUTE: ErrorBound = ErrorBound::Absolute(1.0);

    fn of_pair(parts: [f32; 2], byte_order: ByteOrder, bound: ErrorBound) -> Result<u64> {
        let bytes = parts.map(|part| match byte_order {
            ByteOrder::Little => part.to_le_bytes(),
            ByteOrder::Big => part.to_be_bytes(),
        });
        fill_bits(bytes.as_flattened(), Scalar::C64, byte_order, bound)
    }

    #[test]
    fn one_part_of_a_pair_is_the_fill_value() {
        for byte_order in [ByteOrder::Little, ByteOrder::Big] {
            for (parts, kept) in [
                ([1e20, 1e20], 1e20f32),
                ([1e20, 0.0], 1e20),
                ([0.0, 1e20], 1e20),
                ([f32::NAN, -5.0], -5.0),
                ([-5.0, f32::INFINITY], -5.0),
                ([-0.0, 0.0], -0.0),
                ([f32::NAN, 0.0], f32::NAN),
                ([0.0, 0.0], 0.0),
            ] {
                assert_eq!(of_pair(parts, byte_order, ABSOLUTE), Ok(kept.to_bits().into()), "{parts:?}");
            }
            for parts in [[1.0, 2.0], [-999.0, 999.0], [5.0, -0.0]] {
                assert_eq!(of_pair(parts, byte_order, ErrorBound::Lossless), Ok(parts[0].to_bits().into()));
                let reason = of_pair(parts, byte_order, ABSOLUTE).expect_err("refused").to_string();
                assert!(reason.contains("two different parts") && reason.contains("is 0 or NaN"), "{reason}");
            }
        }
        let big = [[0x40, 0, 0, 0, 0, 0, 0, 1], [0; 8]];
        assert_eq!(fill_bits(big.as_flattened(), Scalar::C128, ByteOrder::Big, ABSOLUTE), Ok(0x4000_0000_0000_0001));
    }

    #[test]
    fn other_fill_values_are_their_bits() {
        assert_eq!(fill_bits(&[1, 2], Scalar::I16, ByteOrder::Little, ABSOLUTE), Ok(0x0201));
        assert_eq!(fill_bits(&[1, 2, 3, 4, 5, 6, 7, 8], Scalar::F64, ByteOrder::Big, ABSOLUTE), Ok(0x0102_0304_0506_0708));
    }
}
