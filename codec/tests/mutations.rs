//! Streams of `streams/`, altered in a few places and given the right checksum: each is read or refused. None ends in a panic, and two workspaces, one of them
//! used for all streams before, say the same. A run has two million of them, other ones each day; `QUIRE_MUTATIONS=100000000` has that many, and
//! `QUIRE_CASE=123 cargo test -p quire-codec --test mutations` alters as one of them did.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use common::Random;
use common::cases::{cases_of, run_cases};
use common::sampling;
use quire_codec::stages::header::{HEADER_MIN_LEN, seal};
use quire_codec::{Header, Workspace};

const CASES: u64 = 2_000_000;
/// A stream of a longer chunk is left out: its decoding takes long.
const MOST_BYTES: u64 = 1 << 15;
/// A header that promises more is not decoded.
const MOST_PROMISED: u64 = 1 << 20;
/// One in this many is decoded again, by a fresh workspace.
const AGAIN: u64 = 16;

/// A stream and the bytes of its chunk.
struct Stream {
    bytes: Vec<u8>,
    chunk_len: usize,
}

fn streams() -> Vec<Stream> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../streams");
    let files =
        ["valid", "uncommon"].into_iter().flat_map(|name| std::fs::read_dir(folder.join(name)).expect("a folder of streams"));
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path| {
        let bytes = std::fs::read(path).expect("a stream");
        let chunk_bytes = Header::read_from(&bytes).expect("a valid stream").layout.chunk_bytes();
        (chunk_bytes <= MOST_BYTES).then_some(Stream { bytes, chunk_len: chunk_bytes as usize })
    };
    paths.into_iter().filter_map(read).collect()
}

/// An offset in a stream. Headers and indices are short, so half of the offsets are among the first bytes.
fn offset(random: &mut Random, len: usize) -> usize {
    let limit = if random.below(2) == 0 { len.min(80) } else { len };
    random.below(limit as u64) as usize
}

fn alter(random: &mut Random, stream: &mut Vec<u8>, other: &[u8]) {
    let at = offset(random, stream.len());
    let end = (at + 1 + random.below(8) as usize).min(stream.len());
    match random.below(10) {
        0..3 => stream[at] ^= 1 << random.below(8),
        3 | 4 => stream[at] = random.next() as u8,
        5 => stream[at..end].fill(if random.below(2) == 0 { 0 } else { 255 }),
        6 => {
            let from = offset(random, other.len());
            let count = (1 + random.below(64) as usize).min(stream.len() - at).min(other.len() - from);
            stream[at..at + count].copy_from_slice(&other[from..from + count]);
        }
        7 => stream.truncate(at.max(1)),
        8 => drop(stream.splice(at..at, std::iter::repeat_n(random.next() as u8, 4))),
        _ => drop(stream.drain(at..(at + 4).min(stream.len() - 1).max(at))),
    }
}

#[test]
fn altered_streams_are_read_or_refused() {
    let streams = streams();
    assert!(streams.len() > 100, "{} streams", streams.len());
    let read = AtomicU64::new(0);
    let count = cases_of("QUIRE_MUTATIONS", CASES);
    run_cases(sampling::seed().wrapping_mul(CASES), count, Workspace::default, |case, workspace| {
        let mut random = Random(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [one, other] = [(); 2].map(|()| &streams[random.below(streams.len() as u64) as usize]);
        let mut stream = one.bytes.clone();
        for _ in 0..1 + random.below(6) {
            alter(&mut random, &mut stream, &other.bytes);
        }
        if stream.len() >= HEADER_MIN_LEN && random.below(64) > 0 {
            seal(&mut stream);
        }
        // As long as the chunk was, or as the altered header promises.
        let promised = Header::read_from(&stream).map_or(0, |header| header.layout.chunk_bytes());
        let len = if promised <= MOST_PROMISED && random.below(4) > 0 { promised as usize } else { one.chunk_len };
        let mut chunk = vec![0xa5; len];
        let outcome = workspace.decompress(&stream, &mut chunk);
        read.fetch_add(u64::from(outcome.is_ok()), Ordering::Relaxed);
        if case.is_multiple_of(AGAIN) {
            let mut again = vec![0x5a; len];
            assert_eq!(outcome, Workspace::default().decompress(&stream, &mut again), "case {case}");
            assert!(outcome.is_err() || chunk == again, "case {case}: other values");
        }
        1
    });
    println!("{} of them were read", read.into_inner());
}
