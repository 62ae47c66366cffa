//! Chunks of a copy, which threads decompress if this filter alone has made them, and HDF5 reads otherwise.

use h5zquire::FILTER_ID;
use hdf5::Dataset;

use crate::datasets::Source;
use crate::library::codec::Codec;
use crate::library::numbers::Numbers;
use crate::library::{chunks, make_room, message};
use crate::slabs::{self, Range};

/// A copy of a dataset.
pub(crate) struct Copied<'a> {
    dataset: &'a Dataset,
    /// In the byte order of the original, to which HDF5 converts.
    numbers: &'a Numbers,
    /// The plugin and the shape of the chunks, if threads may decompress them.
    own: Option<(&'static Codec, Vec<usize>)>,
    /// Whether this filter is among those of the copy.
    pub(crate) is_filtered: bool,
}

/// A chunk as the calling thread has read it.
pub(crate) enum Read {
    Stream(Vec<u8>),
    Values(Vec<u8>),
}

/// A thread's room for the values of a chunk of the original, and of the copy.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) before: Vec<u8>,
    pub(crate) after: Decoded,
}

/// A thread's room for a chunk that it decompresses.
#[derive(Default)]
pub(crate) struct Decoded {
    whole: Vec<u8>,
    clipped: Vec<u8>,
}

impl<'a> Copied<'a> {
    /// # Errors
    /// HDF5's, and if the plugin that HDF5 has loaded is of another version.
    pub(crate) fn new(dataset: &'a Dataset, original: &'a Source) -> Result<Self, String> {
        let numbers = &original.numbers;
        let properties = dataset.dcpl().map_err(message)?;
        let filters = properties.filters();
        let is_filtered = filters.iter().any(|filter| filter.id() == FILTER_ID);
        let is_own = matches!(&filters[..], [filter] if is_filtered && filter.is_available());
        let is_same =
            Numbers::of(dataset).is_ok_and(|copy| (copy.scalar, copy.byte_order) == (numbers.scalar, numbers.byte_order));
        let chunk = properties.chunk().filter(|_| is_own && is_same);
        let own = chunk.map(|chunk| Ok::<_, String>((Codec::get()?, chunk))).transpose()?;
        Ok(Self { dataset, numbers, own, is_filtered })
    }

    /// Reads a chunk, or a box of a copy without chunks.
    ///
    /// # Errors
    /// HDF5's.
    pub(crate) fn read(&self, ranges: &[Range]) -> Result<Read, String> {
        let mut bytes = Vec::new();
        // What the file does not have consists of fill values, and a filter mask says that bytes are no stream: HDF5 knows.
        if self.own.is_some()
            && matches!(chunks::read(self.dataset, &slabs::corner(ranges), &mut bytes), Ok(0))
            && !bytes.is_empty()
        {
            return Ok(Read::Stream(bytes));
        }
        self.numbers.read(self.dataset, ranges, &mut bytes)?;
        Ok(Read::Values(bytes))
    }

    /// The values of a chunk that was read, clipped to the extents. Any thread may ask for them.
    ///
    /// # Errors
    /// The plugin's.
    pub(crate) fn values<'b>(&self, read: &'b Read, ranges: &[Range], decoded: &'b mut Decoded) -> Result<&'b [u8], String> {
        let (stream, (codec, chunk)) = match (read, &self.own) {
            (Read::Values(values), _) => return Ok(values),
            (Read::Stream(stream), Some(own)) => (stream, own),
            (Read::Stream(_), None) => {
                return Err("a stream is read of a copy that HDF5 has to read: please report it".to_owned());
            }
        };
        let whole: Vec<Range> = ranges.iter().zip(chunk).map(|(&(start, _), &side)| (start, side)).collect();
        make_room(&mut decoded.whole, slabs::values(&whole), self.numbers.scalar.element_size())?;
        codec.decompress(stream, &mut decoded.whole)?;
        if whole == ranges {
            return Ok(&decoded.whole);
        }
        slabs::gather(&whole, &decoded.whole, ranges, &mut decoded.clipped);
        Ok(&decoded.clipped)
    }
}
