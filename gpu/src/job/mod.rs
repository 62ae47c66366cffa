//! What kernels work on: structures and constants that host and kernels share.
//!
//! This is the only declaration. `build.rs` writes the structures to `job_structs.cuh` and the constants to `constants.cuh`, with these
//! comments, and nvcc checks the offset of every field.
//!
//! A job is a batch of chunks of one layout; batches of the filter's callbacks hold one chunk. Every array of a job has one part a chunk, all parts of
//! one length, so that kernels compute pointers from the chunk's index. `[chunk][segment]` gives the order of an array's entries, slowest
//! index first. A segment is `SEGMENT` consecutive values. A block of the stream has a power of two of segments, so that a chunk has no more blocks than
//! segments. Arrays of blocks are therefore as long as arrays of segments: in `[chunk][block]`, too, a chunk has an entry for each segment.
//!
//! The file is a `mod.rs` because `build.rs` includes it by its path: so its modules are found beside it.

mod common;
mod copies;
mod decode;
mod encode;
mod tiles;

pub use common::*;
pub use copies::*;
pub use decode::*;
pub use encode::*;
pub use tiles::*;

use crate::declare::Constant;

/// All constants.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    [common::CONSTANTS, encode::CONSTANTS, decode::CONSTANTS, tiles::CONSTANTS, copies::CONSTANTS].into_iter().flatten()
}

/// All structures in C++; those that others contain come first.
pub fn struct_declarations() -> String {
    let texts = [
        common::struct_declarations,
        encode::struct_declarations,
        decode::struct_declarations,
        tiles::struct_declarations,
        copies::struct_declarations,
    ];
    texts.map(|text| text()).concat()
}
