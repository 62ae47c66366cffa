"""The sample files of every format version: the plugin reads them, and an independent decoder agrees with it.

    samples.py FILE...
"""

from __future__ import annotations

import sys
from itertools import product

import h5py
import numpy as np

from decoder import decode
from quire_client import FILTER_ID, assert_same_bits
from round_trip import check, pairs


def check_decoder(name: str, dataset: h5py.Dataset) -> int:
    """Decodes each stored chunk without HDF5's filters; the values must be those that the plugin gives, bit for bit."""
    properties = dataset.id.get_create_plist()
    assert [properties.get_filter(i)[0] for i in range(properties.get_nfilters())] == [FILTER_ID], f"{name}: other filters"
    by_plugin, chunk = dataset[()], dataset.chunks
    count = 0
    for corner in product(*(range(0, extent, step) for extent, step in zip(dataset.shape, chunk))):
        mask, stream = dataset.id.read_direct_chunk(corner)
        assert mask == 0, f"{name}: the chunk at {corner} was stored without the filter"
        decoded = np.frombuffer(decode(stream), dtype=dataset.dtype).reshape(chunk)
        there = tuple(slice(start, start + step) for start, step in zip(corner, chunk))
        visible = by_plugin[there]
        # What a chunk holds beyond the dataset's edge is not seen through HDF5.
        ours = decoded[tuple(slice(0, extent) for extent in visible.shape)]
        assert_same_bits(visible, ours, f"{name}: chunk at {corner}, plugin -> decoder")
        count += 1
    return count


def main(paths: list[str]) -> None:
    for path in paths:
        check(path)
        with h5py.File(path, "r") as file:
            chunks = sum(check_decoder(f"{path}: {name}", group["compressed"]) for name, group in pairs(file))
        print(f"{path}: {chunks} chunks decoded by the decoder of streams/ as by the plugin")


if __name__ == "__main__":
    main(sys.argv[1:])
