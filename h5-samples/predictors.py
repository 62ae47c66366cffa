"""How far the chosen predictor is from the best one, over generated and real arrays in chunks of 16 KiB to 8 MiB.

    h5-samples/measure predictors [NAME...]

The bound is a share of the array's range. Each chunk is compressed with every predictor by codec/examples/predictors.rs. The loss of a chunk is the length of
the stream with the chosen predictor over that of the shortest stream, minus 1. It takes about ten minutes.
"""

from __future__ import annotations

import itertools
import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from arrays import at_most_four_axes, cut, load_arrays
from harness import RELATIVE_BOUNDS, Field, Report, parser, plugin_file, progress

CHUNK_BYTES = (2**14, 2**17, 2**20, 2**23)
CUBE = 128  # edge of a chunk that is compared with its eight parts
PROCESSES = 2
NEAR = 0.01  # a loss up to this one is none


class Trial(NamedTuple):
    """A chunk, the loss of its stream, and the predictor with the shortest stream."""

    array: str
    chunk_bytes: int
    relative: float
    loss: float
    best: str


class Cube(NamedTuple):
    """A chunk of three axes: its stream's length over that of its eight parts together."""

    array: str
    relative: float
    over_parts: float


def extents_of(values: np.ndarray, chunk_bytes: int) -> tuple[int, ...]:
    """Chunk extents of at most `chunk_bytes`: the shortest axis doubles, the fastest one first of equals."""
    extents = [1] * values.ndim
    while True:
        growing = [axis for axis in reversed(range(values.ndim)) if extents[axis] < values.shape[axis]]
        if not growing or 2 * math.prod(extents) * values.itemsize > chunk_bytes:
            return tuple(min(extent, length) for extent, length in zip(extents, values.shape))
        extents[min(growing, key=lambda axis: extents[axis])] *= 2


def chunks_of(array: Field, chunk_bytes: int) -> list[Field]:
    """At most eight chunks of about that size; none if the array has less than one."""
    values = at_most_four_axes(array.values)
    extents = extents_of(values, chunk_bytes)
    # A chunk of a small array would be measured with several sizes.
    return cut(array, extents) if 2 * math.prod(extents) * values.itemsize > chunk_bytes else []


def cubes_of(array: Field) -> list[Field]:
    """At most eight chunks of CUBE values along each of three axes; none if the array has another number of axes or is shorter."""
    values = at_most_four_axes(array.values)
    if values.ndim != 3 or min(values.shape) < CUBE:
        return []
    whole = tuple(slice(0, length // CUBE * CUBE) for length in values.shape)
    return cut(Field(array.name, values[whole], array.fill), (CUBE,) * 3)


def parts_of(cube: Field) -> Iterator[Field]:
    """A cube's eight parts."""
    halves = (slice(0, CUBE // 2), slice(CUBE // 2, CUBE))
    for part in itertools.product(halves, repeat=3):
        yield Field(cube.name, np.ascontiguousarray(cube.values[part]), cube.fill)


def lengths(program: subprocess.Popen, chunk: Field, bound: float) -> dict[str, int]:
    """The stream's length by predictor, and for "chosen"."""
    values = chunk.values.astype(chunk.values.dtype.newbyteorder("<"))
    dims = "x".join(map(str, values.shape))
    fill = "none" if chunk.fill is None else f"{int(np.array(chunk.fill, values.dtype).view(f'<u{values.itemsize}')):x}"
    program.stdin.write(f"f{8 * values.itemsize} {dims} {bound!r} {fill}\n".encode() + values.tobytes())
    program.stdin.flush()
    words = program.stdout.readline().decode().split()
    return dict(zip(words[::2], map(int, words[1::2])))


def try_all(array: Field) -> tuple[list[Trial], list[Cube]]:
    """All chunks of an array at all bounds."""
    trials, cubes = [], []
    with subprocess.Popen([plugin_file().parent / "examples" / "predictors"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        for relative in RELATIVE_BOUNDS:
            bound = relative * array.range
            for chunk_bytes in CHUNK_BYTES:
                for chunk in chunks_of(array, chunk_bytes):
                    found = lengths(program, chunk, bound)
                    chosen, best = found.pop("chosen"), min(found, key=found.__getitem__)
                    trials.append(Trial(array.name, chunk_bytes, relative, chosen / found[best] - 1.0, best))
            for chunk in cubes_of(array):
                parts = sum(lengths(program, part, bound)["chosen"] for part in parts_of(chunk))
                cubes.append(Cube(array.name, relative, lengths(program, chunk, bound)["chosen"] / parts))
    return trials, cubes


def row(name: str, trials: list[Trial]) -> list[object]:
    losses = [trial.loss for trial in trials]
    worst = max(trials, key=lambda trial: trial.loss)
    near = np.mean(np.array(losses) <= NEAR)
    cells = (f"{100 * near:.1f}", f"{100 * np.mean(losses):.2f}", f"{100 * worst.loss:.1f}")
    return [name, len(trials), *cells, f"{worst.array}, best {worst.best}"]


def rows(trials: list[Trial]) -> Iterator[list[object]]:
    yield ["chunks, bound", "chunks", "near, %", "mean, %", "worst, %", ""]
    for chunk_bytes, relative in itertools.product(CHUNK_BYTES, RELATIVE_BOUNDS):
        if some := [trial for trial in trials if (trial.chunk_bytes, trial.relative) == (chunk_bytes, relative)]:
            yield row(f"{chunk_bytes // 1024} KiB, {relative:g}", some)
    yield row("all", trials)
    of_arrays = defaultdict(list)
    for trial in trials:
        of_arrays[trial.array].append(trial)
    yield from (row(name, some) for name, some in sorted(of_arrays.items(), key=lambda item: -np.mean([trial.loss for trial in item[1]])))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="of arrays; all by default")
    arguments = options.parse_args()
    arrays = [array for array in load_arrays(arguments.names) if array.values.dtype.kind == "f" and array.values.dtype.itemsize in (4, 8)]
    report = Report(
        "predictors",
        arguments.results,
        "loss: bytes with the chosen predictor over those with the best one, minus 1; near: a loss of at most 1 %",
        "",
    )
    with ThreadPoolExecutor(PROCESSES) as pool:
        results = list(progress(pool.map(try_all, arrays), len(arrays)))
    report.table(rows([trial for some, _ in results for trial in some]))
    by_case: dict[tuple[str, float], list[float]] = defaultdict(list)
    for cube in (cube for _, some in results for cube in some):
        by_case[cube.array, cube.relative].append(cube.over_parts)
    report.say("", f"chunks of {CUBE}^3 over their eight parts of {CUBE // 2}^3 together, bytes, worst first")
    worst_first = sorted(by_case.items(), key=lambda item: -max(item[1]))
    cells = ([array, f"{relative:g}", len(ratios), f"{max(ratios):.3f}", f"{np.mean(ratios):.3f}"] for (array, relative), ratios in worst_first)
    report.table([["array", "bound", "chunks", "worst", "mean"], *cells])


if __name__ == "__main__":
    main()
