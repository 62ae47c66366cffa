//! Transfers through pinned memory that is used round after round.
//!
//! ```text
//! caller's bytes ─ several threads, a unit each ──> one half of the ring ─ bus, a piece at a time ─> device
//!                                                   the other half: the round before, still on the bus
//! ```

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream};
use quire_codec::memory;

use crate::copy::{copy_in, copy_out};
use crate::declare::Address;
use crate::error::{Context as _, Error, Result};
use crate::memory::{PinnedMemory, download, upload};

/// Most bytes of a round. Longer transfers take several, in the halves of the ring by turns.
const ROUND: usize = 16 << 20;
/// Most pieces of a round. More of them overlap better, but each transfer has a cost of its own.
const PIECES: usize = 8;
/// Least bytes of a piece.
const MIN_PIECE: usize = 256 << 10;
/// Bytes before the first half, for the head that is sent in front of the bytes.
const HEAD_BYTES: usize = 4096;

/// Pinned memory, and the events that say when its pieces have arrived.
pub(crate) struct Ring {
    memory: PinnedMemory,
    pieces: [Vec<CudaEvent>; 2],
    halves: [CudaEvent; 2],
}

/// How many bytes go in a round, and in a piece of it.
fn cut(len: usize) -> (usize, usize) {
    let round = len.clamp(1, ROUND);
    (round, round.div_ceil(PIECES).max(MIN_PIECE).next_multiple_of(4096))
}

impl Ring {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING)).context("making CUDA events");
        let pieces = || {
            let mut pieces = Vec::new();
            memory::reserve(&mut pieces, PIECES)?;
            for _ in 0..PIECES {
                pieces.push(event()?);
            }
            Ok::<_, Error>(pieces)
        };
        Ok(Self { memory: PinnedMemory::new(context.clone()), pieces: [pieces()?, pieces()?], halves: [event()?, event()?] })
    }

    /// Makes the ring long enough for a transfer of `len` bytes. Earlier transfers may be under way, and end before it grows. No recorded launch has its
    /// address.
    fn reserve(&mut self, stream: &CudaStream, len: usize) -> Result<()> {
        let needed = HEAD_BYTES + len.min(2 * ROUND);
        if self.memory.len() < needed {
            stream.synchronize().context("waiting for the GPU")?;
            self.memory.grow(needed)?;
        }
        Ok(())
    }

    /// Starts sending `head`, of at most [`HEAD_BYTES`] bytes, and `body` behind it. Earlier transfers are over.
    pub(crate) fn send(&mut self, stream: &CudaStream, head: &[u8], body: &[u8], to: Address) -> Result<()> {
        self.reserve(stream, body.len())?;
        let (round, piece) = cut(body.len());
        self.memory.bytes_mut(HEAD_BYTES - head.len()..HEAD_BYTES).copy_from_slice(head);
        for (number, part) in body.chunks(round).enumerate() {
            let half = number % 2;
            if number >= 2 {
                self.halves[half].synchronize().context("waiting for a transfer")?;
            }
            let start = HEAD_BYTES + half * round;
            let from = self.memory.address() + start as u64;
            let to = to + (head.len() + number * round) as u64;
            let (mut started, mut sent) = (Ok(()), 0);
            copy_in(part, self.memory.bytes_mut(start..start + part.len()), |there| {
                if there - sent < piece && there < part.len() {
                    return;
                }
                // The head goes with the first piece.
                let front = if number == 0 && sent == 0 { head.len() } else { 0 };
                let (at, len) = (sent as u64, there - sent + front);
                if started.is_ok() {
                    started = upload(stream, from + at - front as u64, to + at - front as u64, len);
                }
                sent = there;
            });
            started?;
            self.halves[half].record(stream).context("recording an event")?;
        }
        Ok(())
    }

    /// Copies the bytes at `from` to `to` when the stream has done its work so far, and waits for that.
    pub(crate) fn receive(&mut self, stream: &CudaStream, from: Address, to: &mut [u8]) -> Result<()> {
        self.reserve(stream, to.len())?;
        let (round, piece) = cut(to.len());
        let len = to.len();
        let start = |number: usize| -> Result<()> {
            let half = number % 2;
            let base = self.memory.address() + (HEAD_BYTES + half * round) as u64;
            let in_round = round.min(len - number * round);
            for (index, event) in self.pieces[half].iter().enumerate().take(in_round.div_ceil(piece)) {
                let at = index * piece;
                download(stream, from + (number * round + at) as u64, base + at as u64, piece.min(in_round - at))?;
                event.record(stream).context("recording an event")?;
            }
            Ok(())
        };
        if len > 0 {
            start(0)?;
        }
        for (number, part) in to.chunks_mut(round).enumerate() {
            if (number + 1) * round < len {
                start(number + 1)?;
            }
            let half = number % 2;
            let base = HEAD_BYTES + half * round;
            copy_out(
                part,
                piece,
                |index| self.pieces[half][index].synchronize().context("waiting for the GPU"),
                |range| self.memory.bytes(base + range.start..base + range.end),
            )?;
        }
        Ok(())
    }
}
