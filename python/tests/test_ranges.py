"""Quire.for_array: an absolute bound from the range of a whole array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from h5z_quire import Quire, compress, decompress, describe
from h5z_quire.ranges import bound_of
from conftest import TYPES, Array, assert_bound, field

SHARE = 1e-3


def range_of(values: Array) -> float:
    return bound_of(values, 1, None)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_share_of_the_range_is_that_of_one_chunk(dtype: str) -> None:
    values = field(dtype)
    bound = range_of(values)
    parts = values.view(values.real.dtype)
    expected = float(parts.max()) - float(parts.min())
    share = SHARE if values.dtype.kind in "fc" else 0.05
    quire = Quire.for_array(values, rel=share)
    if values.dtype.itemsize == 2 and values.dtype.kind == "f":
        assert expected / 2 < bound <= expected and quire == Quire(abs=2.0**-4)
    else:
        assert bound == expected and quire == Quire(abs=share * expected if values.dtype.kind in "fc" else int(share * expected))
    assert_bound(values, decompress(compress(values, quire)), share * expected)


def test_bfloat16() -> None:
    values = field("f4").astype(pytest.importorskip("ml_dtypes").bfloat16)
    assert Quire.for_array(values, rel=SHARE) == Quire(abs=2.0**-4)


def test_values_are_far_as_in_a_chunk() -> None:
    """Few and many far values, of one and of both ends, rare and frequent: the library settles the bound of a chunk by the same rule."""
    generator, found = np.random.default_rng(5), 0
    for case in range(300):
        values = generator.normal(size=3000) if case % 3 else generator.integers(0, 1 + case % 20, 3000) * np.pi
        for sign in (1, -1):
            different, times = generator.integers(0, 20), generator.integers(1, 30)
            far = sign * 10 ** generator.uniform(0, 4) * (1 + generator.normal(scale=0.01, size=different))
            values[generator.integers(0, 3000, different * times)] = np.tile(far, times)
        half_step = describe(compress(values, Quire(rel=SHARE))).half_step
        bound = Quire.for_array(values, rel=SHARE).options.removeprefix("abs=")
        # Steps of the ladder are up to 36 % apart.
        assert half_step is None or half_step <= float(bound) < 1.5 * half_step, f"case {case}"
        found += half_step is not None and float(bound) < 0.9 * SHARE * np.ptp(values)
    assert found > 50


def test_what_has_no_range_gets_the_exact_bits() -> None:
    for values in ([3.0] * 9, [np.nan, np.inf], [5e-324, 1e-323], [7, 9]):
        assert Quire.for_array(np.array(values), rel=SHARE) == Quire(lossless=True)
    assert Quire.for_array(np.array([-1.7e308, 1.7e308]), rel=1) == Quire(abs=1e300)
    assert Quire.for_array(np.array([-(2**63), 2**63 - 1]), rel=0.25) == Quire(abs=2.0**62)
    assert Quire.for_array(3.0, rel=SHARE, coding="bitshuffle") == Quire(lossless=True, coding="bitshuffle")


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
def test_a_psnr_is_that_of_the_array(dtype: str) -> None:
    # Under interpolation, errors are smaller than evenly spread ones. Noise is not interpolated.
    values = np.random.default_rng(3).normal(100, 20, (20, 30, 40)).astype(dtype)
    for psnr in (25, 35, 70):
        error = decompress(compress(values, Quire.for_array(values, psnr=psnr))).astype("f8") - values
        found = 20 * np.log10(np.ptp(values.astype("f8")) / np.sqrt(np.mean(error**2))) if error.any() else np.inf
        # The bound of integers is a whole number.
        assert found > psnr - 0.1 and (found < psnr + 0.1 or values.dtype.kind in "iu"), f"{found} for {psnr}"


def test_gaps_have_no_part_wherever_an_array_is(tmp_path: Path) -> None:
    plain = field("f4", (30, 40, 50))
    # Too near to be far, and in several blocks.
    values = plain.copy()
    values[3:9, 5] = -99
    values[20, :, 7] = 300
    values[25] = np.nan
    kept = values[np.isfinite(values) & (values != -99) & (values != 300)]
    expected = Quire(abs=SHARE * float(kept.max() - kept.min()))
    chunks = (7, 16, 50)

    def found(array: Any, fill_value: Any = None) -> Quire:
        return Quire.for_array(array, rel=SHARE, fill_value=fill_value)

    assert found(values) != expected == found(values, [-99, 300]) == found(np.ma.masked_equal(values, 300), -99)
    assert found(np.asfortranarray(values)[::-1], np.array([300, -99])) == expected
    with h5py.File(tmp_path / "gaps.h5", "w") as file:
        for name, given in {"chunks": {"chunks": chunks}, "rows": {}}.items():
            dataset = file.create_dataset(name, data=values, fillvalue=-99, **given)
            assert found(dataset, 300) == expected != found(dataset)
            dataset.attrs["missing_value"] = np.array([300, 1e300])
            dataset.attrs["_FillValue"] = "none"
            assert found(dataset) == expected
        assert found(file.create_dataset("zeros", data=np.array([0.0, 1, 2]))) == Quire(abs=2 * SHARE), "0 is HDF5's default, not the user's"
    array = zarr.open_array(str(tmp_path / "gaps.zarr"), mode="w", shape=values.shape, dtype="f4", chunks=chunks, fill_value=300)
    array[...] = values
    assert found(array, -99) == expected
    with netCDF4.Dataset(tmp_path / "gaps.nc", "w") as file:
        for name, extent in zip("zyx", values.shape):
            file.createDimension(name, extent)
        variable = file.createVariable("t", "f4", tuple("zyx"), fill_value=-99)
        variable.missing_value = np.float32(300)
        variable[...] = values
        assert found(variable) == expected
    for mask_and_scale in (True, False):
        with xarray.open_dataset(tmp_path / "gaps.nc", engine="h5netcdf", mask_and_scale=mask_and_scale) as dataset:
            assert found(dataset["t"]) == expected


def test_blocks_of_dask_are_read_once() -> None:
    dask, values = pytest.importorskip("dask.array"), field("f4")
    read = []

    def block(part: Array) -> Array:
        read.append(part.shape)
        return part

    array = dask.from_array(values, chunks=((3, 17), (30,), (11, 9, 20))).map_blocks(block, dtype="f4", meta=values[:0])
    expected = Quire.for_array(values, rel=SHARE)
    for given in (array, xarray.DataArray(array)):
        read.clear()
        assert Quire.for_array(given, rel=SHARE) == expected
        assert sorted(read) == sorted((side, 30, other) for side in (3, 17) for other in (11, 9, 20))


def test_parts_of_chunks_keep_one_bound(tmp_path: Path) -> None:
    values = field("f4", (12, 40, 50)) * np.linspace(0.01, 1, 12, dtype="f4")[:, None, None]
    quire = Quire.for_array(values, rel=SHARE)
    with h5py.File(tmp_path / "days.h5", "w") as file:
        file.create_dataset("t", values.shape, "f4", chunks=(6, 40, 50), compression=quire)
    for day, part in enumerate(values):
        with h5py.File(tmp_path / "days.h5", "a") as file:
            before = file["t"][:day]
            file["t"][day] = part
        with h5py.File(tmp_path / "days.h5") as file:
            assert np.array_equal(file["t"][:day], before)
    with h5py.File(tmp_path / "days.h5") as file:
        assert_bound(values, file["t"][...], SHARE * float(np.ptp(values)))


@pytest.mark.parametrize(
    ("array", "given", "reason"),
    [
        ([1.0, 2.0], {}, "no bound"),
        ([1.0, 2.0], {"rel": 0.1, "psnr": 60}, "more than one bound"),
        ([1.0, 2.0], {"rel": 2}, "greater than 0 and at most 1"),
        ([1.0, 2.0], {"abs": 1}, "abs needs no array: give rel= or psnr="),
        ([1.0, 2.0], {"rel": 0.1, "coding": "zip"}, "coding=zip is unknown"),
        ([1.0, 2.0], {"rel": 0.1, "fill_value": "none"}, "fill value 'none' is not a value of type float64"),
        ([], {"rel": 0.1}, r"an array of shape \(0,\) has no values"),
        (["a"], {"rel": 0.1}, "values of type <U1 cannot be compressed"),
        ([True], {"rel": 0.1}, "values of type bool cannot be compressed"),
    ],
)
def test_what_makes_no_sense_is_a_value_error(array: Any, given: "dict[str, Any]", reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Quire.for_array(np.array(array), **given)
