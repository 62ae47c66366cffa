//! One caller's share of the device: a stream, memory that stays, and the recorded launches of the layouts it has seen.
//!
//! ```text
//! caller's chunk ─ ring ─> device memory ─ kernels ─> device memory ─ ring ─> caller's buffer
//! ```
//!
//! The predictor of a chunk is chosen on its way to the device: see [`crate::tiles`]. A chunk's parameters, and streams that are not long, go through an
//! inbox, from which the first kernel fetches them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::CudaStream;
use quire_codec::memory::Boxed;
use quire_codec::stages::choice::{TileChoice, TileCounts};
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::Predictor;
use quire_codec::{CodingPolicy, Config, ErrorBound, Layout, Unverified, Workspace, memory};

use crate::chunk::{Chunk, ChunkRoom};
use crate::copy::{beside, copy, is_split};
use crate::declare::Address;
use crate::error::{Context as _, Error, Result, reason};
use crate::job::{DECODE_OK, DatasetBooks, DecodeParameters, DecodeState, EncodeParameters, EncodeResult};
use crate::launch::Graph;
use crate::limits::check_layout;
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, bytes_of, copy_on_device, download, read_plain, upload};
use crate::parameters::{
    FIRST_VALUES, MAX_VALUE_LEN, constant_parameters, dataset_books, decode_parameters, encode_parameters, for_chunk,
    has_nothing_to_inspect,
};
use crate::plan::{DecodePlan, DecodeVariant, EncodePlan, EncodeVariant, Key, Memory, Variant};
use crate::ring::Ring;
use crate::statistics::RECORDED;
use crate::tiles::{Source, TileMeter};

/// Streams that can be no longer than this are written to pinned memory by the kernels themselves; longer ones are fetched once their
/// length is known.
const DIRECT: usize = 4 << 20;
/// Longest streams that the kernels fetch from pinned memory themselves; longer ones are sent, while their end is still copied there.
const FETCHED: usize = 512 << 10;
/// Recorded jobs that a session keeps.
const KEPT: usize = 16;

/// See the module's text.
pub(crate) struct Session {
    pub(crate) stream: Arc<CudaStream>,
    memory: DeviceMemory,
    ring: Ring,
    direct: PinnedMemory,
    results: PinnedMemory,
    /// What the kernels fetch: a chunk's parameters, or a stream with its own. It never grows: its address is in recorded launches.
    inbox: PinnedMemory,
    /// For the choice of grids, and of predictors that are not chosen on tiles, which is the codec's own.
    chooser: Boxed<Workspace>,
    tiles: TileMeter,
    encoders: Vec<(Key, EncodePlan, Graph)>,
    decoders: Vec<(Key, DecodePlan, Graph)>,
}

impl Session {
    pub(crate) fn new(loaded: &Loaded) -> Result<Self> {
        let context = &loaded.context;
        let stream = context.new_stream().context("making a CUDA stream")?;
        let mut inbox = PinnedMemory::new(context.clone());
        const ENCODED: usize = size_of::<DatasetBooks>() + size_of::<EncodeParameters>();
        inbox.grow(ENCODED.max(size_of::<DecodeParameters>() + FETCHED))?;
        Ok(Self {
            stream,
            memory: DeviceMemory::new(context.clone()),
            ring: Ring::new(context)?,
            direct: PinnedMemory::new(context.clone()),
            results: PinnedMemory::new(context.clone()),
            inbox,
            chooser: Boxed::new(Workspace::default())?,
            tiles: TileMeter::new(context)?,
            encoders: Vec::new(),
            decoders: Vec::new(),
        })
    }

    /// Waits for all that this session has started.
    pub(crate) fn wait(&self) -> Result<()> {
        self.tiles.wait()?;
        self.stream.synchronize().context("waiting for the GPU")
    }

    /// Frees what the choice of predictors keeps on the host.
    pub(crate) fn free_workspace(&mut self) {
        *self.chooser = Workspace::default();
    }

    /// Makes the memory long enough. If some of it moves, all recordings are dropped, as they have its old address; also if the driver has no memory.
    fn reserve(&mut self, device_len: usize, direct_len: usize, results_len: usize) -> Result<()> {
        if device_len > self.memory.len() || direct_len > self.direct.len() || results_len > self.results.len() {
            self.encoders.clear();
            self.decoders.clear();
        }
        self.memory.grow(device_len)?;
        self.direct.grow(direct_len)?;
        self.results.grow(results_len)
    }

