"""The experiment of Shah et al. (ICS'23): codebooks from the dictionary, compared with codebooks built for each chunk.

    h5-samples/paper.sh [FILE [OPTION...]]
    h5-samples/paper.py --plugin FOLDER --results FILE --plot FILE [--size 512] [--backends cuda cpu]

Shah et al. (Lightweight Huffman Coding for Efficient GPU Compression, ICS'23) write a log-normal density field of 512^3 through HDF5. With
their dictionary, the total time of compression is up to 8 times shorter at chunks of 64^3, and 3 to 4 times shorter at 256^3. This script
repeats the experiment with the plugin, in two ways: QUIRE_CODEBOOK=dictionary and QUIRE_CODEBOOK=custom. The work, in order:

1. `density`   makes the field
2. `Worker`    is a process for each backend and way, as the plugin reads its environment once; all read one field
3. `measure`   checks every value, then times the ways in turn: through h5py to a file in memory, and filter() without HDF5
4. `report`    makes the table
5. `plot`      draws the picture
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import h5py
import numpy as np

from filter_call import PLUGIN_FILE, Plugin, bound_words, chunk_words
from measured import measured

FILTER = 33791
SEED = 1
DECADES = 9.0
WAYS = ("dictionary", "custom")


def step(text: str) -> None:
    """Say what comes next, as setup.sh does."""
    print(f"\033[1m==> {text}\033[0m" if sys.stderr.isatty() else f"==> {text}", file=sys.stderr, flush=True)


# 1. The field


def density(size: int) -> np.ndarray:
    """A periodic log-normal density in units of its mean. It has the model of the generator's `turbulence_density`, but numpy's random numbers
    and Fourier transform. The logarithm is a Gaussian field with power k^(-11/3) that spans nine decades."""
    values = np.random.default_rng(SEED).standard_normal((size,) * 3, dtype=np.float32)
    waves = np.fft.rfftn(values).astype(np.complex64, copy=False)
    along = np.fft.fftfreq(size).astype(np.float32) ** 2
    fastest = np.fft.rfftfreq(size).astype(np.float32) ** 2
    for slab, z in zip(waves, along):  # slab after slab, so that no third array of this size is needed
        squared = z + along[:, None] + fastest
        squared[squared == 0] = np.inf  # removes the mean, which is set by scaling to the decades
        slab *= squared ** np.float32(-11 / 12)
    values = np.fft.irfftn(waves, s=values.shape, axes=(0, 1, 2)).astype(np.float32, copy=False)
    del waves
    lowest, highest = values.min(), values.max()
    values -= lowest
    values *= np.float32(DECADES) / (highest - lowest)
    np.power(np.float32(10), values, out=values)
    values /= np.float32(values.mean(dtype=np.float64))
    return values


# 2. Workers


class Worker:
    """Compresses the field in its own process and environment."""

    def __init__(self, folder: Path, plugin: Path) -> None:
        self.field = np.load(folder / "field.npy", mmap_mode="r")
        self.file = folder / "compressed.h5"
        self.plugin = Plugin(plugin / PLUGIN_FILE)
        self.edge = 0
        self.chunks = np.empty(0)

    def write(self, edge: int, bound: float | None) -> float:
        """Seconds to write the whole field to a new file, opening and closing included. Without a bound, the file has no filter."""
        self.file.unlink(missing_ok=True)
        options = {} if bound is None else {"compression": FILTER, "compression_opts": bound_words(bound)}
        start = time.perf_counter()
        with h5py.File(self.file, "w") as target:
            target.create_dataset("density", data=self.field, chunks=(edge,) * 3, **options)
        return time.perf_counter() - start

    def check(self, edge: int, bound: float) -> tuple[float, float]:
        """Ratio and largest error in bounds of the file last written; every value is compared in f64, every chunk must be filtered."""
        worst = 0.0
        with h5py.File(self.file) as source:
            data = source["density"]
            for number in range(data.id.get_num_chunks()):
                if data.id.get_chunk_info(number).filter_mask != 0:
                    raise RuntimeError(f"HDF5 left chunk {number} of {edge}^3 uncompressed, so the filter failed: see QUIRE_LOG=1")
            for first in range(0, len(self.field), edge):
                errors = np.abs(data[first : first + edge].astype(np.float64) - self.field[first : first + edge])
                # Not `errors > bound`: a NaN in place of a number must count as a miss.
                if not np.all(errors <= bound):
                    raise RuntimeError(f"the bound {bound:g} is broken at chunks of {edge}^3: {errors.max():g}")
                worst = max(worst, float(errors.max()) / bound)
            return self.field.nbytes / data.id.get_storage_size(), worst

    def call_filter(self, edge: int, bound: float, most: int | None = None) -> tuple[float, int, int]:
        """Seconds in filter() over all chunks, or the first `most`, one after another; length and CRC-32 of the streams. Each chunk is in a
        buffer from malloc, as HDF5's chunks are; copying it there is not timed."""
        if self.edge != edge:
            parts = len(self.field) // edge
            blocks = self.field.reshape(parts, edge, parts, edge, parts, edge).transpose(0, 2, 4, 1, 3, 5)
            self.edge, self.chunks = edge, np.ascontiguousarray(blocks).reshape(parts**3, edge**3)
        words = chunk_words(bound, (edge,) * 3)
        seconds, total, checksum = 0.0, 0, 0
        for chunk in self.chunks[:most]:
            taken, used = self.plugin.call(0, words, chunk)
            seconds += taken
            total += used
            checksum = zlib.crc32(self.plugin.bytes(used), checksum)
        return seconds, total, checksum


