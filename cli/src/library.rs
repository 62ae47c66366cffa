//! HDF5 calls that the crate `hdf5` does not wrap. All unsafe code of this program is in this module; each function checks the conditions that HDF5 does not
//! check.

pub(crate) mod chunks;
pub(crate) mod codec;
pub(crate) mod links;
pub(crate) mod numbers;
pub(crate) mod objects;
pub(crate) mod plugins;
pub(crate) mod process;
pub(crate) mod values;

use std::ffi::c_int;

use crate::names::escape;

/// The result of an HDF5 call; the error is HDF5's message.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Runs HDF5 calls under the lock of the crate `hdf5`, which also keeps HDF5 from printing its errors.
fn locked<T>(calls: impl FnOnce() -> T) -> T {
    hdf5::sync::sync(calls)
}

/// Turns a negative return code into HDF5's error message. Call it under the lock that the HDF5 call was made under.
fn check(code: c_int) -> Result<()> {
    hdf5::h5check(code).map(|_| ()).map_err(message)
}

/// Turns a negative identifier into HDF5's error message, as [`check`] does for return codes.
fn check_id(id: hdf5_sys::h5i::hid_t) -> Result<hdf5_sys::h5i::hid_t> {
    hdf5::h5check(id).map_err(message)
}

/// Gives `bytes` the length of so many values of the given size in bytes, for HDF5 to overwrite all of them; new bytes are zero. Returns an error if memory
/// does not suffice, since a damaged file may ask for any size.
///
/// # Errors
/// If there is not enough memory.
pub(crate) fn make_room(bytes: &mut Vec<u8>, count: usize, each: usize) -> Result<()> {
    let length =
        count.checked_mul(each).ok_or_else(|| format!("{count} values of {each} bytes are more than any memory holds"))?;
    bytes.try_reserve(length.saturating_sub(bytes.len())).map_err(|_| format!("no memory for {length} bytes"))?;
    bytes.resize(length, 0);
    Ok(())
}

/// The text of an error, escaped because HDF5 puts names from the file into it.
pub(crate) fn message<E: std::fmt::Display>(error: E) -> String {
    escape(error.to_string().as_bytes())
}