    /// Drops all recordings, and their count.
    pub(crate) fn forget_recorded(&mut self) {
        RECORDED.fetch_sub((self.encoders.len() + self.decoders.len()) as u64, Ordering::Relaxed);
        self.encoders.clear();
        self.decoders.clear();
    }

    /// The memory that every plan uses.
    fn plan_memory(&self, loaded: &Loaded) -> Memory {
        Memory { arrays: self.memory.address(), tables: loaded.tables(), results: self.results.address(), ..Memory::default() }
    }

    /// The job for compressing `chunks` chunks of a layout, recorded now if it is new. Returns its number among `encoders`.
    pub(crate) fn encoder(&mut self, loaded: &Loaded, layout: &Layout, chunks: usize, variant: EncodeVariant) -> Result<usize> {
        let key = Key { scalar: layout.scalar, shape: layout.shape, chunks, variant: Variant::Encode(variant) };
        if let Some(found) = self.encoders.iter().position(|(known, ..)| *known == key) {
            return Ok(found);
        }
        let needed = EncodePlan::new(&key, layout, variant, &Memory::default());
        let stride = needed.job.output_stride as usize;
        let direct = if variant.to_host && stride <= DIRECT { stride } else { 0 };
        self.reserve(needed.len, direct, chunks * size_of::<EncodeResult>())?;
        let memory = Memory {
            inbox: if variant.to_host { self.inbox.address() } else { 0 },
            streams: if direct > 0 { self.direct.address() } else { 0 },
            ..self.plan_memory(loaded)
        };
        let plan = EncodePlan::new(&key, layout, variant, &memory);
        let graph =
            Graph::record(&self.stream, || plan.enqueue(&self.stream, &loaded.kernels, loaded.multiprocessors, |_| Ok(())))?;
        keep(&mut self.encoders, (key, plan, graph))
    }

    /// The job for decompressing `chunks` streams of a layout, recorded now if it is new. Returns its number.
    pub(crate) fn decoder(&mut self, loaded: &Loaded, layout: &Layout, chunks: usize, variant: DecodeVariant) -> Result<usize> {
        let key = Key { scalar: layout.scalar, shape: layout.shape, chunks, variant: Variant::Decode(variant) };
        if let Some(found) = self.decoders.iter().position(|(known, ..)| *known == key) {
            return Ok(found);
        }
        let needed = DecodePlan::new(&key, layout, variant, &Memory::default());
        self.reserve(needed.len, 0, chunks * size_of::<DecodeState>())?;
        let memory = Memory { inbox: if variant.fetched { self.inbox.address() } else { 0 }, ..self.plan_memory(loaded) };
        let plan = DecodePlan::new(&key, layout, variant, &memory);
        let graph =
            Graph::record(&self.stream, || plan.enqueue(&self.stream, &loaded.kernels, loaded.multiprocessors, |_| Ok(())))?;
        keep(&mut self.decoders, (key, plan, graph))
    }

    pub(crate) fn encode_plan(&self, number: usize) -> (&EncodePlan, &Graph) {
        (&self.encoders[number].1, &self.encoders[number].2)
    }

    pub(crate) fn decode_plan(&self, number: usize) -> (&DecodePlan, &Graph) {
        (&self.decoders[number].1, &self.decoders[number].2)
    }

    /// Starts sending `head`, and `body` behind it.
    pub(crate) fn send(&mut self, head: &[u8], body: &[u8], to: Address) -> Result<()> {
        self.ring.send(&self.stream, head, body, to)
    }

    /// Waits for the bytes at `from` and copies them to `to`.
    pub(crate) fn receive(&mut self, from: Address, to: &mut [u8]) -> Result<()> {
        self.ring.receive(&self.stream, from, to)
    }

    pub(crate) fn encode_result(&self, chunk: usize) -> EncodeResult {
        let size = size_of::<EncodeResult>();
        read_plain(self.results.bytes(chunk * size..(chunk + 1) * size))
    }

    pub(crate) fn decode_result(&self, chunk: usize) -> DecodeState {
        let size = size_of::<DecodeState>();
        read_plain(self.results.bytes(chunk * size..(chunk + 1) * size))
    }

