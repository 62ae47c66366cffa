"""Speed of whole arrays into HDF5 datasets and back, on all cores: h5z_quire.write and read beside h5py's own path, no filter, and HDF5's part alone.

    h5-samples/measure whole_arrays [FIELD.npy] [--rel 1e-3] [--chunk 64] [--repeat N] [--rounds 9] [--threads N] [--cuda] [--others]

The bound is checked first, on every value in f64, and every chunk's bytes are compared with those of h5py's own path. Then the ways take turns. Printed are the
median and the spread, the smallest and the largest, of GB/s of uncompressed values. Files are created or opened, and closed, within the time. All files are
new. Reading comes from the page cache, into an array that is there already (out=) but where a new one is named: the system zeroes its pages first. With --cuda
the array is in a GPU's memory, too, and goes from and to there without a detour; that needs CuPy. With --others, h5py writes and reads the array through the
filters of SZ3, ZFP, Blosc2 and gzip as well, a sixteenth of it, as they are slow. A way that has taken eight seconds is not called again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import h5py
import h5z_quire
import numpy as np
from h5z_quire import Quire

from dataset import Dataset
from harness import HERE, Field, Report, check_slabs, in_turns, parser, seconds, shape_text
from peer_calls import FILTERS, LOSSLESS_FILTERS, described_filters, versions

OWN_PATH = "h5py's own path"
OTHERS = ("SZ3", "ZFP", "Blosc2", "gzip")
# The part of the array that other filters get: gzip writes 0.05 GB/s.
OTHERS_SHARE = 16
PATIENCE = 8.0

#: By name: the bytes of the values, and a call that returns seconds.
Ways = dict[str, tuple[int, Callable[[], float]]]


class Bench:
    """An array, the files that it goes to, and the ways there and back."""

    def __init__(self, values: np.ndarray, bound: float, chunk: tuple[int, ...], threads: int, folder: Path, cuda: bool) -> None:
        self.values, self.bound, self.threads = values, bound, threads
        self.out = np.empty_like(values)
        self.cuda_values = self.cuda_out = None
        if cuda:
            import cupy

            self.cuda_values, self.cuda_out = cupy.asarray(values), cupy.empty_like(values)
        names = ("h5py", "ours", "streams", *["cuda"] * cuda)
        self.data = {name: Dataset(folder / f"{name}.h5", chunk, Quire(abs=bound)) for name in names} | {"plain": Dataset(folder / "plain.h5", chunk)}
        self.streams: list[tuple[tuple[int, ...], bytes]] = []

    def check(self) -> str:
        """Every value within the bound, and the same chunks as by h5py's own path. Keeps the streams."""
        self.data["h5py"].write(self.values)
        self.write("ours", self.values)
        self.streams = self.data["ours"].streams()
        assert self.streams == self.data["h5py"].streams(), "the chunks differ from those of h5py's own path"
        self.read(self.out)
        if self.cuda_out is not None:
            self.write("cuda", self.cuda_values)
            assert self.data["cuda"].streams() == self.streams, "the chunks from the GPU's memory differ from those of h5py's own path"
            self.read(self.cuda_out)
            assert np.array_equal(self.cuda_out.get().view("u1"), self.out.view("u1")), "what the GPU's memory gets is not what the host's gets"
        worst = check_slabs(self.values, self.out, self.bound)
        ratio = self.values.nbytes / self.data["ours"].nbytes()
        return f"{len(self.streams)} chunks are those of h5py's own path, ratio {ratio:.2f}, largest error {worst:.6g} bounds"

    def new_file(self, name: str, fill: Callable[[h5py.Dataset], object]) -> float:
        """Seconds to make a file and an empty dataset, and to fill it."""
        data = self.data[name]
        data.path.unlink(missing_ok=True)

        def make() -> None:
            with h5py.File(data.path, "w") as file:
                fill(file.create_dataset("x", self.values.shape, self.values.dtype, chunks=data.chunks, **data.options))

        return seconds(make)

    def write(self, name: str, values: object) -> float:
        return self.new_file(name, lambda data: h5z_quire.write(data, values, threads=self.threads))

    def write_streams(self) -> float:
        return self.new_file("streams", lambda data: [data.id.write_direct_chunk(offset, stream) for offset, stream in self.streams])

    def open_file(self, take: Callable[[h5py.Dataset], object]) -> float:
        """Seconds to open a file, and to take from its dataset."""

        def work() -> None:
            with h5py.File(self.data["ours"].path) as file:
                take(file["x"])

        return seconds(work)

    def read(self, out: object) -> float:
        return self.open_file(lambda data: h5z_quire.read(data, out=out, threads=self.threads))

    def read_streams(self) -> float:
        return self.open_file(lambda data: [data.id.read_direct_chunk(offset) for offset, _ in self.streams])

    def ways(self) -> tuple[Ways, Ways]:
        writes: dict[str, Callable[[], float]] = {
            "no filter": lambda: self.data["plain"].write(self.values),
            OWN_PATH: lambda: self.data["h5py"].write(self.values),
            "h5z_quire.write": lambda: self.write("ours", self.values),
            "the streams alone, H5Dwrite_chunk": self.write_streams,
        }
        reads: dict[str, Callable[[], float]] = {
            "no filter": lambda: self.data["plain"].read(self.out),
            OWN_PATH: lambda: self.data["h5py"].read(self.out),
            "h5z_quire.read": lambda: self.read(self.out),
            "h5z_quire.read, a new array": lambda: self.read(None),
            "the streams alone, H5Dread_chunk": self.read_streams,
        }
        if self.cuda_out is not None:
            writes["CUDA array -> file, h5z_quire.write"] = lambda: self.write("cuda", self.cuda_values)
            reads["file -> CUDA array, h5z_quire.read"] = lambda: self.read(self.cuda_out)
        size = self.values.nbytes
        return {name: (size, way) for name, way in writes.items()}, {name: (size, way) for name, way in reads.items()}


