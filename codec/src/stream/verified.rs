//! Types for a stream whose header has been read, and for a stream whose checksum is right. With them, each check is made once.

use crate::error::Result;
use crate::stream::header::{Header, verify};

/// A stream whose header has been read. Its checksum has not been compared, so that the extents may be damaged.
#[derive(Debug, Clone, Copy)]
pub struct Unverified<'a> {
    header: Header,
    bytes: &'a [u8],
}

impl<'a> Unverified<'a> {
    /// Reads the header of a stream.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion`.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { header: Header::read_from(bytes)?, bytes })
    }

    /// This stream after its bytes were copied: `bytes` is the copy.
    ///
    /// # Panics
    /// If the number of bytes differs.
    #[must_use]
    pub fn moved_to<'b>(&self, bytes: &'b [u8]) -> Unverified<'b> {
        assert_eq!(bytes.len(), self.bytes.len(), "a moved stream keeps its length");
        Unverified { header: self.header, bytes }
    }

    /// Computes the checksum and compares it with the header's.
    ///
    /// # Errors
    /// `Corrupt` if they differ.
    pub fn verify(self) -> Result<Verified<'a>> {
        verify(self.bytes)?;
        Ok(Verified(self))
    }

    /// The stream's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The whole stream.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes behind the header.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.header.encoded_len()..]
    }
}

/// A stream whose checksum is right. So its header says what the encoder wrote.
#[derive(Debug, Clone, Copy)]
pub struct Verified<'a>(Unverified<'a>);

impl<'a> Verified<'a> {
    /// Reads the header of a stream and compares its checksum.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion`.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        Unverified::read(bytes)?.verify()
    }

    /// A stream that this process has just made. Its checksum is not compared.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion`, for a header that this crate would not write.
    pub fn just_made(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self(Unverified::read(bytes)?))
    }
}

impl<'a> std::ops::Deref for Verified<'a> {
    type Target = Unverified<'a>;

    fn deref(&self) -> &Unverified<'a> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Layout, Scalar, Shape};
    use crate::stream::header::{Coding, seal};

    /// The stream of a stored chunk of bytes, and its header.
    fn stored(bytes: &[u8]) -> (Header, Vec<u8>) {
        let shape = Shape::line(bytes.len() as u64);
        let header =
            Header { coding: Coding::Stored, layout: Layout { scalar: Scalar::U8, byte_order: ByteOrder::Little, shape } };
        let mut stream = Vec::new();
        header.write_to(&mut stream).unwrap();
        stream.extend(bytes);
        seal(&mut stream);
        (header, stream)
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let (header, stream) = stored(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let verified = Verified::read(&stream).unwrap();
        assert_eq!((verified.header(), verified.body()), (&header, &[1, 2, 3, 4, 5, 6, 7, 8][..]));
        for bit in 0..8 * stream.len() {
            let mut damaged = stream.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Verified::read(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_moved_stream_is_verified_where_it_is_now() {
        let (header, stream) = stored(&[7, 8, 9]);
        let mut moved = stream.clone();
        let received = Unverified::read(&stream).unwrap();
        assert_eq!(received.moved_to(&moved).verify().unwrap().body(), [7, 8, 9]);
        *moved.last_mut().unwrap() ^= 1;
        assert!(received.moved_to(&moved).verify().is_err());
        assert_eq!(received.moved_to(&moved).header(), &header);
    }
}
