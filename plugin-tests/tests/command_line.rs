//! The command line `quire` on files that h5py and netCDF have made.

#[path = "command_line/archive.rs"]
mod archive;
#[path = "command_line/hostile.rs"]
mod hostile;
#[path = "command_line/jobs.rs"]
mod jobs;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use plugin_tests::{FILTER_ID, Python, Report, Sandbox, assert_says, command_line, end_with, succeed};

/// `quire` with arguments, without what the tests' own environment may say.
fn quire(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(command_line());
    for name in ["QUIRE_DEVICE", "QUIRE_LOG", "QUIRE_DICTIONARY", "QUIRE_CODEBOOK", "QUIRE_THREADS", "HDF5_PLUGIN_PRELOAD"] {
        command.env_remove(name);
    }
    command.args(arguments).env("QUIRE_BACKEND", "cpu");
    command
}

/// `command_line.py` with arguments.
fn python(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.python(Python::Hdf5_2_0, "command_line.py");
    command.args(arguments).env("QUIRE_BACKEND", "cpu");
    command
}

/// What Python's `json` makes of a report's standard output, in the words of an expression over `value`.
fn from_json(sandbox: &Sandbox, report: &Report, expression: &str) -> String {
    hand_over(sandbox, report, &["json", expression])
}

/// What `command_line.py` says of a report's standard output.
fn hand_over(sandbox: &Sandbox, report: &Report, arguments: &[&str]) -> String {
    let mut command = python(sandbox, arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python could not be run");
    child.stdin.take().expect("a pipe").write_all(report.stdout.as_bytes()).expect("the pipe is open");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{arguments:?} of {}", report.stdout);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Files in the folder whose name begins so.
fn files(sandbox: &Sandbox, beginning: &str) -> Vec<String> {
    let entries = fs::read_dir(sandbox.path(".")).expect("the sandbox's folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(beginning)).collect()
}

#[test]
fn args_give_what_each_client_takes_and_back() {
    let sandbox = Sandbox::new();
    let text = succeed(&mut quire(&sandbox, &["args", "abs=1e-3"]));
    assert_says(
        &text,
        &[
            "options       abs=1e-3",
            "cd_values     1,3539053052,1062232653",
            "short form    2,3, which",
            "-f DATASET:UD=33791,0,3,1,3539053052,1062232653",
            "compression_opts=(1, 3539053052, 1062232653)",
            "-F DATASET,33791,1,3539053052,1062232653",
            "unsigned values[] = {1,3539053052,1062232653}",
        ],
    );
    // As h5dump prints them, and with what the filter has added.
    let numbers: [&[&str]; 4] =
        [&["1,3539053052,1062232653"], &["1", "-755914244", "1062232653", "1359020291", "16", "32", "7"], &["2,3"], &["2", "3"]];
    for numbers in numbers {
        let report = succeed(quire(&sandbox, &["args", "--json"]).args(numbers));
        assert_says(&report, &["\"options\": \"abs=1e-3\"", "\"short\": \"2,3\""]);
    }
    for (arguments, words) in [
        (&["--rel", "1e-4", "--coding", "bitshuffle"][..], "[515, 3944497965, 1058682594]"),
        (&["--ratio", "20", "--abs", "0.5"], "[11, 0, 1077149696, 0, 1071644672]"),
        (&["--lossless"], "[0]"),
        (&["--options", "psnr=60,coding=huffman"], "[263, 0, 1078853632]"),
    ] {
        let report = succeed(quire(&sandbox, &["args", "--json"]).args(arguments));
        assert_eq!(from_json(&sandbox, &report, "value['cd_values']"), words);
        let of_h5repack =
            from_json(&sandbox, &report, "value['h5repack'].split(',')[3:] == [str(word) for word in value['cd_values']]");
        assert_eq!(of_h5repack, "True");
        assert_eq!(from_json(&sandbox, &report, "value['filter']"), FILTER_ID.to_string());
    }
    for (arguments, reason) in [
        (&["abs=-1"][..], "absolute error bound is -1"),
        (&["--abs", "one"], "abs=one is not a number"),
        (&["--abs", "1", "--rel", "0.1"], "2 bounds are given (abs=1e0 and rel=1e-1): say one"),
        (&["abs=1", "--rel", "0.1"], "give one of them"),
        (&[], "no bound is given: say one of --abs"),
        (&["99"], "mode 99 is unknown"),
        (&["1,x"], "is not a list of 32-bit numbers"),
        (&["--bound", "1"], "unexpected argument '--bound'"),
    ] {
        assert_says(&end_with(2, quire(&sandbox, &["args"]).args(arguments)), &[reason]);
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let sandbox = Sandbox::new();
    for (shell, words) in [("bash", "complete -F _quire"), ("zsh", "#compdef quire"), ("fish", "complete -c quire")] {
        let script = succeed(&mut quire(&sandbox, &["completions", shell]));
        assert_says(&script, &[words, "repack", "round-integers"]);
    }
    let script = succeed(&mut quire(&sandbox, &["completions", "bash"])).stdout;
    fs::write(sandbox.path("quire.bash"), script).expect("written");
    let completed = "source quire.bash; COMP_WORDS=(quire insp); COMP_CWORD=1; _quire quire insp quire; echo ${COMPREPLY[@]}";
    assert_eq!(succeed(sandbox.command("bash").args(["-c", completed])).stdout.trim(), "inspect");
    assert_says(&succeed(&mut quire(&sandbox, &["man"])), &[".TH quire 1", "quire\\-inspect", "Exit codes"]);
    for subcommand in ["args", "inspect", "estimate", "repack", "verify", "doctor", "train"] {
        let page = succeed(&mut quire(&sandbox, &["man", subcommand]));
        assert_says(&page, &[&format!(".TH quire-{subcommand} 1"), ".SH DESCRIPTION", ".SH OPTIONS"]);
        assert_says(&succeed(&mut quire(&sandbox, &[subcommand, "--help"])), &["Usage: quire", "Exit codes: 0"]);
    }
    assert_says(&end_with(1, &mut quire(&sandbox, &["man", "fly"])), &["no subcommand \"fly\"", "inspect"]);
    assert_says(&succeed(&mut quire(&sandbox, &["--help"])), &["Exit codes: 0"]);
}

#[test]
fn inspect_has_a_row_for_each_chunk() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["partial", "partial.h5"]));
    let summary = succeed(&mut quire(&sandbox, &["inspect", "partial.h5"]));
    let line = |name: &str| summary.stdout.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
    assert!(
        line("partial.h5:/checked").contains("abs=1e-3,coding=bitshuffle") && line("partial.h5:/checked").contains("bit planes")
    );
    assert!(line("partial.h5:/contiguous").contains("(no filter)") && line("partial.h5:/other").contains("(gzip 4)"));
    assert!(line("partial.h5:/raw").contains("unfiltered"));
    assert!(line("partial.h5:/sparse").contains("constant 1, quantized 1"));
    // All three ways to name a dataset.
    for name in ["partial.h5:/sparse", "partial.h5/sparse", "./partial.h5/sparse"] {
        let chunks = succeed(&mut quire(&sandbox, &["inspect", "--chunks", name]));
        assert_says(&chunks, &["F32 10x10000 in chunks of 1x10000", "(3, 0)", "(7, 0)"]);
        assert!(!chunks.stdout.contains("checked"));
    }
    let json = succeed(&mut quire(&sandbox, &["inspect", "--json", "partial.h5"]));
    let get = |expression: &str| from_json(&sandbox, &json, expression);
    assert_eq!(
        get("[each['name'].split('/')[1] for each in value['datasets']]"),
        "['checked', 'contiguous', 'other', 'raw', 'sparse', 'unchecked']"
    );
    // Of two chunks, one has a checksum behind its stream.
    assert_eq!(get("[each['values'] for each in value['datasets'][5]['chunks']]"), "['quantized', 'quantized']");
    assert_eq!(get("[each['corner'] for each in value['datasets'][4]['chunks']]"), "[[3, 0], [7, 0]]");
    assert_eq!(get("[each['values'] for each in value['datasets'][4]['chunks']]"), "['constant', 'quantized']");
    assert_eq!(
        get(
            "sorted(value['datasets'][0]['chunks'][0]) == sorted('corner bytes ratio values coding predictor codebook bound bound_is_share_of_value half_step exceptions error'.split())"
        ),
        "True"
    );
    assert_eq!(get("value['datasets'][0]['chunks'][0]['half_step']"), "0.001");
    assert_eq!(get("value['datasets'][1]['compressed'], value['damaged']"), "(False, 0)");
    // The plugin has no part in it.
    let without = succeed(quire(&sandbox, &["inspect", "--json", "partial.h5"]).env_remove("HDF5_PLUGIN_PATH"));
    assert_eq!(without.stdout, json.stdout);
}

#[test]
fn inspect_says_which_chunk_is_damaged_and_how() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["damage", "damaged.h5"]));
    let words = &["the chunk at (2, 0) is damaged: stream is damaged at byte 4, in its checksum", "1 damaged chunk"];
    assert_says(&end_with(1, &mut quire(&sandbox, &["inspect", "damaged.h5"])), words);
    let chunks = end_with(1, &mut quire(&sandbox, &["inspect", "--chunks", "damaged.h5:/t"]));
    assert_eq!(chunks.stdout.lines().filter(|line| line.starts_with('(')).count(), 4);
    assert_says(&chunks, &["(2, 0)      damaged  stream is damaged"]);
    let json = end_with(1, &mut quire(&sandbox, &["inspect", "--json", "damaged.h5"]));
    let damaged = "[each['corner'] for each in value['datasets'][0]['chunks'] if each['error']], value['damaged']";
    assert_eq!(from_json(&sandbox, &json, damaged), "([[2, 0]], 1)");
}

