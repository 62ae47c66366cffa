//! The HDF5 filter plugin.
