//! Choice of a chunk's predictor (FORMAT.md §6, §11): differences along a set of axes, or interpolation. The encoder estimates the bits that the residuals of
//! each predictor take on a sample, and takes the predictor with the smallest estimate.
//!
//! ```text
//! chunk ─ sample of tiles, a tile in each lane ─ each predictor ─> residuals ─> counts ─ estimate of bits ─> the least
//! ```
//!
//! The host or a GPU counts the residuals ([`SampleCounts`]). Counts and estimates are integers, so that the CPU's and the GPU's encoders make equal choices.

mod counts;
pub(crate) mod grid_kind;
mod lanes;
#[cfg(test)]
mod plain;
mod sample;
#[cfg(test)]
mod tests;

pub use self::counts::{Counts, OUTLIER_BITS};
pub use self::lanes::SETS;
pub(crate) use self::lanes::SampleLanes;
pub use self::sample::{MAX_TILE_VALUES, Sample, TILES};

use std::convert::Infallible;

use crate::config::{CodingPolicy, PredictorPolicy, SettledBound, SettledConfig};
use crate::error;
use crate::layout::{Axes, ByteOrder, Layout, MAX_RANK, Scalar, Shape};
use crate::number::dispatch::with_float;
use crate::number::element::Element;
use crate::number::fixed_log2::LOG_FRACTION;
use crate::number::value::Value;
use crate::predict::predictor::{InterpolationKind, LevelSteps, Predictor};
use crate::quantize::grid::Grid;
use crate::quantize::quantizer::Quantizer;

/// Number of kinds of interpolation, by their numbers.
pub const KINDS: usize = 2 << MAX_RANK;
/// Interpolation is not tried if more than 1 / this of the values are out of the fine grid's reach.
pub const VALUES_PER_VALUE_OUT_OF_REACH: usize = 2;
/// Estimated bits of each end of a run of zeros along a row, where zeros are masked.
pub const EDGE_BITS: u64 = 8;
/// Fixed cost of the planes of exceptions where zeros are masked, in ends of runs ([`EDGE_BITS`] each).
const EDGES_OF_PLANES: usize = 128;
/// If interpolation beats differences only with masked zeros, its estimate must be below this / 16 of theirs. The estimate does not see that a masked zero
/// makes the predictions of its neighbours worse.
pub const MASKED_SIXTEENTHS: u128 = 13;
/// No other kind is tried if cubic interpolation is estimated to take this much more than differences: 3/4 bit a value, in fixed point.
pub const CUBIC_MARGIN: u64 = 3 << (LOG_FRACTION - 2);
/// A kind of interpolation takes the place of another if its estimate is smaller by this much: 1/256 bit a value, in fixed point. Less than that on the sample
/// says nothing of the chunk.
pub const KIND_MARGIN: u64 = 1 << (LOG_FRACTION - 8);
/// Interpolation along three axes or more has finer steps on coarse levels if its estimate is below this: 0.4 bits a residual, in fixed point with
/// [`LOG_FRACTION`] fraction bits. Most of such residuals are due to the rounding errors of the values that predict others.
const FINER_STEPS_BELOW: u32 = 26_214;

/// An estimate of the bits of `values` residuals, in fixed point.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    bits: u64,
    values: u32,
}

impl Estimate {
    /// Whether the bits per value plus `margin` are below `sixteenths` / 16 of those of `other`.
    fn is_below(&self, sixteenths: u128, margin: u64, other: &Self) -> bool {
        let bits = u128::from(self.bits) + u128::from(margin) * u128::from(self.values);
        16 * bits * u128::from(other.values) < sixteenths * u128::from(other.bits) * u128::from(self.values)
    }
}

/// A kind of interpolation that was tried.
#[derive(Clone, Copy)]
struct Tried {
    kind: InterpolationKind,
    counts: Counts,
    estimate: Estimate,
}

/// The axes of a chunk longer than 1, as a set.
fn long_axes(shape: &Shape) -> usize {
    (0..MAX_RANK).filter(|&axis| shape.extents()[axis] > 1).map(|axis| 1 << axis).sum()
}

/// The axes of a set.
fn axes_of(set: usize, shape: &Shape) -> Axes {
    Axes::from_byte(set as u8, shape).unwrap_or(Axes::all(shape))
}

