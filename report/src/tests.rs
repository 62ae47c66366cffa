//! The statistics against their definitions, straight from the texts at the heads of the modules.

use std::f64::consts::TAU;

use crate::windows::Lengths;
use crate::{ByteOrder, Field, Report, Scalar, Statistics, compare};

/// Pseudo-random numbers from 0 to 1.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A wavy array, and a copy with errors of at most 0.02.
fn arrays(shape: &[usize], seed: u64) -> [Vec<f64>; 2] {
    let mut noise = noise(seed);
    let values: Vec<f64> = (0..shape.iter().product::<usize>()).map(|i| (i as f64 / 17.0).sin() + 0.3 * noise()).collect();
    let copy = values.iter().map(|value| value + 0.04 * (noise() - 0.5)).collect();
    [values, copy]
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn field(shape: &[usize]) -> Field {
    Field::new(shape, Scalar::F64, ByteOrder::Little)
}

fn report(shape: &[usize], [values, copy]: &[Vec<f64>; 2]) -> Report {
    compare(field(shape), &bytes(values), &bytes(copy), 2)
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{found} is not {expected}");
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

#[test]
fn sums_are_those_of_their_definitions() {
    let shape = [5, 13, 21];
    let [values, copy] = arrays(&shape, 1);
    let found = report(&shape, &[values.clone(), copy.clone()]);
    let errors: Vec<f64> = values.iter().zip(&copy).map(|(value, copy)| copy - value).collect();
    let variance = |values: &[f64]| mean(values.iter().map(|value| value * value)) - mean(values.iter().copied()).powi(2);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rmse = mean(errors.iter().map(|error| error * error)).sqrt();
    close(found.mean_error, mean(errors.iter().copied()));
    close(found.rmse, rmse);
    close(found.psnr, 20.0 * ((found.original.most - found.original.least) / rmse).log10());
    close(found.original.mean, mean(values.iter().copied()));
    close(found.copy.variance, variance(&copy));
    close(found.copy.most, most(&copy));
    close(-found.original.least, most(&values.iter().map(|value| -value).collect::<Vec<f64>>()));
    let covariance = mean(values.iter().zip(&copy).map(|(a, b)| a * b)) - found.original.mean * found.copy.mean;
    close(found.correlation.expect("waves"), covariance / (variance(&values) * variance(&copy)).sqrt());
    let place = errors.iter().position(|error| error.abs() == found.greatest_error).expect("the largest error");
    assert_eq!(found.greatest_error_at, [place / (13 * 21), place / 21 % 13, place % 21]);
    assert_eq!(found.crossed_zero, values.iter().zip(&copy).filter(|(a, b)| *a * *b < 0.0).count() as u64);
    assert_eq!(found.histogram.1.iter().sum::<u64>(), found.values);
    for gradient in found.gradients {
        let stride: usize = shape[gradient.axis + 1..].iter().product();
        let starts = (0..values.len()).filter(|i| i / stride % shape[gradient.axis] + 1 < shape[gradient.axis]);
        let slopes: Vec<[f64; 2]> = starts.map(|i| [values[i + stride] - values[i], copy[i + stride] - copy[i]]).collect();
        let squares: [f64; 2] =
            [|[a, _]: &[f64; 2]| a * a, |[a, b]: &[f64; 2]| (b - a).powi(2)].map(|of| slopes.iter().map(of).sum());
        close(gradient.rms_error, (squares[1] / squares[0]).sqrt());
        assert_eq!(gradient.pairs, slopes.len() as u64);
        assert_eq!(gradient.inverted, slopes.iter().filter(|[a, b]| a * b < 0.0).count() as u64);
    }
}

/// dSSIM, value by value, of planes with NaN where values do not count.
fn plain_dssim([before, after]: [&[f64]; 2], height: usize, width: usize) -> f64 {
    let all = || before.iter().chain(after).copied().filter(|value| !value.is_nan());
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let level = |value: f64| ((value - least) / (most - least) * 255.0).round_ties_even() / 255.0;
    let (mut sum, mut count) = (0.0, 0);
    for (y, x) in (5..height - 5).flat_map(|y| (5..width - 5).map(move |x| (y, x))) {
        if before[y * width + x].is_nan() {
            continue;
        }
        let [mut weights, mut m, mut n, mut mm, mut nn, mut mn] = [0.0; 6];
        for (i, j) in (y - 5..=y + 5).flat_map(|i| (x - 5..=x + 5).map(move |j| (i, j))) {
            if before[i * width + j].is_nan() {
                continue;
            }
            let weight = (-((i as f64 - y as f64).powi(2) + (j as f64 - x as f64).powi(2)) / (2.0 * 1.5 * 1.5)).exp();
            let (a, b) = (level(before[i * width + j]), level(after[i * width + j]));
            weights += weight;
            (m, n) = (m + weight * a, n + weight * b);
            (mm, nn, mn) = (mm + weight * a * a, nn + weight * b * b, mn + weight * a * b);
        }
        [m, n, mm, nn, mn] = [m, n, mm, nn, mn].map(|sum| sum / weights);
        let covariance = mn - m * n;
        sum += (2.0 * m * n + 1e-8) / (m * m + n * n + 1e-8) * (2.0 * covariance + 1e-8) / (mm - m * m + nn - n * n + 1e-8);
        count += 1;
    }
    sum / f64::from(count)
}

#[test]
fn dssim_is_that_of_its_definition_with_and_without_gaps() {
    let (shape, plane) = ([3, 19, 26], 19 * 26);
    for gaps in [0, 25] {
        let [mut values, mut copy] = arrays(&shape, 2);
        for gap in 0..gaps {
            (values[gap * 37 % 500], copy[gap * 37 % 500]) = (f64::NAN, f64::NAN);
        }
        let found = report(&shape, &[values.clone(), copy.clone()]).dssim.expect("planes");
        let planes: Vec<f64> = (0..3)
            .map(|z| plain_dssim([&values[z * plane..(z + 1) * plane], &copy[z * plane..(z + 1) * plane]], 19, 26))
            .collect();
        let least = planes.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!((found.planes, planes[found.least_at]), (3, least));
        assert!(
            (found.least - least).abs() < 1e-7 && (found.mean - mean(planes.iter().copied())).abs() < 1e-7,
            "{found:?}, {planes:?}"
        );
    }
    assert!(report(&[10, 40], &arrays(&[10, 40], 3)).dssim.is_none());
}

#[test]
fn powers_are_those_of_the_discrete_fourier_transform() {
    let shape = [3, 24];
    let [values, copy] = arrays(&shape, 4);
    let found = report(&shape, &[values.clone(), copy.clone()]).spectrum.expect("rows");
    assert_eq!((found.length, found.stretches), (16, 6));
    let errors: Vec<f64> = values.iter().zip(&copy).map(|(value, copy)| copy - value).collect();
    for (array, powers) in [(&values, &found.original), (&copy, &found.copy), (&errors, &found.error)] {
        for (k, power) in powers.iter().enumerate() {
            let stretches = (0..6).map(|number| &array[number / 2 * 24 + number % 2 * 8..][..16]);
            let of_stretch = |stretch: &[f64]| {
                let shift = mean(stretch.iter().copied());
                let part = |turn: fn(f64) -> f64| {
                    let term = |(x, value): (usize, &f64)| {
                        let hann = 0.5 - 0.5 * (TAU * x as f64 / 16.0).cos();
                        (value - shift) * hann * turn(TAU * ((k + 1) * x) as f64 / 16.0)
                    };
                    stretch.iter().enumerate().map(term).sum::<f64>()
                };
                part(f64::cos).powi(2) + part(f64::sin).powi(2)
            };
            close(*power, stretches.map(of_stretch).sum::<f64>() / 6.0);
        }
    }
}

#[test]
fn boxes_and_threads_change_nothing() {
    for shape in [&[1000][..], &[60, 70], &[7, 30, 40], &[3, 4, 20, 30], &[2, 2, 3, 10, 10], &[], &[1], &[500, 1], &[1, 1, 300]] {
        let arrays = arrays(shape, 5);
        let [values, copy] = arrays.each_ref().map(|array| bytes(array));
        let whole = report(shape, &arrays);
        for (window, unit, chunk) in
            [(300, 100, None), (64, 40, Some(vec![2; shape.len()])), (5000, 700, Some(vec![3; shape.len()]))]
        {
            let lengths = Lengths { unit, small_unit: 50, window, most: 2 * window };
            let of = |threads| {
                let field = Field { chunk: chunk.clone(), ..field(shape) };
                Statistics::with_lengths(field, threads, lengths).of(&values, &copy)
            };
            let (one, three) = (of(1), of(3));
            assert_eq!(format!("{one:?}"), format!("{three:?}"), "{shape:?}");
            assert_eq!(
                (one.values, one.greatest_error, &one.greatest_error_at),
                (whole.values, whole.greatest_error, &whole.greatest_error_at)
            );
            assert_eq!((one.crossed_zero, &one.histogram), (whole.crossed_zero, &whole.histogram), "{shape:?}");
            assert_eq!(format!("{:?}", one.picture), format!("{:?}", whole.picture), "{shape:?}");
            close(one.rmse, whole.rmse);
            close(one.original.variance, whole.original.variance);
            assert_eq!(one.gradients.len(), whole.gradients.len());
            for (part, whole) in one.gradients.iter().zip(&whole.gradients) {
                assert_eq!((part.axis, part.pairs, part.inverted), (whole.axis, whole.pairs, whole.inverted), "{shape:?}");
                close(part.rms_error, whole.rms_error);
            }
        }
    }
}

#[test]
fn what_does_not_count_has_no_part() {
    let values = [1.0, f64::NAN, -99.0, 4.0, f64::INFINITY, 6.0, -2.0, 8.0];
    let mut copy = values.map(|value| if value.is_finite() && value != -99.0 { value + 0.5 } else { value });
    (copy[5], copy[6]) = (f64::NAN, 0.25);
    let missing = vec![(-99f64).to_bits()];
    let found = compare(Field { missing, ..field(&[8]) }, &bytes(&values), &bytes(&copy), 1);
    assert_eq!((found.values, found.missing, found.changed, found.crossed_zero), (4, 3, 1, 1));
    assert_eq!((found.greatest_error, found.greatest_error_at), (2.25, vec![6]));
    assert_eq!((found.original.least, found.original.most, found.copy.least, found.copy.most), (-2.0, 8.0, 0.25, 8.5));
    assert_eq!((found.gradients[0].pairs, found.spectrum.is_none()), (1, true));
    let none = compare(field(&[2, 3]), &bytes(&[f64::NAN; 6]), &bytes(&[f64::NAN; 6]), 1);
    assert_eq!((none.values, none.missing, none.gradients.len(), none.correlation), (0, 6, 0, None));
}

#[test]
fn constant_arrays_and_exact_copies_are_good() {
    let [values, _] = arrays(&[4, 16, 16], 6);
    for values in [values, vec![3.0; 4 * 16 * 16], vec![0.0; 4 * 16 * 16]] {
        let found = report(&[4, 16, 16], &[values.clone(), values]);
        assert_eq!((found.psnr, found.greatest_error, found.rmse, found.crossed_zero), (f64::INFINITY, 0.0, 0.0, 0));
        assert!(
            (found.dssim.expect("planes").least - 1.0).abs() < 1e-9 && found.checks.iter().all(|check| check.is_kept),
            "{found}"
        );
        assert!(found.gradients.iter().all(|gradient| gradient.rms_error == 0.0 && gradient.inverted == 0));
    }
}

#[test]
fn every_type_is_read_in_its_byte_order() {
    let numbers: Vec<u8> = (0..240).map(|i| (i * 7 % 61) as u8).collect();
    for scalar in Scalar::ALL {
        let each = scalar.size();
        let parts = scalar.element_size() / each;
        let write = |number: u8| -> Vec<u8> {
            match scalar.of_values() {
                Scalar::F32 => f32::from(number).to_be_bytes().to_vec(),
                Scalar::F64 => f64::from(number).to_be_bytes().to_vec(),
                Scalar::BF16 => f32::from(number).to_be_bytes()[..2].to_vec(),
                // 2^-14 times a whole number below 2^10 is exact.
                Scalar::F16 => u16::from(number).to_be_bytes().to_vec(),
                _ => [vec![0; each - 1], vec![number]].concat(),
            }
        };
        let values: Vec<u8> = numbers.iter().flat_map(|&number| write(number)).collect();
        let mut copy = values.clone();
        copy[(121 * each)..(122 * each)].copy_from_slice(&write(numbers[121] + 1));
        let shape = [8, 30 / parts];
        let found = compare(Field::new(&shape, scalar, ByteOrder::Big), &values, &copy, 1);
        let unit = if scalar == Scalar::F16 { 2f64.powi(-24) } else { 1.0 };
        let place = if parts == 2 { vec![4, 0, 1] } else { vec![4, 1] };
        assert_eq!((found.values, found.greatest_error, found.greatest_error_at), (240, unit, place), "{scalar:?}");
        assert_eq!(found.original.most, 60.0 * unit, "{scalar:?}");
    }
}

#[test]
fn a_page_is_one_file_that_names_what_it_shows() {
    let shape = [5, 40, 300];
    let [values, copy] = arrays(&shape, 7);
    let report = compare(Field { bound: Some(0.02), ..field(&shape) }, &bytes(&values), &bytes(&copy), 1);
    let page = crate::html("a < b", &[("run.h5:/t & u".to_owned(), &report)]);
    for expected in ["<h1>a &lt; b</h1>", "run.h5:/t &amp; u", "5 x 40 x 300", "error in bounds", "waves in 256 values"] {
        assert!(page.contains(expected), "{expected}");
    }
    assert_eq!((page.matches("data:image/png;base64,iVBORw0KGgo").count(), page.matches("http").count()), (3, 1));
    // What has neither a spectrum nor planes is drawn, too.
    for shape in [&[1][..], &[3], &[1, 7]] {
        assert!(self::report(shape, &arrays(shape, 8)).svg().ends_with("</svg>"));
    }
}
