"""What all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
RunPython = Callable[..., str]

TYPES = [order + kind for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8") for order in "<>" if kind[1] != "1" or order == "<"]
TYPES += ["<c8", ">c16"]


def field(dtype: npt.DTypeLike, shape: "tuple[int, ...]" = (20, 30, 40)) -> Array:
    """Smooth values with some noise, of any type: between -40 and 40, or 0 and 80 for integers without a sign."""
    grids = np.meshgrid(*(np.linspace(0, 4, extent) for extent in shape), indexing="ij")
    noise = np.random.default_rng(7).normal(scale=0.05, size=shape)
    values = np.clip(20 * np.sin(sum(grids)) + 15 * np.cos(grids[-1] * 2) + noise, -40, 40)
    kind = np.dtype(dtype)
    if kind.kind == "c":
        return np.asarray(values + 1j * np.flip(values)).astype(kind)
    return np.asarray(np.rint(values + 40 * (kind.kind == "u")) if kind.kind in "iu" else values).astype(kind)


def assert_bound(expected: Array, found: Array, bound: float) -> None:
    """Every value, and each part of a complex one, is within the bound, compared in f64."""
    assert found.shape == expected.shape and found.dtype.itemsize == expected.dtype.itemsize
    if expected.dtype.kind == "c":
        assert_bound(expected.imag, found.imag, bound)
    off = np.abs(expected.real.astype(np.float64) - found.real.astype(np.float64))
    assert off.size and off.max() <= bound, f"off by {off.max()!r}, the bound is {bound!r}"


@pytest.fixture()
def run_python(tmp_path: Path) -> RunPython:
    """Runs a script in a new process, in an empty folder and without a plugin path but what is given; what it printed. It must end with 0."""

    def run(script: str, *arguments: str, **environment: str) -> str:
        given = {key: value for key, value in os.environ.items() if key != "HDF5_PLUGIN_PATH"}
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env={**given, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, f"it ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
