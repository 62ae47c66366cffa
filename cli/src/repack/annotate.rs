//! `--annotate`: what was done to each dataset, as attributes of the copy.

use std::path::Path;

use anyhow::{Context as _, Result};
use hdf5::Dataset;
use hdf5::types::VarLenUnicode;

use super::Done;
use super::plan::Plan;
use crate::library::links;

/// Writes the attributes `quire_options`, `quire_largest_error` and `quire_psnr` to each compressed dataset. `quire_psnr` is left out where no value differs.
///
/// # Errors
/// With the dataset's path.
pub(super) fn annotate(path: &Path, plan: &Plan, done: &[Done]) -> Result<()> {
    let file = links::open_file(path, true)?;
    for (task, done) in plan.tasks.iter().zip(done) {
        let dataset = links::open_dataset(&file, &task.path, None);
        dataset.and_then(|dataset| Ok(describe(&dataset, &task.options, done)?)).with_context(|| task.path.clone())?;
    }
    file.flush()?;
    Ok(file.close()?)
}

fn describe(dataset: &Dataset, options: &str, done: &Done) -> hdf5::Result<()> {
    for name in ["quire_options", "quire_largest_error", "quire_psnr"] {
        // An earlier copy may have left it; mostly it is not there.
        let _ = dataset.delete_attr(name);
    }
    let options: VarLenUnicode = options.parse().map_err(|_| "the options are no text")?;
    dataset.new_attr::<VarLenUnicode>().create("quire_options")?.write_scalar(&options)?;
    dataset.new_attr::<f64>().create("quire_largest_error")?.write_scalar(&done.difference.greatest)?;
    let psnr = done.difference.psnr();
    if psnr.is_finite() {
        dataset.new_attr::<f64>().create("quire_psnr")?.write_scalar(&psnr)?;
    }
    Ok(())
}
