"""Arrays in a GPU's memory through the C functions. The GPU is gpu/emulator's; test_gpu.py does the same on a real one. test_whole_arrays.py has files."""

from __future__ import annotations

from pathlib import Path

from conftest import HERE, LIBRARY_NAME, REPOSITORY, Python, Runner


def test_chunks_in_a_gpus_memory_have_the_streams_of_the_host(run: Runner, newest: Python, plugins: Path, emulated_driver: Path) -> None:
    settings = {"LD_LIBRARY_PATH": str(emulated_driver), "QUIRE_REQUIRE_CUDA": "1"}
    run(newest.interpreter, HERE / "py/resident.py", plugins / LIBRARY_NAME, "few", env=settings)


def test_faults_of_arrays_in_a_gpus_memory_are_errors(run: Runner, newest: Python, plugins: Path, failing_driver: Path) -> None:
    settings = {"LD_LIBRARY_PATH": str(failing_driver), "PYTHONPATH": str(REPOSITORY / "streams")}
    run(newest.interpreter, HERE / "py/resident_faults.py", plugins / LIBRARY_NAME, ".", env=settings)
