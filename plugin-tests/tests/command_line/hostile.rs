//! The command line on hostile files: names that a terminal would obey or that are no UTF-8, damage that makes HDF5 crash. And runs that are ended.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use plugin_tests::{Python, Report, Sandbox, assert_says, command_line, end_in_order, end_with, shared_library, succeed};

use super::{files, python, quire};

/// `hostile_files.py` with arguments.
fn hostile(sandbox: &Sandbox, python: Python, arguments: &[&OsStr]) -> Command {
    let mut command = sandbox.python(python, "hostile_files.py");
    command.args(arguments).env("QUIRE_BACKEND", "cpu");
    command
}

/// What was printed is UTF-8 (a report has U+FFFD for what is not), and has no control characters but those that end lines.
fn assert_harmless(report: &Report) {
    for text in [&report.stdout, &report.stderr] {
        let harmful = |character: char| character.is_control() && character != '\n' || character == '\u{fffd}';
        assert!(!text.contains(harmful), "{text:?} would be obeyed by a terminal");
    }
}

fn name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[test]
fn names_of_any_bytes_are_taken_and_shown_escaped() {
    let sandbox = Sandbox::new();
    let input = name(b"in \x1b[31m\n\xff.h5");
    let _ = succeed(&mut hostile(&sandbox, Python::Hdf5_2_0, &["names".as_ref(), &input]));
    let of_input = |path: &[u8]| name(&[input.as_bytes(), path].concat());
    let field = of_input(b":/group \xfe\x07/field \x1b[31m\n\xff");
    let (shown, shown_field) = ("in \\x1b[31m\\n\\xff.h5", "/group \\xfe\\x07/field \\x1b[31m\\n\\xff");

    for (arguments, names) in [
        (&["inspect"][..], &[&input, &field, &of_input(b"/group \xfe\x07")][..]),
        (&["inspect", "--chunks"], &[&input, &field]),
        (&["inspect", "--json"], &[&input, &field]),
        (&["estimate", "--abs", "1e-3", "--json"], &[&field]),
        (&["estimate", "--abs", "1e-3", "--chunks", "8x8"], &[&field, &of_input(b"/group \xfe\x07/field \x1b[31m\n\xff")]),
    ] {
        for name in names {
            let report = succeed(quire(&sandbox, arguments).arg(name));
            assert_harmless(&report);
            // JSON has escapes of its own for all that is UTF-8.
            let json = "/group \\\\xfe\\u0007/field \\u001b[31m\\n\\\\xff";
            assert_says(&report, &[if arguments.contains(&"--json") { json } else { shown_field }]);
        }
    }

    let output = name(b"out \x1b[31m\n\xff.h5");
    let repacked = succeed(quire(&sandbox, &["repack", "--abs", "1e-3"]).args([&input, &output]));
    assert_harmless(&repacked);
    assert_says(
        &repacked,
        &[shown_field, "verified: out \\x1b[31m\\n\\xff.h5", "skipped /group \\xfe\\x07/small \\x9b\\xff: fewer bytes"],
    );
    for python in Python::ALL {
        let check = hostile(&sandbox, python, &["names-check".as_ref(), &input, &output]).output().expect("python");
        assert!(check.status.success(), "{python}: {}", String::from_utf8_lossy(&check.stderr));
    }
    let inspected = succeed(quire(&sandbox, &["inspect", "--chunks"]).arg(&output));
    assert_harmless(&inspected);
    assert_says(&inspected, &["out \\x1b[31m\\n\\xff.h5:/again \\xff: F32 64x128", "abs=1e-3"]);
    let only = succeed(
        quire(&sandbox, &["repack", "--abs", "1e-3", "--force", "--json", "--only"])
            .arg(name(b"group \xfe\x07"))
            .args([&input, &output]),
    );
    assert_harmless(&only);
    assert_eq!(only.stdout.matches("\"ratio\"").count(), 1);

    let books = name(b"books \x1b\xff");
    let trained = succeed(quire(&sandbox, &["train", "--options", "abs=1e-3", "--output"]).args([&books, &field]));
    assert_harmless(&trained);
    assert_says(&trained, &["1 dataset, 4 chunks at abs=1e-3"]);

    // What is not there, by each of them; the file's name and the path's.
    let missing = name(b"no \x1b[31m\n\xff.h5");
    for arguments in
        [&["inspect"][..], &["estimate"], &["train", "--options", "abs=1", "--output", "o"], &["repack", "--abs", "1", "o"]]
    {
        let mut command = quire(&sandbox, &arguments[..1]);
        // `repack` wants the input first.
        if arguments[0] == "repack" {
            command.arg(&missing).args(&arguments[1..]);
        } else {
            command.args(&arguments[1..]).arg(&missing);
        }
        let report = end_with(1, &mut command);
        assert_harmless(&report);
        assert_says(&report, &["error: no \\x1b[31m\\n\\xff.h5: there is no such file"]);
    }
    let report = end_with(1, quire(&sandbox, &["inspect"]).arg(of_input(b":/\x1b")));
    assert_harmless(&report);
    assert_says(&report, &[&format!("{shown}:/\\x1b: the file has no dataset and no group of that name")]);
}

