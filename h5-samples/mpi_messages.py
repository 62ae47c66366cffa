"""The experiments of two papers in form: messages of MPI that are compressed on the way, beside plain ones.

    h5-samples/mpi_messages.py --package PACKAGES [--results FILE] [--ranks 16] [--links shared,25,10,1] [--backends cpu,cuda,device]
    h5-samples/mpi_messages.py plot FILE.png FILE.csv...

Shah et al. (ICS'23): point-to-point messages of 1 to 512 MB, and scatter over 16 ranks, 1 to 8 MB each. CEAZ (ICS'22): MPI_Gather and MPI_File_write at 128
nodes. Here each of them runs with plain values, and with streams of pieces of 64^3 f32 whose codebooks come from the dictionary, or are built for each
piece (QUIRE_CODEBOOK). One side compresses all of a message on its cores or its GPU, then sends; the other side has all of it, then decompresses. With the
backend "device", values begin and end in the GPU's memory, in arrays of CuPy: plain ones are copied to pinned memory of the host, sent, and copied back.

The links are shared memory as it is, and pairs of network namespaces with a token bucket (tc tbf) between them, in Gbit/s: rank 0 is in one, all others
are in the other. That needs root and iproute2. The bandwidth that plain messages reach is printed first. Every value is compared with its bound in f64
before a time counts. Times are medians, until the last rank has its values.

PACKAGES is a folder with the package: python3 -m pip install --no-deps --target PACKAGES python/. With Debian's mpi4py, run it by Debian's Python.

A job holds a group of ranks for each backend and kind of codebooks, as a process reads these settings once. Groups take turns; those that wait sleep.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from measured import measured, write_results

EDGE = 64
PIECE = 4 * EDGE**3  # bytes, 1 MiB
RELATIVE = (1e-3, 1e-5)
# In pieces.
MESSAGES, SHARES = (1, 8, 64, 512), (1, 8)
# A link of 1 Gbit/s takes half a second for it.
MOST_OVER_A_LINK = 64
BOOKS = ("dictionary", "custom")
# The backend of values that are in a GPU's memory.
DEVICE = "device"
# Times of a measurement at most, and seconds after which there is no other one.
ROUNDS, SECONDS = 5, 0.5
# Seconds that a job may take.
PATIENCE = 400
PAPERS = {"point-to-point": "Shah et al. 1.4-16.2", "scatter": "Shah et al. 2.2-30.5", "gather": "CEAZ, 128 nodes 37.8", "file": "CEAZ, 128 nodes 28.9"}
COLUMNS = ("link", "experiment", "mib", "relative", "backend", "books", "ratio", "plain_s", "seconds", "factor", "compress_gbs", "decompress_gbs", "link_gbs")


# 1. A rank


class HostMemory:
    """Where values are: arrays of numpy, which go as they are."""

    def __init__(self) -> None:
        # After QUIRE_BACKEND is set, as they read it.
        from h5z_quire.arrays import compress_batch
        from h5z_quire.library import decompress_batch

        self.compress: Callable[[list[Any], str], list[bytes]] = compress_batch
        self.decompress: Callable[[list[np.ndarray], list[Any]], None] = decompress_batch

    def placed(self, values: np.ndarray) -> Any:
        """An array here with these values."""
        return values

    def landing(self, room: Any) -> np.ndarray:
        """Memory of the host for plain values that are to be in `room`."""
        return room

    def to_host(self, values: Any) -> np.ndarray:
        """Plain values, to be sent."""
        return values

    def from_host(self, landed: np.ndarray, room: Any) -> Any:
        """Plain values that have landed."""
        return room


class DeviceMemory(HostMemory):
    """Arrays of CuPy. Plain values are copied through pinned memory, which is made before anything is timed."""

    def __init__(self) -> None:
        import cupy
        import cupyx
        from h5z_quire import device_arrays, library
        from h5z_quire.arrays import compress_batch
        from h5z_quire.element_types import type_number

        self.cupy, self.compress = cupy, compress_batch
        self.pinned = lambda values: cupyx.empty_pinned(values.shape, values.dtype)
        # By the address of the values.
        self.outgoing: dict[int, np.ndarray] = {}
        number = type_number(np.dtype(np.float32))

        def decompress(streams: list[np.ndarray], room: list[Any]) -> None:
            library.device_decompress(number, [(stream.ctypes.data, stream.nbytes) for stream in streams], [device_arrays.find(piece) for piece in room])

        self.decompress = decompress

    def placed(self, values: np.ndarray) -> Any:
        return self.cupy.asarray(values)

    def landing(self, room: Any) -> np.ndarray:
        return self.pinned(room)

    def to_host(self, values: Any) -> np.ndarray:
        # One message is sent at a time.
        if values.data.ptr not in self.outgoing:
            self.outgoing = {values.data.ptr: self.pinned(values)}
        return values.get(out=self.outgoing[values.data.ptr])

    def from_host(self, landed: np.ndarray, room: Any) -> Any:
        room.set(landed)
        self.cupy.cuda.get_current_stream().synchronize()
        return room


def groups(backends: list[str]) -> list[tuple[str, str]]:
    return [(backend, books) for backend in backends for books in BOOKS]


def stop_unless_on_two_sides(world: Any, near: int) -> None:
    """Ends the job unless the first `near` ranks are in one network namespace and all others in another one."""
    spaces = world.allgather(os.readlink("/proc/self/ns/net"))
    sides = [sorted(set(spaces[:near])), sorted(set(spaces[near:]))]
    if max(map(len, sides)) > 1 or sides[0] == sides[1]:
        if world.rank == 0:
            # In one piece: mpirun kills the others, who say nothing.
            text = f"error: mpirun has not put the ranks on two sides of the link: ranks 0 to {near - 1} are in {sides[0]}, the others in {sides[1]}\n"
            os.write(sys.stderr.fileno(), text.encode())
            world.Abort(1)
        world.Barrier()


class Rank:
    """A process of a job, in one of its groups."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from mpi4py import MPI

        self.mpi, world, ranks = MPI, MPI.COMM_WORLD, settings["ranks"]
        kinds = groups(settings["backends"])
        if settings["link"] != "shared":
            stop_unless_on_two_sides(world, len(kinds))
        # The first ranks of all groups come first: they are on one side of the link.
        number = world.rank if world.rank < len(kinds) else (world.rank - len(kinds)) // (ranks - 1)
        self.backend, self.books = kinds[number]
        os.environ.update(QUIRE_BACKEND="auto" if self.backend == DEVICE else self.backend, QUIRE_CODEBOOK=self.books)
        self.memory = DeviceMemory() if self.backend == DEVICE else HostMemory()
        self.world, self.group, self.turns, self.number = world, world.Split(number), len(kinds), number
        folder = Path(settings["folder"])
        field = np.load(folder / "field.npy", mmap_mode="r")
        parts = field.shape[0] // EDGE
        self.pieces = field.reshape(parts, EDGE, parts, EDGE, parts, EDGE).transpose(0, 2, 4, 1, 3, 5).reshape(-1, EDGE, EDGE, EDGE)
        self.span, self.file, self.settings = float(np.load(folder / "span.npy")), settings["file"], settings
        self.options = ""
        self.spent = {"compress": 0.0, "decompress": 0.0, "bytes": 0.0}

    def values(self, first: int, count: int) -> np.ndarray:
        """A message of so many pieces of the field."""
        return self.pieces[np.arange(first, first + count) % len(self.pieces)]

    def compress(self, values: Any) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of the pieces' streams, and the streams one after another."""
        start = time.perf_counter()
        streams = self.memory.compress(list(values), self.options)
        lengths, joined = np.array([len(stream) for stream in streams], np.int64), np.frombuffer(b"".join(streams), np.uint8)
        self.spent["compress"] += time.perf_counter() - start
        self.spent["bytes"] = float(joined.nbytes)
        return lengths, joined

    def decompress(self, lengths: np.ndarray, joined: np.ndarray, room: Any) -> Any:
        """The values, in the room for them."""
        start = time.perf_counter()
        ends = np.cumsum(lengths)
        self.memory.decompress([joined[end - length : end] for end, length in zip(ends, lengths)], list(room))
        self.spent["decompress"] += time.perf_counter() - start
        return room

    # The experiments. Each gives what this rank has received, and what that is to be.

    def point_to_point(self, count: int, plain: bool) -> tuple[Any, Any]:
        comm = self.group
        if comm.rank > 1:
            return None, None
        if comm.rank == 0:
            values = self.sent
            if plain:
                comm.Send(self.memory.to_host(values), 1)
            else:
                lengths, joined = self.compress(values)
                comm.Send(lengths, 1)
                comm.Send(joined, 1)
            comm.recv(source=1)
            return None, None
        if plain:
            comm.Recv(self.landing, 0)
            received = self.memory.from_host(self.landing, self.room)
        else:
            lengths = np.empty(count, np.int64)
            comm.Recv(lengths, 0)
            joined = np.empty(lengths.sum(), np.uint8)
            comm.Recv(joined, 0)
            received = self.decompress(lengths, joined, self.room)
        comm.send(None, 0)
        return received, self.sent

    def scatter(self, count: int, plain: bool) -> tuple[Any, Any]:
        comm, ranks = self.group, self.group.size
        if plain:
            comm.Scatter(self.memory.to_host(self.all) if comm.rank == 0 else None, self.landing)
            return self.memory.from_host(self.landing, self.room), self.sent
        lengths, every, joined = np.empty(count, np.int64), None, None
        if comm.rank == 0:
            every, joined = self.compress(self.all)
        comm.Scatter(every, lengths)
        own = np.empty(lengths.sum(), np.uint8)
        comm.Scatterv([joined, every.reshape(ranks, count).sum(1), self.mpi.BYTE] if comm.rank == 0 else None, own)
        return self.decompress(lengths, own, self.room), self.sent

    def gather(self, count: int, plain: bool) -> tuple[Any, Any]:
        comm, ranks = self.group, self.group.size
        if plain:
            comm.Gather(self.memory.to_host(self.sent), self.landing)
            return (self.memory.from_host(self.landing, self.room) if comm.rank == 0 else None), self.all
        lengths, joined = self.compress(self.sent)
        every = np.empty(ranks * count, np.int64) if comm.rank == 0 else None
        comm.Gather(lengths, every)
        if comm.rank:
            comm.Gatherv(joined, None)
            return None, None
        streams = np.empty(every.sum(), np.uint8)
        comm.Gatherv(joined, [streams, every.reshape(ranks, count).sum(1), self.mpi.BYTE])
        return self.decompress(every, streams, self.room), self.all

    def write_file(self, count: int, plain: bool) -> tuple[Any, Any]:
        """One file, written together and brought to the disk. It is read again when the first one is checked."""
        comm = self.group
        lengths, own = (np.zeros(0, np.int64), self.memory.to_host(self.sent).view(np.uint8).reshape(-1)) if plain else self.compress(self.sent)
        start = comm.exscan(own.nbytes) or 0
        target = self.mpi.File.Open(comm, self.file + str(self.number), self.mpi.MODE_CREATE | self.mpi.MODE_RDWR)
        target.Set_size(0)
        target.Write_at_all(start, own)
        target.Sync()
        if not self.checks:
            target.Close()
            return None, None
        read = np.empty_like(own)
        target.Read_at_all(start, read)
        target.Close()
        if plain:
            return self.memory.placed(read.view(np.float32).reshape(self.sent.shape)), self.sent
        return self.decompress(lengths, read, self.room), self.sent

    def prepare(self, name: str, count: int) -> None:
        """The values of an experiment: of all ranks, what this rank sends, and room for what it receives."""
        comm, placed = self.group, self.memory.placed
        alone = name == "point-to-point"
        self.all = placed(self.values(0, count * comm.size)) if name in ("scatter", "gather") and comm.rank == 0 else None
        self.sent = None if alone and comm.rank > 1 else placed(self.values(0 if alone else comm.rank * count, count))
        # Only the first rank receives what is gathered. Written to once, as new memory is slow.
        received = self.all if name == "gather" else self.sent
        self.room = None if received is None else placed(np.ones(received.shape, np.float32))
        self.landing = None if received is None else self.memory.landing(self.room)

    def in_turns(self) -> Iterator[bool]:
        """Whether it is this group's turn, for all turns. The others sleep."""
        for turn in range(self.turns):
            yield turn == self.number
            request = self.world.Ibarrier()
            while not request.Test():
                time.sleep(0.001)

    def measure(self, name: str, count: int, relative: float, plain: bool) -> tuple[float, float, float, float]:
        """Seconds; of them those in compressing and decompressing, of the rank that was longest there; ratio."""
        bound = relative * self.span
        self.options = f"abs={bound!r}"
        do: Callable[[int, bool], tuple[Any, Any]] = {
            "point-to-point": self.point_to_point, "scatter": self.scatter, "gather": self.gather, "file": self.write_file,
        }[name]  # fmt: skip
        self.checks = True
        received, expected = do(count, plain)
        if received is not None:
            errors = abs(received.astype(np.float64) - expected)
            if not (errors <= (0 if plain else bound)).all():
                raise RuntimeError(f"{name}, {count} MiB: the bound {bound:g} is broken: {errors.max():g}")
        self.checks = False
        times: list[tuple[float, float, float]] = []
        while len(times) < ROUNDS and sum(taken for taken, _, _ in times) < SECONDS:
            self.spent.update(compress=0.0, decompress=0.0)
            self.group.Barrier()
            start = time.perf_counter()
            do(count, plain)
            own = (time.perf_counter() - start, self.spent["compress"], self.spent["decompress"])
            times.append(tuple(max(part) for part in zip(*self.group.allgather(own))))
        stream = self.group.allreduce(self.spent["bytes"] if not plain else 0)
        sent = PIECE * count * (1 if name == "point-to-point" else self.group.size)
        self.spent["bytes"] = 0.0
        return (*(median(part) for part in zip(*times)), 1.0 if plain else sent / stream)

    def run(self) -> None:
        lines = []
        for name in self.settings["experiments"]:
            sizes = MESSAGES if name == "point-to-point" else SHARES
            for count in (size for size in sizes if size <= self.settings["most"]):
                self.prepare(name, count)
                plain = 0.0
                for is_own in self.in_turns():
                    if not is_own:
                        continue
                    plain = self.measure(name, count, RELATIVE[0], True)[0]
                    for relative in RELATIVE:
                        taken, compress, decompress, ratio = self.measure(name, count, relative, False)
                        ranks = self.group.size
                        made = PIECE * count * (ranks if name == "scatter" else 1)
                        read = PIECE * count * (ranks if name == "gather" else 1)
                        moved = PIECE * count * (ranks - 1 if name in ("scatter", "gather") else ranks if name == "file" else 1)
                        lines.append(
                            (self.settings["link"], name, count, relative, self.backend, self.books, ratio, plain, taken, plain / taken,
                             made / compress / 1e9, read / decompress / 1e9 if decompress else math.nan, moved / plain / 1e9)
                        )  # fmt: skip
        if self.group.rank == 0:
            with open(Path(self.settings["folder"]) / f"figures{self.number}", "a") as figures:
                figures.writelines(json.dumps(line) + "\n" for line in lines)
        if self.world.rank == 0:
            version = self.mpi.Get_library_version().split(",")[0]
            (Path(self.settings["folder"]) / "versions").write_text(f"{version}, numpy {np.__version__}, Python {sys.version.split()[0]}")


