"""A rank of a job of mpi_messages.py: the experiments, each with plain values and with streams, and the times that they take."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness import cubes

EDGE = 64
PIECE = 4 * EDGE**3  # bytes, 1 MiB
RELATIVE = (1e-3, 1e-5)
# In pieces.
MESSAGES, SHARES = (1, 8, 64, 512), (1, 8)
BOOKS = ("dictionary", "custom")
# The backend of values that are in a GPU's memory.
DEVICE = "device"
# Times of a measurement at most, and seconds after which there is no other one.
ROUNDS, SECONDS = 5, 0.5


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
        self.pieces = cubes(np.load(Path(settings["folder"]) / "field.npy"), EDGE)
        self.span, self.file, self.settings = float(np.ptp(self.pieces)), settings["file"], settings
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
