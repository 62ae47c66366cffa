"""Which processor does the work, and what is said of it, on a machine without a GPU or with one that is hidden. test_gpu.py is the other half."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable

import h5py
import pytest

import backend
from conftest import HERE, IN_ORDER, Environment, Python, Runner

# The message about small chunks, with the number of bytes from which on chunks go to a GPU.
SMALL = r"on the CPU: chunks below \d+ bytes are no gain for the GPU"

HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
CUDA = {**HIDDEN, "QUIRE_BACKEND": "cuda"}
# Has the GPU opened before the first chunk: `auto` waits for some work, which test_sharing.py tests.
OPEN_AND_LOG = {**HIDDEN, "QUIRE_LOG": "1", "QUIRE_TEST_OPEN": "1"}


@pytest.fixture
def reason(run: Runner) -> str:
    """Why a process has no GPU where it is hidden."""
    has_driver = "libcuda.so" in run("/sbin/ldconfig", "-p").stdout
    return "CUDA_ERROR_NO_DEVICE" if has_driver else "there is no NVIDIA driver: libcuda.so is not found"


@pytest.fixture
def file(python: Python) -> str:
    """A file with chunks of both sizes, by the test's interpreter."""
    python(backend.write, "file.h5", env=HIDDEN).must_say("write: done")
    return "file.h5"


def test_without_a_gpu_the_cpu_works_and_the_log_says_why(python: Python, file: str, reason: str) -> None:
    python(backend.read, file, env=HIDDEN).must_say("read: done").must_not_say("H5Z-Quire")
    for function, direction in ((backend.write, "compress"), (backend.read, "decompress")):
        ended = python(function, file, env=OPEN_AND_LOG).must_say("done")
        # 1024 small chunks, then 2 large ones: a line each time that something changes.
        small, large = [line for line in ended.stderr.splitlines() if "H5Z-Quire" in line]
        assert re.fullmatch(f"H5Z-Quire: {direction} {SMALL}", small)
        assert large.startswith(f"H5Z-Quire: {direction} on the CPU: ") and f"on the CPU: {reason}" in large


def test_the_cpu_can_be_asked_for(python: Python, file: str) -> None:
    ended = python(backend.rewrite, file, env={**HIDDEN, "QUIRE_BACKEND": "cpu", "QUIRE_LOG": "1"})
    ended.must_say("rewrite: done", "rewrite: 0 chunks uncompressed", "H5Z-Quire: compress on the CPU: QUIRE_BACKEND=cpu\n")


def test_a_gpu_that_is_demanded_and_not_there_is_an_error(python: Python, file: str, reason: str) -> None:
    words = "error: ", "H5Z-Quire: QUIRE_BACKEND=cuda, but ", reason
    python(backend.read, file, env=CUDA).must_say(*words)
    for function in (backend.write, backend.mandatory):
        ended = python(function, "none.h5", env=CUDA).must_say(*words)
        assert "H5Z-Quire" not in ended.stderr, "the program has the reason"


def create_one_chunk(kind: str, values: str) -> None:
    h5py.File("refused.h5", "w").create_dataset("x", (int(values),), kind, chunks=(int(values),), compression=33791, compression_opts=(2, 3))


# Short values count as much as their codes, which have 32 bits.
@pytest.mark.parametrize("kind, values, most", [("f4", 536870912, 1 << 28), ("f8", 134217729, 1 << 27), ("i2", 300000000, 1 << 28)])
def test_a_chunk_that_no_gpu_takes_is_refused_where_a_gpu_is_demanded(python: Python, kind: str, values: int, most: int) -> None:
    refused = python(create_one_chunk, kind, values, env={"QUIRE_BACKEND": "cuda"}, code=IN_ORDER)
    refused.must_say(f"QUIRE_BACKEND=cuda, but chunk has {values} values, the GPU takes chunks of up to {most} of this type")


def test_a_chunk_that_cannot_be_compressed_is_stored_and_that_is_said_on_stderr(python: Python, reason: str) -> None:
    settings = [(CUDA, ["QUIRE_BACKEND=cuda, but ", reason]), ({**HIDDEN, "QUIRE_CODEBOOK": "best"}, ["QUIRE_CODEBOOK=best is unknown"])]
    # The dataset is there already, so that its creation is no error. HDF5 would lose a chunk that a mandatory filter fails on, and crash when it closes the
    # file (HDFGroup/hdf5#6601).
    for function in (backend.write, backend.mandatory):
        for setting, (said, *more) in settings:
            python(function, "file.h5", env=HIDDEN).must_say("done")
            ended = python(backend.rewrite, "file.h5", env=setting)
            ended.must_say("rewrite: 1026 chunks uncompressed", "rewrite: done", f"H5Z-Quire: {said}", *more, "; the chunk is stored uncompressed")
            assert ended.stderr.count("H5Z-Quire") == 1, f"once a process: {ended}"
            python(backend.read, "file.h5", env=HIDDEN).must_say("read: done")


