"""Whole arrays into datasets of h5py and back. plugin-tests/py/whole_arrays.py compares them with h5py's own path, chunk by chunk."""

from __future__ import annotations

import contextlib
import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import h5py
import numpy as np
import pytest

import h5z_quire
from h5z_quire import Quire, Unsuitable, parallel, read, write
from h5z_quire.boxes import Box, box_of
from h5z_quire.strided import Strided
from conftest import RunPython, assert_bound, field


def test_indices_are_those_of_numpy() -> None:
    array = np.arange(5 * 6 * 7).reshape(5, 6, 7)
    boxes = (np.s_[1:4], np.s_[..., 2], np.s_[2, ..., 1:3], np.s_[:, -4:-1], np.s_[4:2], np.s_[:99, 1, 2], np.s_[1, 2, 3])
    for index in (None, (), ..., 3, -1, np.int64(2), *boxes):
        box = box_of(index, array.shape)
        expected = array[... if index is None else index]
        assert box.shape == expected.shape, index
        found = array[tuple(slice(start, start + extent) for start, extent in zip(box.start, box.extents))]
        assert np.array_equal(found.reshape(box.shape), expected), index
        assert box.with_all_axes(Strided.of_numpy(np.asarray(expected))).shape == box.extents


def test_other_indices_are_refused() -> None:
    unsuitable: list[Any] = [np.s_[::2], np.s_[::-1], [1, 2], np.array([True] * 5), True, "name", 1.5, slice(1, "a")]
    for index in unsuitable:
        with pytest.raises(Unsuitable):
            box_of(index, (5, 6))
    outside: list[Any] = [5, -6, (0, 0, 0), (..., ...)]
    for index in outside:
        with pytest.raises(IndexError):
            box_of(index, (5, 6))


def test_boxes_count_the_chunks_that_they_touch_and_know_whether_they_cut_them() -> None:
    whole, box, edge = Box((0, 0), (10, 7), (False, False)), Box((3, 0), (2, 7), (False, False)), Box((8, 4), (2, 3), (False, False))
    assert [one.chunks((4, 4)) for one in (whole, box, edge)] == [6, 4, 1]
    assert [one.cuts_chunks((4, 4), (10, 7)) for one in (whole, box, edge)] == [False, True, False]
    assert Box((0, 5), (10, 0), (False, False)).chunks((4, 4)) == 0


def test_arrays_come_back_within_the_bound(tmp_path: Path) -> None:
    values = field("f4", (40, 50, 60))
    seen: list[tuple[int, int]] = []
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", values.shape, values.dtype, chunks=(16, 16, 16), **Quire(abs=0.01))
        write(dataset, values, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (48, 48) and seen == sorted(seen)
        assert_bound(values, read(dataset), 0.01)
        out = np.zeros((50, 20), "f4")
        assert read(dataset, np.s_[7, :, 5:25], out) is out
        assert_bound(values[7, :, 5:25], out, 0.01)
    with h5py.File(tmp_path / "t.h5") as file:
        assert_bound(values, file["t"][()], 0.01)


_ENUMERATION = h5py.enum_dtype({"no": 0, "yes": 1}, basetype="i4")
_SELECTIONS: "list[Any]" = [
    # A single value.
    *[(1, 2), (-1, -1), (np.int64(1), np.uint8(2)), (..., 1, 2), (1, ..., 2), (1, 2, ...), (39, 49)],
    # Arrays, empty ones among them.
    *[(), ..., 3, -1, np.s_[3:4, 2], np.s_[:, 2], np.s_[5:20], np.s_[5:5], np.s_[9:2, 3], np.s_[0:0, 0:0], np.s_[-99:99, 3:4], np.s_[3, ..., 5:9]],
    # What is h5py's alone: steps, lists, masks, and errors.
    *[np.s_[::2], np.s_[3, ::5], np.s_[[1, 5]], np.s_[[7], 2], np.arange(40) % 3 == 0, np.s_[::-1], (40, 0), (1, 2, 3), (1.0, 2), None, (1, None), (True, 1)],
]


def _given(dataset: Any, selection: Any) -> "tuple[Any, ...]":
    """All that can be told apart: the type of the result, type, shape and bytes of its values; or the type of an error."""
    try:
        found = dataset(selection)
    except Exception as error:
        return (type(error).__name__,)
    return type(found), found.dtype, found.dtype.str, h5py.check_enum_dtype(found.dtype), found.shape, found.tobytes()


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "<i2", ">u4", "?", "<c8", ">c16", _ENUMERATION], ids=str)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_what_is_read_is_what_h5py_gives(dtype: Any, mode: str, tmp_path: Path) -> None:
    values = field("f8", (40, 50)) > 5 if np.dtype(dtype) in (np.dtype("?"), _ENUMERATION) else field(dtype, (40, 50))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("t", data=values.astype(dtype), dtype=dtype, chunks=(16, 16), **Quire(abs=0.5))
    # The second time without a chunk cache: h5py leaves it less to do.
    for cache in ({}, {"rdcc_nbytes": 0}):
        with h5py.File(tmp_path / "t.h5", mode, **cache) as file:
            dataset = file["t"]
            refused = []
            for selection in _SELECTIONS:
                expected = _given(dataset.__getitem__, selection)
                with parallel():
                    assert _given(dataset.__getitem__, selection) == expected, selection
                if selection is None:
                    continue
                found = _given(lambda given: read(dataset, given), selection)
                if found == ("Unsuitable",):
                    refused.append(selection)
                else:
                    # Errors may be of other types.
                    assert found == expected or len(found) == len(expected) == 1, selection
            assert len(refused) == 9, refused
            # Where the caller has room for the value, the room is given back.
            out = np.zeros((), dataset.dtype)
            assert read(dataset, (1, 2), out) is out and out[()] == dataset[1, 2]


