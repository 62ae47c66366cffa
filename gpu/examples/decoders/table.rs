//! The table of a case: variants tried, the best of each family measured, rows printed.

use quire_gpu::Batch;

use super::case::Case;
use super::device::{Arrays, Bench};
use super::plan::Plan;
use super::way::{COARSE_BITS, COARSE_TABLE, FAMILIES, STREAM_LANES, Way};
use super::{Options, Result, check, check_way};

/// Share of the codes' bits that an index and filling bits may take.
pub(crate) const MOST_OVERHEAD: f64 = 0.07;
/// Runs of a variant before the fastest is known.
const TRIAL_RUNS: usize = 5;
/// The rows of a case.
pub(crate) struct Table<'a> {
    bench: &'a mut Bench,
    case: &'a Case,
    options: &'a Options,
    bandwidth: f64,
    /// Variants that were wrong, so far.
    pub(crate) failures: usize,
}

/// A variant that is right.
struct Tried {
    way: Way,
    decode: f64,
    overhead: f64,
}

/// A measured row.
struct Row {
    way: Way,
    plan: Plan,
    encode: Vec<f64>,
    decode: Vec<f64>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(bench: &'a mut Bench, case: &'a Case, options: &'a Options, bandwidth: f64) -> Self {
        Self { bench, case, options, bandwidth, failures: 0 }
    }

    /// Prints the case's table; returns its line of the summary.
    pub(crate) fn measure(&mut self) -> Result<String> {
        let case = self.case;
        let bits = case.bits() as f64;
        println!(
            "\n{}, {:.2} MiB, ratio {:.2}: {:.3} codes a value of {:.2} bits, {:.2} MB of codes in {:.2} MB of stream, blocks of {} values",
            case.name,
            case.chunk_bytes() / f64::from(1 << 20),
            case.ratio,
            case.symbols.len() as f64 / case.values as f64,
            bits / case.symbols.len() as f64,
            bits / 8e6,
            case.chunk_bytes() / case.ratio / 1e6,
            case.block_len
        );
        let mut arrays = Arrays::new(self.bench, case)?;
        let tried = self.try_all(&mut arrays, bits);
        if self.options.tunes {
            for one in &tried {
                println!(
                    "    {:<24} {:<34} {:>9.2} us {:>8.1} GB/s, {:>5.2} % besides the codes",
                    FAMILIES[one.way.family()],
                    one.way.parameters(),
                    one.decode,
                    case.chunk_bytes() / one.decode / 1e3,
                    100.0 * one.overhead
                );
            }
        }
        let mut rows = Vec::new();
        for family in 0..FAMILIES.len() {
            let of_family = || tried.iter().filter(|one| one.way.family() == family);
            let by_time = |a: &&Tried, b: &&Tried| a.decode.total_cmp(&b.decode);
            let lean = of_family().filter(|one| one.overhead <= MOST_OVERHEAD).min_by(by_time);
            let leanest = || of_family().min_by(|a, b| a.overhead.total_cmp(&b.overhead).then(a.decode.total_cmp(&b.decode)));
            rows.push(match lean.or_else(leanest) {
                Some(one) => Some(self.row(&mut arrays, one.way)?),
                None => None,
            });
        }
        drop(arrays);
        let whole = self.product().unwrap_or_else(|error| {
            println!("FAILED: the product's decompression: {error}");
            self.failures += 1;
            None
        });
        self.print(&rows, bits, &whole);
        Ok(self.summary(&rows))
    }

    /// Launches in a row.
    fn in_a_row(&self) -> usize {
        ((1 << 23) / self.case.values).clamp(2, 16)
    }

    /// Checks and times all variants.
    fn try_all(&mut self, arrays: &mut Arrays, bits: f64) -> Vec<Tried> {
        let mut tried = Vec::new();
        for way in Way::all() {
            let row = self.in_a_row();
            let done = check_way(self.bench, arrays, self.case, way).and_then(|plan| {
                let times = self.bench.time(&plan.decode, row, TRIAL_RUNS)?;
                let overhead = 8.0 * (plan.stream_bytes + plan.index_bytes) as f64 / bits - 1.0;
                Ok(Tried { way, decode: at(&times, 0.5), overhead })
            });
            match done {
                Ok(one) => tried.push(one),
                Err(error) => {
                    println!("FAILED: {}: {}, {}: {error}", self.case.name, FAMILIES[way.family()], way.parameters());
                    self.failures += 1;
                }
            }
        }
        tried
    }

