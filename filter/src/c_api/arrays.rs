//! Many chunks at once, and boxes of datasets, as C functions.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::slice;
use std::time::Duration;

use hdf5_sys::h5i::hid_t;
use quire_codec::{Error, memory};

use super::{Bytes, MOST_EXTENTS, OK, Reason, check_address, deliver, quire_free, slice_from_raw, task_from_raw, value_type_of};
use crate::arrays::batch;
use crate::arrays::crew::Fault;
use crate::arrays::dataset::{Direction, Selection};
use crate::arrays::stored;
use crate::arrays::strided::Strided;
use crate::arrays::transfer::{Broken, Progress, Transfer};
use crate::backend::{self, resident};
use crate::fence::{Buffers, Failure, contain, try_box};
use crate::h5api::Library;

/// `quire_box`: a box of a dataset, and where its values are in memory.
#[repr(C)]
#[derive(Debug)]
pub struct ArrayBox {
    pub(crate) value_type: u32,
    pub(crate) rank: u32,
    pub(crate) start: *const u64,
    pub(crate) count: *const u64,
    pub(crate) strides: *const i64,
    pub(crate) values: *mut c_void,
}

/// `quire_box` with its last field, which programs that were built before it do not have: it is looked at where the values are in a GPU's memory.
#[repr(C)]
pub(crate) struct ResidentBox {
    pub(crate) values: ArrayBox,
    pub(crate) stream: *mut c_void,
}

/// `quire_transfer`: a write or a read on its way.
pub struct ArrayTransfer(Transfer);

/// Addresses that the caller vouches for, for the threads of a batch: of arrays with an element a chunk.
struct ByChunk<T>(*const T);

// SAFETY: the addresses lead to what the caller vouches for until the batch has ended, and each chunk is one thread's.
unsafe impl<T> Send for ByChunk<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ByChunk<T> {}

impl<T: Copy> ByChunk<T> {
    /// # Safety
    /// `address` is null or leads to `count` elements that stay as they are as long as this lives.
    unsafe fn new(address: *const T, count: usize, what: &str) -> Result<Self, Failure> {
        if count > 0 {
            check_address(address, count, what)?;
        }
        Ok(Self(address))
    }

    /// # Safety
    /// There are more chunks than `chunk`.
    unsafe fn of(&self, chunk: usize) -> T {
        // SAFETY: the promises of `new` and of the caller.
        unsafe { self.0.add(chunk).read() }
    }
}

