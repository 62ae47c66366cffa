//! What NCZarr calls, the zarr of netCDF-C 4.9 and newer: the codec `quire` of zarr's format 2, as numcodecs has it (`python/src/h5z_quire/numcodecs.py`).
//!
//! NCZarr loads HDF5's plugins, and asks `NCZ_get_codec_info` for three functions (`netcdf_filter_build.h`). The first two convert between the metadata's
//! JSON and a user's `cd_values`. [`modify_parameters`] then adds a variable's type and chunk, as `set_local` does for HDF5. The functions return netCDF's
//! codes, which have no text, and write the reason to stderr.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use quire_codec::{ByteOrder, Error, Layout, MOST_ELEMENT_BYTES, Result, Scalar, memory};
use serde::Deserialize;

use crate::FILTER_ID;
use crate::backend;
use crate::callbacks::{complete, words_from_raw};
use crate::cd_values::{self, CdValues};
use crate::fence::{Failure, contain};
use crate::h5api::Library;

const CODEC_ID: &CStr = c"quire";
/// `NCZ_CODEC_CLASS_VER` and `NCZ_CODEC_HDF5`
const CLASS_VERSION: c_int = 1;
const SORT_HDF5: c_int = 1;
/// `NC_NOERR` and `NC_EFILTER`
const NO_ERROR: c_int = 0;
const FILTER_ERROR: c_int = -132;
/// `NC_ENDIAN_LITTLE` and `NC_ENDIAN_BIG`; 0 is the machine's own order.
const LITTLE: c_int = 1;
const BIG: c_int = 2;

const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// `NCZ_codec_t`
#[repr(C)]
pub(crate) struct Codec {
    version: c_int,
    sort: c_int,
    id: *const c_char,
    filter: c_uint,
    initialize: Option<extern "C" fn()>,
    finalize: Option<extern "C" fn()>,
    to_hdf5: unsafe extern "C" fn(*const c_char, *mut usize, *mut *mut c_uint) -> c_int,
    of_hdf5: unsafe extern "C" fn(usize, *const c_uint, *mut *mut c_char) -> c_int,
    modify_parameters: unsafe extern "C" fn(c_int, c_int, *mut usize, *mut *mut c_uint, *mut usize, *mut *mut c_uint) -> c_int,
}

// SAFETY: the only pointer in it leads to a constant.
unsafe impl Sync for Codec {}

pub(crate) static CODEC: Codec = Codec {
    version: CLASS_VERSION,
    sort: SORT_HDF5,
    id: CODEC_ID.as_ptr(),
    filter: FILTER_ID as c_uint,
    initialize: None,
    finalize: None,
    to_hdf5,
    of_hdf5,
    modify_parameters,
};

/// What zarr's metadata have of the codec. A `dtype` and a `fill_value`, which numcodecs may write beside it, are in NCZarr those of the variable.
#[derive(Deserialize)]
struct Metadata {
    quire: String,
}

/// Converts the codec's JSON to `cd_values`.
///
/// # Safety
/// `json` is a text of C; the others can be written.
unsafe extern "C" fn to_hdf5(json: *const c_char, count: *mut usize, words: *mut *mut c_uint) -> c_int {
    told(|| {
        // SAFETY: the caller's promise.
        let json = unsafe { CStr::from_ptr(json) }.to_bytes();
        let metadata: Metadata = serde_json::from_slice(json)
            .map_err(|error| Error::invalid(format_args!("the codec quire in zarr's metadata cannot be read: {error}")))?;
        let parameters = cd_values::from_options(&metadata.quire)?;
        // SAFETY: the caller's promise.
        unsafe { (*count, *words) = (parameters.len(), in_c_memory(&parameters)?) };
        Ok(())
    })
}

/// Converts a user's `cd_values` to the codec's JSON.
///
/// # Safety
/// `words` holds `count` words, and `json` can be written.
unsafe extern "C" fn of_hdf5(count: usize, words: *const c_uint, json: *mut *mut c_char) -> c_int {
    told(|| {
        // SAFETY: the caller's promise.
        let options = cd_values::to_options(unsafe { words_from_raw(count, words)? })?;
        let text = memory::text(format_args!("{{\"id\":\"quire\",\"quire\":\"{options}\"}}\0"))?;
        // SAFETY: the caller's promise.
        unsafe { *json = in_c_memory(text.as_bytes())?.cast() };
        Ok(())
    })
}

/// Makes the `cd_values` that the filter works with: a user's, completed by what netCDF says of the variable.
///
/// # Safety
/// `users` leads to `users_count` words; `words` leads to null or to memory of malloc.
unsafe extern "C" fn modify_parameters(
    file: c_int,
    variable: c_int,
    users_count: *mut usize,
    users: *mut *mut c_uint,
    count: *mut usize,
    words: *mut *mut c_uint,
) -> c_int {
    told(|| {
        // SAFETY: the caller's promise.
        let parameters = CdValues::parse(unsafe { words_from_raw(*users_count, *users)? })?;
        let Variable { layout, fill_value } = Variable::of(file, variable)?;
        let fill_value = fill_value.as_ref().map(|element| (&element[..layout.scalar.size()], NATIVE));
        let complete = complete(parameters, layout, fill_value)?;
        let copy = in_c_memory(&complete)?;
        // SAFETY: the caller's promise. Nothing fails between the old words' end and the new ones.
        unsafe {
            libc::free((*words).cast());
            (*count, *words) = (complete.len(), copy);
        }
        Ok(())
    })
}

