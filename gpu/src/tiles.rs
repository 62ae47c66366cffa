//! The tiles on which a predictor is chosen, measured by a kernel; the codec decides by its counts.
//!
//! ```text
//! chunk on the host ─ a copy of each tile ─> pinned memory ─> device memory ┐
//!                                                                           ├─ kernel, on a stream of its own ─> counts in pinned memory ─> decision
//! chunk on the device ──────────────────────────────────────────────────────┘
//! ```

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream};
use quire_codec::stages::choice::{
    DIFFERENCE_TILES, INTERPOLATED_TILES, InterpolatedCounts, ResidualCounts, TileChoice, TileCounts, Tiles,
};
use quire_codec::{ByteOrder, Layout, MAX_RANK};

use crate::declare::{Address, ConstPointer, Pointer};
use crate::error::{Context as _, Result};
use crate::job;
use crate::job::{
    DIFFERENCE_KIND, INTERPOLATED_KIND, INTERPOLATION_KINDS, MOST_TILES, Shape, TILE_KINDS, TILE_THREADS, TileJob, TileKind,
    TileSums,
};
use crate::launch::launch;
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, clear, read_plain, upload};
use crate::plan::known;

/// Where the chunk is whose tiles are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// In the host's memory: its tiles are copied.
    Host(&'a [u8]),
    /// In device memory, all of it: its tiles are read from there.
    Device(Address),
}

/// Where the tiles are in device memory: behind the counts.
const TILES_AT: usize = size_of::<TileSums>().next_multiple_of(256);

/// What a session needs to measure tiles. Memory is taken when the first chunk has tiles.
pub(crate) struct TileMeter {
    stream: Arc<CudaStream>,
    /// [`TileSums`], and the tiles of a chunk on the host.
    device: DeviceMemory,
    /// [`TileSums`] that are complete.
    counts: PinnedMemory,
    /// Copies of the tiles of a chunk on the host.
    copies: PinnedMemory,
    /// The last launch.
    last: Option<Launch>,
    /// Whether a launch may still be under way.
    is_busy: bool,
}

/// A launch that measures tiles.
struct Launch {
    kernel: CudaFunction,
    blocks: u32,
    job: TileJob,
}

impl TileMeter {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        Ok(Self {
            stream: context.new_stream().context("making a CUDA stream")?,
            device: DeviceMemory::new(context.clone()),
            counts: PinnedMemory::new(context.clone()),
            copies: PinnedMemory::new(context.clone()),
            last: None,
            is_busy: false,
        })
    }

    /// Starts measuring the tiles of a chunk. Nothing is under way.
    pub(crate) fn start(&mut self, loaded: &Loaded, choice: &TileChoice, layout: &Layout, source: Source<'_>) -> Result<()> {
        let kernel = known(&loaded.kernels.of_type(layout.scalar).linear)?.measure_tiles.clone();
        let copied = if let Source::Host(_) = source { values_of(choice) * layout.scalar.size() } else { 0 };
        self.reserve(copied)?;
        let job = self.place(choice, layout, source);
        self.is_busy = true;
        if copied > 0 {
            upload(&self.stream, self.copies.address(), self.device.address() + TILES_AT as u64, copied)?;
        }
        let blocks = INTERPOLATED_TILES as u32 * job.candidates + DIFFERENCE_TILES as u32;
        self.last = Some(Launch { kernel, blocks, job });
        self.start_again()
    }

    /// Starts measuring the tiles of `count` resident chunks of one layout on `stream`. Addresses of the chunks are at `chunks`, in device memory; `sums`, there as
    /// well, is all 0. The counts go to `host_sums`, in pinned memory.
    #[expect(clippy::too_many_arguments, reason = "three arrays, and what the kernel has to know")]
    pub(crate) fn start_batch(
        &mut self,
        loaded: &Loaded,
        choice: &TileChoice,
        layout: &Layout,
        stream: &CudaStream,
        (chunks, count): (Address, u32),
        sums: Address,
        host_sums: Address,
    ) -> Result<()> {
        let kernel = &known(&loaded.kernels.of_type(layout.scalar).linear)?.measure_tiles;
        // Tiles of a chunk at address 0 have their offsets as addresses.
        let job = TileJob {
            chunks: ConstPointer::new(chunks),
            sums: Pointer::new(sums),
            host_sums: Pointer::new(host_sums),
            ..self.place(choice, layout, Source::Device(0))
        };
        let blocks = INTERPOLATED_TILES as u32 * job.candidates + DIFFERENCE_TILES as u32;
        launch(stream, kernel, (blocks, count, 1), TILE_THREADS, &job, &[])
    }

    /// Measures the tiles of the last [`TileMeter::start`] again.
    pub(crate) fn start_again(&self) -> Result<()> {
        let Some(Launch { kernel, blocks, job }) = &self.last else { return Ok(()) };
        launch(&self.stream, kernel, (*blocks, 1, 1), TILE_THREADS, job, &[])
    }

    /// Waits for the counts of the tiles of `choice`, which [`TileMeter::start`] was called with.
    pub(crate) fn finish(&mut self, choice: &TileChoice) -> Result<TileCounts> {
        self.wait()?;
        self.is_busy = false;
        let sums: TileSums = read_plain(self.counts.bytes(0..size_of::<TileSums>()));
        Ok(counts_of(&sums, choice))
    }

    /// The stream of the launches.
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Waits for a launch that may be under way.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.is_busy { self.stream.synchronize().context("waiting for the GPU") } else { Ok(()) }
    }

    /// Makes room for `copied` bytes of tiles of a chunk on the host, and for the counts.
    fn reserve(&mut self, copied: usize) -> Result<()> {
        if TILES_AT + copied > self.device.len() {
            self.device.grow(TILES_AT + copied)?;
            clear(&self.stream, self.device.address(), size_of::<TileSums>())?;
        }
        self.counts.grow(size_of::<TileSums>())?;
        self.copies.grow(copied)
    }

    /// Copies the tiles of a chunk on the host. Returns the job.
    fn place(&mut self, choice: &TileChoice, layout: &Layout, source: Source<'_>) -> TileJob {
        let (size, quantizer) = (layout.scalar.size(), choice.quantizer());
        let mut candidate_numbers = [0; INTERPOLATION_KINDS];
        let mut candidates = 0;
        for (number, candidate) in candidate_numbers.iter_mut().zip(choice.candidates()) {
            *number = candidate.number() as u8;
            candidates += 1;
        }
        let mut job = TileJob {
            step: quantizer.step(),
            inverse_step: quantizer.inverse_step(),
            fill_bits: quantizer.fill().map_or(0, |fill| fill.cast_unsigned() & u64::MAX >> (64 - 8 * size)),
            has_fill: u32::from(quantizer.fill().is_some()),
            big_endian: u32::from(layout.byte_order == ByteOrder::Big),
            candidates,
            most_out_of_reach: choice.most_out_of_reach() as u32,
            kinds: [TileKind::default(); TILE_KINDS],
            tiles: [0; MOST_TILES],
            candidate_numbers,
            chunks: ConstPointer::NULL,
            sums: Pointer::new(self.device.address()),
            host_sums: Pointer::new(self.counts.address()),
        };
        let (of_interpolation, of_differences) = job.tiles.split_at_mut(INTERPOLATED_TILES);
        let kinds = [
            (INTERPOLATED_KIND, choice.interpolated_tiles(), of_interpolation),
            (DIFFERENCE_KIND, Some(choice.difference_tiles()), of_differences),
        ];
        let mut copied = 0;
        for (kind, tiles, addresses) in kinds {
            let Some(tiles) = tiles else { continue };
            for (tile, address) in addresses.iter_mut().enumerate().take(tiles.count) {
                *address = match source {
                    Source::Host(chunk) => {
                        let room = copied..copied + tiles.len * size;
                        copied = room.end;
                        tiles.copy(chunk, size, tile, self.copies.bytes_mut(room.clone()));
                        self.device.address() + (TILES_AT + room.start) as u64
                    }
                    Source::Device(chunk) => chunk + (tiles.first_index(tile) * size) as u64,
                };
            }
            let read_from = match source {
                Source::Host(_) => tiles.extents,
                Source::Device(_) => layout.shape.extents(),
            };
            job.kinds[kind] = kind_of(tiles, layout.shape.dims().len(), strides_of(read_from));
        }
        job
    }
}

