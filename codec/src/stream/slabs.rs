//! Stages 1 to 3 in one pass over a chunk, slab by slab: values → codes → differences → tokens.
//!
//! A slab is some thousand values of whole rows. Its codes and differences stay in the core's cache, and so do the earlier codes that the differences need. Only
//! the chunk and the tokens go through memory. Neither codes nor differences need a buffer of the chunk's length.

use crate::entropy::alphabet::SEGMENT;
use crate::error::Result;
use crate::layout::{Axes, Layout, Shape};
use crate::memory::lengthen_aligned;
use crate::number::value::Value;
use crate::predict::lorenzo;
use crate::quantize::bitmap::WORD;
use crate::quantize::gaps::fill_gaps_of_words;
use crate::quantize::limits::Ends;
use crate::quantize::linear::Groups;
use crate::quantize::quantizer::Quantizer;
use crate::stream::buffers::{Buffers, Shared};

/// A slab has at least this many values.
const MIN_SLAB: usize = 2 * SEGMENT;
/// Most values of a slab. Chunks with longer rows have no slabs.
const MAX_SLAB: usize = 16 * SEGMENT;
/// The buffer of codes has at least the length of this number of slabs. When it is full, the codes that the next slab needs go to the buffer's front.
const MIN_SLABS_PER_MOVE: usize = 4;

/// How a chunk is cut into slabs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slabs {
    /// Rows of a slab. The bits of their values are whole words of the exceptions' bitmap.
    rows: usize,
}

impl Slabs {
    /// The slabs of a chunk. `None` if there is only one, or if the rows are too long.
    pub(crate) fn new(shape: &Shape) -> Option<Self> {
        let row = shape.row();
        // The fewest rows whose bits are whole words: a power of two.
        let unit = WORD >> row.trailing_zeros().min(WORD.ilog2());
        let rows = MIN_SLAB.div_ceil(unit * row) * unit;
        (rows * row <= MAX_SLAB && ((rows * row) as u64) < shape.elements()).then_some(Self { rows })
    }

