//! The functions, called as C calls them.

#[cfg(target_os = "linux")]
mod hostile;

use std::ffi::CString;
use std::ptr::{null, null_mut};

use quire_codec::Shape;

use super::*;

const F32: u32 = 0;
const F64_BIG: u32 = 129;
const I16: u32 = 6;
const C64: u32 = 12;

/// What a call has delivered: its status, and its bytes.
fn call(body: impl FnOnce(*mut Bytes) -> c_int) -> (c_int, Vec<u8>) {
    let mut delivered = Bytes::NONE;
    let status = body(&mut delivered);
    // SAFETY: the length is the call's, and a 0 byte follows it.
    let bytes = unsafe { slice::from_raw_parts(delivered.address, delivered.length + 1) };
    assert_eq!(bytes[delivered.length], 0);
    let bytes = bytes[..delivered.length].to_vec();
    // SAFETY: as delivered.
    unsafe { quire_free(&mut delivered) };
    assert!(delivered.address.is_null() && delivered.length == 0);
    (status, bytes)
}

fn compress(options: &str, value_type: u32, extents: &[u64], fill_value: Option<&[u8]>, values: &[u8]) -> (c_int, Vec<u8>) {
    let options = CString::new(options).expect("no 0 in it");
    let fill_value = fill_value.map_or(null(), |value| value.as_ptr().cast());
    call(|result| {
        let (rank, address, length) = (extents.len() as u32, values.as_ptr().cast(), values.len());
        // SAFETY: all of them are slices with their lengths.
        unsafe { quire_compress(options.as_ptr(), value_type, rank, extents.as_ptr(), fill_value, address, length, result) }
    })
}

fn decompress(stream: &[u8], length: usize) -> (c_int, Vec<u8>, Vec<u8>) {
    let mut values = vec![0xa5; length];
    // SAFETY: slices with their lengths.
    let (status, reason) = call(|reason| unsafe {
        quire_decompress(stream.as_ptr().cast(), stream.len(), values.as_mut_ptr().cast(), length, reason)
    });
    (status, values, reason)
}

fn describe(stream: &[u8]) -> (c_int, String) {
    // SAFETY: a slice with its length.
    let (status, text) = call(|result| unsafe { quire_describe(stream.as_ptr().cast(), stream.len(), result) });
    (status, String::from_utf8(text).expect("UTF-8"))
}

fn number(bytes: &[u8]) -> f64 {
    f32::from_le_bytes(bytes.try_into().expect("four bytes")).into()
}

/// Bytes of smooth numbers.
fn ramp(count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| ((index as f32 * 0.01).sin() * 100.0).to_le_bytes()).collect()
}

