//! Chunks that go to a GPU, with each allocation of the process refused in turn: bytes are the CPU's, or the call fails; the process goes on, and its next call works.
//!
//! Each test runs in processes of its own, as the device is opened once a process. Without a GPU, looking for one is what is tested; `QUIRE_REQUIRE_CUDA=1` makes that a
//! failure.

pub(crate) mod driver;
mod resident;

use std::ffi::c_uint;

use hdf5_sys::h5z::H5Z_FLAG_REVERSE;
use quire_codec::Workspace;
use quire_gpu::statistics;

use super::ALLOCATOR;
use super::processes::{call_name, refuse_each_in_processes, refused_call, run};
use super::refusing::{Refusals, refuse_everywhere, spare};
use crate::as_hdf5::filter;
use crate::backend::outlook;
use crate::cd_values::CdValues;

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
        concat!("low_memory::on_the_gpu::", $name)
    };
}

#[test]
fn first_calls() {
    let scene = if has_gpu() { "on a GPU" } else { "looking for a GPU" };
    for direction in ["write", "read"] {
        refuse_each_in_processes(in_this_file!("a_first_call"), &format!("{direction} {scene}"));
    }
}

#[test]
fn a_first_call_and_the_next_live_on_the_reserve() {
    let scene = if has_gpu() { "on a GPU" } else { "looking for a GPU" };
    for direction in ["write", "read"] {
        let said = run(in_this_file!("calls_without_small_allocations"), &format!("{direction} {scene}"), 0, Refusals::FewBytes);
        said.unwrap_or_else(|said| panic!("{said}"));
    }
}

#[test]
#[ignore = "`a_first_call_and_the_next_live_on_the_reserve` runs it in processes of its own"]
fn calls_without_small_allocations() {
    ALLOCATOR.switch_on();
    let (examples, name) = ([ROWS, ROWS + 1, ROWS + 2].map(Example::new), call_name());
    let directions = if name.starts_with("write") { [WRITE, READ] } else { [READ, WRITE] };
    refused_call(|| {
        for example in &examples {
            for direction in directions {
                let found = example.call(direction);
                spare(|| assert!(found.is_some_and(|found| found == example.expected(direction)), "{direction}"));
            }
        }
    });
    let has_gpu = name.ends_with("on a GPU");
    // A recording for each layout and direction.
    let recorded = 2 * examples.len() as u64;
    assert_eq!((statistics().contexts, statistics().recorded), if has_gpu { (1, recorded) } else { (0, 0) });
}

#[test]
#[ignore = "`first_calls` runs it in processes of its own"]
fn a_first_call() {
    ALLOCATOR.switch_on();
    let (example, name) = (Example::new(ROWS), call_name());
    let direction = if name.starts_with("write") { WRITE } else { READ };
    let outcome = refused_call(|| example.call(direction));
    assert!(outcome.is_none_or(|found| found == example.expected(direction)), "other bytes than the CPU's");
    example.assert_works("the next calls");
    // Whatever the refusal has broken off was tried again.
    assert_eq!(statistics().contexts, u64::from(name.ends_with("on a GPU")));
}

/// Runs a test in a process of its own if there is a GPU, and prints what it counts and skips.
fn run_on_a_gpu(test: &str) {
    if !has_gpu() {
        println!("skipped");
        return;
    }
    let said = run(test, "", 0, Refusals::One).unwrap_or_else(|said| panic!("{said}"));
    said.lines().filter(|line| line.contains("allocations") || line.contains("skipped")).for_each(|line| println!("{line}"));
}

#[test]
fn later_calls() {
    run_on_a_gpu(in_this_file!("many_later_calls"));
}

#[test]
#[ignore = "`later_calls` runs it in a process of its own"]
fn many_later_calls() {
    ALLOCATOR.switch_on();
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

#[test]
fn nothing_begins_without_memory() {
    run(in_this_file!("an_outlook_without_memory"), "", 0, Refusals::One).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
#[ignore = "`nothing_begins_without_memory` runs it in a process of its own"]
fn an_outlook_without_memory() {
    ALLOCATOR.switch_on();
    let (without, _) = refuse_everywhere(0, Refusals::AllBehind, || {
        // Served, as every small one; and noticed.
        drop(std::hint::black_box(Box::new([0u8; 100])));
        outlook()
    });
    let without = without.expect("a text is short");
    assert_eq!((without.backend, without.device), ("cpu", None));
    assert_eq!(without.why, "the host is out of memory, so that the GPU takes no new chunk");
    assert_ne!(outlook().expect("memory").why, without.why);
}
