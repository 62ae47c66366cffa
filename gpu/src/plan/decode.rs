//! Decompressing: arrays and launches.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::{Layout, Scalar, max_stream_len};

use super::Memory;
use super::key::{Columns, DecodeVariant, Exceptions, Key};
use super::levels::interpolate;
use super::sizes::{Sizes, known, shape, words_to_clear};
use crate::declare::{ConstPointer, Pointer};
use crate::error::Result;
use crate::job::{
    AXIS, CHECKSUM_TILE, CODES, COLUMNS, DECODE_TABLE_LEN, DecodeJob, DecodeParameters, DecodePlane, EXPAND_THREADS,
    FEW_SEGMENTS_EXPAND_THREADS, INDEX_TILE, LANE_THREADS, LONG_ROWS, MASK, MIN_BLOCK_ROWS, PLANES, ROW_TILE, ROW_TILES,
    SHORT_ROWS, Shape, THREADS,
};
use crate::launch::{Kernels, launch};
use crate::memory::{Arena, clear};

/// Up to this many segments a multiprocessor, a job takes as long as its longest block of the stream.
const FEW_SEGMENTS: usize = 2;

/// Blocks of threads that fetch a stream: enough to keep the bus busy.
const FETCHING: u32 = 64;

/// A job for decompressing streams of one layout.
pub(crate) struct DecodePlan {
    pub(crate) job: DecodeJob,
    /// Bytes of all arrays.
    pub(crate) len: usize,
    /// Bytes from the states on that are 0 when the job begins.
    zeroed: usize,
    scalar: Scalar,
    variant: DecodeVariant,
    sizes: Sizes,
}

impl DecodePlan {
    /// Bytes of a chunk.
    pub(crate) fn chunk_len(&self) -> usize {
        self.sizes.elements * self.sizes.value
    }

    /// A plan whose arrays are in this memory.
    pub(crate) fn new(key: &Key, layout: &Layout, variant: DecodeVariant, memory: &Memory) -> Self {
        let sizes = Sizes::new(key);
        let chunks = sizes.chunks;
        let mut arena = Arena::new(memory.arrays);
        let states = arena.take(chunks);
        let exception_sums = arena.take(sizes.all_sums());
        let zeroed = arena.len();
        let input_stride = (size_of::<DecodeParameters>() as u64 + max_stream_len(layout)).next_multiple_of(256);
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
            shape: shape(&key.shape),
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
            row_sums: arena.take(chunks * PLANES * 2 * sizes.elements.div_ceil(ROW_TILE)),
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
        Self { job, len: arena.len(), zeroed, scalar: key.scalar, variant, sizes }
    }

