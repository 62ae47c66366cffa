//! Values in a GPU's memory, through the functions of C, with each of the host's allocations for many bytes refused in turn. What the GPU has in use afterwards is what it had before.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use quire_codec::options;
use quire_codec::{ByteOrder, Layout, Scalar, Shape, Workspace};
use quire_gpu::statistics;

use super::driver::Driver;
use super::run_on_a_gpu;
use crate::c_api::Bytes;
use crate::c_api::device::{DeviceChunks, quire_device_compress, quire_device_compress_to_device, quire_device_decompress};
use crate::tests::low_memory::F32;
use crate::tests::low_memory::hdf5::Hdf5;
use crate::tests::low_memory::refusing::spare;
use crate::tests::low_memory::whole_arrays::{Place as _, boxes, bytes_of, outcome_of, refuse_each, smooth, split, taken};

/// Values of a chunk along its axes: few, as the emulator is slow.
const CHUNK: [u64; 2] = [96, 100];
const CHUNK_BYTES: usize = 4 * 96 * 100;
/// Values from one row to the next in memory, where chunks are not in C order.
const ROW: usize = 128;
const BYTES_IN_MEMORY: usize = 4 * 96 * ROW;
/// Chunks of a call.
const COUNT: usize = 5;

/// Chunks of all kinds: smooth ones, whole numbers, a constant one, noise, and one that the array's edge cuts.
struct Chunks {
    /// Values as they are in memory.
    in_memory: Vec<Vec<f32>>,
    /// Values that each has there along its axes.
    counts: [[u64; 2]; COUNT],
    /// The bytes of each chunk.
    dense: Vec<Vec<u8>>,
}

