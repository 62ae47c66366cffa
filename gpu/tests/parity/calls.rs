//! Calls: pinned memory that they borrow, warm ones that allocate nothing, threads that share the GPU, and GPUs that are not there.

use std::time::Instant;

use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Unverified, Workspace};
use quire_gpu::{Device, Error, device, statistics};

use crate::common::{CONTENTS, Content, chunk_of, layout};
use crate::machine::{gpu, is_small};
use crate::report::Report;
use crate::{compress, config, decompress, fetch};

/// Compresses a chunk from pinned memory.
fn compress_pinned(device: &'static Device, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let mut staging = device.staging(chunk.len()).expect("memory").expect("few are lent");
    let room = staging.room();
    room.bytes.copy_from_slice(chunk);
    fetch(device.compress(room.chunk(), layout, config).expect("the GPU compresses"))
}

/// Decompresses a stream into pinned memory.
fn decompress_pinned(device: &'static Device, stream: &[u8], len: usize) -> Result<Vec<u8>, Error> {
    let mut staging = device.staging(len).expect("memory").expect("few are lent");
    let stream = Unverified::read(stream).map_err(|_| Error::Refused)?;
    device.decompress(stream)?.finish(staging.room())?;
    Ok(staging.room().bytes.to_vec())
}

#[test]
fn pinned_chunks() {
    const BOUNDS: [ErrorBound; 5] = [
        ErrorBound::Lossless,
        ErrorBound::Absolute(1e-3),
        ErrorBound::Absolute(1e6),
        ErrorBound::Relative(1e-4),
        ErrorBound::Psnr(50.0),
    ];
    let Some(mut report) = Report::on_gpu() else { return };
    let shapes: [&[u64]; 3] = [&[7, 11, 13], &[5003], &[40, 50, 41]];
    for dims in &shapes[..if is_small() { 2 } else { 3 }] {
        for scalar in [Scalar::F32, Scalar::F64, Scalar::C64, Scalar::I16] {
            let layout = layout(scalar, ByteOrder::Little, dims);
            for content in CONTENTS {
                let chunk = chunk_of(content, &layout, 5);
                for bound in BOUNDS {
                    let config = Config::new(bound).expect("a bound");
                    if quire_codec::check_bound(&layout, &config).is_err() {
                        continue;
                    }
                    let what = format!("{content:?} {dims:?} {scalar:?} {bound:?}");
                    let expected = report.cpu_stream(&chunk, &layout, &config);
                    report.check(&what, &compress_pinned(report.device, &chunk, &layout, &config), &expected);
                    let restored = report.cpu_chunk(&expected, chunk.len());
                    if let Ok(found) = decompress_pinned(report.device, &expected, chunk.len()) {
                        report.check(&format!("{what} decompressed"), &found, &restored);
                    } else {
                        // Neither does the GPU decompress it into memory that is not pinned.
                        assert!(decompress(report.device, &expected, chunk.len()).is_err(), "{what}");
                    }
                }
            }
        }
    }
    report.finish("pinned chunks");
}

#[test]
fn stagings_are_lent_up_to_a_number_and_come_back() {
    let Some(device) = gpu() else { return };
    let lend = || device.staging(1000).expect("memory");
    for _ in 0..3 {
        let lent: Vec<_> = std::iter::from_fn(lend).take(100).collect();
        // Tests beside this one may have some.
        assert!((8..=16).contains(&lent.len()), "{}", lent.len());
    }
}

/// After the first call of a kind, a call opens nothing, allocates nothing on the device or pinned, and records nothing; and its bytes
/// stay the same.
#[test]
fn warm_calls_do_only_their_work() {
    let Some(device) = gpu() else { return };
    // Other tests of this process count as well: this one runs on a session of its own count only when it is alone.
    if std::env::var_os("QUIRE_ALONE").is_none() {
        let status = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "calls::warm_calls_do_only_their_work", "--nocapture"])
            .env("QUIRE_ALONE", "1")
            .status()
            .expect("runs");
        assert!(status.success());
        return;
    }
    let layouts = [layout(Scalar::F32, ByteOrder::Little, &[64, 64, 64]), layout(Scalar::F64, ByteOrder::Little, &[100, 50])];
    let chunks: Vec<Vec<u8>> = layouts.iter().map(|layout| chunk_of(Content::LandMask, layout, 1)).collect();
    let config = config(1e-3);
    let run = || -> Vec<Vec<u8>> {
        layouts
            .iter()
            .zip(&chunks)
            .map(|(layout, chunk)| {
                let stream = compress(device, chunk, layout, &config);
                decompress(device, &stream, chunk.len()).expect("decompresses");
                stream
            })
            .collect()
    };
    run();
    let streams = run();
    let warm = statistics();
    for _ in 0..200 {
        assert_eq!(run(), streams);
    }
    assert_eq!(statistics(), warm);
    assert_eq!(warm.contexts, 1);
    println!("800 warm calls: {warm:?} before and after");
}

#[test]
fn threads_share_the_device() {
    let Some(device) = gpu() else { return };
    const THREADS: usize = 12;
    let layout = layout(Scalar::F32, ByteOrder::Little, &[64, 64, 64]);
    let config = config(1e-3);
    let chunks: Vec<Vec<u8>> = (0..THREADS).map(|i| chunk_of(CONTENTS[i], &layout, i as u64)).collect();
    let expected: Vec<Vec<u8>> = chunks.iter().map(|chunk| compress(device, chunk, &layout, &config)).collect();
    let work = |i: usize, rounds: usize| {
        for _ in 0..rounds {
            assert_eq!(compress(device, &chunks[i], &layout, &config), expected[i]);
            if let Ok(found) = decompress(device, &expected[i], chunks[i].len()) {
                let mut restored = vec![0; found.len()];
                Workspace::default().decompress(&expected[i], &mut restored).expect("the CPU decompresses");
                assert_eq!(found, restored);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|i| _ = scope.spawn(move || work(i, 20))));
    // Speed: compressing alone, all threads against one after another.
    let rounds = 100;
    let compress_only = |i: usize| (0..rounds).for_each(|_| _ = compress(device, &chunks[i], &layout, &config));
    let clock = Instant::now();
    (0..THREADS).for_each(compress_only);
    let serial = clock.elapsed();
    let clock = Instant::now();
    std::thread::scope(|scope| (0..THREADS).for_each(|i| _ = scope.spawn(move || compress_only(i))));
    let together = clock.elapsed();
    println!("{THREADS} threads, {rounds} chunks each: one after another {serial:.1?}, together {together:.1?}");
}

#[test]
fn what_is_missing_is_named() {
    let reason = device(63).err().expect("there are no 64 GPUs").to_string();
    assert!(
        ["no GPU kernels", "no NVIDIA driver", "there is no GPU 63", "starting the NVIDIA driver"]
            .iter()
            .any(|text| reason.contains(text)),
        "{reason}"
    );
    let reason = device(64).err().expect("numbers end at 63").to_string();
    assert!(reason.contains("63"), "{reason}");
}
