//! Writes every field as `.npy`, and `fields.json` with what the arrays do not say of themselves.
use h5_samples::{Field, Size, all, npy};
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: generate FOLDER [--seed NUMBER] [--size small|medium|large]";

struct Options {
    folder: PathBuf,
    seed: u64,
    size: Size,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut folder = None;
    let (mut seed, mut size) = (1, Size::Medium);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match argument.as_str() {
            "--seed" => seed = value()?.parse().map_err(|_| "the seed must be a whole number")?,
            "--size" => {
                size = match value()?.as_str() {
                    "small" => Size::Small,
                    "medium" => Size::Medium,
                    "large" => Size::Large,
                    other => return Err(format!("no size {other}; {USAGE}").into()),
                }
            }
            _ if argument.starts_with('-') || folder.is_some() => return Err(USAGE.into()),
            _ => folder = Some(PathBuf::from(argument)),
        }
    }
    Ok(Options { folder: folder.ok_or(USAGE)?, seed, size })
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let Options { folder, seed, size } = options;
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let index = folder.join("fields.json");
    // The index is removed first and written last, so that a folder with an index is complete.
    if index.exists() {
        fs::remove_file(&index)?;
    }
    let mut entries = Vec::new();
    let mut start = Instant::now();
    for field in all(*seed, *size) {
        let path = folder.join(format!("{}.npy", field.name));
        write(&path, &field).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        entries.push(describe(&field));
        if std::io::stderr().is_terminal() {
            eprintln!("    {:24} {:?}, {:.1} s", field.name, field.dims, start.elapsed().as_secs_f64());
        }
        start = Instant::now();
    }
    fs::write(&index, format!("[\n{}\n]\n", entries.join(",\n")))?;
    Ok(())
}

fn write(path: &Path, field: &Field) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    npy::write(&mut file, &field.dims, &field.values)?;
    file.flush()
}

fn describe(field: &Field) -> String {
    let fill = field.fill.map_or("null".to_owned(), |fill| format!("{fill:e}"));
    format!(r#"  {{"name": "{}", "units": "{}", "fill": {fill}}}"#, field.name, field.units)
}
