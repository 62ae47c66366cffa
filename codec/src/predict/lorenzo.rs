//! Stage 2 (FORMAT.md §6): codes → differences along a set of axes, and back.
//!
//! With all axes this is the Lorenzo predictor (Ibarria et al., Computer Graphics Forum 2003) over the whole chunk. Integers wrap. Differences are taken along
//! one axis after the other. Prefix sums along each axis undo them.
//!
//! ```text
//! difference at (y, x) = c(y, x) - c(y, x-1) - c(y-1, x) + c(y-1, x-1)      codes before the first one of an axis count as 0
//! ```

#[cfg(test)]
pub(crate) mod plain;

use std::ops::Range;
use std::slice;

#[cfg(target_arch = "x86_64")]
use crate::fast_paths::{Path, is_open};
use crate::layout::{Axes, MAX_RANK, Shape};
use crate::number::integer::Integer;
use crate::number::patched16::Patched16;
use crate::predict::sums::{self, Sums};
use crate::simd::{vectorized, widely_vectorized};

/// Earlier rows from which a row's differences along the slower axes are made.
struct Neighbours {
    /// Distance of each earlier row, in values, and whether the row is subtracted. Otherwise it is added.
    list: [(usize, bool); 7],
    count: usize,
}

/// A chunk as rows along the fastest axis.
struct Rows {
    /// Extents, fastest first.
    extents: [usize; MAX_RANK],
    /// Values from one index to the next, along each axis.
    strides: [usize; MAX_RANK],
}

impl Rows {
    fn new(shape: &Shape) -> Self {
        let extents = shape.extents();
        let mut strides = [1; MAX_RANK];
        for axis in 1..MAX_RANK {
            strides[axis] = strides[axis - 1] * extents[axis - 1];
        }
        Self { extents, strides }
    }

    fn len(&self) -> usize {
        self.extents[0]
    }

    /// Calls `visit` for batches of consecutive rows of a range. All rows of a batch have the same neighbours. `visit` gets the range of the batch's values,
    /// which counts from the first value of `rows`, and these neighbours.
    #[inline(always)]
    fn visit(&self, axes: Axes, rows: Range<usize>, mut visit: impl FnMut(Range<usize>, &Neighbours)) {
        let [len, ny, nz, _] = self.extents;
        let batch_rows = rows_of_batch(len);
        let (mut row, mut start) = (rows.start, 0);
        while row < rows.end {
            let (y, slice) = (row % ny, row / ny);
            // All rows of a slice but the first have the same neighbours.
            let count = if y == 0 { 1 } else { batch_rows.min(ny - y).min(rows.end - row) };
            let end = start + count * len;
            visit(start..end, &self.neighbours(slice / nz, slice % nz, y, axes));
            (row, start) = (row + count, end);
        }
    }

    /// The neighbours of the row with these indices: one for each non-empty set of slower axes in `axes` along which the row's index is not 0.
    fn neighbours(&self, w: usize, z: usize, y: usize, axes: Axes) -> Neighbours {
        let mut neighbours = Neighbours { list: [(0, false); 7], count: 0 };
        for (axis, index) in [(1, y), (2, z), (3, w)] {
            if index == 0 || !axes.contains(axis) {
                continue;
            }
            let stride = self.strides[axis];
            let before = neighbours.count;
            neighbours.list[before] = (stride, true);
            for other in 0..before {
                let (back, subtracted) = neighbours.list[other];
                neighbours.list[before + 1 + other] = (back + stride, !subtracted);
            }
            neighbours.count = 2 * before + 1;
        }
        neighbours
    }
}

/// Writes the differences of `codes` to `differences`, both of the shape's length.
pub fn predict<C: Integer>(codes: &[C], shape: &Shape, axes: Axes, differences: &mut [C]) {
    let rows = codes.len() / shape.row();
    predict_rows(codes, 0, shape, axes, 0..rows, differences);
}

/// How many values before a code the earliest code is that its difference needs.
#[must_use]
pub(crate) fn reach(shape: &Shape, axes: Axes) -> usize {
    let Rows { strides, extents } = Rows::new(shape);
    (0..MAX_RANK).filter(|&axis| axes.contains(axis) && extents[axis] > 1).map(|axis| strides[axis]).sum()
}

