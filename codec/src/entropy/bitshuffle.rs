//! Bit planes (FORMAT.md §9.2): the fast coding of a plane. The integers of a block are split into bit planes, and bytes of 0 are left out.
//!
//! FZ-GPU (Zhang et al., HPDC'23, section 3.3) shuffles codes of 16 bits and leaves out short blocks of zeros. Here integers keep
//! all their bits, so that none wraps. The sign is the lowest bit, so that a lone small difference takes one bit. Bytes of 0 are
//! left out: flags say which words are not 0, and which of their bytes. Leaving out whole words of 0 alone, or storing a width
//! for every 8 values, gives lower ratios.

#[cfg(test)]
mod plain;

use std::fmt;

use crate::entropy::alphabet::SEGMENT;
use crate::error::{Error, Result};
use crate::memory::{HeapArray, reserve};
use crate::number::integer::Integer;
use crate::simd::vectorized;

/// Number of integers of a block.
pub const BLOCK: usize = SEGMENT;
/// Number of integers that have a bit in one byte of a bit plane.
const OCTET: usize = 8;
/// Number of bytes of a bit plane.
const PLANE_BYTES: usize = BLOCK / OCTET;
/// Number of bytes of a word of a bit plane.
const WORD_BYTES: usize = 4;
/// Number of integers that have a bit in one word of a bit plane.
const INTEGERS_PER_WORD: usize = WORD_BYTES * OCTET;
/// Number of words of a bit plane.
const WORDS: usize = BLOCK / INTEGERS_PER_WORD;
/// Number of bytes of a bit plane's flags, one bit for each word.
const FLAG_BYTES: usize = WORDS / 8;
/// Number of modes in a byte.
const MODES_PER_BYTE: usize = 4;

/// Mode of a bit plane whose bits are all 0. It has no bytes.
const EMPTY: u8 = 0;
/// Mode of a bit plane that has all bytes of all its words.
const DENSE: u8 = 1;
/// Mode of a bit plane that has only bytes that are not 0. Flags say which they are.
const SPARSE: u8 = 2;

/// The name of a block in messages of errors.
const SECTION: &str = "bit planes";

/// A bit plane. The lowest bit of the first byte is that of the first integer.
type Plane = [u8; PLANE_BYTES];
/// All bit planes of a block, the lowest first.
type Planes = [Plane; 64];

fn planes_of(bytes: &mut [u8; PLANE_BYTES * 64]) -> &mut Planes {
    match bytes.as_chunks_mut().0.first_chunk_mut() {
        Some(planes) => planes,
        None => unreachable!("the bytes are those of 64 planes"),
    }
}

/// Buffers of the stage.
#[derive(Debug, Default)]
pub struct Bitshuffle {
    /// See [`Planes`].
    planes: HeapArray<u8, { PLANE_BYTES * 64 }>,
    /// The integers of a block after [`fold`]. They are on the heap, as the stack may be short.
    folded: HeapArray<u64, BLOCK>,
    /// The flags of a block's sparse bit planes.
    flags: Vec<u8>,
    /// For each word with a flag, four bits that say which of its bytes are not 0: two words to a byte.
    nibbles: Vec<u8>,
    /// The bytes of a block's bit planes.
    bytes: Vec<u8>,
    /// The encoded block.
    encoded: Vec<u8>,
}

