//! The codec as C functions, for programs that have arrays but no HDF5 dataset, and for the Python package, which calls them through ctypes.
//!
//! `filter/include/h5z_quire.h` declares them and says what they do. Streams are those that the filter writes, and the GPU is used as there.
//!
//! ```text
//! C ─ pointers ─> raw ─ slices ─> contain ─ Result ─> deliver ─> status, and bytes: the result, or the reason
//! ```

/// Many chunks at once, and whole datasets.
pub mod arrays;
/// Chunks in the memory of a GPU.
pub mod device;
/// What copies keep of arrays.
pub mod report;

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::fmt::{self, Write as _};
use std::slice;

use quire_codec::options::{self, Options};
use quire_codec::stages::header;
use quire_codec::stages::inspect::{Description, Plane, PlaneCoding, Prediction};
use quire_codec::{ByteOrder, Config, Error, Layout, MAX_RANK, Result, Scalar, Verified, fill_bits, memory, type_of_byte};

use crate::FILTER_ID;
use crate::arrays::batch;
use crate::backend::{self, Outlook};
use crate::cd_values;
use crate::fence::{Buffers, Failure, contain, with_kept_buffers};
use crate::message::Message;
use crate::platform;

/// `QUIRE_OK`
pub(crate) const OK: c_int = 0;
/// `QUIRE_INVALID`: options, type, extents, lengths or environment make no sense.
const INVALID: c_int = 1;
/// `QUIRE_DAMAGED`: the stream is truncated or contradicts FORMAT.md.
const DAMAGED: c_int = 2;
/// `QUIRE_VERSION`: the stream is of another format version.
const VERSION: c_int = 3;
/// `QUIRE_NO_MEMORY`
pub(crate) const NO_MEMORY: c_int = 4;
/// `QUIRE_INTERNAL`: a bug.
const INTERNAL: c_int = 5;
/// `QUIRE_UNSUITABLE`: HDF5 can do it, the functions of whole arrays cannot.
const UNSUITABLE: c_int = 6;
/// `QUIRE_HDF5`: a call of HDF5 or of the system has failed.
pub(crate) const HDF5: c_int = 7;
/// `QUIRE_NO_GPU`: values are in a GPU's memory, and the GPU cannot be used.
const NO_GPU: c_int = 8;

/// Most extents that a caller may give: HDF5's own limit, far more than any array has.
const MOST_EXTENTS: u32 = 32;

/// `quire_bytes`: what a call delivers, from malloc, with a 0 byte behind it.
#[repr(C)]
#[derive(Debug)]
pub struct Bytes {
    address: *mut c_uchar,
    length: usize,
}

/// `quire_layout`: how the bytes of an array are to be read.
#[repr(C)]
#[derive(Debug)]
pub struct ArrayLayout {
    value_type: u32,
    rank: u32,
    extents: [u64; MAX_RANK],
}

/// Compresses an array.
///
/// # Safety
/// `options` is null or a string; `extents` holds `rank` numbers, `fill_value` is null or holds a value of the type, `values` holds `length` bytes; `result` is
/// null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_compress(
    options: *const c_char,
    value_type: u32,
    rank: u32,
    extents: *const u64,
    fill_value: *const c_void,
    values: *const c_void,
    length: usize,
    result: *mut Bytes,
) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let (layout, config) = unsafe { task_from_raw(options, value_type, rank, extents, fill_value, length)? };
        // SAFETY: the caller's promise.
        let values = unsafe { slice_from_raw(values.cast(), length, "values")? };
        with_kept_buffers(|Buffers { workspace, stream, history, .. }| {
            Bytes::copy_of(backend::compress(values.into(), &layout, &config, workspace, stream, history)?.bytes())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(body)) }
}

/// Reads type and extents off a stream, and verifies its checksum.
///
/// # Safety
/// `stream` holds `length` bytes; `layout` and `reason` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_read_layout(
    stream: *const c_void,
    length: usize,
    layout: *mut ArrayLayout,
    reason: *mut Bytes,
) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let (stream, target) = unsafe { (slice_from_raw(stream.cast(), length, "stream")?, layout.as_mut()) };
        let target = target.ok_or_else(|| Error::invalid("the address of the layout is null"))?;
        let found = Verified::read(stream)?.header().layout;
        let elements = found.elements();
        let dims = elements.dims();
        *target = ArrayLayout { value_type: found.type_byte().into(), rank: dims.len() as u32, extents: [1; MAX_RANK] };
        target.extents[..dims.len()].copy_from_slice(dims);
        Bytes::copy_of(&[])
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, contain(body)) }
}

