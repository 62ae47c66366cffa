//! Cases from seeds: a layout, a configuration and values that are hard for it.

use quire_codec::stages::inspect::Description;
use quire_codec::stages::predictor::{InterpolationKind, LevelSteps};
use quire_codec::{
    ByteOrder, CodebookPolicy, CodingPolicy, Config, ErrorBound, Keep, Layout, PredictorPolicy, Scalar, Workspace, check_bound,
};

use crate::common::checks::{Number, elements_of};
use crate::common::{Random, books};
use crate::fields::{Field, Planter, Scale, bits_of, ends, pick};

/// What is compressed, and how.
pub(crate) struct Case {
    pub(crate) layout: Layout,
    pub(crate) config: Config<'static>,
    /// Bits of the values.
    pub(crate) values: Vec<u64>,
    /// Where values come from, also those that are written later.
    pub(crate) field: Field,
    pub(crate) planter: Planter,
    /// What follows in the case.
    pub(crate) random: Random,
}

impl Case {
    /// The case of a seed; `None` if its type cannot have its bound.
    pub(crate) fn new(seed: u64, workspace: &mut Workspace) -> Option<Self> {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x51);
        let layout = layout(&mut random);
        let scale = Scale::any(&mut random, layout.scalar);
        let field = Field::any(&mut random, scale, &layout);
        let mut config = Config::new(error_bound(&mut random, &scale, layout.scalar)).ok()?;
        if field.is_of_decimals() && random.below(2) == 0 {
            config = config.with_bound(ErrorBound::Lossless);
        }
        check_bound(&layout, &config).ok()?;
        config.coding = pick(&mut random, &[CodingPolicy::Auto, CodingPolicy::Huffman, CodingPolicy::Bitshuffle]);
        config.codebook =
            pick(&mut random, &[CodebookPolicy::Auto, CodebookPolicy::Auto, CodebookPolicy::Dictionary, CodebookPolicy::Custom]);
        config.books = pick(&mut random, &[&[][..], &[], &books()[..3], books()]);
        config.predictor = predictor(&mut random);
        let mut values = field.values(&mut random, 1.0);
        let ends = (random.below(4) == 0).then(|| plant_ends(&mut random, layout.scalar, &mut values)).flatten();
        let step = step_of(&values, &layout, &config, workspace).unwrap_or(scale.size * 1e-3);
        let planter = Planter::any(&mut random, layout.scalar, step);
        planter.plant(&mut random, &mut values);
        ends.into_iter().flatten().for_each(|(index, bits)| values[index] = bits);
        config.fill_value = fill(&mut random, &planter, &values);
        if let Some(fill) = config.fill_value {
            plant_fill(&mut random, fill, &mut values);
        }
        if random.below(10) == 0 {
            pad(&mut random, &layout, &mut values);
        }
        config.keep = keep(&mut random, layout.scalar, &values);
        Some(Self { layout, config, values, field, planter, random })
    }

    /// The chunk's bytes.
    pub(crate) fn chunk(&self) -> Vec<u8> {
        let mut chunk = Vec::with_capacity(self.layout.chunk_bytes() as usize);
        self.values.iter().for_each(|&bits| write(bits, &self.layout, &mut chunk));
        chunk
    }

    /// What a person needs to know of a case.
    pub(crate) fn describe(&self) -> String {
        let (layout, config) = (&self.layout, &self.config);
        let fill = config.fill_value.map(|bits| {
            let times = self.values.iter().filter(|&&value| value == bits).count();
            format!("fill {bits:#x} = {:?}, {times} times", Number::from_bits(layout.scalar, bits).value)
        });
        format!(
            "{:?} {:?} {:?}, {:?}, keep {}, {:?}, {:?}, {:?}, {} books besides, {}, {:?}, {:?}",
            layout.scalar,
            layout.byte_order,
            layout.shape.dims(),
            config.bound,
            config.keep,
            config.coding,
            config.predictor,
            config.codebook,
            config.books.len(),
            fill.unwrap_or("no fill value".to_owned()),
            self.field,
            self.planter,
        )
    }
}

/// Appends a value.
pub(crate) fn write(bits: u64, layout: &Layout, chunk: &mut Vec<u8>) {
    let size = layout.scalar.size();
    match layout.byte_order {
        ByteOrder::Little => chunk.extend_from_slice(&bits.to_le_bytes()[..size]),
        ByteOrder::Big => chunk.extend_from_slice(&bits.to_be_bytes()[8 - size..]),
    }
}

/// A predictor, Auto most often.
pub(crate) fn predictor(random: &mut Random) -> PredictorPolicy {
    match random.below(10) {
        0..5 => PredictorPolicy::Auto,
        5 | 6 => {
            let kind = InterpolationKind::new(random.below(16) as u8, random.below(2) == 1);
            PredictorPolicy::Interpolation(kind.with_steps(LevelSteps::ALL[random.below(3) as usize]))
        }
        7 => PredictorPolicy::Differences,
        8 => PredictorPolicy::Lorenzo,
        _ => PredictorPolicy::Axes(random.below(16) as u8),
    }
}

