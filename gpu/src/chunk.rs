//! Chunks in the host's memory, in the caller's own or in pinned memory.

/// A chunk to be compressed. `is_pinned` only decides how it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether they are a [`Staging`](crate::Staging)'s.
    pub is_pinned: bool,
}

impl<'a> From<&'a [u8]> for Chunk<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, is_pinned: false }
    }
}

/// Room for a chunk to be decompressed. `is_pinned` only decides how the chunk is fetched.
#[derive(Debug)]
pub struct ChunkRoom<'a> {
    /// Its bytes.
    pub bytes: &'a mut [u8],
    /// Whether they are a [`Staging`](crate::Staging)'s.
    pub is_pinned: bool,
}

impl<'a> From<&'a mut [u8]> for ChunkRoom<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self { bytes, is_pinned: false }
    }
}

impl ChunkRoom<'_> {
    /// This room, lent for a while.
    pub fn lend(&mut self) -> ChunkRoom<'_> {
        ChunkRoom { bytes: self.bytes, is_pinned: self.is_pinned }
    }

    /// The chunk that is there, to be compressed.
    #[must_use]
    pub fn chunk(&self) -> Chunk<'_> {
        Chunk { bytes: self.bytes, is_pinned: self.is_pinned }
    }
}
