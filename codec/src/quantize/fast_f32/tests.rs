use super::*;
use crate::quantize::fills::Fills;
use crate::quantize::fine_grid::FineGrid;
use crate::quantize::fine_grid::plain::Plain;
use crate::random::Random;

/// Code of a value in binary64 (FORMAT.md §5.1), and whether the restored value is within the bound.
fn code_in_f64(value: f32, bound: f64) -> (f64, bool) {
    let code = (f64::from(value) * (1.0 / (2.0 * bound))).round_ties_even();
    let restored = (code * (2.0 * bound)) as f32;
    (code, (f64::from(value) - f64::from(restored)).abs() <= bound)
}

#[test]
fn certain_codes_are_those_of_f64_and_hold_the_bound() {
    let mut random = Random(1);
    for bound in [1e-3, 0.5, 123.456, 7e-28, 4e27, 3.3e-12] {
        let fast = FastF32::new(&Quantizer::new(bound)).unwrap();
        let (mut code, mut certain) = ([0], 0);
        for i in 0..20_000 {
            let mut steps = random.unit() * [1.0, 100.0, 1e4, 1e7][i % 4];
            if i % 3 == 0 {
                steps = steps.trunc() + 0.5;
            }
            let value = (steps * 2.0 * bound) as f32;
            if fast.codes(&[value], &mut code).codes_are_certain {
                assert_eq!((f64::from(code[0]), true), code_in_f64(value, bound), "{value} at {bound}");
                certain += 1;
            }
        }
        assert!(certain > 8000, "{certain} of 20 000 are certain");
    }
}

#[test]
fn edge_values_are_never_certain_by_mistake() {
    let bound = 1e-3;
    let fast = FastF32::new(&Quantizer::new(bound)).unwrap();
    let (mut code, mut residual, mut position, mut mark) = ([0], [0], [0], [0]);
    for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e30] {
        assert!(!fast.codes(&[value], &mut code).codes_are_certain, "{value}");
        assert!(!fast.residuals(&[value], &[0], &mut residual, &mut position), "{value}");
        fast.mark_uncertain(&[value], &[0], &mut mark);
        assert_eq!(mark[0] >> 31, 1, "{value}");
    }
    for value in [0.0, -0.0, 1e-40, -1e-45, f32::MIN_POSITIVE] {
        assert!(fast.codes(&[value], &mut code).codes_are_certain && code == [0], "{value}");
        // These values may be on position 0. Only `mark_uncertain` finds that they keep it.
        assert!(!fast.residuals(&[value], &[8], &mut residual, &mut position), "{value}");
        fast.mark_uncertain(&[value], &[8], &mut mark);
        assert_eq!((mark[0] >> 31, residual, position), (0, [-1], [0]), "{value}");
    }
    fast.mark_uncertain(&[0.0f32], &[3], &mut mark);
    assert_eq!(mark[0] >> 31, 1, "0 is on position 0, to which no number of steps leads from 3");
    let nothing = fast.codes(&[0.0f64], &mut [0]);
    assert!(!nothing.codes_are_certain && nothing.may_be_between_steps, "another type");
}

#[test]
fn values_between_steps_are_never_missed() {
    for bound in [1e-3, 0.5, 0.1, 123.456, 7e-28, 4e27, 0.043_21] {
        let mut random = Random(1);
        for bound in (0..20).map(|_| bound * (0.9 + 0.3 * random.unit())).chain([bound]) {
            let quantizer = Quantizer::new(bound);
            let (fine, fast) = (FineGrid::<f32>::new(&quantizer), FastF32::new(&quantizer).unwrap());
            let mut found = 0;
            for position in -33_000..33_000 {
                let value = fine.restore(position);
                if fine.is_between_steps(value) {
                    assert!(fast.codes(&[value], &mut [0]).may_be_between_steps, "{position} at {bound}");
                    // A value may be on a position: then no residual is certain.
                    assert!(!fast.residuals(&[value], &[position], &mut [0], &mut [0]), "{position} at {bound}");
                    found += 1;
                }
            }
            assert!(found > 2 * 7 * 1024 + 2 * 3 * 1024 + 2 * 2048 - 100, "{found} positions between steps");
        }
        let fast = FastF32::new(&Quantizer::new(bound)).unwrap();
        let step = 2.0 * bound;
        let off_grid: Vec<f32> = (-500..500).map(|steps| ((f64::from(steps) + 0.4 * SPACING) * step) as f32).collect();
        assert!(!fast.codes(&off_grid, &mut vec![0; off_grid.len()]).may_be_between_steps, "halfway between two positions");
    }
}