/// Decompresses a stream into the caller's array.
///
/// # Safety
/// `stream` holds `stream_length` bytes; `values` holds `length` bytes that nobody else uses meanwhile; `reason` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_decompress(
    stream: *const c_void,
    stream_length: usize,
    values: *mut c_void,
    length: usize,
    reason: *mut Bytes,
) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let stream = unsafe { slice_from_raw(stream.cast(), stream_length, "stream")? };
        check_address(values.cast_const(), length, "values")?;
        let addresses = (stream.as_ptr() as u64, values as u64);
        if batch::share_bytes(addresses.0, stream.len(), addresses.1, length) {
            return Err(Error::invalid("the stream and the values share bytes: decompress into an array of its own"));
        }
        // SAFETY: not null, of a possible length, and the caller vouches for the bytes, of which a decoder reads none that it has not written.
        let values = unsafe { slice::from_raw_parts_mut(values.cast(), length) };
        with_kept_buffers(|kept| batch::decompress(stream, values, kept))?;
        Bytes::copy_of(&[])
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, contain(body)) }
}

/// Describes a stream, as JSON.
///
/// # Safety
/// `stream` holds `length` bytes; `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_describe(stream: *const c_void, length: usize, result: *mut Bytes) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let stream = unsafe { slice_from_raw(stream.cast(), length, "stream")? };
        Bytes::copy_of(memory::text(Described(&Description::of(stream)?))?.as_bytes())
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(body)) }
}

/// Converts options to `cd_values`.
///
/// # Safety
/// `options` is null or a string; `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_cd_values(options: *const c_char, result: *mut Bytes) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let words = cd_values::from_options(unsafe { text_from_raw(options)? })?;
        // SAFETY: words are bytes.
        Bytes::copy_of(unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(&words[..])) })
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(body)) }
}

/// Converts `cd_values` to options.
///
/// # Safety
/// `words` holds `count` words; `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_options(words: *const c_uint, count: usize, result: *mut Bytes) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let words = unsafe { slice_from_raw(words, count, "cd_values")? };
        Bytes::copy_of(cd_values::to_options(words)?.as_bytes())
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(body)) }
}

/// Says what this library is and where it will compute, as JSON.
///
/// # Safety
/// `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_info(result: *mut Bytes) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(|| Bytes::copy_of(memory::text(Info(&backend::outlook()?))?.as_bytes()))) }
}

/// Frees what a call has delivered, and leaves nothing there.
///
/// # Safety
/// `bytes` is null, or leads to what a call has written, or to zeroes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_free(bytes: *mut Bytes) {
    // SAFETY: the caller's promise.
    if let Some(bytes) = unsafe { bytes.as_mut() } {
        // SAFETY: from malloc, or null.
        unsafe { libc::free(bytes.address.cast()) };
        *bytes = Bytes::NONE;
    }
}

impl Bytes {
    pub(crate) const NONE: Self = Self { address: std::ptr::null_mut(), length: 0 };

    /// Whether nothing was delivered.
    #[cfg(test)]
    pub(crate) fn is_none(&self) -> bool {
        self.address.is_null()
    }

    /// A copy for tests.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        assert!(!self.address.is_null(), "nothing was delivered");
        // SAFETY: as a call has written it.
        unsafe { slice::from_raw_parts(self.address, self.length) }.to_vec()
    }

    /// A copy from malloc, with a 0 byte behind it, so that texts are C's strings.
    fn copy_of(bytes: &[u8]) -> Result<Self> {
        // SAFETY: malloc takes any length; a slice's and 1 do not overflow.
        let address: *mut c_uchar = unsafe { libc::malloc(bytes.len() + 1) }.cast();
        if address.is_null() {
            return Err(Error::OutOfMemory { bytes: bytes.len() as u64 });
        }
        // SAFETY: the new bytes are one more than those copied, and lie elsewhere.
        unsafe {
            address.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            address.add(bytes.len()).write(0);
        }
        Ok(Self { address, length: bytes.len() })
    }
}

/// Why a call came to nothing: what it says, and what its status says.
trait Reason: fmt::Display {
    fn failure(&self) -> &Failure;
}

impl Reason for Failure {
    fn failure(&self) -> &Failure {
        self
    }
}

impl Failure {
    fn status(&self) -> c_int {
        match self {
            Self::Panicked(_) => INTERNAL,
            Self::Unsuitable(_) => UNSUITABLE,
            Self::Hdf5(_) => HDF5,
            Self::NoGpu(_) => NO_GPU,
            Self::Refused(Error::Truncated { .. } | Error::Corrupt { .. }) => DAMAGED,
            Self::Refused(Error::UnsupportedVersion { .. }) => VERSION,
            Self::Refused(Error::OutOfMemory { .. }) => NO_MEMORY,
            Self::Refused(_) => INVALID,
        }
    }
}

