"""Whole arrays into datasets of h5py and back. plugin-tests/py/whole_arrays.py compares them with h5py's own path, chunk by chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from h5z_quire import Quire, Unsuitable, parallel, read, write
from h5z_quire.boxes import Box, box_of
from h5z_quire.strided import Strided
from conftest import assert_bound, field


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
