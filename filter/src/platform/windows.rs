//! What the plugin asks of Windows. Other than on Unix, a lack of memory may end the process where std allocates: texts of errors and environment variables.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::windows::fs::FileExt as _;
use std::ptr::null_mut;

use quire_codec::{Error, Result};
use windows_sys::Win32::Foundation::{FreeLibrary, HMODULE};
use windows_sys::Win32::System::LibraryLoader::{GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GetModuleHandleExA, GetProcAddress};
use windows_sys::Win32::System::Memory::{MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_GUARD, PAGE_NOACCESS, VirtualQuery};
use windows_sys::Win32::System::ProcessStatus::K32EnumProcessModules;
use windows_sys::Win32::System::Threading::{FLS_OUT_OF_INDEXES, FlsAlloc, FlsGetValue, FlsSetValue, GetCurrentProcess};

use crate::h5api::Library;

/// A library or a program that the process has loaded, held open as long as this value lives.
pub(crate) struct Object {
    module: HMODULE,
}

impl Object {
    /// The object whose code or data contain an address.
    pub(crate) fn containing(address: *const c_void) -> Option<Self> {
        Self::take(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, address)
    }

    /// Windows has no global scope.
    pub(crate) fn global_scope() -> Option<Self> {
        None
    }

    /// All objects. `None` where the system does not tell.
    pub(crate) fn all() -> Option<impl Iterator<Item = Self>> {
        let (mut modules, mut bytes) = ([null_mut(); 1024], 0);
        // SAFETY: the room is as long as announced; the handle of the process itself need not be closed.
        let told =
            unsafe { K32EnumProcessModules(GetCurrentProcess(), modules.as_mut_ptr(), size_of_val(&modules) as u32, &mut bytes) };
        // A module's handle is the address of its first byte. Modules beyond the room are passed over.
        let count = bytes as usize / size_of::<HMODULE>();
        (told != 0).then(|| modules.into_iter().take(count).filter_map(|module| Self::containing(module)))
    }

    /// The object of a name.
    pub(crate) fn loaded(name: &CStr) -> Option<Self> {
        Self::take(0, name.as_ptr().cast())
    }

    fn take(flags: u32, name_or_address: *const c_void) -> Option<Self> {
        let mut module = null_mut();
        // SAFETY: a name ends in 0; an address is only compared with the bounds of the modules.
        let found = unsafe { GetModuleHandleExA(flags, name_or_address.cast(), &mut module) };
        (found != 0).then_some(Self { module })
    }

    /// A function or a variable of the object.
    pub(crate) fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the module is loaded, and the name ends in 0.
        unsafe { GetProcAddress(self.module, name.as_ptr().cast()) }.map(|function| function as *mut c_void)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the hold is this value's own. The object stays loaded: others have it open.
        unsafe { FreeLibrary(self.module) };
    }
}

