//! A stream that has been checked once.

use crate::error::Result;
use crate::stream::header::Header;

/// A stream whose header has been read and whose checksum is right: whoever has one need do neither again.
#[derive(Debug, Clone, Copy)]
pub struct Verified<'a> {
    header: Header,
    bytes: &'a [u8],
}

impl<'a> Verified<'a> {
    /// Reads the header of a stream and compares its checksum: the extents can be trusted to be what was written.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion`.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { header: Header::read_verified(bytes)?, bytes })
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

    /// What stands behind the header.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.header.encoded_len()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Layout, Scalar, Shape};
    use crate::stream::header::{Coding, seal};

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[2]).unwrap() };
        let header = Header { coding: Coding::Stored, layout };
        let mut stream = header.to_bytes()[..header.encoded_len()].to_vec();
        stream.extend(1..=8);
        seal(&mut stream);
        let verified = Verified::read(&stream).unwrap();
        assert_eq!((verified.header(), verified.body()), (&header, &[1, 2, 3, 4, 5, 6, 7, 8][..]));
        for bit in 0..8 * stream.len() {
            let mut damaged = stream.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Verified::read(&damaged).is_err(), "bit {bit}");
        }
    }
}
