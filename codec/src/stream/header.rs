//! The stream's constants and its header (FORMAT.md §2, §3). No other file repeats a number of the format.

use std::fmt;

use crate::error::{Error, Result};
use crate::layout::{Layout, MAX_RANK, Scalar, Shape, type_of_byte};
use crate::memory::extend;

/// First four bytes of every stream.
pub const MAGIC: [u8; 4] = *b"QUIR";
/// Major and minor format version that this build writes; it reads this one only, until 1.0.
pub const VERSION: (u8, u8) = (0, 5);
/// Bytes of the header before the extents.
pub const HEADER_FIXED_LEN: usize = 24;
/// Bytes of the longest header.
pub const HEADER_MAX_LEN: usize = HEADER_FIXED_LEN + 8 * MAX_RANK;
/// Offset of the value type.
const TYPE_AT: usize = 6;
/// Offset of the rank.
const RANK_AT: usize = 8;
/// Offset of the coding.
pub const CODING_AT: usize = 7;
/// Offsets of the checksum.
pub const CHECKSUM_AT: std::ops::Range<usize> = 12..16;
/// Offset of the length of the whole stream.
pub const LENGTH_AT: usize = 16;

/// How the values of a chunk are represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// The chunk's bytes as they came.
    Stored,
    /// One value that every element has, bit for bit.
    Constant,
    /// Rounded to an evenly spaced grid.
    Quantized,
    /// Integers that encode the values exactly, without a grid.
    Exact,
    /// Integers, rounded to multiples of an integer step.
    Steps,
    /// Rounded to a grid that is evenly spaced in the logarithm.
    Logarithmic,
}

impl Coding {
    /// All codings, in the order of their numbers in a stream.
    const ALL: [Self; 6] = [Self::Stored, Self::Constant, Self::Quantized, Self::Exact, Self::Steps, Self::Logarithmic];

    /// The coding as a stream names it.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        Self::ALL.iter().position(|&coding| coding == self).unwrap_or(0) as u8
    }

    /// The coding as tools name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Constant => "constant",
            Self::Quantized => "quantized",
            Self::Exact => "exact",
            Self::Steps => "steps",
            Self::Logarithmic => "logarithmic",
        }
    }

    /// Whether the values are in planes of integers.
    #[must_use]
    pub fn has_planes(self) -> bool {
        !matches!(self, Self::Stored | Self::Constant)
    }

    /// Whether streams of a value type can have the coding (FORMAT.md §2).
    fn fits(self, scalar: Scalar) -> bool {
        match self {
            Self::Stored | Self::Constant | Self::Exact => true,
            Self::Quantized | Self::Logarithmic => scalar.is_float(),
            Self::Steps => !scalar.is_float(),
        }
    }
}

/// The header of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// How the values are represented.
    pub coding: Coding,
    /// Type, byte order and shape of the chunk.
    pub layout: Layout,
}

impl Header {
    /// Bytes of this header.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        HEADER_FIXED_LEN + 8 * self.layout.shape.dims().len()
    }

    /// The header, in the first [`Header::encoded_len`] bytes, with length and checksum still 0: they are filled in once the stream is whole.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_MAX_LEN] {
        let dims = self.layout.shape.dims();
        let mut bytes = [0; HEADER_MAX_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..=RANK_AT].copy_from_slice(&[
            VERSION.0,
            VERSION.1,
            self.layout.type_byte(),
            self.coding.to_byte(),
            dims.len() as u8,
        ]);
        for (bytes, extent) in bytes[HEADER_FIXED_LEN..].as_chunks_mut().0.iter_mut().zip(dims) {
            *bytes = extent.to_le_bytes();
        }
        bytes
    }

    /// Appends the header to a stream, with length and checksum 0 as in [`Header::to_bytes`].
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn write_to(&self, stream: &mut Vec<u8>) -> Result<()> {
        extend(stream, &self.to_bytes()[..self.encoded_len()])
    }

    /// Reads a header from the stream's start and checks the stream's length, not its checksum.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion`.
    pub fn read_from(stream: &[u8]) -> Result<Self> {
        const SECTION: &str = "header";
        let have = stream.len() as u64;
        let wrong = |at: usize, detail: fmt::Arguments<'_>| Error::corrupt(SECTION, detail).at(at);
        let need = |needed: usize| {
            if stream.len() < needed { Err(Error::truncated(SECTION, needed as u64, have)) } else { Ok(()) }
        };
        need(HEADER_FIXED_LEN)?;
        if stream[..4] != MAGIC {
            return Err(wrong(
                0,
                format_args!("the stream begins with the bytes {:02x?}, not {MAGIC:02x?} (\"QUIR\")", &stream[..4]),
            ));
        }
        if (stream[4], stream[5]) != VERSION {
            return Err(Error::UnsupportedVersion { found: (stream[4], stream[5]), supported: VERSION });
        }
        let (scalar, byte_order) = type_of_byte(stream[TYPE_AT])
            .ok_or_else(|| wrong(TYPE_AT, format_args!("value type {} is unknown", stream[TYPE_AT])))?;
        let coding = *Coding::ALL
            .get(usize::from(stream[CODING_AT]))
            .ok_or_else(|| wrong(CODING_AT, format_args!("coding {} is unknown", stream[CODING_AT])))?;
        if !coding.fits(scalar) {
            return Err(wrong(CODING_AT, format_args!("coding {} is not for value type {}", stream[CODING_AT], stream[TYPE_AT])));
        }
        let rank = usize::from(stream[RANK_AT]);
        if rank == 0 || rank > MAX_RANK {
            return Err(wrong(RANK_AT, format_args!("rank is {rank}, not 1 to {MAX_RANK}")));
        }
        if stream[RANK_AT + 1..CHECKSUM_AT.start] != [0; 3] {
            return Err(wrong(
                RANK_AT + 1,
                format_args!("reserved bytes are {:02x?}, not 0", &stream[RANK_AT + 1..CHECKSUM_AT.start]),
            ));
        }
        need(HEADER_FIXED_LEN + 8 * rank)?;
        let length = u64_at(stream, LENGTH_AT);
        if length > have {
            return Err(Error::truncated(SECTION, length, have).at(LENGTH_AT));
        }
        if length < have {
            return Err(wrong(LENGTH_AT, format_args!("the stream says that it has {length} bytes, {have} are present")));
        }
        let mut dims = [0; MAX_RANK];
        for (axis, extent) in dims[..rank].iter_mut().enumerate() {
            *extent = u64_at(stream, HEADER_FIXED_LEN + 8 * axis);
        }
        let shape = Shape::new(&dims[..rank])
            .map_err(|error| error.reworded(|error| wrong(HEADER_FIXED_LEN, format_args!("{error}"))))?;
        Ok(Self { coding, layout: Layout { scalar, byte_order, shape } })
    }
}

