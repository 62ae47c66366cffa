//! Measures batches of chunks in device memory: `cargo run --release -p quire-gpu --example resident_bench [-- REPEATS [MIB]]`.
//!
//! Every stream is compared with the CPU's and every value with its bound before a time is printed. A row has, in GB/s of uncompressed data by the host's
//! clock, from the call to its return: device to device, device to host, and out of an array in C order, in both directions. Above them is a copy within the
//! device, each byte read once and written once. `nsys profile --stats=true` gives the time of each kernel.

use std::sync::Mutex;
use std::time::Instant;

use cudarc::driver::{CudaContext, result, sys};
use h5_samples::turbulence;
use quire_codec::{ByteOrder, Config, Layout, Scalar, Shape, Workspace, max_stream_len};
use quire_gpu::{ArrayAxes, Device, PackedStreams, Part, Resident, ResidentStream, device};

/// Edge of the field.
const EDGE: usize = 256;

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let (repeats, mib) = (arguments.first().copied().unwrap_or(15), arguments.get(1).copied().unwrap_or(512));
    let device = match device(0) {
        Ok(device) => device,
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            return println!("no GPU: {reason}");
        }
    };
    CudaContext::new(0).and_then(|context| context.bind_to_thread()).expect("the primary context");
    let copies = (mib << 20) / (4 * EDGE.pow(3));
    assert!(copies > 0, "MIB is a multiple of {}", (4 * EDGE.pow(3)) >> 20);
    println!("machine: {}, {} cores", device.name(), std::thread::available_parallelism().map_or(1, usize::from));
    println!("command: cargo run --release -p quire-gpu --example resident_bench -- {repeats} {mib}");
    println!(
        "field: resolved turbulent velocity of h5-samples, f32, {EDGE}^3, {copies} copies; bounds are shares of its range; medians of {repeats}, GB/s"
    );
    let field = turbulence::resolved_velocity(1, [EDGE; 3]);
    let bytes: Vec<u8> = field.iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = OnDevice::with(copies * bytes.len());
    (0..copies).for_each(|copy| array.write(copy * bytes.len(), &bytes));
    let floor = {
        let to = OnDevice::with(array.len);
        median(repeats, || {
            // SAFETY: both have this length.
            unsafe { result::memcpy_dtod_sync(to.address, array.address, array.len) }.expect("copies");
            // SAFETY: waits for the copy.
            unsafe { sys::cuCtxSynchronize() }.result().expect("waits");
        })
    };
    println!(
        "a copy within the device: {:.0} GB/s of values, each byte read once and written once\n",
        array.len as f64 / floor / 1e9
    );
    println!(
        "{:<9} {:>6} {:>6} | {:>8} {:>9} {:>9} | {:>8} {:>9} {:>9}",
        "chunks", "bound", "ratio", "compress", "to host", "array", "decode", "from host", "array"
    );
    let range = field
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value.into()), high.max(value.into())));
    for edge in [64, 128, 256] {
        for relative in [1e-2, 1e-3, 1e-4] {
            let config = Config::absolute((range.1 - range.0) * relative).expect("a bound");
            row(device, &bytes, &array, edge, relative, &config, repeats);
        }
    }
}

/// Device memory.
struct OnDevice {
    address: u64,
    len: usize,
}

impl OnDevice {
    fn with(len: usize) -> Self {
        // SAFETY: new memory.
        Self { address: unsafe { result::malloc_sync(len) }.expect("device memory"), len }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len, "inside");
        // SAFETY: as checked.
        unsafe { result::memcpy_htod_sync(self.address + at as u64, bytes) }.expect("copies");
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: all of it.
        unsafe { result::memcpy_dtoh_sync(&mut bytes, self.address) }.expect("copies");
        bytes
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        // SAFETY: from `malloc_sync`, and no call is under way.
        unsafe { result::free_sync(self.address) }.expect("frees");
    }
}

/// Median time of a call in seconds, after two that do not count.
fn median(repeats: usize, mut call: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..repeats + 2)
        .map(|_| {
            let clock = Instant::now();
            call();
            clock.elapsed().as_secs_f64()
        })
        .skip(2)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Chunks of one copy of the field, in C order.
fn cut(bytes: &[u8], edge: usize) -> Vec<Vec<u8>> {
    let per_axis = EDGE / edge;
    (0..per_axis.pow(3))
        .map(|chunk| {
            let (z, y, x) = (chunk / per_axis / per_axis * edge, chunk / per_axis % per_axis * edge, chunk % per_axis * edge);
            (0..edge * edge)
                .flat_map(|row| {
                    let at = 4 * (((z + row / edge) * EDGE + y + row % edge) * EDGE + x);
                    bytes[at..at + 4 * edge].iter().copied()
                })
                .collect()
        })
        .collect()
}

