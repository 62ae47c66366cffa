//! Values that the rounding grid cannot hold: runs of them, lists, and masks.

use quire_codec::stages::exceptions::most_listed;
use quire_codec::{ByteOrder, Config, PredictorPolicy, Scalar};

use crate::common::sampling::sample;
use crate::common::{Content, Random, chunk, chunk_of, layout, values};
use crate::report::Report;
use crate::{CUBIC, FLOATS, ORDERS, config, one_in};

/// Long runs of exceptions over rows and segments: the code of a gap comes from far away.
#[test]
fn gaps_of_all_lengths() {
    let Some(mut report) = Report::on_gpu() else { return };
    const DIMS: [&[u64]; 4] = [&[30_000], &[7, 4300], &[3, 70, 143], &[600_000]];
    const ROUNDS: usize = 12;
    const SCALARS: [Scalar; 2] = [Scalar::F32, Scalar::F16];
    for [dims, round, scalar] in sample("gaps", [DIMS.len(), ROUNDS, SCALARS.len()], one_in(3)) {
        let (dims, scalar) = (DIMS[dims], SCALARS[scalar]);
        let elements = dims.iter().product();
        let layout = layout(scalar, ByteOrder::Little, dims);
        let mut random = Random(77 + (ROUNDS * scalar.size() + round) as u64);
        let mut values = values(Content::Smooth, elements as usize, round as u64);
        for _ in 0..=round {
            let start = random.below(elements) as usize;
            let len = 1 + random.below([3, 100, 5000, elements][round % 4]) as usize;
            for value in values.iter_mut().skip(start).take(len) {
                *value = f64::NAN;
            }
        }
        if round == ROUNDS - 1 {
            values.fill(f64::NAN);
            values[random.below(elements) as usize] = 1.0;
        }
        let chunk = chunk(&values, &layout, round as u64);
        report.compare_codings(&format!("gaps {dims:?} {scalar:?} round {round}"), &chunk, &layout, &config(1e-3));
    }
    report.finish("gaps");
}

/// Isolated exceptions: as many as a list holds, and a few more or less.
#[test]
fn lists_and_masks() {
    let Some(mut report) = Report::on_gpu() else { return };
    const DIMS: [&[u64]; 3] = [&[30, 40], &[25, 60, 70], &[128, 128, 128]];
    const PREDICTORS: [PredictorPolicy; 2] = [PredictorPolicy::Lorenzo, CUBIC];
    for [dims, scalar, count, predictor] in sample("lists and masks", [DIMS.len(), FLOATS.len(), 4, 2], one_in(3)) {
        let (dims, scalar, order) = (DIMS[dims], FLOATS[scalar], ORDERS[scalar % 2]);
        let layout = layout(scalar, order, dims);
        let elements = layout.shape.elements();
        let limit = most_listed(elements);
        let count = [1, limit - 1, limit, limit + 1][count];
        let mut values = values(Content::Smooth, elements as usize, count);
        let mut random = Random(count);
        let mut left = count;
        while left > 0 {
            let value = &mut values[random.below(elements) as usize];
            left -= u64::from(value.is_finite());
            *value = f64::INFINITY;
        }
        let chunk = chunk(&values, &layout, 1);
        let config = Config { predictor: PREDICTORS[predictor], ..config(1e-3) };
        report.compare_codings(&format!("{count} exceptions in {dims:?} {scalar:?}"), &chunk, &layout, &config);
    }
    report.finish("lists and masks");
}

/// Exceptions of whole numbers, which fill values alone can be: lists of all lengths modulo four, and masks.
#[test]
fn lists_of_fill_values() {
    const FILL: u64 = 101; // no multiple of the step
    let Some(mut report) = Report::on_gpu() else { return };
    let whole = Scalar::ALL.into_iter().filter(|scalar| !scalar.is_float());
    for (scalar, order) in whole.flat_map(|scalar| ORDERS.map(|order| (scalar, order))) {
        for dims in [&[30u64, 40][..], &[5, 21, 67]] {
            let layout = layout(scalar, order, dims);
            let elements = layout.shape.elements();
            let limit = most_listed(elements);
            for count in [1, 2, 3, limit, limit + 1, elements / 7] {
                let mut chunk = chunk_of(Content::Smooth, &layout, count);
                let size = scalar.size();
                let fill = &FILL.to_le_bytes()[..size];
                let mut random = Random(count);
                for _ in 0..count {
                    let value = &mut chunk[random.below(elements) as usize * size..][..size];
                    value.copy_from_slice(fill);
                    if order == ByteOrder::Big {
                        value.reverse();
                    }
                }
                let config = Config { fill_value: Some(FILL), ..config(3.0) };
                let what = format!("{count} fill values in {dims:?} {scalar:?} {order:?}");
                report.compare_codings(&what, &chunk, &layout, &config);
            }
        }
    }
    report.finish("lists of fill values");
}
