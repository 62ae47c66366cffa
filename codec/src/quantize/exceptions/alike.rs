//! Exceptions that are all alike, as fill values are, written by AVX2 without a question where each of their runs ends: along a coast they are short.

use crate::layout::ByteOrder;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::quantize::bitmap::{Bitmap, WORD};
use crate::simd::bytes::Avx2;
use crate::simd::vectorized;

/// Runs longer than this in the mean are better copied one by one.
const LONG_RUN: usize = 20;

/// Writes exceptions in the positions that are marked, if they are alike and their runs short; says whether it did.
#[inline(always)]
pub(super) fn write_marked<V: Element>(bits: &[V::Code], marked: &Bitmap, order: ByteOrder, chunk: &mut [u8]) -> bool {
    if V::SIZE > 1
        && bits.len() < LONG_RUN * marked.run_count()
        && let Some(v3) = pulp::x86::V3::try_new()
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

/// What all of them are.
fn all_alike<C: Integer>(bits: &[C]) -> Option<C> {
    let (&first, rest) = bits.split_first()?;
    let are_alike = vectorized(
        #[inline(always)]
        || rest.iter().fold(true, |all, &bits| all & (bits == first)),
    );
    are_alike.then_some(first)
}

/// Writes a value in the positions that are marked, and what stands between them again as it is.
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