/// The text of a reason; nothing where there is no memory for it: the status must do.
#[cold]
#[inline(never)]
fn text_of(reason: &dyn fmt::Display) -> Bytes {
    let message: Message = Message::new(reason);
    Bytes::copy_of(message.as_str().as_bytes()).unwrap_or(Bytes::NONE)
}

/// Writes what a call has come to, or the reason why not; the status.
///
/// # Safety
/// `target` is null or can be written.
unsafe fn deliver(target: *mut Bytes, outcome: std::result::Result<Bytes, impl Reason>) -> c_int {
    let (status, mut bytes) = match outcome {
        Ok(bytes) => (OK, bytes),
        Err(reason) => (reason.failure().status(), text_of(&reason)),
    };
    if target.is_null() {
        // SAFETY: ours.
        unsafe { quire_free(&mut bytes) };
        return if status == OK { INVALID } else { status };
    }
    // SAFETY: the caller's promise. What stood there is not read: it need not be initialized.
    unsafe { target.write(bytes) };
    status
}

/// What is to be compressed, and how: an array of `length` bytes.
///
/// # Safety
/// `options` is null or a string; `extents` holds `rank` numbers; `fill_value` is null or holds a value of the type.
unsafe fn task_from_raw(
    options: *const c_char,
    value_type: u32,
    rank: u32,
    extents: *const u64,
    fill_value: *const c_void,
    length: usize,
) -> Result<(Layout, Config<'static>)> {
    // SAFETY: the caller's promise.
    let text = unsafe { text_from_raw(options)? };
    if rank > MOST_EXTENTS {
        return Err(Error::invalid(format_args!("rank is {rank}: an array has at most {MOST_EXTENTS} extents")));
    }
    // SAFETY: the caller's promise.
    let extents = unsafe { slice_from_raw(extents, rank as usize, "extents")? };
    let (scalar, byte_order) = value_type_of(value_type)?;
    let Options { config, brick } = options::parse(text)?;
    let layout = Layout::of_chunk(scalar, byte_order, extents)?.in_bricks(brick)?;
    let fill_value = match fill_value.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => Some(fill_bits(
            unsafe { slice_from_raw(fill_value.cast(), scalar.element_size(), "fill value")? },
            scalar,
            byte_order,
            config.bound,
        )?),
    };
    let config = Config { fill_value, ..config };
    if length as u64 != layout.chunk_bytes() {
        return Err(Error::invalid(format_args!(
            "the array has {length} bytes, its type and extents {extents:?} say {}",
            layout.chunk_bytes()
        )));
    }
    Ok((layout, config))
}

/// # Safety
/// `address` is null, or leads to `length` values of `T` that do not change during `'a`.
unsafe fn slice_from_raw<'a, T>(address: *const T, length: usize, what: &str) -> Result<&'a [T]> {
    if length == 0 {
        return Ok(&[]);
    }
    check_address(address, length, what)?;
    // SAFETY: not null, aligned, of a possible length, and the caller vouches for the values.
    Ok(unsafe { slice::from_raw_parts(address, length) })
}

/// Whether there can be a slice.
fn check_address<T>(address: *const T, length: usize, what: &str) -> Result<()> {
    let bytes = length.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
    let Some(bytes) = bytes.filter(|_| !address.is_null() && address.is_aligned()) else {
        return Err(Error::invalid(format_args!(
            "the address of the {what} is {address:?} and the length {length}: the address must not be null and must be a multiple of {}, \
             and the length at most {}",
            align_of::<T>(),
            isize::MAX as usize / size_of::<T>()
        )));
    };
    check_readable(address as u64, bytes, what)
}

/// Refuses bytes that the process cannot read, as far as the first and the last one show it: those of a GPU's memory, for one.
pub(crate) fn check_readable(address: u64, bytes: usize, what: &str) -> Result<()> {
    let is_readable = platform::is_readable;
    if bytes == 0 || is_readable(address) && is_readable(address.wrapping_add(bytes as u64 - 1)) {
        return Ok(());
    }
    Err(Error::invalid(format_args!(
        "{what}: there are to be {bytes} bytes from {address:#x} on, which this process cannot read: for values in a GPU's memory there are quire_device_compress \
         and its kin"
    )))
}

/// # Safety
/// `address` is null or leads to a string that does not change during `'a`.
unsafe fn text_from_raw<'a>(address: *const c_char) -> Result<&'a str> {
    if address.is_null() {
        return Err(Error::invalid("the address of a text is null"));
    }
    // SAFETY: not null, and the caller vouches for the string.
    let text = unsafe { CStr::from_ptr(address) };
    text.to_str().map_err(|_| Error::invalid(format_args!("{text:?} is not UTF-8")))
}

