//! `quire`: what H5Z-Quire's users do from a shell.

mod datasets;
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The command line of H5Z-Quire, the HDF5 filter that compresses within an error bound.
#[derive(Debug, Parser)]
#[command(name = "quire", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::Arguments),
}

/// Exit code of a failure; clap ends with 2 for arguments that it does not understand.
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    // Errors come back as values; HDF5 need not print them as well.
    hdf5::silence_errors(true);
    let done = match Arguments::parse().command {
        Command::Train(arguments) => train::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(FAILURE)
        }
    }
}
