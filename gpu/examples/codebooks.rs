//! Building a codebook against choosing one: `cargo run --release -p quire-gpu --example codebooks [-- RUNS]`.
//!
//! Shah et al. (ICS'23) find choosing from a dictionary 78 to 92 times faster than building. Here the same histogram, which lies on the
//! device as a coder's first kernel leaves it, becomes canonical codes on the device in these ways, for our 106 symbols and for 256 and 1024:
//!
//! * **host**: the histogram comes to the host, Huffman's algorithm runs there, the codes go back. No fewer steps are possible.
//! * **device**: package-merge in one block of threads (`kernels/measure/codebooks.cu`), so that nothing travels.
//! * **choose**: the cheapest of 75 books, its codes read from a table (the same file).
//! * **ours**: the plugin's own kernel (`kernels/entropy/codebook.cuh`), which has 106 symbols.
//!
//! Every result is checked first: lengths cost what the host's package-merge costs, choices are the host's. Then the ways take turns, run
//! after run, and three clocks are read: the host's around launch and wait, events around the work, and events around a hundred recorded
//! launches, divided. Events and launches have a floor of their own, which an empty kernel shows.

use quire_codec::stages::book_choice;
use std::f64::consts::{PI, TAU};
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaSlice, CudaStream, DevicePtr as _, DeviceRepr, LaunchConfig,
    PushKernelArg as _, result,
};
use quire_codec::stages::alphabet::{SEGMENT, SYMBOLS};
use quire_codec::stages::tokens::{Tokens, tokenize};
use quire_codec::stages::{codebook, dictionary};

#[path = "../src/declare.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate's own file, of which this takes a part")]
mod declare;
#[path = "../src/job.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate's own file, of which this takes a part")]
mod job;
#[path = "../src/tables.rs"]
mod tables;
use declare::{ConstPointer, Pointer};
use job::{
    BOOKS, BOOKS_PADDED, Book, CODES, EncodeJob, EncodeParameters, EncodeState, POLICY_AUTO, POLICY_CUSTOM, POLICY_DICTIONARY,
};

/// The kernels to measure, and the plugin's own.
#[cfg(quire_kernels)]
static FATBINS: [&[u8]; 2] =
    [include_bytes!(concat!(env!("OUT_DIR"), "/codebooks.fatbin")), include_bytes!(concat!(env!("OUT_DIR"), "/quire.fatbin"))];
#[cfg(not(quire_kernels))]
static FATBINS: [&[u8]; 2] = [&[]; 2];

/// Values that a histogram counts: a chunk of 64^3.
const VALUES: usize = 1 << 18;
/// Launches in a row.
const ROW: usize = 100;
/// Rounds before the first one that counts.
const WARM_UP: usize = 5;
/// Bit at which a code's length begins in its entry: `LENGTH_SHIFT` in `codebooks.cu`.
const LENGTH_SHIFT: u32 = 27;

/// Symbols, longest code, threads of the kernels `build` and `choose`: the last lines of `codebooks.cu`.
struct Alphabet {
    symbols: usize,
    max_bits: u8,
    build_threads: u32,
    choose_threads: u32,
}

const ALPHABETS: [Alphabet; 3] = [
    Alphabet { symbols: SYMBOLS, max_bits: codebook::MAX_CODE_BITS, build_threads: 128, choose_threads: 256 },
    Alphabet { symbols: 256, max_bits: 12, build_threads: 256, choose_threads: 512 },
    Alphabet { symbols: 1024, max_bits: 16, build_threads: 1024, choose_threads: 1024 },
];

