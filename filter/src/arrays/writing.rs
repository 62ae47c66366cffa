//! What a thread does with one chunk of a dataset that is written.

use quire_codec::{Config, memory};
use quire_gpu::{Chunk, ChunkRoom};

use super::Outcome;
use super::crew::{Fault, Fetched, Work};
use super::dataset::Facts;
use super::portions::{InPortions, PerChunk};
use super::strided::Strided;
use super::touched::Overlap;
use crate::backend;
use crate::fence::{Buffers, with_kept_buffers};

/// A write: where values come from, and how they are compressed.
pub(super) struct Writing {
    pub(super) facts: Facts,
    pub(super) source: Strided,
    pub(super) config: Config<'static>,
}

impl Work for Writing {
    type Fetched = PerChunk<Fetched>;
    type Made = PerChunk<Vec<u8>>;

    fn compute(&self, chunk: usize, fetched: &mut PerChunk<Fetched>, made: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        self.compress(chunk, &fetched.0, made)
    }

    fn chunk_bytes(&self) -> usize {
        self.facts.dense.bytes()
    }
}

impl InPortions for Writing {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn is_fetched(&self, chunk: usize) -> bool {
        !self.facts.touched.overlap(chunk).is_whole
    }

    fn compress(&self, chunk: usize, fetched: &[Fetched], made: &mut PerChunk<Vec<u8>>) -> Result<(), Fault> {
        let (fetched, made) = (&fetched[0], &mut made.for_chunks(1)?[0]);
        let overlap = self.facts.touched.overlap(chunk);
        let outcome: Outcome<()> = with_kept_buffers(|kept| {
            let staging = backend::staging(self.facts.dense.bytes());
            if staging.is_none()
                && let Some(values) = self.source.piece(&overlap, &self.facts.dense)
            {
                return self.encode(values.into(), made, kept);
            }
            self.facts.with_room(staging, kept, |mut room, kept| {
                self.gather(fetched, &overlap, room.lend(), kept)?;
                self.encode(room.chunk(), made, kept)
            })
        });
        Ok(outcome?)
    }
}

impl Writing {
    /// A chunk as HDF5 would have it: the file's values, or fill values where it has none, and what was selected over them.
    fn gather(&self, fetched: &Fetched, overlap: &Overlap, mut room: ChunkRoom<'_>, kept: &mut Buffers) -> Outcome<()> {
        if !overlap.is_whole {
            self.facts.decode(fetched, room.lend(), kept)?;
        }
        self.source.gather(&self.facts.touched, overlap, &self.facts.dense, room.bytes);
        Ok(())
    }

    fn encode(&self, values: Chunk<'_>, made: &mut Vec<u8>, kept: &mut Buffers) -> Outcome<()> {
        let Buffers { workspace, stream, history, .. } = kept;
        let mut compressed = backend::compress(values, &self.facts.layout, &self.config, workspace, stream, history)?;
        Ok(memory::extend(made, compressed.bytes())?)
    }
}
