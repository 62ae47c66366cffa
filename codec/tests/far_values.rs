//! Far values (FORMAT.md §11.2): under bounds that depend on the chunk, an undeclared fill value changes nothing for the other values.

mod common;

use common::checks::numbers;
use common::layout;
use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Workspace};

/// Usual fill values.
const FILLS: [f64; 8] = [1e20, 9.969_209_968_386_869e36, -1e34, 1e15, -9999.0, -32_768.0, 65_504.0, -2_147_483_648.0];
const BOUNDS: [ErrorBound; 6] = [
    ErrorBound::Relative(1e-2),
    ErrorBound::Relative(1e-4),
    ErrorBound::Psnr(40.0),
    ErrorBound::Psnr(80.0),
    ErrorBound::Ratio { ratio: 4.0, ceiling: None },
    ErrorBound::Ratio { ratio: 8.0, ceiling: Some(1.0) },
];
const SHARES: [f64; 4] = [0.0, 0.01, 0.3, 0.6];

/// A field between 270 and 290 with a little noise, and with `fill` in a share of it, at least once.
fn field(count: usize, share: f64, fill: f64) -> Vec<f64> {
    (0..count)
        .map(|index| {
            let is_filled = (index as f64 / 700.0).fract() < share || index == count / 3;
            let value = 280.0 + 9.0 * (index as f64 / 61.0).sin() + ((index * 7919) % 101) as f64 / 101.0;
            if is_filled { fill } else { value }
        })
        .collect()
}

/// The bytes of such a field. Of integers, other values than `fill` are from -50 to 55.
fn chunk_of(values: &[f64], layout: &Layout, fill: f64) -> Vec<u8> {
    let whole = |value: f64| if value == fill { fill } else { (value - 280.0) * 5.0 };
    match layout.scalar {
        Scalar::I16 => values.iter().flat_map(|&value| in_order((whole(value) as i16).to_le_bytes(), layout)).collect(),
        Scalar::I32 => values.iter().flat_map(|&value| in_order((whole(value) as i32).to_le_bytes(), layout)).collect(),
        Scalar::I64 => values.iter().flat_map(|&value| in_order((whole(value) as i64).to_le_bytes(), layout)).collect(),
        _ => common::chunk(values, layout, 1),
    }
}