fn main() {
    let runs = std::env::args().nth(1).map_or(201, |text| text.parse().expect("a number of runs"));
    check_host();
    let name = match quire_gpu::device(0) {
        Ok(device) => device.name(),
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            return println!("the host's part is right; no GPU: {reason}");
        }
    };
    println!("machine: {name}, {} cores, {}", std::thread::available_parallelism().map_or(1, usize::from), processor());
    println!("command: cargo run --release -p quire-gpu --example codebooks -- {runs}");
    println!(
        "us, median (quartiles) of {runs} runs for each of {} histograms of {VALUES} values\n",
        FAMILIES.len() * SCALES.len()
    );
    println!(
        "{:<8} {:<34} {:>23}  {:>23}  {:>23}",
        "symbols",
        "way",
        "host's clock, wait too",
        "events around it",
        format!("{ROW} in a row, each")
    );
    let mut claims = Vec::new();
    for alphabet in &ALPHABETS {
        claims.push(measure(alphabet, runs));
    }
    println!(
        "\ntimes that choosing is faster (medians; on the device's side alone: the host's algorithm without copies and waits,"
    );
    println!("and launches in a row)\n");
    println!(
        "{:<8} {:>18} {:>18} | {:>18} {:>18} | {:>18} {:>18}",
        "symbols", "host, host's clock", "device", "host, events", "device", "host, alone", "device, in a row"
    );
    for claim in claims {
        println!("{claim}");
    }
}

/// What turns a histogram into codes on the device.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Empty,
    HostHuffman,
    HostPackageMerge,
    Sort,
    Build,
    Choose,
    OursDictionary,
    OursAuto,
    OursCustom,
}

impl Way {
    fn name(self, alphabet: &Alphabet) -> String {
        match self {
            Self::Empty => "floor: an empty kernel".to_owned(),
            Self::HostHuffman => "host: Huffman, two queues".to_owned(),
            Self::HostPackageMerge => "host: the codec's package-merge".to_owned(),
            Self::Sort => "device: package-merge's sort alone".to_owned(),
            Self::Build => format!("device: package-merge, {} bits", alphabet.max_bits),
            Self::Choose => format!("choose: of {BOOKS} books"),
            Self::OursDictionary => "ours: dictionary".to_owned(),
            Self::OursAuto => "ours: auto".to_owned(),
            Self::OursCustom => "ours: dictionary, and custom".to_owned(),
        }
    }

    fn is_on_host(self) -> bool {
        matches!(self, Self::HostHuffman | Self::HostPackageMerge)
    }
}

/// Microseconds of one way.
#[derive(Default)]
struct Times {
    clock: Vec<f64>,
    events: Vec<f64>,
    row: Vec<f64>,
    /// Fetching, building and sending, for ways over the host.
    parts: [Vec<f64>; 3],
}

/// Checks and times all ways for one alphabet; prints a row each. Returns the line of the last table.
fn measure(alphabet: &Alphabet, runs: usize) -> String {
    let books = books(alphabet);
    let mut bench = Bench::new(alphabet, &books);
    let mut ways = vec![Way::Empty, Way::HostHuffman, Way::Sort, Way::Build, Way::Choose];
    if alphabet.symbols == SYMBOLS {
        ways.insert(2, Way::HostPackageMerge);
        ways.extend([Way::OursDictionary, Way::OursAuto, Way::OursCustom]);
    }
    let mut times: Vec<Times> = ways.iter().map(|_| Times::default()).collect();
    let mut details = Vec::new();
    for (family, draw) in FAMILIES {
        for scale in SCALES {
            let histogram = histogram(alphabet, &sample(draw, scale));
            bench.set_histogram(&histogram);
            for &way in &ways {
                bench.check(way, alphabet, &histogram, &books);
            }
            let one = bench.time(&ways, runs);
            details.push(detail(&format!("{family} {scale}"), alphabet, &histogram, &books, &ways, &one));
            for (all, one) in times.iter_mut().zip(one) {
                all.clock.extend(one.clock);
                all.events.extend(one.events);
                all.row.extend(one.row);
                for (all, one) in all.parts.iter_mut().zip(one.parts) {
                    all.extend(one);
                }
            }
        }
    }
    for (way, times) in ways.iter().zip(&times) {
        let rest = if way.is_on_host() {
            let [fetch, build, send] = times.parts.each_ref().map(|part| at(part, 0.5));
            format!("fetch {fetch:.1}, build {build:.1}, send {send:.1}")
        } else {
            cell(&times.row)
        };
        let name = way.name(alphabet);
        println!("{:<8} {name:<34} {:>23}  {:>23}  {rest:>23}", alphabet.symbols, cell(&times.clock), cell(&times.events));
    }
    println!("         by histogram: bits a symbol built and chosen; in a row, or alone on the host: {}", names(&ways, alphabet));
    for detail in details {
        println!("         {detail}");
    }
    let of = |way: Way| &times[ways.iter().position(|&other| other == way).expect("every alphabet has it")];
    let (host, build, choose) = (of(Way::HostHuffman), of(Way::Build), of(Way::Choose));
    let ratio = |slow: &[f64], fast: &[f64]| format!("{:.1}", at(slow, 0.5) / at(fast, 0.5));
    format!(
        "{:<8} {:>18} {:>18} | {:>18} {:>18} | {:>18} {:>18}",
        alphabet.symbols,
        ratio(&host.clock, &choose.clock),
        ratio(&build.clock, &choose.clock),
        ratio(&host.events, &choose.events),
        ratio(&build.events, &choose.events),
        ratio(&host.parts[1], &choose.row),
        ratio(&build.row, &choose.row)
    )
}