    /// Sends a chunk and starts compressing it. `config` has a settled bound.
    pub(crate) fn start_compressing(
        &mut self,
        loaded: &Loaded,
        chunk: Chunk<'_>,
        layout: &Layout,
        config: &Config,
    ) -> Result<usize> {
        let Chunk { bytes: chunk, is_pinned } = chunk;
        let searched = matches!(config.bound, ErrorBound::Absolute(_)) && layout.scalar.is_float();
        // Only on an absolute bound's grid do the kernels look for a lattice; on every grid they look for a constant chunk.
        let needs_no_inspection = searched && has_nothing_to_inspect(chunk, layout, config);
        let bit_planes = config.coding == CodingPolicy::Bitshuffle;
        let linear = layout.scalar.is_float();
        let variant =
            EncodeVariant { needs_no_inspection, to_host: true, interpolated: false, linear, bit_planes, resident: false };
        let mut number = self.encoder(loaded, layout, 1, variant)?;
        let input = self.encode_plan(number).0.job.input.address();
        let Self { ring, stream, chooser, tiles, .. } = self;
        let mut send = || match is_pinned {
            true => upload(stream, chunk.as_ptr() as Address, input, chunk.len()),
            false => ring.send(stream, &[], chunk, input),
        };
        // A constant chunk needs no grid or predictor, and the search for its lattice would read all of it.
        let mut choose = || -> Result<Choice> {
            if layout.is_constant(chunk) {
                return Ok(Choice::Constant);
            }
            match TileChoice::of_chunk(chunk, layout, config) {
                Some(choice) => tiles.start(loaded, &choice, layout, Source::Host(chunk)).map(|()| Choice::OnTiles(choice)),
                None => for_chunk(chooser, chunk, layout, config).map(|(grid, predictor)| Choice::Made(grid, predictor)),
            }
        };
        // The chunk is on its way while its grid and its predictor are chosen. A helper that wakes up for that is too late where the copy needs none: then
        // the tiles come first, which take this thread a few microseconds.
        let is_copied_by_many = !is_pinned && is_split(chunk.len());
        let (sent, chosen) = if TileChoice::is_made_for(layout, config) && !is_copied_by_many {
            let chosen = choose();
            (send(), chosen)
        } else {
            beside(send, choose)
        };
        sent?;
        let chosen = match chosen? {
            Choice::Constant => None,
            Choice::Made(grid, predictor) => Some((grid, predictor)),
            Choice::OnTiles(choice) => Some(choice.decide(&self.tiles.finish(&choice)?)),
        };
        let parameters = match chosen {
            None => constant_parameters(layout),
            Some((grid, predictor)) => {
                let linear = matches!(grid, Grid::Linear(_));
                let interpolated = predictor.is_interpolation();
                let chosen =
                    EncodeVariant { interpolated, linear, needs_no_inspection: needs_no_inspection || !searched, ..variant };
                if chosen != variant {
                    number = self.encoder(loaded, layout, 1, chosen)?;
                }
                encode_parameters(layout, config, &grid, predictor)
            }
        };
        let chosen_input = self.encode_plan(number).0.job.input.address();
        assert_eq!(chosen_input, input, "the plan reads the chunk from where it was sent");
        const BOOKS_LEN: usize = size_of::<DatasetBooks>();
        self.inbox.bytes_mut(0..BOOKS_LEN).copy_from_slice(bytes_of(&dataset_books(config)));
        self.inbox.bytes_mut(BOOKS_LEN..BOOKS_LEN + size_of::<EncodeParameters>()).copy_from_slice(bytes_of(&parameters));
        self.encode_plan(number).1.launch()?;
        Ok(number)
    }

    /// A complete compressed stream of `length` bytes, if the kernels have written it to pinned memory.
    pub(crate) fn stream_on_host(&self, number: usize, length: usize) -> Option<&[u8]> {
        (!self.encode_plan(number).0.job.host_output.is_null()).then(|| self.direct.bytes(0..length))
    }

    /// Copies a complete compressed stream.
    pub(crate) fn fetch_stream(&mut self, number: usize, to: &mut [u8]) -> Result<()> {
        match self.stream_on_host(number, to.len()) {
            Some(stream) => {
                copy(stream, to);
                Ok(())
            }
            None => self.receive(self.encode_plan(number).0.job.output.address(), to),
        }
    }

    /// Sends a stream and starts decompressing it.
    pub(crate) fn start_decompressing(&mut self, loaded: &Loaded, stream: Unverified<'_>) -> Result<usize> {
        let (layout, parameters, variant) = decode_parameters(stream)?;
        check_layout(&layout)?;
        let stream = stream.bytes();
        let fetched = stream.len() <= FETCHED;
        let number = self.decoder(loaded, &layout, 1, DecodeVariant { fetched, ..variant })?;
        let input = self.decode_plan(number).0.job.input.address();
        if fetched {
            let head = size_of::<DecodeParameters>();
            self.inbox.bytes_mut(0..head).copy_from_slice(bytes_of(&parameters));
            copy(stream, self.inbox.bytes_mut(head..head + stream.len()));
        } else {
            self.send(bytes_of(&parameters), stream, input)?;
        }
        self.decode_plan(number).1.launch()?;
        Ok(number)
    }

