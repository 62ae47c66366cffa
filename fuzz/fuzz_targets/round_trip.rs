//! Any values of any type within any bound: every one keeps it, also when it is decoded and encoded again with another predictor and coding,
//! and none is moved twice where a bound does not depend on the chunk. `cargo +nightly fuzz run round_trip`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quire_codec::element::Element;
use quire_codec::integer::Integer;
use quire_codec::small_float::{BFloat16, Binary16};
use quire_codec::{CodingPolicy, Config, ErrorBound, Layout, PredictorPolicy, Scalar, Shape, Workspace, type_of_byte};

fuzz_target!(|data: &[u8]| {
    let Some((head, values)) = data.split_first_chunk::<14>() else { return };
    let mut number = [0; 8];
    number.copy_from_slice(&head[..8]);
    let number = f64::from_le_bytes(number);
    let Some((scalar, byte_order)) = type_of_byte(head[12] % 12 | head[12] & 0x80) else { return };
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
    let Ok(shape) = Shape::new(&[planes, rows, row]) else { return };
    let layout = Layout { scalar, byte_order, shape };
    if quire_codec::bound::check(&layout, &config).is_err() {
        return;
    }
    let original = &values[..layout.chunk_bytes() as usize];
    if head[13] & 0x80 != 0 {
        config.fill_value = Some(bits(&original[..scalar.size()], &layout));
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

/// Every value holds what the bound says of it.
fn check(original: &[u8], decoded: &[u8], layout: &Layout, config: &Config) {
    let size = layout.scalar.size();
    for (x, y) in original.chunks(size).zip(decoded.chunks(size)).filter(|(x, y)| x != y) {
        assert_ne!(Some(bits(x, layout)), config.fill_value, "the fill value became {y:?}");
        let ((x, whole_x), (y, whole_y)) = (value(x, layout), value(y, layout));
        let holds = |bound: f64| match (whole_x, whole_y) {
            // A comparison in f64 would be a rounded one.
            (Some(x), Some(y)) => (x - y).unsigned_abs() <= bound.min(1e30) as u128,
            _ => x.is_finite() && (x - y).abs() <= bound,
        };
        let held = match config.bound {
            ErrorBound::Absolute(bound) | ErrorBound::Ratio { ceiling: Some(bound), .. } => holds(bound),
            ErrorBound::PointwiseRelative(share) => holds(share * x.abs()) && x.is_sign_negative() == y.is_sign_negative(),
            ErrorBound::Lossless => false,
            _ => x.is_finite(),
        };
        assert!(held, "{x:?} became {y:?}, {config:?}");
    }
}

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

/// A value's bits.
fn bits(raw: &[u8], layout: &Layout) -> u64 {
    let add = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
    match layout.byte_order {
        quire_codec::ByteOrder::Big => raw.iter().fold(0, add),
        quire_codec::ByteOrder::Little => raw.iter().rev().fold(0, add),
    }
}

/// A value, and exactly if it is a whole number.
fn value(raw: &[u8], layout: &Layout) -> (f64, Option<i128>) {
    fn read<V: Element>(raw: &[u8], layout: &Layout) -> V {
        V::read(raw, 0, layout.byte_order)
    }
    let signed = |code: i64| (code as f64, Some(i128::from(code)));
    match layout.scalar {
        Scalar::F32 => (read::<f32>(raw, layout).approximate(), None),
        Scalar::F64 => (read::<f64>(raw, layout).approximate(), None),
        Scalar::F16 => (read::<Binary16>(raw, layout).approximate(), None),
        Scalar::BF16 => (read::<BFloat16>(raw, layout).approximate(), None),
        Scalar::I8 => signed(read::<i8>(raw, layout).to_code().to_i64()),
        Scalar::I16 => signed(read::<i16>(raw, layout).to_code().to_i64()),
        Scalar::I32 => signed(read::<i32>(raw, layout).to_code().to_i64()),
        Scalar::I64 => signed(read::<i64>(raw, layout)),
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => {
            let bits = bits(raw, layout);
            (bits as f64, Some(i128::from(bits)))
        }
    }
}
