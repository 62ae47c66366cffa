"""Many processes and one GPU: the sum of their throughput, with every backend, and what short and long processes take.

    h5-samples/measure processes [--processes 1,2,4,8,16] [--edges 64,128] [--backends cpu,cuda,auto] [--short] [--ranks 16]

Each process compresses chunks of 64^3 or 128^3 f32 of turbulence, 16 or two of them in turns. "Alone" is quire_compress, called through ctypes again and again:
a chunk goes from the process's memory to a stream from malloc, which is freed. "h5py" writes files in /dev/shm. The processes of all backends live side by
side. Those of `cuda` have the GPU open before anything is timed. Those of `auto` work for a while before each row, and open it where it has time for them.
The backends take turns to work, for short times in many rounds, as a single process's speed wanders by a fifth. Before anything is timed, each process checks
the bound of a chunk in f64, and all must have the same stream. GB/s are of uncompressed data; each figure is the median of the rounds, with all of them
behind it. "One + cores" is the sum where one process has the GPU for itself and the others have their cores: `cuda` of one process, and of this row's `cpu`
the share of all processes but one.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

from dataset import Dataset
from filter_call import REVERSE, Bytes, Plugin, chunk_words
from harness import Field, Remote, Report, check, cubes, in_turns, parser, plugin_file, quire, seconds, step, velocity

RELATIVE = (1e-3, 1e-4)
# Chunks of the field that a process takes in turns, by their extent.
CHUNKS = {64: 16, 128: 2}
# Seconds of work of `auto` before all and before each row, in which it opens the GPU; of all before each time that is taken; and those that are taken.
WARM_SECONDS, ROW_SECONDS, LEAD_SECONDS, SECONDS = 5.0, 1.0, 0.02, 0.1
# Where `auto` has less than this share of the better one of the others, this number of rounds follows.
DOUBTFUL, DOUBTFUL_ROUNDS = 0.97, 2
# The type of values that quire_compress is called with.
QUIRE_F32 = 0


class Worker:
    """A process's side."""

    def __init__(self, folder: Path, number: int) -> None:
        field = np.load(folder / "field.npy", mmap_mode="r")
        self.span = float(np.ptp(field))
        self.chunks = {}
        for edge, count in CHUNKS.items():
            parts = cubes(field, edge)
            self.chunks[edge] = parts[(number * 5 + np.arange(count)) % len(parts)]
        self.examples = {edge: np.ascontiguousarray(field[:edge, :edge, :edge]) for edge in CHUNKS}
        self.plugin = Plugin(plugin_file())
        self.file = folder / f"{os.getpid()}.h5"

    def check(self) -> str:
        """A sum of the streams of the field's first chunk of each extent, whose bounds hold."""
        digest = hashlib.sha256()
        for (edge, example), relative in itertools.product(self.examples.items(), RELATIVE):
            bound = relative * self.span
            trip = self.plugin.round_trip(f"abs={bound!r}", example)
            digest.update(trip.stream.tobytes())
            if self.compressed(example, relative) != trip.stream.tobytes():
                raise RuntimeError("quire_compress and filter() make different streams")
            check(Field(f"{edge}^3", example), trip.decoded, bound)
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
        result = stream.content()
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
        array = self.chunks[edge].reshape(-1, edge, edge)
        data = Dataset(self.file, (edge,) * 3, quire(f"abs={relative * self.span!r}"))

        def write() -> int:
            data.write(array)
            return array.nbytes

        return write

    def speed(self, what: str, edge: int, relative: float, lead: float, taken: float, start: float) -> float:
        """GB/s. All processes begin together."""
        work = getattr(self, what)(edge, relative)
        time.sleep(max(0.0, start - time.time()))
        gigabytes_a_second(work, lead)
        return gigabytes_a_second(work, taken)


def gigabytes_a_second(work: Callable[[], int], limit: float) -> float:
    start, done = time.perf_counter(), 0
    while (taken := time.perf_counter() - start) < limit:
        done += work()
    return done / max(taken, 1e-9) / 1e9


