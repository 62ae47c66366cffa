//! Measures the GPU: `cargo run --release -p quire-gpu --example gpu_bench [-- REPEATS [EDGE...]]`.
//!
//! Every stream is compared with the CPU's and every value with its bound before a time is printed. Then, a row a chunk and bound: ratio;
//! host to host (what the filter does, without HDF5) both ways; kernels alone both ways; median and quartiles in microseconds and GB/s
//! of *uncompressed* data. Floors, measured in the same run, are printed above.

use std::time::Instant;

use h5_samples::turbulence;
use quire_codec::{ByteOrder, CodebookPolicy, CodingPolicy, Config, Layout, Scalar, Shape, Unverified, Workspace};
use quire_gpu::{Batch, Device, Timings, batch_choice, device, floors};

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let repeats = arguments.first().copied().unwrap_or(101);
    let edges = if arguments.len() > 1 { arguments[1..].to_vec() } else { vec![32, 64, 128, 256, 512] };
    let device = match device(0) {
        Ok(device) => device,
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            return println!("no GPU: {reason}");
        }
    };
    println!(
        "machine: {}, {} cores, {}",
        device.name(),
        std::thread::available_parallelism().map_or(1, usize::from),
        processor()
    );
    println!("command: cargo run --release -p quire-gpu --example gpu_bench -- {}", join(&arguments));
    println!(
        "field: resolved turbulent velocity of h5-samples, 256^3, repeated beyond (it is periodic); bounds are shares of the chunk's range"
    );
    let field = turbulence::resolved_velocity(1, [256; 3]);
    for len in [1 << 20, 32 << 20] {
        let floors = floors(device, len, repeats).expect("measures");
        println!("floors for {} MiB, median us:", len >> 20);
        for (name, times) in [
            ("copy on the host, one thread", &floors.copy_one),
            ("copy on the host, as transfers do", &floors.copy),
            ("pinned memory to the device", &floors.to_device),
            ("the device to pinned memory", &floors.from_device),
            ("read and write on the device", &floors.on_device),
        ] {
            println!("  {name:<40} {:>9.1} us {:>8.1} GB/s", at(times, 0.5), len as f64 / at(times, 0.5) / 1e3);
        }
        println!("  {:<40} {:>9.1} us", "recorded launches that do nothing", at(&floors.launch, 0.5));
    }
    println!(
        "\n{:<22} {:>6} {:>7}  {:>23} {:>7}  {:>23} {:>7}  {:>17} {:>7}  {:>17} {:>7}",
        "chunk",
        "bound",
        "ratio",
        "compress us (quartiles)",
        "GB/s",
        "decompress us",
        "GB/s",
        "kernels us",
        "GB/s",
        "back us",
        "GB/s"
    );
    for &edge in &edges {
        for scalar in [Scalar::F32, Scalar::F64] {
            for relative in [1e-2, 1e-3, 1e-4] {
                chunk_row(device, &field, edge, scalar, relative, CodingPolicy::Auto, repeats);
            }
        }
    }
    println!("\nthe same with bit planes");
    for edge in edges.iter().copied().filter(|&edge| edge < 512) {
        for scalar in [Scalar::F32, Scalar::F64] {
            for relative in [1e-2, 1e-3, 1e-4] {
                chunk_row(device, &field, edge, scalar, relative, CodingPolicy::Bitshuffle, repeats);
            }
        }
    }
    println!("\nwhere the GPU begins to gain: host to host against one thread of the codec, us, f32, bound 1e-3");
    println!("{:<22} {:>12} {:>12} {:>14} {:>14}", "chunk", "CPU compress", "GPU compress", "CPU decompress", "GPU decompress");
    for edge in [8, 12, 16, 20, 24, 28, 32, 40, 48, 64] {
        threshold_row(device, &field, edge, repeats);
    }
    println!("\n512 chunks of 64^3 in one launch set, f32");
    for (coding, relative) in CODINGS.into_iter().flat_map(|coding| [1e-2, 1e-3, 1e-4].map(|relative| (coding, relative))) {
        batch_row(device, &field, relative, coding, repeats.min(51));
    }
    println!("\nsteps, each timed by events of its own (which cost about 2 us a step), f32");
    for edge in edges.iter().copied().filter(|edge| [64, 256].contains(edge)) {
        for (coding, relative) in [(CODINGS[0], 1e-2), (CODINGS[0], 1e-3), (CODINGS[1], 1e-3)] {
            steps(device, &field, edge, relative, coding, repeats);
        }
    }
}

const CODINGS: [CodingPolicy; 2] = [CodingPolicy::Auto, CodingPolicy::Bitshuffle];

