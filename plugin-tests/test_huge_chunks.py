"""Chunks of nearly 1, 2 and 4 GiB, which is HDF5's limit before 2.0, and one of 5 GiB, written and read through HDF5's chunk cache in pieces.

Every value is checked. QUIRE_ATTACK_MINUTES=30 or more runs all of them, as far as memory allows.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Iterator

import h5py
import numpy as np
import pytest

from conftest import PYTHONS, Python, attack_seconds
from quire_client import FILTER_ID, absolute, client

PIECE = 1 << 24  # values
PART = 1 << 14
BOUND = {"f": 1e-3, "u": 2.0}

# Bytes of memory that a case takes at most for each byte of the chunk, by the type's size: a little more than was measured at 1 GiB.
# The content is `constant` (one value), `stored` (random bits, kept exactly: nothing shrinks) or `compressed` (a smooth field within a bound).
PEAK = {
    "constant": {1: 2.3, 4: 2.3, 8: 2.3},
    "stored": {1: 15.6, 4: 9.7, 8: 8.6},
    "compressed": {1: 11.5, 4: 4.6, 8: 5.5},
}


def available() -> int:
    """Bytes that the system can give to this process without swapping."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10


def pieces(count: int, content: str, dtype: np.dtype) -> Iterator[tuple[slice, np.ndarray]]:
    """The chunk's values, a part at a time."""
    wave = np.sin(np.arange(PIECE) * (2 * np.pi / PIECE * 64))
    smooth = (wave if dtype.kind == "f" else np.round(wave * 100) + 128).astype(dtype)
    for number, start in enumerate(range(0, count, PIECE)):
        values = min(PIECE, count - start)
        if content == "constant":
            piece = np.full(values, 3, dtype)
        elif content == "stored":
            piece = np.frombuffer(np.random.default_rng(number).bytes(values * dtype.itemsize), dtype)
        else:
            # A level of its own for each piece, so that a swapped piece is noticed.
            piece = smooth[:values] + dtype.type(number % 16)
        yield np.s_[start : start + values], piece


def held(piece: np.ndarray, read: np.ndarray, content: str) -> bool:
    """All values are right, in parts that the processor's cache holds."""
    parts = ((piece[i : i + PART], read[i : i + PART]) for i in range(0, piece.size, PART))
    if content != "compressed":
        return all(np.array_equal(one.view("u1"), other.view("u1")) for one, other in parts)
    return all(np.abs(np.subtract(one, other, dtype="f8")).max() <= BOUND[piece.dtype.kind] for one, other in parts)


def write_and_read(gib: str, content: str, kind: str) -> str:
    """Why a chunk of so many GiB cannot be tested here; nothing if it was."""
    path, dtype = Path("huge.h5"), np.dtype(kind)
    # Before 2.0, HDF5 takes chunks and streams of less than 4 GiB: the largest number of whole values below. What does not shrink has a
    # header of 32 bytes besides.
    count = ((int(gib) << 30) - (64 if content == "stored" else 1)) // dtype.itemsize
    size, label = count * dtype.itemsize, f"{client()}: {count} values {dtype.str}, {content}"
    needed = int(PEAK[content][dtype.itemsize] * size) + (1 << 30)
    if available() < needed:
        return f"{label}: {available() >> 20} MiB of memory are free, and {needed >> 20} MiB are needed"
    words = absolute(BOUND[dtype.kind]) if content == "compressed" else (0,)
    # The chunk stays in the cache until the file is closed, so that it is compressed once.
    cache = {"rdcc_nbytes": size + 1, "rdcc_nslots": 1, "rdcc_w0": 0.0}
    with h5py.File(path, "w", **cache) as file:
        dataset = file.create_dataset("x", (count,), dtype, chunks=(count,), compression=FILTER_ID, compression_opts=words)
        for where, piece in pieces(count, content, dtype):
            dataset[where] = piece
    with h5py.File(path, "r", **cache) as file:
        dataset = file["x"]
        info = dataset.id.get_chunk_info(0)
        assert info.filter_mask == 0, f"{label}: HDF5 stored the chunk without the filter"
        for where, piece in pieces(count, content, dtype):
            assert held(piece, dataset[where], content), f"{label}: values from {where.start} on are wrong"
    return ""


CASES = [("Debian", 1, "constant", "|u1"), ("HDF5 2.0", 1, "compressed", "<f4")]  # at most 4.4 bytes of memory for each byte of the chunk
if attack_seconds() >= 30 * 60:
    GROUPS = enumerate(product((1, 2, 4), PEAK))
    # Each type meets each HDF5.
    CASES = [([*PYTHONS][(number + place) % 3], gib, content, kind) for number, (gib, content) in GROUPS for place, kind in enumerate(("|u1", "<f4", "<f8"))]
    CASES.append(("HDF5 2.0", 5, "constant", "<f8"))


def test_chunks_just_below_1_2_and_4_gib_come_back(pythons: dict[str, Python], tmp_path: Path) -> None:
    # One after the other: each takes as much memory as it may.
    skipped = []
    for name, *case in CASES:
        if why := pythons[name](write_and_read, *case).json:
            skipped.append(why)
        # A file may have 4 GiB, and there is none where memory was too small.
        (tmp_path / "huge.h5").unlink(missing_ok=True)
    if skipped:
        pytest.skip("; ".join(skipped))