/// The set of axes longer than 1 whose differences have the smallest estimate, and this estimate. The first of equal sets is taken. But the empty set comes
/// last if all estimates are 0: such a sample says nothing of the chunk's other values, which may need a prediction. A chunk's first values along an axis have
/// the differences along the other axes. The sample counts no such values, so that the estimates are corrected for them.
fn best_set(counts: &[Counts; SETS], shape: &Shape) -> (usize, Estimate) {
    let long = long_axes(shape);
    let sets = (0..SETS).filter(|set| set & !long == 0);
    let mut bits = counts.map(|counts| u128::from(counts.bits(0)));
    for (axis, extent) in shape.extents().into_iter().enumerate() {
        for set in sets.clone().filter(|set| set >> axis & 1 == 1) {
            bits[set] = (bits[set] * (extent as u128 - 1) + bits[set ^ 1 << axis]) / extent as u128;
        }
    }
    let set = sets.min_by_key(|&set| (bits[set], set == 0 && bits[set] == 0)).unwrap_or(0);
    (set, Estimate { bits: bits[set] as u64, values: counts[set].values })
}

/// Counts over the residuals of predictors on a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleCounts {
    /// Differences along each set of axes.
    pub differences: [Counts; SETS],
    /// Counts over the residuals that count ([`Sample::uncounted_residuals`]), by the number of the kind of interpolation. Kinds that were not interpolated
    /// have zeros.
    pub interpolations: [Counts; KINDS],
    /// Number of values with a code that are out of the fine grid's reach.
    pub out_of_reach: usize,
    /// Number of pairs of neighbours along a row of which exactly one is a zero.
    pub zero_edges: usize,
}

/// The choice of the predictor of a chunk of floating-point numbers on an absolute bound's rounding grid. It decides from the counts that the host or a device
/// makes.
#[derive(Debug, Clone, Copy)]
pub struct PredictorChoice {
    shape: Shape,
    /// The chunk's sample.
    pub sample: Sample,
    /// The chunk's grid as the counts need it.
    pub quantizer: Quantizer,
    is_interpolation_open: bool,
    /// Interpolation has finer steps on coarse levels if its estimated bits per residual, in fixed point, are below this: 0 for never.
    pub finer_steps_below: u32,
}

impl PredictorChoice {
    /// Whether `config` leaves the predictor of chunks of this type open: for floating-point numbers with an absolute bound.
    #[must_use]
    pub fn is_open(scalar: Scalar, config: &SettledConfig) -> bool {
        scalar.is_float()
            && matches!(config.bound, SettledBound::Absolute(_))
            && matches!(config.predictor, PredictorPolicy::Auto | PredictorPolicy::Differences)
    }

