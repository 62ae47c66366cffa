//! `quire repack` on an archive: several files, bounds by dataset, missing values, tiny chunks, and data that does not shrink.

use std::fs;
use std::process::Command;

use plugin_tests::{Python, Sandbox, assert_says, end_with, succeed};

use super::{files, from_json, quire};

/// `archive.py` with arguments.
fn archive(sandbox: &Sandbox, python: Python, arguments: &[&str]) -> Command {
    let mut command = sandbox.python(python, "archive.py");
    command.args(arguments).env("QUIRE_BACKEND", "cpu");
    command
}

/// A sandbox with the files of `archive.py` in a folder `in`, and an empty folder `out`.
fn archived() -> Sandbox {
    let sandbox = Sandbox::new();
    for folder in ["in", "out"] {
        fs::create_dir(sandbox.path(folder)).expect("a folder");
    }
    let _ = succeed(&mut archive(&sandbox, Python::Hdf5_2_0, &["make", "in"]));
    sandbox
}

#[test]
fn verify_names_the_filter_that_is_missing_and_shows_no_error_of_what_it_cannot_read() {
    let sandbox = archived();
    let _ = succeed(&mut quire(&sandbox, &["repack", "in/day1.h5", "out.h5", "--rel", "1e-3"]));
    assert_says(&succeed(&mut quire(&sandbox, &["verify", "in/day1.h5", "out.h5"])), &["rel=1e-3"]);
    let lost = end_with(1, quire(&sandbox, &["verify", "in/day1.h5", "out.h5"]).env("HDF5_PLUGIN_PATH", "/nowhere"));
    assert_says(
        &lost,
        &["cannot be read: HDF5 does not find quire here: name the folder of its plugin in HDF5_PLUGIN_PATH", "WRONG /"],
    );
    assert!(!lost.stdout.contains("rel=1e-3"), "a row without values: {}", lost.stdout);
}

#[test]
fn several_files_go_into_a_folder_with_bounds_by_dataset() {
    let sandbox = archived();
    let arguments = [
        "repack",
        "in/day1.h5",
        "in/day2.h5",
        "out",
        "--rel",
        "1e-3",
        "--set",
        "/flag_*:none",
        "--set",
        "flag_a:abs=1",
        "--set",
        "/**ti?y:abs=0.01",
        "--set",
        "/noise:abs=1e-300",
    ];
    // Without a word about the folder, and what would be done in it.
    let planned = succeed(quire(&sandbox, &arguments).arg("--dry-run"));
    assert_says(
        &planned,
        &[
            "/flag_a",
            "abs=1e0",
            "/tiny",
            "abs=1e-2",
            "skipped /flag_b: --set leaves it alone",
            "nothing is written",
            "out/day2.h5",
        ],
    );
    assert_eq!(fs::read_dir(sandbox.path("out")).expect("a folder").count(), 0);

    let done = succeed(quire(&sandbox, &arguments).arg("--annotate"));
    assert_says(
        &done,
        &[
            "skipped /small/0 and 19 more: fewer bytes than --min-size=16384",
            "23 datasets are skipped; -v lists all of them",
            "note: /tiny: its chunks of 1x1 are too small to compress: the copy has 60x80",
            "note: /missing/one_be and 2 more: chunks of 32x32x32 (128 KiB) are small",
            "--chunks gives the copy others",
            "note: /missing/one_be and 2 more: its attribute names missing values that are not its fill value",
            "note: /far: in a chunk one value decides the range",
            "-9.99e2 makes it",
            "verified: out/day1.h5",
            "2 of 2 files: ",
        ],
    );
    assert!(done.stdout.lines().filter(|line| line.starts_with("skipped")).count() == 6, "{}", done.stdout);
    assert_says(
        &succeed(quire(&sandbox, &arguments).args(["--force", "-v"])),
        &["skipped /small/7: fewer bytes than --min-size=16384", "skipped /small/19: fewer"],
    );
    for python in Python::ALL {
        assert_says(
            &succeed(&mut archive(&sandbox, python, &["missing", "in/day1.h5", "out/day1.h5"])),
            &["missing values hold"],
        );
    }

    // A second run refuses the files that are there, and one that fails does not keep the others from being written.
    fs::remove_file(sandbox.path("out/day2.h5")).expect("removed");
    let again = end_with(1, &mut quire(&sandbox, &arguments));
    assert_says(&again, &["error: out/day1.h5 is there already", "verified: out/day2.h5", "1 of 2 files"]);
    for (arguments, reason) in [
        (&["in/day1.h5", "in/day2.h5", "nowhere", "--abs", "1"][..], "2 files to read, and nowhere is no folder"),
        (&["in/day1.h5", "./in/day1.h5", "out", "--abs", "1"], "out/day1.h5 would be written twice"),
        (&["in/day1.h5", "o.h5", "--set", "/t"], "give PATH:OPTIONS"),
        (&["in/day1.h5", "o.h5", "--set", "/t:abs=-1"], "--set /t:abs=-1: "),
    ] {
        assert_says(&end_with(2, quire(&sandbox, &["repack"]).args(arguments)), &[reason]);
    }
    let unknown = end_with(1, &mut quire(&sandbox, &["repack", "in/day1.h5", "o.h5", "--set", "/zz*:abs=1"]));
    assert_says(&unknown, &["in/day1.h5:/zz*: the file has no dataset of such a path"]);
}

