"""Arrays in a GPU's memory, through the C functions into files and back. The GPU is gpu/emulator's; `plugin-tests/gpu.sh` does it on a GPU."""

from __future__ import annotations

from pathlib import Path

from conftest import HERE, LIBRARY_NAME, Python, Runner


def test_arrays_in_a_gpus_memory_make_the_same_files(run: Runner, newest: Python, plugins: Path, emulated_driver: Path) -> None:
    run(newest.interpreter, HERE / "py/resident.py", plugins / LIBRARY_NAME, ".", "few", env={"LD_LIBRARY_PATH": str(emulated_driver)})


def test_faults_of_arrays_in_a_gpus_memory_are_errors(run: Runner, newest: Python, plugins: Path, failing_driver: Path) -> None:
    run(newest.interpreter, HERE / "py/resident_faults.py", plugins / LIBRARY_NAME, ".", env={"LD_LIBRARY_PATH": str(failing_driver)})
