"""Arrays in a GPU's memory through the C functions: the streams and the files are those of h5py's own path, and values come back to the GPU.

    resident.py LIBRARY FOLDER [threads] [few]

The GPU's memory is taken by NVIDIA's driver library alone, so that neither CuPy nor torch is needed; gpu/emulator's stand-in for the driver will do, which is
slow: `few` takes a part of the cases. Prints the number of comparisons. HDF5_PLUGIN_PATH names the folder of the library.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5py
import numpy as np

FILTER = 33791
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
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

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


class Library:
    def __init__(self, path: str) -> None:
        self.quire = ctypes.CDLL(path)
        for name in ("quire_h5_write", "quire_h5_read"):
            getattr(self.quire, name).argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p]

    def transfer(self, name: str, dataset: h5py.Dataset, values: OnGpu, start: tuple[int, ...]) -> None:
        array = values.array
        box = Box(
            TYPES[array.dtype.str[1:]] + 128 * (array.dtype.byteorder == ">"),
            array.ndim,
            numbers(ctypes.c_uint64, start),
            numbers(ctypes.c_uint64, array.shape),
            numbers(ctypes.c_int64, array.strides),
            values.address,
        )
        reason = Bytes()
        status = getattr(self.quire, name)(dataset.id.id, None, ctypes.byref(box), 0, ctypes.byref(reason))
        said = reason.take(self.quire)
        assert status == 0, f"{name}: status {status}, {said.decode()}"

    def compress(self, options: bytes, chunks: Chunks) -> list[bytes]:
        streams, reason = (Bytes * chunks.count)(), Bytes()
        status = self.quire.quire_device_compress(options, None, ctypes.byref(chunks), streams, ctypes.byref(reason))
        said = reason.take(self.quire)
        assert status == 0, f"status {status}, {said.decode()}"
        return [stream.take(self.quire) for stream in streams]

    def on_the_host(self, options: bytes, array: np.ndarray) -> bytes:
        result = Bytes()
        extents = numbers(ctypes.c_uint64, array.shape)
        data = ctypes.c_void_p(array.ctypes.data)
        status = self.quire.quire_compress(
            options, TYPES[array.dtype.str[1:]], array.ndim, extents, None, data, ctypes.c_size_t(array.nbytes), ctypes.byref(result)
        )
        stream = result.take(self.quire)
        assert status == 0, stream.decode()
        return stream


def field(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Waves, a region of one value, and some noise."""
    axes = np.meshgrid(*(np.linspace(0, 3 + axis + seed, extent) for axis, extent in enumerate(shape)), indexing="ij")
    values = 60 * sum(np.sin(axis * (3 + number)) for number, axis in enumerate(axes)) / len(axes)
    values[tuple(slice(0, extent // 3) for extent in shape)] = 7
    values += np.random.default_rng(seed).normal(scale=0.05, size=shape)
    return np.rint(np.abs(values)).astype(dtype) if np.dtype(dtype).kind in "iu" else values.astype(dtype)


def digests(dataset: h5py.Dataset) -> dict[tuple[int, ...], str]:
    """A digest of every chunk that the file has, by the indices of its first value."""
    dataset.file.flush()
    infos = [dataset.id.get_chunk_info(index) for index in range(dataset.id.get_num_chunks())]
    return {info.chunk_offset: hashlib.sha256(dataset.id.read_direct_chunk(info.chunk_offset)[1]).hexdigest() for info in infos}


def check_files(driver: Driver, library: Library, folder: Path, few: bool) -> int:
    compared = 0
    # Absolute bounds, a share of the range, the exact bits.
    cases = [("f4", (2, 3)), ("f8", (2, 2)), ("f4", (4, 3)), ("f8", (0,)), ("i2", (2, 0, 3)), (">f4", (2, 2)), ("u1", (0,))]
    cases = cases[1:2] if few else cases
    with h5py.File(folder / "resident.h5", "w") as file:
        for number, (dtype, options) in enumerate(cases):
            shape, chunk = (50, 61, 45), (20, 24, 32)
            values = field(shape, dtype, number)
            pair = [
                file.create_dataset(f"{number}/{way}", shape, dtype, chunks=chunk, fillvalue=3, compression=FILTER, compression_opts=options)
                for way in ("ours", "theirs")
            ]
            # C order; Fortran's; every other value of a larger array, reversed.
            spread = np.full((100, 61, 45), 9, dtype)
            for array in (values.copy(), np.asfortranarray(values), spread[::-2])[1 if few else 0 :]:
                array[...] = values
                there = OnGpu(driver, array)
                library.transfer("quire_h5_write", pair[0], there, (0, 0, 0))
                there.free()
                pair[1][...] = values
                assert digests(pair[0]) == digests(pair[1]), f"{dtype} {options}: the chunks differ"
                compared += 1
            # A part of the dataset, over what is there.
            patch = field((17, 30, 20), dtype, 90 + number)
            there = OnGpu(driver, patch)
            library.transfer("quire_h5_write", pair[0], there, (11, 9, 22))
            there.free()
            pair[1][11:28, 9:39, 22:42] = patch
            assert digests(pair[0]) == digests(pair[1]), f"{dtype} {options}: the chunks of a part differ"
            for target in (np.zeros(shape, dtype), np.zeros(shape, dtype, order="F"), np.zeros((100, 61, 45), dtype)[::-2])[2 if few else 0 :]:
                there = OnGpu(driver, target)
                library.transfer("quire_h5_read", pair[0], there, (0, 0, 0))
                assert np.array_equal(there.fetch(), pair[1][...]), f"{dtype} {options}: read"
                there.free()
                compared += 1
        # Chunks that the file does not have, and those that HDF5 has stored without the filter.
        dataset = file.create_dataset("sparse", (64, 64), "f4", chunks=(32, 32), fillvalue=-5, compression=FILTER, compression_opts=(2, 3))
        raw = np.arange(32 * 32, dtype="f4").reshape(32, 32)
        dataset.id.write_direct_chunk((32, 0), raw.tobytes(), filter_mask=1)
        there = OnGpu(driver, np.zeros((64, 64), "f4"))
        library.transfer("quire_h5_read", dataset, there, (0, 0))
        expected = np.full((64, 64), -5, "f4")
        expected[32:, :32] = raw
        assert np.array_equal(there.fetch(), expected)
        there.free()
    with h5py.File(folder / "resident.h5", "r") as file:  # read beside HDF5, by the threads
        for number, (dtype, _) in enumerate(cases):
            dataset = file[f"{number}/ours"]
            there = OnGpu(driver, np.zeros(dataset.shape, dtype))
            library.transfer("quire_h5_read", dataset, there, (0, 0, 0))
            assert np.array_equal(there.fetch(), dataset[...]), f"{dtype}: read from a file that is open for reading"
            there.free()
            compared += 1
    return compared


def check_chunks(driver: Driver, library: Library, few: bool) -> int:
    compared = 0
    cases = [("f4", b"abs=1e-3"), ("f8", b"rel=1e-3"), ("f4", b"psnr=60"), ("i4", b"abs=3"), ("f2", b"lossless")]
    for dtype, options in cases[:1] if few else cases:
        arrays = np.stack([field((20, 30, 40), dtype, seed) for seed in range(7)])
        arrays[3] = 1
        there = OnGpu(driver, arrays)
        chunk_bytes = arrays[0].nbytes
        addresses = numbers(ctypes.c_uint64, tuple(there.address + number * chunk_bytes for number in range(7)))
        extents = numbers(ctypes.c_uint64, (20, 30, 40))
        chunks = Chunks(TYPES[dtype], 3, extents, 7, addresses, None, None, None)
        streams = library.compress(options, chunks)
        assert streams == [library.on_the_host(options, array) for array in arrays], f"{dtype} {options}: the streams differ"
        lengths, offsets, reason = (ctypes.c_uint64 * 7)(), (ctypes.c_uint64 * 7)(), Bytes()
        to_device = library.quire.quire_device_compress_to_device
        to_device.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64] + 3 * [ctypes.c_void_p]
        arguments = (options, None, ctypes.byref(chunks))
        assert to_device(*arguments, 0, 0, offsets, lengths, ctypes.byref(reason)) == 0, reason.take(library.quire)
        assert list(lengths) == [len(stream) for stream in streams]
        packed = OnGpu(driver, np.zeros(offsets[6] + lengths[6], "u1"))
        assert to_device(*arguments, packed.address, 16, offsets, lengths, ctypes.byref(reason)) == INVALID
        assert f"take {offsets[6] + lengths[6] + -lengths[6] % 16} bytes" in reason.take(library.quire).decode()
        room = offsets[6] + lengths[6] + -lengths[6] % 16
        assert to_device(*arguments, packed.address, room, offsets, lengths, ctypes.byref(reason)) == 0, reason.take(library.quire)
        target = OnGpu(driver, np.zeros_like(arrays))
        chunks.addresses = numbers(ctypes.c_uint64, tuple(target.address + number * chunk_bytes for number in range(7)))
        # Streams in the GPU's memory, and one in the host's.
        last = ctypes.create_string_buffer(streams[6], len(streams[6]))
        places = [packed.address + offset for offset in offsets[:6]] + [ctypes.addressof(last)]
        sizes = (ctypes.c_size_t * 7)(*lengths)
        status = library.quire.quire_device_decompress((ctypes.c_void_p * 7)(*places), sizes, ctypes.byref(chunks), ctypes.byref(reason))
        assert status == 0, reason.take(library.quire)
        if options == b"lossless":
            assert np.array_equal(target.fetch(), arrays)
        elif options.startswith(b"abs"):
            worst = np.abs(target.fetch().astype("f8") - arrays.astype("f8")).max()
            assert worst <= float(options[4:]), worst
        chunks.addresses = numbers(ctypes.c_uint64, (arrays.ctypes.data,) * 7)
        streams_room = (Bytes * 7)()
        assert library.quire.quire_device_compress(options, None, ctypes.byref(chunks), streams_room, ctypes.byref(reason)) == INVALID
        assert "not in a GPU's memory" in reason.take(library.quire).decode()
        for held in (there, packed, target):
            held.free()
        compared += 7
    return compared


def check_threads(driver: Driver, library: Library, few: bool) -> int:
    """Threads that have the GPU compress chunks in its memory, decompress into it, and work on chunks of the host, as the filter does, at once."""
    options, shape = b"abs=1e-3", (24, 32, 40)
    arrays = [field(shape, "f4", seed) for seed in range(3)]
    nbytes = arrays[0].nbytes
    expected = [library.on_the_host(options, array) for array in arrays]
    there = OnGpu(driver, np.stack(arrays))
    targets = [OnGpu(driver, np.zeros((3, *shape), "f4")) for _ in range(2)]
    counts: list[int] = []
    failures: list[BaseException] = []

    def chunks_of(array: OnGpu) -> Chunks:
        addresses = tuple(array.address + number * nbytes for number in range(3))
        return Chunks(TYPES["f4"], 3, numbers(ctypes.c_uint64, shape), 3, numbers(ctypes.c_uint64, addresses), None, None, None)

    def compress_there() -> None:
        assert library.compress(options, chunks_of(there)) == expected, "other streams"

    def compress_here() -> None:
        assert [library.on_the_host(options, array) for array in arrays] == expected, "other streams"

    def decompress(target: OnGpu) -> None:
        held = [ctypes.create_string_buffer(stream, len(stream)) for stream in expected]
        places, sizes = (ctypes.c_void_p * 3)(*map(ctypes.addressof, held)), (ctypes.c_size_t * 3)(*map(len, expected))
        chunks, reason = chunks_of(target), Bytes()
        status = library.quire.quire_device_decompress(places, sizes, ctypes.byref(chunks), ctypes.byref(reason))
        assert status == 0, reason.take(library.quire).decode()
        library.quire.quire_free(ctypes.byref(reason))

    def work(task: Callable[[], None]) -> None:
        try:
            for _ in range(3 if few else 100):
                task()
                counts.append(1)
        except BaseException as error:  # noqa: B902
            failures.append(error)

    tasks = [compress_there, compress_there, compress_here, compress_here, *(partial(decompress, target) for target in targets)]
    threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for target in targets:
        assert np.abs(target.fetch().astype("f8") - np.stack(arrays)).max() <= 1e-3, "values beyond the bound"
    return len(counts)


def main() -> None:
    library, folder, few = Library(sys.argv[1]), Path(sys.argv[2]), "few" in sys.argv[3:]
    info = Bytes()
    assert library.quire.quire_info(ctypes.byref(info)) == 0
    found = json.loads(info.take(library.quire))
    if found["backend"] != "cuda":
        assert os.environ.get("QUIRE_REQUIRE_CUDA") != "1", found
        print(f"skipped: {found['why']}")
        return
    driver = Driver()
    if "threads" in sys.argv[3:]:
        print(f"{check_threads(driver, library, few)} calls of threads at once")
        return
    command = [sys.executable, __file__, *sys.argv[1:3], "threads", *sys.argv[3:]]
    # Every chunk of the host goes to the GPU, too.
    print(subprocess.run(command, env=os.environ | {"QUIRE_BACKEND": "cuda"}, capture_output=True, text=True, check=True).stdout.strip())
    compared = check_chunks(driver, library, few) + check_files(driver, library, folder, few)
    print(f"{compared} comparisons")


if __name__ == "__main__":
    main()
