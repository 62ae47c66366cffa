//! Decompressing: arrays and launches.

use cudarc::driver::CudaStream;
use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::{Scalar, max_stream_len};

use super::key::{Columns, DecodeVariant, Exceptions, Key};
use super::levels::interpolate;
use super::sizes::{Sizes, known, shape, words_to_clear};
use super::{Memory, Plan};
use crate::declare::{ConstPointer, Pointer};
use crate::error::Result;
use crate::job::{
    AXIS, CHECKSUM_PIECE, CODES, COLUMNS, DECODE_TABLE_LEN, DecodeJob, DecodeParameters, DecodePlane, EXPAND_THREADS,
    FEW_SEGMENTS_EXPAND_THREADS, INDEX_PART, LANE_THREADS, LONG_ROWS, MASK, MIN_BLOCK_ROWS, PLANES, PlanePass, PlanePasses,
    ROW_PART, ROW_PARTS, SHORT_ROWS, Shape, THREADS,
};
use crate::loaded::Loaded;
use crate::memory::{Arena, Gaps, clear};

/// With up to this number of segments for each multiprocessor, a job takes as long as the longest block of its stream.
const FEW_SEGMENTS: usize = 2;

/// Blocks of threads that fetch a stream: enough to keep the bus busy.
const FETCHING: u32 = 64;

/// A job for decompressing streams of one layout.
pub(crate) struct DecodePlan {
    pub(crate) job: DecodeJob,
    /// Bytes of all arrays.
    len: usize,
    /// Bytes from the states on that are 0 when the job begins.
    zeroed: usize,
    gaps: Gaps,
    scalar: Scalar,
    variant: DecodeVariant,
    sizes: Sizes,
}

impl Plan for DecodePlan {
    type Variant = DecodeVariant;

