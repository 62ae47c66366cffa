//! Runs work in a child process. A damaged file can crash HDF5. The parent process then says so, and removes unfinished files.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use nix::libc::_exit;
pub(crate) use nix::sys::signal::Signal;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, kill, raise, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};

use crate::names::Name;

/// How the child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an exit code.
    Code(u8),
    /// By a signal.
    Signal(Signal),
}

/// The name of the file or dataset being read, in memory that parent and child share as a file. Without it, the message after a crash has no name.
static NOTE: OnceLock<File> = OnceLock::new();

/// Notes the file or dataset being read, so that the parent can name it if this process crashes.
pub(crate) fn note_reading(name: &Name) {
    if let Some(note) = NOTE.get() {
        let _ = note.set_len(0).and_then(|()| note.write_all_at(name.as_bytes(), 0));
    }
}

/// The name that was noted last.
pub(crate) fn noted() -> Option<Name> {
    let (mut note, mut bytes) = (NOTE.get()?, Vec::new());
    note.read_to_end(&mut bytes).ok()?;
    (!bytes.is_empty()).then(|| Name::new(bytes))
}

/// Signals by which users, shells and the system ask a program to end. The parent passes them on to the child. The child has the actions that the program was
/// started with. So a signal that the program's caller ignores ends neither: `nohup quire` outlives its terminal, and a script's `quire &` outlives an
/// interrupt.
const REQUESTS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Exit code of a child process that panicked, lost its parent or could not write its output.
const FAILURE: u8 = 1;

/// Runs work in a child process. This process must have one thread. The child ends when this process ends. If the system cannot fork, the work runs in this
/// process.
pub(crate) fn in_child(work: impl FnOnce() -> u8) -> End {
    if let Some(note) = new_note() {
        let _ = NOTE.set(note);
    }
    // The program's caller may have set SIGCHLD to be ignored, and the child's exit code would be lost.
    set_default(Signal::SIGCHLD);
    let awaited: SigSet = REQUESTS.into_iter().chain([Signal::SIGCHLD]).collect();
    // Blocked, signals wait until `SigSet::wait` takes them.
    let before = awaited.thread_swap_mask(SigmaskHow::SIG_BLOCK).unwrap_or(SigSet::empty());
    let parent = getpid();
    // SAFETY: there is one thread, so that the child may do whatever it could have done without being one.
    let forked = unsafe { fork() };
    if let Ok(ForkResult::Parent { child }) = forked {
        return wait(child, &awaited);
    }
    let _ = before.thread_set_mask();
    if forked.is_err() {
        return End::Code(work());
    }
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let code = if getppid() == parent {
        // The panic hook has already printed the message.
        let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(FAILURE);
        if std::io::stdout().flush().is_ok() { code } else { FAILURE }
    } else {
        FAILURE
    };
    // SAFETY: this ends the process. HDF5's cleanup is left out: closing the objects of a damaged file could crash after all output is printed.
    unsafe { _exit(code.into()) }
}

/// A file that has no name.
#[cfg(target_os = "linux")]
fn new_note() -> Option<File> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    memfd_create("note", MFdFlags::MFD_CLOEXEC).ok().map(File::from)
}

/// A file that has no name.
#[cfg(not(target_os = "linux"))]
fn new_note() -> Option<File> {
    tempfile::tempfile().ok()
}

/// Waits for the child, and passes on the signals that ask for an end.
fn wait(child: Pid, awaited: &SigSet) -> End {
    loop {
        match awaited.wait() {
            Ok(Signal::SIGCHLD) => {}
            // The child has not been waited for, so that its number is not given to another process.
            Ok(request) => _ = kill(child, request),
            Err(_) => continue,
        }
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return End::Code(u8::try_from(code).unwrap_or(FAILURE)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return End::Signal(signal),
            Ok(_) => {}
            Err(_) => return End::Code(FAILURE),
        }
    }
}

/// Gives a signal its default action.
fn set_default(which: Signal) {
    // SAFETY: a signal with its default action is no call into this program.
    let _ = unsafe { signal(which, SigHandler::SigDfl) };
}

/// Ends this process by the signal that ended the child, if it is one of the signals that ask for an end. The caller then sees that signal, as if there were
/// one process.
pub(crate) fn end_as_asked(signal: Signal) {
    if REQUESTS.contains(&signal) || signal == Signal::SIGPIPE {
        set_default(signal);
        let _ = SigSet::from(signal).thread_unblock();
        let _ = raise(signal);
    }
}

/// Lets the program end silently when the reader of its output closes the pipe, as other tools do; by default Rust panics then. It does so as well where its
/// caller ignores the signal: Rust has replaced what the caller had set.
pub(crate) fn end_with_a_closed_pipe() {
    set_default(Signal::SIGPIPE);
}

/// Whether a signal is one that a crash raises.
pub(crate) fn is_crash(signal: Signal) -> bool {
    matches!(signal, Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGABRT | Signal::SIGFPE | Signal::SIGILL)
}

/// A signal for a message: its number, and its name where it is a crash's.
pub(crate) fn describe(signal: Signal) -> String {
    let number = signal as i32;
    if is_crash(signal) { format!("signal {number}, {signal}") } else { format!("signal {number}") }
}
