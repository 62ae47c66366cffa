"""What a user gets from the GPU: filter() on one chunk, a field through h5py to a file in memory, and chunks that stay in the GPU's memory.

    h5-samples/gpu.py --plugin FOLDER [--results FILE] [--repeats 51] [--parts filter options h5py resident]

GPU, CPU and no filter take turns, and in the GPU's memory nvCOMP's Bitcomp and this library. Bitcomp needs the packages nvidia-nvcomp-cu13 (or -cu12) and
CuPy; where they are missing, a line says so. Every value's bound is checked in f64, and the GPU's chunks must be the CPU's byte for byte, before anything is
timed. GB/s are of uncompressed data; figures are medians and quartiles. The plugin reads its environment once, so that each backend has a process.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from statistics import quantiles

import h5py
import numpy as np

from filter_call import PLUGIN_FILE, REVERSE, Plugin, bound_words, chunk_words, with_layout
from measured import measured
from paper import FILTER, machine, step
from quire_options import cd_values

SIZE = 256
EDGES = (32, 64, 128, 256)
RELATIVE = (1e-2, 1e-3, 1e-4)
PARTS = ("filter", "options", "h5py", "resident")


def velocity() -> np.ndarray:
    """A Gaussian field with the power of turbulence, k^(-11/3), and a dissipation range beyond an eighth of the grid's highest wave."""
    waves = np.fft.rfftn(np.random.default_rng(1).standard_normal((SIZE,) * 3, dtype=np.float32))
    along, fastest = np.fft.fftfreq(SIZE), np.fft.rfftfreq(SIZE)
    squared = along[:, None, None] ** 2 + along[:, None] ** 2 + fastest**2
    squared[0, 0, 0] = 1
    waves *= squared ** (-11 / 12) * np.exp(-np.sqrt(squared) * 16)
    waves[0, 0, 0] = 0
    return np.fft.irfftn(waves, s=(SIZE,) * 3, axes=(0, 1, 2)).astype(np.float32)


class Worker:
    """One backend, in a process of its own."""

    def __init__(self, folder: Path, plugin: Path) -> None:
        self.field = np.load(folder / "field.npy")
        self.plugin = Plugin(plugin / PLUGIN_FILE)
        self.file = folder / f"{os.environ.get('QUIRE_BACKEND', 'none')}.h5"

    def chunk(self, edge: int, bound: float, repeats: int) -> tuple[list[float], list[float], bytes]:
        """Seconds to compress and to decompress the field's first cube, in a row, and its stream. The bound is checked."""
        chunk = np.ascontiguousarray(self.field[:edge, :edge, :edge])
        words = chunk_words(bound, chunk.shape)
        _, stream = self.plugin.run(0, words, chunk)
        _, restored = self.plugin.run(REVERSE, words, stream)
        errors = np.abs(restored.view(np.float32).astype(np.float64) - chunk.ravel())
        if not np.all(errors <= bound):
            raise RuntimeError(f"the bound {bound:g} is broken at {edge}^3: {errors.max():g}")
        there = [self.plugin.call(0, words, chunk)[0] for _ in range(repeats)]
        back = [self.plugin.call(REVERSE, words, stream)[0] for _ in range(repeats)]
        return there, back, stream.tobytes()

    def options(self, edge: int, options: str, repeats: int) -> tuple[list[float], list[float], bytes]:
        """Seconds to compress and to decompress the first cube, and its stream, with options in words. `options_hold` checks the values."""
        chunk = np.ascontiguousarray(self.field[:edge, :edge, :edge])
        words = with_layout(cd_values(options), chunk.shape, chunk.dtype)
        _, stream = self.plugin.run(0, words, chunk)
        _, restored = self.plugin.run(REVERSE, words, stream)
        if not options_hold(options, chunk, restored.view(np.float32).reshape(chunk.shape), stream.nbytes):
            raise RuntimeError(f"{options} does not hold at {edge}^3")
        there = [self.plugin.call(0, words, chunk)[0] for _ in range(repeats)]
        back = [self.plugin.call(REVERSE, words, stream)[0] for _ in range(repeats)]
        return there, back, stream.tobytes()

    def write(self, bound: float | None, flat: bool = False) -> tuple[float, float, float]:
        """Seconds to write the field in chunks of 64^3 and to read it, and the ratio. All values of a `flat` field are equal: filter() takes
        almost no time, and the rest is HDF5's."""
        field = np.zeros_like(self.field) if flat else self.field
        options = {} if bound is None else {"compression": FILTER, "compression_opts": bound_words(bound)}
        self.file.unlink(missing_ok=True)
        start = time.perf_counter()
        with h5py.File(self.file, "w") as target:
            target.create_dataset("v", data=field, chunks=(64,) * 3, **options)
        there = time.perf_counter() - start
        restored = np.empty_like(field)
        start = time.perf_counter()
        with h5py.File(self.file) as source:
            source["v"].read_direct(restored)
        back = time.perf_counter() - start
        with h5py.File(self.file) as source:
            data = source["v"].id
            if bound is not None and any(data.get_chunk_info(number).filter_mask for number in range(data.get_num_chunks())):
                raise RuntimeError("HDF5 left a chunk uncompressed, so the filter failed: see QUIRE_LOG=1")
            ratio = field.nbytes / data.get_storage_size()
        if not np.all(np.abs(restored.astype(np.float64) - field) <= (bound or 0.0)):
            raise RuntimeError("the bound is broken through h5py")
        return there, back, ratio