/// Writes the differences of some rows of a chunk. The codes of these rows begin at index `first` of `codes`. In front of them are the [`reach`] codes before
/// them in the chunk, or as many as the chunk has.
pub(crate) fn predict_rows<C: Integer>(
    codes: &[C],
    first: usize,
    shape: &Shape,
    axes: Axes,
    rows: Range<usize>,
    differences: &mut [C],
) {
    let layout = Rows::new(shape);
    widely_vectorized(
        #[inline(always)]
        || {
            let (row, mut minuends) = (layout.len(), Minuends([C::default(); BEFORE + PART]));
            layout.visit(
                axes,
                rows,
                #[inline(always)]
                |values, neighbours| {
                    let output = &mut differences[values.clone()];
                    let values = first + values.start..first + values.end;
                    let current = &codes[values.clone()];
                    let back = |n: usize| {
                        let distance = neighbours.list[n].0;
                        &codes[values.start - distance..values.end - distance]
                    };
                    // Rows without neighbours, and rows with neighbours along one or two slower axes, have loops of their own.
                    match (neighbours.count, axes.contains(0)) {
                        (0, true) => difference(
                            output,
                            row,
                            &mut minuends,
                            #[inline(always)]
                            |part, minuends| minuends.copy_from_slice(&current[part]),
                        ),
                        (1, true) => {
                            let a = back(0);
                            difference(
                                output,
                                row,
                                &mut minuends,
                                #[inline(always)]
                                |part, minuends| {
                                    for ((minuend, &current), &a) in minuends.iter_mut().zip(&current[part.clone()]).zip(&a[part])
                                    {
                                        *minuend = current.sub(a);
                                    }
                                },
                            );
                        }
                        (3, true) => {
                            let (a, b, ab) = (back(0), back(1), back(2));
                            difference(
                                output,
                                row,
                                &mut minuends,
                                #[inline(always)]
                                |part, minuends| {
                                    let (a, b, ab) = (&a[part.clone()], &b[part.clone()], &ab[part.clone()]);
                                    for ((((minuend, &current), &a), &b), &ab) in
                                        minuends.iter_mut().zip(&current[part]).zip(a).zip(b).zip(ab)
                                    {
                                        *minuend = current.sub(a).sub(b.sub(ab));
                                    }
                                },
                            );
                        }
                        (1, false) => {
                            for ((output, &current), &other) in output.iter_mut().zip(current).zip(back(0)) {
                                *output = current.sub(other);
                            }
                        }
                        (count, along_row) => {
                            output.copy_from_slice(current);
                            for n in 0..count {
                                combine(output, back(n), neighbours.list[n].1);
                            }
                            if along_row {
                                for row in output.chunks_exact_mut(row) {
                                    for i in (1..row.len()).rev() {
                                        row[i] = row[i].sub(row[i - 1]);
                                    }
                                }
                            }
                        }
                    }
                },
            );
        },
    );
}

/// Replaces differences by the codes.
pub fn restore<C: Integer>(codes: &mut [C], shape: &Shape, axes: Axes) {
    if axes != Axes::NONE {
        restore_batches(codes, shape, axes, |_, _| ());
    }
}

/// Restores codes from differences of which most fit 16 bits.
pub fn restore_patched16<C: Integer>(differences: &Patched16<'_>, shape: &Shape, axes: Axes, codes: &mut [C]) {
    restore_batches(
        codes,
        shape,
        axes,
        #[inline(always)]
        |range, codes| differences.widen(range, codes),
    );
}

/// Computes prefix sums along each axis, one batch of rows after the other, so that a batch stays in the cache. `load` writes the differences of a range of values.
#[inline(always)]
fn restore_batches<C: Integer>(codes: &mut [C], shape: &Shape, axes: Axes, load: impl Fn(Range<usize>, &mut [C])) {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new().filter(|_| is_open(Path::SumsAvx2)) {
        return restore_with(sums::Avx2(v3), codes, shape, axes, load);
    }
    restore_with(sums::Portable, codes, shape, axes, load);
}

