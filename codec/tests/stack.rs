//! Threads with a stack of [`LEAST_STACK`] bytes compress and decompress every type under every grid, predictor and coding.
//!
//! `QUIRE_STACK=49152` runs the same with another stack, in bytes. A stack that is too small ends the process.

mod common;

use std::thread::Builder;

use common::{Content, chunk, layout, values};
use quire_codec::stages::inspect::Description;
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{
    ByteOrder, CodebookPolicy, CodingPolicy, Config, ErrorBound, LEAST_STACK, PredictorPolicy, Scalar, Workspace, max_stream_len,
};

/// Runs `body` on a thread with the least stack.
fn on_a_small_stack(body: impl FnOnce() + Send) {
    let stack = std::env::var("QUIRE_STACK").map_or(LEAST_STACK, |bytes| bytes.parse().expect("a number of bytes"));
    std::thread::scope(|scope| {
        let thread = Builder::new().stack_size(stack).spawn_scoped(scope, body).expect("a thread");
        thread.join().expect("no panic");
    });
}

#[test]
fn every_type_grid_predictor_and_coding() {
    let contents = [Content::Smooth, Content::Noise, Content::Lattice, Content::Gaps, Content::Specials, Content::Constant];
    // Small grids alone, lines, and grids that are chosen on tiles.
    for dims in [&[14, 15, 16][..], &[5000], &[2, 3, 40, 50], &[32, 40, 64]] {
        for scalar in Scalar::ALL {
            for (number, content) in contents.into_iter().enumerate() {
                if dims.iter().product::<u64>() > 1 << 16 && number > 1 {
                    continue;
                }
                let layout = layout(scalar, if number % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big }, dims);
                let original = chunk(&values(content, layout.shape.elements() as usize, 7), &layout, 3);
                let mut bounds = vec![ErrorBound::Absolute(2.0), ErrorBound::Relative(0.01), ErrorBound::Lossless];
                bounds.extend([ErrorBound::Psnr(50.0), ErrorBound::Ratio { ratio: 6.0, ceiling: None }]);
                if scalar.is_float() {
                    bounds.extend([ErrorBound::Absolute(0.01), ErrorBound::PointwiseRelative(0.01)]);
                }
                let mut decoded = vec![0; original.len()];
                let mut stream = Vec::with_capacity(max_stream_len(&layout) as usize);
                on_a_small_stack(|| {
                    for bound in bounds {
                        for predictor in [
                            PredictorPolicy::Auto,
                            PredictorPolicy::Interpolation(InterpolationKind::CUBIC),
                            PredictorPolicy::Axes(1),
                        ] {
                            for (coding, codebook) in [
                                (CodingPolicy::Huffman, CodebookPolicy::Auto),
                                (CodingPolicy::Huffman, CodebookPolicy::Custom),
                                (CodingPolicy::Bitshuffle, CodebookPolicy::Auto),
                            ] {
                                let config = Config { predictor, coding, codebook, ..Config::new(bound).unwrap() };
                                // Cold, when tables are made.
                                let mut workspace = Workspace::default();
                                workspace.compress(&original, &layout, &config, &mut stream).unwrap();
                                workspace.decompress(&stream, &mut decoded).unwrap();
                                Description::of(&stream).unwrap();
                                if bound == ErrorBound::Lossless {
                                    assert!(decoded == original);
                                }
                            }
                        }
                    }
                });
            }
        }
    }
}
