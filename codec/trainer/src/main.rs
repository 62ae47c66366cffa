//! Command line of the trainer: see [`USAGE`].

use std::process::ExitCode;

const USAGE: &str =
    "usage: quire-trainer sample FILE   counts the tokens of the generator's fields, for codec/trainer/training.bin
       quire-trainer train FILE    writes the dictionary, e.g. to codec/dictionary/books.bin
       quire-trainer report        prints what each choice gains and loses, as tables
       quire-trainer adaptive FILE prints what books kept from chunk to chunk gain, and writes one series to FILE (.csv)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["sample", path] => write(path, &quire_trainer::targets::sample_fields()),
        ["train", path] => quire_trainer::dictionary().to_bytes().and_then(|bytes| write(path, &bytes)),
        ["adaptive", path] => {
            let (text, csv) = quire_trainer::adaptive::report();
            print!("{text}");
            write(path, csv.as_bytes())
        }
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

fn write(path: &str, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))
}
