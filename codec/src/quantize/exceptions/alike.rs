//! Writes exceptions that all have the same bits, as fill values do, with AVX2: whole vectors, of which the mask picks the exceptions. A loop over runs would
//! branch at the end of each run, and along a coast runs are short.

use crate::fast_paths::{Path, is_open};
use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::quantize::bitmap::{Bitmap, WORD};
use crate::simd::bytes::Avx2;
use crate::simd::vectorized;

/// Mean length of runs, in values, from which on copying run by run takes less time.
const LONG_RUN_VALUES: usize = 20;

/// Writes exceptions to the indices that are marked, if all have the same bits and their runs are short. Returns whether they were written.
#[inline(always)]
pub(super) fn write_marked<V: Element>(bits: &[V::Code], marked: &Bitmap, order: ByteOrder, chunk: &mut [u8]) -> bool {
    if V::SIZE > 1
        && bits.len() < LONG_RUN_VALUES * marked.run_count()
        && let Some(v3) = pulp::x86::V3::try_new()
        && is_open(Path::AlikeExceptions)
        && let Some(alike) = all_alike(bits)
    {
        vectorized(
            #[inline(always)]
            || replace(Avx2(v3), V::from_bits(alike), marked, order, chunk),
        );
        return true;
    }
    false
}

/// The integer that all elements are equal to; `None` if they differ, or if there is none.
fn all_alike<C: Integer>(bits: &[C]) -> Option<C> {
    let (&first, rest) = bits.split_first()?;
    let are_alike = vectorized(
        #[inline(always)]
        || rest.iter().fold(true, |all, &bits| all & (bits == first)),
    );
    are_alike.then_some(first)
}

/// Writes a value to the indices that are marked, and every other value again as it was.
#[inline(always)]
fn replace<V: Element>(avx2: Avx2, value: V, marked: &Bitmap, order: ByteOrder, chunk: &mut [u8]) {
    const PART: usize = 32;
    let mut replacement = [0; PART];
    (0..PART / V::SIZE).for_each(|position| value.write(&mut replacement, position, order));
    for (&word, values) in marked.words().iter().zip(chunk.chunks_mut(WORD * V::SIZE)) {
        if word == 0 {
            continue;
        }
        let (parts, rest) = values.as_chunks_mut::<PART>();
        let mut at = 0;
        for part in parts {
            avx2.replace((word >> at) as u32, V::SIZE, &replacement, part);
            at += PART / V::SIZE;
        }
        for position in 0..rest.len() / V::SIZE {
            if word >> (at + position) & 1 == 1 {
                value.write(rest, position, order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(len: usize, is_marked: impl Fn(usize) -> bool) -> Bitmap {
        let mut bitmap = Bitmap::default();
        bitmap.clear(len).unwrap();
        (0..len).filter(|&index| is_marked(index)).for_each(|index| bitmap.set(index));
        bitmap
    }

    #[test]
    fn equal_integers_are_found() {
        assert_eq!((all_alike::<i32>(&[]), all_alike(&[7]), all_alike(&[7; 100])), (None, Some(7), Some(7)));
        for odd_one in [0, 1, 50, 99] {
            let mut bits = [7i64; 100];
            bits[odd_one] = 8;
            assert_eq!(all_alike(&bits), None, "{odd_one}");
        }
    }

    #[test]
    fn only_short_runs_of_equal_exceptions_are_taken() {
        let is_taken = |bits: &[i32], marks: &Bitmap| {
            let mut chunk = vec![0; 4 * 640];
            let is_taken = write_marked::<f32>(bits, marks, ByteOrder::Little, &mut chunk);
            assert!(is_taken || chunk.iter().all(|&byte| byte == 0), "what is not taken is not written");
            is_taken
        };
        let every_other = marked(640, |index| index % 2 == 0);
        assert_eq!(is_taken(&[1; 320], &every_other), pulp::x86::V3::try_new().is_some());
        assert!(!is_taken(&(0..320).collect::<Vec<_>>(), &every_other), "different exceptions");
        assert!(!is_taken(&[1; 640], &marked(640, |_| true)), "one long run");
        assert!(
            !write_marked::<i8>(&[1; 32], &marked(64, |index| index % 2 == 0), ByteOrder::Little, &mut [0; 64]),
            "single bytes"
        );
    }

    #[test]
    fn other_values_keep_their_bytes() {
        let Some(v3) = pulp::x86::V3::try_new() else { return };
        for len in [0, 1, 7, 8, 63, 64, 65, 131] {
            for modulus in [1, 2, 3, 7] {
                let mut chunk: Vec<u8> = (0..len * 8).map(|byte| byte as u8).collect();
                let mut expected = chunk.clone();
                (0..len).step_by(modulus).for_each(|index| (-1e300f64).write(&mut expected, index, ByteOrder::Big));
                replace(Avx2(v3), -1e300f64, &marked(len, |index| index % modulus == 0), ByteOrder::Big, &mut chunk);
                assert_eq!(chunk, expected, "every {modulus}th of {len} values");
            }
        }
    }
}
