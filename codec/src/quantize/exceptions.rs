//! Exceptions in the stream (FORMAT.md §4). Few exceptions are a list of indices and bits. Many exceptions are two planes: the
//! exception mask, of which differences modulo 2 are coded ([`crate::quantize::bitmap`]), and the bits of the exceptions.

#[cfg(test)]
pub(crate) mod plain;

use crate::error::{Error, Result};
use crate::layout::{Axes, ByteOrder, Shape};
use crate::memory::{reserve, resize};
use crate::number::element::Element;
use crate::quantize::bitmap::Bitmap;
use crate::reader::take;

/// Largest number of exceptions that a chunk of `elements` values has in a list.
///
/// A list of this length takes little more space than two planes, and saves encoder and decoder the planes.
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
    /// Takes the list of `count` exceptions off the front of `stream`. The list is empty if there are no exceptions, or more than [`most_listed`].
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
    let mut rest = bits;
    for run in marked.runs() {
        let (of_run, others) = rest.split_at(run.len());
        rest = others;
        V::write_all(of_run, V::from_bits, order, &mut chunk[run.start * V::SIZE..run.end * V::SIZE]);
    }
}

/// Writes differences modulo 2 of the exception mask to `differences`, and returns their axes. The candidates are all axes, the
/// fastest alone, and none, in this order. The first candidate with the fewest ones is taken. `mask` is scratch space.
///
/// # Errors
/// `OutOfMemory`.
pub fn predict_mask(exceptions: &Bitmap, shape: &Shape, mask: &mut Bitmap, differences: &mut Vec<i8>) -> Result<Axes> {
    let all = Axes::all(shape);
    let (mut best, mut fewest) = (Axes::NONE, exceptions.count());
    mask.copy_from(exceptions)?;
    // Differences along all axes are made from those along the fastest. All axes come last and mostly are the best: `mask` has
    // their differences already.
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
    use crate::quantize::chunk_of;
    use crate::random::Random;

    /// A signalling NaN of binary64. Its lower bits are signalling NaNs of binary32 and of bfloat16.
    const FILL: i64 = 0x7ff0_dead_7fa0_ff81;

    fn check_written<V: Element>(order: ByteOrder) {
        for len in [1, 7, 63, 64, 65, 200, 333] {
            for (run, gap) in [(1, 1), (1, 90), (3, 2), (70, 5), (333, 1)] {
                let indices: Vec<usize> = (0..len).filter(|index| index % (run + gap) < run).collect();
                let marked = Bitmap::of(len, indices.iter().copied());
                let bits: Vec<V::Code> = (0..indices.len()).map(|at| V::Code::from_i64(FILL - at as i64)).collect();
                let mut chunk: Vec<u8> = (0..len * V::SIZE).map(|byte| byte as u8).collect();
                let mut values: Vec<V> = (0..len).map(|index| V::read(&chunk, index, order)).collect();
                let mask: Vec<bool> = (0..len).map(|index| indices.contains(&index)).collect();
                plain::replace_marked(&mut values, &mask, &bits);
                let expected = chunk_of(&values, order);
                write_marked::<V>(&bits, &marked, order, &mut chunk);
                let name = format!("quantize/exceptions: {len} values, runs of {run} with {gap} between them");
                assert_eq!(chunk, expected, "{name}");
            }
        }
    }

    #[test]
    fn exceptions_go_where_they_are_marked() {
        fn in_any_case<V: Element>() {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                check_written::<V>(order);
            }
        }
        in_any_case::<f32>();
        in_any_case::<f64>();
        in_any_case::<BFloat16>();
        in_any_case::<i8>();
    }

    /// Takes a list of `count` exceptions off bytes. Returns index and bits of each exception and the list's length, in the form
    /// of [`plain::read_list`].
    fn taken<V: Element>(bytes: &[u8], count: usize, elements: u64) -> Option<(Vec<(u64, i64)>, usize)> {
        let mut rest = bytes;
        let list = List::take(&mut rest, count as u64, elements, V::SIZE).ok()?;
        let entries =
            list.indices().enumerate().map(|(at, index)| (index, V::read(list.bits, at, ByteOrder::Little).to_bits_i64()));
        Some((entries.collect(), bytes.len() - rest.len()))
    }

    /// Lists of a chunk of `len` values, and bytes that are no list.
    fn check_lists<V: Element>(len: usize) {
        let mut random = Random(1);
        let elements = len as u64;
        for (turn, order) in (0..60).flat_map(|turn| [ByteOrder::Little, ByteOrder::Big].map(|order| (turn, order))) {
            let values: Vec<V> =
                (0..len).map(|_| V::from_bits(V::Code::from_i64(random.below(1 << 32).cast_signed() << 16 ^ FILL))).collect();
            let chunk = chunk_of(&values, order);
            let mut indices: Vec<usize> = (0..turn % 17).map(|_| random.below(elements) as usize).collect();
            indices.sort_unstable();
            indices.dedup();
            let exceptions = Bitmap::of(len, indices.iter().copied());
            let listed: Vec<(u64, V)> = indices.iter().map(|&index| (index as u64, values[index])).collect();
            let name = format!("quantize/exceptions: {indices:?} of {len} values of {} bytes", V::SIZE);
            let mut stream = Vec::new();
            write_list::<V>(&exceptions, &chunk, order, elements, &mut stream).unwrap();
            assert_eq!(stream, plain::write_list(&listed, elements), "{name}");
            let mut restored = vec![0xff; chunk.len()];
            List::take(&mut &stream[..], indices.len() as u64, elements, V::SIZE).unwrap().restore::<V>(order, &mut restored);
            let mut expected = vec![0xff; chunk.len()];
            indices.iter().for_each(|&index| values[index].write(&mut expected, index, order));
            assert_eq!(restored, expected, "{name}, restored");
            // The list with a byte behind it, its beginnings, and lists with a byte changed.
            stream.push(0xaa);
            let damaged = (0..stream.len()).map(|at| {
                let mut damaged = stream.clone();
                damaged[at] = [damaged[at].wrapping_add(1), random.below(256) as u8, 0][at % 3];
                damaged
            });
            let beginnings = (0..=stream.len()).map(|end| stream[..end].to_vec());
            for bytes in damaged.chain(beginnings) {
                let of_entry = |(index, value): (u64, V)| (index, value.to_bits_i64());
                let expected = plain::read_list::<V>(&bytes, indices.len(), elements);
                let expected = expected.map(|(entries, len)| (entries.into_iter().map(of_entry).collect(), len));
                assert_eq!(taken::<V>(&bytes, indices.len(), elements), expected, "{name}: {bytes:?}");
            }
        }
    }

    #[test]
    fn lists_are_those_of_the_plain_definition() {
        for len in [1, 2, 97, 300] {
            check_lists::<f32>(len);
            check_lists::<f64>(len);
            check_lists::<BFloat16>(len);
            check_lists::<u8>(len);
            check_lists::<i16>(len);
            check_lists::<u64>(len);
        }
        let bits_behind_many = List::take(&mut &[][..], most_listed(100) + 1, 100, 2).unwrap();
        assert_eq!(bits_behind_many.indices().count(), 0, "many exceptions have no list");
        for elements in [1, 15, 4095, 4096, 1 << 20, 1 << 40] {
            let most = most_listed(elements);
            assert!(plain::are_few(most, elements) && !plain::are_few(most + 1, elements), "quantize/exceptions: {elements}");
        }
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
    fn masks_are_those_of_the_plain_definition() {
        let mut random = Random(1);
        let shapes: [&[u64]; 10] =
            [&[1], &[67], &[8, 8], &[1, 9], &[50, 70], &[7, 50, 18], &[9, 20, 31], &[3, 4, 11, 13], &[700, 1, 3], &[5, 64, 64]];
        for shape in shapes.map(|dims| Shape::new(dims).unwrap()) {
            let (row, len) = (shape.row(), shape.elements() as usize);
            let any = 1 + random.below(len as u64) as usize;
            let masks: [&dyn Fn(usize) -> bool; 7] = [
                &|_| false,
                &|_| true,
                &|index| index == any - 1,
                &|index| index / row % 3 == 0 && 2 * (index % row) >= row,
                &|index| index % any == 0,
                &|index| index >= any,
                &|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0,
            ];
            for (number, is_exception) in masks.into_iter().enumerate() {
                let mask: Vec<bool> = (0..len).map(is_exception).collect();
                let name = format!("quantize/exceptions: mask {number} of {:?}", shape.dims());
                let exceptions = Bitmap::of(len, (0..len).filter(|&index| mask[index]));
                let (mut scratch, mut differences) = (Bitmap::default(), vec![7]);
                let axes = predict_mask(&exceptions, &shape, &mut scratch, &mut differences).unwrap();
                let (expected_axes, expected) = plain::predict_mask(&mask, &shape);
                assert_eq!((axes, &differences), (expected_axes, &expected), "{name}");
                // Only the lowest bits of the plane's integers count.
                differences.iter_mut().for_each(|difference| *difference |= 2 * (random.below(128) as i8));
                scratch.read(&differences).unwrap();
                scratch.restore(&shape, axes).unwrap();
                let restored: Vec<usize> = scratch.indices().collect();
                let expected = plain::restore_mask(&differences, &shape, axes);
                assert!(restored.into_iter().eq((0..len).filter(|&index| expected[index])), "{name}, restored");
                assert_eq!(expected, mask, "{name}, restored");
            }
        }
    }
}
