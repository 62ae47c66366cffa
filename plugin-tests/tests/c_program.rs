//! A C program built with h5cc.

use std::path::{Path, PathBuf};

use plugin_tests::{LIBRARY_NAME, Python, Sandbox, assert_says, crate_folder, end_in_order, repository, succeed};

/// One dataset of each type and rank is enough to see that the program came through.
const DATASETS: [&str; 5] = ["f32_little_rank1", "f32_big_rank2", "f64_little_rank3", "f64_big_rank4", "f64_big_rank5"];

/// Compiles `round_trip.c`, linked as the option says.
fn build(sandbox: &Sandbox, linked: &str) -> PathBuf {
    compile(sandbox, &crate_folder().join("c/round_trip.c"), linked)
}

fn compile(sandbox: &Sandbox, source: &Path, linked: &str) -> PathBuf {
    let program = sandbox.path(&format!("program{linked}"));
    let mut command = sandbox.command("h5cc");
    let _ = succeed(command.args([linked, "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source).arg("-lm"));
    program
}

fn write(sandbox: &Sandbox, file: &Path) {
    let report = succeed(sandbox.command(build(sandbox, "-shlib")).arg("write").arg(file));
    println!("{}", report.stdout);
    assert_says(&report, &DATASETS);
    assert_says(&report, &["refusal: its reason is on the error stack"]);
}

#[test]
fn a_c_program_writes_reads_and_copies_chunks() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("c.h5");
    write(&sandbox, &file);
    // h5py reads the same file: value 0 is a NaN, value 1 is 10 sin(0.01) + cos(0.2).
    let script = "import h5py, sys; x = h5py.File(sys.argv[1])['f32_big_rank2'][0, :2]; assert x[0] != x[0] and abs(x[1] - 1.08) < 0.02, x";
    for python in Python::ALL {
        let _ = succeed(sandbox.command(python.interpreter()).args(["-c", script]).arg(&file));
    }
}

#[test]
fn the_example_of_the_documents_runs_and_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, &repository().join("docs/example.c"), "-shlib");
    let file = sandbox.path("example.h5");
    assert_says(&succeed(sandbox.command(&program).arg(&file)), &["ratio ", "within the bound of 0.001"]);
    let lost = end_in_order(sandbox.command(&program).arg(&file).env("HDF5_PLUGIN_PATH", "/nowhere"));
    assert_says(&lost, &["finding the filter (is HDF5_PLUGIN_PATH set?) failed"]);
}

#[test]
fn the_example_of_whole_arrays_runs() {
    let sandbox = Sandbox::new();
    let (program, folder) = (sandbox.path("arrays"), sandbox.plugin_folder());
    let mut compiler = sandbox.command("h5cc");
    compiler.args(["-shlib", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    compiler.arg("-I").arg(repository().join("filter/include")).arg(repository().join("docs/example_arrays.c"));
    compiler.arg("-L").arg(&folder).arg(format!("-l:{LIBRARY_NAME}")).arg(format!("-Wl,-rpath,{}", folder.display())).arg("-lm");
    let _ = succeed(&mut compiler);
    let file = sandbox.path("arrays.h5");
    let report = succeed(sandbox.command(&program).arg(&file));
    assert_says(&report, &["20 chunks, ratio ", "within the bound of 0.001"]);
    // Chunks at the edge that the file did not have are no errors, and HDF5 has not said so.
    assert_eq!(report.stderr, "");
    // Readers that know nothing of the library but the plugin.
    let h5dump = succeed(sandbox.command("h5dump").args(["-d", "field", "-s", "0,0,0", "-c", "1,1,2"]).arg(&file));
    assert_says(&h5dump, &["(0,0,0): 0, 0.05"]);
    let script = "import netCDF4, sys; x = netCDF4.Dataset(sys.argv[1])['field'][0, 0, :2]; assert abs(x[1] - 0.05) < 0.002, x";
    let _ = succeed(sandbox.command(Python::Hdf5_2_0.interpreter()).args(["-c", script]).arg(&file));
    let script = "import h5py, sys; x = h5py.File(sys.argv[1])['field'][0, 0, :2]; assert abs(x[1] - 0.05) < 0.002, x";
    for python in Python::ALL {
        let _ = succeed(sandbox.command(python.interpreter()).args(["-c", script]).arg(&file));
    }
}

#[test]
fn a_program_with_hdf5_linked_in_reads_and_says_why_it_cannot_write() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("c.h5");
    write(&sandbox, &file);
    // Such a program exports none of HDF5's functions. Decoding needs none of them.
    let program = build(&sandbox, "-noshlib");
    assert_says(&succeed(sandbox.command(&program).arg("read").arg(&file)), &DATASETS);
    let refusal = end_in_order(sandbox.command(&program).arg("write").arg(sandbox.path("refused.h5")));
    assert_says(&refusal, &["H5Z-Quire", "shared", "failed: dataset >= 0"]);
}
