//! Which datasets are compressed, and why others are not. `repack` and `advise` choose alike.

use anyhow::{Result, bail, ensure};
use clap::Args;
use h5zquire::FILTER_ID;
use hdf5::plist::dataset_create::Layout;
use quire_codec::{Config, ErrorBound};

use crate::datasets::{Named, Source};
use crate::filters::filter_name;
use crate::library::links::has_attribute;
use crate::library::numbers::Numbers;
use crate::library::objects::is_external;

/// The choice of datasets, as the user may change it.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Skip datasets smaller than this, unless they are named themselves; uncompressed size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16384)]
    min_size: u64,
    /// Apply the bound to integers as well; without it they keep their exact bits
    #[arg(long)]
    round_integers: bool,
}

impl Choice {
    /// The dataset as a source of values, if it is to be compressed. One that the user has named itself, by its path or by an option (`is_chosen`), may be small
    /// or a dimension scale.
    ///
    /// # Errors
    /// Says why the dataset is skipped. The same reason is the same text for all datasets.
    pub(crate) fn source(&self, named: Named, is_chosen: bool) -> Result<Source> {
        let Named { dataset, name, is_named, .. } = named;
        let is_named = is_named || is_chosen;
        let dataset = dataset?;
        let extents = dataset.shape();
        ensure!(!extents.is_empty(), "a scalar, which HDF5 cannot store in chunks");
        ensure!(!extents.contains(&0), "it has no values");
        let properties = dataset.dcpl()?;
        let is_elsewhere = is_external(&properties) || properties.layout() == Layout::Virtual;
        ensure!(!is_elsewhere, "its values lie in other datasets or files");
        let filters = properties.get_filters()?;
        let is_compressed = filters.iter().any(|filter| filter.id() == FILTER_ID);
        ensure!(!is_compressed, "compressed with this filter already: compress the original anew for another bound");
        if let Some(filter) = filters.iter().find(|filter| !filter.is_available()) {
            bail!("compressed with {}, which HDF5 does not find here", filter_name(filter));
        }
        let is_scale = has_attribute(&dataset, &"CLASS".into())
            && dataset
                .attr("CLASS")
                .and_then(|class| class.read_scalar::<hdf5::types::FixedAscii<32>>())
                .is_ok_and(|class| class.as_str() == "DIMENSION_SCALE");
        let source = Source::new(dataset, name)?;
        ensure!(source.bytes() >= self.min_size || is_named, "fewer bytes than --min-size={}", self.min_size);
        ensure!(!is_scale || is_named, "a dimension scale, whose coordinates programs compare exactly: name it to compress it");
        Ok(source)
    }

    /// The configuration for a dataset: integers keep their exact bits unless the user wants them rounded, and enumerations always.
    pub(crate) fn config<'a>(&self, given: Config<'a>, source: &Source) -> Config<'a> {
        let Numbers { scalar, is_enumeration, .. } = source.numbers;
        if scalar.is_float() || self.round_integers && !is_enumeration { given } else { given.with_bound(ErrorBound::Lossless) }
    }
}
