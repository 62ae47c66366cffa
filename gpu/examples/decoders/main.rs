//! Four decoders of the same Huffman codes: `cargo run --release -p quire-gpu --example decoders [-- REPEATS] [--tune]`.
//!
//! Rivera et al. (IPDPS'22) find their self-synchronising decoder 2.74 times and their gap array's 3.64 times faster than one thread a block,
//! on a V100. Here both, that baseline and FORMAT.md's 32 lanes decode the symbols of real streams of the codec: cubes of resolved turbulent
//! velocity, at bounds that give the ratios asked for. `kernels/measure/decoders/` has the kernels, and says how each works.
//!
//! Of each decoder several block lengths, threads and the like are tried; the fastest of those whose index and filling bits take at most
//! [`table::MOST_OVERHEAD`] of the codes' bits is measured, and has a row. `--tune` prints the others too.
//!
//! Every variant is checked before it is timed: what it decodes is what was encoded, and for small cases the bytes are the host's encoders'.
//! `--check` does no more than that, with cases so small that `gpu/emulator/decoders.sh` runs it on a CPU. `--edges 64,256` and `--ratios 8,32`
//! measure less.
//!
//! Times are those of recorded launches, between events, several in a row. Whole decompression is the product's, measured for the same stream on the
//! device, less the time of the lanes' own decoder, plus that of the row's.

mod case;
mod check;
#[path = "../../src/declare.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate's own file, of which this takes a part")]
mod declare;
mod device;
#[allow(dead_code, unreachable_pub, reason = "the build script includes this file as well, and kernels alone use some constants")]
mod job;
mod plan;
mod table;
mod way;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use case::{Case, Field};
use device::{Arrays, Bench};
use plan::Plan;
use table::Table;
use way::{FAMILIES, Way};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

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
        let mut table = Table::new(&mut bench, case, options, bandwidth);
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
fn check_way(bench: &mut Bench, arrays: &mut Arrays, case: &Case, way: Way) -> Result<Plan> {
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

fn processor() -> String {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    model.trim_start_matches([' ', '\t', ':']).to_owned()
}
