//! Tiles, on which predictors are compared: their counts, and the choice that follows from them.

use quire_codec::stages::choice::TileChoice;
use quire_codec::{Config, Layout, Workspace};
use quire_gpu::{Batch, Device};

use crate::common::checks::bits;
use crate::common::sampling::sample;
use crate::common::{CONTENTS, Random, chunk, chunk_of, layout};
use crate::machine::{gpu, is_small};
use crate::{CODINGS, CUBIC, FLOATS, ORDERS, config, one_in};

/// Counts of tiles, from copies and from device memory, compared with the codec's own, and the predictors that follow from them.
struct TileReport {
    device: &'static Device,
    cpu: Workspace,
    on_host: usize,
    on_device: usize,
    interpolated: usize,
    without_interpolation: usize,
    failures: Vec<String>,
}

impl TileReport {
    fn on_gpu() -> Option<Self> {
        let cpu = Workspace::default();
        gpu().map(|device| Self {
            device,
            cpu,
            on_host: 0,
            on_device: 0,
            interpolated: 0,
            without_interpolation: 0,
            failures: Vec::new(),
        })
    }

    /// The chunk that comes back from a stream with interpolation.
    fn interpolated(&mut self, chunk: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
        let (mut stream, mut restored) = (Vec::new(), vec![0; chunk.len()]);
        let config = Config { predictor: CUBIC, ..*config };
        self.cpu.compress(chunk, layout, &config, &mut stream).expect("compresses");
        self.cpu.decompress(&stream, &mut restored).expect("decompresses");
        restored
    }

    fn compare(&mut self, what: &str, chunk: &[u8], layout: &Layout, config: &Config) {
        let mut batch = Batch::new(self.device, layout, 1).expect("a batch");
        let measured = batch.measure_on_host(chunk, config, 0).expect("measures");
        let there = batch.measure_on_device(chunk, config, 0).expect("measures");
        let Some(choice) = TileChoice::of_chunk(chunk, layout, config) else {
            assert!(measured.is_none() && there.is_none(), "{what}");
            return;
        };
        let expected = choice.measure(chunk, layout).expect("memory");
        let chosen = self.cpu.choose(chunk, layout, config).expect("memory");
        self.on_host += 1;
        self.on_device += usize::from(there.is_some());
        self.interpolated += usize::from(chosen.1.is_interpolation());
        self.without_interpolation += usize::from(choice.interpolated_tiles().is_some() && expected.interpolated.is_none());
        for (place, found) in [("copies", measured), ("device memory", there)] {
            let is_right = found.as_ref().is_none_or(|found| (found.counts, found.chosen) == (expected, chosen));
            if !is_right {
                self.failures.push(format!("{what}, {place}: {found:?} in place of {expected:?} and {chosen:?}"));
            }
        }
        // In a batch the kernels decide, and measure the kinds of interpolation and the differences of interpolated tiles that they need.
        for found in batch.choose(chunk, &choice, 0).expect("chooses").0 {
            let mut of_kinds = expected;
            if let Some(counts) = &mut of_kinds.interpolated {
                for kind in (0..counts.outliers.len()).filter(|kind| !found.kinds.contains(kind)) {
                    (counts.residuals[kind], counts.outliers[kind], counts.zero_escapes[kind]) = Default::default();
                }
                for set in (0..counts.differences.len()).filter(|&set| found.set != Some(set)) {
                    counts.differences[set] = Default::default();
                }
            }
            if (found.counts, found.chosen) != (of_kinds, Some(chosen)) {
                self.failures.push(format!("{what}, batch: {found:?} in place of {of_kinds:?} and {chosen:?}"));
            }
        }
    }

    fn finish(self) {
        for failure in self.failures.iter().take(6) {
            println!("{failure}");
        }
        let Self { on_host, on_device, interpolated, without_interpolation, failures, .. } = self;
        println!(
            "tiles of {on_host} chunks, of {on_device} in device memory; {interpolated} are interpolated, {without_interpolation} are out of reach; {} differ",
            failures.len()
        );
        assert!(failures.is_empty());
        assert!(on_device > 20 && interpolated > 5 && without_interpolation > 5);
    }
}

