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
fn h5repack_keeps_the_brick_for_other_chunks() {
    let sandbox = Sandbox::new();
    let mut file = sandbox.path("plain.h5");
    let _ = succeed(sandbox.python(Python::Hdf5_1_14, "bricks.py").arg("plain").arg(&file));
    let filter = format!("boxes/compressed:UD={FILTER_ID},0,5,50331650,8,8,8,3");
    // A brick, many of them, slices, and rows.
    for (turn, chunk) in ["512", "1536", "128", "24"].into_iter().enumerate() {
        let chunk = format!("boxes/compressed:CHUNK={chunk}");
        let compress = if turn == 0 { vec!["-f", &filter] } else { vec![] };
        let source = file;
        file = repack(&sandbox, &source, &format!("repacked{turn}.h5"), &[&compress[..], &["-l", &chunk]].concat());
        assert_says(&properties(&sandbox, &file, "boxes/compressed"), &["50331649 8 8 8 -755914244 1062232653"]);
        for python in Python::ALL {
            let _ = succeed(sandbox.python(python, "bricks.py").arg("check").arg(&file).arg(&source));
        }
    }
    // h5repack takes a refusal for no error, and keeps the chunks as they were.
    let refused = sandbox.path("refused.h5");
    let mut command = sandbox.command("h5repack");
    let report =
        end_in_order(command.args(["--enable-error-stack", "-l", "boxes/compressed:CHUNK=500"]).arg(&file).arg(&refused));
    assert!(
        report.stderr.contains("a chunk has 500 values, which are no whole number of the brick's rows of 8"),
        "{}",
        report.stderr
    );
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

/// The groups of `repacking.py` whose values are floating-point numbers, and those with integers: the two have bounds of their own.
const FLOATS: &str = "le_f2 le_f4 be_f4 le_f8 be_f8";
const INTEGERS: &str = "le_i1 le_i2 be_i4 le_i8 le_u4";

/// Names of `repacking.py`'s datasets of one kind, for h5repack's options.
fn names(types: &str, dataset: &str) -> String {
    let fills_of = |kind: &str| -> &[&str] {
        match kind {
            "le_i1" | "le_u4" => &["nofill", "zero"],
            _ if kind.contains("_i") => &["nofill", "zero", "far"],
            _ if dataset == "scaleoffset" => &["nofill"],
            _ => &["nofill", "zero", "far", "nan"],
        }
    };
    let of = |kind: &'_ str| fills_of(kind).iter().map(|fill| format!("{kind}_{fill}/{dataset}")).collect::<Vec<_>>();
    types.split(' ').flat_map(of).collect::<Vec<_>>().join(",")
}

/// h5repack's `-f` for a dataset of every group: ours with the bound `mantissa * 10^-2` for floating-point numbers, and `whole` for integers.
fn ours(dataset: &str, mantissa: u32, whole: u32) -> [String; 2] {
    [
        format!("{}:UD={FILTER_ID},0,3,2,2,{mantissa}", names(FLOATS, dataset)),
        format!("{}:UD={FILTER_ID},0,3,2,0,{whole}", names(INTEGERS, dataset)),
    ]
}

/// Every group's `dataset` is within the sum of the bounds of these steps, and has its fill values. See `repacking.py`.
fn check_sum(sandbox: &Sandbox, file: &Path, dataset: &str, steps: &str) {
    for python in Python::ALL {
        let _ = succeed(sandbox.python(python, "repacking.py").arg("check").arg(file).args([dataset, steps]));
    }
}

/// h5dump shows these filters, by words that are there and words that are not.
fn has_filters(sandbox: &Sandbox, file: &Path, dataset: &str, present: &[&str]) {
    let report = properties(sandbox, file, dataset);
    assert_says(&report, present);
    for word in ["FILTER_ID", "DEFLATE", "SHUFFLE", "FLETCHER32", "SZIP", "SCALEOFFSET"] {
        let expected = present.iter().any(|given| given.contains(word));
        assert_eq!(report.stdout.contains(word), expected, "{word} in {dataset} of {}: {}", file.display(), report.stdout);
    }
}

fn repacking_file(sandbox: &Sandbox) -> PathBuf {
    let file = sandbox.path("values.h5");
    let _ = succeed(sandbox.python(Python::Hdf5_1_14, "repacking.py").arg("write").arg(&file));
    file
}

fn strs(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

#[test]
fn h5repack_to_other_filters_and_back_changes_no_value() {
    let sandbox = Sandbox::new();
    let file = repacking_file(&sandbox);
    let datasets = format!("{},{}", names(FLOATS, "ours"), names(INTEGERS, "ours"));
    // h5diff compares all datasets of the two files; to it a NaN equals a NaN.
    let all_equal = |one: &Path, other: &Path| {
        let _ = succeed(sandbox.command("h5diff").arg(one).arg(other));
    };
    check_sum(&sandbox, &file, "ours", "ours");
    // Debian's HDF5 has szip's encoder; builds without it refuse SZIP, and repack() then fails.
    let filters: [(&str, &[&str], &[&str]); 6] = [
        ("gzip", &["GZIP=6"], &["DEFLATE"]),
        ("shuffle_gzip", &["SHUF", "GZIP=1"], &["SHUFFLE", "DEFLATE"]),
        ("fletcher32", &["FLET"], &["FLETCHER32"]),
        ("all", &["SHUF", "GZIP=1", "FLET"], &["SHUFFLE", "DEFLATE", "FLETCHER32"]),
        ("szip", &["SZIP=8,NN"], &["SZIP"]),
        ("none", &["NONE"], &[]),
    ];
    for (name, filters, shown) in filters {
        let options: Vec<String> = filters.iter().flat_map(|f| ["-f".to_owned(), format!("{datasets}:{f}")]).collect();
        let there = repack(&sandbox, &file, &format!("{name}.h5"), &strs(&options));
        for dataset in ["le_f4_far/ours", "be_i4_far/ours", "le_f2_nan/ours"] {
            has_filters(&sandbox, &there, dataset, shown);
        }
        all_equal(&file, &there);

        // The values are on the grid of this bound already: none moves.
        let [floats, integers] = ours("ours", 1, 2);
        let back = repack(&sandbox, &there, &format!("{name}_back.h5"), &["-f", &floats, "-f", &integers]);
        for dataset in ["le_f4_far/ours", "be_i4_far/ours", "le_f2_nan/ours"] {
            has_filters(&sandbox, &back, dataset, &["FILTER_ID 33791"]);
        }
        all_equal(&file, &back);
        check_sum(&sandbox, &back, "ours", "ours");
    }
    // A filter behind ours.
    let [floats, integers] = ours("ours", 1, 2);
    let gzip = format!("{datasets}:GZIP=1");
    let behind = repack(&sandbox, &file, "behind.h5", &["-f", &floats, "-f", &integers, "-f", &gzip]);
    has_filters(&sandbox, &behind, "le_f4_far/ours", &["FILTER_ID 33791", "DEFLATE"]);
    all_equal(&file, &behind);
}

#[test]
fn h5repack_to_other_chunks_and_bounds_keeps_the_sum_of_the_bounds() {
    let sandbox = Sandbox::new();
    let file = repacking_file(&sandbox);
    let datasets = format!("{},{}", names(FLOATS, "ours"), names(INTEGERS, "ours"));
    let [floats, integers] = ours("ours", 5, 5);
    let chunk = format!("{datasets}:CHUNK=33x32");
    let coarse = repack(&sandbox, &file, "coarse.h5", &["-f", &floats, "-f", &integers, "-l", &chunk]);
    check_sum(&sandbox, &coarse, "ours", "ours+coarse");

    // The words of FORMAT.md section 10, signed as h5dump prints them: mode 1, the bound's two halves (0.05, or 5.0), value type and rank,
    // extents, bits of the fill value.
    for (dataset, words) in [
        ("le_f4_nofill/ours", "1 -1717986918 1068079513 1359020034 33 32"),
        ("le_f4_far/ours", "1 -1717986918 1068079513 1359020034 33 32 -971228160"),
        ("be_f8_nan/ours", "1 -1717986918 1068079513 1359053058 33 32 0 2146959360"),
        ("le_f2_zero/ours", "1 -1717986918 1068079513 1359020546 33 32 0"),
        ("be_i4_far/ours", "1 0 1075052544 1359054850 33 32 -9999"),
        ("le_i8_far/ours", "1 0 1075052544 1359022594 33 32 -9999 -1"),
        ("le_u4_nofill/ours", "1 0 1075052544 1359022338 33 32"),
    ] {
        assert_says(&properties(&sandbox, &coarse, dataset), &[&format!("PARAMS {{ {words} }}"), "CHUNKED ( 33, 32 )"]);
    }

    // A finer bound after a coarse one: every grid is another, and the sum of all three bounds holds.
    let [floats, integers] = ours("ours", 1, 2);
    let finer = repack(&sandbox, &coarse, "finer.h5", &["-f", &floats, "-f", &integers]);
    check_sum(&sandbox, &finer, "ours", "ours+coarse+ours");
}

#[test]
fn h5repack_compresses_contiguous_and_scaled_datasets() {
    let sandbox = Sandbox::new();
    let file = repacking_file(&sandbox);
    let [floats, integers] = ours("contiguous", 1, 2);
    let packed = repack(&sandbox, &file, "contiguous.h5", &["-f", &floats, "-f", &integers]);
    has_filters(&sandbox, &packed, "le_f4_far/contiguous", &["FILTER_ID 33791"]);
    check_sum(&sandbox, &packed, "contiguous", "ours");

    check_sum(&sandbox, &file, "scaleoffset", "scaleoffset");
    let floats = format!("{}:UD={FILTER_ID},0,3,2,2,1", names("le_f4 be_f4 le_f8 be_f8", "scaleoffset"));
    let all = INTEGERS.split(' ').map(|kind| format!("{kind}_nofill/scaleoffset")).collect::<Vec<_>>().join(",");
    let packed = repack(&sandbox, &file, "scaled.h5", &["-f", &floats, "-f", &format!("{all}:UD={FILTER_ID},0,3,2,0,2")]);
    for dataset in ["be_f8_nofill/scaleoffset", "le_i2_nofill/scaleoffset"] {
        has_filters(&sandbox, &packed, dataset, &["FILTER_ID 33791"]);
    }
    check_sum(&sandbox, &packed, "scaleoffset", "scaleoffset+ours");
}

#[test]
fn h5repack_with_a_filter_at_a_wrong_place_says_why_and_keeps_the_old_filters() {
    let sandbox = Sandbox::new();
    let file = repacking_file(&sandbox);
    let ours = format!("UD={FILTER_ID},0,2,2,2");
    let refused = |filters: [&str; 2], reasons: &[&str]| {
        let mut command = sandbox.command("h5repack");
        for filter in filters {
            command.args(["-f", &format!("le_f4_far/contiguous:{filter}")]);
        }
        let copy = sandbox.path("refused.h5");
        // h5repack 1.10.8 ends with 0 and copies the dataset as it was.
        let report = end_in_order(command.args(["--enable-error-stack"]).arg(&file).arg(&copy));
        assert_says(&report, reasons);
        has_filters(&sandbox, &copy, "le_f4_far/contiguous", &[]);
    };
    for (front, number) in [("SHUF", "2"), ("GZIP=1", "1"), ("FLET", "3"), ("SZIP=8,NN", "4"), ("NBIT", "5"), ("SOFF=3,DS", "6")]
    {
        refused([front, &ours], &[&format!("[{number}, {FILTER_ID}]"), "must be the first"]);
    }
    for (behind, number) in [("SZIP=8,NN", "4"), ("NBIT", "5"), ("SOFF=3,DS", "6")] {
        refused([&ours, behind], &[&format!("[{FILTER_ID}, {number}]"), "is not known to keep all bytes"]);
    }
}
