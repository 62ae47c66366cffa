//! The callbacks, called as C calls them. No HDF5 library is in this process: reports go to stderr, and everything else must work.

use super::*;
use crate::chunk_buffer::Allocation;
use quire_codec::{ByteOrder, Coding, Header, Scalar, Shape};

const READ: c_uint = H5Z_FLAG_REVERSE;
const WRITE: c_uint = 0;
const BOUND: f64 = 1e-3;
/// 1e-3, then 3 x 5 values of binary32.
const WORDS: [c_uint; 6] = [1, 3539053052, 1062232653, 0x5101_0002, 3, 5];
const CHUNK_BYTES: usize = 3 * 5 * 4;

fn heap() -> Heap {
    Heap::of_caller(std::ptr::null()).expect("malloc's")
}

/// A buffer as HDF5 has it.
struct CBuffer {
    address: *mut c_void,
    size: usize,
}

impl CBuffer {
    /// `bytes` at the start of a buffer of `size` bytes.
    fn new(bytes: &[u8], size: usize) -> Self {
        assert!(bytes.len() <= size);
        let mut allocation = Allocation::zeroed(size, heap()).expect("memory");
        allocation.bytes_mut().fill(0xa5);
        allocation.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        Self { address: allocation.into_raw(), size }
    }

    fn bytes(&self, length: usize) -> &[u8] {
        assert!(length <= self.size, "buf_size is less than what the filter returned");
        // SAFETY: `size` bytes are valid.
        unsafe { slice::from_raw_parts(self.address.cast(), length) }
    }

    fn filter(&mut self, flags: c_uint, words: &[c_uint], nbytes: usize) -> usize {
        // SAFETY: as C would call it.
        unsafe { filter(flags, words.len(), words.as_ptr(), nbytes, &mut self.size, &mut self.address) }
    }

    /// Calls the filter without its fence: the error is returned, and nothing is reported on stderr.
    fn try_filter(&mut self, flags: c_uint, words: &[c_uint], nbytes: usize) -> std::result::Result<usize, Failure> {
        let mut chunk = self.chunk(nbytes);
        match flags {
            READ => Ok(with_kept_buffers(|kept| decompress(words, &mut chunk, kept))?),
            _ => compress(words, &mut chunk),
        }
    }

    /// The first bytes as the filter has them.
    fn chunk(&mut self, nbytes: usize) -> ChunkBuffer<'_> {
        // SAFETY: as C would call it.
        unsafe { ChunkBuffer::from_raw(nbytes, &mut self.size, &mut self.address, heap()) }.expect("a chunk")
    }
}

impl Drop for CBuffer {
    fn drop(&mut self) {
        // SAFETY: HDF5 frees what the filter leaves, and nobody has freed it yet.
        unsafe { libc::free(self.address) };
    }
}

fn values() -> Vec<f32> {
    (0..15).map(|index| (index as f32 * 0.7).sin() * 100.0).collect()
}

