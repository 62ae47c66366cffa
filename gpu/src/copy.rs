//! Copies between the caller's memory and pinned memory. One thread moves less than the bus carries; large copies go to several.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// Copies below this length stay on the calling thread: waking others takes longer.
pub(crate) const SPLIT: usize = 256 << 10;
/// Threads beside the caller's.
const HELPERS: usize = 3;

/// The helpers, started by the first copy that needs them. `None` where the system gives no threads.
fn helpers() -> Option<&'static ThreadPool> {
    static POOL: OnceCell<Option<ThreadPool>> = OnceCell::new();
    POOL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = HELPERS.min(cores.saturating_sub(1));
        if threads == 0 {
            return None;
        }
        ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("quire-copy-{index}")).build().ok()
    })
    .as_ref()
}

/// How many jobs of a scope are still under way.
struct Underway(AtomicUsize);

impl Underway {
    fn new(jobs: usize) -> Self {
        Self(AtomicUsize::new(jobs))
    }
    fn end_one(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
    /// Waits awake for a while: jobs take some ten microseconds, which it would also take to be woken up by their scope.
    fn await_end(&self) {
        const AWAKE: Duration = Duration::from_micros(200);
        let start = Instant::now();
        while self.0.load(Ordering::Acquire) > 0 && start.elapsed() < AWAKE {
            std::hint::spin_loop();
        }
    }
}

/// Does `here` on the calling thread and `there` on a helper, if there is one.
pub(crate) fn beside<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut there, mut result) = (Some(there), None);
    let done = beside_all(here, &mut [&mut || result = there.take().map(|there| there())]);
    #[expect(clippy::unwrap_used, reason = "the job was done once")]
    (done, result.unwrap())
}

/// Does `here` on the calling thread and each of `there` on a helper, if there are any.
pub(crate) fn beside_all<A>(here: impl FnOnce() -> A, there: &mut [&mut (dyn FnMut() + Send)]) -> A {
    let Some(pool) = helpers() else {
        // What `here` starts goes on beside the others.
        let done = here();
        there.iter_mut().for_each(|job| job());
        return done;
    };
    let underway = Underway::new(there.len());
    pool.in_place_scope(|scope| {
        for job in there {
            let underway = &underway;
            scope.spawn(move |_| {
                job();
                underway.end_one();
            });
        }
        let done = here();
        underway.await_end();
        done
    })
}

/// Does `work` for each number below `count`, on several threads if there is more than one: whoever is free takes the next number, as a
/// helper may be busy with something else. The calling thread asks `done` after each of its own, and then until the answer is yes.
fn share(count: usize, work: impl Fn(usize) + Sync, mut done: impl FnMut() -> bool) {
    let pool = if count > 1 { helpers() } else { None };
    let helping = pool.map_or(0, |pool| pool.current_num_threads().min(count - 1));
    let next = AtomicUsize::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < count);
    let mut own = || {
        while let Some(number) = take() {
            work(number);
            done();
        }
        while !done() {
            std::hint::spin_loop();
        }
    };
    let Some(pool) = pool else { return own() };
    let underway = Underway::new(helping);
    pool.in_place_scope(|scope| {
        for _ in 0..helping {
            let (work, take, underway) = (&work, &take, &underway);
            scope.spawn(move |_| {
                while let Some(number) = take() {
                    work(number);
                }
                underway.end_one();
            });
        }
        own();
        underway.await_end();
    });
}

/// Copies `from` to `to`, which has the same length, in pieces of `piece` bytes. Calls `ready` on the calling thread with the number of
/// each piece, in order, when it is there.
pub(crate) fn copy_in(from: &[u8], to: &mut [u8], piece: usize, mut ready: impl FnMut(usize)) {
    let pieces: Vec<_> =
        from.chunks(piece).zip(to.chunks_mut(piece)).map(|piece| (Mutex::new(piece), AtomicBool::new(false))).collect();
    let mut reported = 0;
    share(
        pieces.len(),
        |number| {
            let (piece, there) = &pieces[number];
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            let (from, to) = &mut *piece;
            to.copy_from_slice(from);
            there.store(true, Ordering::Release);
        },
        || {
            while reported < pieces.len() && pieces[reported].1.load(Ordering::Acquire) {
                ready(reported);
                reported += 1;
            }
            reported == pieces.len()
        },
    );
}

/// Fills `to` in pieces of `piece` bytes: `wait` blocks until piece `number` is there and returns it, on any thread.
pub(crate) fn copy_out<'a, E: Send>(
    to: &mut [u8],
    piece: usize,
    wait: impl Fn(usize) -> Result<&'a [u8], E> + Sync,
) -> Result<(), E> {
    let pieces: Vec<_> = to.chunks_mut(piece).map(Mutex::new).collect();
    let failure = Mutex::new(None);
    share(
        pieces.len(),
        |number| match wait(number) {
            Ok(from) => pieces[number].lock().unwrap_or_else(PoisonError::into_inner).copy_from_slice(from),
            Err(error) => *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
        },
        || true,
    );
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Copies `from` to `to`, which has the same length.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() < SPLIT {
        return to.copy_from_slice(from);
    }
    copy_in(from, to, (from.len() / 8).next_multiple_of(4096), |_| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_arrive_in_order_and_whole() {
        for len in [0, 1, 4095, 300_000, 5_000_001] {
            let from: Vec<u8> = (0..len).map(|i: usize| (i * 31 % 251) as u8).collect();
            let mut to = vec![0; len];
            let mut order = Vec::new();
            copy_in(&from, &mut to, 100_000, |number| order.push(number));
            assert_eq!(to, from);
            assert_eq!(order, (0..len.div_ceil(100_000)).collect::<Vec<_>>());
            let mut back = vec![0; len];
            copy_out(&mut back, 70_000, |number| Ok::<_, ()>(&from[number * 70_000..((number + 1) * 70_000).min(len)])).unwrap();
            assert_eq!(back, from);
            copy(&from, &mut back);
            assert_eq!(back, from);
        }
        let failed =
            copy_out(
                &mut [0; 10],
                3,
                |number| if number == 2 { Err("third") } else { Ok(&[0; 3][..if number == 3 { 1 } else { 3 }]) },
            );
        assert_eq!(failed, Err("third"));
    }
}
