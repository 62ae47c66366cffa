//! Takes sections off the front of a stream.

use crate::error::{Error, Result};

/// Takes `len` bytes off the front of `stream`. If there are fewer: `Truncated`, and `stream` is unchanged.
pub(crate) fn take<'a>(stream: &mut &'a [u8], len: u64, section: &'static str) -> Result<&'a [u8]> {
    if len > stream.len() as u64 {
        return Err(Error::truncated(section, len, stream.len() as u64));
    }
    let (front, rest) = stream.split_at(len as usize);
    *stream = rest;
    Ok(front)
}

/// Takes `N` bytes off the front of `stream`, as [`take`] does.
pub(crate) fn take_array<'a, const N: usize>(stream: &mut &'a [u8], section: &'static str) -> Result<&'a [u8; N]> {
    let have = stream.len() as u64;
    let (front, rest) = stream.split_first_chunk().ok_or(Error::truncated(section, N as u64, have))?;
    *stream = rest;
    Ok(front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_taken_in_order_and_a_missing_one_is_named() {
        let mut stream = &[1u8, 2, 3, 4, 5][..];
        assert_eq!(take(&mut stream, 2, "a"), Ok(&[1u8, 2][..]));
        assert_eq!(take_array(&mut stream, "b"), Ok(&[3u8, 4]));
        assert_eq!(take(&mut stream, 2, "c"), Err(Error::truncated("c", 2, 1)));
        assert_eq!(take_array::<8>(&mut stream, "d"), Err(Error::truncated("d", 8, 1)));
        assert_eq!(stream, [5], "a section that is too short stays");
    }
}
