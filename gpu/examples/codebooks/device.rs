//! The ways on the device: kernels, their arrays, and the clocks around them.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaSlice, CudaStream, DevicePtr as _, DeviceRepr, LaunchConfig,
    PushKernelArg as _, result,
};
use quire_codec::stages::alphabet::{SEGMENT, SYMBOLS};
use quire_codec::stages::{book_choice, codebook};

use crate::declare::{ConstPointer, Pointer};
use crate::histograms::VALUES;
use crate::host::{Huffman, canonical, cheapest, check_codes, cost, lengths_of, package_merge, widened};
use crate::job::{
    BOOKS_PADDED, Book, CODES, EncodeJob, EncodeParameters, EncodeState, POLICY_AUTO, POLICY_CUSTOM, POLICY_DICTIONARY,
    PlaneState,
};
use crate::tables;
use crate::way::{Alphabet, Times, Way};

/// The kernels to measure, and the plugin's own.
#[cfg(quire_kernels)]
static FATBINS: [&[u8]; 2] =
    [include_bytes!(concat!(env!("OUT_DIR"), "/codebooks.fatbin")), include_bytes!(concat!(env!("OUT_DIR"), "/quire.fatbin"))];
#[cfg(not(quire_kernels))]
static FATBINS: [&[u8]; 2] = [&[]; 2];

/// Launches in a row.
pub(crate) const ROW: usize = 100;
/// Rounds before the first one that counts.
const WARM_UP: usize = 5;
// SAFETY: a `repr(C)` structure of numbers; the build has compared its size with the kernels'.
unsafe impl DeviceRepr for EncodeJob {}

/// Pinned memory for 1024 entries.
struct Pinned(*mut u32);

impl Pinned {
    const LEN: usize = 1024;

    fn new() -> Self {
        // SAFETY: plain allocation, freed when dropped.
        let address = unsafe { result::malloc_host(Self::LEN * 4, 0) }.expect("pinned memory").cast::<u32>();
        // SAFETY: within the allocation; a slice must not have undefined bytes.
        unsafe { address.write_bytes(0, Self::LEN) };
        Self(address)
    }

    fn entries(&mut self, count: usize) -> &mut [u32] {
        assert!(count <= Self::LEN);
        // SAFETY: within the allocation. Copies to and from it are waited for before it is lent again.
        unsafe { std::slice::from_raw_parts_mut(self.0, count) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: from `malloc_host`, freed once; the context lives on, since `quire_gpu::device` keeps it.
        let _ = unsafe { result::free_host(self.0.cast()) };
    }
}

struct Kernels {
    empty: CudaFunction,
    build: CudaFunction,
    choose: CudaFunction,
    sort: CudaFunction,
    /// The plugin's.
    ours: CudaFunction,
}

/// Kernels and arrays for one alphabet.
pub(crate) struct Bench<'a> {
    alphabet: &'a Alphabet,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    histogram: CudaSlice<u32>,
    codes: CudaSlice<u32>,
    number: CudaSlice<u32>,
    lengths: CudaSlice<u8>,
    book_codes: CudaSlice<u32>,
    ours: Option<Ours>,
    counted: Pinned,
    coded: Pinned,
    huffman: Huffman,
    events: [CudaEvent; 2],
    parts: [f64; 3],
}

/// What the plugin's kernel works on, for one plane.
struct Ours {
    state: CudaSlice<u8>,
    parameters: [CudaSlice<u8>; 3], // by policy
    book: CudaSlice<u8>,
    /// By segment of the plane: a token for each value.
    token_counts: CudaSlice<u32>,
    tables: CudaSlice<u8>,
}

