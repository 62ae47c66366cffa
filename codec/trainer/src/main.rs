//! `quire-trainer train FILE` writes the dictionary that the codec embeds; `quire-trainer report` prints how it was chosen.

use std::process::ExitCode;

const USAGE: &str = "usage: quire-trainer train FILE    writes the dictionary, e.g. to codec/dictionary/v0_1.bin
       quire-trainer report        prints what each choice gains and loses, as tables";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["train", path] => train(path),
        ["report"] => {
            print!("{}", quire_trainer::report::report());
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the dictionary file.
fn train(path: &str) -> Result<(), String> {
    let bytes = quire_trainer::dictionary().to_bytes()?;
    std::fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))
}
