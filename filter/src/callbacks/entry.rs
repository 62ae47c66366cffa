//! Machines whose return address is not taken.

use std::ffi::{c_uint, c_void};

use hdf5_sys::h5::herr_t;
use hdf5_sys::h5i::hid_t;

use super::{filter_called_from, set_local_called_from};

pub(crate) extern "C" fn set_local(dcpl: hid_t, type_id: hid_t, space: hid_t) -> herr_t {
    set_local_called_from(dcpl, type_id, space, std::ptr::null())
}

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
