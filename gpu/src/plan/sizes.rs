//! Sizes that both directions share, and the launch grids that follow from them.

use quire_codec::Layout;
use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::stages::exceptions::most_listed;

use super::key::Key;
use crate::error::{Error, Reason, Result};
use crate::job::{MAX_RANK, SLOTS_PER_SUM, Shape, THREADS};

/// Words that a thread clears.
const WORDS_CLEARED: usize = 4;

/// Sizes that both directions share.
pub(super) struct Sizes {
    pub(super) chunks: usize,
    /// Values of a chunk.
    pub(super) elements: usize,
    /// Segments of a chunk.
    pub(super) segments: usize,
    /// Sums of a chunk in an array of sums of SLOTS_PER_SUM counts each.
    pub(super) sums: usize,
    /// Most exceptions that a chunk has in a list.
    pub(super) most_listed: usize,
    /// Bytes of a value.
    pub(super) value: usize,
    /// Bytes of a code.
    pub(super) code: usize,
}

impl Sizes {
    pub(super) fn new<Variant>(key: &Key<Variant>) -> Self {
        let Layout { scalar, shape, .. } = key.layout;
        let elements = shape.elements() as usize;
        let segments = elements.div_ceil(SEGMENT);
        let most_listed = most_listed(elements as u64) as usize;
        let (value, code) = (scalar.size(), scalar.code_size());
        Self { chunks: key.chunks, elements, segments, sums: segments.div_ceil(SLOTS_PER_SUM), most_listed, value, code }
    }

    /// Entries of an array with one entry a value.
    pub(super) fn values(&self) -> usize {
        self.chunks * self.elements
    }

    /// Entries of an array with one entry a segment.
    pub(super) fn all_segments(&self) -> usize {
        self.chunks * self.segments
    }

    /// Entries of an array of sums.
    pub(super) fn all_sums(&self) -> usize {
        self.chunks * self.sums
    }

    /// Launch grid for `items` pieces of work a chunk: enough blocks of threads to fill the device a few times over, one an item at the most.
    pub(super) fn grid(&self, multiprocessors: u32, per_multiprocessor: u32, items: usize) -> (u32, u32, u32) {
        let chunks = self.chunks as u32;
        let wanted = (multiprocessors * per_multiprocessor).div_ceil(chunks).max(if chunks > 1 { 4 } else { 1 });
        (wanted.min(items as u32).max(1), chunks, 1)
    }
}

/// The words of `bytes` bytes, which a kernel clears from a job's states on, and the blocks of threads for that. Arrays begin at whole words.
pub(super) fn words_to_clear(bytes: usize, multiprocessors: u32) -> (u32, u32) {
    let words = bytes.div_ceil(4);
    let blocks = words.div_ceil(WORDS_CLEARED * THREADS as usize).min(4 * multiprocessors as usize);
    (words as u32, blocks as u32)
}

/// A shape as the kernels have it.
pub(super) fn shape(shape: &quire_codec::Shape) -> Shape {
    let mut result = Shape {
        rank: shape.dims().len() as u32,
        elements: shape.elements() as u32,
        extents: [1; MAX_RANK],
        strides: [1; MAX_RANK],
        advance: [0; MAX_RANK],
    };
    let (mut stride, mut rest) = (1, THREADS);
    for axis in 0..MAX_RANK {
        if let Some(&extent) = shape.dims().iter().rev().nth(axis) {
            result.extents[axis] = extent as u32;
        }
        result.strides[axis] = stride;
        stride *= result.extents[axis];
        result.advance[axis] = rest % result.extents[axis];
        rest /= result.extents[axis];
    }
    result
}

/// The kernels of a grid. Types without such a grid do not have them.
pub(crate) fn known<T>(kernels: &Option<T>) -> Result<&T> {
    kernels
        .as_ref()
        .ok_or_else(|| Error::Unsupported(Reason::from("the GPU has no kernels for values of this type with such a grid")))
}
