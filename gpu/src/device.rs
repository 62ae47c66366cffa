//! A GPU of this process: context, kernels and tables, opened once; sessions, lent to callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, result};
use once_cell::sync::OnceCell;
use quire_codec::memory;

use crate::KERNELS_BUILT;
use crate::card::Card;
use crate::error::{Context as _, Error, Reason, Result, kernels_not_built, reason};
use crate::images::CUDA;
use crate::launch::{FUNCTIONS, ThreadGuard, driver_is_present, driver_version, has_function, open_context};
use crate::loaded::Loaded;
use crate::memory::{PinnedMemory, device_of};
use crate::session::Session;
use crate::set_session::{MAX_SET_SESSIONS, SetSession};
use crate::statistics::CONTEXTS;

/// Most devices that a process can use, numbered from 0.
const MAX_DEVICES: usize = 64;
/// Sessions of a device at once: enough to keep it busy, few enough to bound memory. Further callers wait.
const MAX_SESSIONS: usize = 8;
/// Stagings of a device at once: two for each session. The host fills or empties one while the other one's chunk is on the device.
pub(crate) const MAX_STAGINGS: usize = 2 * MAX_SESSIONS;
/// Least time between two attempts to open a device for which there is no memory.
const RETRY: Duration = Duration::from_secs(10);
/// A failure to open a device counts as lasting only where malloc still has this many bytes. Otherwise the driver may have lacked memory as well. It reports
/// that in many ways, such as a library that is not found.
const OPENING_BYTES: usize = 128 << 20;

static DEVICES: [OnceCell<Device>; MAX_DEVICES] = [const { OnceCell::new() }; MAX_DEVICES];
/// Why devices could not be opened, and when that was found.
static FAILURES: Mutex<Vec<(usize, Error, Instant)>> = Mutex::new(Vec::new());
/// The process that has asked for a device; 0 if none has, or if there is no driver. A forked child cannot use its parent's CUDA context, and may wait for ever
/// for a lock that a thread of the parent held.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A GPU with everything that is kept from call to call.
pub struct Device {
    loaded: Loaded,
    name: String,
    card: Card,
    sessions: Pool<Session>,
    set_sessions: Pool<SetSession>,
    stagings: Pool<PinnedMemory>,
    failure: OnceCell<Reason>,
    pub(crate) pair_buffers: PairBuffers,
}

/// Memory of the host for the values of chunks of pairs, kept from call to call: one piece for each caller that there was at a time.
#[derive(Default)]
pub(crate) struct PairBuffers(Mutex<Vec<Vec<u8>>>);

impl PairBuffers {
    /// Calls `body` with room for `len` bytes.
    pub(crate) fn with<R>(&self, len: usize, body: impl FnOnce(&mut [u8]) -> Result<R>) -> Result<R> {
        let buffers = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = buffers().pop().unwrap_or_default();
        let outcome = memory::resize(&mut buffer, len).map_err(Error::from).and_then(|()| body(&mut buffer));
        // Without memory to keep it, the buffer is freed.
        let _ = memory::push(&mut buffers(), buffer);
        outcome
    }
}

/// What a device lends to one caller at a time.
pub(crate) trait Lent: 'static {
    /// Waits for all that was started with it.
    fn wait(&self) -> Result<()>;
}

impl Lent for Session {
    fn wait(&self) -> Result<()> {
        Self::wait(self)
    }
}

impl Lent for SetSession {
    fn wait(&self) -> Result<()> {
        Self::wait(self)
    }
}

/// Things to lend, made when they are first asked for. Callers wait where `most` are in use.
pub(crate) struct Pool<T> {
    pub(crate) idle: Mutex<Idle<T>>,
    returned: Condvar,
    most: usize,
}

/// The things that are not lent, and the number of all things.
pub(crate) struct Idle<T> {
    pub(crate) things: Vec<T>,
    pub(crate) made: usize,
}

impl<T> Pool<T> {
    /// A pool of up to `most` things, of which one may be made already.
    fn new(most: usize, first: Option<T>) -> Result<Self> {
        let (mut things, made) = (Vec::new(), usize::from(first.is_some()));
        // Giving back must not fail.
        memory::reserve(&mut things, most)?;
        things.extend(first);
        Ok(Self { idle: Mutex::new(Idle { things, made }), returned: Condvar::new(), most })
    }

