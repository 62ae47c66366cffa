//! Round trips and rewriting of chunks that are made to break promises: all types, byte orders, bounds, codings and predictors, with values at ties and beside
//! them, on the fine grid, at the limits of the type, with any bits, and with fill values from the data, from ties and from nowhere.
//!
//! Each case comes from a seed. A failure says the seed; `QUIRE_ATTACK_SEED=123 cargo test --release -p quire-codec --test attack -- --nocapture` runs that
//! case alone. By default there are as many cases as it takes to have each kind of stream, a quarter of `CASES` at least, with other seeds each day.
//! `QUIRE_FULL_MATRIX=1` has the seeds `0..CASES`. `QUIRE_ATTACK_MINUTES=90` draws other seeds for that time, and says the first one. `QUIRE_ATTACK_GO_ON=1`
//! counts failures by kind, with the smallest case of each, before it fails.

#[path = "attack/cases.rs"]
mod cases;
mod common;
#[path = "attack/coverage.rs"]
mod coverage;
#[path = "attack/fields.rs"]
mod fields;
#[path = "attack/rewriting.rs"]
mod rewriting;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cases::Case;
use common::checks::{Breach, Promise, numbers, share_of};
use common::sampling;
use coverage::{Coverage, Row};
use quire_codec::{ErrorBound, Workspace, max_stream_len};
use rewriting::{never_twice, rewrite};

/// Cases of a whole run: enough of them to have each kind of stream.
const CASES: u64 = 14_000;

/// Cases of a sample at least; more until it has each kind of stream.
const LEAST: u64 = CASES / 4;
/// Cases after which a sample looks again whether it has each kind of stream.
const BATCH: u64 = CASES / 14;

/// A case that failed.
#[derive(Debug)]
struct Failure {
    seed: u64,
    case: String,
    detail: String,
    values: usize,
}

/// What all cases so far have done.
#[derive(Debug, Default)]
struct Report {
    cases: u64,
    refused: u64,
    values: u64,
    rewritten: u64,
    rounds: u64,
    coverage: Coverage,
    failures: BTreeMap<String, Kind>,
}

/// The failures of a kind.
#[derive(Debug)]
struct Kind {
    count: u64,
    /// The lowest seed.
    first: u64,
    /// The case with the fewest values.
    smallest: Failure,
}

impl Report {
    fn fail(&mut self, kind: String, other: Kind) {
        match self.failures.entry(kind) {
            Entry::Vacant(entry) => drop(entry.insert(other)),
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.count += other.count;
                known.first = known.first.min(other.first);
                if (other.smallest.values, other.smallest.seed) < (known.smallest.values, known.smallest.seed) {
                    known.smallest = other.smallest;
                }
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.refused += other.refused;
        self.values += other.values;
        self.rewritten += other.rewritten;
        self.rounds += other.rounds;
        self.coverage.add(&other.coverage);
        other.failures.into_iter().for_each(|(kind, failures)| self.fail(kind, failures));
    }
}

/// Runs the case of a seed.
fn run(seed: u64, workspace: &mut Workspace, report: &mut Report) {
    let Some(mut case) = Case::new(seed, workspace) else {
        report.refused += 1;
        return;
    };
    report.cases += 1;
    report.values += case.values.len() as u64;
    let (mut row, case_text, values) = (("-", "-", "-"), case.describe(), case.values.len());
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| check(&mut case, workspace, report, &mut row)));
    let outcome = outcome.unwrap_or_else(|panic| {
        *workspace = Workspace::default();
        let text = panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(Breach { kind: "panic", detail: text.unwrap_or_default() })
    });
    if let Err(Breach { kind, detail }) = outcome {
        let bound = format!("{:?}", case.config.bound);
        let bound = bound.split([' ', '(']).next().unwrap_or_default();
        let stage = if detail.starts_with("round ") { ", rewritten" } else { "" };
        let kind = format!("{kind}{stage}: {bound} {:?} {row:?}", case.layout.scalar);
        report.fail(kind, Kind { count: 1, first: seed, smallest: Failure { seed, case: case_text, detail, values } });
    }
}