#[inline(always)]
fn restore_with<C: Integer>(sums: impl Sums, codes: &mut [C], shape: &Shape, axes: Axes, load: impl Fn(Range<usize>, &mut [C])) {
    let [len, ny, nz, _] = shape.extents();
    let (slice_len, rows) = (len * ny, rows_of_batch(len));
    vectorized(
        #[inline(always)]
        || {
            for slice in 0..codes.len() / slice_len {
                let start = slice * slice_len;
                let (before, current) = codes.split_at_mut(start);
                let current = &mut current[..slice_len];
                let slice_before = (axes.contains(2) && slice % nz > 0).then(|| &before[before.len() - slice_len..]);
                for first in (0..ny).step_by(rows) {
                    let batch = first * len..ny.min(first + rows) * len;
                    load(start + batch.start..start + batch.end, &mut current[batch.clone()]);
                    if axes.contains(0) {
                        for row in current[batch.clone()].chunks_exact_mut(len) {
                            sums.add_up(row);
                        }
                    }
                    if axes.contains(1) {
                        for row in batch.clone().step_by(len).skip(usize::from(first == 0)) {
                            let (above, row) = current[row - len..].split_at_mut(len);
                            combine(&mut row[..len], above, false);
                        }
                    }
                    // Sums along y need the batch's last row before the previous slice is added to it. So the previous slice is added after all sums along y.
                    if let Some(slice_before) = slice_before.filter(|_| !axes.contains(1)) {
                        combine(&mut current[batch.clone()], &slice_before[batch], false);
                    }
                }
                if let Some(slice_before) = slice_before.filter(|_| axes.contains(1)) {
                    combine(current, slice_before, false);
                }
            }
            // Sums along w need whole volumes.
            if axes.contains(3) {
                for volume in (nz * slice_len..codes.len()).step_by(nz * slice_len) {
                    let (before, current) = codes[volume - nz * slice_len..].split_at_mut(nz * slice_len);
                    combine(&mut current[..nz * slice_len], before, false);
                }
            }
        },
    );
}

/// Number of rows of a batch. A batch stays in the L1 cache from one loop to the next. Short rows are stored value by value, and a vector load soon after such
/// a store would wait for it. So a batch has several short rows, which keeps stores and loads apart.
fn rows_of_batch(len: usize) -> usize {
    (2048 / len).max(1)
}

/// Values of a part of a batch. [`difference`] makes the minuends of a part at a time.
const PART: usize = 512;
/// Elements in front of a part's minuends. The last of them is the minuend before the part. The others align the part.
const BEFORE: usize = 64;

/// Scratch memory of [`difference`]: minuends, which are the differences along the slower axes. The minuends of a part begin with a cache line.
#[repr(align(64))]
struct Minuends<C>([C; BEFORE + PART]);

/// Writes the differences along rows of length `row`: each minuend less the minuend before it. `fill` writes the minuends of a range of indices.
#[inline(always)]
fn difference<C: Integer>(
    output: &mut [C],
    row: usize,
    Minuends(minuends): &mut Minuends<C>,
    fill: impl Fn(Range<usize>, &mut [C]),
) {
    // All minuends of a part are made first, so that each is made once.
    for (part, output) in output.chunks_mut(PART).enumerate() {
        let (first, minuends) = (part * PART, &mut minuends[BEFORE - 1..][..output.len() + 1]);
        fill(first..first + output.len(), &mut minuends[1..]);
        // One loop over all rows, as they may be short. The first value of each row is corrected below.
        for ((difference, &minuend), &before) in output.iter_mut().zip(&minuends[1..]).zip(&*minuends) {
            *difference = minuend.sub(before);
        }
        minuends[0] = minuends[output.len()];
    }
    for first in (0..output.len()).step_by(row) {
        fill(first..first + 1, slice::from_mut(&mut output[first]));
    }
}