#[test]
fn copies_say_what_was_done_and_leave_alone_what_would_grow() {
    let sandbox = archived();
    let arguments =
        ["repack", "in/day1.h5", "o.h5", "--abs", "1e-3", "--only", "/noise", "--set", "/flag_a:abs=1", "--only", "/flag_a"];
    // The user has named it, and gets it with the filter.
    let named = succeed(quire(&sandbox, &arguments).args(["--set", "/noise:abs=1e-300", "--json"]));
    assert_eq!(from_json(&sandbox, &named, "[each['path'] for each in value['files'][0]['datasets']]"), "['/flag_a', '/noise']");
    let arguments = ["repack", "in/day1.h5", "o.h5", "--force", "--annotate"];
    let left = succeed(quire(&sandbox, &arguments).args(["--abs", "1e-300", "--set", "/t:abs=0.01", "--set", "/flag_a:abs=1"]));
    assert_says(&left, &["/noise", "compressed it would take more bytes than it has", "verified: o.h5"]);
    let shown = succeed(&mut archive(&sandbox, Python::Hdf5_2_0, &["annotations", "o.h5"])).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("t abs=1e-2 0.00") && lines[0].ends_with("['quire_psnr']"), "{shown}");
    assert!(lines[1].starts_with("flag_a abs=1e0 1.0"), "{shown}");
    // Again from a file with these attributes: they are not doubled, and there is nothing else left to do.
    assert_says(
        &end_with(1, &mut quire(&sandbox, &["repack", "o.h5", "again.h5", "--abs", "1", "--only", "/t", "--annotate"])),
        &["there is nothing to compress"],
    );
    assert_eq!(files(&sandbox, "again"), [""; 0]);

    // estimate leaves out the same datasets for the same reasons.
    let skipped = |report: &str| report.lines().filter(|line| line.starts_with("skipped")).map(str::to_owned).collect::<Vec<_>>();
    let repacked = succeed(&mut quire(&sandbox, &["repack", "in/day1.h5", "p.h5", "--dry-run", "--abs", "1", "-v"]));
    let estimated = succeed(&mut quire(&sandbox, &["estimate", "in/day1.h5", "--abs", "1", "-v", "--rel", "1e-3"]));
    assert_eq!(skipped(&estimated.stderr.replace("in/day1.h5:", "")), skipped(&repacked.stdout));
    assert_says(
        &estimated,
        &["note: in/day1.h5:/tiny: chunks of 1x1 (4 bytes) are small", "/far at rel=1e-3: in a chunk one value decides"],
    );

    let inspected = succeed(&mut quire(&sandbox, &["inspect", "in/day1.h5"]));
    assert_says(&inspected, &["note: in/day1.h5:/missing/one_be and 2 more: chunks of"]);
    let checked = succeed(&mut quire(&sandbox, &["doctor", "in/day1.h5"]));
    assert_says(&checked, &["in/day1.h5:/tiny: chunks of 1x1 (4 bytes) are small", "quire repack --chunks SHAPE"]);
}