/// Compresses chunks that have one layout.
///
/// # Safety
/// `options` is null or a string; `extents` holds `rank` numbers; `fill_value` is null or holds a value of the type; `values` holds `count` addresses of
/// `length` bytes each; `streams` has room for `count` results; `reason` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_compress_batch(
    options: *const c_char,
    value_type: u32,
    rank: u32,
    extents: *const u64,
    fill_value: *const c_void,
    count: usize,
    values: *const *const c_void,
    length: usize,
    threads: u32,
    streams: *mut Bytes,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        unsafe { clear(streams, count)? };
        // SAFETY: the caller's promise.
        let (layout, config) =
            unsafe { task_from_raw(options, value_type, rank, extents, fill_value, length).map_err(Failure::from)? };
        // SAFETY: the caller's promise.
        let values = unsafe { ByChunk::new(values, count, "addresses of values")? };
        let targets = ByChunk(streams.cast_const());
        let outcome =
            batch::run(count, length, threads, Some(&config), move |chunk, Buffers { workspace, stream, history, .. }| {
                // Whole, not field by field: the fields alone cannot be sent.
                let (values, targets) = (&values, &targets);
                // SAFETY: the caller's promise.
                let values = unsafe { slice_from_raw(values.of(chunk).cast(), length, "values")? };
                let made =
                    Bytes::copy_of(backend::compress(values.into(), &layout, &config, workspace, stream, history)?.bytes())?;
                // SAFETY: the caller's promise, and the chunk is this thread's.
                unsafe { targets.0.cast_mut().add(chunk).write(made) };
                Ok(())
            });
        if outcome.is_err() {
            for chunk in 0..count {
                // SAFETY: as written above, or by a thread that has ended.
                unsafe { quire_free(streams.add(chunk)) };
            }
        }
        outcome
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Decompresses streams into arrays of one length.
///
/// # Safety
/// `streams` holds `count` addresses, `stream_lengths` the bytes of each; `values` holds `count` addresses of `length` bytes each that nobody else uses
/// meanwhile; `reason` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_decompress_batch(
    count: usize,
    streams: *const *const c_void,
    stream_lengths: *const usize,
    values: *const *mut c_void,
    length: usize,
    threads: u32,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        let (streams, lengths, values) = unsafe {
            (
                ByChunk::new(streams, count, "addresses of streams")?,
                ByChunk::new(stream_lengths, count, "lengths of streams")?,
                ByChunk::new(values, count, "addresses of values")?,
            )
        };
        // SAFETY: there are as many addresses and lengths as chunks.
        let (arrays, of_streams) = unsafe {
            (
                (0..count).map(|chunk| values.of(chunk) as u64),
                (0..count).map(|chunk| (streams.of(chunk) as u64, lengths.of(chunk))),
            )
        };
        batch::check_apart(arrays, length, of_streams)?;
        batch::run(count, length, threads, None, move |chunk, kept| {
            let (streams, lengths, values) = (&streams, &lengths, &values);
            // SAFETY: the caller's promise.
            let (stream, values) =
                unsafe { (slice_from_raw(streams.of(chunk).cast(), lengths.of(chunk), "stream")?, values.of(chunk)) };
            check_address(values.cast_const(), length, "values")?;
            // SAFETY: not null, of a possible length, and the caller vouches for the bytes, of which a decoder reads none that it has not written.
            let values = unsafe { slice::from_raw_parts_mut(values.cast(), length) };
            Ok(batch::decompress(stream, values, kept)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Writes a box of a dataset.
///
/// # Safety
/// As [`quire_h5_begin_write`], but that the values are used until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_h5_write(
    dataset: hid_t,
    hdf5: *const c_void,
    values: *const ArrayBox,
    threads: u32,
    reason: *mut Bytes,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { transfer_at_once(dataset, hdf5, values, threads, Direction::Write, reason) }
}

/// Reads a box of a dataset.
///
/// # Safety
/// As [`quire_h5_begin_read`], but that the values are used until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_h5_read(
    dataset: hid_t,
    hdf5: *const c_void,
    values: *const ArrayBox,
    threads: u32,
    reason: *mut Bytes,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { transfer_at_once(dataset, hdf5, values, threads, Direction::Read, reason) }
}

/// Begins a transfer and takes it to its end.
///
/// # Safety
/// `hdf5` is null or an address; `values` is null or leads to a box; `reason` is null or can be written. Until this returns, the box's memory is valid. During
/// a write, nobody changes its values; during a read, nobody else uses them.
unsafe fn transfer_at_once(
    dataset: hid_t,
    hdf5: *const c_void,
    values: *const ArrayBox,
    threads: u32,
    direction: Direction,
    reason: *mut Bytes,
) -> c_int {
    // SAFETY: the caller's promise.
    let body = || unsafe { begin(dataset, hdf5, values, threads, direction) }?.finish();
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Says which chunks a dataset has in its file.
///
/// # Safety
/// `hdf5` is null or an address; `offsets` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_h5_chunk_offsets(dataset: hid_t, hdf5: *const c_void, offsets: *mut Bytes) -> c_int {
    let body = || -> Result<Bytes, Failure> {
        let found = stored::offsets(&Library::with_function(hdf5)?, dataset)?;
        let mut bytes = Vec::new();
        for first in found.iter().flatten() {
            memory::extend(&mut bytes, &first.to_ne_bytes())?;
        }
        Ok(Bytes::copy_of(&bytes)?)
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(offsets, contain(body)) }
}

/// Begins to write a box of a dataset.
///
/// # Safety
/// `hdf5` is null or an address; `values` is null or leads to a box; `transfer` and `reason` are null or can be written. The box's values stay as they are
/// until [`quire_transfer_end`]. If they are in a GPU's memory, the box's stream is one of that GPU's primary context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_h5_begin_write(
    dataset: hid_t,
    hdf5: *const c_void,
    values: *const ArrayBox,
    threads: u32,
    transfer: *mut *mut ArrayTransfer,
    reason: *mut Bytes,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { hand_over(transfer, reason, || begin(dataset, hdf5, values, threads, Direction::Write).map(ArrayTransfer)) }
}

