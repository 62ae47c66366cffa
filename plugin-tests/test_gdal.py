"""GDAL of Debian, whose drivers for HDF5 and netCDF read rasters by Debian's HDF5."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from conftest import Python, Runner
from quire_client import FILTER_ID, absolute, assert_bound, smooth

BOUND, FILL = 0.5, 99
TYPES = {"f4": "<f4", "f4_big": ">f4", "f8": "<f8", "i2": "<i2", "i4_big": ">i4", "u1": "|u1"}
# GDAL's name of a dataset, and an option that keeps netCDF's rows in their order.
DRIVERS = {"HDF5": ["HDF5:t.h5://{}"], "netCDF": ["--config", "GDAL_NETCDF_BOTTOMUP", "NO", "NETCDF:t.h5:{}"]}


def raster(dtype: str) -> np.ndarray:
    """Three bands of parts of chunks, with fill values."""
    values = smooth((3, 70, 90), "f8", 3) * 10 + 40
    values[:, 10:30, 20:60] = FILL
    return values.astype(dtype)


def write() -> None:
    with h5py.File("t.h5", "w") as file:
        for name, dtype in TYPES.items():
            ours = {"compression": FILTER_ID, "compression_opts": absolute(BOUND), "chunks": (1, 32, 32)}
            file.create_dataset(name, data=raster(dtype), fillvalue=FILL, **ours)


def check(name: str) -> None:
    """What GDAL wrote into a file without a header, in this machine's byte order, are the values that h5py reads."""
    expected = raster(TYPES[name])
    found = np.fromfile("raster", expected.dtype.newbyteorder("=")).reshape(expected.shape)
    with h5py.File("t.h5") as file:
        assert (found == file[name][...]).all(), name
    assert_bound(expected.astype("f8"), found.astype("f8"), BOUND, name)
    assert (found[expected == FILL] == FILL).all(), name


@pytest.mark.parametrize("driver", DRIVERS)
def test_gdal_reads_rasters(driver: str, run: Runner, newest: Python) -> None:
    newest(write)
    for name in TYPES:
        *options, source = (word.format(name) for word in DRIVERS[driver])
        run("gdal_translate", "-q", "-of", "ENVI", *options, source, "raster")
        newest(check, name)
    run("gdal_translate", "-q", "-of", "ENVI", *options, source, "raster", code=1, env={"HDF5_PLUGIN_PATH": None}).must_say("IReadBlock failed")
