//! Sets of chunks: how many fit, and the threads that take them.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, panicking, scope};

use quire_codec::THREAD_STACK;

use super::{Failure, Fault};
use crate::device::{Device, Lease};
use crate::error::Error;
use crate::launch::{CallersEvent, ThreadGuard};
use crate::set_session::{MAX_SET_SESSIONS, SetSession};

/// Bytes of device memory that the arrays of a set's job take, unless one chunk takes more. Half of it made 512 chunks of 64^3 f32 take 17 % longer on an H100.
pub(super) const SET_MEMORY: usize = 1536 << 20;
/// Most chunks of a set. One launch takes the first sets of all sessions, and their chunks are a dimension of its grid, of up to 65535 blocks.
const MAX_CHUNKS: usize = 65_535 / MAX_SET_SESSIONS;
/// Least bytes of a set that is cut smaller only to have more sets: kernels need enough values to be fast.
const MIN_SET_BYTES: u64 = 32 << 20;

/// Most chunks of a set whose job takes `job_len` bytes a chunk. `count` chunks of `chunk_len` bytes are cut into a multiple of MAX_SET_SESSIONS sets where
/// these are long enough, so that all sessions have work.
pub(super) fn set_len(count: usize, chunk_len: u64, job_len: usize) -> usize {
    let fitting = (SET_MEMORY / job_len.max(1)).clamp(1, MAX_CHUNKS);
    let worthwhile = MIN_SET_BYTES.div_ceil(chunk_len.max(1)) as usize;
    let sets = count.div_ceil(fitting).next_multiple_of(MAX_SET_SESSIONS);
    count.div_ceil(sets).max(worthwhile).min(fitting)
}

/// Compressing or decompressing, a set of chunks at a time.
pub(super) trait Work: Sync {
    /// Starts the work that is done once for the first sets of all sessions, which have `chunks` chunks. Returns whether there is any.
    ///
    /// # Errors
    /// The reason; then nothing is done.
    fn start_first(&self, _session: &mut SetSession, _chunks: usize) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Ends what [`Work::start_first`] has started in this session. Only then are sets begun.
    ///
    /// # Errors
    /// The reason.
    fn end_first(&self, _session: &mut SetSession, _chunks: usize) -> Result<(), Failure> {
        Ok(())
    }

    /// Does a set.
    ///
    /// # Errors
    /// The first failure.
    fn run(&self, session: &mut SetSession, set: Range<usize>) -> Result<(), Failure>;

    /// Is called when a set has failed.
    fn break_off(&self) {}
}

impl<F: Fn(&mut SetSession, Range<usize>) -> Result<(), Failure> + Sync> Work for F {
    fn run(&self, session: &mut SetSession, set: Range<usize>) -> Result<(), Failure> {
        self(session, set)
    }
}

/// Holds threads until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }
}

