//! Which HDF5 datatypes are numbers that the codec knows.
//!
//! Comparing with `H5T_IEEE_F32LE` and its like would need library-wide identifiers, so we compare what makes those types what they are.

use hdf5_sys::h5t::{H5T_FLOAT, H5T_INTEGER, H5T_NORM_IMPLIED, H5T_ORDER_BE, H5T_ORDER_LE, H5T_SGN_2, H5T_SGN_NONE};
use quire_codec::{ByteOrder, Error, Result, Scalar};
use std::ffi::c_int;
use std::fmt;

/// A dataset's element type, as HDF5 describes it. The codes are C's integers: a newer library may know more than our enums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType {
    /// `H5T_class_t`
    pub class: c_int,
    /// Bytes of an element.
    pub size: usize,
    /// `H5T_order_t`
    pub order: c_int,
    /// What more there is to say of numbers.
    pub fields: Fields,
}

/// What only numbers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// If `class` is `H5T_FLOAT`.
    Float(FloatFields),
    /// If `class` is `H5T_INTEGER`.
    Integer(IntegerFields),
    /// For all other classes.
    None,
}

/// Positions of an integer's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntegerFields {
    /// Bits that count.
    pub precision: usize,
    /// The first of them.
    pub offset: c_int,
    /// `H5T_sign_t`
    pub sign: c_int,
}

/// Positions of a floating-point number's parts, in bits from the least significant one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatFields {
    /// Bits that count.
    pub precision: usize,
    /// The first of them.
    pub offset: c_int,
    /// The sign's.
    pub sign_at: usize,
    /// The exponent's first.
    pub exponent_at: usize,
    /// The exponent's number of bits.
    pub exponent_bits: usize,
    /// The exponent bias.
    pub exponent_bias: usize,
    /// The mantissa's first bit.
    pub mantissa_at: usize,
    /// The mantissa's number of bits.
    pub mantissa_bits: usize,
    /// `H5T_norm_t`
    pub norm: c_int,
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

/// As h5py, Julia and HDF5 2.0 make it for half precision.
const BINARY16: FloatFields = FloatFields {
    precision: 16,
    sign_at: 15,
    exponent_at: 10,
    exponent_bits: 5,
    exponent_bias: 15,
    mantissa_bits: 10,
    ..BINARY32
};

/// As HDF5 2.0 has it, and as anybody can make it before.
const BFLOAT16: FloatFields = FloatFields { precision: 16, sign_at: 15, exponent_at: 7, mantissa_bits: 7, ..BINARY32 };

impl ElementType {
    /// The codec's name for this type.
    ///
    /// # Errors
    /// `InvalidArgument` unless this is IEEE binary16, binary32 or binary64, bfloat16, or an integer of 8, 16, 32 or 64 bits, in little or big endian order.
    pub fn scalar(&self) -> Result<(Scalar, ByteOrder)> {
        let scalar = match (self.size, self.fields) {
            (2, Fields::Float(BINARY16)) => Scalar::F16,
            (2, Fields::Float(BFLOAT16)) => Scalar::BF16,
            (4, Fields::Float(BINARY32)) => Scalar::F32,
            (8, Fields::Float(BINARY64)) => Scalar::F64,
            (size, Fields::Integer(fields)) => self.integer(size, fields).ok_or_else(|| self.refusal())?,
            _ => return Err(self.refusal()),
        };
        let byte_order = match self.order {
            order if order == H5T_ORDER_LE as c_int => ByteOrder::Little,
            order if order == H5T_ORDER_BE as c_int => ByteOrder::Big,
            _ => return Err(self.refusal()),
        };
        Ok((scalar, byte_order))
    }

    /// The integer whose bits fill its bytes.
    fn integer(&self, size: usize, fields: IntegerFields) -> Option<Scalar> {
        if fields.precision != 8 * size || fields.offset != 0 {
            return None;
        }
        let is_signed = match fields.sign {
            sign if sign == H5T_SGN_2 as c_int => true,
            sign if sign == H5T_SGN_NONE as c_int => false,
            _ => return None,
        };
        Some(match (size, is_signed) {
            (1, true) => Scalar::I8,
            (1, false) => Scalar::U8,
            (2, true) => Scalar::I16,
            (2, false) => Scalar::U16,
            (4, true) => Scalar::I32,
            (4, false) => Scalar::U32,
            (8, true) => Scalar::I64,
            (8, false) => Scalar::U64,
            _ => return None,
        })
    }

