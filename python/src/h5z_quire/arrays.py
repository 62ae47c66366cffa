"""Arrays to streams and back, without HDF5. Streams are those that the HDF5 filter writes, and a GPU is used where the filter would use one."""

from __future__ import annotations

import math
from typing import Any, Sequence, overload

import numpy as np
import numpy.typing as npt

from . import device_arrays, library
from .device_arrays import Device
from .element_types import bfloat16, is_bfloat16, numpy_type, type_number
from .messages import short
from .settings import Quire
from .strided import Strided, c_order

#: Anything with bytes in a row: bytes, bytearray, memoryview, arrays.
BytesLike = Any


def compress(values: Any, quire: Quire | str, *, fill_value: Any = None) -> bytes:
    """The stream of an array.

    Parameters
    ----------
    values : array_like
        Of any shape, of float16, float32, float64, bfloat16 (of ml_dtypes), complex64, complex128, or integers of 8 to 64 bits, in either byte order.
        An array that does not lie in C order in memory is copied. A bare number counts as an array of shape (1,). An array in a GPU's memory, of any
        library that has `__cuda_array_interface__` or DLPack, is compressed there.
    quire : Quire or str
        What to keep, such as ``Quire(abs=1e-3)`` or ``"rel=1e-4"``.
    fill_value : number, optional
        A value that comes back bit for bit, whatever the bound allows, and has no part in a range. The parts of a complex fill value must be equal, or one
        part 0 or not finite, unless the exact bits are kept.

    Raises
    ------
    ValueError
        With the reason, for a type or options that cannot be.
    MemoryError

    Examples
    --------
    >>> import numpy as np
    >>> from h5z_quire import compress, decompress
    >>> x = np.sin(np.arange(4096) / 50)
    >>> stream = compress(x, "abs=1e-3")
    >>> len(stream) < x.nbytes / 8 and bool(abs(decompress(stream) - x).max() <= 1e-3)
    True
    """
    return compress_batch([values], quire, fill_value=fill_value)[0]


def compress_batch(values: Sequence[Any], quire: Quire | str, *, fill_value: Any = None) -> list[bytes]:
    """The streams of arrays of one type and shape, made on all cores or on the GPU that has them. As `compress` for each."""
    resident = [found for array in values if (found := device_arrays.find(array)) is not None]
    if resident:
        if len(resident) != len(values):
            raise ValueError(f"{len(resident)} of the {len(values)} arrays of a batch are in a GPU's memory: it must be all or none")
        return library.device_compress(task_of(resident, quire, fill_value), resident)
    if any(isinstance(array, np.ma.MaskedArray) for array in values):
        raise ValueError("a masked array has no value where it is masked: give array.filled(value), and fill_value=value")
    arrays = [np.ascontiguousarray(array) for array in values]
    return library.compress(task_of(arrays, quire, fill_value), arrays) if arrays else []


def task_of(arrays: Sequence[npt.NDArray[Any]] | Sequence[Strided], quire: Quire | str, fill_value: Any) -> library.Task:
    """What arrays are compressed with. Raises ValueError unless they have one type and shape."""
    dtype, shape = arrays[0].dtype, arrays[0].shape
    if any(array.dtype != dtype or array.shape != shape for array in arrays):
        raise ValueError("the arrays of a batch must have one type and one shape")
    number = type_number(dtype)
    fill = None if fill_value is None else as_value(fill_value, dtype)
    # The library has the last word on a text.
    return library.Task(quire if isinstance(quire, str) else Quire.of(quire).options, number, shape, fill)


@overload
def decompress(stream: BytesLike, *, shape: Sequence[int] | None = None, device: None = None) -> npt.NDArray[Any]: ...


@overload
def decompress(stream: BytesLike, *, shape: Sequence[int] | None = None, device: Device) -> Any: ...


def decompress(stream: BytesLike, *, shape: Sequence[int] | None = None, device: Device | None = None) -> Any:
    """The array of a stream, with the type and byte order of the array that was compressed.

    Parameters
    ----------
    stream : bytes-like
        The stream's bytes, in anything that has them in a row.
    shape : sequence of int, optional
        Of the result. Without it, the result has the extents that streams keep: extents of 1 are dropped, and slow ones folded together until four are left.
    device : str or int, optional
        As for `read`: "cuda", "cuda:1" or 1 for an array of CuPy or PyTorch, into which a GPU decompresses. None for an array of numpy.

    Raises
    ------
    ValueError
        With the reason, for a damaged stream, one of another format version, or a shape that does not fit.
    MemoryError

    Examples
    --------
    >>> import numpy as np
    >>> from h5z_quire import compress, decompress
    >>> x = np.arange(24, dtype="i2").reshape(1, 4, 6)
    >>> stream = compress(x, "lossless")
    >>> decompress(stream).shape, decompress(stream, shape=x.shape).shape
    ((4, 6), (1, 4, 6))
    """
    return decompress_batch([stream], shape)[0] if device is None else _decompress_on(device, as_bytes(stream), shape)


def _decompress_on(device: Device, source: library.Buffer, shape: Sequence[int] | None) -> Any:
    number, extents = library.read_layout(source)
    _check_shape(shape, extents)
    array = device_arrays.empty(extents if shape is None else shape, bfloat16() if is_bfloat16(number) else numpy_type(number), device)
    values = device_arrays.place_of(array)
    flat = values.with_shape(extents, c_order(extents, values.dtype.itemsize))
    library.device_decompress(number, [(source.ctypes.data, source.nbytes)], [flat])
    return array


def decompress_batch(streams: Sequence[BytesLike], shape: Sequence[int] | None = None) -> list[npt.NDArray[Any]]:
    """The arrays of streams, on all cores. As `decompress` for each."""
    sources = [as_bytes(stream) for stream in streams]
    layouts = [library.read_layout(source) for source in sources]
    for _, extents in layouts:
        _check_shape(shape, extents)
    # Before the values are decompressed: it may be missing.
    as_floats = [bfloat16() if is_bfloat16(number) else None for number, _ in layouts]
    arrays: list[npt.NDArray[Any]] = [np.empty(extents, numpy_type(number)) for number, extents in layouts]
    library.decompress(sources, arrays)
    arrays = [array if dtype is None else array.astype(np.uint16).view(dtype) for array, dtype in zip(arrays, as_floats)]
    return arrays if shape is None else [array.reshape([int(extent) for extent in shape]) for array in arrays]


def _check_shape(shape: Sequence[int] | None, extents: Sequence[int]) -> None:
    if shape is not None and math.prod(int(extent) for extent in shape) != math.prod(extents):
        raise ValueError(f"the stream holds an array of {list(extents)}, which shape {list(shape)} does not fit")


def as_bytes(stream: BytesLike) -> library.Buffer:
    """The bytes of anything that has them in a row, without a copy. Raises ValueError for anything else."""
    try:
        return np.frombuffer(stream, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise ValueError(f"a stream must be contiguous bytes, but it is a {type(stream).__name__}: {error}") from None


def as_value(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The value as an array of one value of the type. Raises ValueError for a value that the type does not have."""
    try:
        given = np.array([value])
        with np.errstate(invalid="ignore"):
            made = given.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"fill value {short(value)} is not a value of type {dtype}: {error}") from None
    # Rounding to a float's precision is what the array's own values went through; an integer is itself or another one.
    if made.shape != (1,) or given.dtype.kind not in ("fiuc" if dtype.kind == "c" else "fiu") or (dtype.kind in "iu" and int(made[0]) != value):
        raise ValueError(f"fill value {short(value)} is not a value of type {dtype}: give one number that the type can hold")
    return made