@pytest.mark.parametrize("dtype", ["<c8", ">c16", "?"])
def test_complex_numbers_and_booleans_go_past_the_filter(dtype: str, tmp_path: Path) -> None:
    values = field("f4", (40, 50)) > 5 if dtype == "?" else field(dtype, (40, 50))
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", values.shape, values.dtype, chunks=(16, 16), **Quire(abs=0.01))
        write(dataset, values)
        found = read(dataset)
    with h5py.File(tmp_path / "t.h5") as file:
        assert found.dtype == values.dtype and np.array_equal(file["t"][()], found)
        chunk = file["t"].id.get_chunk_info(0)
        assert chunk.filter_mask == 0 and chunk.size < 16 * 16 * values.itemsize / 2
    if dtype == "?":
        assert np.array_equal(values, found)
    else:
        assert_bound(values, found, 0.01)


def test_a_block_counts_for_its_thread_and_its_time(tmp_path: Path) -> None:
    values, seen = field("f8", (40, 50)), []
    with h5py.File(tmp_path / "t.h5", "w") as file:
        with parallel(progress=lambda done, total: seen.append(total)):
            dataset = file.create_dataset("t", data=values, chunks=(16, 16), **Quire(abs=0.01))
            with parallel(threads=2):
                count = len(seen)
                dataset[...] = values
                assert len(seen) == count > 0
            assert_bound(values, dataset[()], 0.01)
            assert len(seen) > count
        count = len(seen)
        dataset[...] = values
        assert_bound(values, dataset[()], 0.01)
        assert len(seen) == count
        with pytest.raises(RuntimeError, match="of the caller"), parallel():
            raise RuntimeError("of the caller")


# The methods of h5py in front of which a block puts its own.
METHODS = ((h5py.Dataset, "__getitem__"), (h5py.Dataset, "__setitem__"), (h5py.Group, "create_dataset"))


def methods() -> "list[Any]":
    return [vars(owner)[name] for owner, name in METHODS]


def test_after_the_last_block_h5py_is_as_it_was() -> None:
    before = methods()
    with parallel():
        inside = methods()
        assert not set(inside) & set(before)
        with parallel(threads=2):
            assert methods() == inside
        assert methods() == inside
    assert methods() == before
    with pytest.raises(RuntimeError), parallel():
        raise RuntimeError
    assert methods() == before
    block = parallel()
    for _ in range(2):
        with block, block:
            assert parallel.is_enabled()
    assert methods() == before and not parallel.is_enabled()