    fn refusal(&self) -> Error {
        Error::invalid(format_args!(
            "the dataset's element type is of class {}, {} bytes{}; only IEEE 754 binary16, binary32 and binary64, bfloat16, and integers \
             that fill 1, 2, 4 or 8 bytes can be compressed, in little or big endian order: create this dataset without the filter, or with one \
             of these types",
            ClassName(self.class),
            self.size,
            Detail(self)
        ))
    }

    /// Whether the library is to be asked for the fields of a floating-point number.
    pub fn is_float_class(class: c_int) -> bool {
        class == H5T_FLOAT as c_int
    }

    /// Whether it is to be asked for those of an integer.
    pub fn is_integer_class(class: c_int) -> bool {
        class == H5T_INTEGER as c_int
    }
}

/// What a refusal says of a number's bits.
struct Detail<'a>(&'a ElementType);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.fields {
            Fields::Float(float) => write!(
                formatter,
                " ({} exponent and {} mantissa bits, byte order {})",
                float.exponent_bits, float.mantissa_bits, self.0.order
            ),
            Fields::Integer(integer) => write!(formatter, " ({} bits from bit {} on)", integer.precision, integer.offset),
            Fields::None => Ok(()),
        }
    }
}

/// The name of an `H5T_class_t`.
struct ClassName(c_int);

impl fmt::Display for ClassName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        match usize::try_from(self.0).ok().and_then(|class| NAMES.get(class)) {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "{} (unknown)", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: ElementType = ElementType { class: 1, size: 4, order: 0, fields: Fields::Float(BINARY32) };
    const F64: ElementType = ElementType { class: 1, size: 8, order: 0, fields: Fields::Float(BINARY64) };

    fn integer(size: usize, sign: c_int) -> ElementType {
        let fields = Fields::Integer(IntegerFields { precision: 8 * size, offset: 0, sign });
        ElementType { class: 0, size, order: 0, fields }
    }

    #[test]
    fn numbers_in_both_byte_orders_are_accepted() {
        for (element, scalar) in [
            (F32, Scalar::F32),
            (F64, Scalar::F64),
            (ElementType { size: 2, fields: Fields::Float(BINARY16), ..F32 }, Scalar::F16),
            (ElementType { size: 2, fields: Fields::Float(BFLOAT16), ..F32 }, Scalar::BF16),
            (integer(1, 1), Scalar::I8),
            (integer(1, 0), Scalar::U8),
            (integer(2, 1), Scalar::I16),
            (integer(2, 0), Scalar::U16),
            (integer(4, 1), Scalar::I32),
            (integer(4, 0), Scalar::U32),
            (integer(8, 1), Scalar::I64),
            (integer(8, 0), Scalar::U64),
        ] {
            assert_eq!(element.scalar(), Ok((scalar, ByteOrder::Little)));
            assert_eq!(ElementType { order: 1, ..element }.scalar(), Ok((scalar, ByteOrder::Big)));
        }
    }

    #[test]
    fn a_refusal_names_class_and_size() {
        let of_12_bits = Fields::Integer(IntegerFields { precision: 12, offset: 2, sign: 1 });
        let of_4_bits = Fields::Float(FloatFields { exponent_bits: 4, exponent_bias: 7, mantissa_bits: 3, ..BINARY16 });
        for (element, seen) in [
            (ElementType { fields: of_12_bits, ..integer(2, 1) }, "class integer, 2 bytes (12 bits from bit 2 on);"),
            (integer(3, 1), "class integer, 3 bytes (24 bits"),
            (integer(16, 0), "class integer, 16 bytes (128 bits"),
            (integer(4, 2), "class integer, 4 bytes (32 bits"),
            (ElementType { class: 3, size: 17, order: 4, fields: Fields::None }, "class string, 17 bytes;"),
            (ElementType { class: 6, size: 12, order: 4, fields: Fields::None }, "class compound, 12 bytes"),
            (ElementType { class: 11, size: 8, order: 0, fields: Fields::None }, "class complex, 8 bytes"),
            (ElementType { class: 40, size: 8, order: 0, fields: Fields::None }, "class 40 (unknown), 8 bytes"),
            (ElementType { size: 1, fields: of_4_bits, ..F32 }, "class float, 1 bytes (4 exponent and 3 mantissa bits"),
            (ElementType { size: 16, ..F64 }, "class float, 16 bytes"),
        ] {
            let text = element.scalar().expect_err("refused").to_string();
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
            assert!(ElementType { fields: Fields::Float(float), ..F32 }.scalar().is_err(), "{float:?}");
        }
        assert!(ElementType { order: 2, ..F32 }.scalar().is_err(), "VAX byte order");
        assert!(ElementType { order: 2, ..integer(4, 1) }.scalar().is_err(), "VAX byte order");
        assert!(ElementType { size: 8, ..F32 }.scalar().is_err(), "padded binary32");
    }
}
