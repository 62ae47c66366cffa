//! Runs work in a child process. A damaged file can crash HDF5. The parent process then says so, and removes unfinished files.
//!
//! Windows cannot fork: the child is this program anew, with the same arguments.

use std::env::{args_os, current_exe, var_os};
use std::fs::File;
use std::io::Write as _;
use std::os::windows::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::NamedTempFile;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

use crate::names::Name;

/// The status of a process that an exception ended, such as 0xc0000005 for a wrong address.
pub(crate) type Signal = u32;

/// How the child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an exit code.
    Code(u8),
    /// By an exception.
    Signal(Signal),
}

/// The environment variable by which the child knows that it is one: the path of the file in which it notes what it reads.
const NOTE_PATH: &str = "H5Z_QUIRE_NOTE";
/// The child's file.
static NOTE: OnceLock<File> = OnceLock::new();
/// What the parent has found in the file. Without it, the message after a crash has no name.
static NOTED: OnceLock<Vec<u8>> = OnceLock::new();

/// Notes the file or dataset being read, so that the parent can name it if this process crashes.
pub(crate) fn note_reading(name: &Name) {
    if let Some(note) = NOTE.get() {
        let _ = note.set_len(0).and_then(|()| note.seek_write(name.as_bytes(), 0));
    }
}

/// The name that was noted last.
pub(crate) fn noted() -> Option<Name> {
    NOTED.get().filter(|bytes| !bytes.is_empty()).map(|bytes| Name::new(bytes.clone()))
}

/// Exit code of a child process that panicked or could not write its output.
const FAILURE: u8 = 1;
/// The lowest status of an exception.
const FIRST_EXCEPTION: u32 = 0xc000_0000;

/// Runs work in a child process. If the system cannot start one, the work runs in this process.
pub(crate) fn in_child(work: impl FnOnce() -> u8) -> End {
    if let Some(note) = var_os(NOTE_PATH) {
        work_as_child(Path::new(&note), work);
    }
    let run = || -> std::io::Result<_> {
        let note = NamedTempFile::new()?;
        let status = Command::new(current_exe()?).args(args_os().skip(1)).env(NOTE_PATH, note.path()).status()?;
        let _ = NOTED.set(std::fs::read(note.path()).unwrap_or_default());
        Ok(status.code().unwrap_or(FAILURE.into()) as u32)
    };
    match run() {
        Err(_) => End::Code(work()),
        Ok(status) if status >= FIRST_EXCEPTION => End::Signal(status),
        Ok(code) => End::Code(u8::try_from(code).unwrap_or(FAILURE)),
    }
}

/// Does the work and ends the process.
fn work_as_child(note: &Path, work: impl FnOnce() -> u8) -> ! {
    if let Ok(note) = File::options().write(true).open(note) {
        let _ = NOTE.set(note);
    }
    // The panic hook has already printed the message.
    let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(FAILURE);
    let code = if std::io::stdout().flush().is_ok() { code } else { FAILURE };
    // SAFETY: this ends the process. HDF5's cleanup is left out: closing the objects of a damaged file could crash after all output is printed.
    unsafe { TerminateProcess(GetCurrentProcess(), code.into()) };
    std::process::exit(code.into())
}

/// The parent ends with an error: there is no signal to end by.
pub(crate) fn end_as_asked(_: Signal) {}

/// Windows has no such signal.
pub(crate) fn end_with_a_closed_pipe() {}

/// Whether an exception is one that a crash raises: all are.
pub(crate) fn is_crash(_: Signal) -> bool {
    true
}

/// An exception for a message.
pub(crate) fn describe(signal: Signal) -> String {
    format!("status {signal:#x}")
}
