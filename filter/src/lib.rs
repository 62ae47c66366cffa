//! H5Z-Quire: the HDF5 filter plugin.
//!
//! ```text
//! H5Dcreate ──► set_local ──► cd_values: the user's bound + the chunk's type and extents
//! H5Dwrite  ──► filter    ──► backend::compress   ──► quire_gpu, or quire_codec::Workspace
//! H5Dread   ──► filter    ──► backend::decompress ──► quire_gpu, or quire_codec::Workspace
//! NCZarr    ──► nczarr    ──► cd_values, then filter: zarr's metadata and netCDF's variables in place of HDF5's
//! C, Python ──► quire_*   ──► those two, without HDF5, or arrays: many chunks on many threads, and HDF5's chunks as they are
//! ```
//!
//! HDF5 loads this library when a file or a program names filter [`FILTER_ID`], and tools like h5dump load every plugin they find. So
//! loading does nothing: no thread, no allocation, no output. The library is not linked with libhdf5 (see `h5api` for why).

/// Whole arrays, on all cores.
mod arrays;
/// Which processor does a call: the environment's word, the GPU, the CPU.
mod backend;
/// The codec as C functions for programs without HDF5, and for Python.
pub mod c_api;
/// What HDF5 calls.
mod callbacks;
/// The filter's parameters as HDF5 stores them.
pub mod cd_values;
/// The chunk's buffer, which HDF5 and the filter allocate and free in turns.
mod chunk_buffer;
/// The user's dictionary of codebooks.
mod dictionary;
/// Which datatypes are numbers that the codec knows.
pub mod element_type;
/// What the environment says.
mod environment;
/// The border between our code and callers in C.
mod fence;
/// The floating-point mode in which the codec computes.
mod float_environment;
/// The HDF5 functions we call, looked up in the library that is calling.
mod h5api;
/// Texts of errors.
mod message;
/// What NCZarr calls. It frees what it is given with the C library's own function, which on Windows may be that of another library.
#[cfg(not(windows))]
mod nczarr;
/// What the plugin asks of the system, where systems differ. GPUs are used on Linux alone: see `backend::auto`.
#[cfg_attr(windows, path = "platform/windows.rs")]
#[cfg_attr(not(windows), path = "platform/unix.rs")]
mod platform;

use std::ffi::c_void;

use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5pl::{H5PL_TYPE_FILTER, H5PL_type_t};
use hdf5_sys::h5z::{H5Z_CLASS_T_VERS, H5Z_class2_t, H5Z_filter_t};
use quire_codec::{Config, Layout};

pub use self::backend::{check_environment, threads_of_environment};
pub use self::fence::Failure;
use self::fence::{Buffers, with_kept_buffers};

/// Offsets of the chunks that a dataset has in its file, the last axis fastest. `hdf5` is the address of a function of the HDF5 that knows the dataset.
///
/// # Errors
/// Says why HDF5 does not tell.
pub fn chunk_offsets(dataset: hid_t, hdf5: *const c_void) -> Result<Vec<Vec<u64>>, Failure> {
    arrays::stored::offsets(&h5api::Library::with_function(hdf5)?, dataset)
}

/// Compresses a chunk as the filter does: on the GPU, if it is used, and with the user's dictionary.
///
/// # Errors
/// Those of the filter.
pub fn compress(values: &[u8], layout: &Layout, config: &Config<'_>) -> quire_codec::Result<Vec<u8>> {
    with_kept_buffers(|Buffers { workspace, stream, history, .. }| {
        Ok(backend::compress(values.into(), layout, config, workspace, stream, history)?.bytes().to_vec())
    })
}

/// Decompresses the stream of a chunk into `values`, which must have its length.
///
/// # Errors
/// Those of the filter.
pub fn decompress(stream: &[u8], values: &mut [u8]) -> quire_codec::Result<()> {
    with_kept_buffers(|kept| arrays::batch::decompress(stream, values, kept))
}

/// What HDF5 says of a datatype. `hdf5` is the address of a function of the HDF5 that knows the datatype.
///
/// # Errors
/// Says why HDF5 does not tell.
pub fn element_type(datatype: hid_t, hdf5: *const c_void) -> Result<element_type::ElementType, Failure> {
    h5api::Library::with_function(hdf5)?.element_type(datatype)
}

/// Number under which HDF5 knows the filter; from the range for private use until The HDF Group has registered one.
pub const FILTER_ID: H5Z_filter_t = 33791;

/// What HDF5 is to know of the filter.
#[repr(transparent)]
struct FilterClass(H5Z_class2_t);

// SAFETY: the only pointer in it, to the name, leads to a constant that is never written.
unsafe impl Sync for FilterClass {}

static FILTER_CLASS: FilterClass = FilterClass(H5Z_class2_t {
    version: H5Z_CLASS_T_VERS as i32,
    id: FILTER_ID,
    encoder_present: 1,
    decoder_present: 1,
    // HDF5 writes this into every dataset; readers without the plugin see it in their error message.
    name: c"quire (H5Z-Quire, error-bounded compression)".as_ptr(),
    can_apply: Some(callbacks::can_apply),
    set_local: Some(callbacks::set_local),
    filter: Some(callbacks::filter),
});

/// Tells HDF5 that this library is a filter plugin.
// SAFETY: HDF5 prescribes name and signature; no other library in a plugin's local scope is reached by this name.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> H5PL_type_t {
    H5PL_TYPE_FILTER
}

/// Gives HDF5 the filter's `H5Z_class2_t`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    (&raw const FILTER_CLASS).cast()
}

/// Gives NCZarr the codec's `NCZ_codec_t`.
#[cfg(not(windows))]
// SAFETY: NCZarr prescribes name and signature; for the rest as above.
#[unsafe(no_mangle)]
pub extern "C" fn NCZ_get_codec_info() -> *const c_void {
    (&raw const nczarr::CODEC).cast()
}

/// They load HDF5 and the GPU's driver as Linux names them.
#[cfg(all(test, target_os = "linux"))]
mod tests;
