//! When `auto` opens the GPU, and when the GPU is free for a chunk. Processes share a GPU by locks of its device file.

/// A card's device file.
mod card_file;
/// How many processes open a card.
mod claim;
/// When `auto` opens the GPU.
mod opening;
/// Whether the GPU is free.
mod turn;

use std::fmt;

pub(super) use self::opening::{note_opened_by_caller, note_work, open_if_it_pays};
pub(super) use self::turn::{Turn, describe};

/// Why `auto` does not take the GPU now.
#[derive(Debug)]
pub(super) enum Wait {
    /// The host has no memory for a thread that opens the GPU.
    LowMemory,
    /// The process has had too little work to open a GPU for it.
    LittleWork,
    /// The GPU is being opened.
    Opening,
    /// The process ends before the GPU is open.
    Ending,
    /// Another process is opening a GPU.
    OthersOpen,
    /// Other processes have the GPU open, and it has no time for one more.
    Full,
    /// Other processes are using the GPU.
    Busy,
}

impl Wait {
    /// Whether threads meet it at different times, now and again.
    pub(super) fn comes_and_goes(&self) -> bool {
        !matches!(self, Self::LittleWork | Self::Ending)
    }

    /// Whether the GPU works for other processes.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LowMemory => formatter.write_str("the host has too little memory left to open a GPU"),
            Self::LittleWork => write!(
                formatter,
                "a GPU is opened after {} ms of the CPU's work on chunks for it; in ranks of a job, while all cores are busy, after {} s",
                opening::OPEN_AFTER.as_millis(),
                (opening::OPEN_AFTER * opening::LESS_WHERE_BUSY).as_secs()
            ),
            Self::Opening => formatter.write_str("the GPU is being opened"),
            Self::Ending => formatter.write_str("the process ends before the GPU is open"),
            Self::OthersOpen => formatter.write_str("another process is opening a GPU"),
            Self::Full => formatter.write_str("other processes have the GPU open and keep it busy"),
            Self::Busy => formatter.write_str("other processes are using the GPU"),
        }
    }
}
