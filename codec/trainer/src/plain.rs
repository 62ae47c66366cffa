//! A pipeline without run tokens and classes, for comparison: a bin for each difference from -511 to 511, as in cuSZ (PACT'20) and Shah et al. (ICS'23). Larger
//! differences are kept in a list beside the codes.

use quire_codec::stages::integer::Integer;

use crate::lengths::{code_bits, limited_lengths};

/// Largest magnitude with a bin.
const RADIUS: i64 = 511;
/// A bin for each difference from `-RADIUS` to `RADIUS`.
const BINS: usize = 2 * RADIUS as usize + 1;
/// Number of bits of an outlier in its list: index and value in 32 bits each.
const OUTLIER_BITS: u64 = 64;
/// Length of the longest code, in bits. The papers' decoders have no table that limits it.
const LIMIT: usize = 16;

/// Number of bits of the differences with the best code for the bins, whose lengths do not count. An outlier takes the code of 0, too.
#[must_use]
pub fn plain_bits<C: Integer>(differences: &[C]) -> u64 {
    let mut histogram = vec![0; BINS];
    let mut outliers = 0;
    for difference in differences {
        let difference = difference.to_i64();
        let inside = (-RADIUS..=RADIUS).contains(&difference);
        outliers += u64::from(!inside);
        histogram[(RADIUS + if inside { difference } else { 0 }) as usize] += 1;
    }
    code_bits(&histogram, &limited_lengths(&histogram, LIMIT)) + outliers * OUTLIER_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_a_bit_and_an_outlier_64_more() {
        assert_eq!(plain_bits(&[0; 100]), 100);
        assert_eq!(plain_bits(&[0, 0, 511, 511]), 4);
        assert_eq!(plain_bits(&[0, 0, 512, i32::MIN]), 4 + 2 * 64);
    }
}
