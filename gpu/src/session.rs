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
use quire_codec::stages::body::BodyHeader;
use quire_codec::stages::choice::{TileChoice, TileCounts};
use quire_codec::stages::exceptions::List;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::header::{CHECKSUM_AT, HEADER_MAX_LEN};
use quire_codec::stages::lattice::{self, highest_bit};
use quire_codec::stages::plane::interpolation_kind;
use quire_codec::stages::predictor::Predictor;
use quire_codec::stages::quantizer::Quantizer;
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::{
    CodebookPolicy, Coding, CodingPolicy, Config, ErrorBound, Header, Layout, Scalar, Unverified, Workspace, max_stream_len,
    memory,
};

use crate::chunk::{Chunk, ChunkRoom};
use crate::copy::{beside, copy, is_split};
use crate::declare::Address;
use crate::error::{Context as _, Error, Reason, Result, reason};
use crate::job::{
    DECIMAL, DECODE_OK, DatasetBooks, DecodeParameters, DecodeState, EXACT_FLOATS, EXACT_SIGNED, EXACT_UNSIGNED,
    EncodeParameters, EncodeResult, HEADER_ROOM, LINEAR, LOGARITHMIC, POLICY_AUTO, POLICY_CUSTOM, POLICY_DICTIONARY,
    SIGNED_STEPS, SYMBOLS, UNSIGNED_STEPS,
};
use crate::launch::Graph;
use crate::limits::check_layout;
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, bytes_of, copy_on_device, download, read_plain, upload};
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

    /// Makes room; whatever was recorded for other addresses is forgotten, also where there is no room to be had.
    fn reserve(&mut self, device_len: usize, direct_len: usize, results_len: usize) -> Result<()> {
        if device_len > self.memory.len() || direct_len > self.direct.len() || results_len > self.results.len() {
            self.encoders.clear();
            self.decoders.clear();
        }
        self.memory.grow(device_len)?;
        self.direct.grow(direct_len)?;
        self.results.grow(results_len)
    }

    /// Forgets what was recorded, as if no caller had asked for it.
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
        RECORDED.fetch_add(1, Ordering::Relaxed);
        if self.encoders.len() == KEPT {
            self.encoders.remove(0);
        }
        memory::push(&mut self.encoders, (key, plan, graph))?;
        Ok(self.encoders.len() - 1)
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
        RECORDED.fetch_add(1, Ordering::Relaxed);
        if self.decoders.len() == KEPT {
            self.decoders.remove(0);
        }
        memory::push(&mut self.decoders, (key, plan, graph))?;
        Ok(self.decoders.len() - 1)
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
            Choice::OnTiles(choice) => Some((choice.grid(), choice.decide(&self.tiles.finish(&choice)?))),
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

    /// A compressed stream of `length` bytes, all of which are there, if the kernels have written it to pinned memory.
    pub(crate) fn stream_on_host(&self, number: usize, length: usize) -> Option<&[u8]> {
        (!self.encode_plan(number).0.job.host_output.is_null()).then(|| self.direct.bytes(0..length))
    }

    /// Copies a compressed stream, all of which is there.
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
    /// The tiles' counts of a chunk at `chunk` in device memory, all of which is there, and the choice that follows from them. The host reads the chunk's first
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

/// Parameters of chunks with an absolute bound, whose lattice the kernels look for.
pub(crate) fn linear_parameters(layout: &Layout, config: &Config, predictor: Predictor) -> Result<EncodeParameters> {
    match config.bound {
        ErrorBound::Absolute(bound) if layout.scalar.is_float() => {
            Ok(encode_parameters(layout, config, &Grid::Linear(Quantizer::new(bound)), predictor))
        }
        bound => Err(Error::Unsupported(reason!(
            "{bound:?} of {:?}: only absolute bounds of floating-point numbers go in batches",
            layout.scalar
        ))),
    }
}

/// Parameters of a constant chunk: the kernels will find that it is.
pub(crate) fn constant_parameters(layout: &Layout) -> EncodeParameters {
    of_grid(layout, LINEAR, 1.0, &[])
}

/// The kernels' kind of grid for a coding; `None` for codings without a grid.
fn kind_of(coding: Coding, scalar: Scalar) -> Option<u32> {
    let is_unsigned = matches!(scalar, Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64);
    Some(match coding {
        Coding::Stored | Coding::Constant => return None,
        Coding::Quantized => LINEAR,
        Coding::Exact if scalar.is_float() => EXACT_FLOATS,
        Coding::Exact if is_unsigned => EXACT_UNSIGNED,
        Coding::Exact => EXACT_SIGNED,
        Coding::Steps if is_unsigned => UNSIGNED_STEPS,
        Coding::Steps => SIGNED_STEPS,
        Coding::Logarithmic => LOGARITHMIC,
        Coding::Decimal => DECIMAL,
    })
}

