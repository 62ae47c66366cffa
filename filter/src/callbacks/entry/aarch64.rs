//! aarch64.

use std::ffi::{c_uint, c_void};

use hdf5_sys::h5::herr_t;
use hdf5_sys::h5i::hid_t;

use super::{filter_called_from, set_local_called_from};

#[unsafe(naked)]
pub(crate) extern "C" fn set_local(dcpl: hid_t, type_id: hid_t, space: hid_t) -> herr_t {
    // The return address is in x30; x3 takes the fourth argument.
    std::arch::naked_asm!("mov x3, x30", "b {inner}", inner = sym set_local_called_from)
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn filter(
    flags: c_uint,
    cd_nelmts: usize,
    cd_values: *const c_uint,
    nbytes: usize,
    buf_size: *mut usize,
    buf: *mut *mut c_void,
) -> usize {
    // x6 takes the seventh argument.
    std::arch::naked_asm!("mov x6, x30", "b {inner}", inner = sym filter_called_from)
}
