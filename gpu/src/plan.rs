//! Where a job's arrays stand in a session's memory, and the order of its launches.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr};
use quire_codec::stages::alphabet::SEGMENT;
use quire_codec::stages::exceptions::most_listed;
use quire_codec::stages::plane::{BIT_PLANES, is_interpolated};
use quire_codec::{Layout, Scalar, max_stream_len};

use crate::error::{Error, Reason, Result};
use crate::job::{
    AXIS, Address, Book, CHECKSUM_TILE, CHOOSE_THREADS, COARSE_THREADS, COARSE_VALUES, COLUMNS, COLUMNS_APART, COLUMNS_JOINED,
    COLUMNS_WHOLE, DECODE_TABLE_LEN, DecodeJob, DecodeParameters, DecodePlane, DecodeState, EXPAND_THREADS, EncodeJob,
    EncodeParameters, EncodePlane, EncodeResult, EncodeState, FEW_EXPAND_THREADS, GROUP, INDEX_TILE, LANE_SLOT, LANE_THREADS,
    LONG_ROWS, MIN_BLOCK_ROWS, PLANES, ROW_TILE, ROW_TILES, ROWS_BLOCK_LOG, SHORT_ROWS, Shape, THREADS,
};
use crate::launch::{Kernels, TypeKernels, launch};
use crate::memory::{Arena, clear};

/// Threads of a block that encodes lanes.
const WARP: u32 = 32;
/// Segments a multiprocessor up to which a job has few: its longest block takes longer than all others side by side.
const FEW_SEGMENTS: usize = 2;
/// Words that a thread clears.
const WORDS_CLEARED: usize = 4;
/// Blocks of threads that fetch a stream: as many as keep the bus busy.
const FETCHING: u32 = 64;

/// What launches depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) scalar: Scalar,
    pub(crate) shape: quire_codec::Shape,
    pub(crate) chunks: usize,
    pub(crate) variant: Variant,
}

/// What else launches depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Compressing.
    Encode(EncodeVariant),
    /// Decompressing.
    Decode(DecodeVariant),
}

/// What the launches that compress depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodeVariant {
    /// The host has seen that the chunks are neither constant nor on a lattice.
    pub(crate) inspected: bool,
    /// Streams go to the host.
    pub(crate) to_host: bool,
    /// Values are interpolated; otherwise differences are coded.
    pub(crate) interpolated: bool,
    /// The grid is linear.
    pub(crate) linear: bool,
    /// Planes are coded as bit planes; otherwise as tokens.
    pub(crate) bit_planes: bool,
}

/// What the launches that decompress depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecodeVariant {
    /// How exceptions are to be restored.
    pub(crate) exceptions: Exceptions,
    /// Whether there are several rows, and blocks hold whole ones and are short enough to be put together in shared memory.
    pub(crate) rows_in_blocks: bool,
    /// Where columns of those rows are summed.
    pub(crate) columns: Columns,
    /// Values are interpolated.
    pub(crate) interpolated: bool,
    /// The last pass over codes, or all passes over residuals, write values: the grid is linear, and values are as long as their codes.
    pub(crate) in_place: bool,
    /// Planes may have tokens.
    pub(crate) tokens: bool,
    /// Planes may be bit planes.
    pub(crate) bit_planes: bool,
    /// The kernels fetch the stream from pinned memory.
    pub(crate) fetched: bool,
}

impl DecodeVariant {
    /// The variant for a stream, by its number of exceptions and the header of the plane of its codes, as far as it is there.
    pub(crate) fn new(shape: &quire_codec::Shape, in_place: bool, exceptions: u64, plane: &[u8]) -> Self {
        let interpolated = is_interpolated(plane);
        let block_log = plane.get(1).copied().unwrap_or(0);
        let exceptions = Exceptions::of(exceptions, shape.elements());
        let are_bit_planes = plane.get(2) == Some(&BIT_PLANES);
        // Where the planes of exceptions begin is not known here.
        let any = exceptions == Exceptions::Many;
        let rows_in_blocks = !interpolated
            && block_log <= ROWS_BLOCK_LOG
            && (1usize << block_log).is_multiple_of(shape.row())
            && shape.elements() > shape.row() as u64;
        let columns = if rows_in_blocks { Columns::of(shape, 1 << block_log) } else { Columns::Apart };
        Self {
            exceptions,
            rows_in_blocks,
            columns,
            interpolated,
            in_place,
            tokens: any || !are_bit_planes,
            bit_planes: any || are_bit_planes,
            fetched: false,
        }
    }

