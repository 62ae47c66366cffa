//! What HDF5 calls: `can_apply`, `set_local`, `filter`.
//!
//! A callback begins with a few instructions that add its return address to the arguments. By this address `h5api` finds the HDF5 library that has called. The
//! rest is a function whose body runs in [`fence`], which catches panics. An error becomes an entry on HDF5's error stack, and the callback returns its failure
//! value.
//!
//! `filter` calls HDF5 for this entry alone. So chunks can be read and written where none of HDF5's functions is found.

/// What HDF5 calls first, by machine.
///
/// `set_local` completes the cd_values when a dataset is created. It returns a negative number, with the reason on the error stack, if the dataset cannot be
/// compressed.
///
/// `filter` compresses or decompresses a chunk. It returns the new length in bytes, or 0 for a failure, with the reason on the error stack.
///
/// # Safety
/// For `filter`: `cd_values` points to `cd_nelmts` words, and `*buf` to `*buf_size` bytes of HDF5's memory, of which the first `nbytes` hold data.
#[cfg_attr(all(target_arch = "x86_64", not(windows)), path = "callbacks/entry/x86_64.rs")]
#[cfg_attr(all(target_arch = "x86_64", windows), path = "callbacks/entry/x86_64_windows.rs")]
#[cfg_attr(target_arch = "aarch64", path = "callbacks/entry/aarch64.rs")]
mod entry;

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::fmt;
use std::slice;

use hdf5_sys::h5::{herr_t, htri_t};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5z::{H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32, H5Z_FILTER_SHUFFLE, H5Z_FLAG_OPTIONAL, H5Z_FLAG_REVERSE};
use quire_codec::stages::header::seal;
use quire_codec::stages::pairs;
use quire_codec::{ByteOrder, Coding, Error, ErrorBound, Header, Layout, Result, Unverified, fill_bits, memory};

pub(crate) use self::entry::{filter, set_local};
use crate::FILTER_ID;
use crate::backend;
use crate::cd_values::{CdValues, MAX_WORDS};
use crate::chunk_buffer::ChunkBuffer;
use crate::fence::{Buffers, Failure, contain, with_kept_buffers};
use crate::h5api::{Library, ListedFilter};
use crate::message::Message;
use crate::platform::Heap;

/// Says yes to every dataset. A no would be ignored where the filter was set as optional, which h5py and netCDF always do, and would
/// carry no reason elsewhere; so it is [`set_local`] that refuses.
pub(crate) extern "C" fn can_apply(_dcpl: hid_t, _type_id: hid_t, _space: hid_t) -> htri_t {
    1
}

/// [`set_local`], with the address that it returns to.
extern "C" fn set_local_called_from(dcpl: hid_t, type_id: hid_t, _space: hid_t, return_address: *const c_void) -> herr_t {
    fence(Callback::SetLocal, return_address, -1, || {
        let library = Library::of_caller(return_address)?;
        if dcpl < 0 {
            // So HDF5 announces the storage of a group's links or an object's attributes.
            return Err(Error::invalid("only datasets can be compressed: do not set the filter for a group").into());
        }
        check_pipeline(&library.filters(dcpl)?)?;
        let (flags, words) = library.filter_parameters(dcpl, FILTER_ID, MAX_WORDS)?;
        let mut parameters = CdValues::parse(&words)?;
        let element_type = library.element_type(type_id)?;
        let (scalar, byte_order) = element_type.scalar()?;
        if element_type.is_enumeration() {
            // One bound is often set for all datasets of a file: its booleans are no reason to fail, and must not be rounded.
            parameters.config = parameters.config.with_bound(ErrorBound::Lossless);
        }
        let layout = Layout::of_chunk(scalar, byte_order, &library.chunk_extents(dcpl)?)?;
        let fill_value = library.fill_value(dcpl, type_id, scalar.element_size())?;
        let words =
            complete(parameters, layout, fill_value.as_ref().map(|element| (&element[..scalar.element_size()], byte_order)))?;
        library.set_filter_parameters(dcpl, FILTER_ID, flags, &words)?;
        Ok(0)
    })
}

