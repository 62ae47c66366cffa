//! How many processes open a card: no more than keep it busy.
//!
//! ```text
//! claim a card ─ another process has it ──────────────────> the CPU's work goes on
//!       │                                                        ^
//!       └─> open the card ─> every LOOK: has this process had a place on the card for half of its work? ─ yes ─> give the claim back
//!                                     ^                                                                   │ no
//!                                     └───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A context takes 0.5 GB of a card's memory, and the time of a core to make. Where a card has no time for one more process, that is for nothing. So a process
//! that opens a card claims it, and keeps the claim for as long as it finds no place there half of the time ([`super::turn`]): nobody else opens the card meanwhile.
//! The one that opened it last is a fair judge, as places go around. It gives the claim back when places are free, when it has no chunks, and when it
//! ends. MPS and long chunks have more places, so that more processes open the card.
//!
//! The claim is the lock of a byte of the card's device file. A process that was stopped (`SIGSTOP`, a suspended job) cannot give it back. So a claim does not
//! count where the card is unused.

use std::thread;
use std::time::Duration;

use quire_gpu::Card;

use super::turn::{self, SharedCard};

/// The byte of a card's file that is its claim. The first ones are places.
const BYTE: usize = 64;
/// A claim on a card that was unused at this many looks in a row, of 10 ms or more each, does not count.
const UNUSED_LOOKS: u32 = 100;
/// How often a process that has a claim looks whether places are free.
const LOOK: Duration = Duration::from_millis(100);

/// The right to open a card, which no other process has until this is dropped.
pub(super) enum Claim {
    /// This process has not found its card yet.
    OnNoCard,
    Held(&'static SharedCard),
    /// The card cannot be locked, or is unused by the process that has the claim.
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

    /// Keeps the claim on an open card while this process finds no place there for half of its work. Ends as well where `goes_on` says so.
    pub(super) fn keep_while_card_is_full(self, goes_on: impl Fn() -> bool) {
        let Self::Held(card) = self else { return };
        let _ = card.times_since_last_asked();
        while goes_on() {
            thread::sleep(LOOK);
            let (on_the_card, elsewhere) = card.times_since_last_asked();
            if elsewhere <= on_the_card {
                return;
            }
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
