//! Everything that is read is hostile: whatever the bytes, the answer is an error or a chunk of the right length, never a panic, and
//! nothing larger than the chunk is allocated. The checksum is made right again, so that damage reaches the parsers behind it. mutations.rs has random damage.

mod common;

use common::{CONTENTS, Content, check_config, check_round_trip, chunk, chunk_of, layout};
use quire_codec::stages::header::{HEADER_MIN_LEN, VERSION, seal};
use quire_codec::{ByteOrder, CodebookPolicy, CodingPolicy, Config, Error, Header, Layout, Scalar, Shape, Workspace};

fn streams(elements: u64) -> Vec<(Layout, Vec<u8>)> {
    let mut workspace = Workspace::default();
    let mut streams = Vec::new();
    for content in CONTENTS {
        for scalar in [Scalar::F32, Scalar::F64] {
            let layout = layout(scalar, ByteOrder::Little, &[elements / 8, 8]);
            let original = chunk_of(content, &layout, 2);
            for (coding, codebook) in [
                (CodingPolicy::Huffman, CodebookPolicy::Dictionary),
                (CodingPolicy::Huffman, CodebookPolicy::Custom),
                (CodingPolicy::Bitshuffle, CodebookPolicy::Auto),
            ] {
                let config = Config { coding, codebook, ..Config::absolute(1e-2).unwrap() };
                streams.push((layout, check_config(&mut workspace, &original, &layout, &config)));
            }
        }
    }
    streams
}

/// Makes the checksum right for altered bytes.
fn reseal(stream: &mut [u8]) {
    if stream.len() >= HEADER_MIN_LEN {
        seal(stream);
    }
}

fn decode(workspace: &mut Workspace, layout: &Layout, stream: &[u8]) -> Result<(), Error> {
    let mut chunk = vec![0; layout.chunk_bytes() as usize];
    workspace.decompress(stream, &mut chunk)
}

#[test]
fn any_flipped_bit_is_found() {
    let mut workspace = Workspace::default();
    for (layout, mut stream) in streams(80) {
        for bit in 0..8 * stream.len() {
            stream[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&mut workspace, &layout, &stream).is_err(), "bit {bit} of {layout:?}");
            stream[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn any_truncation_is_found() {
    let mut workspace = Workspace::default();
    for (layout, stream) in streams(800) {
        for len in 0..stream.len() {
            let mut short = stream[..len].to_vec();
            assert!(decode(&mut workspace, &layout, &short).is_err());
            reseal(&mut short);
            assert!(decode(&mut workspace, &layout, &short).is_err(), "{len} of {} bytes", stream.len());
            short.extend(&stream[..stream.len() - len]);
        }
        let mut long = stream.clone();
        long.push(0);
        reseal(&mut long);
        assert!(decode(&mut workspace, &layout, &long).is_err());
    }
}

#[test]
fn flips_behind_the_checksum_end_in_an_error_or_a_chunk() {
    let mut workspace = Workspace::default();
    let (mut refused, mut decoded) = (0, 0);
    for (layout, mut stream) in streams(80) {
        for bit in 0..8 * stream.len() {
            stream[bit / 8] ^= 1 << (bit % 8);
            reseal(&mut stream);
            match decode(&mut workspace, &layout, &stream) {
                Ok(()) => decoded += 1,
                Err(_) => refused += 1,
            }
            stream[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(refused > 1000 && decoded > 1000, "{refused} refused, {decoded} decoded: the test has lost its point");
}

#[test]
fn absurd_extents_do_not_allocate() {
    let layout = layout(Scalar::F32, ByteOrder::Little, &[800]);
    let original = chunk_of(Content::Smooth, &layout, 1);
    let stream = check_round_trip(&mut Workspace::default(), &original, &layout, 1e-2, CodebookPolicy::Auto);
    let header = Header::read_from(&stream).unwrap();
    assert!(header.coding.has_planes());
    for extent in [799, 801, 1 << 31, 1 << 32, 1 << 40, 1 << 48] {
        let other = Layout { shape: Shape::new(&[extent]).unwrap(), ..layout };
        let mut other_stream = Vec::new();
        Header { layout: other, ..header }.write_to(&mut other_stream).unwrap();
        other_stream.extend(&stream[header.encoded_len()..]);
        reseal(&mut other_stream);
        assert!(decode(&mut Workspace::default(), &layout, &other_stream).is_err());
        assert_eq!(Header::read_from(&other_stream).unwrap().layout.shape.elements(), extent);
    }
}

#[test]
fn other_versions_are_named() {
    let layout = layout(Scalar::F32, ByteOrder::Little, &[8]);
    let original = chunk_of(Content::Smooth, &layout, 1);
    let mut stream = check_round_trip(&mut Workspace::default(), &original, &layout, 1e-2, CodebookPolicy::Auto);
    stream[3] = 0x91;
    let error = decode(&mut Workspace::default(), &layout, &stream).unwrap_err();
    assert_eq!(error, Error::UnsupportedVersion { found: (1, 1), supported: VERSION });
    assert!(error.to_string().contains("1.1"));
    // The first bytes of a stream of version 0.5.
    stream[..6].copy_from_slice(b"QUIR\0\x05");
    let error = decode(&mut Workspace::default(), &layout, &stream).unwrap_err();
    assert_eq!(error, Error::UnsupportedVersion { found: (0, 5), supported: VERSION });
    assert!(error.to_string().ends_with("install H5Z-Quire 0.5 to read it"), "{error}");
}

#[test]
fn indices_of_a_list_ascend_within_the_chunk() {
    let layout = layout(Scalar::F32, ByteOrder::Little, &[50, 100]);
    // Whole numbers, so that none is an exception by chance.
    let mut numbers: Vec<f64> = (0..5000).map(|index| f64::from(index % 50)).collect();
    [7, 900, 4000].into_iter().for_each(|index: usize| numbers[index] = f64::NAN);
    let original = chunk(&numbers, &layout, 1);
    let stream = check_round_trip(&mut Workspace::default(), &original, &layout, 1e-2, CodebookPolicy::Auto);
    let list = Header::read_from(&stream).unwrap().encoded_len() + 12;
    assert_eq!(stream[list..list + 12], [7, 0, 0, 0, 132, 3, 0, 0, 160, 15, 0, 0]);
    for (indices, good) in [
        ([0u32, 1, 2], true),
        ([7, 8, 4999], true),
        ([7, 7, 4000], false),
        ([900, 7, 4000], false),
        ([7, 900, 5000], false),
        ([7, 900, u32::MAX], false),
    ] {
        let mut stream = stream.clone();
        stream[list..list + 12].copy_from_slice(indices.map(u32::to_le_bytes).as_flattened());
        reseal(&mut stream);
        let result = decode(&mut Workspace::default(), &layout, &stream);
        assert_eq!(result.is_ok(), good, "{indices:?}: {result:?}");
        assert!(good || result.unwrap_err().to_string().contains("list of exceptions"));
    }
}
