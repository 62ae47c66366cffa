//! A row for each fast path: data on which its stage takes the path, the stage, and the stage's plain definition.
//!
//! `cargo test --release -p quire-codec --lib what_fast_paths_buy -- --ignored --nocapture` prints the table. The stage is timed without and with the path in
//! turns, and its plain definition once.

use std::cell::Cell;
use std::time::Instant;

use h5_samples::turbulence;

use super::Path;
use crate::CodebookPolicy;
use crate::entropy::codebook::{ENTRIES, canonical_codes, fill_decode_table};
use crate::entropy::lanes::{self, EXTRA_PADDING, LANE_PADDING, LaneCount};
use crate::entropy::tokens::{self, TokenOffset, Tokens};
use crate::entropy::{alphabet::CodeLengths, book_choice};
use crate::layout::{Axes, ByteOrder, Layout, Scalar, Shape};
use crate::number::value::Value;
use crate::predict::interpolation::{self, Interpolation};
use crate::predict::lorenzo;
use crate::predict::predictor::InterpolationKind;
use crate::quantize::bitmap::Bitmap;
use crate::quantize::exceptions;
use crate::quantize::fills::Fills;
use crate::quantize::fine_grid::{self, FineGrid};
use crate::quantize::linear;
use crate::quantize::quantizer::Quantizer;
use crate::random::Random;

