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
//! chunk can be computed. So a card has [`places`], the more the longer chunks are. With MPS it works for several processes at once, and has more of them.
//!
//! Place 0 is `flock` of the device file, the others are locks of one byte each (`F_OFD_SETLK`), which is independent of it. The file is the card's own: it is
//! always there, all users and containers that have it from the host have the same one, and the kernel unlocks it when a process ends in any way. A
//! lock and its release take 1 us and 2 us on Linux 6.18, a chunk of 64^3 on the GPU 340 us.
//!
//! A process that finds no place does not ask again for [`PAUSE`]. If all processes asked for every chunk, the card would change to another process with each
//! chunk, and a change takes as long as a short chunk.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quire_gpu::{Contexts, Device};

use super::{Direction, Obstacle, log_once};
use crate::message::{Message, OsError};

/// How long a process that has found no place leaves the card to others.
const PAUSE: Duration = Duration::from_millis(10);

/// How many processes may use a card at once, for chunks of this many uncompressed bytes.
///
/// By turns, a card goes from process to process some 2500 times a second, however long chunks are. Two processes that compress 64^3 f32 are more than it has
/// time for, and a single one that decompresses them has more of it alone than two together. With chunks of 128^3 (8 MiB) 2500 a second are 20 GB/s,
/// twice what 16 cores compress. It takes 12 processes to ask for that number, as each has 4 ms of its own work with a chunk. With MPS 16 processes
/// compress 17 GB/s with 64^3 and 38 with 128^3, which is more than their cores do. But their cores decompress short chunks faster than that.
/// docs/design-notes.md has the figures ("Processes that share a GPU").
fn places(contexts: Contexts, direction: Direction, chunk_bytes: usize) -> usize {
    const MIB: usize = 1 << 20;
    match (contexts, direction) {
        (Contexts::ShareByMps, Direction::Decompress) if chunk_bytes < 4 * MIB => 4,
        (Contexts::ShareByMps, _) => 16,
        (_, Direction::Decompress) if chunk_bytes < 4 * MIB => 1,
        _ if chunk_bytes < 4 * MIB => 2,
        _ if chunk_bytes < 6 * MIB => 4,
        _ => 12,
    }
}

