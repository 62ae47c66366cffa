//! Chunks of a dataset: as they are in the file, and what HDF5 says of where they are. All is looked up at run time; what HDF5 1.10 does not have is optional.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use hdf5_sys::h5::{haddr_t, herr_t, hsize_t};
use hdf5_sys::h5i::hid_t;
use quire_codec::{Error, memory};

use super::datasets::DEFAULT;
use super::{Library, MAX_DATASPACE_RANK, Outcome};

type WriteChunk = unsafe extern "C" fn(hid_t, hid_t, u32, *const hsize_t, usize, *const c_void) -> herr_t;
type ReadChunk = unsafe extern "C" fn(hid_t, hid_t, *const hsize_t, *mut u32, *mut c_void) -> herr_t;
type ChunkBytes = unsafe extern "C" fn(hid_t, *const hsize_t, *mut hsize_t) -> herr_t;

/// The functions that chunks are written and read with as they are in the file, of a library that stays open while this is used.
pub(crate) struct ChunkFunctions {
    write: WriteChunk,
    read: ReadChunk,
    bytes: ChunkBytes,
}

/// Where a chunk is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The filter mask.
    pub(crate) mask: u32,
}

impl Library {
    /// Whether a dataset's chunk index keeps the offset of each chunk, so that whoever goes through the index finds it there. B-trees do, arrays do not. HDF5 does
    /// not document this function, and may do without: then nothing is certain.
    pub(crate) fn index_keeps_offsets(&self, dataset: hid_t) -> bool {
        /// `H5D_CHUNK_IDX_BTREE`, `H5D_CHUNK_IDX_SINGLE` and `H5D_CHUNK_IDX_BT2`
        const KEEP_OFFSETS: [c_int; 3] = [0, 1, 5];
        // SAFETY: this is its signature in every HDF5 since 1.10; a C enum is an int.
        let found: Outcome<c_int> = unsafe { self.ask_number(c"H5Dget_chunk_index_type", dataset) };
        found.is_ok_and(|index| KEEP_OFFSETS.contains(&index))
    }

    /// The number of chunks that a dataset has in its file, after HDF5 has written what its cache has of them.
    pub(crate) fn number_of_chunks(&self, dataset: hid_t) -> Outcome<u64> {
        type Get = unsafe extern "C" fn(hid_t, hid_t, *mut hsize_t) -> herr_t;
        let space = self.space_of(dataset)?;
        // SAFETY: this is its signature in every HDF5 since 1.10.5.
        let get = unsafe { self.function::<Get>(c"H5Dget_num_chunks")? };
        let mut count = 0;
        // SAFETY: HDF5 checks identifiers and writes one number.
        self.succeed(c"H5Dget_num_chunks", unsafe { get(dataset, space.id(), &mut count) })?;
        Ok(count)
    }

    /// The offset of a chunk by its number in HDF5's own order. HDF5 goes through all chunks before.
    pub(crate) fn nth_offset(&self, dataset: hid_t, number: u64) -> Outcome<[u64; MAX_DATASPACE_RANK]> {
        type Get = unsafe extern "C" fn(hid_t, hid_t, hsize_t, *mut hsize_t, *mut c_uint, *mut haddr_t, *mut hsize_t) -> herr_t;
        let space = self.space_of(dataset)?;
        // SAFETY: this is its signature in every HDF5 since 1.10.5.
        let get = unsafe { self.function::<Get>(c"H5Dget_chunk_info")? };
        let mut offset = [0; MAX_DATASPACE_RANK];
        let (mut mask, mut address, mut bytes) = (0, 0, 0);
        // SAFETY: no dataset has more axes than there are indices; HDF5 checks identifiers and writes a number each.
        let returned = unsafe { get(dataset, space.id(), number, offset.as_mut_ptr(), &mut mask, &mut address, &mut bytes) };
        self.succeed(c"H5Dget_chunk_info", returned)?;
        Ok(offset)
    }

    /// Whether [`Library::each_chunk`] can be called: in 1.10 from 1.10.10 on, in 1.12 from 1.12.3 on, and from 1.14 on.
    pub(crate) fn can_list_chunks(&self) -> bool {
        self.address(c"H5Dchunk_iter").is_some()
    }

