//! `quire completions` and `quire man`: generated from clap's description of the arguments.

use std::io::{Write as _, stdout};

use anyhow::{Context as _, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::output::Outcome;

/// Print a completion script for a shell
///
/// For bash, `quire completions bash > ~/.local/share/bash-completion/completions/quire`; for zsh, into `_quire` in a folder of $fpath; for fish, into
/// `~/.config/fish/completions/quire.fish`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to print the script for
    #[arg(value_parser = PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>()))]
    shell: Shell,
}

/// Print the manual page
///
/// Without SUBCOMMAND, the page of quire: `quire man > quire.1`. With one, its own page: `quire man inspect > quire-inspect.1`.
#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Print the page of this subcommand
    subcommand: Option<String>,
}

/// Prints completions.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn completions(arguments: &Completions, mut command: Command) -> Result<Outcome> {
    let mut text = Vec::new();
    generate(arguments.shell, &mut command, "quire", &mut text);
    print(&text)
}

/// Prints a manual page.
///
/// # Errors
/// If there is no such subcommand (the message lists them all), or standard output cannot be written.
pub(crate) fn manual(arguments: &Manual, mut command: Command) -> Result<Outcome> {
    // Adds the parts that clap otherwise adds on parsing: names such as quire-inspect, the help subcommand, the global options.
    command.build();
    let wanted = match &arguments.subcommand {
        None => command,
        Some(name) => {
            let names: Vec<String> = command.get_subcommands().map(|each| each.get_name().to_owned()).collect();
            let found = command.find_subcommand(name).cloned();
            found.with_context(|| format!("there is no subcommand {name:?}: there are {}", names.join(", ")))?
        }
    };
    let mut text = Vec::new();
    Man::new(wanted).render(&mut text)?;
    print(&text)
}

fn print(text: &[u8]) -> Result<Outcome> {
    stdout().write_all(text).context("standard output")?;
    Ok(Outcome::Done)
}
