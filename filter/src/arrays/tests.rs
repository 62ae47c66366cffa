//! The number of threads, and chunks to a file and back through the threads, without HDF5: the thread sanitizer can look at that.

use std::fs::File;
use std::io::Write as _;

use quire_codec::{AdaptPolicy, ByteOrder, Config, ErrorBound, Layout, Scalar, Shape};

use super::crew::Crew;
use super::dataset::Facts;
use super::portions::InPortions;
use super::reading::{Reading, Source};
use super::strided::{Dense, Stores, Strided};
use super::threads_for;
use super::touched::TouchedChunks;
use super::writing::Writing;
use crate::h5api::chunks::Location;

const EXTENTS: [u64; 3] = [50, 41, 33];
const CHUNK: [u64; 3] = [16, 16, 16];
const BOUND: f64 = 1e-3;

fn facts(start: &[u64], count: &[u64]) -> Facts {
    let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&CHUNK).expect("a shape") };
    let touched = TouchedChunks::new(&EXTENTS, &CHUNK, start, count).expect("a box");
    let mut filling = [0; 16];
    filling[..4].copy_from_slice(&1.5f32.to_le_bytes());
    Facts { touched, layout, dense: Dense::new(&CHUNK, 4).expect("a chunk"), chunk: CHUNK.to_vec(), filling }
}

/// A box of values in C order.
fn strided(values: &mut [f32], count: &[u64]) -> Strided {
    let strides = Strided::in_c_order(count, 4).expect("an array");
    // SAFETY: as many values as the box has, which stay where they are until the crew is gone.
    unsafe { Strided::new(values.as_mut_ptr().cast(), 4, strides) }
}

fn run<W: InPortions>(crew: &mut Crew<W>, total: usize, mut store: impl FnMut(&[u8])) {
    while crew.drained() < total {
        let step = crew.step(
            |_, _, fetched| Ok(fetched.for_chunks(1).map(|_| ())?),
            |_, _, _, made| {
                made.0.iter().for_each(|stream| store(stream));
                Ok(())
            },
        );
        step.expect("no chunk fails");
        crew.wait(None);
    }
}

#[test]
fn an_array_goes_to_a_file_and_comes_back() {
    let total = EXTENTS.iter().product::<u64>() as usize;
    let mut values: Vec<f32> = (0..total).map(|at| (at as f32 * 0.01).sin()).collect();
    for threads in [1, 4] {
        let mut file = tempfile();
        let (mut locations, mut address) = (Vec::new(), 0);
        let whole = facts(&[0; 3], &EXTENTS);
        let chunks = whole.touched.count();
        let config = Config::new(ErrorBound::Absolute(BOUND)).expect("a bound");
        let writing = Writing { facts: whole, source: strided(&mut values, &EXTENTS), config };
        let mut crew = Crew::start(writing, chunks, threads).expect("memory");
        run(&mut crew, chunks, |stream| {
            file.write_all(stream).expect("room");
            locations.push(Some(Location { address, bytes: stream.len() as u64, mask: 0 }));
            address += stream.len() as u64;
        });
        drop(crew);

        // The last chunk is not in the file.
        *locations.last_mut().expect("chunks") = None;
        let mut found = vec![0f32; total];
        let source = Some(Source { file: file.try_clone().expect("a descriptor"), locations });
        let reading = Reading {
            facts: facts(&[0; 3], &EXTENTS),
            target: strided(&mut found, &EXTENTS),
            source,
            stores: Stores::PastCaches,
        };
        let mut crew = Crew::start(reading, chunks, threads).expect("memory");
        run(&mut crew, chunks, |_| ());
        drop(crew);
        for (at, (expected, found)) in values.iter().zip(&found).enumerate() {
            let (z, y, x) = (at / (41 * 33), at / 33 % 41, at % 33);
            let expected = if (z, y, x) >= (48, 32, 32) && y >= 32 && x >= 32 { 1.5 } else { f64::from(*expected) };
            assert!((f64::from(*found) - expected).abs() <= BOUND, "{z} {y} {x}: {found}, not {expected}");
        }
    }
}

/// A file that nobody else finds.
fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("quire-arrays-{}-{:?}", std::process::id(), std::thread::current().id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
    std::fs::remove_file(path).expect("our own file");
    file
}

#[test]
fn threads_are_no_more_than_chunks_and_one_where_chunks_depend_on_each_other() {
    let threads = |chunks, argument, config| threads_for(chunks, argument, config).expect("a number");
    assert_eq!((threads(100, 7, None), threads(3, 7, None), threads(0, 0, None)), (7, 3, 1));
    let config = Config::new(ErrorBound::Absolute(1.0)).expect("a bound");
    let history = Config { adapt: AdaptPolicy::History, ..config };
    assert_eq!((threads(100, 7, Some(&config)), threads(100, 7, Some(&history))), (7, 1));
    assert!(threads_for(1, 1025, None).expect_err("too many").to_string().starts_with("threads is 1025"));
}
