//! Raw chunks: the stored bytes, not decompressed.

use std::ffi::c_void;

use anyhow::{Result, ensure};
use hdf5::Dataset;
use hdf5_sys::h5::{herr_t, hsize_t};
use hdf5_sys::h5d::{H5Dread_chunk1, H5Dwrite_chunk};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;

use super::{check, locked, make_room};

// SAFETY: HDF5 has had this function with this signature since 1.10.2; `hdf5-sys` leaves it out.
unsafe extern "C" {
    fn H5Dget_chunk_storage_size(dataset: hid_t, offset: *const hsize_t, bytes: *mut hsize_t) -> herr_t;
}

/// First corners of the stored chunks, sorted by index with the last axis fastest.
///
/// # Errors
/// If HDF5 cannot list the chunks.
pub(crate) fn corners(dataset: &Dataset) -> Result<Vec<Vec<u64>>> {
    Ok(locked(|| h5zquire::chunk_offsets(dataset.id(), H5Dwrite_chunk as *const c_void))?)
}

fn check_axes(dataset: &Dataset, corner: &[u64]) -> Result<()> {
    ensure!(
        corner.len() == dataset.ndim(),
        "chunk offset {corner:?} has {} axes, the dataset has {}",
        corner.len(),
        dataset.ndim()
    );
    Ok(())
}

/// Replaces `bytes` with the stored bytes of a chunk, after all filters. Returns HDF5's filter mask: bit i is 1 if filter i was skipped when the chunk was
/// written.
///
/// # Errors
/// HDF5's.
pub(crate) fn read(dataset: &Dataset, corner: &[u64], bytes: &mut Vec<u8>) -> Result<u32> {
    check_axes(dataset, corner)?;
    let (mut length, mut left_out) = (0, 0);
    // SAFETY: `corner` has as many numbers as the dataset has axes; HDF5 checks the identifier and writes one number.
    locked(|| unsafe { check(H5Dget_chunk_storage_size(dataset.id(), corner.as_ptr(), &mut length)) })?;
    make_room(bytes, 1, length as usize)?;
    // SAFETY: as above, and `bytes` has room for the whole chunk, of which HDF5 has just given the length.
    locked(|| unsafe {
        check(H5Dread_chunk1(dataset.id(), H5P_DEFAULT, corner.as_ptr(), &mut left_out, bytes.as_mut_ptr().cast()))
    })?;
    Ok(left_out)
}

/// Writes a chunk's bytes as they are to be stored, after all filters.
///
/// # Errors
/// HDF5's.
pub(crate) fn write(dataset: &Dataset, corner: &[u64], bytes: &[u8]) -> Result<()> {
    check_axes(dataset, corner)?;
    // SAFETY: `corner` has as many numbers as the dataset has axes; HDF5 checks the identifier and reads no more bytes than it is told there are.
    locked(|| unsafe { check(H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, corner.as_ptr(), bytes.len(), bytes.as_ptr().cast())) })
}
