"""Parallel HDF5: ranks of an MPI job write one dataset together and read it back, with no filter, ours, gzip, SZ3 and ZFP.

    h5-samples/mpi.sh [OPTION...]
    h5-samples/mpi.py --plugin FOLDER --clock FILE [--peers FOLDER] [--results FILE] [--ranks 1,2,4] [--backends cpu] [--edges 64,32,16,8]
    h5-samples/mpi.py plot FILE.csv FILE.png

The data are blocks of a turbulence field, in /dev/shm. Every dataset is first written by one process without MPI, and every job must reach the SHA-256 of
its chunks. In the first round every rank compares every value that it reads with the bound, in f64. The filters take turns.

A rank's share is whole chunks of its own ("own"), or some rows of every chunk ("shared"), so that HDF5 sends them to the rank that compresses the chunk.
A write is timed from its barrier until the file is closed on all ranks. Its time is split by a clock around filter() in each rank (filter_clock.c): "filter"
is the time of the rank that was longest in it, "HDF5" is the rest, its transfers and waits included.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from filter_call import PLUGIN_FILE, FilterClass, bound_words
from measured import measured, write_results

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
OURS_ID = 33791
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

    def __init__(self, plugin: Path, clock: Path, peers: Path | None) -> None:
        import h5py

        self.clock = ctypes.CDLL(str(clock))
        self.hdf5 = ctypes.CDLL(h5py.h5z.__file__)
        self.inner: dict[str, Any] = {NONE: None}
        self.clocked: dict[str, FilterClass] = {}
        # Number and cd_values of a filter for a bound.
        self.parameters: dict[str, Callable[[float], tuple[int | None, tuple[int, ...]]]] = {
            NONE: lambda _: (None, ()),
            OURS: lambda bound: (OURS_ID, bound_words(bound)),
            GZIP: lambda _: (GZIP_ID, (1,)),
        }
        deflate = FilterClass.from_buffer_copy(FilterClass.in_dll(self.hdf5, "H5Z_DEFLATE"))
        deflate.id = GZIP_ID
        self.put_behind_the_clock(GZIP, deflate)
        self.library = self.load(OURS, plugin / PLUGIN_FILE)
        if peers:
            # Behind all others: the folder may hold another numpy and h5py.
            sys.path.append(str(peers))
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
        parts = field.shape[0] // edge
        blocks = field.reshape(parts, edge, parts, edge, parts, edge).transpose(0, 2, 4, 1, 3, 5).reshape(-1, edge, edge, edge)
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


def check(share: Share, name: str, bound: float) -> None:
    errors = np.abs(share.read.astype(np.float64) - share.values)
    # Not `errors > bound`: a NaN in place of a number must count as a miss.
    if not np.all(errors <= (0 if name in LOSSLESS else bound)):
        raise RuntimeError(f"{name} breaks the bound {bound:g}: {errors.max():g}")


class Job:
    """What all ranks of a job do together."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from mpi4py import MPI  # before h5py, so that Debian's takes the one with MPI

        self.world = MPI.COMM_WORLD
        self.folder = Path(settings["folder"])
        self.filters = Filters(Path(settings["plugin"]), Path(settings["clock"]), settings["peers"] and Path(settings["peers"]))
        self.field = np.load(self.folder / "field.npy", mmap_mode="r")
        self.bound = RELATIVE * float(np.load(self.folder / "span.npy"))
        self.settings = settings
        if settings["backend"] != "cpu":
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
                    check(share, name, self.bound)
                    if world.rank == 0:
                        found, ratios[name] = digest(self.path)
                        if found != self.settings["digests"][f"{edge} {name}"]:
                            raise RuntimeError(f"{name}, {count} chunks of {edge}^3, {sharing}: the chunks are not those of a serial run")
                world.Barrier()
        if world.rank == 0:
            with open(self.folder / "figures", "a") as figures:
                for name in names:
                    line = [world.size, sharing, edge, count, name, self.settings["backend"] if name == OURS else "", ratios[name]]
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
        calls = described_filters((SZ3, ZFP)) if settings["peers"] else []
        (job.folder / "versions").write_text("\n".join([versions, *calls]))


