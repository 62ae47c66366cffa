//! The reference implementation of H5Z-Quire's streams. FORMAT.md defines the format: where this crate disagrees with it, the crate is wrong.
//!
//! ```
//! use quire_codec::{ByteOrder, Config, Layout, Scalar, Workspace};
//!
//! let values: Vec<f32> = (0..64 * 64).map(|index| (index as f32 / 50.0).sin()).collect();
//! let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
//! let layout = Layout::of_chunk(Scalar::F32, ByteOrder::Little, &[64, 64])?; // [ny][nx], x fastest
//! let (mut workspace, mut stream) = (Workspace::default(), Vec::new()); // kept from chunk to chunk
//! workspace.compress(&chunk, &layout, &Config::absolute(1e-3)?, &mut stream)?;
//!
//! let mut restored = vec![0; chunk.len()];
//! workspace.decompress(&stream, &mut restored)?;
//! for (value, bytes) in values.iter().zip(restored.as_chunks().0) {
//!     assert!((f64::from(*value) - f64::from(f32::from_le_bytes(*bytes))).abs() <= 1e-3);
//! }
//! # Ok::<(), quire_codec::Error>(())
//! ```
//!
//! Options as a text, such as `rel=1e-4`, are read by [`options::parse`]. Damaged streams are errors, and never read or allocate more than their header says.
//!
//! ```text
//!             ┌ rounding grid ─> codes ─ lorenzo ─> differences ┐
//! chunk bytes ┤                                                 ├ tokenize ─> tokens ─ codebook, lanes ─> stream
//!             └ interpolation ────────────────────> residuals   ┘
//! ```
//!
//! Values that the grid cannot hold are exceptions. A few of them are a list in the stream; many are two more planes of integers, their mask and their bits.
//!
//! # Stages
//!
//! Each stage's folder has a `plain.rs`: its definition as FORMAT.md states it, against which tests compare the fast code. Read it first.
//!
//! The table lists the files of `codec/src` and of `gpu/kernels` by stage. Files in a folder belong to the row of the file with the folder's name.
//! `codec/tests/stages.rs` compares the table with both folders.
//!
//! | # | stage | FORMAT.md | CPU | CUDA |
//! |---|---|---|---|---|
//! | 0 | settle the bound | §11 | `bound.rs`, `bound/earlier.rs`, `bound/far.rs`, `bound/ladder.rs`, `bound/padding.rs`, `bound/psnr.rs`, `bound/ratio.rs`, `bound/spacing.rs`, `bound/values.rs`, `quantize/last_digit.rs` | the same functions; `quantize/inspect.cuh` looks at values |
//! | 0 | choose grid and predictor | §11 | `predict/choice.rs` | `predict/choice.cuh` measures tiles; the same functions decide, for batches `predict/estimate.cuh`; `predict/tile_differences.cuh`, `predict/tile_groups.cuh`, `predict/tile_counts.cuh`, `predict/tile_tables.cuh`, `predict/tile_values.cuh` |
//! | 1 | quantize on an absolute bound's grid or on a lattice | §5.1 | `quantize/grid.rs`, `quantize/quantizer.rs`, `quantize/linear.rs`, `quantize/lattice.rs`, `quantize/fills.rs`, `quantize/excluded.rs`, `quantize/fast_f32.rs` | `quantize/segments.cuh`, `quantize/linear.cuh`, `quantize/lattice.cuh`, `quantize/fast_f32.cuh` |
//! | 1 | mark exceptions, fill their gaps, list or mask them | §4, §5 | `quantize/bitmap.rs`, `quantize/gaps.rs`, `quantize/exceptions.rs` | `quantize/exceptions.cuh` |
//! | 1' | or exact integers, steps of integers, steps of the logarithm, decimals | §5.3–§5.6 | `number/element.rs`, `quantize/integer_steps.rs`, `quantize/logarithm.rs`, `quantize/decimal.rs` | `quantize/grid.cuh`, `quantize/integer_steps.cuh`, `quantize/logarithm.cuh`, `quantize/decimal.cuh` |
//! | 1 | find limits; restored values stay within them | §5.1, §11.3 | `quantize/limits.rs` | `quantize/limits.cuh` |
//! | 2 | predict by differences | §6.1 | `predict/lorenzo.rs`, `predict/sums.rs` | `predict/lorenzo.cuh`, `predict/sums.cuh` |
//! | 2' | or quantize and predict by interpolation | §5.2, §6.2 | `quantize/fine_grid.rs`, `quantize/positions.rs`, `predict/interpolation.rs` | `quantize/fine_grid.cuh`, `predict/interpolation.cuh`, `predict/coarse_levels.cuh`, `predict/fine_levels.cuh` |
//! | 3 | runs and classes | §7 | `entropy/alphabet.rs`, `entropy/tokens.rs` | `entropy/alphabet.cuh`, `entropy/tokens.cuh`, `entropy/expand.cuh` |
//! | 4 | choose a codebook | §8, §11 | `entropy/codebook.rs`, `entropy/book_choice.rs`, `entropy/book_lengths.rs`, `entropy/dictionary.rs`, `entropy/adaptive.rs` | `entropy/codebook.cuh`, `entropy/book_lengths.cuh` |
//! | 5 | Huffman code in lanes | §9.1 | `entropy/lanes.rs`, `entropy/decode_tables.rs` | `entropy/lanes.cuh` |
//! | 3' | or bit planes, in place of 3 to 5 | §9.2 | `entropy/bitshuffle.rs` | `entropy/bitshuffle.cuh` |
//! | – | planes and whole chunks | §2–§4 | `workspace.rs`, `reader.rs`, `predict/predictor.rs`, `stream/encode.rs`, `stream/slabs.rs`, `stream/decode.rs`, `stream/buffers.rs`, `stream/verified.rs`, `stream/header.rs`, `stream/body.rs`, `stream/plane.rs` | `stream/plane.cuh`, `stream/checksum.cuh`, `stream/transfer.cuh`, `stream/copies.cuh` |
//! | – | pairs as arrays of their parts | §3 | `number/pairs.rs` | on the host |
//! | – | numbers of all stages | | `number/integer.rs`, `number/small_float.rs`, `number/value.rs`, `number/patched16.rs`, `number/rounding.rs`, `number/fixed_log2.rs`, `number/dispatch.rs`, `layout.rs` | `number/small_float.cuh`, `number/integer.cuh`, `number/fixed_log2.cuh` |
//! | – | instructions of the processor | | `simd.rs`, `simd/bytes.rs`, `fast_paths.rs` | `common.cuh`, `shared.cuh` |
//!
//! Without a stage: `lib.rs`, `config.rs`, `options.rs`, `brick.rs`, `fill_value.rs`, `keep.rs`, `error.rs`, `memory.rs`, `text.rs`, `number.rs`, `quantize.rs`, `predict.rs`,
//! `entropy.rs`, `stream.rs`; `stream/inspect.rs`, `fast_paths/bench.rs`, `stream/books.rs`; `job.cuh`, `module.cu`.

