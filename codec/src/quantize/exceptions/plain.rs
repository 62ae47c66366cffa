//! FORMAT.md §4 and §6.1 word for word, one exception at a time: the list of exceptions and their mask.

use crate::layout::{Axes, Shape};
use crate::number::element::Element;
use crate::number::integer::Integer;
use crate::predict::lorenzo;

/// Whether the exceptions of a chunk are few: they have a list.
pub(super) fn are_few(count: u64, elements: u64) -> bool {
    (1..=16 + elements / 4096).contains(&count)
}

/// Size in bytes of an index, and of the number of exceptions.
fn index_len(elements: u64) -> usize {
    if elements < 1 << 32 { 4 } else { 8 }
}

/// Encoder: the bytes of a list, given by index and value of each exception.
pub(super) fn write_list<V: Element>(exceptions: &[(u64, V)], elements: u64) -> Vec<u8> {
    let mut list = Vec::new();
    for (index, _) in exceptions {
        list.extend(&index.to_le_bytes()[..index_len(elements)]);
    }
    for (_, value) in exceptions {
        list.extend(&value.to_bits_i64().to_le_bytes()[..V::SIZE]);
    }
    list.resize(list.len().next_multiple_of(4), 0);
    list
}

/// Decoder: index and value of each exception of a list, and the list's length in bytes. `None` if the bytes are no list.
pub(super) fn read_list<V: Element>(bytes: &[u8], count: usize, elements: u64) -> Option<(Vec<(u64, V)>, usize)> {
    let number = |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
    let bits_at = count * index_len(elements);
    let end = bits_at + count * V::SIZE;
    let len = end.next_multiple_of(4);
    if bytes.len() < len || number(end, len - end) != 0 {
        return None;
    }
    let mut exceptions: Vec<(u64, V)> = Vec::new();
    for at in 0..count {
        let index = number(at * index_len(elements), index_len(elements));
        let bits = number(bits_at + at * V::SIZE, V::SIZE);
        if index >= elements || exceptions.last().is_some_and(|last| last.0 >= index) {
            return None;
        }
        exceptions.push((index, V::from_bits(V::Code::from_i64(bits.cast_signed()))));
    }
    Some((exceptions, len))
}

/// Decoder: replaces the values that are marked by the next integer of the plane of exception bits, in ascending order.
pub(crate) fn replace_marked<V: Element>(values: &mut [V], mask: &[bool], bits: &[V::Code]) {
    let mut next = bits.iter();
    for (value, _) in values.iter_mut().zip(mask).filter(|(_, is_exception)| **is_exception) {
        *value = V::from_bits(*next.next().unwrap());
    }
}

/// Encoder: the differences modulo 2 of the exception mask, along all axes, the fastest or none: the first of those with the fewest ones.
pub(super) fn predict_mask(mask: &[bool], shape: &Shape) -> (Axes, Vec<i8>) {
    let integers: Vec<i8> = mask.iter().map(|&is_exception| is_exception.into()).collect();
    let candidates = [Axes::all(shape), Axes::FASTEST, Axes::NONE].map(|axes| {
        let differences = lorenzo::plain::differences(&integers, shape, axes);
        (axes, differences.into_iter().map(|difference| difference & 1).collect::<Vec<_>>())
    });
    let ones = |differences: &[i8]| differences.iter().filter(|&&difference| difference == 1).count();
    candidates.into_iter().min_by_key(|(_, differences)| ones(differences)).unwrap()
}

/// Decoder: the exception mask, which is the lowest bits of the differences' sums.
pub(super) fn restore_mask(differences: &[i8], shape: &Shape, axes: Axes) -> Vec<bool> {
    lorenzo::plain::sums(differences, shape, axes).into_iter().map(|sum| sum & 1 == 1).collect()
}
