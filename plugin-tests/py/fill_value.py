"""A dataset's fill value comes back bit for bit, so that masks survive, whatever the bound does to other values.

    fill_value.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, assert_bound, client, smooth

# Values on the grid of the bound beside them that are no multiples of its step.
FILLS = [(-9999.0, 3.5e-3), (-32768.0, 0.7), (-99.99, 0.05), (-1.0, 3.0), (1e20, 1e-3), (-0.0, 0.1)]


def main(folder: Path) -> None:
    path, count = folder / "fill.h5", 0
    for dtype in ("<f4", ">f4", "<f8", ">f8"):
        for fill, bound in FILLS:
            fill_value = np.array(fill, dtype)
            data = (smooth((70, 90), dtype, 3) + 280).astype(dtype)
            mask = np.random.default_rng(1).random(data.shape) < 0.1
            mask[20:40, 30:80] = True
            data[mask] = fill_value
            with h5py.File(path, "w") as file:
                options = {"chunks": (32, 40), "compression": FILTER_ID, "compression_opts": absolute(bound)}
                dataset = file.create_dataset("x", (70, 90), dtype, fillvalue=fill_value, **options)
                dataset[:65] = data[:65]  # the rest are fill values that HDF5 puts there
            expected = data.copy()
            expected[65:] = fill_value
            with h5py.File(path, "r") as file:
                read = file["x"][()]
            label = f"{client()}: {dtype}, fill {fill}, bound {bound}"
            bits = f"u{fill_value.itemsize}"
            raw = fill_value.astype(fill_value.dtype.newbyteorder("=")).view(bits)
            found = np.ascontiguousarray(read.astype(read.dtype.newbyteorder("="))).view(bits) == raw
            assert found[mask].all() and found[65:].all(), f"{label}: {(~found[mask]).sum()} fill values are no longer that"
            assert_bound(expected, read, bound, label)
            count += 1
    print(f"{client()}: {count} datasets keep their masks")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
