//! Calls that a process makes once, with an allocation refused: each in a process of its own, several at once. `refusing.rs` stands beside this file.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::refusing::{Refusals, refuse_everywhere};

/// What a process is to call, and which of its allocations is refused.
const CALL: &str = "QUIRE_CALL";
const ALLOCATION: &str = "QUIRE_ALLOCATION";
const REFUSALS: &str = "QUIRE_REFUSALS";
/// Most allocations of a call that are refused, unless `QUIRE_EVERY_ALLOCATION=1` asks for all of them: each takes two processes.
const MOST: u64 = 64;
/// Time that those processes may take one after another, as where each waits to open the GPU: fewer allocations are refused if need be.
const MOST_TIME: Duration = Duration::from_secs(25);

/// Runs `test`, which is ignored otherwise and makes the call named `call` with [`refused_call`], in processes: with each allocation of the call refused, alone
/// and with all behind it. Panics with what those say that fail.
pub(crate) fn refuse_each_in_processes(test: &str, call: &str) {
    let start = Instant::now();
    let said = run(test, call, u64::MAX, Refusals::One).unwrap_or_else(|said| panic!("{call}, nothing refused:\n{said}"));
    let count = said.lines().find_map(|line| line.strip_prefix("allocations: ")).expect("refused_call says it");
    let count: u64 = count.parse().expect("a number");
    assert!(count > 0, "{call} allocates nothing");
    let most = MOST.min((MOST_TIME.as_secs_f64() / start.elapsed().as_secs_f64() / 2.0) as u64).max(1);
    let is_all = std::env::var("QUIRE_EVERY_ALLOCATION").as_deref() == Ok("1");
    let stride = if is_all { 1 } else { count.div_ceil(most) };
    // Other threads allocate as well, so that the number of an allocation is not always the same one's, nor their count: a few more are tried.
    let numbers = (0..count + count / 16 + 1).step_by(stride as usize);
    let all: Vec<(u64, Refusals)> = numbers.flat_map(|number| [(number, Refusals::One), (number, Refusals::AllBehind)]).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&(number, refusals)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(said) = run(test, call, number, refusals) {
                panic!("{call}: allocation {number} of {count} refused, {refusals:?}:\n{said}");
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    println!("{call}: {count} allocations, one in {stride} refused, alone and with all behind it: {} processes", all.len());
}

/// Runs a test of this program in a process. What it says, as an error if it fails.
pub(crate) fn run(test: &str, call: &str, number: u64, refusals: Refusals) -> Result<String, String> {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"]);
    // Settings of the caller are not to steer the test.
    for name in ["QUIRE_BACKEND", "QUIRE_DEVICE", "QUIRE_CODEBOOK", "QUIRE_DICTIONARY"] {
        command.env_remove(name);
    }
    command.env(CALL, call).env(ALLOCATION, number.to_string()).env(REFUSALS, format!("{refusals:?}"));
    let output = command.output().expect("runs");
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    let is_one = said[0].contains("1 passed");
    if output.status.success() && is_one { Ok(said.concat()) } else { Err(format!("{}\n{}", output.status, said.concat())) }
}

/// The name of the call that this process is to make.
#[allow(dead_code, reason = "for tests of several calls alone")]
pub(crate) fn call_name() -> String {
    std::env::var(CALL).expect("run by another test")
}

/// Makes a call in a process that [`refuse_each_in_processes`] has started, with the refusal that it is to have.
pub(crate) fn refused_call<R>(call: impl FnOnce() -> R) -> R {
    let number = std::env::var(ALLOCATION).expect("run by another test").parse().expect("a number");
    let name = std::env::var(REFUSALS).expect("run by another test");
    let all = [Refusals::One, Refusals::AllBehind, Refusals::FewBytes];
    let refusals = all.into_iter().find(|refusals| format!("{refusals:?}") == name).expect("its name");
    let (result, count) = refuse_everywhere(number, refusals, call);
    // The test harness has begun the line with the name of the test.
    println!("\nallocations: {count}");
    result
}
