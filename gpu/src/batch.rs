//! Batches of chunks that stay on the device: for measuring kernels alone, and for comparing them with the CPU. The plugin calls nothing of this, so that
//! allocations here may end the process.

use std::time::Instant;

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUevent_flags;
use quire_codec::stages::Axes;
use quire_codec::stages::choice::{TileChoice, TileCounts};
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::{LINEAR_INTERPOLATION, Predictor};
use quire_codec::stages::quantizer::Quantizer;
use quire_codec::{CodingPolicy, Config, Layout, Unverified, Workspace};

use crate::copy::copy;
use crate::declare::Address;
use crate::device::{Device, Lease};
use crate::error::{Context as _, Error, Reason, Result, reason};
use crate::job::{DECODE_OK, NO_KIND, TileSums};
use crate::memory::{bytes_of, download, upload};
use crate::parameters::{dataset_books, decode_parameters, for_chunk, linear_parameters};
use crate::plan::{DecodeVariant, EncodeVariant};
use crate::room::entry;
use crate::session::Session;
use crate::tiles::{ChunkBatch, Source, chosen_by_kernels, counts_of};

/// The variant of a batch: the kernel `inspect` looks at the chunks, and streams stay on the device.
const STAYS: EncodeVariant = EncodeVariant {
    needs_no_inspection: false,
    to_host: false,
    interpolated: false,
    linear: true,
    bit_planes: false,
    resident: false,
};

/// Times of one run after another, in microseconds.
#[derive(Debug, Clone, Default)]
pub struct Timings {
    /// From the first launch's start to the last one's end, on the device's clock.
    pub whole: Vec<f64>,
    /// Each step, on the device's clock, launched by itself with an event behind it: the sum of all steps exceeds `whole`, a recording's time.
    pub steps: Vec<(&'static str, Vec<f64>)>,
    /// Launching and waiting, on the host's clock.
    pub host: Vec<f64>,
}

/// The tiles of a chunk, measured on a device, and what follows from them.
#[derive(Debug, Clone)]
pub struct MeasuredTiles {
    /// What the device counted.
    pub counts: TileCounts,
    /// The grid and the predictor that the counts lead to.
    pub chosen: (Grid, Predictor),
    /// From the call to the counts, on the host's clock, in microseconds.
    pub calls: Vec<f64>,
    /// The kernel alone, on the device's clock, in microseconds.
    pub kernel: Vec<f64>,
}

/// The choice of a chunk's predictor in a batch on a device.
#[derive(Debug, Clone)]
pub struct BatchChoice {
    /// The grid and the predictor; `None` if the kernels named no predictor of the layout's.
    pub chosen: Option<(Grid, Predictor)>,
    /// What the kernels counted: residuals of the kinds of interpolation in `kinds` alone, and differences of interpolated tiles along `set` alone.
    pub counts: TileCounts,
    /// Numbers of these kinds.
    pub kinds: Vec<usize>,
    /// The best set of axes for differences, if interpolation was a candidate.
    pub set: Option<usize>,
}

/// Most chunks of a batch: they are a dimension of the grids.
const MAX_CHUNKS: usize = 65_535;

/// A batch of chunks of one layout on a device.
pub struct Batch {
    device: &'static Device,
    lease: Lease<Session>,
    layout: Layout,
    chunks: usize,
}

impl Batch {
    /// A batch with a session of its own.
    ///
    /// # Errors
    /// Those of [`Device::compress`].
    pub fn new(device: &'static Device, layout: &Layout, chunks: usize) -> Result<Self> {
        Device::check_layout(layout)?;
        if !(1..=MAX_CHUNKS).contains(&chunks) {
            return Err(Error::Unsupported(reason!("a batch of {chunks} chunks: 1 to {MAX_CHUNKS} are possible")));
        }
        Ok(Self { device, lease: device.lease()?, layout: *layout, chunks })
    }

