//! The calls on objects, links and properties that an exact copy needs and the crate `hdf5` lacks.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::MaybeUninit;

use anyhow::{Context as _, Result, ensure};
use hdf5::plist::{DatasetCreate, FileCreate, GroupCreate, LinkCreate, ObjectCopy, PropertyList};
use hdf5::{Dataset, Dataspace, Datatype, File, Group, Location};
use hdf5_sys::h5d::{H5D_alloc_time_t, H5Dcreate2, H5Dget_create_plist};
use hdf5_sys::h5f::{H5F_info2_t, H5Fget_info2};
use hdf5_sys::h5g::{H5Gcreate2, H5Gget_create_plist};
use hdf5_sys::h5i::{H5I_type_t, hid_t};
use hdf5_sys::h5l::{H5L_info1_t, H5L_type_t, H5Lcopy, H5Lcreate_hard, H5Lget_info1, H5Lget_val};
use hdf5_sys::h5o::{H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG, H5O_COPY_WITHOUT_ATTR_FLAG, H5Ocopy};
use hdf5_sys::h5p::*;
use hdf5_sys::h5t::H5Tget_create_plist;
use hdf5_sys::h5z::{H5Z_FILTER_ALL, H5Z_FLAG_MANDATORY};

use super::links::Link;
use super::{check, locked, make_room, owned};
use crate::names::Name;

/// Makes a group with the properties of another.
///
/// # Errors
/// HDF5's.
pub(crate) fn create_group(file: &File, path: &Name, link: &LinkCreate, like: &Group) -> Result<Group> {
    let (from, to) = (like.gcpl()?, GroupCreate::build().finish()?);
    copy_group_properties(from.id(), to.id())?;
    // SAFETY: the path ends with a zero byte; HDF5 checks identifiers; the new one belongs to the value that comes back.
    locked(|| unsafe { owned!(H5Gcreate2(file.id(), path.as_c().as_ptr(), link.id(), to.id(), H5P_DEFAULT)) })
}

/// Copies a group's properties of links and attributes one by one. The whole property list is not copied, since it may hold the address of a heap of links,
/// which is invalid in another file.
fn copy_group_properties(from: hid_t, to: hid_t) -> Result<()> {
    let (mut one, mut other): (c_uint, c_uint) = (0, 0);
    let mut bytes = 0;
    // SAFETY: HDF5 checks identifiers and writes one number to each pointer.
    locked(|| unsafe {
        check(H5Pget_link_creation_order(from, &mut one))?;
        check(H5Pset_link_creation_order(to, one))?;
        check(H5Pget_attr_creation_order(from, &mut one))?;
        check(H5Pset_attr_creation_order(to, one))?;
        check(H5Pget_link_phase_change(from, &mut one, &mut other))?;
        check(H5Pset_link_phase_change(to, one, other))?;
        check(H5Pget_attr_phase_change(from, &mut one, &mut other))?;
        check(H5Pset_attr_phase_change(to, one, other))?;
        check(H5Pget_est_link_info(from, &mut one, &mut other))?;
        check(H5Pset_est_link_info(to, one, other))?;
        check(H5Pget_local_heap_size_hint(from, &mut bytes))?;
        check(H5Pset_local_heap_size_hint(to, bytes))
    })
}

/// Creates a dataset. A committed `datatype` must belong to the same file.
///
/// # Errors
/// HDF5's, and those of a filter that refuses the dataset.
pub(crate) fn create_dataset(
    file: &File,
    path: &Name,
    link: &LinkCreate,
    datatype: &Datatype,
    space: &Dataspace,
    properties: &DatasetCreate,
) -> Result<Dataset> {
    let path = path.as_c().as_ptr();
    // SAFETY: as in `create_group`.
    locked(|| unsafe { owned!(H5Dcreate2(file.id(), path, datatype.id(), space.id(), link.id(), properties.id(), H5P_DEFAULT)) })
}

