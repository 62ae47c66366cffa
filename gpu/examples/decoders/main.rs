//! Four decoders of the same Huffman codes: `cargo run --release -p quire-gpu --example decoders [-- REPEATS] [--tune]`.
//!
//! Rivera et al. (IPDPS'22) find their self-synchronising decoder 2.74 times and their gap array's 3.64 times faster than one thread a block,
//! on a V100. Here both, that baseline and FORMAT.md's 32 lanes decode the symbols of real streams of the codec: cubes of resolved turbulent
//! velocity, at bounds that give the ratios asked for. `kernels/measure/decoders/` has the kernels, and says how each works.
//!
//! Of each decoder several block lengths, threads and the like are tried; the fastest of those whose index and filling bits take at most
//! [`MOST_OVERHEAD`] of the codes' bits is measured, and has a row. `--tune` prints the others too.
//!
//! Every variant is checked before it is timed: what it decodes is what was encoded, and for small cases the bytes are the host's encoders'.
//! `--check` does no more than that, with cases so small that `gpu/emulator/decoders.sh` runs it on a CPU. `--edges 64,256` and `--ratios 8,32`
//! measure less.
//!
//! Times are those of recorded launches, between events, several in a row. Whole decompression is the product's, measured for the same stream on the
//! device, less the time of the lanes' own decoder, plus that of the row's.

mod case;
mod check;
mod device;
mod job;
mod way;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use quire_gpu::Batch;

use case::{Case, Field};
use device::{Arrays, Bench};
use way::{COARSE_BITS, COARSE_TABLE, FAMILIES, STREAM_LANES, Way};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Share of the codes' bits that an index and filling bits may take.
const MOST_OVERHEAD: f64 = 0.07;
/// Runs of a variant before the fastest is known.
const TRIAL_RUNS: usize = 5;
/// Largest cubes whose bytes are compared with the host's encoders.
const COMPARED_VALUES: usize = 1 << 18;
/// Largest cubes whose symbols come to the host for every variant.
const FETCHED_VALUES: usize = 1 << 21;