    /// Compresses the chunks, which are contiguous, `repeats` times. Returns their streams and the times.
    ///
    /// # Errors
    /// Those of [`Device::compress`].
    pub fn compress(&mut self, chunks: &[u8], config: &Config, repeats: usize) -> Result<(Vec<Vec<u8>>, Timings)> {
        let done = self.compress_here(chunks, config, repeats);
        self.lease.check(done)
    }

    fn compress_here(&mut self, chunks: &[u8], config: &Config, repeats: usize) -> Result<(Vec<Vec<u8>>, Timings)> {
        let (device, layout, count) = (self.device, self.layout, self.chunks);
        let loaded = device.loaded();
        let session = self.lease.session();
        let (grid, predictor) = batch_choice(chunks, &layout, config)?;
        let parameters = linear_parameters(&layout, config, &grid, predictor)?;
        let bit_planes = config.coding == CodingPolicy::Bitshuffle;
        let variant = EncodeVariant { interpolated: predictor.is_interpolation(), bit_planes, ..STAYS };
        let number = session.encoder(loaded, &layout, count, variant)?;
        let job = session.encode_plan(number).0.job;
        session.send(bytes_of(&dataset_books(config)), &bytes_of(&parameters).repeat(count), job.dataset_books.address())?;
        session.wait()?;
        session.send(&[], chunks, job.input.address())?;
        let timings = {
            let (plan, graph) = session.encode_plan(number);
            let stream = &session.stream;
            time(
                device,
                stream,
                repeats,
                || graph.launch(),
                |observe| plan.enqueue(stream, &loaded.kernels, loaded.multiprocessors, observe),
            )?
        };
        let mut streams = Vec::with_capacity(count);
        for chunk in 0..count {
            let length = session.encode_result(chunk).length as usize;
            let job = &session.encode_plan(number).0.job;
            let from = job.output.address() + chunk as u64 * job.output_stride;
            let mut stream = vec![0; length];
            session.receive(from, &mut stream)?;
            streams.push(stream);
        }
        Ok((streams, timings))
    }

    /// Copies the tiles of a chunk on the host to pinned memory and measures them, 1 + `repeats` times. `None` if its predictor is not chosen on tiles.
    ///
    /// # Errors
    /// Those of [`Device::compress`].
    pub fn measure_on_host(&mut self, chunk: &[u8], config: &Config, repeats: usize) -> Result<Option<MeasuredTiles>> {
        let (loaded, layout) = (self.device.loaded(), self.layout);
        self.measure(repeats, |session| {
            let Some(choice) = TileChoice::of_chunk(chunk, &layout, config) else { return Ok(None) };
            let counts = session.measure_tiles(loaded, &choice, &layout, Source::Host(chunk))?;
            Ok(Some((choice, counts)))
        })
    }

    /// Sends a chunk to device memory and measures its tiles there, 1 + `repeats` times. `None` if its predictor is not chosen on tiles, or if its first values
    /// do not show that it has no lattice.
    ///
    /// # Errors
    /// Those of [`Device::compress`].
    pub fn measure_on_device(&mut self, chunk: &[u8], config: &Config, repeats: usize) -> Result<Option<MeasuredTiles>> {
        let (loaded, layout, chunks) = (self.device.loaded(), self.layout, self.chunks);
        let send = |session: &mut Session| {
            let number = session.encoder(loaded, &layout, chunks, STAYS)?;
            let input = session.encode_plan(number).0.job.input.address();
            session.send(&[], chunk, input)?;
            session.wait()?;
            Ok(input)
        };
        let sent = send(self.lease.session());
        let input = self.lease.check(sent)?;
        self.measure(repeats, |session| session.choose_on_device(loaded, input, &layout, config))
    }

