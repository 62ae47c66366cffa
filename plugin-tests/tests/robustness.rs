//! What the library links, full disks.

use std::path::Path;
use std::process::Command;

use plugin_tests::{LIBRARY_NAME, Python, Sandbox, assert_says, command_line, crashes, crate_folder, plugin_library, succeed};

#[test]
fn the_library_links_no_hdf5_and_no_cuda_and_stays_loaded() {
    let sandbox = Sandbox::new();
    let dynamic = succeed(sandbox.command("readelf").arg("-dW").arg(plugin_library())).stdout;
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        for library in ["hdf5", "cuda", "nvrtc"] {
            assert!(!line.contains(library), "the plugin needs a library that its users may not have: {line}");
        }
    }
    let flags = dynamic.lines().find(|line| line.contains("(FLAGS_1)")).unwrap_or_default();
    assert!(flags.contains("NODELETE"), "the plugin can be unloaded while its threads run: {dynamic}");
}

#[test]
fn the_library_exports_the_plugin_calls_and_its_c_api_alone() {
    let sandbox = Sandbox::new();
    let symbols = |which: &str| {
        let report = succeed(sandbox.command("nm").args(["-D", which]).arg(plugin_library()));
        let names = report.stdout.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned);
        names.collect::<Vec<String>>()
    };
    let mut exported = symbols("--defined-only");
    exported.sort();
    // The header is what C programs and the Python package go by.
    let header = include_str!("../../filter/include/h5z_quire.h");
    let declared = header.lines().filter_map(|line| line.strip_prefix("int ").or_else(|| line.strip_prefix("void ")));
    let mut expected: Vec<&str> = declared.filter_map(|line| line.split('(').next()).collect();
    assert_eq!(expected.len(), 19, "{expected:?}");
    expected.extend(["H5PLget_plugin_info", "H5PLget_plugin_type"]);
    expected.sort();
    assert_eq!(exported, expected);
    // An H5 function that the loader has to find would come from whichever HDF5 was loaded globally, or from none.
    let wanted: Vec<String> = symbols("--undefined-only").into_iter().filter(|name| name.starts_with("H5")).collect();
    assert!(wanted.is_empty(), "the plugin waits for {wanted:?} to be loaded");
}

#[test]
fn a_killed_writer_leaves_what_it_had_flushed() {
    for python in Python::ALL {
        let sandbox = Sandbox::new();
        let report = succeed(sandbox.python(python, "killed.py").arg(sandbox.path("killed.h5")));
        println!("{}", report.stdout.trim());
    }
}

#[test]
fn the_bound_holds_in_any_floating_point_mode() {
    for python in Python::ALL {
        let sandbox = Sandbox::new();
        let report = succeed(sandbox.python(python, "float_environment.py").arg(sandbox.path("")));
        println!("{}", report.stdout.trim());
    }
}

