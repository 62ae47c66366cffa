//! Which of 64 bytes are equal to a given one. Two implementations of one definition.

/// Bit `i` of the result says whether `group[i]` is `wanted`; all bytes are below 128.
pub(super) trait Masks: Copy {
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64;
}

/// Any CPU: eight bytes at a time.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Masks for Portable {
    #[inline(always)]
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64 {
        let mut mask = 0;
        for (index, eight) in group.as_chunks::<8>().0.iter().enumerate() {
            let differs = u64::from_le_bytes(*eight) ^ (0x0101_0101_0101_0101 * u64::from(wanted));
            // The top bit of each byte becomes 1 where the byte differs; the product gathers the inverse's top bits in its highest byte.
            let equal = !(differs + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080;
            let bits = (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            mask |= bits << (8 * index);
        }
        mask
    }
}

/// x86 with AVX2, which gathers a bit of each of 32 bytes in one instruction.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Avx2(pub(super) pulp::x86::V3);

#[cfg(target_arch = "x86_64")]
impl Masks for Avx2 {
    #[inline(always)]
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64 {
        use pulp::bytemuck::cast;
        let avx2 = self.0.avx2;
        let halves = group.as_chunks::<32>().0.iter();
        halves.rev().fold(0, |mask, half| {
            let equal = avx2._mm256_cmpeq_epi8(cast(*half), cast([wanted; 32]));
            mask << 32 | u64::from(avx2._mm256_movemask_epi8(equal).cast_unsigned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn both_masks_are_the_same() {
        let Some(v3) = pulp::x86::V3::try_new() else {
            println!("skipped: this CPU has no AVX2");
            return;
        };
        let mut state = 1u64;
        for _ in 0..2000 {
            let group = std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 60) as u8 * 8
            });
            for wanted in [0, 8, 56, 120, 127] {
                let expected = (0..64).fold(0, |mask, i| mask | u64::from(group[i] == wanted) << i);
                assert_eq!((Portable.equal(&group, wanted), Avx2(v3).equal(&group, wanted)), (expected, expected));
            }
        }
    }
}
