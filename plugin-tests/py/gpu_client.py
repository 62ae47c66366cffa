"""What test_gpu.py has done in processes of their own, as the plugin reads its settings once a process."""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, Callable, Iterator

import h5py
import numpy as np

from gpu_filter import Filter
from quire_client import FILTER_ID, absolute, assert_bound, create, nasty, smooth

BOUND = 1e-3
LAND = 1e35
# Seconds after which the plugin tries a GPU without memory again.
RETRY = 11.0


def say(text: Any) -> None:
    print(text, flush=True)


# Datasets


def fields() -> Iterator[tuple[str, np.ndarray, tuple[int, ...], float | None]]:
    """Name, values, chunks, fill value. Chunks divide no extent, so that there are partial ones."""
    yield "smooth", smooth((130, 70, 100), "<f4"), (64, 64, 64), None
    yield "smooth_f8", smooth((700, 900), "<f8"), (512, 512), None
    yield "smooth_four", smooth((5, 40, 50, 60), "<f4", 3), (2, 32, 32, 32), None
    for dtype in ("<f4", ">f4", "<f8", ">f8"):
        yield f"nasty_{dtype[1:]}_{'big' if dtype[0] == '>' else 'little'}", nasty((90, 70, 60), dtype, 5), (64, 64, 32), None
    sea = smooth((3, 360, 700), "<f4", 7)
    sea[:, 100:250, 300:500] = LAND
    sea[:, smooth((360, 700), "<f4", 8) > 1.2] = LAND
    yield "sea", sea, (1, 180, 512), LAND
    holes = smooth((600, 700), "<f8", 9)
    holes[np.random.default_rng(1).random(holes.shape) < 0.1] = np.nan
    holes[:50] = np.nan
    yield "holes", holes, (256, 512), None
    yield "constant", np.full((512, 600), 3.25, "<f4"), (256, 256), None
    yield "nothing", np.full((300, 300), np.nan, "<f4"), (256, 256), None
    yield "eighths", (np.round(8 * smooth((500, 600), "<f4", 11)) / 8).astype("<f4"), (256, 256), None
    bits = np.random.default_rng(2).integers(0, 1 << 32, 300_000, dtype=np.uint32)
    yield "noise", bits.view("<f4"), (100_000,), None
    # More than the ring through which the GPU gets its data.
    yield "long", smooth((12_000_000,), "<f4", 13), (11_000_000,), None


def write(path: str) -> None:
    """Datasets whose chunks are worth a GPU."""
    with h5py.File(path, "w") as file:
        for name, values, chunks, fill in fields():
            file.create_dataset(
                name, data=values, chunks=chunks, fillvalue=fill, compression=FILTER_ID, compression_opts=absolute(BOUND)
            )
    say("done")


def check(path: str) -> None:
    with h5py.File(path, "r") as file:
        for name, values, _, fill in fields():
            read = file[name][()]
            assert_bound(values, read, BOUND, name)
            if fill is not None:
                assert ((values == values.dtype.type(fill)) == (read == read.dtype.type(fill))).all(), f"{name}: the mask changed"
    say("done")


def field() -> np.ndarray:
    """Two chunks of 2 MiB."""
    return smooth((64, 128, 128), "<f4")


def new(file: h5py.File, name: str) -> h5py.Dataset:
    """A dataset for `field`, whose filter is mandatory: HDF5 would pass over an error of an optional one."""
    return create(file, name, (64, 128, 128), "<f4", (32, 128, 128), absolute(BOUND))


def use(path: str) -> str:
    """Writes and reads chunks of 2 MiB; the error, if HDF5 reports one."""
    values = field()
    try:
        with h5py.File(path, "w") as file:
            new(file, "x")[...] = values
            file.flush()
        with h5py.File(path, "r") as file:
            assert_bound(values, file["x"][()], BOUND, path)
    except (OSError, ValueError, RuntimeError) as error:
        return f"error: {error}"
    return "done"