impl Bitshuffle {
    /// Encodes a block of up to [`BLOCK`] integers. The number of bytes is a multiple of four, and 0 if all integers are 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn encode<C: Integer>(&mut self, block: &[C]) -> Result<&[u8]> {
        let Self { planes, flags, nibbles, bytes, encoded, .. } = self;
        [&mut *flags, nibbles, bytes, encoded].into_iter().for_each(Vec::clear);
        let any = vectorized(
            #[inline(always)]
            || block.iter().fold(0, |any, &value| any | fold(value)),
        );
        if any == 0 {
            return Ok(encoded);
        }
        let count = (u64::BITS - any.leading_zeros()) as usize;
        let planes = planes_of(planes.get()?);
        // The largest sizes of the three parts for `count` bit planes. `bytes` has one byte more while it is written.
        let most = [FLAG_BYTES * count, (WORDS * count).div_ceil(2), PLANE_BYTES * count + 1];
        for (part, most) in [&mut *flags, nibbles, bytes].into_iter().zip(most) {
            reserve(part, most)?;
        }
        vectorized(
            #[inline(always)]
            || split(block, count, planes),
        );
        let words = block.len().div_ceil(INTEGERS_PER_WORD);
        reserve(encoded, 1 + count.div_ceil(MODES_PER_BYTE) + most.iter().sum::<usize>() + WORD_BYTES)?;
        encoded.push(count as u8);
        encoded.resize(1 + count.div_ceil(MODES_PER_BYTE), 0);
        let mut words_before = 0;
        for (number, plane) in planes[..count].iter().enumerate() {
            let plane = &plane[..WORD_BYTES * words];
            let nonzero_words = || plane.as_chunks::<WORD_BYTES>().0.iter().filter(|word| **word != [0; WORD_BYTES]);
            let nonzero_bytes = plane.iter().filter(|&&byte| byte != 0).count();
            let mode = if nonzero_bytes == 0 {
                EMPTY
            } else if 8 * FLAG_BYTES + 4 * nonzero_words().count() + 8 * nonzero_bytes < 8 * plane.len() {
                SPARSE
            } else {
                DENSE
            };
            encoded[1 + number / MODES_PER_BYTE] |= mode << (2 * (number % MODES_PER_BYTE));
            match mode {
                DENSE => bytes.extend_from_slice(plane),
                SPARSE => {
                    let flag = |word: &[u8; WORD_BYTES]| u64::from(*word != [0; WORD_BYTES]);
                    let all = plane.as_chunks().0.iter().rev().fold(0, |all, word| all << 1 | flag(word));
                    flags.extend_from_slice(&all.to_le_bytes());
                    for word in nonzero_words() {
                        let nibble = nibble(word);
                        if words_before % 2 == 0 {
                            nibbles.push(nibble);
                        } else if let Some(last) = nibbles.last_mut() {
                            *last |= nibble << 4;
                        }
                        words_before += 1;
                    }
                    // Every byte is written, without a branch. A byte of 0 is overwritten by the next byte.
                    let mut at = bytes.len();
                    bytes.resize(at + nonzero_bytes + 1, 0);
                    for &byte in plane {
                        bytes[at] = byte;
                        at += usize::from(byte != 0);
                    }
                    bytes.truncate(at);
                }
                _ => {}
            }
        }
        [&*flags, nibbles, bytes].into_iter().for_each(|part| encoded.extend_from_slice(part));
        encoded.resize(encoded.len().next_multiple_of(WORD_BYTES), 0);
        Ok(encoded)
    }

    /// Restores a block of up to [`BLOCK`] integers from its bytes.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode<C: Integer>(&mut self, stream: &[u8], block: &mut [C]) -> Result<()> {
        if stream.is_empty() {
            block.fill(C::default());
            return Ok(());
        }
        let most = 8 * size_of::<C>().max(size_of::<u32>());
        let planes = planes_of(self.planes.get()?);
        let count = read_planes(stream, planes, most, block.len())?;
        let folded = self.folded.get()?;
        vectorized(
            #[inline(always)]
            || join(planes, count, folded, block),
        );
        Ok(())
    }
}

/// Splits the integers of a block into their lowest `count` bit planes, rounded up to a multiple of eight.
#[inline(always)]
fn split<C: Integer>(block: &[C], count: usize, planes: &mut Planes) {
    for (level, planes) in planes[..count.next_multiple_of(OCTET)].as_chunks_mut::<OCTET>().0.iter_mut().enumerate() {
        let mut bytes = [0; BLOCK];
        for (byte, &value) in bytes.iter_mut().zip(block) {
            *byte = (fold(value) >> (OCTET * level)) as u8;
        }
        let mut octets = [0; PLANE_BYTES];
        for (octet, bytes) in octets.iter_mut().zip(bytes.as_chunks().0) {
            *octet = transpose(u64::from_le_bytes(*bytes));
        }
        for (at, plane) in planes.iter_mut().enumerate() {
            for (byte, octet) in plane.iter_mut().zip(&octets) {
                *byte = (octet >> (OCTET * at)) as u8;
            }
        }
    }
}

/// Inverse of [`split`].
#[inline(always)]
fn join<C: Integer>(planes: &Planes, count: usize, folded: &mut [u64; BLOCK], block: &mut [C]) {
    folded.fill(0);
    for (level, planes) in planes[..count.next_multiple_of(OCTET)].as_chunks::<OCTET>().0.iter().enumerate() {
        let mut octets = [0; PLANE_BYTES];
        for (at, plane) in planes.iter().enumerate() {
            for (octet, &byte) in octets.iter_mut().zip(plane) {
                *octet |= u64::from(byte) << (OCTET * at);
            }
        }
        let octets = octets.map(|octet| transpose(octet).to_le_bytes());
        for (folded, &byte) in folded.iter_mut().zip(octets.as_flattened()) {
            *folded |= u64::from(byte) << (OCTET * level);
        }
    }
    for (value, &folded) in block.iter_mut().zip(&*folded) {
        *value = unfold(folded);
    }
}

