//! The choice of the predictor for chunks that are large enough for a sample of tiles.
//!
//! ```text
//! TileChoice: grid and tiles ─┬─ the host measures what the decision asks for ─┬─> decision ─> predictor
//!                             └─ or a device measures all of it ─ TileCounts ──┘
//! ```

use super::kinds::{best_kind, possible_kinds};
use super::residual_stats::{CUBIC_MARGIN, ColumnSums, EDGES_OF_PLANES, ResidualStats, StatsOfSets, best_set_with_edges};
use super::tile::{COLUMNS, Tiles};
use super::tile_counts::TileCounts;
use super::{Chooser, VALUES_PER_VALUE_OUT_OF_REACH, axes_of, fine_grid_of, finer_steps_below, is_predictor_open, with_steps};
use crate::config::{Config, ErrorBound};
use crate::error::Result;
use crate::layout::{ByteOrder, Layout, MAX_RANK, Shape};
use crate::memory::resize;
use crate::number::dispatch::with_float;
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::number::rounding::ROUNDING;
use crate::number::value::Value;
use crate::predict::predictor::{InterpolationKind, Predictor};
use crate::quantize::bitmap::{Bitmap, WORD, bits_where};
use crate::quantize::excluded::Excluded;
use crate::quantize::fast_f32::{FastF32, FastResult};
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::gaps::take_left_neighbours;
use crate::quantize::grid::Grid;
use crate::quantize::quantizer::Quantizer;
use crate::simd::widely_vectorized;

/// The choice of a chunk's predictor on tiles, before they are measured. The decision is the same whether the host or a device measures them.
#[derive(Debug, Clone, Copy)]
pub struct TileChoice {
    shape: Shape,
    quantizer: Quantizer,
    /// The tiles of which differences are measured.
    differences: Tiles,
    /// The tiles that are interpolated; `None` where interpolation is no candidate.
    interpolated: Option<Tiles>,
    finer_steps_below: u32,
}

/// What the decision asks of the tiles.
trait Measurements {
    /// Statistics of the differences along each set of axes, and the number of values with a code that are out of the fine grid's reach.
    fn differences(&mut self) -> Result<(StatsOfSets, usize)>;

    /// Whether no interpolated tile has too many values out of the fine grid's reach. Only if it returns true are the methods below called.
    fn can_interpolate(&mut self) -> Result<bool>;

    /// Statistics of the interpolated tiles' residuals of a kind of interpolation.
    fn residuals(&mut self, kind: InterpolationKind) -> Result<ResidualStats>;

    /// Statistics of the differences along a set of axes, on the interpolated tiles.
    fn differences_of_interpolated(&mut self, set: usize) -> Result<ResidualStats>;
}

impl TileChoice {
    /// Whether the predictor of chunks is chosen on tiles: for floating-point numbers with an absolute bound, where `config` leaves the predictor open and
    /// the chunk is not so small that all of its values are looked at.
    #[must_use]
    pub fn is_made_for(layout: &Layout, config: &Config) -> bool {
        layout.scalar.is_float()
            && matches!(config.bound, ErrorBound::Absolute(_))
            && is_predictor_open(config)
            && !Tiles::for_differences(&layout.shape).is_chunk_small()
    }

    /// The choice for a chunk that is not constant; `None` if it is not made on tiles. `config` has a settled bound. The chunk's first values suffice in its
    /// place if they show that it has no lattice ([`lattice::is_off`](crate::quantize::lattice::is_off)).
    #[must_use]
    pub fn of_chunk(chunk: &[u8], layout: &Layout, config: &Config) -> Option<Self> {
        let (true, ErrorBound::Absolute(bound)) = (Self::is_made_for(layout, config), config.bound) else { return None };
        with_float!(
            layout.scalar,
            V => {
                let quantizer = Quantizer::for_chunk::<V>(chunk, layout.byte_order, bound, config.fills::<V>());
                Some(Self::new(&layout.shape, &quantizer, fine_grid_of::<V>(&quantizer, config).is_enabled(), config))
            },
            else None
        )
    }

    /// The choice on a grid. `is_interpolation_open`: whether interpolation is a candidate.
    pub(super) fn new(shape: &Shape, quantizer: &Quantizer, is_interpolation_open: bool, config: &Config) -> Self {
        Self {
            shape: *shape,
            quantizer: *quantizer,
            differences: Tiles::for_differences(shape),
            interpolated: is_interpolation_open.then(|| Tiles::for_interpolation(shape)),
            finer_steps_below: finer_steps_below(shape, config),
        }
    }

