//! Which HDF5 datatypes are IEEE floating-point numbers.
//!
//! Comparing with `H5T_IEEE_F32LE` would need library-wide identifiers, so we compare what makes those types what they are.

use hdf5_sys::h5t::{H5T_FLOAT, H5T_NORM_IMPLIED, H5T_ORDER_BE, H5T_ORDER_LE};
use quire_codec::{ByteOrder, Error, Result, Scalar};
use std::ffi::c_int;

/// A dataset's element type, as HDF5 describes it. The codes are C's integers: a newer library may know more than our enums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ElementType {
    /// `H5T_class_t`
    pub(crate) class: c_int,
    /// Bytes of an element.
    pub(crate) size: usize,
    /// `H5T_order_t`
    pub(crate) order: c_int,
    /// Present if `class` is `H5T_FLOAT`.
    pub(crate) float: Option<FloatFields>,
}

/// Where the parts of a floating-point number stand, in bits from the least significant one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloatFields {
    pub(crate) precision: usize,
    pub(crate) offset: c_int,
    pub(crate) sign_at: usize,
    pub(crate) exponent_at: usize,
    pub(crate) exponent_bits: usize,
    pub(crate) exponent_bias: usize,
    pub(crate) mantissa_at: usize,
    pub(crate) mantissa_bits: usize,
    /// `H5T_norm_t`
    pub(crate) norm: c_int,
}

const BINARY32: FloatFields = FloatFields {
    precision: 32,
    offset: 0,
    sign_at: 31,
    exponent_at: 23,
    exponent_bits: 8,
    exponent_bias: 127,
    mantissa_at: 0,
    mantissa_bits: 23,
    norm: H5T_NORM_IMPLIED as c_int,
};

const BINARY64: FloatFields = FloatFields {
    precision: 64,
    offset: 0,
    sign_at: 63,
    exponent_at: 52,
    exponent_bits: 11,
    exponent_bias: 1023,
    mantissa_at: 0,
    mantissa_bits: 52,
    norm: H5T_NORM_IMPLIED as c_int,
};

impl ElementType {
    /// The codec's name for this type.
    ///
    /// # Errors
    /// `InvalidArgument` unless this is IEEE binary32 or binary64 in little or big endian order.
    pub(crate) fn ieee(&self) -> Result<(Scalar, ByteOrder)> {
        let scalar = match (self.size, self.float) {
            (4, Some(BINARY32)) => Scalar::F32,
            (8, Some(BINARY64)) => Scalar::F64,
            _ => return Err(self.refusal()),
        };
        let byte_order = match self.order {
            order if order == H5T_ORDER_LE as c_int => ByteOrder::Little,
            order if order == H5T_ORDER_BE as c_int => ByteOrder::Big,
            _ => return Err(self.refusal()),
        };
        Ok((scalar, byte_order))
    }

    fn refusal(&self) -> Error {
        let detail = match self.float {
            Some(float) => format!(
                " ({} exponent and {} mantissa bits, byte order {})",
                float.exponent_bits, float.mantissa_bits, self.order
            ),
            None => String::new(),
        };
        Error::InvalidArgument(format!(
            "the dataset's element type is of class {}, {} bytes{detail}; only IEEE 754 binary32 and binary64 in little or big endian \
             order can be compressed: create this dataset without the filter, or as float32 or float64",
            self.class_name(),
            self.size
        ))
    }

    fn class_name(&self) -> String {
        const NAMES: [&str; 12] = [
            "integer",
            "float",
            "time",
            "string",
            "bitfield",
            "opaque",
            "compound",
            "reference",
            "enum",
            "variable-length",
            "array",
            "complex",
        ];
        match usize::try_from(self.class).ok().and_then(|class| NAMES.get(class)) {
            Some(name) => (*name).to_owned(),
            None => format!("{} (unknown)", self.class),
        }
    }

    /// Whether the library is to be asked for the fields of a floating-point number.
    pub(crate) fn is_float_class(class: c_int) -> bool {
        class == H5T_FLOAT as c_int
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: ElementType = ElementType { class: 1, size: 4, order: 0, float: Some(BINARY32) };
    const F64: ElementType = ElementType { class: 1, size: 8, order: 0, float: Some(BINARY64) };

    #[test]
    fn ieee_types_in_both_byte_orders_are_accepted() {
        assert_eq!(F32.ieee(), Ok((Scalar::F32, ByteOrder::Little)));
        assert_eq!(F64.ieee(), Ok((Scalar::F64, ByteOrder::Little)));
        assert_eq!(ElementType { order: 1, ..F32 }.ieee(), Ok((Scalar::F32, ByteOrder::Big)));
        assert_eq!(ElementType { order: 1, ..F64 }.ieee(), Ok((Scalar::F64, ByteOrder::Big)));
    }

    #[test]
    fn a_refusal_names_class_and_size() {
        for (element, seen) in [
            (ElementType { class: 0, size: 4, order: 0, float: None }, "class integer, 4 bytes;"),
            (ElementType { class: 3, size: 17, order: 4, float: None }, "class string, 17 bytes;"),
            (ElementType { class: 6, size: 12, order: 4, float: None }, "class compound, 12 bytes"),
            (ElementType { class: 11, size: 8, order: 0, float: None }, "class complex, 8 bytes"),
            (ElementType { class: 40, size: 8, order: 0, float: None }, "class 40 (unknown), 8 bytes"),
            (
                ElementType {
                    size: 2,
                    float: Some(FloatFields {
                        precision: 16,
                        sign_at: 15,
                        exponent_at: 10,
                        exponent_bits: 5,
                        exponent_bias: 15,
                        mantissa_bits: 10,
                        ..BINARY32
                    }),
                    ..F32
                },
                "class float, 2 bytes (5 exponent and 10 mantissa bits",
            ),
            (ElementType { size: 16, ..F64 }, "class float, 16 bytes"),
        ] {
            let text = element.ieee().expect_err("refused").to_string();
            assert!(text.contains(seen), "{text:?} does not say {seen:?}");
        }
    }

    #[test]
    fn floats_that_are_not_ieee_are_refused() {
        for float in [
            FloatFields { exponent_bias: 128, ..BINARY32 },
            FloatFields { norm: 1, ..BINARY32 },
            FloatFields { precision: 31, ..BINARY32 },
            FloatFields { offset: 1, ..BINARY32 },
            FloatFields { sign_at: 0, ..BINARY32 },
        ] {
            assert!(ElementType { float: Some(float), ..F32 }.ieee().is_err(), "{float:?}");
        }
        assert!(ElementType { order: 2, ..F32 }.ieee().is_err(), "VAX byte order");
        assert!(ElementType { size: 8, ..F32 }.ieee().is_err(), "padded binary32");
    }
}
