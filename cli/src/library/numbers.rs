//! Datasets of numbers: their element type in the codec's terms, and their bytes in the file's byte order, without type conversion.

use h5zquire::element_type::{ElementType, Fields, FloatFields, IntegerFields};
use hdf5::plist::DatasetCreate;
use hdf5::{Dataset, Dataspace, Datatype, Hyperslab, SliceOrIndex};
use hdf5_sys::h5a::H5Aread;
use hdf5_sys::h5d::{H5D_fill_value_t, H5Dread};
use hdf5_sys::h5p::{H5P_DEFAULT, H5Pfill_value_defined, H5Pget_fill_value};
use hdf5_sys::h5t::{
    H5Tget_class, H5Tget_ebias, H5Tget_fields, H5Tget_norm, H5Tget_offset, H5Tget_order, H5Tget_precision, H5Tget_sign,
    H5Tget_size,
};
use quire_codec::{ByteOrder, Scalar};

use super::links::open_attribute;
use super::{Result, check, locked, make_room, message};
use crate::names::Name;

/// A box of a dataset: start and count along each axis.
pub(crate) type Ranges = [(usize, usize)];

/// An element type that the codec supports.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    datatype: Datatype,
    pub(crate) scalar: Scalar,
    pub(crate) byte_order: ByteOrder,
}

impl Numbers {
    /// The type of a dataset.
    ///
    /// # Errors
    /// Names the type if the codec does not support it.
    pub(crate) fn of(dataset: &Dataset) -> Result<Self> {
        let datatype = dataset.dtype().map_err(|error| format!("its type is not known here: {}", message(error)))?;
        let found = element_type(&datatype)?;
        // The part after the semicolon is advice for creating a dataset, so it is cut off. The size of what is no number does not matter.
        let end = if matches!(found.fields, Fields::None) { &[';', ','][..] } else { &[';'] };
        let refused = |error: quire_codec::Error| error.to_string().split(end).next().unwrap_or_default().to_owned();
        let (scalar, byte_order) = found.scalar().map_err(refused)?;
        Ok(Self { datatype, scalar, byte_order })
    }

    /// Bits of the fill value, if the dataset defines one.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn fill_value(&self, properties: &DatasetCreate) -> Result<Option<u64>> {
        let mut bytes = [0; 8];
        let mut defined = H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED;
        // SAFETY: HDF5 checks identifiers, writes one value of the type, of at most eight bytes, and one state.
        locked(|| unsafe {
            check(H5Pfill_value_defined(properties.id(), &mut defined))?;
            if defined != H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED {
                return Ok(None);
            }
            check(H5Pget_fill_value(properties.id(), self.datatype.id(), bytes.as_mut_ptr().cast()))?;
            if self.byte_order == ByteOrder::Big {
                bytes[..self.scalar.size()].reverse();
            }
            Ok(Some(u64::from_le_bytes(bytes)))
        })
    }

    /// Bits of the values of an attribute, converted to this type; none if there is no such attribute, or if it holds no numbers.
    pub(crate) fn of_attribute(&self, dataset: &Dataset, name: &Name) -> Vec<u64> {
        let Ok(attribute) = open_attribute(dataset, name) else { return Vec::new() };
        let (Ok(datatype), Ok(space)) = (attribute.dtype(), attribute.space()) else { return Vec::new() };
        // SAFETY: HDF5 checks the identifier.
        let class = locked(|| unsafe { H5Tget_class(datatype.id()) }) as i32;
        let mut bytes = Vec::new();
        if !(ElementType::is_integer_class(class) || ElementType::is_float_class(class))
            || space.size() == 0
            || make_room(&mut bytes, space.size(), self.scalar.size()).is_err()
        {
            return Vec::new();
        }
        // SAFETY: `bytes` has room for the attribute's number of values of this type, to which HDF5 converts numbers; it checks identifiers.
        let read = locked(|| unsafe { check(H5Aread(attribute.id(), self.datatype.id(), bytes.as_mut_ptr().cast())) });
        let bits = |value: &[u8]| {
            let mut bits = [0; 8];
            bits[..value.len()].copy_from_slice(value);
            if self.byte_order == ByteOrder::Big {
                bits[..value.len()].reverse();
            }
            u64::from_le_bytes(bits)
        };
        if read.is_ok() { bytes.chunks_exact(self.scalar.size()).map(bits).collect() } else { Vec::new() }
    }

    /// A value in the file's byte order, from its bits.
    pub(crate) fn bytes_of(&self, bits: u64) -> Vec<u8> {
        let mut bytes = bits.to_le_bytes()[..self.scalar.size()].to_vec();
        if self.byte_order == ByteOrder::Big {
            bytes.reverse();
        }
        bytes
    }

    /// Reads a box of the dataset into `bytes`.
    ///
    /// # Errors
    /// HDF5's errors, including those of a filter.
    pub(crate) fn read(&self, dataset: &Dataset, ranges: &Ranges, bytes: &mut Vec<u8>) -> Result<()> {
        let (file, memory, count) = spaces(dataset, ranges)?;
        make_room(bytes, count, self.scalar.size())?;
        // SAFETY: `bytes` has room for the selection's values of this type, which is one of plain numbers; HDF5 checks identifiers.
        locked(|| unsafe {
            let to = bytes.as_mut_ptr().cast();
            check(H5Dread(dataset.id(), self.datatype.id(), memory.id(), file.id(), H5P_DEFAULT, to))
        })
    }
}

