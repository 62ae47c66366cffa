"""Whole arrays through the Python package, past HDF5's filter pipeline, against h5py's own path. The package is not installed for the tests themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Environment, Python

# What is promised, and the function of whole_arrays.py or array_faults.py that checks it.
CHECKS = {
    "chunks are those of h5py's own path": "whole_arrays.check_same",
    "values are those of h5py's own path, whatever the file": "whole_arrays.check_read",
    "the chunk cache neither loses values nor shows old ones": "whole_arrays.check_cache",
    "h5py's indexing goes this way inside a block": "whole_arrays.check_parallel",
    "refusals name the problem": "array_faults.check_refusals",
    "faults are errors and files stay whole": "array_faults.check_faults",
    "threads do not disturb each other": "whole_arrays.check_threads",
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_whole_arrays(python: Python, package: Environment, check: str) -> None:
    python(check, env=package)


def test_arrays_in_a_gpus_memory_give_the_same(newest: Python, package: Environment, emulated_driver: Path) -> None:
    """The GPU is the CPU; `plugin-tests/gpu.sh` does it on a GPU, with the libraries that are there."""
    why = newest("whole_arrays.check_resident", env={**package, "LD_LIBRARY_PATH": str(emulated_driver)}).json
    if why:
        assert "this build has no GPU kernels" in why
        pytest.skip(why)
