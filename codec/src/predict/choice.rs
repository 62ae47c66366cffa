//! Choice of a chunk's predictor (FORMAT.md §6, §11): differences along a set of axes, or interpolation. The encoder estimates the bits that the residuals of
//! each predictor take, and takes the predictor with the smallest estimate.
//!
//! ```text
//! small chunk ─ the encoder's stages ───────────────────────────> residuals ┐
//! chunk ─ sample of tiles, a tile in each lane ─ each predictor ─> residuals ┴> counts ─ estimate of bits ─> the least
//! ```
//!
//! The host counts what the decision asks for. Or a GPU counts the residuals of all predictors ([`SampleCounts`]). Counts and estimates are integers, so that
//! the CPU's and the GPU's encoders make equal choices.

mod counts;
pub(crate) mod grid_kind;
mod lanes;
#[cfg(test)]
mod plain;
mod sample;
mod small;
#[cfg(test)]
mod tests;

pub use self::counts::{Counts, OUTLIER_BITS};
pub use self::lanes::SETS;
pub use self::sample::{MAX_TILE_VALUES, Sample, TILES};

use self::lanes::SampleLanes;
use crate::config::{CodingPolicy, PredictorPolicy, SettledBound, SettledConfig};
use crate::error::Result;
use crate::layout::{Axes, Layout, MAX_RANK, Shape};
use crate::number::dispatch::with_float;
use crate::number::element::Element;
use crate::number::fixed_log2::LOG_FRACTION;
use crate::number::value::Value;
use crate::predict::predictor::{InterpolationKind, LevelSteps, Predictor};
use crate::predict::quantized::Quantized;
use crate::quantize::grid::Grid;
use crate::quantize::quantizer::Quantizer;

/// Number of kinds of interpolation, by their numbers.
pub const KINDS: usize = 2 << MAX_RANK;
/// Interpolation is not tried if more than 1 / this of the values are out of the fine grid's reach.
pub const VALUES_PER_VALUE_OUT_OF_REACH: usize = 2;
/// Estimated bits of an end of a row of zeros, where zeros are exceptions.
pub const EDGE_BITS: u64 = 8;
/// Ends of rows of zeros that would take as many bits as what the planes of exceptions have besides.
const EDGES_OF_PLANES: usize = 128;
/// Where interpolation is no better than differences unless zeros are exceptions, its estimate must be below this / 16 of that of differences: neighbours of
/// zeros are predicted worse then, which the estimate does not see.
pub const MASKED_SIXTEENTHS: u128 = 13;
/// If cubic interpolation takes more than this many bits per value more than differences, in fixed point, no other kind is tried: 3/4 bit.
pub const CUBIC_MARGIN: u64 = 3 << (LOG_FRACTION - 2);
/// Estimated bits per residual, in fixed point with [`LOG_FRACTION`] fraction bits, below which interpolation along three axes or more has finer steps on coarse
/// levels: 0.4 bits. There, noise of the values from which others are predicted makes most of the residuals.
const FINER_STEPS_BELOW: u32 = 26_214;

/// An estimate of the bits of `values` residuals, in fixed point.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    bits: u64,
    values: u32,
}

impl Estimate {
    /// Whether the bits per value, and `margin`, are below `sixteenths` / 16 of those of another estimate.
    fn is_below(&self, sixteenths: u128, margin: u64, other: &Self) -> bool {
        let bits = u128::from(self.bits) + u128::from(margin) * u128::from(self.values);
        16 * bits * u128::from(other.values) < sixteenths * u128::from(other.bits) * u128::from(self.values)
    }
}

/// The axes of a chunk longer than 1, as a set.
fn long_axes(shape: &Shape) -> usize {
    (0..MAX_RANK).filter(|&axis| shape.extents()[axis] > 1).map(|axis| 1 << axis).sum()
}

/// The axes of a set.
fn axes_of(set: usize, shape: &Shape) -> Axes {
    Axes::from_byte(set as u8, shape).unwrap_or(Axes::all(shape))
}

/// The set of axes longer than 1 whose differences take the fewest bits, and their estimate. Of sets with equal estimates the first one is taken. But the empty
/// set is the last one of those without bits: a sample whose codes are all 0 says nothing of other values, and codes that change slowly take many times as long
/// without a prediction. In a sample all counted values have neighbours before them. A chunk's first values along an axis have the differences along the others:
/// `is_sample` says that the estimates are corrected for them.
fn best_set(counts: &[Counts; SETS], shape: &Shape, is_sample: bool) -> (usize, Estimate) {
    let long = long_axes(shape);
    let sets = (0..SETS).filter(|set| set & !long == 0);
    let mut bits = counts.map(|counts| u128::from(counts.bits(0)));
    for (axis, extent) in shape.extents().into_iter().enumerate().filter(|_| is_sample) {
        for set in sets.clone().filter(|set| set >> axis & 1 == 1) {
            bits[set] = (bits[set] * (extent as u128 - 1) + bits[set ^ 1 << axis]) / extent as u128;
        }
    }
    let set = sets.min_by_key(|&set| (bits[set], set == 0 && bits[set] == 0)).unwrap_or(0);
    (set, Estimate { bits: bits[set] as u64, values: counts[set].values })
}

