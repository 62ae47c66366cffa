"""What all tests share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]


def field(dtype: npt.DTypeLike, shape: "tuple[int, ...]" = (40, 50, 60)) -> Array:
    """Smooth values with some noise, of any type; of 40 to -40 or so, or 0 to 80 for integers without a sign."""
    grids = np.meshgrid(*(np.linspace(0, 4, extent) for extent in shape), indexing="ij")
    noise = np.random.default_rng(7).normal(scale=0.05, size=shape)
    values = 20 * np.sin(sum(grids)) + 15 * np.cos(grids[-1] * 2) + noise
    kind = np.dtype(dtype)
    return np.asarray(np.rint(values + 40 * (kind.kind == "u")) if kind.kind in "iu" else values).astype(kind)


def assert_bound(expected: Array, found: Array, bound: float) -> None:
    """Every value is within the bound, compared in f64 (integers as Python's, exactly where they are large)."""
    assert found.shape == expected.shape
    off = np.abs(expected.astype(np.float64) - found.astype(np.float64))
    assert off.size and off.max() <= bound, f"off by {off.max()!r}, the bound is {bound!r}"


@pytest.fixture()
def run_python(tmp_path: Path) -> Callable[..., str]:
    """Runs a script in a new process, in an empty folder; what it printed. It must end with 0."""

    def run(script: str, *arguments: str, **environment: str) -> str:
        import os

        given = {key: value for key, value in os.environ.items() if key != "HDF5_PLUGIN_PATH"}
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env={**given, **environment}, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"it ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
