//! Bounds that follow the chunk, where parts of it are written one after the other: HDF5 decodes a chunk, changes a part, and encodes all of it again.
//!
//! A value that is not written again is never farther off than the largest bound that the chunk has had since: that of the finished chunk, where a
//! range only grows. Where a bound is so wide that hardly two different values are left, a grid may not be recognised: shares are 0.03 and less here.
//! `QUIRE_ATTACK_ROUNDS` says how many parts are written in boxes, 20 without it. A run takes one case in five, see common/sampling.rs.

mod common;

use common::checks::numbers;
use common::sampling::sample;
use common::{Random, chunk, layout};
use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Workspace};

/// How parts of a chunk are written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pattern {
    /// Slabs along the slowest axis, first to last; the others are zeros as yet.
    Appends,
    /// The same in any order.
    Slabs,
    /// Boxes anywhere, of values in the range so far.
    Boxes,
    /// Single values.
    Points,
    /// Boxes of values whose range grows and shrinks by turns.
    Ranges,
    /// All but a small box, which is elsewhere each time.
    Rests,
}

const PATTERNS: [Pattern; 6] =
    [Pattern::Appends, Pattern::Slabs, Pattern::Boxes, Pattern::Points, Pattern::Ranges, Pattern::Rests];

/// A field to write: smooth ones are interpolated, noisy ones are coded as differences.
#[derive(Debug, Clone, Copy)]
enum Field {
    Smooth,
    Noisy,
    Sparse,
}

/// About a normal distribution.
fn normal(random: &mut Random) -> f64 {
    (random.unit() + random.unit() + random.unit() + random.unit()) * 0.866
}

fn value(field: Field, index: usize, dims: [usize; 3], round: usize, random: &mut Random) -> f64 {
    let [z, y, x] = [index / dims[1] / dims[2], index / dims[2] % dims[1], index % dims[2]].map(|at| at as f64);
    let smooth = 280.0 + (20.0 + z) * (x / 13.0 + round as f64 / 7.0).sin() * (y / 9.0).cos();
    match field {
        Field::Smooth => smooth,
        Field::Noisy => smooth + (1.0 + z) * normal(random),
        Field::Sparse => {
            let drop = normal(random);
            if drop > 1.0 { (drop - 1.0) * (1.0 + z) } else { 0.0 }
        }
    }
}

/// What a run has to hold.
struct Run<'a> {
    layout: &'a Layout,
    config: Config<'a>,
    dims: [usize; 3],
    workspace: Workspace,
    /// Each value as it was written last, and the largest bound since.
    written: Vec<f64>,
    bounds: Vec<f64>,
    chunk: Vec<u8>,
    /// The largest mean square of errors that a PSNR has allowed.
    allowed: f64,
}

