"""netCDF4 and zarr read one another's arrays of zarr's format 2 (NCZarr)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3")
netCDF4 = pytest.importorskip("netCDF4", minversion="1.7.2")

from h5z_quire import Quire
from h5z_quire.netcdf4 import def_var_filter, inq_var_filter
from h5z_quire.numcodecs import QuireCodec

BOUND, FILL = 1e-3, -99.0
# The last chunks are partial.
SHAPE, CHUNK = (53, 70), (20, 32)


def field(dtype: str) -> np.ndarray:
    data = np.random.default_rng(5).normal(size=SHAPE).cumsum(axis=1).astype(dtype)
    data[5:12, 20:50] = FILL
    return data


def check(data: np.ndarray, read: np.ndarray) -> None:
    assert np.abs(read.astype("f8") - data.astype("f8")).max() <= BOUND
    assert (read[data == FILL] == FILL).all()


@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_zarr_reads_what_netcdf_writes(tmp_path: Path, dtype: str) -> None:
    data = field(dtype)
    with netCDF4.Dataset(f"file://{tmp_path}/data.zarr#mode=zarr,file", "w") as dataset:
        for name, extent in zip("yx", SHAPE):
            dataset.createDimension(name, extent)
        endian = "big" if dtype[0] == ">" else "little"
        variable = dataset.createVariable("t", data.dtype, ("y", "x"), chunksizes=CHUNK, fill_value=FILL, endian=endian)
        def_var_filter(variable, Quire(abs=BOUND))
        variable.set_auto_maskandscale(False)
        variable[:] = data
        assert inq_var_filter(variable) == Quire(abs=BOUND)
    array = zarr.open_array(tmp_path / "data.zarr/t", mode="r", zarr_format=2)
    assert [codec.codec_id for codec in array.compressors] == ["quire"]
    check(data, array[:])


@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_netcdf_reads_what_zarr_writes(tmp_path: Path, dtype: str) -> None:
    data = field(dtype)
    group = zarr.open_group(tmp_path / "data.zarr", mode="w", zarr_format=2)
    codec = QuireCodec(abs=BOUND, fill_value=FILL)
    array = group.create_array("t", shape=SHAPE, chunks=CHUNK, dtype=data.dtype, filters=None, compressors=codec, fill_value=FILL)
    array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    array[:] = data
    with netCDF4.Dataset(f"file://{tmp_path}/data.zarr#mode=xarray,zarr,file") as dataset:
        dataset["t"].set_auto_maskandscale(False)
        check(data, np.asarray(dataset["t"][:]))
