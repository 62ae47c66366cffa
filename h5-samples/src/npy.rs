use crate::Values;
use std::io::{self, Write};

/// Writes an array as numpy's `.npy`, version 1.0: little-endian, C order.
///
/// # Errors
/// Whatever `sink` reports.
pub fn write(sink: &mut impl Write, dims: &[usize], values: &Values) -> io::Result<()> {
    let kind = match values {
        Values::F32(_) => "<f4",
        Values::F64(_) => "<f8",
    };
    // A Python tuple: the trailing comma makes one of a single number, and does no harm after several.
    let shape: String = dims.iter().map(|length| format!("{length},")).collect();
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The data starts at a multiple of 64 bytes, after the magic (6 bytes), the version (2), the length (2) and a newline.
    let padding = (64 - (header.len() + 11) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let header_len = u16::try_from(header.len()).map_err(|_| io::Error::other("the shape has too many axes"))?;
    sink.write_all(b"\x93NUMPY\x01\x00")?;
    sink.write_all(&header_len.to_le_bytes())?;
    sink.write_all(header.as_bytes())?;
    match values {
        Values::F32(values) => values.iter().try_for_each(|value| sink.write_all(&value.to_le_bytes())),
        Values::F64(values) => values.iter().try_for_each(|value| sink.write_all(&value.to_le_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_aligned_and_counted() {
        for dims in [vec![2], vec![1, 2], vec![1; 12]] {
            let count: usize = dims.iter().product();
            let mut file = Vec::new();
            write(&mut file, &dims, &Values::F64(vec![1.5; count])).unwrap();
            let header_len = usize::from(u16::from_le_bytes([file[8], file[9]]));
            assert_eq!((10 + header_len) % 64, 0);
            assert_eq!(file[9 + header_len], b'\n');
            assert_eq!(file.len(), 10 + header_len + 8 * count);
        }
    }
}
