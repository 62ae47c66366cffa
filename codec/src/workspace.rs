//! Whole chunks: stages in order, buffers kept from call to call.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::format::{self, Coding, Header};
use crate::layout::Layout;

/// Buffers that compressing and decompressing need, kept from chunk to chunk so that a call allocates nothing once warm.
#[derive(Debug, Default)]
pub struct Workspace {}

impl Workspace {
    /// Compresses the bytes of one chunk and replaces `stream` with the result, of at most [`crate::max_stream_len`] bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if `chunk` has not the length that `layout` gives.
    pub fn compress(&mut self, chunk: &[u8], layout: &Layout, _config: &Config, stream: &mut Vec<u8>) -> Result<()> {
        if chunk.len() as u64 != layout.chunk_bytes() {
            return Err(Error::InvalidArgument(format!(
                "chunk has {} bytes, its layout says {}",
                chunk.len(),
                layout.chunk_bytes()
            )));
        }
        stream.clear();
        Header { coding: Coding::Stored, layout: *layout }.write_to(stream);
        stream.extend_from_slice(chunk);
        format::seal(stream);
        Ok(())
    }

    /// Decompresses a stream into the bytes of its chunk, in the byte order that the stream records.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt` or `UnsupportedVersion` for a bad stream, `InvalidArgument` if `chunk` has not the chunk's length;
    /// the contents of `chunk` are unspecified then.
    pub fn decompress(&mut self, stream: &[u8], chunk: &mut [u8]) -> Result<()> {
        let header = Header::read_from(stream)?;
        format::verify(stream)?;
        if chunk.len() as u64 != header.layout.chunk_bytes() {
            return Err(Error::InvalidArgument(format!(
                "stream holds a chunk of {} bytes, the caller has room for {}",
                header.layout.chunk_bytes(),
                chunk.len()
            )));
        }
        chunk.copy_from_slice(&stream[header.len()..]);
        Ok(())
    }
}
