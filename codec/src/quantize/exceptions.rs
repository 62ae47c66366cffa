//! Exceptions in the stream (FORMAT.md §4): a list of indices and bits where they are few; where they are many, a plane of the exception mask, whose
//! differences modulo 2 are coded ([`crate::quantize::bitmap`]), and a plane of their bits.

#[cfg(target_arch = "x86_64")]
mod alike;

use crate::error::{Error, Result};
use crate::layout::Axes;
use crate::layout::{ByteOrder, Shape};
use crate::memory::{reserve, resize};
use crate::number::element::Element;
use crate::quantize::bitmap::Bitmap;
use crate::reader::take;

/// The most exceptions of a chunk of `elements` values that are in a list.
///
/// An entry of the list takes 8 bytes; the two planes take about 6 bytes for an exception without neighbours. So a list costs at most 1/256 bit per value more,
/// and saves encoder and decoder two planes.
#[must_use]
pub const fn most_listed(elements: u64) -> u64 {
    16 + elements / 4096
}

/// Bytes of an index in a list, and of the number of exceptions, in a chunk of `elements` values.
pub(crate) const fn index_len(elements: u64) -> usize {
    if elements < 1 << 32 { 4 } else { 8 }
}

/// A chunk's list of exceptions, checked.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    indices: &'a [u8],
    bits: &'a [u8],
    index_len: usize,
}

