"""Speed of whole arrays into HDF5 datasets and back, on all cores: h5z_quire.write and read beside h5py's own path, no filter, and HDF5's part alone.

    target/release/generate data --size large
    python h5-samples/whole_arrays.py data/turbulence_resolved.npy [--rel 1e-3] [--chunk 64] [--repeat N] [--rounds 9] [--threads N] [--folder DIR] [--cuda]
        [--others]

The bound is checked first, on every value in f64, and every chunk's bytes are compared with those of h5py's own path. Then the ways take turns, so that what
else the machine does hits all of them alike. Printed are the median and the spread, the smallest and the largest, of GB/s of uncompressed values. Files are
created or opened, and closed, within the time. All files are new: before the clock of a write starts, the file of the round before is removed, as to truncate
it takes HDF5 some milliseconds. Reading comes from the page cache, into an array that is there already (out=) but where a new one is named: the system
zeroes its pages first. Before that come the floors of this machine: what its threads need to copy the array once, and to write new pages. With --cuda the array
is in a GPU's memory, too, and goes from and to there without a detour. With --others, h5py writes and reads the array through the filters of SZ3, ZFP, Blosc2
and gzip as well, a sixteenth of it, as they are slow. Ways through HDF5's filter pipeline take part in three rounds at most. Needs the package h5z_quire,
CuPy for --cuda, and hdf5plugin and b2h5py for --others.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import h5py
import h5z_quire
import numpy as np
from h5z_quire import Quire

from measured import measured
from peer_calls import FILTERS, described_filters

OWN_PATH = "h5py's own path"
OTHERS = ("SZ3", "ZFP", "Blosc2", "gzip")
# The part of the array that other filters get: gzip writes 0.05 GB/s.
OTHERS_SHARE = 16
# Rounds in which slow ways take part, those through HDF5's filter pipeline.
SLOW_ROUNDS = 3


@dataclass
class Way:
    """A way into a file or back. What is timed, the bytes of its values, the file that it makes, and the number of rounds if not all."""

    run: Callable[[], object]
    nbytes: int
    file: Path | None = None
    rounds: int | None = None


def main() -> None:
    arguments = parse()
    field = np.load(arguments.field)
    finite = field[np.isfinite(field)].astype(np.float64)
    bound = arguments.rel * float(finite.max() - finite.min())
    values = np.concatenate([field] * arguments.repeat)
    chunk = tuple(min(arguments.chunk, extent) for extent in values.shape)
    bench = Bench(values, bound, chunk, arguments.threads, arguments.folder, arguments.cuda)
    others = Others(bench) if arguments.others else None
    print_head(arguments, values, bound, chunk)
    try:
        bench.check()
        if others:
            others.check()
        print_floors(values, bench.out, usable_threads(arguments))
        for direction, ways, more in zip(("write", "read"), bench.ways(), others.ways() if others else ({}, {})):
            measure(direction, ways | more, arguments.rounds)
    finally:
        bench.clean()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("field", type=Path, help="an array of numpy, .npy")
    parser.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the array's range")
    parser.add_argument("--chunk", type=int, default=64, help="extent of a chunk along each axis")
    parser.add_argument("--repeat", type=int, default=1, help="copies of the array, one after the other along its first axis")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--cuda", action="store_true", help="also from and to an array of CuPy")
    parser.add_argument("--others", action="store_true", help="also the filters of SZ3, ZFP, Blosc2 and gzip")
    return parser.parse_args()


def print_head(arguments: argparse.Namespace, values: np.ndarray, bound: float, chunk: tuple[int, ...]) -> None:
    info = h5z_quire.info()
    print(measured())
    print(f"command: python {shlex.join(sys.argv)}")
    print(f"machine: {processor()}, {usable_threads(arguments)} threads, {info.backend}: {info.why}; {platform.system()} {platform.release()}")
    print(f"h5py {h5py.__version__} on HDF5 {h5py.version.hdf5_version}, h5z-quire {info.version}")
    if arguments.others:
        print(f"other filters, 1/{OTHERS_SHARE} of the array, b2h5py {version('b2h5py')}", *described_filters(OTHERS), sep="\n")
    print(f"array: {arguments.field.stem}, {'x'.join(map(str, values.shape))} {values.dtype}, chunks {'x'.join(map(str, chunk))}, abs={bound:.6g}\n")


def usable_threads(arguments: argparse.Namespace) -> int:
    return arguments.threads or int(os.environ.get("QUIRE_THREADS", 0)) or len(os.sched_getaffinity(0))


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


class Bench:
    """An array, the files that it goes to, and the ways there and back."""

    def __init__(self, values: np.ndarray, bound: float, chunk: tuple[int, ...], threads: int, folder: Path, cuda: bool) -> None:
        self.values, self.bound, self.chunk, self.threads = values, bound, chunk, threads
        self.folder, self.cuda = folder, cuda
        self.out = np.empty_like(values)
        if cuda:
            import cupy

            self.cuda_values, self.cuda_out = cupy.asarray(values), cupy.empty_like(values)
        self.streams: list[tuple[tuple[int, ...], bytes]] = []

    def path(self, name: str) -> Path:
        return self.folder / f"whole_arrays_{os.getpid()}_{name}.h5"

    def clean(self) -> None:
        for name in ("plain", "h5py", "ours", "streams", "cuda", *OTHERS):
            self.path(name).unlink(missing_ok=True)

    def create(self, file: h5py.File, filtered: bool = True) -> h5py.Dataset:
        options = Quire(abs=self.bound) if filtered else {}
        return file.create_dataset("t", self.values.shape, self.values.dtype, chunks=self.chunk, **options)

    def check(self) -> None:
        """Every value within the bound, and the same chunks as by h5py's own path. Keeps the streams."""
        self.write_h5py("h5py", True)
        self.write_ours()
        if self.cuda:
            self.write_cuda()
        found = {}
        for name in ("h5py", "ours", *["cuda"] * self.cuda):
            with h5py.File(self.path(name)) as file:
                dataset = file["t"]
                offsets = [dataset.id.get_chunk_info(index).chunk_offset for index in range(dataset.id.get_num_chunks())]
                found[name] = [(offset, bytes(dataset.id.read_direct_chunk(offset)[1])) for offset in sorted(offsets)]
        for name, streams in found.items():
            assert streams == found["h5py"], f"{name}: the chunks differ from those of h5py's own path"
        self.streams = found["ours"]
        self.read_ours()
        if self.cuda:
            self.read_cuda()
            assert np.array_equal(self.cuda_out.get().view("u1"), self.out.view("u1")), "what the GPU's memory gets is not what the host's gets"
        worst = max(np.abs(mine.astype("f8") - theirs.astype("f8")).max() for mine, theirs in zip(self.values, self.out))
        assert worst <= self.bound, f"a value is off by {worst}, more than {self.bound}"
        ratio = self.values.nbytes / sum(len(stream) for _, stream in self.streams)
        print(f"{len(self.streams)} chunks are those of h5py's own path, ratio {ratio:.2f}, largest error {worst:.6g} within the bound\n")

    def write_h5py(self, name: str, filtered: bool) -> None:
        with h5py.File(self.path(name), "w") as file:
            self.create(file, filtered)[...] = self.values

    def write_ours(self) -> None:
        with h5py.File(self.path("ours"), "w") as file:
            h5z_quire.write(self.create(file), self.values, threads=self.threads)

    def write_cuda(self) -> None:
        with h5py.File(self.path("cuda"), "w") as file:
            h5z_quire.write(self.create(file), self.cuda_values)

    def write_streams(self) -> None:
        with h5py.File(self.path("streams"), "w") as file:
            dataset = self.create(file)
            for offset, stream in self.streams:
                dataset.id.write_direct_chunk(offset, stream)

    def read_h5py(self, name: str) -> None:
        with h5py.File(self.path(name)) as file:
            file["t"].read_direct(self.out)

    def read_ours(self) -> None:
        with h5py.File(self.path("ours")) as file:
            h5z_quire.read(file["t"], out=self.out, threads=self.threads)

    def read_new(self) -> None:
        with h5py.File(self.path("ours")) as file:
            h5z_quire.read(file["t"], threads=self.threads)

    def read_cuda(self) -> None:
        with h5py.File(self.path("ours")) as file:
            h5z_quire.read(file["t"], out=self.cuda_out)

    def read_streams(self) -> None:
        with h5py.File(self.path("ours")) as file:
            for offset, _ in self.streams:
                file["t"].id.read_direct_chunk(offset)

    def ways(self) -> tuple[dict[str, Way], dict[str, Way]]:
        def write(run: Callable[[], object], name: str, rounds: int | None = None) -> Way:
            return Way(run, self.values.nbytes, self.path(name), rounds)

        def read(run: Callable[[], object], rounds: int | None = None) -> Way:
            return Way(run, self.values.nbytes, rounds=rounds)

        writes = {
            "no filter": write(lambda: self.write_h5py("plain", False), "plain", SLOW_ROUNDS),
            OWN_PATH: write(lambda: self.write_h5py("h5py", True), "h5py", SLOW_ROUNDS),
            "h5z_quire.write": write(self.write_ours, "ours"),
            **({"CUDA array -> file, h5z_quire.write": write(self.write_cuda, "cuda")} if self.cuda else {}),
            "the streams alone, H5Dwrite_chunk": write(self.write_streams, "streams"),
        }
        reads = {
            "no filter": read(lambda: self.read_h5py("plain"), SLOW_ROUNDS),
            OWN_PATH: read(lambda: self.read_h5py("h5py"), SLOW_ROUNDS),
            "h5z_quire.read": read(self.read_ours),
            "h5z_quire.read, a new array": read(self.read_new),
            **({"file -> CUDA array, h5z_quire.read": read(self.read_cuda)} if self.cuda else {}),
            "the streams alone, H5Dread_chunk": read(self.read_streams),
        }
        return writes, reads


