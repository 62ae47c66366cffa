//! When a process opens the GPU that `auto` may use: beside the CPU's work, and only where there is enough of it.
//!
//! ```text
//! chunks on the CPU ─ OPEN_AFTER of work ─> a thread opens the GPU; chunks go on on the CPU ─ open, or a reason ─> chunks go to the GPU, if there is one
//! ```
//!
//! A process begins on the CPU and opens the GPU after a time T. Another process might open the GPU with its first chunk and wait until the GPU is open, which
//! takes a time C. With a CPU of c GB/s and a GPU of g GB/s, the first process is never slower if T <= C * c / (g - c). On an H200 this limit is 56 to 84 ms for
//! chunks of 64^3. A process with less work than T never opens a GPU.
//!
//! # One process after another
//!
//! The driver opens one context at a time. If 16 processes open an H100 at once, none of them has it before 2.5 s, and each computes meanwhile, on a core that
//! the chunks need. So there is a [`Gate`]: processes open the GPU one after another, and those that wait go on with the CPU's work. Then the first one has the
//! GPU after 0.7 s.
//!
//! A process opens no GPU that has no time for one more: see [`super::claim`].
//!
//! # Ranks that wait for one another
//!
//! The thread takes 0.15 to 0.25 s of a core. Where each core has a rank and ranks meet, all of them wait for the rank on that core. So in ranks of a job the
//! thread has a low priority: it gets the time in which ranks wait, and a tenth of a core besides. In their first second, 16 such ranks then compress half as
//! much again. Processes that nobody started as ranks keep their priority: they do not wait for one another, and at a low priority each opening takes six times
//! as long.
//!
//! While no core is idle, a rank's work counts a hundredth, so that the rank opens its GPU after 5 s. A job that writes for two seconds would lose time by
//! opening a GPU, and opens none. A job that writes for longer loses some tenths of a second in all.
//!
//! # The end of a process, signals and forks
//!
//! - A driver that exit() takes down while a GPU is opened may crash. So exit() waits for the step of opening that is under way, a few tenths of a second at
//!   most, and the thread begins no other step. exit() calls the functions that were registered last first. So our function is registered again before each
//!   step, and is called before the driver's functions.
//! - The thread blocks all signals: the program's handlers run on the program's threads.
//! - A forked child finds no lock that its parent holds, as this file has atomic numbers alone. [`quire_gpu::device`] tells a child that it has no GPU.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

use quire_codec::{THREAD_STACK, memory};

use super::claim::Claim;
use super::{Wait, turn};
use crate::backend::log_once;
use crate::backend::settings::Choice;

/// The CPU's work on chunks that are for a GPU after which it is opened; see the module's text.
pub(super) const OPEN_AFTER: Duration = Duration::from_millis(50);
/// How much less the work of a rank counts while no core of the machine is idle, see the module's text: 5 s of it open the GPU.
pub(super) const LESS_WHERE_BUSY: u32 = 100;
/// The niceness of the thread that opens the GPU in a rank of a job; see the module's text.
const NICENESS: libc::c_int = 10;
/// The longest that exit() waits for a driver that does not come back.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Bytes of memory without which no thread is started to open the GPU: std and glibc end the process where they have no memory for a new thread. The thread and
/// the driver take more.
const LEAST_MEMORY: usize = 64 << 20;
/// Whether there is a thread for it. Unit tests open the GPU by the first call for it.
const BESIDE: bool = !cfg!(test);

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const OVER: u8 = 2;

/// How far the opening has come.
static STATE: AtomicU8 = AtomicU8::new(WAITING);
/// The process whose state it is, once it is more than waiting. A forked child has a copy.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Nanoseconds of the CPU's work on chunks that are for a GPU.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// Whether the process ends.
static ENDS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread opens the GPU.
    static IS_OPENER: Cell<bool> = const { Cell::new(false) };
}

/// Counts the CPU's work on a chunk that is for a GPU.
pub(in crate::backend) fn note_work(choice: Choice, taken: Duration) {
    if let Some(card) = turn::known() {
        card.note_work_elsewhere(taken);
    }
    // More than enough is enough: no sum of 2^63 is reached.
    if SPENT.load(Ordering::Relaxed) < OPEN_AFTER.as_nanos() as u64 {
        let counted = if choice.is_by_rank() && quire_gpu::idle_cores() == 0 { taken / LESS_WHERE_BUSY } else { taken };
        let nanoseconds = u64::try_from(counted.as_nanos()).unwrap_or(u64::MAX);
        SPENT.fetch_add(nanoseconds.min(u64::MAX / 2), Ordering::Relaxed);
    }
}

/// Has a thread open the GPU, once the CPU has had enough work for it. After `Ok` the opening is over: to ask for the GPU takes no time.
///
/// # Errors
/// Why the CPU has this chunk.
pub(in crate::backend) fn open_if_it_pays(choice: Choice) -> Result<(), Wait> {
    match STATE.load(Ordering::Acquire) {
        _ if ENDS.load(Ordering::Relaxed) => return Err(Wait::Ending),
        OVER => return Ok(()),
        // A child that was forked meanwhile has no such thread; what becomes of its calls is for the device to say.
        RUNNING if PROCESS.load(Ordering::Relaxed) != std::process::id() => return Ok(()),
        RUNNING => return Err(Wait::Opening),
        _ => {}
    }
    if !BESIDE {
        return Ok(());
    }
    if SPENT.load(Ordering::Relaxed) < OPEN_AFTER.as_nanos() as u64 {
        return Err(Wait::LittleWork);
    }
    // The device has the reason. A child shares its parent's locks, and would unlock them.
    if quire_gpu::is_forked() {
        return Ok(());
    }
    begin(choice)
}

