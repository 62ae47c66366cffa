//! The list of datasets that a command leaves out.

use crate::names::Name;
use crate::output::grouped;

/// The datasets that are skipped, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Skipped(pub(crate) Vec<(Name, String)>);

impl Skipped {
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