/// What is kept beside the bound: mostly nothing. Thresholds are 0, values of the chunk, and numbers beside them.
fn keep(random: &mut Random, scalar: Scalar, values: &[u64]) -> Keep {
    let kept = random.below(12);
    let mut keep = if kept < 3 { Keep::default().and_order() } else { Keep::default() };
    for _ in 0..if (2..5).contains(&kept) { 1 + random.below(3) } else { 0 } {
        let value = Number::from_bits(scalar, pick(random, values)).value;
        let threshold = pick(random, &[0.0, value, value * (1.0 + 1e-9), f64::from(value as f32).next_up()]);
        let is_whole = scalar.is_float() || threshold.abs() < 2f64.powi(53);
        keep = if is_whole { keep.and_side_of(threshold).unwrap_or(keep) } else { keep };
    }
    keep
}

fn layout(random: &mut Random) -> Layout {
    const PRIMES: [u64; 9] = [2, 3, 5, 7, 11, 13, 17, 19, 23];
    // Types with more paths through the encoder come more often.
    const SCALARS: [Scalar; 26] = {
        use Scalar::*;
        [
            F32, F32, F32, F32, F64, F64, F64, F64, F16, F16, BF16, BF16, I8, U8, I16, U16, I32, U32, I64, I64, U64, U64, C64,
            C64, C128, C128,
        ]
    };
    let dims = match random.below(32) {
        0 => vec![1; 1 + random.below(4) as usize],
        1..12 => (0..1 + random.below(4)).map(|_| 1 + random.below(9)).collect(),
        12..15 => (0..1 + random.below(3)).map(|_| pick(random, &PRIMES)).collect(),
        15 | 16 => vec![pick(random, &[2047, 2048, 2049, 4096, 10_007])],
        17..25 => pick(random, &[&[4096][..], &[64, 64], &[16, 16, 16], &[8, 8, 8, 8], &[1, 61, 67], &[40, 103]]).to_vec(),
        25..31 => {
            let side = 16 + random.below(9);
            vec![side + random.below(4), side + random.below(4), side]
        }
        _ => pick(random, &[&[40, 40, 40][..], &[128, 256], &[3, 20, 24, 24], &[64, 64, 16], &[30_011]]).to_vec(),
    };
    let scalar = pick(random, &SCALARS);
    crate::common::layout(scalar, pick(random, &[ByteOrder::Little, ByteOrder::Big]), &dims)
}

fn error_bound(random: &mut Random, scale: &Scale, scalar: Scalar) -> ErrorBound {
    match random.below(16) {
        0 => ErrorBound::Lossless,
        1..3 => ErrorBound::Relative(match random.below(8) {
            0 => pick(random, &[1.0, 5e-324, 1e-300]),
            // No digits that a cut to five bits would take off.
            1..4 => 2f64.powi(-1 - random.below(30) as i32),
            _ => 10f64.powf(-9.0 * random.share()),
        }),
        3..5 => ErrorBound::PointwiseRelative(match random.below(8) {
            0 => pick(random, &[1.0 - 1.0 / (1u64 << 53) as f64, 0.5, 1e-300, 1.2e-7, 1e-11]),
            _ => 10f64.powf(-0.001 - 12.0 * random.share()),
        }),
        5..7 => ErrorBound::Psnr(match random.below(8) {
            0 => 1000.0 * (1.0 - random.share()),
            // About as much noise as rounding to the type leaves.
            1..4 => {
                let of_type = match scalar.of_values() {
                    Scalar::F32 => 150.0,
                    Scalar::F64 => 325.0,
                    Scalar::F16 => 75.0,
                    Scalar::BF16 => 55.0,
                    _ => 6.0 * 8.0 * scalar.size() as f64,
                };
                of_type - 30.0 * random.share()
            }
            _ => 5.0 + 115.0 * random.share(),
        }),
        7 | 8 => ErrorBound::Ratio {
            ratio: if random.below(3) == 0 { 1.001 + 10f64.powf(5.9 * random.share()) } else { 1.01 + 40.0 * random.share() },
            ceiling: (random.below(3) > 0).then(|| absolute(random, scale, scalar)),
        },
        _ => ErrorBound::Absolute(absolute(random, scale, scalar)),
    }
}

