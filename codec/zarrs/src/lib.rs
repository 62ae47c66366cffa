#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::any::Any;
use std::num::NonZeroU64;
use std::sync::Arc;

use quire_codec::options::{self, Options};
use quire_codec::{ByteOrder, Config, Layout, Scalar, Unverified, Workspace, fill_bits, max_stream_len};
use serde::{Deserialize, Serialize};
use zarrs::array::{DataType, FillValue};
use zarrs_codec::{
    ArrayBytes, ArrayBytesRaw, ArrayCodecTraits, ArrayToBytesCodecTraits, BytesRepresentation, Codec, CodecError,
    CodecMetadataOptions, CodecOptions, CodecPluginV3, CodecTraits, CodecTraitsV3, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency,
};
use zarrs_metadata::v3::{FillValueMetadataV3, MetadataV3};
use zarrs_metadata::{Configuration, ConfigurationSerialize};
use zarrs_plugin::{PluginCreateError, ZarrVersion};

/// zarrs keeps values in the machine's byte order.
const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// What the metadata say of the codec.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuireConfiguration {
    options: String,
    /// In place of the array's fill value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fill_value: Option<FillValueMetadataV3>,
}

impl ConfigurationSerialize for QuireConfiguration {}

/// A codec from arrays to streams, the codec `quire` of zarr's format 3.
#[derive(Debug, Clone)]
pub struct QuireCodec {
    configuration: QuireConfiguration,
    parsed: Options,
}

impl QuireCodec {
    /// A codec with options such as `abs=1e-3`.
    ///
    /// # Errors
    /// For options that make no sense, with what was seen and what can be given.
    pub fn new(options: &str) -> Result<Self, PluginCreateError> {
        Self::of(QuireConfiguration { options: options.to_owned(), fill_value: None })
    }

    fn of(configuration: QuireConfiguration) -> Result<Self, PluginCreateError> {
        let parsed = options::parse(&configuration.options).map_err(|error| PluginCreateError::Other(error.to_string()))?;
        Ok(Self { configuration, parsed })
    }

    fn layout(&self, shape: &[NonZeroU64], data_type: &DataType) -> Result<Layout, CodecError> {
        let extents: Vec<u64> = shape.iter().map(|extent| extent.get()).collect();
        let layout = Layout::of_chunk(scalar_of(data_type)?, NATIVE, &extents);
        layout.and_then(|layout| layout.in_bricks(self.parsed.brick)).map_err(other)
    }
}

zarrs_plugin::impl_extension_aliases!(QuireCodec, v3: "quire");

inventory::submit! { CodecPluginV3::new::<QuireCodec>() }

impl CodecTraitsV3 for QuireCodec {
    fn create(metadata: &MetadataV3) -> Result<Codec, PluginCreateError> {
        Ok(Codec::ArrayToBytes(Arc::new(Self::of(metadata.to_typed_configuration()?)?)))
    }
}

impl CodecTraits for QuireCodec {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, _version: ZarrVersion, _options: &CodecMetadataOptions) -> Option<Configuration> {
        Some(self.configuration.clone().into())
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl ArrayCodecTraits for QuireCodec {
    fn recommended_concurrency(
        &self,
        _shape: &[NonZeroU64],
        _data_type: &DataType,
    ) -> Result<RecommendedConcurrency, CodecError> {
        Ok(RecommendedConcurrency::new_maximum(1))
    }
}

impl ArrayToBytesCodecTraits for QuireCodec {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn ArrayToBytesCodecTraits> {
        self
    }

    fn encode<'a>(
        &self,
        bytes: ArrayBytes<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        fill_value: &FillValue,
        _options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let layout = self.layout(shape, data_type)?;
        let given = self.configuration.fill_value.as_ref().map(|given| data_type.fill_value_v3(given)).transpose();
        let given = given.map_err(|error| CodecError::Other(error.to_string()))?;
        let fill_value = given.as_ref().unwrap_or(fill_value).as_ne_bytes();
        let bits = fill_bits(fill_value, layout.scalar, NATIVE, self.parsed.config.bound).map_err(other)?;
        let config = Config { fill_value: Some(bits), ..self.parsed.config };
        let mut stream = Vec::new();
        Workspace::default().compress(&bytes.into_fixed()?, &layout, &config, &mut stream).map_err(other)?;
        Ok(stream.into())
    }

    fn decode<'a>(
        &self,
        bytes: ArrayBytesRaw<'a>,
        shape: &[NonZeroU64],
        data_type: &DataType,
        _fill_value: &FillValue,
        _options: &CodecOptions,
    ) -> Result<ArrayBytes<'a>, CodecError> {
        let expected = self.layout(shape, data_type)?;
        let stream = Unverified::read(&bytes).and_then(Unverified::verify).map_err(other)?;
        let found = stream.header().layout;
        if (found.scalar, found.chunk_bytes()) != (expected.scalar, expected.chunk_bytes()) {
            return Err(CodecError::Other(format!(
                "the stream holds {} bytes of {}, and the array's chunks are {} bytes of {}",
                found.chunk_bytes(),
                found.scalar,
                expected.chunk_bytes(),
                expected.scalar
            )));
        }
        let mut values = vec![0; expected.chunk_bytes() as usize];
        Workspace::default().decompress_verified(&stream, &mut values).map_err(other)?;
        if found.byte_order != NATIVE {
            values.chunks_exact_mut(found.scalar.size()).for_each(<[u8]>::reverse);
        }
        Ok(ArrayBytes::from(values))
    }

    fn encoded_representation(
        &self,
        shape: &[NonZeroU64],
        data_type: &DataType,
        _fill_value: &FillValue,
    ) -> Result<BytesRepresentation, CodecError> {
        let layout = self.layout(shape, data_type)?;
        quire_codec::check_bound(&layout, &self.parsed.config).map_err(other)?;
        Ok(BytesRepresentation::BoundedSize(max_stream_len(&layout)))
    }
}

/// The codec's name for a type of zarr.
fn scalar_of(data_type: &DataType) -> Result<Scalar, CodecError> {
    let name = data_type.name(ZarrVersion::V3).unwrap_or_default();
    Ok(match name.as_ref() {
        "float16" => Scalar::F16,
        "bfloat16" => Scalar::BF16,
        "float32" => Scalar::F32,
        "float64" => Scalar::F64,
        "complex64" => Scalar::C64,
        "complex128" => Scalar::C128,
        "int8" => Scalar::I8,
        "int16" => Scalar::I16,
        "int32" => Scalar::I32,
        "int64" => Scalar::I64,
        "uint8" => Scalar::U8,
        "uint16" => Scalar::U16,
        "uint32" => Scalar::U32,
        "uint64" => Scalar::U64,
        _ => return Err(CodecError::UnsupportedDataType(data_type.clone(), "quire".to_owned())),
    })
}

fn other(error: quire_codec::Error) -> CodecError {
    CodecError::Other(error.to_string())
}
