"""The functions of whole arrays of the Python package against h5py's own path: the same chunks in the file, the same values from it."""

from __future__ import annotations

import threading
import time
from typing import Any

import h5py
import h5z_quire
import numpy as np
from h5z_quire import Quire, library
from h5z_quire.strided import Strided

from array_faults import check_full_disk
from array_pairs import assert_same, bits, expect, pair, values_of
from quire_client import assert_bound, create, smooth, stored
from resident import Driver, OnGpu

TYPES = [order + kind for kind in ("f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8") for order in "<>"]
BFLOAT16 = 3


def check_same() -> None:
    """Types, options, edges, fill values, ranks, parts of chunks: the chunks' bytes are equal."""
    with h5py.File("same.h5", "w") as file:
        for dtype in TYPES:
            is_float = dtype[1] == "f"
            bounds = [Quire(abs=0.01 if is_float else 2), Quire(rel=1e-3), Quire(psnr=60), Quire(lossless=True), Quire(abs=0.5, coding="bitshuffle")]
            for number, quire in enumerate(bounds):
                check_one(file, f"{dtype}/{number}", values_of((40, 30), dtype, number), (16, 16), quire, fillvalue=(None, 7)[number % 2])
        check_bfloat16(file)
        shapes = [((1000,), (64,)), ((40, 30), (16, 30)), ((20, 21, 22), (8, 8, 8)), ((9, 8, 7, 10), (4, 4, 7, 4)), ((5, 3, 6, 7, 8), (2, 3, 4, 3, 8))]
        for shape, chunk in shapes:
            for fill in (None, -9999.0, np.nan):
                check_one(file, f"shapes/{shape}{fill}", values_of(shape, "<f4"), chunk, Quire(abs=0.01), fillvalue=fill)
        check_fill_times(file)
        check_strides(file)
        check_history(file)
        check_growing(file)


