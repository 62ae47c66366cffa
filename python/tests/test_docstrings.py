"""The examples in the package's docstrings run, each in an empty folder."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import h5py  # noqa: F401, this loads h5z_quire.h5py_additions
import pytest

import h5z_quire

SUBMODULES = sorted(found.name for found in pkgutil.iter_modules(h5z_quire.__path__) if found.name != "__main__")
MODULES = ["h5z_quire", *(f"h5z_quire.{name}" for name in SUBMODULES)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        # Modules for xarray, zarr and dask need them.
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module).failed == 0