def serve(connection: object, folder: Path, plugin: Path) -> None:
    """The body of a worker's process. It receives names of methods and arguments, and sends results or exceptions."""
    worker = None
    while (message := connection.recv()) is not None:
        try:
            worker = worker or Worker(folder, plugin)
            name, arguments = message
            connection.send((getattr(worker, name)(*arguments), None))
        except Exception as error:  # the parent shows every exception
            connection.send((None, f"{type(error).__name__}: {error}"))


class Remote:
    """The parent's end of a worker."""

    def __init__(self, backend: str, way: str, folder: Path, plugin: Path) -> None:
        self.name = f"{backend}, {way}"
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        os.environ.update(QUIRE_BACKEND=backend, QUIRE_CODEBOOK=way, HDF5_PLUGIN_PATH=str(plugin))
        self.process = context.Process(target=serve, args=(other, folder, plugin), daemon=True)
        self.process.start()
        other.close()

    def __call__(self, name: str, *arguments: object) -> object:
        self.connection.send((name, arguments))
        try:
            result, error = self.connection.recv()
        except EOFError:
            raise RuntimeError(f"the process for {self.name} ended") from None
        if error:
            raise RuntimeError(f"{self.name}: {error}")
        return result

    def stop(self) -> None:
        """Ends the process."""
        self.connection.send(None)
        self.process.join()


# 3. Measuring


@dataclass
class Case:
    """A line of the table."""

    backend: str
    edge: int
    label: str
    bound: float
    ratio: dict[str, float] = field(default_factory=dict)
    worst: float = 0.0
    written: dict[str, list[float]] = field(default_factory=dict)  # seconds through h5py, by way and for "none"
    filtered: dict[str, list[float]] = field(default_factory=dict)  # seconds in filter(), by way
    checksums: dict[str, int] = field(default_factory=dict)

    def faster(self, times: dict[str, list[float]]) -> float:
        """Time with custom codebooks over time with the dictionary."""
        return middle(times["custom"]) / middle(times["dictionary"])


def middle(times: list[float]) -> float:
    """The median."""
    return float(np.median(times))


def measure(case: Case, remotes: dict[str, Remote], repeats: int) -> None:
    """Check both ways, then time them in turn. The check also fills caches and opens the GPU."""
    for way, remote in remotes.items():
        remote("write", case.edge, case.bound)
        case.ratio[way], worst = remote("check", case.edge, case.bound)
        case.worst = max(case.worst, worst)
        case.checksums[way] = remote("call_filter", case.edge, case.bound)[2]
    for _ in range(repeats):
        case.written.setdefault("none", []).append(remotes["dictionary"]("write", case.edge, None))
        for way, remote in remotes.items():
            case.written.setdefault(way, []).append(remote("write", case.edge, case.bound))
        for way, remote in remotes.items():
            case.filtered.setdefault(way, []).append(remote("call_filter", case.edge, case.bound)[0])


def probe(remotes: dict[str, Remote], edge: int, bound: float) -> None:
    """Refuse a plugin without QUIRE_CODEBOOK, whose two ways would be equal."""
    found = {remote("call_filter", edge, bound, 4)[1:] for remote in remotes.values()}
    if len(found) < len(remotes):
        raise RuntimeError("QUIRE_CODEBOOK=dictionary and custom give equal bytes: this plugin is too old for the variable, build it again")


