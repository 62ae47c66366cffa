//! Whole arrays through the Python package, past HDF5's filter pipeline, against h5py's own path.

use plugin_tests::{Python, Sandbox, assert_says, succeed};

/// Runs a part of `whole_arrays.py` with every h5py.
fn run(part: &str, says: &str) {
    for python in Python::ALL {
        let sandbox = Sandbox::new();
        let packages = sandbox.install_package();
        let report =
            succeed(sandbox.python(python, "whole_arrays.py").arg(part).arg(sandbox.path("")).env("PYTHONPATH", packages));
        println!("{python}: {}", report.stdout.trim());
        assert_says(&report, &[says]);
    }
}

#[test]
fn chunks_are_those_of_h5pys_own_path() {
    run("same", "the chunks are the same");
}

#[test]
fn values_are_those_of_h5pys_own_path_whatever_the_file() {
    run("read", "the values are the same");
}

#[test]
fn the_chunk_cache_neither_loses_values_nor_shows_old_ones() {
    run("cache", "the cache is heeded");
}

#[test]
fn h5pys_indexing_goes_this_way_inside_a_block() {
    run("parallel", "h5py's indexing gives the same");
}

#[test]
fn refusals_name_the_problem() {
    run("refusals", "refusals name the problem");
}

#[test]
fn faults_are_errors_and_files_stay_whole() {
    run("faults", "faults are errors");
}

#[test]
fn threads_do_not_disturb_each_other() {
    run("threads", "threads do not disturb each other");
}

/// The driver is gpu/emulator's, whose GPU is the CPU; `plugin-tests/gpu.sh` does it on a GPU, with the libraries that are there.
#[test]
#[cfg(target_arch = "x86_64")]
fn arrays_in_a_gpus_memory_give_the_same() {
    let sandbox = Sandbox::new();
    let packages = sandbox.install_package();
    let mut command = sandbox.python(Python::Hdf5_2_0, "whole_arrays.py");
    command.arg("resident").arg(sandbox.path("")).env("PYTHONPATH", packages);
    let report = succeed(command.env("LD_LIBRARY_PATH", plugin_tests::emulated_driver()));
    println!("{}", report.stdout.trim());
    assert!(
        ["arrays in a GPU's memory give the same", "skipped: this build has no GPU kernels"]
            .iter()
            .any(|text| report.stdout.contains(text))
    );
}
