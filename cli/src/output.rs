//! What the program prints. All lines but those of help, completions and manuals go through [`say`] and [`complain`], which escape control characters.

use std::fmt::{Display, Write as _};
use std::io::{Write as _, stdout};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};

use crate::names::{Name, escape, is_obeyed};

/// The result of a command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No problem was found.
    Done,
    /// It found a problem and reported it.
    Wrong,
}

/// Prints a value as indented JSON. Infinity and NaN, which JSON lacks, become null.
pub(crate) fn print_json(value: impl Serialize) {
    print(&json_text(&json!(value)));
}

/// JSON escapes control characters up to U+001F. This escapes all other characters that a terminal may act on, too.
fn json_text(value: &Value) -> String {
    let mut text = String::new();
    for character in format!("{value:#}").chars() {
        if is_obeyed(character) && character != '\n' {
            // Writing to a string does not fail. All of them lie below U+10000.
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    text
}

/// Prints a line to standard output.
pub(crate) fn say(line: impl Display) {
    print(&escape(line.to_string().as_bytes()));
}

fn print(text: &str) {
    if let Err(error) = writeln!(stdout(), "{text}") {
        complain(format_args!("error: standard output: {error}"));
        std::process::exit(1);
    }
}

/// Prints a line to standard error.
pub(crate) fn complain(line: impl Display) {
    // A failure is ignored: if standard error is closed, nobody can be told.
    let _ = writeln!(std::io::stderr(), "{}", escape(line.to_string().as_bytes()));
}

/// A line for each different text about named things, with the first name and the number of others: `skipped /a and 2 more: it has no values`.
pub(crate) fn grouped(word: &str, said: &[(Name, String)]) -> Vec<String> {
    let mut groups: Vec<(&Name, &str, usize)> = Vec::new();
    for (name, text) in said {
        match groups.iter_mut().find(|(_, known, _)| known == text) {
            Some((.., more)) => *more += 1,
            None => groups.push((name, text, 0)),
        }
    }
    let line = |&(name, text, more): &(&Name, &str, usize)| match more {
        0 => format!("{word} {name}: {text}"),
        more => format!("{word} {name} and {more} more: {text}"),
    };
    groups.iter().map(line).collect()
}

/// Datasets that a command leaves out, each with the reason.
#[derive(Debug, Default)]
pub(crate) struct Skipped(pub(crate) Vec<(Name, String)>);

impl Skipped {
    pub(crate) fn add(&mut self, name: Name, reason: &anyhow::Error) {
        self.0.push((name, format!("{reason:#}")));
    }

    /// A line for each reason, with the first dataset that it holds for and the number of others; or, if `is_verbose`, a line for each dataset.
    pub(crate) fn lines(&self, is_verbose: bool) -> Vec<String> {
        if is_verbose {
            return self.0.iter().map(|(name, reason)| format!("skipped {name}: {reason}")).collect();
        }
        let mut lines = grouped("skipped", &self.0);
        if lines.len() < self.0.len() {
            lines.push(format!("{} datasets are skipped; -v lists all of them", self.0.len()));
        }
        lines
    }

    /// Paths and reasons as JSON.
    pub(crate) fn json(&self) -> Value {
        self.0.iter().map(|(path, reason)| json!({ "path": path, "reason": reason })).collect()
    }
}

/// Prints a table with a heading; without rows nothing. Columns are as wide as their widest cell; the first is aligned left, all others right. The last cell of
/// a row that has fewer cells than the heading is a note of any length.
pub(crate) fn print_table(heading: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let is_note = |row: &[String], column: usize| row.len() < heading.len() && column + 1 == row.len();
    let heading_row = heading.iter().map(|&cell| cell.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading_row).chain(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| !is_note(row, column)).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ if is_note(row, column) => cell.clone(),
            _ => format!("{cell:>width$}"),
        });
        say(cells.collect::<Vec<_>>().join("  "));
    }
}

/// A cell for what may be missing.
pub(crate) fn or_dash(cell: Option<impl Display>) -> String {
    cell.map_or_else(|| "-".to_owned(), |cell| cell.to_string())
}

/// A progress bar, shown only on a terminal. `unit` names the counted things.
pub(crate) fn progress(length: u64, unit: &str) -> ProgressBar {
    let template = match unit {
        "bytes" => "{wide_bar} {bytes}/{total_bytes}, {eta} left {msg}".to_owned(),
        unit => format!("{{wide_bar}} {{pos}}/{{len}} {unit}, {{eta}} left {{msg}}"),
    };
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_shows_every_character_that_a_terminal_obeys_as_an_escape() {
        let value = json!({ "a\u{1b}": "\u{7f}\u{9b}31m\u{202e}\n\"\u{fc}\u{1f600}" });
        let text = json_text(&value);
        assert_eq!(text, "{\n  \"a\\u001b\": \"\\u007f\\u009b31m\\u202e\\n\\\"\u{fc}\u{1f600}\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn a_reason_is_one_line_with_a_count() {
        let skipped = Skipped(
            [("/a", "small"), ("/b", "text"), ("/c", "small"), ("/d", "small")]
                .map(|(name, reason)| (name.into(), reason.into()))
                .into(),
        );
        let lines = ["skipped /a and 2 more: small", "skipped /b: text", "4 datasets are skipped; -v lists all of them"];
        assert_eq!(skipped.lines(false), lines);
        assert_eq!(skipped.lines(true)[3], "skipped /d: small");
        assert_eq!((skipped.lines(true).len(), Skipped::default().lines(false).len()), (4, 0));
    }
}