impl<'a> List<'a> {
    /// Takes the list of `count` exceptions off the front of `stream`. The list is empty if there is none, or if there are so many that the stream has a mask.
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
            return Err(Error::corrupt(SECTION, format_args!("padding is {padding:02x?}, not 0")));
        }
        let list = Self { indices, bits, index_len };
        let mut lowest = 0;
        for index in list.indices() {
            if index < lowest || index >= elements {
                return Err(Error::corrupt(
                    SECTION,
                    format_args!("index {index} is not from {lowest} to {}", elements.saturating_sub(1)),
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

    /// Writes the exceptions to a chunk.
    pub fn restore<V: Element>(&self, byte_order: ByteOrder, chunk: &mut [u8]) {
        for (at, index) in self.indices().enumerate() {
            V::read(self.bits, at, ByteOrder::Little).write(chunk, index as usize, byte_order);
        }
    }
}

/// Appends the list of a chunk's exceptions to a stream: indices, bits, padding.
///
/// # Errors
/// `OutOfMemory`.
pub fn write_list<V: Element>(
    exceptions: &Bitmap,
    chunk: &[u8],
    byte_order: ByteOrder,
    elements: u64,
    stream: &mut Vec<u8>,
) -> Result<()> {
    let count = exceptions.count();
    reserve(stream, count * index_len(elements) + (count * V::SIZE).next_multiple_of(4))?;
    for index in exceptions.indices() {
        stream.extend_from_slice(&(index as u64).to_le_bytes()[..index_len(elements)]);
    }
    let start = stream.len();
    stream.resize(start + (count * V::SIZE).next_multiple_of(4), 0);
    for (at, index) in exceptions.indices().enumerate() {
        V::read(chunk, index, byte_order).write(&mut stream[start..], at, ByteOrder::Little);
    }
    Ok(())
}

/// Writes exceptions to a chunk: the next element of `bits` to each index that is marked. `bits` has one element for each mark.
pub fn write_marked<V: Element>(bits: &[V::Code], marked: &Bitmap, order: ByteOrder, chunk: &mut [u8]) {
    debug_assert_eq!(bits.len(), marked.count());
    #[cfg(target_arch = "x86_64")]
    if alike::write_marked::<V>(bits, marked, order, chunk) {
        return;
    }
    let mut rest = bits;
    for run in marked.runs() {
        let (of_run, others) = rest.split_at(run.len());
        rest = others;
        V::write_all(of_run, V::from_bits, order, &mut chunk[run.start * V::SIZE..run.end * V::SIZE]);
    }
}

/// Writes differences modulo 2 of the exception mask to `differences`, and returns their axes: all axes, the fastest alone or none, whichever leaves the fewest
/// ones; the first of these where they tie. `mask` is scratch space.
///
/// # Errors
/// `OutOfMemory`.
pub fn predict_mask(exceptions: &Bitmap, shape: &Shape, mask: &mut Bitmap, differences: &mut Vec<i8>) -> Result<Axes> {
    let all = Axes::all(shape);
    let (mut best, mut fewest) = (Axes::NONE, exceptions.count());
    mask.copy_from(exceptions)?;
    // Differences along all axes are made from those along the fastest. They come last as they are mostly the best: then they need not be computed again.
    for (axes, more) in [(Axes::FASTEST, Axes::FASTEST), (all, all.without(Axes::FASTEST))] {
        mask.predict(shape, more)?;
        let ones = mask.count();
        if ones <= fewest {
            (best, fewest) = (axes, ones);
        }
    }
    if best != all {
        mask.copy_from(exceptions)?;
        mask.predict(shape, best)?;
    }
    differences.clear();
    resize(differences, shape.elements() as usize)?;
    mask.write(differences);
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::integer::Integer;
    use crate::number::small_float::BFloat16;

    /// A signalling NaN in binary64, and in its lower bits in binary32 and bfloat16.
    const FILL: i64 = 0x7ff0_dead_7fa0_ff81;

    fn are_written<V: Element>(order: ByteOrder, odd_one: impl Fn(usize, usize) -> bool) {
        for len in [1, 7, 63, 64, 65, 200, 333] {
            // Up to runs that are copied one by one.
            for (run, gap) in [(1, 1), (1, 90), (3, 2), (70, 5), (333, 1)] {
                let indices: Vec<usize> = (0..len).filter(|index| index % (run + gap) < run).collect();
                let mut marked = Bitmap::default();
                marked.clear(len).unwrap();
                indices.iter().for_each(|&index| marked.set(index));
                let bits: Vec<V::Code> =
                    (0..indices.len()).map(|at| V::Code::from_i64(FILL - i64::from(odd_one(at, indices.len())))).collect();
                let mut chunk: Vec<u8> = (0..len * V::SIZE).map(|byte| byte as u8).collect();
                let mut expected = chunk.clone();
                for (&index, &bits) in indices.iter().zip(&bits) {
                    V::from_bits(bits).write(&mut expected, index, order);
                }
                write_marked::<V>(&bits, &marked, order, &mut chunk);
                assert_eq!(chunk, expected, "{len} values, runs of {run} with {gap} between them");
            }
        }
    }

    #[test]
    fn exceptions_go_where_they_are_marked() {
        fn in_any_case<V: Element>() {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                are_written::<V>(order, |_, _| false);
                are_written::<V>(order, |at, count| at + 1 == count);
                are_written::<V>(order, |at, _| at % 3 == 1);
            }
        }
        in_any_case::<f32>();
        in_any_case::<f64>();
        in_any_case::<BFloat16>();
        in_any_case::<i8>();
    }

    #[test]
    fn lists_come_back_and_wrong_ones_are_refused() {
        let elements = 100u64;
        let chunk: Vec<u8> = (0..elements as i16).flat_map(|value| (value - 7).to_be_bytes()).collect();
        for indices in [&[][..], &[0], &[99], &[0, 1, 50], &[3, 5, 7, 11, 97]] {
            let mut exceptions = Bitmap::default();
            exceptions.clear(elements as usize).unwrap();
            indices.iter().for_each(|&index| exceptions.set(index));
            let mut stream = Vec::new();
            write_list::<i16>(&exceptions, &chunk, ByteOrder::Big, elements, &mut stream).unwrap();
            assert_eq!(
                stream.len(),
                indices.len() * 4 + (indices.len() * 2).next_multiple_of(4),
                "4 bytes an index, 2 a value, padding"
            );
            stream.push(0xaa);
            let mut rest = &stream[..];
            let list = List::take(&mut rest, indices.len() as u64, elements, 2).unwrap();
            assert_eq!(rest, [0xaa], "the list ends with its padding");
            let mut restored = vec![0xff; chunk.len()];
            list.restore::<i16>(ByteOrder::Big, &mut restored);
            for index in 0..elements as usize {
                let expected = if indices.contains(&index) { i16::read(&chunk, index, ByteOrder::Big) } else { -1 };
                assert_eq!(i16::read(&restored, index, ByteOrder::Big), expected, "{index}");
            }
            for len in 0..stream.len() - 1 {
                assert!(List::take(&mut &stream[..len], indices.len() as u64, elements, 2).is_err(), "cut to {len} bytes");
            }
        }
        let take = |bytes: &[u8], count| List::take(&mut &*bytes, count, elements, 2).map(|list| list.indices().count());
        assert!(take(&[100, 0, 0, 0, 1, 1, 0, 0], 1).is_err(), "an index behind the chunk");
        assert!(take(&[99, 0, 0, 0, 1, 1, 0, 9], 1).is_err(), "padding");
        assert!(take(&[5, 0, 0, 0, 5, 0, 0, 0, 1, 1, 2, 2], 2).is_err(), "an index again");
        assert_eq!(take(&[], most_listed(elements) + 1).unwrap(), 0, "many exceptions have no list");
    }

    #[test]
    fn lists_of_large_chunks_have_wide_indices() {
        assert_eq!((most_listed(1), most_listed(4095), most_listed(4096), most_listed(1 << 20)), (16, 16, 17, 272));
        let elements = (1 << 32) + 1;
        let mut bytes = (1u64 << 32).to_le_bytes().to_vec();
        bytes.extend([7, 0, 0, 0]);
        let list = List::take(&mut &bytes[..], 1, elements, 1).unwrap();
        assert!(list.indices().eq([1 << 32]));
    }

    #[test]
    fn masks_have_the_axes_with_the_fewest_ones() {
        let shape = Shape::new(&[8, 8]).unwrap();
        for (is_exception, axes) in [
            (&(|_, _| false) as &dyn Fn(usize, usize) -> bool, Axes::all(&shape)),
            (&|_, _| true, Axes::all(&shape)),
            (&|y, x| y % 3 == 0 && x >= 4, Axes::FASTEST),
            (&|y, x| y == 3 && x == 3, Axes::NONE),
        ] {
            let (mut exceptions, mut scratch, mut differences) = (Bitmap::default(), Bitmap::default(), Vec::new());
            exceptions.clear(64).unwrap();
            let at = |y: usize, x: usize| i8::from(is_exception(y, x));
            (0..64).filter(|index| at(index / 8, index % 8) == 1).for_each(|index| exceptions.set(index));
            let found = predict_mask(&exceptions, &shape, &mut scratch, &mut differences).unwrap();
            assert_eq!(found.to_byte(), axes.to_byte());
            for (index, &difference) in differences.iter().enumerate() {
                let (y, x) = (index / 8, index % 8);
                let left = if x > 0 && axes.contains(0) { at(y, x - 1) } else { 0 };
                let above = if y > 0 && axes.contains(1) { at(y - 1, x) } else { 0 };
                let corner = if x > 0 && y > 0 && axes.contains(1) { at(y - 1, x - 1) } else { 0 };
                assert_eq!(difference, at(y, x) ^ left ^ above ^ corner, "{y}, {x}");
            }
        }
    }
}
