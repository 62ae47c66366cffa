//! Which processor does the work, and what is said of it, on a machine without a GPU or with one that is hidden.
//! `gpu.sh` is the other half.

use std::path::{Path, PathBuf};
use std::process::Command;

use plugin_tests::{Python, Report, Sandbox, assert_says, crate_folder, end_in_order, succeed};

/// The two parts of the message about small chunks. Between them is the number of bytes from which on chunks go to a GPU.
const SMALL: [&str; 2] = ["on the CPU: chunks below ", " bytes are no gain for the GPU"];

/// Has the GPU opened before the first chunk: `auto` waits for some work, which `sharing.rs` tests.
const OPEN: (&str, &str) = ("QUIRE_TEST_OPEN", "1");

/// `backend.py`, with no setting but `settings`.
fn client(sandbox: &Sandbox, python: Python, settings: &[(&str, &str)]) -> Command {
    let mut command = sandbox.python(python, "backend.py");
    for name in ["QUIRE_BACKEND", "QUIRE_DEVICE", "QUIRE_LOG", "QUIRE_CODEBOOK"] {
        command.env_remove(name);
    }
    command.env("CUDA_VISIBLE_DEVICES", "").envs(settings.iter().copied());
    command
}

/// Why a process that `client` starts has no GPU.
fn reason(sandbox: &Sandbox) -> &'static str {
    let libraries = succeed(sandbox.command("/sbin/ldconfig").arg("-p"));
    if libraries.stdout.contains("libcuda.so") {
        "CUDA_ERROR_NO_DEVICE"
    } else {
        "there is no NVIDIA driver: libcuda.so is not found"
    }
}

fn write(sandbox: &Sandbox, python: Python) -> PathBuf {
    let file = sandbox.path(&format!("{python:?}.h5"));
    assert_says(&succeed(client(sandbox, python, &[]).arg("write").arg(&file)), &["write: done"]);
    file
}

fn assert_silent(report: &Report, words: &str) {
    assert!(!report.stdout.contains(words) && !report.stderr.contains(words), "\"{words}\" was said: {report:?}");
}

#[test]
fn without_a_gpu_the_cpu_works_and_the_log_says_why() {
    let sandbox = Sandbox::new();
    let reason = format!("on the CPU: {}", reason(&sandbox));
    for python in Python::ALL {
        let file = write(&sandbox, python);
        let quiet = succeed(client(&sandbox, python, &[]).arg("read").arg(&file));
        assert_says(&quiet, &["read: done"]);
        assert_silent(&quiet, "H5Z-Quire");
        for (what, direction) in [("write", "compress"), ("read", "decompress")] {
            let report = succeed(client(&sandbox, python, &[("QUIRE_LOG", "1"), OPEN]).arg(what).arg(&file));
            assert_says(&report, &["done"]);
            // 1024 small chunks, then 2 large ones: a line each time that something changes.
            let lines: Vec<&str> = report.stderr.lines().filter(|line| line.contains("H5Z-Quire")).collect();
            assert_eq!(lines.len(), 2, "{}", report.stderr);
            assert!(
                lines[0].starts_with(&format!("H5Z-Quire: {direction} {}", SMALL[0])) && lines[0].ends_with(SMALL[1]),
                "{}",
                lines[0]
            );
            assert!(
                lines[1].starts_with(&format!("H5Z-Quire: {direction} on the CPU: ")) && lines[1].contains(&reason),
                "{}",
                lines[1]
            );
        }
    }
}

#[test]
fn the_cpu_can_be_asked_for() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let file = write(&sandbox, python);
        let settings = [("QUIRE_BACKEND", "cpu"), ("QUIRE_LOG", "1")];
        let report = succeed(client(&sandbox, python, &settings).arg("rewrite").arg(&file));
        assert_says(
            &report,
            &["rewrite: done", "rewrite: 0 chunks uncompressed", "H5Z-Quire: compress on the CPU: QUIRE_BACKEND=cpu\n"],
        );
    }
}

#[test]
fn a_gpu_that_is_demanded_and_not_there_is_an_error() {
    let sandbox = Sandbox::new();
    let words = ["error: ", "H5Z-Quire: QUIRE_BACKEND=cuda, but ", reason(&sandbox)];
    let settings = [("QUIRE_BACKEND", "cuda")];
    for python in Python::ALL {
        let file = write(&sandbox, python);
        assert_says(&succeed(client(&sandbox, python, &settings).arg("read").arg(&file)), &words);
        for what in ["write", "mandatory"] {
            let report = succeed(client(&sandbox, python, &settings).arg(what).arg(sandbox.path("none.h5")));
            assert_says(&report, &words);
            assert!(!report.stderr.contains("H5Z-Quire"), "the program has the reason: {}", report.stderr);
        }
    }
}

