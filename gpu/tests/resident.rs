//! Batches of chunks in device memory: their streams are the CPU's, and what is decoded there is what the CPU decodes.
//!
//! Without a GPU each test says why it is skipped; `QUIRE_REQUIRE_CUDA=1` makes that a failure.

#[path = "../../codec/tests/common/mod.rs"]
mod common;
mod machine;

use std::sync::Mutex;

use common::checks::{Promise, numbers};
use common::sampling::sample;
use common::{CONTENTS, Content, Random, chunk_of, layout};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, result};
use machine::is_small;
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{ByteOrder, CodingPolicy, Config, ErrorBound, Layout, PredictorPolicy, Scalar, Workspace};
use quire_gpu::{ArrayAxes, Device, Failure, Fault, PackedStreams, Part, Resident, ResidentStream, device_of_address};

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

/// The GPU, with its context on this thread.
fn gpu() -> Option<&'static Device> {
    let device = machine::gpu()?;
    CudaContext::new(0).and_then(|context| context.bind_to_thread()).expect("the primary context");
    Some(device)
}

/// Device memory of a test.
struct OnDevice {
    address: u64,
    len: usize,
}

impl OnDevice {
    fn of(bytes: &[u8]) -> Self {
        // SAFETY: new memory of this length, which is then written.
        let address = unsafe {
            let address = result::malloc_sync(bytes.len().max(1)).expect("device memory");
            result::memcpy_htod_sync(address, bytes).expect("copies");
            address
        };
        Self { address, len: bytes.len() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: memory of this length.
        unsafe { result::memcpy_dtoh_sync(&mut bytes, self.address) }.expect("copies");
        bytes
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        // SAFETY: from `malloc_sync`; whoever used it has returned.
        unsafe { result::free_sync(self.address) }.expect("frees");
    }
}

fn on_the_cpu(chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let mut stream = Vec::new();
    Workspace::default().compress(chunk, layout, config, &mut stream).expect("the CPU compresses");
    stream
}

fn decoded_on_the_cpu(stream: &[u8], len: usize) -> Vec<u8> {
    let mut chunk = vec![0; len];
    Workspace::default().decompress(stream, &mut chunk).expect("the CPU decompresses");
    chunk
}

fn compress(device: &'static Device, resident: &Resident<'_>, layout: &Layout, config: &Config) -> Result<Vec<Vec<u8>>, Failure> {
    let streams = Mutex::new(vec![Vec::new(); resident.parts.len()]);
    let take = |chunk: usize, stream: &[u8]| {
        streams.lock().expect("no panic")[chunk] = stream.to_vec();
        Ok(())
    };
    // SAFETY: the tests' own memory.
    unsafe { device.compress_resident(resident, layout, config, &take) }?;
    Ok(streams.into_inner().expect("no panic"))
}

/// Compresses chunks on the device, compares their streams with the CPU's, and decodes these from the host and from the device, into the chunks' places.
fn compare(device: &'static Device, what: &str, chunks: &[Vec<u8>], layout: &Layout, config: &Config) {
    let joined = OnDevice::of(&chunks.concat());
    let dims = layout.shape.dims();
    let axes = ArrayAxes::new(dims, None, layout.scalar.size()).expect("axes");
    let len = layout.chunk_bytes();
    let parts: Vec<Part<'_>> = (0..chunks.len()).map(|number| axes.whole(joined.address + number as u64 * len)).collect();
    let resident = Resident { axes: &axes, parts: &parts, stream: Some(0) };
    let streams = compress(device, &resident, layout, config).expect("the GPU compresses");
    let mut restored = Vec::new();
    for (number, (chunk, stream)) in chunks.iter().zip(&streams).enumerate() {
        let expected = on_the_cpu(chunk, layout, config);
        assert!(*stream == expected, "{what}, chunk {number}: {} bytes in place of {}", stream.len(), expected.len());
        let decoded = decoded_on_the_cpu(stream, chunk.len());
        let (original, found) = (numbers(chunk, layout), numbers(&decoded, layout));
        let checked = Promise::new(&original, layout, config).check(&original, &found, layout);
        assert!(checked.is_ok(), "{what}, chunk {number}: {:?}", checked.err());
        restored.extend(decoded);
    }
    let packed: Vec<OnDevice> = streams.iter().map(|stream| OnDevice::of(stream)).collect();
    for is_on_host in [true, false] {
        let target = OnDevice::of(&vec![0xa5; joined.len]);
        let parts: Vec<Part<'_>> = (0..chunks.len()).map(|number| axes.whole(target.address + number as u64 * len)).collect();
        let resident = Resident { axes: &axes, parts: &parts, stream: Some(0) };
        let streams: Vec<ResidentStream<'_>> = streams
            .iter()
            .zip(&packed)
            .map(|(stream, packed)| match is_on_host {
                true => ResidentStream::Host(stream),
                false => ResidentStream::Device { address: packed.address, length: packed.len as u64 },
            })
            .collect();
        // SAFETY: the test's own memory.
        let refused = unsafe { device.decompress_resident(&streams, &resident, layout) }.expect("the GPU decompresses");
        assert_eq!(refused, 0, "{what}");
        assert!(target.bytes() == restored, "{what}, streams on the host: {is_on_host}");
    }
}

fn contents(layout: &Layout, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| chunk_of(CONTENTS[number % CONTENTS.len()], layout, number as u64)).collect()
}

