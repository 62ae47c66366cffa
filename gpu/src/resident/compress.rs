//! Compressing a batch of resident chunks.
//!
//! ```text
//! boxes ─> inspect, choose predictors ─> decisions ─> launches for each variant ─> lengths ─> packed streams ─> caller
//!                                     │     ↑
//!                                     └ chunks that the host has to look at
//! ```

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{Builder, scope};

use quire_codec::stages::choice::PredictorChoice;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::Predictor;
use quire_codec::stages::{settled, tries_exact_bits};
use quire_codec::{
    Config, ErrorBound, Layout, SettledBound, SettledConfig, THREAD_STACK, Workspace, check_bound, max_stream_len, memory,
};

use super::boxes::{Boxes, Way, copy_runs};
use super::packed::aligned;
use super::sets::set_len;
use super::{Failure, Fault, Resident, by_variant};
use crate::declare::Address;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::job::{CopiedBox, CopiedRun, DatasetBooks, EncodeParameters, Inspection};
use crate::launch::Kernels;
use crate::memory::download;
use crate::parameters::{constant_parameters, dataset_books, encode_parameters, may_have_lattice};
use crate::plan::{EncodePlan, EncodeVariant, Key, Plan};
use crate::set_session::{MAX_SET_SESSIONS, SetSession};
use crate::tiles::chosen_by_kernels;

/// Most threads of a set that decide on chunks, with the host's values or without.
const MAX_LOOKING: usize = 8;

/// A batch that is being compressed.
pub(super) struct Compressing<'a> {
    pub(super) device: &'static Device,
    pub(super) values: &'a Resident<'a>,
    pub(super) layout: &'a Layout,
    pub(super) config: &'a Config<'a>,
    books: DatasetBooks,
    /// For chunks without a lattice.
    pub(super) choice: Option<Choice<'a>>,
    /// Inspections and predictors of the first chunks, made before the first set begins; empty if each set makes its own.
    pub(super) found: OnceLock<Vec<Found>>,
    /// Whether the layout is for the GPU at all.
    is_for_kernels: bool,
}

/// The choice that tiles in device memory decide, and the configuration that it is made with.
pub(super) type Choice<'a> = (PredictorChoice, SettledConfig<'a>);

/// What the device finds of a chunk before it is compressed: what `inspect` says, and its predictor's byte.
pub(super) type Found = (Inspection, u32);

/// How a chunk becomes a stream.
#[expect(clippy::large_enum_variant, reason = "most chunks are for the kernels")]
enum Decision {
    /// The kernels compress it.
    Kernels(Task),
    /// The host has made its stream.
    Made(Vec<u8>),
}

/// A chunk for the kernels.
struct Task {
    variant: EncodeVariant,
    parameters: EncodeParameters,
    /// The chunk is coded with its exact bits, so that a stream longer than the chunk stays.
    is_lossless: bool,
}

/// Where a chunk's stream is.
pub(super) enum Stream {
    /// In the session's device memory.
    OnDevice {
        address: Address,
        length: u64,
    },
    OnHost(Vec<u8>),
}

impl Stream {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::OnDevice { length, .. } => *length,
            Self::OnHost(bytes) => bytes.len() as u64,
        }
    }
}

impl<'a> Compressing<'a> {
    pub(super) fn new(
        device: &'static Device,
        values: &'a Resident<'a>,
        layout: &'a Layout,
        config: &'a Config<'a>,
    ) -> std::result::Result<Self, Failure> {
        Device::check_resident(layout)?;
        check_bound(layout, config)?;
        let is_for_kernels = Device::check_layout(layout).is_ok();
        // The choice needs no value of a chunk: whether the chunk has a lattice is found later, by the kernel `inspect`. Beside thresholds, the host compresses
        // a sample first.
        let choice = |bound| {
            let config = config.with_bound(SettledBound::Absolute(bound));
            Some((PredictorChoice::of_chunk(&[], layout, &config)?, config))
        };
        Ok(Self {
            device,
            values,
            layout,
            config,
            books: dataset_books(config.books),
            choice: if let ErrorBound::Absolute(bound) = config.bound
                && is_for_kernels
                && config.keep.thresholds().is_empty()
            {
                choice(bound)
            } else {
                None
            },
            found: OnceLock::new(),
            is_for_kernels,
        })
    }

