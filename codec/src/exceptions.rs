//! Where exceptions are (FORMAT.md §4): few of them stand in a list; that of many is a mask: list of indices → differences modulo 2, and
//! back.

use crate::element::Element;
use crate::error::{Error, Result};
use crate::layout::{ByteOrder, Shape};
use crate::lorenzo::{self, Axes};
use crate::memory::resize;
use crate::plane::take;

/// With fewer exceptions than one in so many values, the mask's differences are made from the list alone.
const SPARSE: usize = 64;

/// The most exceptions of a chunk that stand in a list.
///
/// An entry takes 8 bytes where the planes take about 6 for an exception that stands alone: the list costs no more than 1/256 bit a value
/// beyond them, and saves both sides two planes.
#[must_use]
pub const fn most_listed(elements: u64) -> u64 {
    16 + elements / 4096
}

/// Bytes of an index in a list.
const fn index_len(elements: u64) -> usize {
    if elements > 1 << 32 { 8 } else { 4 }
}

/// A chunk's list of exceptions, checked.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    indices: &'a [u8],
    bits: &'a [u8],
    index_len: usize,
}

impl<'a> List<'a> {
    /// Takes the list of `count` exceptions off the front of `stream`; an empty one if they are none, or so many that a mask says where they are.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`.
    pub fn take(stream: &mut &'a [u8], count: u64, elements: u64, value_len: usize) -> Result<Self> {
        const SECTION: &str = "list of exceptions";
        let count = if count > most_listed(elements) { 0 } else { count };
        let index_len = index_len(elements);
        let indices = take(stream, count * index_len as u64, SECTION)?;
        let bits = take(stream, count * value_len as u64, SECTION)?;
        let padding = take(stream, bits.len().wrapping_neg() as u64 % 4, SECTION)?;
        if padding.iter().any(|&byte| byte != 0) {
            return Err(Error::corrupt(SECTION, format!("padding is {padding:02x?}, not 0")));
        }
        let list = Self { indices, bits, index_len };
        let mut lowest = 0;
        for index in list.indices() {
            if index < lowest || index >= elements {
                return Err(Error::corrupt(
                    SECTION,
                    format!("index {index} stands where {lowest} to {} may stand", elements.saturating_sub(1)),
                ));
            }
            lowest = index + 1;
        }
        Ok(list)
    }

    fn indices(&self) -> impl Iterator<Item = u64> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        self.indices.chunks_exact(self.index_len).map(number)
    }

    /// Writes the exceptions of a chunk.
    pub fn restore<V: Element>(&self, byte_order: ByteOrder, chunk: &mut [u8]) {
        for (at, index) in self.indices().enumerate() {
            V::read(self.bits, at, ByteOrder::Little).write(chunk, index as usize, byte_order);
        }
    }
}

/// Appends the list of a chunk's exceptions.
pub fn write_list<V: Element>(exceptions: &[usize], chunk: &[u8], byte_order: ByteOrder, elements: u64, stream: &mut Vec<u8>) {
    for &index in exceptions {
        stream.extend_from_slice(&(index as u64).to_le_bytes()[..index_len(elements)]);
    }
    let start = stream.len();
    stream.resize(start + (exceptions.len() * V::SIZE).next_multiple_of(4), 0);
    for (at, &index) in exceptions.iter().enumerate() {
        V::read(chunk, index, byte_order).write(&mut stream[start..], at, ByteOrder::Little);
    }
}

/// Fills `differences` with the mask's differences modulo 2 along those axes that leave the fewest ones, of all axes, the fastest alone and
/// none, the first of them where they tie. `mask` is room to work in. Both get the length of the shape.
///
/// # Errors
/// `OutOfMemory`.
pub fn predict_mask(exceptions: &[usize], shape: &Shape, mask: &mut Vec<i8>, differences: &mut Vec<i8>) -> Result<Axes> {
    let elements = shape.elements() as usize;
    let candidates = [Axes::all(shape), Axes::FASTEST, Axes::NONE];
    differences.clear();
    resize(differences, elements)?;
    if exceptions.len() < elements / SPARSE {
        let ones = candidates.map(|axes| ones_of_list(exceptions, shape, axes));
        let best = fewest(&ones.each_ref().map(Vec::len));
        for &index in &ones[best] {
            differences[index] = 1;
        }
        return Ok(candidates[best]);
    }
    fill_mask(exceptions, elements, mask)?;
    let mut predict = |axes| {
        lorenzo::predict(mask, shape, axes, differences);
        for difference in &mut *differences {
            *difference &= 1;
        }
        differences.chunks(255).map(|part| usize::from(part.iter().map(|&bit| bit.cast_unsigned()).sum::<u8>())).sum()
    };
    let best = candidates[fewest(&candidates.map(&mut predict))];
    predict(best);
    Ok(best)
}

