//! Compares the chunks of datasets with those of their copies. `quire verify` and `quire repack` use this one comparison.
//!
//! The calling thread reads. Other threads decompress the chunks of a copy that this filter alone has made, and compare. HDF5 decodes other copies.

use anyhow::{Context as _, Result};
use h5zquire::FILTER_ID;
use hdf5::Dataset;
use quire_codec::ErrorBound;

use crate::boxes::{self, Range, copy_common};
use crate::compare::{Difference, compare};
use crate::library::numbers::Numbers;
use crate::library::{chunks, make_room};
use crate::slabs::{Chunks, ReadChunk, each_chunk};

/// A dataset and its copy.
pub(crate) struct Pair<'a> {
    /// The original in slabs for the comparison: in the chunks of the copy, if the copy has chunks.
    pub(crate) original: Chunks<'a>,
    pub(crate) copy: &'a Dataset,
    /// The bound that the copy is to keep.
    pub(crate) promise: Option<ErrorBound>,
    /// Whether the copy may be by a filter. A filter counts missing values in a chunk's range; `repack` keeps the smaller bound of a range without them.
    pub(crate) may_be_of_a_filter: bool,
}

/// What a comparison of chunks has found.
pub(crate) struct Compared {
    pub(crate) is_equal: bool,
    pub(crate) difference: Difference,
}

/// Compares copies on `jobs` threads. `take` gets the number of the pair, the chunk, and what was found, or why the copy's chunk cannot be read.
///
/// # Errors
/// HDF5's, and those of `take`.
pub(crate) fn compare_copies(
    pairs: &[Pair<'_>],
    jobs: usize,
    take: impl FnMut(usize, &ReadChunk, Result<Compared>) -> Result<()>,
) -> Result<()> {
    let copies = pairs.iter().map(CopyReader::new).collect::<Result<Vec<_>>>()?;
    each_chunk(
        jobs,
        pairs.iter().map(|pair| pair.original),
        |number, chunk| Ok(copies[number].read(&chunk.ranges)),
        |Buffers { before, after }: &mut Buffers, number, chunk, read| {
            let (pair, read) = (&pairs[number], read?);
            let (before, after) = (chunk.values(before), copies[number].values(&read, &chunk.ranges, after)?);
            let source = pair.original.source;
            let mut difference = compare(before, after, source.elements(), pair.promise);
            let is_broken = difference.beyond > 0 || difference.broken.is_some() && difference.changed == 0;
            if pair.may_be_of_a_filter && is_broken {
                difference = compare(before, after, source.elements_for_filters(), pair.promise);
            }
            Ok(Compared { is_equal: before == after, difference })
        },
        take,
    )
}

/// Reads the chunks of a copy.
struct CopyReader<'a> {
    dataset: &'a Dataset,
    /// In the byte order of the original, to which HDF5 converts.
    numbers: &'a Numbers,
    /// The shape of the chunks, if threads may decompress them.
    own: Option<Vec<usize>>,
}

/// A chunk as the calling thread has read it.
enum Read {
    Stream(Vec<u8>),
    Values(Vec<u8>),
}

/// A thread's room for the values of a chunk of the original, and of the copy.
#[derive(Default)]
struct Buffers {
    before: Vec<u8>,
    after: Decoded,
}

/// A thread's room for a chunk that it decompresses.
#[derive(Default)]
struct Decoded {
    whole: Vec<u8>,
    clipped: Vec<u8>,
}

impl<'a> CopyReader<'a> {
    fn new(pair: &Pair<'a>) -> Result<Self> {
        let (dataset, numbers) = (pair.copy, &pair.original.source.numbers);
        let properties = dataset.dcpl()?;
        let is_own = matches!(&properties.filters()[..], [filter] if filter.id() == FILTER_ID && filter.is_available());
        let is_same =
            Numbers::of(dataset).is_ok_and(|copy| (copy.scalar, copy.byte_order) == (numbers.scalar, numbers.byte_order));
        Ok(Self { dataset, numbers, own: properties.chunk().filter(|_| is_own && is_same) })
    }

    /// Reads a chunk, or a box of a copy without chunks.
    fn read(&self, ranges: &[Range]) -> Result<Read> {
        let mut bytes = Vec::new();
        // What the file does not have consists of fill values, and a filter mask says that bytes are no stream: HDF5 knows.
        if self.own.is_some()
            && matches!(chunks::read(self.dataset, &boxes::corner(ranges), &mut bytes), Ok(0))
            && !bytes.is_empty()
        {
            return Ok(Read::Stream(bytes));
        }
        self.numbers.read(self.dataset, ranges, &mut bytes)?;
        Ok(Read::Values(bytes))
    }

    /// The values of a chunk that was read, clipped to the extents. Any thread may ask for them.
    fn values<'b>(&self, read: &'b Read, ranges: &[Range], decoded: &'b mut Decoded) -> Result<&'b [u8]> {
        let stream = match read {
            Read::Values(values) => return Ok(values),
            Read::Stream(stream) => stream,
        };
        let chunk = self.own.as_ref().context("a stream is read of a copy that HDF5 has to read: please report it")?;
        let (whole, each) = (boxes::with_extents(ranges, chunk), self.numbers.scalar.element_size());
        make_room(&mut decoded.whole, boxes::values(&whole), each)?;
        h5zquire::decompress(stream, &mut decoded.whole)?;
        if whole == ranges {
            return Ok(&decoded.whole);
        }
        make_room(&mut decoded.clipped, boxes::values(ranges), each)?;
        copy_common(&whole, &decoded.whole, ranges, &mut decoded.clipped);
        Ok(&decoded.clipped)
    }
}
