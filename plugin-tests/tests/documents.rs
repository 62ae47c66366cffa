//! The documents: their lint, and their code blocks.

use plugin_tests::{Python, Sandbox, assert_says, command_line, end_with, repository, succeed};

/// Any Python with h5py does.
const PYTHON: Python = Python::Hdf5_2_0;

#[test]
fn the_lint_finds_no_fault() {
    let sandbox = Sandbox::new();
    println!("{}", succeed(sandbox.python(PYTHON, "documents.py").arg("lint")).stdout);
}

#[test]
fn the_lint_finds_faults_that_are_put_into_a_copy() {
    let sandbox = Sandbox::new();
    println!("{}", succeed(sandbox.python(PYTHON, "documents_faults.py").arg(repository()).arg(sandbox.path("copy"))).stdout);
}

#[test]
fn blocks_of_the_documents_run() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("reader");
    std::fs::create_dir(&folder).expect("no folder for the reader's files");
    let mut command = sandbox.python(PYTHON, "documents.py");
    command.arg("run").arg(&folder).arg("--plugins").arg(sandbox.plugin_folder()).arg("--quire").arg(command_line());
    let report = succeed(&mut command);
    // h5dump and ncdump show the filter; quire and the C program say that the bound held.
    assert_says(
        &report,
        &["FILTER_ID 33791", "_Filter = \"33791,1,3539053052", "the filter works here", "verified: repacked.h5"],
    );
    assert_says(&report, &["within the bound of 0.001"]);
}

#[test]
fn a_block_that_fails_is_named() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("reader");
    std::fs::create_dir(&folder).expect("no folder for the reader's files");
    // Without the plugin the README's first block cannot work.
    let nothing = sandbox.path("nothing");
    std::fs::create_dir(&nothing).expect("no folder without a plugin");
    let mut command = sandbox.python(PYTHON, "documents.py");
    command.arg("run").arg(&folder).arg("--plugins").arg(&nothing).arg("--quire").arg(command_line());
    assert_says(&end_with(1, &mut command), &["the block at README.md:", "no folder of HDF5's has libh5zquire.so"]);
}
