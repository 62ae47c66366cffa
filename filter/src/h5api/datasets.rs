//! What the functions of whole arrays ask of datasets and files. All is looked up at run time; what HDF5 1.10 does not have is optional.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::ptr::null_mut;

use hdf5_sys::h5::{herr_t, hsize_t};
use hdf5_sys::h5d::{H5D_CHUNKED, H5D_FILL_TIME_NEVER};
use hdf5_sys::h5f::H5F_ACC_RDWR;
use hdf5_sys::h5i::hid_t;
use quire_codec::{MOST_ELEMENT_BYTES, memory};

use super::{Library, MAX_DATASPACE_RANK, Outcome};
use crate::fence::Failure;
use crate::message::{Lossy, OsError};
use crate::platform;

/// `H5P_DEFAULT`
pub(super) const DEFAULT: hid_t = 0;
/// `H5E_DEFAULT`
const CURRENT_STACK: hid_t = 0;
/// `H5E_WALK_UPWARD`: from the function that failed to the one that was called.
const INNERMOST_FIRST: c_int = 0;

/// An identifier that is closed when this is dropped.
pub(crate) struct Owned<'a> {
    library: &'a Library,
    id: hid_t,
    close: &'static CStr,
}

impl Owned<'_> {
    pub(crate) fn id(&self) -> hid_t {
        self.id
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // A failure leaves it open, which harms nobody.
        // SAFETY: this is the signature of every function that is named in this file to close an identifier.
        let _ = unsafe { self.library.ask::<herr_t>(self.close, self.id) };
    }
}

impl Library {
    /// The failure of a function, with the innermost entry of the calling thread's error stack.
    #[cold]
    pub(super) fn failure(&self, function: &CStr) -> Failure {
        let name = Lossy(function.to_bytes());
        match self.innermost_error() {
            Some(reason) => Failure::hdf5(format_args!("HDF5 reports an error in {name}: {reason}")),
            None => Failure::hdf5(format_args!("HDF5 reports an error in {name}")),
        }
    }

    pub(super) fn innermost_error(&self) -> Option<String> {
        type Walk = unsafe extern "C" fn(
            hid_t,
            c_int,
            unsafe extern "C" fn(c_uint, *const Entry, *mut c_void) -> herr_t,
            *mut c_void,
        ) -> herr_t;
        /// `H5E_error2_t`
        #[repr(C)]
        struct Entry {
            class: hid_t,
            major: hid_t,
            minor: hid_t,
            line: c_uint,
            function: *const c_char,
            file: *const c_char,
            text: *const c_char,
        }
        /// Keeps the first entry's text and ends the walk.
        unsafe extern "C" fn keep(_number: c_uint, entry: *const Entry, found: *mut c_void) -> herr_t {
            // SAFETY: HDF5 passes a valid entry, and our own pointer to an option that nobody else uses meanwhile.
            let (entry, found) = unsafe { (&*entry, &mut *found.cast::<Option<String>>()) };
            if !entry.text.is_null() {
                // SAFETY: the text ends in 0 and lives as long as this call.
                let text = unsafe { CStr::from_ptr(entry.text) };
                *found = memory::text(Lossy(text.to_bytes())).ok();
                // Some of HDF5's texts have the time with the end of its line.
                found.iter_mut().for_each(|text| text.retain(|character| character != '\n'));
            }
            1
        }
        let mut found: Option<String> = None;
        // SAFETY: this is its signature in every HDF5 since 1.8; a C enum is an int.
        let walk = unsafe { self.function::<Walk>(c"H5Ewalk2") }.ok()?;
        // SAFETY: `keep` has the signature that is expected and gets the option it expects.
        unsafe { walk(CURRENT_STACK, INNERMOST_FIRST, keep, (&raw mut found).cast()) };
        found
    }