/// Where processes of a machine queue to open a GPU: the file that the driver has for all cards, locked by who opens one. The kernel unlocks it when a process
/// ends in any way. Where there is no such file, or no lock, nobody waits.
struct Gate(Option<File>);

impl Gate {
    fn of_this_machine() -> &'static Self {
        static GATE: OnceLock<Gate> = OnceLock::new();
        GATE.get_or_init(|| Self(File::open("/dev/nvidiactl").ok()))
    }

    /// Enters the gate, if no other process is there, without waiting. Whether the caller may open a GPU now.
    fn try_enter(&self) -> bool {
        !self.0.as_ref().is_some_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Closing would not unlock it: a forked child may have the file open as well.
    fn leave(&self) {
        let _ = self.0.as_ref().map(File::unlock);
    }
}

/// Opens the GPU beside the caller, who has the CPU for his chunk.
fn begin(choice: Choice) -> Result<(), Wait> {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    if STATE.compare_exchange(WAITING, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(Wait::Opening);
    }
    // By the thread that changed the state alone: the threads of a process share the files, and with them the locks.
    let refused = |wait| {
        STATE.store(WAITING, Ordering::Release);
        Err(wait)
    };
    let Some(claim) = Claim::on_known_card() else { return refused(Wait::Full) };
    // The compiler may leave out memory that nobody uses.
    if memory::reserve(std::hint::black_box(&mut Vec::<u8>::new()), LEAST_MEMORY).is_err() {
        drop(claim);
        return refused(Wait::LowMemory);
    }
    if !Gate::of_this_machine().try_enter() {
        drop(claim);
        return refused(Wait::OthersOpen);
    }
    match spawn(choice, claim) {
        Ok(()) => Err(Wait::Opening),
        Err(error) => {
            log_once(format_args!(
                "no thread could be started to open the GPU beside the CPU's work, which waits for it: {error}"
            ));
            drop(End(OVER));
            Ok(())
        }
    }
}

/// Lets the next process open a GPU, and changes the state, when it is dropped: a panic must not leave exit() waiting.
struct End(u8);

impl Drop for End {
    fn drop(&mut self) {
        Gate::of_this_machine().leave();
        STATE.store(self.0, Ordering::Release);
    }
}

/// Notes that the caller has asked for the GPU and waited for it, so that no thread is started for that.
pub(in crate::backend) fn note_opened_by_caller() {
    let _ = STATE.compare_exchange(WAITING, OVER, Ordering::AcqRel, Ordering::Relaxed);
}

fn spawn(choice: Choice, claim: Claim) -> std::io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are written before they are read. A new thread has its maker's mask.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let spawned = Builder::new().name("quire-open".into()).stack_size(THREAD_STACK).spawn(move || open(choice, claim));
    // SAFETY: written by the first call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    spawned.map(drop)
}

/// What the thread does. The next chunk learns from the device what came of it.
fn open(choice: Choice, claim: Claim) {
    let mut end = End(OVER);
    IS_OPENER.set(true);
    if choice.is_by_rank() {
        // SAFETY: two numbers. On Linux, they are for the calling thread alone. Where it is refused, the thread goes on as it is.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    }
    let goes_on = || {
        // SAFETY: the library is never unloaded. Where there is no room to note it, exit() does not wait.
        unsafe { libc::atexit(wait_for_the_step) };
        !ENDS.load(Ordering::Relaxed)
    };
    if !goes_on() {
        return;
    }
    // Counting the GPUs, for a local rank, starts the driver.
    let ordinal = choice.ordinal();
    let claimed = match quire_gpu::card(ordinal) {
        Some(card) => claim.on_card(&card),
        None => Some(claim),
    };
    let Some(claim) = claimed else {
        end.0 = WAITING;
        return;
    };
    let is_open = goes_on() && quire_gpu::device_in_steps(ordinal, &goes_on).is_ok();
    drop(end);
    if is_open {
        claim.keep_while_card_is_full(|| !ENDS.load(Ordering::Relaxed));
    }
}

/// Called by exit().
extern "C" fn wait_for_the_step() {
    // A forked child has no such thread, and the thread itself, should the driver end the process, cannot wait for itself.
    if PROCESS.load(Ordering::Relaxed) != std::process::id() || IS_OPENER.get() {
        return;
    }
    ENDS.store(true, Ordering::Relaxed);
    const PAUSE: Duration = Duration::from_millis(1);
    for _ in 0..LONGEST_WAIT.as_millis() {
        if STATE.load(Ordering::Acquire) != RUNNING {
            return;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_passes_the_gate() {
        let path = std::env::temp_dir().join(format!("quire-gate-{}", std::process::id()));
        let gate = || Gate(Some(File::create(&path).expect("a file")));
        let (ours, theirs) = (gate(), gate());
        assert!(ours.try_enter() && !theirs.try_enter());
        ours.leave();
        assert!(theirs.try_enter() && !ours.try_enter());
        drop(theirs);
        assert!(ours.try_enter(), "the other process has ended");
        std::fs::remove_file(path).expect("there");
        let nowhere = [Gate(None), Gate(None)];
        assert!(nowhere.iter().all(Gate::try_enter), "without the file nobody waits");
        nowhere.iter().for_each(Gate::leave);
    }
}
