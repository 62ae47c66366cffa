//! The H5Z-Quire codec on NVIDIA GPUs: the stages of `quire-codec` under the same names, and the same bytes.
//!
//! ```text
//! device ─ lends ─> session ─ plan: arrays and launches ─> kernels/*.cu
//!    │                 └──── ring: transfers through pinned memory
//!    └─ context, kernels, tables: once a process
//! ```
//!
//! The kernels are compiled by the build where there is nvcc, and embedded. Nothing of CUDA is linked: the driver is looked for when a
//! device is first asked for. Without one, every call says why and the CPU does the work.
//!
//! # Memory of the host
//!
//! Our own allocations fail with [`Error::NoHostMemory`], and the CPU does the work. These are others', have no form that can be refused, and end the process
//! where there is none of the few hundred bytes that each takes:
//!
//! - cudarc: `Arc`s of the context, the module and each kernel, and C strings of their names, once a process; `Arc`s of the stream once a session; the
//!   list of a kernel's arguments, once a launch that is recorded. A chunk of a layout seen before takes none of them.
//! - rayon: a pool, its threads and their names, once a process; a box for each job that is handed to a helper, up to six a chunk (`copy`).
//! - the NVIDIA driver: what it allocates with malloc it reports as `CUDA_ERROR_OUT_OF_MEMORY`, as far as it checks.
//!
//! Which kernels do which stage is listed at the head of `codec/src/lib.rs`.

mod batch;
mod copy;
mod device;
mod error;
#[allow(
    unreachable_pub,
    missing_docs,
    reason = "the build script includes this file as well; kernels/job.cuh explains the fields"
)]
mod job;
mod launch;
mod memory;
mod plan;
mod ring;
mod session;
mod tables;

pub use batch::{Batch, Floors, Timings, batch_predictor, floors};
#[cfg(not(quire_kernels))]
use device::kernels_not_built;
pub use device::{Compressed, Decompressing, Device, MAX_CHUNK_BYTES, Statistics, device, statistics};
pub use error::{Error, Reason, Result};

/// Whether the build had nvcc, so that the kernels are in this library.
pub const KERNELS_BUILT: bool = cfg!(quire_kernels);
