//! Tiles, on which predictors are compared: their counts, and the choice that follows from them, are the codec's.
//!
//! The names of the tests say that they need a GPU: scripts choose them by that.

#[path = "../../../codec/tests/common/mod.rs"]
mod common;
#[path = "../../tests/machine/mod.rs"]
mod machine;

use quire_codec::stages::predictor::LINEAR_INTERPOLATION;
use quire_codec::{CodingPolicy, Config, PredictorPolicy, SettledBound, SettledConfig, Workspace};

use self::common::checks::bits;
use self::common::sampling::sample;
use self::common::{CONTENTS, Random, chunk, chunk_of, layout};
use self::machine::{gpu, is_small};
use super::*;
use crate::device::{Device, Lease};
use crate::job::NO_KIND;
use crate::memory::download;
use crate::session::Session;
use crate::set_session::{SetSession, entry};

const FLOATS: [Scalar; 4] = [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16];
const CODINGS: [CodingPolicy; 2] = [CodingPolicy::Huffman, CodingPolicy::Bitshuffle];
const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

fn config(bound: f64) -> SettledConfig<'static> {
    SettledConfig::of(SettledBound::Absolute(bound))
}

/// The choice of a chunk's predictor by the kernels for batches.
#[derive(Debug)]
struct ByKernels {
    /// The grid and the predictor; `None` if the kernels named no predictor of the layout's.
    chosen: Option<(Grid, Predictor)>,
    /// What the kernels counted: residuals of the kinds of interpolation in `kinds` alone.
    counts: SampleCounts,
    /// Numbers of these kinds.
    kinds: Vec<usize>,
}

/// Has the kernels choose the predictor of a batch of one chunk.
fn choose_by_kernels(
    session: &mut SetSession,
    loaded: &Loaded,
    chunk: &[u8],
    layout: &Layout,
    choice: &PredictorChoice,
) -> Result<ByKernels> {
    session.reserve_tables(size_of::<Address>(), 1)?;
    session.chunks.grow(chunk.len())?;
    session.streams.grow(ChunkBatch::device_len(choice, 1))?;
    session.results.grow(size_of::<u32>())?;
    session.on_host.grow(chunk.len().max(size_of::<TileSums>()))?;
    session.on_host.bytes_mut(0..chunk.len()).copy_from_slice(chunk);
    upload(&session.stream, session.on_host.address(), session.chunks.address(), chunk.len())?;
    let chunks = session.send_table(&[session.chunks.address()])?;
    let batch = ChunkBatch { chunks, count: 1, device: session.streams.address(), predictors: session.results.address() };
    batch.choose(loaded, choice, layout, &session.stream, &mut session.tiles)?;
    session.wait()?;
    download(&session.stream, batch.device, session.on_host.address(), size_of::<TileSums>())?;
    session.wait()?;
    let sums: TileSums = entry(&session.on_host, 0, 0);
    let is_open = sums.is_interpolation_open != 0;
    let rough = choice.candidates().filter(|kind| kind.rough() != 0 && kind.is_linear() == (sums.first_kind != 0));
    let measured = rough.map(|kind| kind.number() as u32).chain([sums.last_kind]).filter(|&kind| is_open && kind != NO_KIND);
    Ok(ByKernels {
        chosen: chosen_by_kernels(entry(&session.results, 0, 0), choice, layout),
        counts: counts_of(&sums, choice),
        kinds: [0, LINEAR_INTERPOLATION.into()].into_iter().chain(measured.map(|kind| kind as usize)).collect(),
    })
}

/// Counts of tiles, measured from copies for one chunk and in device memory for a batch, compared with the codec's own, and the predictors that follow.
struct TileReport {
    device: &'static Device,
    session: Lease<Session>,
    set_session: Lease<SetSession>,
    cpu: Workspace,
    compared: usize,
    interpolated: usize,
    without_interpolation: usize,
    failures: Vec<String>,
}

impl TileReport {
    fn on_gpu() -> Option<Self> {
        gpu().map(|device| Self {
            device,
            session: device.lease().expect("a session"),
            set_session: device.lease_set_session().expect("a session"),
            cpu: Workspace::default(),
            compared: 0,
            interpolated: 0,
            without_interpolation: 0,
            failures: Vec::new(),
        })
    }