/// Counts over the residuals of all predictors on a sample, as a device hands them over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleCounts {
    /// Differences along each set of axes.
    pub differences: [Counts; SETS],
    /// By the number of the kind of interpolation: residuals that count ([`Sample::uncounted_residuals`]).
    pub interpolations: [Counts; KINDS],
    /// Number of values with a code that are out of the fine grid's reach.
    pub out_of_reach: usize,
    /// Number of neighbours along a row of which one is a zero, and the other is not.
    pub zero_edges: usize,
}

/// The choice of a chunk's predictor on an absolute bound's rounding grid, before residuals are counted.
#[derive(Debug, Clone, Copy)]
struct Choice {
    shape: Shape,
    quantizer: Quantizer,
    is_interpolation_open: bool,
    /// Estimated bits per residual, in fixed point, below which interpolation has finer steps on coarse levels: from 0, for never, to the largest number.
    finer_steps_below: u32,
}

impl Choice {
    /// The choice on a grid.
    fn new<V: Value>(shape: &Shape, quantizer: &Quantizer, config: &SettledConfig) -> Self {
        let finer_steps_below = match long_axes(shape).count_ones() {
            2.. if config.for_less_noise => u32::MAX,
            3.. => FINER_STEPS_BELOW,
            _ => 0,
        };
        Self {
            shape: *shape,
            quantizer: *quantizer,
            is_interpolation_open: config.coding != CodingPolicy::Bitshuffle
                && config.predictor != PredictorPolicy::Differences
                && quantizer.fine::<V>().is_some(),
            finer_steps_below,
        }
    }

    /// The kinds of interpolation that the decision may ask for, the one without rough axes first: none where interpolation is no candidate.
    fn candidates(&self) -> impl Iterator<Item = InterpolationKind> + use<> {
        let is_open = self.is_interpolation_open;
        let rough = std::iter::once(0).chain(self.rough_axes()).filter(move |_| is_open);
        rough.flat_map(|rough| [false, true].map(|is_linear| InterpolationKind::new(rough, is_linear)))
    }

    /// The axes of which one may be rough, each as a set: those longer than 1, the fastest first. None if there is only one.
    fn rough_axes(&self) -> impl Iterator<Item = u8> + use<> {
        let long = long_axes(&self.shape) as u8;
        [1, 2, 4, 8].into_iter().filter(move |&axis| long & axis != 0 && long != axis)
    }

    /// Number of values of which residuals are counted.
    fn looked_at(&self, sample: Option<&Sample>) -> usize {
        sample.map_or(self.shape.elements() as usize, |sample| TILES * sample.len)
    }

    /// See [`TileChoice::edges_of_planes`].
    fn edges_of_planes(&self, sample: Option<&Sample>) -> usize {
        EDGES_OF_PLANES * self.looked_at(sample) / self.shape.elements() as usize
    }

    /// The chunk's grid. `masks_zeros`: whether zeros are exceptions.
    fn grid(&self, masks_zeros: bool) -> Grid {
        Grid::Linear(if masks_zeros { self.quantizer.masking_zeros() } else { self.quantizer })
    }

