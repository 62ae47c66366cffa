//! Batches and boxes of datasets with each allocation of the process for many bytes refused in turn.
//!
//! Each test runs in a process of its own, as threads of other tests would get the refusals.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::time::Duration;

use super::F32;
use super::hdf5::{Dataset, Hdf5};
use super::processes::run;
use super::refusing::{Refusals, live_bytes, refuse_everywhere, spare};
use crate::arrays::dataset::Direction;
use crate::c_api::arrays::{ArrayBox, ResidentBox, quire_compress_batch, quire_decompress_batch, quire_h5_read, quire_h5_write};
use crate::c_api::{Bytes, HDF5, NO_MEMORY, OK, quire_free};
use crate::fence::free_left_buffers;

/// Makes a call: `None` for a lack of memory, which the reason must name.
pub(super) fn outcome_of(what: &str, call: impl FnOnce(*mut Bytes) -> c_int) -> Option<()> {
    let mut reason = Bytes::NONE;
    let status = call(&mut reason);
    spare(|| {
        // Without memory for the reason, the status must do.
        let text = if reason.is_none() { Vec::new() } else { reason.to_vec() };
        // SAFETY: a call has written it.
        unsafe { quire_free(&mut reason) };
        let text = String::from_utf8_lossy(&text).into_owned();
        // HDF5 calls the filter for a chunk that its cache has; what that says is in the reason of HDF5's failure.
        let is_lacking =
            status == NO_MEMORY && text.is_empty() || [NO_MEMORY, HDF5].contains(&status) && text.contains("no memory for ");
        assert!(status == OK || is_lacking, "{what}: {status}: {text}");
        (status == OK).then_some(())
    })
}

type Call<'a> = dyn Fn() -> Option<Vec<u8>> + Sync + 'a;

/// Frees what threads that have ended have left, and what the GPU's threads keep.
fn free_kept_buffers() {
    free_left_buffers();
    quire_gpu::free_workspaces();
}

/// Refuses each allocation of `call` for many bytes. The call delivers the values or the streams that it makes, each time on a new thread, without buffers of
/// others. Behind it, `check` is called, then `call` once more, which must work; `in_use` says how much memory is in use besides that of Rust's allocator. Returns
/// how many calls have failed.
pub(super) fn refuse_each(what: &str, call: &Call<'_>, check: &(dyn Fn(bool) + Sync), in_use: &dyn Fn() -> u64) -> usize {
    // A refused call may leave chunks of another kind behind, whose reader keeps other buffers. So each reader is a new thread.
    let check = |has_succeeded| std::thread::scope(|scope| scope.spawn(|| check(has_succeeded)).join().expect("no panic"));
    let on_a_new_thread = |number, refusals| {
        free_left_buffers();
        std::thread::scope(|scope| scope.spawn(|| refuse_everywhere(number, refusals, call)).join().expect("no panic"))
    };
    let unrefused = || {
        let (outcome, count) = on_a_new_thread(u64::MAX, Refusals::One);
        (outcome.unwrap_or_else(|| panic!("{what}: memory")), count)
    };
    let expected = unrefused().0;
    check(true);
    // Buffers that threads keep from call to call are all allocated after a few calls.
    let count = (0..3).map(|_| unrefused().1).max().unwrap_or_default();
    check(true);
    free_kept_buffers();
    let (mut used, allocated) = (in_use(), live_bytes());
    let mut failed = 0;
    // Threads take turns as they like, so that a few more may be needed.
    for number in 0..count + count / 8 + 1 {
        for refusals in [Refusals::One, Refusals::AllBehind] {
            let what = format!("{what}, allocation {number}, {refusals:?}");
            let outcome = on_a_new_thread(number, refusals).0;
            let has_succeeded = outcome.is_some();
            failed += usize::from(!has_succeeded);
            assert!(outcome.is_none_or(|found| found == expected), "{what}: other bytes");
            check(has_succeeded);
            assert!(unrefused().0 == expected, "{what}: other bytes by the next call");
            check(true);
            free_kept_buffers();
            let now = live_bytes();
            assert!(now - allocated <= MOST_KEPT, "{what}: {now} bytes are allocated, {allocated} before");
            used = used.min(settled(in_use, used));
        }
    }
    println!("\n{what}: {count} allocations of many bytes, refused: {failed} calls failed");
    failed
}