def together(remotes: list[Remote], what: str, edge: int, relative: float, lead: float = LEAD_SECONDS, taken: float = SECONDS) -> float:
    """The sum of GB/s."""
    start = time.time() + 0.03
    for remote in remotes:
        remote.ask("speed", what, edge, relative, lead, taken, start)
    return sum(remote.answer() for remote in remotes)


def rows(remotes: dict[str, list[Remote]], ways: list[str], edges: list[int], counts: list[int], rounds: int) -> Iterator[list[object]]:
    yield ["", "", "bound", "processes", *remotes, "auto / better", "one + cores", "all rounds"]
    of_one: dict[tuple[str, int, float], float] = {}
    for what, edge, relative, count in itertools.product(ways, edges, RELATIVE, counts):
        calls = {backend: functools.partial(together, own[:count], what, edge, relative) for backend, own in remotes.items()}
        if "auto" in calls:
            calls["auto"](0, ROW_SECONDS)
        speeds = in_turns(calls, rounds)
        better, ratio = [backend for backend in calls if backend != "auto"], None
        if better and "auto" in calls:
            ratio = median(speeds["auto"]) / max(median(speeds[backend]) for backend in better)
            if ratio < DOUBTFUL:
                speeds = {backend: speeds[backend] + more for backend, more in in_turns(calls, DOUBTFUL_ROUNDS).items()}
                ratio = median(speeds["auto"]) / max(median(speeds[backend]) for backend in better)
        middle = {backend: median(own) for backend, own in speeds.items()}
        if count == 1 and "cuda" in middle:
            of_one[what, edge, relative] = middle["cuda"]
        one = of_one.get((what, edge, relative))
        total = f"{one + middle['cpu'] * (count - 1) / count:.1f}" if one and "cpu" in middle else ""
        every = "; ".join(f"{backend} " + " ".join(f"{speed:.1f}" for speed in own) for backend, own in speeds.items())
        cells = (f"{speed:.1f}" for speed in middle.values())
        yield [what, f"{edge}^3", f"{relative:g}", count, *cells, "" if ratio is None else f"{ratio:.2f}", total, every]


# Whole processes


def one(folder: str, chunks: str) -> None:
    """A process that compresses so many chunks: a few through h5py, many by filter()."""
    field, count = np.load(Path(folder) / "field.npy", mmap_mode="r"), int(chunks)
    chunk, bound = np.ascontiguousarray(field[:64, :64, :64]), 1e-4 * float(np.ptp(field))
    if count <= 4:
        Dataset(Path(folder) / "one.h5", (64,) * 3, quire(f"abs={bound!r}")).write(np.concatenate([chunk] * count))
    else:
        plugin, words = Plugin(plugin_file()), chunk_words(f"abs={bound!r}", chunk.shape)
        for _ in range(count):
            plugin.call(0, words, chunk)


def whole_processes(report: Report, folder: Path, backends: list[str], chunks: int, repeats: int) -> None:
    """Seconds of processes, from their start to their end."""

    def run(backend: str) -> float:
        command = [sys.executable, __file__, "one", str(folder), str(chunks)]
        return seconds(lambda: subprocess.run(command, env=os.environ | {"QUIRE_BACKEND": backend}, check=True))

    taken = in_turns({backend: functools.partial(run, backend) for backend in backends}, repeats)
    report.say(
        "", f"a process that compresses {chunks} chunks of 64^3 at 1e-4 {'through h5py' if chunks <= 4 else 'by filter()'}, s from start to end: median (all)"
    )
    report.table([backend, f"{median(own):.3f}", f"({' '.join(f'{one:.3f}' for one in own)})"] for backend, own in taken.items())


# Ranks of MPI

# Chunks of 64^3 that a rank compresses, or decompresses, before it meets the others; the seconds that ranks do so with each backend; and windows of them.
MEET_AFTER, RANK_SECONDS = 8, {"cpu": 4.0, "cuda": 3.0, "auto": 12.0}
WINDOWS = ((0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 8.0), (8.0, 1e9))


