//! Leaves out padding: HDF5 fills up a chunk that reaches beyond its dataset, with zeros unless the dataset defines a fill value. Zeros would make the range of
//! temperatures in kelvin seven times as wide, so that they must not count where a bound depends on the chunk's range or noise.

use std::borrow::Cow;

use crate::error::Result;
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::memory::reserve;

/// A chunk without its padding, and the layout of the rest. Along each axis, the last layers whose bytes are all 0 are left out, but one layer stays. Without
/// padding, this is the chunk itself.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn without_padding<'a>(chunk: &'a [u8], layout: &Layout) -> Result<(Cow<'a, [u8]>, Layout)> {
    let dims = layout.shape.dims();
    let rank = dims.len();
    let mut all_counted = [1; MAX_RANK];
    let counted = &mut all_counted[..rank];
    counted.copy_from_slice(dims);
    // Bytes from one index to the next along each axis, slowest axis first.
    let mut strides = [layout.scalar.size(); MAX_RANK];
    for axis in (1..rank).rev() {
        strides[axis - 1] = strides[axis] * dims[axis] as usize;
    }
    for axis in 0..rank {
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
    let layout = Layout { shape: Shape::new(counted)?, ..*layout };
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
    fn zeros_among_the_data_stay() {
        let chunk = bytes([0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let (kept, found) = without_padding(&chunk, &layout(&[3, 4])).unwrap();
        assert_eq!((&*kept, found), (&chunk[..], layout(&[3, 4])));
        let zeros = bytes([0; 12]);
        let (kept, found) = without_padding(&zeros, &layout(&[3, 4])).unwrap();
        assert_eq!((&*kept, found), (&[0, 0][..], layout(&[1, 1])));
    }
}
