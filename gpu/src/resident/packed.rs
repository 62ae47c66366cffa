//! Streams one behind the other in a caller's device memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use quire_codec::Error;

/// Streams begin at multiples of this, in bytes.
const ALIGNMENT: u64 = 16;

/// The first multiple of [`ALIGNMENT`] behind `bytes` bytes.
pub(super) fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Where the streams of a batch go in device memory. Each begins at a multiple of 16 bytes.
#[derive(Debug)]
pub struct PackedStreams<'a> {
    target: u64,
    capacity: u64,
    places: Mutex<Places<'a>>,
    placed: Condvar,
}

#[derive(Debug)]
struct Places<'a> {
    offsets: &'a mut [u64],
    lengths: &'a mut [u64],
    /// The first chunk whose stream has no place yet.
    next: usize,
    /// Bytes of all streams that have places.
    end: u64,
    is_broken_off: bool,
}

impl<'a> PackedStreams<'a> {
    /// Room of `capacity` bytes at `target`, a multiple of 16; 0 to learn the lengths alone. Offsets and lengths are written for each chunk.
    ///
    /// # Panics
    /// If there are more offsets than lengths, or fewer.
    #[must_use]
    pub fn new(target: u64, capacity: u64, offsets: &'a mut [u64], lengths: &'a mut [u64]) -> Self {
        assert_eq!(offsets.len(), lengths.len(), "an offset and a length for each chunk");
        let places = Places { offsets, lengths, next: 0, end: 0, is_broken_off: false };
        Self { target, capacity, places: Mutex::new(places), placed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Places<'a>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives streams from chunk `first` on their places, when all chunks before have theirs. The address of the first one, if they fit; `None` too when the
    /// batch is broken off. Streams that have places keep them: a set is made again, in two halves, where the GPU had no memory for its last part.
    pub(super) fn place(&self, first: usize, lengths: impl Iterator<Item = u64>) -> Option<u64> {
        let mut places = self.lock();
        while places.next < first {
            if places.is_broken_off {
                return None;
            }
            places = self.placed.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        let begin = if first < places.next { places.offsets[first] } else { places.end };
        let (mut next, mut end) = (first, begin);
        for length in lengths {
            (places.offsets[next], places.lengths[next]) = (end, length);
            end += aligned(length);
            next += 1;
        }
        if next > places.next {
            (places.next, places.end) = (next, end);
        }
        self.placed.notify_all();
        (self.target != 0 && end <= self.capacity).then(|| self.target + begin)
    }

    /// Ends all waits for places.
    pub(super) fn break_off(&self) {
        self.lock().is_broken_off = true;
        self.placed.notify_all();
    }

    /// # Errors
    /// `InvalidArgument` if the streams did not fit.
    pub(super) fn check(&self) -> Result<(), Error> {
        let end = self.lock().end;
        if self.target != 0 && end > self.capacity {
            return Err(Error::invalid(format_args!("the streams take {end} bytes, there is room for {}", self.capacity)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_placed_in_the_order_of_their_chunks() {
        let (mut offsets, mut lengths) = ([0; 5], [0; 5]);
        let packed = PackedStreams::new(1 << 20, 200, &mut offsets, &mut lengths);
        std::thread::scope(|scope| {
            let later = scope.spawn(|| packed.place(2, [40, 1, 100].into_iter()));
            assert_eq!(packed.place(0, [17, 16].into_iter()), Some(1 << 20));
            assert_eq!(later.join().unwrap(), None, "they do not fit");
        });
        assert!(packed.check().is_err());
        assert_eq!((offsets, lengths), ([0, 32, 48, 96, 112], [17, 16, 40, 1, 100]));
    }

    #[test]
    fn a_set_that_is_made_again_in_two_halves_keeps_its_places() {
        let (mut offsets, mut lengths) = ([0; 5], [0; 5]);
        let packed = PackedStreams::new(1 << 20, 200, &mut offsets, &mut lengths);
        let streams = [17, 16, 40, 1, 60];
        let place = |range: std::ops::Range<usize>| packed.place(range.start, streams[range].iter().copied());
        assert_eq!([place(0..2), place(2..4)], [Some(1 << 20), Some((1 << 20) + 48)]);
        // The set of the chunks 2 and 3 fails behind its places.
        assert_eq!([place(2..3), place(3..4), place(4..5)], [48, 96, 112].map(|offset| Some((1 << 20) + offset)));
        assert!(packed.check().is_ok());
        assert_eq!((offsets, lengths), ([0, 32, 48, 96, 112], streams));
    }

    #[test]
    fn nobody_waits_for_a_batch_that_is_broken_off() {
        let (mut offsets, mut lengths) = ([0; 2], [0; 2]);
        let packed = PackedStreams::new(0, 0, &mut offsets, &mut lengths);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| packed.place(1, [4].into_iter()));
            packed.break_off();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert!(packed.check().is_ok());
    }
}
