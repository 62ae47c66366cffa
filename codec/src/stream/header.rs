//! The header of a stream and its constants (FORMAT.md §2, §3).

use std::fmt;

use crate::error::{Error, Result};
use crate::layout::{Layout, MAX_RANK, Scalar, Shape, type_of_byte};
use crate::memory::extend;

/// First three bytes of every stream.
pub const MAGIC: [u8; 3] = *b"QUI";
/// Major and minor format version that this build writes and reads.
pub const VERSION: (u8, u8) = (1, 0);
/// Bytes of the shortest header, whose extents take up to two bytes.
pub const HEADER_MIN_LEN: usize = EXTENTS_AT.next_multiple_of(ALIGNMENT);
/// Bytes of the longest header. An extent takes a byte, and another byte for each factor of 2^7. The product of all extents has at most six such factors.
pub const HEADER_MAX_LEN: usize = (EXTENTS_AT + MAX_RANK + 6).next_multiple_of(ALIGNMENT);
/// Sections of a stream begin at multiples of this, in bytes from its start (FORMAT.md §1).
pub const ALIGNMENT: usize = 4;
/// Offset of the version byte.
const VERSION_AT: usize = 3;
/// Offsets of the checksum.
pub const CHECKSUM_AT: std::ops::Range<usize> = 4..8;
/// Offset of the value type.
const TYPE_AT: usize = 8;
/// Offset of coding and rank.
pub const CODING_AT: usize = 9;
/// Offset of the extents.
const EXTENTS_AT: usize = 10;
/// Bits of the coding in its byte.
const CODING_BITS: u32 = 4;
/// Bits of rank - 1, and of the axis whose extent is left out. Rank - 1 is above the coding, the axis above both.
const AXIS_BITS: u32 = MAX_RANK.ilog2();
const _: () = assert!(CODING_BITS + 2 * AXIS_BITS == u8::BITS && MAX_RANK.is_power_of_two());
/// Bit that every version byte has. Streams of versions up to 0.5 have the letter "R" there, and their version in the two bytes behind the letter.
const VERSION_BIT: u8 = 0x80;
/// Bits of the minor version in the version byte. The major version is above them.
const MINOR_BITS: u32 = 4;
/// The version byte of this version.
const VERSION_BYTE: u8 = VERSION_BIT | VERSION.0 << MINOR_BITS | VERSION.1;

/// How the values of a chunk are represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// The chunk's bytes as they came.
    Stored,
    /// The bits of one value, which all values have.
    Constant,
    /// Values rounded to a grid of equal distances.
    Quantized,
    /// Integers that encode the values exactly, without a grid.
    Exact,
    /// Integers rounded to multiples of an integer step.
    Steps,
    /// Values rounded to a grid whose logarithms have equal distances.
    Logarithmic,
    /// Whole numbers over a common divisor.
    Decimal,
}

impl Coding {
    /// All codings, in the order of their numbers in a stream.
    const ALL: [Self; 7] =
        [Self::Stored, Self::Constant, Self::Quantized, Self::Exact, Self::Steps, Self::Logarithmic, Self::Decimal];

    /// The coding as a stream names it.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        self as u8
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
            Self::Decimal => "decimal",
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
            Self::Quantized | Self::Logarithmic | Self::Decimal => scalar.is_float(),
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
        (EXTENTS_AT + self.extents_len()).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of the extents, without padding.
    fn extents_len(&self) -> usize {
        self.written_extents().map(|extent| leb128_len(extent - 1)).sum()
    }

    /// Number of the axis whose extent the header of a stored chunk leaves out, from the slowest axis on. The stream's length gives this extent.
    fn left_out(&self) -> Option<usize> {
        (self.coding == Coding::Stored).then(|| greatest(self.layout.shape.dims()))
    }

    /// The extents that the header has, slowest first.
    fn written_extents(&self) -> impl Iterator<Item = u64> {
        let left_out = self.left_out();
        self.layout.shape.dims().iter().enumerate().filter(move |&(axis, _)| Some(axis) != left_out).map(|(_, &extent)| extent)
    }

