"""The plugin's filter() as HDF5 calls it, without HDF5 around it: for many threads at once, and for measuring."""

from __future__ import annotations

import numpy as np

from filter_call import REVERSE, Plugin
from quire_client import absolute


class Filter(Plugin):
    """The filter with as much room in its buffer as a caller of HDF5 may leave. One thread at a time uses it; ctypes lets the others run."""

    def run(self, flags: int, words: tuple[int, ...], data: np.ndarray, room: int) -> tuple[float, np.ndarray]:
        """Seconds in filter(), and the bytes it gives, which are there until the next call."""
        if self.size.value != room:
            self.allocate(room)
        seconds, length = self.call(flags, words, data)
        return seconds, self.bytes(length)

    def compress(self, chunk: np.ndarray, bound: float) -> tuple[float, np.ndarray]:
        """Seconds and stream of a little-endian chunk of at most four dimensions."""
        kind = 0 if chunk.dtype == np.dtype("<f4") else 1
        words = (*absolute(bound), 0x51 << 24 | 1 << 16 | kind << 8 | chunk.ndim, *chunk.shape)
        seconds, stream = self.run(0, words, chunk, 2 * chunk.nbytes)
        return seconds, stream.copy()

    def decompress(self, stream: np.ndarray, like: np.ndarray, has_room: bool = True) -> tuple[float, np.ndarray]:
        """Seconds and chunk. With room the chunk overwrites the stream in the buffer, without it gets a new buffer, as HDF5 has it."""
        seconds, chunk = self.run(REVERSE, (), stream, 2 * like.nbytes if has_room else stream.nbytes)
        return seconds, chunk.view(like.dtype).reshape(like.shape)