    /// Chooses the predictors of the batch's chunks, which are contiguous, 1 + `repeats` times: as [`Device::compress_resident`] does. Returns what was chosen,
    /// and the times of all kernels of the choice on the device's clock, in microseconds.
    ///
    /// # Errors
    /// Those of [`Device::compress`].
    pub fn choose(&mut self, chunks: &[u8], choice: &TileChoice, repeats: usize) -> Result<(Vec<BatchChoice>, Timings)> {
        let (device, layout, count) = (self.device, self.layout, self.chunks);
        let loaded = device.loaded();
        let mut lease = device.lease_room()?;
        let done = (|| {
            let room = lease.lent();
            let stride = layout.chunk_bytes() as usize;
            room.begin(count * size_of::<Address>(), 1)?;
            room.chunks.grow(count * stride)?;
            room.streams.grow(ChunkBatch::room(choice, count))?;
            room.results.grow(count * size_of::<u32>())?;
            room.on_host.grow(chunks.len().max(count * size_of::<TileSums>()))?;
            room.on_host.bytes_mut(0..chunks.len()).copy_from_slice(chunks);
            upload(&room.stream, room.on_host.address(), room.chunks.address(), chunks.len())?;
            let addresses: Vec<Address> = (0..count).map(|chunk| room.chunks.address() + (chunk * stride) as u64).collect();
            let table = room.send_table(&addresses)?;
            let batch = ChunkBatch { chunks: table, count, device: room.streams.address(), predictors: room.results.address() };
            let stream = room.stream.clone();
            let tiles = std::cell::RefCell::new(&mut room.tiles);
            let start = |observe: &mut dyn FnMut(&'static str) -> Result<()>| {
                batch.choose(loaded, choice, &layout, &stream, &mut tiles.borrow_mut(), observe)
            };
            start(&mut |_| Ok(()))?;
            let times =
                if repeats > 0 { time(device, &stream, repeats, || start(&mut |_| Ok(())), start)? } else { Timings::default() };
            room.wait()?;
            download(&room.stream, batch.device, room.on_host.address(), count * size_of::<TileSums>())?;
            room.wait()?;
            let candidates: Vec<_> = choice.candidates().collect();
            let chosen = (0..count).map(|chunk| {
                let sums: TileSums = entry(&room.on_host, 0, chunk);
                let rough = candidates.iter().filter(|kind| kind.rough() != 0 && kind.is_linear() == (sums.first_kind != 0));
                let measured = rough.map(|kind| kind.number() as u32).chain([sums.last_kind]);
                let measured = measured.filter(|&kind| sums.is_interpolation_open != 0 && kind != NO_KIND);
                BatchChoice {
                    chosen: chosen_by_kernels(entry(&room.results, 0, chunk), choice, &layout),
                    counts: counts_of(&sums, choice),
                    set: (sums.is_interpolation_open != 0).then_some(sums.set as usize),
                    kinds: [0, LINEAR_INTERPOLATION.into()].into_iter().chain(measured.map(|kind| kind as usize)).collect(),
                }
            });
            Ok((chosen.collect(), times))
        })();
        lease.check(done)
    }

    fn measure(
        &mut self,
        repeats: usize,
        mut choose: impl FnMut(&mut Session) -> Result<Option<(TileChoice, TileCounts)>>,
    ) -> Result<Option<MeasuredTiles>> {
        let (device, session) = (self.device, self.lease.session());
        let mut measure = || -> Result<Option<MeasuredTiles>> {
            let Some((choice, counts)) = choose(session)? else { return Ok(None) };
            let mut calls = Vec::with_capacity(repeats);
            for _ in 0..repeats {
                let clock = Instant::now();
                choose(session)?;
                calls.push(clock.elapsed().as_secs_f64() * 1e6);
            }
            let tiles = session.tile_meter();
            let kernel = if repeats > 0 {
                time(device, tiles.stream(), repeats, || tiles.start_again(), |_| Ok(()))?.whole
            } else {
                Vec::new()
            };
            Ok(Some(MeasuredTiles { counts, chosen: choice.decide(&counts), calls, kernel }))
        };
        let done = measure();
        self.lease.check(done)
    }

