//! The table of stages at the head of `codec/src/lib.rs` names the files that there are, and documents name none that is gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files below a folder, by their paths from it, in which `/` separates names.
fn files(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push(name);
        }
    }
}

/// What stands between backticks and ends as a file of code does.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| [".rs", ".cu", ".cuh"].iter().any(|ending| name.ends_with(ending)))
}

#[test]
fn every_file_has_one_row() {
    let head = fs::read_to_string(root().join("codec/src/lib.rs")).unwrap();
    let table: Vec<&str> =
        head.lines().skip_while(|line| *line != "//! # Stages").take_while(|line| line.starts_with("//!")).collect();
    assert!(table.len() > 10, "the table is at the head of lib.rs");
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    // Of the sentences around the table, those that list files begin with "Without a stage".
    let listed = table.iter().skip_while(|line| !line.starts_with("//! |"));
    for name in listed.flat_map(|line| names(line)) {
        *rows.entry(name).or_default() += 1;
    }
    let twice: Vec<_> = rows.iter().filter(|&(_, &count)| count != 1).collect();
    assert!(twice.is_empty(), "in more than one row: {twice:?}");

    let mut present = Vec::new();
    files(&root().join("codec/src"), "", &mut present);
    files(&root().join("gpu/kernels"), "", &mut present);
    // Parts of a module go with it.
    present.retain(|name| name.matches('/').count() < 2);
    let missing: Vec<_> = present.iter().filter(|name| !rows.contains_key(name.as_str())).collect();
    assert!(missing.is_empty(), "in no row: {missing:?}");
    let gone: Vec<_> = rows.keys().filter(|&&name| !present.iter().any(|file| file == name)).collect();
    assert!(gone.is_empty(), "in a row, but not there: {gone:?}");
}

#[test]
fn documents_name_files_that_exist() {
    let mut documents = Vec::new();
    for folder in ["docs", "gpu/kernels", "gpu/src", "codec/src", "codec/tests", "filter/src"] {
        files(&root().join(folder), &format!("{folder}/"), &mut documents);
    }
    documents.extend(["README.md", "FORMAT.md"].map(str::to_owned));
    let mut count = 0;
    for document in documents.iter().filter(|name| [".md", ".rs", ".cu", ".cuh"].iter().any(|ending| name.ends_with(ending))) {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for folder in ["codec/src/", "gpu/kernels/", "gpu/src/"] {
            for (at, _) in text.match_indices(folder) {
                let rest = &text[at..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_/.".contains(c))).unwrap_or(rest.len());
                let path = rest[..end].trim_end_matches('.');
                assert!(root().join(path).exists(), "{document} names {path}");
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count} names were found");
}
