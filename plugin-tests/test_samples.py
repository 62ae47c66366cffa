"""The sample files of every format version: the plugin reads them, and an independent decoder agrees with it."""

from __future__ import annotations

from itertools import product

import h5py
import numpy as np

from conftest import REPOSITORY, Python
from decoder import decode
from quire_client import FILTER_ID, assert_same_bits
from round_trip import check, pairs


def check_decoder(name: str, dataset: h5py.Dataset) -> None:
    """Decodes each stored chunk without HDF5's filters; the values must be those that the plugin gives, bit for bit."""
    properties = dataset.id.get_create_plist()
    assert [properties.get_filter(i)[0] for i in range(properties.get_nfilters())] == [FILTER_ID], f"{name}: other filters"
    by_plugin, chunk = dataset[()], dataset.chunks
    for corner in product(*(range(0, extent, step) for extent, step in zip(dataset.shape, chunk))):
        mask, stream = dataset.id.read_direct_chunk(corner)
        assert mask == 0, f"{name}: the chunk at {corner} was stored without the filter"
        decoded = np.frombuffer(decode(stream), dtype=dataset.dtype).reshape(chunk)
        there = tuple(slice(start, start + step) for start, step in zip(corner, chunk))
        visible = by_plugin[there]
        # What a chunk holds beyond the dataset's edge is not seen through HDF5.
        ours = decoded[tuple(slice(0, extent) for extent in visible.shape)]
        assert_same_bits(visible, ours, f"{name}: chunk at {corner}, plugin -> decoder")


def check_samples(*paths: str) -> None:
    for path in paths:
        check(path)
        with h5py.File(path, "r") as file:
            for name, group in pairs(file):
                check_decoder(f"{path}: {name}", group["compressed"])


def test_every_sample_reads_within_its_bound_and_the_python_decoder_agrees(python: Python) -> None:
    files = sorted((REPOSITORY / "h5-samples").glob("v*.h5"))
    assert files, "there is no sample h5-samples/v*.h5"
    python(check_samples, *files)
