"""Parallel HDF5: ranks of an MPI job write one dataset together and read it back, with no filter, ours, gzip, SZ3 and ZFP.

    h5-samples/measure mpi [--ranks 1,2,4] [--backends cpu,cuda,auto] [--edges 64,32,16,8] [--results FOLDER]     mpi.txt and mpi.csv go to FOLDER

The data are blocks of a turbulence field, in /dev/shm. Every dataset is first written by one process without MPI, and every job must reach the SHA-256 of
its chunks. In the first round every rank compares every value that it reads with the bound, in f64. The filters take turns. It needs 2 GB in /dev/shm.

A rank's share is whole chunks of its own ("own"), or some rows of every chunk ("shared"), so that HDF5 sends them to the rank that compresses the chunk.
A write is timed from its barrier until the file is closed on all ranks, a read until the values are there.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from filter_call import Bytes
from harness import FILTER_ID, Report, backends, check_slabs, cubes, in_turns, isolated, parser, plugin_file, step, velocity, write_csv
from quire_options import cd_values

# The folder with hdf5plugin, behind all others: it may hold another numpy and h5py.
PEERS = os.environ.get("QUIRE_PEERS")
sys.path += [PEERS] if PEERS else []

RELATIVE = 1e-3
# Extent of a chunk along its three axes, and how many of them.
CASES = ((64, 128), (32, 512), (16, 4096), (8, 131072))
# Chunks that are shared by ranks, at most: for 131072 of them HDF5 1.10.8 took a minute.
MOST_SHARED = 4096
SHARINGS = ("own", "shared")
NONE, OURS, GZIP, SZ3, ZFP = "no filter", "ours", "gzip 1", "SZ3", "ZFP"
LOSSLESS = (NONE, GZIP)
# These take too long to be measured on so many chunks as this.
SLOW, MANY = (GZIP, SZ3), 100_000
# Chunks that all ranks together write by one call of HDF5; for the next ones, the dataset grows. Parallel HDF5 1.10.8 fails where a filtered dataset of
# 32768 chunks is written at once, whatever the filter.
CHUNKS_A_CALL = 8192
# Seconds that a job may take.
PATIENCE = 500
COLUMNS = ("ranks", "sharing", "edge", "chunks", "filter", "backend", "ratio", "write_s", "write_gbs", "read_s", "read_gbs")


# 1. A rank


def filter_of(name: str, bound: float) -> tuple[int | None, tuple[int, ...]]:
    """Number and cd_values of a filter."""
    if name in (SZ3, ZFP):
        from peer_calls import FILTERS

        chosen = FILTERS[name](np.empty(0), bound)
        return chosen.filter_id, chosen.filter_options
    # HDF5's deflate is number 1.
    return {NONE: (None, ()), OURS: (FILTER_ID, cd_values(f"abs={bound!r}")), GZIP: (1, (1,))}[name]


class Share:
    """A rank's part of a dataset of `count` chunks along its first axis, each a block of the field, which is written and read by one call or several."""

    def __init__(self, field: np.ndarray, edge: int, count: int, sharing: str, rank: int, ranks: int) -> None:
        blocks = cubes(field, edge)
        self.edge, self.step = edge, min(count, CHUNKS_A_CALL)
        self.calls = count // self.step
        first, last = (rank * self.step // ranks, (rank + 1) * self.step // ranks) if sharing == "own" else (0, self.step)
        rows = slice(None) if sharing == "own" else slice(rank * edge // ranks, (rank + 1) * edge // ranks)
        values = [blocks[(call * self.step + np.arange(first, last)) % len(blocks)][:, :, rows] for call in range(self.calls)]
        self.values = np.ascontiguousarray(np.concatenate(values).reshape(-1, *values[0].shape[2:]))
        self.read = np.empty_like(self.values)
        length = (last - first) * edge
        self.parts = [slice(call * length, (call + 1) * length) for call in range(self.calls)]
        starts = [(call * self.step + first) * edge for call in range(self.calls)]
        self.selections = [(slice(start, start + length), rows) for start in starts]

    def extents(self, calls: int) -> tuple[int, ...]:
        """The dataset's extents, as far as so many calls write it."""
        return (calls * self.step * self.edge, self.edge, self.edge)

    def write(self, data: Any) -> None:
        for call, (part, selection) in enumerate(zip(self.parts, self.selections), 1):
            if call > 1:
                data.resize(self.extents(call))
            data[selection] = self.values[part]

    def read_back(self, data: Any) -> None:
        for part, selection in zip(self.parts, self.selections):
            data.read_direct(self.read, selection, part)


def create(file: Any, share: Share, parameters: tuple[int | None, tuple[int, ...]]) -> Any:
    """A dataset that HDF5 does not fill before it is written, as far as it heeds that: 1.10.8 writes a compressed chunk of fill values to all places. h5py
    3.7 has no name for that."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((share.edge,) * 3)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    number, words = parameters
    if number is not None:
        properties.set_filter(number, h5py.h5z.FLAG_MANDATORY, words)
    space = h5py.h5s.create_simple(share.extents(1), share.extents(share.calls))
    return h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties))


def digest(path: Path) -> tuple[str, float]:
    """SHA-256 of a file's chunks in the order of their indices, and the ratio."""
    import h5py

    total = hashlib.sha256()
    with h5py.File(path, "r") as file:
        data = file["x"]
        chunk = data.chunks[0]
        for index in range(data.shape[0] // chunk):
            mask, stream = data.id.read_direct_chunk((index * chunk, 0, 0))
            if mask:
                raise RuntimeError(f"chunk {index} was stored without the filter, which failed")
            total.update(len(stream).to_bytes(8, "little") + stream)
        return total.hexdigest(), data.size * data.dtype.itemsize / data.id.get_storage_size()


class Job:
    """What all ranks of a job do together."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from mpi4py import MPI  # before h5py, so that Debian's takes the one with MPI

        self.world, self.settings, self.folder = MPI.COMM_WORLD, settings, Path(settings["folder"])
        self.field, self.bound = field_and_bound(self.folder)
        self.path = self.folder / "parallel.h5"
        if os.environ["QUIRE_BACKEND"] != "cpu":
            # Opens the GPU now.
            library, reason = ctypes.CDLL(str(plugin_file())), Bytes()
            library.quire_info(ctypes.byref(reason))
            library.quire_free(ctypes.byref(reason))

    def once(self, share: Share, name: str) -> tuple[float, float]:
        """Writes and reads a dataset. Seconds of the slowest rank."""
        import h5py

        file = h5py.File(self.path, "w", driver="mpio", comm=self.world)
        data = create(file, share, filter_of(name, self.bound))
        self.world.Barrier()
        start = time.perf_counter()
        with data.collective:
            share.write(data)
        file.close()
        write = max(self.world.allgather(time.perf_counter() - start))
        with h5py.File(self.path, "r", driver="mpio", comm=self.world) as file:
            data = file["x"]
            self.world.Barrier()
            start = time.perf_counter()
            with data.collective:
                share.read_back(data)
            return write, max(self.world.allgather(time.perf_counter() - start))

    def case(self, edge: int, count: int, sharing: str) -> None:
        """Checks and measures all filters on one kind of dataset; rank 0 appends the figures to a file."""
        share = Share(self.field, edge, count, sharing, self.world.rank, self.world.size)
        names = filters_for(count, self.settings["filters"])
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        ratios: dict[str, float] = {}

        def call(name: str) -> float:
            times[name].append(self.once(share, name))
            if len(times[name]) == 1:
                check_slabs(share.values, share.read, 0 if name in LOSSLESS else self.bound, name)
                if self.world.rank == 0:
                    found, ratios[name] = digest(self.path)
                    if found != self.settings["digests"][f"{edge} {name}"]:
                        raise RuntimeError(f"{name}, {count} chunks of {edge}^3, {sharing}: the chunks are not those of a serial run")
            self.world.Barrier()
            return sum(times[name][-1])

        in_turns({name: partial(call, name) for name in names}, self.settings["rounds"], self.settings["seconds"])
        if self.world.rank == 0:
            with open(self.folder / "figures", "a") as figures:
                for name in names:
                    line = [self.world.size, sharing, edge, count, name, os.environ["QUIRE_BACKEND"] if name == OURS else "", ratios[name]]
                    for taken in map(median, zip(*times[name])):
                        line += [taken, 4 * edge**3 * count / taken / 1e9]
                    figures.write(json.dumps(line) + "\n")


def filters_for(count: int, names: list[str]) -> list[str]:
    return [name for name in names if count < MANY or name not in SLOW]


def rank(settings: dict[str, Any]) -> None:
    """The body of a process of a job."""
    job = Job(settings)
    for edge, count in settings["cases"]:
        for sharing in SHARINGS:
            # Alone, nobody shares; and h5py leaves out a rank that has no rows, for which the others would wait.
            if sharing == "own" or (1 < job.world.size <= edge and count <= MOST_SHARED):
                job.case(edge, count, sharing)
    if job.world.rank == 0:
        import h5py
        from mpi4py import MPI

        from peer_calls import described_filters

        versions = f"h5py {h5py.__version__}, parallel HDF5 {h5py.version.hdf5_version}, {MPI.Get_library_version().split(',')[0]}, numpy {np.__version__}"
        calls = described_filters((SZ3, ZFP)) if PEERS else []
        (job.folder / "versions").write_text("\n".join([versions, *calls]))


def field_and_bound(folder: Path) -> tuple[np.ndarray, float]:
    field = np.load(folder / "field.npy", mmap_mode="r")
    return field, RELATIVE * float(np.ptp(field))


def serial(folder: Path, edge: int, count: int, name: str) -> str:
    """The digest of a dataset that this process writes alone, without MPI."""
    import h5py

    field, bound = field_and_bound(folder)
    share, path = Share(field, edge, count, "own", 0, 1), folder / f"serial{os.getpid()}.h5"
    with h5py.File(path, "w") as file:
        share.write(create(file, share, filter_of(name, bound)))
    found = digest(path)[0]
    path.unlink()
    return found


# 2. The jobs, and the table


def run_job(ranks: int, backend: str, settings: dict[str, Any]) -> None:
    # -m mpi4py: an exception in one rank ends all.
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    command += [sys.executable, "-m", "mpi4py", __file__, "rank", json.dumps(settings)]
    done = subprocess.run(command, env=os.environ | {"QUIRE_BACKEND": backend}, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"error: {ranks} ranks, {backend}: mpirun ended with {done.returncode}, see above")


def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    step("field")
    np.save(folder / "field.npy", velocity())
    names = [NONE, OURS, GZIP, *[SZ3, ZFP] * bool(PEERS)]
    cases = [(edge, count) for edge, count in CASES if str(edge) in arguments.edges.split(",")]
    step("serial runs")
    work = [(edge, count, name) for edge, count in cases for name in filters_for(count, names)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = pool.map(lambda item: isolated({"QUIRE_BACKEND": "cpu"}, PATIENCE, serial, folder, *item, quiet=False), work)
        digests = {f"{edge} {name}": own for (edge, _, name), own in zip(work, found)}
    for ranks in map(int, arguments.ranks.split(",")):
        for backend in arguments.backends.split(","):
            step(f"{ranks} ranks, {backend}")
            # The other filters do not depend on the backend; and chunks below 96 KiB stay on the CPU.
            filters = names if backend == "cpu" else [OURS]
            own = [case for case in cases if backend == "cpu" or 4 * case[0] ** 3 >= 96 << 10]
            settings = {"folder": str(folder), "filters": filters, "cases": own, "digests": digests}
            run_job(ranks, backend, settings | {"rounds": arguments.rounds, "seconds": arguments.seconds})
    return [dict(zip(COLUMNS, json.loads(line))) for line in (folder / "figures").read_text().splitlines()]


def table(rows: list[dict[str, Any]]) -> Iterator[list[object]]:
    yield ["ranks", "chunks", "each", "", "filter", "ratio", "write, GB/s", "s", "read, GB/s", "s"]
    for row in rows:
        size = 4 * row["edge"] ** 3
        each = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
        cells = (cell for way in ("write", "read") for cell in (f"{row[f'{way}_gbs']:.2f}", f"{row[f'{way}_s']:.3f}"))
        yield [row["ranks"], row["chunks"], each, row["sharing"], f"{row['filter']} {row['backend']}".strip(), f"{row['ratio']:.2f}", *cells]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--ranks", default="1,2,4")
    options.add_argument("--backends", default=",".join([*backends(), *["auto"] * ("cuda" in backends())]), help="of ours: cpu, cuda, auto")
    options.add_argument("--edges", default=",".join(str(edge) for edge, _ in CASES), help="of chunks")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2.0, help="a filter that has taken so many on a dataset is not measured again")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        rows = measure(arguments, Path(name))
        versions = (Path(name) / "versions").read_text()
    report = Report(
        "mpi",
        arguments.results,
        f"made by: {versions}",
        f"data:    blocks of a turbulence field of f32; a bound of {RELATIVE:g} of its range for ours, SZ3 and ZFP; files in /dev/shm",
        "own:     a rank writes whole chunks; shared: it writes some rows of every chunk, which HDF5 sends to the rank that compresses the chunk",
        "s:       of the slowest rank, from a barrier until the file is closed (write) or the values are there (read), median of the rounds",
        "Every value was compared with its bound in f64, and every file's chunks are by SHA-256 those that one process writes without MPI.",
        "",
    )
    report.table(table(rows), 5)
    write_csv(arguments.results / "mpi.csv", COLUMNS, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(json.loads(sys.argv[2]))
    else:
        main()
