//! Runs numbered cases on all threads. A failure ends the run, and names its case.

use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs cases from number `first` on until `count` of them have counted. Each thread has a `state` of its own; `run` gives how many cases a number counts as.
/// `QUIRE_CASE=123` runs that number alone.
pub(crate) fn run_cases<S>(first: u64, count: u64, state: impl Fn() -> S + Sync, run: impl Fn(u64, &mut S) -> u64 + Sync) {
    if let Some(case) = std::env::var("QUIRE_CASE").ok().and_then(|text| text.parse().ok()) {
        assert!(run(case, &mut state()) > 0, "case {case} asks for what its type cannot have");
        return;
    }
    println!("{count} cases from number {first} on");
    let (next, done) = (AtomicU64::new(first), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let handles = Vec::from_iter((0..threads).map(|_| {
            scope.spawn(|| {
                let mut state = state();
                while done.load(Ordering::Relaxed) < count {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run(case, &mut state)));
                    let counted = outcome.unwrap_or_else(|failure| {
                        // A failure ends the other threads' work as well.
                        done.store(count, Ordering::Relaxed);
                        println!("case {case} failed");
                        std::panic::resume_unwind(failure)
                    });
                    done.fetch_add(counted, Ordering::Relaxed);
                }
            })
        }));
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    });
    println!("{} cases", done.into_inner());
}

/// A number of cases: that of a variable, or `default`.
pub(crate) fn cases_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}
