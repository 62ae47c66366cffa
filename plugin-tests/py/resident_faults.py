"""Faults of arrays in a GPU's memory: the driver's launches and allocations fail, one after another, or an array is elsewhere. An error says so, chunks that
the file has are as they were, and the next call works: on the GPU after a lack of memory, from the host's memory after a failed launch.

    resident_faults.py LIBRARY FOLDER

The driver is plugin-tests/c/failing_cuda.c before NVIDIA's or gpu/emulator's. Prints what was done. HDF5_PLUGIN_PATH names the folder of the library.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np

from resident import FILTER, HDF5, INVALID, NO_GPU, TYPES, Box, Bytes, Chunks, Driver, Library, OnGpu, digests, field, numbers

SHAPE, CHUNK = (20, 24, 64), (20, 24, 32)
OPTIONS, EXACT = (2, 3), b"abs=1e-3"
#: The number of an allocation or a launch beyond all that a call makes.
MOST = 400
#: Most processes at once, which share a GPU's memory.
MOST_AT_ONCE = 8


class FailingDriver(Driver):
    def __init__(self) -> None:
        # Calls of single chunks launch graphs, which are let alone.
        os.environ["QUIRE_TEST_LAUNCHES"] = str(1 << 30)
        super().__init__()

    def allow(self, kernels: int = -1, allocations: int = -1, refusals: int = -1) -> None:
        """From now on so many succeed, all if the number is below 0. Then so many allocations fail, or all behind."""
        self.cuda.quire_test_allow(kernels, allocations, refusals)

    def refused(self) -> int:
        """How many allocations have failed."""
        return self.cuda.quire_test_refused()

    def place(self, array: OnGpu, device: int) -> None:
        """The array is on another GPU, it is said."""
        self.cuda.quire_test_place(ctypes.c_uint64(array.memory), ctypes.c_uint64(array.base.nbytes), device)


class Calls:
    """The functions of chunks in a GPU's memory, on two chunks."""

    def __init__(self, driver: FailingDriver, library: Library, arrays: np.ndarray | None = None, options: bytes = EXACT) -> None:
        self.driver, self.quire, self.options = driver, library.quire, options
        self.arrays = np.stack([field(CHUNK, "f4", seed) for seed in range(2)]) if arrays is None else arrays
        self.there = OnGpu(driver, self.arrays)
        self.expected = [library.on_the_host(options, array) for array in self.arrays]
        self.target = OnGpu(driver, np.zeros_like(self.arrays))
        self.packed = OnGpu(driver, np.zeros(2 * self.arrays.nbytes + 64, "u1"))

    @classmethod
    def of_noise(cls, driver: FailingDriver, library: Library) -> Calls:
        """Streams are longer than their chunks, of 64 KiB, so that the host makes them, and then takes more memory for them."""
        bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 16, 32, 32), "u4")
        made = cls(driver, library, bits.view("f4"), b"pwrel=1e-8")
        assert min(map(len, made.expected)) > made.arrays[0].nbytes
        return made

    def chunks(self, array: OnGpu) -> Chunks:
        addresses = tuple(array.address + number * self.arrays[0].nbytes for number in range(2))
        return self.chunks_at(addresses)

    def chunks_at(self, addresses: tuple[int, ...]) -> Chunks:
        extents = numbers(ctypes.c_uint64, self.arrays[0].shape)
        return Chunks(TYPES["f4"], 3, extents, len(addresses), numbers(ctypes.c_uint64, addresses), None, None, None)

    def compress(self, chunks: Chunks) -> tuple[int, str]:
        streams, reason = (Bytes * chunks.count)(), Bytes()
        status = self.quire.quire_device_compress(self.options, None, ctypes.byref(chunks), streams, ctypes.byref(reason))
        found = [stream.take(self.quire) for stream in streams]
        assert found == (self.expected if status == 0 else [b""] * chunks.count), f"status {status}: other streams"
        return status, reason.take(self.quire).decode()

    def compress_to_device(self, chunks: Chunks, target: int = 0) -> tuple[int, str]:
        offsets, lengths, reason = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 2)(), Bytes()
        call = self.quire.quire_device_compress_to_device
        call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64] + 3 * [ctypes.c_void_p]
        target = target or self.packed.address
        status = call(self.options, None, ctypes.byref(chunks), target, self.packed.base.nbytes, offsets, lengths, ctypes.byref(reason))
        if status == 0:
            assert list(lengths) == [len(stream) for stream in self.expected]
            packed = self.packed.fetch()
            found = [packed[offset : offset + length].tobytes() for offset, length in zip(offsets, lengths)]
            assert found == self.expected, "other streams"
        return status, reason.take(self.quire).decode()

    def decompress(self, chunks: Chunks) -> tuple[int, str]:
        reason = Bytes()
        held = [ctypes.create_string_buffer(stream, len(stream)) for stream in self.expected]
        places = (ctypes.c_void_p * 2)(*map(ctypes.addressof, held))
        sizes = (ctypes.c_size_t * 2)(*map(len, self.expected))
        status = self.quire.quire_device_decompress(places, sizes, ctypes.byref(chunks), ctypes.byref(reason))
        if status == 0:
            found = self.target.fetch()
            # Noise has NaN among its bits.
            is_exact = found.tobytes() == self.arrays.tobytes()
            assert is_exact or np.abs(found.astype("f8") - self.arrays).max() <= 1e-3
        return status, reason.take(self.quire).decode()

    def all(self) -> list[tuple[int, str]]:
        chunks = self.chunks(self.there)
        return [self.compress(chunks), self.compress_to_device(chunks), self.decompress(self.chunks(self.target))]


