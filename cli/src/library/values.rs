//! Values of attributes and datasets, of any type. References among them are addresses in their file and must be replaced in a copy.

use std::ffi::{CStr, c_char};
use std::slice::{from_raw_parts, from_raw_parts_mut};

use anyhow::{Result, bail};
use hdf5::plist::AttributeCreate;
use hdf5::{Attribute, Container, Dataset, Dataspace, Datatype, File, Location};
use hdf5_sys::h5a::{H5Acreate2, H5Aget_create_plist, H5Aread, H5Awrite};
use hdf5_sys::h5d::{H5Dread, H5Dvlen_reclaim, H5Dwrite};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5p::H5P_DEFAULT;
use hdf5_sys::h5r::{H5R_type_t, H5Rcreate, H5Rdereference, H5Rget_region};
use hdf5_sys::h5t::*;

use super::numbers::spaces;
use super::{check, locked, make_room, owned};
use crate::boxes::Range;
use crate::names::Name;

/// The memory layout of a type's values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Bytes that are valid in every file.
    Plain(usize),
    /// A pointer to a string.
    Text,
    /// A reference: an address in the file.
    Reference(ReferenceKind),
    /// Members of a compound, each with its offset in bytes.
    Compound(Vec<(usize, Self)>),
    /// A fixed number of elements, each of the given size in bytes.
    Array(usize, usize, Box<Self>),
    /// A count and a pointer to elements of the given size in bytes.
    Sequence(usize, Box<Self>),
}

/// The kinds of references, with HDF5's numbers for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum ReferenceKind {
    Object = 0,
    Region = 1,
}

impl ReferenceKind {
    /// Bytes in memory.
    fn size(self) -> usize {
        if self == Self::Object { 8 } else { 12 }
    }

    /// HDF5's enum, in which the names are others from HDF5 1.12 on.
    fn number(self) -> H5R_type_t {
        // SAFETY: the enum has these two numbers in every version, and is as large as a C int.
        unsafe { std::mem::transmute(self as i32) }
    }
}

impl Form {
    /// The form of a type.
    ///
    /// # Errors
    /// For a type of reference that came after HDF5 1.10, and HDF5's.
    fn of(datatype: hid_t) -> Result<Self> {
        // SAFETY: HDF5 checks identifiers; those that it makes are taken over.
        locked(|| unsafe {
            let size = H5Tget_size(datatype);
            let base = || -> Result<Datatype> { owned!(H5Tget_super(datatype)) };
            Ok(match H5Tget_class(datatype) {
                H5T_class_t::H5T_REFERENCE if H5Tequal(datatype, *H5T_STD_REF_OBJ) > 0 => Self::Reference(ReferenceKind::Object),
                H5T_class_t::H5T_REFERENCE if H5Tequal(datatype, *H5T_STD_REF_DSETREG) > 0 => {
                    Self::Reference(ReferenceKind::Region)
                }
                H5T_class_t::H5T_REFERENCE => {
                    bail!("it holds references of a kind that came with HDF5 1.12: they cannot be copied");
                }
                H5T_class_t::H5T_STRING if H5Tis_variable_str(datatype) > 0 => Self::Text,
                H5T_class_t::H5T_VLEN => {
                    let base = base()?;
                    Self::Sequence(H5Tget_size(base.id()), Box::new(Self::of(base.id())?))
                }
                H5T_class_t::H5T_ARRAY => {
                    let base = base()?;
                    let each = H5Tget_size(base.id());
                    match Self::of(base.id())? {
                        Self::Plain(_) => Self::Plain(size),
                        form => Self::Array(size / each, each, Box::new(form)),
                    }
                }
                H5T_class_t::H5T_COMPOUND => {
                    let count = hdf5::h5check(H5Tget_nmembers(datatype))?;
                    let member = |number: u32| -> Result<(usize, Self)> {
                        let member: Datatype = owned!(H5Tget_member_type(datatype, number))?;
                        Ok((H5Tget_member_offset(datatype, number), Self::of(member.id())?))
                    };
                    Self::Compound((0..count as u32).map(member).collect::<Result<_>>()?)
                }
                _ => Self::Plain(size),
            })
        })
    }

