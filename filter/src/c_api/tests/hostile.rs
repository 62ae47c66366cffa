//! Batches, boxes and chunks of a GPU as a hostile caller gives them: each is an error that says what is wrong, and nothing is read or written.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use super::super::arrays::{
    ArrayBox, ResidentBox, quire_compress_batch, quire_decompress_batch, quire_h5_begin_write, quire_h5_read, quire_h5_write,
};
use super::super::device::{DeviceChunks, quire_device_compress, quire_device_compress_to_device, quire_device_decompress};
use super::super::*;
use crate::tests::low_memory::hdf5::{Dataset, Hdf5};
use crate::tests::low_memory::on_the_gpu::driver::Driver;
use crate::tests::low_memory::on_the_gpu::has_gpu;
use crate::tests::low_memory::processes::run;

const F32: u32 = 0;
const EXTENTS: [u64; 2] = [4, 8];
const BYTES: usize = 4 * 4 * 8;

/// Makes a call that is to be refused for this reason.
fn refused(status: c_int, said: &str, call: impl FnOnce(*mut Bytes) -> c_int) {
    let mut reason = Bytes::NONE;
    let found = call(&mut reason);
    let text = String::from_utf8_lossy(&reason.to_vec()).into_owned();
    // SAFETY: delivered by the call.
    unsafe { quire_free(&mut reason) };
    assert!(found == status && text.contains(said), "{found}: {text:?} is not {status} and does not say {said:?}");
}