/// Leave to use the card, until this is dropped.
pub(super) struct Turn(Option<&'static CardLock>);

/// The lock of a device's card; none where every chunk goes there. A process uses one device.
fn lock_of(device: &'static Device) -> Option<&'static CardLock> {
    static LOCK: OnceLock<Option<CardLock>> = OnceLock::new();
    // No fork finds this locked in a child that comes here: a child of a process with a device has none.
    let lock = LOCK.get_or_init(|| match device.card().contexts() {
        // Unit tests run processes beside one another, and count what the card has done in each.
        _ if cfg!(test) => None,
        Contexts::HaveSlices => {
            log_once(format_args!(
                "no lock on the GPU: this process has a slice of it (MIG), and cannot tell with whom it shares the slice"
            ));
            None
        }
        Contexts::TakeTurns | Contexts::ShareByMps => CardLock::open(device.card().bus_id())
            .inspect_err(|reason| log_once(format_args!("no lock on the GPU, which other processes may be using: {reason}")))
            .ok(),
    });
    lock.as_ref()
}

/// When chunks go to the card, in words, as `quire_info` and `quire doctor` say it.
pub(super) fn describe(device: &'static Device) -> &'static str {
    match (lock_of(device), device.card().contexts()) {
        (Some(_), Contexts::ShareByMps) => "unless many other processes keep it busy, as processes share it by MPS",
        (Some(_), _) => "unless other processes keep it busy",
        (None, _) => "whoever else is using it, as it cannot be locked",
    }
}

impl Turn {
    /// Leave for a chunk, if the card is free for it.
    pub(super) fn take(device: &'static Device, direction: Direction, chunk_bytes: usize) -> Result<Self, Obstacle> {
        let Some(lock) = lock_of(device) else { return Ok(Self::of_right()) };
        let is_held = lock.take(places(device.card().contexts(), direction, chunk_bytes))?;
        Ok(Self(is_held.then_some(lock)))
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
    pause: Duration,
    users: Mutex<Users>,
}

/// Threads of this process that use the card, and the place that they have while there are any.
#[derive(Default)]
struct Users {
    threads: usize,
    place: usize,
    /// When the process, which has found no place, asks again.
    asks_again: Option<Instant>,
}

impl CardLock {
    /// Opens the device file of the card with this address on the PCI bus.
    fn open(bus_id: Option<&str>) -> Result<Self, NoLock> {
        let facts = path(format_args!("/proc/driver/nvidia/gpus/{}/information", bus_id.ok_or(NoLock::BusUnknown)?));
        let facts = File::open(facts.as_str()).map_err(|error| NoLock::FactsUnreadable(os_error(&error)))?;
        let minor = device_minor(facts).ok_or(NoLock::MinorMissing)?;
        let device = path(format_args!("/dev/nvidia{minor}"));
        Self::of_file(device.as_str(), PAUSE).map_err(|error| NoLock::FileUnavailable(minor, os_error(&error)))
    }

    /// Who may not write to the file can have place 0 alone.
    fn of_file(path: &str, pause: Duration) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path).or_else(|_| File::open(path))?;
        Ok(Self { file, pause, users: Mutex::default() })
    }

    /// Whether one of the first `places` is held now, for one more thread. Where the system refuses to lock, nothing is held and the card is used.
    fn take(&self, places: usize) -> Result<bool, Obstacle> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.threads == 0 {
            if users.asks_again.is_some_and(|time| Instant::now() < time) {
                return Err(Obstacle::Busy);
            }
            users.asks_again = None;
            users.place = match self.file.try_lock() {
                Ok(()) => 0,
                Err(TryLockError::WouldBlock) => match (1..places).find(|&place| self.lock_byte(place, true)) {
                    Some(place) => place,
                    None => {
                        users.asks_again = Instant::now().checked_add(self.pause);
                        return Err(Obstacle::Busy);
                    }
                },
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
            // Closing would not unlock it: a forked child may have the file open as well. What cannot be unlocked could not be locked before.
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
        let open = || CardLock::of_file(path.to_str().expect("a path"), Duration::ZERO).expect("it is there");
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
    fn a_process_that_finds_no_place_asks_again_after_a_pause() {
        let path = std::env::temp_dir().join(format!("quire-pause-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let open = |pause| CardLock::of_file(path.to_str().expect("a path"), pause).expect("it is there");
        let (ours, patient, quick) = (open(Duration::ZERO), open(Duration::from_secs(600)), open(Duration::from_millis(1)));
        assert_eq!(ours.take(1).ok(), Some(true));
        assert!([&patient, &quick].iter().all(|lock| matches!(lock.take(1), Err(Obstacle::Busy))));
        ours.give_back();
        assert!(matches!(patient.take(1), Err(Obstacle::Busy)), "the place is free, and the pause is not over");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(quick.take(1).ok(), Some(true));
        assert_eq!(quick.take(1).ok(), Some(true), "another thread");
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn longer_chunks_and_mps_have_more_places() {
        let places_of =
            |contexts, direction| [1 << 20, (4 << 20) - 1, 4 << 20, 6 << 20].map(|bytes| places(contexts, direction, bytes));
        assert_eq!(places_of(Contexts::TakeTurns, Direction::Compress), [2, 2, 4, 12]);
        assert_eq!(places_of(Contexts::TakeTurns, Direction::Decompress), [1, 1, 4, 12]);
        assert_eq!(places_of(Contexts::ShareByMps, Direction::Compress), [16, 16, 16, 16]);
        assert_eq!(places_of(Contexts::ShareByMps, Direction::Decompress), [4, 4, 16, 16]);
    }
}
