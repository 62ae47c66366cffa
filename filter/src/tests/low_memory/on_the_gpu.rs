//! Chunks that go to a GPU, while each large allocation of the process is refused in turn. A call gives the CPU's bytes or fails. In both cases the process
//! goes on, and its next call works.
//!
//! Each test runs in a process of its own, as the device is opened once a process. Without a GPU, tests are skipped; `QUIRE_REQUIRE_CUDA=1` makes that a failure.

pub(crate) mod driver;
mod resident;

use std::ffi::c_uint;

use hdf5_sys::h5z::H5Z_FLAG_REVERSE;
use quire_codec::Workspace;
use quire_gpu::statistics;

use super::processes::run;
use super::refusing::{Refusals, refuse_everywhere};
use crate::cd_values::CdValues;
use crate::tests::as_hdf5::filter;

const WRITE: c_uint = 0;
const READ: c_uint = H5Z_FLAG_REVERSE;
/// Rows of a chunk that goes to the GPU, and of which several threads copy.
const ROWS: c_uint = 200;
const COLUMNS: c_uint = 256;

/// Whether there is a GPU. The reason is printed if there is none.
pub(crate) fn has_gpu() -> bool {
    match quire_gpu::device(0) {
        Ok(_) => true,
        Err(reason) => {
            assert!(std::env::var("QUIRE_REQUIRE_CUDA").as_deref() != Ok("1"), "QUIRE_REQUIRE_CUDA=1, but: {reason}");
            println!("no GPU: {reason}");
            false
        }
    }
}

/// A chunk of binary32 with what the CPU makes of it.
struct Example {
    words: [c_uint; 6],
    chunk: Vec<u8>,
    stream: Vec<u8>,
    decoded: Vec<u8>,
}

impl Example {
    fn new(rows: c_uint) -> Self {
        let words = [1, 3539053052, 1062232653, 0x5101_0002, rows, COLUMNS];
        let chunk: Vec<u8> = (0..rows * COLUMNS)
            .flat_map(|index| ((index as f32 * 0.07).sin() * 100.0 + (index % 7) as f32 * 0.01).to_le_bytes())
            .collect();
        let CdValues { config, layout, .. } = CdValues::parse(&words).expect("words");
        let (mut workspace, mut stream, mut decoded) = (Workspace::default(), Vec::new(), vec![0; chunk.len()]);
        workspace.compress(&chunk, &layout.expect("a layout"), &config, &mut stream).expect("compressed");
        workspace.decompress(&stream, &mut decoded).expect("decompressed");
        Self { words, chunk, stream, decoded }
    }

    fn call(&self, direction: c_uint) -> Option<Vec<u8>> {
        filter(direction, &self.words, if direction == WRITE { &self.chunk } else { &self.stream })
    }

    /// What a call gives that is not refused.
    fn expected(&self, direction: c_uint) -> &[u8] {
        if direction == WRITE { &self.stream } else { &self.decoded }
    }

    fn assert_works(&self, what: &str) {
        for direction in [WRITE, READ] {
            assert!(self.call(direction).is_some_and(|found| found == self.expected(direction)), "{what}: {direction}");
        }
    }
}

/// How a test is named, for a process that runs it alone.
macro_rules! in_this_file {
    ($name:literal) => {
        concat!("tests::low_memory::on_the_gpu::", $name)
    };
}

/// Runs a test in a process of its own if there is a GPU, and prints what it counts and skips.
fn run_on_a_gpu(test: &str) {
    if !has_gpu() {
        println!("skipped");
        return;
    }
    let said = run(test);
    said.lines().filter(|line| line.contains("allocations") || line.contains("skipped")).for_each(|line| println!("{line}"));
}

#[test]
fn later_calls() {
    run_on_a_gpu(in_this_file!("many_later_calls"));
}

#[test]
#[ignore = "`later_calls` runs it in a process of its own"]
fn many_later_calls() {
    let known = Example::new(ROWS);
    known.assert_works("before");
    let mut rows = ROWS;
    let mut new = || {
        rows += 1;
        Example::new(rows)
    };
    for (name, direction) in [("write", WRITE), ("read", READ)] {
        for is_new in [false, true] {
            for refusals in [Refusals::One, Refusals::AllBehind] {
                let what = format!("{name}, {}", if is_new { "a new layout" } else { "a layout seen before" });
                let mut most = 0;
                for number in 0.. {
                    let of_new_layout = is_new.then(&mut new);
                    let example = of_new_layout.as_ref().unwrap_or(&known);
                    let recorded = statistics().recorded;
                    // A thread that has kept nothing.
                    let (outcome, count) = std::thread::scope(|scope| {
                        let call = || refuse_everywhere(number, refusals, || example.call(direction));
                        scope.spawn(call).join().expect("no panic")
                    });
                    let is_right = outcome.as_ref().is_none_or(|found| found == example.expected(direction));
                    assert!(is_right, "{what}: other bytes than the CPU's, allocation {number}, {refusals:?}");
                    known.assert_works(&what);
                    most = most.max(count);
                    if count <= number {
                        assert!(outcome.is_some(), "{what}: none was refused");
                        assert_eq!(statistics().recorded > recorded, is_new, "{what}: whether it was the GPU's");
                        break;
                    }
                }
                println!("\n{what}: {most} allocations, each refused, {refusals:?}");
            }
        }
    }
    assert_eq!(statistics().contexts, 1);
}
