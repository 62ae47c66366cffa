"""Many processes and one GPU: the sum of their throughput, with every backend, and what short and long processes take.

    h5-samples/processes.py --plugin FOLDER [--results FILE] [--processes 1,2,4,8,16] [--edges 64,128] [--backends cpu,cuda,auto] [--short] [--ranks 16]

Each process compresses chunks of 64^3 or 128^3 f32 of turbulence, 16 or two of them in turns. "Alone" is quire_compress, called through ctypes again and again:
a chunk goes from the process's memory to a stream from malloc, which is freed. "h5py" writes files in /dev/shm. The processes of all backends live side by
side. Those of `cuda` have the GPU open before anything is timed. Those of `auto` work for a while before each row, and open it where it has time for them.
The backends take turns to work, for short times in many rounds, as a single process's speed wanders by a fifth. Before anything is timed, each process checks
the bound of a chunk in f64, and all must have the same stream. GB/s are of uncompressed data; each figure is the median of the rounds, with all of them
behind it. "One + cores" is the sum where one process has the GPU for itself and the others have their cores: `cuda` of one process, and of this row's `cpu`
the share of all processes but one.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median

import h5py
import numpy as np

from filter_call import PLUGIN_FILE, REVERSE, Plugin, bound_words, chunk_words
from gpu import velocity
from measured import measured
from paper import FILTER, machine, step

RELATIVE = (1e-3, 1e-4)
# Chunks of the field that a process takes in turns, by their extent.
CHUNKS = {64: 16, 128: 2}
# Seconds of work of `auto` before all and before each row, in which it opens the GPU; of all before each time that is taken; and those that are taken.
WARM_SECONDS, ROW_SECONDS, LEAD_SECONDS, SECONDS = 5.0, 1.0, 0.02, 0.1
# Where `auto` has less than this share of the better one of the others, this number of rounds follows.
DOUBTFUL, DOUBTFUL_ROUNDS = 0.97, 2
# The type of values that quire_compress is called with.
QUIRE_F32 = 0


class Bytes(ctypes.Structure):
    """quire_bytes"""

    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Worker:
    """A process's side."""

    def __init__(self, folder: Path, plugin: Path, number: int) -> None:
        self.field = np.load(folder / "field.npy", mmap_mode="r")
        self.span = float(np.load(folder / "span.npy"))
        self.chunks = {edge: [self.chunk(edge, number * 5 + index) for index in range(count)] for edge, count in CHUNKS.items()}
        self.arrays = {edge: np.concatenate(chunks) for edge, chunks in self.chunks.items()}
        self.plugin = Plugin(plugin / PLUGIN_FILE)
        self.file = folder / f"{os.getpid()}.h5"

    def chunk(self, edge: int, number: int) -> np.ndarray:
        """One of the chunks of the field."""
        parts = self.field.shape[0] // edge
        first = [edge * int(index) for index in np.unravel_index(number % parts**3, (parts,) * 3)]
        return np.ascontiguousarray(self.field[tuple(slice(start, start + edge) for start in first)])

    def check(self) -> str:
        """A sum of the streams of a chunk of each extent, whose bounds hold."""
        digest = hashlib.sha256()
        for edge, relative in product(CHUNKS, RELATIVE):
            example = self.chunk(edge, 0)
            words = chunk_words(relative * self.span, example.shape)
            _, stream = self.plugin.run(0, words, example)
            digest.update(stream.tobytes())
            if self.compressed(example, relative) != stream.tobytes():
                raise RuntimeError("quire_compress and filter() make different streams")
            _, restored = self.plugin.run(REVERSE, words, stream.copy())
            errors = np.abs(restored.view(np.float32).astype(np.float64) - example.ravel())
            if not np.all(errors <= relative * self.span):
                raise RuntimeError(f"the bound {relative:g} is broken: {errors.max():g}")
        return digest.hexdigest()

    def arguments(self, chunk: np.ndarray, relative: float, stream: Bytes) -> tuple[object, ...]:
        """What quire_compress is called with."""
        extents = (ctypes.c_uint64 * chunk.ndim)(*chunk.shape)
        options = ctypes.c_char_p(f"abs={relative * self.span!r}".encode())
        values = ctypes.c_void_p(chunk.ctypes.data), ctypes.c_size_t(chunk.nbytes)
        return options, ctypes.c_uint32(QUIRE_F32), ctypes.c_uint32(chunk.ndim), extents, None, *values, ctypes.byref(stream)

    def compressed(self, chunk: np.ndarray, relative: float) -> bytes:
        """The stream that quire_compress makes of a chunk."""
        stream = Bytes()
        status = self.plugin.library.quire_compress(*self.arguments(chunk, relative, stream))
        result = ctypes.string_at(stream.address, stream.length)
        self.plugin.library.quire_free(ctypes.byref(stream))
        if status:
            raise RuntimeError(f"quire_compress failed: {result.decode()}")
        return result

    def alone(self, edge: int, relative: float) -> Callable[[], int]:
        """Compresses the next chunk, where it is, and frees the stream; gives the bytes of the chunk."""
        compress, free, stream = self.plugin.library.quire_compress, self.plugin.library.quire_free, Bytes()
        calls = itertools.cycle([self.arguments(chunk, relative, stream) for chunk in self.chunks[edge]])
        size, result = self.chunks[edge][0].nbytes, ctypes.byref(stream)

        def call() -> int:
            if compress(*next(calls)):
                raise RuntimeError("quire_compress failed: QUIRE_LOG=1 may say why")
            free(result)
            return size

        return call

    def h5py(self, edge: int, relative: float) -> Callable[[], int]:
        """Writes a file with a dataset of all chunks."""
        options = {"compression": FILTER, "compression_opts": bound_words(relative * self.span)}
        array = self.arrays[edge]

        def write() -> int:
            with h5py.File(self.file, "w") as file:
                file.create_dataset("v", data=array, chunks=(edge,) * 3, **options)
            return array.nbytes

        return write


