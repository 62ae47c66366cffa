//! What a thread does with one chunk of a dataset that is written.

use quire_codec::{Config, memory};

use super::Outcome;
use super::crew::{Fault, Fetched, Work};
use super::dataset::Facts;
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
    type Fetched = Fetched;
    type Made = Vec<u8>;

    fn compute(&self, chunk: usize, fetched: &mut Fetched, made: &mut Vec<u8>) -> Result<(), Fault> {
        let overlap = self.facts.touched.overlap(chunk);
        let outcome: Outcome<()> = with_kept_buffers(|kept| {
            if let Some(values) = self.source.piece(&overlap, &self.facts.dense) {
                return self.encode(values, made, kept);
            }
            let mut values = std::mem::take(&mut kept.chunk);
            let outcome = self.gather(fetched, &overlap, &mut values, kept).and_then(|values| self.encode(values, made, kept));
            kept.chunk = values;
            outcome
        });
        Ok(outcome?)
    }
}

impl Writing {
    /// A chunk as HDF5 would have it: the file's values, or fill values where it has none, and what was selected over them.
    fn gather<'a>(&self, fetched: &Fetched, overlap: &Overlap, values: &'a mut Vec<u8>, kept: &mut Buffers) -> Outcome<&'a [u8]> {
        let length = self.facts.dense.bytes();
        memory::lengthen(values, length)?;
        let values = &mut values[..length];
        if !overlap.is_whole {
            self.facts.decode(fetched, values, kept)?;
        }
        self.source.gather(&self.facts.touched, overlap, &self.facts.dense, values);
        Ok(values)
    }

    fn encode(&self, values: &[u8], made: &mut Vec<u8>, kept: &mut Buffers) -> Outcome<()> {
        let Buffers { workspace, stream, history, .. } = kept;
        let mut compressed = backend::compress(values, &self.facts.layout, &self.config, workspace, stream, history)?;
        Ok(memory::extend(made, compressed.bytes())?)
    }
}