    fn lock(&self) -> MutexGuard<'_, Idle<T>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a device, or finds it open.
///
/// # Errors
/// `Unavailable` or `OutOfMemory`, with the reason; `Failed` where the trial of the kernels has failed. Lasting reasons are found once a process.
pub fn device(ordinal: usize) -> Result<&'static Device> {
    device_in_steps(ordinal, &|| true)
}

/// The device of [`device`], opened in steps of up to a few tenths of a second. Between steps, `go_on` says whether to continue, so that a process that is
/// about to end need not wait.
///
/// # Errors
/// `Unavailable` or `OutOfMemory`, with the reason; `Failed` where the trial of the kernels has failed. Lasting reasons are found once a process.
pub fn device_in_steps(ordinal: usize, go_on: &dyn Fn() -> bool) -> Result<&'static Device> {
    let first = first_process()?;
    let Some(slot) = DEVICES.get(ordinal) else {
        return Err(Error::Unavailable(reason!("there is no GPU {ordinal}: numbers go up to {}", MAX_DEVICES - 1)));
    };
    if let Some(device) = slot.get() {
        return match device.failure.get() {
            Some(reason) => Err(Error::Unavailable(reason!("the GPU failed earlier in this process: {reason}"))),
            None => Ok(device),
        };
    }
    // Noted before any lock is taken: a child that is forked meanwhile must not wait for a lock that no thread of it will release.
    if first == 0 {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
    }
    let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error, since)) = failures.iter().find(|(failed, ..)| *failed == ordinal)
        && (!matches!(error, Error::OutOfMemory(_)) || since.elapsed() < RETRY)
    {
        return Err(error.clone());
    }
    failures.retain(|(failed, ..)| *failed != ordinal);
    slot.get_or_try_init(|| Device::open(ordinal, go_on)).inspect_err(|error| {
        // The host may have memory again later. So a lack of it is not noted, and neither is a reason that there was no memory to copy.
        let note = error.clone();
        if error.can_be_noted() && note == *error {
            let _ = memory::push(&mut failures, (ordinal, note, Instant::now()));
        }
        // Without a driver a fork does no harm, and its children should hear the true reason.
        if !KERNELS_BUILT || !driver_is_present() {
            PROCESS.store(0, Ordering::Relaxed);
        }
    })
}

/// Whether this process was forked from one that had asked for a device: it has none.
#[must_use]
pub fn is_forked() -> bool {
    first_process().is_err()
}

/// The process that has asked for a device, or 0.
///
/// # Errors
/// `Unavailable` in a process that was forked from it.
fn first_process() -> Result<u32> {
    let first = PROCESS.load(Ordering::Relaxed);
    if first != 0 && first != std::process::id() {
        return Err(Error::Unavailable(reason!(
            "this process was forked from process {first} after that had used the GPU: CUDA does not work here; start workers with spawn"
        )));
    }
    Ok(first)
}

/// The number of devices that the driver shows this process. 0 where it shows none, and where it cannot be asked: [`device`] then has the reason. The driver is
/// looked for and asked once: a look for one that is not there takes half a millisecond.
#[must_use]
pub fn visible_devices() -> usize {
    static COUNT: OnceCell<usize> = OnceCell::new();
    if !KERNELS_BUILT {
        return 0;
    }
    let Ok(first) = first_process() else { return 0 };
    if let Some(count) = COUNT.get() {
        return *count;
    }
    let count = ask_driver(first, || usize::try_from(CudaContext::device_count().ok()?).ok()).unwrap_or(0);
    // For lack of memory, a driver may not be found, or show no devices.
    if count == 0 && Vec::<u8>::new().try_reserve_exact(OPENING_BYTES).is_err() {
        return 0;
    }
    *COUNT.get_or_init(|| count)
}

/// The card that a device is on. Starts the driver, and opens nothing. `None` where the driver does not say: [`device`] then has the reason.
#[must_use]
pub fn card(ordinal: usize) -> Option<Card> {
    if !KERNELS_BUILT {
        return None;
    }
    ask_driver(first_process().ok()?, || {
        result::init().ok()?;
        let device = result::device::get(ordinal.try_into().ok()?).ok()?;
        Some(Card::new(device, &result::device::get_name(device).ok()?))
    })
}

