//! Files, links and attributes with names of any bytes. The crate `hdf5` handles only UTF-8 names and replaces other bytes.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::path::Path;

use hdf5::plist::link_create::CharEncoding;
use hdf5::plist::{DatasetAccess, FileAccess, FileCreate};
use hdf5::{Attribute, Dataset, File, Group, Location};
use hdf5_sys::h5::{H5_index_t, H5_iter_order_t, herr_t};
use hdf5_sys::h5a::{H5A_info_t, H5Aexists, H5Aiterate2, H5Aopen};
use hdf5_sys::h5d::H5Dopen2;
use hdf5_sys::h5f::{H5F_ACC_EXCL, H5F_ACC_RDONLY, H5F_ACC_RDWR, H5Fcreate, H5Fopen};
use hdf5_sys::h5g::H5Gopen2;
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5l::{H5L_info1_t, H5L_type_t, H5Literate1};
#[allow(deprecated, reason = "old files have comments")]
use hdf5_sys::h5o::H5Oset_comment;
use hdf5_sys::h5o::{H5O_info1_t, H5O_type_t, H5Oget_comment, H5Oopen_by_addr};
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::H5T_cset_t;

use super::objects::{knows_order_of_attributes, owned};
use super::{Result, check, check_id, locked, message};
use crate::names::Name;

/// `H5O_INFO_BASIC`: asks only for an object's address and kind. The other fields may need a walk over the chunk index.
const BASIC: c_uint = 1;

// SAFETY: HDF5 has had these functions with these signatures since 1.10.3; `hdf5-sys` has them for some versions only.
unsafe extern "C" {
    fn H5Oget_info2(object: hid_t, info: *mut H5O_info1_t, fields: c_uint) -> herr_t;
    fn H5Oget_info_by_name2(
        location: hid_t,
        name: *const c_char,
        info: *mut H5O_info1_t,
        fields: c_uint,
        access: hid_t,
    ) -> herr_t;
}

/// Opens a file for reading.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_file(path: &Path) -> Result<File> {
    let (name, access) = (Name::from(path), FileAccess::build().finish().map_err(message)?);
    // SAFETY: the name ends with a zero byte; HDF5 checks identifiers; the new one belongs to the value that comes back.
    locked(|| unsafe { owned!(H5Fopen(name.as_c().as_ptr(), H5F_ACC_RDONLY, access.id())) })
}

/// Opens a file for reading and writing.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_file_to_write(path: &Path) -> Result<File> {
    let (name, access) = (Name::from(path), FileAccess::build().finish().map_err(message)?);
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Fopen(name.as_c().as_ptr(), H5F_ACC_RDWR, access.id())) })
}

/// Creates a file, which must not exist yet.
///
/// # Errors
/// HDF5's.
pub(crate) fn create_file(path: &Path, properties: &FileCreate, access: &FileAccess) -> Result<File> {
    let name = Name::from(path);
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Fcreate(name.as_c().as_ptr(), H5F_ACC_EXCL, properties.id(), access.id())) })
}

/// A link of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) name: CString,
    /// HDF5's number for the kind of link. Programs can define kinds that HDF5 itself does not have.
    kind: c_int,
    pub(crate) encoding: CharEncoding,
}

impl Link {
    /// Whether it is a hard link, which leads to an object of the same file.
    pub(crate) fn is_hard(&self) -> bool {
        self.kind == H5L_type_t::H5L_TYPE_HARD as c_int
    }
}

/// A group's links, in creation order if the file records it, otherwise by name.
///
/// # Errors
/// HDF5's.
pub(crate) fn links(group: &Group) -> Result<Vec<Link>> {
    unsafe extern "C" fn push(_: hid_t, name: *const c_char, info: *const H5L_info1_t, links: *mut c_void) -> herr_t {
        // SAFETY: HDF5 hands on the pointer to the list, which nothing else uses, a name that ends with a zero byte, and a structure that it has filled. Enums
        // are read as the numbers that they are, since a file may have others.
        unsafe {
            let (kind, set) =
                ((&raw const (*info).type_).cast::<c_int>().read(), (&raw const (*info).cset).cast::<c_int>().read());
            let encoding = if set == H5T_cset_t::H5T_CSET_UTF8 as c_int { CharEncoding::Utf8 } else { CharEncoding::Ascii };
            (*links.cast::<Vec<Link>>()).push(Link { name: CStr::from_ptr(name).to_owned(), kind, encoding });
        }
        0
    }
    let in_order = |index: H5_index_t| {
        let mut links: Vec<Link> = Vec::new();
        let (mut position, order) = (0, H5_iter_order_t::H5_ITER_INC);
        // SAFETY: HDF5 checks the identifier, and calls `push` with the list that is there until the call is over.
        locked(|| unsafe { check(H5Literate1(group.id(), index, order, &mut position, Some(push), (&raw mut links).cast())) })?;
        Ok(links)
    };
    in_order(H5_index_t::H5_INDEX_CRT_ORDER).or_else(|_: String| in_order(H5_index_t::H5_INDEX_NAME))
}

