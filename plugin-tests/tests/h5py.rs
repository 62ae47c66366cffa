//! h5py as users have it: wheels with an HDF5 of their own, and Debian's package.

use plugin_tests::{Python, Sandbox, assert_says, succeed};

const VERSION: [&str; 2] = ["-c", "import h5py; print(h5py.version.hdf5_version)"];

#[test]
fn each_python_has_the_hdf5_that_it_is_meant_to_test() {
    let sandbox = Sandbox::new();
    let version = |python: Python| succeed(sandbox.command(python.interpreter()).args(VERSION)).stdout.trim().to_owned();
    assert!(version(Python::Hdf5_2_0).starts_with("2.0."), "HDF5 {}", version(Python::Hdf5_2_0));
    assert!(version(Python::Hdf5_1_14).starts_with("1.14."), "HDF5 {}", version(Python::Hdf5_1_14));
    // Debian's h5py shares HDF5 with Debian's tools, whatever the release.
    assert_says(&succeed(sandbox.command("h5dump").arg("--version")), &[&version(Python::Debian)]);
}

#[test]
fn every_python_reads_what_every_python_wrote() {
    let sandbox = Sandbox::new();
    for writer in Python::ALL {
        let file = sandbox.path(&format!("{writer:?}.h5"));
        let _ = succeed(sandbox.python(writer, "round_trip.py").arg("write").arg(&file));
        for reader in Python::ALL {
            let report = succeed(sandbox.python(reader, "round_trip.py").arg("check").arg(&file));
            println!("written by {writer}, read by {}", report.stdout.trim());
        }
    }
}

#[test]
fn rows_written_one_by_one_do_not_drift() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "rewrite.py").arg("rows").arg(sandbox.path("")));
    }
}

#[test]
fn settings_can_be_used_again() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "rewrite.py").arg("settings").arg(sandbox.path("")));
    }
}

#[test]
fn a_given_fill_value_is_kept_where_there_is_no_other() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "rewrite.py").arg("fills").arg(sandbox.path("")));
    }
}

#[test]
fn fill_values_come_back_bit_for_bit() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "fill_value.py").arg(sandbox.path("")));
        println!("{}", report.stdout.trim());
    }
}

#[test]
fn every_bound_holds_in_every_type() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "bounds.py").arg(sandbox.path("bounds.h5")));
        println!("{}", report.stdout.trim());
    }
}

#[test]
fn values_in_bricks_have_the_streams_of_their_boxes() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let file = sandbox.path(&format!("{python:?}.h5"));
        let _ = succeed(sandbox.python(python, "bricks.py").arg("write").arg(&file));
        println!("{}", succeed(sandbox.python(python, "bricks.py").arg("check").arg(&file)).stdout.trim());
    }
}

#[test]
fn complex_numbers_keep_their_bounds_and_enumerations_their_names() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "pairs_and_names.py").arg(sandbox.path("names.h5")));
        println!("{}", report.stdout.trim());
    }
}

#[test]
fn refusals_name_the_problem() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "refusals.py").arg(sandbox.path("refusals.h5")));
    }
}

#[test]
fn a_process_that_only_reads_finds_the_plugin() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file.h5");
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "round_trip.py").arg("write").arg(&file));
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "processes.py").arg("reader").arg(&file));
    }
}

#[test]
fn threads_and_forked_children_read_and_write() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let file = sandbox.path(&format!("{python:?}.h5"));
        let _ = succeed(sandbox.python(python, "round_trip.py").arg("write").arg(&file));
        let _ = succeed(sandbox.python(python, "processes.py").arg("threads").arg(&file));
        let _ = succeed(sandbox.python(python, "processes.py").arg("fork").arg(&file));
    }
}
