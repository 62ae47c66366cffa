//! Compressing a batch of resident chunks.
//!
//! ```text
//! boxes ─> inspect, choose predictors ─> decisions ─> a launch set for each variant ─> lengths ─> packed streams ─> caller
//!                                     │     ↑
//!                                     └ chunks that the host has to look at
//! ```

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

use quire_codec::stages::choice::TileChoice;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::Predictor;
use quire_codec::stages::{Axes, settled_bound};
use quire_codec::{CodingPolicy, Config, ErrorBound, Layout, Workspace, check_bound, max_stream_len, memory};

use super::boxes::{Boxes, Way, copy_runs};
use super::packed::{PackedStreams, aligned};
use super::sets::{in_sets, set_len};
use super::{Failure, Fault, Resident};
use crate::declare::Address;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::job::{CopiedBox, CopiedRun, DatasetBooks, EncodeParameters, EncodeResult, Inspection};
use crate::launch::Kernels;
use crate::memory::{download, upload};
use crate::plan::{EncodePlan, EncodeVariant, Key, Memory, Variant};
use crate::room::{MAX_ROOMS, Room, entry};
use crate::session::{constant_parameters, dataset_books, encode_parameters};
use crate::tiles::{ChunkBatch, predictor_of};

/// Most threads of a set that decide on chunks, with the host's values or without.
const MAX_LOOKING: usize = 8;

/// A batch that is being compressed.
struct Compressing<'a> {
    device: &'static Device,
    values: &'a Resident<'a>,
    layout: &'a Layout,
    config: &'a Config<'a>,
    books: DatasetBooks,
    /// The choice that tiles in device memory decide, for chunks without a lattice.
    choice: Option<TileChoice>,
    /// Whether the layout is for the GPU at all.
    is_for_kernels: bool,
}

/// How a chunk becomes a stream.
enum Decision {
    /// The kernels compress it. `is_lossless`: with the exact bits, so that a stream longer than the chunk stays.
    Kernels { variant: EncodeVariant, parameters: EncodeParameters, is_lossless: bool },
    /// The host has made its stream.
    Made(Vec<u8>),
}

/// Where a chunk's stream is.
#[derive(Default)]
enum Stream {
    #[default]
    NotMade,
    /// Among the room's streams.
    OnDevice {
        offset: u64,
        length: u64,
    },
    OnHost(Vec<u8>),
}

impl Stream {
    fn len(&self) -> u64 {
        match self {
            Self::NotMade => 0,
            Self::OnDevice { length, .. } => *length,
            Self::OnHost(bytes) => bytes.len() as u64,
        }
    }
}

impl Device {
    /// Compresses chunks in device memory to streams in the host's. `take` gets the number of each chunk and its stream, on several threads and in any order.
    /// Returns when the values are no longer needed.
    ///
    /// # Errors
    /// The first failure, and its chunk.
    ///
    /// # Safety
    /// The parts lead to values in memory of this device that nobody changes meanwhile; the stream is one of the device's primary context.
    pub unsafe fn compress_resident(
        &'static self,
        values: &Resident<'_>,
        layout: &Layout,
        config: &Config<'_>,
        take: &(dyn Fn(usize, &[u8]) -> quire_codec::Result<()> + Sync),
    ) -> std::result::Result<(), Failure> {
        let batch = Compressing::new(self, values, layout, config)?;
        batch.run(&|room, set| batch.deliver_to_host(room, &set, take), &|| ())
    }

    /// Compresses chunks in device memory to streams there, which are complete when this returns. [`Device::compress_resident`] writes them to the host.
    ///
    /// # Errors
    /// Those of [`Device::compress_resident`], and `InvalidArgument` if there is no room for the streams.
    ///
    /// # Safety
    /// The rules of [`Device::compress_resident`] hold, and the target is device memory of its capacity that nobody else uses meanwhile.
    pub unsafe fn compress_resident_to(
        &'static self,
        values: &Resident<'_>,
        layout: &Layout,
        config: &Config<'_>,
        packed: &PackedStreams<'_>,
    ) -> std::result::Result<(), Failure> {
        let batch = Compressing::new(self, values, layout, config)?;
        batch.run(&|room, set| batch.deliver_to_device(room, &set, packed), &|| packed.break_off())?;
        Ok(packed.check()?)
    }
}