/// Swaps bit `b` of byte `a` with bit `a` of byte `b`: transposes a matrix of 8 x 8 bits. Its squares of 2 x 2 bits exchange the
/// two bits off their diagonal. Squares of 4 x 4 and then of 8 x 8 bits do so with their quarters.
#[inline(always)]
fn transpose(mut octet: u64) -> u64 {
    for (shift, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)] {
        let different = (octet ^ octet >> shift) & mask;
        octet ^= different ^ different << shift;
    }
    octet
}

/// Fills the bit planes of a block of `len` integers from its bytes. Returns their number; planes of 0 are added up to a multiple of eight.
fn read_planes(stream: &[u8], planes: &mut Planes, most: usize, len: usize) -> Result<usize> {
    let wrong = |why: fmt::Arguments<'_>| {
        Error::corrupt(SECTION, format_args!("in a block of {} bytes for {len} integers, {why}", stream.len()))
    };
    let count = usize::from(stream[0]);
    if count == 0 || count > most {
        return Err(wrong(format_args!("there are {count} bit planes, not 1 to {most}")));
    }
    let too_short = || wrong(format_args!("bytes are missing at its end"));
    let (modes, rest) = stream[1..].split_at_checked(count.div_ceil(MODES_PER_BYTE)).ok_or_else(too_short)?;
    let mode =
        |number: usize| modes.get(number / MODES_PER_BYTE).map_or(EMPTY, |modes| modes >> (2 * (number % MODES_PER_BYTE)) & 3);
    if (count..MODES_PER_BYTE * modes.len()).any(|number| mode(number) != EMPTY) || mode(count - 1) == EMPTY {
        return Err(wrong(format_args!("the modes {modes:02x?} are not those of {count} bit planes")));
    }
    let sparse = (0..count).filter(|&number| mode(number) == SPARSE).count();
    let (flags, rest) = rest.split_at_checked(FLAG_BYTES * sparse).ok_or_else(too_short)?;
    let mut flags = flags.as_chunks::<FLAG_BYTES>().0.iter().map(|&flags| u64::from_le_bytes(flags));
    let flagged_words: u32 = flags.clone().map(u64::count_ones).sum();
    let (nibbles, mut bytes) = rest.split_at_checked(flagged_words.div_ceil(2) as usize).ok_or_else(too_short)?;
    let mut nibbles = nibbles.iter().flat_map(|&pair| [pair & 15, pair >> 4]);
    let words = len.div_ceil(INTEGERS_PER_WORD);
    for (number, plane) in planes[..count.next_multiple_of(OCTET)].iter_mut().enumerate() {
        match mode(number) {
            EMPTY => plane.fill(0),
            DENSE => {
                let (dense, rest) = bytes.split_at_checked(WORD_BYTES * words).ok_or_else(too_short)?;
                if number == count - 1 && dense.iter().all(|&byte| byte == 0) {
                    return Err(wrong(format_args!("the last of {count} bit planes is all 0")));
                }
                plane[..dense.len()].copy_from_slice(dense);
                bytes = rest;
            }
            SPARSE => {
                plane.fill(0);
                let mut left = flags.next().unwrap_or(0);
                if left == 0 || u64::BITS - left.leading_zeros() > words as u32 {
                    return Err(wrong(format_args!("the flags {left:#x} are not those of {words} words")));
                }
                while left != 0 {
                    let word = &mut plane.as_chunks_mut::<WORD_BYTES>().0[left.trailing_zeros() as usize];
                    let flags = nibbles.next().unwrap_or(0);
                    for at in (0..WORD_BYTES).filter(|at| flags >> at & 1 == 1) {
                        let (&byte, rest) = bytes.split_first().ok_or_else(too_short)?;
                        (word[at], bytes) = (byte, rest);
                    }
                    if nibble(word) != flags || flags == 0 {
                        return Err(wrong(format_args!("bit plane {number} has a byte or word that is 0")));
                    }
                    left &= left - 1;
                }
            }
            mode => return Err(wrong(format_args!("bit plane {number} has mode {mode}, not 0 to 2"))),
        }
        // Bits behind the last integer must be 0.
        let behind = plane[len / OCTET..WORD_BYTES * words].iter().enumerate();
        if behind.fold(0, |any, (at, &byte)| any | if at == 0 { byte >> (len % OCTET) } else { byte }) != 0 {
            return Err(wrong(format_args!("bit plane {number} has bits behind the last integer")));
        }
    }
    // The bytes that are left must be padding up to a whole word.
    let padding = bytes.len() < WORD_BYTES && stream.len().is_multiple_of(WORD_BYTES) && bytes.iter().all(|&byte| byte == 0);
    if nibbles.any(|nibble| nibble != 0) || !padding {
        return Err(wrong(format_args!("bytes are left behind the bit planes")));
    }
    Ok(count)
}

