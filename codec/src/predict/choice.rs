//! Choice of a chunk's predictor (FORMAT.md §6, §11): differences along a set of axes, or interpolation. The encoder estimates the bits that the
//! residuals of each predictor take, and chooses the predictor with the smallest estimate. Small chunks are estimated from all values, others from a
//! sample of tiles, which a GPU may measure ([`TileChoice`]).
//!
//! Counts and estimates are integers, so that the CPU's and the GPU's encoders make equal choices.

pub(crate) mod grid_kind;
mod interpolated_tiles;
mod kinds;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod plain_axes;
mod residual_stats;
mod tile;
mod tile_counts;
mod tile_lanes;
mod tiles;
mod whole;

pub use self::residual_stats::{
    CUBIC_MARGIN, EDGE_BITS, LARGE_MAGNITUDE, MASKED_SIXTEENTHS, MAX_COUNTED_MAGNITUDE, OUTLIER_BITS,
};
pub use self::tile::{DIFFERENCE_TILES, INTERPOLATED_TILES, MAX_TILE_VALUES, Tiles};
pub use self::tile_counts::{InterpolatedCounts, KINDS, ResidualCounts, SETS, TileCounts};
pub use self::tiles::TileChoice;

use self::interpolated_tiles::InterpolatedTiles;
use self::residual_stats::{ResidualStats, best_set, best_set_with_edges};
use crate::config::{CodingPolicy, Config, PredictorPolicy};
use crate::error::Result;
use crate::layout::Axes;
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::number::element::Element;
use crate::number::value::Value;
use crate::predict::predictor::{InterpolationKind, LevelSteps, Predictor};
use crate::predict::quantized::Quantized;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::grid::Grid;
use crate::quantize::quantizer::Quantizer;

/// Interpolation is not tried if more than 1 / this of the values are out of the fine grid's reach.
pub const VALUES_PER_VALUE_OUT_OF_REACH: usize = 2;

/// Estimated bits per residual, in fixed point with [`LOG_FRACTION`](crate::number::fixed_log2::LOG_FRACTION) fraction bits, below which interpolation along
/// three axes or more has finer steps on coarse levels: 0.4 bits. There, noise of the values from which others are predicted makes most of the residuals.
const FINER_STEPS_BELOW: u32 = 26_214;

/// Estimated bits per residual below which a chunk's coarse levels have finer steps: from 0, for never, to the largest number, for always.
fn finer_steps_below(shape: &Shape, config: &Config) -> u32 {
    match kinds::long_axes(shape).count_ones() {
        2.. if config.for_less_noise => u32::MAX,
        3.. => FINER_STEPS_BELOW,
        _ => 0,
    }
}

/// A kind of interpolation whose residuals have these statistics, with the steps that it gets.
fn with_steps((kind, residuals): (InterpolationKind, ResidualStats), finer_below: u32) -> InterpolationKind {
    let is_finer = residuals.bits() < u64::from(finer_below) * residuals.values;
    kind.with_steps(if is_finer { LevelSteps::Finer } else { LevelSteps::Equal })
}

/// Buffers of the choice.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    /// The bytes of a tile's values.
    tile: Vec<u8>,
    /// For each value of a tile or a small chunk, -1 if its residual counts, else 0. A tile has one element more, in front of the others.
    counted: Vec<i32>,
    /// `[set of axes][value]`: differences of a tile or a small chunk. The differences along no axis are the codes, modulo 2^32.
    differences: Vec<i32>,
    /// `[set of axes][value]`: differences of a tile or a small chunk with 64-bit codes. The differences along no axis are the codes.
    differences_64: Vec<i64>,
    exceptions: Bitmap,
    interpolated: InterpolatedTiles,
}

/// The number of sets of a shape's axes, and the set of the axes with an extent of 1. Differences along these are not tried.
fn sets_of(shape: &Shape) -> (usize, usize) {
    let extents = shape.extents();
    let flat = (0..MAX_RANK).filter(|&axis| extents[axis] == 1).fold(0, |set, axis| set | 1 << axis);
    (1 << shape.dims().len(), flat)
}