/// Copies an object without its attributes; the chunks of a dataset are copied without decoding. `committed` is the path of its datatype in the other file.
///
/// # Errors
/// HDF5's.
pub(crate) fn copy(from: &Location, to: &File, path: &Name, link: &LinkCreate, committed: Option<&Name>) -> Result<()> {
    let properties = ObjectCopy::build().finish()?;
    let mut flags = H5O_COPY_WITHOUT_ATTR_FLAG;
    // SAFETY: names end with a zero byte; HDF5 checks identifiers.
    locked(|| unsafe {
        if let Some(path) = committed {
            flags |= H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG;
            check(H5Padd_merge_committed_dtype_path(properties.id(), path.as_c().as_ptr()))?;
        }
        check(H5Pset_copy_object(properties.id(), flags))?;
        check(H5Ocopy(from.id(), c".".as_ptr(), to.id(), path.as_c().as_ptr(), properties.id(), link.id()))
    })
}

/// Copies a soft or external link to the same path of another file.
///
/// # Errors
/// HDF5's errors, and links of a kind that a program has defined.
pub(crate) fn copy_link(link: &Link, from: &File, to: &File, properties: &LinkCreate) -> Result<()> {
    let (kind, path) = (link.kind, link.path.as_c().as_ptr());
    let is_known = [H5L_type_t::H5L_TYPE_SOFT, H5L_type_t::H5L_TYPE_EXTERNAL].iter().any(|&known| known as c_int == kind);
    ensure!(is_known, "the link is of kind {kind}, which a program has defined for itself: it cannot be copied");
    // SAFETY: the path ends with a zero byte; HDF5 checks identifiers.
    locked(|| unsafe { check(H5Lcopy(from.id(), path, to.id(), path, properties.id(), H5P_DEFAULT)) })
}

/// The target of a soft or external link, in HDF5's form.
///
/// # Errors
/// HDF5's.
pub(crate) fn target(file: &File, path: &Name) -> Result<Vec<u8>> {
    let (file, path) = (file.id(), path.as_c().as_ptr());
    let mut info = MaybeUninit::<H5L_info1_t>::uninit();
    // SAFETY: the path ends with a zero byte; HDF5 checks the identifier and fills the whole of `info`, which has a length for such links.
    let length = locked(|| unsafe {
        check(H5Lget_info1(file, path, info.as_mut_ptr(), H5P_DEFAULT))?;
        anyhow::Ok((&raw const (*info.as_ptr()).u).cast::<usize>().read())
    })?;
    let mut value = Vec::new();
    make_room(&mut value, length, 1)?;
    // SAFETY: as above; HDF5 writes no more bytes than it is told there are.
    locked(|| unsafe { check(H5Lget_val(file, path, value.as_mut_ptr().cast(), value.len(), H5P_DEFAULT)) })?;
    Ok(value)
}

/// Creates another hard link to the object with the absolute path `object`.
///
/// # Errors
/// HDF5's.
pub(crate) fn link_again(file: &File, object: &Name, path: &Name, properties: &LinkCreate) -> Result<()> {
    let (object, path) = (object.as_c().as_ptr(), path.as_c().as_ptr());
    // SAFETY: both paths end with a zero byte; HDF5 checks identifiers.
    locked(|| unsafe { check(H5Lcreate_hard(file.id(), object, file.id(), path, properties.id(), H5P_DEFAULT)) })
}

/// Version of a file's superblock. Files with version 2 and above may contain features of HDF5 1.8.
///
/// # Errors
/// HDF5's.
pub(crate) fn superblock_version(file: &File) -> Result<u32> {
    let mut info = H5F_info2_t::default();
    // SAFETY: HDF5 checks the identifier and fills the structure.
    locked(|| unsafe { check(H5Fget_info2(file.id(), &mut info)) })?;
    Ok(info.super_.version)
}

/// File creation properties like those of another file. HDF5 leaves the root group's properties out, so this function adds them.
///
/// # Errors
/// HDF5's.
pub(crate) fn file_properties(file: &File) -> Result<FileCreate> {
    let properties = file.fcpl()?;
    copy_group_properties(file.group("/")?.gcpl()?.id(), properties.id())?;
    Ok(properties)
}

