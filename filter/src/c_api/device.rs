//! Chunks in the memory of a GPU, as C functions.

use std::ffi::{c_char, c_int, c_void};

use quire_codec::{Config, Error, Layout, max_stream_len, memory};
use quire_gpu::{ArrayAxes, Device, PackedStreams, Part, Resident, ResidentStream};

use super::arrays::{clear, ended};
use super::{Bytes, MOST_EXTENTS, check_address, deliver, quire_free, slice_from_raw, task_from_raw, value_type_of};
use crate::arrays::batch;
use crate::arrays::crew::Fault;
use crate::arrays::strided::{Strided, are_apart, check_strides, span};
use crate::backend::resident;
use crate::fence::Failure;

/// `quire_device_chunks`: chunks of one layout in the memory of a GPU.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceChunks {
    pub(crate) value_type: u32,
    pub(crate) rank: u32,
    pub(crate) extents: *const u64,
    pub(crate) count: usize,
    pub(crate) addresses: *const u64,
    pub(crate) strides: *const i64,
    pub(crate) counts: *const u64,
    pub(crate) stream: *mut c_void,
}

/// Chunks that have been looked at: all of one GPU.
struct Found {
    layout: Layout,
    axes: ArrayAxes,
    parts: Vec<Part<'static>>,
    /// Where the values of each chunk are.
    spans: Vec<Span>,
    /// Whether chunks may have other values between theirs.
    have_gaps: bool,
    stream: u64,
    /// `None` where there are no chunks.
    device: Option<&'static Device>,
}

/// The bytes from a chunk's lowest value on to the end of its highest.
#[derive(Debug)]
struct Span {
    lowest: u64,
    bytes: u64,
    /// Whether no two of its values share a byte.
    is_apart: bool,
}

impl Span {
    /// The address of the last byte.
    fn last(&self) -> u64 {
        self.lowest + self.bytes.saturating_sub(1)
    }

    fn shares_bytes(&self, address: u64, bytes: u64) -> bool {
        batch::share_bytes(self.lowest, self.bytes as usize, address, bytes as usize)
    }
}

impl Found {
    /// Refuses chunks that cannot be written side by side. Where chunks have gaps between their values, only chunks at one address are refused: other chunks
    /// may lie in the gaps.
    fn check_apart(&self) -> Result<(), Failure> {
        if let Some(chunk) = self.spans.iter().position(|span| !span.is_apart) {
            return Err(Error::invalid(format_args!("the strides let values of chunk {chunk} share bytes")).into());
        }
        let used = || self.spans.iter().enumerate().filter(|(_, span)| span.bytes > 0);
        let length = if self.have_gaps { 1 } else { self.spans.first().map_or(0, |span| span.bytes as usize) };
        if used().count() == self.spans.len() {
            batch::check_apart(used().map(|(_, span)| span.lowest), length, std::iter::empty())?;
        }
        Ok(())
    }

    fn resident(&self) -> Resident<'_> {
        Resident { axes: &self.axes, parts: &self.parts, stream: Some(self.stream) }
    }
}

/// Streams for which a caller has room, for the threads of a batch.
struct Targets(*mut Bytes);

// SAFETY: each thread writes the streams of its own chunks, and the caller waits for all of them.
unsafe impl Sync for Targets {}

impl Targets {
    /// # Safety
    /// There are more streams than `chunk`, which is one thread's at a time.
    unsafe fn put(&self, chunk: usize, stream: Bytes) {
        // SAFETY: the caller's promise. A stream that was delivered before is freed.
        unsafe {
            quire_free(self.0.add(chunk));
            self.0.add(chunk).write(stream);
        }
    }
}