/// Asks the driver, if there is one. `first` is the process that has asked for a device before, or 0.
fn ask_driver<T>(first: u32, question: impl FnOnce() -> Option<T>) -> Option<T> {
    // As in `device_in_steps`: noted before the driver is touched.
    if first == 0 {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
    }
    if !driver_is_present() {
        PROCESS.store(0, Ordering::Relaxed);
        return None;
    }
    // cudarc panics where a function is missing. What a panic leaves behind is not looked at again.
    has_function("cuInit").then(|| catch_unwind(AssertUnwindSafe(question)).ok().flatten()).flatten()
}

/// The number of the device in whose memory an address is; `None` for the host's memory. Asks the driver, which must be loaded already: without it no address
/// is of a device.
#[must_use]
pub fn device_of_address(address: u64) -> Option<usize> {
    let knows = || driver_is_present() && has_function("cuPointerGetAttribute");
    if first_process().is_ok() && knows() { device_of(address) } else { None }
}

/// Frees the codec's workspaces that sessions of open devices keep on the host, unless a call is using them. For tests that look for leaks: which thread works
/// on which chunk, and lets its workspace grow, differs from call to call.
#[doc(hidden)]
pub fn free_workspaces() {
    for device in DEVICES.iter().filter_map(OnceCell::get) {
        for session in &mut device.sessions.lock().things {
            session.free_workspace();
        }
        for session in &mut device.set_sessions.lock().things {
            session.workspaces = Vec::new();
        }
    }
}

/// The error for a driver without a function that this crate calls.
fn too_old(missing: &str) -> Error {
    Error::Unavailable(reason!("the NVIDIA driver is too old: it lacks {missing} (CUDA 12.0 has it)"))
}

impl Device {
    fn open(ordinal: usize, go_on: &dyn Fn() -> bool) -> Result<Self> {
        if !KERNELS_BUILT {
            return Err(kernels_not_built());
        }
        Self::open_if_present(ordinal, go_on).map_err(|error| match error {
            Error::Unavailable(_) | Error::Failed(_) if Vec::<u8>::new().try_reserve_exact(OPENING_BYTES).is_err() => {
                Error::NoHostMemory(OPENING_BYTES as u64)
            }
            error => error,
        })
    }

    fn open_if_present(ordinal: usize, go_on: &dyn Fn() -> bool) -> Result<Self> {
        if !driver_is_present() {
            return Err(Error::Unavailable(Reason::from("there is no NVIDIA driver: libcuda.so is not found")));
        }
        // cudarc panics where a function is missing. A look for functions spares the user the panic's message.
        if !has_function("cuInit") {
            return Err(too_old("cuInit"));
        }
        // What a panic leaves behind is not looked at again.
        catch_unwind(AssertUnwindSafe(|| Self::open_with_driver(ordinal, go_on))).unwrap_or_else(|_| Err(too_old("a function")))
    }

    fn open_with_driver(ordinal: usize, go_on: &dyn Fn() -> bool) -> Result<Self> {
        let step = || if go_on() { Ok(()) } else { Err(Error::Unavailable(Reason::from("the process ends"))) };
        step()?;
        // A failure here is lasting, except for a lack of memory.
        let lasting = |error| match error {
            Error::Failed(reason) => Error::Unavailable(reason),
            other => other,
        };
        result::init().context("starting the NVIDIA driver").map_err(lasting)?;
        step()?;
        let count = CudaContext::device_count().context("counting GPUs").map_err(lasting)?;
        if ordinal as i64 >= i64::from(count) {
            return Err(Error::Unavailable(reason!("there is no GPU {ordinal}: the driver shows {count}, numbered from 0")));
        }
        if let (Some(driver), Some((compiler, _))) = (driver_version(), CUDA)
            && driver.0 < compiler
        {
            let (major, minor) = driver;
            return Err(Error::Unavailable(reason!(
                "the NVIDIA driver is too old: it is of CUDA {major}.{minor}, and the kernels need one of CUDA {compiler}.0 or newer"
            )));
        }
        if let Some(missing) = FUNCTIONS.into_iter().find(|name| !has_function(name)) {
            return Err(too_old(missing));
        }
        let _thread = ThreadGuard::new();
        let context = open_context(ordinal).context("opening a CUDA context").map_err(lasting)?;
        step()?;
        let name = context.name().context("asking for the GPU's name").map_err(lasting)?;
        let card = Card::new(context.cu_device(), &name);
        let loaded = Loaded::new(context).map_err(lasting)?;
        step()?;
        let mut session = Session::new(&loaded)?;
        // `Failed` stays what it is: the user is told that a GPU which can be opened fails the trial.
        session.try_kernels(&loaded)?;
        step()?;
        let sessions = Pool::new(MAX_SESSIONS, Some(session))?;
        let (set_sessions, stagings) = (Pool::new(MAX_SET_SESSIONS, None)?, Pool::new(MAX_STAGINGS, None)?);
        CONTEXTS.fetch_add(1, Ordering::Relaxed);
        let (failure, pair_buffers) = (OnceCell::new(), PairBuffers::default());
        Ok(Self { loaded, name, card, sessions, set_sessions, stagings, failure, pair_buffers })
    }