    /// The chunk's grid as the measurements need it.
    #[must_use]
    pub fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// The tiles of which differences are measured.
    #[must_use]
    pub fn difference_tiles(&self) -> &Tiles {
        &self.differences
    }

    /// The tiles that are interpolated; `None` where interpolation is no candidate.
    #[must_use]
    pub fn interpolated_tiles(&self) -> Option<&Tiles> {
        self.interpolated.as_ref()
    }

    /// The kinds of interpolation that the decision may ask for, the one without rough axes first.
    pub fn candidates(&self) -> impl Iterator<Item = InterpolationKind> + use<> {
        self.interpolated.map(|_| possible_kinds(&self.shape)).into_iter().flatten()
    }

    /// Estimated bits per residual, in fixed point, below which interpolation has finer steps on coarse levels.
    #[must_use]
    pub fn finer_steps_below(&self) -> u32 {
        self.finer_steps_below
    }

    /// The interpolated tiles' share of `EDGES_OF_PLANES`.
    #[must_use]
    pub fn edges_of_planes(&self) -> usize {
        self.interpolated.map_or(0, |tiles| EDGES_OF_PLANES * tiles.count * tiles.len / self.shape.elements() as usize)
    }

    /// Most values of an interpolated tile that may be out of the fine grid's reach: with more, interpolation is no candidate.
    #[must_use]
    pub fn most_out_of_reach(&self) -> usize {
        self.interpolated.map_or(0, |tiles| tiles.len / VALUES_PER_VALUE_OUT_OF_REACH)
    }

    /// The chunk's grid. `masks_zeros`: whether zeros are exceptions.
    #[must_use]
    pub fn grid(&self, masks_zeros: bool) -> Grid {
        Grid::Linear(if masks_zeros { self.quantizer.masking_zeros() } else { self.quantizer })
    }

    /// The grid and the predictor that follow from the counts of a device, or of [`TileChoice::measure`].
    #[must_use]
    pub fn decide(&self, counts: &TileCounts) -> (Grid, Predictor) {
        match self.decide_by(&mut Measured { choice: self, counts }) {
            Ok(chosen) => chosen,
            Err(_) => unreachable!("nothing is allocated for counts that are there"),
        }
    }

    /// The grid and the predictor that follow from measurements.
    fn decide_by(&self, measurements: &mut impl Measurements) -> Result<(Grid, Predictor)> {
        let (stats, out_of_reach) = measurements.differences()?;
        let (set, with_edges) = best_set_with_edges(&stats, &self.shape);
        let measured = self.differences.count * self.differences.len;
        let is_candidate = self.interpolated.is_some() && out_of_reach <= measured / VALUES_PER_VALUE_OUT_OF_REACH;
        if is_candidate && measurements.can_interpolate()? {
            // The chunk's first values along the axes make its differences longer than those of tiles.
            let differences = measurements.differences_of_interpolated(set)?.estimate().times(with_edges, stats[set].bits());
            let is_hopeless = |cubic: &ResidualStats| differences.is_exceeded_by(CUBIC_MARGIN, &cubic.estimate());
            let (kind, residuals) = best_kind(&self.shape, is_hopeless, |kind| measurements.residuals(kind))?;
            if residuals.are_better_than(&differences) {
                let kind = with_steps((kind, residuals), self.finer_steps_below);
                return Ok((self.grid(residuals.masks_zeros()), Predictor::Interpolation(kind)));
            }
        }
        Ok((self.grid(false), axes_of(set, &self.shape).into()))
    }

    /// All counts, measured on the host: what a device is compared with. `chunk` is the one that the choice was made for.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn measure(&self, chunk: &[u8], layout: &Layout) -> Result<TileCounts> {
        let mut chooser = Chooser::default();
        with_float!(
            layout.scalar,
            V => {
                let fine = FineGrid::<V>::new(&self.quantizer);
                let fine = if self.interpolated.is_some() { fine } else { fine.disabled() };
                let (stats, outliers) = chooser.measure_differences::<V>(self, chunk, layout.byte_order, &fine)?;
                let interpolated = chooser.interpolated.count_all::<V>(self, chunk, layout, &fine)?;
                Ok(TileCounts {
                    differences: stats.map(Into::into),
                    between_steps: outliers.between_steps as u32,
                    out_of_reach: outliers.out_of_fine_reach as u32,
                    interpolated,
                })
            },
            else unreachable!("the choice is on tiles for floating-point numbers alone")
        )
    }
}

