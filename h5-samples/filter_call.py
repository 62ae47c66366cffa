"""filter() of libh5zquire.so, called as HDF5 calls it, without HDF5 around it: for measurements."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quire_options import cd_values

REVERSE = 0x0100  # H5Z_FLAG_REVERSE: decompress
PLUGIN_FILE = "libh5zquire.so"


class FilterClass(ctypes.Structure):
    """H5Z_class2_t"""

    Filter = ctypes.CFUNCTYPE(
        ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint),
        ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p),
    )  # fmt: skip
    _fields_ = [
        ("version", ctypes.c_int), ("id", ctypes.c_int), ("encoder_present", ctypes.c_uint), ("decoder_present", ctypes.c_uint),
        ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p), ("set_local", ctypes.c_void_p), ("filter", Filter),
    ]  # fmt: skip


class Bytes(ctypes.Structure):
    """quire_bytes"""

    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    def content(self) -> bytes:
        return ctypes.string_at(self.address, self.length)


def chunk_words(options: str, shape: tuple[int, ...], dtype: np.dtype | type = np.float32, fill: float | None = None) -> tuple[int, ...]:
    """The filter's parameters for a chunk: options in words, and what set_local adds to them: marker, version, type, extents, and the bits of the fill value if
    there is one. The chunk is little-endian f32 or f64."""
    dtype = np.dtype(dtype).newbyteorder("<")
    fill_words = () if fill is None else np.array([fill], dtype).view("<u4").tolist()
    return (*cd_values(options), 0x51 << 24 | 1 << 16 | (dtype.itemsize == 8) << 8 | len(shape), *shape, *fill_words)


class RoundTrip(NamedTuple):
    """A chunk's stream, what comes back of it, and the seconds in filter()."""

    stream: np.ndarray
    decoded: np.ndarray
    seconds_in: float
    seconds_out: float


class Plugin:
    """The filter, with one buffer from malloc that it takes and gives back, as HDF5 does."""

    def __init__(self, library: str | Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.library = ctypes.CDLL(str(library))
        self.library.H5PLget_plugin_info.restype = ctypes.POINTER(FilterClass)
        self.filter = self.library.H5PLget_plugin_info().contents.filter
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype = ctypes.c_void_p
        self.libc.malloc.argtypes = [ctypes.c_size_t]
        self.libc.free.argtypes = [ctypes.c_void_p]
        self.size = ctypes.c_size_t(0)
        self.buffer = ctypes.c_void_p(None)

    def allocate(self, room: int) -> None:
        """Replaces the buffer by a new one of `room` bytes."""
        self.libc.free(self.buffer)
        self.size, self.buffer = ctypes.c_size_t(room), ctypes.c_void_p(self.libc.malloc(room))

    def call(self, flags: int, words: tuple[int, ...], data: np.ndarray) -> tuple[float, int]:
        """Seconds in filter(), and the number of bytes in the buffer afterwards. Copying the chunk into it is not timed."""
        if self.size.value < data.nbytes:
            self.allocate(data.nbytes)
        ctypes.memmove(self.buffer, data.ctypes.data, data.nbytes)
        values = (ctypes.c_uint * len(words))(*words)
        start = self.clock()
        length = self.filter(flags, len(words), values, data.nbytes, ctypes.byref(self.size), ctypes.byref(self.buffer))
        seconds = self.clock() - start
        if length == 0:
            raise RuntimeError(f"filter() failed on {data.nbytes} bytes with parameters {words}: see above")
        return seconds, length

    def bytes(self, length: int) -> np.ndarray:
        """The buffer's first bytes; they change with the next call."""
        return np.ctypeslib.as_array(ctypes.cast(self.buffer, ctypes.POINTER(ctypes.c_ubyte)), (length,))

    def round_trip(self, options: str, values: np.ndarray, fill: float | None = None) -> RoundTrip:
        """Compresses a chunk and decompresses its stream."""
        words = chunk_words(options, values.shape, values.dtype, fill)
        seconds_in, stream = self.run(0, words, values)
        seconds_out, decoded = self.run(REVERSE, words, stream)
        return RoundTrip(stream, decoded.view(values.dtype).reshape(values.shape), seconds_in, seconds_out)

    def run(self, flags: int, words: tuple[int, ...], data: np.ndarray) -> tuple[float, np.ndarray]:
        """Seconds in filter(), and a copy of the bytes it gives."""
        seconds, length = self.call(flags, words, data)
        return seconds, self.bytes(length).copy()
