//! Arrays of zarrs with the codec: bounds, metadata, refusals, and Python's zarr in both directions.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use quire_codec::{ByteOrder, Config, ErrorBound, Layout, Scalar, Workspace};
use zarrs::array::{
    Array, ArrayBuilder, ArrayShardedExt, DataType, Element, ElementOwned, FillValue, codec::ShardingCodecBuilder, data_type,
};
use zarrs::filesystem::FilesystemStore;
use zarrs_codec::{ArrayToBytesCodecTraits, CodecOptions};
use zarrs_quire::QuireCodec;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The last chunks of each axis are partial.
const SHAPE: [u64; 2] = [53, 70];
const CHUNK: [u64; 2] = [20, 32];
const BOUND: f64 = 1e-2;

/// A smooth field with a hole of `fill`.
fn field<T: Copy>(fill: T, of: impl Fn(f64) -> T) -> Vec<T> {
    let value = |index: u64| {
        let (y, x) = (index / SHAPE[1], index % SHAPE[1]);
        if (5..9).contains(&y) && x > 40 {
            fill
        } else {
            of(50.0 + 20.0 * (y as f64 / 9.0).sin() + 15.0 * (x as f64 / 7.0).cos())
        }
    };
    (0..SHAPE[0] * SHAPE[1]).map(value).collect()
}

/// Writes an array, opens it anew, and checks each value.
fn round_trip<T>(folder: &Path, data_type: DataType, fill: T, of: impl Fn(f64) -> T, bound: f64) -> Outcome
where
    T: Copy + Element + ElementOwned + Into<FillValue> + PartialEq + Into<f64>,
{
    let values = field(fill, of);
    let name = format!("/{}", std::any::type_name::<T>());
    let store = Arc::new(FilesystemStore::new(folder)?);
    let codec = Arc::new(QuireCodec::new(&format!("abs={bound}"))?);
    let array = ArrayBuilder::new(SHAPE.to_vec(), CHUNK.to_vec(), data_type, Into::<FillValue>::into(fill))
        .array_to_bytes_codec(codec)
        .build(store.clone(), &name)?;
    array.store_metadata()?;
    array.store_array_subset(&array.subset_all(), &values)?;
    let again = Array::open(store, &name)?;
    let read: Vec<T> = again.retrieve_array_subset(&again.subset_all())?;
    for (value, read) in values.iter().zip(&read) {
        let (exact, rounded): (f64, f64) = ((*value).into(), (*read).into());
        assert!((exact - rounded).abs() <= bound && (*value != fill || *read == fill), "{name}: {exact} and {rounded}");
    }
    Ok(())
}

#[test]
fn values_keep_the_bound_and_fill_values_all_bits() -> Outcome {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    round_trip(folder, data_type::float32(), -99.0f32, |value| value as f32, BOUND)?;
    round_trip(folder, data_type::float64(), 1e35f64, |value| value, BOUND)?;
    round_trip(folder, data_type::int8(), -99i8, |value| value as i8, 1.0)?;
    round_trip(folder, data_type::uint8(), 255u8, |value| value as u8, 1.0)?;
    round_trip(folder, data_type::int16(), -999i16, |value| value as i16, 1.0)?;
    round_trip(folder, data_type::uint16(), 65535u16, |value| value as u16, 1.0)?;
    round_trip(folder, data_type::int32(), -99i32, |value| value as i32, 1.0)?;
    round_trip(folder, data_type::uint32(), 0u32, |value| value as u32, 1.0)
}

#[test]
fn shards_hold_chunks_of_the_codec() -> Outcome {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(FilesystemStore::new(folder.path())?);
    let mut shards =
        ShardingCodecBuilder::new([16, 16].map(|extent| std::num::NonZero::new(extent).unwrap()).to_vec(), &data_type::float32());
    shards.array_to_bytes_codec(Arc::new(QuireCodec::new("abs=1e-2")?));
    let array = ArrayBuilder::new(SHAPE.to_vec(), vec![32, 32], data_type::float32(), -99f32)
        .array_to_bytes_codec(shards.build_arc())
        .build(store.clone(), "/shards")?;
    array.store_metadata()?;
    let values = field(-99f32, |value| value as f32);
    array.store_array_subset(&array.subset_all(), &values)?;
    let again = Array::open(store, "/shards")?;
    assert!(again.is_sharded());
    let read: Vec<f32> = again.retrieve_array_subset(&again.subset_all())?;
    assert!(values.iter().zip(&read).all(|(value, read)| (f64::from(*value) - f64::from(*read)).abs() <= BOUND));
    Ok(())
}