/// The `cd_values` of a dataset: a user's, with the layout of its chunks and its fill value, which is given as an element in a byte order.
///
/// # Errors
/// `InvalidArgument` if the dataset cannot be compressed so.
pub(crate) fn complete(mut parameters: CdValues, layout: Layout, fill_value: Option<(&[u8], ByteOrder)>) -> Result<Vec<u32>> {
    let layout = layout.in_bricks(parameters.brick)?;
    quire_codec::check_bound(&layout, &parameters.config)?;
    backend::check_dataset(&layout)?;
    let given = parameters.given_fill_value(layout.scalar);
    let bound = parameters.config.bound;
    let bits = fill_value.map(|(element, order)| fill_bits(element, layout.scalar, order, bound)).transpose()?;
    parameters.config.fill_value = bits.or(given);
    parameters.layout = Some(layout);
    parameters.to_words()
}

/// Filters that may stand behind this one: each gives back the bytes that it was given, of any length and contents.
const BYTE_FILTERS: [c_int; 6] = [H5Z_FILTER_DEFLATE, H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32, BZIP2, LZ4, ZSTANDARD];
/// Filters that may stand behind this one if they are optional: each gives back the bytes that it was given, but fails where it saves none. Streams hold little
/// that can be saved.
const SAVING_BYTE_FILTERS: [c_int; 2] = [LZF, BLOSC];

const BZIP2: c_int = 307;
const LZF: c_int = 32000;
const BLOSC: c_int = 32001;
const LZ4: c_int = 32004;
const ZSTANDARD: c_int = 32015;

/// Refuses filters at places where data would be lost.
///
/// A filter before this one would hand it bytes that are no numbers any more: after a byte shuffle, say, the error bound would hold for meaningless values.
/// A filter behind this one gets streams. Many filters take what they get for values of the dataset's type, such as n-bit and ZFP. Streams come back changed
/// then, and nobody can read them. Szip and bitshuffle fail at lengths that are no whole number of values, or lose the last bytes. So filters that are not
/// known to keep all bytes are refused.
fn check_pipeline(filters: &[ListedFilter]) -> Result<()> {
    let [ListedFilter { id: FILTER_ID, .. }, behind @ ..] = filters else {
        return Err(Error::invalid(format_args!(
            "the filters of this dataset are {filters:?}, in this order: {FILTER_ID} must be the first, as it needs numbers; \
             leave out the others (2 is shuffle, 3 is fletcher32) or set them after it"
        )));
    };
    for ListedFilter { id, is_optional } in behind {
        if *id == FILTER_ID {
            return Err(Error::invalid("the filter is set twice for this dataset: set it once"));
        }
        if SAVING_BYTE_FILTERS.contains(id) && !is_optional {
            return Err(Error::invalid(format_args!(
                "the filters of this dataset are {filters:?}, in this order: {id} is mandatory and fails at chunks that it cannot make smaller, as are those of \
                 {FILTER_ID}: leave it out, or make it optional (H5Z_FLAG_OPTIONAL)"
            )));
        }
        if !BYTE_FILTERS.contains(id) && !SAVING_BYTE_FILTERS.contains(id) {
            return Err(Error::invalid(format_args!(
                "the filters of this dataset are {filters:?}, in this order: {id} is not known to keep all bytes of the streams that {FILTER_ID} makes, which \
                 nobody could read then: leave it out. Behind {FILTER_ID} may stand 1 (deflate), 2 (shuffle), 3 (fletcher32), 307 (bzip2), 32000 (LZF), \
                 32001 (Blosc), 32004 (LZ4) and 32015 (Zstandard); 4 (szip), 5 (n-bit), 6 (scale-offset) and compressors of numbers may not"
            )));
        }
    }
    Ok(())
}

/// [`filter`], with the address that it returns to.
///
/// # Safety
/// `cd_values` points to `cd_nelmts` words, `*buf` to `*buf_size` bytes from malloc, of which the first `nbytes` hold data.
unsafe extern "C" fn filter_called_from(
    flags: c_uint,
    cd_nelmts: usize,
    cd_values: *const c_uint,
    nbytes: usize,
    buf_size: *mut usize,
    buf: *mut *mut c_void,
    return_address: *const c_void,
) -> usize {
    let callback = match (flags & H5Z_FLAG_REVERSE, flags & H5Z_FLAG_OPTIONAL) {
        (0, H5Z_FLAG_OPTIONAL) => Callback::OptionalFilter,
        _ => Callback::Filter,
    };
    fence(callback, return_address, 0, || {
        // SAFETY: the caller's promise.
        let words = unsafe { words_from_raw(cd_nelmts, cd_values)? };
        // SAFETY: the caller's promise.
        let mut chunk = unsafe { ChunkBuffer::from_raw(nbytes, buf_size, buf, Heap::of_caller(return_address)?)? };
        if flags & H5Z_FLAG_REVERSE == 0 {
            compress(words, &mut chunk)
        } else {
            with_kept_buffers(|kept| decompress(words, &mut chunk, kept)).map_err(Failure::from)
        }
    })
}