# 4. The table


def report(cases: list[Case], size: int, values: np.ndarray, arguments: argparse.Namespace, took: float) -> str:
    """The text of the results: a preamble and the table."""
    lines = [
        measured(),
        f"command: {arguments.command}",
        f"machine: {machine()}",
        f"made by: Python {platform.python_version()}, numpy {np.__version__}, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}",
        f"field:   log-normal density in units of its mean, {size}^3 f32, {values.nbytes / 2**20:.0f} MiB, {values.min():.3g} to "
        f"{values.max():.5g}, numpy's default_rng({SEED}) and FFT ({took:.0f} s)",
        "bound:   a share of the field's range, or absolute in mean densities, as cosmology has it",
        f"h5py:    the whole field to a new file in {arguments.scratch}, opening and closing included; none: without any filter",
        "filter(): all chunks one after another, called as HDF5 does, without HDF5",
        f"ms:      medians (quartiles) of {arguments.repeats}, the ways taking turns; times: custom / dictionary; every value's bound was "
        "checked first",
        "",
        f"{'':<34} {'ratio':^16} {'':>7} {'h5py, ms':^60} {'filter(), ms':^48} {'GB/s':^13}",
        f"{'':<5}{'chunk':<7}{'bound':<13}{'absolute':>9} {'dict.':>8}{'custom':>8} {'worst':>7} {'none':>10} {'dictionary':>20} "
        f"{'custom':>20} {'times':>6} {'dictionary':>20} {'custom':>20} {'times':>6} {'dict.':>6}{'custom':>7}",
    ]
    for case in cases:
        speeds = {way: values.nbytes / middle(case.filtered[way]) / 1e9 for way in WAYS}
        lines.append(
            f"{case.backend:<5}{f'{case.edge}^3':<7}{case.label:<13}{case.bound:>9.4g} {case.ratio['dictionary']:>8.2f}"
            f"{case.ratio['custom']:>8.2f} {case.worst:>7.4f} {1e3 * middle(case.written['none']):>10.1f} "
            f"{cell(case.written['dictionary']):>20} {cell(case.written['custom']):>20} {case.faster(case.written):>6.2f} "
            f"{cell(case.filtered['dictionary']):>20} {cell(case.filtered['custom']):>20} {case.faster(case.filtered):>6.2f} "
            f"{speeds['dictionary']:>6.2f}{speeds['custom']:>7.2f}"
        )
    remark = compare_backends(cases)
    return "\n".join([*lines, *([remark] if remark else []), ""])


def compare_backends(cases: list[Case]) -> str:
    """A remark that all backends gave equal streams, if several were measured. Raises RuntimeError if streams differ."""
    seen: dict[tuple[int, str], list[Case]] = {}
    for case in cases:
        seen.setdefault((case.edge, case.label), []).append(case)
    several = [group for group in seen.values() if len(group) > 1]
    for group in several:
        if any(case.checksums != group[0].checksums for case in group):
            raise RuntimeError(f"backends give different streams at {group[0].edge}^3, {group[0].label}")
    return f"\nall streams of {' and '.join(case.backend for case in several[0])} have the same CRC-32 at {len(several)} settings" if several else ""


def cell(times: list[float]) -> str:
    """Median and quartiles of times, in milliseconds."""
    first, _, third = quantiles(times, n=4, method="inclusive")
    return f"{1e3 * middle(times):.1f} ({1e3 * first:.1f}-{1e3 * third:.1f})"


def machine() -> str:
    """Names of the GPU, if there is one, and of the processor, and the number of threads that this process may use."""
    parts = []
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        found = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
        parts += [f"{name} (driver {driver})" for name, driver in (line.split(", ") for line in found[:1])]
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown processor")
    return ", ".join([*parts, model, f"{len(os.sched_getaffinity(0))} threads usable"])


# 5. The picture


