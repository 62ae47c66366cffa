//! The border between our code and every caller in C: HDF5's callbacks (`callbacks`) and programs that call us by name (`c_api`).

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use quire_codec::stages::adaptive::AdaptiveDictionary;
use quire_codec::{Error, Result, Workspace, memory};

use crate::float_environment::DefaultFloatEnvironment;

/// Why a call came to nothing.
#[derive(Debug)]
pub enum Failure {
    /// The codec's or our own refusal.
    Refused(Error),
    /// A dataset or a selection that HDF5 can read and write, and the functions of whole arrays cannot.
    Unsuitable(Error),
    /// A call of HDF5 or of the system has failed.
    Hdf5(Error),
    /// Values are in a GPU's memory, and the GPU cannot be used.
    NoGpu(Error),
    /// A bug: what the panic said.
    Panicked(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) | Self::Unsuitable(error) | Self::Hdf5(error) | Self::NoGpu(error) => error.fmt(formatter),
            Self::Panicked(text) => write!(formatter, "internal error, please report it: {text}"),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// A dataset or a selection that is left to HDF5, with the reason; a lack of memory stays one.
    pub(crate) fn unsuitable(reason: impl fmt::Display) -> Self {
        Self::sorted(Error::invalid(reason), Self::Unsuitable)
    }

    /// A failed call, with the reason; a lack of memory stays one.
    pub(crate) fn hdf5(reason: impl fmt::Display) -> Self {
        Self::sorted(Error::invalid(reason), Self::Hdf5)
    }

    /// A GPU that cannot be used, with the reason; a lack of memory stays one.
    pub(crate) fn no_gpu(reason: impl fmt::Display) -> Self {
        Self::sorted(Error::invalid(reason), Self::NoGpu)
    }

    /// An error as a failure of a kind; a lack of memory stays one.
    pub(crate) fn sorted(error: Error, kind: impl FnOnce(Error) -> Self) -> Self {
        if matches!(error, Error::OutOfMemory { .. }) { Self::Refused(error) } else { kind(error) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Runs a body in the codec's floating-point mode, and stops a panic: unwinding into C would end the process. Before a panic gets here, Rust's
/// panic hook has written it to stderr with its file and line, which are all that a bug report can have.
pub(crate) fn contain<R, E: Into<Failure>>(body: impl FnOnce() -> std::result::Result<R, E>) -> std::result::Result<R, Failure> {
    let _default = DefaultFloatEnvironment::enter();
    // Nothing the body touches is seen again after a panic: the thread's buffers are lost to it, see `with_kept_buffers`.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(Into::into),
        Err(payload) => Err(memory::text(panic_text(&*payload)).map_or_else(Failure::Refused, Failure::Panicked)),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "panic without a text",
    }
}

/// What a thread keeps from chunk to chunk.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) workspace: Workspace,
    pub(crate) stream: Vec<u8>,
    /// A chunk of an array that does not lie in one piece in memory.
    pub(crate) chunk: Vec<u8>,
    /// Books of the chunks before, once a dataset has asked for them.
    pub(crate) history: Option<AdaptiveDictionary>,
    /// Bytes of the longest chunk that the buffers have served, as far as [`leave_buffers`] was told.
    longest: usize,
}

/// Lends the thread's buffers. They are taken out meanwhile, so that a panic loses them instead of leaving them half changed.
///
/// # Errors
/// `OutOfMemory`, and those of `body`.
pub(crate) fn with_kept_buffers<R, E: From<Error>>(
    body: impl FnOnce(&mut Buffers) -> std::result::Result<R, E>,
) -> std::result::Result<R, E> {
    let mut buffers = match per_thread::take() {
        Some(buffers) => buffers,
        None => match left_behind::take() {
            Some(buffers) => buffers,
            None => new_buffers()?,
        },
    };
    let result = body(&mut buffers);
    per_thread::keep(buffers);
    result
}

/// Outlined: its frame holds buffers, which is much of a small stack.
#[cold]
#[inline(never)]
fn new_buffers() -> Result<Box<Buffers>> {
    try_box(Buffers::default())
}

/// A value on the heap.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>> {
    const { assert!(size_of::<T>() > 0) };
    // SAFETY: the layout has a size, as asserted.
    let address = unsafe { std::alloc::alloc(std::alloc::Layout::new::<T>()) }.cast::<T>();
    if address.is_null() {
        return Err(Error::OutOfMemory { bytes: size_of::<T>() as u64 });
    }
    // SAFETY: new memory of the type's layout, from the allocator that a box frees with.
    unsafe {
        address.write(value);
        Ok(Box::from_raw(address))
    }
}

/// Leaves the buffers of a thread that ends to one that begins. `chunk_bytes` are those of the longest chunk that it has worked on.
pub(crate) fn leave_buffers(chunk_bytes: usize) {
    if let Some(mut buffers) = per_thread::take() {
        buffers.longest = buffers.longest.max(chunk_bytes);
        buffers.history = None;
        left_behind::leave(buffers);
    }
}

