//! Pairs of values, such as complex numbers: a chunk is coded as the array of its parts (FORMAT.md §3).
//!
//! ```text
//! chunk   r0 i0 r1 i1 r2 i2 …      values   r0 r1 r2 … i0 i1 i2 …
//! ```
//!
//! So all stages see an array of plain numbers, with the second parts behind the first ones along the slowest axis. Byte orders stay as they are. If the parts
//! had an axis of their own, half of the second parts would be interpolated from first parts.

use crate::layout::Scalar;
use crate::simd::vectorized;

/// Copies the first parts of the pairs to the front half of `values`, and the second ones to the back half. Both have an even number of values.
pub fn split(pairs: &[u8], scalar: Scalar, values: &mut [u8]) {
    let (first, second) = values.split_at_mut(values.len() / 2);
    split_range(pairs, scalar, first, second);
}

/// Puts the first parts of all pairs in front of the second parts, as [`split`] does, but within one array. For n pairs that takes time in n log n.
pub fn split_in_place(pairs: &mut [u8], scalar: Scalar) {
    let (part, count) = (scalar.size(), pairs.len() / (2 * scalar.size()));
    if count < 2 {
        return;
    }
    let half = count / 2;
    let (left, right) = pairs.split_at_mut(2 * half * part);
    split_in_place(left, scalar);
    split_in_place(right, scalar);
    // Now there are first and second parts of the left half, then first and second parts of the right half. The two blocks in the middle change places.
    pairs[half * part..(half + count) * part].rotate_left(half * part);
}

/// Copies the first and the second parts of some of a chunk's pairs.
pub fn split_range(pairs: &[u8], scalar: Scalar, first: &mut [u8], second: &mut [u8]) {
    vectorized(
        #[inline(always)]
        || match scalar.size() {
            4 => take_apart::<4, 8>(pairs, first, second),
            _ => take_apart::<8, 16>(pairs, first, second),
        },
    );
}

/// The inverse of [`split`].
pub fn join(values: &[u8], scalar: Scalar, pairs: &mut [u8]) {
    let (first, second) = values.split_at(values.len() / 2);
    join_range(first, second, scalar, pairs);
}

/// The inverse of [`split_range`].
pub fn join_range(first: &[u8], second: &[u8], scalar: Scalar, pairs: &mut [u8]) {
    vectorized(
        #[inline(always)]
        || match scalar.size() {
            4 => put_together::<4, 8>(first, second, pairs),
            _ => put_together::<8, 16>(first, second, pairs),
        },
    );
}

/// `PART` bytes a part, `PAIR` bytes a pair.
#[inline(always)]
fn take_apart<const PART: usize, const PAIR: usize>(pairs: &[u8], first: &mut [u8], second: &mut [u8]) {
    let parts = first.as_chunks_mut::<PART>().0.iter_mut().zip(second.as_chunks_mut::<PART>().0);
    for (pair, (first, second)) in pairs.as_chunks::<PAIR>().0.iter().zip(parts) {
        first.copy_from_slice(&pair[..PART]);
        second.copy_from_slice(&pair[PART..]);
    }
}

#[inline(always)]
fn put_together<const PART: usize, const PAIR: usize>(first: &[u8], second: &[u8], pairs: &mut [u8]) {
    let parts = first.as_chunks::<PART>().0.iter().zip(second.as_chunks::<PART>().0);
    for (pair, (first, second)) in pairs.as_chunks_mut::<PAIR>().0.iter_mut().zip(parts) {
        pair[..PART].copy_from_slice(first);
        pair[PART..].copy_from_slice(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_the_order_of_the_pairs_and_go_back() {
        for (scalar, count) in
            [Scalar::C64, Scalar::C128].into_iter().flat_map(|scalar| (0..70).map(move |count| (scalar, count)))
        {
            let size = scalar.size();
            let chunk: Vec<u8> = (0..2 * count * size).map(|byte| (byte * 7 % 251) as u8).collect();
            let (mut values, mut again) = (vec![0; chunk.len()], vec![0; chunk.len()]);
            split(&chunk, scalar, &mut values);
            for (index, part) in chunk.chunks(size).enumerate() {
                let at = index % 2 * count + index / 2;
                assert_eq!(&values[at * size..(at + 1) * size], part, "part {index} of {count} pairs of {scalar:?}");
            }
            join(&values, scalar, &mut again);
            assert_eq!(again, chunk);
            split_in_place(&mut again, scalar);
            assert_eq!(again, values, "{count} pairs of {scalar:?} in place");
        }
    }
}