#[test]
fn a_stream_that_wants_too_much_memory_is_an_error() {
    for python in Python::ALL {
        let sandbox = Sandbox::new();
        let report = succeed(sandbox.python(python, "memory.py").arg(sandbox.path("")));
        assert_says(&report, &["no memory for"]);
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    for python in Python::ALL {
        check_full(python, |sandbox| {
            let mut command = sandbox.python(python, "full_disk.py");
            command.arg("limit").arg(sandbox.path(""));
            command
        });
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let sandbox = Sandbox::new();
    let Some(namespace) = mounting_namespace(&sandbox, &sandbox.path("")) else {
        // The limit on file sizes tests the same path through HDF5.
        println!("no disk can be mounted here: the kernel forbids it");
        return;
    };
    for python in Python::ALL {
        check_full(python, |sandbox| {
            let disk = sandbox.path("disk");
            std::fs::create_dir(&disk).expect("no folder to mount the disk on");
            let script = crate_folder().join("py/full_disk.py");
            let mut command = sandbox.command("unshare");
            // The mount is seen by this command alone and goes with it.
            command.args(namespace).args(["sh", "-c", MOUNT_AND_RUN, "sh"]).arg(&disk);
            command.arg(python.interpreter()).arg(script).arg("disk").arg(&disk);
            command
        });
    }
}

/// Runs `full_disk.py` by the command that `prepare` makes. HDF5 1.10.8 crashes as the process ends after it has failed to write,
/// whatever the filter; only a crash that it has with no filter as well is forgiven, and only after the script is through.
fn check_full(python: Python, prepare: impl Fn(&Sandbox) -> Command) {
    let (ours, without) = (Sandbox::new(), Sandbox::new());
    let (crashed, report) = crashes(&mut prepare(&ours));
    println!("{python}: {}", report.stdout);
    assert_says(&report, &["the write said", "still running"]);
    if crashed {
        let (crashes_anyway, _) = crashes(prepare(&without).arg("unfiltered"));
        assert!(crashes_anyway, "{python}: crashed at exit, and without our filter it does not: {}", report.stderr);
        println!("{python}: HDF5 crashes at exit, with and without our filter");
    }
}

const MOUNT_AND_RUN: &str = r#"mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@""#;

/// Options of `unshare` under which a disk can be mounted here: as root, or as root of a user namespace.
fn mounting_namespace(sandbox: &Sandbox, disk: &Path) -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    ways.into_iter().find(|way| {
        let mut command = sandbox.command("unshare");
        command.args(*way).args(["sh", "-c", MOUNT_AND_RUN, "sh"]).arg(disk).arg("true");
        command.output().is_ok_and(|output| output.status.success())
    })
}

#[test]
fn an_address_space_that_is_used_up_is_an_error() {
    for python in Python::ALL {
        let sandbox = Sandbox::new();
        let report = succeed(sandbox.python(python, "address_space.py").arg(sandbox.path("")));
        println!("{}", report.stdout.trim());
    }
}

/// The standard library takes the stack of a thread from the environment, unless the thread asks for one. Too little ends the process with SIGSEGV.
#[test]
fn threads_have_a_stack_whatever_the_environment_says() {
    let sandbox = Sandbox::new();
    let packages = sandbox.install_package();
    let run = |command: &mut Command| succeed(command.env("RUST_MIN_STACK", "20000"));
    let _ = run(sandbox.python(Python::Hdf5_2_0, "round_trip.py").arg("write").arg(sandbox.path("filter.h5")));
    let mut whole_arrays = sandbox.python(Python::Hdf5_2_0, "whole_arrays.py");
    let _ = run(whole_arrays.arg("same").arg(sandbox.path("")).env("PYTHONPATH", packages));
    let _ = run(sandbox.python(Python::Hdf5_2_0, "repack_jobs.py").args(["make", "in.h5"]));
    for arguments in [
        &["repack", "in.h5", "out.h5", "--abs", "1e-3"][..],
        &["verify", "in.h5", "out.h5"],
        &["inspect", "out.h5"],
        &["estimate", "in.h5", "--abs", "1e-3"],
        &["train", "in.h5", "--options", "abs=1e-3", "--output", "out.books"],
    ] {
        let _ = run(sandbox.command(command_line()).args(arguments).envs([("QUIRE_THREADS", "4"), ("QUIRE_BACKEND", "cpu")]));
    }
}

/// A small `RUST_MIN_STACK` harms no threads that open a GPU, copy to it, or take arrays in its memory. The driver is gpu/emulator's.
#[test]
#[cfg(target_arch = "x86_64")]
fn threads_for_a_gpu_have_a_stack_whatever_the_environment_says() {
    let sandbox = Sandbox::new();
    let library = sandbox.plugin_folder().join(LIBRARY_NAME);
    for (script, arguments) in
        [("gpu_checks.py", &["auto_takes"][..]), ("resident.py", &[sandbox.path("").to_str().expect("a path"), "few"])]
    {
        let mut command = sandbox.python(Python::Hdf5_2_0, script);
        command.arg(&library).args(arguments).env("LD_LIBRARY_PATH", plugin_tests::emulated_driver());
        let _ = succeed(command.env("RUST_MIN_STACK", "20000").env("QUIRE_REQUIRE_CUDA", "1"));
    }
}
