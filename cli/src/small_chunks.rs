//! Advice on the size of chunks, as docs/guide.md gives it.

use std::fmt;

use crate::arguments::shape_text;
use crate::boxes::block_of;

/// Bytes below which a chunk is small: it compresses worse, and a GPU does not take it.
pub(crate) const SMALL_CHUNK: u64 = 256 << 10;
/// Bytes below which `repack` chooses other chunks: a stream's headers, about 40 bytes, would be much of it.
pub(crate) const TINY_CHUNK: u64 = 2 << 10;

/// Chunks that are smaller than they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallChunks {
    chunk: Vec<usize>,
    bytes: u64,
    /// Chunks for the same dataset.
    pub(crate) better: Vec<usize>,
}

impl SmallChunks {
    /// The advice for a dataset with values of `each` bytes, if its chunks are smaller than `limit` bytes and could be larger.
    pub(crate) fn of(chunk: &[usize], extents: &[usize], each: usize, limit: u64) -> Option<Self> {
        let bytes = |sides: &[usize]| sides.iter().map(|&side| side as u64).product::<u64>() * each as u64;
        let better = block_of(extents);
        let is_small = bytes(chunk) < limit.min(bytes(&better));
        is_small.then(|| Self { chunk: chunk.to_vec(), bytes: bytes(chunk), better })
    }
}

impl fmt::Display for SmallChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chunk, better) = (shape_text(&self.chunk), shape_text(&self.better));
        let size = if self.bytes < 1024 { format!("{} bytes", self.bytes) } else { format!("{} KiB", self.bytes / 1024) };
        write!(f, "chunks of {chunk} ({size}) are small: those of 0.25 to 16 MiB compress better and faster, {better} for one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_chunks_of_large_datasets_are_told() {
        let advice =
            |chunk: &[usize], extents: &[usize]| SmallChunks::of(chunk, extents, 4, SMALL_CHUNK).map(|small| small.to_string());
        let told = advice(&[16, 16, 32], &[256, 256, 256]).expect("small");
        assert!(told.starts_with("chunks of 16x16x32 (32 KiB) are small") && told.ends_with("64x64x64 for one"), "{told}");
        assert!(
            advice(&[1, 1], &[1000, 1000]).is_some_and(|told| told.contains("(4 bytes)") && told.contains("500x500 for one"))
        );
        // Not where they are large enough, or are the whole dataset.
        assert_eq!(advice(&[64, 64, 64], &[256, 256, 256]), None);
        assert_eq!(advice(&[10, 10], &[10, 10]), None);
    }
}
