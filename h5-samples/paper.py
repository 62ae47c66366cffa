"""The experiment of Shah et al. (ICS'23): codebooks from the dictionary, compared with codebooks built for each chunk.

    h5-samples/measure paper [--size 512] [--backends cuda cpu]

Shah et al. (Lightweight Huffman Coding for Efficient GPU Compression, ICS'23) write a log-normal density field of 512^3 through HDF5. With their dictionary,
the total time of compression is up to 8 times shorter at chunks of 64^3, and 3 to 4 times shorter at 256^3. Here the plugin does so in two ways:
QUIRE_CODEBOOK=dictionary and QUIRE_CODEBOOK=custom. Every value is checked, then the ways take turns: through h5py to a file in memory, and filter() without
HDF5. It needs 3 GB in /dev/shm; --size 64 is for a quick look.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zlib
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import h5py
import numpy as np

from dataset import Dataset
from filter_call import Plugin, chunk_words
from harness import RELATIVE_BOUNDS, Remote, Report, backends, check_slabs, cubes, gaussian, in_turns, parser, plugin_file, quire, spread, step

WAYS = ("dictionary", "custom")
SCRATCH = Path("/dev/shm")
Times = dict[str, list[float]]


def density(size: int) -> np.ndarray:
    """A periodic log-normal density in units of its mean. It has the model of the generator's `turbulence_density`, but numpy's random numbers and Fourier
    transform. The logarithm is a Gaussian field with power k^(-11/3) that spans nine decades."""
    values = gaussian(size, 1, lambda squared: squared ** (-11 / 12))
    lowest, highest = values.min(), values.max()
    values -= lowest
    values *= np.float32(9) / (highest - lowest)
    np.power(np.float32(10), values, out=values)
    values /= np.float32(values.mean(dtype=np.float64))
    return values


class Worker:
    """Compresses the field in its own process and environment."""

    def __init__(self, folder: Path) -> None:
        self.field = np.load(folder / "field.npy", mmap_mode="r")
        self.file = folder / "compressed.h5"
        self.plugin = Plugin(plugin_file())
        self.edge, self.chunks = 0, np.empty(0)

    def data(self, edge: int, bound: float | None) -> Dataset:
        return Dataset(self.file, (edge,) * 3, {} if bound is None else quire(f"abs={bound!r}"))

    def write(self, edge: int, bound: float | None) -> float:
        """Seconds to write the whole field. Without a bound, the file has no filter."""
        return self.data(edge, bound).write(self.field)

    def check(self, edge: int, bound: float) -> tuple[float, float]:
        """Ratio and largest error in bounds of the file last written."""
        data = self.data(edge, bound)
        return self.field.nbytes / data.nbytes(), check_slabs(self.field, data.values(), bound)

    def call_filter(self, edge: int, bound: float) -> tuple[float, int]:
        """Seconds in filter() over all chunks one after another, and CRC-32 of the streams."""
        if self.edge != edge:
            self.edge, self.chunks = edge, cubes(self.field, edge)
        words = chunk_words(f"abs={bound!r}", (edge,) * 3)
        seconds, checksum = 0.0, 0
        for chunk in self.chunks:
            taken, used = self.plugin.call(0, words, chunk)
            seconds += taken
            checksum = zlib.crc32(self.plugin.bytes(used), checksum)
        return seconds, checksum


def measure(remotes: dict[str, Remote], edge: int, bound: float, repeats: int) -> tuple[list[str], Times, tuple[int, ...]]:
    """Checks both ways, then times them in turn: first cells of a row, seconds through h5py, in filter() and without a filter, and the streams' sums."""
    ratios, worst, sums = [], 0.0, []
    for remote in remotes.values():
        remote("write", edge, bound)
        ratio, error = remote("check", edge, bound)
        ratios.append(f"{ratio:.2f}")
        worst = max(worst, error)
        sums.append(remote("call_filter", edge, bound)[1])
    if len(set(sums)) < len(WAYS):
        raise RuntimeError("QUIRE_CODEBOOK=dictionary and custom give equal bytes")

    ways = {"none": partial(remotes["dictionary"], "write", edge, None)}
    ways |= {f"h5py {way}": partial(remote, "write", edge, bound) for way, remote in remotes.items()}
    ways |= {f"filter {way}": lambda remote=remote: remote("call_filter", edge, bound)[0] for way, remote in remotes.items()}
    return [*ratios, f"{worst:.4f}"], in_turns(ways, repeats), tuple(sums)


