"""`h5z_quire.verify`: against numpy, for arrays in memory and in files."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import h5z_quire

SHAPES = [(1,), (3,), (1000,), (1, 700), (40, 1), (50, 60), (5, 30, 41), (2, 3, 20, 30), (2, 1, 2, 13, 17)]


def arrays(shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    values = 100 * np.sin(np.arange(np.prod(shape)) / 9).reshape(shape) + rng.normal(size=shape)
    noise = rng.uniform(-2, 2, shape)
    if dtype.endswith(("c8", "c16")):
        return (values + 1j * noise).astype(dtype), (values + 0.5 + 1j * values).astype(dtype)
    if np.dtype(dtype).kind == "u":
        values += 110
    return values.astype(dtype), (values + noise).astype(dtype)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "<i1", "<u2", ">i4", "<u8", "<c8", ">c16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_are_those_of_numpy(shape: tuple[int, ...], dtype: str) -> None:
    original, copy = arrays(shape, dtype)
    report = h5z_quire.verify(original, copy, bound=0.5, threads=2)
    part = f"f{original.real.dtype.itemsize}" if original.dtype.kind == "c" else original.dtype
    was, found = (np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.dtype(part).newbyteorder("=")).astype("f8") for array in (original, copy))
    errors = found - was
    assert report.values == was.size and report.shape == list(shape)
    assert report.greatest_error == np.abs(errors).max()
    assert np.abs(errors).reshape(*shape, -1)[tuple(report.greatest_error_at) + (() if original.dtype.kind == "c" else (0,))] == report.greatest_error
    assert report.rmse == pytest.approx(np.sqrt((errors**2).mean()))
    assert report.mean_error == pytest.approx(errors.mean(), abs=1e-9)
    assert report.original["variance"] == pytest.approx(was.var(), abs=1e-9)
    assert report.copy["most"] == found.max() and report.copy["least"] == found.min()
    assert report.crossed_zero == ((was >= 0) & (found < 0) | (was <= 0) & (found > 0)).sum()
    if original.dtype.kind != "c":
        for gradient in report.gradients:
            slopes, others = (np.diff(array, axis=gradient["axis"]) for array in (was, found))
            assert (gradient["pairs"], gradient["inverted"]) == (slopes.size, (slopes * others < 0).sum())
            assert gradient["rms_error"] == pytest.approx(np.sqrt(((others - slopes) ** 2).sum() / (slopes**2).sum()))
    assert report.svg().endswith("</svg>") and "largest error" in str(report)


def test_datasets_are_read_box_by_box_with_bound_and_fill_value(tmp_path: Path) -> None:
    original, _ = arrays((30, 40, 50), "<f4")
    original[3:5, 7] = -9999
    with h5py.File(tmp_path / "x.h5", "w") as file:
        original[9, 9, 9] = -5000
        file.create_dataset("plain", data=original, fillvalue=-9999).attrs["missing_value"] = np.float32(-5000)
        file.create_dataset("copy", data=original, fillvalue=-9999, chunks=(16, 16, 50), compression=h5z_quire.Quire(abs=0.01))
        file.create_dataset("relative", data=original, chunks=(16, 16, 50), compression=h5z_quire.Quire(rel=1e-3))
    # Values that are in HDF5's cache were not compressed.
    with h5py.File(tmp_path / "x.h5") as file:
        plain, copy, relative = (file[name] for name in ("plain", "copy", "relative"))
        progress: list[tuple[int, int]] = []
        report = h5z_quire.verify(plain, copy, progress=lambda *done: progress.append(done))
        assert (report.bound, report.missing, report.changed) == (0.01, 101, 0) and 0.005 < report.greatest_error <= 0.01
        assert report.original["least"] > -200 and progress[-1] == (60000, 60000)
        assert h5z_quire.verify(plain, relative).bound is None and h5z_quire.verify(plain, copy, bound=1).bound == 1
        assert not h5z_quire.verify(plain, copy, bound=1e-5).checks[0]["is_kept"]
    report.html(tmp_path / "report.html", "t < u")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>t &lt; u</h1>" in page and "<svg" in page
    assert report.psnr > 60 and "psnr" in dir(report) and h5z_quire.verify(original, original).psnr == np.inf


def test_other_arrays_are_read_by_slices() -> None:
    original, copy = arrays((20, 30, 40), "<f4")
    expected = h5z_quire.verify(original, copy).json
    zarr, dask = pytest.importorskip("zarr"), pytest.importorskip("dask.array")
    for wrap in (lambda array: zarr.array(array, chunks=(16, 16, 40)), lambda array: dask.from_array(array, chunks=(7, 30, 40)), np.ndarray.tolist):
        assert h5z_quire.verify(original, wrap(copy)).json == expected


def test_gaps_and_what_makes_no_sense() -> None:
    values = np.array([1.0, np.nan, np.inf, 4.0])
    report = h5z_quire.verify(values, np.array([1.5, np.nan, np.inf, np.nan]))
    assert (report.values, report.missing, report.changed, report.greatest_error) == (1, 2, 1, 0.5)
    for original, copy, reason in (
        (np.zeros(3), np.zeros(4), "the shapes differ"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "no array with values"),
        (np.array(["a"]), np.array(["a"]), "cannot be compressed"),
    ):
        with pytest.raises(ValueError, match=reason):
            h5z_quire.verify(original, copy)
    with pytest.raises(AttributeError, match="no 'nothing'"):
        report.nothing
