"""Prints what this machine's plugin makes of a file's originals, to be compared with what another machine's makes of them.

    same_streams.py FILE

For each pair of FILE (round_trip.py), `original` is compressed with the options of `compressed`. A line has the pair's name, its number of chunks, and the
SHA-256 of their streams.
"""

from __future__ import annotations

import hashlib
import sys

import h5py

from quire_client import FILTER_ID
from round_trip import pairs


def stored(dataset: h5py.h5d.DatasetID) -> tuple[int, str]:
    """The number of a dataset's chunks and the digest of their streams, in the order of the chunks."""
    digest = hashlib.sha256()
    count = dataset.get_num_chunks()
    for corner in sorted(dataset.get_chunk_info(number).chunk_offset for number in range(count)):
        mask, stream = dataset.read_direct_chunk(corner)
        assert mask == 0, f"the chunk at {corner} was stored without the filter"
        digest.update(len(stream).to_bytes(8, "little") + stream)
    return count, digest.hexdigest()


def streams(original: h5py.Dataset, compressed: h5py.Dataset) -> tuple[int, str]:
    """What `stored` says of `original` with the options of `compressed`."""
    # HDF5 does not load an optional filter to write, and stores chunks without it.
    assert h5py.h5z.filter_avail(FILTER_ID), "HDF5 does not find the filter"
    with h5py.File("streams", "w", driver="core", backing_store=False) as file:
        copy = h5py.h5d.create(file.id, b"x", compressed.id.get_type(), compressed.id.get_space(), compressed.id.get_create_plist())
        h5py.Dataset(copy)[...] = original[()]
        file.flush()
        return stored(copy)


def main(path: str) -> None:
    with h5py.File(path, "r") as file:
        for name, group in pairs(file):
            count, digest = streams(group["original"], group["compressed"])
            print(f"{name} {count} {digest}")


if __name__ == "__main__":
    main(sys.argv[1])