def read(path: str) -> str:
    """Reads a file that is there."""
    try:
        with h5py.File(path, "r") as file:
            file["x"][()]
    except (OSError, ValueError, RuntimeError) as error:
        return f"error: {error}"
    return "done"


def fails(path: str) -> None:
    """The filter is mandatory, and a launch for its second chunk fails; then another dataset is created."""
    with h5py.File(path, "w") as file:
        dataset = new(file, "x")
        dataset[...] = field()
        file.flush()
        say(f"stored bytes: {[dataset.id.get_chunk_info(number).size for number in range(2)]}")
        try:
            new(file, "y")
        except ValueError as error:
            say(f"next dataset: {error}")
    say("closed")


def check_failed(path: str) -> None:
    """Reads what `fails` has written."""
    values = field()
    with h5py.File(path, "r") as file:
        # A chunk that is stored needs no GPU.
        assert (file["x"][32:] == values[32:]).all(), "the second chunk is not stored bit for bit"
        try:
            first = file["x"][:32]
        except OSError as error:
            return say(f"error: {error}")
    assert_bound(values[:32], first, BOUND, path)
    say("done")


# Processes


def fork(path: str) -> None:
    """Forks after the filter was used; child and parent go on."""
    say(f"parent: {use(path)}")
    child = multiprocessing.get_context("fork").Process(target=lambda: say(f"child: {use(path + '.child')}"))
    child.start()
    child.join(120)
    say(f"child ended with {child.exitcode}")
    say(f"parent: {use(path)}")


def exit_without_closing(path: str) -> None:
    file = h5py.File(path, "w", rdcc_nbytes=64 << 20)
    values = smooth((64, 128, 128), "<f4")
    dataset = file.create_dataset("x", values.shape, "<f4", chunks=(32, 128, 128), compression=FILTER_ID, compression_opts=(2, 3))
    dataset[...] = values
    globals()["kept"] = (file, dataset)
    say("done")


def launches(library: str) -> None:
    """How many graphs opening the GPU launches; for the driver of c/failing_cuda.c."""
    # Loaded first: the driver behind it has the same name.
    driver, plugin, info = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(library), (ctypes.c_size_t * 2)()
    # Opens the GPU.
    assert plugin.quire_info(info) == 0
    plugin.quire_free(info)
    say(driver.quire_test_launched())


# Memory


def fill_gpu(leave: int) -> list[Any]:
    """Takes all of the GPU's memory but `leave` bytes, as far as that can be had."""
    import torch

    held, piece = [], 1 << 40
    while piece >= 1 << 20:
        free = torch.cuda.mem_get_info()[0] - leave
        piece = min(piece, free)
        if piece < 1 << 20:
            break
        try:
            held.append(torch.empty(piece, dtype=torch.uint8, device="cuda"))
        except RuntimeError:  # torch.cuda.OutOfMemoryError is one
            piece //= 2
    say(f"free: {torch.cuda.mem_get_info()[0] >> 20} MiB")
    return held


def use_again(path: str, access: Callable[[str], str], since: float) -> None:
    """Uses the filter when a line has come and a GPU is tried again that had no memory at the time `since`."""
    sys.stdin.readline()
    time.sleep(max(0.0, since + RETRY - time.monotonic()))
    say(f"free again: {access(path)}")


def full_memory(path: str, leave: str, access: Callable[[str], str] = use) -> float:
    """When the filter was used."""
    import torch

    torch.cuda.init()
    held = fill_gpu(int(leave) << 20)
    outcome, used = access(path), time.monotonic()
    del held
    torch.cuda.empty_cache()
    say(f"full: {outcome}")
    return used


def memory(path: str, leave: str, access: Callable[[str], str] = use) -> None:
    """torch takes all but so many MiB of the GPU's memory, the filter is used, torch gives the memory back; then as `wait`."""
    use_again(path, access, full_memory(path, leave, access))


