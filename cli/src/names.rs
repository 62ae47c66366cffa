//! Names of files, objects, links and attributes: any bytes but zero, escaped when they are printed.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};

/// Text that a terminal only shows. Characters that a terminal may act on, and bytes that are no UTF-8, become escapes such as `\n`, `\x1b` and `\u{202e}`.
/// A backslash stays as it is, so that text which is escaped already does not change.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' | '\r' | '\t' => shown.extend(character.escape_default()),
                character if character.is_ascii_control() => shown += &byte_escape(character as u8),
                character if is_obeyed(character) => shown.extend(character.escape_unicode()),
                character => shown.push(character),
            }
        }
        chunk.invalid().iter().for_each(|&byte| shown += &byte_escape(byte));
    }
    shown
}

fn byte_escape(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

/// Whether a terminal may act on a character instead of showing it: control characters, and those that break lines or turn the direction of writing.
pub(crate) fn is_obeyed(character: char) -> bool {
    const DIRECTIONS: [char; 3] = ['\u{61c}', '\u{200e}', '\u{200f}'];
    character.is_control()
        || DIRECTIONS.contains(&character)
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name from the user or a file. `Display` and `Debug` escape it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Name(CString);

impl Name {
    /// Makes a name of bytes. It ends before the first zero byte, since neither file names nor HDF5 names can contain one.
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let mut bytes: Vec<u8> = bytes.into();
        bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
        bytes.push(0);
        Self(CString::from_vec_with_nul(bytes).unwrap_or_default())
    }

    /// The path of a link in the group that has this path; the root group's is empty.
    pub(crate) fn below(&self, link: &CStr) -> Self {
        Self::new([self.as_bytes(), b"/", link.to_bytes()].concat())
    }

    /// `FILE:/path` of an object.
    pub(crate) fn in_file(&self, file: &Path) -> Self {
        Self::new([file.as_os_str().as_encoded_bytes(), b":", self.as_bytes()].concat())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The name as a C string.
    pub(crate) fn as_c(&self) -> &CStr {
        &self.0
    }
}

/// Unescaped, because JSON has escapes of its own. Bytes that are not UTF-8 become text such as `\xff`.
impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let chunks = self.as_bytes().utf8_chunks();
        let text = |chunk: std::str::Utf8Chunk<'_>| {
            chunk.valid().to_owned() + &chunk.invalid().iter().map(|&byte| byte_escape(byte)).collect::<String>()
        };
        serializer.serialize_str(&chunks.map(text).collect::<String>())
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Name {
    fn from(name: &T) -> Self {
        Self::new(name.as_ref().as_encoded_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&escape(self.as_bytes()))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", escape(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_all_else_is_shown() {
        for (bytes, shown) in [
            (&b"plain name.h5"[..], "plain name.h5"),
            ("f\u{fc}nf \u{65e5}\u{672c} e\u{301}".as_bytes(), "f\u{fc}nf \u{65e5}\u{672c} e\u{301}"),
            (b"\x1b[31mred\x07", "\\x1b[31mred\\x07"),
            (b"two\nlines\r\tand\x7f", "two\\nlines\\r\\tand\\x7f"),
            (b"lone \xff byte", "lone \\xff byte"),
            (b"cut \xe6\x97", "cut \\xe6\\x97"),
            ("\u{9b}31m \u{202e}desrever \u{2028}".as_bytes(), "\\u{9b}31m \\u{202e}desrever \\u{2028}"),
            (b"back\\slash", "back\\slash"),
        ] {
            assert_eq!(escape(bytes), shown);
            assert_eq!(escape(shown.as_bytes()), shown, "escaped twice");
            assert_eq!(Name::new(bytes).to_string(), shown);
            assert_eq!(Name::new(bytes).as_bytes(), bytes);
        }
        for character in (0..=0x2100).filter_map(char::from_u32) {
            assert!(!escape(character.to_string().as_bytes()).contains(is_obeyed), "{character:?}");
        }
    }

    #[test]
    fn names_are_joined_byte_by_byte() {
        let root = Name::default();
        let path = root.below(c"group").below(c"\xff\n");
        assert_eq!(path.as_bytes(), b"/group/\xff\n");
        assert_eq!(path.in_file(Path::new("in.h5")).to_string(), "in.h5:/group/\\xff\\n");
        assert_eq!(serde_json::json!(path), "/group/\\xff\n");
        assert_eq!(format!("{path:?}|{path:>18}"), "\"/group/\\xff\\n\"|     /group/\\xff\\n");
        assert_eq!(Name::new(*b"cut\0off").as_c(), c"cut");
    }
}
