//! Files, links and attributes with names of any bytes. The crate `hdf5` handles only UTF-8 names and replaces other bytes.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::path::Path;

use anyhow::{Context as _, Result};
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
use hdf5_sys::h5o::{H5O_info1_t, H5O_type_t, H5Oget_comment, H5Oopen};
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5t::H5T_cset_t;

use super::objects::knows_order_of_attributes;
use super::{check, locked, owned};
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

/// Opens a file for reading, or for reading and writing.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_file(path: &Path, is_written: bool) -> Result<File> {
    let (name, access) = (Name::from(path), FileAccess::build().finish()?);
    let flags = if is_written { H5F_ACC_RDWR } else { H5F_ACC_RDONLY };
    // SAFETY: the name ends with a zero byte; HDF5 checks identifiers; the new one belongs to the value that comes back.
    locked(|| unsafe { owned!(H5Fopen(name.as_c().as_ptr(), flags, access.id())) })
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

/// The links below a group, and the objects that they lead to. The links of a group follow the first link to it.
pub(crate) struct Tree {
    pub(crate) links: Vec<Link>,
    /// The first path of each object, the group among them.
    pub(crate) paths: HashMap<Token, Name>,
}

/// A link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) path: Name,
    /// HDF5's number for the kind of link. Programs can define kinds that HDF5 itself does not have.
    pub(crate) kind: c_int,
    /// The encoding of its name.
    pub(crate) encoding: CharEncoding,
    /// The object that a hard link leads to.
    pub(crate) object: Option<(ObjectKind, Token)>,
}

impl Tree {
    /// The links below a group. `path` is the group's path; the root group's is empty.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn below(group: &Group, path: &Name) -> Result<Self> {
        let first = if path.as_bytes().is_empty() { Name::from("/") } else { path.clone() };
        let mut tree = Self { links: Vec::new(), paths: HashMap::from([(token(group)?, first)]) };
        tree.add(group, path)?;
        Ok(tree)
    }

    fn add(&mut self, group: &Group, path: &Name) -> Result<()> {
        for (name, kind, encoding) in names_of_links(group)? {
            let path = path.below(&name);
            let is_hard = kind == H5L_type_t::H5L_TYPE_HARD as c_int;
            let object = is_hard.then(|| object_by_name(group, &name)).transpose()?;
            self.links.push(Link { path: path.clone(), kind, encoding, object });
            // Links may form cycles.
            if let Some((kind, token)) = object
                && !self.paths.contains_key(&token)
            {
                self.paths.insert(token, path.clone());
                if kind == ObjectKind::Group {
                    self.add(&open_group(group, &name)?, &path)?;
                }
            }
        }
        Ok(())
    }

    /// The objects below the group, each with its first path.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&Name, ObjectKind, Token)> {
        let objects = self.links.iter().filter_map(|link| link.object.map(|(kind, token)| (&link.path, kind, token)));
        objects.filter(|(path, _, token)| self.paths.get(token) == Some(path))
    }
}

/// Name, kind and encoding of a group's links, in creation order if the file records it, otherwise by name.
fn names_of_links(group: &Group) -> Result<Vec<(CString, c_int, CharEncoding)>> {
    type Names = Vec<(CString, c_int, CharEncoding)>;
    unsafe extern "C" fn push(_: hid_t, name: *const c_char, info: *const H5L_info1_t, names: *mut c_void) -> herr_t {
        // SAFETY: HDF5 hands on the pointer to the list, which nothing else uses, a name that ends with a zero byte, and a structure that it has filled. Enums
        // are read as the numbers that they are, since a file may have others.
        unsafe {
            let (kind, set) =
                ((&raw const (*info).type_).cast::<c_int>().read(), (&raw const (*info).cset).cast::<c_int>().read());
            let encoding = if set == H5T_cset_t::H5T_CSET_UTF8 as c_int { CharEncoding::Utf8 } else { CharEncoding::Ascii };
            (*names.cast::<Names>()).push((CStr::from_ptr(name).to_owned(), kind, encoding));
        }
        0
    }
    let in_order = |index: H5_index_t| {
        let (mut names, mut position, order) = (Names::new(), 0, H5_iter_order_t::H5_ITER_INC);
        // SAFETY: HDF5 checks the identifier, and calls `push` with the list that is there until the call is over.
        locked(|| unsafe { check(H5Literate1(group.id(), index, order, &mut position, Some(push), (&raw mut names).cast())) })?;
        Ok(names)
    };
    in_order(H5_index_t::H5_INDEX_CRT_ORDER).or_else(|_: anyhow::Error| in_order(H5_index_t::H5_INDEX_NAME))
}

/// Names of an object's attributes, in creation order if the object records it, otherwise by name.
///
/// # Errors
/// HDF5's.
pub(crate) fn attribute_names(object: &Location) -> Result<Vec<Name>> {
    unsafe extern "C" fn push(_: hid_t, name: *const c_char, _: *const H5A_info_t, names: *mut c_void) -> herr_t {
        // SAFETY: HDF5 hands on the pointer to the list, which nothing else uses, and a name that ends with a zero byte.
        unsafe { (*names.cast::<Vec<Name>>()).push(Name::new(CStr::from_ptr(name).to_bytes())) };
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
pub(crate) enum ObjectKind {
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
pub(crate) fn object_by_name(group: &Group, name: &CStr) -> Result<(ObjectKind, Token)> {
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
fn kind_and_token(info: &MaybeUninit<H5O_info1_t>) -> (ObjectKind, Token) {
    const GROUP: c_int = H5O_type_t::H5O_TYPE_GROUP as c_int;
    const DATASET: c_int = H5O_type_t::H5O_TYPE_DATASET as c_int;
    const DATATYPE: c_int = H5O_type_t::H5O_TYPE_NAMED_DATATYPE as c_int;
    let info = info.as_ptr();
    // SAFETY: HDF5 has filled both members.
    let (kind, token) = unsafe { ((&raw const (*info).type_).cast::<c_int>().read(), (&raw const (*info).addr).read()) };
    let kind = match kind {
        GROUP => ObjectKind::Group,
        DATASET => ObjectKind::Dataset,
        DATATYPE => ObjectKind::Datatype,
        _ => ObjectKind::Other,
    };
    (kind, token)
}

/// Opens an object.
///
/// # Errors
/// HDF5's.
pub(crate) fn open_object(file: &File, path: &Name) -> Result<Location> {
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Oopen(file.id(), path.as_c().as_ptr(), H5P_DEFAULT)) })
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
pub(crate) fn open_dataset(file: &File, path: &Name, access: Option<&DatasetAccess>) -> Result<Dataset> {
    let access = access.map_or(H5P_DEFAULT, |access| access.id());
    // SAFETY: as in `open_file`.
    locked(|| unsafe { owned!(H5Dopen2(file.id(), path.as_c().as_ptr(), access)) })
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
        let length = usize::try_from(H5Oget_comment(object.id(), std::ptr::null_mut(), 0));
        let length = length.ok().context("its comment cannot be read")?;
        let mut bytes = vec![0u8; length + 1];
        if length > 0 {
            H5Oget_comment(object.id(), bytes.as_mut_ptr().cast(), bytes.len());
        }
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