def serial(settings: dict[str, Any]) -> None:
    """Writes one dataset by this process alone, without MPI, and prints its digest."""
    import h5py

    folder, (edge, count), name = Path(settings["folder"]), settings["case"], settings["filter"]
    filters = Filters(Path(settings["plugin"]), Path(settings["clock"]), settings["peers"] and Path(settings["peers"]))
    share = Share(np.load(folder / "field.npy", mmap_mode="r"), edge, count, "own", 0, 1)
    filters.start(name)
    path = folder / f"serial{os.getpid()}.h5"
    with h5py.File(path, "w") as file:
        share.write(create(file, share, filters.parameters[name](RELATIVE * float(np.load(folder / "span.npy")))))
    print(digest(path)[0])
    path.unlink()


# 2. The jobs, and the table


def run(command: list[str], settings: dict[str, Any]) -> str:
    """What a command prints, which gets the settings as its last argument."""
    environment = {**os.environ, "QUIRE_BACKEND": settings["backend"], "HDF5_PLUGIN_PATH": settings["plugin"], "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, json.dumps(settings)], env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"error: {shlex.join(command)} ended with {done.returncode}, see above\n{done.stdout}")
    return done.stdout


def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    from gpu import velocity
    from paper import step

    step("field")
    field = velocity()
    np.save(folder / "field.npy", field)
    np.save(folder / "span.npy", float(field.max()) - float(field.min()))
    peers = [SZ3, ZFP] if arguments.peers else []
    cases = [(edge, count * arguments.scale) for edge, count in CASES if str(edge) in arguments.edges.split(",")]
    settings = {
        "folder": str(folder), "plugin": str(arguments.plugin.resolve()), "clock": str(arguments.clock.resolve()), "backend": "cpu",
        "peers": arguments.peers and str(arguments.peers.resolve()), "cases": cases, "filters": [NONE, OURS, GZIP, *peers], "rounds": arguments.rounds,
        "seconds": arguments.seconds,
    }  # fmt: skip
    step("serial runs")
    work = [(case, name) for case in cases for name in filters_for(case[1], settings["filters"])]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        command = [sys.executable, __file__, "serial"]
        digests = pool.map(lambda item: run(command, {**settings, "case": item[0], "filter": item[1]}).strip(), work)
        settings["digests"] = {f"{case[0]} {name}": found for (case, name), found in zip(work, digests)}
    for ranks in map(int, arguments.ranks.split(",")):
        for backend in arguments.backends.split(","):
            step(f"{ranks} ranks, {backend}")
            # The other filters do not depend on the backend; and chunks below 96 KiB stay on the CPU.
            filters = settings["filters"] if backend == "cpu" else [OURS]
            own = [case for case in cases if backend == "cpu" or 4 * case[0] ** 3 >= 96 << 10]
            # -m mpi4py: an exception in one rank ends all.
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
            command += [sys.executable, "-m", "mpi4py", __file__, "rank"]
            run(command, {**settings, "backend": backend, "filters": filters, "cases": own})
    return [dict(zip(COLUMNS, json.loads(line))) for line in (folder / "figures").read_text().splitlines()]


def report(rows: list[dict[str, Any]], versions: str) -> str:
    from paper import machine

    lines = [
        measured(),
        f"command: {os.environ.get('COMMAND', shlex.join(sys.argv))}",
        f"machine: {machine()}",
        f"made by: {versions}",
        f"data:    blocks of a turbulence field of f32; a bound of {RELATIVE:g} of its range for ours, SZ3 and ZFP; files in /dev/shm",
        "own:     a rank writes whole chunks; shared: it writes some rows of every chunk, which HDF5 sends to the rank that compresses the chunk",
        "s:       of the slowest rank, from a barrier until the file is closed (write) or the values are there (read), median of the rounds;",
        "         filter: of it, in filter(), in the rank that was longest there; HDF5: the rest, MPI's transfers and waits included",
        "chunks a rank: fewest-most that a rank compressed",
        "Every value was compared with its bound in f64, and every file's chunks are by SHA-256 those that one process writes without MPI.",
        "",
        f"{'':<34}{'':<16}{'':>7} {'write':^33} {'read':^33} chunks a rank",
        f"{'ranks':>5} {'chunks':>14} {'each':>8} {'':<6}{'filter':<16}{'ratio':>6} " + 2 * f"{'GB/s':>7}{'s':>8}{'filter':>9}{'HDF5':>8} ",
    ]
    for row in rows:
        size = 4 * row["edge"] ** 3
        each = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
        name = f"{row['filter']} {row['backend']}".strip()
        line = f"{row['ranks']:>5} {row['chunks']:>14} {each:>8} {row['sharing']:<7}{name:<14}{row['ratio']:>7.2f} "
        for way in ("write", "read"):
            wall, inside = row[f"{way}_s"], row[f"{way}_filter_s"]
            line += f"{row[f'{way}_gbs']:>7.2f}{wall:>8.3f}{inside:>9.3f}{wall - inside:>8.3f} "
        lines.append(f"{line} {row['fewest_chunks']}-{row['most_chunks']}")
    return "\n".join(lines) + "\n"


def plot(table: Path, picture: Path) -> None:
    """Write and read speeds by the number of chunks, a column for each number of ranks; chunks of one rank are drawn solid, shared ones dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = list(csv.DictReader(table.read_text().splitlines()[1:]))
    ranks = sorted({int(row["ranks"]) for row in rows})
    names = list(dict.fromkeys(f"{row['filter']} {row['backend']}".strip() for row in rows))
    figure, axes = plt.subplots(2, len(ranks), figsize=(3 * len(ranks) + 1.5, 6), sharex=True, sharey=True, squeeze=False)
    for line, way in zip(axes, ("write", "read")):
        for axis, count in zip(line, ranks):
            for color, name in enumerate(names):
                for sharing, dashes in zip(SHARINGS, ("-", "--")):
                    own = [row for row in rows if int(row["ranks"]) == count and row["sharing"] == sharing]
                    own = [row for row in own if f"{row['filter']} {row['backend']}".strip() == name]
                    points = [(int(row["chunks"]), float(row[f"{way}_gbs"])) for row in own]
                    if points:
                        axis.plot(*zip(*points), dashes, color=f"C{color}", marker=".", label=name if sharing == "own" else None)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_title(f"{way}, {count} rank{'s' * (count > 1)}", fontsize=9)
            axis.grid(alpha=0.3)
        line[0].set_ylabel("GB/s of values")
    for axis in axes[1]:
        axis.set_xlabel("chunks")
    axes[0][0].legend(fontsize=7)
    figure.suptitle("One dataset through parallel HDF5: chunks of one rank (solid), chunks shared by all ranks (dashed)", fontsize=10)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True, help="folder of libh5zquire.so")
    parser.add_argument("--clock", type=Path, required=True, help="filter_clock.c, compiled")
    parser.add_argument("--peers", type=Path, help="a folder of Python packages with hdf5plugin; without it there is no SZ3 and no ZFP")
    parser.add_argument("--results", type=Path, help="the table goes to this file, the figures beside it (.csv)")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--backends", default="cpu", help="of ours: cpu, cuda, auto")
    parser.add_argument("--edges", default=",".join(str(edge) for edge, _ in CASES), help="of chunks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="a filter that has taken so many on a dataset is not measured again")
    parser.add_argument("--scale", type=int, default=1, help="as many times the chunks")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        rows = measure(arguments, Path(name))
        text = report(rows, (Path(name) / "versions").read_text())
    print(text, end="")
    if arguments.results:
        write_results(arguments.results, text, COLUMNS, rows)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(json.loads(sys.argv[2]))
    elif sys.argv[1:2] == ["serial"]:
        serial(json.loads(sys.argv[2]))
    elif sys.argv[1:2] == ["plot"]:
        plot(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main())
