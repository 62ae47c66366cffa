"""An archive of files for `quire repack` and `quire verify`, and what must hold of their copies.

    archive.py make FOLDER              writes FOLDER/day1.h5 and FOLDER/day2.h5
    archive.py missing FILE NEW         missing values came back bit for bit, and all others within 1e-3 of the range of those that are there
    archive.py annotations FILE         prints the attributes that `--annotate` writes
    archive.py others FILE NEW          copies some datasets through filters of HDF5's own
    archive.py empty FILE NEW           two files of datasets without values; some types and a number of values differ
    archive.py spoil FILE               changes values of a copy that must not change, and takes a dataset away
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable

import h5py
import numpy as np

from quire_client import assert_bound, assert_same_bits, smooth

SHAPE = (40, 50, 60)
# What datasets call "nothing was measured": on no rounding grid, and one of them a value that the data could have.
MISSING = np.float32(-9999.9)
OTHER_MISSING = np.float32(0.7)
TEXTS = ["one", "two"]


def make(folder: str) -> None:
    random = np.random.default_rng(1)
    for day in (1, 2):
        with h5py.File(Path(folder) / f"day{day}.h5", "w") as file:
            gaps = random.random(SHAPE) < 0.2
            field = smooth(SHAPE, "<f4", day)
            file["t"] = field
            for order in ("le", "be"):
                dtype = "<f4" if order == "le" else ">f4"
                one = file.create_dataset(f"missing/one_{order}", data=np.where(gaps, MISSING, field).astype(dtype), chunks=(32, 32, 32))
                one.attrs["missing_value"] = np.float64(MISSING)
            # Chunks at the end are filled up with the fill value, which is a third kind of gap.
            two = file.create_dataset("missing/two", SHAPE, "<f4", chunks=(32, 32, 32), fillvalue=1e20)
            two[:, :, :50] = np.where(gaps, MISSING, np.where(random.random(SHAPE) < 0.1, OTHER_MISSING, field))[:, :, :50]
            two.attrs["missing_value"], two.attrs["_FillValue"] = MISSING, OTHER_MISSING
            # One -999 among temperatures, and nothing that says what it stands for: not so far away that the filter leaves it out of the range.
            far = 10 * field
            far[3, 4, 5] = -999
            file["far"] = far
            file.create_dataset("tiny", data=smooth((60, 80), "<f4", 3), chunks=(1, 1))
            file["noise"] = np.frombuffer(random.bytes(80_000), "<f8")
            file["flag_a"] = random.integers(0, 3, (100, 100)).astype("<i4")
            file["flag_b"] = random.integers(0, 1000, (100, 100)).astype("<i4")
            for name in ("same", "other"):
                file[f"texts/{name}"] = np.array(TEXTS, dtype=h5py.string_dtype())
            for number in range(20):
                file[f"small/{number}"] = np.arange(number + 2, dtype="f4")


def missing(path: str, new: str) -> None:
    with h5py.File(path) as old, h5py.File(new) as copy:
        for name, specials in (("one_le", [MISSING]), ("one_be", [MISSING]), ("two", [MISSING, OTHER_MISSING, np.float32(1e20)])):
            before, after = old[f"missing/{name}"][()], copy[f"missing/{name}"][()]
            is_special = np.isin(before, np.array(specials))
            assert is_special.sum() > 1000 and not is_special.all(), name
            assert_same_bits(before[is_special].astype("<f4"), after[is_special].astype("<f4"), name)
            counted = before[~is_special]
            assert_bound(np.ascontiguousarray(counted), np.ascontiguousarray(after[~is_special]), 1e-3 * float(np.ptp(counted)), name)
            # Where several kinds of gaps meet in a chunk, all but one are far values.
            assert (before != after).any(), f"{name}: what was rounded"
            assert repr(copy[f"missing/{name}"].fillvalue) == repr(old[f"missing/{name}"].fillvalue), name
        print("missing values hold")


def annotations(path: str) -> None:
    with h5py.File(path) as file:
        for name in ("t", "flag_a"):
            attributes = file[name].attrs
            print(name, attributes["quire_options"], float(attributes["quire_largest_error"]), sorted(set(attributes) & {"quire_psnr"}))
        assert set(file["noise"].attrs) == set(), "an annotation where nothing was done"


def by_others(path: str, new: str) -> None:
    """A copy by filters that HDF5 itself has: scale-offset with two digits, and exact ones, of rounded values among others."""
    with h5py.File(path) as old, h5py.File(new, "w") as copy:
        copy.create_dataset("t", data=old["t"], chunks=(20, 25, 30), scaleoffset=2)
        copy.create_dataset("flag_a", data=old["flag_a"], chunks=True, compression="gzip", shuffle=True)
        copy["flag_b"] = old["flag_b"][()].astype("<i8")
        copy["tiny"] = old["tiny"][:50]
        # Rounded before it is compressed, as many archives are; the missing value is rounded with all others.
        rounded = (np.round(old["missing/one_le"][()] * 128) / 128).astype("<f4")
        one = copy.create_dataset("missing/one_le", data=rounded, chunks=(32, 32, 32), compression="gzip")
        one.attrs["missing_value"] = MISSING
        copy["texts/same"], copy["texts/other"] = (np.array(texts, dtype=h5py.string_dtype()) for texts in (TEXTS, TEXTS[::-1]))
        copy["additional"] = 1.5


def empty(path: str, new: str) -> None:
    pairs = np.dtype([("a", "<i4"), ("b", "<f8")])
    types = {"same": ("<f4", "<f4"), "order": ("<f4", ">f4"), "pairs": (pairs, pairs), "type": ("<f4", "<f8")}
    types |= {"text": (h5py.string_dtype(), "<f4"), "other_pairs": (pairs, np.dtype([("a", "<i4"), ("c", "<f8")]))}
    for number, name in enumerate((path, new)):
        with h5py.File(name, "w") as file:
            for dataset, dtypes in types.items():
                file.create_dataset(dataset, (0, 5), dtypes[number], maxshape=(None, 5))
            file["null"] = h5py.Empty("<f4")
            file[("scalar", "none")[number]], file[("none", "scalar")[number]] = 1.0, h5py.Empty("<f8")


def spoil(path: str) -> None:
    with h5py.File(path, "r+") as file:
        del file["flag_b"]
        # Written to existing datasets, as a program that knows nothing of their values would.
        assert h5py.h5z.filter_avail(33791)
        file["t"][0, 0, 0] += 10
        gap = tuple(np.argwhere(file["missing/one_le"][()] == MISSING)[0])
        file["missing/one_le"][gap] = MISSING + 1


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "make": make,
        "missing": missing,
        "annotations": annotations,
        "others": by_others,
        "empty": empty,
        "spoil": spoil,
    }
    commands[sys.argv[1]](*sys.argv[2:])
