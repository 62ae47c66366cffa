//! Who may use a card: with `auto`, a chunk goes there if no other process is using it.
//!
//! ```text
//! chunk ─> a thread of this process is there ─ yes ────────────────────────────────────────> GPU
//!                    │ no                                                                     │
//!                    └─> flock of /dev/nvidiaN, without waiting ─ held by another ─> CPU      └─ last thread: unlock
//! ```
//!
//! The GPU runs one process's work at a time, so that processes that send it all their chunks wait for one another while their own cores do nothing.
//! The file is the card's own: it is always there, all users and containers that have it from the host have the same one, and the kernel unlocks it
//! when a process ends in any way.
//!
//! Under MPS the card works for several processes at once, and a lock would keep them apart: see [`Pace`].

use std::fmt;
use std::fs::{File, TryLockError};
use std::sync::{Mutex, OnceLock, PoisonError};

use quire_gpu::{Contexts, Device};

use super::pace::Pace;
use super::{Direction, Obstacle, log_once};
use crate::message::{Message, OsError};

/// Leave to use the card, until this is dropped.
pub(super) struct Turn(Option<&'static CardLock>);

/// The rule for the card of this process.
enum Rule {
    Lock(CardLock),
    Pace,
    /// Every chunk goes there.
    None,
}

/// The rule for a device. A process uses one.
fn rule(device: &'static Device) -> &'static Rule {
    static RULE: OnceLock<Rule> = OnceLock::new();
    // No fork finds this locked in a child that comes here: a child of a process with a device has none.
    RULE.get_or_init(|| match device.card().contexts() {
        // Unit tests run processes beside one another, and count what the card has done in each.
        _ if cfg!(test) => Rule::None,
        Contexts::ShareByMps => Rule::Pace,
        Contexts::HaveSlices => {
            log_once(format_args!(
                "no lock on the GPU: this process has a slice of it (MIG), and cannot tell with whom it shares the slice"
            ));
            Rule::None
        }
        Contexts::TakeTurns => match CardLock::open(device.card().bus_id()) {
            Ok(lock) => Rule::Lock(lock),
            Err(reason) => {
                log_once(format_args!("no lock on the GPU, which other processes may be using: {reason}"));
                Rule::None
            }
        },
    })
}

/// What the rule is, in words, as `quire_info` and `quire doctor` say it.
pub(super) fn describe(device: &'static Device) -> &'static str {
    match rule(device) {
        Rule::Lock(_) => "while no other process is using it",
        Rule::Pace => "while it is faster than the CPU, as processes share it by MPS",
        Rule::None => "whoever else is using it, as it cannot be locked",
    }
}

impl Turn {
    /// Leave for a chunk, if the card is free for it.
    pub(super) fn take(device: &'static Device, direction: Direction) -> Result<Self, Obstacle> {
        match rule(device) {
            Rule::Lock(lock) => lock.take().map(|is_held| Self(is_held.then_some(lock))),
            Rule::Pace if Pace::of(direction).prefers_cpu() => Err(Obstacle::Slower),
            Rule::Pace | Rule::None => Ok(Self(None)),
        }
    }

    /// Leave that nobody is asked for.
    pub(super) fn of_right() -> Self {
        Self(None)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            lock.give_back();
        }
    }
}

/// The card's device file, and how many of this process's threads use the card. The file is locked while there are any.
struct CardLock {
    file: File,
    users: Mutex<usize>,
}

impl CardLock {
    /// Opens the device file of the card with this address on the PCI bus.
    fn open(bus_id: Option<&str>) -> Result<Self, NoLock> {
        let facts = path(format_args!("/proc/driver/nvidia/gpus/{}/information", bus_id.ok_or(NoLock::BusUnknown)?));
        let facts = File::open(facts.as_str()).map_err(|error| NoLock::FactsUnreadable(os_error(&error)))?;
        let minor = device_minor(facts).ok_or(NoLock::MinorMissing)?;
        let device = path(format_args!("/dev/nvidia{minor}"));
        let file = File::open(device.as_str()).map_err(|error| NoLock::FileUnavailable(minor, os_error(&error)))?;
        Ok(Self { file, users: Mutex::new(0) })
    }

    /// Whether the lock is held now, for one more thread. Where the system refuses to lock, nothing is held and the card is used.
    fn take(&self) -> Result<bool, Obstacle> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if *users == 0 {
            match self.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Obstacle::Busy),
                Err(TryLockError::Error(error)) => {
                    drop(users);
                    log_once(format_args!(
                        "no lock on the GPU, which other processes may be using: its device file cannot be locked: {error}"
                    ));
                    return Ok(false);
                }
            }
        }
        *users += 1;
        Ok(true)
    }

    fn give_back(&self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        *users -= 1;
        if *users == 0 {
            // In so many words, not by closing: a forked child may have the file open as well. What cannot be locked could not be locked before.
            let _ = self.file.unlock();
        }
    }
}

