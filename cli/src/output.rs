//! What the program prints. All lines but those of help, completions and manuals go through [`say`] and [`complain`], which escape control characters.

use std::fmt::{Display, Write as _};
use std::io::{Write as _, stdout};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::names::{Name, escape, is_obeyed};

/// The result of a command that ran to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No problem was found.
    Done,
    /// It found a problem and reported it.
    Wrong,
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &Value) {
    print(&json_text(value));
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

/// A number for JSON; infinity and NaN, which JSON lacks, become null.
pub(crate) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A table with a heading. Columns are as wide as their widest cell; the first is aligned left, all others right.
#[derive(Debug)]
pub(crate) struct Table {
    /// The cells of each row, and a note after the last column.
    rows: Vec<(Vec<String>, String)>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![(heading.iter().map(|&cell| cell.to_owned()).collect(), String::new())] }
    }

    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push((row, String::new()));
    }

    /// Adds a row with a note of any length after its last cell.
    pub(crate) fn push_with_text(&mut self, row: Vec<String>, text: String) {
        self.rows.push((row, text));
    }

    /// Prints heading and rows; without rows nothing.
    pub(crate) fn print(&self) {
        if self.rows.len() == 1 {
            return;
        }
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
            say(line.join("  ").trim_end());
        }
    }
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
    use serde_json::json;

    use super::*;

    #[test]
    fn json_shows_every_character_that_a_terminal_obeys_as_an_escape() {
        let value = json!({ "a\u{1b}": "\u{7f}\u{9b}31m\u{202e}\n\"\u{fc}\u{1f600}" });
        let text = json_text(&value);
        assert_eq!(text, "{\n  \"a\\u001b\": \"\\u007f\\u009b31m\\u202e\\n\\\"\u{fc}\u{1f600}\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
