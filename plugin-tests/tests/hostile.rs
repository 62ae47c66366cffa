//! Files that somebody has changed on purpose, read by every HDF5. `QUIRE_ATTACK_MINUTES` makes the attack longer.

use std::time::Instant;

use plugin_tests::{Python, Sandbox, attack_time, shared_library, succeed};

#[test]
fn changed_messages_and_chunk_indices_are_read_right_or_refused() {
    let start = Instant::now();
    let sandbox = Sandbox::new();
    let library = shared_library(&sandbox, "crash_stack");
    // Round 0 makes every listed change, each with one of the Pythons; each further round flips other bits. All are drawn from fixed seeds.
    for round in 0_usize.. {
        for (share, python) in Python::ALL.into_iter().enumerate() {
            let mut command = sandbox.python(python, "hostile_messages.py");
            let report = succeed(
                command.arg("run").arg(sandbox.path("")).arg(&library).args([round, share].map(|number| number.to_string())),
            );
            println!("{}", report.stdout.trim());
        }
        if start.elapsed() >= attack_time() {
            break;
        }
    }
}
