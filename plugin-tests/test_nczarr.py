"""NCZarr: netCDF-C writes and reads zarr with the codec `quire`. Debian's netCDF is built without filters for zarr, netCDF4's wheel with them."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import h5py
import netCDF4
import numpy as np

from conftest import Python
from quire_client import FILTER_ID, absolute, assert_bound, nasty
from test_netcdf import netcdf_library

BOUND = 1e-3
SHAPE, CHUNK = (53, 70), (20, 32)
FLOATS = (("f4", "little"), ("f4", "big"), ("f8", "little"), ("f8", "big"))
INTEGERS = tuple((f"{sign}{size}", "little") for sign in "iu" for size in (1, 2, 4, 8))
FILL = 99.0


def values(kind: str, order: str) -> np.ndarray:
    """What a variable holds, in its byte order. The last chunk of each row and column is partial."""
    if kind[0] == "f":
        data = nasty(SHAPE, ("<" if order == "little" else ">") + kind, 3)
    else:
        data = (np.add.outer(np.arange(SHAPE[0]), np.arange(SHAPE[1])) % 50).astype(kind)
    data[3:9, 5:40] = FILL
    return data


def write() -> None:
    """The same variables as zarr and, by h5py, as HDF5."""
    with netCDF4.Dataset("file://all.zarr#mode=zarr,file", "w") as zarr, h5py.File("all.h5", "w") as file:
        zarr.createDimension("y", SHAPE[0])
        zarr.createDimension("x", SHAPE[1])
        for kind, order in (*FLOATS, *INTEGERS):
            data, words = values(kind, order), (*absolute(BOUND),) if kind[0] == "f" else (2, 0, 1)
            stored = zarr.createVariable(kind + order, data.dtype, ("y", "x"), endian=order, chunksizes=CHUNK, fill_value=FILL)
            parameters = (ctypes.c_uint * len(words))(*words)
            status = netcdf_library().nc_def_var_filter(
                stored._grpid, stored._varid, ctypes.c_uint(FILTER_ID), ctypes.c_size_t(len(words)), parameters
            )
            assert status == 0, f"nc_def_var_filter for {kind}{order} returned {status}"
            stored.set_auto_maskandscale(False)
            stored[...] = data
            file.create_dataset(
                kind + order, data=data, chunks=CHUNK, fillvalue=data.dtype.type(FILL), compression=FILTER_ID, compression_opts=words
            )


def check() -> None:
    with netCDF4.Dataset("file://all.zarr#mode=zarr,file") as zarr, h5py.File("all.h5") as file:
        for kind, order in (*FLOATS, *INTEGERS):
            name, data = kind + order, values(kind, order)
            zarr[name].set_auto_maskandscale(False)
            read = np.asarray(zarr[name][...])
            assert_bound(data, read, BOUND if kind[0] == "f" else 1, f"netCDF4 reads {name}")
            assert (read[data == FILL] == FILL).all(), f"{name}: fill values are lost"
            options = "abs=1e-3" if kind[0] == "f" else "abs=1e0"
            metadata = json.loads(Path("all.zarr", name, ".zarray").read_text())
            assert metadata["compressor"] == {"id": "quire", "quire": options} and not metadata["filters"], metadata
            whole = file[name].id.read_direct_chunk((0, 0))[1]
            assert Path("all.zarr", name, "0.0").read_bytes() == whole, f"{name}: another stream than HDF5's"


def read(name: str) -> None:
    with netCDF4.Dataset("file://all.zarr#mode=zarr,file") as zarr:
        zarr[name][...]


def write_texts() -> None:
    with netCDF4.Dataset("file://texts.zarr#mode=zarr,file", "w") as zarr:
        zarr.createDimension("x", 100)
        stored = zarr.createVariable("t", "S1", ("x",), chunksizes=(50,))
        netcdf_library().nc_def_var_filter(stored._grpid, stored._varid, FILTER_ID, ctypes.c_size_t(2), (ctypes.c_uint * 2)(2, 3))
        stored[...] = np.full(100, b"a")


def test_netcdf_writes_and_reads_zarr(newest: Python) -> None:
    newest(write)
    newest(check)


def test_zarrs_metadata_are_refused_with_the_reason(newest: Python) -> None:
    newest(write)
    metadata = newest.run.folder / "all.zarr/f4little/.zarray"
    text = metadata.read_text()
    for codec, reason in (('"quire": "abs=nonsense"', "nonsense"), ('"quire": 7', "expected a string"), ('"other": "abs=1e-3"', "missing field `quire`")):
        metadata.write_text(text.replace('"quire": "abs=1e-3"', codec))
        newest(read, "f4little", code=1).must_say("H5Z-Quire: ", reason)
    newest(write_texts, code=1).must_say("a variable of nc_type 2 cannot be compressed")
