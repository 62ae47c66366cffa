"""Datasets with every chunk index of HDF5, and with chunks missing: every reader finds each chunk where h5py finds it.

Three versions of HDF5 share the cases, each day in another way, and take all of them with QUIRE_FULL_MATRIX=1.

HDF5's list of chunks (H5Dchunk_iter, H5Dget_chunk_info, H5Dget_chunk_info_by_coord) has wrong offsets for an extensible array whose unlimited axis is not
the first one.
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

import h5py
import numpy as np
import pytest

from conftest import PYTHONS, Ended, Environment, Python
from quire_client import FILTER_ID, client, create
from sampling import is_taken

Index = tuple[int, ...]
Shape = tuple[Optional[int], ...]

BTREE, SINGLE, IMPLICIT, FIXED_ARRAY, EXTENSIBLE_ARRAY, BTREE_2 = range(6)
#: What `libver` makes of the matrix, without a filter.
NEW = {SINGLE, IMPLICIT, FIXED_ARRAY, EXTENSIBLE_ARRAY, BTREE_2}
LIBVERS: dict[str, tuple[Any, set[int]]] = {
    "earliest": (("earliest", "latest"), {BTREE}),
    "v108": (("v108", "v108"), {BTREE}),
    "v110": (("v110", "v110"), NEW),
    "latest": ("latest", NEW),
}
#: Shapes of datasets and of their chunks, which have at least 2 KiB and end beyond the dataset.
SHAPES: list[tuple[Index, Index]] = [((1100,), (256,)), ((50, 70), (16, 24)), ((10, 14, 26), (4, 6, 12)), ((5, 6, 7, 20), (2, 4, 4, 9))]
LOSSLESS = (0,)
CPU = {"QUIRE_BACKEND": "cpu"}


class Case(NamedTuple):
    name: str
    shape: Index
    chunk: Index
    maxshape: Shape
    #: Whether chunks are missing.
    has_holes: bool
    #: Whether all values of a chunk are its number, so that all streams have one length.
    is_constant: bool

    @property
    def offsets(self) -> list[Index]:
        """Of the chunks that are written, the last axis fastest."""
        grid = itertools.product(*(range(0, extent, side) for extent, side in zip(self.shape, self.chunk)))
        return [offset for number, offset in enumerate(grid) if not (self.has_holes and number % 3 == 1)]

    def box(self, offset: Index) -> tuple[slice, ...]:
        return tuple(slice(first, min(first + side, extent)) for first, side, extent in zip(offset, self.chunk, self.shape))

    @property
    def values(self) -> np.ndarray:
        values = np.full(self.shape, -1.0)
        ramp = np.arange(values.size, dtype="f8").reshape(self.shape)
        for number, offset in enumerate(self.offsets):
            box = self.box(offset)
            values[box] = number if self.is_constant else ramp[box]
        return values


def cases_of(share: int | str) -> list[Case]:
    """The cases of a share, which has every kind of index: three cases in a row have a single chunk."""
    return [case for number, case in enumerate(all_cases()) if is_taken("chunk indices", number, int(share), len(PYTHONS))]


def all_cases() -> Iterator[Case]:
    for shape, chunk in SHAPES:
        larger = tuple(2 * extent + side for extent, side in zip(shape, chunk))
        maxshapes: dict[str, Shape] = {"fixed": shape, "may grow": larger, "all unlimited": (None,) * len(shape)}
        for axis in range(len(shape)):
            maxshapes[f"axis {axis}"] = (*shape[:axis], None, *shape[axis + 1 :])
            maxshapes[f"axis {axis}, others may grow"] = (*larger[:axis], None, *larger[axis + 1 :])
        for (what, maxshape), has_holes, is_constant in itertools.product(maxshapes.items(), (False, True), (False, True)):
            holes, kind = "holes" if has_holes else "whole", "constant" if is_constant else "ramp"
            yield Case(f"{len(shape)} {what} {holes} {kind}", shape, chunk, maxshape, has_holes, is_constant)
    yield Case("single", (16, 24), (16, 24), (16, 24), False, False)
    yield Case("single, of one axis", (300,), (300,), (300,), False, True)
    yield Case("single, of three axes", (8, 9, 10), (8, 9, 10), (8, 9, 10), False, False)
    yield Case("longer than the dataset", (16, 24), (20, 30), (20, 30), False, False)


def new(file: h5py.File, case: Case, is_filtered: bool, is_early: bool = False) -> h5py.Dataset:
    words, early = LOSSLESS if is_filtered else None, h5py.h5d.ALLOC_TIME_EARLY if is_early else None
    dataset = create(file, case.name, case.shape, "<f8", case.chunk, words, is_mandatory=False, maxshape=case.maxshape, fill=-1.0, alloc_time=early)
    values = case.values
    for offset in case.offsets:
        dataset[case.box(offset)] = values[case.box(offset)]
    return dataset


def index_of(dataset: h5py.Dataset) -> int:
    """The kind of chunk index."""
    from h5py import defs

    found = ctypes.c_int(-1)
    assert ctypes.CDLL(defs.__file__).H5Dget_chunk_index_type(ctypes.c_int64(dataset.id.id), ctypes.byref(found)) >= 0
    return found.value


def matrix(share: str) -> None:
    """Writes the files of this HDF5, and compares the readers of the package with h5py's own reading."""
    cases = cases_of(share)
    for name, (libver, indices) in LIBVERS.items():
        found = set()
        with h5py.File(f"{name}.plain.h5", "w", libver=libver) as plain, h5py.File(f"{name}.h5", "w", libver=libver) as file:
            for case in cases:
                # An early allocation of datasets that cannot grow makes the implicit index. It has no holes.
                found.add(index_of(new(plain, case, False, not case.has_holes)))
                found.add(index_of(new(file, case, True)))
        assert found == indices, (name, found)
        for mode in ("r", "r+"):
            with h5py.File(f"{name}.h5", mode) as file, h5py.File(f"{name}.plain.h5", mode) as plain:
                for case in cases:
                    label = f"{client()}: libver {name}, opened {mode}: {case.name}, maxshape {case.maxshape}"
                    check(file[case.name], case, label)
                    check_offsets(plain[case.name], case, label)