/// Writes length and checksum into a whole stream, which has at least [`HEADER_FIXED_LEN`] bytes.
pub fn seal(stream: &mut [u8]) {
    let length = stream.len() as u64;
    stream[LENGTH_AT..LENGTH_AT + 8].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(stream);
    stream[CHECKSUM_AT].copy_from_slice(&checksum.to_le_bytes());
}

/// Compares the checksum of a stream whose header [`Header::read_from`] has accepted.
pub(super) fn verify(stream: &[u8]) -> Result<()> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&stream[CHECKSUM_AT]);
    let (written, found) = (u32::from_le_bytes(bytes), checksum(stream));
    if written != found {
        return Err(Error::corrupt("checksum", format_args!("header says {written:08x}, the bytes give {found:08x}"))
            .at(CHECKSUM_AT.start));
    }
    Ok(())
}

/// CRC-32 (IEEE 802.3, zlib's `crc32`) of all bytes of a stream but the four of the checksum.
fn checksum(stream: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&stream[..CHECKSUM_AT.start]);
    hasher.update(&stream[CHECKSUM_AT.end..]);
    hasher.finalize()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ByteOrder;

    fn sealed(header: &Header) -> Vec<u8> {
        let mut stream = Vec::new();
        header.write_to(&mut stream).unwrap();
        seal(&mut stream);
        stream
    }

    fn example() -> Header {
        let layout = Layout { scalar: Scalar::F64, byte_order: ByteOrder::Big, shape: Shape::new(&[3, 258]).unwrap() };
        Header { coding: Coding::Quantized, layout }
    }

    #[test]
    fn every_field_is_at_the_offset_of_the_format() {
        let stream = sealed(&example());
        let [a, b, c, d] = crc32fast::hash(&[&stream[..12], &stream[16..]].concat()).to_le_bytes();
        let mut plain = b"QUIR".to_vec();
        plain.extend([0, 5, 0x81, 2, 2, 0, 0, 0, a, b, c, d, 40, 0, 0, 0, 0, 0, 0, 0]);
        plain.extend([3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(stream, plain);
        verify(&stream).unwrap();
    }

    #[test]
    fn headers_of_every_type_coding_and_rank_come_back() {
        for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16, Scalar::I8, Scalar::U64] {
            for coding in Coding::ALL {
                for dims in [&[1][..], &[7, 1], &[2, 3, 5], &[1 << 12; 4]] {
                    let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() };
                    let header = Header { coding, layout };
                    let stream = sealed(&header);
                    assert_eq!(stream.len(), header.encoded_len());
                    let read = Header::read_from(&stream);
                    let is_for_floats = matches!(coding, Coding::Quantized | Coding::Logarithmic);
                    if if scalar.is_float() { coding == Coding::Steps } else { is_for_floats } {
                        assert!(read.unwrap_err().to_string().contains("is not for value type"), "{coding:?} of {scalar:?}");
                    } else {
                        assert_eq!(read, Ok(header));
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_fields_are_refused_at_their_offset() {
        let stream = sealed(&example());
        for (at, byte, why) in [
            (0, b'q', "QUIR"),
            (4, 1, "format version 1.5"),
            (5, 6, "format version 0.6"),
            (TYPE_AT, 12, "value type 12"),
            (CODING_AT, 6, "coding 6"),
            (RANK_AT, 0, "rank is 0"),
            (RANK_AT, 5, "rank is 5"),
            (9, 1, "reserved"),
            (11, 1, "reserved"),
            (LENGTH_AT, 39, "39 bytes, 40 are present"),
            (LENGTH_AT, 41, "41 needed, 40 left"),
            (HEADER_FIXED_LEN, 0, ""),
            (HEADER_FIXED_LEN + 6, 1, ""),
        ] {
            let mut damaged = stream.clone();
            damaged[at] = byte;
            let error = Header::read_from(&damaged).unwrap_err();
            assert!(error.to_string().contains(why), "byte {at}: {error}");
            if let Error::Corrupt { offset, .. } = error {
                assert!(offset as usize <= at && at < offset as usize + 8, "byte {at} is reported at {offset}");
            }
        }
        for len in 0..stream.len() {
            assert!(matches!(Header::read_from(&stream[..len]), Err(Error::Truncated { .. })), "{len} bytes");
        }
    }
}
