//! What a fast path buys of a whole call: chunks of the generator's fields, in binary32 and binary64, are compressed and decompressed with it and without it.
//!
//! `cargo test --release -p quire-codec --lib what_fast_paths_buy -- --ignored --nocapture` prints the table. A path stays in the codec if it makes a tenth of
//! some call, or if it is the only one for a family of processors.

use std::cell::Cell;
use std::time::Instant;

use h5_samples::{Field, Size, Values, all, finite_range};

use super::Path::{self, *};
use crate::config::{Config, ErrorBound};
use crate::layout::{ByteOrder, Layout, Scalar, Shape};
use crate::workspace::Workspace;

thread_local! {
    /// The paths that this thread does not take.
    static CLOSED: Cell<&'static [Path]> = const { Cell::new(&[]) };
    /// The paths that this thread has asked for and found open, a bit for each.
    static TAKEN: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread may take a path.
#[inline(always)]
pub(crate) fn is_open(path: Path) -> bool {
    let is_open = !CLOSED.get().contains(&path);
    if is_open {
        TAKEN.set(TAKEN.get() | bit(path));
    }
    is_open
}

fn bit(path: Path) -> u32 {
    1 << path as u32
}

/// Paths that are measured, each with those that are closed beside it: a processor with AVX-512 does not take paths with AVX2.
const PATHS: [(Path, &[Path], &[Path]); 13] = [
    (FastF32, &[], &[FastF32]),
    (FastF64, &[], &[FastF64]),
    (SingleSlices, &[], &[SingleSlices]),
    (CopiedTokens, &[], &[CopiedTokens]),
    (LookedUpNonLiterals, &[], &[LookedUpNonLiterals]),
    (OverwrittenClasses, &[], &[OverwrittenClasses]),
    (ScatteredRuns, &[], &[ScatteredRuns]),
    (LanesAvx2, &[], &[LanesAvx2]),
    (SumsAvx2, &[], &[SumsAvx2]),
    (TokensAvx2, &[TokensAvx512], &[TokensAvx512, TokensAvx2]),
    (TokensAvx512, &[], &[TokensAvx512]),
    (ComputedClasses, &[], &[ComputedClasses]),
    (CodedLanesAvx512, &[], &[CodedLanesAvx512]),
];

/// A chunk to compress.
struct Case {
    name: String,
    chunk: Vec<u8>,
    layout: Layout,
    config: Config<'static>,
}

/// Chunks of about 2^18 values at most, from the corner of each field, in both types and at four bounds; a bound of 0 is for the exact bits.
fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for field in all(1, size) {
        let range = finite_range(&field);
        for (scalar, relative) in
            [Scalar::F32, Scalar::F64].into_iter().flat_map(|scalar| [1e-2, 1e-3, 1e-5, 0.0].map(|share| (scalar, share)))
        {
            let (dims, chunk) = corner(&field, scalar);
            let fill_value =
                field.fill.map(|fill| if scalar == Scalar::F32 { u64::from((fill as f32).to_bits()) } else { fill.to_bits() });
            cases.push(Case {
                name: format!("{} {}, {relative:e}", field.name, if scalar == Scalar::F32 { "f32" } else { "f64" }),
                chunk,
                layout: Layout { scalar, byte_order: ByteOrder::Little, shape: Shape::new(&dims).unwrap() },
                config: Config { fill_value, ..Config::new(ErrorBound::Absolute(relative * range)).unwrap() },
            });
        }
    }
    cases
}

/// The values of a field's corner, and their extents.
fn corner(field: &Field, scalar: Scalar) -> (Vec<u64>, Vec<u8>) {
    let most: &[usize] = match field.dims.len() {
        1 => &[1 << 18],
        2 => &[512, 512],
        3 => &[64, 64, 64],
        _ => &[4, 16, 64, 64],
    };
    let dims: Vec<usize> = field.dims.iter().zip(most).map(|(&extent, &most)| extent.min(most)).collect();
    let value = |index: usize| match &field.values {
        Values::F32(values) => f64::from(values[index]),
        Values::F64(values) => values[index],
    };
    let chunk = (0..dims.iter().product()).flat_map(|mut at: usize| {
        let (mut index, mut stride) = (0, 1);
        for (&extent, &whole) in dims.iter().zip(&field.dims).rev() {
            index += at % extent * stride;
            at /= extent;
            stride *= whole;
        }
        match scalar {
            Scalar::F32 => (value(index) as f32).to_le_bytes().to_vec(),
            _ => value(index).to_le_bytes().to_vec(),
        }
    });
    (dims.iter().map(|&extent| extent as u64).collect(), chunk.collect())
}

