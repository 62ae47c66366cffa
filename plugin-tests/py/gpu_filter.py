"""The plugin's filter() as HDF5 calls it, without HDF5 around it: for many threads at once, and for measuring."""

from __future__ import annotations

import ctypes
import time

import numpy as np

from quire_client import absolute

REVERSE = 0x0100  # H5Z_FLAG_REVERSE: decompress
FILTER = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_uint, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint),
    ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip


class FilterClass(ctypes.Structure):
    """H5Z_class2_t"""

    _fields_ = [
        ("version", ctypes.c_int), ("id", ctypes.c_int), ("encoder_present", ctypes.c_uint), ("decoder_present", ctypes.c_uint),
        ("name", ctypes.c_char_p), ("can_apply", ctypes.c_void_p), ("set_local", ctypes.c_void_p), ("filter", FILTER),
    ]  # fmt: skip


class Filter:
    """The filter, with a buffer from malloc that it takes and gives back. One thread at a time uses it; ctypes lets the others run."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.library.H5PLget_plugin_info.restype = ctypes.POINTER(FilterClass)
        self.filter = self.library.H5PLget_plugin_info().contents.filter
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype = ctypes.c_void_p
        self.libc.malloc.argtypes = [ctypes.c_size_t]
        self.libc.free.argtypes = [ctypes.c_void_p]
        self.size, self.buffer = ctypes.c_size_t(0), ctypes.c_void_p(None)

    def run(self, flags: int, words: tuple[int, ...], data: np.ndarray, room: int) -> tuple[float, np.ndarray]:
        """Seconds in filter(), and the bytes it gives, which are there until the next call."""
        if self.size.value != room:
            self.libc.free(self.buffer)
            self.size, self.buffer = ctypes.c_size_t(room), ctypes.c_void_p(self.libc.malloc(room))
        ctypes.memmove(self.buffer, data.ctypes.data, data.nbytes)
        values = (ctypes.c_uint * len(words))(*words)
        start = time.perf_counter()
        length = self.filter(flags, len(words), values, data.nbytes, ctypes.byref(self.size), ctypes.byref(self.buffer))
        seconds = time.perf_counter() - start
        assert length > 0, "the filter failed, see stderr"
        return seconds, np.ctypeslib.as_array(ctypes.cast(self.buffer, ctypes.POINTER(ctypes.c_ubyte)), (length,))

    def compress(self, chunk: np.ndarray, bound: float) -> tuple[float, np.ndarray]:
        """Seconds and stream of a little-endian chunk of at most four dimensions."""
        kind = 0 if chunk.dtype == np.dtype("<f4") else 1
        words = (*absolute(bound), 0x51 << 24 | 1 << 16 | kind << 8 | chunk.ndim, *chunk.shape)
        seconds, stream = self.run(0, words, chunk, 2 * chunk.nbytes)
        return seconds, stream.copy()

    def decompress(self, stream: np.ndarray, like: np.ndarray, has_room: bool = True) -> tuple[float, np.ndarray]:
        """Seconds and chunk. With room the chunk takes the stream's place in the buffer, without it gets a new one, as HDF5 has it."""
        seconds, chunk = self.run(REVERSE, (), stream, 2 * like.nbytes if has_room else stream.nbytes)
        return seconds, chunk.view(like.dtype).reshape(like.shape)