/// Names of an object's attributes, in creation order if the object records it, otherwise by name.
///
/// # Errors
/// HDF5's.
pub(crate) fn attribute_names(object: &Location) -> Result<Vec<Name>> {
    unsafe extern "C" fn push(_: hid_t, name: *const c_char, _: *const H5A_info_t, names: *mut c_void) -> herr_t {
        // SAFETY: HDF5 hands on the pointer to the list, which nothing else uses, and a name that ends with a zero byte.
        unsafe { (*names.cast::<Vec<Name>>()).push(CStr::from_ptr(name).into()) };
        0
    }
    let by = |index: H5_index_t| -> Result<Vec<Name>> {
        let (mut names, mut position, order) = (Vec::new(), 0, H5_iter_order_t::H5_ITER_INC);
        // SAFETY: HDF5 checks the identifier, and calls `push` with the list that is there until the call is over.
        locked(|| unsafe { check(H5Aiterate2(object.id(), index, order, &mut position, Some(push), (&raw mut names).cast())) })?;
        Ok(names)
    };
    let names = by(H5_index_t::H5_INDEX_NAME)?;
    // Whether there is an order costs HDF5 more than the names.
    if names.len() > 1 && knows_order_of_attributes(object)? { by(H5_index_t::H5_INDEX_CRT_ORDER) } else { Ok(names) }
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Group,
    Dataset,
    Datatype,
    /// A kind that was added after HDF5 1.10.
    Other,
}

/// An object's address in its file, which all its names share.
pub(crate) type Token = u64;

/// Kind and address of the object that a hard link leads to.
///
/// # Errors
/// HDF5's.
pub(crate) fn object_by_name(group: &Group, name: &CStr) -> Result<(Kind, Token)> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: the name ends with a zero byte; HDF5 checks the identifier and fills the members that are asked for.
    locked(|| unsafe { check(H5Oget_info_by_name2(group.id(), name.as_ptr(), info.as_mut_ptr(), BASIC, H5P_DEFAULT)) })?;
    Ok(kind_and_token(&info))
}

/// The address of an object.
///
/// # Errors
/// HDF5's.
pub(crate) fn token(object: &Location) -> Result<Token> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: HDF5 checks the identifier and fills the members that are asked for.
    locked(|| unsafe { check(H5Oget_info2(object.id(), info.as_mut_ptr(), BASIC)) })?;
    Ok(kind_and_token(&info).1)
}

/// Reads kind and address from the structure that HDF5 has filled. The kind is read as an integer, since newer versions of HDF5 have more kinds than the enum.
fn kind_and_token(info: &MaybeUninit<H5O_info1_t>) -> (Kind, Token) {
    let info = info.as_ptr();
    // SAFETY: HDF5 has filled both members.
    let (kind, token) = unsafe { ((&raw const (*info).type_).cast::<c_int>().read(), (&raw const (*info).addr).read()) };
    let kind = [
        (H5O_type_t::H5O_TYPE_GROUP, Kind::Group),
        (H5O_type_t::H5O_TYPE_DATASET, Kind::Dataset),
        (H5O_type_t::H5O_TYPE_NAMED_DATATYPE, Kind::Datatype),
    ]
    .into_iter()
    .find_map(|(number, named)| (number as c_int == kind).then_some(named));
    (kind.unwrap_or(Kind::Other), token)
}

/// Opens an object by its address.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_object(file: &Location, token: Token) -> Result<Location> {
    // SAFETY: HDF5 checks the identifier, and reads the address from a file; the new identifier belongs to the value that comes back.
    locked(|| unsafe { owned!(H5Oopen_by_addr(file.id(), token)) })
}

/// Opens a group.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_group(group: &Group, name: &CStr) -> Result<Group> {
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Gopen2(group.id(), name.as_ptr(), H5P_DEFAULT)) })
}

/// Opens a dataset with access properties, such as the size of its chunk cache.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_dataset(group: &Group, name: &CStr, access: Option<&DatasetAccess>) -> Result<Dataset> {
    let access = access.map_or(H5P_DEFAULT, |access| access.id());
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Dopen2(group.id(), name.as_ptr(), access)) })
}

/// Opens an attribute.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_attribute(object: &Location, name: &Name) -> Result<Attribute> {
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Aopen(object.id(), name.as_c().as_ptr(), H5P_DEFAULT)) })
}

/// Whether an object has an attribute. HDF5 says so at less cost than that of an error for one that is not there.
pub(crate) fn has_attribute(object: &Location, name: &Name) -> bool {
    // SAFETY: as in `open_file`.
    locked(|| unsafe { H5Aexists(object.id(), name.as_c().as_ptr()) > 0 })
}

/// An object's comment (HDF5's predecessor of attributes), or `None` if it is empty.
///
/// # Errors
/// HDF5's.
pub(crate) fn comment(object: &Location) -> Result<Option<CString>> {
    // SAFETY: HDF5 checks the identifier, writes no more bytes than it is told there are, with a zero byte at their end, and none where there are none.
    locked(|| unsafe {
        let length = H5Oget_comment(object.id(), std::ptr::null_mut(), 0);
        let length = usize::try_from(length).map_err(|_| "its comment cannot be read".to_owned())?;
        if length == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0u8; length + 1];
        H5Oget_comment(object.id(), bytes.as_mut_ptr().cast(), bytes.len());
        Ok(CStr::from_bytes_until_nul(&bytes).ok().filter(|comment| !comment.is_empty()).map(CStr::to_owned))
    })
}

/// Copies the comment of one object to another.
///
/// # Errors
/// HDF5's.
pub(crate) fn copy_comment(from: &Location, to: &Location) -> Result<()> {
    let Some(comment) = comment(from)? else { return Ok(()) };
    // SAFETY: the comment ends with a zero byte; HDF5 checks the identifier.
    #[allow(deprecated, reason = "old files have comments")]
    locked(|| unsafe { check(H5Oset_comment(to.id(), comment.as_ptr())) })
}