#[test]
fn an_array_comes_back_within_its_bound_with_type_and_extents() {
    let values = ramp(5 * 40 * 50);
    let (status, stream) = compress("abs=1e-3", F32, &[5, 40, 1, 50], None, &values);
    assert_eq!(status, OK);
    assert!(stream.len() < values.len() / 2);
    let mut layout = ArrayLayout { value_type: 99, rank: 0, extents: [0; MAX_RANK] };
    // SAFETY: a slice with its length, and a layout.
    let (status, _) = call(|reason| unsafe { quire_read_layout(stream.as_ptr().cast(), stream.len(), &mut layout, reason) });
    assert_eq!((status, layout.value_type, layout.rank, layout.extents), (OK, F32, 3, [5, 40, 50, 1]));
    let (status, decoded, _) = decompress(&stream, values.len());
    assert_eq!(status, OK);
    for (before, after) in values.chunks(4).zip(decoded.chunks(4)) {
        assert!((number(before) - number(after)).abs() <= 1e-3);
    }
    let (status, text) = describe(&stream);
    assert_eq!(status, OK);
    for part in [
        r#"{"coding":"quantized","value_type":"f4","byte_order":"little","extents":[5, 40, 50]"#,
        r#""half_step":0.001"#,
        r#""exceptions":0,"#,
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn complex_numbers_have_the_extents_of_their_array() {
    // 5 x 100 numbers: a ramp of 1000 values side by side.
    let values = ramp(1000);
    let fill = [[0; 4], values[12..16].try_into().expect("four bytes")].concat();
    let (status, stream) = compress("abs=1e-3", C64, &[5, 100], Some(&fill), &values);
    assert_eq!(status, OK);
    let mut layout = ArrayLayout { value_type: 99, rank: 0, extents: [0; MAX_RANK] };
    // SAFETY: a slice with its length, and a layout.
    let (status, _) = call(|reason| unsafe { quire_read_layout(stream.as_ptr().cast(), stream.len(), &mut layout, reason) });
    assert_eq!((status, layout.value_type, layout.rank, layout.extents), (OK, C64, 2, [5, 100, 1, 1]));
    assert!(describe(&stream).1.contains(r#""value_type":"c8","byte_order":"little","extents":[5, 100]"#));
    let (status, decoded, _) = decompress(&stream, values.len());
    assert_eq!((status, &decoded[12..16]), (OK, &values[12..16]));
    assert!(values.chunks(4).zip(decoded.chunks(4)).all(|(before, after)| (number(before) - number(after)).abs() <= 1e-3));
    let (status, reason) = compress("abs=1", C64, &[5, 100], Some(&values[8..16]), &values);
    assert!(status == INVALID && String::from_utf8_lossy(&reason).contains("two different parts"));
    let (status, stream) = compress("lossless", C64, &[5, 100], Some(&values[8..16]), &values);
    assert_eq!((status, decompress(&stream, values.len())), (OK, (OK, values, Vec::new())));
}

#[test]
fn the_stream_is_the_filters() {
    let values = ramp(3000);
    let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(&[3000]).expect("a shape") };
    let mut expected = Vec::new();
    let config = Config::absolute(0.01).expect("a bound");
    quire_codec::Workspace::default().compress(&values, &layout, &config, &mut expected).expect("compressed");
    assert_eq!(compress("abs=1e-2", F32, &[3000], None, &values), (OK, expected));
}

#[test]
fn the_fill_value_stays_exact() {
    let fill = 1e-4f64.to_be_bytes();
    let values: Vec<u8> =
        (0..2000).flat_map(|index| if index % 7 == 0 { fill } else { f64::from(index).sqrt().to_be_bytes() }).collect();
    let (status, stream) = compress("abs=0.1", F64_BIG, &[2000], Some(&fill), &values);
    let (decoding, decoded, _) = decompress(&stream, values.len());
    assert_eq!((status, decoding), (OK, OK));
    assert!(decoded.chunks(8).step_by(7).all(|value| value == fill));
    assert!(describe(&stream).1.contains(r#""byte_order":"big""#));
}

#[test]
fn what_is_wrong_is_said() {
    let values = ramp(100);
    let wrong = |options: &str, value_type: u32, extents: &[u64], reason: &str| {
        let (status, text) = compress(options, value_type, extents, None, &values);
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(status == INVALID && text.contains(reason), "{status}: {text:?} does not say {reason:?}");
    };
    wrong("abs=-1", F32, &[100], "absolute error bound is -1");
    wrong("", F32, &[100], "they have no bound");
    wrong("abs=1", 14, &[100], "value type 14 is unknown");
    wrong("abs=1", 300, &[100], "value type 300 is unknown");
    wrong("abs=1", F32, &[99], "the array has 400 bytes, its type and extents [99] say 396");
    wrong("abs=1", F32, &[], "0 dimensions");
    wrong("abs=1", F32, &[100, 0], "hold no elements");
    wrong("abs=1", F32, &[1; 33], "rank is 33");
    wrong("pwrel=0.1", I16, &[200], "point-wise");
    let (status, stream) = compress("abs=1", F32, &[100], None, &values);
    assert_eq!(status, OK);
    let reason = |stream: &[u8], length: usize| {
        let (status, _, reason) = decompress(stream, length);
        (status, String::from_utf8(reason).expect("UTF-8"))
    };
    assert!(matches!(reason(&stream, 399), (INVALID, text) if text.contains("room for 399")));
    assert!(matches!(reason(&stream[..stream.len() - 1], 400), (DAMAGED, text) if text.contains("checksum")));
    let mut flipped = stream.clone();
    *flipped.last_mut().expect("bytes") ^= 1;
    assert!(matches!(reason(&flipped, 400), (DAMAGED, text) if text.contains("checksum")));
    assert_eq!(describe(&flipped).0, DAMAGED);
    let mut newer = stream;
    newer[3] = 0x91;
    assert!(matches!(reason(&newer, 400), (VERSION, text) if text.contains("install a newer")));
}

#[test]
fn addresses_that_are_null_are_errors() {
    // SAFETY: null is allowed everywhere.
    unsafe {
        let (status, text) = call(|result| quire_compress(null(), F32, 1, null(), null(), null(), 4, result));
        assert!(status == INVALID && text.starts_with(b"the address of a text is null"));
        let (status, text) = call(|result| quire_compress(c"abs=1".as_ptr(), F32, 1, null(), null(), null(), 4, result));
        assert!(status == INVALID && text.starts_with(b"the address of the extents is 0x0"));
        let (status, text) = call(|result| quire_compress(c"abs=1".as_ptr(), F32, 1, &1, null(), null(), 4, result));
        assert!(status == INVALID && text.starts_with(b"the address of the values is 0x0"));
        let (status, _) = call(|reason| quire_read_layout(null(), 0, null_mut(), reason));
        assert_eq!(status, INVALID);
        assert_eq!(call(|result| quire_describe(null(), 0, result)).0, DAMAGED);
        assert_eq!(quire_info(null_mut()), INVALID);
        quire_free(null_mut());
    }
}

#[test]
fn the_library_says_what_it_is() {
    // SAFETY: it can be written.
    let (status, text) = call(|result| unsafe { quire_info(result) });
    let text = String::from_utf8(text).expect("UTF-8");
    assert_eq!(status, OK);
    assert!(text.starts_with(&format!(r#"{{"version":"{}","stream_version":"#, env!("CARGO_PKG_VERSION"))), "{text}");
    let odd = Outlook { backend: "none", device: Some("a \"b\""), why: "tab\tand \\".to_owned() };
    let text = Info(&odd).to_string();
    assert!(text.contains(r#""device":"a \"b\"","why":"tab\u0009and \\","#), "{text}");
    assert!(text.ends_with(if quire_gpu::KERNELS_BUILT { r#".0"}"# } else { r#""oldest_driver":null}"# }), "{text}");
}

#[test]
fn a_panic_is_a_status() {
    // SAFETY: it can be written.
    let (status, text) =
        call(|result| unsafe { deliver(result, contain(|| -> Result<Bytes> { panic!("a test of the fence") })) });
    assert_eq!((status, text.as_slice()), (INTERNAL, &b"internal error, please report it: a test of the fence"[..]));
}

#[test]
fn options_and_cd_values_convert_to_each_other() {
    // SAFETY: a string.
    let words_of = |options: &CStr| call(|result| unsafe { quire_cd_values(options.as_ptr(), result) });
    let options_of = |words: &[c_uint]| {
        // SAFETY: a slice with its length.
        let (status, text) = call(|result| unsafe { quire_options(words.as_ptr(), words.len(), result) });
        (status, String::from_utf8(text).expect("UTF-8"))
    };
    let words: [c_uint; 3] = [513, 3539053052, 1062232653];
    // SAFETY: words are bytes.
    let bytes = unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(&words)) };
    assert_eq!(words_of(c"abs=1e-3,coding=bitshuffle"), (OK, bytes.to_vec()));
    assert_eq!(options_of(&words), (OK, "abs=1e-3,coding=bitshuffle".to_owned()));
    assert_eq!(options_of(&[2, 3]), (OK, "abs=1e-3".to_owned()), "a user's decimal");
    let (status, reason) = words_of(c"abs=1,rel=1");
    assert!(status == INVALID && String::from_utf8_lossy(&reason).contains("more than one bound"));
    let (status, reason) = options_of(&[99]);
    assert!(status == INVALID && reason.contains("mode 99 is unknown"), "{reason}");
    // SAFETY: null has no words, and is no string.
    assert_eq!(call(|result| unsafe { quire_options(null(), 0, result) }).0, INVALID);
    // SAFETY: as above.
    assert_eq!(call(|result| unsafe { quire_cd_values(null(), result) }).0, INVALID);
}