def check_one(file: h5py.File, name: str, values: np.ndarray, chunk: tuple[int, ...], quire: Quire, **options: Any) -> None:
    """Written at once; read back; a box that cuts chunks written over it; and a box alone."""
    ours, theirs = pair(file, name, values.shape, values.dtype, chunks=chunk, **quire, **options)
    box = tuple(slice(extent // 5, extent - extent // 4) for extent in values.shape)
    for part, source in ((..., values), (box, values[box][::-1].copy())):
        theirs[part] = source
        h5z_quire.write(ours, source, part, threads=2)
        assert_same(ours, theirs, f"{name} {part}")
    found = h5z_quire.read(ours, threads=3)
    assert found.dtype == values.dtype and found.tobytes() == theirs[()].tobytes() or chunks_are_cached(theirs, found)
    if name.endswith("/0") or name.startswith("shapes"):
        expected = values.copy()
        expected[box] = values[box][::-1]
        # What was written twice is off by one bound: `abs` moves no value that was rounded before.
        assert_bound(expected, found, float(quire.options.split(",")[0].partition("=")[2]), name)
    assert np.array_equal(bits(h5z_quire.read(ours, box)), bits(found[box]))
    ours, theirs = pair(file, f"{name}_box", values.shape, values.dtype, chunks=chunk, **quire, **options)
    theirs[box] = values[box]
    h5z_quire.write(ours, values[box], box)
    assert_same(ours, theirs, f"{name} a box alone")


def chunks_are_cached(dataset: h5py.Dataset, found: np.ndarray) -> bool:
    """h5py gives back what its cache holds, which was not rounded: the file itself is asked."""
    with h5py.File(dataset.file.filename, "r") as again:
        return bool(np.array_equal(bits(again[dataset.name][()]), bits(found)))


def check_bfloat16(file: h5py.File) -> None:
    """numpy has no such type: HDF5 is given the bits, and so are we."""
    named = h5py.h5t.IEEE_F16LE.copy()
    named.set_fields(15, 7, 8, 0, 7)
    named.set_ebias(127)
    values = (smooth((40, 30), "<f4").view("<u4") >> 16).astype("<u2")
    ours, theirs = pair(file, "bfloat16", values.shape, h5py.Datatype(named), chunks=(16, 16), **Quire(abs=0.0625))
    theirs.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, theirs.id.get_type())
    transfer(True, ours, values, BFLOAT16)
    assert_same(ours, theirs, "bfloat16")
    found = np.zeros_like(values)
    transfer(False, ours, found, BFLOAT16)
    assert_bound((values.astype("<u4") << 16).view("<f4"), (found.astype("<u4") << 16).view("<f4"), 0.0625, "bfloat16")


def transfer(is_write: bool, dataset: h5py.Dataset, values: np.ndarray, number: int) -> None:
    """A transfer of the library, with a type of ours."""
    going = library.Transfer(is_write, dataset.id.id, h5z_quire.datasets.hdf5(), number, (0,) * values.ndim, Strided.of_numpy(values), 2)
    try:
        going.step()
        while going.done < going.total:
            going.wait(1000)
            going.step()
    finally:
        going.end()


def check_fill_times(file: h5py.File) -> None:
    """Whether, and when, HDF5 fills new chunks."""
    values = smooth((20, 20), "<f4")
    for alloc in (h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_INCR):
        for when in (h5py.h5d.FILL_TIME_ALLOC, h5py.h5d.FILL_TIME_NEVER, h5py.h5d.FILL_TIME_IFSET):
            for fill in (None, 5.0):
                options = {"is_mandatory": False, "alloc_time": alloc, "fill_time": when, "fill": None if fill is None else np.array(fill, "<f4")}
                names = (f"fill_{alloc}_{when}_{fill}_{way}" for way in ("ours", "theirs"))
                datasets = [create(file, name, values.shape, "<f4", (16, 16), Quire(abs=0.01).cd_values, **options) for name in names]
                ours, theirs = datasets
                theirs[3:18, :18] = values[3:18, :18]
                h5z_quire.write(ours, values[3:18, :18], np.s_[3:18, :18])
                assert_same(ours, theirs, f"fill time {when}, value {fill}")
                if when != h5py.h5d.FILL_TIME_NEVER:
                    with h5py.File(file.filename, "r") as again:
                        assert np.array_equal(h5z_quire.read(ours), again[ours.name][()])


def check_strides(file: h5py.File) -> None:
    """Arrays that lie in memory in any way, and what is broadcast."""
    base = smooth((44, 62, 30), "<f4")
    ways: dict[str, np.ndarray] = {
        "every other": base[::2, ::2, :],
        "reversed": base[::-2, 61::-2, ::-1],
        "transposed": base[:30, :31, :22].transpose(2, 1, 0),
        "Fortran": np.asfortranarray(base[:22, :31]),
        "one value": np.broadcast_to(np.float32(3.25), (22, 31, 30)),
    }
    for way, values in ways.items():
        ours, theirs = pair(file, f"strides/{way}", (22, 31, 30), "<f4", chunks=(8, 8, 16), **Quire(abs=0.01))
        theirs[...] = values
        h5z_quire.write(ours, values)
        assert_same(ours, theirs, way)
        whole = h5z_quire.read(ours)
        for target in (np.zeros((30, 31, 22), "<f4").T, np.zeros((44, 62, 30), "<f4")[::2, ::-2], np.zeros((22, 31, 30), "<f4", order="F")):
            assert h5z_quire.read(ours, out=target) is target and np.array_equal(target, whole)
    ours, theirs = pair(file, "strides/row", (22, 31, 30), "<f4", chunks=(8, 8, 16), **Quire(abs=0.01))
    theirs[4, :, 2:9] = base[0, :31, :7]
    h5z_quire.write(ours, base[0, :31, :7], np.s_[4, :, 2:9])
    h5z_quire.write(theirs, 2.5, np.s_[-1])
    ours[-1] = 2.5
    assert_same(ours, theirs, "indices that drop an axis")
    assert h5z_quire.read(ours, np.s_[4, ..., 2]).shape == (31,) and h5z_quire.read(ours, (4, 5, 2)).shape == ()
    assert h5z_quire.read(ours, np.s_[5:5]).shape == (0, 31, 30)


def check_history(file: h5py.File) -> None:
    """A chunk's codebook depends on the chunks before it, so that one thread takes all chunks in their order. Both datasets are written by new threads, which
    have seen no chunk before."""
    values = smooth((64, 64), "<f8") * np.linspace(1, 50, 64)
    ours, theirs = pair(file, "history", values.shape, "<f8", chunks=(16, 16), **Quire(abs=1e-4, adapt="history"))
    for body in (lambda: theirs.__setitem__(..., values), lambda: h5z_quire.write(ours, values, threads=4)):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    file.flush()
    assert_same(ours, theirs, "adapt=history")


def check_growing(file: h5py.File) -> None:
    """A dataset that grows: the new part is written over the fill values of chunks at the old edge."""
    values = smooth((50, 20), "<f4")
    ours, theirs = pair(file, "growing", (10, 20), "<f4", chunks=(16, 16), maxshape=(None, None), **Quire(abs=0.01))
    for rows in (10, 30, 50):
        for dataset, write in ((ours, h5z_quire.write), (theirs, lambda dataset, part, at: dataset.__setitem__(at, part))):
            old = dataset.shape[0] if rows > 10 else 0
            dataset.resize((rows, 20))
            write(dataset, values[old:rows], np.s_[old:rows])
        assert_same(ours, theirs, f"{rows} rows")


def check_read() -> None:
    """Files of every driver, chunks that are missing or stored without the filter: the values are equal."""
    values = values_of((70, 50, 40), "<f4")
    plain: dict[str, Any] = {"chunks": (16, 16, 16), "fillvalue": -1.5, **Quire(abs=0.01)}
    openings: list[tuple[str, dict[str, Any]]] = [("sec2", {}), ("stdio", {"driver": "stdio"}), ("core", {"driver": "core"})]
    openings += [("user_block", {"userblock_size": 1024}), ("latest", {"libver": "latest"}), ("family", {"driver": "family", "memb_size": 1 << 20})]
    for name, options in openings:
        path = f"{name}%d.h5" if name == "family" else f"{name}.h5"
        with h5py.File(path, "w", **options) as file:
            dataset = file.create_dataset("t", values.shape, "<f4", **plain)
            dataset[:40, 10:30] = values[:40, 10:30]
            # As HDF5 leaves a chunk that an optional filter could not compress.
            raw = values[48:64, 32:48, :16]
            dataset.id.write_direct_chunk((48, 32, 0), raw.tobytes(), filter_mask=1)
            # Open for writing, and not flushed.
            first = h5z_quire.read(dataset)
            assert np.array_equal(bits(first[48:64, 32:48, :16]), bits(raw)) and first[69, 0, 0] == -1.5
        options.pop("userblock_size", None)
        with h5py.File(path, "r", **options) as file:
            dataset = file["t"]
            expected = dataset[()]
            assert np.array_equal(bits(first), bits(expected)), name
            for threads in (1, 2, 5):
                assert np.array_equal(bits(h5z_quire.read(dataset, threads=threads)), bits(expected)), name
            # So few of its chunks that they are not all listed.
            assert np.array_equal(bits(h5z_quire.read(dataset, np.s_[3:9, 12:19, 5:6])), bits(expected[3:9, 12:19, 5:6]))
        if name == "sec2":
            with h5py.File(path, "r+") as file:
                # A part of a chunk that is stored without the filter is written: then it is stored with it.
                h5z_quire.write(file["t"], values[50:60, 33:40, :4], np.s_[50:60, 33:40, :4])
                assert file["t"].id.read_direct_chunk((48, 32, 0))[0] == 0
                raw = raw.copy()
                raw[2:12, 1:8, :4] = values[50:60, 33:40, :4]
                assert_bound(raw, file["t"][48:64, 32:48, :16], 0.01, "a chunk that was stored without the filter")


def check_cache() -> None:
    """What HDF5's chunk cache holds is neither lost nor shown instead of newer values."""
    first, second = smooth((64, 64), "<f4", 1), smooth((64, 64), "<f4", 2)
    with h5py.File("cache.h5", "w", rdcc_nbytes=1 << 24) as file:
        ours, theirs = pair(file, "whole", first.shape, "<f4", chunks=(32, 32), **Quire(abs=0.01))
        for dataset in (ours, theirs):
            dataset[...] = first
        h5z_quire.write(ours, second)
        assert_bound(second, ours[()], 0.01, "an older chunk is shown")
        theirs[...] = second
        assert_same(ours, theirs, "whole chunks over cached ones")

        ours, theirs = pair(file, "parts", first.shape, "<f4", chunks=(32, 32), **Quire(abs=0.01))
        for dataset in (ours, theirs):
            # In the cache only, and not in the file yet.
            dataset[:40] = first[:40]
        assert_bound(first[:40], h5z_quire.read(ours, np.s_[:40]), 0.01, "what is cached was not read")
        h5z_quire.write(ours, second[10:50, 10:50], np.s_[10:50, 10:50])
        expected = np.zeros_like(first)
        expected[:40] = first[:40]
        expected[10:50, 10:50] = second[10:50, 10:50]
        assert_bound(expected, ours[()], 0.01, "what is cached was lost")
        assert_bound(expected, h5z_quire.read(ours), 0.01, "what is cached was not read")
        ours[0] = 7
        assert np.array_equal(h5z_quire.read(ours, np.s_[0, :]), np.full(64, 7, "<f4"))
        check_others(file, first)
    with h5py.File("cache.h5") as file:
        expected[0] = 7
        assert_bound(expected, file["parts/ours"][()], 0.01, "the file")


def check_others(file: h5py.File, values: np.ndarray) -> None:
    """While an array is written, h5py writes to other parts of its chunks, after these were fetched and before they are stored. Neither write is lost."""
    for threads in (1, 3):
        for exists in (False, True):
            dataset = file.create_dataset(f"others/{threads}{exists}", (64, 64), "<f4", chunks=(32, 32), **Quire(abs=0.01))
            if exists:
                dataset[...] = values
            others = iter([lambda: dataset.__setitem__(np.s_[:20], values[:20] + 9)])
            h5z_quire.write(dataset, values[30:] + 5, np.s_[30:], threads=threads, progress=lambda done, total: next(others, lambda: None)())
            expected = values * exists
            expected[:20], expected[30:] = values[:20] + 9, values[30:] + 5
            assert_bound(expected, h5z_quire.read(dataset), 0.01, "a write of others was lost")
            assert_bound(expected, dataset[()], 0.01, "a write of others was lost")


def check_parallel() -> None:
    """h5py's indexing inside `with h5z_quire.parallel()`."""
    values = smooth((100, 90, 80), "<f4")
    done: list[int] = []
    count = lambda now, total: done.append(total)  # noqa: E731
    with h5py.File("parallel.h5", "w") as file:
        quire = {"chunks": (32, 32, 32), **Quire(abs=0.01)}
        theirs = file.create_dataset("theirs", data=values, **quire)
        with h5z_quire.parallel(threads=2, progress=count):
            ours = file.create_dataset("group/ours", data=values, **quire)
            assert max(done) == 36 and ours.name == "/group/ours"
            assert_same(ours, theirs, "create_dataset")
            done.clear()
            whole = ours[()]
            assert max(done) == 36
            assert isinstance(whole, np.ndarray) and np.array_equal(whole, ours[...]) and np.array_equal(whole, np.array([row for row in ours]))
            for index in (np.s_[10:90, 5:80], np.s_[3], np.s_[..., 4], np.s_[-5:, 2:-2], np.s_[0:0]):
                assert np.array_equal(ours[index], whole[index]), index
            # What is left to h5py has the same results.
            done.clear()
            for index in (np.s_[::2], np.s_[[1, 5, 7]], np.s_[5, 6, 7], np.s_[:5, :5, :5]):
                assert np.array_equal(ours[index], whole[index]), index
            mask = np.zeros(values.shape, bool)
            mask[3, 4, 5] = mask[50, 60, 70] = True
            assert np.array_equal(ours[mask], whole[mask])
            assert ours.astype("f8")[()].dtype == np.float64
            assert not done
            ours[...] = values[::-1]
            assert max(done) == 36
            ours[:50] = 3.0
            ours[3] = values[3].astype("f8")
            plain = file.create_dataset("plain", data=values)
            gzip = file.create_dataset("gzip", data=values, chunks=(32, 32, 32), compression="gzip")
            checked = file.create_dataset("checked", data=values, fletcher32=True, **quire)
            for dataset in (plain, gzip):
                assert np.array_equal(dataset[()], values)
            assert_bound(values, checked[()], 0.01, "fletcher32")
            expect(IndexError, "", lambda: ours[200])
            expect((TypeError, ValueError), "", lambda: ours.__setitem__(slice(0, 10), values))
            text = file.create_dataset("text", data=np.array([b"a", b"b"]))
            assert list(text[:]) == [b"a", b"b"] and file.create_dataset("scalar", data=5)[()] == 5
        done.clear()
        assert_bound(values[3], ours[3], 0.01, "assigned as f8")
        assert np.array_equal(ours[10], np.full((90, 80), 3, "<f4")) and not done
        theirs[...] = values[::-1]


def check_threads() -> None:
    """Many threads at once, through h5py and through us; h5py's lock is free while chunks are made."""
    values = smooth((64, 64, 128), "<f4")
    failures: list[BaseException] = []
    with h5py.File("threads.h5", "w") as file:
        options = {"chunks": (16, 32, 32), **Quire(abs=0.01)}
        theirs = file.create_dataset("theirs", data=values, **options)
        expected = stored(theirs)

        def work(number: int) -> None:
            try:
                for turn in range(3):
                    dataset = file.create_dataset(f"{number}_{turn}", values.shape, "<f4", **options)
                    if number % 3 == 0:
                        dataset[...] = values
                    else:
                        h5z_quire.write(dataset, values, threads=number % 3)
                    assert_bound(values, h5z_quire.read(dataset, threads=2), 0.01, str(number))
                    assert_bound(values, dataset[()], 0.01, str(number))
            except BaseException as error:  # noqa: B902
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        for number in range(5):
            for turn in range(3):
                assert stored(file[f"{number}_{turn}"]) == expected
        check_lock_is_free(file, values)


def check_lock_is_free(file: h5py.File, values: np.ndarray) -> None:
    """Another thread uses h5py while an array is written: at each step the writer waits until it has."""
    large = np.concatenate([values] * 8)
    dataset = file.create_dataset("large", large.shape, "<f4", chunks=(64, 64, 64), **Quire(abs=0.01))
    ended = threading.Event()
    used = 0

    def use() -> None:
        nonlocal used
        while not ended.is_set():
            assert file["theirs"].shape == values.shape
            used += 1
            time.sleep(0.0005)

    def wait_for_use(done: int, total: int) -> None:
        before = used
        while used == before:
            time.sleep(0.0005)

    thread = threading.Thread(target=use)
    thread.start()
    h5z_quire.write(dataset, large, threads=1, progress=wait_for_use)
    ended.set()
    thread.join()


class Resident(OnGpu):
    """An array in a GPU's memory that says so as libraries do."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = {"shape": self.array.shape, "strides": self.array.strides, "typestr": self.array.dtype.str}
        return {**described, "data": (self.address, False), "version": 3, "stream": None}


def check_resident() -> str:
    """Arrays in a GPU's memory; why there are none."""
    info = h5z_quire.info()
    if info.backend != "cuda":
        return info.why
    driver = Driver()
    values = smooth((20, 33, 40), "<f4")
    spread = np.zeros((40, 33, 40), "<f4")[::-2]
    spread[...] = values
    with h5py.File("resident.h5", "w", rdcc_nbytes=0) as file:
        ours, theirs = pair(file, "resident", values.shape, "<f4", chunks=(16, 16, 32), fillvalue=2, **Quire(abs=0.01))
        theirs[...] = values
        h5z_quire.write(ours, Resident(driver, spread))
        assert_same(ours, theirs, "the whole, backwards in memory")
        swapped = pair(file, "swapped", values.shape, ">f8", chunks=(16, 16, 32), **Quire(rel=1e-3))
        swapped[1][...] = values
        h5z_quire.write(swapped[0], Resident(driver, values.astype(">f8")))
        assert_same(*swapped, "big-endian")
        with h5z_quire.parallel():
            # An axis is dropped, one row is broadcast, chunks are covered in part.
            ours[3, 5:30, 7:] = Resident(driver, values[0, 0, :33].copy())
            created = file.create_dataset("created", data=Resident(driver, values.copy()), chunks=(16, 16, 32), **Quire(abs=0.01))
        theirs[3, 5:30, 7:] = np.broadcast_to(values[0, 0, :33], (25, 33))
        assert_same(ours, theirs, "parts of chunks")
        assert_bound(values, created[()], 0.01, "created")
        out = Resident(driver, np.zeros((40, 33, 20), "<f4").T)
        assert h5z_quire.read(ours, out=out) is out and np.array_equal(out.fetch(), theirs[()])
        # A chunk that HDF5 has stored without the filter, and chunks that are not there.
        sparse = file.create_dataset("sparse", values.shape, "<f4", chunks=(16, 16, 32), fillvalue=-5, **Quire(abs=0.01))
        sparse.id.write_direct_chunk((0, 16, 0), values[:16, 16:32, :32].tobytes(), filter_mask=1)
        found = Resident(driver, np.zeros_like(values))
        assert np.array_equal(h5z_quire.read(sparse, out=found).fetch(), sparse[()])
        expect(ValueError, "could not be broadcast", lambda: h5z_quire.write(ours, Resident(driver, values[:7].copy())))
        freed = Resident(driver, values.copy())
        freed.free()
        expect(ValueError, "is not one of a GPU's memory", lambda: h5z_quire.write(ours, freed))
    assert h5z_quire.compress(Resident(driver, spread), "abs=0.01") == h5z_quire.compress(values, "abs=0.01")
    with h5py.File("resident.h5", "r") as file:
        before = stored(file["created"])
        expect(h5z_quire.Unsuitable, "read", lambda: h5z_quire.write(file["created"], Resident(driver, values.copy())))
        assert stored(file["created"]) == before
    check_full_disk(lambda array: Resident(driver, array.copy()))
    return ""