/// Counts that answer the decision.
struct Measured<'a> {
    choice: &'a TileChoice,
    counts: &'a TileCounts,
}

impl Measurements for Measured<'_> {
    fn differences(&mut self) -> Result<(StatsOfSets, usize)> {
        let tiles = self.choice.difference_tiles();
        let outliers = tiles.among_counted(self.counts.between_steps.into());
        let mut stats = StatsOfSets::default();
        for set in tiles.sets() {
            stats[set] = self.counts.differences[set].of(tiles.count * tiles.counted_len(), outliers);
        }
        Ok((stats, self.counts.out_of_reach as usize))
    }

    fn can_interpolate(&mut self) -> Result<bool> {
        Ok(self.counts.interpolated.is_some())
    }

    fn residuals(&mut self, kind: InterpolationKind) -> Result<ResidualStats> {
        let (Some(tiles), Some(counts)) = (self.choice.interpolated_tiles(), self.counts.interpolated) else {
            return Ok(ResidualStats::default());
        };
        let values = tiles.count * (tiles.len - tiles.uncounted_residuals());
        Ok(ResidualStats {
            zero_escapes: counts.zero_escapes[kind.number()].into(),
            zero_edges: counts.zero_edges.into(),
            ..counts.residuals[kind.number()].of(values, counts.outliers[kind.number()].into())
        })
    }

    fn differences_of_interpolated(&mut self, set: usize) -> Result<ResidualStats> {
        let (Some(tiles), Some(counts)) = (self.choice.interpolated_tiles(), self.counts.interpolated) else {
            return Ok(ResidualStats::default());
        };
        let outliers = tiles.among_counted(counts.between_steps.into());
        Ok(counts.differences[set].of(tiles.count * tiles.counted_len(), outliers))
    }
}

/// Measures on the host what the decision asks for.
struct OnHost<'a, V> {
    chooser: &'a mut Chooser,
    choice: &'a TileChoice,
    chunk: &'a [u8],
    layout: &'a Layout,
    fine: &'a FineGrid<V>,
}

impl<V: Value> Measurements for OnHost<'_, V> {
    fn differences(&mut self) -> Result<(StatsOfSets, usize)> {
        let (stats, outliers) =
            self.chooser.measure_differences::<V>(self.choice, self.chunk, self.layout.byte_order, self.fine)?;
        Ok((stats, outliers.out_of_fine_reach))
    }

    fn can_interpolate(&mut self) -> Result<bool> {
        self.chooser.interpolated.load::<V>(self.choice, self.chunk, self.layout.byte_order, self.fine)
    }

    fn residuals(&mut self, kind: InterpolationKind) -> Result<ResidualStats> {
        self.chooser.interpolated.residuals(self.choice, kind)
    }

    fn differences_of_interpolated(&mut self, set: usize) -> Result<ResidualStats> {
        self.chooser.interpolated.differences(self.choice, set)
    }
}

impl Chooser {
    /// Statistics of the differences of 64-bit codes over all tiles.
    pub(super) fn try_axes_on_tiles<V: Element>(
        &mut self,
        tiles: &Tiles,
        chunk: &[u8],
        layout: &Layout,
        code: impl Fn(V) -> i64,
    ) -> Result<StatsOfSets> {
        resize(&mut self.differences_64, tiles.room())?;
        resize(&mut self.tile, tiles.len * V::SIZE)?;
        tiles.mark_counted(&mut self.counted)?;
        let mut stats = StatsOfSets::default();
        for tile in 0..tiles.count {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            for (index, slot) in tiles.codes(&mut self.differences_64).iter_mut().enumerate() {
                *slot = code(V::read(&self.tile, index, layout.byte_order));
            }
            let counted = &self.counted;
            widely_vectorized(
                #[inline(always)]
                || {
                    tiles.for_each_set(
                        &mut self.differences_64,
                        #[inline(always)]
                        |set, differences| stats[set].add_wide::<V::Code>(differences, counted),
                    );
                },
            );
        }
        Ok(stats)
    }

    /// The grid and the predictor for a chunk on an absolute bound's rounding grid.
    pub(super) fn try_tiles<V: Value>(
        &mut self,
        choice: &TileChoice,
        chunk: &[u8],
        layout: &Layout,
        fine: &FineGrid<V>,
    ) -> Result<(Grid, Predictor)> {
        choice.decide_by(&mut OnHost { chooser: self, choice, chunk, layout, fine })
    }