    /// Whether a value is its bytes alone.
    fn is_plain(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Compound(members) => members.iter().all(|(_, form)| form.is_plain()),
            _ => false,
        }
    }

    /// Calls `see` for every elementary part of a value.
    ///
    /// # Safety
    /// `value` must point to a value of this form that HDF5 has read.
    unsafe fn visit(&self, value: *mut u8, see: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        // SAFETY: the caller's promise covers the value's bytes, and where there are pointers in it, what HDF5 has made them lead to. They may stand
        // at any address.
        unsafe {
            match self {
                Self::Plain(size) => see(Part::Bytes(from_raw_parts(value, *size))),
                Self::Text => {
                    let text = value.cast::<*const c_char>().read_unaligned();
                    see(Part::Text(if text.is_null() { None } else { Some(CStr::from_ptr(text)) }))
                }
                Self::Reference(kind) => see(Part::Reference(*kind, from_raw_parts_mut(value, kind.size()))),
                Self::Compound(members) => members.iter().try_for_each(|(at, form)| form.visit(value.add(*at), see)),
                Self::Array(count, each, form) => (0..*count).try_for_each(|number| form.visit(value.add(number * each), see)),
                Self::Sequence(each, form) => {
                    let sequence = value.cast::<hvl_t>().read_unaligned();
                    see(Part::Length(sequence.len))?;
                    (0..sequence.len).try_for_each(|number| form.visit(sequence.p.cast::<u8>().add(number * each), see))
                }
            }
        }
    }
}

/// A part of a value.
enum Part<'a> {
    Bytes(&'a [u8]),
    Text(Option<&'a CStr>),
    /// The number of elements of a sequence; they follow.
    Length(usize),
    Reference(ReferenceKind, &'a mut [u8]),
}

/// Whether values of a type are plain bytes that are valid in every file.
///
/// # Errors
/// For a type of reference that came after HDF5 1.10, and HDF5's.
pub(crate) fn is_plain(datatype: &Datatype) -> Result<bool> {
    Ok(Form::of(datatype.id())?.is_plain())
}

/// Values of a type, read.
pub(crate) struct Values {
    bytes: Vec<u8>,
    form: Form,
    datatype: Datatype,
    /// As many as there are values; none where there are none.
    space: Option<Dataspace>,
    each: usize,
}

impl Drop for Values {
    fn drop(&mut self) {
        if let Some(space) = self.space.as_ref().filter(|_| !self.form.is_plain()) {
            // SAFETY: HDF5 has read the values into `bytes` by this type, and so many; what it has allocated for them is given back once.
            #[allow(deprecated, reason = "HDF5 1.10 has no other")]
            locked(|| unsafe { H5Dvlen_reclaim(self.datatype.id(), space.id(), H5P_DEFAULT, self.bytes.as_mut_ptr().cast()) });
        }
    }
}

impl Values {
    /// An attribute's.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn of_attribute(attribute: &Attribute) -> Result<Self> {
        let space = attribute.space()?;
        // SAFETY: `read` makes room for the attribute's values by the type that HDF5 is told.
        Self::read(attribute, space, |datatype, _, to| unsafe { check(H5Aread(attribute.id(), datatype, to)) })
    }

    /// Those of a box of a dataset; of a dataset without axes, `ranges` is empty.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn of_box(dataset: &Dataset, ranges: &[Range]) -> Result<Self> {
        let (file, memory, _) = spaces(dataset, ranges)?;
        // SAFETY: `read` makes room for as many values as are selected, by the type that HDF5 is told.
        Self::read(dataset, memory, |datatype, memory, to| unsafe {
            check(H5Dread(dataset.id(), datatype, memory, file.id(), H5P_DEFAULT, to))
        })
    }

    fn read(
        container: &Container,
        space: Dataspace,
        read: impl FnOnce(hid_t, hid_t, *mut std::ffi::c_void) -> Result<()>,
    ) -> Result<Self> {
        let (datatype, count) = (container.dtype()?, space.size());
        let form = Form::of(datatype.id())?;
        // SAFETY: HDF5 checks the identifier.
        let each = locked(|| unsafe { H5Tget_size(datatype.id()) });
        let mut bytes = Vec::new();
        make_room(&mut bytes, count, each)?;
        let mut values = Self { bytes, form, datatype, space: None, each };
        if count > 0 {
            locked(|| read(values.datatype.id(), space.id(), values.bytes.as_mut_ptr().cast()))?;
            values.space = Some(space);
        }
        Ok(values)
    }

    /// Calls `see` for every elementary part of every value.
    ///
    /// # Errors
    /// Those of `see`.
    fn visit(&mut self, mut see: impl FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        if let Form::Plain(_) = self.form {
            return see(Part::Bytes(&self.bytes));
        }
        let Self { bytes, form, each, .. } = self;
        // SAFETY: HDF5 has read values of this form, each of so many bytes, into `bytes`.
        bytes.chunks_exact_mut(*each).try_for_each(|value| unsafe { form.visit(value.as_mut_ptr(), &mut see) })
    }

    /// The values as bytes, without addresses in memory. `tell` adds where a reference leads.
    ///
    /// # Errors
    /// Those of `tell`.
    pub(crate) fn contents(mut self, mut tell: impl FnMut(ReferenceKind, &[u8], &mut Vec<u8>) -> Result<()>) -> Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.visit(|part| {
            match part {
                Part::Bytes(bytes) => contents.extend_from_slice(bytes),
                Part::Text(None) => contents.push(0),
                Part::Text(Some(text)) => {
                    contents.push(1);
                    contents.extend_from_slice(text.to_bytes_with_nul());
                }
                Part::Length(length) => contents.extend_from_slice(&length.to_le_bytes()),
                Part::Reference(kind, bytes) => tell(kind, bytes, &mut contents)?,
            }
            Ok(())
        })?;
        Ok(contents)
    }

    /// Replaces each reference by one to the object's copy in another file. `find` gives the copy's path, or `None` if the object is gone. Returns the number
    /// of references to objects that are gone.
    ///
    /// # Errors
    /// HDF5's, and those of `find`.
    pub(crate) fn translate(&mut self, from: &File, to: &File, mut find: impl FnMut(&Location) -> Option<Name>) -> Result<usize> {
        let mut gone = 0;
        self.visit(|part| {
            let Part::Reference(kind, bytes) = part else { return Ok(()) };
            if bytes.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
            let found = follow(from, kind, bytes).and_then(|(object, region)| Some((find(&object)?, region)));
            bytes.fill(0);
            let Some((path, region)) = found else {
                gone += 1;
                return Ok(());
            };
            let region = region.as_ref().map_or(-1, |region| region.id());
            // SAFETY: the bytes are those of a reference of this kind; the path ends with a zero byte; HDF5 checks identifiers.
            locked(|| unsafe {
                check(H5Rcreate(bytes.as_mut_ptr().cast(), to.id(), path.as_c().as_ptr(), kind.number(), region))
            })
        })?;
        Ok(gone)
    }

    /// Writes all values to an attribute of the same type and space.
    ///
    /// # Errors
    /// HDF5's.
    ///
    /// # Panics
    /// If it has not as many values.
    pub(crate) fn write_attribute(&self, attribute: &Attribute) -> Result<()> {
        assert_eq!(
            attribute.space().map(|space| space.size()).ok(),
            Some(self.bytes.len() / self.each),
            "values of an attribute"
        );
        if self.space.is_none() {
            return Ok(());
        }
        // SAFETY: the bytes are those of the attribute's number of values of this type, as was just checked; HDF5 checks identifiers.
        locked(|| unsafe { check(H5Awrite(attribute.id(), self.datatype.id(), self.bytes.as_ptr().cast())) })
    }

    /// Writes all values to a box of a dataset of the same type.
    ///
    /// # Errors
    /// HDF5's.
    ///
    /// # Panics
    /// If the box has not as many values.
    pub(crate) fn write_box(&self, dataset: &Dataset, ranges: &[Range]) -> Result<()> {
        let (file, _, count) = spaces(dataset, ranges)?;
        assert_eq!(self.bytes.len(), count * self.each, "values of a box");
        let Some(memory) = &self.space else { return Ok(()) };
        // SAFETY: the bytes are those of the box's number of values of this type, as was just checked; HDF5 checks identifiers.
        locked(|| unsafe {
            let from = self.bytes.as_ptr().cast();
            check(H5Dwrite(dataset.id(), self.datatype.id(), memory.id(), file.id(), H5P_DEFAULT, from))
        })
    }
}

