//! The positions of exceptions (FORMAT.md §4): a list where they are few, a mask where they are many. The mask's differences modulo 2 are coded ([`crate::quantize::bitmap`]).

#[cfg(target_arch = "x86_64")]
mod alike;

use crate::error::{Error, Result};
use crate::layout::Axes;
use crate::layout::{ByteOrder, Shape};
use crate::memory::{reserve, resize};
use crate::number::element::Element;
use crate::quantize::bitmap::Bitmap;
use crate::reader::take;

/// The most exceptions of a chunk that stand in a list.
///
/// An entry takes 8 bytes where the planes take about 6 for an exception that stands alone: the list costs no more than 1/256 bit a value
/// beyond them, and saves both sides two planes.
#[must_use]
pub const fn most_listed(elements: u64) -> u64 {
    16 + elements / 4096
}

/// Bytes of an index in a list.
const fn index_len(elements: u64) -> usize {
    if elements > 1 << 32 { 8 } else { 4 }
}

/// A chunk's list of exceptions, checked.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    indices: &'a [u8],
    bits: &'a [u8],
    index_len: usize,
}

impl<'a> List<'a> {
    /// Takes the list of `count` exceptions off the front of `stream`; an empty one if they are none, or so many that a mask says where they are.
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
                    format_args!("index {index} stands where {lowest} to {} may stand", elements.saturating_sub(1)),
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

    /// Writes the exceptions of a chunk.
    pub fn restore<V: Element>(&self, byte_order: ByteOrder, chunk: &mut [u8]) {
        for (at, index) in self.indices().enumerate() {
            V::read(self.bits, at, ByteOrder::Little).write(chunk, index as usize, byte_order);
        }
    }
}

/// Appends the list of a chunk's exceptions.
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

/// Writes exceptions, from their bits, in the positions that are marked, which are as many.
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

/// Writes differences modulo 2 of the mask to `differences`, along those axes that leave the fewest ones, of all axes, the fastest alone and none, the first of
/// them where they tie. `mask` is room to work in.
///
/// # Errors
/// `OutOfMemory`.
pub fn predict_mask(exceptions: &Bitmap, shape: &Shape, mask: &mut Bitmap, differences: &mut Vec<i8>) -> Result<Axes> {
    let all = Axes::all(shape);
    let (mut best, mut fewest) = (Axes::NONE, exceptions.count());
    mask.copy_from(exceptions)?;
    // Differences along all axes go on from those along the fastest, and are mostly the best: they need not be computed again.
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
}
