//! The H5Z-Quire codec on NVIDIA GPUs: the stages of `quire-codec` under the same names, and the same bytes.
//!
//! ```text
//! device ─ lends ─> session ─ plan: arrays and launches ─> kernels
//!    │                 ├──── ring: transfers through pinned memory
//!    │                 ├──── tiles: measured on the device, to choose a predictor
//!    ├──── lends ─> set session ─ resident: batches of chunks in device memory, by the same plans
//!    └───────────────> loaded: context, kernels, tables, once a process
//! ```
//!
//! The kernels are compiled by the build where there is nvcc, and embedded. Nothing of CUDA is linked: the driver is looked for when a device is first asked
//! for. Without a driver or a device, every call says why, and the CPU does the work.
//!
//! # Memory of the host
//!
//! Our own allocations fail with [`Error::NoHostMemory`], and the CPU does the work. Other code ends the process where malloc gives it nothing: cudarc,
//! libloading, rayon-core, std for a new thread, and glibc for a thread's local data. NVIDIA's driver reports `CUDA_ERROR_OUT_OF_MEMORY` as far as it checks.
//!
//! Which kernels do which stage is listed at the head of `codec/src/lib.rs`.

#[cfg(test)]
extern crate self as quire_gpu;

mod call;
mod card;
mod chunk;
mod copy;
mod cores;
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the build script includes this file as well, and alone writes C++")]
mod declare;
mod device;
mod error;
mod images;
#[allow(dead_code, unreachable_pub, reason = "the build script includes this file as well, and kernels alone use some constants")]
mod job;
mod launch;
mod limits;
mod loaded;
mod memory;
mod parameters;
mod plan;
mod resident;
mod ring;
mod session;
mod set_session;
mod staging;
mod statistics;
mod tables;
mod tiles;
mod trial;

pub use call::{Compressed, Decompressing};
pub use card::{Card, Contexts};
pub use chunk::{Chunk, ChunkRoom};
pub use cores::idle_cores;
pub use device::{Device, card, device, device_in_steps, device_of_address, free_workspaces, is_forked, visible_devices};
pub use error::{Error, Reason, Result};
pub use images::CUDA;
pub use resident::{ArrayAxes, Failure, Fault, PackedStreams, Part, Resident, ResidentStream};
pub use staging::Staging;
pub use statistics::{Statistics, statistics};

/// Whether the build had nvcc, so that the kernels are in this library.
pub const KERNELS_BUILT: bool = CUDA.is_some();
