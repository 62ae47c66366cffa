//! Who may use a card: with `auto`, a chunk goes there if there is a place for one more process.
//!
//! ```text
//! chunk ─> a thread of this process is there ─ yes ────────────────────────────────────────────> GPU
//!                    │ no                                                                         │
//!                    └─> lock a place of /dev/nvidiaN, without waiting ─ all are held ─> CPU      └─ last thread: unlock
//! ```
//!
//! The GPU runs one process's work at a time. If all processes sent it all their chunks, they would wait for one another while their own cores do nothing. But a
//! process also copies its chunk into pinned memory and its stream out of it. Meanwhile the GPU can compute another process's chunk. So a card has [`places`],
//! more for longer chunks, and more with MPS, under which a GPU works for several processes at once. Short chunks have two places. A process that comes back to
//! the card [`SOON`] takes both.
//!
//! Place 0 is the lock of the device file as a whole, the others are locks of one byte each ([`CardFile`]). A lock and its release take 3 us on Linux 6.18, and
//! a chunk of 64^3 on the GPU 150 us.
//!
//! A process that finds no place does not ask again for [`PAUSE`]. If all processes asked for every chunk, the card would change to another process with each
//! chunk, and a change takes as long as a short chunk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quire_gpu::{Card, Contexts, Device};

use super::Wait;
use super::card_file::{CardFile, NoFile};
use crate::backend::{Direction, log_once};

/// How long a process that has found no place leaves the card to others.
const PAUSE: Duration = Duration::from_millis(10);

/// A process that comes back to the card within this time keeps it busy.
///
/// Two processes that take turns need 350 us or more for a chunk, however short it is. A process alone compresses short chunks faster, while the other process
/// uses its own core. So two places pay only if a process does other work between its chunks, for longer than this time.
const SOON: Duration = Duration::from_micros(200);

/// The places of a card, for chunks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    /// Each is for a process.
    Each(usize),
    /// Two for two processes, or both for a process that comes back [`SOON`].
    TwoOrBoth,
}

/// How many processes may use a card at once, for chunks of this many uncompressed bytes.
///
/// By turns, a card does some 2500 chunks a second, however long they are. With short chunks, one process that writes them through HDF5 asks for nearly that
/// many. With chunks of 8 MiB that number is twice what 16 cores compress, and takes 12 processes, as each has its own work with a chunk. With MPS, 16
/// processes get more from a card than from their cores. But their cores decompress short chunks faster than the card.
fn places(contexts: Contexts, direction: Direction, chunk_bytes: usize) -> Places {
    const MIB: usize = 1 << 20;
    match (contexts, direction) {
        (Contexts::ShareByMps, Direction::Decompress) if chunk_bytes < 4 * MIB => Places::Each(4),
        (Contexts::ShareByMps, _) => Places::Each(16),
        (_, Direction::Decompress) if chunk_bytes < 4 * MIB => Places::Each(1),
        _ if chunk_bytes < 4 * MIB => Places::TwoOrBoth,
        _ if chunk_bytes < 6 * MIB => Places::Each(4),
        _ => Places::Each(12),
    }
}

/// Leave to use the card, until this is dropped.
pub(in crate::backend) struct Turn(Option<(&'static SharedCard, Instant)>);

/// The card of this process, which uses one; `None` inside where it cannot be locked, so that every chunk goes there.
static CARD: OnceLock<Option<SharedCard>> = OnceLock::new();

/// The card, shared with other processes by its locks; `None` where every chunk goes there.
pub(super) fn shared(card: &Card) -> Option<&'static SharedCard> {
    // No fork finds this locked in a child that comes here: a child of a process with a device has none.
    let shared = CARD.get_or_init(|| match card.contexts() {
        // Unit tests run processes beside one another, and count what the card has done in each.
        _ if cfg!(test) => None,
        Contexts::HaveSlices => {
            log_once(format_args!(
                "no lock on the GPU: this process has a slice of it (MIG), and cannot tell with whom it shares the slice"
            ));
            None
        }
        Contexts::TakeTurns | Contexts::ShareByMps => SharedCard::open(card.bus_id())
            .inspect_err(|reason| log_once(format_args!("no lock on the GPU, which other processes may be using: {reason}")))
            .ok(),
    });
    shared.as_ref()
}

/// The card that [`shared`] has found before, if it has.
pub(super) fn known() -> Option<&'static SharedCard> {
    CARD.get()?.as_ref()
}

