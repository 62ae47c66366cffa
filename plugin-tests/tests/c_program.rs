//! A C program built with h5cc.

use plugin_tests::{Sandbox, assert_says, crate_folder, succeed};

#[test]
fn a_c_program_writes_reads_and_copies_chunks() {
    let sandbox = Sandbox::new();
    let program = sandbox.path("round_trip");
    let source = crate_folder().join("c/round_trip.c");
    let _ = succeed(sandbox.command("h5cc").args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).arg("-lm"));
    let report = succeed(sandbox.command(&program).arg(sandbox.path("c.h5")));
    println!("{}", report.stdout);
    assert_says(&report, &["f32_little", "f32_big", "f64_little", "f64_big", "refusal: its reason is on the error stack"]);
}
