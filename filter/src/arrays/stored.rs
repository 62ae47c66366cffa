//! Which chunks a dataset has in its file, and where.
//!
//! HDF5 answers in two ways. Asked for one chunk by its offset (H5Dread_chunk, and H5Dget_chunk_storage_size where there are filters), it looks the chunk up in
//! the dataset's chunk index, as H5Dread does: that answer is right. Asked for all chunks (H5Dchunk_iter, H5Dget_chunk_info), it goes through the index.
//! H5Dget_chunk_info_by_coord goes through the index as well, for each chunk anew.
//!
//! A B-tree keeps the offset of each chunk, which HDF5 finds as it goes through. An array keeps no offsets: HDF5 counts the chunks, the last axis fastest. But
//! in an extensible array the unlimited axis is the slowest, whichever axis it is. If it is not the first one, HDF5 gives chunks the offsets of others (1.10.8,
//! 1.14.6 and 2.0.0 do).
//!
//! So HDF5's list is taken where the index keeps offsets, or where there is one way to count ([`Extents::can_only_count_in_one_way`]). Otherwise chunks are
//! asked for one by one.

use hdf5_sys::h5i::hid_t;
use quire_codec::{Result, memory};

use super::Outcome;
use super::touched::{MOST_AXES, TouchedChunks};
use crate::backend;
use crate::fence::Failure;
use crate::h5api::Library;
use crate::h5api::chunks::Location;

/// Chunks of a list whose length in the file is compared with that of the look-up.
const COMPARED: usize = 16;
/// To look a chunk up takes HDF5 about as long as to go past this number of chunks.
const PASSED_IN_A_LOOK_UP: u64 = 32;
/// Bytes that HDF5 reads in the time in which it goes past a chunk.
const READ_IN_PASSING: u64 = 64;
/// Bytes of a value of most types. Only the choice between two ways to one result depends on this.
const BYTES_OF_A_VALUE: u64 = 4;

/// Extents of a dataset and of its chunks, slowest axis first.
pub(super) struct Extents {
    pub(super) present: Vec<u64>,
    /// Extents to which the dataset may grow: `u64::MAX` along an unlimited axis.
    greatest: Vec<u64>,
    pub(super) chunk: Vec<u64>,
}

impl Extents {
    pub(super) fn of(library: &Library, dataset: hid_t, dcpl: hid_t) -> Outcome<Self> {
        let (present, greatest) = library.present_and_greatest_extents(dataset)?;
        let chunk = library.chunk_extents(dcpl)?;
        if chunk.len() != present.len() {
            return Err(Failure::hdf5(format_args!(
                "the dataset has {} axes, its chunks have {}: the file is damaged",
                present.len(),
                chunk.len()
            )));
        }
        Ok(Self { present, greatest, chunk })
    }

    /// All chunks that the dataset can have now.
    pub(super) fn grid(&self) -> Result<TouchedChunks> {
        TouchedChunks::new(&self.present, &self.chunk, &[0; MOST_AXES][..self.present.len()], &self.present)
    }

    fn values_of_a_chunk(&self) -> u64 {
        self.chunk.iter().fold(1, |values, &extent| values.saturating_mul(extent))
    }

    /// Whether there is one way to count chunks: no axis but the first can get more of them. Then it does not matter which axis is unlimited, nor whether
    /// the array has places for chunks beyond the present extents.
    fn can_only_count_in_one_way(&self) -> bool {
        let chunks = |extents: &[u64], axis: usize| extents[axis].div_ceil(self.chunk[axis]);
        (1..self.chunk.len()).all(|axis| chunks(&self.present, axis) == chunks(&self.greatest, axis))
    }

    /// The extents with another axis as the slowest one. The axes before it follow it.
    fn with_slowest(&self, axis: usize) -> Result<Self> {
        let turned = |values: &[u64]| {
            let mut all = memory::collect(values.iter().copied())?;
            all[..=axis].rotate_right(1);
            Ok(all)
        };
        Ok(Self { present: turned(&self.present)?, greatest: turned(&self.greatest)?, chunk: turned(&self.chunk)? })
    }
}

/// Whether HDF5 finds the right offsets as it goes through a dataset's chunks.
pub(super) fn are_listed_offsets_right(library: &Library, dataset: hid_t, extents: &Extents) -> bool {
    library.index_keeps_offsets(dataset) || extents.can_only_count_in_one_way()
}

/// Logs why a list of chunks is not taken.
pub(super) fn log_wrong_offsets() {
    backend::log_once(format_args!("a dataset's chunks are asked for one by one: HDF5 may list them at wrong offsets"));
}

/// Where the file has the chunks that a box touches, by their numbers, from a list that counts. Nothing if the list contradicts itself or the look-up: then
/// chunks are to be asked for one by one.
pub(super) fn locations(library: &Library, dataset: hid_t, touched: &TouchedChunks) -> Outcome<Option<Vec<Option<Location>>>> {
    let mut found = memory::collect((0..touched.count()).map(|_| None))?;
    let mut is_sound = true;
    library.each_chunk(dataset, touched.rank(), |offset, location| {
        is_sound &= touched.is_origin(offset);
        if let Some(number) = touched.number_of(offset) {
            is_sound &= found[number].replace(location).is_none();
        }
    })?;
    let functions = library.chunk_functions()?;
    let compared = found.len().min(COMPARED);
    for number in (0..compared).map(|index| index * found.len() / compared) {
        let bytes = library.stored_bytes(&functions, dataset, &touched.overlap(number).origin)?;
        is_sound &= bytes == found[number].map_or(0, |location| location.bytes);
    }
    if !is_sound {
        backend::log_once(format_args!("a dataset's chunks are asked for one by one: HDF5 has listed them at wrong offsets"));
    }
    Ok(is_sound.then_some(found))
}

