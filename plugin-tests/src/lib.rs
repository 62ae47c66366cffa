//! Real HDF5 clients against the plugin.
