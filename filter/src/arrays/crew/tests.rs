//! Order, failures, and how many chunks are on their way.

use super::*;
use quire_codec::Error;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Doubles each byte; counts the chunks that are on their way.
struct Doubling {
    fails_at: usize,
    begun: Arc<AtomicUsize>,
}

impl Work for Doubling {
    type Fetched = Fetched;
    type Made = Vec<u8>;

    fn compute(&self, chunk: usize, fetched: &mut Fetched, made: &mut Vec<u8>) -> Result<(), Fault> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        assert!(chunk != 1000, "a test's");
        if chunk == self.fails_at {
            return Err(Failure::from(Error::invalid("no")).into());
        }
        made.extend(fetched.bytes.iter().map(|byte| 2 * byte));
        Ok(())
    }

    fn chunk_bytes(&self) -> usize {
        1
    }
}

fn run(total: usize, threads: usize, fails_at: usize) -> (Vec<u8>, Result<(), Fault>) {
    let mut crew = Crew::start(Doubling { fails_at, begun: Arc::default() }, total, threads).expect("memory");
    let mut stored = Vec::new();
    let outcome = loop {
        let step = crew.step(
            |_, chunk, fetched| {
                fetched.bytes.push(chunk as u8 % 100);
                Ok(())
            },
            |_, chunk, _, made| {
                assert_eq!(chunk, stored.len(), "in their order");
                stored.extend_from_slice(made);
                Ok(())
            },
        );
        if step.is_err() || crew.drained() == total {
            break step;
        }
        crew.wait(None);
    };
    (stored, outcome)
}

#[test]
fn chunks_come_in_their_order_whatever_the_threads() {
    for threads in [1, 2, 7] {
        for total in [0, 1, 2, 500] {
            let (stored, outcome) = run(total, threads, usize::MAX);
            assert!(outcome.is_ok());
            assert!(stored.iter().copied().eq((0..total).map(|chunk| 2 * (chunk as u8 % 100))), "{threads} {total}");
        }
    }
}

#[test]
fn a_failure_names_its_chunk_and_those_before_it_are_stored() {
    for threads in [1, 3] {
        let (stored, outcome) = run(500, threads, 300);
        let fault = outcome.expect_err("chunk 300 fails");
        assert_eq!((fault.to_string().as_str(), stored.len()), ("chunk 300: no", 300));
    }
}

#[test]
fn a_panic_of_a_thread_is_a_failure_of_its_chunk() {
    let (stored, outcome) = run(2000, 2, usize::MAX);
    let fault = outcome.expect_err("chunk 1000 panics");
    assert!(matches!(fault.failure, Failure::Panicked(_)));
    assert_eq!((fault.chunk, stored.len()), (Some(1000), 1000));
}

#[test]
fn no_more_chunks_are_on_their_way_than_there_are_trays() {
    let mut crew = Crew::start(Doubling { fails_at: usize::MAX, begun: Arc::default() }, 1000, 2).expect("memory");
    crew.feed(&mut |_, _, _| Ok(())).expect("fed");
    crew.wait(None);
    crew.feed(&mut |_, _, _| panic!("a tray is free, and nothing was drained")).expect("nothing to feed");
    let begun = Arc::clone(&crew.work().begun);
    while begun.load(Ordering::SeqCst) < 2 * TRAYS_A_THREAD {
        std::thread::yield_now();
    }
    // Dropped with chunks on their way, which its threads have left before.
    drop(crew);
    assert_eq!(begun.load(Ordering::SeqCst), 2 * TRAYS_A_THREAD);
}

#[test]
fn a_drained_tray_is_fed_before_the_next_one_is_drained() {
    let mut crew = Crew::start(Doubling { fails_at: usize::MAX, begun: Arc::default() }, 100, 2).expect("memory");
    let (fed, stored) = (Cell::new(0), Cell::new(0));
    while crew.drained() < 100 {
        let step = crew.step(
            |_, chunk, _| {
                fed.set(chunk + 1);
                Ok(())
            },
            |_, chunk, _, _| {
                assert_eq!(fed.get(), (chunk + 2 * TRAYS_A_THREAD).min(100));
                stored.set(chunk + 1);
                Ok(())
            },
        );
        step.expect("no chunk fails");
        crew.wait(None);
    }
    assert_eq!(stored.get(), 100);
}

/// Work without fetching and storing, of which one chunk fails.
struct Alone {
    fails_at: usize,
    seen: Vec<AtomicUsize>,
}

impl Work for Alone {
    type Fetched = Vec<u8>;
    type Made = ();

    fn compute(&self, chunk: usize, fetched: &mut Vec<u8>, (): &mut ()) -> Result<(), Fault> {
        assert!(fetched.is_empty(), "a tray is emptied before it is used again");
        fetched.push(1);
        self.seen[chunk].fetch_add(1, Ordering::SeqCst);
        if chunk == self.fails_at { Err(Failure::from(Error::invalid("no")).into()) } else { Ok(()) }
    }

    fn chunk_bytes(&self) -> usize {
        1
    }

    fn is_of_threads_alone(&self) -> bool {
        true
    }
}

#[test]
fn threads_alone_take_each_chunk_once_and_stop_at_a_failure() {
    for threads in [1, 2, 7] {
        for (total, fails_at) in [(0, 1), (1, 1), (500, 500), (500, 300), (500, 0)] {
            let seen = (0..total).map(|_| AtomicUsize::new(0)).collect();
            let mut crew = Crew::start(Alone { fails_at, seen }, total, threads).expect("memory");
            let outcome = crew.finish();
            assert_eq!((outcome.is_err(), crew.drained()), (fails_at < total, fails_at.min(total)), "{threads} {total}");
            assert!(outcome.err().is_none_or(|fault| fault.chunk == Some(fails_at)));
            let counts = crew.work().seen.iter().map(|seen| seen.load(Ordering::SeqCst));
            assert!(counts.take(fails_at).all(|count| count == 1), "{threads} {total}");
        }
    }
}

#[test]
fn waiting_ends_when_the_time_is_up_or_nothing_is_on_its_way() {
    let mut crew = Crew::start(Doubling { fails_at: usize::MAX, begun: Arc::default() }, 3, 2).expect("memory");
    crew.wait(None);
    crew.wait(Some(Duration::from_millis(1)));
    assert_eq!(crew.drained(), 0);
}
