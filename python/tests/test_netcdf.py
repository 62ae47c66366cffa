"""netCDF4. test_h5py_additions.py and test_xarray.py have h5netcdf and xarray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from h5z_quire import Quire, inspect
from h5z_quire.netcdf4 import def_var_filter, inq_var_filter
from conftest import Array, assert_bound, field

DIMENSIONS = ("z", "y", "x")


def variable_of(file: Any, values: Array, name: str = "t", **options: Any) -> Any:
    for dimension, extent in zip(DIMENSIONS, values.shape):
        if dimension not in file.dimensions:
            file.createDimension(dimension, extent)
    return file.createVariable(name, values.dtype, DIMENSIONS, **options)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u4"])
@pytest.mark.parametrize("chunks", [None, (10, 16, 16)])
def test_netcdf4_writes_and_reads_within_the_bound(dtype: str, chunks: "tuple[int, ...] | None", tmp_path: Path) -> None:
    values, quire = field(dtype), Quire(abs=2 if dtype[0] in "iu" else 1e-3)
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        variable = variable_of(file, values, fill_value=values.dtype.type(99), chunksizes=chunks)
        def_var_filter(variable, quire)
        variable.set_auto_mask(False)
        values[3] = 99
        variable[...] = values
        assert inq_var_filter(variable) == quire
    with netCDF4.Dataset(tmp_path / "t.nc") as file:
        file["t"].set_auto_mask(False)
        found = np.asarray(file["t"][...])
        assert_bound(values, found, 2 if dtype[0] in "iu" else 1e-3)
        assert (found[3] == 99).all() and inq_var_filter(file["t"]) == quire
    with h5py.File(tmp_path / "t.nc") as file:
        assert Quire.from_dataset(file["t"]) == quire and inspect(file["t"])


def test_the_longest_parameters_are_read(tmp_path: Path) -> None:
    quire = Quire(ratio=5, abs=1e-3, brick=(1, 2, 8, 8))
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        for name, extent in zip("abcd", (4, 4, 8, 16)):
            file.createDimension(name, extent)
        variable = file.createVariable("t", "f8", tuple("abcd"), fill_value=99.0, chunksizes=(2, 4, 8, 16))
        def_var_filter(variable, quire)
        variable[...] = field("f8", (4, 4, 8, 16))
        assert inq_var_filter(variable) == quire
    with netCDF4.Dataset(tmp_path / "t.nc") as file:
        assert inq_var_filter(file["t"]) == quire
    with h5py.File(tmp_path / "t.nc") as file:
        assert len(file["t"].id.get_create_plist().get_filter(0)[2]) == 16


def test_a_variable_without_the_filter_says_none(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        assert inq_var_filter(variable_of(file, field("f4"))) is None
        assert inq_var_filter(variable_of(file, field("f4"), "u", zlib=True)) is None


def test_variables_that_cannot_be_compressed_are_value_errors(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "t.nc", "w") as file:
        scalar = file.createVariable("scalar", "f4", ())
        file.createDimension("n", 3)
        text = file.createVariable("text", str, ("n",))
        letters = file.createVariable("letters", "S1", ("n",))
        whole = file.createVariable("whole", "i4", ("n",))
        for variable, quire, reason in (
            (scalar, Quire(abs=1), "'scalar' is a scalar"),
            (text, Quire(abs=1), "'text' has values of type"),
            (letters, Quire(abs=1), "cannot be compressed"),
            (whole, Quire(pwrel=0.1), "point-wise"),
            (file, Quire(abs=1), "is not a netCDF4 variable"),
        ):
            with pytest.raises(ValueError, match=reason):
                def_var_filter(variable, quire)
        with pytest.raises(ValueError, match="does not say what to keep"):
            def_var_filter(file.createVariable("kept", "f4", ("n",)), 5)  # type: ignore[arg-type]
        def_var_filter(file["kept"], "abs=1e-3")
        assert inq_var_filter(file["kept"]) == Quire(abs=1e-3)
        written = file.createVariable("written", "f4", ("n",))
        written[...] = 1
        file.sync()
        with pytest.raises(OSError, match="nc_def_var_filter says"):
            def_var_filter(written, Quire(abs=1))
    with netCDF4.Dataset(tmp_path / "old.nc", "w", format="NETCDF3_CLASSIC") as file:
        with pytest.raises(OSError, match="must be of format NETCDF4"):
            def_var_filter(variable_of(file, field("f4")), Quire(abs=1))