def meet(folder: str, limit: str) -> None:
    """A rank of MPI: all compress their chunks and meet, decompress them and meet."""
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD
    worker = Worker(Path(folder), ranks.rank)
    words = chunk_words(f"abs={RELATIVE[0] * worker.span!r}", (64,) * 3)
    chunks = worker.chunks[64][:MEET_AFTER]
    ranks.Barrier()
    begun, rounds, is_over = time.perf_counter(), [], False
    while not is_over:
        ranks.Barrier()
        times, streams = [time.perf_counter()], [worker.plugin.run(0, words, chunk)[1] for chunk in chunks]
        ranks.Barrier()
        times.append(time.perf_counter())
        for stream in streams:
            worker.plugin.call(REVERSE, words, stream)
        ranks.Barrier()
        times.append(time.perf_counter())
        rounds.append((times[0] - begun, times[1] - times[0], times[2] - times[1]))
        is_over = ranks.bcast(times[2] - begun > float(limit))
    if ranks.rank == 0:
        on_card = memory_on_the_card()
        size = ranks.size * sum(chunk.nbytes for chunk in chunks) / 1e9
        for first, last in WINDOWS:
            if own := [times for times in rounds if first <= times[0] < last]:
                write, read = (size / median(times[way] for times in own) for way in (1, 2))
                window = f"{first:g} s to {last:g}" if last < 1e9 else f"from {first:g} s"
                print(f"{os.environ['QUIRE_BACKEND']:>8} {window:<12} {len(own):>5} rounds {write:>8.2f} {read:>8.2f}", flush=True)
        print(f"{'':8} memory in use on the card after that: {on_card}", flush=True)


def ranks_that_meet(report: Report, folder: Path, backends: list[str], ranks: int) -> None:
    """GB/s of ranks that wait for the slowest."""
    report.say("", f"{ranks} ranks that meet after every {MEET_AFTER} chunks of 64^3 at 1e-3: medians of rounds, by the time since they began")
    report.say(f"{'':<34}{'compress':>10}{'decompress':>11}, GB/s")
    for backend in backends:
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
        command += [sys.executable, __file__, "meet", str(folder), str(RANK_SECONDS[backend])]
        report.say(*subprocess.run(command, env=os.environ | {"QUIRE_BACKEND": backend}, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines())


def memory_on_the_card() -> str:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "not known"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--processes", default="1,2,4,8,16")
    options.add_argument("--backends", default="cpu,cuda,auto")
    options.add_argument("--edges", default=",".join(map(str, CHUNKS)), help="extents of chunks")
    options.add_argument("--ways", default="alone,h5py")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--short", action="store_true", help="measure whole processes as well: four chunks, and 4 GB")
    options.add_argument("--ranks", type=int, help="measure as many ranks of MPI as well, which meet after every few chunks; needs mpirun and mpi4py")
    arguments = options.parse_args()
    counts, edges = ([int(number) for number in text.split(",")] for text in (arguments.processes, arguments.edges))
    backends = arguments.backends.split(",")
    report = Report("processes", arguments.results, *["with MPS"] * ("CUDA_MPS_PIPE_DIRECTORY" in os.environ), "")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        step("field")
        np.save(folder / "field.npy", velocity())
        step("starting")
        before = memory_on_the_card()
        remotes = {backend: [Remote({"QUIRE_BACKEND": backend}, Worker, folder, number) for number in range(max(counts))] for backend in backends}
        for remote in itertools.chain(*remotes.values()):
            remote.ask("check")
        if len({remote.answer() for remote in itertools.chain(*remotes.values())}) != 1:
            raise RuntimeError("the processes make different streams")
        for backend, own in remotes.items():
            speed = together(own, "alone", 64, RELATIVE[1], 0, WARM_SECONDS if backend == "auto" else 0.5)
            step(f"warming up {backend}: {speed:.1f} GB/s, {memory_on_the_card()} on the card")
        report.say(f"memory in use on the card: {before} before, {memory_on_the_card()} after warming up", "")
        report.table(rows(remotes, arguments.ways.split(","), edges, counts, arguments.rounds), 3)
        for remote in itertools.chain(*remotes.values()):
            remote.stop()
        if arguments.ranks:
            ranks_that_meet(report, folder, backends, arguments.ranks)
        if arguments.short:
            whole_processes(report, folder, backends, 4, 9)
            whole_processes(report, folder, backends, 4000, 2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(*sys.argv[2:])
    elif sys.argv[1:2] == ["meet"]:
        meet(*sys.argv[2:])
    else:
        main()
