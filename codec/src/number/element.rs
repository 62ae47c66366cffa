//! The types of a chunk's elements: how each is read and written, and the integers that encode its values exactly (FORMAT.md §5.3).
//!
//! These codes order as the values do, so that close values have close codes. The code of an integer is the integer itself. The code of a floating-point number
//! is its IEEE bits. Those of a negative number but the sign are inverted, which reverses their order (Lindstrom and Isenburg, Fast and Efficient Compression
//! of Floating-Point Data, TVCG'06, section 3.2).

use crate::layout::ByteOrder;
use crate::number::integer::Integer;
use crate::number::small_float::{BFloat16, Binary16};
use crate::simd::ROW_GROUP;

/// A type of elements.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// The type of its codes: integers of 32 bits for elements of up to four bytes, of 64 bits for others.
    type Code: Integer;
    /// Bytes of an element.
    const SIZE: usize;
    /// Reads element `index` of the chunk.
    fn read(bytes: &[u8], index: usize, order: ByteOrder) -> Self;
    /// Reads elements from the chunk's first one on, until `values` is full or the bytes end.
    fn read_all(bytes: &[u8], order: ByteOrder, values: &mut [Self]);
    /// Writes `value(source)` for each source, from the first element of the chunk on.
    fn write_all<T: Copy>(sources: &[T], value: impl Fn(T) -> Self, order: ByteOrder, bytes: &mut [u8]);
    /// Writes elements of two arrays in turn: `evens[0], odds[0], evens[1], odds[1], …`.
    fn write_alternate(evens: [Self; ROW_GROUP], odds: [Self; ROW_GROUP], order: ByteOrder, bytes: &mut [u8]);
    /// Writes element `index` of the chunk.
    fn write(self, bytes: &mut [u8], index: usize, order: ByteOrder);
    /// The element's bits as an integer of the codes' width: sign extended, or zero extended for unsigned integers.
    fn to_bits(self) -> Self::Code;
    /// The element with these bits.
    fn from_bits(bits: Self::Code) -> Self;
    /// The code of the value.
    fn to_code(self) -> Self::Code;
    /// The value of a code. Bits above the type's width do not count.
    fn from_code(code: Self::Code) -> Self;
    /// The value in f64, rounded where 53 bits do not hold it.
    fn approximate(self) -> f64;
    /// [`Element::to_bits`], sign extended to 64 bits.
    #[inline(always)]
    fn to_bits_i64(self) -> i64 {
        self.to_bits().to_i64()
    }
}

/// Reading and writing, by the methods `from_le_bytes` and so on that all these types have.
macro_rules! read_write {
    ($size:literal) => {
        const SIZE: usize = $size;
        #[inline(always)]
        fn read(bytes: &[u8], index: usize, order: ByteOrder) -> Self {
            let raw = bytes.as_chunks::<$size>().0[index];
            match order {
                ByteOrder::Little => Self::from_le_bytes(raw),
                ByteOrder::Big => Self::from_be_bytes(raw),
            }
        }
        #[inline(always)]
        fn read_all(bytes: &[u8], order: ByteOrder, values: &mut [Self]) {
            for (value, &raw) in values.iter_mut().zip(bytes.as_chunks::<$size>().0) {
                *value = match order {
                    ByteOrder::Little => Self::from_le_bytes(raw),
                    ByteOrder::Big => Self::from_be_bytes(raw),
                };
            }
        }
        #[inline(always)]
        fn write_all<T: Copy>(sources: &[T], value: impl Fn(T) -> Self, order: ByteOrder, bytes: &mut [u8]) {
            // With an index into `bytes`, compilers would write the last values one by one.
            let slots = bytes.as_chunks_mut::<$size>().0.iter_mut().zip(sources);
            match order {
                ByteOrder::Little => slots.for_each(|(bytes, &source)| *bytes = value(source).to_le_bytes()),
                ByteOrder::Big => slots.for_each(|(bytes, &source)| *bytes = value(source).to_be_bytes()),
            }
        }
        #[inline(always)]
        fn write_alternate(evens: [Self; ROW_GROUP], odds: [Self; ROW_GROUP], order: ByteOrder, bytes: &mut [u8]) {
            for (i, pair) in bytes.as_chunks_mut::<{ 2 * $size }>().0.iter_mut().take(ROW_GROUP).enumerate() {
                let (even, odd) = match order {
                    ByteOrder::Little => (evens[i].to_le_bytes(), odds[i].to_le_bytes()),
                    ByteOrder::Big => (evens[i].to_be_bytes(), odds[i].to_be_bytes()),
                };
                pair[..$size].copy_from_slice(&even);
                pair[$size..].copy_from_slice(&odd);
            }
        }
        #[inline(always)]
        fn write(self, bytes: &mut [u8], index: usize, order: ByteOrder) {
            bytes.as_chunks_mut::<$size>().0[index] = match order {
                ByteOrder::Little => self.to_le_bytes(),
                ByteOrder::Big => self.to_be_bytes(),
            };
        }
    };
}