/// The memory that HDF5 and the filter allocate and free in turns. A process may have several C libraries, each with a malloc of its own: so HDF5's own
/// functions do it.
#[derive(Clone, Copy)]
pub(crate) struct Heap {
    resize: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Heap {
    /// That of the library that has called the filter.
    ///
    /// # Errors
    /// `InvalidArgument` where the library is not found.
    pub(crate) fn of_caller(return_address: *const c_void) -> Result<Self> {
        if cfg!(test) {
            // Unit tests call the filter without HDF5.
            return Ok(Self { resize: libc::realloc, free: libc::free });
        }
        let library = Library::of_caller(return_address).map_err(|error| {
            error.reworded(|_| {
                Error::invalid(
                    "the HDF5 that called the filter is not a DLL, and its memory is out of reach: use an HDF5 that is a DLL",
                )
            })
        })?;
        // SAFETY: these are their signatures in every HDF5 since 1.8.15; nobody asks what H5free_memory returns.
        unsafe { Ok(Self { resize: library.function(c"H5resize_memory")?, free: library.function(c"H5free_memory")? }) }
    }

    /// Bytes that are 0, or null.
    pub(crate) fn allocate_zeroed(self, length: usize) -> *mut c_void {
        // SAFETY: null stands for no memory yet.
        let address = unsafe { (self.resize)(null_mut(), length) };
        if !address.is_null() {
            // SAFETY: it has so many bytes.
            unsafe { address.cast::<u8>().write_bytes(0, length) };
        }
        address
    }

    /// The bytes at their new address, or null, and they are as they were.
    ///
    /// # Safety
    /// `address` is of this memory, and is not used again unless this returns null.
    pub(crate) unsafe fn resize(self, address: *mut c_void, length: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { (self.resize)(address, length) }
    }

    /// # Safety
    /// `address` is of this memory, and is not used again.
    pub(crate) unsafe fn free(self, address: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { (self.free)(address) };
    }
}

/// A pointer for each thread.
#[derive(Clone, Copy)]
pub(crate) struct ThreadKey(u32);

impl ThreadKey {
    /// A key for pointers from boxes of `T`, which are freed when their thread ends. `None` where the process has no more keys.
    pub(crate) fn for_boxes<T>() -> Option<Self> {
        unsafe extern "system" fn free<T>(address: *const c_void) {
            if !address.is_null() {
                // SAFETY: from a box, and the thread's alone, which ends.
                drop(unsafe { Box::from_raw(address.cast_mut().cast::<T>()) });
            }
        }
        // `free` is code of this library, which must stay loaded: one hold on it is never given back.
        std::mem::forget(Object::containing(free::<T> as *const c_void));
        // SAFETY: `free` is what a value of this key needs when its thread ends.
        let key = unsafe { FlsAlloc(Some(free::<T>)) };
        (key != FLS_OUT_OF_INDEXES).then_some(Self(key))
    }

    /// The calling thread's pointer; null at first.
    pub(crate) fn get(self) -> *mut c_void {
        // SAFETY: the key is valid.
        unsafe { FlsGetValue(self.0) }
    }

    /// Sets the calling thread's pointer. False without room to note it. To set null in place of another value takes no memory, and does not fail.
    ///
    /// # Safety
    /// `address` is null or from a box of the key's type, which nobody else frees while it is set.
    pub(crate) unsafe fn set(self, address: *const c_void) -> bool {
        // SAFETY: the key is valid; the caller vouches for the address.
        unsafe { FlsSetValue(self.0, address) != 0 }
    }
}

/// Hands the value of an environment variable to `read`. Not by the C library, which has a copy of the environment of its own.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(Option<&CStr>) -> R) -> R {
    let value = name.to_str().ok().and_then(std::env::var_os);
    read(value.and_then(|value| CString::new(value.into_encoded_bytes()).ok()).as_deref())
}

/// Opens a file for reading.
pub(crate) fn open(path: &CStr) -> io::Result<File> {
    File::open(path.to_str().map_err(|_| io::ErrorKind::InvalidInput)?)
}

/// There is no file of our own for a descriptor of HDF5: descriptors are numbers of a C library, and HDF5's may be another one than ours.
pub(crate) fn duplicate(_descriptor: c_int) -> io::Result<Option<File>> {
    Ok(None)
}

/// Reads bytes at a place of a file, on any thread.
pub(crate) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let length = file.seek_read(bytes, at)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (bytes, at) = (&mut bytes[length..], at + length as u64);
    }
    Ok(())
}

/// Whether the process can read the byte at an address.
pub(crate) fn is_readable(address: u64) -> bool {
    let mut pages = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: any address can be asked about, and the room is as long as announced.
    let told = unsafe { VirtualQuery(address as *const c_void, &mut pages, size_of_val(&pages)) };
    told != 0 && pages.State == MEM_COMMIT && pages.Protect & (PAGE_NOACCESS | PAGE_GUARD) == 0
}

/// Writes to stderr. Where stderr is closed, or takes only a part, there is nobody to tell.
pub(crate) fn write_to_stderr(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// Writes what the system says of an error number.
pub(crate) fn describe_error(number: i32, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    fmt::Display::fmt(&io::Error::from_raw_os_error(number), formatter)
}
