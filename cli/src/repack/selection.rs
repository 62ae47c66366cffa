//! The datasets that `--only` and `--set` name: by a path, or by a pattern of paths.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use quire_codec::options;

use crate::datasets::{Named, find_in};
use crate::library::links::Token;
use crate::library::system;
use crate::names::Name;

/// Datasets of one file.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// All that are selected.
    pub(super) all: HashSet<Token>,
    /// Those that are named by their own path, not by a group's or a pattern.
    pub(super) named: HashSet<Token>,
}

impl Selection {
    /// Adds what a path or pattern selects among the datasets of the file. A group's path selects the datasets below it.
    ///
    /// # Errors
    /// If it selects nothing.
    pub(super) fn add(&mut self, path: &OsStr, input: &Path, datasets: &[Named]) -> Result<()> {
        let path = from_root(path.as_encoded_bytes());
        if path.as_bytes().iter().any(|byte| b"*?".contains(byte)) {
            let selected = datasets.iter().filter(|named| is_selected(path.as_bytes(), named.path.as_bytes()));
            let tokens: Vec<Token> = selected.map(|named| named.token).collect();
            ensure!(!tokens.is_empty(), "{}: the file has no dataset of such a path", path.in_file(input));
            self.all.extend(tokens);
            return Ok(());
        }
        let found = find_in(input, &path, &path.in_file(input))?;
        self.named.extend(found.iter().filter(|named| named.is_named).map(|named| named.token));
        self.all.extend(found.iter().map(|named| named.token));
        Ok(())
    }
}

/// A path that may lack the slash at its beginning.
fn from_root(path: &[u8]) -> Name {
    let below_root = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    Name::new([b"/", &path[below_root..]].concat())
}

/// Whether a pattern matches a path or a group above it.
fn is_selected(pattern: &[u8], path: &[u8]) -> bool {
    let ends = (1..path.len()).filter(|&at| path[at] == b'/').chain([path.len()]);
    ends.into_iter().any(|end| matches(pattern, &path[..end]))
}

/// `*` is any part of a name, `**` any part of a path, `?` any byte of a name.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| matches(rest, &path[at..])),
        [b'*', rest @ ..] => {
            let name = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
            (0..=name).any(|at| matches(rest, &path[at..]))
        }
        [b'?', rest @ ..] => path.split_first().is_some_and(|(&byte, path)| byte != b'/' && matches(rest, path)),
        [byte, rest @ ..] => path.split_first().is_some_and(|(first, path)| first == byte && matches(rest, path)),
    }
}

/// A bound for some datasets, as `--set` gives it.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) path: OsString,
    /// Canonical options; `None` leaves the datasets alone.
    pub(super) options: Option<String>,
}

/// Parses `PATH:OPTIONS`.
///
/// # Errors
/// Says what is invalid, and how it is written.
pub(super) fn setting(text: &OsStr) -> Result<Setting> {
    let (bytes, shown) = (text.as_encoded_bytes(), Name::from(text));
    let colon = bytes.iter().rposition(|&byte| byte == b':').filter(|&colon| colon > 0);
    let colon = colon.with_context(|| format!("--set {shown}: give PATH:OPTIONS, as in /t:abs=0.01"))?;
    let given = std::str::from_utf8(&bytes[colon + 1..]).ok();
    let given = given.with_context(|| format!("--set {shown}: its options are no text"))?;
    let parsed = (given != "none").then(|| options::parse(given)).transpose();
    let options = parsed.with_context(|| format!("--set {shown}"))?.map(|options| options::format(&options));
    Ok(Setting { path: system::os_str(&bytes[..colon]).to_owned(), options })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_paths_and_what_lies_below() {
        for (pattern, path, is_match) in [
            ("/*", "/t", true),
            ("/*", "/group/t", true),
            ("/*t", "/group/t", false),
            ("/**t", "/group/t", true),
            ("/group/*", "/group/t", true),
            ("/group/?", "/group/t", true),
            ("/group/?", "/group/ts", false),
            ("/g*p/t*", "/group/temperature", true),
            ("/g?oup", "/group/deep/t", true),
            ("/g?oup", "/groups/t", false),
            ("/**/flag_?", "/a/b/flag_1", true),
            ("/?", "/", false),
        ] {
            assert_eq!(is_selected(pattern.as_bytes(), path.as_bytes()), is_match, "{pattern} {path}");
        }
    }

    #[test]
    fn settings_are_a_path_and_options() {
        let parsed = |text: &str| {
            setting(text.as_ref()).map(|setting| (setting.path, setting.options)).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(parsed("/a:b:abs=0.01"), Ok(("/a:b".into(), Some("abs=1e-2".into()))));
        assert_eq!(parsed("t*:none"), Ok(("t*".into(), None)));
        for (text, reason) in [("abs=1", "give PATH:OPTIONS"), (":abs=1", "give PATH:OPTIONS"), ("/t:abs=x", "--set /t:abs=x: ")]
        {
            assert!(parsed(text).is_err_and(|error| error.contains(reason)), "{text}");
        }
    }
}