/// Compresses chunks in a GPU's memory.
///
/// # Safety
/// `options` is null or a string; `fill_value` is null or holds a value of the type; `chunks` is null or leads to chunks; `streams` has room for a stream of
/// each chunk; `reason` is null or can be written. The arrays of `chunks` are as `filter/include/h5z_quire.h` says, and its stream is one of the GPU's primary
/// context. Nobody changes the values of the chunks meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_device_compress(
    options: *const c_char,
    fill_value: *const c_void,
    chunks: *const DeviceChunks,
    streams: *mut Bytes,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        let found = unsafe {
            clear(streams, chunks.as_ref().map_or(0, |chunks| chunks.count))?;
            task(options, fill_value, chunks)?
        };
        let (found, config) = found;
        let Some(device) = found.device else { return Ok(()) };
        let count = found.parts.len();
        let targets = Targets(streams);
        let take = |chunk: usize, stream: &[u8]| {
            let made = Bytes::copy_of(stream)?;
            // SAFETY: the caller's promise, and a chunk is one thread's at a time.
            unsafe { targets.put(chunk, made) };
            Ok(())
        };
        // SAFETY: the caller's promise.
        let outcome = unsafe { device.compress_resident(&found.resident(), &found.layout, &config, &take) };
        outcome.map_err(|failure| {
            for chunk in 0..count {
                // SAFETY: as written above.
                unsafe { quire_free(streams.add(chunk)) };
            }
            Fault::from(failure)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Compresses chunks in a GPU's memory to streams there.
///
/// # Safety
/// The first three arguments and `reason` follow the rules of [`quire_device_compress`]. `target` is 0 or leads to `capacity` bytes of that GPU's memory, which
/// nobody else uses until this returns. `offsets` and `lengths` have room for a number of each chunk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_device_compress_to_device(
    options: *const c_char,
    fill_value: *const c_void,
    chunks: *const DeviceChunks,
    target: u64,
    capacity: u64,
    offsets: *mut u64,
    lengths: *mut u64,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        let (found, config) = unsafe { task(options, fill_value, chunks)? };
        let Some(device) = found.device else { return Ok(()) };
        let count = found.parts.len();
        if target != 0 {
            check_device_address(target, 16, "target")?;
            // A capacity may be rounded up to the next place of a stream.
            let last = target.checked_add(capacity.saturating_sub(1) & !15);
            let is_there = |address: Option<u64>| address.and_then(resident::gpu_of) == resident::gpu_of_parts(&found.parts);
            if !is_there(Some(target)) || !is_there(last) {
                return Err(Error::invalid(format_args!(
                    "the target {target:#x}, of {capacity} bytes, is not in the memory of the GPU that has the values"
                ))
                .into());
            }
            if let Some(chunk) = found.spans.iter().position(|span| span.shares_bytes(target, capacity)) {
                return Err(
                    Error::invalid(format_args!("the target {target:#x} and the values of chunk {chunk} share bytes")).into()
                );
            }
        }
        check_address(offsets, count, "offsets").map_err(Failure::from)?;
        check_address(lengths, count, "lengths").map_err(Failure::from)?;
        let numbers_len = count * size_of::<u64>();
        if batch::share_bytes(offsets as u64, numbers_len, lengths as u64, numbers_len) {
            return Err(Error::invalid("offsets and lengths share bytes: each chunk has one of both").into());
        }
        // SAFETY: the caller's promise; numbers may be anything.
        let (offsets, lengths) = unsafe {
            offsets.write_bytes(0, count);
            lengths.write_bytes(0, count);
            (std::slice::from_raw_parts_mut(offsets, count), std::slice::from_raw_parts_mut(lengths, count))
        };
        let packed = PackedStreams::new(target, capacity, offsets, lengths);
        // SAFETY: the caller's promise.
        let outcome = unsafe { device.compress_resident_to(&found.resident(), &found.layout, &config, &packed) };
        Ok(outcome?)
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Decompresses streams into chunks in a GPU's memory.
///
/// # Safety
/// `streams` holds an address for each chunk, and `stream_lengths` a length: of bytes in the host's memory or in the GPU's. `chunks` is as for
/// [`quire_device_compress`], and nobody else uses the chunks meanwhile. `reason` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_device_decompress(
    streams: *const *const c_void,
    stream_lengths: *const usize,
    chunks: *const DeviceChunks,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        let found = unsafe { chunks_from_raw(chunks)? };
        let Some(device) = found.device else { return Ok(()) };
        let count = found.parts.len();
        // SAFETY: the caller's promise.
        let (addresses, lengths) = unsafe {
            (
                slice_from_raw(streams, count, "addresses of streams").map_err(Failure::from)?,
                slice_from_raw(stream_lengths, count, "lengths of streams").map_err(Failure::from)?,
            )
        };
        found.check_apart()?;
        let gpu = resident::gpu_of_parts(&found.parts);
        let mut streams = Vec::new();
        memory::reserve(&mut streams, count).map_err(Failure::from)?;
        // The last byte of all streams in the GPU's memory, and the chunk of that stream.
        let mut highest = (0, 0);
        for (chunk, (&address, &length)) in addresses.iter().zip(lengths).enumerate() {
            let stream = match resident::gpu_of(address as u64) {
                Some(number) if Some(number) == gpu => {
                    let (address, length) = (address as u64, length as u64);
                    // The ends of streams are asked about together, as those of chunks are. But a stream that is too long for any chunk is asked about at once.
                    let last = address.checked_add(length.saturating_sub(1));
                    if length > max_stream_len(&found.layout) && last.and_then(resident::gpu_of) != gpu {
                        return Err(ends_outside(chunk, address, length));
                    }
                    highest = highest.max((last.unwrap_or(address), chunk));
                    ResidentStream::Device { address, length }
                }
                Some(number) => {
                    let text = format_args!("the stream is in the memory of GPU {number}, the chunks are in that of another");
                    return Err(Fault { chunk: Some(chunk), failure: Error::invalid(text).into() });
                }
                // SAFETY: the caller's promise.
                None => ResidentStream::Host(
                    unsafe { slice_from_raw(address.cast(), length, "stream") }
                        .map_err(|error| Fault { chunk: Some(chunk), failure: error.into() })?,
                ),
            };
            streams.push(stream);
        }
        if let (1.., chunk) = highest
            && resident::gpu_of(highest.0) != gpu
        {
            return Err(ends_outside(chunk, addresses[chunk] as u64, lengths[chunk] as u64));
        }
        // SAFETY: the caller's promise.
        let outcome = unsafe { device.decompress_resident(&streams, &found.resident(), &found.layout) };
        resident::note_refused(outcome?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, ended(body)) }
}