    /// Measures a variant, and compares its symbols once more behind all runs.
    fn row(&mut self, arrays: &mut Arrays, way: Way) -> Result<Row> {
        let plan = self.bench.run_once(arrays, way)?;
        let encode = self.bench.time(&plan.encode, self.in_a_row(), self.options.repeats)?;
        let decode = self.bench.time(&plan.decode, self.in_a_row(), self.options.repeats)?;
        check::decoded(self.bench, arrays, self.case)?;
        Ok(Row { way, plan, encode, decode })
    }

    /// Microseconds of the product's decompression on the device, and the steps that take longest.
    fn product(&self) -> Result<Option<Vec<f64>>> {
        let Some((stream, layout)) = &self.case.stream else { return Ok(None) };
        let device = quire_gpu::device(0)?;
        let mut batch = Batch::new(device, layout, 1)?;
        let (_, times) = batch.decompress(std::slice::from_ref(stream), self.options.repeats)?;
        let steps: Vec<String> = times.steps.iter().map(|(step, times)| format!("{step} {:.1}", at(times, 0.5))).collect();
        println!("  the product decompresses in {} us; its steps apart: {}", cell(&times.whole), steps.join(", "));
        Ok(Some(times.whole))
    }

    fn print(&self, rows: &[Option<Row>], bits: f64, whole: &Option<Vec<f64>>) {
        println!(
            "  {:<24} {:<34} {:>9} {:>12} {:>7} {:>10} {:>6} {:>23} {:>8} {:>7} {:>8} {:>7} {:>7} {:>9} {:>8} {:>7}",
            "decoder",
            "parameters",
            "encode us",
            "stream bytes",
            "more %",
            "index",
            "%",
            "decode us",
            "GB/s",
            "Gsym/s",
            "floor us",
            "x table",
            "x bits",
            "whole us",
            "GB/s",
            "x table"
        );
        let decode = |family: usize| rows[family].as_ref().map_or(f64::NAN, |row| at(&row.decode, 0.5));
        let whole_with = |time: f64| whole.as_ref().map_or(f64::NAN, |whole| at(whole, 0.5) - decode(STREAM_LANES) + time);
        for row in rows.iter().flatten() {
            let time = at(&row.decode, 0.5);
            let bytes = row.plan.stream_bytes + row.plan.index_bytes;
            println!(
                "  {:<24} {:<34} {:>9.1} {:>12} {:>7.2} {:>10} {:>6.2} {:>23} {:>8.1} {:>7.1} {:>8.1} {:>7.2} {:>7.2} {:>9.1} {:>8.1} {:>7.2}",
                FAMILIES[row.way.family()],
                row.way.parameters(),
                at(&row.encode, 0.5),
                row.plan.stream_bytes,
                100.0 * (8.0 * row.plan.stream_bytes as f64 / bits - 1.0),
                row.plan.index_bytes,
                100.0 * 8.0 * row.plan.index_bytes as f64 / bits,
                cell(&row.decode),
                self.case.chunk_bytes() / time / 1e3,
                self.case.symbols.len() as f64 / time / 1e3,
                (bytes as f64 + self.case.symbols.len() as f64) / self.bandwidth / 1e3,
                decode(COARSE_TABLE) / time,
                decode(COARSE_BITS) / time,
                whole_with(time),
                self.case.chunk_bytes() / whole_with(time) / 1e3,
                whole_with(decode(COARSE_TABLE)) / whole_with(time)
            );
        }
    }

    fn summary(&self, rows: &[Option<Row>]) -> String {
        let decode = |family: usize| rows[family].as_ref().map_or(f64::NAN, |row| at(&row.decode, 0.5));
        let cells = (0..FAMILIES.len()).map(|family| {
            let time = decode(family);
            let gigabytes = self.case.chunk_bytes() / time / 1e3;
            let text = format!("{:.2}; {:.2}; {gigabytes:.0}", decode(COARSE_TABLE) / time, decode(COARSE_BITS) / time);
            format!("{text:>26}")
        });
        format!("{:<28} {}", format!("{}, {:.2}", self.case.name, self.case.ratio), cells.collect::<String>())
    }
}

fn cell(times: &[f64]) -> String {
    format!("{:.1} ({:.1}-{:.1})", at(times, 0.5), at(times, 0.25), at(times, 0.75))
}

fn at(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}
