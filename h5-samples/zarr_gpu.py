"""Speed of zarr arrays from and to a GPU's memory and the host's: this codec on the GPU and on the CPU, beside zarr's Blosc.

    target/release/generate data --size large
    python h5-samples/zarr_gpu.py data/turbulence_resolved.npy [--rel 1e-3] [--chunk 64] [--repeat N] [--rounds 5] [--batch 64] [--folder DIR]

Arrays of CuPy go to zarr under `zarr.config.enable_gpu()`. The bound is checked first, on every value in f64, Blosc's values are compared bit for bit, and the
chunks from the GPU must be those from the CPU. Then the ways take turns. Printed are the median and the spread, the smallest and the largest, of GB/s of
uncompressed values. Arrays are created and opened within the time. This codec is handed --batch chunks at a time, Blosc one, as zarr does it by itself: it
compresses several at once all the same. Needs the package h5z_quire, zarr 3.1 or newer, CuPy, and a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import shlex
import shutil
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import numpy as np
import zarr

from measured import measured
from paper import machine


class Way(NamedTuple):
    """How an array is written and read."""

    name: str
    codec: str
    on_gpu: bool


WAYS = (
    Way("Blosc, numpy", "blosc", False),
    Way("Blosc, CuPy", "blosc", True),
    Way("quire on the CPU, numpy", "quire", False),
    Way("quire on the GPU, CuPy", "quire", True),
)


def main() -> None:
    arguments = parse()
    # The package reads its environment once.
    with worker(arguments, "cpu") as host, worker(arguments, "cuda") as gpu:
        workers = {way: gpu if way.on_gpu else host for way in WAYS}
        print_head(arguments, host.submit(describe).result())
        ratios = {way: workers[way].submit(check, way).result() for way in WAYS}
        assert chunks(folder_of(arguments, WAYS[2])) == chunks(folder_of(arguments, WAYS[3])), "the GPU's chunks are not the CPU's"
        print("the values are within the bound, those of Blosc exact; the GPU's chunks are the CPU's\n")
        nbytes = host.submit(values_bytes).result()
        for direction, function in (("write", write), ("read", read)):
            speeds: dict[Way, list[float]] = {way: [] for way in WAYS}
            for number in range(arguments.rounds + 1):
                for way in WAYS:
                    seconds = workers[way].submit(function, way).result()
                    # The first round does not count.
                    if number:
                        speeds[way].append(nbytes / seconds / 1e9)
            print_table(direction, speeds, ratios)
    for way in WAYS:
        shutil.rmtree(folder_of(arguments, way), ignore_errors=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("field", type=Path, help="an array of numpy, .npy")
    parser.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the array's range")
    parser.add_argument("--chunk", type=int, default=64, help="extent of a chunk along each axis")
    parser.add_argument("--repeat", type=int, default=1, help="copies of the array, one after the other along its first axis")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="chunks that zarr hands to this codec together")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    return parser.parse_args()


def print_head(arguments: argparse.Namespace, array: str) -> None:
    print(measured())
    print(f"command: python {shlex.join(sys.argv)}")
    print(f"machine: {machine()}")
    print(f"array: {arguments.field.stem}, {array}; zarr {zarr.__version__}\n")


def print_table(direction: str, speeds: dict[Way, list[float]], ratios: dict[Way, float]) -> None:
    print(f"{direction + ', GB/s':28} {'median':>7}  {'spread':>13}  ratio")
    for way, found in speeds.items():
        print(f"{way.name:28} {statistics.median(found):7.2f}  {min(found):6.2f}-{max(found):6.2f}  {ratios[way]:5.2f}")
    print()


def folder_of(arguments: argparse.Namespace, way: Way) -> Path:
    return Path(arguments.folder) / f"zarr_gpu_{arguments.pid}_{way.codec}_{'gpu' if way.on_gpu else 'host'}"


def chunks(folder: Path) -> dict[str, bytes]:
    """The file of every chunk, by its name."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("c/**/*") if path.is_file()}
    assert found, f"{folder} has no chunks"
    return found


