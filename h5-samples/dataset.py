"""A dataset of h5py in a file of its own, as the measurements write and read it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np


class Dataset:
    """A dataset with chunks and a filter. `write` and `read` return seconds, opening and closing the file included."""

    def __init__(self, path: Path, chunks: Sequence[int], options: Any = (), fill: float | None = None) -> None:
        self.path, self.chunks, self.options, self.fill = path, tuple(chunks), dict(options), fill

    def write(self, values: np.ndarray) -> float:
        """To a new file: HDF5 takes some milliseconds to truncate an old one."""
        self.path.unlink(missing_ok=True)
        start = time.perf_counter()
        with h5py.File(self.path, "w") as file:
            file.create_dataset("x", data=values, chunks=self.chunks, fillvalue=self.fill, **self.options)
        return time.perf_counter() - start

    def read(self, out: np.ndarray) -> float:
        """The file is opened again, as HDF5's chunk cache would return the originals."""
        start = time.perf_counter()
        with h5py.File(self.path) as file:
            file["x"].read_direct(out)
        return time.perf_counter() - start

    def values(self) -> np.ndarray:
        with h5py.File(self.path) as file:
            return file["x"][()]

    def nbytes(self) -> int:
        """Bytes of the chunks. Raises RuntimeError if HDF5 has left one without the filter, as it does where a filter fails."""
        with h5py.File(self.path) as file:
            data = file["x"].id
            unfiltered = sum(data.get_chunk_info(number).filter_mask != 0 for number in range(data.get_num_chunks()))
            if unfiltered:
                raise RuntimeError(f"HDF5 left {unfiltered} chunks uncompressed, so the filter failed: see QUIRE_LOG=1")
            return int(data.get_storage_size())

    def streams(self) -> list[tuple[tuple[int, ...], bytes]]:
        """Offset and stored bytes of each chunk, in the order of their offsets."""
        with h5py.File(self.path) as file:
            data = file["x"].id
            offsets = sorted(data.get_chunk_info(number).chunk_offset for number in range(data.get_num_chunks()))
            return [(offset, data.read_direct_chunk(offset)[1]) for offset in offsets]