impl Ours {
    fn new(stream: &Arc<CudaStream>) -> Self {
        let parameters = [POLICY_AUTO, POLICY_DICTIONARY, POLICY_CUSTOM].map(|policy| {
            let mut bytes = vec![0; size_of::<EncodeParameters>()];
            bytes[std::mem::offset_of!(EncodeParameters, policy)..][..4].copy_from_slice(&policy.to_le_bytes());
            stream.clone_htod(&bytes).expect("memory")
        });
        Self {
            state: stream.alloc_zeros(size_of::<EncodeState>()).expect("memory"),
            parameters,
            book: stream.alloc_zeros(size_of::<Book>()).expect("memory"),
            token_counts: stream.clone_htod(&vec![SEGMENT as u32; VALUES / SEGMENT]).expect("memory"),
            tables: stream.clone_htod(&tables::tables().expect("memory")).expect("memory"),
        }
    }

    /// Where the codes' plane has its histogram.
    fn histogram_at() -> usize {
        std::mem::offset_of!(EncodeState, planes) + std::mem::offset_of!(PlaneState, histogram)
    }

    fn job(&self, stream: &CudaStream, policy: u32) -> EncodeJob {
        let mut job = EncodeJob {
            chunks: 1,
            segments: (VALUES / SEGMENT) as u32,
            needs_no_inspection: 1,
            tables: ConstPointer::new(self.tables.device_ptr(stream).0),
            parameters: Pointer::new(self.parameters[policy as usize].device_ptr(stream).0),
            states: Pointer::new(self.state.device_ptr(stream).0),
            ..EncodeJob::default()
        };
        job.shape.elements = VALUES as u32;
        job.planes[CODES].book = Pointer::new(self.book.device_ptr(stream).0);
        job.planes[CODES].token_counts = Pointer::new(self.token_counts.device_ptr(stream).0);
        job
    }
}

