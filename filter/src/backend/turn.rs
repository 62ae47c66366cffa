//! Who may use a card: with `auto`, a chunk goes there if there is a place for one more process.
//!
//! ```text
//! chunk ─> a thread of this process is there ─ yes ────────────────────────────────────────────> GPU
//!                    │ no                                                                         │
//!                    └─> lock a place of /dev/nvidiaN, without waiting ─ all are held ─> CPU      └─ last thread: unlock
//! ```
//!
//! The GPU runs one process's work at a time, so that processes that send it all their chunks wait for one another while their own cores do nothing.
//! But a process also copies its chunk into pinned memory and its stream out of it, and does whatever it does between chunks; meanwhile another one's
//! chunk can be computed. So a card has [`places`], the more the longer chunks are.
//!
//! Place 0 is `flock` of the device file, the others are locks of one byte each (`F_OFD_SETLK`), which is independent of it. The file is the card's own: it is
//! always there, all users and containers that have it from the host have the same one, and the kernel unlocks it when a process ends in any way. A
//! lock and its release take 1 us and 2 us on Linux 6.18, a chunk of 64^3 on the GPU 340 us.
//!
//! Under MPS the card works for several processes at once, and a lock would keep them apart: see [`Pace`].

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use quire_gpu::{Contexts, Device};

use super::pace::Pace;
use super::{Direction, Obstacle, log_once};
use crate::message::{Message, OsError};

/// Bytes of the uncompressed chunk from which on more processes may use a card.
const LONG_CHUNK: usize = 4 << 20;

/// How many processes may use a card at once for chunks of this length, by a sum of GB/s on an H100 with 16 threads (1e-3, alone):
///
/// | processes | chunks | CPU | 1 place | 2 places | 4 places | all on the GPU |
/// |---|---|---|---|---|---|---|
/// | 2 | 64^3 f32 | 1.2 | 3.4 | 3.7 | | 3.6 |
/// | 4 | 64^3 f32 | 2.7 | 4.4 | 4.9 | | 2.7 |
/// | 16 | 64^3 f32 | 9.6 | 9.2 | 10.2 | | 2.6 |
/// | 2 | 128^3 f32 | 2.0 | 5.9 | 9.4 | | 7.8 |
/// | 4 | 128^3 f32 | 3.8 | 9.0 | 11.6 | = all | 14.7 |
/// | 16 | 128^3 f32 | 9.8 | 13.7 | 15.6 | | 17.6 |
///
/// The GPU changes from process to process some 2500 times a second, however long the chunks are; the host's part of a chunk grows with its length.
fn places(chunk_bytes: usize) -> usize {
    if chunk_bytes < LONG_CHUNK { 2 } else { 4 }
}

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
        Rule::Lock(_) => "unless other processes keep it busy",
        Rule::Pace => "while it is faster than the CPU, as processes share it by MPS",
        Rule::None => "whoever else is using it, as it cannot be locked",
    }
}

impl Turn {
    /// Leave for a chunk, if the card is free for it.
    pub(super) fn take(device: &'static Device, direction: Direction, chunk_bytes: usize) -> Result<Self, Obstacle> {
        match rule(device) {
            Rule::Lock(lock) => lock.take(places(chunk_bytes)).map(|is_held| Self(is_held.then_some(lock))),
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

/// The card's device file, of which a place is locked while threads of this process use the card.
struct CardLock {
    file: File,
    users: Mutex<Users>,
}

/// Threads of this process that use the card, and the place that they have while there are any.
#[derive(Default)]
struct Users {
    threads: usize,
    place: usize,
}

impl CardLock {
    /// Opens the device file of the card with this address on the PCI bus.
    fn open(bus_id: Option<&str>) -> Result<Self, NoLock> {
        let facts = path(format_args!("/proc/driver/nvidia/gpus/{}/information", bus_id.ok_or(NoLock::BusUnknown)?));
        let facts = File::open(facts.as_str()).map_err(|error| NoLock::FactsUnreadable(os_error(&error)))?;
        let minor = device_minor(facts).ok_or(NoLock::MinorMissing)?;
        let device = path(format_args!("/dev/nvidia{minor}"));
        Self::of_file(device.as_str()).map_err(|error| NoLock::FileUnavailable(minor, os_error(&error)))
    }

    /// Who may not write to the file can have place 0 alone.
    fn of_file(path: &str) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path).or_else(|_| File::open(path))?;
        Ok(Self { file, users: Mutex::default() })
    }

    /// Whether one of the first `places` is held now, for one more thread. Where the system refuses to lock, nothing is held and the card is used.
    fn take(&self, places: usize) -> Result<bool, Obstacle> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.threads == 0 {
            users.place = match self.file.try_lock() {
                Ok(()) => 0,
                Err(TryLockError::WouldBlock) => (1..places).find(|&place| self.lock_byte(place, true)).ok_or(Obstacle::Busy)?,
                Err(TryLockError::Error(error)) => {
                    drop(users);
                    log_once(format_args!(
                        "no lock on the GPU, which other processes may be using: its device file cannot be locked: {error}"
                    ));
                    return Ok(false);
                }
            };
        }
        users.threads += 1;
        Ok(true)
    }