/// Begins to read a box of a dataset.
///
/// # Safety
/// As [`quire_h5_begin_write`], and nobody else uses the values until [`quire_transfer_end`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_h5_begin_read(
    dataset: hid_t,
    hdf5: *const c_void,
    values: *const ArrayBox,
    threads: u32,
    transfer: *mut *mut ArrayTransfer,
    reason: *mut Bytes,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { hand_over(transfer, reason, || begin(dataset, hdf5, values, threads, Direction::Read).map(ArrayTransfer)) }
}

/// Does what HDF5 has to do now for a transfer, without waiting.
///
/// # Safety
/// `transfer` is null or from one of the functions that begin one, and is used by nobody else meanwhile; the other addresses are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_transfer_step(
    transfer: *mut ArrayTransfer,
    done: *mut u64,
    total: *mut u64,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<(), Broken> {
        // SAFETY: the caller's promise.
        let (transfer, done, total) = unsafe { (transfer.as_mut(), done.as_mut(), total.as_mut()) };
        let transfer = transfer.ok_or_else(|| Failure::from(Error::invalid("the address of the transfer is null")))?;
        let outcome = transfer.0.step();
        let Progress { done: chunks_done, total: chunks } = transfer.0.progress();
        if let Some(done) = done {
            *done = chunks_done as u64;
        }
        if let Some(total) = total {
            *total = chunks as u64;
        }
        outcome.map(|_| ())
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Waits until a step has something to do, at most for this number of milliseconds. Calls no HDF5 function.
///
/// # Safety
/// `transfer` is null or from one of the functions that begin one, and is used by nobody else meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_transfer_wait(transfer: *mut ArrayTransfer, milliseconds: u32) {
    // SAFETY: the caller's promise.
    if let Some(transfer) = unsafe { transfer.as_mut() } {
        // A panic in a chunk is that chunk's failure; there is none besides.
        let _ = contain(|| {
            transfer.0.wait(Some(Duration::from_millis(milliseconds.into())));
            Ok::<_, Failure>(())
        });
    }
}

/// Ends a transfer, whether it is done or not: waits for the threads, frees it, and leaves null there. Calls no HDF5 function.
///
/// # Safety
/// `transfer` is null or leads to null or to what one of the functions that begin a transfer has written, which is used by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_transfer_end(transfer: *mut *mut ArrayTransfer) {
    // SAFETY: the caller's promise.
    unsafe { release(transfer) };
}

/// Frees what [`hand_over`] has handed over, and leaves null there.
///
/// # Safety
/// `handle` is null or leads to null or to what `hand_over` has written, which is used by nobody else.
pub(super) unsafe fn release<T>(handle: *mut *mut T) {
    // SAFETY: the caller's promise.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return };
    let address = std::mem::replace(handle, null_mut());
    if !address.is_null() {
        // SAFETY: from `hand_over`, by the caller's promise, and nobody finds it any more.
        let value = unsafe { Box::from_raw(address) };
        let _ = contain(|| {
            drop(value);
            Ok::<_, Failure>(())
        });
    }
}

impl Reason for Fault {
    fn failure(&self) -> &Failure {
        &self.failure
    }
}