/// The file dataspace with a box selected, a memory dataspace of the box's shape, and its number of values.
///
/// Both have the dataset's rank: HDF5 then copies row by row. With a memory dataspace of one axis it walks over the values one by one (1.10 to 2.0).
pub(super) fn spaces(dataset: &Dataset, ranges: &Ranges) -> Result<(Dataspace, Dataspace, usize)> {
    let slices = ranges.iter().map(|&(start, count)| SliceOrIndex::SliceCount { start, step: 1, count, block: 1 });
    let selection = Hyperslab::from(slices.collect::<Vec<_>>());
    let count = ranges.iter().map(|&(_, count)| count).product();
    // A scalar dataset has no axes to select along.
    let selected = dataset.space().and_then(|space| if ranges.is_empty() { Ok(space) } else { space.select(selection) });
    let file = selected.map_err(message)?;
    // HDF5 reads and writes the selected values. They are fewer than the box's if the box reaches beyond the extents.
    if file.selection_size() != count {
        return Err(format!("{ranges:?} does not lie within the dataset's extents"));
    }
    let counts: Vec<usize> = ranges.iter().map(|&(_, count)| count).collect();
    let memory = Dataspace::try_new(counts).map_err(message)?;
    Ok((file, memory, count))
}

/// The properties of a datatype from which the plugin, too, determines the element type.
fn element_type(datatype: &Datatype) -> Result<ElementType> {
    let id = datatype.id();
    // SAFETY: HDF5 checks identifiers, and writes one number to each pointer.
    locked(|| unsafe {
        let (class, size, order) = (H5Tget_class(id) as i32, H5Tget_size(id), H5Tget_order as unsafe extern "C" fn(_) -> _);
        let fields = if ElementType::is_integer_class(class) {
            let (precision, offset, sign) = (H5Tget_precision(id), H5Tget_offset(id), H5Tget_sign(id) as i32);
            Fields::Integer(IntegerFields { precision, offset, sign })
        } else if ElementType::is_float_class(class) {
            let (mut sign_at, mut exponent_at, mut exponent_bits, mut mantissa_at, mut mantissa_bits) = (0, 0, 0, 0, 0);
            check(H5Tget_fields(id, &mut sign_at, &mut exponent_at, &mut exponent_bits, &mut mantissa_at, &mut mantissa_bits))?;
            Fields::Float(FloatFields {
                precision: H5Tget_precision(id),
                offset: H5Tget_offset(id),
                sign_at,
                exponent_at,
                exponent_bits,
                exponent_bias: H5Tget_ebias(id),
                mantissa_at,
                mantissa_bits,
                norm: H5Tget_norm(id) as i32,
            })
        } else {
            return Ok(ElementType { class, size, order: -1, fields: Fields::None });
        };
        Ok(ElementType { class, size, order: order(id) as i32, fields })
    })
}