/// Number of values of all tiles.
fn values_of(choice: &TileChoice) -> usize {
    let tiles = choice.interpolated_tiles().into_iter().chain([choice.difference_tiles()]);
    tiles.map(|tiles| tiles.count * tiles.len).sum()
}

/// Tiles of a chunk with `rank` axes as the kernel has them; `strides` are those of the array from which they are read.
fn kind_of(tiles: &Tiles, rank: usize, strides: [u32; MAX_RANK]) -> TileKind {
    let shape = Shape {
        rank: rank as u32,
        elements: tiles.len as u32,
        extents: tiles.extents.map(|extent| extent as u32),
        strides: strides_of(tiles.extents),
        ..Shape::default()
    };
    // Each level has half of the values of the next finer one along an axis, rounded up.
    let levels = |extent: usize| usize::BITS - (extent - 1).leading_zeros();
    TileKind {
        shape,
        strides,
        count: tiles.count as u32,
        coarsest: tiles.extents.into_iter().map(levels).max().unwrap_or(0),
        uncounted_residuals: tiles.uncounted_residuals() as u32,
        reserved: 0,
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
pub(crate) fn counts_of(sums: &TileSums, choice: &TileChoice) -> TileCounts {
    let counts = |counts: job::ResidualCounts| ResidualCounts {
        zeros: counts.zeros,
        rises: counts.rises,
        ones: counts.ones,
        two_bits: counts.two_bits,
        three_bits: counts.three_bits,
        large: counts.large,
        negative: counts.negative,
        magnitude_bits: counts.magnitude_bits,
    };
    let is_candidate = choice.interpolated_tiles().is_some() && sums.kinds[INTERPOLATED_KIND].tiles_out_of_reach == 0;
    let (interpolated, of_differences) = (&sums.kinds[INTERPOLATED_KIND], &sums.kinds[DIFFERENCE_KIND]);
    TileCounts {
        differences: of_differences.differences.map(counts),
        between_steps: of_differences.between_steps,
        out_of_reach: of_differences.out_of_reach,
        interpolated: is_candidate.then(|| InterpolatedCounts {
            residuals: interpolated.residuals.map(counts),
            outliers: interpolated.outliers,
            differences: interpolated.differences.map(counts),
            between_steps: interpolated.between_steps,
        }),
    }
}
