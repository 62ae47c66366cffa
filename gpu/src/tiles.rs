//! The tiles on which a predictor is chosen, measured by a kernel; the codec decides by its counts.
//!
//! ```text
//! chunk on the host ─ a copy of each tile ─> pinned memory ┐
//!                                                          ├─ kernel, on a stream of its own ─> counts in pinned memory ─> decision
//! chunk on the device ─────────────────────────────────────┘
//! ```
//!
//! What the kernel reads besides the tiles is in pinned memory, at addresses that stay: one recorded launch serves all layouts of a type.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{CudaContext, CudaStream};
use quire_codec::stages::choice::{INTERPOLATED_TILES, InterpolatedCounts, ResidualCounts, TileChoice, TileCounts, Tiles};
use quire_codec::{ByteOrder, Layout, MAX_RANK, Scalar};

use crate::declare::{Address, ConstPointer, Pointer};
use crate::error::{Context as _, Result};
use crate::job;
use crate::job::{
    COARSE_THREADS, DIFFERENCE_KIND, INTERPOLATED_KIND, MOST_TILES, Shape, TILE_BLOCKS, TILE_KINDS, TileJob, TileKind,
    TileParameters, TileSums,
};
use crate::launch::{Graph, Kernels, launch};
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, bytes_of, clear, read_plain};
use crate::plan::known;
use crate::statistics::RECORDED;

/// Where the chunk is whose tiles are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// In the host's memory: its tiles are copied.
    Host(&'a [u8]),
    /// In device memory, all of it: its tiles are read from there.
    Device(Address),
}

/// In the pinned memory that the kernel knows, the counts are behind the parameters.
const SUMS_AT: usize = size_of::<TileParameters>().next_multiple_of(align_of::<TileSums>());
const SHARED_LEN: usize = SUMS_AT + size_of::<TileSums>();

/// What a session needs to measure tiles. Memory is taken when the first chunk has tiles.
pub(crate) struct TileMeter {
    stream: Arc<CudaStream>,
    /// [`TileSums`].
    sums: DeviceMemory,
    /// [`TileParameters`], and [`TileSums`] that are complete.
    shared: PinnedMemory,
    /// Copies of the tiles of a chunk on the host.
    copies: PinnedMemory,
    /// Launches for the floating-point types.
    recorded: [Option<Graph>; 4],
    /// The type of the last launch.
    last: usize,
    /// Whether a launch may still be under way.
    is_busy: bool,
}

impl TileMeter {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Result<Self> {
        Ok(Self {
            stream: context.new_stream().context("making a CUDA stream")?,
            sums: DeviceMemory::new(context.clone()),
            shared: PinnedMemory::new(context.clone()),
            copies: PinnedMemory::new(context.clone()),
            recorded: [const { None }; 4],
            last: 0,
            is_busy: false,
        })
    }

    /// Starts measuring the tiles of a chunk. Nothing is under way.
    pub(crate) fn start(&mut self, loaded: &Loaded, choice: &TileChoice, layout: &Layout, source: Source<'_>) -> Result<()> {
        self.record(&loaded.kernels, layout.scalar)?;
        let parameters = self.place(choice, layout, source)?;
        self.shared.bytes_mut(0..size_of::<TileParameters>()).copy_from_slice(bytes_of(&parameters));
        self.is_busy = true;
        self.last().map_or(Ok(()), |(_, graph)| graph.launch())
    }

    /// Waits for the counts of the tiles of `choice`, which [`TileMeter::start`] was called with.
    pub(crate) fn finish(&mut self, choice: &TileChoice) -> Result<TileCounts> {
        self.wait()?;
        self.is_busy = false;
        let sums: TileSums = read_plain(self.shared.bytes(SUMS_AT..SHARED_LEN));
        Ok(counts_of(&sums, choice))
    }

    /// The stream of the launches, and the last one. Launched again, it measures the last tiles again.
    pub(crate) fn last(&self) -> Option<(&Arc<CudaStream>, &Graph)> {
        self.recorded[self.last].as_ref().map(|graph| (&self.stream, graph))
    }

