//! Any values of any type within any bound: every one keeps it, also when it is decoded and encoded again with another predictor and coding,
//! and none is moved twice where a bound does not depend on the chunk. `cargo +nightly fuzz run round_trip`.
#![no_main]

/// What decoded values must hold: `codec/tests/attack.rs` checks it as well.
#[path = "../../codec/tests/common/checks.rs"]
#[allow(dead_code, reason = "the tests call the rest")]
mod checks;

use checks::{Promise, numbers};
use libfuzzer_sys::fuzz_target;
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{CodingPolicy, Config, ErrorBound, Layout, PredictorPolicy, Scalar, Shape, Workspace, type_of_byte};

fuzz_target!(|data: &[u8]| {
    let Some((head, values)) = data.split_first_chunk::<14>() else { return };
    let mut number = [0; 8];
    number.copy_from_slice(&head[..8]);
    let number = f64::from_le_bytes(number);
    let Some((scalar, byte_order)) = type_of_byte(head[12] % Scalar::ALL.len() as u8 | head[12] & 0x80) else { return };
    let bound = match head[13] % 7 {
        0 => ErrorBound::Lossless,
        1 => ErrorBound::Relative(number),
        2 => ErrorBound::PointwiseRelative(number),
        3 => ErrorBound::Psnr(number),
        4 => ErrorBound::Ratio { ratio: number, ceiling: Some(f64::from(head[9])) },
        _ => ErrorBound::Absolute(number),
    };
    let Ok(mut config) = Config::new(bound) else { return };
    // The values in rows of head[9] + 1 and planes of head[10] + 1 rows, as many whole planes as there are.
    let (row, rows) = (u64::from(head[9]) + 1, u64::from(head[10]) % 16 + 1);
    let planes = values.len() as u64 / scalar.size() as u64 / row / rows;
    let planes = if scalar.is_pair() { planes & !1 } else { planes };
    let Ok(shape) = Shape::new(&[planes, rows, row]) else { return };
    let layout = Layout { scalar, byte_order, shape };
    if quire_codec::check_bound(&layout, &config).is_err() {
        return;
    }
    let original = &values[..layout.chunk_bytes() as usize];
    if head[13] & 0x80 != 0 {
        config.fill_value = Some(numbers(&original[..scalar.size()], &layout)[0].bits);
    }

    config.predictor = predictor(head[8] >> 3);
    config.coding = coding(head[11]);
    let mut workspace = Workspace::default();
    let (mut stream, mut decoded, mut again) = (Vec::new(), vec![0; original.len()], vec![0; original.len()]);
    workspace.compress(original, &layout, &config, &mut stream).expect("a chunk of the right length compresses");
    workspace.decompress(&stream, &mut decoded).expect("what was compressed decompresses");
    check(original, &decoded, &layout, &config);
    if !matches!(config.bound, ErrorBound::Absolute(_) | ErrorBound::PointwiseRelative(_) | ErrorBound::Lossless) {
        return;
    }
    config.predictor = predictor(head[8] >> 5);
    config.coding = coding(head[11] >> 1);
    workspace.compress(&decoded, &layout, &config, &mut stream).expect("decoded values compress");
    workspace.decompress(&stream, &mut again).expect("and decompress");
    check(original, &again, &layout, &config);
    let values = original.chunks(scalar.size()).zip(decoded.chunks(scalar.size())).zip(again.chunks(scalar.size()));
    for ((x, y), z) in values {
        assert!(x == y || y == z, "{x:?} became {y:?} and then {z:?}");
    }
});

/// Every value holds what the bound says of it, and the chunk what a PSNR says.
fn check(original: &[u8], decoded: &[u8], layout: &Layout, config: &Config) {
    let original = numbers(original, layout);
    let promise = Promise::new(&original, layout, config);
    if let Err(breach) = promise.check(&original, &numbers(decoded, layout), layout) {
        panic!("{}: {}, {config:?}", breach.kind, breach.detail);
    }
}

fn predictor(number: u8) -> PredictorPolicy {
    match number & 3 {
        0 => PredictorPolicy::Auto,
        1 => PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
        2 => PredictorPolicy::Lorenzo,
        _ => PredictorPolicy::Axes(2),
    }
}

fn coding(number: u8) -> CodingPolicy {
    if number & 1 == 0 { CodingPolicy::Huffman } else { CodingPolicy::Bitshuffle }
}
