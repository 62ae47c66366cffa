//! Any values: every one keeps the bound, also when it is decoded and encoded again with another predictor and coding, and none is moved twice. `cargo +nightly fuzz run round_trip`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quire_codec::{ByteOrder, CodingPolicy, Config, Layout, PredictorPolicy, Scalar, Shape, Workspace};

fuzz_target!(|data: &[u8]| {
    let Some((head, values)) = data.split_first_chunk::<12>() else { return };
    let mut bound = [0; 8];
    bound.copy_from_slice(&head[..8]);
    let Ok(mut config) = Config::absolute(f64::from_le_bytes(bound)) else { return };
    let scalar = if head[8] & 1 == 0 { Scalar::F32 } else { Scalar::F64 };
    let byte_order = if head[8] & 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    // The values in rows of head[9] + 1 and planes of head[10] + 1 rows, as many whole planes as there are.
    let (row, rows) = (u64::from(head[9]) + 1, u64::from(head[10]) % 16 + 1);
    let planes = values.len() as u64 / scalar.size() as u64 / row / rows;
    let Ok(shape) = Shape::new(&[planes, rows, row]) else { return };
    let layout = Layout { scalar, byte_order, shape };
    let original = &values[..layout.chunk_bytes() as usize];

    config.predictor = predictor(head[8] >> 3);
    config.coding = coding(head[11]);
    let mut workspace = Workspace::default();
    let (mut stream, mut decoded, mut again) = (Vec::new(), vec![0; original.len()], vec![0; original.len()]);
    workspace.compress(original, &layout, &config, &mut stream).expect("a chunk of the right length compresses");
    workspace.decompress(&stream, &mut decoded).expect("what was compressed decompresses");
    let quire_codec::ErrorBound::Absolute(bound) = config.bound else { return };
    let check = |decoded: &[u8]| {
        for (x, y) in original.chunks(scalar.size()).zip(decoded.chunks(scalar.size())) {
            let error = (value(x, byte_order) - value(y, byte_order)).abs();
            assert!(x == y || error <= bound, "{x:?} became {y:?}, bound {bound:e}");
        }
    };
    check(&decoded);
    config.predictor = predictor(head[8] >> 5);
    config.coding = coding(head[11] >> 1);
    workspace.compress(&decoded, &layout, &config, &mut stream).expect("decoded values compress");
    workspace.decompress(&stream, &mut again).expect("and decompress");
    check(&again);
    let values = original.chunks(scalar.size()).zip(decoded.chunks(scalar.size())).zip(again.chunks(scalar.size()));
    for ((x, y), z) in values {
        assert!(x == y || y == z, "{x:?} became {y:?} and then {z:?}");
    }
});

fn predictor(number: u8) -> PredictorPolicy {
    match number & 3 {
        0 => PredictorPolicy::Auto,
        1 => PredictorPolicy::Interpolation,
        2 => PredictorPolicy::Lorenzo,
        _ => PredictorPolicy::Axes(2),
    }
}

fn coding(number: u8) -> CodingPolicy {
    if number & 1 == 0 { CodingPolicy::Huffman } else { CodingPolicy::Bitshuffle }
}

fn value(raw: &[u8], order: ByteOrder) -> f64 {
    let mut little = raw.to_vec();
    if order == ByteOrder::Big {
        little.reverse();
    }
    match *little.as_slice() {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("values have four or eight bytes"),
    }
}
