//! Texts without memory: what an error report says must not need what the error says is missing.

use std::ffi::CStr;
use std::fmt::{self, Write as _};
use std::io;

use crate::platform;

/// Longest message in bytes, with the 0 behind it: twice as long as the longest refusal of this crate.
const ROOM: usize = 4096;

/// A text of limited length on the stack; what does not fit is left out. Zero bytes become `\0`, so that C sees all of the text. A function with a message in
/// its frame is not inlined: only reports need so much of the stack (`tests/stack.rs`).
pub(crate) struct Message<const SIZE: usize = ROOM> {
    bytes: [u8; SIZE],
    length: usize,
}

impl<const SIZE: usize> Message<SIZE> {
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        let mut message = Self { bytes: [0; SIZE], length: 0 };
        // An error means that the text is cut off, or that a `Display` of ours gave up: the part written is still worth saying.
        let _ = write!(message, "{text}");
        message
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// The text as a string of C.
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Appends as much of a text as there is room for, in whole characters.
    fn append(&mut self, part: &str) -> fmt::Result {
        let room = SIZE - 1 - self.length;
        let fits = (0..=room.min(part.len())).rev().find(|&at| part.is_char_boundary(at)).unwrap_or(0);
        self.bytes[self.length..self.length + fits].copy_from_slice(&part.as_bytes()[..fits]);
        self.length += fits;
        if fits < part.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

impl<const SIZE: usize> fmt::Write for Message<SIZE> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for (number, piece) in part.split('\0').enumerate() {
            if number > 0 {
                self.append("\\0")?;
            }
            self.append(piece)?;
        }
        Ok(())
    }
}

/// What the system says of an error number.
#[derive(Debug)]
pub(crate) struct OsError(pub(crate) i32);

impl OsError {
    pub(crate) fn of(error: &io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        platform::describe_error(self.0, formatter)
    }
}

/// Bytes that are mostly UTF-8, such as a path.
pub(crate) struct Lossy<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            formatter.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                formatter.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_off_in_whole_characters() {
        let message: Message = Message::new("ß".repeat(ROOM));
        assert_eq!(message.as_str(), "ß".repeat(ROOM / 2 - 1));
        assert_eq!(message.as_c_str().count_bytes(), ROOM - 2);
        assert_eq!(Message::<8>::new("a\0b").as_c_str(), c"a\\0b");
        assert_eq!(Message::<64>::new(OsError(2)).as_str(), io::Error::from_raw_os_error(2).to_string());
        assert_eq!(Message::<64>::new(Lossy(b"/a\xffb")).as_str(), "/a\u{fffd}b");
    }
}