/// A cube of the field as bytes, its layout and its configuration.
fn case(field: &[f32], edge: usize, scalar: Scalar, relative: f64) -> (Vec<u8>, Layout, Config<'static>) {
    let mut range = (f64::INFINITY, f64::NEG_INFINITY);
    let mut bytes = Vec::with_capacity(edge.pow(3) * scalar.size());
    for row in 0..edge * edge {
        let (z, y) = (row / edge % 256, row % edge % 256);
        for x in 0..edge {
            let value = field[(z * 256 + y) * 256 + x % 256];
            range = (range.0.min(f64::from(value)), range.1.max(f64::from(value)));
            match scalar {
                Scalar::F64 => bytes.extend(f64::from(value).to_le_bytes()),
                _ => bytes.extend(value.to_le_bytes()),
            }
        }
    }
    let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[edge as u64; 3]).expect("a cube") };
    let config = Config::absolute((range.1 - range.0) * relative).expect("a field has a range");
    (bytes, layout, config)
}

fn value(bytes: &[u8], scalar: Scalar, index: usize) -> f64 {
    match scalar {
        Scalar::F64 => f64::from_le_bytes(bytes.as_chunks().0[index]),
        _ => f64::from(f32::from_le_bytes(bytes.as_chunks().0[index])),
    }
}

fn check(chunk: &[u8], restored: &[u8], layout: &Layout, config: &Config) {
    let quire_codec::ErrorBound::Absolute(bound) = config.bound else { unreachable!("absolute bounds only") };
    for index in 0..layout.shape.elements() as usize {
        let error = (value(chunk, layout.scalar, index) - value(restored, layout.scalar, index)).abs();
        assert!(error <= bound, "bound broken at {index}");
    }
}

fn chunk_row(
    device: &'static Device,
    field: &[f32],
    edge: usize,
    scalar: Scalar,
    relative: f64,
    coding: CodingPolicy,
    repeats: usize,
) {
    let (chunk, layout, mut config) = case(field, edge, scalar, relative);
    config.coding = coding;
    // Large chunks take long to check and to copy; fifty runs are enough for them.
    let repeats = if chunk.len() > 100 << 20 { repeats.min(51) } else { repeats };
    let mut expected = Vec::new();
    Workspace::default().compress(&chunk, &layout, &config, &mut expected).expect("the CPU compresses");
    let mut buffer = vec![0; chunk.len() + 64];
    let mut restored = vec![0; chunk.len()];
    let mut compress = Vec::new();
    let mut decompress = Vec::new();
    for _ in 0..repeats + 3 {
        let clock = Instant::now();
        let compressed = device.compress(&chunk, &layout, &config).expect("compresses");
        let length = compressed.len();
        compressed.copy_to(&mut buffer[..length]).expect("compresses");
        compress.push(clock.elapsed().as_secs_f64() * 1e6);
        let clock = Instant::now();
        device
            .decompress(Unverified::read(&expected).expect("a header"))
            .expect("decompresses")
            .finish(&mut restored)
            .expect("decompresses");
        decompress.push(clock.elapsed().as_secs_f64() * 1e6);
    }
    assert_eq!(buffer[..expected.len()], expected, "the GPU's stream is the CPU's");
    check(&chunk, &restored, &layout, &config);
    let mut batch = Batch::new(device, &layout, 1).expect("a batch");
    let (_, there) = batch.compress(&chunk, &config, repeats).expect("compresses");
    let (_, back) = batch.decompress(&[expected.clone()], repeats).expect("decompresses");
    let cell = |times: &[f64]| {
        format!(
            "{:.1} ({:.1}-{:.1}) {:>7.2}",
            at(times, 0.5),
            at(times, 0.25),
            at(times, 0.75),
            chunk.len() as f64 / at(times, 0.5) / 1e3
        )
    };
    println!(
        "{:<22} {relative:>6.0e} {:>7.2}  {:>31}  {:>31}  {:>25}  {:>25}",
        format!("{edge}^3 {scalar:?}, {:.2} MiB", chunk.len() as f64 / 1048576.0),
        chunk.len() as f64 / expected.len() as f64,
        cell(&compress[3..]),
        cell(&decompress[3..]),
        cell(&there.whole),
        cell(&back.whole)
    );
}

fn threshold_row(device: &'static Device, field: &[f32], edge: usize, repeats: usize) {
    let (chunk, layout, config) = case(field, edge, Scalar::F32, 1e-3);
    let mut workspace = Workspace::default();
    let (mut stream, mut buffer, mut restored) = (Vec::new(), vec![0; chunk.len() + 64], vec![0; chunk.len()]);
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..repeats + 3 {
        let mut clock = Instant::now();
        let mut lap = |times: &mut Vec<f64>| {
            times.push(clock.elapsed().as_secs_f64() * 1e6);
            clock = Instant::now();
        };
        workspace.compress(&chunk, &layout, &config, &mut stream).expect("compresses");
        lap(&mut times[0]);
        let compressed = device.compress(&chunk, &layout, &config).expect("compresses");
        let length = compressed.len();
        compressed.copy_to(&mut buffer[..length]).expect("compresses");
        lap(&mut times[1]);
        assert_eq!(buffer[..length], stream);
        lap(&mut Vec::new());
        workspace.decompress(&stream, &mut restored).expect("decompresses");
        lap(&mut times[2]);
        device
            .decompress(Unverified::read(&stream).expect("a header"))
            .expect("decompresses")
            .finish(&mut restored)
            .expect("decompresses");
        lap(&mut times[3]);
        check(&chunk, &restored, &layout, &config);
        lap(&mut Vec::new());
    }
    let [cpu_in, gpu_in, cpu_out, gpu_out] = times.map(|times| at(&times[3..], 0.5));
    println!(
        "{:<22} {cpu_in:>12.1} {gpu_in:>12.1} {cpu_out:>14.1} {gpu_out:>14.1}",
        format!("{edge}^3, {:.0} KiB", chunk.len() as f64 / 1024.0)
    );
}

