//! What copies keep of arrays (`quire-report`), as C functions.

use std::ffi::{c_char, c_int, c_void};

use quire_codec::Error;
use quire_report::{Field, Statistics, html};
use serde::Deserialize;

use super::arrays::{hand_over, release};
use super::{Bytes, deliver, slice_from_raw, text_from_raw, value_type_of};
use crate::arrays::threads_for;
use crate::fence::{Failure, contain};

/// `quire_report`: statistics of an array and its copy.
pub struct ArrayReport(Statistics);

/// What the JSON of `quire_report_begin` says.
#[derive(Deserialize)]
struct Given {
    shape: Vec<usize>,
    chunk: Option<Vec<usize>>,
    #[serde(default)]
    missing: Vec<u64>,
    bound: Option<f64>,
}

/// Begins statistics.
///
/// # Safety
/// `field` is null or a string; `report` and `reason` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_report_begin(
    value_type: u32,
    field: *const c_char,
    threads: u32,
    report: *mut *mut ArrayReport,
    reason: *mut Bytes,
) -> c_int {
    let body = || -> Result<ArrayReport, Failure> {
        // SAFETY: the caller's promise.
        let text = unsafe { text_from_raw(field)? };
        let (scalar, byte_order) = value_type_of(value_type)?;
        let given = serde_json::from_str(text).map_err(|error| Error::invalid(format_args!("field {text:?}: {error}")))?;
        let Given { shape, chunk, missing, bound } = given;
        let bytes = shape.iter().try_fold(scalar.element_size(), |bytes, extent| bytes.checked_mul(*extent));
        let is_chunk = chunk.as_ref().is_none_or(|chunk| chunk.len() == shape.len() && !chunk.contains(&0));
        if bytes.is_none_or(|bytes| bytes == 0) || !is_chunk {
            return Err(Error::invalid(format_args!("{text:?} is no array with values, or its chunk has other axes")).into());
        }
        let field = Field { shape, chunk, scalar, byte_order, missing, bound };
        Ok(ArrayReport(Statistics::new(field, threads_for(usize::MAX, threads, None)?)))
    };
    // SAFETY: the caller's promise.
    unsafe { hand_over(report, reason, body) }
}

/// Says which box is wanted next.
///
/// # Safety
/// `report` is null or from [`quire_report_begin`], and changed by nobody meanwhile; `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_report_next(report: *const ArrayReport, result: *mut Bytes) -> c_int {
    // SAFETY: the caller's promise.
    let next = || Ok::<_, Failure>(unsafe { report_from_raw(report)? }.0.next());
    let body = || {
        let ranges = next()?.map(|ranges| ranges.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>());
        json(&ranges)
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(body)) }
}

/// Adds that box of both arrays.
///
/// # Safety
/// `report` is null or from [`quire_report_begin`], and used by nobody else meanwhile; `original` and `copy` hold `length` bytes; `reason` is null or can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_report_add(
    report: *mut ArrayReport,
    original: *const c_void,
    copy: *const c_void,
    length: usize,
    reason: *mut Bytes,
) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let statistics = unsafe { &mut report.as_mut().ok_or_else(|| Error::invalid("the address of the report is null"))?.0 };
        if statistics.next_bytes() != Some(length) {
            let wanted = statistics.next_bytes();
            return Err(Error::invalid(format_args!("the box has {length} bytes, and {wanted:?} are wanted")).into());
        }
        // SAFETY: the caller's promise.
        let arrays =
            unsafe { (slice_from_raw(original.cast(), length, "original")?, slice_from_raw(copy.cast(), length, "copy")?) };
        statistics.add(arrays.0, arrays.1);
        Ok::<_, Failure>(Bytes::copy_of(&[])?)
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(reason, contain(body)) }
}

/// Writes what was found.
///
/// # Safety
/// `report` is null or from [`quire_report_begin`], and changed by nobody meanwhile; `name` is null or a string; `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_report_write(
    report: *const ArrayReport,
    format: u32,
    name: *const c_char,
    result: *mut Bytes,
) -> c_int {
    let body = || {
        // SAFETY: the caller's promise.
        let (report, name) = unsafe { (report_from_raw(report)?, text_from_raw(name)?) };
        let found = report.0.finish();
        match format {
            0 => Ok(Bytes::copy_of(found.to_string().as_bytes())?),
            1 => json(&found),
            2 => Ok(Bytes::copy_of(html(name, &[(String::new(), &found)]).as_bytes())?),
            3 => Ok(Bytes::copy_of(found.svg().as_bytes())?),
            _ => Err(Error::invalid(format_args!("format {format} is unknown: there are 0 to 3")).into()),
        }
    };
    // SAFETY: the caller's promise.
    unsafe { deliver(result, contain(body)) }
}

/// Frees a report, and leaves null there.
///
/// # Safety
/// `report` is null or leads to null or to what [`quire_report_begin`] has written, which is used by nobody else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quire_report_end(report: *mut *mut ArrayReport) {
    // SAFETY: the caller's promise.
    unsafe { release(report) };
}

/// # Safety
/// `report` is null or from [`quire_report_begin`], and not changed during `'a`.
unsafe fn report_from_raw<'a>(report: *const ArrayReport) -> Result<&'a ArrayReport, Failure> {
    // SAFETY: the caller's promise.
    unsafe { report.as_ref() }.ok_or_else(|| Error::invalid("the address of the report is null").into())
}

fn json(value: &impl serde::Serialize) -> Result<Bytes, Failure> {
    let text = serde_json::to_vec(value).map_err(Error::invalid)?;
    Ok(Bytes::copy_of(&text)?)
}
