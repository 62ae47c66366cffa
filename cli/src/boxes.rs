//! Boxes of datasets: their division into chunks, and the values that two boxes have in common.

/// Start and count along an axis. A box is one range for each axis, slowest first.
pub(crate) type Range = (usize, usize);

/// Largest number of values in a block if neither the user nor the dataset gives its shape.
const BLOCK_VALUES: usize = 64 * 64 * 64;

/// The division of an array into blocks; blocks at the end of an axis are clipped to the extents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid<'a> {
    pub(crate) extents: &'a [usize],
    /// Extents of a block, one for each axis of the array, each at least 1.
    pub(crate) block: &'a [usize],
}

impl Grid<'_> {
    /// Number of blocks along each axis.
    fn counts(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        self.extents.iter().zip(self.block).map(|(&extent, &side)| extent.div_ceil(side))
    }

    /// Number of blocks; 1 for an array without axes.
    pub(crate) fn blocks(&self) -> usize {
        self.counts().product()
    }

    /// A block by its number; the last axis is fastest.
    pub(crate) fn ranges(&self, number: usize) -> Vec<Range> {
        let mut rest = number;
        let mut corner: Vec<usize> = Vec::new();
        for (count, &side) in self.counts().zip(self.block).rev() {
            corner.push(rest % count * side);
            rest /= count;
        }
        corner.reverse();
        self.at(&corner)
    }

    /// The block with this first corner.
    pub(crate) fn at(&self, corner: &[usize]) -> Vec<Range> {
        let sides = corner.iter().zip(self.block).zip(self.extents);
        sides.map(|((&start, &side), &extent)| (start, side.min(extent - start))).collect()
    }
}

/// The number of values in a box.
pub(crate) fn values(ranges: &[Range]) -> usize {
    ranges.iter().map(|&(_, count)| count).product()
}

/// The first corner of a box.
pub(crate) fn corner(ranges: &[Range]) -> Vec<u64> {
    ranges.iter().map(|&(start, _)| start as u64).collect()
}

/// The box with the same first corner and these extents.
pub(crate) fn with_extents(ranges: &[Range], extents: &[usize]) -> Vec<Range> {
    ranges.iter().zip(extents).map(|(&(start, _), &extent)| (start, extent)).collect()
}

/// A block shape of at most [`BLOCK_VALUES`] values: halves the longest extent until it fits.
#[must_use]
pub(crate) fn block_of(extents: &[usize]) -> Vec<usize> {
    let mut block = extents.to_vec();
    while block.iter().product::<usize>() > BLOCK_VALUES {
        if let Some(longest) = block.iter_mut().max() {
            *longest = longest.div_ceil(2);
        }
    }
    block
}

/// Joins neighbouring boxes of chunks, which come in the order of their indices, into boxes of at most `most_values` values, or of one chunk.
pub(crate) fn joined(boxes: &[Vec<Range>], most_values: usize) -> Vec<Vec<Range>> {
    let mut slabs = boxes.to_vec();
    for axis in (0..boxes.first().map_or(0, Vec::len)).rev() {
        let mut joined: Vec<Vec<Range>> = Vec::new();
        for next in slabs {
            match joined.last_mut() {
                Some(last) if follows(last, &next, axis) && values(last) + values(&next) <= most_values => {
                    last[axis].1 += next[axis].1;
                }
                _ => joined.push(next),
            }
        }
        slabs = joined;
    }
    slabs
}

/// Whether `next` begins along one axis where `last` ends, and has the same ranges along all others.
fn follows(last: &[Range], next: &[Range], axis: usize) -> bool {
    let mut pairs = last.iter().zip(next).enumerate();
    pairs.all(|(number, (last, next))| if number == axis { last.0 + last.1 == next.0 } else { last == next })
}

/// The chunks of a slab, each clipped to it. `chunk` is the shape of the chunks that the slab was made of.
pub(crate) fn chunks_of(slab: &[Range], chunk: &[usize]) -> Vec<Vec<Range>> {
    let extents: Vec<usize> = slab.iter().map(|&(_, count)| count).collect();
    let grid = Grid { extents: &extents, block: chunk };
    let in_dataset = |ranges: Vec<Range>| ranges.iter().zip(slab).map(|(inside, slab)| (slab.0 + inside.0, inside.1)).collect();
    (0..grid.blocks()).map(|number| in_dataset(grid.ranges(number))).collect()
}

