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
//! process that opens a card claims it, and no other process opens the card until the claim is given back. The process keeps the claim while more than half
//! of its work, by time, finds no place on the card ([`super::turn`]). Places go from process to process, so that the last one to open the card can tell. It
//! gives the claim back when it finds places, or has no chunks, at two looks in a row, and when it ends. With MPS and with long chunks, a card has more
//! places, and more processes open it.
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
        match shared.file.lock_byte(BYTE) {
            Ok(true) => Some(Self::Held(shared)),
            Ok(false) => shared.was_unused_at(UNUSED_LOOKS).then_some(Self::NotNeeded),
            Err(_) => Some(Self::NotNeeded),
        }
    }

    /// Keeps the claim on an open card while more than half of this process's work finds no place there, and `goes_on` returns true.
    pub(super) fn keep_while_card_is_full(self, goes_on: impl Fn() -> bool) {
        let Self::Held(card) = self else { return };
        let _ = card.times_since_last_asked();
        // Time counts when a chunk ends. One look may see none of a long chunk.
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