def faster(times: Times, what: str) -> float:
    """Time with custom codebooks over time with the dictionary."""
    return median(times[f"{what} custom"]) / median(times[f"{what} dictionary"])


def row(times: Times, nbytes: int) -> list[str]:
    def cells(way: str) -> list[str]:
        return [spread([1e3 * taken for taken in times[way]])]

    found = cells("none")
    for what in ("h5py", "filter"):
        found += [*cells(f"{what} dictionary"), *cells(f"{what} custom"), f"{faster(times, what):.2f}"]
    return found + [f"{nbytes / median(times[f'filter {way}']) / 1e9:.2f}" for way in WAYS]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=512, help="edge of the field, a multiple of 8; chunks have an eighth, a quarter and a half of it")
    options.add_argument("--backends", nargs="+", default=backends()[::-1], choices=["cuda", "cpu"], help="the first one in full, others at one bound")
    options.add_argument("--repeats", type=int, default=5)
    arguments = options.parse_args()
    size = arguments.size
    # Room for the field, and for a file that may be as large.
    if (free := shutil.disk_usage(SCRATCH).free) < (needed := 10 * size**3):
        sys.exit(f"error: {SCRATCH} has {free} bytes free, {needed} are needed")
    step(f"a density field of {size}^3")
    values = density(size)
    span = float(np.ptp(values))
    bounds = {f"{share:g} range": share * span for share in RELATIVE_BOUNDS} | {f"{bound:g} mean": bound for bound in (1.0, 0.1)}
    report = Report(
        "paper",
        arguments.results,
        f"made by: numpy {np.__version__}, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}",
        f"field:   log-normal density in units of its mean, {size}^3 f32, {values.nbytes / 2**20:.0f} MiB, {values.min():.3g} to {values.max():.5g}",
        "bound:   a share of the field's range, or absolute in mean densities, as cosmology has it",
        f"h5py:    the whole field to a new file in {SCRATCH}, opening and closing included; none: without any filter",
        "filter(): all chunks one after another, called as HDF5 does, without HDF5",
        f"ms:      medians (quartiles) of {arguments.repeats}, the ways taking turns; times: custom / dictionary; every value's bound was checked first",
        "",
    )
    rows: list[list[str]] = [["", "chunk", "bound", "absolute", "ratio dict.", "custom", "worst", "none, ms", "h5py dictionary, ms", "custom", "times"]]
    rows[0] += ["filter() dictionary, ms", "custom", "times", "GB/s dict.", "custom"]
    streams: dict[tuple[int, str], set[tuple[int, ...]]] = {}
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        np.save(Path(name) / "field.npy", values)
        for backend in arguments.backends:
            remotes = {way: Remote({"QUIRE_BACKEND": backend, "QUIRE_CODEBOOK": way}, Worker, Path(name)) for way in WAYS}
            for edge, label in product((size // 8, size // 4, size // 2), bounds if backend == arguments.backends[0] else ["0.001 range"]):
                step(f"{backend}: chunks of {edge}^3, bound {label}")
                cells, times, sums = measure(remotes, edge, bounds[label], arguments.repeats)
                rows.append([backend, f"{edge}^3", label, f"{bounds[label]:.4g}", *cells, *row(times, values.nbytes)])
                streams.setdefault((edge, label), set()).add(sums)
            for remote in remotes.values():
                remote.stop()
    report.table(rows, 3)
    if any(len(sums) > 1 for sums in streams.values()):
        raise RuntimeError("the backends give different streams")
    if len(arguments.backends) > 1:
        report.say("", f"{' and '.join(arguments.backends)} give the same streams, by CRC-32")


if __name__ == "__main__":
    main()
