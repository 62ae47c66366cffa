//! Takes the boxes of two arrays, and divides each among threads.

use std::ops::Range;
use std::thread;

use crate::Field;
use crate::part::{Filled, Part};
use crate::summary::Report;
use crate::windows::Windows;

/// Statistics of an array and its copy, of which one box after the other is given.
#[derive(Debug)]
pub struct Statistics {
    field: Field,
    threads: usize,
    windows: Windows,
    /// Boxes that were added.
    done: usize,
    part: Part,
    /// The last plane of the box before, of both arrays.
    last: [Vec<u8>; 2],
}

impl Statistics {
    /// Statistics on `threads` threads, at least one. What they find does not depend on that number.
    ///
    /// # Panics
    /// If an extent is 0.
    #[must_use]
    pub fn new(field: Field, threads: usize) -> Self {
        assert!(!field.shape.contains(&0), "an array without values has no statistics");
        let (windows, part) = (Windows::new(&field), Part::new(&field));
        Self { field, threads, windows, done: 0, part, last: [Vec::new(), Vec::new()] }
    }

    /// The box that [`Statistics::add`] takes next, a range for each axis; `None` after the last one.
    #[must_use]
    pub fn next(&self) -> Option<Vec<Range<usize>>> {
        (self.done < self.windows.count()).then(|| self.windows.window(self.done).ranges)
    }

    /// Adds the bytes of that box of both arrays, in C order.
    ///
    /// # Panics
    /// If there is no next box, or the lengths are not those of the box.
    pub fn add(&mut self, original: &[u8], copy: &[u8]) {
        assert!(self.done < self.windows.count(), "all boxes were added");
        let window = self.windows.window(self.done);
        let length = window.ranges.iter().map(Range::len).product::<usize>() * self.field.scalar.element_size();
        assert_eq!((original.len(), copy.len()), (length, length), "bytes of the box {:?}", window.ranges);
        let (layers, plane) = self.windows.planes();
        let filled = Filled {
            field: &self.field,
            window: &window,
            arrays: [original, copy],
            previous: (window.first_z > 0).then(|| [&self.last[0][..], &self.last[1][..]]),
            picture: layers / 2,
            plane,
        };
        let units = window.units();
        let threads = self.threads.clamp(1, units.len());
        let of_thread =
            |first: usize| units.iter().skip(first).step_by(threads).map(|unit| filled.part(unit)).collect::<Vec<_>>();
        let parts: Vec<Vec<Part>> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|first| scope.spawn(move || of_thread(first))).collect();
            let own = of_thread(0);
            let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(own).chain(joined).collect()
        });
        // In the order of the units: sums do not depend on the number of threads.
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        for unit in 0..units.len() {
            if let Some(part) = parts[unit % threads].next() {
                self.part.add(part);
            }
        }
        for (last, bytes) in self.last.iter_mut().zip([original, copy]) {
            last.clear();
            last.extend_from_slice(&bytes[bytes.len() - bytes.len() / window.layers..]);
        }
        self.done += 1;
    }

    /// What was found in the boxes that were added.
    #[must_use]
    pub fn finish(self) -> Report {
        Report::new(&self.field, &self.part, self.windows.planes().1)
    }
}

/// Compares two arrays in memory.
///
/// # Panics
/// If an extent is 0, or the lengths are not those of the field.
#[must_use]
pub fn compare(field: Field, original: &[u8], copy: &[u8], threads: usize) -> Report {
    let (shape, each) = (field.shape.clone(), field.scalar.element_size());
    let mut statistics = Statistics::new(field, threads);
    while let Some(ranges) = statistics.next() {
        let mut boxes = [Vec::new(), Vec::new()];
        for (bytes, gathered) in [original, copy].into_iter().zip(&mut boxes) {
            assert_eq!(bytes.len(), shape.iter().product::<usize>() * each, "bytes of an array of {shape:?}");
            gather(bytes, &ranges, &shape, each, gathered);
        }
        statistics.add(&boxes[0], &boxes[1]);
    }
    statistics.finish()
}

/// Appends the bytes of a box of an array.
fn gather(bytes: &[u8], ranges: &[Range<usize>], shape: &[usize], each: usize, gathered: &mut Vec<u8>) {
    match (ranges, shape) {
        ([range, ranges @ ..], [extent, shape @ ..]) if !shape.is_empty() => {
            let layer = bytes.len() / extent;
            range.clone().for_each(|number| gather(&bytes[number * layer..(number + 1) * layer], ranges, shape, each, gathered));
        }
        ([range], _) => gathered.extend_from_slice(&bytes[range.start * each..range.end * each]),
        _ => gathered.extend_from_slice(bytes),
    }
}
