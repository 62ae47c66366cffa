//! A session for sets: CUDA streams, arrays of a job, and tables that the host sends, for one set of resident chunks at a time. It stays from set to set.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use quire_codec::{Workspace, memory};

use crate::declare::Address;
use crate::error::{Context as _, Result};
use crate::loaded::Loaded;
use crate::memory::{DeviceMemory, PinnedMemory, Plain, bytes_of_all, read_plain, upload};
use crate::plan::{Key, Memory, Plan};
use crate::ring::Ring;
use crate::tiles::TileTables;

/// Set sessions of a device. Sets in different sessions overlap: while the host decides on the chunks of one, the GPU works on another.
pub(crate) const MAX_SET_SESSIONS: usize = 3;
/// Tables begin at multiples of this, to which any access is aligned.
const TABLE_ALIGNMENT: usize = 256;

/// A session for one set at a time.
pub(crate) struct SetSession {
    pub(crate) stream: Arc<CudaStream>,
    /// A second stream, for work that does not depend on the first one's: see [`SetSession::beside`].
    second: Arc<CudaStream>,
    /// Arrays of a job.
    pub(crate) arrays: DeviceMemory,
    /// Chunks in C order that are not so in the caller's arrays.
    pub(crate) chunks: DeviceMemory,
    /// Streams, one behind the other.
    pub(crate) streams: DeviceMemory,
    /// Streams, or chunks that the host looks at.
    pub(crate) on_host: PinnedMemory,
    /// What kernels write for the host.
    pub(crate) results: PinnedMemory,
    /// For the choice of predictors.
    pub(crate) tiles: TileTables,
    pub(crate) ring: Ring,
    /// Workspaces of the threads that look at chunks on the host.
    pub(crate) workspaces: Vec<Workspace>,
    tables: DeviceMemory,
    host_tables: PinnedMemory,
    /// Bytes of `tables` that are in use.
    tables_len: usize,
}

impl SetSession {
    pub(crate) fn new(loaded: &Loaded) -> Result<Self> {
        let context: &Arc<CudaContext> = &loaded.context;
        let device_memory = || DeviceMemory::new(context.clone());
        let pinned_memory = || PinnedMemory::new(context.clone());
        Ok(Self {
            stream: context.new_stream().context("making a CUDA stream")?,
            second: context.new_stream().context("making a CUDA stream")?,
            arrays: device_memory(),
            chunks: device_memory(),
            streams: device_memory(),
            on_host: pinned_memory(),
            results: pinned_memory(),
            tiles: TileTables::new(context),
            ring: Ring::new(context)?,
            workspaces: Vec::new(),
            tables: device_memory(),
            host_tables: pinned_memory(),
            tables_len: 0,
        })
    }

    /// Waits for all that was started here.
    pub(crate) fn wait(&self) -> Result<()> {
        self.stream.synchronize().context("waiting for the GPU")
    }

    /// Calls `first`, which puts work into the session's stream, and `second`, which puts work into another stream beside it. Both works wait for all that is in
    /// the session's stream already. What is put there later waits for both.
    pub(crate) fn beside(
        &mut self,
        first: impl FnOnce(&mut Self) -> Result<()>,
        second: impl FnOnce(&mut Self, &Arc<CudaStream>) -> Result<()>,
    ) -> Result<()> {
        const WHAT: &str = "making one CUDA stream wait for another";
        let stream = self.second.clone();
        stream.join(&self.stream).context(WHAT)?;
        let started = first(self).and_then(|()| second(self, &stream));
        self.stream.join(&stream).context(WHAT)?;
        started
    }

    /// A plan with its arrays in this session, for chunks at `addresses`. Streams of the job before may still be on their way out of the arrays.
    pub(crate) fn place<P: Plan>(&mut self, loaded: &Loaded, key: &Key<P::Variant>, addresses: &[Address]) -> Result<P> {
        let needed = P::needed(key);
        if needed > self.arrays.len() {
            self.wait()?;
        }
        self.arrays.grow(needed)?;
        let (arrays, results, tables) = (self.arrays.address(), self.results.address(), loaded.tables());
        Ok(P::new(key, &Memory { arrays, tables, results, values: self.send_table(addresses)?, ..Memory::default() }))
    }

    /// Makes room for `count` tables of `len` bytes in all, in place of those of the last set. Nothing is under way.
    pub(crate) fn reserve_tables(&mut self, len: usize, count: usize) -> Result<()> {
        let len = len + count * TABLE_ALIGNMENT;
        self.tables.grow(len)?;
        self.host_tables.grow(len)?;
        self.tables_len = 0;
        Ok(())
    }

    /// Starts sending a table, which stays until the next [`SetSession::reserve_tables`]. Returns its address in device memory.
    pub(crate) fn send_table<T: Plain>(&mut self, table: &[T]) -> Result<Address> {
        let to = self.tables.address() + self.tables_len as u64;
        self.send(table, to)?;
        Ok(to)
    }

    /// Starts sending a table to an address in device memory. The host's copy takes room among the tables.
    pub(crate) fn send<T: Plain>(&mut self, table: &[T], to: Address) -> Result<()> {
        let stream = self.stream.clone();
        self.send_in(&stream, table, to)
    }

    /// Starts sending a table, as [`SetSession::send`] does, in a CUDA stream of the caller's.
    pub(crate) fn send_in<T: Plain>(&mut self, stream: &CudaStream, table: &[T], to: Address) -> Result<()> {
        let (bytes, at) = (bytes_of_all(table), self.tables_len);
        self.tables_len = (at + bytes.len()).next_multiple_of(TABLE_ALIGNMENT);
        self.host_tables.bytes_mut(at..at + bytes.len()).copy_from_slice(bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        upload(stream, self.host_tables.address() + at as u64, to, bytes.len())
    }

    /// Entry `number` of the results, after [`SetSession::wait`].
    pub(crate) fn result<T: Plain>(&self, number: usize) -> T {
        entry(&self.results, 0, number)
    }

    /// Makes `count` workspaces.
    pub(crate) fn reserve_workspaces(&mut self, count: usize) -> Result<()> {
        while self.workspaces.len() < count {
            memory::push(&mut self.workspaces, Workspace::default())?;
        }
        Ok(())
    }
}

/// Entry `number` of the array that kernels have written from byte `base` on.
pub(crate) fn entry<T: Plain>(results: &PinnedMemory, base: usize, number: usize) -> T {
    let at = base + number * size_of::<T>();
    read_plain(results.bytes(at..at + size_of::<T>()))
}