/// All contents in one batch: differences beside interpolation, lattices, constant chunks, exceptions in lists and planes, stored chunks.
#[test]
fn batches_of_all_contents_types_and_bounds() {
    let Some(device) = gpu() else { return };
    const BOUNDS: [ErrorBound; 9] = [
        ErrorBound::Absolute(1e-3),
        ErrorBound::Absolute(0.3),
        ErrorBound::Absolute(1e-12),
        ErrorBound::Relative(1e-3),
        ErrorBound::Lossless,
        ErrorBound::PointwiseRelative(1e-2),
        ErrorBound::Psnr(50.0),
        ErrorBound::Ratio { ratio: 7.0, ceiling: None },
        ErrorBound::Absolute(7.0),
    ];
    const DIMS: [&[u64]; 4] = [&[27, 29, 31], &[150, 163], &[5, 7, 11], &[1]];
    let scalars: Vec<Scalar> = Scalar::ALL.into_iter().filter(|scalar| !scalar.is_pair()).collect();
    let sizes = [DIMS.len(), scalars.len(), ORDERS.len(), BOUNDS.len(), 3, 2];
    let part = if is_small() { 130 } else { 2 };
    for [dims, scalar, order, bound, fill, coding] in sample("resident batches", sizes, part) {
        let layout = layout(scalars[scalar], ORDERS[order], DIMS[dims]);
        let mut config = Config::new(BOUNDS[bound]).expect("a bound");
        if quire_codec::check_bound(&layout, &config).is_err() {
            continue;
        }
        config.fill_value = [None, Some(0), Some(1e35f32.to_bits().into())][fill];
        config.coding = [CodingPolicy::Huffman, CodingPolicy::Bitshuffle][coding];
        let chunks = contents(&layout, CONTENTS.len());
        compare(device, &format!("{layout:?} {config:?}"), &chunks, &layout, &config);
    }
}

/// Differences and interpolation, tokens and bit planes, in batches of chunks of which only every other one begins at a multiple of four bytes.
#[test]
fn batches_are_chunk_by_chunk() {
    let Some(device) = gpu() else { return };
    let layouts = [
        (Scalar::F32, &[16u64, 16, 16][..], 40),
        (Scalar::F64, &[33, 65], 9),
        (Scalar::F32, &[5001], 7),
        (Scalar::F16, &[33, 65], 26),
        (Scalar::BF16, &[5001], 13),
    ];
    let kinds = [InterpolationKind::CUBIC, InterpolationKind::new(0b01, true)];
    let predictors = kinds.into_iter().map(PredictorPolicy::Interpolation).chain([PredictorPolicy::Lorenzo]);
    for (predictor, coding) in
        predictors.flat_map(|way| [CodingPolicy::Huffman, CodingPolicy::Bitshuffle].map(|coding| (way, coding)))
    {
        for (scalar, dims, count) in layouts {
            let layout = layout(scalar, ByteOrder::Little, dims);
            let config = Config { predictor, coding, ..Config::absolute(1e-3).expect("a bound") };
            compare(device, &format!("{scalar:?} {dims:?} {config:?}"), &contents(&layout, count), &layout, &config);
        }
    }
}