thread_local! {
    /// The path that this thread does not take, and how often it was asked for.
    static CLOSED: Cell<Option<Path>> = const { Cell::new(None) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Whether this thread may take a path.
#[inline(always)]
pub(crate) fn is_open(path: Path) -> bool {
    let is_open = CLOSED.get() != Some(path);
    if !is_open {
        ASKED.set(ASKED.get() + 1);
    }
    is_open
}

const ORDER: ByteOrder = ByteOrder::Little;

/// The rows of the table.
struct Table {
    /// How often each time is measured.
    repeats: usize,
    /// Paths that were taken.
    seen: Vec<Path>,
}

impl Table {
    /// Checks that a stage has the result of its plain definition with the path and without, and that it takes the path. Then measures all three.
    fn row<S, R: PartialEq>(
        &mut self,
        (path, data): (Path, &str),
        mut state: S,
        plain: impl Fn() -> R,
        stage: impl Fn(&mut S),
        result: impl Fn(&S) -> R,
    ) {
        let mut run = |closed: Option<Path>| {
            CLOSED.set(closed);
            let start = Instant::now();
            stage(&mut state);
            let time = start.elapsed().as_secs_f64() * 1e6;
            CLOSED.set(None);
            (time, result(&state))
        };
        let start = Instant::now();
        let expected = plain();
        let plain_time = start.elapsed().as_secs_f64() * 1e6;
        ASKED.set(0);
        assert!(run(Some(path)).1 == expected, "{path:?}: {data}: without the path");
        assert!(ASKED.get() > 0, "{path:?}: {data} does not take the path");
        assert!(run(None).1 == expected, "{path:?}: {data}: with the path");
        self.seen.push(path);
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..self.repeats {
            without.push(run(Some(path)).0);
            with.push(run(None).0);
        }
        if let [Some(without), Some(with)] = [&mut without, &mut with].map(|times| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        }) {
            let name = format!("{path:?}");
            println!("{name:<20} {data:<38} {plain_time:>9.0} {without:>9.1} {with:>9.1} {:>7.3}", without / with);
        }
    }

    /// Quantization on an absolute bound's grid.
    fn quantize(&mut self, row: (Path, &str), values: &[f32], bound: f64) {
        let (chunk, quantizer) = (bytes(values), Quantizer::new(bound));
        let mut exceptions = Bitmap::default();
        exceptions.clear(values.len()).unwrap();
        let plain = linear::plain::Plain { half_step: bound, bound, fills: Fills::NONE };
        self.row(
            row,
            (vec![0; values.len()], exceptions),
            || values.iter().map(|&value| plain.code(value)).collect::<Vec<_>>(),
            |(codes, exceptions)| {
                exceptions.clear(codes.len()).unwrap();
                linear::quantize::<f32>(&chunk, ORDER, &quantizer, codes, exceptions);
            },
            |(codes, exceptions)| {
                let mut found: Vec<_> = codes.iter().map(|&code| Some(i64::from(code))).collect();
                exceptions.indices().for_each(|index| found[index] = None);
                found
            },
        );
    }

    /// Interpolation of values, and then of their residuals if `is_inverse`.
    fn interpolate<V: Value>(&mut self, row: (Path, &str), dims: &[u64], values: &[V], bound: f64, is_inverse: bool) {
        let mut chunk = vec![0; values.len() * V::SIZE];
        values.iter().enumerate().for_each(|(index, value)| value.write(&mut chunk, index, ORDER));
        let scalar = if V::SIZE == 4 { Scalar::F32 } else { Scalar::F64 };
        let layout = Layout { scalar, byte_order: ORDER, shape: Shape::new(dims).unwrap() };
        let (extents, kind) = (layout.shape.extents(), InterpolationKind::CUBIC);
        // The quantizer is made with each call: it decides whether there is a path in binary32.
        let fine = || -> FineGrid<V> { Quantizer::new(bound).fine::<V>().unwrap() };
        let plain = || {
            let plain = fine_grid::plain::Plain { bound, steps_limit: V::STEPS_LIMIT as i32 };
            let mut exceptions = Vec::new();
            let residuals = interpolation::plain::residuals(extents, kind, |index, prediction, worth| {
                plain.encode(values[index], prediction, worth, Fills::NONE).unwrap_or_else(|| {
                    exceptions.push(index);
                    (0, prediction)
                })
            });
            exceptions.sort_unstable();
            (residuals, exceptions)
        };
        let mut exceptions = Bitmap::default();
        exceptions.clear(values.len()).unwrap();
        if !is_inverse {
            return self.row(
                row,
                (Interpolation::default(), Vec::new(), exceptions),
                plain,
                |(stage, residuals, exceptions)| {
                    exceptions.clear(values.len()).unwrap();
                    stage.forward(&chunk, &layout, &fine(), kind, residuals, exceptions).unwrap();
                },
                |(_, residuals, exceptions)| (residuals.clone(), exceptions.indices().collect()),
            );
        }
        let (residuals, _) = plain();
        interpolation::plain::with_patched(&residuals, |patched| {
            self.row(
                row,
                (Interpolation::default(), vec![0; chunk.len()]),
                || {
                    let mut restored = vec![0; chunk.len()];
                    let positions = interpolation::plain::restore(extents, &residuals, kind, V::SPACING_GROWS);
                    positions
                        .into_iter()
                        .enumerate()
                        .for_each(|(index, at)| fine().restore(at).write(&mut restored, index, ORDER));
                    restored
                },
                |(stage, restored)| stage.inverse(patched, &layout, &fine(), kind, restored).unwrap(),
                |(_, restored)| restored.clone(),
            );
        });
    }

    /// Tokens of differences.
    fn tokenize(&mut self, row: (Path, &str), differences: &[i32]) {
        let wide: Vec<i64> = differences.iter().map(|&difference| difference.into()).collect();
        self.row(
            row,
            Tokens::default(),
            || {
                let tokens = tokens::plain::tokenize(&wide);
                (tokens.iter().map(|token| token.0 as u8).collect::<Vec<_>>(), tokens::plain::extra_words(&tokens))
            },
            |tokens| tokens::tokenize(differences, tokens).unwrap(),
            |tokens| {
                let end = tokens.segment_ends.last().map_or(0, |end| end.extra_bits);
                (tokens.symbols().to_vec(), tokens.extra.words(0, end).unwrap())
            },
        );
    }

    /// Coding of blocks of 4096 differences in lanes.
    fn encode(&mut self, row: (Path, &str), differences: &[i32]) {
        let mut tokens = Tokens::default();
        tokens::tokenize(differences, &mut tokens).unwrap();
        let lengths: CodeLengths = book_choice::choose(&tokens.count().1, CodebookPolicy::Auto, &[]).lengths();
        let codes = canonical_codes(&lengths);
        let ends: Vec<usize> = tokens.segment_ends.iter().map(|end| end.tokens).collect();
        let blocks = || {
            ends.chunks(2).scan(0, |start, ends| {
                let end = ends[ends.len() - 1];
                Some(&tokens.symbols()[std::mem::replace(start, end)..end])
            })
        };
        self.row(
            row,
            (lanes::Encoder::default(), Vec::new()),
            || {
                let symbols = |block: &[u8]| block.iter().map(|&symbol| symbol.into()).collect::<Vec<usize>>();
                blocks().flat_map(|block| lanes::plain::words(&symbols(block), &lengths, 32)).collect()
            },
            |(encoder, words)| {
                words.clear();
                blocks().for_each(|block| words.extend_from_slice(encoder.encode(block, &codes, LaneCount::All).unwrap()));
            },
            |(_, words)| words.clone(),
        );
    }

    /// Decoding of blocks of 4096 differences.
    fn decode(&mut self, row: (Path, &str), differences: &[i32]) {
        let mut tokens = Tokens::default();
        tokens::tokenize(differences, &mut tokens).unwrap();
        let lengths: CodeLengths = book_choice::choose(&tokens.count().1, CodebookPolicy::Auto, &[]).lengths();
        let (codes, mut start) = (canonical_codes(&lengths), TokenOffset::default());
        let (mut encoder, mut table) = (lanes::Encoder::default(), Box::new([0; 4096]));
        fill_decode_table(&lengths, &ENTRIES, &mut table).unwrap();
        let blocks: Vec<(Vec<u16>, Vec<u16>)> = tokens
            .segment_ends
            .chunks(2)
            .map(|group| {
                let end = group[group.len() - 1];
                let words = encoder.encode(&tokens.symbols()[start.tokens..end.tokens], &codes, LaneCount::All).unwrap().to_vec();
                let extra = tokens.extra.words(start.extra_bits, end.extra_bits).unwrap();
                start = end;
                (words, extra)
            })
            .collect();
        let padded: Vec<(Vec<u16>, Vec<u8>)> = (blocks.iter())
            .map(|(words, extra)| {
                let extra = extra.iter().flat_map(|word| word.to_le_bytes()).chain([0; EXTRA_PADDING]);
                ([&words[..], &[0; LANE_PADDING]].concat(), extra.collect())
            })
            .collect();
        self.row(
            row,
            vec![0; differences.len()],
            || {
                let of_blocks = blocks.iter().zip(differences.chunks(4096)).flat_map(|((words, extra), block)| {
                    lanes::plain::decode(words, extra, &lengths, 32, block.len()).expect("a block")
                });
                of_blocks.map(|difference| difference as i32).collect()
            },
            |values| {
                for (block, (words, extra)) in values.chunks_mut(4096).zip(&padded) {
                    lanes::decode(words, LaneCount::All, extra, &table, block, &mut |_, _| {}).unwrap();
                }
            },
            Vec::clone,
        );
    }

    /// Prefix sums along all axes.
    fn sums(&mut self, row: (Path, &str), differences: &[i32], shape: &Shape) {
        self.row(
            row,
            differences.to_vec(),
            || lorenzo::plain::sums(differences, shape, Axes::all(shape)),
            |codes| {
                codes.copy_from_slice(differences);
                lorenzo::restore(codes, shape, Axes::all(shape));
            },
            Vec::clone,
        );
    }

    /// The lowest bits of integers.
    fn bitmap(&mut self, row: (Path, &str), integers: &[i8]) {
        self.row(
            row,
            Bitmap::default(),
            || (0..integers.len()).filter(|&index| integers[index] & 1 == 1).collect::<Vec<_>>(),
            |bitmap| bitmap.read(integers).unwrap(),
            |bitmap| bitmap.indices().collect(),
        );
    }

    /// Exceptions with equal bits.
    fn write_marked(&mut self, row: (Path, &str), mask: &[bool]) {
        let mut marked = Bitmap::default();
        marked.clear(mask.len()).unwrap();
        (0..mask.len()).filter(|&index| mask[index]).for_each(|index| marked.set(index));
        let bits = vec![0x7ac0_0000; marked.count()];
        self.row(
            row,
            vec![0; 4 * mask.len()],
            || {
                let mut values = vec![0.0f32; mask.len()];
                exceptions::plain::replace_marked(&mut values, mask, &bits);
                bytes(&values)
            },
            |chunk| exceptions::write_marked::<f32>(&bits, &marked, ORDER, chunk),
            Vec::clone,
        );
    }

    fn rows(&mut self) {
        let cube = Shape::new(&[64; 3]).unwrap();
        let (velocity, resolved) = (turbulence::velocity(1, [64; 3]), turbulence::resolved_velocity(1, [64; 3]));
        let bound = |relative: f64| relative * range(&velocity);
        self.quantize((Path::FastF32, "quantize velocity, 1e-3"), &velocity, bound(1e-3));
        self.interpolate((Path::FastF32, "interpolate resolved, 1e-2"), &[64; 3], &resolved, bound(1e-2), false);
        let wide: Vec<f64> = resolved.iter().map(|&value| value.into()).collect();
        self.interpolate((Path::FastF64, "interpolate resolved f64, 1e-2"), &[64; 3], &wide, bound(1e-2), false);
        self.interpolate((Path::CommonRows, "interpolate resolved, 1e-2"), &[64; 3], &resolved, bound(1e-2), false);
        self.interpolate((Path::CommonRows, "interpolate resolved f64, 1e-2"), &[64; 3], &wide, bound(1e-2), false);
        for (dims, is_inverse) in [(&[64u64; 3][..], false), (&[64; 3], true), (&[16; 3], false), (&[16; 3], true)] {
            let data = format!("{} waves of {}^3, 1e-3", if is_inverse { "restore" } else { "interpolate" }, dims[0]);
            self.interpolate((Path::SmallLevels, &data), dims, &waves(dims), 2e-3, is_inverse);
        }
        for is_inverse in [false, true] {
            let what = if is_inverse { "restore" } else { "interpolate" };
            let data = format!("{what} waves of 262144, 1e-3");
            self.interpolate((Path::Lines, &data), &[262_144], &waves(&[262_144]), 2e-3, is_inverse);
            let data = format!("{what} waves of 512x512, 1e-3");
            self.interpolate((Path::SingleSlices, &data), &[512; 2], &waves(&[512; 2]), 2e-3, is_inverse);
        }
        let differences = |values: &[f32], relative: f64| {
            let quantizer = Quantizer::new(bound(relative));
            let (mut codes, mut exceptions) = (vec![0; values.len()], Bitmap::default());
            exceptions.clear(values.len()).unwrap();
            linear::quantize::<f32>(&bytes(values), ORDER, &quantizer, &mut codes, &mut exceptions);
            let mut differences = vec![0; codes.len()];
            lorenzo::predict(&codes, &cube, Axes::all(&cube), &mut differences);
            differences
        };
        let (rough, smooth) = (differences(&velocity, 1e-3), differences(&resolved, 1e-2));
        self.tokenize((Path::CopiedTokens, "tokens of resolved, 1e-3"), &differences(&resolved, 1e-3));
        // 1 of 16 tokens is a class; 1 of 40 or of 6 is a run.
        let (classes, few_runs, runs) = (synthetic(16, usize::MAX), synthetic(usize::MAX, 40), synthetic(usize::MAX, 6));
        let (eighth, half) = (synthetic(8, usize::MAX), synthetic(2, usize::MAX));
        self.tokenize((Path::LookedUpNonLiterals, "tokens, a class in 8"), &eighth);
        if has_avx512() {
            self.tokenize((Path::ComputedClasses, "tokens, a class in 2"), &half);
            self.tokenize((Path::TokensAvx512, "tokens of velocity, 1e-3"), &rough);
            self.tokenize((Path::TokensAvx512, "tokens of resolved, 1e-2"), &smooth);
            self.encode((Path::CodedLanesAvx512, "code velocity, 1e-3"), &rough);
            self.encode((Path::CodedLanesAvx512, "code resolved, 1e-2"), &smooth);
        }
        self.tokenize((Path::LookedUpNonLiterals, "tokens, a run in 6"), &runs);
        self.decode((Path::OverwrittenClasses, "decode, a class in 16 tokens"), &classes);
        self.decode((Path::CopiedRuns, "decode, a run in 40 tokens"), &few_runs);
        self.decode((Path::ScatteredRuns, "decode, a run in 6 tokens"), &runs);
        if has_avx2() && !has_avx512() {
            self.tokenize((Path::TokensAvx2, "tokens of velocity, 1e-3"), &rough);
            self.tokenize((Path::TokensAvx2, "tokens of resolved, 1e-2"), &smooth);
        }
        if has_avx2() {
            self.decode((Path::LanesAvx2, "decode velocity, 1e-3"), &rough);
            self.decode((Path::LanesAvx2, "decode resolved, 1e-2"), &smooth);
            self.sums((Path::SumsAvx2, "sums of velocity, 1e-3"), &rough, &cube);
            let coast: Vec<bool> =
                runs.iter().scan(false, |is_land, &run| Some(std::mem::replace(is_land, *is_land ^ (run > 3)))).collect();
            let mask: Vec<i8> = coast.iter().map(|&is_land| is_land.into()).collect();
            self.bitmap((Path::BitmapsAvx2, "read a mask of 262144 values"), &mask);
            self.write_marked((Path::AlikeExceptions, "fill values along a coast"), &coast);
        }
    }
}

/// Whether the processor has paths with AVX2.
fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return pulp::x86::V3::try_new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether the processor has paths with AVX-512.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return pulp::x86::V4::try_new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn range(values: &[f32]) -> f64 {
    let fold = |start: f32, pick: fn(f32, f32) -> f32| f64::from(values.iter().copied().fold(start, pick));
    fold(f32::NEG_INFINITY, f32::max) - fold(f32::INFINITY, f32::min)
}

/// A smooth field with some noise, from -1.1 to 1.1 an axis.
fn waves(dims: &[u64]) -> Vec<f32> {
    let mut random = Random(1);
    let extents = Shape::new(dims).unwrap().extents();
    let wave = |mut index: usize| -> f32 {
        let along = extents.map(|extent| {
            let at = index % extent;
            index /= extent;
            (at as f32 * 0.1).sin()
        });
        along.into_iter().sum()
    };
    (0..extents.iter().product()).map(|index| wave(index) + (random.next() >> 40) as f32 / 8e7 - 0.1).collect()
}

/// 262144 differences: from 1 to 5 and from -5 to -1, but one in `classes` is from 20 to 51, and one in `runs` is followed by 2 to 9 zeros.
fn synthetic(classes: usize, runs: usize) -> Vec<i32> {
    let mut random = Random(1);
    let mut below = |limit: usize| ((random.next() >> 20) as usize) % limit;
    let mut differences = Vec::new();
    while differences.len() < 64 * 64 * 64 {
        let sign = 1 - 2 * (below(2) as i32);
        differences.push(sign * if below(classes) == 0 { 20 + below(32) as i32 } else { 1 + below(5) as i32 });
        if below(runs) == 0 {
            differences.extend(vec![0; 2 + below(8)]);
        }
    }
    differences.truncate(64 * 64 * 64);
    differences
}

#[test]
fn stages_have_the_plain_results_without_each_fast_path() {
    let mut table = Table { repeats: 0, seen: Vec::new() };
    table.rows();
    table.seen.sort_by_key(|&path| path as u8);
    table.seen.dedup();
    // With AVX-512, tokens do not take the path for AVX2.
    let expected = if has_avx512() { 18 } else { 11 + 5 * usize::from(has_avx2()) };
    assert_eq!(table.seen.len(), expected, "{:?}", table.seen);
}

#[test]
#[ignore = "a measurement"]
fn what_fast_paths_buy() {
    println!("{:<20} {:<38} {:>9} {:>9} {:>9} {:>7}", "path", "stage and data", "plain us", "without", "with", "buys");
    Table { repeats: 201, seen: Vec::new() }.rows();
}