#[test]
fn what_is_not_there_is_said_by_name() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["partial", "partial.h5"]));
    fs::write(sandbox.path("text"), "no HDF5").expect("written");
    let _ = succeed(sandbox.command("mkfifo").arg("pipe"));
    for command in ["inspect", "estimate"] {
        for (name, reason) in [
            ("pipe", "pipe: it is a folder, a pipe or a device, not a file"),
            (".", ".: it is a folder, a pipe or a device, not a file"),
            ("nowhere.h5", "nowhere.h5: there is no such file"),
            ("partial.h5:/nothing", "partial.h5:/nothing: the file has no dataset and no group of that name"),
            ("partial.h5/nothing", "partial.h5/nothing: the file has no dataset and no group of that name"),
            ("text", "text: it cannot be read as HDF5"),
        ] {
            assert_says(&end_with(1, &mut quire(&sandbox, &[command, name])), &[reason]);
        }
        assert_says(&end_with(2, &mut quire(&sandbox, &[command])), &["required arguments"]);
    }
}

#[test]
fn estimate_tries_bounds_and_shapes() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["make", "in.h5"]));
    let arguments = [
        "estimate",
        "in.h5:/fields",
        "--rel",
        "1e-2",
        "--rel",
        "1e-3",
        "--chunks",
        "20x25x60",
        "--chunks",
        "40x50x60",
        "--sample",
        "3",
    ];
    let table = succeed(&mut quire(&sandbox, &arguments));
    assert_says(
        &table,
        &["PSNR/dB", "largest error", "MB/s", "20x25x60", "3 of 4", "40x50x60", "1 of 1", "rel=1e-2", "rel=1e-3"],
    );
    let json = succeed(quire(&sandbox, &arguments).arg("--json"));
    let get = |expression: &str| from_json(&sandbox, &json, expression);
    let of_u = "[(each['options'], each['chunk_shape']) for each in value['trials'] if each['dataset'].endswith('/u')]";
    let tried =
        "[('rel=1e-2', [20, 25, 60]), ('rel=1e-3', [20, 25, 60]), ('rel=1e-2', [40, 50, 60]), ('rel=1e-3', [40, 50, 60])]";
    assert_eq!(get(of_u), tried);
    assert_eq!(
        get("all(each['ratio'] > 1 and each['compress_mb_s'] > 0 for each in value['trials'] if each['dataset'].endswith('/u'))"),
        "True"
    );
    // A smaller bound is a smaller error, and a higher PSNR.
    let ordered = "all(a['greatest_error'] > b['greatest_error'] > 0 and a['psnr'] < b['psnr'] and a['ratio'] > b['ratio'] for a, b in zip(value['trials'][::2], value['trials'][1::2]) if a['type'] == 'F32' and a['dataset'][-1] in 'uvw')";
    assert_eq!(get(ordered), "True");
    // Without bounds, a few usual ones; datasets of other types than numbers are skipped with the reason.
    let usual = succeed(&mut quire(&sandbox, &["estimate", "in.h5:/other", "-v"]));
    assert_says(&usual, &["rel=1e-4", "lossless", "exact", "skipped in.h5:/other/text: the dataset's elements are strings"]);
    // A bound that a type cannot have is a row that says so.
    let refused = end_with(1, &mut quire(&sandbox, &["estimate", "in.h5:/fields/whole", "--pwrel", "0.1", "--round-integers"]));
    assert_says(&refused, &["in.h5:/fields/whole at pwrel=1e-1: a point-wise relative bound is for floating-point types"]);
    assert_says(&end_with(1, &mut quire(&sandbox, &["estimate", "in.h5:/other/text"])), &["there is nothing to try"]);
    assert_says(&end_with(2, &mut quire(&sandbox, &["estimate", "in.h5", "--rel", "2"])), &["relative error bound is 2"]);
    assert_says(&end_with(2, &mut quire(&sandbox, &["estimate", "in.h5", "--chunks", "2x2x2x2x2"])), &["2x2x2x2x2 have 5 axes"]);
    assert_says(&end_with(2, &mut quire(&sandbox, &["estimate", "in.h5", "--chunks", "0"])), &["\"0\" is not a shape"]);
}

