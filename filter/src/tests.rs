//! Tests of the filter as a whole, and what they share with the tests of its modules.

/// The filter, called as HDF5 calls it.
pub(crate) mod as_hdf5;
/// Calls without memory.
pub(crate) mod low_memory;
/// Calls on a small stack.
mod stack;