/// Chunks to compress, and how.
///
/// # Safety
/// The arguments follow the rules of [`quire_device_compress`].
unsafe fn task(
    options: *const c_char,
    fill_value: *const c_void,
    chunks: *const DeviceChunks,
) -> Result<(Found, Config<'static>), Failure> {
    // SAFETY: the caller's promise.
    let (found, raw) = unsafe { (chunks_from_raw(chunks)?, &*chunks) };
    let length = found.layout.chunk_bytes() as usize;
    // SAFETY: the caller's promise.
    let (layout, config) = unsafe { task_from_raw(options, raw.value_type, raw.rank, raw.extents, fill_value, length)? };
    // The options may have bricks.
    Ok((Found { layout, ..found }, resident::config(&config)?))
}

/// # Safety
/// `chunks` is null or leads to chunks whose arrays are as `filter/include/h5z_quire.h` says.
unsafe fn chunks_from_raw(chunks: *const DeviceChunks) -> Result<Found, Failure> {
    // SAFETY: the caller's promise.
    let chunks = unsafe { chunks.as_ref() }.ok_or_else(|| Error::invalid("the address of the chunks is null"))?;
    if chunks.rank > MOST_EXTENTS {
        return Err(Error::invalid(format_args!("rank is {}: a chunk has at most {MOST_EXTENTS} axes", chunks.rank)).into());
    }
    let (rank, count) = (chunks.rank as usize, chunks.count);
    // SAFETY: the caller's promise.
    let (extents, addresses, strides, counts) = unsafe {
        (
            slice_from_raw(chunks.extents, rank, "extents")?,
            slice_from_raw(chunks.addresses, count, "addresses")?,
            (!chunks.strides.is_null()).then(|| slice_from_raw(chunks.strides, rank, "strides")).transpose()?,
            (!chunks.counts.is_null())
                .then(|| slice_from_raw(chunks.counts, rank.saturating_mul(count), "counts"))
                .transpose()?,
        )
    };
    let (scalar, byte_order) = value_type_of(chunks.value_type)?;
    let layout = Layout::of_chunk(scalar, byte_order, extents)?;
    resident::check_type(&layout)?;
    let axes = ArrayAxes::new(extents, strides, scalar.size())?;
    let size = scalar.size();
    let in_c_order = Strided::in_c_order(extents, size)?;
    let strides = strides.map(|strides| memory::collect(strides.iter().map(|&stride| stride as isize))).transpose()?;
    let have_gaps = counts.is_some() || strides.as_ref().is_some_and(|strides| *strides != in_c_order);
    let strides = strides.unwrap_or(in_c_order);
    check_strides(extents, &strides, size)?;
    let (mut parts, mut spans) = (Vec::new(), Vec::new());
    memory::reserve(&mut parts, count)?;
    memory::reserve(&mut spans, count)?;
    let mut gpu = None;
    for (chunk, &address) in addresses.iter().enumerate() {
        let counts = counts.map(|counts| &counts[chunk * rank..(chunk + 1) * rank]);
        let part = match counts {
            None => axes.whole(address),
            Some(counts) if counts.iter().zip(extents).all(|(count, extent)| count <= extent) => {
                axes.part(address, |_| 0, |axis| counts[axis], None)
            }
            Some(counts) => {
                return Err(
                    Error::invalid(format_args!("chunk {chunk} has {counts:?} values, its extents are {extents:?}")).into()
                );
            }
        };
        check_device_address(address, scalar.size(), "values")?;
        let found = resident::gpu_of(address);
        if found.is_none() || gpu.is_some_and(|gpu| Some(gpu) != found) {
            return Err(resident::not_of_a_gpu(chunk, address, found, gpu));
        }
        gpu = found;
        parts.push(part);
        let counts = counts.unwrap_or(extents);
        let Some((lowest, bytes)) = span(address, counts, &strides, size) else { return Err(beyond_memory(chunk, address)) };
        spans.push(Span { lowest, bytes, is_apart: !have_gaps || are_apart(counts, &strides, size) });
    }
    // The driver is asked about the ends of all chunks together: each question takes it longer than a GPU takes to compress 4 KiB.
    let used = || spans.iter().enumerate().filter(|(_, span)| span.bytes > 0);
    let ends = [used().map(|(chunk, span)| (span.lowest, chunk)).min(), used().map(|(chunk, span)| (span.last(), chunk)).max()];
    for (end, chunk) in ends.into_iter().flatten() {
        if resident::gpu_of(end) != gpu {
            return Err(beyond_memory(chunk, addresses[chunk]));
        }
    }
    let device = gpu.map(resident::device).transpose()?;
    Ok(Found { layout, axes, parts, spans, have_gaps, stream: chunks.stream as u64, device })
}

