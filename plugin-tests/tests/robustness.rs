//! Damaged chunks.

use plugin_tests::{Python, Sandbox, succeed};

#[test]
fn damaged_chunks_are_errors() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "damage.py").arg(sandbox.path("")));
        println!("{python}: {}", report.stdout);
    }
}
