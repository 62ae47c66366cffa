//! Calls from C with each of our allocations refused in turn: they fail for lack of memory or deliver what they would have delivered, and the thread's next
//! call works.
//!
//! `Refusing` replaces Rust's allocator alone. Calls of malloc itself are checked where they are made, and `plugin-tests/py/address_space.py` lets it fail.
//!
//! Calls on the GPU are in [`on_the_gpu`], those on several threads in [`whole_arrays`]. There, allocations for few bytes are never refused: for lack of them, std
//! and others end the process.

pub(crate) mod hdf5;
pub(crate) mod on_the_gpu;
pub(crate) mod processes;
#[path = "../../../codec/tests/common/refusing.rs"]
pub(crate) mod refusing;
mod whole_arrays;

use std::ffi::{CStr, CString, c_int, c_uint};
use std::fmt::Debug;
use std::ptr::null;

use hdf5_sys::h5z::H5Z_FLAG_REVERSE;
use quire_codec::Error;
use quire_codec::stages::adaptive::UserDictionary;
use quire_codec::stages::dictionary;

use self::refusing::{Refusals, Refusing, refuse, spare};
use crate::c_api::{
    Bytes, NO_MEMORY, OK, quire_cd_values, quire_compress, quire_decompress, quire_describe, quire_free, quire_info,
};
use crate::cd_values::CdValues;
use crate::dictionary::read as read_dictionary;
use crate::element_type::{ElementType, Fields, IntegerFields};
use crate::tests::as_hdf5::filter;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// 40 x 50 values of binary32.
const WORDS: [c_uint; 6] = [1, 3539053052, 1062232653, 0x5101_0002, 40, 50];
const ROOM: usize = 4 * 40 * 50;
/// The value type of binary32.
const F32: u32 = 0;

fn values() -> Vec<u8> {
    (0..40 * 50).flat_map(|index| ((index as f32 * 0.07).sin() * 100.0).to_le_bytes()).collect()
}

/// Makes a call on a new thread, which keeps no buffers yet, with each allocation refused in turn; then repeats the call on that thread. `None` is a lack of memory.
fn refuse_each<R: PartialEq + Debug + Send + 'static>(what: &str, call: impl Fn() -> Option<R> + Copy + Send + 'static) -> R {
    let on_a_new_thread = move |number, refusals| {
        let body = move || {
            let (outcome, refused) = refuse(number, refusals, call);
            (outcome, refused, call())
        };
        std::thread::spawn(body).join().expect("no panic")
    };
    let expected = call().expect("memory");
    for refusals in [Refusals::One, Refusals::AllBehind] {
        for number in 0.. {
            let (outcome, refused, again) = on_a_new_thread(number, refusals);
            match outcome {
                Some(found) => assert_eq!(found, expected, "{what}: allocation {number}, {refusals:?}"),
                None => assert!(refused > 0, "{what}: none was refused"),
            }
            assert_eq!(again.as_ref(), Some(&expected), "{what}: the call behind allocation {number}, {refusals:?}");
            if refused == 0 {
                assert!(number > 0, "{what}: a cold call allocates nothing");
                break;
            }
        }
    }
    expected
}

/// What a function of C delivers: `None` for a lack of memory, which it must name.
fn delivered(call: impl FnOnce(*mut Bytes) -> c_int) -> Option<Vec<u8>> {
    let mut bytes = Bytes::NONE;
    let status = call(&mut bytes);
    spare(|| {
        let text = bytes.to_vec();
        // SAFETY: a call has written it.
        unsafe { quire_free(&mut bytes) };
        let is_lacking = status == NO_MEMORY && text.starts_with(b"no memory for ");
        assert!(status == OK || is_lacking, "{status}: {}", String::from_utf8_lossy(&text));
        (status == OK).then_some(text)
    })
}

fn compress(options: &CStr, values: &[u8]) -> Option<Vec<u8>> {
    let extents = [40, 50];
    delivered(|result| {
        let (extents, values, length) = (extents.as_ptr(), values.as_ptr().cast(), values.len());
        // SAFETY: slices with their lengths.
        unsafe { quire_compress(options.as_ptr(), F32, 2, extents, null(), values, length, result) }
    })
}