impl Chunks {
    fn new() -> Self {
        let mut noise = 1u32;
        let kinds: [&mut dyn FnMut(usize, usize) -> f32; COUNT] = [
            &mut |y, x| ((y * 100 + x) as f32 * 0.07).sin() * 100.0,
            &mut |y, x| ((y + x) % 50) as f32,
            &mut |_, _| 2.5,
            &mut |_, _| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from_bits(noise & 0xbfff_ffff)
            },
            &mut |y, x| (y as f32 * 0.3).cos() + x as f32 * 0.01,
        ];
        let counts = [CHUNK, CHUNK, CHUNK, CHUNK, [50, 70]];
        let (mut in_memory, mut dense) = (Vec::new(), Vec::new());
        for (kind, counts) in kinds.into_iter().zip(counts) {
            let (mut rows, mut chunk) = (vec![0f32; BYTES_IN_MEMORY / 4], vec![0f32; CHUNK_BYTES / 4]);
            for (y, x) in (0..counts[0] as usize).flat_map(|y| (0..counts[1] as usize).map(move |x| (y, x))) {
                let value = kind(y, x);
                (rows[y * ROW + x], chunk[y * 100 + x]) = (value, value);
            }
            in_memory.push(rows);
            dense.push(bytes_of(&chunk));
        }
        Self { in_memory, counts, dense }
    }

    /// Puts the chunks into the GPU's memory; their addresses.
    fn put(&self, driver: &Driver) -> Vec<u64> {
        self.in_memory.iter().map(|values| driver.put(values)).collect()
    }

    /// The streams that the CPU makes, and what they decode to.
    fn on_the_cpu(&self, options: &CStr) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let config = options::parse(options.to_str().expect("ASCII")).expect("options").config;
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&CHUNK).expect("a shape") };
        let mut workspace = Workspace::default();
        let make = |chunk: &Vec<u8>| {
            let (mut stream, mut decoded) = (Vec::new(), vec![0; CHUNK_BYTES]);
            workspace.compress(chunk, &layout, &config, &mut stream).expect("compressed");
            workspace.decompress(&stream, &mut decoded).expect("decompressed");
            (stream, decoded)
        };
        self.dense.iter().map(make).unzip()
    }

    /// Calls `body` with chunks at these addresses.
    fn at<R>(&self, addresses: &[u64], body: impl FnOnce(*const DeviceChunks) -> R) -> R {
        let strides = [4 * ROW as i64, 4];
        let chunks = DeviceChunks {
            value_type: F32,
            rank: 2,
            extents: CHUNK.as_ptr(),
            count: COUNT,
            addresses: addresses.as_ptr(),
            strides: strides.as_ptr(),
            counts: self.counts.as_ptr().cast(),
            stream: null_mut(),
        };
        body(&raw const chunks)
    }

    fn compress(&self, options: &CStr, addresses: &[u64]) -> Option<Vec<u8>> {
        let mut streams = [const { Bytes::NONE }; COUNT];
        let outcome = self.at(addresses, |chunks| {
            outcome_of("chunks", |reason| {
                // SAFETY: arrays with their lengths.
                unsafe { quire_device_compress(options.as_ptr(), null(), chunks, streams.as_mut_ptr(), reason) }
            })
        });
        spare(|| taken(outcome, &mut streams))
    }

    fn compress_to_device(&self, driver: &Driver, options: &CStr, addresses: &[u64], target: u64) -> Option<Vec<u8>> {
        let (mut offsets, mut lengths) = ([0; COUNT], [0; COUNT]);
        let capacity = capacity() as u64;
        self.at(addresses, |chunks| {
            outcome_of("chunks", |reason| {
                let (options, offsets, lengths) = (options.as_ptr(), offsets.as_mut_ptr(), lengths.as_mut_ptr());
                // SAFETY: arrays with their lengths.
                unsafe { quire_device_compress_to_device(options, null(), chunks, target, capacity, offsets, lengths, reason) }
            })
        })?;
        spare(|| {
            let mut streams = Vec::new();
            for (offset, length) in offsets.into_iter().zip(lengths) {
                streams.extend(length.to_le_bytes());
                streams.extend(driver.bytes(target + offset, length as usize));
            }
            Some(streams)
        })
    }

    /// The chunks' values, as they are in memory, of streams at addresses and with lengths.
    fn decompress(&self, driver: &Driver, streams: &(Vec<u64>, Vec<usize>), targets: &[u64]) -> Option<Vec<u8>> {
        let (places, lengths) = streams;
        let outcome = self.at(targets, |chunks| {
            outcome_of("chunks", |reason| {
                // SAFETY: arrays with their lengths.
                unsafe { quire_device_decompress(places.as_ptr().cast(), lengths.as_ptr(), chunks, reason) }
            })
        });
        spare(|| outcome.map(|()| targets.iter().flat_map(|&target| driver.bytes(target, BYTES_IN_MEMORY)).collect()))
    }

    /// Whether values as [`Chunks::decompress`] gives them are these, where the chunks have some.
    fn are_these(&self, found: &[u8], decoded: &[Vec<u8>]) -> bool {
        found.chunks(BYTES_IN_MEMORY).zip(decoded).zip(&self.counts).all(|((found, decoded), counts)| {
            let length = 4 * counts[1] as usize;
            (0..counts[0] as usize).all(|y| found[4 * ROW * y..][..length] == decoded[4 * 100 * y..][..length])
        })
    }
}

/// Bytes for all streams of a call, in the GPU's memory.
fn capacity() -> usize {
    COUNT * (CHUNK_BYTES + 32)
}

/// How a test is named, for a process that runs it alone.
macro_rules! in_this_file {
    ($name:literal) => {
        concat!("tests::low_memory::on_the_gpu::resident::", $name)
    };
}

#[test]
fn later_calls() {
    run_on_a_gpu(in_this_file!("many_later_calls"));
}

