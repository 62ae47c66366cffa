//! HDF5 calls that the crate `hdf5` does not wrap. All unsafe code of this program is in this module. Each function checks what HDF5 does not check.

pub(crate) mod chunks;
pub(crate) mod links;
pub(crate) mod numbers;
pub(crate) mod objects;
pub(crate) mod plugins;
#[cfg_attr(windows, path = "library/process/windows.rs")]
#[cfg_attr(not(windows), path = "library/process/unix.rs")]
pub(crate) mod process;
/// What the program asks of the system, where systems differ.
#[cfg_attr(windows, path = "library/system/windows.rs")]
#[cfg_attr(not(windows), path = "library/system/unix.rs")]
pub(crate) mod system;
pub(crate) mod values;

use std::ffi::c_int;

use anyhow::{Context as _, Result};

/// Runs HDF5 calls under the lock of the crate `hdf5`, which also keeps HDF5 from printing its errors.
fn locked<T>(calls: impl FnOnce() -> T) -> T {
    hdf5::sync::sync(calls)
}

/// Turns a negative return code into HDF5's error. Call it under the lock that the HDF5 call was made under.
fn check(code: c_int) -> Result<()> {
    hdf5::h5check(code)?;
    Ok(())
}

/// Takes ownership of a new identifier. Use it under the lock that the identifier was made under.
macro_rules! owned {
    ($call:expr) => {
        hdf5::h5check($call).and_then(|id| hdf5::from_id(id)).map_err(anyhow::Error::from)
    };
}
use owned;

/// Gives `bytes` the length of so many values of the given size in bytes. HDF5 is to overwrite all of them; new bytes are zero.
///
/// # Errors
/// If there is not enough memory. A damaged file may ask for any size.
pub(crate) fn make_room(bytes: &mut Vec<u8>, count: usize, each: usize) -> Result<()> {
    let length =
        count.checked_mul(each).with_context(|| format!("{count} values of {each} bytes are more than any memory holds"))?;
    bytes.try_reserve(length.saturating_sub(bytes.len())).map_err(|_| anyhow::anyhow!("no memory for {length} bytes"))?;
    bytes.resize(length, 0);
    Ok(())
}