def test_a_block_for_all_threads_is_begun_and_ended(tmp_path: Path) -> None:
    values, before = field("f8", (40, 50)), methods()
    seen: list[int] = []

    def ended(done: int, total: int) -> None:
        seen.extend([total] if done == total else [])

    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 16), compression=Quire(abs=0.01))

        def counted() -> int:
            count = len(seen)
            with ThreadPoolExecutor(1) as other:
                assert_bound(values, other.submit(dataset.__getitem__, ()).result(), 0.01)
            assert_bound(values, dataset[()], 0.01)
            return len(seen) - count

        parallel.disable()
        assert counted() == 0 and not parallel.is_enabled()
        try:
            parallel.enable(progress=ended)
            assert counted() == 2 and parallel.is_enabled()
            with parallel():
                # The innermost block of this thread counts here.
                assert counted() == 1
                parallel.disable()
                assert counted() == 0 and parallel.is_enabled()
                parallel.enable(threads=1, progress=ended)
                parallel.enable(threads=2, progress=ended)
            assert counted() == 2
        finally:
            parallel.disable()
        assert counted() == 0 and not parallel.is_enabled() and methods() == before


def test_a_function_may_be_decorated(tmp_path: Path) -> None:
    values, before = field("f8", (40, 50)), methods()
    seen: list[int] = []

    def ended(done: int, total: int) -> None:
        seen.extend([total] if done == total else [])

    @parallel(progress=ended)
    def read_all(dataset: Any, again: int = 3) -> Any:
        return read_all(dataset, again - 1) if again else dataset[()]

    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 16), compression=Quire(abs=0.01))
        assert_bound(values, read_all(dataset), 0.01)
        assert len(seen) == 1 and methods() == before
        with ThreadPoolExecutor(4) as threads:
            for found in threads.map(read_all, [dataset] * 8):
                assert_bound(values, found, 0.01)
        assert len(seen) == 9 and methods() == before


@pytest.mark.parametrize("ends_first", ["block", "other"])
def test_a_method_that_another_library_puts_in_front_stays(ends_first: str, tmp_path: Path) -> None:
    values, before = field("f8", (40, 50)), methods()
    calls: list[int] = []
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 16), compression=Quire(abs=0.01))
        with contextlib.ExitStack() as block:
            block.enter_context(parallel())
            ours = h5py.Dataset.__getitem__

            @functools.wraps(ours)
            def other(*arguments: Any, **keywords: Any) -> Any:
                calls.append(1)
                return ours(*arguments, **keywords)

            h5py.Dataset.__getitem__ = other
            if ends_first == "other":
                h5py.Dataset.__getitem__ = ours
        assert_bound(values, dataset[()], 0.01)
        with parallel():
            assert_bound(values, dataset[()], 0.01)
        assert len(calls) == (2 if ends_first == "block" else 0)
        if ends_first == "block":
            h5py.Dataset.__getitem__ = ours
            with parallel():
                pass
    assert methods() == before


def test_fast_slicing_of_b2h5py_goes_on_beside_a_block(tmp_path: Path) -> None:
    b2h5py = pytest.importorskip("b2h5py")
    values, before = field("f8", (40, 50)), methods()
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("t", data=values, chunks=(16, 16), compression=Quire(abs=0.01))
        for outer, inner in ((parallel, b2h5py.fast_slicing), (b2h5py.fast_slicing, parallel)):
            with outer(), inner():
                assert_bound(values, dataset[()], 0.01)
                assert b2h5py.is_fast_slicing_enabled() and parallel.is_enabled()
            assert not b2h5py.is_fast_slicing_enabled() and methods() == before