#[test]
fn streams_of_the_other_byte_order_are_read_and_bad_ones_refused() -> Outcome {
    let values = field(-99f32, |value| value as f32);
    let mut stream = Vec::new();
    let layout = Layout::of_chunk(Scalar::F32, ByteOrder::Big, &SHAPE)?;
    let chunk: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
    Workspace::default().compress(&chunk, &layout, &Config::of(ErrorBound::Lossless), &mut stream)?;
    let codec = QuireCodec::new("lossless")?;
    let shape = SHAPE.map(|extent| std::num::NonZero::new(extent).unwrap());
    let decode = |stream: &[u8], data_type: DataType| {
        let fill_value = FillValue::new(vec![0; 4]);
        let decoded = codec.decode(stream.to_vec().into(), &shape, &data_type, &fill_value, &CodecOptions::default());
        decoded.map(|bytes| bytes.into_fixed().expect("of one length").into_owned())
    };
    let native: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    assert_eq!(decode(&stream, data_type::float32())?, native);
    assert!(decode(&stream, data_type::int32()).unwrap_err().to_string().contains("the stream holds"));
    assert!(decode(&stream, data_type::bool()).unwrap_err().to_string().contains("quire"));
    for length in 0..stream.len() {
        assert!(decode(&stream[..length], data_type::float32()).is_err(), "{length}");
    }
    Ok(())
}

#[test]
fn options_and_metadata_are_refused_with_the_reason() {
    assert!(QuireCodec::new("abs=-1").unwrap_err().to_string().contains("-1"));
    let store = Arc::new(zarrs::storage::store::MemoryStore::new());
    let of = |configuration: &str| {
        let metadata = format!(
            r#"{{"zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "float32", "fill_value": 0,
                "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [8]}}}},
                "chunk_key_encoding": {{"name": "default"}}, "codecs": [{{"name": "quire", "configuration": {configuration}}}]}}"#
        );
        Array::new_with_metadata(store.clone(), "/x", serde_json::from_str(&metadata).unwrap()).map(|_| ())
    };
    of(r#"{"options": "abs=1e-3", "fill_value": "NaN"}"#).unwrap();
    for (configuration, reason) in
        [(r#"{"options": "abs"}"#, "abs"), ("{}", "options"), (r#"{"options": "abs=1", "more": 1}"#, "more")]
    {
        let error = of(configuration).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// `QUIRE_PYTHON` is a Python with zarr and h5z-quire, which the test of the Python package makes.
#[test]
fn pythons_zarr_reads_and_writes_the_same_arrays() -> Outcome {
    let Some(python) = std::env::var_os("QUIRE_PYTHON") else {
        println!("skipped: QUIRE_PYTHON names no Python with zarr and h5z-quire");
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    round_trip(folder.path(), data_type::float32(), -99.0f32, |value| value as f32, BOUND)?;
    let script = "import sys, zarr\n\
        ours = zarr.open_array(sys.argv[1] + '/f32', mode='r')\n\
        theirs = zarr.create_array(sys.argv[1] + '/python', shape=ours.shape, chunks=ours.chunks, dtype=ours.dtype, fill_value=-99,\n\
            serializer=ours.serializer, compressors=None)\n\
        theirs[:] = ours[:]\n";
    assert!(Command::new(python).args(["-c", script]).arg(folder.path()).status()?.success());
    let array = Array::open(Arc::new(FilesystemStore::new(folder.path())?), "/python")?;
    let read: Vec<f32> = array.retrieve_array_subset(&array.subset_all())?;
    let values = field(-99f32, |value| value as f32);
    // Rounded twice, on one grid.
    assert!(values.iter().zip(&read).all(|(value, read)| (f64::from(*value) - f64::from(*read)).abs() <= BOUND));
    Ok(())
}