fn row(device: &'static Device, bytes: &[u8], array: &OnDevice, edge: usize, relative: f64, config: &Config, repeats: usize) {
    let layout =
        Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[edge as u64; 3]).expect("a cube") };
    let (chunks, len) = (cut(bytes, edge), 4 * edge.pow(3));
    let copies = array.len / bytes.len();
    let count = copies * chunks.len();
    let joined: Vec<u8> = chunks.concat();
    let there = OnDevice::with(array.len);
    (0..copies).for_each(|copy| there.write(copy * joined.len(), &joined));
    let whole = ArrayAxes::new(&[edge as u64; 3], None, 4).expect("axes");
    let in_array = ArrayAxes::new(&[edge as u64; 3], Some(&[4 * (EDGE * EDGE) as i64, 4 * EDGE as i64, 4]), 4).expect("axes");
    let parts_at = |base: u64| -> Vec<Part<'_>> { (0..count).map(|chunk| whole.whole(base + (chunk * len) as u64)).collect() };
    let per_axis = EDGE / edge;
    let parts_in = |base: u64| -> Vec<Part<'_>> {
        let first = |chunk: usize| {
            let (copy, chunk) = (chunk / chunks.len(), chunk % chunks.len());
            let (z, y, x) = (chunk / per_axis / per_axis * edge, chunk / per_axis % per_axis * edge, chunk % per_axis * edge);
            base + (copy * bytes.len() + 4 * ((z * EDGE + y) * EDGE + x)) as u64
        };
        (0..count).map(|chunk| in_array.whole(first(chunk))).collect()
    };
    let (parts, strided) = (parts_at(there.address), parts_in(array.address));
    let resident = Resident { axes: &whole, parts: &parts, stream: Some(0) };
    let of_array = Resident { axes: &in_array, parts: &strided, stream: Some(0) };

    let expected: Vec<Vec<u8>> = chunks
        .iter()
        .map(|chunk| {
            let mut stream = Vec::new();
            Workspace::default().compress(chunk, &layout, config, &mut stream).expect("the CPU compresses");
            stream
        })
        .collect();
    let ratio = len as f64 * chunks.len() as f64 / expected.iter().map(Vec::len).sum::<usize>() as f64;
    let target = OnDevice::with(count * max_stream_len(&layout).next_multiple_of(16) as usize);
    let (mut offsets, mut lengths) = (vec![0; count], vec![0; count]);
    let mut packed = |resident: &Resident<'_>| {
        let packed = PackedStreams::new(target.address, target.len as u64, &mut offsets, &mut lengths);
        // SAFETY: this program's own memory.
        unsafe { device.compress_resident_to(resident, &layout, config, &packed) }.expect("compresses");
    };
    let compress = median(repeats, || packed(&resident));
    let from_array = median(repeats, || packed(&of_array));
    let streams = target.bytes();
    for (chunk, (&offset, &length)) in offsets.iter().zip(&lengths).enumerate() {
        let stream = &streams[offset as usize..(offset + length) as usize];
        assert!(stream == expected[chunk % chunks.len()], "the GPU's stream of chunk {chunk} is the CPU's");
    }
    let kept: Vec<Mutex<Vec<u8>>> = (0..count).map(|_| Mutex::new(vec![0; max_stream_len(&layout) as usize])).collect();
    let take = |chunk: usize, stream: &[u8]| {
        kept[chunk].lock().expect("no panic")[..stream.len()].copy_from_slice(stream);
        Ok(())
    };
    // SAFETY: this program's own memory.
    let to_host = median(repeats, || unsafe { device.compress_resident(&resident, &layout, config, &take) }.expect("compresses"));

    let restored = OnDevice::with(array.len);
    let (parts, strided) = (parts_at(restored.address), parts_in(restored.address));
    let resident = Resident { axes: &whole, parts: &parts, stream: Some(0) };
    let of_array = Resident { axes: &in_array, parts: &strided, stream: Some(0) };
    let on_device: Vec<ResidentStream<'_>> = offsets
        .iter()
        .zip(&lengths)
        .map(|(offset, &length)| ResidentStream::Device { address: target.address + offset, length })
        .collect();
    let on_host: Vec<ResidentStream<'_>> =
        (0..count).map(|chunk| ResidentStream::Host(&expected[chunk % chunks.len()])).collect();
    let decode = |streams: &[ResidentStream<'_>], resident: &Resident<'_>| {
        // SAFETY: this program's own memory.
        let refused = unsafe { device.decompress_resident(streams, resident, &layout) }.expect("decompresses");
        assert_eq!(refused, 0);
    };
    let decompress = median(repeats, || decode(&on_device, &resident));
    check(&joined, &restored.bytes(), config);
    let from_host = median(repeats, || decode(&on_host, &resident));
    let to_array = median(repeats, || decode(&on_device, &of_array));
    check(bytes, &restored.bytes(), config);

    let speed = |seconds: f64| array.len as f64 / seconds / 1e9;
    println!(
        "{:<9} {relative:>6.0e} {ratio:>6.2} | {:>8.0} {:>9.0} {:>9.0} | {:>8.0} {:>9.0} {:>9.0}",
        format!("{count}x{edge}^3"),
        speed(compress),
        speed(to_host),
        speed(from_array),
        speed(decompress),
        speed(from_host),
        speed(to_array),
    );
}

/// All copies of the values are within the bound, in f64.
fn check(original: &[u8], restored: &[u8], config: &Config) {
    let quire_codec::ErrorBound::Absolute(bound) = config.bound else { unreachable!("absolute bounds only") };
    let value = |bytes: &[u8]| f64::from(f32::from_le_bytes(bytes.try_into().expect("4 bytes")));
    for copy in restored.chunks(original.len()) {
        let is_held = copy.chunks(4).zip(original.chunks(4)).all(|(found, wanted)| (value(found) - value(wanted)).abs() <= bound);
        assert!(is_held && copy.len() == original.len(), "the bound is held");
    }
}