/// The types whose predictor is chosen on tiles on the device, in chunks that are large enough for it.
#[test]
fn batches_that_are_decided_on_the_device() {
    let Some(device) = gpu() else { return };
    for scalar in [Scalar::F32, Scalar::F64] {
        let layout = layout(scalar, ByteOrder::Little, if is_small() { &[27, 29, 31] } else { &[64, 64, 64] });
        let chunks = contents(&layout, if is_small() { CONTENTS.len() } else { 130 });
        for bound in [1e-2, 1e-3, 1e-4] {
            compare(device, &format!("{scalar:?} {bound:e}"), &chunks, &layout, &Config::absolute(bound).expect("a bound"));
        }
    }
}

/// Chunks of an array in any strides, which the array's edges cut.
#[test]
fn chunks_of_an_array_are_gathered_and_scattered() {
    let Some(device) = gpu() else { return };
    const ARRAY: [usize; 3] = [37, 50, 45];
    const CHUNK: [u64; 3] = [20, 32, 24];
    for (scalar, fill) in
        [(Scalar::F32, None), (Scalar::F64, Some((-9.0f64).to_bits())), (Scalar::I16, Some(7)), (Scalar::U8, None)]
    {
        let layout = layout(scalar, ByteOrder::Little, &CHUNK);
        let size = scalar.size();
        let config = Config { fill_value: fill, ..Config::absolute(1e-2).expect("a bound") };
        // C order; Fortran's; reversed along two axes; with a gap behind each value and each row.
        let [z, y, x] = ARRAY.map(|extent| extent as i64);
        for (name, strides) in [
            ("C", [y * x, x, 1]),
            ("Fortran", [1, z, z * y]),
            ("reversed", [-y * x, x, -1]),
            ("gaps", [y * (2 * x + 3), 2 * x + 3, 2]),
        ] {
            let strides = strides.map(|stride| stride * size as i64);
            let low: i64 = (0..3).map(|axis| (strides[axis] * (ARRAY[axis] as i64 - 1)).min(0)).sum();
            let high: i64 = (0..3).map(|axis| (strides[axis] * (ARRAY[axis] as i64 - 1)).max(0)).sum();
            let room = (high - low) as usize + size;
            let array_layout = Layout { shape: quire_codec::Shape::new(&ARRAY.map(|n| n as u64)).expect("a shape"), ..layout };
            let dense = chunk_of(Content::Smooth, &array_layout, 3);
            let place = |z: usize, y: usize, x: usize| {
                (z as i64 * strides[0] + y as i64 * strides[1] + x as i64 * strides[2] - low) as usize
            };
            let mut memory = vec![0x5a; room];
            let each = |use_value: &mut dyn FnMut(usize, usize, [usize; 3])| {
                for z in 0..ARRAY[0] {
                    for y in 0..ARRAY[1] {
                        for x in 0..ARRAY[2] {
                            use_value(place(z, y, x), ((z * ARRAY[1] + y) * ARRAY[2] + x) * size, [z, y, x]);
                        }
                    }
                }
            };
            each(&mut |there, here, _| memory[there..there + size].copy_from_slice(&dense[here..here + size]));
            let array = OnDevice::of(&memory);
            let axes = ArrayAxes::new(&CHUNK, Some(&strides), size).expect("axes");
            let (mut parts, mut expected) = (Vec::new(), Vec::new());
            let filling = config.fill_value.unwrap_or(0).to_le_bytes();
            for corner in [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]] {
                let first: [usize; 3] = std::array::from_fn(|axis| corner[axis] * CHUNK[axis] as usize);
                let lens: [u64; 3] = std::array::from_fn(|axis| CHUNK[axis].min((ARRAY[axis] - first[axis]) as u64));
                let address = array.address + place(first[0], first[1], first[2]) as u64;
                parts.push(axes.part(address, |_| 0, |axis| lens[axis], None));
                let mut padded = filling[..size].repeat(layout.shape.elements() as usize);
                for z in 0..lens[0] as usize {
                    for y in 0..lens[1] as usize {
                        for x in 0..lens[2] as usize {
                            let to = ((z * CHUNK[1] as usize + y) * CHUNK[2] as usize + x) * size;
                            let from = (((first[0] + z) * ARRAY[1] + first[1] + y) * ARRAY[2] + first[2] + x) * size;
                            padded[to..to + size].copy_from_slice(&dense[from..from + size]);
                        }
                    }
                }
                expected.push(on_the_cpu(&padded, &layout, &config));
            }
            let resident = Resident { axes: &axes, parts: &parts, stream: Some(0) };
            let streams = compress(device, &resident, &layout, &config).expect("the GPU compresses");
            assert!(streams == expected, "{name} {scalar:?}");

            let target = OnDevice::of(&vec![0x5a; room]);
            let moved: Vec<Part<'_>> =
                parts.iter().zip(&streams).map(|(part, _)| part.moved(target.address.wrapping_sub(array.address))).collect();
            let resident = Resident { axes: &axes, parts: &moved, stream: Some(0) };
            let sources: Vec<ResidentStream<'_>> = streams.iter().map(|stream| ResidentStream::Host(stream)).collect();
            // SAFETY: the test's own memory.
            unsafe { device.decompress_resident(&sources, &resident, &layout) }.expect("the GPU decompresses");
            let mut restored = vec![0x5a; room];
            let decoded: Vec<Vec<u8>> =
                streams.iter().map(|stream| decoded_on_the_cpu(stream, layout.chunk_bytes() as usize)).collect();
            each(&mut |there, _, at| {
                let corner: [usize; 3] = std::array::from_fn(|axis| at[axis] / CHUNK[axis] as usize);
                let inside: [usize; 3] = std::array::from_fn(|axis| at[axis] % CHUNK[axis] as usize);
                let from = ((inside[0] * CHUNK[1] as usize + inside[1]) * CHUNK[2] as usize + inside[2]) * size;
                let chunk = &decoded[(corner[0] * 2 + corner[1]) * 2 + corner[2]];
                restored[there..there + size].copy_from_slice(&chunk[from..from + size]);
            });
            assert!(target.bytes() == restored, "{name} {scalar:?}: values are in their places, and nothing else is written");
        }
    }
}

