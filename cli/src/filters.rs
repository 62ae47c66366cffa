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
