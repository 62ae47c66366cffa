//! Binary logarithms in integer arithmetic, for costs in bits that every machine must compute alike.

/// Fraction bits of [`log2_fixed`].
pub const LOG_FRACTION: u32 = 16;

/// log2 of `value` in units of 2^-16, rounded down, or one unit less, as squares are cut to 31 bits of fraction. `value` is at least 1.
/// Each bit of the fraction comes from a square of the mantissa.
#[must_use]
pub fn log2_fixed(value: u64) -> u64 {
    // A table: most counts of a small chunk are small, and each square waits for the one before.
    const SMALL: usize = 256;
    const LOGARITHMS: [u32; SMALL] = {
        let mut logarithms = [0; SMALL];
        let mut value = 1;
        while value < SMALL {
            logarithms[value] = log2_by_squares(value as u64) as u32;
            value += 1;
        }
        logarithms
    };
    if value < SMALL as u64 { u64::from(LOGARITHMS[value as usize]) } else { log2_by_squares(value) }
}

const fn log2_by_squares(value: u64) -> u64 {
    let whole = value.ilog2();
    // Mantissa in [1, 2) with 31 fraction bits.
    let mut mantissa = if whole >= 31 { value >> (whole - 31) } else { value << (31 - whole) };
    let mut result = whole as u64;
    let mut bit = 0;
    while bit < LOG_FRACTION {
        let square = mantissa * mantissa;
        let is_above_two = square >> 63;
        mantissa = square >> (31 + is_above_two);
        result = result + result + is_above_two;
        bit += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact_and_the_logarithm_ascends() {
        for exponent in 0..64 {
            assert_eq!(log2_fixed(1 << exponent), exponent << LOG_FRACTION);
        }
        assert!((1..100_000).is_sorted_by_key(log2_fixed));
        assert!(log2_fixed(u64::MAX) < 64 << LOG_FRACTION && log2_fixed(u64::MAX) >= (64 << LOG_FRACTION) - 2);
    }

    /// The table ends at 256: values on either side of the end, and primes.
    #[test]
    fn logarithm_is_floor_or_one_below() {
        for value in [1, 2, 3, 5, 251, 255, 256, 257, 1000, 65_535, 65_537, 1 << 40, (1 << 47) + 12_345] {
            let exact = (value as f64).log2() * f64::from(1 << LOG_FRACTION);
            let fixed = log2_fixed(value) as f64;
            assert!(fixed <= exact + 1e-6 && fixed > exact - 2.0, "{value}: {fixed} {exact}");
        }
    }
}