#[test]
fn repack_compresses_and_keeps_everything_else() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["make", "in.h5"]));
    let before = fs::read(sandbox.path("in.h5")).expect("in.h5");
    let done = succeed(&mut quire(&sandbox, &["repack", "in.h5", "out.h5", "--rel", "1e-3", "-v"]));
    assert_says(
        &done,
        &[
            "skipped /other/small: fewer bytes than --min-size=16384",
            "skipped /other/text: the dataset's elements are strings",
            "skipped /other/scalar: a scalar, which HDF5 cannot store in chunks",
            "skipped /other/no_values: it has no values",
            "skipped /scales/x: a dimension scale",
            "attribute \"to nothing\": 1 references lead to nothing",
            "verified: out.h5",
        ],
    );
    for python in Python::ALL {
        let mut check = sandbox.python(python, "command_line.py");
        assert_says(&succeed(check.args(["check", "in.h5", "out.h5", "1e-3"])), &["15 compressed datasets, all else the same"]);
    }
    assert!(before == fs::read(sandbox.path("in.h5")).expect("in.h5"), "the input was changed");
    assert_eq!(files(&sandbox, "out.h5"), ["out.h5"]);
    // Whoever may read other files may read this one.
    let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).expect("a file").permissions()) & 0o777;
    fs::write(sandbox.path("plain"), "").expect("written");
    assert_eq!(mode(&sandbox.path("out.h5")), mode(&sandbox.path("plain")));

    // Again, from what has the filter already: nothing is left to do.
    let again = end_with(1, &mut quire(&sandbox, &["repack", "out.h5", "again.h5", "--rel", "1e-3"]));
    assert_says(&again, &["and 14 more: compressed with this filter already", "there is nothing to compress"]);
    assert_eq!(files(&sandbox, "again"), [""; 0]);

    let json = succeed(&mut quire(
        &sandbox,
        &[
            "repack",
            "in.h5",
            "out.h5",
            "--force",
            "--json",
            "--abs",
            "0.01",
            "--only",
            "/fields/u",
            "--only",
            "other/compressed_before",
            "--chunks",
            "16x16x16",
        ],
    ));
    let get = |expression: &str| from_json(&sandbox, &json, expression);
    assert_eq!(
        get("[(each['path'], each['options'], each['chunk_shape']) for each in value['files'][0]['datasets']]"),
        "[('/fields/u', 'abs=1e-2', [16, 16, 16]), ('/other/compressed_before', 'abs=1e-2', [50, 50])]"
    );
    assert_eq!(
        get(
            "value['files'][0]['verified'], all(each['greatest_error'] <= 0.01 and each['ratio'] > 2 for each in value['files'][0]['datasets'])"
        ),
        "(True, True)"
    );
    assert_eq!(
        get("[each['output_bytes'] < each['input_bytes'] and len(each['skipped']) > 20 for each in value['files']]"),
        "[True]"
    );
    let inspected = succeed(&mut quire(&sandbox, &["inspect", "--json", "out.h5"]));
    assert_eq!(
        from_json(
            &sandbox,
            &inspected,
            "[(each['name'], len(each['chunks'])) for each in value['datasets'] if each['compressed']]"
        ),
        "[('out.h5:/fields/u', 48), ('out.h5:/other/compressed_before', 4)]"
    );
    // By their names, small ones and dimension scales too; and whole numbers, if they are to be.
    for (arguments, words) in [
        (&["--only", "/scales/x", "--rel", "1e-6"][..], "/scales/x"),
        (&["--only", "/other/small", "--psnr", "50"], "/other/small"),
        (&["--only", "/fields/whole", "--round-integers", "--abs", "5"], "abs=5e0"),
        (&["--only", "/fields/whole", "--abs", "5"], "lossless"),
        (&["--only", "/fields/half", "--pwrel", "0.1", "--coding", "bitshuffle"], "pwrel=1e-1,coding=bitshuffle"),
        (&["--only", "/fields", "--ratio", "10", "--abs", "0.5"], "ratio=10,abs=5e-1"),
        (&["--lossless"], "lossless"),
    ] {
        assert_says(&succeed(quire(&sandbox, &["repack", "in.h5", "out.h5", "--force"]).args(arguments)), &[words, "verified"]);
    }
}

