//! The device's side: arrays of a case, launches of a way, times.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute, CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr as _, DeviceRepr, LaunchConfig,
    PushKernelArg as _, result,
};

use super::Result;
use super::case::Case;
use super::declare::{ConstPointer, Pointer};
use super::job::{CLASSES, COMPARE_THREADS, COUNTERS, DIFFERENCES, DecoderJob, SCAN_THREADS, SCAN_TILE, STRING_TILE};
use super::way::Way;

#[cfg(quire_kernels)]
static FATBIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/decoders.fatbin"));
#[cfg(not(quire_kernels))]
static FATBIN: &[u8] = &[];

/// Symbols of the shortest block of any way, and bits of the shortest subsequence.
const SHORTEST_BLOCK: usize = 256;
const SHORTEST_SUBSEQUENCE: usize = 128;
/// Words of the longest sequence, and what decoders read ahead.
const LONGEST_SEQUENCE: usize = 1024;
/// Entries behind the end of an array that kernels may read.
const SLACK: usize = 1024;

// SAFETY: a `repr(C)` structure of numbers; the build has compared the offset of each field with the kernels'.
unsafe impl DeviceRepr for DecoderJob {}

/// A kernel's launch.
#[derive(Clone)]
pub(crate) struct Launch {
    kernel: String,
    grid: u32,
    threads: u32,
    job: DecoderJob,
}

/// The device and the kernels.
pub(crate) struct Bench {
    context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    kernels: HashMap<String, CudaFunction>,
    multiprocessors: u32,
    events: [CudaEvent; 2],
}

/// The arrays of a case.
pub(crate) struct Arrays {
    pub(crate) symbols: CudaSlice<u8>,
    pub(crate) decoded: CudaSlice<u8>,
    pub(crate) codes: CudaSlice<u32>,
    pub(crate) table: CudaSlice<u16>,
    pub(crate) canonical: CudaSlice<u32>,
    pub(crate) words: CudaSlice<u32>,
    pub(crate) lane_words: CudaSlice<u16>,
    pub(crate) slots: CudaSlice<u16>,
    pub(crate) block_starts: CudaSlice<u32>,
    pub(crate) sizes: CudaSlice<u32>,
    pub(crate) sums: CudaSlice<u32>,
    pub(crate) index: CudaSlice<u32>,
    pub(crate) gaps: CudaSlice<u8>,
    pub(crate) subsequences: CudaSlice<u16>,
    pub(crate) ends: CudaSlice<u32>,
    pub(crate) lists: CudaSlice<u32>,
    pub(crate) counters: CudaSlice<u32>,
    pub(crate) bits: u32,
    pub(crate) blocks: u32,
    pub(crate) block_len: u32,
    pub(crate) symbol_count: u32,
}

/// 16-bit words reserved for the lanes of a block before they are gathered.
fn slot_words(block: usize) -> usize {
    block * 12 / 16 + 64
}

impl Arrays {
    pub(crate) fn new(bench: &Bench, case: &Case) -> Result<Self> {
        let stream = &bench.stream;
        let count = case.symbols.len();
        let bits = case.bits();
        // Positions are numbers of 32 bits, with room for what a sequence reaches beyond.
        let bits =
            u32::try_from(bits).ok().filter(|&bits| bits < u32::MAX - (1 << 16)).ok_or("too many bits for positions of 32")?;
        let blocks = case.block_starts.len() - 1;
        let fixed_blocks = count / SHORTEST_BLOCK + 1;
        let most_slots = Way::all().into_iter().filter_map(|way| match way {
            Way::Lanes { block: Some(block), .. } => Some(count.div_ceil(block as usize) * slot_words(block as usize)),
            _ => None,
        });
        let slots = most_slots.max().unwrap_or(0).max(blocks * slot_words(case.block_len));
        let subsequences = bits as usize / SHORTEST_SUBSEQUENCE + 1;
        let sequences = subsequences / 128 + 1;
        let items = blocks.max(fixed_blocks).max(count / STRING_TILE as usize + 1).max(sequences);
        let mut symbols = case.symbols.clone();
        symbols.resize(count + SLACK, 0);
        Ok(Self {
            symbols: bench.send(&symbols)?,
            decoded: stream.alloc_zeros(count + SLACK)?,
            codes: bench.send(&case.codes())?,
            table: bench.send(&case.table())?,
            canonical: bench.send(&case.canonical())?,
            words: stream.alloc_zeros(bits as usize / 32 + fixed_blocks + LONGEST_SEQUENCE + SLACK)?,
            lane_words: stream.alloc_zeros(slots + SLACK)?,
            slots: stream.alloc_zeros(slots + SLACK)?,
            block_starts: bench.send(&case.block_starts)?,
            sizes: stream.alloc_zeros(items + SLACK)?,
            sums: stream.alloc_zeros(items / SCAN_TILE as usize + SLACK)?,
            index: stream.alloc_zeros(items + SLACK)?,
            gaps: stream.alloc_zeros(subsequences + SLACK)?,
            subsequences: stream.alloc_zeros(subsequences + SLACK)?,
            ends: stream.alloc_zeros(2 * sequences + SLACK)?,
            lists: stream.alloc_zeros(CLASSES * sequences + SLACK)?,
            counters: stream.alloc_zeros(COUNTERS)?,
            bits,
            blocks: blocks as u32,
            block_len: case.block_len as u32,
            symbol_count: count as u32,
        })
    }