/// The memory in use, once it is no more than it was. Other processes on the GPU end after a while.
fn settled(in_use: &dyn Fn() -> u64, before: u64) -> u64 {
    loop {
        let now = in_use();
        if now <= before {
            return now;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes that a process may have more after calls that failed for lack of memory: it notes each line that it has said. These calls leave up to 9.6 KB.
const MOST_KEPT: i64 = 16 << 10;

/// How a test is named, for a process that runs it alone.
macro_rules! in_this_file {
    ($name:literal) => {
        concat!("tests::low_memory::whole_arrays::", $name)
    };
}

#[test]
fn batches_and_boxes() {
    let said = run(in_this_file!("many_batches_and_boxes"));
    said.lines().filter(|line| line.contains("allocations") || line.contains("skipped")).for_each(|line| println!("{line}"));
}

#[test]
#[ignore = "`batches_and_boxes` runs it in a process of its own"]
fn many_batches_and_boxes() {
    batches();
    if let Some(library) = Hdf5::open() {
        boxes(&library, &HostValues, &|| 0);
    }
}

pub(super) fn smooth(count: usize, seed: f32) -> Vec<f32> {
    (0..count).map(|index| (index as f32 * 0.07 + seed).sin() * 100.0).collect()
}

pub(super) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn batches() {
    const EXTENTS: [u64; 2] = [40, 50];
    const LENGTH: usize = 4 * 40 * 50;
    const COUNT: usize = 5;
    let arrays: Vec<Vec<u8>> = (0..COUNT).map(|number| bytes_of(&smooth(40 * 50, number as f32))).collect();
    let compress = || {
        let addresses: Vec<*const c_void> = spare(|| arrays.iter().map(|array| array.as_ptr().cast()).collect());
        let mut streams = [Bytes::NONE; COUNT];
        let outcome = outcome_of("a batch", |reason| {
            let (options, extents, fill_value) = (c"abs=1e-3".as_ptr(), EXTENTS.as_ptr(), null());
            let (values, targets) = (addresses.as_ptr(), streams.as_mut_ptr());
            // SAFETY: arrays with their lengths.
            unsafe { quire_compress_batch(options, F32, 2, extents, fill_value, COUNT, values, LENGTH, 2, targets, reason) }
        });
        spare(|| taken(outcome, &mut streams))
    };
    let mut failed = refuse_each("a batch that is compressed", &compress, &|_| (), &|| 0);
    let streams = split(&compress().expect("memory"));
    let decompress = || {
        let addresses: Vec<*const c_void> = spare(|| streams.iter().map(|stream| stream.as_ptr().cast()).collect());
        let lengths: Vec<usize> = spare(|| streams.iter().map(Vec::len).collect());
        let mut values = spare(|| vec![vec![0xa5; LENGTH]; COUNT]);
        let targets: Vec<*mut c_void> = spare(|| values.iter_mut().map(|array| array.as_mut_ptr().cast()).collect());
        let outcome = outcome_of("a batch", |reason| {
            let (addresses, lengths, targets) = (addresses.as_ptr(), lengths.as_ptr(), targets.as_ptr());
            // SAFETY: arrays with their lengths.
            unsafe { quire_decompress_batch(COUNT, addresses, lengths, targets, LENGTH, 2, reason) }
        });
        spare(|| {
            drop((addresses, lengths, targets));
            outcome.map(|()| values.concat())
        })
    };
    failed += refuse_each("a batch that is decompressed", &decompress, &|_| (), &|| 0);
    assert!(failed > 0, "no refusal was noticed");
}

/// The streams of a call, each behind its length; there are none after a failure.
pub(super) fn taken(outcome: Option<()>, streams: &mut [Bytes]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for stream in streams {
        assert_eq!(stream.is_none(), outcome.is_none(), "streams are delivered where the call has succeeded, and there alone");
        if !stream.is_none() {
            let bytes = stream.to_vec();
            all.extend((bytes.len() as u64).to_le_bytes());
            all.extend(bytes);
        }
        // SAFETY: a call has written it.
        unsafe { quire_free(stream) };
    }
    outcome.map(|()| all)
}

/// What [`taken`] has joined.
pub(super) fn split(mut joined: &[u8]) -> Vec<Vec<u8>> {
    let mut streams = Vec::new();
    while let Some((length, behind)) = joined.split_first_chunk() {
        let (stream, rest) = behind.split_at(u64::from_le_bytes(*length) as usize);
        streams.push(stream.to_vec());
        joined = rest;
    }
    streams
}

/// Where the values of a box are.
pub(crate) trait Place {
    /// Puts values there; their address.
    fn put(&self, values: &[f32]) -> u64;
    /// Fetches values from there.
    fn fetch(&self, address: u64, count: usize) -> Vec<f32>;
}

/// In the host's memory, which is left to the process.
struct HostValues;

impl Place for HostValues {
    fn put(&self, values: &[f32]) -> u64 {
        values.to_vec().leak().as_mut_ptr() as u64
    }

    fn fetch(&self, address: u64, count: usize) -> Vec<f32> {
        // SAFETY: values of `put`, which nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(address as *const f32, count) }.to_vec()
    }
}

/// A dataset with chunks of all kinds, of which a box is written and read: whole ones, and parts.
pub(super) fn boxes(library: &Hdf5, place: &(dyn Place + Sync), in_use: &dyn Fn() -> u64) {
    const EXTENTS: [u64; 2] = [150, 192];
    const CHUNK: [u64; 2] = [40, 64];
    const START: [u64; 2] = [20, 0];
    const COUNT: [u64; 2] = [130, 192];
    let (rows, columns, skipped) = (EXTENTS[0] as usize, EXTENTS[1] as usize, START[0] as usize);
    let old = smooth(rows * columns, 0.0);
    let new = smooth((rows - skipped) * columns, 1.0);
    // An absolute bound of 10^-3.
    let words = [2, 3];
    let mut expected = Dataset::new(library, &EXTENTS, &CHUNK, &words);
    expected.write(&old);
    let dataset = Dataset::new(library, &EXTENTS, &CHUNK, &words);
    dataset.write(&old);
    let source = place.put(&new);
    let target = place.put(&vec![0.0; new.len()]);
    let transfer = |direction: Direction, dataset: &Dataset<'_>, values: u64| {
        let (start, count, strides) = (START.as_ptr(), COUNT.as_ptr(), null());
        let values = ArrayBox { value_type: F32, rank: 2, start, count, strides, values: values as *mut c_void };
        let array = ResidentBox { values, stream: null_mut() };
        outcome_of("a box", |reason| {
            let (dataset, hdf5, array) = (dataset.id(), library.any_function(), (&raw const array).cast());
            // SAFETY: arrays with their lengths, and an open dataset.
            unsafe {
                match direction {
                    Direction::Write => quire_h5_write(dataset, hdf5, array, 2, reason),
                    Direction::Read => quire_h5_read(dataset, hdf5, array, 2, reason),
                }
            }
        })
    };
    transfer(Direction::Write, &expected, source).expect("memory");
    let after = expected.read();
    for (at, value) in after.iter().enumerate() {
        let exact = if at / columns < skipped { old[at] } else { new[at - skipped * columns] };
        assert!((value - exact).abs() <= 2.1e-3, "value {at}");
    }
    let written = || transfer(Direction::Write, &dataset, source).map(|()| Vec::new());
    let is_whole = |has_succeeded: bool| {
        let found = dataset.read();
        let rows_of = |row: usize| row * columns..(row + 1) * columns;
        for (row, column) in (0..rows).flat_map(|row| (0..columns).step_by(64).map(move |column| (row, column))) {
            let part = |values: &[f32]| values[rows_of(row)][column..column + 64].to_vec();
            let is_near = |exact: &[f32]| part(&found).iter().zip(exact).all(|(found, exact)| (found - exact).abs() <= 1e-3);
            let is_new = part(&found) == part(&after);
            // HDF5 may have written an old chunk from its cache meanwhile, or stored it uncompressed: its values are within the bound, but may be others.
            let may_be_old = !has_succeeded || row < skipped;
            let is_old = || may_be_old && is_near(&part(&old));
            // New values beside such old ones in a chunk are predicted from them, so they may be rounded otherwise.
            let is_beside_old = (skipped..CHUNK[0] as usize).contains(&row);
            let is_new_within_the_bound = || is_beside_old && is_near(&new[rows_of(row - skipped)][column..column + 64]);
            assert!(is_new || is_old() || is_new_within_the_bound(), "row {row}, column {column}: other values");
        }
        dataset.write(&old);
    };
    let failed = refuse_each("a box that is written", &written, &is_whole, in_use);
    assert!(failed > 0, "no refusal was noticed");
    let reads = |dataset: &Dataset<'_>, what: &str| {
        let read = || {
            let outcome = transfer(Direction::Read, dataset, target);
            spare(|| outcome.map(|()| bytes_of(&place.fetch(target, new.len()))))
        };
        refuse_each(what, &read, &|_| (), in_use);
        assert!(read() == Some(bytes_of(&dataset.read()[skipped * columns..])), "{what}: other values than HDF5's");
    };
    reads(&dataset, "a box that is read");
    expected.reopen_for_reading();
    reads(&expected, "a box that is read from a file for reading");
}