fn chunk() -> Vec<u8> {
    values().iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn stream() -> Vec<u8> {
    let mut buffer = CBuffer::new(&chunk(), CHUNK_BYTES);
    let length = buffer.filter(WRITE, &WORDS, CHUNK_BYTES);
    assert_ne!(length, 0);
    buffer.bytes(length).to_vec()
}

fn assert_within_bound(decoded: &[u8]) {
    assert_eq!(decoded.len(), CHUNK_BYTES);
    for (value, decoded) in values().iter().zip(decoded.chunks_exact(4)) {
        let decoded = f32::from_le_bytes([decoded[0], decoded[1], decoded[2], decoded[3]]);
        assert!((f64::from(*value) - f64::from(decoded)).abs() <= BOUND, "{value} became {decoded}");
    }
}

fn assert_error(result: std::result::Result<usize, Failure>, reason: &str) {
    let text = result.expect_err("an error").to_string();
    assert!(text.contains(reason), "{text:?} does not say {reason:?}");
}

#[test]
fn every_buffer_size_gives_the_same_stream_and_the_chunk_again() {
    let expected = stream();
    for size in [CHUNK_BYTES, CHUNK_BYTES + 1, expected.len().max(CHUNK_BYTES), expected.len() + CHUNK_BYTES, 1 << 20] {
        let mut buffer = CBuffer::new(&chunk(), size);
        let before = buffer.address;
        let length = buffer.filter(WRITE, &WORDS, CHUNK_BYTES);
        assert_eq!(buffer.bytes(length), expected);
        if size >= expected.len() {
            assert_eq!((buffer.address, buffer.size), (before, size), "the buffer suffices and stays");
        }
    }
    for size in [expected.len(), expected.len().max(CHUNK_BYTES), expected.len() + CHUNK_BYTES, 1 << 20] {
        let mut buffer = CBuffer::new(&expected, size);
        let before = buffer.address;
        let length = buffer.filter(READ, &WORDS, expected.len());
        assert_within_bound(buffer.bytes(length));
        if size >= CHUNK_BYTES {
            assert_eq!((buffer.address, buffer.size), (before, size), "the buffer suffices and stays");
        }
    }
}

#[test]
fn a_stream_that_needs_more_room_than_there_is_is_decoded_into_a_new_buffer() {
    // The chunk is larger than any stream that a constant chunk could take.
    let words = [1, 3539053052, 1062232653, 0x5101_0102, 50, 50];
    let chunk = 1.5f64.to_le_bytes().repeat(2500);
    let mut buffer = CBuffer::new(&chunk, chunk.len());
    let length = buffer.filter(WRITE, &words, chunk.len());
    let mut buffer = CBuffer::new(buffer.bytes(length), length);
    let decoded = buffer.filter(READ, &words, length);
    assert_eq!(buffer.bytes(decoded), chunk);
}

#[test]
fn a_stream_is_read_whatever_the_cd_values_say_of_the_encoder() {
    let stream = stream();
    for words in [&[][..], &[2, 3], &[77, 1, 2], &[1], &[0; 300], &[1, 3539053052, 1062232653, 0x5101_0001, 15]] {
        let mut buffer = CBuffer::new(&stream, stream.len());
        let length = buffer.filter(READ, words, stream.len());
        assert_within_bound(buffer.bytes(length));
    }
}

#[test]
fn a_stream_of_another_layout_is_refused() {
    let stream = stream();
    for description in [
        [0x5101_0001, 14],   // fewer values
        [0x5101_8001, 15],   // other byte order
        [0x5101_0101, 15],   // other type
        [0x5101_0101, 1000], // more values
    ] {
        let words = [&WORDS[..3], &description].concat();
        let mut buffer = CBuffer::new(&stream, 1 << 14);
        assert_error(
            buffer.try_filter(READ, &words, stream.len()),
            "stream holds 60 bytes of F32 Little endian, the dataset's chunks are",
        );
        assert_eq!(buffer.bytes(stream.len()), stream, "a failed filter leaves the data");
    }
}

#[test]
fn a_truncated_stream_is_refused_at_every_length() {
    let stream = stream();
    for size in [stream.len(), stream.len() + CHUNK_BYTES] {
        for length in 0..stream.len() {
            let mut buffer = CBuffer::new(&stream, size);
            assert!(buffer.try_filter(READ, &WORDS, length).is_err(), "{length} bytes");
            assert_eq!(buffer.bytes(stream.len()), stream, "a failed filter leaves the data");
        }
    }
}

#[test]
fn a_stream_with_any_bit_flipped_is_refused() {
    let stream = stream();
    for size in [stream.len(), stream.len() + CHUNK_BYTES] {
        for bit in 0..8 * stream.len() {
            let mut damaged = stream.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut buffer = CBuffer::new(&damaged, size);
            assert!(buffer.try_filter(READ, &WORDS, damaged.len()).is_err(), "bit {bit}");
            assert_eq!(buffer.bytes(damaged.len()), damaged, "a failed filter leaves the data");
        }
    }
}

#[test]
fn garbage_of_every_length_is_refused() {
    let stream = stream();
    let mut state = 1u64;
    for length in 0..300 {
        for valid in [0, 12, 24, 40] {
            let mut garbage: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 56) as u8
                })
                .collect();
            let valid = length.min(valid);
            garbage[..valid].copy_from_slice(&stream[..valid]);
            for words in [&WORDS[..], &WORDS[..3]] {
                assert!(
                    CBuffer::new(&garbage, 512).try_filter(READ, words, length).is_err(),
                    "{length} bytes, {valid} of them valid"
                );
            }
        }
    }
}

