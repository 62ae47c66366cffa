"""Parallel HDF5: ranks of an MPI job write one dataset together and read it back, with no filter, ours, gzip, SZ3 and ZFP.

    h5-samples/measure mpi [--ranks 1,2,4] [--backends cpu,cuda,auto] [--edges 64,32,16,8] [--results FOLDER]     mpi.txt and mpi.csv go to FOLDER

The data are blocks of a turbulence field, in /dev/shm. Every dataset is first written by one process without MPI, and every job must reach the SHA-256 of
its chunks. In the first round every rank compares every value that it reads with the bound, in f64. The filters take turns. It needs 2 GB in /dev/shm.

A rank's share is whole chunks of its own ("own"), or some rows of every chunk ("shared"), so that HDF5 sends them to the rank that compresses the chunk.
A write is timed from its barrier until the file is closed on all ranks. Its time is split by a clock around filter() in each rank (filter_clock.c): "filter"
is the time of the rank that was longest in it, "HDF5" is the rest, its transfers and waits included.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from filter_call import FilterClass, bound_words
from harness import FILTER_ID, Report, backends, check_slabs, cubes, isolated, parser, plugin_file, step, velocity, write_csv

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
# A number for tests: HDF5 lets nobody replace its own deflate, so that it is registered a second time.
GZIP_ID = 256
# Chunks that all ranks together write by one call of HDF5; for the next ones, the dataset grows. Parallel HDF5 1.10.8 fails where a filtered dataset of
# 32768 chunks is written at once, whatever the filter.
CHUNKS_A_CALL = 8192
# Seconds that a job may take.
PATIENCE = 500
COLUMNS = (
    "ranks", "sharing", "edge", "chunks", "filter", "backend", "ratio", "write_s", "write_filter_s", "write_gbs", "read_s", "read_filter_s", "read_gbs",
    "fewest_chunks", "most_chunks",
)  # fmt: skip


# 1. A rank


class Filters:
    """HDF5's filters, each behind the clock."""

    def __init__(self) -> None:
        import h5py

        self.clock = ctypes.CDLL(str(plugin_file().with_name("filter_clock.so")))
        self.hdf5 = ctypes.CDLL(h5py.h5z.__file__)
        self.inner: dict[str, Any] = {NONE: None}
        self.clocked: dict[str, FilterClass] = {}
        # Number and cd_values of a filter for a bound.
        self.parameters: dict[str, Callable[[float], tuple[int | None, tuple[int, ...]]]] = {
            NONE: lambda _: (None, ()),
            OURS: lambda bound: (FILTER_ID, bound_words(bound)),
            GZIP: lambda _: (GZIP_ID, (1,)),
        }
        deflate = FilterClass.from_buffer_copy(FilterClass.in_dll(self.hdf5, "H5Z_DEFLATE"))
        deflate.id = GZIP_ID
        self.put_behind_the_clock(GZIP, deflate)
        self.library = self.load(OURS, plugin_file())
        if peers := os.environ.get("QUIRE_PEERS"):
            # Behind all others: the folder may hold another numpy and h5py.
            sys.path.append(peers)
            import hdf5plugin

            from peer_calls import FILTERS

            files = hdf5plugin.get_config().registered_filters
            for name, key in ((SZ3, "sz3"), (ZFP, "zfp")):
                self.load(name, Path(files[key]))
                self.parameters[name] = lambda bound, of=FILTERS[name]: ((chosen := of(np.empty(0), bound)).filter_id, chosen.filter_options)

    def load(self, name: str, file: Path) -> ctypes.CDLL:
        library = ctypes.CDLL(str(file))
        library.H5PLget_plugin_info.restype = ctypes.POINTER(FilterClass)
        self.put_behind_the_clock(name, library.H5PLget_plugin_info().contents)
        return library

    def put_behind_the_clock(self, name: str, found: FilterClass) -> None:
        """Keeps a filter with the clock's function in place of its own."""
        self.inner[name] = ctypes.cast(found.filter, ctypes.c_void_p)
        self.clocked[name] = FilterClass.from_buffer_copy(found)
        self.clocked[name].filter = ctypes.cast(self.clock.filter_clock_call, FilterClass.Filter)

    def start(self, name: str) -> None:
        """Sets the clock to 0, for this filter. Registers it again, as SZ3 registers itself when a dataset is created."""
        self.clock.filter_clock_start(self.inner[name])
        if name != NONE and self.hdf5.H5Zregister(ctypes.byref(self.clocked[name])) < 0:
            raise RuntimeError(f"HDF5 does not take the filter {name}")

    def taken(self) -> tuple[float, int]:
        """Seconds in the filter, and chunks that it has compressed, since `start`."""
        return (
            ctypes.c_double.in_dll(self.clock, "filter_clock_seconds").value,
            ctypes.c_ulong.in_dll(self.clock, "filter_clock_compressed").value,
        )


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

        self.world = MPI.COMM_WORLD
        self.folder = Path(settings["folder"])
        self.filters = Filters()
        self.field, self.bound = field_and_bound(self.folder)
        self.settings = settings
        if os.environ["QUIRE_BACKEND"] != "cpu":
            # Opens the GPU now.
            reason = (ctypes.c_size_t * 2)()
            self.filters.library.quire_info(reason)
            self.filters.library.quire_free(reason)
        self.path = self.folder / "parallel.h5"

    def once(self, share: Share, name: str) -> dict[str, list[Any]]:
        """Writes and reads a dataset. Seconds of every rank, those in filter() and the chunks that it has compressed."""
        import h5py

        found: dict[str, list[Any]] = {}
        parameters = self.filters.parameters[name](self.bound)
        # Parallel HDF5 calls the filter when it creates a dataset, too.
        self.filters.start(name)
        file = h5py.File(self.path, "w", driver="mpio", comm=self.world)
        data = create(file, share, parameters)
        self.filters.start(name)
        self.world.Barrier()
        start = time.perf_counter()
        with data.collective:
            share.write(data)
        file.close()
        found["write"] = self.world.allgather((time.perf_counter() - start, *self.filters.taken()))
        with h5py.File(self.path, "r", driver="mpio", comm=self.world) as file:
            data = file["x"]
            self.filters.start(name)
            self.world.Barrier()
            start = time.perf_counter()
            with data.collective:
                share.read_back(data)
            found["read"] = self.world.allgather((time.perf_counter() - start, *self.filters.taken()))
        return found

    def case(self, edge: int, count: int, sharing: str) -> None:
        """Checks and measures all filters on one kind of dataset; rank 0 appends the figures to a file. Filters take turns; one that has had its seconds is
        not called again."""
        world = self.world
        share = Share(self.field, edge, count, sharing, world.rank, world.size)
        names = filters_for(count, self.settings["filters"])
        rounds: dict[str, list[dict[str, list[Any]]]] = {name: [] for name in names}
        ratios, taken = {}, dict.fromkeys(names, 0.0)
        for number in range(self.settings["rounds"]):
            for name in names:
                if taken[name] > self.settings["seconds"]:
                    continue
                rounds[name].append(self.once(share, name))
                taken[name] += sum(max(rounds[name][-1][way])[0] for way in ("write", "read"))
                if number == 0:
                    check_slabs(share.values, share.read, 0 if name in LOSSLESS else self.bound, name)
                    if world.rank == 0:
                        found, ratios[name] = digest(self.path)
                        if found != self.settings["digests"][f"{edge} {name}"]:
                            raise RuntimeError(f"{name}, {count} chunks of {edge}^3, {sharing}: the chunks are not those of a serial run")
                world.Barrier()
        if world.rank == 0:
            with open(self.folder / "figures", "a") as figures:
                for name in names:
                    line = [world.size, sharing, edge, count, name, os.environ["QUIRE_BACKEND"] if name == OURS else "", ratios[name]]
                    json.dump([*line, *figures_of(rounds[name], 4 * edge**3 * count)], figures)
                    figures.write("\n")


