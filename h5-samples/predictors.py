"""How far the chosen predictor is from the best one, over generated and real arrays in chunks of 16 KiB to 8 MiB.

Run by predictors.sh. The bound is a share of the array's range. Each chunk is compressed with every predictor by codec/examples/predictors.rs. The loss
of a chunk is the length of the stream with the chosen predictor over that of the shortest stream, minus 1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arrays import at_most_four_axes, cut, load_arrays
from demo import RELATIVE_BOUNDS, Field, machine, step
from measured import measured

CHUNK_BYTES = (2**14, 2**17, 2**20, 2**23)
CUBE = 128  # edge of a chunk that is compared with its eight parts
PROCESSES = 2
NEAR = 0.01  # a loss up to this one is none


@dataclass(frozen=True)
class Trial:
    """A chunk and its streams' lengths."""

    array: str
    chunk_bytes: int
    relative: float
    chosen: int
    by_predictor: dict[str, int]

    @property
    def best(self) -> int:
        return min(self.by_predictor.values())

    @property
    def loss(self) -> float:
        return self.chosen / self.best - 1.0


@dataclass(frozen=True)
class Cube:
    """A chunk of three axes, and the streams' lengths of it and of its eight parts together."""

    array: str
    relative: float
    whole: int
    parts: int


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


class Program:
    """codec/examples/predictors.rs, running."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def lengths(self, chunk: Field, bound: float) -> dict[str, int]:
        """The stream's length by predictor, and for "chosen"."""
        assert self.process.stdin and self.process.stdout
        values = chunk.values.astype(chunk.values.dtype.newbyteorder("<"))
        dims = "x".join(map(str, values.shape))
        fill = "none" if chunk.fill is None else f"{int(np.array(chunk.fill, values.dtype).view(f'<u{values.itemsize}')):x}"
        self.process.stdin.write(f"f{8 * values.itemsize} {dims} {bound!r} {fill}\n".encode() + values.tobytes())
        self.process.stdin.flush()
        words = self.process.stdout.readline().decode().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            pass


def try_all(array: Field, path: Path) -> tuple[list[Trial], list[Cube]]:
    """All chunks of an array at all bounds."""
    trials, cubes = [], []
    with Program(path) as program:
        for relative in RELATIVE_BOUNDS:
            bound = relative * array.range
            for chunk_bytes in CHUNK_BYTES:
                for chunk in chunks_of(array, chunk_bytes):
                    lengths = program.lengths(chunk, bound)
                    trials.append(Trial(array.name, chunk_bytes, relative, lengths.pop("chosen"), lengths))
            for chunk in cubes_of(array):
                parts = (program.lengths(part, bound)["chosen"] for part in parts_of(chunk))
                cubes.append(Cube(array.name, relative, program.lengths(chunk, bound)["chosen"], sum(parts)))
    return trials, cubes


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


def row(name: str, trials: list[Trial]) -> str:
    """A line of a table."""
    losses = np.array([trial.loss for trial in trials])
    near, mean, worst = np.mean(losses <= NEAR), np.mean(losses), max(trials, key=lambda trial: trial.loss)
    best = min(worst.by_predictor, key=worst.by_predictor.__getitem__)
    return f"{name:<34} {len(trials):>6} {100 * near:>8.1f} {100 * mean:>8.2f} {100 * worst.loss:>8.1f}  {worst.array}, best {best}"


def report(trials: list[Trial], cubes: list[Cube]) -> Iterator[str]:
    """The tables."""
    yield f"{'chunks, bound':<34} {'chunks':>6} {'near, %':>8} {'mean, %':>8} {'worst, %':>8}"
    for chunk_bytes in CHUNK_BYTES:
        for relative in RELATIVE_BOUNDS:
            some = [trial for trial in trials if (trial.chunk_bytes, trial.relative) == (chunk_bytes, relative)]
            yield row(f"{chunk_bytes // 1024} KiB, {relative:g}", some)
    yield row("all", trials)
    of_arrays = defaultdict(list)
    for trial in trials:
        of_arrays[trial.array].append(trial)
    yield from (row(name, some) for name, some in sorted(of_arrays.items(), key=lambda item: -np.mean([trial.loss for trial in item[1]])))
    yield ""
    yield f"chunks of {CUBE}^3 over their eight parts of {CUBE // 2}^3 together, bytes, worst first"
    by_case: dict[tuple[str, float], list[float]] = defaultdict(list)
    for cube in cubes:
        by_case[cube.array, cube.relative].append(cube.whole / cube.parts)
    for (array, relative), ratios in sorted(by_case.items(), key=lambda item: -max(item[1])):
        yield f"{array:<24} {relative:<8g} {len(ratios):>3} chunks, worst {max(ratios):.3f}, mean {np.mean(ratios):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the generator's fields")
    parser.add_argument("program", type=Path, help="codec/examples/predictors.rs, built")
    parser.add_argument("--results", type=Path, help="file for the tables")
    parser.add_argument("--csv", type=Path, help="file for a line a chunk")
    arguments = parser.parse_args()
    arrays = [array for array in load_arrays(arguments.data) if array.values.dtype.kind == "f" and array.values.dtype.itemsize in (4, 8)]
    step(f"{len(arrays)} arrays, every predictor for each chunk")
    with ThreadPoolExecutor(PROCESSES) as pool:
        results = list(pool.map(lambda array: try_all(array, arguments.program), arrays))
    trials = [trial for some, _ in results for trial in some]
    cubes = [cube for _, some in results for cube in some]
    lines = [measured(), f"machine: {machine()}", "command: h5-samples/predictors.sh"]
    lines += ["loss: bytes with the chosen predictor over those with the best one, minus 1; near: a loss of at most 1 %", ""]
    text = "\n".join([*lines, *report(trials, cubes), ""])
    print(text)
    if arguments.results:
        arguments.results.write_text(text, encoding="utf-8")
    if arguments.csv:
        with arguments.csv.open("w", encoding="utf-8") as file:
            for trial in trials:
                print(trial.array, trial.chunk_bytes, trial.relative, trial.chosen, *(f"{k}={v}" for k, v in trial.by_predictor.items()), sep=",", file=file)


if __name__ == "__main__":
    main()
