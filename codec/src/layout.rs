//! How the bytes of a chunk are to be read: element type, byte order, shape.

use crate::error::{Error, Result};

/// The most dimensions a stream describes. More are folded into the slowest by [`Shape::fold`].
pub const MAX_RANK: usize = 4;

/// Type of a chunk's values.
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
    /// Integer of 8 bits without a sign
    U8,
    /// Integer of 16 bits, two's complement
    I16,
    /// Integer of 16 bits without a sign
    U16,
    /// Integer of 32 bits, two's complement
    I32,
    /// Integer of 32 bits without a sign
    U32,
    /// Integer of 64 bits, two's complement
    I64,
    /// Integer of 64 bits without a sign
    U64,
}

impl Scalar {
    /// All types, in the order of their numbers in a stream.
    pub const ALL: [Self; 12] = [
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
    ];

    /// Bytes a value takes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Bytes of the integers of its codes (FORMAT.md §3).
    #[must_use]
    pub const fn code_size(self) -> usize {
        if self.size() == 8 { 8 } else { 4 }
    }

    /// Whether this is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::BF16)
    }
}

/// Order of the bytes of each value in the chunk. HDF5 hands a filter the *file's* type, so this may differ from the host's.
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
        match elements {
            Some(1..=0x1_0000_0000_0000) => {}
            _ => {
                return Err(Error::invalid(format_args!("chunk dimensions {dims:?} hold no elements, or more than 2^48")));
            }
        }
        let mut shape = Self { dims: [1; MAX_RANK], rank: dims.len() as u8 };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// Extents along all axes that a shape can have, fastest first; 1 where it has none.
    #[must_use]
    pub fn extents(&self) -> [usize; MAX_RANK] {
        let mut extents = [1; MAX_RANK];
        for (extent, &dim) in extents.iter_mut().zip(self.dims().iter().rev()) {
            *extent = dim as usize;
        }
        extents
    }

    /// A shape for a chunk of any rank: extents of 1 are dropped, then the slowest ones are folded together until four are left.
    /// Neither changes the order of the elements.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn fold(dims: &[u64]) -> Result<Self> {
        if dims.is_empty() || dims.contains(&0) {
            return Self::new(dims);
        }
        // From the fastest on; all that have no room of their own share the last.
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

    /// One dimension. `extent` is at least 1 and no more than a valid shape holds.
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

/// How the bytes of a chunk are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Type of the values.
    pub scalar: Scalar,
    /// Order of the bytes of each value.
    pub byte_order: ByteOrder,
    /// Extents of the chunk.
    pub shape: Shape,
}

impl Layout {
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

    /// Type and byte order in a byte, as streams and cd_values have them.
    #[must_use]
    pub fn type_byte(&self) -> u8 {
        let number = Scalar::ALL.iter().position(|&scalar| scalar == self.scalar).unwrap_or(0) as u8;
        match self.byte_order {
            ByteOrder::Little => number,
            ByteOrder::Big => number | BIG_ENDIAN_BIT,
        }
    }
}

/// Bit of the type byte that says big endian.
const BIG_ENDIAN_BIT: u8 = 0x80;

/// Inverse of [`Layout::type_byte`]; `None` for a type that is unknown.
#[must_use]
pub fn type_of_byte(byte: u8) -> Option<(Scalar, ByteOrder)> {
    let scalar = *Scalar::ALL.get(usize::from(byte & !BIG_ENDIAN_BIT))?;
    Some((scalar, if byte & BIG_ENDIAN_BIT == 0 { ByteOrder::Little } else { ByteOrder::Big }))
}

/// Axes along which differences are taken. Bit 0 is the fastest axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes(u8);

impl Axes {
    /// The codes themselves.
    pub const NONE: Self = Self(0);
    /// The fastest axis alone.
    pub const FASTEST: Self = Self(1);

    /// All axes of a shape.
    #[must_use]
    pub fn all(shape: &Shape) -> Self {
        Self((1 << shape.dims().len()) - 1)
    }

    /// The set that a stream names, if the shape has all of its axes.
    #[must_use]
    pub fn from_byte(byte: u8, shape: &Shape) -> Option<Self> {
        (byte & !Self::all(shape).0 == 0).then_some(Self(byte))
    }

    /// The set as a stream names it.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        self.0
    }

    /// One axis alone.
    #[must_use]
    pub fn along(axis: usize) -> Self {
        Self(1 << axis)
    }

    /// Those that are not in another set.
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
