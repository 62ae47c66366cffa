"""h5z_quire.advise: digits, noise, and the largest bound that keeps what is asked for. `quire advise` has the same expectations in plugin-tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from h5z_quire import Quire, advise, compress, decompress, verify
from conftest import Array

NOISE = 0.05


def noisy(shape: "tuple[int, ...]" = (24, 90, 120)) -> Array:
    z, y, x = np.meshgrid(*(np.linspace(0, 4, extent) for extent in shape), indexing="ij")
    field = 280 + 20 * np.sin(x + 2 * y) + 5 * np.cos(2 * z) * np.cos(y)
    return np.asarray(field + np.random.default_rng(11).normal(scale=NOISE, size=shape))


@pytest.mark.parametrize(
    ("dtype", "unit", "rounded"),
    [
        ("<f4", None, lambda values: values),
        (">f8", None, lambda values: values),
        ("f4", 0.01, lambda values: np.rint(values * 100) / 100),
        ("f8", 0.125, lambda values: np.rint(values * 8) / 8),
        ("f8", 1, np.rint),
        ("f8", None, lambda values: np.exp(values / 20).astype("f4")),
        ("i4", None, np.rint),
        ("f2", None, lambda values: values - 280),
    ],
)
def test_digits_and_noise_are_found(dtype: str, unit: "float | None", rounded: Any) -> None:
    values = rounded(noisy()).astype(dtype)
    found = advise(values, psnr=40)
    assert found.unit == unit
    if unit is None and values.dtype.itemsize > 2 and values.max() < 400 and values.dtype.kind == "f":
        assert abs((found.noise or 0) - NOISE) < 0.2 * NOISE


def test_the_bound_keeps_what_is_asked_for() -> None:
    values = noisy().astype("f4")
    values[3:5, 10:40, 50:90] = -999
    targets: "list[dict[str, Any]]" = [{"ssim": 0.9999}, {"gradient": 0.02}, {"psnr": 55.0}, {"ssim": 0.99, "gradient": 0.3, "psnr": 50.0}]
    for asked in targets:
        found = advise(values, fill_value=-999, chunks=(4, 90, 60), **asked)
        copy = values.copy()
        for z, x in np.ndindex(6, 2):
            chunk = np.s_[4 * z : 4 * z + 4, :, 60 * x : 60 * x + 60]
            copy[chunk] = decompress(compress(values[chunk], found.quire, fill_value=-999))
        report = verify(values, copy, missing=-999)
        gradient = max(each["rms_error"] for each in report.gradients)
        (trial,) = (trial for trial in found.trials if trial.quire == found.quire)
        assert (trial.psnr, trial.dssim, trial.greatest_error) == (report.psnr, report.dssim["least"], report.greatest_error)
        assert report.psnr >= asked.get("psnr", 0) and gradient <= asked.get("gradient", 1) and report.dssim["least"] >= asked.get("ssim", 0)
    assert advise(np.rint(values), psnr=90, fill_value=-999).quire == Quire(lossless=True), "values are exact anyway"
    assert advise(np.full((20, 30), 7.0)).quire == advise(np.full((20, 30), np.nan)).quire == Quire(lossless=True)


def test_the_bound_is_below_the_noise() -> None:
    values = noisy()
    found = advise(values, noise=True)
    assert found.noise is not None and NOISE / 12 < found.trials[-1].greatest_error <= found.noise / 5
    assert advise(values, noise=0.3).quire == Quire(abs=0.05)
    assert advise(values.astype("f2"), noise=1).quire == Quire(abs=0.125)


def test_arrays_may_be_anywhere(tmp_path: Path) -> None:
    values = noisy().astype("f4")
    values[3:5] = 270
    expected = advise(values, fill_value=270, chunks=(4, 90, 60))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(4, 90, 60), fillvalue=270)
        assert advise(dataset) == expected
    assert advise(f"{tmp_path}/t.h5:/t") == expected != advise(values, chunks=(4, 90, 60))
    part = advise(f"{tmp_path}/t.h5:/t", sample=1 << 19)
    assert abs(part.trials[1].ratio / expected.trials[1].ratio - 1) < 0.2
    assert advise(values[0, 0], psnr=50, bounds=["abs=1", Quire(rel=0.1)]).trials[0].dssim is None
    pairs = advise((values[0] + 1j * values[7]).astype("c8"), psnr=60)
    assert pairs.quire.options.startswith("abs=") and pairs.trials[-1].psnr >= 60


@pytest.mark.parametrize("array", [3.0, [], ["a"], np.ma.masked_equal([1.0, 2.0], 2)])
def test_what_is_no_array_of_numbers_is_a_value_error(array: Any) -> None:
    with pytest.raises(ValueError, match="has no planes|cannot be compressed|a masked array has no value"):
        advise(array)