/// The axes of a set.
fn axes_of(set: usize, shape: &Shape) -> Axes {
    Axes::from_byte(set as u8, shape).unwrap_or(Axes::all(shape))
}

/// Whether `config` leaves the predictor to be chosen.
fn is_predictor_open(config: &Config) -> bool {
    matches!(config.predictor, PredictorPolicy::Auto | PredictorPolicy::Differences)
}

/// The fine grid for the choice: disabled where interpolation is no candidate.
fn fine_grid_of<V: Value>(quantizer: &Quantizer, config: &Config) -> FineGrid<V> {
    let fine = FineGrid::new(quantizer);
    let is_candidate = config.coding != CodingPolicy::Bitshuffle && config.predictor != PredictorPolicy::Differences;
    if is_candidate { fine } else { fine.disabled() }
}

impl Chooser {
    /// Chooses the axes along which the differences of 64-bit codes are taken. Returns them and the estimate of the bits that the measured values take, in
    /// fixed point with [`LOG_FRACTION`](crate::number::fixed_log2::LOG_FRACTION) fraction bits. `code` maps a value to its code.
    pub(crate) fn choose_axes<V: Element>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        policy: PredictorPolicy,
        code: impl Fn(V) -> i64,
    ) -> Result<(Axes, u64)> {
        let (sets, flat) = sets_of(&layout.shape);
        let tiles = Tiles::for_differences(&layout.shape);
        let is_small = tiles.is_chunk_small();
        let stats = if is_small {
            self.try_axes_on_whole::<V>(chunk, layout, code)?
        } else {
            self.try_axes_on_tiles::<V>(&tiles, chunk, layout, code)?
        };
        let set = match policy {
            PredictorPolicy::Axes(byte) => usize::from(byte) & (sets - 1) & !flat,
            PredictorPolicy::Lorenzo | PredictorPolicy::Interpolation(_) => (sets - 1) & !flat,
            PredictorPolicy::Auto | PredictorPolicy::Differences if is_small => best_set(&stats, &layout.shape).0,
            PredictorPolicy::Auto | PredictorPolicy::Differences => best_set_with_edges(&stats, &layout.shape).0,
        };
        Ok((axes_of(set, &layout.shape), stats[set].bits()))
    }

    /// Chooses the predictor of a chunk of floating-point numbers on an absolute bound's rounding grid, and whether zeros are exceptions of the grid. The choice
    /// depends on the chunk's values and `config` alone, not on earlier chunks. Codes or residuals that are made on the way stay in `coded`.
    pub(crate) fn choose<V: Value>(
        &mut self,
        chunk: &[u8],
        layout: &Layout,
        quantizer: &Quantizer,
        config: &Config,
        coded: &mut Quantized<'_, V::Code>,
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
        let fine = fine_grid_of::<V>(quantizer, config);
        if Tiles::for_differences(&layout.shape).is_chunk_small() {
            let finer_below = finer_steps_below(&layout.shape, config);
            return self.try_whole::<V>(chunk, layout, quantizer, (&fine, finer_below), coded);
        }
        let choice = TileChoice::new(&layout.shape, quantizer, fine.is_enabled(), config);
        self.try_tiles::<V>(&choice, chunk, layout, &fine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar};
    use crate::number::integer::Integer as _;
    use crate::quantize::fills::{Fills, Span};
    use crate::stream::buffers::Shared;

    fn layout(dims: &[u64]) -> Layout {
        Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() }
    }

    fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
        values.flat_map(f32::to_le_bytes).collect()
    }

    /// Integers from -512 to 511 that look random.
    fn noise(i: usize) -> f32 {
        ((i as u32).wrapping_mul(0x9e37_79b9).wrapping_mul(i as u32 | 1) >> 22) as f32 - 512.0
    }

    #[test]
    fn axes_are_those_along_which_codes_are_constant() {
        // The first values along an axis count, so that an axis too many costs bits. Of sets with equal estimates, the first one is taken.
        for (nx, ny) in [(33, 31), (300, 301)] {
            let layout = layout(&[ny, nx]);
            let nx = nx as usize;
            let n = layout.shape.elements() as usize;
            for (value, axes) in [
                (&(|i| noise(i / nx)) as &dyn Fn(usize) -> f32, 0b01),
                (&|i| noise(i % nx), 0b10),
                (&|i| noise(i / nx) + noise(i % nx), 0b11),
                (&noise, 0b00),
            ] {
                let chunk = bytes((0..n).map(value));
                let mut chooser = Chooser::default();
                let mut choose = |policy| chooser.choose_axes(&chunk, &layout, policy, |value: f32| value as i64).unwrap();
                assert_eq!(choose(PredictorPolicy::Auto).0.to_byte(), axes, "{n} values");
                assert_eq!(choose(PredictorPolicy::Lorenzo).0.to_byte(), 0b11);
                assert_eq!(choose(PredictorPolicy::Axes(0b10)).0.to_byte(), 0b10);
                for other in 0..4 {
                    assert!(choose(PredictorPolicy::Auto).1 <= choose(PredictorPolicy::Axes(other)).1, "{n} values");
                }
            }
        }
    }

    /// Makes a choice and compares it with that of the plain definition.
    fn choice_is_plain<V: Value>(dims: &[u64], bound: f64, fill: Option<V>, values: &[f64]) -> (u8, bool) {
        let shape = Shape::new(dims).unwrap();
        let values: Vec<V> = values.iter().map(|&value| V::round_from(value)).collect();
        let mut chunk = vec![0; values.len() * V::SIZE];
        values.iter().enumerate().for_each(|(i, value)| value.write(&mut chunk, i, ByteOrder::Little));
        let layout =
            Layout { scalar: if V::SIZE == 4 { Scalar::F32 } else { Scalar::F64 }, byte_order: ByteOrder::Little, shape };
        let quantizer = Quantizer::for_chunk::<V>(&chunk, ByteOrder::Little, bound, Fills::new(fill, Span::ALL));
        let config = Config::absolute(bound).unwrap();
        let plain = plain::Plain { bytes: &chunk, layout, quantizer: &quantizer, values };
        let mut last = None;
        for for_less_noise in [true, false] {
            let config = Config { for_less_noise, ..config };
            let expected = plain.predictor(&fine_grid_of::<V>(&quantizer, &config), for_less_noise);
            let (mut shared, mut codes) = (Shared::default(), Vec::new());
            let (chooser, mut coded) = shared.split(&mut codes);
            let (grid, chosen) = chooser.choose::<V>(&chunk, &layout, &quantizer, &config, &mut coded).unwrap();
            let masks_zeros = grid != Grid::Linear(quantizer);
            assert_eq!((chosen.to_byte(), masks_zeros), expected, "{dims:?}, bound {bound}, {for_less_noise}");
            last = Some(expected);
        }
        last.unwrap()
    }

    #[test]
    fn choices_are_those_of_the_plain_definition() {
        let mut chosen = std::collections::BTreeSet::new();
        for dims in
            [&[3][..], &[700], &[30_000], &[20, 31], &[100, 130], &[9, 14, 21], &[17, 40, 33], &[3, 11, 5, 9], &[4, 12, 20, 18]]
        {
            let shape = Shape::new(dims).unwrap();
            let [nx, ny, nz, _] = shape.extents();
            let at = |i: usize| [i % nx, i / nx % ny, i / nx / ny % nz, i / nx / ny / nz].map(|at| at as f64);
            let waves = |i: usize| at(i).iter().zip([0.31, 0.17, 0.23, 0.4]).map(|(at, rate)| 40.0 * (at * rate).sin()).sum();
            let fields: [&dyn Fn(usize) -> f64; 8] = [
                &waves,
                &|i| (at(i)[0] * 0.2).sin() * 30.0 + f64::from(noise(i / nx)),
                &|i| f64::from(noise(i)) * 0.01,
                &|i| f64::from(noise(i)) * 3.0,
                &|i| if i % 41 == 7 { f64::NAN } else { (at(i)[0] * 0.1).sin() * 9.0 + at(i)[1].cos() },
                &|i| if i % 1000 < 950 { 0.0 } else { (i % 1000) as f64 * 0.37 },
                // Values on positions of the fine grid, and fill values.
                &|i| if i % 31 > 28 { -999.0 } else { ((at(i)[0] * 0.3).sin() * 50.0).round() * 0.2 / 8.0 * (1020.0 / 1021.0) },
                // Zeros here and there.
                &|i| if i % 37 == 5 { 0.0 } else { waves(i) + 300.0 },
            ];
            for (number, field) in fields.iter().enumerate() {
                let values: Vec<f64> = (0..shape.elements() as usize).map(field).collect();
                for bound in [0.1, 0.01] {
                    chosen.insert(choice_is_plain::<f32>(dims, bound, (number == 6).then_some(-999.0), &values));
                }
                chosen.insert(choice_is_plain::<f64>(dims, 0.1, (number == 6).then_some(-999.0), &values));
            }
        }
        assert!(
            chosen.len() > 8 && chosen.iter().any(|chosen| chosen.1),
            "predictors that were chosen, zeros masked: {chosen:?}"
        );
    }

    /// Chooses axes for codes and compares them and the estimate with the plain definition.
    fn axes_are_plain<V: Element>(dims: &[u64], codes: impl Fn(usize) -> i64) -> Axes {
        let shape = Shape::new(dims).unwrap();
        let values: Vec<V> = (0..shape.elements() as usize).map(|i| V::from_code(V::Code::from_i64(codes(i)))).collect();
        let mut chunk = vec![0; values.len() * V::SIZE];
        values.iter().enumerate().for_each(|(i, value)| value.write(&mut chunk, i, ByteOrder::Little));
        // The type is not looked at.
        let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape };
        let mut chooser = Chooser::default();
        let mut of_grid = |code: &dyn Fn(V) -> i64| {
            let of_values: Vec<i64> = values.iter().map(|&value| code(value)).collect();
            let plain = plain_axes::PlainAxes { codes: &of_values, width: 8 * size_of::<V::Code>() as u32, shape: &shape };
            let best = plain.best_set();
            let policies = [(PredictorPolicy::Auto, best), (PredictorPolicy::Differences, best)];
            let forced = plain.sets().map(|set| (PredictorPolicy::Axes(set as u8), set));
            for (policy, set) in policies.into_iter().chain(forced) {
                let (axes, bits) = chooser.choose_axes::<V>(&chunk, &layout, policy, code).unwrap();
                assert_eq!(
                    (usize::from(axes.to_byte()), bits),
                    (set, plain.estimate(set).bits),
                    "{dims:?} of {} bytes, {policy:?}",
                    V::SIZE
                );
            }
            axes_of(best, &shape)
        };
        // The second grid's codes may be wider than those of the type, as those of infinities on a lattice are.
        of_grid(&|value| value.to_code().to_i64().wrapping_mul(0x7fff_ffff_1234_5679));
        of_grid(&|value| value.to_code().to_i64())
    }

    #[test]
    fn axes_are_those_of_the_plain_definition() {
        use crate::number::small_float::{BFloat16, Binary16};
        let mut chosen = std::collections::BTreeSet::new();
        for dims in [
            &[1][..],
            &[3],
            &[700],
            &[9000],
            &[20, 31],
            &[90, 70],
            &[1, 8, 1, 9],
            &[9, 14, 21],
            &[17, 30, 33],
            &[3, 11, 5, 9],
            &[4, 12, 20, 18],
        ] {
            let shape = Shape::new(dims).unwrap();
            let [nx, ny, ..] = shape.extents();
            let wide = |i: usize| i64::from(noise(i) as i32).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
            let fields: [&dyn Fn(usize) -> i64; 7] = [
                &|i| (i % nx * 3 + i / nx % ny * 5 + i / nx / ny * 7) as i64,
                &|i| noise(i / nx) as i64,
                &|i| noise(i % nx) as i64 + i64::from(i % 97 == 3),
                &|i| i64::from(i % 41 == 7),
                &wide,
                &|i| [i64::MIN, i64::MAX, 0, -1, i64::from(i32::MIN), i64::from(i32::MAX)][i * i % 6],
                &|_| -5,
            ];
            for field in fields {
                chosen.extend(
                    [
                        axes_are_plain::<f32>(dims, field),
                        axes_are_plain::<f64>(dims, field),
                        axes_are_plain::<Binary16>(dims, field),
                        axes_are_plain::<BFloat16>(dims, field),
                        axes_are_plain::<i8>(dims, field),
                        axes_are_plain::<u8>(dims, field),
                        axes_are_plain::<i16>(dims, field),
                        axes_are_plain::<u16>(dims, field),
                        axes_are_plain::<i32>(dims, field),
                        axes_are_plain::<u32>(dims, field),
                        axes_are_plain::<i64>(dims, field),
                        axes_are_plain::<u64>(dims, field),
                    ]
                    .map(|axes| axes.to_byte()),
                );
            }
        }
        assert!(chosen.len() > 8, "sets that were chosen: {chosen:?}");
    }

    #[test]
    fn axes_of_one_value_are_left_out() {
        let layout = layout(&[50, 1, 3]);
        assert_eq!(sets_of(&layout.shape), (8, 0b1010));
        let chunk = bytes((0..150).map(noise));
        let mut chooser = Chooser::default();
        let axes = chooser.choose_axes(&chunk, &layout, PredictorPolicy::Lorenzo, |value: f32| value as i64).unwrap().0;
        assert_eq!(axes.to_byte(), 0b101);
    }

    #[test]
    fn smooth_chunks_are_interpolated_and_rough_ones_are_not() {
        for dims in [&[12, 13, 14][..], &[60, 70, 80], &[3000], &[100_000]] {
            let layout = layout(dims);
            let n = layout.shape.elements() as usize;
            let row = layout.shape.row();
            let ny = layout.shape.extents()[1];
            let wave = |i: usize| {
                ((i % row) as f32 * 0.3).sin() * ((i / row % ny) as f32 * 0.25).cos() * ((i / row / ny) as f32 * 0.2).cos()
            };
            let smooth = bytes((0..n).map(|i| 40.0 * wave(i)));
            let rough = bytes((0..n).map(noise));
            let quantizer = Quantizer::new(0.1);
            let is_interpolated = |chunk: &[u8], predictor| {
                let (mut shared, mut codes) = (Shared::default(), Vec::new());
                let (chooser, mut coded) = shared.split(&mut codes);
                let config = Config { predictor, ..Config::absolute(0.1).unwrap() };
                chooser.choose::<f32>(chunk, &layout, &quantizer, &config, &mut coded).unwrap().1.is_interpolation()
            };
            assert!(!is_interpolated(&rough, PredictorPolicy::Auto), "{dims:?}: values are out of the fine grid's reach");
            assert!(is_interpolated(&smooth, PredictorPolicy::Auto), "{dims:?}");
            assert!(is_interpolated(&smooth, PredictorPolicy::Interpolation(InterpolationKind::CUBIC)));
            assert!(!is_interpolated(&smooth, PredictorPolicy::Differences));
            assert!(!is_interpolated(&smooth, PredictorPolicy::Lorenzo));
        }
    }
}
