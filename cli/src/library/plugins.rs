//! The folders that HDF5 searches for plugins, and the description of a plugin file.

use std::error::Error as _;
use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::slice::from_raw_parts;

use anyhow::{Context as _, Result, anyhow, ensure};
use hdf5_sys::h5pl::{H5PLget, H5PLget_loading_state, H5PLsize};
use hdf5_sys::h5z::H5Z_class2_t;
use libloading::{Library, Symbol};

use super::{check, locked, system};
use crate::names::{Name, escape};

/// The plugin folders, in HDF5's search order.
///
/// # Errors
/// HDF5's.
pub(crate) fn folders() -> Result<Vec<PathBuf>> {
    let mut count = 0;
    // SAFETY: HDF5 writes one number.
    locked(|| unsafe { check(H5PLsize(&mut count)) })?;
    (0..count)
        .map(|index| {
            let mut name = vec![0u8; 4096];
            // SAFETY: HDF5 writes at most as many bytes as there is room for, with a zero behind them.
            let length = locked(|| unsafe { H5PLget(index, name.as_mut_ptr().cast(), name.len()) });
            let length = usize::try_from(length).ok();
            let length = length.with_context(|| format!("HDF5 does not say what its plugin folder {index} is"))?;
            name.truncate(length);
            Ok(PathBuf::from(system::os_str(&name)))
        })
        .collect()
}

/// Whether HDF5 may load filter plugins; `HDF5_PLUGIN_PRELOAD=::` forbids it.
///
/// # Errors
/// HDF5's.
pub(crate) fn may_load_filters() -> Result<bool> {
    let mut state = 0;
    // SAFETY: HDF5 writes one number.
    locked(|| unsafe { check(H5PLget_loading_state(&mut state)) })?;
    Ok(state & 1 != 0)
}

/// Loads a plugin as HDF5 would, and gives the number and the name of its filter.
///
/// # Errors
/// Says why the file cannot be loaded, or which symbol it lacks.
pub(crate) fn load_filter(path: &Path) -> Result<(c_int, String)> {
    const FILTER: c_int = 0;
    let library = open(path)?;
    // SAFETY: HDF5 prescribes these signatures, and that the second returns its class for a filter plugin.
    unsafe {
        let kind = symbol::<unsafe extern "C" fn() -> c_int>(library, "H5PLget_plugin_type")?;
        let info = symbol::<unsafe extern "C" fn() -> *const H5Z_class2_t>(library, "H5PLget_plugin_info")?;
        let found = kind();
        ensure!(found == FILTER, "it is not a plugin for filters: its H5PLget_plugin_type returns {found}, not {FILTER}");
        let class = info().as_ref().context("its H5PLget_plugin_info returns no filter")?;
        let name = if class.name.is_null() { String::new() } else { escape(CStr::from_ptr(class.name).to_bytes()) };
        Ok((class.id, name))
    }
}

/// Opens a shared library. It is never closed, since HDF5 will load it again soon.
fn open(path: &Path) -> Result<&'static Library> {
    // SAFETY: loading runs the library's constructors, as it does when HDF5 or h5dump load it.
    let library = unsafe { Library::new(path) };
    let library = library.map_err(|error| anyhow!("it cannot be loaded: {}", error.source().unwrap_or(&error)))?;
    Ok(Box::leak(Box::new(library)))
}

/// A function of a library.
///
/// # Safety
/// The function must have the signature `F`.
unsafe fn symbol<F>(library: &'static Library, name: &str) -> Result<Symbol<'static, F>> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get(name) };
    found.map_err(|_| anyhow!("it has no symbol {name}: it is not a plugin of HDF5, or another version of H5Z-Quire"))
}

/// The plugin's own description of itself (`quire_info` in `h5z_quire.h`).
///
/// # Errors
/// Says why the file cannot be loaded, or that it gives no description.
pub(crate) fn info_of(path: &Path) -> Result<serde_json::Value> {
    let library = open(path)?;
    // SAFETY: the header prescribes these signatures, and that what is delivered is a text.
    let text = unsafe {
        let info = symbol::<unsafe extern "C" fn(*mut Bytes) -> c_int>(library, "quire_info")?;
        let free = symbol::<unsafe extern "C" fn(*mut Bytes)>(library, "quire_free")?;
        delivered(*free, |bytes| info(bytes)).1
    };
    serde_json::from_slice(&text).map_err(|_| anyhow!("its quire_info returns {:?}, which is not JSON", Name::new(text)))
}

/// `quire_bytes`: what a function of the plugin delivers.
#[repr(C)]
struct Bytes {
    address: *mut u8,
    length: usize,
}

/// Calls a function of the plugin. Returns its status and the bytes that it delivers.
///
/// # Safety
/// The function must deliver bytes as `h5z_quire.h` says, and `free` must be the plugin's `quire_free`.
unsafe fn delivered(free: unsafe extern "C" fn(*mut Bytes), function: impl FnOnce(*mut Bytes) -> c_int) -> (c_int, Vec<u8>) {
    let mut bytes = Bytes { address: null_mut(), length: 0 };
    let status = function(&mut bytes);
    // SAFETY: the header promises so many bytes there, until they are freed, which it wants after every call.
    unsafe {
        let content = if bytes.address.is_null() { &[] } else { from_raw_parts(bytes.address, bytes.length) }.to_vec();
        free(&mut bytes);
        (status, content)
    }
}