#[test]
fn absurd_extents_are_refused_without_memory() {
    let mut stream = Vec::new();
    let layout = Layout { scalar: Scalar::F64, byte_order: ByteOrder::Little, shape: Shape::new(&[1 << 48]).expect("a shape") };
    Header { coding: Coding::Constant, layout }.write_to(&mut stream).expect("memory");
    let mut buffer = CBuffer::new(&stream, stream.len());
    assert_error(buffer.try_filter(READ, &WORDS, stream.len()), "stream holds 2251799813685248 bytes of F64");
    // Without a layout to compare with, the checksum comes first.
    assert_error(buffer.try_filter(READ, &[2, 3], stream.len()), "in its checksum: header says");
    quire_codec::stages::header::seal(&mut stream);
    let mut buffer = CBuffer::new(&stream, stream.len());
    assert_error(buffer.try_filter(READ, &[2, 3], stream.len()), "no memory for 2251799813685248 bytes");
}

#[test]
fn a_chunk_that_does_not_fit_its_layout_is_refused_with_the_numbers() {
    for length in [0, 1, CHUNK_BYTES - 4, CHUNK_BYTES - 1, CHUNK_BYTES + 1, CHUNK_BYTES + 4] {
        let mut buffer = CBuffer::new(&[], 100);
        assert_error(
            buffer.try_filter(WRITE, &WORDS, length),
            &format!("chunk has {length} bytes, but 60 are expected ([3, 5] values of F32)"),
        );
        assert_eq!(buffer.filter(WRITE, &WORDS, length), 0);
    }
}

#[test]
fn writing_needs_completed_cd_values() {
    let mut buffer = CBuffer::new(&chunk(), CHUNK_BYTES);
    assert_error(buffer.try_filter(WRITE, &[2, 3], CHUNK_BYTES), "cd_values [2, 3] lack the chunk's layout");
    assert_error(buffer.try_filter(WRITE, &[], CHUNK_BYTES), "no error bound is given");
    assert_eq!(buffer.filter(WRITE, &[9], CHUNK_BYTES), 0);
    assert_eq!(buffer.bytes(CHUNK_BYTES), chunk(), "a failed filter leaves the data");
}

#[test]
fn null_pointers_are_refused() {
    use std::ptr::null_mut;
    let mut buffer = CBuffer::new(&chunk(), CHUNK_BYTES);
    let (mut no_chunk, mut size) = (null_mut(), 0);
    for flags in [READ, WRITE] {
        // SAFETY: null is what the filter must cope with.
        unsafe {
            assert_eq!(filter(flags, 6, std::ptr::null(), CHUNK_BYTES, &mut buffer.size, &mut buffer.address), 0);
            assert_eq!(filter(flags, 6, WORDS.as_ptr(), CHUNK_BYTES, null_mut(), &mut buffer.address), 0);
            assert_eq!(filter(flags, 6, WORDS.as_ptr(), CHUNK_BYTES, &mut buffer.size, null_mut()), 0);
            assert_eq!(filter(flags, 6, WORDS.as_ptr(), 0, &mut size, &mut no_chunk), 0);
            assert_eq!(filter(flags, 6, WORDS.as_ptr(), usize::MAX, &mut buffer.size, &mut buffer.address), 0);
        }
    }
    assert_eq!(buffer.bytes(CHUNK_BYTES), chunk());
}

#[test]
fn threads_and_nested_calls_share_nothing() {
    let expected = stream();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(stream(), expected);
                    // A filter called while this thread is inside another one finds the buffers lent, and takes new ones.
                    assert_eq!(with_kept_buffers(|_| Result::Ok(stream())), Ok(expected.clone()));
                }
            });
        }
    });
}

#[test]
fn a_panic_becomes_a_failure() {
    assert_eq!(fence(Callback::Filter, std::ptr::null(), 7, || panic!("a test of the fence")), 7);
    assert_eq!(fence(Callback::SetLocal, std::ptr::null(), -1, || panic!("a test of the fence, number {}", 2)), -1);
    assert_eq!(fence(Callback::Filter, std::ptr::null(), 0, || Ok(5)), 5);
}

#[test]
fn set_local_fails_where_there_is_no_hdf5() {
    assert_eq!(set_local(-1, -1, -1), -1);
    assert_eq!(can_apply(-1, -1, -1), 1);
}

fn pipeline(filters: &[c_int], is_optional: bool) -> Vec<ListedFilter> {
    filters.iter().map(|&id| ListedFilter { id, is_optional }).collect()
}