/// An absolute bound, most often below the size of the values.
fn absolute(random: &mut Random, scale: &Scale, scalar: Scalar) -> f64 {
    let greatest = scale.greatest;
    if !scalar.is_float() {
        return match random.below(8) {
            0 => 1.0 + random.below(10) as f64,
            1 => pick(random, &[0.5, 0.999, 1.5, 2_147_483_646.0, 2_147_483_647.0, 2_147_483_648.0, 4e9, 1e19, 1e300]),
            // Between 2^53 and 2^63, where f64 does not hold all integers.
            2 if scalar.size() == 8 => 2f64.powf(53.0 + 10.0 * random.share()),
            3 if scalar.size() == 8 => {
                pick(random, &[9_007_199_254_740_994.0, 2f64.powi(62), 2f64.powi(63) - 1024.0, 2f64.powi(63), greatest])
            }
            _ => scale.size * 10f64.powf(-5.0 * random.share()),
        };
    }
    let common = scale.size * 10f64.powf(0.3 - 7.0 * random.share() * random.share());
    let power = || 2f64.powi((common.log2().round() as i32).clamp(-1000, 1000));
    match random.below(12) {
        // Powers of two: ties are numbers of the type. Then one unit in the last place below.
        0 | 1 => power(),
        2 => power().next_down(),
        3 => pick(random, &[1e-300, 1e-44, 6e-309, 1e-28, 1e-3, 1.0, 1e30]),
        4 => pick(random, &[1e300, 8.9e307, 1e303, 5e307, greatest, greatest / 2.0, greatest / 3.0]),
        5 => greatest * 2f64.powf(-20.0 * random.share()),
        // Decimals.
        6 | 7 => format!("{common:.1e}").parse().unwrap_or(common),
        _ => common,
    }
}

/// The step of the grid that a configuration comes to for a chunk, if it is an absolute one.
fn step_of(values: &[u64], layout: &Layout, config: &Config, workspace: &mut Workspace) -> Option<f64> {
    let is_float = layout.scalar.is_float();
    let step = |bound: f64| if is_float { 2.0 * bound } else { 2.0 * bound.floor() + 1.0 };
    match config.bound {
        ErrorBound::Absolute(bound) => Some(step(bound)),
        ErrorBound::Lossless | ErrorBound::PointwiseRelative(_) => None,
        _ => {
            let (mut chunk, mut stream) = (Vec::new(), Vec::new());
            values.iter().for_each(|&bits| write(bits, layout, &mut chunk));
            workspace.compress(&chunk, layout, config, &mut stream).ok()?;
            Description::of(&stream).ok()?.half_step.map(step)
        }
    }
}

/// The fill value, if there is one: from the data, beside them, or from nowhere.
fn fill(random: &mut Random, planter: &Planter, values: &[u64]) -> Option<u64> {
    let drawn = pick(random, values);
    Some(match random.below(12) {
        0..4 => return None,
        4 | 5 => drawn,
        6 => planter.tie(random, drawn),
        7 => planter.beside(planter.tie(random, drawn), random),
        8 => planter.on_fine_grid(random, drawn),
        9 => planter.special(random),
        10 => planter.far_tie(random),
        _ => bits_of(random, planter.scalar),
    })
}

/// Plants two integers that lie one less than a power of two apart, as the ends of a type do, and returns where: f64 rounds the range of many of them up.
fn plant_ends(random: &mut Random, scalar: Scalar, values: &mut [u64]) -> Option<[(usize, u64); 2]> {
    let mask = u64::MAX >> (64 - 8 * scalar.size());
    let range = mask >> random.below(8 * scalar.size() as u64);
    let greatest = if ends(scalar).0 < 0 { mask >> 1 } else { mask };
    let planted = [greatest, greatest.wrapping_sub(range) & mask].map(|bits| (random.below(values.len() as u64) as usize, bits));
    (!scalar.is_float()).then_some(planted).inspect(|planted| planted.iter().for_each(|&(index, bits)| values[index] = bits))
}

/// Puts the fill value into a chunk: alone here and there, or in stretches.
pub(crate) fn plant_fill(random: &mut Random, fill: u64, values: &mut [u64]) {
    let rare = pick(random, &[2, 5, 30, 300, 3000]);
    let longest = pick(random, &[1, 1, 5, 100]);
    let mut index = random.below(rare) as usize;
    while index < values.len() {
        let end = (index + 1 + random.below(longest) as usize).min(values.len());
        values[index..end].fill(fill);
        index = end + random.below(2 * rare) as usize;
    }
}

/// Fills the end of a chunk up with zeros, as HDF5 does at the edges of a dataset.
fn pad(random: &mut Random, layout: &Layout, values: &mut [u64]) {
    let (each, dims) = elements_of(layout);
    let kept: Vec<u64> =
        dims.iter().map(|&extent| if random.below(2) == 0 { extent } else { 1 + random.below(extent) }).collect();
    for (index, value) in values.iter_mut().enumerate() {
        let mut rest = index as u64 / each;
        for (&extent, &kept) in dims.iter().zip(&kept).rev() {
            if rest % extent >= kept {
                *value = 0;
            }
            rest /= extent;
        }
    }
}