#[test]
fn regions_of_a_file_in_pages_are_copied() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["regions", "in.h5"]));
    let done = succeed(&mut quire(&sandbox, &["repack", "in.h5", "out.h5", "--abs", "1e-3"]));
    assert_says(&done, &["verified: out.h5"]);
    let _ = succeed(&mut python(&sandbox, &["regions-check", "in.h5", "out.h5"]));
}

#[test]
fn a_brick_is_what_repack_estimate_and_args_take() {
    let sandbox = Sandbox::new();
    let _ = succeed(sandbox.python(Python::Hdf5_1_14, "bricks.py").arg("plain").arg(sandbox.path("in.h5")));
    let dataset = "in.h5:/boxes/compressed";
    let ratio = |options: &[&str]| {
        let report =
            succeed(quire(&sandbox, &["estimate", dataset, "--abs", "1e-3", "--chunks", "1536", "--json"]).args(options));
        let ratio = from_json(&sandbox, &report, "value['trials'][0]['ratio']");
        ratio.parse::<f64>().expect("a ratio")
    };
    let (plain, in_bricks) = (ratio(&[]), ratio(&["--brick", "8x8x8"]));
    assert!(in_bricks > 1.1 * plain, "ratio {in_bricks} in bricks, {plain} without");
    let cut = ["estimate", "in.h5:/cut", "--abs", "1e-3", "--chunks", "1536", "--brick", "8x8x8"];
    assert_says(&succeed(&mut quire(&sandbox, &cut)), &["3 of 3", "abs=1e-3,brick=8x8x8"]);
    let report =
        end_with(1, &mut quire(&sandbox, &["estimate", dataset, "--abs", "1e-3", "--chunks", "1500", "--brick", "8x8x8"]));
    assert_says(&report, &["a chunk has 1500 values, which are no whole number of the brick's rows of 8"]);

    let arguments =
        ["repack", "in.h5", "out.h5", "--only", "/boxes/compressed", "--abs", "1e-3", "--chunks", "1536", "--brick", "8x8x8"];
    assert_says(&succeed(&mut quire(&sandbox, &arguments)), &["abs=1e-3,brick=8x8x8", "verified"]);
    let _ = succeed(sandbox.python(Python::Hdf5_1_14, "bricks.py").arg("check").arg(sandbox.path("out.h5")));
    assert_says(&succeed(&mut quire(&sandbox, &["verify", "in.h5", "out.h5"])), &["brick=8x8x8"]);
    assert_says(&succeed(&mut quire(&sandbox, &["inspect", "out.h5"])), &["brick=8x8x8"]);

    let words = "50331649,8,8,8,3539053052,1062232653";
    assert_says(
        &succeed(&mut quire(&sandbox, &["args", "--abs", "1e-3", "--brick", "8x8x8"])),
        &[words, "50331650,8,8,8,3, which"],
    );
    assert_says(&succeed(&mut quire(&sandbox, &["args", words])), &["abs=1e-3,brick=8x8x8"]);
}