    /// The header, in the first [`Header::encoded_len`] bytes. The checksum is 0 until [`seal`] writes it into the whole stream.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_MAX_LEN] {
        let rank = self.layout.shape.dims().len();
        let mut bytes = [0; HEADER_MAX_LEN];
        bytes[..VERSION_AT].copy_from_slice(&MAGIC);
        bytes[VERSION_AT] = VERSION_BYTE;
        bytes[TYPE_AT] = self.layout.type_byte();
        let axes = (rank - 1) as u8 | (self.left_out().unwrap_or(0) as u8) << AXIS_BITS;
        bytes[CODING_AT] = self.coding.to_byte() | axes << CODING_BITS;
        let mut at = EXTENTS_AT;
        for extent in self.written_extents() {
            let mut rest = extent - 1;
            while rest >> 7 > 0 {
                bytes[at] = rest as u8 | 0x80;
                rest >>= 7;
                at += 1;
            }
            bytes[at] = rest as u8;
            at += 1;
        }
        bytes
    }

    /// Appends [`Header::to_bytes`] to a stream.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn write_to(&self, stream: &mut Vec<u8>) -> Result<()> {
        extend(stream, &self.to_bytes()[..self.encoded_len()])
    }

    /// Reads the header of a whole stream, as the stream's length says how large a stored chunk is. Does not check the checksum.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion`.
    pub fn read_from(stream: &[u8]) -> Result<Self> {
        let wrong = |at: usize, detail: fmt::Arguments<'_>| Error::corrupt(SECTION, detail).at(at);
        if stream.len() < HEADER_MIN_LEN {
            return Err(Error::truncated(SECTION, HEADER_MIN_LEN as u64, stream.len() as u64));
        }
        if stream[..VERSION_AT] != MAGIC {
            return Err(wrong(
                0,
                format_args!("the stream begins with the bytes {:02x?}, not {MAGIC:02x?} (\"QUI\")", &stream[..VERSION_AT]),
            ));
        }
        check_version(stream)?;
        let (scalar, byte_order) = type_of_byte(stream[TYPE_AT])
            .ok_or_else(|| wrong(TYPE_AT, format_args!("value type {} is unknown", stream[TYPE_AT])))?;
        let field = |shift: u32, bits: u32| usize::from(stream[CODING_AT] >> shift & ((1 << bits) - 1));
        let number = field(0, CODING_BITS);
        let coding = *Coding::ALL.get(number).ok_or_else(|| wrong(CODING_AT, format_args!("coding {number} is unknown")))?;
        if !coding.fits(scalar) {
            return Err(wrong(CODING_AT, format_args!("coding {number} is not for value type {}", stream[TYPE_AT])));
        }
        let (rank, left_out) = (field(CODING_BITS, AXIS_BITS) + 1, field(CODING_BITS + AXIS_BITS, AXIS_BITS));
        if left_out >= if coding == Coding::Stored { rank } else { 1 } {
            return Err(wrong(
                CODING_AT,
                format_args!("the left-out extent of a {} chunk of rank {rank} is number {left_out}", coding.name()),
            ));
        }
        let (mut dims, mut at) = ([1; MAX_RANK], EXTENTS_AT);
        for (axis, extent) in dims[..rank].iter_mut().enumerate() {
            if coding != Coding::Stored || axis != left_out {
                *extent = read_extent(stream, &mut at)?;
            }
        }
        let end = at.next_multiple_of(ALIGNMENT);
        let padding = stream.get(at..end).ok_or_else(|| Error::truncated(SECTION, end as u64, stream.len() as u64).at(at))?;
        if padding.iter().any(|&byte| byte != 0) {
            return Err(wrong(at, format_args!("padding is {padding:02x?}, not 0")));
        }
        if coding == Coding::Stored {
            dims[left_out] = left_out_extent(&dims[..rank], stream.len() - end, scalar).ok_or_else(|| {
                wrong(end, format_args!("{} stored bytes are no chunk of this type and these extents", stream.len() - end))
            })?;
        }
        let shape =
            Shape::new(&dims[..rank]).map_err(|error| error.reworded(|error| wrong(EXTENTS_AT, format_args!("{error}"))))?;
        if coding == Coding::Stored && left_out != greatest(shape.dims()) {
            return Err(wrong(CODING_AT, format_args!("the left-out extent is number {left_out}, which is not the greatest")));
        }
        let layout = Layout { scalar, byte_order, shape };
        layout.check_pairs().map_err(|error| error.reworded(|error| wrong(EXTENTS_AT, format_args!("{error}"))))?;
        Ok(Self { coding, layout })
    }
}

