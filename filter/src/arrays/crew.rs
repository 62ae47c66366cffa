//! Threads that take chunks from a shared counter, and the trays between them and the calling thread.
//!
//! ```text
//!        calling thread        threads            calling thread
//! chunk  0..drained            ..begun            ..fed                 ..total
//!        drained               being computed,    waits for a thread    not fed yet
//!                              or computed
//! ```
//!
//! Chunk `n` has tray `n % trays` from the time it is fed until it is drained, so that at most `trays` chunks are on their way. A crew of one has no
//! threads: the calling thread computes while it waits.

use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use quire_codec::memory;

use super::{Outcome, TRAYS_A_THREAD};
use crate::backend;
use crate::fence::{Failure, contain, leave_buffers};

/// What threads do with a chunk, or with a portion of several.
pub(super) trait Work: Send + Sync + 'static {
    /// What the calling thread puts into a tray.
    type Fetched: Reused;
    /// What a thread leaves there.
    type Made: Reused;

    /// Computes one chunk or portion, on any thread. `fetched` is what the calling thread has put there, `made` is empty and goes back to it.
    fn compute(&self, number: usize, fetched: &mut Self::Fetched, made: &mut Self::Made) -> Result<(), Fault>;

    /// Bytes of the longest chunk that a thread works on.
    fn chunk_bytes(&self) -> usize;

    /// The chunk that a failure is of if it names none itself.
    fn first_chunk(&self, number: usize) -> usize {
        number
    }
}

/// What a tray holds. Its memory serves one chunk after another.
pub(super) trait Reused: Default + Send {
    fn empty(&mut self);
}

impl Reused for () {
    fn empty(&mut self) {}
}

impl<T: Send> Reused for Vec<T> {
    fn empty(&mut self) {
        self.clear();
    }
}

impl Reused for Fetched {
    fn empty(&mut self) {
        self.bytes.clear();
    }
}

/// A chunk as the file has it.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Fetched {
    /// Nothing for a chunk that the file does not have, or that nobody has to know.
    pub(super) bytes: Vec<u8>,
    /// HDF5's filter mask: bit 0 says that the filter was left out, and the bytes are values.
    pub(super) mask: u32,
}

/// What went wrong, and with which chunk, if it was one.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) chunk: Option<usize>,
    pub(crate) failure: Failure,
}

impl Fault {
    /// This fault, of a chunk if it names none.
    fn at(self, chunk: usize) -> Self {
        Self { chunk: self.chunk.or(Some(chunk)), ..self }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self { chunk: None, failure }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(chunk) = self.chunk {
            write!(formatter, "chunk {chunk}: ")?;
        }
        self.failure.fmt(formatter)
    }
}

/// Fills a chunk's tray, on the calling thread.
type Fetch<'a, W> = dyn FnMut(&W, usize, &mut <W as Work>::Fetched) -> Result<(), Fault> + 'a;
/// Takes what was fetched and what was made of a chunk, on the calling thread, which may make it again.
type Store<'a, W> = dyn FnMut(&W, usize, &mut <W as Work>::Fetched, &mut <W as Work>::Made) -> Result<(), Fault> + 'a;

