//! Which chunks are for the GPU.

use quire_codec::Layout;

use crate::device::Device;
use crate::error::{Error, Result, reason};

/// Longest chunk for the GPU in bytes of its codes: values of 1 and 2 bytes have codes of 4. Indices in kernels have 32 bits. A job that compresses
/// takes about six times the bytes of its codes in device memory.
const MAX_CHUNK_BYTES: u64 = 1 << 30;
/// Chunks with more than [`MAX_SHORT_ROWS`] rows, each of fewer values than this, are not for the GPU.
const MIN_COLUMNS: u64 = 32;
/// See [`MIN_COLUMNS`].
const MAX_SHORT_ROWS: u64 = 1 << 17;

impl Device {
    /// Whether chunks of a layout are for the GPU.
    ///
    /// # Errors
    /// `Unsupported`, with the reason.
    pub fn check_layout(layout: &Layout) -> Result<()> {
        // Along a slow axis one thread sums a column: a few long columns would leave most of the GPU idle.
        let (row, elements) = (layout.shape.row() as u64, layout.shape.elements());
        if row < MIN_COLUMNS && elements / row > MAX_SHORT_ROWS {
            return Err(Error::Unsupported(reason!(
                "chunk has {} rows of only {row} values, which the CPU does faster",
                elements / row
            )));
        }
        let code_size = layout.scalar.code_size() as u64;
        if elements > MAX_CHUNK_BYTES / code_size {
            return Err(Error::Unsupported(reason!(
                "chunk has {elements} values, the GPU takes chunks of up to {} of this type",
                MAX_CHUNK_BYTES / code_size
            )));
        }
        Ok(())
    }
}
