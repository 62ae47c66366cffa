//! Datasets of numbers: their element type in the codec's terms, and their bytes in the file's byte order, without type conversion.

use std::ffi::c_void;

use anyhow::{Context as _, Result, anyhow, ensure};
use h5zquire::element_type::{ElementType, Fields};
use hdf5::plist::DatasetCreate;
use hdf5::{Dataset, Dataspace, Datatype, Hyperslab, SliceOrIndex};
use hdf5_sys::h5a::H5Aread;
use hdf5_sys::h5d::{H5D_fill_value_t, H5Dread};
use hdf5_sys::h5p::{H5P_DEFAULT, H5Pfill_value_defined, H5Pget_fill_value};
use quire_codec::{ByteOrder, ErrorBound, Layout, Scalar, fill_bits};

use super::links::{has_attribute, open_attribute};
use super::{check, locked, make_room};
use crate::boxes::Range;
use crate::names::Name;

/// An element type that the codec supports.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    datatype: Datatype,
    pub(crate) scalar: Scalar,
    pub(crate) byte_order: ByteOrder,
    /// Whether they are names, as HDF5's booleans are, which no bound may change.
    pub(crate) is_enumeration: bool,
}

impl Numbers {
    /// The type of a dataset.
    ///
    /// # Errors
    /// Names the type if the codec does not support it.
    pub(crate) fn of(dataset: &Dataset) -> Result<Self> {
        let datatype = dataset.dtype().context("its type is not known here")?;
        let found = element_type(&datatype)?;
        // The part after the semicolon is advice for creating a dataset, so it is cut off. The size of what is no number does not matter.
        let end = if matches!(found.fields, Fields::None) { &[" of ", ";"][..] } else { &[";"] };
        let refused = |error: quire_codec::Error| {
            let text = error.to_string();
            anyhow!("{}", &text[..end.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len())])
        };
        let (scalar, byte_order) = found.scalar().map_err(refused)?;
        Ok(Self { datatype, scalar, byte_order, is_enumeration: found.is_enumeration() })
    }

    /// The layout of a chunk with these extents.
    ///
    /// # Errors
    /// If there are more values than a stream can have.
    pub(crate) fn layout(&self, extents: &[usize]) -> Result<Layout> {
        let dims: Vec<u64> = extents.iter().map(|&extent| extent as u64).collect();
        Ok(Layout::of_chunk(self.scalar, self.byte_order, &dims)?)
    }

    /// What HDF5 puts where no values were written: the bits of the fill value, if the dataset defines one, and the bytes of an element, in the file's byte order.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn filling(&self, properties: &DatasetCreate) -> Result<(Option<u64>, Vec<u8>)> {
        let mut element = vec![0; self.scalar.element_size()];
        let mut defined = H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED;
        // SAFETY: HDF5 checks identifiers, writes one element of the type, for which there is room, and one state.
        let is_defined = locked(|| unsafe {
            check(H5Pfill_value_defined(properties.id(), &mut defined))?;
            let is_defined = defined == H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED;
            if is_defined {
                check(H5Pget_fill_value(properties.id(), self.datatype.id(), element.as_mut_ptr().cast()))?;
            }
            anyhow::Ok(is_defined)
        })?;
        // Where a dataset with a bound is created, the filter refuses a pair of two different parts. To read one, and to write one without loss,
        // either part will do.
        let exact = ErrorBound::Lossless;
        let bits = is_defined.then(|| fill_bits(&element, self.scalar, self.byte_order, exact)).transpose()?;
        Ok((bits, element))
    }

    /// Bits of the values of an attribute, converted to this type; none if there is no such attribute, or if it holds no numbers. A pair gives both its parts,
    /// but not 0, which is exact in any case.
    pub(crate) fn of_attribute(&self, dataset: &Dataset, name: &Name) -> Vec<u64> {
        // What cannot be read names nothing.
        let bytes = self.read_attribute(dataset, name).unwrap_or_default();
        let bits = |value: &[u8]| fill_bits(value, self.scalar.of_values(), self.byte_order, ErrorBound::Lossless).ok();
        let is_kept = |&bits: &u64| bits != 0 || !self.scalar.is_pair();
        bytes.chunks_exact(self.scalar.size()).filter_map(bits).filter(is_kept).collect()
    }

    /// The values of an attribute, converted to this type; none if there is no such attribute, or if they are no numbers.
    fn read_attribute(&self, dataset: &Dataset, name: &Name) -> Result<Vec<u8>> {
        if !has_attribute(dataset, name) {
            return Ok(Vec::new());
        }
        let attribute = open_attribute(dataset, name)?;
        let (datatype, count) = (attribute.dtype()?, attribute.space()?.size());
        let can_be_converted = if self.scalar.is_pair() || self.is_enumeration {
            datatype == self.datatype
        } else {
            let found = element_type(&datatype)?;
            matches!(found.fields, Fields::Integer(_) | Fields::Float(_)) && !found.is_enumeration()
        };
        let mut bytes = Vec::new();
        if can_be_converted && count > 0 {
            make_room(&mut bytes, count, self.scalar.element_size())?;
            // SAFETY: `bytes` has room for the attribute's number of values of this type, to which HDF5 converts numbers; it checks identifiers.
            locked(|| unsafe { check(H5Aread(attribute.id(), self.datatype.id(), bytes.as_mut_ptr().cast())) })?;
        }
        Ok(bytes)
    }

    /// Reads a box of the dataset into `bytes`.
    ///
    /// # Errors
    /// HDF5's errors, including those of a filter.
    pub(crate) fn read(&self, dataset: &Dataset, ranges: &[Range], bytes: &mut Vec<u8>) -> Result<()> {
        let (file, memory, count) = spaces(dataset, ranges)?;
        make_room(bytes, count, self.scalar.element_size())?;
        // SAFETY: `bytes` has room for the selection's elements of this type, which is one of plain numbers or pairs of them; HDF5 checks identifiers.
        locked(|| unsafe {
            let to = bytes.as_mut_ptr().cast();
            check(H5Dread(dataset.id(), self.datatype.id(), memory.id(), file.id(), H5P_DEFAULT, to))
        })
    }
}

/// The file dataspace with a box selected, a memory dataspace of the box's shape, and its number of values.
///
/// Both have the dataset's rank: HDF5 then copies row by row. With a memory dataspace of one axis it walks over the values one by one (1.10 to 2.0).
pub(super) fn spaces(dataset: &Dataset, ranges: &[Range]) -> Result<(Dataspace, Dataspace, usize)> {
    let slices = ranges.iter().map(|&(start, count)| SliceOrIndex::SliceCount { start, step: 1, count, block: 1 });
    let selection = Hyperslab::from(slices.collect::<Vec<_>>());
    let counts: Vec<usize> = ranges.iter().map(|&(_, count)| count).collect();
    let count = counts.iter().product();
    let space = dataset.space()?;
    // A scalar dataset has no axes to select along.
    let file = if ranges.is_empty() { space } else { space.select(selection)? };
    // HDF5 reads and writes the selected values. They are fewer than the box's if the box reaches beyond the extents.
    ensure!(file.selection_size() == count, "{ranges:?} does not lie within the dataset's extents");
    Ok((file, Dataspace::try_new(counts)?, count))
}

/// The element type that the plugin, too, finds in a datatype.
fn element_type(datatype: &Datatype) -> Result<ElementType> {
    Ok(locked(|| h5zquire::element_type(datatype.id(), H5Dread as *const c_void))?)
}