/// A box that lies inside of a chunk, over the chunk's values as they were.
#[test]
fn values_around_a_part_stay() {
    let Some(device) = gpu() else { return };
    let layout = layout(Scalar::F32, ByteOrder::Little, &[30, 40, 50]);
    let config = Config::absolute(1e-3).expect("a bound");
    let elements = layout.shape.elements() as usize;
    let under = chunk_of(Content::Noise, &layout, 1);
    let over: Vec<u8> = (0..2 * 3 * 4).flat_map(|index| (index as f32 * 0.37).to_le_bytes()).collect();
    let array = OnDevice::of(&over);
    let axes = ArrayAxes::new(&[30, 40, 50], Some(&[48, 16, 4]), 4).expect("axes");
    let parts = [axes.part(array.address, |axis| [5, 6, 7][axis], |axis| [2, 3, 4][axis], Some(&under))];
    let streams =
        compress(device, &Resident { axes: &axes, parts: &parts, stream: Some(0) }, &layout, &config).expect("compresses");
    let mut expected = under.clone();
    for (number, value) in over.chunks(4).enumerate() {
        let at = 4 * (((5 + number / 12) * 40 + 6 + number / 4 % 3) * 50 + 7 + number % 4);
        expected[at..at + 4].copy_from_slice(value);
    }
    assert!(streams[0] == on_the_cpu(&expected, &layout, &config));

    let target = OnDevice::of(&[0; 96]);
    let parts = [axes.part(target.address, |axis| [5, 6, 7][axis], |axis| [2, 3, 4][axis], None)];
    // SAFETY: the test's own memory.
    unsafe {
        device.decompress_resident(
            &[ResidentStream::Host(&streams[0])],
            &Resident { axes: &axes, parts: &parts, stream: Some(0) },
            &layout,
        )
    }
    .expect("decompresses");
    let decoded = decoded_on_the_cpu(&streams[0], 4 * elements);
    let found = target.bytes();
    for (number, value) in found.chunks(4).enumerate() {
        let at = 4 * (((5 + number / 12) * 40 + 6 + number / 4 % 3) * 50 + 7 + number % 4);
        assert_eq!(value, &decoded[at..at + 4]);
    }
}

