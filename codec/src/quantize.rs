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

/// The bytes of a chunk with these values.
#[cfg(test)]
fn chunk_of<V: crate::number::element::Element>(values: &[V], order: crate::layout::ByteOrder) -> Vec<u8> {
    let mut chunk = vec![0; values.len() * V::SIZE];
    V::write_all(values, |value| value, order, &mut chunk);
    chunk
}