#[test]
fn the_filter() {
    // Codes, bit planes, codes with the books of chunks before; the exact bits.
    for first in [1, 513, 65_537] {
        let words = move || [first, WORDS[1], WORDS[2], WORDS[3], WORDS[4], WORDS[5]];
        let stream = refuse_each("write", move || {
            let values = spare(values);
            filter(0, &words(), &values)
        });
        let stream: &'static [u8] = stream.leak();
        let chunk = refuse_each("read", move || filter(H5Z_FLAG_REVERSE, &words(), stream));
        assert_eq!(chunk.len(), ROOM);
        for (value, decoded) in values().as_chunks().0.iter().zip(chunk.as_chunks().0) {
            assert!((f32::from_le_bytes(*value) - f32::from_le_bytes(*decoded)).abs() <= 1e-3);
        }
    }
}

#[test]
fn the_functions_of_c() {
    let values: &'static [u8] = values().leak();
    for options in [c"abs=1e-3", c"abs=1e-3,coding=bitshuffle", c"pwrel=1e-2", c"lossless", c"abs=0.1,adapt=history"] {
        let stream: &'static [u8] = refuse_each("compress", move || compress(options, values)).leak();
        refuse_each("decompress", move || {
            let mut chunk = spare(|| vec![0xa5; ROOM]);
            let target = chunk.as_mut_ptr().cast();
            // SAFETY: slices with their lengths.
            let done =
                delivered(|reason| unsafe { quire_decompress(stream.as_ptr().cast(), stream.len(), target, ROOM, reason) });
            done.map(|_| chunk)
        });
        refuse_each("describe", move || {
            // SAFETY: a slice with its length.
            delivered(|result| unsafe { quire_describe(stream.as_ptr().cast(), stream.len(), result) })
        });
    }
    // SAFETY: a string.
    refuse_each("cd_values", || delivered(|result| unsafe { quire_cd_values(c"abs=1e-3,brick=8x8".as_ptr(), result) }));
    // SAFETY: the result can be written.
    refuse_each("info", || delivered(|result| unsafe { quire_info(result) }));
}

/// Refuses each allocation of `call`, whose outcome is an error for another reason.
fn refuse_each_text(what: &str, call: impl Fn() -> Error) {
    let expected = call();
    assert!(!matches!(expected, Error::OutOfMemory { .. }), "{what}: {expected}");
    for number in 0.. {
        let (error, refused) = refuse(number, Refusals::AllBehind, &call);
        match error {
            Error::OutOfMemory { .. } => assert!(refused > 0, "{what}: none was refused"),
            error => assert_eq!((error, refused), (expected.clone(), 0), "{what}"),
        }
        if refused == 0 {
            assert!(number > 0, "{what}: its text takes no memory");
            return;
        }
    }
}

#[test]
fn texts_of_refusals() {
    let parse = |words: &'static [c_uint]| move || CdValues::parse(words).map(|_| ()).expect_err("refused");
    refuse_each_text("mode", parse(&[13]));
    refuse_each_text("numbers", parse(&[2, 400]));
    refuse_each_text("bound", parse(&[4, 0, 2]));
    refuse_each_text("brick", parse(&[2 << 24, 8, 0]));
    refuse_each_text("layout", parse(&[0, 0x5101_0005, 1, 1, 1, 1, 1]));
    let of_12_bits =
        ElementType { class: 0, size: 2, order: 0, fields: Fields::Integer(IntegerFields { precision: 12, offset: 2, sign: 1 }) };
    refuse_each_text("type", || of_12_bits.scalar().expect_err("refused"));
    refuse_each_text("no dictionary", || read_dictionary(c"/dev/null").expect_err("refused"));
    refuse_each_text("no file", || read_dictionary(c"/nowhere").expect_err("refused"));
}

#[test]
fn a_dictionary() {
    let path = std::env::temp_dir().join(format!("quire-low-memory-{}", std::process::id()));
    let dictionary = UserDictionary { origin: "a test".to_owned(), books: dictionary::books()[..2].to_vec() };
    std::fs::write(&path, dictionary.to_bytes().expect("bytes")).expect("written");
    let name: &CStr = Box::leak(CString::new(path.to_str().expect("UTF-8")).expect("no 0 in it").into_boxed_c_str());
    let found = refuse_each("dictionary", move || match read_dictionary(name) {
        Ok(found) => Some(spare(|| (found.origin.clone(), found.books.clone()))),
        Err(Error::OutOfMemory { .. }) => None,
        Err(error) => panic!("{error}"),
    });
    std::fs::remove_file(path).expect("removed");
    assert_eq!(found, (dictionary.origin, dictionary.books));
}

#[test]
fn words_of_a_dataset() {
    refuse_each("cd_values", || match CdValues::parse(&WORDS).and_then(CdValues::to_words) {
        Ok(words) => Some(words),
        Err(Error::OutOfMemory { .. }) => None,
        Err(error) => panic!("{error}"),
    });
}