class Others:
    """Other filters, by h5py's own path; Blosc2's chunks are read by b2h5py, too, past HDF5's filter pipeline."""

    def __init__(self, bench: Bench) -> None:
        import b2h5py

        self.bench, self.b2h5py = bench, b2h5py
        self.values = bench.values[: max(len(bench.values) // OTHERS_SHARE, bench.chunk[0])]
        self.out = np.empty_like(self.values)
        self.options: dict[str, Any] = {name: FILTERS[name](self.values, bench.bound) for name in OTHERS}

    def check(self) -> None:
        """Prints each one's ratio and largest error. A lossless one has none."""
        for name in OTHERS:
            self.write(name)
            self.read(name)
            if name in ("Blosc2", "gzip"):
                assert np.array_equal(self.out.view("u1"), self.values.view("u1")), f"{name} has changed values"
            worst = max(np.abs(mine.astype("f8") - theirs.astype("f8")).max() for mine, theirs in zip(self.values, self.out))
            with h5py.File(self.bench.path(name)) as file:
                ratio = self.values.nbytes / file["t"].id.get_storage_size()
            print(f"{name}: ratio {ratio:.2f}, largest error {worst / self.bench.bound:.7g} of the bound")
        assert np.array_equal(self.read_b2h5py().view("u1"), self.values.view("u1")), "b2h5py has changed values"
        print()

    def write(self, name: str) -> None:
        with h5py.File(self.bench.path(name), "w") as file:
            file.create_dataset("t", data=self.values, chunks=self.bench.chunk, **self.options[name])

    def read(self, name: str) -> None:
        with h5py.File(self.bench.path(name)) as file:
            file["t"].read_direct(self.out)

    def read_b2h5py(self) -> np.ndarray:
        with h5py.File(self.bench.path("Blosc2")) as file, self.b2h5py.fast_slicing():
            return file["t"][...]

    def ways(self) -> tuple[dict[str, Way], dict[str, Way]]:
        def way(run: Callable[[], object], file: Path | None = None) -> Way:
            return Way(run, self.values.nbytes, file, SLOW_ROUNDS)

        writes = {f"h5py, {name}": way(lambda name=name: self.write(name), self.bench.path(name)) for name in OTHERS}
        reads = {f"h5py, {name}": way(lambda name=name: self.read(name)) for name in OTHERS}
        return writes, reads | {"b2h5py, Blosc2, a new array": way(self.read_b2h5py)}


def print_floors(values: np.ndarray, out: np.ndarray, threads: int, rounds: int = 5) -> None:
    """GB/s at which threads copy the array to memory that is there, and fill memory that is new."""
    print(f"{'floors, GB/s':36} {'median':>7}  {'spread':>13}")
    for count in sorted({1, min(4, threads), threads}):
        bounds = [len(values) * part // count for part in range(count + 1)]
        parts = [slice(*pair) for pair in zip(bounds, bounds[1:])]
        with ThreadPoolExecutor(count) as pool:
            ways: dict[str, Callable[[], object]] = {
                "copied by": lambda: list(pool.map(lambda part: np.copyto(out[part], values[part]), parts)),
                "new pages written by": lambda: fill_new(values, parts, pool),
            }
            for name, run in ways.items():
                run()
                speeds = [values.nbytes / seconds(run) / 1e9 for _ in range(rounds)]
                words = f"{name} {count} thread{'s' * (count > 1)}"
                print(f"{words:36} {statistics.median(speeds):7.2f}  {min(speeds):6.2f}-{max(speeds):6.2f}")
    print()


def fill_new(values: np.ndarray, parts: list[slice], pool: ThreadPoolExecutor) -> None:
    new = np.empty_like(values)
    list(pool.map(lambda part: new[part].fill(1), parts))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(direction: str, ways: dict[str, Way], rounds: int) -> None:
    """Times the ways in turns, after a first round that does not count."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            if way.rounds is not None and number > way.rounds:
                continue
            if way.file:
                way.file.unlink(missing_ok=True)
            taken = seconds(way.run)
            if number:
                speeds[name].append(way.nbytes / taken / 1e9)
    base = statistics.median(speeds[OWN_PATH])
    print(f"{direction + ', GB/s':36} {'median':>7}  {'spread':>13}  times h5py's own path")
    for name, found in speeds.items():
        median = statistics.median(found)
        print(f"{name:36} {median:7.2f}  {min(found):6.2f}-{max(found):6.2f}  {median / base:5.2f}")
    print()


if __name__ == "__main__":
    main()
