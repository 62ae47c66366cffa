//! Work in a process of its own. A damaged file can make HDF5 crash; the process that waits outlives that, can say what happened, and can tidy up.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::names::Name;

/// How work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an exit code.
    Code(u8),
    /// By a signal.
    Signal(i32),
}

/// Longest name that is noted, in bytes: that of a file and that of a dataset in it.
const NOTE_BYTES: usize = 8192;

/// The name of what is being read, in memory that both processes see.
struct Note {
    length: AtomicUsize,
    bytes: [AtomicU8; NOTE_BYTES],
}

static NOTE: OnceLock<&Note> = OnceLock::new();

/// Notes what is read from now on, for the case that this process dies of it.
pub(crate) fn note_reading(name: &Name) {
    let Some(note) = NOTE.get() else { return };
    let bytes = name.as_bytes();
    note.length.store(bytes.len().min(NOTE_BYTES), Ordering::Relaxed);
    for (to, &from) in note.bytes.iter().zip(bytes) {
        to.store(from, Ordering::Relaxed);
    }
}

/// What was noted last.
pub(crate) fn noted() -> Option<Name> {
    let note = NOTE.get()?;
    let bytes = &note.bytes[..note.length.load(Ordering::Relaxed).min(NOTE_BYTES)];
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    (!bytes.is_empty()).then(|| Name::new(bytes))
}

/// Makes room for a note that both processes see; without it the name is not known after a crash.
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

/// Signals by which users, shells and the system ask a program to end. Whoever waits for work hands them on to it.
const REQUESTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Does work in a child of this process, which must have one thread. The child goes if this process goes. Where the system has no room for another process, this one does the
/// work.
pub(crate) fn in_child(work: impl FnOnce() -> u8) -> End {
    share_note();
    // SAFETY: the set is initialised before it is read. There is one thread, so that the child may do whatever it could have done without being one.
    unsafe {
        // Whoever started this program may have told the system to forget children that end.
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
                // The hook of panics has said what was wrong.
                let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(FAILURE);
                let flushed = std::io::stdout().flush();
                // HDF5 would close what is still open, of a damaged file perhaps, when all is done and said.
                libc::_exit(if flushed.is_ok() { code } else { FAILURE }.into())
            }
            child => wait(child, &awaited),
        }
    }
}

/// Exit code of work that could not end in order.
const FAILURE: u8 = 1;

/// Waits for a child, and hands on the signals that ask for an end.
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

/// Ends this process by a signal that has ended its work, if the signal is one by which programs are asked to end: whoever started it learns the reason as if there had been one
/// process.
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

/// Lets the program end without a word where whoever reads its output has had enough, as other tools do; Rust makes a panic of it.
pub(crate) fn end_with_a_closed_pipe() {
    // SAFETY: this is the system's own way to end a process, and nothing else runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// A signal by name, if it is one by which programs that did something wrong are ended.
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
