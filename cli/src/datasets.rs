//! Datasets of the user's files, read a block at a time as the filter would meet them.

use std::collections::HashSet;
use std::path::Path;

use hdf5::plist::dataset_create::FillValue;
use hdf5::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5::{Dataset, File, Group, H5Type, Hyperslab, SliceOrIndex};
use ndarray::IxDyn;
use quire_codec::{ByteOrder, Layout, Scalar, Shape};

/// Most values of a block where neither the user nor the dataset says how long its sides are.
const BLOCK_VALUES: usize = 64 * 64 * 64;

/// A dataset of numbers.
#[derive(Debug)]
pub(crate) struct Source {
    dataset: Dataset,
    /// `FILE:/path/in/it`.
    pub(crate) name: String,
    reader: Reader,
    /// Bits of the fill value, if the dataset defines one.
    pub(crate) fill_value: Option<u64>,
    extents: Vec<usize>,
    block: Vec<usize>,
}

/// What can be read, and what not, with the reason.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) sources: Vec<Source>,
    pub(crate) skipped: Vec<String>,
}

impl Found {
    /// Finds the datasets that `FILE` or `FILE:/path` names, a group's with all below it. `block` is the shape of blocks for those of its rank.
    ///
    /// # Errors
    /// With the name, where there is no such file or object.
    pub(crate) fn add(&mut self, name: &str, block: Option<&[usize]>) -> Result<(), String> {
        // A file's own name may have a colon.
        let (path, inside) = match name.rsplit_once(':') {
            Some((path, inside)) if inside.starts_with('/') && !Path::new(name).exists() => (path, inside),
            _ => (name, "/"),
        };
        let refused = |error: hdf5::Error| format!("{name}: {error}");
        let file = File::open(path).map_err(refused)?;
        if let Ok(dataset) = file.dataset(inside) {
            self.add_dataset(path, dataset, block);
            return Ok(());
        }
        let group = file.group(inside).map_err(|_| format!("{name}: the file has no dataset and no group of that name"))?;
        self.add_group(path, &group, block, &mut HashSet::new()).map_err(refused)
    }

    fn add_group(&mut self, path: &str, group: &Group, block: Option<&[usize]>, met: &mut HashSet<String>) -> hdf5::Result<()> {
        // Links may lead back to where they came from.
        if !met.insert(format!("{:?}", group.loc_info()?.token)) {
            return Ok(());
        }
        group.datasets()?.into_iter().for_each(|dataset| self.add_dataset(path, dataset, block));
        group.groups()?.iter().try_for_each(|group| self.add_group(path, group, block, met))
    }

    fn add_dataset(&mut self, path: &str, dataset: Dataset, block: Option<&[usize]>) {
        let name = format!("{path}:{}", dataset.name());
        match Source::new(dataset, name.clone(), block) {
            Ok(source) => self.sources.push(source),
            Err(reason) => self.skipped.push(format!("{name}: {reason}")),
        }
    }
}

impl Source {
    fn new(dataset: Dataset, name: String, block: Option<&[usize]>) -> Result<Self, String> {
        let descriptor = dataset.dtype().and_then(|datatype| datatype.to_descriptor());
        let descriptor = descriptor.map_err(|error| format!("its type is not known here: {error}"))?;
        let reader = Reader::of(&descriptor).ok_or_else(|| format!("its type is {descriptor}, not one of numbers"))?;
        let extents = dataset.shape();
        if dataset.size() < 2 {
            return Err(format!("it has {} values", dataset.size()));
        }
        let block = match block.filter(|block| block.len() == extents.len()) {
            Some(block) => block.to_vec(),
            None => dataset.chunk().unwrap_or_else(|| block_of(&extents)),
        };
        let block = block.iter().zip(&extents).map(|(&side, &extent)| side.min(extent)).collect();
        let fill_value = (reader.fill)(&dataset).map_err(|error| error.to_string())?;
        Ok(Self { dataset, name, reader, fill_value, extents, block })
    }

    /// Blocks along each axis.
    fn counts(&self) -> Vec<usize> {
        self.extents.iter().zip(&self.block).map(|(&extent, &side)| extent.div_ceil(side)).collect()
    }

    /// Blocks of the dataset.
    pub(crate) fn blocks(&self) -> usize {
        self.counts().iter().product()
    }