/// The threads, and what they share. Dropping it lets each thread end the chunk that it works on, and waits for that.
pub(super) struct Crew<W: Work> {
    shared: Arc<Shared<W>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<W: Work> {
    work: W,
    total: usize,
    state: Mutex<State<W>>,
    /// A chunk was fed, or the end has come.
    fed: Condvar,
    /// The chunk that is to be drained next was computed.
    computed: Condvar,
}

struct State<W: Work> {
    trays: Vec<Tray<W>>,
    drained: usize,
    begun: usize,
    fed: usize,
    has_ended: bool,
}

struct Tray<W: Work> {
    fetched: W::Fetched,
    made: W::Made,
    /// How the computation ended, if it has.
    outcome: Option<Result<(), Fault>>,
}

impl<W: Work> Crew<W> {
    /// Starts `threads` threads for the chunks 0 to `total`; none for one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn start(work: W, total: usize, threads: usize) -> Outcome<Self> {
        let trays = if threads > 1 { threads * TRAYS_A_THREAD } else { 1 };
        let empty = |_| Tray { fetched: W::Fetched::default(), made: W::Made::default(), outcome: None };
        let trays = memory::collect((0..trays.min(total.max(1))).map(empty))?;
        let state = State { trays, drained: 0, begun: 0, fed: 0, has_ended: false };
        // A few hundred bytes, which the allocator's reserve serves where memory is short, as it serves std's own for a thread.
        let shared = Arc::new(Shared { work, total, state: Mutex::new(state), fed: Condvar::new(), computed: Condvar::new() });
        let mut crew = Self { shared, threads: Vec::new() };
        if threads > 1 {
            memory::reserve(&mut crew.threads, threads)?;
            for number in 0..threads {
                let shared = Arc::clone(&crew.shared);
                match Builder::new().spawn(move || {
                    shared.take_chunks();
                    leave_buffers(shared.work.chunk_bytes());
                }) {
                    Ok(thread) => crew.threads.push(thread),
                    Err(error) => {
                        backend::say_once(format_args!("{number} of {threads} threads could be started for an array: {error}"));
                        break;
                    }
                }
            }
        }
        Ok(crew)
    }

    pub(super) fn work(&self) -> &W {
        &self.shared.work
    }

    /// Chunks that are done.
    pub(super) fn drained(&self) -> usize {
        self.shared.lock().drained
    }

    /// Hands the chunk that is to be drained next to `store`, if it is computed. Whether it was.
    ///
    /// # Errors
    /// The threads' and that of `store`.
    fn drain(&mut self, store: &mut Store<'_, W>) -> Result<bool, Fault> {
        let (chunk, mut fetched, mut made) = {
            let mut state = self.shared.lock();
            let chunk = state.drained;
            let tray = state.tray(chunk);
            match tray.outcome.take() {
                None => return Ok(false),
                Some(Err(fault)) => return Err(fault.at(self.shared.work.first_chunk(chunk))),
                Some(Ok(())) => (chunk, mem::take(&mut tray.fetched), mem::take(&mut tray.made)),
            }
        };
        let stored = store(&self.shared.work, chunk, &mut fetched, &mut made);
        made.empty();
        let mut state = self.shared.lock();
        *state.tray(chunk) = Tray { fetched, made, outcome: None };
        stored.map_err(|fault| fault.at(self.shared.work.first_chunk(chunk)))?;
        state.drained += 1;
        Ok(true)
    }

    /// Has `fetch` fill all free trays, and gives them to the threads.
    ///
    /// # Errors
    /// Those of `fetch`.
    fn feed(&mut self, fetch: &mut Fetch<'_, W>) -> Result<(), Fault> {
        loop {
            let (chunk, mut fetched) = {
                let mut state = self.shared.lock();
                let chunk = state.fed;
                if chunk == self.shared.total || chunk - state.drained == state.trays.len() {
                    return Ok(());
                }
                (chunk, mem::take(&mut state.tray(chunk).fetched))
            };
            fetched.empty();
            fetch(&self.shared.work, chunk, &mut fetched).map_err(|fault| fault.at(self.shared.work.first_chunk(chunk)))?;
            let mut state = self.shared.lock();
            state.tray(chunk).fetched = fetched;
            state.fed += 1;
            self.shared.fed.notify_one();
        }
    }

