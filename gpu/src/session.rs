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
use quire_codec::stages::choice::PredictorChoice;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::Predictor;
use quire_codec::{CodingPolicy, Layout, SettledConfig, Unverified, Workspace, memory};

use crate::chunk::{Chunk, ChunkRoom};
use crate::copy::{beside, copy, is_split};
use crate::declare::Address;
use crate::device::Device;
use crate::error::{Context as _, Error, Result, reason};
use crate::job::{DECODE_OK, DatasetBooks, DecodeParameters, DecodeState, EncodeParameters};
use crate::launch::Graph;
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, bytes_of, download, read_plain, upload};
use crate::parameters::{constant_parameters, dataset_books, decode_parameters, encode_parameters, may_have_lattice};
use crate::plan::{DecodePlan, DecodeVariant, EncodePlan, EncodeVariant, Key, Memory, Plan};
use crate::ring::Ring;
use crate::statistics::{RECORDED, SESSIONS};
use crate::tiles::TileMeter;

/// Streams that can be no longer than this are written to pinned memory by the kernels themselves. Longer streams are fetched once their length is known.
const DIRECT: usize = 4 << 20;
/// Longest streams that the kernels fetch from pinned memory themselves. Longer streams are sent piece by piece, as they are copied to pinned memory.
const FETCHED: usize = 512 << 10;
/// Most recorded jobs that a session keeps for each direction.
const KEPT: usize = 16;

/// One caller's share of the device.
pub(crate) struct Session {
    stream: Arc<CudaStream>,
    memory: DeviceMemory,
    ring: Ring,
    direct: PinnedMemory,
    results: PinnedMemory,
    /// What the kernels fetch: a chunk's parameters, or a stream behind its parameters. The memory never grows, as recorded launches have its address.
    inbox: PinnedMemory,
    /// For what the codec chooses: grids, and predictors that are not chosen on tiles.
    workspace: Boxed<Workspace>,
    tiles: TileMeter,
    encoders: Vec<Recorded<EncodePlan>>,
    decoders: Vec<Recorded<DecodePlan>>,
}

/// A job whose launches are recorded.
struct Recorded<P: Plan> {
    key: Key<P::Variant>,
    plan: P,
    graph: Graph,
}

impl Session {
    pub(crate) fn new(loaded: &Loaded) -> Result<Self> {
        let context = &loaded.context;
        let stream = context.new_stream().context("making a CUDA stream")?;
        let mut inbox = PinnedMemory::new(context.clone());
        const ENCODED: usize = size_of::<DatasetBooks>() + size_of::<EncodeParameters>();
        inbox.grow(ENCODED.max(size_of::<DecodeParameters>() + FETCHED))?;
        let session = Self {
            stream,
            memory: DeviceMemory::new(context.clone()),
            ring: Ring::new(context)?,
            direct: PinnedMemory::new(context.clone()),
            results: PinnedMemory::new(context.clone()),
            inbox,
            workspace: Boxed::new(Workspace::default())?,
            tiles: TileMeter::new(context)?,
            encoders: Vec::new(),
            decoders: Vec::new(),
        };
        SESSIONS.fetch_add(1, Ordering::Relaxed);
        Ok(session)
    }

    /// What measures tiles.
    #[cfg(test)]
    pub(crate) fn tiles(&mut self) -> &mut TileMeter {
        &mut self.tiles
    }

    /// Waits for all that this session has started.
    pub(crate) fn wait(&self) -> Result<()> {
        self.tiles.wait()?;
        self.stream.synchronize().context("waiting for the GPU")
    }

    /// Frees what the choice of predictors keeps on the host.
    pub(crate) fn free_workspace(&mut self) {
        *self.workspace = Workspace::default();
    }

    /// Makes the memory long enough. Before any of it grows, all recordings are dropped, as they have the old addresses.
    fn reserve(&mut self, device_len: usize, direct_len: usize, results_len: usize) -> Result<()> {
        if device_len > self.memory.len() || direct_len > self.direct.len() || results_len > self.results.len() {
            self.encoders.clear();
            self.decoders.clear();
        }
        self.memory.grow(device_len)?;
        self.direct.grow(direct_len)?;
        self.results.grow(results_len)
    }

    /// Drops all recordings, and takes them out of the statistics.
    pub(crate) fn forget_recorded(&mut self) {
        RECORDED.fetch_sub((self.encoders.len() + self.decoders.len()) as u64, Ordering::Relaxed);
        self.encoders.clear();
        self.decoders.clear();
    }

