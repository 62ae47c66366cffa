//! Chunks that the tests of this folder share, and the check that each round trip must pass.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod cases;
pub(crate) mod checks;
mod random;
pub(crate) mod sampling;

use std::sync::LazyLock;

pub(crate) use self::random::Random;

use self::checks::{Promise, numbers};
use quire_codec::stages::adaptive::MAX_BOOKS;
use quire_codec::stages::alphabet::CodeLengths;
use quire_codec::stages::codebook;
use quire_codec::stages::predictor::{InterpolationKind, LevelSteps};
use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::{
    ByteOrder, CodebookPolicy, CodingPolicy, Config, ErrorBound, Layout, PredictorPolicy, Scalar, Shape, Workspace,
    max_stream_len,
};

/// As many books as there may be besides the dictionary's, with codes for all symbols and for some.
pub(crate) fn books() -> &'static [CodeLengths] {
    static BOOKS: LazyLock<Vec<CodeLengths>> = LazyLock::new(|| {
        let mut random = Random(5);
        let mut book = |number: usize| {
            let spread = 1 + number as u64 % 7;
            let mut count = |symbol: u64| match random.below(12) {
                0 if !number.is_multiple_of(3) => 0,
                _ => (1 << 20) >> (symbol.abs_diff(30 + number as u64 % 5) / spread).min(20) | random.below(2),
            };
            codebook::optimal_lengths(&std::array::from_fn(|symbol| count(symbol as u64)))
        };
        (0..MAX_BOOKS).map(&mut book).collect()
    });
    &BOOKS
}

/// Kinds of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Smooth,
    Noise,
    MostlyZero,
    Lattice,
    Decimal,
    LandMask,
    Gaps,
    Specials,
    Subnormal,
    HugeRange,
    Bits,
    Constant,
    Outliers,
    FarValues,
    MinusZero,
    Counts,
}

pub(crate) const CONTENTS: [Content; 16] = [
    Content::Smooth,
    Content::Noise,
    Content::MostlyZero,
    Content::Lattice,
    Content::Decimal,
    Content::LandMask,
    Content::Gaps,
    Content::Specials,
    Content::Subnormal,
    Content::HugeRange,
    Content::Bits,
    Content::Constant,
    Content::Outliers,
    Content::FarValues,
    Content::MinusZero,
    Content::Counts,
];

/// Shapes that every matrix has.
pub(crate) const SHAPES: [&[u64]; 15] = [
    &[1],
    &[2],
    &[31],
    &[2047],
    &[2048],
    &[2049],
    &[10_007],
    &[1, 1, 1, 1],
    &[13, 17],
    &[100, 3],
    &[7, 11, 13],
    &[16, 16, 16],
    &[1, 64, 64],
    &[3, 5, 7, 11],
    &[2, 1, 40, 50],
];

/// Values of one kind, in f64; [`chunk`] rounds them to the chunk's type.
pub(crate) fn values(content: Content, elements: usize, seed: u64) -> Vec<f64> {
    let mut random = Random(seed);
    let specials =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-310, f64::MAX, f64::MIN, 1e35, 9.969_209_968_386_869e36, 1.0];
    (0..elements)
        .map(|i| {
            let x = i as f64;
            let smooth = (x * 0.013).sin() * 3.0 + (x * 0.0007).cos() * 11.0;
            match content {
                Content::Smooth => smooth,
                Content::Noise => random.unit() * 5.0,
                Content::MostlyZero => {
                    if random.below(40) == 0 {
                        random.unit()
                    } else {
                        0.0
                    }
                }
                Content::Lattice => random.below(9) as f64 / 8.0 + (x * 0.01).floor(),
                Content::Decimal => match random.below(150) {
                    0 => 1e34,
                    1 => -0.0,
                    2 => smooth,
                    _ => (smooth * 100.0).round() / 100.0,
                },
                Content::LandMask => {
                    if (x * 0.05).sin() > 0.3 {
                        1e35
                    } else {
                        smooth
                    }
                }
                Content::Gaps => {
                    if random.below(30) == 0 || (400..520).contains(&i) {
                        f64::NAN
                    } else {
                        smooth
                    }
                }
                Content::Specials => specials[random.below(specials.len() as u64) as usize],
                Content::Subnormal => random.unit() * 1e-42,
                Content::HugeRange => random.unit() * 10f64.powi(random.below(70) as i32 - 35),
                Content::Bits => f64::from_bits(random.next()),
                Content::Constant => 273.15,
                Content::Outliers => {
                    if random.below(200) == 0 {
                        random.unit() * 1e9
                    } else {
                        smooth
                    }
                }
                Content::FarValues => match i % 50 {
                    7..20 => -9999.0,
                    33 => 1e20 * (1 + i % 3) as f64,
                    _ => smooth,
                },
                Content::MinusZero => [-0.0, 0.0, 1.0][random.below(3) as usize],
                // Most are 0.
                Content::Counts => random.below(12).saturating_sub(7) as f64,
            }
        })
        .collect()
}