# 2. Links

NAMESPACES, ADDRESSES = ("quire0", "quire1"), ("10.99.0.1", "10.99.0.2")
# Bytes that the token bucket holds: some of the largest packets, and a small part of the smallest message.
BUCKET = 1 << 18
# What mpirun calls in place of ssh: the first argument is the host, the rest the command. The other side has a name of its own, so that Open MPI does not
# take both for one machine.
AGENT = """#!/bin/sh
shift
export TMPDIR={folder}/other
exec ip netns exec quire1 unshare --uts sh -c "echo quire1 >/proc/sys/kernel/hostname; $*"
"""


def call(command: str) -> None:
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


@contextmanager
def link(speed: str, folder: Path, near: int, far: int) -> Iterator[list[str]]:
    """The beginning of a command that runs a job over a link: `near` ranks on one side, `far` on the other."""
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    if speed == "shared":
        yield [*start, "-n", str(near + far)]
        return
    agent = folder / "agent"
    agent.write_text(AGENT.format(folder=folder))
    agent.chmod(0o755)
    (folder / "other").mkdir(exist_ok=True)
    for name in NAMESPACES:
        call(f"ip netns add {name}")
    try:
        call("ip link add quire0 netns quire0 type veth peer name quire1 netns quire1")
        bits = float(speed) * 1e9
        for name, address in zip(NAMESPACES, ADDRESSES):
            inside = f"ip netns exec {name}"
            call(f"{inside} ip address add {address}/24 dev {name}")
            call(f"{inside} ip link set {name} up")
            call(f"{inside} ip link set lo up")
            call(f"{inside} tc qdisc add dev {name} root tbf rate {bits:.0f}bit burst {BUCKET} latency 20ms")
        network = "10.99.0.0/24"
        hosts = f"{ADDRESSES[0]}:{near},{ADDRESSES[1]}:{far}"
        options = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(agent), "--mca", "oob_tcp_if_include", network, "--mca", "btl_tcp_if_include", network]
        options += ["--mca", "btl", "self,vader,tcp", "--mca", "pml", "ob1", "--host", hosts, "-n", str(near + far)]
        yield ["ip", "netns", "exec", NAMESPACES[0], *start, *options]
    finally:
        for name in NAMESPACES:
            call(f"ip netns delete {name}")