    /// The memory that every plan uses.
    fn plan_memory(&self, loaded: &Loaded) -> Memory {
        Memory { arrays: self.memory.address(), tables: loaded.tables(), results: self.results.address(), ..Memory::default() }
    }

    /// Memory for compressing a chunk, and where the chunk goes in it. Both are the same for all variants.
    fn place_encoder(&mut self, loaded: &Loaded, layout: &Layout, coding: CodingPolicy) -> Result<(Memory, Address)> {
        let key = Key { layout: *layout, chunks: 1, variant: EncodeVariant::unknown(layout, coding) };
        let plan = EncodePlan::new(&key, &Memory::default());
        let stream_len = plan.job.output_stride as usize;
        let direct_len = if stream_len <= DIRECT { stream_len } else { 0 };
        self.reserve(plan.len(), direct_len, size_of::<u64>())?;
        let streams = if direct_len > 0 { self.direct.address() } else { 0 };
        let memory = Memory { inbox: self.inbox.address(), streams, ..self.plan_memory(loaded) };
        Ok((memory, memory.arrays + plan.job.input.address()))
    }

    /// Bytes of the compressed stream, after a wait.
    pub(crate) fn stream_len(&self) -> usize {
        read_plain::<u64>(self.results.bytes(0..size_of::<u64>())) as usize
    }

    /// Sends a chunk and starts compressing it. Returns the job's number among `encoders`.
    pub(crate) fn start_compressing(
        &mut self,
        loaded: &Loaded,
        chunk: Chunk<'_>,
        layout: &Layout,
        config: &SettledConfig,
    ) -> Result<usize> {
        let (memory, input) = self.place_encoder(loaded, layout, config.coding)?;
        let (variant, parameters) = match self.send_and_choose(loaded, chunk, input, layout, config)? {
            None => (EncodeVariant::unknown(layout, config.coding), constant_parameters(layout)),
            Some((grid, predictor)) => {
                let inspected = may_have_lattice(chunk.bytes, layout, config);
                let variant = EncodeVariant::chosen(layout, config.coding, &grid, predictor, inspected);
                (variant, encode_parameters(layout, config, &grid, predictor))
            }
        };
        let key = Key { layout: *layout, chunks: 1, variant };
        let number = find_or_record(&mut self.encoders, key, &memory, &self.stream, loaded)?;
        const BOOKS_LEN: usize = size_of::<DatasetBooks>();
        self.inbox.bytes_mut(0..BOOKS_LEN).copy_from_slice(bytes_of(&dataset_books(config.books)));
        self.inbox.bytes_mut(BOOKS_LEN..BOOKS_LEN + size_of::<EncodeParameters>()).copy_from_slice(bytes_of(&parameters));
        self.encoders[number].graph.launch()?;
        Ok(number)
    }

    /// Sends a chunk, and chooses its grid and its predictor meanwhile. `None` for a constant chunk.
    fn send_and_choose(
        &mut self,
        loaded: &Loaded,
        Chunk { bytes: chunk, is_pinned }: Chunk<'_>,
        input: Address,
        layout: &Layout,
        config: &SettledConfig,
    ) -> Result<Option<(Grid, Predictor)>> {
        let Self { ring, stream, workspace, tiles, .. } = self;
        let mut send = || match is_pinned {
            true => upload(stream, chunk.as_ptr() as Address, input, chunk.len()),
            false => ring.send(stream, &[], chunk, input),
        };
        // A constant chunk needs no grid and no predictor, and the search for its lattice would read all of it.
        let mut choose = || -> Result<Choice> {
            if layout.is_constant(chunk) {
                return Ok(Choice::Constant);
            }
            match PredictorChoice::of_chunk(chunk, layout, config) {
                Some(choice) => tiles.start(loaded, &choice, layout, chunk).map(|()| Choice::OnTiles(choice)),
                None => Ok(workspace.choose(chunk, layout, config).map(|(grid, predictor)| Choice::Made(grid, predictor))?),
            }
        };
        // This thread takes a few microseconds to start measuring tiles, and a helper takes longer to wake up. So tiles come first, unless helpers send the
        // chunk meanwhile.
        let is_sent_by_many = !is_pinned && is_split(chunk.len());
        let (sent, choice) = if PredictorChoice::is_open(layout.scalar, config) && !is_sent_by_many {
            let choice = choose();
            (send(), choice)
        } else {
            beside(send, choose)
        };
        sent?;
        Ok(match choice? {
            Choice::Constant => None,
            Choice::Made(grid, predictor) => Some((grid, predictor)),
            Choice::OnTiles(choice) => Some(choice.decide(&self.tiles.finish(&choice)?)),
        })
    }

