"""Many processes and one GPU: the sum of their throughput, with every backend, and what short and long processes take.

    h5-samples/processes.py --plugin FOLDER [--results FILE] [--processes 1,2,4,8,16] [--backends cpu,cuda,auto] [--short]

Each process compresses chunks of 64^3 f32 of turbulence, alone (filter() as HDF5 calls it) and through h5py into /dev/shm. The processes of all backends
live side by side, and the backends take turns to work. Before anything is timed, each process checks the bound of a chunk in f64, and all must have the
same stream. GB/s are of uncompressed data; each figure is the median of the rounds, with all of them behind it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import h5py
import numpy as np

from filter_call import PLUGIN_FILE, REVERSE, Plugin, bound_words, chunk_words
from gpu import velocity
from measured import measured
from paper import FILTER, machine, step

EDGE = 64
CHUNK = EDGE**3 * 4
RELATIVE = (1e-3, 1e-4)
# Chunks of the field that a process takes in turns.
CHUNKS = 16
# Seconds that a measurement takes, and chunks before the first one: after them `auto` has the GPU open.
SECONDS, WARM_SECONDS = 0.6, 4.0


class Worker:
    """A process's side."""

    def __init__(self, folder: Path, plugin: Path, number: int) -> None:
        field = np.load(folder / "field.npy", mmap_mode="r")
        self.span = float(np.load(folder / "span.npy"))
        edges = [tuple(slice(EDGE * (index >> shift & 3), EDGE * (index >> shift & 3) + EDGE) for shift in (4, 2, 0)) for index in range(64)]
        self.example = np.ascontiguousarray(field[edges[0]])
        self.chunks = [np.ascontiguousarray(field[edges[(number * 5 + index) % 64]]) for index in range(CHUNKS)]
        self.array = np.concatenate(self.chunks)
        self.plugin = Plugin(plugin / PLUGIN_FILE)
        self.file = folder / f"{os.getpid()}.h5"

    def check(self) -> str:
        """A sum of the streams of one chunk, whose bounds hold."""
        digest = hashlib.sha256()
        for relative in RELATIVE:
            words = chunk_words(relative * self.span, self.example.shape)
            _, stream = self.plugin.run(0, words, self.example)
            digest.update(stream.tobytes())
            _, restored = self.plugin.run(REVERSE, words, stream.copy())
            errors = np.abs(restored.view(np.float32).astype(np.float64) - self.example.ravel())
            if not np.all(errors <= relative * self.span):
                raise RuntimeError(f"the bound {relative:g} is broken: {errors.max():g}")
        return digest.hexdigest()

    def alone(self, relative: float, seconds: float) -> float:
        """GB/s of filter(), with the copy into its buffer that HDF5 makes, too."""
        words = chunk_words(relative * self.span, self.example.shape)
        start, done = time.perf_counter(), 0
        while (taken := time.perf_counter() - start) < seconds:
            self.plugin.call(0, words, self.chunks[done % CHUNKS])
            done += 1
        return done * CHUNK / taken / 1e9

    def h5py(self, relative: float, seconds: float) -> float:
        """GB/s of writing datasets of all chunks, one file each time."""
        options = {"compression": FILTER, "compression_opts": bound_words(relative * self.span)}
        start, done = time.perf_counter(), 0
        while (taken := time.perf_counter() - start) < seconds:
            with h5py.File(self.file, "w") as file:
                file.create_dataset("v", data=self.array, chunks=(EDGE,) * 3, **options)
            done += CHUNKS
        return done * CHUNK / taken / 1e9


def serve(folder: str, plugin: str, number: str) -> None:
    worker = Worker(Path(folder), Path(plugin), int(number))
    print(worker.check(), flush=True)
    for line in sys.stdin:
        what, relative, seconds, start = line.split()
        # All begin together.
        time.sleep(max(0.0, float(start) - time.time()))
        print(getattr(worker, what)(float(relative), float(seconds)), flush=True)


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


def together(remotes: list[Remote], what: str, relative: float, seconds: float) -> float:
    """The sum of GB/s."""
    start = time.time() + 0.05
    for remote in remotes:
        remote.ask(what, relative, seconds, start)
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
    what = "through h5py" if chunks <= 4 else "alone"
    lines = [f"a process that compresses {chunks} chunks of 64^3 at 1e-4 {what}, s from start to end: median (all)"]
    lines += [f"{backend:>8} {median(own):8.3f}   ({' '.join(f'{seconds:.3f}' for seconds in own)})" for backend, own in times.items()]
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
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="measure whole processes as well: four chunks, and 4 GB")
    arguments = parser.parse_args()
    plugin = arguments.plugin.resolve()
    os.environ["HDF5_PLUGIN_PATH"] = str(plugin)
    counts, backends = [int(count) for count in arguments.processes.split(",")], arguments.backends.split(",")
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
        if arguments.short:
            for chunks, repeats in ((4, 9), (4000, 3)):
                step(f"{chunks} chunks")
                lines += whole_processes(folder, plugin, backends, chunks, repeats)
                print("\n".join(lines[-5:]), flush=True)
        step("starting")
        before = memory_on_the_card()
        remotes = {backend: [Remote(folder, plugin, backend, number) for number in range(max(counts))] for backend in backends}
        if len({remote.answer() for own in remotes.values() for remote in own}) != 1:
            raise RuntimeError("other streams")
        for backend, own in remotes.items():
            step(f"warming up {backend}: {together(own, 'alone', RELATIVE[1], WARM_SECONDS):.1f} GB/s")
        on_card = sum(len(own) for backend, own in remotes.items() if backend != "cpu")
        lines += [f"memory in use on the card: {before} before, {memory_on_the_card()} with {on_card} processes that have it open", ""]
        lines.append(f"{'':<18}{'processes':>10}" + "".join(f"{backend:>8}" for backend in backends) + "   auto / better   all rounds")
        for what in ("alone", "h5py"):
            for relative in RELATIVE:
                for count in counts:
                    rounds: dict[str, list[float]] = {backend: [] for backend in backends}
                    for _ in range(arguments.rounds):
                        for backend in backends:
                            rounds[backend].append(together(remotes[backend][:count], what, relative, SECONDS))
                    middle = {backend: median(own) for backend, own in rounds.items()}
                    others = [speed for backend, speed in middle.items() if backend != "auto"]
                    share = f"{middle['auto'] / max(others):16.2f}" if others and "auto" in middle else " " * 16
                    every = "; ".join(f"{backend} " + " ".join(f"{speed:.1f}" for speed in own) for backend, own in rounds.items())
                    cells = "".join(f"{middle[backend]:8.1f}" for backend in backends)
                    lines.append(f"{what:<8}{relative:<10g}{count:>10}{cells}{share}   {every}")
                    print(lines[-1], flush=True)
        for own in remotes.values():
            for remote in own:
                remote.process.stdin.close()
        for own in remotes.values():
            for remote in own:
                remote.process.wait()
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.results:
        arguments.results.write_text(text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        sys.exit(main())
