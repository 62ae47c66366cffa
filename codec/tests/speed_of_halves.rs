//! Values of 16 bits are compressed at half the speed of binary32 or faster, in values a second.
#![cfg(target_arch = "x86_64")]

mod common;

use std::time::{Duration, Instant};

use common::{Random, chunk, layout};
use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Workspace};

/// Most time for values of 16 bits, in times of binary32. The goal is 2; a limit of 3 leaves room for other processors.
const LIMIT: f64 = 3.0;
/// Other work on the machine makes single measurements longer, never shorter: both types are measured in turns, until their least times keep the limit.
const MAX_ROUNDS: usize = 300;

struct Case<'a> {
    chunk: Vec<u8>,
    layout: &'a Layout,
    workspace: Workspace,
    least: [Duration; 2],
}

impl Case<'_> {
    /// Compresses and decompresses once.
    fn run(&mut self, config: &Config) {
        let (mut stream, mut restored) = (Vec::new(), vec![0; self.chunk.len()]);
        let start = Instant::now();
        self.workspace.compress(&self.chunk, self.layout, config, &mut stream).unwrap();
        let middle = Instant::now();
        self.workspace.decompress(&stream, &mut restored).unwrap();
        for (least, time) in self.least.iter_mut().zip([middle - start, middle.elapsed()]) {
            *least = time.min(*least);
        }
    }
}

#[test]
fn values_of_16_bits_take_little_more_time_than_binary32() {
    let mut random = Random(1);
    let values: Vec<f64> =
        (0..1 << 16).map(|_| 280.0 + 10.0 * (random.unit() + random.unit() + random.unit() + random.unit())).collect();
    let bounds = [
        ErrorBound::Relative(1e-3),
        ErrorBound::Absolute(0.015_625),
        ErrorBound::Absolute(0.3),
        ErrorBound::Lossless,
        ErrorBound::Psnr(60.0),
        ErrorBound::PointwiseRelative(1e-2),
    ];
    for (bound, scalar) in bounds.into_iter().flat_map(|bound| [Scalar::F16, Scalar::BF16].map(|scalar| (bound, scalar))) {
        let config = Config::new(bound).unwrap();
        let layouts = [Scalar::F32, scalar].map(|scalar| layout(scalar, ByteOrder::Little, &[1 << 16]));
        let mut cases = layouts.each_ref().map(|layout| Case {
            chunk: chunk(&values, layout, 1),
            layout,
            workspace: Workspace::default(),
            least: [Duration::MAX; 2],
        });
        let ratios = |cases: &[Case<'_>; 2]| [0, 1].map(|at| cases[1].least[at].as_secs_f64() / cases[0].least[at].as_secs_f64());
        for round in 0..MAX_ROUNDS {
            cases.iter_mut().for_each(|case| case.run(&config));
            if round >= 5 && ratios(&cases).iter().all(|&ratio| ratio <= LIMIT) {
                break;
            }
        }
        let [compress, decompress] = ratios(&cases);
        assert!(
            compress.max(decompress) <= LIMIT,
            "{scalar} {bound:?}: {compress:.2} times binary32's time to compress, {decompress:.2} to decompress"
        );
    }
}
