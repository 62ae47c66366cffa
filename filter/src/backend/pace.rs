//! What the processors have taken for chunks of late, for cards that work for several processes at once (MPS).
//!
//! There is no lock that would tell whether such a card has room: the time it takes does. As long as the GPU's is shorter, a process gains by it; when so many
//! processes use the card that it is not, each of them is better off with its own core. So no process is slower than with either processor alone, but
//! for the chunks that look again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Direction;

/// While the CPU is faster, one chunk in this number goes to the GPU all the same, to see whether it still is.
const LOOK_AGAIN: u64 = 32;
/// The weight of the newest chunk in an average is one in this number.
const MEMORY: u64 = 8;
/// Chunks for which the GPU makes its arrays and records its launches, and that say nothing of its pace.
const FIRST: u64 = 4;

/// Picoseconds a byte of one direction, as moving averages; 0 where nothing was measured. The threads of a process share them: a value that is lost
/// between two threads does no harm.
pub(super) struct Pace {
    cpu: AtomicU64,
    gpu: AtomicU64,
    /// Chunks that the GPU has done.
    done: AtomicU64,
    /// Chunks that were asked for while the CPU was faster.
    asked: AtomicU64,
    /// Whether what is known of the GPU is of long ago.
    is_old: AtomicBool,
}

impl Pace {
    const fn new() -> Self {
        Self {
            cpu: AtomicU64::new(0),
            gpu: AtomicU64::new(0),
            done: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            is_old: AtomicBool::new(false),
        }
    }

    pub(super) fn of(direction: Direction) -> &'static Self {
        static PACES: [Pace; 2] = [const { Pace::new() }; 2];
        &PACES[direction as usize]
    }

    /// Whether the CPU is to have the next chunk.
    pub(super) fn prefers_cpu(&self) -> bool {
        let (cpu, gpu) = (self.cpu.load(Ordering::Relaxed), self.gpu.load(Ordering::Relaxed));
        if cpu == 0 || gpu <= cpu {
            return false;
        }
        let looks_again = self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_AGAIN);
        if looks_again {
            self.is_old.store(true, Ordering::Relaxed);
        }
        !looks_again
    }

    pub(super) fn note_cpu(&self, bytes: usize, taken: Duration) {
        note(&self.cpu, bytes, taken);
    }

    pub(super) fn note_gpu(&self, bytes: usize, taken: Duration) {
        if self.done.fetch_add(1, Ordering::Relaxed) >= FIRST {
            // An average over looks would need many of them, each 32 chunks apart, to see that the card is free again.
            if self.is_old.swap(false, Ordering::Relaxed) {
                self.gpu.store(0, Ordering::Relaxed);
            }
            note(&self.gpu, bytes, taken);
        }
    }
}

fn note(average: &AtomicU64, bytes: usize, taken: Duration) {
    let picoseconds = taken.as_nanos().saturating_mul(1000) / (bytes.max(1) as u128);
    let newest = u64::try_from(picoseconds).unwrap_or(u64::MAX).clamp(1, u64::MAX / MEMORY);
    let before = average.load(Ordering::Relaxed);
    average.store(if before == 0 { newest } else { (before * (MEMORY - 1) + newest) / MEMORY }.max(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_processor_is_preferred_and_the_other_is_looked_at_again() {
        let pace = Pace::new();
        let taken = |microseconds| (1 << 20, Duration::from_micros(microseconds));
        let note = |gpu: u64| (0..100).for_each(|_| pace.note_gpu(taken(gpu).0, taken(gpu).1));
        let cpu_chunks = || (0..320).filter(|_| pace.prefers_cpu()).count();
        note(2000);
        assert_eq!(cpu_chunks(), 0, "nothing is known of the CPU");
        pace.note_cpu(taken(900).0, taken(900).1);
        assert_eq!(cpu_chunks(), 310);
        note(130);
        assert_eq!(cpu_chunks(), 0);
    }

    #[test]
    fn one_look_finds_a_card_that_is_free_again() {
        let pace = Pace::new();
        let of_microseconds = |taken| (1 << 20, Duration::from_micros(taken));
        let note_gpu = |taken| pace.note_gpu(of_microseconds(taken).0, of_microseconds(taken).1);
        pace.note_cpu(of_microseconds(900).0, of_microseconds(900).1);
        (0..100).for_each(|_| note_gpu(9000));
        assert!(!pace.prefers_cpu(), "the first look");
        note_gpu(9000);
        assert_eq!((1..2 * LOOK_AGAIN).find(|_| !pace.prefers_cpu()), Some(LOOK_AGAIN));
        note_gpu(300);
        assert!((0..100).all(|_| !pace.prefers_cpu()));
        // Within a row of chunks, one that took long says little.
        note_gpu(1200);
        assert!(!pace.prefers_cpu());
    }

    #[test]
    fn the_first_chunks_say_nothing_of_the_gpu() {
        let pace = Pace::new();
        pace.note_cpu(1 << 20, Duration::from_millis(1));
        (0..FIRST).for_each(|_| pace.note_gpu(1 << 20, Duration::from_millis(50)));
        assert!((0..100).all(|_| !pace.prefers_cpu()));
        note(&pace.gpu, 0, Duration::MAX);
        assert!((1..LOOK_AGAIN).any(|_| pace.prefers_cpu()));
    }
}
