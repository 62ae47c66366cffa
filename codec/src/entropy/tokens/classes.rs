//! Tokens of segments without runs in which many differences have a class, with AVX-512: symbols and extra bits by arithmetic, without a table.
//!
//! In binary32, a magnitude's exponent is its octave, and the highest bit of its fraction says in which half of the octave it is. So the bits of the number
//! from the exponent down to that bit count half octaves. The extra bits of eight or sixteen neighbours are joined two by two, in vectors, and go to
//! the writer in one push.

use std::arch::x86_64::__m512i;

use pulp::bytemuck::cast;
use pulp::x86::V4;

use super::bits::BitWriter;
use crate::entropy::alphabet::{ALPHABET, DIRECT_MAX, DIRECT_ZERO, FIRST_CLASS};
use crate::number::integer::Integer;

/// Differences whose tokens are made at a time.
pub(super) const GROUP: usize = 64;
/// The greatest magnitude. The token of such a difference has at most 16 extra bits, so that four tokens have at most 64.
const MAX_MAGNITUDE: i32 = (1 << 16) - 1;
/// Classes are half octaves below this octave, octaves from it on.
const FIRST_WHOLE_OCTAVE: u32 = 10;
/// The exponent of 1 in binary32.
const EXPONENT_BIAS: u32 = 127;
const FRACTION_BITS: u32 = f32::MANTISSA_DIGITS - 1;
/// The octave of the first class.
const FIRST_OCTAVE: u32 = (DIRECT_MAX as u32 + 1).ilog2();
/// Half octaves up to the first class, counted from the exponent 0.
const HALF_OCTAVES_BEFORE: u32 = 2 * (EXPONENT_BIAS + FIRST_OCTAVE);
/// The symbol of the first class of a whole octave, minus its octave.
const WHOLE_OCTAVES: u32 = FIRST_CLASS as u32 + 2 * (FIRST_WHOLE_OCTAVE - FIRST_OCTAVE) - FIRST_WHOLE_OCTAVE;
const _: () = assert!(ALPHABET[(WHOLE_OCTAVES + FIRST_WHOLE_OCTAVE) as usize].start == 1 << FIRST_WHOLE_OCTAVE);

/// Eight strings of up to 64 bits, and the number of bits of each.
#[derive(Clone, Copy)]
struct Strings {
    bits: __m512i,
    counts: __m512i,
}

/// Writes the tokens of a segment: a symbol for each difference, and their extra bits. Overwrites fewer than [`GROUP`] symbols behind them. Returns false, and
/// writes nothing, if a difference is greater than [`MAX_MAGNITUDE`].
#[inline(always)]
pub(super) fn write<C: Integer>(v4: V4, segment: &[C], symbols: &mut [u8], bits: &mut BitWriter<'_>) -> bool {
    let is_beyond = |difference: &C| difference.biased(MAX_MAGNITUDE) > 2 * MAX_MAGNITUDE.cast_unsigned();
    if segment.iter().fold(false, |any, difference| any | is_beyond(difference)) {
        return false;
    }
    // A copy, which the compiler can keep in registers.
    let mut writer = BitWriter { words: &mut *bits.words, ..*bits };
    let (groups, rest) = segment.as_chunks::<GROUP>();
    let mut targets = symbols.as_chunks_mut().0.iter_mut();
    for (group, target) in groups.iter().zip(&mut targets) {
        write_group(v4, &group.map(narrow), target, &mut writer);
    }
    if !rest.is_empty()
        && let Some(target) = targets.next()
    {
        let mut differences = [0; GROUP];
        differences.iter_mut().zip(rest).for_each(|(target, &difference)| *target = narrow(difference));
        write_group(v4, &differences, target, &mut writer);
    }
    (bits.end, bits.buffer, bits.count) = (writer.end, writer.buffer, writer.count);
    true
}

/// A difference of at most [`MAX_MAGNITUDE`].
#[inline(always)]
fn narrow<C: Integer>(difference: C) -> i32 {
    difference.to_i64() as i32
}

#[inline(always)]
fn write_group(v4: V4, differences: &[i32; GROUP], symbols: &mut [u8; GROUP], writer: &mut BitWriter<'_>) {
    let (mut extras, mut counts) = ([0; GROUP], [0; GROUP]);
    for (((symbol, extra), count), &difference) in symbols.iter_mut().zip(&mut extras).zip(&mut counts).zip(differences) {
        let found;
        (found, *extra, *count) = token(difference);
        *symbol = found as u8;
    }
    let (extras, counts): ([[u32; 16]; 4], [[u32; 16]; 4]) = (cast(extras), cast(counts));
    let (first, second) = (
        fours(v4, pairs(v4, &extras[0], &counts[0]), pairs(v4, &extras[1], &counts[1])),
        fours(v4, pairs(v4, &extras[2], &counts[2]), pairs(v4, &extras[3], &counts[3])),
    );
    let eights = eights(v4, first, second);
    let sixteens = sixteens(v4, eights);
    if are_whole(v4, sixteens) {
        push(sixteens, [0, 1, 2, 3], writer);
    } else if are_whole(v4, eights) {
        push(eights, [0, 1, 2, 3, 4, 5, 6, 7], writer);
    } else {
        push(first, [0, 2, 4, 6, 1, 3, 5, 7], writer);
        push(second, [0, 2, 4, 6, 1, 3, 5, 7], writer);
    }
}

