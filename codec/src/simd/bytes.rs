//! Which of 64 bytes are equal to a given byte, and selection of bytes by bits: portable, with AVX2 and with AVX-512.

/// Operations on groups of bytes with one result on every CPU.
pub(crate) trait Masks: Copy {
    /// Bit `i` of the result says whether `group[i]` is `wanted`; all bytes are below 128.
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64;
    /// Byte `i` of the result is `bytes[order[i]]`; all of `order` are below 8.
    fn permute(self, bytes: [u8; 8], order: [u8; 8]) -> [u8; 8];
}

/// For each byte the indices of its set bits, ascending, then padding below 8.
static ONES: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][count] = bit as u8;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Writes `first` + `i` for each set bit `i`, ascending, and returns their number. Up to eight more elements of `indices` are overwritten: for each byte
/// all eight are written, since a branch on its number of set bits would be mispredicted.
#[inline(always)]
pub(crate) fn list_ones(bits: u64, first: u16, indices: &mut [u16]) -> usize {
    let mut count = 0;
    for (index, byte) in bits.to_le_bytes().into_iter().enumerate() {
        let ones = &ONES[usize::from(byte)];
        if let Some(eight) = indices[count..].first_chunk_mut() {
            *eight = std::array::from_fn::<u16, 8, _>(|i| first + (8 * index) as u16 + u16::from(ones[i]));
        }
        count += byte.count_ones() as usize;
    }
    count
}

/// Copies the bytes of a group whose bits are set, in order, and returns their number. Up to eight more bytes of `kept` are overwritten.
#[inline(always)]
pub(crate) fn keep(masks: impl Masks, group: &[u8; 64], bits: u64, kept: &mut [u8]) -> usize {
    let mut count = 0;
    for (&eight, byte) in group.as_chunks::<8>().0.iter().zip(bits.to_le_bytes()) {
        if let Some(target) = kept[count..].first_chunk_mut() {
            *target = masks.permute(eight, ONES[usize::from(byte)]);
        }
        count += byte.count_ones() as usize;
    }
    count
}

/// The lowest bit of each of eight bytes.
const LOWEST: u64 = 0x0101_0101_0101_0101;

/// Eight bytes of 0 or 1 as eight bits: the product has them side by side in its highest byte.
#[inline(always)]
fn gather(eight: u64) -> u64 {
    eight.wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// For any CPU: eight bytes at a time, in a 64-bit register.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Masks for Portable {
    #[inline(always)]
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64 {
        let mut bits = 0;
        for (index, eight) in group.as_chunks::<8>().0.iter().enumerate() {
            let differs = u64::from_le_bytes(*eight) ^ (LOWEST * u64::from(wanted));
            // The top bit of each byte becomes 1 where the byte differs.
            bits |= gather(!(differs + 0x7f * LOWEST) >> 7 & LOWEST) << (8 * index);
        }
        bits
    }

    #[inline(always)]
    fn permute(self, bytes: [u8; 8], order: [u8; 8]) -> [u8; 8] {
        std::array::from_fn(|i| bytes[usize::from(order[i]) % 8])
    }
}

/// For x86 with AVX2: one instruction gathers the highest bits of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2(pub(crate) pulp::x86::V3);

#[cfg(target_arch = "x86_64")]
impl Masks for Avx2 {
    #[inline(always)]
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64 {
        use pulp::bytemuck::cast;
        let avx2 = self.0.avx2;
        let halves = group.as_chunks::<32>().0.iter();
        halves.rev().fold(0, |bits, half| {
            let equal = avx2._mm256_cmpeq_epi8(cast(*half), cast([wanted; 32]));
            bits << 32 | u64::from(avx2._mm256_movemask_epi8(equal).cast_unsigned())
        })
    }

    #[inline(always)]
    fn permute(self, bytes: [u8; 8], order: [u8; 8]) -> [u8; 8] {
        use pulp::bytemuck::cast;
        let permuted: [[u8; 8]; 2] = cast(self.0.ssse3._mm_shuffle_epi8(cast([bytes, bytes]), cast([order, order])));
        permuted[0]
    }
}

/// For x86 with AVX-512: a comparison leaves 64 bits.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512(pub(crate) pulp::x86::V4);

#[cfg(target_arch = "x86_64")]
impl Masks for Avx512 {
    #[inline(always)]
    fn equal(self, group: &[u8; 64], wanted: u8) -> u64 {
        use pulp::bytemuck::cast;
        self.0.avx512bw._mm512_cmpeq_epi8_mask(cast(*group), cast([wanted; 64]))
    }

    #[inline(always)]
    fn permute(self, bytes: [u8; 8], order: [u8; 8]) -> [u8; 8] {
        Avx2(*self.0).permute(bytes, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vector_and_portable_code_agree_with_the_definition() {
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
            if let Some(v4) = pulp::x86::V4::try_new() {
                let avx512 = Avx512(v4);
                for wanted in [0, 8, 56, 120, 127] {
                    assert_eq!(avx512.equal(&group, wanted), Portable.equal(&group, wanted));
                }
                let (eight, order) = ([10, 11, 12, 13, 14, 15, 16, 17], [7, 0, 0, 3, 1, 2, 6, 5]);
                assert_eq!(avx512.permute(eight, order), Portable.permute(eight, order));
            }
            let mask = u64::from_le_bytes(*group[..8].as_array().unwrap()).wrapping_mul(state);
            let ones: Vec<usize> = (0..64).filter(|&i| mask >> i & 1 == 1).collect();
            let (mut positions, mut one, mut two) = ([0; 72], [0; 72], [0; 72]);
            assert_eq!(list_ones(mask, 1000, &mut positions), ones.len());
            assert_eq!(
                (keep(Portable, &group, mask, &mut one), keep(Avx2(v3), &group, mask, &mut two)),
                (ones.len(), ones.len())
            );
            for (index, &position) in ones.iter().enumerate() {
                assert_eq!(
                    (positions[index], one[index], two[index]),
                    (1000 + position as u16, group[position], group[position])
                );
            }
        }
    }

    #[test]
    fn portable_code_is_right_at_the_edges() {
        for wanted in [0, 1, 127] {
            for filler in [0, 1, 126, 127] {
                for at in 0..64 {
                    let mut group = [filler; 64];
                    group[at] = wanted;
                    let expected = if filler == wanted { u64::MAX } else { 1 << at };
                    assert_eq!(Portable.equal(&group, wanted), expected, "{wanted} among {filler}");
                }
            }
        }
        assert_eq!(
            Portable.permute([10, 11, 12, 13, 14, 15, 16, 17], [7, 0, 0, 3, 1, 2, 6, 5]),
            [17, 10, 10, 13, 11, 12, 16, 15]
        );
    }

    #[test]
    fn ones_are_listed_and_bytes_kept_where_none_or_all_are() {
        let group: [u8; 64] = std::array::from_fn(|i| i as u8);
        for (bits, expected) in [(0, vec![]), (1, vec![0]), (1 << 63, vec![63]), (u64::MAX, (0..64).collect::<Vec<u8>>())] {
            let (mut indices, mut kept) = ([0; 72], [0; 72]);
            assert_eq!(list_ones(bits, 60_000, &mut indices), expected.len());
            assert_eq!(keep(Portable, &group, bits, &mut kept), expected.len());
            assert_eq!(kept[..expected.len()], expected);
            for (index, byte) in indices.iter().zip(&expected) {
                assert_eq!(*index, 60_000 + u16::from(*byte));
            }
        }
    }
}
