//! Leaves out padding: HDF5 fills up a chunk that reaches beyond its dataset, with zeros unless the dataset defines a fill value. Zeros would make the range of
//! temperatures in kelvin seven times as wide. So they must not count where a bound depends on the chunk's range or noise.

use std::borrow::Cow;

use crate::error::Result;
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::memory::reserve;

/// A chunk's values without its padding, and the layout of the rest. Along each axis, the last layers whose bytes are all 0 are left out, but one layer stays.
/// A layer of pairs has both parts. A chunk without padding is returned as it is.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn without_padding<'a>(chunk: &'a [u8], layout: &Layout) -> Result<(Cow<'a, [u8]>, Layout)> {
    // Axis 0 is over the parts of pairs, and has the extent 1 for other types. Layers are taken along the other axes: each has its share of both parts.
    let parts = if layout.scalar.is_pair() { 2 } else { 1 };
    let rank = 1 + layout.shape.dims().len();
    let mut all_dims = [parts; 1 + MAX_RANK];
    let dims = &mut all_dims[..rank];
    dims[1..].copy_from_slice(layout.shape.dims());
    dims[1] /= parts;
    let mut all_counted = all_dims;
    let (dims, counted) = (&all_dims[..rank], &mut all_counted[..rank]);
    // Bytes from one index to the next along each axis, slowest axis first.
    let mut strides = [layout.scalar.size(); 1 + MAX_RANK];
    for axis in (1..rank).rev() {
        strides[axis - 1] = strides[axis] * dims[axis] as usize;
    }
    for axis in 1..rank {
        let period = strides[axis] * dims[axis] as usize;
        let is_zero = |layer: u64| {
            let start = layer as usize * strides[axis];
            chunk.chunks_exact(period).all(|block| block[start..start + strides[axis]].iter().all(|&byte| byte == 0))
        };
        while counted[axis] > 1 && is_zero(counted[axis] - 1) {
            counted[axis] -= 1;
        }
    }
    if *counted == *dims {
        return Ok((Cow::Borrowed(chunk), *layout));
    }
    let mut shape = [1; MAX_RANK];
    let shape = &mut shape[..rank - 1];
    shape.copy_from_slice(&counted[1..]);
    shape[0] *= parts;
    let layout = Layout { shape: Shape::new(shape)?, ..*layout };
    let mut kept = Vec::new();
    reserve(&mut kept, layout.chunk_bytes() as usize)?;
    copy_box(chunk, counted, &strides[..rank], &mut kept);
    Ok((Cow::Owned(kept), layout))
}

/// Appends the first values along each axis, `extents` of them. `strides` are in bytes, slowest axis first.
fn copy_box(chunk: &[u8], extents: &[u64], strides: &[usize], kept: &mut Vec<u8>) {
    match (extents, strides) {
        ([extent], [size]) => kept.extend_from_slice(&chunk[..*extent as usize * size]),
        ([extent, faster @ ..], [stride, strides @ ..]) => {
            chunk.chunks_exact(*stride).take(*extent as usize).for_each(|layer| copy_box(layer, faster, strides, kept));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar};

    fn layout(dims: &[u64]) -> Layout {
        Layout { scalar: Scalar::I16, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() }
    }

    fn bytes(values: impl IntoIterator<Item = i16>) -> Vec<u8> {
        values.into_iter().flat_map(i16::to_le_bytes).collect()
    }

    #[test]
    fn padding_is_left_out_along_every_axis() {
        // 2 x 3 x 4 values in a chunk of 4 x 5 x 6.
        let value = |z: usize, y: usize, x: usize| if z < 2 && y < 3 && x < 4 { (100 + 12 * z + 4 * y + x) as i16 } else { 0 };
        let chunk = bytes((0..120).map(|index| value(index / 30, index / 6 % 5, index % 6)));
        let (kept, found) = without_padding(&chunk, &layout(&[4, 5, 6])).unwrap();
        assert_eq!(found, layout(&[2, 3, 4]));
        assert_eq!(*kept, bytes(100..124));
    }

    #[test]
    fn padding_of_pairs_is_left_out_of_both_parts() {
        // 2 x 3 pairs in a chunk of 4 x 5, whose second parts alone end in zeros.
        let value =
            |part: usize, y: usize, x: usize| if y < 2 && x < 3 - part { (100 + 10 * part + 3 * y + x) as f32 } else { 0.0 };
        let chunk: Vec<u8> = (0..40).flat_map(|index| value(index / 20, index / 5 % 4, index % 5).to_le_bytes()).collect();
        let pairs = |dims| Layout { scalar: Scalar::C64, ..layout(dims) };
        let (kept, found) = without_padding(&chunk, &pairs(&[8, 5])).unwrap();
        assert_eq!(found, pairs(&[4, 3]));
        let expected = [100.0f32, 101.0, 102.0, 103.0, 104.0, 105.0, 110.0, 111.0, 0.0, 113.0, 114.0, 0.0];
        assert_eq!(*kept, expected.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    }

    #[test]
    fn zeros_among_the_data_stay() {
        let chunk = bytes([0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let (kept, found) = without_padding(&chunk, &layout(&[3, 4])).unwrap();
        assert_eq!((&*kept, found), (&chunk[..], layout(&[3, 4])));
        let zeros = bytes([0; 12]);
        let (kept, found) = without_padding(&zeros, &layout(&[3, 4])).unwrap();
        assert_eq!((&*kept, found), (&[0, 0][..], layout(&[1, 1])));
    }
}
