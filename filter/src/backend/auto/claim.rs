//! How many processes open a card: no more than keep it busy.
//!
//! ```text
//! claim a card ─ another process has it ──────────────────> the CPU's work goes on
//!       │                                                        ^
//!       └─> open the card ─> every LOOK: had half of this process's work a place on the card? ─ yes ─> give the claim back
//!                                 ^                                                         │ no
//!                                 └─────────────────────────────────────────────────────────┘
//! ```
//!
//! A context takes 0.5 GB of a card's memory, and 0.15 to 0.25 s of a core to make. Both are wasted where the card has no time for one more process. So a
//! process that opens a card claims it, and no other process opens the card until the claim is given back. The process keeps the claim while more than half of
//! its work, by time, finds no place on the card ([`super::turn`]). Processes get places in turns, so that a process with the claim sees whether the card has time
//! for one more. It gives the claim back at its end, or if it finds places, or has no chunks, at two looks in a row. With MPS and with long chunks, a card has
//! more places, and more processes open it.
//!
//! The claim is the lock of a byte of the card's device file. A process that was stopped (`SIGSTOP`, a suspended job) cannot give it back. So a claim does not
//! count while the card is unused.

use std::thread;
use std::time::Duration;

use quire_gpu::Card;

use super::turn::{self, SharedCard};

/// The byte of a card's file that is its claim. The first ones are places.
const BYTE: usize = 64;
/// A claim does not count if the card was unused at this many looks in a row, 10 ms or more apart.
const UNUSED_LOOKS: u32 = 100;
/// How often a process that has a claim looks whether places are free.
const LOOK: Duration = Duration::from_millis(100);

/// The right to open a card. While it is `Held`, no other process has it.
pub(super) enum Claim {
    /// This process has not found its card yet.
    OnNoCard,
    Held(&'static SharedCard),
    /// The card cannot be locked, or the process that has the claim does not use it.
    NotNeeded,
}

impl Claim {
    /// Claims the card that this process has found before. A process that has found none may look for it.
    pub(super) fn on_known_card() -> Option<Self> {
        turn::known().map_or(Some(Self::OnNoCard), Self::on_shared)
    }

    /// Claims a card, unless this process had found it before.
    pub(super) fn on_card(self, card: &Card) -> Option<Self> {
        match self {
            Self::OnNoCard => turn::shared(card).map_or(Some(Self::NotNeeded), Self::on_shared),
            decided => Some(decided),
        }
    }

    fn on_shared(shared: &'static SharedCard) -> Option<Self> {
        match shared.file.try_lock_byte(BYTE) {
            Ok(true) => Some(Self::Held(shared)),
            Ok(false) => shared.look_whether_unused(UNUSED_LOOKS).then_some(Self::NotNeeded),
            Err(_) => Some(Self::NotNeeded),
        }
    }

    /// Keeps the claim on an open card while more than half of this process's work finds no place there, and `goes_on` returns true.
    pub(super) fn keep_while_card_is_full(self, goes_on: impl Fn() -> bool) {
        let Self::Held(card) = self else { return };
        let _ = card.times_since_last_asked();
        // The time of a chunk is counted when the chunk ends, so that one look may miss a long chunk.
        let mut free_looks = 0;
        while goes_on() && free_looks < 2 {
            thread::sleep(LOOK);
            let (on_the_card, elsewhere) = card.times_since_last_asked();
            free_looks = if elsewhere <= on_the_card { free_looks + 1 } else { 0 };
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Self::Held(card) = self {
            card.file.unlock_byte(BYTE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::{Path, PathBuf};

    use super::super::card_file::CardFile;
    use super::*;

    fn card_file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("quire-claim-{name}-{}", std::process::id()));
        std::fs::write(&path, "").expect("a file");
        path
    }

    /// A process's side of a card, which looks whether it is unused as often as it is asked.
    fn process(path: &Path) -> &'static SharedCard {
        let file = CardFile::at(path.to_str().expect("a path")).expect("it is there");
        Box::leak(Box::new(SharedCard::new(file, Duration::ZERO, Duration::ZERO)))
    }

    #[test]
    fn one_process_has_the_claim_until_it_drops_it() {
        let path = card_file("one");
        let (ours, theirs) = (process(&path), process(&path));
        let claim = Claim::on_shared(ours);
        assert!(matches!(claim, Some(Claim::Held(_))));
        assert!(Claim::on_shared(theirs).is_none());
        drop(claim);
        let claim = Claim::on_shared(theirs);
        assert!(matches!(claim, Some(Claim::Held(_))) && Claim::on_shared(ours).is_none());
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn a_claim_on_an_unused_card_does_not_count() {
        let path = card_file("unused");
        let (stopped, user, looking) = (process(&path), process(&path), process(&path));
        let _claim = Claim::on_shared(stopped).expect("nobody has it");
        let is_refused = || Claim::on_shared(looking).is_none();
        assert!((1..UNUSED_LOOKS).all(|_| is_refused()));
        assert!(user.file.try_lock().expect("a lock"), "it is used");
        assert!((0..2 * UNUSED_LOOKS).all(|_| is_refused()));
        user.file.unlock();
        assert!((1..UNUSED_LOOKS).all(|_| is_refused()), "the count begins anew");
        assert!(matches!(Claim::on_shared(looking), Some(Claim::NotNeeded)));
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn a_card_that_cannot_be_locked_needs_no_claim() {
        // A folder can be opened for reading alone, and the lock of a byte is for who may write.
        assert!(matches!(Claim::on_shared(process(&std::env::temp_dir())), Some(Claim::NotNeeded)));
    }

    /// How often a process looks that does such work before each look, in seconds on the card and elsewhere, until it drops its claim.
    fn looks_of(card: &'static SharedCard, work: &[(u64, u64)]) -> usize {
        let looks = Cell::new(0);
        let claim = Claim::on_shared(card).expect("nobody has it");
        claim.keep_while_card_is_full(|| {
            let Some(&(on_the_card, elsewhere)) = work.get(looks.get()) else { return false };
            looks.set(looks.get() + 1);
            card.note_work_on_the_card(Duration::from_secs(on_the_card));
            card.note_work_elsewhere(Duration::from_secs(elsewhere));
            true
        });
        looks.get()
    }

    #[test]
    fn the_claim_ends_after_two_looks_at_a_card_that_has_time() {
        let path = card_file("kept");
        let (ours, theirs) = (process(&path), process(&path));
        let [full, free, none] = [(1, 2), (2, 1), (0, 0)];
        // Who goes on is asked once more after the last look.
        assert_eq!(looks_of(ours, &[free, none, full]), 3);
        assert!(Claim::on_shared(theirs).is_some(), "it was dropped");
        assert_eq!(looks_of(ours, &[full, none, full, none, (1, 1), full, full]), 6);
        assert_eq!(looks_of(ours, &[full; 3]), 3, "until the process ends");
        assert!(Claim::on_shared(theirs).is_some());
        std::fs::remove_file(path).expect("there");
    }
}
