"""Encodings for xarray, and files that are opened and saved again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import xarray

import h5z_quire.xarray
from h5z_quire import Quire, inspect
from h5z_quire.xarray import drop_encoding, encoding
from conftest import RunPython, assert_bound, field

DIMENSIONS = ("time", "y", "x")
GUIDE = Path(__file__).parents[2] / "docs/guide.md"


def dataset() -> xarray.Dataset:
    """Two fields of floating-point numbers, counts, one number, small and packed values, and a time axis."""
    values = field("f4")
    packed: dict[str, Any] = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -32768}
    made = xarray.Dataset(
        {
            "t": (DIMENSIONS, values),
            "u": (DIMENSIONS, values.astype("f8") * 2),
            "count": (DIMENSIONS, field("i4")),
            "small": ("x", values[0, 0]),
            "scalar": ((), np.float32(3)),
            "packed": (DIMENSIONS, values, {}, packed),
        },
        coords={"time": np.datetime64("2001-01-01", "ns") + np.arange(20) * np.timedelta64(1, "h"), "x": np.arange(40.0)},
    )
    made["time"].encoding = {"units": "hours since 2000-01-01", "dtype": "f8"}
    made["t"].encoding["_FillValue"] = np.float32(-99)
    return made


def words(path: Path, name: str) -> "tuple[Quire | None, tuple[int, ...] | None]":
    """What a variable of a file is compressed with, and its chunks."""
    with h5py.File(path) as file:
        chunks: "tuple[int, ...] | None" = file[name].chunks
        return (Quire.from_dataset(file[name]) if file[name].compression == 33791 else None), chunks


def test_one_bound_is_for_all_variables_that_are_worth_it(tmp_path: Path) -> None:
    given = dataset()
    found = encoding(given, Quire(abs=1e-3))
    assert list(found) == ["t", "u"]
    assert found["t"] == {"_FillValue": np.float32(-99), **Quire(abs=1e-3), "chunksizes": h5z_quire.chunks(given["t"].shape)}
    given.to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=found)
    with xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as read:
        assert_bound(given["t"].values, read["t"].values, 1e-3)
        assert_bound(given["u"].values, read["u"].values, 1e-3)
        assert read["t"].encoding["_FillValue"] == -99 and (read["time"] == given["time"]).all()
    for name, quire in (("t", Quire(abs=1e-3)), ("u", Quire(abs=1e-3)), ("count", None), ("packed", None), ("time", None)):
        assert words(tmp_path / "t.nc", name)[0] == quire


@pytest.mark.parametrize("named", ["float32", "f4", ">f4", np.float32, float])
def test_a_type_may_be_named_in_any_way(named: Any, tmp_path: Path) -> None:
    given = dataset()[["t", "u"]]
    given["u"].encoding["dtype"] = named
    given["category"] = "n", pandas.array([1, None], "Int64")
    found = encoding(given, Quire(abs=1e-3))
    assert list(found) == ["t", "u"]
    given.drop_vars("category").to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=found)
    with h5py.File(tmp_path / "t.nc") as file:
        assert file["u"].dtype == np.dtype(named) and Quire.from_dataset(file["u"]) == Quire(abs=1e-3)


def test_variables_have_bounds_and_chunks_of_their_own(tmp_path: Path) -> None:
    given = dataset()
    bounds: "dict[str, Quire | str]" = {"t": Quire(rel=1e-3), "u": "pwrel=1e-3", "count": Quire(lossless=True), "packed": "abs=2"}
    found = encoding(given, bounds, chunks={"t": (1, 30, 40)})
    assert found["packed"]["scale_factor"] == 0.01 and found["packed"]["chunksizes"] == (20, 30, 40)
    given.to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=found)
    assert words(tmp_path / "t.nc", "t") == (Quire(rel=1e-3), (1, 30, 40))
    assert words(tmp_path / "t.nc", "u")[0] == Quire(pwrel=1e-3)
    with xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as read:
        assert np.array_equal(read["count"].values, given["count"].values)
        # Two packed steps, and half of one for the packing.
        assert_bound(given["packed"].values, read["packed"].values.astype("f4"), 0.0251)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_what_was_opened_is_saved_as_it_was_compressed(engine: Any, tmp_path: Path) -> None:
    made = encoding(dataset(), {"t": Quire(abs=1e-3), "u": Quire(rel=1e-3)}, chunks={"t": (8, 16, 16)})
    dataset().to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=made)
    with xarray.open_dataset(tmp_path / "t.nc", engine=engine) as read:
        read.to_netcdf(tmp_path / "again.nc", engine="h5netcdf", encoding=encoding(read))
        # A part has other extents: its chunks are advised.
        part = read.isel(time=slice(2, 5))
        part.to_netcdf(tmp_path / "part.nc", engine="h5netcdf", encoding=encoding(part))
        drop_encoding(read).to_netcdf(tmp_path / "plain.nc", engine="netcdf4")
    assert words(tmp_path / "again.nc", "t") == (Quire(abs=1e-3), (8, 16, 16))
    assert words(tmp_path / "again.nc", "u")[0] == Quire(rel=1e-3)
    assert words(tmp_path / "part.nc", "t") == (Quire(abs=1e-3), (3, 30, 40))
    assert words(tmp_path / "plain.nc", "t")[0] is None
    with xarray.open_dataset(tmp_path / "t.nc") as first, xarray.open_dataset(tmp_path / "again.nc") as again:
        # On the same chunks, an absolute bound leaves alone what was rounded before.
        assert np.array_equal(first["t"].values, again["t"].values)
        assert_bound(dataset()["t"].values, again["t"].values, 1e-3)
    with xarray.open_dataset(tmp_path / "plain.nc") as plain:
        assert plain["time"].encoding["units"] == "hours since 2000-01-01" and plain["t"].encoding["_FillValue"] == -99


def test_h5netcdf_saves_what_it_has_opened_without_another_word(tmp_path: Path) -> None:
    dataset().to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=encoding(dataset(), Quire(abs=1e-3)))
    with xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as read:
        read.to_netcdf(tmp_path / "again.nc", engine="h5netcdf")
        # netCDF4 has no such compression; it says so, as the encoding does now.
        with pytest.raises(ValueError) as error:
            read.to_netcdf(tmp_path / "other.nc", engine="netcdf4")
    assert words(tmp_path / "again.nc", "t")[0] == words(tmp_path / "again.nc", "u")[0] == Quire(abs=1e-3)
    assert f"`{error.value}`".replace("'t'", "'…'").replace("'u'", "'…'") in GUIDE.read_text(encoding="utf-8")
    with h5py.File(tmp_path / "t.nc") as file, h5py.File(tmp_path / "like.h5", "w") as like:
        assert Quire.from_dataset(like.create_dataset_like("t", file["t"])) == Quire(abs=1e-3)
        # Others say what they said before.
        gzip = like.create_dataset("gzip", data=np.arange(9), compression="gzip", compression_opts=3)
        plain = like.create_dataset("plain", data=np.arange(9))
        assert (gzip.compression, gzip.compression_opts, plain.compression, plain.compression_opts) == ("gzip", 3, None, None)


def test_the_guide_says_what_happens_with_and_without_the_package(tmp_path: Path, run_python: RunPython) -> None:
    dataset().to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=encoding(dataset(), Quire(abs=1e-3)))
    script = """
