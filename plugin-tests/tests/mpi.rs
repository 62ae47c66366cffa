//! Processes of an MPI job that use one file together.

use std::process::Command;

use plugin_tests::{LIBRARY_NAME, Python, Sandbox, assert_says, crashes, crate_folder, end_with, repository, succeed};

/// What `mpi_faults.py` gives to `MPI_Abort`.
const ABORTED: i32 = 1;

/// The beginning of a command that runs a program in two processes, and ends them where they hang.
fn mpirun(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.command("mpirun");
    // A container may forbid what Open MPI uses between processes of one machine; it then only warns.
    command.args(["--allow-run-as-root", "--oversubscribe", "--timeout", "60", "-n", "2"]);
    command
}

/// A command that runs a script of `py/` in two processes.
fn two_processes(sandbox: &Sandbox, script: &str) -> Command {
    let mut command = mpirun(sandbox);
    command.arg(Python::Debian.interpreter()).arg(crate_folder().join("py").join(script));
    command
}

/// A command in which one process, or both, meets an error.
fn faults(sandbox: &Sandbox, case: &str) -> Command {
    let mut command = two_processes(sandbox, "mpi_faults.py");
    command.arg(case).arg(sandbox.path("faults.h5"));
    command
}

#[test]
fn two_processes_write_collectively() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("mpi.h5");
    let report = succeed(two_processes(&sandbox, "mpi_collective.py").arg(&file));
    println!("{}", report.stdout);
    assert_says(&report, &["process 0 of 2", "process 1 of 2"]);
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "round_trip.py").arg("check").arg(&file));
    }
}

#[test]
fn each_process_reads_whole_arrays_and_is_told_how_to_write() {
    let sandbox = Sandbox::new();
    let packages = sandbox.install_package();
    let mut command = two_processes(&sandbox, "mpi_whole_arrays.py");
    let report = succeed(command.arg(sandbox.path("mpi.h5")).env("PYTHONPATH", packages));
    assert_says(&report, &["process 0 of 2 read its boxes", "process 1 of 2 read its boxes"]);
}

#[test]
fn what_all_processes_refuse_is_an_error_in_each() {
    let report = succeed(&mut faults(&Sandbox::new(), "refused"));
    assert_says(&report, &["process 0: refused", "process 1: refused", "process 0: went on", "process 1: went on"]);
    // Each rank prints why: its program may wait for the others before it does.
    let lines =
        report.stderr.lines().filter(|line| line.starts_with("H5Z-Quire: ") && line.contains("absolute error bound is NaN"));
    assert_eq!(lines.count(), 2, "{}", report.stderr);
}

#[test]
fn what_one_process_refuses_ends_the_job() {
    let reasons = [
        ("bound", "absolute error bound is NaN"),
        ("type", "the dataset's elements are strings"),
        ("environment", "QUIRE_CODEBOOK=unknown is unknown"),
    ];
    for (case, reason) in reasons {
        assert_says(&end_with(ABORTED, &mut faults(&Sandbox::new(), case)), &[reason]);
    }
}

/// The functions of the document that end a job: h5py closes the file when a program leaves its `with`, and that would wait for the others.
#[test]
fn what_one_process_refuses_ends_the_job_as_the_document_says() {
    let sandbox = Sandbox::new();
    let reason = ["QUIRE_CODEBOOK=unknown is unknown"];
    let document = repository().join("docs/mpi.md");
    assert_says(&end_with(ABORTED, faults(&sandbox, "document").arg(document)), &reason);
    let (program, block) = (sandbox.path("end_job"), c_block_of_the_document("end_job_on_errors"));
    std::fs::write(sandbox.path("mpi_end_job_of_the_document.h"), block).expect("the block cannot be written");
    let mut compiler = compiler_of_parallel_hdf5(&sandbox);
    let _ = succeed(compiler.arg("-I.").arg(crate_folder().join("c/mpi_end_job.c")).arg("-o").arg(&program).args(PARALLEL_HDF5));
    let report = end_with(ABORTED, mpirun(&sandbox).arg(&program).arg(sandbox.path("end_job.h5")));
    assert_says(&report, &reason);
    assert!(!report.stdout.contains("rank 1"), "{}", report.stdout);
}

#[test]
fn data_of_one_process_are_never_refused() {
    let sandbox = Sandbox::new();
    let report = succeed(two_processes(&sandbox, "mpi_hard_data.py").arg(sandbox.path("hard.h5")));
    assert_says(&report, &["process 0: 770 chunks were taken", "process 1: 770 chunks were taken"]);
}

/// Also where the filter is optional: HDF5 1.10 would write the chunk without the mark that the filter has not seen it.
#[test]
fn a_chunk_that_one_process_has_no_memory_to_compress_is_stored() {
    for case in ["mandatory", "optional", "pairs"] {
        let sandbox = Sandbox::new();
        let report = succeed(faults(&sandbox, case).env("QUIRE_BACKEND", "cpu"));
        assert_says(&report, &["no memory for ", " bytes of a chunk: ", "; the chunk is stored uncompressed"]);
        assert_says(&report, &["process 0: has read", "process 1: has read"]);
    }
}