    /// Statistics of the differences of quantization codes along all sets of axes, and the numbers of outliers, over all tiles. Values between steps, which are
    /// exceptions of differences, are outliers of every set.
    fn measure_differences<V: Value>(
        &mut self,
        choice: &TileChoice,
        chunk: &[u8],
        order: ByteOrder,
        fine: &FineGrid<V>,
    ) -> Result<(StatsOfSets, Outliers)> {
        let tiles = &choice.differences;
        resize(&mut self.differences, tiles.room())?;
        resize(&mut self.tile, tiles.len * V::SIZE)?;
        tiles.mark_counted(&mut self.counted)?;
        let (mut columns, mut outliers) = (<[ColumnSums; 1 << MAX_RANK]>::default(), Outliers::default());
        for tile in 0..tiles.count {
            tiles.copy(chunk, V::SIZE, tile, &mut self.tile);
            self.exceptions.clear(tiles.len)?;
            let codes = tiles.codes(&mut self.differences);
            outliers.add(quantize_tile::<V>(&self.tile, order, &choice.quantizer, fine, codes, &mut self.exceptions));
            take_left_neighbours(codes, self.exceptions.runs(), tiles.extents[0], |_| 0);
            let counted = &self.counted;
            widely_vectorized(
                #[inline(always)]
                || {
                    tiles.for_each_set(
                        &mut self.differences,
                        #[inline(always)]
                        |set, differences| add_counted(&mut columns[set], differences, counted),
                    );
                },
            );
        }
        let (mut stats, counted) = (StatsOfSets::default(), tiles.counted_len());
        for set in tiles.sets() {
            stats[set].add(&columns[set], tiles.count * counted, tiles.count * (self.counted.len() - 1 - counted));
            stats[set].outliers = tiles.among_counted(outliers.between_steps);
        }
        Ok((stats, outliers))
    }
}

/// Adds the differences of the values that count. Both slices have one element before the first value, and whole groups of [`COLUMNS`] behind it.
#[inline(always)]
pub(super) fn add_counted(columns: &mut ColumnSums, differences: &[i32], counted: &[i32]) {
    let groups =
        differences[1..].as_chunks::<COLUMNS>().0.iter().zip(differences[..differences.len() - 1].as_chunks::<COLUMNS>().0);
    let masks = counted[1..].as_chunks::<COLUMNS>().0.iter().zip(counted[..counted.len() - 1].as_chunks::<COLUMNS>().0);
    for ((here, before), (counts, counts_before)) in groups.zip(masks) {
        columns.add(&std::array::from_fn(|i| here[i] & counts[i]), &std::array::from_fn(|i| before[i] | !counts_before[i]));
    }
}

/// Number of values that are quantized at once.
const PART_LEN: usize = WORD;

/// Numbers of values of a tile that need more than a residual.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outliers {
    /// Number of values between two steps of the fine grid. Most of them were restored by an earlier interpolation. They are exceptions of differences.
    pub between_steps: u64,
    /// Number of values with a code, but out of the fine grid's reach. They are exceptions of interpolation alone.
    pub out_of_fine_reach: usize,
}

impl Outliers {
    /// Adds the numbers of another tile.
    fn add(&mut self, other: Self) {
        self.between_steps += other.between_steps;
        self.out_of_fine_reach += other.out_of_fine_reach;
    }
}