/// Why there is no lock for a card.
#[derive(Debug)]
enum NoLock {
    BusUnknown,
    FactsUnreadable(OsError),
    MinorMissing,
    FileUnavailable(u32, OsError),
}

impl fmt::Display for NoLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BusUnknown => formatter.write_str("the driver does not say on which bus it is"),
            Self::FactsUnreadable(error) => {
                write!(formatter, "/proc/driver/nvidia/gpus does not say which device file it has: {error}")
            }
            Self::MinorMissing => formatter.write_str("/proc/driver/nvidia/gpus names no device file for it"),
            Self::FileUnavailable(minor, error) => write!(formatter, "/dev/nvidia{minor} cannot be opened: {error}"),
        }
    }
}

fn os_error(error: &std::io::Error) -> OsError {
    OsError(error.raw_os_error().unwrap_or(0))
}

/// A path on the stack: std copies long paths alone.
fn path(text: fmt::Arguments<'_>) -> Message<128> {
    Message::new(text)
}

/// The number N of a card's `/dev/nvidiaN`, from what the driver says of the card: the line of "Device Minor".
fn device_minor(mut facts: impl std::io::Read) -> Option<u32> {
    let mut bytes = [0; 4096];
    let mut length = 0;
    while length < bytes.len() {
        match facts.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Device Minor:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_the_minor_number_that_the_driver_says() {
        let facts =
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 33\nBus Location: \t 0000:0f:00.0\nDevice Minor: \t 3\nGPU Excluded:\t No\n";
        assert_eq!(device_minor(facts.as_bytes()), Some(3));
        for strange in ["", "Device Minor:\n", "Device Minor: \t -1\n", "Device Minor: \t ../../etc\n", "Minor: 3\n"] {
            assert_eq!(device_minor(strange.as_bytes()), None, "{strange}");
        }
    }

    #[test]
    fn a_card_without_files_has_no_lock_and_a_reason() {
        let words = "/proc/driver/nvidia/gpus does not say which device file it has: ";
        for (bus_id, words) in [(None, "the driver does not say on which bus it is"), (Some("ffff:ff:ff.f"), words)] {
            let reason = CardLock::open(bus_id).err().expect("no such card").to_string();
            assert!(reason.starts_with(words), "{reason}");
        }
    }

    #[test]
    fn threads_of_a_process_share_its_lock_and_other_files_wait_for_none() {
        let path = std::env::temp_dir().join(format!("quire-turn-{}", std::process::id()));
        let open = || CardLock { file: File::create(&path).expect("a file"), users: Mutex::new(0) };
        let (ours, theirs) = (open(), open());
        assert_eq!([ours.take().ok(), ours.take().ok()], [Some(true), Some(true)]);
        assert!(matches!(theirs.take(), Err(Obstacle::Busy)));
        ours.give_back();
        assert!(matches!(theirs.take(), Err(Obstacle::Busy)), "a thread is still there");
        ours.give_back();
        assert_eq!(theirs.take().ok(), Some(true));
        assert!(matches!(ours.take(), Err(Obstacle::Busy)));
        std::fs::remove_file(path).expect("there");
    }
}