#[test]
fn only_the_first_place_in_the_pipeline_is_accepted() {
    assert_eq!(check_pipeline(&pipeline(&[FILTER_ID], false)), Ok(()));
    for filters in [&[2, FILTER_ID][..], &[3, FILTER_ID], &[], &[1]] {
        let text = check_pipeline(&pipeline(filters, true)).expect_err("refused").to_string();
        assert!(text.contains(&format!("{filters:?}")) && text.contains("must be the first"), "{text}");
    }
}

#[test]
fn filters_behind_it_must_keep_all_bytes() {
    for is_optional in [false, true] {
        for filters in [&[FILTER_ID, 3][..], &[FILTER_ID, 2, 1, 3], &[FILTER_ID, 307], &[FILTER_ID, 32004], &[FILTER_ID, 32015]] {
            assert_eq!(check_pipeline(&pipeline(filters, is_optional)), Ok(()), "{filters:?}");
        }
        // Szip, n-bit, scale-offset, bitshuffle, ZFP, SZ, Blosc2, SZ3, SPERR, and one that nobody knows.
        for id in [4, 5, 6, 32008, 32013, 32017, 32026, 32024, 32028, 40000] {
            for filters in [&[FILTER_ID, id][..], &[FILTER_ID, 1, id]] {
                let text = check_pipeline(&pipeline(filters, is_optional)).expect_err("refused").to_string();
                assert!(text.contains(&format!("{filters:?}")) && text.contains(&format!("{id} is not known to keep")), "{text}");
            }
        }
        let text = check_pipeline(&pipeline(&[FILTER_ID, 1, FILTER_ID], is_optional)).expect_err("refused").to_string();
        assert!(text.contains("set it once"), "{text}");
    }
    for id in [32000, 32001] {
        assert_eq!(check_pipeline(&pipeline(&[FILTER_ID, id], true)), Ok(()));
        let text = check_pipeline(&pipeline(&[FILTER_ID, id], false)).expect_err("refused").to_string();
        assert!(text.contains(&format!("{id} is mandatory")) && text.contains("make it optional"), "{text}");
    }
}

#[test]
fn a_stored_chunk_is_a_stream() {
    // The buffer has no room beside the data, room for the header, more than that.
    for (scalar, spare) in [(Scalar::F32, 0), (Scalar::F32, 100), (Scalar::I64, 13), (Scalar::C64, 0), (Scalar::C128, 200)] {
        let layout = Layout { scalar, byte_order: ByteOrder::Big, shape: Shape::new(&[4, 5]).expect("a shape") };
        let values: Vec<u8> = (0..layout.chunk_bytes()).map(|index| (index * 37 % 251) as u8).collect();
        let mut buffer = CBuffer::new(&values, values.len() + spare);
        let length = {
            let mut chunk = buffer.chunk(values.len());
            store(&mut chunk, &layout).expect("memory");
            chunk.bytes().len()
        };
        let (mut workspace, mut decoded) = (quire_codec::Workspace::default(), vec![0; values.len()]);
        workspace.decompress(buffer.bytes(length), &mut decoded).expect("a stream");
        assert_eq!(decoded, values, "{scalar:?}");
        let stream = Unverified::read(buffer.bytes(length)).expect("a stream");
        assert_eq!(stream.header(), &Header { coding: Coding::Stored, layout });
    }
}

#[test]
fn whatever_fails_in_compressing_leaves_a_chunk_that_is_stored() {
    let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[3, 5]).expect("a shape") };
    let bodies: [fn(&mut ChunkBuffer<'_>) -> Result<usize>; 3] = [
        |_| Err(Error::invalid("QUIRE_BACKEND=cuda, but a test has no GPU")),
        |_| Err(Error::OutOfMemory { bytes: 9 }),
        |_| panic!("a test of a bug"),
    ];
    for body in bodies {
        let mut buffer = CBuffer::new(&chunk(), CHUNK_BYTES);
        let length = or_store(&mut buffer.chunk(CHUNK_BYTES), &layout, body).expect("stored");
        let stream = Unverified::read(buffer.bytes(length)).expect("a stream");
        assert_eq!(stream.header(), &Header { coding: Coding::Stored, layout });
        let length = buffer.filter(READ, &WORDS, length);
        assert_eq!(buffer.bytes(length), chunk());
    }
    let mut buffer = CBuffer::new(&chunk(), CHUNK_BYTES);
    let length = or_store(&mut buffer.chunk(CHUNK_BYTES), &layout, |chunk| chunk.replace_with(&stream())).expect("compressed");
    assert_eq!(buffer.bytes(length), stream());
}