    /// Hands each chunk that a dataset has in its file to `visit`: HDF5's word for its offset, and its location. `arrays::stored` says when the word counts.
    pub(crate) fn each_chunk<F: FnMut(&[u64], Location)>(&self, dataset: hid_t, rank: usize, visit: F) -> Outcome<()> {
        type Visit = unsafe extern "C" fn(*const hsize_t, c_uint, haddr_t, hsize_t, *mut c_void) -> c_int;
        type Iterate = unsafe extern "C" fn(hid_t, hid_t, Visit, *mut c_void) -> herr_t;
        struct Visitor<F> {
            rank: usize,
            visit: F,
        }
        unsafe extern "C" fn hand_on<F: FnMut(&[u64], Location)>(
            origin: *const hsize_t,
            mask: c_uint,
            address: haddr_t,
            bytes: hsize_t,
            visitor: *mut c_void,
        ) -> c_int {
            // SAFETY: our own pointer to a value that nobody else uses meanwhile.
            let visitor = unsafe { &mut *visitor.cast::<Visitor<F>>() };
            // SAFETY: HDF5 passes an index an axis of the dataset.
            let origin = unsafe { std::slice::from_raw_parts(origin, visitor.rank) };
            let visit = AssertUnwindSafe(|| (visitor.visit)(origin, Location { address, bytes, mask }));
            if catch_unwind(visit).is_ok() { 0 } else { -1 }
        }
        let mut visitor = Visitor { rank, visit };
        // SAFETY: this is its signature in every release that has it.
        let iterate = unsafe { self.function::<Iterate>(c"H5Dchunk_iter")? };
        // SAFETY: `hand_on` has the signature that is expected and gets the value it expects.
        let returned = unsafe { iterate(dataset, DEFAULT, hand_on::<F>, (&raw mut visitor).cast()) };
        self.succeed(c"H5Dchunk_iter", returned).map(|_| ())
    }

    /// The functions for chunks as they are in the file.
    pub(crate) fn chunk_functions(&self) -> Outcome<ChunkFunctions> {
        // 2.0 gave the name to a macro: this is the function of the old signature.
        let read = if self.address(c"H5Dread_chunk1").is_some() { c"H5Dread_chunk1" } else { c"H5Dread_chunk" };
        // SAFETY: these are their signatures in every HDF5 since 1.10.3.
        unsafe {
            Ok(ChunkFunctions {
                write: self.function(c"H5Dwrite_chunk")?,
                read: self.function(read)?,
                bytes: self.function(c"H5Dget_chunk_storage_size")?,
            })
        }
    }

    /// Reads a chunk as it is in the file, after HDF5 has written what its cache has of it. Returns the filter mask; nothing for a chunk that the file lacks.
    pub(crate) fn read_chunk(
        &self,
        functions: &ChunkFunctions,
        dataset: hid_t,
        origin: &[u64; MAX_DATASPACE_RANK],
        chunk: &mut Vec<u8>,
    ) -> Outcome<u32> {
        chunk.clear();
        let mut mask = 0;
        let length = self.stored_bytes(functions, dataset, origin)?;
        if length == 0 {
            return Ok(mask);
        }
        let length = usize::try_from(length).map_err(|_| Error::OutOfMemory { bytes: length })?;
        memory::resize(chunk, length)?;
        let is_there = self.unless_missing(c"H5Dread_chunk", || {
            // SAFETY: no dataset has more axes than there are indices, and there is room for the chunk, whose length HDF5 has just given.
            unsafe { (functions.read)(dataset, DEFAULT, origin.as_ptr(), &mut mask, chunk.as_mut_ptr().cast()) }
        })?;
        if !is_there {
            chunk.clear();
        }
        Ok(mask)
    }

    /// Bytes that a chunk has in the file, 0 if it is not there. Of a dataset without filters, HDF5 says it also of a chunk that its cache alone has.
    pub(crate) fn stored_bytes(
        &self,
        functions: &ChunkFunctions,
        dataset: hid_t,
        origin: &[u64; MAX_DATASPACE_RANK],
    ) -> Outcome<u64> {
        let mut length = 0;
        let is_there = self.unless_missing(c"H5Dget_chunk_storage_size", || {
            // SAFETY: no dataset has more axes than there are indices; HDF5 writes one number.
            unsafe { (functions.bytes)(dataset, origin.as_ptr(), &mut length) }
        })?;
        Ok(if is_there { length } else { 0 })
    }

    /// Makes a call for a chunk. Whether the chunk is there: HDF5 makes an error of one that is not there, once the dataset has any. The error is not for the
    /// user, for whom HDF5 would print it.
    fn unless_missing(&self, function: &CStr, call: impl FnOnce() -> herr_t) -> Outcome<bool> {
        const MISSING: [&str; 2] = ["chunk storage is not allocated", "chunk address isn't defined"];
        self.without_printing(|| {
            if call() >= 0 {
                return Ok(true);
            }
            let failure = self.failure(function);
            let is_missing = self.innermost_error().is_some_and(|text| MISSING.contains(&text.as_str()));
            if is_missing { Ok(false) } else { Err(failure) }
        })?
    }

    /// Puts a stream into the file. What HDF5's cache has of the chunk is dropped.
    pub(crate) fn write_chunk(
        &self,
        functions: &ChunkFunctions,
        dataset: hid_t,
        origin: &[u64; MAX_DATASPACE_RANK],
        stream: &[u8],
    ) -> Outcome<()> {
        // SAFETY: no dataset has more axes than there are indices; HDF5 reads the stream.
        let returned = unsafe { (functions.write)(dataset, DEFAULT, 0, origin.as_ptr(), stream.len(), stream.as_ptr().cast()) };
        self.succeed(c"H5Dwrite_chunk", returned).map(|_| ())
    }
}