#[test]
fn arguments_and_the_environment_are_shown_escaped() {
    let sandbox = Sandbox::new();
    for (code, arguments, reason) in [
        (2, &[&b"args"[..], b"abs=\x1b[31m\n"][..], "abs=\\x1b[31m is not a number"),
        (2, &[b"args", b"--\x1b[31m"], "'--\\x1b[31m'"),
        (2, &[b"args", b"abs=\xff"], "invalid UTF-8"),
        (2, &[b"\x1b[31m\nfly"], "'\\x1b[31m\\nfly'"),
        (2, &[b"completions", b"\x1b[31msh"], "'\\x1b[31msh'"),
        (1, &[b"man", b"\x1b[31mfly"], "no subcommand"),
        (2, &[b"estimate", b"in.h5", b"--chunks", b"\x1b[31m\n"], "is not a shape"),
        (2, &[b"repack", b"in.h5", b"out.h5", b"--rel", b"\x1b[31m"], "rel=\\x1b[31m is not a number"),
    ] {
        let report = end_with(code, quire(&sandbox, &[]).args(arguments.iter().map(|bytes| name(bytes))));
        assert_harmless(&report);
        assert_says(&report, &[reason]);
    }
    for (variable, value, shown) in [
        (
            &b"HDF5_PLUGIN_PATH"[..],
            &b"/nowhere \x1b[31m\xff"[..],
            "HDF5 looks into /nowhere \\x1b[31m\\xff, which is not a folder",
        ),
        (b"QUIRE_DICTIONARY", b"/nowhere \x1b[31m\n", "QUIRE_DICTIONARY=/nowhere \\x1b[31m\\n"),
        (b"QUIRE_BACKEND", b"\x1b[31m", "QUIRE_BACKEND=\\x1b[31m"),
    ] {
        for json in [&[][..], &["--json"]] {
            let report = end_with(1, quire(&sandbox, &["doctor"]).args(json).env(name(variable), name(value)));
            assert_harmless(&report);
            if json.is_empty() {
                assert_says(&report, &[shown]);
            }
        }
    }
    let report = succeed(quire(&sandbox, &["doctor"]).env(name(b"QUIRE_\x1b\xff"), "1"));
    assert_harmless(&report);
    assert_says(&report, &["QUIRE_\\x1b\\xff is set, but the filter has no such variable"]);
}

#[test]
fn files_that_make_hdf5_crash_are_errors_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let is_1_10_8 = succeed(&mut quire(&sandbox, &["doctor"])).stdout.contains("HDF5 1.10.8 is linked into this program");
    for number in ["0", "1", "2", "3"] {
        let made = succeed(&mut hostile(&sandbox, Python::Debian, &["crash".as_ref(), "in.h5".as_ref(), number.as_ref()]));
        for arguments in [
            &["repack", "in.h5", "out.h5", "--abs", "1e-3", "--min-size", "0"][..],
            &["inspect", "in.h5"],
            &["estimate", "in.h5", "--abs", "1"],
            &["train", "in.h5", "--options", "abs=1", "--output", "out.books"],
        ] {
            let report = end_in_order(&mut quire(&sandbox, arguments));
            assert_harmless(&report);
            if arguments[0] == "repack" && is_1_10_8 && made.stdout.contains("as recorded") {
                let said = "error: HDF5 crashed on reading in.h5 (signal 11, SIGSEGV): the file is probably damaged; out.h5 was not made";
                assert_says(&report, &[said]);
                assert_eq!(report.stdout, "");
            }
            let left = files(&sandbox, "out.");
            assert!(left.iter().all(|name| !name.ends_with(".part")), "{left:?} are left by {arguments:?} on file {number}");
        }
        let _ = fs::remove_file(sandbox.path("out.books"));
    }
}