/// Compresses and decompresses chunks, and keeps the memory.
#[derive(Default)]
struct Codec {
    workspace: Workspace,
    stream: Vec<u8>,
    restored: Vec<u8>,
}

impl Codec {
    /// Microseconds of compressing and of decompressing a chunk without some paths.
    fn round_trip(&mut self, case: &Case, closed: &'static [Path]) -> [f64; 2] {
        let Self { workspace, stream, restored } = self;
        restored.resize(case.chunk.len(), 0);
        CLOSED.set(closed);
        let start = Instant::now();
        workspace.compress(&case.chunk, &case.layout, &case.config, stream).unwrap();
        let half = Instant::now();
        workspace.decompress(stream, restored).unwrap();
        let end = Instant::now();
        CLOSED.set(&[]);
        [half - start, end - half].map(|time| time.as_secs_f64() * 1e6)
    }
}

#[test]
fn streams_are_equal_without_each_fast_path() {
    let (mut whole, mut partial, mut taken) = (Codec::default(), Codec::default(), 0);
    for case in cases(Size::Small) {
        whole.round_trip(&case, &[]);
        for (path, beside, without) in PATHS {
            TAKEN.set(0);
            partial.round_trip(&case, beside);
            taken |= TAKEN.get() & bit(path);
            for closed in [beside, without] {
                partial.round_trip(&case, closed);
                assert!(whole.stream == partial.stream, "{}: without {closed:?}", case.name);
                assert!(whole.restored == partial.restored, "{}: restored without {closed:?}", case.name);
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    let (has_avx2, has_avx512) = (pulp::x86::V3::try_new().is_some(), pulp::x86::V4::try_new().is_some());
    #[cfg(not(target_arch = "x86_64"))]
    let (has_avx2, has_avx512) = (false, false);
    for (path, ..) in PATHS {
        let is_there = match path {
            LanesAvx2 | SumsAvx2 | TokensAvx2 => has_avx2,
            TokensAvx512 | ComputedClasses | CodedLanesAvx512 => has_avx512,
            FastF32 => crate::simd::has_fused_multiply_add(),
            _ => true,
        };
        assert_eq!(taken & bit(path) != 0, is_there, "whether any field takes {path:?}");
    }
}

#[test]
#[ignore = "a measurement"]
fn what_fast_paths_buy() {
    const ROUNDS: usize = 9;
    let (cases, mut codec) = (cases(Size::Medium), Codec::default());
    println!("time of a whole call without the path, over that with it: {} chunks", cases.len());
    println!("{:<20} {:<10} {:>7} {:>7} {:>7}   the most with", "path", "call", "mean", "most", "1.1 on");
    for (path, beside, without) in PATHS {
        let quotients = cases.iter().map(|case| {
            let mut least = [[f64::INFINITY; 2]; 2];
            for _ in 0..ROUNDS {
                for (least, closed) in least.iter_mut().zip([beside, without]) {
                    let times = codec.round_trip(case, closed);
                    least.iter_mut().zip(times).for_each(|(least, time)| *least = least.min(time));
                }
            }
            [0, 1].map(|call| least[1][call] / least[0][call])
        });
        let quotients: Vec<[f64; 2]> = quotients.collect();
        for (call, name) in ["compress", "decompress"].into_iter().enumerate() {
            let mean = (quotients.iter().map(|both| both[call].ln()).sum::<f64>() / cases.len() as f64).exp();
            let gaining = quotients.iter().filter(|both| both[call] >= 1.1).count();
            let most = (0..cases.len()).max_by(|&a, &b| quotients[a][call].total_cmp(&quotients[b][call])).unwrap();
            let path = format!("{path:?}");
            println!("{path:<20} {name:<10} {mean:>7.3} {:>7.2} {gaining:>7}   {}", quotients[most][call], cases[most].name);
        }
    }
}
