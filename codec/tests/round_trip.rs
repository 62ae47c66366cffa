//! Every value of every kind of chunk keeps its bound, in every type, byte order, rank and size. A run takes a third of the matrices, see
//! common/sampling.rs.

mod common;

use common::checks::{noise, numbers};
use common::sampling::{self, sample};
use common::{CONTENTS, Content, Random, SHAPES, check_config, check_round_trip, chunk, chunk_of, layout, values};
use quire_codec::stages::exceptions::most_listed;
use quire_codec::stages::inspect::{Description, Prediction};
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{
    ByteOrder, CodebookPolicy, Coding, CodingPolicy, Config, ErrorBound, Header, PredictorPolicy, Scalar, Workspace,
};

const SCALARS: [Scalar; 2] = [Scalar::F32, Scalar::F64];
const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

#[test]
fn samples_have_every_value_of_every_dimension() {
    sampling::check_samples();
}

#[test]
fn matrix_of_contents_types_and_shapes() {
    const BOUNDS: [f64; 8] = [1e-300, 1e-44, 1e-12, 1e-3, 0.5, 1e3, 1e30, 1e300];
    let mut workspace = Workspace::default();
    let sizes = [SHAPES.len(), CONTENTS.len(), SCALARS.len(), ORDERS.len(), BOUNDS.len()];
    for [dims, content, scalar, order, bound] in sample("contents, types and shapes", sizes, 3) {
        let layout = layout(SCALARS[scalar], ORDERS[order], SHAPES[dims]);
        let original = chunk_of(CONTENTS[content], &layout, 9);
        check_round_trip(&mut workspace, &original, &layout, BOUNDS[bound], CodebookPolicy::Auto);
    }
}

#[test]
fn large_chunks_use_long_blocks() {
    const CASES: [(Content, f64); 3] = [(Content::Smooth, 1e-3), (Content::MostlyZero, 0.1), (Content::LandMask, 1e-2)];
    const CODEBOOKS: [CodebookPolicy; 3] = [CodebookPolicy::Auto, CodebookPolicy::Dictionary, CodebookPolicy::Custom];
    let mut workspace = Workspace::default();
    for [case, codebook] in sample("large chunks", [CASES.len(), CODEBOOKS.len()], 3) {
        let (content, bound) = CASES[case];
        let layout = layout(Scalar::F32, ByteOrder::Little, &[128, 128, 96]);
        let original = chunk_of(content, &layout, 3);
        check_round_trip(&mut workspace, &original, &layout, bound, CODEBOOKS[codebook]);
    }
}

#[test]
fn constant_noisy_and_smooth_chunks_have_their_codings() {
    let mut workspace = Workspace::default();
    let layout = layout(Scalar::F64, ByteOrder::Big, &[50, 50]);
    for (content, coding) in
        [(Content::Constant, Coding::Constant), (Content::Bits, Coding::Stored), (Content::Smooth, Coding::Quantized)]
    {
        let original = chunk_of(content, &layout, 1);
        let bound = if coding == Coding::Stored { 1e-300 } else { 1e-9 };
        let stream = check_round_trip(&mut workspace, &original, &layout, bound, CodebookPolicy::Auto);
        assert_eq!(Header::read_from(&stream).unwrap().coding, coding);
    }
}

#[test]
fn values_on_a_lattice_are_exact_and_cheap_at_any_bound() {
    let mut workspace = Workspace::default();
    for scalar in SCALARS {
        let layout = layout(scalar, ByteOrder::Big, &[40, 50]);
        let original = chunk_of(Content::Lattice, &layout, 4);
        let coarse = check_round_trip(&mut workspace, &original, &layout, 0.06, CodebookPolicy::Auto);
        let fine = check_round_trip(&mut workspace, &original, &layout, 1e-7, CodebookPolicy::Auto);
        assert_eq!(fine.len(), coarse.len());
        let mut decoded = vec![0; original.len()];
        workspace.decompress(&fine, &mut decoded).unwrap();
        assert!(decoded == original);
    }
}