class Boxes:
    """A dataset and the functions of boxes. It has values that no failed write may change."""

    def __init__(self, driver: FailingDriver, library: Library, path: Path) -> None:
        self.driver, self.quire, self.path = driver, library.quire, path
        self.old, self.new = field(SHAPE, "f4", 1), field(SHAPE, "f4", 2)
        with h5py.File(path, "w") as file:
            for name in ("t", "expected"):
                file.create_dataset(name, SHAPE, "f4", chunks=CHUNK, compression=FILTER, compression_opts=OPTIONS)
            file["t"][...] = self.old
            file["expected"][...] = self.new
            self.before, self.after = digests(file["t"]), digests(file["expected"])
        self.there, self.target = OnGpu(driver, self.new), OnGpu(driver, np.zeros(SHAPE, "f4"))

    def transfer(self, name: str, file: h5py.File, values: OnGpu) -> tuple[int, str]:
        start, extents, strides = (numbers(kind, each) for kind, each in ((ctypes.c_uint64, (0, 0, 0)), (ctypes.c_uint64, SHAPE), (ctypes.c_int64, self.new.strides)))
        box, reason, dataset = Box(TYPES["f4"], 3, start, extents, strides, values.address), Bytes(), file["t"]
        status = getattr(self.quire, name)(dataset.id.id, None, ctypes.byref(box), 0, ctypes.byref(reason))
        return status, reason.take(self.quire).decode()

    def write(self) -> tuple[int, str]:
        """A write that succeeds, or leaves each chunk as it was or as it is to be."""
        with h5py.File(self.path, "r+") as file:
            status, said = self.transfer("quire_h5_write", file, self.there)
            found = digests(file["t"])
        assert all(digest in (self.before[at], self.after[at]) for at, digest in found.items()) and found.keys() == self.before.keys()
        assert status != 0 or found == self.after, "other chunks"
        return status, said

    def read(self) -> tuple[int, str]:
        with h5py.File(self.path, "r") as file:
            status, said = self.transfer("quire_h5_read", file, self.target)
            assert status != 0 or np.array_equal(self.target.fetch(), file["t"][...])
        return status, said

    def all(self) -> list[tuple[int, str]]:
        return [self.write(), self.read()]

    def works_from_the_host(self) -> None:
        with h5py.File(self.path, "r+") as file:
            file["t"][...] = self.new
            assert digests(file["t"]) == self.after
        with h5py.File(self.path, "r") as file:
            assert np.abs(file["t"][...].astype("f8") - self.new).max() <= 1e-2


def one(library: Library, folder: Path, what: str, number: int) -> bool:
    """Fails from launch or allocation `number` of a process's calls on. Whether any did."""
    driver = FailingDriver()
    # What comes first takes the most memory.
    first = Calls.of_noise(driver, library) if what == "one allocation" else Calls(driver, library)
    for made in (first, Boxes(driver, library, folder / f"{what}_{number}.h5")):
        driver.allow(**({"allocations": number, "refusals": 1} if what == "one allocation" else {what: number}))
        outcomes = made.all()
        driver.allow()
        for status, said in outcomes:
            reason = "LAUNCH_FAILED" if what == "kernels" else "OUT_OF_MEMORY"
            assert status in (0, NO_GPU) and (status == 0 or reason in said), f"{what} {number}: {status}: {said}"
        # A batch is cut in two where one allocation fails, and then succeeds.
        has_failed = any(status for status, _ in outcomes) or what == "one allocation" and driver.refused() > 0
        if what != "kernels" or not has_failed:
            following = made.all()
            # A GPU that could not be opened for lack of memory is tried again after a while.
            while any("copy them to the host" in said for _, said in following):
                time.sleep(0.5)
                following = made.all()
            assert all(status == 0 for status, _ in following), f"{what} {number}: {outcomes}, and the next calls: {following}"
        else:
            assert all(status == NO_GPU and said for status, said in made.all()), "a GPU whose driver has failed is not used again"
        if isinstance(made, Boxes):
            made.works_from_the_host()
        if has_failed:
            return True
    return False


