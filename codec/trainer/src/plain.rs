//! The same pipeline without run tokens and escapes, to compare with: a bin for each difference of up to 511 either way, as in cuSZ
//! (PACT'20) and Shah et al. (ICS'23); what lies beyond is kept in a list beside the codes.

use quire_codec::stages::integer::Integer;

use crate::lengths::{code_bits, limited_lengths};

/// Largest magnitude with a bin.
const RADIUS: i64 = 511;
/// A bin for each difference from `-RADIUS` to `RADIUS`.
const BINS: usize = 2 * RADIUS as usize + 1;
/// Bits of an outlier in its list: index and value in 32 bits each.
const OUTLIER_BITS: u64 = 64;
/// Longest code. The paper's books have no table to fit into.
const LIMIT: usize = 16;

/// Bits of the differences, with the best code that bins allow and its table for nothing. An outlier has the code of 0 as well.
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
    fn a_value_takes_a_bit_and_an_outlier_its_place_in_the_list() {
        assert_eq!(plain_bits(&[0; 100]), 100);
        assert_eq!(plain_bits(&[0, 0, 511, 511]), 4);
        assert_eq!(plain_bits(&[0, 0, 512, i32::MIN]), 4 + 2 * 64);
    }
}
