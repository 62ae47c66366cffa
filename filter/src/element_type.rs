//! Which HDF5 datatypes are numbers, or pairs of them, that the codec knows.
//!
//! Comparing with `H5T_IEEE_F32LE` and its like would need library-wide identifiers, so we compare what makes those types what they are.

use hdf5_sys::h5t::{
    H5T_COMPOUND, H5T_ENUM, H5T_FLOAT, H5T_INTEGER, H5T_NORM_IMPLIED, H5T_ORDER_BE, H5T_ORDER_LE, H5T_SGN_2, H5T_SGN_NONE,
};
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

pub(crate) const INTEGER: c_int = H5T_INTEGER as c_int;
pub(crate) const FLOAT: c_int = H5T_FLOAT as c_int;
pub(crate) const COMPOUND: c_int = H5T_COMPOUND as c_int;
pub(crate) const ENUMERATION: c_int = H5T_ENUM as c_int;
/// `H5T_COMPLEX`, which HDF5 has from 2.0 on.
pub(crate) const COMPLEX: c_int = 11;

/// What only numbers have, and pairs of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// If `class` is `H5T_FLOAT`.
    Float(FloatFields),
    /// If `class` is `H5T_INTEGER`, or `H5T_ENUM` with names for integers.
    Integer(IntegerFields),
    /// Two floating-point numbers of one type that fill the element: a compound, or a number of class `H5T_COMPLEX`. `order` is that of the parts.
    Pair(FloatFields),
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
    /// The sign's bit.
    pub sign_at: usize,
    /// The exponent's first bit.
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
    /// `InvalidArgument` unless this is IEEE binary16, binary32 or binary64, bfloat16, an integer of 8, 16, 32 or 64 bits or an enumeration of such integers,
    /// or a pair of binary32 or binary64, in little or big endian order.
    pub fn scalar(&self) -> Result<(Scalar, ByteOrder)> {
        let scalar = match (self.size, self.fields) {
            (2, Fields::Float(BINARY16)) => Scalar::F16,
            (2, Fields::Float(BFLOAT16)) => Scalar::BF16,
            (4, Fields::Float(BINARY32)) => Scalar::F32,
            (8, Fields::Float(BINARY64)) => Scalar::F64,
            (8, Fields::Pair(BINARY32)) => Scalar::C64,
            (16, Fields::Pair(BINARY64)) => Scalar::C128,
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
            "the dataset's elements are {} of {} {}{}; only IEEE 754 binary16, binary32 and binary64, bfloat16, complex numbers of two binary32 or \
             binary64, and integers and enumerations that fill 1, 2, 4 or 8 bytes can be compressed, in little or big endian order: create this \
             dataset without the filter, or with one of these types",
            Elements(self.class),
            self.size,
            if self.size == 1 { "byte" } else { "bytes" },
            Detail(self)
        ))
    }

    /// A compound of two members, each with its offset, or a complex number of two parts: a pair, if both are one floating-point type and fill the `size`
    /// bytes.
    pub fn of_two(class: c_int, size: usize, [first, second]: [(usize, Self); 2]) -> Self {
        let part = first.1;
        match part.fields {
            Fields::Float(fields) if first.0 == 0 && second == (part.size, part) && size == 2 * part.size => {
                Self { class, size, order: part.order, fields: Fields::Pair(fields) }
            }
            _ => Self { class, size, order: -1, fields: Fields::None },
        }
    }

    /// Whether the integers are names, which have to come back as they were: HDF5's own way to store booleans, for one.
    pub fn is_enumeration(&self) -> bool {
        self.class == ENUMERATION
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
            Fields::Pair(float) => write!(
                formatter,
                " (two parts of {} exponent and {} mantissa bits, byte order {})",
                float.exponent_bits, float.mantissa_bits, self.0.order
            ),
            Fields::Integer(integer) => write!(formatter, " ({} bits from bit {} on)", integer.precision, integer.offset),
            Fields::None => Ok(()),
        }
    }
}

