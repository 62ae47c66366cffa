//! An HDF5 library that is found at run time, and a dataset in a file of its own, for tests of whole arrays.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering};

use hdf5_sys::h5i::hid_t;

use crate::FILTER_ID;

/// Names of the library where nobody names one.
const NAMES: [&CStr; 3] = [c"libhdf5_serial.so.103", c"libhdf5_serial.so.310", c"libhdf5.so"];
const CREATE: c_uint = 2;
const READ_ONLY: c_uint = 0;
/// `H5F_OBJ_ALL`
const OBJECTS: c_uint = 0x1f;
const ALL: hid_t = 0;
const DEFAULT: hid_t = 0;

/// An HDF5 library that knows the filter.
pub(crate) struct Hdf5 {
    handle: *mut c_void,
}

// SAFETY: the handle of a library that stays open. Tests call HDF5 from one thread at a time, and what HDF5 keeps of a thread it finds by thread.
unsafe impl Sync for Hdf5 {}

/// Methods with the names and the signatures of functions.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $returned:ty;)*) => {$(
        #[expect(non_snake_case, reason = "HDF5's name")]
        #[allow(clippy::too_many_arguments, reason = "as many as HDF5's")]
        fn $name(&self, $($argument: $type),*) -> $returned {
            let name = CString::new(stringify!($name)).expect("no 0 in it");
            // SAFETY: the function has this signature in every HDF5 since 1.10.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $returned = std::mem::transmute(self.address(&name));
                function($($argument),*)
            }
        }
    )*};
}

impl Hdf5 {
    /// The library that `QUIRE_TEST_HDF5` names, or the system's. Without one, `None`, and the reason is printed.
    pub(crate) fn open() -> Option<Self> {
        let named = std::env::var("QUIRE_TEST_HDF5").ok().map(|name| CString::new(name).expect("no 0 in it"));
        let names = named.as_deref().map_or(&NAMES[..], |_| &[]).iter().copied().chain(named.as_deref());
        // SAFETY: HDF5 may be loaded by anybody.
        let handle = names.map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) }).find(|handle| !handle.is_null());
        let Some(handle) = handle else {
            assert!(named.is_none(), "QUIRE_TEST_HDF5 names no library");
            println!("skipped: there is no HDF5 library");
            return None;
        };
        let library = Self { handle };
        assert!(library.H5open() >= 0 && library.H5Zregister(crate::H5PLget_plugin_info()) >= 0);
        Some(library)
    }

    fn address(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library stays open.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!address.is_null(), "HDF5 has no {name:?}");
        address
    }

    /// The address of a function of the library, as a program gives it.
    pub(crate) fn any_function(&self) -> *const c_void {
        self.address(c"H5Dwrite")
    }

    fn identifier(&self, name: &CStr) -> hid_t {
        // SAFETY: a variable of that type, set by H5open.
        unsafe { self.address(name).cast::<hid_t>().read() }
    }

    functions! {
        H5open() -> c_int;
        H5Zregister(class: *const c_void) -> c_int;
        H5Fcreate(path: *const c_char, flags: c_uint, creation: hid_t, access: hid_t) -> hid_t;
        H5Fopen(path: *const c_char, flags: c_uint, access: hid_t) -> hid_t;
        H5Fclose(file: hid_t) -> c_int;
        H5Fget_obj_count(file: hid_t, types: c_uint) -> isize;
        H5Pcreate(class: hid_t) -> hid_t;
        H5Pclose(list: hid_t) -> c_int;
        H5Pset_chunk(list: hid_t, rank: c_int, extents: *const u64) -> c_int;
        H5Pset_filter(list: hid_t, filter: c_int, flags: c_uint, count: usize, words: *const c_uint) -> c_int;
        H5Screate_simple(rank: c_int, extents: *const u64, most: *const u64) -> hid_t;
        H5Sclose(space: hid_t) -> c_int;
        H5Dcreate2(file: hid_t, name: *const c_char, of: hid_t, space: hid_t, links: hid_t, creation: hid_t, access: hid_t) -> hid_t;
        H5Dopen2(file: hid_t, name: *const c_char, access: hid_t) -> hid_t;
        H5Dclose(dataset: hid_t) -> c_int;
        H5Dwrite(dataset: hid_t, of: hid_t, memory: hid_t, space: hid_t, transfer: hid_t, values: *const c_void) -> c_int;
        H5Dread(dataset: hid_t, of: hid_t, memory: hid_t, space: hid_t, transfer: hid_t, values: *mut c_void) -> c_int;
    }
}

