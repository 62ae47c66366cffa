//! Arrays in a GPU's memory, through the C functions into files and back. The driver is gpu/emulator's, whose GPU is the CPU; `plugin-tests/gpu.sh` does it on
//! a GPU.
#![cfg(target_arch = "x86_64")]

use plugin_tests::{LIBRARY_NAME, Python, Sandbox, crate_folder, emulated_driver, failing_driver, succeed};

#[test]
fn arrays_in_a_gpus_memory_make_the_same_files() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(Python::Hdf5_2_0.interpreter());
    command.arg(crate_folder().join("py/resident.py")).arg(sandbox.plugin_folder().join(LIBRARY_NAME)).arg(sandbox.path("."));
    let report = succeed(command.arg("few").env("LD_LIBRARY_PATH", emulated_driver()));
    println!("{}", report.stdout);
}

#[test]
fn faults_of_arrays_in_a_gpus_memory_are_errors() {
    let sandbox = Sandbox::new();
    let driver = failing_driver(&sandbox);
    let mut command = sandbox.command(Python::Hdf5_2_0.interpreter());
    command.arg(crate_folder().join("py/resident_faults.py"));
    command.arg(sandbox.plugin_folder().join(LIBRARY_NAME)).arg(sandbox.path("."));
    println!("{}", succeed(command.env("LD_LIBRARY_PATH", driver)).stdout);
}
