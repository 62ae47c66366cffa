"""What h5repack is to take from our filter to others and back, and the check of what has become of it.

    repacking.py write FILE                 groups of datasets with equal values in different filters
    repacking.py check FILE DATASET STEPS   every group's DATASET against its `original`, within the sum of the bounds of STEPS, such as
                                            ours+coarse
"""

from __future__ import annotations

import sys

import h5py
import numpy as np

from quire_client import FILTER_ID, absolute, assert_bound, assert_same_bits, client, smooth

SHAPE, CHUNKS = (64, 53), (20, 25)

# Bounds of floating-point numbers and of integers. tests/h5tools.rs gives the coarse ones to h5repack.
BOUNDS = {"ours": (0.01, 2.0), "coarse": (0.05, 5.0), "scaleoffset": (1e-3, 0.0)}

FILLS = {"nofill": None, "far": -9999, "zero": 0, "nan": np.nan}


def write(path: str) -> None:
    with h5py.File(path, "w") as file:
        for dtype in map(np.dtype, ("<f2", "<f4", ">f4", "<f8", ">f8", "|i1", "<i2", ">i4", "<i8", "<u4")):
            for fill_name, fill in FILLS.items():
                is_float = dtype.kind == "f"
                if not is_float and (fill_name == "nan" or fill_name == "far" and (dtype.kind == "u" or dtype.itemsize == 1)):
                    continue
                name = f"{dtype.str.replace('<', 'le_').replace('>', 'be_').replace('|', 'le_')}_{fill_name}"
                group = file.create_group(name)
                field = smooth(SHAPE, "f8", 2) * 20 + 60
                data = (field if is_float else np.round(field)).astype(dtype)
                settings = {} if fill is None else {"fillvalue": np.array(fill, dtype)}
                if fill is not None:
                    data[np.random.default_rng(5).random(SHAPE) < 0.1] = fill
                    data[:, 40:] = fill
                group.create_dataset("original", data=data, **settings)
                group.create_dataset("contiguous", data=data, **settings)
                ours = {"compression": FILTER_ID, "compression_opts": absolute(BOUNDS["ours"][0 if is_float else 1])}
                dataset = group.create_dataset("ours", SHAPE, dtype, chunks=CHUNKS, **ours, **settings)
                # Columns from 40 on, the third column of chunks among them, are fill values that HDF5 puts there.
                written = np.s_[:, :40] if fill is not None else np.s_[:]
                dataset[written] = data[written]
                # The scale-offset filter knows nothing of NaN and needs binary32 or binary64.
                if fill_name == "nofill" and dtype.itemsize >= (4 if is_float else 1):
                    group.create_dataset("scaleoffset", data=data, chunks=CHUNKS, scaleoffset=3 if is_float else 0)


def check(path: str, which: str, steps: str) -> None:
    count = 0
    with h5py.File(path, "r") as file:
        for name, group in file.items():
            if which not in group:
                continue
            original, dataset = group["original"][()], group[which]
            read, label = dataset[()], f"{path}: {name}/{which}"
            bound = sum(BOUNDS[step][0 if original.dtype.kind == "f" else 1] for step in steps.split("+"))
            if original.dtype.kind == "f":
                assert_bound(original, read, bound, label)
            else:
                assert original.dtype == read.dtype and original.shape == read.shape, label
                error = np.abs(original.astype("i8") - read.astype("i8")).max()
                assert error <= bound, f"{client()}: {label}: error {error}, bound {bound}"
            assert dataset.fillvalue == group["original"].fillvalue or np.isnan(dataset.fillvalue), f"{label}: fill {dataset.fillvalue}"
            if not name.endswith("nofill"):
                fill = np.array([group["original"].fillvalue]).astype(original.dtype)
                view = f"u{original.itemsize}"
                is_fill = np.ascontiguousarray(original).view(view) == fill.view(view)
                assert is_fill.sum() > SHAPE[0] * 13, f"{label}: {is_fill.sum()} fill values"
                same = np.ascontiguousarray(original[is_fill]), np.ascontiguousarray(read[is_fill])
                if original.dtype.kind == "f":
                    assert_same_bits(*same, f"{label}: fill values")
                else:
                    assert (same[0] == same[1]).all(), f"{client()}: {label}: fill values are lost"
            count += 1
    assert count > 0, f"{path}: no dataset {which}"
    print(f"{client()}: {count} datasets hold")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
