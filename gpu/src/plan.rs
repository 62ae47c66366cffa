//! Jobs: their arrays in a session's memory, and the order of their launches.

mod decode;
mod encode;
mod key;
mod levels;
mod sizes;

pub(crate) use decode::DecodePlan;
pub(crate) use encode::EncodePlan;
pub(crate) use key::{DecodeVariant, EncodeVariant, Key, Variant};
pub(crate) use sizes::known;

use crate::declare::{Address, ConstPointer};
use crate::job::Tables;

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