macro_rules! float {
    ($type:ty, $size:literal, $code:ty, $unsigned:ty, $approximate:expr) => {
        impl Element for $type {
            type Code = $code;
            read_write!($size);
            #[inline(always)]
            fn to_bits(self) -> $code {
                <$code>::from(<$type>::to_bits(self).cast_signed())
            }
            #[inline(always)]
            fn from_bits(bits: $code) -> Self {
                Self::from_bits(bits as $unsigned)
            }
            #[inline(always)]
            fn to_code(self) -> $code {
                let bits = <$type>::to_bits(self).cast_signed();
                // All bits but the sign of a negative number are inverted.
                <$code>::from(bits ^ ((bits >> (<$unsigned>::BITS - 1)).cast_unsigned() >> 1).cast_signed())
            }
            #[inline(always)]
            fn from_code(code: $code) -> Self {
                let code = code as $unsigned;
                let code = code.cast_signed();
                Self::from_bits((code ^ ((code >> (<$unsigned>::BITS - 1)).cast_unsigned() >> 1).cast_signed()).cast_unsigned())
            }
            #[inline(always)]
            fn approximate(self) -> f64 {
                $approximate(self)
            }
        }
    };
}

float!(f32, 4, i32, u32, f64::from);
float!(f64, 8, i64, u64, std::convert::identity);
float!(Binary16, 2, i32, u16, Binary16::to_f64);
float!(BFloat16, 2, i32, u16, BFloat16::to_f64);

macro_rules! whole {
    ($type:ty, $size:literal, $code:ty) => {
        impl Element for $type {
            type Code = $code;
            read_write!($size);
            #[inline(always)]
            fn to_bits(self) -> $code {
                self as $code
            }
            #[inline(always)]
            fn from_bits(bits: $code) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn to_code(self) -> $code {
                self as $code
            }
            #[inline(always)]
            fn from_code(code: $code) -> Self {
                code as Self
            }
            #[inline(always)]
            fn approximate(self) -> f64 {
                self as f64
            }
        }
    };
}

whole!(i8, 1, i32);
whole!(u8, 1, i32);
whole!(i16, 2, i32);
whole!(u16, 2, i32);
whole!(i32, 4, i32);
whole!(u32, 4, i32);
whole!(i64, 8, i64);
whole!(u64, 8, i64);

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps<V: Element>(ascending: &[V]) {
        let mut bytes = vec![0; ascending.len() * V::SIZE];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            V::write_all(ascending, |value| value, order, &mut bytes);
            for (index, &value) in ascending.iter().enumerate() {
                let read = V::read(&bytes, index, order);
                assert!(read.to_bits() == value.to_bits());
                assert!(V::from_bits(value.to_bits()).to_bits() == value.to_bits());
                assert!(V::from_code(value.to_code()).to_bits() == value.to_bits());
            }
        }
        assert!(ascending.is_sorted_by_key(|value| value.to_code().to_i64()));
    }

    #[test]
    fn codes_order_as_values_do_and_give_them_back() {
        keeps(&[-f32::NAN, f32::NEG_INFINITY, f32::MIN, -1.5, -1e-45, -0.0, 0.0, 1e-45, 2.0, f32::MAX, f32::INFINITY, f32::NAN]);
        keeps(&[-f64::NAN, f64::NEG_INFINITY, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY, f64::NAN]);
        keeps(&[0xffff, 0xfc00, 0xbc00, 0x8001, 0x8000, 0, 1, 0x3c00, 0x7bff, 0x7c00, 0x7e01].map(Binary16::from_bits));
        keeps(&[0xffff, 0xff80, 0xbf80, 0x8001, 0x8000, 0, 1, 0x3f80, 0x7f7f, 0x7f80, 0x7fc1].map(BFloat16::from_bits));
        keeps(&[i8::MIN, -1, 0, 1, i8::MAX]);
        keeps(&[0u8, 1, 127, 128, u8::MAX]);
        keeps(&[i16::MIN, -1, 0, 1, i16::MAX]);
        keeps(&[0u16, 1, 1 << 15, u16::MAX]);
        keeps(&[i32::MIN, -1, 0, 1, i32::MAX]);
        keeps(&[i64::MIN, -1, 0, 1, i64::MAX]);
        // Unsigned types as wide as their codes keep the order modulo 2^bits only, which is enough for differences.
        keeps(&[1u32 << 31, u32::MAX, 0, 1, i32::MAX.cast_unsigned()]);
        keeps(&[1u64 << 63, u64::MAX, 0, 1, i64::MAX.cast_unsigned()]);
    }
}
