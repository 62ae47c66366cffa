//! The mask that says where exceptions are (FORMAT.md §5, §6): list of indices → differences modulo 2, and back.

use crate::error::Result;
use crate::layout::Shape;
use crate::lorenzo::{self, Axes};
use crate::memory::resize;

/// With fewer exceptions than one in so many values, the mask's differences are made from the list alone.
const SPARSE: usize = 64;

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

/// Places of the ones among the differences of a mask with few ones: each one in the mask flips the difference at its own place and at
/// the next place along each set of axes.
fn ones_of_list(exceptions: &[usize], shape: &Shape, axes: Axes) -> Vec<usize> {
    let mut flips = exceptions.to_vec();
    let mut stride = 1;
    for (axis, &extent) in shape.dims().iter().rev().enumerate() {
        let extent = extent as usize;
        if axes.contains(axis) {
            let next: Vec<usize> =
                flips.iter().filter(|&&index| index / stride % extent + 1 < extent).map(|index| index + stride).collect();
            flips.extend(next);
        }
        stride *= extent;
    }
    flips.sort_unstable();
    // What is flipped twice is as it was.
    flips.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1).map(|same| same[0]).collect()
}

/// Calls `visit` with each index whose lowest bit is set.
pub fn for_each_in_mask(mask: &[i8], mut visit: impl FnMut(usize)) {
    for (group, part) in mask.chunks(64).enumerate() {
        // Most groups have none.
        if part.iter().fold(0, |any, &bit| any | bit) & 1 == 1 {
            for (index, _) in part.iter().enumerate().filter(|&(_, &bit)| bit & 1 == 1) {
                visit(group * 64 + index);
            }
        }
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
