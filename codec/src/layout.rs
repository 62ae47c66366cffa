//! The layout of a chunk's bytes: element type, byte order and shape.

use std::fmt;

use crate::error::{Error, Result};

/// The most dimensions that a stream describes. [`Shape::fold`] merges the slowest ones of chunks that have more.
pub const MAX_RANK: usize = 4;

/// Type of a chunk's values. A complex number is a pair of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// IEEE 754 binary32
    F32,
    /// IEEE 754 binary64
    F64,
    /// IEEE 754 binary16
    F16,
    /// bfloat16, the upper half of a binary32
    BF16,
    /// Integer of 8 bits, two's complement
    I8,
    /// Integer of 8 bits, unsigned
    U8,
    /// Integer of 16 bits, two's complement
    I16,
    /// Integer of 16 bits, unsigned
    U16,
    /// Integer of 32 bits, two's complement
    I32,
    /// Integer of 32 bits, unsigned
    U32,
    /// Integer of 64 bits, two's complement
    I64,
    /// Integer of 64 bits, unsigned
    U64,
    /// IEEE 754 binary32 in pairs: complex numbers
    C64,
    /// IEEE 754 binary64 in pairs: complex numbers
    C128,
}

impl Scalar {
    /// All types, in the order of their numbers in a stream.
    pub const ALL: [Self; 14] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::BF16,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::C64,
        Self::C128,
    ];

    /// Bytes of a value; for pairs, bytes of a part.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 | Self::C64 => 4,
            Self::F64 | Self::I64 | Self::U64 | Self::C128 => 8,
        }
    }

    /// Whether elements are pairs of values.
    #[must_use]
    pub const fn is_pair(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }

    /// Bytes of an element of the dataset: a value or a pair.
    #[must_use]
    pub const fn element_size(self) -> usize {
        if self.is_pair() { 2 * self.size() } else { self.size() }
    }

    /// The type of the values; for pairs, the type of a part.
    #[must_use]
    pub const fn of_values(self) -> Self {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            single => single,
        }
    }

    /// Bytes of a quantization code (FORMAT.md §3).
    #[must_use]
    pub const fn code_size(self) -> usize {
        if self.size() == 8 { 8 } else { 4 }
    }

    /// Whether this is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::BF16 | Self::C64 | Self::C128)
    }
}

impl fmt::Display for Scalar {
    /// The variant's name; for complex numbers numpy's name, which says more.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::C64 => formatter.write_str("complex64"),
            Self::C128 => formatter.write_str("complex128"),
            single => fmt::Debug::fmt(single, formatter),
        }
    }
}

/// Order of the bytes of each value in the chunk. HDF5 gives a filter values of the *file's* type, so it may differ from the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Extents of a chunk in C order, `[nw][nz][ny][nx]`: the last one varies fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [u64; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// A shape of 1 to 4 extents, slowest first.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no extents or more than four, if one is 0, or if their product passes 2^48.
    pub fn new(dims: &[u64]) -> Result<Self> {
        if dims.is_empty() || dims.len() > MAX_RANK {
            return Err(Error::invalid(format_args!("chunk has {} dimensions: 1 to {MAX_RANK} are possible", dims.len())));
        }
        let elements = dims.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
        if !matches!(elements, Some(1..=0x1_0000_0000_0000)) {
            return Err(Error::invalid(format_args!("chunk dimensions {dims:?} hold no elements, or more than 2^48")));
        }
        let mut shape = Self { dims: [1; MAX_RANK], rank: dims.len() as u8 };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// Extents `[nx, ny, nz, nw]`, fastest first; 1 along axes that the shape lacks.
    #[must_use]
    pub fn extents(&self) -> [usize; MAX_RANK] {
        let mut extents = [1; MAX_RANK];
        for (extent, &dim) in extents.iter_mut().zip(self.dims().iter().rev()) {
            *extent = dim as usize;
        }
        extents
    }

    /// A shape for a chunk of any rank: extents of 1 are dropped, then the slowest extents are multiplied until four are left. The order of the values
    /// does not change.
    ///
    /// # Errors
    /// `InvalidArgument` if there are no extents, if one is 0, or if their product passes 2^48.
    pub fn fold(dims: &[u64]) -> Result<Self> {
        if dims.is_empty() || dims.contains(&0) {
            return Self::new(dims);
        }
        // Fastest extents first. All from the fourth on are multiplied.
        let (mut kept, mut rank) = ([1u64; MAX_RANK], 0);
        for &extent in dims.iter().rev().filter(|&&extent| extent != 1) {
            let slowest = &mut kept[rank.min(MAX_RANK - 1)];
            *slowest = slowest
                .checked_mul(extent)
                .ok_or_else(|| Error::invalid(format_args!("chunk dimensions {dims:?} hold more than 2^48 elements")))?;
            rank = MAX_RANK.min(rank + 1);
        }
        let kept = &mut kept[..rank.max(1)];
        kept.reverse();
        Self::new(kept)
    }

    /// A shape of one dimension. `extent` is from 1 to 2^48.
    pub(crate) fn line(extent: u64) -> Self {
        let mut dims = [1; MAX_RANK];
        dims[0] = extent;
        Self { dims, rank: 1 }
    }

    /// Extent of the fastest axis.
    #[must_use]
    pub fn row(&self) -> usize {
        self.dims[usize::from(self.rank) - 1] as usize
    }

    /// The extents, slowest first.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.dims[..usize::from(self.rank)]
    }

    /// Number of values.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.dims().iter().product()
    }
}