impl<'a> Compressing<'a> {
    fn new(
        device: &'static Device,
        values: &'a Resident<'a>,
        layout: &'a Layout,
        config: &'a Config<'a>,
    ) -> std::result::Result<Self, Failure> {
        Device::check_resident(layout)?;
        check_bound(layout, config)?;
        let is_for_kernels = Device::check_layout(layout).is_ok();
        Ok(Self {
            device,
            values,
            layout,
            config,
            books: dataset_books(config),
            // No values are on no lattice.
            choice: if is_for_kernels { TileChoice::of_chunk(&[], layout, config) } else { None },
            is_for_kernels,
        })
    }

    fn run(
        &self,
        deliver: &(impl Fn(&mut Room, Range<usize>) -> std::result::Result<(), Failure> + Sync),
        broken_off: &(impl Fn() + Sync),
    ) -> std::result::Result<(), Failure> {
        let (count, chunk_len) = (self.values.parts.len(), self.layout.chunk_bytes());
        let job_len = self.plan(1, self.variant(true, true), &Memory::default()).len;
        in_sets(self.device, count, set_len(count, chunk_len, job_len), self.values.stream, deliver, broken_off)
    }

    fn kernels(&self) -> &'static Kernels {
        &self.device.loaded().kernels
    }

    fn chunk_len(&self) -> usize {
        self.layout.chunk_bytes() as usize
    }

    fn variant(&self, interpolated: bool, needs_no_inspection: bool) -> EncodeVariant {
        EncodeVariant {
            needs_no_inspection,
            to_host: false,
            interpolated,
            linear: self.layout.scalar.is_float(),
            bit_planes: self.config.coding == CodingPolicy::Bitshuffle,
            resident: true,
        }
    }

    fn plan(&self, chunks: usize, variant: EncodeVariant, memory: &Memory) -> EncodePlan {
        let key = Key { scalar: self.layout.scalar, shape: self.layout.shape, chunks, variant: Variant::Encode(variant) };
        EncodePlan::new(&key, self.layout, variant, memory)
    }

    /// A plan in a room, whose results go to the room's, with the chunks at `addresses`.
    fn plan_in(&self, room: &mut Room, variant: EncodeVariant, addresses: &[Address]) -> Result<EncodePlan> {
        let chunks = addresses.len();
        room.arrays.grow(self.plan(chunks, variant, &Memory::default()).len)?;
        let values = room.send_table(addresses)?;
        let memory = Memory {
            arrays: room.arrays.address(),
            tables: self.device.loaded().tables(),
            values,
            results: room.results.address(),
            inspections: room.results.address(),
            ..Memory::default()
        };
        Ok(self.plan(chunks, variant, &memory))
    }

    /// Makes the streams of a set. They are complete when this returns.
    fn make(&self, room: &mut Room, set: &Range<usize>) -> std::result::Result<Vec<Stream>, Failure> {
        let count = set.len();
        let table_len =
            2 * (size_of::<Address>() + size_of::<EncodeParameters>()) + 3 * size_of::<CopiedBox>() + 2 * size_of::<CopiedRun>();
        // Each variant of a chunk has three tables and its books, each way of copying one.
        room.begin(count * table_len + VARIANTS * size_of::<DatasetBooks>() + FILL_LEN, 4 * VARIANTS + 8)?;
        room.results.grow(count * (size_of::<EncodeResult>().max(size_of::<u32>() + size_of::<Inspection>())))?;
        let longest = aligned(max_stream_len(self.layout)) as usize;
        // While predictors are chosen, the counts have the place of the streams.
        let for_choice = self.choice.as_ref().map_or(0, |choice| ChunkBatch::room(choice, count));
        room.streams.grow((count * longest).max(for_choice))?;
        let addresses = self.gather(room, set)?;
        let mut streams = memory::collect((0..count).map(|_| Stream::NotMade))?;
        let mut decisions = self.decide(room, &addresses, set)?;
        let mut packed = 0;
        let mut too_long = Vec::new();
        loop {
            let open = |decision: &Option<Decision>| match decision {
                Some(Decision::Kernels { variant, .. }) => Some(*variant),
                _ => None,
            };
            let Some(variant) = decisions.iter().find_map(open) else { break };
            let chosen = memory::collect((0..count).filter(|&chunk| open(&decisions[chunk]) == Some(variant)))?;
            let lengths = self.compress_group(room, variant, &chosen, &addresses, &decisions)?;
            let mut runs = Vec::new();
            memory::reserve(&mut runs, chosen.len())?;
            for (&chunk, (length, output)) in chosen.iter().zip(&lengths) {
                let is_lossless = matches!(decisions[chunk], Some(Decision::Kernels { is_lossless: true, .. }));
                decisions[chunk] = None;
                if *length > self.layout.chunk_bytes() && !is_lossless {
                    memory::push(&mut too_long, chunk)?;
                    continue;
                }
                runs.push(CopiedRun { from: *output, to: room.streams.address() + packed, bytes: *length });
                streams[chunk] = Stream::OnDevice { offset: packed, length: *length };
                packed += aligned(*length);
            }
            copy_runs(room, self.kernels(), &runs)?;
        }
        for (stream, decision) in streams.iter_mut().zip(&mut decisions) {
            if let Some(Decision::Made(bytes)) = decision.take() {
                *stream = Stream::OnHost(bytes);
            }
        }
        if !too_long.is_empty() {
            let made = self.look(room, &addresses, &too_long, set.start, &|chunk, workspace| {
                Ok(Decision::Made(self.make_on_host(chunk, workspace)?))
            })?;
            for (chunk, decision) in too_long.into_iter().zip(made) {
                if let Decision::Made(bytes) = decision {
                    streams[chunk] = Stream::OnHost(bytes);
                }
            }
        }
        Ok(streams)
    }

    /// Addresses of a set's chunks in C order. Those that are not so where the caller has them are gathered.
    fn gather(&self, room: &mut Room, set: &Range<usize>) -> std::result::Result<Vec<Address>, Failure> {
        let Resident { axes, parts, .. } = *self.values;
        let parts = &parts[set.clone()];
        let addresses = self.values.dense_addresses(room, set, self.chunk_len())?;
        let (mut gathered, mut filled) = (Boxes::new(Way::Gather), Boxes::new(Way::Fill));
        let mut filling = None;
        for (part, &address) in parts.iter().zip(&addresses).filter(|(part, _)| !self.values.is_dense(part)) {
            match part.under {
                _ if part.is_whole => {}
                Some(under) => {
                    assert_eq!(under.len(), self.chunk_len(), "a chunk has all its bytes");
                    room.ring.send(&room.stream, &[], under, address)?;
                    // The ring is free again only then.
                    room.wait()?;
                }
                None => {
                    if filling.is_none() {
                        filling = Some(room.send_table(&[self.fill_value()])?);
                    }
                    filled.add_filled(axes, filling.unwrap_or_default(), address)?;
                }
            }
            if !part.is_empty() {
                gathered.add(part, address)?;
            }
        }
        let kernels = self.kernels().of_type(self.layout.scalar);
        filled.launch(room, kernels, axes)?;
        gathered.launch(room, kernels, axes)?;
        Ok(addresses)
    }

    /// The bytes of a fill value as chunks have it, 0 without one.
    fn fill_value(&self) -> u64 {
        let value = self.config.fill_value.unwrap_or(0);
        let size = self.layout.scalar.size();
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&value.to_le_bytes()[..size]);
        if self.layout.byte_order == quire_codec::ByteOrder::Big {
            bytes[..size].reverse();
        }
        u64::from_le_bytes(bytes)
    }

    /// Decides what is to be done with each chunk.
    fn decide(
        &self,
        room: &mut Room,
        addresses: &[Address],
        set: &Range<usize>,
    ) -> std::result::Result<Vec<Option<Decision>>, Failure> {
        let count = addresses.len();
        let mut decisions = memory::collect((0..count).map(|_| None))?;
        if let Some(choice) = &self.choice {
            self.choose(room, choice, addresses)?;
            for (chunk, decision) in decisions.iter_mut().enumerate() {
                let predictor = entry(&room.results, count * size_of::<Inspection>(), chunk);
                *decision = self.decide_by_kernels(choice, &entry(&room.results, 0, chunk), predictor);
            }
        }
        let open = memory::collect((0..decisions.len()).filter(|&chunk| decisions[chunk].is_none()))?;
        let looked_at =
            self.look(room, addresses, &open, set.start, &|chunk, workspace| self.decide_on_host(chunk, workspace))?;
        for (chunk, decision) in open.into_iter().zip(looked_at) {
            decisions[chunk] = Some(decision);
        }
        Ok(decisions)
    }

    /// Inspects the chunks and chooses their predictors on the device; the room's results have first the inspections, then the predictors.
    fn choose(&self, room: &mut Room, choice: &TileChoice, addresses: &[Address]) -> Result<()> {
        let loaded = self.device.loaded();
        let count = addresses.len();
        let plan = self.plan_in(room, self.variant(false, false), addresses)?;
        let parameters = encode_parameters(self.layout, self.config, &choice.grid(), Axes::all(&self.layout.shape).into());
        let parameters = memory::collect((0..count).map(|_| parameters))?;
        room.send(&parameters, plan.job.parameters.address())?;
        plan.inspect(&room.stream, &loaded.kernels, loaded.multiprocessors)?;
        let batch = ChunkBatch {
            chunks: plan.job.inputs.address(),
            count,
            device: room.streams.address(),
            predictors: room.results.address() + (count * size_of::<Inspection>()) as u64,
        };
        batch.choose(loaded, choice, self.layout, &room.stream, &mut room.tiles, |_| Ok(()))?;
        room.wait()
    }

    /// What follows from a chunk's inspection and the byte of its predictor; `None` if the host has to look at it.
    fn decide_by_kernels(&self, choice: &TileChoice, inspection: &Inspection, predictor: u32) -> Option<Decision> {
        if inspection.differs == 0 {
            return Some(self.constant());
        }
        if inspection.has_no_lattice == 0 {
            return None;
        }
        Some(self.kernels_with(self.config, &choice.grid(), predictor_of(predictor, self.layout)?, true))
    }

    fn constant(&self) -> Decision {
        Decision::Kernels { variant: self.variant(false, false), parameters: constant_parameters(self.layout), is_lossless: true }
    }

    /// `config` has a settled bound.
    fn kernels_with(&self, config: &Config<'_>, grid: &Grid, predictor: Predictor, needs_no_inspection: bool) -> Decision {
        let variant = EncodeVariant {
            linear: matches!(grid, Grid::Linear(_)),
            ..self.variant(predictor.is_interpolation(), needs_no_inspection)
        };
        Decision::Kernels {
            variant,
            parameters: encode_parameters(self.layout, config, grid, predictor),
            is_lossless: config.bound == ErrorBound::Lossless,
        }
    }

    /// Settles a chunk's bound and chooses grid and predictor, or makes its stream if that has to be made for it.
    fn decide_on_host(&self, chunk: &[u8], workspace: &mut Workspace) -> std::result::Result<Decision, Fault> {
        if !self.is_for_kernels {
            return Ok(Decision::Made(self.make_on_host(chunk, workspace)?));
        }
        if self.layout.is_constant(chunk) {
            return Ok(self.constant());
        }
        let Some(bound) = settled_bound(chunk, self.layout, self.config)? else {
            return Ok(Decision::Made(self.make_on_host(chunk, workspace)?));
        };
        let config = self.config.with_bound(bound);
        let (grid, predictor) = workspace.choose(chunk, self.layout, &config)?;
        // Only on an absolute bound's grid do the kernels look for a lattice; none of these chunks is constant.
        let is_searched = matches!(bound, ErrorBound::Absolute(_)) && self.layout.scalar.is_float();
        Ok(self.kernels_with(&config, &grid, predictor, !is_searched))
    }

    /// Makes a chunk's stream the ordinary way.
    fn make_on_host(&self, chunk: &[u8], workspace: &mut Workspace) -> std::result::Result<Vec<u8>, Fault> {
        let mut stream = Vec::new();
        match self.device.compress(chunk, self.layout, self.config) {
            Ok(compressed) => {
                memory::resize(&mut stream, compressed.len())?;
                compressed.copy_to(&mut stream)?;
            }
            // Layouts that are not for the GPU, and what the codec says as well.
            Err(Error::Unsupported(_)) => workspace.compress(chunk, self.layout, self.config, &mut stream)?,
            Err(error) => return Err(error.into()),
        }
        Ok(stream)
    }

    /// Copies chunks to the host and has several threads decide on them. The chunks are numbers within the set, which begins with chunk `first` of the batch.
    fn look(
        &self,
        room: &mut Room,
        addresses: &[Address],
        chunks: &[usize],
        first: usize,
        decide: &(impl Fn(&[u8], &mut Workspace) -> std::result::Result<Decision, Fault> + Sync),
    ) -> std::result::Result<Vec<Decision>, Failure> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let len = self.chunk_len();
        room.on_host.grow(chunks.len() * len)?;
        for (place, &chunk) in chunks.iter().enumerate() {
            download(&room.stream, addresses[chunk], room.on_host.address() + (place * len) as u64, len)?;
        }
        room.wait()?;
        room.reserve_workspaces(threads_for(chunks.len()))?;
        let (on_host, workspaces) = (&room.on_host, &mut room.workspaces);
        let decisions = spread(workspaces, chunks.len(), &|place, workspace| {
            decide(on_host.bytes(place * len..(place + 1) * len), workspace)
        })?;
        let mut done = Vec::new();
        memory::reserve(&mut done, chunks.len())?;
        for (decision, &chunk) in decisions.into_iter().zip(chunks) {
            done.push(decision.map_err(|fault| Failure::of(first + chunk, fault))?);
        }
        Ok(done)
    }

    /// Compresses chunks of one variant. Length and address of each stream, which are there until the room's next job.
    fn compress_group(
        &self,
        room: &mut Room,
        variant: EncodeVariant,
        chosen: &[usize],
        addresses: &[Address],
        decisions: &[Option<Decision>],
    ) -> Result<Vec<(u64, Address)>> {
        let loaded = self.device.loaded();
        let addresses = memory::collect(chosen.iter().map(|&chunk| addresses[chunk]))?;
        let parameters = memory::collect(chosen.iter().filter_map(|&chunk| match &decisions[chunk] {
            Some(Decision::Kernels { parameters, .. }) => Some(*parameters),
            _ => None,
        }))?;
        let plan = self.plan_in(room, variant, &addresses)?;
        if !self.config.books.is_empty() {
            room.send(&[self.books], plan.job.dataset_books.address())?;
        }
        room.send(&parameters, plan.job.parameters.address())?;
        plan.enqueue(&room.stream, &loaded.kernels, loaded.multiprocessors, |_| Ok(()))?;
        room.wait()?;
        Ok(memory::collect((0..chosen.len()).map(|chunk| {
            let result: EncodeResult = room.result(0, chunk);
            (result.length, plan.job.output.address() + chunk as u64 * plan.job.output_stride)
        }))?)
    }

    /// Makes the streams of a set and hands them to the caller on the host.
    fn deliver_to_host(
        &self,
        room: &mut Room,
        set: &Range<usize>,
        take: &(dyn Fn(usize, &[u8]) -> quire_codec::Result<()> + Sync),
    ) -> std::result::Result<(), Failure> {
        let streams = self.make(room, set)?;
        let end = |stream: &Stream| if let Stream::OnDevice { offset, length } = stream { offset + length } else { 0 };
        let packed_len = streams.iter().map(end).max().unwrap_or(0) as usize;
        if packed_len > 0 {
            room.on_host.grow(packed_len)?;
            download(&room.stream, room.streams.address(), room.on_host.address(), packed_len)?;
        }
        room.wait()?;
        for (chunk, stream) in set.clone().zip(&streams) {
            let bytes = match stream {
                Stream::OnDevice { offset, length } => room.on_host.bytes(*offset as usize..(offset + length) as usize),
                Stream::OnHost(bytes) => bytes,
                Stream::NotMade => unreachable!("each chunk has a decision"),
            };
            take(chunk, bytes).map_err(|error| Failure::of(chunk, error))?;
        }
        Ok(())
    }

    /// Makes the streams of a set and copies them to their places.
    fn deliver_to_device(
        &self,
        room: &mut Room,
        set: &Range<usize>,
        packed: &PackedStreams<'_>,
    ) -> std::result::Result<(), Failure> {
        let streams = self.make(room, set)?;
        let on_host: u64 =
            streams.iter().map(|stream| if let Stream::OnHost(bytes) = stream { aligned(bytes.len() as u64) } else { 0 }).sum();
        room.on_host.grow(on_host as usize)?;
        let Some(target) = packed.place(set.start, streams.iter().map(Stream::len)) else {
            // The room's kernels still read the caller's values.
            return Ok(room.wait()?);
        };
        let (mut runs, mut to, mut sent) = (Vec::new(), target, 0);
        memory::reserve(&mut runs, streams.len())?;
        for stream in &streams {
            match stream {
                Stream::OnDevice { offset, length } => {
                    runs.push(CopiedRun { from: room.streams.address() + offset, to, bytes: *length });
                }
                Stream::OnHost(bytes) => {
                    room.on_host.bytes_mut(sent..sent + bytes.len()).copy_from_slice(bytes);
                    upload(&room.stream, room.on_host.address() + sent as u64, to, bytes.len())?;
                    sent += aligned(bytes.len() as u64) as usize;
                }
                Stream::NotMade => unreachable!("each chunk has a decision"),
            }
            to += aligned(stream.len());
        }
        copy_runs(room, self.kernels(), &runs)?;
        Ok(room.wait()?)
    }
}