OPTIONS = ("lossless", "lossless,coding=bitshuffle", "pwrel=1e-3", "rel=1e-3", "psnr=65", "ratio=8")


def options_hold(options: str, chunk: np.ndarray, restored: np.ndarray, stored: int) -> bool:
    """Whether a chunk of finite values keeps the promise of its options."""
    key, _, number = options.split(",")[0].partition("=")
    if key == "lossless":
        return chunk.tobytes() == restored.tobytes()
    wide, error = chunk.astype(np.float64), np.abs(chunk.astype(np.float64) - restored)
    span = float(wide.max() - wide.min())
    return {
        "pwrel": lambda: bool((error <= float(number) * np.abs(wide)).all()),
        "rel": lambda: error.max() <= float(number) * span,
        "psnr": lambda: np.sqrt(np.mean(error**2)) <= span * 10 ** ((0.05 - float(number)) / 20),
        "ratio": lambda: abs(chunk.nbytes / stored / float(number) - 1) <= 0.05,
    }[key]()


def serve(connection: object, folder: Path, plugin: Path, backend: str) -> None:
    os.environ["QUIRE_BACKEND"] = backend
    worker = Worker(folder, plugin)
    while (request := connection.recv()) is not None:
        try:
            connection.send(getattr(worker, request[0])(*request[1:]))
        except Exception as error:  # the parent shows every exception
            connection.send(error)