/// What elements of an `H5T_class_t` are.
struct Elements(c_int);

impl fmt::Display for Elements {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 12] = [
            "integers",
            "floating-point numbers",
            "times",
            "strings",
            "bit fields",
            "opaque values",
            "compounds",
            "references",
            "enumerations",
            "variable-length sequences",
            "arrays",
            "complex numbers",
        ];
        match usize::try_from(self.0).ok().and_then(|class| NAMES.get(class)) {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "of the unknown class {}, each", self.0),
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

    fn pair(class: c_int, part: ElementType) -> ElementType {
        ElementType::of_two(class, 2 * part.size, [(0, part), (part.size, part)])
    }

    #[test]
    fn two_floats_without_a_gap_are_a_pair() {
        for (part, scalar) in [(F32, Scalar::C64), (F64, Scalar::C128)] {
            for class in [6, 11] {
                assert_eq!(pair(class, part).scalar(), Ok((scalar, ByteOrder::Little)));
                assert_eq!(pair(class, ElementType { order: 1, ..part }).scalar(), Ok((scalar, ByteOrder::Big)));
            }
        }
        for (size, members) in [
            (8, [(0, F32), (4, ElementType { order: 1, ..F32 })]),
            (12, [(0, F32), (4, F32)]),
            (12, [(0, F32), (8, F32)]),
            (12, [(4, F32), (8, F32)]),
            (8, [(4, F32), (0, F32)]),
            (12, [(0, F32), (4, F64)]),
            (8, [(0, integer(4, 1)), (4, integer(4, 1))]),
        ] {
            let found = ElementType::of_two(6, size, members);
            assert!(found.fields == Fields::None && found.scalar().is_err(), "{members:?} in {size} bytes");
        }
    }

    #[test]
    fn enumerations_are_their_integers() {
        let of_bools = ElementType { class: 8, ..integer(1, 1) };
        assert_eq!((of_bools.scalar(), of_bools.is_enumeration()), (Ok((Scalar::I8, ByteOrder::Little)), true));
        assert!(!integer(1, 1).is_enumeration());
    }

    #[test]
    fn a_refusal_names_class_and_size() {
        let of_12_bits = Fields::Integer(IntegerFields { precision: 12, offset: 2, sign: 1 });
        let of_4_bits = Fields::Float(FloatFields { exponent_bits: 4, exponent_bias: 7, mantissa_bits: 3, ..BINARY16 });
        for (element, seen) in [
            (ElementType { fields: of_12_bits, ..integer(2, 1) }, "elements are integers of 2 bytes (12 bits from bit 2 on);"),
            (integer(3, 1), "integers of 3 bytes (24 bits"),
            (integer(16, 0), "integers of 16 bytes (128 bits"),
            (integer(4, 2), "integers of 4 bytes (32 bits"),
            (ElementType { class: 8, ..integer(3, 1) }, "enumerations of 3 bytes (24 bits"),
            (ElementType { class: 3, size: 17, order: 4, fields: Fields::None }, "strings of 17 bytes;"),
            (ElementType { class: 6, size: 12, order: 4, fields: Fields::None }, "compounds of 12 bytes"),
            (
                pair(6, ElementType { size: 2, fields: Fields::Float(BINARY16), ..F32 }),
                "compounds of 4 bytes (two parts of 5 exponent",
            ),
            (ElementType { class: 11, size: 32, order: 0, fields: Fields::None }, "complex numbers of 32 bytes"),
            (ElementType { class: 40, size: 8, order: 0, fields: Fields::None }, "of the unknown class 40, each of 8 bytes"),
            (
                ElementType { size: 1, fields: of_4_bits, ..F32 },
                "floating-point numbers of 1 byte (4 exponent and 3 mantissa bits",
            ),
            (ElementType { size: 16, ..F64 }, "floating-point numbers of 16 bytes"),
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
