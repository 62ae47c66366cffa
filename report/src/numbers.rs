//! Bytes of an array as f64. What does not count becomes NaN: missing values, NaN and infinities.

use quire_codec::Scalar;
use quire_codec::stages::element::Element;
use quire_codec::stages::small_float::{BFloat16, Binary16};

use crate::Field;

/// Values that are read at once.
const GROUP: usize = 64;

/// Reads a row. For pairs, `part` says which of the two parts: the bytes have twice as many values as the row.
pub(crate) fn read_row(field: &Field, bytes: &[u8], part: usize, row: &mut [f64]) {
    match field.scalar {
        Scalar::F32 => read::<f32>(field, bytes, row),
        Scalar::F64 => read::<f64>(field, bytes, row),
        Scalar::F16 => read::<Binary16>(field, bytes, row),
        Scalar::BF16 => read::<BFloat16>(field, bytes, row),
        Scalar::I8 => read::<i8>(field, bytes, row),
        Scalar::U8 => read::<u8>(field, bytes, row),
        Scalar::I16 => read::<i16>(field, bytes, row),
        Scalar::U16 => read::<u16>(field, bytes, row),
        Scalar::I32 => read::<i32>(field, bytes, row),
        Scalar::U32 => read::<u32>(field, bytes, row),
        Scalar::I64 => read::<i64>(field, bytes, row),
        Scalar::U64 => read::<u64>(field, bytes, row),
        Scalar::C64 => read_part::<f32>(field, bytes, part, row),
        Scalar::C128 => read_part::<f64>(field, bytes, part, row),
    }
}

#[inline(always)]
fn read<V: Element>(field: &Field, bytes: &[u8], row: &mut [f64]) {
    let mut group = [V::default(); GROUP];
    for (bytes, row) in bytes.chunks(GROUP * V::SIZE).zip(row.chunks_mut(GROUP)) {
        V::read_all(bytes, field.byte_order, &mut group);
        row.iter_mut().zip(group).for_each(|(number, value)| *number = counted(field, value));
    }
}

fn read_part<V: Element>(field: &Field, bytes: &[u8], part: usize, row: &mut [f64]) {
    row.iter_mut().enumerate().for_each(|(x, number)| *number = counted(field, V::read(bytes, 2 * x + part, field.byte_order)));
}

#[inline(always)]
fn counted<V: Element>(field: &Field, value: V) -> f64 {
    let (number, bits) = (value.approximate(), value.to_bits_i64().cast_unsigned());
    let unused = 64 - 8 * V::SIZE;
    let is_missing = field.missing.iter().fold(false, |found, missing| found | ((bits ^ missing) << unused == 0));
    if number.is_finite() & !is_missing { number } else { f64::NAN }
}
