//! Two readers that share no code with the plugin.

use std::path::{Path, PathBuf};

use plugin_tests::{Python, Sandbox, assert_says, end_with, repository, succeed};

#[test]
fn samples_have_every_value_of_every_dimension() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "sampling.py").arg("check"));
        assert!(report.stdout.contains("samples have every value"), "{}", report.stdout);
    }
}

#[test]
fn the_python_decoder_and_the_plugin_agree_on_whatever_they_are_given() {
    let sandbox = Sandbox::new();
    let report = succeed(&mut sandbox.python(Python::Hdf5_2_0, "decoder_matrix.py"));
    println!("{}", report.stdout);
    assert!(report.stdout.contains(" 0 disagreements with"), "{}", report.stdout);
}

#[test]
fn the_python_decoder_agrees_with_the_table_of_streams() {
    let sandbox = Sandbox::new();
    let folder = repository().join("streams");
    for python in Python::ALL {
        let report = succeed(sandbox.python(python, "streams.py").arg(&folder));
        assert_says(&report, &[" faulty; 0 disagreements"]);
        // The table has what the scripts make of the streams today, and no file is missing.
        let report = succeed(sandbox.python(python, "write_streams.py").arg(&folder).arg("--check"));
        assert_says(&report, &[" 0 of them missing; the table is as it should be"]);
    }
}

/// Columns of the table of streams.
const VALUES_CRC: usize = 6;
const SECTION: usize = 8;

/// Makes a folder of two streams whose table is wrong: other values, and a section that a valid stream is said to break.
fn write_wrong_table(lines: &[&str], streams: &Path, folder: &Path) {
    let mut table = vec![lines[0].to_owned()];
    for (of, column, text) in [("valid/", VALUES_CRC, "00000000"), ("uncommon/", SECTION, "4")] {
        let line = lines.iter().find(|line| line.starts_with(of)).expect("a stream of the folder");
        let mut fields: Vec<&str> = line.split(';').collect();
        fields[column] = text;
        std::fs::create_dir_all(folder.join(of)).expect("no folder");
        std::fs::copy(streams.join(fields[0]), folder.join(fields[0])).expect("the stream could not be copied");
        table.push(fields.join(";"));
    }
    std::fs::write(folder.join("streams.csv"), table.join("\n") + "\n").expect("no table");
}

#[test]
fn the_reader_in_c_agrees_with_the_table_of_streams_and_stands_damaged_ones() {
    let sandbox = Sandbox::new();
    let (streams, out, wrong) = (repository().join("streams"), sandbox.path("reader"), sandbox.path("wrong"));
    let mut make = sandbox.command("make");
    make.arg("-C").arg(streams.join("reader")).arg(format!("OUT={}", out.display()));
    let _ = succeed(make.args(["all", "CC=gcc", "WARNINGS=-Wall -Wextra -Wconversion -pedantic -Werror"]));

    let table = std::fs::read_to_string(streams.join("streams.csv")).expect("no table");
    let lines: Vec<&str> = table.lines().collect();
    let faulty = lines.iter().filter(|line| line.starts_with("faulty/")).count();
    let all_right = format!("{} valid streams, {faulty} faulty ones: 0 went wrong", lines.len() - 1 - faulty);
    write_wrong_table(&lines, &streams, &wrong);
    for program in ["read_streams", "read_streams_checked"] {
        let report = succeed(sandbox.command(out.join(program)).arg(&streams));
        assert_says(&report, &[&all_right]);
        // The program would say it if anything was wrong.
        let report = end_with(1, sandbox.command(out.join(program)).arg(&wrong));
        assert_says(&report, &["the values are not those of the table", "a faulty stream was not refused", ": 2 went wrong"]);
        // Of plugin-tests/py/random_streams.py.
        match std::env::var_os("QUIRE_STREAMS") {
            Some(folder) => assert_says(&succeed(sandbox.command(out.join(program)).arg(folder)), &[": 0 went wrong"]),
            None => println!("no random streams: QUIRE_STREAMS is not set"),
        }
    }

    let mut files: Vec<PathBuf> =
        lines[1..].iter().map(|line| streams.join(line.split(';').next().unwrap_or_default())).collect();
    files.sort();
    let seed = std::env::var("QUIRE_SEED").unwrap_or_else(|_| "1".to_owned());
    let report = succeed(sandbox.command(out.join("mutate")).args([&seed, "100000"]).args(&files));
    println!("seed {seed}: {}", report.stdout);
    assert_says(&report, &["100000 damaged streams, "]);
    assert!(!report.stdout.contains(", 0 of them accepted"), "{}", report.stdout);
}
