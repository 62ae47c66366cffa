"""What `brick=` brings where a program has written the boxes of a simulation value after value into a dataset of one axis, as AMReX does.

    h5-samples/bricks.sh [ROUNDS]

Half of a field is cut into cubes, which follow one another in a dataset of one axis. It goes through h5py into a file in memory and back: with the brick,
without it, and with the filters of SZ3, ZFP and gzip with shuffle. "4 axes" are SZ3 and ZFP on a dataset that has the cubes' axes, in chunks of the same
values: what they would give to a program that does not flatten its boxes. Our filter gives such a dataset the streams that it gives the flat one with the
brick, which is checked here.

Every value is checked against its bound in f64: ours must hold it, and the table says where another filter misses it. MB/s are of uncompressed values and of
the process's CPU time, HDF5's own work included, so that they hardly depend on what else the machine does. Ours are the median of the rounds, the others,
which take up to a hundred times as long, those of the first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import h5py
import numpy as np

from measured import measured
from peer_calls import FILTERS, described_filters
from quire_options import FILTER_ID, cd_values

FIELDS = ("turbulence_resolved", "turbulence_density")
BOUNDS = (1e-2, 1e-3, 1e-4)
CUBES = (32, 64)
FILE = Path("/dev/shm/quire_bricks.h5")
BRICK, NO_BRICK, SZ3, ZFP, GZIP = "brick", "without", "SZ3", "ZFP", "gzip"

Shape = tuple[int, ...]


def quire(options: str) -> dict[str, Any]:
    return {"compression": FILTER_ID, "compression_opts": cd_values(options)}


def cubes_of(field: np.ndarray, side: int) -> np.ndarray:
    """The field's cubes one after the other, [cube][z][y][x]."""
    counts = [extent // side for extent in field.shape]
    parts = field.reshape(counts[0], side, counts[1], side, counts[2], side)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 1, 3, 5)).reshape(-1, side, side, side)


def chunk_of(values: int, side: int) -> Shape:
    """The extents of a chunk of `values` values in a dataset of cubes: cubes, slices of one, or rows of one."""
    chunk = [1, 1, 1, 1]
    for axis, extent in ((3, side), (2, side), (1, side), (0, values)):
        chunk[axis] = min(extent, values)
        values //= chunk[axis]
    return tuple(chunk)


def write(values: np.ndarray, chunk: Shape, options: dict[str, Any]) -> float:
    """CPU seconds of writing a dataset."""
    start = time.process_time()
    with h5py.File(FILE, "w") as file:
        file.create_dataset("t", data=values, chunks=chunk, **options)
    return time.process_time() - start


def read(out: np.ndarray) -> float:
    """CPU seconds of reading it."""
    start = time.process_time()
    with h5py.File(FILE) as file:
        file["t"].read_direct(out)
    return time.process_time() - start


def stored() -> int:
    """Bytes of its chunks in the file."""
    with h5py.File(FILE) as file:
        return int(file["t"].id.get_storage_size())


def streams() -> list[bytes]:
    """Its chunks as they are in the file, in the order of their offsets."""
    with h5py.File(FILE) as file:
        dataset = file["t"].id
        found = [dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks())]
        return [dataset.read_direct_chunk(chunk.chunk_offset)[1] for chunk in sorted(found, key=lambda chunk: chunk.chunk_offset)]


