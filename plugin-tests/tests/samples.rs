//! The sample files of every format version, and a decoder that shares no code with the plugin.

use std::path::PathBuf;

use plugin_tests::{Python, Sandbox, repository, succeed};

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