    /// A job with all that does not depend on the way.
    pub(crate) fn job(&self, stream: &CudaStream) -> DecoderJob {
        DecoderJob {
            symbols: ConstPointer::new(self.symbols.device_ptr(stream).0),
            decoded: Pointer::new(self.decoded.device_ptr(stream).0),
            codes: ConstPointer::new(self.codes.device_ptr(stream).0),
            table: ConstPointer::new(self.table.device_ptr(stream).0),
            canonical: ConstPointer::new(self.canonical.device_ptr(stream).0),
            words: Pointer::new(self.words.device_ptr(stream).0),
            lane_words: Pointer::new(self.lane_words.device_ptr(stream).0),
            slots: Pointer::new(self.slots.device_ptr(stream).0),
            sizes: Pointer::new(self.sizes.device_ptr(stream).0),
            sums: Pointer::new(self.sums.device_ptr(stream).0),
            gaps: Pointer::new(self.gaps.device_ptr(stream).0),
            subsequences: Pointer::new(self.subsequences.device_ptr(stream).0),
            ends: Pointer::new(self.ends.device_ptr(stream).0),
            counters: Pointer::new(self.counters.device_ptr(stream).0),
            symbol_count: self.symbol_count,
            total_bits: self.bits,
            ..DecoderJob::default()
        }
    }
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let context = CudaContext::new(0)?;
        // SAFETY: one stream does everything, in its order.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream()?;
        let module = context.load_module(cudarc::nvrtc::Ptx::from_binary(FATBIN.to_vec()))?;
        let multiprocessors = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        Ok(Self {
            events: [event()?, event()?],
            stream,
            module,
            kernels: HashMap::new(),
            multiprocessors: u32::try_from(multiprocessors)?,
            context,
        })
    }

    pub(crate) fn name(&self) -> Result<String> {
        Ok(self.context.name()?)
    }

    /// An array with these entries.
    pub(crate) fn send<T: DeviceRepr>(&self, entries: &[T]) -> Result<CudaSlice<T>> {
        // SAFETY: written to its end below.
        let array = unsafe { self.stream.alloc(entries.len()) }?;
        self.stream.synchronize()?;
        // SAFETY: both are as long.
        unsafe { result::memcpy_htod_sync(array.device_ptr(&self.stream).0, entries) }?;
        Ok(array)
    }

    /// Entries of an array, after all work on it.
    pub(crate) fn fetch<T: DeviceRepr + Default + Clone>(&self, array: &CudaSlice<T>, range: Range<usize>) -> Result<Vec<T>> {
        let view = array.slice(range);
        let mut entries = vec![T::default(); view.len()];
        self.stream.synchronize()?;
        // SAFETY: both are as long.
        unsafe { result::memcpy_dtoh_sync(&mut entries, view.device_ptr(&self.stream).0) }?;
        Ok(entries)
    }

    fn kernel(&mut self, name: &str) -> Result<&CudaFunction> {
        if !self.kernels.contains_key(name) {
            let kernel = self.module.load_function(name).map_err(|error| format!("kernel {name}: {error}"))?;
            self.kernels.insert(name.to_owned(), kernel);
        }
        Ok(&self.kernels[name])
    }

    /// A launch of `grid` blocks.
    pub(crate) fn exact(kernel: &str, grid: u32, threads: u32, job: DecoderJob) -> Launch {
        Launch { kernel: kernel.to_owned(), grid: grid.max(1), threads, job }
    }

    /// A launch of as many blocks as there is work for, or as the device holds at a time, of a kernel that goes on until all is done.
    pub(crate) fn resident(&mut self, kernel: &str, wanted: u32, threads: u32, job: DecoderJob) -> Result<Launch> {
        let multiprocessors = self.multiprocessors;
        let held = self.kernel(kernel)?.occupancy_max_active_blocks_per_multiprocessor(threads, 0, None)?;
        if held == 0 {
            return Err(format!("{kernel}: {threads} threads do not fit a multiprocessor").into());
        }
        Ok(Self::exact(kernel, wanted.min(held * multiprocessors), threads, job))
    }

    fn enqueue(&mut self, launches: &[Launch]) -> Result<()> {
        let stream = self.stream.clone();
        for launch in launches {
            let kernel = self.kernel(&launch.kernel)?;
            let mut builder = stream.launch_builder(kernel);
            builder.arg(&launch.job);
            let config = LaunchConfig { grid_dim: (launch.grid, 1, 1), block_dim: (launch.threads, 1, 1), shared_mem_bytes: 0 };
            // SAFETY: all kernels take a job; `Arrays` has made the arrays as long as any way needs them.
            unsafe { builder.launch(config) }.map_err(|error| format!("{}: {error}", launch.kernel))?;
        }
        Ok(())
    }

    pub(crate) fn run(&mut self, launches: &[Launch]) -> Result<()> {
        self.enqueue(launches)?;
        self.stream.synchronize().map_err(|error| {
            let names: Vec<&str> = launches.iter().map(|launch| launch.kernel.as_str()).collect();
            format!("{}: {error}", names.join(", "))
        })?;
        Ok(())
    }

    /// The scan of as many sizes as the job says.
    pub(crate) fn scan(kernel: &str, job: DecoderJob) -> Launch {
        Self::exact(kernel, job.scanned.div_ceil(SCAN_TILE), SCAN_THREADS, job)
    }

    /// How many of the decoded symbols are not those that were encoded, counted on the device. The counter is 0 since `run_once`.
    pub(crate) fn differences(&mut self, arrays: &Arrays) -> Result<u32> {
        let job = arrays.job(&self.stream);
        let blocks = arrays.symbol_count.div_ceil(16 * COMPARE_THREADS);
        let compare = self.resident("count_differences", blocks.max(1), COMPARE_THREADS, job)?;
        self.run(std::slice::from_ref(&compare))?;
        Ok(self.fetch(&arrays.counters, 0..COUNTERS)?[DIFFERENCES])
    }

    /// Microseconds of launches, `row` times in a row, divided, as often as asked.
    pub(crate) fn time(&mut self, launches: &[Launch], row: usize, repeats: usize) -> Result<Vec<f64>> {
        const WARM_UP: usize = 2;
        self.stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let recorded = (0..row).try_for_each(|_| self.enqueue(launches));
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0))?;
        recorded?;
        let graph = graph.ok_or("nothing was recorded")?;
        graph.upload()?;
        let mut times = Vec::with_capacity(repeats);
        for run in 0..repeats + WARM_UP {
            self.events[0].record(&self.stream)?;
            graph.launch()?;
            self.events[1].record(&self.stream)?;
            self.stream.synchronize()?;
            if run >= WARM_UP {
                times.push(f64::from(self.events[0].elapsed_ms(&self.events[1])?) * 1e3 / row as f64);
            }
        }
        Ok(times)
    }

    /// Bytes a nanosecond that a copy within the device reads and writes, together.
    pub(crate) fn bandwidth(&mut self) -> Result<f64> {
        const LEN: usize = 1 << 30;
        let from = self.stream.alloc_zeros::<u8>(LEN)?;
        let mut to = self.stream.alloc_zeros::<u8>(LEN)?;
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            self.events[0].record(&self.stream)?;
            self.stream.memcpy_dtod(&from, &mut to)?;
            self.events[1].record(&self.stream)?;
            self.stream.synchronize()?;
            best = best.min(f64::from(self.events[0].elapsed_ms(&self.events[1])?) * 1e6);
        }
        Ok(2.0 * LEN as f64 / best)
    }
}
