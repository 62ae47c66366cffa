//! The plugin's functions for single chunks (`h5z_quire.h`), which threads call without HDF5.
//!
//! They are those of the library that HDF5 has loaded as the filter, so that one library makes all streams of a file: on the GPU, if it is used, and with the
//! user's dictionary.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use quire_codec::{ByteOrder, Scalar};

use super::Result;
use super::numbers::Numbers;
use super::plugins::{loaded, open, symbol};
use crate::names::{Name, escape};

const OK: c_int = 0;
const BIG_ENDIAN: u32 = 128;

/// `quire_bytes`: what a function delivers.
#[repr(C)]
struct Bytes {
    address: *mut u8,
    length: usize,
}

type Compress =
    unsafe extern "C" fn(*const c_char, u32, u32, *const u64, *const c_void, *const c_void, usize, *mut Bytes) -> c_int;
type Decompress = unsafe extern "C" fn(*const c_void, usize, *mut c_void, usize, *mut Bytes) -> c_int;
type Free = unsafe extern "C" fn(*mut Bytes);

/// The plugin's functions. Any thread may call them.
pub(crate) struct Codec {
    compress: Compress,
    decompress: Decompress,
    free: Free,
}

impl Codec {
    /// The functions of the plugin that HDF5 has loaded.
    ///
    /// # Errors
    /// If there is none, or it is of another version.
    pub(crate) fn get() -> Result<&'static Self> {
        static CODEC: OnceLock<Result<Codec>> = OnceLock::new();
        CODEC.get_or_init(Self::find).as_ref().map_err(Clone::clone)
    }

    fn find() -> Result<Self> {
        let path = loaded().ok_or("HDF5 has not loaded the filter's plugin; `quire doctor` says more")?;
        let library = open(&path)?;
        let function = |name| symbol(library, name).map_err(|error| format!("{}: {error}", Name::from(&*path)));
        // SAFETY: the header prescribes these signatures, and the library is never closed.
        unsafe {
            Ok(Self {
                compress: std::mem::transmute::<*mut c_void, Compress>(function(c"quire_compress")?),
                decompress: std::mem::transmute::<*mut c_void, Decompress>(function(c"quire_decompress")?),
                free: std::mem::transmute::<*mut c_void, Free>(function(c"quire_free")?),
            })
        }
    }

    /// Calls a function, which delivers bytes or the reason of its failure.
    fn call(&self, function: impl FnOnce(*mut Bytes) -> c_int) -> Result<Vec<u8>> {
        let mut delivered = Bytes { address: null_mut(), length: 0 };
        let status = function(&mut delivered);
        let content = if delivered.address.is_null() {
            Vec::new()
        } else {
            // SAFETY: the header promises so many bytes there, until they are freed.
            unsafe { std::slice::from_raw_parts(delivered.address, delivered.length) }.to_vec()
        };
        // SAFETY: as the header wants it, after every call.
        unsafe { (self.free)(&mut delivered) };
        if status == OK { Ok(content) } else { Err(escape(&content)) }
    }

    /// Compresses a chunk, whose `values` are in C order, as the filter does. `fill` is a value that comes back bit for bit.
    ///
    /// # Errors
    /// The plugin's.
    pub(crate) fn compress(
        &self,
        options: &str,
        numbers: &Numbers,
        chunk: &[usize],
        fill: Option<&[u8]>,
        values: &[u8],
    ) -> Result<Vec<u8>> {
        let options = CString::new(options).map_err(|_| format!("options {options:?} hold a zero byte"))?;
        let extents: Vec<u64> = chunk.iter().map(|&side| side as u64).collect();
        if fill.is_some_and(|fill| fill.len() != numbers.scalar.element_size()) {
            return Err("a fill value has another size than the dataset's values".to_owned());
        }
        let fill = fill.map_or(null(), |fill| fill.as_ptr().cast());
        let (compress, rank, length) = (self.compress, extents.len() as u32, values.len());
        // SAFETY: the text ends with a zero byte, there are as many extents as told, and the fill value has the size of the type.
        self.call(|result| unsafe {
            compress(options.as_ptr(), value_type(numbers), rank, extents.as_ptr(), fill, values.as_ptr().cast(), length, result)
        })
    }

    /// Decompresses a chunk into `values`, which must have its length.
    ///
    /// # Errors
    /// The plugin's.
    pub(crate) fn decompress(&self, stream: &[u8], values: &mut [u8]) -> Result<()> {
        let (decompress, to, length) = (self.decompress, values.as_mut_ptr().cast(), values.len());
        // SAFETY: both addresses lead to as many bytes as told.
        let decompressed = self.call(|reason| unsafe { decompress(stream.as_ptr().cast(), stream.len(), to, length, reason) });
        decompressed.map(|_| ())
    }
}

/// The number of a type of values, as in byte 8 of a stream's header.
fn value_type(numbers: &Numbers) -> u32 {
    let number = Scalar::ALL.iter().position(|&scalar| scalar == numbers.scalar).unwrap_or_default() as u32;
    if numbers.byte_order == ByteOrder::Big { number | BIG_ENDIAN } else { number }
}
