//! The chunk's buffer, which HDF5 and the filter allocate and free in turn.

use std::ffi::c_void;
use std::slice;

use quire_codec::{Error, Result};

use crate::platform::Heap;

/// The buffer that HDF5 passes to and fro: `*buffer` is `*size` bytes of the heap, of which the first `used` are the data.
pub(crate) struct ChunkBuffer<'a> {
    buffer: &'a mut *mut c_void,
    size: &'a mut usize,
    used: usize,
    heap: Heap,
}

impl ChunkBuffer<'_> {
    /// # Safety
    /// The pointers are null or as [`filter`](crate::callbacks::filter) says, and nobody else uses what they point to while the result lives. The bytes are of
    /// the heap.
    pub(crate) unsafe fn from_raw(nbytes: usize, buf_size: *mut usize, buf: *mut *mut c_void, heap: Heap) -> Result<Self> {
        // SAFETY: the caller vouches for pointers that are not null.
        let (size, buffer) = unsafe { (buf_size.as_mut(), buf.as_mut()) };
        match (size, buffer) {
            (Some(size), Some(buffer)) if !buffer.is_null() && isize::try_from(nbytes).is_ok() => {
                Ok(ChunkBuffer { buffer, size, used: nbytes, heap })
            }
            _ => Err(Error::invalid(format_args!(
                "the caller passed no chunk: {nbytes} bytes, buf_size at {buf_size:?}, buf at {buf:?}"
            ))),
        }
    }

    /// The data.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `used` bytes are valid; borrowing `self` keeps them from being freed or written.
        unsafe { slice::from_raw_parts(self.buffer.cast_const().cast(), self.used) }
    }

    /// The data, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.room(self.used)
    }

    /// Makes the data `length` bytes long, no less than they are. New bytes are 0.
    pub(crate) fn grow(&mut self, length: usize) -> Result<()> {
        if !self.has_room(length) {
            // SAFETY: the buffer is of the heap; after a failure it is as it was.
            let larger = unsafe { self.heap.resize(*self.buffer, length) };
            if larger.is_null() {
                return Err(Error::OutOfMemory { bytes: length as u64 });
            }
            (*self.buffer, *self.size) = (larger, length);
        }
        // SAFETY: the buffer has `length` bytes by now.
        unsafe { self.buffer.cast::<u8>().add(self.used).write_bytes(0, length - self.used) };
        self.used = length;
        Ok(())
    }

    /// Whether the buffer has `length` bytes.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        length <= *self.size && isize::try_from(length).is_ok()
    }

    /// The first `length` bytes of the buffer, data or not; panics if [`ChunkBuffer::has_room`] denies them.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        assert!(self.has_room(length));
        // SAFETY: the buffer has `*size` bytes. Those behind the data have no defined value, but some value: they were allocated by
        // HDF5, out of the compiler's sight.
        unsafe { slice::from_raw_parts_mut(self.buffer.cast(), length) }
    }

    /// Copies `bytes` to the start of the buffer if they fit, to a new buffer otherwise. The old buffer is better where it suffices:
    /// a new one of 16 MB costs 6 to 8 times as much, in page faults.
    pub(crate) fn replace_with(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.has_room(bytes.len()) {
            self.room(bytes.len()).copy_from_slice(bytes);
        } else {
            let mut larger = self.allocate(bytes.len())?;
            larger.bytes_mut().copy_from_slice(bytes);
            self.adopt(larger);
        }
        Ok(bytes.len())
    }

    /// Zeroed bytes that may become the buffer.
    pub(crate) fn allocate(&self, length: usize) -> Result<Allocation> {
        Allocation::zeroed(length, self.heap)
    }

    /// Frees the buffer and gives HDF5 another one, all of it data.
    pub(crate) fn adopt(&mut self, allocation: Allocation) {
        // SAFETY: HDF5 allocated the buffer and expects the filter to free it when it replaces it.
        unsafe { self.heap.free(*self.buffer) };
        (*self.size, self.used) = (allocation.length, allocation.length);
        *self.buffer = allocation.into_raw();
    }
}

/// Bytes as HDF5 will free them.
pub(crate) struct Allocation {
    address: *mut c_void,
    length: usize,
    heap: Heap,
}

impl Allocation {
    /// Zeroed, because a slice must not have undefined bytes.
    pub(crate) fn zeroed(length: usize, heap: Heap) -> Result<Self> {
        // 1 replaces 0, for which it might return null.
        let address = heap.allocate_zeroed(length.max(1));
        if address.is_null() {
            return Err(Error::OutOfMemory { bytes: length as u64 });
        }
        Ok(Self { address, length, heap })
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `length` bytes, all 0 at first, that belong to this value alone; no heap gives more than isize::MAX.
        unsafe { slice::from_raw_parts_mut(self.address.cast(), self.length) }
    }

    pub(crate) fn into_raw(self) -> *mut c_void {
        let address = self.address;
        std::mem::forget(self);
        address
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: of the heap, and owned by this value.
        unsafe { self.heap.free(self.address) };
    }
}