/// The bytes of values in a layout.
///
/// Whole numbers are spread over a good part of their type's range; what lies beyond it becomes its end.
pub(crate) fn chunk(values: &[f64], layout: &Layout, seed: u64) -> Vec<u8> {
    let mut random = Random(!seed);
    values
        .iter()
        .flat_map(|&value| {
            // A NaN's payload must survive as well.
            let payload = if value.is_nan() { random.next() } else { 0 };
            let bits = match layout.scalar.of_values() {
                Scalar::F32 => u64::from((value as f32).to_bits() | payload as u32 & 0x803f_ffff),
                Scalar::F64 => value.to_bits() | payload & 0x8007_ffff_ffff_ffff,
                Scalar::F16 => u64::from(Binary16::from_f64(value).to_bits() | payload as u16 & 0x81ff),
                Scalar::BF16 => u64::from(BFloat16::from_f64(value).to_bits() | payload as u16 & 0x803f),
                Scalar::I8 => (value * 8.0) as i8 as u64,
                Scalar::U8 => u64::from((value * 8.0 + 100.0) as u8),
                Scalar::I16 => (value * 1e3) as i16 as u64,
                Scalar::U16 => u64::from((value * 1e3 + 2e4) as u16),
                Scalar::I32 => (value * 1e7) as i32 as u64,
                Scalar::U32 => u64::from((value * 1e7 + 2e9) as u32),
                Scalar::I64 => (value * 1e15) as i64 as u64,
                Scalar::U64 => (value * 1e15 + 5e15) as u64,
                Scalar::C64 | Scalar::C128 => unreachable!("values are no pairs"),
            };
            in_order(&bits.to_le_bytes()[..layout.scalar.size()], layout.byte_order)
        })
        .collect()
}

fn in_order(little: &[u8], order: ByteOrder) -> Vec<u8> {
    match order {
        ByteOrder::Little => little.to_vec(),
        ByteOrder::Big => little.iter().rev().copied().collect(),
    }
}

/// The bytes of one kind of values in a layout.
pub(crate) fn chunk_of(content: Content, layout: &Layout, seed: u64) -> Vec<u8> {
    chunk(&values(content, layout.shape.elements() as usize, seed), layout, seed)
}

/// The layout of a chunk of `dims` elements.
pub(crate) fn layout(scalar: Scalar, byte_order: ByteOrder, dims: &[u64]) -> Layout {
    let mut dims = dims.to_vec();
    if scalar.is_pair() {
        dims[0] *= 2;
    }
    Layout { scalar, byte_order, shape: Shape::new(&dims).unwrap() }
}

/// As [`check_config`], with a bound and a policy alone.
pub(crate) fn check_round_trip(
    workspace: &mut Workspace,
    original: &[u8],
    layout: &Layout,
    bound: f64,
    codebook: CodebookPolicy,
) -> Vec<u8> {
    check_config(workspace, original, layout, &Config { codebook, ..Config::absolute(bound).unwrap() })
}

/// Predictors and codings that follow each other when a chunk is written again and again.
const CHAIN: [(PredictorPolicy, CodingPolicy); 8] = [
    (PredictorPolicy::Auto, CodingPolicy::Auto),
    (PredictorPolicy::Interpolation(InterpolationKind::CUBIC), CodingPolicy::Bitshuffle),
    (PredictorPolicy::Lorenzo, CodingPolicy::Bitshuffle),
    (PredictorPolicy::Axes(2), CodingPolicy::Huffman),
    (PredictorPolicy::Interpolation(InterpolationKind::CUBIC), CodingPolicy::Huffman),
    (PredictorPolicy::Interpolation(InterpolationKind::new(0b010, false).with_steps(LevelSteps::Finer)), CodingPolicy::Huffman),
    (PredictorPolicy::Interpolation(InterpolationKind::new(0b101, true).with_steps(LevelSteps::Halved)), CodingPolicy::Huffman),
    (PredictorPolicy::Auto, CodingPolicy::Bitshuffle),
];

/// Compresses, decompresses and checks every value. Then does so again and again: whatever predictors follow each other, no value leaves its bound, and no
/// value that was rounded once is moved again. Returns the stream.
pub(crate) fn check_config(workspace: &mut Workspace, original: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let mut stream = Vec::new();
    workspace.compress(original, layout, config, &mut stream).unwrap();
    assert!(stream.len() as u64 <= max_stream_len(layout));
    let mut decoded = vec![0xa5; original.len()];
    workspace.decompress(&stream, &mut decoded).unwrap();
    let before = numbers(original, layout);
    let promise = Promise::new(&before, layout, config);
    let mut rounded = numbers(&decoded, layout);
    promise.check(&before, &rounded, layout).unwrap_or_else(|breach| panic!("{breach:?}, {layout:?}, {config:?}"));
    if matches!(config.bound, ErrorBound::Relative(_)) {
        // A range that rounding has changed may be another bound.
        return stream;
    }
    for (predictor, coding) in CHAIN {
        let config = Config { predictor, coding, ..*config };
        let mut again = Vec::new();
        workspace.compress(&decoded, layout, &config, &mut again).unwrap();
        workspace.decompress(&again, &mut decoded).unwrap();
        let twice = numbers(&decoded, layout);
        for (index, ((x, y), z)) in before.iter().zip(&rounded).zip(&twice).enumerate() {
            assert_eq!(promise.breach(x, z), None, "value {index} of {layout:?}: {x:?} became {z:?}, {config:?}");
            assert!(x.bits == y.bits || y.bits == z.bits, "value {index} of {layout:?} moved again with {config:?}");
        }
        rounded = twice;
    }
    stream
}
