//! Pinned memory of the host that is lent for chunks. Such chunks go to the device and come back without a copy on the way.

use std::sync::PoisonError;

use crate::chunk::ChunkRoom;
use crate::cores::CoresTaken;
use crate::device::{Device, MAX_STAGINGS};
use crate::error::Result;
use crate::launch::ThreadGuard;
use crate::memory::PinnedMemory;

/// Pinned memory for a chunk. It goes back to its device when this is dropped.
pub struct Staging {
    device: &'static Device,
    memory: Option<PinnedMemory>,
    len: usize,
    _cores: CoresTaken,
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
        let mut staging = Staging { device: self, memory: Some(memory), len, _cores: CoresTaken::new() };
        let _thread = ThreadGuard::new();
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
