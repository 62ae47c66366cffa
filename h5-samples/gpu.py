"""What a user gets from the GPU: filter() on one chunk, a field through h5py to a file in memory, and chunks that stay in the GPU's memory.

    h5-samples/measure gpu [--repeats 51] [--parts filter options h5py resident] [--backends cuda cpu]

GPU, CPU and no filter take turns, and in the GPU's memory nvCOMP's Bitcomp and this library. Bitcomp needs the packages nvidia-nvcomp-cu13 (or -cu12) and
CuPy; where they are missing, a line says so. Every value's bound is checked in f64, and the GPU's chunks must be the CPU's byte for byte, before anything is
timed. GB/s are of uncompressed data; figures are medians and quartiles. The plugin reads its environment once, so that each backend has a process.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import h5py
import numpy as np

from dataset import Dataset
from filter_call import REVERSE, Bytes, Plugin, chunk_words
from harness import RELATIVE_BOUNDS, Remote, Report, Violation, check_slabs, in_turns, parser, plugin_file, quartiles, quire, seconds, spread, step, velocity

PARTS = ("filter", "options", "h5py", "resident")
OPTIONS = ("lossless", "lossless,coding=bitshuffle", "pwrel=1e-3", "rel=1e-3", "psnr=65", "ratio=8")


class Worker:
    """One backend, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.field = np.load(folder / "field.npy")
        self.plugin = Plugin(plugin_file())
        self.file = folder / f"{os.environ['QUIRE_BACKEND']}.h5"

    def chunk(self, edge: int, options: str, repeats: int) -> tuple[list[float], list[float], bytes]:
        """Seconds to compress and to decompress the field's first cube, in a row, and its stream. The promise of the options is checked."""
        chunk = np.ascontiguousarray(self.field[:edge, :edge, :edge])
        words = chunk_words(options, chunk.shape, chunk.dtype)
        trip = self.plugin.round_trip(options, chunk)
        if not holds(options, chunk, trip.decoded, trip.stream.nbytes):
            raise Violation(f"{options} does not hold at {edge}^3")
        there = [self.plugin.call(0, words, chunk)[0] for _ in range(repeats)]
        back = [self.plugin.call(REVERSE, words, trip.stream)[0] for _ in range(repeats)]
        return there, back, trip.stream.tobytes()

    def through_h5py(self, bound: float | None, flat: bool) -> tuple[float, float, float]:
        """Seconds to write the field, or one of a single value, in chunks of 64^3 and to read it, and the ratio."""
        field = np.zeros_like(self.field) if flat else self.field
        data = Dataset(self.file, (64,) * 3, {} if bound is None else quire(f"abs={bound!r}"))
        restored = np.empty_like(field)
        times = data.write(field), data.read(restored)
        check_slabs(field, restored, bound or 0.0)
        return (*times, field.nbytes / data.nbytes())


def holds(options: str, chunk: np.ndarray, restored: np.ndarray, stored: int) -> bool:
    """Whether a chunk of finite values keeps the promise of its options."""
    key, _, number = options.split(",")[0].partition("=")
    if key == "lossless":
        return chunk.tobytes() == restored.tobytes()
    wide, error = chunk.astype(np.float64), np.abs(chunk.astype(np.float64) - restored)
    span = float(wide.max() - wide.min())
    return {
        "abs": lambda: error.max() <= float(number),
        "pwrel": lambda: bool((error <= float(number) * np.abs(wide)).all()),
        "rel": lambda: error.max() <= float(number) * span,
        "psnr": lambda: np.sqrt(np.mean(error**2)) <= span * 10 ** ((0.05 - float(number)) / 20),
        "ratio": lambda: abs(chunk.nbytes / stored / float(number) - 1) <= 0.05,
    }[key]()


# Chunks in the GPU's memory


