"""The codec `quire` for arrays of zarr's format 3, which takes the place of the serializer, as it needs to know numbers from bytes::

    zarr.create_array(store, shape=x.shape, dtype=x.dtype, chunks=(64, 64, 64), serializer=QuireCodec("abs=1e-3"), compressors=None)

Each chunk is the stream that `h5z_quire.compress` gives. zarr finds the codec by its name once this package is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABCMeta
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence, TypeVar

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec
from zarr.core.buffer import gpu

from . import library, numcodecs
from .arrays import as_value, compress_batch, decompress_batch, task_of
from .device_arrays import place_of
from .element_types import type_number
from .fill_values import number_of, to_json
from .settings import Quire

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

_Given = TypeVar("_Given", "Buffer", "NDBuffer")
_Made = TypeVar("_Made", "Buffer", "NDBuffer")

# Bytes of values that are compressed or decompressed by one call. Chunks that do not lie in one piece in the array are copied for it.
_BATCH_BYTES = 64 << 20


class _SaysItsPlace(ABCMeta):
    """Says in the class's text how to use it, as zarr's error for `compressors=QuireCodec(...)` names nothing but the class."""

    def __repr__(cls) -> str:
        return f"{super().__repr__()} (write serializer={cls.__name__}(...), compressors=None)"


@dataclass(frozen=True)
class QuireCodec(ArrayBytesCodec, metaclass=_SaysItsPlace):
    """A codec from arrays to streams. Give it as the serializer, with `compressors=None`: streams do not shrink further.

    Parameters
    ----------
    quire : Quire or str, optional
        What to keep. Or give Quire's own keywords, as in ``QuireCodec(abs=1e-3)``.
    fill_value : number, optional
        A value that comes back bit for bit, whatever the bound allows, and has no part in a range. Without it, that is the fill value of the array. xarray
        writes a variable's `_FillValue` into an attribute, which a codec does not see: give it here.

    Raises
    ------
    ValueError
        For options that make no sense, and when an array is made whose type or chunks cannot be compressed with them.

    Notes
    -----
    Chunks that zarr hands over together are compressed and decompressed on all cores, or as many as QUIRE_THREADS says. zarr hands over one chunk at a time:
    of an array several times at once, of a shard one after the other. `zarr.config.set({"codec_pipeline.batch_size": 8})` makes it eight.

    Under `zarr.config.enable_gpu()` arrays of CuPy are compressed and decompressed in their GPU's memory, where their streams are until zarr stores them.
    Batches of 64 chunks are faster there.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> from h5z_quire.zarr import QuireCodec
    >>> x = np.sin(np.arange(64 * 64) / 50).reshape(64, 64)
    >>> array = zarr.create_array({}, shape=x.shape, dtype=x.dtype, chunks=(32, 32), serializer=QuireCodec(abs=1e-3), compressors=None)
    >>> array[:] = x
    >>> bool(abs(array[:] - x).max() <= 1e-3)
    True
    """

    is_fixed_size = False
    quire: Quire
    fill_value: int | float | complex | None

    def __init__(self, quire: Quire | str | None = None, fill_value: Any = None, **keywords: Any) -> None:
        object.__setattr__(self, "quire", Quire.of_codec(quire, keywords))
        object.__setattr__(self, "fill_value", number_of(fill_value))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QuireCodec:
        """The codec that an array's metadata names."""
        configuration = data.get("configuration", {})
        if not {"options"} <= set(configuration) <= {"options", "fill_value"} or not isinstance(configuration["options"], str):
            raise ValueError(
                f"codec 'quire' has the configuration {configuration!r}: it must have one text, options, such as 'abs=1e-3', and may have a fill_value"
            )
        return cls(configuration["options"], configuration.get("fill_value"))

    def to_dict(self) -> dict[str, Any]:
        """What the array's metadata say of the codec."""
        fill_value = {} if self.fill_value is None else {"fill_value": to_json(self.fill_value)}
        return {"name": "quire", "configuration": {"options": self.quire.options, **fill_value}}

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        """Raises ValueError if values of the array's type, or its chunks, cannot be compressed with these options."""
        self.quire.check(dtype.to_native_dtype(), getattr(chunk_grid, "chunk_shape", None))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Raises NotImplementedError, as zarr expects of codecs whose output has no fixed size."""
        raise NotImplementedError("the length of a stream depends on the values")

    async def encode(self, chunks_and_specs: Iterable[tuple[NDBuffer | None, ArraySpec]]) -> list[Buffer | None]:
        """The streams of chunks; None for None."""
        return await _in_batches(self._encode_batch, chunks_and_specs)

    async def decode(self, chunks_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]) -> list[NDBuffer | None]:
        """The values of streams; None for None."""
        return await _in_batches(self._decode_batch, chunks_and_specs)

    def _encode_batch(self, chunks: Sequence[NDBuffer], spec: ArraySpec) -> list[Buffer]:
        if self._is_for_gpu(spec):
            return self._encode_on_gpu(chunks, spec)
        arrays = [_promised(chunk.as_numpy_array(), spec) for chunk in chunks]
        streams = compress_batch(arrays, self.quire, fill_value=self._fill_value(spec))
        return [spec.prototype.buffer.from_bytes(stream) for stream in streams]

    def _decode_batch(self, chunks: Sequence[Buffer], spec: ArraySpec) -> list[NDBuffer]:
        if self._is_for_gpu(spec):
            return self._decode_on_gpu(chunks, spec)
        arrays = decompress_batch([chunk.as_numpy_array() for chunk in chunks], spec.shape)
        return [spec.prototype.nd_buffer.from_numpy_array(_checked(array, spec)) for array in arrays]

    def _fill_value(self, spec: ArraySpec) -> Any:
        """The value that comes back bit for bit: the codec's, or else the array's. Raises ValueError for two different values that both need this."""
        of_array = None
        with contextlib.suppress(ValueError):
            # A filter before this codec may have made another type of the values, which has no such value.
            of_array = None if spec.fill_value is None else as_value(spec.fill_value, spec.dtype.to_native_dtype())[0]
        if self.fill_value is None or of_array is None:
            return of_array if self.fill_value is None else self.fill_value
        own = as_value(self.fill_value, spec.dtype.to_native_dtype())[0]
        if own.tobytes() != of_array.tobytes() and number_of(of_array) is not None and any(of_array.tobytes()):
            raise ValueError(
                f"the array has the fill value {of_array}, the codec {own}, and one value comes back bit for bit: leave one of them out, or give the array "
                "0 or NaN"
            )
        return self.fill_value

    def _is_for_gpu(self, spec: ArraySpec) -> bool:
        """Whether zarr has its arrays in a GPU's memory. Streams that depend on earlier streams are made on the host all the same."""
        return issubclass(spec.prototype.nd_buffer, gpu.NDBuffer) and "adapt=history" not in self.quire.options

    def _encode_on_gpu(self, chunks: Sequence[NDBuffer], spec: ArraySpec) -> list[Buffer]:
        """The streams of chunks of CuPy, in the memory of their GPU."""
        import cupy

        arrays = [_promised(cupy.asarray(chunk.as_ndarray_like()), spec) for chunk in chunks]
        values = [place_of(array) for array in arrays]
        task = task_of(values, self.quire, self._fill_value(spec))
        with arrays[0].device:
            room = cupy.empty(sum(map(library.device_room, values)), np.uint8)
            streams = library.device_compress_to_device(task, values, room.data.ptr, room.nbytes)
            # The chunks' worth of memory is not to be kept for their streams.
            packed = room[: max(offset + length for offset, length in streams)].copy()
        return [spec.prototype.buffer.from_array_like(packed[offset : offset + length]) for offset, length in streams]

    def _decode_on_gpu(self, chunks: Sequence[Buffer], spec: ArraySpec) -> list[NDBuffer]:
        """The values of streams, which zarr has brought into a GPU's memory."""
        import cupy

        streams = [place_of(cupy.asarray(chunk.as_array_like())) for chunk in chunks]
        dtype = spec.dtype.to_native_dtype()
        with cupy.asarray(chunks[0].as_array_like()).device:
            arrays = [cupy.empty(spec.shape, dtype) for _ in chunks]
        sources = [(stream.address, stream.shape[0]) for stream in streams]
        library.device_decompress(type_number(dtype), sources, [place_of(array) for array in arrays])
        return [spec.prototype.nd_buffer.from_ndarray_like(array) for array in arrays]


