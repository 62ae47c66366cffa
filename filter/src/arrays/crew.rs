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
//!
//! If the calling thread has nothing to fetch and nothing to store, the threads themselves feed and drain the trays, and the calling thread sleeps until all
//! chunks are done. Otherwise it would wait for a core at every chunk, as there is a thread for each core.

use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use quire_codec::{THREAD_STACK, memory};

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

    /// Whether the calling thread has nothing to fetch and nothing to store.
    fn is_of_threads_alone(&self) -> bool {
        false
    }

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

impl From<quire_codec::Error> for Fault {
    fn from(error: quire_codec::Error) -> Self {
        Self { chunk: None, failure: error.into() }
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
    /// Threads that there are to be: the calling thread starts them as it feeds, so that the first one works while the next ones are started.
    wanted: usize,
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
    /// A crew of `threads` threads for the chunks 0 to `total`; none for one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn start(work: W, total: usize, threads: usize) -> Outcome<Self> {
        let trays = if threads > 1 { threads * TRAYS_A_THREAD } else { 1 };
        let empty = |_| Tray { fetched: W::Fetched::default(), made: W::Made::default(), outcome: None };
        let trays = memory::collect((0..trays.min(total.max(1))).map(empty))?;
        let fed = if work.is_of_threads_alone() { trays.len().min(total) } else { 0 };
        let state = State { trays, drained: 0, begun: 0, fed, has_ended: false };
        let shared = Arc::new(Shared { work, total, state: Mutex::new(state), fed: Condvar::new(), computed: Condvar::new() });
        let wanted = if threads > 1 { threads } else { 0 };
        let mut threads = Vec::new();
        memory::reserve(&mut threads, wanted)?;
        Ok(Self { shared, threads, wanted })
    }

    /// Starts a thread, if there are not all of them. Returns whether it did.
    fn start_thread(&mut self) -> bool {
        let (number, wanted) = (self.threads.len(), self.wanted);
        if number == wanted {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let started = Builder::new().stack_size(THREAD_STACK).spawn(move || {
            shared.take_chunks();
            leave_buffers(shared.work.chunk_bytes());
        });
        match started {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                backend::say_once(format_args!("{number} of {wanted} threads could be started for an array: {error}"));
                self.wanted = number;
            }
        }
        self.wanted > number
    }

    pub(super) fn work(&self) -> &W {
        &self.shared.work
    }

    /// Chunks that are done.
    pub(super) fn drained(&self) -> usize {
        self.shared.lock().drained
    }

    /// Hands the chunk that is to be drained next to `store`, if it is computed. Returns whether it was.
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
        if self.shared.work.is_of_threads_alone() {
            while self.start_thread() {}
            return Ok(());
        }
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
            drop(state);
            if !self.start_thread() {
                self.shared.fed.notify_one();
            }
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
        // If all chunks that were fed are drained, nothing is on its way.
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

    /// Drains the chunks that are computed, at most as many as there are trays, and feeds every free tray. Does not wait. A tray that is drained is fed at
    /// once, so that the threads are never without a chunk.
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
        // Chunks are drained in their order: the calling thread waits for this one alone.
        let is_next = chunk == state.drained;
        if is_next && self.work.is_of_threads_alone() {
            // Drains and feeds in place of the calling thread.
            while matches!(state.next_outcome(), Some(Ok(()))) {
                let chunk = state.drained;
                let tray = state.tray(chunk);
                tray.outcome = None;
                tray.fetched.empty();
                tray.made.empty();
                state.drained += 1;
            }
            state.fed = self.total.min(state.drained + state.trays.len());
            self.fed.notify_all();
        }
        if is_next && (state.drained == state.fed || state.next_outcome().is_some()) {
            self.computed.notify_one();
        }
        // No chunk will be fed any more: the threads that wait for one are to end.
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
mod tests;
