//! Chunks of every content, type and shape, under every kind of setting: bounds, codings, predictors, codebooks, fill values.

use quire_codec::stages::adaptive::{AdaptiveDictionary, MAX_USER_BOOKS};
use quire_codec::stages::books::custom_book;
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{ByteOrder, CodebookPolicy, CodingPolicy, Config, ErrorBound, Keep, PredictorPolicy, Scalar};

use crate::common::checks::bits;
use crate::common::sampling::sample;
use crate::common::{self, CONTENTS, Content, SHAPES, chunk_of, layout};
use crate::machine::is_small;
use crate::report::Report;
use crate::{CUBIC, FLOATS, ORDERS, compress, config, one_in};

/// Predictors that are compared whether the encoder would choose them or not.
const PREDICTORS: [PredictorPolicy; 7] = [
    CUBIC,
    PredictorPolicy::Interpolation(InterpolationKind::new(0b0001, false)),
    PredictorPolicy::Interpolation(InterpolationKind::new(0b0110, true)),
    PredictorPolicy::Interpolation(InterpolationKind::new(0b1010, false)),
    PredictorPolicy::Axes(0),
    PredictorPolicy::Axes(1),
    PredictorPolicy::Axes(6),
];

#[test]
fn matrix_of_contents_types_and_shapes() {
    let Some(mut report) = Report::on_gpu() else { return };
    // Long rows, and rows that are no multiple of anything, as well.
    let shapes = SHAPES.into_iter().chain([&[3, 5000][..], &[2, 3, 4097], &[300, 70], &[5, 3, 70, 9]]);
    // A small one for the sanitizers, which are slow.
    let small = is_small();
    let shapes: Vec<&[u64]> = shapes.filter(|dims| !small || dims.iter().product::<u64>() % 5 < 2).collect();
    let sizes = [shapes.len(), FLOATS.len(), ORDERS.len(), CONTENTS.len()];
    for [dims, scalar, order, content] in sample("matrix", sizes, one_in(3)) {
        let (dims, scalar, order, content) = (shapes[dims], FLOATS[scalar], ORDERS[order], CONTENTS[content]);
        let layout = layout(scalar, order, dims);
        let chunk = chunk_of(content, &layout, 9);
        let bounds: &[f64] = if small { &[1e-3] } else { &[1e-300, 1e-44, 1e-12, 1e-3, 0.5, 1e3, 1e30, 1e300] };
        for &bound in bounds {
            let what = format!("{content:?} {dims:?} {scalar:?} {order:?} bound {bound:e}");
            report.compare_codings(&what, &chunk, &layout, &config(bound));
        }
        let others: &[f64] = if small { &[0.5] } else { &[1e-4, 1e-2, 0.5, 1e3] };
        let predictors = &PREDICTORS[..if small { 1 } else { PREDICTORS.len() }];
        for (&bound, &predictor) in others.iter().flat_map(|bound| predictors.iter().map(move |predictor| (bound, predictor))) {
            let what = format!("{content:?} {dims:?} {scalar:?} {order:?} bound {bound:e} {predictor:?}");
            let config = Config { predictor, ..config(bound) };
            report.compare(&what, &chunk, &layout, &config);
        }
        let config = Config { predictor: CUBIC, ..config(0.5) };
        let what = format!("{content:?} {dims:?} {scalar:?} {order:?} interpolated");
        report.compare_codings(&what, &chunk, &layout, &config);
    }
    report.finish("matrix");
}

#[test]
fn books_and_fill_values() {
    let Some(mut report) = Report::on_gpu() else { return };
    for dims in [&[5000u64][..], &[60, 70], &[20, 30, 40]] {
        for scalar in FLOATS {
            let layout = layout(scalar, ByteOrder::Little, dims);
            for content in CONTENTS {
                let chunk = chunk_of(content, &layout, 5);
                let first = bits(&chunk[..scalar.size()], layout.byte_order);
                for fill_value in [None, Some(first), Some(0), Some(u64::MAX)] {
                    for bound in [1e-5, 1e-2, 2.0] {
                        let config = Config { fill_value, ..config(bound) };
                        let bit_planes = Config { coding: CodingPolicy::Bitshuffle, ..config };
                        let what = format!("{content:?} {dims:?} {scalar:?} fill {fill_value:x?} bit planes bound {bound:e}");
                        report.compare(&what, &chunk, &layout, &bit_planes);
                        for codebook in [CodebookPolicy::Auto, CodebookPolicy::Dictionary, CodebookPolicy::Custom] {
                            let what =
                                format!("{content:?} {dims:?} {scalar:?} fill {fill_value:x?} {codebook:?} bound {bound:e}");
                            report.compare(&what, &chunk, &layout, &Config { codebook, ..config });
                        }
                    }
                }
            }
        }
    }
    report.finish("books and fill values");
}

