//! Machines whose return address is not taken.

use std::ffi::{c_uint, c_void};

use hdf5_sys::h5::herr_t;
use hdf5_sys::h5i::hid_t;

use super::{filter_called_from, set_local_called_from};

/// Completes the cd_values when a dataset is created. Negative, with the reason on the error stack, if the dataset cannot be compressed.
pub(crate) extern "C" fn set_local(dcpl: hid_t, type_id: hid_t, space: hid_t) -> herr_t {
    set_local_called_from(dcpl, type_id, space, std::ptr::null())
}

/// Compresses or decompresses a chunk. Returns the new length in bytes; 0, with the reason on the error stack, for failure.
///
/// # Safety
/// `cd_values` points to `cd_nelmts` words, `*buf` to `*buf_size` bytes of HDF5's memory, of which the first `nbytes` hold data.
pub(crate) unsafe extern "C" fn filter(
    flags: c_uint,
    cd_nelmts: usize,
    cd_values: *const c_uint,
    nbytes: usize,
    buf_size: *mut usize,
    buf: *mut *mut c_void,
) -> usize {
    // SAFETY: the inner function has this function's contract.
    unsafe { filter_called_from(flags, cd_nelmts, cd_values, nbytes, buf_size, buf, std::ptr::null()) }
}
