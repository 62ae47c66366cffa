//! h5repack, h5dump and h5diff of Debian's HDF5.

use std::path::{Path, PathBuf};

use plugin_tests::{FILTER_ID, Python, Report, Sandbox, assert_says, end_in_order, succeed};

/// The datasets of `round_trip.py plain` that h5repack is to compress.
fn compressed_datasets() -> String {
    let types = ["le_f4", "be_f4", "le_f8", "be_f8"];
    let layouts = ["contiguous", "chunked", "gzip"];
    let names: Vec<String> = layouts.iter().flat_map(|l| types.iter().map(move |t| format!("{l}_{t}/compressed"))).collect();
    names.join(",")
}

/// A file by h5py that nothing has compressed yet.
fn plain(sandbox: &Sandbox) -> PathBuf {
    let file = sandbox.path("plain.h5");
    let _ = succeed(sandbox.python(Python::Hdf5_1_14, "round_trip.py").arg("plain").arg(&file));
    file
}

/// Runs h5repack and gives the new file's path.
fn repack(sandbox: &Sandbox, from: &Path, to: &str, options: &[&str]) -> PathBuf {
    let to = sandbox.path(to);
    let report = succeed(sandbox.command("h5repack").args(options).arg(from).arg(&to));
    // h5repack warns, and goes on without the filter, where the filter cannot be applied.
    assert!(report.stderr.is_empty(), "h5repack {options:?} said: {}", report.stderr);
    to
}

fn check(sandbox: &Sandbox, file: &Path) {
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "round_trip.py").arg("check").arg(file));
    }
}

/// `h5dump -pH` of one dataset.
fn properties(sandbox: &Sandbox, file: &Path, dataset: &str) -> Report {
    succeed(sandbox.command("h5dump").args(["-pH", "-d", dataset]).arg(file))
}

/// h5diff finds no difference in any of the datasets. To h5diff a NaN equals a NaN.
fn same_values(sandbox: &Sandbox, one: &Path, other: &Path) {
    for dataset in compressed_datasets().split(',') {
        let _ = succeed(sandbox.command("h5diff").arg(one).arg(other).arg(dataset));
    }
}

#[test]
fn h5repack_compresses_rechunks_and_unpacks() {
    let sandbox = Sandbox::new();
    let plain = plain(&sandbox);
    let datasets = compressed_datasets();
    let filter = format!("{datasets}:UD={FILTER_ID},0,2,2,3");

    let packed = repack(&sandbox, &plain, "packed.h5", &["-f", &filter, "-l", &format!("{datasets}:CHUNK=16x20")]);
    check(&sandbox, &packed);
    for dataset in datasets.split(',') {
        assert_says(&properties(&sandbox, &packed, dataset), &[&format!("FILTER_ID {FILTER_ID}"), "CHUNKED ( 16, 20 )"]);
    }
    // Both halves of an f64 written out, and the layout that h5repack chooses.
    let by_bits = format!("{datasets}:UD={FILTER_ID},0,3,1,3539053052,1062232653");
    check(&sandbox, &repack(&sandbox, &plain, "by_bits.h5", &["-f", &by_bits]));

    // The filter is idempotent, so other chunks change no value, and set_local copes with what it filled in before.
    let mut previous = packed.clone();
    for (turn, chunk) in ["7x53", "64x1", "33x32"].into_iter().enumerate() {
        let name = format!("rechunked{turn}.h5");
        let rechunked = repack(&sandbox, &previous, &name, &["-l", &format!("{datasets}:CHUNK={chunk}")]);
        check(&sandbox, &rechunked);
        same_values(&sandbox, &packed, &rechunked);
        let wanted = format!("CHUNKED ( {} )", chunk.replace('x', ", "));
        for dataset in datasets.split(',') {
            assert_says(&properties(&sandbox, &rechunked, dataset), &[&format!("FILTER_ID {FILTER_ID}"), &wanted]);
        }
        previous = rechunked;
    }

    let unpacked = repack(&sandbox, &previous, "unpacked.h5", &["-f", "NONE"]);
    check(&sandbox, &unpacked);
    same_values(&sandbox, &packed, &unpacked);
    assert!(!properties(&sandbox, &unpacked, "gzip_le_f4/compressed").stdout.contains("FILTER_ID"), "-f NONE left a filter");
}

