//! Copies between the caller's memory and pinned memory. Several threads share a large copy, as one thread is slower than the bus.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use quire_codec::stages::pairs;
use quire_codec::{Scalar, THREAD_STACK};
use rayon_core::{ThreadPool, ThreadPoolBuilder};

use crate::cores::{cores_are_taken, idle_cores};

/// Copies below this length stay on the calling thread: waking others takes longer.
const SPLIT: usize = 192 << 10;
/// Units of a long copy. Fewer, larger units would let threads wait longer for the last one.
const UNITS: usize = 64;
/// Least bytes of a unit of a copy that goes to the GPU.
const MIN_UNIT: usize = 16 << 10;
/// Least bytes of a unit of a copy that comes from the GPU. With the two numbers exchanged, 64^3 values took 2 us longer to an H200, and 3 us longer from it.
const MIN_UNIT_BACK: usize = 32 << 10;
/// Threads beside the caller's.
const HELPERS: usize = 5;

/// Threads beside the caller's.
#[derive(Clone, Copy)]
struct Helpers {
    pool: &'static ThreadPool,
    /// Threads of the pool that find an idle core.
    count: usize,
}

/// The helpers, started by the first copy that needs them. `None` on a single core, where all cores are busy, and while the system gives no threads: for lack of
/// memory, say.
///
/// Helpers are as many as idle cores, because a copy ends only when all of its helpers have run. On busy cores, one of ten copies of 1 MiB took 4 to 10 ms
/// longer.
fn helpers() -> Option<Helpers> {
    static POOL: OnceCell<Option<ThreadPool>> = OnceCell::new();
    let found = POOL.get_or_try_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = HELPERS.min(cores.saturating_sub(1));
        if threads == 0 {
            return Ok(None);
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).stack_size(THREAD_STACK);
        pool.thread_name(|index| format!("quire-copy-{index}")).build().map(Some)
    });
    let pool = found.ok()?.as_ref()?;
    let count = pool.current_num_threads().min(idle_cores());
    (count > 0).then_some(Helpers { pool, count })
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
    /// Spins for a while: jobs take some ten microseconds, as long as waking up at the scope's end would.
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
    let Some(Helpers { pool, .. }) = helpers() else {
        // Transfers that `here` starts go on while `there` runs.
        let done = here();
        return (done, there());
    };
    let underway = Underway::new(1);
    let mut result = None;
    let done = pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            result = Some(there());
            underway.end_one();
        });
        let done = here();
        underway.await_end();
        done
    });
    #[expect(clippy::unwrap_used, reason = "the scope ends after the job was done")]
    (done, result.unwrap())
}

/// Bytes of a unit of a copy of `len` bytes.
fn unit(len: usize, least: usize) -> usize {
    (len / UNITS).next_multiple_of(4096).max(least)
}

/// Most units of a copy: there is one more where the length is no multiple.
const MOST_UNITS: usize = UNITS + 1;

/// Does `work` for each of the units, on several threads if there are `helpers`. A thread that is free takes the next unit, as helpers may also work for other
/// callers. The calling thread does `first` before it takes a unit. It calls `done` after each unit that it took, and at the end until `done` returns true.
fn share<T>(
    units: impl ExactSizeIterator<Item = T> + Send,
    helpers: Option<Helpers>,
    first: impl FnOnce(),
    work: impl Fn(T) + Sync,
    mut done: impl FnMut() -> bool,
) {
    let helping = helpers.map_or(0, |helpers| helpers.count.min(units.len().saturating_sub(1)));
    let units = Mutex::new(units);
    let take = || units.lock().unwrap_or_else(PoisonError::into_inner).next();
    let own = || {
        first();
        while let Some(unit) = take() {
            work(unit);
            done();
        }
        while !done() {
            std::hint::spin_loop();
        }
    };
    let Some(Helpers { pool, .. }) = helpers.filter(|_| helping > 0) else { return own() };
    let underway = Underway::new(helping);
    pool.in_place_scope(|scope| {
        for _ in 0..helping {
            let (work, take, underway) = (&work, &take, &underway);
            scope.spawn(move |_| {
                while let Some(unit) = take() {
                    work(unit);
                }
                underway.end_one();
            });
        }
        own();
        underway.await_end();
    });
}

/// Whether a copy of `len` bytes is long enough for helpers.
pub(crate) fn is_split(len: usize) -> bool {
    len >= SPLIT
}

/// The helpers for a copy of `len` bytes, if it is long enough for them, and they have cores.
fn helpers_for(len: usize) -> Option<Helpers> {
    if is_split(len) && !cores_are_taken() { helpers() } else { None }
}

/// Copies `from` to `to`, which is as long. Calls `ready` on the calling thread, each time with the number of bytes from the start that have been copied.
pub(crate) fn copy_in(from: &[u8], to: &mut [u8], mut ready: impl FnMut(usize)) {
    let (len, unit) = (from.len(), unit(from.len(), MIN_UNIT));
    let are_there = [const { AtomicBool::new(false) }; MOST_UNITS];
    let mut there = 0;
    share(
        from.chunks(unit).zip(to.chunks_mut(unit)).enumerate(),
        helpers_for(len),
        || (),
        |(number, (from, to))| {
            to.copy_from_slice(from);
            are_there[number].store(true, Ordering::Release);
        },
        || {
            while there < len.div_ceil(unit) && are_there[there].load(Ordering::Acquire) {
                there += 1;
                ready((there * unit).min(len));
            }
            there == len.div_ceil(unit)
        },
    );
}

