//! The filter and its reports on threads with a stack of [`LEAST_STACK`] bytes, which `docs/c.md` states.

use std::thread::Builder;

use hdf5_sys::h5z::H5Z_FLAG_REVERSE;
use quire_codec::{ByteOrder, Config, ErrorBound, LEAST_STACK, Layout, Scalar, Shape};

use crate::cd_values::CdValues;
use crate::tests::as_hdf5::filter;

#[test]
fn the_filter_and_its_errors_fit_the_least_stack() {
    let stack = std::env::var("QUIRE_STACK").map_or(LEAST_STACK, |bytes| bytes.parse().expect("a number of bytes"));
    for scalar in Scalar::ALL {
        let layout = Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&[40, 50, 7]).expect("a shape") };
        let chunk: Vec<u8> = (0..layout.chunk_bytes()).map(|at| (at / 16 * 7 % 64) as u8).collect();
        let bounds = [ErrorBound::Absolute(1.0), ErrorBound::Relative(0.01), ErrorBound::Psnr(40.0), ErrorBound::Lossless];
        // Codings 0 and 2, and books of chunks before.
        for (bound, bits) in bounds.into_iter().flat_map(|bound| [0, 2 << 8, 1 << 16].map(|bits| (bound, bits))) {
            let config = Config::new(bound).expect("a bound");
            let mut words = CdValues { config, brick: None, layout: Some(layout) }.to_words().expect("words");
            words[0] |= bits;
            let body = || {
                let stream = filter(0, &words, &chunk).expect("compressed");
                let decoded = filter(H5Z_FLAG_REVERSE, &words, &stream).expect("decompressed");
                assert!(bound != ErrorBound::Lossless || decoded == chunk);
                // A report, too.
                assert_eq!(filter(H5Z_FLAG_REVERSE, &words, &stream[..stream.len() - 1]), None);
            };
            std::thread::scope(|scope| {
                Builder::new().stack_size(stack).spawn_scoped(scope, body).expect("a thread").join().expect("no panic");
            });
        }
    }
}
