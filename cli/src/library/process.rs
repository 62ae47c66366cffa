//! Runs work in a child process. A damaged file can crash HDF5; the parent process survives, reports the crash, and removes unfinished files.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::names::Name;

/// How the child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an exit code.
    Code(u8),
    /// By a signal.
    Signal(i32),
}

/// Longest noted name in bytes: a file name plus a dataset's path in it.
const NOTE_BYTES: usize = 8192;

/// The name of the file or dataset being read, in memory that parent and child share.
struct Note {
    length: AtomicUsize,
    bytes: [AtomicU8; NOTE_BYTES],
}

static NOTE: OnceLock<&Note> = OnceLock::new();

/// Notes the file or dataset being read, so that the parent can name it if this process crashes.
pub(crate) fn note_reading(name: &Name) {
    let Some(note) = NOTE.get() else { return };
    let bytes = name.as_bytes();
    note.length.store(bytes.len().min(NOTE_BYTES), Ordering::Relaxed);
    for (to, &from) in note.bytes.iter().zip(bytes) {
        to.store(from, Ordering::Relaxed);
    }
}

/// The name that was noted last.
pub(crate) fn noted() -> Option<Name> {
    let note = NOTE.get()?;
    let bytes = &note.bytes[..note.length.load(Ordering::Relaxed).min(NOTE_BYTES)];
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    (!bytes.is_empty()).then(|| Name::new(bytes))
}

/// Allocates the shared memory for the name. If this fails, the message after a crash has no name.
fn share_note() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: this asks for new memory, filled with zeros, which is never given back.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Note>(), protection, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0) };
    if memory != libc::MAP_FAILED {
        // SAFETY: the memory is as large as a note, starts with a page, and zeros are a note; it is only used through atomics.
        let _ = NOTE.set(unsafe { &*memory.cast::<Note>() });
    }
}

/// Signals by which users, shells and the system ask a program to end. The parent passes them on to the child. The child has the actions that the program was
/// started with, so that a signal which its caller ignores ends neither: `nohup quire` outlives its terminal, and `quire &` in a script an interrupt of the script.
const REQUESTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Runs work in a child process. This process must have one thread. The child ends when this process ends. If the system cannot fork, the work runs in this
/// process.
pub(crate) fn in_child(work: impl FnOnce() -> u8) -> End {
    share_note();
    // SAFETY: the set is initialised before it is read. There is one thread, so that the child may do whatever it could have done without being one.
    unsafe {
        // The program's caller may have set SIGCHLD to be ignored, and the child's exit code would be lost.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let (mut awaited, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut awaited);
        REQUESTS.iter().chain(&[libc::SIGCHLD]).for_each(|&signal| {
            libc::sigaddset(&mut awaited, signal);
        });
        // Blocked, signals wait until `sigwaitinfo` takes them.
        libc::sigprocmask(libc::SIG_BLOCK, &awaited, &mut before);
        let parent = libc::getpid();
        let child = libc::fork();
        if child <= 0 {
            libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        match child {
            -1 => End::Code(work()),
            0 => {
                #[cfg(target_os = "linux")]
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(FAILURE.into());
                }
                // The panic hook has already printed the message.
                let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(FAILURE);
                let flushed = std::io::stdout().flush();
                // Exit without HDF5's cleanup: closing the objects of a damaged file could crash after all output is printed.
                libc::_exit(if flushed.is_ok() { code } else { FAILURE }.into())
            }
            child => wait(child, &awaited),
        }
    }
}

/// Exit code of a child process that panicked, lost its parent or could not write its output.
const FAILURE: u8 = 1;

/// Waits for the child, and passes on the signals that ask for an end.
fn wait(child: libc::pid_t, awaited: &libc::sigset_t) -> End {
    loop {
        let mut status = 0;
        // SAFETY: the set is initialised; `child` is a child of this process that has not been waited for, so that its number is not given to another one.
        unsafe {
            match libc::sigwaitinfo(awaited, std::ptr::null_mut()) {
                libc::SIGCHLD => {}
                signal if signal > 0 => {
                    libc::kill(child, signal);
                }
                _ => continue,
            }
            if libc::waitpid(child, &mut status, libc::WNOHANG) != child {
                continue;
            }
        }
        if libc::WIFSIGNALED(status) {
            return End::Signal(libc::WTERMSIG(status));
        }
        if libc::WIFEXITED(status) {
            return End::Code(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(FAILURE));
        }
    }
}

/// Ends this process by the signal that ended the child, if it is one of the signals that ask for an end. The caller then sees that signal, as if there were
/// one process.
pub(crate) fn end_as_asked(signal: i32) {
    if !REQUESTS.contains(&signal) && signal != libc::SIGPIPE {
        return;
    }
    // SAFETY: the set is initialised before it is read; a signal with its default action is no call into this program.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Lets the program end silently when the reader of its output closes the pipe, as other tools do; by default Rust panics then. It does so as well where its
/// caller ignores the signal: Rust has replaced what the caller had set.
pub(crate) fn end_with_a_closed_pipe() {
    // SAFETY: this is the system's own way to end a process, and nothing else runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The name of a signal, if it is one that a crash raises.
pub(crate) fn crash_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGABRT => "SIGABRT",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        _ => return None,
    })
}