/// Sets dataset creation properties to chunks of the given shape and this filter alone, with `words` as its `cd_values`. The filter is mandatory: HDF5
/// must not store chunks without it where it does not find the plugin. Chunks are allocated when they are written, so that none is compressed twice.
///
/// # Errors
/// HDF5's.
pub(crate) fn compress(properties: &DatasetCreate, chunk: &[usize], words: &[u32]) -> Result<()> {
    let sides: Vec<u64> = chunk.iter().map(|&side| side as u64).collect();
    let id = properties.id();
    // SAFETY: `sides` and `words` have as many numbers as HDF5 is told; it checks the identifier.
    locked(|| unsafe {
        check(H5Pset_chunk(id, sides.len() as c_int, sides.as_ptr()))?;
        // Partial chunks are compressed like others. HDF5 takes a newer form of layout as soon as this is set at all, which readers before 1.10 do not know.
        let mut left_out = 0;
        check(H5Pget_chunk_opts(id, &mut left_out))?;
        if left_out != 0 {
            check(H5Pset_chunk_opts(id, 0))?;
        }
        check(H5Premove_filter(id, H5Z_FILTER_ALL))?;
        check(H5Pset_alloc_time(id, H5D_alloc_time_t::H5D_ALLOC_TIME_INCR))?;
        check(H5Pset_filter(id, h5zquire::FILTER_ID, H5Z_FLAG_MANDATORY, words.len(), words.as_ptr()))
    })
}

/// Files and paths of a virtual dataset's sources, as it names them.
///
/// # Errors
/// HDF5's.
pub(crate) fn virtual_sources(properties: &DatasetCreate) -> Result<Vec<(Name, Name)>> {
    type Text = unsafe extern "C" fn(hid_t, usize, *mut c_char, usize) -> isize;
    let text = |function: Text, index| -> Result<Name> {
        // SAFETY: HDF5 checks the identifier and the index, and writes no text where there is no room.
        let length = unsafe { function(properties.id(), index, std::ptr::null_mut(), 0) };
        let length = usize::try_from(length).ok().context("HDF5 does not name the sources of a virtual dataset")?;
        let mut bytes = vec![0u8; length + 1];
        // SAFETY: as above, and HDF5 writes no more bytes than there is room for, the last of them 0.
        unsafe { function(properties.id(), index, bytes.as_mut_ptr().cast(), bytes.len()) };
        Ok(Name::new(bytes))
    };
    locked(|| {
        let mut count = 0;
        // SAFETY: HDF5 checks the identifier and writes one number.
        check(unsafe { H5Pget_virtual_count(properties.id(), &mut count) })?;
        (0..count).map(|index| Ok((text(H5Pget_virtual_filename, index)?, text(H5Pget_virtual_dsetname, index)?))).collect()
    })
}

/// Whether a dataset stores its values in other files.
pub(crate) fn is_external(properties: &DatasetCreate) -> bool {
    // SAFETY: HDF5 checks the identifier.
    locked(|| unsafe { H5Pget_external_count(properties.id()) }) > 0
}

/// Whether an object records the creation order of its attributes. If not, HDF5 lists them in an arbitrary order, which a copy need not keep.
///
/// # Errors
/// HDF5's.
pub(crate) fn knows_order_of_attributes(object: &Location) -> Result<bool> {
    let mut flags: c_uint = 0;
    // SAFETY: HDF5 checks identifiers and writes one number; the list that it makes is taken over.
    locked(|| unsafe {
        let id = object.id();
        let list = match object.id_type() {
            H5I_type_t::H5I_DATASET => H5Dget_create_plist(id),
            H5I_type_t::H5I_DATATYPE => H5Tget_create_plist(id),
            _ => H5Gget_create_plist(id),
        };
        let list: PropertyList = owned!(list)?;
        check(H5Pget_attr_creation_order(list.id(), &mut flags))
    })?;
    Ok(flags != 0)
}
