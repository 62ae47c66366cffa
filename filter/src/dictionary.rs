//! The user's dictionary of codebooks: the file that `QUIRE_DICTIONARY` names, read when the first dataset is created or the first chunk
//! compressed. Reading data needs none.

use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;

use quire_codec::stages::adaptive::{AdaptiveDictionary, UserDictionary};
use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::{AdaptPolicy, Config, Error, Result, memory};

use crate::environment::{read_file, variable};
use crate::message::{Lossy, OsError};
use crate::platform;

/// Most bytes that such a file may have.
const MOST_BYTES: usize = 1 << 16;

/// The user's dictionary, if there is one.
///
/// # Errors
/// `InvalidArgument` for a file that cannot be read or is none; `OutOfMemory`, after which the next call reads it again.
pub(crate) fn user() -> Result<Option<&'static UserDictionary>> {
    static DICTIONARY: OnceLock<Result<Option<UserDictionary>>> = OnceLock::new();
    let found = match DICTIONARY.get() {
        Some(found) => found,
        None => match variable(c"QUIRE_DICTIONARY", |path| path.map(read).transpose()) {
            Err(error @ Error::OutOfMemory { .. }) => return Err(error),
            found => DICTIONARY.get_or_init(|| found),
        },
    };
    found.as_ref().map(Option::as_ref).map_err(Error::invalid)
}

/// The books that a chunk may take besides the built-in ones. `history` is the thread's; it is begun when a dataset first asks for it.
///
/// # Errors
/// `InvalidArgument` for a user's dictionary that cannot be read or is none; `OutOfMemory`.
pub(crate) fn books<'a>(config: &Config, history: &'a mut Option<AdaptiveDictionary>) -> Result<&'a [CodeLengths]> {
    let user = user()?.map_or(&[][..], |dictionary| &dictionary.books);
    if config.adapt != AdaptPolicy::History {
        return Ok(user);
    }
    let begun = match history.take() {
        Some(begun) => begun,
        None => AdaptiveDictionary::new(user)?,
    };
    Ok(history.insert(begun).books())
}

pub(crate) fn read(path: &CStr) -> Result<UserDictionary> {
    let refused = |reason: &dyn std::fmt::Display| {
        Error::invalid(format_args!("QUIRE_DICTIONARY={}: {reason}; unset it to do without", Lossy(path.to_bytes())))
    };
    let unreadable = |error: io::Error| refused(&format_args!("it cannot be read: {}", OsError::of(&error)));
    let file = platform::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    memory::resize(&mut bytes, MOST_BYTES + 1)?;
    let length = read_file(file, &mut bytes).map_err(unreadable)?;
    UserDictionary::from_bytes(&bytes[..length]).map_err(|error| error.reworded(|error| refused(error)))
}

/// With paths of Unix.
#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_the_path() {
        let reason = |path: &CStr| read(path).expect_err("refused").to_string();
        assert!(reason(c"/nowhere/books").starts_with("QUIRE_DICTIONARY=/nowhere/books: it cannot be read: No such file"));
        assert!(
            reason(c"/dev/zero")
                .starts_with("QUIRE_DICTIONARY=/dev/zero: it is not a dictionary of codebooks: `quire train` makes one")
        );
        assert!(reason(c"/dev/null").contains("it is not a dictionary"));
    }
}