#[test]
fn the_largest_error_is_that_of_all_chunks() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["errors", "in.h5", "copy.h5"]));
    let check = |arguments: &[&str], copy: &str, datasets: usize| {
        let report = succeed(&mut quire(&sandbox, arguments));
        let said = hand_over(&sandbox, &report, &["errors-check", "in.h5", copy]);
        assert_eq!(said, format!("{datasets} largest errors are those of numpy"));
    };
    for jobs in ["1", "3"] {
        let way = ["--json", "--jobs", jobs];
        check(&[&["verify", "in.h5", "copy.h5", "--chunks"], &way[..]].concat(), "copy.h5", 24);
        let repack = [
            "repack",
            "in.h5",
            "packed.h5",
            "--only",
            "/**",
            "--abs",
            "0.5",
            "--set",
            "/integers:abs=30",
            "--round-integers",
            "--force",
        ];
        check(&[&repack, &way[..]].concat(), "packed.h5", 24);
        check(&[&["estimate", "in.h5:/floats", "--abs", "0.5"], &way[..]].concat(), "packed.h5", 18);
        let integers = ["estimate", "in.h5:/integers", "--abs", "30", "--round-integers"];
        check(&[&integers, &way[..]].concat(), "packed.h5", 6);
    }
}

#[test]
fn repack_writes_what_netcdf_reads() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["netcdf", "in.nc"]));
    assert_says(
        &succeed(&mut quire(&sandbox, &["repack", "in.nc", "out.nc", "--rel", "1e-3"])),
        &["/temperature", "/pressure", "verified"],
    );
    assert_says(&succeed(&mut python(&sandbox, &["netcdf-check", "in.nc", "out.nc", "1e-3"])), &["netCDF reads the copy"]);
    let shown = succeed(sandbox.command("ncdump").args(["-h", "-s", "out.nc"]));
    assert_says(&shown, &["time = UNLIMITED", "temperature:_Filter = \"33791,", "temperature:_FillValue = 1.e+20f"]);
}

