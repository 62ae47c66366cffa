//! Codebooks besides the built-in ones: `quire train`, `QUIRE_DICTIONARY`, `adapt=history`.

use std::path::Path;
use std::process::Command;

use plugin_tests::{Python, Report, Sandbox, assert_says, command_line, end_in_order, succeed};

/// `dictionary.py`, with or without a dictionary.
fn client(sandbox: &Sandbox, python: Python, what: &str, file: &Path, dictionary: Option<&Path>) -> Command {
    let mut command = sandbox.python(python, "dictionary.py");
    command.arg(what).arg(file).env_remove("QUIRE_DICTIONARY").env("QUIRE_BACKEND", "cpu");
    if let Some(dictionary) = dictionary {
        command.env("QUIRE_DICTIONARY", dictionary).env("QUIRE_LOG", "1");
    }
    command
}

/// Chunks with a custom book, different books, and bytes of a dataset, as `dictionary.py` prints them.
fn counts(report: &Report, dataset: &str) -> [usize; 3] {
    let line = report.stdout.lines().find(|line| line.starts_with(dataset)).expect("a line for the dataset");
    let numbers: Vec<usize> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [custom, _chunks, different, bytes] = numbers[..] else { panic!("{line}") };
    [custom, different, bytes]
}

#[test]
fn books_of_other_chunks_are_taken_and_files_need_none_of_them() {
    let sandbox = Sandbox::new();
    let (sample, books) = (sandbox.path("sample.h5"), sandbox.path("books"));
    let _ = succeed(&mut client(&sandbox, Python::Hdf5_2_0, "make", &sample, None));
    let trained =
        succeed(sandbox.command(command_line()).args(["train", "--options", "abs=0.01", "--output"]).arg(&books).arg(&sample));
    assert_says(&trained, &["1 dataset, 24 chunks at abs=0.01", "with such a dictionary"]);
    for python in Python::ALL {
        let file = sandbox.path("written.h5");
        let without = succeed(&mut client(&sandbox, python, "write", &file, None));
        assert_says(&succeed(&mut client(&sandbox, python, "read", &file, None)), &["read: done"]);
        let [[custom, different, bytes], [with_history, of_history, bytes_of_history]] =
            ["/plain", "/history"].map(|name| counts(&without, name));
        // Without a history each chunk builds its own; with one, those of two kinds are taken again and again.
        assert!(custom == 24 && different > 8, "{}", without.stdout);
        assert!(with_history == 24 && of_history < 6 && bytes_of_history * 100 < bytes * 102, "{}", without.stdout);

        let with = succeed(&mut client(&sandbox, python, "write", &file, Some(&books)));
        assert_says(&with, &["write: done", "more codebooks: ", "sample.h5 at abs=0.01"]);
        for [custom, different, bytes_with] in ["/plain", "/history"].map(|name| counts(&with, name)) {
            assert!(custom == 24 && different < 6 && bytes_with * 100 < bytes * 102, "{}", with.stdout);
        }
        assert_says(&succeed(&mut client(&sandbox, python, "read", &file, None)), &["read: done"]);
    }
}

#[test]
fn a_dictionary_that_is_none_is_refused_where_data_are_written_and_nowhere_else() {
    let sandbox = Sandbox::new();
    let (written, other) = (sandbox.path("written.h5"), sandbox.path("other.h5"));
    let _ = succeed(&mut client(&sandbox, Python::Hdf5_2_0, "write", &written, None));
    for (dictionary, reason) in
        [(sandbox.path("missing"), "it cannot be read"), (written.clone(), "it is not a dictionary of codebooks")]
    {
        for python in Python::ALL {
            let report = end_in_order(&mut client(&sandbox, python, "create", &other, Some(&dictionary)));
            let named = format!("QUIRE_DICTIONARY={}: {reason}", dictionary.display());
            assert_says(&report, &["create: error: ", &named, "unset it to do without"]);
            assert_says(&succeed(&mut client(&sandbox, python, "read", &written, Some(&dictionary))), &["read: done"]);
        }
    }
}

#[test]
fn training_says_what_it_cannot_use_and_leaves_no_half_file() {
    let sandbox = Sandbox::new();
    let sample = sandbox.path("sample.h5");
    let _ = succeed(&mut client(&sandbox, Python::Hdf5_2_0, "make", &sample, None));
    let train = |arguments: &[&str]| end_in_order(sandbox.command(command_line()).arg("train").args(arguments));
    let sample = sample.to_string_lossy();
    let output = sandbox.path("books");
    let output = output.to_string_lossy();
    for (arguments, reason) in [
        (&["--options", "abs=-1", "-o", &output, &sample][..], "absolute error bound is -1"),
        (&["--options", "abs=1", "-o", &output, "nowhere.h5"], "nowhere.h5: "),
        (
            &["--options", "abs=1", "-o", &output, &format!("{sample}:/nothing")],
            ":/nothing: the file has no dataset and no group of that name",
        ),
        (&["--options", "pwrel=0.1", "--chunks", "0", "-o", &output, &sample], "\"0\" is not a shape"),
        (&["-o", &output, &sample], "--options"),
    ] {
        assert_says(&train(arguments), &[reason]);
    }
    assert!(!Path::new(&*output).exists());
    let refused = train(&["--options", "abs=0.01", "-o", "/nowhere/books", &sample]);
    assert_says(&refused, &["/nowhere/books: "]);
}