/// When chunks go to the card, in words, as `quire_info` and `quire doctor` say it.
pub(in crate::backend) fn describe(device: &'static Device) -> &'static str {
    match (shared(device.card()), device.card().contexts()) {
        (Some(_), Contexts::ShareByMps) => "unless many other processes keep it busy, as processes share it by MPS",
        (Some(_), _) => "unless other processes keep it busy",
        (None, _) => "whoever else is using it, as it cannot be locked",
    }
}

impl Turn {
    /// Leave for a chunk, if the card is free for it.
    pub(in crate::backend) fn take(device: &'static Device, direction: Direction, chunk_bytes: usize) -> Result<Self, Wait> {
        let Some(card) = shared(device.card()) else { return Ok(Self::without_lock()) };
        let is_held = card.take(places(device.card().contexts(), direction, chunk_bytes))?;
        Ok(Self(is_held.then(|| (card, Instant::now()))))
    }

    /// Leave to use a card that this process does not lock.
    pub(in crate::backend) fn without_lock() -> Self {
        Self(None)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((card, begun)) = self.0 {
            card.give_back();
            card.note_work_on_the_card(begun.elapsed());
        }
    }
}

/// A card that processes share, by places in its device file.
pub(super) struct SharedCard {
    pub(super) file: CardFile,
    /// [`PAUSE`], but in tests.
    pause: Duration,
    /// [`SOON`], but in tests.
    soon: Duration,
    users: Mutex<Users>,
    /// Nanoseconds in which threads of this process had a place.
    on_the_card: AtomicU64,
    /// Nanoseconds in which threads of this process computed chunks for the card themselves.
    elsewhere: AtomicU64,
}

/// Threads of this process that use the card, and the places that they have while there are any.
#[derive(Default)]
struct Users {
    threads: usize,
    has_first: bool,
    /// The place that is a byte of the file, besides the first place or in place of it.
    byte: Option<usize>,
    /// When the last thread left the card; `None` once the process has found no place.
    left: Option<Instant>,
    /// Whether the process came back soon after its last chunk on the card.
    comes_back_soon: bool,
    /// When the process, which has found no place, asks again.
    asks_again: Option<Instant>,
    /// The number of looks in a row at which the first place was free. A process takes the first place before all others.
    unused_looks: u32,
}

impl SharedCard {
    fn open(bus_id: Option<&str>) -> Result<Self, NoFile> {
        CardFile::open(bus_id).map(|file| Self::new(file, PAUSE, SOON))
    }

    pub(super) fn new(file: CardFile, pause: Duration, soon: Duration) -> Self {
        Self { file, pause, soon, users: Mutex::default(), on_the_card: AtomicU64::new(0), elsewhere: AtomicU64::new(0) }
    }

    /// Takes a place for one more thread, without waiting. False where the system refuses to lock: then nothing is held, and the card is used.
    fn take(&self, places: Places) -> Result<bool, Wait> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.threads == 0 {
            if users.asks_again.is_some_and(|time| Instant::now() < time) {
                return Err(Wait::Busy);
            }
            users.asks_again = None;
            if let Some(left) = users.left.take() {
                users.comes_back_soon = left.elapsed() < self.soon;
            }
            let (count, wants_both) = match places {
                Places::Each(count) => (count, false),
                Places::TwoOrBoth => (2, users.comes_back_soon),
            };
            users.has_first = match self.file.try_lock() {
                Ok(is_locked) => is_locked,
                Err(error) => {
                    drop(users);
                    log_once(format_args!(
                        "no lock on the GPU, which other processes may be using: its device file cannot be locked: {error}"
                    ));
                    return Ok(false);
                }
            };
            // The process needs no other place beside the first one, unless it wants both. And if it wants both, no other place is of use without the first.
            let wants_another = if users.has_first { wants_both } else { !wants_both };
            let others = if wants_another { 1..count } else { 0..0 };
            users.byte = others.into_iter().find(|&byte| self.file.try_lock_byte(byte).unwrap_or(false));
            if !users.has_first && users.byte.is_none() {
                users.asks_again = Instant::now().checked_add(self.pause);
                return Err(Wait::Busy);
            }
        }
        users.threads += 1;
        Ok(true)
    }

    fn give_back(&self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.threads -= 1;
        if users.threads == 0 {
            if users.has_first {
                self.file.unlock();
            }
            if let Some(byte) = users.byte {
                self.file.unlock_byte(byte);
            }
            users.left = Some(Instant::now());
        }
    }

    /// Looks whether the card is unused, for a process that does not have it open. True if it was unused at this many looks in a row. Each look locks the first
    /// place for a moment. So there is none within [`PAUSE`] of the last one, and the answer is false.
    pub(super) fn look_whether_unused(&self, looks: u32) -> bool {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if users.asks_again.is_some_and(|time| now < time) {
            return false;
        }
        users.asks_again = now.checked_add(self.pause);
        let is_free = self.file.try_lock().unwrap_or(false);
        if is_free {
            self.file.unlock();
        }
        users.unused_looks = if is_free { users.unused_looks.saturating_add(1) } else { 0 };
        users.unused_looks >= looks
    }

    /// Counts the time that a thread had a place.
    pub(super) fn note_work_on_the_card(&self, taken: Duration) {
        add(&self.on_the_card, taken);
    }

    /// Counts work that a thread has done itself on a chunk for the card.
    pub(super) fn note_work_elsewhere(&self, taken: Duration) {
        add(&self.elsewhere, taken);
    }

    /// The time with a place, and the time without one, since this was last asked.
    pub(super) fn times_since_last_asked(&self) -> (Duration, Duration) {
        let take = |counter: &AtomicU64| Duration::from_nanos(counter.swap(0, Ordering::Relaxed));
        (take(&self.on_the_card), take(&self.elsewhere))
    }
}