/// Buffers of threads that have ended, for the next ones. The system would zero new memory page by page, while the threads of a process wait for one another:
/// that takes a sixth of the time of a write.
mod left_behind {
    use std::sync::{Mutex, MutexGuard};

    use quire_codec::memory;

    use super::Buffers;

    /// The sum of the chunk lengths for which buffers are left: 16 threads with chunks of 128³ values of binary32. With a quarter of that, writes and reads of
    /// such chunks are a quarter slower. The buffers take up to 17 times as much memory.
    const MOST_CHUNK_BYTES: usize = 128 << 20;

    struct Left {
        #[expect(clippy::vec_box, reason = "a thread keeps a box, and to make one takes memory, which may be refused")]
        buffers: Vec<Box<Buffers>>,
        chunk_bytes: usize,
    }

    static LEFT: Mutex<Left> = Mutex::new(Left { buffers: Vec::new(), chunk_bytes: 0 });

    /// The lock, which is held for some 100 ns at a time. `None` after many tries: in a child that was forked while a thread had the lock, it is never free.
    fn lock() -> Option<MutexGuard<'static, Left>> {
        const TRIES: usize = 1000;
        (0..TRIES).find_map(|_| {
            let left = LEFT.try_lock().ok();
            if left.is_none() {
                std::thread::yield_now();
            }
            left
        })
    }

    pub(super) fn take() -> Option<Box<Buffers>> {
        let mut left = lock()?;
        let buffers = left.buffers.pop()?;
        left.chunk_bytes -= buffers.longest;
        Some(buffers)
    }

    pub(super) fn leave(buffers: Box<Buffers>) {
        let Some(mut left) = lock() else { return };
        let longest = buffers.longest;
        if longest <= MOST_CHUNK_BYTES - left.chunk_bytes && memory::push(&mut left.buffers, buffers).is_ok() {
            left.chunk_bytes += longest;
        }
    }
}

/// Each thread's buffers.
mod per_thread {
    use std::sync::OnceLock;

    use super::Buffers;
    use crate::platform::ThreadKey;

    /// The key, or `None` where the process has no more of them: every call has new buffers then.
    fn key() -> Option<ThreadKey> {
        static KEY: OnceLock<Option<ThreadKey>> = OnceLock::new();
        *KEY.get_or_init(ThreadKey::for_boxes::<Buffers>)
    }

    /// Takes the thread's buffers, if there are any.
    pub(super) fn take() -> Option<Box<Buffers>> {
        let key = key()?;
        let address = key.get();
        if address.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `keep`, and is not kept any more.
        unsafe {
            key.set(std::ptr::null());
            Some(Box::from_raw(address.cast()))
        }
    }

    /// Leaves buffers for the thread's next call; without room to note where they are they are freed.
    pub(super) fn keep(buffers: Box<Buffers>) {
        let address = Box::into_raw(buffers);
        // SAFETY: from a box, and known to nobody else.
        if key().is_none_or(|key| !unsafe { key.set(address.cast()) }) {
            // SAFETY: as above, and not kept.
            drop(unsafe { Box::from_raw(address) });
        }
    }
}

/// Frees what [`leave_buffers`] has left, so that the next threads begin without.
#[cfg(test)]
pub(crate) fn free_left_buffers() {
    while left_behind::take().is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the thread's buffers have a stream that a test has put there. Threads of other tests leave theirs, too.
    fn has(mark: &[u8]) -> bool {
        with_kept_buffers(|kept| Result::Ok(kept.stream == mark)).expect("memory")
    }

    fn put(mark: &[u8]) {
        with_kept_buffers(|kept| {
            kept.stream.clear();
            quire_codec::memory::extend(&mut kept.stream, mark)
        })
        .expect("memory");
    }

    fn in_a_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| scope.spawn(body).join().expect("joins"))
    }

    #[test]
    fn a_thread_begins_with_what_another_one_left() {
        let is_left = |mark: &[u8], chunk_bytes: usize| {
            in_a_thread(|| {
                put(mark);
                leave_buffers(chunk_bytes);
            });
            (0..100).any(|_| in_a_thread(|| has(mark)))
        };
        // Threads of other tests may take them.
        assert!((0..100).any(|_| is_left(b"of a thread that has ended", 1)));
        assert!(!is_left(b"of a long chunk", usize::MAX));
    }

    #[test]
    fn buffers_are_kept_by_thread_and_lost_by_a_panic() {
        const OURS: &[u8] = b"of this thread";
        in_a_thread(|| {
            put(OURS);
            assert!(has(OURS));
            assert!(!in_a_thread(|| has(OURS)));
            assert!(contain(|| with_kept_buffers(|_| -> Result<()> { panic!("a test's") })).is_err());
            assert!(!has(OURS));
        });
    }
}
