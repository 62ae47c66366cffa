//! An allocator that refuses one call of the calling thread, or that call and all behind it.
//!
//! `QUIRE_TRACE_REFUSALS=1` prints a backtrace at each refusal: the last one before an abort shows who cannot take it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::LazyLock;

/// How many calls are refused from the chosen one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// That call alone.
    One,
    /// That call and all behind it.
    AllBehind,
}

thread_local! {
    // Values without a destructor and without an initializer: an access allocates nothing.
    /// Calls until the refusal, or `None` while nothing is refused.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    static REFUSALS: Cell<Refusals> = const { Cell::new(Refusals::One) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
}

static TRACE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("QUIRE_TRACE_REFUSALS").is_some());

/// Runs `body` with call number `call`, from 0 on, refused. Returns its result and how many calls were refused.
pub(crate) fn refuse<R>(call: u64, refusals: Refusals, body: impl FnOnce() -> R) -> (R, u64) {
    let _ = *TRACE;
    REFUSED.set(0);
    REFUSALS.set(refusals);
    LEFT.set(Some(call));
    let result = body();
    LEFT.set(None);
    (result, REFUSED.get())
}

/// Runs what belongs to the test itself: nothing is refused meanwhile, and nothing counted.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn spare<R>(body: impl FnOnce() -> R) -> R {
    let left = LEFT.take();
    let result = body();
    LEFT.set(left);
    result
}

/// Whether this call is refused.
fn is_refused(layout: Layout) -> bool {
    let refused = match LEFT.get() {
        None => return false,
        Some(0) => true,
        Some(left) => {
            LEFT.set(Some(left - 1));
            false
        }
    };
    if refused {
        REFUSED.set(REFUSED.get() + 1);
        LEFT.set(None);
        if *TRACE {
            eprintln!("refused {} bytes\n{}", layout.size(), std::backtrace::Backtrace::force_capture());
        }
        LEFT.set(if REFUSALS.get() == Refusals::AllBehind { Some(0) } else { None });
    }
    refused
}

/// The system's allocator with refusals.
pub(crate) struct Refusing;

// SAFETY: every call goes to `System`, or returns null as an allocator may; `is_refused` allocates nothing that is counted.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout) { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout) { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if is_refused(layout) { null_mut() } else { unsafe { System.realloc(address, layout, len) } }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}
