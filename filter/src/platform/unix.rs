//! What the plugin asks of Linux and macOS.

#[cfg_attr(target_os = "macos", path = "macos.rs")]
#[cfg_attr(not(target_os = "macos"), path = "linux.rs")]
mod kernel;

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use quire_codec::Result;

pub(crate) use self::kernel::is_readable;

/// A library or a program that the process has loaded, held open as long as this value lives.
pub(crate) struct Object {
    handle: *mut c_void,
}

impl Object {
    /// The object whose code or data contain an address.
    pub(crate) fn containing(address: *const c_void) -> Option<Self> {
        // SAFETY: `Dl_info` is four pointers, for which zero is a value.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr only compares the address, which may be anything, with the bounds of the loaded objects.
        let found = unsafe { libc::dladdr(address, &mut info) };
        if found == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the name belongs to an object that stays loaded, as it is waiting for us to return.
        Self::loaded(unsafe { CStr::from_ptr(info.dli_fname) })
    }

    /// The global scope: what the program is linked with.
    pub(crate) fn global_scope() -> Option<Self> {
        Some(Self { handle: libc::RTLD_DEFAULT })
    }

    /// All objects but the program itself. `None` without memory for their names.
    pub(crate) fn all() -> Option<impl Iterator<Item = Self>> {
        let names = kernel::loaded_objects()?.into_iter();
        Some(names.filter_map(|name| Self::loaded(CStr::from_bytes_with_nul(&name).ok()?)))
    }

    /// The object of a name.
    pub(crate) fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD loads nothing, so that no initializer runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle })
    }

    /// A function or a variable of the object, or of one that it depends on.
    pub(crate) fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, or RTLD_DEFAULT.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.handle != libc::RTLD_DEFAULT {
            // SAFETY: the handle came from dlopen and is not used again. The object stays loaded: others have it open.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}

/// The memory that HDF5 and the filter allocate and free in turns: malloc's, of which a process has one.
#[derive(Clone, Copy)]
pub(crate) struct Heap;

impl Heap {
    /// That of the library that has called the filter.
    pub(crate) fn of_caller(_return_address: *const c_void) -> Result<Self> {
        Ok(Self)
    }

    /// Bytes that are 0, or null. Longer ones than a page or so are zeroed by the system alone.
    pub(crate) fn allocate_zeroed(self, length: usize) -> *mut c_void {
        // SAFETY: calloc takes any length.
        unsafe { libc::calloc(length, 1) }
    }

    /// The bytes at their new address, or null, and they are as they were.
    ///
    /// # Safety
    /// `address` is of this memory, and is not used again unless this returns null.
    pub(crate) unsafe fn resize(self, address: *mut c_void, length: usize) -> *mut c_void {
        // SAFETY: the caller's promise.
        unsafe { libc::realloc(address, length) }
    }

    /// # Safety
    /// `address` is of this memory, and is not used again.
    pub(crate) unsafe fn free(self, address: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(address) };
    }
}

/// A pointer for each thread, by a POSIX key, which fails with an error number. `thread_local!` ends the process without memory: glibc allocates for a
/// destructor, and for the values of a library that was loaded late at a thread's first access.
#[derive(Clone, Copy)]
pub(crate) struct ThreadKey(libc::pthread_key_t);

impl ThreadKey {
    /// A key for pointers from boxes of `T`, which are freed when their thread ends. `None` where the process has no more keys.
    pub(crate) fn for_boxes<T>() -> Option<Self> {
        extern "C" fn free<T>(address: *mut c_void) {
            // SAFETY: from a box, and the thread's alone, which ends.
            drop(unsafe { Box::from_raw(address.cast::<T>()) });
        }
        kernel::stay_loaded(free::<T> as *const c_void);
        let mut key = 0;
        // SAFETY: writes a number; `free` is what a value of this key needs when its thread ends, and stays loaded.
        (unsafe { libc::pthread_key_create(&mut key, Some(free::<T>)) } == 0).then_some(Self(key))
    }

    /// The calling thread's pointer; null at first.
    pub(crate) fn get(self) -> *mut c_void {
        // SAFETY: the key is valid.
        unsafe { libc::pthread_getspecific(self.0) }
    }

    /// Sets the calling thread's pointer. False without room to note it. To set null in place of another value takes no memory, and does not fail.
    ///
    /// # Safety
    /// `address` is null or from a box of the key's type, which nobody else frees while it is set.
    pub(crate) unsafe fn set(self, address: *const c_void) -> bool {
        // SAFETY: the key is valid; the caller vouches for the address.
        unsafe { libc::pthread_setspecific(self.0, address) == 0 }
    }
}

/// Hands the value of an environment variable to `read`.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(Option<&CStr>) -> R) -> R {
    // SAFETY: the name ends in 0. Where another thread changes the environment meanwhile, this is the race that every C library has that reads it: std's lock
    // is for changes by this library, which makes none.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value ends in 0, and is read before this returns.
    read((!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }))
}

/// Opens a file for reading. Not `File::open`, which copies long paths.
pub(crate) fn open(path: &CStr) -> io::Result<File> {
    // SAFETY: the path ends in 0.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// A file of our own for a descriptor of HDF5.
pub(crate) fn duplicate(descriptor: c_int) -> io::Result<Option<File>> {
    // SAFETY: takes numbers.
    let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) };
    if own < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    Ok(Some(File::from(unsafe { OwnedFd::from_raw_fd(own) })))
}

/// Reads bytes at a place of a file, on any thread.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(bytes, at)
}

/// Writes to stderr, in one piece. Where stderr is closed, or takes only a part, there is nobody to tell.
pub(crate) fn write_to_stderr(bytes: &[u8]) {
    // SAFETY: reads that many bytes.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

/// Writes what the system says of an error number.
pub(crate) fn describe_error(number: i32, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0u8; 256];
    // SAFETY: the room is as long as announced; the text written ends in 0.
    unsafe { libc::strerror_r(number, text.as_mut_ptr().cast(), text.len()) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_str().unwrap_or_default();
    write!(formatter, "{text} (os error {number})")
}