def other_ways(report: Report, values: np.ndarray, bound: float, chunk: tuple[int, ...], folder: Path) -> tuple[Ways, Ways]:
    """Other filters, by h5py's own path; Blosc2's chunks are read by b2h5py, too, past HDF5's filter pipeline. Says each one's ratio and largest error."""
    import b2h5py

    values = values[: max(len(values) // OTHERS_SHARE, chunk[0])]
    out = np.empty_like(values)
    datasets = {name: Dataset(folder / f"{name}.h5", chunk, FILTERS[name](values, bound)) for name in OTHERS}
    report.say(f"other filters, 1/{OTHERS_SHARE} of the array, {versions(['b2h5py'])}", *described_filters(OTHERS))
    for name, data in datasets.items():
        data.write(values)
        data.read(out)
        if name in LOSSLESS_FILTERS:
            assert np.array_equal(out.view("u1"), values.view("u1")), f"{name} has changed values"
        worst = max(float(np.abs(mine.astype("f8") - theirs.astype("f8")).max()) for mine, theirs in zip(values, out))
        report.say(f"{name}: ratio {values.nbytes / data.nbytes():.2f}, largest error {worst / bound:.7g} of the bound")

    def read_b2h5py() -> float:
        with b2h5py.fast_slicing():
            return seconds(datasets["Blosc2"].values)

    writes = {f"h5py, {name}": (values.nbytes, lambda data=data: data.write(values)) for name, data in datasets.items()}
    reads = {f"h5py, {name}": (values.nbytes, lambda data=data: data.read(out)) for name, data in datasets.items()}
    return writes, reads | {"b2h5py, Blosc2, a new array": (values.nbytes, read_b2h5py)}


def rows(title: str, ways: Ways, rounds: int) -> Iterator[list[str]]:
    """Times the ways in turns, after a first round that does not count."""
    yield [f"{title}, GB/s", "median", "spread", "times h5py's own path"]
    taken = in_turns({name: way for name, (_, way) in ways.items()}, rounds + 1, PATIENCE)
    speeds = {name: [ways[name][0] / time / 1e9 for time in own[1:] or own] for name, own in taken.items()}
    for name, found in speeds.items():
        yield [name, f"{median(found):.2f}", f"{min(found):.2f}-{max(found):.2f}", f"{median(found) / median(speeds[OWN_PATH]):.2f}"]


def main() -> None:
    options = parser(__doc__)
    default = HERE / "data" / "seed1-large" / "turbulence_resolved.npy"
    options.add_argument("field", type=Path, nargs="?", default=default, help="an array of numpy, .npy; the generator's large resolved turbulence by default")
    options.add_argument("--rel", type=float, default=1e-3, help="the bound, as a share of the array's range")
    options.add_argument("--chunk", type=int, default=64, help="extent of a chunk along each axis")
    options.add_argument("--repeat", type=int, default=1, help="copies of the array, one after the other along its first axis")
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    options.add_argument("--cuda", action="store_true", help="also from and to an array of CuPy")
    options.add_argument("--others", action="store_true", help=f"also the filters of {', '.join(OTHERS)}")
    arguments = options.parse_args()
    field = np.load(arguments.field)
    bound = arguments.rel * Field("", field).range
    values = np.concatenate([field] * arguments.repeat)
    chunk = tuple(min(arguments.chunk, extent) for extent in values.shape)
    threads = arguments.threads or int(os.environ.get("QUIRE_THREADS", 0)) or len(os.sched_getaffinity(0))
    info = h5z_quire.info()
    report = Report(
        "whole_arrays",
        arguments.results,
        f"{threads} threads, {info.backend}: {info.why}; h5py {h5py.__version__} on HDF5 {h5py.version.hdf5_version}, h5z-quire {info.version}",
        f"array: {arguments.field.stem}, {shape_text(values.shape)} {values.dtype}, chunks {shape_text(chunk)}, abs={bound:.6g}, rel={arguments.rel:g}",
    )
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        bench = Bench(values, bound, chunk, arguments.threads, Path(name), arguments.cuda)
        report.say(bench.check())
        others: tuple[Ways, Ways] = other_ways(report, values, bound, chunk, Path(name)) if arguments.others else ({}, {})
        for title, ways in zip(("write", "read"), map(dict.__or__, bench.ways(), others)):
            report.say("")
            report.table(rows(title, ways, arguments.rounds))


if __name__ == "__main__":
    main()