def elsewhere(library: Library, folder: Path) -> None:
    """Arrays of the host, and of another GPU."""
    driver = FailingDriver()
    calls, boxes = Calls(driver, library), Boxes(driver, library, folder / "elsewhere.h5")
    on_host = calls.chunks_at((calls.arrays.ctypes.data,) * 2)
    for status, said in (calls.compress(on_host), calls.compress_to_device(on_host), calls.decompress(on_host)):
        assert status == INVALID and "not in a GPU's memory" in said, said
    status, said = calls.compress_to_device(calls.chunks(calls.there), target=calls.arrays.ctypes.data & ~15)
    assert status == INVALID and "is not in the memory of the GPU that has the values" in said, said
    # The second chunk is of another array.
    size = calls.arrays[0].nbytes
    mixed = calls.chunks_at((calls.there.address, calls.target.address + size))
    driver.place(calls.target, 1)
    for call in (calls.compress, calls.compress_to_device, calls.decompress):
        status, said = call(mixed)
        assert status == INVALID and "chunk 1 is in the memory of GPU 1, those before are in that of GPU 0" in said, said
    driver.place(calls.packed, 1)
    status, said = calls.compress_to_device(calls.chunks(calls.there))
    assert status == INVALID and "is not in the memory of the GPU that has the values" in said, said
    # A GPU that is not there.
    driver.place(calls.there, 63)
    status, said = calls.compress(calls.chunks(calls.there))
    assert status == NO_GPU and "GPU 63" in said, said
    driver.place(boxes.there, 63)
    status, said = boxes.write()
    assert status == NO_GPU and "GPU 63" in said, said
    with h5py.File(boxes.path, "r") as file:
        assert digests(file["t"]) == boxes.before
    driver.place(calls.there, 0)
    outcomes = calls.all() + boxes.all()
    assert all(status == 0 for status, _ in outcomes), outcomes


def read_only(library: Library, folder: Path) -> None:
    """A file that is open for reading alone."""
    driver = FailingDriver()
    boxes = Boxes(driver, library, folder / "read_only.h5")
    with h5py.File(boxes.path, "r") as file:
        status, said = boxes.transfer("quire_h5_write", file, boxes.there)
        assert status != 0 and "read" in said, f"{status}: {said}"
        assert digests(file["t"]) == boxes.before
        assert boxes.transfer("quire_h5_read", file, boxes.target)[0] == 0
    assert boxes.write()[0] == 0


def out_of_the_hosts_reach(library: Library, folder: Path) -> None:
    """Beginning a transfer does not look at values in a GPU's memory, which the host cannot read. The emulator's memory is the host's, and is closed to it
    meanwhile."""
    driver = FailingDriver()
    if not hasattr(driver.cuda, "quire_emulator_launched"):
        return
    boxes, quire, protect = Boxes(driver, library, folder / "reach.h5"), library.quire, ctypes.CDLL(None).mprotect
    pages, nothing, reading_and_writing = 4096, 0, 3
    room = OnGpu(driver, np.zeros(boxes.new.nbytes + 2 * pages, "u1"))
    address = room.address + -room.address % pages
    driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(boxes.new.ctypes.data), ctypes.c_size_t(boxes.new.nbytes))
    assert boxes.new.nbytes % pages == 0
    span = ctypes.c_void_p(address), ctypes.c_size_t(boxes.new.nbytes)
    begin, transfer, reason = quire.quire_h5_begin_write, ctypes.c_void_p(), Bytes()
    begin.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]
    box = Box(TYPES["f4"], 3, None, numbers(ctypes.c_uint64, SHAPE), None, address)
    with h5py.File(boxes.path, "r+") as file:
        dataset = file["t"]
        assert protect(*span, nothing) == 0
        status = begin(dataset.id.id, None, ctypes.byref(box), 0, ctypes.byref(transfer), ctypes.byref(reason))
        assert protect(*span, reading_and_writing) == 0
        assert status == 0, reason.take(quire).decode()
        quire.quire_transfer_end(ctypes.byref(transfer))
        # The host's functions say that they cannot read it.
        extents, length, result = numbers(ctypes.c_uint64, SHAPE), ctypes.c_size_t(boxes.new.nbytes), Bytes()
        assert protect(*span, nothing) == 0
        status = quire.quire_compress(EXACT, TYPES["f4"], 3, extents, None, span[0], length, ctypes.byref(result))
        assert protect(*span, reading_and_writing) == 0
        said = result.take(quire).decode()
        assert status == INVALID and "which this process cannot read: for values in a GPU's memory there are" in said, said


