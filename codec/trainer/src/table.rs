//! Tables as text.

use std::fmt::Write;

/// A table whose first column is aligned left, and whose other columns are aligned right.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with the name of its first column, and those of the others.
    #[must_use]
    pub fn new(first: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(first, names.into_iter().map(Into::into));
        table
    }

    /// Appends a row.
    pub fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }

    /// The table as lines, under a title.
    #[must_use]
    pub fn to_text(&self, title: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = format!("{title}\n\n");
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = if column == 0 { write!(line, "{cell:<width$}") } else { write!(line, "  {cell:>width$}") };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

/// A compression ratio.
#[must_use]
pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// A share in percent.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Geometric mean. 0 if there are no values.
#[must_use]
pub fn geomean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = values.into_iter().fold((0, 0.0), |(count, sum), value| (count + 1, sum + libm::log(value)));
    if count == 0 { 0.0 } else { libm::exp(sum / f64::from(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new("books", ["ratio"]);
        table.row("5", [ratio(12.345)]);
        table.row("100", [percent(0.5)]);
        assert_eq!(
            table.to_text("title"),
            "title\n\nbooks    ratio\n5        12.35\n100    50.00 %\n\n".replace("12.35", &ratio(12.345))
        );
    }

    #[test]
    fn geometric_means_are_right() {
        assert!((geomean([2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert_eq!(geomean([]), 0.0);
    }
}