    /// The grid and the predictor that follow from counts over a sample, or over a chunk without one. `interpolate` counts the residuals of a kind of interpolation.
    fn decide_by(
        &self,
        sample: Option<&Sample>,
        known: &Known,
        mut interpolate: impl FnMut(InterpolationKind) -> Result<Counts>,
    ) -> Result<(Grid, Predictor)> {
        let (set, differences) = best_set(&known.differences, &self.shape, sample.is_some());
        let by_differences = (self.grid(false), Predictor::from(axes_of(set, &self.shape)));
        if !self.is_interpolation_open || known.out_of_reach > self.looked_at(sample) / VALUES_PER_VALUE_OUT_OF_REACH {
            return Ok(by_differences);
        }
        // Zeros are escapes, or exceptions if these take fewer bits. Of two values only one can be masked.
        let bits_as_exceptions = match self.quantizer.fills().value() {
            Some(_) => u64::MAX,
            None => EDGE_BITS * (known.zero_edges + self.edges_of_planes(sample)) as u64,
        };
        let bits_as_escapes = |counts: &Counts| OUTLIER_BITS * u64::from(counts.zero_escapes);
        let estimate = |counts: &Counts, of_zeros: u64| Estimate { bits: counts.bits(of_zeros), values: counts.values };
        let mut try_kind = |rough: u8, is_linear: bool| {
            let kind = InterpolationKind::new(rough, is_linear);
            interpolate(kind).map(|counts| (kind, counts, estimate(&counts, bits_as_escapes(&counts).min(bits_as_exceptions))))
        };
        type Tried = (InterpolationKind, Counts, Estimate);
        let better = |one: Tried, other: Tried| if other.2.bits < one.2.bits { other } else { one };
        let cubic = try_kind(0, false)?;
        if differences.is_below(16, CUBIC_MARGIN, &cubic.2) {
            return Ok(by_differences);
        }
        let mut best = better(cubic, try_kind(0, true)?);
        let is_linear = best.0.is_linear();
        // In a small chunk a kind takes as long as a stream. Where the best set has an axis, differences along it pay, and it is hardly rough.
        for rough in self.rough_axes().filter(|&axis| sample.is_some() || set & usize::from(axis) == 0) {
            best = better(best, try_kind(rough, is_linear)?);
        }
        if best.0.rough() != 0 {
            best = better(best, try_kind(best.0.rough(), !is_linear)?);
        }
        let (kind, counts, best) = best;
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
    fn load<V: Value>(&self, lanes: &mut SampleLanes, sample: &Sample, chunk: &[u8], layout: &Layout) -> Result<Known> {
        lanes.load::<V>(sample, chunk, layout.byte_order, &self.quantizer)?;
        let is_open = self.is_interpolation_open;
        Ok(Known {
            differences: lanes.differences(sample, is_open),
            out_of_reach: if is_open { lanes.out_of_reach() } else { 0 },
            zero_edges: if is_open { lanes.zero_edges(sample.extents[0]) } else { 0 },
        })
    }
}

/// Counts over a chunk or its sample for which no kind of interpolation is needed.
struct Known {
    /// Differences along each set of axes.
    differences: [Counts; SETS],
    /// See [`SampleCounts::out_of_reach`].
    out_of_reach: usize,
    /// See [`SampleCounts::zero_edges`].
    zero_edges: usize,
}

/// The choice of the predictor of a chunk with a sample. A device may count, and decide in the end.
#[derive(Debug, Clone, Copy)]
pub struct TileChoice {
    choice: Choice,
    sample: Sample,
}

impl TileChoice {
    /// Whether a device may count for chunks: for floating-point numbers with an absolute bound, where `config` leaves the predictor open and the chunk has a
    /// sample.
    #[must_use]
    pub fn is_made_for(layout: &Layout, config: &SettledConfig) -> bool {
        layout.scalar.is_float()
            && matches!(config.bound, SettledBound::Absolute(_))
            && matches!(config.predictor, PredictorPolicy::Auto | PredictorPolicy::Differences)
            && Sample::of(&layout.shape).is_some()
    }

    /// The choice for a chunk that is not constant; `None` if no device may count. The chunk's first values suffice in its place if
    /// they show that it has no lattice ([`lattice::is_off`](crate::quantize::lattice::is_off)).
    #[must_use]
    pub fn of_chunk(chunk: &[u8], layout: &Layout, config: &SettledConfig) -> Option<Self> {
        let (true, SettledBound::Absolute(bound)) = (Self::is_made_for(layout, config), config.bound) else { return None };
        let sample = Sample::of(&layout.shape)?;
        with_float!(
            layout.scalar,
            V => {
                let quantizer = Quantizer::for_chunk::<V>(chunk, layout.byte_order, bound, config.fills::<V>());
                Some(Self { choice: Choice::new::<V>(&layout.shape, &quantizer, config), sample })
            },
            else None
        )
    }

    /// The chunk's grid as the counts need it.
    #[must_use]
    pub fn quantizer(&self) -> &Quantizer {
        &self.choice.quantizer
    }

    /// The chunk's sample.
    #[must_use]
    pub fn sample(&self) -> &Sample {
        &self.sample
    }

    /// The kinds of interpolation that the decision may ask for, the one without rough axes first: none where interpolation is no candidate.
    pub fn candidates(&self) -> impl Iterator<Item = InterpolationKind> + use<> {
        self.choice.candidates()
    }

    /// Estimated bits per residual, in fixed point, below which interpolation has finer steps on coarse levels.
    #[must_use]
    pub fn finer_steps_below(&self) -> u32 {
        self.choice.finer_steps_below
    }