class Remote:
    """The parent's end of a worker."""

    def __init__(self, folder: Path, plugin: Path, backend: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        context.Process(target=serve, args=(other, folder, plugin, backend), daemon=True).start()

    def ask(self, *request: object) -> tuple:
        self.connection.send(request)
        answer = self.connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


class DeviceChunks(ctypes.Structure):
    """quire_device_chunks"""

    _fields_ = [
        ("value_type", ctypes.c_uint32), ("rank", ctypes.c_uint32), ("extents", ctypes.POINTER(ctypes.c_uint64)), ("count", ctypes.c_size_t),
        ("addresses", ctypes.POINTER(ctypes.c_uint64)), ("strides", ctypes.c_void_p), ("counts", ctypes.c_void_p), ("stream", ctypes.c_void_p),
    ]  # fmt: skip


class Bytes(ctypes.Structure):
    """quire_bytes"""

    _fields_ = [("address", ctypes.c_char_p), ("length", ctypes.c_size_t)]


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
            raise RuntimeError(f"{function.__name__}: {reason.address}")

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


def resident(field: np.ndarray, plugin: Path, repeats: int) -> Iterator[str]:
    """Lines of a table: chunks and streams in the GPU's memory. Bounds are checked first. The two take turns; a time is from a call until its work is done."""
    try:
        import cupy
        from nvidia import nvcomp
    except ImportError as error:
        yield f"Bitcomp is not measured: {error}; pip install nvidia-nvcomp-cu13 cupy-cuda13x, or -cu12 and cupy-cuda12x"
        return
    yield f"Bitcomp: nvCOMP {nvcomp.__version__}, CuPy {cupy.__version__}, {ResidentBitcomp.CALL}"
    yield f"{'chunk':<8}{'bound':>7}{'ratio':>7}{'error':>7} {'by':<9} {'compress':<32}{'decompress':<32}"
    library = ctypes.CDLL(str(plugin / PLUGIN_FILE))
    for edge, relative in product((64, 128, 256), RELATIVE):
        step(f"in the GPU's memory, {edge}^3, {relative:g}")
        cube = np.ascontiguousarray(field[:edge, :edge, :edge])
        bound = relative * float(cube.max() - cube.min())
        values = cupy.asarray(cube)
        cupy.cuda.runtime.deviceSynchronize()
        codecs = {"Quire": ResidentQuire(library, values, bound), "Bitcomp": ResidentBitcomp(values, bound)}
        heads, times = {}, {name: ([], []) for name in codecs}
        for name, codec in codecs.items():
            codec.compress()
            codec.decompress()
            stored, restored = codec.result()
            worst = float(np.abs(restored.astype(np.float64) - cube).max()) / bound
            if not worst <= 1:
                raise RuntimeError(f"{name} at {edge}^3, {relative:g}: an error of {worst} bounds")
            heads[name] = f"{cube.nbytes / stored:7.2f}{worst:7.3f} {name:<9}"
        for _ in range(repeats):
            for name, codec in codecs.items():
                for way, taken in zip((codec.compress, codec.decompress), times[name]):
                    start = time.perf_counter()
                    way()
                    taken.append(time.perf_counter() - start)
        for name, (there, back) in times.items():
            yield f"{f'{edge}^3':<8}{relative:7g}{heads[name]} {cell(there, cube.nbytes):<32}{cell(back, cube.nbytes):<32}"


def cell(times: list[float], size: int) -> str:
    first, middle, third = quantiles(times, n=4, method="inclusive")
    return f"{1e6 * middle:9.0f} ({1e6 * first:.0f}-{1e6 * third:.0f}) {size / middle / 1e9:7.2f}"


def filter_lines(field: np.ndarray, remotes: dict[str, Remote], repeats: int) -> Iterator[str]:
    yield f"{'chunk':<8}{'bound':>7}{'ratio':>7}{'backend':>9}   {'compress':<32}{'decompress':<32}"
    for edge, relative in product(EDGES, RELATIVE):
        step(f"{edge}^3, {relative:g}")
        cube = field[:edge, :edge, :edge]
        bound = relative * float(cube.max() - cube.min())
        results = {backend: [] for backend in remotes}
        # The backends take turns. The CPU, which is slower, has fewer runs.
        for _ in range(5):
            for backend, remote in remotes.items():
                results[backend].append(remote.ask("chunk", edge, bound, repeats if backend == "cuda" else max(3, repeats * 32**3 // edge**3)))
        streams = {stream for rows in results.values() for _, _, stream in rows}
        if len(streams) != 1:
            raise RuntimeError(f"{len(streams)} different streams of {edge}^3")
        for backend, rows in results.items():
            there, back = ([time for row in rows[1:] for time in row[which]] for which in (0, 1))
            ratio = cube.nbytes / len(rows[0][2])
            yield f"{edge}^3".ljust(8) + f"{relative:7g}{ratio:7.2f}{backend:>9}   {cell(there, cube.nbytes):<32}{cell(back, cube.nbytes):<32}"


def option_lines(remotes: dict[str, Remote]) -> Iterator[str]:
    yield f"{'chunk':<8}{'options':<27}{'ratio':>7}{'backend':>9}   {'compress':<32}{'decompress':<32}"
    for edge, options in product((64, 256), OPTIONS):
        step(f"{edge}^3, {options}")
        repeats = {"cuda": 21, "cpu": max(2, 21 * 64**3 // edge**3)}
        results = {backend: remote.ask("options", edge, options, repeats[backend]) for backend, remote in remotes.items()}
        if results["cuda"][2] != results["cpu"][2]:
            raise RuntimeError(f"different streams of {edge}^3 with {options}")
        for backend, (there, back, stream) in results.items():
            size = 4 * edge**3
            yield f"{edge}^3".ljust(8) + f"{options:<27}{size / len(stream):7.2f}{backend:>9}   {cell(there, size):<32}{cell(back, size):<32}"


def h5py_lines(field: np.ndarray, remotes: dict[str, Remote], repeats: int) -> Iterator[str]:
    yield f"{'bound':<10}{'ratio':>7}{'filter':>10}   {'write':<36}{'read':<36}times no filter"
    span = float(field.max() - field.min())
    for relative in RELATIVE:
        step(f"h5py, {relative:g}")
        bound = relative * span
        results = {"none": [], "cuda": [], "cpu": [], "one value": []}
        for repeat in range(max(9, repeats // 3)):
            results["none"].append(remotes["cuda"].ask("write", None))
            results["cuda"].append(remotes["cuda"].ask("write", bound))
            results["one value"].append(remotes["cuda"].ask("write", bound, True))
            if repeat < 7:
                results["cpu"].append(remotes["cpu"].ask("write", bound))
        middles = {}
        for backend, rows in results.items():
            there, back = ([row[which] for row in rows[1:]] for which in (0, 1))
            middles[backend] = [quantiles(times, n=4, method="inclusive")[1] for times in (there, back)]
            times = " / ".join(f"{without / own:.2f}" for without, own in zip(middles["none"], middles[backend]))
            yield f"{relative:<10g}{rows[0][2]:7.2f}{backend:>10}   {cell(there, field.nbytes):<36}{cell(back, field.nbytes):<36}{times}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--plugin", type=Path, required=True, help="folder of libh5zquire.so, built with kernels")
    parser.add_argument("--results", type=Path, help="the table goes to this file as well")
    parser.add_argument("--repeats", type=int, default=51)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    os.environ["HDF5_PLUGIN_PATH"] = str(arguments.plugin.resolve())
    command = f"h5-samples/gpu.py --plugin {arguments.plugin} --repeats {arguments.repeats} --parts {' '.join(arguments.parts)}"
    lines = [measured(), f"machine: {machine()}", f"command: {command}"]
    print(*lines, sep="\n")
    step("field")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        field = velocity()
        np.save(Path(folder) / "field.npy", field)
        backends = ("cuda", "cpu") if set(arguments.parts) != {"resident"} else ()
        remotes = {backend: Remote(Path(folder), arguments.plugin, backend) for backend in backends}
        through_h5py = f"{SIZE}^3 f32 in chunks of 64^3 through h5py {h5py.version.version} (HDF5 {h5py.version.hdf5_version}) to a RAM disk"
        parts = {
            "filter": ("filter() alone, f32, us (quartiles) and GB/s", filter_lines(field, remotes, arguments.repeats)),
            "options": ("the same for other bounds", option_lines(remotes)),
            "h5py": (through_h5py, h5py_lines(field, remotes, arguments.repeats)),
            "resident": ("one chunk of f32 in the GPU's memory, its stream too, us (quartiles) and GB/s", resident(field, arguments.plugin, arguments.repeats)),
        }
        for part in arguments.parts:
            title, found = parts[part]
            for line in ("", title, *found):
                print(line, flush=True)
                lines.append(line)
        for remote in remotes.values():
            remote.connection.send(None)
    if arguments.results:
        arguments.results.write_text("\n".join([*lines, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