/// A page that nobody can read, as the addresses of a GPU's memory are for the host.
fn unreadable() -> *mut c_void {
    // SAFETY: new memory, which nobody accesses.
    let page = unsafe { libc::mmap(null_mut(), 1 << 16, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    assert!(page != libc::MAP_FAILED);
    page
}

fn values() -> Vec<u8> {
    (0..32).flat_map(|index| ((index as f32 * 0.3).sin() * 10.0).to_le_bytes()).collect()
}

fn stream_of(extents: &[u64]) -> Vec<u8> {
    let (values, mut stream) = (values(), Bytes::NONE);
    // SAFETY: arrays with their lengths.
    let status = unsafe {
        let rank = extents.len() as u32;
        quire_compress(c"abs=1e-3".as_ptr(), F32, rank, extents.as_ptr(), null(), values.as_ptr().cast(), BYTES, &mut stream)
    };
    assert_eq!(status, OK);
    let bytes = stream.to_vec();
    // SAFETY: delivered by the call.
    unsafe { quire_free(&mut stream) };
    bytes
}

#[test]
fn memory_that_the_host_cannot_read_is_refused_by_every_function() {
    let (page, values, stream) = (unreadable(), values(), stream_of(&EXTENTS));
    let (mut array, extents, options) = (vec![0u8; BYTES], EXTENTS.as_ptr(), c"abs=1e-3".as_ptr());
    let mut layout = ArrayLayout { value_type: 0, rank: 0, extents: [0; MAX_RANK] };
    let bad = page.cast_const();
    let said = "which this process cannot read: for values in a GPU's memory there are quire_device_compress";
    // SAFETY: nothing of the page is accessed.
    unsafe {
        refused(INVALID, said, |result| quire_compress(options, F32, 2, extents, null(), bad, BYTES, result));
        refused(INVALID, said, |result| {
            quire_compress(options, F32, 2, bad.cast(), null(), values.as_ptr().cast(), BYTES, result)
        });
        refused(INVALID, said, |result| quire_compress(options, F32, 2, extents, bad, values.as_ptr().cast(), BYTES, result));
        refused(INVALID, said, |reason| quire_decompress(bad, stream.len(), array.as_mut_ptr().cast(), BYTES, reason));
        refused(INVALID, said, |reason| quire_decompress(stream.as_ptr().cast(), stream.len(), page, BYTES, reason));
        refused(INVALID, said, |reason| quire_read_layout(bad, 40, &mut layout, reason));
        refused(INVALID, said, |result| quire_describe(bad, 40, result));
        let mut streams = [Bytes::NONE, Bytes::NONE];
        let (good, mixed) = (values.as_ptr().cast(), [values.as_ptr().cast(), bad]);
        for (addresses, named) in
            [(mixed.as_ptr(), "chunk 1: values: there are to be"), (bad.cast(), "addresses of values: there are to be 16 bytes")]
        {
            let streams = streams.as_mut_ptr();
            refused(INVALID, named, |reason| {
                quire_compress_batch(options, F32, 2, extents, null(), 2, addresses, BYTES, 2, streams, reason)
            });
        }
        let addresses: [*const c_void; 2] = [good, good];
        refused(INVALID, "streams: there are to be", |reason| {
            quire_compress_batch(options, F32, 2, extents, null(), 2, addresses.as_ptr(), BYTES, 2, page.cast(), reason)
        });
        let (from, lengths, to) =
            ([stream.as_ptr().cast(), bad], [stream.len(); 2], [array.as_mut_ptr().cast(), page.byte_add(1 << 15)]);
        refused(INVALID, "which this process cannot read", |reason| {
            quire_decompress_batch(2, from.as_ptr(), lengths.as_ptr(), to.as_ptr(), BYTES, 2, reason)
        });
        libc::munmap(page, 1 << 16);
    }
}

#[test]
fn batches_that_make_no_sense_are_errors_and_leave_no_streams() {
    let (values, stream) = (values(), stream_of(&EXTENTS));
    let good: [*const c_void; 2] = [values.as_ptr().cast(), values.as_ptr().cast()];
    let compress = |options: &CStr, extents: &[u64], count: usize, length: usize, threads: u32, said: &str| {
        // Not what a call has written: it says that there are no streams, whatever fails.
        let mut streams = [const { Bytes { address: std::ptr::dangling_mut(), length: 7 } }; 2];
        refused(INVALID, said, |reason| {
            let (rank, streams) = (extents.len() as u32, streams.as_mut_ptr());
            // SAFETY: the arrays have two elements; calls with more are refused before they are looked at.
            unsafe {
                let (options, extents) = (options.as_ptr(), extents.as_ptr());
                quire_compress_batch(options, F32, rank, extents, null(), count, good.as_ptr(), length, threads, streams, reason)
            }
        });
        assert!(count > 2 || streams.iter().all(Bytes::is_none), "streams of a call that was refused: {said}");
    };
    compress(c"abs=-1", &EXTENTS, 2, BYTES, 1, "absolute error bound is -1");
    compress(c"abs=1", &[4, 0], 2, 0, 1, "hold no elements");
    compress(c"abs=1", &[u64::MAX, u64::MAX], 2, BYTES, 1, "18446744073709551615");
    compress(c"abs=1", &[1 << 32, 1 << 32], 2, 0, 1, "4294967296");
    compress(c"abs=1", &EXTENTS, 2, usize::MAX, 1, "the array has 18446744073709551615 bytes");
    compress(c"abs=1", &EXTENTS, 2, BYTES, u32::MAX, "threads is 4294967295");
    compress(c"abs=1", &EXTENTS, usize::MAX, BYTES, 1, "the length 18446744073709551615");
    compress(c"abs=1", &EXTENTS, 1 << 59, BYTES, 1, "the length 576460752303423488");

    let decompress = |stream: &[u8], targets: &[*mut c_void], length: usize, status: c_int, said: &str| {
        let (addresses, lengths) = (vec![stream.as_ptr().cast::<c_void>(); targets.len()], vec![stream.len(); targets.len()]);
        refused(status, said, |reason| {
            let (addresses, lengths, targets_at) = (addresses.as_ptr(), lengths.as_ptr(), targets.as_ptr());
            // SAFETY: arrays with their lengths.
            unsafe { quire_decompress_batch(targets.len(), addresses, lengths, targets_at, length, 2, reason) }
        });
    };
    let mut room = vec![0u8; 2 * BYTES];
    let (first, second): (*mut c_void, *mut c_void) = (room.as_mut_ptr().cast(), room[BYTES..].as_mut_ptr().cast());
    let inside: *mut c_void = room[4..].as_mut_ptr().cast();
    decompress(&stream, &[first, first], BYTES, INVALID, "the arrays of the chunks 0 and 1 share bytes");
    decompress(&stream, &[second, inside], BYTES, INVALID, "the arrays of the chunks 0 and 1 share bytes");
    decompress(&[], &[first, second], BYTES, DAMAGED, "chunk 0: stream is truncated");
    decompress(
        &stream,
        &[first, second],
        BYTES - 4,
        INVALID,
        "chunk 0: the stream holds an array of 128 bytes, there is room for 124",
    );
    decompress(&stream, &[null_mut(), second], BYTES, INVALID, "chunk 0: the address of the values is 0x0");
    decompress(&stream, &[first], usize::MAX, INVALID, "the length 18446744073709551615");
    // A stream within the array that it is to be decompressed to.
    let mut own = stream.clone();
    own.resize(stream.len() + BYTES, 0);
    let own_at: *mut c_void = own.as_mut_ptr().cast();
    refused(INVALID, "the stream of chunk 0 and the array of chunk 0 share bytes", |reason| {
        // SAFETY: arrays with their lengths.
        unsafe { quire_decompress_batch(1, &own_at.cast_const(), &stream.len(), &own_at, BYTES, 1, reason) }
    });
    refused(INVALID, "the stream and the values share bytes", |reason| {
        // SAFETY: arrays with their lengths.
        unsafe { quire_decompress(own_at.cast_const(), stream.len(), own_at, BYTES, reason) }
    });
    // SAFETY: nothing is looked at.
    let nothing = unsafe { quire_decompress_batch(0, null(), null(), null(), 0, 0, null_mut()) };
    assert_eq!(nothing, INVALID, "without an address for the reason there is no success");
}

/// A box of a dataset, as C gives it.
fn array_box(start: *const u64, count: *const u64, strides: *const i64, values: *mut c_void) -> ResidentBox {
    ResidentBox { values: ArrayBox { value_type: F32, rank: 2, start, count, strides, values }, stream: null_mut() }
}

#[test]
fn boxes_that_make_no_sense() {
    let said = run("c_api::tests::hostile::boxes_that_make_no_sense_are_errors");
    said.lines().filter(|line| line.contains("skipped")).for_each(|line| println!("{line}"));
}

#[test]
#[ignore = "`boxes_that_make_no_sense` runs it in a process of its own: other tests are about a process without HDF5"]
fn boxes_that_make_no_sense_are_errors() {
    let Some(library) = Hdf5::open() else { return };
    let dataset = Dataset::new(&library, &EXTENTS, &[2, 8], &[2, 3]);
    let kept: Vec<f32> = (0..32).map(|index| index as f32).collect();
    dataset.write(&kept);
    let mut array = vec![0f32; 32];
    let (page, values) = (unreadable(), array.as_mut_ptr().cast::<c_void>());
    let transfers = |array: &ResidentBox, said: &str, is_read: bool| {
        let (id, hdf5, array) = (dataset.id(), library.any_function(), (&raw const *array).cast());
        // SAFETY: what can be accessed of the box is there.
        unsafe {
            refused(INVALID, said, |reason| quire_h5_read(id, hdf5, array, 2, reason));
            if !is_read {
                refused(INVALID, said, |reason| quire_h5_write(id, hdf5, array, 2, reason));
                let mut transfer = std::ptr::dangling_mut::<super::arrays::ArrayTransfer>();
                refused(INVALID, said, |reason| quire_h5_begin_write(id, hdf5, array, 2, &mut transfer, reason));
                assert!(transfer.is_null());
            }
        }
    };
    let both = |array: &ResidentBox, said: &str| transfers(array, said, false);
    let (whole, none): (*const u64, *const u64) = (EXTENTS.as_ptr(), null());
    both(&array_box(none, none, null(), values), "the address of the count is 0x0");
    both(&array_box(none, whole, null(), null_mut()), "the address of the values is null");
    both(&array_box(none, whole, null(), page), "which this process cannot read");
    both(&array_box([u64::MAX, 0].as_ptr(), whole, null(), values), "from 18446744073709551615 on along axis 0");
    both(&array_box([1, 0].as_ptr(), whole, null(), values), "takes 4 values from 1 on along axis 0: the dataset has 4 there");
    both(&array_box(none, [u64::MAX, u64::MAX].as_ptr(), null(), values), "more than this machine can address");
    both(&array_box(none, [1 << 62, 8].as_ptr(), [32, 4].as_ptr(), values), "the dataset has 4 there");
    for strides in [[i64::MAX, 4], [i64::MIN, 4], [1 << 62, 1 << 62]] {
        both(&array_box(none, whole, strides.as_ptr(), values), "bytes are more than this machine can address");
    }
    both(&array_box(none, whole, [1 << 46, 4].as_ptr(), values), "which this process cannot read");
    both(&array_box(none, whole, [-(1i64 << 44), 4].as_ptr(), values), "the");
    for strides in [[0, 4], [16, 4], [32, 2], [32, 0]] {
        transfers(&array_box(none, whole, strides.as_ptr(), values), "the strides let values share bytes", true);
    }
    let many = [4; 33];
    let of_rank = |rank: u32| {
        let mut array = array_box(none, many.as_ptr(), null(), values);
        array.values.rank = rank;
        array
    };
    both(&of_rank(33), "rank is 33: a dataset has at most 32 axes");
    both(&of_rank(0), "the selection has 0 axes, the dataset has 2");
    both(&of_rank(1), "the selection has 1 axes, the dataset has 2");
    let mut unknown = array_box(none, whole, null(), values);
    unknown.values.value_type = 77;
    both(&unknown, "value type 77 is unknown");
    let hdf5 = library.any_function();
    let array = (&raw const *Box::leak(Box::new(array_box(none, whole, null(), values)))).cast();
    // SAFETY: a box whose values are there; HDF5 checks identifiers.
    unsafe {
        refused(INVALID, "the address of the box is null", |reason| quire_h5_read(dataset.id(), hdf5, null(), 0, reason));
        refused(HDF5, "HDF5 reports an error in H5Dget_create_plist", |reason| quire_h5_read(-1, hdf5, array, 0, reason));
        refused(HDF5, "HDF5 reports an error in", |reason| quire_h5_read(i64::MAX, hdf5, array, 0, reason));
        refused(INVALID, "threads is 1025", |reason| quire_h5_read(dataset.id(), hdf5, array, 1025, reason));
        refused(INVALID, "the address for what begins is null", |reason| {
            quire_h5_begin_write(dataset.id(), hdf5, array, 0, null_mut(), reason)
        });
        // No values are many.
        let empty = array_box(none, [0, 8].as_ptr(), null(), null_mut());
        let mut reason = Bytes::NONE;
        assert_eq!(quire_h5_write(dataset.id(), hdf5, (&raw const empty).cast(), 0, &mut reason), OK);
        quire_free(&mut reason);
        libc::munmap(page, 1 << 16);
    }
    assert!(
        dataset.read().iter().zip(&kept).all(|(found, kept)| (found - kept).abs() <= 1e-3),
        "a refused write has changed values"
    );
}

/// Chunks of a GPU, as C gives them.
fn chunks(extents: &[u64], addresses: &[u64], strides: *const i64, counts: *const u64) -> DeviceChunks {
    DeviceChunks {
        value_type: F32,
        rank: extents.len() as u32,
        extents: extents.as_ptr(),
        count: addresses.len(),
        addresses: addresses.as_ptr(),
        strides,
        counts,
        stream: null_mut(),
    }
}

#[test]
fn chunks_that_make_no_sense_are_errors_on_the_gpu() {
    if !has_gpu() {
        println!("skipped");
        return;
    }
    let driver = Driver::open();
    let there = driver.put_bytes(&[values(), values()].concat());
    let next = there + BYTES as u64;
    let target = driver.put_bytes(&vec![0; 2 * BYTES + 64]);
    let (stream, other) = (stream_of(&EXTENTS), stream_of(&[8, 4]));
    let options = c"abs=1e-3".as_ptr();
    let is_refused = |chunks: &DeviceChunks, said: &str| {
        let mut streams = [const { Bytes { address: std::ptr::dangling_mut(), length: 7 } }; 2];
        let (mut offsets, mut lengths) = ([0; 2], [0; 2]);
        // SAFETY: what can be accessed is there.
        unsafe {
            refused(INVALID, said, |reason| quire_device_compress(options, null(), chunks, streams.as_mut_ptr(), reason));
            assert!(chunks.count > 2 || streams[..chunks.count].iter().all(Bytes::is_none));
            refused(INVALID, said, |reason| {
                let (offsets, lengths) = (offsets.as_mut_ptr(), lengths.as_mut_ptr());
                quire_device_compress_to_device(options, null(), chunks, target, 2 * BYTES as u64, offsets, lengths, reason)
            });
            let (from, from_len) = ([stream.as_ptr().cast(); 2], [stream.len(); 2]);
            refused(INVALID, said, |reason| quire_device_decompress(from.as_ptr(), from_len.as_ptr(), chunks, reason));
        }
    };
    let page = unreadable();
    let both = [there, next];
    // The emulator's memory is the host's.
    if !driver.is_emulated() {
        refused(INVALID, "which this process cannot read: for values in a GPU's memory", |result| {
            let (extents, values) = (EXTENTS.as_ptr(), there as *const c_void);
            // SAFETY: nothing of the values is accessed.
            unsafe { quire_compress(options, F32, 2, extents, null(), values, BYTES, result) }
        });
    }
    is_refused(&chunks(&EXTENTS, &[there, page as u64], null(), null()), "the values of chunk 1 at");
    is_refused(&chunks(&EXTENTS, &[there, 0], null(), null()), "are not in a GPU's memory");
    is_refused(&chunks(&EXTENTS, &[there + 2], null(), null()), "must be a multiple of 4");
    is_refused(
        &chunks(&EXTENTS, &both, [33, 4].as_ptr(), null()),
        "strides are [33, 4] bytes: in a GPU's memory they must be multiples of 4",
    );
    for strides in [[i64::MAX & !3, 4], [i64::MIN, 4], [1 << 40, 4], [-(1 << 40), 4]] {
        is_refused(&chunks(&EXTENTS, &both, strides.as_ptr(), null()), "reach beyond the GPU's memory");
    }
    is_refused(&chunks(&[1 << 26, 8], &[there], null(), null()), "reach beyond the GPU's memory");
    is_refused(&chunks(&[4, 0], &[there], null(), null()), "hold no elements");
    is_refused(&chunks(&[u64::MAX, 8], &[there], null(), null()), "18446744073709551615");
    is_refused(&chunks(&[], &[there], null(), null()), "0 dimensions");
    is_refused(&chunks(&[1; 33], &[there], null(), null()), "rank is 33");
    is_refused(&chunks(&EXTENTS, &[there], null(), [4, 9].as_ptr()), "chunk 0 has [4, 9] values, its extents are [4, 8]");
    is_refused(&chunks(&EXTENTS, &[there], null(), [u64::MAX, 8].as_ptr()), "its extents are [4, 8]");
    let of = |change: fn(&mut DeviceChunks)| {
        let mut made = chunks(&EXTENTS, &both, null(), null());
        change(&mut made);
        made
    };
    is_refused(&of(|chunks| chunks.count = usize::MAX), "the length 18446744073709551615");
    is_refused(&of(|chunks| chunks.extents = null()), "the address of the extents is 0x0");
    is_refused(&of(|chunks| chunks.addresses = null()), "the address of the addresses is 0x0");
    is_refused(&of(|chunks| chunks.value_type = 12), "only single numbers are compressed there");
    is_refused(&of(|chunks| chunks.value_type = 99), "value type 99 is unknown");

    // Of one function alone.
    let good = chunks(&EXTENTS, &both, null(), null());
    let (mut offsets, mut lengths) = ([0u64; 4], [0u64; 2]);
    let mut to_device = |target: u64, capacity: u64, is_shared: bool, said: &str| {
        let (at, beside) = (offsets.as_mut_ptr(), lengths.as_mut_ptr());
        refused(INVALID, said, |reason| {
            // SAFETY: what can be accessed is there.
            unsafe {
                let lengths = if is_shared { at.add(1) } else { beside };
                quire_device_compress_to_device(options, null(), &good, target, capacity, at, lengths, reason)
            }
        });
    };
    to_device(target + 8, 64, false, "the address of the target is");
    to_device(target, u64::MAX, false, "is not in the memory of the GPU that has the values");
    to_device(target, 1 << 40, false, "is not in the memory of the GPU that has the values");
    to_device(next, BYTES as u64, false, "and the values of chunk 1 share bytes");
    to_device(target, 16, false, "there is room for 16");
    to_device(target, 2 * BYTES as u64, true, "offsets and lengths share bytes");
    let decompress = |chunks: &DeviceChunks, from: &[(u64, usize)], status: c_int, said: &str| {
        let (places, lengths): (Vec<u64>, Vec<usize>) = from.iter().copied().unzip();
        refused(status, said, |reason| {
            // SAFETY: what can be accessed is there.
            unsafe { quire_device_decompress(places.as_ptr().cast(), lengths.as_ptr(), chunks, reason) }
        });
    };
    let on_host = (stream.as_ptr() as u64, stream.len());
    let on_device = (driver.put_bytes(&stream), stream.len());
    for address in [there, there + 4] {
        let shared = [there, address];
        let chunks = chunks(&EXTENTS, &shared, null(), null());
        decompress(&chunks, &[on_host; 2], INVALID, "the arrays of the chunks 0 and 1 share bytes");
    }
    decompress(
        &chunks(&EXTENTS, &both, [0, 4].as_ptr(), null()),
        &[on_host; 2],
        INVALID,
        "the strides let values of chunk 0 share bytes",
    );
    for (address, length) in [on_host, on_device] {
        decompress(&good, &[on_host, (address, 0)], DAMAGED, "chunk 1: stream is truncated");
        decompress(&good, &[on_host, (address, length - 1)], DAMAGED, "chunk 1: stream is");
    }
    decompress(&good, &[on_host, (page as u64, 40)], INVALID, "chunk 1: stream: there are to be");
    for length in [1 << 40, usize::MAX] {
        decompress(&good, &[on_host, (on_device.0, length)], INVALID, "ends outside of the GPU's memory");
    }
    let bytes_of_another = (other.as_ptr() as u64, other.len());
    let of_f64 = {
        let mut made = chunks(&[2, 8], &both, null(), null());
        made.value_type = 1;
        made
    };
    decompress(&of_f64, &[on_host, bytes_of_another], INVALID, "chunk 0: the stream holds");
    // SAFETY: as mapped.
    unsafe { libc::munmap(page, 1 << 16) };
    // The GPU works as before. Some of its values were restored since, and their streams may have limits.
    let there = driver.put_bytes(&[values(), values()].concat());
    let good_ones = [there, there + BYTES as u64];
    let good = chunks(&EXTENTS, &good_ones, null(), null());
    let mut streams = [Bytes::NONE, Bytes::NONE];
    let mut reason = Bytes::NONE;
    // SAFETY: arrays with their lengths.
    unsafe {
        assert_eq!(quire_device_compress(options, null(), &good, streams.as_mut_ptr(), &mut reason), OK);
        quire_free(&mut reason);
        for bytes in &mut streams {
            assert!(bytes.to_vec() == stream, "other streams than the CPU's");
            quire_free(bytes);
        }
    }
}
