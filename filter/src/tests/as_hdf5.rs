//! The filter as HDF5 calls it, for tests.

use std::ffi::c_uint;
use std::slice;

use hdf5_sys::h5z::H5Z_FLAG_REVERSE;
use quire_codec::{Coding, Unverified, Workspace};

use crate::callbacks;
use crate::tests::low_memory::refusing::spare;

/// Calls the filter with `bytes` in malloc's memory. Returns the bytes that it leaves there, or `None` if it fails and has left them unchanged, or has stored them
/// in a stream as they are.
pub(crate) fn filter(flags: c_uint, words: &[c_uint], bytes: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: plain allocation, as HDF5 makes it.
    let mut address = unsafe { libc::malloc(bytes.len()) };
    assert!(!address.is_null());
    // SAFETY: as long as that, and elsewhere.
    unsafe { address.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    let mut size = bytes.len();
    // SAFETY: as HDF5 calls it.
    let length = unsafe { callbacks::filter(flags, words.len(), words.as_ptr(), bytes.len(), &mut size, &mut address) };
    spare(|| {
        // SAFETY: the filter leaves that many bytes; after a failure the data are as they were.
        let left = unsafe { slice::from_raw_parts(address.cast::<u8>(), if length > 0 { length } else { bytes.len() }) };
        assert!(length > 0 || left == bytes, "a failure has changed the chunk");
        let is_stored =
            Unverified::read(left).is_ok_and(|stream| flags & H5Z_FLAG_REVERSE == 0 && stream.header().coding == Coding::Stored);
        assert!(!is_stored || Workspace::default().decompress(left, &mut vec![0; bytes.len()]).is_ok() && left.ends_with(bytes));
        let outcome = (length > 0 && !is_stored).then(|| left.to_vec());
        // SAFETY: HDF5 frees what the filter leaves.
        unsafe { libc::free(address) };
        outcome
    })
}
