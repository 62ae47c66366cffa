"""Chunks in a GPU's memory through the C functions: the streams are those of the host, and the values come back to the GPU.

    resident.py LIBRARY [threads] [few]

The GPU's memory is taken by NVIDIA's driver library alone, so that neither CuPy nor torch is needed. gpu/emulator's stand-in for the driver is slow: with
`few`, each thread makes few calls. Prints the number of calls. HDF5_PLUGIN_PATH names the folder of the library.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from quire_client import smooth

NO_GPU, HDF5, INVALID = 8, 7, 1
TYPES = {"f4": 0, "f8": 1, "f2": 2, "i1": 4, "u1": 5, "i2": 6, "u2": 7, "i4": 8, "u4": 9, "i8": 10, "u8": 11}


class Bytes(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    def take(self, library: ctypes.CDLL) -> bytes:
        taken = ctypes.string_at(self.address, self.length) if self.address else b""
        library.quire_free(ctypes.byref(self))
        return taken


class Chunks(ctypes.Structure):
    _fields_ = [
        ("value_type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("extents", ctypes.POINTER(ctypes.c_uint64)),
        ("count", ctypes.c_size_t),
        ("addresses", ctypes.POINTER(ctypes.c_uint64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("counts", ctypes.POINTER(ctypes.c_uint64)),
        ("stream", ctypes.c_void_p),
    ]


class Box(ctypes.Structure):
    _fields_ = [
        ("value_type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("start", ctypes.POINTER(ctypes.c_uint64)),
        ("count", ctypes.POINTER(ctypes.c_uint64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("values", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
    ]


class Driver:
    """The driver's calls that this program needs."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.enter()

    def enter(self) -> None:
        """Has this thread use the GPU."""
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name}: error {code}"


class OnGpu:
    """An array in the GPU's memory, at `address`, with the strides of the numpy array that it was made from."""

    def __init__(self, driver: Driver, array: np.ndarray) -> None:
        self.driver, self.array = driver, array
        self.base = array if array.base is None else array.base
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(self.base.nbytes, 1)))
        self.memory = address.value
        driver.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(self.base.ctypes.data), ctypes.c_size_t(self.base.nbytes))
        self.address = self.memory + array.ctypes.data - self.base.ctypes.data

    def fetch(self) -> np.ndarray:
        """The array as it is there now."""
        data = ctypes.c_void_p(self.base.ctypes.data)
        self.driver.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.memory), ctypes.c_size_t(self.base.nbytes))
        return self.array

    def free(self) -> None:
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(self.memory))


def numbers(kind: type, values: tuple[int, ...]) -> ctypes.Array:
    return (kind * len(values))(*values)


def type_number(dtype: np.dtype) -> int:
    return TYPES[dtype.str[1:]] + 128 * (dtype.byteorder == ">")


class Library:
    def __init__(self, path: str) -> None:
        self.quire = ctypes.CDLL(path)
        box = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]
        for name in ("write", "read"):
            getattr(self.quire, f"quire_h5_{name}").argtypes = box
            getattr(self.quire, f"quire_h5_begin_{name}").argtypes = [*box, ctypes.c_void_p]
        places = [ctypes.c_uint64, ctypes.c_uint64] + 3 * [ctypes.c_void_p]
        self.quire.quire_device_compress_to_device.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, *places]

    def compress(self, options: bytes, array: np.ndarray) -> bytes:
        """A stream that is made of the host's memory."""
        result, extents, data = Bytes(), numbers(ctypes.c_uint64, array.shape), ctypes.c_void_p(array.ctypes.data)
        length = ctypes.c_size_t(array.nbytes)
        status = self.quire.quire_compress(options, type_number(array.dtype), array.ndim, extents, None, data, length, ctypes.byref(result))
        stream = result.take(self.quire)
        assert status == 0, stream.decode()
        return stream

    def decompress(self, stream: bytes, like: np.ndarray) -> np.ndarray:
        values, reason = np.zeros_like(like), Bytes()
        data, length = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
        status = self.quire.quire_decompress(stream, ctypes.c_size_t(len(stream)), data, length, ctypes.byref(reason))
        assert status == 0, reason.take(self.quire).decode()
        return values