/// The codebooks of a configuration, for the kernels.
pub(crate) fn dataset_books(config: &Config) -> DatasetBooks {
    DatasetBooks { lengths: std::array::from_fn(|book| config.books.get(book).copied().unwrap_or([0; SYMBOLS])) }
}

/// Parameters of a grid, without the encoder's other choices.
fn of_grid(layout: &Layout, kind: u32, half_step: f64, fixed: &[u64]) -> EncodeParameters {
    let step = 2.0 * half_step;
    let [stored, header] = [Coding::Stored, Coding::Constant].map(|coding| Header { coding, layout: *layout });
    let padded = |header: &Header| {
        let mut padded = [0; HEADER_ROOM];
        padded[..HEADER_MAX_LEN].copy_from_slice(&header.to_bytes());
        padded
    };
    let is_exact = matches!(kind, EXACT_FLOATS | EXACT_SIGNED | EXACT_UNSIGNED);
    let fixed_len = if is_exact { 0 } else { (size_of_val(fixed) + size_of::<u32>()) as u32 };
    EncodeParameters {
        bound: half_step,
        step,
        inverse_step: 1.0 / step,
        fill_bits: 0,
        // Steps are positive, so that there is a highest bit.
        needed_bit: highest_bit(step).unwrap_or(0) + 1,
        has_fill: 0,
        big_endian: u32::from(layout.byte_order == quire_codec::ByteOrder::Big),
        policy: POLICY_AUTO,
        header_len: header.encoded_len() as u32,
        predictor: 0,
        kind,
        coding: 0,
        fixed: std::array::from_fn(|number| fixed.get(number).copied().unwrap_or(0)),
        fixed_len,
        books: 0,
        stored_header_len: stored.encoded_len() as u32,
        reserved: 0,
        header: padded(&header),
        stored_header: padded(&stored),
    }
}

/// Parameters of a chunk.
pub(crate) fn encode_parameters(layout: &Layout, config: &Config, grid: &Grid, predictor: Predictor) -> EncodeParameters {
    let fill_bits = |fill: Option<i64>| {
        let mask = u64::MAX >> (64 - 8 * layout.scalar.size());
        (fill.unwrap_or(0).cast_unsigned() & mask, u32::from(fill.is_some()))
    };
    let kind = kind_of(grid.coding(), layout.scalar).unwrap_or(LINEAR);
    let of_grid = |half_step: f64, fixed: &[u64]| of_grid(layout, kind, half_step, fixed);
    let (of_grid, (fill_bits, has_fill)) = match (grid, config.bound) {
        // The kernels find the lattice themselves, and with it whether the fill value needs care.
        (Grid::Linear(_), ErrorBound::Absolute(bound)) => {
            (of_grid(bound, &[bound.to_bits()]), fill_bits(config.fill_value.map(u64::cast_signed)))
        }
        (Grid::Linear(lattice), _) => {
            let half_step = lattice.half_step();
            (EncodeParameters { bound: 0.0, ..of_grid(half_step, &[half_step.to_bits()]) }, fill_bits(lattice.fill()))
        }
        (Grid::Exact, _) => (of_grid(1.0, &[]), fill_bits(None)),
        (Grid::Steps(steps), _) => (of_grid(steps.bound() as f64 + 0.5, &[steps.bound()]), fill_bits(steps.fill())),
        (Grid::Logarithmic(grid), _) => {
            let of_grid = of_grid(grid.half_step(), &[grid.half_step().to_bits(), grid.offset().cast_unsigned()]);
            (EncodeParameters { bound: grid.bound(), ..of_grid }, fill_bits(grid.fill()))
        }
        (Grid::Decimal(grid), _) => (of_grid(grid.step() / 2.0, &[grid.divisor()]), fill_bits(None)),
    };
    EncodeParameters {
        fill_bits,
        has_fill,
        policy: match config.codebook {
            CodebookPolicy::Auto => POLICY_AUTO,
            CodebookPolicy::Dictionary => POLICY_DICTIONARY,
            CodebookPolicy::Custom => POLICY_CUSTOM,
            // A new policy needs code in `choose`.
            _ => unreachable!("a codebook policy that the kernels do not know"),
        },
        predictor: u32::from(predictor.to_byte()),
        coding: u32::from(grid.coding().to_byte()),
        books: config.books.len() as u32,
        ..of_grid
    }
}

