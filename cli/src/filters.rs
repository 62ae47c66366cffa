//! The names of HDF5's filters, as people call them.

use h5zquire::FILTER_ID;
use hdf5::filters::Filter;

/// A filter's name for tables.
pub(crate) fn filter_name(filter: &Filter) -> String {
    match filter {
        Filter::Deflate(level) => format!("gzip {level}"),
        Filter::Shuffle => "shuffle".to_owned(),
        Filter::Fletcher32 => "fletcher32".to_owned(),
        Filter::User(FILTER_ID, _) => "quire".to_owned(),
        other => format!("filter {}", other.id()),
    }
}

/// The remedy where HDF5 does not find a filter.
pub(crate) const NAME_ITS_FOLDER: &str = "name the folder of its plugin in HDF5_PLUGIN_PATH, with a colon between folders";

/// Says which of these filters HDF5 does not find, if there are any.
pub(crate) fn not_found(filters: &[Filter]) -> Option<String> {
    let absent: Vec<String> = filters.iter().filter(|filter| !filter.is_available()).map(filter_name).collect();
    (!absent.is_empty()).then(|| format!("HDF5 does not find {} here", absent.join(", ")))
}
