//! The HDF5 functions we call, looked up in the library that is calling us.
//!
//! A plugin that links libhdf5 brings a second copy of it into every process that has its own, as h5py's wheels have, and a second copy
//! does not know the first one's identifiers. So each callback finds the library that its return address lies in and asks *that* one.
//! Nothing is kept from call to call: one process may hold several HDF5 libraries (h5py, netCDF4 and PyTables each bring one), and
//! they all call the same plugin.

/// What they ask of chunks.
pub(crate) mod chunks;
/// What the functions of whole arrays ask of datasets and files.
pub(crate) mod datasets;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::null_mut;

use hdf5_sys::h5::{herr_t, hsize_t};
use hdf5_sys::h5d::H5D_FILL_VALUE_USER_DEFINED;
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5z::{H5Z_FLAG_OPTIONAL, H5Z_filter_t};
use quire_codec::{Error, MOST_ELEMENT_BYTES, Result, memory};

use crate::element_type::{COMPLEX, COMPOUND, ENUMERATION, ElementType, FLOAT, Fields, FloatFields, INTEGER, IntegerFields};
use crate::fence::Failure;
use crate::message::Lossy;
use crate::platform::Object;

/// A result that says which call has failed, and why.
type Outcome<T> = std::result::Result<T, Failure>;

/// H5Pget_filter2, by the filter's place in the list, and H5Pget_filter_by_id2, by its number.
type GetFilter<By> =
    unsafe extern "C" fn(hid_t, By, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;

/// Exported by every HDF5 library since 1.8 and by nothing else.
const PROBE: &CStr = c"H5Zregister";
/// `H5S_MAX_RANK`
const MAX_DATASPACE_RANK: usize = 32;
/// The first version that runs filters on threads of its own.
const FIRST_WITH_FILTER_THREADS: (u32, u32) = (2, 3);

/// A filter of a property list. Messages show its identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedFilter {
    pub(crate) id: H5Z_filter_t,
    /// Whether HDF5 stores a chunk without the filter where the filter fails.
    pub(crate) is_optional: bool,
}

impl fmt::Debug for ListedFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(formatter)
    }
}

/// An HDF5 library of this process, held open as long as this value lives.
pub(crate) struct Library {
    object: Object,
}

impl Library {
    /// The library whose code contains `return_address`. Where that fails, as on architectures whose return address we do not take, the
    /// one in the global scope, then the only one that is loaded.
    ///
    /// # Errors
    /// `InvalidArgument` if the process has no HDF5 library that can be seen, or several and none of them is the caller.
    pub(crate) fn of_caller(return_address: *const c_void) -> Result<Self> {
        let caller = Object::containing(return_address).map(|object| Self { object });
        let caller = caller.filter(|library| library.address(PROBE).is_some());
        caller.or_else(|| Self::exporting(PROBE)).ok_or_else(|| {
            Error::invalid(
                "the HDF5 library that called the filter cannot be found in this process: use a shared one, as the functions of a statically \
                 linked one are hidden from plugins; reading works all the same",
            )
        })
    }

    /// The library with this function. Where the address leads to none, as null does or a program's own stub for the function, the others that
    /// [`Library::of_caller`] looks for.
    ///
    /// # Errors
    /// `InvalidArgument` if the process has no HDF5 library that can be seen, or several.
    pub(crate) fn with_function(address: *const c_void) -> Result<Self> {
        Self::of_caller(address).map_err(|error| {
            error.reworded(|_| {
                Error::invalid(
                    "no HDF5 library can be found in this process, or several: give the address of one of its functions, (void *)H5Dwrite say, and \
                     link HDF5 as a shared library",
                )
            })
        })
    }

    /// The library of the process with this function: the one in the global scope, else the only one that is loaded.
    pub(crate) fn exporting(function: &CStr) -> Option<Self> {
        let global = Object::global_scope().map(|object| Self { object });
        global.filter(|library| library.address(function).is_some()).or_else(|| Self::only_one_loaded(function))
    }