import h5py, sys, xarray
if sys.argv[1:]:
    import h5z_quire
for first in ("h5netcdf", "netcdf4"):
    for second in ("h5netcdf", "netcdf4"):
        try:
            with xarray.open_dataset("t.nc", engine=first) as read:
                read.to_netcdf("again.nc", engine=second)
            with h5py.File("again.nc") as file:
                print("filters", file["t"].id.get_create_plist().get_nfilters())
        except Exception as error:
            print(str(error).replace("'t'", "'…'").replace("'u'", "'…'"))
"""
    guide = GUIDE.read_text(encoding="utf-8")
    found = run_python(script, HDF5_PLUGIN_PATH=str(h5z_quire.info().library.parent)).splitlines()
    for line in found:
        # Uncompressed, or an error that the guide has word for word.
        assert line == "filters 0" or f"`{line}`" in guide, line
    assert found[2:] == ["filters 0", "filters 0"]
    compressed, error, *rest = run_python(script, "with the package").splitlines()
    assert compressed == "filters 1" and f"`{error}`" in guide and rest == ["filters 0", "filters 0"]


def test_a_file_with_parameters_of_another_version_is_opened(tmp_path: Path, run_python: RunPython) -> None:
    values = field("f4", (4, 50))
    (tmp_path / "stream").write_bytes(h5z_quire.compress(values, Quire(abs=0.01)))
    # Without the plugin: HDF5 then asks nobody whether the parameters are right.
    script = """
import h5py
with h5py.File("t.nc", "w") as file:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((4, 50))
    properties.set_filter(33791, h5py.h5z.FLAG_OPTIONAL, (0x03000FFF, 1, 2))
    dataset = h5py.h5d.create(file.id, b"t", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 50)), properties)
    dataset.write_direct_chunk((0, 0), open("stream", "rb").read())
    for axis, (name, extent) in enumerate((("y", 4), ("x", 50))):
        file[name] = range(extent)
        file[name].make_scale(name)
        file["t"].dims[axis].attach_scale(file[name])