fn names(ways: &[Way], alphabet: &Alphabet) -> String {
    ways[1..].iter().map(|way| way.name(alphabet)).collect::<Vec<_>>().join(" | ")
}

/// A histogram's line.
fn detail(name: &str, alphabet: &Alphabet, histogram: &[u32], books: &[Vec<u8>], ways: &[Way], times: &[Times]) -> String {
    let total: f64 = histogram.iter().map(|&count| f64::from(count)).sum();
    let built = cost(histogram, &package_merge(&widened(histogram), alphabet.max_bits)) as f64 / total;
    let chosen = cheapest(histogram, books).1 as f64 / total;
    let own = ways[1..].iter().zip(&times[1..]).map(|(way, times)| {
        let own = if way.is_on_host() { &times.parts[1] } else { &times.row };
        format!("{:>7.2}", at(own, 0.5))
    });
    format!("{name:<14} {built:>6.3} {chosen:>6.3} (+{:>4.1} %) {}", (chosen / built - 1.0) * 100.0, own.collect::<String>())
}

// The device's side.

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

/// Kernels and arrays for one alphabet.
struct Bench<'a> {
    alphabet: &'a Alphabet,
    stream: Arc<CudaStream>,
    kernels: [CudaFunction; 5], // empty, build, choose, ours, sort
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
        std::mem::offset_of!(EncodeState, planes) + std::mem::offset_of!(job::PlaneState, histogram)
    }

    fn job(&self, stream: &CudaStream, policy: usize) -> EncodeJob {
        let mut job = EncodeJob {
            chunks: 1,
            segments: (VALUES / SEGMENT) as u32,
            needs_no_inspection: 1,
            tables: ConstPointer::new(self.tables.device_ptr(stream).0),
            parameters: Pointer::new(self.parameters[policy].device_ptr(stream).0),
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
    fn new(alphabet: &'a Alphabet, books: &[Vec<u8>]) -> Self {
        let context = CudaContext::new(0).expect("opened before");
        // SAFETY: one stream does everything, in its order.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().expect("a stream");
        let [measured, ours] = FATBINS
            .map(|fatbin| context.load_module(cudarc::nvrtc::Ptx::from_binary(fatbin.to_vec())).expect("kernels for this GPU"));
        let symbols = alphabet.symbols;
        let kernels = [
            measured.load_function("empty"),
            measured.load_function(&format!("build_{symbols}")),
            measured.load_function(&format!("choose_{symbols}")),
            ours.load_function("choose"),
            measured.load_function(&format!("sort_{symbols}")),
        ]
        .map(|kernel| kernel.expect("a kernel of this name"));
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

    fn set_histogram(&mut self, histogram: &[u32]) {
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
            Way::Empty => self.launch(0, 128, false),
            Way::Build => self.launch(1, self.alphabet.build_threads, false),
            Way::Choose => self.launch(2, self.alphabet.choose_threads, true),
            Way::Sort => self.launch(4, self.alphabet.build_threads, false),
            Way::OursAuto => self.launch_ours(0),
            Way::OursDictionary => self.launch_ours(1),
            Way::OursCustom => self.launch_ours(2),
            Way::HostHuffman | Way::HostPackageMerge => self.go_over_the_host(way),
        }
    }

    fn launch(&self, kernel: usize, threads: u32, chooses: bool) {
        let address = |slice: &CudaSlice<u32>| slice.device_ptr(&self.stream).0;
        let arguments = [
            address(&self.histogram),
            address(&self.codes),
            self.lengths.device_ptr(&self.stream).0,
            address(&self.book_codes),
            address(&self.number),
        ];
        let mut builder = self.stream.launch_builder(&self.kernels[kernel]);
        for argument in &arguments[..if chooses { 5 } else { 2 }] {
            builder.arg(argument);
        }
        // SAFETY: the kernels' arguments and array lengths, as `codebooks.cu` has them.
        unsafe { builder.launch(one_block(threads)) }.expect("launches");
    }

    fn launch_ours(&self, policy: usize) {
        let job = self.ours.as_ref().expect("our alphabet").job(&self.stream, policy);
        let mut builder = self.stream.launch_builder(&self.kernels[3]);
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
    fn check(&mut self, way: Way, alphabet: &Alphabet, histogram: &[u32], books: &[Vec<u8>]) {
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
    fn time(&mut self, ways: &[Way], runs: usize) -> Vec<Times> {
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

// The host's side.

/// Huffman's algorithm with arrays that are kept: the counts are sorted once; then the least two of two queues, the leaves and the
/// joined nodes, which come out in ascending order by themselves, are joined until one is left.
struct Huffman {
    leaves: Vec<u64>,       // count << 32 | symbol, ascending
    nodes: Vec<u64>,        // weights of the joined nodes
    leaf_parents: Vec<u32>, // the node that a leaf or a node became part of
    parents: Vec<u32>,      // and then, from the root down, depths
    lengths: Vec<u8>,
}

impl Huffman {
    fn new(symbols: usize) -> Self {
        let numbers = || vec![0; symbols];
        let nodes = Vec::with_capacity(symbols);
        Self { leaves: nodes.clone(), nodes, leaf_parents: numbers(), parents: numbers(), lengths: vec![0; symbols] }
    }

    /// Canonical codes by symbol; the histogram has at least two.
    fn build(&mut self, histogram: &[u32], codes: &mut [u32]) {
        self.leaves.clear();
        self.nodes.clear();
        let present = histogram.iter().enumerate().filter(|&(_, &count)| count > 0);
        self.leaves.extend(present.map(|(symbol, &count)| u64::from(count) << 32 | symbol as u64));
        self.leaves.sort_unstable();
        let (mut leaf, mut node) = (0, 0);
        for parent in 0..self.leaves.len() - 1 {
            let mut weight = 0;
            for _ in 0..2 {
                let lightest = self.leaves.get(leaf).map_or(u64::MAX, |entry| entry >> 32);
                // Leaves first where weights are equal, which keeps the longest code short.
                if self.nodes.get(node).is_none_or(|&joined| lightest <= joined) {
                    weight += lightest;
                    self.leaf_parents[leaf] = parent as u32;
                    leaf += 1;
                } else {
                    weight += self.nodes[node];
                    self.parents[node] = parent as u32;
                    node += 1;
                }
            }
            self.nodes.push(weight);
        }
        let root = self.nodes.len() - 1;
        self.parents[root] = 0;
        for node in (0..root).rev() {
            self.parents[node] = self.parents[self.parents[node] as usize] + 1;
        }
        self.lengths.fill(0);
        for (entry, &parent) in self.leaves.iter().zip(&self.leaf_parents) {
            self.lengths[(entry & 0xffff_ffff) as usize] = self.parents[parent as usize] as u8 + 1;
        }
        write_canonical(&self.lengths, codes);
    }
}

/// Canonical codes: ascending by length, then by symbol. An entry is 0 for a symbol without a code.
fn write_canonical(lengths: &[u8], codes: &mut [u32]) {
    let mut counts = [0u32; 33];
    for &length in lengths {
        counts[usize::from(length)] += 1;
    }
    counts[0] = 0;
    let (mut next, mut code) = ([0u32; 33], 0);
    for length in 1..33 {
        code = (code + counts[length - 1]) << 1;
        next[length] = code;
    }
    for (entry, &length) in codes.iter_mut().zip(lengths) {
        let next = &mut next[usize::from(length)];
        *entry = if length > 0 { *next | u32::from(length) << LENGTH_SHIFT } else { 0 };
        *next += 1;
    }
}

fn canonical(lengths: &[u8]) -> Vec<u32> {
    let mut codes = vec![0; lengths.len()];
    write_canonical(lengths, &mut codes);
    codes
}

fn lengths_of(codes: &[u32]) -> Vec<u8> {
    codes.iter().map(|entry| (entry >> LENGTH_SHIFT) as u8).collect()
}

/// Every symbol that occurs has a code, the codes are canonical, and no code is left over.
fn check_codes(codes: &[u32], histogram: &[u32]) {
    let lengths = lengths_of(codes);
    assert!(histogram.iter().zip(&lengths).all(|(&count, &length)| (count > 0) == (length > 0)), "symbols that occur have codes");
    assert_eq!(codes, canonical(&lengths), "the codes are canonical");
    let used: u64 = lengths.iter().filter(|&&length| length > 0).map(|&length| 1 << (32 - length)).sum();
    assert_eq!(used, 1 << 32, "the code is complete");
}

/// Lengths of least cost of at most `max_bits`, by package-merge as the codec has it, for any number of symbols. What the others are
/// compared with; not timed.
fn package_merge(weights: &[u64], max_bits: u8) -> Vec<u8> {
    let mut leaves: Vec<(u64, Option<usize>)> =
        weights.iter().enumerate().filter(|&(_, &weight)| weight > 0).map(|(symbol, &weight)| (weight, Some(symbol))).collect();
    leaves.sort_by_key(|&(weight, symbol)| (weight, symbol));
    let mut levels = vec![leaves.clone()];
    for below in 0..usize::from(max_bits) - 1 {
        let pairs = levels[below].chunks_exact(2).map(|pair| (pair[0].0 + pair[1].0, None));
        let mut level: Vec<_> = leaves.iter().copied().chain(pairs).collect();
        level.sort_by_key(|&(weight, _)| weight);
        levels.push(level);
    }
    let mut lengths = vec![0; weights.len()];
    let mut taken = 2 * leaves.len() - 2;
    for level in levels.iter().rev() {
        let symbols: Vec<usize> = level[..taken].iter().filter_map(|&(_, symbol)| symbol).collect();
        taken = 2 * (taken - symbols.len());
        for symbol in symbols {
            lengths[symbol] += 1;
        }
    }
    lengths
}

fn cost(histogram: &[u32], lengths: &[u8]) -> u64 {
    histogram.iter().zip(lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum()
}

fn cheapest(histogram: &[u32], books: &[Vec<u8>]) -> (usize, u64) {
    let costs = books.iter().map(|lengths| cost(histogram, lengths));
    costs.enumerate().min_by_key(|&(_, cost)| cost).expect("there are books")
}

fn widened(histogram: &[u32]) -> Vec<u64> {
    histogram.iter().map(|&count| u64::from(count)).collect()
}

/// The host's ways against each other and the codec's, on any machine.
fn check_host() {
    for alphabet in &ALPHABETS {
        let books = books(alphabet);
        assert_eq!(books.len(), BOOKS);
        let mut huffman = Huffman::new(alphabet.symbols);
        let mut codes = vec![0; alphabet.symbols];
        for (_, draw) in FAMILIES {
            for scale in SCALES {
                let histogram = histogram(alphabet, &sample(draw, scale));
                let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
                assert!(total * u64::from(alphabet.max_bits) < 1 << 32, "weights of package-merge fit 32 bits on the device");
                huffman.build(&histogram, &mut codes);
                check_codes(&codes, &histogram);
                let free = cost(&histogram, &lengths_of(&codes));
                assert_eq!(free, cost(&histogram, &package_merge(&widened(&histogram), 27)), "Huffman's cost, without a limit");
                let limited = package_merge(&widened(&histogram), alphabet.max_bits);
                assert!(cost(&histogram, &limited) >= free);
                assert!(cheapest(&histogram, &books).1 >= cost(&histogram, &limited), "no book is better than the best");
                if alphabet.symbols == SYMBOLS {
                    let wide = std::array::from_fn(|symbol| u64::from(histogram[symbol]));
                    assert_eq!(limited, codebook::optimal_lengths(&wide), "the codec's package-merge");
                    assert_eq!(cheapest(&histogram, &books).0, usize::from(dictionary::cheapest(&wide).0));
                }
            }
        }
    }
}

// Histograms and dictionaries.

/// Densities that differences of neighbours have, by inverse distribution; the second uniform number serves the Gaussian.
type Draw = fn(f64, f64) -> f64;
const FAMILIES: [(&str, Draw); 3] = [
    ("Laplace", |u, _| if u < 0.5 { (2.0 * u).ln() } else { -(2.0 - 2.0 * u).ln() }),
    ("Gaussian", |u, v| (-2.0 * u.ln()).sqrt() * (TAU * v).cos()),
    ("Cauchy", |u, _| (PI * (u - 0.5)).tan()),
];
/// In quantization steps.
const SCALES: [f64; 4] = [0.5, 2.0, 10.0, 50.0];

/// Whole numbers of a density; the same on every run.
fn sample(draw: Draw, scale: f64) -> Vec<i32> {
    let mut state = 1u64;
    let mut uniform = || {
        // A step of splitmix64; never 0, whose logarithm there is not.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ mixed >> 31) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    (0..VALUES).map(|_| (draw(uniform(), uniform()) * scale).round().clamp(-1e9, 1e9) as i32).collect()
}

/// Counts of our tokens, or of bins around 0 whose last ones take whatever lies beyond.
fn histogram(alphabet: &Alphabet, codes: &[i32]) -> Vec<u32> {
    if alphabet.symbols == SYMBOLS {
        let mut tokens = Tokens::default();
        tokenize(codes, &mut tokens).expect("memory");
        return tokens.count().1.iter().map(|&count| count as u32).collect();
    }
    let mut histogram = vec![0; alphabet.symbols];
    let middle = alphabet.symbols as i32 / 2;
    for &code in codes {
        histogram[(code.saturating_add(middle)).clamp(0, 2 * middle - 1) as usize] += 1;
    }
    histogram
}

/// The dictionary: the codec's for our alphabet, otherwise made as the paper says, of three densities at 25 scales each. Every symbol
/// has a code in every book.
fn books(alphabet: &Alphabet) -> Vec<Vec<u8>> {
    if alphabet.symbols == SYMBOLS {
        return dictionary::books().iter().map(|lengths| lengths.to_vec()).collect();
    }
    let densities: [fn(f64) -> f64; 3] = [|x| (-x.abs()).exp(), |x| (-x * x / 2.0).exp(), |x| 1.0 / (1.0 + x * x)];
    let middle = alphabet.symbols as f64 / 2.0;
    let book = |density: fn(f64) -> f64, scale: f64| {
        let weights: Vec<f64> = (0..alphabet.symbols).map(|symbol| density((symbol as f64 - middle) / scale)).collect();
        let total: f64 = weights.iter().sum();
        let whole: Vec<u64> = weights.iter().map(|weight| ((weight / total * f64::from(1 << 24)) as u64).max(1)).collect();
        package_merge(&whole, alphabet.max_bits)
    };
    let scales = || (0..25).map(|step| 0.25 * 400f64.powf(f64::from(step) / 24.0));
    densities.iter().flat_map(|&density| scales().map(move |scale| (density, scale))).map(|(d, scale)| book(d, scale)).collect()
}

// Figures.

fn cell(times: &[f64]) -> String {
    format!("{:.2} ({:.2}-{:.2})", at(times, 0.5), at(times, 0.25), at(times, 0.75))
}

fn at(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn processor() -> String {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    model.trim_start_matches([' ', '\t', ':']).to_owned()
}
