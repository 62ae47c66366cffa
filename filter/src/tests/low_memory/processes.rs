//! Tests that need a process of their own.

use std::process::Command;

/// Runs a test of this program, which is ignored otherwise, in a process. What it says.
///
/// # Panics
/// If the test fails, with what it says.
pub(crate) fn run(test: &str) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"]);
    // Settings of the caller are not to steer the test.
    for name in ["QUIRE_BACKEND", "QUIRE_DEVICE", "QUIRE_CODEBOOK", "QUIRE_DICTIONARY"] {
        command.env_remove(name);
    }
    let output = command.output().expect("runs");
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{test}: {}\n{}", output.status, said.concat());
    said.concat()
}