/// The refusal of a stream of which a part is elsewhere.
fn ends_outside(chunk: usize, address: u64, length: u64) -> Fault {
    let text = format_args!("the stream of {length} bytes at {address:#x} ends outside of the GPU's memory");
    Fault { chunk: Some(chunk), failure: Error::invalid(text).into() }
}

/// The refusal of a chunk whose values cannot all be in a GPU's memory.
fn beyond_memory(chunk: usize, address: u64) -> Failure {
    let text = format_args!(
        "the values of chunk {chunk} at {address:#x} reach beyond the GPU's memory: look at its extents and strides"
    );
    Error::invalid(text).into()
}

fn check_device_address(address: u64, alignment: usize, what: &str) -> Result<(), Failure> {
    if address.is_multiple_of(alignment as u64) {
        return Ok(());
    }
    Err(Error::invalid(format_args!("the address of the {what} is {address:#x}: it must be a multiple of {alignment}")).into())
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;

    /// Status and reason of compressing a chunk at an address.
    fn refusal(address: u64, counts: &[u64; 2]) -> (c_int, String) {
        let (extents, addresses) = ([4u64, 8], [address]);
        let chunks = DeviceChunks {
            value_type: 0,
            rank: 2,
            extents: extents.as_ptr(),
            count: addresses.len(),
            addresses: addresses.as_ptr(),
            strides: null(),
            counts: counts.as_ptr(),
            stream: null_mut(),
        };
        let (mut stream, mut reason) = (Bytes::NONE, Bytes::NONE);
        // SAFETY: arrays with their lengths; the address is refused before it is used.
        let status = unsafe { quire_device_compress(c"abs=1".as_ptr(), null(), &chunks, &mut stream, &mut reason) };
        let text = String::from_utf8_lossy(&reason.to_vec()).into_owned();
        // SAFETY: delivered by the call.
        unsafe { quire_free(&mut reason) };
        (status, text)
    }

    #[test]
    fn addresses_of_the_host_and_counts_beyond_the_chunk_are_refused() {
        let values = [0f32; 32];
        let address = values.as_ptr() as u64;
        for (address, counts, said) in [
            (address, [4, 8], "are not in a GPU's memory"),
            (0, [4, 8], "are not in a GPU's memory"),
            (address + 2, [4, 8], "must be a multiple of 4"),
            (address, [4, 9], "chunk 0 has [4, 9] values, its extents are [4, 8]"),
        ] {
            let (status, text) = refusal(address, &counts);
            assert!(status == 1 && text.contains(said), "{status}: {text:?} does not say {said:?}");
        }
    }
}