/// A dataset of binary32 in a file that is removed with it.
pub(crate) struct Dataset<'a> {
    library: &'a Hdf5,
    path: PathBuf,
    file: hid_t,
    dataset: hid_t,
    values: usize,
}

fn valid(id: hid_t) -> hid_t {
    assert!(id >= 0, "HDF5 reports an error");
    id
}

impl<'a> Dataset<'a> {
    pub(crate) fn new(library: &'a Hdf5, extents: &[u64], chunk: &[u64], words: &[c_uint]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quire-low-memory-{}-{number}.h5", std::process::id()));
        let rank = extents.len() as c_int;
        let file = valid(library.H5Fcreate(name_of(&path).as_ptr(), CREATE, DEFAULT, DEFAULT));
        let list = valid(library.H5Pcreate(library.identifier(c"H5P_CLS_DATASET_CREATE_ID_g")));
        assert!(library.H5Pset_chunk(list, rank, chunk.as_ptr()) >= 0);
        assert!(library.H5Pset_filter(list, FILTER_ID, 0, words.len(), words.as_ptr()) >= 0);
        let space = valid(library.H5Screate_simple(rank, extents.as_ptr(), null()));
        let of = library.identifier(c"H5T_IEEE_F32LE_g");
        let dataset = valid(library.H5Dcreate2(file, c"t".as_ptr(), of, space, DEFAULT, list, DEFAULT));
        library.H5Pclose(list);
        library.H5Sclose(space);
        Self { library, path, file, dataset, values: extents.iter().product::<u64>() as usize }
    }

    pub(crate) fn id(&self) -> hid_t {
        self.dataset
    }

    /// Closes the file and opens it again, for reading alone.
    pub(crate) fn reopen_for_reading(&mut self) {
        self.close();
        self.file = valid(self.library.H5Fopen(name_of(&self.path).as_ptr(), READ_ONLY, DEFAULT));
        self.dataset = valid(self.library.H5Dopen2(self.file, c"t".as_ptr(), DEFAULT));
    }

    fn close(&self) {
        assert!(self.library.H5Dclose(self.dataset) >= 0);
        // The file itself.
        assert_eq!(self.library.H5Fget_obj_count(self.file, OBJECTS), 1, "nothing of the file is left open");
        assert!(self.library.H5Fclose(self.file) >= 0);
    }

    /// Writes all values by H5Dwrite.
    pub(crate) fn write(&self, values: &[f32]) {
        assert_eq!(values.len(), self.values);
        let of = self.library.identifier(c"H5T_IEEE_F32LE_g");
        assert!(self.library.H5Dwrite(self.dataset, of, ALL, ALL, DEFAULT, values.as_ptr().cast()) >= 0);
    }

    /// Reads all values by H5Dread.
    pub(crate) fn read(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.values];
        let of = self.library.identifier(c"H5T_IEEE_F32LE_g");
        assert!(self.library.H5Dread(self.dataset, of, ALL, ALL, DEFAULT, values.as_mut_ptr().cast()) >= 0);
        values
    }
}

impl Drop for Dataset<'_> {
    fn drop(&mut self) {
        self.close();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn name_of(path: &std::path::Path) -> CString {
    CString::new(path.to_str().expect("UTF-8")).expect("no 0 in it")
}