/// Subtracts or adds `other` to `target`.
#[inline(always)]
fn combine<C: Integer>(target: &mut [C], other: &[C], subtract: bool) {
    if subtract {
        for (value, &other) in target.iter_mut().zip(other) {
            *value = value.sub(other);
        }
    } else {
        for (value, &other) in target.iter_mut().zip(other) {
            *value = value.add(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Compares differences with the plain definition, and sums by each path.
    fn compare<C: Integer + std::fmt::Debug>(codes: &[C], shape: &Shape, axes: Axes) {
        let name = format!("predict/lorenzo: {:?} along axes {:b}", shape.dims(), axes.to_byte());
        let expected = plain::differences(codes, shape, axes);
        let mut found = vec![C::from_i64(77); codes.len()];
        predict(codes, shape, axes, &mut found);
        assert_eq!(found, expected, "{name}");
        // Sums of the differences, and of the codes as if they were differences.
        for differences in [&expected[..], codes] {
            let expected = plain::sums(differences, shape, axes);
            let mut found = differences.to_vec();
            restore(&mut found, shape, axes);
            assert_eq!(found, expected, "{name}, restored");
            let load = |range: Range<usize>, codes: &mut [C]| codes.copy_from_slice(&differences[range]);
            found.fill(C::from_i64(77));
            restore_with(sums::Portable, &mut found, shape, axes, load);
            assert_eq!(found, expected, "{name}, restored by portable sums");
            #[cfg(target_arch = "x86_64")]
            if let Some(v3) = pulp::x86::V3::try_new() {
                found.fill(C::from_i64(77));
                restore_with(sums::Avx2(v3), &mut found, shape, axes, load);
                assert_eq!(found, expected, "{name}, restored by sums with AVX2");
            }
        }
        assert_eq!(plain::sums(&expected, shape, axes), codes, "{name}: the plain definition is no inverse");
    }

    #[test]
    fn differences_and_sums_are_those_of_the_plain_definition() {
        let shapes: [&[u64]; 15] = [
            &[1],
            &[7],
            &[2053],
            &[5, 3],
            &[1, 9],
            &[700, 2],
            &[3, 1031],
            &[4, 3, 5],
            &[3, 7, 131],
            &[5, 64, 65],
            &[2, 3, 4, 5],
            &[3, 1, 1, 2],
            &[2, 3, 5, 67],
            &[3, 2, 1, 16],
            &[1, 1, 1, 1],
        ];
        let mut random = Random(1);
        for shape in shapes.map(|dims| Shape::new(dims).unwrap()) {
            // Numbers of all magnitudes, whose sums wrap, with runs of zeros.
            let codes: Vec<i64> = (0..shape.elements())
                .map(|_| {
                    let number = random.next();
                    if number >> 40 & 0x180 == 0 { number.cast_signed() >> (number >> 58) } else { 0 }
                })
                .collect();
            let zeros_in_runs: Vec<i64> =
                codes.iter().enumerate().map(|(i, &code)| if i / 97 % 2 == 0 { 0 } else { code }).collect();
            for byte in 0..=Axes::all(&shape).to_byte() {
                let axes = Axes::from_byte(byte, &shape).unwrap();
                for codes in [&codes, &zeros_in_runs] {
                    compare(codes, &shape, axes);
                    compare(&codes.iter().map(|&code| code as i32).collect::<Vec<_>>(), &shape, axes);
                    compare(&codes.iter().map(|&code| code as i16).collect::<Vec<_>>(), &shape, axes);
                    compare(&codes.iter().map(|&code| code as i8).collect::<Vec<_>>(), &shape, axes);
                }
                // With differences of 16 bits and patches.
                let small: Vec<i16> = codes.iter().map(|&code| code as i16 | 1).collect();
                let patches: Vec<_> = (0..small.len()).step_by(13).map(|i| (i, codes[i])).collect();
                let mut wide: Vec<i64> = small.iter().map(|&small| small.into()).collect();
                patches.iter().for_each(|&(i, patch)| wide[i] = patch);
                let mut found = vec![77; wide.len()];
                restore_patched16(&Patched16 { values: &small, patches: &patches }, &shape, axes, &mut found);
                let expected = plain::sums(&wide, &shape, axes);
                assert_eq!(found, expected, "predict/lorenzo: patched, {:?} along axes {byte:b}", shape.dims());
            }
            assert!(Axes::from_byte(Axes::all(&shape).to_byte() + 1, &shape).is_none());
        }
    }
}
