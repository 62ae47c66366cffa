"""What the measurements of this folder share: the head of a table, fields, the check of a bound, rounds in turns, processes, and tables.

pytest-benchmark and asv do not fit. They time functions, while a measurement here first checks every value, then has programs take turns, and prints sizes
beside times.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
import multiprocessing
import os
import platform
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeVar

import numpy as np

from filter_call import PLUGIN_FILE
from measured import measured
from quire_options import FILTER_ID, cd_values

HERE = Path(__file__).resolve().parent
#: The generator's fields, which the script `measure` makes.
DATA = HERE / "data" / "seed1-medium"
#: Shares of a field's range.
RELATIVE_BOUNDS = (1e-2, 1e-3, 1e-4)

Item = TypeVar("Item")
Way = TypeVar("Way")


# Head


def backends() -> list[str]:
    """The processors that this machine has, by QUIRE_BACKEND's names."""
    return ["cpu", *["cuda"] * (shutil.which("nvidia-smi") is not None)]


def machine() -> str:
    """Names of the GPU, if there is one, and of the processor, and the number of threads that this process may use."""
    parts = []
    if "cuda" in backends():
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        found = subprocess.run(query, capture_output=True, text=True).stdout.splitlines()
        parts += [f"{name} (driver {driver})" for name, driver in (line.split(", ") for line in found[:1])]
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    parts.append(next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()))
    return ", ".join([*parts, f"{len(os.sched_getaffinity(0))} threads usable"])


def command() -> str:
    """What a user typed: the script `measure` says it."""
    return os.environ.get("COMMAND", shlex.join(sys.argv))


def plugin_file() -> Path:
    """The plugin, in the folder that HDF5 searches."""
    return Path(os.environ["HDF5_PLUGIN_PATH"]).resolve() / PLUGIN_FILE


def parser(text: str | None) -> argparse.ArgumentParser:
    """A parser with the option of all measurements."""
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--results", type=Path, default=HERE / "data" / "results", help="folder for tables and pictures; git ignores the default")
    return made


class Report:
    """The table of a measurement: a text that is printed as it grows, and kept in FOLDER/NAME.txt."""

    def __init__(self, name: str, folder: Path, *head: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"{name}.txt").open("w", encoding="utf-8")
        self.say(measured(), f"command: {command()}", f"machine: {machine()}", *head)

    def say(self, *lines: str) -> None:
        for line in lines:
            print(line, flush=True)
            print(line, file=self.file, flush=True)

    def table(self, rows: Iterable[Sequence[object]], left: int = 1) -> None:
        self.say(*aligned(rows, left))


def step(text: str) -> None:
    """Say what comes next, as setup.sh does."""
    print(f"\033[1m==> {text}\033[0m" if sys.stderr.isatty() else f"==> {text}", file=sys.stderr, flush=True)


def progress(items: Iterable[Item], total: int | None = None) -> Iterator[Item]:
    """The items, with a bar on a terminal."""
    from tqdm import tqdm

    return iter(tqdm(items, total=total, disable=None, leave=False))


# Fields


@dataclass
class Field:
    """An array and its fill value, which marks missing values."""

    name: str
    values: np.ndarray
    fill: float | None = None

    @functools.cached_property
    def valid(self) -> np.ndarray:
        """True where a value is finite and not the fill value."""
        valid = np.isfinite(self.values)
        if self.fill is not None:
            valid &= self.values != self.values.dtype.type(self.fill)
        return valid

    @functools.cached_property
    def range(self) -> float:
        """Largest minus smallest valid value."""
        values = self.values[self.valid]
        return float(values.max()) - float(values.min()) if values.size else 0.0

    @functools.cached_property
    def without_gaps(self) -> tuple[np.ndarray, int]:
        """The values with their mean in place of NaN, infinities and fill values, and the bytes of a deflated bit mask that says where those are. So a user
        has to treat gaps if a compressor has none; it shortens SZ3's streams of fields with land to as little as 0.4 of their length."""
        if self.valid.all():
            return self.values, 0
        filled = self.values.copy()
        filled[~self.valid] = self.values[self.valid].mean(dtype=np.float64)
        return filled, len(zlib.compress(np.packbits(~self.valid).tobytes()))