#[test]
fn a_chunk_that_no_gpu_takes_is_refused_where_a_gpu_is_demanded() {
    let sandbox = Sandbox::new();
    let script = "import h5py, sys; f = h5py.File(sys.argv[1], 'w'); n = int(sys.argv[3]); \
                  f.create_dataset('x', (n,), sys.argv[2], chunks=(n,), compression=33791, compression_opts=(2, 3))";
    for python in Python::ALL {
        // Short values count as much as their codes, which have 32 bits.
        for (of_type, values, most) in [("f4", "536870912", 1 << 28), ("f8", "134217729", 1 << 27), ("i2", "300000000", 1 << 28)]
        {
            let reason =
                format!("QUIRE_BACKEND=cuda, but chunk has {values} values, the GPU takes chunks of up to {most} of this type");
            let mut command = sandbox.command(python.interpreter());
            command.env("QUIRE_BACKEND", "cuda").args(["-c", script]).arg(sandbox.path("refused.h5")).args([of_type, values]);
            assert_says(&end_in_order(&mut command), &[&reason]);
        }
    }
}

#[test]
fn a_chunk_that_cannot_be_compressed_is_stored_and_that_is_said_on_stderr() {
    let sandbox = Sandbox::new();
    let settings = [
        (("QUIRE_BACKEND", "cuda"), ["QUIRE_BACKEND=cuda, but ", reason(&sandbox)]),
        (("QUIRE_CODEBOOK", "best"), ["QUIRE_CODEBOOK=best is unknown", ""]),
    ];
    for python in Python::ALL {
        // The dataset is there already, so that its creation is no error. HDF5 would lose a chunk that a mandatory filter fails on, and crash when it closes
        // the file (HDFGroup/hdf5#6601).
        for what in ["write", "mandatory"] {
            let file = sandbox.path(&format!("{python:?}.h5"));
            for (setting, [name, reason]) in settings {
                assert_says(&succeed(client(&sandbox, python, &[]).arg(what).arg(&file)), &["done"]);
                let report = succeed(client(&sandbox, python, &[setting]).arg("rewrite").arg(&file));
                let line = format!("H5Z-Quire: {name}");
                assert_says(&report, &["rewrite: 1026 chunks uncompressed", "rewrite: done", &line, reason]);
                assert_says(&report, &["; the chunk is stored uncompressed"]);
                assert_eq!(report.stderr.matches("H5Z-Quire").count(), 1, "once a process: {}", report.stderr);
                assert_says(&succeed(client(&sandbox, python, &[]).arg("read").arg(&file)), &["read: done"]);
            }
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_errors_with_the_choices() {
    let sandbox = Sandbox::new();
    let cases = [
        ("QUIRE_BACKEND", "gpu", "QUIRE_BACKEND=gpu is unknown: the choices are auto, cpu, cuda"),
        ("QUIRE_DEVICE", "first", "QUIRE_DEVICE=first is not the number of a GPU"),
        ("QUIRE_LOG", "all", "QUIRE_LOG=all is unknown: the choices are 0, 1"),
        ("QUIRE_CODEBOOK", "best", "QUIRE_CODEBOOK=best is unknown: the choices are auto, dictionary, custom"),
    ];
    for python in Python::ALL {
        let file = write(&sandbox, python);
        for (name, value, words) in cases {
            for what in ["read", "mandatory"] {
                let target = if what == "read" { file.clone() } else { sandbox.path("none.h5") };
                let report = succeed(client(&sandbox, python, &[(name, value)]).arg(what).arg(target));
                assert_says(&report, &[&format!("{what}: error"), words]);
            }
        }
    }
}

#[test]
fn every_codebook_policy_gives_streams_that_read() {
    let sandbox = Sandbox::new();
    let mut sizes = Vec::new();
    for policy in ["auto", "dictionary", "custom"] {
        let file = sandbox.path(policy);
        let settings = [("QUIRE_CODEBOOK", policy)];
        assert_says(&succeed(client(&sandbox, Python::Hdf5_2_0, &settings).arg("write").arg(&file)), &["write: done"]);
        assert_says(&succeed(client(&sandbox, Python::Hdf5_2_0, &[]).arg("read").arg(&file)), &["read: done"]);
        sizes.push(std::fs::metadata(&file).expect("a file").len());
    }
    println!("bytes with auto, dictionary, custom: {sizes:?}");
    assert_ne!(sizes[1], sizes[2], "the variable changes nothing");
}

/// Builds a driver library that is none, and returns its folder.
fn fake_driver(sandbox: &Sandbox, name: &str, options: &[&str]) -> PathBuf {
    let folder = sandbox.path(name);
    std::fs::create_dir(&folder).expect("no folder for the fake");
    // The driver is looked for under several names; where there is a real one, it must not be found first.
    for library in ["libcuda.so", "libcuda.so.1"] {
        let mut command = sandbox.command("cc");
        command.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]).args(options);
        let _ = succeed(command.arg("-o").arg(folder.join(library)).arg(crate_folder().join("c/fake_cuda.c")));
    }
    folder
}

const FAKE: &str = "the fake libcuda is loaded";

fn with_driver(command: &mut Command, folder: &Path) -> Report {
    succeed(command.env("LD_LIBRARY_PATH", folder))
}

#[test]
fn a_driver_that_does_not_work_is_a_reason() {
    let sandbox = Sandbox::new();
    // The plugin must have kernels to get that far: build with nvcc, as run.sh does.
    let cases: [(&str, &[&str], &str); 3] = [
        ("no_device", &["-DRESULT=100"], "starting the NVIDIA driver: CUDA_ERROR_NO_DEVICE (said by the fake libcuda)"),
        ("no_count", &["-DRESULT=0"], "there is no GPU 0: the driver shows 0, numbered from 0"),
        ("too_old", &[], "the NVIDIA driver is too old: it lacks cuInit"),
    ];
    for (name, options, words) in cases {
        let driver = fake_driver(&sandbox, name, options);
        for python in Python::ALL {
            let file = sandbox.path("fake.h5");
            for (what, direction) in [("write", "compress"), ("read", "decompress")] {
                let mut command = client(&sandbox, python, &[("QUIRE_LOG", "1"), OPEN]);
                let report = with_driver(command.arg(what).arg(&file), &driver);
                assert_says(&report, &[FAKE, "done", &format!("H5Z-Quire: {direction} on the CPU: {words}")]);
            }
            let mut command = client(&sandbox, python, &[("QUIRE_BACKEND", "cuda")]);
            let report = with_driver(command.arg("read").arg(&file), &driver);
            assert_says(&report, &["read: error: ", &format!("QUIRE_BACKEND=cuda, but {words}")]);
        }
    }
}

#[test]
fn the_driver_is_left_alone_until_a_chunk_asks_for_it() {
    let sandbox = Sandbox::new();
    let driver = fake_driver(&sandbox, "driver", &["-DRESULT=100"]);
    let file = write(&sandbox, Python::Debian);
    for python in Python::ALL {
        let loaded = with_driver(client(&sandbox, python, &[]).arg("load"), &driver);
        assert_says(&loaded, &["load: done"]);
        assert_silent(&loaded, FAKE);
        let forced = [("QUIRE_BACKEND", "cpu")];
        assert_silent(&with_driver(client(&sandbox, python, &forced).arg("read").arg(&file), &driver), FAKE);
        // Two chunks of 2 MiB are too little work to look for a GPU.
        assert_silent(&with_driver(client(&sandbox, python, &[]).arg("read").arg(&file), &driver), FAKE);
        let demanded = [("QUIRE_BACKEND", "cuda")];
        assert_says(&with_driver(client(&sandbox, python, &demanded).arg("read").arg(&file), &driver), &[FAKE, "read: error"]);
    }
    // h5dump loads the plugin for the description, and decompresses chunks of 4 KiB for the values.
    for options in [["-p", "-H"], ["-d", "small"]] {
        let dumped = with_driver(sandbox.command("h5dump").args(options).arg(&file), &driver);
        assert_says(&dumped, &["DATASET"]);
        assert_silent(&dumped, FAKE);
    }
}

/// Those checks of `gpu.sh` that gpu/emulator's GPU can serve: which processor has a chunk, forks, files that are not closed, and launches that fail.
#[cfg(target_arch = "x86_64")]
#[test]
fn checks_of_a_gpu_on_the_emulated_one() {
    let sandbox = Sandbox::new();
    let _ = plugin_tests::failing_driver(&sandbox);
    let mut command = sandbox.python(Python::Hdf5_2_0, "gpu_checks.py");
    command.arg(sandbox.plugin_folder().join(plugin_tests::LIBRARY_NAME));
    command.args(["auto_takes", "forked", "not_closed", "launch_that_fails", "fails_under_cuda"]);
    for name in ["QUIRE_BACKEND", "QUIRE_DEVICE", "QUIRE_LOG", "QUIRE_CODEBOOK"] {
        command.env_remove(name);
    }
    command.env("LD_LIBRARY_PATH", plugin_tests::emulated_driver()).env("QUIRE_REQUIRE_CUDA", "1");
    let report = succeed(&mut command);
    println!("{}", report.stdout);
    assert_says(&report, &["5 passed, 0 failed"]);
    assert_silent(&report, "skipped");
}