#[test]
fn repack_leaves_out_what_was_never_written() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["sparse", "in.h5"]));
    let json = succeed(&mut quire(&sandbox, &["repack", "in.h5", "out.h5", "--abs", "1e-3", "--json"]));
    // Nor does an index of a million chunks stand there in their place, as newer forms of layout have it.
    assert_eq!(from_json(&sandbox, &json, "value['files'][0]['output_bytes'] < value['files'][0]['input_bytes'] / 4"), "True");
    assert_says(&succeed(&mut python(&sandbox, &["sparse-check", "in.h5", "out.h5"])), &["2 of 1000000 chunks"]);
}

#[test]
fn repack_refuses_what_would_harm_a_file() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["partial", "in.h5"]));
    fs::hard_link(sandbox.path("in.h5"), sandbox.path("link.h5")).expect("a link");
    fs::write(sandbox.path("there.h5"), "mine").expect("written");
    let _ = succeed(sandbox.command("mkfifo").arg("pipe"));
    let before = fs::read(sandbox.path("in.h5")).expect("in.h5");
    for (code, arguments, reason) in [
        (1, &["in.h5", "in.h5", "--force", "--abs", "1"][..], "in.h5 is the file that is to be read"),
        (1, &["in.h5", "./link.h5", "--force", "--abs", "1"], "./link.h5 is the file that is to be read"),
        (1, &["in.h5", "there.h5", "--abs", "1"], "there.h5 is there already: name another file, or give --force"),
        (1, &["in.h5", ".", "--force", "--abs", "1"], "./in.h5 is the file that is to be read"),
        (1, &["in.h5", "pipe", "--force", "--abs", "1", "--min-size", "0"], "pipe is a folder, a pipe or a device"),
        (1, &["pipe", "out.h5", "--abs", "1"], "pipe: it is a folder, a pipe or a device, not a file"),
        (1, &["in.h5", "nowhere/out.h5", "--abs", "1", "--min-size", "0"], "nowhere/out.h5: No such file"),
        (1, &["nowhere.h5", "out.h5", "--abs", "1"], "nowhere.h5: there is no such file"),
        (
            1,
            &["in.h5", "out.h5", "--abs", "1", "--only", "/nothing"],
            "in.h5:/nothing: the file has no dataset and no group of that name",
        ),
        (1, &["in.h5", "out.h5", "--abs", "1", "--chunks", "2x2x2"], "3 axes, which no dataset of in.h5 has"),
        (1, &["in.h5", "out.h5", "--abs", "1", "--min-size", "999999"], "there is nothing to compress"),
        (2, &["in.h5", "out.h5"], "no bound is given"),
        (2, &["in.h5", "out.h5", "--rel", "x"], "rel=x is not a number"),
        (2, &["in.h5", "out.h5", "--abs", "-1"], "absolute error bound is -1"),
        (2, &["in.h5", "--abs", "1"], "in.h5 is all that is named"),
    ] {
        assert_says(&end_with(code, quire(&sandbox, &["repack"]).args(arguments)), &[reason]);
    }
    let without = end_with(1, quire(&sandbox, &["repack", "in.h5", "out.h5", "--abs", "1"]).env_remove("HDF5_PLUGIN_PATH"));
    assert_says(&without, &["HDF5 does not find the filter 33791", "HDF5_PLUGIN_PATH", "quire doctor"]);
    let environment =
        end_with(1, quire(&sandbox, &["repack", "in.h5", "out.h5", "--abs", "1", "--min-size", "0"]).env("QUIRE_BACKEND", "gpu"));
    assert_says(&environment, &["QUIRE_BACKEND=gpu is unknown"]);
    assert_eq!(files(&sandbox, "out"), [""; 0]);
    assert!(fs::metadata(sandbox.path("pipe")).expect("pipe").file_type().is_fifo(), "the pipe was replaced");
    assert_eq!(fs::read(sandbox.path("there.h5")).expect("there.h5"), b"mine");
    assert!(before == fs::read(sandbox.path("in.h5")).expect("in.h5"), "the input was changed");
}

