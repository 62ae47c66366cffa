//! Environment variables, read without memory: `std::env::var_os` ends the process where there is none for the copy.

use std::ffi::CStr;

use quire_codec::Result;

/// Takes the value of a variable.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(Option<&CStr>) -> Result<()>;

/// Hands a variable's value to `read`; an empty one counts as missing.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(Option<&CStr>) -> R) -> R {
    // SAFETY: the name ends in 0. Where another thread changes the environment meanwhile, this is the race that every C library has that reads it: std's lock
    // is for changes by this library, which makes none.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value ends in 0, and is read before this returns.
    read((!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).filter(|value| !value.is_empty()))
}