fn value_type_of(number: u32) -> Result<(Scalar, ByteOrder)> {
    u8::try_from(number).ok().and_then(type_of_byte).ok_or_else(|| {
        Error::invalid(format_args!(
            "value type {number} is unknown: there are 0 to {}, and 128 more for big endian",
            Scalar::ALL.len() - 1
        ))
    })
}

/// A description as JSON. Axes are indices into the extents.
struct Described<'a>(&'a Description);

impl fmt::Display for Described<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.0;
        let Layout { scalar, byte_order, .. } = found.header.layout;
        let shape = found.header.layout.elements();
        write!(
            formatter,
            r#"{{"coding":"{}","value_type":"{}","byte_order":"{}","extents":{:?},"half_step":"#,
            found.header.coding.name(),
            scalar_name(scalar),
            if byte_order == ByteOrder::Big { "big" } else { "little" },
            shape.dims(),
        )?;
        match found.half_step.filter(|step| step.is_finite()) {
            Some(step) => write!(formatter, "{step:?}")?,
            None => formatter.write_str("null")?,
        }
        write!(formatter, r#","exceptions":{},"planes":["#, found.exceptions)?;
        for (number, plane) in found.planes.iter().enumerate() {
            formatter.write_str(if number > 0 { "," } else { "" })?;
            describe_plane(plane, shape.dims().len(), formatter)?;
        }
        formatter.write_str("]}")
    }
}

fn describe_plane(plane: &Plane, rank: usize, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (prediction, set) = match plane.prediction {
        Prediction::Interpolation(kind) if kind.is_linear() => ("linear interpolation", !kind.rough()),
        Prediction::Interpolation(kind) => ("cubic interpolation", !kind.rough()),
        Prediction::Differences(set) => ("differences", set),
    };
    write!(formatter, r#"{{"prediction":"{prediction}","axes":"#)?;
    formatter.debug_list().entries((0..rank).filter(|axis| set >> (rank - 1 - axis) & 1 == 1)).finish()?;
    match plane.coding {
        PlaneCoding::Dictionary(book) => write!(formatter, r#","coding":"huffman","codebook":{book}"#)?,
        PlaneCoding::Custom => formatter.write_str(r#","coding":"huffman","codebook":"custom""#)?,
        PlaneCoding::BitPlanes => formatter.write_str(r#","coding":"bitshuffle","codebook":null"#)?,
    }
    write!(formatter, r#","block_len":{},"bytes":{}}}"#, plane.block_len, plane.bytes)
}

/// What `quire_info` says.
struct Info<'a>(&'a Outlook);

impl fmt::Display for Info<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outlook = self.0;
        write!(
            formatter,
            r#"{{"version":{},"stream_version":"{}.{}","filter_id":{FILTER_ID},"backend":"{}","device":"#,
            JsonText(env!("CARGO_PKG_VERSION")),
            header::VERSION.0,
            header::VERSION.1,
            outlook.backend,
        )?;
        match outlook.device {
            Some(name) => JsonText(name).fmt(formatter)?,
            None => formatter.write_str("null")?,
        }
        write!(formatter, r#","why":{},"kernels_built":{},"oldest_driver":"#, JsonText(&outlook.why), quire_gpu::KERNELS_BUILT)?;
        // NVIDIA promises that machine code runs with every driver of its major version.
        match quire_gpu::CUDA {
            Some((major, _)) => write!(formatter, r#""CUDA {major}.0"}}"#),
            None => formatter.write_str("null}"),
        }
    }
}

/// A text as JSON writes it.
struct JsonText<'a>(&'a str);

impl fmt::Display for JsonText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(formatter, "\\{character}")?,
                control if control.is_control() => write!(formatter, "\\u{:04x}", u32::from(control))?,
                other => formatter.write_char(other)?,
            }
        }
        formatter.write_char('"')
    }
}

/// numpy's name of a type, but for bfloat16, for which it has none.
fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::F32 => "f4",
        Scalar::F64 => "f8",
        Scalar::F16 => "f2",
        Scalar::BF16 => "bfloat16",
        Scalar::I8 => "i1",
        Scalar::U8 => "u1",
        Scalar::I16 => "i2",
        Scalar::U16 => "u2",
        Scalar::I32 => "i4",
        Scalar::U32 => "u4",
        Scalar::I64 => "i8",
        Scalar::U64 => "u8",
        Scalar::C64 => "c8",
        Scalar::C128 => "c16",
    }
}

#[cfg(test)]
mod tests;
