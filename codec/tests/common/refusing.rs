//! An allocator that refuses one call, or that call and others behind it: of the calling thread, or of the process.
//!
//! `QUIRE_TRACE_REFUSALS=1` prints a backtrace at each refusal: the last one before an abort shows who cannot take it.

#![allow(dead_code, reason = "not every test that includes this file needs all of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// How many calls are refused from the chosen one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// That call alone.
    One,
    /// That call and all behind it.
    AllBehind,
}

/// Most bytes that no call of all threads is refused. Those who start threads and open GPUs ask for so few bytes, and end the process where these are refused.
const FEW: usize = 8 << 10;

thread_local! {
    // Values without a destructor and without an initializer: an access allocates nothing.
    /// Calls until the refusal, or `None` while nothing is refused.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    static REFUSALS: Cell<Refusals> = const { Cell::new(Refusals::One) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
    /// Whether the thread's calls are neither refused nor counted.
    static SPARED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calls of all threads are counted.
static EVERYWHERE: AtomicBool = AtomicBool::new(false);
/// Calls for more than [`FEW`] bytes so far, of all threads.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The first and the last of them that are refused.
static FIRST: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// Bytes that are allocated and not freed, of the whole process.
static LIVE: AtomicI64 = AtomicI64::new(0);

static TRACE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("QUIRE_TRACE_REFUSALS").is_some());

/// Runs `body` with call number `call` of this thread, from 0 on, refused. Returns its result and how many calls were refused.
pub(crate) fn refuse<R>(call: u64, refusals: Refusals, body: impl FnOnce() -> R) -> (R, u64) {
    let _ = *TRACE;
    REFUSED.set(0);
    REFUSALS.set(refusals);
    LEFT.set(Some(call));
    let result = body();
    LEFT.set(None);
    (result, REFUSED.get())
}

/// Runs `body` with one of this process's calls for more than [`FEW`] bytes refused: number `call` of these, from 0 on. Returns its result and how many of these
/// calls there were. One at a time; other threads of the process get refusals, too.
pub(crate) fn refuse_everywhere<R>(call: u64, refusals: Refusals, body: impl FnOnce() -> R) -> (R, u64) {
    let _ = *TRACE;
    CALLS.store(0, Ordering::SeqCst);
    FIRST.store(call, Ordering::SeqCst);
    LAST.store(if refusals == Refusals::One { call } else { u64::MAX }, Ordering::SeqCst);
    EVERYWHERE.store(true, Ordering::SeqCst);
    let result = body();
    EVERYWHERE.store(false, Ordering::SeqCst);
    (result, CALLS.load(Ordering::SeqCst))
}

/// Bytes that are allocated and not freed, of the whole process.
pub(crate) fn live_bytes() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Takes note that an allocation of `before` bytes has `after` bytes now, unless it failed.
fn note(address: *mut u8, before: usize, after: usize) -> *mut u8 {
    if !address.is_null() {
        LIVE.fetch_add(after as i64 - before as i64, Ordering::Relaxed);
    }
    address
}

/// Runs what belongs to the test itself: nothing is refused meanwhile in this thread, and nothing counted.
pub(crate) fn spare<R>(body: impl FnOnce() -> R) -> R {
    let before = SPARED.replace(true);
    let result = body();
    SPARED.set(before);
    result
}

/// Whether this call is refused.
fn is_refused(layout: Layout) -> bool {
    if SPARED.get() || !(is_refused_everywhere(layout) || is_refused_here()) {
        return false;
    }
    if *TRACE {
        spare(|| eprintln!("refused {} bytes\n{}", layout.size(), std::backtrace::Backtrace::force_capture()));
    }
    true
}

fn is_refused_everywhere(layout: Layout) -> bool {
    EVERYWHERE.load(Ordering::Relaxed) && layout.size() > FEW && {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        (FIRST.load(Ordering::Relaxed)..=LAST.load(Ordering::Relaxed)).contains(&call)
    }
}

fn is_refused_here() -> bool {
    match LEFT.get() {
        None => return false,
        Some(0) => {}
        Some(left) => {
            LEFT.set(Some(left - 1));
            return false;
        }
    }
    REFUSED.set(REFUSED.get() + 1);
    LEFT.set(if REFUSALS.get() == Refusals::AllBehind { Some(0) } else { None });
    true
}

/// The system's allocator with refusals.
pub(crate) struct Refusing;

// SAFETY: every call goes to `System`, or returns null as an allocator may; `is_refused` allocates nothing that is counted.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout) { null_mut() } else { note(unsafe { System.alloc(layout) }, 0, layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout) { null_mut() } else { note(unsafe { System.alloc_zeroed(layout) }, 0, layout.size()) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout) { null_mut() } else { note(unsafe { System.realloc(address, layout, len) }, layout.size(), len) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        note(address, layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}