SENSELESS = [
    ("QUIRE_BACKEND", "gpu", "QUIRE_BACKEND=gpu is unknown: the choices are auto, cpu, cuda"),
    ("QUIRE_DEVICE", "first", "QUIRE_DEVICE=first is not the number of a GPU"),
    ("QUIRE_LOG", "all", "QUIRE_LOG=all is unknown: the choices are 0, 1"),
    ("QUIRE_CODEBOOK", "best", "QUIRE_CODEBOOK=best is unknown: the choices are auto, dictionary, custom"),
]


@pytest.mark.parametrize("name, value, words", SENSELESS)
def test_settings_that_make_no_sense_are_errors_with_the_choices(python: Python, file: str, name: str, value: str, words: str) -> None:
    python(backend.read, file, env={**HIDDEN, name: value}).must_say("read: error", words)
    python(backend.mandatory, "none.h5", env={**HIDDEN, name: value}).must_say("mandatory: error", words)


def test_every_codebook_policy_gives_streams_that_read(newest: Python, tmp_path: Path) -> None:
    lengths = {}
    for policy in ("auto", "dictionary", "custom"):
        newest(backend.write, policy, env={**HIDDEN, "QUIRE_CODEBOOK": policy}).must_say("write: done")
        newest(backend.read, policy, env=HIDDEN).must_say("read: done")
        lengths[policy] = (tmp_path / policy).stat().st_size
    assert lengths["dictionary"] != lengths["custom"], "the variable changes nothing"


FAKE = "the fake libcuda is loaded"


@pytest.fixture
def fake_driver(run: Runner) -> Callable[..., Environment]:
    """Builds a driver library that is none; the setting with which it is found."""

    def fake_driver(*options: str) -> Environment:
        folder = run.folder / "driver"
        folder.mkdir()
        # The driver is looked for under several names; where there is a real one, it must not be found first.
        for library in ("libcuda.so", "libcuda.so.1"):
            run("cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *options, "-o", folder / library, HERE / "c/fake_cuda.c")
        return {**HIDDEN, "LD_LIBRARY_PATH": str(folder)}

    return fake_driver


# The plugin must have kernels to get that far: build with nvcc, as run.sh does.
BROKEN_DRIVERS = [
    (["-DRESULT=100"], "starting the NVIDIA driver: CUDA_ERROR_NO_DEVICE (said by the fake libcuda)"),
    (["-DRESULT=0"], "there is no GPU 0: the driver shows 0, numbered from 0"),
    ([], "the NVIDIA driver is too old: it lacks cuInit"),
]


@pytest.mark.parametrize("options, words", BROKEN_DRIVERS, ids=["no device", "no count", "too old"])
def test_a_driver_that_does_not_work_is_a_reason(python: Python, fake_driver: Callable[..., Environment], options: list[str], words: str) -> None:
    driver = fake_driver(*options)
    for function, direction in ((backend.write, "compress"), (backend.read, "decompress")):
        ended = python(function, "fake.h5", env={**OPEN_AND_LOG, **driver})
        ended.must_say(FAKE, "done", f"H5Z-Quire: {direction} on the CPU: {words}")
    python(backend.read, "fake.h5", env={**CUDA, **driver}).must_say("read: error: ", f"QUIRE_BACKEND=cuda, but {words}")


def test_the_driver_is_left_alone_until_a_chunk_asks_for_it(
    python: Python, file: str, run: Runner, fake_driver: Callable[..., Environment], shared_library: Callable[[str], Path]
) -> None:
    driver, clock = fake_driver("-DRESULT=100"), shared_library("set_clock")
    python(backend.load, env=driver).must_say("load: done").must_not_say(FAKE)
    python(backend.read, file, env={**driver, "QUIRE_BACKEND": "cpu"}).must_not_say(FAKE)
    # Two chunks of 2 MiB are too little work to look for a GPU, however busy the machine is: to this process no time goes by.
    python(backend.read, file, env={**driver, "LD_PRELOAD": str(clock)}).must_not_say(FAKE)
    python(backend.read, file, env={**driver, "QUIRE_BACKEND": "cuda"}).must_say(FAKE, "read: error")
    # h5dump loads the plugin for the description, and decompresses chunks of 4 KiB for the values.
    for options in (["-p", "-H"], ["-d", "small"]):
        run("h5dump", *options, file, env=driver).must_say("DATASET").must_not_say(FAKE)