    fn new(key: &Key<DecodeVariant>, memory: &Memory) -> Self {
        let Key { layout, variant, .. } = *key;
        let sizes = Sizes::new(key);
        let chunks = sizes.chunks;
        let mut arena = Arena::new(memory.arrays);
        let states = arena.take(chunks);
        let exception_sums = arena.take(sizes.all_sums());
        let zeroed = arena.len();
        let input_stride = (size_of::<DecodeParameters>() as u64 + max_stream_len(&layout)).next_multiple_of(256);
        let input = arena.take(chunks * input_stride as usize);
        let planes: [DecodePlane; PLANES] = std::array::from_fn(|plane| {
            let size = if plane == MASK { 1 } else { sizes.code };
            // A plane that no stream of this variant has gets arrays of the shortest chunk.
            let is_there = plane == CODES || variant.exceptions == Exceptions::Many;
            let (elements, segments) = if is_there { (sizes.elements, sizes.all_segments()) } else { (1, chunks) };
            let stride = elements.next_multiple_of(16);
            DecodePlane {
                values: arena.take_sized(chunks * stride, size),
                stride: stride as u64,
                lane_starts: arena.take(segments),
                lane_or_bit_plane_words: arena.take(segments),
                extra_sizes: arena.take(segments),
                symbols: if variant.tokens { arena.take(segments * SEGMENT) } else { Pointer::NULL },
                lane_ends: if variant.tokens { arena.take(segments) } else { Pointer::NULL },
                custom_table: arena.take(chunks * DECODE_TABLE_LEN),
                table: arena.take(chunks),
            }
        });
        // Values overwrite their own codes, except where they would overwrite codes of other values: shorter values would, and those of an
        // interpolated chunk, whose residuals are in another order.
        let (output, stride) = if variant.resident {
            (Pointer::NULL, 0)
        } else if sizes.value == sizes.code && !variant.interpolated {
            (Pointer::new(planes[CODES].values.address()), planes[CODES].stride)
        } else {
            (arena.take(sizes.values() * sizes.value), sizes.elements as u64)
        };
        let edge_stride = if variant.columns == Columns::Joined { sizes.elements / MIN_BLOCK_ROWS } else { 0 };
        let job = DecodeJob {
            shape: shape(&layout.shape),
            chunks: chunks as u32,
            segments: sizes.segments as u32,
            sums: sizes.sums as u32,
            most_listed: sizes.most_listed as u32,
            rows_in_blocks: u32::from(variant.rows_in_blocks),
            columns_in_blocks: variant.columns.number(),
            interpolated: u32::from(variant.interpolated),
            reserved: 0,
            tables: memory.tables,
            input,
            host_input: ConstPointer::new(memory.inbox),
            input_stride,
            planes,
            positions: if variant.interpolated { arena.take(sizes.values()) } else { Pointer::NULL },
            row_sums: arena.take(chunks * PLANES * 2 * sizes.elements.div_ceil(ROW_PART)),
            edges: arena.take_sized(chunks * edge_stride, sizes.code),
            carries: arena.take_sized(chunks * edge_stride, sizes.code),
            edge_stride: edge_stride as u64,
            exception_counts: arena.take(sizes.all_segments()),
            exception_sums,
            states,
            outputs: ConstPointer::new(memory.values),
            output,
            output_stride: stride * sizes.value as u64,
            host_results: Pointer::new(memory.results),
        };
        Self { job, len: arena.len(), zeroed, gaps: arena.gaps, scalar: layout.scalar, variant, sizes }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn enqueue(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        let (words, blocks) = words_to_clear(self.zeroed, loaded.multiprocessors);
        if self.variant.fetched {
            loaded.kernels.fetch.launch(stream, (blocks.max(FETCHING), 1, 1), THREADS, &self.job, words)?;
        } else {
            clear(stream, self.job.states.address(), self.zeroed)?;
        }
        self.gaps.watch(stream, || self.enqueue_decoding(stream, loaded))
    }
}

impl DecodePlan {
    /// Launches the kernels that decode a stream.
    fn enqueue_decoding(&self, stream: &CudaStream, loaded: &Loaded) -> Result<()> {
        let Loaded { kernels, multiprocessors, .. } = loaded;
        let Self { job, sizes, variant, .. } = self;
        let of_type = kernels.of_type(self.scalar);
        let grid = |per_multiprocessor, items| sizes.grid(*multiprocessors, per_multiprocessor, items);
        let segment_grid = |per_multiprocessor| grid(per_multiprocessor, sizes.segments);
        // The first blocks of threads are for the index, the others for the checksum.
        let (blocks, chunks, _) = grid(3, job.input_stride.div_ceil(CHECKSUM_PIECE as u64) as usize);
        let index_parts = sizes.segments.div_ceil(INDEX_PART) as u32;
        kernels.open_stream.launch(stream, (blocks + index_parts, chunks, 1), THREADS, job, ())?;
        if variant.tokens {
            kernels.decode_lanes.launch(stream, segment_grid(9), LANE_THREADS, job, ())?;
            // Decoding few segments in blocks of one warp each gained nothing.
            let are_few = sizes.all_segments() <= FEW_SEGMENTS * *multiprocessors as usize;
            let (expand, threads) = match are_few {
                true => (&of_type.expand_few, FEW_SEGMENTS_EXPAND_THREADS),
                false => (&of_type.expand, EXPAND_THREADS),
            };
            expand.launch(stream, segment_grid(16), threads, job, ())?;
        }
        if variant.bit_planes {
            of_type.unshuffle.launch(stream, segment_grid(12), LANE_THREADS, job, ())?;
        }
        if variant.columns == Columns::Joined {
            let columns = sizes.elements / job.shape.extents[1] as usize;
            of_type.join_columns.launch(stream, grid(8, columns.div_ceil(THREADS as usize)), THREADS, job, ())?;
        }
        let (rows_are_done, columns_are_done) = (variant.rows_in_blocks, variant.columns != Columns::ByPass);
        let codes = (!variant.interpolated).then(|| self.passes(rows_are_done, columns_are_done, *multiprocessors));
        let mask = (variant.exceptions == Exceptions::Many).then(|| self.passes(false, false, *multiprocessors));
        let (mut codes, mut mask) = (codes.into_iter().flatten().peekable(), mask.into_iter().flatten().peekable());
        while codes.peek().is_some() || mask.peek().is_some() {
            let of_codes = codes.next();
            // The codes' last pass writes values, if they go in place.
            let writes_values = u32::from(variant.in_place && of_codes.is_some() && codes.peek().is_none());
            let passes =
                PlanePasses { codes: of_codes.unwrap_or_default(), mask: mask.next().unwrap_or_default(), writes_values };
            let blocks = passes.codes.blocks + passes.mask.blocks;
            of_type.restore_planes.launch(stream, (blocks, job.chunks, 1), THREADS, job, passes)?;
        }
        if variant.interpolated {
            interpolate(stream, &known(&of_type.interpolation)?.restore, job, &job.shape, sizes, *multiprocessors)?;
        }
        if !variant.in_place {
            of_type.restore_any.launch(stream, segment_grid(8), THREADS, job, ())?;
        }
        if variant.exceptions == Exceptions::None {
            return Ok(());
        }
        of_type.write_listed.launch(stream, grid(1, sizes.most_listed.div_ceil(THREADS as usize)), THREADS, job, ())?;
        if variant.exceptions == Exceptions::Many {
            for pass in [ROW_PARTS, LONG_ROWS] {
                of_type.restore_bits.launch(stream, grid(8, sizes.elements.div_ceil(ROW_PART)), THREADS, job, pass)?;
            }
            kernels.count_exceptions.launch(stream, segment_grid(8), THREADS, job, ())?;
            of_type.write_exceptions.launch(stream, segment_grid(8), THREADS, job, ())?;
        }
        Ok(())
    }