/// The process can create no further dataset, which ends the job.
#[cfg(target_arch = "x86_64")]
#[test]
fn chunks_that_the_gpu_of_one_process_fails_on_are_stored() {
    let sandbox = Sandbox::new();
    let driver = plugin_tests::failing_driver(&sandbox);
    let mut command = faults(&sandbox, "gpu");
    command.env("LD_LIBRARY_PATH", driver).env("QUIRE_TEST_LAUNCHES", "1000000");
    command.envs([("QUIRE_BACKEND", "cuda"), ("QUIRE_LOG", "1"), ("QUIRE_DEVICE", "0")]);
    let report = end_with(ABORTED, &mut command);
    assert_says(&report, &["compress on cuda:0", "process 0: has written", "process 1: has written", "process 0: has read all"]);
    let failure = "QUIRE_BACKEND=cuda, but launching the kernels: CUDA_ERROR_LAUNCH_FAILED";
    assert_says(&report, &[failure, "; the chunk is stored uncompressed"]);
    assert_says(&report, &["ValueError: Unable to create dataset (H5Z-Quire: QUIRE_BACKEND=cuda, but the GPU failed earlier"]);
}

#[test]
fn a_damaged_chunk_is_an_error_in_the_process_that_reads_it() {
    let report = end_with(ABORTED, &mut faults(&Sandbox::new(), "damaged"));
    let damaged = "(H5Z-Quire: stream is damaged";
    assert_says(&report, &["process 0: has read", &format!("process 1: cannot read: Can't read data {damaged}")]);
    // It is read before a part of it is changed.
    assert_says(&report, &[&format!("OSError: Can't write data {damaged}")]);
}

#[test]
fn a_write_that_fails_in_one_process_fails_in_each() {
    let report = succeed(&mut faults(&Sandbox::new(), "limit"));
    for process in ["process 0", "process 1"] {
        assert_says(&report, &[&format!("{process}: was told: process 1: Can't write data"), &format!("{process}: went on")]);
    }
}

#[test]
fn a_process_that_dies_ends_the_job() {
    let (was_killed, report) = crashes(&mut faults(&Sandbox::new(), "dies"));
    assert!(was_killed, "{}", report.stderr);
    assert_says(&report, &["exited on signal 9 (Killed)"]);
}

/// Debian's parallel HDF5, which its h5py with MPI brings without headers. Those of the serial HDF5 are of one version with it, and declare what is parallel
/// where they are told that it is.
const PARALLEL_HDF5: [&str; 2] = ["-DH5_HAVE_PARALLEL=1", "-l:libhdf5_openmpi.so.103"];

fn compiler_of_parallel_hdf5(sandbox: &Sandbox) -> Command {
    let headers = succeed(sandbox.command("pkg-config").args(["--cflags", "hdf5-serial"]));
    let mut compiler = sandbox.command("mpicc");
    compiler.args(["-Wall", "-Wextra", "-Werror"]).args(headers.stdout.split_whitespace());
    compiler
}

/// The block of C in docs/mpi.md that defines a function.
fn c_block_of_the_document(function: &str) -> String {
    let document = std::fs::read_to_string(repository().join("docs/mpi.md")).expect("docs/mpi.md cannot be read");
    let mut blocks = document.split("\n```c\n").skip(1).filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block);
    let block = blocks.find(|block| block.contains(&format!(" {function}(")));
    format!("{}\n", block.unwrap_or_else(|| panic!("docs/mpi.md has no function {function}")))
}

#[test]
fn the_example_of_the_document_writes_collectively_and_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let program = sandbox.path("example_mpi");
    let mut compiler = compiler_of_parallel_hdf5(&sandbox);
    compiler.arg(repository().join("docs/example_mpi.c")).arg("-o").arg(&program);
    let _ = succeed(compiler.args(PARALLEL_HDF5).arg("-lm"));
    let file = sandbox.path("example_mpi.h5");
    let report = succeed(mpirun(&sandbox).arg(&program).arg(&file));
    assert_says(&report, &["rank 0 of 2: ratio ", "rank 1 of 2: ratio ", "within the bound of 0.001"]);
    // The file is one for every program.
    let h5dump = succeed(sandbox.command("h5dump").args(["-d", "field", "-s", "64,0,0", "-c", "1,1,2"]).arg(&file));
    assert_says(&h5dump, &["(64,0,0): 0.034, 0.084"]);
    let lost = end_with(ABORTED, mpirun(&sandbox).arg(&program).arg(&file).env("HDF5_PLUGIN_PATH", "/nowhere"));
    assert_says(&lost, &["finding the filter (is HDF5_PLUGIN_PATH set for this rank?) failed"]);
}

#[test]
fn the_c_functions_of_the_document_send_an_array() {
    let sandbox = Sandbox::new();
    let block = c_block_of_the_document("receive_cube");
    std::fs::write(sandbox.path("mpi_messages_of_the_document.h"), block).expect("the block cannot be written");
    let (program, plugins) = (sandbox.path("messages"), sandbox.plugin_folder());
    let mut compiler = sandbox.command("mpicc");
    compiler
        .args(["-Wall", "-Wextra", "-Werror", "-I."])
        .arg("-I")
        .arg(repository().join("filter/include"))
        .arg("-o")
        .arg(&program);
    compiler.arg(crate_folder().join("c/mpi_messages.c")).arg("-L").arg(&plugins).arg(format!("-l:{LIBRARY_NAME}"));
    let _ = succeed(compiler.arg(format!("-Wl,-rpath,{}", plugins.display())).arg("-lm"));
    assert_says(&succeed(mpirun(&sandbox).arg(&program)), &["received, largest error", "within the bound of 0.001"]);
    assert_says(&end_with(ABORTED, mpirun(&sandbox).arg(&program).arg("abs=much")), &["abs=much"]);
}

#[test]
fn the_python_functions_of_the_document_send_and_gather_arrays() {
    let sandbox = Sandbox::new();
    let packages = sandbox.install_package();
    let mut command = two_processes(&sandbox, "mpi_messages.py");
    let report = succeed(command.arg(repository().join("docs/mpi.md")).env("PYTHONPATH", packages));
    assert_says(&report, &["process 0 of 2: the bound holds", "process 1 of 2: the bound holds"]);
}
