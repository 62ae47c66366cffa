//! What a thread does with one chunk of a dataset that is written.

use quire_codec::{Config, memory};

use super::Outcome;
use super::crew::{Fetched, Work};
use super::dataset::Shape;
use super::grid::Part;
use super::strided::Strided;
use crate::backend;
use crate::fence::{Buffers, with_kept_buffers};

/// A write: where values come from, and how they are compressed.
pub(super) struct Writing {
    pub(super) shape: Shape,
    pub(super) source: Strided,
    pub(super) config: Config<'static>,
}

impl Work for Writing {
    fn compute(&self, chunk: usize, fetched: &mut Fetched, made: &mut Vec<u8>) -> Outcome<()> {
        let part = self.shape.grid.part(chunk);
        with_kept_buffers(|kept| {
            if let Some(values) = self.source.piece(&part, &self.shape.dense) {
                return self.encode(values, made, kept);
            }
            let mut values = std::mem::take(&mut kept.chunk);
            let outcome = self.gather(fetched, &part, &mut values, kept).and_then(|values| self.encode(values, made, kept));
            kept.chunk = values;
            outcome
        })
    }
}

impl Writing {
    /// A chunk as HDF5 would have it: the file's values, or fill values where it has none, and what was selected over them.
    fn gather<'a>(&self, fetched: &Fetched, part: &Part, values: &'a mut Vec<u8>, kept: &mut Buffers) -> Outcome<&'a [u8]> {
        let length = self.shape.dense.bytes();
        memory::lengthen(values, length)?;
        let values = &mut values[..length];
        if !part.is_whole {
            self.shape.decode(fetched, values, kept)?;
        }
        self.source.gather(&self.shape.grid, part, &self.shape.dense, values);
        Ok(values)
    }

    fn encode(&self, values: &[u8], made: &mut Vec<u8>, kept: &mut Buffers) -> Outcome<()> {
        let Buffers { workspace, stream, history, .. } = kept;
        let mut compressed = backend::compress(values, &self.shape.layout, &self.config, workspace, stream, history)?;
        Ok(memory::extend(made, compressed.bytes())?)
    }
}