    /// The choice for a chunk that is not constant; `None` if `config` leaves nothing open. If the chunk's first values show that it has no lattice, `chunk`
    /// may be these values alone ([`lattice::is_off`](crate::quantize::lattice::is_off)).
    #[must_use]
    pub fn of_chunk(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> Option<Self> {
        let (true, SettledBound::Absolute(bound)) = (Self::is_open(layout.scalar, config), config.bound) else { return None };
        with_float!(
            layout.scalar,
            V => {
                let quantizer = Quantizer::for_chunk::<V>(chunk, layout.byte_order, bound, config.fills::<V>(), config.keep);
                Some(Self::new::<V>(&layout.shape, &quantizer, config))
            },
            else None
        )
    }

    /// The choice on a grid.
    fn new<V: Value>(shape: &Shape, quantizer: &Quantizer, config: &SettledConfig) -> Self {
        let finer_steps_below = match long_axes(shape).count_ones() {
            2.. if config.for_less_noise => u32::MAX,
            3.. => FINER_STEPS_BELOW,
            _ => 0,
        };
        Self {
            shape: *shape,
            sample: Sample::of(shape),
            quantizer: *quantizer,
            is_interpolation_open: config.coding != CodingPolicy::Bitshuffle
                && config.predictor != PredictorPolicy::Differences
                && quantizer.fine::<V>().is_some(),
            finer_steps_below,
        }
    }

    /// The kinds of interpolation that the decision may ask for, the one without rough axes first: none where interpolation is no candidate.
    pub fn candidates(&self) -> impl Iterator<Item = InterpolationKind> + use<> {
        let is_open = self.is_interpolation_open;
        let rough = std::iter::once(0).chain(self.rough_axes()).filter(move |_| is_open);
        rough.flat_map(|rough| [false, true].map(|is_linear| InterpolationKind::new(rough, is_linear)))
    }

    /// Each axis that may be rough, as a set, the fastest first: the axes longer than 1, or none if there is only one.
    fn rough_axes(&self) -> impl Iterator<Item = u8> + use<> {
        let long = long_axes(&self.shape) as u8;
        [1, 2, 4, 8].into_iter().filter(move |&axis| long & axis != 0 && long != axis)
    }

    /// The sample's share of `EDGES_OF_PLANES`.
    #[must_use]
    pub fn edges_of_planes(&self) -> usize {
        EDGES_OF_PLANES * TILES * self.sample.len / self.shape.elements() as usize
    }

    /// The chunk's grid. `masks_zeros`: whether zeros are exceptions.
    #[must_use]
    pub fn grid(&self, masks_zeros: bool) -> Grid {
        Grid::Linear(if masks_zeros { self.quantizer.masking_zeros() } else { self.quantizer })
    }

    /// The grid and the predictor that follow from counts over the residuals of all candidates.
    #[must_use]
    pub fn decide(&self, counts: &SampleCounts) -> (Grid, Predictor) {
        let Ok(chosen) = self.decide_by(counts, |kind| Ok::<_, Infallible>(counts.interpolations[kind.number()]));
        chosen
    }

    /// The grid and the predictor that follow from counts. `interpolate` counts the residuals of a kind of interpolation.
    fn decide_by<E>(
        &self,
        known: &SampleCounts,
        mut interpolate: impl FnMut(InterpolationKind) -> Result<Counts, E>,
    ) -> Result<(Grid, Predictor), E> {
        let (set, differences) = best_set(&known.differences, &self.shape);
        let by_differences = (self.grid(false), Predictor::from(axes_of(set, &self.shape)));
        if !self.is_interpolation_open || known.out_of_reach > TILES * self.sample.len / VALUES_PER_VALUE_OUT_OF_REACH {
            return Ok(by_differences);
        }
        // Zeros are escapes, or exceptions if exceptions take fewer bits. Where a fill value is masked, zeros cannot be.
        let bits_as_exceptions = match self.quantizer.fills().value() {
            Some(_) => u64::MAX,
            None => EDGE_BITS * (known.zero_edges + self.edges_of_planes()) as u64,
        };
        let bits_as_escapes = |counts: &Counts| OUTLIER_BITS * u64::from(counts.zero_escapes);
        let estimate = |counts: &Counts, of_zeros: u64| Estimate { bits: counts.bits(of_zeros), values: counts.values };
        let mut try_kind = |rough: u8, is_linear: bool| {
            let kind = InterpolationKind::new(rough, is_linear);
            let of_zeros = |counts: &Counts| bits_as_escapes(counts).min(bits_as_exceptions);
            interpolate(kind).map(|counts| Tried { kind, counts, estimate: estimate(&counts, of_zeros(&counts)) })
        };
        let better = |best: Tried, other: Tried| {
            let margin = KIND_MARGIN * u64::from(other.estimate.values);
            if other.estimate.bits + margin < best.estimate.bits { other } else { best }
        };
        let cubic = try_kind(0, false)?;
        if differences.is_below(16, CUBIC_MARGIN, &cubic.estimate) {
            return Ok(by_differences);
        }
        let mut best = better(cubic, try_kind(0, true)?);
        let is_linear = best.kind.is_linear();
        for rough in self.rough_axes() {
            best = better(best, try_kind(rough, is_linear)?);
        }
        if best.kind.rough() != 0 {
            best = better(best, try_kind(best.kind.rough(), !is_linear)?);
        }
        let Tried { kind, counts, estimate: best } = best;
        let masks_zeros = bits_as_exceptions < bits_as_escapes(&counts);
        let sixteenths = if masks_zeros { MASKED_SIXTEENTHS } else { 16 };
        let as_escapes = estimate(&counts, bits_as_escapes(&counts));
        if !best.is_below(sixteenths, 0, &differences) && !as_escapes.is_below(16, 0, &differences) {
            return Ok(by_differences);
        }
        let is_finer = best.bits < u64::from(self.finer_steps_below) * u64::from(best.values);
        let kind = kind.with_steps(if is_finer { LevelSteps::Finer } else { LevelSteps::Equal });
        Ok((self.grid(masks_zeros), Predictor::Interpolation(kind)))
    }

    /// Loads a chunk's sample, and counts what the decision asks for first.
    fn load<V: Value>(&self, lanes: &mut SampleLanes, chunk: &[u8], order: ByteOrder) -> error::Result<SampleCounts> {
        lanes.load::<V>(&self.sample, chunk, order, &self.quantizer)?;
        let is_open = self.is_interpolation_open;
        Ok(SampleCounts {
            differences: lanes.differences(&self.sample, is_open),
            interpolations: [Counts::default(); KINDS],
            out_of_reach: if is_open { lanes.out_of_reach() } else { 0 },
            zero_edges: if is_open { lanes.zero_edges(self.sample.extents[0]) } else { 0 },
        })
    }

    /// Counts the residuals of all candidates on the host: what a device is compared with. `chunk` is the chunk that the choice was made for.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn count(&self, chunk: &[u8], layout: &Layout) -> error::Result<SampleCounts> {
        let mut lanes = SampleLanes::default();
        let mut counts = with_float!(
            layout.scalar,
            V => self.load::<V>(&mut lanes, chunk, layout.byte_order)?,
            else unreachable!("the choice is for floating-point numbers alone")
        );
        for kind in self.candidates() {
            counts.interpolations[kind.number()] = lanes.interpolate(&self.sample, kind)?;
        }
        Ok(counts)
    }
}

