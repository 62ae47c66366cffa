//! Kernels measure the tiles on which a predictor is chosen. The codec decides by the counts of one chunk, and a kernel by those of a batch.
//!
//! ```text
//! chunk on the host ─ a copy of each tile ─> pinned memory ─> device memory ─ kernel, on a stream of its own ─> counts in pinned memory ─> decision
//!
//! batch of chunks on the device ─ kernels, which decide as well, on the batch's stream ─> predictors in pinned memory
//! ```

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use quire_codec::stages::Axes;
use quire_codec::stages::choice::{Counts, MAX_TILE_VALUES, PredictorChoice, SETS, Sample, SampleCounts, TILES};
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::{InterpolationKind, Predictor};
use quire_codec::{ByteOrder, Layout, MAX_RANK, Scalar, Shape};

use crate::declare::{Address, ConstPointer, Pointer};
use crate::error::{Context as _, Result};
use crate::job;
use crate::job::{
    FIRST_ROUND, GROUP_TILES, INTERPOLATION_KINDS, LAST_ROUND, MASKS_ZEROS, ROUGH_ROUND, SMALL_TILE_VALUES, TILE_THREADS,
    TileJob, TilePasses, TileShape, TileSums,
};
use crate::launch::ThreadGuard;
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, clear, read_plain, upload};
use crate::parameters::fills_of;
use crate::plan::known;

/// Tables that a kernel makes for a layout before tiles are measured: where the values of a tile are, and their neighbours in interpolation. Further chunks
/// of the layout use the same tables.
pub(crate) struct TileTables {
    memory: DeviceMemory,
    /// The layout's shape, and the number of candidates.
    made_for: Option<(Shape, u32)>,
}

impl TileTables {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        Self { memory: DeviceMemory::new(context.clone()), made_for: None }
    }

    /// Starts making the tables on `stream`, unless they are there, and sets their addresses in the job. No kernel may be using the tables.
    fn prepare(&mut self, loaded: &Loaded, layout: &Layout, stream: &CudaStream, job: &mut TileJob) -> Result<()> {
        const INDICES_LEN: usize = MAX_TILE_VALUES * size_of::<u32>();
        const TERMS_AT: usize = (2 * INDICES_LEN + size_of::<TilePasses>()).next_multiple_of(256);
        let rank = layout.shape.dims().len();
        let elements = job.tiles.shape.elements as usize;
        let terms = if job.candidates > 0 { (2 << rank) * rank * elements } else { 0 };
        let len = TERMS_AT + terms * TERM_LEN;
        if len > self.memory.len() {
            self.made_for = None;
            self.memory.grow(len)?;
        }
        let at = |offset: usize| self.memory.address() + offset as u64;
        job.offsets = Pointer::new(at(0));
        job.counted = Pointer::new(at(INDICES_LEN));
        job.passes = Pointer::new(at(2 * INDICES_LEN));
        job.terms = Pointer::new(at(TERMS_AT));
        let made_for = Some((layout.shape, job.candidates));
        if self.made_for != made_for {
            self.made_for = None;
            let grid = (job.candidates + 1, 1, 1);
            loaded.kernels.make_tile_tables.launch(stream, grid, TILE_THREADS, job, ())?;
            self.made_for = made_for;
        }
        Ok(())
    }
}

/// Bytes of a `TileTerm`.
const TERM_LEN: usize = 16;

/// Chunks of one layout in device memory whose predictors are chosen, and memory for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkBatch {
    /// Where the addresses of the chunks are, in device memory.
    pub(crate) chunks: Address,
    pub(crate) count: usize,
    /// [`ChunkBatch::device_len`] bytes of device memory: `[chunk]` [`TileSums`], then entries.
    pub(crate) device: Address,
    /// Pinned memory for the predictors: `[chunk]`, four bytes each.
    pub(crate) predictors: Address,
}

impl ChunkBatch {
    /// Bytes of device memory for `count` chunks.
    pub(crate) fn device_len(choice: &PredictorChoice, count: usize) -> usize {
        // An entry for each value.
        let is_interpolated = choice.candidates().next().is_some();
        let entries = if is_interpolated { count * TILES * choice.sample.len } else { 0 };
        Self::entries_at(count) + entries * size_of::<i32>()
    }

    fn entries_at(count: usize) -> usize {
        (count * size_of::<TileSums>()).next_multiple_of(256)
    }