/// Makes a mask with ones at the indices.
fn fill_mask(indices: &[usize], elements: usize, mask: &mut Vec<i8>) -> Result<()> {
    mask.clear();
    resize(mask, elements)?;
    for &index in indices {
        mask[index] = 1;
    }
    Ok(())
}

/// Puts indices in ascending order. `mask` is room to work in.
///
/// # Errors
/// `OutOfMemory`.
pub fn sort_indices(indices: &mut Vec<usize>, elements: usize, mask: &mut Vec<i8>) -> Result<()> {
    if indices.len() < elements / SPARSE {
        indices.sort_unstable();
        return Ok(());
    }
    fill_mask(indices, elements, mask)?;
    indices.clear();
    for_each_in_mask(mask, |index| indices.push(index));
    Ok(())
}

fn fewest(counts: &[usize; 3]) -> usize {
    (0..counts.len()).min_by_key(|&candidate| counts[candidate]).unwrap_or(0)
}

/// Places of the ones among the differences of a mask with few ones, in ascending order as those of the mask are: along each axis, each one flips the
/// difference at its own place and at the next place.
fn ones_of_list(exceptions: &[usize], shape: &Shape, axes: Axes) -> Vec<usize> {
    let mut ones = exceptions.to_vec();
    let mut stride = 1;
    for (axis, &extent) in shape.dims().iter().rev().enumerate() {
        let extent = extent as usize;
        if axes.contains(axis) {
            let next: Vec<usize> =
                ones.iter().filter(|&&index| index / stride % extent + 1 < extent).map(|index| index + stride).collect();
            ones = in_one_alone(&ones, &next);
        }
        stride *= extent;
    }
    ones
}

/// What stands in one of two ascending lists alone, in ascending order: what is flipped twice is as it was.
fn in_one_alone(one: &[usize], other: &[usize]) -> Vec<usize> {
    let mut alone = vec![0; one.len() + other.len()];
    let (mut i, mut j, mut count) = (0, 0, 0);
    while let (Some(&a), Some(&b)) = (one.get(i), other.get(j)) {
        // Numbers instead of branches, which would often be foretold wrong.
        alone[count] = a.min(b);
        count += usize::from(a != b);
        i += usize::from(a <= b);
        j += usize::from(b <= a);
    }
    alone.truncate(count);
    alone.extend_from_slice(&one[i..]);
    alone.extend_from_slice(&other[j..]);
    alone
}

/// Calls `visit` with each index whose lowest bit is set.
pub fn for_each_in_mask(mask: &[i8], mut visit: impl FnMut(usize)) {
    let (groups, rest) = mask.as_chunks::<64>();
    for (group, part) in groups.iter().enumerate() {
        // Most groups have none.
        if part.iter().fold(0, |any, &bit| any | bit) & 1 == 1 {
            for (index, _) in part.iter().enumerate().filter(|&(_, &bit)| bit & 1 == 1) {
                visit(group * 64 + index);
            }
        }
    }
    for (index, _) in rest.iter().enumerate().filter(|&(_, &bit)| bit & 1 == 1) {
        visit(groups.len() * 64 + index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_and_mask_give_the_same_ones() {
        let mut state = 5u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for dims in [&[4000u64][..], &[50, 70], &[9, 20, 31], &[3, 4, 11, 13], &[700, 1, 3]] {
            let shape = Shape::new(dims).unwrap();
            let elements = shape.elements();
            for count in [1, 2, 7, elements / 100] {
                let mut exceptions: Vec<usize> = (0..count).map(|_| random(elements) as usize).collect();
                // Runs too, so that flips meet.
                exceptions.extend((exceptions[0]..exceptions[0] + 9).filter(|&index| index < elements as usize));
                exceptions.sort_unstable();
                exceptions.dedup();
                let mut mask = vec![0i8; elements as usize];
                exceptions.iter().for_each(|&index| mask[index] = 1);
                for axes in [Axes::all(&shape), Axes::FASTEST, Axes::NONE] {
                    let mut differences = mask.clone();
                    lorenzo::predict(&mask, &shape, axes, &mut differences);
                    let expected: Vec<usize> = (0..mask.len()).filter(|&index| differences[index] & 1 == 1).collect();
                    assert_eq!(ones_of_list(&exceptions, &shape, axes), expected, "{dims:?} {axes:?}");
                }
                let mut found = Vec::new();
                for_each_in_mask(&mask, |index| found.push(index));
                assert_eq!(found, exceptions);
            }
        }
    }
}