impl Reason for Broken {
    fn failure(&self) -> &Failure {
        &self.failure
    }
}

/// Notes that no streams are delivered yet, so that a caller may free them whatever comes.
///
/// # Safety
/// `streams` has room for `count` streams; what is there need not be initialized.
pub(super) unsafe fn clear(streams: *mut Bytes, count: usize) -> Result<(), Failure> {
    if count > 0 {
        check_address(streams, count, "streams")?;
    }
    for chunk in 0..count {
        // SAFETY: the caller's promise.
        unsafe { streams.add(chunk).write(Bytes::NONE) };
    }
    Ok(())
}

/// Runs the body of a call that delivers nothing but a reason.
pub(super) fn ended<E: From<Failure>>(body: impl FnOnce() -> Result<(), E>) -> Result<Bytes, E> {
    let outcome = contain(|| Ok::<_, Failure>(body()));
    outcome.unwrap_or_else(|failure| Err(failure.into()))?;
    Bytes::copy_of(&[]).map_err(|error| Failure::from(error).into())
}

/// Runs a body that begins something, and hands that over; null where there is none.
///
/// # Safety
/// `target` and `reason` are null or can be written.
pub(super) unsafe fn hand_over<T>(target: *mut *mut T, reason: *mut Bytes, body: impl FnOnce() -> Result<T, Failure>) -> c_int {
    let outcome = contain(|| -> Result<_, Failure> {
        if target.is_null() {
            return Err(Error::invalid("the address for what begins is null").into());
        }
        Ok((try_box(body()?)?, Bytes::copy_of(&[])?))
    });
    let (begun, outcome) = match outcome {
        Ok((begun, bytes)) => (Box::into_raw(begun), Ok(bytes)),
        Err(failure) => (null_mut(), Err(failure)),
    };
    if !target.is_null() {
        // SAFETY: the caller's promise.
        unsafe { target.write(begun) };
    }
    // SAFETY: the caller's promise.
    let status = unsafe { deliver(reason, outcome) };
    if status != OK && !begun.is_null() {
        // Without an address for the reason there is no success.
        // SAFETY: just written; the caller is told that there is none.
        unsafe { release(target) };
    }
    status
}

