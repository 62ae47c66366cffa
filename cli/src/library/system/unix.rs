//! What the program asks of Linux and macOS.

use std::ffi::{CStr, OsStr};
use std::fs::{File, FileType, Metadata, Permissions};
use std::io::Result;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// File name of the plugin.
pub(crate) const LIBRARY_NAME: &str = if cfg!(target_os = "macos") { "libh5zquire.dylib" } else { "libh5zquire.so" };

/// The bytes of a name or a path as the system's text.
pub(crate) fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Whether a file is a disk or a part of one.
pub(crate) fn is_block_device(kind: FileType) -> bool {
    kind.is_block_device()
}

/// What two paths of the same file have in common.
pub(crate) fn identity(path: &Path) -> Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Whether an open file has no name any more.
pub(crate) fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.nlink() == 0)
}

/// Opens a file whose contents are to reach the disk.
pub(crate) fn open_for_sync(path: &Path) -> Result<File> {
    File::open(path)
}

/// Gives a file the permissions of the one that it replaces, but none for a group that is another one.
pub(crate) fn take_permissions(file: &File, replaced: &Metadata) -> Result<()> {
    let is_same_group = file.metadata().is_ok_and(|file| file.gid() == replaced.gid());
    let mode = replaced.mode() & if is_same_group { 0o777 } else { 0o707 };
    file.set_permissions(Permissions::from_mode(mode))
}

/// The paths of the libraries that the process has loaded.
#[cfg(target_os = "linux")]
pub(super) fn loaded_objects() -> Vec<PathBuf> {
    use nix::libc::{c_int, c_void, dl_iterate_phdr, dl_phdr_info};
    unsafe extern "C" fn collect(info: *mut dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
        // SAFETY: the system passes an `info` with a text that ends with a zero byte, and the pointer below, to a list that nobody else uses meanwhile.
        let (name, paths) = unsafe { (CStr::from_ptr((*info).dlpi_name), &mut *paths.cast::<Vec<PathBuf>>()) };
        paths.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
        0
    }
    let mut paths = Vec::new();
    // SAFETY: `collect` has the signature that is expected, and gets the list that it expects.
    unsafe { dl_iterate_phdr(Some(collect), (&raw mut paths).cast()) };
    paths
}

/// The paths of the libraries that the process has loaded.
#[cfg(target_os = "macos")]
pub(super) fn loaded_objects() -> Vec<PathBuf> {
    // SAFETY: their signatures in <mach-o/dyld.h>.
    unsafe extern "C" {
        fn _dyld_image_count() -> u32;
        fn _dyld_get_image_name(number: u32) -> *const std::ffi::c_char;
    }
    // SAFETY: takes nothing.
    let count = unsafe { _dyld_image_count() };
    // SAFETY: null for a number that no library has any more.
    let names = (0..count).map(|number| unsafe { _dyld_get_image_name(number) }).filter(|name| !name.is_null());
    // SAFETY: the text ends with a zero byte, and this program unloads no library.
    names.map(|name| PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))).collect()
}