    /// The passes that undo the prediction of an array of the chunk's shape, in order: two for long rows, and one for each slower axis at the most.
    fn passes(&self, rows_are_done: bool, columns_are_done: bool, multiprocessors: u32) -> impl Iterator<Item = PlanePass> {
        let Shape { rank, extents, strides, .. } = self.job.shape;
        let length = extents[0] as usize;
        let rows = self.sizes.elements / length;
        let (kinds, items): (&[u32], _) = match length <= ROW_PART {
            _ if rows_are_done => (&[], 0),
            true => (&[SHORT_ROWS], rows.div_ceil(8)),
            false => (&[ROW_PARTS, LONG_ROWS], rows * length.div_ceil(ROW_PART)),
        };
        let of_rows = kinds.iter().map(move |&kind| (kind, 0, items));
        // Along an axis of one value there is nothing to sum.
        let axes = (if columns_are_done { 2 } else { 1 }..rank).filter(move |&axis| extents[axis as usize] > 1);
        let elements = self.sizes.elements as u32;
        let of_axes = axes.map(move |axis| {
            let (inner, extent) = (strides[axis as usize], extents[axis as usize]);
            let outer = elements / (inner * extent);
            (AXIS, axis, (outer * inner.div_ceil(COLUMNS)) as usize)
        });
        let blocks = move |items| self.sizes.grid(multiprocessors, 8, items).0;
        of_rows.chain(of_axes).map(move |(kind, axis, items)| PlanePass { kind, axis, blocks: blocks(items) })
    }
}

#[cfg(test)]
mod tests {
    use quire_codec::{ByteOrder, Layout, Shape};

    use super::*;

    /// Sets of resident chunks are as long as memory for the largest variant allows.
    #[test]
    fn no_variant_is_larger_than_the_largest() {
        for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::U8] {
            let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[5, 64, 96]).unwrap() };
            let needed = |variant| DecodePlan::needed(&Key { layout, chunks: 3, variant });
            let largest = needed(DecodeVariant::LARGEST);
            for flags in 0..32u32 {
                let [rows_in_blocks, interpolated, in_place, tokens, bit_planes] =
                    std::array::from_fn(|bit| flags >> bit & 1 == 1);
                let variant =
                    DecodeVariant { rows_in_blocks, interpolated, in_place, tokens, bit_planes, ..DecodeVariant::LARGEST };
                for exceptions in [Exceptions::None, Exceptions::Listed, Exceptions::Many] {
                    for columns in [Columns::ByPass, Columns::Joined, Columns::Whole] {
                        assert!(needed(DecodeVariant { exceptions, columns, ..variant }) <= largest);
                    }
                }
            }
        }
    }
}