#[test]
#[ignore = "`later_calls` runs it in a process of its own"]
fn many_later_calls() {
    let driver = Driver::open();
    let in_use = || driver.in_use();
    let chunks = Chunks::new();
    let (addresses, targets) = (chunks.put(&driver), chunks.put(&driver));
    let packed = driver.put_bytes(&vec![0; capacity()]);
    // The kernels decide on chunks of the first; the host looks at those of the second and the last, and makes those of the third.
    for options in [c"abs=1e-3", c"rel=1e-4", c"psnr=60", c"lossless"] {
        let name = options.to_str().expect("ASCII");
        let (streams, decoded) = chunks.on_the_cpu(options);
        let compress = || chunks.compress(options, &addresses);
        assert!(split(&compress().expect("memory")) == streams, "{name}: other streams than the CPU's");
        let _ = refuse_each(&format!("{name} to the host"), &compress, &|_| (), &in_use);
        let to_device = || chunks.compress_to_device(&driver, options, &addresses, packed);
        assert!(split(&to_device().expect("memory")) == streams, "{name}: other streams than the CPU's");
        let _ = refuse_each(&format!("{name} to the GPU"), &to_device, &|_| (), &in_use);
        let lengths: Vec<usize> = streams.iter().map(Vec::len).collect();
        let on_host = streams.iter().map(|stream| stream.as_ptr() as u64).collect();
        let on_device = streams.iter().map(|stream| driver.put_bytes(stream)).collect();
        // Streams of other options are decoded alike.
        let ways = match options.to_bytes() {
            b"abs=1e-3" => 2,
            b"lossless" => 1,
            _ => 0,
        };
        for (from, places) in [("host", on_host), ("GPU", on_device)].into_iter().take(ways) {
            let places = (places, lengths.clone());
            let decompress = || chunks.decompress(&driver, &places, &targets);
            assert!(chunks.are_these(&decompress().expect("memory"), &decoded), "{name}: other values than the CPU's");
            let _ = refuse_each(&format!("{name} from the {from}"), &decompress, &|_| (), &in_use);
        }
    }
    if !driver.is_emulated() {
        many_short_chunks(&driver);
    }
    if let Some(library) = Hdf5::open() {
        boxes(&library, &driver, &in_use);
    }
    assert_eq!(statistics().contexts, 1);
}

/// As many chunks as it takes for tables of them to be long.
fn many_short_chunks(driver: &Driver) {
    const MANY: usize = 1100;
    const VALUES: usize = 16;
    let values = smooth(MANY * VALUES, 0.0);
    let there = driver.put(&values);
    let target = driver.put(&vec![0.0; values.len()]);
    let extents = [VALUES as u64];
    let at = |base: u64, body: &mut dyn FnMut(*const DeviceChunks)| {
        let addresses: Vec<u64> = spare(|| (0..MANY).map(|chunk| base + (4 * VALUES * chunk) as u64).collect());
        body(&DeviceChunks {
            value_type: F32,
            rank: 1,
            extents: extents.as_ptr(),
            count: MANY,
            addresses: addresses.as_ptr(),
            strides: null(),
            counts: null(),
            stream: null_mut(),
        });
        spare(|| drop(addresses));
    };
    let compress = || {
        let (mut streams, mut outcome) = (spare(|| (0..MANY).map(|_| Bytes::NONE).collect::<Vec<_>>()), None);
        at(there, &mut |chunks| {
            outcome = outcome_of("many chunks", |reason| {
                // SAFETY: arrays with their lengths.
                unsafe { quire_device_compress(c"abs=1e-3".as_ptr(), null(), chunks, streams.as_mut_ptr(), reason) }
            });
        });
        spare(|| {
            let taken = taken(outcome, &mut streams);
            drop(streams);
            taken
        })
    };
    let in_use = || driver.in_use();
    let mut failed = refuse_each("many short chunks to the host", &compress, &|_| (), &in_use);
    let streams = split(&compress().expect("memory"));
    let decompress = || {
        let places: Vec<*const c_void> = spare(|| streams.iter().map(|stream| stream.as_ptr().cast()).collect());
        let lengths: Vec<usize> = spare(|| streams.iter().map(Vec::len).collect());
        let mut outcome = None;
        at(target, &mut |chunks| {
            outcome = outcome_of("many chunks", |reason| {
                // SAFETY: arrays with their lengths.
                unsafe { quire_device_decompress(places.as_ptr(), lengths.as_ptr(), chunks, reason) }
            });
        });
        spare(|| {
            drop((places, lengths));
            outcome.map(|()| driver.bytes(target, 4 * values.len()))
        })
    };
    failed += refuse_each("many short chunks from the host", &decompress, &|_| (), &in_use);
    let found = driver.fetch(target, values.len());
    assert!(found.iter().zip(&values).all(|(found, value)| (found - value).abs() <= 1e-3), "values beyond the bound");
    assert!(failed > 0, "no refusal was noticed");
}
