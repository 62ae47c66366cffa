//! Residuals as a decoder reads them: integers of 16 bits and a list of patches, the few integers that 16 bits cannot hold. Less memory takes less time.

use std::ops::Range;

use crate::number::integer::Integer;
use crate::simd::vectorized;

/// A patch: index and value of an integer that 16 bits cannot hold.
pub type Patch = (usize, i64);

/// The 16-bit value that replaces an integer with a patch.
pub const PLACEHOLDER: i16 = match <i16 as Integer>::PLACEHOLDER {
    Some(placeholder) => placeholder,
    None => panic!("integers that 16 bits cannot hold have patches"),
};

/// Integers of which most fit 16 bits, with patches for the others.
#[derive(Debug, Clone, Copy)]
pub struct Patched16<'a> {
    /// All integers; [`PLACEHOLDER`] replaces each that has a patch.
    pub values: &'a [i16],
    /// The patches, ascending by index.
    pub patches: &'a [Patch],
}

impl Patched16<'_> {
    /// The patches of a range of indices.
    #[must_use]
    pub fn patches_in(&self, range: Range<usize>) -> &[Patch] {
        let patches = &self.patches[self.patches.partition_point(|&(index, _)| index < range.start)..];
        &patches[..patches.partition_point(|&(index, _)| index < range.end)]
    }

    /// Whether the sum of the magnitudes of all integers fits 32 bits. If so, the sum of any of the integers does.
    #[must_use]
    pub fn sums_fit(&self) -> bool {
        let of_patches = self.patches.iter().fold(0u64, |sum, &(_, value)| sum.saturating_add(value.unsigned_abs()));
        let fit = |of_values: u64| of_patches.saturating_add(of_values) <= i32::MAX as u64;
        // Without patches, up to 65 535 integers of 16 bits are few enough for any sum.
        fit(self.values.len() as u64 * u64::from(PLACEHOLDER.unsigned_abs())) || fit(self.sum_of_values())
    }

    /// Sum of the magnitudes of all integers of 16 bits, [`PLACEHOLDER`] among them.
    fn sum_of_values(&self) -> u64 {
        vectorized(
            #[inline(always)]
            || {
                // The sum of 2^16 magnitudes of at most 2^15 fits 32 bits.
                let parts = self.values.chunks(1 << 16);
                parts.map(|part| u64::from(part.iter().map(|value| u32::from(value.unsigned_abs())).sum::<u32>())).sum()
            },
        )
    }

    /// Writes the integers of a range of indices, patches included, to `wide`.
    #[inline(always)]
    pub fn widen<C: Integer>(&self, range: Range<usize>, wide: &mut [C]) {
        for (wide, &value) in wide.iter_mut().zip(&self.values[range.clone()]) {
            *wide = C::from_i64(value.into());
        }
        for &(index, value) in self.patches_in(range.clone()) {
            wide[index - range.start] = C::from_i64(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_go_to_their_indices() {
        let values: Vec<i16> = (0..100).map(|i| if i % 7 == 3 { PLACEHOLDER } else { i - 50 }).collect();
        let patches: Vec<Patch> = (3..100).step_by(7).map(|i| (i, (i as i64) << 33)).collect();
        let patched = Patched16 { values: &values, patches: &patches };
        for range in [0..100, 3..4, 4..10, 10..11, 11..11, 95..100] {
            let mut wide = vec![1i64; range.len()];
            patched.widen(range.clone(), &mut wide);
            for (index, wide) in range.zip(wide) {
                assert_eq!(wide, if index % 7 == 3 { (index as i64) << 33 } else { index as i64 - 50 });
            }
        }
    }

    #[test]
    fn sums_fit_up_to_the_largest() {
        let values = vec![i16::MIN + 1; 65_538];
        fn of(values: &[i16], patches: &[Patch]) -> bool {
            Patched16 { values, patches }.sums_fit()
        }
        // 32768 * 65535 is below the largest, 32768 * 65536 one above it.
        assert!(of(&vec![i16::MIN; 65_535], &[]));
        assert!(!of(&vec![i16::MIN; 65_536], &[]));
        // 32767 * 65538 is one less than the largest.
        assert!(of(&values, &[(0, -1)]));
        assert!(!of(&values, &[(0, -2)]));
        assert!(!of(&[], &[(0, i64::MIN), (1, i64::MIN), (2, i64::MAX)]));
        assert!(of(&[], &[(0, i64::from(i32::MAX))]));
        assert!(!of(&[], &[(0, i64::from(i32::MIN))]));
    }
}