    /// A variant that suits both, unless only one is interpolated, or written in place.
    pub(crate) fn join(self, other: Self) -> Option<Self> {
        let exceptions = if self.exceptions as u8 > other.exceptions as u8 { self.exceptions } else { other.exceptions };
        let rows_in_blocks = self.rows_in_blocks && other.rows_in_blocks;
        let columns = if self.columns == other.columns { self.columns } else { Columns::Apart };
        ((self.interpolated, self.in_place) == (other.interpolated, other.in_place)).then_some(Self {
            exceptions,
            rows_in_blocks,
            columns,
            interpolated: self.interpolated,
            in_place: self.in_place,
            tokens: self.tokens || other.tokens,
            bit_planes: self.bit_planes || other.bit_planes,
            fetched: false,
        })
    }
}

/// How columns of codes are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// In a pass of their own.
    Apart,
    /// Within blocks, each of which holds a part of columns; then these are joined.
    Joined,
    /// Within blocks that hold whole ones.
    Whole,
}

impl Columns {
    /// For blocks of so many values that hold whole rows.
    fn of(shape: &quire_codec::Shape, block: usize) -> Self {
        // Threads stand side by side in a row, and the pass along the third axis joins the columns.
        const MIN_ROW: usize = 32;
        match shape.extents()[..shape.dims().len()] {
            [row, columns, behind, ..] if row >= MIN_ROW && columns > 1 && behind > 1 => {
                let plane = row * columns;
                if block.is_multiple_of(plane) {
                    Self::Whole
                } else if plane.is_multiple_of(block) && block >= MIN_BLOCK_ROWS * row {
                    Self::Joined
                } else {
                    Self::Apart
                }
            }
            _ => Self::Apart,
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Apart => COLUMNS_APART,
            Self::Joined => COLUMNS_JOINED,
            Self::Whole => COLUMNS_WHOLE,
        }
    }
}

/// Which launches exceptions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceptions {
    None,
    /// They stand in a list.
    Listed,
    /// They have planes, in some chunks of a batch at least.
    Many,
}

impl Exceptions {
    fn of(count: u64, elements: u64) -> Self {
        if count == 0 {
            Self::None
        } else if count <= most_listed(elements) {
            Self::Listed
        } else {
            Self::Many
        }
    }
}

/// Sizes that both directions share.
struct Sizes {
    chunks: usize,
    elements: usize,
    segments: usize,
    groups: usize,
    /// Exceptions of a chunk that stand in a list.
    most_listed: usize,
    /// Bytes of a value, and of its code.
    value: usize,
    code: usize,
}

impl Sizes {
    fn new(key: &Key) -> Self {
        let elements = key.shape.elements() as usize;
        let segments = elements.div_ceil(SEGMENT);
        let most_listed = most_listed(elements as u64) as usize;
        let (value, code) = (key.scalar.size(), key.scalar.code_size());
        Self { chunks: key.chunks, elements, segments, groups: segments.div_ceil(GROUP), most_listed, value, code }
    }

    fn per_value(&self, arena: &mut Arena, size: usize) -> Address {
        arena.take(self.chunks * self.elements, size)
    }

    fn per_segment(&self, arena: &mut Arena, size: usize) -> Address {
        arena.take(self.chunks * self.segments, size)
    }

    fn per_group(&self, arena: &mut Arena) -> Address {
        arena.take(self.chunks * self.groups, 4)
    }

    /// Blocks of threads for `items` pieces of work a chunk: as many as fill the device a few times over, no more than there is work.
    fn grid(&self, multiprocessors: u32, per_multiprocessor: u32, items: usize) -> (u32, u32, u32) {
        let chunks = self.chunks as u32;
        let wanted = (multiprocessors * per_multiprocessor).div_ceil(chunks).max(if chunks > 1 { 4 } else { 1 });
        (wanted.min(items as u32).max(1), chunks, 1)
    }
}