def gaussian(size: int, seed: int, amplitude: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A periodic Gaussian field of size^3 f32. Its waves have an amplitude by their squared wave number, in squared cycles a cell."""
    values = np.random.default_rng(seed).standard_normal((size,) * 3, dtype=np.float32)
    waves = np.fft.rfftn(values).astype(np.complex64, copy=False)
    along, fastest = np.fft.fftfreq(size) ** 2, np.fft.rfftfreq(size) ** 2
    for slab, z in zip(waves, along):  # slab after slab, so that no third array of this size is needed
        squared = z + along[:, None] + fastest
        squared[squared == 0] = np.inf  # removes the mean
        slab *= amplitude(squared).astype(np.float32)
    return np.fft.irfftn(waves, s=values.shape, axes=(0, 1, 2)).astype(np.float32, copy=False)


def velocity(size: int = 256, seed: int = 1) -> np.ndarray:
    """size^3 values with the power of turbulence, k^(-11/3), and a dissipation range beyond an eighth of the grid's highest wave."""
    return gaussian(size, seed, lambda squared: squared ** (-11 / 12) * np.exp(-16 * np.sqrt(squared)))


def cubes(field: np.ndarray, edge: int) -> np.ndarray:
    """The cubes of a field of three axes, one after another: [cube][z][y][x]."""
    counts = [extent // edge for extent in field.shape]
    parts = field.reshape(counts[0], edge, counts[1], edge, counts[2], edge).transpose(0, 2, 4, 1, 3, 5)
    return np.ascontiguousarray(parts).reshape(-1, edge, edge, edge)


# Bounds


class Violation(Exception):
    """Values that were read break the bound or another promise."""


def errors_of(field: Field, decoded: np.ndarray) -> np.ndarray:
    """Errors of the valid values in f64. A NaN in place of a number counts as infinity."""
    if decoded.shape != field.values.shape or decoded.dtype != field.values.dtype:
        raise Violation(f"{field.name}: {decoded.dtype}{decoded.shape} came back for {field.values.dtype}{field.values.shape}")
    with np.errstate(all="ignore"):
        errors = np.abs(field.values[field.valid].astype(np.float64) - decoded[field.valid].astype(np.float64))
    errors[np.isnan(errors)] = np.inf
    return errors


def changed_bits(field: Field, decoded: np.ndarray) -> int:
    """NaN, infinities and fill values whose bits changed."""
    bits = f"u{field.values.itemsize}"
    return int(np.count_nonzero(field.values[~field.valid].view(bits) != decoded[~field.valid].view(bits)))


def check(field: Field, decoded: np.ndarray, bound: float) -> float:
    """The largest error in bounds. Raises Violation unless every valid value is within the bound, compared in f64, and all others kept their bits."""
    errors = errors_of(field, decoded)
    if missed := np.count_nonzero(errors > bound):
        raise Violation(f"{field.name}: {missed} values miss the bound {bound:g}, the worst by {errors.max():g}")
    if changed := changed_bits(field, decoded):
        raise Violation(f"{field.name}: the bits of {changed} NaN, infinities or fill values changed")
    return float(errors.max(initial=0.0)) / bound if bound else 0.0


def check_slabs(values: np.ndarray, decoded: np.ndarray, bound: float, name: str = "") -> float:
    """`check` of an array without fill values, in 64 parts, so that little memory is needed."""
    return max(check(Field(name, mine), theirs, bound) for mine, theirs in zip(np.array_split(values, 64), np.array_split(decoded, 64)))


def psnr(field: Field, decoded: np.ndarray) -> float:
    """In dB, over the valid values."""
    square_error = float(np.mean(errors_of(field, decoded) ** 2))
    return 10 * math.log10(field.range**2 / square_error) if square_error > 0 else math.inf


def quire(options: str) -> dict[str, Any]:
    """The arguments of h5py's create_dataset."""
    return {"compression": FILTER_ID, "compression_opts": cd_values(options)}


# Times


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(ways: dict[Way, Callable[[], float]], rounds: int, patience: float = math.inf) -> dict[Way, list[float]]:
    """The seconds that each way says it took, round by round. The ways take turns, so that what else the machine does hits all of them alike; each round begins
    with another. A way that has taken `patience` seconds is not called again."""
    taken: dict[Way, list[float]] = {way: [] for way in ways}
    order = list(ways)
    for _ in range(rounds):
        for way in order:
            if sum(taken[way]) < patience:
                taken[way].append(ways[way]())
        order = [*order[1:], order[0]]
    return taken


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    if len(values) == 1:
        return (values[0],) * 3
    first, middle, third = quantiles(values, n=4, method="inclusive")
    return first, middle, third


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Median and quartiles."""
    first, middle, third = (format(value, form) for value in quartiles(values))
    return f"{middle} ({first}-{third})"


# Processes


class Remote:
    """An object in a process of its own, as the plugin reads its environment once. `remote("method", ...)` calls its method."""

    def __init__(self, environment: dict[str, str], make: Callable[..., object], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve_calls, args=(other, environment, make, arguments), daemon=True)
        self.process.start()
        other.close()

    def ask(self, method: str, *arguments: object) -> None:
        self.connection.send((method, arguments))

    def answer(self) -> Any:
        try:
            found = self.connection.recv()
        except EOFError:
            raise RuntimeError("a process ended, see above") from None
        if isinstance(found, Exception):
            raise found
        return found

    def __call__(self, method: str, *arguments: object) -> Any:
        self.ask(method, *arguments)
        return self.answer()

    def stop(self) -> None:
        self.connection.send(None)
        self.process.join()


def _serve_calls(connection: Connection, environment: dict[str, str], make: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """The body of a Remote's process."""
    os.environ.update(environment)
    served = None
    while (request := connection.recv()) is not None:
        try:
            served = served or make(*arguments)
            connection.send(getattr(served, request[0])(*request[1]))
        except Exception as error:  # the parent raises every exception
            connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


def isolated(environment: dict[str, str], patience: int, work: Callable[..., Item], *arguments: object, quiet: bool = True) -> Item:
    """What a function returns in a process of its own. Raises RuntimeError with the reason if it crashes, raises an exception, or takes more than `patience`
    seconds of CPU time, which other load does not lengthen. A quiet one's messages are lost."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness", "h5py", "hdf5plugin", "pysz", "zfpy", "pcodec"])  # importing them takes half a second: only once
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve_one, args=(sender, environment, patience, quiet, work, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        found, failure = receiver.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        hangs = code == -signal.SIGXCPU
        failure = f"hangs: no answer in {patience} s of CPU time" if hangs else f"crash: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
    process.join()
    receiver.close()
    if failure:
        raise RuntimeError(failure)
    return found


def _serve_one(
    connection: Connection, environment: dict[str, str], patience: int, quiet: bool, work: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    """The body of an isolated process."""
    os.environ.update(environment)
    resource.setrlimit(resource.RLIMIT_CPU, (patience, patience + 10))
    if quiet:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    try:
        connection.send((work(*arguments), ""))
    except Exception as error:  # the table shows every exception
        while error.__context__:
            error = error.__context__  # the first exception of the chain
        connection.send((None, f"{type(error).__name__}: {error}"))


# Tables and pictures


def aligned(rows: Iterable[Sequence[object]], left: int = 1) -> Iterator[str]:
    """The lines of a table. Its first `left` columns begin at the left, the others end at the right. A row may be shorter than others."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells if column < len(row)) for column in range(max(map(len, cells)))]
    for row in cells:
        padded = (cell.ljust(width) if column < left else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths)))
        yield "  ".join(padded).rstrip()


def shape_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a table, without its comments; none if there is no file."""
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[dict[str, Any]], remark: str = "") -> None:
    """Writes a table with the head of a text as a comment."""
    with path.open("w", newline="") as file:
        file.write(f"# {measured()}; command: {command()}{remark and '; '}{remark}\n")
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def pyplot() -> Any:
    """matplotlib, drawing to files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot
