//! Reads environment variables and small files without allocating memory. `std::env::var_os` copies the value, and ends the process if there is no memory.

use std::ffi::CStr;
use std::io;

use quire_codec::Result;

use crate::platform;

/// Takes the value of a variable.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(Option<&CStr>) -> Result<()>;

/// Calls `read` with a variable's value. An empty value counts as missing.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(Option<&CStr>) -> R) -> R {
    platform::variable(name, |value| read(value.filter(|value| !value.is_empty())))
}

/// Reads a file up to its end, or until the room is full. Returns the number of bytes.
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