impl Run<'_> {
    fn put(&mut self, index: usize, value: f64) {
        // The helper multiplies integers by much.
        let value = if self.layout.scalar.is_float() { value } else { value / 50.0 };
        let bytes = chunk(&[value], self.layout, 1);
        self.written[index] = numbers(&bytes, self.layout)[0].value;
        self.chunk[index * bytes.len()..][..bytes.len()].copy_from_slice(&bytes);
        self.bounds[index] = 0.0;
    }

    /// Encodes and decodes the chunk.
    fn flush(&mut self, name: &str) {
        let values = numbers(&self.chunk, self.layout);
        let row = self.dims[1] * self.dims[2];
        // Zeros behind the data are what HDF5 fills partial chunks with.
        let slabs = values.chunks(row).rposition(|slab| slab.iter().any(|x| x.bits != 0)).map_or(1, |last| last + 1);
        let counted = || values[..slabs * row].iter().map(|x| x.value);
        let range = counted().fold(f64::NEG_INFINITY, f64::max) - counted().fold(f64::INFINITY, f64::min);
        let bound = match self.config.bound {
            ErrorBound::Relative(share) => share * range,
            ErrorBound::Ratio { ceiling, .. } => ceiling.unwrap_or(f64::INFINITY),
            ErrorBound::Psnr(decibels) => {
                self.allowed = self.allowed.max(range * range * 10f64.powf(-decibels / 10.0));
                f64::INFINITY
            }
            _ => unreachable!("other bounds do not follow the chunk"),
        };
        self.bounds.iter_mut().for_each(|largest| *largest = largest.max(bound));
        let mut stream = Vec::new();
        self.workspace.compress(&self.chunk, self.layout, &self.config, &mut stream).unwrap();
        self.workspace.decompress(&stream, &mut self.chunk).unwrap();
        let mut sum = 0.0;
        for (index, (x, y)) in self.written.iter().zip(numbers(&self.chunk, self.layout)).enumerate() {
            let error = (x - y.value).abs();
            assert!(
                error <= self.bounds[index] * (1.0 + 1e-12),
                "{name}: value {index}, {x:e}, became {:e}: {:.3} of the bound {:e}",
                y.value,
                error / self.bounds[index],
                self.bounds[index]
            );
            sum += error * error;
        }
        if self.allowed > 0.0 {
            let noise = sum / (slabs * row) as f64;
            assert!(noise <= self.allowed * 10f64.powf(0.05), "{name}: {:.2} dB short", 10.0 * (noise / self.allowed).log10());
        }
    }
}

/// Writes a chunk in parts.
fn write(scalar: Scalar, field: Field, pattern: Pattern, bound: ErrorBound, seed: u64, rounds: usize) {
    let dims = [16, 24, 40];
    let elements = dims.iter().product::<usize>();
    let layout = layout(
        scalar,
        if seed.is_multiple_of(2) { ByteOrder::Little } else { ByteOrder::Big },
        &dims.map(|extent| extent as u64),
    );
    let mut random = Random(seed);
    let mut run = Run {
        layout: &layout,
        config: Config::new(bound).unwrap(),
        dims,
        workspace: Workspace::default(),
        written: vec![0.0; elements],
        bounds: vec![0.0; elements],
        chunk: vec![0; elements * scalar.size()],
        allowed: 0.0,
    };
    let name = format!("{scalar:?} {field:?} {pattern:?} {bound:?} seed {seed}");
    let row = dims[1] * dims[2];
    let mut order: Vec<usize> = (0..dims[0]).collect();
    if pattern == Pattern::Slabs {
        order.sort_by_key(|_| random.next());
    }
    if matches!(pattern, Pattern::Appends | Pattern::Slabs) {
        for (round, &slab) in order.iter().enumerate() {
            for index in slab * row..(slab + 1) * row {
                let written = value(field, index, dims, round, &mut random);
                run.put(index, written);
            }
            run.flush(&name);
        }
        return;
    }
    for index in 0..elements {
        let written = value(field, index, dims, 0, &mut random);
        run.put(index, written);
    }
    run.flush(&name);
    for round in 1..=rounds {
        let scale = if pattern == Pattern::Ranges { 2f64.powf((3.0 * normal(&mut random)).min(5.0)) } else { 1.0 };
        let within = |random: &mut Random, extent: usize| {
            let [one, other] = [(); 2].map(|()| random.next() as usize % (extent + 1));
            one.min(other)..one.max(other)
        };
        if pattern == Pattern::Points {
            for _ in 0..1 + random.next() as usize % 50 {
                let index = random.next() as usize % elements;
                let written =
                    value(field, index, dims, round, &mut random) * if random.next().is_multiple_of(7) { 1.5 } else { 1.0 };
                run.put(index, written);
            }
        } else if pattern == Pattern::Rests {
            // In two layers at least, as every second one of an interpolated chunk has no value on the grid.
            let (layers, rows) = if matches!(field, Field::Sparse) { (6, dims[1]) } else { (2, 8) };
            let [z, y] = [(dims[0], layers), (dims[1], rows)].map(|(all, some)| random.next() as usize % (all - some + 1));
            let is_rest =
                |index: usize| (z..z + layers).contains(&(index / row)) && (y..y + rows).contains(&(index / dims[2] % dims[1]));
            for index in (0..elements).filter(|&index| !is_rest(index)) {
                let written = value(field, index, dims, round, &mut random);
                run.put(index, written);
            }
        } else {
            let ranges = dims.map(|extent| within(&mut random, extent));
            for z in ranges[0].clone() {
                for y in ranges[1].clone() {
                    for x in ranges[2].clone() {
                        let index = z * row + y * dims[2] + x;
                        let written = value(field, index, dims, round, &mut random) * scale;
                        run.put(index, written);
                    }
                }
            }
        }
        run.flush(&name);
    }
}

