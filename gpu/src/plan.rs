//! Jobs: their arrays in memory of the device, and the order of their launches.

mod decode;
mod encode;
mod key;
mod levels;
mod sizes;

use cudarc::driver::CudaStream;

pub(crate) use decode::DecodePlan;
pub(crate) use encode::EncodePlan;
pub(crate) use key::{DecodeVariant, EncodeVariant, Key};
pub(crate) use sizes::known;

use crate::declare::{Address, ConstPointer};
use crate::error::Result;
use crate::job::Tables;
use crate::loaded::Loaded;

/// A job for chunks of one layout, in one direction.
pub(crate) trait Plan: Sized {
    /// What the launches depend on besides the layout and the number of chunks.
    type Variant: Copy + PartialEq;

    /// A plan whose arrays are in this memory.
    fn new(key: &Key<Self::Variant>, memory: &Memory) -> Self;

    /// Bytes of all arrays.
    fn len(&self) -> usize;

    /// Launches the kernels in order.
    ///
    /// # Errors
    /// `Failed`, or `Unsupported` for a variant that the type of the values does not have.
    fn enqueue(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()>;

    /// Bytes of memory for the arrays.
    fn needed(key: &Key<Self::Variant>) -> usize {
        Self::new(key, &Memory::default()).len()
    }
}

/// Memory that a plan's pointers lead to. Plans for the default, all of it null, are made to learn how much memory they need.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Device memory for all arrays of the job, of the plan's `len` bytes.
    pub(crate) arrays: Address,
    /// The device's tables.
    pub(crate) tables: ConstPointer<Tables>,
    /// Pinned memory from which kernels fetch codebooks and parameters of a chunk to compress, or a stream; null if they are sent.
    pub(crate) inbox: Address,
    /// Addresses, in device memory, of the values of resident chunks.
    pub(crate) values: Address,
    /// Pinned memory to which kernels write streams; null if streams stay on the device.
    pub(crate) streams: Address,
    /// Pinned memory to which kernels write results.
    pub(crate) results: Address,
    /// Pinned memory to which kernels write what they have found in chunks before these are compressed; null if the host does not read it.
    pub(crate) inspections: Address,
}
