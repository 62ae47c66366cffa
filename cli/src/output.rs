//! What the program prints, and the files that it writes.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use tempfile::{Builder, NamedTempFile};

/// How a command ended that did what it was to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Done,
    /// It found something wrong, and has said what.
    Wrong,
}

/// Prints a value as JSON, on lines that a person can read as well.
pub(crate) fn print_json(value: &Value) {
    println!("{value:#}");
}

/// A number for JSON, which has no infinity and no NaN: null stands for them.
pub(crate) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Rows of text under a heading, in columns as wide as their widest cell: the first to the left, all others to the right.
#[derive(Debug)]
pub(crate) struct Table {
    /// Cells, and what stands behind them without a column of its own.
    rows: Vec<(Vec<String>, String)>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![(heading.iter().map(|&cell| cell.to_owned()).collect(), String::new())] }
    }

    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push((row, String::new()));
    }

    /// Adds a row that ends with a text which may be long.
    pub(crate) fn push_with_text(&mut self, row: Vec<String>, text: String) {
        self.rows.push((row, text));
    }

    pub(crate) fn print(&self) {
        let columns = self.rows.iter().map(|(row, _)| row.len()).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|(row, _)| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for (row, text) in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let mut line: Vec<String> = cells
                .map(|(column, (cell, &width))| if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") })
                .collect();
            line.push(text.clone());
            println!("{}", line.join("  ").trim_end());
        }
    }
}

/// A bar on the terminal, if there is one. `unit` is what is counted.
pub(crate) fn progress(length: u64, unit: &str) -> ProgressBar {
    let template = match unit {
        "bytes" => "{wide_bar} {bytes}/{total_bytes}, {eta} left {msg}".to_owned(),
        unit => format!("{{wide_bar}} {{pos}}/{{len}} {unit}, {{eta}} left {{msg}}"),
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// A file in the folder of `path`, to be given its name by [`keep`] when it is whole; else it goes with the value.
///
/// # Errors
/// With the path.
pub(crate) fn begin(path: &Path) -> Result<NamedTempFile, String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = path.file_name().ok_or_else(|| format!("{}: it names no file", path.display()))?.to_owned();
    prefix.push(".");
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(".part");
    // The user's umask, not the temporary file's own caution, says who may read it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder).map_err(|error| format!("{}: {error}", path.display()))
}

/// Gives a file its name once all of it is on the disk. Another of that name is replaced if `force` says so.
///
/// # Errors
/// With the path.
pub(crate) fn keep(file: NamedTempFile, path: &Path, force: bool) -> Result<(), String> {
    let refused = |error: std::io::Error| format!("{}: {error}", path.display());
    // Opened anew: HDF5 has written through a descriptor of its own.
    File::open(file.path()).and_then(|written| written.sync_all()).map_err(refused)?;
    let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
    let kept = match kept {
        // Not every file system can rename without replacing; there, looking first is what is left.
        Err(error) if error.error.kind() != ErrorKind::AlreadyExists && path.symlink_metadata().is_err() => {
            error.file.persist(path)
        }
        kept => kept,
    };
    kept.map(|_| ()).map_err(|error| refused(error.error))
}