/// Four bits that say which bytes of a word are not 0. Bit 0 is for the first byte.
#[inline(always)]
fn nibble(word: &[u8; WORD_BYTES]) -> u8 {
    let word = u32::from_le_bytes(*word);
    // The highest bit of each byte that is not 0.
    let any = ((word & 0x7f7f_7f7f) + 0x7f7f_7f7f) | word;
    ((any >> 7 & 0x0101_0101).wrapping_mul(0x0102_0408) >> 24) as u8
}

/// Makes the sign of an integer its lowest bit: 0, 1, −1, 2, −2 … become 0, 1, 2, 3, 4 …, and the least integer becomes the greatest number.
#[inline(always)]
fn fold<C: Integer>(value: C) -> u64 {
    let negative = C::default().sub(value).to_i64();
    (negative << 1 ^ negative >> 63).cast_unsigned()
}

/// Inverse of [`fold`].
#[inline(always)]
fn unfold<C: Integer>(folded: u64) -> C {
    let negative = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
    C::default().sub(C::from_i64(negative))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Bits of the integers in a stream: those of the exception mask, of type `i8`, have 32.
    fn width<C: Integer>() -> usize {
        8 * size_of::<C>().max(4)
    }

    /// Encodes a block and decodes it again, and compares both with the plain definition. Returns the block's bytes.
    fn bytes_of<C: Integer + std::fmt::Debug>(block: &[C]) -> Vec<u8> {
        let mut bitshuffle = Bitshuffle::default();
        let bytes = bitshuffle.encode(block).unwrap().to_vec();
        let integers: Vec<i64> = block.iter().map(|value| value.to_i64()).collect();
        assert_eq!(bytes, plain::encode(&integers, width::<C>() as u32), "entropy/bitshuffle: {block:?}");
        let mut decoded = block.to_vec();
        decoded.reverse();
        bitshuffle.decode(&bytes, &mut decoded).unwrap();
        assert_eq!(decoded, block, "entropy/bitshuffle: restored");
        check_decoded::<C>(&bytes, block.len());
        bytes
    }

    /// Compares what is decoded from any bytes with the plain definition. Returns whether the bytes are a block.
    fn check_decoded<C: Integer + std::fmt::Debug>(bytes: &[u8], len: usize) -> bool {
        let mut block = vec![C::from_i64(77); len];
        let found = Bitshuffle::default().decode(bytes, &mut block).ok().map(|()| block);
        let expected = plain::decode(bytes, len, width::<C>());
        let expected = expected.map(|integers| integers.into_iter().map(C::from_i64).collect::<Vec<C>>());
        assert_eq!(found, expected, "entropy/bitshuffle: {len} integers from {bytes:?}");
        found.is_some()
    }

    #[test]
    fn a_nibble_tells_which_bytes_are_there() {
        for flags in 0..16u8 {
            for byte in [1, 0x7f, 0x80, 0xff] {
                assert_eq!(nibble(&std::array::from_fn(|at| if flags >> at & 1 == 1 { byte } else { 0 })), flags);
            }
        }
    }

    /// Joins the parts of a block and pads them to a whole word.
    fn padded(parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = parts.concat();
        bytes.resize(bytes.len().next_multiple_of(WORD_BYTES), 0);
        bytes
    }

    #[test]
    fn bytes_are_where_the_format_says() {
        assert_eq!(bytes_of(&[0i32; 2048]), []);
        // 1 is bit 0 alone, −1 is bit 1 alone; value 300 is in byte 1 of word 9.
        let mut block = [0i32; 2048];
        block[300] = 1;
        let flags = [0, 2, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes_of(&block), padded(&[&[1, SPARSE], &flags, &[2, 1 << 4]]));
        block[300] = -1;
        assert_eq!(bytes_of(&block), padded(&[&[2, SPARSE << 2], &flags, &[2, 1 << 4]]));
        block[287] = 1; // byte 3 of word 8
        let (head, other_flags) = ([2, SPARSE << 2 | SPARSE], [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes_of(&block), padded(&[&head, &other_flags, &flags, &[8 | 2 << 4, 1 << 7, 1 << 4]]));
        assert_eq!(bytes_of(&[1i32; 33]), padded(&[&[1, DENSE], &[0xff; 4], &[1, 0, 0, 0]]));
        assert_eq!(bytes_of(&[i64::MIN; 2048]).len(), 1 + 16 + 64 * 256 + 3);
    }

    #[test]
    fn blocks_are_those_of_the_plain_definition() {
        let mut random = Random(1);
        for len in [1, 31, 32, 33, 1000, 2047, 2048] {
            for bits in 1..=64 {
                for often in [1, 3, 40] {
                    let block: Vec<i64> = (0..len)
                        .map(|_| if random.below(often) == 0 { random.next().cast_signed() >> (64 - bits) } else { 0 })
                        .collect();
                    bytes_of(&block);
                    if bits <= 32 {
                        bytes_of(&block.iter().map(|&value| value as i32).collect::<Vec<_>>());
                    }
                }
            }
            bytes_of(&(0..len).map(|_| random.next() as i8 & 1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn any_bytes_are_what_the_plain_definition_reads() {
        let mut random = Random(1);
        let mut random = |limit: usize| random.below(limit as u64) as usize;
        let (mut blocks, mut refused) = (0, 0);
        for len in [1, 31, 32, 33, 40, 100, 1000, 2047, 2048] {
            for turn in 0..200 {
                let block: Vec<i64> =
                    (0..len)
                        .map(|_| {
                            if random(len.min(1 + 3 * turn)) < 4 { (random(1 << 31) as i64 - (1 << 30)) >> random(31) } else { 0 }
                        })
                        .collect();
                let mut bytes = bytes_of(&block.iter().map(|&value| value as i32).collect::<Vec<_>>());
                if bytes.is_empty() {
                    continue;
                }
                // A bit or a byte is changed, mostly in the head, or bytes are missing or added.
                let at = if turn % 2 == 0 { random(bytes.len()) } else { random(bytes.len().min(24)) };
                match turn % 5 {
                    0 => bytes.truncate(at),
                    1 => bytes.extend(vec![0; 1 + turn % 8]),
                    2 => bytes[at] = random(256) as u8,
                    _ => bytes[at] ^= 1 << random(8),
                }
                for is_block in
                    [check_decoded::<i32>(&bytes, len), check_decoded::<i64>(&bytes, len), check_decoded::<i8>(&bytes, len)]
                {
                    blocks += usize::from(is_block);
                    refused += usize::from(!is_block);
                }
            }
        }
        assert!(blocks > 300 && refused > 1000, "{blocks} blocks, {refused} refused");
    }

    #[test]
    fn wrong_bytes_are_refused() {
        let mut block = [0i32; 40];
        let flags = [2, 0, 0, 0, 0, 0, 0, 0];
        let with = |head: &[u8], tail: &[u8]| padded(&[head, &flags, tail]);
        Bitshuffle::default().decode(&with(&[1, SPARSE], &[1, 1 << 7]), &mut block).unwrap();
        assert_eq!(block[39], 1);
        for (bytes, why) in [
            (vec![0, 0, 0, 0], "0 bit planes"),
            (vec![33, 0, 0, 0], "33 bit planes"),
            (vec![1], "missing"),
            (vec![1, EMPTY, 0, 0], "modes"),
            (vec![1, DENSE | SPARSE << 2, 0, 0], "modes"),
            (vec![1, 3, 0, 0], "mode 3"),
            (vec![1, SPARSE, 2, 0], "missing"),
            (vec![1, SPARSE, 2, 0, 0, 0, 0, 0, 0, 0], "missing"),
            (with(&[1, SPARSE], &[1, 0]), "that is 0"),
            (with(&[1, SPARSE], &[0, 0]), "that is 0"),
            (with(&[1, SPARSE], &[3, 1]), "missing"),
            (with(&[1, SPARSE], &[0x11, 1]), "left behind"),
            (with(&[1, SPARSE], &[1, 1, 0, 0, 0, 0, 0, 0]), "left behind"),
            ([with(&[1, SPARSE], &[1, 1]), vec![0]].concat(), "left behind"),
            (with(&[1, SPARSE], &[3, 1, 1]), "behind the last integer"),
            (with(&[1, SPARSE], &[2, 1]), "behind the last integer"),
            (vec![1, SPARSE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "flags 0x0"),
            (vec![1, SPARSE, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1], "flags 0x4"),
            (vec![1, DENSE, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0], "behind the last integer"),
            (vec![1, DENSE, 1, 0, 0, 0, 0, 0], "missing"),
            (vec![1, DENSE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "all 0"),
        ] {
            let error = Bitshuffle::default().decode(&bytes, &mut block).unwrap_err().to_string();
            assert!(error.contains(why), "{bytes:?}: {error}");
        }
    }
}
