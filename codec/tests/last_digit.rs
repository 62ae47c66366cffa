//! Bounds below the last digit of the values: the stream is never longer than that of the exact bits.

mod common;

use common::{Random, check_config, chunk, layout};
use quire_codec::stages::{settled, tries_exact_bits};
use quire_codec::{
    ByteOrder, Coding, CodingPolicy, Config, ErrorBound, Header, Layout, Scalar, SettledBound, SettledConfig, Workspace,
};

const FLOATS: [Scalar; 6] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16, Scalar::C64, Scalar::C128];
const CODINGS: [CodingPolicy; 2] = [CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
/// Small chunks, of which all values are measured, and others, of which tiles are.
const SHAPES: [&[u64]; 6] = [&[900], &[31, 40], &[9, 20, 31], &[20_000], &[130, 160], &[24, 30, 41]];

/// The stream of a chunk under a bound.
fn stream_of(workspace: &mut Workspace, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let mut stream = Vec::new();
    workspace.compress(chunk, layout, config, &mut stream).unwrap();
    stream
}

/// Whether a stream is at most 1 % longer than another one, or at most 16 bytes.
fn is_no_longer(stream: &[u8], exact: &[u8]) -> bool {
    stream.len() <= exact.len() + (exact.len() / 100).max(16)
}

/// Fields, of about a hundred digits at most, so that binary16 holds most of them.
#[derive(Debug, Clone, Copy)]
enum Field {
    Smooth,
    Noise,
    /// A random walk in steps of the last digit.
    Walk,
    /// Small counts, most of which are 0.
    Counts,
}

const FIELDS: [Field; 4] = [Field::Smooth, Field::Noise, Field::Walk, Field::Counts];

/// Values that are whole numbers over a divisor, with gaps, values of the fill and values that are no decimals among them.
fn decimals(field: Field, layout: &Layout, divisor: f64, random: &mut Random) -> Vec<f64> {
    let row = layout.shape.row() as f64;
    let rates = [0.05, 0.13].map(|rate| rate * (1.0 + random.unit().abs()));
    let rare: [u64; 3] = std::array::from_fn(|_| [u64::MAX, 40, 300][random.below(3) as usize]);
    let mut walk = 0.0;
    (0..layout.shape.elements())
        .map(|index| {
            let at = [index as f64 % row, (index as f64 / row).floor()];
            walk += random.below(3) as f64 - 1.0;
            let digits = match field {
                Field::Smooth => 40.0 * ((at[0] * rates[0]).sin() + (at[1] * rates[1]).cos()),
                Field::Noise => 90.0 * random.unit(),
                Field::Walk => walk,
                Field::Counts => (random.unit().abs().ln() * -2.0).floor(),
            };
            let is_rare = rare.map(|one_in| random.below(one_in) == 0);
            match is_rare {
                [true, ..] => f64::NAN,
                [_, true, _] => 9.969_209_968_386_869e36,
                [_, _, true] => digits / divisor * 1.01,
                // The sum makes 0 of -0.
                _ => digits.round() / divisor + 0.0,
            }
        })
        .collect()
}

#[test]
fn streams_under_a_bound_are_no_longer_than_exact_ones() {
    let (mut workspace, mut random) = (Workspace::default(), Random(14));
    let (mut cases, mut tried, mut exact_codings) = (0, 0, 0);
    for (places, field) in (0..=7).flat_map(|places| FIELDS.map(|field| (places, field))) {
        for scalar in FLOATS {
            let dims = SHAPES[random.below(SHAPES.len() as u64) as usize];
            let layout = layout(scalar, [ByteOrder::Little, ByteOrder::Big][random.below(2) as usize], dims);
            let divisor = 10f64.powi(places);
            let original = chunk(&decimals(field, &layout, divisor, &mut random), &layout, 3);
            let coding = CODINGS[random.below(2) as usize];
            let with = |bound| Config { coding, ..Config::new(bound).unwrap() };
            let exact = stream_of(&mut workspace, &original, &layout, &with(ErrorBound::Lossless));
            let below = 0.5 / divisor;
            let bounds = [0.9, 0.3, 0.01, 1e-4].map(|share| ErrorBound::Absolute(share * below)).into_iter();
            let others = [
                ErrorBound::PointwiseRelative(1e-2),
                ErrorBound::PointwiseRelative(1e-5),
                ErrorBound::Relative(1e-5),
                ErrorBound::Psnr(120.0),
                ErrorBound::Ratio { ratio: 1.01, ceiling: Some(0.1 * below) },
                ErrorBound::Ratio { ratio: 1.5, ceiling: None },
            ];
            for bound in bounds.chain(others) {
                let config = with(bound);
                let stream = stream_of(&mut workspace, &original, &layout, &config);
                let what = format!("{scalar} {dims:?} {field:?} {places} places {coding:?} {bound:?}");
                assert!(is_no_longer(&stream, &exact), "{what}: {} bytes, exactly {}", stream.len(), exact.len());
                cases += 1;
                let coding = Header::read_from(&stream).unwrap().coding;
                exact_codings += usize::from(matches!(coding, Coding::Decimal | Coding::Exact));
                if matches!(bound, ErrorBound::Absolute(_) | ErrorBound::PointwiseRelative(_)) {
                    let settled = settled(&original, &layout, &config).unwrap().unwrap();
                    tried += usize::from(tries_exact_bits(&original, &layout, &settled));
                    if random.below(8) == 0 {
                        check_config(&mut workspace, &original, &layout, &config);
                    }
                }
            }
        }
    }
    println!("{cases} streams, exact bits tried for {tried}, {exact_codings} of decimals or of bits");
    assert!(tried > cases / 3 && exact_codings > cases / 4, "{tried} and {exact_codings} of {cases}");
}

/// A sample of zeros lets expect short exact bits. In the chunk they are longer than expected; the shorter stream stays.
#[test]
fn chunks_that_are_not_like_their_sample_have_the_shorter_stream() {
    let (mut workspace, mut random) = (Workspace::default(), Random(6));
    let layout = layout(Scalar::F32, ByteOrder::Little, &[64, 1100]);
    let middle = 28 * 1100..36 * 1100;
    for (percent_of_all_digits, expected) in [(3, SettledBound::Lossless), (45, SettledBound::Absolute(1e-3))] {
        let values: Vec<f64> = (0..64 * 1100)
            .map(|index| match 100.0 * random.unit() {
                _ if middle.contains(&index) => 0.0,
                value if random.below(100) < percent_of_all_digits => value,
                value => (100.0 * value).round() / 100.0,
            })
            .collect();
        let original = chunk(&values, &layout, 1);
        let config = Config::absolute(1e-3).unwrap();
        let settled = settled(&original, &layout, &config).unwrap().unwrap();
        assert!(tries_exact_bits(&original, &layout, &settled), "{percent_of_all_digits} %");
        let [exact, bounded] = [SettledBound::Lossless, settled.bound].map(|bound| {
            let mut stream = Vec::new();
            workspace.compress_settled(&original, &layout, &settled.with_bound(bound), &mut stream).unwrap();
            stream
        });
        let lengths = (exact.len(), bounded.len());
        let shorter = if exact.len() <= bounded.len() { (exact, SettledBound::Lossless) } else { (bounded, settled.bound) };
        assert_eq!(shorter.1, expected, "{percent_of_all_digits} %: {lengths:?} bytes");
        assert!(stream_of(&mut workspace, &original, &layout, &config) == shorter.0, "{percent_of_all_digits} %");
    }
}

/// Counts, most of which are 0. README promises this.
#[test]
fn counts_are_small_at_any_bound() {
    let (mut workspace, mut random) = (Workspace::default(), Random(2));
    let layouts = FLOATS.map(|scalar| layout(scalar, ByteOrder::Little, &[1 << 15]));
    for (layout, zeros) in layouts.into_iter().flat_map(|layout| [0, 90, 99].map(|zeros| (layout, zeros))) {
        let count =
            |random: &mut Random| if random.below(100) < zeros { 0 } else { (0..20).filter(|_| random.below(7) == 0).count() };
        let values: Vec<f64> = (0..layout.shape.elements()).map(|_| count(&mut random) as f64).collect();
        let original = chunk(&values, &layout, 1);
        let exact = stream_of(&mut workspace, &original, &layout, &Config::new(ErrorBound::Lossless).unwrap());
        for bound in [
            ErrorBound::Absolute(1e-3),
            ErrorBound::Relative(1e-5),
            ErrorBound::Psnr(100.0),
            ErrorBound::PointwiseRelative(1e-2),
            ErrorBound::PointwiseRelative(1e-3),
            ErrorBound::PointwiseRelative(1e-5),
        ] {
            let stream = stream_of(&mut workspace, &original, &layout, &Config::new(bound).unwrap());
            let what = format!("{} with {zeros} % zeros, {bound:?}", layout.scalar);
            assert!(is_no_longer(&stream, &exact), "{what}: {} bytes, exactly {}", stream.len(), exact.len());
        }
    }
}

/// Values with more digits than the bound keeps get the bound's grid, whatever else the chunk has.
#[test]
fn other_values_are_not_tried() {
    let mut random = Random(3);
    for scalar in [Scalar::F32, Scalar::F64] {
        let layout = layout(scalar, ByteOrder::Little, &[60, 70]);
        for others in [0.0, f64::NAN, 1e35, 9.969_209_968_386_869e36] {
            let values: Vec<f64> =
                (0..60 * 70).map(|_| if random.below(3) == 0 { others } else { 300.0 * random.unit() }).collect();
            let chunk = chunk(&values, &layout, 1);
            for bound in [1e-1, 1e-2, 1e-3] {
                for bound in [SettledBound::Absolute(bound), SettledBound::PointwiseRelative(bound / 10.0)] {
                    assert!(!tries_exact_bits(&chunk, &layout, &SettledConfig::of(bound)), "{scalar} {others} {bound:?}");
                }
            }
        }
    }
}
