"""Files for `quire repack --jobs`, and the bytes of every chunk in a file."""

from __future__ import annotations

import hashlib

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, smooth, stored

BOUND = 1e-3
CHUNKS = {1: (5000,), 2: (64, 90), 3: (16, 20, 32), 4: (2, 16, 20, 32)}
SHAPES = {1: (33333,), 2: (150, 200), 3: (40, 50, 60), 4: (3, 30, 40, 50)}


def make(path: str) -> None:
    """Datasets in chunks and without, of several types, with partial chunks, holes, fill and missing values."""
    with h5py.File(path, "w") as file:
        for rank, shape in SHAPES.items():
            field = smooth(shape, "f8", rank)
            for dtype in ("<f4", ">f4", "<f8", "<f2", "<i4", ">u2"):
                values = (field if dtype[1] == "f" else field * 100 + 500).astype(dtype)
                # h5repack and h5py give these the chunks that repack keeps.
                file.create_dataset(f"chunked/{rank}{dtype[1:]}{'b' if dtype[0] == '>' else ''}", data=values, chunks=CHUNKS[rank])
            file.create_dataset(f"gzip/{rank}", data=field.astype("f4"), chunks=CHUNKS[rank], compression="gzip", fillvalue=-1.5)
            file.create_dataset(f"contiguous/{rank}", data=field.astype("f4"))
            hole = file.create_dataset(f"holes/{rank}", shape, "f4", chunks=CHUNKS[rank], fillvalue=np.float32(0.1))
            # The first and the last chunk, and one in between.
            for corner in ((0,) * rank, tuple(extent - 1 for extent in shape), tuple(extent // 2 for extent in shape)):
                box = tuple(slice(at // side * side, (at // side + 1) * side) for at, side in zip(corner, CHUNKS[rank]))
                hole[box] = field[box]
            gaps = np.where(np.random.default_rng(rank).random(shape) < 0.01, -9999.9, field).astype("f4")
            file.create_dataset(f"missing/{rank}", data=gaps, chunks=CHUNKS[rank]).attrs["missing_value"] = np.float32(-9999.9)


def with_h5py(path: str, new: str) -> None:
    """Copies the datasets without missing values through the filter with h5py."""
    with h5py.File(path) as source, h5py.File(new, "w") as target:

        def copy(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if not isinstance(item, h5py.Dataset) or item.chunks is None or name.startswith("missing"):
                return
            words = absolute(BOUND) if item.dtype.kind == "f" else (0,)
            made = target.create_dataset(
                name, item.shape, item.dtype, chunks=item.chunks, fillvalue=item.fillvalue, compression=FILTER_ID, compression_opts=words
            )
            for box in map(item.id.get_chunk_info, range(item.id.get_num_chunks())):
                part = tuple(slice(start, start + side) for start, side in zip(box.chunk_offset, item.chunks))
                made[part] = item[part]

        source.visititems(copy)


def sums(path: str, *names: str) -> list[object]:
    """The SHA-256 of each stored chunk of these datasets, or of all."""
    found: list[object] = []
    with h5py.File(path) as file:

        def show(name: str, item: h5py.Dataset | h5py.Group) -> None:
            if not isinstance(item, h5py.Dataset) or item.chunks is None or (names and not {name, name.split("/")[0]} & set(names)):
                return
            found.extend((name, offset, mask, hashlib.sha256(stream).hexdigest()) for offset, (mask, stream) in stored(item).items())

        file.visititems(show)

    return found