/// A run of `quire` that is held at one of its steps by `hold.c`. It is not ended by `timeout`: signals meet the program itself.
struct Held {
    run: Child,
    /// The process that works, a child of `run`.
    worker: u32,
    by: PathBuf,
}

/// Where a run is held that has written all of its file, and has not given the file its name.
const AT_THE_END: u32 = 0;

impl Held {
    /// Starts a run and waits until it is held at a write, counted from 1, or [`AT_THE_END`]. `before` is a command that starts the run, with its arguments.
    fn new(sandbox: &Sandbox, at: u32, before: &[&str], arguments: &[&str]) -> Self {
        let by = sandbox.path(&format!("held{at}"));
        let quire = [command_line().to_str().expect("a path")];
        let words: Vec<&str> = [before, &quire, arguments].concat();
        let mut command = sandbox.endless_command(words[0]);
        command.args(&words[1..]).env("QUIRE_BACKEND", "cpu");
        command.env("LD_PRELOAD", shared_library(sandbox, "hold")).env("HOLD_AT", at.to_string()).env("HOLD_BY", &by);
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("quire could not be run");
        wait_until(|| by.exists() || run.try_wait().expect("a state").is_some());
        assert!(by.exists(), "it ended before: {:?}", run.wait_with_output());
        let worker = fs::read_to_string(&by).expect("readable").parse().expect("the number of a process");
        assert_ne!(worker, run.id());
        Self { run, worker, by }
    }

    /// How it ends, after it is let go.
    fn ended(self) -> (Output, Report) {
        // A process that has ended lets the file lie.
        let _ = fs::remove_file(self.by);
        let output = self.run.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let report = Report { stdout: text(&output.stdout), stderr: text(&output.stderr) };
        (output, report)
    }
}

/// Waits until something is so, however long that takes.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(1));
    }
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", name, &process.to_string()]).status().expect("kill").success());
}

fn is_gone(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn a_run_that_dies_or_is_ended_is_told_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["large", "in.h5"]));
    let arguments = ["repack", "in.h5", "out.h5", "--rel", "1e-4", "--json"];
    // The process that works crashes, or is killed by the system. (A SIGSEGV that is sent is no crash to Rust, which returns from it to see whether it comes
    // again.)
    for (name, said) in [
        ("ABRT", "error: HDF5 crashed on reading in.h5 (signal 6, SIGABRT): the file is probably damaged; out.h5 was not made"),
        (
            "KILL",
            "error: this program was ended on reading in.h5 (signal 9), as the system does where memory has run out; out.h5 was not made",
        ),
    ] {
        let held = Held::new(&sandbox, 20, &[], &arguments);
        signal(name, held.worker);
        let (output, report) = held.ended();
        assert_eq!(output.status.code(), Some(1), "{report:?}");
        assert_says(&report, &[said]);
        assert_eq!((report.stdout.as_str(), files(&sandbox, "out.h5")), ("", Vec::new()));
    }
    // The user ends it: both processes go, as one that had the signal's default.
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)] {
        let held = Held::new(&sandbox, 20, &[], &arguments);
        let worker = held.worker;
        signal(name, held.run.id());
        wait_until(|| is_gone(worker));
        let (output, report) = held.ended();
        assert_eq!(output.status.signal(), Some(number), "{report:?}");
        assert_eq!((report.stdout + &report.stderr, files(&sandbox, "out.h5")), (String::new(), Vec::new()));
    }
    // A file that was there before stays, and the error says so.
    fs::write(sandbox.path("out.h5"), "mine").expect("written");
    let held = Held::new(&sandbox, 20, &[], &[&arguments[..], &["--force"]].concat());
    signal("ABRT", held.worker);
    assert_says(&held.ended().1, &["out.h5 is as it was"]);
    assert_eq!(fs::read(sandbox.path("out.h5")).expect("out.h5"), b"mine");
}

