//! Measures calls of the GPU, host to host: `cargo run --release -p quire-gpu --example gpu_bench [-- REPEATS [EDGE...]]`.
//!
//! Every stream is compared with the CPU's and every value with its bound before a time is printed. Then, a row a chunk and bound: ratio; what the filter does
//! without HDF5, in both directions: median and quartiles in microseconds, and GB/s of *uncompressed* data. Floors, measured in the same run, are printed
//! above. `nsys profile --stats=true` gives the time of each kernel, and `resident_bench` measures chunks in the GPU's memory.

use std::time::Instant;

use cudarc::driver::{CudaContext, result, sys};
use h5_samples::turbulence;
use quire_codec::{ByteOrder, CodingPolicy, Config, Layout, Scalar, Shape, Unverified, Workspace};
use quire_gpu::{Device, device};

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
        floors(len, repeats);
    }
    println!(
        "\n{:<22} {:>6} {:>7}  {:>23} {:>7}  {:>23} {:>7}",
        "chunk", "bound", "ratio", "compress us (quartiles)", "GB/s", "decompress us", "GB/s"
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
}

/// Prints what the machine can do at best with `len` bytes: median times of copies.
fn floors(len: usize, repeats: usize) {
    CudaContext::new(0).and_then(|context| context.bind_to_thread()).expect("the primary context");
    let (source, mut target) = (vec![7u8; len], vec![0; len]);
    // SAFETY: new memory.
    let (pinned, there) = unsafe { (result::malloc_host(len, 0), result::malloc_sync(2 * len)) };
    let (pinned, there) = (pinned.expect("pinned memory"), there.expect("device memory"));
    // SAFETY: the pinned memory has this length.
    let pinned_bytes = unsafe { std::slice::from_raw_parts_mut(pinned.cast::<u8>(), len) };
    pinned_bytes.copy_from_slice(&source);
    println!("floors for {} MiB, median us:", len >> 20);
    let print = |name: &str, copy: &mut dyn FnMut()| {
        let mut times = Vec::new();
        for _ in 0..repeats + 1 {
            let clock = Instant::now();
            copy();
            times.push(clock.elapsed().as_secs_f64() * 1e6);
        }
        let time = at(&times[1..], 0.5);
        println!("  {name:<40} {time:>9.1} us {:>8.1} GB/s", len as f64 / time / 1e3);
    };
    print("copy on the host, one thread", &mut || target.copy_from_slice(std::hint::black_box(&source)));
    // SAFETY: both have this length, and the calls return behind the copies.
    print("pinned memory to the device", &mut || unsafe { result::memcpy_htod_sync(there, pinned_bytes) }.expect("copies"));
    // SAFETY: as above.
    print("read and write on the device", &mut || unsafe {
        result::memcpy_dtod_sync(there + len as u64, there, len).and_then(|()| sys::cuCtxSynchronize().result()).expect("copies");
    });
    // SAFETY: as above.
    print("the device to pinned memory", &mut || unsafe { result::memcpy_dtoh_sync(pinned_bytes, there) }.expect("copies"));
    // SAFETY: from `malloc_host` and `malloc_sync`; no copy is under way.
    unsafe { result::free_host(pinned).and_then(|()| result::free_sync(there)) }.expect("frees");
}

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
        let compressed = device.compress(chunk.as_slice(), &layout, &config).expect("compresses");
        let length = compressed.len();
        compressed.copy_to(&mut buffer[..length]).expect("compresses");
        compress.push(clock.elapsed().as_secs_f64() * 1e6);
        let clock = Instant::now();
        device
            .decompress(Unverified::read(&expected).expect("a header"))
            .expect("decompresses")
            .finish(restored.as_mut_slice())
            .expect("decompresses");
        decompress.push(clock.elapsed().as_secs_f64() * 1e6);
    }
    assert_eq!(buffer[..expected.len()], expected, "the GPU's stream is the CPU's");
    check(&chunk, &restored, &layout, &config);
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
        "{:<22} {relative:>6.0e} {:>7.2}  {:>31}  {:>31}",
        format!("{edge}^3 {scalar:?}, {:.2} MiB", chunk.len() as f64 / 1048576.0),
        chunk.len() as f64 / expected.len() as f64,
        cell(&compress[3..]),
        cell(&decompress[3..])
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
        let compressed = device.compress(chunk.as_slice(), &layout, &config).expect("compresses");
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
            .finish(restored.as_mut_slice())
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