def worker(arguments: argparse.Namespace, backend: str) -> ProcessPoolExecutor:
    """One process, which has the values and this backend."""
    arguments.pid = os.getpid()
    os.environ["QUIRE_BACKEND"] = backend
    started = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), prepare, (arguments, backend))
    # The process begins with the environment that is there now.
    started.submit(int).result()
    return started


# In the workers


class Work:
    """What a worker has."""

    arguments: argparse.Namespace
    values: np.ndarray
    #: `values` as an array of CuPy, if the worker has the GPU.
    on_gpu: Any
    bound: float


def prepare(arguments: argparse.Namespace, backend: str) -> None:
    Work.arguments = arguments
    Work.values = np.concatenate([np.load(arguments.field)] * arguments.repeat)
    Work.bound = arguments.rel * float(Work.values.max().astype("f8") - Work.values.min())
    if backend == "cuda":
        import cupy

        Work.on_gpu = cupy.asarray(Work.values)


def describe() -> str:
    side = Work.arguments.chunk
    return f"{'x'.join(map(str, Work.values.shape))} {Work.values.dtype}, chunks of {side}^{Work.values.ndim}, abs={Work.bound:.6g}"


def values_bytes() -> int:
    return Work.values.nbytes


def write(way: Way) -> float:
    """Seconds for an array from memory to files."""
    from h5z_quire.zarr import QuireCodec

    folder = folder_of(Work.arguments, way)
    shutil.rmtree(folder, ignore_errors=True)
    given = Work.on_gpu if way.on_gpu else Work.values
    sides = tuple(min(Work.arguments.chunk, extent) for extent in given.shape)
    # Of arrays of CuPy zarr does not see that they are fill values: what is stored is not to depend on that.
    shape = {"shape": given.shape, "dtype": given.dtype, "chunks": sides, "config": {"write_empty_chunks": True}}
    codecs = {"serializer": QuireCodec(abs=Work.bound), "compressors": None} if way.codec == "quire" else {"compressors": zarr.codecs.BloscCodec()}
    start = time.perf_counter()
    with settings(way):
        zarr.create_array(str(folder), **shape, **codecs)[...] = given
    wait(way)
    return time.perf_counter() - start


def read(way: Way) -> float:
    """Seconds for an array from files to memory."""
    return timed_read(way)[1]


def timed_read(way: Way) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    with settings(way):
        found = zarr.open_array(str(folder_of(Work.arguments, way)), mode="r")[...]
    wait(way)
    return found, time.perf_counter() - start


@contextlib.contextmanager
def settings(way: Way) -> Iterator[None]:
    batch = Work.arguments.batch if way.codec == "quire" else 1
    buffers = zarr.config.enable_gpu() if way.on_gpu else contextlib.nullcontext()
    with buffers, zarr.config.set({"codec_pipeline.batch_size": batch}):
        yield


def wait(way: Way) -> None:
    """Until the GPU has done what it was given."""
    if way.on_gpu:
        import cupy

        cupy.cuda.runtime.deviceSynchronize()


def check(way: Way) -> float:
    """Writes and reads, and compares. The ratio."""
    write(way)
    found = timed_read(way)[0]
    assert type(found).__module__.startswith("cupy" if way.on_gpu else "numpy"), f"{way.name} gives a {type(found)}"
    found = found.get() if way.on_gpu else found
    worst = max(float(np.abs(mine.astype("f8") - theirs.astype("f8")).max()) for mine, theirs in zip(Work.values, found))
    assert worst <= (Work.bound if way.codec == "quire" else 0), f"{way.name}: a value is off by {worst}"
    return Work.values.nbytes / sum(map(len, chunks(folder_of(Work.arguments, way)).values()))


if __name__ == "__main__":
    main()