/// Does `work` for the chunks 0 to `count`, up to `set_len` of them at a time, in several sessions. The sets are begun in their order. A set that device memory
/// has no room for is cut in two.
///
/// # Errors
/// The failure of the first set that failed. No further sets are begun then.
pub(super) fn in_sets(
    device: &'static Device,
    count: usize,
    set_len: usize,
    stream: Option<u64>,
    work: &impl Work,
) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let _thread = ThreadGuard::new();
    // The event is recorded by the caller's own thread, which a per-thread stream belongs to.
    let before = stream.map(|stream| CallersEvent::record(&device.loaded().context, stream)).transpose()?;
    let sets = count.div_ceil(set_len);
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<(usize, Failure)>> = Mutex::new(None);
    // `first`: what the thread does before it takes sets.
    let take_sets = |first: &dyn Fn(&mut SetSession) -> Result<(), Failure>| {
        let note = |set: usize, failure: Failure| {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|&(first, _)| set < first) {
                *failed = Some((set, failure));
            }
            next.store(sets, Ordering::Relaxed);
            work.break_off();
        };
        let _guard = InTheEnd(|| {
            if panicking() {
                next.store(sets, Ordering::Relaxed);
                work.break_off();
            }
        });
        let mut lease = match device.lease_set_session() {
            Ok(lease) => lease,
            Err(error) => return note(0, error.into()),
        };
        let waited = before.as_ref().map_or(Ok(()), |before| before.make_wait(&lease.lent().stream));
        if let Err(error) = waited {
            return note(0, error.into());
        }
        let fail = |session: &mut Lease<SetSession>, set: usize, failure: Failure| {
            // The GPU ends its work first. A session in an unknown state is not lent again.
            let _ = session.lent().wait();
            if let Fault::Gpu(error) = &failure.fault {
                let _ = session.check::<()>(Err(error.clone()));
            }
            note(set, failure);
        };
        if let Err(failure) = first(lease.lent()) {
            return fail(&mut lease, 0, failure);
        }
        loop {
            let set = next.fetch_add(1, Ordering::Relaxed);
            if set >= sets {
                return;
            }
            if let Err(failure) = halving(lease.lent(), set * set_len..count.min((set + 1) * set_len), work) {
                return fail(&mut lease, set, failure);
            }
        }
    };
    let gate = Gate::default();
    let wait = |_: &mut SetSession| {
        gate.wait();
        Ok(())
    };
    scope(|threads| {
        take_sets(&|session| {
            let _open = InTheEnd(|| gate.open());
            // Threads take some 60 us to start, in which the GPU is busy already.
            let chunks = count.min(MAX_SET_SESSIONS * set_len);
            let is_started = work.start_first(session, chunks)?;
            if !is_started {
                gate.open();
            }
            for _ in 1..sets.min(MAX_SET_SESSIONS) {
                // Without a further thread there is less overlap, no less done.
                let _ = Builder::new().stack_size(THREAD_STACK).spawn_scoped(threads, || take_sets(&wait));
            }
            if is_started { work.end_first(session, chunks) } else { Ok(()) }
        });
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, failure)| Err(failure))
}

/// Calls its function when it is dropped, also by a panic: other threads may wait for the work that this one leaves undone.
struct InTheEnd<F: Fn()>(F);

impl<F: Fn()> Drop for InTheEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn halving(session: &mut SetSession, set: Range<usize>, work: &impl Work) -> Result<(), Failure> {
    match work.run(session, set.clone()) {
        Err(Failure { fault: Fault::Gpu(Error::OutOfMemory(_)), .. }) if set.len() > 1 => {
            session.wait()?;
            let middle = set.start + set.len() / 2;
            halving(session, set.start..middle, work)?;
            halving(session, middle..set.end, work)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resident::PackedStreams;

    #[test]
    fn nobody_waits_for_a_thread_that_has_panicked() {
        let (mut offsets, mut lengths) = ([0; 2], [0; 2]);
        let packed = PackedStreams::new(0, 0, &mut offsets, &mut lengths);
        scope(|threads| {
            let waiting = threads.spawn(|| packed.place(1, [4].into_iter()));
            let failing = threads.spawn(|| {
                let _guard = InTheEnd(|| packed.break_off());
                panic!("a test's");
            });
            assert!(failing.join().is_err());
            assert_eq!(waiting.join().expect("no panic"), None);
        });
    }

    #[test]
    fn sets_fit_and_share_the_sessions() {
        for (count, chunk, job) in [(512, 1 << 20, 8 << 20), (1, 1 << 20, 8 << 20), (64, 8 << 20, 70 << 20), (100_000, 4, 5000)] {
            let len = set_len(count, chunk, job);
            assert!(len >= 1 && (len == 1 || len * job <= SET_MEMORY) && len <= MAX_CHUNKS, "{count} {chunk}: {len}");
        }
        assert_eq!(set_len(512, 1 << 20, 8 << 20), 171);
        assert_eq!(set_len(3, 1 << 30, 8 << 30), 1);
    }
}