def resized(library: Library, folder: Path) -> str:
    """A dataset that the program shrinks while it is written and read. Returns what is said."""
    driver = FailingDriver()
    boxes, quire = Boxes(driver, library, folder / "resized.h5"), library.quire
    smaller = (*SHAPE[:2], CHUNK[2])

    def transfer(name: str, dataset: h5py.Dataset, values: OnGpu) -> tuple[int, str]:
        begin = getattr(quire, name)
        begin.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]
        moved, reason, done, total = ctypes.c_void_p(), Bytes(), ctypes.c_uint64(), ctypes.c_uint64(1)
        box = Box(TYPES["f4"], 3, None, numbers(ctypes.c_uint64, SHAPE), None, values.address)
        status = begin(dataset.id.id, None, ctypes.byref(box), 0, ctypes.byref(moved), ctypes.byref(reason))
        dataset.resize(smaller)
        while status == 0 and done.value < total.value:
            quire.quire_free(ctypes.byref(reason))
            quire.quire_transfer_wait(moved, 100)
            status = quire.quire_transfer_step(moved, ctypes.byref(done), ctypes.byref(total), ctypes.byref(reason))
        quire.quire_transfer_end(ctypes.byref(moved))
        return status, reason.take(quire).decode()

    with h5py.File(boxes.path, "a") as file:
        dataset = file.create_dataset("resized", SHAPE, "f4", chunks=CHUNK, maxshape=(None,) * 3, compression=FILTER, compression_opts=OPTIONS)
        outcomes = []
        for name, values in (("quire_h5_begin_write", boxes.there), ("quire_h5_begin_read", boxes.target)):
            dataset.resize(SHAPE)
            dataset[...] = boxes.old
            dataset.flush()
            outcomes.append(transfer(name, dataset, values))
            status, said = outcomes[-1]
            assert status == HDF5 and said.startswith("chunk at [0, 0, 32]: the dataset has been resized to [20, 24, 32]"), f"{name}: {status}: {said}"
            # What is left is as it was, or as it is to be.
            assert dataset.id.get_num_chunks() == 1, "a chunk beyond the dataset's end"
            found = dataset[...].astype("f8")
            left = [np.abs(found - each[:, :, : CHUNK[2]]).max() <= 1e-3 for each in (boxes.old, boxes.new)]
            assert any(left), name
        dataset.resize(SHAPE)
        status, said = boxes.transfer("quire_h5_write", {"t": dataset}, boxes.there)
        assert status == 0 and digests(dataset) == boxes.after, said
    return outcomes[0][1]


def main() -> None:
    library, folder = Library(sys.argv[1]), Path(sys.argv[2])
    if sys.argv[3:]:
        print("failed" if one(library, folder, sys.argv[3], int(sys.argv[4])) else "enough")
        return
    elsewhere(library, folder)
    read_only(library, folder)
    out_of_the_hosts_reach(library, folder)
    print(f"a dataset that has shrunk: {resized(library, folder)}")
    for what, step in (("allocations", 1), ("one allocation", 1), ("kernels", 5)):
        number = first_that_is_enough(what, step)
        assert number > 3 * step, f"{what}: none failed"
        print(f"{what}: {number} are enough, and the calls with fewer end in order", end="; ")
    print("arrays elsewhere and files for reading are errors")


def is_enough(what: str, number: int) -> bool:
    """Whether nothing fails with this number: see `one`. In a process of its own, which opens the GPU anew: what it has taken or lost stays so."""
    command = [sys.executable, __file__, *sys.argv[1:3], what, str(number)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, f"{what} {number}: {ended.stdout}{ended.stderr}"
    return ended.stdout.strip() == "enough"


def first_that_is_enough(what: str, step: int) -> int:
    """The least number with which nothing fails. Several processes at once look for it, as most of their time goes into starting Python, opening the GPU, and
    waits."""
    at_once = min(os.cpu_count() or 1, MOST_AT_ONCE)
    numbers = range(0, MOST, step)
    with ThreadPoolExecutor(at_once) as pool:
        for first in range(0, len(numbers), at_once):
            tried = numbers[first : first + at_once]
            for number, enough in zip(tried, pool.map(is_enough, [what] * len(tried), tried)):
                if enough:
                    return number
    raise AssertionError(f"{what}: a call takes more than {MOST}")


if __name__ == "__main__":
    main()
