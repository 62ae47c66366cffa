//! Processes of an MPI job that write one dataset together.

use plugin_tests::{Python, Sandbox, assert_says, crate_folder, succeed};

#[test]
fn two_processes_write_collectively() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("mpi.h5");
    let mut command = sandbox.command("mpirun");
    // A container may forbid what Open MPI uses between processes of one machine; it then only warns.
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]).arg(Python::Debian.interpreter());
    let report = succeed(command.arg(crate_folder().join("py/mpi_collective.py")).arg(&file));
    println!("{}", report.stdout);
    assert_says(&report, &["process 0 of 2", "process 1 of 2"]);
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "round_trip.py").arg("check").arg(&file));
    }
}