/// Bounds of every kind, in all types.
#[test]
fn bounds_and_types() {
    const BOUNDS: [ErrorBound; 10] = [
        ErrorBound::Lossless,
        ErrorBound::Absolute(3.7),
        ErrorBound::Absolute(1e6),
        ErrorBound::Relative(1e-4),
        ErrorBound::PointwiseRelative(0.9),
        ErrorBound::PointwiseRelative(1e-3),
        ErrorBound::PointwiseRelative(2e-7),
        ErrorBound::Psnr(50.0),
        ErrorBound::Ratio { ratio: 7.0, ceiling: None },
        ErrorBound::Ratio { ratio: 30.0, ceiling: Some(1e-2) },
    ];
    let Some(mut report) = Report::on_gpu() else { return };
    let small = is_small();
    let shapes: [&[u64]; 7] = [&[60, 70], &[7, 11, 13], &[31], &[1], &[5003], &[3, 5, 70, 9], &[40, 50, 41]];
    for dims in &shapes[..if small { 3 } else { 7 }] {
        for (number, scalar) in Scalar::ALL.into_iter().enumerate() {
            let order = ORDERS[(number + dims.len()) % 2];
            let layout = layout(scalar, order, dims);
            for content in CONTENTS {
                let chunk = chunk_of(content, &layout, 5);
                let last = bits(&chunk[chunk.len() - scalar.size()..], order);
                for bound in BOUNDS {
                    if quire_codec::check_bound(&layout, &Config::new(bound).expect("a bound")).is_err() {
                        continue;
                    }
                    let keep = Keep::default().and_order().and_side_of(0.0).and_then(|keep| keep.and_side_of(1.5)).expect("kept");
                    // In each type some contents, as other tests draw more of them.
                    let is_kept = (number + content as usize).is_multiple_of(4);
                    for (fill_value, keep) in
                        [(None, Keep::default()), (Some(last), if is_kept { keep } else { Keep::default() })]
                    {
                        let config = Config { fill_value, keep, ..Config::new(bound).expect("a bound") };
                        let what =
                            format!("{content:?} {dims:?} {scalar:?} {order:?} {bound:?} keep {keep} fill {fill_value:x?}");
                        report.compare_codings(&what, &chunk, &layout, &config);
                    }
                }
            }
        }
    }
    report.finish("bounds and types");
}

/// All values that short types have: whatever rounding can meet.
#[test]
fn every_value_of_short_types() {
    let Some(mut report) = Report::on_gpu() else { return };
    let bounds = [1e-9, 3e-5, 1e-3, 0.3, 4.0, 1e3, 1e6]
        .map(ErrorBound::Absolute)
        .into_iter()
        .chain([1e-3, 0.03, 0.9].map(ErrorBound::PointwiseRelative))
        .chain([ErrorBound::Lossless]);
    for (scalar, order) in
        Scalar::ALL.into_iter().filter(|scalar| scalar.size() < 4).flat_map(|scalar| ORDERS.map(|order| (scalar, order)))
    {
        let layout = layout(scalar, order, &[256, if scalar.size() == 1 { 1 } else { 256 }]);
        let bytes = |bits: u64| match order {
            ByteOrder::Little => bits.to_le_bytes()[..scalar.size()].to_vec(),
            ByteOrder::Big => bits.to_be_bytes()[8 - scalar.size()..].to_vec(),
        };
        let chunk: Vec<u8> = (0..layout.shape.elements()).flat_map(bytes).collect();
        for bound in bounds.clone() {
            let config = Config::new(bound).expect("a bound");
            if quire_codec::check_bound(&layout, &config).is_ok() {
                report.compare_codings(&format!("{scalar:?} {order:?} {bound:?}"), &chunk, &layout, &config);
            }
        }
    }
    report.finish("every value of short types");
}

/// Chunks one after another with the books of those before, and with as many others as there may be.
#[test]
fn adaptive_dictionaries() {
    let Some(mut report) = Report::on_gpu() else { return };
    let mut taken = 0;
    for (scalar, dims) in [(Scalar::F32, &[16u64, 16, 16][..]), (Scalar::F64, &[33, 65]), (Scalar::F32, &[20_000])] {
        let layout = layout(scalar, ByteOrder::Little, dims);
        let mut history = AdaptiveDictionary::new(&common::books()[..MAX_USER_BOOKS]).unwrap();
        for round in 0..6 {
            // Books of far values would leave fewer of the others in the history.
            let contents = CONTENTS.into_iter().filter(|&content| content != Content::FarValues);
            for (content, bound) in contents.flat_map(|content| [1e-1, 1e-3].map(|bound| (content, bound))) {
                let chunk = chunk_of(content, &layout, round);
                for (books, name) in [(history.books(), "history"), (common::books(), "all")] {
                    let config = Config { books, ..config(bound) };
                    let what = format!("{content:?} {dims:?} {scalar:?} bound {bound:e} round {round} {name}");
                    report.compare(&what, &chunk, &layout, &config);
                }
                let config = Config { books: history.books(), ..config(bound) };
                let stream = compress(report.device, &chunk, &layout, &config);
                taken += usize::from(custom_book(&stream).is_some_and(|book| history.books().contains(&book)));
                history.learn(&stream);
            }
        }
    }
    println!("adaptive dictionaries: {taken} books taken");
    assert!(taken > 50, "{taken}");
    report.finish("adaptive dictionaries");
}