/// Offsets of the chunks that a dataset has in its file, the last axis fastest.
///
/// # Errors
/// `Unsuitable` for a dataset without chunks; `Hdf5`, also where HDF5 contradicts itself.
pub(crate) fn offsets(library: &Library, dataset: hid_t) -> Outcome<Vec<Vec<u64>>> {
    let properties = library.create_properties(dataset)?;
    if !library.is_chunked(properties.id())? {
        return Err(Failure::unsuitable("the dataset is not stored in chunks"));
    }
    let extents = Extents::of(library, dataset, properties.id())?;
    let grid = extents.grid()?;
    let there = library.number_of_chunks(dataset)?;
    let mut numbers = Vec::new();
    let is_whole = there == grid.count() as u64;
    let is_list_right = is_whole || are_listed_offsets_right(library, dataset, &extents);
    if !is_list_right {
        log_wrong_offsets();
    }
    if is_whole {
        numbers = memory::collect(0..grid.count())?;
    } else if is_list_right && library.can_list_chunks() {
        let mut outcome = Ok(());
        library.each_chunk(dataset, grid.rank(), |offset, _| {
            if outcome.is_ok() {
                outcome = note(&grid, offset, &mut numbers);
            }
        })?;
        outcome?;
    } else {
        // HDF5 1.10 has no list: it goes past all chunks before the one that is asked for by its number.
        let has_filters = !library.filters(properties.id())?.is_empty();
        let read = if has_filters { 0 } else { extents.values_of_a_chunk().saturating_mul(BYTES_OF_A_VALUE) };
        let look_up_all = (PASSED_IN_A_LOOK_UP + read / READ_IN_PASSING).saturating_mul(grid.count() as u64);
        if is_list_right && there.saturating_mul(there) / 2 < look_up_all {
            for number in 0..there {
                note(&grid, &library.nth_offset(dataset, number)?[..grid.rank()], &mut numbers)?;
            }
        } else {
            numbers = look_up(library, dataset, &extents, &grid, there, has_filters)?;
        }
    }
    numbers.sort_unstable();
    let listed = numbers.len();
    numbers.dedup();
    if numbers.len() != listed || numbers.len() as u64 != there {
        return Err(Failure::hdf5(format_args!(
            "HDF5 counts {there} chunks of this dataset, and lists {listed} at {} offsets: the file is damaged, or changes meanwhile",
            numbers.len()
        )));
    }
    let offset_of = |number: usize| memory::collect(grid.overlap(number).origin.into_iter().take(grid.rank()));
    let mut offsets = Vec::new();
    for number in numbers {
        memory::push(&mut offsets, offset_of(number)?)?;
    }
    Ok(offsets)
}

/// Appends the number of a chunk.
fn note(grid: &TouchedChunks, offset: &[u64], numbers: &mut Vec<usize>) -> Outcome<()> {
    let number = grid.number_of(offset).ok_or_else(|| {
        Failure::hdf5(format_args!("HDF5 lists a chunk at {offset:?}, where the dataset has none: the file is damaged"))
    })?;
    Ok(memory::push(numbers, number)?)
}

/// The numbers of chunks that are asked for one by one, until as many as are `there` are found. An unlimited axis is taken as the slowest one: arrays end
/// with their last chunk, and HDF5 goes through them in that order, too.
fn look_up(
    library: &Library,
    dataset: hid_t,
    extents: &Extents,
    grid: &TouchedChunks,
    there: u64,
    has_filters: bool,
) -> Outcome<Vec<usize>> {
    let functions = library.chunk_functions()?;
    let slowest = extents.greatest.iter().position(|&most| most == u64::MAX).unwrap_or(0);
    let order = extents.with_slowest(slowest)?.grid()?;
    let (mut numbers, mut chunk) = (Vec::new(), Vec::new());
    for number in 0..order.count() {
        if numbers.len() as u64 == there {
            break;
        }
        let mut offset = order.overlap(number).origin;
        offset[..=slowest].rotate_left(1);
        let is_there = if has_filters {
            library.stored_bytes(&functions, dataset, &offset)? > 0
        } else {
            // Reading alone tells whether the file has it, or HDF5's cache.
            library.read_chunk(&functions, dataset, &offset, &mut chunk)?;
            !chunk.is_empty()
        };
        if is_there {
            note(grid, &offset[..grid.rank()], &mut numbers)?;
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_counted_in_one_way_where_the_first_axis_alone_can_get_more() {
        let any = u64::MAX;
        let certain = [
            (&[5][..], &[any][..], &[2][..]),
            (&[4, 6], &[4, 6], &[2, 2]),
            (&[4, 6], &[any, 6], &[2, 2]),
            (&[4, 5], &[9, 6], &[2, 2]),
        ];
        let uncertain = [
            (&[4, 6][..], &[4, any][..], &[2, 2][..]),
            (&[4, 6], &[4, 7], &[2, 2]),
            (&[4, 6, 6], &[any, 6, 7], &[2, 2, 2]),
            (&[1, 6], &[1, any], &[1, 2]),
        ];
        for (is_certain, cases) in [(true, certain), (false, uncertain)] {
            for (present, greatest, chunk) in cases {
                let extents = Extents { present: present.to_vec(), greatest: greatest.to_vec(), chunk: chunk.to_vec() };
                assert_eq!(extents.can_only_count_in_one_way(), is_certain, "{present:?} of {greatest:?}");
            }
        }
    }
}
