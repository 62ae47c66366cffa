//! Axes of chunks and of the arrays that they are parts of.

use quire_codec::{Error, Result};

use crate::job::BOX_AXES;

/// The axes along which a chunk has more than one value, fastest axis first, and the strides along them.
#[derive(Debug, Clone, Copy)]
pub struct ArrayAxes {
    /// The caller's number of each axis.
    numbers: [usize; BOX_AXES],
    pub(super) count: usize,
    extents: [u32; BOX_AXES],
    /// Bytes from one value to the next in the caller's array.
    pub(super) strides: [i64; BOX_AXES],
    /// Bytes from one value to the next in a chunk.
    pub(super) dense: [i64; BOX_AXES],
}

/// The part of a chunk that is in a caller's array. The whole chunk has values of its own even where the array has none: beyond the array's edge, for one.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Address of the part's first value.
    pub(super) address: u64,
    /// Bytes from the chunk's first value to the part's, in C order.
    pub(super) offset: u64,
    /// Values along each axis.
    pub(super) lens: [u32; BOX_AXES],
    /// Whether the part is the whole chunk.
    pub(super) is_whole: bool,
    /// The chunk's values where the array has none, with room for the others. `None` for fill values, or for 0 without a fill value. Only compressing reads
    /// this.
    pub(super) under: Option<&'a [u8]>,
}

impl ArrayAxes {
    /// Axes of chunks of these extents, slowest axis first, with values of `size` bytes. `strides` are those of the arrays in bytes; `None` for C order.
    ///
    /// # Errors
    /// `InvalidArgument` for more axes than the kernels take, or a chunk that is too long for one.
    pub fn new(extents: &[u64], strides: Option<&[i64]>, size: usize) -> Result<Self> {
        let mut axes =
            Self { numbers: [0; BOX_AXES], count: 0, extents: [1; BOX_AXES], strides: [0; BOX_AXES], dense: [0; BOX_AXES] };
        let mut dense = size as u64;
        for (number, &extent) in extents.iter().enumerate().rev().filter(|&(_, &extent)| extent != 1) {
            let too_long = || Error::invalid(format_args!("chunks of {extents:?} values are too long for a GPU"));
            if axes.count == BOX_AXES {
                return Err(Error::invalid(format_args!(
                    "chunks of {extents:?} values have more than {BOX_AXES} axes: copy them to the host"
                )));
            }
            axes.numbers[axes.count] = number;
            axes.extents[axes.count] = u32::try_from(extent).map_err(|_| too_long())?;
            axes.dense[axes.count] = dense as i64;
            axes.strides[axes.count] = strides.map_or(dense as i64, |strides| strides[number]);
            dense = dense.checked_mul(extent).filter(|&bytes| bytes <= u64::from(u32::MAX)).ok_or_else(too_long)?;
            axes.count += 1;
        }
        Ok(axes)
    }

    /// A whole chunk.
    #[must_use]
    pub fn whole(&self, address: u64) -> Part<'static> {
        Part { address, offset: 0, lens: self.extents, is_whole: true, under: None }
    }

    /// A part of a chunk: `first` and `lens` give its first index and its number of values along each of the caller's axes, which are inside the chunk.
    #[must_use]
    pub fn part<'a>(
        &self,
        address: u64,
        first: impl Fn(usize) -> u64,
        lens: impl Fn(usize) -> u64,
        under: Option<&'a [u8]>,
    ) -> Part<'a> {
        let mut part = Part { address, offset: 0, lens: [1; BOX_AXES], is_whole: true, under };
        for (axis, &number) in self.numbers[..self.count].iter().enumerate() {
            part.lens[axis] = lens(number) as u32;
            part.offset += first(number) * self.dense[axis] as u64;
            part.is_whole &= part.lens[axis] == self.extents[axis];
        }
        part
    }

    /// Whether whole chunks are in C order in the caller's array.
    pub(super) fn are_dense(&self) -> bool {
        self.strides == self.dense
    }

    /// The whole chunk's values along each axis.
    pub(super) fn extents(&self) -> [u32; BOX_AXES] {
        self.extents
    }
}

impl Part<'_> {
    /// Address of the part's first value.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// This part in another array of the same strides, `by` bytes behind this one.
    #[must_use]
    pub fn moved(&self, by: u64) -> Self {
        Self { address: self.address.wrapping_add(by), ..*self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lens.contains(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_one_value_are_left_out() {
        let axes = ArrayAxes::new(&[1, 5, 1, 7], Some(&[1000, 200, 3, -8]), 4).unwrap();
        assert_eq!((axes.count, axes.extents, axes.are_dense()), (2, [7, 5, 1, 1, 1, 1, 1, 1], false));
        assert_eq!((axes.strides, axes.dense), ([-8, 200, 0, 0, 0, 0, 0, 0], [4, 28, 0, 0, 0, 0, 0, 0]));
        let part = axes.part(64, |axis| [0, 2, 0, 3][axis], |axis| [1, 3, 1, 4][axis], None);
        assert_eq!((part.offset, part.lens, part.is_whole), (2 * 28 + 3 * 4, [4, 3, 1, 1, 1, 1, 1, 1], false));
        assert!(axes.part(64, |_| 0, |axis| [1, 5, 1, 7][axis], None).is_whole);
        assert!(ArrayAxes::new(&[3, 4], None, 8).unwrap().are_dense());
    }

    #[test]
    fn chunks_that_kernels_cannot_take_are_refused() {
        assert!(ArrayAxes::new(&[2; 9], None, 4).is_err());
        assert!(ArrayAxes::new(&[1 << 20, 1 << 12], None, 4).is_err());
        assert!(ArrayAxes::new(&[1 << 40], None, 1).is_err());
    }
}