    /// Calls a function that makes an identifier of another one.
    pub(super) fn derive(&self, function: &'static CStr, of: hid_t, close: &'static CStr) -> Outcome<Owned<'_>> {
        // SAFETY: this is the signature of every function that is named in this file to make an identifier.
        let id: hid_t = unsafe { self.ask(function, of)? };
        if id < 0 { Err(self.failure(function)) } else { Ok(Owned { library: self, id, close }) }
    }

    /// The list with which a dataset was created.
    pub(crate) fn create_properties(&self, dataset: hid_t) -> Outcome<Owned<'_>> {
        self.derive(c"H5Dget_create_plist", dataset, c"H5Pclose")
    }

    /// A dataset's type.
    pub(crate) fn type_of(&self, dataset: hid_t) -> Outcome<Owned<'_>> {
        self.derive(c"H5Dget_type", dataset, c"H5Tclose")
    }

    /// A dataset's file.
    pub(crate) fn file_of(&self, dataset: hid_t) -> Outcome<Owned<'_>> {
        self.derive(c"H5Iget_file_id", dataset, c"H5Fclose")
    }

    /// A dataset's dataspace.
    pub(super) fn space_of(&self, dataset: hid_t) -> Outcome<Owned<'_>> {
        self.derive(c"H5Dget_space", dataset, c"H5Sclose")
    }

    /// Extents of a dataset, slowest first.
    pub(crate) fn extents(&self, dataset: hid_t) -> Outcome<Vec<u64>> {
        Ok(self.present_and_greatest_extents(dataset)?.0)
    }

    /// Extents of a dataset, and the greatest that it may have: `u64::MAX` for any. Slowest first.
    pub(crate) fn present_and_greatest_extents(&self, dataset: hid_t) -> Outcome<(Vec<u64>, Vec<u64>)> {
        type Get = unsafe extern "C" fn(hid_t, *mut hsize_t, *mut hsize_t) -> c_int;
        let space = self.space_of(dataset)?;
        // SAFETY: this is its signature in every HDF5.
        let get = unsafe { self.function::<Get>(c"H5Sget_simple_extent_dims")? };
        let (mut extents, mut greatest) = ([0; MAX_DATASPACE_RANK], [0; MAX_DATASPACE_RANK]);
        // SAFETY: no dataspace has more axes than that.
        let returned = unsafe { get(space.id, extents.as_mut_ptr(), greatest.as_mut_ptr()) };
        let rank = self.succeed(c"H5Sget_simple_extent_dims", returned)? as usize;
        let of_rank = |all: [u64; MAX_DATASPACE_RANK]| memory::collect(all.into_iter().take(rank));
        Ok((of_rank(extents)?, of_rank(greatest)?))
    }

    /// Whether a dataset is stored in chunks.
    pub(crate) fn is_chunked(&self, dcpl: hid_t) -> Outcome<bool> {
        // SAFETY: this is its signature in every HDF5; a C enum is an int.
        Ok(unsafe { self.ask_int(c"H5Pget_layout", dcpl)? } == H5D_CHUNKED as c_int)
    }

    /// Whether HDF5 stores chunks at a dataset's edges without filters.
    pub(crate) fn leaves_edges_unfiltered(&self, dcpl: hid_t) -> Outcome<bool> {
        // SAFETY: this is its signature in every HDF5 since 1.10. The only bit of the number means that.
        let options: c_uint = unsafe { self.ask_number(c"H5Pget_chunk_opts", dcpl)? };
        Ok(options != 0)
    }

    /// The bytes with which HDF5 fills a new chunk, as far as the data do not: one element of a type of `size` bytes.
    pub(crate) fn filling(&self, dcpl: hid_t, type_id: hid_t, size: usize) -> Outcome<[u8; MOST_ELEMENT_BYTES]> {
        // SAFETY: this is its signature in every HDF5; a C enum is an int.
        let time: c_int = unsafe { self.ask_number(c"H5Pget_fill_time", dcpl)? };
        let value = if time == H5D_FILL_TIME_NEVER as c_int { None } else { self.fill_value(dcpl, type_id, size)? };
        // Without a value, or if told never to fill, HDF5 writes zeros.
        Ok(value.unwrap_or_default())
    }

    /// Whether a file is open for writing.
    pub(crate) fn is_writable(&self, file: hid_t) -> Outcome<bool> {
        // SAFETY: this is its signature in every HDF5 since 1.8.
        let intent: c_uint = unsafe { self.ask_number(c"H5Fget_intent", file)? };
        // Other bits are for SWMR.
        Ok(intent & H5F_ACC_RDWR != 0)
    }

    /// Whether a file's driver is the default one.
    fn has_default_driver(&self, access: hid_t) -> Outcome<bool> {
        // SAFETY: this is its signature in every HDF5.
        let driver: hid_t = unsafe { self.ask(c"H5Pget_driver", access)? };
        if driver < 0 {
            return Err(self.failure(c"H5Pget_driver"));
        }
        // A variable from 2.0 on, a function before.
        if let Ok(known) = self.identifier(c"H5FD_SEC2_id_g") {
            return Ok(known == driver);
        }
        type Init = unsafe extern "C" fn() -> hid_t;
        // SAFETY: this is the signature of every driver's function of that name before 2.0.
        let known = unsafe { self.function::<Init>(c"H5FD_sec2_init") };
        // SAFETY: takes nothing; registers the driver, if that has not been done.
        Ok(known.is_ok_and(|init| unsafe { init() } == driver))
    }

    /// Whether several processes have opened the file together, so that HDF5 wants them to write together.
    ///
    /// The file's access list would say it, too. But making one duplicates the communicator, for which MPI waits until all processes come.
    pub(crate) fn is_parallel(&self, file: hid_t) -> Outcome<bool> {
        type Get = unsafe extern "C" fn(hid_t, *mut c_uint) -> herr_t;
        // SAFETY: this is its signature in every HDF5 that was built with MPI, but for the second one's type, which is `bool` or `unsigned`.
        let Ok(get) = (unsafe { self.function::<Get>(c"H5Fget_mpi_atomicity") }) else { return Ok(false) };
        let mut is_atomic = 0;
        // SAFETY: HDF5 checks the identifier and writes one value, for whose wider type there is room.
        let returned = self.without_printing(|| unsafe { get(file, &mut is_atomic) })?;
        // An error is all that it has for a file of another driver.
        Ok(returned >= 0)
    }

    /// The file, to be read beside HDF5 at the addresses that HDF5 names; nothing where the driver is not the default one, or where addresses may not
    /// count from the file's start.
    pub(crate) fn plain_file(&self, file: hid_t) -> Outcome<Option<File>> {
        type Handle = unsafe extern "C" fn(hid_t, hid_t, *mut *mut c_void) -> herr_t;
        if self.is_parallel(file)? {
            return Ok(None);
        }
        let access = self.derive(c"H5Fget_access_plist", file, c"H5Pclose")?;
        if !self.has_default_driver(access.id)? {
            return Ok(None);
        }
        let creation = self.derive(c"H5Fget_create_plist", file, c"H5Pclose")?;
        // SAFETY: this is its signature in every HDF5.
        let user_block: hsize_t = unsafe { self.ask_number(c"H5Pget_userblock", creation.id)? };
        if user_block != 0 {
            // Before 1.14.4, HDF5's addresses do not count it (HDFGroup/hdf5#3003).
            return Ok(None);
        }
        let mut address: *mut c_void = null_mut();
        // SAFETY: this is its signature in every HDF5, which checks identifiers and writes one address.
        let returned = unsafe { self.function::<Handle>(c"H5Fget_vfd_handle")?(file, access.id, &mut address) };
        self.succeed(c"H5Fget_vfd_handle", returned)?;
        // SAFETY: this driver gives the address of its descriptor, an int, which is there as long as the file is open.
        let descriptor = unsafe { address.cast::<c_int>().read() };
        // One of our own: HDF5 may close the file while threads read.
        platform::duplicate(descriptor).map_err(|error| {
            let reason = OsError::of(&error);
            Failure::hdf5(format_args!("the file's descriptor {descriptor} cannot be duplicated: {reason}"))
        })
    }

    /// Makes calls whose errors HDF5 does not print, though the program may want that.
    pub(super) fn without_printing<R>(&self, body: impl FnOnce() -> R) -> Outcome<R> {
        type Get = unsafe extern "C" fn(hid_t, *mut *mut c_void, *mut *mut c_void) -> herr_t;
        type Set = unsafe extern "C" fn(hid_t, *mut c_void, *mut c_void) -> herr_t;
        // SAFETY: these are their signatures in every HDF5 since 1.8, but for the function's pointer, which is handed back as it was given.
        let (get, set) = unsafe { (self.function::<Get>(c"H5Eget_auto2")?, self.function::<Set>(c"H5Eset_auto2")?) };
        let (mut function, mut data) = (null_mut(), null_mut());
        // SAFETY: HDF5 writes two addresses.
        self.succeed(c"H5Eget_auto2", unsafe { get(CURRENT_STACK, &mut function, &mut data) })?;
        // SAFETY: without a function nothing is printed.
        self.succeed(c"H5Eset_auto2", unsafe { set(CURRENT_STACK, null_mut(), null_mut()) })?;
        let result = body();
        // SAFETY: as they were.
        self.succeed(c"H5Eset_auto2", unsafe { set(CURRENT_STACK, function, data) })?;
        Ok(result)
    }
}
