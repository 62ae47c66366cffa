//! One chunk or stream in the host's memory, from the call to its result.

use quire_codec::stages::{Compressor, with_settled_bound};
use quire_codec::{Config, Layout, Scalar, SettledConfig, Unverified, Verified, Workspace, memory};

use crate::chunk::{Chunk, ChunkRoom};
use crate::copy::{join, split};
use crate::device::{Device, Lease};
use crate::error::{Error, Result, reason};
use crate::session::Session;

impl Device {
    /// Sends a chunk to the GPU and starts compressing it there. The chunk is not needed any more when this returns. From pinned memory it is sent without a
    /// copy on the way.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfMemory` or `Failed`.
    pub fn compress<'a>(&'static self, chunk: impl Into<Chunk<'a>>, layout: &Layout, config: &Config) -> Result<Compressed> {
        Self::check_layout(layout)?;
        let chunk = chunk.into();
        let len = chunk.bytes.len();
        if len as u64 != layout.chunk_bytes() {
            return Err(Error::Unsupported(reason!("chunk has {len} bytes, its layout says {}", layout.chunk_bytes())));
        }
        if !layout.scalar.is_pair() {
            return self.compress_values(chunk, layout, config);
        }
        layout.check_pairs()?;
        self.pair_buffers.with(len, |values| {
            split(chunk.bytes, layout.scalar, values);
            self.compress_values((&*values).into(), layout, config)
        })
    }

    /// Compresses the values of a chunk. Pairs are already split.
    fn compress_values(&'static self, chunk: Chunk<'_>, layout: &Layout, config: &Config) -> Result<Compressed> {
        with_settled_bound(
            chunk.bytes,
            layout,
            config,
            &mut OnDevice { device: self, chunk, layout, fetched: Fetched::default() },
        )
    }

    fn compress_settled(&'static self, chunk: Chunk<'_>, layout: &Layout, config: &SettledConfig) -> Result<Compressed> {
        let mut lease = self.lease()?;
        let started = lease.lent().start_compressing(self.loaded(), chunk, layout, config);
        let job = lease.check(started)?;
        let waited = lease.lent().wait();
        lease.check(waited)?;
        let length = lease.lent().stream_len();
        Ok(Compressed { lease, job, length })
    }

    /// Sends a stream to the GPU and starts decompressing it there. The stream is not read any more when this returns: a caller keeps it only to have the CPU
    /// decode it after a later error.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfMemory`, `Failed`, or `Refused` for a stream whose header already is wrong.
    pub fn decompress(&'static self, stream: Unverified<'_>) -> Result<Decompressing> {
        let mut lease = self.lease()?;
        let started = lease.lent().start_decompressing(self.loaded(), stream);
        let job = lease.check(started)?;
        Ok(Decompressing { lease, job, scalar: stream.header().layout.scalar })
    }
}

/// Compresses one chunk on a GPU.
struct OnDevice<'a> {
    device: &'static Device,
    chunk: Chunk<'a>,
    layout: &'a Layout,
    fetched: Fetched,
}

/// A stream that the host decompresses to measure its noise, or makes of a sample, and the workspace for both.
#[derive(Default)]
struct Fetched {
    stream: Vec<u8>,
    workspace: Workspace,
}

impl Compressor for OnDevice<'_> {
    type Output = Compressed;
    type Error = Error;

    fn compress(&mut self, config: &SettledConfig) -> Result<Compressed> {
        self.device.compress_settled(self.chunk, self.layout, config)
    }

    fn length(&self, output: &Compressed) -> usize {
        output.len()
    }

    fn sample_len(&mut self, sample: &[u8], layout: &Layout, config: &SettledConfig) -> Result<usize> {
        let Fetched { stream, workspace } = &mut self.fetched;
        workspace.compress_settled(sample, layout, config, stream)?;
        Ok(stream.len())
    }

    fn decompress(&mut self, output: &mut Compressed, chunk: &mut [u8]) -> Result<()> {
        let Fetched { stream, workspace } = &mut self.fetched;
        memory::resize(stream, output.length)?;
        let received = output.lease.lent().copy_stream(output.job, stream);
        output.lease.check(received)?;
        Ok(workspace.decompress_values(&Verified::just_made(stream)?, chunk)?)
    }
}

/// A compressed chunk in a session's memory.
pub struct Compressed {
    lease: Lease<Session>,
    /// Number of the job in the session.
    job: usize,
    length: usize,
}

impl Compressed {
    /// Bytes of the stream.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the stream has no bytes: never, as it has a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The stream, if it is in the host's memory already: copying it cannot fail then.
    #[must_use]
    pub fn bytes(&mut self) -> Option<&[u8]> {
        let (job, length) = (self.job, self.length);
        self.lease.lent().stream_on_host(job, length)
    }

    /// Copies the stream to `target`, which has its length.
    ///
    /// # Errors
    /// `Failed`.
    pub fn copy_to(mut self, target: &mut [u8]) -> Result<()> {
        assert_eq!(target.len(), self.length, "room for the stream, no more, no less");
        let fetched = self.lease.lent().copy_stream(self.job, target);
        self.lease.end(fetched)
    }
}

/// A stream that is being decompressed.
pub struct Decompressing {
    lease: Lease<Session>,
    /// Number of the job in the session.
    job: usize,
    scalar: Scalar,
}

impl Decompressing {
    /// Waits for the chunk and writes it to `chunk`, which has its length. After an error its contents are unspecified. The chunk comes to pinned memory
    /// without a copy on the way.
    ///
    /// # Errors
    /// `Refused` for a stream that is not as FORMAT.md says, `Unsupported` if `chunk` has another length, `Failed`.
    pub fn finish<'a>(mut self, chunk: impl Into<ChunkRoom<'a>>) -> Result<()> {
        let chunk = chunk.into();
        let (scalar, job, device) = (self.scalar, self.job, self.lease.device());
        let session = self.lease.lent();
        let fetched = if scalar.is_pair() {
            device.pair_buffers.with(chunk.bytes.len(), |values| {
                session.copy_values(job, (&mut *values).into())?;
                join(values, scalar, chunk.bytes);
                Ok(())
            })
        } else {
            session.copy_values(job, chunk)
        };
        self.lease.end(fetched)
    }
}
