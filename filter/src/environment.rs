//! Environment variables and small files, read without memory of ours: `std::env::var_os` ends the process where there is none for the copy.

use std::ffi::CStr;
use std::io;

use quire_codec::Result;

use crate::platform;

/// Takes the value of a variable.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(Option<&CStr>) -> Result<()>;

/// Hands a variable's value to `read`; an empty one counts as missing.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(Option<&CStr>) -> R) -> R {
    platform::variable(name, |value| read(value.filter(|value| !value.is_empty())))
}

/// Reads a file up to its end, or until the room is full. The number of bytes.
pub(crate) fn read_file(mut file: impl io::Read, room: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < room.len() {
        match file.read(&mut room[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
