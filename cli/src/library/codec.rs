//! The plugin's functions for single chunks (`h5z_quire.h`), which threads call without HDF5.
//!
//! The functions are those of the library that HDF5 has loaded as the filter. So one library makes all streams of a file: on the GPU, if it is used, and with
//! the user's dictionary.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, ensure};
use libloading::Symbol;

use super::numbers::Numbers;
use super::plugins::{Bytes, delivered, loaded, open, symbol};
use crate::names::{Name, escape};

const OK: c_int = 0;

type Compress =
    unsafe extern "C" fn(*const c_char, u32, u32, *const u64, *const c_void, *const c_void, usize, *mut Bytes) -> c_int;
type Decompress = unsafe extern "C" fn(*const c_void, usize, *mut c_void, usize, *mut Bytes) -> c_int;
type Free = unsafe extern "C" fn(*mut Bytes);

/// The plugin's functions. Any thread may call them.
pub(crate) struct Codec {
    compress: Symbol<'static, Compress>,
    decompress: Symbol<'static, Decompress>,
    free: Symbol<'static, Free>,
}

impl Codec {
    /// The functions of the plugin that HDF5 has loaded.
    ///
    /// # Errors
    /// If there is none, or it is of another version.
    pub(crate) fn get() -> Result<&'static Self> {
        static CODEC: OnceLock<Result<Codec, String>> = OnceLock::new();
        let found = CODEC.get_or_init(|| Self::find().map_err(|error| format!("{error:#}")));
        found.as_ref().map_err(|reason| anyhow!("{reason}"))
    }

    fn find() -> Result<Self> {
        let path = loaded().context("HDF5 has not loaded the filter's plugin; `quire doctor` says more")?;
        let library = open(&path)?;
        let of_plugin = || Name::from(&path);
        // SAFETY: the header prescribes these signatures.
        unsafe {
            Ok(Self {
                compress: symbol(library, "quire_compress").with_context(of_plugin)?,
                decompress: symbol(library, "quire_decompress").with_context(of_plugin)?,
                free: symbol(library, "quire_free").with_context(of_plugin)?,
            })
        }
    }

    /// Calls a function, which delivers bytes or the reason of its failure.
    fn call(&self, function: impl FnOnce(*mut Bytes) -> c_int) -> Result<Vec<u8>> {
        // SAFETY: the header says so of every function.
        let (status, content) = unsafe { delivered(*self.free, function) };
        ensure!(status == OK, "{}", escape(&content));
        Ok(content)
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
        let options = CString::new(options).ok().with_context(|| format!("options {options:?} hold a zero byte"))?;
        let extents: Vec<u64> = chunk.iter().map(|&side| side as u64).collect();
        let has_size = fill.is_none_or(|fill| fill.len() == numbers.scalar.element_size());
        ensure!(has_size, "a fill value has another size than the dataset's values");
        let fill = fill.map_or(null(), |fill| fill.as_ptr().cast());
        let (compress, rank, length) = (&self.compress, extents.len() as u32, values.len());
        let value_type = numbers.layout(chunk)?.type_byte().into();
        // SAFETY: the text ends with a zero byte, there are as many extents as told, and the fill value has the size of the type.
        self.call(|result| unsafe {
            compress(options.as_ptr(), value_type, rank, extents.as_ptr(), fill, values.as_ptr().cast(), length, result)
        })
    }

    /// Decompresses a chunk into `values`, which must have its length.
    ///
    /// # Errors
    /// The plugin's.
    pub(crate) fn decompress(&self, stream: &[u8], values: &mut [u8]) -> Result<()> {
        let (decompress, to, length) = (&self.decompress, values.as_mut_ptr().cast(), values.len());
        // SAFETY: both addresses lead to as many bytes as told.
        let decompressed = self.call(|reason| unsafe { decompress(stream.as_ptr().cast(), stream.len(), to, length, reason) });
        decompressed.map(|_| ())
    }
}