    /// Decompresses the streams of the batch's chunks `repeats` times. Returns the chunks, contiguous, and the times.
    ///
    /// # Errors
    /// As [`Device::decompress`] and [`crate::Decompressing::finish`].
    pub fn decompress(&mut self, streams: &[Vec<u8>], repeats: usize) -> Result<(Vec<u8>, Timings)> {
        let done = self.decompress_here(streams, repeats);
        self.lease.check(done)
    }

    fn decompress_here(&mut self, streams: &[Vec<u8>], repeats: usize) -> Result<(Vec<u8>, Timings)> {
        let (device, layout, count) = (self.device, self.layout, self.chunks);
        let loaded = device.loaded();
        let mut joined: Option<DecodeVariant> = None;
        let mut heads = Vec::with_capacity(count);
        for stream in streams {
            let stream = Unverified::read(stream).map_err(|_| Error::Refused)?;
            let (found, parameters, variant) = decode_parameters(stream)?;
            if found != layout {
                return Err(Error::Unsupported(reason!("a stream holds {found:?}, the batch {layout:?}")));
            }
            let mixed = || Error::Unsupported(Reason::from("a batch of which only some chunks are interpolated"));
            joined = Some(joined.map_or(Some(variant), |joined| joined.join(variant)).ok_or_else(mixed)?);
            heads.push(parameters);
        }
        let session = self.lease.session();
        let variant = joined.ok_or_else(|| Error::Unsupported(Reason::from("an empty batch")))?;
        let number = session.decoder(loaded, &layout, count, variant)?;
        for (chunk, (stream, head)) in streams.iter().zip(&heads).enumerate() {
            let job = &session.decode_plan(number).0.job;
            let to = job.input.address() + chunk as u64 * job.input_stride;
            session.send(bytes_of(head), stream, to)?;
            // The ring is free again only then.
            session.wait()?;
        }
        let timings = {
            let (plan, graph) = session.decode_plan(number);
            let stream = &session.stream;
            time(
                device,
                stream,
                repeats,
                || graph.launch(),
                |observe| plan.enqueue(stream, &loaded.kernels, loaded.multiprocessors, observe),
            )?
        };
        if (0..count).any(|chunk| session.decode_result(chunk).error != DECODE_OK) {
            return Err(Error::Refused);
        }
        let mut chunks = vec![0; count * layout.chunk_bytes() as usize];
        for (index, chunk) in chunks.chunks_exact_mut(layout.chunk_bytes() as usize).enumerate() {
            let job = &session.decode_plan(number).0.job;
            let from = job.output.address() + index as u64 * job.output_stride;
            session.receive(from, chunk)?;
        }
        Ok((chunks, timings))
    }
}

/// The grid and the predictor of a batch: those of its first chunk.
///
/// # Errors
/// `OutOfMemory`.
pub fn batch_choice(chunks: &[u8], layout: &Layout, config: &Config) -> Result<(Grid, Predictor)> {
    for_chunk(&mut Workspace::default(), &chunks[..layout.chunk_bytes() as usize], layout, config)
}

/// Times `whole` and, one after another, the steps of `steps`.
fn time(
    device: &Device,
    stream: &std::sync::Arc<cudarc::driver::CudaStream>,
    repeats: usize,
    mut whole: impl FnMut() -> Result<()>,
    steps: impl Fn(&mut dyn FnMut(&'static str) -> Result<()>) -> Result<()>,
) -> Result<Timings> {
    const WHAT: &str = "timing the kernels";
    let event = || device.loaded().context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).context(WHAT);
    let elapsed = |from: &CudaEvent, to: &CudaEvent| from.elapsed_ms(to).context(WHAT).map(|time| f64::from(time) * 1e3);
    let (start, end) = (event()?, event()?);
    let mut timings = Timings::default();
    for _ in 0..repeats.max(1) {
        let clock = Instant::now();
        start.record(stream).context(WHAT)?;
        whole()?;
        end.record(stream).context(WHAT)?;
        stream.synchronize().context(WHAT)?;
        timings.host.push(clock.elapsed().as_secs_f64() * 1e6);
        timings.whole.push(elapsed(&start, &end)?);
    }
    if repeats > 1 {
        let marks: Vec<CudaEvent> = (0..32).map(|_| event()).collect::<Result<_>>()?;
        for _ in 0..repeats {
            let mut names = Vec::new();
            marks[0].record(stream).context(WHAT)?;
            steps(&mut |name| {
                names.push(name);
                marks[names.len()].record(stream).context(WHAT)
            })?;
            stream.synchronize().context(WHAT)?;
            for (at, &name) in names.iter().enumerate() {
                let time = elapsed(&marks[at], &marks[at + 1])?;
                match timings.steps.get_mut(at) {
                    Some((_, times)) => times.push(time),
                    None => timings.steps.push((name, vec![time])),
                }
            }
        }
    }
    Ok(timings)
}

/// Longest transfer that [`floors`] measures: it has to fit the ring.
const MAX_FLOOR: usize = 32 << 20;

/// What the machine can do at best, in microseconds for a number of bytes.
#[derive(Debug, Clone, Default)]
pub struct Floors {
    /// Copying on the host, one thread.
    pub copy_one: Vec<f64>,
    /// Copying on the host as transfers do.
    pub copy: Vec<f64>,
    /// Pinned memory to the device.
    pub to_device: Vec<f64>,
    /// The device to pinned memory.
    pub from_device: Vec<f64>,
    /// Within the device: the bytes are read once and written once.
    pub on_device: Vec<f64>,
    /// Launching the recorded kernels of a compression that find nothing to do, and waiting for them.
    pub launch: Vec<f64>,
}

/// Measures [`Floors`] for `len` bytes, up to 32 MiB.
///
/// # Errors
/// Those of [`Device::compress`].
pub fn floors(device: &'static Device, len: usize, repeats: usize) -> Result<Floors> {
    if len > MAX_FLOOR {
        return Err(Error::Unsupported(reason!("{len} bytes: up to {MAX_FLOOR} are measured")));
    }
    let mut lease = device.lease()?;
    let session = lease.session();
    let source: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    let mut target = vec![0; len];
    let mut floors = Floors::default();
    let microseconds = |clock: Instant| clock.elapsed().as_secs_f64() * 1e6;
    for _ in 0..repeats {
        let clock = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        floors.copy_one.push(microseconds(clock));
        let clock = Instant::now();
        copy(std::hint::black_box(&source), &mut target);
        floors.copy.push(microseconds(clock));
        for (times, run) in [
            (&mut floors.to_device, Session::raw_send as fn(&mut Session, usize) -> Result<()>),
            (&mut floors.from_device, Session::raw_receive),
            (&mut floors.on_device, Session::raw_move),
        ] {
            run(session, len)?;
            session.wait()?;
            let clock = Instant::now();
            run(session, len)?;
            session.wait()?;
            times.push(microseconds(clock));
        }
    }
    let layout = Layout {
        scalar: quire_codec::Scalar::F32,
        byte_order: quire_codec::ByteOrder::Little,
        shape: quire_codec::Shape::new(&[1]).map_err(|error| Error::Unsupported(reason!("{error}")))?,
    };
    // A chunk of one value is constant: its kernels find nothing to do.
    let number = session.encoder(device.loaded(), &layout, 1, STAYS)?;
    let parameters = session.encode_plan(number).0.job.parameters.address();
    let config = Config::absolute(1.0).map_err(|error| Error::Unsupported(reason!("{error}")))?;
    session.send(
        bytes_of(&linear_parameters(&layout, &config, &Grid::Linear(Quantizer::new(1.0)), Axes::FASTEST.into())?),
        &[0; 4],
        parameters,
    )?;
    for _ in 0..repeats {
        let clock = Instant::now();
        session.encode_plan(number).1.launch()?;
        session.wait()?;
        floors.launch.push(microseconds(clock));
    }
    Ok(floors)
}