fn compress(words: &[c_uint], chunk: &mut ChunkBuffer<'_>) -> std::result::Result<usize, Failure> {
    let CdValues { config, layout, .. } = CdValues::parse(words)?;
    let layout = layout.ok_or_else(|| {
        Error::invalid(format_args!(
            "cd_values {words:?} lack the chunk's layout, which the filter adds when HDF5 creates a dataset of numbers: strings and sequences of variable \
             length cannot be compressed by this filter, so create their dataset without it"
        ))
    })?;
    if chunk.bytes().len() as u64 != layout.chunk_bytes() {
        return Err(Error::invalid(format_args!(
            "chunk has {} bytes, but {} are expected ({:?} values of {}): no other filter may come before this one",
            chunk.bytes().len(),
            layout.chunk_bytes(),
            layout.elements().dims(),
            layout.scalar,
        ))
        .into());
    }
    or_store(chunk, &layout, |chunk| {
        with_kept_buffers(|Buffers { workspace, stream, history, .. }| {
            let mut stream = backend::compress(chunk.bytes().into(), &layout, &config, workspace, stream, history)?;
            chunk.replace_with(stream.bytes())
        })
    })
}

/// Has `body` make the chunk a stream. Where that fails or panics, the chunk, which `body` leaves as it was, is stored.
///
/// No failure may reach HDF5, as it would lose the chunk. Where the filter is mandatory, HDF5 then crashes when it closes the file, and in parallel programs
/// the other ranks wait for ever. Where it is optional, HDF5 stores the chunk and marks it as stored; but parallel HDF5 1.10 forgets the mark, and nobody can
/// read the chunk. So stderr has the reason. And [`backend::check_dataset`] refuses the next dataset, if the reason still holds then.
///
/// # Errors
/// That of `body`, where there is no memory to store the chunk.
fn or_store(
    chunk: &mut ChunkBuffer<'_>,
    layout: &Layout,
    body: impl FnOnce(&mut ChunkBuffer<'_>) -> Result<usize>,
) -> std::result::Result<usize, Failure> {
    contain(|| body(chunk)).or_else(|failure| store_after(failure, chunk, layout))
}

#[cold]
#[inline(never)]
fn store_after(failure: Failure, chunk: &mut ChunkBuffer<'_>, layout: &Layout) -> std::result::Result<usize, Failure> {
    if store(chunk, layout).is_err() {
        return Err(failure);
    }
    backend::say_once(format_args!("{failure}; the chunk is stored uncompressed"));
    Ok(chunk.bytes().len())
}

/// Makes the chunk a stream that holds it as it is. That takes no memory but for the header.
///
/// # Errors
/// `OutOfMemory`; the chunk is as it was then.
fn store(chunk: &mut ChunkBuffer<'_>, layout: &Layout) -> Result<()> {
    let header = Header { coding: Coding::Stored, layout: *layout };
    let (head_len, length) = (header.encoded_len(), chunk.bytes().len());
    chunk.grow(head_len + length)?;
    chunk.bytes_mut().copy_within(..length, head_len);
    if layout.scalar.is_pair() {
        pairs::split_in_place(&mut chunk.bytes_mut()[head_len..], layout.scalar);
    }
    chunk.bytes_mut()[..head_len].copy_from_slice(&header.to_bytes()[..head_len]);
    seal(chunk.bytes_mut());
    Ok(())
}

fn decompress(words: &[c_uint], chunk: &mut ChunkBuffer<'_>, kept: &mut Buffers) -> Result<usize> {
    let stream = Unverified::read(chunk.bytes())?;
    let layout = &stream.header().layout;
    // A stream describes itself. What this build cannot read in the cd_values is no reason not to read the data; only the checksum then
    // keeps a flipped bit in the extents from asking for an absurd allocation.
    match CdValues::parse(words).ok().and_then(|parameters| parameters.layout) {
        Some(expected) => check_layout(layout, &expected)?,
        None => _ = stream.verify()?,
    }
    let length = addressable(layout.chunk_bytes())?;
    if chunk.has_room(length) {
        // From 2.2 on, HDF5 offers room for the chunk. The stream is where the chunk goes, so the stream is copied out.
        kept.stream.clear();
        memory::extend(&mut kept.stream, chunk.bytes())?;
        let decoded = backend::decompress(stream.moved_to(&kept.stream), chunk.room(length).into(), &mut kept.workspace);
        if decoded.is_err() {
            // An application may tell HDF5 to go on after a failed filter, with the data as they were.
            chunk.replace_with(&kept.stream)?;
        }
        return decoded.map(|()| length);
    }
    let mut decoded = chunk.allocate(length)?;
    backend::decompress(stream, decoded.bytes_mut().into(), &mut kept.workspace)?;
    chunk.adopt(decoded);
    Ok(length)
}

/// The length of a chunk, which must be one that a slice can have.
fn addressable(bytes: u64) -> Result<usize> {
    usize::try_from(bytes)
        .ok()
        .filter(|&length| isize::try_from(length).is_ok())
        .ok_or_else(|| Error::invalid(format_args!("stream holds a chunk of {bytes} bytes, more than this machine can address")))
}

/// HDF5 trusts a filter with the length of a chunk and reads the bytes as the dataset's type. The extents may differ: the bytes
/// do not depend on how they were folded.
pub(crate) fn check_layout(found: &Layout, expected: &Layout) -> Result<()> {
    if (found.chunk_bytes(), found.scalar, found.byte_order) != (expected.chunk_bytes(), expected.scalar, expected.byte_order) {
        return Err(Error::invalid(format_args!(
            "stream holds {}, the dataset's chunks are {}: the stream belongs to another dataset, or one of the two is damaged",
            Described(found),
            Described(expected)
        )));
    }
    Ok(())
}

/// A layout as a refusal names it.
struct Described<'a>(&'a Layout);