/// Element type, byte order and shape of a chunk. The shape is that of the values: for pairs, the first parts of all pairs are followed, along the slowest
/// axis, by the second parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Type of the values.
    pub scalar: Scalar,
    /// Order of the bytes of each value.
    pub byte_order: ByteOrder,
    /// Extents of the chunk's values.
    pub shape: Shape,
}

impl Layout {
    /// The layout of a chunk of a dataset of any rank, with `dims` elements, slowest axis first ([`Shape::fold`]).
    ///
    /// # Errors
    /// `InvalidArgument` if there are no extents, if one is 0, or if the number of values passes 2^48.
    pub fn of_chunk(scalar: Scalar, byte_order: ByteOrder, dims: &[u64]) -> Result<Self> {
        let mut shape = Shape::fold(dims)?;
        if scalar.is_pair() {
            shape.dims[0] *= 2;
            shape = Shape::new(shape.dims())?;
        }
        Ok(Self { scalar, byte_order, shape })
    }

    /// The shape of the chunk in elements. The slowest extent of pairs is half of that of their values.
    #[must_use]
    pub fn elements(&self) -> Shape {
        let mut shape = self.shape;
        if self.scalar.is_pair() {
            shape.dims[0] /= 2;
        }
        shape
    }

    /// Refuses a chunk of pairs whose slowest extent is odd: it cannot have as many second parts as first ones.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check_pairs(&self) -> Result<()> {
        let slowest = self.shape.dims()[0];
        if self.scalar.is_pair() && !slowest.is_multiple_of(2) {
            return Err(Error::invalid(format_args!(
                "the slowest extent of a chunk of pairs is {slowest}: it must be even, for the first parts and the second ones"
            )));
        }
        Ok(())
    }

    /// Bytes of the whole chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.shape.elements() * self.scalar.size() as u64
    }

    /// Whether all values of a chunk have the same bytes.
    #[must_use]
    pub fn is_constant(&self, chunk: &[u8]) -> bool {
        let size = self.scalar.size();
        chunk[size..] == chunk[..chunk.len() - size]
    }

    /// The byte for type and byte order in streams and cd_values.
    #[must_use]
    pub fn type_byte(&self) -> u8 {
        let number = Scalar::ALL.iter().position(|&scalar| scalar == self.scalar).unwrap_or(0) as u8;
        match self.byte_order {
            ByteOrder::Little => number,
            ByteOrder::Big => number | BIG_ENDIAN_BIT,
        }
    }
}

/// Bit of the type byte that is set for big endian.
const BIG_ENDIAN_BIT: u8 = 0x80;

/// Type and byte order of a [`Layout::type_byte`]; `None` for an unknown type.
#[must_use]
pub fn type_of_byte(byte: u8) -> Option<(Scalar, ByteOrder)> {
    let scalar = *Scalar::ALL.get(usize::from(byte & !BIG_ENDIAN_BIT))?;
    Some((scalar, if byte & BIG_ENDIAN_BIT == 0 { ByteOrder::Little } else { ByteOrder::Big }))
}

/// A set of axes along which differences are taken. Bit 0 is the fastest axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes(u8);

impl Axes {
    /// No axis: codes are coded as they are.
    pub const NONE: Self = Self(0);
    /// The fastest axis alone.
    pub const FASTEST: Self = Self(1);

    /// All axes of a shape.
    #[must_use]
    pub fn all(shape: &Shape) -> Self {
        Self((1 << shape.dims().len()) - 1)
    }

    /// The set of a stream's byte; `None` if the shape lacks one of its axes.
    #[must_use]
    pub fn from_byte(byte: u8, shape: &Shape) -> Option<Self> {
        (byte & !Self::all(shape).0 == 0).then_some(Self(byte))
    }

