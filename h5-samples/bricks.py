"""What `brick=` brings where a program has written the boxes of a simulation value after value into a dataset of one axis, as AMReX does.

    h5-samples/measure bricks [--rounds 3]

Half of a field is cut into cubes, which follow one another in a dataset of one axis. It goes through h5py into a file in memory and back: with the brick,
without it, and with the filters of SZ3, ZFP and gzip with shuffle. "4 axes" are SZ3 and ZFP on a dataset that has the cubes' axes, in chunks of the same
values: what they would give to a program that does not flatten its boxes. Our filter gives such a dataset the streams that it gives the flat one with the
brick, which is checked here.

Every value is checked against its bound in f64: ours must hold it, and the table says where another filter misses it. MB/s are of uncompressed values and of
the process's CPU time, HDF5's own work included, so that they hardly depend on what else the machine does. Ours are the median of the rounds, the others,
which take up to a hundred times as long, those of the first. It needs 1.2 GB of disk for the generator's large fields and takes about ten minutes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import median

import h5py
import numpy as np

from dataset import Dataset
from harness import HERE, RELATIVE_BOUNDS, Report, check_slabs, cubes, parser, progress, quire
from peer_calls import FILTERS, described_filters

FIELDS = ("turbulence_resolved", "turbulence_density")
CUBES = (32, 64)
OURS, OTHERS = ("brick", "without"), ("SZ3", "ZFP", "gzip")


def chunk_of(values: int, side: int) -> tuple[int, ...]:
    """The extents of a chunk of `values` values in a dataset of cubes: cubes, slices of one, or rows of one."""
    chunk = [1, 1, 1, 1]
    for axis, extent in ((3, side), (2, side), (1, side), (0, values)):
        chunk[axis] = min(extent, values)
        values //= chunk[axis]
    return tuple(chunk)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def contest(path: Path, boxes: np.ndarray, chunk_values: int, bound: float, rounds: int) -> Iterator[tuple[str, float, float, float, str]]:
    """Each way with its ratio, MB/s in and out, and its largest error in bounds if that is more than one."""
    side, flat, ours = boxes.shape[-1], boxes.reshape(-1), f"abs={bound!r}"
    of_four = Dataset(path, chunk_of(chunk_values, side), quire(ours))
    ways = {
        "brick": (flat, Dataset(path, (chunk_values,), quire(f"{ours},brick={side}x{side}x{side}"))),
        "without": (flat, Dataset(path, (chunk_values,), quire(ours))),
        **{name: (flat, Dataset(path, (chunk_values,), FILTERS[name](boxes, bound))) for name in OTHERS},
        **{f"{name} 4 axes": (boxes, Dataset(path, of_four.chunks, FILTERS[name](boxes, bound))) for name in OTHERS[:2]},
    }
    of_four.write(boxes)
    streams = [stream for _, stream in of_four.streams()]
    for name, (values, data) in ways.items():
        out = np.empty_like(values)
        taken = []
        for _ in range(rounds if name in OURS else 1):
            taken.append((cpu_seconds(lambda: data.write(values)), cpu_seconds(lambda: data.read(out))))
        if name == "brick":
            assert [stream for _, stream in data.streams()] == streams, f"chunks of {chunk_values}: not the streams of a dataset of 4 axes"
        if name in OURS:
            check_slabs(values, out, bound, name)
        worst = max(float(np.abs(mine.astype("f8") - theirs).max()) for mine, theirs in zip(values.reshape(64, -1), out.reshape(64, -1))) / bound
        into, back = (values.nbytes / 1e6 / median(way) for way in zip(*taken))
        # A NaN, which no comparison holds for, breaks every bound.
        yield name, values.nbytes / data.nbytes(), into, back, "" if worst <= 1 else f"{worst:.7g}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    report = Report(
        "bricks",
        arguments.results,
        f"one thread; h5py {h5py.__version__} on HDF5 {h5py.version.hdf5_version}",
        "data:    128x256x256 f32 in cubes, flattened; bound as a share of the range; gzip (level 4, shuffle) keeps the exact bits",
        "MB/s:    of uncompressed values and CPU time, in and out; error: in bounds, where one is missed",
        *described_filters(OTHERS),
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for field, relative in progress(list(product(FIELDS, RELATIVE_BOUNDS))):
            values = np.load(HERE / "data" / "seed1-large" / f"{field}.npy")[:128]
            bound = relative * float(np.ptp(values.astype("f8")))
            rows: list[list[str]] = []
            for side, cubes_a_chunk in product(CUBES, (0, 1, 16)):
                chunk = cubes_a_chunk * side**3 or 1024
                names, ratios, into, back, errors = zip(*contest(Path(folder) / "bricks.h5", cubes(values, side), chunk, bound, arguments.rounds))
                rows = rows or [["cube", "chunk", "", *names]]
                rows.append([f"{side}^3", str(chunk), "ratio", *(f"{ratio:.2f}" for ratio in ratios)])
                rows += [["", "", label, *(f"{speed:.0f}" for speed in speeds)] for label, speeds in (("in", into), ("out", back))]
                rows += [["", "", "error", *errors]] * any(errors)
            report.say("", f"{field}, {relative:g}")
            report.table(rows, 3)


if __name__ == "__main__":
    main()
