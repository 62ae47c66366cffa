//! H5Z-Quire's stream format and its reference implementation. FORMAT.md is the law; this crate follows it.
//!
//! ```text
//!             ┌ a grid's ─────> codes ─ lorenzo ─> differences ┐
//! chunk bytes ┤                                                ├ tokens ─> tokens ─ codebook, lanes ─> stream
//!             └ interpolation ───────────────────> residuals   ┘
//!                  └──────> exceptions: a mask and their bits, coded as two more planes of integers
//! ```
//!
//! # Stages
//!
//! Files of `codec/src` and of `gpu/kernels` by stage; a file's parts, in a folder of its name, go with it. `codec/tests/stages.rs` compares this with both folders.
//!
//! | # | stage | FORMAT.md | CPU | CUDA |
//! |---|---|---|---|---|
//! | 0 | settle the bound | §11 | `bound.rs`, `bound/earlier.rs`, `bound/ladder.rs`, `bound/padding.rs`, `bound/psnr.rs`, `bound/ratio.rs`, `bound/spacing.rs`, `bound/values.rs` | the same functions |
//! | 0 | choose grid and predictor | §11 | `predict/choice.rs` | the same functions |
//! | 1 | quantize on an absolute bound's grid or on a lattice | §5.1 | `quantize/grid.rs`, `quantize/quantizer.rs`, `quantize/linear.rs`, `quantize/lattice.rs`, `quantize/excluded.rs`, `quantize/fast_f32.rs` | `quantize/segments.cuh`, `quantize/linear.cuh`, `quantize/lattice.cuh`, `quantize/fast_f32.cuh` |
//! | 1 | mark exceptions, fill their gaps, list or mask them | §4, §5 | `quantize/bitmap.rs`, `quantize/gaps.rs`, `quantize/exceptions.rs` | `quantize/exceptions.cuh` |
//! | 1' | or exact integers, steps of integers, steps of the logarithm | §5.3–§5.5 | `number/element.rs`, `quantize/integer_steps.rs`, `quantize/logarithm.rs` | `quantize/grid.cuh`, `quantize/integer_steps.cuh`, `quantize/logarithm.cuh` |
//! | 2 | predict by differences | §6.1 | `predict/lorenzo.rs`, `predict/sums.rs` | `predict/lorenzo.cuh`, `predict/sums.cuh` |
//! | 2' | or quantize and predict by interpolation | §5.2, §6.2 | `quantize/fine_grid.rs`, `quantize/positions.rs`, `predict/interpolation.rs` | `quantize/fine_grid.cuh`, `predict/interpolation.cuh` |
//! | 3 | runs and classes | §7 | `entropy/alphabet.rs`, `entropy/tokens.rs` | `entropy/alphabet.cuh`, `entropy/tokens.cuh` |
//! | 4 | choose a codebook | §8, §11 | `entropy/codebook.rs`, `entropy/book_choice.rs`, `entropy/dictionary.rs`, `entropy/adaptive.rs` | `entropy/codebook.cuh` |
//! | 5 | Huffman code in 32 lanes | §9.1 | `entropy/lanes.rs`, `entropy/decode_tables.rs` | `entropy/lanes.cuh` |
//! | 3' | or bit planes, in place of 3 to 5 | §9.2 | `entropy/bitshuffle.rs` | `entropy/bitshuffle.cuh` |
//! | – | planes and whole chunks | §2–§4 | `workspace.rs`, `reader.rs`, `predict/quantized.rs`, `predict/predictor.rs`, `stream/encode.rs`, `stream/decode.rs`, `stream/buffers.rs`, `stream/verified.rs`, `stream/header.rs`, `stream/body.rs`, `stream/plane.rs` | `stream/plane.cuh`, `stream/checksum.cuh`, `stream/transfer.cuh` |
//! | – | numbers of all stages | | `number/integer.rs`, `number/small_float.rs`, `number/value.rs`, `number/patched16.rs`, `number/rounding.rs`, `number/fixed_log2.rs`, `number/dispatch.rs`, `layout.rs` | `number/small_float.cuh`, `number/integer.cuh` |
//! | – | instructions of the processor | | `simd.rs`, `simd/bytes.rs` | `common.cuh`, `shared.cuh` |
//!
//! Without a stage: `lib.rs`, `config.rs`, `options.rs`, `error.rs`, `memory.rs`, `text.rs`, `number.rs`, `quantize.rs`, `predict.rs`, `entropy.rs`, `stream.rs`; `stream/inspect.rs`,
//! `stream/books.rs`; `job.cuh`, `module.cu`.

#![forbid(unsafe_code)]

mod config;
mod error;
mod layout;
pub mod memory;
pub mod options;
mod reader;
mod text;
mod workspace;

// In the order of the data; rustfmt would sort them if no lines stood between.

/// Types of values, and the integers that stand for them.
mod number;

/// Settles a bound that depends on the chunk: range, PSNR, ratio.
mod bound;

/// Values → integers on a grid, and exceptions.
mod quantize;

/// Integers → what a predictor leaves of them, and the choice of the predictor.
mod predict;

/// What predictors leave → tokens → code words or bit planes.
mod entropy;

/// Headers and planes → streams, and the way of a whole chunk through the stages.
mod stream;

/// Loops with the widest vector instructions of the CPU.
mod simd;

pub use bound::check as check_bound;
pub use config::{AdaptPolicy, CodebookPolicy, CodingPolicy, Config, ErrorBound, PredictorPolicy};
pub use error::{Error, Result};
pub use layout::{ByteOrder, Layout, MAX_RANK, Scalar, Shape, type_of_byte};
pub use stream::header::{Coding, Header};
pub use stream::verified::{Unverified, Verified};
pub use workspace::Workspace;

/// The stages' inside, for the GPU's codec, which shares their numbers and choices, and for tools and measurements that work on single stages. Whoever compresses
/// and decompresses chunks needs none of it, and it changes from version to version.
pub mod stages {
    pub use crate::bound::{Compressor, with_settled_bound};
    pub use crate::entropy::{adaptive, alphabet, bitshuffle, book_choice, codebook, dictionary, lanes, tokens};
    pub use crate::layout::Axes;
    pub use crate::number::{element, fixed_log2, integer, patched16, rounding, small_float, value};
    pub use crate::predict::{choice, interpolation, lorenzo, predictor};
    pub use crate::quantize::{
        bitmap, exceptions, fast_f32, fine_grid, gaps, grid, integer_steps, lattice, linear, logarithm, positions, quantizer,
    };
    pub use crate::stream::{body, books, header, inspect, plane};
}

/// Least stack, in bytes, of a thread that compresses or decompresses, with or without HDF5. On x86-64, optimized code needs 44 KiB with what a thread itself takes:
/// `codec/tests/stack.rs` and `filter/src/stack.rs` run on this much, or on as much as `QUIRE_STACK` says.
pub const LEAST_STACK: usize = 64 << 10;

/// Most bytes that a stream of this layout can take: a chunk that does not shrink is stored.
#[must_use]
pub fn max_stream_len(layout: &Layout) -> u64 {
    stream::header::HEADER_MAX_LEN as u64 + layout.chunk_bytes()
}