#[test]
fn h5repack_copies_everything_that_h5py_writes() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("file.h5");
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "round_trip.py").arg("write").arg(&file));
    check(&sandbox, &repack(&sandbox, &file, "copied.h5", &[]));
    check(&sandbox, &repack(&sandbox, &file, "gzip.h5", &["-f", "GZIP=1"]));
    let unpacked = repack(&sandbox, &file, "none.h5", &["-f", "NONE"]);
    check(&sandbox, &unpacked);
    // Every rank in again, from chunks without a filter. The values lie on the grid of 1e-6 already, so none moves once more.
    let types = ["le_f4", "be_f4", "le_f8", "be_f8"];
    let names = (1..=5).flat_map(|rank| types.map(|t| format!("rank{rank}_{t}_1e-06/compressed")));
    let filter = format!("{}:UD={FILTER_ID},0,2,2,6", names.collect::<Vec<_>>().join(","));
    let packed = repack(&sandbox, &unpacked, "packed.h5", &["-f", &filter]);
    assert_says(&properties(&sandbox, &packed, "rank5_be_f8_1e-06/compressed"), &[&format!("FILTER_ID {FILTER_ID}")]);
    check(&sandbox, &packed);
}

#[test]
fn h5dump_reads_the_values() {
    let sandbox = Sandbox::new();
    let plain = plain(&sandbox);
    let options = ["-f", &format!("{}:UD={FILTER_ID},0,2,2,3", compressed_datasets())];
    let packed = repack(&sandbox, &plain, "packed.h5", &options);
    for kind in ["contiguous_be_f8", "gzip_be_f8"] {
        let [original, compressed] = ["original", "compressed"].map(|name| {
            let (dataset, bytes) = (format!("{kind}/{name}"), sandbox.path("bytes"));
            let _ = succeed(sandbox.command("h5dump").args(["-d", &dataset, "-b", "LE", "-o"]).arg(&bytes).arg(&packed));
            let bytes = std::fs::read(bytes).expect("h5dump wrote no file");
            let values = bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes")));
            values.collect::<Vec<f64>>()
        });
        assert_eq!(original.len(), 64 * 53, "{kind}: h5dump wrote another number of values");
        assert_eq!(original.len(), compressed.len(), "{kind}");
        for (i, (x, y)) in original.iter().zip(&compressed).enumerate() {
            let held = if x.is_finite() { (x - y).abs() <= 1e-3 } else { x.to_bits() == y.to_bits() };
            assert!(held, "h5dump: {kind}: value {i}: {x:e} became {y:e}");
        }
    }
    let text = succeed(sandbox.command("h5dump").args(["-d", "gzip_le_f4/compressed"]).arg(&packed));
    assert_says(&text, &["nan", "inf", "e+36"]);
    assert!(text.stderr.is_empty(), "h5dump said: {}", text.stderr);
}

#[test]
fn h5repack_says_why_it_cannot_compress() {
    let sandbox = Sandbox::new();
    let plain = plain(&sandbox);
    let cases: [(&str, &str, &[&str]); 6] = [
        ("contiguous_le_f4/compressed", "2,77,3", &["mode", "77"]),
        ("contiguous_le_f4/compressed", "3,4,0,2", &["relative error bound is 2", "at most 1"]),
        ("contiguous_le_f4/compressed", "3,1,0,2146959360", &["bound is NaN", "finite"]),
        ("contiguous_le_f4/compressed", "3,1,0,2146435072", &["bound is inf", "finite"]),
        ("integers", "2,6,2", &["point-wise", "I32"]),
        ("text", "2,2,3", &["type", "string"]),
    ];
    for (dataset, values, words) in cases {
        let filter = format!("{dataset}:UD={FILTER_ID},0,{values}");
        let mut command = sandbox.command("h5repack");
        command.args(["--enable-error-stack", "-l", &format!("{dataset}:CHUNK=4x2"), "-f", &filter]);
        // h5repack 1.10.8 prints the error and ends with 0, so its exit code is not looked at.
        let report = end_in_order(command.arg(&plain).arg(sandbox.path("refused.h5")));
        println!("{filter}: {}", report.stderr);
        assert_says(&report, words);
    }
}