#[test]
fn the_fill_value_comes_back_bit_for_bit() {
    let mut workspace = Workspace::default();
    let fill = -9999.0f64;
    for scalar in SCALARS {
        for order in ORDERS {
            for bound in [3.5e-3, 2e-6, 0.3, 20.0, 1e5] {
                let layout = layout(scalar, order, &[30, 100]);
                let smooth = values(Content::Smooth, 3000, 3);
                let mixed: Vec<f64> =
                    smooth.iter().enumerate().map(|(i, &x)| if i % 100 < 20 || i == 77 { fill } else { x + 9.0 }).collect();
                let original = chunk(&mixed, &layout, 3);
                let bits = if scalar == Scalar::F32 { u64::from((fill as f32).to_bits()) } else { fill.to_bits() };
                let config = Config { fill_value: Some(bits), ..Config::absolute(bound).unwrap() };
                check_config(&mut workspace, &original, &layout, &config);
            }
        }
    }
}

fn is_interpolated(stream: &[u8]) -> bool {
    Description::of(stream).unwrap().planes.first().is_some_and(|plane| matches!(plane.prediction, Prediction::Interpolation(_)))
}

#[test]
fn a_fill_value_without_a_code_comes_back_from_interpolated_chunks() {
    let mut workspace = Workspace::default();
    let dims = [32, 32, 32];
    let mut interpolated = 0;
    for scalar in SCALARS {
        let layout = layout(scalar, ByteOrder::Little, &dims);
        for bound in [0.2, 0.3, 0.05] {
            // Fills of k + 1/2 steps: rounding to either neighbour may go beyond the bound.
            for fill in [-9999.0, 2.0 * bound * 24_997.5, 2.0 * bound * 12.5, -2.0 * bound * 200.5, 15.0] {
                let field: Vec<f64> = (0..32 * 32 * 32)
                    .map(|i| {
                        let [z, y, x] = [i / 1024, i / 32 % 32, i % 32].map(f64::from);
                        let value = ((z / 9.0).sin() * (y / 7.0).cos() + (x / 11.0).sin()) * 30.0 + 15.0;
                        if i % 97 == 0 { fill } else { value }
                    })
                    .collect();
                let original = chunk(&field, &layout, 3);
                let bits = if scalar == Scalar::F32 { u64::from((fill as f32).to_bits()) } else { fill.to_bits() };
                for predictor in [PredictorPolicy::Auto, PredictorPolicy::Interpolation(InterpolationKind::CUBIC)] {
                    let config = Config { fill_value: Some(bits), predictor, ..Config::absolute(bound).unwrap() };
                    let stream = check_config(&mut workspace, &original, &layout, &config);
                    interpolated += u32::from(is_interpolated(&stream));
                }
            }
        }
    }
    assert!(interpolated >= 30, "{interpolated} of 60 chunks are interpolated");
}

#[test]
fn rows_written_one_by_one_do_not_drift() {
    // HDF5 without a chunk cache decodes and encodes the whole chunk for every row that is written.
    let layout = layout(Scalar::F32, ByteOrder::Little, &[64, 64]);
    let original = chunk_of(Content::Smooth, &layout, 1);
    let config = Config::absolute(1e-3).unwrap();
    let (mut workspace, mut stream, mut current) = (Workspace::default(), Vec::new(), vec![0; original.len()]);
    for row in 0..64 {
        let bytes = row * 256..(row + 1) * 256;
        current[bytes.clone()].copy_from_slice(&original[bytes.clone()]);
        let before = current[..bytes.start].to_vec();
        workspace.compress(&current, &layout, &config, &mut stream).unwrap();
        workspace.decompress(&stream, &mut current).unwrap();
        assert_eq!(before, current[..bytes.start], "rows before row {row} changed");
    }
    for (x, y) in numbers(&original, &layout).into_iter().zip(numbers(&current, &layout)) {
        assert!(x.is_within(1e-3, &y));
    }
}

