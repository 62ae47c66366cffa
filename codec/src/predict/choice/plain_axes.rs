//! FORMAT.md §11.3 in no hurry: the axes of a chunk of exact bits, of integers, or on a grid of the logarithm. The choice is tested against it.

use super::axes_of;
use super::plain::{Estimate, estimate, indices, origins, tile_extents};
use crate::layout::{MAX_RANK, Shape};
use crate::predict::lorenzo::plain as lorenzo;

/// Number of tiles, and of values of a tile, about.
const TILES: usize = 64;
const VALUES: usize = 64;

/// A chunk's codes, extended to 64 bits by their sign.
pub(super) struct PlainAxes<'a> {
    pub(super) codes: &'a [i64],
    /// Width of the codes in bits: 32 or 64.
    pub(super) width: u32,
    pub(super) shape: &'a Shape,
}

impl PlainAxes<'_> {
    /// The differences of an array's codes along a set of axes, modulo 2^width.
    fn differences(&self, codes: &[i64], shape: &Shape, set: usize) -> Vec<i64> {
        let wrapped = |difference: i64| difference << (64 - self.width) >> (64 - self.width);
        lorenzo::differences(codes, shape, axes_of(set, shape)).into_iter().map(wrapped).collect()
    }

    /// The sets of axes longer than 1, by their numbers.
    pub(super) fn sets(&self) -> impl Iterator<Item = usize> {
        let extents = self.shape.extents();
        (0..1usize << MAX_RANK).filter(move |set| (0..MAX_RANK).all(|axis| set >> axis & 1 == 0 || extents[axis] > 1))
    }

    fn tile_extents(&self) -> [usize; MAX_RANK] {
        tile_extents(self.shape.extents(), VALUES)
    }

    /// Whether the chunk is looked at as a whole.
    fn is_small(&self) -> bool {
        self.codes.len() < TILES * self.tile_extents().iter().product::<usize>()
    }

    /// The estimate of a set: of all values, or of the values of tiles that have a neighbour before them along every axis longer than 1.
    pub(super) fn estimate(&self, set: usize) -> Estimate {
        if self.is_small() {
            return estimate(&[self.differences(self.codes, self.shape, set)], u64::MAX, 0);
        }
        let (chunk, sides) = (self.shape.extents(), self.tile_extents());
        let dims: [u64; MAX_RANK] = std::array::from_fn(|axis| sides[MAX_RANK - 1 - axis] as u64);
        let mut stretches = Vec::new();
        for origin in origins(chunk, sides, TILES) {
            let index =
                |at: [usize; MAX_RANK]| (0..MAX_RANK).rev().fold(0, |index, axis| index * chunk[axis] + origin[axis] + at[axis]);
            let tile: Vec<i64> = indices(sides).map(|at| self.codes[index(at)]).collect();
            let differences = self.differences(&tile, &Shape::new(&dims).unwrap(), set);
            let mut stretch = Vec::new();
            for (at, difference) in indices(sides).zip(differences) {
                if (0..MAX_RANK).all(|axis| sides[axis] == 1 || at[axis] > 0) {
                    stretch.push(difference);
                } else {
                    stretches.push(std::mem::take(&mut stretch));
                }
            }
            stretches.push(stretch);
        }
        estimate(&stretches, u64::MAX, 0)
    }

    /// The set of axes with the least estimate, which is corrected for the chunk's first values if it is one of tiles.
    pub(super) fn best_set(&self) -> usize {
        let extents = self.shape.extents();
        let mut estimates = [u128::MAX; 1 << MAX_RANK];
        for set in self.sets() {
            estimates[set] = self.estimate(set).bits.into();
        }
        for axis in (0..MAX_RANK).filter(|_| !self.is_small()) {
            let extent = extents[axis] as u128;
            for set in self.sets().filter(|set| set >> axis & 1 == 1) {
                estimates[set] = (estimates[set] * (extent - 1) + estimates[set ^ 1 << axis]) / extent;
            }
        }
        self.sets().min_by_key(|&set| (estimates[set], set == 0 && estimates[set] == 0)).unwrap()
    }
}
