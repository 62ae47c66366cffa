//! What the program asks of Linux and macOS.

use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata, Permissions};
use std::io::Result;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

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