    /// Starts choosing the predictors on `stream`.
    pub(crate) fn choose(
        &self,
        loaded: &Loaded,
        choice: &PredictorChoice,
        layout: &Layout,
        stream: &CudaStream,
        tables: &mut TileTables,
    ) -> Result<()> {
        let linear_grid = known(&loaded.kernels.of_type(layout.scalar).linear_grid)?;
        clear(stream, self.device, self.count * size_of::<TileSums>())?;
        // Tiles of a chunk at address 0 have their offsets as addresses.
        let offset = |tile| (choice.sample.first_index(tile) * layout.scalar.size()) as u64;
        let mut job = job_of(choice, layout, layout.shape.extents(), offset);
        job.chunks = ConstPointer::new(self.chunks);
        job.sums = Pointer::new(self.device);
        job.entries = Pointer::new(self.device + Self::entries_at(self.count) as u64);
        job.host_predictors = Pointer::new(self.predictors);
        let axes = long_axes(layout) as u32;
        job.rough_kinds = if axes > 1 { axes } else { 0 };
        tables.prepare(loaded, layout, stream, &mut job)?;
        let (count, kernels) = (self.count as u32, &loaded.kernels);
        linear_grid.measure_batch.launch(stream, (GROUPS, count, 1), TILE_THREADS, &job, ())?;
        let choose = |round: u32| kernels.choose_by_tiles.launch(stream, (count, 1, 1), WARP, &job, round);
        if job.candidates == 0 {
            return choose(FIRST_ROUND);
        }
        let is_small = choice.sample.len <= SMALL_TILE_VALUES;
        let measure = if is_small { &kernels.measure_kinds } else { &kernels.measure_kinds_of_large_tiles };
        let rounds = [(FIRST_ROUND, 2), (ROUGH_ROUND, job.rough_kinds), (LAST_ROUND, job.rough_kinds.min(1))];
        for (round, kinds) in rounds.into_iter().filter(|&(_, kinds)| kinds > 0) {
            measure.launch(stream, (kinds * GROUPS, count, 1), TILE_THREADS, &job, round)?;
            choose(round)?;
        }
        Ok(())
    }
}

/// The grid and the predictor of a chunk for which kernels have chosen: a plane's byte, and [`MASKS_ZEROS`]. `None` if the byte is none of the shape's.
pub(crate) fn chosen_by_kernels(chosen: u32, choice: &PredictorChoice, layout: &Layout) -> Option<(Grid, Predictor)> {
    let byte = u8::try_from(chosen & !MASKS_ZEROS).ok()?;
    let interpolation = InterpolationKind::from_byte(byte, &layout.shape).map(Predictor::Interpolation);
    let predictor = interpolation.or_else(|| Axes::from_byte(byte, &layout.shape).map(Predictor::from))?;
    Some((choice.grid(chosen & MASKS_ZEROS != 0), predictor))
}

/// Number of axes longer than 1.
fn long_axes(layout: &Layout) -> usize {
    layout.shape.extents().into_iter().filter(|&extent| extent > 1).count()
}

/// Threads of a warp.
const WARP: u32 = 32;
/// Groups of tiles.
const GROUPS: u32 = TILES as u32 / GROUP_TILES;

/// Where the tiles are in device memory: behind the counts.
const TILES_AT: usize = size_of::<TileSums>().next_multiple_of(256);

/// What a session needs to measure the tiles of a chunk on the host. Memory is taken when the first chunk has tiles.
pub(crate) struct TileMeter {
    stream: Arc<CudaStream>,
    /// [`TileSums`], and the tiles.
    device: DeviceMemory,
    /// [`TileSums`] that are complete.
    counts: PinnedMemory,
    /// Copies of the tiles.
    copies: PinnedMemory,
    tables: TileTables,
    /// Whether a launch may still be under way.
    is_busy: bool,
}

impl TileMeter {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        Ok(Self {
            stream: context.new_stream().context("making a CUDA stream")?,
            device: DeviceMemory::new(context.clone()),
            counts: PinnedMemory::new(context.clone()),
            copies: PinnedMemory::new(context.clone()),
            tables: TileTables::new(context),
            is_busy: false,
        })
    }

    /// Starts measuring the tiles of a chunk. Nothing is under way.
    pub(crate) fn start(&mut self, loaded: &Loaded, choice: &PredictorChoice, layout: &Layout, chunk: &[u8]) -> Result<()> {
        // This may be a thread that helps to copy.
        let _thread = ThreadGuard::new();
        let kernel = &known(&loaded.kernels.of_type(layout.scalar).linear_grid)?.measure_tiles;
        let size = layout.scalar.size();
        let sample = choice.sample;
        let len = sample.len * size;
        self.reserve(TILES * len)?;
        for tile in 0..TILES {
            sample.copy(chunk, size, tile, self.copies.bytes_mut(tile * len..(tile + 1) * len));
        }
        let first = self.device.address() + TILES_AT as u64;
        let mut job = job_of(choice, layout, sample.extents, |tile| first + (tile * len) as u64);
        job.sums = Pointer::new(self.device.address());
        job.host_sums = Pointer::new(self.counts.address());
        self.is_busy = true;
        self.tables.prepare(loaded, layout, &self.stream, &mut job)?;
        upload(&self.stream, self.copies.address(), first, TILES * len)?;
        let blocks = GROUPS * (job.candidates + 1);
        kernel.launch(&self.stream, (blocks, 1, 1), TILE_THREADS, &job, ())
    }

    /// Waits for the counts of the tiles of `choice`, which [`TileMeter::start`] was called with.
    pub(crate) fn finish(&mut self, choice: &PredictorChoice) -> Result<SampleCounts> {
        self.wait()?;
        self.is_busy = false;
        let sums: TileSums = read_plain(self.counts.bytes(0..size_of::<TileSums>()));
        Ok(counts_of(&sums, choice))
    }

    /// Waits for a launch that may be under way.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.is_busy { self.stream.synchronize().context("waiting for the GPU") } else { Ok(()) }
    }

    /// Makes room for `copied` bytes of tiles, and for the counts.
    fn reserve(&mut self, copied: usize) -> Result<()> {
        if TILES_AT + copied > self.device.len() {
            self.device.grow(TILES_AT + copied)?;
            clear(&self.stream, self.device.address(), size_of::<TileSums>())?;
        }
        self.counts.grow(size_of::<TileSums>())?;
        self.copies.grow(copied)
    }
}