impl<'a> Bench<'a> {
    pub(crate) fn new(alphabet: &'a Alphabet, books: &[Vec<u8>]) -> Self {
        let context = CudaContext::new(0).expect("opened before");
        // SAFETY: one stream does everything, in its order.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().expect("a stream");
        let [measured, ours] = FATBINS
            .map(|fatbin| context.load_module(cudarc::nvrtc::Ptx::from_binary(fatbin.to_vec())).expect("kernels for this GPU"));
        let symbols = alphabet.symbols;
        let kernel = |name: String| measured.load_function(&name).expect("a kernel of this name");
        let kernels = Kernels {
            empty: kernel("empty".to_owned()),
            build: kernel(format!("build_{symbols}")),
            choose: kernel(format!("choose_{symbols}")),
            sort: kernel(format!("sort_{symbols}")),
            ours: ours.load_function("choose").expect("the plugin's kernel"),
        };
        let lengths: Vec<u8> = (0..symbols)
            .flat_map(|symbol| (0..BOOKS_PADDED).map(move |book| books.get(book).map_or(0, |lengths| lengths[symbol])))
            .collect();
        let book_codes: Vec<u32> = books.iter().flat_map(|lengths| canonical(lengths)).collect();
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).expect("an event");
        Self {
            alphabet,
            kernels,
            histogram: stream.alloc_zeros(symbols).expect("memory"),
            codes: stream.alloc_zeros(symbols).expect("memory"),
            number: stream.alloc_zeros(1).expect("memory"),
            lengths: stream.clone_htod(&lengths).expect("memory"),
            book_codes: stream.clone_htod(&book_codes).expect("memory"),
            ours: (symbols == SYMBOLS).then(|| Ours::new(&stream)),
            counted: Pinned::new(),
            coded: Pinned::new(),
            huffman: Huffman::new(symbols),
            events: [event(), event()],
            parts: [0.0; 3],
            stream,
        }
    }

    pub(crate) fn set_histogram(&mut self, histogram: &[u32]) {
        self.stream.memcpy_htod(histogram, &mut self.histogram).expect("copies");
        if let Some(ours) = &mut self.ours {
            let bytes: Vec<u8> = histogram.iter().flat_map(|count| count.to_le_bytes()).collect();
            let at = Ours::histogram_at();
            self.stream.memcpy_htod(&bytes, &mut ours.state.slice_mut(at..at + bytes.len())).expect("copies");
        }
        self.stream.synchronize().expect("waits");
    }

    /// Puts the work into the stream; ways over the host wait for their own copies.
    fn enqueue(&mut self, way: Way) {
        match way {
            Way::Empty => self.launch(&self.kernels.empty, 128, false),
            Way::Build => self.launch(&self.kernels.build, self.alphabet.build_threads, false),
            Way::Choose => self.launch(&self.kernels.choose, self.alphabet.choose_threads, true),
            Way::Sort => self.launch(&self.kernels.sort, self.alphabet.build_threads, false),
            Way::OursAuto => self.launch_ours(POLICY_AUTO),
            Way::OursDictionary => self.launch_ours(POLICY_DICTIONARY),
            Way::OursCustom => self.launch_ours(POLICY_CUSTOM),
            Way::HostHuffman | Way::HostPackageMerge => self.go_over_the_host(way),
        }
    }

    fn launch(&self, kernel: &CudaFunction, threads: u32, chooses: bool) {
        let address = |slice: &CudaSlice<u32>| slice.device_ptr(&self.stream).0;
        let arguments = [
            address(&self.histogram),
            address(&self.codes),
            self.lengths.device_ptr(&self.stream).0,
            address(&self.book_codes),
            address(&self.number),
        ];
        let mut builder = self.stream.launch_builder(kernel);
        for argument in &arguments[..if chooses { 5 } else { 2 }] {
            builder.arg(argument);
        }
        // SAFETY: the kernels' arguments and array lengths, as `codebooks.cu` has them.
        unsafe { builder.launch(one_block(threads)) }.expect("launches");
    }

    fn launch_ours(&self, policy: u32) {
        let job = self.ours.as_ref().expect("our alphabet").job(&self.stream, policy);
        let mut builder = self.stream.launch_builder(&self.kernels.ours);
        builder.arg(&job);
        // SAFETY: the job has everything that the kernel `choose` uses for one plane of one chunk.
        unsafe { builder.launch(one_block(128)) }.expect("launches");
    }

    fn go_over_the_host(&mut self, way: Way) {
        let symbols = self.alphabet.symbols;
        let stream = self.stream.cu_stream();
        let clock = Instant::now();
        let from = self.histogram.device_ptr(&self.stream).0;
        // SAFETY: both have `symbols` entries, and the copy is waited for.
        unsafe { result::memcpy_dtoh_async(self.counted.entries(symbols), from, stream) }.expect("copies");
        self.stream.synchronize().expect("waits");
        let fetched = clock.elapsed();
        let (counted, coded) = (self.counted.entries(symbols), self.coded.entries(symbols));
        if way == Way::HostHuffman {
            self.huffman.build(counted, coded);
        } else {
            let histogram = std::array::from_fn(|symbol| u64::from(counted[symbol]));
            coded.copy_from_slice(&codebook::canonical_codes(&codebook::optimal_lengths(&histogram)));
        }
        let built = clock.elapsed();
        let to = self.codes.device_ptr(&self.stream).0;
        // SAFETY: as above.
        unsafe { result::memcpy_htod_async(to, self.coded.entries(symbols), stream) }.expect("copies");
        self.stream.synchronize().expect("waits");
        let microseconds = [fetched, built - fetched, clock.elapsed() - built].map(|time| time.as_secs_f64() * 1e6);
        self.parts = microseconds;
    }

    /// Runs a way once and compares its result with the host's.
    pub(crate) fn check(&mut self, way: Way, alphabet: &Alphabet, histogram: &[u32], books: &[Vec<u8>]) {
        self.stream.memset_zeros(&mut self.codes).expect("clears");
        self.enqueue(way);
        let codes = self.stream.clone_dtoh(&self.codes).expect("copies");
        let best = package_merge(&widened(histogram), alphabet.max_bits);
        let (book, _) = cheapest(histogram, books);
        match way {
            Way::Empty => {}
            Way::HostHuffman => {
                check_codes(&codes, histogram);
                assert!(cost(histogram, &lengths_of(&codes)) <= cost(histogram, &best), "Huffman without a limit costs no more");
            }
            Way::HostPackageMerge => assert_eq!(codes, codebook::canonical_codes(best[..].try_into().expect("106 lengths"))),
            Way::Sort => {
                let mut symbols: Vec<u32> =
                    (0..histogram.len() as u32).filter(|&symbol| histogram[symbol as usize] > 0).collect();
                symbols.sort_by_key(|&symbol| (histogram[symbol as usize], symbol));
                assert_eq!(codes[..symbols.len()], symbols, "the device sorts as the host does");
            }
            Way::Build => {
                check_codes(&codes, histogram);
                let lengths = lengths_of(&codes);
                assert!(lengths.iter().all(|&length| length <= alphabet.max_bits), "no code is too long");
                assert_eq!(cost(histogram, &lengths), cost(histogram, &best), "the device's lengths cost what the host's do");
            }
            Way::Choose => {
                let number = self.stream.clone_dtoh(&self.number).expect("copies")[0];
                assert_eq!(number as usize, book, "the device chooses as the host does");
                assert_eq!(codes, canonical(&books[book]));
            }
            Way::OursDictionary | Way::OursAuto | Way::OursCustom => {
                let bytes = self.stream.clone_dtoh(&self.ours.as_ref().expect("our alphabet").book).expect("copies");
                let wide = std::array::from_fn(|symbol| u64::from(histogram[symbol]));
                let policy = match way {
                    Way::OursDictionary => quire_codec::CodebookPolicy::Dictionary,
                    Way::OursCustom => quire_codec::CodebookPolicy::Custom,
                    _ => quire_codec::CodebookPolicy::Auto,
                };
                let expected = codebook::canonical_codes(&book_choice::choose(&wide, policy, &[]).lengths());
                let found = bytes.as_chunks().0[..SYMBOLS].iter().map(|&entry| u32::from_le_bytes(entry));
                assert!(found.eq(expected), "our kernel's codes are the codec's, {way:?}");
            }
        }
    }

    /// Times all ways, which take turns.
    pub(crate) fn time(&mut self, ways: &[Way], runs: usize) -> Vec<Times> {
        let mut times: Vec<Times> = ways.iter().map(|_| Times::default()).collect();
        let rows: Vec<Option<CudaGraph>> = ways.iter().map(|&way| (!way.is_on_host()).then(|| self.record_row(way))).collect();
        for run in 0..runs + WARM_UP {
            for ((&way, row), times) in ways.iter().zip(&rows).zip(&mut times) {
                self.stream.synchronize().expect("waits");
                let clock = Instant::now();
                self.enqueue(way);
                self.stream.synchronize().expect("waits");
                let host = clock.elapsed().as_secs_f64() * 1e6;
                let parts = self.parts;
                let events = self.between_events(|bench| bench.enqueue(way));
                let in_row = row.as_ref().map(|row| self.between_events(|_| row.launch().expect("launches")) / ROW as f64);
                if run < WARM_UP {
                    continue;
                }
                times.clock.push(host);
                times.events.push(events);
                times.row.extend(in_row);
                if way.is_on_host() {
                    for (all, part) in times.parts.iter_mut().zip(parts) {
                        all.push(part);
                    }
                }
            }
        }
        times
    }

    fn between_events(&mut self, work: impl FnOnce(&mut Self)) -> f64 {
        self.events[0].record(&self.stream).expect("records");
        work(self);
        self.events[1].record(&self.stream).expect("records");
        self.stream.synchronize().expect("waits");
        f64::from(self.events[0].elapsed_ms(&self.events[1]).expect("both have passed")) * 1e3
    }

    fn record_row(&mut self, way: Way) -> CudaGraph {
        self.stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).expect("records");
        for _ in 0..ROW {
            self.enqueue(way);
        }
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0)).expect("records").expect("has launches");
        graph.upload().expect("uploads");
        graph
    }
}

fn one_block(threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}
