//! Chunks of nearly 1, 2 and 4 GiB, which is HDF5's limit before 2.0, and one of 5 GiB. `QUIRE_ATTACK_MINUTES=30` or more runs all of them,
//! as far as memory allows.

use std::time::Duration;

use plugin_tests::{Python, Sandbox, attack_time, succeed};

/// Writes and reads one chunk of about `size` GiB. See `huge_chunk.py`.
fn run(sandbox: &Sandbox, python: Python, size: u32, content: &str, kind: &str) {
    let file = sandbox.path("huge.h5");
    let mut command = sandbox.python(python, "huge_chunk.py");
    let report = succeed(command.arg(&file).arg(size.to_string()).args([content, kind]));
    println!("{}", report.stdout.trim());
    // A file may have 4 GiB, and there is none where memory was too small.
    let _ = std::fs::remove_file(file);
}

#[test]
fn chunks_just_below_1_2_and_4_gib_come_back() {
    let sandbox = Sandbox::new();
    if attack_time() < Duration::from_secs(30 * 60) {
        // Seconds each, and at most 4.4 bytes of memory for each byte of the chunk.
        run(&sandbox, Python::Debian, 1, "constant", "|u1");
        run(&sandbox, Python::Hdf5_2_0, 1, "compressed", "<f4");
        return;
    }
    let mut pythons = Python::ALL.into_iter().cycle();
    for size in [1, 2, 4] {
        for content in ["constant", "compressed", "stored"] {
            for (kind, python) in ["|u1", "<f4", "<f8"].into_iter().zip(&mut pythons) {
                run(&sandbox, python, size, content, kind);
            }
            // Each type meets each HDF5.
            pythons.next();
        }
    }
    run(&sandbox, Python::Hdf5_2_0, 5, "constant", "<f8");
}