/// What netCDF says of a variable.
struct Variable {
    /// Of its chunks.
    layout: Layout,
    /// In the machine's byte order.
    fill_value: Option<[u8; MOST_ELEMENT_BYTES]>,
}

impl Variable {
    fn of(file: c_int, variable: c_int) -> std::result::Result<Self, Failure> {
        type Ask<T> = unsafe extern "C" fn(c_int, c_int, *mut T) -> c_int;
        type AskTwo<A, B> = unsafe extern "C" fn(c_int, c_int, *mut A, *mut B) -> c_int;
        let netcdf = Library::exporting(c"nc_inq_vartype").ok_or_else(|| {
            Error::invalid("the netCDF library that called the filter cannot be found in this process, or there are several: use a shared one")
        })?;
        // SAFETY: these are their signatures since netCDF 4.0.
        let (kind_of, rank_of, order_of, chunking_of, fill_of) = unsafe {
            (
                netcdf.function::<Ask<c_int>>(c"nc_inq_vartype")?,
                netcdf.function::<Ask<c_int>>(c"nc_inq_varndims")?,
                netcdf.function::<Ask<c_int>>(c"nc_inq_var_endian")?,
                netcdf.function::<AskTwo<c_int, usize>>(c"nc_inq_var_chunking")?,
                netcdf.function::<AskTwo<c_int, c_void>>(c"nc_inq_var_fill")?,
            )
        };
        let (mut kind, mut rank, mut order, mut storage, mut is_unfilled) = (0, 0, 0, 0, 0);
        // SAFETY: each writes a number.
        succeed("nc_inq_vartype", unsafe { kind_of(file, variable, &mut kind) })?;
        let scalar = scalar_of(kind)?;
        // SAFETY: as above.
        succeed("nc_inq_varndims", unsafe { rank_of(file, variable, &mut rank) })?;
        // SAFETY: as above.
        succeed("nc_inq_var_endian", unsafe { order_of(file, variable, &mut order) })?;
        let (mut chunk, mut extents) = (Vec::new(), Vec::new());
        memory::resize(&mut chunk, rank as usize)?;
        // SAFETY: it writes as many extents as the variable has dimensions.
        succeed("nc_inq_var_chunking", unsafe { chunking_of(file, variable, &mut storage, chunk.as_mut_ptr()) })?;
        for extent in chunk {
            memory::push(&mut extents, extent as u64)?;
        }
        let mut fill_value = [0; MOST_ELEMENT_BYTES];
        // SAFETY: it writes an element, which has room.
        succeed("nc_inq_var_fill", unsafe { fill_of(file, variable, &mut is_unfilled, fill_value.as_mut_ptr().cast()) })?;
        let byte_order = match order {
            LITTLE => ByteOrder::Little,
            BIG => ByteOrder::Big,
            _ => NATIVE,
        };
        Ok(Self { layout: Layout::of_chunk(scalar, byte_order, &extents)?, fill_value: (is_unfilled == 0).then_some(fill_value) })
    }
}

/// The codec's name for an `nc_type`.
fn scalar_of(kind: c_int) -> Result<Scalar> {
    Ok(match kind {
        1 => Scalar::I8,
        3 => Scalar::I16,
        4 => Scalar::I32,
        5 => Scalar::F32,
        6 => Scalar::F64,
        7 => Scalar::U8,
        8 => Scalar::U16,
        9 => Scalar::U32,
        10 => Scalar::I64,
        11 => Scalar::U64,
        _ => {
            return Err(Error::invalid(format_args!(
                "a variable of nc_type {kind} cannot be compressed: the filter needs numbers, no characters or strings"
            )));
        }
    })
}

/// Passes on netCDF's errors.
fn succeed(function: &str, status: c_int) -> Result<()> {
    if status == NO_ERROR { Ok(()) } else { Err(Error::invalid(format_args!("{function} of netCDF fails with status {status}"))) }
}

/// Runs a body, and writes the reason of a failure to stderr.
fn told(body: impl FnOnce() -> std::result::Result<(), Failure>) -> c_int {
    match contain(body) {
        Ok(()) => NO_ERROR,
        Err(failure) => {
            backend::say(format_args!("{failure}"));
            FILTER_ERROR
        }
    }
}

/// A copy that netCDF frees.
fn in_c_memory<T: Copy>(values: &[T]) -> Result<*mut T> {
    let bytes = size_of_val(values);
    // SAFETY: malloc takes any length.
    let copy = unsafe { libc::malloc(bytes) }.cast::<T>();
    if copy.is_null() {
        return Err(Error::OutOfMemory { bytes: bytes as u64 });
    }
    // SAFETY: the memory is as long as the values, and aligned for any type.
    unsafe { copy.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    Ok(copy)
}