fn add(nanoseconds: &AtomicU64, taken: Duration) {
    nanoseconds.fetch_add(u64::try_from(taken.as_nanos()).unwrap_or(0), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::Places::{Each, TwoOrBoth};
    use super::*;

    /// A process's side. None comes back soon.
    fn shared_file(path: &std::path::Path, pause: Duration) -> SharedCard {
        SharedCard::new(CardFile::at(path.to_str().expect("a path")).expect("it is there"), pause, Duration::ZERO)
    }

    #[test]
    fn threads_of_a_process_share_its_place_and_other_files_wait_for_none() {
        let path = std::env::temp_dir().join(format!("quire-turn-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let open = || shared_file(&path, Duration::ZERO);
        let (ours, theirs, third) = (open(), open(), open());
        assert_eq!([ours.take(Each(1)).ok(), ours.take(Each(1)).ok()], [Some(true), Some(true)]);
        assert!(matches!(theirs.take(Each(1)), Err(Wait::Busy)));
        ours.give_back();
        assert!(matches!(theirs.take(Each(1)), Err(Wait::Busy)), "a thread is still there");
        assert_eq!(
            [theirs.take(Each(2)).ok(), theirs.take(Each(1)).ok()],
            [Some(true), Some(true)],
            "the second place, and then the process is there"
        );
        assert!(matches!(third.take(Each(2)), Err(Wait::Busy)));
        assert_eq!(third.take(Each(4)).ok(), Some(true));
        ours.give_back();
        theirs.give_back();
        assert_eq!(ours.take(Each(1)).ok(), Some(true));
        assert!(matches!(open().take(Each(2)), Err(Wait::Busy)), "a thread is still in the second place");
        theirs.give_back();
        assert_eq!(theirs.take(Each(2)).ok(), Some(true));
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn a_process_that_finds_no_place_asks_again_after_a_pause() {
        let path = std::env::temp_dir().join(format!("quire-pause-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let open = |pause| shared_file(&path, pause);
        let (ours, patient, quick) = (open(Duration::ZERO), open(Duration::from_secs(600)), open(Duration::from_millis(1)));
        assert_eq!(ours.take(Each(1)).ok(), Some(true));
        assert!([&patient, &quick].iter().all(|lock| matches!(lock.take(Each(1)), Err(Wait::Busy))));
        ours.give_back();
        assert!(matches!(patient.take(Each(1)), Err(Wait::Busy)), "the place is free, and the pause is not over");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(quick.take(Each(1)).ok(), Some(true));
        assert_eq!(quick.take(Each(1)).ok(), Some(true), "another thread");
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn a_process_that_comes_back_soon_has_both_places_or_none() {
        let path = std::env::temp_dir().join(format!("quire-both-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let open = |soon| SharedCard { soon, ..shared_file(&path, Duration::ZERO) };
        let (slow, quick, other) = (open(Duration::ZERO), open(Duration::MAX), open(Duration::ZERO));
        let is_on = |card: &SharedCard| card.take(TwoOrBoth).is_ok();
        assert!(is_on(&slow) && is_on(&quick), "nobody knows yet that it comes back soon");
        quick.give_back();
        assert!(!is_on(&quick), "the first place is taken");
        assert!(is_on(&other), "the second one is not");
        other.give_back();
        slow.give_back();
        assert!(is_on(&slow) && !is_on(&quick), "it comes back soon, as the last time on the card");
        slow.give_back();
        assert!(is_on(&quick) && !is_on(&slow), "it has both");
        assert_eq!(other.take(Each(4)).ok(), Some(true), "longer chunks have more");
        quick.give_back();
        assert!(is_on(&slow) && !is_on(&quick) && quick.take(Each(4)).is_ok(), "it need not have all places of longer chunks");
        other.give_back();
        slow.give_back();
        quick.give_back();
        let late = SharedCard {
            users: Mutex::new(Users { comes_back_soon: true, left: Some(Instant::now()), ..Users::default() }),
            ..open(Duration::ZERO)
        };
        assert!(is_on(&late) && is_on(&slow), "it came back late");
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn a_card_is_unused_after_several_looks_in_a_row_at_a_free_place() {
        let path = std::env::temp_dir().join(format!("quire-unused-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        let (ours, looking) = (shared_file(&path, Duration::ZERO), shared_file(&path, Duration::ZERO));
        assert_eq!([1, 2, 3].map(|_| looking.look_whether_unused(2)), [false, true, true]);
        assert_eq!(ours.take(Each(1)).ok(), Some(true), "a look leaves no lock");
        assert!(!looking.look_whether_unused(2), "the card is used");
        ours.give_back();
        assert_eq!([1, 2].map(|_| looking.look_whether_unused(2)), [false, true], "the count begins anew");
        let patient = shared_file(&path, Duration::from_secs(600));
        assert_eq!([1, 2, 3].map(|_| patient.look_whether_unused(1)), [true, false, false], "no look within the pause");
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn longer_chunks_and_mps_have_more_places() {
        let places_of =
            |contexts, direction| [1 << 20, (4 << 20) - 1, 4 << 20, 6 << 20].map(|bytes| places(contexts, direction, bytes));
        assert_eq!(places_of(Contexts::TakeTurns, Direction::Compress), [TwoOrBoth, TwoOrBoth, Each(4), Each(12)]);
        assert_eq!(places_of(Contexts::TakeTurns, Direction::Decompress), [1, 1, 4, 12].map(Each));
        assert_eq!(places_of(Contexts::ShareByMps, Direction::Compress), [16, 16, 16, 16].map(Each));
        assert_eq!(places_of(Contexts::ShareByMps, Direction::Decompress), [4, 4, 16, 16].map(Each));
    }
}