#[test]
fn a_signal_that_the_caller_ignores_ends_no_run() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["large", "in.h5"]));
    let arguments = ["repack", "in.h5", "out.h5", "--rel", "1e-4"];
    // As `nohup quire`, and as `quire &` in a script.
    let ignoring = ["env", "--ignore-signal=HUP", "--ignore-signal=INT", "--ignore-signal=QUIT"];
    let held = Held::new(&sandbox, 20, &ignoring, &arguments);
    for name in ["HUP", "INT", "QUIT"] {
        // A terminal sends them to both processes.
        signal(name, held.worker);
        signal(name, held.run.id());
    }
    let (output, report) = held.ended();
    assert!(output.status.success(), "{report:?}");
    assert_says(&report, &["verified: out.h5"]);
    fs::remove_file(sandbox.path("out.h5")).expect("removed");
    let held = Held::new(&sandbox, 20, &ignoring, &arguments);
    signal("TERM", held.run.id());
    let worker = held.worker;
    wait_until(|| is_gone(worker));
    assert_eq!(held.ended().0.status.signal(), Some(15), "a signal that is not ignored");
    assert_eq!(files(&sandbox, "out.h5"), [""; 0]);
}

#[test]
fn the_next_run_removes_what_a_killed_one_has_left_but_not_what_another_is_writing() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["large", "in.h5"]));
    let arguments = ["repack", "in.h5", "out.h5", "--rel", "1e-4"];
    // A process that is killed cannot clean up: its worker ends with it, and the folder stays.
    let mut held = Held::new(&sandbox, 20, &[], &arguments);
    held.run.kill().expect("it could not be killed");
    let _ = held.run.wait().expect("it ends");
    wait_until(|| is_gone(held.worker));
    let left = files(&sandbox, "out.h5.");
    assert_eq!(left.len(), 1);
    // A run that takes its time still uses its folder.
    let held = Held::new(&sandbox, AT_THE_END, &[], &arguments);
    let in_use = files(&sandbox, "out.h5.");
    assert!(in_use.len() == 1 && in_use != left, "{in_use:?}");
    let _ = succeed(&mut quire(&sandbox, &["repack", "in.h5", "out.h5", "--only", "field0", "--rel", "1e-1"]));
    let mut expected = [&["out.h5".to_owned()][..], &in_use].concat();
    expected.sort();
    let mut there = files(&sandbox, "out.h5");
    there.sort();
    assert_eq!(there, expected);
    let first = fs::read(sandbox.path("out.h5")).expect("out.h5");
    // The run that goes on finds a file of that name, which it must not replace.
    let (output, report) = held.ended();
    assert_eq!(output.status.code(), Some(1), "{report:?}");
    assert_says(&report, &["error: out.h5: ", "exists"]);
    assert_eq!(files(&sandbox, "out.h5"), ["out.h5"]);
    assert!(first == fs::read(sandbox.path("out.h5")).expect("out.h5"), "the first file was changed");
}

#[test]
fn a_repack_that_is_killed_or_has_no_room_leaves_nothing_under_the_name() {
    let sandbox = Sandbox::new();
    let _ = succeed(&mut python(&sandbox, &["large", "in.h5"]));
    let arguments = ["repack", "in.h5", "out.h5", "--rel", "1e-4"];
    for at in [1, 10, 100, AT_THE_END] {
        let mut held = Held::new(&sandbox, at, &[], &arguments);
        held.run.kill().expect("it could not be killed");
        let _ = held.run.wait().expect("it ends");
        wait_until(|| is_gone(held.worker));
        assert!(!sandbox.path("out.h5").exists());
        for left in files(&sandbox, "out.h5.") {
            fs::remove_dir_all(sandbox.path(&left)).expect("removed");
        }
    }
    // A file that can grow no further is an error that is said, and nothing is left.
    let limited = format!("trap '' XFSZ; ulimit -f 2000; exec {} {}", command_line().display(), arguments.join(" "));
    let mut command = sandbox.command("bash");
    assert_says(&end_with(1, command.args(["-c", &limited]).env("QUIRE_BACKEND", "cpu")), &["error: "]);
    assert_eq!(files(&sandbox, "out.h5"), [""; 0]);
    assert_says(&succeed(&mut quire(&sandbox, &arguments)), &["verified: out.h5"]);
    assert_eq!(files(&sandbox, "out.h5"), ["out.h5"]);
}