def gigabytes_a_second(work: Callable[[], int], seconds: float) -> float:
    start, done = time.perf_counter(), 0
    while (taken := time.perf_counter() - start) < seconds:
        done += work()
    return done / max(taken, 1e-9) / 1e9


def serve(folder: str, plugin: str, number: str) -> None:
    worker = Worker(Path(folder), Path(plugin), int(number))
    print(worker.check(), flush=True)
    for line in sys.stdin:
        what, edge, relative, lead, seconds, start = line.split()
        work = getattr(worker, what)(int(edge), float(relative))
        # All begin together.
        time.sleep(max(0.0, float(start) - time.time()))
        gigabytes_a_second(work, float(lead))
        print(gigabytes_a_second(work, float(seconds)), flush=True)


class Remote:
    """The parent's end of a process."""

    def __init__(self, folder: Path, plugin: Path, backend: str, number: int) -> None:
        command = [sys.executable, __file__, "serve", str(folder), str(plugin), str(number)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env={**os.environ, "QUIRE_BACKEND": backend}, stdin=pipe, stdout=pipe, text=True)

    def ask(self, *words: object) -> None:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("a process ended, see above")
        return line


def together(remotes: list[Remote], what: str, edge: int, relative: float, lead: float = LEAD_SECONDS, seconds: float = SECONDS) -> float:
    """The sum of GB/s."""
    start = time.time() + 0.03
    for remote in remotes:
        remote.ask(what, edge, relative, lead, seconds, start)
    return sum(float(remote.answer()) for remote in remotes)


ONE = """
import sys, time; sys.path.insert(0, sys.argv[1])
import h5py, numpy as np
from pathlib import Path
from filter_call import bound_words, chunk_words, Plugin
folder, plugin, chunks = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
field, span = np.load(folder / "field.npy", mmap_mode="r"), float(np.load(folder / "span.npy"))
data = np.ascontiguousarray(field[:64, :64, :64])
if chunks <= 4:
    with h5py.File(folder / "one.h5", "w") as file:
        file.create_dataset("v", data=np.concatenate([data] * chunks), chunks=(64,) * 3, compression=33791, compression_opts=bound_words(1e-4 * span))
else:
    plugin, words = Plugin(plugin + "/libh5zquire.so"), chunk_words(1e-4 * span, data.shape)
    for _ in range(chunks): plugin.call(0, words, data)
"""