def plot(cases: list[Case], size: int, file: Path, title: str) -> None:
    """Draws the total time by chunk size, with a column for each bound: above through h5py, below filter() alone."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = list(dict.fromkeys(case.label for case in cases))
    rows: list[tuple[str, Callable[[Case], dict[str, list[float]]]]] = [
        ("h5py to a file in memory", lambda case: case.written),
        ("filter() alone", lambda case: case.filtered),
    ]
    figure, axes = plt.subplots(len(rows), len(labels), figsize=(2.8 * len(labels) + 1, 6.4), sharey="row", squeeze=False)
    colors = {"dictionary": "#1f77b4", "custom": "#ff7f0e"}
    for row, (what, times) in zip(axes, rows):
        row[0].set_ylabel(f"{what}, ms")
        for axis, label in zip(row, labels):
            shown = [case for case in cases if case.label == label]
            for column, case in enumerate(shown):
                heights = {way: 1e3 * middle(times(case)[way]) for way in WAYS}
                for way, shift in zip(WAYS, (-0.2, 0.2)):
                    axis.bar(column + shift, heights[way], 0.38, color=colors[way], label=way if column == 0 else None)
                axis.annotate(
                    f"×{case.faster(times(case)):.2f}", (column, max(heights.values())), ha="center", xytext=(0, 3), textcoords="offset points"
                )
                if "none" in times(case):
                    none = 1e3 * middle(times(case)["none"])
                    axis.plot([column - 0.42, column + 0.42], [none, none], "k--", lw=1, label="no filter" if column == 0 else None)
            axis.set_xticks(range(len(shown)), [f"{case.edge}³" for case in shown])
            axis.set_title(f"bound {label}", fontsize=9)
            axis.margins(y=0.12)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(fontsize=8, frameon=False)
    figure.suptitle(f"Compressing a log-normal density of {size}³ f32 ({title}); ×: custom / dictionary", fontsize=10)
    figure.tight_layout()
    figure.savefig(file, dpi=130)


def main() -> int:
    """Run the experiment. Returns 0 if all bounds are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True, help=f"folder of {PLUGIN_FILE}")
    parser.add_argument("--results", type=Path, required=True, help="file for the table")
    parser.add_argument("--plot", type=Path, help="file for the picture, .png")
    parser.add_argument("--size", type=int, default=512, help="edge of the field; chunks have an eighth, a quarter and a half of it")
    parser.add_argument("--backends", nargs="+", default=["cuda", "cpu"], choices=["cuda", "cpu"], help="the first one in full, others at one bound")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="folder in memory")
    arguments = parser.parse_args()
    arguments.command = "h5-samples/paper.py " + " ".join(sys.argv[1:])
    arguments.plugin = arguments.plugin.resolve()
    if not (arguments.plugin / PLUGIN_FILE).is_file():
        parser.error(f"{arguments.plugin} has no {PLUGIN_FILE}")
    if arguments.size % 8 or arguments.size < 16 or arguments.repeats < 2:
        parser.error(f"--size is {arguments.size} and --repeats {arguments.repeats}: the size must be a multiple of 8 from 16 on, the repeats 2 or more")
    # Room for the field, and for a file that may be as large.
    if (free := shutil.disk_usage(arguments.scratch).free) < (needed := 10 * arguments.size**3):
        parser.error(f"{arguments.scratch} has {free} bytes free, {needed} are needed")

    step(f"a density field of {arguments.size}^3")
    start = time.perf_counter()
    values = density(arguments.size)
    took = time.perf_counter() - start
    spread = float(values.max()) - float(values.min())
    bounds = [(f"{share:g} range", share * spread) for share in (1e-2, 1e-3, 1e-4)] + [(f"{bound:g} mean", bound) for bound in (1.0, 0.1)]
    edges = [arguments.size // parts for parts in (8, 4, 2)]
    cases = []
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
        folder = Path(scratch)
        np.save(folder / "field.npy", values)
        for number, backend in enumerate(arguments.backends):
            remotes = {way: Remote(backend, way, folder, arguments.plugin) for way in WAYS}
            try:
                remotes["dictionary"]("write", edges[0], bounds[1][1])  # HDF5 reports the reason if the plugin fails
                probe(remotes, edges[0], bounds[1][1])
                for edge in edges:
                    for label, bound in bounds if number == 0 else bounds[1:2]:
                        step(f"{backend}: chunks of {edge}^3, bound {label}")
                        cases.append(Case(backend, edge, label, bound))
                        measure(cases[-1], remotes, arguments.repeats)
            except RuntimeError as error:
                print(f"error: {error}", file=sys.stderr)
                return 1
            finally:
                for remote in remotes.values():
                    remote.stop()
    text = report(cases, arguments.size, values, arguments, took)
    print(text, end="")
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(text)
    if arguments.plot:
        try:
            plot([case for case in cases if case.backend == arguments.backends[0]], arguments.size, arguments.plot, machine())
        except ImportError as error:
            print(f"no picture: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
