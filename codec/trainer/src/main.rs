//! `quire-trainer train FILE` writes the dictionary that the codec embeds; `quire-trainer report` prints how it was chosen.

use std::process::ExitCode;

use quire_trainer::books::BOOKS;
use quire_trainer::density::Density;
use quire_trainer::selection::{select, training_targets};

const USAGE: &str = "usage: quire-trainer select        chooses the books' densities, as rows for codec/trainer/src/books.rs
       quire-trainer train FILE    writes their dictionary, e.g. to codec/dictionary/v0_3.bin
       quire-trainer report        prints what each choice gains and loses, as tables";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["select"] => {
            print_selection();
            Ok(())
        }
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

/// Prints the books that the dictionary should hold, a row for each family and spread.
fn print_selection() {
    let pool: Vec<Density> = Density::all().collect();
    let chosen = select(&training_targets(), &pool, BOOKS.len());
    for row in chosen.chunk_by(|a, b| (a.family, a.spread) == (b.family, b.spread)) {
        let books: Vec<String> =
            row.iter().map(|density| format!("of({}, {}, {}),", density.family, density.spread, density.scale)).collect();
        println!("    {}", books.join(" "));
    }
}

/// Writes the dictionary file.
fn train(path: &str) -> Result<(), String> {
    let bytes = quire_trainer::dictionary().to_bytes()?;
    std::fs::write(path, bytes).map_err(|error| format!("{path}: {error}"))
}
