//! Chunks in the caller's memory, and pinned memory of the host for them: what is pinned goes to the device and comes from there without a copy on the way.

use std::sync::PoisonError;

use crate::device::Device;
use crate::error::Result;
use crate::launch::RestoreContext;
use crate::memory::PinnedMemory;

/// Most stagings of a device at once: two for each session, of which one is gathered or scattered while the other's chunk is on the device.
pub(crate) const MAX_STAGINGS: usize = 16;

/// A chunk that is compressed. Whether it is pinned decides how it is sent, no more.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether they are a [`Staging`]'s.
    pub is_pinned: bool,
}

impl<'a> From<&'a [u8]> for Chunk<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, is_pinned: false }
    }
}

/// Where a chunk is decompressed to, as [`Chunk`].
#[derive(Debug)]
pub struct ChunkRoom<'a> {
    /// Its bytes.
    pub bytes: &'a mut [u8],
    /// Whether they are a [`Staging`]'s.
    pub is_pinned: bool,
}

impl<'a> From<&'a mut [u8]> for ChunkRoom<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self { bytes, is_pinned: false }
    }
}

impl ChunkRoom<'_> {
    /// The same room, lent for a while.
    pub fn lend(&mut self) -> ChunkRoom<'_> {
        ChunkRoom { bytes: self.bytes, is_pinned: self.is_pinned }
    }

    /// The chunk that is there, to be compressed.
    #[must_use]
    pub fn chunk(&self) -> Chunk<'_> {
        Chunk { bytes: self.bytes, is_pinned: self.is_pinned }
    }
}

/// Pinned memory for a chunk. It goes back to its device when this is dropped.
pub struct Staging {
    device: &'static Device,
    memory: Option<PinnedMemory>,
    len: usize,
}

impl Device {
    /// Pinned memory for a chunk of `len` bytes, with any contents. `None` where all of it is lent.
    ///
    /// # Errors
    /// `OutOfMemory` or `Failed`.
    pub fn staging(&'static self, len: usize) -> Result<Option<Staging>> {
        let memory = {
            let mut idle = self.stagings().idle.lock().unwrap_or_else(PoisonError::into_inner);
            match idle.things.pop() {
                Some(memory) => memory,
                None if idle.made == MAX_STAGINGS => return Ok(None),
                None => {
                    idle.made += 1;
                    PinnedMemory::new(self.loaded().context.clone())
                }
            }
        };
        let mut staging = Staging { device: self, memory: Some(memory), len };
        let _restore = RestoreContext::new();
        staging.memory().grow(len)?;
        Ok(Some(staging))
    }
}

impl Staging {
    fn memory(&mut self) -> &mut PinnedMemory {
        #[expect(clippy::unwrap_used, reason = "only `drop` takes it")]
        self.memory.as_mut().unwrap()
    }

    /// Room for the chunk.
    #[must_use]
    pub fn room(&mut self) -> ChunkRoom<'_> {
        let len = self.len;
        ChunkRoom { bytes: self.memory().bytes_mut(0..len), is_pinned: true }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let mut idle = self.device.stagings().idle.lock().unwrap_or_else(PoisonError::into_inner);
        // There is room for all that are made: see `Pool::new`.
        idle.things.extend(self.memory.take());
    }
}