/// Runs `quire doctor` where one thing is wrong, which it says in one line.
fn doctor_finds_one_fault(command: &mut Command) -> Report {
    let report = end_with(1, command);
    assert_eq!(report.stdout.lines().filter(|line| line.starts_with("WRONG")).count(), 1, "{}", report.stdout);
    assert_says(&report, &["the filter does not work here"]);
    report
}

#[test]
fn doctor_says_what_is_found_and_what_is_wrong() {
    let sandbox = Sandbox::new();
    let plugin = sandbox.plugin_folder().join(plugin_tests::LIBRARY_NAME);
    let well = succeed(&mut quire(&sandbox, &["doctor"]));
    assert_says(
        &well,
        &[
            "is linked into this program",
            &format!("{}: filter 33791, quire", plugin.display()),
            "round trip",
            "streams of format 1.0",
            "the filter works here",
        ],
    );
    let json = succeed(&mut quire(&sandbox, &["doctor", "--json"]));
    assert_eq!(
        from_json(&sandbox, &json, "value['well'], [each['about'] for each in value['findings'] if each['state'] == 'wrong']"),
        "(True, [])"
    );
    assert_eq!(
        from_json(&sandbox, &json, "all(each['remedy'] for each in value['findings'] if each['state'] != 'well')"),
        "True"
    );

    let missing = doctor_finds_one_fault(quire(&sandbox, &["doctor"]).env("HDF5_PLUGIN_PATH", "/nowhere"));
    assert_says(
        &missing,
        &[
            "HDF5 looks into /nowhere, which is not a folder",
            "no folder of HDF5's has libh5zquire.so",
            "export HDF5_PLUGIN_PATH=",
        ],
    );
    let forbidden = doctor_finds_one_fault(quire(&sandbox, &["doctor"]).env("HDF5_PLUGIN_PRELOAD", "::"));
    assert_says(&forbidden, &["HDF5 is told to load no plugins", "-> unset HDF5_PLUGIN_PRELOAD"]);
    for (name, value, reason) in [
        ("QUIRE_BACKEND", "gpu", "QUIRE_BACKEND=gpu is unknown: the choices are auto, cpu, cuda"),
        ("QUIRE_DEVICE", "first", "QUIRE_DEVICE=first is not the number of a GPU"),
        ("QUIRE_DICTIONARY", "/nowhere/books", "QUIRE_DICTIONARY=/nowhere/books: it cannot be read"),
        ("QUIRE_THREADS", "all", "QUIRE_THREADS=all"),
    ] {
        assert_says(&doctor_finds_one_fault(quire(&sandbox, &["doctor"]).env(name, value)), &[reason]);
        let wrong = end_with(1, quire(&sandbox, &["doctor", "--json"]).env(name, value));
        let said =
            from_json(&sandbox, &wrong, "' '.join(each['text'] for each in value['findings'] if each['state'] == 'wrong')");
        assert!(said.contains(reason), "{said}");
    }
    // A device that no machine has.
    let forced = doctor_finds_one_fault(quire(&sandbox, &["doctor"]).env("QUIRE_BACKEND", "cuda").env("QUIRE_DEVICE", "63"));
    assert_says(&forced, &["the plugin can use neither GPU nor CPU: QUIRE_BACKEND=cuda, but ", "unset QUIRE_BACKEND"]);
    assert_says(
        &succeed(quire(&sandbox, &["doctor"]).env("QUIRE_BAKEND", "cpu")),
        &["QUIRE_BAKEND is set, but the filter has no such variable", "QUIRE_THREADS"],
    );
    let threads = succeed(quire(&sandbox, &["doctor"]).env("QUIRE_THREADS", "3"));
    assert_says(&threads, &["QUIRE_THREADS=3"]);
    assert!(!threads.stdout.contains("QUIRE_THREADS is set, but"), "{}", threads.stdout);

    let renamed = sandbox.plugin_folder().join("libother.so");
    fs::rename(&plugin, &renamed).expect("renamed");
    let found = succeed(&mut quire(&sandbox, &["doctor"]));
    assert_says(&found, &["note   plugin        no folder of HDF5's has libh5zquire.so", "the filter works here"]);
    fs::remove_file(&renamed).expect("removed");

    fs::write(&plugin, "no library").expect("written");
    let broken = doctor_finds_one_fault(&mut quire(&sandbox, &["doctor"]));
    assert_says(&broken, &["libh5zquire.so: it cannot be loaded", "file too short"]);
    let libc = succeed(
        sandbox.command("bash").args(["-c", "ldd $(command -v ldd >/dev/null && command -v bash) | grep -o '/[^ ]*libc.so.6'"]),
    );
    fs::copy(libc.stdout.trim(), &plugin).expect("copied");
    assert_says(
        &doctor_finds_one_fault(&mut quire(&sandbox, &["doctor"])),
        &["it has no symbol H5PLget_plugin_type: it is not a plugin of HDF5"],
    );
}

