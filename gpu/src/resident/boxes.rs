//! Values between a caller's arrays and chunks in C order, and runs of bytes.

use quire_codec::memory;

use super::{ArrayAxes, Part};
use crate::declare::{Address, ConstPointer};
use crate::error::Result;
use crate::job::{BOX_AXES, BoxJob, CopiedBox, CopiedRun, RunJob, THREADS};
use crate::launch::{Kernels, TypeKernels};
use crate::set_session::SetSession;

/// Values that a thread copies at a time, and most blocks of threads a box.
const VALUES_PER_BLOCK: u64 = 4 * THREADS as u64;
/// See [`VALUES_PER_BLOCK`].
const MAX_BLOCKS: u64 = 64;
/// Bytes that a block of threads copies of a run at a time.
const BYTES_PER_BLOCK: u64 = 16 * THREADS as u64;

/// Which way values go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From a caller's array to chunks.
    Gather,
    /// From chunks to a caller's array.
    Scatter,
    /// From one value each to whole chunks.
    Fill,
}

/// Boxes to be copied in one launch.
pub(super) struct Boxes {
    way: Way,
    boxes: Vec<CopiedBox>,
}

impl Boxes {
    pub(super) fn new(way: Way) -> Self {
        Self { way, boxes: Vec::new() }
    }

    /// Adds a part of the chunk that is at `chunk` in C order.
    pub(super) fn add(&mut self, part: &Part<'_>, chunk: Address) -> Result<()> {
        let inside = chunk + part.offset;
        let (from, to) = if self.way == Way::Gather { (part.address, inside) } else { (inside, part.address) };
        Ok(memory::push(&mut self.boxes, CopiedBox { from, to, lens: part.lens })?)
    }

    /// Adds a chunk at `chunk`, in C order, that is filled with the value at `value`.
    pub(super) fn add_filled(&mut self, axes: &ArrayAxes, value: Address, chunk: Address) -> Result<()> {
        Ok(memory::push(&mut self.boxes, CopiedBox { from: value, to: chunk, lens: axes.extents() })?)
    }

    /// Starts copying the boxes.
    pub(super) fn launch(self, session: &mut SetSession, kernels: &TypeKernels, axes: &ArrayAxes) -> Result<()> {
        let most = self.boxes.iter().map(|copied| copied.lens.iter().map(|&len| u64::from(len)).product::<u64>()).max();
        let Some(most) = most.filter(|&most| most > 0) else { return Ok(()) };
        let (from_strides, to_strides) = match self.way {
            Way::Gather => (axes.strides, axes.dense),
            Way::Scatter => (axes.dense, axes.strides),
            Way::Fill => ([0; BOX_AXES], axes.dense),
        };
        let boxes = ConstPointer::new(session.send_table(&self.boxes)?);
        // A chunk of one value has one axis, of one value.
        let job = BoxJob { from_strides, to_strides, boxes, axes: axes.count.max(1) as u32, reserved: 0 };
        let blocks = most.div_ceil(VALUES_PER_BLOCK).min(MAX_BLOCKS) as u32;
        kernels.copy_boxes.launch(&session.stream, (blocks, self.boxes.len() as u32, 1), THREADS, &job, ())
    }
}

/// Starts copying runs of bytes.
pub(super) fn copy_runs(session: &mut SetSession, kernels: &Kernels, runs: &[CopiedRun]) -> Result<()> {
    let Some(most) = runs.iter().map(|run| run.bytes).max().filter(|&most| most > 0) else { return Ok(()) };
    let job = RunJob { runs: ConstPointer::new(session.send_table(runs)?) };
    let blocks = most.div_ceil(BYTES_PER_BLOCK).min(MAX_BLOCKS) as u32;
    kernels.copy_runs.launch(&session.stream, (blocks, runs.len() as u32, 1), THREADS, &job, ())
}
