"""Pairs of datasets, one written by the functions of whole arrays and one by h5py: their chunks are to be equal."""

from __future__ import annotations

from typing import Any, Callable

import h5py
import numpy as np

from quire_client import nasty, smooth, stored


def assert_same(ours: h5py.Dataset, theirs: h5py.Dataset, what: str) -> None:
    expected = stored(theirs)
    assert expected and stored(ours) == expected, f"{what}: the chunks differ"


def pair(file: h5py.File, name: str, shape: tuple[int, ...], dtype: Any, **options: Any) -> tuple[h5py.Dataset, h5py.Dataset]:
    """Two datasets that are created alike: to be written by us, and by h5py."""
    created = [file.create_dataset(f"{name}/{way}", shape, dtype, **options) for way in ("ours", "theirs")]
    return created[0], created[1]


def values_of(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Smooth values of any type, with some that are hard to compress among floats of 32 and 64 bits."""
    if dtype[1:] in ("f4", "f8"):
        return nasty(shape, dtype, seed)
    return np.rint(40 * smooth(shape, "f8", seed) + 100 * (dtype[1] == "u")).clip(-128, 255).astype(dtype)


def expect(error: type[BaseException], text: str, body: Callable[[], Any]) -> BaseException:
    """The error of a body, which must say the text."""
    try:
        body()
    except error as raised:
        said = " ".join((str(raised), *getattr(raised, "__notes__", ())))
        assert text in said, f"{said!r} does not say {text!r}"
        return raised
    raise AssertionError(f"no {error.__name__} that says {text!r}")


def bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