    /// Waits for the values of a chunk and copies them.
    pub(crate) fn fetch_values(&mut self, number: usize, to: ChunkRoom<'_>) -> Result<()> {
        let ChunkRoom { bytes: to, is_pinned } = to;
        let plan = self.decode_plan(number).0;
        let (from, len) = (plan.job.output.address(), plan.chunk_len());
        if to.len() != len {
            return Err(Error::Unsupported(reason!("the stream holds {len} bytes, the caller has room for {}", to.len())));
        }
        if is_pinned {
            download(&self.stream, from, to.as_mut_ptr() as Address, len)?;
            self.stream.synchronize().context("waiting for the GPU")?;
        } else {
            self.receive(from, to)?;
        }
        if self.decode_result(0).error != DECODE_OK { Err(Error::Refused) } else { Ok(()) }
    }
}

/// Keeps a recorded job, in place of the oldest one if there are [`KEPT`]. Returns its number.
fn keep<T>(recorded: &mut Vec<T>, job: T) -> Result<usize> {
    RECORDED.fetch_add(1, Ordering::Relaxed);
    if recorded.len() == KEPT {
        recorded.remove(0);
    }
    memory::push(recorded, job)?;
    Ok(recorded.len() - 1)
}

/// The choice of grid and predictor, as far as the host makes it while a chunk is sent.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and a box of it might be refused")]
enum Choice {
    /// All values are equal.
    Constant,
    Made(Grid, Predictor),
    /// The device measures the tiles.
    OnTiles(TileChoice),
}

/// The choice of a predictor for chunks in device memory.
impl Session {
    /// The tiles' counts of a complete chunk at `chunk` in device memory, and the choice that follows from them. The host reads the chunk's first
    /// values alone. `None` where it has to look at more: if the predictor is not chosen on tiles, or if the first values do not show that the chunk is
    /// neither constant nor on a lattice.
    pub(crate) fn choose_on_device(
        &mut self,
        loaded: &Loaded,
        chunk: Address,
        layout: &Layout,
        config: &Config,
    ) -> Result<Option<(TileChoice, TileCounts)>> {
        if !TileChoice::is_made_for(layout, config) {
            return Ok(None);
        }
        let mut first_values = [0; FIRST_VALUES * MAX_VALUE_LEN];
        let len = (FIRST_VALUES * layout.scalar.size()).min(layout.chunk_bytes() as usize);
        let first_values = &mut first_values[..len];
        self.receive(chunk, first_values)?;
        if !has_nothing_to_inspect(first_values, layout, config) {
            return Ok(None);
        }
        let Some(choice) = TileChoice::of_chunk(first_values, layout, config) else { return Ok(None) };
        let counts = self.measure_tiles(loaded, &choice, layout, Source::Device(chunk))?;
        Ok(Some((choice, counts)))
    }

    /// The counts of the tiles of a chunk.
    pub(crate) fn measure_tiles(
        &mut self,
        loaded: &Loaded,
        choice: &TileChoice,
        layout: &Layout,
        source: Source<'_>,
    ) -> Result<TileCounts> {
        self.tiles.start(loaded, choice, layout, source)?;
        self.tiles.finish(choice)
    }

    /// What measured tiles last.
    pub(crate) fn tile_meter(&self) -> &TileMeter {
        &self.tiles
    }
}

/// Transfers alone, for measuring. The bytes have no meaning.
impl Session {
    pub(crate) fn raw_send(&mut self, len: usize) -> Result<()> {
        self.reserve(2 * len, 0, 0)?;
        upload(&self.stream, self.ring.room(&self.stream, len)?, self.memory.address(), len)
    }

    pub(crate) fn raw_receive(&mut self, len: usize) -> Result<()> {
        self.reserve(2 * len, 0, 0)?;
        download(&self.stream, self.memory.address(), self.ring.room(&self.stream, len)?, len)
    }

    pub(crate) fn raw_move(&mut self, len: usize) -> Result<()> {
        self.reserve(2 * len, 0, 0)?;
        copy_on_device(&self.stream, self.memory.address(), self.memory.address() + len as u64, len)
    }
}