fn in_order<const N: usize>(mut bytes: [u8; N], layout: &Layout) -> [u8; N] {
    if layout.byte_order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

fn compress(chunk: &[u8], layout: &Layout, config: &Config) -> (Vec<u8>, Vec<u8>) {
    let (mut workspace, mut stream, mut decoded) = (Workspace::default(), Vec::new(), vec![0; chunk.len()]);
    workspace.compress(chunk, layout, config, &mut stream).unwrap();
    workspace.decompress(&stream, &mut decoded).unwrap();
    (stream, decoded)
}

/// The stream of a chunk is that of the same chunk with a declared fill value, and the fill comes back bit for bit.
#[test]
fn undeclared_fill_values_are_as_declared_ones() {
    let mut compared = 0;
    for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::C64] {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let layout = layout(scalar, order, &[20, 250]);
            for (fill, share) in FILLS.into_iter().flat_map(|fill| SHARES.map(|share| (fill, share))) {
                let original = chunk_of(&field(layout.shape.elements() as usize, share, fill), &layout, fill);
                let values = numbers(&original, &layout);
                let filled = values[values.len() / 3];
                if !filled.value.is_finite() || filled.value.abs() < 5000.0 {
                    continue;
                }
                for bound in BOUNDS {
                    let config = Config::new(bound).unwrap();
                    let (stream, decoded) = compress(&original, &layout, &config);
                    let declared = compress(&original, &layout, &Config { fill_value: Some(filled.bits), ..config });
                    let what = format!("{scalar:?} {order:?} {bound:?}, {fill} in {share} of the values");
                    assert!(stream == declared.0, "{what}: {} bytes, declared {}", stream.len(), declared.0.len());
                    let changed =
                        values.iter().zip(numbers(&decoded, &layout)).filter(|(x, y)| x.bits == filled.bits && x.bits != y.bits);
                    assert_eq!(changed.count(), 0, "{what}: the fill comes back bit for bit");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 1500, "{compared}");
}

/// Several far values on both sides, each of them once.
#[test]
fn stray_values_come_back_bit_for_bit_and_others_within_the_share_of_their_range() {
    for scalar in [Scalar::F32, Scalar::F64, Scalar::BF16] {
        let layout = layout(scalar, ByteOrder::Little, &[5000]);
        let mut values = field(5000, 0.0, 280.0);
        for (index, stray) in [(7, 1e17), (1000, -3e4), (1001, -9999.0), (2500, 1e7), (4999, 4e20)] {
            values[index] = stray;
        }
        let original = common::chunk(&values, &layout, 1);
        for share in [1e-1, 1e-2, 1e-3] {
            let (_, decoded) = compress(&original, &layout, &Config::new(ErrorBound::Relative(share)).unwrap());
            for (index, (x, y)) in numbers(&original, &layout).iter().zip(numbers(&decoded, &layout)).enumerate() {
                let holds = if x.value.abs() > 1000.0 { x.bits == y.bits } else { (x.value - y.value).abs() <= share * 20.0 };
                assert!(holds, "value {index} of {scalar:?} at {share}: {x:?} became {y:?}");
            }
        }
    }
}

/// A chunk that is decoded, changed in a part and encoded again, as HDF5 does: its far values stay.
#[test]
fn far_values_stay_when_a_chunk_is_written_again() {
    let layout = layout(Scalar::F32, ByteOrder::Little, &[40, 100]);
    let config = Config::new(ErrorBound::Relative(1e-3)).unwrap();
    let mut chunk = common::chunk(&field(4000, 0.2, -9999.0), &layout, 1);
    let is_far = |chunk: &[u8]| numbers(chunk, &layout).iter().map(|number| number.value == -9999.0).collect::<Vec<_>>();
    let far = is_far(&chunk);
    for round in 0..10 {
        chunk = compress(&chunk, &layout, &config).1;
        assert_eq!(is_far(&chunk), far, "round {round}");
    }
}

/// With one far value, a ratio is reached by the bound of the other values, not by wiping them out (FORMAT.md §11.2).
#[test]
fn ratios_do_not_wipe_out_fields() {
    let layout = layout(Scalar::F32, ByteOrder::Little, &[12, 96, 144]);
    let count = layout.shape.elements() as usize;
    let smooth: Vec<f64> =
        (0..count).map(|index| 1e-7 * (3.0 + (index as f64 / 3000.0).sin() + (index as f64 / 7.0).sin() / 10.0)).collect();
    // More different large values than far values may be, and a single one.
    let many: Vec<f64> =
        smooth.iter().enumerate().map(|(index, &x)| if index % 997 == 0 { 1e3 + index as f64 } else { x }).collect();
    let mut single = smooth.clone();
    single[count - 1] = 9.969_209_968_386_869e36;
    for (what, values) in [("a single value", single), ("many values", many)] {
        let original = common::chunk(&values, &layout, 1);
        for ratio in [3.0, 5.0] {
            let (stream, decoded) =
                compress(&original, &layout, &Config::new(ErrorBound::Ratio { ratio, ceiling: None }).unwrap());
            let reached = original.len() as f64 / stream.len() as f64;
            let error = numbers(&original, &layout)
                .iter()
                .zip(numbers(&decoded, &layout))
                .filter(|(x, _)| x.value < 1.0)
                .fold(0.0, |error, (x, y)| f64::max(error, (x.value - y.value).abs()));
            assert!((reached / ratio - 1.0).abs() < 0.2 && error < 2e-8, "{what} at {ratio}: {reached}, error {error:e}");
        }
    }
}