/// Writes the codes of a tile's values, modulo 2^32. Sets the bits of values without a code in `without_code`, whose bits must be 0;
/// [`take_left_neighbours`] then fills their codes.
pub(super) fn quantize_tile<V: Value>(
    values: &[u8],
    order: ByteOrder,
    quantizer: &Quantizer,
    fine: &FineGrid<V>,
    codes: &mut [i32],
    without_code: &mut Bitmap,
) -> Outliers {
    let mut outliers = Outliers::default();
    let below_limit = V::STEPS_LIMIT.to_bits().wrapping_sub(1);
    let fast_f32 = FastF32::new(quantizer);
    let excluded = Excluded::<V>::new(quantizer, V::CODE_LIMIT);
    widely_vectorized(
        #[inline(always)]
        || {
            for (index, (values, codes)) in values.chunks(PART_LEN * V::SIZE).zip(codes.chunks_mut(PART_LEN)).enumerate() {
                let (mut all, mut part, mut part_codes) =
                    ([V::default(); PART_LEN], [V::default(); PART_LEN], [V::Code::default(); PART_LEN]);
                V::read_all(values, order, &mut all);
                excluded.pad(&mut all, codes.len());
                let mut without = if excluded.covers_any(&all) { excluded.bits(&all) } else { 0 };
                excluded.replace_beyond(&all, &mut part);
                // Bit 63 is set if any value may have no code, or none on the fine grid.
                let mut uncertain = 0;
                let fast = fast_f32.map_or(FastResult::NOTHING, |fast_f32| fast_f32.codes(&part, &mut part_codes));
                if !fast.codes_are_certain {
                    for (value, code) in part.iter().zip(&mut part_codes) {
                        let sum = value.to_f64() * quantizer.inverse_step() + ROUNDING;
                        *code = V::code_from_sum(sum);
                        uncertain |= below_limit.wrapping_sub((sum - ROUNDING).abs().to_bits());
                    }
                }
                let (mut low_codes, mut beyond_steps) = ([0; PART_LEN], 0);
                for (code, part_code) in low_codes.iter_mut().zip(&part_codes) {
                    *code = part_code.to_i64() as i32;
                    beyond_steps |= (V::STEPS_LIMIT as i32 - 1).wrapping_sub(code.wrapping_abs());
                }
                codes.copy_from_slice(&low_codes[..codes.len()]);
                uncertain |= i64::from(beyond_steps).cast_unsigned();
                if fast.may_be_between_steps && fine.is_enabled() {
                    for &value in &part {
                        let steps = value.to_f64() * quantizer.inverse_step() + ROUNDING - ROUNDING;
                        outliers.between_steps += fine.between_steps_sign(value, steps) >> 63;
                    }
                }
                if uncertain >> 63 == 1 {
                    let part = &part[..codes.len()];
                    let inverse_step = quantizer.inverse_step();
                    // The comparison is false for NaN, which has no code.
                    without |= !bits_where(
                        part,
                        #[inline(always)]
                        |value| (value.to_f64() * inverse_step).abs() < V::CODE_LIMIT,
                    );
                    let beyond_steps = bits_where(
                        part,
                        #[inline(always)]
                        |value| (value.to_f64() * inverse_step).abs() >= V::STEPS_LIMIT,
                    );
                    outliers.out_of_fine_reach += (beyond_steps & !without).count_ones() as usize;
                }
                // The bits of padding values are cleared.
                without_code.set_word(index, without & u64::MAX >> (PART_LEN - codes.len()));
            }
        },
    );
    outliers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The codes of values on a grid of step 1, the numbers of outliers, and the indices of values without a code.
    fn codes_of<V: Value>(values: &[V]) -> (Vec<i32>, Outliers, Vec<usize>) {
        let quantizer = Quantizer::new(0.5);
        let fine = FineGrid::<V>::new(&quantizer);
        let mut bytes = vec![0; values.len() * V::SIZE];
        values.iter().enumerate().for_each(|(i, value)| value.write(&mut bytes, i, ByteOrder::Big));
        let (mut codes, mut without_code) = (vec![0; values.len()], Bitmap::default());
        without_code.clear(values.len()).unwrap();
        let outliers = super::quantize_tile::<V>(&bytes, ByteOrder::Big, &quantizer, &fine, &mut codes, &mut without_code);
        (codes, outliers, without_code.indices().collect())
    }

    fn outliers_are_counted<V: Value>() {
        let limit = V::STEPS_LIMIT;
        for len in (1..140).chain([509, 512, 513]) {
            // Steps, eighths of steps, values out of the fine grid's reach, values without a code.
            let cases = [2.0, -7.0, 3.375, -0.0, limit, -limit - 1.0, f64::NAN, f64::INFINITY, -1e300, 4.125];
            let case = |i: usize| (i * i + i / 3) % cases.len();
            let values: Vec<V> = (0..len).map(|i| V::round_from(cases[case(i)])).collect();
            let (codes, outliers, without_code) = codes_of(&values);
            let of = |wanted: &[usize]| (0..len).filter(|&i| wanted.contains(&case(i))).collect::<Vec<_>>();
            assert_eq!(without_code, of(&[6, 7, 8]), "{len} values");
            assert_eq!(outliers.out_of_fine_reach, of(&[4, 5]).len());
            assert_eq!(outliers.between_steps, of(&[2, 9]).len() as u64);
            for i in of(&[0, 1, 2, 3, 4, 5, 9]) {
                assert_eq!(codes[i], cases[case(i)].round_ties_even() as i32, "{len} values, value {i}");
            }
        }
    }

    #[test]
    fn outliers_of_tiles_are_counted() {
        outliers_are_counted::<f32>();
        outliers_are_counted::<f64>();
    }
}
