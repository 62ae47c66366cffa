//! Allocation that can fail. Where no memory is left, growth of a `Vec`, `Box::new` and `format!` end the host process; the functions here return an error.
//!
//! All crates of the plugin allocate with these functions after it is loaded. Two tests refuse each allocation in turn: `codec/tests/low_memory.rs` and
//! `filter/src/tests/low_memory.rs`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::error::{Error, Result};
use crate::text;

/// Sets the length of a vector; new elements are zero.
///
/// # Errors
/// `OutOfMemory`.
pub fn resize<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    reserve(buffer, len.saturating_sub(buffer.len()))?;
    buffer.resize(len, T::default());
    Ok(())
}

/// Makes a vector at least `len` long. Its elements may have values from an earlier use. [`resize`] would write zeros each time a vector has shrunk and grows
/// again.
///
/// # Errors
/// `OutOfMemory`.
pub fn lengthen<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    if buffer.len() < len { resize(buffer, len) } else { Ok(()) }
}

/// Bytes of a cache line. A load or store of 64 bytes that lies in two lines takes two accesses.
const LINE: usize = 64;

/// Makes a vector long enough, and returns `len` of its elements. They may have values from an earlier use. The first of them begins a cache line, if any
/// element of the vector does.
///
/// # Errors
/// `OutOfMemory`.
pub fn lengthen_aligned<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> Result<&mut [T]> {
    lengthen(buffer, len + LINE / size_of::<T>())?;
    let before = buffer.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
    Ok(&mut buffer[before..before + len])
}

/// Makes room for `additional` elements.
///
/// # Errors
/// `OutOfMemory`.
#[inline(always)]
pub fn reserve<T>(buffer: &mut Vec<T>, additional: usize) -> Result<()> {
    if buffer.capacity() - buffer.len() >= additional { Ok(()) } else { grow(buffer, additional) }
}

#[cold]
#[inline(never)]
fn grow<T>(buffer: &mut Vec<T>, additional: usize) -> Result<()> {
    let bytes = (buffer.len() as u64).saturating_add(additional as u64).saturating_mul(size_of::<T>() as u64);
    buffer.try_reserve(additional).map_err(|_| Error::OutOfMemory { bytes })
}

/// Appends an element.
///
/// # Errors
/// `OutOfMemory`.
#[inline(always)]
pub fn push<T>(buffer: &mut Vec<T>, element: T) -> Result<()> {
    reserve(buffer, 1)?;
    buffer.push(element);
    Ok(())
}

/// Appends a copy of a slice.
///
/// # Errors
/// `OutOfMemory`.
#[inline(always)]
pub fn extend<T: Copy>(buffer: &mut Vec<T>, elements: &[T]) -> Result<()> {
    reserve(buffer, elements.len())?;
    buffer.extend_from_slice(elements);
    Ok(())
}

/// Collects the elements of an iterator.
///
/// # Errors
/// `OutOfMemory`.
pub fn collect<T>(elements: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let elements = elements.into_iter();
    let mut buffer = Vec::new();
    reserve(&mut buffer, elements.size_hint().0)?;
    for element in elements {
        push(&mut buffer, element)?;
    }
    Ok(buffer)
}

/// Formats a text, in place of `format!` and `to_string`.
///
/// # Errors
/// `OutOfMemory`.
pub fn text(what: impl fmt::Display) -> Result<String> {
    text::written(what).map_err(|bytes| Error::OutOfMemory { bytes })
}

/// A value on the heap: a `Box` whose allocation can fail.
#[derive(Debug)]
pub struct Boxed<T>(Vec<T>);

impl<T> Boxed<T> {
    /// Moves a value to the heap.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(value: T) -> Result<Self> {
        let mut only = Vec::new();
        only.try_reserve_exact(1).map_err(|_| Error::OutOfMemory { bytes: size_of::<T>() as u64 })?;
        only.push(value);
        Ok(Self(only))
    }
}

impl<T> Deref for Boxed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0[0]
    }
}

impl<T> DerefMut for Boxed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0[0]
    }
}

/// An array on the heap, allocated and filled with zeros on first use: a `Box` whose allocation can fail.
#[derive(Debug)]
pub(crate) struct HeapArray<T, const LEN: usize>(Vec<T>);

impl<T, const LEN: usize> Default for HeapArray<T, LEN> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + Default, const LEN: usize> HeapArray<T, LEN> {
    /// The array.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn get(&mut self) -> Result<&mut [T; LEN]> {
        const { assert!(LEN > 0) };
        if self.0.is_empty() {
            self.0.try_reserve_exact(LEN).map_err(|_| Error::OutOfMemory { bytes: (LEN * size_of::<T>()) as u64 })?;
            self.0.resize(LEN, T::default());
        }
        match self.0.first_chunk_mut() {
            Some(array) => Ok(array),
            None => unreachable!("its length is set above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_any_machine_are_refused() {
        let mut buffer = vec![1u64];
        let refused = Err(Error::OutOfMemory { bytes: 8 << 60 });
        assert_eq!((resize(&mut buffer, 1 << 60), lengthen(&mut buffer, 1 << 60)), (refused.clone(), refused));
        assert_eq!(reserve(&mut buffer, usize::MAX), Err(Error::OutOfMemory { bytes: u64::MAX }));
        assert_eq!(buffer, [1]);
    }

    #[test]
    fn aligned_elements_begin_with_a_cache_line() {
        fn check<T: Copy + Default>() {
            let mut buffer: Vec<T> = Vec::new();
            for len in [0, 1, 63, 64, 1000, 7] {
                let elements = lengthen_aligned(&mut buffer, len).unwrap();
                assert_eq!((elements.len(), elements.as_ptr().addr() % LINE), (len, 0));
            }
        }
        check::<i8>();
        check::<i16>();
        check::<i32>();
        check::<i64>();
    }

    #[test]
    fn elements_and_texts_arrive() {
        let mut buffer = collect((0..5).filter(|number| number % 2 == 0)).unwrap();
        push(&mut buffer, 7).unwrap();
        extend(&mut buffer, &[8, 9]).unwrap();
        assert_eq!(buffer, [0, 2, 4, 7, 8, 9]);
        assert_eq!(text(format_args!("{} and {:?}", 1, "two")).unwrap(), "1 and \"two\"");
        let mut array: HeapArray<u8, 7> = HeapArray::default();
        array.get().unwrap()[6] = 1;
        assert_eq!(*array.get().unwrap(), [0, 0, 0, 0, 0, 0, 1]);
    }
}
