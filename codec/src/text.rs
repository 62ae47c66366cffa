//! Texts whose allocation can fail.

use std::fmt::{self, Write as _};

/// Formats a text, in place of `format!` and `to_string`. The error is the number of bytes for which there was no memory.
pub(crate) fn written(what: impl fmt::Display) -> Result<String, u64> {
    let mut text = Text::default();
    match write!(text, "{what}") {
        Ok(()) => Ok(text.written),
        Err(fmt::Error) => Err(text.wanted as u64),
    }
}

/// A string whose growth can fail.
#[derive(Default)]
struct Text {
    written: String,
    /// Bytes that were asked for last.
    wanted: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.wanted = self.written.len() + part.len();
        self.written.try_reserve(part.len()).map_err(|_| fmt::Error)?;
        self.written.push_str(part);
        Ok(())
    }
}