/// Most variants of a batch's chunks: inspected or not, interpolated or not, on a linear grid or not.
const VARIANTS: usize = 8;
/// Bytes of the table of a fill value.
const FILL_LEN: usize = size_of::<u64>();

/// Threads for decisions on `count` chunks of a set, of which there is one in each room.
fn threads_for(count: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / MAX_ROOMS).clamp(1, MAX_LOOKING).min(count.max(1))
}

/// Does `work` for the numbers 0 to `count`, on a thread for each of the states. What it returned, in their order.
///
/// # Errors
/// `OutOfMemory`.
fn spread<S: Send, T: Send>(
    states: &mut [S],
    count: usize,
    work: &(impl Fn(usize, &mut S) -> T + Sync),
) -> quire_codec::Result<Vec<T>> {
    let done = memory::collect((0..count).map(|_| Mutex::new(None)))?;
    let next = AtomicUsize::new(0);
    let take = |state: &mut S| {
        while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < count) {
            *done[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(work(number, state));
        }
    };
    if let Some((own, others)) = states.split_first_mut() {
        scope(|scope| {
            for state in others {
                // Without a further thread the others do its part.
                let take = &take;
                let _ = Builder::new().spawn_scoped(scope, move || take(state));
            }
            take(own);
        });
    }
    memory::collect(done.into_iter().filter_map(|done| done.into_inner().unwrap_or_else(PoisonError::into_inner)))
}