    /// The chunk that comes back from a stream with interpolation.
    fn interpolated(&mut self, chunk: &[u8], layout: &Layout, config: &SettledConfig) -> Vec<u8> {
        let (mut stream, mut restored) = (Vec::new(), vec![0; chunk.len()]);
        let config = Config { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..*config };
        self.cpu.compress_settled(chunk, layout, &config, &mut stream).expect("compresses");
        self.cpu.decompress(&stream, &mut restored).expect("decompresses");
        restored
    }

    fn compare(&mut self, what: &str, chunk: &[u8], layout: &Layout, config: &SettledConfig) {
        let Some(choice) = PredictorChoice::of_chunk(chunk, layout, config) else { return };
        let expected = choice.count(chunk, layout).expect("memory");
        let chosen = self.cpu.choose(chunk, layout, config).expect("memory");
        self.compared += 1;
        self.interpolated += usize::from(chosen.1.is_interpolation());
        let is_out_of_reach = 2 * expected.out_of_reach > TILES * choice.sample.len;
        self.without_interpolation += usize::from(choice.candidates().next().is_some() && is_out_of_reach);

        let tiles = self.session.lent().tiles();
        tiles.start(self.device.loaded(), &choice, layout, chunk).expect("starts");
        let counts = tiles.finish(&choice).expect("measures");
        let found = (&counts, choice.decide(&counts));
        if found != (&expected, chosen) {
            self.failures.push(format!("{what}: {found:?} in place of {expected:?} and {chosen:?}"));
        }
        // In a batch the kernels decide, and measure the kinds of interpolation that they need.
        let found = choose_by_kernels(self.set_session.lent(), self.device.loaded(), chunk, layout, &choice).expect("chooses");
        let mut of_kinds = expected.clone();
        for kind in choice.candidates().map(InterpolationKind::number).filter(|kind| !found.kinds.contains(kind)) {
            of_kinds.interpolations[kind] = Counts { values: of_kinds.interpolations[kind].values, ..Counts::default() };
        }
        if (&found.counts, found.chosen) != (&of_kinds, Some(chosen)) {
            self.failures.push(format!("{what}, batch: {found:?} in place of {of_kinds:?} and {chosen:?}"));
        }
    }

    fn finish(self) {
        for failure in self.failures.iter().take(6) {
            println!("{failure}");
        }
        let Self { compared, interpolated, without_interpolation, failures, .. } = self;
        println!(
            "tiles of {compared} chunks; {interpolated} are interpolated, {without_interpolation} are out of reach; {} differ",
            failures.len()
        );
        assert!(failures.is_empty());
        assert!(compared > 20 && interpolated > 5 && without_interpolation > 5);
    }
}

/// Tiles of all types and ranks, with all that keeps a value from having a code or a position.
#[test]
fn tiles_on_the_gpu_are_measured_as_on_the_cpu() {
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
    for [dims, scalar, order, content, bound, fill, coding] in sample("tiles", sizes, 6 * if is_small() { 10 } else { 1 }) {
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
fn tiles_on_the_gpu_in_part_out_of_reach_are_measured_as_on_the_cpu() {
    let Some(mut report) = TileReport::on_gpu() else { return };
    const EDGES: [usize; 3] = [24, 40, 48];
    let mut random = Random(5);
    for round in 0..(if is_small() { 60 } else { 600 }) {
        let layout = layout(FLOATS[round / 2 % 2], ORDERS[round / 4 % 2], &EDGES.map(|edge| edge as u64));
        let waves: [f64; 3] = std::array::from_fn(|_| 0.05 + random.below(100) as f64 * 0.004);
        let noise = [0.0, 0.01, 0.05][round % 3];
        let low = EDGES.map(|edge| random.below(edge as u64 / 3) as usize);
        let high: [usize; 3] =
            std::array::from_fn(|axis| low[axis] + EDGES[axis] / 3 + random.below(EDGES[axis] as u64) as usize);
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