@pytest.mark.parametrize("shape", [None, (40, 50), [40, 50], np.array([40, 50]), (50, 40), 2000], ids=str)
def test_datasets_are_created_with_a_shape_of_any_kind(shape: Any, tmp_path: Path) -> None:
    values = field("f8", (40, 50))
    seen: list[int] = []
    with h5py.File(tmp_path / "t.h5", "w") as file:
        with parallel(progress=lambda done, total: seen.append(total)):
            dataset = file.create_dataset("t", shape=shape, data=values, chunks=(16,) if isinstance(shape, int) else (16, 16), **Quire(abs=0.01))
        # Values of another shape are h5py's to arrange.
        assert bool(seen) == (dataset.shape == values.shape)
        assert_bound(values, dataset[()].reshape(values.shape), 0.01)


def _both_ways(tmp_path: Path, work: "Callable[[h5py.File], Any]") -> "list[Any]":
    """What h5py's own way gives, and what a block gives: a result, or the type of an error."""
    found: list[Any] = []
    for name, block in (("plain", contextlib.nullcontext()), ("block", parallel())):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file, block:
            try:
                found.append(work(file))
            except Exception as error:
                found.append(type(error))
    return found


def test_a_block_keeps_enumerations_that_are_created_from_integers(tmp_path: Path) -> None:
    values = (field("i4", (40, 50)) > 0).astype("i4")
    enumeration = h5py.enum_dtype({"no": 0, "yes": 1}, basetype="i4")
    for data, dtype in ((values, enumeration), (values.astype(enumeration), None), (values.astype(enumeration), enumeration)):

        def create(file: h5py.File) -> Any:
            dataset = file.create_dataset("t", data=data, dtype=dtype, chunks=(16, 16), **Quire(abs=1))
            return h5py.check_enum_dtype(dataset.dtype)

        plain, block = _both_ways(tmp_path, create)
        assert plain == block == {"no": 0, "yes": 1}


def test_a_block_leaves_to_h5py_what_only_h5py_understands(tmp_path: Path) -> None:
    def dataset_of(file: h5py.File) -> Any:
        return file.create_dataset("t", (40, 50), "f4", chunks=(16, 16), **Quire(abs=1))

    def read_none(file: h5py.File) -> Any:
        return dataset_of(file)[None].shape

    def write_none(file: h5py.File) -> Any:
        dataset_of(file)[None] = field("f4", (40, 50))

    def write_pairs(file: h5py.File) -> Any:
        pairs = np.zeros((40, 50), [("r", "<f4"), ("i", "<f4")])
        dataset = file.create_dataset("pairs", data=pairs, chunks=(16, 16), **Quire(abs=1))
        dataset[...] = pairs
        return str(dataset.dtype), dataset[0, 0]

    for work in (read_none, write_none):
        assert _both_ways(tmp_path, work) == [TypeError, TypeError]
    plain, block = _both_ways(tmp_path, write_pairs)
    assert plain == block == ("complex64", 0)


@pytest.mark.parametrize("words", [(), (250,), (2, 0), (1, 2), (0x03000FFF, 1, 2), (1, 0, 0x3FF00000)], ids=str)
def test_a_block_reads_streams_beside_parameters_of_another_version(words: "tuple[int, ...]", tmp_path: Path, run_python: RunPython) -> None:
    values = field("f4", (8, 50))
    (tmp_path / "stream").write_bytes(h5z_quire.compress(values[:4], Quire(abs=0.01)))
    # Without the plugin: HDF5 then asks nobody whether the parameters are right.
    script = """
import sys, h5py
words = tuple(map(int, filter(None, sys.argv[1].split(","))))
properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
properties.set_chunk((4, 50))
properties.set_filter(33791, h5py.h5z.FLAG_OPTIONAL, words)
with h5py.File("t.h5", "w") as file:
    dataset = h5py.h5d.create(file.id, b"t", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8, 50)), properties)
    for start in ((0, 0), (4, 0)):
        dataset.write_direct_chunk(start, open("stream", "rb").read())
"""
    run_python(script, ",".join(map(str, words)), HDF5_PLUGIN_PATH="/nowhere")
    with h5py.File(tmp_path / "t.h5") as file:
        expected = file["t"][()]
        assert_bound(values[:4], expected[4:], 0.01)
        with pytest.raises(Unsuitable, match="cd_values"):
            read(file["t"])
        with parallel():
            assert np.array_equal(file["t"][()], expected)
