//! What the program asks of Windows. HDF5's names there are UTF-8.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata};
use std::io::Result;
use std::os::windows::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use windows_sys::Win32::System::LibraryLoader::GetModuleFileNameW;
use windows_sys::Win32::System::ProcessStatus::K32EnumProcessModules;
use windows_sys::Win32::System::Threading::GetCurrentProcess;

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

/// The paths of the libraries that the process has loaded.
pub(super) fn loaded_objects() -> Vec<PathBuf> {
    let (mut modules, mut bytes) = ([null_mut(); 1024], 0);
    // SAFETY: the room is as long as announced; the handle of the process itself need not be closed.
    unsafe { K32EnumProcessModules(GetCurrentProcess(), modules.as_mut_ptr(), size_of_val(&modules) as u32, &mut bytes) };
    let path = |module| {
        let mut name = [0u16; 1024];
        // SAFETY: the room is as long as announced.
        let length = unsafe { GetModuleFileNameW(module, name.as_mut_ptr(), name.len() as u32) };
        PathBuf::from(OsString::from_wide(&name[..length as usize]))
    };
    modules.into_iter().take(bytes as usize / size_of_val(&modules[0])).map(path).collect()
}