#[test]
fn what_interpolation_has_restored_keeps_its_place_beside_what_is_written() {
    for scalar in SCALARS {
        let layout = layout(scalar, ByteOrder::Little, &[20, 30, 40]);
        let size = layout.scalar.size();
        let (first, second) = (chunk_of(Content::Smooth, &layout, 1), chunk_of(Content::Noise, &layout, 2));
        let (mut workspace, mut stream, mut current) = (Workspace::default(), Vec::new(), vec![0; first.len()]);
        let config = |predictor| Config { predictor, ..Config::absolute(0.05).unwrap() };
        workspace
            .compress(&first, &layout, &config(PredictorPolicy::Interpolation(InterpolationKind::CUBIC)), &mut stream)
            .unwrap();
        let interpolated = stream.len();
        workspace.decompress(&stream, &mut current).unwrap();
        let before = current.clone();
        // A box of other values, as a client writes it that knows no chunks.
        let written = |index: usize| index / 1200 % 20 > 12 && index / 40 % 30 < 9;
        for index in (0..24_000).filter(|&index| written(index)) {
            let bytes = index * size..(index + 1) * size;
            current[bytes.clone()].copy_from_slice(&second[bytes]);
        }
        for predictor in
            [PredictorPolicy::Auto, PredictorPolicy::Lorenzo, PredictorPolicy::Interpolation(InterpolationKind::CUBIC)]
        {
            workspace.compress(&current, &layout, &config(predictor), &mut stream).unwrap();
            let mut decoded = vec![0; first.len()];
            workspace.decompress(&stream, &mut decoded).unwrap();
            for index in (0..24_000).filter(|&index| !written(index)) {
                let bytes = index * size..(index + 1) * size;
                assert!(before[bytes.clone()] == decoded[bytes], "{scalar:?}: value {index} moved with {predictor:?}");
            }
            if predictor == PredictorPolicy::Interpolation(InterpolationKind::CUBIC) {
                assert!(stream.len() < 4 * interpolated + 4000, "{} bytes, {interpolated} before", stream.len());
            }
        }
    }
}

#[test]
fn a_chunk_that_interpolation_has_restored_is_interpolated_again() {
    // Differences would keep most of its values bit for bit, and other kinds of interpolation as escapes.
    let mut workspace = Workspace::default();
    let mut interpolated = 0;
    for (scalar, dims) in SCALARS
        .into_iter()
        .flat_map(|scalar| [&[3000][..], &[100_000], &[40, 50], &[12, 15, 20], &[26, 30, 40]].map(|dims| (scalar, dims)))
    {
        let layout = layout(scalar, ByteOrder::Little, dims);
        let size = layout.scalar.size();
        let first = chunk_of(Content::Smooth, &layout, 1);
        let other = chunk_of(Content::Noise, &layout, 2);
        for bound in [0.3, 0.03, 0.003] {
            let config = Config {
                predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
                ..Config::absolute(bound).unwrap()
            };
            let (mut stream, mut restored, mut decoded) = (Vec::new(), vec![0; first.len()], vec![0; first.len()]);
            workspace.compress(&first, &layout, &config, &mut stream).unwrap();
            workspace.decompress(&stream, &mut restored).unwrap();
            let before = stream.len();
            // As it is, and with a few rows of noise.
            for noisy in [0, size * 100] {
                let mut current = restored.clone();
                current[..noisy].copy_from_slice(&other[..noisy]);
                workspace.compress(&current, &layout, &Config::absolute(bound).unwrap(), &mut stream).unwrap();
                workspace.decompress(&stream, &mut decoded).unwrap();
                let pairs = numbers(&first, &layout).into_iter().zip(numbers(&decoded, &layout));
                for (x, y) in pairs.skip(noisy / size) {
                    assert!(x.is_within(bound, &y), "{scalar:?} {dims:?} at {bound}: {x:?} became {y:?} in two steps");
                }
                assert!(
                    stream.len() < 2 * before + 2 * noisy + 200,
                    "{scalar:?} {dims:?} at {bound}: {} bytes, {before} before",
                    stream.len()
                );
                interpolated += usize::from(stream.len() < first.len() / 2);
            }
        }
    }
    assert!(interpolated > 40, "{interpolated} of 60");
}