    /// Launches the kernels in order. `observe` is called with a name after each step, and may time it.
    pub(crate) fn enqueue(
        &self,
        stream: &Arc<CudaStream>,
        kernels: &Kernels,
        multiprocessors: u32,
        mut observe: impl FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let of_type = kernels.of_type(self.scalar);
        let job = &self.job;
        let sizes = &self.sizes;
        let segment_grid = |per_multiprocessor| sizes.grid(multiprocessors, per_multiprocessor, sizes.segments);
        let (words, blocks) = words_to_clear(self.zeroed, multiprocessors);
        if self.variant.fetched {
            launch(stream, &kernels.fetch, (blocks.max(FETCHING), 1, 1), THREADS, job, &[words])?;
            observe("fetch")?;
        } else {
            clear(stream, job.states.address(), self.zeroed)?;
            observe("clear")?;
        }
        // The first blocks of threads are for the index, the others for the checksum.
        let tiles = job.input_stride.div_ceil(CHECKSUM_TILE as u64) as usize;
        let (blocks, chunks, _) = sizes.grid(multiprocessors, 3, tiles);
        let index_parts = sizes.segments.div_ceil(INDEX_TILE) as u32;
        launch(stream, &kernels.open_stream, (blocks + index_parts, chunks, 1), THREADS, job, &[])?;
        observe("index and checksum")?;
        if self.variant.tokens {
            launch(stream, &kernels.decode_lanes, segment_grid(9), LANE_THREADS, job, &[])?;
            observe("5 lanes")?;
            // Decoding lanes in blocks of one warp each, where they are few, gained nothing.
            let are_few = sizes.all_segments() <= FEW_SEGMENTS * multiprocessors as usize;
            let (which, threads) = if are_few { (1, FEW_SEGMENTS_EXPAND_THREADS) } else { (0, EXPAND_THREADS) };
            launch(stream, &of_type.expand[which], segment_grid(16), threads, job, &[])?;
            observe("3 tokens")?;
        }
        if self.variant.bit_planes {
            launch(stream, &of_type.unshuffle, segment_grid(12), LANE_THREADS, job, &[])?;
            observe("5 bit planes")?;
        }

        if self.variant.columns == Columns::Joined {
            let columns = sizes.elements / job.shape.extents[1] as usize;
            let grid = sizes.grid(multiprocessors, 8, columns.div_ceil(THREADS as usize));
            launch(stream, &of_type.join_columns, grid, THREADS, job, &[])?;
            observe("2 columns")?;
        }
        // The codes' last pass writes values, if they go in place.
        let codes = if self.variant.interpolated {
            Passes::default()
        } else {
            self.passes(self.variant.rows_in_blocks, self.variant.columns != Columns::ByPass)
        };
        let mask = if self.variant.exceptions == Exceptions::Many { self.passes(false, false) } else { Passes::default() };
        let idle = Pass { kind: AXIS, axis: 0, items: 0 };
        for at in 0..codes.len().max(mask.len()) {
            let blocks = |pass: &Pass| if pass.items == 0 { 0 } else { sizes.grid(multiprocessors, 8, pass.items).0 };
            let (of_codes, of_mask) = (codes.get(at).unwrap_or(&idle), mask.get(at).unwrap_or(&idle));
            let last = self.variant.in_place && at + 1 == codes.len();
            let grid = (blocks(of_codes) + blocks(of_mask), job.chunks, 1);
            let numbers = [blocks(of_codes), of_codes.kind, of_codes.axis, u32::from(last), of_mask.kind, of_mask.axis];
            launch(stream, &of_type.restore_planes, grid, THREADS, job, &numbers)?;
            observe(if last { "2, 1 values" } else { "2 sums" })?;
        }
        if self.variant.interpolated {
            let kernels = known(&of_type.interpolation)?;
            interpolate(stream, &kernels.restore, job, &job.shape, sizes, multiprocessors, &mut observe)?;
        }
        if !self.variant.in_place {
            launch(stream, &of_type.restore_any, segment_grid(8), THREADS, job, &[])?;
            observe("1 values")?;
        }
        if self.variant.exceptions == Exceptions::None {
            return Ok(());
        }
        let blocks = sizes.grid(multiprocessors, 1, sizes.most_listed.div_ceil(THREADS as usize));
        launch(stream, &of_type.write_listed, blocks, THREADS, job, &[])?;
        if self.variant.exceptions == Exceptions::Many {
            let grid = sizes.grid(multiprocessors, 8, sizes.elements.div_ceil(ROW_TILE));
            launch(stream, &of_type.restore_bits, grid, THREADS, job, &[ROW_TILES])?;
            launch(stream, &of_type.restore_bits, grid, THREADS, job, &[LONG_ROWS])?;
            launch(stream, &kernels.count_exceptions, segment_grid(8), THREADS, job, &[])?;
            launch(stream, &of_type.write_exceptions, segment_grid(8), THREADS, job, &[])?;
        }
        observe("1 exceptions")
    }

    /// The passes that undo the prediction of an array of the chunk's shape.
    fn passes(&self, rows_are_done: bool, columns_are_done: bool) -> Passes {
        let Shape { rank, extents, strides, .. } = self.job.shape;
        let length = extents[0] as usize;
        let rows = self.sizes.elements / length;
        let mut passes = Passes::default();
        if rows_are_done {
            // Where they were decoded; there is another axis, whose pass writes values.
        } else if length <= ROW_TILE {
            passes.push(Pass { kind: SHORT_ROWS, axis: 0, items: rows.div_ceil(8) });
        } else {
            let items = rows * length.div_ceil(ROW_TILE);
            passes.push(Pass { kind: ROW_TILES, axis: 0, items });
            passes.push(Pass { kind: LONG_ROWS, axis: 0, items });
        }
        for axis in if columns_are_done { 2 } else { 1 }..rank {
            // Along an axis of one value there is nothing to sum.
            if extents[axis as usize] > 1 {
                let (inner, extent) = (strides[axis as usize], extents[axis as usize]);
                let outer = self.sizes.elements as u32 / (inner * extent);
                passes.push(Pass { kind: AXIS, axis, items: (outer * inner.div_ceil(COLUMNS)) as usize });
            }
        }
        passes
    }
}

/// The passes over a plane, in order: two for long rows, and one for each slower axis at the most.
#[derive(Default)]
struct Passes {
    passes: [Option<Pass>; 5],
    count: usize,
}

impl Passes {
    fn push(&mut self, pass: Pass) {
        self.passes[self.count] = Some(pass);
        self.count += 1;
    }

    fn len(&self) -> usize {
        self.count
    }

    fn get(&self, at: usize) -> Option<&Pass> {
        self.passes.get(at)?.as_ref()
    }
}

/// A pass over a plane: part of a launch of `restore_planes`.
struct Pass {
    kind: u32,
    axis: u32,
    /// Pieces of work.
    items: usize,
}