def memory_for_reading(path: str, leave: str) -> None:
    """A chunk that cannot be compressed is stored: errors are seen in reading."""
    memory(path, leave, read)


def hold() -> None:
    """Takes all of the GPU's memory until a line comes."""
    held = fill_gpu(0)
    say("ready")
    sys.stdin.readline()
    del held


def wait(path: str) -> None:
    """Uses the filter, waits for a line and until a GPU is tried again, uses it once more."""
    outcome, used = use(path), time.monotonic()
    say(f"full: {outcome}")
    use_again(path, use, used)


# Calls


CHUNK_SHAPE = (128, 128, 128)  # 8 MiB


def to_and_fro(filter: Filter, chunk: np.ndarray, times: int) -> str:
    """Hash of the stream and of the decoded chunk, which never changes."""
    expected = None
    for turn in range(times):
        _, stream = filter.compress(chunk, BOUND)
        # One call in four has no room in its buffer, and takes another path. The page faults of more calls would hide what is measured.
        _, back = filter.decompress(stream, chunk, has_room=turn % 4 > 0)
        # Samples see a difference and take no time; the hash at the end sees all.
        found = (stream.size, stream[::61].tobytes(), back.reshape(-1)[::4099].tobytes())
        assert expected in (None, found), f"turn {turn}: other bytes than before"
        expected = found
    assert_bound(chunk, back, BOUND, "to and fro")
    return hashlib.sha256(stream.tobytes() + back.tobytes()).hexdigest()


def calls(library: str, times: str) -> None:
    """Prints `ready`, waits for a line, then so many calls to and fro; seconds, and a sum of the bytes."""
    filter, chunk = Filter(library), smooth(CHUNK_SHAPE, "<f4")
    to_and_fro(filter, chunk, 2)
    say("ready")
    sys.stdin.readline()
    start = time.perf_counter()
    digest = to_and_fro(filter, chunk, int(times))
    say(json.dumps({"seconds": time.perf_counter() - start, "digest": digest}))


def threads(library: str, times: str) -> None:
    """The same by 8 threads with so many calls each, then by one with all of them."""
    chunks = [smooth(CHUNK_SHAPE, "<f4", seed) for seed in range(8)]
    filters = [Filter(library) for _ in chunks]

    def run(number: int) -> str:
        return to_and_fro(filters[number], chunks[number], int(times))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
        start = time.perf_counter()
        together = list(pool.map(run, range(8)))
        parallel = time.perf_counter() - start
    start = time.perf_counter()
    alone = [run(number) for number in range(8)]
    say(json.dumps({"together": parallel, "alone": time.perf_counter() - start, "same": together == alone, "digests": alone}))


def state() -> dict[str, int]:
    """What must not grow from call to call: threads, file descriptors, and free memory of the GPU where torch can tell."""
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    found = {"threads": int(status["Threads"]), "descriptors": len(os.listdir("/proc/self/fd"))}
    if "torch" in sys.modules:
        found["gpu_mib"] = sys.modules["torch"].cuda.mem_get_info()[0] >> 20
    return found


def warm(library: str) -> None:
    """What calls cost when everything is there."""
    try:
        import torch

        torch.cuda.mem_get_info()
    except ImportError:
        pass
    filter, chunk = Filter(library), smooth((64, 64, 64), "<f4")
    first, stream = filter.compress(chunk, BOUND)
    for _ in range(5):
        filter.compress(chunk, BOUND)
        filter.decompress(stream, chunk)
    before = state()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(200):
        times[0].append(filter.compress(chunk, BOUND)[0])
        times[1].append(filter.decompress(stream, chunk)[0])
    report = {"first": first, "compress": median(times[0]), "decompress": median(times[1]), "slowest": max(*times[0], *times[1])}
    say(json.dumps({**report, "before": before, "after": state()}))

