//! Values that come back bit for bit although HDF5 does not know them as fill values: those that the attributes `missing_value` and `_FillValue` name.
//!
//! The filter keeps one value a chunk bit for bit, the dataset's fill value. Here a chunk gets, in place of the fill value, a value of an attribute that occurs
//! in the chunk. If several such values occur, and one of them would be lost, the chunk keeps the exact bits of all its values. Any reader gets these values: a
//! stream holds what its decoder needs.

use quire_codec::{Config, ErrorBound, Layout, Result};

use crate::compare::{Elements, compare};

/// The attributes that name values for "nothing was measured here".
pub(crate) const ATTRIBUTES: [&str; 2] = ["missing_value", "_FillValue"];

/// Whether a value, given by its bits, occurs in a chunk.
fn occurs(bits: u64, chunk: &[u8], layout: &Layout) -> bool {
    let size = layout.scalar.size();
    let mut value = bits.to_le_bytes();
    if layout.byte_order == quire_codec::ByteOrder::Big {
        value[..size].reverse();
    }
    chunk.chunks_exact(size).any(|element| *element == value[..size])
}

/// Compresses a chunk so that `missing` values come back bit for bit, as the fill value of `config` does. Returns the stream, and whether it keeps all exact
/// bits of the chunk for that. `compress` compresses the chunk by a configuration.
///
/// # Errors
/// The codec's.
pub(crate) fn compress(
    chunk: &[u8],
    layout: &Layout,
    config: &Config<'_>,
    missing: &[u64],
    mut compress: impl FnMut(&Config<'_>) -> Result<Vec<u8>>,
) -> Result<(Vec<u8>, bool)> {
    let is_lossless = config.bound == ErrorBound::Lossless;
    let found: Vec<u64> = missing.iter().copied().filter(|&bits| !is_lossless && occurs(bits, chunk, layout)).collect();
    if found.is_empty() {
        return Ok((compress(config)?, false));
    }
    let fill: Vec<u64> = missing.iter().copied().chain(config.fill_value).collect();
    let elements = Elements { scalar: layout.scalar, byte_order: layout.byte_order, fill: &fill, missing: &[] };
    let mut decoded = vec![0; chunk.len()];
    for bits in found {
        let stream = compress(&Config { fill_value: Some(bits), ..*config })?;
        h5zquire::decompress(&stream, &mut decoded)?;
        if compare(chunk, &decoded, elements, Some(config.bound)).broken.is_none() {
            return Ok((stream, false));
        }
    }
    Ok((compress(&config.with_bound(ErrorBound::Lossless))?, true))
}

#[cfg(test)]
mod tests {
    use quire_codec::{ByteOrder, Scalar, Shape};

    use super::*;

    #[test]
    fn missing_values_of_any_number_come_back() {
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Big, shape: Shape::new(&[1000]).expect("a shape") };
        let smooth = |index: u16| f32::from(index).mul_add(0.001, 0.3).sin();
        // 0.7 lies among the data, and on no grid.
        let special = [-9999.9f32, 0.7, 1e20, 0.9];
        let missing = special.map(|value| u64::from(value.to_bits()));
        // A chunk keeps its exact bits where two of its missing values are among its data. Others are far.
        for (kinds, is_exact) in [(0, false), (1, false), (2, false), (3, false), (4, true)] {
            let value = |index: u16| {
                if kinds > 0 && index.is_multiple_of(7) { special[usize::from(index) % kinds] } else { smooth(index) }
            };
            let chunk: Vec<u8> = (0..1000).flat_map(|index| value(index).to_be_bytes()).collect();
            let config = Config::new(ErrorBound::Relative(0.01)).expect("a bound");
            let by_filter = |config: &Config<'_>| h5zquire::compress(&chunk, &layout, config);
            let (stream, keeps_all) = compress(&chunk, &layout, &config, &missing, by_filter).expect("compressed");
            assert_eq!(keeps_all, is_exact, "{kinds}");
            let mut decoded = vec![0; chunk.len()];
            h5zquire::decompress(&stream, &mut decoded).expect("decoded");
            for (before, after) in chunk.chunks_exact(4).zip(decoded.chunks_exact(4)) {
                let number = |bytes: &[u8]| f32::from_be_bytes(bytes.try_into().expect("four bytes"));
                if missing.contains(&u64::from(number(before).to_bits())) {
                    assert_eq!(before, after);
                }
                assert!((number(before) - number(after)).abs() <= 0.02, "{kinds}");
            }
        }
    }
}