    fn only_one_loaded(function: &CStr) -> Option<Self> {
        let mut found: Option<(Self, *mut c_void)> = None;
        for object in Object::all()? {
            let library = Self { object };
            // A look-up also searches an object's dependencies, so that libhdf5_hl leads to libhdf5: tell libraries by the address.
            let Some(address) = library.address(function) else { continue };
            match found {
                None => found = Some((library, address)),
                Some((_, known)) if known == address => {}
                Some(_) => return None,
            }
        }
        found.map(|(library, _)| library)
    }

    /// Whether the library has the functions of parallel HDF5.
    pub(crate) fn has_mpi(&self) -> bool {
        self.address(c"H5Pset_fapl_mpio").is_some()
    }

    fn address(&self, name: &CStr) -> Option<*mut c_void> {
        self.object.address(name)
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` must be the `extern "C" fn` type with the signature of the function `name`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.address(name).ok_or_else(|| {
            Error::invalid(format_args!("the library that called the filter does not export {}", Lossy(name.to_bytes())))
        })?;
        // SAFETY: a function pointer has the form of its address, and the caller vouches for the signature.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }

    /// Asks a function about an identifier.
    ///
    /// # Safety
    /// The function must take one identifier and return a `T`. A C enum is an int.
    unsafe fn ask<T>(&self, name: &CStr, id: hid_t) -> Result<T> {
        // SAFETY: the caller's promise; HDF5 checks identifiers.
        Ok(unsafe { self.function::<unsafe extern "C" fn(hid_t) -> T>(name)?(id) })
    }

    /// Asks a function about an identifier. The function returns an int, which is negative after an error.
    ///
    /// # Safety
    /// The function must take one identifier and return an int.
    unsafe fn ask_int(&self, name: &CStr, id: hid_t) -> Outcome<c_int> {
        // SAFETY: the caller's promise.
        self.succeed(name, unsafe { self.ask(name, id)? })
    }

    /// Asks a function for a number about an identifier. The function writes the number to an address.
    ///
    /// # Safety
    /// The function must take an identifier and the address of a `T`, and return an int, which is negative after an error.
    unsafe fn ask_number<T: Default>(&self, name: &CStr, id: hid_t) -> Outcome<T> {
        let mut number = T::default();
        // SAFETY: the caller's promise; HDF5 checks identifiers.
        let returned = unsafe { self.function::<unsafe extern "C" fn(hid_t, *mut T) -> herr_t>(name)?(id, &mut number) };
        self.succeed(name, returned).map(|_| number)
    }

    /// Passes on what a function has returned, unless it is negative.
    fn succeed(&self, function: &CStr, returned: c_int) -> Outcome<c_int> {
        if returned < 0 { Err(self.failure(function)) } else { Ok(returned) }
    }

    /// The filters of a property list, in the order in which a write applies them.
    pub(crate) fn filters(&self, dcpl: hid_t) -> Outcome<Vec<ListedFilter>> {
        // SAFETY: these are their signatures in every HDF5 since 1.8.
        let (count, get) =
            unsafe { (self.ask_int(c"H5Pget_nfilters", dcpl)?, self.function::<GetFilter<c_uint>>(c"H5Pget_filter2")?) };
        let mut filters = Vec::new();
        for index in 0..count as c_uint {
            let mut flags = 0;
            // SAFETY: HDF5 fills in only what is not null or of length 0.
            let returned = unsafe { get(dcpl, index, &mut flags, null_mut(), null_mut(), 0, null_mut(), null_mut()) };
            let id = self.succeed(c"H5Pget_filter2", returned)?;
            memory::push(&mut filters, ListedFilter { id, is_optional: flags & H5Z_FLAG_OPTIONAL != 0 })?;
        }
        Ok(filters)
    }

    /// Flags and cd_values of a filter in a property list. More than `capacity` cd_values are an error.
    pub(crate) fn filter_parameters(&self, dcpl: hid_t, filter: H5Z_filter_t, capacity: usize) -> Outcome<(c_uint, Vec<c_uint>)> {
        // SAFETY: this is its signature in every HDF5 since 1.8.
        let get = unsafe { self.function::<GetFilter<H5Z_filter_t>>(c"H5Pget_filter_by_id2")? };
        let (mut flags, mut count, mut words) = (0, capacity, Vec::new());
        memory::resize(&mut words, capacity)?;
        // SAFETY: `words` has room for the `count` words announced, and no name is asked for.
        let returned = unsafe { get(dcpl, filter, &mut flags, &mut count, words.as_mut_ptr(), 0, null_mut(), null_mut()) };
        self.succeed(c"H5Pget_filter_by_id2", returned)?;
        if count > capacity {
            return Err(Error::invalid(format_args!("the filter has {count} cd_values: it takes at most {capacity}")).into());
        }
        words.truncate(count);
        Ok((flags, words))
    }

    /// Replaces flags and cd_values of a filter in a property list.
    pub(crate) fn set_filter_parameters(
        &self,
        dcpl: hid_t,
        filter: H5Z_filter_t,
        flags: c_uint,
        words: &[c_uint],
    ) -> Outcome<()> {
        type Modify = unsafe extern "C" fn(hid_t, H5Z_filter_t, c_uint, usize, *const c_uint) -> herr_t;
        // SAFETY: this is its signature in every HDF5 since 1.8, and HDF5 copies the words.
        let returned = unsafe { self.function::<Modify>(c"H5Pmodify_filter")?(dcpl, filter, flags, words.len(), words.as_ptr()) };
        self.succeed(c"H5Pmodify_filter", returned).map(|_| ())
    }

    /// Extents of a chunk, slowest first.
    pub(crate) fn chunk_extents(&self, dcpl: hid_t) -> Outcome<Vec<u64>> {
        type Get = unsafe extern "C" fn(hid_t, c_int, *mut hsize_t) -> c_int;
        let mut extents = [0; MAX_DATASPACE_RANK];
        // SAFETY: this is its signature in every HDF5, and HDF5 writes no more extents than announced.
        let returned = unsafe { self.function::<Get>(c"H5Pget_chunk")?(dcpl, MAX_DATASPACE_RANK as c_int, extents.as_mut_ptr()) };
        let rank = self.succeed(c"H5Pget_chunk", returned)? as usize;
        Ok(memory::collect(extents.into_iter().take(rank))?)
    }

    /// The fill value that the user has defined for a dataset, if any: one element of a type of `size` bytes.
    pub(crate) fn fill_value(&self, dcpl: hid_t, type_id: hid_t, size: usize) -> Outcome<Option<[u8; MOST_ELEMENT_BYTES]>> {
        type Get = unsafe extern "C" fn(hid_t, hid_t, *mut c_void) -> herr_t;
        // SAFETY: this is its signature in every HDF5 since 1.8; a C enum is an int.
        let status: c_int = unsafe { self.ask_number(c"H5Pfill_value_defined", dcpl)? };
        if status != H5D_FILL_VALUE_USER_DEFINED as c_int {
            return Ok(None);
        }
        let mut bytes = [0; MOST_ELEMENT_BYTES];
        assert!(size <= bytes.len(), "elements of the codec's types have 16 bytes and less");
        // SAFETY: this is its signature in every HDF5 since 1.8. HDF5 writes one element of the type, which has `size` bytes.
        let returned = unsafe { self.function::<Get>(c"H5Pget_fill_value")?(dcpl, type_id, bytes.as_mut_ptr().cast()) };
        self.succeed(c"H5Pget_fill_value", returned)?;
        Ok(Some(bytes))
    }

    /// What HDF5 says of a datatype.
    pub(crate) fn element_type(&self, type_id: hid_t) -> Outcome<ElementType> {
        type OfMember<T> = unsafe extern "C" fn(hid_t, c_uint) -> T;
        let found = self.number_type(type_id)?;
        let ElementType { class, size, .. } = found;
        if class == COMPLEX {
            // SAFETY: this is its signature in every HDF5.
            let part = self.part_type(c"H5Tget_super", unsafe { self.ask(c"H5Tget_super", type_id)? })?;
            return Ok(ElementType::of_two(class, size, [(0, part), (part.size, part)]));
        }
        // SAFETY: this is its signature in every HDF5.
        if class != COMPOUND || unsafe { self.ask_int(c"H5Tget_nmembers", type_id)? } != 2 {
            return Ok(found);
        }
        // SAFETY: these are their signatures in every HDF5.
        let (offset, member) = unsafe {
            (self.function::<OfMember<usize>>(c"H5Tget_member_offset")?, self.function::<OfMember<hid_t>>(c"H5Tget_member_type")?)
        };
        // SAFETY: HDF5 checks identifiers and numbers of members.
        let number = |index| unsafe {
            Outcome::Ok((offset(type_id, index), self.part_type(c"H5Tget_member_type", member(type_id, index))?))
        };
        Ok(ElementType::of_two(class, size, [number(0)?, number(1)?]))
    }

    /// What HDF5 says of a datatype that `function` has made for the caller, as [`Library::number_type`] does. Closes the datatype.
    fn part_type(&self, function: &CStr, type_id: hid_t) -> Outcome<ElementType> {
        if type_id < 0 {
            return Err(self.failure(function));
        }
        let found = self.number_type(type_id);
        // SAFETY: this is its signature in every HDF5, and nobody else has the identifier.
        unsafe { self.ask_int(c"H5Tclose", type_id)? };
        found
    }

    /// What HDF5 says of a datatype. Other types than numbers, and names for numbers, have a class and a size alone.
    fn number_type(&self, type_id: hid_t) -> Outcome<ElementType> {
        type GetFields = unsafe extern "C" fn(hid_t, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> herr_t;
        // SAFETY: this is the signature of the functions below that are called by it, in every HDF5; a C enum is an int.
        let number = |name: &CStr| unsafe { self.ask::<c_int>(name, type_id) };
        // SAFETY: as above.
        let count = |name: &CStr| unsafe { self.ask::<usize>(name, type_id) };
        let (class, size) = (self.succeed(c"H5Tget_class", number(c"H5Tget_class")?)?, count(c"H5Tget_size")?);
        let fields = match class {
            INTEGER | ENUMERATION => Fields::Integer(IntegerFields {
                precision: count(c"H5Tget_precision")?,
                offset: number(c"H5Tget_offset")?,
                sign: number(c"H5Tget_sign")?,
            }),
            FLOAT => {
                let [mut sign_at, mut exponent_at, mut exponent_bits, mut mantissa_at, mut mantissa_bits] = [0; 5];
                // SAFETY: this is its signature in every HDF5, which checks the identifier and writes one number to each pointer.
                let returned = unsafe {
                    let get = self.function::<GetFields>(c"H5Tget_fields")?;
                    get(type_id, &mut sign_at, &mut exponent_at, &mut exponent_bits, &mut mantissa_at, &mut mantissa_bits)
                };
                self.succeed(c"H5Tget_fields", returned)?;
                Fields::Float(FloatFields {
                    precision: count(c"H5Tget_precision")?,
                    offset: number(c"H5Tget_offset")?,
                    sign_at,
                    exponent_at,
                    exponent_bits,
                    exponent_bias: count(c"H5Tget_ebias")?,
                    mantissa_at,
                    mantissa_bits,
                    norm: number(c"H5Tget_norm")?,
                })
            }
            // The other questions are errors for classes such as compound.
            _ => return Ok(ElementType { class, size, order: -1, fields: Fields::None }),
        };
        Ok(ElementType { class, size, order: number(c"H5Tget_order")?, fields })
    }

    /// Makes a message the innermost entry of the calling thread's error stack, where it becomes part of the application's error text.
    ///
    /// HDF5 from 1.14.5 on pauses that stack while a filter runs and drops, without a word, what is pushed onto it. So the message goes
    /// onto a stack of its own, which then replaces the thread's; that works paused or not. What the thread's stack held before is lost.
    /// That does no harm: it is at most HDF5's account of a call of ours, which the message names.
    ///
    /// # Errors
    /// `InvalidArgument` if the library lacks a symbol or does not accept the message.
    pub(crate) fn push_error(&self, function: &CStr, message: &CStr) -> Result<()> {
        type Create = unsafe extern "C" fn() -> hid_t;
        type Push =
            unsafe extern "C" fn(hid_t, *const c_char, *const c_char, c_uint, hid_t, hid_t, hid_t, *const c_char, ...) -> herr_t;
        type SetCurrent = unsafe extern "C" fn(hid_t) -> herr_t;
        // SAFETY: these are their signatures in every HDF5 since 1.8.
        let (create, push, set_current) = unsafe {
            (
                self.function::<Create>(c"H5Ecreate_stack")?,
                self.function::<Push>(c"H5Epush2")?,
                self.function::<SetCurrent>(c"H5Eset_current_stack")?,
            )
        };
        let class = self.identifier(c"H5E_ERR_CLS_g")?;
        let major = self.identifier(c"H5E_PLINE_g")?;
        let minor = self.identifier(c"H5E_CANTFILTER_g")?;
        // SAFETY: takes nothing.
        let stack = unsafe { create() };
        // SAFETY: HDF5 checks identifiers and copies the strings, all of which end in 0; the format takes one string.
        let pushed = unsafe {
            push(stack, c"h5z-quire".as_ptr(), function.as_ptr(), 0, class, major, minor, c"%s".as_ptr(), message.as_ptr())
        };
        // SAFETY: HDF5 checks the identifier. It also closes it, so that this is right for a stack without the message too.
        let set = unsafe { set_current(stack) };
        if pushed < 0 || set < 0 { Err(Error::invalid("HDF5 does not accept the message")) } else { Ok(()) }
    }

    /// A variable of the library that holds an identifier.
    fn identifier(&self, name: &CStr) -> Result<hid_t> {
        let address = self.address(name).ok_or_else(|| {
            Error::invalid(format_args!("the library that called the filter does not export {}", Lossy(name.to_bytes())))
        })?;
        // SAFETY: HDF5's variables named `H5E_..._g` have the type hid_t and are written once, when the library starts.
        Ok(unsafe { address.cast::<hid_t>().read() })
    }

    /// Whether filter() may be running on a thread of HDF5's own, from which no HDF5 function may be called: from 2.3 on, and for
    /// libraries that do not say which version they are.
    ///
    /// H5get_libversion would be such a call: it takes the library's lock, which the application's thread may be holding while it
    /// waits for this thread. The version text is a constant that can be read without a call.
    pub(crate) fn has_filter_threads(&self) -> bool {
        let Some(address) = self.address(c"H5_lib_vers_info_g") else { return true };
        // SAFETY: in every HDF5 since 1.4 this is a constant array of characters that ends in 0.
        let text = unsafe { CStr::from_ptr(address.cast()) };
        version_of(text).is_none_or(|version| version >= FIRST_WITH_FILTER_THREADS)
    }
}

/// Major and minor version in a text like "HDF5 library version: 1.10.8".
fn version_of(text: &CStr) -> Option<(u32, u32)> {
    let mut numbers = text.to_str().ok()?.rsplit(' ').next()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_librarys_text() {
        assert_eq!(version_of(c"HDF5 library version: 1.10.8"), Some((1, 10)));
        assert_eq!(version_of(c"HDF5 library version: 2.0.0"), Some((2, 0)));
        assert_eq!(version_of(c"HDF5 library version: 2.3.0-1"), Some((2, 3)));
        assert_eq!(version_of(c"HDF5 library version"), None);
        assert_eq!(version_of(c""), None);
    }

    #[test]
    fn a_process_without_hdf5_gets_an_error() {
        let error = Library::of_caller(std::ptr::null()).map(|_| ()).expect_err("the test program does not link HDF5");
        assert!(error.to_string().contains("cannot be found in this process"), "{error}");
    }

    #[test]
    fn loaded_objects_can_be_opened() {
        assert!(Object::all().expect("memory").count() > 0);
    }
}
