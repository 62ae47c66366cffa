//! One level of the interpolation where all values stand in one line: a segment at a time, which stays in the nearest cache.

use super::level::{Extents, Level, has};
use super::slice_ring::{ClassRows, continued, mean, mean_of, predicted_from};
use crate::error::Result;
use crate::layout::MAX_RANK;
use crate::memory::lengthen;
use crate::simd::outlined;

/// New values of a segment.
const SEGMENT: usize = 1024;

/// Whether all values of a grid stand in a line.
pub(super) fn is_line(extents: Extents) -> bool {
    extents[1..].iter().all(|&extent| extent == 1)
}

/// Goes through the level, as [`super::slice_ring::SliceRing::run`] does. The vectors are room.
///
/// # Errors
/// `OutOfMemory`.
#[inline(always)]
pub(super) fn run(
    level: &Level,
    coarse: &[i32],
    room: &mut Vec<i32>,
    predictions: &mut Vec<i32>,
    mut code: impl FnMut(&ClassRows<'_>, &[i32], &mut [i32]),
    mut merge: impl FnMut(usize, &[i32], &[i32]),
) -> Result<()> {
    const MARGINS: usize = 3;
    let Some(class) = level.classes().first().filter(|class| has(class.set, 0)) else { return Ok(()) };
    let (known, new) = (level.coarse[0], class.extents[0]);
    let coarse = &coarse[..known];
    lengthen(predictions, SEGMENT)?;
    lengthen(room, 2 * SEGMENT + MARGINS)?;
    let (near, positions) = room.split_at_mut(SEGMENT + MARGINS);
    for start in (0..new).step_by(SEGMENT) {
        let end = new.min(start + SEGMENT);
        let len = end - start;
        let (near, positions) = (&mut near[..len + MARGINS], &mut positions[..len]);
        // What is known from one before the segment to two behind it; at the line's ends, with what continues it.
        let near = if start > 0 && end + 2 <= known {
            &coarse[start - 1..end + 2]
        } else {
            let (from, to) = (start.saturating_sub(1), known.min(end + 2));
            let first = from + 1 - start;
            near[first..first + to - from].copy_from_slice(&coarse[from..to]);
            if known > 1 {
                let third = |index: usize| (known > 2).then(|| coarse[index]);
                if start == 0 {
                    near[0] = continued(coarse[0], coarse[1], third(2));
                }
                if let Some(behind) = near.get_mut(known + 1 - start) {
                    *behind = continued(coarse[known - 1], coarse[known - 2], third(known.wrapping_sub(3)));
                }
            }
            &*near
        };
        // The last one may have nothing behind it.
        let inner = len.min(known - 1 - start);
        let predictions = &mut predictions[..len];
        outlined(
            #[inline(always)]
            || {
                let neighbours = [&near[..inner], &near[1..], &near[2..], &near[3..]];
                mean_of::<1>([neighbours; MAX_RANK], &mut predictions[..inner], 1);
            },
        );
        if inner < len {
            predictions[inner] = mean(predicted_from(near[inner], near[inner + 1], known == 1), 1);
        }
        let class_rows = ClassRows { class, indices: [start, 0, 0, 0], len, rows: 1, stride: len };
        outlined(
            #[inline(always)]
            || code(&class_rows, predictions, positions),
        );
        let evens = &coarse[start..if end == new { known } else { end }];
        outlined(
            #[inline(always)]
            || merge(2 * start, evens, positions),
        );
    }
    Ok(())
}