    /// The sample's share of the ends of rows of zeros that would take as many bits as what the planes of exceptions have besides.
    #[must_use]
    pub fn edges_of_planes(&self) -> usize {
        self.choice.edges_of_planes(Some(&self.sample))
    }

    /// The chunk's grid. `masks_zeros`: whether zeros are exceptions.
    #[must_use]
    pub fn grid(&self, masks_zeros: bool) -> Grid {
        self.choice.grid(masks_zeros)
    }

    /// The grid and the predictor that follow from counts.
    #[must_use]
    pub fn decide(&self, counts: &SampleCounts) -> (Grid, Predictor) {
        let &SampleCounts { differences, out_of_reach, zero_edges, .. } = counts;
        let known = Known { differences, out_of_reach, zero_edges };
        match self.choice.decide_by(Some(&self.sample), &known, |kind| Ok(counts.interpolations[kind.number()])) {
            Ok(chosen) => chosen,
            Err(_) => unreachable!("nothing is allocated for counts that are there"),
        }
    }

    /// Counts over the residuals of all predictors, by the host: what a device is compared with. `chunk` is the one that the choice was made for.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn count(&self, chunk: &[u8], layout: &Layout) -> Result<SampleCounts> {
        let mut lanes = SampleLanes::default();
        let Known { differences, out_of_reach, zero_edges } = with_float!(
            layout.scalar,
            V => self.choice.load::<V>(&mut lanes, &self.sample, chunk, layout)?,
            else unreachable!("the choice is for floating-point numbers alone")
        );
        let mut interpolations = [Counts::default(); KINDS];
        for kind in self.candidates() {
            interpolations[kind.number()] = lanes.interpolate(&self.sample, kind)?;
        }
        Ok(SampleCounts { differences, interpolations, out_of_reach, zero_edges })
    }
}

/// Buffers of the choice.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    lanes: SampleLanes,
    /// Codes of a small chunk modulo 2^32, and their differences.
    codes: Vec<i32>,
    differences: Vec<i32>,
    /// Codes of a small chunk on other grids, and their differences.
    wide_codes: Vec<i64>,
    wide_differences: Vec<i64>,
}

impl Chooser {
    /// Chooses the axes along which the differences of 64-bit codes are taken. Returns them and the estimate of the bits of the values that were looked at, in
    /// fixed point with [`LOG_FRACTION`] fraction bits. `code` maps a value to its code.
    pub(crate) fn choose_axes<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        policy: PredictorPolicy,
        code: impl Fn(V) -> i64,
    ) -> Result<(Axes, u64)> {
        let sample = Sample::of(&layout.shape);
        let counts = match &sample {
            Some(sample) => self.lanes.differences_of_codes::<V>(sample, chunk, layout.byte_order, code)?,
            None => self.differences_of_codes::<V>(chunk, layout, code)?,
        };
        let long = long_axes(&layout.shape);
        let set = match policy {
            PredictorPolicy::Axes(byte) => usize::from(byte) & long,
            PredictorPolicy::Lorenzo | PredictorPolicy::Interpolation(_) => long,
            PredictorPolicy::Auto | PredictorPolicy::Differences => best_set(&counts, &layout.shape, sample.is_some()).0,
        };
        Ok((axes_of(set, &layout.shape), counts[set].bits(0)))
    }

    /// Chooses the predictor of a chunk of floating-point numbers on an absolute bound's rounding grid, and whether zeros are exceptions of the grid. The choice
    /// depends on the chunk's values and `config` alone, not on earlier chunks. `quantized` is room for a small chunk.
    pub(crate) fn choose<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        config: &SettledConfig,
        quantized: &mut Quantized<'_, V::Code>,
    ) -> Result<(Grid, Predictor)> {
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
        let choice = Choice::new::<V>(&layout.shape, quantizer, config);
        if let Some(sample) = Sample::of(&layout.shape) {
            let known = choice.load::<V>(&mut self.lanes, &sample, chunk, layout)?;
            return choice.decide_by(Some(&sample), &known, |kind| self.lanes.interpolate(&sample, kind));
        }
        let (differences, out_of_reach) = self.differences_of_chunk::<V>(chunk, layout, quantizer, quantized)?;
        let (has_zeros, zero_edges) = small::zeros::<V>(chunk, layout);
        // Of two values only one can be masked.
        let has_zeros = has_zeros && quantizer.fills().value().is_none();
        let known = Known { differences, out_of_reach, zero_edges };
        choice.decide_by(None, &known, |kind| small::interpolate::<V>(chunk, layout, quantizer, kind, has_zeros, quantized))
    }
}