impl SampleLanes {
    /// Chooses the axes along which the differences of 64-bit codes are taken. Returns the axes and the estimated bits of the sample, in fixed point with
    /// [`LOG_FRACTION`] fraction bits. `code` maps a value to its code.
    pub(crate) fn choose_axes<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        policy: PredictorPolicy,
        code: impl Fn(V) -> i64,
    ) -> error::Result<(Axes, u64)> {
        let sample = Sample::of(&layout.shape);
        let counts = self.differences_of_codes::<V>(&sample, chunk, layout.byte_order, code)?;
        let long = long_axes(&layout.shape);
        let set = match policy {
            PredictorPolicy::Axes(byte) => usize::from(byte) & long,
            PredictorPolicy::Lorenzo | PredictorPolicy::Interpolation(_) => long,
            PredictorPolicy::Auto | PredictorPolicy::Differences => best_set(&counts, &layout.shape).0,
        };
        Ok((axes_of(set, &layout.shape), counts[set].bits(0)))
    }

    /// Chooses the predictor of a chunk of floating-point numbers on an absolute bound's rounding grid, and whether zeros are exceptions of the grid. The choice
    /// depends on the chunk's values and `config` alone, not on earlier chunks.
    pub(crate) fn choose<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        config: &SettledConfig,
    ) -> error::Result<(Grid, Predictor)> {
        let all = Axes::all(&layout.shape);
        let on_grid = |predictor: Predictor| Ok((Grid::Linear(*quantizer), predictor));
        match config.predictor {
            PredictorPolicy::Lorenzo => return on_grid(all.into()),
            PredictorPolicy::Axes(byte) => {
                return on_grid(Axes::from_byte(byte & all.to_byte(), &layout.shape).unwrap_or(all).into());
            }
            PredictorPolicy::Interpolation(kind) => {
                let kind = InterpolationKind::new(kind.rough() & all.to_byte(), kind.is_linear()).with_steps(kind.steps());
                return on_grid(if quantizer.fine::<V>().is_some() { Predictor::Interpolation(kind) } else { all.into() });
            }
            PredictorPolicy::Auto | PredictorPolicy::Differences => {}
        }
        let choice = PredictorChoice::new::<V>(&layout.shape, quantizer, config);
        let counts = choice.load::<V>(self, chunk, layout.byte_order)?;
        choice.decide_by(&counts, |kind| self.interpolate(&choice.sample, kind))
    }
}