# 3. The table


def measure(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    from gpu import velocity
    from paper import step

    step("field")
    field = velocity()
    np.save(folder / "field.npy", field)
    np.save(folder / "span.npy", float(field.max()) - float(field.min()))
    kinds = groups(arguments.backends.split(","))
    # An Open MPI may have been told by the environment to stay on one machine.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
    environment |= {"PYTHONPATH": str(arguments.package.resolve()), "OMP_NUM_THREADS": "1"}
    for speed in arguments.links.split(","):
        experiments = [name for name in arguments.experiments.split(",") if name != "file" or speed == "shared"]
        settings = {
            "folder": str(folder), "ranks": arguments.ranks, "backends": arguments.backends.split(","), "experiments": experiments, "link": speed,
            "most": arguments.most if speed == "shared" else min(arguments.most, MOST_OVER_A_LINK), "file": str(arguments.file / "quire-messages"),
        }  # fmt: skip
        step(f"{speed}: {len(kinds)} groups of {arguments.ranks} ranks")
        with link(speed, folder, len(kinds), len(kinds) * (arguments.ranks - 1)) as start:
            # The other side has another environment.
            exported = [part for name in ("PYTHONPATH", "OMP_NUM_THREADS") for part in ("-x", name)]
            command = [*start, *exported, sys.executable, "-m", "mpi4py", str(Path(__file__).resolve()), "rank", json.dumps(settings)]
            done = subprocess.run(command, env=environment, timeout=PATIENCE)
            if done.returncode:
                raise SystemExit(f"error: {shlex.join(command)} ended with {done.returncode}, see above")
    lines = [json.loads(line) for file in sorted(folder.glob("figures*")) for line in file.read_text().splitlines()]
    order = {speed: number for number, speed in enumerate(arguments.links.split(","))}
    rows = [dict(zip(COLUMNS, line)) for line in lines]
    return sorted(rows, key=lambda row: (list(PAPERS).index(row["experiment"]), order[row["link"]], row["mib"], -row["relative"], row["backend"]))


def crossing(ratio: float, compress: float, decompress: float) -> float:
    """GB/s of the link below which a compressed message arrives earlier."""
    return (1 - 1 / ratio) / (1 / compress + 1 / decompress)


def predicted(speed: float, ratio: float, compress: float, decompress: float, copies: int = 1, compresses: int = 1, decompresses: int = 1) -> float:
    """The factor of a message, or of `copies` of them over one link, with a link of `speed` GB/s. Their compression by one side, or decompression, counts
    as often as that side has to do it."""
    return copies / speed / (compresses / compress + copies / (ratio * speed) + decompresses / decompress)


def report(rows: list[dict[str, Any]], arguments: argparse.Namespace, versions: str) -> str:
    from paper import machine

    lines = [
        measured(),
        f"command: h5-samples/mpi_messages.py {shlex.join(sys.argv[1:])}",
        f"machine: {machine()}",
        f"made by: {versions}",
        f"data:    pieces of 64^3 f32 (1 MiB) of a turbulence field; bounds are shares of its range. Groups of {arguments.ranks} ranks",
        f"file:    written by MPI_File_write_at_all and synced, in {arguments.file}",
    ]
    messages = [row for row in rows if row["experiment"] == "point-to-point"]
    if messages:
        lines += ["", "bandwidth reached without compression, GB/s of the largest point-to-point message"]
    for speed in dict.fromkeys(row["link"] for row in messages):
        own = [row for row in messages if row["link"] == speed]
        top = max(row["mib"] for row in own)
        reached = median(row["link_gbs"] for row in own if row["mib"] == top)
        lines.append(f"  {'shared memory' if speed == 'shared' else f'{speed} Gbit/s':<14}{reached:7.3f}  ({8 * reached:.2f} Gbit/s, {top} MiB)")
    lines += [
        "",
        "factor: seconds of plain values / seconds with compression. model: of ratio, speeds of both sides and the bandwidth that plain values reach",
        f"{'experiment':<15}{'link':>7}{'MiB':>5} {'bound':<7}{'':<7}{'codebooks':<11}{'ratio':>6}{'plain, s':>10}{'with, s':>9}{'factor':>8}{'model':>7}"
        f"{'compress, GB/s':>16}{'decompress':>11}",
    ]
    experiment = ""
    for row in rows:
        if row["experiment"] != experiment:
            experiment = row["experiment"]
            lines.append(f"{experiment}: {PAPERS[experiment]} times")
        lines.append(
            f"{experiment:<15}{row['link']:>7}{row['mib']:>5} {row['relative']:<7g}{row['backend']:<7}{row['books']:<11}{row['ratio']:>6.1f}{row['plain_s']:>10.4f}"
            f"{row['seconds']:>9.4f}{row['factor']:>8.2f}{modelled(row, arguments.ranks):>7}{row['compress_gbs']:>16.2f}{row['decompress_gbs']:>11.2f}"
        )
    if messages:
        lines += ["", *where_it_pays(messages, arguments)]
    return "\n".join(lines) + "\n"


def modelled(row: dict[str, Any], ranks: int) -> str:
    """The factor by the model. Files have no other side."""
    if row["experiment"] == "file":
        return f"{1 / (row['link_gbs'] / row['compress_gbs'] / ranks + 1 / row['ratio']):.2f}"
    copies = 1 if row["experiment"] == "point-to-point" else ranks - 1
    compresses, decompresses = (ranks, 1) if row["experiment"] == "scatter" else (1, ranks) if row["experiment"] == "gather" else (1, 1)
    return f"{predicted(row['link_gbs'], row['ratio'], row['compress_gbs'], row['decompress_gbs'], copies, compresses, decompresses):.2f}"


def where_it_pays(own: list[dict[str, Any]], arguments: argparse.Namespace) -> list[str]:
    """Of point-to-point messages: crossings, measured and modelled, and the model beyond what was measured."""
    lines = [
        "Where compression pays: a message of n bytes takes n/L over a link of L bytes/s, and n/C + n/(R L) + n/D with compression at C, ratio R and",
        "decompression at D. So it pays below L = (1 - 1/R) / (1/C + 1/D). Point-to-point, the largest message that all links have:",
        f"{'bound':<7}{'':<7}{'codebooks':<11}{'ratio':>6}{'C, GB/s':>9}{'D, GB/s':>9}{'crossing, Gbit/s: model':>25}{'measured':>10}",
    ]
    links = arguments.links.split(",")
    size = min(max(row["mib"] for row in own if row["link"] == speed) for speed in links)
    models = ["", "MODEL, not measured: the factor by this formula, with R, C and D of the line above it; gather: 127 ranks send to one, which decompresses all"]
    models.append(f"{'':<32}" + "".join(f"{speed:>16} Gbit/s" for speed in (10, 25, 100, 400)))
    for relative in RELATIVE:
        for backend, books in groups(arguments.backends.split(",")):
            lines_of = [row for row in own if (row["mib"], row["relative"], row["backend"], row["books"]) == (size, relative, backend, books)]
            ratio, compress, decompress = (median(row[key] for row in lines_of) for key in ("ratio", "compress_gbs", "decompress_gbs"))
            points = sorted((8 * row["link_gbs"], row["factor"]) for row in lines_of)
            found = measured_crossing(points)
            name = f"{relative:<7g}{backend:<7}{books:<11}"
            lines.append(f"{name}{ratio:>6.1f}{compress:>9.2f}{decompress:>9.2f}{8 * crossing(ratio, compress, decompress):>25.1f}{found:>10}")
            cells = [
                f"{predicted(speed / 8, ratio, compress, decompress):>10.2f} /{predicted(speed / 8, ratio, compress, decompress, 127, 1, 127):>6.2f}     "
                for speed in (10, 25, 100, 400)
            ]
            models.append(f"{name} p-to-p / gather " + "".join(cells))
    return [*lines, *models]


def measured_crossing(points: list[tuple[float, float]]) -> str:
    """Gbit/s at which the factor is 1, between the links on both sides of it."""
    for (slow, before), (fast, after) in zip(points, points[1:]):
        if before >= 1 > after:
            share = math.log(before) / math.log(before / after)
            return f"{slow * (fast / slow) ** share:.1f}"
    return f"> {points[-1][0]:.1f}" if points[-1][1] >= 1 else f"< {points[0][0]:.1f}"


def plot(picture: Path, tables: list[Path]) -> None:
    """The factor of the largest messages by the bandwidth that plain values reach; the papers' factors are drawn as bands and lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for table in tables for row in csv.DictReader(table.read_text().splitlines()[1:])]
    bands = {"point-to-point": (1.4, 16.2), "scatter": (2.2, 30.5), "gather": (37.8, 37.8)}
    figure, axes = plt.subplots(1, len(bands), figsize=(14, 4.5), sharey=True)
    kinds = list(dict.fromkeys((row["relative"], row["backend"], row["books"]) for row in rows))
    for axis, (name, (low, high)) in zip(axes, bands.items()):
        axis.axhspan(low, high * 1.01, color="0.85", label=PAPERS[name])
        for color, kind in enumerate(kinds):
            own = [row for row in rows if row["experiment"] == name and (row["relative"], row["backend"], row["books"]) == kind]
            largest = {row["link"]: max(int(other["mib"]) for other in own if other["link"] == row["link"]) for row in own}
            points = sorted((8 * float(row["link_gbs"]), float(row["factor"])) for row in own if int(row["mib"]) == largest[row["link"]])
            if points:
                axis.plot(*zip(*points), "o-" if kind[2] == "dictionary" else "x--", color=f"C{color // 2}", label=" ".join(kind))
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("Gbit/s that plain values reach")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    axes[0].set_ylabel("times as fast as plain values")
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, required=True, help="a folder of Python packages with h5z_quire")
    parser.add_argument("--results", type=Path, help="the table goes to this file, the figures beside it (.csv)")
    parser.add_argument("--ranks", type=int, default=16, help="of a group")
    parser.add_argument("--links", default="shared,25,10,1", help="shared: shared memory; a number: a token bucket of so many Gbit/s")
    parser.add_argument("--experiments", default=",".join(PAPERS))
    parser.add_argument("--backends", default="cpu", help="cpu, cuda, auto; device: values begin and end in the GPU's memory")
    parser.add_argument("--most", type=int, default=512, help="MiB of the largest message; less over slow links")
    parser.add_argument("--file", type=Path, default=Path("/tmp"), help="a folder on the disk to which files are written together")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        rows = measure(arguments, Path(name))
        text = report(rows, arguments, (Path(name) / "versions").read_text())
    for number in range(len(groups(arguments.backends.split(",")))):
        (arguments.file / f"quire-messages{number}").unlink(missing_ok=True)
    print(text, end="")
    if arguments.results:
        write_results(arguments.results, text, COLUMNS, rows)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        Rank(json.loads(sys.argv[2])).run()
    elif sys.argv[1:2] == ["plot"]:
        plot(Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
    else:
        sys.exit(main())
