//! `quire` on several threads: `repack` writes the same bytes as on one, and as h5py and h5repack write them; the other commands say the same.

use std::process::Command;

use plugin_tests::{Python, Sandbox, assert_says, end_with, succeed};

use super::{from_json, quire};

/// `repack_jobs.py` with arguments.
fn python(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.python(Python::Hdf5_2_0, "repack_jobs.py");
    command.args(arguments).env("QUIRE_BACKEND", "cpu");
    command
}

/// The SHA-256 of each chunk, a line each; of the datasets with these names alone.
fn sums(sandbox: &Sandbox, file: &str, names: &[&str]) -> String {
    let report = succeed(python(sandbox, &["sums", file]).args(names));
    assert!(report.stdout.lines().count() > 10, "{}", report.stdout);
    report.stdout
}

#[test]
fn every_chunk_has_the_same_bytes_whatever_the_number_of_threads() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["make", "in.h5"]));
    for (jobs, environment) in [("1", ""), ("4", ""), ("", "3"), ("", "")] {
        let name = format!("out{jobs}-{environment}.h5");
        let mut command = quire(&sandbox, &["repack", "in.h5", &name, "--abs", "1e-3"]);
        if !jobs.is_empty() {
            command.args(["--jobs", jobs]);
        }
        if !environment.is_empty() {
            command.env("QUIRE_THREADS", environment);
        }
        assert_says(&succeed(&mut command), &["verified", "/missing/4", "/holes/3"]);
        assert_eq!(sums(&sandbox, &name, &[]), sums(&sandbox, "out1-.h5", &[]), "{name}");
    }
    let _ = succeed(&mut python(&sandbox, &["h5py", "in.h5", "h5py.h5"]));
    let names = ["chunked", "gzip", "holes"];
    assert_eq!(sums(&sandbox, "out4-.h5", &names), sums(&sandbox, "h5py.h5", &names));
    // Its bound is for all datasets, where repack keeps whole numbers exact.
    let _ =
        succeed(sandbox.command("h5repack").args(["-f", "chunked/3f4,chunked/2f4b:UD=33791,0,2,2,3", "in.h5", "h5repack.h5"]));
    let names = ["chunked/3f4", "chunked/2f4b"];
    assert_eq!(sums(&sandbox, "out4-.h5", &names), sums(&sandbox, "h5repack.h5", &names));

    let verified =
        |jobs: &str| succeed(&mut quire(&sandbox, &["verify", "in.h5", "out4-.h5", "--chunks", "--jobs", jobs])).stdout;
    assert_eq!(verified("1"), verified("5"));
    let inspected = |jobs: &str| succeed(&mut quire(&sandbox, &["inspect", "out4-.h5", "--json", "--jobs", jobs])).stdout;
    assert_eq!(inspected("1"), inspected("4"));
    let estimated = |jobs: &str| {
        let report =
            succeed(&mut quire(&sandbox, &["estimate", "in.h5", "--abs", "1e-3", "--psnr", "60", "--json", "--jobs", jobs]));
        // All but the speeds.
        from_json(
            &sandbox,
            &report,
            "[{key: told[key] for key in told if not key.endswith('_mb_s')} for told in value['trials']]",
        )
    };
    let alone = estimated("1");
    assert!(alone.contains("/missing/4") && alone.contains("'options': 'psnr=60'"), "{alone}");
    assert_eq!(alone, estimated("4"));
}

#[test]
fn a_number_of_threads_that_cannot_be_is_refused() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["make", "in.h5"]));
    for jobs in ["0", "1025", "many"] {
        assert_says(
            &end_with(2, &mut quire(&sandbox, &["repack", "in.h5", "out.h5", "--abs", "1", "--jobs", jobs])),
            &["--jobs"],
        );
    }
    let mut command = quire(&sandbox, &["repack", "in.h5", "out.h5", "--abs", "1"]);
    assert_says(&end_with(1, command.env("QUIRE_THREADS", "all")), &["QUIRE_THREADS", "all"]);
    assert!(super::files(&sandbox, "out").is_empty());
}
