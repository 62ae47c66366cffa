//! What the program asks of Windows. HDF5's names there are UTF-8.

use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata};
use std::io::Result;
use std::path::{Path, PathBuf};

/// File name of the plugin.
pub(crate) const LIBRARY_NAME: &str = "h5zquire.dll";

/// The bytes of a name or a path as the system's text; those that are no text name no file.
pub(crate) fn os_str(bytes: &[u8]) -> &OsStr {
    OsStr::new(std::str::from_utf8(bytes).unwrap_or_default())
}

/// Windows has disks under other names than files'.
pub(crate) fn is_block_device(_: FileType) -> bool {
    false
}

/// What two paths of the same file have in common. Two names of one file, which `mklink /H` makes, are two files here.
pub(crate) fn identity(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Whether an open file has no name any more: nobody can take an open file's name.
pub(crate) fn is_removed(_: &File) -> bool {
    false
}

/// Opens a file whose contents are to reach the disk: that takes the right to write.
pub(crate) fn open_for_sync(path: &Path) -> Result<File> {
    File::options().write(true).open(path)
}

/// A new file has the permissions of its folder.
pub(crate) fn take_permissions(_: &File, _: &Metadata) -> Result<()> {
    Ok(())
}