/// Streams in device memory, one behind the other.
#[test]
fn streams_are_packed_on_the_device() {
    let Some(device) = gpu() else { return };
    let layout = layout(Scalar::F32, ByteOrder::Little, &[20, 30, 40]);
    let config = Config::absolute(1e-2).expect("a bound");
    let chunks = contents(&layout, 3 * CONTENTS.len());
    let expected: Vec<Vec<u8>> = chunks.iter().map(|chunk| on_the_cpu(chunk, &layout, &config)).collect();
    let joined = OnDevice::of(&chunks.concat());
    let axes = ArrayAxes::new(layout.shape.dims(), None, 4).expect("axes");
    let parts: Vec<Part<'_>> =
        (0..chunks.len()).map(|number| axes.whole(joined.address + number as u64 * layout.chunk_bytes())).collect();
    let resident = Resident { axes: &axes, parts: &parts, stream: Some(0) };
    let needed: u64 = expected.iter().map(|stream| (stream.len() as u64).next_multiple_of(16)).sum();
    let target = OnDevice::of(&vec![0xa5; needed as usize + 64]);
    for (address, capacity) in [(0, 0), (target.address, needed - 16), (target.address, needed)] {
        let (mut offsets, mut lengths) = (vec![0; chunks.len()], vec![0; chunks.len()]);
        let packed = PackedStreams::new(address, capacity, &mut offsets, &mut lengths);
        // SAFETY: the test's own memory.
        let outcome = unsafe { device.compress_resident_to(&resident, &layout, &config, &packed) };
        assert_eq!(outcome.is_ok(), capacity != needed - 16);
        assert!(lengths.iter().zip(&expected).all(|(&length, stream)| length == stream.len() as u64));
        let mut end = 0;
        for (offset, length) in offsets.iter().zip(&lengths) {
            assert_eq!(*offset, end);
            end += length.next_multiple_of(16);
        }
        assert_eq!(end, needed);
        if capacity == needed {
            let bytes = target.bytes();
            for (stream, &offset) in expected.iter().zip(&offsets) {
                assert!(bytes[offset as usize..][..stream.len()] == **stream);
            }
            assert!(bytes[needed as usize..].iter().all(|&byte| byte == 0xa5));
        }
    }
}

/// Damaged streams are refused with the CPU's words, and the chunk's number.
#[test]
fn damaged_streams_are_refused() {
    let Some(device) = gpu() else { return };
    let layout = layout(Scalar::F32, ByteOrder::Little, &[20, 30, 40]);
    let chunks = contents(&layout, 5);
    let streams: Vec<Vec<u8>> =
        chunks.iter().map(|chunk| on_the_cpu(chunk, &layout, &Config::absolute(1e-2).expect("a bound"))).collect();
    let target = OnDevice::of(&vec![0; 5 * layout.chunk_bytes() as usize]);
    let axes = ArrayAxes::new(layout.shape.dims(), None, 4).expect("axes");
    let parts: Vec<Part<'_>> = (0..5).map(|number| axes.whole(target.address + number * layout.chunk_bytes())).collect();
    let resident = Resident { axes: &axes, parts: &parts, stream: Some(0) };
    let mut random = Random(11);
    for round in 0..24 {
        let mut damaged = streams.clone();
        let at = random.below(damaged[3].len() as u64) as usize;
        damaged[3][at] ^= 1 << random.below(8);
        if round % 3 == 0 {
            damaged[3].truncate(at);
        }
        let expected = Workspace::default().decompress(&damaged[3], &mut vec![0; layout.chunk_bytes() as usize]);
        let on_device: Vec<OnDevice> = damaged.iter().map(|stream| OnDevice::of(stream)).collect();
        for is_on_host in [true, false] {
            let sources: Vec<ResidentStream<'_>> = damaged
                .iter()
                .zip(&on_device)
                .map(|(stream, there)| match is_on_host {
                    true => ResidentStream::Host(stream),
                    false => ResidentStream::Device { address: there.address, length: stream.len() as u64 },
                })
                .collect();
            // SAFETY: the test's own memory.
            let found = unsafe { device.decompress_resident(&sources, &resident, &layout) };
            match (&found, &expected) {
                (Err(Failure { chunk: Some(3), fault: Fault::Codec(found) }), Err(expected)) if found == expected => {}
                _ => panic!("bit at byte {at} of {}: {found:?} in place of {expected:?}", streams[3].len()),
            }
        }
    }
}