struct Options {
    repeats: usize,
    tunes: bool,
    checks_only: bool,
    edges: Vec<usize>,
    ratios: Vec<f64>,
}

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self {
            repeats: 21,
            tunes: false,
            checks_only: false,
            edges: vec![64, 128, 256, 512],
            ratios: vec![4.0, 8.0, 16.0, 32.0, 64.0],
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut list = || arguments.next().ok_or(format!("{argument} needs a list"));
            match argument.as_str() {
                "--tune" => options.tunes = true,
                "--check" => options.checks_only = true,
                "--edges" => options.edges = list()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?,
                "--ratios" => options.ratios = list()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?,
                number => options.repeats = number.parse().map_err(|_| format!("not an option or a number of runs: {number}"))?,
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    match Options::read().and_then(|options| run(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            println!("{failures} FAILED");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many variants have failed.
fn run(options: &Options) -> Result<usize> {
    if !quire_gpu::KERNELS_BUILT || !quire_gpu_is_there() {
        if std::env::var("QUIRE_REQUIRE_CUDA").as_deref() == Ok("1") {
            return Err("QUIRE_REQUIRE_CUDA=1, but there are no kernels or no driver".into());
        }
        println!("no GPU, or built without kernels: nothing to measure");
        return Ok(0);
    }
    let mut bench = Bench::new()?;
    let mut failures = 0;
    let mut checked = 0;
    for case in case::trials(!options.checks_only)? {
        failures += check_case(&mut bench, &case, &mut checked)?;
    }
    if options.checks_only {
        println!("{checked} variants of decoders checked, {failures} failed");
        return Ok(failures);
    }
    println!(
        "machine: {}, {} cores, {}",
        bench.name()?,
        std::thread::available_parallelism().map_or(1, usize::from),
        processor()
    );
    println!(
        "command: cargo run --release -p quire-gpu --example decoders -- {}",
        std::env::args().skip(1).collect::<Vec<_>>().join(" ")
    );
    println!("small cases: {checked} variants of decoders checked, {failures} failed");
    let clock = Instant::now();
    let cases = cases(options)?;
    println!(
        "streams: {} of resolved turbulent velocity (h5-samples), made in {:.1} s",
        cases.len(),
        clock.elapsed().as_secs_f64()
    );
    let bandwidth = bench.bandwidth()?;
    println!(
        "floor: reading the stream and its index, writing the symbols, at {bandwidth:.0} GB/s, which a copy of 1 GiB reaches"
    );
    println!("us: medians of {} runs (quartiles); GB/s: of the chunk's f32", options.repeats);
    let mut summary = Vec::new();
    for case in &cases {
        let mut table = Table { bench: &mut bench, case, options, bandwidth, failures: 0 };
        match table.measure() {
            Ok(line) => summary.push(line),
            Err(error) => {
                println!("FAILED: {}: {error}", case.name);
                table.failures += 1;
            }
        }
        failures += table.failures;
    }
    println!("\ntimes that each decodes faster than coarse (with the table; bit by bit), and GB/s of f32");
    println!("{:<28} {}", "chunk, ratio", FAMILIES.map(|name| format!("{name:>26}")).concat());
    for line in summary {
        println!("{line}");
    }
    Ok(failures)
}

/// Whether the driver's library is there: asking it for a device without it would end the program.
fn quire_gpu_is_there() -> bool {
    std::panic::catch_unwind(|| {
        // SAFETY: looks for the library and loads it.
        unsafe { cudarc::driver::sys::is_culib_present() }
    })
    .unwrap_or(false)
}

/// Runs every variant and compares; returns how many have failed.
fn check_case(bench: &mut Bench, case: &Case, checked: &mut usize) -> Result<usize> {
    let mut arrays = Arrays::new(bench, case)?;
    let mut failures = 0;
    for way in Way::all() {
        *checked += 1;
        if let Err(error) = check_way(bench, &mut arrays, case, way) {
            println!("FAILED: {}: {}, {}: {error}", case.name, FAMILIES[way.family()], way.parameters());
            failures += 1;
        }
    }
    Ok(failures)
}

/// Encodes and decodes once, and compares all that can be compared.
fn check_way(bench: &mut Bench, arrays: &mut Arrays, case: &Case, way: Way) -> Result<device::Plan> {
    let plan = bench.run_once(arrays, way)?;
    if case.values <= COMPARED_VALUES {
        check::encoded(bench, arrays, case, way)?;
    }
    // Symbols are fetched where that is soon done; otherwise they are compared on the device, and those of the variants that have rows fetched.
    if case.values <= FETCHED_VALUES {
        check::decoded(bench, arrays, case)?;
    }
    match bench.differences(arrays)? {
        0 => Ok(plan),
        count => Err(format!("{count} symbols are wrong").into()),
    }
}

/// The streams, made by as many threads as there are, the largest first.
fn cases(options: &Options) -> Result<Vec<Case>> {
    let field = Field::new(256);
    let mut edges = options.edges.clone();
    edges.sort_unstable();
    let chunks: Vec<(usize, Vec<u8>)> = edges.iter().map(|&edge| (edge, field.chunk(edge))).collect();
    let wanted: Vec<(&(usize, Vec<u8>), f64)> =
        chunks.iter().flat_map(|chunk| options.ratios.iter().map(move |&ratio| (chunk, ratio))).collect();
    let made: Vec<Mutex<Option<Result<Case>>>> = wanted.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(wanted.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(place) = wanted.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) {
                    let ((edge, chunk), ratio) = wanted[place];
                    let case = case::of_stream(chunk, *edge, ratio);
                    *made[place].lock().expect("nobody panics with it") = Some(case);
                }
            });
        }
    });
    let taken = made.into_iter().map(|case| case.into_inner().expect("nobody panics with it"));
    taken.map(|case| case.unwrap_or_else(|| Err("a thread has ended early".into()))).collect()
}