#[test]
fn few_exceptions_are_listed_and_more_have_planes() {
    let mut random = Random(3);
    for (scalar, order) in SCALARS.into_iter().flat_map(|scalar| ORDERS.map(|order| (scalar, order))) {
        let layout = layout(scalar, order, &[80, 100]);
        let limit = most_listed(8000);
        for count in [1, 2, limit - 1, limit, limit + 1, 3 * limit] {
            // Whole numbers, so that none is an exception by chance.
            let mut numbers: Vec<f64> = (0..8000).map(|index| f64::from(index % 70)).collect();
            let mut left = count;
            while left > 0 {
                let number = &mut numbers[random.below(8000) as usize];
                left -= u64::from(number.is_finite());
                *number = f64::NAN;
            }
            let original = chunk(&numbers, &layout, 1);
            let stream = check_round_trip(&mut Workspace::default(), &original, &layout, 1e-2, CodebookPolicy::Auto);
            let body = Header::read_from(&stream).unwrap().encoded_len();
            assert_eq!(stream[body + 8..body + 12], (count as u32).to_le_bytes());
            let first = numbers.iter().position(|number| number.is_nan()).unwrap() as u32;
            assert_eq!(stream[body + 12..body + 16] == first.to_le_bytes(), count <= limit, "{count} exceptions");
        }
    }
}

#[test]
fn values_where_the_fine_grid_ends_or_grows_coarser_keep_their_places() {
    for (scalar, reach) in
        SCALARS.into_iter().flat_map(|scalar| [1024.0, 2048.0, 4096.0, 65_536.0, 4_194_304.0].map(|reach| (scalar, reach)))
    {
        let layout = layout(scalar, ByteOrder::Little, &[60, 100]);
        let mut random = Random(5);
        for sign in [1.0, -1.0] {
            let values: Vec<f64> = (0..6000).map(|_| sign * 2e-3 * (reach - 3.0 + 6.0 * random.unit())).collect();
            let config =
                Config { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..Config::absolute(1e-3).unwrap() };
            check_config(&mut Workspace::default(), &chunk(&values, &layout, 1), &layout, &config);
        }
    }
}

