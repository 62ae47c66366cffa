use super::super::Worth;
use super::super::plain::Plain;
use super::*;
use crate::quantize::fills::{Fills, Span};
use crate::quantize::positions::SPACING_GROWS_FROM;
use crate::quantize::quantizer::Quantizer;
use crate::random::Random;

/// Encodes a row in all ways, with each worth of a residual, and compares each value with the format's rules.
fn check_row<V: Value>(plain: Plain, fills: Fills, values: &[V], predictions: &[i32]) {
    [8, 6, 4, 3, 2, 1].into_iter().for_each(|worth| check_row_with(worth, plain, fills, values, predictions));
}

fn check_row_with<V: Value>(worth: i32, plain: Plain, fills: Fills, values: &[V], predictions: &[i32]) {
    let fine = FineGrid::<V>::new(&Quantizer::new(plain.bound).with_fills(fills)).with_worth(Worth::of(worth));
    let expected: Vec<Option<(i32, i32)>> =
        values.iter().zip(predictions).map(|(&value, &prediction)| plain.encode(value, prediction, worth, fills)).collect();
    let check = |way: &str, index: usize, found: Option<(i32, i32)>| {
        let (value, prediction) = (values[index].to_f64(), predictions[index]);
        assert_eq!(
            found,
            expected[index],
            "{way}: {value:e} predicted by {prediction}, {plain:?}, S = {worth}, {} values",
            values.len()
        );
    };
    let (mut residuals, mut positions) = (vec![0; values.len()], vec![0; values.len()]);
    for had_excluded in [false, true] {
        let exceptions = fine.encode(values, predictions, &mut residuals, &mut positions, &mut { had_excluded });
        for index in 0..values.len() {
            let is_exception = exceptions >> index & 1 == 1;
            if is_exception {
                assert_eq!(
                    (residuals[index], positions[index]),
                    (0, on_grid_of::<V>(predictions[index])),
                    "an exception has its prediction's position"
                );
            }
            check("encode", index, (!is_exception).then(|| (residuals[index], positions[index])));
        }
        assert_eq!(exceptions.checked_shr(values.len() as u32).unwrap_or(0), 0, "bits behind the last value");
    }
    if fine.encode_fast(values, predictions, &mut residuals, &mut positions) {
        (0..values.len()).for_each(|index| check("encode_fast", index, Some((residuals[index], positions[index]))));
    }
    let mut marks = vec![0; values.len()];
    fine.encode_and_mark(values, predictions, &mut residuals, &mut positions, &mut marks);
    for index in 0..values.len() {
        check("encode_one", index, fine.encode_one(values[index], predictions[index]));
        if marks[index] >> 31 == 0 && !fills.has(values[index]) {
            check("encode_and_mark", index, Some((residuals[index], positions[index])));
        }
    }
}

/// Most values are in reach; some are at ties, on positions, or excluded. Predictions are from good to far off.
fn check_rows<V: Value>(steps_limit: i32, bounds: &[f64]) {
    let mut random = Random(1);
    for &bound in bounds {
        let plain = Plain { bound, steps_limit };
        let (step, grid) = (2.0 * bound, on_grid_of::<V>);
        for len in (0..=64).chain([MAX_VALUES_PER_CALL; 22]) {
            for kind in 0..9 {
                let (mut values, mut predictions) = (Vec::new(), Vec::new());
                let spread = [1.0, 30.0, 1500.0, 5000.0, 60_000.0, 0.9, 1.1, 3.0, 20.0][kind]
                    * if kind > 4 { f64::from(steps_limit) } else { 1.0 };
                for index in 0..len {
                    let steps = random.unit() * spread;
                    let prediction = (steps * 8.0) as i32 + (random.unit() * [3.0, 100.0, 40_000.0, 600_000.0][index % 4]) as i32;
                    let position = prediction.wrapping_add(8 * (random.unit() * 20.0) as i32);
                    values.push(V::round_from(match (random.unit() * 20.0) as i32 {
                        0 if kind == 1 => f64::NAN,
                        1 if kind == 2 => f64::INFINITY,
                        2 => plain.value(grid(position)),
                        3 => plain.value(position) + bound,
                        4 => plain.value(position) + step * 0.25,
                        5 if kind != 6 => -999.0 * step,
                        6 => -0.0,
                        7 => 1e-310,
                        _ => steps * step,
                    }));
                    predictions.push(prediction);
                }
                let narrow = [-2.0, 40.0].map(|steps| V::round_from(steps * step).to_f64());
                for span in [Span::ALL, Span { least: narrow[0], greatest: narrow[1] }] {
                    for fill in [None, Some(-999.0 * step), Some(f64::NAN)] {
                        check_row(plain, Fills::new(fill.map(V::round_from), span), &values, &predictions);
                    }
                }
            }
        }
    }
}