/// The header's name in errors.
const SECTION: &str = "header";

/// Major and minor version of a stream of any version. `None` for bytes that are no stream.
#[must_use]
pub fn version_of(stream: &[u8]) -> Option<(u8, u8)> {
    match stream.strip_prefix(&MAGIC)? {
        [byte, ..] if byte & VERSION_BIT != 0 => Some(((byte & !VERSION_BIT) >> MINOR_BITS, byte & ((1 << MINOR_BITS) - 1))),
        [b'R', 0, minor @ ..=5, ..] => Some((0, *minor)),
        _ => None,
    }
}

/// Refuses a stream of another version, and bytes that are no stream.
fn check_version(stream: &[u8]) -> Result<()> {
    let byte = stream[VERSION_AT];
    let Some(found) = version_of(stream) else {
        return Err(
            Error::corrupt(SECTION, format_args!("the version byte is {byte:#04x}: its highest bit is not set")).at(VERSION_AT)
        );
    };
    if byte == VERSION_BYTE { Ok(()) } else { Err(Error::UnsupportedVersion { found, supported: VERSION }) }
}

/// Index of the greatest extent, the first of equal extents.
fn greatest(dims: &[u64]) -> usize {
    (1..dims.len()).fold(0, |greatest, axis| if dims[axis] > dims[greatest] { axis } else { greatest })
}

/// The left-out extent of a stored chunk of `len` bytes. `dims` has 1 in its place. `None` if `len` is no multiple of the other extents' bytes.
fn left_out_extent(dims: &[u64], len: usize, scalar: Scalar) -> Option<u64> {
    let others = dims.iter().try_fold(scalar.size() as u64, |product, &extent| product.checked_mul(extent))?;
    (len > 0 && (len as u64).is_multiple_of(others)).then_some(len as u64 / others)
}

/// Reads the extent at `at`, and moves `at` behind the extent.
fn read_extent(stream: &[u8], at: &mut usize) -> Result<u64> {
    /// Bytes of the greatest extent, 2^48.
    const MOST: usize = leb128_len((1 << 48) - 1);
    let wrong = |detail: fmt::Arguments<'_>| Error::corrupt(SECTION, detail).at(*at);
    let bytes = &stream[*at..];
    let Some(last) = bytes.iter().take(MOST).position(|&byte| byte & 0x80 == 0) else {
        return Err(if bytes.len() < MOST {
            Error::truncated(SECTION, stream.len() as u64 + 1, stream.len() as u64).at(*at)
        } else {
            wrong(format_args!("an extent has more than {MOST} bytes"))
        });
    };
    if last > 0 && bytes[last] == 0 {
        return Err(wrong(format_args!("the last of the {} bytes of an extent is 0", last + 1)));
    }
    *at += last + 1;
    Ok(bytes[..=last].iter().rev().fold(0, |rest, &byte| rest << 7 | u64::from(byte & 0x7f)) + 1)
}

/// Bytes of a number in LEB128: seven bits each.
const fn leb128_len(number: u64) -> usize {
    let bits = (u64::BITS - number.leading_zeros()) as usize;
    if bits == 0 { 1 } else { bits.div_ceil(7) }
}