"""
    run_python(script, HDF5_PLUGIN_PATH="/nowhere")
    with xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as opened:
        assert_bound(values, opened["t"].values, 0.01)
        with pytest.raises(ValueError, match="cd_values"):
            encoding(opened)


def test_what_cannot_be_is_a_value_error(tmp_path: Path) -> None:
    given = dataset()
    wrong: "list[tuple[Any, Any, dict[str, Any], str]]" = [
        (given, {"v": Quire(abs=1)}, {}, "has no variable 'v': it has t, u, count"),
        (given, {"scalar": Quire(abs=1)}, {}, "'scalar' is a scalar"),
        (given, {"count": Quire(pwrel=0.1)}, {}, "variable 'count': .*point-wise"),
        (given, {"t": "eb=1"}, {}, '"eb" is unknown'),
        (given, 5, {}, "5 does not say what to keep"),
        (given, None, {}, "no variable was read from a file with this filter"),
        (given[["small", "count"]], Quire(abs=1), {}, "no data variable is stored as floating-point"),
        (given, {"t": Quire(abs=1)}, {"chunks": {"u": (1, 2, 3)}}, r"chunks are given for \['u'\]"),
        (given["t"], Quire(abs=1), {}, "<xarray.DataArray of shape .20, 30, 40. and type float32> is not a Dataset"),
    ]
    for one, quire, more, reason in wrong:
        with pytest.raises(ValueError, match=reason):
            encoding(one, quire, **more)


def test_arrays_of_other_libraries_and_paths_are_inspected(tmp_path: Path) -> None:
    path = tmp_path / "t.nc"
    dataset().to_netcdf(path, engine="h5netcdf", encoding=encoding(dataset(), {"t": Quire(abs=1e-3)}, chunks={"t": (8, 16, 16)}))
    dataset().to_netcdf(path, engine="h5netcdf", mode="a", group="part/one", encoding=encoding(dataset(), {"t": Quire(rel=1e-3)}))
    with h5py.File(path) as file:
        rows, part = inspect(file["t"]), inspect(file["part/one/t"])
    assert len(rows) == 3 * 2 * 3 and inspect(f"{path}:/t") == rows and inspect(f"{path}:/part/one/t") == part
    with xarray.open_dataset(path) as read:
        assert inspect(read["t"]) == rows and Quire.from_dataset(read["t"]) == Quire(abs=1e-3)
    import h5netcdf
    import netCDF4

    with netCDF4.Dataset(path) as classic:
        assert inspect(classic["t"]) == rows and inspect(classic["part/one/t"]) == part
        with pytest.raises(ValueError, match="<netCDF4.Dataset> is not a dataset"):
            inspect(classic)
    with h5netcdf.File(path, "r") as modern:
        assert inspect(modern["t"]) == rows
    unread: "list[tuple[Any, str]]" = [
        (dataset()["u"], "<xarray.DataArray of shape .20, 30, 40. and type float64> was not read from a file"),
        (str(path), "names no dataset: write FILE:/PATH"),
        (f"{path}:/nothing", "has no dataset '/nothing'"),
        (f"{path}:/part", "has no dataset '/part'"),
        (np.zeros((30, 40)), "<numpy.ndarray of shape .30, 40. and type float64> is not a dataset"),
        (dataset(), "<xarray.Dataset> is not a dataset"),
    ]
    for thing, reason in unread:
        with pytest.raises(ValueError, match=reason) as error:
            inspect(thing)
        assert len(str(error.value).splitlines()) == 1
    with pytest.raises(ValueError, match="has the filters"):
        inspect(f"{path}:/u")


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_variables_of_groups_are_not_taken_for_those_of_others(engine: Any, tmp_path: Path) -> None:
    path, given = tmp_path / "t.nc", dataset()[["t"]]
    chunks = {"": (10, 16, 16), "/g": (10, 16, 16), "/g/h": (5, 16, 16)}
    for bound, (group, chunk) in enumerate(chunks.items(), 1):
        keep = encoding(given, Quire(abs=10.0**-bound), chunks={"t": chunk})
        given.to_netcdf(path, engine="h5netcdf", mode="a" if group else "w", group=group or None, encoding=keep)
    for bound, group in enumerate(chunks, 1):
        with xarray.open_dataset(path, engine=engine, group=group or None) as read:
            if engine == "netcdf4" and group != "/g/h":
                # The encoding says nothing by which they differ.
                for look in (encoding, lambda read: inspect(read["t"])):
                    with pytest.raises(ValueError, match="does not say from which group"):
                        look(read)
            else:
                assert encoding(read)["t"]["compression_opts"] == Quire(abs=10.0**-bound).cd_values
                assert {chunk.half_step for chunk in inspect(read["t"])} == {10.0**-bound}
            assert Quire.from_dataset(f"{path}:{group}/t") == Quire(abs=10.0**-bound)
