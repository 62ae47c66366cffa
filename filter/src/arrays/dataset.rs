//! What a dataset has to be, and is: chunks, this filter alone, and the type of the values in memory.

use std::fmt;
use std::fs::File;

use hdf5_sys::h5i::hid_t;
use quire_codec::{ByteOrder, Config, Layout, MOST_ELEMENT_BYTES, Scalar};

use super::Outcome;
use super::stored::{self, Extents};
use super::strided::Dense;
use super::touched::TouchedChunks;
use crate::FILTER_ID;
use crate::cd_values::{CdValues, MAX_WORDS};
use crate::fence::Failure;
use crate::h5api::{Library, ListedFilter};

/// Which way the values go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From memory to the file.
    Write,
    /// From the file to memory.
    Read,
}

/// A box of a dataset, and the type of its values in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) start: &'a [u64],
    pub(crate) count: &'a [u64],
    pub(crate) value_type: (Scalar, ByteOrder),
}

/// What the threads have to know of a dataset and of the box that is read or written.
pub(super) struct Facts {
    pub(super) touched: TouchedChunks,
    pub(super) layout: Layout,
    pub(super) dense: Dense,
    /// Extents of a chunk, slowest axis first.
    pub(super) chunk: Vec<u64>,
    /// One element: what is where the file has no data.
    pub(super) filling: [u8; MOST_ELEMENT_BYTES],
}

/// A dataset that can be read or written, and the box of it.
pub(super) struct Suitable {
    pub(super) facts: Facts,
    pub(super) config: Config<'static>,
    /// Chunks of the whole dataset, in the file or not.
    pub(super) all_chunks: u64,
    /// The file, where it can be read beside HDF5, and HDF5 lists where the chunks are.
    pub(super) file: Option<File>,
}

/// A type of values as messages name it.
struct Named((Scalar, ByteOrder));

impl fmt::Display for Named {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scalar, byte_order) = self.0;
        write!(formatter, "{scalar} {byte_order:?} endian")
    }
}

impl Facts {
    /// A chunk as HDF5 makes it before there are data.
    pub(super) fn fill(&self, chunk: &mut [u8]) {
        let value = &self.filling[..self.layout.scalar.element_size()];
        if value.iter().all(|&byte| byte == 0) {
            chunk.fill(0);
        } else {
            chunk.chunks_exact_mut(value.len()).for_each(|target| target.copy_from_slice(value));
        }
    }
}

impl Suitable {
    /// Looks at a dataset.
    ///
    /// # Errors
    /// `Unsuitable` for a dataset that HDF5 can read or write and the functions of whole arrays cannot, `InvalidArgument` for a selection outside of the
    /// dataset, `Hdf5`.
    pub(super) fn find(library: &Library, dataset: hid_t, selection: &Selection<'_>, direction: Direction) -> Outcome<Self> {
        let properties = library.create_properties(dataset)?;
        let dcpl = properties.id();
        if !library.is_chunked(dcpl)? {
            return Err(Failure::unsuitable("the dataset is not stored in chunks, so that it has no filter"));
        }
        let filters = library.filters(dcpl)?;
        if !matches!(filters[..], [ListedFilter { id: FILTER_ID, .. }]) {
            return Err(Failure::unsuitable(format_args!(
                "the filters of this dataset are {filters:?}: only those with {FILTER_ID} alone are read and written as whole arrays"
            )));
        }
        if library.leaves_edges_unfiltered(dcpl)? {
            return Err(Failure::unsuitable("chunks at the dataset's edges are stored without filters (H5Pset_chunk_opts)"));
        }
        let (_, words) = library.filter_parameters(dcpl, FILTER_ID, MAX_WORDS)?;
        // HDF5 decodes without them: another version may have written them.
        let CdValues { config, layout, .. } =
            CdValues::parse(&words).map_err(|error| Failure::sorted(error, Failure::Unsuitable))?;
        let layout = layout.ok_or_else(|| {
            Failure::unsuitable(format_args!(
                "cd_values {words:?} lack the chunk's layout: the dataset was created without the filter"
            ))
        })?;
        let type_id = library.type_of(dataset)?;
        let found = library.element_type(type_id.id())?.scalar()?;
        if found != selection.value_type {
            return Err(Failure::unsuitable(format_args!(
                "values in memory are {}, those of the dataset {}: HDF5 converts types, the functions of whole arrays do not",
                Named(selection.value_type),
                Named(found)
            )));
        }
        let file_id = library.file_of(dataset)?;
        let is_writable = library.is_writable(file_id.id())?;
        if direction == Direction::Write {
            if !is_writable {
                return Err(Failure::unsuitable("the file is open for reading only: open it for writing"));
            }
            if library.is_parallel(file_id.id())? {
                // H5Dwrite_chunk changes the file's map of chunks, which every process has to do at once and alike, and none knows the others' lengths.
                return Err(Failure::unsuitable(
                    "the file was opened with MPI, where processes write compressed chunks together: use H5Dwrite, with collective transfers",
                ));
            }
        }
        let extents = Extents::of(library, dataset, dcpl)?;
        let dense = Dense::new(&extents.chunk, layout.scalar.element_size())?;
        if (dense.bytes() as u64, (layout.scalar, layout.byte_order)) != (layout.chunk_bytes(), found) {
            return Err(Failure::unsuitable(format_args!(
                "cd_values {words:?} are those of another dataset: this one has chunks of {:?} values of {}",
                extents.chunk,
                Named(found)
            )));
        }
        let touched = TouchedChunks::new(&extents.present, &extents.chunk, selection.start, selection.count)?;
        let all_chunks = extents.grid().map_or(u64::MAX, |grid| grid.count() as u64);
        // A file that is open for writing may change between two calls of HDF5: chunks move, and others take their place.
        let may_read_beside = direction == Direction::Read && !is_writable && library.can_list_chunks();
        let can_read_beside = may_read_beside && stored::are_listed_offsets_right(library, dataset, &extents);
        if may_read_beside && !can_read_beside {
            stored::log_wrong_offsets();
        }
        let file = if can_read_beside { library.plain_file(file_id.id())? } else { None };
        Ok(Self {
            facts: Facts {
                touched,
                layout,
                dense,
                chunk: extents.chunk,
                filling: library.filling(dcpl, type_id.id(), layout.scalar.element_size())?,
            },
            config,
            all_chunks,
            file,
        })
    }
}