def filters_for(count: int, names: list[str]) -> list[str]:
    return [name for name in names if count < MANY or name not in SLOW]


def figures_of(rounds: list[dict[str, list[Any]]], nbytes: int) -> list[float]:
    """Of the rounds with the median times: seconds of the slowest rank, those of the rank that was longest in the filter, GB/s; and chunks a rank."""
    found: list[float] = []
    for way in ("write", "read"):
        walls = sorted((max(taken for taken, _, _ in own[way]), index) for index, own in enumerate(rounds))
        wall, index = walls[len(walls) // 2]
        found += [wall, max(inside for _, inside, _ in rounds[index][way]), nbytes / wall / 1e9]
    calls = [number for _, _, number in rounds[0]["write"]]
    return [*found, min(calls), max(calls)]


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
        calls = described_filters((SZ3, ZFP)) if SZ3 in settings["filters"] else []
        (job.folder / "versions").write_text("\n".join([versions, *calls]))


def field_and_bound(folder: Path) -> tuple[np.ndarray, float]:
    field = np.load(folder / "field.npy", mmap_mode="r")
    return field, RELATIVE * float(np.ptp(field))


def serial(folder: Path, edge: int, count: int, name: str) -> str:
    """The digest of a dataset that this process writes alone, without MPI."""
    import h5py

    field, bound = field_and_bound(folder)
    filters, share, path = Filters(), Share(field, edge, count, "own", 0, 1), folder / f"serial{os.getpid()}.h5"
    filters.start(name)
    with h5py.File(path, "w") as file:
        share.write(create(file, share, filters.parameters[name](bound)))
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
    names = [NONE, OURS, GZIP, *[SZ3, ZFP] * ("QUIRE_PEERS" in os.environ)]
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
    yield ["ranks", "chunks", "each", "", "filter", "ratio", *(title for way in ("write", "read") for title in (f"{way}, GB/s", "s", "filter", "HDF5")), "chunks a rank"]
    for row in rows:
        size = 4 * row["edge"] ** 3
        each = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
        cells: list[str] = []
        for way in ("write", "read"):
            wall, inside = row[f"{way}_s"], row[f"{way}_filter_s"]
            cells += [f"{row[f'{way}_gbs']:.2f}", *(f"{seconds:.3f}" for seconds in (wall, inside, wall - inside))]
        name = f"{row['filter']} {row['backend']}".strip()
        yield [row["ranks"], row["chunks"], each, row["sharing"], name, f"{row['ratio']:.2f}", *cells, f"{row['fewest_chunks']}-{row['most_chunks']}"]


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
        "s:       of the slowest rank, from a barrier until the file is closed (write) or the values are there (read), median of the rounds;",
        "         filter: of it, in filter(), in the rank that was longest there; HDF5: the rest, MPI's transfers and waits included",
        "chunks a rank: fewest-most that a rank compressed",
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