#[test]
fn doctor_says_what_keeps_hdf5_from_reading_a_file() {
    let sandbox = Sandbox::new();
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "unreadable.py").arg(sandbox.path("")));
    let well = succeed(&mut quire(&sandbox, &["doctor", "virtual.h5"]));
    assert_says(&well, &["the filters of all 1 datasets and of 3 sources of virtual ones", "the filter works here"]);

    // Without the plugin, the filter of each source is missing, not that of the virtual dataset.
    let without = end_with(1, quire(&sandbox, &["doctor", "virtual.h5"]).env("HDF5_PLUGIN_PATH", "/nowhere"));
    assert_says(&without, &["first.h5:/x and 2 more: HDF5 does not find quire here, and cannot read it", "HDF5_PLUGIN_PATH"]);

    // HDF5 reads fill values where a source is not there, which is no error.
    fs::rename(sandbox.path("second.h5"), sandbox.path("moved.h5")).expect("renamed");
    let gone = succeed(&mut quire(&sandbox, &["doctor", "virtual.h5"]));
    assert_says(
        &gone,
        &[
            "note   file          virtual.h5:/v: it is virtual",
            "gives fill values",
            "second.h5",
            "HDF5_VDS_PREFIX",
            "the filter works here",
        ],
    );
    fs::create_dir(sandbox.path("elsewhere")).expect("a folder");
    fs::rename(sandbox.path("moved.h5"), sandbox.path("elsewhere/second.h5")).expect("renamed");
    let found = succeed(quire(&sandbox, &["doctor", "virtual.h5"]).env("HDF5_VDS_PREFIX", "${ORIGIN}/elsewhere"));
    assert_says(&found, &["of 3 sources of virtual ones"]);

    let new = end_with(1, &mut quire(&sandbox, &["doctor", "new.h5"]));
    let remedy = "read it with a newer HDF5, as h5py's wheels have";
    assert_says(&new, &["new.h5:/new_form: HDF5 1.", "bad version number", remedy, "not all of these datasets can be read"]);
    assert!(!new.stdout.contains("name the folder of its plugin"), "{}", new.stdout);
    let newer = end_with(1, &mut quire(&sandbox, &["doctor", "newer.h5"]));
    assert_says(&newer, &["newer.h5", "bad superblock version number", remedy]);
}

#[test]
fn doctor_knows_the_variables_of_the_table_in_the_documents() {
    let sandbox = Sandbox::new();
    let variables: Vec<&str> = include_str!("../../docs/gpu.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `QUIRE_")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    assert!(variables.contains(&"THREADS"), "{variables:?}");
    let named = succeed(quire(&sandbox, &["doctor"]).env("QUIRE_BAKEND", "cpu").env("QUIRE_THREADS", "2"));
    let remedy = named.stdout.lines().find(|line| line.contains("the variables are")).expect("a remedy");
    assert!(variables.iter().all(|name| remedy.contains(&format!("QUIRE_{name}"))), "{remedy}");
    assert!(named.stdout.contains("QUIRE_THREADS=2") && !named.stdout.contains("QUIRE_THREADS is set"), "{}", named.stdout);
}
