//! The H5Z-Quire codec on NVIDIA GPUs: the stages of `quire-codec` under the same names, and the same bytes.
//!
//! ```text
//! device ─ lends ─> session ─ plan: arrays and launches ─> kernels
//!    │                 ├──── ring: transfers through pinned memory
//!    │                 ├──── tiles: measured on the device, to choose a predictor
//!    ├──── lends ─> room ─ resident: batches of chunks in device memory, by the same plans
//!    └───────────────> loaded: context, kernels, tables, once a process
//! ```
//!
//! The kernels are compiled by the build where there is nvcc, and embedded. Nothing of CUDA is linked: the driver is looked for when a
//! device is first asked for. Without one, every call says why and the CPU does the work.
//!
//! # Memory of the host
//!
//! Our own allocations fail with [`Error::NoHostMemory`], and the CPU does the work. Other crates allocate in ways that cannot fail: if malloc returns null, the
//! process ends. They are
//!
//! - cudarc: `Arc`s of the context, the module and each kernel, and C strings of their names, once a process; `Arc`s of the stream once a session.
//!   A chunk of a layout seen before takes none of them.
//! - libloading: names of libraries and functions, while the driver is looked for.
//! - rayon-core: a pool, its threads and their names, once a process; a box for each job that is handed to a helper, up to six a chunk (`copy`).
//! - std: what a new thread needs, and a panic, which is how cudarc says that the driver lacks a function.
//!
//! The plugin has a reserve for them (`filter/src/reserve.rs`): where malloc refuses up to 8 KiB, a slot serves them, and no chunk goes to the GPU until malloc
//! gives memory again. So the slots need to last for the calls under way. A first call with a GPU to open, and the next of both directions, have lived on them
//! alone (`filter/src/low_memory/on_the_gpu.rs`, which also refuses each allocation in turn). They do not help
//!
//! - where more calls are under way than slots are left for;
//! - against what does not ask Rust's allocator: glibc ends the process where it has no memory for the thread-local data of a new thread, and NVIDIA's driver
//!   reports `CUDA_ERROR_OUT_OF_MEMORY` as far as it checks;
//! - for a panic under `RUST_BACKTRACE=1`, whose report reads the library's symbols into memory;
//! - programs that link this crate without the plugin's allocator.
//!
//! Which kernels do which stage is listed at the head of `codec/src/lib.rs`.

mod batch;
mod call;
mod card;
mod chunk;
mod copy;
mod cores;
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the build script includes this file as well, and alone writes C++")]
mod declare;
mod device;
mod error;
#[allow(dead_code, unreachable_pub, reason = "the build script includes this file as well, and kernels alone use some constants")]
mod job;
mod launch;
mod limits;
mod loaded;
#[cfg(test)]
mod low_memory;
mod memory;
mod parameters;
mod plan;
mod resident;
mod ring;
mod room;
mod session;
mod staging;
mod statistics;
mod tables;
mod tiles;
mod trial;

pub use batch::{Batch, BatchChoice, Floors, MeasuredTiles, Timings, batch_predictor, floors};
pub use call::{Compressed, Decompressing};
pub use card::{Card, Contexts};
pub use chunk::{Chunk, ChunkRoom};
pub use cores::idle_cores;
pub use device::{Device, card, device, device_in_steps, device_of_address, free_workspaces, is_forked, visible_devices};
pub use error::{Error, Reason, Result};
pub use limits::MAX_CHUNK_BYTES;
pub use resident::{ArrayAxes, Failure, Fault, PackedStreams, Part, Resident, ResidentStream};
pub use staging::Staging;
pub use statistics::{Statistics, statistics};

/// Whether the build had nvcc, so that the kernels are in this library.
pub const KERNELS_BUILT: bool = cfg!(quire_kernels);