class Calls:
    """The functions of chunks in a GPU's memory, on some chunks. Each gives its status and what it says, after the results were compared with the host's."""

    def __init__(self, driver: Driver, library: Library, arrays: np.ndarray, options: bytes) -> None:
        self.driver, self.quire, self.options, self.arrays = driver, library.quire, options, arrays
        self.expected = [library.compress(options, array) for array in arrays]
        self.restored = np.array([library.decompress(stream, array) for stream, array in zip(self.expected, arrays)], arrays.dtype)
        self.there, self.target = OnGpu(driver, arrays), OnGpu(driver, np.zeros_like(arrays))
        self.offsets = numbers(ctypes.c_uint64, (0,) * len(arrays))
        #: Each stream begins at a multiple of 16.
        self.room = sum(len(stream) + -len(stream) % 16 for stream in self.expected)
        self.packed = OnGpu(driver, np.zeros(max(self.room, 2 * arrays.nbytes), "u1"))

    def chunks(self, array: OnGpu) -> Chunks:
        return self.chunks_at(tuple(array.address + number * self.arrays[0].nbytes for number in range(len(self.arrays))))

    def chunks_at(self, addresses: tuple[int, ...]) -> Chunks:
        extents, places = numbers(ctypes.c_uint64, self.arrays[0].shape), numbers(ctypes.c_uint64, addresses)
        return Chunks(type_number(self.arrays.dtype), self.arrays.ndim - 1, extents, len(addresses), places, None, None, None)

    def compress(self, chunks: Chunks) -> tuple[int, str]:
        streams, reason = (Bytes * chunks.count)(), Bytes()
        status = self.quire.quire_device_compress(self.options, None, ctypes.byref(chunks), streams, ctypes.byref(reason))
        found = [stream.take(self.quire) for stream in streams]
        assert found == (self.expected if status == 0 else [b""] * chunks.count), f"{self.options!r}, status {status}: other streams"
        return status, reason.take(self.quire).decode()

    def compress_to_device(self, chunks: Chunks, target: int | None = None, room: int | None = None) -> tuple[int, str]:
        """To `packed`, unless another target is given."""
        lengths, reason = numbers(ctypes.c_uint64, (0,) * chunks.count), Bytes()
        target, room = (self.packed.address if target is None else target), (self.packed.base.nbytes if room is None else room)
        call = self.quire.quire_device_compress_to_device
        status = call(self.options, None, ctypes.byref(chunks), target, room, self.offsets, lengths, ctypes.byref(reason))
        if status == 0:
            assert list(lengths) == [len(stream) for stream in self.expected]
        if status == 0 and target == self.packed.address:
            packed = self.packed.fetch()
            found = [packed[offset : offset + length].tobytes() for offset, length in zip(self.offsets, lengths)]
            assert found == self.expected, f"{self.options!r}: other streams"
        return status, reason.take(self.quire).decode()

    def decompress(self, chunks: Chunks, target: OnGpu | None = None, packed: int = 0) -> tuple[int, str]:
        """So many streams, the first ones, are in the GPU's memory, where `compress_to_device` has left them, and the others in the host's."""
        held = [ctypes.create_string_buffer(stream, len(stream)) for stream in self.expected]
        places = [self.packed.address + offset for offset in self.offsets[:packed]] + [ctypes.addressof(each) for each in held[packed:]]
        streams, sizes, reason = numbers(ctypes.c_void_p, tuple(places)), numbers(ctypes.c_size_t, tuple(map(len, self.expected))), Bytes()
        status = self.quire.quire_device_decompress(streams, sizes, ctypes.byref(chunks), ctypes.byref(reason))
        if status == 0:
            assert (target or self.target).fetch().tobytes() == self.restored.tobytes(), f"{self.options!r}: other values"
        return status, reason.take(self.quire).decode()

    def all(self) -> list[tuple[int, str]]:
        chunks = self.chunks(self.there)
        return [self.compress(chunks), self.compress_to_device(chunks), self.decompress(self.chunks(self.target))]


