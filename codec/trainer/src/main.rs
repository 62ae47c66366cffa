//! `quire-trainer FILE` writes the dictionary that the codec embeds.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: quire-trainer FILE    writes the dictionary, e.g. to codec/dictionary/v0_1.bin");
        return ExitCode::FAILURE;
    };
    let written =
        quire_trainer::dictionary().to_bytes().and_then(|bytes| std::fs::write(&path, bytes).map_err(|e| e.to_string()));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