/// The object that a reference leads to, and the selected region, if any; `None` if the object is gone.
pub(crate) fn follow(file: &File, kind: ReferenceKind, reference: &[u8]) -> Option<(Location, Option<Dataspace>)> {
    if reference.len() != kind.size() {
        return None;
    }
    let bytes = reference.as_ptr().cast();
    // SAFETY: the bytes are those of a reference of this kind; HDF5 checks identifiers; those that it makes are taken over.
    locked(|| unsafe {
        let object: Location = owned!(H5Rdereference(file.id(), H5P_DEFAULT, kind.number(), bytes)).ok()?;
        let region = match kind {
            ReferenceKind::Object => None,
            ReferenceKind::Region => Some(owned!(H5Rget_region(file.id(), kind.number(), bytes)).ok()?),
        };
        Some((object, region))
    })
}

/// A datatype that belongs to no file.
///
/// # Errors
/// HDF5's.
pub(crate) fn transient(datatype: &Datatype) -> Result<Datatype> {
    // SAFETY: HDF5 checks the identifier; the new one is taken over.
    locked(|| unsafe { owned!(H5Tcopy(datatype.id())) })
}

/// Makes an attribute like another on an object of another file, with no values yet.
///
/// # Errors
/// HDF5's.
pub(crate) fn create_attribute(like: &Attribute, name: &Name, datatype: &Datatype, on: &Location) -> Result<Attribute> {
    let space = like.space()?;
    // SAFETY: the name ends with a zero byte; HDF5 checks identifiers; those that it makes are taken over.
    locked(|| unsafe {
        let properties: AttributeCreate = owned!(H5Aget_create_plist(like.id()))?;
        owned!(H5Acreate2(on.id(), name.as_c().as_ptr(), datatype.id(), space.id(), properties.id(), H5P_DEFAULT))
    })
}
