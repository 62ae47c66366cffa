//! The errors of the codec.

use std::fmt;

use crate::text;

/// A result with the codec's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a chunk could not be compressed or a stream could not be decoded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The stream ends before a section that its header announces.
    Truncated {
        /// The section that was being read.
        section: &'static str,
        /// Bytes that the section needs.
        needed: u64,
        /// Bytes that are left for it.
        have: u64,
        /// How far the stream was read, in bytes from its start.
        offset: u64,
    },
    /// The stream contradicts FORMAT.md.
    Corrupt {
        /// The section with the contradiction.
        section: &'static str,
        /// What was expected, and the value that was found.
        detail: String,
        /// How far the stream was read, in bytes from its start. The wrong bytes are there or shortly before.
        offset: u64,
    },
    /// The stream was written by a format version that this build cannot read.
    UnsupportedVersion {
        /// Major and minor version that the stream names.
        found: (u8, u8),
        /// The version that this build reads.
        supported: (u8, u8),
    },
    /// The system does not have enough memory for a buffer.
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// The caller's configuration or buffer sizes make no sense.
    InvalidArgument(String),
}

impl Error {
    /// `InvalidArgument` with a reason; `OutOfMemory` if there is no memory for the reason's text.
    #[must_use]
    pub fn invalid(reason: impl fmt::Display) -> Self {
        text::written(reason).map_or_else(|bytes| Self::OutOfMemory { bytes }, Self::InvalidArgument)
    }

    /// `Corrupt` with a detail: what was expected and found. `OutOfMemory` if there is no memory for the detail's text.
    pub(crate) fn corrupt(section: &'static str, detail: impl fmt::Display) -> Self {
        text::written(detail)
            .map_or_else(|bytes| Self::OutOfMemory { bytes }, |detail| Self::Corrupt { section, detail, offset: 0 })
    }

    /// The error that `words` makes of this one; `OutOfMemory` is returned unchanged.
    #[must_use]
    pub fn reworded(self, words: impl FnOnce(&Self) -> Self) -> Self {
        if matches!(self, Self::OutOfMemory { .. }) { self } else { words(&self) }
    }

    pub(crate) fn truncated(section: &'static str, needed: u64, have: u64) -> Self {
        Self::Truncated { section, needed, have, offset: 0 }
    }

    /// The error with an offset: bytes read from the stream's start.
    pub(crate) fn at(mut self, read: usize) -> Self {
        if let Self::Truncated { offset, .. } | Self::Corrupt { offset, .. } = &mut self {
            *offset = read as u64;
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { section, needed, have, offset } => {
                write!(
                    f,
                    "stream is truncated at byte {offset}, in its {section}, or the number of bytes there is damaged: {needed} needed, {have} left"
                )
            }
            Self::Corrupt { section, detail, offset } => {
                write!(f, "stream is damaged at byte {offset}, in its {section}: {detail}")
            }
            Self::UnsupportedVersion { found, supported } => {
                let (major, minor) = *found;
                write!(f, "stream has format version {major}.{minor}, this build reads {}.{}: ", supported.0, supported.1)?;
                if found > supported {
                    f.write_str("install a newer H5Z-Quire")
                } else {
                    write!(f, "install H5Z-Quire {major}.{minor} to read it")
                }
            }
            Self::OutOfMemory { bytes } => {
                write!(f, "no memory for {bytes} bytes of a chunk: free some, or choose smaller chunks")
            }
            Self::InvalidArgument(detail) => f.write_str(detail),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_section_offset_and_numbers() {
        let error = Error::truncated("block index", 12, 5).at(77).to_string();
        assert!(["byte 77", "block index", "12 needed", "5 left"].iter().all(|part| error.contains(part)), "{error}");
        let error = Error::corrupt("plane header", "width 33").at(40);
        assert_eq!(error.to_string(), "stream is damaged at byte 40, in its plane header: width 33");
        assert_eq!(Error::invalid("x").at(9), Error::InvalidArgument("x".to_owned()));
    }

    #[test]
    fn the_remedy_for_another_version_depends_on_its_age() {
        let of = |found| Error::UnsupportedVersion { found, supported: (1, 0) }.to_string();
        assert!(of((1, 1)).ends_with("install a newer H5Z-Quire"), "{}", of((1, 1)));
        assert!(of((0, 5)).ends_with("install H5Z-Quire 0.5 to read it"), "{}", of((0, 5)));
    }

    #[test]
    fn other_words_do_not_hide_a_lack_of_memory() {
        let reworded = |error: Error| error.reworded(|error| Error::invalid(format_args!("book 3: {error}")));
        assert_eq!(reworded(Error::OutOfMemory { bytes: 7 }), Error::OutOfMemory { bytes: 7 });
        assert_eq!(reworded(Error::invalid("no")), Error::InvalidArgument("book 3: no".to_owned()));
    }
}