class Contest:
    """One field in cubes of one side, one chunk and one bound."""

    def __init__(self, cubes: np.ndarray, values_of_a_chunk: int, bound: float) -> None:
        side = cubes.shape[-1]
        flat, chunk, chunk_4 = cubes.reshape(-1), (values_of_a_chunk,), chunk_of(values_of_a_chunk, side)
        ours = f"abs={bound!r}"
        self.cubes, self.bound = cubes, bound
        self.ways: dict[str, tuple[np.ndarray, Shape, dict[str, Any]]] = {
            BRICK: (flat, chunk, quire(f"{ours},brick={side}x{side}x{side}")),
            NO_BRICK: (flat, chunk, quire(ours)),
            **{name: (flat, chunk, dict(FILTERS[name](cubes, bound))) for name in (SZ3, ZFP, GZIP)},
            **{f"{name} 4 axes": (cubes, chunk_4, dict(FILTERS[name](cubes, bound))) for name in (SZ3, ZFP)},
        }

    def check_streams(self) -> None:
        """The streams of bricks are those of a dataset that has the cubes' axes."""
        values, chunk, options = self.ways[BRICK]
        write(values, chunk, options)
        of_bricks = streams()
        write(self.cubes, self.ways["SZ3 4 axes"][1], quire(f"abs={self.bound!r}"))
        assert streams() == of_bricks, f"chunks of {chunk}: the streams are not those of a dataset of 4 axes"

    def measure(self, rounds: int) -> Iterator[tuple[str, float, float, float, float]]:
        """Each way with its ratio, MB/s in and out, and its largest error in bounds, 1 if that is no more than the bound."""
        size = self.cubes.nbytes
        for name, (values, chunk, options) in self.ways.items():
            seconds = []
            out = np.empty_like(values)
            for _ in range(rounds if name in (BRICK, NO_BRICK) else 1):
                seconds.append((write(values, chunk, options), read(out)))
            into, back = (size / 1e6 / statistics.median(way) for way in zip(*seconds))
            greatest = max(float(np.abs(before.astype("f8") - after).max()) for before, after in zip(values.reshape(64, -1), out.reshape(64, -1)))
            # A NaN, which no comparison holds for, breaks every bound.
            worst = 1.0 if greatest <= self.bound else float(np.nan_to_num(greatest / self.bound, nan=np.inf))
            assert worst <= 1 or name not in (BRICK, NO_BRICK), f"{name}, chunks of {chunk}: a value is off by {worst} bounds"
            yield name, size / stored(), into, back, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of .npy files, from the program generate --size large")
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    arguments = parser.parse_args()
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    names = list(Contest(np.zeros((64, 32, 32, 32), "f4"), 1024, 1.0).ways)
    print(
        f"{measured()}\n"
        f"command: h5-samples/bricks.sh {arguments.rounds}\n"
        f"machine: {model}, one thread; h5py {h5py.__version__} on HDF5 {h5py.version.hdf5_version}\n"
        f"data:    128x256x256 f32 in cubes, flattened; bound as a share of the range; gzip (level 4, shuffle) keeps the exact bits\n"
        f"MB/s:    of uncompressed values and CPU time, in and out",
        *described_filters((SZ3, ZFP, GZIP)),
        sep="\n",
    )
    for field, bound in ((field, bound) for field in FIELDS for bound in BOUNDS):
        values = np.load(arguments.data / f"{field}.npy")[:128]
        absolute = bound * float(np.ptp(values.astype("f8")))
        print(f"\n{field}, {bound:g}\n{'cube':<5} {'chunk':>8}  {'':<6}" + " ".join(f"{name:>10}" for name in names))
        for side in CUBES:
            cubes = cubes_of(values, side)
            for chunk in (1024, side**3, 16 * side**3):
                contest = Contest(cubes, chunk, absolute)
                contest.check_streams()
                _, ratios, into, back, worst = zip(*contest.measure(arguments.rounds))
                print(f"{f'{side}^3':<5} {chunk:>8}  {'ratio':<6}" + " ".join(f"{ratio:10.2f}" for ratio in ratios))
                for label, speeds in (("in", into), ("out", back)):
                    print(f"{'':16}{label:<6}" + " ".join(f"{speed:10.0f}" for speed in speeds))
                for name, bounds in zip(names, worst):
                    if bounds > 1:
                        print(f"{'':16}{name}: an error of {bounds:.7g} bounds")
                sys.stdout.flush()
    FILE.unlink()


if __name__ == "__main__":
    main()