#[test]
fn verify_says_which_promises_a_copy_keeps() {
    let sandbox = archived();
    let _ = succeed(&mut quire(&sandbox, &["repack", "in/day1.h5", "o.h5", "--rel", "1e-3", "--set", "/tiny:abs=0.01"]));
    let kept = succeed(&mut quire(&sandbox, &["verify", "in/day1.h5", "o.h5"]));
    assert_says(&kept, &["rel=1e-3", "abs=1e-2", "22 other datasets are equal", "9 datasets compared: no promise is broken"]);
    let json = succeed(&mut quire(&sandbox, &["verify", "in/day1.h5", "o.h5", "--json", "--chunks"]));
    let get = |expression: &str| from_json(&sandbox, &json, expression);
    let of_t = "[each for each in value['datasets'] if each['path'] == '/t'][0]";
    assert_eq!(
        get(&format!("[each['filters'] for each in [{of_t}]], {of_t}['bound'], value['kept']")),
        "(['quire'], 'rel=1e-3', True)"
    );
    assert_eq!(get(&format!("0.5 < {of_t}['share_of_bound'] <= 1 and {of_t}['psnr'] > 50, {of_t}['values']")), "(True, 120000)");
    assert_eq!(get(&format!("[each['corner'] for each in {of_t}['chunks']]")), "[[0, 0, 0]]");

    // A smaller bound than was promised, for all that is rounded.
    let smaller = end_with(1, &mut quire(&sandbox, &["verify", "in/day1.h5:/t", "o.h5", "--rel", "1e-4"]));
    assert_says(&smaller, &["WRONG /t: value ", "it may be off by", "the chunk is at (0, 0, 0)", "1 of 1 datasets are WRONG"]);

    let _ = succeed(&mut archive(&sandbox, Python::Hdf5_1_14, &["spoil", "o.h5"]));
    let spoiled = end_with(1, &mut quire(&sandbox, &["verify", "in/day1.h5", "o.h5", "--chunks"]));
    assert_says(
        &spoiled,
        &[
            "WRONG /flag_b: the copy has no such dataset",
            "WRONG /t: value 0 of a chunk was",
            "WRONG /missing/one_le: value ",
            "fill values, missing values, far values and what is not finite are kept bit for bit",
            "3 of 9 datasets are WRONG",
        ],
    );

    let _ = succeed(&mut archive(&sandbox, Python::Debian, &["others", "in/day1.h5", "others.h5"]));
    let others = end_with(1, &mut quire(&sandbox, &["verify", "in/day1.h5", "others.h5", "--abs", "0.01", "--json"]));
    let get = |expression: &str| from_json(&sandbox, &others, expression);
    let problems = "{each['path']: each['problem'] for each in value['datasets']}";
    assert_eq!(
        get(&format!("{problems}['/t'], {problems}['/flag_a'], {problems}['/flag_b']")),
        "(None, None, 'its type is not that of the original')"
    );
    assert_eq!(
        get(&format!("{problems}['/tiny'], {problems}['/texts/other'][:20]")),
        "(\"its shape is 50x80, the original's is 60x80\", 'its values are not t')"
    );
    assert_eq!(
        get(&format!("'/texts/same' in {problems}, value['equal'], value['only_in_copy']")),
        "(False, 1, ['/additional'])"
    );
    assert_eq!(get(&format!("'are kept bit for bit' in {problems}['/missing/one_le']")), "True");
    assert_eq!(
        get(
            "[each['changed'] > 1000 and each['beyond_bound'] == 0 for each in value['datasets'] if each['path'] == '/missing/one_le']"
        ),
        "[True]"
    );
    // Types and numbers of values are compared where there are no values.
    let _ = succeed(&mut archive(&sandbox, Python::Debian, &["empty", "one.h5", "two.h5"]));
    let empty = end_with(1, &mut quire(&sandbox, &["verify", "one.h5", "two.h5", "--json"]));
    assert_eq!(
        from_json(&sandbox, &empty, "value['equal'], sorted((each['path'], each['problem']) for each in value['datasets'])"),
        "(4, [('/none', \"its number of values is 1, the original's is 0\"), ('/other_pairs', 'its type is not that of the original'), \
         ('/scalar', \"its number of values is 0, the original's is 1\"), ('/text', 'its type is not that of the original'), \
         ('/type', 'its type is not that of the original')])"
    );
    // Nothing is promised where no bound is given.
    let plain = succeed(&mut quire(&sandbox, &["verify", "in/day1.h5:/t", "others.h5"]));
    assert_says(&plain, &["filter 6", "1 dataset compared: no promise is broken"]);
    for (code, arguments, reason) in [
        (1, &["in/day1.h5", "nowhere.h5"][..], "nowhere.h5: there is no such file"),
        (1, &["in/day1.h5:/nothing", "o.h5"], "in/day1.h5:/nothing: the file has no dataset"),
        (2, &["in/day1.h5"], "<COPY>"),
    ] {
        assert_says(&end_with(code, quire(&sandbox, &["verify"]).args(arguments)), &[reason]);
    }
}
