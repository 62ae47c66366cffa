"""Values that mark gaps, as each client declares them: they come back bit for bit, and have no part in the range of a relative bound."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Callable

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pytest
import tables
import xarray
import zarr as zarr_module

import h5z_quire.netcdf4
import h5z_quire.numcodecs
import h5z_quire.pytables
import h5z_quire.xarray
from h5z_quire import Quire, read, write
from conftest import Array

zarr: Any = zarr_module
ZARR_2 = zarr.__version__.startswith("2.")
FORMATS = (2,) if ZARR_2 else (2, 3)

SHARE = 1e-3
QUIRE = Quire(rel=SHARE)
CHUNKS = (24, 48)
GAPS = (1e20, -9999.0, 9.969209968386869e36, 0.0, -0.0)

Written = Callable[[Path, Array, Any], Array]


def temperatures(gap: float, dtype: str = "f4") -> "tuple[Array, Array]":
    """A field, and where it has gaps: a tenth of each chunk."""
    random = np.random.default_rng(3)
    values = (280 + 20 * np.sin(np.arange(48) / 9)[:, None] + random.normal(size=(48, 96))).astype(dtype)
    is_gap = random.random(values.shape) < 0.1
    values[is_gap] = gap
    return values, is_gap


def assert_gaps(values: Array, found: Array, is_gap: Array, gap: Any) -> None:
    """Gaps are the same bits, or NaN where the client masks them; each other value is within its chunk's share of the range without gaps."""
    assert found.shape == values.shape
    same = np.full(int(is_gap.sum()), gap, values.dtype).tobytes()
    assert np.isnan(found[is_gap]).all() or found[is_gap].astype(values.dtype).tobytes() == same
    for row in range(0, values.shape[0], CHUNKS[0]):
        for column in range(0, values.shape[1], CHUNKS[1]):
            part = slice(row, row + CHUNKS[0]), slice(column, column + CHUNKS[1])
            kept = ~is_gap[part]
            before, after = values[part][kept].astype("f8"), found[part][kept].astype("f8")
            assert np.abs(before - after).max() <= SHARE * np.ptp(before)


def stored(path: Path) -> Array:
    """What a file has. A dataset that was written just now may give what is in HDF5's chunk cache."""
    with h5py.File(path) as file:
        found: Array = file["t"][()]
    return found


def by_h5py(path: Path, values: Array, gap: Any) -> Array:
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=values, chunks=CHUNKS, fillvalue=gap, compression=QUIRE)
    return stored(path)


def by_whole_arrays(path: Path, values: Array, gap: Any) -> Array:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("t", values.shape, values.dtype, chunks=CHUNKS, fillvalue=gap, **QUIRE)
        write(dataset, values)
    with h5py.File(path) as file:
        values_read: Array = read(file["t"])
        return values_read


def by_h5netcdf(path: Path, values: Array, gap: Any) -> Array:
    with h5netcdf.File(path, "w") as file:
        file.dimensions = dict(zip("yx", values.shape))
        variable = file.create_variable("t", ("y", "x"), values.dtype, chunks=CHUNKS, fillvalue=gap, compression=QUIRE)
        variable[...] = values
    with h5netcdf.File(path, "r") as file:
        found: Array = file["t"][...]
    return found


def by_netcdf4(path: Path, values: Array, gap: Any) -> Array:
    with netCDF4.Dataset(path, "w") as file:
        for name, extent in zip("yx", values.shape):
            file.createDimension(name, extent)
        variable = file.createVariable("t", values.dtype, ("y", "x"), chunksizes=CHUNKS, fill_value=gap)
        variable.set_auto_mask(False)
        h5z_quire.netcdf4.def_var_filter(variable, QUIRE)
        variable[...] = values
    with netCDF4.Dataset(path) as file:
        file["t"].set_auto_mask(False)
        return np.asarray(file["t"][...])


def by_pytables(path: Path, values: Array, gap: Any) -> Array:
    with tables.open_file(path, "w") as file:
        h5z_quire.pytables.create_carray(file, "/", "t", QUIRE, obj=values, chunkshape=CHUNKS, fill_value=gap)
    return stored(path)


