//! What differs between Linux and macOS, on macOS.

use std::ffi::{CStr, c_char, c_int, c_void};

use quire_codec::memory;

use super::Object;

/// Keeps the library with this address loaded: one hold on it is never given back.
pub(super) fn stay_loaded(address: *const c_void) {
    std::mem::forget(Object::containing(address));
}

// SAFETY: their signatures in <mach-o/dyld.h>.
unsafe extern "C" {
    fn _dyld_image_count() -> u32;
    fn _dyld_get_image_name(number: u32) -> *const c_char;
}

/// Names of the objects that the process has loaded, except for the program itself, each with the 0 at its end. `None` without memory for them.
pub(super) fn loaded_objects() -> Option<Vec<Vec<u8>>> {
    const PROGRAM: u32 = 0;
    let mut names = Vec::new();
    // SAFETY: takes nothing.
    for number in PROGRAM + 1..unsafe { _dyld_image_count() } {
        // SAFETY: null for a number that is no object's any more.
        let name = unsafe { _dyld_get_image_name(number) };
        if !name.is_null() {
            let mut copy = Vec::new();
            // SAFETY: the name ends in 0; another thread would have to unload the object at this moment.
            memory::extend(&mut copy, unsafe { CStr::from_ptr(name) }.to_bytes_with_nul()).ok()?;
            memory::push(&mut names, copy).ok()?;
        }
    }
    Some(names)
}

/// Whether the process can read the byte at an address.
pub(crate) fn is_readable(address: u64) -> bool {
    // The kernel reads the four bytes of a set of signals, and then finds that there is no such operation: EINVAL, or EFAULT if it cannot read them.
    const NO_OPERATION: c_int = -1;
    let set = (address & !3) as *const libc::sigset_t;
    // SAFETY: changes nothing, as the operation is none; any address can be asked about.
    let returned = unsafe { libc::sigprocmask(NO_OPERATION, set, std::ptr::null_mut()) };
    returned != -1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}
