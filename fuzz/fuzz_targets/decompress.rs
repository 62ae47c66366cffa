//! Any bytes: an error or a chunk of the right length, an error or a description, never a panic. `cargo +nightly fuzz run decompress`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quire_codec::stages::header::{HEADER_MIN_LEN, seal};
use quire_codec::stages::inspect::Description;
use quire_codec::{Header, Workspace};

/// Chunks above this are not decoded: a constant chunk of a few bytes may well stand for gigabytes.
const MAX_CHUNK: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    // Length and checksum are made right, or next to nothing would get past them.
    let mut stream = data.to_vec();
    if stream.len() >= HEADER_MIN_LEN {
        seal(&mut stream);
    }
    let _ = Description::of(&stream);
    let Ok(header) = Header::read_from(&stream) else { return };
    if header.layout.chunk_bytes() <= MAX_CHUNK {
        let mut chunk = vec![0; header.layout.chunk_bytes() as usize];
        let _ = Workspace::default().decompress(&stream, &mut chunk);
    }
});