    /// Most chunks of a set.
    pub(super) fn set_len(&self) -> usize {
        let job_len = EncodePlan::needed(&self.key(1, EncodeVariant { interpolated: true, ..self.unknown() }));
        set_len(self.values.parts.len(), self.layout.chunk_bytes(), job_len)
    }

    pub(super) fn kernels(&self) -> &'static Kernels {
        &self.device.loaded().kernels
    }

    fn chunk_len(&self) -> usize {
        self.layout.chunk_bytes() as usize
    }

    /// The variant for chunks of which nothing is known.
    pub(super) fn unknown(&self) -> EncodeVariant {
        EncodeVariant { resident: true, ..EncodeVariant::unknown(self.layout, self.config.coding) }
    }

    pub(super) fn key(&self, chunks: usize, variant: EncodeVariant) -> Key<EncodeVariant> {
        Key { layout: *self.layout, chunks, variant }
    }

    /// Makes the streams of a set. Their lengths are known when this returns; their bytes are there when the session's launches have ended. If `are_packed`,
    /// streams on the device are one behind the other in `session.streams`. Otherwise they are wherever they were made.
    pub(super) fn make(
        &self,
        session: &mut SetSession,
        set: &Range<usize>,
        are_packed: bool,
    ) -> std::result::Result<Vec<Stream>, Failure> {
        let count = set.len();
        // A chunk needs two of each: addresses and parameters to look at it and to compress it, boxes to fill and to gather it, runs to pack and to deliver its
        // stream.
        let table_len =
            2 * (size_of::<Address>() + size_of::<EncodeParameters>() + size_of::<CopiedBox>() + size_of::<CopiedRun>());
        // Each variant has tables of addresses, parameters and runs, and its books. The rest are tables of the whole set.
        session.reserve_tables(count * table_len + VARIANTS * size_of::<DatasetBooks>() + FILL_LEN, 4 * VARIANTS + 8)?;
        session.results.grow(count * size_of::<u64>())?;
        session.streams.grow(count * aligned(max_stream_len(self.layout)) as usize)?;
        let addresses = &self.gather(session, set)?;
        let mut streams = memory::collect((0..count).map(|_| Stream::OnHost(Vec::new())))?;
        let mut tasks = Vec::new();
        for (chunk, decision) in self.decide(session, addresses, set)?.into_iter().enumerate() {
            match decision {
                Decision::Kernels(task) => memory::push(&mut tasks, (chunk, task))?,
                Decision::Made(bytes) => streams[chunk] = Stream::OnHost(bytes),
            }
        }
        let groups = by_variant(tasks, |(_, task)| task.variant)?;
        let (mut packed, mut too_long) = (session.streams.address(), Vec::new());
        for (number, group) in groups.iter().enumerate() {
            let made = self.compress_group(session, group, addresses)?;
            // Streams of other groups are copied at once: the next group's job overwrites them.
            let stay = !are_packed && number + 1 == groups.len();
            let mut runs = Vec::new();
            memory::reserve(&mut runs, made.len())?;
            for (&(chunk, ref task), (length, output)) in group.iter().zip(made) {
                if length > self.layout.chunk_bytes() && !task.is_lossless {
                    memory::push(&mut too_long, chunk)?;
                } else if stay {
                    streams[chunk] = Stream::OnDevice { address: output, length };
                } else {
                    runs.push(CopiedRun { from: output, to: packed, bytes: length });
                    streams[chunk] = Stream::OnDevice { address: packed, length };
                    packed += aligned(length);
                }
            }
            copy_runs(session, self.kernels(), &runs)?;
        }
        let make = |chunk: &[u8], workspace: &mut Workspace| self.make_on_host(chunk, workspace);
        for (&chunk, bytes) in too_long.iter().zip(self.look(session, addresses, &too_long, set.start, &make)?) {
            streams[chunk] = Stream::OnHost(bytes);
        }
        Ok(streams)
    }

    /// Addresses of a set's chunks in C order. Chunks that the caller has in another order are gathered.
    fn gather(&self, session: &mut SetSession, set: &Range<usize>) -> std::result::Result<Vec<Address>, Failure> {
        let Resident { axes, parts, .. } = *self.values;
        let parts = &parts[set.clone()];
        let addresses = self.values.dense_addresses(session, set, self.chunk_len())?;
        let (mut gathered, mut filled) = (Boxes::new(Way::Gather), Boxes::new(Way::Fill));
        let mut filling = None;
        for (part, &address) in parts.iter().zip(&addresses).filter(|(part, _)| !self.values.is_dense(part)) {
            match part.under {
                _ if part.is_whole => {}
                Some(under) => {
                    assert_eq!(under.len(), self.chunk_len(), "a chunk has all its bytes");
                    session.ring.send(&session.stream, &[], under, address)?;
                    // The ring is free again when the chunk has arrived.
                    session.wait()?;
                }
                None => {
                    if filling.is_none() {
                        filling = Some(session.send_table(&[self.fill_value()])?);
                    }
                    filled.add_filled(axes, filling.unwrap_or_default(), address)?;
                }
            }
            if !part.is_empty() {
                gathered.add(part, address)?;
            }
        }
        let kernels = self.kernels().of_type(self.layout.scalar);
        filled.launch(session, kernels, axes)?;
        gathered.launch(session, kernels, axes)?;
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
        session: &mut SetSession,
        addresses: &[Address],
        set: &Range<usize>,
    ) -> std::result::Result<Vec<Decision>, Failure> {
        let count = addresses.len();
        let mut decisions: Vec<Option<Decision>> = memory::collect((0..count).map(|_| None))?;
        if let Some(choice) = &self.choice {
            let found = self.found.get().and_then(|found| found.get(set.clone()));
            let own;
            let found = match found {
                Some(found) => found,
                None => {
                    self.start_looking(session, choice, addresses)?;
                    session.wait()?;
                    own = self.found_in(session, count)?;
                    &own
                }
            };
            for (decision, (inspection, predictor)) in decisions.iter_mut().zip(found) {
                *decision = self.decide_by_kernels(choice, inspection, *predictor);
            }
        }
        let open = memory::collect((0..decisions.len()).filter(|&chunk| decisions[chunk].is_none()))?;
        let looked_at =
            self.look(session, addresses, &open, set.start, &|chunk, workspace| self.decide_on_host(chunk, workspace))?;
        for (chunk, decision) in open.into_iter().zip(looked_at) {
            decisions[chunk] = Some(decision);
        }
        Ok(memory::collect(decisions.into_iter().flatten())?)
    }

    /// What follows from a chunk's inspection and the byte of its predictor; `None` if the host has to look at it.
    fn decide_by_kernels(&self, (choice, config): &Choice<'_>, inspection: &Inspection, predictor: u32) -> Option<Decision> {
        if inspection.differs == 0 {
            return Some(self.constant());
        }
        if inspection.has_no_lattice == 0 || inspection.is_bound_below_digits == 1 {
            return None;
        }
        let (grid, predictor) = chosen_by_kernels(predictor, choice, self.layout)?;
        Some(self.kernels_with(config, &grid, predictor, false))
    }

    fn constant(&self) -> Decision {
        Decision::Kernels(Task { variant: self.unknown(), parameters: constant_parameters(self.layout), is_lossless: true })
    }

    fn kernels_with(&self, config: &SettledConfig<'_>, grid: &Grid, predictor: Predictor, inspected: bool) -> Decision {
        let variant = EncodeVariant::chosen(self.layout, config.coding, grid, predictor, inspected);
        Decision::Kernels(Task {
            variant: EncodeVariant { resident: true, ..variant },
            parameters: encode_parameters(self.layout, config, grid, predictor),
            is_lossless: config.bound == SettledBound::Lossless,
        })
    }

    /// Settles a chunk's bound and chooses grid and predictor, or makes its stream if that has to be made for it.
    fn decide_on_host(&self, chunk: &[u8], workspace: &mut Workspace) -> std::result::Result<Decision, Fault> {
        if !self.is_for_kernels {
            return Ok(Decision::Made(self.make_on_host(chunk, workspace)?));
        }
        if self.layout.is_constant(chunk) {
            return Ok(self.constant());
        }
        let is_made_once =
            |config: &SettledConfig<'_>| config.keep.thresholds().is_empty() && !tries_exact_bits(chunk, self.layout, config);
        let Some(config) = settled(chunk, self.layout, self.config)?.filter(is_made_once) else {
            return Ok(Decision::Made(self.make_on_host(chunk, workspace)?));
        };
        let (grid, predictor) = workspace.choose(chunk, self.layout, &config)?;
        Ok(self.kernels_with(&config, &grid, predictor, may_have_lattice(chunk, self.layout, &config)))
    }

    /// Makes the stream of a chunk whose values are on the host.
    fn make_on_host(&self, chunk: &[u8], workspace: &mut Workspace) -> std::result::Result<Vec<u8>, Fault> {
        let mut stream = Vec::new();
        match self.device.compress(chunk, self.layout, self.config) {
            Ok(compressed) => {
                memory::resize(&mut stream, compressed.len())?;
                compressed.copy_to(&mut stream)?;
            }
            // Layouts that are not for the GPU, and errors that the codec finds as well.
            Err(Error::Unsupported(_)) => workspace.compress(chunk, self.layout, self.config, &mut stream)?,
            Err(error) => return Err(error.into()),
        }
        Ok(stream)
    }

    /// Copies chunks to the host, and has several threads look at them. Returns what `work` returned for each. `chunks` are numbers within the set, which
    /// begins with chunk `first` of the batch.
    fn look<T: Send>(
        &self,
        session: &mut SetSession,
        addresses: &[Address],
        chunks: &[usize],
        first: usize,
        work: &(impl Fn(&[u8], &mut Workspace) -> std::result::Result<T, Fault> + Sync),
    ) -> std::result::Result<Vec<T>, Failure> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let len = self.chunk_len();
        session.on_host.grow(chunks.len() * len)?;
        for (place, &chunk) in chunks.iter().enumerate() {
            download(&session.stream, addresses[chunk], session.on_host.address() + (place * len) as u64, len)?;
        }
        session.wait()?;
        session.reserve_workspaces(threads_for(chunks.len()))?;
        let (on_host, workspaces) = (&session.on_host, &mut session.workspaces);
        let found =
            spread(workspaces, chunks.len(), &|place, workspace| work(on_host.bytes(place * len..(place + 1) * len), workspace))?;
        let mut done = Vec::new();
        memory::reserve(&mut done, chunks.len())?;
        for (found, &chunk) in found.into_iter().zip(chunks) {
            done.push(found.map_err(|fault| Failure::of(first + chunk, fault))?);
        }
        Ok(done)
    }

    /// Compresses chunks of one variant. Returns length and address of each stream. The session's next job overwrites the streams.
    fn compress_group(
        &self,
        session: &mut SetSession,
        group: &[(usize, Task)],
        addresses: &[Address],
    ) -> Result<Vec<(u64, Address)>> {
        let loaded = self.device.loaded();
        let addresses = memory::collect(group.iter().map(|&(chunk, _)| addresses[chunk]))?;
        let parameters = memory::collect(group.iter().map(|(_, task)| task.parameters))?;
        let plan: EncodePlan = session.place(loaded, &self.key(group.len(), group[0].1.variant), &addresses)?;
        if !self.config.books.is_empty() {
            session.send(&[self.books], plan.job.dataset_books.address())?;
        }
        session.send(&parameters, plan.job.parameters.address())?;
        plan.enqueue(&session.stream, loaded)?;
        session.wait()?;
        let output = |chunk: usize| plan.job.output.address() + chunk as u64 * plan.job.output_stride;
        Ok(memory::collect((0..group.len()).map(|chunk| (session.result(chunk), output(chunk))))?)
    }
}

/// Most variants of a batch's chunks: inspected or not, interpolated or not, on a linear grid or not.
const VARIANTS: usize = 8;
/// Bytes of the table of a fill value.
const FILL_LEN: usize = size_of::<u64>();

/// Threads for decisions on `count` chunks of a set. Each session has a set at a time.
fn threads_for(count: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / MAX_SET_SESSIONS).clamp(1, MAX_LOOKING).min(count.max(1))
}

/// Does `work` for the numbers 0 to `count`, on a thread for each of the states. Returns what `work` returned, in the order of the numbers.
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
                // If the system gives no further thread, the others do its part.
                let take = &take;
                let _ = Builder::new().stack_size(THREAD_STACK).spawn_scoped(scope, move || take(state));
            }
            take(own);
        });
    }
    memory::collect(done.into_iter().filter_map(|done| done.into_inner().unwrap_or_else(PoisonError::into_inner)))
}
