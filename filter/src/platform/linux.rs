//! What differs between Linux and macOS, on Linux.

use std::ffi::{CStr, c_int, c_void};

use quire_codec::memory;

/// The linker has marked the library as one that is never unloaded (see build.rs).
pub(super) fn stay_loaded(_address: *const c_void) {}

/// Names of the objects that the process has loaded, except for the program itself, each with the 0 at its end. `None` without memory for them.
pub(super) fn loaded_objects() -> Option<Vec<Vec<u8>>> {
    /// Takes note of a name; the walk ends with the first for which there is no memory.
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, names: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid `info`, and our own pointer to a vector that nobody else uses meanwhile.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<Vec<u8>>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the name ends in 0 and lives as long as this call.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            if !name.is_empty() {
                let mut copy = Vec::new();
                let noted = memory::extend(&mut copy, name.to_bytes_with_nul()).and_then(|()| memory::push(names, copy));
                return c_int::from(noted.is_err());
            }
        }
        0
    }
    // The objects are opened after the walk: during it the loader's lock is held.
    let mut names = Vec::new();
    // SAFETY: `collect` has the signature that is expected and gets the vector it expects.
    let ended = unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    (ended == 0).then_some(names)
}

/// Whether the process can read the byte at an address.
pub(crate) fn is_readable(address: u64) -> bool {
    // The kernel reads the eight bytes of a set of signals, and then finds that there is no such operation: EINVAL, or EFAULT if it cannot read them.
    const NO_OPERATION: c_int = -1;
    let no_set: *const c_void = std::ptr::null();
    // SAFETY: changes nothing, as the operation is none; any address can be asked about.
    let returned = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_OPERATION, address & !7, no_set, 8usize) };
    returned != -1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}