    /// A block's bytes, little endian, and their layout. Blocks at the edges end with the dataset.
    ///
    /// # Errors
    /// With the dataset's name.
    pub(crate) fn read(&self, number: usize) -> Result<(Vec<u8>, Layout), String> {
        let mut rest = number;
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for ((&count, &side), &extent) in self.counts().iter().zip(&self.block).zip(&self.extents).rev() {
            let start = rest % count * side;
            rest /= count;
            ranges.push((start, side.min(extent - start)));
        }
        ranges.reverse();
        let slices = ranges.iter().map(|&(start, count)| SliceOrIndex::SliceCount { start, step: 1, count, block: 1 });
        let selection = Hyperslab::from(slices.collect::<Vec<_>>());
        let bytes = (self.reader.read)(&self.dataset, selection).map_err(|error| format!("{}: {error}", self.name))?;
        let dims: Vec<u64> = ranges.iter().map(|&(_, count)| count as u64).collect();
        let shape = Shape::fold(&dims).map_err(|error| format!("{}: {error}", self.name))?;
        Ok((bytes, Layout { scalar: self.reader.scalar, byte_order: ByteOrder::Little, shape }))
    }
}

/// How values of a type are read.
#[derive(Debug, Clone, Copy)]
struct Reader {
    scalar: Scalar,
    /// Bytes of a selection, little endian.
    read: fn(&Dataset, Hyperslab) -> hdf5::Result<Vec<u8>>,
    /// Bits of the fill value, if the dataset defines one.
    fill: fn(&Dataset) -> hdf5::Result<Option<u64>>,
}

impl Reader {
    /// The reader for an HDF5 type that the codec has too.
    fn of(descriptor: &TypeDescriptor) -> Option<Self> {
        Some(match descriptor {
            TypeDescriptor::Float(FloatSize::U4) => Self::new::<f32>(Scalar::F32),
            TypeDescriptor::Float(FloatSize::U8) => Self::new::<f64>(Scalar::F64),
            TypeDescriptor::Integer(IntSize::U1) => Self::new::<i8>(Scalar::I8),
            TypeDescriptor::Integer(IntSize::U2) => Self::new::<i16>(Scalar::I16),
            TypeDescriptor::Integer(IntSize::U4) => Self::new::<i32>(Scalar::I32),
            TypeDescriptor::Integer(IntSize::U8) => Self::new::<i64>(Scalar::I64),
            TypeDescriptor::Unsigned(IntSize::U1) => Self::new::<u8>(Scalar::U8),
            TypeDescriptor::Unsigned(IntSize::U2) => Self::new::<u16>(Scalar::U16),
            TypeDescriptor::Unsigned(IntSize::U4) => Self::new::<u32>(Scalar::U32),
            TypeDescriptor::Unsigned(IntSize::U8) => Self::new::<u64>(Scalar::U64),
            _ => return None,
        })
    }

    fn new<T: Number>(scalar: Scalar) -> Self {
        Self { scalar, read: read::<T>, fill: fill::<T> }
    }
}

fn read<T: Number>(dataset: &Dataset, selection: Hyperslab) -> hdf5::Result<Vec<u8>> {
    let values = dataset.read_slice::<T, _, IxDyn>(selection)?;
    Ok(values.iter().flat_map(|value| value.bits().to_le_bytes().into_iter().take(size_of::<T>())).collect())
}

fn fill<T: Number>(dataset: &Dataset) -> hdf5::Result<Option<u64>> {
    let list = dataset.dcpl()?;
    let defined = list.get_fill_value_defined()? == FillValue::UserDefined;
    Ok(if defined { list.get_fill_value_as::<T>()?.map(Number::bits) } else { None })
}

/// A type of HDF5 and of the codec.
trait Number: H5Type + Copy {
    /// Its bits, in the low bits.
    fn bits(self) -> u64;
}

macro_rules! numbers {
    ($($type:ty: $bits:expr),*) => {
        $(impl Number for $type {
            fn bits(self) -> u64 {
                let bits: fn($type) -> u64 = $bits;
                bits(self)
            }
        })*
    };
}

numbers! {
    f32: |value| u64::from(value.to_bits()),
    f64: |value| value.to_bits(),
    i8: |value| u64::from(value.cast_unsigned()),
    i16: |value| u64::from(value.cast_unsigned()),
    i32: |value| u64::from(value.cast_unsigned()),
    i64: |value| value.cast_unsigned(),
    u8: |value| u64::from(value),
    u16: |value| u64::from(value),
    u32: |value| u64::from(value),
    u64: |value| value
}

/// A block of at most [`BLOCK_VALUES`] values: the longest side is halved until it is small enough.
fn block_of(extents: &[usize]) -> Vec<usize> {
    let mut block = extents.to_vec();
    while block.iter().product::<usize>() > BLOCK_VALUES {
        if let Some(longest) = block.iter_mut().max() {
            *longest = longest.div_ceil(2);
        }
    }
    block
}
