//! Growing buffers that stand in proportion to a chunk: a failure is an error, where Vec's own growth would end the host process.

use crate::error::{Error, Result};

/// Makes a vector `len` long; new elements are zero.
pub(crate) fn resize<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    reserve(buffer, len.saturating_sub(buffer.len()))?;
    buffer.resize(len, T::default());
    Ok(())
}

/// Makes a vector at least `len` long, whatever its elements are: one that shrank and grew again would be filled with zeros each time.
pub(crate) fn lengthen<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    if buffer.len() < len { resize(buffer, len) } else { Ok(()) }
}

/// Makes room for `additional` elements.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, additional: usize) -> Result<()> {
    let bytes = (buffer.len() + additional) as u64 * size_of::<T>() as u64;
    buffer.try_reserve(additional).map_err(|_| Error::OutOfMemory { bytes })
}