/// The job of measuring tiles, without its results. Tiles are read from arrays with the extents `read_from`, and begin at `address`.
fn job_of(
    choice: &PredictorChoice,
    layout: &Layout,
    read_from: [usize; MAX_RANK],
    address: impl Fn(usize) -> Address,
) -> TileJob {
    let quantizer = &choice.quantizer;
    let mut candidate_numbers = [0; INTERPOLATION_KINDS];
    let mut candidates = 0;
    for (number, candidate) in candidate_numbers.iter_mut().zip(choice.candidates()) {
        *number = candidate.number() as u8;
        candidates += 1;
    }
    TileJob {
        step: quantizer.step(),
        inverse_step: quantizer.inverse_step(),
        fills: fills_of(quantizer.fills(), layout),
        big_endian: u32::from(layout.byte_order == ByteOrder::Big),
        spacing_grows: u32::from(layout.scalar.of_values() == Scalar::F32),
        candidates,
        edges_of_planes: choice.edges_of_planes() as u32,
        finer_steps_below: choice.finer_steps_below,
        tiles: shape_of(&choice.sample, layout.shape.dims().len(), strides_of(read_from)),
        addresses: std::array::from_fn(address),
        candidate_numbers,
        extents: layout.shape.extents().map(|extent| extent as u32),
        rough_kinds: 0,
        offsets: Pointer::NULL,
        counted: Pointer::NULL,
        passes: Pointer::NULL,
        terms: Pointer::NULL,
        chunks: ConstPointer::NULL,
        sums: Pointer::NULL,
        host_sums: Pointer::NULL,
        entries: Pointer::NULL,
        host_predictors: Pointer::NULL,
    }
}

/// The tiles of a chunk with `rank` axes as the kernel has them; `strides` are those of the array from which they are read.
fn shape_of(sample: &Sample, rank: usize, strides: [u32; MAX_RANK]) -> TileShape {
    let shape = job::Shape {
        rank: rank as u32,
        elements: sample.len as u32,
        extents: sample.extents.map(|extent| extent as u32),
        strides: strides_of(sample.extents),
        ..job::Shape::default()
    };
    // Each level has half of the values of the next finer one along an axis, rounded up.
    let levels = |extent: usize| usize::BITS - (extent - 1).leading_zeros();
    TileShape {
        shape,
        strides,
        coarsest: sample.extents.into_iter().map(levels).max().unwrap_or(0),
        uncounted_residuals: sample.uncounted_residuals() as u32,
        counted: sample.counted_len() as u32,
    }
}

/// Values from one to the next along each axis of an array.
fn strides_of(extents: [usize; MAX_RANK]) -> [u32; MAX_RANK] {
    let mut stride = 1;
    extents.map(|extent| {
        let own = stride;
        stride *= extent as u32;
        own
    })
}

/// The counts as the codec has them.
fn counts_of(sums: &TileSums, choice: &PredictorChoice) -> SampleCounts {
    let sample = choice.sample;
    let counts = |of: job::ResidualCounts, values: usize| Counts {
        values: (TILES * values) as u32,
        zeros: of.zeros,
        rises: of.rises,
        negative: of.negative,
        lengths: of.lengths,
        ..Counts::default()
    };
    let mut found = SampleCounts {
        differences: [Counts::default(); SETS],
        interpolations: [Counts::default(); INTERPOLATION_KINDS],
        out_of_reach: sums.out_of_reach as usize,
        zero_edges: sums.zero_edges as usize,
    };
    let between_steps = (sums.between_steps as usize * sample.counted_len() / sample.len) as u32;
    for set in (0..SETS).filter(|set| (0..MAX_RANK).all(|axis| set >> axis & 1 == 0 || sample.extents[axis] > 1)) {
        found.differences[set] = Counts { outliers: between_steps, ..counts(sums.differences[set], sample.counted_len()) };
    }
    for kind in choice.candidates().map(InterpolationKind::number) {
        found.interpolations[kind] = Counts {
            outliers: sums.outliers[kind],
            zero_escapes: sums.zero_escapes[kind],
            ..counts(sums.residuals[kind], sample.len - sample.uncounted_residuals())
        };
    }
    found
}

#[cfg(test)]
mod tests;