/// # Safety
/// `hdf5` is null or an address; `values` is null or leads to a box. Until the transfer ends, the box's memory is valid. During a write, nobody changes its
/// values; during a read, nobody else uses them.
unsafe fn begin(
    dataset: hid_t,
    hdf5: *const c_void,
    values: *const ArrayBox,
    threads: u32,
    direction: Direction,
) -> Result<Transfer, Failure> {
    let address = values;
    // SAFETY: the caller's promise.
    let values = unsafe { values.as_ref() }.ok_or_else(|| Error::invalid("the address of the box is null"))?;
    if values.rank > MOST_EXTENTS {
        return Err(Error::invalid(format_args!("rank is {}: a dataset has at most {MOST_EXTENTS} axes", values.rank)).into());
    }
    let rank = values.rank as usize;
    // SAFETY: the caller's promise.
    let count = unsafe { slice_from_raw(values.count, rank, "count")? };
    let start = match values.start.is_null() {
        true => &[0; MOST_EXTENTS as usize][..rank],
        // SAFETY: the caller's promise.
        false => unsafe { slice_from_raw(values.start, rank, "start")? },
    };
    let value_type = value_type_of(values.value_type)?;
    let size = value_type.0.element_size();
    let strides = if values.strides.is_null() {
        Strided::in_c_order(count, size)?
    } else {
        // SAFETY: the caller's promise.
        let strides = unsafe { slice_from_raw(values.strides, rank, "strides")? };
        memory::collect(strides.iter().map(|&stride| stride as isize))?
    };
    // The transfer looks at what is there once it knows whose memory it is.
    if values.values.is_null() && !count.contains(&0) {
        return Err(Error::invalid("the address of the values is null").into());
    }
    // SAFETY: the caller's promise.
    let memory = unsafe { Strided::new(values.values.cast(), size, strides) };
    let gpu = match resident::gpu_of(values.values as u64) {
        Some(number) => {
            let device = resident::device(number)?;
            // SAFETY: the caller's promise. The threads of the transfer could not wait for a stream of this one.
            unsafe { resident::wait_for(device, (&raw const (*address.cast::<ResidentBox>()).stream).read() as u64) }?;
            Some(device)
        }
        None => None,
    };
    let library = Library::with_function(hdf5)?;
    Transfer::begin(library, dataset, &Selection { start, count, value_type }, memory, direction, threads, gpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    const F32: u32 = 0;
    const EXTENTS: [u64; 2] = [40, 50];
    const BYTES: usize = 4 * 40 * 50;

    fn values(number: usize) -> Vec<u8> {
        (0..40 * 50).flat_map(|index| (((number + 1) as f32 * index as f32 * 0.01).sin() * 100.0).to_le_bytes()).collect()
    }

    /// Compresses arrays on this number of threads; returns the streams.
    fn compress(arrays: &[Vec<u8>], options: &std::ffi::CStr, threads: u32) -> Vec<Vec<u8>> {
        let addresses: Vec<*const c_void> = arrays.iter().map(|array| array.as_ptr().cast()).collect();
        let mut streams: Vec<Bytes> = arrays.iter().map(|_| Bytes::NONE).collect();
        let mut reason = Bytes::NONE;
        // SAFETY: arrays with their lengths.
        let status = unsafe {
            let (options, extents, addresses, streams) =
                (options.as_ptr(), EXTENTS.as_ptr(), addresses.as_ptr(), streams.as_mut_ptr());
            quire_compress_batch(options, F32, 2, extents, null(), arrays.len(), addresses, BYTES, threads, streams, &mut reason)
        };
        assert_eq!(status, OK, "{}", String::from_utf8_lossy(&reason.to_vec()));
        let copies = streams.iter().map(Bytes::to_vec).collect();
        for bytes in streams.iter_mut().chain([&mut reason]) {
            // SAFETY: delivered by the call.
            unsafe { quire_free(bytes) };
        }
        copies
    }

    #[test]
    fn batches_do_not_depend_on_the_threads() {
        let arrays: Vec<Vec<u8>> = (0..100).map(values).collect();
        let streams = compress(&arrays, c"abs=1e-2", 1);
        for threads in [0, 2, 5] {
            assert!(compress(&arrays, c"abs=1e-2", threads) == streams, "{threads} threads");
        }
        let history = compress(&arrays, c"abs=1e-2,adapt=history", 5);
        assert_eq!(history.len(), streams.len());

        let addresses: Vec<*const c_void> = streams.iter().map(|stream| stream.as_ptr().cast()).collect();
        let lengths: Vec<usize> = streams.iter().map(Vec::len).collect();
        let mut decoded: Vec<Vec<u8>> = arrays.iter().map(|_| vec![0xa5; BYTES]).collect();
        let targets: Vec<*mut c_void> = decoded.iter_mut().map(|array| array.as_mut_ptr().cast()).collect();
        let mut reason = Bytes::NONE;
        // SAFETY: arrays with their lengths.
        let status = unsafe {
            let (addresses, lengths, targets) = (addresses.as_ptr(), lengths.as_ptr(), targets.as_ptr());
            quire_decompress_batch(streams.len(), addresses, lengths, targets, BYTES, 4, &mut reason)
        };
        // SAFETY: delivered by the call.
        unsafe { quire_free(&mut reason) };
        assert_eq!(status, OK);
        for (array, found) in arrays.iter().zip(&decoded) {
            let number = |bytes: &[u8]| f64::from(f32::from_le_bytes(bytes.try_into().expect("4 bytes")));
            assert!(array.chunks(4).zip(found.chunks(4)).all(|(left, right)| (number(left) - number(right)).abs() <= 1e-2));
        }
    }
}
