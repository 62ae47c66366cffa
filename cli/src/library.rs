//! What the crate `hdf5` has no safe form for. All unsafe code of this program stands in this module: each function checks what HDF5 itself does not.

pub(crate) mod chunks;
pub(crate) mod links;
pub(crate) mod numbers;
pub(crate) mod objects;
pub(crate) mod plugins;
pub(crate) mod process;
pub(crate) mod values;

use std::ffi::c_int;

use crate::names::escape;

/// The result of a call, with HDF5's words for what was wrong.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Runs calls of HDF5 under the lock of the crate `hdf5`, which also keeps HDF5 from printing what comes back as an error.
fn locked<T>(calls: impl FnOnce() -> T) -> T {
    hdf5::sync::sync(calls)
}

/// The error that a call has left behind, if its code says that there is one. To be called under the lock that the call was made under.
fn check(code: c_int) -> Result<()> {
    hdf5::h5check(code).map(|_| ()).map_err(message)
}

/// The same for calls that give an identifier.
fn check_id(id: hdf5_sys::h5i::hid_t) -> Result<hdf5_sys::h5i::hid_t> {
    hdf5::h5check(id).map_err(message)
}

/// Replaces `bytes` with zeros, for so many values of so many bytes each. A damaged file may ask for more than there is.
///
/// # Errors
/// If there is not the memory.
fn make_room(bytes: &mut Vec<u8>, count: usize, each: usize) -> Result<()> {
    bytes.clear();
    let length =
        count.checked_mul(each).ok_or_else(|| format!("{count} values of {each} bytes are more than any memory holds"))?;
    bytes.try_reserve(length).map_err(|_| format!("no memory for {length} bytes"))?;
    bytes.resize(length, 0);
    Ok(())
}

/// What an error says, with the names escaped that HDF5 puts into it.
pub(crate) fn message<E: std::fmt::Display>(error: E) -> String {
    escape(error.to_string().as_bytes())
}
