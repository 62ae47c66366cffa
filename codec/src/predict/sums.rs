//! Prefix sums of integers that wrap, portable and with AVX2.

use crate::number::integer::Integer;

/// Prefix sums with one result on every CPU.
pub(crate) trait Sums: Copy {
    /// Replaces each integer by the sum of `before`, the integers in front of it, and itself. Returns the last sum.
    fn add_up_from<C: Integer>(self, integers: &mut [C], before: C) -> C;

    /// [`Sums::add_up_from`] 0, for a whole row. Equal values, such as fill values, have differences of zero. A group of zeros is not added up: it gets the sum
    /// before it.
    #[inline(always)]
    fn add_up<C: Integer>(self, row: &mut [C]) {
        const RUN: usize = 64;
        let mut sum = C::default();
        let (groups, rest) = row.as_chunks_mut::<RUN>();
        for group in groups {
            if group.iter().fold(true, |all, &integer| all & (integer == C::default())) {
                *group = [sum; RUN];
            } else {
                sum = self.add_up_from(group, sum);
            }
        }
        self.add_up_from(rest, sum);
    }
}

/// For any CPU: one integer after another.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Sums for Portable {
    #[inline(always)]
    fn add_up_from<C: Integer>(self, integers: &mut [C], before: C) -> C {
        integers.iter_mut().fold(before, |before, integer| {
            *integer = before.add(*integer);
            *integer
        })
    }
}

/// For x86 with AVX2: eight integers of 32 bits at once.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2(pub(crate) pulp::x86::V3);

/// Least number of integers that vectors add up. Shorter rows are added up integer by integer, as a CPU overlaps the sums of several rows.
#[cfg(target_arch = "x86_64")]
const MIN_VECTOR_INTEGERS: usize = 32;

#[cfg(target_arch = "x86_64")]
impl Sums for Avx2 {
    #[inline(always)]
    fn add_up_from<C: Integer>(self, integers: &mut [C], before: C) -> C {
        if integers.len() < MIN_VECTOR_INTEGERS {
            return Portable.add_up_from(integers, before);
        }
        match C::as_i32(integers) {
            Some(integers) => {
                let (eights, rest) = integers.as_chunks_mut();
                let sum = self.add_up_eights(eights, before.to_i64() as i32);
                C::from_i64(Portable.add_up_from(rest, sum).into())
            }
            None => Portable.add_up_from(integers, before),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// [`Sums::add_up_from`] for whole vectors.
    #[inline(always)]
    fn add_up_eights(self, eights: &mut [[i32; 8]], before: i32) -> i32 {
        use pulp::bytemuck::cast;
        use std::arch::x86_64::__m256i;
        let avx2 = self.0.avx2;
        let mut before: __m256i = cast([before; 8]);
        for eight in eights {
            let numbers: __m256i = cast(*eight);
            let pairs = avx2._mm256_add_epi32(numbers, avx2._mm256_slli_si256::<4>(numbers));
            let fours = avx2._mm256_add_epi32(pairs, avx2._mm256_slli_si256::<8>(pairs));
            // The sum of the lower four goes to the upper four.
            let lower = avx2._mm256_shuffle_epi32::<0xff>(avx2._mm256_permute2x128_si256::<0x08>(fours, fours));
            let sums = avx2._mm256_add_epi32(fours, lower);
            *eight = cast(avx2._mm256_add_epi32(sums, before));
            // Each vector waits for the previous one here alone.
            before = avx2._mm256_add_epi32(before, avx2._mm256_permutevar8x32_epi32(sums, cast([7; 8])));
        }
        cast::<__m256i, [i32; 8]>(before)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests rows that begin, go on or end with runs of zeros, and whose sums wrap.
    fn adds_up<C: Integer + std::fmt::Debug>(sums: impl Sums) {
        for zeros in [0..0, 0..70, 60..200, 130..1000] {
            for len in (0..260i64).chain([1000]) {
                let noise = |i: i64| C::from_i64((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
                let integers: Vec<C> = (0..len).map(|i| if zeros.contains(&i) { C::default() } else { noise(i) }).collect();
                let mut added = integers.clone();
                sums.add_up(&mut added);
                let mut sum = C::default();
                for (added, integer) in added.into_iter().zip(integers) {
                    sum = sum.add(integer);
                    assert_eq!(added, sum);
                }
            }
        }
    }

    #[test]
    fn portable_sums_are_right() {
        adds_up::<i8>(Portable);
        adds_up::<i32>(Portable);
        adds_up::<i64>(Portable);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn avx2_sums_are_right() {
        let Some(v3) = pulp::x86::V3::try_new() else {
            println!("skipped: this CPU has no AVX2");
            return;
        };
        adds_up::<i8>(Avx2(v3));
        adds_up::<i32>(Avx2(v3));
        adds_up::<i64>(Avx2(v3));
    }
}