def by_numcodecs(path: Path, values: Array, gap: Any) -> Array:
    codec = h5z_quire.numcodecs.QuireCodec(QUIRE, fill_value=gap)
    options: "dict[str, Any]" = {"shape": values.shape, "dtype": values.dtype, "chunks": CHUNKS, "fill_value": gap, "filters": None}
    if ZARR_2:
        array = zarr.open(str(path), "w", compressor=codec, **options)
    else:
        array = zarr.create_array(str(path), compressors=codec, zarr_format=2, **options)
    array[...] = values
    found: Array = zarr.open(str(path), mode="r")[...]
    return found


def by_zarr(path: Path, values: Array, gap: Any) -> Array:
    codecs = pytest.importorskip("h5z_quire.zarr", exc_type=ImportError)
    options: "dict[str, Any]" = {"shape": values.shape, "dtype": values.dtype, "chunks": CHUNKS, "compressors": None}
    array = zarr.create_array(str(path), serializer=codecs.QuireCodec(QUIRE), fill_value=gap, **options)
    array[...] = values
    found: Array = zarr.open_array(str(path), mode="r")[...]
    own = zarr.create_array(f"{path}.own", serializer=codecs.QuireCodec(QUIRE, fill_value=gap), **options)
    own[...] = values
    assert own[...].tobytes() == found.tobytes()
    return found


@pytest.mark.parametrize("gap", GAPS, ids=str)
@pytest.mark.parametrize("written", [by_h5py, by_whole_arrays, by_h5netcdf, by_netcdf4, by_pytables, by_numcodecs, by_zarr], ids=lambda way: way.__name__)
def test_a_declared_value_has_no_part_in_a_range(written: Written, gap: float, tmp_path: Path) -> None:
    values, is_gap = temperatures(gap)
    assert_gaps(values, written(tmp_path / "t", values, np.float32(gap)), is_gap, gap)


# What an opened file's encoding, or the attributes of one that was opened without decoding, may say of gaps. Each makes the marks from a gap.
MARKS: "dict[str, Callable[[np.float32], tuple[dict[str, Any], dict[str, Any]]]]" = {
    "_FillValue": lambda gap: ({"_FillValue": gap}, {}),
    "missing_value": lambda gap: ({"missing_value": gap}, {}),
    "both": lambda gap: ({"_FillValue": gap, "missing_value": gap}, {}),
    "binary64": lambda gap: ({"missing_value": float(gap)}, {}),
    "array": lambda gap: ({"missing_value": np.array([gap])}, {}),
    "arrays": lambda gap: ({"_FillValue": np.array([gap]), "missing_value": np.array([gap])}, {}),
    "beside None": lambda gap: ({"_FillValue": None, "missing_value": gap}, {}),
    "beside NaN": lambda gap: ({"missing_value": gap, "_FillValue": np.float32("nan")}, {}),
    "NaN": lambda gap: ({"missing_value": np.float32("nan")}, {}),
    "_FillValue attribute": lambda gap: ({}, {"_FillValue": gap}),
    "missing_value attribute": lambda gap: ({}, {"missing_value": gap}),
    "attributes": lambda gap: ({}, {"_FillValue": gap, "missing_value": gap}),
    "array attribute": lambda gap: ({}, {"missing_value": np.array([gap], "f8")}),
    "attribute and encoding": lambda gap: ({"missing_value": gap}, {"_FillValue": gap}),
}


def saved(path: Path, dataset: xarray.Dataset, store: str) -> Array:
    """The variable `t` after a dataset was saved with this package's encoding, in whatever store."""
    if store == "netCDF":
        dataset.to_netcdf(path, engine="h5netcdf", encoding=h5z_quire.xarray.encoding(dataset, QUIRE, chunks={"t": CHUNKS}))
        with h5py.File(path) as file:
            assert Quire.from_dataset(file["t"]) == QUIRE
        with xarray.open_dataset(path) as read_back:
            return np.asarray(read_back["t"].values)
    version = int(store[-1])
    keywords: "dict[str, Any]" = {} if ZARR_2 else {"zarr_format": version}
    encoding = h5z_quire.xarray.encoding(dataset, QUIRE, chunks={"t": CHUNKS}, zarr_format=version)
    dataset.to_zarr(path, encoding=encoding, consolidated=False, **keywords)
    with xarray.open_zarr(path, consolidated=False) as read_back:
        return np.asarray(read_back["t"].values)


