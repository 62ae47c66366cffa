//! Every chunk index of HDF5, with chunks missing: all readers find each chunk where h5py finds it.

use plugin_tests::{Python, Sandbox, assert_says, command_line, succeed};

/// Runs a part of `chunk_indices.py` on this HDF5.
fn run(sandbox: &Sandbox, python: Python, part: &str, environment: &[(&str, &str)], says: &str) {
    let packages = sandbox.install_package();
    let mut command = sandbox.python(python, "chunk_indices.py");
    command.arg(part).arg(sandbox.path("")).env("PYTHONPATH", packages).envs(environment.iter().copied());
    if part == "quire" {
        command.arg(command_line());
    }
    let report = succeed(&mut command);
    println!("{python}: {}", report.stdout.trim());
    assert_says(&report, &[says]);
}

/// The functions of the package, of C, and the command line.
fn all_readers(python: Python) {
    let (sandbox, cpu) = (Sandbox::new(), [("QUIRE_BACKEND", "cpu")]);
    run(&sandbox, python, "matrix", &cpu, "are read as h5py reads them");
    run(&sandbox, python, "quire", &cpu, "the command line reads them as h5py reads them");
}

#[test]
fn chunks_are_where_h5py_finds_them_hdf5_1_10() {
    all_readers(Python::Debian);
}

#[test]
fn chunks_are_where_h5py_finds_them_hdf5_1_14() {
    all_readers(Python::Hdf5_1_14);
}

#[test]
fn chunks_are_where_h5py_finds_them_hdf5_2_0() {
    all_readers(Python::Hdf5_2_0);
}

/// Also into a GPU's memory: the driver is gpu/emulator's, whose GPU is the CPU.
#[test]
#[cfg(target_arch = "x86_64")]
fn chunks_are_where_h5py_finds_them_in_a_gpus_memory() {
    let driver = plugin_tests::emulated_driver();
    let environment = [("LD_LIBRARY_PATH", driver.to_str().expect("a path in UTF-8"))];
    run(&Sandbox::new(), Python::Hdf5_2_0, "resident", &environment, "a GPU's memory");
}

#[test]
fn many_chunks_take_time_in_proportion() {
    for python in Python::ALL {
        run(&Sandbox::new(), python, "many", &[("QUIRE_BACKEND", "cpu")], "in proportion");
    }
}