    /// Makes the tokens of a chunk's differences along a set of axes, for [`PlaneWorkspace::encode_tokens`](crate::stream::plane::PlaneWorkspace), and marks
    /// the exceptions of the codes. Adds the values to `ends`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn tokenize<V: Value>(
        self,
        chunk: &[u8],
        layout: &Layout,
        (quantizer, axes): (&Quantizer, Axes),
        buffers: &mut Buffers<V::Code>,
        shared: &mut Shared,
        ends: &mut Ends<V>,
    ) -> Result<()> {
        let Shared { exceptions, plane, .. } = shared;
        let tokens = plane.tokens_mut();
        let (row, elements) = (layout.shape.row(), layout.shape.elements() as usize);
        let (slab, reach) = (self.rows * row, lorenzo::reach(&layout.shape, axes));
        let room = elements.min(reach + (MIN_SLABS_PER_MOVE * slab).max(reach));
        let codes = lengthen_aligned(&mut buffers.codes, room)?;
        let differences = lengthen_aligned(&mut buffers.differences, slab + SEGMENT)?;
        exceptions.clear(elements)?;
        tokens.begin(elements)?;
        let groups = Groups::<V>::new(quantizer);
        // Number of codes in the buffer, and of differences that are not yet a whole segment.
        let (mut known, mut left) = (0, 0);
        for first in (0..elements).step_by(slab) {
            let end = elements.min(first + slab);
            let len = end - first;
            if known + len > room {
                codes.copy_within(known - reach..known, 0);
                known = reach;
            }
            let of_slab = &mut codes[known..known + len];
            let values = &chunk[first * V::SIZE..end * V::SIZE];
            groups.quantize(values, layout.byte_order, first / WORD, of_slab, exceptions);
            ends.add(values, layout.byte_order);
            fill_gaps_of_words(of_slab, &exceptions.words()[first / WORD..end.div_ceil(WORD)], row);
            let (codes, rows) = (&codes[..known + len], first / row..end / row);
            lorenzo::predict_rows(codes, known, &layout.shape, axes, rows, &mut differences[left..left + len]);
            known += len;
            left += len;
            let whole = if end == elements { left } else { left / SEGMENT * SEGMENT };
            tokens.append(&differences[..whole])?;
            differences.copy_within(whole..left, 0);
            left -= whole;
        }
        tokens.end();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::tokens::{Tokens, tokenize};
    use crate::layout::{ByteOrder, Scalar};
    use crate::quantize::bitmap::Bitmap;
    use crate::quantize::gaps::fill_gaps;
    use crate::quantize::linear;
    use crate::random::Random;

    /// Tokens, extra words and counts of a plane.
    fn contents(tokens: &Tokens) -> impl PartialEq {
        let ends: Vec<_> = tokens.segment_ends.iter().map(|end| (end.tokens, end.extra_bits)).collect();
        let extra = tokens.extra.words(0, ends[ends.len() - 1].1).unwrap();
        (tokens.symbols().to_vec(), ends, extra, tokens.count().1.to_vec())
    }

    /// Compares tokens and exceptions, along each set of axes, with those that the stages make one after the other.
    fn check<V: Value>(scalar: Scalar, dims: &[u64], shared: &mut Shared, buffers: &mut Buffers<V::Code>) {
        let mut random = Random(dims.iter().sum());
        let (shape, byte_order) = (Shape::new(dims).unwrap(), ByteOrder::Big);
        let (elements, layout) = (shape.elements() as usize, Layout { scalar, byte_order, shape });
        let mut chunk = vec![0; elements * V::SIZE];
        for index in 0..elements {
            // Single exceptions, and runs of them that may pass the ends of rows.
            let is_special = random.below(50) == 0 || index / 70 % 40 == 7;
            let smooth = (index as f64 * 0.01).sin() * 50.0 + random.below(100) as f64 * 0.01;
            V::round_from(if is_special { f64::NAN } else { smooth }).write(&mut chunk, index, byte_order);
        }
        let quantizer = Quantizer::new(0.03);
        let (mut codes, mut differences) = (vec![V::Code::default(); elements], vec![V::Code::default(); elements]);
        let (mut marked, mut expected) = (Bitmap::default(), Tokens::default());
        marked.clear(elements).unwrap();
        linear::quantize::<V>(&chunk, byte_order, &quantizer, &mut codes, &mut marked);
        fill_gaps(&mut codes, &marked, shape.row());
        let slabs = Slabs::new(&shape).expect("several slabs");
        for axes in (0..=Axes::all(&shape).to_byte()).filter_map(|byte| Axes::from_byte(byte, &shape)) {
            lorenzo::predict(&codes, &shape, axes, &mut differences);
            tokenize(&differences, &mut expected).unwrap();
            let mut ends = Ends::<V>::new(&quantizer);
            slabs.tokenize::<V>(&chunk, &layout, (&quantizer, axes), buffers, shared, &mut ends).unwrap();
            assert!(contents(shared.plane.tokens_mut()) == contents(&expected), "{scalar:?} {dims:?} along {:b}", axes.to_byte());
            assert_eq!(shared.exceptions.words(), marked.words(), "{scalar:?} {dims:?}");
        }
    }

    #[test]
    fn slabs_have_the_tokens_of_whole_chunks() {
        // All chunks share the buffers: what one chunk leaves behind must not change the next chunk's tokens.
        let (mut shared, mut narrow, mut wide) = (Shared::default(), Buffers::default(), Buffers::default());
        let shapes: [&[u64]; 9] = [
            &[64, 64, 64],
            &[5, 100, 130],
            &[33, 31, 29],
            &[40, 1000],
            &[9000, 1],
            &[3, 40_000],
            &[6, 7, 20, 30],
            &[3, 2, 1, 16_384],
            &[50_000, 2],
        ];
        for dims in shapes.into_iter().filter(|dims| Slabs::new(&Shape::new(dims).unwrap()).is_some()) {
            check::<f32>(Scalar::F32, dims, &mut shared, &mut narrow);
            check::<f64>(Scalar::F64, dims, &mut shared, &mut wide);
            check::<crate::number::small_float::BFloat16>(Scalar::BF16, dims, &mut shared, &mut narrow);
        }
    }

    #[test]
    fn slabs_are_whole_rows_and_whole_words() {
        for (dims, rows) in [
            (&[64, 64, 64][..], Some(64)),
            (&[128, 128, 128], Some(32)),
            (&[100, 100, 100], Some(48)),
            (&[101, 101, 101], Some(64)),
            (&[100_000, 1], Some(4096)),
            (&[64, 64], None),
            (&[65, 64], Some(64)),
            (&[100_000], None),
            (&[100, 40_000], None),
            (&[100, 32_768], Some(1)),
        ] {
            let slabs = Slabs::new(&Shape::new(dims).unwrap());
            assert_eq!(slabs.map(|slabs| slabs.rows), rows, "{dims:?}");
        }
    }
}
