//! x86-64 as Windows calls functions: four arguments in registers, the others on the stack behind the return address and 32 bytes for the
//! function called.

use std::ffi::{c_uint, c_void};

use hdf5_sys::h5::herr_t;
use hdf5_sys::h5i::hid_t;

use super::{filter_called_from, set_local_called_from};

#[unsafe(naked)]
pub(crate) extern "C" fn set_local(dcpl: hid_t, type_id: hid_t, space: hid_t) -> herr_t {
    // The return address is on top of the stack; r9 takes the fourth argument.
    std::arch::naked_asm!("mov r9, qword ptr [rsp]", "jmp {inner}", inner = sym set_local_called_from)
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
    // The fifth and sixth arguments are copied, and the return address comes behind them as the seventh. The four registers stay as they are. The .seh lines
    // let Windows see through this frame.
    std::arch::naked_asm!(
        ".seh_proc {this}",
        "sub rsp, 56",
        ".seh_stackalloc 56",
        ".seh_endprologue",
        "mov rax, qword ptr [rsp + 96]",
        "mov qword ptr [rsp + 32], rax",
        "mov rax, qword ptr [rsp + 104]",
        "mov qword ptr [rsp + 40], rax",
        "mov rax, qword ptr [rsp + 56]",
        "mov qword ptr [rsp + 48], rax",
        "call {inner}",
        "add rsp, 56",
        "ret",
        ".seh_endproc",
        this = sym filter,
        inner = sym filter_called_from
    )
}