    fn give_back(&self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.threads -= 1;
        if users.threads == 0 {
            // In so many words, not by closing: a forked child may have the file open as well. What cannot be locked could not be locked before.
            match users.place {
                0 => drop(self.file.unlock()),
                place => drop(self.lock_byte(place, false)),
            }
        }
    }

    /// Locks a byte of the file, or unlocks it. False where another process has it, and where the system has no such locks.
    fn lock_byte(&self, place: usize, is_to_be_locked: bool) -> bool {
        let kind = if is_to_be_locked { libc::F_WRLCK } else { libc::F_UNLCK };
        // SAFETY: numbers alone, of which 0 is one. Such a lock wants `l_pid` to be 0.
        let mut byte: libc::flock = unsafe { std::mem::zeroed() };
        (byte.l_type, byte.l_whence, byte.l_len) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short, 1);
        byte.l_start = place as libc::off_t;
        // SAFETY: the file is open, and the call reads the structure.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const byte) == 0 }
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

fn os_error(error: &io::Error) -> OsError {
    OsError(error.raw_os_error().unwrap_or(0))
}

/// A path on the stack: std copies long paths alone.
fn path(text: fmt::Arguments<'_>) -> Message<128> {
    Message::new(text)
}

/// The number N of a card's `/dev/nvidiaN`, from what the driver says of the card: the line of "Device Minor".
fn device_minor(mut facts: impl io::Read) -> Option<u32> {
    let mut bytes = [0; 4096];
    let mut length = 0;
    while length < bytes.len() {
        match facts.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
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
    fn threads_of_a_process_share_its_place_and_other_files_wait_for_none() {
        let path = std::env::temp_dir().join(format!("quire-turn-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let open = || CardLock::of_file(path.to_str().expect("a path")).expect("it is there");
        let (ours, theirs, third) = (open(), open(), open());
        assert_eq!([ours.take(1).ok(), ours.take(1).ok()], [Some(true), Some(true)]);
        assert!(matches!(theirs.take(1), Err(Obstacle::Busy)));
        ours.give_back();
        assert!(matches!(theirs.take(1), Err(Obstacle::Busy)), "a thread is still there");
        assert_eq!(
            [theirs.take(2).ok(), theirs.take(1).ok()],
            [Some(true), Some(true)],
            "the second place, and then the process is there"
        );
        assert!(matches!(third.take(2), Err(Obstacle::Busy)));
        assert_eq!(third.take(4).ok(), Some(true));
        ours.give_back();
        theirs.give_back();
        assert_eq!(ours.take(1).ok(), Some(true));
        assert!(matches!(open().take(2), Err(Obstacle::Busy)), "a thread is still in the second place");
        theirs.give_back();
        assert_eq!(theirs.take(2).ok(), Some(true));
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn longer_chunks_have_more_places() {
        assert_eq!([1 << 20, LONG_CHUNK - 1, LONG_CHUNK, 8 << 20].map(places), [2, 2, 4, 4]);
    }
}