def field(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Waves, and a region of one value."""
    values = 60 * smooth(shape, "f8", seed)
    values[tuple(slice(0, extent // 3) for extent in shape)] = 7
    return np.rint(np.abs(values)).astype(dtype) if np.dtype(dtype).kind == "i" else values.astype(dtype)


def check_chunks(driver: Driver, library: Library) -> int:
    """Types and bounds, streams in the memory of the GPU and of the host, and too little room."""
    cases = [("<f4", b"abs=1e-3"), (">f8", b"rel=1e-3"), ("<f4", b"psnr=60"), ("<i4", b"abs=3"), ("<f2", b"lossless")]
    for dtype, options in cases:
        arrays = np.array([field((20, 30, 40), dtype, seed) for seed in range(7)], dtype)
        arrays[3] = 1
        calls = Calls(driver, library, arrays, options)
        chunks = calls.chunks(calls.there)
        for status, said in (calls.compress_to_device(chunks, 0, 0), *calls.all(), calls.decompress(calls.chunks(calls.target), packed=6)):
            assert status == 0, f"{dtype} {options!r}: {said}"
        status, said = calls.compress_to_device(chunks, room=16)
        assert status == INVALID and f"take {calls.room} bytes" in said, said
        for held in (calls.there, calls.packed, calls.target):
            held.free()
    return 6 * len(cases)


def check_threads(driver: Driver, library: Library, few: bool) -> int:
    """Threads that have the GPU compress chunks in its memory, decompress into it, and work on chunks of the host, as the filter does, at once."""
    arrays = np.stack([field((24, 32, 40), "<f4", seed) for seed in range(3)])
    calls = Calls(driver, library, arrays, b"abs=1e-3")
    targets = [OnGpu(driver, np.zeros_like(arrays)) for _ in range(2)]

    def compress_here() -> tuple[int, str]:
        assert [library.compress(calls.options, array) for array in arrays] == calls.expected, "other streams"
        return 0, ""

    def work(task: Callable[[], tuple[int, str]]) -> int:
        times = 3 if few else 100
        for _ in range(times):
            status, said = task()
            assert status == 0, said
        return times

    there = [partial(calls.compress, calls.chunks(calls.there))] * 2
    tasks = [*there, compress_here, compress_here, *(partial(calls.decompress, calls.chunks(target), target) for target in targets)]
    with ThreadPoolExecutor(len(tasks), initializer=driver.enter) as pool:
        return sum(pool.map(work, tasks))


def main() -> None:
    library, few = Library(sys.argv[1]), "few" in sys.argv[2:]
    info = Bytes()
    assert library.quire.quire_info(ctypes.byref(info)) == 0
    found = json.loads(info.take(library.quire))
    if found["backend"] != "cuda":
        assert os.environ.get("QUIRE_REQUIRE_CUDA") != "1", found
        print(f"skipped: {found['why']}")
        return
    driver = Driver()
    if "threads" in sys.argv[2:]:
        print(f"{check_threads(driver, library, few)} calls of threads at once")
        return
    command = [sys.executable, __file__, sys.argv[1], "threads", *sys.argv[2:]]
    # Every chunk of the host goes to the GPU, too.
    print(subprocess.run(command, env=os.environ | {"QUIRE_BACKEND": "cuda"}, capture_output=True, text=True, check=True).stdout.strip())
    print(f"{check_chunks(driver, library)} calls")


if __name__ == "__main__":
    main()