fn batch_row(device: &'static Device, field: &[f32], relative: f64, coding: CodingPolicy, repeats: usize) {
    const CHUNKS: usize = 512;
    // The 64 cubes of the field, eight times over.
    let (_, layout, mut config) = case(field, 64, Scalar::F32, relative);
    config.coding = coding;
    let chunks: Vec<u8> = (0..CHUNKS)
        .flat_map(|i| (0..64 * 64).map(move |row| (i % 4 * 64 + row / 64, i / 4 % 4 * 64 + row % 64, i / 16 % 4 * 64)))
        .flat_map(|(z, y, x)| field[(z * 256 + y) * 256 + x..][..64].iter().flat_map(|value| value.to_le_bytes()))
        .collect();
    let mut batch = Batch::new(device, &layout, CHUNKS).expect("a batch");
    let (streams, there) = batch.compress(&chunks, &config, repeats).expect("compresses");
    let (restored, back) = batch.decompress(&streams, repeats).expect("decompresses");
    let chunk_len = layout.chunk_bytes() as usize;
    for (i, stream) in streams.iter().enumerate() {
        let range = i * chunk_len..(i + 1) * chunk_len;
        check(&chunks[range.clone()], &restored[range.clone()], &layout, &config);
        if i % 64 == 0 {
            let mut expected = Vec::new();
            Workspace::default().compress(&chunks[range], &layout, &config, &mut expected).expect("the CPU compresses");
            assert_eq!(stream, &expected);
        }
    }
    let compressed: usize = streams.iter().map(Vec::len).sum();
    let cell = |timings: &Timings| {
        let times = &timings.whole;
        format!(
            "{:.0} ({:.0}-{:.0}) us, {:.0} GB/s",
            at(times, 0.5),
            at(times, 0.25),
            at(times, 0.75),
            chunks.len() as f64 / at(times, 0.5) / 1e3
        )
    };
    println!(
        "{coding:?}, bound {relative:.0e}, ratio {:.2}: compress {}; decompress {}",
        chunks.len() as f64 / compressed as f64,
        cell(&there),
        cell(&back)
    );
}

fn steps(device: &'static Device, field: &[f32], edge: usize, relative: f64, coding: CodingPolicy, repeats: usize) {
    let (chunk, layout, mut config) = case(field, edge, Scalar::F32, relative);
    config.coding = coding;
    let (_, predictor) = batch_choice(&chunk, &layout, &config).expect("memory");
    let mut batch = Batch::new(device, &layout, 1).expect("a batch");
    let (streams, there) = batch.compress(&chunk, &config, repeats).expect("compresses");
    let (_, back) = batch.decompress(&streams, repeats).expect("decompresses");
    config.codebook = CodebookPolicy::Custom;
    let (_, custom) = batch.compress(&chunk, &config, repeats).expect("compresses");
    for (name, timings) in [("compress", &there), ("decompress", &back)] {
        println!(
            "{edge}^3, {relative:e}, {coding:?}, {predictor:?}, {name}: recorded launches {:.1} us on the device, {:.1} us for the host",
            at(&timings.whole, 0.5),
            at(&timings.host, 0.5)
        );
        for (step, times) in &timings.steps {
            println!("    {step:<22} {:>8.1} us ({:.1}-{:.1})", at(times, 0.5), at(times, 0.25), at(times, 0.75));
        }
    }
    let on_host = batch.measure_on_host(&chunk, &config, repeats).expect("measures");
    let on_device = batch.measure_on_device(&chunk, &config, repeats).expect("measures");
    for (place, tiles) in [("on the host", on_host), ("on the device", on_device)] {
        let Some(tiles) = tiles else { continue };
        println!(
            "{edge}^3 choosing the predictor of a chunk {place}: kernel {:.1} us, from call to counts {:.1} us",
            at(&tiles.kernel, 0.5),
            at(&tiles.calls, 0.5)
        );
    }
    if coding == CodingPolicy::Bitshuffle {
        return;
    }
    let choose = |timings: &Timings| {
        timings.steps.iter().find(|(step, _)| step.contains("choose")).map_or(0.0, |(_, times)| at(times, 0.5))
    };
    println!(
        "{edge}^3 choosing among 75 books {:.1} us; building a custom book as well {:.1} us",
        choose(&there),
        choose(&custom)
    );
}

fn at(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn join(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

fn processor() -> String {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    model.trim_start_matches([' ', '\t', ':']).to_owned()
}
