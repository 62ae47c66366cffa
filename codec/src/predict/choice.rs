//! Which prediction a chunk gets (FORMAT.md §6, §11): differences along some of its axes, or interpolation. The encoder estimates the bits of each: for small
//! chunks with all their values, for others on a few tiles.

pub(crate) mod grid;
mod residual_stats;
mod tile;
mod tiles;
mod whole;

use self::residual_stats::best_set;
use self::tile::Tiles;
use crate::config::{CodingPolicy, Config, PredictorPolicy};
use crate::error::Result;
use crate::layout::Axes;
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::number::element::Element;
use crate::number::value::Value;
use crate::predict::interpolation::Interpolation;
use crate::predict::predictor::Predictor;
use crate::predict::quantized::Quantized;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::quantizer::Quantizer;

/// Interpolation is not tried where more than this share of values, as a denominator, is out of the fine grid's reach.
const OUT_OF_REACH: usize = 16;

/// Does two things, whichever way and on whichever threads; both are done when it returns.
pub type Fork<'a> = dyn FnMut(&mut (dyn FnMut() + Send), &mut (dyn FnMut() + Send)) + 'a;

/// Whether a chunk's predictor is chosen by a look at tiles, which two threads can share; small chunks are tried as a whole.
#[must_use]
pub fn is_chosen_on_tiles(shape: &Shape) -> bool {
    !Tiles::new(shape).are_few()
}

/// Buffers of the choice.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    interpolation: Interpolation,
    tile: Vec<u8>,
    /// Which of a tile's or a small chunk's values count.
    counted: Vec<i32>,
    /// Codes of a tile or a small chunk, then its differences along each set of axes.
    differences: Vec<i32>,
    /// The same where all bits count.
    wide: Vec<i64>,
    residuals: Vec<i32>,
    exceptions: Bitmap,
    /// Those of a second thread.
    second: Option<Vec<Chooser>>,
}

/// The sets of a shape's axes: how many there are, and the axes along which there is but one value and so no difference.
fn sets_of(shape: &Shape) -> (usize, usize) {
    let extents = shape.extents();
    let flat = (0..MAX_RANK).filter(|&axis| extents[axis] == 1).fold(0, |set, axis| set | 1 << axis);
    (1 << shape.dims().len(), flat)
}

/// The axes of a set.
fn axes_of(set: usize, shape: &Shape) -> Axes {
    Axes::from_byte(set as u8, shape).unwrap_or(Axes::all(shape))
}

impl Chooser {
    /// The axes for codes of which every bit counts, and the estimate of the bits that they leave of what is tried, in fixed point.
    pub(crate) fn choose_axes<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        policy: PredictorPolicy,
        code: impl Fn(V) -> i64,
    ) -> Result<(Axes, u64)> {
        let (sets, flat) = sets_of(&layout.shape);
        let tiles = Tiles::new(&layout.shape);
        let left = if tiles.are_few() {
            self.try_axes_on_whole::<V>(chunk, layout, code)?
        } else {
            self.try_axes_on_tiles::<V>(&tiles, chunk, layout, code)?
        };
        let set = match policy {
            PredictorPolicy::Axes(byte) => usize::from(byte) & (sets - 1) & !flat,
            PredictorPolicy::Lorenzo | PredictorPolicy::Interpolation => (sets - 1) & !flat,
            PredictorPolicy::Auto | PredictorPolicy::Differences => best_set(&left, &layout.shape).0,
        };
        Ok((axes_of(set, &layout.shape), left[set].bits()))
    }

    /// The predictor for a chunk on an absolute bound's grid, from its values alone.
    pub(crate) fn choose<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        config: &Config,
        coded: &mut Quantized<'_, V::Code>,
        fork: Option<&mut Fork<'_>>,
    ) -> Result<Predictor> {
        let all = Axes::all(&layout.shape);
        match config.predictor {
            PredictorPolicy::Lorenzo => return Ok(all.into()),
            PredictorPolicy::Axes(byte) => return Ok(Axes::from_byte(byte & all.to_byte(), &layout.shape).unwrap_or(all).into()),
            PredictorPolicy::Interpolation => {
                return Ok(if quantizer.fine::<V>().is_some() { Predictor::Interpolation } else { all.into() });
            }
            PredictorPolicy::Auto | PredictorPolicy::Differences => {}
        }
        let mut fine = FineGrid::<V>::new(quantizer);
        if config.coding == CodingPolicy::Bitshuffle || config.predictor == PredictorPolicy::Differences {
            fine = fine.out_of_reach();
        }
        let tiles = Tiles::new(&layout.shape);
        if tiles.are_few() {
            return self.try_whole::<V>(chunk, layout, quantizer, &fine, coded);
        }
        self.try_tiles::<V>(&tiles, chunk, layout, quantizer, fine, fork)
    }
}