#[test]
fn certain_residuals_are_those_of_f64() {
    let mut random = Random(1);
    for bound in [1e-3, 0.5, 0.1, 123.456, 7e-28, 4e27, 3.3e-12, 0.043_21] {
        let quantizer = Quantizer::new(bound);
        let fine = FineGrid::<f32>::new(&quantizer);
        let plain = Plain { bound, steps_limit: 1 << 22 };
        let (mut certain, mut on_position, mut far) = (0, 0, 0);
        for i in 0..30_000 {
            let worth = [8, 8, 6, 4, 3, 2, 1][i % 7];
            let fast = FastF32::new(&quantizer).unwrap().with_worth(Worth::of(worth));
            // Most values are in reach, every fifth is at a tie.
            let mut steps = random.unit() * [1.0, 30.0, 600.0, 5000.0, 40_000.0][i % 5];
            let prediction = (steps * 8.0) as i32 + (random.unit() * [3.0, 100.0, 30_000.0, 300_000.0][i % 4]) as i32;
            if i % 6 == 0 {
                let distance = ((random.unit() * [40.0, 4000.0][i % 2]).trunc() + 0.5) * f64::from(worth) / 8.0;
                steps = fine.value(prediction) / quantizer.step() + distance;
            }
            let value = (steps * quantizer.step()) as f32;
            // A value on a position. Its neighbours in binary32 are tried as well, and those of the value before.
            let exact = fine.restore(prediction.clamp(-70_000, 70_000) + worth * (i as i32 % 3) + [0, 3][i % 2]);
            for value in [value, exact].into_iter().flat_map(|value| [value, value.next_up(), value.next_down()]) {
                let (mut residual, mut position, mut mark) = ([0], [0], [0]);
                let all_certain = fast.residuals(&[value], &[prediction], &mut residual, &mut position);
                fast.mark_uncertain(&[value], &[prediction], &mut mark);
                if mark[0] >> 31 == 0 {
                    let expected = plain.encode(value, prediction, worth, Fills::NONE);
                    assert_eq!(Some((residual[0], position[0])), expected, "{value} at {bound} from {prediction}, S = {worth}");
                    far += u32::from(position[0].abs() > 1 << 15);
                    on_position += u32::from(fine.position(value).is_some_and(|(_, exact)| exact));
                } else {
                    assert!(!all_certain, "{value} at {bound}: the second look is no stricter than the first");
                }
                certain += u32::from(all_certain);
            }
        }
        assert!(certain > 8000 && far > 3000, "{certain} are certain, {far} far from 0");
        assert!(on_position > 3000, "{on_position} are certain and on a position");
    }
}

#[test]
fn rows_of_any_length_have_the_residuals_of_their_values() {
    let fast = FastF32::new(&Quantizer::new(0.5)).unwrap();
    let values: Vec<f32> = (0..70).map(|index| index as f32 * 3.0 - 99.69).collect();
    let predictions: Vec<i32> = (0..70).map(|index| index * 24 - 790).collect();
    for len in 0..=70usize {
        // Value `uncertain` is the only one whose residual is not certain; there is none if it is `len`.
        for uncertain in [len, 0, len / 2, len.saturating_sub(1)] {
            let mut values = values[..len].to_vec();
            if uncertain < len {
                values[uncertain] = f32::NAN;
            }
            let (mut residuals, mut positions) = (vec![0; len], vec![0; len]);
            let are_certain = fast.residuals(&values, &predictions[..len], &mut residuals, &mut positions);
            assert_eq!(are_certain, uncertain >= len, "{len} values, {uncertain} is NaN");
            for index in (0..len).filter(|&index| index != uncertain) {
                let (residual, position, mark) = fast.residual::<false>(values[index], predictions[index]);
                assert_eq!((residuals[index], positions[index], mark >> 31), (residual, position, 0), "{index} of {len}");
            }
        }
    }
}

#[test]
fn lattices_and_extreme_steps_have_no_fast_path() {
    assert!(FastF32::new(&Quantizer::with_step(0.5, 3.0)).is_none(), "a lattice's step does not bound the error");
    assert!(FastF32::new(&Quantizer::new(0.4e-28)).is_none() && FastF32::new(&Quantizer::new(0.6e-28)).is_some());
    assert!(FastF32::new(&Quantizer::new(0.6e28)).is_none() && FastF32::new(&Quantizer::new(0.4e28)).is_some());
}
