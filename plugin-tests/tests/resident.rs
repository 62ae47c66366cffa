//! Arrays in a GPU's memory, through the C functions into files and back. The driver is gpu/emulator's, whose GPU is the CPU; `plugin-tests/gpu.sh` does it on
//! a GPU.
#![cfg(target_arch = "x86_64")]

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use plugin_tests::{LIBRARY_NAME, Python, Sandbox, crate_folder, emulated_driver, succeed};

#[test]
fn arrays_in_a_gpus_memory_make_the_same_files() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(Python::Hdf5_2_0.interpreter());
    command.arg(crate_folder().join("py/resident.py")).arg(sandbox.plugin_folder().join(LIBRARY_NAME)).arg(sandbox.path("."));
    let report = succeed(command.arg("few").env("LD_LIBRARY_PATH", emulated_driver()));
    println!("{}", report.stdout);
}

/// A folder with a driver that fails, before the emulated one.
fn failing_driver(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.path("driver");
    std::fs::create_dir(&folder).expect("a folder");
    let (driver, real) = (folder.join("libcuda.so.1"), folder.join("libcuda_real.so"));
    // The driver's other half is linked by its name alone.
    let mut command = sandbox.command("cc");
    let _ = succeed(command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda_real.so", "-x", "c", "/dev/null", "-o"]).arg(&real));
    let mut command = sandbox.command("cc");
    command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]).arg(crate_folder().join("c/failing_cuda.c"));
    let _ = succeed(command.arg("-Wl,--no-as-needed").arg(&real).arg("-o").arg(&driver).arg("-ldl"));
    std::fs::remove_file(&real).expect("a file");
    symlink(emulated_driver().join("libcuda.so.1"), real).expect("a link");
    symlink("libcuda.so.1", folder.join("libcuda.so")).expect("a link");
    folder
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
