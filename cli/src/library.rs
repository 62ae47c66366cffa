//! What the crate `hdf5` has no safe form for. All unsafe code of this program stands in this module: each function checks what HDF5 itself does not.

pub(crate) mod chunks;
pub(crate) mod numbers;
pub(crate) mod objects;
pub(crate) mod plugins;
pub(crate) mod values;

use std::ffi::{CString, c_int};

/// The result of a call, with HDF5's words for what was wrong.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// Runs calls of HDF5 under the lock of the crate `hdf5`, which also keeps HDF5 from printing what comes back as an error.
fn locked<T>(calls: impl FnOnce() -> T) -> T {
    hdf5::sync::sync(calls)
}

/// The error that a call has left behind, if its code says that there is one. To be called under the lock that the call was made under.
fn check(code: c_int) -> Result<()> {
    hdf5::h5check(code).map(|_| ()).map_err(|error| error.to_string())
}

/// The same for calls that give an identifier.
fn check_id(id: hdf5_sys::h5i::hid_t) -> Result<hdf5_sys::h5i::hid_t> {
    hdf5::h5check(id).map_err(|error| error.to_string())
}

/// A name as C takes it.
fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| format!("{name:?} holds a zero byte, which no name in HDF5 can"))
}

/// Lets the program end without a word where whoever reads its output has had enough, as other tools do; Rust makes a panic of it.
pub(crate) fn end_with_a_closed_pipe() {
    // SAFETY: this is the system's own way to end a process, and nothing else runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
