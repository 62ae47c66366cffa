//! x86-64 as all systems but Windows call functions.

use std::ffi::{c_uint, c_void};

use hdf5_sys::h5::herr_t;
use hdf5_sys::h5i::hid_t;

use super::{filter_called_from, set_local_called_from};

#[unsafe(naked)]
pub(crate) extern "C" fn set_local(dcpl: hid_t, type_id: hid_t, space: hid_t) -> herr_t {
    // The return address is on top of the stack; rcx takes the fourth argument.
    std::arch::naked_asm!("mov rcx, qword ptr [rsp]", "jmp {inner}", inner = sym set_local_called_from)
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
    // All six registers for arguments are taken: the seventh argument goes onto the stack. Pushing the return address, which is on top,
    // does that and aligns the stack as a call demands. The .cfi lines let debuggers and profilers see through this frame.
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push qword ptr [rsp]",
        ".cfi_adjust_cfa_offset 8",
        "call {inner}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        inner = sym filter_called_from
    )
}