/// Writes chunks of these scalars, in all fields and patterns, under these bounds: a sample of them, or all.
fn matrix(name: &str, bounds: &[ErrorBound], scalars: &[Scalar], patterns: &[Pattern]) {
    const FIELDS: [Field; 3] = [Field::Smooth, Field::Noisy, Field::Sparse];
    let rounds = std::env::var("QUIRE_ATTACK_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let sizes = [scalars.len(), FIELDS.len(), patterns.len(), bounds.len()];
    for [scalar, field, pattern, bound] in sample(name, sizes, 5) {
        // The case's number in the whole matrix.
        let seed = 1 + ((scalar * FIELDS.len() + field) * patterns.len() + pattern) * bounds.len() + bound;
        write(scalars[scalar], FIELDS[field], patterns[pattern], bounds[bound], seed as u64, rounds);
    }
}

const FLOATS: [Scalar; 2] = [Scalar::F32, Scalar::F64];
const SHORT_FLOATS: [Scalar; 2] = [Scalar::F16, Scalar::BF16];
const INTEGERS: [Scalar; 3] = [Scalar::I16, Scalar::I32, Scalar::U64];

#[test]
fn relative_bounds_of_floating_point_numbers_hold() {
    matrix("f32 and f64", &[1e-2, 1e-3, 1e-4, 1e-5].map(ErrorBound::Relative), &FLOATS, &PATTERNS);
    // A small rest of hardly two different values does not show its grid.
    let but_rests = &PATTERNS[..PATTERNS.len() - 1];
    matrix("f32 and f64 at 0.03", &[ErrorBound::Relative(0.03)], &FLOATS, but_rests);
    matrix("f16 and bf16", &[0.03, 1e-2, 1e-3, 1e-4].map(ErrorBound::Relative), &SHORT_FLOATS, &PATTERNS);
}

#[test]
fn relative_bounds_of_integers_hold() {
    matrix("integers", &[0.1, 1e-2, 1e-3].map(ErrorBound::Relative), &INTEGERS, &PATTERNS);
}

#[test]
fn ceilings_beside_ratios_hold() {
    let bounds = [0.02, 0.5, 8.0].map(|ceiling| ErrorBound::Ratio { ratio: 12.0, ceiling: Some(ceiling) });
    matrix("ceilings of f32 and f64", &bounds, &FLOATS, &PATTERNS);
    matrix("ceilings of f16 and bf16", &bounds, &SHORT_FLOATS, &PATTERNS);
    matrix("ceilings of integers", &bounds, &INTEGERS, &PATTERNS);
}

#[test]
fn psnr_is_reached_where_ranges_grow() {
    let bounds = [40.0, 60.0, 80.0].map(ErrorBound::Psnr);
    matrix("PSNR of f32 and f64", &bounds, &FLOATS, &PATTERNS);
    matrix("PSNR of f16 and bf16", &[30.0, 40.0, 50.0].map(ErrorBound::Psnr), &SHORT_FLOATS, &PATTERNS);
    matrix("PSNR of integers", &bounds, &INTEGERS, &[Pattern::Appends, Pattern::Slabs]);
}
