//! The sample files of every format version, and a decoder that shares no code with the plugin.

use std::path::PathBuf;

use plugin_tests::{Python, Sandbox, assert_says, repository, succeed};

/// `h5-samples/v*.h5`, in order.
fn samples() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("h5-samples")).expect("no folder h5-samples");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("unreadable entry").path()).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('v') && name.ends_with(".h5")
    });
    files.sort();
    files
}

#[test]
fn every_sample_reads_within_its_bound_and_the_python_decoder_agrees() {
    let files = samples();
    assert!(!files.is_empty(), "there is no sample h5-samples/v*.h5");
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "samples.py").args(&files));
        println!("{}", report.stdout);
    }
}

#[test]
fn samples_have_every_value_of_every_dimension() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "sampling.py").arg("check"));
        assert!(report.stdout.contains("samples have every value"), "{}", report.stdout);
    }
}

#[test]
fn the_python_decoder_and_the_plugin_agree_on_whatever_they_are_given() {
    let sandbox = Sandbox::new();
    let report = succeed(&mut sandbox.python(Python::Hdf5_2_0, "decoder_matrix.py"));
    println!("{}", report.stdout);
    assert!(report.stdout.contains(" 0 disagreements with"), "{}", report.stdout);
}

#[test]
fn the_python_decoder_agrees_with_the_table_of_streams() {
    let sandbox = Sandbox::new();
    let folder = repository().join("streams");
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "streams.py").arg(&folder));
        assert_says(&report, &[" faulty; 0 disagreements"]);
        // The table has what the scripts make of the streams today, and no file is missing.
        let report = succeed(sandbox.python(python, "write_streams.py").arg(&folder).arg("--check"));
        assert_says(&report, &[" 0 of them missing; the table is as it should be"]);
    }
}
