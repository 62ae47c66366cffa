"""netCDF: nccopy, the netCDF4 module, and several HDF5 libraries in one process."""

from __future__ import annotations

import ctypes
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import tables

from conftest import Python, Runner
from quire_client import FILTER_ID, absolute, assert_bound, nasty, smooth

BOUND = 1e-3
# Name, type, byte order, dimensions. `time` is unlimited.
VARIABLES = (
    ("line", "f4", "little", ("x",)),
    ("map", "f8", "big", ("y", "x")),
    ("field", "f4", "big", ("time", "y", "x")),
    ("levels", "f8", "little", ("time", "z", "y", "x")),
    ("ensemble", "f4", "little", ("time", "member", "z", "y", "x")),
)
EXTENTS = {"time": 5, "member": 3, "z": 6, "y": 37, "x": 53}
CHUNKS = {"time": 2, "member": 2, "z": 4, "y": 16, "x": 16}


def values(variable: tuple[str, str, str, tuple[str, ...]], seed: int) -> np.ndarray:
    """What the variable holds, in its own byte order."""
    _, kind, order, dimensions = variable
    return nasty(tuple(EXTENTS[d] for d in dimensions), ("<" if order == "little" else ">") + kind, seed)


def netcdf_library() -> ctypes.CDLL:
    """The libnetcdf that the netCDF4 module has loaded; the module itself has no call for filters of any id."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return ctypes.CDLL(next(line.split()[-1] for line in lines if "/libnetcdf" in line))


def make(path: str, compressed: bool = False) -> None:
    with netCDF4.Dataset(path, "w") as file:
        for name, extent in EXTENTS.items():
            file.createDimension(name, None if name == "time" else extent)
        for seed, variable in enumerate(VARIABLES):
            name, _, order, dimensions = variable
            chunks = [CHUNKS[d] for d in dimensions]
            data = values(variable, seed)
            stored = file.createVariable(name, data.dtype, dimensions, endian=order, chunksizes=chunks)
            if compressed:
                params = (ctypes.c_uint * 3)(*absolute(BOUND))
                status = netcdf_library().nc_def_var_filter(
                    stored._grpid, stored._varid, ctypes.c_uint(FILTER_ID), ctypes.c_size_t(3), params
                )
                assert status == 0, f"nc_def_var_filter for {name} returned {status}"
            # Masking and scaling would turn fill values into something else.
            stored.set_auto_maskandscale(False)
            stored[...] = data


def has_our_filter(path: str, name: str) -> bool:
    """Whether the dataset's pipeline names our filter."""
    with h5py.File(path, "r") as file:
        properties = file[name].id.get_create_plist()
        return any(properties.get_filter(i)[0] == FILTER_ID for i in range(properties.get_nfilters()))


def check_copy(path: str, label: str) -> None:
    """Every variable is compressed by our filter, and within the bound when netCDF4 reads it."""
    with netCDF4.Dataset(path, "r") as file:
        for seed, variable in enumerate(VARIABLES):
            stored = file[variable[0]]
            stored.set_auto_maskandscale(False)
            expected = values(variable, seed)
            read = np.asarray(stored[...])
            assert_bound(expected, read, BOUND, f"{label}: netCDF4 reads {variable[0]}")
    for variable in VARIABLES:
        assert has_our_filter(path, variable[0]), f"{label}: {variable[0]} is not compressed"


def check(plain: str, copy: str) -> None:
    """Every variable of the copy is compressed by our filter and within the bound."""
    check_copy(copy, copy)
    with h5py.File(plain, "r") as original, h5py.File(copy, "r") as compressed:
        for name, *_ in VARIABLES:
            assert_bound(original[name][()], compressed[name][()], BOUND, f"{copy}: h5py reads {name}")


# Type, byte order, and the fill value; None stands for netCDF's default. -99 is so near the data that it counts for a range unless it is declared.
GAPS = {"near": ("f4", "little", -99.0), "other_order": ("f8", "big", -99.0), "whole": ("i2", "little", -99), "default": ("f4", "little", None)}
SHARE = 1e-2