/// Fills `to` with ranges of bytes that `from` returns. The bytes arrive in pieces of `piece` bytes, and a range is asked for when its pieces have arrived. The
/// calling thread alone waits for the pieces with `wait`, one after another: in the driver, several threads that wait hold each other up.
pub(crate) fn copy_out<'a, E>(
    to: &mut [u8],
    piece: usize,
    mut wait: impl FnMut(usize) -> Result<(), E>,
    from: impl Fn(Range<usize>) -> &'a [u8] + Sync,
) -> Result<(), E> {
    let (len, unit) = (to.len(), unit(to.len(), MIN_UNIT_BACK));
    let Some(helpers) = helpers_for(len) else {
        for (number, part) in to.chunks_mut(piece).enumerate() {
            wait(number)?;
            part.copy_from_slice(from(number * piece..number * piece + part.len()));
        }
        return Ok(());
    };
    let (there, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut waited = Ok(());
    share(
        to.chunks_mut(unit).enumerate(),
        Some(helpers),
        || {
            for number in 0..len.div_ceil(piece) {
                waited = wait(number);
                failed.store(waited.is_err(), Ordering::Relaxed);
                there.store(if waited.is_err() { len } else { ((number + 1) * piece).min(len) }, Ordering::Release);
                if waited.is_err() {
                    break;
                }
            }
        },
        |(number, to)| {
            let range = number * unit..number * unit + to.len();
            while there.load(Ordering::Acquire) < range.end {
                std::hint::spin_loop();
            }
            if !failed.load(Ordering::Relaxed) {
                to.copy_from_slice(from(range));
            }
        },
        || true,
    );
    waited
}

/// Bytes of each half that a thread takes of a chunk of pairs: whole values.
fn unit_of_halves(len: usize) -> usize {
    unit(len / 2, MIN_UNIT).next_multiple_of(16)
}

/// Copies the parts of a chunk of pairs to the halves of `values`, as [`pairs::split`] does.
pub(crate) fn split(from: &[u8], scalar: Scalar, values: &mut [u8]) {
    let (len, unit) = (from.len(), unit_of_halves(from.len()));
    let (first, second) = values.split_at_mut(len / 2);
    let units = from.chunks(2 * unit).zip(first.chunks_mut(unit)).zip(second.chunks_mut(unit));
    let work = |((from, first), second)| pairs::split_range(from, scalar, first, second);
    share(units, helpers_for(len), || (), work, || true);
}

/// Copies the halves of `values` to the parts of a chunk of pairs, as [`pairs::join`] does.
pub(crate) fn join(values: &[u8], scalar: Scalar, to: &mut [u8]) {
    let (len, unit) = (to.len(), unit_of_halves(to.len()));
    let (first, second) = values.split_at(len / 2);
    let units = to.chunks_mut(2 * unit).zip(first.chunks(unit)).zip(second.chunks(unit));
    let work = |((to, first), second): ((&mut [u8], _), _)| pairs::join_range(first, second, scalar, to);
    share(units, helpers_for(len), || (), work, || true);
}

/// Copies `from` to `to`, which is as long.
pub(crate) fn copy(from: &[u8], to: &mut [u8]) {
    copy_in(from, to, |_| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_and_joined_as_the_codec_does() {
        for scalar in [Scalar::C64, Scalar::C128] {
            for count in [0, 1, 4095, 20_000, 400_001] {
                let len = count * scalar.element_size();
                let from: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
                let (mut expected, mut values, mut back) = (vec![0; len], vec![0; len], vec![0; len]);
                pairs::split(&from, scalar, &mut expected);
                split(&from, scalar, &mut values);
                assert!(values == expected, "{count} pairs of {scalar}");
                join(&values, scalar, &mut back);
                assert!(back == from, "{count} pairs of {scalar}");
            }
        }
    }

    #[test]
    fn bytes_arrive_in_order_and_whole() {
        for len in [0, 1, 4095, 20_000, 300_000, 5_000_001] {
            let from: Vec<u8> = (0..len).map(|i: usize| (i * 31 % 251) as u8).collect();
            let mut to = vec![0; len];
            let mut order = vec![0];
            copy_in(&from, &mut to, |there| order.push(there));
            assert_eq!(to, from);
            assert!(order.is_sorted_by(|before, behind| before < behind));
            assert_eq!(order[order.len() - 1], len);
            let mut back = vec![0; len];
            copy_out(&mut back, 70_000, |_| Ok::<_, ()>(()), |range| &from[range]).unwrap();
            assert_eq!(back, from);
            copy(&from, &mut back);
            assert_eq!(back, from);
        }
        for len in [100_000, 1_000_000] {
            let source = vec![1; len];
            let failed = copy_out(
                &mut vec![0; len],
                len / 4,
                |piece| if piece == 2 { Err("third") } else { Ok(()) },
                |range| &source[range],
            );
            assert_eq!(failed, Err("third"));
        }
    }
}
