//! placeholder
#![forbid(unsafe_code)]
mod config;
mod error;
pub mod format;
mod layout;
mod workspace;
pub use config::{CodebookPolicy, Config, ErrorBound};
pub use error::{Error, Result};
pub use format::{Coding, Header};
pub use layout::{ByteOrder, Layout, MAX_RANK, Scalar, Shape};
pub use workspace::Workspace;

/// Most bytes that a stream of this layout can take: a chunk that does not shrink is stored.
#[must_use]
pub fn max_stream_len(layout: &Layout) -> u64 {
    format::HEADER_MAX_LEN as u64 + layout.chunk_bytes()
}
