//! A pipeline without run tokens and classes, for comparison: a bin for each difference from -511 to 511, as in cuSZ (PACT'20) and Shah et al. (ICS'23). Larger
//! differences are kept in a list beside the codes.

use quire_codec::stages::integer::Integer;

use crate::lengths::{code_bits, limited_lengths};

/// Largest magnitude with a bin.
const RADIUS: i64 = 511;
/// A bin for each difference from `-RADIUS` to `RADIUS`.
const BINS: usize = 2 * RADIUS as usize + 1;
/// Bits of an outlier in the list: 32 for the index and 32 for the value.
const OUTLIER_BITS: u64 = 64;
/// Length of the longest code, in bits.
const LIMIT: usize = 16;

/// Bits of the differences in the best code for the bins. The code's lengths do not count. An outlier has the code of 0 as well.
#[must_use]
pub fn bits_in_bins<C: Integer>(differences: &[C]) -> u64 {
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
        assert_eq!(bits_in_bins(&[0; 100]), 100);
        assert_eq!(bits_in_bins(&[0, 0, 511, 511]), 4);
        assert_eq!(bits_in_bins(&[0, 0, 512, i32::MIN]), 4 + 2 * 64);
    }
}
