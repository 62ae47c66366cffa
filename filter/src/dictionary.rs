//! The user's dictionary of codebooks: the file that `QUIRE_DICTIONARY` names, read when the first dataset is created or the first chunk
//! compressed. Reading data needs none.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::OnceLock;

use quire_codec::adaptive::{AdaptiveDictionary, UserDictionary};
use quire_codec::codebook::CodeLengths;
use quire_codec::{AdaptPolicy, Config, Error, Result};

/// Most bytes that such a file may have.
const MOST_BYTES: u64 = 1 << 16;

/// The user's dictionary, if there is one.
///
/// # Errors
/// `InvalidArgument` for a file that cannot be read or is none.
pub(crate) fn user() -> Result<Option<&'static UserDictionary>> {
    static DICTIONARY: OnceLock<Result<Option<UserDictionary>>> = OnceLock::new();
    let named = || std::env::var_os("QUIRE_DICTIONARY").filter(|path| !path.is_empty()).map(|path| read(&path)).transpose();
    DICTIONARY.get_or_init(named).as_ref().map(Option::as_ref).map_err(Clone::clone)
}

/// The books that a chunk may take besides the built-in ones. `history` is the thread's; it is begun when a dataset first asks for it.
///
/// # Errors
/// As [`user`].
pub(crate) fn books<'a>(config: &Config, history: &'a mut Option<AdaptiveDictionary>) -> Result<&'a [CodeLengths]> {
    let user = user()?.map_or(&[][..], |dictionary| &dictionary.books);
    Ok(match config.adapt {
        AdaptPolicy::History => history.get_or_insert_with(|| AdaptiveDictionary::new(user)).books(),
        _ => user,
    })
}

fn read(path: &OsStr) -> Result<UserDictionary> {
    let refused = |reason: String| {
        Error::InvalidArgument(format!("QUIRE_DICTIONARY={}: {reason}; unset it to do without", Path::new(path).display()))
    };
    let mut bytes = Vec::new();
    let opened = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    opened.map_err(|error| refused(format!("it cannot be read: {error}")))?;
    UserDictionary::from_bytes(&bytes).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_the_path() {
        let reason = |path: &str| read(OsStr::new(path)).expect_err("refused").to_string();
        assert!(reason("/nowhere/books").starts_with("QUIRE_DICTIONARY=/nowhere/books: it cannot be read: No such file"));
        assert!(
            reason("/dev/zero")
                .starts_with("QUIRE_DICTIONARY=/dev/zero: it is no dictionary of codebooks: `quire train` makes one")
        );
        assert!(reason("/dev/null").contains("it is no dictionary"));
    }
}
