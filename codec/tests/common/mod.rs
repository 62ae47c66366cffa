//! Chunks that the tests of this folder share, and the check that each round trip must pass.
#![allow(dead_code, reason = "each test file uses a part")]

use quire_codec::{
    ByteOrder, CodebookPolicy, CodingPolicy, Config, ErrorBound, Layout, PredictorPolicy, Scalar, Shape, Workspace,
    max_stream_len,
};

/// Reproducible numbers: SplitMix64 (Steele et al., OOPSLA'14).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// In `[-1, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Kinds of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Smooth,
    Noise,
    MostlyZero,
    Lattice,
    LandMask,
    Gaps,
    Specials,
    Subnormal,
    HugeRange,
    Bits,
    Constant,
    Outliers,
    MinusZero,
}

pub(crate) const CONTENTS: [Content; 13] = [
    Content::Smooth,
    Content::Noise,
    Content::MostlyZero,
    Content::Lattice,
    Content::LandMask,
    Content::Gaps,
    Content::Specials,
    Content::Subnormal,
    Content::HugeRange,
    Content::Bits,
    Content::Constant,
    Content::Outliers,
    Content::MinusZero,
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
                Content::MinusZero => [-0.0, 0.0, 1.0][random.below(3) as usize],
            }
        })
        .collect()
}

/// The bytes of values in a layout.
pub(crate) fn chunk(values: &[f64], layout: &Layout, seed: u64) -> Vec<u8> {
    let mut random = Random(!seed);
    values
        .iter()
        .flat_map(|&value| match (layout.scalar, layout.byte_order) {
            // A NaN's payload must survive as well.
            (Scalar::F32, order) => {
                let value = value as f32;
                let bits = if value.is_nan() { value.to_bits() | (random.next() as u32 & 0x803f_ffff) } else { value.to_bits() };
                in_order(&bits.to_le_bytes(), order)
            }
            (Scalar::F64, order) => {
                let bits =
                    if value.is_nan() { value.to_bits() | (random.next() & 0x8007_ffff_ffff_ffff) } else { value.to_bits() };
                in_order(&bits.to_le_bytes(), order)
            }
        })
        .collect()
}

fn in_order(little: &[u8], order: ByteOrder) -> Vec<u8> {
    match order {
        ByteOrder::Little => little.to_vec(),
        ByteOrder::Big => little.iter().rev().copied().collect(),
    }
}

/// Values of a chunk, in f64, and their bytes in little-endian order.
pub(crate) fn read(chunk: &[u8], layout: &Layout) -> Vec<(f64, Vec<u8>)> {
    chunk
        .chunks(layout.scalar.size())
        .map(|raw| {
            let little = in_order(raw, layout.byte_order);
            let value = match layout.scalar {
                Scalar::F32 => f64::from(f32::from_le_bytes(little.as_slice().try_into().unwrap())),
                Scalar::F64 => f64::from_le_bytes(little.as_slice().try_into().unwrap()),
            };
            (value, little)
        })
        .collect()
}

pub(crate) fn layout(scalar: Scalar, byte_order: ByteOrder, dims: &[u64]) -> Layout {
    Layout { scalar, byte_order, shape: Shape::new(dims).unwrap() }
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
const CHAIN: [(PredictorPolicy, CodingPolicy); 6] = [
    (PredictorPolicy::Auto, CodingPolicy::Auto),
    (PredictorPolicy::Interpolation, CodingPolicy::Bitshuffle),
    (PredictorPolicy::Lorenzo, CodingPolicy::Bitshuffle),
    (PredictorPolicy::Axes(2), CodingPolicy::Huffman),
    (PredictorPolicy::Interpolation, CodingPolicy::Huffman),
    (PredictorPolicy::Auto, CodingPolicy::Bitshuffle),
];

/// Compresses, decompresses and checks every value. Then does so again and again: whatever predictors follow each other, no value leaves
/// its bound, and none that was rounded once is ever moved again. Returns the stream.
pub(crate) fn check_config(workspace: &mut Workspace, original: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let ErrorBound::Absolute(bound) = config.bound else { panic!("{config:?} has no absolute bound") };
    let fill = config.fill_value.map(|bits| bits.to_le_bytes()[..layout.scalar.size()].to_vec());
    let mut stream = Vec::new();
    workspace.compress(original, layout, config, &mut stream).unwrap();
    assert!(stream.len() as u64 <= max_stream_len(layout));
    let mut decoded = vec![0xa5; original.len()];
    workspace.decompress(&stream, &mut decoded).unwrap();
    let check = |decoded: &[u8], config: &Config| {
        for (index, ((x, x_bytes), (y, y_bytes))) in read(original, layout).into_iter().zip(read(decoded, layout)).enumerate() {
            let is_fill = fill.as_ref() == Some(&x_bytes);
            let holds = x_bytes == y_bytes || (x.is_finite() && !is_fill && (x - y).abs() <= bound);
            assert!(holds, "value {index} of {layout:?}: {x:e} became {y:e}, {config:?}");
        }
    };
    check(&decoded, config);
    let size = layout.scalar.size();
    for (predictor, coding) in CHAIN {
        let config = Config { predictor, coding, ..*config };
        let (mut again, mut twice) = (Vec::new(), vec![0x5a; original.len()]);
        workspace.compress(&decoded, layout, &config, &mut again).unwrap();
        workspace.decompress(&again, &mut twice).unwrap();
        check(&twice, &config);
        let rows = original.chunks(size).zip(decoded.chunks(size)).zip(twice.chunks(size));
        for (index, ((x, y), z)) in rows.enumerate() {
            assert!(x == y || y == z, "value {index} of {layout:?} moved again with {config:?}");
        }
        decoded = twice;
    }
    stream
}