def whole_processes(folder: Path, plugin: Path, backends: list[str], chunks: int, repeats: int) -> list[str]:
    """Seconds of processes, from their start to their end."""
    times: dict[str, list[float]] = {backend: [] for backend in backends}
    for _ in range(repeats):
        for backend in backends:
            start = time.perf_counter()
            command = [sys.executable, "-c", ONE, str(Path(__file__).parent), str(folder), str(plugin.resolve()), str(chunks)]
            subprocess.run(command, env={**os.environ, "QUIRE_BACKEND": backend}, check=True)
            times[backend].append(time.perf_counter() - start)
    what = "through h5py" if chunks <= 4 else "by filter()"
    lines = [f"a process that compresses {chunks} chunks of 64^3 at 1e-4 {what}, s from start to end: median (all)"]
    lines += [f"{backend:>8} {median(own):8.3f}   ({' '.join(f'{seconds:.3f}' for seconds in own)})" for backend, own in times.items()]
    return [*lines, ""]


# Chunks of 64^3 that a rank compresses, or decompresses, before it meets the others; the seconds that ranks do so with each backend; and windows of them.
MEET_AFTER, RANK_SECONDS = 8, {"cpu": 4.0, "cuda": 3.0, "auto": 12.0}
WINDOWS = ((0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 8.0), (8.0, 1e9))


def meet(folder: str, plugin: str, seconds: str) -> None:
    """A rank of MPI: all compress their chunks and meet, decompress them and meet."""
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD
    worker = Worker(Path(folder), Path(plugin), ranks.rank)
    words = chunk_words(RELATIVE[0] * worker.span, (64,) * 3)
    chunks = worker.chunks[64][:MEET_AFTER]
    ranks.Barrier()
    begun, rounds, is_over = time.perf_counter(), [], False
    while not is_over:
        ranks.Barrier()
        times, streams = [time.perf_counter()], []
        for chunk in chunks:
            _, length = worker.plugin.call(0, words, chunk)
            streams.append(worker.plugin.bytes(length).copy())
        ranks.Barrier()
        times.append(time.perf_counter())
        for stream in streams:
            worker.plugin.call(REVERSE, words, stream)
        ranks.Barrier()
        times.append(time.perf_counter())
        rounds.append((times[0] - begun, times[1] - times[0], times[2] - times[1]))
        is_over = ranks.bcast(times[2] - begun > float(seconds))
    if ranks.rank == 0:
        on_card = memory_on_the_card()
        size = ranks.size * sum(chunk.nbytes for chunk in chunks) / 1e9
        for first, last in WINDOWS:
            if own := [times for times in rounds if first <= times[0] < last]:
                write, read = (size / median(times[way] for times in own) for way in (1, 2))
                window = f"{first:g} s to {last:g}" if last < 1e9 else f"from {first:g} s"
                print(f"{os.environ['QUIRE_BACKEND']:>8} {window:<12} {len(own):>5} rounds {write:>8.2f} {read:>8.2f}", flush=True)
        print(f"{'':8} memory in use on the card after that: {on_card}", flush=True)


def ranks_that_meet(folder: Path, plugin: Path, backends: list[str], ranks: int) -> list[str]:
    """GB/s of ranks that wait for the slowest."""
    lines = [f"{ranks} ranks that meet after every {MEET_AFTER} chunks of 64^3 at 1e-3: medians of rounds, by the time since they began"]
    lines.append(f"{'':<34}{'compress':>10}{'decompress':>11}, GB/s")
    for backend in backends:
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
        command += [sys.executable, __file__, "meet", str(folder), str(plugin), str(RANK_SECONDS[backend])]
        ended = subprocess.run(command, env={**os.environ, "QUIRE_BACKEND": backend}, check=True, stdout=subprocess.PIPE, text=True)
        lines += ended.stdout.splitlines()
    return [*lines, ""]