/// Tiles of all types and ranks, with all that keeps a value from having a code or a position.
#[test]
fn tiles_are_measured_as_on_the_cpu() {
    let Some(mut report) = TileReport::on_gpu() else { return };
    const DIMS: [&[u64]; 11] = [
        &[16_001],
        &[131, 203],
        &[40, 41, 43],
        &[2, 7, 3001],
        &[11, 13, 17, 19],
        &[1, 170, 180],
        &[90, 1, 233],
        &[31, 600, 1],
        &[3, 5, 9001],
        &[5000, 3, 2],
        &[2, 2, 2, 5003],
    ];
    const BOUNDS: [f64; 5] = [1e-9, 1e-4, 0.01, 0.3, 1e30];
    // No fill value; the chunk's first value; 0.
    const FILLS: usize = 3;
    let sizes = [DIMS.len(), FLOATS.len(), ORDERS.len(), CONTENTS.len(), BOUNDS.len(), FILLS, 2];
    for [dims, scalar, order, content, bound, fill, coding] in sample("tiles", sizes, one_in(10) * 6) {
        let (dims, scalar, order, content, bound) = (DIMS[dims], FLOATS[scalar], ORDERS[order], CONTENTS[content], BOUNDS[bound]);
        let layout = layout(scalar, order, dims);
        let chunk = chunk_of(content, &layout, 7);
        let first = bits(&chunk[..scalar.size()], order);
        let config = Config { coding: CODINGS[coding], fill_value: [None, Some(first), Some(0)][fill], ..config(bound) };
        if layout.is_constant(&chunk) {
            continue; // no predictor is chosen for it
        }
        let what = format!("{content:?} {dims:?} {scalar:?} {order:?} {config:?}");
        report.compare(&what, &chunk, &layout, &config);
        // What interpolation has restored is between steps.
        if fill == 0 && scalar.size() > 2 {
            let restored = report.interpolated(&chunk, &layout, &config);
            report.compare(&format!("{what} restored"), &restored, &layout, &config);
        }
    }
    report.finish();
}

/// Smooth fields with noise, of which a box is out of the fine grid's reach, and has gaps. Some are made of values that interpolation has restored.
#[test]
fn tiles_in_part_out_of_reach_are_measured_as_on_the_cpu() {
    let Some(mut report) = TileReport::on_gpu() else { return };
    const EDGES: [usize; 3] = [24, 40, 48];
    let mut random = Random(5);
    for round in 0..(if is_small() { 60 } else { 600 }) {
        let layout = layout(FLOATS[round / 2 % 2], ORDERS[round / 4 % 2], &EDGES.map(|edge| edge as u64));
        let waves: [f64; 3] = std::array::from_fn(|_| 0.05 + random.below(100) as f64 * 0.004);
        let noise = [0.0, 0.01, 0.05][round % 3];
        let low = EDGES.map(|edge| random.below(edge as u64 / 2) as usize);
        let high: [usize; 3] = std::array::from_fn(|axis| low[axis] + 8 + random.below(EDGES[axis] as u64) as usize);
        let field: Vec<f64> = (0..EDGES.iter().product())
            .map(|index: usize| {
                let at = [index / EDGES[2] / EDGES[1], index / EDGES[2] % EDGES[1], index % EDGES[2]];
                let wave: f64 = at.iter().zip(waves).map(|(&at, wave)| (at as f64 * wave).sin()).sum();
                let value = wave + noise * random.unit();
                let is_in_box = (0..3).all(|axis| (low[axis]..high[axis]).contains(&at[axis]));
                match round % 4 {
                    0 => value,
                    _ if !is_in_box => value,
                    1 if random.below(9) == 0 => f64::NAN,
                    2 if random.below(3) == 0 => 1e35,
                    _ => value + 1e5,
                }
            })
            .collect();
        let mut chunk = chunk(&field, &layout, 1);
        let config = config(0.01);
        if round % 2 == 0 {
            chunk = report.interpolated(&chunk, &layout, &config);
        }
        report.compare(&format!("round {round}"), &chunk, &layout, &config);
    }
    report.finish();
}