    /// The driver's name for the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The card that the device is on.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.card
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    pub(crate) fn stagings(&self) -> &Pool<PinnedMemory> {
        &self.stagings
    }

    /// A session for one caller; waits where all are in use.
    pub(crate) fn lease(&'static self) -> Result<Lease<Session>> {
        Lease::take(self, &self.sessions, Session::new)
    }

    /// A session for one set of a batch at a time; waits where all are in use.
    pub(crate) fn lease_set_session(&'static self) -> Result<Lease<SetSession>> {
        Lease::take(self, &self.set_sessions, SetSession::new)
    }
}

/// A session in use, of either kind. Given back when dropped, unless something went wrong.
pub(crate) struct Lease<T: Lent> {
    device: &'static Device,
    pool: &'static Pool<T>,
    lent: Option<T>,
    sound: bool,
    /// Whether the caller has waited for all that was started.
    ended: bool,
    _thread: ThreadGuard,
}

impl<T: Lent> Lease<T> {
    fn take(device: &'static Device, pool: &'static Pool<T>, make: impl Fn(&Loaded) -> Result<T>) -> Result<Self> {
        let mut lease = Self { device, pool, lent: None, sound: true, ended: false, _thread: ThreadGuard::new() };
        let mut idle = pool.lock();
        loop {
            lease.lent = idle.things.pop();
            if lease.lent.is_some() {
                return Ok(lease);
            }
            if idle.made < pool.most {
                break;
            }
            idle = pool.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
        idle.made += 1;
        drop(idle);
        let made = make(&device.loaded);
        lease.lent = Some(lease.check(made)?);
        Ok(lease)
    }

    /// The session that the lease lends.
    pub(crate) fn lent(&mut self) -> &mut T {
        #[expect(clippy::unwrap_used, reason = "only `drop` takes it, and `Lease::take` hands out no lease without it")]
        self.lent.as_mut().unwrap()
    }

    /// Takes note of failures. After one, what is lent is in an unknown state and not used again, and neither is a device whose driver failed.
    pub(crate) fn check<R>(&mut self, result: Result<R>) -> Result<R> {
        match &result {
            Err(Error::Failed(reason)) => {
                self.sound = false;
                let _ = self.device.failure.set(reason.clone());
            }
            Err(Error::OutOfMemory(_) | Error::NoHostMemory(_)) => self.sound = false,
            _ => {}
        }
        result
    }

    /// Takes note that the caller has waited for all work that was started. After a failure, the lease itself waits for that work when it is dropped.
    pub(crate) fn end<R>(&mut self, result: Result<R>) -> Result<R> {
        self.ended = result.is_ok();
        self.check(result)
    }

    pub(crate) fn device(&self) -> &'static Device {
        self.device
    }
}

impl<T: Lent> Drop for Lease<T> {
    fn drop(&mut self) {
        // The next caller may use the memory only when the GPU has ended its work on it.
        let has_ended = |lent: &T| self.ended || lent.wait().is_ok();
        let lent = self.lent.take().filter(|lent| has_ended(lent) && self.sound && !std::thread::panicking());
        let mut idle = self.pool.lock();
        match lent {
            Some(lent) => idle.things.push(lent),
            None => idle.made -= 1,
        }
        drop(idle);
        self.pool.returned.notify_one();
    }
}