def gaps(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A smooth field with a block of fill values, and where these are."""
    kind, order, fill = GAPS[name]
    data = (smooth((37, 53), "f8") * 10 + 280).astype((">" if order == "big" else "<") + kind)
    is_fill = np.zeros(data.shape, bool)
    is_fill[5:15, 10:40] = True
    data[is_fill] = netCDF4.default_fillvals[kind] if fill is None else fill
    return data, is_fill


def make_gaps(path: str) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("y", 37)
        file.createDimension("x", 53)
        for name, (_, order, fill) in GAPS.items():
            data, _ = gaps(name)
            variable = file.createVariable(name, data.dtype, ("y", "x"), endian=order, chunksizes=(16, 16), fill_value=fill)
            words = (ctypes.c_uint * 3)(3, *absolute(SHARE)[1:])
            status = netcdf_library().nc_def_var_filter(variable._grpid, variable._varid, ctypes.c_uint(FILTER_ID), ctypes.c_size_t(3), words)
            assert status == 0, f"nc_def_var_filter for {name} returned {status}"
            variable.set_auto_maskandscale(False)
            variable[...] = data


def check_gaps(*paths: str) -> None:
    """Each file is a copy of the one before, and rounded once more: fill values are as they were, others within the bounds."""
    for copies, path in enumerate(paths, 1):
        with netCDF4.Dataset(path, "r") as file:
            for name in GAPS:
                data, is_fill = gaps(name)
                file[name].set_auto_maskandscale(False)
                read, label = np.asarray(file[name][...]), f"{path}: {name}"
                assert (read[is_fill] == data[is_fill]).all(), f"{label}: fill values are lost"
                error, bound = np.abs(read.astype("f8") - data)[~is_fill].max(), copies * SHARE * np.ptp(data[~is_fill].astype("f8"))
                assert error <= bound, f"{label}: off by {error} where {bound} is allowed"
        for name in GAPS:
            assert has_our_filter(path, name), f"{path}: {name} is not compressed"


def together() -> None:
    """Three HDF5 libraries in one process; each finds the plugin, compresses with it, and reads what the others wrote."""
    data = nasty((40, 50), "<f4", 6)
    changed = nasty((40, 50), "<f4", 7)
    options = {"chunks": (16, 16), "compression": FILTER_ID, "compression_opts": absolute(BOUND)}
    for turn in range(3):
        by_h5py, by_netcdf = f"h5py{turn}.h5", f"netcdf{turn}.nc"
        with h5py.File(by_h5py, "w") as file:
            file.create_dataset("x", data=data, **options)
        make(by_netcdf, compressed=True)
        check_copy(by_netcdf, f"turn {turn}")
        with netCDF4.Dataset(by_h5py, "r") as file:
            file["x"].set_auto_maskandscale(False)
            assert_bound(data, np.asarray(file["x"][...]), BOUND, f"turn {turn}: netCDF4 reads h5py's file")
        with h5py.File(by_netcdf, "r") as file:
            assert_bound(values(VARIABLES[2], 2), file["field"][()], BOUND, f"turn {turn}: h5py reads netCDF4's file")
        with tables.open_file(by_h5py, "r+") as file:
            array = file.root.x
            assert_bound(data, array[...], BOUND, f"turn {turn}: PyTables reads h5py's file")
            array[...] = changed
        with h5py.File(by_h5py, "r") as file:
            assert_bound(changed, file["x"][()], BOUND, f"turn {turn}: h5py reads what PyTables wrote")
        # A refusal must reach the error stack of the library that asked.
        with h5py.File(f"refused{turn}.h5", "w") as file:
            try:
                file.create_dataset("x", data=data, chunks=(16, 16), compression=FILTER_ID, compression_opts=absolute(-1.0))
            except (ValueError, OSError, RuntimeError) as error:
                assert "bound" in str(error), f"turn {turn}: the refusal does not reach h5py: {error}"
            else:
                raise AssertionError(f"turn {turn}: a negative bound was accepted")


# The chunks that `make` gives its variables, for nccopy.
SAME_CHUNKS = ",".join(f"{name}/{extent}" for name, extent in CHUNKS.items())


def test_nccopy_compresses_every_variable(run: Runner, newest: Python) -> None:
    newest(make, "plain.nc")
    words = ",".join(map(str, absolute(BOUND)))
    run("nccopy", "-4", "-c", SAME_CHUNKS, "-F", f"*,{FILTER_ID},{words}", "plain.nc", "copy.nc")
    newest(check, "plain.nc", "copy.nc")
    run("ncdump", "-hs", "copy.nc").must_say('field:_Filter = "33791,1,3539053052,1062232653')
    run("ncdump", "copy.nc")


def test_nccopy_copies_a_compressed_file(run: Runner, newest: Python) -> None:
    newest(make, "plain.nc")
    run("nccopy", "-4", "-F", f"*,{FILTER_ID},2,3", "plain.nc", "copy.nc")
    newest(check, "plain.nc", "copy.nc")
    # The copy of the copy has other chunks: set_local meets the values that it filled in before.
    run("nccopy", "-4", "-c", "time/1,member/3,z/6,y/20,x/50", "copy.nc", "again.nc")
    newest(check, "plain.nc", "again.nc")


def test_copies_of_a_compressed_file_keep_its_fill_values(run: Runner, newest: Python) -> None:
    newest(make_gaps, "first.nc")
    # nccopy creates variables in no-fill mode, so that HDF5 does not know their fill values; it hands on all cd_values.
    run("nccopy", "first.nc", "copy.nc")
    run("nccopy", "-c", "y/20,x/53", "copy.nc", "chunks.nc")
    run("h5repack", "-l", "CHUNK=9x40", "chunks.nc", "repacked.nc")
    newest(check_gaps, "first.nc", "copy.nc", "chunks.nc", "repacked.nc")


def test_three_libraries_share_a_process(newest: Python) -> None:
    newest(together)