#[test]
fn every_way_encodes_binary32_by_the_rules() {
    check_rows::<f32>(1 << 22, &[1e-3, 0.5, 0.1, 123.456, 0.6e-28, 4e27, 0.043_21]);
}

#[test]
fn every_way_encodes_binary64_by_the_rules() {
    check_rows::<f64>(1 << 22, &[1e-3, 0.5, 0.1, 123.456, 1e-289, 1e303, 0.043_21]);
}

#[test]
fn predictions_at_the_ends_of_32_bits_give_exceptions_or_wrap() {
    for prediction in [i32::MIN, i32::MIN + 3, i32::MAX - 3, i32::MAX, 1 << 30] {
        check_row(Plain { bound: 0.5, steps_limit: 1 << 22 }, Fills::NONE, &[0.0f32, 3.0, -4_194_303.0], &[prediction; 3]);
        check_row(Plain { bound: 0.5, steps_limit: 1 << 22 }, Fills::NONE, &[0.0f64, 3.0, -4_194_303.0], &[prediction; 3]);
    }
}

#[test]
fn values_whose_position_overflows_are_exceptions() {
    let values: [f64; MAX_VALUES_PER_CALL] = std::array::from_fn(|index| 1.7e308 + index as f64 * 1e305);
    for bound in [1e303, 1e304, 3e307] {
        check_row(Plain { bound, steps_limit: 1 << 22 }, Fills::NONE, &values, &[0; MAX_VALUES_PER_CALL]);
    }
}

#[test]
fn excluded_values_are_looked_for_after_a_row_that_had_some() {
    let fine = FineGrid::<f32>::new(&Quantizer::new(0.5));
    let (mut residuals, mut positions) = ([0; MAX_VALUES_PER_CALL], [0; MAX_VALUES_PER_CALL]);
    let mut encode = |values: &[f32], had_excluded: &mut bool| {
        fine.encode(values, &[0; MAX_VALUES_PER_CALL], &mut residuals, &mut positions, had_excluded)
    };
    let mut had_excluded = false;
    assert_eq!(encode(&[f32::NAN; MAX_VALUES_PER_CALL], &mut had_excluded), u64::MAX);
    assert!(had_excluded);
    assert_eq!(encode(&[0.3; MAX_VALUES_PER_CALL], &mut had_excluded), 0);
    assert!(!had_excluded, "a row without excluded values ends the search");
}

/// A decoder's value keeps its position under every prediction that can reach it.
#[test]
fn values_on_a_position_keep_it() {
    fn keep<V: Value>(bound: f64, limit: i32) {
        let fine = FineGrid::<V>::new(&Quantizer::new(bound));
        let edges = SPACING_GROWS_FROM.into_iter().flat_map(|from| from - 40..from + 40);
        for position in (-limit..limit).step_by(limit as usize / 1000).chain(-20..20).chain(edges).map(on_grid_of::<V>) {
            let value = fine.restore(position);
            for prediction in [0, position, position + 3, position - 8, position + 801, position + 40_000, 3 - position] {
                match fine.encode_one(value, prediction) {
                    Some((residual, kept)) => {
                        assert_eq!(
                            (kept, on_grid_of::<V>(Worth::STEP.position_of::<V>(prediction, residual))),
                            (position, position)
                        )
                    }
                    None => assert!(!is_escape(position - prediction + ESCAPE_BASE), "{position} from {prediction}"),
                }
            }
        }
    }
    for bound in [1e-3, 0.5, 0.1, 123.456, 7e-20, 1e27] {
        keep::<f32>(bound, (1 << 25) - 4);
        keep::<f32>(bound, 1 << 15);
        keep::<f64>(bound, (1 << 25) - 4);
    }
}