@dataclass(frozen=True)
class NumcodecsQuire(BytesBytesCodec):
    """numcodecs' codec by the name that zarr gives it in metadata of format 3, `numcodecs.quire`, behind a serializer.

    VirtualiZarr's references have it, and arrays that `zarr migrate` has taken from format 2. For arrays that you make, `QuireCodec` is better: it knows the
    extents of a chunk.
    """

    is_fixed_size = False
    codec: numcodecs.QuireCodec

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NumcodecsQuire:
        """The codec that an array's metadata names."""
        return cls(numcodecs.QuireCodec(**{key: value for key, value in data.get("configuration", {}).items() if key != "id"}))

    def to_dict(self) -> dict[str, Any]:
        """What the array's metadata say of the codec."""
        configuration = self.get_config()
        return {"name": f"numcodecs.{configuration.pop('id')}", "configuration": configuration}

    def get_config(self) -> dict[str, Any]:
        """What numcodecs writes into metadata, for which VirtualiZarr asks when it writes kerchunk's references."""
        return self.codec.get_config()

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """As QuireCodec's."""
        raise NotImplementedError("the length of a stream depends on the values")

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        values = await asyncio.to_thread(self.codec.decode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(values.reshape(-1).view(np.uint8).data)

    async def _encode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        stream = await asyncio.to_thread(self.codec.encode, chunk_data.as_numpy_array())
        return chunk_spec.prototype.buffer.from_bytes(stream)


async def _in_batches(
    work: Callable[[Sequence[_Given], ArraySpec], list[_Made]], chunks_and_specs: Iterable[tuple[_Given | None, ArraySpec]]
) -> list[_Made | None]:
    """Has a thread work on the chunks that are there, one batch of chunks of equal type and shape after the other."""
    chunks = list(chunks_and_specs)
    made: list[_Made | None] = [None] * len(chunks)
    for spec, numbers in _batches(chunks):
        results = await asyncio.to_thread(work, [chunk for number in numbers if (chunk := chunks[number][0]) is not None], spec)
        for number, result in zip(numbers, results):
            made[number] = result
    return made


def _batches(chunks: Sequence[tuple[_Given | None, ArraySpec]]) -> Iterator[tuple[ArraySpec, list[int]]]:
    """The numbers of chunks that follow one another with the same specification, and have no more than `_BATCH_BYTES` of values."""
    there = (number for number, (chunk, _) in enumerate(chunks) if chunk is not None)
    for spec, group in groupby(there, key=lambda number: chunks[number][1]):
        numbers = list(group)
        chunk_bytes = math.prod(spec.shape) * spec.dtype.to_native_dtype().itemsize
        most = max(1, _BATCH_BYTES // max(1, chunk_bytes))
        for first in range(0, len(numbers), most):
            yield spec, numbers[first : first + most]


def _checked(values: npt.NDArray[Any], spec: ArraySpec) -> npt.NDArray[Any]:
    """The values in the type of the array. Raises ValueError if they are of another one."""
    native = spec.dtype.to_native_dtype()
    if values.dtype.newbyteorder("=") != native.newbyteorder("="):
        raise ValueError(f"a chunk holds values of type {values.dtype}, the array has {native}: the chunk belongs to another array")
    return values.astype(native, copy=False)


def _promised(values: Any, spec: ArraySpec) -> Any:
    """An array that is to be compressed, in the shape of its chunk. Some filters of numcodecs make it flat.

    Raises ValueError if the array is not of the type and the size that a reader will ask for.
    """
    promised = spec.dtype.to_native_dtype()
    if values.dtype.newbyteorder("=") != promised.newbyteorder("=") or values.size != math.prod(spec.shape):
        raise ValueError(
            f"a chunk has values of type {values.dtype} and shape {values.shape}, where type {promised} and shape {spec.shape} were promised, so that nobody "
            "could read it: leave out the filter before this codec that makes another type than it says, such as BitRound"
        )
    return values.reshape(spec.shape)