def memory_on_the_card() -> str:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "not known"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--plugin", type=Path, required=True, help="folder of libh5zquire.so, built with kernels")
    parser.add_argument("--results", type=Path, help="the table goes to this file as well")
    parser.add_argument("--processes", default="1,2,4,8,16")
    parser.add_argument("--backends", default="cpu,cuda,auto")
    parser.add_argument("--edges", default=",".join(map(str, CHUNKS)), help="extents of chunks")
    parser.add_argument("--ways", default="alone,h5py")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true", help="measure whole processes as well: four chunks, and 4 GB")
    parser.add_argument("--ranks", type=int, help="measure as many ranks of MPI as well, which meet after every few chunks; needs mpirun and mpi4py")
    arguments = parser.parse_args()
    plugin = arguments.plugin.resolve()
    os.environ["HDF5_PLUGIN_PATH"] = str(plugin)
    counts, edges = ([int(number) for number in text.split(",")] for text in (arguments.processes, arguments.edges))
    backends, ways = arguments.backends.split(","), arguments.ways.split(",")
    lines = [measured(), f"machine: {machine()}", f"command: h5-samples/processes.py {' '.join(sys.argv[1:])}"]
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        lines.append("with MPS")
    lines.append("")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        step("field")
        field = velocity()
        np.save(folder / "field.npy", field)
        np.save(folder / "span.npy", float(field.max() - field.min()))
        step("starting")
        before = memory_on_the_card()
        remotes = {backend: [Remote(folder, plugin, backend, number) for number in range(max(counts))] for backend in backends}
        if len({remote.answer() for own in remotes.values() for remote in own}) != 1:
            raise RuntimeError("other streams")
        for backend, own in remotes.items():
            speed = together(own, "alone", 64, RELATIVE[1], 0, WARM_SECONDS if backend == "auto" else 0.5)
            step(f"warming up {backend}: {speed:.1f} GB/s, {memory_on_the_card()} on the card")
        lines += [f"memory in use on the card: {before} before, {memory_on_the_card()} after warming up", ""]
        lines.append(f"{'':<23}{'processes':>10}" + "".join(f"{backend:>8}" for backend in backends) + "   auto / better  one + cores   all rounds")
        of_one: dict[tuple[str, int, float], float] = {}
        for what, edge, relative, count in product(ways, edges, RELATIVE, counts):
            rounds: dict[str, list[float]] = {backend: [] for backend in backends}
            if "auto" in backends:
                together(remotes["auto"][:count], what, edge, relative, 0, ROW_SECONDS)
            for more_rounds in (arguments.rounds, DOUBTFUL_ROUNDS):
                for _ in range(more_rounds):
                    for backend in backends:
                        rounds[backend].append(together(remotes[backend][:count], what, edge, relative))
                middle = {backend: median(own) for backend, own in rounds.items()}
                others = [speed for backend, speed in middle.items() if backend != "auto"]
                ratio = middle["auto"] / max(others) if others and "auto" in middle else None
                if ratio is None or ratio >= DOUBTFUL:
                    break
            share = " " * 16 if ratio is None else f"{ratio:16.2f}"
            if count == 1 and "cuda" in middle:
                of_one[what, edge, relative] = middle["cuda"]
            one = of_one.get((what, edge, relative))
            total = f"{one + middle['cpu'] * (count - 1) / count:13.1f}" if one and "cpu" in middle else " " * 13
            every = "; ".join(f"{backend} " + " ".join(f"{speed:.1f}" for speed in own) for backend, own in rounds.items())
            cells = "".join(f"{middle[backend]:8.1f}" for backend in backends)
            lines.append(f"{what:<8}{f'{edge}^3':<7}{relative:<8g}{count:>10}{cells}{share}{total}   {every}")
            print(lines[-1], flush=True)
        for own in remotes.values():
            for remote in own:
                remote.process.stdin.close()
        for own in remotes.values():
            for remote in own:
                remote.process.wait()
        lines.append("")
        if arguments.ranks:
            step(f"{arguments.ranks} ranks")
            lines += ranks_that_meet(folder, plugin, backends, arguments.ranks)
        if arguments.short:
            for chunks, repeats in ((4, 9), (4000, 2)):
                step(f"{chunks} chunks")
                lines += whole_processes(folder, plugin, backends, chunks, repeats)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.results:
        arguments.results.write_text(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    elif sys.argv[1:2] == ["meet"]:
        meet(*sys.argv[2:])
    else:
        sys.exit(main())
