//! Stage 1 (FORMAT.md §5): values → integers on a grid and exceptions, and back.

pub mod bitmap;
pub mod decimal;
pub mod exceptions;
pub(crate) mod excluded;
pub mod fast_f32;
pub mod fills;
pub mod fine_grid;
pub mod gaps;
pub mod grid;
pub mod integer_steps;
pub mod last_digit;
pub mod lattice;
pub mod limits;
pub mod linear;
pub mod logarithm;
pub mod positions;
pub mod quantizer;

/// Compares values that `restore` makes of codes with those of the plain definition. A decoder may get codes that no encoder writes.
#[cfg(test)]
fn check_restored<V: crate::number::element::Element, C: crate::number::integer::Integer>(
    name: &str,
    restore: impl Fn(&[C], crate::layout::ByteOrder, &mut [u8]),
    plain: impl Fn(i64) -> V,
) {
    use crate::layout::ByteOrder::{Big, Little};
    let mut random = crate::random::Random(1);
    for (len, order) in (0..70).flat_map(|len| [Little, Big].map(|order| (len, order))) {
        let codes: Vec<C> = (0..len).map(|_| C::from_i64(random.next().cast_signed() >> (random.next() >> 58))).collect();
        let mut chunk = vec![0; len * V::SIZE];
        restore(&codes, order, &mut chunk);
        for (index, code) in codes.iter().map(|code| code.to_i64()).enumerate() {
            assert_eq!(
                V::read(&chunk, index, order).to_bits_i64(),
                plain(code).to_bits_i64(),
                "quantize/{name}: {code} restored"
            );
        }
    }
}

/// The bytes of a chunk with these values.
#[cfg(test)]
fn chunk_of<V: crate::number::element::Element>(values: &[V], order: crate::layout::ByteOrder) -> Vec<u8> {
    let mut chunk = vec![0; values.len() * V::SIZE];
    V::write_all(values, |value| value, order, &mut chunk);
    chunk
}
