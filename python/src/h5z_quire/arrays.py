"""Arrays to streams and back, without HDF5. Streams are those that the HDF5 filter writes, and a GPU is used where it would be there."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from . import library
from .element_types import bfloat16, is_bfloat16, numpy_type, type_number
from .messages import short
from .settings import Quire

#: Anything with bytes in a row: bytes, bytearray, memoryview, arrays.
BytesLike = Any


def compress(values: npt.ArrayLike, quire: Quire | str, *, fill_value: Any = None) -> bytes:
    """The stream of an array.

    values      an array of any shape of float16, float32, float64, bfloat16 (of ml_dtypes), complex64, complex128, or integers of 8 to 64 bits, in either
                byte order. One that does not lie in C order in memory is copied; a bare number counts as one of shape (1,)
    quire       what to keep, as a Quire or as options: `compress(x, Quire(abs=1e-3))`, `compress(x, "rel=1e-4")`
    fill_value  a value that comes back bit for bit, whatever the bound allows. The parts of a complex one must be equal, or one of them 0 or not finite

    Raises ValueError, with the reason, for a type or options that cannot be, and MemoryError.
    """
    return compress_batch([values], quire, fill_value=fill_value)[0]


def compress_batch(values: Sequence[npt.ArrayLike], quire: Quire | str, *, fill_value: Any = None) -> list[bytes]:
    """The streams of arrays of one type and shape, made on all cores. As `compress` for each."""
    if any(isinstance(array, np.ma.MaskedArray) for array in values):
        raise ValueError("a masked array has no value where it is masked: give array.filled(value), and fill_value=value")
    arrays = [np.ascontiguousarray(array) for array in values]
    if not arrays:
        return []
    dtype, shape = arrays[0].dtype, arrays[0].shape
    if any(array.dtype != dtype or array.shape != shape for array in arrays):
        raise ValueError("the arrays of a batch must have one type and one shape")
    number = type_number(dtype)
    fill = None if fill_value is None else _fill_value(fill_value, dtype)
    options = quire if isinstance(quire, str) else quire.options
    if len(arrays) == 1:
        return [library.compress(options, number, shape, fill, arrays[0])]
    return library.compress_batch(options, number, shape, fill, arrays)


def decompress(stream: BytesLike, *, shape: Sequence[int] | None = None) -> npt.NDArray[Any]:
    """The array of a stream, with the type and byte order of the one that was compressed.

    stream  anything with the stream's bytes
    shape   of the result. Without it, it has the extents that streams keep: those of 1 are dropped, and slow ones folded together until four are left

    Raises ValueError, with the reason, for a damaged stream, one of another format version, or a shape that does not fit, and MemoryError.
    """
    return decompress_batch([stream], shape)[0]


def decompress_batch(streams: Sequence[BytesLike], shape: Sequence[int] | None = None) -> list[npt.NDArray[Any]]:
    """The arrays of streams, on all cores. As `decompress` for each."""
    sources = [as_bytes(stream) for stream in streams]
    layouts = [library.read_layout(source) for source in sources]
    for _, extents in layouts:
        if shape is not None and np.prod([int(extent) for extent in shape], dtype=object) != np.prod(extents, dtype=object):
            raise ValueError(f"the stream holds an array of {list(extents)}, which shape {list(shape)} does not fit")
    # Before the values are decompressed: it may be missing.
    as_floats = [bfloat16() if is_bfloat16(number) else None for number, _ in layouts]
    arrays: list[npt.NDArray[Any]] = [np.empty(extents, numpy_type(number)) for number, extents in layouts]
    if len({array.nbytes for array in arrays}) == 1 < len(arrays):
        library.decompress_batch(sources, arrays)
    else:
        for source, array in zip(sources, arrays):
            library.decompress(source, array)
    arrays = [array if dtype is None else array.astype(np.uint16).view(dtype) for array, dtype in zip(arrays, as_floats)]
    return arrays if shape is None else [array.reshape([int(extent) for extent in shape]) for array in arrays]


def as_bytes(stream: BytesLike) -> library.Buffer:
    """The bytes of anything that has them in a row, without a copy. Raises ValueError for anything else."""
    try:
        return np.frombuffer(stream, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise ValueError(f"a stream must be contiguous bytes, but it is a {type(stream).__name__}: {error}") from None


def _fill_value(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The value as an array of one value of the type."""
    try:
        given = np.array([value])
        made = given.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"fill value {short(value)} is not a value of type {dtype}: {error}") from None
    # Rounding to a float's precision is what the array's own values went through; an integer is itself or another one.
    if made.shape != (1,) or given.dtype.kind not in ("fiuc" if dtype.kind == "c" else "fiu") or (dtype.kind in "iu" and int(made[0]) != value):
        raise ValueError(f"fill value {short(value)} is not a value of type {dtype}: give one number that the type can hold")
    return made