def check(dataset: h5py.Dataset, case: Case, label: str) -> None:
    import h5z_quire

    expected = dataset[...]
    assert np.array_equal(expected, case.values), f"{label}: h5py"
    shifted = tuple(slice(extent // 5, extent - extent // 4) for extent in case.shape)
    last = tuple(slice(extent - 1, extent) for extent in case.shape)
    for box in (np.s_[...], shifted, last, (case.shape[0] - 1, *shifted[1:]), (*shifted[:-1], case.shape[-1] - 1)):
        assert np.array_equal(h5z_quire.read(dataset, box, threads=2), expected[box]), f"{label}: read {box}"
        with h5z_quire.parallel(threads=2):
            assert np.array_equal(dataset[box], expected[box]), f"{label}: parallel {box}"
    assert np.array_equal(through_c(dataset), expected), f"{label}: quire_h5_read"
    rows = h5z_quire.inspect(dataset)
    assert [row.offset for row in rows] == case.offsets, f"{label}: inspect"
    for row in rows:
        assert row.bytes == len(dataset.id.read_direct_chunk(row.offset)[1]), f"{label}: inspect, chunk at {row.offset}"


def check_offsets(dataset: h5py.Dataset, case: Case, label: str) -> None:
    from h5z_quire import datasets

    assert np.array_equal(dataset[...], case.values), f"{label}: h5py, without the filter"
    assert datasets.chunk_offsets(dataset) == case.offsets, f"{label}: chunks without the filter"


def through_c(dataset: h5py.Dataset) -> np.ndarray:
    from h5z_quire import library
    from h5z_quire.datasets import hdf5
    from h5z_quire.element_types import type_number_in_file

    values, rank = np.zeros(dataset.shape), dataset.ndim
    number = type_number_in_file(values.dtype)
    indices = ctypes.c_uint64 * rank
    box = library._Box(number, rank, None, indices(*dataset.shape), None, values.ctypes.data, None)
    library._LIBRARY.quire_h5_read.argtypes = library._LIBRARY.quire_h5_begin_read.argtypes[:4] + library._LIBRARY.quire_h5_begin_read.argtypes[5:]
    library._call(library._LIBRARY.quire_h5_read, dataset.id.id, hdf5(), ctypes.byref(box), 2)
    return values


def resident(share: str) -> str:
    """Reads into a GPU's memory; why it cannot."""
    import h5z_quire
    from resident import Driver
    from whole_arrays import Resident

    info = h5z_quire.info()
    if info.backend != "cuda":
        return info.why
    driver, cases = Driver(), cases_of(share)
    with h5py.File("resident.h5", "w", libver="latest") as file:
        for case in cases:
            new(file, case, True)
    for mode in ("r", "r+"):
        with h5py.File("resident.h5", mode) as file:
            for case in cases:
                target = Resident(driver, np.zeros(case.shape))
                h5z_quire.read(file[case.name], out=target)
                assert np.array_equal(target.fetch(), case.values), f"{client()}: opened {mode}: {case.name} into a GPU's memory"
                target.free()
    return ""


def alter(path: str, share: str) -> None:
    """Changes a value of the last chunk of each dataset, which a wrong list leaves out or puts elsewhere."""
    with h5py.File(path, "r+") as file:
        for case in cases_of(share):
            file[case.name][case.offsets[-1]] += 1


def check_repacked(path: str, share: str) -> None:
    cases = cases_of(share)
    with h5py.File(path) as copy:
        assert set(copy) == {case.name for case in cases}
        for case in cases:
            dataset = copy[case.name]
            assert np.array_equal(dataset[...], case.values) and dataset.maxshape == case.maxshape, case.name


def check_command_line(python: Python, quire: Callable[..., Ended], name: str, share: int) -> None:
    """What the command line makes of the files of `matrix`."""

    def run(*arguments: object, code: int = 0) -> Any:
        return quire(*arguments, "--json", code=code).json

    cases = cases_of(share)
    file, plain, altered, packed = (f"{name}{kind}.h5" for kind in ("", ".plain", ".altered", ".packed"))
    chunks = {found["name"].rpartition(":/")[2]: found["chunks"] for found in run("inspect", file)["datasets"]}
    verified = {found["path"].lstrip("/"): found for found in run("verify", plain, file)["datasets"]}
    for case in cases:
        assert [tuple(chunk["corner"]) for chunk in chunks[case.name]] == case.offsets, f"inspect {case.name}"
        written = sum(int(np.prod([part.stop - part.start for part in case.box(offset)])) for offset in case.offsets)
        found = verified[case.name]
        assert (found["values"], found["greatest_error"], found["problem"]) == (written, 0, None), f"verify {case.name}: {found}"
    folder = python.run.folder
    shutil.copy(folder / file, folder / altered)
    python(alter, altered, share, env=CPU)
    verified = {found["path"].lstrip("/"): found for found in run("verify", plain, altered, code=1)["datasets"]}
    for case in cases:
        found = verified[case.name]
        assert found["beyond_bound"] == 1 and found["problem"], f"verify finds no other value in {case.name}: {found}"
    # The second time most datasets are copied as they are, and their chunks are compared as they are stored.
    for only in ("/*", "/* whole ramp"):
        assert run("repack", plain, packed, "--force", "--lossless", "--only", only)["files"][0]["verified"], f"repack of {only}"
        python(check_repacked, packed, share, env=CPU)
    trials = {trial["dataset"].rpartition(":/")[2]: trial for trial in run("advise", plain, "--lossless", "--min-size", 0)["trials"]}
    for case in cases:
        trial = trials[case.name]
        assert trial["chunks"] == trial["of_chunks"] and trial["greatest_error"] == 0, f"advise {case.name}: {trial}"
        assert trial["bytes"] == case.values.nbytes, f"advise {case.name}: {trial}"


def many() -> None:
    """Ten times the chunks take about ten times as long, not a hundred times, whichever index; measured by the CPU's time, with chunks missing."""
    from h5z_quire import datasets, read, write

    for libver, maxshape in (("earliest", (None, None)), ("latest", (8, None)), ("latest", (None, 10**6)), ("latest", (None, None)), ("latest", (8, 10**6))):
        took = []
        for columns in (1_000, 10_000):
            with h5py.File("many.h5", "w", libver=libver) as file:
                dataset = file.create_dataset("t", (8, columns), "u1", chunks=(4, 1), maxshape=maxshape, compression=FILTER_ID, compression_opts=LOSSLESS)
                write(dataset, np.ones(dataset.shape, "u1"))
                dataset[:4, 7] = 2
                # Chunks that are missing, and one far away.
                dataset.resize((8, columns + 1000))
            with h5py.File("many.h5") as file:
                dataset = file["t"]
                start = time.process_time()
                assert len(datasets.chunk_offsets(dataset)) == 2 * columns
                values = read(dataset, threads=1)
                took.append(time.process_time() - start)
                assert values[:4, 7].tolist() == [2] * 4 and values[:, :columns].sum() == 8 * columns + 4 and not values[:, columns:].any()
        print(f"{client()}: libver {libver}, maxshape {maxshape}: {took[0]:.2f} s for 2,000 chunks, {took[1]:.2f} s for 20,000")
        assert took[1] < 40 * took[0] + 1, "the time grows with the square of the chunks"


def test_chunks_are_where_h5py_finds_them(
    python: Python, pythons: dict[str, Python], package: Environment, quire: Callable[..., Ended], debian: Python
) -> None:
    share = [*pythons.values()].index(python)
    python(matrix, share, env={**package, **CPU})
    for name in LIBVERS:
        # The command line reads by Debian's HDF5 1.10, which does not know all that newer ones write.
        if name != "latest" or python == debian:
            check_command_line(python, quire, name, share)


def test_chunks_are_where_h5py_finds_them_in_a_gpus_memory(newest: Python, package: Environment, emulated_driver: Path) -> None:
    why = newest(resident, 0, env={**package, "LD_LIBRARY_PATH": str(emulated_driver)}).json
    if why:
        pytest.skip(f"no GPU's memory: {why}")


def test_many_chunks_take_time_in_proportion(python: Python, package: Environment) -> None:
    python(many, env={**package, **CPU})
