"""The codec `quire` for arrays of zarr's format 3, which takes the place of the serializer, as it needs to know numbers from bytes::

    zarr.create_array(store, shape=x.shape, dtype=x.dtype, chunks=(64, 64, 64), serializer=QuireCodec("abs=1e-3"), compressors=None)

Each chunk is the stream that `h5z_quire.compress` gives. zarr finds the codec by its name once this package is installed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec

from . import arrays
from .settings import Quire

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer


@dataclass(frozen=True)
class QuireCodec(ArrayBytesCodec):
    """A codec from arrays to streams. Give `compressors=None` beside it: streams do not shrink further.

    quire  what to keep, as a Quire or as options such as "abs=1e-3". The array's fill value comes back bit for bit, whatever the bound allows

    Raises ValueError for options that make no sense, and when an array is made whose type cannot be compressed so.
    """

    is_fixed_size = False
    quire: Quire

    def __init__(self, quire: Quire | str) -> None:
        object.__setattr__(self, "quire", Quire.from_options(quire) if isinstance(quire, str) else quire)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QuireCodec:
        """The codec that an array's metadata names."""
        configuration = data.get("configuration", {})
        if set(configuration) != {"options"} or not isinstance(configuration["options"], str):
            raise ValueError(f"codec 'quire' has the configuration {configuration!r}: it must have one text, options, such as 'abs=1e-3'")
        return cls(configuration["options"])

    def to_dict(self) -> dict[str, Any]:
        """What the array's metadata say of the codec."""
        return {"name": "quire", "configuration": {"options": self.quire.options}}

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        """Raises ValueError if values of the array's type cannot be compressed so."""
        self.quire.check(dtype.to_native_dtype())

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Raises NotImplementedError, as zarr expects of codecs whose output has no fixed size."""
        raise NotImplementedError("the length of a stream depends on the values")

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        stream = await asyncio.to_thread(arrays.compress, chunk_array.as_numpy_array(), self.quire, fill_value=_fill_value(chunk_spec))
        return chunk_spec.prototype.buffer.from_bytes(stream)

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        values = await asyncio.to_thread(arrays.decompress, chunk_bytes.as_numpy_array(), shape=chunk_spec.shape)
        native = chunk_spec.dtype.to_native_dtype()
        if values.dtype.newbyteorder("=") != native.newbyteorder("="):
            raise ValueError(f"a chunk holds values of type {values.dtype}, the array has {native}: the chunk belongs to another array")
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values.astype(native, copy=False))


def _fill_value(chunk_spec: ArraySpec) -> Any:
    """The array's fill value, unless it is 0, which zarr takes if nobody says anything and which every grid has: a relative bound shall not leave zeros out."""
    return chunk_spec.fill_value if np.any(chunk_spec.fill_value != 0) else None