/// Compresses, decompresses and checks a case, then rewrites it if its bound does not depend on the chunk.
fn check(case: &mut Case, workspace: &mut Workspace, report: &mut Report, row: &mut Row) -> Result<(), Breach> {
    let (layout, config) = (case.layout, case.config);
    let failed = |kind| move |error: quire_codec::Error| Breach { kind, detail: error.to_string() };
    let chunk = case.chunk();
    let original = numbers(&chunk, &layout);
    let mut stream = Vec::new();
    workspace.compress(&chunk, &layout, &config, &mut stream).map_err(failed("chunk was not compressed"))?;
    if stream.len() as u64 > max_stream_len(&layout) {
        return Err(Breach { kind: "stream too long", detail: format!("{} bytes of {}", stream.len(), chunk.len()) });
    }
    *row = report.coverage.count(&stream, &config).map_err(failed("stream was not described"))?;
    let mut decoded = vec![0xa5; chunk.len()];
    workspace.decompress(&stream, &mut decoded).map_err(failed("stream was not decoded"))?;
    let promise = Promise::new(&original, &layout, &config);
    promise.check(&original, &numbers(&decoded, &layout), &layout)?;
    if case.random.below(8) == 0 {
        let mut fresh = Vec::new();
        Workspace::default().compress(&chunk, &layout, &config, &mut fresh).map_err(failed("chunk was not compressed"))?;
        if fresh != stream {
            return Err(Breach { kind: "stream depends on the workspace", detail: String::new() });
        }
    }
    let is_rewritten = match config.bound {
        ErrorBound::Absolute(_) | ErrorBound::PointwiseRelative(_) => case.random.below(3) == 0,
        _ => false,
    };
    if is_rewritten {
        let rule = never_twice(|x, y| promise.breach(x, y));
        report.rounds += rewrite(case, &decoded, &rule, workspace, &mut report.coverage, row)?;
        report.rewritten += 1;
    }
    Ok(())
}

/// A variable's number.
fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn promises_hold_under_attack() {
    let start = Instant::now();
    let one = variable::<u64>("QUIRE_ATTACK_SEED");
    let minutes = variable::<f64>("QUIRE_ATTACK_MINUTES");
    let goes_on = variable::<u64>("QUIRE_ATTACK_GO_ON") == Some(1);
    let first = match (one, minutes) {
        (Some(seed), _) => seed,
        (None, None) if sampling::is_full() => 0,
        (None, None) => sampling::seed().wrapping_mul(CASES),
        (None, Some(_)) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
    };
    let count = match (one, minutes) {
        (Some(_), _) => 1,
        (None, None) => CASES,
        (None, Some(_)) => u64::MAX,
    };
    let limit = minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    println!("first seed: {first}");
    let is_sample = one.is_none() && minutes.is_none() && !sampling::is_full();
    let (next, is_over, report) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Report::default()));
    let work = |end: u64| {
        let (mut workspace, mut own) = (Workspace::default(), Report::default());
        while !is_over.load(Ordering::Relaxed) && limit.is_none_or(|limit| start.elapsed() < limit) {
            let Ok(number) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| (next < end).then_some(next + 1))
            else {
                break;
            };
            run(first.wrapping_add(number), &mut workspace, &mut own);
            if !own.failures.is_empty() && !goes_on {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        report.lock().unwrap().add(own);
    };
    let threads = if one.is_some() { 1 } else { std::thread::available_parallelism().map_or(1, NonZero::get) };
    let mut end = if is_sample { LEAST } else { count };
    loop {
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(end)))));
        if !is_sample || is_over.load(Ordering::Relaxed) || end >= CASES || report.lock().unwrap().coverage.missing().is_empty() {
            break;
        }
        end += BATCH;
    }

    let report = report.into_inner().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let Report { cases, refused, values, rewritten, rounds, coverage, failures } = &report;
    println!(
        "{cases} cases of {values} values, {refused} refused, {rewritten} of them rewritten in {rounds} rounds: \
         {seconds:.1} s, {:.0} cases a second on {threads} threads",
        *cases as f64 / seconds
    );
    let ((interpolated, streams), (chosen, choices)) = (coverage.interpolated, coverage.chosen);
    println!(
        "{interpolated} of {streams} streams interpolated; {chosen} of {choices} of f32 and f64 where the encoder had the choice"
    );
    println!("{coverage}");
    for (kind, Kind { count, first, smallest: Failure { seed, case, detail, values } }) in failures {
        println!(
            "\n{count} times, first with {first}: {kind}\n  smallest: QUIRE_ATTACK_SEED={seed}, {values} values: {case}\n  {detail}"
        );
    }
    assert!(failures.is_empty(), "{} kinds of failures, listed above", failures.len());
    if is_sample || cases + refused >= CASES {
        assert!(coverage.missing().is_empty(), "no streams of {:?}", coverage.missing());
        let least = if is_sample { cases / 20 } else { 1000 };
        assert!(chosen > least, "interpolation was chosen {chosen} times of {cases}");
    }
}

#[test]
fn shares_of_integers_are_exact() {
    assert_eq!(share_of(1.0, u128::from(u64::MAX)), u128::from(u64::MAX));
    assert_eq!(share_of(0.5, u128::from(u64::MAX)), u128::from(u64::MAX >> 1));
    assert_eq!(share_of(0.1, 10), 1);
    assert_eq!(share_of(1.0 / 3.0, 3), 0);
    assert_eq!(share_of(f64::from_bits(1), u128::from(u64::MAX)), 0);
    assert_eq!(share_of(2f64.powi(-64), 1 << 64), 1);
    assert_eq!(share_of(2f64.powi(-64), (1 << 64) - 1), 0);
}
