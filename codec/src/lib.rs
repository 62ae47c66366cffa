//! H5Z-Quire's stream format and its reference implementation. FORMAT.md is the law; this crate follows it.
//!
//! ```text
//!             ┌ a grid's ─────> codes ─ lorenzo ─> differences ┐
//! chunk bytes ┤                                                ├ tokens ─> tokens ─ codebook, lanes ─> stream
//!             └ interpolation ───────────────────> residuals   ┘
//!                  └──────> exceptions: a mask and their bits, coded as two more planes of integers
//! ```
//!
//! | # | stage | FORMAT.md | CPU | CUDA |
//! |---|---|---|---|---|
//! | 0 | settle the bound, choose grid and predictor | §11 | `codec/src/bound.rs`, `codec/src/padding.rs`, `codec/src/grid.rs`, `codec/src/predictor.rs` | the same functions |
//! | 1 | quantize, find exceptions | §5.1 | `codec/src/quantize.rs`, `codec/src/lattice.rs`, `codec/src/exceptions.rs`, `codec/src/bitmap.rs`, `codec/src/small_float.rs` | `gpu/kernels/quantize.cu`, `gpu/kernels/exceptions.cu`, `gpu/kernels/small_float.cuh` |
//! | 1' | or exact integers, steps of integers, steps of the logarithm | §5.3–§5.5 | `codec/src/element.rs`, `codec/src/steps.rs`, `codec/src/logarithm.rs` | `gpu/kernels/grid.cu`, `gpu/kernels/steps.cu`, `gpu/kernels/logarithm.cu` |
//! | 2 | predict by differences | §6.1 | `codec/src/lorenzo.rs` | `gpu/kernels/lorenzo.cu` |
//! | 2' | or quantize and predict by interpolation | §5.2, §6.2 | `codec/src/interpolation.rs`, `codec/src/finegrid.rs`, `codec/src/glance.rs` | `gpu/kernels/interpolation.cu` |
//! | 3 | runs and classes | §7 | `codec/src/alphabet.rs`, `codec/src/tokens.rs` | `gpu/kernels/alphabet.cuh`, `gpu/kernels/tokens.cu` |
//! | 4 | choose a codebook | §8, §11 | `codec/src/codebook.rs`, `codec/src/dictionary.rs`, `codec/src/adaptive.rs` | `gpu/kernels/codebook.cu` |
//! | 5 | Huffman code in 32 lanes | §9.1 | `codec/src/lanes.rs`, `codec/src/tables.rs` | `gpu/kernels/lanes.cu` |
//! | 3' | or bit planes, in place of 3 to 5 | §9.2 | `codec/src/bitshuffle.rs` | `gpu/kernels/bitshuffle.cu` |
//! | – | planes and whole chunks | §2–§4 | `codec/src/plane.rs`, `codec/src/workspace.rs` | `gpu/kernels/plane.cu`, `gpu/kernels/checksum.cu` |

#![forbid(unsafe_code)]

pub mod adaptive;
pub mod alphabet;
pub mod bitmap;
pub mod bitshuffle;
pub mod bound;
mod bytes;
pub mod codebook;
mod coded;
mod config;
pub mod dictionary;
pub mod element;
mod error;
pub mod exceptions;
pub mod finegrid;
pub mod format;
pub mod glance;
pub mod grid;
pub mod inspect;
pub mod integer;
pub mod interpolation;
pub mod lanes;
pub mod lattice;
mod layout;
pub mod logarithm;
pub mod lorenzo;
pub mod mask;
pub mod memory;
pub mod narrowed;
pub mod options;
mod padding;
pub mod plane;
pub mod predictor;
pub mod quantize;
mod simd;
pub mod small_float;
pub mod steps;
mod sums;
mod tables;
pub mod tokens;
mod workspace;

pub use config::{AdaptPolicy, CodebookPolicy, CodingPolicy, Config, ErrorBound, PredictorPolicy};
pub use error::{Error, Result};
pub use format::{Coding, Header};
pub use layout::{ByteOrder, Layout, MAX_RANK, Scalar, Shape, type_of_byte};
pub use workspace::Workspace;

/// Least stack, in bytes, of a thread that compresses or decompresses, with or without HDF5. On x86-64, optimized code needs 44 KiB with what a thread itself takes:
/// `codec/tests/stack.rs` and `filter/src/stack.rs` run on this much, or on as much as `QUIRE_STACK` says.
pub const LEAST_STACK: usize = 64 << 10;

/// Most bytes that a stream of this layout can take: a chunk that does not shrink is stored.
#[must_use]
pub fn max_stream_len(layout: &Layout) -> u64 {
    format::HEADER_MAX_LEN as u64 + layout.chunk_bytes()
}
