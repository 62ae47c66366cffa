//! Memory that grows and stays: on the device, and pinned on the host.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaContext, CudaStream, result, sys};

use crate::declare::{Address, Pointer, SharedStruct};
use crate::error::{Context as _, Error, Result, reason};
use crate::job::{
    CopiedBox, CopiedRun, DatasetBooks, DecodeParameters, DecodePlaneState, DecodeState, EncodeParameters, Inspection, TileSums,
};

/// Allocations so far, on the device and pinned, of this process.
pub(crate) static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Bytes on the device. Their contents are lost when they grow.
pub(crate) struct DeviceMemory {
    context: Arc<CudaContext>,
    address: Address,
    len: usize,
}

impl DeviceMemory {
    pub(crate) fn new(context: Arc<CudaContext>) -> Self {
        Self { context, address: 0, len: 0 }
    }

    /// Makes room for `len` bytes, mostly at another address. The caller has waited for all work on the old bytes.
    pub(crate) fn grow(&mut self, len: usize) -> Result<()> {
        if len <= self.len {
            return Ok(());
        }
        self.free();
        self.context.bind_to_thread().context("binding the CUDA context")?;
        // Sizes differ a little from dataset to dataset: room to spare saves the next growth.
        let len = len.next_multiple_of(1 << 21);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: plain allocation; the address is kept by `self` alone.
        self.address = unsafe { result::malloc_sync(len) }.context(format_args!("allocating {len} bytes on the GPU"))?;
        self.len = len;
        Ok(())
    }

    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn free(&mut self) {
        if self.len > 0 && self.context.bind_to_thread().is_ok() {
            // SAFETY: from `malloc_sync`, freed once. A failure leaves a context that is of no use any more.
            let _ = unsafe { result::free_sync(self.address) };
        }
        (self.address, self.len) = (0, 0);
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.free();
    }
}

/// Pinned bytes of the host, which have one address for the host and the device. All zero at first.
pub(crate) struct PinnedMemory {
    context: Arc<CudaContext>,
    address: *mut u8,
    len: usize,
}

// SAFETY: this value owns the memory, whose address does not depend on the thread.
unsafe impl Send for PinnedMemory {}
// SAFETY: shared access reads bytes alone.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    pub(crate) fn new(context: Arc<CudaContext>) -> Self {
        Self { context, address: std::ptr::null_mut(), len: 0 }
    }

    /// Makes room for `len` bytes, mostly at another address. The caller has waited for all work on the old bytes.
    pub(crate) fn grow(&mut self, len: usize) -> Result<()> {
        if len <= self.len {
            return Ok(());
        }
        self.free();
        self.context.bind_to_thread().context("binding the CUDA context")?;
        let len = len.next_multiple_of(1 << 16);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // Not write-combined: the host reads what the device writes.
        // SAFETY: plain allocation; the address is kept by `self` alone.
        let address = unsafe { result::malloc_host(len, 0) }.context(format_args!("allocating {len} bytes of pinned memory"))?;
        // SAFETY: `len` bytes that nobody else knows; a slice must not have undefined bytes.
        unsafe { address.cast::<u8>().write_bytes(0, len) };
        (self.address, self.len) = (address.cast(), len);
        Ok(())
    }

    pub(crate) fn address(&self) -> Address {
        self.address as Address
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes. Callers wait for the device's work on them first: `Session` does, before it lends them.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the allocation, which is initialised; the device is done with it.
        unsafe { std::slice::from_raw_parts(self.address.add(range.start), range.len()) }
    }

    /// The bytes, to be written. Callers wait for the device's work on them first.
    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address.add(range.start), range.len()) }
    }

    fn free(&mut self) {
        if self.len > 0 && self.context.bind_to_thread().is_ok() {
            // SAFETY: from `malloc_host`, freed once.
            let _ = unsafe { result::free_host(self.address.cast()) };
        }
        (self.address, self.len) = (std::ptr::null_mut(), 0);
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        self.free();
    }
}

/// Bytes of a plain structure of numbers without padding, as the kernels read it.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` promises that all bytes are defined.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Bytes of plain structures one behind the other.
pub(crate) fn bytes_of_all<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// A structure from its bytes.
pub(crate) fn read_plain<T: Plain>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>());
    // SAFETY: enough bytes, and any bytes make a value.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

/// Structures of numbers without padding: every byte is defined, and any bytes are a value.
///
/// # Safety
/// All fields are numbers, or arrays and structures of numbers, and there is no padding.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($name:ident),+) => {$(
        const _: () = assert!(<$name as SharedStruct>::FIELD_BYTES == size_of::<$name>(), "there is padding");
        // SAFETY: fields are numbers, or arrays and structures of numbers, and there is no padding.
        unsafe impl Plain for $name {}
    )+};
}
plain!(
    DatasetBooks,
    EncodeParameters,
    Inspection,
    DecodeParameters,
    DecodePlaneState,
    DecodeState,
    TileSums,
    CopiedBox,
    CopiedRun
);
// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for u64 {}

/// The number of the device in whose memory an address is. `None` for the host's memory, pinned or not, and for addresses that the driver does not know. The
/// driver is loaded and initialised.
pub(crate) fn device_of(address: Address) -> Option<usize> {
    let ask = |attribute: sys::CUpointer_attribute| {
        let mut value = 0i32;
        // SAFETY: both attributes that are asked for are integers of 32 bits; any address can be asked about.
        let asked = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
        asked.result().ok().map(|()| value)
    };
    let kind = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE)?;
    let is_on_device = kind == sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as i32;
    let number = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)?;
    usize::try_from(number).ok().filter(|_| is_on_device)
}

