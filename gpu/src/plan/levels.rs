//! Interpolation: the levels of a chunk, and their launches in both directions.

use cudarc::driver::CudaStream;

use super::sizes::Sizes;
use crate::declare::SharedStruct;
use crate::error::Result;
use crate::job::{COARSE_THREADS, COARSE_VALUES, CoarseLevels, FinePass, MAX_RANK, PASS_BLOCKS, Shape, THREADS};
use crate::launch::LevelKernels;

/// Most levels: extents have 32 bits.
const MOST_LEVELS: usize = 33;

/// Levels of an interpolated chunk: level `l` has every `2^l`-th value along each axis.
struct Levels {
    rank: u32,
    /// Extents of each level. Behind the coarsest level, the extents are 1.
    extents: [[usize; MAX_RANK]; MOST_LEVELS],
    /// Number of the coarsest level, a single value.
    coarsest: usize,
    /// The finest level that one block of threads does, with all coarser ones.
    coarse: usize,
}

impl Levels {
    fn new(shape: &Shape) -> Self {
        let mut next = shape.extents.map(|extent| extent as usize);
        let extents = [(); MOST_LEVELS].map(|()| {
            let extents = next;
            next = next.map(|extent| extent.div_ceil(2));
            extents
        });
        let is_coarse = |extents: &[usize; MAX_RANK]| extents.iter().product::<usize>() <= COARSE_VALUES;
        let coarsest = extents.iter().position(|&extents| extents == [1; MAX_RANK]).unwrap_or(MOST_LEVELS - 1);
        let coarse = extents.iter().position(is_coarse).unwrap_or(coarsest);
        Self { rank: shape.rank, extents, coarsest, coarse }
    }

    /// The passes of the fine levels, each with the number of pairs of values that it takes.
    fn passes(&self) -> impl Iterator<Item = (FinePass, usize)> {
        let pass = |level: usize, size: u32| (FinePass { level: level as u32, size }, pairs_of(&self.extents[level], size));
        (0..self.coarse).rev().flat_map(move |level| (0..self.rank).map(move |size| pass(level, size)))
    }
}

/// Pairs of neighbours along the fastest axis, in those rows of a level that are odd along exactly `size` other axes.
fn pairs_of(extents: &[usize; MAX_RANK], size: u32) -> usize {
    let pairs = |set: u32| -> usize {
        let rows = extents
            .iter()
            .enumerate()
            .skip(1)
            .map(|(axis, extent)| if set >> axis & 1 == 1 { extent / 2 } else { extent.div_ceil(2) });
        rows.product::<usize>() * extents[0].div_ceil(2)
    };
    (0u32..16).step_by(2).filter(|set| set.count_ones() == size).map(pairs).sum()
}

/// Launches the kernels of all levels, to encode or to decode.
pub(super) fn interpolate<Job: SharedStruct>(
    stream: &CudaStream,
    kernels: &LevelKernels<Job>,
    job: &Job,
    shape: &Shape,
    sizes: &Sizes,
    multiprocessors: u32,
) -> Result<()> {
    let levels = Levels::new(shape);
    let coarse = CoarseLevels { finest: levels.coarse as u32, coarsest: levels.coarsest as u32 };
    kernels.coarse.launch(stream, (1, sizes.chunks as u32, 1), COARSE_THREADS, job, coarse)?;
    for (pass, pairs) in levels.passes() {
        let grid = sizes.grid(multiprocessors, PASS_BLOCKS, pairs.div_ceil(THREADS as usize));
        kernels.pass.launch(stream, grid, THREADS, job, pass)?;
    }
    Ok(())
}
