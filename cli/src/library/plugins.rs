//! The folders that HDF5 searches for plugins, and the description of a plugin file.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use h5zquire::FILTER_ID;
use hdf5_sys::h5pl::{H5PLget, H5PLget_loading_state, H5PLsize};
use hdf5_sys::h5z::H5Z_class2_t;

use super::{Result, check, locked};
use crate::names::escape;

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
            let length = usize::try_from(length).map_err(|_| format!("HDF5 does not say what its plugin folder {index} is"))?;
            name.truncate(length);
            Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&name)))
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
pub(crate) fn filter_of(path: &Path) -> Result<(c_int, String)> {
    type Kind = unsafe extern "C" fn() -> c_int;
    type Info = unsafe extern "C" fn() -> *const H5Z_class2_t;
    const FILTER: c_int = 0;
    let library = open(path)?;
    let (kind, info) = (symbol(library, c"H5PLget_plugin_type")?, symbol(library, c"H5PLget_plugin_info")?);
    // SAFETY: HDF5 prescribes these signatures, and that the second returns its class for a filter plugin.
    unsafe {
        let (kind, info) = (std::mem::transmute::<*mut c_void, Kind>(kind), std::mem::transmute::<*mut c_void, Info>(info));
        let found = kind();
        if found != FILTER {
            return Err(format!("it is not a plugin for filters: its H5PLget_plugin_type returns {found}, not {FILTER}"));
        }
        let class = info().as_ref().ok_or("its H5PLget_plugin_info returns no filter")?;
        let name = if class.name.is_null() { String::new() } else { escape(CStr::from_ptr(class.name).to_bytes()) };
        Ok((class.id, name))
    }
}

/// The plugin that HDF5 has loaded for this filter, which it does as soon as it is asked whether the filter is there.
pub(super) fn loaded() -> Option<PathBuf> {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
        // SAFETY: the system passes an `info` with a text that ends with a zero byte, and the pointer below, to a list that nobody else uses meanwhile.
        let (name, paths) = unsafe { (CStr::from_ptr((*info).dlpi_name), &mut *paths.cast::<Vec<PathBuf>>()) };
        paths.push(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())));
        0
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    // SAFETY: `collect` has the signature that is expected, and gets the list that it expects.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut paths).cast()) };
    // The program itself, which has no path, holds the filter's code, too, but none of its functions for others.
    paths.into_iter().find(|path| path.is_absolute() && filter_of(path).is_ok_and(|(filter, _)| filter == FILTER_ID))
}

/// Opens a shared library. It is never closed, since HDF5 will load it again soon.
pub(super) fn open(path: &Path) -> Result<*mut c_void> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its path holds a zero byte".to_owned())?;
    // SAFETY: the name ends with a zero byte. Loading runs the library's constructors, as it does when HDF5 or h5dump load it.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: after a failure, `dlerror` gives a text that stays until the thread's next call of its kind.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(format!("it cannot be loaded: {}", escape(reason.to_bytes())));
    }
    Ok(library)
}

/// The plugin's own description of itself (`quire_info` in `h5z_quire.h`).
///
/// # Errors
/// Says why the file cannot be loaded, or that it gives no description.
pub(crate) fn info_of(path: &Path) -> Result<serde_json::Value> {
    #[repr(C)]
    struct Bytes {
        address: *const c_char,
        length: usize,
    }
    type Info = unsafe extern "C" fn(*mut Bytes) -> c_int;
    type Free = unsafe extern "C" fn(*mut Bytes);
    let library = open(path)?;
    let (info, free) = (symbol(library, c"quire_info")?, symbol(library, c"quire_free")?);
    let mut bytes = Bytes { address: std::ptr::null(), length: 0 };
    // SAFETY: the header prescribes these signatures, and that what is delivered is a text with a zero byte behind it, or null.
    let text = unsafe {
        let (info, free) = (std::mem::transmute::<*mut c_void, Info>(info), std::mem::transmute::<*mut c_void, Free>(free));
        info(&mut bytes);
        let text =
            if bytes.address.is_null() { String::new() } else { CStr::from_ptr(bytes.address).to_string_lossy().into_owned() };
        free(&mut bytes);
        text
    };
    serde_json::from_str(&text).map_err(|_| format!("its quire_info returns {text:?}, which is not JSON"))
}

pub(super) fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void> {
    // SAFETY: the library is open, the name ends with a zero byte.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        Err(format!("it has no symbol {}: it is not a plugin of HDF5, or another version of H5Z-Quire", name.to_string_lossy()))
    } else {
        Ok(found)
    }
}