/// Starts a copy of `len` bytes of pinned memory to the device. They stay as they are until the stream is past the copy.
pub(crate) fn upload(stream: &CudaStream, from: Address, to: Address, len: usize) -> Result<()> {
    stream.context().bind_to_thread().context("binding the CUDA context")?;
    // SAFETY: `from` is inside pinned memory, `to` inside the session's device memory; the driver alone reads the bytes.
    unsafe { sys::cuMemcpyHtoDAsync_v2(to, from as *const c_void, len, stream.cu_stream()) }
        .result()
        .context("copying to the GPU")
}

/// Starts a copy of `len` bytes from the device to pinned memory. They are not looked at until the stream is past the copy.
pub(crate) fn download(stream: &CudaStream, from: Address, to: Address, len: usize) -> Result<()> {
    stream.context().bind_to_thread().context("binding the CUDA context")?;
    // SAFETY: as above, the other way round.
    unsafe { sys::cuMemcpyDtoHAsync_v2(to as *mut c_void, from, len, stream.cu_stream()) }
        .result()
        .context("copying from the GPU")
}

/// Starts filling device memory with zeros.
pub(crate) fn clear(stream: &CudaStream, address: Address, len: usize) -> Result<()> {
    fill(stream, address, 0, len)
}

/// Starts filling device memory with a byte.
fn fill(stream: &CudaStream, address: Address, byte: u8, len: usize) -> Result<()> {
    stream.context().bind_to_thread().context("binding the CUDA context")?;
    // SAFETY: inside the session's device memory.
    unsafe { result::memset_d8_async(address, byte, len, stream.cu_stream()) }.context("clearing GPU memory")
}

/// Copies bytes that need not be pinned, and waits.
pub(crate) fn upload_and_wait(context: &CudaContext, bytes: &[u8], to: &DeviceMemory) -> Result<()> {
    if bytes.len() > to.len {
        return Err(Error::Failed(reason!("{} bytes do not fit {}", bytes.len(), to.len)));
    }
    context.bind_to_thread().context("binding the CUDA context")?;
    // SAFETY: the length was checked.
    unsafe { result::memcpy_htod_sync(to.address, bytes) }.context("copying to the GPU")?;
    // Of bytes that are not pinned, the driver may only have a copy by now, as NVIDIA's manual says ("API synchronization behavior"). Our streams do not wait
    // for its default stream. Without this wait, 6 of 124 processes that opened a busy H100 read tables too early.
    // SAFETY: null is the default stream, which always exists.
    unsafe { result::stream::synchronize(std::ptr::null_mut()) }.context("waiting for the GPU")
}

/// Bytes of the gap behind each array of an [`Arena`]. There are gaps only in builds for the emulator, which watches them.
const GAP: usize = if cfg!(quire_emulated) { 256 } else { 0 };
/// Gaps are filled with this byte. The emulator knows them by it: see `GAP_BYTE` in gpu/emulator/driver.cpp.
const GAP_BYTE: u8 = 0x9d;
/// Most gaps of an arena.
const MOST_GAPS: usize = if cfg!(quire_emulated) { 64 } else { 0 };

/// The gaps behind arrays of a job. These arrays are in one allocation, so that tools of CUDA's do not see a kernel that writes behind one of them.
#[derive(Debug)]
pub(crate) struct Gaps {
    addresses: [Address; MOST_GAPS],
    count: usize,
}

impl Gaps {
    const NONE: Self = Self { addresses: [0; MOST_GAPS], count: 0 };

    /// Has the gaps watched during the launches of `launch`.
    pub(crate) fn watch(&self, stream: &CudaStream, launch: impl FnOnce() -> Result<()>) -> Result<()> {
        let fill_all = |byte| self.addresses[..self.count].iter().try_for_each(|&gap| fill(stream, gap, byte, GAP));
        fill_all(GAP_BYTE)?;
        launch()?;
        fill_all(0)
    }
}

/// Memory from which arrays are taken one behind the other, at addresses that any access is aligned to.
///
/// The memory's address is known when the first array is taken, so that every pointer is final. To learn how much memory the arrays need,
/// they are taken once from an arena at address 0.
#[derive(Debug)]
pub(crate) struct Arena {
    base: Address,
    len: usize,
    /// Behind the arrays.
    pub(crate) gaps: Gaps,
}

impl Arena {
    pub(crate) fn new(base: Address) -> Self {
        Self { base, len: 0, gaps: Gaps::NONE }
    }

    /// An array of `count` entries, of the type that the field points to. `c_void` is not `Copy`: see [`Arena::take_sized`].
    pub(crate) fn take<T: Copy>(&mut self, count: usize) -> Pointer<T> {
        Pointer::new(self.take_bytes(count * size_of::<T>()))
    }

    /// An array of `count` entries of `size` bytes, for a field that points to entries of several types.
    pub(crate) fn take_sized(&mut self, count: usize, size: usize) -> Pointer<c_void> {
        Pointer::new(self.take_bytes(count * size))
    }

    fn take_bytes(&mut self, bytes: usize) -> Address {
        let at = self.len.next_multiple_of(256);
        self.len = at + bytes + GAP;
        if cfg!(quire_emulated) {
            self.gaps.addresses[self.gaps.count] = self.base + (at + bytes) as u64;
            self.gaps.count += 1;
        }
        self.base + at as u64
    }

    /// An arena whose arrays begin behind those of this one. Several such arenas share memory: their arrays are needed at different times.
    pub(crate) fn fork(&self) -> Self {
        Self { base: self.base, len: self.len, gaps: Gaps::NONE }
    }

    /// Goes on behind the arrays of a fork.
    pub(crate) fn go_behind(&mut self, fork: &Self) {
        self.len = self.len.max(fork.len);
    }

    /// Bytes of all arrays so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