#![forbid(unsafe_code)]

mod brick;
mod config;
mod error;
mod fill_value;
mod keep;
mod layout;
pub mod memory;
pub mod options;
mod reader;
mod text;
mod workspace;

// The modules are in the order of the data. Blank lines keep rustfmt from sorting them.

/// Types of values, and the integers that encode them.
mod number;

/// Settles a bound that depends on the chunk: range, PSNR, ratio.
mod bound;

/// Values → integers on a grid, and exceptions.
mod quantize;

/// Integers → residuals of a predictor, and the choice of the predictor.
mod predict;

/// Residuals → tokens → code words, or residuals → bit planes.
mod entropy;

/// Headers and planes → streams. Takes whole chunks through all stages.
mod stream;

/// Loops with the widest vector instructions of the CPU.
mod simd;

/// The fast paths that stages can do without.
mod fast_paths;

/// Random numbers of tests.
#[cfg(test)]
#[path = "../tests/common/random.rs"]
mod random;

pub use bound::check as check_bound;
pub use brick::Brick;
pub use config::{AdaptPolicy, CodebookPolicy, CodingPolicy, Config, ErrorBound, PredictorPolicy, SettledBound, SettledConfig};
pub use error::{Error, Result};
pub use fill_value::{MOST_ELEMENT_BYTES, fill_bits};
pub use keep::{Keep, MAX_THRESHOLDS};
pub use layout::{ByteOrder, Layout, MAX_RANK, Scalar, Shape, type_of_byte};
pub use stream::header::{Coding, Header};
pub use stream::verified::{Unverified, Verified};
pub use workspace::Workspace;

/// The modules of the stages. The GPU's codec shares their constants and choices; tools and measurements run single stages. A program that compresses and
/// decompresses chunks needs none of them, and they change from version to version.
pub mod stages {
    pub use crate::bound::{Compressor, settled, span_of, tries_exact_bits, with_settled_bound};
    pub use crate::entropy::{adaptive, alphabet, bitshuffle, book_choice, book_lengths, codebook, dictionary, lanes, tokens};
    pub use crate::layout::Axes;
    pub use crate::number::{element, fixed_log2, integer, pairs, patched16, rounding, small_float, value};
    pub use crate::predict::{choice, interpolation, lorenzo, predictor};
    pub use crate::quantize::{
        bitmap, decimal, exceptions, fast_f32, fills, fine_grid, gaps, grid, integer_steps, last_digit, lattice, limits, linear,
        logarithm, positions, quantizer,
    };
    pub use crate::stream::{body, books, header, inspect, plane};
}

/// Least stack, in bytes, of a thread that compresses or decompresses, with or without HDF5. On x86-64, optimized code needs 44 KiB, including the stack that
/// the thread itself takes. `codec/tests/stack.rs` and `filter/src/tests/stack.rs` run on a stack of this size, or of `QUIRE_STACK` bytes.
pub const LEAST_STACK: usize = 64 << 10;

/// Stack, in bytes, of every thread that the library or the command line starts. Each thread asks for this stack. Otherwise std would take the number of
/// `RUST_MIN_STACK`, and a stack that is too small ends the process. It is more than [`LEAST_STACK`], as such threads also call a GPU's driver.
pub const THREAD_STACK: usize = 2 << 20;

/// Length, in bytes, of the longest stream of a chunk with this layout. A chunk that does not shrink is stored as it is, behind a header.
#[must_use]
pub fn max_stream_len(layout: &Layout) -> u64 {
    stream::header::HEADER_MAX_LEN as u64 + layout.chunk_bytes()
}