impl fmt::Display for Described<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.0;
        write!(formatter, "{} bytes of {} {:?} endian", layout.chunk_bytes(), layout.scalar, layout.byte_order)
    }
}

/// # Safety
/// `cd_values` points to `cd_nelmts` words that do not change during `'a`, unless it is null.
pub(crate) unsafe fn words_from_raw<'a>(cd_nelmts: usize, cd_values: *const c_uint) -> Result<&'a [c_uint]> {
    if cd_nelmts == 0 {
        return Ok(&[]);
    }
    if cd_values.is_null() {
        return Err(Error::invalid(format_args!("{cd_nelmts} cd_values are announced, but their address is null")));
    }
    // SAFETY: not null, and the caller vouches for the length.
    Ok(unsafe { slice::from_raw_parts(cd_values, cd_nelmts) })
}

/// Where an error came up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callback {
    SetLocal,
    Filter,
    /// Compressing where the filter was set as optional: HDF5 clears the error stack, and stores the chunk as it is, where [`store`] could not.
    OptionalFilter,
}

impl Callback {
    fn name(self) -> &'static CStr {
        match self {
            Self::SetLocal => c"set_local",
            Self::Filter | Self::OptionalFilter => c"filter",
        }
    }
}

/// Runs the body of a callback. An error or a panic becomes an entry on the error stack and `on_failure`.
fn fence<R>(
    callback: Callback,
    return_address: *const c_void,
    on_failure: R,
    body: impl FnOnce() -> std::result::Result<R, Failure>,
) -> R {
    contain(body).unwrap_or_else(|failure| {
        report(callback, return_address, &failure);
        on_failure
    })
}

/// Puts the reason on HDF5's error stack. Writes a line to stderr instead where HDF5 is not found, where this thread may not call it, and where HDF5 clears the
/// stack. A rank of a job that refuses a dataset does both. Nothing here needs memory of ours. HDF5 takes some for the entry, and makes none without.
#[cold]
#[inline(never)]
fn report(callback: Callback, return_address: *const c_void, reason: &Failure) {
    if callback == Callback::OptionalFilter {
        return backend::say_once(format_args!(
            "{reason}; the filter is optional here, so that HDF5 stores the chunk uncompressed"
        ));
    }
    let pushed = Library::of_caller(return_address).and_then(|library| {
        if callback == Callback::Filter && library.has_filter_threads() {
            return Err(Error::invalid("filters must not call this HDF5 library"));
        }
        // The other ranks may wait for this one in H5Dcreate. And h5py closes the file, which waits for the others, before it shows its exception. So only
        // stderr tells the reason.
        if callback == Callback::SetLocal && library.has_mpi() && backend::is_rank() {
            backend::say_once(format_args!("{reason}"));
        }
        let message: Message = Message::new(format_args!("H5Z-Quire: {reason}"));
        library.push_error(callback.name(), message.as_c_str())
    });
    if pushed.is_err() {
        backend::say(format_args!("{reason}"));
    }
}

#[cfg(test)]
mod tests;