    /// Waits until there is a chunk to drain, or the time is up. Without threads it computes a chunk, however long that takes.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) {
        if self.threads.is_empty() {
            let mut state = self.shared.lock();
            if state.begun < state.fed {
                let chunk = state.begin();
                drop(state);
                self.shared.compute(chunk);
            }
            return;
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.shared.lock();
        // Nothing is on its way when all chunks are drained, or none is fed.
        while state.drained < state.fed && state.next_outcome().is_none() {
            state = match end {
                None => self.shared.computed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    self.shared.computed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Drains what is computed, up to as many chunks as there are trays, and feeds what there is room for, without waiting. A tray that is drained is fed at once:
    /// threads that go on meanwhile are never without a chunk.
    ///
    /// # Errors
    /// The first of the threads', of `store` and of `fetch`.
    pub(super) fn step(
        &mut self,
        mut fetch: impl FnMut(&W, usize, &mut W::Fetched) -> Result<(), Fault>,
        mut store: impl FnMut(&W, usize, &mut W::Fetched, &mut W::Made) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.feed(&mut fetch)?;
        let trays = self.shared.lock().trays.len();
        for _ in 0..trays {
            if !self.drain(&mut store)? {
                break;
            }
            self.feed(&mut fetch)?;
        }
        Ok(())
    }

    /// Takes all chunks to their end. The calling thread does nothing else.
    ///
    /// # Errors
    /// The first of the threads'.
    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        while self.drained() < self.shared.total {
            self.step(|_, _, _| Ok(()), |_, _, _, _| Ok(()))?;
            self.wait(None);
        }
        Ok(())
    }
}

impl<W: Work> Drop for Crew<W> {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.fed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread contains every panic of its work; one of its own leaves nothing to be done.
            let _ = thread.join();
        }
    }
}

impl<W: Work> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // Between two statements under the lock nothing can panic that would leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn take_chunks(&self) {
        loop {
            let chunk = {
                let mut state = self.lock();
                loop {
                    if state.has_ended || state.begun == self.total {
                        return;
                    }
                    if state.begun < state.fed {
                        break state.begin();
                    }
                    state = self.fed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            self.compute(chunk);
        }
    }

    fn compute(&self, chunk: usize) {
        let (mut fetched, mut made) = {
            let mut state = self.lock();
            let tray = state.tray(chunk);
            (mem::take(&mut tray.fetched), mem::take(&mut tray.made))
        };
        let contained = contain(|| Ok::<_, Failure>(self.work.compute(chunk, &mut fetched, &mut made)));
        let outcome = contained.unwrap_or_else(|failure| Err(failure.into()));
        let mut state = self.lock();
        *state.tray(chunk) = Tray { fetched, made, outcome: Some(outcome) };
        // The caller waits for chunks in their order.
        if chunk == state.drained {
            self.computed.notify_one();
        }
        // Threads that wait for a chunk that will never be fed end with the last one.
        if state.begun == self.total {
            self.fed.notify_all();
        }
    }
}

impl<W: Work> State<W> {
    fn tray(&mut self, chunk: usize) -> &mut Tray<W> {
        let trays = self.trays.len();
        &mut self.trays[chunk % trays]
    }

    /// The outcome of the chunk that is to be drained next.
    fn next_outcome(&mut self) -> Option<&Result<(), Fault>> {
        let chunk = self.drained;
        self.tray(chunk).outcome.as_ref()
    }

    /// Takes a chunk from the counter.
    fn begin(&mut self) -> usize {
        self.begun += 1;
        self.begun - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_codec::Error;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Doubles each byte; counts the chunks that are on their way.
    struct Doubling {
        fails_at: usize,
        begun: AtomicUsize,
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
        let mut crew = Crew::start(Doubling { fails_at, begun: AtomicUsize::new(0) }, total, threads).expect("memory");
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
        let mut crew = Crew::start(Doubling { fails_at: usize::MAX, begun: AtomicUsize::new(0) }, 1000, 2).expect("memory");
        crew.feed(&mut |_, _, _| Ok(())).expect("fed");
        crew.wait(None);
        crew.feed(&mut |_, _, _| panic!("a tray is free, and nothing was drained")).expect("nothing to feed");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(crew.work().begun.load(Ordering::SeqCst), 2 * TRAYS_A_THREAD);
        // Dropped with chunks on their way.
    }

    #[test]
    fn a_drained_tray_is_fed_before_the_next_one_is_drained() {
        let mut crew = Crew::start(Doubling { fails_at: usize::MAX, begun: AtomicUsize::new(0) }, 100, 2).expect("memory");
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

    #[test]
    fn waiting_ends_when_the_time_is_up_or_nothing_is_on_its_way() {
        let mut crew = Crew::start(Doubling { fails_at: usize::MAX, begun: AtomicUsize::new(0) }, 3, 2).expect("memory");
        crew.wait(None);
        crew.wait(Some(Duration::from_millis(1)));
        assert_eq!(crew.drained(), 0);
    }
}