class DeviceChunks(ctypes.Structure):
    """quire_device_chunks"""

    _fields_ = [
        ("value_type", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("extents", ctypes.POINTER(ctypes.c_uint64)), ("count", ctypes.c_size_t),
        ("addresses", ctypes.POINTER(ctypes.c_uint64)), ("strides", ctypes.c_void_p), ("counts", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    ]  # fmt: skip


class ResidentQuire:
    """A chunk of f32 in the GPU's memory, to a stream there and back, by this library."""

    def __init__(self, library: ctypes.CDLL, values: "cupy.ndarray", bound: float) -> None:
        self.library, self.options = library, f"abs={bound!r}".encode()
        self.values, self.restored = values, values.copy()
        self.stream = values.copy().repeat(2)  # room enough
        self.offset, self.length = ctypes.c_uint64(), ctypes.c_uint64()
        self.extents = (ctypes.c_uint64 * values.ndim)(*values.shape)

    def call(self, function: Callable[..., int], *arguments: object) -> None:
        reason = Bytes()
        if function(*arguments, ctypes.byref(reason)):
            raise RuntimeError(f"{function.__name__}: {reason.content().decode()}")

    def chunks(self, values: "cupy.ndarray") -> DeviceChunks:
        address = (ctypes.c_uint64 * 1)(values.data.ptr)
        return DeviceChunks(0, len(self.extents), self.extents, 1, address, None, None, None)

    def compress(self) -> None:
        target, room = ctypes.c_uint64(self.stream.data.ptr), ctypes.c_uint64(self.stream.nbytes)
        lengths = ctypes.byref(self.offset), ctypes.byref(self.length)
        self.call(self.library.quire_device_compress_to_device, self.options, None, ctypes.byref(self.chunks(self.values)), target, room, *lengths)

    def decompress(self) -> None:
        streams, lengths = (ctypes.c_void_p * 1)(self.stream.data.ptr + self.offset.value), (ctypes.c_size_t * 1)(self.length.value)
        self.call(self.library.quire_device_decompress, streams, lengths, ctypes.byref(self.chunks(self.restored)))

    def result(self) -> tuple[int, np.ndarray]:
        """Bytes of the stream, and the values that came back."""
        return self.length.value, self.restored.get()


@cache
def queue() -> "cupy.cuda.Stream":
    """A stream that outlives nvCOMP's objects, which free their memory on it."""
    import cupy

    return cupy.cuda.Stream(non_blocking=True)


class ResidentBitcomp:
    """The same by nvCOMP's Bitcomp, which keeps half of `delta`, rounded down to a power of two, as the bound."""

    CALL = 'Codec(algorithm="Bitcomp", data_type="<f4", mode=BITCOMP_LOSSY_FP_TO_SIGNED, delta=2 * BOUND)'

    def __init__(self, values: "cupy.ndarray", bound: float) -> None:
        from nvidia import nvcomp

        mode = nvcomp.BitcompMode.BITCOMP_LOSSY_FP_TO_SIGNED
        self.codec = nvcomp.Codec(algorithm="Bitcomp", data_type="<f4", mode=mode, delta=2 * bound, cuda_stream=queue().ptr)
        self.shape = values.shape
        self.values = nvcomp.as_array(values, cuda_stream=queue().ptr)
        self.into = self.codec.compression_config(values.nbytes)
        self.back = self.codec.decompression_config(self.into)

    def compress(self) -> None:
        self.stream = self.codec.encode(self.values, compression_config=self.into)
        queue().synchronize()

    def decompress(self) -> None:
        self.restored = self.codec.decode(self.stream, data_type="<f4", decompression_config=self.back)
        queue().synchronize()

    def result(self) -> tuple[int, np.ndarray]:
        return self.stream.buffer_size, np.frombuffer(np.asarray(self.restored.cpu()).tobytes(), np.float32).reshape(self.shape)


# Tables


def cells(times: list[float], size: int) -> list[str]:
    return [spread([1e6 * time for time in times], ".0f"), f"{size / quartiles(times)[1] / 1e9:.2f}"]


HEAD = ("compress, us", "GB/s", "decompress, us", "GB/s")


def filter_rows(remotes: dict[str, Remote], cases: Iterator[tuple[int, str, str]], repeats: int) -> Iterator[list[object]]:
    """A row for each case of an edge, options, and their name, and for each backend."""
    yield ["chunk", "options", "ratio", "backend", *HEAD]
    for edge, options, name in cases:
        step(f"{edge}^3, {name}")
        results: dict[str, list] = {backend: [] for backend in remotes}
        # The backends take turns. The CPU, which is slower, has fewer runs.
        for _ in range(5):
            for backend, remote in remotes.items():
                results[backend].append(remote("chunk", edge, options, repeats if backend == "cuda" else max(3, repeats * 32**3 // edge**3)))
        streams = {stream for runs in results.values() for _, _, stream in runs}
        if len(streams) != 1:
            raise RuntimeError(f"{len(streams)} different streams of {edge}^3 with {name}")
        for backend, runs in results.items():
            there, back = ([time for run in runs[1:] for time in run[way]] for way in (0, 1))
            size = 4 * edge**3
            yield [f"{edge}^3", name, f"{size / len(runs[0][2]):.2f}", backend, *cells(there, size), *cells(back, size)]


def bound_cases(field: np.ndarray) -> Iterator[tuple[int, str, str]]:
    for edge, relative in product((32, 64, 128, 256), RELATIVE_BOUNDS):
        yield edge, f"abs={relative * float(np.ptp(field[:edge, :edge, :edge]))!r}", f"{relative:g} of the range"


def h5py_rows(field: np.ndarray, remotes: dict[str, Remote], repeats: int) -> Iterator[list[object]]:
    yield ["bound", "filter", "ratio", "write, us", "GB/s", "read, us", "GB/s", "times no filter: write", "read"]
    for relative in RELATIVE_BOUNDS:
        step(f"h5py, {relative:g}")
        bound = relative * float(np.ptp(field))
        first = next(iter(remotes.values()))
        # Of "one value" all values are equal: filter() takes almost no time, and the rest is HDF5's.
        ways = {"none": (first, None, False), "one value": (first, bound, True)} | {backend: (remote, bound, False) for backend, remote in remotes.items()}
        results: dict[str, list] = {way: [] for way in ways}
        for _ in range(max(9, repeats // 3)):
            for way, (remote, *arguments) in ways.items():
                results[way].append(remote("through_h5py", *arguments))
        middles = {name: [quartiles([run[way] for run in runs[1:]])[1] for way in (0, 1)] for name, runs in results.items()}
        for name, runs in results.items():
            there, back = ([run[way] for run in runs[1:]] for way in (0, 1))
            times = (f"{without / own:.2f}" for without, own in zip(middles["none"], middles[name]))
            yield [f"{relative:g}", name, f"{runs[0][2]:.2f}", *cells(there, field.nbytes), *cells(back, field.nbytes), *times]


def resident_rows(report: Report, field: np.ndarray, repeats: int) -> Iterator[list[object]]:
    """Chunks and streams in the GPU's memory. Bounds are checked first. The two take turns; a time is from a call until its work is done."""
    try:
        import cupy
        from nvidia import nvcomp
    except ImportError as error:
        yield [f"Bitcomp is not measured: {error}; pip install nvidia-nvcomp-cu13 cupy-cuda13x, or -cu12 and cupy-cuda12x"]
        return
    report.say(f"Bitcomp: nvCOMP {nvcomp.__version__}, CuPy {cupy.__version__}, {ResidentBitcomp.CALL}")
    yield ["chunk", "bound", "by", "ratio", "error", *HEAD]
    library = ctypes.CDLL(str(plugin_file()))
    for edge, relative in product((64, 128, 256), RELATIVE_BOUNDS):
        step(f"in the GPU's memory, {edge}^3, {relative:g}")
        cube = np.ascontiguousarray(field[:edge, :edge, :edge])
        bound = relative * float(np.ptp(cube))
        values = cupy.asarray(cube)
        cupy.cuda.runtime.deviceSynchronize()
        codecs = {"Quire": ResidentQuire(library, values, bound), "Bitcomp": ResidentBitcomp(values, bound)}
        heads, ways = {}, {}
        for name, codec in codecs.items():
            codec.compress()
            codec.decompress()
            stored, restored = codec.result()
            heads[name] = (f"{cube.nbytes / stored:.2f}", f"{check_slabs(cube, restored, bound, name):.3f}")
            ways |= {(name, way): lambda do=getattr(codec, way): seconds(do) for way in ("compress", "decompress")}
        taken = in_turns(ways, repeats)
        for name in codecs:
            there, back = (cells(taken[name, way], cube.nbytes) for way in ("compress", "decompress"))
            yield [f"{edge}^3", f"{relative:g}", name, *heads[name], *there, *back]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=51)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--backends", nargs="+", choices=("cuda", "cpu"), default=["cuda", "cpu"])
    arguments = options.parse_args()
    report = Report("gpu", arguments.results)
    step("field")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        field = velocity()
        np.save(folder / "field.npy", field)
        remotes = {backend: Remote({"QUIRE_BACKEND": backend}, Worker, folder) for backend in arguments.backends}
        through_h5py = f"256^3 f32 in chunks of 64^3 through h5py {h5py.version.version} (HDF5 {h5py.version.hdf5_version}) to a RAM disk"
        other_bounds = ((edge, options, options) for edge, options in product((64, 256), OPTIONS))
        parts = {
            "filter": ("filter() alone, f32", filter_rows(remotes, bound_cases(field), arguments.repeats)),
            "options": ("the same for other bounds", filter_rows(remotes, other_bounds, 21)),
            "h5py": (through_h5py, h5py_rows(field, remotes, arguments.repeats)),
            "resident": ("one chunk of f32 in the GPU's memory, its stream too", resident_rows(report, field, arguments.repeats)),
        }
        for part in arguments.parts:
            title, rows = parts[part]
            report.say("", f"{title}; median (quartiles)")
            report.table(rows, 2)
        for remote in remotes.values():
            remote.stop()


if __name__ == "__main__":
    main()