    /// A complete compressed stream of `length` bytes, if the kernels have written it to pinned memory.
    pub(crate) fn stream_on_host(&self, number: usize, length: usize) -> Option<&[u8]> {
        (!self.encoders[number].plan.job.host_output.is_null()).then(|| self.direct.bytes(0..length))
    }

    /// Copies a complete compressed stream.
    pub(crate) fn copy_stream(&mut self, number: usize, to: &mut [u8]) -> Result<()> {
        match self.stream_on_host(number, to.len()) {
            Some(stream) => {
                copy(stream, to);
                Ok(())
            }
            None => self.ring.receive(&self.stream, self.encoders[number].plan.job.output.address(), to),
        }
    }

    /// Sends a stream and starts decompressing it. Returns the job's number among `decoders`.
    pub(crate) fn start_decompressing(&mut self, loaded: &Loaded, stream: Unverified<'_>) -> Result<usize> {
        let (layout, parameters, variant) = decode_parameters(stream, stream.bytes().len())?;
        Device::check_layout(&layout)?;
        let stream = stream.bytes();
        let fetched = stream.len() <= FETCHED;
        let key = Key { layout, chunks: 1, variant: DecodeVariant { fetched, ..variant } };
        self.reserve(DecodePlan::needed(&key), 0, size_of::<DecodeState>())?;
        let memory = Memory { inbox: if fetched { self.inbox.address() } else { 0 }, ..self.plan_memory(loaded) };
        let number = find_or_record(&mut self.decoders, key, &memory, &self.stream, loaded)?;
        if fetched {
            let head = size_of::<DecodeParameters>();
            self.inbox.bytes_mut(0..head).copy_from_slice(bytes_of(&parameters));
            copy(stream, self.inbox.bytes_mut(head..head + stream.len()));
        } else {
            self.ring.send(&self.stream, bytes_of(&parameters), stream, self.decoders[number].plan.job.input.address())?;
        }
        self.decoders[number].graph.launch()?;
        Ok(number)
    }

    /// Waits for the values of a chunk and copies them.
    pub(crate) fn copy_values(&mut self, number: usize, to: ChunkRoom<'_>) -> Result<()> {
        let ChunkRoom { bytes: to, is_pinned } = to;
        let Recorded { key, plan, .. } = &self.decoders[number];
        let (from, len) = (plan.job.output.address(), key.layout.chunk_bytes());
        if to.len() as u64 != len {
            return Err(Error::Unsupported(reason!("the stream holds {len} bytes, the caller has room for {}", to.len())));
        }
        if is_pinned {
            download(&self.stream, from, to.as_mut_ptr() as Address, to.len())?;
            self.stream.synchronize().context("waiting for the GPU")?;
        } else {
            self.ring.receive(&self.stream, from, to)?;
        }
        let state: DecodeState = read_plain(self.results.bytes(0..size_of::<DecodeState>()));
        if state.error != DECODE_OK { Err(Error::Refused) } else { Ok(()) }
    }
}

/// The number of the job with this key. A new job is recorded, in place of the oldest one if there are [`KEPT`].
fn find_or_record<P: Plan>(
    jobs: &mut Vec<Recorded<P>>,
    key: Key<P::Variant>,
    memory: &Memory,
    stream: &Arc<CudaStream>,
    loaded: &Loaded,
) -> Result<usize> {
    if let Some(found) = jobs.iter().position(|job| job.key == key) {
        return Ok(found);
    }
    let plan = P::new(&key, memory);
    let graph = Graph::record(stream, || plan.enqueue(stream, loaded))?;
    RECORDED.fetch_add(1, Ordering::Relaxed);
    if jobs.len() == KEPT {
        jobs.remove(0);
    }
    memory::push(jobs, Recorded { key, plan, graph })?;
    Ok(jobs.len() - 1)
}

/// The choice of grid and predictor, as far as the host makes it while a chunk is sent.
enum Choice {
    /// All values are equal.
    Constant,
    Made(Grid, Predictor),
    /// The device measures the tiles.
    OnTiles(PredictorChoice),
}
