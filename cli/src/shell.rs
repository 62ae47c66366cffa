//! `quire completions` and `quire man`: generated from clap's description of the arguments.

use std::io::{Write as _, stdout};

use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::library::message;
use crate::output::Outcome;

/// Print a completion script for a shell
///
/// For bash, `quire completions bash > ~/.local/share/bash-completion/completions/quire`; for zsh, into `_quire` in a folder of $fpath; for fish, into
/// `~/.config/fish/completions/quire.fish`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to print the script for
    shell: SupportedShell,
}

/// A shell for which there are completions.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SupportedShell {
    Bash,
    Zsh,
    Fish,
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
pub(crate) fn completions(arguments: &Completions, mut command: Command) -> Result<Outcome, String> {
    let shell = match arguments.shell {
        SupportedShell::Bash => Shell::Bash,
        SupportedShell::Zsh => Shell::Zsh,
        SupportedShell::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    generate(shell, &mut command, "quire", &mut text);
    print(&text)
}

/// Prints a manual page.
///
/// # Errors
/// If there is no such subcommand (the message lists them all), or standard output cannot be written.
pub(crate) fn manual(arguments: &Manual, mut command: Command) -> Result<Outcome, String> {
    // Adds the parts that clap otherwise adds on parsing: names such as quire-inspect, the help subcommand, the global options.
    command.build();
    let wanted = match &arguments.subcommand {
        None => command,
        Some(name) => {
            let names: Vec<String> = command.get_subcommands().map(|each| each.get_name().to_owned()).collect();
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| format!("there is no subcommand {name:?}: there are {}", names.join(", ")))?
        }
    };
    let mut text = Vec::new();
    Man::new(wanted).render(&mut text).map_err(message)?;
    print(&text)
}

fn print(text: &[u8]) -> Result<Outcome, String> {
    stdout().write_all(text).map_err(|error| format!("standard output: {error}"))?;
    Ok(Outcome::Done)
}