/// Words from a job's states on that hold `bytes` bytes, and how many blocks of threads clear them. Arrays begin at whole words.
fn words_to_clear(bytes: usize, multiprocessors: u32) -> (u32, u32) {
    let words = bytes.div_ceil(4);
    let blocks = words.div_ceil(WORDS_CLEARED * THREADS as usize).min(4 * multiprocessors as usize);
    (words as u32, blocks as u32)
}

fn shape(shape: &quire_codec::Shape) -> Shape {
    let mut result = Shape {
        rank: shape.dims().len() as u32,
        elements: shape.elements() as u32,
        extents: [1; 4],
        strides: [1; 4],
        advance: [0; 4],
    };
    let (mut stride, mut rest) = (1, THREADS);
    for axis in 0..4 {
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

/// A job for compressing chunks of one layout.
pub(crate) struct EncodePlan {
    pub(crate) job: EncodeJob,
    /// Parameters and input, in one piece.
    pub(crate) input: Address,
    /// Bytes from the states on that are 0 at first.
    zeroed: usize,
    scalar: Scalar,
    variant: EncodeVariant,
    sizes: Sizes,
}

impl EncodePlan {
    /// A plan with offsets in place of addresses; the second is the length of the memory it needs.
    pub(crate) fn new(key: &Key, layout: &Layout, variant: EncodeVariant) -> (Self, usize) {
        let sizes = Sizes::new(key);
        let mut arena = Arena::default();
        let states = arena.take(sizes.chunks, size_of::<EncodeState>());
        let exception_groups = sizes.per_group(&mut arena);
        let groups: [Address; PLANES] = std::array::from_fn(|_| sizes.per_group(&mut arena));
        // Interpolation marks exceptions in a mask that is empty at first. Everything has the same place whether a chunk is interpolated or
        // not: the chunk is sent before that is known.
        let before_mask = arena.len();
        let mask = sizes.per_segment(&mut arena, SEGMENT / 8);
        let zeroed = if variant.interpolated { arena.len() } else { before_mask };
        let input_stride = sizes.elements * sizes.value;
        let input = arena.take(size_of::<EncodeParameters>() + sizes.chunks * input_stride, 1);
        // 33 bits a 32-bit difference, 65 a 64-bit one, and one and a little for the mask: see `EXTRA_WORDS` in `kernels/tokens.cu`.
        let wide = SEGMENT * (8 * sizes.code + 1) / 32;
        let planes = std::array::from_fn(|number| {
            let extra_stride = if number == 1 { 72 } else { wide };
            EncodePlane {
                symbols: sizes.per_segment(&mut arena, SEGMENT),
                extra: sizes.per_segment(&mut arena, 4 * extra_stride),
                token_counts: sizes.per_segment(&mut arena, 4),
                extra_bits: sizes.per_segment(&mut arena, 4),
                lane_words: sizes.per_segment(&mut arena, 2 * LANE_SLOT),
                lane_sizes: sizes.per_segment(&mut arena, 4),
                block_sizes: sizes.per_segment(&mut arena, 4),
                groups: groups[number],
                book: arena.take(sizes.chunks, size_of::<Book>()),
                extra_stride: extra_stride as u64,
            }
        });
        let output_stride = max_stream_len(layout).next_multiple_of(16);
        let job = EncodeJob {
            shape: shape(&key.shape),
            chunks: sizes.chunks as u32,
            segments: sizes.segments as u32,
            groups: sizes.groups as u32,
            most_listed: sizes.most_listed as u32,
            bit_planes: u32::from(variant.bit_planes),
            inspected: u32::from(variant.inspected),
            interpolated: u32::from(variant.interpolated),
            reserved: 0,
            tables: 0,
            parameters: input,
            host_parameters: 0,
            input: input + size_of::<EncodeParameters>() as u64,
            input_stride: input_stride as u64,
            codes: sizes.per_value(&mut arena, sizes.code),
            places: sizes.per_value(&mut arena, 4),
            exception_bits: sizes.per_value(&mut arena, sizes.code),
            exception_list: arena.take(sizes.chunks * sizes.most_listed, 4),
            mask,
            first_valid: sizes.per_segment(&mut arena, 4),
            last_valid: sizes.per_segment(&mut arena, 4),
            exception_counts: sizes.per_segment(&mut arena, 4),
            exception_groups,
            states,
            planes,
            output: arena.take(sizes.chunks, output_stride as usize),
            output_stride,
            host_output: 0,
            results: arena.take(sizes.chunks, size_of::<EncodeResult>()),
            host_results: 0,
        };
        (Self { job, input, zeroed, scalar: key.scalar, variant, sizes }, arena.len())
    }

    /// Turns offsets into addresses.
    pub(crate) fn place(&mut self, base: Address) {
        let job = &mut self.job;
        for address in [
            &mut self.input,
            &mut job.parameters,
            &mut job.input,
            &mut job.codes,
            &mut job.places,
            &mut job.exception_bits,
            &mut job.exception_list,
            &mut job.mask,
            &mut job.first_valid,
            &mut job.last_valid,
            &mut job.exception_counts,
            &mut job.exception_groups,
            &mut job.states,
            &mut job.output,
            &mut job.results,
        ] {
            *address += base;
        }
        for plane in &mut job.planes {
            for address in [
                &mut plane.symbols,
                &mut plane.extra,
                &mut plane.token_counts,
                &mut plane.extra_bits,
                &mut plane.lane_words,
                &mut plane.lane_sizes,
                &mut plane.block_sizes,
                &mut plane.groups,
                &mut plane.book,
            ] {
                *address += base;
            }
        }
    }

    /// The launches, in order, with a name each. `observe` is called after each one, and may time it.
    pub(crate) fn enqueue(
        &self,
        stream: &Arc<CudaStream>,
        kernels: &Kernels,
        multiprocessors: u32,
        mut observe: impl FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let TypeKernels { linear, interpolation, quantize_any, fill_gaps, tokenize, shuffle, assemble, .. } =
            kernels.of_type(self.scalar);
        let grid = |per_multiprocessor| self.sizes.grid(multiprocessors, per_multiprocessor, self.sizes.segments);
        let job = &self.job;
        let (words, blocks) = words_to_clear(self.zeroed, multiprocessors);
        launch(stream, &kernels.begin, (blocks, 1, 1), THREADS, job, &[words])?;
        observe("begin")?;
        // A type without this kernel has no lattices, and its chunks are equal all over if the host has not seen otherwise.
        if !self.variant.inspected
            && let Some(linear) = linear
        {
            launch(stream, &linear.inspect, grid(2), THREADS, job, &[])?;
            observe("1 inspect")?;
        }
        if self.variant.interpolated {
            let pair = &known(interpolation)?.interpolate;
            interpolate(stream, pair, job, &job.shape, &self.sizes, multiprocessors, &mut observe)?;
            launch(stream, &kernels.count_marked, grid(8), THREADS, job, &[])?;
            observe("1 count")?;
        } else {
            let quantize = if self.variant.linear { &known(linear)?.quantize } else { quantize_any };
            launch(stream, quantize, grid(16), THREADS, job, &[])?;
            observe("1 quantize")?;
        }
        launch(stream, fill_gaps, grid(16), THREADS, job, &[])?;
        observe("1 exceptions")?;
        if self.variant.bit_planes {
            let (blocks, chunks, _) = grid(16);
            launch(stream, shuffle, (blocks, chunks, 2), THREADS, job, &[])?;
            observe("2, 5 bit planes")?;
        } else {
            let (blocks, chunks, _) = grid(4);
            launch(stream, tokenize, (blocks, chunks, 2), THREADS, job, &[])?;
            observe("2, 3 tokens")?;
            launch(stream, &kernels.choose, (PLANES as u32, job.chunks, 1), CHOOSE_THREADS, job, &[])?;
            observe("4 choose")?;
            launch(stream, &kernels.encode_lanes, grid(32), WARP, job, &[])?;
            observe("5 lanes")?;
        }
        launch(stream, assemble, grid(8), THREADS, job, &[])?;
        observe("assemble")?;
        let tiles = job.output_stride.div_ceil(CHECKSUM_TILE as u64) as usize;
        launch(stream, &kernels.seal, self.sizes.grid(multiprocessors, 3, tiles), THREADS, job, &[])?;
        observe("checksum")
    }
}

/// A job for decompressing streams of one layout.
pub(crate) struct DecodePlan {
    pub(crate) job: DecodeJob,
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

    /// As [`EncodePlan::new`].
    pub(crate) fn new(key: &Key, layout: &Layout, variant: DecodeVariant) -> (Self, usize) {
        let sizes = Sizes::new(key);
        let mut arena = Arena::default();
        let states = arena.take(sizes.chunks, size_of::<DecodeState>());
        let exception_groups = sizes.per_group(&mut arena);
        let zeroed = arena.len();
        let input_stride = (size_of::<DecodeParameters>() as u64 + max_stream_len(layout)).next_multiple_of(256);
        let input = arena.take(sizes.chunks, input_stride as usize);
        let planes: [DecodePlane; PLANES] = std::array::from_fn(|number| {
            let size = if number == 1 { 1 } else { sizes.code };
            // Planes that there are not take no room.
            let here = number == 0 || variant.exceptions == Exceptions::Many;
            let sizes = if here { Sizes { ..sizes } } else { Sizes { elements: 1, segments: 1, ..sizes } };
            let stride = sizes.elements.next_multiple_of(16);
            DecodePlane {
                values: arena.take(sizes.chunks * stride, size),
                stride: stride as u64,
                lane_starts: sizes.per_segment(&mut arena, 4),
                lane_sizes: sizes.per_segment(&mut arena, 4),
                extra_sizes: sizes.per_segment(&mut arena, 4),
                symbols: if variant.tokens { sizes.per_segment(&mut arena, SEGMENT) } else { 0 },
                lane_ends: if variant.tokens { sizes.per_segment(&mut arena, 8) } else { 0 },
                custom_table: arena.take(sizes.chunks, 2 * DECODE_TABLE_LEN),
                table: arena.take(sizes.chunks, 8),
            }
        });
        // Values take the places of their codes, unless they would overwrite other codes: shorter ones would, and those of an interpolated
        // chunk, which stand in another order than their residuals.
        let (output, stride) = if sizes.value == sizes.code && !variant.interpolated {
            (planes[0].values, planes[0].stride)
        } else {
            (sizes.per_value(&mut arena, sizes.value), sizes.elements as u64)
        };
        let edge_stride = if variant.columns == Columns::Joined { sizes.elements / MIN_BLOCK_ROWS } else { 0 };
        let edges = |arena: &mut Arena| arena.take(sizes.chunks * edge_stride, sizes.code);
        let job = DecodeJob {
            shape: shape(&key.shape),
            chunks: sizes.chunks as u32,
            segments: sizes.segments as u32,
            groups: sizes.groups as u32,
            most_listed: sizes.most_listed as u32,
            rows_in_blocks: u32::from(variant.rows_in_blocks),
            columns_in_blocks: variant.columns.number(),
            interpolated: u32::from(variant.interpolated),
            reserved: 0,
            tables: 0,
            input,
            host_input: 0,
            input_stride,
            planes,
            places: if variant.interpolated { sizes.per_value(&mut arena, 4) } else { 0 },
            row_sums: arena.take(sizes.chunks * PLANES * 2 * sizes.elements.div_ceil(ROW_TILE), 8),
            edges: edges(&mut arena),
            carries: edges(&mut arena),
            edge_stride: edge_stride as u64,
            exception_counts: sizes.per_segment(&mut arena, 4),
            exception_groups,
            states,
            output,
            output_stride: stride * sizes.value as u64,
            host_results: 0,
        };
        (Self { job, zeroed, scalar: key.scalar, variant, sizes }, arena.len())
    }

    /// As [`EncodePlan::place`].
    pub(crate) fn place(&mut self, base: Address) {
        let job = &mut self.job;
        for address in [
            &mut job.input,
            &mut job.places,
            &mut job.row_sums,
            &mut job.edges,
            &mut job.carries,
            &mut job.exception_counts,
            &mut job.exception_groups,
            &mut job.states,
            &mut job.output,
        ] {
            *address += base;
        }
        for plane in &mut job.planes {
            for address in [
                &mut plane.values,
                &mut plane.lane_starts,
                &mut plane.lane_sizes,
                &mut plane.extra_sizes,
                &mut plane.symbols,
                &mut plane.lane_ends,
                &mut plane.custom_table,
                &mut plane.table,
            ] {
                *address += base;
            }
        }
    }

    /// As [`EncodePlan::enqueue`].
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
            clear(stream, job.states, self.zeroed)?;
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
            let are_few = sizes.chunks * sizes.segments <= FEW_SEGMENTS * multiprocessors as usize;
            let (which, threads) = if are_few { (1, FEW_EXPAND_THREADS) } else { (0, EXPAND_THREADS) };
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
            self.passes(self.variant.rows_in_blocks, self.variant.columns != Columns::Apart)
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

/// Most levels: extents have 32 bits.
const MOST_LEVELS: usize = 33;

/// Levels of an interpolated chunk, by number: level `l` is the grid of every `2^l`-th value.
struct Levels {
    rank: u32,
    /// Extents of each grid; behind the coarsest, its own again.
    extents: [[usize; 4]; MOST_LEVELS],
    /// Number of the coarsest grid, a single value.
    coarsest: usize,
    /// The first grid that one block of threads does, with all coarser ones.
    coarse: usize,
}

impl Levels {
    fn new(shape: &Shape) -> Self {
        let mut next = shape.extents.map(|extent| extent as usize);
        let extents = [(); MOST_LEVELS].map(|()| {
            let extents = next;
            next = next.map(|extent| extent.div_ceil(2));
            extents
        });
        let is_coarse = |extents: &[usize; 4]| extents.iter().product::<usize>() <= COARSE_VALUES;
        let coarsest = extents.iter().position(|&extents| extents == [1; 4]).unwrap_or(MOST_LEVELS - 1);
        let coarse = extents.iter().position(is_coarse).unwrap_or(coarsest);
        Self { rank: shape.rank, extents, coarsest, coarse }
    }

    /// What the kernel for the coarse levels is told.
    fn coarse(&self) -> [u32; 2] {
        [self.coarse as u32, self.coarsest as u32]
    }

    /// What the kernel for a pass of a fine level is told, and how many values are new there.
    fn passes(&self) -> impl Iterator<Item = ([u32; 2], usize)> {
        (0..self.coarse)
            .rev()
            .flat_map(move |level| (1..=self.rank).map(move |size| ([level as u32, size], new_along(&self.extents[level], size))))
    }
}

/// Values of a grid that are new along so many axes.
fn new_along(extents: &[usize; 4], axes: u32) -> usize {
    let class = |set: u32| -> usize {
        extents
            .iter()
            .enumerate()
            .map(|(axis, extent)| if set >> axis & 1 == 1 { extent / 2 } else { extent.div_ceil(2) })
            .product()
    };
    (1u32..16).filter(|set| set.count_ones() == axes).map(class).sum()
}

/// Launches the kernels of all levels, either way: the first for the coarse ones, the second for each pass of a fine one.
fn interpolate<J: DeviceRepr>(
    stream: &CudaStream,
    [coarse, pass]: &[CudaFunction; 2],
    job: &J,
    shape: &Shape,
    sizes: &Sizes,
    multiprocessors: u32,
    observe: &mut impl FnMut(&'static str) -> Result<()>,
) -> Result<()> {
    let levels = Levels::new(shape);
    launch(stream, coarse, (1, sizes.chunks as u32, 1), COARSE_THREADS, job, &levels.coarse())?;
    observe("2' coarse levels")?;
    for (numbers, values) in levels.passes() {
        let grid = sizes.grid(multiprocessors, 8, values.div_ceil(THREADS as usize));
        launch(stream, pass, grid, THREADS, job, &numbers)?;
        observe("2' fine levels")?;
    }
    Ok(())
}

/// A pass over a plane: part of a launch of `restore_planes`.
struct Pass {
    kind: u32,
    axis: u32,
    /// Pieces of work.
    items: usize,
}

/// Kernels for a grid that not every type has.
fn known<T>(kernels: &Option<T>) -> Result<&T> {
    kernels
        .as_ref()
        .ok_or_else(|| Error::Unsupported(Reason::from("the GPU has no kernels for values of this type with such a grid")))
}
