//! Counts of everything that a warm call does not do.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::ALLOCATIONS;

/// Contexts opened.
pub(crate) static CONTEXTS: AtomicU64 = AtomicU64::new(0);
/// Sessions made.
pub(crate) static SESSIONS: AtomicU64 = AtomicU64::new(0);
/// Sequences of launches recorded.
pub(crate) static RECORDED: AtomicU64 = AtomicU64::new(0);

/// What this process has done so far that costs time once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Contexts opened, each with its kernels and tables.
    pub contexts: u64,
    /// Sessions made, each with a stream.
    pub sessions: u64,
    /// Allocations of device or pinned memory.
    pub allocations: u64,
    /// Sequences of launches recorded.
    pub recorded: u64,
}

/// Counts of everything that a warm call does not do.
#[must_use]
pub fn statistics() -> Statistics {
    Statistics {
        contexts: CONTEXTS.load(Ordering::Relaxed),
        sessions: SESSIONS.load(Ordering::Relaxed),
        allocations: ALLOCATIONS.load(Ordering::Relaxed),
        recorded: RECORDED.load(Ordering::Relaxed),
    }
}
