//! Small chunks of any type, shape, content and bound, each from its own number: `QUIRE_CASE=123 cargo test -p quire-codec --test million` runs one of
//! them again. A run has a tenth of a million, other ones each day; `QUIRE_FULL_MATRIX=1` has the first million, and `QUIRE_CHUNKS=10000000` that many.

mod common;

use common::cases::{cases_of, run_cases};
use common::checks::{Promise, bits, numbers};
use common::{Random, sampling};
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{
    ByteOrder, CodebookPolicy, CodingPolicy, Config, ErrorBound, Layout, PredictorPolicy, Scalar, Workspace, check_bound,
    max_stream_len,
};

const CASES: u64 = 1_000_000;

/// One of a few.
fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn layout(random: &mut Random) -> Layout {
    let mut dims: Vec<u64> = (0..1 + random.below(4)).map(|_| 1 + random.below(9)).collect();
    if random.below(50) == 0 {
        dims[0] += random.below(3000) / dims.iter().product::<u64>();
    }
    let scalar = pick(random, &Scalar::ALL);
    common::layout(scalar, pick(random, &[ByteOrder::Little, ByteOrder::Big]), &dims)
}

/// Bytes of a chunk: a walk of small or large steps, on a lattice or off, with values of any bits and repeated ones sprinkled in.
fn chunk(random: &mut Random, layout: &Layout) -> Vec<u8> {
    let elements = layout.shape.elements() as usize;
    let (spread, offset) = (10f64.powi(random.below(80) as i32 - 40), random.unit() * pick(random, &[0.0, 1.0, 100.0, 1e4]));
    let rare = pick(random, &[0, 0, 3, 30, 100]);
    let lattice = random.below(4) == 0;
    let (mut at, mut last) = (offset, 0);
    let values: Vec<f64> = (0..elements)
        .map(|_| {
            at += random.unit();
            if lattice { (at * 8.0).round() / 8.0 } else { at * spread }
        })
        .collect();
    let mut bytes = common::chunk(&values, layout, random.next());
    for value in bytes.chunks_mut(layout.scalar.size()) {
        if random.below(100) < rare {
            if random.below(3) > 0 {
                last = pick(random, &[random.0, 0, 1, u64::MAX, 1 << 63, 0x7f80_0000, 0x7ff0 << 48, 0x8000, 0x7c00, 0x80]);
            }
            for (byte, of_last) in value.iter_mut().zip(last.to_le_bytes()) {
                *byte = of_last;
            }
        }
    }
    bytes
}

fn config(random: &mut Random, layout: &Layout, chunk: &[u8]) -> Option<Config<'static>> {
    let number = (1.0 + random.unit() * 0.9) * 10f64.powi(random.below(60) as i32 - 45);
    let bound = match random.below(10) {
        0 => ErrorBound::Lossless,
        1 => ErrorBound::Relative(10f64.powf(-8.0 * random.unit().abs())),
        2 | 3 => ErrorBound::PointwiseRelative(10f64.powf(-12.0 * random.unit().abs() - 1e-9)),
        4 => ErrorBound::Psnr(1.0 + 150.0 * random.unit().abs()),
        5 => ErrorBound::Ratio { ratio: 1.01 + 9.0 * random.unit().abs(), ceiling: Some(number) },
        _ => ErrorBound::Absolute(number),
    };
    let mut config = Config::new(bound).ok()?;
    check_bound(layout, &config).ok()?;
    if random.below(3) == 0 {
        let size = layout.scalar.size();
        let at = random.below(layout.shape.elements()) as usize * size;
        config.fill_value = Some(bits(&chunk[at..at + size], layout.byte_order));
    }
    config.coding = pick(random, &[CodingPolicy::Auto, CodingPolicy::Huffman, CodingPolicy::Bitshuffle]);
    config.codebook =
        pick(random, &[CodebookPolicy::Auto, CodebookPolicy::Auto, CodebookPolicy::Dictionary, CodebookPolicy::Custom]);
    config.books = pick(random, &[&[][..], &common::books()[..3], common::books()]);
    config.predictor = pick(
        random,
        &[
            PredictorPolicy::Auto,
            PredictorPolicy::Auto,
            PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
            PredictorPolicy::Axes(2),
        ],
    );
    Some(config)
}

fn run(case: u64, workspace: &mut Workspace, stream: &mut Vec<u8>) -> bool {
    let mut random = Random(case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let layout = layout(&mut random);
    let original = chunk(&mut random, &layout);
    let Some(config) = config(&mut random, &layout, &original) else { return false };
    workspace.compress(&original, &layout, &config, stream).unwrap();
    assert!(stream.len() as u64 <= max_stream_len(&layout), "case {case}: {layout:?} {config:?}");
    let mut decoded = vec![0xa5; original.len()];
    workspace.decompress(stream, &mut decoded).unwrap();
    let (before, after) = (numbers(&original, &layout), numbers(&decoded, &layout));
    let outcome = Promise::new(&before, &layout, &config).check(&before, &after, &layout);
    outcome.unwrap_or_else(|breach| panic!("case {case}: {layout:?} {config:?}: {breach:?}"));
    true
}

#[test]
fn a_million_chunks_keep_their_bounds() {
    let count = cases_of("QUIRE_CHUNKS", if sampling::is_full() { CASES } else { CASES / 10 });
    let first = if sampling::is_full() { 0 } else { sampling::seed().wrapping_mul(CASES) };
    let state = || (Workspace::default(), Vec::new());
    run_cases(first, count, state, |case, (workspace, stream)| u64::from(run(case, workspace, stream)));
}