/// Grid and predictor of a chunk, as the codec chooses them.
pub(crate) fn for_chunk(chooser: &mut Workspace, chunk: &[u8], layout: &Layout, config: &Config) -> Result<(Grid, Predictor)> {
    Ok(chooser.choose(chunk, layout, config)?)
}

/// Values at a chunk's start that the host looks at.
const FIRST_VALUES: usize = 256;
/// Bytes of the longest values.
const MAX_VALUE_LEN: usize = 8;

/// Whether a chunk's first values already show that it is neither constant nor on a lattice, as most do; the kernel that looks at all
/// of them is then not needed.
fn has_nothing_to_inspect(chunk: &[u8], layout: &Layout, config: &Config) -> bool {
    let size = layout.scalar.size();
    let first_values = &chunk[..chunk.len().min(FIRST_VALUES * size)];
    let ErrorBound::Absolute(bound) = config.bound else { return false };
    let (order, step) = (layout.byte_order, 2.0 * bound);
    first_values.chunks_exact(size).any(|value| value != &first_values[..size])
        && match layout.scalar.of_values() {
            Scalar::F32 => lattice::is_off::<f32>(first_values, order, step, config.fill()),
            Scalar::F64 => lattice::is_off::<f64>(first_values, order, step, config.fill()),
            Scalar::F16 => lattice::is_off::<Binary16>(first_values, order, step, config.fill()),
            Scalar::BF16 => lattice::is_off::<BFloat16>(first_values, order, step, config.fill()),
            _ => false,
        }
}

/// Layout of a stream, its parameters for the kernels, and the variant of its launches. Constant and stored streams are not for the GPU.
pub(crate) fn decode_parameters(stream: Unverified<'_>) -> Result<(Layout, DecodeParameters, DecodeVariant)> {
    decode_parameters_of(stream, stream.bytes().len())
}

/// As [`decode_parameters`], for a stream of `length` bytes of which only the first ones may be there.
pub(crate) fn decode_parameters_of(stream: Unverified<'_>, length: usize) -> Result<(Layout, DecodeParameters, DecodeVariant)> {
    let header = stream.header();
    let (stream, body) = (stream.bytes(), stream.body());
    let (scalar, shape) = (header.layout.scalar, &header.layout.shape);
    let kind = kind_of(header.coding, scalar)
        .ok_or_else(|| Error::Unsupported(reason!("a {:?} chunk is only copied", header.coding)))?;
    if length as u64 > max_stream_len(&header.layout) {
        // Our encoder writes no such stream; the CPU reads it.
        return Err(Error::Unsupported(Reason::from("the stream is longer than its chunk")));
    }
    let fixed = BodyHeader::read(header, body).map_err(|_| Error::Refused)?;
    let checksum = stream[CHECKSUM_AT].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
    // The kernels read the list as it is; they refuse a stream that is too short for a plane behind it.
    let mut planes = &body[fixed.len..];
    List::take(&mut planes, fixed.exceptions, shape.elements(), scalar.size()).map_err(|_| Error::Refused)?;
    let (half_step, extra) = match fixed.grid {
        Grid::Linear(quantizer) => (quantizer.half_step(), 0),
        Grid::Logarithmic(grid) => (grid.half_step(), grid.offset().cast_unsigned()),
        Grid::Steps(steps) => (0.0, steps.bound()),
        Grid::Decimal(grid) => (0.0, grid.divisor()),
        Grid::Exact => (0.0, 0),
    };
    let parameters = DecodeParameters {
        step: 2.0 * half_step,
        stream_len: length as u64,
        body: (stream.len() - planes.len()) as u32,
        exceptions: u32::try_from(fixed.exceptions).map_err(|_| Error::Unsupported(Reason::from("more than 2^32 exceptions")))?,
        checksum,
        big_endian: u32::from(header.layout.byte_order == quire_codec::ByteOrder::Big),
        extra,
        kind,
        reserved: 0,
    };
    if interpolation_kind(planes, shape).is_some() && !fixed.can_be_interpolated(scalar) {
        return Err(Error::Refused);
    }
    let in_place = kind == LINEAR && scalar.size() == scalar.code_size();
    let variant = DecodeVariant::new(shape, in_place, fixed.exceptions, planes);
    Ok((header.layout, parameters, variant))
}