@pytest.mark.parametrize("store", ["netCDF", *(f"zarr {version}" for version in FORMATS)])
@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("gap", [1e20, -9999.0], ids=str)
def test_xarray_declares_whatever_marks_gaps(gap: float, mark: str, store: str, tmp_path: Path) -> None:
    values, is_gap = temperatures(gap)
    encoding, attributes = MARKS[mark](np.float32(gap))
    if attributes and encoding and store != "netCDF":
        pytest.skip("xarray takes no marks in both places")
    shown = values if attributes else np.where(is_gap, np.float32("nan"), values)
    dataset = xarray.Dataset({"t": (("y", "x"), shown, attributes, encoding)})
    assert_gaps(values, saved(tmp_path / "t", dataset, store), is_gap, gap)


@pytest.mark.parametrize("store", ["netCDF", *(f"zarr {version}" for version in FORMATS)])
@pytest.mark.parametrize("missing", [np.int16(-32768), -32768.0, np.array([-32768], "i4")], ids=str)
def test_packed_values_have_a_missing_value_of_their_own_type(missing: Any, store: str, tmp_path: Path) -> None:
    packed, is_gap = temperatures(-32768, "i2")
    values = np.where(is_gap, np.float32("nan"), packed.astype("f4") * 0.5 + 100)
    encoding = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 100.0, "missing_value": missing}
    dataset = xarray.Dataset({"t": (("y", "x"), values, {}, encoding)})
    found = h5z_quire.xarray.encoding(dataset, {"t": Quire(lossless=True)}, zarr_format=None if store == "netCDF" else int(store[-1]))["t"]
    assert found["_FillValue"] == -32768 and found["_FillValue"].dtype == np.int16
    if store == "netCDF":
        dataset.to_netcdf(tmp_path / "t", engine="h5netcdf", encoding={"t": found})
        with h5py.File(tmp_path / "t") as file:
            assert file["t"].fillvalue == -32768 and np.array_equal(file["t"][()], np.where(is_gap, np.int16(-32768), packed))
        read_back = xarray.open_dataset(tmp_path / "t")
    else:
        keywords: "dict[str, Any]" = {} if ZARR_2 else {"zarr_format": int(store[-1])}
        dataset.to_zarr(tmp_path / "t", encoding={"t": found}, consolidated=False, **keywords)
        read_back = xarray.open_zarr(tmp_path / "t", consolidated=False)
    assert np.array_equal(read_back["t"].values, values, equal_nan=True)


def test_an_opened_file_with_a_missing_value_alone_is_saved(tmp_path: Path) -> None:
    values, is_gap = temperatures(1e20)
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        for name, extent in zip("yx", values.shape):
            file.createDimension(name, extent)
        variable = file.createVariable("t", "f4", ("y", "x"))
        variable.missing_value = np.float32(1e20)
        variable.set_auto_mask(False)
        variable[...] = values
    for decoded in (True, False):
        with xarray.open_dataset(tmp_path / "t.nc", mask_and_scale=decoded) as opened:
            assert_gaps(values, saved(tmp_path / f"saved {decoded}.nc", opened, "netCDF"), is_gap, 1e20)
    with h5py.File(tmp_path / "saved True.nc") as file:
        assert file["t"].fillvalue == np.float32(1e20) == file["t"].attrs["_FillValue"] == file["t"].attrs["missing_value"]


def test_what_several_values_or_a_text_mark_is_not_declared() -> None:
    values = np.zeros((100, 100), "f4")
    for missing in (np.array([1e20, -9999]), "none", np.array(["a"])):
        dataset = xarray.Dataset({"t": (("y", "x"), values, {"missing_value": missing})})
        assert "_FillValue" not in h5z_quire.xarray.encoding(dataset, QUIRE)["t"]
    with pytest.raises(ValueError, match="zarr_format is 4: it must be 2 or 3"):
        h5z_quire.xarray.encoding(dataset, QUIRE, zarr_format=4)


def test_the_no_fill_mode_of_netcdf4_is_said(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        file.createDimension("n", 9)
        with pytest.warns(UserWarning, match="'a' is in netCDF's no-fill mode, in which HDF5 and the filter do not know its fill value"):
            h5z_quire.netcdf4.def_var_filter(file.createVariable("a", "f4", ("n",), fill_value=False), QUIRE)
        file.set_fill_off()
        with pytest.warns(UserWarning, match="'b' is in netCDF's no-fill mode"):
            h5z_quire.netcdf4.def_var_filter(file.createVariable("b", "f4", ("n",)), QUIRE)
        file.set_fill_on()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            h5z_quire.netcdf4.def_var_filter(file.createVariable("c", "f4", ("n",)), QUIRE)