    /// Waits for a launch that may be under way.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.is_busy { self.stream.synchronize().context("waiting for the GPU") } else { Ok(()) }
    }

    /// Records the launch for a type, if it is new, and makes it the last one.
    fn record(&mut self, kernels: &Kernels, scalar: Scalar) -> Result<()> {
        if self.shared.len() == 0 {
            self.sums.grow(size_of::<TileSums>())?;
            clear(&self.stream, self.sums.address(), size_of::<TileSums>())?;
            self.shared.grow(SHARED_LEN)?;
        }
        self.last = match scalar {
            Scalar::F32 => 0,
            Scalar::F64 => 1,
            Scalar::F16 => 2,
            _ => 3,
        };
        if self.recorded[self.last].is_none() {
            let kernel = &known(&kernels.of_type(scalar).linear)?.measure_tiles;
            let shared = self.shared.address();
            let job = TileJob {
                parameters: ConstPointer::new(shared),
                sums: Pointer::new(self.sums.address()),
                host_sums: Pointer::new(shared + SUMS_AT as u64),
            };
            let grid = (TILE_BLOCKS as u32, 1, 1);
            self.recorded[self.last] =
                Some(Graph::record(&self.stream, || launch(&self.stream, kernel, grid, COARSE_THREADS, &job, &[]))?);
            RECORDED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies the tiles of a chunk on the host. Returns the parameters.
    fn place(&mut self, choice: &TileChoice, layout: &Layout, source: Source<'_>) -> Result<TileParameters> {
        let (size, quantizer) = (layout.scalar.size(), choice.quantizer());
        let mut parameters = TileParameters {
            bound: quantizer.bound(),
            step: quantizer.step(),
            inverse_step: quantizer.inverse_step(),
            fill_bits: quantizer.fill().map_or(0, |fill| fill.cast_unsigned() & u64::MAX >> (64 - 8 * size)),
            has_fill: u32::from(quantizer.fill().is_some()),
            big_endian: u32::from(layout.byte_order == ByteOrder::Big),
            interpolates: u32::from(choice.interpolated_tiles().is_some()),
            most_out_of_reach: choice.most_out_of_reach() as u32,
            kinds: [TileKind::default(); TILE_KINDS],
            tiles: [0; MOST_TILES],
        };
        let (of_interpolation, of_differences) = parameters.tiles.split_at_mut(INTERPOLATED_TILES);
        let kinds = [
            (INTERPOLATED_KIND, choice.interpolated_tiles(), of_interpolation),
            (DIFFERENCE_KIND, Some(choice.difference_tiles()), of_differences),
        ];
        if let Source::Host(_) = source {
            let values: usize = kinds.iter().filter_map(|(_, tiles, _)| tiles.map(|tiles| tiles.count * tiles.len)).sum();
            self.copies.grow(values * size)?;
        }
        let mut copied = 0;
        for (kind, tiles, addresses) in kinds {
            let Some(tiles) = tiles else { continue };
            for (tile, address) in addresses.iter_mut().enumerate().take(tiles.count) {
                *address = match source {
                    Source::Host(chunk) => {
                        let room = copied..copied + tiles.len * size;
                        copied = room.end;
                        tiles.copy(chunk, size, tile, self.copies.bytes_mut(room.clone()));
                        self.copies.address() + room.start as u64
                    }
                    Source::Device(chunk) => chunk + (tiles.first_index(tile) * size) as u64,
                };
            }
            let read_from = match source {
                Source::Host(_) => tiles.extents,
                Source::Device(_) => layout.shape.extents(),
            };
            parameters.kinds[kind] = kind_of(tiles, layout.shape.dims().len(), strides_of(read_from));
        }
        Ok(parameters)
    }
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
fn counts_of(sums: &TileSums, choice: &TileChoice) -> TileCounts {
    let counts = |counts: job::ResidualCounts| ResidualCounts {
        zeros: counts.zeros,
        rises: counts.rises,
        ones: counts.ones,
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
