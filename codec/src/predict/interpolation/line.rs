//! Interpolation of a level of one dimension: segments of 1024 new values, which stay in the L1 cache.

use super::level::{Extents, Level, has};
use super::mean::{margin_value, mean, mean_of, predicted_from};
use super::slice_ring::ClassRows;
use crate::error::Result;
use crate::layout::MAX_RANK;
use crate::memory::lengthen;
use crate::simd::outlined;

/// New values of a segment: those that the coarser level lacks.
const SEGMENT_LEN: usize = 1024;

/// Whether a level is one-dimensional along the fastest axis.
pub(super) fn is_line(extents: Extents) -> bool {
    extents[1..].iter().all(|&extent| extent == 1)
}

/// Processes the level by linear or cubic interpolation, with the arguments of [`super::slice_ring::SliceRing::run`]. The vectors are scratch memory.
///
/// # Errors
/// `OutOfMemory`.
#[inline(always)]
pub(super) fn run(
    level: &Level,
    is_linear: bool,
    coarse: &[i32],
    room: &mut Vec<i32>,
    predictions: &mut Vec<i32>,
    mut code_rows: impl FnMut(&ClassRows<'_>, &[i32], &mut [i32]),
    mut merge: impl FnMut(usize, &[i32], &[i32]),
) -> Result<()> {
    // A segment of n new values is predicted from n + 3 known ones.
    const MARGINS: usize = 3;
    let Some(class) = level.classes().first().filter(|class| has(class.set, 0)) else { return Ok(()) };
    let (known, new) = (level.coarse_extents[0], class.extents[0]);
    let coarse = &coarse[..known];
    lengthen(predictions, SEGMENT_LEN)?;
    lengthen(room, 2 * SEGMENT_LEN + MARGINS)?;
    let (copy, positions) = room.split_at_mut(SEGMENT_LEN + MARGINS);
    for start in (0..new).step_by(SEGMENT_LEN) {
        let end = new.min(start + SEGMENT_LEN);
        let len = end - start;
        let (copy, positions) = (&mut copy[..len + MARGINS], &mut positions[..len]);
        // Known positions from one before the segment to two after it. At the line's ends a copy is continued by one value.
        let around = if start > 0 && end + 2 <= known {
            &coarse[start - 1..end + 2]
        } else {
            let (from, to) = (start.saturating_sub(1), known.min(end + 2));
            let first = from + 1 - start;
            copy[first..first + to - from].copy_from_slice(&coarse[from..to]);
            if known > 1 {
                let third = |index: usize| (known > 2).then(|| coarse[index]);
                if start == 0 {
                    copy[0] = margin_value(coarse[0], coarse[1], third(2));
                }
                if let Some(after) = copy.get_mut(known + 1 - start) {
                    *after = margin_value(coarse[known - 1], coarse[known - 2], third(known.wrapping_sub(3)));
                }
            }
            &*copy
        };
        // The last new value may have no known one after it.
        let inner = len.min(known - 1 - start);
        let predictions = &mut predictions[..len];
        outlined(
            #[inline(always)]
            || {
                let neighbours = [&around[..inner], &around[1..], &around[2..], &around[3..]];
                mean_of::<1>([neighbours; MAX_RANK], is_linear, &mut predictions[..inner], 1);
            },
        );
        if inner < len {
            predictions[inner] = mean(predicted_from(around[inner], around[inner + 1], is_linear || known == 1), 1);
        }
        let class_rows = ClassRows { class, indices: [start, 0, 0, 0], len, rows: 1, stride: len };
        outlined(
            #[inline(always)]
            || code_rows(&class_rows, predictions, positions),
        );
        let evens = &coarse[start..if end == new { known } else { end }];
        outlined(
            #[inline(always)]
            || merge(2 * start, evens, positions),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::level::count;
    use super::super::plain;
    use super::*;
    use crate::predict::predictor::InterpolationKind;

    #[test]
    fn lines_of_any_length_are_restored_as_the_format_says() {
        let around_segments = (1..=3).flat_map(|segments| (2 * SEGMENT_LEN * segments - 4)..=(2 * SEGMENT_LEN * segments + 5));
        for len in (1..40).chain([97, 1021, 1023, 1025]).chain(around_segments) {
            let level = Level::new([len, 1, 1, 1]);
            assert!(is_line(level.extents));
            let known = count(level.coarse_extents);
            let coarse = plain::some_residuals(known, 3);
            let residuals = plain::some_residuals(len - known, 5);
            for kind in [false, true].map(|is_linear| InterpolationKind::new(0b0001, is_linear)) {
                let mut positions = vec![0; len];
                // Scratch memory with contents: none of it may show.
                let (mut room, mut predictions) = (vec![-77; 3000], vec![99; 10]);
                run(
                    &level,
                    kind.is_linear(),
                    &coarse,
                    &mut room,
                    &mut predictions,
                    |rows, predictions, positions| {
                        for (i, (position, &prediction)) in positions.iter_mut().zip(predictions).enumerate() {
                            *position = plain::position(prediction, residuals[rows.indices[0] + i], 8);
                        }
                    },
                    |first, evens, odds| {
                        evens.iter().enumerate().for_each(|(i, &even)| positions[first + 2 * i] = even);
                        odds.iter().enumerate().for_each(|(i, &odd)| positions[first + 2 * i + 1] = odd);
                    },
                )
                .unwrap();
                // A line of one value has no new ones, and is not merged.
                if len > 1 {
                    let expected = plain::restore_level(level.extents, &coarse, &residuals, (kind, 0), false);
                    assert_eq!(positions, expected, "{len} values, {kind:?}");
                }
            }
        }
        assert!(!is_line([5, 2, 1, 1]) && !is_line([5, 1, 1, 2]));
    }
}
