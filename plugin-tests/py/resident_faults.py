"""Faults of arrays in a GPU's memory: the driver's launches and allocations fail, one after another, or an array is elsewhere. An error says so, chunks that
the file has are as they were, and the next call works: on the GPU after a lack of memory, from the host's memory after a failed launch.

    resident_faults.py LIBRARY FOLDER

The driver is plugin-tests/c/failing_cuda.c before NVIDIA's or gpu/emulator's. Prints what was done. HDF5_PLUGIN_PATH names the folder of the library.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from quire_client import FILTER_ID, stored
from resident import HDF5, INVALID, NO_GPU, TYPES, Box, Bytes, Calls, Driver, Library, OnGpu, field, numbers
from sampling import generator, is_full, said

SHAPE, CHUNK = (20, 24, 64), (20, 24, 32)
OPTIONS, EXACT = (2, 3), b"abs=1e-3"
#: The number of an allocation or a launch beyond all that a call makes.
MOST = 400
#: Processes at once, which share a GPU's memory. Much of their time they wait until a GPU that had no memory is tried again.
AT_ONCE = 8
# Exit codes of a process in which a call has failed, and of one in which none has.
SOME_FAILED, NONE_FAILED = 10, 11


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


def calls_on(driver: FailingDriver, library: Library) -> Calls:
    return Calls(driver, library, np.stack([field(CHUNK, "<f4", seed) for seed in range(2)]), EXACT)


def calls_on_noise(driver: FailingDriver, library: Library) -> Calls:
    """Streams are longer than their chunks, of 64 KiB, so that the host makes them, and then takes more memory for them."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 16, 32, 32), "u4")
    calls = Calls(driver, library, bits.view("<f4"), b"pwrel=1e-8")
    assert min(map(len, calls.expected)) > calls.arrays[0].nbytes
    return calls


class Boxes:
    """A dataset and the functions of boxes. It has values that no failed write may change."""

    def __init__(self, driver: FailingDriver, library: Library, path: Path) -> None:
        self.driver, self.quire, self.path = driver, library.quire, path
        self.old, self.new = field(SHAPE, "f4", 1), field(SHAPE, "f4", 2)
        with h5py.File(path, "w") as file:
            for name in ("t", "expected"):
                file.create_dataset(name, SHAPE, "f4", chunks=CHUNK, compression=FILTER_ID, compression_opts=OPTIONS)
            file["t"][...] = self.old
            file["expected"][...] = self.new
            self.before, self.after = stored(file["t"]), stored(file["expected"])
        self.there, self.target = OnGpu(driver, self.new), OnGpu(driver, np.zeros(SHAPE, "f4"))

    def transfer(self, name: str, file: h5py.File, values: OnGpu) -> tuple[int, str]:
        start, extents, strides = numbers(ctypes.c_uint64, (0, 0, 0)), numbers(ctypes.c_uint64, SHAPE), numbers(ctypes.c_int64, self.new.strides)
        box, reason, dataset = Box(TYPES["f4"], 3, start, extents, strides, values.address), Bytes(), file["t"]
        status = getattr(self.quire, name)(dataset.id.id, None, ctypes.byref(box), 0, ctypes.byref(reason))
        return status, reason.take(self.quire).decode()

    def write(self) -> tuple[int, str]:
        """A write that succeeds, or leaves each chunk as it was or as it is to be."""
        with h5py.File(self.path, "r+") as file:
            status, said = self.transfer("quire_h5_write", file, self.there)
            found = stored(file["t"])
        assert all(chunk in (self.before[at], self.after[at]) for at, chunk in found.items()) and found.keys() == self.before.keys()
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
            assert stored(file["t"]) == self.after
        with h5py.File(self.path, "r") as file:
            assert np.abs(file["t"][...].astype("f8") - self.new).max() <= 1e-2


def one(library: Library, folder: Path, what: str, number: int) -> bool:
    """Fails from launch or allocation `number` of a process's calls on. Whether any did."""
    driver = FailingDriver()
    # What comes first takes the most memory.
    first = (calls_on_noise if what == "one allocation" else calls_on)(driver, library)
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
    calls, boxes = calls_on(driver, library), Boxes(driver, library, folder / "elsewhere.h5")
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
        assert stored(file["t"]) == boxes.before
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
        assert stored(file["t"]) == boxes.before
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
        moved, reason, done, total = ctypes.c_void_p(), Bytes(), ctypes.c_uint64(), ctypes.c_uint64(1)
        box = Box(TYPES["f4"], 3, None, numbers(ctypes.c_uint64, SHAPE), None, values.address)
        status = getattr(quire, name)(dataset.id.id, None, ctypes.byref(box), 0, ctypes.byref(moved), ctypes.byref(reason))
        dataset.resize(smaller)
        while status == 0 and done.value < total.value:
            quire.quire_free(ctypes.byref(reason))
            quire.quire_transfer_wait(moved, 100)
            status = quire.quire_transfer_step(moved, ctypes.byref(done), ctypes.byref(total), ctypes.byref(reason))
        quire.quire_transfer_end(ctypes.byref(moved))
        return status, reason.take(quire).decode()

    with h5py.File(boxes.path, "a") as file:
        dataset = file.create_dataset("resized", SHAPE, "f4", chunks=CHUNK, maxshape=(None,) * 3, compression=FILTER_ID, compression_opts=OPTIONS)
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
        assert status == 0 and stored(dataset) == boxes.after, said
    return outcomes[0][1]


def others(library: Library, folder: Path) -> None:
    """Faults without a lack of memory."""
    elsewhere(library, folder)
    read_only(library, folder)
    out_of_the_hosts_reach(library, folder)
    print(f"a dataset that has shrunk: {resized(library, folder)}")
    print("arrays elsewhere and files for reading are errors")


def start(check: Callable[..., bool | None], *arguments: object) -> int:
    """Starts a process that opens the GPU anew: what a process has taken or lost stays so. The process is a fork of this one, which spares it the start of
    Python, and ends as a program does."""
    # The child would print what is not printed yet, too.
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        sys.exit(SOME_FAILED if check(Library(sys.argv[1]), Path(sys.argv[2]), *arguments) else NONE_FAILED)
    return child


def has_failed(child: int, what: str) -> bool:
    """Waits for a process. Whether a call has failed in it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (SOME_FAILED, NONE_FAILED), f"{what}: the process ended with {code}"
    return code == SOME_FAILED


def first_that_is_enough(what: str, step: int) -> int:
    """A number of allocations or launches with which nothing fails. Of the smaller numbers one in `step` is tried, each day others."""
    for first in range(generator(what).randrange(step), MOST, step * AT_ONCE):
        numbers = range(first, first + step * AT_ONCE, step)
        children = [start(one, what, number) for number in numbers]
        for number, failed in zip(numbers, [has_failed(child, f"{what} {number}") for number, child in zip(numbers, children)]):
            if not failed:
                return number
    raise AssertionError(f"{what}: a call takes more than {MOST}")


def main() -> None:
    has_failed(start(others), "others")
    for what, part in (("allocations", 2), ("one allocation", 2), ("kernels", 7)):
        step = 1 if is_full() else part
        number = first_that_is_enough(what, step)
        assert number > 3 * step, f"{what}: none failed"
        print(f"{what}: {number} are enough, and the calls with fewer end in order, {said()}")


if __name__ == "__main__":
    main()