/// Whether all strings have at most 64 bits. Longer strings have lost bits.
#[inline(always)]
fn are_whole(v4: V4, strings: Strings) -> bool {
    v4.avx512f._mm512_cmpgt_epu64_mask(strings.counts, cast([u64::from(u64::BITS); 8])) == 0
}

/// The symbol of a difference, its extra bits and their number.
#[inline(always)]
fn token(difference: i32) -> (u32, u32, u32) {
    let magnitude = difference.unsigned_abs();
    let is_class = magnitude > DIRECT_MAX as u32;
    let number = (magnitude.cast_signed() as f32).to_bits();
    let octave = (number >> FRACTION_BITS).wrapping_sub(EXPONENT_BIAS);
    let has_halves = octave < FIRST_WHOLE_OCTAVE;
    let class = if has_halves {
        (number >> (FRACTION_BITS - 1)).wrapping_sub(HALF_OCTAVES_BEFORE - FIRST_CLASS as u32)
    } else {
        octave.wrapping_add(WHOLE_OCTAVES)
    };
    // The distance from the class's start is in the bits below the octave's, or below those of its half.
    let distance_bits = octave.wrapping_sub(u32::from(has_halves));
    let distance = magnitude & !u32::MAX.wrapping_shl(distance_bits);
    let extra = distance << 1 | u32::from(difference < 0);
    let direct = difference.wrapping_add(i32::from(DIRECT_ZERO)).cast_unsigned();
    if is_class { (class, extra, distance_bits.wrapping_add(1)) } else { (direct, 0, 0) }
}

/// The strings of `first`, each with a string of `second` behind it. Strings of more than 64 bits lose their last bits.
#[inline(always)]
fn join(v4: V4, first: Strings, second: Strings) -> Strings {
    let f = v4.avx512f;
    Strings {
        bits: f._mm512_or_si512(first.bits, f._mm512_sllv_epi64(second.bits, first.counts)),
        counts: f._mm512_add_epi64(first.counts, second.counts),
    }
}

/// Joins neighbours of 16 strings of up to 32 bits.
#[inline(always)]
fn pairs(v4: V4, bits: &[u32; 16], counts: &[u32; 16]) -> Strings {
    let (f, bits, counts) = (v4.avx512f, cast(*bits), cast(*counts));
    let lower = cast([u64::from(u32::MAX); 8]);
    join(
        v4,
        Strings { bits: f._mm512_and_si512(bits, lower), counts: f._mm512_and_si512(counts, lower) },
        Strings { bits: f._mm512_srli_epi64::<32>(bits), counts: f._mm512_srli_epi64::<32>(counts) },
    )
}

/// Joins neighbours of 8 pairs, and of 8 other pairs. The results of `pairs` and of `others` take turns.
#[inline(always)]
fn fours(v4: V4, pairs: Strings, others: Strings) -> Strings {
    let f = v4.avx512f;
    join(
        v4,
        Strings {
            bits: f._mm512_unpacklo_epi64(pairs.bits, others.bits),
            counts: f._mm512_unpacklo_epi64(pairs.counts, others.counts),
        },
        Strings {
            bits: f._mm512_unpackhi_epi64(pairs.bits, others.bits),
            counts: f._mm512_unpackhi_epi64(pairs.counts, others.counts),
        },
    )
}

/// Joins neighbours of 16 fours, which take turns as [`fours`] leaves them. The results are in the order of the differences.
#[inline(always)]
fn eights(v4: V4, fours: Strings, others: Strings) -> Strings {
    join(v4, pick(v4, fours, others, [0, 4, 1, 5, 8, 12, 9, 13]), pick(v4, fours, others, [2, 6, 3, 7, 10, 14, 11, 15]))
}

/// Joins neighbours of 8 eights, which are in the order of the differences. The result has each of its four strings twice.
#[inline(always)]
fn sixteens(v4: V4, eights: Strings) -> Strings {
    join(v4, pick(v4, eights, eights, [0, 2, 4, 6, 0, 2, 4, 6]), pick(v4, eights, eights, [1, 3, 5, 7, 1, 3, 5, 7]))
}

/// Eight of the sixteen strings of `strings` and `others`.
#[inline(always)]
fn pick(v4: V4, strings: Strings, others: Strings, order: [u64; 8]) -> Strings {
    let f = v4.avx512f;
    Strings {
        bits: f._mm512_permutex2var_epi64(strings.bits, cast(order), others.bits),
        counts: f._mm512_permutex2var_epi64(strings.counts, cast(order), others.counts),
    }
}

/// Appends strings of up to 64 bits in an order.
#[inline(always)]
fn push<const COUNT: usize>(strings: Strings, order: [usize; COUNT], writer: &mut BitWriter<'_>) {
    let (bits, counts): ([u64; 8], [u64; 8]) = (cast(strings.bits), cast(strings.counts));
    for at in order {
        writer.push(bits[at], counts[at] as u32);
    }
}
