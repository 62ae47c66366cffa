"""`libh5zquire.so`, the plugin that this package carries, and its C functions (`filter/include/h5z_quire.h`)."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: The folder for HDF5's plugin path. It holds nothing else.
PLUGIN_FOLDER = Path(__file__).resolve().parent / "plugins"
#: The plugin.
LIBRARY = PLUGIN_FOLDER / "libh5zquire.so"

_OK, _NO_MEMORY, _INTERNAL = 0, 4, 5
_MAX_RANK = 4

Buffer = npt.NDArray[np.uint8]


class _Bytes(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Layout(ctypes.Structure):
    _fields_ = [("value_type", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("extents", ctypes.c_uint64 * _MAX_RANK)]


def _load() -> ctypes.CDLL:
    if not LIBRARY.is_file():
        raise ImportError(f"{LIBRARY} is not there: install the package from a wheel (pip install h5z-quire, or pip install python/ in its repository)")
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ImportError(f"{LIBRARY} cannot be loaded: {error}") from error
    address, length, delivered = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Bytes)
    extents = ctypes.POINTER(ctypes.c_uint64)
    library.quire_compress.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, extents, address, address, length, delivered]
    library.quire_read_layout.argtypes = [address, length, ctypes.POINTER(_Layout), delivered]
    library.quire_decompress.argtypes = [address, length, address, length, delivered]
    library.quire_describe.argtypes = [address, length, delivered]
    library.quire_info.argtypes = [delivered]
    library.quire_free.argtypes = [delivered]
    library.quire_free.restype = None
    return library


_LIBRARY = _load()


def _call(function: Any, *arguments: object) -> bytes:
    """What a function delivers. ValueError, MemoryError or RuntimeError, with its reason, if its status is not 0."""
    delivered = _Bytes()
    status = function(*arguments, ctypes.byref(delivered))
    try:
        content = ctypes.string_at(delivered.address, delivered.length) if delivered.address else b""
    finally:
        _LIBRARY.quire_free(ctypes.byref(delivered))
    if status == _OK:
        return content
    reason = content.decode("utf-8", "replace")
    raise {_NO_MEMORY: MemoryError, _INTERNAL: RuntimeError}.get(status, ValueError)(reason or "no memory for the reason")


def compress(options: str, value_type: int, extents: tuple[int, ...], fill_value: npt.NDArray[Any] | None, values: npt.NDArray[Any]) -> bytes:
    """The stream of an array, which lies in C order in memory."""
    given = (ctypes.c_uint64 * len(extents))(*extents)
    fill = None if fill_value is None else fill_value.ctypes.data
    # A 0 would end the text early for C.
    if "\0" in options:
        raise ValueError(f"options {options!r} hold a character 0")
    return _call(_LIBRARY.quire_compress, options.encode(), value_type, len(extents), given, fill, values.ctypes.data, values.nbytes)


def read_layout(stream: Buffer) -> tuple[int, tuple[int, ...]]:
    """Value type and extents of a stream, whose checksum is verified."""
    layout = _Layout()
    _call(_LIBRARY.quire_read_layout, stream.ctypes.data, stream.nbytes, ctypes.byref(layout))
    return layout.value_type, tuple(layout.extents[: layout.rank])


def decompress(stream: Buffer, values: npt.NDArray[Any]) -> None:
    """Decompresses a stream into an array, which lies in C order in memory and has the stream's length."""
    _call(_LIBRARY.quire_decompress, stream.ctypes.data, stream.nbytes, values.ctypes.data, values.nbytes)


def describe(stream: Buffer) -> bytes:
    """The description of a stream, as JSON."""
    return _call(_LIBRARY.quire_describe, stream.ctypes.data, stream.nbytes)


def info() -> bytes:
    """What the library says of itself, as JSON."""
    return _call(_LIBRARY.quire_info)