    /// The byte for the set in a stream.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        self.0
    }

    /// One axis alone.
    #[must_use]
    pub fn along(axis: usize) -> Self {
        Self(1 << axis)
    }

    /// The axes of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether differences are taken along an axis; 0 is the fastest.
    #[must_use]
    pub fn contains(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_refused_if_they_are_empty_or_too_large() {
        for dims in [&[][..], &[0], &[3, 0, 2], &[1, 1, 1, 1, 1], &[(1 << 48) + 1], &[1 << 24, 1 << 24, 2], &[u64::MAX, u64::MAX]]
        {
            assert!(Shape::new(dims).is_err(), "{dims:?}");
        }
        assert_eq!(Shape::new(&[1 << 24, 1 << 24]).unwrap().elements(), 1 << 48);
        assert_eq!(Shape::new(&[2, 3, 5]).unwrap().extents(), [5, 3, 2, 1]);
        assert_eq!((Shape::new(&[2, 3, 5]).unwrap().row(), Shape::line(7).dims()), (5, &[7][..]));
    }

    #[test]
    fn folding_keeps_the_fastest_extents_and_the_number_of_values() {
        for (dims, folded) in [
            (&[1][..], &[1][..]),
            (&[1, 1, 1, 1, 1, 1], &[1]),
            (&[5, 1, 7], &[5, 7]),
            (&[2, 3, 5, 7], &[2, 3, 5, 7]),
            (&[2, 3, 5, 7, 11], &[6, 5, 7, 11]),
            (&[2, 1, 3, 1, 5, 7, 11, 13, 1], &[2 * 3 * 5, 7, 11, 13]),
        ] {
            assert_eq!(Shape::fold(dims).unwrap().dims(), folded, "{dims:?}");
        }
        for dims in [&[][..], &[4, 0], &[1 << 30, 1 << 30, 2, 2, 2], &[u64::MAX, 2, 2, 2, 2]] {
            assert!(Shape::fold(dims).is_err(), "{dims:?}");
        }
    }

    #[test]
    fn a_chunk_of_pairs_has_twice_the_slowest_extent() {
        let layout = |scalar, dims| Layout::of_chunk(scalar, ByteOrder::Big, dims);
        for (dims, values) in
            [(&[3][..], &[6][..]), (&[1, 1], &[2]), (&[1, 5, 7], &[10, 7]), (&[2, 3, 5, 7, 11], &[12, 5, 7, 11])]
        {
            let pairs = layout(Scalar::C64, dims).unwrap();
            assert_eq!(pairs.shape.dims(), values, "{dims:?}");
            assert_eq!(pairs.chunk_bytes(), dims.iter().product::<u64>() * Scalar::C64.element_size() as u64);
            assert!(pairs.check_pairs().is_ok());
            assert_eq!(pairs.elements(), Shape::fold(dims).unwrap());
            assert_eq!(layout(Scalar::F32, dims).unwrap().shape, Shape::fold(dims).unwrap());
        }
        assert!(layout(Scalar::C128, &[(1 << 47) + 1]).is_err() && layout(Scalar::F64, &[(1 << 47) + 1]).is_ok());
        let odd = Layout { shape: Shape::new(&[3, 2]).unwrap(), ..layout(Scalar::C64, &[3]).unwrap() };
        assert!(odd.check_pairs().is_err() && Layout { scalar: Scalar::F32, ..odd }.check_pairs().is_ok());
        for scalar in Scalar::ALL {
            assert_eq!(scalar.of_values().is_float(), scalar.is_float());
            assert_eq!((scalar.of_values().size(), scalar.of_values().element_size()), (scalar.size(), scalar.size()));
        }
    }

    #[test]
    fn type_bytes_name_every_type_and_byte_order_once() {
        let mut known = 0;
        for byte in 0..=u8::MAX {
            let Some((scalar, byte_order)) = type_of_byte(byte) else { continue };
            let layout = Layout { scalar, byte_order, shape: Shape::line(3) };
            assert_eq!(layout.type_byte(), byte);
            assert_eq!(layout.chunk_bytes(), 3 * scalar.size() as u64);
            known += 1;
        }
        assert_eq!(known, 2 * Scalar::ALL.len());
        assert_eq!(type_of_byte(0), Some((Scalar::F32, ByteOrder::Little)));
        assert_eq!(type_of_byte(0x81), Some((Scalar::F64, ByteOrder::Big)));
    }

    #[test]
    fn chunks_of_equal_values_are_constant() {
        let layout = Layout { scalar: Scalar::U16, byte_order: ByteOrder::Big, shape: Shape::line(3) };
        assert!(layout.is_constant(&[1, 2, 1, 2, 1, 2]));
        assert!(!layout.is_constant(&[1, 2, 1, 2, 1, 3]));
        assert!(!layout.is_constant(&[1, 2, 2, 1, 1, 2]));
        let one = Layout { shape: Shape::line(1), ..layout };
        assert!(one.is_constant(&[7, 9]));
    }

    #[test]
    fn sets_of_axes_are_bits() {
        let shape = Shape::new(&[4, 5, 6]).unwrap();
        assert_eq!(Axes::all(&shape).to_byte(), 0b111);
        assert_eq!(Axes::from_byte(0b1000, &shape), None);
        let axes = Axes::from_byte(0b101, &shape).unwrap();
        assert_eq!([0, 1, 2, 3].map(|axis| axes.contains(axis)), [true, false, true, false]);
        assert_eq!(axes.without(Axes::FASTEST), Axes::along(2));
        assert_eq!(axes.without(axes), Axes::NONE);
    }
}