/// A graph that the caller captures, in the thread that calls us: the capture goes on, and only its own stream is refused.
#[test]
fn captures_go_on_while_chunks_are_compressed() {
    let Some(device) = gpu() else { return };
    let layout = layout(Scalar::F32, ByteOrder::Little, &[20, 30, 40]);
    let config = Config::absolute(1e-2).expect("a bound");
    let chunk = chunk_of(Content::Smooth, &layout, 1);
    let there = OnDevice::of(&chunk);
    let axes = ArrayAxes::new(layout.shape.dims(), None, 4).expect("axes");
    let parts = [axes.whole(there.address)];
    let compress_behind =
        |stream: Option<u64>| compress(device, &Resident { axes: &axes, parts: &parts, stream }, &layout, &config);
    let context = CudaContext::new(0).expect("the primary context");
    let stream = context.new_stream().expect("a stream");
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).expect("a capture");
    // No other test of this process has pinned memory from there.
    let staging = device.staging(1 << 20).expect("the driver pins memory");
    let captured = compress_behind(Some(stream.cu_stream() as u64));
    let compressed = compress_behind(None).expect("the GPU compresses");
    let ended = stream.end_capture(CUgraphInstantiate_flags(0));
    assert!(staging.is_some());
    assert!(matches!(captured, Err(Failure { fault: Fault::Gpu(quire_gpu::Error::Unsupported(_)), .. })), "{captured:?}");
    assert!(compressed[0] == on_the_cpu(&chunk, &layout, &config));
    assert!(ended.is_ok(), "the capture has ended before: {:?}", ended.err());
    assert!(quire_gpu::device(0).is_ok(), "the GPU is used on");
}

/// A set's first launch set has fewer chunks than its next one, whose arrays take the place of the first one's streams.
#[test]
fn arrays_grow_within_a_set() {
    let Some(device) = gpu() else { return };
    // More values than all chunks of a set of the other tests have.
    let layout = layout(Scalar::F32, ByteOrder::Little, if is_small() { &[64, 64, 128] } else { &[128, 128, 128] });
    let config = Config { coding: CodingPolicy::Bitshuffle, ..Config::absolute(1e-2).expect("a bound") };
    let mut chunks = vec![vec![0; layout.chunk_bytes() as usize]];
    chunks.extend((1..3).map(|number| chunk_of(Content::Noise, &layout, number)));
    compare(device, "arrays that grow", &chunks, &layout, &config);
}

/// A chunk of almost 4 GiB of single bytes: the numbers of its values take all 32 bits. The emulator would take minutes.
#[test]
fn the_longest_chunk_is_filled_and_scattered() {
    let Some(device) = gpu().filter(|_| !is_small()) else { return };
    let layout = layout(Scalar::U8, ByteOrder::Little, &[65_535, 65_537]);
    assert_eq!(layout.chunk_bytes(), u64::from(u32::MAX));
    // All rows of the caller's array are in one place.
    let target = OnDevice::of(&[0; 65_537]);
    let axes = ArrayAxes::new(layout.shape.dims(), Some(&[0, 1]), 1).expect("axes");
    let parts = [axes.whole(target.address)];
    let resident = Resident { axes: &axes, parts: &parts, stream: None };
    // SAFETY: the test's own memory.
    unsafe { device.decompress_resident(&[ResidentStream::Value([7; 8])], &resident, &layout) }.expect("the GPU fills it");
    assert!(target.bytes().iter().all(|&value| value == 7));
}

#[test]
fn addresses_say_where_they_are() {
    let Some(_) = gpu() else { return };
    let there = OnDevice::of(&[1, 2, 3]);
    let here = [1u8, 2, 3];
    assert_eq!(device_of_address(there.address), Some(0));
    assert_eq!(device_of_address(here.as_ptr() as u64), None);
    assert_eq!(device_of_address(0), None);
}