/// Copies the values that two boxes of a dataset have in common. `source` has the values of the box `from`, `target` those of the box `to`, both in C order.
pub(crate) fn copy_common(from: &[Range], source: &[u8], to: &[Range], target: &mut [u8]) {
    let (Some((from, from_rest)), Some((to, to_rest))) = (from.split_first(), to.split_first()) else {
        return target.copy_from_slice(source);
    };
    let (start, end) = (from.0.max(to.0), (from.0 + from.1).min(to.0 + to.1));
    let (from_layer, to_layer) = (source.len() / from.1, target.len() / to.1);
    let source = &source[(start - from.0) * from_layer..(end - from.0) * from_layer];
    let target = &mut target[(start - to.0) * to_layer..(end - to.0) * to_layer];
    if from_rest == to_rest {
        target.copy_from_slice(source);
    } else {
        let layers = source.chunks_exact(from_layer).zip(target.chunks_exact_mut(to_layer));
        layers.for_each(|(source, target)| copy_common(from_rest, source, to_rest, target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(extents: &[usize], chunk: &[usize]) -> Vec<Vec<Range>> {
        let grid = Grid { extents, block: chunk };
        (0..grid.blocks()).map(|number| grid.ranges(number)).collect()
    }

    #[test]
    fn neighbours_are_joined_up_to_the_limit() {
        let all = boxes(&[5, 6, 7], &[2, 2, 4]);
        assert_eq!(joined(&all, usize::MAX), [[(0, 5), (0, 6), (0, 7)]]);
        assert_eq!(joined(&all, 2 * 6 * 7), [[(0, 2), (0, 6), (0, 7)], [(2, 2), (0, 6), (0, 7)], [(4, 1), (0, 6), (0, 7)]]);
        assert_eq!(joined(&all, 2 * 4 * 7)[..2], [[(0, 2), (0, 4), (0, 7)], [(0, 2), (4, 2), (0, 7)]]);
        assert_eq!(joined(&all, 1), all);
        assert_eq!(joined(&[vec![]], 1), [vec![]]);
        assert_eq!(joined(&[], 1), Vec::<Vec<Range>>::new());
    }

    #[test]
    fn chunks_that_are_not_there_stay_away() {
        let mut some = boxes(&[4, 6], &[2, 2]);
        some.remove(1);
        let slabs = joined(&some, usize::MAX);
        assert_eq!(slabs, [[(0, 2), (0, 2)], [(0, 2), (4, 2)], [(2, 2), (0, 6)]]);
        let again: Vec<Vec<Range>> = slabs.iter().flat_map(|slab| chunks_of(slab, &[2, 2])).collect();
        assert_eq!(again, some);
    }

    #[test]
    fn a_box_is_copied_from_its_slab() {
        let slab = [(10, 2), (0, 3), (4, 4)];
        let bytes: Vec<u8> = (0..48).collect();
        let copied = |slab: &[Range], bytes: &[u8], wanted: &[Range]| {
            let mut copied = vec![0; values(wanted) * 2];
            copy_common(slab, bytes, wanted, &mut copied);
            copied
        };
        let wanted = [(10, 2), (1, 2), (6, 2)];
        assert_eq!(copied(&slab, &bytes, &wanted), [12, 13, 14, 15, 20, 21, 22, 23, 36, 37, 38, 39, 44, 45, 46, 47]);
        // Rows that lie in one piece, all of the slab, and a scalar.
        let wanted = [(10, 2), (1, 1), (4, 4)];
        assert_eq!(copied(&slab, &bytes, &wanted), [8, 9, 10, 11, 12, 13, 14, 15, 32, 33, 34, 35, 36, 37, 38, 39]);
        assert_eq!(copied(&slab, &bytes, &slab), bytes);
        assert_eq!(copied(&[], &bytes[..2], &[]), [0, 1]);
    }

    #[test]
    fn a_box_becomes_a_part_of_a_whole_chunk() {
        let padded = |values: &[u8], counts: &[usize], chunk: &[usize], fill: &[u8]| {
            let ranges = |counts: &[usize]| counts.iter().map(|&count| (5, count)).collect::<Vec<Range>>();
            let mut padded = fill.repeat(chunk.iter().product());
            copy_common(&ranges(counts), values, &ranges(chunk), &mut padded);
            padded
        };
        assert_eq!(padded(&[1, 2, 3, 4], &[2, 2], &[3, 4], &[9]), [1, 2, 9, 9, 3, 4, 9, 9, 9, 9, 9, 9]);
        assert_eq!(padded(&[1, 2, 3, 4], &[2, 1, 1], &[2, 2, 1], &[8, 9]), [1, 2, 8, 9, 3, 4, 8, 9]);
        assert_eq!(padded(&[1, 2], &[2], &[2], &[9]), [1, 2]);
    }
}