/// The rows of a case.
struct Table<'a> {
    bench: &'a mut Bench,
    case: &'a Case,
    options: &'a Options,
    bandwidth: f64,
    failures: usize,
}

/// A variant that is right.
struct Tried {
    way: Way,
    decode: f64,
    overhead: f64,
}

/// A measured row.
struct Row {
    way: Way,
    plan: device::Plan,
    encode: Vec<f64>,
    decode: Vec<f64>,
}

impl Table<'_> {
    /// Prints the case's table; returns its line of the summary.
    fn measure(&mut self) -> Result<String> {
        let case = self.case;
        let bits = case.bits() as f64;
        println!(
            "\n{}, {:.2} MiB, ratio {:.2}: {:.3} codes a value of {:.2} bits, {:.2} MB of codes in {:.2} MB of stream, blocks of {} values",
            case.name,
            case.chunk_bytes() / f64::from(1 << 20),
            case.ratio,
            case.symbols.len() as f64 / case.values as f64,
            bits / case.symbols.len() as f64,
            bits / 8e6,
            case.chunk_bytes() / case.ratio / 1e6,
            case.block_len
        );
        let mut arrays = Arrays::new(self.bench, case)?;
        let tried = self.try_all(&mut arrays, bits);
        if self.options.tunes {
            for one in &tried {
                println!(
                    "    {:<24} {:<34} {:>9.2} us {:>8.1} GB/s, {:>5.2} % besides the codes",
                    FAMILIES[one.way.family()],
                    one.way.parameters(),
                    one.decode,
                    case.chunk_bytes() / one.decode / 1e3,
                    100.0 * one.overhead
                );
            }
        }
        let mut rows = Vec::new();
        for family in 0..FAMILIES.len() {
            let of_family = || tried.iter().filter(|one| one.way.family() == family);
            let by_time = |a: &&Tried, b: &&Tried| a.decode.total_cmp(&b.decode);
            let lean = of_family().filter(|one| one.overhead <= MOST_OVERHEAD).min_by(by_time);
            let leanest = || of_family().min_by(|a, b| a.overhead.total_cmp(&b.overhead).then(a.decode.total_cmp(&b.decode)));
            rows.push(match lean.or_else(leanest) {
                Some(one) => Some(self.row(&mut arrays, one.way)?),
                None => None,
            });
        }
        drop(arrays);
        let whole = self.product().unwrap_or_else(|error| {
            println!("FAILED: the product's decompression: {error}");
            self.failures += 1;
            None
        });
        self.print(&rows, bits, &whole);
        Ok(self.summary(&rows))
    }

    /// How many launches stand in a row.
    fn in_a_row(&self) -> usize {
        ((1 << 23) / self.case.values).clamp(2, 16)
    }

    /// Checks and times all variants.
    fn try_all(&mut self, arrays: &mut Arrays, bits: f64) -> Vec<Tried> {
        let mut tried = Vec::new();
        for way in Way::all() {
            let row = self.in_a_row();
            let done = check_way(self.bench, arrays, self.case, way).and_then(|plan| {
                let times = self.bench.time(&plan.decode, row, TRIAL_RUNS)?;
                let overhead = 8.0 * (plan.stream_bytes + plan.index_bytes) as f64 / bits - 1.0;
                Ok(Tried { way, decode: at(&times, 0.5), overhead })
            });
            match done {
                Ok(one) => tried.push(one),
                Err(error) => {
                    println!("FAILED: {}: {}, {}: {error}", self.case.name, FAMILIES[way.family()], way.parameters());
                    self.failures += 1;
                }
            }
        }
        tried
    }

    /// Measures a variant, and compares its symbols once more behind all runs.
    fn row(&mut self, arrays: &mut Arrays, way: Way) -> Result<Row> {
        let plan = self.bench.run_once(arrays, way)?;
        let encode = self.bench.time(&plan.encode, self.in_a_row(), self.options.repeats)?;
        let decode = self.bench.time(&plan.decode, self.in_a_row(), self.options.repeats)?;
        check::decoded(self.bench, arrays, self.case)?;
        Ok(Row { way, plan, encode, decode })
    }

    /// Microseconds of the product's decompression on the device, and the steps that take longest.
    fn product(&self) -> Result<Option<Vec<f64>>> {
        let Some((stream, layout)) = &self.case.stream else { return Ok(None) };
        let device = quire_gpu::device(0)?;
        let mut batch = Batch::new(device, layout, 1)?;
        let (_, times) = batch.decompress(std::slice::from_ref(stream), self.options.repeats)?;
        let steps: Vec<String> = times.steps.iter().map(|(step, times)| format!("{step} {:.1}", at(times, 0.5))).collect();
        println!("  the product decompresses in {} us; its steps apart: {}", cell(&times.whole), steps.join(", "));
        Ok(Some(times.whole))
    }

    fn print(&self, rows: &[Option<Row>], bits: f64, whole: &Option<Vec<f64>>) {
        println!(
            "  {:<24} {:<34} {:>9} {:>12} {:>7} {:>10} {:>6} {:>23} {:>8} {:>7} {:>8} {:>7} {:>7} {:>9} {:>8} {:>7}",
            "decoder",
            "parameters",
            "encode us",
            "stream bytes",
            "more %",
            "index",
            "%",
            "decode us",
            "GB/s",
            "Gsym/s",
            "floor us",
            "x table",
            "x bits",
            "whole us",
            "GB/s",
            "x table"
        );
        let decode = |family: usize| rows[family].as_ref().map_or(f64::NAN, |row| at(&row.decode, 0.5));
        let whole_with = |time: f64| whole.as_ref().map_or(f64::NAN, |whole| at(whole, 0.5) - decode(STREAM_LANES) + time);
        for row in rows.iter().flatten() {
            let time = at(&row.decode, 0.5);
            let bytes = row.plan.stream_bytes + row.plan.index_bytes;
            println!(
                "  {:<24} {:<34} {:>9.1} {:>12} {:>7.2} {:>10} {:>6.2} {:>23} {:>8.1} {:>7.1} {:>8.1} {:>7.2} {:>7.2} {:>9.1} {:>8.1} {:>7.2}",
                FAMILIES[row.way.family()],
                row.way.parameters(),
                at(&row.encode, 0.5),
                row.plan.stream_bytes,
                100.0 * (8.0 * row.plan.stream_bytes as f64 / bits - 1.0),
                row.plan.index_bytes,
                100.0 * 8.0 * row.plan.index_bytes as f64 / bits,
                cell(&row.decode),
                self.case.chunk_bytes() / time / 1e3,
                self.case.symbols.len() as f64 / time / 1e3,
                (bytes as f64 + self.case.symbols.len() as f64) / self.bandwidth / 1e3,
                decode(COARSE_TABLE) / time,
                decode(COARSE_BITS) / time,
                whole_with(time),
                self.case.chunk_bytes() / whole_with(time) / 1e3,
                whole_with(decode(COARSE_TABLE)) / whole_with(time)
            );
        }
    }

    fn summary(&self, rows: &[Option<Row>]) -> String {
        let decode = |family: usize| rows[family].as_ref().map_or(f64::NAN, |row| at(&row.decode, 0.5));
        let cells = (0..FAMILIES.len()).map(|family| {
            let time = decode(family);
            let gigabytes = self.case.chunk_bytes() / time / 1e3;
            let text = format!("{:.2}; {:.2}; {gigabytes:.0}", decode(COARSE_TABLE) / time, decode(COARSE_BITS) / time);
            format!("{text:>26}")
        });
        format!("{:<28} {}", format!("{}, {:.2}", self.case.name, self.case.ratio), cells.collect::<String>())
    }
}

fn cell(times: &[f64]) -> String {
    format!("{:.1} ({:.1}-{:.1})", at(times, 0.5), at(times, 0.25), at(times, 0.75))
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
