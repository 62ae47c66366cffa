//! Takes the boxes of two arrays, and divides each among threads.

use std::ops::Range;
use std::thread;

use crate::Field;
use crate::part::{Filled, Part};
use crate::summary::Report;
use crate::windows::{Lengths, Windows};

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
        Self::with_lengths(field, threads, Lengths::default())
    }

    pub(crate) fn with_lengths(field: Field, threads: usize, lengths: Lengths) -> Self {
        assert!(!field.shape.contains(&0), "an array without values has no statistics");
        let (windows, part) = (Windows::new(&field, lengths), Part::new(&field));
        Self { field, threads, windows, done: 0, part, last: [Vec::new(), Vec::new()] }
    }

    /// The box that [`Statistics::add`] takes next, a range for each axis; `None` after the last one.
    #[must_use]
    pub fn next(&self) -> Option<Vec<Range<usize>>> {
        (self.done < self.windows.count()).then(|| self.windows.window(self.done).ranges)
    }

    /// The bytes of that box.
    #[must_use]
    pub fn next_bytes(&self) -> Option<usize> {
        Some(self.next()?.iter().map(Range::len).product::<usize>() * self.field.scalar.element_size())
    }

    /// Adds the bytes of that box of both arrays, in C order.
    ///
    /// # Panics
    /// If there is no next box, or the lengths are not those of the box.
    pub fn add(&mut self, original: &[u8], copy: &[u8]) {
        let lengths = [original.len(), copy.len()].map(Some);
        assert_eq!(lengths, [self.next_bytes(); 2], "bytes of the box {:?}", self.next());
        let window = self.windows.window(self.done);
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
    pub fn finish(&self) -> Report {
        Report::new(&self.field, &self.part, self.windows.planes().1)
    }
}

/// Compares two arrays in memory.
///
/// # Panics
/// If an extent is 0, or the lengths are not those of the field.
#[must_use]
pub fn compare(field: Field, original: &[u8], copy: &[u8], threads: usize) -> Report {
    Statistics::new(field, threads).of(original, copy)
}

impl Statistics {
    /// Takes all boxes from two arrays in memory.
    pub(crate) fn of(mut self, original: &[u8], copy: &[u8]) -> Report {
        let (shape, each) = (self.field.shape.clone(), self.field.scalar.element_size());
        let length = shape.iter().product::<usize>() * each;
        assert_eq!((original.len(), copy.len()), (length, length), "bytes of an array of {shape:?}");
        while let Some(ranges) = self.next() {
            let boxes = [original, copy].map(|bytes| {
                let mut gathered = Vec::new();
                gather(bytes, &ranges, &shape, each, &mut gathered);
                gathered
            });
            self.add(&boxes[0], &boxes[1]);
        }
        self.finish()
    }
}

/// Appends the bytes of a box of an array.
fn gather(bytes: &[u8], ranges: &[Range<usize>], shape: &[usize], each: usize, gathered: &mut Vec<u8>) {
    match (ranges, shape) {
        ([range], _) => gathered.extend_from_slice(&bytes[range.start * each..range.end * each]),
        ([range, ranges @ ..], [extent, shape @ ..]) => {
            let layers = bytes.chunks_exact(bytes.len() / extent).skip(range.start).take(range.len());
            layers.for_each(|layer| gather(layer, ranges, shape, each, gathered));
        }
        _ => gathered.extend_from_slice(bytes),
    }
}