/// A land mask costs what its outline costs, not more: no more than run lengths of 16 bits would, and the values beside it cost what they cost
/// without it.
#[test]
fn a_mask_costs_no_more_than_its_runs() {
    const SIDE: usize = 256;
    let layout = layout(Scalar::F32, ByteOrder::Little, &[SIDE as u64, SIDE as u64]);
    let place = |index: usize| ((index % SIDE) as f64, (index / SIDE) as f64);
    let mut random = Random(8);
    // Rough enough that differences are not all 0, and no lattice.
    let sea: Vec<f64> = (0..SIDE * SIDE)
        .map(|index| {
            let (x, y) = place(index);
            15.0 + 8.0 * (x * 0.021).sin() * (y * 0.017).cos() + 0.3 * (x * 0.31 + y * 0.23).sin() + 0.02 * random.unit()
        })
        .collect();
    let is_land = |index: usize| {
        let (x, y) = place(index);
        (x * 0.05 + (y * 0.09).sin()).sin() + (y * 0.07 + (x * 0.11).cos()).cos() > 0.62
    };
    let land = (0..sea.len()).filter(|&index| is_land(index)).count();
    assert!((0.25..0.40).contains(&(land as f64 / sea.len() as f64)), "{land} of {}", sea.len());
    let runs = 1 + (1..sea.len()).filter(|&index| is_land(index) != is_land(index - 1)).count();
    for bound in [0.5, 0.05, 0.005] {
        let bytes = |values: &[f64]| values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect::<Vec<u8>>();
        let original = bytes(&sea);
        let config = Config::absolute(bound).unwrap();
        let without = check_config(&mut Workspace::default(), &original, &layout, &config).len();
        for fill in [f64::NAN, 1e35, -9999.0] {
            let masked: Vec<f64> =
                sea.iter().enumerate().map(|(index, &value)| if is_land(index) { fill } else { value }).collect();
            let config = Config { fill_value: Some(u64::from((fill as f32).to_bits())), ..config };
            let with = check_config(&mut Workspace::default(), &bytes(&masked), &layout, &config).len();
            assert!(
                with <= without + 2 * runs,
                "{with} bytes with the mask of {fill}, {without} without, {runs} runs, bound {bound}"
            );
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let layout = layout(Scalar::F32, ByteOrder::Little, &[10]);
    let (mut workspace, mut stream) = (Workspace::default(), Vec::new());
    let config = Config::absolute(1.0).unwrap();
    assert!(workspace.compress(&[0; 39], &layout, &config, &mut stream).is_err());
    workspace.compress(&[0; 40], &layout, &config, &mut stream).unwrap();
    assert!(workspace.decompress(&stream, &mut [0; 41]).is_err());
}

#[test]
fn bounds_without_meaning_are_refused() {
    for bound in [-1.0, f64::NAN, f64::INFINITY, f64::MAX, 5e-324, f64::NEG_INFINITY] {
        assert!(Config::absolute(bound).is_err(), "{bound}");
    }
    assert_eq!(Config::absolute(0.0).unwrap().bound, ErrorBound::Lossless);
    assert_eq!(Config::absolute(-0.0).unwrap().bound, ErrorBound::Lossless);
    let original = [1u8, 2, 3, 4];
    let layout = layout(Scalar::U8, ByteOrder::Little, &[4]);
    let config = Config::new(ErrorBound::PointwiseRelative(0.1)).unwrap();
    let error = Workspace::default().compress(&original, &layout, &config, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("point-wise relative bound is for floating-point types, these are U8"), "{error}");
}

/// Bounds of every kind that says something of each value.
const BOUNDS: [ErrorBound; 10] = [
    ErrorBound::Lossless,
    ErrorBound::Absolute(1e-3),
    ErrorBound::Absolute(1.0),
    ErrorBound::Absolute(3.7),
    ErrorBound::Absolute(1e6),
    ErrorBound::Relative(1e-3),
    ErrorBound::Relative(1.0),
    ErrorBound::PointwiseRelative(0.3),
    ErrorBound::PointwiseRelative(1e-3),
    ErrorBound::PointwiseRelative(1e-9),
];

fn can_have(scalar: Scalar, bound: ErrorBound) -> bool {
    scalar.is_float() || !matches!(bound, ErrorBound::PointwiseRelative(_))
}

#[test]
fn matrix_of_bounds_types_and_contents() {
    const DIMS: [&[u64]; 5] = [&[1], &[2], &[10_007], &[7, 11, 13], &[3, 5, 7, 11]];
    let mut workspace = Workspace::default();
    let mut codings = Vec::new();
    let sizes = [DIMS.len(), CONTENTS.len(), Scalar::ALL.len(), BOUNDS.len()];
    for [dims, content, scalar, bound] in sample("bounds, types and contents", sizes, 3) {
        let (dims, scalar, bound) = (DIMS[dims], Scalar::ALL[scalar], BOUNDS[bound]);
        if !can_have(scalar, bound) {
            continue;
        }
        let layout = layout(scalar, ORDERS[dims.len() % 2], dims);
        let original = chunk_of(CONTENTS[content], &layout, 9);
        let config = Config::new(bound).unwrap();
        let stream = check_config(&mut workspace, &original, &layout, &config);
        codings.push(Header::read_from(&stream).unwrap().coding);
        // The chunk's last value as the fill value.
        let fill_value = numbers(&original, &layout).last().map(|value| value.bits);
        check_config(&mut workspace, &original, &layout, &Config { fill_value, ..config });
    }
    let count = |coding| codings.iter().filter(|&&found| found == coding).count();
    for coding in [Coding::Stored, Coding::Constant, Coding::Quantized, Coding::Exact, Coding::Steps, Coding::Logarithmic] {
        assert!(count(coding) > 20, "hardly any chunk is {coding:?}");
    }
    // One content of 14 under two of the bounds.
    assert!(count(Coding::Decimal) > 0, "no chunk is of decimals");
}

#[test]
fn a_psnr_is_reached_and_hardly_exceeded() {
    let mut workspace = Workspace::default();
    for content in [Content::Smooth, Content::Noise, Content::MostlyZero, Content::Gaps] {
        for scalar in [Scalar::F32, Scalar::F64, Scalar::I32, Scalar::U16, Scalar::F16, Scalar::BF16] {
            let layout = layout(scalar, ByteOrder::Little, &[30, 40, 50]);
            let original = chunk_of(content, &layout, 5);
            for decibels in [30.0, 55.5, 70.0] {
                let config = Config::new(ErrorBound::Psnr(decibels)).unwrap();
                let (mut stream, mut decoded) = (Vec::new(), vec![0; original.len()]);
                workspace.compress(&original, &layout, &config, &mut stream).unwrap();
                workspace.decompress(&stream, &mut decoded).unwrap();
                let reached = noise(&numbers(&original, &layout), &numbers(&decoded, &layout), &layout, None).unwrap().reached;
                let has_fine_steps = [Scalar::F32, Scalar::F64].contains(&scalar);
                // Steps of the ladder are up to 12 % apart, which is 1 dB. Limits take noise away from values near the least one, here zeros, at any bound.
                let excess = if content == Content::MostlyZero { 3.0 } else { 1.2 };
                let most = if has_fine_steps { decibels + excess } else { f64::INFINITY };
                assert!(
                    (decibels - 0.1..=most).contains(&reached),
                    "{content:?} {scalar:?}: {reached} where {decibels} was asked for"
                );
            }
        }
    }
}

#[test]
fn a_ratio_is_reached_but_not_beyond_the_ceiling() {
    let mut workspace = Workspace::default();
    for scalar in [Scalar::F32, Scalar::F64, Scalar::I32, Scalar::F16, Scalar::BF16] {
        let layout = layout(scalar, ByteOrder::Little, &[64, 40, 50]);
        let mut smooth = values(Content::Smooth, 128_000, 5);
        for (value, noise) in smooth.iter_mut().zip(values(Content::Noise, 128_000, 6)) {
            *value += noise * 0.01;
        }
        let original = chunk(&smooth, &layout, 5);
        for ratio in [3.0, 10.0, 40.0] {
            let config = Config::new(ErrorBound::Ratio { ratio, ceiling: None }).unwrap();
            let mut stream = Vec::new();
            workspace.compress(&original, &layout, &config, &mut stream).unwrap();
            let reached = original.len() as f64 / stream.len() as f64;
            // Numbers of 16 bits have few steps.
            let tolerance = if scalar.size() == 2 { 0.1 } else { 0.05 };
            let mut decoded = vec![0; original.len()];
            workspace.decompress(&stream, &mut decoded).unwrap();
            let is_exact = decoded == original;
            assert!(
                (reached / ratio - 1.0).abs() <= tolerance || is_exact && reached > ratio,
                "{scalar:?}: {reached} where {ratio} was asked for"
            );

            let ceiling = if scalar == Scalar::I32 { 1000.0 } else { 1e-4 };
            let config = Config::new(ErrorBound::Ratio { ratio: 1000.0, ceiling: Some(ceiling) }).unwrap();
            workspace.compress(&original, &layout, &config, &mut stream).unwrap();
            workspace.decompress(&stream, &mut decoded).unwrap();
            for (x, y) in numbers(&original, &layout).into_iter().zip(numbers(&decoded, &layout)) {
                assert!(x.is_within(ceiling, &y), "{x:?} became {y:?}");
            }
        }
    }
}

#[test]
fn shares_of_the_range_of_16_bits_cost_a_bit_a_value_at_most() {
    let mut workspace = Workspace::default();
    for scalar in [Scalar::F16, Scalar::BF16] {
        let layout = layout(scalar, ByteOrder::Little, &[20, 30, 40]);
        let original = chunk_of(Content::Smooth, &layout, 5);
        let exact: Vec<f64> = numbers(&original, &layout).into_iter().map(|x| x.value).collect();
        let range = exact.iter().fold(f64::MIN, |most, &x| most.max(x)) - exact.iter().fold(f64::MAX, |least, &x| least.min(x));
        let (mut ours, mut as_given) = (0, 0);
        for share in [1e-2, 7e-3, 5e-3, 3e-3, 2e-3, 1.5e-3] {
            let mut length_with = |bound: ErrorBound| {
                let (mut stream, mut decoded) = (Vec::new(), vec![0; original.len()]);
                workspace.compress(&original, &layout, &Config::new(bound).unwrap(), &mut stream).unwrap();
                workspace.decompress(&stream, &mut decoded).unwrap();
                for (x, y) in numbers(&original, &layout).into_iter().zip(numbers(&decoded, &layout)) {
                    assert!(x.is_within(share * range, &y), "{x:?} became {y:?}");
                }
                stream.len()
            };
            ours += length_with(ErrorBound::Relative(share));
            as_given += length_with(ErrorBound::Absolute(share * range));
        }
        // Steps are powers of two, whose errors stay within the bound where parts are written again: 31 % for binary16 at these shares.
        assert!(20 * ours < 27 * as_given, "{scalar:?}: {ours} bytes, {as_given} with steps between");
    }
}

/// Differences of f64 chunks that fit 16 bits but for a few, with sums that do not fit 32 bits.
#[test]
fn spikes_beyond_32_bits_among_small_differences() {
    let mut workspace = Workspace::default();
    for dims in [&[20_000][..], &[100, 200], &[20, 25, 40]] {
        let layout = layout(Scalar::F64, ByteOrder::Little, dims);
        let smooth = values(Content::Smooth, 20_000, 5);
        for (spikes, step) in [(1, 3e9), (3, 1e9), (40, 1e8), (2, 1e15)] {
            let mut spiked = smooth.clone();
            (0..spikes).for_each(|spike| spiked[137 + spike * 431] += step * 2e-3 * (1.0 + spike as f64));
            let original = chunk(&spiked, &layout, 5);
            for predictor in [PredictorPolicy::Lorenzo, PredictorPolicy::Axes(0), PredictorPolicy::Axes(1), PredictorPolicy::Auto]
            {
                let config = Config { predictor, ..Config::absolute(1e-3).unwrap() };
                check_config(&mut workspace, &original, &layout, &config);
            }
        }
    }
}

/// What a workspace has seen before leaves no trace in a stream, nor in what is read.
#[test]
fn a_used_workspace_does_what_a_new_one_does() {
    const DIMS: [&[u64]; 8] = [&[1], &[31], &[2049], &[100, 3], &[3, 5000], &[20, 30, 40], &[1, 64, 64], &[2, 1, 40, 50]];
    const BOUNDS: [f64; 6] = [1e-300, 1e-44, 1e-12, 1e-3, 0.5, 1e30];
    const CODINGS: [CodingPolicy; 2] = [CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
    let mut used = Workspace::default();
    let sizes = [DIMS.len(), SCALARS.len(), CONTENTS.len(), BOUNDS.len(), CODINGS.len()];
    for [dims, scalar, content, bound, coding] in sample("used workspaces", sizes, 3) {
        let layout = layout(SCALARS[scalar], ByteOrder::Little, DIMS[dims]);
        let original = chunk_of(CONTENTS[content], &layout, 9);
        let config = Config { coding: CODINGS[coding], ..Config::absolute(BOUNDS[bound]).unwrap() };
        let [by_used, by_new] = [&mut used, &mut Workspace::default()].map(|workspace| {
            let (mut stream, mut decoded) = (Vec::new(), vec![0; original.len()]);
            workspace.compress(&original, &layout, &config, &mut stream).unwrap();
            workspace.decompress(&stream, &mut decoded).unwrap();
            (stream, decoded)
        });
        assert!(by_used == by_new, "{:?} {layout:?} {config:?}", CONTENTS[content]);
    }
}
