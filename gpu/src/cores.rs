//! Whether cores are free for threads that help the caller's. Where no core is idle, the caller would wait for its helpers longer than it takes to do their
//! work.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a count is used. To count takes some microseconds.
const VALID: Duration = Duration::from_millis(5);

/// The machine's cores less its threads that run or wait for a core. A number above that of any machine where the system does not say.
#[must_use]
pub fn idle_cores() -> usize {
    static START: OnceLock<Instant> = OnceLock::new();
    // The count in the lower 32 bits, above it the number of the period in which it was made, from 1 on.
    static COUNTED: AtomicU64 = AtomicU64::new(0);
    let period = (START.get_or_init(Instant::now).elapsed().as_nanos() / VALID.as_nanos()) as u64 + 1;
    let counted = COUNTED.load(Ordering::Relaxed);
    if counted >> 32 == period {
        return counted as u32 as usize;
    }
    let idle = count().unwrap_or(usize::MAX).min(u32::MAX as usize);
    COUNTED.store(period << 32 | idle as u64, Ordering::Relaxed);
    idle
}

/// Callers at present that have threads on all cores.
static CALLERS: AtomicUsize = AtomicUsize::new(0);

/// A caller that has threads on all cores, as transfers of whole arrays have. Copies of chunks then get no helpers, as helpers would wait for a core. Without
/// them, 16 threads of an H100's host read chunks of 128³ at 31 to 33 GB/s in place of 26 to 28. The count of idle cores may be too old to show such callers.
pub(crate) struct CoresTaken(());

impl CoresTaken {
    pub(crate) fn new() -> Self {
        CALLERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for CoresTaken {
    fn drop(&mut self) {
        CALLERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether there is a [`CoresTaken`].
pub(crate) fn cores_are_taken() -> bool {
    CALLERS.load(Ordering::Relaxed) > 0
}

fn count() -> Option<usize> {
    let mut text = [0; 128];
    let length = File::open("/proc/loadavg").and_then(|mut file| file.read(&mut text)).ok()?;
    Some(cores()?.saturating_sub(running(&text[..length])?))
}

/// The machine's cores.
#[cfg(unix)]
fn cores() -> Option<usize> {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()
}

/// Nobody asks: Windows does not say either how many threads run.
#[cfg(not(unix))]
fn cores() -> Option<usize> {
    None
}

/// The threads that run or wait for a core, the caller's among them, in what Linux says of its load: `0.20 0.18 0.12 1/80 11206`. A sandbox may say 0.
fn running(load: &[u8]) -> Option<usize> {
    let threads = std::str::from_utf8(load).ok()?.split(' ').nth(3)?;
    threads.split_once('/')?.0.parse().ok().filter(|&running| running > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_threads_are_read_from_the_load() {
        assert_eq!(running(b"0.20 0.18 0.12 17/80 11206\n"), Some(17));
        for strange in ["", "0.20", "0.00 0.00 0.00 0/0 0\n", "0.20 0.18 0.12 -1/80 7", "0.20 0.18 0.12 1", "\u{20}\u{20}\u{20}/"]
        {
            assert_eq!(running(strange.as_bytes()), None, "{strange}");
        }
    }

    #[test]
    fn the_callers_core_is_not_idle() {
        // A sandbox says nothing of its load.
        assert!(count().is_none_or(|idle| Some(idle) < cores()));
    }
}