/// Writes the checksum into a whole stream, which has at least [`HEADER_MIN_LEN`] bytes.
pub fn seal(stream: &mut [u8]) {
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

/// CRC-32 (IEEE 802.3, zlib's `crc32`) of all bytes of a stream but those of the checksum.
fn checksum(stream: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&stream[..CHECKSUM_AT.start]);
    hasher.update(&stream[CHECKSUM_AT.end..]);
    hasher.finalize()
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
        let [a, b, c, d] = crc32fast::hash(&[&stream[..4], &stream[8..]].concat()).to_le_bytes();
        // Extents of 3 and 258: 2, and 257 = 1 + 2 * 128.
        assert_eq!(stream, [b'Q', b'U', b'I', 0x90, a, b, c, d, 0x81, 0x12, 2, 0x81, 2, 0, 0, 0]);
        verify(&stream).unwrap();
    }

    #[test]
    fn headers_of_every_type_coding_and_rank_come_back() {
        let shapes = [&[1][..], &[128], &[129], &[1 << 48], &[7, 1], &[2, 3, 5], &[1 << 12; 4], &[129, 129, 129, 1 << 26]];
        for scalar in Scalar::ALL {
            for coding in Coding::ALL.into_iter().filter(|&coding| coding != Coding::Stored) {
                for dims in shapes {
                    let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() };
                    let header = Header { coding, layout };
                    let stream = sealed(&header);
                    assert_eq!(stream.len(), header.encoded_len());
                    assert!((HEADER_MIN_LEN..=HEADER_MAX_LEN).contains(&stream.len()) && stream.len().is_multiple_of(ALIGNMENT));
                    let read = Header::read_from(&stream);
                    let is_for_floats = matches!(coding, Coding::Quantized | Coding::Logarithmic | Coding::Decimal);
                    if if scalar.is_float() { coding == Coding::Steps } else { is_for_floats } {
                        assert!(read.unwrap_err().to_string().contains("is not for value type"), "{coding:?} of {scalar:?}");
                    } else if scalar.is_pair() && dims[0] % 2 == 1 {
                        assert!(read.unwrap_err().to_string().contains("it must be even"), "{dims:?} of {scalar:?}");
                    } else {
                        assert_eq!(read, Ok(header));
                    }
                }
            }
        }
        let longest = Layout { shape: Shape::new(&[129, 129, 129, 1 << 22]).unwrap(), ..example().layout };
        assert_eq!(Header { layout: longest, ..example() }.encoded_len(), HEADER_MAX_LEN);
    }

    #[test]
    fn a_stored_chunk_has_all_extents_but_the_greatest() {
        for scalar in Scalar::ALL.into_iter().filter(|scalar| !scalar.is_pair()) {
            for (dims, len) in [(&[1][..], 12), (&[300], 12), (&[1, 2, 3], 12), (&[3, 3, 3, 3], 16), (&[129, 2, 130, 3], 16)] {
                let layout = Layout { scalar, byte_order: ByteOrder::Big, shape: Shape::new(dims).unwrap() };
                let header = Header { coding: Coding::Stored, layout };
                assert_eq!(header.encoded_len(), len);
                let mut stream = sealed(&header);
                assert!(Header::read_from(&stream).unwrap_err().to_string().contains("0 stored bytes are no chunk"));
                stream.resize(len + layout.chunk_bytes() as usize, 7);
                assert_eq!(Header::read_from(&stream), Ok(header));
                stream.push(7);
                let read = Header::read_from(&stream);
                assert!(read.is_err() || (scalar.size() == 1 && dims.len() == 1), "{read:?}");
            }
        }
        for (values, is_even) in [(2, true), (3, false), (300, true)] {
            let layout = Layout { scalar: Scalar::C128, byte_order: ByteOrder::Little, shape: Shape::new(&[values]).unwrap() };
            let header = Header { coding: Coding::Stored, layout };
            let mut stream = sealed(&header);
            stream.resize(stream.len() + 8 * values as usize, 7);
            assert_eq!(Header::read_from(&stream).is_ok(), is_even, "{values} values in pairs");
        }
        let stored = |axes: u8, extents: &[u8], values: usize| {
            let mut stream = [&[b'Q', b'U', b'I', 0x90, 0, 0, 0, 0, 4, axes << 4][..], extents].concat();
            stream.resize(stream.len().next_multiple_of(4), 0);
            stream.resize(stream.len() + values, 7);
            Header::read_from(&stream).map(|header| header.layout.shape.dims().to_vec()).map_err(|error| error.to_string())
        };
        // Two extents, of which the second one is left out.
        assert_eq!(stored(0b0101, &[2], 12), Ok(vec![3, 4]));
        assert!(stored(0b0101, &[2], 9).unwrap_err().contains("number 1, which is not the greatest"), "3 and 3");
        assert_eq!(stored(0b0001, &[2], 9), Ok(vec![3, 3]));
        assert!(stored(0b1001, &[2], 9).unwrap_err().contains("of rank 2 is number 2"));
        assert!(stored(0b0101, &[2], 11).unwrap_err().contains("11 stored bytes"));
    }

    #[test]
    fn a_stored_chunk_of_up_to_2_42_values_costs_at_most_16_bytes() {
        let lens = [1, 1 << 7, (1 << 7) + 1, 1 << 14, (1 << 14) + 1, 1 << 21, (1 << 21) + 1, 1 << 28, (1 << 28) + 1, 1 << 35];
        for (w, z, y, x) in lens
            .iter()
            .flat_map(|w| lens.iter().flat_map(move |z| lens.map(|y| (*w, *z, y))))
            .flat_map(|(w, z, y)| lens.map(|x| (w, z, y, x)))
        {
            let Ok(shape) = Shape::new(&[w, z, y, x]) else { continue };
            let header = Header { coding: Coding::Stored, layout: Layout { shape, ..example().layout } };
            assert!(header.encoded_len() <= if shape.elements() <= 1 << 42 { 16 } else { HEADER_MAX_LEN }, "{shape:?}");
        }
    }

    #[test]
    fn wrong_fields_are_refused_at_their_offset() {
        let stream = sealed(&example());
        for (at, bytes, why) in [
            (0, &b"q"[..], "QUI"),
            (VERSION_AT, b"S", "the version byte is 0x53"),
            (VERSION_AT, b"R\0\x05", "format version 0.5"),
            (VERSION_AT, b"R\0\x06", "the version byte is 0x52"),
            (VERSION_AT, b"R\x01\0", "the version byte is 0x52"),
            (VERSION_AT, &[0x85], "format version 0.5"),
            (VERSION_AT, &[0x87], "format version 0.7"),
            (VERSION_AT, &[0x96], "format version 1.6"),
            (TYPE_AT, &[14], "value type 14"),
            (CODING_AT, &[0x17], "coding 7"),
            (CODING_AT, &[0x52], "the left-out extent of a quantized chunk of rank 2 is number 1"),
            (EXTENTS_AT, &[0x80, 0], "the last of the 2 bytes of an extent is 0"),
            (EXTENTS_AT + 1, &[0xff, 0x80, 0], "the last of the 3 bytes of an extent is 0"),
            (EXTENTS_AT, &[0xff; 6], "16 left"),
            (EXTENTS_AT + 1, &[0x80, 0x80, 0x80, 0x80, 0x80], "16 left"),
            (EXTENTS_AT + 3, &[1], "padding is [01, 00, 00]"),
            (EXTENTS_AT + 5, &[0x80], "padding is [00, 00, 80]"),
        ] {
            let mut damaged = stream.clone();
            damaged[at..at + bytes.len()].copy_from_slice(bytes);
            let error = Header::read_from(&damaged).unwrap_err();
            assert!(error.to_string().contains(why), "byte {at}: {error}");
            if let Error::Corrupt { offset, .. } = error {
                assert!(offset as usize <= at && at < offset as usize + 8, "byte {at} is reported at {offset}");
            }
        }
        for len in 0..stream.len() {
            assert!(matches!(Header::read_from(&stream[..len]), Err(Error::Truncated { .. })), "{len} bytes");
        }
        let mut long = stream[..EXTENTS_AT].to_vec();
        long.extend([0xff; 60]);
        assert!(
            Header::read_from(&long).unwrap_err().to_string().contains("byte 10, in its header: an extent has more than 7 bytes")
        );
        long[EXTENTS_AT + 6] = 0x7f;
        assert!(
            Header::read_from(&long).unwrap_err().to_string().contains("byte 17, in its header: an extent has more than 7 bytes")
        );
        // 2^49 values along an axis, and 2^48 + 2^48.
        long[EXTENTS_AT + 7..].fill(0);
        assert!(Header::read_from(&long).unwrap_err().to_string().contains("more than 2^48"));
    }
}
